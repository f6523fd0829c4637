"""Spheres with cylinders."""

from __future__ import annotations

from kinema import trace

from ..sweeps.maths import add, rotate, scale, sub, unrotate
from .solid import Solid, Work
from .spheres import spare_normal
from .vectors import along, direction, either, length, sign


def sphere_cylinder(work: Work, sphere: Solid, cylinder: Solid) -> None:
    """One point, at the nearest of the cylinder's side, a flat end, or the rim between them.

    Inside it the nearer of side and end counts. All is found in the cylinder's axes, where the end's normal is exact.
    """
    radius, half = cylinder.size[0], cylinder.size[1]
    x, y, z = unrotate(cylinder.rotation, sub(sphere.position, cylinder.position))
    out = length([x, y])
    beyond_side, beyond_end = out - radius, trace.absolute(z) - half
    outwards = unrotate(cylinder.rotation, scale(-1.0, spare_normal(cylinder)))
    side = direction([x, y, 0.0], out, outwards)
    end = [0.0, 0.0, sign(z)]
    corner = add(scale(beyond_side, side), scale(beyond_end, end))
    from_corner = length(corner)
    rim = direction(corner, from_corner, outwards)
    # where it is beyond both it is at the rim, else at the one that it is less deep within
    less_deep = either(beyond_side, beyond_end, [*end, beyond_end], [*side, beyond_side])
    nearer = trace.minimum(beyond_side, beyond_end)
    *way, distance = either(nearer, 0.0, less_deep, [*rim, from_corner])
    gap = distance - sphere.size[0]
    normal = scale(-1.0, rotate(cylinder.rotation, way))
    work.emit(gap, along(sphere.position, sphere.size[0] + 0.5 * gap, normal), normal)
