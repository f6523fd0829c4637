"""Newton's method by a team of threads for heaps: many trees, of which most pairs do not touch.

What a thread has is as in `Together`, but that contacts look at their two trees alone, and that the curvature is tiles
between trees that touch.
"""

from __future__ import annotations

from functools import cached_property

from kinema import trace
from kinema.trace import SCRATCH, Place, Row, Value

from ..collide.listing import Lists
from ..constrain.between_trees import BetweenTrees, divided
from ..constrain.contacts import Axes
from ..constrain.gathered import Motion
from ..constrain.own_rows import OwnRows
from ..constrain.wide_rows import WideRows
from ..sweeps.maths import dot, sum_of
from ..sweeps.quantities import Quantity
from ..sweeps.rooms import Rooms
from .by_tree import ROUNDED
from .ready import OfDofs
from .team_tiles import TeamTiles
from .together import Together


class Inertia:
    """That of each tree, one behind the other, each with the same room."""

    def __init__(self, rooms: Rooms) -> None:
        self.n = rooms.n
        self.position = rooms.position
        self.start = rooms.s.take(rooms.n * rooms.width).row


class Heaped(Together):
    """One solution by a team."""

    @cached_property
    def rooms(self) -> Rooms:
        """Where trees are in vectors."""
        return Rooms(self.s)

    def take_contacts(self, lists: Lists | None, axes: Quantity[Axes] | None) -> None:
        """What touches, as threads have found and listed it."""
        s, rooms = self.s, self.rooms
        self._put_in_rooms()
        self.between_trees = None if lists is None or axes is None else BetweenTrees(s, lists, axes, rooms)
        self.gathered = self.between_trees
        self.contacts = self.gathered  # type: ignore[assignment]
        self.matrix = TeamTiles(s, rooms)
        self.matrix.arrange(self.between_trees)
        self.inertia = Inertia(rooms)  # type: ignore[assignment]
        self.own = OwnRows(s, self.rows, rooms.position, rooms.n)
        self.wide = WideRows(s, self.own.rest)
        self.all_rows, self.rows = self.rows, self.wide.rest
        assert not self.wide.count
        assert not self.rows.blocks, "nothing but contacts couples joints of a heap"
        self.diagonal = self._vector("stiffness of rows of single joints")
        self.pushed = False
        self.left = s.take_fixed(3)
        self._fill_inertia()
        self.trees = _EachTree(self) if s.settings.is_coarse else None  # type: ignore[assignment]

    def _put_in_rooms(self) -> None:
        """What others have computed, where it is looked for."""
        s, rooms = self.s, self.rooms
        if not rooms.is_plain:
            free, before = self._vector("free accelerations of trees"), self.free
            s.each_frame("free accelerations of trees", lambda node: free.put(node.here, before[node.here]))
            self.free = free
        self.most = s.take(rooms.n).row
        rows = [
            Row("own", {"from": place, "to": Place(SCRATCH, self.most + rooms.position[dof])})
            for dof, place in self.factors.inverses.items()
        ]
        rows += [Row("none", {"to": Place(SCRATCH, self.most + at)}) for at in rooms.gaps]
        s.loop(
            "least pivots",
            rows,
            lambda code: code.write("to", [code.read("from") if code.kind == "own" else 1.0]),
        )

    def _fill_inertia(self) -> None:
        """All of each tile, from its half that is as sparse as the tree; where there is no joint that of unit mass."""
        width, start, known = self.rooms.width, self.inertia.start, dict[tuple[int, int], Place]()
        for dof, path in self.mass.paths.items():
            for mover in path:
                i, j = self.rooms.position[dof], self.rooms.position[mover]
                known[i, j % width] = known[j, i % width] = self.mass.entry(dof, mover)
        rows = []
        for i in range(self.rooms.n):
            for j in range(width):
                places = {"to": Place(SCRATCH, start + i * width + j)}
                if (i, j) in known:
                    rows.append(Row("entry", {**places, "from": known[i, j]}))
                else:
                    rows.append(Row("none", places, {"is": [float(i % width == j)]}))
        self.s.loop(
            "all of the inertia",
            rows,
            lambda code: code.write("to", [code.read("from") if code.kind == "entry" else code.number("is")]),
        )

    def _direction(self) -> OfDofs:
        """From the slope and all of the curvature."""
        along, start = self._vector("direction"), self.s.start_of
        self.matrix.fill(self.inertia.start, start(self.diagonal), self.between_trees)
        self._each("direction", lambda dof: self._put(along, dof, self._get(self.downhill, dof)))
        self.matrix.solve(self.most, start(along))
        return along

    def _move(self, along: OfDofs, heavy: OfDofs, *, looks: bool) -> Value | None:
        changed = super()._move(along, heavy, looks=looks)
        return None if changed is None else changed + self.matrix.is_missing_some

    # ----------------------------------------------------------------------------------------------------- of vectors

    @property
    def _n(self) -> int:
        return self.rooms.n

    def _vector(self, name: str) -> OfDofs:
        if self.rooms.is_plain:
            return self.s.vector(name)
        made = self.rooms.vector(name)
        self._clear(made)
        return made

    def _motion(self, x: OfDofs) -> Motion:
        return Motion(self.s.start_of(x), ())

    def _row_times(self, dof: Value, x: Motion) -> Value:
        """A row of the inertia times a vector."""
        recorder, width = self.s.recorder, self.rooms.width
        tree, _ = divided(dof, width)
        row = [recorder.read(SCRATCH, self.inertia.start + i, dof * float(width)) for i in range(width)]
        return dot(row, [recorder.read(SCRATCH, x.start + i, tree * float(width)) for i in range(width)])


class _EachTree:
    """Whether a solution is good enough for each tree by itself (`by_tree.py`)."""

    def __init__(self, solver: Heaped) -> None:
        self.solver = solver

    def far_off(self, slope: OfDofs, forces: OfDofs, share: Value) -> Value:
        """How many trees have more left of the slope than a share of their forces."""
        s, width = self.solver.s, self.solver.rooms.width
        every, least = s.recorder.read(SCRATCH, self.solver.left.row + 1), share * share

        def one(tree: Value) -> list[Value]:
            left, own = (
                sum_of(
                    [
                        trace.square(s.recorder.read(SCRATCH, s.start_of(x) + i, tree * float(width)))
                        for i in range(width)
                    ]
                )
                for x in (slope, forces)
            )
            return [trace.select(least * own + ROUNDED**2 * every, left, 1.0, 0.0)]

        return s.recorder.share("trees that are far off", float(self.solver.rooms.count), one, 1)[0]
