"""Scratch-memory layout: live ranges, packing of allocations, shared-memory staging, hand-off layout to warps.

Program points are the statements in order. An allocation that a loop body reads before it has definitely been written
carries data from one iteration to the next and is live throughout the loop. The hand-off layout is the order of data
that thread kernels leave for a warp kernel: a warp reads one environment, so that the scalars of an environment are
stored together in groups of `ROW_GROUP` (AoSoA) and in the order of the warp's own memory, which allows vector
accesses.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from heapq import heappop, heappush

import numpy as np
import numpy.typing as npt

from .effects import Effects, find_effects
from .intrinsics import IntrinsicCall, SharedMemoryStaging
from .memory import SCRATCH, round_up_to_4
from .program import BasicBlock, CountedLoop, ForEachLoop, If, Program, Statement, Statements, WhileLoop, basic_blocks

# -------------------------------------------------------------------------------------------------------- live ranges

MIN_ALIGNED_SIZE = 8
"""Minimum size in scalars of an allocation that is aligned for vector access."""


@dataclass(slots=True)
class LiveRange:
    """First and last program point at which an allocation is live."""

    first: int
    last: int

    def extend(self, first: int, last: int) -> None:
        """Extend the range to include [first, last]."""
        self.first, self.last = min(self.first, first), max(self.last, last)


@dataclass(slots=True)
class _ProgramPoint:
    """Effects of one statement in program order."""

    effects: Effects
    definite_writes: set[int]
    """Scratch offsets that the statement writes on every execution."""
    n_conditions: int
    """Nesting depth of branches and counted loops around the statement."""


@dataclass(slots=True)
class _LoopBody:
    """Range of program points of a loop body, and the nesting depth of conditions of its statements."""

    first: int
    last: int
    n_conditions: int


def live_ranges(program: Program, live_in: set[int], live_out: set[int]) -> dict[int, LiveRange]:
    """Live-range analysis of scratch memory: first and last program point (statement) of each allocation, by its index.

    Offsets in `live_in` are live from the start of the program, those in `live_out` to its end. Allocations that carry
    data between iterations of a loop are live throughout the loop.
    """
    points: list[_ProgramPoint] = []
    loop_bodies: list[_LoopBody] = []
    _collect_points(program, program.body, points, loop_bodies, 0)
    starts = list(program.allocation_starts) or [0]
    ranges: dict[int, LiveRange] = {}
    for time, point in enumerate(points):
        for arena, row in point.effects.reads | point.effects.writes:
            if arena == SCRATCH:
                allocation = bisect_right(starts, row) - 1
                ranges.setdefault(allocation, LiveRange(time, time)).extend(time, time)
    for body in loop_bodies:  # inner loops come first
        _extend_over_loop(body, points, starts, ranges)
    for rows, time in ((live_in, 0), (live_out, len(points))):
        for allocation in {bisect_right(starts, row) - 1 for row in rows} & ranges.keys():
            ranges[allocation].extend(time, time)
    return ranges


def _collect_points(
    program: Program,
    statements: Statements,
    points: list[_ProgramPoint],
    loop_bodies: list[_LoopBody],
    n_conditions: int,
) -> None:
    """Append the program points of statements, with read and write sets, to `points`; loop bodies to `loop_bodies`.

    In program order, inner loops before outer ones. The condition or trip count of a loop or branch is a point before
    and after its body. `n_conditions` is the number of enclosing branches and counted loops.
    """
    for block in statements:
        if isinstance(block, BasicBlock | ForEachLoop | IntrinsicCall | SharedMemoryStaging):
            points.append(_ProgramPoint(find_effects(program, (block,)), set(_definite_writes((block,))), n_conditions))
            continue
        assert isinstance(block, WhileLoop | CountedLoop | If), "the statement cannot be part of a warp region"
        first, condition_point = (
            len(points),
            _ProgramPoint(find_effects(program, (_condition_only(block),)), set(), n_conditions),
        )
        points.append(condition_point)
        _collect_points(program, block.body, points, loop_bodies, n_conditions + (not isinstance(block, WhileLoop)))
        points.append(condition_point)
        if isinstance(block, WhileLoop | CountedLoop):
            loop_bodies.append(_LoopBody(first, len(points) - 1, n_conditions + isinstance(block, CountedLoop)))


def _condition_only(statement: WhileLoop | CountedLoop | If) -> WhileLoop | CountedLoop | If:
    return replace(statement, body=())


def _definite_writes(statements: Statements) -> Iterator[int]:
    """Scratch offsets that statements definitely write on every execution (must-write set).

    Writes inside branches, nested loops and loops over chosen rows and at dynamic indices are not included.
    """
    for block in statements:
        if isinstance(block, BasicBlock):
            yield from (
                s.location.element for s in block.stores if s.location.array == SCRATCH and s.location.index is None
            )
        elif isinstance(block, IntrinsicCall):
            for operand, count in block.intrinsic.definite_writes:
                yield from range(operand.element, operand.element + count)
        elif isinstance(block, ForEachLoop) and not (
            block.range_name or block.joined_rows or block.active_iterations is not None
        ):
            specialization_indices = block.specialization_indices()
            for specialization_index, specialization in enumerate(block.specializations):
                stores = [
                    s.location
                    for body_block in specialization.body
                    if isinstance(body_block, BasicBlock)
                    for s in body_block.stores
                ]
                for location in stores:
                    arena, column = specialization.array_columns.get(location.array, ("", 0))
                    if arena == SCRATCH and location.index is None:
                        yield from (
                            block.ints[specialization_indices == specialization_index, column] + location.element
                        ).tolist()


def _extend_over_loop(
    body: _LoopBody, points: Sequence[_ProgramPoint], allocation_starts: list[int], ranges: dict[int, LiveRange]
) -> None:
    """Extend the live ranges of loop-carried allocations, in place, to the whole loop.

    Loop-carried are offsets that an iteration reads before it has definitely written them, or writes in some iterations
    only. Allocations used inside and outside the loop are extended to the whole loop too.
    """
    definitely_written: set[int] = set()
    live_through: set[int] = set()
    for point in points[body.first : body.last + 1]:
        live_through |= {
            row for arena, row in point.effects.reads if arena == SCRATCH and row not in definitely_written
        }
        definitely_written |= point.definite_writes if point.n_conditions == body.n_conditions else set()
    # cells written in some iterations only keep the value of an earlier iteration
    live_through |= {
        row
        for point in points[body.first : body.last + 1]
        for arena, row in point.effects.writes
        if arena == SCRATCH and row not in definitely_written
    }
    for allocation in {bisect_right(allocation_starts, row) - 1 for row in live_through}:
        ranges[allocation].extend(body.first, body.last)
    for live_range in ranges.values():  # allocations also used outside are live throughout the loop
        overlaps = live_range.first <= body.last and live_range.last >= body.first
        if overlaps and (live_range.first < body.first or live_range.last > body.last):
            live_range.extend(body.first, body.last)


def pack_by_live_range(sizes: dict[int, int], ranges: dict[int, LiveRange]) -> tuple[dict[int, int], int]:
    """Memory packing by first fit: allocations with disjoint live ranges may share memory.

    Allocations are placed by decreasing length of the live range, each in the first gap between allocations that are
    live at the same time; large ones are aligned to 4 scalars. Returns the start of each allocation and the total size.
    """
    starts: dict[int, int] = {}
    end = 0
    # longest live range first; ties in order of allocation, which is mostly the order of computation
    order = sorted(
        ranges,
        key=lambda allocation: (
            ranges[allocation].first - ranges[allocation].last,
            sizes[allocation] < MIN_ALIGNED_SIZE,
            allocation,
        ),
    )
    placed: list[tuple[int, int, int, int]] = []
    for allocation in order:
        live_range, start, size = ranges[allocation], 0, sizes[allocation]
        conflicts = sorted(
            (a, b) for a, b, first, last in placed if first <= live_range.last and last >= live_range.first
        )
        for a, b in conflicts:
            if a - start >= size:
                break
            start = max(start, round_up_to_4(b) if size >= MIN_ALIGNED_SIZE else b)
        starts[allocation] = start
        placed.append((start, start + size, live_range.first, live_range.last))
        end = max(end, start + size)
    return starts, end


def pack_side_by_side(sizes: Mapping[int, int]) -> tuple[dict[int, int], int]:
    """Memory packing of allocations that are all live at the same time, by first fit: aligned ones, then short ones.

    Short allocations are placed in the first gap in front of an aligned one that has room for them. Returns the start
    of each allocation and the total size.
    """
    starts, end = dict[int, int](), 0
    gaps: list[list[int]] = [[] for _ in range(4)]
    """Heap of the starts of gaps, by their length."""
    for allocation in sorted(sizes, key=lambda allocation: (sizes[allocation] < MIN_ALIGNED_SIZE, allocation)):
        size, start = sizes[allocation], end
        if size >= MIN_ALIGNED_SIZE:
            start = round_up_to_4(end)
            heappush(gaps[start - end], end)
        elif size == 0:
            start = 0
        elif fitting := [(gap[0], length) for length, gap in enumerate(gaps) if gap and length >= size]:
            start, length = min(fitting)
            heappop(gaps[length])
            heappush(gaps[length - size], start + size)
        starts[allocation] = start
        end = max(end, start + size)
    return starts, end


# ------------------------------------------------------------------------------------------------------------ packing


class ScratchPacking:
    """Relocation of the scratch allocations that some code uses to contiguous memory, without the others.

    With live ranges, allocations that are not live at the same time share memory.
    """

    def __init__(
        self,
        program: Program,
        rows: Collection[int] | npt.NDArray[np.intp],
        live_ranges: Mapping[int, LiveRange] | None = None,
        *,
        fixed_starts: Mapping[int, int] | None = None,
        first_free: int = 0,
    ) -> None:
        """Allocations in `fixed_starts` (index -> offset) keep their offset; the others start at `first_free`."""
        fixed_starts = fixed_starts or {}
        self._old_starts = list(program.allocation_starts) or [0]
        ends = [*self._old_starts[1:], program.n_scratch]
        offsets = rows if isinstance(rows, np.ndarray) else np.fromiter(rows, np.intp, len(rows))
        allocations = np.unique(np.searchsorted(self._old_starts, offsets, side="right") - 1)
        used = sorted(set(allocations.tolist()) - fixed_starts.keys())
        sizes = {allocation: ends[allocation] - self._old_starts[allocation] for allocation in used}
        if live_ranges is None:
            starts, count = pack_side_by_side(sizes)
        else:
            starts, count = pack_by_live_range(sizes, {allocation: live_ranges[allocation] for allocation in used})
        self._new_starts = {**fixed_starts, **{allocation: first_free + start for allocation, start in starts.items()}}
        self.size = first_free + count
        self.allocation_starts = tuple(sorted(set(self._new_starts.values())))

    @classmethod
    def restricted_to(cls, other: ScratchPacking, rows: set[int]) -> ScratchPacking:
        """Copy of another packing that contains only the allocations of the given offsets."""
        packing = copy(other)
        kept = {bisect_right(other._old_starts, row) - 1 for row in rows}
        packing._new_starts = {
            allocation: start for allocation, start in other._new_starts.items() if allocation in kept
        }
        return packing

    def contains(self, row: int) -> bool:
        """Whether the allocation of an offset is part of the packing."""
        return bisect_right(self._old_starts, row) - 1 in self._new_starts

    def new_row(self, row: int) -> int:
        """Offset after relocation; arbitrary for unused allocations."""
        allocation = bisect_right(self._old_starts, row) - 1
        return self._new_starts.get(allocation, 0) + row - self._old_starts[allocation]


# ---------------------------------------------------------------------------------------------- shared-memory staging


def assign_staging_offsets(statements: Statements, first_free: int) -> tuple[Statements, int]:
    """Assign a shared-memory offset to each list that is staged (kept in shared memory if short enough).

    Offsets follow one another from `first_free` on, aligned to 4 scalars; nested statements are included. Returns the
    statements with offsets and the end of the used shared memory, in scalars.
    """
    result: list[Statement] = []
    for block in statements:
        new = block
        if isinstance(block, SharedMemoryStaging):
            new, first_free = (
                replace(block, shared_offset=round_up_to_4(first_free)),
                round_up_to_4(first_free) + block.staged_size,
            )
        elif isinstance(block, CountedLoop | WhileLoop | If):
            body, first_free = assign_staging_offsets(block.body, first_free)
            new = replace(block, body=body)
        result.append(new)
    return tuple(result), first_free


def reduce_staged_records(program: Program, n_fewer: int) -> Program:
    """Shrink the shared memory of a warp kernel: each staged list keeps `n_fewer` fewer records in shared memory.

    A longer list is then used in global memory. Lists without `min_staged` are unchanged, and no list falls below it.
    Shared-memory offsets and the total size are recomputed.
    """
    stagings = list(_staging_statements(program.body))
    if not stagings:
        return program
    body, end = assign_staging_offsets(
        _reduce_staging(program.body, n_fewer), min(block.shared_offset for block in stagings)
    )
    return replace(program, body=body, n_scratch=end)


def _staging_statements(statements: Statements) -> Iterator[SharedMemoryStaging]:
    """Iterate over all shared-memory staging statements, including nested ones."""
    for block in statements:
        if isinstance(block, SharedMemoryStaging):
            yield block
        elif isinstance(block, CountedLoop | WhileLoop | If):
            yield from _staging_statements(block.body)


def _reduce_staging(statements: Statements, n_fewer: int) -> Statements:
    """Return statements in which each list keeps `n_fewer` fewer records in shared memory (`max_staged`).

    Not below `min_staged`; lists without `min_staged` are unchanged.
    """
    result: list[Statement] = []
    for block in statements:
        new = block
        if isinstance(block, SharedMemoryStaging) and block.min_staged is not None:
            new = replace(block, max_staged=min(block.max_staged, max(block.max_staged - n_fewer, block.min_staged)))
        elif isinstance(block, CountedLoop | WhileLoop | If):
            new = replace(block, body=_reduce_staging(block.body, n_fewer))
        result.append(new)
    return tuple(result)


# ------------------------------------------------------------------------------------------------- hand-off to warps

VECTOR_WIDTH, ROW_GROUP = 4, 8
"""Scalars per vector access, and scalars of one environment that are stored together (a sector of the cache)."""
MAX_ACCESS_BYTES = 16
"""Maximum number of bytes of one memory access of a thread."""


@dataclass(frozen=True, slots=True)
class HandoffLayout:
    """Placement of the allocations that thread kernels hand over to a warp kernel."""

    first_row: int = 0
    """Start of the hand-off area in the scratch memory of the thread kernels."""
    allocation_rows: tuple[tuple[int, int], ...] = ()
    """(allocation index, offset) of each allocation."""
    vector_targets: tuple[int, ...] = ()
    """Offset in the warp's memory of each vector of `VECTOR_WIDTH` scalars."""

    @property
    def end_row(self) -> int:
        """End of the hand-off area, whose size is a multiple of `ROW_GROUP`."""
        return self.first_row + -(-len(self.vector_targets) * VECTOR_WIDTH // ROW_GROUP) * ROW_GROUP


NO_HANDOFF = HandoffLayout()


def layout_handoff(
    program: Program, handed_over: set[int], excluded: set[int], shared_packing: ScratchPacking, first_row: int
) -> HandoffLayout:
    """AoSoA layout of the data that kernels with one thread per environment pass to a warp kernel.

    Allocations with an excluded offset are left out. The data is divided into vectors of `VECTOR_WIDTH` scalars in the
    order of the warp's own memory, so that the warp kernel loads and stores whole vectors.

    Args:
        program: program that owns the allocations.
        handed_over: scratch offsets that other kernels write and the warp region reads.
        excluded: offsets that must not be in this layout, as code with other addressing accesses them.
        shared_packing: placement of the allocations in the memory of the warp.
        first_row: first scratch offset of the layout.
    """
    starts = list(program.allocation_starts) or [0]
    allocations = {bisect_right(starts, row) - 1 for row in handed_over} - {
        bisect_right(starts, row) - 1 for row in excluded
    }
    ends = [*starts[1:], program.n_scratch]
    shared_starts = {allocation: shared_packing.new_row(starts[allocation]) for allocation in sorted(allocations)}
    sizes = {allocation: ends[allocation] - starts[allocation] for allocation in allocations}
    vectors = sorted(
        {
            offset // VECTOR_WIDTH
            for allocation, shared_start in shared_starts.items()
            for offset in range(shared_start, shared_start + sizes[allocation])
        }
    )
    vector_positions = {vector: i for i, vector in enumerate(vectors)}
    allocation_rows = (
        (
            allocation,
            first_row + vector_positions[shared_start // VECTOR_WIDTH] * VECTOR_WIDTH + shared_start % VECTOR_WIDTH,
        )
        for allocation, shared_start in shared_starts.items()
    )
    return HandoffLayout(first_row, tuple(allocation_rows), tuple(vector * VECTOR_WIDTH for vector in vectors))


def has_static_addresses(statements: Statements) -> bool:
    """Whether statements are basic blocks that access scratch memory at constant addresses only."""
    if not all(isinstance(block, BasicBlock) for block in statements):
        return False
    locations = (location for block in basic_blocks(statements) for location in block.locations())
    return all(location.index is None for location in locations if location.array == SCRATCH)


def handoff_offset(row: int, n_envs: int) -> int:
    """Distance in scalars of a hand-off offset from the first scalar of an environment, in blocks of `n_envs`."""
    return row // ROW_GROUP * ROW_GROUP * n_envs + row % ROW_GROUP
