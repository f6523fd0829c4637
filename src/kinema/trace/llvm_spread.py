"""LLVM's text for what all threads of a GPU share: rows of which few have anything to do in an environment.

First rows are tested, and what is short is done at once (`llvm_queues.py`). What is long, a search perhaps, goes into a
list of its kind: as many threads as fit go through these lists in launches of their own. The order of entries differs
from run to run; what is done for a row of an environment does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from .blocks import Blocks, Count, Line, Loop, Repeat, Spread, inner
from .conventions import N_ENTRY
from .equations import Next
from .llvm_blocks import LlvmBlocks
from .llvm_memory import WARP

LONG = 2000
"""Instructions beyond which work is long."""
OVERHEAD = 50
"""Instructions beside what a row says."""
OFTEN = (1.0, 0.2, 0.03)
"""How often a row comes to its first test, the others, and its work, about."""
FEWEST = 8
"""Threads of a warp that go through a list, where there are fewer entries than warps."""


def long_kinds(block: Spread) -> list[int]:
    """Kinds of rows with much to do, or nobody knows how much: one thread may take far longer than others."""
    return [i for i, case in enumerate(block.work.cases) if _most_work(case.blocks) > LONG]


def short_kinds(block: Spread) -> list[int]:
    """All others."""
    long = long_kinds(block)
    return [i for i in range(len(block.work.cases)) if i not in long]


def shares(block: Spread, kinds: Sequence[int], count: int) -> list[list[int]]:
    """Which rows each warp tests: of one kind, and with about as much to do; so many of them, but one of each kind."""
    of_row = block.work.case_of_row().tolist()
    rows = {kind: [row for row, own in enumerate(of_row) if own == kind] for kind in kinds}
    work = {kind: len(rows[kind]) * _usual_work(block, kind) for kind in kinds}
    each = sum(work.values()) / max(count, 1)
    found = []
    for kind in kinds:
        own = max(1, min(round(work[kind] / each), len(rows[kind])))
        found += [rows[kind][i::own] for i in range(own)]
    return found


def n_listed(block: Spread) -> int:
    """Rows of one environment that may be in lists."""
    return int(sum((block.work.case_of_row() == kind).sum() for kind in long_kinds(block)))


def _most_work(blocks: Blocks) -> float:
    """Instructions that blocks may take."""
    total = 0.0
    for block in blocks:
        turns = 1 if not isinstance(block, Loop | Count | Repeat) else getattr(block, "most", None) or inf
        own = len(block.instructions) if isinstance(block, Line) else 0
        total += own + turns * sum(map(_most_work, inner(block)))
    return total


def _usual_work(block: Spread, kind: int) -> float:
    """Instructions that a row takes, about."""
    found = 0.0
    for i, loop in enumerate(block.loops):
        often = OFTEN[-1] if loop is block.work else OFTEN[min(i, 1)]
        found += often * (OVERHEAD + min(_most_work(loop.cases[kind].blocks), LONG))
    return found


class LlvmSpread(LlvmBlocks):
    """A kernel that is being written; `%memory` has how long the lists are, then the lists."""

    def _entry(self, block: Spread, kind: int, at: str) -> str:
        """Where an entry of a list is."""
        kinds, long = block.work.case_of_row(), long_kinds(block)
        before = int(sum((kinds == own).sum() for own in long if own < kind))
        wide, stride = self.set(f"sext i32 {at} to i64"), self.set("sext i32 %stride to i64")
        start = self.set(f"add i64 {len(block.work.cases)}, {self.set(f'mul i64 {stride}, {N_ENTRY * before}')}")
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
