"""Newton's method with exact line search on the convex cost 1/2 x^T M x + sum of constraint costs, x = a - qacc_smooth.

x is the change of the joint accelerations a from their unconstrained values, and the cost of a row or contact is a
piecewise quadratic function of its residual J a - aref. While the active set does not change, the cost is quadratic, so
a full step that leaves the active set unchanged has converged. Sliding elliptic cones are not quadratic, and the steps
of rigid rows are inexact in finite precision; there, convergence is decided by the gradient norm relative to the
forces.

The solver classes trace code: their vectors live in scratch memory, and `Value` results are run-time values. Subclasses
replace the search direction, the sharing of work or the scope (conjugate gradients, islands, warps).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kinema import ir
from kinema.ir import SCRATCH, ArenaOffset, RowContext, Value

from ..constraints.block_sparse_hessian import allocate_block_sparse_hessian, assemble_block_sparse_hessian
from ..constraints.contacts import ContactConstraints
from ..tree.block_sparse_matrix import BlockCholeskyFactors, BlockSparseMatrix
from ..tree.kinematic_tree import FrameNode, NodeType
from ..tree.loop_context import tree_index_of_frames
from ..tree.per_tree import PerTreeArray, offsets_of_tree
from ..tree.sparse_matrix import ldl_factorize, with_fill_in
from ..tree.trace_context import TraceContext
from ..vector_math import dot
from .convergence import LOOSE_TOLERANCE, TREE_TOLERANCE, made_progress, make_tree_convergence, write_smooth_motion_work
from .noslip import MIN_LINE_SEARCH_TRIALS, has_friction, solve_noslip
from .objective import (
    LINE_SEARCH_TOLERANCE,
    MAX_STEP_LENGTH,
    JointVector,
    SolverInputs,
    advance_row_residuals,
    block_active_set_changes,
    block_cost,
    block_line_derivatives,
    next_trial_step,
    subtract_aref,
    write_row_forces,
)

INFINITE_COST = 1e30
"""Initial value of cost decreases, above any real one."""


class NewtonSolver:
    """One constraint solve by Newton's method on one thread per environment."""

    has_exact_hessian = True
    """Whether a step that leaves the active set unchanged has converged."""

    def __init__(self, ctx: TraceContext, inputs: SolverInputs, contacts: ContactConstraints | None) -> None:
        self.ctx = ctx
        self.rows = inputs.rows
        self.contacts = contacts
        self.mass_matrix = inputs.mass_matrix
        self.mass_factors = inputs.mass_factors
        self.qacc_smooth = inputs.qacc_smooth
        self.sparsity = with_fill_in(self.mass_matrix.sparsity, [block.dofs for block in self.rows.blocks])
        self.step_length = ctx.allocate_fixed(1)
        """Step length along the search direction."""
        self.row_step_lengths: ArenaOffset | PerTreeArray = self.step_length
        """Step length of each row and contact: one for all, or one per tree if islands are solved separately."""
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
        self.acceleration_change = self._new_vector("acceleration change")
        """x = a - qacc_smooth."""
        self.mass_times_change = self._new_vector("mass times acceleration change")
        """M x, equal to the constraint forces at the solution."""
        self.negative_gradient = self._new_vector("negative gradient")
        """Negative gradient J^T f - M x of the cost."""
        self.tree_convergence = None if contacts is None else make_tree_convergence(ctx)
        self.block_sparse_hessian: BlockSparseMatrix | None = None
        """Block-sparse Hessian for scenes with many trees; None if the tree-sparse Hessian is used."""

    def solve(self) -> JointVector:
        """Minimise the constraint cost and return the joint forces of constraints and contacts (qfrc_constraint).

        Initialises residuals, warm-starts from the previous step (elliptic cones only), iterates until converged,
        stores the warm start of the next step, and refines friction if no-slip iterations are enabled. With contacts,
        the forces are returned as M x, which is more accurate than the sum of the stiff contact forces.
        """
        ctx, contacts = self.ctx, self.contacts
        ctx.tracer.write(SCRATCH, [0.0], self.n_iterations.row)
        ctx.tracer.write(SCRATCH, [INFINITE_COST], self.cost_decreases.row)
        for vector in (self.acceleration_change, self.mass_times_change):
            self._set_zero(vector)
        self._initialize_rows()
        self._initialize_contacts()
        if contacts is not None and ctx.model.options.elliptic:  # pyramidal cones converge as fast from zero
            self._warm_start()
        if contacts is not None and self.has_exact_hessian and not ctx.tracer.in_warp_region:
            self.block_sparse_hessian = allocate_block_sparse_hessian(contacts, self.rows, self.mass_matrix)
        self._update_gradient()
        ctx.while_loop("Newton's method", self._iterate, ctx.settings.iterations)
        self._finish()
        if ctx.has_output("push"):
            ctx.for_each_frame(
                "store warm start", lambda node: ctx.write("push", node, self.acceleration_change[node.ref])
            )
            ctx.write("n_iterations", None, [ctx.tracer.read(SCRATCH, self.n_iterations.row)])
        if ctx.settings.noslip_iterations and has_friction(self.rows, contacts):
            solve_noslip(ctx, self.rows, contacts, self._update_gradient, self._iterate, self._is_unconverged)
        # rounding errors of stiff contact forces exceed those of M x
        return self._constraint_forces() if self.contacts is None else self.mass_times_change

    def _initialize_rows(self) -> None:
        """Write the residuals J a - aref of the constraint rows at the unconstrained accelerations."""
        self.rows.multiply_jacobian(self.qacc_smooth, "residual")
        self.rows.for_each_block("residuals of constraints", subtract_aref)

    def _initialize_contacts(self) -> None:
        """Write the contact residuals at the unconstrained accelerations.

        Also writes the work scale of the unconstrained motion and the number of contacts between moving frames.
        """
        contacts = self.contacts
        if contacts is not None:
            write_smooth_motion_work(self.ctx, self.mass_factors, self.qacc_smooth, self.smooth_motion_work)
            self.ctx.tracer.write(
                SCRATCH, [contacts.buffers.count_contacts(between_frames=True)], self.n_frame_contacts.row
            )
            contacts.initialize_residuals(
                contacts.frame_twists("velocities of frames"),
                contacts.frame_twists("unconstrained accelerations of frames", self.qacc_smooth),
            )

    def _finish(self) -> None:
        """Hook after the last iteration; does nothing here."""

    def acceleration_change_of(self, node: FrameNode) -> list[Value]:
        """Return the part of a frame's joint accelerations due to constraints and contacts, x = a - qacc_smooth."""
        return self.acceleration_change[node.ref]

    def _warm_start(self) -> None:
        """Start from the acceleration change of the previous time step if its cost is lower than that of x = 0."""
        ctx = self.ctx
        previous = self._new_vector("warm start")
        ctx.for_each_frame("warm start", lambda node: previous.put(node.ref, ctx.read_node("push", node)))
        mass_times_previous = self._prepare_direction(previous)
        (work,) = self._dot_products("cost of warm start", [(previous, mass_times_previous)])
        costs = [self.constraint_cost_at(length, previous) for length in (0.0, 1.0)]
        self._set_step_length(ir.select(costs[1] + 0.5 * work, costs[0], 1.0, 0.0))
        self._take_step(previous, mass_times_previous)

    def constraint_cost_at(self, step_length: float, _direction: JointVector | None = None) -> Value:
        """Return the cost of all constraint rows and contacts at a step length along the prepared direction."""
        self._set_step_length(step_length)
        row_cost = self._sum_over_rows(f"costs at {step_length:g}", block_cost)[0]
        return row_cost if self.contacts is None else row_cost + self._sum_over_contacts(self.contacts.add_costs, 1)[0]

    def _prepare_direction(self, direction: JointVector) -> JointVector:
        """Compute M d and write the residual derivatives J d of rows and contacts for a direction d; return M d."""
        mass_times_direction = self._multiply_mass("mass times direction", direction)
        self.rows.multiply_jacobian(direction, "change")
        self._prepare_contact_direction(direction)
        return mass_times_direction

    def _prepare_contact_direction(self, direction: JointVector) -> None:
        """Write the residual derivatives J d of the contacts for a direction d."""
        if self.contacts is not None:
            self.contacts.multiply_jacobian(self.contacts.frame_twists("twists along the direction", direction))

    def _take_step(self, direction: JointVector, mass_times_direction: JointVector) -> None:
        """Advance residuals, M x and x by the current step length along the direction (x: change of the accelerations).

        x itself is only updated if contacts or the energy limiter need it.
        """
        self.rows.for_each_block(
            "advance constraint residuals", advance_row_residuals, {"length": self.row_step_lengths}
        )
        if self.contacts is not None:
            self.contacts.advance_residuals(self.row_step_lengths)
        self._axpy(self.mass_times_change, mass_times_direction)
        if self.contacts is not None or self.ctx.settings.energy_limiter:
            self._axpy(self.acceleration_change, direction)

    def _constraint_forces(self) -> JointVector:
        """Return the joint forces J^T f of all constraint rows and contacts at the current residuals."""
        if self.contacts is not None and not self.rows.blocks:
            return self.contacts.joint_forces("constraint joint forces")
        self.rows.for_each_block("forces of constraint rows", write_row_forces)
        row_forces = self.rows.joint_forces("joint forces of constraint rows")
        if self.contacts is None:
            return row_forces
        contact_forces = self.contacts.joint_forces("joint forces of contacts")
        total = self._new_vector("constraint joint forces")
        self._set_sum(total, row_forces, contact_forces, 1.0)
        return total

    def _update_gradient(self) -> None:
        """Write the negative gradient J^T f - M x of the cost."""
        self._set_sum(self.negative_gradient, self._constraint_forces(), self.mass_times_change, -1.0)

    def _iterate(self) -> tuple[Value, Value]:
        """Take one Newton step: search direction, line search, update of residuals and gradient, convergence test.

        Returns the loop condition as a pair (threshold, value): the iteration continues while threshold < value.
        """
        direction = self._search_direction()
        mass_times_direction, products = self._prepare_line_search(direction)
        self._line_search(direction, products)
        has_rigid_rows = any(block.is_rigid for block in self.rows.blocks)  # inexact steps in single precision
        n_changes = self._take_step_and_compare(
            direction, mass_times_direction, count_changes=self.has_exact_hessian and not has_rigid_rows
        )
        self._update_gradient()
        tracer = self.ctx.tracer
        tracer.write(SCRATCH, [tracer.read(SCRATCH, self.n_iterations.row) + 1.0], self.n_iterations.row)
        if n_changes is None:
            return 0.5, self._is_unconverged()
        cost_decreases = (
            [] if self.contacts is None else [tracer.read(SCRATCH, self.cost_decreases.row + i) for i in range(2)]
        )
        unconverged = self._is_unconverged(0.0, ir.select(0.5, n_changes, 0.0, LOOSE_TOLERANCE), cost_decreases)
        if self.tree_convergence is not None and not self.rows.is_noslip:
            tolerance = ir.select(0.5, n_changes, TREE_TOLERANCE, LOOSE_TOLERANCE)
            unconverged = ir.maximum(
                unconverged,
                self.tree_convergence.count_unconverged(self.negative_gradient, self.mass_times_change, tolerance),
            )
        return 0.5, unconverged

    def _prepare_line_search(self, direction: JointVector) -> tuple[JointVector, list[Value]]:
        """Prepare a line search along d; return M d and the products d . M x, d . M d and d . (-g).

        M is the mass matrix, x the current change of the accelerations and g the gradient of the cost. Also writes the
        residual derivatives J d of rows and contacts.
        """
        mass_times_direction = self._prepare_direction(direction)
        return mass_times_direction, self._dot_products(
            "line-search products",
            [(direction, x) for x in (self.mass_times_change, mass_times_direction, self.negative_gradient)],
        )

    def _take_step_and_compare(
        self, direction: JointVector, mass_times_direction: JointVector, *, count_changes: bool
    ) -> Value | None:
        """Take the step; return the number of rows and contacts whose active set changes, or None if not counted."""
        n_changes = self._active_set_changes(direction) if count_changes else None
        self._take_step(direction, mass_times_direction)
        return n_changes

    def _is_unconverged(
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
        squared_gradient, squared_force, *work = self._convergence_norms(include_work=bool(cost_decreases))
        squared_tolerance = ir.maximum(tolerance**2, loose_tolerance * loose_tolerance)
        unconverged = ir.select(squared_tolerance * squared_force, squared_gradient, 1.0, 0.0)
        if not cost_decreases:
            return unconverged
        return unconverged * made_progress(
            cost_decreases, work[0] + self.ctx.tracer.read(SCRATCH, self.smooth_motion_work.row), tolerance
        )

    def _convergence_norms(self, *, include_work: bool) -> list[Value]:
        """Return |g|^2 of the gradient and |M x|^2 of the constraint forces, and the work x . M x if asked for."""
        pairs = [
            (self.negative_gradient, self.negative_gradient),
            (self.mass_times_change, self.mass_times_change),
            (self.acceleration_change, self.mass_times_change),
        ]
        return self._dot_products("convergence norms", pairs if include_work else pairs[:2])

    # ------------------------------------------------------------------------------------------------- search direction

    def _search_direction(self) -> JointVector:
        """Return the Newton direction H^-1 (-g), with the Hessian H = M + J^T D J factorised by LDL or block Cholesky.

        With a block-sparse Hessian, its blocks are assembled and factorised. Otherwise H has the sparsity of the
        kinematic tree, and is extended by the entries between branches only if contacts between moving frames exist at
        run time.
        """
        ctx, contacts = self.ctx, self.contacts
        if self.block_sparse_hessian is not None and contacts is not None:
            assemble_block_sparse_hessian(self.block_sparse_hessian, self.mass_matrix, self.rows, contacts)
            with ctx.keeping_loops():
                return BlockCholeskyFactors(self.block_sparse_hessian, self.mass_factors).solve(
                    "direction", self.negative_gradient
                )
        contact_couplings = contacts.coupled_dofs() if contacts is not None else []
        sparsity = with_fill_in(self.sparsity, contact_couplings) if contact_couplings else self.sparsity
        matrix = self.mass_matrix.copy_with_sparsity("Hessian with constraints", sparsity)
        self.rows.add_hessian(matrix)
        if contacts is None:
            return ldl_factorize(matrix, self.mass_factors).solve("direction", self.negative_gradient)
        contacts.add_world_contact_hessian(matrix)
        if not contact_couplings:
            return ldl_factorize(matrix, self.mass_factors).solve("direction", self.negative_gradient)
        direction: JointVector = ctx.new_values("direction")
        ctx.for_each_frame("clear direction", lambda node: direction.put(node.ref, [0.0] * len(node.dofs)))
        n_contacts = ctx.tracer.read(SCRATCH, self.n_frame_contacts.row)

        def solve_decoupled() -> None:
            solution = ldl_factorize(matrix.view_with_sparsity(self.sparsity), self.mass_factors).solve(
                "direction without branch coupling", self.negative_gradient
            )
            ctx.for_each_frame(
                "store direction without branch coupling", lambda node: direction.put(node.ref, solution[node.ref])
            )

        def solve_coupled() -> None:
            with ctx.keeping_loops():
                contacts.add_frame_contact_hessian(matrix)
                solution = ldl_factorize(matrix, self.mass_factors).solve(
                    "direction with branch coupling", self.negative_gradient
                )
                ctx.for_each_frame(
                    "store direction with branch coupling", lambda node: direction.put(node.ref, solution[node.ref])
                )

        ctx.if_nonzero("branches decoupled", ir.select(n_contacts, 0.5, 1.0, 0.0), solve_decoupled)
        ctx.if_nonzero("branches coupled by contacts", n_contacts, solve_coupled)
        return direction

    # ------------------------------------------------------------------------------------------------------ line search

    def _line_search(self, direction: JointVector, products: Sequence[Value]) -> None:
        """Find the minimum of the cost along the direction by a safeguarded Newton search; write the step length.

        The first trial is step length 1. Also shifts the history of predicted cost decreases.

        Args:
            direction: search direction d, already prepared.
            products: d . M x, d . M d and d . (-g).
        """
        ctx, (initial_product, quadratic_product, start_product) = self.ctx, products
        initial_product = -start_product if self.rows.is_noslip else initial_product
        threshold = LINE_SEARCH_TOLERANCE * ir.absolute(start_product)
        ctx.tracer.write(
            SCRATCH, [start_product, ctx.tracer.read(SCRATCH, self.cost_decreases.row)], self.cost_decreases.row
        )

        def trial(state: Sequence[Value]) -> tuple[list[Value], Value, Value]:
            length, low, high = state
            self._set_step_length(length)
            derivative, second_derivative = self._line_derivatives(direction)
            derivative, second_derivative = (
                derivative + initial_product + length * quadratic_product,
                second_derivative + quadratic_product,
            )
            next_length, low, high = next_trial_step(length, low, high, derivative, second_derivative)
            magnitude = ir.absolute(derivative)
            return [ir.select(threshold, magnitude, next_length, length), low, high], threshold, magnitude

        max_trials = (
            max(ctx.settings.line_search_trials, MIN_LINE_SEARCH_TRIALS)
            if self.rows.is_noslip
            else ctx.settings.line_search_trials
        )
        length, _, _ = ctx.tracer.while_loop("line search", trial, [1.0, 0.0, MAX_STEP_LENGTH], max_trials)
        self._set_step_length(length)

    def _set_step_length(self, step_length: Value) -> None:
        self.ctx.tracer.write(SCRATCH, [step_length], self.step_length.row)
        self.ctx.tracer.new_basic_block()  # so that later code reads the new value

    def _line_derivatives(self, _direction: JointVector) -> tuple[Value, Value]:
        """Return first and second derivative of the row and contact costs along the direction at the step length."""
        first, second = self._sum_over_rows("line derivatives of constraint rows", block_line_derivatives)
        if self.contacts is None:
            return first, second
        contact_terms = self._sum_over_contacts(self.contacts.add_line_derivatives, 2)
        return first + contact_terms[0], second + contact_terms[1]

    def _active_set_changes(self, _direction: JointVector) -> Value:
        """Return the number of rows and contacts whose active set changes within the step."""
        n_changes = self._sum_over_rows("active-set changes of constraint rows", block_active_set_changes)[0]
        return (
            n_changes
            if self.contacts is None
            else n_changes + self._sum_over_contacts(self.contacts.add_active_set_changes, 1)[0]
        )

    def _sum_over_rows(self, name: str, body: Callable[[RowContext], Sequence[Value]]) -> list[Value]:
        return self.rows.sum_over_blocks(name, body, {"length": self.step_length}) if self.rows.blocks else [0.0, 0.0]

    def _sum_over_contacts(self, add_terms: Callable[[ArenaOffset, ArenaOffset], None], n_values: int) -> list[Value]:
        """Return sums over all contacts that `add_terms(step_length, total)` accumulates."""
        tracer = self.ctx.tracer
        tracer.write(SCRATCH, [0.0] * n_values, self.contact_sums.row)
        add_terms(self.step_length, self.contact_sums)
        return [tracer.read(SCRATCH, self.contact_sums.row + i) for i in range(n_values)]

    # ---------------------------------------------------------------------------------------------------------- vectors

    def _new_vector(self, name: str) -> JointVector:
        """Allocate a joint-space vector (one value per dof)."""
        return self.ctx.new_values(name)

    def _set_zero(self, vector: JointVector) -> None:
        """Set all elements of a joint-space vector to zero."""
        self.ctx.for_each_frame("clear vector", lambda node: vector.put(node.ref, [0.0] * len(node.dofs)))

    def _set_sum(self, target: JointVector, a: JointVector, b: JointVector, sign: float) -> None:
        """Write target = a + sign * b for joint-space vectors."""

        def body(node: FrameNode) -> None:
            target.put(node.ref, [x + sign * y for x, y in zip(a[node.ref], b[node.ref], strict=True)])

        self.ctx.for_each_frame(target.name, body)

    def _dot_products(self, name: str, pairs: Sequence[tuple[JointVector, JointVector]]) -> list[Value]:
        """Return the dot products of pairs of joint-space vectors."""

        def body(node: FrameNode) -> list[Value]:
            return [dot(a[node.ref], b[node.ref]) for a, b in pairs]

        return self.ctx.sum_over_nodes(name, NodeType.FRAMES, [0.0] * len(pairs), body)

    def _multiply_mass(self, name: str, vector: JointVector) -> JointVector:
        """Return M times a joint-space vector."""
        return self.mass_matrix.multiply(name, vector)

    def _axpy(self, vector: JointVector, direction: JointVector) -> None:
        """Add step length times direction to a joint-space vector, with one step length for all or one per tree."""
        ctx, rows, trees = self.ctx, [], tree_index_of_frames(self.ctx.model)
        for node in ctx.nodes:
            rows.append(ctx.frame_row(node))
            rows[-1].offsets.update(offsets_of_tree(trees[node.index], {"length": self.row_step_lengths}))

        def body(code: RowContext) -> None:
            ref = ctx.frame_of_row(code).ref
            pairs = zip(vector[ref], direction[ref], strict=True)
            vector.put(ref, [x + code.read("length") * d for x, d in pairs])

        ctx.table_loop("add step to vector", rows, body)
