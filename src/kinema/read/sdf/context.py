"""What parsing an element needs to know beside the element itself, and the small things every element has."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from kinema.description import Extra
from kinema.foundation import Array, Pose, vector
from kinema.words import sdf

from ..cursor import Cursor
from ..xml_text import XmlElement
from .elements import SCOPE, WORLD, PoseElement
from .library import Library
from .version import Version

MAX_MODEL_DEPTH = 64
"""How deep models may be nested in models; real files stay below ten."""


@dataclass(frozen=True, slots=True)
class Context:
    """The file an element stands in, and how deep."""

    version: Version
    library: Library
    depth: int = 0
    """How many models are around."""
    loose: list[Extra] = field(default_factory=list)
    """What was left over in small elements (a pose, a shape); the next named element around takes it."""

    def deeper(self) -> Context:
        """Inside one more model."""
        return replace(self, depth=self.depth + 1)

    def close(self, cursor: Cursor) -> None:
        """End a small element: what was not asked for goes to the named element around it."""
        self.loose.extend(finish(cursor))

    def finish(self, cursor: Cursor) -> list[Extra]:
        """End a named element: everything that was not asked for in it and in the small elements inside."""
        extras = [*self.loose, *finish(cursor)]
        self.loose.clear()
        return extras


# -- what is not typed -------------------------------------------------------------------------------------------------


def keep(cursor: Cursor, *tags: str, why: str = "it has no meaning outside of its simulator") -> list[Extra]:
    """Children that are known but have no typed place: kept verbatim, with a note each."""
    kept: list[Extra] = []
    for child in cursor.children(*tags):
        kept.append(verbatim(child))
        name = child.element.attributes.get("name")
        what = f'<{child.tag}> "{name}"' if name else f"<{child.tag}>"
        child.note("kept", f"{what} of {label(cursor)} is kept as it is: {why}")
    return kept


def verbatim(cursor: Cursor) -> Extra:
    """The element as it stands in its file."""
    return Extra(sdf.FORMAT, cursor.tag, cursor.element.verbatim, cursor.origin)


def finish(cursor: Cursor) -> list[Extra]:
    """Everything that was not asked for, kept verbatim: custom elements with a note, unknown ones with a warning."""
    for name, meaning in sdf.OWN_NAMESPACE.items():
        if cursor.element.attributes.get(name) == meaning:
            cursor.seen.add(f"@{name}")  # what is in it was read
    custom = [c.tag for c in cursor.element.children if ":" in c.tag and c.tag not in cursor.seen]
    custom += [f"@{a}" for a in cursor.element.attributes if ":" in a]
    for tag in dict.fromkeys(c for c in custom if not c.startswith("@xmlns")):
        cursor.note(
            "custom-element", f"{tag!r} in {label(cursor)} is an extension of some program and is kept as it is"
        )
    return cursor.finish(quiet=custom)


def label(cursor: Cursor) -> str:
    """How a message calls an element: `joint "elbow"`, or `<limit>` where it has no name."""
    name = cursor.element.attributes.get("name")
    return f'{cursor.tag} "{name}"' if name else f"<{cursor.tag}>"


# -- names -------------------------------------------------------------------------------------------------------------


def read_name(cursor: Cursor, context: Context) -> tuple[str, bool]:
    """An element's name and whether it is made up, after a look at what names may be."""
    text = cursor.text_of("name")
    if text is None or not text.strip():
        cursor.error("missing-name", f"<{cursor.tag}> has no name", f"{cursor.tag!r} is assumed")
        return cursor.tag, True
    name = text.strip()
    if is_reserved(name):
        hint = "names such as 'world' and '__model__' stand for frames of the format itself"
        report = cursor.error if context.version.names_are_unique_among_siblings else cursor.warning
        report("reserved-name", f"<{cursor.tag}> is called {name!r}, which is a reserved name", hint)
    if SCOPE in name and context.version.scopes_are_closed:
        hint = f"since SDFormat 1.8 {SCOPE!r} only stands between the names of nested models"
        cursor.error("scoped-name", f"{label(cursor)} has {SCOPE!r} in its name", hint)
    return name, False


def is_reserved(name: str) -> bool:
    """Whether the format keeps a name for itself."""
    return name == WORLD or (len(name) >= 4 and name.startswith("__") and name.endswith("__"))


# -- values ------------------------------------------------------------------------------------------------------------


def child_number(cursor: Cursor, tag: str, default: float, *, finite: bool = True) -> float:
    """The text of a child as a number; an empty or absent child is the default."""
    child = cursor.child(tag)
    return default if child is None else number(child, default, finite=finite)


def optional_number(cursor: Cursor, tag: str) -> float | None:
    """The text of a child as a number, or None where there is no such child."""
    child = cursor.child(tag)
    return None if child is None else number(child, 0.0)


def number(cursor: Cursor, default: float, *, finite: bool = True) -> float:
    """An element's text as a number; NaN never is one, infinity only where `finite` is False."""
    if not cursor.text:
        return default
    value = cursor.value(default)
    if math.isnan(value) or (finite and math.isinf(value)):
        cursor.error(
            "not-finite", f"<{cursor.tag}>: {cursor.text[:40]!r} is not a usable number", f"{default:g} is assumed"
        )
        return default
    return value


def child_vector(cursor: Cursor, tag: str, default: Sequence[float]) -> Array:
    """The text of a child as finite numbers; an empty or absent child is the default."""
    child = cursor.child(tag)
    return vector(default) if child is None else numbers(child, default)


def numbers(cursor: Cursor, default: Sequence[float]) -> Array:
    """An element's text as finite numbers, as many as the default has."""
    if not cursor.text:
        return vector(default)
    values = cursor.values(default)
    if not np.isfinite(values).all():
        assumed = " ".join(f"{d:g}" for d in default)
        cursor.error("not-finite", f"<{cursor.tag}>: {cursor.text[:60]!r} has no finite value", f"{assumed} is assumed")
        return vector(default)
    return values


def child_color(cursor: Cursor, tag: str) -> tuple[float, float, float, float] | None:
    """The text of a child as red, green, blue and, where it is given, alpha."""
    child = cursor.child(tag)
    if child is None or not child.text:
        return None
    values = numbers(child, (0.0, 0.0, 0.0, 1.0) if len(child.text.split()) != 3 else (0.0, 0.0, 0.0)).tolist()
    return (values[0], values[1], values[2], values[3] if len(values) == 4 else 1.0)


def child_integer(cursor: Cursor, tag: str) -> int | None:
    """The text of a child as a whole number, decimal or `0x...`; None where there is none."""
    child = cursor.child(tag)
    if child is None or not child.text:
        return None
    text = child.text.lower()
    try:
        if len(text) <= 20 and text.isascii() and "_" not in text:
            return int(text, 16) if text.startswith("0x") else int(text)
    except ValueError:
        pass
    child.error(
        "not-a-number", f"<{tag}> of {label(cursor)}: {child.text[:40]!r} is not a whole number", "it is left out"
    )
    return None


def optional_flag(cursor: Cursor, tag: str) -> bool | None:
    """The text of a child as true or false, or None where there is no such child."""
    child = cursor.child(tag)
    return None if child is None or not child.text else child.flag(child.text, False)


def read_settings(
    cursor: Cursor, *, numbers: Sequence[str] = (), flags: Sequence[str] = (), texts: Sequence[str] = ()
) -> dict[str, Any]:
    """Those of the children that are there, as plain values by tag."""
    found: dict[str, Any] = {}
    for tag in numbers:
        value = optional_number(cursor, tag)
        if value is not None:
            found[tag] = value
    for tag in flags:
        flag = optional_flag(cursor, tag)
        if flag is not None:
            found[tag] = flag
    for tag in texts:
        child = cursor.child(tag)
        if child is not None:
            found[tag] = child.text
    return found


_MAX_TREE_DEPTH = 24


def as_tree(element: XmlElement, depth: int = 0) -> Any:
    """An element as plain values: its text, or a dictionary of attributes (`@name`) and children (lists if many)."""
    if depth > _MAX_TREE_DEPTH:
        return element.verbatim
    if not element.children and not element.attributes:
        return element.text
    tree: dict[str, Any] = {f"@{name}": text for name, text in element.attributes.items()}
    if element.text:
        tree["text"] = element.text
    by_tag: dict[str, list[Any]] = {}
    for child in element.children:
        by_tag.setdefault(child.tag, []).append(as_tree(child, depth + 1))
    tree.update({tag: values[0] if len(values) == 1 else values for tag, values in by_tag.items()})
    return tree


# -- poses -------------------------------------------------------------------------------------------------------------


def read_pose(cursor: Cursor, context: Context) -> PoseElement:
    """The `<pose>` of an element; the identity where it has none."""
    child = cursor.child("pose")
    return PoseElement(origin=cursor.origin) if child is None else pose_of(child, context)


def pose_of(cursor: Cursor, context: Context) -> PoseElement:
    """A `<pose>` element: position and Euler angles or quaternion, and what it is relative to."""
    relative_to = (cursor.text_of("relative_to") or "").strip()
    if context.version.poses_name_a_frame:
        relative_to = relative_to or (cursor.text_of("frame") or "").strip()
    layout = (cursor.text_of("rotation_format") or "euler_rpy").strip()
    degrees = cursor.flag(cursor.text_of("degrees"), False)
    context.close(cursor)
    if layout == "quat_xyzw":
        pose = _quaternion_pose(cursor, degrees)
    else:
        if layout != "euler_rpy":
            hint = "known are euler_rpy and quat_xyzw; euler_rpy is assumed"
            cursor.error("rotation-format", f"{layout[:40]!r} is not a rotation format", hint)
        x, y, z, *angles = numbers(cursor, (0.0,) * 6).tolist()
        pose = Pose.from_rpy((x, y, z), np.radians(angles) if degrees else angles)
    return PoseElement(pose=pose, relative_to=relative_to, origin=cursor.origin)


def _quaternion_pose(cursor: Cursor, degrees: bool) -> Pose:
    if degrees:
        cursor.error("rotation-format", "a pose with a quaternion cannot be in degrees", "remove the attribute")
    x, y, z, *q = numbers(cursor, (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)).tolist()
    if not any(q):
        cursor.error("rotation-format", "the quaternion of a pose is zero", "no rotation is assumed")
        q = [0.0, 0.0, 0.0, 1.0]
    return Pose.from_quaternion((x, y, z), (q[3], q[0], q[1], q[2]))
