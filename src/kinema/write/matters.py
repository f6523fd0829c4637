"""What a loss is about: what most people must know first comes first."""

from __future__ import annotations

import enum
import re


class Matter(enum.StrEnum):
    """What changes by a loss."""

    MOTION = "motion"
    """How the robot moves and what it touches."""
    LOOKS = "looks"
    """What it looks like, and who looks at it."""
    BOOKKEEPING = "bookkeeping"
    """Neither: names, notes, measurements, and settings that only one program knows."""


_LOOKS = {"visualmaterial", "camera", "light"}
_BOOKKEEPING = {"sensor", "keyframe", "frame"}
_SEEN = re.compile(
    r"colou?r|texture|material '|its look|emi(ssion|t)|roughness|metal|reflect|shin|marker|drawn|seen|visib|shadow|skin"
    r"|mjcf visual\b|normals",
    re.IGNORECASE,
)
_NOTES = re.compile(
    r"^(its name|settings?( of its own format)?: |the setting |<)|\bgroup\b|^that it (has links|is stacked)|statistic",
)


_FORM = {"the mesh", "its mesh", "the shape"}
"""What a shape consists of: where it is only seen, nothing else changes by it."""


def matter_of(kind: str, what: str, *, only_seen: bool = False) -> Matter:
    """What a loss is about, from the kind of element and the words for what of it is lost."""
    if kind in _LOOKS or _SEEN.search(what) or (only_seen and what in _FORM):
        return Matter.LOOKS
    if kind in _BOOKKEEPING or (_NOTES.search(what) and kind != "collisiongroup"):
        return Matter.BOOKKEEPING
    return Matter.MOTION
