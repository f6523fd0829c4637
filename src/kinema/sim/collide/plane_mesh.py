"""A plane and a convex mesh: up to four corners, as MuJoCo makes them."""

from __future__ import annotations

from collections.abc import Sequence

from kinema import trace
from kinema.trace import Value

from ..sweeps.maths import Vector, add, cross, dot, rotate, scale, sub, unrotate
from .branches import where
from .directions import TINY
from .hulls import farthest_corner
from .most_points import OF_PLANE_AND_MESH as POINTS
from .solid import Solid, Work
from .support import corner
from .vectors import either, sign

SLACK, SLACK_OF_DEPTH = 1e-4, 1e-6
"""A later corner has to be better by so much, against the size of the mesh: rounding must not choose."""


def plane_mesh(work: Work, plane: Solid, mesh: Solid) -> None:
    """The deepest corner, the one farthest from it, the one farthest from both, and the one farthest outside of them.

    All are among the corners that are near enough.
    """
    hull, recorder = mesh.hull, work.recorder
    assert hull is not None
    up = [row[2] for row in plane.rotation]
    normal = unrotate(mesh.rotation, up)
    height = dot(up, sub(mesh.position, plane.position))
    chosen, best = recorder.local(3 * POINTS), recorder.local(4)
    recorder.write(chosen, [0.0] * (3 * POINTS))
    slack = [SLACK_OF_DEPTH * hull.radius, SLACK * trace.square(hull.radius)]

    def choose(turn: Value) -> None:
        points = [[recorder.read(chosen, 3 * i + j) for j in range(3)] for i in range(POINTS - 1)]
        # a corner has to be better than none at all
        recorder.write(best, [0.0, 0.0, 0.0, trace.select(turn, 0.5, -1.0 / TINY, 0.0)])

        def look(number: Value) -> None:
            point, old = corner(hull, number), recorder.read(best, 3)
            distance = height + dot(normal, point)
            score = _score(turn, point, points, normal, -distance)
            score = trace.select(work.reach, distance, -1.0 / TINY, score)
            better = old + trace.select(turn, 0.5, slack[0], slack[1])
            before = [recorder.read(best, i) for i in range(3)]
            recorder.write(best, [*either(better, score, point, before), trace.select(better, score, score, old)])

        recorder.count("corners", hull.n_corners, look)
        point, score = [recorder.read(best, i) for i in range(3)], recorder.read(best, 3)
        recorder.write(chosen, point, 0, 3.0 * turn)

        def tell() -> list[Value]:
            distance = height + dot(normal, point)
            place = add(mesh.position, rotate(mesh.rotation, point))
            work.emit(distance, add(place, scale(-0.5 * distance, up)), up)
            return []

        recorder.where("found", trace.select(turn, 0.5, -0.5 / TINY, 0.0), score, tell, [])

    _, deepest = farthest_corner(recorder, hull, scale(-1.0, normal))
    where(
        recorder,
        "any is near",
        height - deepest,
        work.reach,
        lambda: recorder.count("points", float(POINTS), choose, uniform=True),
    )


def _score(turn: Value, point: Vector, chosen: Sequence[Vector], normal: Vector, depth: Value) -> Value:
    """What makes a corner the next one; of points and triangles, squares and areas."""
    a, b, c = chosen
    away, along = sub(point, a), sub(b, a)
    area = dot(normal, cross(along, away))
    around = sign(dot(normal, cross(along, sub(c, a))))
    outside = trace.maximum(
        -around * area,
        trace.maximum(*(-around * dot(normal, cross(sub(q, p), sub(point, p))) for p, q in ((b, c), (c, a)))),
    )
    third = trace.select(turn, 2.5, trace.absolute(area), outside)
    return trace.select(turn, 0.5, depth, trace.select(turn, 1.5, dot(away, away), third))
