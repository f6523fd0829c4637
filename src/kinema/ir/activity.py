"""Activity analysis for automatic differentiation: memory cells that depend on inputs and that outputs depend on.

The analyses are flow-insensitive: a cell is *varied* if any store gives it a value that depends on a varied cell, and
*useful* if any load of it contributes to a useful cell. The cells of one memory reference in all iterations of a loop
specialization are treated alike, as they run the same code.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from .memory import CONSTANT_PREFIX, SCRATCH, ArenaOffset, MemoryLocation
from .program import BasicBlock, ForEachLoop, LoopSpecialization, Program, Statements, nested_bodies

NON_DIFFERENTIABLE = frozenset({"floor", "any", "loop_index", "detach"})
"""Operations whose derivative is zero."""

_SMOOTH = frozenset({"add", "sub", "mul", "neg", "fma", "fms", "fnma"})
"""The most frequent operations with a derivative by all operands."""


def derivative_operands(op: str, args: tuple[object, ...]) -> tuple[object, ...]:
    """Operands on which the derivative of an operation depends; not the comparison of a selection, for example."""
    if op in NON_DIFFERENTIABLE:
        return ()
    if op == "select":
        return args[2:]
    return args[1:] if op == "attach" else args


@dataclass(frozen=True, slots=True, eq=False)
class Scope:
    """Iterations of a loop specialization, with the offsets of the arrays in its code."""

    specialization: LoopSpecialization
    ints: np.ndarray
    """(n_rows, n_columns) integers of the rows of the specialization."""
    floats: np.ndarray
    """(n_rows, n_columns) constants of the rows of the specialization."""


Scopes = tuple[Scope, ...]
"""Enclosing loop specializations of some code, outermost first."""


def find_scope(array: str, scopes: Scopes) -> Scope | None:
    """Innermost enclosing specialization that defines an array."""
    return next((scope for scope in reversed(scopes) if array in scope.specialization.array_columns), None)


class CellRows:
    """Resolves memory references of a program to memory cells: arena and rows."""

    def __init__(self, program: Program, array_offsets: Mapping[str, ArenaOffset]) -> None:
        self.program, self.array_offsets = program, array_offsets
        self._scopes: dict[int, tuple[ForEachLoop, Scopes]] = {}
        """Scopes of each for-each loop by the identity of the loop, which the entry keeps alive."""
        self._cache: dict[tuple[str, int, bool, int], tuple[str, list[int]]] = {}
        """Results by array, element, whether the index is static, and identity of the scope, which `_scopes` keeps
        alive."""
        self._columns: dict[tuple[int, int], np.ndarray] = {}
        """Different values of a column of integers, by identity of the scope and column."""
        self._resolved: dict[tuple[MemoryLocation, Scopes], tuple[str, list[int]]] = {}
        """Results by reference and enclosing scopes."""
        self._bounds = np.unique([0, *program.allocation_starts, program.n_scratch])
        """Starts of the allocations of scratch memory, and its end."""
        self._allocations: dict[bytes, list[int]] = {}
        """Rows of sets of allocations, by their indices in `_bounds`."""

    def scopes_of(self, loop: ForEachLoop) -> Scopes:
        """The specializations of a loop with their iterations, the same objects at each call."""
        if id(loop) not in self._scopes:
            indices = loop.specialization_indices()
            scopes = [
                Scope(x, loop.ints[indices == i], loop.floats[indices == i]) for i, x in enumerate(loop.specializations)
            ]
            self._scopes[id(loop)] = loop, tuple(scopes)
        return self._scopes[id(loop)][1]

    def resolve(self, location: MemoryLocation, scopes: Scopes) -> tuple[str, list[int]]:
        """Arena and rows of a reference in all executions.

        `scopes` are objects that `scopes_of` has returned. A reference at a dynamic index may be to any row of its
        allocation in scratch memory or of its local array; otherwise the whole arena is represented by row -1.
        """
        resolved = self._resolved.get((location, scopes))
        if resolved is None:
            scope = find_scope(location.array, scopes)
            key = location.array, location.element, location.index is None, id(scope)
            resolved = self._cache.get(key)
            if resolved is None:
                resolved = self._cache[key] = self._resolve(location, scope)
            self._resolved[location, scopes] = resolved
        return resolved

    def _resolve(self, location: MemoryLocation, scope: Scope | None) -> tuple[str, list[int]]:
        """Arena and rows of all cells that a memory reference may access, in the loop scope that binds its array."""
        if scope is None:
            arena, row = self.array_offsets.get(location.array, ArenaOffset(location.array, 0))
            starts = [row + location.element]
        else:
            name, column = scope.specialization.array_columns[location.array]
            arena, row = self.array_offsets.get(name, ArenaOffset(name, 0))  # an array or an arena
            key = id(scope), column
            if key not in self._columns:
                self._columns[key] = np.unique(scope.ints[:, column])
            starts = (self._columns[key] + (row + location.element)).tolist()
        if location.index is None:
            return arena, starts
        if arena in self.program.locals:
            return arena, list(range(self.program.locals[arena]))
        if arena != SCRATCH:
            return arena, [-1]
        return arena, self._rows_of_allocations(starts)

    def _rows_of_allocations(self, starts: list[int]) -> list[int]:
        """All rows of the allocations of scratch memory that contain some rows, the same list for the same ones."""
        indices = np.unique(np.searchsorted(self._bounds, starts, side="right"))
        key = indices.tobytes()
        if key not in self._allocations:
            rows = [np.arange(int(self._bounds[i - 1]), int(self._bounds[i])) for i in indices]
            self._allocations[key] = np.concatenate(rows).tolist()
        return self._allocations[key]


class CellSet:
    """Growing set of memory cells that is queried by the lists of rows that a `CellRows` returns, and keeps alive."""

    def __init__(self, cells: Collection[tuple[str, int]] = ()) -> None:
        self.rows: dict[str, set[int]] = {}
        """Arena -> rows in the set; -1 for an unknown row, which may be any."""
        self.version = 0
        """Number of changes of the set."""
        for arena, row in cells:
            self.rows.setdefault(arena, set()).add(row)
        self._added: set[int] = set()
        """Identities of lists of rows that are in the set."""
        self._included: set[int] = set()
        """Identities of lists of rows of which some are in the set: cells are never removed."""
        self._excluded: dict[int, int] = {}
        """Identities of lists of rows of which none was in the set, and the number of cells of their arena then."""

    def includes_any(self, arena: str, rows: list[int]) -> bool:
        """Whether any of some cells may be in the set."""
        if id(rows) in self._included:
            return True
        cells = self.rows.get(arena)
        if cells is None or self._excluded.get(id(rows)) == len(cells):
            return False
        if rows == [-1] or -1 in cells or not cells.isdisjoint(rows):
            self._included.add(id(rows))
            return True
        self._excluded[id(rows)] = len(cells)
        return False

    def add(self, arena: str, rows: list[int]) -> bool:
        """Add cells; returns whether any was not in the set."""
        if id(rows) in self._added:
            return False
        self._added.add(id(rows))
        cells = self.rows.setdefault(arena, set())
        before = len(cells)
        cells.update(rows)
        if len(cells) == before:
            return False
        self.version += 1
        return True


class _CellAnalysis:
    """Set of memory cells with a property that spreads through basic blocks, found by a fixed-point iteration."""

    def __init__(self, program: Program, rows: CellRows, cells: Collection[tuple[str, int]], *, backward: bool) -> None:
        self.rows = rows
        self._found = CellSet(cells)
        self.cells = self._found.rows
        """Arena -> rows with the property."""
        self._backward = backward
        self._undetermined: dict[tuple[int, Scopes], list[tuple[str, list[int]]]] = {}
        """References (arena, rows) of a block on which the analysis of the block depends, and which were not in the set
        when the block was visited last, by identity of the block."""
        self._changed = True
        while self._changed:
            self._changed = False
            self._visit(program.body, ())

    def includes(self, location: MemoryLocation, scopes: Scopes) -> bool:
        """Whether a memory reference may refer to a cell of the set."""
        if location.array.startswith(CONSTANT_PREFIX):
            return False
        return self._found.includes_any(*self.rows.resolve(location, scopes))

    def _mark(self, location: MemoryLocation, scopes: Scopes) -> None:
        """Add the cells of a reference, in all iterations."""
        self._changed |= self._found.add(*self.rows.resolve(location, scopes))

    def _visit(self, statements: Statements, scopes: Scopes) -> None:
        """One pass of the fixed-point iteration: visit all basic blocks, which add cells to the set.

        In program order, or in reverse order for a backward analysis.
        """
        for statement in reversed(statements) if self._backward else statements:
            if isinstance(statement, ForEachLoop):
                for scope in self.rows.scopes_of(statement):
                    self._visit(scope.specialization.body, (*scopes, scope))
            elif isinstance(statement, BasicBlock):
                self._visit_block_if_changed(statement, scopes)
            else:
                for body in nested_bodies(statement):
                    self._visit(body, scopes)

    def _visit_block_if_changed(self, block: BasicBlock, scopes: Scopes) -> None:
        """Visit a block unless all references that determine the result are as they were at the last visit."""
        key, includes_any = (id(block), scopes), self._found.includes_any
        cells = self._undetermined.get(key)
        if cells is None:
            locations = [x for x in self._determining(block) if not x.array.startswith(CONSTANT_PREFIX)]
            cells = [self.rows.resolve(x, scopes) for x in locations]
        elif not any(includes_any(arena, rows) for arena, rows in cells):
            return
        self._undetermined[key] = [x for x in cells if not includes_any(*x)]
        self._visit_block(block, scopes)

    def _determining(self, block: BasicBlock) -> list[MemoryLocation]:
        """References of a block that determine, by whether they are in the set, which cells the block adds."""
        raise NotImplementedError

    def _visit_block(self, block: BasicBlock, scopes: Scopes) -> None:
        """Add the cells that have the property because of a block."""
        raise NotImplementedError


class VariedCells(_CellAnalysis):
    """Cells that depend on the inputs of a derivative."""

    def __init__(
        self, program: Program, array_offsets: Mapping[str, ArenaOffset], inputs: Collection[tuple[str, int]]
    ) -> None:
        """Find the varied cells.

        Args:
            program: program to be differentiated.
            array_offsets: array -> arena and first row, for arrays named outside of loops.
            inputs: cells (arena, row) with a derivative before the program runs.
        """
        super().__init__(program, CellRows(program, array_offsets), inputs, backward=False)

    def is_varied(self, location: MemoryLocation, scopes: Scopes) -> bool:
        """Whether a memory reference may refer to a varied cell."""
        return self.includes(location, scopes)

    def varied_values(self, block: BasicBlock, scopes: Scopes) -> set[int]:
        """Value numbers of the instructions of a basic block whose results depend on varied cells."""
        varied: set[int] = set()
        for result, op, args, location in block.instructions:
            if location is not None:
                if self.is_varied(location, scopes):
                    varied.add(result)
                continue
            for a in args if op in _SMOOTH else derivative_operands(op, args):
                if type(a) is int and a in varied:
                    varied.add(result)
                    break
        return varied

    def _determining(self, block: BasicBlock) -> list[MemoryLocation]:
        return list(block.locations())

    def _visit_block(self, block: BasicBlock, scopes: Scopes) -> None:
        varied = self.varied_values(block, scopes)
        for result, _, _, location in block.instructions:
            if location is not None and result in varied:
                self._mark(location, scopes)  # all iterations load derivatives
        for location, value in block.stores:
            if (type(value) is int and value in varied) or self.is_varied(location, scopes):
                self._mark(location, scopes)


class UsefulCells(_CellAnalysis):
    """Cells that the outputs of a derivative depend on."""

    def __init__(self, program: Program, rows: CellRows, outputs: Collection[tuple[str, int]]) -> None:
        super().__init__(program, rows, outputs, backward=True)

    def is_useful(self, location: MemoryLocation, scopes: Scopes) -> bool:
        """Whether a memory reference may refer to a useful cell."""
        return self.includes(location, scopes)

    def useful_values(self, block: BasicBlock, scopes: Scopes) -> set[int]:
        """Value numbers of the instructions of a basic block on whose results useful cells depend."""
        useful = {
            store.value for store in block.stores if type(store.value) is int and self.is_useful(store.location, scopes)
        }
        for result, op, args, location in reversed(block.instructions):
            if location is None and result in useful:
                useful.update([a for a in derivative_operands(op, args) if type(a) is int])
        return useful

    def _determining(self, block: BasicBlock) -> list[MemoryLocation]:
        return [location for location, _ in block.stores]

    def _visit_block(self, block: BasicBlock, scopes: Scopes) -> None:
        for location, _ in block.stores:
            if self.is_useful(location, scopes):
                self._mark(location, scopes)  # all iterations have adjoints
        useful = self.useful_values(block, scopes)
        for result, _, _, location in block.instructions:
            if location is not None and result in useful and not location.array.startswith(CONSTANT_PREFIX):
                self._mark(location, scopes)
