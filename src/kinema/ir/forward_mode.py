"""Forward-mode automatic differentiation (Jacobian-vector products) of programs with loops and branches.

Each cell of memory gets a tangent, the derivative along one direction: for an array x, the array `t x`. The tangent
program executes the original program and, beside each operation, its linearisation. Control flow is that of the
original program; at points where the executed branch changes, the derivative is that of the branch that is executed.
Several directions are environments of the tangent program with equal values and different tangents, so that they are
evaluated in the lanes of SIMD vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

import numpy as np

from kinema.core import KinemaError

from .activity import Scopes, VariedCells
from .memory import SCRATCH, ArenaOffset, MemoryLocation
from .program import (
    BasicBlock,
    CountedLoop,
    ForEachLoop,
    If,
    LoopSpecialization,
    Program,
    Statement,
    Statements,
    Store,
    WhileLoop,
)
from .symbolic import (
    OP_FUNCTIONS,
    Scalar,
    Tape,
    Value,
    add,
    cos,
    divide,
    is_same_value,
    multiply,
    negate,
    select,
    sin,
    subtract,
)
from .tracer import eliminate_dead_code

TANGENT_PREFIX = "t "
"""Prefix of the names of arrays and arenas of tangents."""


def jvp(
    program: Program,
    inputs: Collection[tuple[str, int]],
    array_offsets: Mapping[str, ArenaOffset] | None = None,
    arena_rows: Mapping[str, int] | None = None,
) -> Program:
    """Jacobian-vector product of a program by forward-mode automatic differentiation, as a new program.

    The new program reads and writes the arrays of `program`, and for each array x with a derivative the array `t x` of
    its tangents, at the same offset in the arena `t a` of its arena a. Tangents of inputs are read where the program
    reads the inputs, tangents of outputs are written with the outputs; an array that is updated in place has its
    tangents updated in place. Tangents of scratch memory, and of the arenas in `arena_rows`, are stored in the same
    arena, behind its own rows.

    Args:
        program: program without cooperative statements (warp regions, work queues, intrinsics).
        inputs: cells (arena, row) that have tangents before the program runs; all others are constant.
        array_offsets: array -> arena and first row, for arrays that are named outside of loops; an array that is not
            listed is an arena of its own.
        arena_rows: number of rows of the arenas that store tangents behind their own rows.

    Raises:
        KinemaError: the program has statements without a derivative.
    """
    varied = VariedCells(program, array_offsets or {}, inputs)
    return _ForwardMode(program, varied, {**(arena_rows or {}), SCRATCH: program.n_scratch}).transform()


class _ForwardMode:
    """Transformation of a program to its tangent program."""

    def __init__(self, program: Program, varied: VariedCells, shifts: Mapping[str, int]) -> None:
        self.program, self.varied = program, varied
        self.shifts = shifts
        """Arena -> distance in rows of a tangent from its value, for arenas that store both."""

    def transform(self) -> Program:
        """Return the tangent program (JVP); its scratch memory and local arrays hold values and their tangents."""
        program, n = self.program, self.program.n_scratch
        body = self.statements(program.body, ())
        tangent_locals = {TANGENT_PREFIX + name: size for name, size in program.locals.items()}
        starts = [*program.allocation_starts, *(start + n for start in program.allocation_starts)]
        return replace(
            program,
            body=body,
            locals={**program.locals, **tangent_locals},
            n_scratch=2 * n,
            allocation_starts=starts,
            oversized_lists=frozenset(),
        )

    def statements(self, statements: Statements, scopes: Scopes) -> Statements:
        return tuple(self.statement(statement, scopes) for statement in statements)

    def statement(self, statement: Statement, scopes: Scopes) -> Statement:
        """Return a statement with tangents: control flow is unchanged, basic blocks also compute their linearisation.

        Raises KinemaError for cooperative statements (warp regions, work queues, intrinsics).
        """
        match statement:
            case BasicBlock():
                return self.basic_block(statement, scopes)
            case ForEachLoop():
                return self.for_each_loop(statement, scopes)
            case CountedLoop():
                accumulators = [*statement.reductions, *map(self.tangent_of, statement.reductions)]
                return replace(statement, body=self.statements(statement.body, scopes), reductions=tuple(accumulators))
            case WhileLoop() | If():
                return replace(statement, body=self.statements(statement.body, scopes))
            case _:
                raise KinemaError(f"there is no derivative of {type(statement).__name__} {statement.name!r}")

    def for_each_loop(self, loop: ForEachLoop, scopes: Scopes) -> ForEachLoop:
        """Return a for-each loop extended by tangents of its bodies; its integer table gets columns of tangent offsets.

        Only arrays in arenas that store values and tangents (`shifts`) need columns; others have a tangent arena.
        """
        new_columns: dict[tuple[int, int], int] = {}
        specializations = []
        for scope in self.varied.rows.scopes_of(loop):
            specialization = scope.specialization
            columns = dict(specialization.array_columns)
            for array, (arena, column) in specialization.array_columns.items():
                if arena in self.shifts:
                    tangent_column = new_columns.setdefault(
                        (column, self.shifts[arena]), loop.ints.shape[1] + len(new_columns)
                    )
                    columns[TANGENT_PREFIX + array] = (arena, tangent_column)
                else:
                    columns[TANGENT_PREFIX + array] = (TANGENT_PREFIX + arena, column)
            body = self.statements(specialization.body, (*scopes, scope))
            specializations.append(
                LoopSpecialization(specialization.key, body, columns, specialization.constant_columns)
            )
        added = [loop.ints[:, column] + shift for column, shift in new_columns]
        ints = np.column_stack([loop.ints, *added]).astype(np.int32)
        return replace(loop, specializations=tuple(specializations), ints=ints)

    def tangent_of(self, location: MemoryLocation) -> MemoryLocation:
        """Memory reference of the tangent of a cell."""
        if location.array in self.shifts:
            return location._replace(element=location.element + self.shifts[location.array])
        return location._replace(array=TANGENT_PREFIX + location.array)

    def basic_block(self, block: BasicBlock, scopes: Scopes) -> BasicBlock:
        """Return a basic block in which each instruction is followed by its linearisation, without dead code.

        Tangents of varied cells are loaded with the cells and stored with them.
        """
        tape = Tape()
        values: dict[int, Value] = {}
        tangents: dict[int, Value] = {}
        for result, op, args, location in block.instructions:
            tangent: Value = 0.0
            if location is not None:
                index = None if location.index is None else values[location.index]
                values[result] = tape.input(location.array, location.element, index)
                if self.varied.is_varied(location, scopes):
                    reference = self.tangent_of(location)
                    tangent = tape.input(reference.array, reference.element, index)
            elif op == "loop_index":
                values[result] = tape.record(op)
            else:
                operands = [values[a] if type(a) is int else a for a in args]
                operand_tangents = [tangents.get(a, 0.0) if type(a) is int else 0.0 for a in args]
                values[result] = _evaluate(op, operands)
                if any(type(t) is Scalar or t != 0.0 for t in operand_tangents):
                    tangent = _JVP_RULES[op](values[result], *zip(operands, operand_tangents, strict=True))
            if type(tangent) is Scalar or tangent != 0.0:
                tangents[result] = tangent
        stores = []
        for location, value in block.stores:
            index = None if location.index is None else tape.operand(values[location.index])
            target = location._replace(index=index)
            stores.append(Store(target, tape.operand(values[value]) if type(value) is int else value))
            if self.varied.is_varied(location, scopes):
                tangent = tangents.get(value, 0.0) if type(value) is int else 0.0
                stores.append(Store(self.tangent_of(target), tape.operand(tangent)))
        return eliminate_dead_code(tape, stores)


def _evaluate(op: str, operands: list[Value]) -> Value:
    """Value of an operation; `detach` and `attach`, which concern derivatives only, return their first operand."""
    return operands[0] if op in ("detach", "attach") else OP_FUNCTIONS[op](*operands)


def _select_tangent(a: Value, b: Value, x: Value, y: Value) -> Value:
    """Tangent of a selection between two values with the tangents x and y."""
    return x if is_same_value(x, y) else select(a, b, x, y)


def _sqrt_tangent(y: Value, x: tuple[Value, Value]) -> Value:
    """Tangent of a square root, 0 at 0."""
    return select(0.0, y, multiply(x[1], divide(0.5, select(0.0, y, y, 1.0))), 0.0)


Dual = tuple[Value, Value]
_JVP_RULES: dict[str, Callable[..., Value]] = {
    "add": lambda _, a, b: add(a[1], b[1]),
    "sub": lambda _, a, b: subtract(a[1], b[1]),
    "mul": lambda _, a, b: add(multiply(a[1], b[0]), multiply(a[0], b[1])),
    "neg": lambda _, a: negate(a[1]),
    "reciprocal": lambda y, a: negate(multiply(a[1], multiply(y, y))),
    "sqrt": _sqrt_tangent,
    "sin": lambda _, a: multiply(a[1], cos(a[0])),
    "cos": lambda _, a: negate(multiply(a[1], sin(a[0]))),
    "abs": lambda _, a: _select_tangent(a[0], 0.0, negate(a[1]), a[1]),
    "floor": lambda _, a: 0.0,
    "any": lambda _, a: 0.0,
    "min": lambda _, a, b: _select_tangent(b[0], a[0], b[1], a[1]),
    "max": lambda _, a, b: _select_tangent(a[0], b[0], b[1], a[1]),
    "select": lambda _, a, b, x, y: _select_tangent(a[0], b[0], x[1], y[1]),
    "fma": lambda _, a, b, c: add(add(multiply(a[1], b[0]), multiply(a[0], b[1])), c[1]),
    "fms": lambda _, a, b, c: subtract(add(multiply(a[1], b[0]), multiply(a[0], b[1])), c[1]),
    "fnma": lambda _, a, b, c: subtract(c[1], add(multiply(a[1], b[0]), multiply(a[0], b[1]))),
    "detach": lambda _, a: 0.0,
    "attach": lambda _, value, carrier: carrier[1],
}
"""Operation -> function of result and operands, each with its tangent, that returns the tangent of the result."""
