"""Spheres with cones."""

from __future__ import annotations

from kinema import trace

from ..sweeps.maths import dot, rotate, scale, sub, unrotate
from .solid import Solid, Work
from .vectors import SHORTEST, along, direction, either, length


def sphere_cone(work: Work, sphere: Solid, cone: Solid) -> None:
    """One point, at the nearest of the cone's base or slope, found in the half plane of its axis and the sphere."""
    radius, half = cone.size[0], cone.size[1]
    x, y, z = unrotate(cone.rotation, sub(sphere.position, cone.position))
    out = length([x, y])
    around = direction([x, y], out, (1.0, 0.0))
    here = [out, z]
    on_base = [trace.minimum(out, radius), -half]
    slope = [-radius, 2.0 * half]
    steep = trace.maximum(length(slope), SHORTEST)
    share = trace.clamp(dot([out - radius, z + half], slope) / (steep * steep), 0.0, 1.0)
    on_slope = [radius + share * slope[0], -half + share * slope[1]]
    from_slope = direction([2.0 * half, radius], length(slope), (1.0, 0.0))
    away = [sub(here, p) for p in (on_base, on_slope)]
    far = [length(a) for a in away]
    *nearest, flat_out, flat_up, distance = either(
        far[0], far[1], [*away[0], 0.0, -1.0, far[0]], [*away[1], *from_slope, far[1]]
    )
    above_base, beyond_slope = z + half, dot(from_slope, [out - radius, z + half])
    inside = trace.select(above_base, 0.0, 0.0, trace.select(beyond_slope, 0.0, 1.0, 0.0))
    way = direction(nearest, distance, [flat_out, flat_up])
    outward = either(0.5, inside, [flat_out, flat_up], way)
    gap = trace.select(0.5, inside, -distance, distance) - sphere.size[0]
    normal = scale(-1.0, rotate(cone.rotation, [outward[0] * around[0], outward[0] * around[1], outward[1]]))
    work.emit(gap, along(sphere.position, sphere.size[0] + 0.5 * gap, normal), normal)
