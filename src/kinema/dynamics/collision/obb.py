"""Oriented bounding boxes (OBB) of geoms, and the separation of two OBBs along their face normals.

This is the separating-axis test (SAT) without the nine edge-edge axes. Long and flat geoms have large bounding spheres
that overlap most of the time; the OBB test avoids many of the expensive narrow-phase tests.
"""

from __future__ import annotations

from functools import reduce

from kinema import ir
from kinema.ir import Value
from kinema.model import Model

from ..vector_math import Vector, dot, matmul, rotate_inverse, sub, transpose
from .collision_types import CollisionGeom

OBB_TYPES = {"capsule", "ellipsoid", "cylinder", "cone", "box", "mesh"}
"""Geom types whose OBB can be much tighter than the bounding sphere."""
OBB_ROUNDING = 2e-6
"""Error bound of the OBB separation in single precision, relative to the sum of the bounding radii."""


def uses_obb_test(geom_types: tuple[str, str]) -> bool:
    """Whether the OBB test is worthwhile for a pair of geom types; not if the analytic test is as fast."""
    return OBB_TYPES.issuperset(geom_types) and geom_types != ("capsule", "capsule")


def geom_half_extents(geom_type: str, size: Vector) -> Vector:
    """Half extents [m] of the OBB of a primitive geom along its own axes, from its geom type and sizes.

    For cylinder and cone (r, r, h), for a capsule (r, r, r + h), for box and ellipsoid the sizes themselves.
    """
    if geom_type in ("cylinder", "cone"):
        return [size[0], size[0], size[1]]
    if geom_type == "capsule":
        return [size[0], size[0], size[0] + size[1]]
    return size


def mesh_local_aabb(model: Model, geom: int) -> list[float]:
    """Axis-aligned bounding box of a mesh geom in its own axes: centre and half extents [m], 6 floats.

    Computed from the hull vertices in the packed geom data of the model. Zeros for other geom types.
    """
    geoms = model.geoms
    if geoms.types[geom] != "mesh":
        return [0.0] * 6
    first, count = int(geoms.data_start[geom]), int(geoms.data_counts[geom][0])
    vertices = geoms.data[first : first + 3 * count].reshape(-1, 3)
    low, high = vertices.min(0), vertices.max(0)
    return [*(0.5 * (low + high)).tolist(), *(0.5 * (high - low)).tolist()]


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
