"""LLVM's text for tests that all threads of a GPU share, and what is done at once where they find something.

A warp tests some rows of one kind for 32 environments. What passes a test it puts into a queue for the next one, and
what passes the last into one for the work. Once a queue holds an entry for each of its threads, or nothing is left that
could fill it, they take these. So all threads do the same most of the time, whatever they find, and nobody else has to
be asked for anything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .blocks import Case, Loop, Spread
from .llvm_memory import WARP
from .llvm_spread import LlvmSpread, long_kinds
from .llvm_threads import ONES, SHARED, TELL, WAIT

BALLOT, BELOW = "llvm.nvvm.vote.ballot.sync", "llvm.nvvm.read.ptx.sreg.lanemask.lt"
TOGETHER = 8
"""Rows that are first tested at a time: one after the other, threads would wait for the memory each time."""
ROOM = WARP * (TOGETHER + 1)
"""Entries of a queue: it is filled only as long as there are fewer than threads."""
WARPS = 2
"""Of a block, each with queues of its own."""
ALL = -1
DECLARATIONS = (
    f"declare i32 @{BALLOT}(i32, i1)",
    f"declare i32 @{BELOW}()",
    f"declare i32 @{ONES}(i32)",
    f"declare i32 @{TELL}(i32, i32, i32, i32)",
    f"declare void @{WAIT}(i32)",
)


class LlvmQueues(LlvmSpread):
    """A kernel that is being written."""

    tables: dict[int, tuple[str, str]]
    """Of each loop, by its identity."""

    def tests(self, block: Spread, found: Sequence[Sequence[int]], *, at_once: bool) -> list[str]:
        """Test rows for all environments, in shares; what they find is done at once, or goes into lists.

        What the text refers to, to be put before it.
        """
        last = len(block.tests)
        """The stage that comes after all tests: the work."""
        for name in ("tested", *(f"queued{i}" for i in range(1, last + 1))):
            self.put(f"%{name} = alloca i32")
            self._let(name, "0")
        of_row = block.work.case_of_row()
        kinds = sorted({int(of_row[rows[0]]) for rows in found})
        pitch = 1 + max(map(len, found)) + TOGETHER
        self._find_environment(pitch, last)
        self.tables = {id(loop): self._table(loop) for loop in block.loops}
        self._begin_turn(last)
        self._next_entry(last)
        self.point("%e")
        for loop in block.loops[1:]:
            self._row(loop, "%row")
        stages = " ".join(f"i32 {i}, label %stage{i}" for i in range(last))
        self.put(f"switch i32 %stage, label %stage{last} [ {stages} ]")
        self.open("stage0")
        self._first_tests(block, kinds)
        for number, loop in enumerate(block.tests[1:], 1):
            self.open(f"stage{number}")
            self._next_test(number, loop, block, kinds)
        self.open(f"stage{last}")
        self._work(block, kinds, at_once=at_once)
        self.open("turned")
        self.put(f"call void @{WAIT}(i32 {ALL})")  # what was put into a queue is there, what was taken is not needed
        self.put("br label %turn")
        self.open("leave")
        padded = [x for rows in found for x in (len(rows), *rows, *[rows[0]] * (pitch - 1 - len(rows)))]
        return [
            f"@queues = internal {SHARED[4:]} global [{WARPS * last * ROOM} x i32] poison, align 4",
            f"@rows = internal addrspace(1) constant [{len(padded)} x i32] [{', '.join(f'i32 {x}' for x in padded)}]",
        ]

    def _let(self, name: str, value: str) -> None:
        self.put(f"store i32 {value}, ptr %{name}")

    def _get(self, name: str) -> str:
        return self.set(f"load i32, ptr %{name}")

    def _table(self, loop: Loop) -> tuple[str, str]:
        """Where the integers and the numbers of a loop's rows begin."""
        start, numbers = (self._int("ints", str(self.addresses.header(loop) + i)) for i in (1, 2))
        return start, numbers

    def _row(self, loop: Loop, row: str) -> None:
        """Where a row of a loop has its numbers."""
        self.row_of_table(loop, row, *self.tables[id(loop)])

    def _find_environment(self, pitch: int, last: int) -> None:
        """Of a thread; which rows its warp has, and its queues."""
        more = self.set("sub i32 %ntid, 1")
        blocks = self.set(f"udiv i32 {self.set(f'add i32 %n_envs, {more}')}, %ntid")
        share = self.set(f"udiv i32 %ctaid, {blocks}")
        first = self.set(f"mul i32 {self.set(f'urem i32 %ctaid, {blocks}')}, %ntid")
        self.put(f"%lane = urem i32 %tid, {WARP}")
        self.put(f"%first_env = add i32 {first}, {self.set('sub i32 %tid, %lane')}")
        env, end = self.set("add i32 %first_env, %lane"), self.set("sub i32 %n_envs, 1")
        self.put(f"%there = icmp slt i32 {env}, %n_envs")
        self.put(f"%own_env = select i1 %there, i32 {env}, i32 {end}")
        at = self.set(f"mul i32 {share}, {pitch}")
        self.put(f"%own_rows = getelementptr i32, {self.pointer} @rows, i32 {at}")
        self.put(f"%n_rows = load i32, {self.pointer} %own_rows{self.fixed}")
        place = self.set(f"mul i32 {self.set(f'udiv i32 %tid, {WARP}')}, {last * ROOM}")
        self.put(f"%queues_of_warp = getelementptr i32, {SHARED} @queues, i32 {place}")

    def _begin_turn(self, last: int) -> None:
        """`%stage` is what a warp does in this turn; it leaves when all is done.

        The latest stage that all threads have an entry for, else the first, else the earliest that any has one for.
        """
        self.put("br label %turn")
        self.open("turn")
        stage, queued = "-1", [self._get(f"queued{i}") for i in range(1, last + 1)]
        for number in range(last, 0, -1):
            some = self.set(f"icmp ne i32 {queued[number - 1]}, 0")
            stage = self.set(f"select i1 {some}, i32 {number}, i32 {stage}")
        left = self.set(f"icmp slt i32 {self._get('tested')}, %n_rows")
        stage = self.set(f"select i1 {left}, i32 0, i32 {stage}")
        for number in range(1, last + 1):
            enough = self.set(f"icmp sge i32 {queued[number - 1]}, {WARP}")
            stage = self.set(f"select i1 {enough}, i32 {number}, i32 {stage}")
        self.put(f"%stage = add i32 {stage}, 0")
        self.put(f"br i1 {self.set('icmp slt i32 %stage, 0')}, label %leave, label %go_on")
        self.open("go_on")

    def _next_entry(self, last: int) -> None:
        """The row `%row` that a thread is at, and the environment `%e`: its own for a first test, else from a queue."""
        before, places, counts = self.label, ["0"], ["0"]
        for number in range(1, last + 1):
            here, own = self.set(f"icmp eq i32 %stage, {number}"), self._get(f"queued{number}")
            takes = self.set(f"select i1 {here}, i32 {self._least(own, str(WARP))}, i32 0")
            left = self.set(f"sub i32 {own}, {takes}")
            self._let(f"queued{number}", left)
            start = self.set(f"add i32 {left}, {(number - 1) * ROOM}")
            places.append(self.set(f"select i1 {here}, i32 {start}, i32 {places[-1]}"))
            counts.append(self.set(f"add i32 {counts[-1]}, {takes}"))
        self.put(f"%takes = add i32 {counts[-1]}, 0")
        self.put("%has_entry = icmp slt i32 %lane, %takes")
        self.put(f"br i1 {self.set('icmp eq i32 %stage, 0')}, label %known, label %from_queue")
        self.open("from_queue")
        own = self.set(f"add i32 {places[-1]}, {self._least('%lane', self.set('sub i32 %takes, 1'))}")
        entry = self.set(f"load i32, {self._at(SHARED, 'i32', '%queues_of_warp', own)}")
        row, lane = self.set(f"udiv i32 {entry}, {WARP}"), self.set(f"urem i32 {entry}, {WARP}")
        env = self.set(f"add i32 %first_env, {lane}")
        self.put("br label %known")
        self.open("known")
        for name, first, queued in (("taken", "0", entry), ("row", "0", row), ("e", "%own_env", env)):
            self.put(f"%{name} = phi i32 [ {first}, %{before} ], [ {queued}, %from_queue ]")

    def _first_tests(self, block: Spread, kinds: Sequence[int]) -> None:
        """The first test of a few rows."""
        loop, tested = block.tests[0], self._get("tested")
        number, rows, there = self.addresses.number_of(loop), list[str](), list[str]()
        for i in range(TOGETHER):
            at = self.set(f"add i32 {tested}, {i}")
            own = self.set(f"and i1 {self.set(f'icmp slt i32 {at}, %n_rows')}, %there")
            there.append(own)
            at = self.set(f"add i32 {at}, 1")
            rows.append(self.set(f"load i32, {self._at(self.pointer, 'i32', '%own_rows', at)}{self.fixed}"))
            self.copy = f"_{i}"
            self._row(loop, rows[-1])

        def each(case: Case) -> list[str]:
            flags = []
            for i in range(TOGETHER):
                self.copy = f"_{i}"
                self.case_of_row(number, case)
                flags.append(self._above_half(block.flag))
            return flags

        self.copy = "_0"
        flags = self._each_kind(loop, kinds, each)
        self.copy = ""
        self._let("tested", self.set(f"add i32 {tested}, {TOGETHER}"))
        found = []
        for flag, own, row in zip(flags, there, rows, strict=True):
            entry = self.set(f"add i32 {self.set(f'mul i32 {row}, {WARP}')}, %lane")
            found.append((self.set(f"and i1 {flag}, {own}"), entry))
        self._put_in_queue(1, found)

    def _next_test(self, number: int, loop: Loop, block: Spread, kinds: Sequence[int]) -> None:
        """Another test, of what has passed the one before."""

        def each(case: Case) -> list[str]:
            self.case_of_row(self.addresses.number_of(loop), case)
            return [self._above_half(block.flag)]

        (flag,) = self._each_kind(loop, kinds, each)
        self._put_in_queue(number + 1, [(self.set(f"and i1 {flag}, %has_entry"), "%taken")])

    def _work(self, block: Spread, kinds: Sequence[int], *, at_once: bool) -> None:
        """What is done with what has passed all tests."""
        if not at_once:
            self._ask_for_places(block)
        self.put("br i1 %has_entry, label %take, label %turned")
        self.open("take")

        def each(case: Case) -> list[str]:
            self.case_of_row(self.addresses.number_of(block.work), case)
            return []

        if at_once:
            self._each_kind(block.work, kinds, each)
        else:
            self._list(block)
        self.put("br label %turned")

    def _each_kind(self, loop: Loop, kinds: Sequence[int], each: Callable[[Case], list[str]]) -> list[str]:
        """What rows do, of whichever kind; what each tells."""
        labels, after = [self.fresh("case") for _ in kinds], self.fresh("after")
        if len(kinds) > 1:
            at = f"%row{self.addresses.number_of(loop)}{self.copy}"
            kind = self.set(f"load i32, {self.pointer} {at}{self.fixed}")
            targets = " ".join(f"i32 {i}, label %{label}" for i, label in zip(kinds[:-1], labels[:-1], strict=True))
            self.put(f"switch i32 {kind}, label %{labels[-1]} [ {targets} ]")
        else:
            self.put(f"br label %{labels[0]}")
        told = []
        for kind, label in zip(kinds, labels, strict=True):
            self.open(label)
            values = each(loop.cases[kind])
            told.append([(value, self.label) for value in values])
            self.put(f"br label %{after}")
        self.open(after)
        ways = (", ".join(f"[ {value}, %{label} ]" for value, label in same) for same in zip(*told, strict=True))
        return [self.set(f"phi i1 {way}") for way in ways]

    def _put_in_queue(self, number: int, found: Sequence[tuple[str, str]]) -> None:
        """Entries, where threads have chosen them."""
        count, start = self._get(f"queued{number}"), (number - 1) * ROOM
        below = self.set(f"call i32 @{BELOW}()")
        for chosen, entry in found:
            votes = self.set(f"call i32 @{BALLOT}(i32 {ALL}, i1 {chosen})")
            own = self.set(f"call i32 @{ONES}(i32 {self.set(f'and i32 {votes}, {below}')})")
            place = self.set(f"add i32 {self.set(f'add i32 {count}, {own}')}, {start}")
            put, done = self.fresh("put"), self.fresh("done")
            self.put(f"br i1 {chosen}, label %{put}, label %{done}")
            self.open(put)
            self.put(f"store i32 {entry}, {self._at(SHARED, 'i32', '%queues_of_warp', place)}")
            self.put(f"br label %{done}")
            self.open(done)
            count = self.set(f"add i32 {count}, {self.set(f'call i32 @{ONES}(i32 {votes})')}")
        self._let(f"queued{number}", count)
        self.put("br label %turned")

    def _ask_for_places(self, block: Spread) -> None:
        """One thread of a warp asks for places in a list for all of them."""
        before = self.label
        self.put(f"%kind = load i32, {self.pointer} %row{self.addresses.number_of(block.work)}{self.fixed}")
        self.put(f"br i1 {self.set('icmp eq i32 %lane, 0')}, label %ask, label %answered")
        self.open("ask")
        counter = self.set(f"getelementptr i32, {self.pointer} %memory, i32 %kind")
        place = self.set(f"atomicrmw add {self.pointer} {counter}, i32 %takes monotonic")
        self.put("br label %answered")
        self.open("answered")
        asked = self.set(f"phi i32 [ 0, %{before} ], [ {place}, %ask ]")
        first = self.set(f"call i32 @{TELL}(i32 {ALL}, i32 {asked}, i32 0, i32 31)")
        self.put(f"%place = add i32 {first}, %lane")

    def _list(self, block: Spread) -> None:
        """Put the environment and the row of a thread into the list of its kind."""
        done = self.fresh("listed")
        for kind in long_kinds(block):
            own, other = self.fresh("own"), self.fresh("other")
            self.put(f"br i1 {self.set(f'icmp eq i32 %kind, {kind}')}, label %{own}, label %{other}")
            self.open(own)
            entry = self._entry(block, kind, "%place")
            for i, value in enumerate(("%e", "%row")):
                self.put(f"store i32 {value}, {self._at(self.pointer, 'i32', entry, str(i))}")
            self.put(f"br label %{done}")
            self.open(other)
        self.put(f"br label %{done}")
        self.open(done)
