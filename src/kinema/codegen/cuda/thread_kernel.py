"""Emission of kernels with one thread per environment, or one warp per partition.

Registers are scarce, so that values for scratch memory are stored as soon as they are computed. In the hand-off area
for warp kernels, the scalars of an environment are contiguous in groups of eight (see `ir/scratch_layout.py`), and
four of them are stored by one vector store.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kinema.ir import EXCHANGE, MAX_ACCESS_BYTES, SCRATCH, SEPARATED_EXCHANGE, VECTOR_WIDTH, BasicBlock, Store

from ..memory import ValueNames
from ..statements import StatementEmitter, definition_positions, find_eager_stores

MAX_STORE_DELAY = 500
"""Maximum number of instructions that a value is kept in a register for a vector store."""


class ThreadKernelEmitter(StatementEmitter):
    """Emits kernels with one thread per environment: eager and vectorised stores to scratch memory."""

    def _emit_basic_block(self, block: BasicBlock) -> None:
        """Emit a basic block with eager stores to scratch memory and exchange arrays, other stores last."""
        eager_stores = self._delay_stores(block, find_eager_stores(block, (SCRATCH, EXCHANGE, SEPARATED_EXCHANGE)))
        names = self.emit_instructions(block, eager_stores)
        stored_locations = {store.location for stores in eager_stores.values() for store in stores}
        self.emit_stores([store for store in block.stores if store.location not in stored_locations], names)

    def emit_stores(self, stores: Sequence[Store], value_names: ValueNames) -> None:
        """Emit stores; stores to adjacent hand-off offsets are combined into vector stores."""
        for group in self._group_stores(stores):
            values = [self._operand(store.value, value_names) for store in group]
            if len(group) == 1:
                self.store(group[0].location, values[0], value_names)
            else:
                self._store_vector(self._pointer(group[0].location, None), values)

    def _group_stores(self, stores: Sequence[Store]) -> Iterator[tuple[Store, ...]]:
        """Group stores to aligned runs of four or two adjacent hand-off offsets; all other stores are single."""
        handoff_stores = {store.location.element: store for store in stores if self._is_handoff_store(store)}
        for width in (VECTOR_WIDTH, VECTOR_WIDTH // 2, 1):
            for row in sorted(row for row in handoff_stores if row % width == 0):
                if all(row + i in handoff_stores for i in range(width)):
                    yield tuple(handoff_stores.pop(row + i) for i in range(width))
        yield from ((store,) for store in stores if not self._is_handoff_store(store))

    def _is_handoff_store(self, store: Store) -> bool:
        """Whether a store goes to the hand-off area for warp kernels."""
        return (
            store.location.array == SCRATCH
            and store.location.index is None
            and store.location.element < self.n_handoff_rows
        )

    def _store_vector(self, pointer: str, values: Sequence[str]) -> None:
        """Emit one aligned vector store of scalar values."""
        vector_type, vector = f"<{len(values)} x {self.scalar_type}>", "poison"
        for i, value in enumerate(values):
            vector = self.assign(f"insertelement {vector_type} {vector}, {self.scalar_type} {value}, i32 {i}")
        self.emit(
            f"store {vector_type} {vector}, {pointer}, align {min(len(values) * self.scalar_bytes, MAX_ACCESS_BYTES)}"
        )

    def _delay_stores(self, block: BasicBlock, eager_stores: Mapping[int, Sequence[Store]]) -> dict[int, list[Store]]:
        """Delay stores such that four scalars that are adjacent in the hand-off memory are stored by one vector store.

        The hand-off memory holds data for a warp kernel. A store is delayed until all values of its vector are
        computed, but by at most `MAX_STORE_DELAY` instructions. Input and result map the value after which stores are
        emitted to the stores.
        """
        positions, last_values = definition_positions(block), dict[int, int]()
        delayed: dict[int, list[Store]] = {}
        stores = [(value, store) for value, value_stores in eager_stores.items() for store in value_stores]
        for value, store in stores:
            if self._is_handoff_store(store):
                vector = store.location.element // VECTOR_WIDTH
                last_values[vector] = max(last_values.get(vector, value), value, key=lambda v: positions[v])
        for value, store in stores:
            trigger = last_values[store.location.element // VECTOR_WIDTH] if self._is_handoff_store(store) else value
            delayed.setdefault(
                trigger if positions[trigger] - positions[value] <= MAX_STORE_DELAY else value, []
            ).append(store)
        return delayed
