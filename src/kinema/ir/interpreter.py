"""Reference interpreter in NumPy: executes a program for all environments at once, statement by statement."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from .intrinsics import AtomicIncrement, IntrinsicCall, SharedMemoryStaging
from .memory import FIRST_ROW_PREFIX, ROW_COUNT_PREFIX, SCRATCH, ArenaOffset, Slot
from .program import (
    BasicBlock,
    CountedLoop,
    If,
    Instruction,
    LoopVariant,
    Program,
    Statements,
    TableLoop,
    WarpRegion,
    WhileLoop,
    WorkQueueLoop,
)

NUMPY_OPS: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "neg": lambda a: -a,
    "reciprocal": lambda a: 1.0 / a,
    "sqrt": np.sqrt,
    "sin": np.sin,
    "cos": np.cos,
    "abs": np.abs,
    "floor": np.floor,
    "min": lambda a, b: np.where(b < a, b, a),  # not np.minimum: NaN as in emitted code
    "max": lambda a, b: np.where(a < b, b, a),
    "select": lambda a, b, below, otherwise: np.where(a < b, below, otherwise),
    "any": lambda a: np.full_like(a, (a > 0.5).any()),
    "fma": lambda a, b, c: a * b + c,
    "fms": lambda a, b, c: a * b - c,
    "fnma": lambda a, b, c: c - a * b,
}
"""Operation of an instruction -> NumPy function."""


def interpret(program: Program, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Outputs of a program, each (n_items, n_envs), from inputs (n_items, n_envs), which are not modified."""
    sample = next(iter(arrays.values())) if arrays else np.zeros((1, 1))
    outputs = program.outputs
    memory = dict(arrays)
    for name, count in outputs.items():
        memory[name] = np.zeros((max(count, len(arrays.get(name, ()))), sample.shape[1]), sample.dtype)
        memory[name][: len(arrays.get(name, ()))] = arrays.get(name, 0.0)
    _Interpreter(program, memory, {}).run(program.body)
    return {name: memory[name][:count] for name, count in outputs.items()}


def interpret_in_place(
    program: Program, arenas: Mapping[str, np.ndarray], array_offsets: Mapping[str, ArenaOffset], n_runs: int = 1
) -> None:
    """Run a program `n_runs` times on arenas of shape (n_rows, n_envs), which are modified in place."""
    for _ in range(n_runs):
        _Interpreter(program, arenas, array_offsets).run(program.body)


def interpret_kernel_part(
    program: Program, arenas: Mapping[str, np.ndarray], array_offsets: Mapping[str, ArenaOffset]
) -> None:
    """Run one kernel of a split program on arenas including scratch memory, which are modified in place."""
    interpreter = _Interpreter(program, {name: x for name, x in arenas.items() if name != SCRATCH}, array_offsets)
    interpreter.arrays[SCRATCH] = arenas[SCRATCH]
    interpreter.run(program.body)


class _Interpreter:
    """Executes statements on NumPy arrays of shape (n_rows, n_envs), with a mask of active environments."""

    def __init__(
        self, program: Program, arrays: Mapping[str, np.ndarray], array_offsets: Mapping[str, ArenaOffset]
    ) -> None:
        sample = next(iter(arrays.values())) if arrays else np.zeros((1, 1))
        self.dtype, self.n_envs = sample.dtype, sample.shape[1]
        sizes = {**program.locals, SCRATCH: program.n_scratch}
        self.arrays = {**arrays, **{name: np.zeros((n, self.n_envs), self.dtype) for name, n in sizes.items()}}
        self.array_offsets = array_offsets
        self.row_stack: list[tuple[LoopVariant, np.ndarray, np.ndarray]] = []
        """Enclosing table rows: loop variant, integers and floats of each."""
        self.loop_indices: list[int] = []
        self.active_mask: np.ndarray | None = None
        """(n_envs,) environments that execute the current statement; None for all."""

    def run(self, statements: Statements) -> None:
        """Execute statements one after the other for the active environments."""
        for block in statements:
            match block:
                case BasicBlock():
                    self.run_basic_block(block)
                case TableLoop():
                    self.run_table_loop(block)
                case CountedLoop():
                    self.run_counted_loop(block)
                case WhileLoop():
                    self.run_while_loop(block)
                case WarpRegion():
                    self.run(block.body)
                case IntrinsicCall():
                    self.run_intrinsic(block)
                case SharedMemoryStaging():
                    pass  # there is only one memory
                case AtomicIncrement():
                    count = np.array(self.load(block.counter))
                    self.store(block.result, count, {})
                    self.store(block.counter, count + 1.0, {})
                case WorkQueueLoop():
                    self.run_work_queue_loop(block)
                case If():
                    outer_mask = self.active_mask
                    if self._restrict(self.load(block.condition) > 0.5):
                        self.run(block.body)
                    self.active_mask = outer_mask

    def run_table_loop(self, loop: TableLoop) -> None:
        """Execute a table loop row by row, then add the thread-private accumulators of its reductions to the totals."""
        variant_indices = loop.variant_indices()
        for accumulator, _ in loop.reductions:
            self.store(accumulator, np.zeros(self.n_envs), {})
        for i in self._rows_of(loop):
            variant = loop.variants[int(variant_indices[i])]
            self.row_stack.append((variant, loop.ints[i], loop.floats[i]))
            self.run(variant.body)
            self.row_stack.pop()
        for accumulator, total in loop.reductions:
            self.store(total, self.load(total) + self.load(accumulator), {})

    def run_work_queue_loop(self, queue_loop: WorkQueueLoop) -> None:
        """Execute a work-queue loop row by row; each filter restricts the active environments of the next stage."""
        outer_mask = self.active_mask
        for i in range(len(queue_loop.work.ints)):
            for loop in queue_loop.stages:
                variant = loop.variants[int(loop.variant_indices()[i])]
                self.row_stack.append((variant, loop.ints[i], loop.floats[i]))
                self.run(variant.body)
                self.row_stack.pop()
                if loop is not queue_loop.work and not self._restrict(self.load(queue_loop.condition) > 0.5):
                    break
            self.active_mask = outer_mask

    def _rows_of(self, loop: TableLoop) -> Sequence[int]:
        """Rows of a table loop to execute: those of its schedule, all, or the range of the enclosing row."""
        if not loop.row_range_name:
            return [batch.first_row + i for batch in loop.schedule for i in range(batch.n_rows)] or range(
                len(loop.ints)
            )
        variant, ints, _ = self.row_stack[-1]
        first, count = (
            int(ints[variant.array_columns[prefix + loop.row_range_name][1]])
            for prefix in (FIRST_ROW_PREFIX, ROW_COUNT_PREFIX)
        )
        return range(first, first + count)

    def _restrict(self, mask: np.ndarray) -> bool:
        """Intersect the active environments with a mask; returns whether any remain."""
        self.active_mask = mask if self.active_mask is None else self.active_mask & mask
        return bool(self.active_mask.any())

    def run_counted_loop(self, loop: CountedLoop) -> None:
        """Execute a counted loop; an environment becomes inactive when its trip count is reached."""
        outer_mask, counts = self.active_mask, np.array(self.load(loop.count))
        self.loop_indices.append(0)
        while self._restrict(self.loop_indices[-1] < counts):
            self.run(loop.body)
            self.loop_indices[-1] += 1
        self.loop_indices.pop()
        self.active_mask = outer_mask

    def run_while_loop(self, loop: WhileLoop) -> None:
        """Execute a do-while loop; an environment becomes inactive when its condition is false."""
        outer_mask = self.active_mask
        for _ in range(loop.max_iterations):
            self.run(loop.body)
            if not self._restrict(self.load(loop.condition) > 0.5):
                break
        self.active_mask = outer_mask

    def run_intrinsic(self, call: IntrinsicCall) -> None:
        """Execute an intrinsic, one environment at a time."""
        for env in range(self.n_envs) if self.active_mask is None else np.flatnonzero(self.active_mask):

            def memory(operand: Slot, env: int = env) -> np.ndarray:
                array, row = self._resolve(operand)
                return array[row:, env]

            call.intrinsic.evaluate(memory)

    def run_basic_block(self, block: BasicBlock) -> None:
        """Evaluate the instructions of a basic block, then store the results."""
        values: dict[int, Any] = {}
        self.evaluate(block.instructions, values)
        # copies: loaded values are views of memory that a store may change
        results = [np.array(values[s.value] if isinstance(s.value, int) else s.value) for s in block.stores]
        for store, result in zip(block.stores, results, strict=True):
            self.store(store.slot, result, values)

    def evaluate(self, instructions: Iterable[Instruction], values: dict[int, Any]) -> None:
        """Evaluate instructions and add their results to `values`, by value number."""
        for i in instructions:
            if i.slot is not None:
                values[i.result] = np.array(self.load(i.slot, values))  # not a view: a store may change it
            elif i.op == "loop_index":
                values[i.result] = self.dtype.type(self.loop_indices[-1])
            else:
                values[i.result] = NUMPY_OPS[i.op](
                    *(values[a] if isinstance(a, int) else self.dtype.type(a) for a in i.args)
                )

    def _resolve(self, slot: Slot) -> tuple[np.ndarray, int]:
        """NumPy array and row of a slot, without its dynamic index.

        Looks up row constants and array offsets of the enclosing table rows first, then the array offsets of the
        program.
        """
        for variant, ints, floats in reversed(self.row_stack):
            if slot in variant.constant_columns:
                return floats[:, None], variant.constant_columns[slot]
            if slot.array in variant.array_columns:
                arena, column = variant.array_columns[slot.array]
                start = self.array_offsets.get(arena, ArenaOffset(arena, 0))  # an array or an arena
                return self.arrays[start.arena], start.row + int(ints[column]) + slot.item
        if slot.array in self.array_offsets:
            offset = self.array_offsets[slot.array]
            return self.arrays[offset.arena], offset.row + slot.item
        return self.arrays[slot.array], slot.item

    def load(self, slot: Slot, values: Mapping[int, Any] | None = None) -> Any:
        """Value of a slot for all environments, shape (n_envs,), or a scalar for uniform arrays and row constants."""
        array, row = self._resolve(slot)
        uniform = (array.shape[1] == 1 and self.n_envs > 1) or array.dtype != self.dtype
        if slot.index is None:
            return self.dtype.type(array[row, 0]) if uniform else array[row]
        rows = row + self._dynamic_index(slot, values, len(array) - row)
        return array[rows, 0 if uniform else np.arange(self.n_envs)]

    def _dynamic_index(self, slot: Slot, values: Mapping[int, Any] | None, count: int) -> np.ndarray:
        """Dynamic index of a slot for each environment, clipped to the array in case of inactive environments."""
        index = np.broadcast_to(np.asarray((values or {})[slot.index or 0], np.int64), (self.n_envs,))
        return index if self.active_mask is None else np.clip(index, 0, count - 1)

    def store(self, slot: Slot, result: np.ndarray, values: Mapping[int, Any]) -> None:
        """Store values to a slot for the active environments."""
        array, row = self._resolve(slot)
        envs = np.arange(self.n_envs)
        rows = row if slot.index is None else row + self._dynamic_index(slot, values, len(array) - row)
        if self.active_mask is not None:
            result = np.where(self.active_mask, result, array[rows, envs])
        array[rows, envs] = result
