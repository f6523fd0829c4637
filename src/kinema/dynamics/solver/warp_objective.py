"""Objective of the constraint solve evaluated by one warp per environment, and the dense Newton direction.

Threads share dofs, constraint rows, contacts and matrix rows; each pass over all of them is one parallel loop, followed
by one reduction across the warp. The Hessian is dense, as contacts may couple any two dofs, and each thread keeps one
or two of its rows in registers during the factorisation; `warp_block_sparse.py` has a block-sparse one for many trees.

The loops of `ThreadObjective` would use one thread of the warp. Scenes of many bodies solved by a warp run at 2.9 to
7.9 times the speed of MuJoCo Warp, those left to one thread per environment below its speed (docs/contacts.md). The
formulas of rows and contacts are the same (`friction_cone.py`, `rows.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from kinema import ir
from kinema.codegen import BlockArrowhead, LdlSolve
from kinema.ir import (
    SCRATCH,
    ArenaOffset,
    IntrinsicCall,
    IterationContext,
    LoopIteration,
    MemoryLocation,
    Value,
    round_up_to_4,
)

from ..collision.contact_lists import ContactLists
from ..collision.contact_records import Contact
from ..collision.vector_math import if_less
from ..constraints.friction_cone import ContactCost
from ..constraints.rows import (
    advance_row_residuals,
    block_active_set_changes,
    block_cost,
    block_line_derivatives,
    write_row_forces,
)
from ..constraints.warp_contact_records import ContactGroup, ContactRow, contact_record
from ..constraints.warp_contacts import LoadedVector, WarpContacts, divmod_index
from ..constraints.warp_rows import BoundedRow, MultiDofRows, SingleDofRows, sum_line_derivatives
from ..tree.sparse_matrix import JointSpaceMatrix
from ..tree.trace_context import TraceContext
from ..vector_math import dot, sum_values
from .block_arrowhead import WARP_SIZE, find_arrowhead_partition, with_contact_coupling
from .body_islands import BodyIslands
from .joint_vectors import JointVector, WarpVectors
from .newton import NewtonSolver, SearchDirection
from .objective import (
    SolverInputs,
    SolverState,
    TreeConvergenceTest,
    initialize_row_residuals,
    sum_over_rows,
)

# ------------------------------------------------------------------------------------------ vectors and mass matrix


@dataclass(frozen=True, slots=True, eq=False)
class BlockDiagonalMatrix:
    """Symmetric matrix of equal dense blocks on the diagonal, stored by rows; one block for a dense matrix."""

    ctx: TraceContext
    position_of_dof: Mapping[int, int]
    """Dof index -> row."""
    size: int
    """Number of rows, including padding."""
    block_size: int
    """Number of rows of a block."""
    row_stride: int
    start: int
    """Scratch row of the first entry."""

    @classmethod
    def allocate_dense(cls, ctx: TraceContext) -> BlockDiagonalMatrix:
        """Allocate a dense matrix over all dofs.

        The row stride is odd, so that threads that read a column access different banks of shared memory.
        """
        positions = {dof: i for i, dof in enumerate(dof for node in ctx.nodes for dof in node.dofs)}
        n = len(positions)
        return cls(ctx, positions, n, n, n | 1, ctx.allocate(n * (n | 1)).row)

    def entry(self, i: int, j: int) -> ArenaOffset:
        """Return the scratch offset of the entry in row i and column j of its block."""
        return ArenaOffset(SCRATCH, self.start + i * self.row_stride + j)

    def symmetric_entry(self, a: int, b: int) -> ArenaOffset:
        """Return the scratch offset of the lower-triangular entry of two dofs of the same block."""
        i, j = sorted((self.position_of_dof[a], self.position_of_dof[b]), reverse=True)
        return self.entry(i, j % self.block_size)

    def fill_from(self, source: JointSpaceMatrix) -> None:
        """Trace a copy of a branch-induced sparse matrix to all symmetric entries; padding gets a unit diagonal."""
        entries: dict[tuple[int, int], ArenaOffset] = {}
        for dof, path in source.sparsity.items():
            for ancestor in path:
                i, j = self.position_of_dof[dof], self.position_of_dof[ancestor]
                entries[i, j % self.block_size] = entries[j, i % self.block_size] = source.entry(dof, ancestor)
        rows = []
        for i in range(self.size):
            for j in range(self.block_size):
                to = {"to": self.entry(i, j)}
                if (i, j) in entries:
                    rows.append(LoopIteration("entry", {**to, "from": entries[i, j]}))
                else:
                    rows.append(LoopIteration("padding" if i % self.block_size == j else "zero", to))
        values = {"padding": 1.0, "zero": 0.0}
        self.ctx.for_each(
            "dense mass matrix",
            rows,
            lambda iteration: iteration.write(
                "to",
                [iteration.read("from") if iteration.specialization == "entry" else values[iteration.specialization]],
            ),
        )

    def row_times(self, row: Value, vector: LoadedVector) -> Value:
        """Return one row, given at run time, times a vector."""
        read, offset = self.ctx.tracer.read, row * float(self.row_stride)
        entries = [read(SCRATCH, self.start + j, offset) for j in range(self.block_size)]
        if vector.values:
            return dot(entries, vector.values)
        first = divmod_index(row, self.block_size)[0] * float(self.block_size)
        return dot(entries, [read(SCRATCH, vector.start + i, first) for i in range(self.block_size)])

    def copy(self) -> BlockDiagonalMatrix:
        """Return a copy of the matrix in new memory; threads share the elements."""
        tracer, n_entries = self.ctx.tracer, self.size * self.row_stride
        target = replace(self, start=self.ctx.allocate(n_entries).row)

        def copy_element(index: Value) -> list[Value]:
            tracer.write(SCRATCH, [tracer.read(SCRATCH, self.start, index)], target.start, index)
            return []

        tracer.parallel_loop("copy dense matrix", float(n_entries), copy_element)
        return target


# --------------------------------------------------------------------------------------------------------- objective

IndexFunction = Callable[[Value], Sequence[Value]]
"""Function of a run-time index that returns values to be summed."""
ContactFunction = Callable[[Contact], Sequence[Value]]
"""Function of a contact record that returns values to be summed."""
COST = ContactCost()
"""Cost of the contacts: no-slip friction is not available on a warp."""
ParallelTask = tuple[str, Value, IndexFunction]
"""Label, number of elements, and function of the element index that returns values to be summed."""


class WarpObjective:
    """Constraint cost evaluated by one warp per environment, inside a warp region."""

    tree_convergence: TreeConvergenceTest | None = None
    body_islands: BodyIslands | None = None

    def __init__(
        self,
        inputs: SolverInputs,
        state: SolverState,
        vectors: WarpVectors,
        mass: BlockDiagonalMatrix,
        max_inverse_pivots: int,
        contacts: WarpContacts | None,
    ) -> None:
        """Allocate and split the constraint rows, and expand the mass matrix into `mass`.

        `max_inverse_pivots` is the scratch offset of the inverse pivots of M in the layout of the vectors; they are
        upper bounds of the inverse pivots of the Hessian.
        """
        self.ctx, self.inputs, self.state, self.vectors, self.mass = state.ctx, inputs, state, vectors, mass
        self.max_inverse_pivots, self.contacts = max_inverse_pivots, contacts
        self.has_contacts = contacts is not None
        self.single_dof_rows = SingleDofRows(self.ctx, inputs.rows, mass.position_of_dof, mass.size)
        self.multi_dof_rows = MultiDofRows(self.ctx, self.single_dof_rows.other_rows)
        self.rows = self.multi_dof_rows.other_rows
        """Remaining rows, processed block by block."""
        self.hessian_diagonal = vectors.new("diagonal of single-dof rows")
        self.derivatives_current = False
        """Whether stored forces and Hessians of rows and contacts belong to the current residuals."""
        self.convergence_sums = self.ctx.allocate_fixed(3)
        """Squared norms |g|^2 and |M x|^2, and work x . M x, at the current iterate."""
        mass.fill_from(inputs.mass_matrix)

    def initialize(self) -> None:
        """Write x = 0, the residuals at the unconstrained accelerations and the work scale."""
        ctx, vectors, qacc_smooth = self.ctx, self.vectors, self.inputs.qacc_smooth
        for vector in (self.state.constraint_acceleration, self.state.mass_times_acceleration):
            vectors.set_zero(vector)
        initialize_row_residuals(self.rows, qacc_smooth)
        self.single_dof_rows.initialize(qacc_smooth)
        self.multi_dof_rows.initialize(qacc_smooth)
        if self.contacts is None:
            return

        def work(dof: Value) -> list[Value]:
            acceleration = vectors.read(qacc_smooth, dof)
            return [acceleration * acceleration / ctx.tracer.read(SCRATCH, self.max_inverse_pivots, dof)]

        ctx.tracer.write(
            SCRATCH, vectors.for_each_dof("work of unconstrained motion", work, 1), self.state.smooth_motion_work.row
        )
        velocity = vectors.new("velocities")
        ctx.for_each_frame("velocities", lambda node: velocity.put(node.ref, ctx.read_node("vel", node)))
        self.contacts.initialize_residuals(vectors.load(qacc_smooth), vectors.load(velocity))

    def prepare_direction(self, direction: JointVector) -> JointVector:
        """Write the residual derivatives J d of rows and contacts for a direction d; return M d."""
        return self.prepare_line_search(direction)[0]

    def prepare_line_search(self, direction: JointVector) -> tuple[JointVector, list[Value]]:
        """Prepare a direction d; return M d and the products d . M x, d . M d and d . (-g), with g the gradient.

        One parallel loop: each thread processes a dof (row of M), a multi-dof constraint row and a contact row.
        """
        self.rows.multiply_jacobian(direction, "residual derivative")
        mass_times_direction, loaded_direction = self.vectors.new("mass times direction"), self.vectors.load(direction)

        def process_dof(dof: Value) -> list[Value]:
            element, product = self.vectors.read(direction, dof), self.mass.row_times(dof, loaded_direction)
            self.vectors.write(mass_times_direction, dof, product)
            force, gradient = (
                self.vectors.read(x, dof) for x in (self.state.mass_times_acceleration, self.state.negative_gradient)
            )
            return [element * x for x in (force, product, gradient)]

        def process_row(row: Value) -> list[Value]:
            self.multi_dof_rows.set_residual_derivative(row, loaded_direction.values)
            return []

        def process_contact_row(row: ContactRow) -> list[Value]:
            assert self.contacts is not None
            row.write("residual_derivative", self.contacts.multiply_jacobian(row, loaded_direction))
            return []

        tasks = self._tasks(process_dof, process_row) + self._contact_row_tasks(process_contact_row)
        return mass_times_direction, self._run_tasks("line-search preparation", tasks, 3)

    def take_step(
        self, direction: JointVector, mass_times_direction: JointVector, *, count_changes: bool = False
    ) -> Value | None:
        """Advance x, M x and all residuals by the line-search step; store forces and Hessians at the new residuals.

        Returns the number of rows and contacts whose active set changes, or None if not counted. One parallel loop over
        dofs, multi-dof rows and contacts.
        """
        length = self.state.read(self.state.step_length)
        n_changes = (
            sum_over_rows(
                self.rows, "active-set changes of constraint rows", block_active_set_changes, self.state.step_length
            )[0]
            if count_changes
            else 0.0
        )
        self.rows.for_each_block(
            "advance constraint residuals", advance_row_residuals, {"length": self.state.step_length}
        )

        def process_dof(dof: Value) -> list[Value]:
            element = self.vectors.read(direction, dof)
            rows = self.single_dof_rows.rows_of_dof(dof, element) if count_changes else ()
            n_changes = [sum_values([row.active_set_change(length) for row in rows])] if count_changes else []
            self.single_dof_rows.advance_residuals(dof, element, length)
            for vector, change in (
                (self.state.mass_times_acceleration, self.vectors.read(mass_times_direction, dof)),
                (self.state.constraint_acceleration, element),
            ):
                self.vectors.write(vector, dof, self.vectors.read(vector, dof) + length * change)
            return n_changes

        def process_row(row: Value) -> list[Value]:
            n_changes = [self.multi_dof_rows.row(row).active_set_change(length)] if count_changes else []
            self.multi_dof_rows.advance_residual(row, length)
            return n_changes

        def process_contact(record: Contact) -> list[Value]:
            new_residual = record.residual_at(length)
            n_changes = [COST.active_set_changes(record, record.residual, new_residual)] if count_changes else []
            record.write("residual", new_residual)
            WarpContacts.store_derivatives(record, new_residual)
            return n_changes

        tasks = self._tasks(process_dof, process_row, process_contact)
        sums = self._run_tasks("take step", tasks, int(count_changes))
        self.derivatives_current = True
        return n_changes + sums[0] if count_changes else None

    def constraint_forces(self) -> JointVector:
        """Return the joint forces of rows and contacts, as negative gradient plus M x."""
        total = self.vectors.new("constraint joint forces")
        self.vectors.set_sum(total, self.state.negative_gradient, self.state.mass_times_acceleration, 1.0)
        return total

    def update_gradient(self) -> None:
        """Write the negative gradient J^T f - M x, and the convergence sums |g|^2, |M x|^2 and x . M x."""
        force = self._joint_force_function("constraint joint forces")

        def process_dof(dof: Value) -> list[Value]:
            mass_times_acceleration = self.vectors.read(self.state.mass_times_acceleration, dof)
            negative_gradient = force(dof) - mass_times_acceleration
            self.vectors.write(self.state.negative_gradient, dof, negative_gradient)
            return [
                negative_gradient * negative_gradient,
                mass_times_acceleration * mass_times_acceleration,
                self.vectors.read(self.state.constraint_acceleration, dof) * mass_times_acceleration,
            ]

        sums = self.vectors.for_each_dof("negative gradient", process_dof, 3)
        self.ctx.tracer.write(SCRATCH, sums, self.convergence_sums.row)
        self.ctx.tracer.new_basic_block()  # so that later code reads the new value

    def convergence_norms(self, *, include_work: bool) -> list[Value]:
        """Return |g|^2 of the gradient and |M x|^2 of the constraint forces, and optionally the work x . M x."""
        return [self.state.read(self.convergence_sums, i) for i in range(3 if include_work else 2)]

    def _joint_force_function(self, name: str) -> Callable[[Value], Value]:
        """Return a function that computes the joint force of all rows and contacts on one dof.

        Row and contact forces are computed first, unless the stored ones are current. The function also writes the
        dof's diagonal Hessian entry of single-dof rows.
        """
        contacts, row_forces = self.contacts, []
        if not self.derivatives_current and (contacts is not None or self.multi_dof_rows.n_rows):
            self._run_tasks(
                f"{name}, per row and contact",
                self._tasks(None, self._store_row_force, self._store_contact_derivatives),
                0,
            )
        if self.rows.blocks:
            self.rows.for_each_block(f"row forces, {name}", write_row_forces)
            row_forces.append(self.rows.joint_forces(f"{name}, of constraint rows"))

        def force(dof: Value) -> Value:
            single_dof_force, stiffness = self.single_dof_rows.joint_force_and_stiffness(dof)
            self.vectors.write(self.hessian_diagonal, dof, stiffness)
            other_forces = [] if contacts is None else [contacts.joint_force(dof)]
            other_forces += [self.multi_dof_rows.joint_force(dof)] if self.multi_dof_rows.n_rows else []
            return sum_values(
                [single_dof_force, *other_forces, *(self.vectors.read(forces, dof) for forces in row_forces)]
            )

        return force

    def _store_row_force(self, row: Value) -> list[Value]:
        self.multi_dof_rows.store_force(row)
        return []

    def _store_contact_derivatives(self, record: Contact) -> list[Value]:
        WarpContacts.store_derivatives(record, record.residual)
        return []

    def constraint_cost_at(self, step_length: float, direction: JointVector) -> Value:
        """Return the cost of all constraint rows and contacts at a step length along the prepared direction."""
        self.state.set_step_length(step_length)
        row_cost = self._sum_over_rows(f"costs at {step_length:g}", block_cost)[0]
        tasks = self._tasks(
            lambda dof: [sum_values([row.cost(step_length) for row in self._rows_of_dof(dof, direction)])],
            lambda row: [self.multi_dof_rows.row(row).cost(step_length)],
            lambda record: [COST.cost(record, record.residual_at(step_length))],
        )
        (task_cost,) = self._run_tasks(f"all costs at {step_length:g}", tasks, 1)
        return row_cost + task_cost

    def line_derivatives(self, direction: JointVector) -> tuple[Value, Value]:
        """Return first and second derivative of all costs along the direction at the current step length."""
        length = self.state.read(self.state.step_length)
        row_sums = sum_over_rows(
            self.rows, "line derivatives of constraint rows", block_line_derivatives, self.state.step_length
        )
        tasks = self._tasks(
            lambda dof: sum_line_derivatives(self._rows_of_dof(dof, direction), length),
            lambda row: self.multi_dof_rows.row(row).line_derivatives(length),
            lambda record: COST.line_derivatives(record, record.residual_at(length), record.residual_derivative),
        )
        task_sums = self._run_tasks("line derivatives", tasks, 2)
        return row_sums[0] + task_sums[0], row_sums[1] + task_sums[1]

    def _rows_of_dof(self, dof: Value, direction: JointVector) -> list[BoundedRow]:
        return self.single_dof_rows.rows_of_dof(dof, self.vectors.read(direction, dof))

    def _sum_over_rows(self, name: str, body: Callable[[IterationContext], Sequence[Value]]) -> list[Value]:
        return sum_over_rows(self.rows, name, body, self.state.step_length)

    def _tasks(
        self,
        dof_task: IndexFunction | None,
        row_task: IndexFunction,
        contact_task: ContactFunction | None = None,
    ) -> list[ParallelTask]:
        """Return the parallel tasks over all dofs, all multi-dof rows and all contacts; absent ones are left out.

        Args:
            dof_task: function of a dof; None for no task over dofs.
            row_task: function of a multi-dof row.
            contact_task: function of a contact record; None for no task over contacts.
        """
        tasks = list[ParallelTask]()
        if dof_task is not None:
            tasks.append(("dofs", float(self.vectors.size), dof_task))
        if self.multi_dof_rows.n_rows:
            tasks.append(("multi-dof rows", float(self.multi_dof_rows.n_rows), row_task))
        for group in self.contacts.groups if self.contacts is not None and contact_task is not None else ():
            assert self.contacts is not None
            assert contact_task is not None

            def run(index: Value, group: ContactGroup = group, task: ContactFunction = contact_task) -> Sequence[Value]:
                return task(contact_record(self.ctx, group, index))

            tasks.append(("contacts", self.contacts.count(group), run))
        return tasks

    def _contact_row_tasks(self, row_task: Callable[[ContactRow], Sequence[Value]]) -> list[ParallelTask]:
        """Return the parallel tasks over all contact rows, one per contact group."""
        tasks = list[ParallelTask]()
        for group in () if self.contacts is None else self.contacts.groups:
            assert self.contacts is not None

            def run(index: Value, group: ContactGroup = group) -> Sequence[Value]:
                return row_task(ContactRow(self.ctx, group, index))

            tasks.append(("contact rows", self.contacts.n_rows(group), run))
        return tasks

    def _run_tasks(self, name: str, tasks: Sequence[ParallelTask], n_sums: int) -> list[Value]:
        """Run several tasks in one parallel loop and return the sums of the values that their functions return.

        A thread processes the element of its index in each task; all sums are reduced across the warp once.
        """
        tracer = self.ctx.tracer
        if len(tasks) == 1:
            return tracer.parallel_loop(name, tasks[0][1], tasks[0][2], n_sums)
        sums = tracer.allocate_local(max(n_sums, 1))

        def run_item(index: Value) -> list[Value]:
            tracer.write(sums, [0.0] * n_sums)

            def add(values: Sequence[Value]) -> None:
                if values:
                    tracer.write(sums, [tracer.read(sums, i) + x for i, x in enumerate(values)])

            for label, count, body in tasks:
                if_less(tracer, label, index, count, lambda body=body: add(body(index)))
            return [tracer.read(sums, i) for i in range(n_sums)]

        return tracer.parallel_loop(name, reduce(ir.maximum, [count for _, count, _ in tasks]), run_item, n_sums)


# ---------------------------------------------------------------------------------------------- dense Newton direction


@dataclass(frozen=True, eq=False)
class DenseDirection(SearchDirection):
    """Newton direction with a dense Hessian, factorised by a warp."""

    objective: WarpObjective
    arrowhead: BlockArrowhead | None
    """Block-arrowhead structure of the Hessian; None for a dense factorisation."""

    def compute(self) -> JointVector:
        """Return the Newton direction H^-1 (-g), by a cooperative dense or block-arrowhead LDL solve.

        H is the mass matrix plus the diagonal of single-dof rows plus the terms J^T D J of multi-dof rows and contacts,
        which the solve adds itself.
        """
        objective, ctx = self.objective, self.objective.ctx
        matrix = mass = objective.mass
        if objective.rows.blocks:
            matrix = mass.copy()
            objective.rows.add_hessian(matrix)
        direction, arrowhead = objective.vectors.new("direction"), self.arrowhead
        workspace_size = max(
            2 * round_up_to_4(matrix.size), 0 if arrowhead is None else arrowhead.workspace_size(WARP_SIZE)
        )
        solve = LdlSolve(
            matrix.size,
            MemoryLocation(SCRATCH, matrix.start),
            matrix.row_stride,
            MemoryLocation(SCRATCH, ctx.start_offset(objective.hessian_diagonal)),
            MemoryLocation(SCRATCH, objective.max_inverse_pivots),
            MemoryLocation(SCRATCH, ctx.start_offset(objective.state.negative_gradient)),
            MemoryLocation(SCRATCH, ctx.start_offset(direction)),
            MemoryLocation(SCRATCH, ctx.allocate(workspace_size).row),
            (
                *objective.multi_dof_rows.hessian_terms(),
                *(() if objective.contacts is None else objective.contacts.hessian_terms()),
            ),
            lower_only=matrix is not mass,
            arrowhead=arrowhead,
            workspace_size=workspace_size,
        )
        ctx.tracer.add_statement(IntrinsicCall("direction", solve), {})
        return direction


def dense_warp_solver(ctx: TraceContext, inputs: SolverInputs, contact_lists: ContactLists | None) -> NewtonSolver:
    """Make a Newton solver with a dense Hessian, in code that a warp executes cooperatively (warp region).

    `contact_lists` is None without contacts.
    """
    vectors = WarpVectors(ctx)
    state, subspaces = SolverState(ctx, vectors.new), inputs.motion_subspaces
    contacts = None if contact_lists is None or subspaces is None else WarpContacts(ctx, contact_lists, subspaces)
    max_inverse_pivots = inputs.mass_factors.inverse_pivots[next(iter(inputs.mass_matrix.sparsity))].row
    objective = WarpObjective(
        inputs, state, vectors, BlockDiagonalMatrix.allocate_dense(ctx), max_inverse_pivots, contacts
    )
    partition = find_arrowhead_partition(ctx, [block.dofs for block in inputs.rows.blocks])
    arrowhead = None if partition is None else with_contact_coupling(partition, ctx, contact_lists, contacts)
    return NewtonSolver(objective, DenseDirection(objective, arrowhead))
