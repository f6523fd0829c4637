"""Objective and iteration of the constraint solve of free bodies, with fused loops over bodies and contacts.

The same method as `ThreadObjective` with `CommonIteration`, in few passes over memory: a resting heap takes one or two
Newton iterations, so that setting up a solve costs as much as the iterations. The warm start and its cost are computed
with the residuals, the first trial of the line search with the derivatives of the residuals, and the gradient with the
step.
"""

from __future__ import annotations

from collections.abc import Sequence

from kinema import ir
from kinema.ir import SCRATCH, IterationContext, Value

from ..collision.contact_slots import ContactSlots
from ..constraints.contacts import ContactConstraints, add_joint_twist
from ..constraints.fused_contact_loops import begin_line_search, begin_residuals, take_contact_steps
from ..rigid.kinematics import ZERO_TWIST, Twist
from ..rigid.rnea import Wrench, power
from ..tree.body_context import BodyFactors, BodyMassMatrix, multiply_packed
from ..tree.kinematic_tree import FrameNode, NodeType
from ..tree.node_values import NodeValues
from ..tree.per_tree import frame_rows
from ..tree.trace_context import TraceContext
from ..vector_math import ZERO, dot, sum_values
from .convergence import TreeConvergence
from .newton import LINE_SEARCH_TOLERANCE, MAX_STEP_LENGTH, CommonIteration, next_trial_step
from .objective import JointVector, SolverInputs, ThreadObjective

ZERO_WRENCH = Wrench(ZERO, ZERO)


def fits_body_objective(ctx: TraceContext, inputs: SolverInputs, contacts: ContactConstraints | None) -> bool:
    """Whether the solve has free bodies and contacts only, one node per body."""
    return (
        contacts is not None
        and isinstance(contacts.buffers, ContactSlots)
        and isinstance(inputs.mass_matrix, BodyMassMatrix)
        and ctx.articulated is None
        and not inputs.rows.blocks
        and not ctx.settings.differentiable
    )


class BodyObjective(ThreadObjective):
    """Constraint cost of free bodies in contact; `take_step` writes the gradient and its norms, too."""

    contacts: ContactConstraints

    def __init__(self, ctx: TraceContext, inputs: SolverInputs, contacts: ContactConstraints) -> None:
        super().__init__(ctx, inputs, contacts)
        self.previous, self.mass_times_previous = (
            self.vectors.new("warm start"),
            self.vectors.new("mass times warm start"),
        )
        """Constraint acceleration of the previous step, and its product with the mass matrix."""
        self._wrenches: NodeValues[Wrench] = ctx.new_values("contact wrenches")
        self._norms = ctx.allocate_fixed(3)
        """|g|^2 of the gradient, |M x|^2 of the constraint forces, and the work x . M x."""
        self._work = ctx.allocate_fixed(1)
        """Twice the cost of the warm start due to the mass matrix."""
        if self.tree_convergence is not None:
            self.tree_convergence = TreeConvergence(ctx, self._norms._replace(row=self._norms.row + 1))

    def initialize(self) -> None:
        """Write x = 0, the residuals, their derivatives along the warm start, its costs, and the work scale."""
        ctx, state, inputs, contacts = self.ctx, self.state, self.inputs, self.contacts
        matrix, factors = inputs.mass_matrix, inputs.mass_factors
        assert isinstance(matrix, BodyMassMatrix)
        assert isinstance(factors, BodyFactors)
        names = "velocities of bodies", "unconstrained accelerations of bodies", "twists along the warm start"
        twists: list[NodeValues[Twist]] = [ctx.new_values(name) for name in names]
        arrays = {"work": self._work, "smooth work": state.smooth_motion_work}
        for offset in arrays.values():
            ctx.tracer.write(SCRATCH, [0.0], offset.row)
        ctx.tracer.write(SCRATCH, [0.0, 0.0], state.contact_sums.row)

        def begin(iteration: IterationContext) -> None:
            node = ctx.frame_of_iteration(iteration)
            ref, axes = node.ref, contacts.motion_subspaces[node.ref].twists
            smooth, previous = inputs.qacc_smooth[ref], ctx.read_node("warm_start", node)
            for values, coordinates in zip(twists, (ctx.read_node("vel", node), smooth, previous), strict=True):
                values.put(ref, add_joint_twist(ZERO_TWIST, coordinates, axes))
            product = multiply_packed(matrix.blocks[ref], previous)
            terms = [x * x / iteration.read("inverse pivots", i) for i, x in enumerate(smooth)]
            iteration.write("work", [iteration.read("work") + dot(previous, product)])
            iteration.write("smooth work", [iteration.read("smooth work") + sum_values(terms)])
            self.previous.put(ref, previous)
            self.mass_times_previous.put(ref, product)
            self._wrenches.put(ref, ZERO_WRENCH)
            for vector in (state.constraint_acceleration, state.mass_times_acceleration):
                vector.put(ref, [0.0] * len(node.dofs))

        rows = frame_rows(ctx, ctx.body_nodes, {"inverse pivots": factors.inverse_pivots, **arrays})
        ctx.for_each("begin solve", rows, begin, ctx.active_bodies)
        begin_residuals(contacts, twists[0], twists[1], twists[2], state.contact_sums)

    def warm_start_length(self) -> Value:
        """Step length 1 if the cost of the warm start is lower than that of x = 0, else 0."""
        state = self.state
        costs = [state.read(state.contact_sums, i) for i in range(2)]
        return ir.select(costs[1] + 0.5 * state.read(self._work), costs[0], 1.0, 0.0)

    def prepare_line_search(self, direction: JointVector) -> tuple[JointVector, list[Value]]:
        """Prepare a direction d; return M d and the products d . M x, d . M d and d . (-g), with g the gradient.

        The line derivatives of the contacts at step length 1 are in `SolverState.contact_sums`.
        """
        ctx, state, matrix = self.ctx, self.state, self.inputs.mass_matrix
        assert isinstance(matrix, BodyMassMatrix)
        result, twists = self.vectors.new("mass times direction"), ctx.new_values("twists along the direction")

        def prepare(node: FrameNode) -> list[Value]:
            d, ref = direction[node.ref], node.ref
            product = multiply_packed(matrix.blocks[ref], d)
            result.put(ref, product)
            twists.put(ref, add_joint_twist(ZERO_TWIST, d, self.contacts.motion_subspaces[ref].twists))
            return [dot(d, x) for x in (state.mass_times_acceleration[ref], product, state.negative_gradient[ref])]

        zeros: list[Value] = [0.0] * 3
        products = ctx.sum_over_nodes("line-search products", NodeType.FRAMES, zeros, prepare)
        ctx.tracer.write(SCRATCH, [0.0, 0.0], state.contact_sums.row)
        begin_line_search(self.contacts, twists, state.contact_sums)
        return result, products

    def take_step(
        self, direction: JointVector, mass_times_direction: JointVector, *, count_changes: bool = False
    ) -> Value | None:
        """Advance x, M x and the residuals by the step length along d, and write the gradient and its norms.

        Returns the number of contacts whose active set changes, or None if not counted.
        """
        ctx, state = self.ctx, self.state
        ctx.tracer.write(SCRATCH, [0.0], state.contact_sums.row)
        take_contact_steps(self.contacts, state.step_length, state.contact_sums, self._wrenches)
        ctx.tracer.write(SCRATCH, [0.0] * 3, self._norms.row)

        def step(iteration: IterationContext) -> None:
            ref, length = ctx.frame_of_iteration(iteration).ref, iteration.read("length")
            x, force = (
                [a + length * b for a, b in zip(vector[ref], change[ref], strict=True)]
                for vector, change in (
                    (state.constraint_acceleration, direction),
                    (state.mass_times_acceleration, mass_times_direction),
                )
            )
            contact_force = [power(axis, self._wrenches[ref]) for axis in self.contacts.motion_subspaces[ref].twists]
            gradient = [a - b for a, b in zip(contact_force, force, strict=True)]
            state.constraint_acceleration.put(ref, x)
            state.mass_times_acceleration.put(ref, force)
            state.negative_gradient.put(ref, gradient)
            self._wrenches.put(ref, ZERO_WRENCH)
            terms = [dot(gradient, gradient), dot(force, force), dot(x, force)]
            iteration.write("norms", [a + b for a, b in zip(iteration.read_array("norms", 3), terms, strict=True)])

        rows = frame_rows(ctx, ctx.body_nodes, {"length": state.step_length, "norms": self._norms})
        ctx.for_each("steps of bodies", rows, step, ctx.active_bodies)
        return state.read(state.contact_sums) if count_changes else None

    def update_gradient(self) -> None:
        """Do nothing: each step has written the gradient."""

    def convergence_norms(self, *, include_work: bool) -> list[Value]:
        """Return |g|^2 of the gradient and |M x|^2 of the constraint forces, and optionally the work x . M x."""
        return [self.state.read(self._norms, i) for i in range(3 if include_work else 2)]


class BodyIteration(CommonIteration):
    """Iteration of free bodies: one step length for all bodies of an island, of which the first trial is known."""

    objective: BodyObjective

    def warm_start(self) -> None:
        """Start from the constraint acceleration of the previous step if its cost is lower than the cost of x = 0."""
        objective = self.objective
        self.state.set_step_length(objective.warm_start_length())
        objective.take_step(objective.previous, objective.mass_times_previous)

    def _line_search(self, direction: JointVector, products: Sequence[Value]) -> None:
        """Find the minimum of the cost along the direction as `CommonIteration` does, given the first trial."""
        ctx, state = self.ctx, self.state
        *products, start_product = products
        threshold = LINE_SEARCH_TOLERANCE * ir.absolute(start_product)
        ctx.tracer.write(SCRATCH, [start_product, state.read(state.cost_decreases)], state.cost_decreases.row)
        derivatives = state.read(state.contact_sums), state.read(state.contact_sums, 1)
        first, magnitude = next_trial_step([1.0, 0.0, MAX_STEP_LENGTH], derivatives, products, threshold)
        state.set_step_length(first[0])

        def trial(bracket: Sequence[Value]) -> tuple[list[Value], Value, Value]:
            state.set_step_length(bracket[0])
            derivatives = self.objective.line_derivatives(direction)
            bracket, magnitude = next_trial_step(bracket, derivatives, products, threshold)
            return bracket, threshold, magnitude

        def search() -> None:
            n_trials = max(ctx.settings.line_search_trials - 1, 1)
            length, _, _ = ctx.tracer.while_loop("line search", trial, first, n_trials)
            state.set_step_length(length)

        ctx.if_nonzero("line search continues", ir.select(threshold, magnitude, 1.0, 0.0), search)
