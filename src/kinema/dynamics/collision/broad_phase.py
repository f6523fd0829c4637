"""Broad phase: frame-pair culling by bounding spheres, and the list of geom pairs with overlapping AABBs.

For models with a table of geom pairs; with rules of collision, see `grid.py`. The candidate list holds the indices of
geom pairs whose axis-aligned bounding boxes (AABBs) overlap in any environment of a SIMD vector, in ascending order, so
that contacts are found in the same order as by testing all pairs. A pair in this test is three integers (offsets of two
AABBs and the pair index), while its narrow-phase iteration has hundreds of bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

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
from ..tree.presence import both_present, presence_of_frames
from ..tree.trace_context import TraceContext
from ..vector_math import add, dot, rotate, sub
from .aabbs import AABB_SIZE, aabb_separation, compute_aabbs
from .contact_buffer_specs import ContactBufferSpec, contact_buffer_name, fast_pair_mask
from .contact_buffers import ContactBuffer, ContactBuffers
from .pair_geoms import travel_offset
from .pair_parameters import frame_pair_spheres
from .vector_math import if_less

# ----------------------------------------------------------------------------------------- candidate list of geom pairs

MIN_PAIRS_FOR_LIST = 64
"""Number of pairs from which on a candidate list is made. With 90 or 1,475 pairs of primitive geoms in a pile, a step
including the solver is 4 % faster with the list."""


def uses_candidate_list(model: Model, settings: Settings, n_pairs: int) -> bool:
    """Whether the broad phase makes a list of geom pairs with overlapping AABBs.

    Not with a warp per environment, with `BroadPhase.ALL`, or if geom sizes differ between environments; with
    `BroadPhase.AUTO` only for at least `MIN_PAIRS_FOR_LIST` pairs.
    """
    if settings.use_warps or settings.broad_phase is BroadPhase.ALL or settings.per_env & {"geom_size", "variants"}:
        return False
    return n_pairs > 0 and (settings.broad_phase is not BroadPhase.AUTO or n_pairs >= MIN_PAIRS_FOR_LIST)


def resolve_broad_phase(model: Model, settings: Settings) -> Settings:
    """Settings with a broad-phase method that applies to the model.

    Models with rules of collision use the grid (`CELLS`); in others, `CELLS` becomes `LIST` (test of all AABB pairs).
    """
    if model.has_pair_rules:
        return replace(settings, broad_phase=BroadPhase.CELLS)
    is_grid = settings.broad_phase is BroadPhase.CELLS
    return replace(settings, broad_phase=BroadPhase.LIST) if is_grid else settings


def list_overlapping_pairs(
    ctx: TraceContext, specs: Sequence[ContactBufferSpec], geom_pose_offsets: Sequence[ArenaOffset]
) -> ArenaOffset | None:
    """List of the geom pairs whose AABBs overlap in any environment of a SIMD vector.

    Computes the AABBs of all geoms and tests the pairs individually.

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
    aabbs = compute_aabbs(ctx, np.unique(pair_geoms).tolist(), geom_pose_offsets, {})
    candidate_list = ctx.allocate(len(pair_indices) + 1)
    ctx.for_each(
        "clear candidate list",
        [LoopIteration("list", {"list": candidate_list})],
        lambda iteration: iteration.write("list", [0.0]),
    )
    rows = np.arange(len(pair_indices))
    ctx.for_each(
        "overlapping AABBs",
        _aabb_pair_iterations(ctx.model, candidate_list, pair_indices, rows, aabbs, geom_pose_offsets),
        _append_if_overlapping,
    )
    return candidate_list


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

    Writes the overlap flag of every contact buffer (1 if the spheres overlap, a tree of the buffer is awake, and both
    are present) and resets its number of contacts and of contacts lost by overflow. The sphere test is omitted if a
    candidate list of geom pairs is made.
    """
    has_list = uses_candidate_list(
        ctx.model, ctx.settings, sum(len(contact_buffer.spec.pairs) for contact_buffer in contact_buffers.buffers)
    )
    if has_list and not ctx.skips_sleeping_trees and not ctx.settings.presence:
        _flag_all_frame_pairs(ctx, contact_buffers)
        return
    rows = _frame_pair_iterations(ctx, contact_buffers, has_candidate_list=has_list)

    def body(iteration: IterationContext) -> None:
        iteration.write("count", [0.0])
        iteration.write("buffer lost count", [0.0])
        method, involves_world = iteration.specialization  # type: ignore[misc]
        is_awake = _is_any_tree_awake(iteration) if ctx.skips_sleeping_trees else 1.0
        if ctx.settings.presence:
            is_awake = ir.select(0.5, both_present(iteration), is_awake, 0.0)
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
            flags = _sleep_flag_offsets(ctx, contact_buffer)
            flags |= presence_of_frames(ctx, contact_buffer.spec.frames)
            row = contact_buffers.loop_iteration(contact_buffer, flags)
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
