"""Axis-aligned bounding boxes (AABBs) of geoms in the world, computed in each step for the broad phase."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import reduce

from kinema import ir
from kinema.ir import ArenaOffset, IterationContext, LoopIteration, Value

from ..arrays import PRESENT_ARRAY
from ..topology import WORLD, dynamic_frames
from ..tree.trace_context import TraceContext
from ..vector_math import Vector, add, dot, rotate
from .local_aabbs import UNBOUNDED_TYPES, aabb_inflation, local_aabb

AABB_SIZE = 6
"""Scalars of an AABB: centre (3) and half extents (3) [m]."""
UNBOUNDED_HALF_EXTENT = 1e15
"""Half extent of the AABB of a geom without bounds [m]."""
N_PARKED_PER_ROW = 32
"""Places of absent geoms along an axis."""


def aabb_separation(a: Vector, b: Vector) -> Value:
    """Largest separation [m] of two AABBs along a coordinate axis; negative if they overlap."""
    axes = zip(a[:3], b[:3], a[3:], b[3:], strict=True)
    return reduce(ir.maximum, (ir.absolute(x - y) - (half_a + half_b) for x, y, half_a, half_b in axes))


def _parking_place(geom: int, half_extent: float) -> list[float]:
    """Centre of the AABB of a geom while it is absent, which spreads absent geoms over the cells of a grid.

    The AABB is empty (of negative extent): it overlaps no other.
    """
    row, column = divmod(geom, N_PARKED_PER_ROW)
    layer, row = divmod(row, N_PARKED_PER_ROW)
    return [2.0 * half_extent * i for i in (column, row, layer)]


def compute_aabbs(
    ctx: TraceContext,
    geoms: Sequence[int],
    geom_pose_offsets: Sequence[ArenaOffset],
    preallocated: Mapping[int, ArenaOffset],
) -> dict[int, ArenaOffset]:
    """Trace the computation of world-axis AABBs of geoms from their poses; returns their offsets by geom index.

    Writes centre and half extents (6 scalars) of each AABB to scratch memory, or to its `preallocated` offset.
    Unbounded geoms (planes, height fields) have no AABB unless it is preallocated, which then overlaps all others. The
    AABB of a rotated local box has the half extents |R| h.
    """
    model = ctx.model
    aabbs: dict[int, ArenaOffset] = {}
    rows = []
    for geom in geoms:
        geom_type = model.geoms.types[geom]
        centre, half = local_aabb(model, geom)
        if geom_type in UNBOUNDED_TYPES or not math.isfinite(sum(half)):
            if geom in preallocated:
                aabbs[geom] = preallocated[geom]
                rows.append(LoopIteration("unbounded", {"aabb": aabbs[geom]}))
            continue
        aabbs[geom] = preallocated[geom] if geom in preallocated else ctx.allocate(AABB_SIZE)
        is_round, is_centered = geom_type == "sphere", not any(centre)
        frame = int(dynamic_frames(model, model.geoms.frame_idx[[geom]])[0])
        presence = ctx.presence_of_frame(frame) if frame != WORLD else {}
        constants = {"centre": centre, "half": half, "inflation": [aabb_inflation(model, geom)]}
        rows.append(
            LoopIteration(
                (is_round, is_centered, *(["can be absent"] if presence else [])),
                {"geom pose": geom_pose_offsets[geom], "aabb": aabbs[geom], **presence},
                {**constants, **({"parked": _parking_place(geom, max(half))} if presence else {})},
            )
        )

    def body(iteration: IterationContext) -> None:
        if iteration.specialization == "unbounded":
            iteration.write("aabb", [0.0, 0.0, 0.0, *[UNBOUNDED_HALF_EXTENT] * 3])
            return
        is_round, is_centered, *_ = iteration.specialization  # type: ignore[misc]
        position, half, inflation = (
            iteration.read_array("geom pose", 3),
            iteration.constants("half"),
            iteration.constant("inflation"),
        )
        if not (is_round and is_centered):
            rotation = [iteration.read_array("geom pose", 12)[3 * i : 3 * i + 3] for i in range(1, 4)]
            position = position if is_centered else add(position, rotate(rotation, iteration.constants("centre")))
            half = half if is_round else [dot([ir.absolute(x) for x in row], half) for row in rotation]
        aabb = [*position, *(x + inflation for x in half)]
        if iteration.has_array(PRESENT_ARRAY):
            parked, present = (
                [*iteration.constants("parked"), *[-UNBOUNDED_HALF_EXTENT] * 3],
                iteration.read(PRESENT_ARRAY),
            )
            aabb = [ir.select(0.5, present, x, y) for x, y in zip(aabb, parked, strict=True)]
        iteration.write("aabb", aabb)

    if rows:
        ctx.for_each("geom AABBs", rows, body)
    return aabbs
