"""The versions of SDFormat, and what each of them means differently.

Old files are not rewritten to the newest version: the few rules that changed are asked for where they matter.
"""

from __future__ import annotations

import math
import re
from typing import NamedTuple

from ..cursor import Cursor


class Version(NamedTuple):
    """The version a file declares, such as 1.9."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"

    @property
    def axes_are_in_the_model_frame(self) -> bool:
        """Before 1.5 every joint axis was given in the model's frame."""
        return self < (1, 5)

    @property
    def knows_use_parent_model_frame(self) -> bool:
        """Up to 1.6 a flag put an axis into the model's frame; since 1.7 `expressed_in` names any frame."""
        return self < (1, 7)

    @property
    def poses_name_a_frame(self) -> bool:
        """Up to 1.6 the attribute `relative_to` of a pose was called `frame`."""
        return self < (1, 7)

    @property
    def gravity_is_in_physics(self) -> bool:
        """Up to 1.5 gravity and the magnetic field stood inside `<physics>`."""
        return self < (1, 6)

    @property
    def names_are_unique_among_siblings(self) -> bool:
        """Since 1.7 a link, a joint and a frame of one model may not share a name, and some names are reserved."""
        return self >= (1, 7)

    @property
    def scopes_are_closed(self) -> bool:
        """Since 1.8 `::` is no part of a name, and a nested model cannot refer to what is outside of it."""
        return self >= (1, 8)

    @property
    def default_bitmask(self) -> int:
        """With which shapes a shape collides if it does not say."""
        return 0xFFFF if self >= (1, 5) else 1

    @property
    def default_screw_pitch(self) -> float:
        """Travel of a screw without a pitch [m per revolution]: the default was one radian per metre, left-handed."""
        return 1.0 if self >= (1, 10) else thread_pitch_to_travel(1.0)


OLDEST = Version(1, 4)
NEWEST = Version(1, 12)


def thread_pitch_to_travel(thread_pitch: float) -> float:
    """Metres per revolution, right-handed, of the old `thread_pitch` in radians per metre, left-handed."""
    return -2.0 * math.pi / thread_pitch


def parse_version(text: str | None) -> Version | None:
    """A version from its text; None where it is none."""
    found = re.fullmatch(r"\s*(\d{1,3})\.(\d{1,3})(\.\d+)?\s*", text or "", re.ASCII)
    return Version(int(found.group(1)), int(found.group(2))) if found else None


def read_version(root: Cursor) -> Version:
    """The version of a file, from its root element; with a diagnostic where it is missing or not a known one."""
    text = root.text_of("version")
    version = parse_version(text)
    if version is None:
        if text is None:
            problem = f"<{root.tag}> does not say which version of SDFormat it is"
        else:
            problem = f"{text[:40]!r} is not a version of SDFormat"
        root.error("version", problem, f'{NEWEST} is assumed; add version="{NEWEST}"')
        return NEWEST
    if version < OLDEST:
        root.warning("version", f"SDFormat {version} is older than {OLDEST}; it is read by the rules of {OLDEST}")
        return OLDEST
    if version > NEWEST:
        root.warning("version", f"SDFormat {version} is newer than {NEWEST}; it is read by the rules of {NEWEST}")
        return NEWEST
    return version
