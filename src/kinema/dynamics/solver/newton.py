"""Line-search Newton method (Nocedal and Wright, chapters 3 and 6) on the convex cost of the constraint solve.

One iteration computes a search direction, finds the minimum of the cost along it by a safeguarded Newton search, takes
the step, and tests for convergence. While the active set does not change, the cost is quadratic, so a full step that
leaves the active set unchanged has converged. Sliding elliptic cones are not quadratic, and the steps of rigid rows are
inexact in finite precision; there, convergence is decided by the gradient norm relative to the forces.

The method is composed of an `Objective` (objective.py, warp_objective.py), a `SearchDirection` (search_direction.py,
newton_cg.py, warp_*.py) and an `Iteration` (one for all trees together below, one per island in islands.py).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from kinema import ir
from kinema.ir import SCRATCH, Value

from ..tree.kinematic_tree import FrameNode
from .body_islands import BodyIslands
from .convergence import LOOSE_TOLERANCE, TREE_TOLERANCE, made_progress
from .noslip import MIN_LINE_SEARCH_TRIALS, has_friction, solve_noslip
from .objective import JointVector, Objective, ThreadObjective

INFINITE_COST = 1e30
"""Initial value of cost decreases, above any real one."""
LINE_SEARCH_TOLERANCE = 5e-2
"""The line search ends when the directional derivative is this small relative to its start value. With 0.2, solves take
as long, and the worst 1 % of a G1's steps are 100 times less accurate."""
MAX_STEP_LENGTH = 1e3
"""Upper bound of the step length; a smaller remaining curvature along the direction is rounding error."""
TINY = 1e-30
"""Lower bound of denominators."""


class SearchDirection(ABC):
    """Strategy that computes the search direction from the gradient."""

    has_exact_hessian = True
    """Whether a step that leaves the active set unchanged has converged."""
    loose_tolerance = LOOSE_TOLERANCE
    """Relative gradient norm at which such a step counts as converged."""
    starts_warm = False
    """Whether solves start from the previous constraint acceleration with pyramidal cones too."""

    @abstractmethod
    def compute(self) -> JointVector:
        """Return a descent direction at the current iterate."""

    def find_sparsity(self) -> None:  # noqa: B027
        """Find the sparsity of the Hessian that depends on the contacts, once per solve."""

    def overflow(self) -> Value | None:
        """Return 1 if memory of the Hessian was exceeded, so that the direction is inexact; None if impossible."""
        return None


class Iteration(ABC):
    """Strategy of one iteration: step length, step and convergence test."""

    def __init__(self, objective: Objective, direction: SearchDirection) -> None:
        self.objective, self.direction = objective, direction
        self.ctx, self.state = objective.ctx, objective.state

    @abstractmethod
    def warm_start(self) -> None:
        """Warm start from the previous constraint acceleration where its cost is lower than the cost of x = 0."""

    @abstractmethod
    def iterate(self) -> tuple[Value, Value]:
        """Take one step; return the loop condition (threshold, value): continue while threshold < value."""

    def finish(self) -> None:  # noqa: B027
        """Run after the last iteration."""


class NewtonSolver:
    """One constraint solve by a line-search method."""

    def __init__(self, objective: Objective, direction: SearchDirection, iteration: Iteration | None = None) -> None:
        self.objective, self.direction = objective, direction
        self.iteration = iteration or CommonIteration(objective, direction)

    def solve(self) -> JointVector:
        """Minimise the constraint cost and return the joint forces of constraints and contacts (qfrc_constraint).

        Initialises residuals, warm-starts from the previous step (elliptic cones only), iterates until converged,
        stores the warm start of the next step, and refines friction if no-slip iterations are enabled. With contacts,
        the forces are returned as M x, which is more accurate than the sum of the stiff contact forces.
        """
        objective, state = self.objective, self.objective.state
        ctx = objective.ctx
        islands = objective.inputs.body_islands
        if islands is None:
            self._minimise()
        else:
            self._minimise_by_island(islands)
        self.iteration.finish()
        if ctx.has_output("warm_start"):
            ctx.for_each_frame(
                "store warm start", lambda node: ctx.write("warm_start", node, self.constraint_acceleration_of(node))
            )
        if ctx.has_output("n_iterations"):
            ctx.write("n_iterations", None, [state.read(state.n_iterations)])
        if ctx.settings.noslip_iterations and isinstance(objective, ThreadObjective) and has_friction(objective):
            assert isinstance(self.iteration, CommonIteration)
            solve_noslip(objective, self.iteration.iterate, self.iteration.is_unconverged)
        # rounding errors of stiff contact forces exceed those of M x
        return state.mass_times_acceleration if objective.has_contacts else objective.constraint_forces()

    def _minimise(self) -> None:
        """Iterate until converged, from residuals and warm start on."""
        objective, state, ctx = self.objective, self.objective.state, self.objective.ctx
        ctx.tracer.write(SCRATCH, [0.0], state.n_iterations.row)
        ctx.tracer.write(SCRATCH, [INFINITE_COST], state.cost_decreases.row)
        objective.initialize()
        # with pyramidal cones, exact directions converge as fast from zero
        if objective.has_contacts and (ctx.model.options.elliptic or self.direction.starts_warm):
            self.iteration.warm_start()
        self.direction.find_sparsity()
        objective.update_gradient()
        ctx.while_loop("Newton's method", self.iteration.iterate, ctx.settings.iterations)

    def _minimise_by_island(self, islands: BodyIslands) -> None:
        """Minimise the cost of each island of free bodies; x and M x of bodies without contact are zero.

        The number of iterations is the largest one.
        """
        state, ctx = self.objective.state, self.objective.ctx
        most = ctx.allocate(1)
        ctx.tracer.write(SCRATCH, [0.0], most.row)
        for vector in (state.constraint_acceleration, state.mass_times_acceleration):
            ctx.for_each_frame("clear vector", lambda node, vector=vector: vector.put(node.ref, [0.0] * len(node.dofs)))

        def solve() -> None:
            self._minimise()
            ctx.tracer.write(SCRATCH, [ir.maximum(state.read(most), state.read(state.n_iterations))], most.row)

        islands.for_each("islands in contact", solve)
        ctx.tracer.write(SCRATCH, [state.read(most)], state.n_iterations.row)

    def constraint_acceleration_of(self, node: FrameNode) -> list[Value]:
        """Return the part of a frame's joint accelerations due to constraints and contacts, x = a - qacc_smooth."""
        return self.objective.state.constraint_acceleration[node.ref]


class CommonIteration(Iteration):
    """Iteration with one step length and one convergence test for all trees."""

    def warm_start(self) -> None:
        """Start from the constraint acceleration of the previous step if its cost is lower than the cost of x = 0."""
        ctx, objective = self.ctx, self.objective
        previous = objective.vectors.new("warm start")
        ctx.for_each_frame("warm start", lambda node: previous.put(node.ref, ctx.read_node("warm_start", node)))
        mass_times_previous = objective.prepare_direction(previous)
        (work,) = objective.vectors.dot_products("cost of warm start", [(previous, mass_times_previous)])
        costs = [objective.constraint_cost_at(length, previous) for length in (0.0, 1.0)]
        self.state.set_step_length(ir.select(costs[1] + 0.5 * work, costs[0], 1.0, 0.0))
        objective.take_step(previous, mass_times_previous)

    def iterate(self) -> tuple[Value, Value]:
        """Take one Newton or CG step: search direction, line search, residuals, gradient; return the loop condition.

        The condition is a pair of values a and b; iterations continue while a < b.
        """
        objective, state = self.objective, self.state
        direction = self.direction.compute()
        mass_times_direction, products = objective.prepare_line_search(direction)
        self._line_search(direction, products)
        has_rigid_rows = any(block.is_rigid for block in objective.rows.blocks)  # inexact steps in single precision
        n_changes = objective.take_step(
            direction, mass_times_direction, count_changes=self.direction.has_exact_hessian and not has_rigid_rows
        )
        if n_changes is not None and (overflow := self.direction.overflow()) is not None:
            n_changes = n_changes + overflow
        objective.update_gradient()
        tracer = self.ctx.tracer
        tracer.write(SCRATCH, [state.read(state.n_iterations) + 1.0], state.n_iterations.row)
        if n_changes is None:
            return 0.5, self.is_unconverged()
        decreases = [state.read(state.cost_decreases, i) for i in range(2)] if objective.has_contacts else []
        unconverged = self.is_unconverged(
            0.0, ir.select(0.5, n_changes, 0.0, self.direction.loose_tolerance), decreases
        )
        if objective.tree_convergence is not None and not objective.rows.is_noslip:
            tolerance = ir.select(0.5, n_changes, TREE_TOLERANCE, self.direction.loose_tolerance)
            n_unconverged = objective.tree_convergence.count_unconverged(
                state.negative_gradient, state.mass_times_acceleration, tolerance
            )
            unconverged = ir.maximum(unconverged, n_unconverged)
        return 0.5, unconverged

    def is_unconverged(
        self, tolerance: float = 0.0, loose_tolerance: Value = 0.0, cost_decreases: Sequence[Value] = ()
    ) -> Value:
        """Return 1 while the gradient norm exceeds the tolerance relative to the constraint forces, else 0.

        Also returns 0 if the last iteration made no progress, where `cost_decreases` is given.

        Args:
            tolerance: relative tolerance; at least that of the settings is used.
            loose_tolerance: second, run-time tolerance; the larger one applies.
            cost_decreases: predicted cost decreases of the last two iterations, for the progress test; empty to skip
                it.
        """
        tolerance = max(self.ctx.settings.tolerance, tolerance)
        squared_gradient, squared_force, *work = self.objective.convergence_norms(include_work=bool(cost_decreases))
        squared_tolerance = ir.maximum(tolerance**2, loose_tolerance * loose_tolerance)
        unconverged = ir.select(squared_tolerance * squared_force, squared_gradient, 1.0, 0.0)
        if not cost_decreases:
            return unconverged
        return unconverged * made_progress(
            cost_decreases, work[0] + self.state.read(self.state.smooth_motion_work), tolerance
        )

    def _line_search(self, direction: JointVector, products: Sequence[Value]) -> None:
        """Find the minimum of the cost along the direction by a safeguarded Newton search; write the step length.

        The first trial is step length 1. Also shifts the history of predicted cost decreases.

        Args:
            direction: search direction d, already prepared.
            products: d . M x, d . M d and d . (-g).
        """
        ctx, state, (initial_product, quadratic_product, start_product) = self.ctx, self.state, products
        is_noslip, max_trials = self.objective.rows.is_noslip, ctx.settings.line_search_trials
        products = (-start_product if is_noslip else initial_product, quadratic_product)
        threshold = LINE_SEARCH_TOLERANCE * ir.absolute(start_product)
        ctx.tracer.write(SCRATCH, [start_product, state.read(state.cost_decreases)], state.cost_decreases.row)

        def trial(bracket: Sequence[Value]) -> tuple[list[Value], Value, Value]:
            state.set_step_length(bracket[0])
            derivatives = self.objective.line_derivatives(direction)
            bracket, magnitude = next_trial_step(bracket, derivatives, products, threshold)
            return bracket, threshold, magnitude

        max_trials = max(max_trials, MIN_LINE_SEARCH_TRIALS) if is_noslip else max_trials
        length, _, _ = ctx.tracer.while_loop("line search", trial, [1.0, 0.0, MAX_STEP_LENGTH], max_trials)
        state.set_step_length(length)


def next_trial_step(
    bracket: Sequence[Value], derivatives: tuple[Value, Value], products: Sequence[Value], threshold: Value
) -> tuple[list[Value], Value]:
    """Return the next trial step length of a line search with its updated bracket, and the magnitude of the derivative.

    Newton step on the directional derivative; where it leaves the bracket, bisection, or doubling while there is no
    upper bound. The step length stays where the derivative is below the threshold.

    Args:
        bracket: trial step length, largest step length known to have a negative derivative, and smallest one known to
            have a nonnegative derivative, or `MAX_STEP_LENGTH`.
        derivatives: first and second derivative of the costs of rows and contacts at the trial step.
        products: d . M x and d . M d of the search direction d.
        threshold: magnitude of the derivative at which the search ends.
    """
    step_length, lower_bound, upper_bound = bracket
    derivative = derivatives[0] + products[0] + step_length * products[1]
    second_derivative = derivatives[1] + products[1]
    lower_bound, upper_bound = (
        ir.select(derivative, 0.0, step_length, lower_bound),
        ir.select(derivative, 0.0, upper_bound, step_length),
    )
    fallback = ir.select(
        upper_bound, MAX_STEP_LENGTH, 0.5 * (lower_bound + upper_bound), ir.minimum(2.0 * step_length, MAX_STEP_LENGTH)
    )
    newton_step = step_length - derivative / ir.maximum(second_derivative, TINY)
    next_step = ir.select(
        lower_bound, newton_step, ir.select(newton_step, upper_bound, newton_step, fallback), fallback
    )
    magnitude = ir.absolute(derivative)
    return [ir.select(threshold, magnitude, next_step, step_length), lower_bound, upper_bound], magnitude
