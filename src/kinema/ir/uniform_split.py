"""Split of a program into a uniform part, which is executed once, and a varying part, executed for each lane.

Lanes whose memory differs in some cells only, such as the adjoints of several directions at the same state, compute
most values again and again. The uniformity analysis finds the values that are the same in all lanes. The *uniform
program* computes these with scalar code. The *varying program* computes the others in SIMD lanes, and loads uniform
values from the memory of the uniform program (arena `PRECOMPUTED`), from where they are broadcast.

Basic blocks outside of loops are split: uniform values that varying operations need are exported. A loop belongs to one
of the programs; in the varying one, its uniform values are computed again, as scalars. Control flow must be uniform.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from .activity import CellRows, Scopes, VariedCells, find_scope
from .memory import CONSTANT_PREFIX, PRECOMPUTED, SCRATCH, UNIFORM, ArenaOffset, MemoryLocation
from .outline import local_arrays_used
from .program import (
    BasicBlock,
    CountedLoop,
    ForEachLoop,
    If,
    Instruction,
    LoopSpecialization,
    Program,
    Statement,
    Statements,
    Store,
    WhileLoop,
    map_bodies,
    nested_bodies,
)
from .symbolic import Value
from .tracer import Tracer

MAX_UNROLLED_COPIES = 16
"""Number of elements of a local array from which on they are copied to the memory of the uniform program in a loop."""
PrecomputedRows = dict[str, int]
"""Arena or local array -> row of its first element in the memory of the uniform program."""


class NotSplittableError(Exception):
    """Raised where the uniform and the varying part of a program depend on each other in both directions."""


@dataclass(frozen=True, slots=True)
class SplitProgram:
    """A program as a uniform and a varying one."""

    uniform: Program
    """Program that is executed once; its scratch memory is the arena `PRECOMPUTED` of the other one."""
    varying: Program
    """Program that is executed for all lanes (`Program.uniform_locals`)."""


def split_uniform(
    program: Program, array_offsets: Mapping[str, ArenaOffset], varying_cells: Collection[tuple[str, int]]
) -> SplitProgram:
    """Split a program into a uniform and a varying part.

    Args:
        program: program without cooperative statements.
        array_offsets: array -> arena and first row, for arrays that are named outside of loops.
        varying_cells: cells (arena, row) that differ between lanes before the program runs.

    Raises:
        NotSplittableError: control flow varies, or values of the parts depend on each other in both directions.
    """
    return _Splitter(program, array_offsets, _find_varying(program, array_offsets, varying_cells)).split()


# ---------------------------------------------------------------------------------------------------------- uniformity


class VaryingCells(VariedCells):
    """Uniformity analysis: cells that may differ between lanes."""

    def __init__(
        self, program: Program, array_offsets: Mapping[str, ArenaOffset], inputs: Collection[tuple[str, int]]
    ) -> None:
        self._known: dict[int, tuple[bool, int]] = {}
        """Whether any of some rows varies, and how many cells of the arena did when this was found, by identity of the
        list of rows, which `CellRows` keeps."""
        super().__init__(program, array_offsets, inputs)

    def includes(self, location: MemoryLocation, scopes: Scopes) -> bool:
        """Whether a memory reference may refer to a varying cell."""
        if location.array.startswith(CONSTANT_PREFIX):
            return False
        arena, rows = self.rows.resolve(location, scopes)
        cells = self.cells.get(arena)
        if cells is None:
            return False
        known, n_cells = self._known.get(id(rows), (False, -1))
        if not known and n_cells != len(cells):
            known = rows == [-1] or -1 in cells or not cells.isdisjoint(rows)
            self._known[id(rows)] = known, len(cells)
        return known

    def varied_values(self, block: BasicBlock, scopes: Scopes) -> set[int]:
        """Value numbers of the instructions of a basic block whose results may differ between lanes."""
        varying: set[int] = set()
        for result, _, args, location in block.instructions:
            if location is not None:
                if location.index in varying or self.is_varied(location, scopes):
                    varying.add(result)
            elif any(type(a) is int and a in varying for a in args):
                varying.add(result)
        return varying


@dataclass(slots=True, eq=False)
class _Uniformity:
    """Cells that differ between lanes, and what the loops of the varying program write."""

    cells: VaryingCells
    varying_loops: set[int] = field(default_factory=set)
    """Identities of the outermost loops that store to varying cells."""
    loop_written: set[tuple[str, int]] = field(default_factory=set)
    """Uniform elements (array, element) of local arrays that these loops store to."""


def _find_varying(
    program: Program, array_offsets: Mapping[str, ArenaOffset], varying_cells: Collection[tuple[str, int]]
) -> _Uniformity:
    """Uniformity analysis of a program."""
    found = _Uniformity(VaryingCells(program, array_offsets, varying_cells))
    for arena, rows in found.cells.cells.items():
        if arena != SCRATCH and arena not in program.locals and {(arena, row) for row in rows} - set(varying_cells):
            raise NotSplittableError(f"further rows of the arena {arena!r} may vary")
    for loop in _outer_loops(program.body):
        stores = list(_stores((loop,), (), found.cells))
        if not any(is_varying for _, _, is_varying in stores):
            continue
        found.varying_loops.add(id(loop))
        for location, scopes, is_varying in stores:
            if not is_varying:
                if location.array not in program.locals or find_scope(location.array, scopes) is not None:
                    raise NotSplittableError(f"a loop of the varying part stores uniform values to {location.array!r}")
                arena, rows = found.cells.rows.resolve(location, scopes)
                found.loop_written.update((arena, row) for row in rows)
    return found


def _outer_loops(statements: Statements) -> Iterator[Statement]:
    """Loops that are not inside another loop."""
    for statement in statements:
        if isinstance(statement, If):
            yield from _outer_loops(statement.body)
        elif not isinstance(statement, BasicBlock):
            yield statement


def _stores(
    statements: Statements, scopes: Scopes, varying: VaryingCells
) -> Iterator[tuple[MemoryLocation, Scopes, bool]]:
    """Stores of statements, nested ones included: location, enclosing specializations, whether the cells vary."""
    for block, inner in _blocks(statements, scopes, varying.rows):
        for location, _ in block.stores:
            yield location, inner, varying.is_varied(location, inner)


def _blocks(statements: Statements, scopes: Scopes, rows: CellRows) -> Iterator[tuple[BasicBlock, Scopes]]:
    """Basic blocks of statements, nested ones included, with the enclosing loop specializations."""
    for statement in statements:
        match statement:
            case BasicBlock():
                yield statement, scopes
            case ForEachLoop():
                for scope in rows.scopes_of(statement):
                    yield from _blocks(scope.specialization.body, (*scopes, scope), rows)
            case _:
                for body in nested_bodies(statement):
                    yield from _blocks(body, scopes, rows)


# --------------------------------------------------------------------------------------------------------------- split


class _Splitter:
    """Split of one program; statements outside of loops have positions, numbered in program order."""

    def __init__(self, program: Program, array_offsets: Mapping[str, ArenaOffset], found: _Uniformity) -> None:
        self.program, self.array_offsets = program, array_offsets
        self.varying, self.rows = found.cells, found.cells.rows
        self.varying_loops, self.loop_written = found.varying_loops, found.loop_written
        self.position = 0
        """Position of the current statement."""
        self.last_writes: dict[str, np.ndarray] = {SCRATCH: np.full(program.n_scratch + 1, -1, np.int32)}
        """Arena or local array -> position of the last statement of the uniform program that stores to each uniform
        cell, -1 for none."""
        self.unknown_writes: set[str] = set()
        """Arenas to which the uniform program stores at unknown rows."""
        self._row_arrays: dict[int, np.ndarray] = {}
        """Arrays of rows, by identity of the list of rows, which `CellRows` keeps."""
        self.n_rows = program.n_scratch
        """Rows of the memory of the uniform program."""
        self.starts: PrecomputedRows = {SCRATCH: 0}
        self.copied: dict[str, set[int]] = {}
        """Rows of other arenas, and elements of local arrays, that are copied at the end of the uniform program."""
        self.uniform_locals: dict[str, int] = {}
        """Local arrays of uniform elements that the loops of the varying program store to, with their sizes."""

    def split(self) -> SplitProgram:
        """Return both programs."""
        self._check_control(self.program.body, ())
        self._record_writes(self.program.body)
        self.position = 0
        uniform, varying = self._statements(self.program.body)
        uniform = self._with_moved_arrays(uniform)
        copies = self._copies()
        program, starts = self.program, list(self.program.allocation_starts)
        first = replace(
            program,
            body=(*uniform, *copies.body),
            locals={**program.locals, **copies.locals},
            n_scratch=self.n_rows,
            allocation_starts=[*starts, program.n_scratch],
            outlined={},
        )
        second = replace(
            program,
            body=varying,
            locals={**program.locals, **self.uniform_locals},
            uniform_locals=frozenset(self.uniform_locals),
            outlined={},
        )
        return SplitProgram(_without_unused_locals(first), _without_unused_locals(second))

    def _check_control(self, statements: Statements, scopes: Scopes) -> None:
        """Raise `NotSplittableError` if a condition, trip count or list of active iterations differs between lanes."""
        for statement in statements:
            match statement:
                case BasicBlock():
                    continue
                case ForEachLoop():
                    if statement.joined_rows:
                        raise NotSplittableError(f"joined loop {statement.name!r}")
                    if statement.active_iterations is not None and id(statement) in self.varying_loops:
                        raise NotSplittableError(f"list of iterations of {statement.name!r}")
                    for scope in self.rows.scopes_of(statement):
                        self._check_control(scope.specialization.body, (*scopes, scope))
                    continue
                case CountedLoop():
                    location = statement.count
                case WhileLoop() | If():
                    location = statement.condition
                case _:
                    raise NotSplittableError(f"cooperative statement {statement.name!r}")
            if self.varying.is_varied(location, scopes):
                raise NotSplittableError(f"control flow of {statement.name!r} varies")
            self._check_control(statement.body, scopes)

    def _record_writes(self, statements: Statements) -> None:
        """Record the last position at which the uniform program stores to each cell."""
        for statement in statements:
            self.position += 1
            if isinstance(statement, If):
                self._record_writes(statement.body)
            elif id(statement) not in self.varying_loops:
                for location, scopes, is_varying in _stores((statement,), (), self.varying):
                    if not is_varying:
                        arena, rows = self._cells(location, scopes)
                        if -1 in rows:
                            self.unknown_writes.add(arena)
                        else:
                            self._writes_to(arena, rows)[rows] = self.position
        for arena, row in self.loop_written:
            if self.last_writes.get(arena, np.zeros(0))[row : row + 1].max(initial=-1) >= 0:
                raise NotSplittableError("both parts store to the same cells")

    def _cells(self, location: MemoryLocation, scopes: Scopes) -> tuple[str, np.ndarray]:
        """Arena and rows of a reference."""
        arena, rows = self.rows.resolve(location, scopes)
        if id(rows) not in self._row_arrays:
            self._row_arrays[id(rows)] = np.array(rows, np.int64)
        return arena, self._row_arrays[id(rows)]

    def _writes_to(self, arena: str, rows: np.ndarray) -> np.ndarray:
        """Positions of the last stores to the cells of an arena or local array, which are enough for some rows."""
        writes, size = self.last_writes.get(arena, np.zeros(0, np.int32)), int(rows.max(initial=0)) + 1
        if len(writes) < size:
            writes = np.concatenate([writes, np.full(size - len(writes), -1, np.int32)])
            self.last_writes[arena] = writes
        return writes

    def _statements(self, statements: Statements) -> tuple[Statements, Statements]:
        """Uniform and varying part of a sequence of statements."""
        uniform: list[Statement] = []
        varying: list[Statement] = []
        for statement in statements:
            self.position += 1
            if isinstance(statement, BasicBlock):
                first, second = self._basic_block(statement)
                uniform += [first] if first.stores else []
                varying += [second] if second.stores else []
            elif isinstance(statement, If):
                condition = statement.condition
                position = self.position
                bodies = self._statements(statement.body)
                uniform += [replace(statement, body=bodies[0])] if bodies[0] else []
                if bodies[1]:
                    location = self._precomputed(condition, (), position)
                    varying.append(replace(statement, condition=location, body=bodies[1], scalarize=False))
            elif id(statement) in self.varying_loops:
                varying += self._varying_statements((statement,), ())
            else:
                uniform.append(statement)
        return tuple(uniform), tuple(varying)

    # ------------------------------------------------------------------------------------------------- uniform memory

    def _start(self, array: str) -> int:
        """First row of an arena or local array in the memory of the uniform program."""
        if array not in self.starts:
            self.starts[array] = self.n_rows
            size = self.program.locals.get(array)
            self.n_rows += self._arena_size(array) if size is None else size
        return self.starts[array]

    def _is_final(self, arena: str, rows: np.ndarray, position: int) -> bool:
        """Whether the uniform program does not change cells after a position."""
        return arena not in self.unknown_writes and self._writes_to(arena, rows)[rows].max(initial=-1) < position

    def _mirror(self, location: MemoryLocation, scopes: Scopes, position: int) -> tuple[str, int] | None:
        """Arena or local array of a uniform reference, and its start in the memory of the uniform program.

        None if the varying program accesses the cells itself: those of constants, of the uniform arena, and elements of
        local arrays that its loops store to.

        Raises:
            NotSplittableError: the cells change after `position`, or are not known.
        """
        if any(location in scope.specialization.constant_columns for scope in scopes):
            return None
        arena, rows = self._cells(location, scopes)
        if arena == UNIFORM:
            return None
        if arena in self.program.locals:
            is_written = [(arena, row) in self.loop_written for row in rows.tolist()]
            if all(is_written):
                return None
            if any(is_written):
                raise NotSplittableError(f"both parts store to {location.array!r}")
        if -1 in rows or not self._is_final(arena, rows, position):
            raise NotSplittableError(f"{location.array!r} changes")
        if arena == SCRATCH:
            return arena, 0
        self.copied.setdefault(arena, set()).update(rows.tolist())
        return arena, self._start(arena)

    def _arena_size(self, arena: str) -> int:
        """Number of rows of an arena that the program may access."""
        columns = [
            int(loop.ints[:, column].max(initial=0)) + self.array_offsets.get(name, ArenaOffset(name, 0)).row
            for loop in self.program.for_each_loops
            for specialization in loop.specializations
            for name, column in specialization.array_columns.values()
            if self.array_offsets.get(name, ArenaOffset(name, 0)).arena == arena
        ]
        starts = [offset.row for offset in self.array_offsets.values() if offset.arena == arena]
        elements = [location.element for block, _ in self._all_blocks() for location in block.locations()]
        return max([0, *columns, *starts]) + max([0, *elements]) + 1

    def _all_blocks(self) -> Iterator[tuple[BasicBlock, Scopes]]:
        return _blocks(self.program.body, (), self.rows)

    def _precomputed(self, location: MemoryLocation, scopes: Scopes, position: int) -> MemoryLocation:
        """Reference of the varying program to a uniform cell, outside of for-each loops or named outside of them."""
        found = self._mirror(location, scopes, position)
        if found is None:
            return self._uniform_local(location) if location.array in self.program.locals else location
        offset = self.array_offsets.get(location.array, ArenaOffset(location.array, 0))
        return MemoryLocation(PRECOMPUTED, found[1] + offset.row + location.element, location.index)

    def _uniform_local(self, location: MemoryLocation) -> MemoryLocation:
        """Reference to uniform elements of a local array, which may have varying ones too, in an array of their own."""
        name = f"uniform local {location.array}"
        self.uniform_locals[name] = self.program.locals[location.array]
        return location._replace(array=name)

    def _with_moved_arrays(self, statements: Statements) -> Statements:
        """Statements of the uniform program, with local arrays that the varying one reads in its scratch memory.

        Arrays whose elements the tables of loops refer to are copied instead.
        """
        columns = [x.array_columns for loop in self.program.for_each_loops for x in loop.specializations]
        fixed = {name for x in columns for array, (arena, _) in x.items() for name in (array, arena)}
        names = (self.copied.keys() & self.program.locals.keys()) - fixed
        moved = {array: self.starts[array] for array in sorted(names)}
        for array in moved:
            del self.copied[array]

        def location(x: MemoryLocation) -> MemoryLocation:
            start = moved.get(x.array)
            return x if start is None else MemoryLocation(SCRATCH, start + x.element, x.index)

        def visit(body: Statements) -> Statements:
            return tuple(map(statement, body))

        def statement(x: Statement) -> Statement:
            match x:
                case BasicBlock():
                    instructions = [
                        i if i.location is None else i._replace(location=location(i.location)) for i in x.instructions
                    ]
                    return BasicBlock(tuple(instructions), tuple(Store(location(a), value) for a, value in x.stores))
                case CountedLoop():
                    return replace(x, count=location(x.count), body=visit(x.body))
                case If() | WhileLoop():
                    return replace(x, condition=location(x.condition), body=visit(x.body))
            return map_bodies(x, visit)

        return visit(statements) if moved else statements

    def _named(self, arena: str, row: int) -> tuple[str, int]:
        """Array and element of a row of an arena."""
        starts = [(offset.row, name) for name, offset in self.array_offsets.items() if offset.arena == arena]
        first, name = max((x for x in starts if x[0] <= row), default=(0, arena))
        return name, row - first

    def _copies(self) -> Program:
        """Statements that copy cells of arenas and local arrays to the memory of the uniform program."""
        tracer = Tracer("copy ")
        for array, rows in sorted(self.copied.items()):
            start = self.starts[array]
            if array in self.program.locals and len(rows) > MAX_UNROLLED_COPIES:

                def copy(i: Value, array: str = array, start: int = start) -> None:
                    tracer.write(SCRATCH, [tracer.read(array, 0, i)], start, i)

                tracer.counted_loop(f"copy {array}", float(self.program.locals[array]), copy, uniform=True)
            else:
                for row in sorted(rows):
                    tracer.write(SCRATCH, [tracer.read(*self._named(array, row))], start + row)
        return tracer.build()

    # --------------------------------------------------------------------------------------------------- basic blocks

    def _basic_block(self, block: BasicBlock) -> tuple[BasicBlock, BasicBlock]:
        """Uniform and varying part of a basic block outside of loops."""
        varying = self.varying.varied_values(block, ())
        stores: tuple[list[Store], list[Store]] = ([], [])
        for store in block.stores:
            stores[self.varying.is_varied(store.location, ())].append(store)
        if not stores[1]:
            return block, BasicBlock((), ())
        if any(store.location.index in varying for store in block.stores if store.location.index is not None):
            raise NotSplittableError("an index varies")
        needed = {value for store in stores[1] for value in store.uses}
        kept: list[Instruction] = []
        exported: list[Store] = []
        for instruction in reversed(block.instructions):
            result = instruction.result
            if result not in needed:
                continue
            if result in varying:
                needed.update(instruction.uses)
                kept.append(instruction)
            else:
                location = self._value_location(instruction)
                if location is None:
                    location = MemoryLocation(PRECOMPUTED, self.n_rows)
                    exported.append(Store(MemoryLocation(SCRATCH, self.n_rows), result))
                    self.n_rows += 1
                kept.append(Instruction(result, "input", (), location))
        second = BasicBlock(tuple(reversed(kept)), tuple(stores[1]))
        return _with_stores(block, (*stores[0], *exported)), second

    def _value_location(self, instruction: Instruction) -> MemoryLocation | None:
        """Reference of the varying program to a uniform value that a block loads; None if it is to be exported."""
        location = instruction.location
        if location is None or location.index is not None:
            return None
        arena, rows = self._cells(location, ())
        in_place = arena in (SCRATCH, UNIFORM) or arena in self.program.locals
        if not in_place or not self._is_final(arena, rows, self.position):
            return None
        return self._precomputed(location, (), self.position)

    # -------------------------------------------------------------------------------------------------- varying loops

    def _varying_statements(self, statements: Statements, scopes: Scopes) -> Statements:
        """Statements of the varying program, in loops: uniform references are to the memory of the uniform program."""
        return tuple(self._varying_statement(statement, scopes) for statement in statements)

    def _varying_statement(self, statement: Statement, scopes: Scopes) -> Statement:
        match statement:
            case BasicBlock():
                return self._varying_block(statement, scopes)
            case ForEachLoop():
                return self._varying_for_each(statement, scopes)
            case CountedLoop():
                count = self._reference(statement.count, scopes)
                return replace(statement, count=count, body=self._varying_statements(statement.body, scopes))
            case WhileLoop():
                condition = self._reference(statement.condition, scopes)
                return replace(statement, condition=condition, body=self._varying_statements(statement.body, scopes))
            case If():
                condition, body = (
                    self._reference(statement.condition, scopes),
                    self._varying_statements(statement.body, scopes),
                )
                return replace(statement, condition=condition, body=body, scalarize=False)
        raise AssertionError

    def _varying_for_each(self, loop: ForEachLoop, scopes: Scopes) -> ForEachLoop:
        """Varying for-each loop, with columns for uniform references."""
        columns: dict[tuple[int, int], int] = {}
        specializations = []
        for scope in self.rows.scopes_of(loop):
            specialization, inner = scope.specialization, (*scopes, scope)
            arrays = dict(specialization.array_columns)
            for array, (name, column) in specialization.array_columns.items():
                for location in self._uniform_references(array, inner):
                    found = self._mirror(location, inner, self.position)
                    if found is not None:
                        shift = found[1] + self.array_offsets.get(name, ArenaOffset(name, 0)).row
                        added = columns.setdefault((column, shift), loop.ints.shape[1] + len(columns))
                        arrays[_uniform_name(array)] = (PRECOMPUTED, added)
            body = self._varying_statements(specialization.body, inner)
            specializations.append(
                LoopSpecialization(specialization.key, body, arrays, specialization.constant_columns)
            )
        added_columns = [loop.ints[:, column] + shift for column, shift in columns]
        ints = np.column_stack([loop.ints, *added_columns]).astype(np.int32)
        return replace(loop, specializations=tuple(specializations), ints=ints)

    def _uniform_references(self, array: str, scopes: Scopes) -> list[MemoryLocation]:
        """Uniform loads of an array that the innermost specialization defines."""
        scope = scopes[-1]
        found: dict[MemoryLocation, None] = {}
        for block, inner in _blocks(scope.specialization.body, scopes, self.rows):
            for location in _loaded(block):
                is_of_scope = location.array == array and find_scope(array, inner) is scope
                if is_of_scope and not self.varying.is_varied(location, inner):
                    found[location] = None
        return list(found)

    def _reference(self, location: MemoryLocation, scopes: Scopes) -> MemoryLocation:
        """Reference of a varying loop to a uniform cell."""
        if any(location in scope.specialization.constant_columns for scope in scopes):
            return location
        scope = find_scope(location.array, scopes)
        if scope is None:
            return self._precomputed(location, scopes, self.position)
        if self._mirror(location, scopes, self.position) is None:
            return location
        return location._replace(array=_uniform_name(location.array))

    def _varying_block(self, block: BasicBlock, scopes: Scopes) -> BasicBlock:
        """Basic block of a varying loop."""
        varying = self.varying.varied_values(block, scopes)
        instructions = []
        for instruction in block.instructions:
            location = instruction.location
            if location is not None:
                if location.index in varying:
                    raise NotSplittableError("an index varies")
                if not self.varying.is_varied(location, scopes):
                    instruction = instruction._replace(location=self._reference(location, scopes))
            instructions.append(instruction)
        stores = []
        for location, value in block.stores:
            if location.index in varying:
                raise NotSplittableError("an index varies")
            is_varying = self.varying.is_varied(location, scopes)
            stores.append(Store(location if is_varying else self._uniform_local(location), value))
        return BasicBlock(tuple(instructions), tuple(stores))


def _uniform_name(array: str) -> str:
    """Name of the array of uniform elements of an array of a loop."""
    return f"uniform {array}"


def _loaded(block: BasicBlock) -> Iterator[MemoryLocation]:
    return (i.location for i in block.instructions if i.location is not None)


def _with_stores(block: BasicBlock, stores: tuple[Store, ...]) -> BasicBlock:
    """Basic block with other stores, and the instructions that these need."""
    needed = {value for store in stores for value in store.uses}
    kept: list[Instruction] = []
    for instruction in reversed(block.instructions):
        if instruction.result in needed:
            needed.update(instruction.uses)
            kept.append(instruction)
    return BasicBlock(tuple(reversed(kept)), stores)


def _without_unused_locals(program: Program) -> Program:
    """Program without local arrays that no statement names."""
    used = local_arrays_used(program, program.body)
    return replace(program, locals={name: size for name, size in program.locals.items() if name in used})
