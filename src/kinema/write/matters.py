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


def matter_of(kind: str, what: str) -> Matter:
    """What a loss is about, from the kind of element and the words for what of it is lost."""
    if kind in _LOOKS or _SEEN.search(what):
        return Matter.LOOKS
    if kind in _BOOKKEEPING or (_NOTES.search(what) and kind != "collisiongroup"):
        return Matter.BOOKKEEPING
    return Matter.MOTION
