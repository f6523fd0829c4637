"""Oriented bounding boxes (OBB) of geoms, and the separation of two OBBs along their face normals.

This is the separating-axis test (SAT) without the nine edge-edge axes. Long and flat geoms have large bounding spheres
that overlap most of the time; the OBB test avoids many of the expensive narrow-phase tests.
"""

from __future__ import annotations

from functools import reduce

from kinema import ir
from kinema.ir import Value

from ..vector_math import dot, matmul, rotate_inverse, sub, transpose
from .collision_types import CollisionGeom

OBB_TYPES = {"capsule", "ellipsoid", "cylinder", "cone", "box", "mesh"}
"""Geom types whose OBB can be much tighter than the bounding sphere."""
OBB_ROUNDING = 2e-6
"""Error bound of the OBB separation in single precision, relative to the sum of the bounding radii."""


def uses_obb_test(geom_types: tuple[str, str]) -> bool:
    """Whether the OBB test is worthwhile for a pair of geom types; not if the analytic test is as fast."""
    return OBB_TYPES.issuperset(geom_types) and geom_types != ("capsule", "capsule")


def obb_separation(a: CollisionGeom, b: CollisionGeom) -> Value:
    """Largest separation [m] of two OBBs along the six face normals, a lower bound of their distance.

    Negative if no face normal separates the boxes. `size` of both geoms are the half extents of the boxes.
    """
    offset = sub(b.position, a.position)
    abs_rotation = [[ir.absolute(x) for x in row] for row in matmul(transpose(a.rotation), b.rotation)]
    along_a = zip(rotate_inverse(a.rotation, offset), a.size, abs_rotation, strict=True)
    along_b = zip(rotate_inverse(b.rotation, offset), b.size, transpose(abs_rotation), strict=True)
    gaps = [ir.absolute(x) - half - dot(row, b.size) for x, half, row in along_a]
    gaps += [ir.absolute(x) - half - dot(row, a.size) for x, half, row in along_b]
    return reduce(ir.maximum, gaps)
