"""LLVM's text for what all threads of a GPU share: rows of which few have anything to do in an environment.

First it is tested, for each environment and row, whether there is anything to do; where there is, both numbers go into
a list of the row's kind. Then as many threads as fit go through these lists: those of a warp do the same, whatever the
environments are. The order of a list differs from run to run; what is done for a row of an environment does not.
"""

from __future__ import annotations

from .blocks import Spread
from .equations import Next
from .llvm_blocks import LlvmBlocks
from .llvm_memory import WARP
from .llvm_threads import ONES, TELL

BALLOT, BELOW = "llvm.nvvm.vote.ballot.sync", "llvm.nvvm.read.ptx.sreg.lanemask.lt"
SHARES = 16
"""Threads to an environment that test its rows."""
FEWEST = 8
"""Threads of a warp that go through a list, where there are fewer entries than warps."""
N_ENTRY = 2
"""Integers of an entry of a list: environment and row."""
ALL = -1
DECLARATIONS = (
    f"declare i32 @{BALLOT}(i32, i1)",
    f"declare i32 @{BELOW}()",
    f"declare i32 @{ONES}(i32)",
    f"declare i32 @{TELL}(i32, i32, i32, i32)",
)


class LlvmSpread(LlvmBlocks):
    """A kernel that is being written; `%memory` has how long the lists are, then the lists."""

    def tests(self, block: Spread) -> None:
        """Each environment, and a share of the rows."""
        more = self.set("sub i32 %ntid, 1")
        blocks = self.set(f"udiv i32 {self.set(f'add i32 %n_envs, {more}')}, %ntid")
        share = self.set(f"udiv i32 %ctaid, {blocks}")
        first = self.set(f"mul i32 {self.set(f'urem i32 %ctaid, {blocks}')}, %ntid")
        env, last = self.set(f"add i32 {first}, %tid"), self.set("sub i32 %n_envs, 1")
        there = self.set(f"icmp slt i32 {env}, %n_envs")
        self.put(f"%e = select i1 {there}, i32 {env}, i32 {last}")
        self.point("%e")
        loop, number = block.test, self.addresses.number_of(block.test)
        start, numbers = (self._int("ints", str(self.addresses.header(loop) + i)) for i in (1, 2))
        turns = self.set(f"sub i32 {len(loop.ints) + SHARES - 1}, {share}")
        rounds, turn = self.begin("0", self.set(f"udiv i32 {turns}, {SHARES}"))
        row = self.set(f"add i32 {share}, {self.set(f'mul i32 {turn}, {SHARES}')}")
        self.row_of_table(loop, row, start, numbers)
        after, labels = self.fresh("after"), [self.fresh("case") for _ in loop.cases]
        if len(labels) > 1:
            kind = self.set(f"load i32, {self.pointer} %row{number}{self.fixed}")
            targets = " ".join(f"i32 {i}, label %{label}" for i, label in enumerate(labels[:-1]))
            self.put(f"switch i32 {kind}, label %{labels[-1]} [ {targets} ]")
        else:
            self.put(f"br label %{labels[0]}")
        for i, (case, label) in enumerate(zip(loop.cases, labels, strict=True)):
            self.open(label)
            self.case_of_row(number, case)
            chosen = self.set(f"and i1 {there}, {self._above_half(block.flag)}")
            self._list(block, i, row, chosen)
            self.put(f"br label %{after}")
        self.open(after)
        self.end(rounds)

    def _list(self, block: Spread, case: int, row: str, chosen: str) -> None:
        """Add to a list what the threads of a warp have chosen: one of them asks for the places of all."""
        votes = self.set(f"call i32 @{BALLOT}(i32 {ALL}, i1 {chosen})")
        some, ask, told, put, done = (self.fresh(word) for word in ("some", "ask", "told", "put", "done"))
        self.put(f"br i1 {self.set(f'icmp ne i32 {votes}, 0')}, label %{some}, label %{done}")
        self.open(some)
        lane, count = self.set("urem i32 %tid, 32"), self.set(f"call i32 @{ONES}(i32 {votes})")
        self.put(f"br i1 {self.set(f'icmp eq i32 {lane}, 0')}, label %{ask}, label %{told}")
        self.open(ask)
        counter = self.set(f"getelementptr i32, {self.pointer} %memory, i32 {case}")
        place = self.set(f"atomicrmw add {self.pointer} {counter}, i32 {count} monotonic")
        self.put(f"br label %{told}")
        self.open(told)
        asked = self.set(f"phi i32 [ 0, %{some} ], [ {place}, %{ask} ]")
        first = self.set(f"call i32 @{TELL}(i32 {ALL}, i32 {asked}, i32 0, i32 31)")
        below = self.set(f"and i32 {votes}, {self.set(f'call i32 @{BELOW}()')}")
        at = self.set(f"add i32 {first}, {self.set(f'call i32 @{ONES}(i32 {below})')}")
        self.put(f"br i1 {chosen}, label %{put}, label %{done}")
        self.open(put)
        entry = self._entry(block, case, at)
        for i, value in enumerate(("%e", row)):
            self.put(f"store i32 {value}, {self._at(self.pointer, 'i32', entry, str(i))}")
        self.put(f"br label %{done}")
        self.open(done)

    def _entry(self, block: Spread, case: int, at: str) -> str:
        """Where an entry of a list is."""
        kinds = block.test.case_of_row()
        before = int((kinds < case).sum())
        wide, stride = self.set(f"sext i32 {at} to i64"), self.set("sext i32 %stride to i64")
        start = self.set(f"add i64 {len(block.test.cases)}, {self.set(f'mul i64 {stride}, {N_ENTRY * before}')}")
        index = self.set(f"add i64 {start}, {self.set(f'mul i64 {wide}, {N_ENTRY}')}")
        return self.set(f"getelementptr i32, {self.pointer} %memory, i64 {index}")

    def work(self, block: Spread, case: int) -> None:
        """What there is to do of one kind: `%steps` says how many blocks of threads there are."""
        loop = block.work
        start, numbers = (self._int("ints", str(self.addresses.header(loop) + i)) for i in (1, 2))
        counter = self.set(f"getelementptr i32, {self.pointer} %memory, i32 {case}")
        count = self.set(f"load i32, {self.pointer} {counter}")
        first, pace = self._thinly(count)
        before = self.label
        head, body, done = self.fresh("entries"), self.fresh("entry"), self.fresh("done")
        self.put(f"br label %{head}")
        self.open(head)
        place = len(self.lines)
        self.put("")
        self.put(f"br i1 {self.set(f'icmp slt i32 %{head}.i, {count}')}, label %{body}, label %{done}")
        self.open(body)
        entry = self._entry(block, case, f"%{head}.i")
        env, row = (self.set(f"load i32, {self._at(self.pointer, 'i32', entry, str(i))}") for i in range(N_ENTRY))
        self.point(env)
        self.row_of_table(loop, row, start, numbers)
        self.case_of_row(self.addresses.number_of(loop), loop.cases[case])
        after = self.set(f"add i32 %{head}.i, {pace}")
        self.lines[place] = f"  %{head}.i = phi i32 [ {first}, %{before} ], [ {after}, %{self.label} ]"
        self.put(f"br label %{head}")
        self.open(done)

    def _thinly(self, count: str) -> tuple[str, str]:
        """Which entry a thread begins with, and how far it is to its next one: as few threads of a warp as can be.

        Each warp waits for all that its threads do, one after the other where their ways part; most often there are
        fewer entries than warps.
        """
        number = self.set(f"add i32 {self.set('mul i32 %ctaid, %ntid')}, %tid")
        threads = self.set("mul i32 %steps, %ntid")
        warps = self._most("1", self.set(f"udiv i32 {threads}, {WARP}"))
        warp, lane = self.set(f"udiv i32 {number}, {WARP}"), self.set(f"urem i32 {number}, {WARP}")
        full = self.set(f"add i32 {count}, {self.set(f'sub i32 {warps}, 1')}")
        each = self._least(
            self._most(str(FEWEST), self.set(f"udiv i32 {full}, {warps}")), self._least(str(WARP), threads)
        )
        works = self.set(
            f"and i1 {self.set(f'icmp slt i32 {lane}, {each}')}, {self.set(f'icmp slt i32 {warp}, {warps}')}"
        )
        first = self.set(f"add i32 {self.set(f'mul i32 {warp}, {each}')}, {lane}")
        return self.set(f"select i1 {works}, i32 {first}, i32 {count}"), self.set(f"mul i32 {warps}, {each}")

    def _most(self, a: str, b: str) -> str:
        return self.set(f"select i1 {self.set(f'icmp slt i32 {a}, {b}')}, i32 {b}, i32 {a}")

    def _least(self, a: str, b: str) -> str:
        return self.set(f"select i1 {self.set(f'icmp slt i32 {a}, {b}')}, i32 {a}, i32 {b}")

    def _next(self, block: Next) -> None:
        """Others may take numbers of the same environment at the same time."""
        one = f"{self.n} {self.constant(1.0)}"
        number = self.set(f"atomicrmw fadd {self._pointer(block.counter, None)}, {one} monotonic")
        self.store(block.to, number, {})
