"""LLVM's text for the loops of a team: rows of a table, one to a thread, round by round."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from .blocks import Case, Line, Loop, Round
from .llvm_threads import LlvmThreads
from .program import HALF, integers_of, is_narrow
from .slots import FAR, SCRATCH, Slot

MOST_TURNS = 8
"""How often the kind of rows may change for each stretch of rounds to have a text of its own."""
AT_ONCE = 8
"""Numbers that a thread asks for before it waits for any."""
SHORT = 12
"""Instructions of a row of which there may be as many rows at once."""


class LlvmRounds(LlvmThreads):
    """A kernel that is being written."""

    numbers: dict[int, str]
    """Where the constants of the rows are that the text is in, by columns."""
    starts: dict[tuple[int, int], str]
    """Where arrays of the rows start that the text is in."""

    def _loop(self, loop: Loop) -> None:
        if not loop.rounds:
            super()._loop(loop)
            return
        number, at = self.addresses.number_of(loop), self.addresses.header(loop)
        for own, _ in loop.sums:
            self.store(own, self.constant(0.0), {})
        self.pitches[number] = len(loop.ints)
        starts = [self._int("ints", f"{at + i}") for i in (1, 2)]
        together = [(kind, list(rounds)) for kind, rounds in groupby(loop.rounds, key=lambda x: x.kind)]
        if len(together) <= MOST_TURNS:
            for kind, rounds in together:
                self._stretch(loop, starts, rounds, loop.cases[kind])
        else:
            self._rounds(loop, starts, 0, len(loop.rounds), None)
        self._add_up(loop.sums)

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

    def _stretch(self, loop: Loop, starts: Sequence[str], rounds: Sequence[Round], case: Case) -> None:
        """Rounds of one kind; where none has to wait for another, several at once."""
        first, count = rounds[0].first, len(rounds)
        (line, *others) = case.blocks
        short = isinstance(line, Line) and not others and len(line.instructions) <= SHORT
        if count == 1 or loop.guarded or not short or len({x.level for x in rounds}) > 1:
            self._rounds(loop, starts, first, count, case)
            return
        begin = self.set(f"add i32 {first}, %lane")
        if count >= AT_ONCE:
            before, head = self.label, self.fresh("batches")
            self.put(f"br label %{head}")
            self.open(head)
            place = len(self.lines)
            self.put("")
            self._batch(loop, starts, f"%{head}.i", AT_ONCE, case)
            after = self.set(f"add i32 %{head}.i, {AT_ONCE * self.room.size}")
            self.lines[place] = f"  %{head}.i = phi i32 [ {begin}, %{before} ], [ {after}, %{self.label} ]"
            done = self.fresh("done")
            last = first + count // AT_ONCE * AT_ONCE * self.room.size
            more = self.set(f"icmp slt i32 {after}, {last}")
            self.put(f"br i1 {more}, label %{head}, label %{done}")
            self.open(done)
            begin = after
        if count % AT_ONCE:
            self._batch(loop, starts, begin, count % AT_ONCE, case)
        self.wait()

    def _batch(self, loop: Loop, starts: Sequence[str], first: str, count: int, case: Case) -> None:
        """So many rounds: all that they read, then all that they store."""
        number, (line,) = self.addresses.number_of(loop), case.blocks
        assert isinstance(line, Line)
        rows = [first, *(self.set(f"add i32 {first}, {i * self.room.size}") for i in range(1, count))]
        words = [self._row(loop, starts[0], row) for row in rows]
        self.addresses.rows.append((number, case))
        found = []
        for row, own in zip(rows, words, strict=True):
            self._find_numbers(loop, starts[1], row)
            self._enter(case, number, self._columns(loop, own))
            found.append((dict(self.columns), dict(self.starts), self.instructions(line)))
        for columns, places, names in found:
            self.columns.update(columns)
            self.starts.update(places)
            self.stores(line.stores, names)
        self.addresses.rows.pop()

    def _enter(self, case: Case, number: int, columns: Sequence[str]) -> None:
        """From here on the text is that of a row."""
        for arena, column in case.arrays.values():
            self.columns[number, column] = columns[column]
            self._start(number, column, arena)

    def _find_numbers(self, loop: Loop, numbers: str, row: str) -> None:
        if loop.floats.shape[1]:
            index = self.set(f"add i32 {numbers}, {row}")
            name = self.set(f"getelementptr {self.n}, {self.pointer} %floats, i32 {index}")
            self.numbers[self.addresses.number_of(loop)] = name

    def column(self, number: int, column: int, arena: str, at: int) -> None:  # ty: ignore[lost-keyword-for-regular-parameter]
        """Where an array of a row starts, computed once: its items are at known distances from there."""
        super().column(number, column, arena, at)
        self._start(number, column, arena)

    def _start(self, number: int, column: int, arena: str) -> None:
        if arena in (SCRATCH, FAR):
            kind, base = self._memory(arena)
            whole = f"getelementptr i8, {kind} {base}, i32 {self.columns[number, column]}"
            self.starts[number, column] = self.set(whole)

    def _memory(self, arena: str) -> tuple[str, str]:
        return (self.near, "%near_e") if arena == SCRATCH else (self.pointer, "%far_e")

    def _rounds(self, loop: Loop, starts: Sequence[str], first: int, count: int, case: Case | None) -> None:
        """Some rounds, of one case or of any; what the next one is to do is read meanwhile."""
        begin = self.set(f"add i32 {first}, %lane")
        words = self._row(loop, starts[0], begin)
        if count == 1:
            self._round(loop, starts[1], begin, words, case)
            return
        before, head, done = self.label, self.fresh("rounds"), self.fresh("done")
        self.put(f"br label %{head}")
        self.open(head)
        names = [f"%{head}.{i}" for i in range(len(words))]
        row, place = f"%{head}.i", len(self.lines)
        self.lines += [""] * (len(words) + 1)
        after = self.set(f"add i32 {row}, {self.room.size}")
        later = self._row(loop, starts[0], after)
        self._round(loop, starts[1], row, names, case)
        more = self.set(f"icmp slt i32 {after}, {first + count * self.room.size}")
        self.put(f"br i1 {more}, label %{head}, label %{done}")
        self.lines[place] = f"  {row} = phi i32 [ {begin}, %{before} ], [ {after}, %{self.label} ]"
        for i, (name, one, last) in enumerate(zip(names, words, later, strict=True)):
            self.lines[place + 1 + i] = f"  {name} = phi i32 [ {one}, %{before} ], [ {last}, %{self.label} ]"
        self.open(done)

    def _round(self, loop: Loop, numbers: str, row: str, words: Sequence[str], case: Case | None) -> None:
        """Rows of one kind, one to a thread."""
        number = self.addresses.number_of(loop)
        columns = self._columns(loop, words)
        self._find_numbers(loop, numbers, row)
        after = self.fresh("after")
        if loop.guarded:
            body = self.fresh("body")
            here = self.set(f"icmp ne i32 {columns[loop.ints.shape[1] - 1]}, 0")
            self.put(f"br i1 {here}, label %{body}, label %{after}")
            self.open(body)
        if case is not None:
            self._case(case, number, columns)
            self.put(f"br label %{after}")
        else:
            labels = [self.fresh("case") for _ in loop.cases]
            targets = " ".join(f"i32 {i}, label %{label}" for i, label in enumerate(labels[:-1]))
            self.put(f"switch i32 {columns[0]}, label %{labels[-1]} [ {targets} ]")
            for one, label in zip(loop.cases, labels, strict=True):
                self.open(label)
                self._case(one, number, columns)
                self.put(f"br label %{after}")
        self.open(after)
        self.wait()

    def _case(self, case: Case, number: int, columns: Sequence[str]) -> None:
        self._enter(case, number, columns)
        self.addresses.rows.append((number, case))
        self.blocks(case.blocks)
        self.addresses.rows.pop()

    def _add_up(self, sums: Sequence[tuple[Slot, Slot]]) -> None:
        """The sums over all threads, to what there is of them."""
        if not sums:
            return
        found = self.over_threads([self.load(own, {}) for own, _ in sums])
        before = [self.load(total, {}) for _, total in sums]
        values = [self.set(f"fadd {self.n} {a}, {b}") for a, b in zip(before, found, strict=True)]
        self.wait()
        for (_, total), value in zip(sums, values, strict=True):
            self.store(total, value, {})
        self.wait()
