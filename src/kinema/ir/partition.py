"""Partitioning of a basic block for warp specialization: each warp computes one partition of the outputs.

The limbs of a robot are coupled only through its trunk. A value that depends on the state of one limb belongs to the
partition of the limb. A value that depends on the trunk only is recomputed by every partition that needs it. A value
that depends on several limbs is computed after a single exchange through shared memory, again by every partition that
needs it. A partition is therefore a program of two basic blocks with a barrier in between. A thread holds the values of
one limb instead of all, and one environment keeps several threads busy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import NamedTuple

from .memory import SCRATCH, MemoryLocation, Operand
from .optimise import depth_first_order, fuse_multiply_add
from .program import BasicBlock, Instruction, Program, Store

EXCHANGE = "exchange"
"""Array in shared memory through which partitions exchange values at the barrier."""
LIVE_ACROSS_BARRIER = "live across barrier"
"""Local array of values that a partition keeps from its first basic block for its second."""
SEPARATED_EXCHANGE = "separated exchange"
"""Array in global memory for the values of both arrays above, if each basic block is a kernel of its own."""
PartitionOf = Callable[[MemoryLocation], "int | None"]
"""Function from an input or output memory location to its partition, or None for memory locations of the trunk."""


def partition_basic_block(block: BasicBlock, partition_of: PartitionOf, n_partitions: int) -> tuple[Program, ...]:
    """Split a basic block into programs for `n_partitions` specialized warps, which exchange values once.

    Each program has two basic blocks, with the exchange through shared memory and a barrier in between. Values that
    depend on inputs of a single partition are computed by that partition, all others by each partition that needs them.
    Outputs that belong to no partition (`partition_of` gives None) are stored by partition 0; stores to scratch memory
    are assigned by load balance. The block must not contain fused multiply-adds yet, as these couple partitions.
    """
    block = reassociate_sums(block, partition_of)
    dependencies = {i.result: i.uses for i in block.instructions}
    source_partitions = _source_partitions(block, partition_of)
    stores = _assign_stores(block, partition_of, dependencies, source_partitions, n_partitions)
    required = [
        _required_values(dependencies, source_partitions, partition, [s.value for s in partition_stores])
        for partition, partition_stores in enumerate(stores)
    ]
    exchanged = sorted(set().union(*(live_in for _, live_in in required)))
    exchange_locations = {value: MemoryLocation(EXCHANGE, i) for i, value in enumerate(exchanged)}
    partitions = [
        _build_partition(block, partition, stores, required[partition], exchanged, dependencies, source_partitions)
        for partition in range(len(required))
    ]
    max_before = max(len(code.before_barrier) for code in partitions)
    return tuple(_partition_program(_fill_before_barrier(code, max_before), exchange_locations) for code in partitions)


class _PartitionCode(NamedTuple):
    """Code of one partition, divided at the barrier."""

    block: BasicBlock
    """All instructions and stores of the partition."""
    live_out: Sequence[int]
    """Values that other partitions read from the exchange array."""
    live_in: Sequence[int]
    """Values read from the exchange array."""
    before_barrier: Sequence[Instruction]
    """Instructions before the barrier."""
    movable_stores: Sequence[Store]
    """Stores that may move before the barrier, as no instruction loads their memory locations."""
    early_stores: Sequence[Store] = ()
    """Movable stores that are placed before the barrier."""


def _build_partition(
    block: BasicBlock,
    partition: int,
    stores: Sequence[Sequence[Store]],
    required: tuple[set[int], set[int]],
    exchanged: Sequence[int],
    dependencies: Mapping[int, list[int]],
    source_partitions: Mapping[int, frozenset[int]],
) -> _PartitionCode:
    """Collect the code of one partition: its instructions (multiply-adds fused), stores, live-out and live-in values.

    The instructions needed for live-out values come before the barrier, as do loads of memory locations that another
    partition stores.

    Args:
        block: the basic block to be partitioned.
        partition: index of the partition.
        stores: stores of each partition.
        required: values that the partition computes, and values that it imports.
        exchanged: all values that any partition imports.
        dependencies: value -> its operands.
        source_partitions: value -> partitions whose inputs it depends on.
    """
    required_values, live_in = required
    live_out = [v for v in exchanged if source_partitions[v] == frozenset({partition})]
    for_live_out, _ = _required_values(dependencies, source_partitions, partition, live_out)
    computed = required_values | for_live_out
    partition_block = BasicBlock(tuple(i for i in block.instructions if i.result in computed), tuple(stores[partition]))
    partition_block = fuse_multiply_add(partition_block, extra_roots=live_out)
    foreign_locations = {
        s.location for other, other_stores in enumerate(stores) if other != partition for s in other_stores
    }
    early_loads = [
        i.result for i in partition_block.instructions if i.location in foreign_locations
    ]  # must be read before another partition writes them
    loaded_locations = {i.location for i in block.instructions if i.location is not None}
    movable = [
        s
        for s in partition_block.stores
        if s.location.array == SCRATCH and s.location.index is None and s.location not in loaded_locations
    ]
    return _PartitionCode(
        partition_block,
        live_out,
        sorted(live_in),
        depth_first_order(partition_block.instructions, [*live_out, *early_loads]),
        movable,
    )


def _fill_before_barrier(code: _PartitionCode, max_instructions: int) -> _PartitionCode:
    """Move stores and the instructions that they need before the barrier, up to `max_instructions` before it.

    Only movable stores that need no live-in value are moved. This balances the waiting time of partitions at the
    barrier and shortens live ranges: on a G1 humanoid, a sixth of the values that were live across the barrier still
    spill.
    """
    dependencies = {i.result: i.uses for i in code.block.instructions}
    done, early = {i.result for i in code.before_barrier}, list[Store]()
    for store in code.movable_stores:
        added, pending = set[int](), [store.value] if isinstance(store.value, int) else []
        while pending:
            value = pending.pop()
            if value in dependencies and value not in done and value not in added:
                added.add(value)
                pending += dependencies[value]
        used = {v for value in added for v in dependencies[value]} | {store.value}
        if used.isdisjoint(code.live_in) and len(done) + len(added) <= max_instructions:
            done |= added
            early.append(store)
    before = tuple(i for i in code.block.instructions if i.result in done)
    return code._replace(before_barrier=before, early_stores=early)


def _partition_program(code: _PartitionCode, exchange_locations: Mapping[int, MemoryLocation]) -> Program:
    """Program of a partition: a basic block before the barrier and one after it.

    The first block stores live-out values to the exchange array (`exchange_locations`), and values needed by the second
    block to a local array; the second block loads these and the live-in values. Of two instruction orders, the one
    with lower register pressure is used for each block.
    """
    block, done = code.block, {i.result for i in code.before_barrier}
    after = tuple(i for i in block.instructions if i.result not in done)
    late_stores = tuple(store for store in block.stores if store not in code.early_stores)
    used = {v for i in after for v in i.uses} | set(BasicBlock((), late_stores).roots)
    kept_locations = {v: MemoryLocation(LIVE_ACROSS_BARRIER, i) for i, v in enumerate(sorted(used & done))}
    loads = [*((v, exchange_locations[v]) for v in code.live_in), *kept_locations.items()]
    load_instructions = [Instruction(v, "input", (), location) for v, location in loads]
    live_out, kept_stores = (
        [Store(s, v) for v, s in x]
        for x in (((v, exchange_locations[v]) for v in code.live_out), kept_locations.items())
    )
    first = BasicBlock(tuple(code.before_barrier), (*live_out, *code.early_stores, *kept_stores))
    depth_first = depth_first_order(first.instructions, [*first.roots, *(i.result for i in first.instructions)])
    first = _min_live_order([replace(first, instructions=depth_first), first])
    second = BasicBlock(_interleave_loads(load_instructions, after), late_stores)
    second = _min_live_order(
        [second, replace(second, instructions=depth_first_order([*load_instructions, *after], second.roots))]
    )
    return Program((first, second), {LIVE_ACROSS_BARRIER: len(kept_locations)})


def _min_live_order(candidates: Sequence[BasicBlock]) -> BasicBlock:
    """Candidate block with the fewest simultaneously live values (same instructions in different orders)."""
    return min(candidates, key=lambda block: block.max_live(eager_arrays=(SCRATCH, EXCHANGE, LIVE_ACROSS_BARRIER)))


def _interleave_loads(loads: Sequence[Instruction], instructions: Sequence[Instruction]) -> tuple[Instruction, ...]:
    """Order with each load directly before its first use; loads without a use come last, as they are only stored."""
    pending, order = {i.result: i for i in loads}, list[Instruction]()
    for instruction in instructions:
        order += [pending.pop(v) for v in instruction.uses if v in pending]
        order.append(instruction)
    return (*order, *pending.values())


def partitions_of_scratch(block: BasicBlock, partition_of: PartitionOf) -> dict[int, int | None]:
    """Map each scratch offset that a basic block stores to the partition that its value depends on.

    None if the value depends on no partition or on several.
    """
    source_partitions, partitions = _source_partitions(block, partition_of), {}
    for store in block.stores:
        if store.location.array == SCRATCH and store.location.index is None:
            sources = source_partitions[store.value] if isinstance(store.value, int) else frozenset[int]()
            partitions[store.location.element] = next(iter(sources)) if len(sources) == 1 else None
    return partitions


def _assign_stores(
    block: BasicBlock,
    partition_of: PartitionOf,
    dependencies: Mapping[int, list[int]],
    source_partitions: Mapping[int, frozenset[int]],
    n_partitions: int,
) -> list[list[Store]]:
    """Assign each store of a basic block to a partition; returns the stores by partition.

    Stores to state arrays go to the partition of their memory location (partition 0 if it has none), stores to scratch
    memory to the only partition that their value depends on. The others go one by one to the partition with the lowest
    load: number of values to compute so far plus twice the number added by the store.

    Args:
        block: the basic block.
        partition_of: memory location -> partition or None.
        dependencies: value -> its operands.
        source_partitions: value -> partitions whose inputs it depends on.
        n_partitions: number of partitions.
    """
    stores: list[list[Store]] = [[] for _ in range(n_partitions)]
    unassigned: list[Store] = []
    for store in block.stores:
        sources = source_partitions[store.value] if isinstance(store.value, int) else frozenset[int]()
        if store.location.array != SCRATCH:
            stores[partition_of(store.location) or 0].append(store)
        elif len(sources) == 1:
            stores[next(iter(sources))].append(store)
        else:
            unassigned.append(store)
    needed = [
        _required_values(dependencies, source_partitions, partition, [s.value for s in partition_stores])[0]
        for partition, partition_stores in enumerate(stores)
    ]
    for store in unassigned:
        added = [
            _required_values(dependencies, source_partitions, p, [store.value], needed[p])[0]
            for p in range(n_partitions)
        ]
        chosen = min(range(n_partitions), key=lambda p: len(needed[p]) + 2 * len(added[p]))
        needed[chosen] |= added[chosen]
        stores[chosen].append(store)
    return stores


def reassociate_sums(block: BasicBlock, partition_of: PartitionOf) -> BasicBlock:
    """Reassociate sums of terms that depend on several partitions: one partial sum per partition, then their total.

    Each partial sum then depends on one partition only, and is a single value to exchange. Changes the rounding.
    """
    uses = Counter(a for i in block.instructions for a in i.uses)
    uses.update(block.roots)
    definitions = {i.result: i for i in block.instructions}
    source_partitions = _source_partitions(block, partition_of)
    inner_sums = {
        a
        for i in block.instructions
        if i.op in SUM_OPS
        for a in i.uses
        if uses[a] == 1 and definitions[a].op in SUM_OPS and len(source_partitions[a] | source_partitions[i.result]) > 1
    }
    new_values = count(max(definitions, default=0) + 1)
    result: list[Instruction] = []
    for i in block.instructions:
        if i.op in SUM_OPS and i.result not in inner_sums and len(source_partitions[i.result]) > 1:
            result += _regroup_sum(i.result, _flatten_sum(i, definitions, inner_sums), source_partitions, new_values)
        elif i.result not in inner_sums:
            result.append(i)
    return BasicBlock(tuple(result), block.stores)


SUM_OPS = ("add", "sub")
SignedTerm = tuple[Operand, bool]
"""Term of a sum: (operand, whether it is subtracted)."""


def _flatten_sum(
    instruction: Instruction, definitions: Mapping[int, Instruction], inner_sums: set[int]
) -> list[SignedTerm]:
    """Terms of a sum of sums, left to right, with the sign of each.

    An operand in `inner_sums` is replaced by its own terms, recursively; `definitions` maps values to their
    instructions.
    """
    terms: list[SignedTerm] = []
    pending: list[SignedTerm] = [(instruction.result, False)]
    while pending:
        value, negative = pending.pop()
        if value == instruction.result or (isinstance(value, int) and value in inner_sums):
            definition = definitions[value]  # type: ignore[index]
            pending += [(definition.args[1], negative != (definition.op == "sub")), (definition.args[0], negative)]
        else:
            terms.append((value, negative))
    return terms


def _regroup_sum(
    result_value: int, terms: list[SignedTerm], source_partitions: dict[int, frozenset[int]], new_values: Iterator[int]
) -> list[Instruction]:
    """Instructions of a sum, with its terms grouped into partial sums by the partitions they depend on.

    The partial sums that depend on several partitions are added last. The last instruction defines `result_value`.

    Args:
        result_value: value number of the sum.
        terms: operands and their signs.
        source_partitions: value -> partitions it depends on; extended by the new values.
        new_values: unused value numbers.
    """
    groups: dict[frozenset[int], list[SignedTerm]] = {}
    for value, negative in terms:
        groups.setdefault(source_partitions[value] if isinstance(value, int) else frozenset(), []).append(
            (value, negative)
        )
    instructions: list[Instruction] = []
    sums = []
    for sources in sorted(groups, key=lambda group: (len(group), sorted(group))):
        sums.append(_emit_sum(groups[sources], new_values, instructions))
        source_partitions.update({i.result: sources for i in instructions if i.result not in source_partitions})
    value, negative = _emit_sum(sums, new_values, instructions)
    return (
        [*instructions, Instruction(result_value, "neg", (value,))]
        if negative
        else [*instructions[:-1], instructions[-1]._replace(result=result_value)]
    )


def _emit_sum(terms: list[SignedTerm], new_values: Iterator[int], instructions: list[Instruction]) -> SignedTerm:
    """Append the additions and subtractions of a signed sum, positive terms first; returns the sum as a signed term."""
    (value, negative), *rest = sorted(terms, key=lambda term: term[1])
    for other, other_negative in rest:
        instructions.append(
            Instruction(next(new_values), "add" if other_negative == negative else "sub", (value, other))
        )
        value = instructions[-1].result
    return value, negative


def separate_partitions(partitions: Sequence[Program]) -> tuple[list[Program], int]:
    """Programs of one basic block each that compute one after the other the results of concurrent partitions.

    All first basic blocks come before all second ones, as at the barrier. The values of the exchange array and those
    that partitions keep across the barrier are elements of `SEPARATED_EXCHANGE`. Instructions and their order are
    unchanged, so that results are bitwise equal. Returns the programs and the size of that array.
    """
    offsets, end = list[dict[str, int]](), exchange_size(tuple(partitions))
    for partition in partitions:
        offsets.append({EXCHANGE: 0, LIVE_ACROSS_BARRIER: end})
        end += partition.locals.get(LIVE_ACROSS_BARRIER, 0)

    def separated(location: MemoryLocation, starts: Mapping[str, int]) -> MemoryLocation:
        if location.array not in starts:
            return location
        return MemoryLocation(SEPARATED_EXCHANGE, starts[location.array] + location.element)

    programs = list[Program]()
    for blocks in zip(*(partition.body for partition in partitions), strict=True):
        for block, starts in zip(blocks, offsets, strict=True):
            assert isinstance(block, BasicBlock)
            instructions = tuple(
                i if i.location is None else i._replace(location=separated(i.location, starts))
                for i in block.instructions
            )
            stores = tuple(store._replace(location=separated(store.location, starts)) for store in block.stores)
            programs += [Program((BasicBlock(instructions, stores),))] if stores else []
    return programs, end


def exchange_size(partitions: tuple[Program, ...]) -> int:
    """Number of values in the exchange array of the partitions of a basic block."""
    return max(partition.outputs.get(EXCHANGE, 0) for partition in partitions)


def _source_partitions(block: BasicBlock, partition_of: PartitionOf) -> dict[int, frozenset[int]]:
    """Value -> set of partitions with an input that the value of a basic block depends on; empty for none."""
    source_partitions: dict[int, frozenset[int]] = {}
    none: frozenset[int] = frozenset()
    for target, _, arguments, location in block.instructions:
        sources = none
        if location is not None:
            partition = partition_of(location)
            sources = none if partition is None else frozenset({partition})
        else:
            for argument in arguments:
                operand_sources = source_partitions[argument] if type(argument) is int else none
                if operand_sources and operand_sources is not sources:
                    sources = sources | operand_sources if sources else operand_sources
        source_partitions[target] = sources
    return source_partitions


def _required_values(
    dependencies: Mapping[int, list[int]],
    source_partitions: Mapping[int, frozenset[int]],
    partition: int,
    roots: list,
    known: Collection[int] = (),
) -> tuple[set[int], set[int]]:
    """Values that a partition computes for the values `roots`, and values that it imports from other partitions.

    The operands are followed back to the inputs. Values that depend on exactly one other partition are imported; values
    in `known` are already computed.
    """
    needed: set[int] = set()
    live_in: set[int] = set()
    pending = [r for r in roots if isinstance(r, int)]
    while pending:
        value = pending.pop()
        if value in needed or value in live_in or value in known:
            continue
        sources = source_partitions[value]
        if len(sources) == 1 and partition not in sources:
            live_in.add(value)
            continue
        needed.add(value)
        pending += dependencies[value]
    return needed, live_in
