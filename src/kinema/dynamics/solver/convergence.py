"""Convergence tests of the constraint solver: progress relative to rounding errors, and gradient norm per tree.

In single precision, a body held by 10 N beside another one pressed by 10 kN would be left to slip if the gradient were
compared with the forces of all trees only; hence the test per tree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kinema import ir
from kinema.ir import SCRATCH, ArenaOffset, IterationContext, LoopIteration, Value

from ..tree.body_context import BodyFactors
from ..tree.per_tree import PerTreeArray, for_each_tree, frame_rows
from ..tree.sparse_matrix import LDLFactors
from ..tree.trace_context import TraceContext
from ..vector_math import dot, sum_values
from .joint_vectors import JointVector

LOOSE_TOLERANCE = 1e-2
"""Relative gradient norm at which a step that left the active set unchanged counts as converged. At low friction,
pyramidal cones are so steep that single precision loses most of a step, and the next one corrects it."""
EXPECTED_REDUCTION, NEGLIGIBLE_TOLERANCES = 4.0, 20.0
"""Factor by which the cost decrease shrinks between iterations unless it is rounding error, and number of tolerances
below which a decrease is negligible. Stops rows from switching on and off at rounding level, which delayed every third
step of 16,384 Go2 robots."""


def write_smooth_motion_work(
    ctx: TraceContext, mass_factors: LDLFactors | BodyFactors, qacc_smooth: JointVector, target: ArenaOffset
) -> None:
    """Write the work scale sum_i qacc_smooth_i^2 / inverse_pivot_i of the unconstrained motion to `target`.

    The pivots of the factorised mass matrix stand for the inertia of each dof by itself, so that rounding errors of
    large joint forces do not cancel in the sum.
    """
    ctx.tracer.write(SCRATCH, [0.0], target.row)
    if isinstance(mass_factors, BodyFactors):
        _sum_work_of_bodies(ctx, mass_factors, qacc_smooth, target)
        if mass_factors.articulated is None:
            return
        ctx, mass_factors = ctx.articulated, mass_factors.articulated
    accelerations = ctx.dof_offsets(qacc_smooth)
    rows = [
        LoopIteration(
            "dof",
            {
                "acceleration": accelerations[dof],
                "inverse pivot": inverse_pivot,
                "work": target,
                **mass_factors.idle_flags[dof],
            },
        )
        for dof, inverse_pivot in mass_factors.inverse_pivots.items()
    ]

    def add(iteration: IterationContext) -> None:
        x = iteration.read("acceleration")
        iteration.write("work", [iteration.read("work") + x * x / iteration.read("inverse pivot")])

    ctx.for_each("work of unconstrained motion", rows, add)


def _sum_work_of_bodies(
    ctx: TraceContext, mass_factors: BodyFactors, qacc_smooth: JointVector, target: ArenaOffset
) -> None:
    """Sum the work scale over the active free bodies."""
    if not ctx.body_nodes:
        return
    rows = frame_rows(ctx, ctx.body_nodes, {"inverse pivots": mass_factors.inverse_pivots, "work": target})

    def add(iteration: IterationContext) -> None:
        accelerations = qacc_smooth[ctx.frame_of_iteration(iteration).ref]
        terms = [x * x / iteration.read("inverse pivots", i) for i, x in enumerate(accelerations)]
        iteration.write("work", [iteration.read("work") + sum_values(terms)])

    ctx.for_each("work of unconstrained motion", rows, add, ctx.active_bodies)


def made_progress(cost_decreases: Sequence[Value], work: Value, tolerance: float) -> Value:
    """Return 1 if the last iteration decreased the cost noticeably relative to `work`, else 0.

    A decrease is noticeable above tolerance^2 * work; above (20 * tolerance)^2 * work if it did not shrink at least by
    a factor of 4 since the previous iteration, which indicates rounding errors.

    Args:
        cost_decreases: predicted cost decrease of the last and of the previous iteration.
        work: scale of the work done by constraint forces and by the unconstrained motion.
        tolerance: relative tolerance of the solver.
    """
    decrease, previous = cost_decreases
    threshold = ir.select(
        EXPECTED_REDUCTION * decrease, previous, tolerance**2, (NEGLIGIBLE_TOLERANCES * tolerance) ** 2
    )
    return ir.select(threshold * work, decrease, 1.0, 0.0)


# ------------------------------------------------------------------------------------------------- convergence per tree

TREE_TOLERANCE = 1e-4
"""Admissible gradient norm of a tree relative to its own forces."""
ROUNDING_TOLERANCE = 1e-6
"""Admissible gradient norm of a tree relative to the forces of all trees, whose rounding errors contacts pass on."""


def make_tree_convergence(ctx: TraceContext) -> TreeConvergence | None:
    """Return the convergence test per tree; None for one tree, double precision or warp-cooperative code."""
    is_needed = len(ctx.trees) > 1 and ctx.settings.is_single_precision and not ctx.tracer.in_warp_region
    return TreeConvergence(ctx) if is_needed else None


class TreeConvergence:
    """Convergence test of each tree: squared gradient norm relative to squared forces, in scratch memory."""

    def __init__(self, ctx: TraceContext, total_squared_force: ArenaOffset | None = None) -> None:
        """Allocate the sums; `total_squared_force` is the squared forces of all trees, if they are known."""
        self.ctx = ctx
        self._sums = PerTreeArray(ctx, 2)
        self._squared_tolerance = ctx.allocate_fixed(1)
        self._sums_forces = total_squared_force is None
        self._total_squared_force = total_squared_force or ctx.allocate_fixed(1)
        self._n_unconverged = ctx.allocate_fixed(1)

    def count_unconverged(self, gradient: JointVector, forces: JointVector, tolerance: Value) -> Value:
        """Return the number of trees whose gradient norm exceeds `tolerance` times their force norm plus rounding."""
        ctx, tracer = self.ctx, self.ctx.tracer
        tracer.write(SCRATCH, [tolerance * tolerance], self._squared_tolerance.row)
        for offset in (*([self._total_squared_force] if self._sums_forces else []), self._n_unconverged):
            tracer.write(SCRATCH, [0.0], offset.row)
        tracer.new_basic_block()  # so that later code reads the new values
        if ctx.make_frame_table is not None:
            return self._count_unconverged_bodies(gradient, forces)
        self._sum_squares_of_trees(ctx, gradient, forces)
        self._compare_trees(ctx)
        n_unconverged = tracer.read(SCRATCH, self._n_unconverged.row)
        if not ctx.settings.presence:
            return n_unconverged
        total = ctx.allocate_fixed(1)  # of a single tree, the test of all trees together suffices
        tracer.write(SCRATCH, [0.0], total.row)
        tracer.new_basic_block()
        for_each_tree(
            ctx,
            "number of trees",
            lambda t: {"present": ctx.presence_offset(t), "total": total},
            lambda iteration: iteration.write("total", [iteration.read("total") + iteration.read("present")]),
        )
        return ir.select(1.5, tracer.read(SCRATCH, total.row), n_unconverged, 0.0)

    def _sum_squares_of_trees(self, ctx: TraceContext, gradient: JointVector, forces: JointVector) -> None:
        """Sum the squared gradient and forces of each tree of a context, and add the forces to the total."""
        sums = self._sums
        for_each_tree(
            ctx,
            "clear norms of trees",
            lambda t: {"sums": sums.offset_of(t)},
            lambda iteration: iteration.write("sums", [0.0] * 2),
        )
        rows = frame_rows(ctx, ctx.nodes, {"sums": sums, "total": self._total_squared_force})

        def add_squares(iteration: IterationContext) -> None:
            ref = ctx.frame_of_iteration(iteration).ref
            squares = [dot(x[ref], x[ref]) for x in (gradient, forces)]
            iteration.write("sums", [a + b for a, b in zip(iteration.read_array("sums", 2), squares, strict=True)])
            iteration.write("total", [iteration.read("total") + squares[1]])

        ctx.for_each("gradient and force norms of trees", rows, add_squares, ctx.active_nodes)

    def _compare_trees(self, ctx: TraceContext) -> None:
        """Count the trees of a context that are not converged, given their sums."""

        def compare(iteration: IterationContext) -> None:
            squared_gradient, squared_force = iteration.read_array("sums", 2)
            bound = iteration.read("squared tolerance") * squared_force + ROUNDING_TOLERANCE**2 * iteration.read(
                "total"
            )
            iteration.write(
                "n_unconverged", [iteration.read("n_unconverged") + ir.select(bound, squared_gradient, 1.0, 0.0)]
            )

        offsets = self._offsets()
        for_each_tree(ctx, "unconverged trees", lambda t: {"sums": self._sums.offset_of(t), **offsets}, compare)

    def _offsets(self) -> dict[str, ArenaOffset]:
        """Scalars that loops over trees read and write."""
        return {
            "squared tolerance": self._squared_tolerance,
            "total": self._total_squared_force,
            "n_unconverged": self._n_unconverged,
        }

    def _count_unconverged_bodies(self, gradient: JointVector, forces: JointVector) -> Value:
        """Count the active free bodies, one node each, and articulated trees that are not converged."""
        ctx, tracer, offsets = self.ctx, self.ctx.tracer, self._offsets()

        def add_force(iteration: IterationContext) -> None:
            force = forces[ctx.frame_of_iteration(iteration).ref]
            iteration.write("total", [iteration.read("total") + dot(force, force)])

        def compare(iteration: IterationContext) -> None:
            ref = ctx.frame_of_iteration(iteration).ref
            squared_gradient, squared_force = (dot(x[ref], x[ref]) for x in (gradient, forces))
            bound = iteration.read("squared tolerance") * squared_force + ROUNDING_TOLERANCE**2 * iteration.read(
                "total"
            )
            unconverged = ir.select(bound, squared_gradient, 1.0, 0.0)
            iteration.write("n_unconverged", [iteration.read("n_unconverged") + unconverged])

        def for_each_body(name: str, body: Callable[[IterationContext], None]) -> None:
            if ctx.body_nodes:
                ctx.for_each(name, frame_rows(ctx, ctx.body_nodes, offsets), body, ctx.active_bodies)

        if self._sums_forces:
            for_each_body("squared forces of bodies", add_force)
        if ctx.articulated is not None:
            self._sum_squares_of_trees(ctx.articulated, gradient, forces)
        for_each_body("unconverged bodies", compare)
        if ctx.articulated is not None:
            self._compare_trees(ctx.articulated)
        return tracer.read(SCRATCH, self._n_unconverged.row)
