"""Program representation: basic blocks, loops, branches, warp regions, work-queue loops and packed tables.

A program is a sequence of statements that runs for each environment. A basic block computes values from memory, then
stores some of them. Structured statements contain basic blocks: a loop over the rows (iterations) of a constant table
(`ForEachLoop`), a loop with a trip count computed at run time (`CountedLoop`), a do-while loop (`WhileLoop`) and a
branch (`If`). SSA values live within one basic block only. Blocks communicate through arrays: in an arena that outlives
the run, in the scratch memory of a run, or in a local array, which the compiler can promote to registers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .intrinsics import AtomicIncrement, IntrinsicCall, SharedMemoryStaging
from .memory import SCRATCH, ArenaOffset, MemoryLocation, Operand
from .operations import OPERATIONS

_N_FLOPS = {name: operation.n_flops for name, operation in OPERATIONS.items()}
"""Floating-point operations of an instruction, by operation."""

# -------------------------------------------------------------------------------------------- instructions and blocks


def operand_values(args: tuple[Operand, ...], location: MemoryLocation | None) -> list[int]:
    """Numbers of the values that an instruction uses: value arguments and the dynamic index of the memory location."""
    values = [a for a in args if type(a) is int]
    if location is not None and location.index is not None:
        values.append(location.index)
    return values


class Instruction(NamedTuple):
    """SSA instruction `result = op(args)`; an `int` argument is an earlier result, a `float` a constant."""

    result: int
    op: str
    args: tuple[Operand, ...]
    location: MemoryLocation | None = None
    """Memory reference that an `input` instruction loads."""

    @property
    def uses(self) -> list[int]:
        """Numbers of the values that the instruction depends on."""
        return operand_values(self.args, self.location)


class Store(NamedTuple):
    """Store of a value or constant to a memory location."""

    location: MemoryLocation
    value: Operand

    @property
    def uses(self) -> list[int]:
        """Numbers of the values used: the stored value and the dynamic index of the memory location."""
        values = [self.value] if isinstance(self.value, int) else []
        return values if self.location.index is None else [*values, self.location.index]


@dataclass(frozen=True, slots=True, eq=False)
class BasicBlock:
    """Straight-line code: instructions in dependency order, then stores; all loads happen before any store."""

    instructions: tuple[Instruction, ...]
    stores: tuple[Store, ...]

    @property
    def roots(self) -> list[int]:
        """Numbers of the values that stores use, as stored value or as dynamic index."""
        return [value for store in self.stores for value in store.uses]

    @property
    def n_operations(self) -> int:
        """Approximate number of floating-point operations of one execution."""
        return sum([_N_FLOPS.get(op, 0) for _, op, _, _ in self.instructions])

    def max_live(self, eager_arrays: Collection[str] = ()) -> int:
        """Register pressure: the maximum number of simultaneously live values over the instruction order.

        A value stored to one of `eager_arrays` is stored as soon as it is computed, so that the store does not extend
        its live range. All other stores happen at the end of the block.
        """
        last = self.last_uses(eager_arrays)
        expiring = Counter(last.values())
        live = peak = 0
        for position, instruction in enumerate(self.instructions):
            if instruction[0] in last:
                live += 1
                peak = max(peak, live)
            live -= expiring.get(position, 0)
        return peak

    def last_uses(self, eager_arrays: Collection[str] = ()) -> dict[int, int]:
        """Map each used value to the position of the last instruction that uses it (end of its live range).

        Values of stores stay live to the end of the block (position `len(instructions)`), except for stores to
        `eager_arrays`, which are ignored.
        """
        last: dict[int, int] = {}
        for position, (_, _, arguments, location) in enumerate(self.instructions):
            for argument in arguments:
                if type(argument) is int:
                    last[argument] = position
            if location is not None and location.index is not None:
                last[location.index] = position
        late_stores = (store for store in self.stores if store.location.array not in eager_arrays)
        last.update((value, len(self.instructions)) for store in late_stores for value in store.uses)
        return last

    def locations(self) -> Iterator[MemoryLocation]:
        """Iterate over all memory locations that are loaded or stored."""
        yield from (i.location for i in self.instructions if i.location is not None)
        yield from (s.location for s in self.stores)

    def __str__(self) -> str:
        lines = [f"v{i.result} = {_format_instruction(i)}" for i in self.instructions]
        return "\n".join(lines + [f"{format_location(s.location)} = {_format_operand(s.value)}" for s in self.stores])


# ------------------------------------------------------------------------------------------------ loops and branches


@dataclass(frozen=True, slots=True, eq=False)
class LoopSpecialization:
    """Loop body of all loop iterations of one specialization, and the table columns that its locations refer to."""

    key: str
    """Text that identifies the specialization."""
    body: Statements
    array_columns: dict[str, tuple[str, int]]
    """Array name -> (arena, column of the integer table with the first row of the array in the arena)."""
    constant_columns: dict[MemoryLocation, int]
    """Memory location of a table constant -> column of the floating-point table."""


@dataclass(frozen=True, slots=True)
class LevelBatch:
    """Iterations of one specialization and one dependency level of a loop that a warp executes concurrently."""

    specialization_index: int
    """Index of the loop specialization of the batch."""
    first_row: int
    n_rows: int
    level: int = 0
    """Dependency level; batches of the same level are independent of each other."""


@dataclass(frozen=True, slots=True, eq=False)
class ForEachLoop:
    """Loop over the rows of a constant table; a row selects loop body, array offsets and constants of an iteration."""

    name: str
    specializations: tuple[LoopSpecialization, ...]
    ints: npt.NDArray[np.int32]
    """(n_rows, n_columns) array offsets; column 0 is the specialization index if there are several specializations."""
    floats: npt.NDArray[np.float64]
    """(n_rows, n_columns) constants of the iterations."""
    no_unroll: bool = False
    """Whether the loop is kept when the rest of the program is unrolled."""
    parallel: bool = False
    """Whether iterations are independent, and the loop is a kernel of its own with a thread per iteration."""
    range_name: str = ""
    """Name of the range of a nested loop, given by the columns `FIRST_ITERATION_PREFIX` and `ITERATION_COUNT_PREFIX` +
    name of the enclosing iteration; empty if all iterations run."""
    active_iterations: ArenaOffset | None = None
    """Scratch offset of the list of iterations that run, preceded by its length, or None for all."""
    schedule: tuple[LevelBatch, ...] = ()
    """Level schedule of a loop in a warp region: batches of concurrent iterations in execution order."""
    predicated: bool = False
    """Whether the last integer column of a level-scheduled loop is a flag that disables padding iterations; without the
    flag, these work on a dummy allocation."""
    reductions: tuple[tuple[MemoryLocation, MemoryLocation], ...] = ()
    """Reductions of a level-scheduled loop: (local accumulator of each thread, memory location that the total is added
    to)."""
    joined_rows: tuple[MemoryLocation, ...] = ()
    """Memory locations of the row numbers of a joined loop, one per table that its columns are from; empty for a loop
    over all rows. A joined loop has one specialization, and runs once, for these rows. The tables lie side by side in
    `ints` and `floats`; a shorter one repeats its last row."""
    joined_tables: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())
    """Index of the table that each column of `ints` and each column of `floats` of a joined loop is from."""

    def specialization_indices(self) -> npt.NDArray[np.int32]:
        """Specialization index of each iteration, shape (n_rows,)."""
        return self.ints[:, 0] if len(self.specializations) > 1 else np.zeros(len(self.ints), np.int32)


@dataclass(frozen=True, slots=True, eq=False)
class CountedLoop:
    """Loop with a trip count read from memory, possibly different in each environment.

    The index starts at 0, or at the last iteration of a reversed loop.
    """

    name: str
    count: MemoryLocation
    body: Statements
    uniform: bool = False
    """Whether the trip count is the same in all environments."""
    parallel: bool = False
    """Whether iterations are independent, so that the threads of a warp share them."""
    max_iterations: int | None = None
    """Upper bound of the trip count (the trip count itself for parallel loops), or None if unknown."""
    reductions: tuple[MemoryLocation, ...] = ()
    """Local accumulators of a parallel loop: each thread adds to its own copy, and all threads get the sum."""
    reversed: bool = False
    """Whether the index counts down from the trip count minus 1 to 0; then trip counts are integers."""


@dataclass(frozen=True, slots=True, eq=False)
class WhileLoop:
    """Do-while loop: repeats its body while the condition location is above 0.5, at most `max_iterations` times."""

    name: str
    condition: MemoryLocation
    body: Statements
    max_iterations: int


@dataclass(frozen=True, slots=True, eq=False)
class If:
    """Branch: executes its body in the environments whose condition memory location is above 0.5."""

    name: str
    condition: MemoryLocation
    body: Statements
    scalarize: bool = False
    """Whether a CPU executes the branch one SIMD lane (environment) at a time: few lanes take it, or lanes diverge."""
    uniform: bool = False
    """Whether the condition is the same in all lanes that are not finished, and scratch memory of finished lanes may
    be overwritten: stores then need no mask."""


@dataclass(frozen=True, slots=True, eq=False)
class WarpRegion:
    """Statements executed for one environment by a group of GPU threads, which share the iterations of for-each loops.

    The region becomes a kernel of its own. It communicates with the surrounding statements through arenas only.
    """

    name: str
    body: Statements
    workload: tuple[MemoryLocation, ...] = ()
    """Memory locations whose sum estimates the amount of work of an environment."""


@dataclass(frozen=True, slots=True, eq=False)
class WorkQueueLoop:
    """For-each loop with few active iterations per environment: GPU threads filter all and share the remaining work.

    The loop becomes a kernel of its own. Iterations are independent: none reads data that another one writes.
    """

    name: str
    filters: tuple[ForEachLoop, ...]
    """Filter stages over the same iterations, cheapest first; each sets `condition`."""
    condition: MemoryLocation
    """Memory location set by a filter: above 0.5 if the iteration is active."""
    work: ForEachLoop
    """Loop body of the iterations that pass all filters."""

    @property
    def stages(self) -> tuple[ForEachLoop, ...]:
        """Filter stages followed by the work stage."""
        return (*self.filters, self.work)


Statement = (
    BasicBlock
    | ForEachLoop
    | CountedLoop
    | WhileLoop
    | If
    | WarpRegion
    | WorkQueueLoop
    | IntrinsicCall
    | AtomicIncrement
    | SharedMemoryStaging
)
Statements = tuple[Statement, ...]


# ------------------------------------------------------------------------------------------------ statement traversal


def nested_bodies(statement: Statement) -> list[Statements]:
    """Statement sequences directly inside a statement: bodies, specializations, work-queue stages."""
    match statement:
        case BasicBlock() | IntrinsicCall() | AtomicIncrement() | SharedMemoryStaging():
            return []
        case WorkQueueLoop():
            return [statement.stages]
        case ForEachLoop():
            return [specialization.body for specialization in statement.specializations]
        case _:
            return [statement.body]


def walk(statements: Statements) -> Iterator[Statement]:
    """Iterate over statements in program order, each followed by the statements nested in it."""
    for block in statements:
        yield block
        for body in nested_bodies(block):
            yield from walk(body)


def basic_blocks(statements: Statements) -> Iterator[BasicBlock]:
    """Iterate over all basic blocks, including blocks nested in other statements."""
    return (block for block in walk(statements) if isinstance(block, BasicBlock))


def memory_accesses(statement: Statement) -> Iterator[tuple[MemoryLocation, bool]]:
    """Iterate over the memory accesses of a statement, without nested statements, as (location, whether written).

    Operands of intrinsics get a dynamic index, as they refer to whole arrays. For-each loops themselves access no
    memory, except for the row numbers of joined loops; the code of their specializations does.
    """
    match statement:
        case BasicBlock():
            yield from [(location, False) for _, _, _, location in statement.instructions if location is not None]
            yield from [(location, True) for location, _ in statement.stores]
        case IntrinsicCall():
            for operands, written in ((statement.intrinsic.reads, False), (statement.intrinsic.writes, True)):
                yield from ((operand._replace(index=0), written) for operand in operands)
        case AtomicIncrement():
            yield from ((statement.counter, False), (statement.counter, True), (statement.result, True))
        case SharedMemoryStaging():
            yield statement.used_count, False
        case CountedLoop():
            yield statement.count, False
        case WhileLoop() | If():
            yield statement.condition, False
        case ForEachLoop():
            yield from ((location, False) for location in statement.joined_rows)
        case _:
            pass


def map_bodies(statement: Statement, transform: Callable[[Statements], Statements]) -> Any:
    """Copy of a statement with `transform` applied to each statement sequence directly inside it.

    Bodies of loops and branches, specializations of for-each loops, and stages of work-queue loops; a basic block is
    returned unchanged.
    """
    match statement:
        case BasicBlock() | IntrinsicCall() | AtomicIncrement() | SharedMemoryStaging():
            return statement
        case ForEachLoop():
            return replace(
                statement, specializations=tuple(replace(v, body=transform(v.body)) for v in statement.specializations)
            )
        case WorkQueueLoop():
            *filters, work = transform(statement.stages)
            return replace(statement, filters=tuple(filters), work=work)
        case _:
            return replace(statement, body=transform(statement.body))


def map_basic_blocks(statements: Statements, transform: Callable[[BasicBlock], BasicBlock]) -> Statements:
    """Return the statements with every basic block, including nested ones, replaced by `transform(block)`."""
    return tuple(
        transform(block)
        if isinstance(block, BasicBlock)
        else map_bodies(block, lambda body: map_basic_blocks(body, transform))
        for block in statements
    )


def format_location(location: MemoryLocation) -> str:
    """Format a memory location as text, for example `q[3 + v7]`."""
    return (
        f"{location.array}[{location.element}]"
        if location.index is None
        else f"{location.array}[{location.element} + v{location.index}]"
    )


def _format_instruction(instruction: Instruction) -> str:
    if instruction.location is not None:
        return format_location(instruction.location)
    return f"{instruction.op}({', '.join(_format_operand(a) for a in instruction.args)})"


def _format_operand(operand: Operand) -> str:
    return f"v{operand}" if isinstance(operand, int) else repr(operand)


# ------------------------------------------------------------------------------------------------------------ program


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """Statements and the memory that a run needs besides the arenas."""

    body: Statements
    locals: Mapping[str, int] = field(default_factory=dict)
    """Local array name -> number of elements."""
    n_scratch: int = 0
    """Size of the scratch memory of an environment, in scalars."""
    allocation_starts: Sequence[int] = ()
    """Sorted start offsets of the scratch allocations."""
    oversized_lists: frozenset[int] = frozenset()
    """Start offsets of allocations that are lists with a capacity far above their usual length."""
    uses_superwords: bool = False
    """Whether scalar code packs operations on vectors of a body into SIMD instructions."""
    has_short_blocks: bool = False
    """Whether a CPU's code has no long basic blocks: it is compiled in half the time, and some code takes a tenth more
    time to run, but that of derivatives does not."""
    outlined: Mapping[int, frozenset[str]] = field(default_factory=dict)
    """For-each loops, loop specializations and basic blocks that are emitted as functions, by identity -> local arrays:
    of loops and specializations those allocated in the function, of basic blocks those that they use."""
    uniform_locals: frozenset[str] | None = None
    """Of the varying part of a program (`uniform_split.py`): local arrays that are the same in all lanes, as is the
    control flow. None for all other programs."""

    @property
    def basic_block(self) -> BasicBlock:
        """The basic block of a program that consists of a single one; raises TypeError otherwise."""
        if len(self.body) != 1 or not isinstance(self.body[0], BasicBlock):
            raise TypeError("the program is not a single basic block")
        return self.body[0]

    @property
    def is_straight_line(self) -> bool:
        """Whether the program is a single basic block."""
        return len(self.body) == 1 and isinstance(self.body[0], BasicBlock)

    @property
    def for_each_loops(self) -> list[ForEachLoop]:
        """All for-each loops, including nested ones, in program order."""
        return list(all_for_each_loops(self.body))

    @property
    def has_kept_loops(self) -> bool:
        """Whether unrolling keeps some loops or cooperative regions."""
        return self.has_cooperative_regions or any(loop.no_unroll for loop in self.for_each_loops)

    @property
    def has_cooperative_regions(self) -> bool:
        """Whether the program has warp regions or work-queue loops at top level."""
        return any(isinstance(block, WarpRegion | WorkQueueLoop) for block in self.body)

    @property
    def inputs(self) -> dict[str, int]:
        """Array -> minimum number of elements loaded outside loops; without local arrays and scratch memory."""
        locations = (
            i.location
            for block in blocks_outside_for_each_loops(self.body)
            for i in block.instructions
            if i.location is not None
        )
        return self._extents(locations)

    @property
    def outputs(self) -> dict[str, int]:
        """Array -> minimum number of elements stored outside loops; without local arrays and scratch memory."""
        return self._extents(s.location for block in blocks_outside_for_each_loops(self.body) for s in block.stores)

    def _extents(self, locations: Iterable[MemoryLocation]) -> dict[str, int]:
        extents: dict[str, int] = {}
        for location in locations:
            if location.array not in self.locals and location.array != SCRATCH:
                extents[location.array] = max(extents.get(location.array, 0), location.element + 1)
        return extents

    @property
    def n_instructions(self) -> int:
        """Number of instructions to compile, including nested ones."""
        return sum(len(block.instructions) for block in basic_blocks(self.body))

    @property
    def n_operations(self) -> int:
        """Approximate floating-point operations of a run; loops with unknown trip count are counted once."""
        return _count_operations(self.body)

    def op_counts(self) -> dict[str, int]:
        """Number of instructions of each operation."""
        return dict(Counter(i.op for block in basic_blocks(self.body) for i in block.instructions))

    def pack_tables(self) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float64]]:
        """Concatenate the tables of all loops, constant data of the kernel, into an int32 and a float64 array.

        The integer array starts with a header of `TABLE_HEADER_SIZE` integers per loop: number of rows, offset of its
        integers, offset of its floats. Tables of level-scheduled loops are stored column by column, all others row by
        row.
        """
        loops = self.for_each_loops
        header: list[int] = []
        int_offset, float_offset = TABLE_HEADER_SIZE * len(loops), 0
        for loop in loops:
            header += [len(loop.ints), int_offset, float_offset]
            int_offset, float_offset = int_offset + pack_int_table(loop).size, float_offset + loop.floats.size
        ints = [np.array([*header, 0], np.int32)[: max(len(header), 1)]]
        ints += [pack_int_table(loop).ravel() for loop in loops]
        floats = [(loop.floats.T if loop.schedule else loop.floats).ravel() for loop in loops]
        return np.concatenate(ints), np.concatenate([*floats, np.zeros(1)])

    def __str__(self) -> str:
        return "\n".join(_format_statements(self.body, ""))


# ------------------------------------------------------------------------------------------------------ packed tables

TABLE_HEADER_SIZE = 3
"""Integers of the header of a loop: number of rows, offset of its integers, offset of its floats."""


HALF_WORD_BITS = 16
"""Bits of an integer if two are packed into a 32-bit word."""


def fits_half_words(loop: ForEachLoop) -> bool:
    """Whether the integers of a level-scheduled loop can be packed in pairs into 32-bit words."""
    return bool(loop.schedule) and loop.ints.size > 0 and loop.ints.min() >= 0 and loop.ints.max() < 1 << HALF_WORD_BITS


def pack_int_table(loop: ForEachLoop) -> npt.NDArray[np.int32]:
    """Integer table of a loop as laid out in memory.

    Without a level schedule, the table as it is. With a level schedule, the transposed table, so that neighbouring
    threads load neighbouring words (coalesced access), with two 16-bit columns packed into a 32-bit word if all
    integers fit.
    """
    if not loop.schedule:
        return loop.ints
    if not fits_half_words(loop):
        return np.ascontiguousarray(loop.ints.T)
    columns = [*loop.ints.T.astype(np.uint32), np.zeros(len(loop.ints), np.uint32)]
    pairs = [a | b << np.uint32(HALF_WORD_BITS) for a, b in zip(columns[:-1:2], columns[1::2], strict=True)]
    return np.array(pairs, np.uint32).view(np.int32)


def all_for_each_loops(statements: Statements) -> Iterator[ForEachLoop]:
    """Iterate over all for-each loops, including nested ones, in program order."""
    return (block for block in walk(statements) if isinstance(block, ForEachLoop))


def blocks_outside_for_each_loops(statements: Statements) -> Iterator[BasicBlock]:
    """Iterate over all basic blocks that are not part of a for-each loop or work-queue loop."""
    for block in statements:
        if isinstance(block, BasicBlock):
            yield block
        elif not isinstance(block, ForEachLoop | WorkQueueLoop):
            for body in nested_bodies(block):
                yield from blocks_outside_for_each_loops(body)


def _count_operations(statements: Statements) -> int:
    """Approximate number of floating-point operations of one execution of statements.

    The code of a for-each loop counts once per iteration. Bodies of other loops and branches count
    once, a work-queue loop as its first filter, an intrinsic by its own estimate.
    """
    total = 0
    for block in statements:
        if isinstance(block, BasicBlock):
            total += block.n_operations
        elif isinstance(block, ForEachLoop):
            counts = np.bincount(block.specialization_indices(), minlength=len(block.specializations))
            counts = np.ones(1, np.int64) if block.joined_rows else counts
            total += sum(
                int(count) * _count_operations(specialization.body)
                for count, specialization in zip(counts, block.specializations, strict=True)
            )
        elif isinstance(block, IntrinsicCall):
            total += block.intrinsic.n_operations
        elif isinstance(block, WorkQueueLoop):
            total += _count_operations(block.filters[:1])
        elif isinstance(block, AtomicIncrement | SharedMemoryStaging):
            total += 1
        else:
            total += _count_operations(block.body)
    return total


def _format_statements(statements: Statements, indent: str) -> Iterator[str]:
    """Lines of a listing of statements for human readers, with indented bodies."""
    for block in statements:
        match block:
            case BasicBlock():
                yield from (indent + line for line in str(block).splitlines())
                continue
            case ForEachLoop():
                rows = " x ".join(format_location(location) for location in block.joined_rows) or len(block.ints)
                yield f"{indent}for {rows} rows of {block.name}{', parallel' * block.parallel}:"
                for specialization in block.specializations:
                    yield f"{indent}  {specialization.key}:"
                    yield from _format_statements(specialization.body, indent + "    ")
                continue
            case CountedLoop():
                suffix = ", parallel" * block.parallel + ", reversed" * block.reversed
                yield f"{indent}for {format_location(block.count)} iterations of {block.name}{suffix}:"
            case WhileLoop():
                limit = f"at most {block.max_iterations} iterations"
                yield f"{indent}do-while {block.name}, {limit}, while {format_location(block.condition)}:"
            case WarpRegion():
                yield f"{indent}warp region ({block.name}):"
            case IntrinsicCall():
                yield f"{indent}call {block.name}: {block.intrinsic}"
                continue
            case SharedMemoryStaging():
                staged = f"up to {block.max_staged} of {format_location(block.used_count)}"
                yield f"{indent}stage {format_location(block.records)} in shared memory, {staged}"
                continue
            case AtomicIncrement():
                yield f"{indent}{format_location(block.result)} = atomic increment of {format_location(block.counter)}"
                continue
            case WorkQueueLoop():
                yield f"{indent}work queue where {format_location(block.condition)} ({block.name}):"
                yield from _format_statements(block.stages, indent + "  ")
                continue
            case If():
                yield f"{indent}if {format_location(block.condition)} ({block.name}):"
        yield from _format_statements(block.body, indent + "  ")
