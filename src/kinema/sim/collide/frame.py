"""The axes of a contact: its normal, and two tangents."""

from __future__ import annotations

from kinema import trace

from ..sweeps.maths import Vector, cross, dot, scale, sub
from .vectors import either

FLATTEST = 1e-13
"""The square of the sine below which a direction and the normal are taken for parallel: what is across the normal is
then mostly rounding, in single precision."""


def tangents(normal: Vector, along: Vector | None = None) -> tuple[Vector, Vector]:
    """Two directions across a unit normal, as MuJoCo chooses them: the first as near as can be to a given direction.

    Without one, to the y axis of the world, or to its z axis where the normal is nearer to y than 60 degrees. Where the
    direction given is the normal itself, to the x axis, or to y.
    """
    steep = 0.25 - normal[1] * normal[1]
    first = either(steep, 0.0, (0.0, 0.0, 1.0), (0.0, 1.0, 0.0)) if along is None else along
    flat = _without(first, normal)
    if along is not None:
        spare = either(0.5, normal[0] * normal[0], (0.0, 1.0, 0.0), (1.0, 0.0, 0.0))
        flat = either(dot(flat, flat), FLATTEST, _without(spare, normal), flat)
        # again: of a direction that is nearly the normal, rounding has left some of the normal
        flat = _without(_of_length_one(flat), normal)
    first = _of_length_one(flat)
    return first, cross(normal, first)


def _without(a: Vector, normal: Vector) -> Vector:
    return sub(a, scale(dot(a, normal), normal))


def _of_length_one(a: Vector) -> Vector:
    return scale(1.0 / trace.sqrt(trace.maximum(dot(a, a), 1e-30)), a)
