"""Contacts of a team in a heap: each knows its two trees, and has a Jacobian over these alone.

A contact with the world, or within a tree, is one of a tree with itself, and has its Jacobian on the second side.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kinema import trace
from kinema.trace import SCRATCH, Couplings, Place, Row, Slot, Value

from ..collide.branches import where
from ..collide.listing import Lists, last_carried
from ..sweeps.maths import dot, sum_of
from ..sweeps.quantities import Quantity
from ..sweeps.rooms import Rooms
from ..sweeps.sweeps import Sweeps
from .gathered import Gathered, Motion
from .levers import Axes
from .taking import Group, InRecord, InRow, Kept

OfDofs = Quantity[list[Value]]


class KeptOfTwo(Kept):
    """Where the numbers of a contact of two trees are in a record: rows of the Jacobian are as wide as two rooms."""

    def __init__(self, dimension: int, width: int, *, elliptic: bool) -> None:
        super().__init__(dimension, 2 * width, elliptic=elliptic)
        self.trees = self.levers + dimension * self.pitch
        self.width = self.trees + 4


class Side:
    """One side of a contact, in code for all that touches a tree."""

    def __init__(self, record: InRecord, width: int, side: Value) -> None:
        self.record, self.width, self.side = record, width, side

    def lever(self, row: int, item: int, index: Value = 0.0) -> Value:
        """An entry of its Jacobian."""
        group = self.record.group
        first = group.records.row + group.kept.levers + row * group.kept.pitch + item
        return self.record.recorder.read(SCRATCH, first, self.record.at + self.side * float(self.width) + index)


class BetweenTrees(Gathered):
    """All contacts of a state, in the order of their pairs; and of each tree those that touch it."""

    def __init__(self, s: Sweeps, lists: Lists, axes: Quantity[Axes], rooms: Rooms) -> None:
        self.rooms = rooms
        self.touching: list[tuple[int, int]] = []
        """Of each group: where it says of each tree where its contacts start in a list, and how many it has; and where
        that list is."""
        super().__init__(s, lists, axes)
        for group in self.groups:
            self.touching.append(self._by_tree(group))

    def _kept(self, dimension: int, *, elliptic: bool) -> KeptOfTwo:
        return KeptOfTwo(dimension, self.rooms.width, elliptic=elliptic)

    def _keep_near(self, group: Group) -> None:
        """There are too many of them."""

    # --------------------------------------------------------------------------------------------------- the Jacobian

    def _find_jacobian(self, axes: int) -> None:
        recorder, width = self.s.recorder, self.rooms.width
        self._take_along()
        trees, known = self._trees_of_frames(), self._of_joints(axes)
        for group in self.groups:

            def find(turn: Value, group: Group = group) -> list[Value]:
                record = InRecord(self.s, group, turn)
                found = [recorder.read(SCRATCH, trees.row + 1, frame) for frame in record.read(Kept.FRAMES, 2)]
                a, b = (trace.select(x, -0.5, y, x) for x, y in (found, reversed(found)))
                record.write(_of_two(group).trees, [a, b])
                return []

            recorder.share("trees of contacts", self.count(group), find)

            def lever(turn: Value, group: Group = group) -> list[Value]:
                contact, item = divided(turn, 2 * width)
                self._lever(InRecord(self.s, group, contact), item, known)
                return []

            recorder.share("levers of joints", self.count(group) * float(2 * width), lever)

    def _lever(self, record: InRecord, item: Value, known: Place) -> None:
        """An entry of the Jacobian in each row: what a degree of freedom of one of the two trees does."""
        recorder, width, kept = self.s.recorder, float(self.rooms.width), record.group.kept
        a, b = record.read(_of_two(record.group).trees, 2)
        second = trace.select(item, width - 0.5, 0.0, 1.0)
        tree = trace.select(second, 0.5, a, b)
        counts = trace.select(0.5, trace.absolute(a - b) + second, 1.0, 0.0)
        dof = tree * width + item - second * width
        axis = [recorder.read(SCRATCH, known.row + i, dof * 8.0) for i in range(6)]
        first, last = (recorder.read(SCRATCH, known.row + 6 + i, dof * 8.0) for i in range(2))

        def moves(frame: Value) -> Value:
            return trace.select(first, frame, trace.select(frame, last, 1.0, 0.0), 0.0)

        frames = record.read(Kept.FRAMES, 2)
        side = counts * (moves(frames[1]) - moves(frames[0]))
        for k in range(record.group.dimension):
            seen = dot(axis, record.read(kept.change + 6 * k, 6))
            row = record.group.records.row + kept.levers + k * kept.pitch
            recorder.write(SCRATCH, [side * seen], row, record.at + item)

    def _trees_of_frames(self) -> Place:
        """By the numbers that contacts have for frames, after one for the world."""
        s, rooms = self.s, self.rooms
        place = s.take(len(s.nodes) + 1)
        rows = [Row("frame", {"to": place}, {"tree": [-1.0]})]
        for node in s.nodes:
            to = Place(SCRATCH, place.row + 1 + self.order[node.index])
            rows.append(Row("frame", {"to": to}, {"tree": [float(rooms.tree_of[node.index])]}))
        s.loop("trees of frames", rows, lambda code: code.write("to", [code.number("tree")]))
        return place

    def _of_joints(self, axes: int) -> Place:
        """Of each degree of freedom its axis, and between which numbers those of the frames are that it moves."""
        s, rooms, last = self.s, self.rooms, last_carried(self.s)
        place, table = s.take(8 * rooms.n), list[Row]()
        nodes = [(node, dof) for node in s.nodes for dof in node.dofs]
        for i, (node, dof) in enumerate(nodes):
            bounds = [self.order[node.index] - 0.5, last[node.index] + 0.5]
            to = Place(SCRATCH, place.row + 8 * rooms.position[dof])
            table.append(Row("joint", {"to": to, "axis": Place(SCRATCH, axes + 6 * i)}, {"bounds": bounds}))
        table += [Row("none", {"to": Place(SCRATCH, place.row + 8 * at)}) for at in rooms.gaps]

        s.loop(
            "what joints move, and how",
            table,
            lambda code: code.write(
                "to", [*code.array("axis", 6), *code.numbers("bounds")] if code.kind == "joint" else [0.0] * 8
            ),
        )
        return place

    def _by_tree(self, group: Group) -> tuple[int, int]:
        """Of each tree its contacts: twice the number of each, and one more where it is on their second side."""
        s, recorder, count = self.s, self.s.recorder, self.count(group)
        bounds = s.take(2 * self.rooms.count).row
        entries = s.take(2 * group.capacity, distant=True).row
        trees = _of_two(group).trees

        def sides(turn: Value) -> tuple[Value, Value, Value]:
            a, b = InRecord(s, group, turn).read(trees, 2)
            return trace.select(0.5, trace.absolute(a - b), a, 1e9), a, b

        def of_tree(tree: Value) -> list[Value]:
            before = recorder.local(1)
            recorder.write(before, [0.0])

            def look(turn: Value) -> None:
                a, _, b = sides(turn)
                more = sum_of([trace.select(x, tree - 0.5, 1.0, 0.0) for x in (a, b)])
                recorder.write(before, [recorder.read(before) + more])

            recorder.count("contacts", count, look)
            start = recorder.read(before)
            recorder.write(SCRATCH, [start], bounds, tree * 2.0)

            def note(turn: Value) -> None:
                a, _, b = sides(turn)
                for side, x in enumerate((a, b)):
                    here = trace.absolute(x - tree)

                    def put(side: int = side) -> None:
                        at = recorder.read(before)
                        recorder.write(SCRATCH, [2.0 * turn + float(side)], entries, at)
                        recorder.write(before, [at + 1.0])

                    where(recorder, "of this tree", here, 0.5, put)

            recorder.count("contacts", count, note)
            recorder.write(SCRATCH, [recorder.read(before) - start], bounds + 1, tree * 2.0)
            return []

        recorder.share("contacts of trees", float(self.rooms.count), of_tree)
        return bounds, entries

    # --------------------------------------------------------------------------------------------- motion to contacts

    def motion(self, x: OfDofs) -> Motion:
        """A vector, of which rows look at what they need."""
        return Motion(self.s.start_of(x), ())

    def seen(self, row: InRow, motion: Motion) -> Value:
        """A motion of all degrees of freedom, as a row sees it."""
        width, total = self.rooms.width, list[Value]()
        for side in range(2):
            first = row.of_contact(_of_two(row.group).trees + side) * float(width)
            own = [self.s.recorder.read(SCRATCH, motion.start + i, first) for i in range(width)]
            total.append(dot([row.lever(side * width + i) for i in range(width)], own))
        return total[0] + total[1]

    # ---------------------------------------------------------------------------------------------- contacts to joints

    def each_of_tree(self, group: Group, tree: Value, body: Callable[[InRecord, Value], None]) -> None:
        """All contacts of a tree, and on which side of each it is."""
        recorder = self.s.recorder
        bounds, entries = self.touching[self.groups.index(group)]
        first, count = (recorder.read(SCRATCH, bounds + i, tree * 2.0) for i in range(2))

        def one(turn: Value) -> None:
            contact, side = divided(recorder.read(SCRATCH, entries, first + turn), 2)
            body(InRecord(self.s, group, contact), side)

        recorder.count("contacts of a tree", count, one)

    def _pull(self, group: Group, dof: Value, sums: str) -> None:
        """Add what all contacts of a group do to a degree of freedom."""
        recorder, kept = self.s.recorder, group.kept
        tree, item = divided(dof, self.rooms.width)

        def one(record: InRecord, side: Value) -> None:
            own = Side(record, self.rooms.width, side)
            slope = record.read(kept.slope, kept.dimension)
            pulled = dot(slope, [own.lever(k, 0, item) for k in range(kept.dimension)])
            recorder.write(sums, [recorder.read(sums) - pulled])

        self.each_of_tree(group, tree, one)

    def couplings(self) -> tuple[Couplings, ...]:
        """Which trees touch each other."""
        return tuple(
            Couplings(
                Slot(SCRATCH, group.records.row),
                group.kept.width,
                Slot(SCRATCH, group.count.row),
                _of_two(group).trees,
            )
            for group in self.groups
        )

    def add_stiffness(self, to: str, tile: tuple[Value, Value], row: Value) -> None:
        """Add a row of what contacts make of the curvature between two trees, or of one with itself."""
        for group in self.groups:
            self._add_stiffness(group, to, tile, row)

    def _add_stiffness(self, group: Group, to: str, tile: tuple[Value, Value], row: Value) -> None:
        recorder, width, (own, other) = self.s.recorder, self.rooms.width, tile
        apart = trace.absolute(own - other)

        def one(record: InRecord, side: Value) -> None:
            far = trace.select(apart, 0.5, side, 1.0 - side)
            its = recorder.read(SCRATCH, group.records.row + _of_two(group).trees, record.at + far)
            (pushing,) = record.read(Kept.PUSHING)
            matters = trace.select(trace.absolute(its - other), 0.5, pushing, 0.0)
            where(recorder, "pushes between them", 0.5, matters, lambda: add(record, side, far))

        def add(record: InRecord, side: Value, far: Value) -> None:
            near, beyond = (Side(record, width, x) for x in (side, far))
            pulled = _times_curve(record, [near.lever(k, 0, row) for k in range(group.dimension)])
            for i in range(width):
                more = dot(pulled, [beyond.lever(k, i) for k in range(group.dimension)])
                recorder.write(to, [recorder.read(to, i) + more], i)

        self.each_of_tree(group, own, one)


def divided(turn: Value, by: int) -> tuple[Value, Value]:
    """A whole number by another one: how often, and what is left."""
    often = trace.floor((turn + 0.5) * (1.0 / by))
    return often, turn - float(by) * often


def _of_two(group: Group) -> KeptOfTwo:
    assert isinstance(group.kept, KeptOfTwo)
    return group.kept


def _times_curve(record: InRecord, own: Sequence[Value]) -> list[Value]:
    """The curvature of a contact times what its rows see of something."""
    n, kept = record.group.dimension, record.group.kept
    if not record.group.elliptic:
        rows = [record.read(kept.curve + k * trace.whole(n), n) for k in range(n)]
        return [dot(row, own) for row in rows]
    first, others, soft, less, bound, *outward = record.read(kept.curve, trace.numbers_of_cone(n))
    along = dot(outward, own[1:]) if n > 1 else 0.0
    pushed = soft * (own[0] - bound * along)
    aside = bound * pushed + less * along
    return [first * own[0] + pushed, *(others * x - aside * o for o, x in zip(outward, own[1:], strict=True))]
