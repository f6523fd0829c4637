"""Boxes around shapes, in the axes of each: where a face of one of them is between both, the shapes are apart.

Long and flat shapes have large spheres around them that overlap most of the time. The search for where two shapes touch
is so dear that this pays before it.
"""

from __future__ import annotations

from functools import reduce

from kinema import trace
from kinema.model import Model
from kinema.trace import Value

from ..sweeps.maths import Vector, dot, product, sub, transpose, unrotate
from .solid import Solid

BOXED = {"capsule", "ellipsoid", "cylinder", "cone", "box", "mesh"}
"""Kinds whose boxes may tell more than their spheres."""
ROUNDING = 2e-6
"""How much too long, against the sizes of both, a distance of boxes may be in single precision."""


def boxed(kinds: tuple[str, str]) -> bool:
    """Whether two kinds are worth it: not where a formula finds out as quickly."""
    return BOXED.issuperset(kinds) and kinds != ("capsule", "capsule")


def half_extents(kind: str, size: Vector) -> Vector:
    """Of a shape other than a mesh, along its axes [m]."""
    if kind in ("cylinder", "cone"):
        return [size[0], size[0], size[1]]
    if kind == "capsule":
        return [size[0], size[0], size[0] + size[1]]
    return size


def mesh_box(model: Model, geom: int) -> list[float]:
    """Of a mesh: where the middle of its box is, and the half extents [m]; zeros for anything else."""
    geoms = model.geoms
    if geoms.kinds[geom] != "mesh":
        return [0.0] * 6
    first, count = int(geoms.first_number[geom]), int(geoms.counts[geom][0])
    corners = geoms.numbers[first : first + 3 * count].reshape(-1, 3)
    low, high = corners.min(0), corners.max(0)
    return [*(0.5 * (low + high)).tolist(), *(0.5 * (high - low)).tolist()]


def gap(a: Solid, b: Solid) -> Value:
    """How far two boxes are apart at least; negative where no face is between them."""
    apart = sub(b.position, a.position)
    between = [[trace.absolute(x) for x in row] for row in product(transpose(a.rotation), b.rotation)]
    along_a = zip(unrotate(a.rotation, apart), a.size, between, strict=True)
    along_b = zip(unrotate(b.rotation, apart), b.size, transpose(between), strict=True)
    gaps = [trace.absolute(x) - own - dot(row, b.size) for x, own, row in along_a]
    gaps += [trace.absolute(x) - own - dot(row, a.size) for x, own, row in along_b]
    return reduce(trace.maximum, gaps)
