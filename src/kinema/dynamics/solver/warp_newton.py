"""Newton's method by a warp with a dense Hessian: threads share dofs, constraint rows, contacts and matrix rows.

The algorithm is that of `NewtonSolver`. The Hessian is dense, as contacts may couple any two dofs, and each thread
keeps one or two of its rows in registers during the factorisation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

from kinema import ir
from kinema.codegen import LdlSolve
from kinema.ir import SCRATCH, ArenaOffset, IntrinsicCall, Slot, TableRow, Value, round_up_to_4

from ..collision.contact_lists import ContactLists
from ..collision.vector_math import if_less
from ..constraints.contacts import MotionSubspace
from ..constraints.warp_contact_records import ContactGroup, ContactRecord, ContactRecordLayout, ContactRow
from ..constraints.warp_contacts import LoadedVector, WarpContacts
from ..constraints.warp_rows import MultiDofRows, SingleDofRows
from ..tree.node_values import NodeValues
from ..tree.trace_context import TraceContext
from ..vector_math import dot, sum_values
from .block_arrowhead import WARP_SIZE, find_arrowhead_partition, with_contact_coupling
from .newton import NewtonSolver
from .objective import (
    JointVector,
    advance_row_residuals,
    block_active_set_changes,
    block_cost,
    block_line_derivatives,
    write_row_forces,
)


class DenseMatrix:
    """Dense symmetric matrix over all dofs, stored by rows in scratch memory."""

    def __init__(self, ctx: TraceContext) -> None:
        self.ctx = ctx
        dofs = [dof for node in ctx.nodes for dof in node.dofs]
        self.position_of_dof = {dof: i for i, dof in enumerate(dofs)}
        self.size = len(dofs)
        self.row_stride = self.size | 1
        """Odd, so that threads that read a column access different banks of shared memory."""
        self.start = ctx.allocate(self.size * self.row_stride).row

    def entry(self, i: int, j: int) -> ArenaOffset:
        """Return the scratch offset of the entry in row i and column j."""
        return ArenaOffset(SCRATCH, self.start + i * self.row_stride + j)

    def symmetric_entry(self, a: int, b: int) -> ArenaOffset:
        """Return the scratch offset of the lower-triangular entry of two dofs."""
        i, j = sorted((self.position_of_dof[a], self.position_of_dof[b]), reverse=True)
        return self.entry(i, j)

    def row(self, index: Value) -> list[Value]:
        """Return all entries of a row, for a run-time row index."""
        read, offset = self.ctx.tracer.read, index * float(self.row_stride)
        return [read(SCRATCH, self.start + j, offset) for j in range(self.size)]

    def copy(self) -> DenseMatrix:
        """Return a copy of the matrix in new memory; threads share the elements."""
        tracer, target = self.ctx.tracer, DenseMatrix(self.ctx)

        def copy_element(index: Value) -> list[Value]:
            tracer.write(SCRATCH, [tracer.read(SCRATCH, self.start, index)], target.start, index)
            return []

        tracer.parallel_loop("copy dense matrix", float(target.size * target.row_stride), copy_element)
        return target


# -------------------------------------------------------------------------------------------------------- Newton solver

IndexFunction = Callable[[Value], Sequence[Value]]
"""Function of a run-time index that returns values to be summed."""
ContactFunction = Callable[[ContactRecord], Sequence[Value]]
"""Function of a contact record that returns values to be summed."""
ParallelTask = tuple[str, Value, IndexFunction]
"""Label, number of items, and function of the item index that returns values to be summed."""


class WarpNewtonSolver(NewtonSolver):
    """Newton solver by a warp with a dense Hessian."""

    def set_contacts(
        self, contact_lists: ContactLists | None, motion_subspaces: NodeValues[MotionSubspace] | None
    ) -> None:
        """Prepare the solve: contact records, dense mass matrix, constraint rows and block-arrowhead structure.

        Must be called before `solve`, inside a warp region.

        Args:
            contact_lists: detected contacts; None without contacts.
            motion_subspaces: motion subspaces of the joints; None without contacts.
        """
        ctx = self.ctx
        self.warp_contacts = (
            None
            if contact_lists is None or motion_subspaces is None
            else WarpContacts(ctx, contact_lists, motion_subspaces)
        )
        self.contacts = self.warp_contacts  # type: ignore[assignment]
        self.dense_mass = DenseMatrix(ctx)
        self.max_inverse_pivots = self.mass_factors.inverse_pivots[next(iter(self.mass_matrix.sparsity))].row
        """Scratch row of the inverse pivots of M, contiguous; upper bounds of the inverse pivots of the Hessian."""
        self.single_dof_rows = SingleDofRows(ctx, self.rows, self.dense_mass.position_of_dof, self.dense_mass.size)
        self.multi_dof_rows = MultiDofRows(ctx, self.single_dof_rows.other_rows)
        self.all_rows, self.rows = self.rows, self.multi_dof_rows.other_rows
        self.hessian_diagonal = self._new_vector("diagonal of single-dof rows")
        self.derivatives_current = False
        """Whether stored forces and Hessians of rows and contacts belong to the current residuals."""
        self.convergence_sums = ctx.allocate_fixed(3)
        """Squared norms |g|^2 and |M x|^2, and work x . M x, at the current iterate."""
        self._fill_dense_mass()
        partition = find_arrowhead_partition(ctx, [block.dofs for block in self.all_rows.blocks])
        self.arrowhead = (
            None if partition is None else with_contact_coupling(partition, ctx, contact_lists, self.warp_contacts)
        )

    def _initialize_rows(self) -> None:
        """Write the residuals of all constraint rows at the unconstrained accelerations."""
        super()._initialize_rows()
        self.single_dof_rows.initialize(self.all_rows, self.qacc_smooth)
        self.multi_dof_rows.initialize(self.qacc_smooth)

    def _initialize_contacts(self) -> None:
        """Write the contact residuals and the work scale at the unconstrained accelerations."""
        if self.warp_contacts is None:
            return
        self.ctx.tracer.write(
            SCRATCH, self._for_each_dof("work of unconstrained motion", self._dof_work, 1), self.smooth_motion_work.row
        )
        ctx, velocity = self.ctx, self._new_vector("velocities")
        ctx.for_each_frame("velocities", lambda node: velocity.put(node.ref, ctx.read_node("vel", node)))
        self.warp_contacts.initialize_residuals(velocity, self.qacc_smooth)

    def _dof_work(self, dof: Value) -> list[Value]:
        """Return the work scale qacc_smooth^2 / inverse_pivot of one dof."""
        acceleration = self._read_entry(self.qacc_smooth, dof)
        return [acceleration * acceleration / self.ctx.tracer.read(SCRATCH, self.max_inverse_pivots, dof)]

    def _fill_dense_mass(self) -> None:
        """Expand the tree-sparse mass matrix to the dense symmetric matrix."""
        dense, rows, entries = self.dense_mass, [], {}
        for dof, path in self.mass_matrix.sparsity.items():
            for ancestor in path:
                i, j = dense.position_of_dof[dof], dense.position_of_dof[ancestor]
                entries[i, j] = entries[j, i] = self.mass_matrix.entry(dof, ancestor)
        for i in range(dense.size):
            for j in range(dense.size):
                offsets = {"to": dense.entry(i, j)}
                if (i, j) in entries:
                    offsets["from"] = entries[i, j]
                rows.append(TableRow("entry" if (i, j) in entries else "zero", offsets))
        self.ctx.table_loop(
            "dense mass matrix",
            rows,
            lambda code: code.write("to", [code.read("from") if code.variant == "entry" else 0.0]),
        )

    def _prepare_direction(self, direction: JointVector) -> JointVector:
        """Write the residual derivatives J d of rows and contacts for a direction d; return M d."""
        return self._prepare_line_search(direction)[0]

    def _prepare_line_search(self, direction: JointVector) -> tuple[JointVector, list[Value]]:
        """Compute M d, residual derivatives J d of rows and contacts, and products d . M x, d . M d and d . (-g).

        d is the search direction, M the mass matrix, x the current change of the accelerations and g the gradient of
        the cost. One parallel loop: each thread processes a dof (row of M), a multi-dof constraint row and a contact
        row. Returns M d and the three products.
        """
        self.rows.multiply_jacobian(direction, "change")
        mass_times_direction, loaded_direction = self._new_vector("mass times direction"), self._load_vector(direction)

        def process_dof(dof: Value) -> list[Value]:
            element, product = self._read_entry(direction, dof), self._mass_row_times(dof, loaded_direction)
            self._write_entry(mass_times_direction, dof, product)
            return [
                element * x
                for x in (
                    self._read_entry(self.mass_times_change, dof),
                    product,
                    self._read_entry(self.negative_gradient, dof),
                )
            ]

        def process_row(row: Value) -> list[Value]:
            self.multi_dof_rows.set_residual_derivative(row, loaded_direction.values)
            return []

        def process_contact_row(row: ContactRow) -> list[Value]:
            assert self.warp_contacts is not None
            row.write(row.group.layout.residual_derivative, self.warp_contacts.multiply_jacobian(row, loaded_direction))
            return []

        tasks = self._tasks(process_dof, process_row) + self._contact_row_tasks(process_contact_row)
        return mass_times_direction, self._run_tasks("line-search preparation", tasks, 3)

    def _take_step_and_compare(
        self, direction: JointVector, mass_times_direction: JointVector, *, count_changes: bool
    ) -> Value | None:
        """Advance x, M x and all residuals by the step, and store forces and Hessians at the new residuals.

        x is the change of the accelerations and M the mass matrix. Returns the number of rows and contacts whose active
        set changes, or None if not counted. One parallel loop over dofs, multi-dof rows and contacts.
        """
        length = self.ctx.tracer.read(SCRATCH, self.step_length.row)
        n_changes = (
            self._sum_over_rows("active-set changes of constraint rows", block_active_set_changes)[0]
            if count_changes
            else 0.0
        )
        self.rows.for_each_block(
            "advance constraint residuals", advance_row_residuals, {"length": self.row_step_lengths}
        )

        def process_dof(dof: Value) -> list[Value]:
            element = self._read_entry(direction, dof)
            n_changes = [self.single_dof_rows.active_set_changes(dof, element, length)] if count_changes else []
            self.single_dof_rows.advance_residuals(dof, element, length)
            for vector, change in (
                (self.mass_times_change, self._read_entry(mass_times_direction, dof)),
                (self.acceleration_change, element),
            ):
                self._write_entry(vector, dof, self._read_entry(vector, dof) + length * change)
            return n_changes

        def process_row(row: Value) -> list[Value]:
            n_changes = [self.multi_dof_rows.active_set_changes(row, length)] if count_changes else []
            self.multi_dof_rows.advance_residual(row, length)
            return n_changes

        def process_contact(record: ContactRecord) -> list[Value]:
            new_residual = record.residual_at(length)
            n_changes = [record.active_set_changes(new_residual)] if count_changes else []
            record.write(ContactRecordLayout.RESIDUAL, new_residual)
            WarpContacts.store_derivatives(record, new_residual)
            return n_changes

        tasks = self._tasks(process_dof, process_row, process_contact)
        sums = self._run_tasks("take step", tasks, int(count_changes))
        self.derivatives_current = True
        return n_changes + sums[0] if count_changes else None

    def _search_direction(self) -> JointVector:
        """Return the Newton direction H^-1 (-g), by a cooperative dense or block-arrowhead LDL solve.

        H is the mass matrix plus the diagonal of single-dof rows plus the terms J^T D J of multi-dof rows and contacts,
        which the solve adds itself.
        """
        ctx, matrix = self.ctx, self.dense_mass
        if self.rows.blocks:
            matrix = self.dense_mass.copy()
            self.rows.add_hessian(matrix)
        direction, arrowhead = self._new_vector("direction"), self.arrowhead
        workspace_size = max(
            2 * round_up_to_4(matrix.size), 0 if arrowhead is None else arrowhead.workspace_size(WARP_SIZE)
        )
        solve = LdlSolve(
            matrix.size,
            Slot(SCRATCH, matrix.start),
            matrix.row_stride,
            Slot(SCRATCH, ctx.start_row(self.hessian_diagonal)),
            Slot(SCRATCH, self.max_inverse_pivots),
            Slot(SCRATCH, ctx.start_row(self.negative_gradient)),
            Slot(SCRATCH, ctx.start_row(direction)),
            Slot(SCRATCH, ctx.allocate(workspace_size).row),
            (
                *self.multi_dof_rows.hessian_terms(),
                *(() if self.warp_contacts is None else self.warp_contacts.hessian_terms()),
            ),
            lower_only=matrix is not self.dense_mass,
            arrowhead=arrowhead,
            workspace_size=workspace_size,
        )
        ctx.tracer.add_statement(IntrinsicCall("direction", solve), {})
        return direction

    def _constraint_forces(self) -> JointVector:
        """Return the joint forces of rows and contacts, as negative gradient plus M x."""
        total = self._new_vector("constraint joint forces")
        self._set_sum(total, self.negative_gradient, self.mass_times_change, 1.0)
        return total

    def _update_gradient(self) -> None:
        """Write the negative gradient J^T f - M x, and the convergence sums |g|^2, |M x|^2 and x . M x.

        x is the change of the accelerations, M the mass matrix and f the forces of rows and contacts; one thread per
        dof.
        """
        force = self._joint_force_function("constraint joint forces")

        def process_dof(dof: Value) -> list[Value]:
            mass_times_change = self._read_entry(self.mass_times_change, dof)
            negative_gradient = force(dof) - mass_times_change
            self._write_entry(self.negative_gradient, dof, negative_gradient)
            return [
                negative_gradient * negative_gradient,
                mass_times_change * mass_times_change,
                self._read_entry(self.acceleration_change, dof) * mass_times_change,
            ]

        sums = self._for_each_dof("negative gradient", process_dof, 3)
        self.ctx.tracer.write(SCRATCH, sums, self.convergence_sums.row)
        self.ctx.tracer.new_basic_block()  # so that later code reads the new value

    def _convergence_norms(self, *, include_work: bool) -> list[Value]:
        return [self.ctx.tracer.read(SCRATCH, self.convergence_sums.row + i) for i in range(3 if include_work else 2)]

    def _joint_force_function(self, name: str) -> Callable[[Value], Value]:
        """Return a function that computes the joint force of all rows and contacts on one dof.

        Row and contact forces are computed first, unless the stored ones are current. The function also writes the
        dof's diagonal Hessian entry of single-dof rows.
        """
        contacts, row_forces = self.warp_contacts, []
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
            self._write_entry(self.hessian_diagonal, dof, stiffness)
            other_forces = [] if contacts is None else [contacts.joint_force(dof)]
            other_forces += [self.multi_dof_rows.joint_force(dof)] if self.multi_dof_rows.n_rows else []
            return sum_values(
                [single_dof_force, *other_forces, *(self._read_entry(forces, dof) for forces in row_forces)]
            )

        return force

    def _store_row_force(self, row: Value) -> list[Value]:
        self.multi_dof_rows.store_force(row)
        return []

    def _store_contact_derivatives(self, record: ContactRecord) -> list[Value]:
        WarpContacts.store_derivatives(record, record.residual)
        return []

    def _take_step(self, direction: JointVector, mass_times_direction: JointVector) -> None:
        self._take_step_and_compare(direction, mass_times_direction, count_changes=False)

    # ------------------------------------------------------------------------------------------------------ line search

    def constraint_cost_at(self, step_length: float, direction: JointVector | None = None) -> Value:  # ty: ignore[lost-keyword-for-regular-parameter]
        """Cost of all constraint rows and contacts at a step length along `direction`, which is required here.

        Stores the step length in scratch memory.
        """
        assert direction is not None
        self._set_step_length(step_length)
        row_cost = self._sum_over_rows(f"costs at {step_length:g}", block_cost)[0]
        tasks = self._tasks(
            lambda dof: [self.single_dof_rows.costs(dof, self._read_entry(direction, dof), step_length)],
            lambda row: [self.multi_dof_rows.cost(row, step_length)],
            lambda record: [record.cost(step_length)],
        )
        (task_cost,) = self._run_tasks(f"all costs at {step_length:g}", tasks, 1)
        return row_cost + task_cost

    def _line_derivatives(self, direction: JointVector) -> tuple[Value, Value]:  # ty: ignore[lost-keyword-for-regular-parameter]
        """Return first and second derivative of all row and contact costs along the direction at the step length."""
        length = self.ctx.tracer.read(SCRATCH, self.step_length.row)
        row_sums = self._sum_over_rows("line derivatives of constraint rows", block_line_derivatives)
        tasks = self._tasks(
            lambda dof: self.single_dof_rows.line_derivatives(dof, self._read_entry(direction, dof), length),
            lambda row: self.multi_dof_rows.line_derivatives(row, length),
            lambda record: record.line_derivatives(length),
        )
        task_sums = self._run_tasks("line derivatives", tasks, 2)
        return row_sums[0] + task_sums[0], row_sums[1] + task_sums[1]

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
            tasks.append(("dofs", float(self._vector_size), dof_task))
        if self.multi_dof_rows.n_rows:
            tasks.append(("multi-dof rows", float(self.multi_dof_rows.n_rows), row_task))
        for group in self.warp_contacts.groups if self.warp_contacts is not None and contact_task is not None else ():
            assert self.warp_contacts is not None
            assert contact_task is not None

            def run(index: Value, group: ContactGroup = group, task: ContactFunction = contact_task) -> Sequence[Value]:
                return task(ContactRecord(self.ctx, group, index))

            tasks.append(("contacts", self.warp_contacts.count(group), run))
        return tasks

    def _contact_row_tasks(self, row_task: Callable[[ContactRow], Sequence[Value]]) -> list[ParallelTask]:
        """Return the parallel tasks over all contact rows, one per contact group."""
        tasks = list[ParallelTask]()
        for group in () if self.warp_contacts is None else self.warp_contacts.groups:
            assert self.warp_contacts is not None

            def run(index: Value, group: ContactGroup = group) -> Sequence[Value]:
                return row_task(ContactRow(self.ctx, group, index))

            tasks.append(("contact rows", self.warp_contacts.n_rows(group), run))
        return tasks

    def _run_tasks(self, name: str, tasks: Sequence[ParallelTask], n_sums: int) -> list[Value]:
        """Run several tasks in one parallel loop and return the sums of the values that their functions return.

        A thread processes the item of its index in each task; all sums are reduced across the warp once.
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

    # ---------------------------------------------------------------------------------------------------------- vectors

    @property
    def _vector_size(self) -> int:
        """Number of elements of joint-space vectors."""
        return sum(len(node.dofs) for node in self.ctx.nodes)

    def _load_vector(self, vector: JointVector) -> LoadedVector:
        """Load all elements of a joint-space vector into registers."""
        start = self.ctx.start_row(vector)
        return LoadedVector(start, [self.ctx.tracer.read(SCRATCH, start + i) for i in range(self._vector_size)])

    def _new_vector(self, name: str) -> JointVector:
        return self.ctx.joint_vector(name)

    def _for_each_dof(self, name: str, body: Callable[[Value], Sequence[Value]], n_sums: int = 0) -> list[Value]:
        return self.ctx.tracer.parallel_loop(name, float(self._vector_size), body, n_sums)

    def _read_entry(self, vector: JointVector, dof: Value) -> Value:
        return self.ctx.tracer.read(SCRATCH, self.ctx.start_row(vector), dof)

    def _write_entry(self, vector: JointVector, dof: Value, value: Value) -> list[Value]:
        self.ctx.tracer.write(SCRATCH, [value], self.ctx.start_row(vector), dof)
        return []

    def _set_zero(self, vector: JointVector) -> None:
        self._for_each_dof("clear vector", lambda dof: self._write_entry(vector, dof, 0.0))

    def _set_sum(self, target: JointVector, a: JointVector, b: JointVector, sign: float) -> None:
        self._for_each_dof(
            target.name,
            lambda dof: self._write_entry(target, dof, self._read_entry(a, dof) + sign * self._read_entry(b, dof)),
        )

    def _dot_products(self, name: str, pairs: Sequence[tuple[JointVector, JointVector]]) -> list[Value]:
        return self._for_each_dof(
            name, lambda dof: [self._read_entry(a, dof) * self._read_entry(b, dof) for a, b in pairs], len(pairs)
        )

    def _mass_row_times(self, dof: Value, vector: LoadedVector) -> Value:
        """Return one row of the mass matrix times a vector."""
        return dot(self.dense_mass.row(dof), vector.values)
