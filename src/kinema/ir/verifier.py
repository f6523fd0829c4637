"""Verifier: checks the structural rules of programs, between any two passes.

In a basic block, each value is defined once, before its uses, by an operation with the right number of operands. Memory
locations are inside their arrays. Conditions are of type `bool`, dynamic indices and trip counts of type `int`; scalars
loaded from memory may be used as any type.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from kinema.core import InternalError

from .intrinsics import IntrinsicCall
from .memory import FIRST_ITERATION_PREFIX, ITERATION_COUNT_PREFIX, SCRATCH, MemoryLocation, Operand
from .operations import OPERATIONS, ValueType, constant_type
from .program import (
    BasicBlock,
    CountedLoop,
    ForEachLoop,
    If,
    LoopSpecialization,
    Program,
    Statements,
    WhileLoop,
    WorkQueueLoop,
    format_location,
    memory_accesses,
    nested_bodies,
    walk,
)


def verify(program: Program, arena_sizes: Mapping[str, int] | None = None) -> None:
    """Check a program; raises InternalError with the first violated rule and its place.

    `arena_sizes` are the numbers of rows of further arenas or arrays; accesses to others are not bounded.
    """
    for fault in find_faults(program, arena_sizes):
        raise InternalError(f"invalid program: {fault}")


def find_faults(program: Program, arena_sizes: Mapping[str, int] | None = None) -> Iterator[str]:
    """Yield a description of each violated rule of a program."""
    sizes = {**(arena_sizes or {}), **program.locals, SCRATCH: program.n_scratch}
    yield from _Verifier(program, sizes).check(program.body, "program", [], in_counted_loop=False)


class _Verifier:
    """Checks of one program."""

    def __init__(self, program: Program, sizes: Mapping[str, int]) -> None:
        self.sizes = sizes
        self.expected_types: dict[MemoryLocation, ValueType] = {}
        """Memory locations of conditions and trip counts, with the type of the values to be stored there."""
        for statement in walk(program.body):
            match statement:
                case If() | WhileLoop() | WorkQueueLoop():
                    self.expected_types[statement.condition] = ValueType.BOOL
                case CountedLoop():
                    self.expected_types[statement.count] = ValueType.INT
                case _:
                    pass

    def check(
        self,
        statements: Statements,
        place: str,
        enclosing: list[tuple[ForEachLoop, LoopSpecialization, np.ndarray]],
        *,
        in_counted_loop: bool,
    ) -> Iterator[str]:
        """Yield the violated rules of statements, including nested ones, each with its place in the program.

        `place` is the path of names to the statements; `enclosing` are the enclosing for-each loops with their
        specialization and its iteration indices, outermost first.
        """
        for i, statement in enumerate(statements):
            here = f"{place}, {getattr(statement, 'name', '') or f'block {i}'}"
            if isinstance(statement, BasicBlock):
                yield from (f"{here}: {x}" for x in self._block_faults(statement, in_counted_loop=in_counted_loop))
            if isinstance(statement, ForEachLoop):
                yield from (f"{here}: {x}" for x in self._table_faults(statement, enclosing))
                specialization_indices = statement.specialization_indices()
                for k, specialization in enumerate(statement.specializations):
                    inner = [*enclosing, (statement, specialization, np.flatnonzero(specialization_indices == k))]
                    yield from self.check(specialization.body, here, inner, in_counted_loop=in_counted_loop)
                continue
            for location, _ in memory_accesses(statement):
                yield from (f"{here}: {x}" for x in self._location_faults(location, enclosing))
            if isinstance(statement, IntrinsicCall):
                for location, count in statement.intrinsic.definite_writes:
                    last = location._replace(element=location.element + count - 1)
                    yield from (f"{here}: {x}" for x in self._location_faults(last, enclosing))
            for body in nested_bodies(statement):
                counted = in_counted_loop or isinstance(statement, CountedLoop)
                yield from self.check(body, here, enclosing, in_counted_loop=counted)

    def _block_faults(self, block: BasicBlock, *, in_counted_loop: bool) -> Iterator[str]:
        """Yield the violated rules of a basic block: operation names, operand counts, definition before use, types."""
        types: dict[int, ValueType] = {}

        def type_of(operand: Operand) -> ValueType:
            return types[operand] if isinstance(operand, int) else constant_type(operand)

        def index_faults(location: MemoryLocation) -> Iterator[str]:
            if location.index is not None and types[location.index] is ValueType.FLOAT:
                yield f"the dynamic index of {format_location(location)} is not an integer"

        for result, op, args, location in block.instructions:
            undefined = [
                x for x in (*args, None if location is None else location.index) if type(x) is int and x not in types
            ]
            if undefined or result in types:
                yield f"v{result}: {f'uses undefined values {undefined}' if undefined else 'is defined twice'}"
                return
            types[result] = ValueType.UNKNOWN
            if op in OPERATIONS and location is None and len(args) == OPERATIONS[op].arity:
                types[result] = OPERATIONS[op].result_type(*map(type_of, args))
            elif op == "loop_index" and location is None and not args and in_counted_loop:
                types[result] = ValueType.INT
            elif op == "input" and location is not None and not args:
                yield from index_faults(location)
            else:
                yield f"v{result}: {op} with {len(args)} operands is not possible here"
        for store in block.stores:
            if any(value not in types for value in store.uses):
                yield f"the store to {format_location(store.location)} uses an undefined value"
                return
            yield from index_faults(store.location)
            expected = self.expected_types.get(store.location)
            if expected is not None and type_of(store.value) not in (ValueType.UNKNOWN, *range(expected + 1)):
                yield f"{format_location(store.location)} must be of type {expected.name.lower()}"

    def _table_faults(
        self, loop: ForEachLoop, enclosing: list[tuple[ForEachLoop, LoopSpecialization, np.ndarray]]
    ) -> Iterator[str]:
        """Yield the violated rules of a loop's table: lengths, specialization indices, columns, nested ranges."""
        if len(loop.ints) != len(loop.floats):
            yield "the integer and float tables differ in length"
        if len(loop.ints) and not 0 <= loop.specialization_indices().max() < len(loop.specializations):
            yield "a specialization index is out of range"
        for specialization in loop.specializations:
            columns = [column for _, column in specialization.array_columns.values()]
            if any(c >= loop.ints.shape[1] for c in columns) or any(
                c >= loop.floats.shape[1] for c in specialization.constant_columns.values()
            ):
                yield f"a column of specialization {specialization.key} is out of range"
        if loop.joined_rows and len(loop.specializations) != 1:
            yield "a joined loop has several specializations"
        if loop.range_name:
            outer, specialization, outer_iterations = enclosing[-1]
            first, count = (
                outer.ints[outer_iterations, specialization.array_columns[prefix + loop.range_name][1]]
                for prefix in (FIRST_ITERATION_PREFIX, ITERATION_COUNT_PREFIX)
            )
            if (first + count).max(initial=0) > len(loop.ints):
                yield "an iteration range exceeds the table"

    def _location_faults(
        self, location: MemoryLocation, enclosing: list[tuple[ForEachLoop, LoopSpecialization, np.ndarray]]
    ) -> Iterator[str]:
        """Yield a fault if a location with static address exceeds its array in any iteration of the enclosing loops."""
        arena, first, last = location.array, location.element, location.element
        for loop, specialization, indices in reversed(enclosing):
            if location in specialization.constant_columns:
                return
            if location.array in specialization.array_columns:
                arena, column = specialization.array_columns[location.array]
                starts = loop.ints[indices, column]
                first, last = first + int(starts.min(initial=0)), last + int(starts.max(initial=0))
                break
        size = self.sizes.get(arena)
        if size is not None and location.index is None and not 0 <= first <= last < size:
            yield f"{format_location(location)} is outside of {arena!r}, which has {size} elements"
