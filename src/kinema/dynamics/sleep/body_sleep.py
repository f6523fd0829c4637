"""Sleep in scenes of free bodies with rules of collision: islands at rest fall asleep, and are woken by what they meet.

The rules are those of `sleep_wake.py`. Loops visit lists of the awake bodies, so that a step in which all bodies sleep
compares their state with that at which they fell asleep and does nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from kinema import ir
from kinema.ir import (
    SCRATCH,
    ArenaOffset,
    ColumnarGroup,
    IterationContext,
    IterationTable,
    OffsetColumn,
    Value,
)

from ..arrays import ARRAYS_BY_NAME, PRESENT_ARRAY, ElementKind
from ..collision.contact_buffer_specs import ContactSpecialization
from ..collision.contact_buffers import ContactBufferFilter
from ..collision.contact_slots import ContactSlots
from ..topology import WORLD, dynamic_frames, tree_index_of_frames
from ..tree.body_context import BODY_DOFS, BODY_QS
from ..tree.kinematic_tree import Ints
from ..tree.per_tree import PerTreeArray, StatePerTree
from ..tree.trace_context import TraceContext
from .policy import NEVER, dof_lengths, sleep_policies
from .sleep_wake import MIN_REST_STEPS


class BodySleep:
    """Sleep state of the free bodies of a model during a step; bodies have the numbers of their trees."""

    def __init__(self, ctx: TraceContext, first_qs: Sequence[int], first_dofs: Sequence[int]) -> None:
        """`first_qs` and `first_dofs` are the first coordinate and degree of freedom of each body."""
        self.ctx, self.n_bodies = ctx, len(ctx.nodes)
        self._first = {
            ElementKind.COORDINATE: np.array(first_qs, np.int64),
            ElementKind.DOF: np.array(first_dofs, np.int64),
            ElementKind.TREE: np.arange(self.n_bodies),
        }
        self._frames = np.array([node.index for node in ctx.nodes])
        self.awake_frames = ctx.allocate(ctx.model.n_frames + 1)
        """Whether the body of each frame is awake, at index 1 + frame; the world, at index 0, is not."""
        self.n_awake, self._n_woken = ctx.allocate(1), ctx.allocate(1)
        """Number of awake bodies, and of those woken last."""
        self._wake_flags = ctx.allocate(self.n_bodies + 1)
        """Wake flag of each island, at index 1 + island; index 0 collects writes without effect."""
        self.awake_bodies = ctx.allocate(self.n_bodies + 1)
        """List of the awake bodies."""

    # ------------------------------------------------------------------------------------------------------------ loops

    def _column(self, array: str, bodies: Ints | None = None) -> OffsetColumn:
        """Offsets of the first values of the bodies in an array."""
        info, start = ARRAYS_BY_NAME[array], self.ctx.array_offsets[array]
        if info.element_kind is ElementKind.ENVIRONMENT:
            return OffsetColumn.repeated(start, self.n_bodies if bodies is None else len(bodies))
        first = self._first[info.element_kind]
        return OffsetColumn(start.arena, start.row + info.width * (first if bodies is None else first[bodies]))

    def _for_each_body(
        self,
        name: str,
        body: Callable[[IterationContext], None],
        arrays: Sequence[str],
        others: Mapping[str, ArenaOffset | PerTreeArray] | None = None,
        constants: Mapping[str, np.ndarray] | None = None,
        active: ArenaOffset | None = None,
    ) -> None:
        """Trace a loop over the bodies, with arrays of the state, others, and the constant `body`, their number."""
        indices = np.arange(self.n_bodies)
        columns = {array: self._column(array) for array in arrays}
        columns["awake frame"] = OffsetColumn(SCRATCH, self.awake_frames.row + 1 + self._frames)
        for array, offset in (others or {}).items():
            is_per_tree = isinstance(offset, PerTreeArray)
            columns[array] = offset.column_of(indices) if is_per_tree else OffsetColumn.repeated(offset, self.n_bodies)
        group = ColumnarGroup(
            "body", indices, columns, {"body": indices[:, None].astype(np.float64), **(constants or {})}
        )
        with self.ctx.without_unrolling():
            self.ctx.for_each(name, IterationTable([group]), body, active)

    # ----------------------------------------------------------------------------------------------------------- waking

    def begin_step(self) -> None:
        """Wake islands with changed state or inputs, and find out who is awake."""
        settings = self.ctx.settings
        self._clear_wake_flags()
        names = [("qpos", "slept_qpos", BODY_QS), ("command", "slept_command", BODY_DOFS)]
        names += [("gravity", "slept_gravity", 3), ("vel", "", BODY_DOFS)]
        names += [("dof_force_applied", "", BODY_DOFS)] if settings.external_forces else []

        def compare(iteration: IterationContext) -> None:
            _flag_if_changed(iteration, names)

        arrays = [name for pair in names for name in pair[:2] if name]
        self._for_each_body("disturbances of sleeping bodies", compare, ["asleep", *arrays], self._flags)
        if settings.external_forces:
            self._compare_link_forces()
        self._wake_flagged()

    def _compare_link_forces(self) -> None:
        """Flag the islands of sleeping bodies to whose links forces are applied."""
        ctx, model = self.ctx, self.ctx.model
        frames = dynamic_frames(model, model.links.frame_idx)
        links = np.flatnonzero(frames != WORLD)
        bodies = np.array(tree_index_of_frames(model))[frames[links]]
        names = [("cfrc_applied_ang", "", 3), ("cfrc_applied_vel", "", 3)]
        columns = {"asleep": self._column("asleep", bodies)}
        for name, _, _ in names:
            start = ctx.array_offsets[name]
            columns[name] = OffsetColumn(start.arena, start.row + ARRAYS_BY_NAME[name].width * links)
        columns |= {name: OffsetColumn.repeated(x, len(links)) for name, x in self._flags.items()}
        group = ColumnarGroup("link", np.arange(len(links)), columns)
        with ctx.without_unrolling():
            ctx.for_each(
                "forces on sleeping bodies",
                IterationTable([group]),
                lambda iteration: _flag_if_changed(iteration, names),
            )

    @property
    def _flags(self) -> dict[str, ArenaOffset]:
        return {"wake flags": self._wake_flags}

    def _clear_wake_flags(self) -> None:
        tracer = self.ctx.tracer
        count = float(self.n_bodies + 1)
        tracer.counted_loop("clear wake flags", count, lambda i: tracer.write(SCRATCH, [0.0], self._wake_flags.row, i))

    def _wake_flagged(self) -> None:
        """Wake all bodies of the islands whose wake flag is set; list and count who is awake, and who was woken."""
        tracer = self.ctx.tracer
        for counter in (self.n_awake, self._n_woken):
            tracer.write(SCRATCH, [0.0], counter.row)

        def wake(iteration: IterationContext) -> None:
            asleep = iteration.read("asleep")
            flag = iteration.tracer.read("wake flags", 0, asleep)
            is_woken = ir.select(0.5, asleep, flag, 0.0)
            is_awake = ir.select(0.5, asleep, flag, self._if_present(iteration))
            count = iteration.read("n awake")
            iteration.write("n woken", [iteration.read("n woken") + is_woken])
            iteration.write("awake frame", [is_awake])
            iteration.tracer.write("awake bodies", [iteration.constant("body")], 1, count)  # overwritten if asleep
            iteration.write("n awake", [count + is_awake])

            def clear() -> list[Value]:
                for name in ("asleep", "still"):
                    iteration.write(name, [0.0])
                return []

            iteration.tracer.if_less("is woken", 0.5, is_woken, clear, [])

        others = {**self._flags, "n awake": self.n_awake, "n woken": self._n_woken, "awake bodies": self.awake_bodies}
        self._for_each_body("wake flagged islands", wake, ["asleep", "still", *self._presence], others)
        tracer.write(SCRATCH, [tracer.read(SCRATCH, self.n_awake.row)], self.awake_bodies.row)

    @property
    def _presence(self) -> list[str]:
        return [PRESENT_ARRAY] if self.ctx.settings.presence else []

    def _if_present(self, iteration: IterationContext) -> Value:
        """1 if the body is present, else 0: absent bodies count as asleep, and are never woken."""
        return iteration.read(PRESENT_ARRAY) if self._presence else 1.0

    def wake_contacted(self, slots: ContactSlots) -> Value:
        """Wake islands with a sleeping body in contact with an awake body; return the number of bodies woken."""
        tracer = self.ctx.tracer
        tracer.write(SCRATCH, [0.0], self._n_woken.row)
        n_asleep = float(self.n_bodies) - tracer.read(SCRATCH, self.n_awake.row)

        def flag_mixed(iteration: IterationContext, _: ContactSpecialization) -> None:
            a, b = iteration.read("asleep a"), iteration.read("asleep b")
            mixed = ir.select(ir.minimum(a, b), 0.5, ir.maximum(a, b), 0.0)
            iteration.tracer.write("wake flags", [1.0], 0, mixed)

        def wake() -> None:
            self._clear_wake_flags()
            asleep = StatePerTree(self.ctx.array_offsets["asleep"])
            arrays = {"asleep a": asleep, "asleep b": asleep, **self._flags}
            only = ContactBufferFilter.BETWEEN_FRAMES
            slots.for_each_active_buffer("contacts with sleeping bodies", flag_mixed, slots.loops(only, arrays), only)
            self._wake_flagged()

        self.ctx.if_nonzero("any body sleeps", n_asleep, wake)
        return tracer.read(SCRATCH, self._n_woken.row)

    # --------------------------------------------------------------------------------------------------- falling asleep

    def list_awake_of(self, bodies: Sequence[int]) -> ArenaOffset:
        """Trace the list of those of some bodies that are awake, by their position among them."""
        ctx, indices = self.ctx, np.array(bodies)
        listed = ctx.allocate(len(bodies) + 2)
        ctx.tracer.write(SCRATCH, [0.0], listed.row)
        columns = {
            "asleep": self._column("asleep", indices),
            "list": OffsetColumn.repeated(listed, len(bodies)),
            **{name: self._column(name, indices) for name in self._presence},
        }
        group = ColumnarGroup(
            "body", np.arange(len(bodies)), columns, {"position": np.arange(float(len(bodies)))[:, None]}
        )

        def append(iteration: IterationContext) -> None:
            count = iteration.read("list")
            iteration.tracer.write("list", [iteration.constant("position")], 1, count)  # overwritten if asleep
            iteration.write(
                "list", [count + ir.select(0.5, iteration.read("asleep"), 0.0, self._if_present(iteration))]
            )

        with ctx.without_unrolling():
            ctx.for_each("list awake bodies", IterationTable([group]), append)
        return listed

    def put_to_sleep(self, islands: PerTreeArray) -> None:
        """Count the steps that each body is at rest, and put islands to sleep whose bodies are all at rest long enough.

        `islands` is the island index of each body.
        """
        ctx, n_ready = self.ctx, self.ctx.allocate(1)
        ctx.tracer.write(SCRATCH, [0.0], n_ready.row)
        lengths = np.array(dof_lengths(ctx.model))
        lengths = lengths[self._first[ElementKind.DOF][:, None] + np.arange(BODY_DOFS)]
        may_sleep = np.array([[float(policy != NEVER)] for policy in sleep_policies(ctx.model)])

        def count_rest_steps(iteration: IterationContext) -> None:
            speed: Value = 0.0
            velocities = iteration.read_array("vel", BODY_DOFS)
            for velocity, length in zip(velocities, iteration.constants("lengths"), strict=True):
                speed = ir.maximum(speed, ir.absolute(velocity) * length)
            steps = iteration.read("still") + 1.0
            still = ir.select(speed, ctx.settings.sleep_tolerance, steps, 0.0) * iteration.constant("may sleep")
            iteration.write("still", [still])
            iteration.write("ready", [iteration.read("ready") + ir.select(still, MIN_REST_STEPS - 0.5, 0.0, 1.0)])

        constants = {"lengths": lengths, "may sleep": may_sleep}
        self._for_each_body(
            "count steps at rest", count_rest_steps, ["vel", "still"], {"ready": n_ready}, constants, self.awake_bodies
        )
        ctx.if_nonzero(
            "some body was still long enough",
            ctx.tracer.read(SCRATCH, n_ready.row),
            lambda: self._mark_asleep(islands),
        )

    def _mark_asleep(self, islands: PerTreeArray) -> None:
        """Put all islands to sleep whose bodies were all at rest for `MIN_REST_STEPS`, and store their state."""
        ctx, tracer = self.ctx, self.ctx.tracer
        moving = PerTreeArray(ctx)
        clear: Callable[[Value], None] = lambda i: tracer.write(SCRATCH, [0.0], moving.start.row, i)  # noqa: E731
        tracer.counted_loop("clear moving islands", float(self.n_bodies), clear)
        others = {"island": islands, "moving": moving.start}

        def flag_moving(iteration: IterationContext) -> None:
            def set_flag() -> list[Value]:
                iteration.tracer.write("moving", [1.0], 0, iteration.read("island"))
                return []

            iteration.tracer.if_less("moving", iteration.read("still"), MIN_REST_STEPS - 0.5, set_flag, [])

        self._for_each_body("moving islands", flag_moving, ["still"], others, active=self.awake_bodies)
        stored = [("qpos", BODY_QS), ("command", BODY_DOFS), ("gravity", 3)]

        def fall_asleep(iteration: IterationContext) -> None:
            island = iteration.read("island")
            asleep = ir.select(iteration.tracer.read("moving", 0, island), 0.5, island + 1.0, 0.0)
            iteration.write("asleep", [asleep])

            def store() -> list[Value]:
                for name, width in stored:
                    iteration.write(f"slept_{name}", iteration.read_array(name, width))
                iteration.write("vel", [0.0] * BODY_DOFS)
                return []

            iteration.tracer.if_less("asleep", 0.5, asleep, store, [])

        arrays = ["asleep", "vel", *(x for name, _ in stored for x in (name, f"slept_{name}"))]
        self._for_each_body("put islands to sleep", fall_asleep, arrays, others, active=self.awake_bodies)


def _flag_if_changed(iteration: IterationContext, names: Sequence[tuple[str, str, int]]) -> None:
    """Code that sets the wake flag of the island of a sleeping body if an array differs from another one, or from 0."""

    def flag() -> list[Value]:
        n_changed: Value = 0.0
        for now, before, width in names:
            values = iteration.read_array(now, width)
            references = iteration.read_array(before, width) if before else [0.0] * width
            for value, reference in zip(values, references, strict=True):
                n_changed = n_changed + ir.select(0.0, ir.absolute(value - reference), 1.0, 0.0)
        index = ir.select(0.5, n_changed, iteration.read("asleep"), 0.0)
        iteration.tracer.write("wake flags", [1.0], 0, index)
        return []

    iteration.tracer.if_less("asleep", 0.5, iteration.read("asleep"), flag, [])
