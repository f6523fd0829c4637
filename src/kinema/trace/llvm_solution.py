"""LLVM's text for equations that a team solves at once: each thread has some rows of the matrix, in registers.

Elimination goes from the last unknown to the first. A row stays as it is once its unknown is eliminated, so that in the
end each thread has what it needs to go back: what its unknown takes from those before it. Threads beyond the last row
do the same as the one that has it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .equations import Solve, Term, numbers_of_cone, whole
from .llvm_threads import TELL, LlvmThreads
from .slots import Slot

ROLLED = "!2"
"""What says that a loop stays one: the way of a team through its text is longer than what a GPU keeps of it at hand."""
FEW = 3
"""Rows of a record that are not worth a loop."""
TOGETHER = 16
"""Bytes that are read at once where they lie together."""


Row = list[str]


class Turns:
    """A loop of as many turns as a number says, which changes rows of a matrix in registers."""

    def __init__(self, text: LlvmThreads, count: str, rows: list[Row]) -> None:
        self.text, self._before, self._start = text, text.label, rows
        self._limit = text.set(f"fptosi {text.n} {count} to i32")
        self._head, body, self._done = text.fresh("turns"), text.fresh("turn"), text.fresh("done")
        text.put(f"br label %{self._head}")
        text.open(self._head)
        self._place = len(text.lines)
        self.turn = f"%{self._head}.i"
        self.rows = [[f"%{self._head}.{q}.{j}" for j in range(len(row))] for q, row in enumerate(rows)]
        """What they are when a turn begins, or after the last."""
        text.lines += [""] * (1 + sum(map(len, rows)))
        more = text.set(f"icmp slt i32 {self.turn}, {self._limit}")
        text.put(f"br i1 {more}, label %{body}, label %{self._done}")
        text.open(body)

    def end(self, rows: list[Row]) -> None:
        """What a turn has made of them."""
        text, head = self.text, self._head
        after = text.set(f"add i32 {self.turn}, 1")
        phis = [f"{self.turn} = phi i32 [ 0, %{self._before} ], [ {after}, %{text.label} ]"]
        for first, name, later in zip(self._start, self.rows, rows, strict=True):
            for a, b, c in zip(first, name, later, strict=True):
                phis.append(f"{b} = phi {text.n} [ {a}, %{self._before} ], [ {c}, %{text.label} ]")
        text.lines[self._place : self._place + len(phis)] = [f"  {phi}" for phi in phis]
        text.put(f"br label %{head}, !llvm.loop {ROLLED}")
        text.open(self._done)


class Where:
    """What is done to rows of a matrix in registers unless a number, the same for all threads, is zero."""

    def __init__(self, text: LlvmThreads, number: str, rows: list[Row]) -> None:
        self.text, self._start = text, rows
        body, self._done = text.fresh("where"), text.fresh("done")
        self._before = text.label
        any_ = text.set(f"fcmp ogt {text.n} {number}, {text.constant(0.0)}")
        text.put(f"br i1 {any_}, label %{body}, label %{self._done}")
        text.open(body)

    def end(self, rows: list[Row]) -> list[Row]:
        """The rows from then on, from what they are if it was done."""
        text, inside = self.text, self.text.label
        text.put(f"br label %{self._done}")
        text.open(self._done)
        return [
            [
                text.set(f"phi {text.n} [ {a}, %{self._before} ], [ {b}, %{inside} ]")
                for a, b in zip(old, new, strict=True)
            ]
            for old, new in zip(self._start, rows, strict=True)
        ]


@dataclass(frozen=True, slots=True)
class Unknowns:
    """What is eliminated one after the other."""

    count: int
    own: list[str]
    """Which of these a thread has."""
    places: list[str]
    """Which of all unknowns they are."""
    work: Slot
    """Room for two columns."""


@dataclass(slots=True)
class LlvmSolution:
    """One solution that is being written."""

    text: LlvmThreads
    block: Solve
    own: list[str] = field(default_factory=list)
    """Which rows a thread has."""

    def put(self) -> None:
        """All of it."""
        text, block = self.text, self.block
        n_rows = -(-block.size // text.threads)
        for q in range(n_rows):
            row = "%lane" if q == 0 else text.set(f"add i32 %lane, {q * text.threads}")
            beyond = text.set(f"icmp sgt i32 {row}, {block.size - 1}")
            self.own.append(text.set(f"select i1 {beyond}, i32 {block.size - 1}, i32 {row}"))
        rows = [self._row(i) for i in self.own]
        for term in block.terms:
            rows = self._stiffened(rows, term)
        right = [self._at(block.right, i) for i in self.own]
        unknowns = Unknowns(block.size, self.own, self.own, block.work)
        inverses = self._eliminate(unknowns, rows, right)
        found, _ = self._back(unknowns, rows, right, inverses)
        for i, x in zip(self.own, found, strict=True):
            self._store(block.result, i, x)
        text.wait()

    # ------------------------------------------------------------------------------------------------------- memory

    def _place(self, slot: Slot, index: str) -> str:
        kind, start = self.text.start_of(slot)
        return f"{kind} {self.text.set(f'getelementptr {self.text.n}, {kind} {start}, i32 {index}')}"

    def _at(self, slot: Slot, index: str) -> str:
        return self._number(self._place(slot, index))

    def _number(self, place: str) -> str:
        return self.text.set(f"load {self.text.n}, {place}, align {self.text.size}")

    def _store(self, slot: Slot, index: str, value: str) -> None:
        self.text.put(f"store {self.text.n} {value}, {self._place(slot, index)}, align {self.text.size}")

    def _together(self, slot: Slot, start: str, count: int) -> Row:
        """Numbers that lie together, the same for all threads; as many at once as can be."""
        text, found = self.text, []
        most = TOGETHER // text.size
        for i in range(0, count, most):
            here = min(most, count - i)
            if here < most:
                found += [self._at(slot, text.set(f"add i32 {start}, {i + k}")) for k in range(here)]
                continue
            place = self._place(slot, text.set(f"add i32 {start}, {i}"))
            all_ = text.set(f"load <{most} x {text.n}>, {place}, align {TOGETHER}")
            found += [text.set(f"extractelement <{most} x {text.n}> {all_}, i32 {k}") for k in range(most)]
        return found

    # ----------------------------------------------------------------------------------------------------- the matrix

    def _row(self, i: str) -> Row:
        """A row of the matrix."""
        text, block = self.text, self.block
        start, row = text.set(f"mul i32 {i}, {block.pitch}"), []
        for j in range(block.size):
            place = text.set(f"add i32 {start}, {j}")
            if block.lower:
                mirrored = text.set(f"add i32 {i}, {j * block.pitch}")
                is_below = text.set(f"icmp sge i32 {i}, {j}")
                place = text.set(f"select i1 {is_below}, i32 {place}, i32 {mirrored}")
            row.append(self._at(block.matrix, place))
        return row

    def _stiffened(self, rows: list[Row], term: Term) -> list[Row]:
        """With J^T W J of each record."""
        text, records = self.text, Turns(self.text, self.text.load(term.count, {}), rows)
        start = text.set(f"mul i32 {records.turn}, {term.width}")
        first = text.set(f"add i32 {start}, {term.levers}")
        mine = []
        for i in self.own:
            own = text.set(f"add i32 {first}, {i}")
            places = [text.set(f"add i32 {own}, {k * term.pitch}") for k in range(term.dimension)]
            mine.append([self._at(term.records, place) for place in places])
        if term.dimension == 1:  # to ask whether it matters would take as long
            records.end(self._with_row(records.rows, "0", term, start, mine))
            return records.rows
        n_rows = self._at(term.records, text.set(f"add i32 {start}, {term.rows}"))
        if term.is_cone:
            records.end(self._with_cone(records.rows, term, start, mine, n_rows))
            return records.rows
        if term.dimension > FEW:
            inner = Turns(text, n_rows, records.rows)
            inner.end(self._with_row(inner.rows, inner.turn, term, start, mine))
            records.end(inner.rows)
            return records.rows
        unless_none = Where(text, n_rows, records.rows)
        changed = records.rows
        for k in range(term.dimension):  # all of them, some of which may be zero
            changed = self._with_row(changed, str(k), term, start, mine)
        records.end(unless_none.end(changed))
        return records.rows

    def _with_cone(self, rows: list[Row], term: Term, start: str, mine: list[Row], n_rows: str) -> list[Row]:
        """With all rows of J of a cone: the first few of them, and the others where there are more."""
        text = self.text
        pushes = Where(text, n_rows, rows)
        at = text.set(f"add i32 {start}, {term.curve}")
        first, others, soft, less, bound, *outward = self._together(term.records, at, numbers_of_cone(term.dimension))
        pulled = []
        for own in mine:
            along = self._sum(list(zip(outward, own[1:], strict=True)))
            steep = text.operation("fnma", [bound, along, own[0]])
            pushed = text.set(f"fmul {text.n} {soft}, {steep}")
            aside = text.operation("neg", [text.operation("fma", [bound, pushed, self._sum([(less, along)])])])
            sides = [
                text.operation("fma", [aside, o, self._sum([(others, x)])])
                for o, x in zip(outward, own[1:], strict=True)
            ]
            pulled.append([text.operation("fma", [first, own[0], pushed]), *sides])
        changed = rows
        for k in range(min(term.dimension, FEW)):
            changed = self._with_lever(changed, str(k), term, start, [own[k] for own in pulled])
        if term.dimension > FEW:
            beyond = text.set(f"fsub {text.n} {n_rows}, {text.constant(float(FEW))}")
            more, longer = Where(text, beyond, changed), changed
            for k in range(FEW, term.dimension):
                longer = self._with_lever(longer, str(k), term, start, [own[k] for own in pulled])
            changed = more.end(longer)
        return pushes.end(changed)

    def _with_row(self, rows: list[Row], turn: str, term: Term, start: str, mine: list[Row]) -> list[Row]:
        """With one row of J: what the others, by W, and this one make of it."""
        text = self.text
        at = text.set(f"mul i32 {turn}, {whole(term.dimension)}")
        at = text.set(f"add i32 {text.set(f'add i32 {start}, {term.curve}')}, {at}")
        weights = self._together(term.records, at, term.dimension)
        pulled = [self._sum(list(zip(weights, own, strict=True))) for own in mine]
        return self._with_lever(rows, turn, term, start, pulled)

    def _with_lever(self, rows: list[Row], turn: str, term: Term, start: str, pulled: Row) -> list[Row]:
        """With what one row of J makes of what the others, by W, pull at it."""
        text = self.text
        place = text.set(f"mul i32 {turn}, {term.pitch}")
        place = text.set(f"add i32 {text.set(f'add i32 {start}, {term.levers}')}, {place}")
        return [
            [text.operation("fma", [own, x, h]) for x, h in zip(others, row, strict=True)]
            for own, row, others in zip(pulled, rows, self._of_rows(term.records, place), strict=True)
        ]

    def _of_rows(self, slot: Slot, start: str) -> list[Row]:
        """Of numbers that lie together those that a thread needs for each of its rows."""
        return [self._together(slot, start, self.block.size)] * len(self.own)

    def _sum(self, products: list[tuple[str, str]]) -> str:
        (a, b), *rest = products
        total = self.text.set(f"fmul {self.text.n} {a}, {b}")
        for c, d in rest:
            total = self.text.operation("fma", [c, d, total])
        return total

    # ---------------------------------------------------------------------------------------------------- elimination

    def _eliminate(self, unknowns: Unknowns, rows: list[Row], right: list[str]) -> list[str]:
        """From the last unknown to the first; the inverses of a thread's own pivots.

        What is added to the diagonal matters for nothing but these. Unknowns that are the second ones of threads come
        first, and then are done with.
        """
        own = [self.text.constant(0.0)] * len(rows)
        for q in reversed(range(len(rows))):
            self._eliminate_some(unknowns, q, rows, right, own)
        return own

    def _eliminate_some(
        self, unknowns: Unknowns, last: int, rows: list[Row], right: list[str], inverses: list[str]
    ) -> None:
        """Those that are the `last` one of a thread.

        It is a loop, so that its text is short. Each turn takes the last column from all others and makes it the first,
        so that the next one is where it was; after as many turns as there are columns all are in their places again.
        """
        text, block, active = self.text, self.block, range(last + 1)
        count = min(unknowns.count, (last + 1) * text.threads)
        turns = count - last * text.threads
        mosts, mores = ([self._at(slot, unknowns.places[q]) for q in active] for slot in (block.most, block.diagonal))
        start = [rows[q][:count] for q in active]
        loop = Turns(text, text.constant(float(turns)), [*start, right[: last + 1], inverses[: last + 1]])
        *now, right_now, inverses_now = loop.rows
        pivot = text.set(f"sub i32 {count - 1}, {loop.turn}")
        odd = text.set(f"mul i32 {text.set(f'and i32 {loop.turn}, 1')}, {whole(unknowns.count)}")
        found = list(inverses_now)
        for q in active:
            inverse = self._inverse(text.set(f"fadd {text.n} {now[q][-1]}, {mores[q]}"), mosts[q])
            is_pivot = text.set(f"icmp eq i32 {unknowns.own[q]}, {pivot}")
            found[q] = text.set(f"select i1 {is_pivot}, {text.n} {inverse}, {text.n} {found[q]}")
            goes_on = text.set(f"icmp slt i32 {unknowns.own[q]}, {pivot}")
            entry = text.set(f"select i1 {goes_on}, {text.n} {now[q][-1]}, {text.n} {text.constant(0.0)}")
            told = text.set(f"select i1 {is_pivot}, {text.n} {inverse}, {text.n} {entry}")
            place = text.set(f"add i32 {unknowns.own[q]}, {loop.turn}")
            beyond = text.set(f"icmp sge i32 {place}, {count}")
            place = text.set(f"select i1 {beyond}, i32 {text.set(f'sub i32 {place}, {count}')}, i32 {place}")
            self._store(unknowns.work, text.set(f"add i32 {place}, {odd}"), told)  # the other may still be read
        text.wait()
        *taken, inverse = self._together(unknowns.work, odd, count)
        its = text.passed(right_now[last], text.set(f"sub i32 {pivot}, {last * text.threads}"), TELL)
        after, right_after = [], []
        for q in active:
            share = text.set(f"fmul {text.n} {now[q][-1]}, {inverse}")
            goes_on = text.set(f"icmp slt i32 {unknowns.own[q]}, {pivot}")
            factor = text.set(f"select i1 {goes_on}, {text.n} {share}, {text.n} {text.constant(0.0)}")
            less = text.operation("neg", [factor])
            others = [
                text.operation("fma", [less, x, own]) for x, own in reversed([*zip(taken, now[q][:-1], strict=True)])
            ]
            after.append([now[q][-1], *reversed(others)])
            right_after.append(text.operation("fma", [less, its, right_now[q]]))
        loop.end([*after, right_after, found])
        for q in active:
            row = loop.rows[q]
            rows[q][:count] = [*row[turns:], *row[:turns]]
        right[: last + 1], inverses[: last + 1] = loop.rows[-2:]

    def _inverse(self, pivot: str, most: str) -> str:
        text = self.text
        large = text.set(f"fmul {text.n} {most}, {pivot}")
        enough = text.set(f"fcmp ogt {text.n} {large}, {text.constant(1.0)}")
        inverse = text.operation("reciprocal", [pivot])
        return text.set(f"select i1 {enough}, {text.n} {inverse}, {text.n} {most}")

    def _back(
        self, unknowns: Unknowns, rows: list[Row], right: list[str], inverses: list[str]
    ) -> tuple[list[str], list[str]]:
        """From the first unknown to the last: those that a thread has, and all of them."""
        text, left, found = self.text, list(right), [self.text.constant(0.0)] * len(rows)
        every = []
        for k in range(unknowns.count):
            last = k // text.threads
            own = text.set(f"fmul {text.n} {left[last]}, {inverses[last]}")
            x = text.passed(own, k % text.threads, TELL)
            every.append(x)
            less = text.operation("neg", [x])
            for q, (i, row) in enumerate(zip(unknowns.own, rows, strict=True)):
                if q < last:  # it is known already
                    continue
                here = text.set(f"icmp eq i32 {i}, {k}")
                found[q] = text.set(f"select i1 {here}, {text.n} {x}, {text.n} {found[q]}")
                left[q] = text.operation("fma", [less, row[k], left[q]])
        return found, every
