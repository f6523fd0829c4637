"""How far along a ray the triangles of a mesh are: only those are looked at whose boxes it meets."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kinema import trace
from kinema.model import RAY_BOX
from kinema.trace import Recorder, Value

from ..sweeps.maths import Vector, cross, dot, sub
from .ray_solids import FAR, SMALLEST, Ray

Read = Callable[[Value], Value]
"""The number at an index of the array of all rays."""
MOST_BOXES = 1 << 28
TRIANGLE = 9
EDGE = 1e-10
"""How far beyond its edges a triangle is met, so that none slips through between two."""


def triangle(ray: Ray, a: Vector, b: Vector, c: Vector) -> Value:
    """One triangle, from either side."""
    first, second = sub(b, a), sub(c, a)
    across = cross(ray.along, second)
    volume = dot(first, across)
    flat = trace.select(trace.absolute(volume), 1e-30, 1.0, 0.0)
    per = 1.0 / trace.select(0.5, flat, 1.0, volume)
    off = sub(ray.start, a)
    u = per * dot(off, across)
    turned = cross(off, first)
    v = per * dot(ray.along, turned)
    distance = per * dot(second, turned)
    worst = trace.minimum(trace.minimum(u, v), 1.0 - u - v)
    hit = trace.select(worst, -EDGE, FAR, trace.select(distance, 0.0, FAR, distance))
    return trace.select(0.5, flat, FAR, hit)


def meet_mesh(recorder: Recorder, read: Read, numbers: Sequence[Value], ray: Ray, best: str) -> None:
    """The nearest triangle of a mesh, into a local array where it is nearer than what is there."""
    first, n_boxes = numbers[0], numbers[1]
    triangles = first + n_boxes * float(RAY_BOX)
    inverse = [1.0 / trace.select(trace.absolute(x), SMALLEST, SMALLEST, x) for x in ray.along]

    def look(turn: Value, start: Value) -> None:
        at = triangles + (start + turn) * float(TRIANGLE)
        corners = [[read(at + float(3 * k + i)) for i in range(3)] for k in range(3)]
        recorder.write(best, [trace.minimum(recorder.read(best), triangle(ray, *corners))])

    def step(state: Sequence[Value]) -> tuple[list[Value], Value, Value]:
        (number,) = state
        at = first + number * float(RAY_BOX)
        low, high = ([read(at + float(k + i)) for i in range(3)] for k in (0, 3))
        past, start, count = (read(at + float(k)) for k in (6, 7, 8))
        ends = [[(x[i] - ray.start[i]) * inverse[i] for i in range(3)] for x in (low, high)]
        enter, leave = 0.0, recorder.read(best)
        for one, other in zip(*ends, strict=True):
            enter = trace.maximum(enter, trace.minimum(one, other))
            leave = trace.minimum(leave, trace.maximum(one, other))
        slack = 1e-6 * leave  # of what is thin, rounding would leave nothing
        met = trace.select(leave + slack, enter, 0.0, 1.0)
        recorder.count("triangles", met * count, lambda turn: look(turn, start))
        after = trace.select(0.5, met, number + 1.0, past)
        return [after], after, n_boxes

    recorder.repeat("boxes of a mesh", step, [0.0], MOST_BOXES)
