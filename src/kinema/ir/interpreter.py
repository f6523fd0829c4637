"""Reference interpreter in NumPy: executes a program for all environments at once, statement by statement.

In batched mode, the iterations of a for-each loop of one dependency level and specialization are evaluated as one array
operation. The operations are the same as in sequential execution, so that results are bitwise equal.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from .effects import dependency_levels
from .evaluator import Evaluator
from .intrinsics import AtomicIncrement, IntrinsicCall
from .memory import SCRATCH, ArenaOffset, MemoryLocation
from .operations import OPERATIONS
from .program import BasicBlock, CountedLoop, ForEachLoop, If, LoopSpecialization, Program, WhileLoop, WorkQueueLoop


def interpret(program: Program, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Run a program on NumPy arrays (n_items, n_envs) by name and return its output arrays in the same shape.

    Input arrays are not modified; an output without input starts at zero.
    """
    sample = next(iter(arrays.values())) if arrays else np.zeros((1, 1))
    outputs = program.outputs
    memory = dict(arrays)
    for name, count in outputs.items():
        memory[name] = np.zeros((max(count, len(arrays.get(name, ()))), sample.shape[1]), sample.dtype)
        memory[name][: len(arrays.get(name, ()))] = arrays.get(name, 0.0)
    ArrayEvaluator(program, memory, {}).run(program.body)
    return {name: memory[name][:count] for name, count in outputs.items()}


def interpret_in_place(
    program: Program, arenas: Mapping[str, np.ndarray], array_offsets: Mapping[str, ArenaOffset], n_runs: int = 1
) -> None:
    """Run a program `n_runs` times on arenas of shape (n_rows, n_envs), which are modified in place."""
    for _ in range(n_runs):
        ArrayEvaluator(program, arenas, array_offsets).run(program.body)


def interpret_batched(
    program: Program, arrays: Mapping[str, np.ndarray], *, use_python_trig: bool = False
) -> dict[str, npt.NDArray[np.bool_]]:
    """Run a program in batched mode on arrays of shape (n_items, n_envs), in place; returns a mask of written elements.

    Args:
        program: program that `supports_batching`.
        arrays: all arrays that the program names, except scratch memory and local arrays.
        use_python_trig: whether sine and cosine are those of Python's `math` module instead of NumPy's.
    """
    evaluator = _BatchedEvaluator(program, arrays, use_python_trig=use_python_trig)
    with np.errstate(all="ignore"):
        evaluator.run(program.body)
    return evaluator.written


def interpret_kernel_part(
    program: Program, arenas: Mapping[str, np.ndarray], array_offsets: Mapping[str, ArenaOffset]
) -> None:
    """Run one kernel of a split program on arenas including scratch memory, which are modified in place."""
    evaluator = ArrayEvaluator(program, {name: x for name, x in arenas.items() if name != SCRATCH}, array_offsets)
    evaluator.arrays[SCRATCH] = arenas[SCRATCH]
    evaluator.run(program.body)


# ---------------------------------------------------------------------------------------- one iteration after the other


class ArrayEvaluator(Evaluator):
    """Evaluator on NumPy arrays of shape (n_envs,), with a mask of active environments."""

    def __init__(
        self, program: Program, arrays: Mapping[str, np.ndarray], array_offsets: Mapping[str, ArenaOffset]
    ) -> None:
        super().__init__()
        sample = next(iter(arrays.values())) if arrays else np.zeros((1, 1))
        self.dtype, self.n_envs = sample.dtype, sample.shape[1]
        self.envs = np.arange(self.n_envs)
        self.functions = {name: operation.evaluate for name, operation in OPERATIONS.items()}
        self.functions["select"] = lambda *args: OPERATIONS["select"].evaluate(*args).astype(self.dtype, copy=False)
        sizes = {**program.locals, SCRATCH: program.n_scratch}
        self.arrays = {**arrays, **{name: np.zeros((n, self.n_envs), self.dtype) for name, n in sizes.items()}}
        self.array_offsets = array_offsets
        self.active_mask: np.ndarray | None = None
        """(n_envs,) environments that execute the current statement; None for all."""

    def run_for_each_loop(self, loop: ForEachLoop) -> None:
        """Execute a loop, then add the thread-private accumulators of its reductions to the totals.

        A joined loop is executed for each distinct combination of rows, in the environments that have it.
        """
        if loop.joined_rows:
            rows = np.stack([np.broadcast_to(self.load(x), self.n_envs) for x in loop.joined_rows])
            outer_mask = self.active_mask
            active = np.ones(self.n_envs, np.bool_) if outer_mask is None else outer_mask
            for combination in np.unique(rows[:, active], axis=1).T.astype(np.int64):
                if self._restrict((rows == combination[:, None]).all(axis=0)):
                    self.run_joined_iteration(loop, combination.tolist())
                self.active_mask = outer_mask
            return
        if loop.active_iterations is not None:
            self._run_active_iterations(loop, loop.active_iterations)
            return
        for accumulator, _ in loop.reductions:
            self.store(accumulator, np.zeros(self.n_envs), {})
        super().run_for_each_loop(loop)
        for accumulator, total in loop.reductions:
            self.store(total, self.load(total) + self.load(accumulator), {})

    def _run_active_iterations(self, loop: ForEachLoop, active: ArenaOffset) -> None:
        """Execute the listed iterations of a loop; each runs in the environments whose list has it at a position."""
        outer_mask = self.active_mask
        lengths = np.broadcast_to(self.load(MemoryLocation(active.arena, active.row)), self.n_envs)
        for position in range(int((lengths if outer_mask is None else lengths[outer_mask]).max(initial=0))):
            listed = self.load(MemoryLocation(active.arena, active.row + 1 + position))
            is_in_list = lengths > position if outer_mask is None else outer_mask & (lengths > position)
            for index in np.unique(listed[is_in_list]).astype(np.int64).tolist():
                self.active_mask = is_in_list & (listed == index)
                self.run_iteration(loop, index)
            self.active_mask = outer_mask

    def run_cooperative(self, statement: WorkQueueLoop | IntrinsicCall | AtomicIncrement) -> None:
        """Execute a work-queue loop sequentially, an intrinsic once per active environment, or a counter increment.

        The increment stores the counter's previous value to its result memory location.
        """
        match statement:
            case WorkQueueLoop():
                self._run_work_queue_loop(statement)
            case IntrinsicCall():
                for env in (
                    range(self.n_envs) if self.active_mask is None else np.flatnonzero(self.active_mask).tolist()
                ):
                    statement.intrinsic.evaluate(self._memory_of_env(env))
            case AtomicIncrement():
                count = self.load(statement.counter)
                self.store(statement.result, count, {})
                self.store(statement.counter, count + 1.0, {})

    def _run_work_queue_loop(self, queue_loop: WorkQueueLoop) -> None:
        """Execute a work-queue loop sequentially; each filter restricts the active environments of the next stage."""
        outer_mask = self.active_mask
        for i in range(len(queue_loop.work.ints)):
            for loop in queue_loop.stages:
                self.run_iteration(loop, i)
                if loop is not queue_loop.work and not self._restrict(self.load(queue_loop.condition) > 0.5):
                    break
            self.active_mask = outer_mask

    def _memory_of_env(self, env: int) -> Callable[[MemoryLocation], np.ndarray]:
        def memory(operand: MemoryLocation) -> np.ndarray:
            array, row = self._locate(operand)
            return array[row:, env]

        return memory

    def _restrict(self, mask: np.ndarray) -> bool:
        """Intersect the active environments with a mask; returns whether any remain."""
        self.active_mask = mask if self.active_mask is None else self.active_mask & mask
        return bool(self.active_mask.any())

    def run_counted_loop(self, loop: CountedLoop) -> None:
        """Execute a counted loop; an environment becomes inactive when its trip count is reached."""
        outer_mask, counts = self.active_mask, self.load(loop.count)
        if loop.reversed:
            self._run_reversed_loop(loop, counts)
            return
        self.loop_indices.append(self.dtype.type(0.0))
        while self._restrict(self.loop_indices[-1] < counts):
            self.run(loop.body)
            self.loop_indices[-1] += self.dtype.type(1.0)
        self.loop_indices.pop()
        self.active_mask = outer_mask

    def _run_reversed_loop(self, loop: CountedLoop, counts: np.ndarray) -> None:
        """Execute a reversed counted loop; an environment becomes active at its last iteration."""
        outer_mask = self.active_mask
        active_counts = np.nan_to_num(counts if outer_mask is None else np.where(outer_mask, counts, 0.0))
        for index in reversed(range(int(np.max(active_counts, initial=0.0)))):
            self.loop_indices.append(self.dtype.type(index))
            if self._restrict(index < counts):
                self.run(loop.body)
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

    def run_if(self, branch: If) -> None:
        """Execute the body of a branch in the environments whose condition holds."""
        outer_mask = self.active_mask
        if self._restrict(self.load(branch.condition) > 0.5):
            self.run(branch.body)
        self.active_mask = outer_mask

    def _locate(self, location: MemoryLocation) -> tuple[np.ndarray, Any]:
        """NumPy array and row of a memory location, without its dynamic index."""
        name, row = self.resolve(location)
        offset = self.array_offsets.get(name)  # an array, unless the name is that of an arena
        return (self.arrays[name], row) if offset is None else (self.arrays[offset.arena], offset.row + row)

    def load(self, location: MemoryLocation, values: dict[int, Any] | None = None) -> Any:
        """Value of a location in all environments, a new array (n_envs,); a scalar for uniform arrays and constants.

        A dynamic index (from `values`, by value number) selects an element in each environment.
        """
        for _, constants in reversed(self.iteration_stack):
            if location in constants:
                return self.dtype.type(constants[location])
        array, row = self._locate(location)
        is_uniform = array.shape[1] == 1 and self.n_envs > 1
        if location.index is None:
            return array[row, 0] if is_uniform else array[row].copy()
        rows = self._dynamic_rows(location.index, {} if values is None else values, row, len(array))
        return array[rows, 0 if is_uniform else self.envs]

    def _dynamic_rows(self, index: int, values: dict[int, Any], row: int, count: int) -> np.ndarray:
        """Rows at a dynamic index behind `row` for each environment; clipped to the array if some are inactive.

        The index as integers, with its smallest and largest, is kept in `values` under ~`index`, as basic blocks access
        many elements at one index.
        """
        known = values.get(~index)
        if known is None:
            integers = np.asarray(values[index], np.int64)
            integers = np.full(self.n_envs, integers) if integers.ndim == 0 else integers
            known = values[~index] = integers, int(integers.min()), int(integers.max())
        integers, smallest, largest = known
        if self.active_mask is None or (smallest >= 0 and row + largest < count):
            return integers + row
        return np.minimum(np.maximum(integers + row, row), count - 1)

    def store(self, location: MemoryLocation, value: Any, values: dict[int, Any]) -> None:
        """Store values to a memory location for the active environments."""
        array, row = self._locate(location)
        if location.index is None:
            if self.active_mask is None:
                array[row] = value
            else:
                np.copyto(array[row], value, where=self.active_mask)
            return
        rows = self._dynamic_rows(location.index, values, row, len(array))
        if self.active_mask is not None:
            value = np.where(self.active_mask, value, array[rows, self.envs])
        array[rows, self.envs] = value


# ------------------------------------------------------------------------------------------------------ batched mode

_PYTHON_TRIG = {
    name: np.vectorize(function, otypes=[np.float64]) for name, function in (("sin", math.sin), ("cos", math.cos))
}
"""Sine and cosine of Python's `math` module, as in an unrolled program on plain numbers; NumPy's round differently."""


def supports_batching(program: Program) -> bool:
    """Whether the interpreter can evaluate all independent iterations of each for-each loop as one array operation.

    The program must consist of basic blocks and for-each loops over basic blocks, without dynamic indices,
    active-iteration lists, reductions, and local arrays shared between iterations.
    """
    blocks: list[BasicBlock] = []
    for statement in program.body:
        if isinstance(statement, BasicBlock):
            blocks.append(statement)
            continue
        if not isinstance(statement, ForEachLoop) or statement.active_iterations is not None or statement.reductions:
            return False
        if statement.joined_rows:
            return False
        for specialization in statement.specializations:
            row_blocks = [block for block in specialization.body if isinstance(block, BasicBlock)]
            if len(row_blocks) < len(specialization.body) or any(
                x.array in program.locals for x in _external_locations(specialization)[0]
            ):
                return False
            blocks += row_blocks
    return all(
        all(location.index is None for location in block.locations())
        and all(i.op != "loop_index" for i in block.instructions)
        for block in blocks
    )


class _BatchedEvaluator(ArrayEvaluator):
    """Evaluator on NumPy arrays of shape (n_rows, n_envs), with a row for each iteration of a batch."""

    def __init__(self, program: Program, arrays: Mapping[str, np.ndarray], *, use_python_trig: bool) -> None:
        super().__init__(program, arrays, {})
        if use_python_trig:
            self.functions = {**self.functions, **_PYTHON_TRIG}
        self.locals = program.locals
        self.written = {name: np.zeros(len(x), np.bool_) for name, x in self.arrays.items()}

    def run_for_each_loop(self, loop: ForEachLoop) -> None:
        """Execute a for-each loop: one array operation for all iterations of a dependency level and specialization."""
        specialization_indices, levels = loop.specialization_indices(), self._levels(loop)
        for level in range(int(levels.max(initial=-1)) + 1):
            for specialization_index, specialization in enumerate(loop.specializations):
                rows = np.flatnonzero((levels == level) & (specialization_indices == specialization_index))
                if len(rows):
                    places: Any = loop.ints[rows].astype(np.int64)
                    offsets: dict[str, Any] = {
                        array: ArenaOffset(arena, places[:, column])
                        for array, (arena, column) in specialization.array_columns.items()
                    }
                    constants = {s: loop.floats[rows, c][:, None] for s, c in specialization.constant_columns.items()}
                    self.iteration_stack.append((offsets, constants))
                    self.run(specialization.body)
                    self.iteration_stack.pop()

    def load(self, location: MemoryLocation, values: dict[int, Any] | None = None) -> Any:
        """Values of a location for the iterations of the batch, (n_rows, n_envs), or of one element, (1, n_envs)."""
        if self.iteration_stack and location in self.iteration_stack[-1][1]:
            return self.iteration_stack[-1][1][location]
        array, row = self.resolve(location)
        return self.arrays[array][np.atleast_1d(row)]  # a copy, as the index is an array

    def store(self, location: MemoryLocation, value: Any, values: dict[int, Any]) -> None:
        """Store values to a location in all iterations of the batch; local arrays are kept with the constants."""
        if self.iteration_stack and location.array in self.locals:
            self.iteration_stack[-1][1][location] = value
            return
        array, row = self.resolve(location)
        self.arrays[array][row] = value
        self.written[array][row] = True

    def _levels(self, loop: ForEachLoop) -> npt.NDArray[np.int64]:
        """Dependency level of each iteration of a loop, shape (n_rows,); iterations of one level are independent."""
        bases, total = {}, 0
        for name, array in self.arrays.items():
            bases[name], total = total, total + len(array)
        iteration_cells: list[tuple[list[int], list[int]]] = [([], [])] * len(loop.ints)
        specialization_indices = loop.specialization_indices()
        for specialization_index, specialization in enumerate(loop.specializations):
            rows = np.flatnonzero(specialization_indices == specialization_index)
            reads, writes = (
                self._cell_indices(
                    loop,
                    specialization,
                    rows,
                    bases,
                    [location for location in locations if location.array not in self.locals],
                )
                for locations in _external_locations(specialization)
            )
            for row, cells in zip(rows.tolist(), zip(reads, writes, strict=True), strict=True):
                iteration_cells[row] = cells
        return np.array(dependency_levels(iteration_cells), np.int64)

    def _cell_indices(
        self,
        loop: ForEachLoop,
        specialization: LoopSpecialization,
        rows: npt.NDArray[np.int64],
        bases: Mapping[str, int],
        locations: list[MemoryLocation],
    ) -> list[list[int]]:
        """Memory cells, as flat indices, that each loop iteration accesses through given memory locations.

        Args:
            loop: the loop.
            specialization: specialization of the iterations.
            rows: indices of the iterations.
            bases: flat index of the first element of each array.
            locations: memory locations of the code of the specialization.
        """
        indices = np.zeros((len(rows), len(locations)), np.int64)
        for i, location in enumerate(locations):
            if location.array in specialization.array_columns:
                arena, column = specialization.array_columns[location.array]
                indices[:, i] = bases[arena] + loop.ints[rows, column] + location.element
            else:
                indices[:, i] = bases[location.array] + location.element
        return indices.tolist()


def _external_locations(specialization: LoopSpecialization) -> tuple[list[MemoryLocation], list[MemoryLocation]]:
    """Memory locations through which one execution of a loop specialization reads and writes memory: (reads, writes).

    Constants and loads of values that the same execution stored before are not reads.
    """
    reads: dict[MemoryLocation, None] = {}
    writes: dict[MemoryLocation, None] = {}
    for block in specialization.body:
        assert isinstance(block, BasicBlock)
        for i in block.instructions:
            if (
                i.location is not None
                and i.location not in specialization.constant_columns
                and i.location not in writes
            ):
                reads[i.location] = None
        writes |= dict.fromkeys(store.location for store in block.stores)
    return list(reads), list(writes)
