"""Putting islands at rest to sleep, and waking sleeping islands when their state, inputs or contacts change.

The array `asleep` of a tree is 0 while awake, else 1 + the index of the island that it fell asleep with; `still` counts
the consecutive steps with all velocities below the threshold. Sleeping trees are idle: loops over frames skip them.
"""

from __future__ import annotations

from collections.abc import Container, Iterator

from kinema import ir
from kinema.ir import SCRATCH, ArenaOffset, IterationContext, LoopIteration, Value

from ..arrays import PRESENT_ARRAY, ElementKind
from ..collision.contact_buffer_specs import ContactSpecialization
from ..collision.contact_buffers import ContactBufferFilter, ContactBuffers
from ..collision.narrow_phase import detect_contacts
from ..constraints.constraint_kinds import blocks_by_kind
from ..rigid.kinematics import Pose, Twist
from ..solver.islands import moving_trees
from ..topology import dynamic_frames
from ..tree.kinematic_tree import WORLD
from ..tree.loop_context import IDLE_FLAG, tree_index_of_frames
from ..tree.node_values import NodeValues
from ..tree.per_tree import PerTreeArray, for_each_tree
from ..tree.trace_context import TraceContext
from .policy import NEVER, dof_lengths, sleep_policies

# ------------------------------------------------------------------------------------------------------- falling asleep

MIN_REST_STEPS = 10.0
"""Consecutive still steps of all trees of an island before it sleeps (as in MuJoCo)."""


def put_resting_islands_to_sleep(ctx: TraceContext, islands: PerTreeArray) -> None:
    """Count the steps that each tree is at rest, and put islands to sleep whose trees are all at rest long enough.

    A tree is at rest if all its dof velocities, times the length scale of the dof, are below the sleep tolerance. Trees
    that must never sleep have a count of 0.
    """
    assert ctx.idle_flags is not None
    idle, speeds, n_ready = ctx.idle_flags, PerTreeArray(ctx), ctx.allocate_fixed(1)
    ctx.tracer.write(SCRATCH, [0.0], n_ready.row)
    for_each_tree(
        ctx,
        "clear tree speeds",
        lambda t: {"speed": speeds.offset_of(t)},
        lambda iteration: iteration.write("speed", [0.0]),
    )
    trees, lengths = tree_index_of_frames(ctx.model), dof_lengths(ctx.model)
    rows = [
        LoopIteration(
            "dof",
            {**ctx.dof_arrays(dof), **ctx.idle_flag_of_frame(node.index), "speed": speeds.offset_of(trees[node.index])},
            {"length": [float(lengths[dof])]},
        )
        for node in ctx.nodes
        for dof in node.dofs
    ]

    def update_speed(iteration: IterationContext) -> None:
        speed = ir.absolute(iteration.read("vel")) * iteration.constant("length")
        iteration.write("speed", [ir.maximum(iteration.read("speed"), speed)])

    with ctx.without_unrolling():
        ctx.for_each("maximum speeds of trees", rows, update_speed)

    policy = sleep_policies(ctx.model)

    def tree_offsets(tree: int) -> dict[str, ArenaOffset]:
        arrays = {
            "speed": speeds.offset_of(tree),
            "island": islands.offset_of(tree),
            "ready": n_ready,
            IDLE_FLAG: idle.of_tree(tree),
        }
        return {**arrays, **ctx.element_arrays(ElementKind.TREE, tree)}

    rows = [
        LoopIteration("never" if policy[t] == NEVER else "allowed", tree_offsets(t), {"tree": [float(t)]})
        for t in ctx.trees
    ]

    def count_rest_steps(iteration: IterationContext) -> None:
        if iteration.specialization == "never":
            iteration.write("still", [0.0])
            return
        still = ir.select(iteration.read("speed"), ctx.settings.sleep_tolerance, iteration.read("still") + 1.0, 0.0)
        iteration.write("still", [still])
        iteration.write("ready", [iteration.read("ready") + ir.select(still, MIN_REST_STEPS - 0.5, 0.0, 1.0)])

    with ctx.without_unrolling():
        ctx.for_each("count steps at rest", rows, count_rest_steps)
    ctx.if_nonzero(
        "some tree was still long enough",
        ctx.tracer.read(SCRATCH, n_ready.row),
        lambda: _mark_islands_asleep(ctx, islands),
    )


def _mark_islands_asleep(ctx: TraceContext, islands: PerTreeArray) -> None:
    """Put all islands to sleep whose trees were all at rest for `MIN_REST_STEPS`, and store their state.

    Sets `asleep` to 1 + island index for the trees of these islands, and to 0 for other active trees.
    """
    assert ctx.idle_flags is not None
    idle = ctx.idle_flags
    moving = PerTreeArray(ctx)
    for_each_tree(
        ctx,
        "clear moving islands",
        lambda t: {"moving": moving.offset_of(t)},
        lambda iteration: iteration.write("moving", [0.0]),
    )

    def tree_offsets(tree: int) -> dict[str, ArenaOffset]:
        arrays = {"island": islands.offset_of(tree), "moving": moving.start, IDLE_FLAG: idle.of_tree(tree)}
        return {**arrays, **ctx.element_arrays(ElementKind.TREE, tree)}

    def flag_moving(iteration: IterationContext) -> None:
        def set_flag() -> list[Value]:
            iteration.tracer.write("moving", [1.0], 0, iteration.read("island"))
            return []

        iteration.tracer.if_less("moving", iteration.read("still"), MIN_REST_STEPS - 0.5, set_flag, [])

    for_each_tree(ctx, "moving islands", tree_offsets, flag_moving)

    def write_asleep(iteration: IterationContext) -> None:
        island = iteration.read("island")
        asleep = ir.select(iteration.tracer.read("moving", 0, island), 0.5, island + 1.0, 0.0)
        iteration.write("asleep", [asleep])

    for_each_tree(ctx, "put islands to sleep", tree_offsets, write_asleep)
    _store_state_at_sleep(ctx)


def _store_state_at_sleep(ctx: TraceContext) -> None:
    """Set the velocities of sleeping trees to zero and store positions, commands, controls and gravity.

    Later differences from the stored values wake the tree.
    """
    assert ctx.idle_flags is not None
    trees, idle = tree_index_of_frames(ctx.model), ctx.idle_flags

    def row(specialization: str, tree: int, **offsets: ArenaOffset) -> LoopIteration:
        arrays = {"asleep": ctx.element_arrays(ElementKind.TREE, tree)["asleep"], IDLE_FLAG: idle.of_tree(tree)}
        return LoopIteration((specialization, *(offset.arena for offset in offsets.values())), {**arrays, **offsets})

    rows: list[LoopIteration] = []
    for node in ctx.nodes:
        for q in node.qs:
            arrays = ctx.element_arrays(ElementKind.COORDINATE, q)
            rows.append(row("store", trees[node.index], now=arrays["qpos"], before=arrays["slept_qpos"]))
        for dof in node.dofs:
            arrays = ctx.element_arrays(ElementKind.DOF, dof)
            rows.append(row("stop", trees[node.index], before=arrays["vel"]))
            rows.append(row("store", trees[node.index], now=arrays["command"], before=arrays["slept_command"]))
    for actuator, moment in enumerate(ctx.model.actuators.control_moment):
        arrays = ctx.element_arrays(ElementKind.ACTUATOR, actuator)
        actuated_trees = {trees[int(ctx.model.dofs.frame_idx[d])] for d in moment.nonzero()[0]}
        rows += [row("store", tree, now=arrays["ctrl"], before=arrays["slept_ctrl"]) for tree in actuated_trees]
    arrays = ctx.element_arrays(ElementKind.ENVIRONMENT, 0)
    for tree in ctx.trees:
        for i in range(3):
            now, before = (
                ArenaOffset(arrays[name].arena, arrays[name].row + i) for name in ("gravity", "slept_gravity")
            )
            rows.append(row("store", tree, now=now, before=before))

    def body(iteration: IterationContext) -> None:
        def store() -> list[Value]:
            iteration.write("before", [0.0 if "stop" in str(iteration.specialization) else iteration.read("now")])
            return []

        iteration.tracer.if_less("asleep", 0.5, iteration.read("asleep"), store, [])

    with ctx.without_unrolling():
        ctx.for_each("store state at sleep", rows, body)


# --------------------------------------------------------------------------------------------------------------- waking


class SleepState:
    """Sleep state of all trees during a step: number of sleeping trees and islands to be woken."""

    def __init__(self, ctx: TraceContext) -> None:
        self.ctx = ctx
        self.n_asleep = ctx.allocate_fixed(1)
        """Number of sleeping trees."""
        self.wake_flags = ctx.allocate(len(set(tree_index_of_frames(ctx.model))) + 1)
        """Wake flag of each island, at index 1 + island; index 0 collects writes without effect."""

    def asleep_offset(self, tree: int) -> ArenaOffset:
        """Return the offset of a tree's `asleep` value: 0, or 1 + the index of the island it fell asleep with."""
        return self.ctx.element_arrays(ElementKind.TREE, tree)["asleep"]

    def begin_step(self) -> None:
        """Mark sleeping and absent trees idle (skipped by loops), count the sleeping ones.

        Wakes islands with changed state or inputs.
        """
        ctx, tracer = self.ctx, self.ctx.tracer
        assert ctx.idle_flags is not None
        tracer.write(SCRATCH, [0.0], self.n_asleep.row)

        def mark_idle(iteration: IterationContext) -> None:
            asleep = ir.select(0.5, iteration.read("asleep"), 1.0, 0.0)
            is_idle = asleep
            if iteration.has_array(PRESENT_ARRAY):
                is_idle = ir.select(0.5, iteration.read(PRESENT_ARRAY), asleep, 1.0)
            iteration.write("idle flag", [is_idle])
            iteration.write("count", [iteration.read("count") + asleep])

        idle, can_idle = ctx.idle_flags, trees_idle_while_absent(ctx)
        rows = [
            LoopIteration(
                "tree that may be absent" if t in can_idle else "tree",
                {
                    "asleep": self.asleep_offset(t),
                    "idle flag": idle.of_tree(t),
                    "count": self.n_asleep,
                    **_presence(ctx, t, can_idle),
                },
                {"tree": [float(t)]},
            )
            for t in ctx.trees
        ]
        with ctx.without_unrolling():
            ctx.for_each("sleeping trees", rows, mark_idle)
        ctx.if_nonzero("any tree sleeps", tracer.read(SCRATCH, self.n_asleep.row), self._wake_disturbed)

    def _wake_disturbed(self) -> None:
        """Wake islands of sleeping trees whose positions, velocities, inputs, applied forces or gravity changed."""
        self._clear_wake_flags()

        def compare(iteration: IterationContext) -> None:
            def flag() -> list[Value]:
                reference: Value = 0.0 if "zero" in str(iteration.specialization) else iteration.read("before")
                index = ir.select(0.0, ir.absolute(iteration.read("now") - reference), iteration.read("asleep"), 0.0)
                iteration.tracer.write("wake flags", [1.0], 0, index)
                return []

            iteration.tracer.if_less("asleep", 0.5, iteration.read("asleep"), flag, [])

        with self.ctx.without_unrolling():
            self.ctx.for_each("disturbances of sleeping trees", list(self._disturbance_iterations()), compare)
        self._wake_flagged()

    def _disturbance_iterations(self) -> Iterator[LoopIteration]:
        """Yield loop iterations of all values whose change wakes a sleeping tree.

        Positions, commands, controls and gravity wake the tree if they differ from the stored value; velocities and
        applied forces if they are not zero.
        """
        ctx, trees = self.ctx, tree_index_of_frames(self.ctx.model)

        def row(tree: int, now: ArenaOffset, before: ArenaOffset | None = None) -> LoopIteration:
            offsets = {"asleep": self.asleep_offset(tree), "wake flags": self.wake_flags, "now": now}
            if before is None:
                return LoopIteration(("zero", now.arena), offsets)
            return LoopIteration(("stored", now.arena), {**offsets, "before": before})

        for node in ctx.nodes:
            tree = trees[node.index]
            for q in node.qs:
                arrays = ctx.element_arrays(ElementKind.COORDINATE, q)
                yield row(tree, arrays["qpos"], arrays["slept_qpos"])
            for dof in node.dofs:
                arrays = ctx.element_arrays(ElementKind.DOF, dof)
                yield row(tree, arrays["vel"])
                yield row(tree, arrays["command"], arrays["slept_command"])
                if ctx.settings.external_forces:
                    yield row(tree, arrays["dof_force_applied"])
        for actuator, moment in enumerate(ctx.model.actuators.control_moment):
            arrays = ctx.element_arrays(ElementKind.ACTUATOR, actuator)
            for tree in {trees[int(ctx.model.dofs.frame_idx[d])] for d in moment.nonzero()[0]}:
                yield row(tree, arrays["ctrl"], arrays["slept_ctrl"])
        for tree in ctx.trees:
            for body in range(len(ctx.kinematic_nodes)):
                yield row(tree, ctx.element_arrays(ElementKind.KINEMATIC_BODY, body)["kinematic_steps"])
            arrays = ctx.element_arrays(ElementKind.ENVIRONMENT, 0)
            for i in range(3):
                yield row(tree, _offset_by(arrays["gravity"], i), _offset_by(arrays["slept_gravity"], i))
        for link in ctx.links if ctx.settings.external_forces else ():
            frame = int(dynamic_frames(ctx.model, ctx.model.links.frame_idx)[link])
            arrays = ctx.element_arrays(ElementKind.LINK, link)
            for name in ("cfrc_applied_ang", "cfrc_applied_vel"):
                for i in range(3 if frame != WORLD else 0):
                    yield row(trees[frame], _offset_by(arrays[name], i))

    def wake_contacted(self, buffers: ContactBuffers) -> Value:
        """Wake islands with a sleeping tree in contact with an awake tree; return the number of trees woken."""
        ctx, total = self.ctx, self.ctx.allocate_fixed(1)

        def flag_mixed(iteration: IterationContext, _: ContactSpecialization) -> None:
            a, b = iteration.read("asleep a"), iteration.read("asleep b")
            mixed = ir.select(ir.minimum(a, b), 0.5, ir.maximum(a, b), 0.0)
            iteration.tracer.write("wake flags", [1.0], 0, mixed)

        rows = []
        for contact_buffer in buffers.select_buffers(ContactBufferFilter.BETWEEN_FRAMES):
            asleep_a, asleep_b = (self.asleep_offset(tree) for tree in moving_trees(ctx, contact_buffer.spec.frames))
            with ctx.including_idle_trees():
                rows.append(
                    buffers.loop_iteration(
                        contact_buffer, {"asleep a": asleep_a, "asleep b": asleep_b, "wake flags": self.wake_flags}
                    )
                )

        def wake() -> None:
            self._clear_wake_flags()
            buffers.for_each_active_buffer(
                "contacts with sleeping trees", flag_mixed, rows, ContactBufferFilter.BETWEEN_FRAMES
            )
            self._wake_flagged(total)

        ctx.tracer.write(SCRATCH, [0.0], total.row)
        ctx.if_nonzero("any tree sleeps", ctx.tracer.read(SCRATCH, self.n_asleep.row), wake)
        return ctx.tracer.read(SCRATCH, total.row)

    def _clear_wake_flags(self) -> None:
        """Clear the wake flags of all islands."""
        for_each_tree(
            self.ctx,
            "clear wake flags",
            lambda t: {"wake flags": _offset_by(self.wake_flags, t + 1)},
            _write_zero_wake_flag,
        )

    def _wake_flagged(self, n_woken: ArenaOffset | None = None) -> None:
        """Wake all trees of the islands whose wake flag is set: clear `asleep`, `still` and the idle flag.

        Decreases the number of sleeping trees, and adds the number of trees woken to `n_woken` if given.
        """
        ctx = self.ctx
        assert ctx.idle_flags is not None
        idle = ctx.idle_flags

        def tree_offsets(tree: int) -> dict[str, ArenaOffset]:
            arrays = {
                "asleep": self.asleep_offset(tree),
                "still": ctx.element_arrays(ElementKind.TREE, tree)["still"],
                "idle flag": idle.of_tree(tree),
            }
            return {**arrays, "wake flags": self.wake_flags, "count": self.n_asleep, "total": n_woken or self.n_asleep}

        def wake(iteration: IterationContext) -> None:
            def clear() -> list[Value]:
                for name in ("asleep", "still", "idle flag"):
                    iteration.write(name, [0.0])
                iteration.write("count", [iteration.read("count") - 1.0])
                if n_woken is not None:
                    iteration.write("total", [iteration.read("total") + 1.0])
                return []

            asleep = iteration.read("asleep")
            is_flagged = ir.select(0.5, asleep, iteration.tracer.read("wake flags", 0, asleep), 0.0)
            iteration.tracer.if_less("island is flagged", 0.5, is_flagged, clear, [])

        for_each_tree(ctx, "wake flagged islands", tree_offsets, wake)


def find_contacts_and_wake(
    ctx: TraceContext,
    buffers: ContactBuffers,
    shifted_world_poses: NodeValues[Pose],
    frame_velocities: NodeValues[Twist] | None,
    sleep_state: SleepState | None,
) -> None:
    """Detect contacts and wake sleeping islands touched by awake trees, repeatedly until no further tree wakes.

    Finally lists the active contact buffers. Without sleep, contacts are detected once.

    Args:
        ctx: tracing context.
        buffers: contact buffers to be filled.
        shifted_world_poses: frame poses about the shifted world origin of the contact coordinates.
        frame_velocities: velocities of frames; None without fast geoms.
        sleep_state: sleep state of the step; None if sleep is disabled.
    """

    def detect_and_wake() -> tuple[Value, Value]:
        assert sleep_state is not None
        detect_contacts(ctx, buffers, shifted_world_poses, frame_velocities)
        return 0.5, sleep_state.wake_contacted(buffers)

    if sleep_state is None:
        buffers.list_active_buffers(detect_contacts(ctx, buffers, shifted_world_poses, frame_velocities))
        return
    ctx.while_loop("detect contacts and wake", detect_and_wake, len(ctx.trees) + 1)
    buffers.list_active_buffers()


def mark_all_awake(ctx: TraceContext) -> None:
    """Clear the idle flags of all trees that are present."""
    assert ctx.idle_flags is not None
    idle, can_idle = ctx.idle_flags, trees_idle_while_absent(ctx)

    def mark(iteration: IterationContext) -> None:
        absent = 0.0
        if iteration.has_array(PRESENT_ARRAY):
            absent = ir.select(0.5, iteration.read(PRESENT_ARRAY), 0.0, 1.0)
        iteration.write("idle flag", [absent])

    rows = [
        LoopIteration(
            "tree that may be absent" if t in can_idle else "tree",
            {"idle flag": idle.of_tree(t), **_presence(ctx, t, can_idle)},
            {"tree": [float(t)]},
        )
        for t in ctx.trees
    ]
    with ctx.without_unrolling():
        ctx.for_each("clear idle flags", rows, mark)


def trees_idle_while_absent(ctx: TraceContext) -> set[int]:
    """Trees that loops skip while they are absent: those that no constraint connects to other trees.

    The others are computed with zeros, as the rows of a constraint read the values of all of its trees.
    """
    if not ctx.settings.presence:
        return set()
    trees, coupled = tree_index_of_frames(ctx.model), set[int]()
    for _, blocks in blocks_by_kind(ctx.model, ctx.settings, ctx.nodes):
        for block in blocks:
            group = {trees[int(ctx.model.dofs.frame_idx[dof])] for dof in block.dofs}
            coupled |= group if len(group) > 1 else set()
    for moment in (*ctx.model.tendons.moment, *ctx.model.actuators.moment):
        group = {trees[int(ctx.model.dofs.frame_idx[dof])] for dof in moment.nonzero()[0]}
        coupled |= group if len(group) > 1 else set()
    return set(ctx.trees) - coupled


def _presence(ctx: TraceContext, tree: int, can_idle: Container[int]) -> dict[str, ArenaOffset]:
    return {PRESENT_ARRAY: ctx.presence_offset(tree)} if tree in can_idle else {}


def _offset_by(place: ArenaOffset, offset: int) -> ArenaOffset:
    return ArenaOffset(place.arena, place.row + offset)


def _write_zero_wake_flag(iteration: IterationContext) -> None:
    iteration.write("wake flags", [0.0])
