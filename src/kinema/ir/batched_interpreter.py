"""Batched NumPy interpreter: independent rows of a table loop are evaluated as one array operation.

Supports programs of basic blocks and of table loops over basic blocks. Rows of one dependency level and variant are
evaluated together with the same operations as in the row-by-row interpreter, so that results are bitwise equal.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from .interpreter import NUMPY_OPS
from .memory import SCRATCH, Slot
from .program import BasicBlock, LoopVariant, Program, TableLoop

Array = npt.NDArray[np.float64]
RowIndices = npt.NDArray[np.int64]
PYTHON_OPS = {"sin": math.sin, "cos": math.cos}
"""Functions that Python's `math` module and NumPy round differently; an unrolled program on plain numbers uses
Python's."""


def supports_batching(program: Program) -> bool:
    """Whether the batched interpreter can run a program.

    The program must consist of basic blocks and table loops over basic blocks, without dynamic indices, active-row
    lists, reductions, and local arrays shared between rows.
    """
    return (
        all(
            isinstance(block, BasicBlock)
            or (
                isinstance(block, TableLoop)
                and block.active_rows is None
                and not block.reductions
                and all(map(_is_straight_line, block.variants))
            )
            for block in program.body
        )
        and all(_has_static_slots(basic_block) for block in program.body for basic_block in _basic_blocks_of(block))
        and _has_row_private_locals(program)
    )


def _has_row_private_locals(program: Program) -> bool:
    """Whether each row of a table loop reads from local arrays only values that it stored there itself."""
    loops = [block for block in program.body if isinstance(block, TableLoop)]
    return not any(
        slot.array in program.locals
        for loop in loops
        for variant in loop.variants
        for slot in _external_slots(variant)[0]
    )


def interpret_batched(
    program: Program, arrays: Mapping[str, Array], *, use_python_trig: bool = False
) -> dict[str, npt.NDArray[np.bool_]]:
    """Run a program on arrays of shape (n_items, n_envs), in place; returns a mask of written items by array.

    Args:
        program: program that `supports_batching`.
        arrays: all arrays that the program names, except scratch memory and local arrays.
        use_python_trig: whether sine and cosine are those of Python's `math` module instead of NumPy's.
    """
    interpreter = _BatchedInterpreter(program, arrays, use_python_trig=use_python_trig)
    with np.errstate(all="ignore"):
        for block in program.body:
            if isinstance(block, TableLoop):
                interpreter.run_table_loop(block)
            else:
                assert isinstance(block, BasicBlock)
                interpreter.run_basic_block(block, {}, 1)
    return interpreter.written


def _is_straight_line(variant: LoopVariant) -> bool:
    return all(isinstance(block, BasicBlock) for block in variant.body)


def _basic_blocks_of(statement: Any) -> Iterator[BasicBlock]:
    if isinstance(statement, TableLoop):
        yield from (block for variant in statement.variants for block in variant.body if isinstance(block, BasicBlock))
    else:
        yield statement


def _has_static_slots(block: BasicBlock) -> bool:
    return all(slot.index is None for slot in block.slots()) and all(
        i.slot or i.op in NUMPY_OPS for i in block.instructions
    )


class _BatchedInterpreter:
    """Executes basic blocks and table loops on NumPy arrays of shape (n_items, n_envs), many rows at once."""

    def __init__(self, program: Program, arrays: Mapping[str, Array], *, use_python_trig: bool) -> None:
        n_envs = next(iter(arrays.values())).shape[1]
        self.locals = program.locals
        self.arrays = {**arrays, SCRATCH: np.zeros((program.n_scratch, n_envs))}
        self.arrays |= {name: np.zeros((size, n_envs)) for name, size in program.locals.items()}
        self.written = {name: np.zeros(len(x), np.bool_) for name, x in self.arrays.items()}
        self.use_python_trig = use_python_trig

    def run_table_loop(self, loop: TableLoop) -> None:
        """Execute a table loop by dependency level, with all rows of a variant in one array operation."""
        variant_indices, levels = loop.variant_indices(), self._dependency_levels(loop)
        for level in range(int(levels.max(initial=-1)) + 1):
            for variant_index, variant in enumerate(loop.variants):
                rows = np.flatnonzero((levels == level) & (variant_indices == variant_index))
                if not len(rows):
                    continue
                bindings: dict[Any, Any] = {
                    s: loop.floats[rows, c][:, None] for s, c in variant.constant_columns.items()
                }
                bindings |= {
                    a: (arena, loop.ints[rows, c].astype(np.int64)) for a, (arena, c) in variant.array_columns.items()
                }
                for block in variant.body:
                    assert isinstance(block, BasicBlock)
                    self.run_basic_block(block, bindings, len(rows))

    def run_basic_block(self, block: BasicBlock, bindings: dict[Any, Any], n_rows: int) -> None:
        """Execute a basic block for `n_rows` rows at once.

        `bindings` holds the constants and array offsets of the rows. Stores to local arrays are added to it, for later
        basic blocks of the same rows.
        """
        values: dict[int, Any] = {}
        for i in block.instructions:
            if i.slot is not None:
                values[i.result] = self._load(i.slot, bindings)
            else:
                values[i.result] = self._evaluate(i.op, [values[a] if isinstance(a, int) else a for a in i.args])
        stores = [(s.slot, values[s.value] if isinstance(s.value, int) else s.value) for s in block.stores]
        for slot, value in stores:
            if slot.array in self.locals and bindings:
                bindings[slot] = value
            else:
                arena, rows = self._resolve(slot, bindings)
                self.arrays[arena][rows] = value
                self.written[arena][rows] = True

    def _evaluate(self, op: str, args: list[Any]) -> Any:
        if self.use_python_trig and op in PYTHON_OPS:
            x = np.asarray(args[0], np.float64)
            return np.array([PYTHON_OPS[op](v) for v in x.ravel().tolist()]).reshape(x.shape)
        return NUMPY_OPS[op](*(np.float64(a) if isinstance(a, float) else a for a in args))

    def _load(self, slot: Slot, bindings: Mapping[Any, Any]) -> Any:
        if slot in bindings:
            return bindings[slot]
        arena, rows = self._resolve(slot, bindings)
        return self.arrays[arena][rows]  # a copy, as the index is an array

    def _resolve(self, slot: Slot, bindings: Mapping[Any, Any]) -> tuple[str, RowIndices]:
        if slot.array in bindings:
            arena, starts = bindings[slot.array]
            return arena, starts + slot.item
        return slot.array, np.array([slot.item])

    def _dependency_levels(self, loop: TableLoop) -> RowIndices:
        """Dependency level of each row of a table loop, shape (n_rows,).

        A row is one level above the earlier rows that write cells it reads or that read or write cells it writes.
        """
        variant_indices = loop.variant_indices().tolist()
        bases, total = {}, 0
        for name, array in self.arrays.items():
            bases[name], total = total, total + len(array)
        reads, writes = ([np.zeros((0,), np.int64)] * len(variant_indices) for _ in range(2))
        for variant_index, variant in enumerate(loop.variants):
            rows = np.flatnonzero(loop.variant_indices() == variant_index)
            external = ([slot for slot in slots if slot.array not in self.locals] for slots in _external_slots(variant))
            cells = [self._cell_indices(loop, variant, rows, bases, slots) for slots in external]
            for row, row_reads, row_writes in zip(rows.tolist(), *(indices.tolist() for indices in cells), strict=True):
                reads[row], writes[row] = row_reads, row_writes
        read_level, write_level = [-1] * total, [-1] * total
        levels = np.zeros(len(variant_indices), np.int64)
        for row, (row_reads, row_writes) in enumerate(zip(reads, writes, strict=True)):
            level = 1 + max(
                [
                    -1,
                    *(write_level[cell] for cell in row_reads),
                    *(max(read_level[cell], write_level[cell]) for cell in row_writes),
                ]
            )
            for cell in row_reads:
                read_level[cell] = max(read_level[cell], level)
            for cell in row_writes:
                write_level[cell] = level
            levels[row] = level
        return levels

    def _cell_indices(
        self, loop: TableLoop, variant: LoopVariant, rows: RowIndices, bases: Mapping[str, int], slots: list[Slot]
    ) -> RowIndices:
        """Flat indices of the cells of some slots for each row, shape (n_rows, n_slots); `bases` offsets the arrays."""
        indices = np.zeros((len(rows), len(slots)), np.int64)
        for i, slot in enumerate(slots):
            if slot.array in variant.array_columns:
                arena, column = variant.array_columns[slot.array]
                indices[:, i] = bases[arena] + loop.ints[rows, column] + slot.item
            else:
                indices[:, i] = bases[slot.array] + slot.item
        return indices


def _external_slots(variant: LoopVariant) -> tuple[list[Slot], list[Slot]]:
    """Slots that rows of a variant read and write, without reads of values that the row stored before."""
    reads: dict[Slot, None] = {}
    writes: dict[Slot, None] = {}
    for block in variant.body:
        assert isinstance(block, BasicBlock)
        for i in block.instructions:
            if i.slot is not None and i.slot not in variant.constant_columns and i.slot not in writes:
                reads[i.slot] = None
        writes |= dict.fromkeys(store.slot for store in block.stores)
    return list(reads), list(writes)
