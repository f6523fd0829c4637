"""Superword-level parallelism: instructions of a scalar basic block packed into SIMD vectors (Larsen and Amarasinghe).

A pack is a tuple of equal operations, one per lane. Packs grow from groups of stores to consecutive addresses towards
the operands, down to loads from consecutive addresses and to operands that are equal in all lanes. Every lane computes
the same operations on the same operands as the scalar code, so that results are equal to the last bit.

All loads of a basic block happen before its stores, so that packs can be computed at any position of the block after
their operands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from kinema.ir import BasicBlock, Instruction, MemoryLocation, Operand, Store

WIDTHS = (6, 4)
"""Numbers of lanes of a pack: the degrees of freedom of a free body, and the contacts of a group."""
Lanes = tuple[int | str, ...]
"""One operand per lane: the number of a value, or the text of a constant (1 and 1.0 are equal as keys)."""
PACKED_OPERATIONS = frozenset(
    {"add", "sub", "mul", "neg", "fma", "fms", "fnma", "select", "min", "max", "abs", "sqrt", "reciprocal"}
)
"""Operations that have a vector form."""
COMMUTATIVE_OPERATIONS = frozenset({"add", "mul", "fma", "fms", "fnma"})
"""Operations whose first two operands can be swapped."""
MEMORY_COSTS = {6: 3, 4: 1}
"""Instructions of a packed load or store by the number of lanes: of six, two accesses and a shuffle."""
SPLAT_COST = 1
"""Instructions of a broadcast."""


@dataclass(frozen=True, slots=True)
class PackedOperation:
    """Operation of all lanes."""

    lanes: Lanes
    op: str
    operands: tuple[Lanes, ...]


@dataclass(frozen=True, slots=True)
class PackedLoad:
    """Load of all lanes from consecutive addresses."""

    lanes: Lanes
    location: MemoryLocation
    """Location of the first lane."""


@dataclass(frozen=True, slots=True)
class Splat:
    """Operand that is equal in all lanes."""

    lanes: Lanes


@dataclass(frozen=True, slots=True)
class Gather:
    """Unrelated operands, inserted lane by lane."""

    lanes: Lanes


Pack = PackedOperation | PackedLoad | Splat | Gather


@dataclass(frozen=True, slots=True)
class PackedStore:
    """Store of all lanes to consecutive addresses."""

    location: MemoryLocation
    """Location of the first lane."""
    lanes: Lanes


@dataclass(frozen=True, slots=True)
class Extraction:
    """Lane of a pack that scalar code uses."""

    result: int
    lanes: Lanes
    lane: int


@dataclass(slots=True)
class PackedBlock:
    """Basic block with packs, in an order of execution."""

    items: list[Instruction | Pack | Extraction] = field(default_factory=list)
    stores: list[Store] = field(default_factory=list)
    """Scalar stores."""
    packed_stores: list[PackedStore] = field(default_factory=list)


def pack_superwords(block: BasicBlock, is_contiguous: Callable[[MemoryLocation], bool]) -> PackedBlock | None:
    """Pack a basic block; None if vectors save no instructions.

    `is_contiguous` tells whether consecutive elements of the array of a location have consecutive addresses.
    """
    runs, others = _consecutive_stores(block.stores, is_contiguous)
    if not runs:
        return None
    packer = _Packer(block, is_contiguous)
    kept: list[PackedStore] = []
    for run in runs:
        groups = packer.pack_run(run)
        kept += groups
        packed = {group.location.element + i for group in groups for i in range(len(group.lanes))}
        others += [store for store in run if store.location.element not in packed]
    if not kept:
        return None
    return packer.schedule(kept, others)


def _consecutive_stores(
    stores: Sequence[Store], is_contiguous: Callable[[MemoryLocation], bool]
) -> tuple[list[list[Store]], list[Store]]:
    """Runs of stores to consecutive addresses that are as long as a pack or longer, and all other stores."""
    by_array: dict[tuple[str, int | None], dict[int, Store]] = {}
    others: list[Store] = []
    for store in stores:
        location = store.location
        elements = by_array.setdefault((location.array, location.index), {})
        if location.element in elements or not is_contiguous(location):
            return [], list(stores)  # a second store to a location, or an array with gaps: leave the block as it is
        elements[location.element] = store
    if len({array for array, _ in by_array}) < len(by_array):
        return [], list(stores)  # dynamic indices may refer to the same elements: keep the order
    runs = []
    for elements in by_array.values():
        for run in _consecutive_runs(sorted(elements)):
            run_stores = [elements[element] for element in run]
            if len(run) < min(WIDTHS):
                others += run_stores
            else:
                runs.append(run_stores)
    return runs, others


def _key(operand: Operand) -> int | str:
    """Operand as a lane of a pack."""
    return operand if type(operand) is int else repr(operand)


def _consecutive_runs(elements: Sequence[int]) -> Iterator[list[int]]:
    """Split sorted integers into runs of consecutive ones."""
    run: list[int] = []
    for element in elements:
        if run and element != run[-1] + 1:
            yield run
            run = []
        run.append(element)
    if run:
        yield run


class _Packer:
    """Packs of a basic block, and the order of packs and scalar instructions."""

    def __init__(self, block: BasicBlock, is_contiguous: Callable[[MemoryLocation], bool]) -> None:
        self._definitions: Mapping[int, Instruction] = {i.result: i for i in block.instructions}
        self._is_contiguous = is_contiguous
        self._packs: dict[Lanes, Pack] = {}

    def pack_run(self, run: Sequence[Store]) -> list[PackedStore]:
        """Pack the values of groups of consecutive stores, with the number of lanes that saves most instructions.

        Packs of four lanes need runs of whole groups, so that components of bodies are not divided.
        """
        best: tuple[int, list[PackedStore], dict[Lanes, Pack]] = (0, [], {})
        for width in WIDTHS:
            if width == min(WIDTHS) and len(run) % width:
                continue
            total, groups, packs = 0, list[PackedStore](), dict[Lanes, Pack]()
            for first in range(0, len(run) - len(run) % width, width):
                lanes = tuple(_key(store.value) for store in run[first : first + width])
                found: dict[Lanes, Pack] = {}
                self._find(lanes, found, packs)
                gain = self._gain(found, width)
                if gain > 0:
                    total += gain
                    groups.append(PackedStore(run[first].location, lanes))
                    packs |= found
            if total > best[0]:
                best = total, groups, packs
        self._packs |= best[2]
        return best[1]

    @staticmethod
    def _gain(found: Mapping[Lanes, Pack], width: int) -> int:
        """Number of instructions that new packs and their store save; 0 if they neither compute nor load anything."""
        memory_gain = width - MEMORY_COSTS[width]
        gain = memory_gain
        for pack in found.values():
            match pack:
                case PackedOperation():
                    gain += width - 1
                case PackedLoad():
                    gain += memory_gain
                case Splat():
                    gain -= SPLAT_COST
                case Gather():
                    gain -= width
        return gain if any(isinstance(pack, PackedOperation | PackedLoad) for pack in found.values()) else 0

    def _find(self, lanes: Lanes, found: dict[Lanes, Pack], others: Mapping[Lanes, Pack]) -> None:
        """Add the pack of operands, and those of its own operands, to `found`, unless they are among `others`."""
        if lanes in self._packs or lanes in found or lanes in others:
            return
        pack = self._pack_of(lanes)
        found[lanes] = pack
        if isinstance(pack, PackedOperation):
            for operands in pack.operands:
                self._find(operands, found, others)

    def _pack_of(self, lanes: Lanes) -> Pack:
        first = lanes[0]
        if all(x == first for x in lanes):
            return Splat(lanes)
        instructions = [self._definitions[x] for x in lanes if type(x) is int]
        n = len(lanes)
        if len(instructions) < n or len({i.op for i in instructions}) > 1 or len(set(lanes)) < n:
            return Gather(lanes)
        op, start = instructions[0].op, instructions[0].location
        if start is not None:
            wanted = [start._replace(element=start.element + i) for i in range(n)]
            is_consecutive = [i.location for i in instructions] == wanted and self._is_contiguous(start)
            return PackedLoad(lanes, start) if is_consecutive else Gather(lanes)
        if op not in PACKED_OPERATIONS:
            return Gather(lanes)
        return PackedOperation(lanes, op, tuple(zip(*self._aligned_operands(op, instructions), strict=True)))

    def _aligned_operands(self, op: str, instructions: Sequence[Instruction]) -> list[Lanes]:
        """Operands of the instruction of each lane, those of commutative operations in matching order."""
        rows = [tuple(_key(x) for x in instruction.args) for instruction in instructions]
        if op not in COMMUTATIVE_OPERATIONS:
            return rows
        first = rows[0]
        for lane, (a, b, *rest) in enumerate(rows[1:], 1):
            straight = self._similarity(first[0], a, lane) + self._similarity(first[1], b, lane)
            swapped = self._similarity(first[0], b, lane) + self._similarity(first[1], a, lane)
            if swapped > straight:
                rows[lane] = (b, a, *rest)
        return rows

    def _similarity(self, a: int | str, b: int | str, lane: int) -> int:
        """How well an operand of a lane fits that of the first lane: 3 equal or consecutive in memory, 1 same kind."""
        if a == b:
            return 3
        if type(a) is not int or type(b) is not int:
            return int(type(a) is type(b))
        x, y = self._definitions[a], self._definitions[b]
        if x.op != y.op:
            return 0
        if x.location is None or y.location is None:
            return 1
        if x.location._replace(element=x.location.element + lane) == y.location:
            return 3
        return int(x.location.array == y.location.array)

    # ------------------------------------------------------------------------------------------------------- scheduling

    def schedule(self, groups: Sequence[PackedStore], stores: Sequence[Store]) -> PackedBlock | None:
        """Order packs and scalar instructions such that operands come first; None if packs depend on each other."""
        lane_of: dict[int, tuple[Lanes, int]] = {}
        for pack in self._packs.values():
            if isinstance(pack, PackedOperation):  # loads are repeated as scalars
                for lane, value in enumerate(pack.lanes):
                    assert type(value) is int
                    lane_of.setdefault(value, (pack.lanes, lane))
        result = PackedBlock(stores=list(stores), packed_stores=list(groups))
        done: set[int | Lanes] = set()
        open_nodes: set[int | Lanes] = set()
        roots: list[int | Lanes] = [value for store in stores for value in store.uses]
        for group in groups:
            roots += [group.lanes, *([] if group.location.index is None else [group.location.index])]
        stack: list[tuple[int | Lanes, bool]] = []
        for root in roots:
            stack.append((root, False))
            while stack:
                node, is_ready = stack.pop()
                if is_ready:
                    open_nodes.discard(node)
                    done.add(node)
                    result.items.append(self._item(node, lane_of))
                elif node in open_nodes:
                    return None
                elif node not in done:
                    open_nodes.add(node)
                    stack.append((node, True))
                    stack += [(x, False) for x in reversed(self._needs(node, lane_of)) if x not in done]
        return result

    def _item(self, node: int | Lanes, lane_of: Mapping[int, tuple[Lanes, int]]) -> Instruction | Pack | Extraction:
        """Instruction, pack or extraction that computes a node of the dependence graph."""
        if isinstance(node, tuple):
            return self._packs[node]
        return Extraction(node, *lane_of[node]) if node in lane_of else self._definitions[node]

    def _needs(self, node: int | Lanes, lane_of: Mapping[int, tuple[Lanes, int]]) -> list[int | Lanes]:
        """Values and packs that the computation of a value or a pack needs."""
        if not isinstance(node, tuple):
            return [lane_of[node][0]] if node in lane_of else list(self._definitions[node].uses)
        pack = self._packs[node]
        if isinstance(pack, PackedOperation):
            return list(pack.operands)
        if isinstance(pack, PackedLoad):
            return [] if pack.location.index is None else [pack.location.index]
        return [x for x in (pack.lanes[:1] if isinstance(pack, Splat) else pack.lanes) if type(x) is int]
