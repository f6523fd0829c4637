"""Several points of one pair, told one after the other by the same code."""

from __future__ import annotations

from collections.abc import Sequence

from kinema.trace import Value

from ..sweeps.maths import Vector
from .solid import Work


def emit_each(work: Work, points: Sequence[tuple[Value, Vector]], normal: Vector, along: Vector | None = None) -> None:
    """Distances and points with one normal."""
    recorder, width = work.recorder, 4
    kept = recorder.local(width * len(points))
    recorder.write(kept, [number for distance, point in points for number in (distance, *point)])

    def tell(turn: Value) -> None:
        distance, *point = (recorder.read(kept, i, width * turn) for i in range(width))
        work.emit(distance, point, normal, along)

    recorder.count("points", float(len(points)), tell, uniform=True)
