"""Fewer points of a contact: those stay that span the most."""

from __future__ import annotations

from kinema import trace
from kinema.trace import Recorder, Value

from .directions import TINY, below


def drop_points(recorder: Recorder, points: str, count: Value, deepest: Value, most: int) -> Value:
    """Drop corners of a polygon, each time the one that takes the least area with it, until there are few enough.

    The array has four numbers for each, two of them across the normal. The deepest point stays.
    """
    state = recorder.local(4)
    """How many there are, which is the deepest; the smallest area, and where that is."""
    recorder.write(state, [count, deepest, 0.0, 0.0])

    def across(number: Value) -> list[Value]:
        return [recorder.read(points, i, 4.0 * number) for i in range(2)]

    def drop(_: Value) -> None:
        left, lowest = recorder.read(state), recorder.read(state, 1)
        recorder.write(state, [1.0 / TINY, 0.0], 2)

        def measure(turn: Value) -> None:
            before = trace.select(turn, 0.5, left - 1.0, turn - 1.0)
            after = trace.select(turn, left - 1.5, turn + 1.0, 0.0)
            p, q, r = (across(number) for number in (before, turn, after))
            area = trace.absolute((q[0] - p[0]) * (r[1] - p[1]) - (q[1] - p[1]) * (r[0] - p[0]))
            area = trace.select(trace.absolute(turn - lowest), 0.5, 1.0 / TINY, area)
            least = recorder.read(state, 2)
            recorder.write(
                state, [trace.minimum(least, area), trace.select(area, least, turn, recorder.read(state, 3))], 2
            )

        recorder.count("areas", left, measure)
        gone = recorder.read(state, 3)

        def shift(turn: Value) -> None:
            following = [recorder.read(points, i, 4.0 * (gone + turn + 1.0)) for i in range(4)]
            recorder.write(points, following, 0, 4.0 * (gone + turn))

        recorder.count("shift", left - 1.0 - gone, shift)
        recorder.write(state, [left - 1.0, lowest - below(gone, lowest)])

    recorder.count("drop", count - float(most), drop)
    return trace.minimum(count, float(most))
