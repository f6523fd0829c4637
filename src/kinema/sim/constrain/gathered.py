"""Contacts of a team: a list of those that there are, each with its rows of the Jacobian.

A thread has a contact or a degree of freedom, and nobody waits for what is on the way between two frames.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kinema import trace
from kinema.trace import SCRATCH, Place, Row, Slot, Term, Value, whole

from ..collide.listing import ContactList, Listed, Lists, last_carried
from ..collide.touches import Contact, Layout
from ..sweeps.maths import dot
from ..sweeps.quantities import Quantity
from ..sweeps.sweeps import Sweeps
from .cones import along, cost, differs, push
from .contacts import Axes
from .levers import levers_of

OfDofs = Quantity[list[Value]]


class Kept:
    """Where the numbers of a contact are in a record of a team.

    The levers of frames, by which the Jacobian is found, are where later the change and all that follows it are.
    """

    STIFFNESS, BOUND, FRAMES, BACK, DAMPING, SLIDING, RESIDUAL = 0, 1, 2, 4, 5, 6, 7

    def __init__(self, dimension: int, n_dofs: int) -> None:
        self.dimension = dimension
        self.change = self.RESIDUAL + dimension
        self.slope = self.change + dimension
        self.curve = whole(self.slope + dimension)
        end = max(self.curve + dimension * (dimension + 1) // 2, self.change + 6 * dimension)
        self.levers = whole(end)
        self.pitch = whole(n_dofs)
        end = self.levers + dimension * self.pitch
        self.width = end if end % 8 else end + 4
        """An odd multiple of four: neighbours are in other banks of memory."""


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Contacts of one kind."""

    of: ContactList
    records: Place
    kept: Kept
    count: Place
    """How many there are, and was room for."""

    @property
    def dimension(self) -> int:
        """Directions of each."""
        return self.of.kind.dimension

    @property
    def elliptic(self) -> bool:
        """Whether friction is bounded by a cone."""
        return self.of.kind.elliptic


class InRecord:
    """One contact, in code for all of a group."""

    def __init__(self, s: Sweeps, group: Group, turn: Value) -> None:
        self.recorder = s.recorder
        self.group = group
        self.turn = turn
        self.at = turn * float(group.kept.width)

    def read(self, item: int, count: int = 1) -> list[Value]:
        """Some of its numbers."""
        return [self.recorder.read(SCRATCH, self.group.records.row + item + i, self.at) for i in range(count)]

    def write(self, item: int, values: Sequence[Value]) -> None:
        """Set some of them."""
        self.recorder.write(SCRATCH, values, self.group.records.row + item, self.at)

    @property
    def residual(self) -> list[Value]:
        """What is missing in each of its directions."""
        return self.read(Kept.RESIDUAL, self.group.dimension)

    @property
    def change(self) -> list[Value]:
        """How that changes along a search."""
        return self.read(self.group.kept.change, self.group.dimension)

    @property
    def law(self) -> list[Value]:
        """Stiffness, and the bound of friction."""
        return self.read(Kept.STIFFNESS, 2)

    def moved(self, length: Value) -> list[Value]:
        """What is missing so far along the direction."""
        return [x + length * v for x, v in zip(self.residual, self.change, strict=True)]


class Gathered:
    """All contacts of a state, in the order of their pairs."""

    def __init__(self, s: Sweeps, lists: Lists, axes: Quantity[Axes]) -> None:
        self.s = s
        self.n = sum(len(node.dofs) for node in s.nodes)
        self.order = lists.order
        self.groups: list[Group] = []
        for one in lists.of_kind.values():
            kept = Kept(one.kind.dimension, self.n)
            records, count = s.take(one.capacity * kept.width, distant=True), s.take_fixed(1)
            self.groups.append(Group(one, records, kept, count))
            found = s.recorder.read(SCRATCH, one.count.row)
            s.recorder.write(SCRATCH, [trace.minimum(found, float(one.capacity))], count.row)
        s.recorder.new_line()
        self._find_jacobian(s.start_of(axes))

    def each(self, name: str, body: Callable[[InRecord], Sequence[Value]], n_sums: int = 0) -> list[Value]:
        """Each contact by itself; the sums of what they give."""
        total: list[Value] = [0.0] * n_sums
        for group in self.groups:
            found = self._each(group, name, body, n_sums)
            total = [a + b for a, b in zip(total, found, strict=True)]
        return total

    def _each(
        self, group: Group, name: str, body: Callable[[InRecord], Sequence[Value]], n_sums: int = 0
    ) -> list[Value]:
        recorder = self.s.recorder
        return recorder.share(name, self._count(group), lambda turn: body(InRecord(self.s, group, turn)), n_sums)

    # --------------------------------------------------------------------------------------------------- the Jacobian

    def _find_jacobian(self, axes: int) -> None:
        recorder = self.s.recorder
        for group in self.groups:
            recorder.share(
                "contacts, taken along", self._count(group), lambda turn, group=group: self._take_along(group, turn)
            )
        carried = self._what_joints_carry()

        def of_dof(turn: Value) -> list[Value]:
            axis = [recorder.read(SCRATCH, axes + i, turn * 6.0) for i in range(6)]
            first, last = (recorder.read(SCRATCH, carried.row + i, turn * 2.0) for i in range(2))
            for group in self.groups:
                self._of_dof(group, turn, axis, (first, last))
            return []

        recorder.share("levers of joints", float(self.n), of_dof)

    def _take_along(self, group: Group, turn: Value) -> list[Value]:
        """What a thread found of a contact, into the record."""
        record = InRecord(self.s, group, self._rank(group, turn))
        found, layout = self._found(group, turn), Listed(group.dimension)
        record.write(Kept.STIFFNESS, found.law)
        record.write(Kept.FRAMES, [*found.read(layout.frames, 2), *found.read(Layout.BACK, 3)])
        record.write(group.kept.change, [x for lever in levers_of(found) for x in lever])
        return []

    def _rank(self, group: Group, turn: Value) -> Value:
        """How many contacts come before one: threads found them in any order, those of a pair in their own."""
        recorder, before = self.s.recorder, self.s.recorder.local(1)
        recorder.write(before, [0.0])
        own = trace.absolute(self._found(group, turn).read(Layout.PAIR)[0])

        def one(other: Value) -> None:
            its = trace.absolute(self._found(group, other).read(Layout.PAIR)[0])
            sooner = trace.select(its, own, 1.0, trace.select(own, its, 0.0, trace.select(other, turn, 1.0, 0.0)))
            recorder.write(before, [recorder.read(before) + sooner])

        recorder.count("others", self._count(group), one)
        return recorder.read(before)

    def _found(self, group: Group, turn: Value) -> Contact:
        """A contact as a thread found it."""
        found = Contact(self.s.recorder, Listed(group.dimension), turn)
        found.array, found.first = SCRATCH, group.of.contacts.row
        return found

    def _count(self, group: Group) -> Value:
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

        recorder.count("contacts", self._count(group), one)

    # --------------------------------------------------------------------------------------------- motion to contacts

    def set_targets(self, velocity: OfDofs, free: OfDofs) -> None:
        """What is missing while nothing pushes."""

        def one(record: InRecord) -> list[Value]:
            damping = [*record.read(Kept.DAMPING), *record.read(Kept.SLIDING) * (record.group.dimension - 1)]
            seen = zip(self._seen(record, free), self._seen(record, velocity), damping, strict=True)
            first, *rest = [a + d * v for a, v, d in seen]
            record.write(Kept.RESIDUAL, [first + record.read(Kept.BACK)[0], *rest])
            return []

        self.each("what contacts miss", one)

    def _seen(self, record: InRecord, x: OfDofs) -> list[Value]:
        """A motion in the directions of a contact."""
        kept, start = record.group.kept, self.s.start_of(x)
        along = [self.s.recorder.read(SCRATCH, start + i) for i in range(self.n)]
        rows = [record.read(kept.levers + k * kept.pitch, self.n) for k in range(kept.dimension)]
        return [dot(row, along) for row in rows]

    def product(self, x: OfDofs) -> None:
        """How what is missing changes with a motion."""

        def one(record: InRecord) -> list[Value]:
            record.write(record.group.kept.change, self._seen(record, x))
            return []

        self.each("what contacts see of a motion", one)

    def advance(self, length: Place) -> None:
        """Go along the direction."""
        far = self.s.recorder.read(SCRATCH, length.row)

        def one(record: InRecord) -> list[Value]:
            record.write(Kept.RESIDUAL, record.moved(far))
            return []

        self.each("what contacts miss then", one)

    # ----------------------------------------------------------------------------------------------------------- sums

    def slopes(self, length: Place, total: Place) -> None:
        """Add the slope and the curvature of the cost along the direction."""

        def one(record: InRecord, far: Value) -> Sequence[Value]:
            return along(record.moved(far), record.change, *record.law, elliptic=record.group.elliptic)

        self._total("slopes of contacts", one, length, total, 2)

    def changed(self, length: Place, total: Place) -> None:
        """Add how many contacts would be on another part of their law."""

        def one(record: InRecord, far: Value) -> Sequence[Value]:
            return [differs(record.residual, record.moved(far), *record.law, elliptic=record.group.elliptic)]

        self._total("contacts that change", one, length, total, 1)

    def costs(self, length: Place, total: Place) -> None:
        """Add what contacts cost somewhere along the direction."""

        def one(record: InRecord, far: Value) -> Sequence[Value]:
            return [cost(record.moved(far), *record.law, elliptic=record.group.elliptic)]

        self._total("costs of contacts", one, length, total, 1)

    def _total(
        self, name: str, one: Callable[[InRecord, Value], Sequence[Value]], length: Place, total: Place, n: int
    ) -> None:
        recorder = self.s.recorder
        far = recorder.read(SCRATCH, length.row)
        found = self.each(name, lambda record: one(record, far), n)
        before = [recorder.read(SCRATCH, total.row + i) for i in range(n)]
        recorder.write(SCRATCH, [a + b for a, b in zip(before, found, strict=True)], total.row)
        recorder.new_line()  # who asked for it reads it again

    # ---------------------------------------------------------------------------------------------- contacts to joints

    def joint_forces(self, name: str) -> OfDofs:
        """What contacts do to joints; each keeps its slope, and its curvature for the matrix."""
        s, recorder = self.s, self.s.recorder

        def pushes(record: InRecord) -> list[Value]:
            found = push(record.residual, *record.law, elliptic=record.group.elliptic)
            record.write(record.group.kept.slope, found.slope)
            record.write(record.group.kept.curve, [x for row in found.curve for x in row])
            return []

        self.each(f"{name}, of contacts", pushes)
        result = s.vector(name)
        start = s.start_of(result)

        def of_dof(turn: Value) -> list[Value]:
            sums = recorder.local(1)
            recorder.write(sums, [0.0])
            for group in self.groups:
                self._pull(group, turn, sums)
            recorder.write(SCRATCH, [recorder.read(sums)], start, turn)
            return []

        recorder.share(name, float(self.n), of_dof)
        return result

    def _pull(self, group: Group, dof: Value, sums: str) -> None:
        """Add what all contacts of a group do to a degree of freedom."""
        recorder, kept = self.s.recorder, group.kept

        def one(turn: Value) -> None:
            record, at = InRecord(self.s, group, turn), turn * float(kept.width) + dof
            first = group.records.row + kept.levers
            levers = [recorder.read(SCRATCH, first + k * kept.pitch, at) for k in range(kept.dimension)]
            slope = record.read(kept.slope, kept.dimension)
            recorder.write(sums, [recorder.read(sums) - dot(slope, levers)])

        recorder.count("contacts", self._count(group), one)

    def terms(self) -> tuple[Term, ...]:
        """What contacts add to a matrix over degrees of freedom."""
        return tuple(
            Term(
                Slot(SCRATCH, group.records.row),
                group.kept.width,
                Slot(SCRATCH, group.count.row),
                group.dimension,
                group.kept.curve,
                group.kept.levers,
                group.kept.pitch,
            )
            for group in self.groups
        )
