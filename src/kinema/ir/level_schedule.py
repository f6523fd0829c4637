"""Level scheduling of for-each loops: independent iterations run concurrently, one per thread of a warp.

An iteration depends on the earlier iterations that write cells it reads, or that read or write cells it writes (flow,
anti and output dependences). Its level is the length of the longest dependence chain, so that the result is bitwise
equal to that of the sequential loop. In a tree traversal the levels are those of the tree. Cells that all iterations
add to are privatised: each thread has an accumulator, and the accumulators are summed at the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from .effects import Cell, dependency_levels, effects_per_iteration, outermost_for_each_loops
from .memory import SCRATCH, MemoryLocation, Operand
from .program import (
    BasicBlock,
    CountedLoop,
    ForEachLoop,
    Instruction,
    LevelBatch,
    LoopSpecialization,
    Program,
    Statement,
    Statements,
    Store,
    basic_blocks,
    map_basic_blocks,
    map_bodies,
)

MAX_SERIAL_ADDS = 2
"""Maximum number of iterations that may add to the same cell one after the other before it is privatised."""


def schedule_levels(program: Program, group_size: int) -> Program:
    """Pass: level scheduling of the loops of a warp program, so that `group_size` threads run independent iterations.

    Applies to loops that are not nested in another for-each loop or a parallel loop. Before, specializations with equal
    code are merged, and cells that many iterations add to become per-thread accumulators. Adds an allocation at the end
    of the scratch memory, on which padding iterations work.
    """
    local_arrays = dict(program.locals)
    program = replace(program, locals=local_arrays)

    def schedule(statements: Statements) -> Statements:
        result: list[Statement] = []
        for block in statements:
            if isinstance(block, ForEachLoop):
                loop = _privatise_reductions(program, _merge_equal_specializations(block), local_arrays)
                result.append(_schedule_loop(program, loop, group_size))
            elif isinstance(block, CountedLoop) and block.parallel:
                result.append(block)
            else:
                result.append(map_bodies(block, schedule))
        return tuple(result)

    end = program.n_scratch
    allocation_starts = (*(program.allocation_starts or (0,)), end)
    return replace(
        program,
        body=schedule(program.body),
        n_scratch=end + _max_location_offset(program.body),
        allocation_starts=allocation_starts,
    )


def _merge_equal_specializations(loop: ForEachLoop) -> ForEachLoop:
    """Merge specializations of a loop that are equal except for the table columns of their arrays and constants.

    The table entries of the merged iterations are moved to the columns of the remaining specialization.
    """
    index_by_text: dict[str, int] = {}
    kept: list[LoopSpecialization] = []
    ints, floats, specialization_indices = loop.ints.copy(), loop.floats.copy(), loop.specialization_indices()
    for specialization_index, specialization in enumerate(loop.specializations):
        rows = specialization_indices == specialization_index
        text = _specialization_text(specialization)
        if text not in index_by_text:
            index_by_text[text] = len(kept)
            kept.append(specialization)
        representative = kept[index_by_text[text]]
        for array, (_, column) in specialization.array_columns.items():
            ints[rows, representative.array_columns[array][1]] = loop.ints[rows, column]
        for location, column in specialization.constant_columns.items():
            floats[rows, representative.constant_columns[location]] = loop.floats[rows, column]
        if len(loop.specializations) > 1:
            ints[rows, 0] = index_by_text[text]
    if len(kept) == len(loop.specializations):
        return loop
    return replace(loop, specializations=tuple(kept), ints=ints, floats=floats)


def _specialization_text(specialization: LoopSpecialization) -> str:
    """Canonical text of the code of a loop specialization; specializations with nested loops are always distinct."""
    blocks = map_basic_blocks(specialization.body, _renumber_values)
    nested = f"{id(specialization)}" if any(True for _ in outermost_for_each_loops(specialization.body)) else ""
    arenas = sorted((array, arena) for array, (arena, _) in specialization.array_columns.items())
    return f"{Program(blocks)}\n{arenas}\n{sorted(map(str, specialization.constant_columns))}{nested}"


def _renumber_values(block: BasicBlock) -> BasicBlock:
    """Renumber the SSA values of a basic block in order of computation: a canonical form for comparison."""
    new = {i.result: n for n, i in enumerate(block.instructions)}

    def operand(old: Operand) -> Operand:
        return new[old] if isinstance(old, int) else old

    def location(old: MemoryLocation) -> MemoryLocation:
        return old if old.index is None else old._replace(index=new[old.index])

    instructions = tuple(
        Instruction(
            new[i.result], i.op, tuple(map(operand, i.args)), None if i.location is None else location(i.location)
        )
        for i in block.instructions
    )
    return BasicBlock(instructions, tuple(Store(location(s.location), operand(s.value)) for s in block.stores))


# --------------------------------------------------------------------------------------------------------- reductions


def _privatise_reductions(program: Program, loop: ForEachLoop, local_arrays: dict[str, int]) -> ForEachLoop:
    """Reduction privatisation: replace cells that many loop iterations only add to by per-thread accumulators.

    After the loop, the accumulators are summed over the threads and added to the cells. They are a local array, whose
    size is added to `local_arrays`. The loop is returned unchanged if no cell has more than `MAX_SERIAL_ADDS` writers,
    or if iterations also access a cell in another way.
    """
    specialization_indices = loop.specialization_indices()
    locations: dict[Cell, list[tuple[int, MemoryLocation]]] = {}
    for specialization_index, specialization in enumerate(loop.specializations):
        rows = loop.ints[specialization_indices == specialization_index]
        for location in accumulated_locations(specialization):
            arena, column = specialization.array_columns[location.array]
            starts = set(rows[:, column].tolist())
            if arena == SCRATCH and len(starts) == 1:
                locations.setdefault((SCRATCH, int(starts.pop()) + location.element), []).append(
                    (specialization_index, location)
                )
    write_counts = Counter(cell for row in effects_per_iteration(program, loop) for cell in row.writes)
    locations = {cell: uses for cell, uses in locations.items() if write_counts[cell] > MAX_SERIAL_ADDS}
    if not locations:
        return loop
    name = f"{loop.name}, sums {len(local_arrays)}"
    positions = {cell: i for i, cell in enumerate(sorted(locations))}
    changed = _replace_locations(
        loop, {(v, s): MemoryLocation(name, positions[c]) for c, uses in locations.items() for v, s in uses}
    )
    local_arrays[name] = len(positions)
    remaining = set[Cell]().union(*(row.reads | row.writes for row in effects_per_iteration(program, changed)))
    if remaining & set(locations):  # the loop also accesses a cell in another way
        local_arrays.pop(name)
        return loop
    return replace(
        changed, reductions=tuple((MemoryLocation(name, i), MemoryLocation(*cell)) for cell, i in positions.items())
    )


def accumulated_locations(specialization: LoopSpecialization) -> Iterator[MemoryLocation]:
    """Memory locations of the iteration's arrays that a loop body only accumulates into (read-modify-write)."""
    accumulated: set[MemoryLocation] = set()
    other: set[MemoryLocation] = set()
    for block in basic_blocks(specialization.body):
        accumulating = set(_accumulating_locations(block))
        for location in block.locations():
            (accumulated if location in accumulating else other).add(location)
    indexed = {location.array for location in other if location.index is not None}
    for location in sorted(accumulated - other, key=str):
        if location.array in specialization.array_columns and location.array not in indexed:
            yield location


def _accumulating_locations(block: BasicBlock) -> Iterator[MemoryLocation]:
    """Memory locations that a basic block only accumulates into: loaded once, stored with a sum or unchanged."""
    uses = Counter(a for i in block.instructions for a in i.uses)
    uses.update(block.roots)
    definitions = {i.result: i for i in block.instructions}
    loads_by_location: dict[MemoryLocation, list[Instruction]] = {}
    for i in block.instructions:
        if i.location is not None:
            loads_by_location.setdefault(i.location, []).append(i)
    for store in block.stores:
        loads = loads_by_location.get(store.location, [])
        if len(loads) != 1 or not isinstance(store.value, int) or uses[store.value] != 1 or uses[loads[0].result] != 1:
            continue
        definition = definitions[store.value]
        loaded = loads[0].result
        is_sum = (definition.op == "add" and loaded in definition.args) or (
            definition.op == "sub" and definition.args[0] == loaded
        )
        if is_sum or definition is loads[0]:  # or stored back unchanged
            yield store.location


def _replace_locations(
    loop: ForEachLoop, replacements: dict[tuple[int, MemoryLocation], MemoryLocation]
) -> ForEachLoop:
    """Return a for-each loop with memory references in the code of its specializations replaced.

    `replacements` maps (specialization index, old memory location) to the new memory location.
    """
    specializations = []
    for specialization_index, specialization in enumerate(loop.specializations):

        def replace_location(old: MemoryLocation, specialization_index: int = specialization_index) -> MemoryLocation:
            return replacements.get((specialization_index, old), old)

        def replace_in_block(
            old: BasicBlock, replace_location: Callable[[MemoryLocation], MemoryLocation] = replace_location
        ) -> BasicBlock:
            instructions = tuple(
                i if i.location is None else i._replace(location=replace_location(i.location)) for i in old.instructions
            )
            return BasicBlock(
                instructions, tuple(s._replace(location=replace_location(s.location)) for s in old.stores)
            )

        specializations.append(replace(specialization, body=map_basic_blocks(specialization.body, replace_in_block)))
    return replace(loop, specializations=tuple(specializations))


# ------------------------------------------------------------------------------------------------------------- levels


def _schedule_loop(program: Program, loop: ForEachLoop, group_size: int) -> ForEachLoop:
    """Level schedule of a loop: iterations sorted by dependency level and specialization, in batches of `group_size`.

    Incomplete batches are padded with copies of their last iteration, which must have no effect: they are disabled by a
    flag in an additional table column, or, where safe, work on a dummy allocation. Returns the loop with the reordered
    table.
    """
    specialization_indices = loop.specialization_indices().tolist()
    groups: dict[tuple[int, int], list[int]] = {}
    for i, level in enumerate(
        dependency_levels((row.reads, row.writes) for row in effects_per_iteration(program, loop))
    ):
        groups.setdefault((level, specialization_indices[i]), []).append(i)
    order: list[int] = []
    is_real: list[int] = []
    batches = []
    for key in sorted(groups):
        rows = groups[key]
        for first in range(0, len(rows), group_size):
            batch = rows[first : first + group_size]
            batches.append(LevelBatch(key[1], len(order), len(batch), key[0]))
            n_padding = group_size - len(batch)
            order += [*batch, *batch[-1:] * n_padding]
            is_real += [1] * len(batch) + [0] * n_padding
    ints, predicated = loop.ints[order], not _is_safe_on_dummy_memory(loop)
    if predicated:
        ints = np.column_stack([ints, np.array(is_real, np.int32)])
    else:
        _redirect_padding_iterations(
            loop, ints, np.array(is_real), [specialization_indices[i] for i in order], program.n_scratch
        )
    return replace(loop, ints=ints, floats=loop.floats[order], schedule=tuple(batches), predicated=predicated)


def _is_safe_on_dummy_memory(loop: ForEachLoop) -> bool:
    """Whether padding iterations may execute the loop body on a dummy allocation, instead of being disabled by a flag.

    The code must be basic blocks with static addresses that store to scratch memory only, without reductions.
    """
    if loop.reductions:
        return False
    for specialization in loop.specializations:
        for block in specialization.body:
            if not isinstance(block, BasicBlock) or any(location.index is not None for location in block.locations()):
                return False
            if any(specialization.array_columns.get(s.location.array, ("", 0))[0] != SCRATCH for s in block.stores):
                return False
    return True


def _redirect_padding_iterations(
    loop: ForEachLoop,
    ints: npt.NDArray[np.int32],
    is_real: npt.NDArray[Any],
    specialization_indices: list[int],
    dummy_row: int,
) -> None:
    """Point all scratch arrays of the padding iterations in the integer table `ints` to `dummy_row`, in place."""
    indices = np.array(specialization_indices)
    for specialization_index, specialization in enumerate(loop.specializations):
        for arena, column in specialization.array_columns.values():
            if arena == SCRATCH:
                ints[(indices == specialization_index) & (is_real == 0), column] = dummy_row


def _max_location_offset(statements: Statements) -> int:
    """Size of the dummy allocation for padding iterations: 1 + the largest element offset in the code of any loop."""
    locations = (
        location
        for loop in outermost_for_each_loops(statements)
        for specialization in loop.specializations
        for block in basic_blocks(specialization.body)
        for location in block.locations()
    )
    return 1 + max((location.element for location in locations), default=0)
