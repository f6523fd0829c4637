"""LLVM's text for what each thread of a GPU does by itself, or in a role.

Registers are few there: what goes to the scratch memory is stored as soon as it is computed. An environment's numbers
of eight rows that are left to a team lie together (`given.py`), and four of them are stored at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from .blocks import Line, Store
from .given import FOUR, WIDEST
from .llvm_blocks import LlvmBlocks, positions, stored_soon
from .llvm_memory import Names
from .slots import SCRATCH
from .split import EXCHANGE

PATIENCE = 500
"""Instructions for which a value waits for those that lie beside it: in a register."""


class LlvmLines(LlvmBlocks):
    """A kernel that is being written."""

    def _line(self, line: Line) -> None:
        soon = self._put_off(line, stored_soon(line, (SCRATCH, EXCHANGE)))
        names = self.instructions(line, soon)
        done = {store.slot for stores in soon.values() for store in stores}
        self.stores([store for store in line.stores if store.slot not in done], names)

    def stores(self, stores: Sequence[Store], names: Names) -> None:
        """What a line stores; what lies together at once."""
        for own in self._together(stores):
            values = [self._operand(store.value, names) for store in own]
            if len(own) == 1:
                self.store(own[0].slot, values[0], names)
            else:
                self._store_together(self._pointer(own[0].slot, None), values)

    def _together(self, stores: Sequence[Store]) -> Iterator[tuple[Store, ...]]:
        """Stores, those of four or two rows that lie together as one."""
        mine = {store.slot.item: store for store in stores if self._is_left(store)}
        for width in (FOUR, FOUR // 2, 1):
            for row in sorted(row for row in mine if row % width == 0):
                if all(row + i in mine for i in range(width)):
                    yield tuple(mine.pop(row + i) for i in range(width))
        yield from ((store,) for store in stores if not self._is_left(store))

    def _is_left(self, store: Store) -> bool:
        """Whether something is stored among what is left to teams."""
        return store.slot.array == SCRATCH and store.slot.index is None and store.slot.item < self.n_given

    def _store_together(self, pointer: str, values: Sequence[str]) -> None:
        kind, vector = f"<{len(values)} x {self.n}>", "poison"
        for i, value in enumerate(values):
            vector = self.set(f"insertelement {kind} {vector}, {self.n} {value}, i32 {i}")
        self.put(f"store {kind} {vector}, {pointer}, align {min(len(values) * self.size, WIDEST)}")

    def _put_off(self, line: Line, soon: Mapping[int, Sequence[Store]]) -> dict[int, list[Store]]:
        """What is stored as soon as it is computed, by value; of four that lie together when all of them are."""
        made, last = positions(line), dict[int, int]()
        found: dict[int, list[Store]] = {}
        every = [(value, store) for value, stores in soon.items() for store in stores]
        for value, store in every:
            if self._is_left(store):
                four = store.slot.item // FOUR
                last[four] = max(last.get(four, value), value, key=lambda v: made[v])
        for value, store in every:
            then = last[store.slot.item // FOUR] if self._is_left(store) else value
            found.setdefault(then if made[then] - made[value] <= PATIENCE else value, []).append(store)
        return found
