"""Contacts of a team: a list of those that there are, each with its rows of the Jacobian.

A thread has a contact or a degree of freedom, and nobody waits for what is on the way between two frames.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kinema import trace
from kinema.trace import SCRATCH, Choose, Place, Row, Slot, Term, Value, whole

from ..collide.listing import Lawful, Lists, last_carried
from ..sweeps.maths import dot
from ..sweeps.quantities import Quantity
from ..sweeps.sweeps import Sweeps
from .cones import push, slope_and_bend
from .contacts import Axes
from .deepest import Source, put_in_order
from .taking import Group, InRecord, InRow, Kept, Taking

OfDofs = Quantity[list[Value]]
FEW_CONTACTS, FEWEST_CONTACTS = 8, 5
"""Of which the records are near at hand, and where these leave too little for the cache."""


@dataclass(frozen=True, slots=True, eq=False)
class Motion:
    """A vector over all degrees of freedom: where it starts, and all of it."""

    start: int
    values: Sequence[Value]


class Gathered:
    """All contacts of a state, in the order of their pairs."""

    def __init__(self, s: Sweeps, lists: Lists, axes: Quantity[Axes]) -> None:
        self.s = s
        self.n = sum(len(node.dofs) for node in s.nodes)
        self.order = lists.order
        self.groups = [self._group(law) for law in lists.laws]
        s.recorder.new_line()
        for group in self.groups:
            self._keep_near(group)
        self._find_jacobian(s.start_of(axes))

    def _group(self, law: Lawful) -> Group:
        s, recorder, capacity = self.s, self.s.recorder, law.capacity
        dimension = max(x.kind.dimension for x in law.lists)
        elliptic = any(x.kind.elliptic for x in law.lists)
        kept = self._kept(dimension, elliptic=elliptic)
        total: Value = 0.0
        sources: list[Source] = []
        for one, number in zip(law.lists, law.numbers(s), strict=True):
            sources.append(Source(one, s.take_fixed(1), s.take(one.capacity, distant=True)))
            recorder.write(SCRATCH, [total], sources[-1].before.row)
            total = total + number
        count, records = s.take_fixed(1), s.take(capacity * kept.width, distant=True)
        recorder.write(SCRATCH, [trace.minimum(total, float(capacity))], count.row)
        return Group(dimension, elliptic, sources, capacity, records, kept, count)

    def _kept(self, dimension: int, *, elliptic: bool) -> Kept:
        """Where the numbers of a contact are: its Jacobian is over all degrees of freedom."""
        return Kept(dimension, self.n, elliptic=elliptic)

    def _keep_near(self, group: Group) -> None:
        """The records of few contacts are near at hand."""
        width, capacity = group.kept.width, group.capacity
        records, count = (Slot(SCRATCH, place.row) for place in (group.records, group.count))
        most = min(FEW_CONTACTS, capacity)
        self.s.recorder.add(Choose("contacts", records, capacity * width, width, count, most, FEWEST_CONTACTS), {})

    # --------------------------------------------------------------------------------------------------- the Jacobian

    def _find_jacobian(self, axes: int) -> None:
        recorder = self.s.recorder
        self._take_along()
        carried = self._what_joints_carry()

        def of_dof(turn: Value) -> list[Value]:
            axis = [recorder.read(SCRATCH, axes + i, turn * 6.0) for i in range(6)]
            first, last = (recorder.read(SCRATCH, carried.row + i, turn * 2.0) for i in range(2))
            for group in self.groups:
                self._of_dof(group, turn, axis, (first, last))
            return []

        recorder.share("levers of joints", float(self.n), of_dof)

    def _take_along(self) -> None:
        """All contacts, in order, with what they see of frames."""
        recorder = self.s.recorder
        for group in self.groups:
            put_in_order(self.s, group.sources, group.capacity)
            for source in group.sources:
                count, first = source.count(self.s), recorder.read(SCRATCH, source.before.row)
                take = Taking(self.s, group, source, count, first)
                recorder.share("contacts, taken along", count, take.one)

    def count(self, group: Group) -> Value:
        """How many contacts it has."""
        return self.s.recorder.read(SCRATCH, group.count.row)

    def _what_joints_carry(self) -> Place:
        """Of each degree of freedom, between which numbers those of the frames are that it moves."""
        s, order, last = self.s, self.order, last_carried(self.s)
        carried, rows = s.take(2 * self.n), []
        nodes = [node for node in s.nodes for _ in node.dofs]
        for i, node in enumerate(nodes):
            bounds = [order[node.index] - 0.5, last[node.index] + 0.5]
            rows.append(Row("dof", {"to": Place(SCRATCH, carried.row + 2 * i)}, {"bounds": bounds}))
        s.loop("what joints carry", rows, lambda code: code.write("to", code.numbers("bounds")))
        return carried

    def _of_dof(self, group: Group, dof: Value, axis: Sequence[Value], carried: tuple[Value, Value]) -> None:
        """A column of the Jacobian: what each contact sees of a degree of freedom that moves one of its frames."""
        recorder, kept = self.s.recorder, group.kept
        records = group.records.row

        def moves(frame: Value) -> Value:
            first, last = carried
            return trace.select(first, frame, trace.select(frame, last, 1.0, 0.0), 0.0)

        def one(turn: Value) -> None:
            record = InRecord(self.s, group, turn)
            a, b = record.read(Kept.FRAMES, 2)
            side, at = moves(b) - moves(a), record.at
            for k in range(group.dimension):
                lever = record.read(kept.change + 6 * k, 6)
                recorder.write(SCRATCH, [side * dot(axis, lever)], records + kept.levers + k * kept.pitch, at + dof)

        recorder.count("contacts", self.count(group), one)

    # --------------------------------------------------------------------------------------------- motion to contacts

    def set_targets(self, velocity: OfDofs, free: OfDofs) -> None:
        """What is missing while nothing pushes."""
        gained, speed = self.motion(free), self.motion(velocity)

        def one(row: InRow) -> None:
            normal = [trace.select(row.number, 0.5, a, b) for a, b in self._of_normals(row)]
            row.write(Kept.RESIDUAL, self.seen(row, gained) + normal[0] * self.seen(row, speed) + normal[1])

        for group in self.groups:

            def of_turn(turn: Value, group: Group = group) -> list[Value]:
                one(InRow(self.s, group, turn))
                return []

            self.s.recorder.share("what contacts miss", self.n_rows(group), of_turn)

    @staticmethod
    def _of_normals(row: InRow) -> list[tuple[Value, Value]]:
        """What differs between the normal and the rest: the damping, and how fast it is to come back."""
        damping, sliding, back = (row.of_contact(item) for item in (Kept.DAMPING, Kept.SLIDING, Kept.BACK))
        return [(damping, sliding), (back, 0.0)]

    def n_rows(self, group: Group) -> Value:
        """How many rows there are, with those that some contacts have not."""
        return float(group.dimension) * self.count(group)

    def motion(self, x: OfDofs) -> Motion:
        """A vector, for rows that see it."""
        start = self.s.start_of(x)
        return Motion(start, [self.s.recorder.read(SCRATCH, start + i) for i in range(self.n)])

    def seen(self, row: InRow, motion: Motion) -> Value:
        """A motion of all degrees of freedom, as a row sees it."""
        return row.seen(motion.values)

    # ---------------------------------------------------------------------------------------------- contacts to joints

    @staticmethod
    def push(record: InRecord, residual: Sequence[Value]) -> None:
        """A contact keeps its slope, and its curvature for the matrix; of what does not push no row is looked at."""
        n, kept, (rows,) = record.group.dimension, record.group.kept, record.read(Kept.ROWS)
        if record.group.elliptic:
            stiffness, bound = record.law
            slope, bent = slope_and_bend(residual, stiffness, bound)
            record.write(kept.slope, slope)
            record.write(Kept.PUSHING, [trace.select(0.0, bent.weights[0] + bent.soft, rows, 0.0)])
            record.write(kept.curve, [*bent.weights[:2], bent.soft, bent.less, bound, *bent.outward])
            return
        found = push(residual, *record.law, elliptic=False)
        record.write(kept.slope, found.slope)
        record.write(Kept.PUSHING, [trace.select(0.0, found.curve[0][0], rows, 0.0)])
        for i in range(n):
            row = [found.curve[max(i, j)][min(i, j)] for j in range(n)]
            record.write(kept.curve + i * whole(n), row)

    def pulled(self, dof: Value) -> Value:
        """What contacts that push do to a degree of freedom."""
        recorder, sums = self.s.recorder, self.s.recorder.local(1)
        recorder.write(sums, [0.0])
        for group in self.groups:
            self._pull(group, dof, sums)
        return recorder.read(sums)

    def _pull(self, group: Group, dof: Value, sums: str) -> None:
        """Add what all contacts of a group do to a degree of freedom."""
        recorder, kept = self.s.recorder, group.kept

        def one(turn: Value) -> None:
            record, at = InRecord(self.s, group, turn), turn * float(kept.width) + dof
            first = group.records.row + kept.levers
            levers = [recorder.read(SCRATCH, first + k * kept.pitch, at) for k in range(kept.dimension)]
            slope = record.read(kept.slope, kept.dimension)
            recorder.write(sums, [recorder.read(sums) - dot(slope, levers)])

        recorder.count("contacts", self.count(group), one)

    def terms(self) -> tuple[Term, ...]:
        """What contacts add to a matrix over degrees of freedom."""
        return tuple(
            Term(
                Slot(SCRATCH, group.records.row),
                group.kept.width,
                Slot(SCRATCH, group.count.row),
                group.dimension,
                Kept.PUSHING,
                group.kept.curve,
                group.kept.levers,
                group.kept.pitch,
                group.elliptic,
            )
            for group in self.groups
        )
