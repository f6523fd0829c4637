"""LLVM's text for the order in which a team eliminates blocks of unknowns.

Each thread has some blocks, and of each of them a bit for every block that it is coupled with. All threads find the
one with the fewest that are left, and those that have one of its neighbours add the others to theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from .equations import Arrange, Couplings
from .llvm_memory import WARP
from .llvm_threads import ONES, PASS, TELL, LlvmThreads
from .slots import Slot

MANY = 1 << 30
"""More than anything is coupled with."""
NUMBER_BITS = 8
"""Of the number of a block, below how many it is coupled with."""
MOST_BLOCKS = 1 << 7
"""That it is written for."""


@dataclass(slots=True)
class LlvmArranging:
    """One order that is being written."""

    text: LlvmThreads
    block: Arrange
    own: list[str] = field(default_factory=list)
    """Which blocks a thread has."""

    def put(self) -> None:
        """All of it."""
        text, block = self.text, self.block
        assert block.size <= MOST_BLOCKS, "there are not so many bits"
        text.wait()  # what another thread still reads may not change
        self.own = ["%lane"] + [
            text.set(f"add i32 %lane, {first}") for first in range(text.threads, block.size, text.threads)
        ]
        masks = ["0"] * len(self.own)
        for couplings in block.couplings:
            masks = self._coupled(couplings, masks)
        masks = [self._and(mask, self._not(self._bit(i))) for mask, i in zip(masks, self.own, strict=True)]
        every = str((1 << block.size) - 1)
        states = [("i32", "0"), ("i32", "0"), (self.bits, every), *((self.bits, mask) for mask in masks)]
        count, missing, *_ = self._turns(str(block.size), states, self._eliminated)
        for i, number in enumerate((count, missing)):
            self._store(block.told, str(i), number)
        text.wait()

    # ------------------------------------------------------------------------------------------------- whole numbers

    @property
    def words(self) -> int:
        """Of so many bits as there are blocks."""
        return -(-self.block.size // WARP)

    @property
    def bits(self) -> str:
        """A number with a bit for each block."""
        return f"i{WARP * self.words}"

    def _wide(self, number: str) -> str:
        return number if self.words == 1 else self.text.set(f"zext i32 {number} to {self.bits}")

    def _bit(self, number: str) -> str:
        return self.text.set(f"shl {self.bits} 1, {self._wide(number)}")

    def _and(self, a: str, b: str) -> str:
        return self.text.set(f"and {self.bits} {a}, {b}")

    def _not(self, a: str) -> str:
        return self.text.set(f"xor {self.bits} {a}, -1")

    def _has(self, mask: str, number: str) -> str:
        moved = self.text.set(f"lshr {self.bits} {mask}, {self._wide(number)}")
        return self.text.set(f"trunc {self.bits} {moved} to i1")

    def _ones(self, mask: str) -> str:
        """How many bits are set."""
        total = "0"
        for word in self._words_of(mask):
            total = self.text.set(f"add i32 {total}, {self.text.set(f'call i32 @{ONES}(i32 {word})')}")
        return total

    def _words_of(self, mask: str) -> list[str]:
        if self.words == 1:
            return [mask]
        found = []
        for i in range(self.words):
            moved = self.text.set(f"lshr {self.bits} {mask}, {WARP * i}")
            found.append(self.text.set(f"trunc {self.bits} {moved} to i32"))
        return found

    def _of_thread(self, mask: str, lane: str) -> str:
        """What a thread has, whose place is known only when it runs."""
        text, whole = self.text, "0"
        for i, word in enumerate(self._words_of(mask)):
            told = self._passed(TELL, word, lane)
            if self.words == 1:
                return told
            moved = text.set(f"shl {self.bits} {self._wide(told)}, {WARP * i}")
            whole = text.set(f"or {self.bits} {whole}, {moved}")
        return whole

    def _passed(self, how: str, word: str, place: str) -> str:
        edge = (WARP - self.text.threads) << 8 | (WARP - 1)
        return self.text.set(f"call i32 @{how}(i32 {self.text.team}, i32 {word}, i32 {place}, i32 {edge})")

    # --------------------------------------------------------------------------------------------------------- memory

    def _place(self, slot: Slot, index: str) -> str:
        kind, start = self.text.start_of(slot)
        return f"{kind} {self.text.set(f'getelementptr {self.text.n}, {kind} {start}, i32 {index}')}"

    def _load(self, slot: Slot, index: str) -> str:
        text = self.text
        value = text.set(f"load {text.n}, {self._place(slot, index)}, align {text.size}")
        return text.set(f"fptosi {text.n} {value} to i32")

    def _store(self, slot: Slot, index: str, number: str) -> None:
        text = self.text
        value = text.set(f"sitofp i32 {number} to {text.n}")
        text.put(f"store {text.n} {value}, {self._place(slot, index)}, align {text.size}")

    def _turns(
        self,
        count: str,
        states: Sequence[tuple[str, str]],
        body: Callable[[str, list[str]], list[str]],
    ) -> list[str]:
        """A loop of so many turns, from states, each of a type, to the next; the last of them."""
        text, before = self.text, self.text.label
        head, inside, done = text.fresh("turns"), text.fresh("turn"), text.fresh("done")
        text.put(f"br label %{head}")
        text.open(head)
        place, turn = len(text.lines), f"%{head}.i"
        names = [f"%{head}.{i}" for i in range(len(states))]
        text.lines += [""] * (1 + len(states))
        more = text.set(f"icmp slt i32 {turn}, {count}")
        text.put(f"br i1 {more}, label %{inside}, label %{done}")
        text.open(inside)
        later = body(turn, names)
        after = text.set(f"add i32 {turn}, 1")
        text.lines[place] = f"  {turn} = phi i32 [ 0, %{before} ], [ {after}, %{text.label} ]"
        for i, ((kind, first), name, last) in enumerate(zip(states, names, later, strict=True)):
            text.lines[place + 1 + i] = f"  {name} = phi {kind} [ {first}, %{before} ], [ {last}, %{text.label} ]"
        text.put(f"br label %{head}")
        text.open(done)
        return names

    # ----------------------------------------------------------------------------------------------------- the order

    def _coupled(self, couplings: Couplings, masks: list[str]) -> list[str]:
        """With what records couple."""
        text, bits = self.text, self.bits

        def one(turn: str, masks: list[str]) -> list[str]:
            at = text.set(f"mul i32 {turn}, {couplings.width}")
            pair = [self._load(couplings.records, text.set(f"add i32 {at}, {couplings.things + i}")) for i in range(2)]
            others = [self._bit(x) for x in reversed(pair)]
            result = []
            for mask, own in zip(masks, self.own, strict=True):
                for thing, other in zip(pair, others, strict=True):
                    mine = text.set(f"icmp eq i32 {thing}, {own}")
                    more = text.set(f"select i1 {mine}, {bits} {other}, {bits} 0")
                    mask = text.set(f"or {bits} {mask}, {more}")
                result.append(mask)
            return result

        count = text.set(f"fptosi {text.n} {text.load(couplings.count, {})} to i32")
        return self._turns(count, [(bits, mask) for mask in masks], one)

    def _eliminated(self, turn: str, states: list[str]) -> list[str]:
        """One block is next."""
        text, block, bits = self.text, self.block, self.bits
        count, missing, left, *masks = states
        next_ = self._fewest(left, masks)
        left = self._and(left, self._not(self._bit(next_)))
        others = self._and(self._mask_of(next_, masks), left)
        more = self._ones(others)
        total = text.set(f"add i32 {count}, {more}")
        fits = text.set(f"icmp sle i32 {total}, {block.room}")
        others = text.set(f"select i1 {fits}, {bits} {others}, {bits} 0")
        more = text.set(f"select i1 {fits}, i32 {more}, i32 0")
        total = text.set(f"select i1 {fits}, i32 {total}, i32 {count}")
        missing = text.set(f"select i1 {fits}, i32 {missing}, i32 1")
        self._store(block.blocks, text.set(f"mul i32 {turn}, 4"), next_)
        at = text.set(f"mul i32 {next_}, 4")
        for i, number in enumerate((turn, count, more)):
            self._store(block.blocks, text.set(f"add i32 {at}, {i + 1}"), number)
        later = [self._join(own, mask, others, next_, count) for own, mask in zip(self.own, masks, strict=True)]
        return [total, missing, left, *later]

    def _fewest(self, left: str, masks: Sequence[str]) -> str:
        """The block that is coupled with the fewest of those that are left; of equals the first."""
        text, best = self.text, str(MANY)
        for own, mask in zip(self.own, masks, strict=True):
            many = text.set(f"shl i32 {self._ones(self._and(mask, left))}, {NUMBER_BITS}")
            key = text.set(f"or i32 {many}, {own}")
            key = text.set(f"select i1 {self._has(left, own)}, i32 {key}, i32 {MANY}")
            best = self._smaller(best, key)
        offset = 1
        while offset < text.threads:
            best = self._smaller(best, self._passed(PASS, best, str(offset)))
            offset *= 2
        return text.set(f"and i32 {best}, {(1 << NUMBER_BITS) - 1}")

    def _smaller(self, a: str, b: str) -> str:
        below = self.text.set(f"icmp slt i32 {a}, {b}")
        return self.text.set(f"select i1 {below}, i32 {a}, i32 {b}")

    def _mask_of(self, number: str, masks: Sequence[str]) -> str:
        """What a block is coupled with, from the thread that has it."""
        text, threads = self.text, self.text.threads
        which = text.set(f"udiv i32 {number}, {threads}")
        mine = masks[0]
        for i, mask in enumerate(masks[1:], 1):
            here = text.set(f"icmp eq i32 {which}, {i}")
            mine = text.set(f"select i1 {here}, {self.bits} {mask}, {self.bits} {mine}")
        return self._of_thread(mine, text.set(f"urem i32 {number}, {threads}"))

    def _join(self, own: str, mask: str, others: str, gone: str, first: str) -> str:
        """What a block is coupled with from then on; if it was coupled with the one that is gone there is a tile."""
        text, block, bits = self.text, self.block, self.bits
        here, tile, done = self._has(others, own), text.fresh("tile"), text.fresh("done")
        bit = self._bit(own)
        joined = self._and(text.set(f"or {bits} {mask}, {others}"), self._not(bit))
        text.put(f"br i1 {here}, label %{tile}, label %{done}")
        text.open(tile)
        before = self._and(others, text.set(f"sub {bits} {bit}, 1"))
        number = text.set(f"add i32 {first}, {self._ones(before)}")
        for a, b in ((own, gone), (gone, own)):
            self._store(block.between, text.set(f"add i32 {text.set(f'mul i32 {a}, {block.size}')}, {b}"), number)
        at = text.set(f"mul i32 {number}, 2")
        self._store(block.tiles, at, own)
        self._store(block.tiles, text.set(f"add i32 {at}, 1"), gone)
        text.put(f"br label %{done}")
        text.open(done)
        return text.set(f"select i1 {here}, {bits} {joined}, {bits} {mask}")
