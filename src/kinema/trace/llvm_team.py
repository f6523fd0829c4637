"""LLVM's text for a team: several threads of a warp that work on one environment together.

All of them run the lines and conditions of the program, with the same numbers; the rows of its loops they share, round
by round. After each round, and around what a line stores, they wait for each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

from .blocks import Blocks, Count, Line
from .conventions import N_HEAD, N_LISTS
from .equations import Arrange, Choose, Solve
from .given import FOUR, GROUP, WIDEST, Given, offset
from .llvm_arranging import LlvmArranging
from .llvm_limbs import LlvmLimbs
from .llvm_memory import READ_ONLY, WARP, WIDE, Names
from .llvm_order import forget_order, of_order
from .llvm_rounds import AT_ONCE, LlvmRounds
from .llvm_solution import LlvmSolution
from .llvm_threads import SHARED, TELL, Room
from .slots import COMMON, FAR, SCRATCH, Slot

_EVERY = (1 << WARP) - 1


class LlvmTeam(LlvmRounds):
    """A kernel that is being written, for teams of so many threads; `%lane` is the number of a thread in its team."""

    def begin_team(self, room: Room, *, ordered: bool = False) -> None:
        """Where a thread belongs: its team, its place there, their memory, and the environment that is next.

        They may be `ordered` by how much there is to do.
        """
        self.room, size = room, room.size
        self.in_line = False
        self.alone = False
        """Whether each thread is at a turn of its own."""
        self.chosen: list[tuple[int, int, str]] = []
        """Lists that are near or far, by where they are if far: first and last, and the pointer to where they are."""
        self.numbers, self.starts = {}, {}
        self.put("%first = mul i32 %ctaid, %ntid")
        self.put("%thread = add i32 %first, %tid")
        self.put(f"%lane = urem i32 %tid, {size}")
        self.team = str(_EVERY - (1 << WARP))
        if size < WARP:
            within = self.set(f"urem i32 %tid, {WARP}")
            start = self.set(f"sub i32 {within}, %lane")
            self.team = self.set(f"shl i32 {_EVERY >> (WARP - size)}, {start}")
        own = self.set(f"udiv i32 %thread, {size}")
        start = str(N_HEAD)
        if ordered:
            lists = self.set(f"mul i32 {N_LISTS}, {self.set('add i32 %stride, 1')}")
            start = self.set(f"add i32 {lists}, {N_HEAD}")
        rows = self.set(f"getelementptr {self.n}, {self.pointer} %memory, i32 {start}")
        far = f"i32 {own}, i32 {room.n_memory * self.size}, {self.pointer} {rows}"
        self.put(f"%far_e = call {self.pointer} {WIDE}({far})")
        if room.shared:
            number = self.set(f"udiv i32 %tid, {size}")
            first = self.set(f"mul i32 {number}, {room.n_near}")
            self.put(f"%near_e = getelementptr {self.n}, {SHARED} @near, i32 {first}")
        else:
            self.put(f"%near_e = getelementptr {self.n}, {self.pointer} %far_e, i32 {room.n_far}")
        self._next_environment(ordered=ordered)

    def _next_environment(self, *, ordered: bool) -> None:
        """The one that a team takes: there are as many teams as run at a time, so that they need little memory.

        What counts those that were taken, at the beginning of all teams' memory, starts anew when each team has been
        told that there is none left: the next launch finds it at 0.
        """
        self.put("%asked = add i32 %n_envs, %steps")
        self.put("%last = sub i32 %asked, 1")
        self.put("%first_of_team = icmp eq i32 %lane, 0")
        self.put("br label %next")
        self.open("next")
        self.put("br i1 %first_of_team, label %ask, label %told")
        self.open("ask")
        self.put(f"%taken = atomicrmw uinc_wrap {self.pointer} %memory, i32 %last monotonic")
        if ordered:
            self.put(f"br i1 {self.set('icmp eq i32 %taken, %last')}, label %forget, label %answered")
            self.open("forget")
            forget_order(self)
            self.put("br label %answered")
            self.open("answered")
        asked = self.label
        self.put("br label %told")
        self.open("told")
        self.put(f"%answer = phi i32 [ 0, %next ], [ %taken, %{asked} ]")
        self.put(f"%number = call i32 @{TELL}(i32 {self.team}, i32 %answer, i32 0, i32 {self.edge})")
        self.put("%there = icmp slt i32 %number, %n_envs")
        self.put("br i1 %there, label %begin, label %leave")
        self.open("begin")
        self.put(f"%e = add i32 {of_order(self, '%number') if ordered else '%number'}, 0")

    def end_team(self) -> None:
        """On to the next environment; what follows is done once there is none."""
        self.put("br label %next")
        self.open("leave")

    def copies(self, start: int, pairs: Sequence[tuple[int, int]], *, into: bool) -> None:
        """Between the common scratch memory and the team's own; the pairs are in the table, padded to whole rounds.

        Some rounds at a time, so that the threads wait for the memory once for all of these.
        """
        rounds, size = -(-len(pairs) // self.room.size), self.room.size
        for first in range(0, rounds, AT_ONCE):
            chosen = range(first, min(first + AT_ONCE, rounds))
            words = [self.set(f"add i32 %lane, {start + 2 * size * i}") for i in chosen]
            sources = [self._int("ints", at) for at in words]
            targets = [self._int("ints", self.set(f"add i32 {at}, {size}")) for at in words]
            values = []
            for source in sources:
                place = self.common(source) if into else self._of_team(source)
                values.append(self.set(f"load {self.n}, {place}, align {self.size}"))
            for value, target in zip(values, targets, strict=True):
                place = self._of_team(target) if into else self.common(target)
                self.put(f"store {self.n} {value}, {place}, align {self.size}")
        self.wait()

    def take(self, start: int, given: Given) -> None:
        """What lines left, four numbers at a time; where these go is in the table, padded to whole rounds.

        Threads for which there is nothing left take the last once more.
        """
        kind, align = f"<{FOUR} x {self.n}>", min(FOUR * self.size, WIDEST)
        fours, targets = [], []
        for first in range(0, len(given.fours), self.room.size):
            own = self.set(f"add i32 %lane, {first}")
            targets.append(self._int("ints", self.set(f"add i32 {own}, {start}")))
            if first + self.room.size > len(given.fours):
                last = len(given.fours) - 1
                own = self.set(f"select i1 {self.set(f'icmp slt i32 {own}, {last}')}, i32 {own}, i32 {last}")
            group, half = (self.set(f"{word} i32 {own}, {GROUP // FOUR}") for word in ("udiv", "urem"))
            within = self.set(f"add i32 {self.set(f'mul i32 {half}, {FOUR}')}, {offset(given.first, WARP)}")
            at = self.set(f"add i32 {self.set(f'mul i32 {group}, {GROUP * WARP}')}, {within}")
            place = self._at(self.pointer, self.n, "%given_e", at)
            fours.append(self.set(f"load {kind}, {place}, align {align}"))
        for four, target in zip(fours, targets, strict=True):
            self.put(f"store {kind} {four}, {self._of_team(target)}, align {align}")
        self.wait()  # what is copied may go to places between these

    def _of_team(self, row: str) -> str:
        """A number of the team's own."""
        return self._at(self.near, self.n, "%near_e", row)

    def _pointer(self, slot: Slot, index: str | None) -> str:
        """The scratch memory of a team is its own, and in one piece."""
        address = self.addresses.of(slot)
        if not address.arena and address.column is not None and address.column[0] in self.pitches:
            number, column = address.column
            return self._at(self.pointer, self.n, self.numbers[number], str(column * self.pitches[number]))
        if address.arena == COMMON:
            return self.common(self.row_of(address, index))
        if address.arena not in (SCRATCH, FAR):
            return super()._pointer(slot, index)
        kind, base = self._memory(address.arena)
        row = address.row
        if address.column is not None:
            base = self.starts[address.column]
        elif address.arena == FAR:
            inside = [(first, pointer) for first, end, pointer in self.chosen if first <= row < end]
            for first, pointer in inside:
                kind, base, row = "ptr", pointer, row - first
        if index is not None:
            base = self.set(f"getelementptr {self.n}, {kind} {base}, i32 {index}")
        return self._at(kind, self.n, base, str(row))

    def alignment(self, slot: Slot) -> int:  # ty: ignore[lost-keyword-for-regular-parameter]
        """Of items of lists, and of numbers whose place is known: every fourth may be read with the three behind it.

        Records of contacts are read by whole vectors then: a go2's team has a third of the instructions for that.
        """
        address = self.addresses.of(slot)
        if address.arena not in (SCRATCH, FAR) or address.column is not None:
            return self.size
        starts = [first for first, end, _ in self.chosen if address.arena == FAR and first <= address.row < end]
        row = address.row - (starts[0] if starts else 0)
        known = gcd(row, FOUR if slot.index is None else self.multiple(slot.index), FOUR)
        return min(known * self.size, WIDEST)

    # ------------------------------------------------------------------------------------------------------- blocks

    def blocks(self, blocks: Blocks) -> None:
        """Blocks, one after the other."""
        for block in blocks:
            if isinstance(block, Solve):
                self._solve(block)
            elif isinstance(block, Arrange):
                LlvmArranging(self, block).put()
            elif isinstance(block, Choose):
                self._choose_memory(block)
            else:
                super().blocks((block,))

    def _solve(self, block: Solve) -> None:
        """Equations; by limbs where these are apart."""
        limbs = block.limbs
        if limbs is None or not limbs.fit(self.threads):
            LlvmSolution(self, block).put()
            return
        if limbs.apart is None:
            LlvmLimbs(self, block).put()
            return
        apart, coupled, done = (self.fresh(word) for word in ("apart", "coupled", "done"))
        self.put(f"br i1 {self._above_half(limbs.apart)}, label %{apart}, label %{coupled}")
        for label, solution in ((apart, LlvmLimbs), (coupled, LlvmSolution)):
            self.open(label)
            solution(self, block).put()
            self.put(f"br label %{done}")
        self.open(done)

    def _choose_memory(self, block: Choose) -> None:
        """A pointer to where a list is."""
        used = self.load(block.used, {})
        begins = gcd(block.near, block.list.item, FOUR)
        assert begins == FOUR, "lists begin where four numbers can be read at once"
        fits = self.set(f"fcmp olt {self.kn} {used}, {self.constant(block.most + 0.5)}")
        both = []
        for arena, row in ((SCRATCH, block.near), (FAR, block.list.item)):
            kind, base = self._memory(arena)
            there = self.set(f"getelementptr {self.n}, {kind} {base}, i32 {row}")
            both.append(self.set(f"addrspacecast {kind} {there} to ptr") if " " in kind else there)
        chosen = self.set(f"select i1 {fits}, ptr {both[0]}, ptr {both[1]}")
        self.chosen.append((block.list.item, block.list.item + block.length, chosen))

    def _counted(self, block: Count) -> None:
        if not block.shared or self.addresses.rows or self.alone:
            super()._counted(block)
            return
        if block.most is not None and block.most <= self.room.size:
            self._at_once(block)
        else:
            self._in_turns(block)
        self.wait()
        found = self.over_threads([self.load(own, {}) for own in block.sums])
        for own, total in zip(block.sums, found, strict=True):
            self.store(own, total, {})

    def _at_once(self, block: Count) -> None:
        """A turn for each thread, and none for some."""
        body, done = self.fresh("turn"), self.fresh("done")
        self.put(f"br i1 {self.set(f'icmp slt i32 %lane, {block.most}')}, label %{body}, label %{done}")
        self.open(body)
        self.alone = True
        self._turn(block.body, self.set(f"sitofp i32 %lane to {self.n}"), "%lane")
        self.alone = False
        self.put(f"br label %{done}")
        self.open(done)

    def _in_turns(self, block: Count) -> None:
        limit = self.whole_number(self.load(block.count, {}), 0, shared=True)
        before, head, body, done = self.label, self.fresh("shared"), self.fresh("turn"), self.fresh("done")
        self.put(f"br label %{head}")
        self.open(head)
        place = len(self.lines)
        self.put("")
        more = self.set(f"icmp slt i32 %{head}.i, {limit}")
        self.put(f"br i1 {more}, label %{body}, label %{done}")
        self.open(body)
        self.alone = True
        self._turn(block.body, self.set(f"sitofp i32 %{head}.i to {self.n}"), f"%{head}.i")
        self.alone = False
        after = self.set(f"add i32 %{head}.i, {self.room.size}")
        self.lines[place] = f"  %{head}.i = phi i32 [ %lane, %{before} ], [ {after}, %{self.label} ]"
        self.put(f"br label %{head}")
        self.open(done)

    def _line(self, line: Line) -> None:
        if self.addresses.rows or self.alone:
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
        if not self.in_line and not self.alone and not self.addresses.rows and self._may_change(slot):
            self.wait()
        return value

    def _may_change(self, slot: Slot) -> bool:
        """Whether it is in memory that the threads of a team write to."""
        address = self.addresses.of(slot)
        return address.arena not in READ_ONLY and not self.addresses.is_local(address)
