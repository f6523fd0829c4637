"""Of many points of one pair those that matter: the deepest, and those farthest apart, for each way that they push."""

from __future__ import annotations

from kinema import trace
from kinema.trace import Value

from ..sweeps.maths import Vector, add, rotate
from .branches import where
from .most_points import OF_FIELD as MOST_POINTS, SLOTS, WAYS
from .solid import Solid, Work
from .vectors import either

CORNERS = ((0.8, 0.6), (-0.6, 0.8), (-0.8, -0.6), (0.6, -0.8))
"""Directions across a normal in which the farthest point is kept: at no angle that bodies often stand at."""
DEPTH_COUNTS = 10.0
"""How much farther out a point has to be to be kept instead of one that is deeper by some length."""
SLACK = 1e-3
"""How much better a later point has to be, against the smaller body: rounding must not choose."""
NUMBER, DISTANCE, POINT, NORMAL, SCORE, WIDTH = 0, 1, 2, 5, 8, 9
NOTHING = 1e30


class Spread:
    """Points that are offered one after the other, in the axes of the second solid; a few are told in the end."""

    def __init__(self, work: Work, size: Value) -> None:
        self._work = work
        self._slack = SLACK * size
        self._kept = work.recorder.local(WIDTH * MOST_POINTS)
        recorder = work.recorder

        def forget(turn: Value) -> None:
            recorder.write(self._kept, [-1.0], NUMBER, float(WIDTH) * turn)
            recorder.write(self._kept, [-NOTHING], SCORE, float(WIDTH) * turn)

        recorder.count("nothing yet", float(MOST_POINTS), forget, uniform=True)

    def offer(self, number: Value, distance: Value, point: Vector, normal: Vector) -> None:
        """A point with a number of its own; it is half-way between the surfaces, its normal towards the second."""
        where(
            self._work.recorder,
            "touching",
            distance,
            self._work.reach,
            lambda: self._keep(number, distance, point, normal),
        )

    def _keep(self, number: Value, distance: Value, point: Vector, normal: Vector) -> None:
        recorder = self._work.recorder
        x, y, z = (trace.absolute(n) for n in normal)
        x_most = trace.select(x, trace.maximum(y, z), 0.0, 1.0)
        y_most = (1.0 - x_most) * trace.select(y, z, 0.0, 1.0)
        first = either(0.5, x_most, point[1:], either(0.5, y_most, [point[2], point[0]], point[:2]))
        side = either(0.5, x_most, [normal[0]], either(0.5, y_most, [normal[1]], [normal[2]]))[0]
        way = 2.0 * (2.0 - 2.0 * x_most - y_most) + trace.select(side, 0.0, 0.0, 1.0)
        scores = [-distance]
        scores += [a * first[0] + b * first[1] - DEPTH_COUNTS * distance for a, b in CORNERS]
        at = float(WIDTH * SLOTS) * way
        for slot, score in enumerate(scores):
            start = WIDTH * slot
            old = [recorder.read(self._kept, start + i, at) for i in range(WIDTH)]
            new = [number, distance, *point, *normal, score]
            recorder.write(self._kept, either(old[SCORE] + self._slack, score, new, old), start, at)

    def tell(self, second: Solid) -> None:
        """What was kept, each point once, in an order that does not depend on how deep it is."""
        recorder, kept = self._work.recorder, self._kept

        def of_way(way: Value) -> None:
            at = float(WIDTH * SLOTS) * way

            def of_slot(slot: Value) -> None:
                here = at + float(WIDTH) * slot
                number, distance, *rest = (recorder.read(kept, i, here) for i in range(SCORE))
                new = trace.select(number, -0.5, 0.0, 1.0)
                for earlier in range(SLOTS - 1):
                    same = trace.absolute(recorder.read(kept, WIDTH * earlier, at) - number)
                    told = trace.select(float(earlier), slot - 0.5, trace.select(same, 0.5, 0.0, 1.0), 1.0)
                    new = new * told
                point = add(second.position, rotate(second.rotation, rest[:3]))
                normal = rotate(second.rotation, rest[3:])
                where(recorder, "new", 0.5, new, lambda: self._work.emit(distance, point, normal))

            recorder.count("slots", float(SLOTS), of_slot, uniform=True)

        recorder.count("ways", float(WAYS), of_way, uniform=True)
