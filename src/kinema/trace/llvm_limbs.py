"""LLVM's text for equations of limbs on a trunk: what has nothing to do with each other is eliminated at once.

A thread has an unknown of a limb: in registers the entries of its row in the columns of its own limb and of the trunk;
it has no others. From the last unknowns of all limbs to their first ones, each limb eliminates one at a time, as many
times as the longest has any. Then all threads share what limbs make of the trunk, which is eliminated like any other
system of equations, and limbs go back all at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .equations import Limbs, Solve
from .llvm_solution import TOGETHER, LlvmSolution, Row, Turns, Unknowns
from .llvm_threads import TELL, LlvmThreads
from .slots import Slot


@dataclass(frozen=True, slots=True)
class Run:
    """Threads in a row that have what lies in a row."""

    lane: int
    first: int
    """What the first of them has."""
    size: int


class LlvmLimbs(LlvmSolution):
    """One solution that is being written."""

    def __init__(self, text: LlvmThreads, block: Solve) -> None:
        super().__init__(text, block)
        assert block.limbs is not None
        self.limbs: Limbs = block.limbs
        self.n, self.longest = len(self.limbs.trunk), self.limbs.longest
        self.together = self.limbs.n_limbs + self.n <= text.threads
        """Whether no thread has both a row of a limb and one of the trunk."""
        self.runs = []
        for first, size in self.limbs.parts:
            self.runs.append(Run(sum(run.size for run in self.runs), first, size))
        self.pitch, self.trunk_pitch = self.limbs.pitches(text.threads)
        start = block.work.item + self.limbs.n_limbs * self.pitch
        self.rows_of_trunk = Slot(block.work.array, start)
        self.columns_of_trunk = Slot(block.work.array, start + self.n * self.trunk_pitch)

    def put(self) -> None:
        """All of it."""
        self._find_places()
        rows = [self._row_of(q) for q in range(len(self.own))]
        for term in self.block.terms:
            rows = self._stiffened(rows, term)
        right = [self._at(self.block.right, i) for i in self.own]
        limb = self._only_own(rows[0])
        inverse = self._eliminate_limbs(limb, right)
        self._add_up(self._trunk_of(rows[-1]), right[-1])
        every = self._solve_trunk()
        self._back_to_limbs(limb, right[0], inverse, every)
        self.text.wait()

    # ------------------------------------------------------------------------------------------------- who has what

    def _find_places(self) -> None:
        """Which rows a thread has, which limb that is of, and who has the others of that."""
        text, n_limbs = self.text, self.limbs.n_limbs
        trunk = self._trunk_runs(n_limbs if self.together else 0)
        runs = [*self.runs, *(trunk if self.together else ())]
        lane = self._least("%lane", sum(run.size for run in runs) - 1)
        self.own = [self._along(lane, runs)]
        if not self.together:
            self.own.append(self._along(self._least("%lane", self.n - 1), trunk))
        self.trunk_lane = text.set(f"sub i32 {lane}, {n_limbs}") if self.together else self._least("%lane", self.n - 1)
        self.is_limb = text.set(f"icmp slt i32 {lane}, {n_limbs}")
        self.start = self._of_limb(lane, lambda run: run.lane)
        self.first = self._of_limb(lane, lambda run: run.first)
        size = self._of_limb(lane, lambda run: run.size)
        self.size = text.set(f"select i1 {self.is_limb}, i32 {size}, i32 0")
        local = text.set(f"sub i32 {lane}, {self.start}")
        self.local = text.set(f"select i1 {self.is_limb}, i32 {local}, i32 {self.longest}")
        self.lane = lane
        longest = next(run for run in self.runs if run.size == self.longest)
        self.mates = []
        """Threads of the unknowns of the same limb; of the longest one where it has none."""
        for k in range(self.longest):
            mate = text.set(f"add i32 {self.start}, {k}")
            there = text.set(f"icmp sgt i32 {self.size}, {k}")
            self.mates.append(text.set(f"select i1 {there}, i32 {mate}, i32 {longest.lane + k}"))

    def _trunk_runs(self, lane: int) -> list[Run]:
        runs: list[Run] = []
        for i, place in enumerate(self.limbs.trunk):
            if runs and runs[-1].first + runs[-1].size == place:
                runs[-1] = Run(runs[-1].lane, runs[-1].first, runs[-1].size + 1)
            else:
                runs.append(Run(lane + i, place, 1))
        return runs

    def _least(self, a: str, b: int) -> str:
        less = self.text.set(f"icmp slt i32 {a}, {b}")
        return self.text.set(f"select i1 {less}, i32 {a}, i32 {b}")

    def _along(self, lane: str, runs: Sequence[Run]) -> str:
        """What a thread has."""
        return self.text.set(f"add i32 {lane}, {self._of_run(lane, runs, lambda run: run.first - run.lane)}")

    def _of_limb(self, lane: str, number: Callable[[Run], int]) -> str:
        return self._of_run(lane, self.runs, number)

    def _of_run(self, lane: str, runs: Sequence[Run], number: Callable[[Run], int]) -> str:
        """A number of the run that a thread is in."""
        found = str(number(runs[-1]))
        for run in reversed(runs[:-1]):
            if str(number(run)) != found:
                before = self.text.set(f"icmp slt i32 {lane}, {run.lane + run.size}")
                found = self.text.set(f"select i1 {before}, i32 {number(run)}, i32 {found}")
        return found

    # ----------------------------------------------------------------------------------------------------- the matrix

    def _limb_columns(self) -> list[str]:
        """Which columns those of a thread's limb are; where it is shorter than others, any."""
        beyond = self.block.size - 1
        found = []
        for k in range(self.longest):
            column = self.text.set(f"add i32 {self.first}, {k}") if k else self.first
            found.append(self._least(column, beyond) if max(r.first for r in self.runs) + k > beyond else column)
        return found

    def _row_of(self, q: int) -> Row:
        """Entries of a row: in the columns of its limb, and of the trunk."""
        columns = [*(self._limb_columns() if q == 0 else ()), *map(str, self.limbs.trunk)]
        return [self._entry(self.own[q], column) for column in columns]

    def _entry(self, i: str, j: str) -> str:
        text, pitch = self.text, self.block.pitch
        place = text.set(f"add i32 {text.set(f'mul i32 {i}, {pitch}')}, {j}")
        if self.block.lower:
            mirrored = text.set(f"add i32 {i}, {text.set(f'mul i32 {j}, {pitch}')}")
            is_below = text.set(f"icmp sge i32 {i}, {j}")
            place = text.set(f"select i1 {is_below}, i32 {place}, i32 {mirrored}")
        return self._at(self.block.matrix, place)

    def _of_rows(self, slot: Slot, start: str) -> list[Row]:
        text = self.text
        limb = [self._at(slot, text.set(f"add i32 {start}, {column}")) for column in self._limb_columns()]
        trunk: Row = []
        for run in self._trunk_runs(0):
            trunk += self._run(slot, start, run)
        return [[*limb, *trunk], trunk][: len(self.own)]

    def _run(self, slot: Slot, start: str, run: Run) -> Row:
        """Numbers of a run: one by one until they lie where several are read at once."""
        most = TOGETHER // self.text.size
        alone = min(-run.first % most, run.size)
        places = [self.text.set(f"add i32 {start}, {run.first + i}") for i in range(alone)]
        rest = self.text.set(f"add i32 {start}, {run.first + alone}")
        return [*(self._at(slot, place) for place in places), *self._together(slot, rest, run.size - alone)]

    def _only_own(self, row: Row) -> Row:
        """Nothing in columns that a limb has not."""
        text, found = self.text, list(row)
        for k in range(min(run.size for run in self.runs), self.longest):
            there = text.set(f"icmp sgt i32 {self.size}, {k}")
            found[k] = text.set(f"select i1 {there}, {text.n} {row[k]}, {text.n} {text.constant(0.0)}")
        return found

    def _trunk_of(self, row: Row) -> Row:
        return row[len(row) - self.n :]

    # ---------------------------------------------------------------------------------------------------------- limbs

    def _eliminate_limbs(self, row: Row, right: list[str]) -> str:
        """From the last unknowns to the first ones; the inverse of a thread's own pivot.

        What others need of a row goes to memory once it is final: its entries in the columns of the trunk, the right-
        hand side, the inverse, and its other entries.
        """
        text, block, n = self.text, self.block, self.n
        most, more = self._at(block.most, self.own[0]), self._at(block.diagonal, self.own[0])
        own = text.constant(0.0)
        for k in reversed(range(self.longest)):
            inverse = self._inverse(text.set(f"fadd {text.n} {row[k]}, {more}"), most)
            is_last = text.set(f"icmp eq i32 {self.local}, {k}")
            own = text.set(f"select i1 {is_last}, {text.n} {inverse}, {text.n} {own}")
            place = text.set(f"mul i32 {self.lane}, {self.pitch}")
            kept = [*self._trunk_of(row), right[0], inverse, *row[:k]]
            self._where(is_last, lambda at=place, kept=kept: self._keep(at, kept))
            text.wait()
            if k == 0:
                break
            mate = text.set(f"mul i32 {self.mates[k]}, {self.pitch}")
            its = self._together(block.work, mate, n + 2 + k)
            below = text.set(f"icmp slt i32 {self.local}, {k}")
            goes_on = text.set(f"and i1 {below}, {text.set(f'icmp sgt i32 {self.size}, {k}')}")
            share = text.set(f"fmul {text.n} {row[k]}, {its[n + 1]}")
            factor = text.set(f"select i1 {goes_on}, {text.n} {share}, {text.n} {text.constant(0.0)}")
            less = text.operation("neg", [factor])
            for j in range(k):
                row[j] = text.operation("fma", [less, its[n + 2 + j], row[j]])
            for j in range(n):
                row[self.longest + j] = text.operation("fma", [less, its[j], row[self.longest + j]])
            right[0] = text.operation("fma", [less, its[n], right[0]])
        return own

    def _back_to_limbs(self, row: Row, right: str, inverse: str, every: Sequence[str]) -> None:
        """From what the trunk does."""
        text, left, found = self.text, right, self.text.constant(0.0)
        for entry, x in zip(self._trunk_of(row), every, strict=True):
            left = text.operation("fnma", [x, entry, left])
        for k in range(self.longest):
            own = text.set(f"fmul {text.n} {left}, {inverse}")
            x = text.passed(own, self.mates[k], TELL)
            here = text.set(f"icmp eq i32 {self.local}, {k}")
            found = text.set(f"select i1 {here}, {text.n} {x}, {text.n} {found}")
            left = text.operation("fnma", [x, row[k], left])
        self._where(self.is_limb, lambda: self._store(self.block.result, self.own[0], found))

    # ---------------------------------------------------------------------------------------------------------- trunk

    def _add_up(self, row: Row, right: str) -> None:
        """The rows of the trunk, less what limbs make of them: threads share the columns of a row."""
        text, block = self.text, self.block
        at = text.set(f"mul i32 {self.trunk_lane}, {self.trunk_pitch}")

        def keep() -> None:
            self._keep(at, [*row, right], self.rows_of_trunk)

        if self.together:
            self._where(text.set(f"xor i1 {self.is_limb}, true"), keep)
        else:
            keep()
        text.wait()
        share, columns = self.limbs.columns(text.threads)
        mine, group = text.set(f"urem i32 %lane, {self.n}"), text.set(f"udiv i32 %lane, {self.n}")
        first = text.set(f"mul i32 {self._least(group, share - 1)}, {columns}")
        place = text.set(f"add i32 {text.set(f'mul i32 {mine}, {self.trunk_pitch}')}, {first}")
        before = self._together(self.rows_of_trunk, place, columns)
        turns = Turns(text, text.constant(float(self.limbs.n_limbs)), [before])
        start = text.set(f"mul i32 {turns.turn}, {self.pitch}")
        entry = self._at(block.work, text.set(f"add i32 {start}, {mine}"))
        inverse = self._at(block.work, text.set(f"add i32 {start}, {self.n + 1}"))
        less = text.operation("neg", [text.set(f"fmul {text.n} {entry}, {inverse}")])
        its = self._together(block.work, text.set(f"add i32 {start}, {first}"), columns)
        turns.end([[text.operation("fma", [less, x, own]) for x, own in zip(its, turns.rows[0], strict=True)]])
        text.wait()
        there = text.set(f"icmp slt i32 {group}, {share}")
        self._where(there, lambda: self._keep(place, turns.rows[0], self.rows_of_trunk))
        text.wait()

    def _solve_trunk(self) -> list[str]:
        """All unknowns of the trunk."""
        text, n = self.text, self.n
        lane = self._least("%lane", n - 1)
        row = self._together(self.rows_of_trunk, text.set(f"mul i32 {lane}, {self.trunk_pitch}"), n + 1)
        place = self._along(lane, self._trunk_runs(0))
        unknowns = Unknowns(n, [lane], [place], self.columns_of_trunk)
        rows, right = [row[:n]], row[n:]
        inverses = self._eliminate(unknowns, rows, right)
        found, every = self._back(unknowns, rows, right, inverses)
        self._store(self.block.result, place, found[0])
        return every

    # ------------------------------------------------------------------------------------------------------- memory

    def _where(self, condition: str, then: Callable[[], None]) -> None:
        """Something that only some threads store."""
        text, body, done = self.text, self.text.fresh("some"), self.text.fresh("done")
        text.put(f"br i1 {condition}, label %{body}, label %{done}")
        text.open(body)
        then()
        text.put(f"br label %{done}")
        text.open(done)

    def _keep(self, place: str, values: Sequence[str], slot: Slot | None = None) -> None:
        """Numbers, as many at once as can be."""
        text, slot = self.text, self.block.work if slot is None else slot
        most = TOGETHER // text.size
        for i in range(0, len(values), most):
            here, at = values[i : i + most], text.set(f"add i32 {place}, {i}")
            if len(here) < most:
                for j, value in enumerate(here):
                    self._store(slot, text.set(f"add i32 {at}, {j}"), value)
                continue
            vector = "poison"
            for j, value in enumerate(here):
                vector = text.set(f"insertelement <{most} x {text.n}> {vector}, {text.n} {value}, i32 {j}")
            text.put(f"store <{most} x {text.n}> {vector}, {self._place(slot, at)}, align {TOGETHER}")
