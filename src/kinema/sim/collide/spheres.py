"""Two spheres, and what is like two spheres once it is known where."""

from __future__ import annotations

from kinema.trace import Value

from ..sweeps.maths import Vector, sub
from .solid import Solid, Work
from .vectors import X, Z, across, along, column, direction, length


def spare_normal(b: Solid) -> Vector:
    """What is taken for the normal where the centre of a sphere is on the axis of another solid: across that axis.

    It is MuJoCo's for a sphere that is not turned; how spheres are turned is not known here.
    """
    return across(Z, column(b.rotation, 2))


def two_spheres(work: Work, a: Vector, radius_a: Value, b: Vector, radius_b: Value, spare: Vector) -> None:
    """Spheres about two points; the spare normal is for points that coincide."""
    between = sub(b, a)
    apart = length(between)
    normal = direction(between, apart, spare)
    distance = apart - radius_a - radius_b
    work.emit(distance, along(a, radius_a + 0.5 * distance, normal), normal)


def sphere_sphere(work: Work, a: Solid, b: Solid) -> None:
    """One point on the line between their centres."""
    two_spheres(work, a.position, a.size[0], b.position, b.size[0], X)
