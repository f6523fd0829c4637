"""A face cut to the outline of another one, by loops over its corners."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kinema import trace
from kinema.trace import Recorder, Value

from ..sweeps.maths import Vector
from .solid import Work

MOST = 8
"""Corners of four that are cut along four lines."""
WIDTH = 3
SAME = 1e-12
"""The square of the distance of two points, as a part of the rectangle's size squared, below which they are one. MuJoCo
has 1e-14 here, which rounding in single precision exceeds: a point that counts twice is twice as stiff."""

ON_LINE = 1e-6
"""Corners that are nearer to a line, as a part of the rectangle's size, are on it. Not in MuJoCo: of boxes of one size
on top of each other, rounding would say where edges cross, and points would wander along them."""


def cut_to_rectangle(
    work: Work,
    corners: Sequence[Vector],
    half: Vector,
    place: Callable[[Value, Value, Value], Vector],
    kept: str,
) -> Value:
    """How many points are left of four corners (x, y and height) over a rectangle about 0, no higher than the reach.

    Writes their heights, and where they are.
    """
    recorder = work.recorder
    cut = recorder.local(2 * MOST * WIDTH)
    recorder.write(cut, [x for corner in corners for x in corner])
    # of the corners now: how many, and where they begin; how wide the rectangle is to x and to y
    state = recorder.local(4)
    recorder.write(state, [float(len(corners)), 0.0, half[0], half[1]])
    recorder.count("sides", 4.0, lambda turn: _cut(recorder, cut, state, turn), uniform=True)
    return _keep(work, cut, recorder.read(state), half, place, kept)


def _cut(recorder: Recorder, cut: str, state: str, side: Value) -> None:
    """Leave away what is beyond +x, then turn: the next side is at +x then."""
    n_corners, start, width, next_width = (recorder.read(state, i) for i in range(4))
    odd = trace.select(trace.absolute(side - 2.0), 1.5, trace.select(trace.absolute(side - 2.0), 0.5, 0.0, 1.0), 0.0)
    end, near = MOST * WIDTH - start, ON_LINE * (width + next_width)
    left = recorder.local(1)
    recorder.write(left, [0.0])

    def put(x: Value, y: Value, z: Value, number: Value) -> None:
        turned = [trace.select(0.5, odd, y, -x), trace.select(0.5, odd, -x, y), z]
        recorder.write(cut, turned, 0, end + WIDTH * number)

    def corner(k: Value) -> None:
        after = trace.select(k + 1.5, n_corners, k + 1.0, 0.0)
        x, y, z = (recorder.read(cut, i, start + WIDTH * k) for i in range(WIDTH))
        u, v, w = (recorder.read(cut, i, start + WIDTH * after) for i in range(WIDTH))
        number = recorder.read(left)
        beyond, beyond_after = (trace.select(trace.absolute(d), near, 0.0, d) for d in (x - width, u - width))
        stays = trace.select(0.0, beyond, 0.0, trace.select(number, MOST - 0.5, 1.0, 0.0))
        opposite = trace.minimum(trace.maximum(beyond, beyond_after), -trace.minimum(beyond, beyond_after))
        crosses = trace.select(0.0, opposite, trace.select(number + stays, MOST - 0.5, 1.0, 0.0), 0.0)
        recorder.write(left, [number + stays + crosses])

        def stay() -> list[Value]:
            put(x, y, z, number)
            return []

        def crossing() -> list[Value]:
            share = beyond / (beyond - beyond_after)
            put(x + share * (u - x), y + share * (v - y), z + share * (w - z), number + stays)
            return []

        recorder.where("stays", 0.5, stays, stay, [])
        recorder.where("crosses", 0.5, crosses, crossing, [])

    recorder.count("corners", n_corners, corner)
    swapped = [trace.select(0.5, odd, a, b) for a, b in ((next_width, width), (width, next_width))]
    recorder.write(state, [recorder.read(left), end, *swapped])


def _keep(
    work: Work, cut: str, n_corners: Value, half: Vector, place: Callable[[Value, Value, Value], Vector], kept: str
) -> Value:
    """Write those that are near enough, each once."""
    recorder = work.recorder
    same = SAME * (half[0] * half[0] + half[1] * half[1])
    taken, found = recorder.local(2 * MOST), recorder.local(2)
    recorder.write(found, [0.0, 0.0])

    def corner(k: Value) -> None:
        x, y, z = (recorder.read(cut, i, WIDTH * k) for i in range(WIDTH))
        number = recorder.read(found)
        recorder.write(found, [trace.select(work.reach, z, 1.0, 0.0)], 1)

        def compare(other: Value) -> None:
            u, v = (recorder.read(taken, i, 2.0 * other) for i in range(2))
            near = trace.select((x - u) * (x - u) + (y - v) * (y - v), same, 1.0, recorder.read(found, 1))
            recorder.write(found, [near], 1)

        recorder.count("taken", number, compare)

        def take() -> list[Value]:
            recorder.write(taken, [x, y], 0, 2.0 * number)
            recorder.write(kept, [z, *place(x, y, z)], 0, 4.0 * number)
            recorder.write(found, [number + 1.0])
            return []

        recorder.where("new", recorder.read(found, 1), 0.5, take, [])

    recorder.count("corners", n_corners, corner)
    return recorder.read(found)
