"""Evaluation of programs over an abstract domain of values, statement by statement.

`Evaluator` walks statements, loop iterations and instructions. Subclasses define the values, the operations on them,
memory, and the control flow that depends on values: NumPy arrays over environments (`interpreter.py`), symbolic scalars
or plain numbers (`unroll.py`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .intrinsics import AtomicIncrement, IntrinsicCall, SharedMemoryStaging
from .memory import FIRST_ITERATION_PREFIX, ITERATION_COUNT_PREFIX, ArenaOffset, MemoryLocation
from .program import (
    BasicBlock,
    CountedLoop,
    ForEachLoop,
    If,
    Statement,
    Statements,
    WarpRegion,
    WhileLoop,
    WorkQueueLoop,
)

IterationBinding = tuple[dict[str, ArenaOffset], dict[MemoryLocation, Any]]
"""Array offsets and constants of a loop iteration."""


@dataclass(slots=True, eq=False)
class IterationBindings:
    """Cache of the array offsets and constants of loop iterations."""

    tables: dict[int, tuple[list[int], list[list[int]], list[list[float]]]] = field(default_factory=dict)
    bound: dict[tuple[int, int], IterationBinding] = field(default_factory=dict)

    def specialization_indices(self, loop: ForEachLoop) -> list[int]:
        """Specialization index of each iteration of a loop."""
        if id(loop) not in self.tables:
            self.tables[id(loop)] = (loop.specialization_indices().tolist(), loop.ints.tolist(), loop.floats.tolist())
        return self.tables[id(loop)][0]

    def bind(self, loop: ForEachLoop, index: int) -> IterationBinding:
        """Array offsets (name -> arena and row) and constants (location -> value) of one loop iteration, cached."""
        key = id(loop), index
        if key not in self.bound:
            specialization = loop.specializations[self.specialization_indices(loop)[index]]
            _, ints, floats = self.tables[id(loop)]
            int_row, float_row = ints[index], floats[index]
            self.bound[key] = (
                {
                    array: ArenaOffset(arena, int_row[column])
                    for array, (arena, column) in specialization.array_columns.items()
                },
                {location: float_row[column] for location, column in specialization.constant_columns.items()},
            )
        return self.bound[key]


class Evaluator(ABC):
    """Executes statements in order; subclasses define the values, the memory and value-dependent control flow."""

    functions: Mapping[str, Callable[..., Any]]
    """Operation of an instruction -> function on values."""

    def __init__(self, bindings: IterationBindings | None = None) -> None:
        self.bindings = bindings or IterationBindings()
        self.iteration_stack: list[IterationBinding] = []
        """Array offsets and constants of the enclosing loop iterations, outermost first."""
        self.loop_indices: list[Any] = []
        """Indices of the enclosing counted loops, outermost first."""

    # ------------------------------------------------------------------------------------------------------ statements

    def run(self, statements: Statements) -> None:
        """Execute statements one after the other."""
        for statement in statements:
            self.run_statement(statement)

    def run_statement(self, statement: Statement) -> None:
        """Execute one statement by calling the method for its type; shared-memory staging does nothing."""
        match statement:
            case BasicBlock():
                self.run_basic_block(statement)
            case ForEachLoop():
                self.run_for_each_loop(statement)
            case CountedLoop():
                self.run_counted_loop(statement)
            case WhileLoop():
                self.run_while_loop(statement)
            case If():
                self.run_if(statement)
            case WarpRegion():
                self.run(statement.body)
            case SharedMemoryStaging():
                pass  # there is only one memory
            case WorkQueueLoop() | IntrinsicCall() | AtomicIncrement():
                self.run_cooperative(statement)

    def run_basic_block(self, block: BasicBlock) -> dict[int, Any]:
        """Execute a basic block: evaluate its instructions in order, then perform its stores.

        Returns value number -> value.
        """
        values: dict[int, Any] = {}
        load, functions = self.load, self.functions
        for target, op, arguments, location in block.instructions:
            if location is not None:
                values[target] = load(location, values)
            elif len(arguments) == 2:  # most of them: faster than the general case
                a, b = arguments
                values[target] = functions[op](values[a] if type(a) is int else a, values[b] if type(b) is int else b)
            elif op == "loop_index":
                values[target] = self.loop_indices[-1]
            else:
                values[target] = functions[op](*[values[a] if type(a) is int else a for a in arguments])
        for location, value in block.stores:
            self.store(location, values[value] if type(value) is int else value, values)
        return values

    def run_joined_iteration(self, loop: ForEachLoop, rows: Sequence[int]) -> None:
        """Execute the body of a joined loop for one row of each of its tables."""
        specialization, (of_ints, of_floats) = loop.specializations[0], loop.joined_tables
        offsets = {
            array: ArenaOffset(arena, int(loop.ints[rows[of_ints[column]], column]))
            for array, (arena, column) in specialization.array_columns.items()
        }
        constants = {
            location: float(loop.floats[rows[of_floats[column]], column])
            for location, column in specialization.constant_columns.items()
        }
        self.iteration_stack.append((offsets, constants))
        self.run(specialization.body)
        self.iteration_stack.pop()

    def run_for_each_loop(self, loop: ForEachLoop) -> None:
        """Execute the iterations of a for-each loop one after the other."""
        for i in self.iterations_of(loop):
            self.run_iteration(loop, i)

    def run_iteration(self, loop: ForEachLoop, index: int) -> None:
        """Execute the loop specialization of one iteration of a for-each loop."""
        specialization = loop.specializations[self.bindings.specialization_indices(loop)[index]]
        self.iteration_stack.append(self.bindings.bind(loop, index))
        self.run(specialization.body)
        self.iteration_stack.pop()

    def iterations_of(self, loop: ForEachLoop) -> Sequence[int]:
        """Iterations to execute: the range given by the enclosing iteration, those of the level schedule, or all."""
        if loop.range_name:
            offsets, _ = self.iteration_stack[-1]
            first, count = (
                offsets[prefix + loop.range_name].row for prefix in (FIRST_ITERATION_PREFIX, ITERATION_COUNT_PREFIX)
            )
            return range(first, first + count)
        scheduled = [batch.first_row + i for batch in loop.schedule for i in range(batch.n_rows)]
        return scheduled or range(len(loop.ints))

    def run_counted_loop(self, loop: CountedLoop) -> None:
        """Execute a counted loop."""
        raise _unsupported(loop)

    def run_while_loop(self, loop: WhileLoop) -> None:
        """Execute a do-while loop."""
        raise _unsupported(loop)

    def run_if(self, branch: If) -> None:
        """Execute a branch."""
        raise _unsupported(branch)

    def run_cooperative(self, statement: WorkQueueLoop | IntrinsicCall | AtomicIncrement) -> None:
        """Execute a statement that threads of a GPU share."""
        raise _unsupported(statement)

    # ---------------------------------------------------------------------------------------------------------- memory

    @abstractmethod
    def load(self, location: MemoryLocation, values: dict[int, Any]) -> Any:
        """Value of a memory location; `values` are the values of the basic block, among them the dynamic index."""

    @abstractmethod
    def store(self, location: MemoryLocation, value: Any, values: dict[int, Any]) -> None:
        """Store a value to a memory location."""

    def resolve(self, location: MemoryLocation) -> tuple[str, int]:
        """Array (or arena) and row of a location by the array offsets of the enclosing iterations; no dynamic index."""
        array, element, _ = location
        for offsets, _ in reversed(self.iteration_stack):
            offset = offsets.get(array)
            if offset is not None:
                return offset.arena, offset.row + element
        return array, element


def _unsupported(statement: Any) -> TypeError:
    return TypeError(f"{type(statement).__name__} {statement.name!r} is not supported by this evaluator")
