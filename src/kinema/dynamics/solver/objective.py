"""Objective of the constraint solve: 1/2 x^T M x + costs of constraint rows and contacts, with x = a - qacc_smooth.

x is the change of the joint accelerations a from their unconstrained values; the cost of a row or contact is a
piecewise quadratic function of its residual J a - aref. `Objective` is what the line-search methods need of it:
residuals, products with J and M, gradient, reductions. `ThreadObjective` evaluates it with one thread per environment,
by loops over constraints, contact buffers and frames; `warp_objective.py` with one warp per environment. Vectors
and scalars lie in scratch memory, and `Value` results are run-time values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from kinema.ir import SCRATCH, ArenaOffset, IterationContext, Value

from ..constraints.contacts import ContactConstraints, MotionSubspace
from ..constraints.rows import (
    ConstraintRows,
    advance_row_residuals,
    block_active_set_changes,
    block_cost,
    block_line_derivatives,
    subtract_aref,
    write_row_forces,
)
from ..rigid.kinematics import Pose
from ..tree.node_values import NodeValues
from ..tree.per_tree import PerTreeArray
from ..tree.sparse_matrix import JointSpaceMatrix, LDLFactors
from ..tree.trace_context import TraceContext
from .body_islands import BodyIslands
from .convergence import make_tree_convergence, write_smooth_motion_work
from .joint_vectors import JointVector, TreeVectors, WarpVectors


@dataclass(frozen=True, slots=True, eq=False)
class SolverInputs:
    """Quantities of the unconstrained dynamics that the constraint solver starts from."""

    rows: ConstraintRows
    """Constraint rows with stiffness and reference accelerations."""
    mass_matrix: JointSpaceMatrix
    """Joint-space mass matrix M."""
    mass_factors: LDLFactors
    """LDL factors of M."""
    qacc_smooth: JointVector
    """Joint accelerations without constraints."""
    motion_subspaces: NodeValues[MotionSubspace] | None
    """Motion subspaces of the joints about the shifted world origin; None without contacts."""
    shifted_world_poses: NodeValues[Pose] | None = None
    """Frame poses about the shifted world origin of the contact coordinates; None without contacts."""
    references: tuple[PerTreeArray, NodeValues[MotionSubspace]] | None = None
    """Reference point of each tree and motion subspaces about it; None to compute them for the contacts."""
    body_islands: BodyIslands | None = None
    """Islands of free bodies in contact; None to solve all trees together."""
    qfrc_smooth: JointVector | None = None
    """Joint forces without constraints, M qacc_smooth; only in programs to be differentiated."""


class SolverState:
    """Iterate, gradient and scalars of a solve, in scratch memory."""

    def __init__(self, ctx: TraceContext, new_vector: Callable[[str], JointVector]) -> None:
        self.ctx = ctx
        self.step_length = ctx.allocate_fixed(1)
        """Step length along the search direction."""
        self.contact_sums = ctx.allocate_fixed(2)
        """Accumulator of sums over contacts, two values."""
        self.n_iterations = ctx.allocate_fixed(1)
        """Number of Newton iterations."""
        self.cost_decreases = ctx.allocate_fixed(2)
        """Twice the predicted cost decrease (gradient times direction) of the last and of the previous iteration."""
        self.smooth_motion_work = ctx.allocate_fixed(1)
        """Work scale of the unconstrained motion, for the convergence test."""
        self.n_frame_contacts = ctx.allocate_fixed(1)
        """Number of contacts between two moving frames."""
        self.constraint_acceleration = new_vector("acceleration change")
        """x = a - qacc_smooth."""
        self.mass_times_acceleration = new_vector("mass times acceleration change")
        """M x, equal to the constraint forces at the solution."""
        self.negative_gradient = new_vector("negative gradient")
        """Negative gradient J^T f - M x of the cost."""

    def read(self, scalar: ArenaOffset, element: int = 0) -> Value:
        """Read a scalar of the solver."""
        return self.ctx.tracer.read(SCRATCH, scalar.row + element)

    def set_step_length(self, step_length: Value) -> None:
        """Write the step length."""
        self.ctx.tracer.write(SCRATCH, [step_length], self.step_length.row)
        self.ctx.tracer.new_basic_block()  # so that later code reads the new value


class TreeConvergenceTest(Protocol):
    """Convergence test of each tree by itself."""

    def count_unconverged(self, gradient: JointVector, forces: JointVector, tolerance: Value) -> Value:
        """Return the number of trees whose gradient norm exceeds `tolerance` times their force norm plus rounding."""
        ...


class Objective(Protocol):
    """Constraint cost at the current iterate x and along a search direction d, with one step length for all trees."""

    ctx: TraceContext
    inputs: SolverInputs
    state: SolverState
    rows: ConstraintRows
    has_contacts: bool

    @property
    def vectors(self) -> TreeVectors | WarpVectors:
        """Operations on joint vectors."""
        ...

    @property
    def tree_convergence(self) -> TreeConvergenceTest | None:
        """Convergence test per tree; None if the test of all trees together suffices."""
        ...

    def initialize(self) -> None:
        """Write x = 0, the residuals J a - aref at the unconstrained accelerations and the scale of their work."""
        ...

    def prepare_direction(self, direction: JointVector) -> JointVector:
        """Write the residual derivatives J d of rows and contacts for a direction d; return M d."""
        ...

    def prepare_line_search(self, direction: JointVector) -> tuple[JointVector, list[Value]]:
        """Prepare a direction d; return M d and the products d . M x, d . M d and d . (-g), with g the gradient."""
        ...

    def line_derivatives(self, direction: JointVector, /) -> tuple[Value, Value]:
        """Return first and second derivative of the row and contact costs along d at the step length."""
        ...

    def constraint_cost_at(self, step_length: float, direction: JointVector, /) -> Value:
        """Return the cost of all rows and contacts at a step length along d, without the term of M."""
        ...

    def take_step(
        self, direction: JointVector, mass_times_direction: JointVector, *, count_changes: bool = False
    ) -> Value | None:
        """Advance x, M x and the residuals by the step length along d.

        Returns the number of rows and contacts whose active set changes, or None if not counted.
        """
        ...

    def update_gradient(self) -> None:
        """Write the negative gradient J^T f - M x of the cost at the current residuals."""
        ...

    def convergence_norms(self, *, include_work: bool) -> list[Value]:
        """Return |g|^2 of the gradient and |M x|^2 of the constraint forces, and optionally the work x . M x."""
        ...

    def constraint_forces(self) -> JointVector:
        """Return the joint forces J^T f of all constraint rows and contacts at the current residuals."""
        ...


# ---------------------------------------------------------------------------------------- one thread per environment


class ThreadObjective:
    """Constraint cost evaluated by one thread per environment."""

    def __init__(self, ctx: TraceContext, inputs: SolverInputs, contacts: ContactConstraints | None) -> None:
        self.ctx, self.inputs, self.contacts = ctx, inputs, contacts
        self.rows = inputs.rows
        self.has_contacts = contacts is not None
        self.vectors = TreeVectors(ctx)
        self.state = SolverState(ctx, self.vectors.new)
        self.step_lengths: ArenaOffset | PerTreeArray = self.state.step_length
        """Step length of each row and contact: one for all, or one per tree if islands are solved separately."""
        self.tree_convergence = None if contacts is None else make_tree_convergence(ctx)

    def initialize(self) -> None:
        """Write x = 0, the residuals, the work scale and the number of contacts between moving frames."""
        state, contacts, inputs = self.state, self.contacts, self.inputs
        for vector in (state.constraint_acceleration, state.mass_times_acceleration):
            self.vectors.set_zero(vector)
        initialize_row_residuals(self.rows, inputs.qacc_smooth)
        if contacts is not None:
            write_smooth_motion_work(self.ctx, inputs.mass_factors, inputs.qacc_smooth, state.smooth_motion_work)
            self.ctx.tracer.write(
                SCRATCH, [contacts.buffers.count_contacts(between_frames=True)], state.n_frame_contacts.row
            )
            contacts.initialize_residuals(
                contacts.frame_twists("velocities of frames"),
                contacts.frame_twists("unconstrained accelerations of frames", inputs.qacc_smooth),
            )

    def prepare_direction(self, direction: JointVector) -> JointVector:
        """Write the residual derivatives J d of rows and contacts for a direction d; return M d."""
        mass_times_direction = self.inputs.mass_matrix.multiply("mass times direction", direction)
        self.rows.multiply_jacobian(direction, "residual derivative")
        if self.contacts is not None:
            self.contacts.multiply_jacobian(self.contacts.frame_twists("twists along the direction", direction))
        return mass_times_direction

    def prepare_line_search(self, direction: JointVector) -> tuple[JointVector, list[Value]]:
        """Prepare a direction d; return M d and the products d . M x, d . M d and d . (-g), with g the gradient."""
        mass_times_direction = self.prepare_direction(direction)
        vectors = self.state.mass_times_acceleration, mass_times_direction, self.state.negative_gradient
        return mass_times_direction, self.vectors.dot_products(
            "line-search products", [(direction, x) for x in vectors]
        )

    def line_derivatives(self, _direction: JointVector) -> tuple[Value, Value]:
        """Return first and second derivative of the row and contact costs along the direction at the step length."""
        first, second = self._sum_over_rows("line derivatives of constraint rows", block_line_derivatives)
        if self.contacts is None:
            return first, second
        contact_terms = self._sum_over_contacts(self.contacts.add_line_derivatives, 2)
        return first + contact_terms[0], second + contact_terms[1]

    def constraint_cost_at(self, step_length: float, _direction: JointVector | None = None) -> Value:
        """Return the cost of all constraint rows and contacts at a step length along the prepared direction."""
        self.state.set_step_length(step_length)
        row_cost = self._sum_over_rows(f"costs at {step_length:g}", block_cost)[0]
        return row_cost if self.contacts is None else row_cost + self._sum_over_contacts(self.contacts.add_costs, 1)[0]

    def take_step(
        self, direction: JointVector, mass_times_direction: JointVector, *, count_changes: bool = False
    ) -> Value | None:
        """Advance residuals, M x and x by the step length; optionally return the number of active-set changes.

        x itself is only updated if there are contacts, if `Settings.stores_solution` is set, or if the limiter of
        kinetic-energy growth (`rigid/energy_limiter.py`) is enabled.
        """
        n_changes = self._active_set_changes() if count_changes else None
        self.rows.for_each_block("advance constraint residuals", advance_row_residuals, {"length": self.step_lengths})
        if self.contacts is not None:
            self.contacts.advance_residuals(self.step_lengths)
        self.vectors.axpy(self.state.mass_times_acceleration, mass_times_direction, self.step_lengths)
        settings = self.ctx.settings
        if self.contacts is not None or settings.energy_limiter or settings.stores_solution:
            self.vectors.axpy(self.state.constraint_acceleration, direction, self.step_lengths)
        return n_changes

    def _active_set_changes(self) -> Value:
        n_changes = self._sum_over_rows("active-set changes of constraint rows", block_active_set_changes)[0]
        if self.contacts is None:
            return n_changes
        return n_changes + self._sum_over_contacts(self.contacts.add_active_set_changes, 1)[0]

    def update_gradient(self) -> None:
        """Write the negative gradient J^T f - M x of the cost."""
        state = self.state
        self.vectors.set_sum(state.negative_gradient, self.constraint_forces(), state.mass_times_acceleration, -1.0)

    def convergence_norms(self, *, include_work: bool) -> list[Value]:
        """Return |g|^2 of the gradient and |M x|^2 of the constraint forces, and optionally the work x . M x."""
        gradient, force = self.state.negative_gradient, self.state.mass_times_acceleration
        pairs = [(gradient, gradient), (force, force), (self.state.constraint_acceleration, force)]
        return self.vectors.dot_products("convergence norms", pairs if include_work else pairs[:2])

    def constraint_forces(self) -> JointVector:
        """Return the joint forces J^T f of all constraint rows and contacts at the current residuals."""
        if self.contacts is not None and not self.rows.blocks:
            return self.contacts.joint_forces("constraint joint forces")
        self.rows.for_each_block("forces of constraint rows", write_row_forces)
        row_forces = self.rows.joint_forces("joint forces of constraint rows")
        if self.contacts is None:
            return row_forces
        contact_forces = self.contacts.joint_forces("joint forces of contacts")
        if self.rows.ctx is not self.ctx:  # rows act on articulated trees only
            self.rows.ctx.for_each_frame(
                "add joint forces of constraint rows",
                lambda node: contact_forces.add(node.ref, row_forces[node.ref]),
            )
            return contact_forces
        total = self.vectors.new("constraint joint forces")
        self.vectors.set_sum(total, row_forces, contact_forces, 1.0)
        return total

    def _sum_over_rows(self, name: str, body: Callable[[IterationContext], Sequence[Value]]) -> list[Value]:
        return sum_over_rows(self.rows, name, body, self.state.step_length)

    def _sum_over_contacts(self, add_terms: Callable[[ArenaOffset, ArenaOffset], None], n_values: int) -> list[Value]:
        """Return sums over all contacts that `add_terms(step_length, total)` accumulates."""
        state = self.state
        self.ctx.tracer.write(SCRATCH, [0.0] * n_values, state.contact_sums.row)
        add_terms(state.step_length, state.contact_sums)
        return [state.read(state.contact_sums, i) for i in range(n_values)]


def initialize_row_residuals(rows: ConstraintRows, qacc_smooth: JointVector) -> None:
    """Write the residuals J a - aref of constraint rows at the unconstrained accelerations."""
    rows.multiply_jacobian(qacc_smooth, "residual")
    rows.for_each_block("residuals of constraints", subtract_aref)


def sum_over_rows(
    rows: ConstraintRows, name: str, body: Callable[[IterationContext], Sequence[Value]], step_length: ArenaOffset
) -> list[Value]:
    """Sum the two values per block that `body` returns, which may read the step length `length`."""
    return rows.sum_over_blocks(name, body, {"length": step_length}) if rows.blocks else [0.0, 0.0]
