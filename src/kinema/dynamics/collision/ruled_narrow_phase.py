"""Collision detection of models with rules of collision: grid, then one loop over the candidates of each kind of pair.

A candidate joins rows of three tables: its two geoms and the contact parameters. Contacts are appended to the pool of
their contact dimension, and each pair of geoms in contact to the list of pairs between bodies or with the world.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from kinema import ir
from kinema.core import Array
from kinema.ir import (
    SCRATCH,
    ArenaOffset,
    ColumnarGroup,
    IterationContext,
    IterationTable,
    MemoryLocation,
    OffsetColumn,
    Value,
)
from kinema.model import GEOM_TYPES, Model

from ..arrays import DIRECTION_ARRAY, DIRECTION_STEP_ARRAY, MAX_RADIUS
from ..constraints.impedance import valid_solref
from ..rigid.kinematics import Pose
from ..topology import WORLD, dynamic_frames
from ..tree.joined_columns import for_each_record
from ..tree.node_tables import JoinedColumns, NodeColumns
from ..tree.node_values import NodeValues
from ..tree.trace_context import TraceContext
from .aabbs import AABB_SIZE, aabb_separation, compute_aabbs
from .contact_slots import PAIR_FIELDS, ContactPool, ContactSlots
from .geom_poses import compute_geom_poses
from .grid import GridBroadPhase, append_candidate
from .grid_plan import broad_phase_order
from .initial_directions import count_step, keeps_directions
from .local_aabbs import mesh_local_aabb
from .narrow_phase import bounding_volume_test, collide_pair, complete_group
from .pair_kinds import PairKind, find_pair_kinds, pool_specializations
from .pair_parameters import MAX_RELATIVE_STIFFNESS, NarrowPhaseSpecialization, geom_radius
from .vector_math import if_less

COMPUTED_CONSTANTS = ("weight", "hardest", "sign", "pair")
"""Parameters of a pair that follow from both geoms, in local memory."""


def detect_contacts_by_rules(
    ctx: TraceContext,
    slots: ContactSlots,
    frame_poses: NodeValues[Pose],
    awake_frames: ArenaOffset | None = None,
    *,
    is_step: bool = True,
) -> None:
    """Trace the collision detection of a model with rules of collision, into the contact slots.

    Args:
        ctx: tracing context.
        slots: contacts to be filled; their counts are reset.
        frame_poses: poses of frames relative to the shifted world origin.
        awake_frames: whether the body of each frame is awake, at index 1 + frame; pairs of geoms of which none is awake
            are skipped. None for all pairs.
        is_step: whether the directions between pairs of convex geoms are kept for the next step.
    """
    slots.clear()
    if is_step and any(keeps_directions(ctx.model, kind.geom_types) for kind in find_pair_kinds(ctx.model).kinds):
        count_step(ctx.tracer)
    with ctx.without_unrolling():
        geom_poses = compute_geom_poses(ctx, frame_poses, None)
        order, levels = broad_phase_order(ctx.model)
        first = ctx.allocate(AABB_SIZE * len(order))
        places = {geom: ArenaOffset(SCRATCH, first.row + AABB_SIZE * i) for i, geom in enumerate(order)}
        compute_aabbs(ctx, order, geom_poses, places)
        grid = GridBroadPhase(ctx, first, levels, len(order), awake_frames)
        grid.list_candidates()
        _add_explicit_pairs(ctx, grid, places)
        kinds = find_pair_kinds(ctx.model).kinds
        pools = dict(zip(pool_specializations(ctx.model), slots.pools, strict=True))
        tables = _CandidateTables(ctx, geom_poses, slots, "update" if is_step else "read")
        for kind, candidates in zip(kinds, grid.candidates, strict=True):
            for_each_record(
                ctx,
                f"narrow phase of {kind.geom_types[0]} and {kind.geom_types[1]}",
                candidates,
                [0, 1, 2],
                partial(tables.join, kind, pools[kind.contacts]),
                ("geom a", "geom b", "parameters"),
                partial(_collide_candidate, ctx, kind=kind),
            )
        lost = ctx.tracer.read(SCRATCH, slots.lost_count.row) + ctx.tracer.read(SCRATCH, grid.lost.row)
        found = slots.count_contacts() + lost
        ctx.tracer.write(SCRATCH, [lost], slots.lost_count.row)
        needed = ir.floor(found * (1.0 / len(order))) + 1.0
        ctx.tracer.write(SCRATCH, [ir.select(0.5, lost, needed, 0.0)], slots.required_capacity.row)
        ctx.tracer.new_basic_block()


def _add_explicit_pairs(ctx: TraceContext, grid: GridBroadPhase, aabbs: Mapping[int, ArenaOffset]) -> None:
    """Trace a loop that appends the explicit pairs of geoms whose AABBs overlap to the candidates."""
    model, kinds = ctx.model, find_pair_kinds(ctx.model)
    rows = []
    for a, b, parameters in model.pair_rules.explicit.tolist():
        first, second = sorted((a, b), key=lambda g: (GEOM_TYPES.index(model.geoms.types[g]), g))
        kind = kinds.kind_of_row.get((parameters, model.geoms.types[first], model.geoms.types[second]))
        if kind is not None:
            rows.append((first, second, parameters, kind))
    if not rows:
        return
    columns = {
        "a": OffsetColumn.from_offsets([aabbs[row[0]] for row in rows]),
        "b": OffsetColumn.from_offsets([aabbs[row[1]] for row in rows]),
    }
    columns |= {name: OffsetColumn.repeated(x, len(rows)) for name, x in grid.list_offsets().items()}
    if grid.awake_frames is not None:
        frames = dynamic_frames(model, model.geoms.frame_idx)
        for i, side in enumerate("ab"):
            of_frames = grid.awake_frames.row + 1 + frames[[row[i] for row in rows]]
            columns[f"awake {side}"] = OffsetColumn(SCRATCH, of_frames.astype(np.int64))
    constants = {"candidate": np.array(rows, np.float64)}
    table = IterationTable([ColumnarGroup("explicit", np.arange(len(rows)), columns, constants)])

    def test(iteration: IterationContext) -> None:
        *candidate, kind = iteration.constants("candidate")
        separation = aabb_separation(iteration.read_array("a", AABB_SIZE), iteration.read_array("b", AABB_SIZE))
        if grid.awake_frames is not None:
            separation = ir.select(0.5, iteration.read("awake a") + iteration.read("awake b"), separation, 1.0)
        append = partial(append_candidate, iteration.tracer, grid.capacity, grid.stride * kind, candidate)
        if_less(iteration.tracer, "overlap", separation, 0.0, append)

    ctx.for_each("explicit pairs", table, test)


class _CandidateTables:
    """Tables of geoms and contact parameters that candidates join."""

    def __init__(self, ctx: TraceContext, geom_poses: list[ArenaOffset], slots: ContactSlots, directions: str) -> None:
        """Args beyond context, poses and contacts: `NarrowPhaseSpecialization.directions` of iterative pairs."""
        self.ctx, self.slots, self._directions = ctx, slots, directions
        self._poses = OffsetColumn.from_offsets(geom_poses)
        self._geoms = _geom_constants(ctx.model, slots.row_of_geom)
        self._parameters = _parameter_constants(ctx.model)

    def join(self, kind: PairKind, pool: ContactPool, fields: Mapping[str, MemoryLocation]) -> JoinedColumns:
        """Tables of the candidates of a kind."""
        ctx, n_geoms, computed = (
            self.ctx,
            len(self._poses.rows),
            self.ctx.tracer.allocate_local(len(COMPUTED_CONSTANTS)),
        )
        specialization = _specialization(ctx, kind, self.slots.group_size)
        if keeps_directions(ctx.model, kind.geom_types):
            specialization = replace(specialization, directions=self._directions)
        arrays = {
            "contacts": pool.contacts,
            "pool count": pool.n_contacts,
            "record count": pool.n_records,
            "lost count": self.slots.lost_count,
            "pairs": pool.pairs[False].offset,
            "world pairs": pool.pairs[True].offset,
        }
        if specialization.directions:
            arrays |= {name: ctx.array_offsets[name] for name in (DIRECTION_ARRAY, DIRECTION_STEP_ARRAY)}
        if ctx.model.geoms.data.size:
            arrays["geom_data"] = ctx.array_offsets["geom_data"]
        tables: list[NodeColumns] = []
        for side in "ab":
            columns = {side: self._poses}
            if side == "a":
                columns |= {name: OffsetColumn.repeated(x, n_geoms) for name, x in arrays.items()}
            constants = {f"{side} {name}": x for name, x in self._geoms.items()}
            tables.append(ctx.node_columns(specialization, np.arange(n_geoms), {}, columns, constants=constants))
        n = len(self._parameters["margin"])
        constants = {**self._parameters, "capacity": np.full((n, 1), float(pool.capacity))}
        constants["record capacity"] = np.full((n, 1), float(pool.record_capacity))
        constants["pair capacity"] = np.full((n, 1), float(pool.pairs[False].capacity))
        tables.append(ctx.node_columns(specialization, np.arange(n), {}, {}, constants=constants))
        of_pair = {name: MemoryLocation(computed, i) for i, name in enumerate(COMPUTED_CONSTANTS)}
        return JoinedColumns(tables, {**fields, **of_pair})


def _geom_constants(model: Model, row_of_geom: Array) -> dict[str, Array]:
    """Parameters of all geoms for the narrow phase by name, (n_geoms, width)."""
    geoms, n = model.geoms, range(len(model.geoms.names))
    radii = np.array([geom_radius(model, g) for g in n])
    return {
        "size": geoms.size,
        "data": np.column_stack([geoms.data_start, geoms.data_counts, radii]).astype(np.float64),
        "aabb": np.array([mesh_local_aabb(model, g) for g in n], np.float64),
        "center": geoms.center,
        "radius": np.minimum(geoms.radius, MAX_RADIUS)[:, None],
        "invweight": model.derived.geom_invweight[:, :1],
        "is on world": (dynamic_frames(model, geoms.frame_idx) == WORLD)[:, None].astype(np.float64),
        "row": row_of_geom[:, None].astype(np.float64),
    }


def _parameter_constants(model: Model) -> dict[str, Array]:
    """Contact parameters by name, (n_rows, width)."""
    rows = model.pair_rules.parameters
    return {
        "margin": rows.margin[:, None],
        "force margin": (rows.margin - rows.gap)[:, None],
        "friction": rows.friction,
        "inverse sqrt impratio": np.full((len(rows.margin), 1), model.options.impratio**-0.5),
        "solref": np.array([valid_solref(x) for x in rows.solref.tolist()], np.float64),
        "solref friction": np.array([valid_solref(x) for x in rows.solref_friction.tolist()], np.float64),
        "solimp": rows.solimp,
    }


def _specialization(ctx: TraceContext, kind: PairKind, group_size: int) -> NarrowPhaseSpecialization:
    return NarrowPhaseSpecialization(
        kind.geom_types,
        kind.contacts.condim,
        kind.contacts.elliptic,
        kind.solimp_power,
        kind.has_solref_friction,
        may_overflow=False,
        refsafe=ctx.model.options.refsafe,
        has_restitution_or_stiction=False,
        per_env_parameters=(),
        uses_lists=False,
        multiccd=ctx.model.options.multiccd,
        has_surface_velocity=False,
        surface_velocities=(),
        uses_pool=True,
        group_size=group_size,
    )


def _collide_candidate(ctx: TraceContext, iteration: IterationContext, kind: PairKind) -> None:
    """Code of a candidate: find its contacts, and list the pair if there are any."""
    tracer, settings = iteration.tracer, ctx.settings
    weight = iteration.constant("a invweight") + iteration.constant("b invweight")
    is_limited = settings.is_single_precision and kind.contacts.condim > 1 and not kind.contacts.elliptic
    hardest: Value = MAX_RELATIVE_STIFFNESS / weight if is_limited else MAX_RADIUS
    sign = 1.0 - 2.0 * iteration.constant("b is on world")
    computed = iteration.group.record_fields[COMPUTED_CONSTANTS[0]].array
    tracer.write(computed, [weight, hardest, sign, 1.0])
    before = tracer.allocate_local(2)
    tracer.write(before, [iteration.read("pool count"), iteration.read("record count")])
    tracer.new_basic_block()
    if_less(tracer, "near", *bounding_volume_test(iteration), lambda: collide_pair(iteration, iteration.specialization))
    first, end, first_record = tracer.read(before), iteration.read("pool count"), tracer.read(before, 1)

    def list_pair(array: str, rows: list[Value]) -> None:
        count = iteration.read(array)
        geoms = [iteration.read("geom a"), iteration.read("geom b")]
        record = [*rows, first, end - first, first_record, *geoms]
        assert len(record) == len(PAIR_FIELDS)

        def append() -> None:
            tracer.write(array, record, 1, count * float(len(record)))
            tracer.write(array, [count + 1.0])

        def lose() -> None:
            iteration.write("lost count", [iteration.read("lost count") + (end - first)])

        if_less(tracer, "list has room", count, iteration.constant("pair capacity"), append)
        if_less(tracer, "list is full", iteration.constant("pair capacity") - 0.5, count, lose)

    def list_contacts() -> None:
        complete_group(iteration, iteration.specialization)
        a, b = iteration.constant("a row"), iteration.constant("b row")
        on_world = iteration.constant("a is on world") + iteration.constant("b is on world")
        of_body = ir.select(iteration.constant("a is on world"), 0.5, a, b)
        if_less(tracer, "with the world", 0.5, on_world, lambda: list_pair("world pairs", [0.0, of_body]))
        if_less(tracer, "between bodies", on_world, 0.5, lambda: list_pair("pairs", [a, b]))

    if_less(tracer, "in contact", first, end, list_contacts)
