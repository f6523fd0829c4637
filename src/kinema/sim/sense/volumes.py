"""Whether something is inside of the volume of a frame."""

from __future__ import annotations

from kinema.trace import RowCode

from ..fields.situation import Situation
from .ray_solids import inside
from .readings import HERE, THERE, ReadingKind, Readings, pose_of, tell
from .spots import unrotated


def volumes(now: Situation, readings: Readings, which: list[int]) -> None:
    """1 where it is, else 0."""
    frames = now.frames

    def body(code: RowCode) -> None:
        kind = code.kind
        assert isinstance(kind, ReadingKind)
        point = unrotated(pose_of(code, frames, THERE), pose_of(code, frames, HERE).position)
        tell(code, [inside(str(kind.words[0]), point, code.numbers("numbers"))])

    now.s.loop("what is inside", [readings.row(i) for i in which], body)
