"""Level scheduling of table loops: independent rows run concurrently, one per thread of a warp.

A row depends on the earlier rows that write cells it reads, or that read or write cells it writes (flow, anti and
output dependences). Its level is the length of the longest dependence chain, so that the result is bitwise equal to
that of the sequential loop. In a tree traversal the levels are those of the tree. Cells that all rows add to are
privatised: each thread has an accumulator, and the accumulators are summed at the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from .effects import Cell, dependency_levels, effects_per_row, outermost_table_loops
from .memory import SCRATCH, Operand, Slot
from .program import (
    BasicBlock,
    CountedLoop,
    Instruction,
    LevelBatch,
    LoopVariant,
    Program,
    Statement,
    Statements,
    Store,
    TableLoop,
    basic_blocks,
    map_basic_blocks,
    map_bodies,
)

MAX_SERIAL_ADDS = 2
"""Maximum number of rows that may add to the same cell one after the other before it is privatised."""


def schedule_levels(program: Program, group_size: int) -> Program:
    """Pass: level scheduling of the table loops of a warp program, so that `group_size` threads run independent rows.

    Applies to loops that are not nested in another table loop or a parallel loop. Before, variants with equal code are
    merged, and cells that many rows add to become per-thread accumulators. Adds an allocation at the end of the scratch
    memory, on which padding rows work.
    """
    local_arrays = dict(program.locals)
    program = replace(program, locals=local_arrays)

    def schedule(statements: Statements) -> Statements:
        result: list[Statement] = []
        for block in statements:
            if isinstance(block, TableLoop):
                loop = _privatise_reductions(program, _merge_equal_variants(block), local_arrays)
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
        n_scratch=end + _max_slot_offset(program.body),
        allocation_starts=allocation_starts,
    )


def _merge_equal_variants(loop: TableLoop) -> TableLoop:
    """Merge code variants of a loop that are equal except for the table columns of their arrays and constants.

    The table entries of the merged rows are moved to the columns of the remaining variant.
    """
    index_by_text: dict[str, int] = {}
    kept: list[LoopVariant] = []
    ints, floats, variant_indices = loop.ints.copy(), loop.floats.copy(), loop.variant_indices()
    for variant_index, variant in enumerate(loop.variants):
        rows = variant_indices == variant_index
        text = _variant_text(variant)
        if text not in index_by_text:
            index_by_text[text] = len(kept)
            kept.append(variant)
        representative = kept[index_by_text[text]]
        for array, (_, column) in variant.array_columns.items():
            ints[rows, representative.array_columns[array][1]] = loop.ints[rows, column]
        for slot, column in variant.constant_columns.items():
            floats[rows, representative.constant_columns[slot]] = loop.floats[rows, column]
        if len(loop.variants) > 1:
            ints[rows, 0] = index_by_text[text]
    if len(kept) == len(loop.variants):
        return loop
    return replace(loop, variants=tuple(kept), ints=ints, floats=floats)


def _variant_text(variant: LoopVariant) -> str:
    """Canonical text of the code of a loop variant; variants with nested table loops are always distinct."""
    blocks = map_basic_blocks(variant.body, _renumber_values)
    nested = f"{id(variant)}" if any(True for _ in outermost_table_loops(variant.body)) else ""
    arenas = sorted((array, arena) for array, (arena, _) in variant.array_columns.items())
    return f"{Program(blocks)}\n{arenas}\n{sorted(map(str, variant.constant_columns))}{nested}"


def _renumber_values(block: BasicBlock) -> BasicBlock:
    """Renumber the SSA values of a basic block in order of computation: a canonical form for comparison."""
    new = {i.result: n for n, i in enumerate(block.instructions)}

    def operand(old: Operand) -> Operand:
        return new[old] if isinstance(old, int) else old

    def slot(old: Slot) -> Slot:
        return old if old.index is None else old._replace(index=new[old.index])

    instructions = tuple(
        Instruction(new[i.result], i.op, tuple(map(operand, i.args)), None if i.slot is None else slot(i.slot))
        for i in block.instructions
    )
    return BasicBlock(instructions, tuple(Store(slot(s.slot), operand(s.value)) for s in block.stores))


# --------------------------------------------------------------------------------------------------------- reductions


def _privatise_reductions(program: Program, loop: TableLoop, local_arrays: dict[str, int]) -> TableLoop:
    """Reduction privatisation: replace cells that many loop iterations only add to by per-thread accumulators.

    After the loop, the accumulators are summed over the threads and added to the cells. They are a local array, whose
    size is added to `local_arrays`. The loop is returned unchanged if no cell has more than `MAX_SERIAL_ADDS` writers,
    or if iterations also access a cell in another way.
    """
    variant_indices = loop.variant_indices()
    slots: dict[Cell, list[tuple[int, Slot]]] = {}
    for variant_index, variant in enumerate(loop.variants):
        rows = loop.ints[variant_indices == variant_index]
        for slot in _accumulated_slots(variant):
            arena, column = variant.array_columns[slot.array]
            starts = set(rows[:, column].tolist())
            if arena == SCRATCH and len(starts) == 1:
                slots.setdefault((SCRATCH, int(starts.pop()) + slot.item), []).append((variant_index, slot))
    write_counts = Counter(cell for row in effects_per_row(program, loop) for cell in row.writes)
    slots = {cell: uses for cell, uses in slots.items() if write_counts[cell] > MAX_SERIAL_ADDS}
    if not slots:
        return loop
    name = f"{loop.name}, sums {len(local_arrays)}"
    positions = {cell: i for i, cell in enumerate(sorted(slots))}
    changed = _replace_slots(loop, {(v, s): Slot(name, positions[c]) for c, uses in slots.items() for v, s in uses})
    local_arrays[name] = len(positions)
    remaining = set[Cell]().union(*(row.reads | row.writes for row in effects_per_row(program, changed)))
    if remaining & set(slots):  # the loop also accesses a cell in another way
        local_arrays.pop(name)
        return loop
    return replace(changed, reductions=tuple((Slot(name, i), Slot(*cell)) for cell, i in positions.items()))


def _accumulated_slots(variant: LoopVariant) -> Iterator[Slot]:
    """Slots of the row's arrays that a loop variant accesses only to add or subtract something (read-modify-write)."""
    accumulated: set[Slot] = set()
    other: set[Slot] = set()
    for block in basic_blocks(variant.body):
        accumulating = set(_accumulating_slots(block))
        for slot in block.slots():
            (accumulated if slot in accumulating else other).add(slot)
    indexed = {slot.array for slot in other if slot.index is not None}
    for slot in sorted(accumulated - other, key=str):
        if slot.array in variant.array_columns and slot.array not in indexed:
            yield slot


def _accumulating_slots(block: BasicBlock) -> Iterator[Slot]:
    """Slots that a basic block only updates: loaded once, then stored plus or minus something, or unchanged."""
    uses = Counter(a for i in block.instructions for a in i.uses)
    uses.update(block.roots)
    definitions = {i.result: i for i in block.instructions}
    loads_by_slot: dict[Slot, list[Instruction]] = {}
    for i in block.instructions:
        if i.slot is not None:
            loads_by_slot.setdefault(i.slot, []).append(i)
    for store in block.stores:
        loads = loads_by_slot.get(store.slot, [])
        if len(loads) != 1 or not isinstance(store.value, int) or uses[store.value] != 1 or uses[loads[0].result] != 1:
            continue
        definition = definitions[store.value]
        loaded = loads[0].result
        is_sum = (definition.op == "add" and loaded in definition.args) or (
            definition.op == "sub" and definition.args[0] == loaded
        )
        if is_sum or definition is loads[0]:  # or stored back unchanged
            yield store.slot


def _replace_slots(loop: TableLoop, replacements: dict[tuple[int, Slot], Slot]) -> TableLoop:
    """Return a table loop with memory references in the code of its variants replaced.

    `replacements` maps (variant index, old slot) to the new slot.
    """
    variants = []
    for variant_index, variant in enumerate(loop.variants):

        def replace_slot(old: Slot, variant_index: int = variant_index) -> Slot:
            return replacements.get((variant_index, old), old)

        def replace_in_block(old: BasicBlock, replace_slot: Callable[[Slot], Slot] = replace_slot) -> BasicBlock:
            instructions = tuple(
                i if i.slot is None else i._replace(slot=replace_slot(i.slot)) for i in old.instructions
            )
            return BasicBlock(instructions, tuple(s._replace(slot=replace_slot(s.slot)) for s in old.stores))

        variants.append(replace(variant, body=map_basic_blocks(variant.body, replace_in_block)))
    return replace(loop, variants=tuple(variants))


# ------------------------------------------------------------------------------------------------------------- levels


def _schedule_loop(program: Program, loop: TableLoop, group_size: int) -> TableLoop:
    """Level schedule of a table loop: its rows sorted by dependency level and code variant, in batches of `group_size`.

    Incomplete batches are padded with copies of their last row, which must have no effect: they are disabled by a flag
    in an additional table column, or, where safe, work on a dummy allocation. Returns the loop with the reordered
    table.
    """
    variant_indices = loop.variant_indices().tolist()
    groups: dict[tuple[int, int], list[int]] = {}
    for i, level in enumerate(dependency_levels((row.reads, row.writes) for row in effects_per_row(program, loop))):
        groups.setdefault((level, variant_indices[i]), []).append(i)
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
        _redirect_padding_rows(loop, ints, np.array(is_real), [variant_indices[i] for i in order], program.n_scratch)
    return replace(loop, ints=ints, floats=loop.floats[order], schedule=tuple(batches), predicated=predicated)


def _is_safe_on_dummy_memory(loop: TableLoop) -> bool:
    """Whether padding rows of a loop may execute its code on a dummy allocation, instead of being disabled by a flag.

    The code must be basic blocks with static addresses that store to scratch memory only, without reductions.
    """
    if loop.reductions:
        return False
    for variant in loop.variants:
        for block in variant.body:
            if not isinstance(block, BasicBlock) or any(slot.index is not None for slot in block.slots()):
                return False
            if any(variant.array_columns.get(s.slot.array, ("", 0))[0] != SCRATCH for s in block.stores):
                return False
    return True


def _redirect_padding_rows(
    loop: TableLoop, ints: npt.NDArray[np.int32], is_real: npt.NDArray[Any], variant_indices: list[int], dummy_row: int
) -> None:
    """Point all scratch arrays of the padding rows in the integer table `ints` to `dummy_row`, in place."""
    indices = np.array(variant_indices)
    for variant_index, variant in enumerate(loop.variants):
        for arena, column in variant.array_columns.values():
            if arena == SCRATCH:
                ints[(indices == variant_index) & (is_real == 0), column] = dummy_row


def _max_slot_offset(statements: Statements) -> int:
    """Size of the dummy allocation for padding rows: 1 + the largest item offset in the code of any table loop."""
    slots = (
        slot
        for loop in outermost_table_loops(statements)
        for variant in loop.variants
        for block in basic_blocks(variant.body)
        for slot in block.slots()
    )
    return 1 + max((slot.item for slot in slots), default=0)
