"""Constraint rows of the warp solver: rows that act on a single dof, and rows with a dense Jacobian over all dofs.

Rows are stored twice because the threads of a warp process other units than one thread of a CPU does: the rows of a dof
belong to the thread of the dof and add to its force and to the Hessian diagonal without a reduction; other rows have a
thread and a record each, in shared memory. A thread does not know the type of its row while the program is traced, so
that the force law of `rows.py` is -D r clamped to [min_force, max_force]: limits [0, inf), equalities unbounded, dry
friction [-bound, bound].
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kinema import ir
from kinema.codegen import HessianTerm
from kinema.ir import SCRATCH, ArenaOffset, IterationContext, LoopIteration, MemoryLocation, Value, round_up_to_4

from ..tree.node_values import NodeValues
from ..tree.trace_context import TraceContext
from ..vector_math import dot, sum_values
from .rows import ConstraintBlock, ConstraintRows, ForceAndStiffness, RowType, active_set_change, row_cost

UNBOUNDED = 1e30
"""Force bound that stands for infinity."""
ROW_FIELDS = ("residual", "stiffness", "low", "high", "entry")
"""Fields of a single-dof row: residual, stiffness D, lower and upper bound of the force, Jacobian entry."""


def force_bounds(row_type: RowType, friction_bound: Value) -> tuple[Value, Value]:
    """Return the minimum and maximum force of a row type; `friction_bound` applies to friction rows."""
    bounds: dict[RowType, tuple[Value, Value]] = {
        RowType.LIMIT: (0.0, UNBOUNDED),
        RowType.EQUALITY: (-UNBOUNDED, UNBOUNDED),
        RowType.FRICTION: (-friction_bound, friction_bound),
    }
    return bounds[row_type]


@dataclass(frozen=True, slots=True)
class BoundedRow:
    """One constraint row with force -D r clamped to bounds."""

    residual: Value
    """r = J a - aref at the current iterate."""
    stiffness: Value
    """D, inverse of the regularised constraint inertia."""
    min_force: Value
    max_force: Value
    residual_derivative: Value
    """J d along the search direction d."""

    def residual_at(self, step_length: Value) -> Value:
        """Return the residual at a step length along the search direction."""
        return self.residual + step_length * self.residual_derivative

    def force_and_stiffness(self, residual: Value) -> ForceAndStiffness:
        """Return the force at a residual, and the active stiffness: D within the force bounds, else 0."""
        unbounded = -(self.stiffness * residual)
        active_stiffness = ir.select(
            self.min_force, unbounded, ir.select(unbounded, self.max_force, self.stiffness, 0.0), 0.0
        )
        return ir.clamp(unbounded, self.min_force, self.max_force), active_stiffness

    def cost(self, step_length: Value) -> Value:
        """Return the cost at a step length."""
        residual = self.residual_at(step_length)
        return row_cost(residual, self.stiffness, self.force_and_stiffness(residual)[0])

    def line_derivatives(self, step_length: Value) -> tuple[Value, Value]:
        """Return first and second derivative of the cost along the search direction at a step length."""
        derivative = self.residual_derivative
        force, stiffness = self.force_and_stiffness(self.residual_at(step_length))
        return -(force * derivative), stiffness * (derivative * derivative)

    def active_set_change(self, step_length: Value) -> Value:
        """Return 1 if the row becomes active or inactive, or changes its friction bound, within the step, else 0."""
        before, after = (self.force_and_stiffness(self.residual_at(x)) for x in (0.0, step_length))
        return active_set_change(before, after)


def sum_line_derivatives(rows: Sequence[BoundedRow], step_length: Value) -> tuple[Value, Value]:
    """Return the sums of the first and second derivatives of the costs of rows along the search direction."""
    derivatives = [row.line_derivatives(step_length) for row in rows]
    return sum_values([first for first, _ in derivatives]), sum_values([second for _, second in derivatives])


# -------------------------------------------------------------------------------------------------- rows of single dofs


class SingleDofRows:
    """Constraint rows that act on a single dof, in arrays over the dofs.

    Rigid and breakable rows and attachments are left out. Several rows of one dof (such as a limit and dry friction)
    are in different layers. Constraints that are not handled here are in `other_rows`.
    """

    def __init__(
        self, ctx: TraceContext, rows: ConstraintRows, position_of_dof: Mapping[int, int], vector_size: int
    ) -> None:
        self.ctx = ctx
        self.position_of_dof = position_of_dof
        """Dof index -> position in joint-space vectors."""
        self.vector_size = vector_size
        """Number of elements of joint-space vectors, including padding."""
        self.selected_rows, self.other_rows = rows.split(
            lambda b: (
                b.n_rows == 1 and len(b.dofs) == 1 and not b.is_rigid and b.equality_idx < 0 and b.attachment_idx < 0
            )
        )
        layers: dict[int, int] = {}
        self.layers: list[int] = []
        for block in self.selected_rows.blocks:
            self.layers.append(layers.get(block.dofs[0], 0))
            layers[block.dofs[0]] = self.layers[-1] + 1
        self.array_starts = [
            {name: ctx.allocate(vector_size).row for name in ROW_FIELDS} for _ in range(max(layers.values(), default=0))
        ]
        """Per layer: field name -> scratch offset of the array over all dofs."""

    def initialize(self, qacc_smooth: NodeValues[list[Value]]) -> None:
        """Write residual at the unconstrained accelerations, stiffness, force bounds and Jacobian entry of all rows.

        Layers without a row get zeros.
        """
        ctx, tracer, first = self.ctx, self.ctx.tracer, self.ctx.start_offset(qacc_smooth)

        def clear(dof: Value) -> list[Value]:
            for starts in self.array_starts:
                for row in starts.values():
                    tracer.write(SCRATCH, [0.0], row, dof)
            return []

        tracer.parallel_loop("clear single-dof rows", float(self.vector_size), clear)
        table = []
        selected = self.selected_rows
        for block, arrays, layer in zip(selected.blocks, selected.block_arrays, self.layers, strict=True):
            position = self.position_of_dof[block.dofs[0]]
            targets = {name: ArenaOffset(SCRATCH, row + position) for name, row in self.array_starts[layer].items()}
            inputs = {f"block {name}": arrays[name] for name in ("aref", "stiffness", "jacobian 0")}
            bound = selected.per_env_arrays(block).get("bound")
            inputs |= {} if bound is None else {"per-env bound": bound}
            table.append(
                LoopIteration(
                    (block.row_type, bound is not None),
                    {**targets, **inputs, "qacc_smooth": ArenaOffset(SCRATCH, first + position)},
                    {"bound": [block.friction_bound]},
                )
            )
        ctx.for_each("single-dof rows", table, _write_single_dof_row)

    def rows_of_dof(self, dof: Value, direction: Value) -> list[BoundedRow]:
        """Return the rows of one dof, one per layer, along a search direction given by its element of this dof."""
        read = self.ctx.tracer.read
        rows = []
        for starts in self.array_starts:
            fields = [read(SCRATCH, starts[name], dof) for name in ROW_FIELDS]
            rows.append(BoundedRow(*[*fields[:-1], fields[-1] * direction]))
        return rows

    def advance_residuals(self, dof: Value, direction: Value, step_length: Value) -> None:
        """Update the residuals of a dof's rows by a step along the search direction."""
        for row, starts in zip(self.rows_of_dof(dof, direction), self.array_starts, strict=True):
            self.ctx.tracer.write(SCRATCH, [row.residual_at(step_length)], starts["residual"], dof)

    def joint_force_and_stiffness(self, dof: Value) -> tuple[Value, Value]:
        """Return the joint force J^T f and the diagonal Hessian entry J^T D J of a dof's rows."""
        force: Value = 0.0
        stiffness: Value = 0.0
        for row in self.rows_of_dof(dof, 1.0):
            (row_force, row_stiffness), entry = row.force_and_stiffness(row.residual), row.residual_derivative
            force, stiffness = force + entry * row_force, stiffness + entry * entry * row_stiffness
        return force, stiffness


def _write_single_dof_row(iteration: IterationContext) -> None:
    """Write residual J a - aref, stiffness, force bounds and Jacobian entry of one single-dof row."""
    row_type, is_per_env = iteration.specialization  # type: ignore[misc]
    entry = iteration.read("block jacobian 0")
    bound = iteration.read("per-env bound") if is_per_env else iteration.constant("bound")
    residual_and_stiffness: Sequence[Value] = (
        entry * iteration.read("qacc_smooth") - iteration.read("block aref"),
        iteration.read("block stiffness"),
    )
    for name, value in zip(ROW_FIELDS, (*residual_and_stiffness, *force_bounds(row_type, bound), entry), strict=True):
        iteration.write(name, [value])


# ----------------------------------------------------------------------------------------------- rows over several dofs

JointVector = NodeValues[list[Value]]
RESIDUAL, STIFFNESS, MIN_FORCE, MAX_FORCE, RESIDUAL_DERIVATIVE, FORCE, N_ROWS, HEADER_SIZE = range(8)
"""Offsets in a row record: residual, stiffness, force bounds, derivative of the residual along the search direction,
force, number of rows (1), and size of the header. Hessian (1 value) and Jacobian follow."""
MAX_SHARED_VALUES = 2048
"""Maximum size of all row records, so that they fit into shared memory beside the other data."""


class MultiDofRows:
    """Constraint rows with a dense Jacobian over all dofs, one record per row; rigid and breakable rows are left out.

    No rows are handled if all records together exceed `MAX_SHARED_VALUES`. Constraints that are not handled here are
    in `other_rows`.
    """

    def __init__(self, ctx: TraceContext, rows: ConstraintRows) -> None:
        self.ctx = ctx
        self.position_of_dof = {dof: i for i, dof in enumerate(d for node in ctx.nodes for d in node.dofs)}
        self.n_dofs = len(self.position_of_dof)
        self.hessian = round_up_to_4(HEADER_SIZE)
        self.jacobian = self.hessian + round_up_to_4(1)
        size = self.jacobian + round_up_to_4(self.n_dofs)
        self.record_size = size if size % 8 else size + 4
        """Values per record: an odd multiple of four, so that neighbouring records start in different banks of shared
        memory."""

        def fits(block: ConstraintBlock) -> bool:
            return not block.is_rigid and block.equality_idx < 0

        count = sum(block.n_rows for block in rows.blocks if fits(block))
        has_memory = count * self.record_size <= MAX_SHARED_VALUES
        self.selected_rows, self.other_rows = rows.split(lambda block: has_memory and fits(block))
        self.n_rows = count = count if has_memory else 0
        self.records = ctx.allocate(count * self.record_size).row if count else -1

    def initialize(self, qacc_smooth: JointVector) -> None:
        """Write the records of all rows: stiffness, force bounds, Jacobian and residual J a - aref.

        The residual is taken at the unconstrained accelerations `qacc_smooth`.
        """
        tracer, table, record = self.ctx.tracer, [], self.records
        if not self.n_rows:
            return

        def clear(index: Value) -> list[Value]:
            tracer.write(SCRATCH, [0.0], self.records, index)
            return []

        tracer.parallel_loop("clear multi-dof rows", float(self.n_rows * self.record_size), clear)
        selected = self.selected_rows
        for block_index, (block, arrays) in enumerate(zip(selected.blocks, selected.block_arrays, strict=True)):
            bound = selected.per_env_arrays(block).get("bound")
            for r in range(block.n_rows):
                offsets = {name: ArenaOffset(SCRATCH, arrays[name].row + r) for name in ("aref", "stiffness")}
                offsets |= {} if bound is None else {"per-env bound": bound}
                offsets |= {"to": ArenaOffset(SCRATCH, record)}
                table.append(
                    LoopIteration((block.row_type, bound is not None), offsets, {"bound": [block.friction_bound]})
                )
                for dof in block.dofs:
                    to = ArenaOffset(SCRATCH, record + self.jacobian + self.position_of_dof[dof])
                    table.append(
                        LoopIteration("entry", {"from": selected.jacobian_entry(block_index, r, dof), "to": to})
                    )
                record += self.record_size
        self.ctx.for_each("multi-dof rows", table, _write_multi_dof_row)

        first = self.ctx.start_offset(qacc_smooth)
        acceleration = [tracer.read(SCRATCH, first + i) for i in range(self.n_dofs)]

        def add_acceleration(index: Value) -> list[Value]:
            self._write(index, RESIDUAL, self._read(index, RESIDUAL) + self._multiply_jacobian(index, acceleration))
            return []

        tracer.parallel_loop("residuals of multi-dof rows", float(self.n_rows), add_acceleration)

    def store_attachment_forces(self) -> None:
        """Trace loops that copy the forces of attachments from the row records to the arrays `force` of their rows."""
        table, record = [], self.records + FORCE
        for block, arrays in zip(self.selected_rows.blocks, self.selected_rows.block_arrays, strict=True):
            for r in range(block.n_rows):
                if block.attachment_idx >= 0:
                    to = ArenaOffset(SCRATCH, arrays["force"].row + r)
                    table.append(LoopIteration("force", {"from": ArenaOffset(SCRATCH, record), "to": to}))
                record += self.record_size
        self.ctx.for_each(
            "forces of attachments", table, lambda iteration: iteration.write("to", [iteration.read("from")])
        )

    # ------------------------------------------------------------------------------------------------------ single rows

    def _read(self, index: Value, element: int) -> Value:
        return self.ctx.tracer.read(SCRATCH, self.records + element, index * float(self.record_size))

    def _write(self, index: Value, element: int, value: Value) -> None:
        self.ctx.tracer.write(SCRATCH, [value], self.records + element, index * float(self.record_size))

    def _multiply_jacobian(self, index: Value, vector: Sequence[Value]) -> Value:
        """Return the product of a row's Jacobian with a joint-space vector."""
        return dot([self._read(index, self.jacobian + i) for i in range(self.n_dofs)], vector)

    def row(self, index: Value) -> BoundedRow:
        """Return one row along the prepared search direction."""
        return BoundedRow(
            *(
                self._read(index, element)
                for element in (RESIDUAL, STIFFNESS, MIN_FORCE, MAX_FORCE, RESIDUAL_DERIVATIVE)
            )
        )

    def set_residual_derivative(self, index: Value, direction: Sequence[Value]) -> None:
        """Write J d, the derivative of a row's residual along the search direction d."""
        self._write(index, RESIDUAL_DERIVATIVE, self._multiply_jacobian(index, direction))

    def advance_residual(self, index: Value, step_length: Value) -> None:
        """Update a row's residual by a step along the search direction, and its stored force and stiffness."""
        row = self.row(index)
        residual = row.residual_at(step_length)
        self._write(index, RESIDUAL, residual)
        self._store_force_at(index, row, residual)

    def store_force(self, index: Value) -> None:
        """Store force and active stiffness of a row at its current residual."""
        row = self.row(index)
        self._store_force_at(index, row, row.residual)

    def _store_force_at(self, index: Value, row: BoundedRow, residual: Value) -> None:
        """Store force and active stiffness of a row at the given residual."""
        force, stiffness = row.force_and_stiffness(residual)
        self._write(index, FORCE, force)
        self._write(index, self.hessian, stiffness)

    # ----------------------------------------------------------------------------------------- joint forces and Hessian

    def joint_force(self, dof: Value) -> Value:
        """Return the joint force J^T f of all rows on one dof, using the stored row forces."""
        tracer, total = self.ctx.tracer, self.ctx.tracer.allocate_local(1)
        tracer.write(total, [0.0])

        def add_row(index: Value) -> None:
            jacobian_entry = tracer.read(SCRATCH, self.records + self.jacobian, index * float(self.record_size) + dof)
            tracer.write(total, [tracer.read(total) + self._read(index, FORCE) * jacobian_entry])

        tracer.counted_loop("multi-dof rows", float(self.n_rows), add_row)
        return tracer.read(total)

    def hessian_terms(self) -> tuple[HessianTerm, ...]:
        """Return the descriptor of the term J^T D J that the rows add to the Hessian; empty without rows.

        Also traces a store of the number of rows to scratch memory, which the descriptor refers to, and starts a new
        basic block.
        """
        if not self.n_rows:
            return ()
        count_offset = self.ctx.allocate_fixed(1)
        self.ctx.tracer.write(SCRATCH, [float(self.n_rows)], count_offset.row)
        self.ctx.tracer.new_basic_block()
        records, count = MemoryLocation(SCRATCH, self.records), MemoryLocation(SCRATCH, count_offset.row)
        return (
            HessianTerm(
                records, self.record_size, count, 1, N_ROWS, self.hessian, self.jacobian, round_up_to_4(self.n_dofs)
            ),
        )


def _write_multi_dof_row(iteration: IterationContext) -> None:
    """Write the header of a row record (residual -aref, stiffness, force bounds), or copy one Jacobian entry."""
    if iteration.specialization == "entry":
        iteration.write("to", [iteration.read("from")])
        return
    row_type, is_per_env = iteration.specialization  # type: ignore[misc]
    bound = iteration.read("per-env bound") if is_per_env else iteration.constant("bound")
    iteration.write(
        "to", [-iteration.read("aref"), iteration.read("stiffness"), *force_bounds(row_type, bound), 0.0, 0.0, 1.0]
    )
