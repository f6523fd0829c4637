"""Emission of kernels with one thread per environment, or one warp per partition.

A for-each loop whose rows are branches (`ir/row_guards.py`) runs for a list of the rows that an environment takes.
Otherwise each row would load its table entries and then its condition, and all threads of a warp would wait in each row
that one of them takes.

Registers are scarce, so that values for scratch memory are stored as soon as they are computed. In the hand-off area
for warp kernels, the scalars of an environment are contiguous in groups of eight (see `ir/scratch_layout.py`), and
four of them are stored by one vector store.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from kinema.ir import (
    EXCHANGE,
    MAX_ACCESS_BYTES,
    SCRATCH,
    SEPARATED_EXCHANGE,
    VECTOR_WIDTH,
    BasicBlock,
    ForEachLoop,
    Guard,
    Instruction,
    Program,
    Store,
    basic_blocks,
    find_guards,
    outermost_for_each_loops,
)

from ..memory import ValueNames
from ..statements import StatementEmitter, definition_positions, find_eager_stores

MIN_GUARDED_ROWS, MAX_GUARDED_ROWS = 8, 1024
"""Numbers of rows between which a for-each loop may run for a list of its rows; each has code for its guard."""
MAX_UNROLLED_OPERATIONS = 3000
"""Largest number of instructions and stores of all rows of a loop without branches that is unrolled: a row of a loop
waits for its table entries, and then for its operands, as stores of the row before could change these."""
ROWS_PER_MASK = 32
"""Rows whose guards are loaded concurrently."""
COUNT_TRAILING_ZEROS = "llvm.cttz.i32"
PARALLEL_ITERATION = "%iteration"
"""LLVM name of the iteration of a parallel loop that a thread executes."""
MAX_STORE_DELAY = 500
"""Maximum number of instructions that a value is kept in a register for a vector store."""


class ThreadKernelEmitter(StatementEmitter):
    """Emits kernels with one thread per environment: eager and vectorised stores, lists of rows with an effect."""

    guards: Mapping[int, Sequence[Guard | None]] = MappingProxyType({})
    """Guards of the for-each loops that run for a list of their rows, by identity of the loop."""

    def declarations(self) -> list[str]:
        """LLVM declarations of arithmetic intrinsics; also the count of trailing zeros, for masks of rows."""
        return [*super().declarations(), *([f"declare i32 @{COUNT_TRAILING_ZEROS}(i32, i1)"] if self.guards else [])]

    def allocate_row_list(self, program: Program) -> None:
        """Find the for-each loops that run for a list of their rows; allocate the list at the start of a function."""
        loops = outermost_for_each_loops(program.body)
        loops = [x for x in loops if x.no_unroll and x.active_iterations is None and not x.parallel]
        loops = [x for x in loops if MIN_GUARDED_ROWS <= len(x.ints) <= MAX_GUARDED_ROWS]
        self.guards = find_guards(program, loops)
        n_rows = max((len(loop.ints) for loop in loops if id(loop) in self.guards), default=0)
        if n_rows:
            self.emit(f"%row_list = alloca [{n_rows} x i32], align 4")
            self.emit("%n_listed = alloca i32, align 4")
            self.emit(f"%row_masks = alloca [{-(-n_rows // ROWS_PER_MASK)} x i32], align 4")

    def _emit_for_each_loop(self, loop: ForEachLoop) -> None:
        """Emit a for-each loop; a loop with little code in all rows together is unrolled, with constant addresses."""
        n_rows = np.bincount(loop.specialization_indices(), minlength=len(loop.specializations)).tolist()
        bodies = [x.body for x in loop.specializations]
        n_operations = sum(
            n * sum(len(block.instructions) + len(block.stores) for block in basic_blocks(body))
            for n, body in zip(n_rows, bodies, strict=True)
        )
        is_nested = not loop.no_unroll or loop.range_name or loop.joined_rows or self.address_resolver.iteration_stack
        is_nested = is_nested or loop.active_iterations is not None
        is_straight = all(isinstance(x, BasicBlock) for body in bodies for x in body)
        if is_nested or not is_straight or n_operations > MAX_UNROLLED_OPERATIONS:
            super()._emit_for_each_loop(loop)
            return
        for row, specialization_index in enumerate(loop.specialization_indices().tolist()):
            self._enter_row(loop, row)
            for block in bodies[specialization_index]:
                assert isinstance(block, BasicBlock)
                names = self._emit_row_instructions(loop, row, block.instructions)
                self.emit_stores(block.stores, names)
            self.address_resolver.leave_iteration()

    def _begin_rows(self, loop: ForEachLoop, starts: Sequence[str]) -> tuple[tuple[str, str, str, str], str]:
        """Begin a loop over the rows of a for-each loop, or over those that take their branch if these are known.

        The row of a parallel loop is that of the thread.
        """
        if loop.parallel:
            return self.begin_loop(PARALLEL_ITERATION, self.assign(f"add i32 {PARALLEL_ITERATION}, 1"))
        if id(loop) not in self.guards:
            return super()._begin_rows(loop, starts)
        n_rows = len(loop.ints)
        for first in range(0, n_rows, ROWS_PER_MASK):
            mask = self._emit_guards(loop, range(first, min(first + ROWS_PER_MASK, n_rows)))
            self.emit(f"store i32 {mask}, ptr {self._row_pointer('masks', str(first // ROWS_PER_MASK))}")
        loop_handle, index = self.begin_loop("0", self._emit_row_list(-(-n_rows // ROWS_PER_MASK)))
        return loop_handle, self.assign(f"load i32, ptr {self._row_pointer('list', index)}")

    def _emit_guards(self, loop: ForEachLoop, rows: range) -> str:
        """Emit the guards of some rows, at constant addresses: all loads first, then all stores.

        Returns the mask of the rows that take their branch.
        """
        indices = loop.specialization_indices().tolist()
        pending: list[tuple[Guard, int, ValueNames, list[str]]] = []
        mask, always = "0", 0
        for row in rows:
            guard, bit = self.guards[id(loop)][indices[row]], row - rows.start
            if guard is None:
                always |= 1 << bit
                continue
            self._enter_row(loop, row)
            names = self._emit_row_instructions(loop, row, guard.instructions)
            self.address_resolver.leave_iteration()
            taken: list[str] = []
            for level in guard.levels:
                operand = self._operand(level.condition, names)
                taken.append(self.assign(f"fcmp ogt {self.value_type} {operand}, {self.constant(0.5)}"))
                if len(taken) > 1:
                    taken[-1] = self.assign(f"and i1 {taken[-2]}, {taken[-1]}")
            mask = self.assign(f"or i32 {mask}, {self.assign(f'select i1 {taken[-1]}, i32 {1 << bit}, i32 0')}")
            pending.append((guard, row, names, taken))
        for guard, row, names, taken in pending:
            self._enter_row(loop, row)
            for level, outer in zip(guard.levels, ["", *taken], strict=False):
                if outer and level.stores:
                    body, done = self.fresh_name("then"), self.fresh_name("done")
                    self.emit(f"br i1 {outer}, label %{body}, label %{done}")
                    self.start_block(body)
                self.emit_stores(level.stores, names)
                if outer and level.stores:
                    self.emit(f"br label %{done}")
                    self.start_block(done)
            self.address_resolver.leave_iteration()
        return self.assign(f"or i32 {mask}, {always}")

    def _emit_row_instructions(self, loop: ForEachLoop, row: int, code: Sequence[Instruction]) -> dict[int, str]:
        """Emit instructions of a row with its constants; returns the LLVM name of each value."""
        columns = loop.specializations[loop.specialization_indices()[row]].constant_columns
        constants: dict[int, float] = {}
        instructions = []
        for i in code:
            if i.location is not None and i.location in columns:
                constants[i.result] = float(loop.floats[row, columns[i.location]])
            else:
                arguments = tuple(constants.get(x, x) if type(x) is int else x for x in i.args)
                instructions.append(i._replace(args=arguments))
        names = dict(self.emit_instructions(BasicBlock(tuple(instructions), ())))
        return names | {value: self.constant(constant) for value, constant in constants.items()}

    def _enter_row(self, loop: ForEachLoop, row: int) -> None:
        """Resolve memory locations in a row of a for-each loop, whose array offsets become constants of the code."""
        specialization = loop.specializations[loop.specialization_indices()[row]]
        loop_number = self.address_resolver.loop_number(loop)
        for _, column in specialization.array_columns.values():
            self.column_values[loop_number, column] = str(loop.ints[row, column])
        self.address_resolver.enter_iteration(loop_number, specialization)

    def _emit_row_list(self, n_masks: int) -> str:
        """Emit the list of the rows in the masks, in ascending order; returns their number."""
        self.emit("store i32 0, ptr %n_listed")
        masks, i = self.begin_loop("0", str(n_masks))
        entry_label, head, body, done = self.current_label, *(self.fresh_name(x) for x in ("bits", "bit", "none"))
        mask = self.assign(f"load i32, ptr {self._row_pointer('masks', i)}")
        first = self.assign(f"mul i32 {i}, {ROWS_PER_MASK}")
        self.emit(f"br label %{head}")
        self.start_block(head)
        self.emit(f"%{head}.left = phi i32 [ {mask}, %{entry_label} ], [ %{body}.left, %{body} ]")
        self.emit(f"br i1 {self.assign(f'icmp eq i32 %{head}.left, 0')}, label %{done}, label %{body}")
        self.start_block(body)
        bit = self.assign(f"call i32 @{COUNT_TRAILING_ZEROS}(i32 %{head}.left, i1 true)")
        n_listed = self.assign("load i32, ptr %n_listed")
        row = self.assign(f"add i32 {first}, {bit}")
        self.emit(f"store i32 {row}, ptr {self._row_pointer('list', n_listed)}")
        self.emit(f"store i32 {self.assign(f'add i32 {n_listed}, 1')}, ptr %n_listed")
        decremented = self.assign(f"sub i32 %{head}.left, 1")
        self.emit(f"%{body}.left = and i32 %{head}.left, {decremented}")
        self.emit(f"br label %{head}")
        self.start_block(done)
        self.end_loop(masks)
        return self.assign("load i32, ptr %n_listed")

    def _row_pointer(self, array: str, index: str) -> str:
        return self.assign(f"getelementptr i32, ptr %row_{array}, i32 {index}")

    def _emit_basic_block(self, block: BasicBlock) -> None:
        """Emit a basic block with eager stores to scratch memory and exchange arrays, other stores last."""
        eager_stores = self._delay_stores(block, find_eager_stores(block, (SCRATCH, EXCHANGE, SEPARATED_EXCHANGE)))
        names = self.emit_instructions(block, eager_stores)
        stored_locations = {store.location for stores in eager_stores.values() for store in stores}
        self.emit_stores([store for store in block.stores if store.location not in stored_locations], names)

    def emit_stores(self, stores: Sequence[Store], value_names: ValueNames) -> None:
        """Emit stores; stores to adjacent hand-off offsets are combined into vector stores."""
        for group in self._group_stores(stores):
            values = [self._operand(store.value, value_names) for store in group]
            if len(group) == 1:
                self.store(group[0].location, values[0], value_names)
            else:
                self._store_vector(self._pointer(group[0].location, None), values)

    def _group_stores(self, stores: Sequence[Store]) -> Iterator[tuple[Store, ...]]:
        """Group stores to aligned runs of four or two adjacent hand-off offsets; all other stores are single."""
        handoff_stores = {store.location.element: store for store in stores if self._is_handoff_store(store)}
        for width in (VECTOR_WIDTH, VECTOR_WIDTH // 2, 1):
            for row in sorted(row for row in handoff_stores if row % width == 0):
                if all(row + i in handoff_stores for i in range(width)):
                    yield tuple(handoff_stores.pop(row + i) for i in range(width))
        yield from ((store,) for store in stores if not self._is_handoff_store(store))

    def _is_handoff_store(self, store: Store) -> bool:
        """Whether a store goes to the hand-off area for warp kernels."""
        return (
            store.location.array == SCRATCH
            and store.location.index is None
            and store.location.element < self.n_handoff_rows
        )

    def _store_vector(self, pointer: str, values: Sequence[str]) -> None:
        """Emit one aligned vector store of scalar values."""
        vector_type, vector = f"<{len(values)} x {self.scalar_type}>", "poison"
        for i, value in enumerate(values):
            vector = self.assign(f"insertelement {vector_type} {vector}, {self.scalar_type} {value}, i32 {i}")
        self.emit(
            f"store {vector_type} {vector}, {pointer}, align {min(len(values) * self.scalar_bytes, MAX_ACCESS_BYTES)}"
        )

    def _delay_stores(self, block: BasicBlock, eager_stores: Mapping[int, Sequence[Store]]) -> dict[int, list[Store]]:
        """Delay stores such that four scalars that are adjacent in the hand-off memory are stored by one vector store.

        The hand-off memory holds data for a warp kernel. A store is delayed until all values of its vector are
        computed, but by at most `MAX_STORE_DELAY` instructions. Input and result map the value after which stores are
        emitted to the stores.
        """
        positions, last_values = definition_positions(block), dict[int, int]()
        delayed: dict[int, list[Store]] = {}
        stores = [(value, store) for value, value_stores in eager_stores.items() for store in value_stores]
        for value, store in stores:
            if self._is_handoff_store(store):
                vector = store.location.element // VECTOR_WIDTH
                last_values[vector] = max(last_values.get(vector, value), value, key=lambda v: positions[v])
        for value, store in stores:
            trigger = last_values[store.location.element // VECTOR_WIDTH] if self._is_handoff_store(store) else value
            delayed.setdefault(
                trigger if positions[trigger] - positions[value] <= MAX_STORE_DELAY else value, []
            ).append(store)
        return delayed
