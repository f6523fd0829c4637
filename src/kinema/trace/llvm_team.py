"""LLVM's text for a team: several threads of a warp that work on one environment together.

All of them run the lines and conditions of the program, with the same numbers; the rows of its loops they share, round
by round. After each round, and around what a line stores, they wait for each other.
"""

from __future__ import annotations

from collections.abc import Sequence

from .blocks import SCRATCH, Line, Loop, Slot
from .llvm_blocks import LlvmBlocks
from .llvm_memory import WARP

WAIT, PASS = "llvm.nvvm.bar.warp.sync", "llvm.nvvm.shfl.sync.bfly.i32"
"""A meeting of the threads of a warp, and how they pass each other numbers."""
_EVERY = (1 << WARP) - 1


class LlvmTeam(LlvmBlocks):
    """A kernel that is being written, for teams of so many threads; `%lane` is the number of a thread in its team."""

    size_of_team: int

    def begin_team(self, size: int) -> None:
        """Where a thread belongs: its environment, its place there, and the others of its team."""
        self.size_of_team = size
        self.put("%first = mul i32 %ctaid, %ntid")
        self.put("%thread = add i32 %first, %tid")
        self.put(f"%e = udiv i32 %thread, {size}")
        self.put(f"%lane = urem i32 %tid, {size}")
        self.put("%there = icmp slt i32 %e, %n_envs")
        self.put("br i1 %there, label %begin, label %leave")
        self.open("leave")
        self.put("ret void")
        self.open("begin")
        within = self.set(f"urem i32 %tid, {WARP}")
        start = self.set(f"sub i32 {within}, %lane")
        self.put(f"%team = shl i32 {_EVERY >> (WARP - size)}, {start}")

    def wait(self) -> None:
        """All of a team are here, and see what the others have stored."""
        self.put(f"call void @{WAIT}(i32 %team)")

    def copies(self, start: int, pairs: Sequence[tuple[int, int]], *, into: bool) -> None:
        """Between the common scratch memory and the team's own; the pairs are in the table, padded to whole rounds."""
        rounds, turn = self.begin("0", str(-(-len(pairs) // self.size_of_team)))
        first = self.set(f"mul i32 {turn}, {2 * self.size_of_team}")
        at = self.set(f"add i32 {first}, %lane")
        at = self.set(f"add i32 {at}, {start}")
        source = self._int("ints", at)
        target = self._int("ints", self.set(f"add i32 {at}, {self.size_of_team}"))
        common = f"{self.pointer} {self.below('%scratch_e', source if into else target)}"
        own = self._at(self.pointer, self.n, "%memory_e", target if into else source)
        value = self.set(f"load {self.n}, {common if into else own}, align {self.size}")
        self.put(f"store {self.n} {value}, {own if into else common}, align {self.size}")
        self.end(rounds)
        self.wait()

    def _pointer(self, slot: Slot, index: str | None) -> str:
        """The scratch memory of a team is its own, and in one piece."""
        address = self.addresses.of(slot)
        if not address.arena and address.column is not None and address.column[0] in self.pitches:
            number, column = address.column
            return self._at(self.pointer, self.n, f"%number{number}", str(column * self.pitches[number]))
        if address.arena != SCRATCH:
            return super()._pointer(slot, index)
        return self._at(self.pointer, self.n, "%memory_e", self.row_of(address, index))

    # ------------------------------------------------------------------------------------------------------- blocks

    def _line(self, line: Line) -> None:
        if self.addresses.rows:
            super()._line(line)
            return
        names = self.instructions(line)
        kept = [store for store in line.stores if self.addresses.is_local(self.addresses.of(store.slot))]
        shared = [store for store in line.stores if store not in kept]
        if shared:
            self.wait()  # what another thread still reads may not change
        self.stores((*kept, *shared), names)
        if shared:
            self.wait()

    def _loop(self, loop: Loop) -> None:
        if not loop.rounds:
            super()._loop(loop)
            return
        number, at = self.addresses.number_of(loop), self.addresses.header(loop)
        for own, _ in loop.sums:
            self.store(own, self.constant(0.0), {})
        start, numbers = (self._int("ints", f"{at + i}") for i in (1, 2))
        self.pitches[number] = len(loop.ints)
        table = self.set(f"add i32 {start}, {loop.ints.size}")
        rounds, turn = self.begin("0", str(len(loop.rounds)))
        offset = self.set(f"mul i32 {turn}, 3")
        own_round = self.set(f"add i32 {table}, {offset}")
        kind, first, count = (self._int("ints", self.set(f"add i32 {own_round}, {i}")) for i in range(3))
        row = self.set(f"add i32 {first}, %lane")
        here = self.set(f"icmp slt i32 %lane, {count}")
        for name, begin in (("row", start), ("number", numbers)):
            index = self.set(f"add i32 {begin}, {row}")
            of, array = ("i32", "ints") if name == "row" else (self.n, "floats")
            self.put(f"%{name}{number} = getelementptr {of}, {self.pointer} %{array}, i32 {index}")
        self._cases(loop, number, kind, here)
        self.wait()
        self.end(rounds)
        for own, total in loop.sums:
            self._add_up(own, total)

    def _cases(self, loop: Loop, number: int, kind: str, here: str) -> None:
        """What a round does: all of its rows are of one kind."""
        after = self.fresh("after")
        labels = [self.fresh("case") for _ in loop.cases]
        targets = " ".join(f"i32 {i}, label %{label}" for i, label in enumerate(labels[:-1]))
        self.put(f"switch i32 {kind}, label %{labels[-1]} [ {targets} ]" if targets else f"br label %{labels[-1]}")
        for case, label in zip(loop.cases, labels, strict=True):
            self.open(label)
            body = self.fresh("body")
            self.put(f"br i1 {here}, label %{body}, label %{after}")
            self.open(body)
            for _, column in case.arrays.values():
                self.columns[number, column] = self._int(f"row{number}", str(column * len(loop.ints)))
            self.addresses.rows.append((number, case))
            self.blocks(case.blocks)
            self.addresses.rows.pop()
            self.put(f"br label %{after}")
        self.open(after)

    def _add_up(self, own: Slot, total: Slot) -> None:
        """The sum over all threads, the same in each of them: what two pass each other they add in either order."""
        value, offset = self.load(own, {}), 1
        while offset < self.size_of_team:
            value = self.set(f"fadd {self.n} {value}, {self._passed(value, offset)}")
            offset *= 2
        value = self.set(f"fadd {self.n} {self.load(total, {})}, {value}")
        self.wait()
        self.store(total, value, {})
        self.wait()

    def _passed(self, value: str, offset: int) -> str:
        """The number of the thread whose place differs in one bit."""
        edge = (WARP - self.size_of_team) << 8 | (WARP - 1)

        def word(bits: str) -> str:
            return self.set(f"call i32 @{PASS}(i32 %team, i32 {bits}, i32 {offset}, i32 {edge})")

        if self.size == 4:
            bits = self.set(f"bitcast float {value} to i32")
            return self.set(f"bitcast i32 {word(bits)} to float")
        bits = self.set(f"bitcast double {value} to <2 x i32>")
        halves = [word(self.set(f"extractelement <2 x i32> {bits}, i32 {i}")) for i in range(2)]
        low = self.set(f"insertelement <2 x i32> poison, i32 {halves[0]}, i32 0")
        return self.set(f"bitcast <2 x i32> {self.set(f'insertelement <2 x i32> {low}, i32 {halves[1]}, i32 1')} to double")


def padded(pairs: Sequence[tuple[int, int]], size: int) -> list[int]:
    """Pairs for rounds of a team: the first of each, then the second; the last round has the last pair several times."""
    whole = [*pairs, *[pairs[-1]] * (-len(pairs) % size)] if pairs else []
    return [x for i in range(0, len(whole), size) for side in (0, 1) for x in (p[side] for p in whole[i : i + size])]

