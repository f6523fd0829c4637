"""Broad phase: frame-pair culling by bounding spheres, and the list of geom pairs with overlapping AABBs.

The candidate list holds the indices of geom pairs whose axis-aligned bounding boxes (AABBs) overlap in any environment
of a SIMD vector, in ascending order, so that contacts are found in the same order as by testing all pairs. A pair in
this test is three integers (offsets of two AABBs and the pair index), while its narrow-phase iteration has hundreds of
bytes. The list is made by testing all pairs, or by a spatial hash.

The cells of the spatial hash are as wide as two of the largest geoms, so that overlapping geoms are in neighbouring
cells. The grid is periodic: cells that are a multiple of `GRID_SIZE` apart share a linked list, and the AABB test
rejects geoms that are far apart. Each environment has its own linked lists; the hash is therefore used only in programs
that run one environment per thread, not SIMD vectors of environments.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import reduce

import numpy as np
import numpy.typing as npt

from kinema import ir
from kinema.ir import (
    SCRATCH,
    ArenaOffset,
    ColumnarGroup,
    IterationContext,
    IterationTable,
    LoopIteration,
    OffsetColumn,
    Value,
)
from kinema.model import Model

from ..arrays import ElementKind
from ..rigid.kinematics import Pose
from ..settings import BroadPhase, Settings
from ..tree.kinematic_tree import WORLD, frame_ref
from ..tree.loop_context import tree_index_of_frames
from ..tree.node_constants import with_per_env_parameters
from ..tree.node_tables import NodeIteration
from ..tree.node_values import NodeValues
from ..tree.trace_context import TraceContext
from ..vector_math import Vector, add, dot, rotate, sub
from .contact_buffer_specs import ContactBufferSpec, contact_buffer_name, fast_pair_mask
from .contact_buffers import ContactBuffer, ContactBuffers
from .obb import geom_half_extents, mesh_local_aabb
from .pair_geoms import travel_offset
from .pair_parameters import frame_pair_spheres
from .spatial_hash import UNBOUNDED_TYPES, can_use_hash, hashed_pair_mask, is_hash_worthwhile, select_hashed_geoms
from .vector_math import if_less

# --------------------------------------------------------------------------------------------------------- spatial hash

GRID_SIZE = 16
"""Cells of the periodic grid per axis: a power of two larger than 3, so that neighbouring cells are distinct."""
MAX_CELL_COORDINATE = 3.0e4
"""Limit of cell coordinates; geoms farther from the origin share the last cell, because single precision cannot resolve
their cells."""
CELL_WIDTH_FACTOR = 1.01
"""Safety factor of the cell width against rounding at cell borders."""
AABB_SIZE = 6
"""Scalars of an AABB: centre (3) and half extents (3) [m]."""
PAIR_TABLE_ARRAY = "pair_table"
"""Name of the array with the pair index of each two hashed geoms (`spatial_hash.build_pair_table`)."""


def list_pairs_by_spatial_hash(
    ctx: TraceContext, candidate_list: ArenaOffset, aabbs: ArenaOffset, n_geoms: int, max_half_extent: float
) -> None:
    """Append the geom pairs with overlapping AABBs to the candidate list, using a spatial hash.

    Inserts every geom into the linked list of its grid cell, then tests each geom against the geoms of its own and the
    26 neighbouring cells. Allocates the linked lists in scratch memory.

    Args:
        ctx: tracing context.
        candidate_list: offset of the list: the number of pairs, then their indices in ascending order.
        aabbs: offset of the contiguous AABBs of the hashed geoms (centre and half extents, 6 scalars each).
        n_geoms: number of hashed geoms.
        max_half_extent: maximum half extent of any AABB along any axis [m].
    """
    heads, nexts, cell_coordinates = ctx.allocate(GRID_SIZE**3), ctx.allocate(n_geoms), ctx.allocate(3 * n_geoms)
    ctx.for_each("clear cells", [LoopIteration("grid", {"heads": heads})], _clear_cells)
    indices = np.arange(n_geoms)
    offsets = {
        "aabb": OffsetColumn(SCRATCH, aabbs.row + AABB_SIZE * indices),
        "cell": OffsetColumn(SCRATCH, cell_coordinates.row + 3 * indices),
    }
    offsets["next"] = OffsetColumn(SCRATCH, nexts.row + indices)
    shared_offsets = {
        "heads": heads,
        "nexts": nexts,
        "aabbs": aabbs,
        "list": candidate_list,
        PAIR_TABLE_ARRAY: ctx.array_offsets[PAIR_TABLE_ARRAY],
    }
    offsets |= {name: OffsetColumn.repeated(offset, n_geoms) for name, offset in shared_offsets.items()}
    constants = {
        "geom": indices[:, None] + np.float64(1.0),
        "table row": (n_geoms * indices)[:, None].astype(np.float64),
        "inverse cell width": np.full((n_geoms, 1), 0.5 / (max_half_extent * CELL_WIDTH_FACTOR)),
    }

    def rows(iteration_indices: npt.NDArray[np.intp]) -> IterationTable:
        return IterationTable([ColumnarGroup("hashed geom", iteration_indices, offsets, constants)])

    # in reverse order, so that each linked list is sorted by geom index
    ctx.for_each("insert geoms into cells", rows(indices[::-1]), _insert_geom_into_cell)
    ctx.for_each(
        "pairs in neighbour cells", rows(indices), lambda iteration: _list_pairs_in_neighbour_cells(iteration, n_geoms)
    )


def aabb_separation(a: Vector, b: Vector) -> Value:
    """Largest separation [m] of two AABBs along a coordinate axis; negative if they overlap."""
    axes = zip(a[:3], b[:3], a[3:], b[3:], strict=True)
    return reduce(ir.maximum, (ir.absolute(x - y) - (half_a + half_b) for x, y, half_a, half_b in axes))


def insert_sorted(iteration: IterationContext, pair_index: Value, max_length: int) -> None:
    """Insert a pair index into the sorted candidate list of geom pairs, by insertion sort from the end of the list.

    Reads and writes the array "list" bound by the loop iteration: element 0 is the number of entries, followed by the
    entries in ascending order.

    Args:
        iteration: iteration context of a for-each loop with the array "list".
        pair_index: index of the geom pair.
        max_length: bound of the number of entries that are shifted.
    """
    tracer = iteration.tracer
    count = iteration.read("list")

    def shift(state: Sequence[Value]) -> tuple[Sequence[Value], Value, Value]:
        previous = tracer.read("list", 0, state[0])
        is_greater = ir.select(state[0], 0.5, 0.0, ir.select(pair_index, previous, 1.0, 0.0))
        tracer.write("list", [ir.select(0.5, is_greater, previous, pair_index)], 0, state[0] + 1.0)
        return [state[0] - is_greater], 0.5, is_greater

    tracer.while_loop("sorted insertion", shift, [count], max_length)
    tracer.write("list", [count + 1.0])


def _clear_cells(iteration: IterationContext) -> None:
    iteration.tracer.counted_loop(
        "cells", float(GRID_SIZE**3), lambda index: iteration.tracer.write("heads", [0.0], 0, index), uniform=True
    )


def _wrap_cell_coordinate(coordinate: Value) -> Value:
    """Integer cell coordinate modulo `GRID_SIZE` (the grid is periodic)."""
    return coordinate - float(GRID_SIZE) * ir.floor(coordinate * (1.0 / GRID_SIZE))


def _cell_index(cell: Sequence[Value]) -> Value:
    """Linear index of a grid cell from its three coordinates."""
    return cell[0] + float(GRID_SIZE) * (cell[1] + float(GRID_SIZE) * cell[2])


def _insert_geom_into_cell(iteration: IterationContext) -> None:
    """Compute the grid cell of the current geom and prepend the geom to the linked list of the cell.

    Reads the AABB centre; writes the cell coordinates ("cell"), the next geom of the list ("next") and the head of the
    list ("heads"). Geoms are numbered from 1; 0 ends a list. A NaN position yields an arbitrary but valid cell.
    """
    tracer, inverse_width = iteration.tracer, iteration.constant("inverse cell width")
    coordinates = [
        ir.maximum(-MAX_CELL_COORDINATE, ir.minimum(MAX_CELL_COORDINATE, x * inverse_width))
        for x in iteration.read_array("aabb", 3)
    ]
    cell = [_wrap_cell_coordinate(ir.floor(x)) for x in coordinates]
    iteration.write("cell", cell)
    iteration.write("next", [tracer.read("heads", 0, _cell_index(cell))])
    tracer.write("heads", [iteration.constant("geom")], 0, _cell_index(cell))


def _list_pairs_in_neighbour_cells(iteration: IterationContext, n_geoms: int) -> None:
    """Insert the overlapping pairs of the current geom with later geoms in neighbouring cells into the list.

    Walks the linked lists of the geom's own cell and its 26 neighbours. For each geom with a larger index whose AABB
    overlaps, the pair index is looked up in the pair table and, unless -1, inserted into the candidate list in
    ascending order.
    """
    tracer = iteration.tracer
    neighbour_offsets, row_offset = tracer.allocate_local(9), tracer.allocate_local(1)
    for axis, coordinate in enumerate(iteration.read_array("cell", 3)):
        terms = [_wrap_cell_coordinate(coordinate + delta) * float(GRID_SIZE**axis) for delta in (-1.0, 0.0, 1.0)]
        tracer.write(neighbour_offsets, terms, 3 * axis)

    def visit_row(index: Value) -> None:
        z = ir.floor((index + 0.5) * (1.0 / 3.0))
        y = index - 3.0 * z
        tracer.write(row_offset, [tracer.read(neighbour_offsets, 3, y) + tracer.read(neighbour_offsets, 6, z)])
        tracer.counted_loop("cells", 3.0, visit_cell, uniform=True)

    def visit_cell(x: Value) -> None:
        head = tracer.read("heads", 0, tracer.read(row_offset) + tracer.read(neighbour_offsets, 0, x))
        if_less(tracer, "non-empty cell", 0.5, head, lambda: visit_list(head))

    def visit_list(head: Value) -> None:
        tracer.while_loop("geoms of a cell", visit_geom, [head], n_geoms)

    def visit_geom(state: Sequence[Value]) -> tuple[Sequence[Value], Value, Value]:
        other = state[0]
        offset = float(AABB_SIZE) * (other - 1.0)
        separation = aabb_separation(
            iteration.read_array("aabb", AABB_SIZE), [tracer.read("aabbs", i, offset) for i in range(AABB_SIZE)]
        )
        separation_if_later = ir.select(iteration.constant("geom"), other, separation, 1.0)
        if_less(tracer, "overlapping", separation_if_later, 0.0, lambda: insert_pair(other))
        next_geom = tracer.read("nexts", 0, other - 1.0)
        return [next_geom], 0.5, next_geom

    def insert_pair(other: Value) -> None:
        pair = tracer.read(PAIR_TABLE_ARRAY, 0, iteration.constant("table row") + (other - 1.0))
        if_less(tracer, "collision pair", -0.5, pair, lambda: insert_sorted(iteration, pair, n_geoms * n_geoms))

    tracer.counted_loop("rows of neighbour cells", 9.0, visit_row, uniform=True)


# ----------------------------------------------------------------------------------------- candidate list of geom pairs

MIN_PAIRS_FOR_LIST = 64
"""Number of pairs from which on a candidate list is made. With 90 or 1,475 pairs of primitive geoms in a pile, a step
including the solver is 4 % faster with the list."""
AABB_RELATIVE_INFLATION = 1e-4
"""Inflation of AABBs relative to the geom size, so that rounding excludes no contact."""


def uses_candidate_list(model: Model, settings: Settings, n_pairs: int) -> bool:
    """Whether the broad phase makes a list of geom pairs with overlapping AABBs.

    Not with a warp per environment, with `BroadPhase.ALL`, or if geom sizes differ between environments; with
    `BroadPhase.AUTO` only for at least `MIN_PAIRS_FOR_LIST` pairs.
    """
    if settings.use_warps or settings.broad_phase is BroadPhase.ALL or settings.per_env & {"geom_size", "variants"}:
        return False
    return n_pairs > 0 and (settings.broad_phase is not BroadPhase.AUTO or n_pairs >= MIN_PAIRS_FOR_LIST)


def resolve_broad_phase(model: Model, settings: Settings, *, scalar_envs: bool) -> Settings:
    """Settings with `AUTO` and unsupported broad-phase methods replaced by a method that the model and device support.

    `CELLS` (spatial hash) becomes `LIST` (test of all AABB pairs) if it cannot be used, as with SIMD (not
    `scalar_envs`); `AUTO` becomes `CELLS` if the hash can be used and is worthwhile. Other methods are unchanged.
    """
    requested = settings.broad_phase
    if requested not in (BroadPhase.AUTO, BroadPhase.CELLS):
        return settings
    has_list = uses_candidate_list(model, settings, len(model.pairs.geom_a))
    can_hash = scalar_envs and settings.contacts and has_list and can_use_hash(model)
    if requested is BroadPhase.CELLS:
        return settings if can_hash else replace(settings, broad_phase=BroadPhase.LIST)
    return replace(settings, broad_phase=BroadPhase.CELLS) if can_hash and is_hash_worthwhile(model) else settings


def list_overlapping_pairs(
    ctx: TraceContext, specs: Sequence[ContactBufferSpec], geom_pose_offsets: Sequence[ArenaOffset]
) -> ArenaOffset | None:
    """List of the geom pairs whose AABBs overlap in any environment of a SIMD vector.

    Computes the AABBs of all geoms and tests the pairs individually; pairs of hashed geoms are found by the spatial
    hash with `BroadPhase.CELLS`.

    Args:
        ctx: tracing context.
        specs: the contact buffers; pairs are numbered in the order in which they appear in the buffers.
        geom_pose_offsets: offset of each geom's world pose (position and rotation matrix, 12 scalars).

    Returns:
        Offset of the list in scratch memory (number of pairs, then indices in ascending order), or None if no list is
        made and all pairs are tested.
    """
    pair_indices = [p for spec in specs for p in spec.pairs]
    if not uses_candidate_list(ctx.model, ctx.settings, len(pair_indices)):
        return None
    pairs = ctx.model.pairs
    pair_geoms = np.stack([pairs.geom_a[pair_indices], pairs.geom_b[pair_indices]])
    hashed = _hashed_geoms(ctx, pair_indices)
    hashed_aabbs = ctx.allocate(AABB_SIZE * len(hashed))
    preallocated = {geom: ArenaOffset(SCRATCH, hashed_aabbs.row + AABB_SIZE * i) for i, geom in enumerate(hashed)}
    aabbs = _compute_aabbs(ctx, np.unique(pair_geoms).tolist(), geom_pose_offsets, preallocated)
    candidate_list = ctx.allocate(len(pair_indices) + 1)
    ctx.for_each(
        "clear candidate list",
        [LoopIteration("list", {"list": candidate_list})],
        lambda iteration: iteration.write("list", [0.0]),
    )
    rows = np.flatnonzero(~hashed_pair_mask(ctx.model)) if hashed else np.arange(len(pair_indices))
    ctx.for_each(
        "overlapping AABBs",
        _aabb_pair_iterations(ctx.model, candidate_list, pair_indices, rows, aabbs, geom_pose_offsets),
        _append_if_overlapping,
    )
    if hashed:
        max_half_extent = max(_max_aabb_half_extent(ctx.model, geom) for geom in hashed)
        list_pairs_by_spatial_hash(ctx, candidate_list, hashed_aabbs, len(hashed), max_half_extent)
    return candidate_list


def _hashed_geoms(ctx: TraceContext, pair_indices: Sequence[int]) -> list[int]:
    """Indices of the geoms in the spatial hash; empty unless the method is `BroadPhase.CELLS`.

    Also empty if `pair_indices` are not all pairs of the model in their original order, on which the pair table relies.
    """
    if ctx.settings.broad_phase is not BroadPhase.CELLS or list(pair_indices) != list(
        range(len(ctx.model.pairs.geom_a))
    ):
        return []
    return select_hashed_geoms(ctx.model)


def _aabb_pair_iterations(
    model: Model,
    candidate_list: ArenaOffset,
    pair_indices: Sequence[int],
    iteration_indices: npt.NDArray[np.intp],
    aabbs: Mapping[int, ArenaOffset],
    geom_pose_offsets: Sequence[ArenaOffset],
) -> IterationTable:
    """Loop iterations of the AABB test, one per geom pair, grouped by whether both geoms have an AABB and one is fast.

    Args:
        model: the model.
        candidate_list: offset of the candidate list, an array of each iteration ("list").
        pair_indices: indices of all pairs in the model.
        iteration_indices: positions in `pair_indices` of the pairs to be tested.
        aabbs: AABB offset by geom index; unbounded geoms have none.
        geom_pose_offsets: offset of each geom's pose, followed by its travel in a step.

    Returns:
        The table; iterations have the arrays "list", "a" and "b" (AABBs, where they exist), for fast pairs "a travel"
        and "b travel", and the constant "row" (position of the pair in `pair_indices`).
    """
    pairs = np.asarray(pair_indices)[iteration_indices]
    geoms, is_fast = np.stack([model.pairs.geom_a[pairs], model.pairs.geom_b[pairs]]), fast_pair_mask(model)[pairs]
    starts = np.full(len(model.geoms.names), -1, np.int64)
    starts[[*aabbs]] = [offset.row for offset in aabbs.values()]
    aabb_rows = starts[geoms]
    travels = np.array([offset.row for offset in geom_pose_offsets]) + travel_offset(model)
    groups = []
    for specialization in (("a", "b"), ("a", "b", "fast"), ("a",), ("b",), ()):
        is_bounded = [(rows >= 0) == (side in specialization) for side, rows in zip("ab", aabb_rows, strict=True)]
        group = np.flatnonzero(is_bounded[0] & is_bounded[1])
        if len(specialization) >= 2:
            group = group[is_fast[group] == ("fast" in specialization)]
        if len(group):
            aabb_columns = {
                side: OffsetColumn(SCRATCH, rows[group])
                for side, rows in zip("ab", aabb_rows, strict=True)
                if side in specialization
            }
            if "fast" in specialization:
                aabb_columns |= {
                    f"{side} travel": OffsetColumn(SCRATCH, travels[rows[group]])
                    for side, rows in zip("ab", geoms, strict=True)
                }
            offsets = {"list": OffsetColumn.repeated(candidate_list, len(group)), **aabb_columns}
            groups.append(
                ColumnarGroup(
                    specialization, group, offsets, {"row": iteration_indices[group, None].astype(np.float64)}
                )
            )
    return IterationTable(groups)


def _max_aabb_half_extent(model: Model, geom: int) -> float:
    """Upper bound of the half extent [m] of a geom's AABB along any axis, for any rotation, including the inflation."""
    half = _local_aabb(model, geom)[1]
    return (half[0] if model.geoms.types[geom] == "sphere" else math.hypot(*half)) + _aabb_inflation(model, geom)


def _aabb_inflation(model: Model, geom: int) -> float:
    """Margin [m] added to the half extents of a geom's AABB: half the largest contact margin plus a rounding term."""
    return 0.5 * float(model.pairs.margin.max(initial=0.0)) + AABB_RELATIVE_INFLATION * max(_local_aabb(model, geom)[1])


def _compute_aabbs(
    ctx: TraceContext,
    geoms: Sequence[int],
    geom_pose_offsets: Sequence[ArenaOffset],
    preallocated: Mapping[int, ArenaOffset],
) -> dict[int, ArenaOffset]:
    """Trace the computation of world-axis AABBs of geoms from their poses; returns their offsets by geom index.

    Writes centre and half extents (6 scalars) of each AABB to scratch memory, or to its `preallocated` offset.
    Unbounded geoms (planes, height fields) have no AABB. The AABB of a rotated local box has the half extents |R| h.
    """
    model = ctx.model
    aabbs: dict[int, ArenaOffset] = {}
    rows = []
    for geom in geoms:
        geom_type = model.geoms.types[geom]
        centre, half = _local_aabb(model, geom)
        if geom_type in UNBOUNDED_TYPES or not math.isfinite(sum(half)):
            continue
        aabbs[geom] = preallocated[geom] if geom in preallocated else ctx.allocate(AABB_SIZE)
        is_round, is_centered = geom_type == "sphere", not any(centre)
        constants = {"centre": centre, "half": half, "inflation": [_aabb_inflation(model, geom)]}
        rows.append(
            LoopIteration(
                (is_round, is_centered), {"geom pose": geom_pose_offsets[geom], "aabb": aabbs[geom]}, constants
            )
        )

    def body(iteration: IterationContext) -> None:
        is_round, is_centered = iteration.specialization  # type: ignore[misc]
        position, half, inflation = (
            iteration.read_array("geom pose", 3),
            iteration.constants("half"),
            iteration.constant("inflation"),
        )
        if not (is_round and is_centered):
            rotation = [iteration.read_array("geom pose", 12)[3 * i : 3 * i + 3] for i in range(1, 4)]
            position = position if is_centered else add(position, rotate(rotation, iteration.constants("centre")))
            half = half if is_round else [dot([ir.absolute(x) for x in row], half) for row in rotation]
        iteration.write("aabb", [*position, *(x + inflation for x in half)])

    if rows:
        ctx.for_each("geom AABBs", rows, body)
    return aabbs


def _local_aabb(model: Model, geom: int) -> tuple[list[float], list[float]]:
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


def _append_if_overlapping(iteration: IterationContext) -> None:
    """Append the current geom pair to the candidate list if its AABBs overlap in any environment.

    Pairs with an unbounded geom are always appended, fast pairs also if their AABBs can overlap within the step. Reads
    the arrays "a" and "b" (AABBs) bound by the loop iteration, writes "list" (number of entries, then entries).
    """
    tracer = iteration.tracer

    def append() -> None:
        count = iteration.read("list") + 1.0
        tracer.write("list", [iteration.constant("row")], 0, count)
        iteration.write("list", [count])

    if len(iteration.specialization) < 2:  # type: ignore[arg-type]
        append()
        return
    separation = aabb_separation(iteration.read_array("a", AABB_SIZE), iteration.read_array("b", AABB_SIZE))
    if len(iteration.specialization) > 2:  # type: ignore[arg-type]
        separation = separation - (iteration.read("a travel") + iteration.read("b travel"))
    if_less(tracer, "overlapping", 0.5, ir.any_lane(ir.select(separation, 0.0, 1.0, 0.0)), append)


# ----------------------------------------------------------------------------------------------- culling of frame pairs


def cull_frame_pairs(ctx: TraceContext, contact_buffers: ContactBuffers, frame_poses: NodeValues[Pose]) -> None:
    """Trace the broad-phase test of pairs of bodies (moving frames): bounding spheres of the geoms of both.

    Writes the overlap flag of every contact buffer (1 if the spheres overlap and a tree of the buffer is awake) and
    resets its number of contacts and of contacts lost by overflow. The sphere test is omitted if a candidate list of
    geom pairs is made.
    """
    has_list = uses_candidate_list(
        ctx.model, ctx.settings, sum(len(contact_buffer.spec.pairs) for contact_buffer in contact_buffers.buffers)
    )
    if has_list and not ctx.skips_sleeping_trees:
        _flag_all_frame_pairs(ctx, contact_buffers)
        return
    rows = _frame_pair_iterations(ctx, contact_buffers, has_candidate_list=has_list)

    def body(iteration: IterationContext) -> None:
        iteration.write("count", [0.0])
        iteration.write("buffer lost count", [0.0])
        method, involves_world = iteration.specialization  # type: ignore[misc]
        is_awake = _is_any_tree_awake(iteration) if ctx.skips_sleeping_trees else 1.0
        if method == "always":
            iteration.write("near", [is_awake])
            return
        centers = []
        for prefix in ("a ", "b "):
            pose, center = frame_poses[frame_ref(prefix)], iteration.constants(f"{prefix}center")
            centers.append(
                add(pose.position, center if involves_world and prefix == "a " else rotate(pose.rotation, center))
            )
        offset = sub(centers[1], centers[0])
        max_distance = iteration.constant("a radius") + iteration.constant("b radius") + iteration.constant("margin")
        iteration.write(
            "near", [ir.select(dot(offset, offset), max_distance * ir.absolute(max_distance), is_awake, 0.0)]
        )

    ctx.for_each("cull frame pairs", rows, body)


def _frame_pair_iterations(
    ctx: TraceContext, contact_buffers: ContactBuffers, *, has_candidate_list: bool
) -> list[NodeIteration]:
    """Loop iterations of body-pair culling, one per contact buffer: counters, moving frames, bounding spheres.

    Iterations without spheres (specialization "always", which passes the test) have at most two geom pairs, geom sizes
    that differ between environments, or a candidate list that makes the test redundant.
    """
    rows = []
    for contact_buffer in contact_buffers.buffers:
        with ctx.including_idle_trees():
            row = contact_buffers.loop_iteration(contact_buffer, _sleep_flag_offsets(ctx, contact_buffer))
        constants = (
            {}
            if has_candidate_list or "geom_size" in ctx.settings.per_env
            else frame_pair_spheres(ctx.model, contact_buffer.spec)
        )
        constants = with_per_env_parameters(ctx, "buffer", contact_buffer_name(contact_buffer.spec), constants)
        rows.append(
            NodeIteration(
                ("culled" if constants else "always", contact_buffer.specialization.involves_world),
                row.offsets,
                constants,
                bindings=row.bindings,
            )
        )
    return rows


def _flag_all_frame_pairs(ctx: TraceContext, contact_buffers: ContactBuffers) -> None:
    """Trace loops that set the overlap flags of all contact buffers and reset their contact and lost-contact counts.

    Each quantity of all buffers is contiguous in scratch memory, so each is filled by one loop.
    """
    first_buffer = contact_buffers.buffers[0]
    offsets = {
        "count": first_buffer.count,
        "near": first_buffer.overlap_flag,
        "buffer lost count": first_buffer.lost_count,
    }

    def body(iteration: IterationContext) -> None:
        for name, value in (("count", 0.0), ("near", 1.0), ("buffer lost count", 0.0)):
            iteration.tracer.counted_loop(
                name, iteration.constant("buffers"), _element_writer(iteration, name, value), uniform=True
            )

    ctx.for_each(
        "mark all frame pairs near",
        [LoopIteration("buffers", offsets, {"buffers": [float(len(contact_buffers.buffers))]})],
        body,
    )


def _element_writer(iteration: IterationContext, array: str, value: float) -> Callable[[Value], None]:
    return lambda index: iteration.tracer.write(array, [value], 0, index)


def _sleep_flag_offsets(ctx: TraceContext, contact_buffer: ContactBuffer) -> dict[str, ArenaOffset]:
    """Offsets of the sleep flags of the one or two kinematic trees of a contact buffer.

    Empty if trees never sleep. For a contact buffer with the world, both entries are the flag of the other tree.
    """
    if not ctx.skips_sleeping_trees:
        return {}
    trees = tree_index_of_frames(ctx.model)
    flags = [ctx.element_arrays(ElementKind.TREE, trees[f])["asleep"] for f in contact_buffer.spec.frames if f != WORLD]
    return {"asleep a": flags[0], "asleep b": flags[-1]}


def _is_any_tree_awake(iteration: IterationContext) -> Value:
    """1 if any tree of the current contact buffer is awake; contacts between sleeping trees are unchanged."""
    return ir.select(ir.minimum(iteration.read("asleep a"), iteration.read("asleep b")), 0.5, 1.0, 0.0)
