"""LLVM's text for a team: several threads of a warp that work on one environment together.

All of them run the lines and conditions of the program, with the same numbers; the rows of its loops they share, round
by round. After each round, and around what a line stores, they wait for each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .blocks import COMMON, FAR, SCRATCH, Line, Loop, Slot
from .llvm_blocks import LlvmBlocks
from .llvm_memory import READ_ONLY, WARP, WIDE, Names
from .program import COUNT_BITS, HALF, ROW_BITS, integers_of, is_narrow

WAIT, PASS = "llvm.nvvm.bar.warp.sync", "llvm.nvvm.shfl.sync.bfly.i32"
"""A meeting of the threads of a warp, and how they pass each other numbers."""
SHARED = "ptr addrspace(3)"
"""Pointers to memory that the threads of a block share."""
_EVERY = (1 << WARP) - 1


@dataclass(frozen=True, slots=True)
class Room:
    """A team, and the memory it works in."""

    size: int
    """Threads."""
    n_near: int
    n_far: int
    shared: bool = False
    """Whether what is near is memory that the threads of a block share; else it lies behind what is far."""
    teams: int = 1
    """To a block."""

    @property
    def n_memory(self) -> int:
        """Numbers that each team has in the memory of the device."""
        return self.n_far + (0 if self.shared else self.n_near)


class LlvmTeam(LlvmBlocks):
    """A kernel that is being written, for teams of so many threads; `%lane` is the number of a thread in its team."""

    def begin_team(self, room: Room) -> None:
        """Where a thread belongs: its environment, its place there, the others of its team, and their memory."""
        self.room, size = room, room.size
        self.in_line = False
        self.starts: dict[tuple[int, int], str] = {}
        """Where arrays of the rows start that the text is in."""
        self.put("%first = mul i32 %ctaid, %ntid")
        self.put("%thread = add i32 %first, %tid")
        self.put(f"%e = udiv i32 %thread, {size}")
        self.put(f"%lane = urem i32 %tid, {size}")
        self.put("%there = icmp slt i32 %e, %n_envs")
        self.put("br i1 %there, label %begin, label %leave")
        self.open("leave")
        self.put("ret void")
        self.open("begin")
        self.team = str(_EVERY - (1 << WARP))
        if size < WARP:
            within = self.set(f"urem i32 %tid, {WARP}")
            start = self.set(f"sub i32 {within}, %lane")
            self.team = self.set(f"shl i32 {_EVERY >> (WARP - size)}, {start}")
        far = f"i32 %e, i32 {room.n_memory * self.size}, {self.pointer} %memory"
        self.put(f"%far_e = call {self.pointer} {WIDE}({far})")
        if room.shared:
            number = self.set(f"udiv i32 %tid, {size}")
            first = self.set(f"mul i32 {number}, {room.n_near}")
            self.put(f"%near_e = getelementptr {self.n}, {SHARED} @near, i32 {first}")
        else:
            self.put(f"%near_e = getelementptr {self.n}, {self.pointer} %far_e, i32 {room.n_far}")

    @property
    def near(self) -> str:
        """The type of pointers to what is near."""
        return SHARED if self.room.shared else self.pointer

    def wait(self) -> None:
        """All of a team are here, and see what the others have stored."""
        self.put(f"call void @{WAIT}(i32 {self.team})")

    def copies(self, start: int, pairs: Sequence[tuple[int, int]], *, into: bool) -> None:
        """Between the common scratch memory and the team's own; the pairs are in the table, padded to whole rounds."""
        rounds, turn = self.begin("0", str(-(-len(pairs) // self.room.size)))
        first = self.set(f"mul i32 {turn}, {2 * self.room.size}")
        at = self.set(f"add i32 {first}, %lane")
        at = self.set(f"add i32 {at}, {start}")
        source = self._int("ints", at)
        target = self._int("ints", self.set(f"add i32 {at}, {self.room.size}"))
        common = f"{self.pointer} {self.below('%scratch_e', source if into else target)}"
        own = self._at(self.near, self.n, "%near_e", target if into else source)
        value = self.set(f"load {self.n}, {common if into else own}, align {self.size}")
        self.put(f"store {self.n} {value}, {own if into else common}, align {self.size}")
        self.end(rounds)
        self.wait()

    def column(self, number: int, column: int, arena: str, at: int) -> None:
        """Where an array of a row starts, computed once: its items are at known distances from there."""
        super().column(number, column, arena, at)
        self._start(number, column, arena)

    def _start(self, number: int, column: int, arena: str) -> None:
        if arena in (SCRATCH, FAR):
            kind, base = self._memory(arena)
            whole = f"getelementptr {self.n}, {kind} {base}, i32 {self.columns[number, column]}"
            self.starts[number, column] = self.set(whole)

    def _memory(self, arena: str) -> tuple[str, str]:
        return (self.near, "%near_e") if arena == SCRATCH else (self.pointer, "%far_e")

    def _pointer(self, slot: Slot, index: str | None) -> str:
        """The scratch memory of a team is its own, and in one piece."""
        address = self.addresses.of(slot)
        if not address.arena and address.column is not None and address.column[0] in self.pitches:
            number, column = address.column
            return self._at(self.pointer, self.n, f"%number{number}", str(column * self.pitches[number]))
        if address.arena == COMMON:
            return f"{self.pointer} {self.below('%scratch_e', self.row_of(address, index))}"
        if address.arena not in (SCRATCH, FAR):
            return super()._pointer(slot, index)
        kind, base = self._memory(address.arena)
        if address.column is not None:
            base = self.starts[address.column]
        if index is not None:
            base = self.set(f"getelementptr {self.n}, {kind} {base}, i32 {index}")
        return self._at(kind, self.n, base, str(address.row))

    # ------------------------------------------------------------------------------------------------------- blocks

    def _line(self, line: Line) -> None:
        if self.addresses.rows:
            super()._line(line)
            return
        self.in_line = True
        names = self.instructions(line)
        self.in_line = False
        kept = [store for store in line.stores if self.addresses.is_local(self.addresses.of(store.slot))]
        shared = [store for store in line.stores if store not in kept]
        if shared or any(i.slot is not None and self._may_change(i.slot) for i in line.instructions):
            self.wait()  # what another thread still reads may not change
        self.stores((*kept, *shared), names)
        if shared:
            self.wait()

    def load(self, slot: Slot, names: Names) -> str:
        """A number; where all threads of a team read it to decide on something, none goes on before."""
        value = super().load(slot, names)
        if not self.in_line and not self.addresses.rows and self._may_change(slot):
            self.wait()
        return value

    def _may_change(self, slot: Slot) -> bool:
        """Whether it is in memory that the threads of a team write to."""
        address = self.addresses.of(slot)
        return address.arena not in READ_ONLY and not self.addresses.is_local(address)

    def _loop(self, loop: Loop) -> None:
        if not loop.rounds:
            super()._loop(loop)
            return
        number, at = self.addresses.number_of(loop), self.addresses.header(loop)
        for own, _ in loop.sums:
            self.store(own, self.constant(0.0), {})
        self.pitches[number] = len(loop.ints)
        starts = [self._int("ints", f"{at + i}") for i in (1, 2)]
        if len(loop.rounds) == 1:
            kind, first, count = loop.rounds[0]
            row = self.set(f"add i32 {first}, %lane")
            self._round(loop, starts[1], row, (str(kind), str(first), str(count)), self._row(loop, starts[0], row))
        else:
            self._rounds(loop, starts)
        for own, total in loop.sums:
            self._add_up(own, total)

    def _row(self, loop: Loop, start: str, row: str) -> list[str]:
        """The words of a row."""
        at = self.set(f"add i32 {start}, {row}")
        pointer = self.set(f"getelementptr i32, {self.pointer} %ints, i32 {at}")
        count, pitch = len(integers_of(loop)), len(loop.ints)
        places = [self.set(f"getelementptr i32, {self.pointer} {pointer}, i32 {i * pitch}") for i in range(count)]
        return [self.set(f"load i32, {self.pointer} {place}{self.fixed}") for place in places]

    def _columns(self, loop: Loop, words: Sequence[str]) -> list[str]:
        """The integers of a row, from its words."""
        if not is_narrow(loop):
            return list(words)
        halves = []
        for word in words:
            halves += [self.set(f"and i32 {word}, {(1 << HALF) - 1}"), self.set(f"lshr i32 {word}, {HALF}")]
        return halves

    def _rounds(self, loop: Loop, starts: Sequence[str]) -> None:
        """Round by round; what the next one is to do is read meanwhile."""
        table = self.set(f"add i32 {starts[0]}, {integers_of(loop).size}")

        def word_of(turn: str) -> str:
            return self._int("ints", self.set(f"add i32 {table}, {turn}"))

        def row_of(word: str) -> str:
            return self.set(f"add i32 {self.set(f'and i32 {word}, {(1 << ROW_BITS) - 1}')}, %lane")

        begin = [word_of("0"), word_of("1")]
        begin += self._row(loop, starts[0], row_of(begin[0]))
        before, head, done = self.label, self.fresh("rounds"), self.fresh("done")
        self.put(f"br label %{head}")
        self.open(head)
        names = [f"%{head}.{i}" for i in range(len(begin))]
        place = len(self.lines)
        self.lines += [""] * (len(begin) + 1)
        turn = f"%{head}.i"
        after = self.set(f"add i32 {turn}, 1")
        word, following, *words = names
        later = [following, word_of(self.set(f"add i32 {turn}, 2")), *self._row(loop, starts[0], row_of(following))]
        self._round(loop, starts[1], row_of(word), self._unpacked(word), words)
        more = self.set(f"icmp slt i32 {after}, {len(loop.rounds)}")
        self.put(f"br i1 {more}, label %{head}, label %{done}")
        self.lines[place] = f"  {turn} = phi i32 [ 0, %{before} ], [ {after}, %{self.label} ]"
        for i, (name, first, last) in enumerate(zip(names, begin, later, strict=True)):
            self.lines[place + 1 + i] = f"  {name} = phi i32 [ {first}, %{before} ], [ {last}, %{self.label} ]"
        self.open(done)

    def _unpacked(self, word: str) -> tuple[str, str, str]:
        """The case, the first row and the number of rows of a round."""
        first = self.set(f"and i32 {word}, {(1 << ROW_BITS) - 1}")
        rest = self.set(f"lshr i32 {word}, {ROW_BITS}")
        return self.set(f"lshr i32 {rest}, {COUNT_BITS}"), first, self.set(f"and i32 {rest}, {(1 << COUNT_BITS) - 1}")

    def _round(self, loop: Loop, numbers: str, row: str, what: tuple[str, str, str], words: Sequence[str]) -> None:
        """Rows of one kind, one to a thread."""
        number, (kind, _, count) = self.addresses.number_of(loop), what
        columns = self._columns(loop, words)
        here = self.set(f"icmp slt i32 %lane, {count}")
        if loop.floats.shape[1]:
            index = self.set(f"add i32 {numbers}, {row}")
            self.put(f"%number{number} = getelementptr {self.n}, {self.pointer} %floats, i32 {index}")
        after = self.fresh("after")
        labels = [self.fresh("case") for _ in loop.cases]
        targets = " ".join(f"i32 {i}, label %{label}" for i, label in enumerate(labels[:-1]))
        self.put(f"switch i32 {kind}, label %{labels[-1]} [ {targets} ]" if targets else f"br label %{labels[-1]}")
        for case, label in zip(loop.cases, labels, strict=True):
            self.open(label)
            body = self.fresh("body")
            self.put(f"br i1 {here}, label %{body}, label %{after}")
            self.open(body)
            for arena, column in case.arrays.values():
                self.columns[number, column] = columns[column]
                self._start(number, column, arena)
            self.addresses.rows.append((number, case))
            self.blocks(case.blocks)
            self.addresses.rows.pop()
            self.put(f"br label %{after}")
        self.open(after)
        self.wait()

    def _add_up(self, own: Slot, total: Slot) -> None:
        """The sum over all threads, the same in each of them: what two pass each other they add in either order."""
        value, offset = self.load(own, {}), 1
        while offset < self.room.size:
            value = self.set(f"fadd {self.n} {value}, {self._passed(value, offset)}")
            offset *= 2
        value = self.set(f"fadd {self.n} {self.load(total, {})}, {value}")
        self.wait()
        self.store(total, value, {})
        self.wait()

    def _passed(self, value: str, offset: int) -> str:
        """The number of the thread whose place differs in one bit."""
        edge = (WARP - self.room.size) << 8 | (WARP - 1)

        def word(bits: str) -> str:
            return self.set(f"call i32 @{PASS}(i32 {self.team}, i32 {bits}, i32 {offset}, i32 {edge})")

        if self.size == 4:
            bits = self.set(f"bitcast float {value} to i32")
            return self.set(f"bitcast i32 {word(bits)} to float")
        bits = self.set(f"bitcast double {value} to <2 x i32>")
        halves = [word(self.set(f"extractelement <2 x i32> {bits}, i32 {i}")) for i in range(2)]
        low = self.set(f"insertelement <2 x i32> poison, i32 {halves[0]}, i32 0")
        both = self.set(f"insertelement <2 x i32> {low}, i32 {halves[1]}, i32 1")
        return self.set(f"bitcast <2 x i32> {both} to double")


def padded(pairs: Sequence[tuple[int, int]], size: int) -> list[int]:
    """Pairs for rounds of a team: the first of each, then the second; the last round may have the last one again."""
    whole = [*pairs, *[pairs[-1]] * (-len(pairs) % size)] if pairs else []
    return [x for i in range(0, len(whole), size) for side in (0, 1) for x in (p[side] for p in whole[i : i + size])]
