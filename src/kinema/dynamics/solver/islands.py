"""Constraint islands (trees connected by contacts or constraints), and Newton's method for each island separately.

Island indices are the smallest tree index of the island. Solved separately, an island takes its own step lengths and
number of iterations, so its result does not depend on other islands, bit for bit, and converged islands cost nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kinema import ir
from kinema.ir import SCRATCH, ArenaOffset, IterationContext, LoopIteration, Value

from ..collision.contact_buffer_specs import ContactSpecialization
from ..collision.contact_buffers import ContactBufferFilter, ContactBuffers
from ..constraints.rows import block_active_set_changes, block_cost, block_line_derivatives
from ..tree.kinematic_tree import WORLD
from ..tree.loop_context import tree_index_of_frames
from ..tree.per_tree import PerTreeArray, for_each_active_tree, for_each_tree, sum_frames_per_tree
from ..tree.trace_context import TraceContext
from ..vector_math import dot
from .convergence import LOOSE_TOLERANCE
from .newton import LINE_SEARCH_TOLERANCE, MAX_STEP_LENGTH, Iteration, SearchDirection, next_trial_step
from .objective import JointVector, ThreadObjective


def moving_trees(ctx: TraceContext, frames: Iterable[int]) -> list[int]:
    """Return the tree indices of the given frames, without the world."""
    tree_of_frame = tree_index_of_frames(ctx.model)
    return [tree_of_frame[frame] for frame in frames if frame != WORLD]


def find_islands(
    ctx: TraceContext, buffers: ContactBuffers | None, constrained_dofs: Iterable[Iterable[int]]
) -> PerTreeArray:
    """Find connected components of trees by label propagation; return the island index of each tree.

    Each tree starts with its own index; constraints and active contact buffers between two trees propagate the smaller
    index until nothing changes.

    Args:
        ctx: tracing context.
        buffers: contacts; None without contacts.
        constrained_dofs: groups of dofs that constraints connect.
    """
    islands, changed = PerTreeArray(ctx), ctx.allocate_fixed(1)
    for_each_tree(
        ctx,
        "initial island indices",
        lambda t: {"island": islands.offset_of(t)},
        lambda c: c.write("island", [c.constant("tree")]),
    )
    tree_of_dof = [tree_index_of_frames(ctx.model)[frame] for frame in ctx.model.dofs.frame_idx.tolist()]
    pairs = sorted(
        {(tree_of_dof[group[0]], tree_of_dof[dof]) for group in map(list, constrained_dofs) for dof in group}
    )
    constraint_rows = [
        LoopIteration("constraint", _island_pair_offsets(islands, a, b, changed)) for a, b in pairs if a != b
    ]
    contact_rows = []
    for contact_buffer in [] if buffers is None else buffers.select_buffers(ContactBufferFilter.BETWEEN_FRAMES):
        assert buffers is not None
        tree_a, tree_b = moving_trees(ctx, contact_buffer.spec.frames)
        contact_rows.append(
            buffers.loop_iteration(contact_buffer, _island_pair_offsets(islands, tree_a, tree_b, changed))
        )

    def join(iteration: IterationContext) -> None:
        a, b = iteration.read("island a"), iteration.read("island b")
        smaller = ir.minimum(a, b)
        iteration.write("island a", [smaller])
        iteration.write("island b", [smaller])
        iteration.write("changed", [iteration.read("changed") + ir.absolute(a - b)])

    def join_contact(iteration: IterationContext, _: ContactSpecialization) -> None:
        join(iteration)

    def propagate() -> tuple[Value, Value]:
        ctx.tracer.write(SCRATCH, [0.0], changed.row)
        with ctx.without_unrolling():
            ctx.for_each("join islands by constraints", constraint_rows, join)
        if buffers is not None:
            buffers.for_each_active_buffer(
                "join islands by contacts", join_contact, contact_rows, ContactBufferFilter.BETWEEN_FRAMES
            )
        return 0.5, ctx.tracer.read(SCRATCH, changed.row)

    if constraint_rows or contact_rows:
        ctx.while_loop("islands", propagate, len(ctx.trees) + 1)
    return islands


def _island_pair_offsets(
    islands: PerTreeArray, tree_a: int, tree_b: int, changed: ArenaOffset
) -> dict[str, ArenaOffset]:
    return {"island a": islands.offset_of(tree_a), "island b": islands.offset_of(tree_b), "changed": changed}


# ------------------------------------------------------------------------------------------- Newton's method per island


class IslandIteration(Iteration):
    """Newton iteration with a step length and a convergence test for each island.

    Trees of converged islands are marked idle, which skips them in all loops of further iterations; the idle flags are
    restored at the end.
    """

    def __init__(self, objective: ThreadObjective, direction: SearchDirection, islands: PerTreeArray) -> None:
        """Save the idle flags; `islands` is the island index of each tree."""
        super().__init__(objective, direction)
        self.objective: ThreadObjective = objective
        self.islands = islands
        ctx = self.ctx
        objective.step_lengths = self._step_lengths = PerTreeArray(ctx)
        self._island_sums = PerTreeArray(ctx, 3)
        self._n_unconverged = ctx.allocate_fixed(1)
        self._idle_before = PerTreeArray(ctx)
        assert ctx.idle_flags is not None
        self._idle = ctx.idle_flags
        for_each_tree(
            ctx,
            "save idle flags",
            lambda t: {"from": self._idle.of_tree(t), "to": self._idle_before.offset_of(t)},
            lambda iteration: iteration.write("to", [iteration.read("from")]),
        )

    def _sum_over_islands(self, values: PerTreeArray) -> None:
        """Replace the values of each active tree by their sum over all trees of its island (connected component)."""
        ctx, n, width = self.ctx, values.width, float(self._island_sums.width)
        offsets = {"value": values, "island": self.islands}
        sums = self._island_sums.start

        def clear(iteration: IterationContext) -> None:
            iteration.write("sum", [0.0] * n)

        def add(iteration: IterationContext) -> None:
            offset = iteration.read("island") * width
            old = [iteration.tracer.read("sums", i, offset) for i in range(n)]
            iteration.tracer.write(
                "sums", [a + b for a, b in zip(old, iteration.read_array("value", n), strict=True)], 0, offset
            )

        def distribute(iteration: IterationContext) -> None:
            offset = iteration.read("island") * width
            iteration.write("value", [iteration.tracer.read("sums", i, offset) for i in range(n)])

        for_each_active_tree(ctx, "clear sums of islands", {"sum": self._island_sums}, clear)
        for_each_active_tree(ctx, "sums of islands", {**offsets, "sums": sums}, add)
        for_each_active_tree(ctx, "distribute sums of islands", {**offsets, "sums": sums}, distribute)

    def finish(self) -> None:
        """Restore the idle flags of the trees as they were before the solve."""
        for_each_tree(
            self.ctx,
            "restore idle flags",
            lambda t: {"from": self._idle_before.offset_of(t), "to": self._idle.of_tree(t)},
            lambda iteration: iteration.write("to", [iteration.read("from")]),
        )

    # ------------------------------------------------------------------------------------------------------- warm start

    def warm_start(self) -> None:
        """Warm start each island from its previous constraint acceleration if this lowers the island's cost."""
        ctx = self.ctx
        previous = self.objective.vectors.new("warm start")
        ctx.for_each_frame("warm start", lambda node: previous.put(node.ref, ctx.read_node("warm_start", node)))
        mass_times_previous = self.objective.prepare_direction(previous)
        work, costs = PerTreeArray(ctx), [PerTreeArray(ctx, 2) for _ in range(2)]
        sum_frames_per_tree(
            ctx, "work of warm start", work, lambda node: [dot(previous[node.ref], mass_times_previous[node.ref])]
        )
        self._sum_over_islands(work)
        for length, cost in enumerate(costs):
            for_each_active_tree(
                ctx,
                "set trial step length",
                {"length": self._step_lengths},
                lambda iteration, x=float(length): iteration.write("length", [x]),
            )
            self._sum_terms_by_island(f"costs at {length}", block_cost, "add_costs", cost)

        def choose(iteration: IterationContext) -> None:
            warm_start_cost = iteration.read("cost at warm start") + 0.5 * iteration.read("work")
            iteration.write("length", [ir.select(warm_start_cost, iteration.read("cost at zero"), 1.0, 0.0)])

        offsets = {"length": self._step_lengths, "work": work, "cost at zero": costs[0], "cost at warm start": costs[1]}
        for_each_active_tree(ctx, "choose warm start", offsets, choose)
        self.objective.take_step(previous, mass_times_previous)

    def _sum_terms_by_island(self, name: str, row_terms: Any, contact_method: str, target: PerTreeArray) -> None:
        """Sum two values per constraint row and contact over each island; write the sum to `target` of all its trees.

        Args:
            name: label of the loops.
            row_terms: loop body that returns two values of a constraint's rows.
            contact_method: name of the method of the contacts that adds their values.
            target: two values per tree; overwritten.
        """
        contacts = self.objective.contacts
        for_each_active_tree(
            self.ctx, f"{name}, zero", {"total": target}, lambda iteration: iteration.write("total", [0.0] * 2)
        )

        def add(iteration: IterationContext) -> None:
            terms = row_terms(iteration)
            iteration.write("total", [a + b for a, b in zip(iteration.read_array("total", 2), terms, strict=True)])

        self.objective.rows.for_each_block(name, add, {"length": self._step_lengths, "total": target})
        if contacts is not None:
            getattr(contacts, contact_method)(self._step_lengths, target)
        self._sum_over_islands(target)

    # -------------------------------------------------------------------------------------------------------- iteration

    def iterate(self) -> tuple[Value, Value]:
        """Take one Newton step in all unconverged islands, with a line search and a convergence test per island.

        Marks the trees of converged islands idle. Returns the loop condition as a pair (threshold, value): the
        iteration continues while any island is unconverged.
        """
        ctx, tracer = self.ctx, self.ctx.tracer
        direction = self.direction.compute()
        mass_times_direction = self.objective.prepare_direction(direction)
        self._line_search_islands(direction, mass_times_direction)
        has_rigid_rows = any(block.is_rigid for block in self.objective.rows.blocks)
        n_changes = PerTreeArray(ctx, 2)
        if not has_rigid_rows:
            self._sum_terms_by_island(
                "active-set changes", block_active_set_changes, "add_active_set_changes", n_changes
            )
        self.objective.take_step(direction, mass_times_direction)
        self.objective.update_gradient()
        tracer.write(SCRATCH, [self.state.read(self.state.n_iterations) + 1.0], self.state.n_iterations.row)
        norms = PerTreeArray(ctx, 2)

        def squares(node: Any) -> list[Value]:
            return [
                dot(x[node.ref], x[node.ref])
                for x in (self.state.negative_gradient, self.state.mass_times_acceleration)
            ]

        sum_frames_per_tree(ctx, "convergence norms of trees", norms, squares)
        self._sum_over_islands(norms)
        tracer.write(SCRATCH, [0.0], self._n_unconverged.row)

        def test_convergence(iteration: IterationContext) -> None:
            squared_gradient, squared_force = iteration.read_array("norms", 2)
            tolerance = 0.0 if has_rigid_rows else ir.select(0.5, iteration.read("changed"), 0.0, LOOSE_TOLERANCE)
            tolerance = ir.maximum(tolerance, ctx.settings.tolerance)
            unconverged = ir.select(tolerance * tolerance * squared_force, squared_gradient, 1.0, 0.0)
            iteration.write("idle flag", [1.0 - unconverged])
            iteration.write("n_unconverged", [iteration.read("n_unconverged") + unconverged])

        idle = self._idle
        offsets = {"norms": norms, "changed": n_changes, "n_unconverged": self._n_unconverged}
        for_each_tree(
            ctx,
            "mark converged islands",
            lambda t: {
                **{name: x.offset_of(t) if isinstance(x, PerTreeArray) else x for name, x in offsets.items()},
                "idle flag": idle.of_tree(t),
                "idle": idle.of_tree(t),
            },
            test_convergence,
        )
        return 0.5, tracer.read(SCRATCH, self._n_unconverged.row)

    def _line_search_islands(self, direction: JointVector, mass_times_direction: JointVector) -> None:
        """Find the step length of each island by a safeguarded Newton line search; all islands search in parallel.

        Each island has its own bracket and stops changing its step length once its directional derivative is small; the
        search ends when all islands have converged.
        """
        ctx, tracer = self.ctx, self.ctx.tracer
        products, sums, low, high = PerTreeArray(ctx, 3), PerTreeArray(ctx, 2), PerTreeArray(ctx), PerTreeArray(ctx)

        def frame_products(node: Any) -> list[Value]:
            return [
                dot(direction[node.ref], x[node.ref])
                for x in (self.state.mass_times_acceleration, mass_times_direction, self.state.negative_gradient)
            ]

        sum_frames_per_tree(ctx, "line-search products", products, frame_products)
        self._sum_over_islands(products)

        names = ("length", "low", "high")

        def begin(iteration: IterationContext) -> None:
            for name, value in zip(names, (1.0, 0.0, MAX_STEP_LENGTH), strict=True):
                iteration.write(name, [value])

        offsets = {"length": self._step_lengths, "low": low, "high": high}
        for_each_active_tree(ctx, "initialise line search", offsets, begin)

        def update(iteration: IterationContext) -> None:
            *products, start_product = iteration.read_array("products", 3)
            bracket = [iteration.read(name) for name in names]
            threshold = LINE_SEARCH_TOLERANCE * ir.absolute(start_product)
            derivatives = iteration.read("sums"), iteration.read("sums", 1)
            bracket, magnitude = next_trial_step(bracket, derivatives, products, threshold)
            for name, value in zip(names, bracket, strict=True):
                iteration.write(name, [value])
            iteration.write(
                "n_unconverged", [iteration.read("n_unconverged") + ir.select(threshold, magnitude, 1.0, 0.0)]
            )

        def trial() -> tuple[Value, Value]:
            self._sum_terms_by_island("line derivatives", block_line_derivatives, "add_line_derivatives", sums)
            tracer.write(SCRATCH, [0.0], self._n_unconverged.row)
            for_each_active_tree(
                ctx,
                "line-search trial",
                {**offsets, "products": products, "sums": sums, "n_unconverged": self._n_unconverged},
                update,
            )
            return 0.5, tracer.read(SCRATCH, self._n_unconverged.row)

        ctx.while_loop("line search", trial, ctx.settings.line_search_trials)
