"""Rows of several degrees of freedom each, by a team: loops that are closed, couplings, tendons.

A thread has a row, with its Jacobian over all degrees of freedom: as of contacts, and nobody waits for a table. What a
row may do lies between two bounds, as it does of rows of single joints.
"""

from __future__ import annotations

from collections.abc import Sequence

from kinema.trace import SCRATCH, Place, Row, RowCode, Slot, Term, Value, whole

from ..sweeps.maths import dot
from ..sweeps.quantities import Quantity
from ..sweeps.sweeps import Sweeps
from .own_rows import OwnRow, bounds_of
from .rows import Rows

OfDofs = Quantity[list[Value]]
RESIDUAL, STIFFNESS, LOW, HIGH, CHANGE, FORCE, COUNT, LEVERS = range(8)
"""Where the numbers of a row are in its record: what is missing, how hard it is, the bounds of its force, how what is
missing changes along a search, what it pushes, and that it is one; its Jacobian comes after its curvature."""
MOST_NUMBERS = 2048
"""Of all records: what there is room for beside the rest near at hand."""


class WideRows:
    """All rows that are not to hold at the end of a step, of no joint that can break: `rest` are others."""

    def __init__(self, s: Sweeps, rows: Rows) -> None:
        self.s = s
        self.position = {dof: i for i, dof in enumerate(d for node in s.nodes for d in node.dofs)}
        self.n_dofs = len(self.position)
        self.curve = whole(LEVERS)
        self.levers = self.curve + whole(1)
        width = self.levers + whole(self.n_dofs)
        self.width = width if width % 8 else width + 4
        """An odd multiple of four: neighbours are in other banks of memory."""
        chosen = [not block.hard and block.holder < 0 for block in rows.blocks]
        count = sum(block.n_rows for block, own in zip(rows.blocks, chosen, strict=True) if own)
        if count * self.width > MOST_NUMBERS:
            chosen, count = [False] * len(chosen), 0
        self.all = rows
        self.numbers = [i for i, own in enumerate(chosen) if own]
        kept = [(b, p) for b, p, own in zip(rows.blocks, rows.places, chosen, strict=True) if not own]
        self.rest = Rows(s, [b for b, _ in kept], [p for _, p in kept])
        self.count = count
        self.records = s.take(count * self.width).row if count else -1

    def fill(self, free: OfDofs) -> None:
        """What is missing while nothing pushes, and the rest."""
        recorder, table, at = self.s.recorder, [], self.records
        if not self.count:
            return

        def none(turn: Value) -> list[Value]:
            recorder.write(SCRATCH, [0.0], self.records, turn)
            return []

        recorder.share("no rows of several joints yet", float(self.count * self.width), none)
        for number in self.numbers:
            block, places = self.all.blocks[number], self.all.places[number]
            bound = self.all.own_places(block).get("bound")
            for r in range(block.n_rows):
                own = {name: Place(SCRATCH, places[name].row + r) for name in ("wanted", "stiffness")}
                own |= {} if bound is None else {"own bound": bound}
                own |= {"to": Place(SCRATCH, at)}
                table.append(Row((block.law, bound is not None), own, {"bound": [block.bound]}))
                for dof in block.dofs:
                    to = Place(SCRATCH, at + self.levers + self.position[dof])
                    table.append(Row("entry", {"from": self.all.entry(number, r, dof), "to": to}))
                at += self.width
        self.s.loop("rows of several joints", table, _fill)

        first = self.s.start_of(free)
        gained = [recorder.read(SCRATCH, first + i) for i in range(self.n_dofs)]

        def miss(turn: Value) -> list[Value]:
            self._put(turn, RESIDUAL, self._get(turn, RESIDUAL) + self._seen(turn, gained))
            return []

        recorder.share("what rows of several joints miss", float(self.count), miss)

    # ------------------------------------------------------------------------------------------- one row, by its turn

    def _get(self, turn: Value, item: int) -> Value:
        return self.s.recorder.read(SCRATCH, self.records + item, turn * float(self.width))

    def _put(self, turn: Value, item: int, value: Value) -> None:
        self.s.recorder.write(SCRATCH, [value], self.records + item, turn * float(self.width))

    def _seen(self, turn: Value, motion: Sequence[Value]) -> Value:
        """A motion, as a row sees it."""
        return dot([self._get(turn, self.levers + i) for i in range(self.n_dofs)], motion)

    def _row(self, turn: Value) -> OwnRow:
        return OwnRow(*(self._get(turn, item) for item in (RESIDUAL, STIFFNESS, LOW, HIGH, CHANGE)))

    def see(self, turn: Value, along: Sequence[Value]) -> None:
        """How what is missing changes along a direction."""
        self._put(turn, CHANGE, self._seen(turn, along))

    def slopes(self, turn: Value, length: Value) -> tuple[Value, Value]:
        """The slope of its cost along the direction, and how that changes."""
        return self._row(turn).slopes(1.0, length)

    def changed(self, turn: Value, length: Value) -> Value:
        """Whether it starts or stops to push, or slides."""
        return self._row(turn).changed(1.0, length)

    def cost(self, turn: Value, length: Value) -> Value:
        """What it costs somewhere along the direction."""
        row = self._row(turn)
        return row.cost(row.moved(1.0, length))

    def advance(self, turn: Value, length: Value) -> None:
        """Go along the direction, and push there."""
        row = self._row(turn)
        moved = row.moved(1.0, length)
        self._put(turn, RESIDUAL, moved)
        self._push(turn, row, moved)

    def push(self, turn: Value) -> None:
        """It keeps its force, and its curvature for the matrix."""
        row = self._row(turn)
        self._push(turn, row, row.residual)

    def _push(self, turn: Value, row: OwnRow, residual: Value) -> None:
        force, stiff = row.push(residual)
        self._put(turn, FORCE, force)
        self._put(turn, self.curve, stiff)

    # ----------------------------------------------------------------------------------------------------- to joints

    def pulled(self, dof: Value) -> Value:
        """What all rows do to a degree of freedom."""
        recorder, sums = self.s.recorder, self.s.recorder.local(1)
        recorder.write(sums, [0.0])

        def one(turn: Value) -> None:
            lever = recorder.read(SCRATCH, self.records + self.levers, turn * float(self.width) + dof)
            recorder.write(sums, [recorder.read(sums) + self._get(turn, FORCE) * lever])

        recorder.count("rows of several joints", float(self.count), one)
        return recorder.read(sums)

    def terms(self) -> tuple[Term, ...]:
        """What they add to a matrix over degrees of freedom."""
        if not self.count:
            return ()
        number = self.s.take_fixed(1)
        self.s.recorder.write(SCRATCH, [float(self.count)], number.row)
        self.s.recorder.new_line()
        records, count = Slot(SCRATCH, self.records), Slot(SCRATCH, number.row)
        return (Term(records, self.width, count, 1, COUNT, self.curve, self.levers, whole(self.n_dofs)),)


def _fill(code: RowCode) -> None:
    if code.kind == "entry":
        code.write("to", [code.read("from")])
        return
    law, differs = code.kind  # type: ignore[misc]
    bound = code.read("own bound") if differs else code.number("bound")
    code.write("to", [-code.read("wanted"), code.read("stiffness"), *bounds_of(law, bound), 0.0, 0.0, 1.0])
