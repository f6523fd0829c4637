"""Loop unrolling by symbolic execution of for-each loops and counted loops into straight-line code.

Memory is a dictionary from cells to symbolic scalars, as all addresses of for-each loops are known. Stored values are
forwarded to loads, constants of iterations fold, and dead values are never computed. On plain numbers the same code
executes the program.

While loops, loops with unknown trip count and branches are kept. Cells that their bodies write and that are read later
become loop-carried values. A dry run, whose recording is discarded, finds these cells.

For-each loops marked as rolled, warp regions and work-queue loops are kept too and work on real memory: cells that they
read are stored before them, and cells that they write are loaded again after them. Local arrays that they share with
other statements are such cells.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass, field
from functools import reduce
from operator import or_

import numpy as np

from .effects import Cell, CellSet, find_effect_cells, kept_statements
from .evaluator import Evaluator, IterationBindings
from .memory import SCRATCH, MemoryLocation
from .program import (
    CountedLoop,
    ForEachLoop,
    If,
    Program,
    Statement,
    Statements,
    WarpRegion,
    WhileLoop,
    WorkQueueLoop,
    memory_accesses,
    nested_bodies,
)
from .symbolic import OP_FUNCTIONS, Scalar, Value
from .tracer import Tracer, while_loop

ReadInput = Callable[[str, int], Value]
"""Function from (array, element) to the value of an array element before the program runs."""


@dataclass(slots=True, eq=False)
class _ClobberedCell:
    """Cell that a loop body may have written (dry run): reading it marks the cell as loop-carried."""

    value: Value
    carried_cells: set[Cell]
    before: Value | _ClobberedCell | None
    """Contents before the loop or branch, which are read if the cell is loop-carried."""


@dataclass(slots=True, eq=False)
class _LoopCarried:
    """Results of the dry run: loop-carried cells of kept loops and branches, by identity of the statement."""

    cells_by_loop: dict[int, set[Cell]] = field(default_factory=dict)
    indexed_arrays: set[str] = field(default_factory=set)
    """Local arrays accessed at a dynamic index, which remain arrays."""


def _dry_run_function(function: Callable[..., Value]) -> Callable[..., Value]:
    """Cheap version of an operation for the dry run: returns its first symbolic operand as a placeholder, if any.

    If all operands are Python floats, the operation is evaluated.
    """

    def evaluate(*args: Value) -> Value:
        for argument in args:
            if type(argument) is Scalar:
                return argument
        return function(*args)

    return evaluate


_DRY_RUN_FUNCTIONS = {op: _dry_run_function(function) for op, function in OP_FUNCTIONS.items()}


class _DryRunNeededError(Exception):
    """Raised if the program has kept loops or branches whose loop-carried cells are not known yet."""


def unroll(program: Program, read_input: ReadInput, tracer: Tracer | None = None) -> dict[Cell, Value]:
    """Unroll the for-each loops and counted loops of a program by symbolic execution.

    Returns the final value of each memory cell (array, element) that the program writes, except in scratch memory and
    local arrays. Control flow that depends on symbolic values, and loops marked `no_unroll`, are recorded with the
    tracer instead. Without a tracer the program is executed on Python floats.

    Args:
        program: the program.
        read_input: initial value of an array element.
        tracer: records the statements that are not unrolled.
    """
    kept_effects = {} if tracer is None else _kept_effects(program)
    bindings = IterationBindings()
    if not kept_effects:  # kept statements are recorded at once, which cannot be undone
        with suppress(_DryRunNeededError):
            return _Unroller(program, read_input, tracer, None, kept_effects, bindings).final_values()
    loop_carried = _LoopCarried()
    _Unroller(
        program, read_input, tracer or Tracer(), loop_carried, kept_effects, bindings, dry_run=True
    ).final_values()
    return _Unroller(program, read_input, tracer, loop_carried, kept_effects, bindings).final_values()


def _kept_effects(program: Program) -> dict[int, tuple[CellSet, CellSet, set[str]]]:
    """Cells read, cells written and local arrays used by each kept statement, by its identity.

    Local arrays of a kept statement are its own, and no cells, unless other statements use them too, such as the stack
    positions of a tape.
    """
    kept = list(kept_statements(program.body))
    effects = {id(x): find_effect_cells(program, (x,)) for x in kept}
    if not kept or not program.locals:
        return effects
    users = Counter(name for _, _, names in effects.values() for name in names)
    users.update(_locals_outside(program, {id(x) for x in kept}))
    for reads, writes, names in effects.values():
        shared = {(name, i) for name in names if users[name] > 1 for i in range(program.locals[name])}
        reads.other_cells.update(shared)
        writes.other_cells.update(shared)
    return effects


def _locals_outside(program: Program, kept: Set[int]) -> set[str]:
    """Local arrays that statements other than the kept ones use."""

    def visit(statements: Statements) -> Iterator[str]:
        for statement in statements:
            if id(statement) not in kept:
                yield from (location.array for location, _ in memory_accesses(statement))
                for body in nested_bodies(statement):
                    yield from visit(body)

    return {name for name in visit(program.body) if name in program.locals}


def unroll_program(program: Program) -> Program:
    """Program of unrolled code, with arrays that are accessed by name.

    For-each loops and loops of known length become straight-line code; other loops and branches are kept. The program
    has scratch memory only if loops are kept that are never unrolled (`no_unroll`).
    """
    tracer = Tracer()
    values = unroll(program, tracer.read, tracer)
    for array, element in sorted(values):
        tracer.write(array, [values[array, element]], element)
    if not program.has_kept_loops:
        return tracer.build()
    return tracer.build(
        n_scratch=program.n_scratch,
        allocation_starts=program.allocation_starts,
        oversized_lists=program.oversized_lists,
    )


class _Unroller(Evaluator):
    """Evaluator on symbolic scalars or plain numbers, with memory as a dictionary from cells to values."""

    def __init__(
        self,
        program: Program,
        read_input: ReadInput,
        tracer: Tracer | None,
        loop_carried: _LoopCarried | None,
        kept_effects: Mapping[int, tuple[CellSet, CellSet, set[str]]],
        bindings: IterationBindings,
        *,
        dry_run: bool = False,
    ) -> None:
        super().__init__(bindings)
        self.functions = _DRY_RUN_FUNCTIONS if dry_run else OP_FUNCTIONS
        self.program = program
        self.read_input = read_input
        self.tracer = tracer
        self.loop_carried = loop_carried
        self.indexed_arrays: Set[str] = frozenset() if loop_carried is None else loop_carried.indexed_arrays
        self.dry_run = dry_run
        self.memory: dict[Cell, Value | _ClobberedCell] = {}
        self.path: list[tuple[int, float]] = []
        """Enclosing loops: (identity of the loop, iteration index)."""
        self.written_by_body: dict[tuple[object, ...], set[Cell]] = {}
        """Cells written by a kept body (dry run), by identity of the statement and path."""
        self.kept_arrays: dict[str, str] = {}
        """Local array that remains an array -> its name in the new program."""
        self.kept_effects = kept_effects
        empty = CellSet(np.zeros(program.n_scratch + 1, np.bool_), set())
        self.kept_writes = reduce(or_, (writes for _, writes, _ in kept_effects.values()), empty)
        """Cells that kept statements write, which are reloaded from memory whenever such a statement may have run."""
        self.kept_write_rows, self.kept_write_cells = (
            self.kept_writes.scratch_offsets.tolist(),
            self.kept_writes.other_cells,
        )
        self.kept_reads = {key: reads - self.kept_writes for key, (reads, _, _) in kept_effects.items()}
        """Cells that each kept statement reads and no kept statement writes."""
        self.cached: set[Cell] = set()
        """Cells of `kept_writes` that are in `memory`."""
        self.dirty: set[Cell] = set()
        """Cells of `kept_writes` that have been computed, but not stored yet."""
        self.written: set[Cell] = set()
        """Cells written by the current body (dry run)."""
        self.stored: dict[Cell, Value] = {}
        """Values of other cells that have been stored for kept statements to read."""

    def final_values(self) -> dict[Cell, Value]:
        """Execute the program; returns the final values of written cells outside scratch memory and local arrays."""
        self.run(self.program.body)
        self.flush()
        transient_arrays = {SCRATCH, *self.program.locals}
        return {cell: self.load_cell(cell) for cell in list(self.memory) if cell[0] not in transient_arrays}

    def run_statement(self, statement: Statement) -> None:
        """Execute a statement, or keep a rolled loop, a warp region (code shared by a warp) or a work-queue loop."""
        if id(statement) in self.kept_effects:
            assert isinstance(statement, ForEachLoop | WarpRegion | WorkQueueLoop)
            self.keep_statement(statement)
        else:
            super().run_statement(statement)

    # ---------------------------------------------------------------------------------------------- unrolled statements

    def run_iteration(self, loop: ForEachLoop, index: int) -> None:
        """Execute the body of a for-each loop for one iteration."""
        self.path.append((id(loop), index))
        super().run_iteration(loop, index)
        self.path.pop()

    def run_counted_loop(self, loop: CountedLoop) -> None:
        """Unroll a counted loop: execute its body for each iteration; record the loop if its trip count is symbolic."""
        if isinstance(self.load(loop.count), Scalar):
            self.keep_control_flow(loop)
            return
        if loop.reversed:
            for index in reversed(range(int(self.load(loop.count)))):  # type: ignore[arg-type]
                self._run_unrolled_iteration(loop, float(index))
            return
        index = 0.0
        while index < self.load(loop.count):  # type: ignore[operator]  # ty: ignore[unsupported-operator]
            self._run_unrolled_iteration(loop, index)
            index += 1.0

    def _run_unrolled_iteration(self, loop: CountedLoop, index: float) -> None:
        """Execute the body of a counted loop for one iteration."""
        self.loop_indices.append(index)
        self.path.append((id(loop), index))
        self.run(loop.body)
        self.path.pop()
        self.loop_indices.pop()

    def run_while_loop(self, loop: WhileLoop) -> None:
        """Keep a do-while loop."""
        self.keep_control_flow(loop)

    def run_if(self, branch: If) -> None:
        """Keep a branch."""
        self.keep_control_flow(branch)

    # ------------------------------------------------------------------------------------------------------ memory

    def load(self, location: MemoryLocation, values: Mapping[int, Value] | None = None) -> Value:
        """Value of a location: a constant of the iteration, a memory cell, or a recorded load if the index is symbolic.

        Array names are resolved by the offsets of the enclosing iterations. `values` maps value numbers of the basic
        block to values, for the dynamic index.
        """
        array, row, index_value = location
        for offsets, constants in reversed(self.iteration_stack):
            value = constants.get(location)
            if value is not None:
                return value
            offset = offsets.get(array)
            if offset is not None:
                array, row = offset.arena, offset.row + row
                break
        index: Value = 0.0 if index_value is None else (values or {})[index_value]
        if type(index) is Scalar or array in self.indexed_arrays:
            assert self.tracer is not None
            return self.tracer.read(self._kept_array(array), row, index)
        cell = (array, row if index_value is None else row + int(index))  # type: ignore[arg-type]
        stored = self.memory.get(cell)
        return self.load_cell(cell) if stored is None or type(stored) is _ClobberedCell else stored  # type: ignore[return-value]  # ty: ignore[invalid-explicit-return]

    def store(self, location: MemoryLocation, value: Value, values: Mapping[int, Value]) -> None:
        """Store a value to a memory location: update the memory cell, or record a store if the index is symbolic.

        Cells that recorded statements may access become dirty, that is, they are stored before such a statement. In the
        dry run all written cells are noted.
        """
        array, row = self.resolve(location)
        index: Value = 0.0 if location.index is None else values[location.index]
        if type(index) is Scalar or array in self.indexed_arrays:
            assert self.tracer is not None
            name = self._kept_array(array)
            if not self.dry_run:
                self.tracer.write(name, [value], row, index)
                self.tracer.new_basic_block()
            return
        cell = (array, row + int(index))  # type: ignore[arg-type]
        self.memory[cell] = value
        if self.dry_run:
            self.written.add(cell)
        if self._is_kept_write(cell):
            self.dirty.add(cell)
            self.cached.add(cell)

    def load_cell(self, cell: Cell) -> Value:
        """Value of a memory cell: stored value, recorded load if a recorded statement writes it, or program input.

        Without a stored value it is 0 in scratch memory and local arrays. In the dry run, reading a cell that the loop
        body overwrites marks it as loop-carried.
        """
        stored = self.memory.get(cell)
        if stored is None and self._is_kept_write(cell):
            assert self.tracer is not None
            stored = self.memory[cell] = self.tracer.read(*cell)
            self.cached.add(cell)
        if isinstance(stored, _ClobberedCell):
            value, outer = stored.value, stored
            while isinstance(outer, _ClobberedCell):
                outer.carried_cells.add(cell)
                outer = outer.before
            return value
        if stored is not None:
            return stored
        if cell[0] == SCRATCH or cell[0] in self.program.locals:
            return 0.0
        return self.read_input(*cell)

    def _is_kept_write(self, cell: Cell) -> bool:
        return self.kept_write_rows[cell[1]] if cell[0] == SCRATCH else cell in self.kept_write_cells

    def _kept_array(self, array: str) -> str:
        """Name in the new program of a local array that is accessed at a symbolic index and therefore remains an array.

        Allocated at the first call; aborts for a dry run (`_DryRunNeededError`) if none has been made.
        """
        if self.loop_carried is None:
            raise _DryRunNeededError
        assert array in self.program.locals, f"{array} is accessed at a dynamic index, but is not a local array"
        assert self.tracer is not None
        self.loop_carried.indexed_arrays.add(array)
        if self.dry_run:
            return "unknown"
        if array not in self.kept_arrays:
            self.kept_arrays[array] = self.tracer.allocate_local(self.program.locals[array])
        return self.kept_arrays[array]

    # -------------------------------------------------------------------------------------------------- kept statements

    def keep_statement(self, statement: ForEachLoop | WarpRegion | WorkQueueLoop) -> None:
        """Record a loop, warp region or work-queue loop without unrolling, after stores of the cells that it reads.

        A warp region is code that a warp executes cooperatively.

        A work-queue loop is a separate kernel, so that cells that any such statement reads are stored before it.
        """
        assert self.tracer is not None
        reads, (_, _, local_arrays) = self.kept_reads[id(statement)], self.kept_effects[id(statement)]
        if isinstance(statement, WorkQueueLoop):  # a separate kernel: values cannot be kept in registers across it
            reads = reduce(or_, self.kept_reads.values(), reads)
        inputs = {cell: self.load_cell(cell) for cell in sorted(reads.intersection(self.memory))}
        self.flush({cell: value for cell, value in inputs.items() if self.stored.get(cell) is not value})
        if not self.dry_run:
            self.tracer.add_statement(statement, {name: self.program.locals[name] for name in sorted(local_arrays)})

    def flush(self, extra: Mapping[Cell, Value] | None = None) -> None:
        """Write back: record stores of all dirty cells and of `extra` cells, and drop cached cells.

        The dropped cells are those that recorded statements may write; they are loaded again when needed.
        """
        cells = {cell: self.load_cell(cell) for cell in sorted(self.dirty)} | dict(extra or {})
        if cells and not self.dry_run:
            assert self.tracer is not None
            for (array, row), value in cells.items():
                self.tracer.write(array, [value], row)
            self.tracer.new_basic_block()
        self.stored.update(extra or {})
        self.dirty.clear()
        for cell in self.cached:
            self.memory.pop(cell, None)
        self.cached.clear()

    def visit_body(self, statements: Statements) -> None:
        """Execute a body that may run any number of times; values stored inside do not count as stored afterwards."""
        stored = dict(self.stored)
        self.run(statements)
        self.flush()
        self.stored = stored

    def keep_control_flow(self, statement: WhileLoop | If | CountedLoop) -> None:
        """Record a while loop, branch or counted loop, with the memory cells that it carries (loop-carried) as state.

        In the dry run, only finds these cells; aborts for a dry run (`_DryRunNeededError`) if none has been made.
        """
        if self.loop_carried is None and self.tracer is not None:
            raise _DryRunNeededError
        self.flush()
        if self.dry_run:
            self._dry_run_body(statement)
            return
        cells = sorted((self.loop_carried.cells_by_loop if self.loop_carried else {}).get(id(statement), ()))
        match statement:
            case WhileLoop():
                self._keep_while_loop(statement, cells)
            case If():
                self._keep_if(statement, cells)
            case CountedLoop():
                self._keep_counted_loop(statement, cells)

    def _keep_while_loop(self, loop: WhileLoop, cells: list[Cell]) -> None:
        """Record a while loop with the loop-carried memory `cells` as state; its body is unrolled."""

        def step(state: object) -> tuple[list[Value], Value, Value]:
            self.memory.update(zip(cells, state, strict=True))  # type: ignore[call-overload]
            self.visit_body(loop.body)
            return [self.load_cell(c) for c in cells], 0.5, self.load(loop.condition)

        final = while_loop(self.tracer, loop.name, step, [self.load_cell(c) for c in cells], loop.max_iterations)
        self.memory.update(zip(cells, final, strict=True))

    def _keep_if(self, branch: If, cells: list[Cell]) -> None:
        """Record a branch whose results are the memory `cells`; a constant condition is decided at once instead."""
        flag, initial = self.load(branch.condition), [self.load_cell(c) for c in cells]

        def then() -> list[Value]:
            self.visit_body(branch.body)
            return [self.load_cell(c) for c in cells]

        if isinstance(flag, Scalar):
            assert self.tracer is not None
            final = self.tracer.if_less(branch.name, 0.5, flag, then, initial)
            self.memory.update(zip(cells, final, strict=True))
        elif flag > 0.5:
            self.run(branch.body)

    def _keep_counted_loop(self, loop: CountedLoop, cells: list[Cell]) -> None:
        """Record a counted loop with the loop-carried memory `cells` in a local array; its body is unrolled."""
        tracer = self.tracer
        assert tracer is not None
        state = tracer.allocate_local(len(cells))
        tracer.write(state, [self.load_cell(c) for c in cells])

        def body(index: Value) -> None:
            self.loop_indices.append(index)
            self.memory.update({c: tracer.read(state, i) for i, c in enumerate(cells)})  # ty: ignore[missing-union-attribute]
            self.visit_body(loop.body)
            tracer.write(state, [self.load_cell(c) for c in cells])
            self.loop_indices.pop()

        count = self.load(loop.count)
        tracer.counted_loop(loop.name, count, body, uniform=loop.uniform, reverse=loop.reversed)
        self.memory.update({c: tracer.read(state, i) for i, c in enumerate(cells)})

    def _dry_run_body(self, statement: WhileLoop | If | CountedLoop) -> None:
        """Dry run of the body of a recorded loop or branch: fixed-point search for its loop-carried memory cells.

        The body is executed, without recording, until the set of written cells no longer grows. Written cells are
        marked as clobbered; a clobbered cell that the next iteration or later code reads is loop-carried.
        """
        assert self.loop_carried is not None
        assert self.tracer is not None
        unknown, carried = self.tracer.read("unknown"), self.loop_carried.cells_by_loop.setdefault(id(statement), set())
        self.loop_indices.append(unknown)
        memory_before, written_outside, key = dict(self.memory), self.written, (id(statement), *self.path)
        written = self.written_by_body.get(key)
        if written is None:
            self.written = set()
            self.visit_body(statement.body)
            written = {cell for cell in self.written if not self._is_kept_write(cell)}
        while True:  # an iteration that is not the first, until the set of written cells is complete
            clobbered = {c: _ClobberedCell(unknown, carried, memory_before.get(c)) for c in sorted(written)}
            self.memory, self.written = {**memory_before, **clobbered}, set()
            self.visit_body(statement.body)
            if isinstance(statement, WhileLoop):
                self.load(statement.condition)
            added = {cell for cell in self.written if not self._is_kept_write(cell)} - written
            if not added:
                break
            written |= added
        self.written_by_body[key] = written
        self.memory, self.written = {**memory_before, **clobbered}, set(written)
        self.written |= written_outside
        self.loop_indices.pop()
