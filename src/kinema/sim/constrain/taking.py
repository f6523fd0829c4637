"""Contacts that threads found, into the records of a team, in the order of their pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kinema import trace
from kinema.trace import SCRATCH, Place, Value, numbers_of_cone, whole

from ..collide.listing import Listed
from ..collide.touches import Layout, where
from ..sweeps.maths import dot
from ..sweeps.sweeps import Sweeps
from .cones import along, cost, differs
from .deepest import LEFT_OUT, Source
from .levers import levers_of


class Kept:
    """Where the numbers of a contact are in a record of a team.

    The levers of frames, by which the Jacobian is found, are where later the change and all that follows it are; how
    many rows push is where the frames were.
    """

    STIFFNESS, BOUND, FRAMES, BACK, DAMPING, SLIDING, ROWS, RESIDUAL = 0, 1, 2, 4, 5, 6, 7, 8
    PUSHING = FRAMES

    def __init__(self, dimension: int, n_dofs: int, *, elliptic: bool) -> None:
        self.dimension = dimension
        self.change = self.RESIDUAL + dimension
        self.slope = self.change + dimension
        self.curve = whole(self.slope + dimension)
        n_curve = numbers_of_cone(dimension) if elliptic else dimension * whole(dimension)
        end = max(self.curve + n_curve, self.change + 6 * dimension)
        self.levers = whole(end)
        self.pitch = whole(n_dofs)
        end = self.levers + dimension * self.pitch
        self.width = end if end % 8 else end + 4
        """An odd multiple of four: neighbours are in other banks of memory."""


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Contacts of one law.

    Of those in cones all have the same dimension: a direction in which nothing moves makes no difference there, and
    without friction the cone is as steep as can be.
    """

    dimension: int
    elliptic: bool
    sources: Sequence[Source]
    """The lists they come from."""
    capacity: int
    records: Place
    kept: Kept
    count: Place
    """How many there are, and was room for."""


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

    def slopes(self, length: Value) -> Sequence[Value]:
        """The slope and the curvature of its cost along the direction."""
        return along(self.moved(length), self.change, *self.law, elliptic=self.group.elliptic)

    def changed(self, after: Sequence[Value]) -> Value:
        """Whether it would be on another part of its law."""
        return differs(self.residual, after, *self.law, elliptic=self.group.elliptic)

    def cost(self, length: Value) -> Value:
        """What it costs somewhere along the direction."""
        return cost(self.moved(length), *self.law, elliptic=self.group.elliptic)


class InRow:
    """One row of one contact, in code for all rows of a group: a thread each, where contacts are few."""

    def __init__(self, s: Sweeps, group: Group, turn: Value) -> None:
        dimension = float(group.dimension)
        self.recorder = s.recorder
        self.group = group
        contact = trace.floor((turn + 0.5) * (1.0 / dimension))
        self.number = turn - dimension * contact
        """Which of the rows of its contact it is."""
        self.at = contact * float(group.kept.width)

    def of_contact(self, item: int) -> Value:
        """One of its contact's numbers."""
        return self.recorder.read(SCRATCH, self.group.records.row + item, self.at)

    def lever(self, item: int) -> Value:
        """An entry of its Jacobian."""
        at = self.at + self.number * float(self.group.kept.pitch)
        return self.recorder.read(SCRATCH, self.group.records.row + self.group.kept.levers + item, at)

    def seen(self, motion: Sequence[Value]) -> Value:
        """A motion of all degrees of freedom, as it sees that; rows that the contact has not see nothing."""
        return dot([self.lever(i) for i in range(len(motion))], motion)

    def write(self, item: int, value: Value) -> None:
        """Set its place in a list of its contact's."""
        self.recorder.write(SCRATCH, [value], self.group.records.row + item, self.at + self.number)


@dataclass(frozen=True, slots=True, eq=False)
class Taking:
    """What threads found, into the records of a team."""

    s: Sweeps
    group: Group
    source: Source
    count: Value
    first: Value

    def one(self, turn: Value) -> list[Value]:
        """One contact, to where it belongs, if there is room."""
        own = self.source.key(self.s, turn)
        place = trace.select(own, 0.5 * LEFT_OUT, self.first + self._rank(turn, own), float(self.group.capacity))
        where(self.s.recorder, "room", place, float(self.group.capacity), lambda: self._take(turn, place))
        return []

    def _take(self, turn: Value, place: Value) -> None:
        group, found, source = self.group, self.source.contact(self.s, turn), self.source.list
        record, layout = InRecord(self.s, group, place), Listed(source.kind.dimension)
        stiffness, bound = found.law
        frictionless = group.elliptic and not source.kind.elliptic
        record.write(Kept.STIFFNESS, [stiffness, 0.0 if frictionless else bound])
        record.write(Kept.FRAMES, [*found.read(layout.frames, 2), *found.read(Layout.BACK, 3)])
        levers = levers_of(found)
        record.write(Kept.ROWS, [float(len(levers))])
        levers += [[0.0] * 6] * (group.dimension - len(levers))
        record.write(group.kept.change, [x for lever in levers for x in lever])

    def _rank(self, turn: Value, own: Value) -> Value:
        """How many contacts come before one: threads found them in any order, those of a pair in their own."""
        recorder, before = self.s.recorder, self.s.recorder.local(1)
        recorder.write(before, [0.0])

        def one(other: Value) -> None:
            its = self.source.key(self.s, other)
            sooner = trace.select(its, own, 1.0, trace.select(own, its, 0.0, trace.select(other, turn, 1.0, 0.0)))
            recorder.write(before, [recorder.read(before) + sooner])

        recorder.count("others", self.count, one)
        return recorder.read(before)
