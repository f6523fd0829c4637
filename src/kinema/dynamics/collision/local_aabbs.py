"""Bounding boxes of geoms in their own axes, and the margin of their AABBs, from the model alone.

Memory is planned with these functions, so that they do not import what traces programs.
"""

from __future__ import annotations

import math
from typing import Any

from kinema.model import Model

AABB_RELATIVE_INFLATION = 1e-4
"""Inflation of AABBs relative to the geom size, so that rounding excludes no contact."""
UNBOUNDED_TYPES = ("plane", "height field")
"""Geom types without a useful bounding box."""


def geom_half_extents(geom_type: str, size: list[Any]) -> list[Any]:
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


def max_aabb_half_extent(model: Model, geom: int) -> float:
    """Upper bound of the half extent [m] of a geom's AABB along any axis, for any rotation, including the inflation."""
    half = local_aabb(model, geom)[1]
    return (half[0] if model.geoms.types[geom] == "sphere" else math.hypot(*half)) + aabb_inflation(model, geom)


def aabb_inflation(model: Model, geom: int) -> float:
    """Margin [m] added to the half extents of a geom's AABB: half the largest contact margin plus a rounding term."""
    return 0.5 * _max_margin(model) + AABB_RELATIVE_INFLATION * max(local_aabb(model, geom)[1])


def _max_margin(model: Model) -> float:
    """Largest contact margin of a pair of geoms [m]."""
    return float(max(model.pairs.margin.max(initial=0.0), model.pair_rules.parameters.margin.max(initial=0.0)))


def local_aabb(model: Model, geom: int) -> tuple[list[float], list[float]]:
    """Centre and half extents [m] of a geom's bounding box in its own axes.

    Geom types other than mesh and primitives (for example SDFs) use the cube around the bounding sphere.
    """
    geoms = model.geoms
    geom_type = geoms.types[geom]
    if geom_type == "mesh":
        aabb = mesh_local_aabb(model, geom)
        return aabb[:3], aabb[3:]
    if geom_type == "sphere":
        return [0.0, 0.0, 0.0], [float(geoms.size[geom][0])] * 3
    if geom_type in ("box", "capsule", "cylinder", "cone", "ellipsoid"):
        half = geom_half_extents(geom_type, geoms.size[geom].tolist())
        return [0.0, 0.0, 0.0], [float(x) for x in half]  # type: ignore[arg-type]
    return geoms.center[geom].tolist(), [float(geoms.radius[geom])] * 3
