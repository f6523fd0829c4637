"""Symmetric matrices over the degrees of freedom of many trees, in tiles of six by six; most of them are empty.

Where anything may touch anything, a matrix has room for entries between any two trees, and nearly all of them are zero.
Which are not is known only when the step runs: each tile has a mark that says so, tiles that elimination fills are
marked before it begins, and all that is without a mark is passed over. So a heap of bodies costs by what touches.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kinema import trace
from kinema.trace import SCRATCH, Column, Columns, Place, Row, RowCode, Table, Value

from .loops import Loops
from .matrix import TreeMatrix
from .tree import WORLD, Ints, Node

SIDE = 6
"""Rows of a tile: a free body's degrees of freedom."""
N_TILE = SIDE * SIDE


class Tiling:
    """Degrees of freedom in tiles of up to six: whole frames, of one tree each."""

    def __init__(self, loops: Loops) -> None:
        self.dofs: list[list[int]] = []
        self.trees: list[int] = []
        """Of each tile the first frame of its tree."""
        self.of: dict[int, tuple[int, int]] = {}
        """Of each degree of freedom its tile, and where it is in there."""
        by_tree: dict[int, list[Node]] = {}
        for node in loops.nodes:
            by_tree.setdefault(root_frame(loops, node.index), []).append(node)
        for root, nodes in by_tree.items():
            self._lay(root, nodes)

    def _lay(self, root: int, nodes: Sequence[Node]) -> None:
        open_ = False
        for node in nodes:
            if not open_ or len(self.dofs[-1]) + len(node.dofs) > SIDE:
                self.dofs.append([])
                self.trees.append(root)
                open_ = True
            for dof in node.dofs:
                self.of[dof] = (len(self.dofs) - 1, len(self.dofs[-1]))
                self.dofs[-1].append(dof)

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.dofs)

    def of_dofs(self, dofs: Iterable[int]) -> list[int]:
        """The tiles of some degrees of freedom."""
        return sorted({self.of[dof][0] for dof in dofs})

    def pairs(self, dofs: Iterable[int]) -> list[tuple[int, int]]:
        """All tiles that some degrees of freedom have entries in, if each goes with each other."""
        own = self.of_dofs(dofs)
        return [(a, b) for a in own for b in own if b <= a]


def root_frame(loops: Loops, frame: int) -> int:
    """The first frame of a frame's tree."""
    while loops.tree.nodes[frame].parent != WORLD:
        frame = loops.tree.nodes[frame].parent
    return frame


def _nothing(*_: Ints) -> dict[str, Any]:
    return {}


@dataclass(frozen=True, slots=True, eq=False)
class TileRows:
    """Tiles of a kind, in a loop over all of them."""

    kind: Hashable
    which: npt.NDArray[np.bool_]
    """Of all tiles whether they are of this kind."""
    places: Callable[[Ints, Ints], Mapping[str, Column]] = _nothing
    """What their rows find, by the row and the column of each tile."""
    numbers: Callable[[Ints, Ints], Mapping[str, npt.NDArray[np.float64]]] = _nothing


class TiledMatrix(TreeMatrix):
    """A symmetric matrix of tiles, in the scratch memory; of tiles on the diagonal the lower half."""

    def __init__(self, like: TreeMatrix, name: str) -> None:
        self.tiling = Tiling(like.loops)
        n = self.tiling.count
        self._tiles = like.loops.take(N_TILE * n * (n + 1) // 2).row
        self._marks = like.loops.take(n * n).row
        self.may_go = True
        self.together = like.loops.idle is None
        """Whether environments that run side by side have the same marks: whatever any of them has. What is empty in
        one of them is zero there, and changes nothing; but for trees that are idle, of which nothing is known."""
        self.loops = like.loops
        self.name = f"{name} {len(like.loops.found)}"
        self.paths = like.paths
        self.order = like.order
        like.loops.found.append(self)
        self._inwards: Place | None = None
        self._outwards: Place | None = None
        """Lists of the tiles that have marks, once these are known."""

    def tile(self, a: int, b: int) -> Place:
        """Where a tile is; b is not after a."""
        return Place(SCRATCH, self._tiles + N_TILE * (a * (a + 1) // 2 + b))

    def mark(self, a: int, b: int) -> Place:
        """Where it says whether a tile has anything in it."""
        return Place(SCRATCH, self._marks + a * self.tiling.count + b)

    def tiles(self, a: Ints, b: Ints) -> Column:
        """Where many tiles are."""
        return Column(SCRATCH, self._tiles + N_TILE * (a * (a + 1) // 2 + b))

    def marks(self, a: Ints, b: Ints) -> Column:
        """Where the marks of many are."""
        return Column(SCRATCH, self._marks + a * self.tiling.count + b)

    def _idle(self, tiles: Ints) -> dict[str, Column]:
        """Where rows of tiles look whether there is anything to do for their trees."""
        marks = [self.loops.mark_of(root) for root in self.tiling.trees]
        return {name: Column.of([mark[name] for mark in marks]).taken(tiles) for name in marks[0]}

    def entry(self, dof: int, mover: int) -> Place:
        """Where an entry is, or the one that mirrors it."""
        first, second = sorted((self.tiling.of[dof], self.tiling.of[mover]), reverse=True)
        return Place(SCRATCH, self.tile(first[0], second[0]).row + SIDE * first[1] + second[1])

    def between(self, a: int, b: int) -> Place:
        """Likewise."""
        return self.entry(a, b)

    # -------------------------------------------------------------------------------------------------- what is there

    def unmark(self) -> None:
        """Nothing is in any tile, but for those on the diagonal."""

        def body(code: RowCode) -> None:
            recorder = code.recorder
            recorder.count(
                "marks", code.number("count"), lambda turn: recorder.write("marks", [0.0], 0, turn), uniform=True
            )
            code.write("own", [1.0])

        rows = []
        for k in range(self.tiling.count):
            places = {"marks": self.mark(k, 0), "own": self.mark(k, k)}
            rows.append(Row("marks", places, {"count": [float(k)]}))
        self.loops.loop(f"{self.name}, no marks", rows, body)

    def mark_known(self, groups: Iterable[Iterable[int]]) -> None:
        """Mark what the tree couples, and each group of degrees of freedom."""
        known = {
            tuple(sorted((self.tiling.of[dof][0], self.tiling.of[x][0]), reverse=True))
            for dof, path in self.paths.items()
            for x in path
        }
        known |= {pair for group in groups for pair in self.tiling.pairs(group)}
        rows = [Row("mark", {"mark": self.mark(a, b)}) for a, b in sorted(known) if a != b]
        self.loops.loop(f"{self.name}, marks", rows, lambda code: code.write("mark", [1.0]))

    def mark_filled(self) -> None:
        """Mark what elimination will fill; before that, what others fill that run side by side."""

        def unite(code: RowCode) -> None:
            recorder = code.recorder

            def one(turn: Value) -> None:
                recorder.write("marks", [trace.any_of(recorder.read("marks", 0, turn))], 0, turn)

            recorder.count("marks", code.number("count"), one, uniform=True)

        def fill(code: RowCode) -> None:
            recorder = code.recorder

            def one(turn: Value) -> None:
                both = [recorder.read(array, 0, turn) for array in ("marks", "marks of other")]
                recorder.write("marks of other", [both[0] + both[1] - both[0] * both[1]], 0, turn)

            def along() -> list[Value]:
                recorder.count("marks", code.number("count"), one, uniform=True)
                return []

            recorder.where("marked", 0.5, code.read("mark"), along, [])

        rows = self._rows_of_marks()
        self.loops.loop(
            f"{self.name}, marks of what is filled", rows, lambda code: (fill if code.kind == "pair" else unite)(code)
        )

    def _rows_of_marks(self) -> Table:
        """Tiles from the last row to the first, but for those on the diagonal; before each row, if need be, itself."""
        n = self.tiling.count
        k = np.repeat(np.arange(n - 1, -1, -1), np.arange(n - 1, -1, -1))
        i = np.concatenate([np.arange(k - 1, -1, -1) for k in range(n - 1, -1, -1)])
        rows = np.arange(n - 1, -1, -1) if self.together else np.zeros(0, np.int64)
        at = np.arange(len(k)) + (n - k if self.together else 0)
        places = {"mark": self.marks(k, i), "marks": self.marks(k, 0 * k), "marks of other": self.marks(i, 0 * i)}
        groups = [Columns("pair", at, places, {"count": i[:, None].astype(np.float64)})]
        if self.together:
            before = np.setdiff1d(np.arange(len(k) + n), at)
            own = {"marks": self.marks(rows, 0 * rows)}
            groups.append(Columns("row", before, own, {"count": rows[:, None].astype(np.float64)}))
        return Table(groups)

    def list_marked(self) -> None:
        """List the tiles that have marks in any environment, in both orders: loops need not look at the others."""
        self._inwards, self._outwards = (self._listed(outwards=outwards) for outwards in (False, True))

    def _listed(self, *, outwards: bool) -> Place:
        k, i = self._order(outwards=outwards)
        found = self.loops.take(len(k) + 1)

        def begin(code: RowCode) -> None:
            _for_all(code, 1.0, lambda: code.write("list", [0.0]))

        def note(code: RowCode) -> None:
            def append() -> None:
                number = code.read("list") + 1.0
                code.recorder.write("list", [code.number("row")], 0, number)
                code.write("list", [number])

            _for_all(code, trace.any_of(code.read("mark")), append)

        at = np.arange(len(k))
        places = {"mark": self.marks(k, i), "list": Column.same(found, len(k))}
        rows = Table([Columns("tile", at, places, {"row": at[:, None].astype(np.float64)})])
        way = "outwards" if outwards else "inwards"
        self.loops.loop(f"{self.name}, no list {way}", [Row("list", {"list": found})], begin)
        self.loops.loop(f"{self.name}, list {way}", rows, note)
        return found

    def _order(self, *, outwards: bool) -> tuple[Ints, Ints]:
        """All tiles, row by row; inwards from the last row, first the one on the diagonal, outwards the other way."""
        n = self.tiling.count
        if outwards:
            k, i = np.tril_indices(n)
            return k, i
        k = np.repeat(np.arange(n - 1, -1, -1), np.arange(n, 0, -1))
        return k, np.concatenate([np.append(k, np.arange(k)) for k in range(n - 1, -1, -1)])

    def each_tile(
        self,
        name: str,
        more: Callable[[Ints, Ints], Iterable[TileRows]],
        body: Callable[[RowCode], None],
        *,
        outwards: bool = False,
    ) -> None:
        """Each tile that has a mark, row by row; its code knows it as `mine`, and as `own` that on the diagonal.

        Args:
            name: of the loop.
            more: the kinds of rows, and what else they have, by the numbers of their tiles.
            body: what is done.
            outwards: from the first row to the last, instead of from the last to the first.
        """
        every, groups = self._order(outwards=outwards), []
        for rows in more(*every):
            at = np.flatnonzero(rows.which)
            k, i = (x[at] for x in every)
            places = {"mark": self.marks(k, i), "mine": self.tiles(k, i), "own": self.tiles(k, k), **self._idle(k)}
            groups.append(Columns(rows.kind, at, {**rows.places(k, i), **places}, rows.numbers(k, i)))

        def run(code: RowCode) -> None:
            self.if_marked(code, code.read("mark"), lambda: body(code))

        self.loops.loop(name, Table(groups), run, self._outwards if outwards else self._inwards)

    def take(self, other: TreeMatrix) -> None:
        """The entries of a matrix of the tree alone; zero is all else that has a mark."""
        tiling = self.tiling

        self.each_tile(
            f"{self.name}, nothing",
            lambda k, _: [TileRows("tile", k >= 0)],
            lambda code: code.write("mine", [0.0] * N_TILE),
        )
        marks = self.loops.marks_of_dofs()
        rows = [
            Row("entry", {"from": other.entry(dof, x), "to": self.entry(dof, x), **marks[dof]})
            for dof, path in self.paths.items()
            for x in path
        ]
        for k, dofs in enumerate(tiling.dofs):  # where there is no degree of freedom, nothing is divided by zero
            for i in range(len(dofs), SIDE):
                place = Place(SCRATCH, self.tile(k, k).row + (SIDE + 1) * i)
                rows.append(Row("one", {"to": place, **marks[dofs[0]]}))

        def body(code: RowCode) -> None:
            code.write("to", [code.read("from") if code.kind == "entry" else 1.0])

        self.loops.loop(f"{self.name}, taken", rows, body)

    def each_marked(self, code: RowCode, body: Callable[[], None]) -> None:
        """The first tiles of a row that have a mark, as many as its `count`; the turn says which it is."""
        recorder = code.recorder

        def one(turn: Value) -> None:
            self.if_marked(code, recorder.read("marks", 0, turn), body)

        recorder.count("tiles", code.number("count"), one, uniform=True)

    def if_marked(self, code: RowCode, mark: Value, body: Callable[[], None]) -> None:
        """Where a tile has a mark."""

        def run() -> list[Value]:
            body()
            return []

        code.recorder.where("marked", 0.5, mark, run, [], together=self.together)


def _for_all(code: RowCode, flag: Value, do: Callable[[], object]) -> None:
    """Where a flag is above a half, for all environments that run side by side, whether they take part or not.

    A list that they share is read as the first of them has it.
    """

    def run() -> list[Value]:
        do()
        return []

    code.recorder.where("for all", 0.5, flag, run, [], together=True)
