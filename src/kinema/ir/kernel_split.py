"""Kernel split: divides a program into kernels at warp regions and work-queue loops and relocates its memory.

Kernels communicate through scratch memory only. Scratch memory of thread kernels interleaves the environments of a
warp, for coalesced access; that of a warp kernel is contiguous per environment. Data exchanged between the two is
copied at the start and the end of the warp kernel. Each kernel allocates only the memory that it uses.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from .effects import (
    Effects,
    allocation_end,
    find_effect_cells,
    find_effects,
    find_local_arrays,
    outermost_for_each_loops,
)
from .intrinsics import AtomicIncrement, IntrinsicCall, SharedMemoryStaging, map_locations
from .level_schedule import schedule_levels
from .memory import SCRATCH, THREAD_SCRATCH, WARP_GLOBAL, MemoryLocation
from .outline import count_instructions
from .program import (
    BasicBlock,
    CountedLoop,
    ForEachLoop,
    If,
    Program,
    Statement,
    Statements,
    WarpRegion,
    WhileLoop,
    WorkQueueLoop,
    all_for_each_loops,
    basic_blocks,
    blocks_outside_for_each_loops,
    map_bodies,
)
from .scratch_layout import (
    NO_HANDOFF,
    HandoffLayout,
    LiveRange,
    ScratchPacking,
    assign_staging_offsets,
    has_static_addresses,
    layout_handoff,
    live_ranges,
)

OtherArenas = Sequence[tuple[str, ScratchPacking]]
"""(arena name, packing) of scratch allocations that are moved to other arenas."""
LONG_BLOCK_INSTRUCTIONS = 1000
"""Instructions from which on a basic block of a long program is a kernel of its own: of several threads, and without
the few environments per warp of code with loops."""
LONG_LIST_SIZE = 64
"""Size in scalars above which a dynamically indexed allocation is kept in global memory."""


@dataclass(frozen=True, slots=True, eq=False)
class KernelPart:
    """One kernel launch of a program."""

    program: Program
    """Statements of the kernel with relocated scratch memory."""
    is_warp_region: bool = False
    """Whether a group of threads works on each environment."""
    copy_in: tuple[tuple[int, int], ...] = ()
    """(offset in the thread scratch memory, offset in the warp's memory) copied at the start of a warp kernel."""
    copy_out: tuple[tuple[int, int], ...] = ()
    """(offset in the warp's memory, offset in the thread scratch memory) copied at the end of a warp kernel."""
    n_global: int = 0
    """Scalars per environment of a warp kernel in global memory: lists with a large capacity."""
    workload_offsets: tuple[int, ...] = ()
    """Scratch offsets of the thread kernels whose values sum to an estimate of the work of an environment."""
    can_overlap: bool = False
    """Whether the kernel may run concurrently with the preceding work-queue kernel."""
    handoff: HandoffLayout = NO_HANDOFF
    """Allocations that a warp kernel loads by vector accesses at its start."""

    @property
    def work_queue_loop(self) -> WorkQueueLoop | None:
        """The work-queue loop of the kernel, or None for other kernels."""
        (block, *others) = self.program.body
        return block if isinstance(block, WorkQueueLoop) and not others else None

    @property
    def parallel_loop(self) -> ForEachLoop | None:
        """The parallel loop of a kernel with a thread per environment and iteration, or None for other kernels."""
        return parallel_loop(self.program)


def parallel_loop(program: Program) -> ForEachLoop | None:
    """The parallel loop that a program consists of, or None."""
    (block, *others) = program.body
    return block if isinstance(block, ForEachLoop) and block.parallel and not others else None


def fission_kernels(program: Program, group_size: int, max_instructions: int | None = None) -> list[KernelPart]:
    """Kernel fission: split a program into its GPU kernels, in launch order, with the memory layout of each.

    A warp region (code that a warp executes cooperatively) becomes a kernel with `group_size` threads per environment
    and level-scheduled loops; a work-queue loop becomes a kernel; the statements in between become kernels with one
    thread per environment, which are also split between statements if they exceed `max_instructions` together. Thread
    kernels share one scratch layout. A warp kernel gets shared and global memory of its own; data exchanged with thread
    kernels is copied at its start and end, by vector loads from an AoSoA layout (`HandoffLayout`) where possible.
    """
    segments = _split_segments(program, max_instructions)
    if not any(x.is_warp_region or isinstance(x.statements[0], WorkQueueLoop) for x in segments):
        return _thread_kernels(program, segments)
    effects = [find_effects(program, segment.statements) for segment in segments]
    regions = {
        i: _plan_warp_region(program, segments, effects, i, group_size)
        for i, segment in enumerate(segments)
        if segment.is_warp_region
    }
    handoffs: dict[int, HandoffLayout] = {}
    end = 0
    for i, region in regions.items():
        others = [(s, e) for k, (s, e) in enumerate(zip(segments, effects, strict=True)) if k != i]
        excluded = {
            row
            for s, e in others
            if s.is_warp_region or not has_static_addresses(s.statements)
            for row in e.scratch_offsets()
        }
        excluded |= region.copied_out | region.external_lists | {location.element for location in segments[i].workload}
        handoffs[i] = layout_handoff(program, region.copied_in, excluded, region.shared_packing, end)
        end = handoffs[i].end_row
    fixed_starts = {allocation: row for layout in handoffs.values() for allocation, row in layout.allocation_rows}
    thread_effects = [
        segment_effects
        for segment_effects, segment in zip(effects, segments, strict=True)
        if not segment.is_warp_region
    ]
    thread_rows = {row for segment_effects in thread_effects for row in segment_effects.scratch_offsets()}
    thread_packing = ScratchPacking(
        program,
        thread_rows.union(*(_exchanged_offsets(effects[i], effects) for i in regions)),
        fixed_starts=fixed_starts,
        first_free=end,
    )
    kernels = []
    for i, (segment, segment_effects) in enumerate(zip(segments, effects, strict=True)):
        if segment.is_warp_region:
            kernels.append(_warp_region_kernel(regions[i], segment, thread_packing, handoffs[i]))
            continue
        can_overlap = i > 0 and _can_overlap(segments[i - 1], segments[i], effects[i - 1 : i + 1])
        kernel = _thread_kernel(program, segment, segment_effects.locals, thread_packing)
        kernels.append(replace(kernel, can_overlap=can_overlap))
    return kernels


def _thread_kernels(program: Program, segments: Sequence[_Segment]) -> list[KernelPart]:
    """Kernels of a program without cooperative statements, in time proportional to the scratch memory."""
    used = np.zeros(program.n_scratch + 1, np.bool_)
    for segment in segments:
        for cells in find_effect_cells(program, segment.statements)[:2]:
            used |= cells.scratch_offsets
    packing = ScratchPacking(program, np.flatnonzero(used[: program.n_scratch]))
    return [_thread_kernel(program, x, find_local_arrays(program, x.statements), packing) for x in segments]


def _thread_kernel(
    program: Program, segment: _Segment, local_arrays: Collection[str], packing: ScratchPacking
) -> KernelPart:
    """Kernel of one thread per environment that runs the statements of a segment."""
    kernel_program = Program(
        _relocate(segment.statements, packing.new_row),
        {name: program.locals[name] for name in sorted(local_arrays)},
        packing.size,
        packing.allocation_starts,
    )
    return KernelPart(kernel_program)


# -------------------------------------------------------------------------------------------------------- warp regions


class _WarpRegionMemory(NamedTuple):
    """Level-scheduled program of a warp region and its scratch memory."""

    program: Program
    shared_packing: ScratchPacking
    global_packing: ScratchPacking
    copied_in: set[int]
    """Shared-memory offsets that other kernels write."""
    copied_out: set[int]
    """Shared-memory offsets that other kernels read."""
    external_lists: set[int]
    """Scratch offsets of lists that are accessed directly in the thread scratch memory."""


def _plan_warp_region(
    program: Program,
    segments: Sequence[_Segment],
    segment_effects: Sequence[Effects],
    segment_index: int,
    group_size: int,
) -> _WarpRegionMemory:
    """Plan the kernel of a warp region: level-scheduled program, placement of its data, offsets to copy in and out.

    A warp region is code that a warp executes cooperatively for one environment.

    Long lists accessed at dynamic indices are placed in global memory, or stay in the scratch memory of the thread
    kernels if other kernels use them. All other data is packed into shared memory by live range.

    Args:
        program: the whole program.
        segments: statements of each kernel.
        segment_effects: read and write sets of each kernel.
        segment_index: index of the warp region among the kernels.
        group_size: threads per environment.
    """
    statements, effects = segments[segment_index].statements, segment_effects[segment_index]
    local_arrays = {name: program.locals[name] for name in sorted(effects.locals)}
    rows = effects.scratch_offsets()
    global_rows = global_list_offsets(program, statements)
    copied_out = set(_scratch_offsets(effects.writes)) & _offsets_read_elsewhere(effects, segment_effects) - global_rows
    copied_in = (
        _offsets_written_elsewhere(effects, segment_effects)
        & (set(_scratch_offsets(effects.reads)) | copied_out) - global_rows
    )
    lists = global_list_offsets(program, statements, _exchanged_offsets(effects, segment_effects))
    global_packing = ScratchPacking(program, rows & global_rows - lists)
    ranges = live_ranges(replace(program, body=statements), copied_in, copied_out)
    scheduled = schedule_levels(replace(program, body=statements, locals=local_arrays), group_size)
    dummy = len(scheduled.allocation_starts) - 1
    ranges[dummy] = LiveRange(0, max((live_range.last for live_range in ranges.values()), default=0))
    shared_packing = ScratchPacking(scheduled, rows - global_rows | {scheduled.allocation_starts[dummy]}, ranges)
    return _WarpRegionMemory(scheduled, shared_packing, global_packing, copied_in, copied_out, lists & rows)


def _warp_region_kernel(
    region: _WarpRegionMemory, segment: _Segment, thread_packing: ScratchPacking, handoff: HandoffLayout
) -> KernelPart:
    """Build the kernel of a planned warp region: addresses rewritten to their new memory, offsets to copy in and out.

    A warp region is code that a warp executes cooperatively for one environment.

    Args:
        region: level-scheduled program and memory plan.
        segment: the warp region.
        thread_packing: layout of the scratch memory of the thread kernels.
        handoff: data loaded by vector accesses at the start of the kernel.
    """
    shared_packing, allocation_starts = region.shared_packing, region.program.allocation_starts
    other_arenas = (
        (WARP_GLOBAL, region.global_packing),
        (THREAD_SCRATCH, ScratchPacking.restricted_to(thread_packing, region.external_lists)),
    )
    body = _relocate(region.program.body, shared_packing.new_row, other_arenas=other_arenas)
    body, n_shared = assign_staging_offsets(body, shared_packing.size)
    program = Program(body, region.program.locals, n_shared, shared_packing.allocation_starts)
    handoff_allocations = {allocation for allocation, _ in handoff.allocation_rows}
    copied = [
        row for row in sorted(region.copied_in) if bisect_right(allocation_starts, row) - 1 not in handoff_allocations
    ]
    return KernelPart(
        program,
        True,
        tuple((thread_packing.new_row(row), shared_packing.new_row(row)) for row in copied),
        tuple((shared_packing.new_row(row), thread_packing.new_row(row)) for row in sorted(region.copied_out)),
        region.global_packing.size,
        tuple(thread_packing.new_row(location.element) for location in segment.workload),
        handoff=handoff,
    )


# ----------------------------------------------------------------------------------------------------------- segments


class _Segment(NamedTuple):
    """Consecutive statements of one kernel, and whether they are a warp region."""

    statements: Statements
    is_warp_region: bool = False
    workload: tuple[MemoryLocation, ...] = ()


def _split_segments(program: Program, max_instructions: int | None) -> list[_Segment]:
    """Group the top-level statements of a program by the kernel that they will run in, in order.

    Each warp region (code that a warp executes cooperatively), work-queue loop and parallel loop is a group; the
    statements in between form groups of at most `max_instructions` instructions together (unless None; a longer
    statement is a group by itself, as is a basic block of at least `LONG_BLOCK_INSTRUCTIONS` between loops).
    """
    segments, statements = list[_Segment](), list[Statement]()
    was_long = False
    for block in program.body:
        is_long = isinstance(block, BasicBlock) and len(block.instructions) >= LONG_BLOCK_INSTRUCTIONS
        n_instructions = count_instructions((*statements, block))
        if max_instructions is not None and (is_long or was_long or n_instructions > max_instructions):
            segments += [_Segment(tuple(statements))]
            statements = []
        was_long = is_long
        if isinstance(block, WarpRegion | WorkQueueLoop) or (isinstance(block, ForEachLoop) and block.parallel):
            segments += [_Segment(tuple(statements))]
            statements = []
            segments += [
                _Segment(block.body, True, block.workload) if isinstance(block, WarpRegion) else _Segment((block,))
            ]
        else:
            statements.append(block)
    return [segment for segment in (*segments, _Segment(tuple(statements))) if segment.statements]


def _can_overlap(previous: _Segment, current: _Segment, segment_effects: Sequence[Effects]) -> bool:
    """Whether a segment is independent of the work-queue loop before it, so that both may run concurrently."""
    if not isinstance(previous.statements[0], WorkQueueLoop) or isinstance(current.statements[0], WorkQueueLoop):
        return False
    first, second = segment_effects
    return not (second.reads & first.writes or second.writes & (first.reads | first.writes))


def _scratch_offsets(cells: set[tuple[str, int]]) -> Iterator[int]:
    return (row for arena, row in cells if arena == SCRATCH)


def _offsets_written_elsewhere(own: Effects, segment_effects: Sequence[Effects]) -> set[int]:
    return {row for effects in segment_effects if effects is not own for row in _scratch_offsets(effects.writes)}


def _offsets_read_elsewhere(own: Effects, segment_effects: Sequence[Effects]) -> set[int]:
    return {row for effects in segment_effects if effects is not own for row in _scratch_offsets(effects.reads)}


def _exchanged_offsets(own: Effects, segment_effects: Sequence[Effects]) -> set[int]:
    """Scratch offsets that a segment shares with other segments."""
    return own.scratch_offsets() & (
        _offsets_written_elsewhere(own, segment_effects) | _offsets_read_elsewhere(own, segment_effects)
    )


def promote_shared_locals(program: Program, max_instructions: int | None = None) -> Program:
    """Pass: turn local arrays into scratch memory if they cannot be private to one thread.

    These are local arrays used by several kernels, or by several iterations of a for-each loop of a warp region, which
    run on different threads. Each becomes an allocation at the end of the scratch memory.
    """
    segments = _split_segments(program, max_instructions)
    n_users = Counter(name for segment in segments for name in find_local_arrays(program, segment.statements))
    for segment in segments:
        if segment.is_warp_region:
            n_users.update(2 * _locals_shared_by_iterations(program, segment.statements))
    starts: dict[str, int] = {}
    end = program.n_scratch
    for name, count in program.locals.items():
        if n_users[name] > 1:
            starts[name], end = end, end + count
    body = _relocate(program.body, lambda row: row, starts)
    remaining = {name: count for name, count in program.locals.items() if name not in starts}
    return replace(
        program,
        body=body,
        locals=remaining,
        n_scratch=end,
        allocation_starts=(*(program.allocation_starts or (0,)), *starts.values()),
    )


def _locals_shared_by_iterations(program: Program, statements: Statements) -> list[str]:
    """Local arrays that carry data between iterations of a for-each loop, or between the loop and the code around it.

    In a warp region the iterations run on different threads, so that these arrays cannot be private to a thread.
    """
    outside = {location.array for block in blocks_outside_for_each_loops(statements) for location in block.locations()}
    n_users = Counter(
        name for loop in outermost_for_each_loops(statements) for name in find_effects(program, (loop,)).locals
    )
    table_arrays = {
        arena
        for loop in outermost_for_each_loops(statements)
        for specialization in loop.specializations
        for arena, _ in specialization.array_columns.values()
    }
    return [name for name, count in n_users.items() if name in outside or name in table_arrays or count > 1]


# --------------------------------------------------------------------------------------------------------- relocation


def _relocate(
    statements: Statements,
    map_row: Callable[[int], int],
    promoted: Mapping[str, int] | None = None,
    other_arenas: OtherArenas = (),
) -> Statements:
    """Return statements (including nested ones) with all addresses in scratch memory moved to new places.

    Args:
        statements: statements to relocate.
        map_row: old scratch offset -> new scratch offset.
        promoted: local array -> first scratch offset, for local arrays that become scratch memory.
        other_arenas: (memory, packing) of allocations that move to other memories.
    """
    promoted = promoted or {}

    def map_location(old: MemoryLocation) -> MemoryLocation:
        if old.array in promoted:
            return MemoryLocation(SCRATCH, promoted[old.array] + old.element, old.index)
        if old.array != SCRATCH:
            return old
        arena, arena_row = next(
            ((arena, packing.new_row) for arena, packing in other_arenas if packing.contains(old.element)),
            (SCRATCH, map_row),
        )
        return MemoryLocation(arena, arena_row(old.element), old.index)

    def map_block(old: BasicBlock) -> BasicBlock:
        instructions = tuple(
            i if i.location is None else i._replace(location=map_location(i.location)) for i in old.instructions
        )
        return BasicBlock(instructions, tuple(s._replace(location=map_location(s.location)) for s in old.stores))

    def map_own_locations(old: Statement) -> Statement:
        match old:
            case BasicBlock():
                return map_block(old)
            case CountedLoop():
                return replace(old, count=map_location(old.count))
            case WhileLoop() | If():
                return replace(old, condition=map_location(old.condition))
            case WarpRegion():
                return replace(old, workload=tuple(map(map_location, old.workload)))
            case IntrinsicCall() | AtomicIncrement() | SharedMemoryStaging():
                return map_locations(old, map_location)
            case ForEachLoop():
                return _relocate_loop(old, map_row, promoted, other_arenas)
            case WorkQueueLoop():
                return old

    def relocate_body(body: Statements) -> Statements:
        return _relocate(body, map_row, promoted, other_arenas)

    return tuple(map_bodies(map_own_locations(block), relocate_body) for block in statements)


def _relocate_loop(
    loop: ForEachLoop, map_row: Callable[[int], int], promoted: Mapping[str, int], other_arenas: OtherArenas
) -> ForEachLoop:
    """Return a loop with moved scratch memory: array offsets in its table, totals of reductions, list of iterations.

    Only the loop's own table is rewritten, not its body.

    Args:
        loop: the loop.
        map_row: old scratch offset -> new scratch offset.
        promoted: local array -> first scratch offset, for local arrays that become scratch memory.
        other_arenas: (memory, packing) of allocations that move to other memories.
    """
    ints, specialization_indices = loop.ints.copy(), loop.specialization_indices()
    specializations = []
    for specialization_index, specialization in enumerate(loop.specializations):
        rows = np.flatnonzero(specialization_indices == specialization_index)
        array_columns = dict(specialization.array_columns)
        for array, (arena, column) in specialization.array_columns.items():
            old_rows = loop.ints[rows, column].tolist()
            if arena in promoted:
                ints[rows, column] += promoted[arena]
                array_columns[array] = SCRATCH, column
            elif arena == SCRATCH:
                new_arena, arena_row = next(
                    (
                        (other, packing.new_row)
                        for other, packing in other_arenas
                        if old_rows and packing.contains(old_rows[0])
                    ),
                    (SCRATCH, map_row),
                )
                ints[rows, column] = [arena_row(row) for row in old_rows]
                array_columns[array] = new_arena, column
        specializations.append(replace(specialization, array_columns=array_columns))
    reductions = tuple(
        (accumulator, total._replace(element=map_row(total.element))) for accumulator, total in loop.reductions
    )
    active = loop.active_iterations
    if active is not None and active.arena == SCRATCH:
        active = active._replace(row=map_row(active.row))
    return replace(
        loop, ints=ints, specializations=tuple(specializations), reductions=reductions, active_iterations=active
    )


# --------------------------------------------------------------------------------------------- lists in global memory


def global_list_offsets(program: Program, statements: Statements, restrict_to: set[int] | None = None) -> set[int]:
    """Scratch offsets of a warp region that are placed in global instead of shared memory: lists of large capacity.

    These are oversized lists, and allocations of more than `LONG_LIST_SIZE` scalars that for-each loops access at
    dynamic indices. Allocations that one table column refers to are placed together. Groups with an allocation that is
    also accessed outside for-each loops are excluded (oversized lists excepted). With `restrict_to`, only groups that
    contain one of these offsets are returned.
    """
    starts = list(program.allocation_starts) or [0]
    groups = _DisjointSets(len(starts))
    oversized = {bisect_right(starts, row) - 1 for row in program.oversized_lists}
    long = set(oversized)
    direct: set[int] = set()
    for block in blocks_outside_for_each_loops(statements):
        direct |= {
            bisect_right(starts, location.element) - 1 for location in block.locations() if location.array == SCRATCH
        } - oversized
    for loop in all_for_each_loops(statements):
        specialization_indices = loop.specialization_indices()
        for specialization_index, specialization in enumerate(loop.specializations):
            indexed = {
                location.array
                for block in basic_blocks(specialization.body)
                for location in block.locations()
                if location.index is not None
            }
            for array, (arena, column) in specialization.array_columns.items():
                allocations = {
                    bisect_right(starts, start) - 1
                    for start in loop.ints[specialization_indices == specialization_index, column].tolist()
                }
                if arena == SCRATCH and allocations:
                    groups.union(allocations)
                    is_long = (
                        allocation_end(program, starts[allocation]) - starts[allocation] > LONG_LIST_SIZE
                        for allocation in allocations
                    )
                    long |= allocations if array in indexed and any(is_long) else set()
    direct_groups = {groups.find(allocation) for allocation in direct}
    selected = {groups.find(allocation) for allocation in long} - direct_groups
    if restrict_to is not None:
        selected &= {groups.find(bisect_right(starts, row) - 1) for row in restrict_to}
    return {
        row
        for allocation in range(len(starts))
        if groups.find(allocation) in selected
        for row in range(starts[allocation], allocation_end(program, starts[allocation]))
    }


class _DisjointSets:
    """Union-find structure on the integers 0 to count - 1, with path halving."""

    def __init__(self, count: int) -> None:
        self._parent = list(range(count))

    def find(self, element: int) -> int:
        """Representative of the set of an element."""
        while self._parent[element] != element:
            self._parent[element] = element = self._parent[self._parent[element]]
        return element

    def union(self, items: Iterable[int]) -> None:
        """Merge the sets of all given elements."""
        first, *others = [self.find(element) for element in items]
        for other in others:
            self._parent[self.find(other)] = self.find(first)
