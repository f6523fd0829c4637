"""Emission of minimum-degree ordering by a warp: elimination order and fill-in tiles of a block-sparse matrix.

Each thread owns some blocks, and for each of them a bit mask of its neighbours. In each step the warp finds the
remaining block of minimum degree by a reduction, and the threads that own one of its neighbours merge its other
neighbours into their masks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from kinema.ir import Intrinsic, MemoryLocation

from ...memory import WARP_SIZE
from ..warp import POPCOUNT, SHUFFLE_INDEX, SHUFFLE_XOR, WarpEmitter

INFINITE_DEGREE = 1 << 30
"""Degree above that of any block."""
BLOCK_INDEX_BITS = 8
"""Bits of the block index in a sort key, below the degree."""
MAX_BLOCKS = 1 << 7
"""Maximum number of blocks."""


BlockPair = tuple[int, int]
"""Indices of two blocks of unknowns."""


@dataclass(frozen=True, slots=True)
class EdgeRecords:
    """Records that are the edges of a graph: each holds the indices of the two coupled blocks (which may be equal)."""

    records: MemoryLocation
    """Start of the first record."""
    record_stride: int
    """Size of a record in scalars."""
    count: MemoryLocation
    """Number of records."""
    pair_offset: int
    """Offset in a record of the two block indices."""


@dataclass(frozen=True, slots=True)
class MinimumDegreeOrdering(Intrinsic):
    """Intrinsic: minimum-degree elimination order of a block-sparse symmetric matrix, and the tiles of its factor.

    The block with the fewest remaining neighbours is eliminated next (ties: lowest index), and its neighbours become
    neighbours of each other. Row i of `block_info` holds the block eliminated at step i, then for block i its step, its
    first tile and its number of tiles. A tile is an off-diagonal block of the factor, with
    fill-in: (later block, eliminated block).
    """

    n_blocks: int
    """Number of blocks of unknowns."""
    max_tiles: int
    """Capacity for off-diagonal tiles."""
    edges: tuple[EdgeRecords, ...]
    """Edges of the graph."""
    block_info: MemoryLocation
    """Output (n_blocks, 4)."""
    tiles: MemoryLocation
    """Output (max_tiles, 2): the two blocks of each tile, the later one first."""
    tile_of_pair: MemoryLocation
    """Output (n_blocks, n_blocks): index of the tile of two blocks."""
    status: MemoryLocation
    """Output (2,): number of tiles, and 1 if some did not fit."""

    @property
    def reads(self) -> list[MemoryLocation]:
        """Operands of all arrays that are read."""
        return [x for records in self.edges for x in (records.records, records.count)]

    @property
    def writes(self) -> list[MemoryLocation]:
        """Operands of all arrays that are written."""
        return [self.block_info, self.tiles, self.tile_of_pair, self.status]

    def evaluate(self, memory: Callable[[MemoryLocation], np.ndarray]) -> None:
        """Reference evaluation: read the edges from memory, compute the ordering and write it to memory."""
        pairs: list[BlockPair] = []
        for edges in self.edges:
            records = memory(edges.records)
            starts = (i * edges.record_stride + edges.pair_offset for i in range(int(memory(edges.count)[0])))
            pairs += [(int(records[start]), int(records[start + 1])) for start in starts]
        block_info, tiles, tile_of_pair, overflow = minimum_degree_order(self.n_blocks, self.max_tiles, pairs)
        memory(self.block_info)[: block_info.size] = block_info.ravel()
        memory(self.tiles)[: 2 * len(tiles)] = np.array(tiles, float).ravel()
        for (a, b), tile in tile_of_pair.items():
            memory(self.tile_of_pair)[[a * self.n_blocks + b, b * self.n_blocks + a]] = tile
        memory(self.status)[:2] = len(tiles), overflow

    def emit(self, emitter: WarpEmitter) -> None:
        """Emit the ordering."""
        MinimumDegreeEmitter(emitter, self).emit()


def minimum_degree_order(
    n_blocks: int, max_tiles: int, edges: Iterable[BlockPair]
) -> tuple[np.ndarray, list[BlockPair], dict[BlockPair, int], bool]:
    """Minimum-degree elimination order of a graph of blocks, and the nonzero blocks ("tiles") of the factor.

    At most `max_tiles` tiles are available: blocks whose tiles do not fit get none.

    Returns:
        Block information (n_blocks, 4): row i holds the block eliminated in step i, then for block i its step, first
            tile and number of tiles; the tiles (later block, eliminated block); the tile index of each such pair; and
            whether there were too few tiles.
    """
    neighbours = {i: set[int]() for i in range(n_blocks)}
    for a, b in edges:
        neighbours[a].add(b)
        neighbours[b].add(a)
    remaining = set(range(n_blocks))
    block_info = np.zeros((n_blocks, 4))
    tiles: list[BlockPair] = []
    tile_of_pair: dict[BlockPair, int] = {}
    overflow = False
    for step in range(n_blocks):
        pivot = min(remaining, key=lambda i: (len((neighbours[i] & remaining) - {i}), i))
        remaining.remove(pivot)
        fill = sorted(neighbours[pivot] & remaining)
        if len(tiles) + len(fill) > max_tiles:
            fill, overflow = [], True
        block_info[step, 0] = pivot
        block_info[pivot, 1:] = step, len(tiles), len(fill)
        for other in fill:
            neighbours[other] |= set(fill)
            tile_of_pair[other, pivot] = len(tiles)
            tiles.append((other, pivot))
    return block_info, tiles, tile_of_pair, overflow


@dataclass(slots=True)
class MinimumDegreeEmitter:
    """Emits one minimum-degree ordering."""

    emitter: WarpEmitter
    ordering: MinimumDegreeOrdering
    lane_blocks: list[str] = field(default_factory=list)
    """Indices of the blocks that a thread owns."""

    def emit(self) -> None:
        """Emit the ordering by a warp: neighbour masks from the edge records, elimination steps, and status output."""
        emitter, ordering = self.emitter, self.ordering
        assert ordering.n_blocks <= MAX_BLOCKS, "too many blocks for the bit masks"
        emitter.emit_barrier()  # other threads may still read the old values
        self.lane_blocks = ["%lane"] + [
            emitter.assign(f"add i32 %lane, {first}")
            for first in range(emitter.group_size, ordering.n_blocks, emitter.group_size)
        ]
        masks = ["0"] * len(self.lane_blocks)
        for edges in ordering.edges:
            masks = self._add_edges(edges, masks)
        masks = [self._and(mask, self._not(self._bit_mask(i))) for mask, i in zip(masks, self.lane_blocks, strict=True)]
        all_blocks = str((1 << ordering.n_blocks) - 1)
        states = [("i32", "0"), ("i32", "0"), (self.mask_type, all_blocks), *((self.mask_type, mask) for mask in masks)]
        count, overflow, *_ = self._emit_loop(str(ordering.n_blocks), states, self._eliminate_next)
        for i, value in enumerate((count, overflow)):
            self._store_int(ordering.status, str(i), value)
        emitter.emit_barrier()

    # -------------------------------------------------------------------------------------------------------- bit masks

    @property
    def n_words(self) -> int:
        """32-bit words of a mask with one bit per block."""
        return -(-self.ordering.n_blocks // WARP_SIZE)

    @property
    def mask_type(self) -> str:
        """LLVM integer type of a mask with one bit per block."""
        return f"i{WARP_SIZE * self.n_words}"

    def _widen(self, value: str) -> str:
        return value if self.n_words == 1 else self.emitter.assign(f"zext i32 {value} to {self.mask_type}")

    def _bit_mask(self, index: str) -> str:
        return self.emitter.assign(f"shl {self.mask_type} 1, {self._widen(index)}")

    def _and(self, a: str, b: str) -> str:
        return self.emitter.assign(f"and {self.mask_type} {a}, {b}")

    def _not(self, a: str) -> str:
        return self.emitter.assign(f"xor {self.mask_type} {a}, -1")

    def _test_bit(self, mask: str, index: str) -> str:
        shifted = self.emitter.assign(f"lshr {self.mask_type} {mask}, {self._widen(index)}")
        return self.emitter.assign(f"trunc {self.mask_type} {shifted} to i1")

    def _popcount(self, mask: str) -> str:
        """Number of set bits of a mask."""
        total = "0"
        for word in self._split_words(mask):
            total = self.emitter.assign(f"add i32 {total}, {self.emitter.assign(f'call i32 @{POPCOUNT}(i32 {word})')}")
        return total

    def _split_words(self, mask: str) -> list[str]:
        """32-bit words of a mask, lowest first."""
        if self.n_words == 1:
            return [mask]
        words = []
        for i in range(self.n_words):
            shifted = self.emitter.assign(f"lshr {self.mask_type} {mask}, {WARP_SIZE * i}")
            words.append(self.emitter.assign(f"trunc {self.mask_type} {shifted} to i32"))
        return words

    def _broadcast_mask(self, mask: str, lane: str) -> str:
        """Emit shuffles that broadcast the bit mask of the thread `lane`, an index known at run time only."""
        emitter, result = self.emitter, "0"
        for i, word in enumerate(self._split_words(mask)):
            received = self._shuffle(SHUFFLE_INDEX, word, lane)
            if self.n_words == 1:
                return received
            shifted = emitter.assign(f"shl {self.mask_type} {self._widen(received)}, {WARP_SIZE * i}")
            result = emitter.assign(f"or {self.mask_type} {result}, {shifted}")
        return result

    def _shuffle(self, intrinsic: str, word: str, lane: str) -> str:
        segment = (WARP_SIZE - self.emitter.group_size) << 8 | (WARP_SIZE - 1)
        return self.emitter.assign(
            f"call i32 @{intrinsic}(i32 {self.emitter.member_mask}, i32 {word}, i32 {lane}, i32 {segment})"
        )

    # --------------------------------------------------------------------------------------------------------- memory

    def _element_pointer(self, location: MemoryLocation, index: str) -> str:
        pointer_type, start = self.emitter.location_pointer(location)
        address = f"getelementptr {self.emitter.scalar_type}, {pointer_type} {start}, i32 {index}"
        return f"{pointer_type} {self.emitter.assign(address)}"

    def _load_int(self, location: MemoryLocation, index: str) -> str:
        emitter = self.emitter
        value = emitter.assign(
            f"load {emitter.scalar_type}, {self._element_pointer(location, index)}, align {emitter.scalar_bytes}"
        )
        return emitter.assign(f"fptosi {emitter.scalar_type} {value} to i32")

    def _store_int(self, location: MemoryLocation, index: str, integer: str) -> None:
        emitter = self.emitter
        value = emitter.assign(f"sitofp i32 {integer} to {emitter.scalar_type}")
        emitter.emit(
            f"store {emitter.scalar_type} {value}, {self._element_pointer(location, index)}, "
            f"align {emitter.scalar_bytes}"
        )

    def _emit_loop(
        self,
        trip_count: str,
        initial: Sequence[tuple[str, str]],
        body: Callable[[str, list[str]], list[str]],
    ) -> list[str]:
        """Emit a loop of `trip_count` iterations with loop-carried values; returns their final names.

        `initial` are (LLVM type, initial value) pairs; `body(index, values)` emits an iteration and returns the next
        values.
        """
        emitter, entry_label = self.emitter, self.emitter.current_label
        head, body_label, done = emitter.fresh_name("turns"), emitter.fresh_name("turn"), emitter.fresh_name("done")
        emitter.emit(f"br label %{head}")
        emitter.start_block(head)
        phi_position, index = len(emitter.output_lines), f"%{head}.i"
        names = [f"%{head}.{i}" for i in range(len(initial))]
        emitter.output_lines += [""] * (1 + len(initial))
        continues = emitter.assign(f"icmp slt i32 {index}, {trip_count}")
        emitter.emit(f"br i1 {continues}, label %{body_label}, label %{done}")
        emitter.start_block(body_label)
        final = body(index, names)
        next_index = emitter.assign(f"add i32 {index}, 1")
        emitter.output_lines[phi_position] = (
            f"  {index} = phi i32 [ 0, %{entry_label} ], [ {next_index}, %{emitter.current_label} ]"
        )
        for i, ((value_type, start), name, end) in enumerate(zip(initial, names, final, strict=True)):
            emitter.output_lines[phi_position + 1 + i] = (
                f"  {name} = phi {value_type} [ {start}, %{entry_label} ], [ {end}, %{emitter.current_label} ]"
            )
        emitter.emit(f"br label %{head}")
        emitter.start_block(done)
        return names

    # ------------------------------------------------------------------------------------------------------ elimination

    def _add_edges(self, edges: EdgeRecords, masks: list[str]) -> list[str]:
        """Emit a loop over edge records that adds the end points of each edge to each other's neighbour masks.

        `masks` and the result are the neighbour masks of the blocks that the thread owns.
        """
        emitter, mask_type = self.emitter, self.mask_type

        def add_record(index: str, masks: list[str]) -> list[str]:
            record = emitter.assign(f"mul i32 {index}, {edges.record_stride}")
            pair = [
                self._load_int(edges.records, emitter.assign(f"add i32 {record}, {edges.pair_offset + i}"))
                for i in range(2)
            ]
            others = [self._bit_mask(x) for x in reversed(pair)]
            result = []
            for mask, own in zip(masks, self.lane_blocks, strict=True):
                for endpoint, other in zip(pair, others, strict=True):
                    is_own = emitter.assign(f"icmp eq i32 {endpoint}, {own}")
                    bit = emitter.assign(f"select i1 {is_own}, {mask_type} {other}, {mask_type} 0")
                    mask = emitter.assign(f"or {mask_type} {mask}, {bit}")
                result.append(mask)
            return result

        count = emitter.assign(f"fptosi {emitter.scalar_type} {emitter.load(edges.count, {})} to i32")
        return self._emit_loop(count, [(mask_type, mask) for mask in masks], add_record)

    def _eliminate_next(self, step: str, states: list[str]) -> list[str]:
        """Emit an elimination step: choose the block of minimum degree, record its tiles, connect its neighbours.

        `states` and the result are (number of tiles, overflow flag, mask of remaining blocks, neighbour masks of the
        blocks that the thread owns). If the tiles (nonzero blocks of the factor) do not fit, the block gets none and
        the overflow flag is set.
        """
        emitter, ordering, mask_type = self.emitter, self.ordering, self.mask_type
        count, overflow, remaining, *masks = states
        pivot = self._minimum_degree_block(remaining, masks)
        remaining = self._and(remaining, self._not(self._bit_mask(pivot)))
        fill = self._and(self._neighbours_of(pivot, masks), remaining)
        n_fill = self._popcount(fill)
        total = emitter.assign(f"add i32 {count}, {n_fill}")
        fits = emitter.assign(f"icmp sle i32 {total}, {ordering.max_tiles}")
        fill = emitter.assign(f"select i1 {fits}, {mask_type} {fill}, {mask_type} 0")
        n_fill = emitter.assign(f"select i1 {fits}, i32 {n_fill}, i32 0")
        total = emitter.assign(f"select i1 {fits}, i32 {total}, i32 {count}")
        overflow = emitter.assign(f"select i1 {fits}, i32 {overflow}, i32 1")
        self._store_int(ordering.block_info, emitter.assign(f"mul i32 {step}, 4"), pivot)
        info_offset = emitter.assign(f"mul i32 {pivot}, 4")
        for i, value in enumerate((step, count, n_fill)):
            self._store_int(ordering.block_info, emitter.assign(f"add i32 {info_offset}, {i + 1}"), value)
        new_masks = [
            self._merge_neighbours(own, mask, fill, pivot, count)
            for own, mask in zip(self.lane_blocks, masks, strict=True)
        ]
        return [total, overflow, remaining, *new_masks]

    def _minimum_degree_block(self, remaining: str, masks: Sequence[str]) -> str:
        """Emit a warp reduction to the remaining block with the fewest remaining neighbours, lowest index first.

        The reduction key is degree << BLOCK_INDEX_BITS | index.
        """
        emitter, best = self.emitter, str(INFINITE_DEGREE)
        for own, mask in zip(self.lane_blocks, masks, strict=True):
            degree = emitter.assign(f"shl i32 {self._popcount(self._and(mask, remaining))}, {BLOCK_INDEX_BITS}")
            key = emitter.assign(f"or i32 {degree}, {own}")
            key = emitter.assign(f"select i1 {self._test_bit(remaining, own)}, i32 {key}, i32 {INFINITE_DEGREE}")
            best = self._minimum(best, key)
        offset = 1
        while offset < emitter.group_size:
            best = self._minimum(best, self._shuffle(SHUFFLE_XOR, best, str(offset)))
            offset *= 2
        return emitter.assign(f"and i32 {best}, {(1 << BLOCK_INDEX_BITS) - 1}")

    def _minimum(self, a: str, b: str) -> str:
        below = self.emitter.assign(f"icmp slt i32 {a}, {b}")
        return self.emitter.assign(f"select i1 {below}, i32 {a}, i32 {b}")

    def _neighbours_of(self, block_index: str, masks: Sequence[str]) -> str:
        """Neighbour mask of a block, broadcast from the thread that owns it."""
        emitter, group_size = self.emitter, self.emitter.group_size
        location = emitter.assign(f"udiv i32 {block_index}, {group_size}")
        lane_mask = masks[0]
        for i, mask in enumerate(masks[1:], 1):
            is_location = emitter.assign(f"icmp eq i32 {location}, {i}")
            lane_mask = emitter.assign(
                f"select i1 {is_location}, {self.mask_type} {mask}, {self.mask_type} {lane_mask}"
            )
        return self._broadcast_mask(lane_mask, emitter.assign(f"urem i32 {block_index}, {group_size}"))

    def _merge_neighbours(
        self, lane_block: str, neighbours: str, eliminated_neighbours: str, eliminated: str, first_tile: str
    ) -> str:
        """Emit the update of the neighbour mask of one block (`lane_block`) after the elimination of another block.

        If both were neighbours, `lane_block` becomes adjacent to the other neighbours of the eliminated block, and the
        tile of the two blocks is recorded in `tiles` and `tile_of_pair`. Returns the new mask.
        """
        emitter, ordering, mask_type = self.emitter, self.ordering, self.mask_type
        is_neighbour, tile_label, done = (
            self._test_bit(eliminated_neighbours, lane_block),
            emitter.fresh_name("tile"),
            emitter.fresh_name("done"),
        )
        bit = self._bit_mask(lane_block)
        joined = self._and(emitter.assign(f"or {mask_type} {neighbours}, {eliminated_neighbours}"), self._not(bit))
        emitter.emit(f"br i1 {is_neighbour}, label %{tile_label}, label %{done}")
        emitter.start_block(tile_label)
        before = self._and(eliminated_neighbours, emitter.assign(f"sub {mask_type} {bit}, 1"))
        tile = emitter.assign(f"add i32 {first_tile}, {self._popcount(before)}")
        for a, b in ((lane_block, eliminated), (eliminated, lane_block)):
            self._store_int(
                ordering.tile_of_pair,
                emitter.assign(f"add i32 {emitter.assign(f'mul i32 {a}, {ordering.n_blocks}')}, {b}"),
                tile,
            )
        offset = emitter.assign(f"mul i32 {tile}, 2")
        self._store_int(ordering.tiles, offset, lane_block)
        self._store_int(ordering.tiles, emitter.assign(f"add i32 {offset}, 1"), eliminated)
        emitter.emit(f"br label %{done}")
        emitter.start_block(done)
        return emitter.assign(f"select i1 {is_neighbour}, {mask_type} {joined}, {mask_type} {neighbours}")
