"""Basic-block splitting: divides long straight-line code into shorter blocks that exchange values through memory.

Assemblers of GPU code take more than linear time for long basic blocks, and assemble one kernel at a time: the new
blocks of a block compile in parallel. Cuts are placed where few values are live.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from .kernel_split import KernelPart
from .memory import SCRATCH, MemoryLocation
from .program import BasicBlock, Instruction, Store
from .scratch_layout import VECTOR_WIDTH

CUT_WINDOW = 0.25
"""Fraction of the length of a new block within which the position of a cut is chosen."""


def split_basic_block(
    block: BasicBlock,
    max_instructions: int,
    first_row: int,
    store_group: Callable[[MemoryLocation], object] = lambda location: location,
) -> tuple[list[BasicBlock], int]:
    """Split a long basic block into consecutive shorter blocks that together compute the same values.

    The blocks have about equal length and run one after the other; values needed by a later block are passed through
    scratch memory. Loads with static addresses are repeated in each block that uses them. A store is done by the first
    block in which its value is available and after which no block loads its memory location.

    Args:
        block: basic block with at most one store per memory location.
        max_instructions: maximum number of instructions of a new block, without loads.
        first_row: first free scratch offset.
        store_group: key of a store's memory location; stores with equal keys stay in one block.

    Returns:
        The new blocks (`block` itself if it is short or has dynamic addresses), and the end of the scratch offsets in
        use.
    """
    computed = [i for i in block.instructions if i.op != "input"]
    has_dynamic_locations = any(location.index is not None for location in block.locations())
    n_blocks = -(-len(computed) // max_instructions)
    if n_blocks < 2 or has_dynamic_locations:
        return [block], first_row
    loads = {i.result: i for i in block.instructions if i.op == "input"}
    cuts = _cut_positions(computed, n_blocks)
    block_of: dict[int, int] = {}
    for index, (start, end) in enumerate(zip([0, *cuts], [*cuts, len(computed)], strict=True)):
        block_of.update((i.result, index) for i in computed[start:end])

    used_in = defaultdict[int, set[int]](set)  # value -> blocks that use it
    for instruction in computed:
        for value in instruction.uses:
            used_in[value].add(block_of[instruction.result])
    block_of_group = _place_stores(block.stores, store_group, block_of, loads, used_in)
    stores: list[list[Store]] = [[] for _ in range(n_blocks)]
    for store in block.stores:
        stores[block_of_group[store_group(store.location)]].append(store)

    exchange: dict[int, MemoryLocation] = {}
    for value in (i.result for i in computed):
        if max(used_in[value], default=0) > block_of[value]:
            exchange[value] = MemoryLocation(SCRATCH, first_row + len(exchange))
            stores[block_of[value]].append(Store(exchange[value], value))
    blocks = []
    for index in range(n_blocks):
        loaded = [loads[v] for v in loads if index in used_in[v]]
        received = [
            Instruction(v, "input", (), location)
            for v, location in exchange.items()
            if index in used_in[v] and block_of[v] < index
        ]
        own = [i for i in computed if block_of[i.result] == index]
        blocks.append(BasicBlock((*loaded, *received, *own), tuple(stores[index])))
    return blocks, first_row + len(exchange)


def split_long_kernels(
    parts: Sequence[KernelPart],
    max_instructions: int,
    block_instructions: int,
    block_pass: Callable[[BasicBlock], BasicBlock],
) -> list[KernelPart]:
    """Split long straight-line kernels into several kernels that exchange values in scratch memory.

    Applies to kernels with one thread per environment and more than `max_instructions` instructions; all others are
    returned unchanged. `block_pass` schedules the instructions first, so that few values are live at the cuts. New
    kernels have at most `block_instructions` instructions without loads.
    """
    n_scratch = max((part.program.n_scratch for part in parts if not part.is_warp_region), default=0)
    n_handoff_rows = max(part.handoff.end_row for part in parts)

    def store_group(location: MemoryLocation) -> object:
        """Stores of one vector of the hand-off area stay together."""
        is_handoff = location.array == SCRATCH and location.element < n_handoff_rows
        return location.element // VECTOR_WIDTH if is_handoff else location

    result: list[KernelPart] = []
    for part in parts:
        program = part.program
        if part.is_warp_region or not program.is_straight_line or program.n_instructions <= max_instructions:
            result.append(part)
            continue
        block = block_pass(program.basic_block)
        new_blocks, end = split_basic_block(block, block_instructions, n_scratch, store_group)
        for i, new_block in enumerate(new_blocks):
            block_program = replace(program, body=(new_block,), n_scratch=end)
            result.append(replace(part, program=block_program, can_overlap=part.can_overlap and i == 0))
    return result


def _place_stores(
    stores: Iterable[Store],
    store_group: Callable[[MemoryLocation], object],
    block_of: Mapping[int, int],
    loads: Mapping[int, Instruction],
    used_in: defaultdict[int, set[int]],
) -> dict[object, int]:
    """Assign each group of stores to one of the new blocks, and add that block to `used_in` of the stored values.

    A store is placed after the computation of its value and after the last load of its memory location. Repeated until
    nothing changes, as a stored value may itself be loaded from a memory location that another store overwrites.

    Args:
        stores: stores of the block to be split.
        store_group: key of the group of a memory location.
        block_of: value -> index of the new block that computes it.
        loads: value -> load instruction that defines it.
        used_in: value -> indices of the new blocks that use it; extended in place.

    Returns:
        Group -> index of the new block.
    """
    block_of_group: dict[object, int] = {}
    changed = True
    while changed:
        changed = False
        last_load = {load.location: max(used_in[value], default=0) for value, load in loads.items()}
        for store in stores:
            group = store_group(store.location)
            earliest = max([last_load.get(store.location, 0), *(block_of.get(v, 0) for v in store.uses)])
            index = max(earliest, block_of_group.get(group, 0))
            changed |= block_of_group.get(group) != index
            block_of_group[group] = index
            for value in store.uses:
                changed |= index not in used_in[value]
                used_in[value].add(index)
    return block_of_group


def _cut_positions(computed: list[Instruction], n_blocks: int) -> list[int]:
    """Positions at which to cut a list of instructions into `n_blocks` consecutive parts of similar length.

    Each of the `n_blocks` - 1 cuts lies within a quarter of a part length of equal spacing, where the fewest values are
    live.
    """
    last_use = {value: position for position, x in enumerate(computed) for value in x.uses}
    ends = [0] * (len(computed) + 1)
    n_live, live = 0, [0] * (len(computed) + 1)  # live[p]: values crossing a cut before position p
    for position, instruction in enumerate(computed):
        live[position] = n_live
        n_live -= ends[position]
        last = last_use.get(instruction.result)
        if last is not None and last > position:
            n_live += 1
            ends[last] += 1
    length = len(computed) / n_blocks
    positions = []
    for k in range(1, n_blocks):
        low, high = int((k - CUT_WINDOW) * length), int((k + CUT_WINDOW) * length)
        positions.append(min(range(low, high + 1), key=lambda p: (live[p], abs(p - k * length))))
    return positions
