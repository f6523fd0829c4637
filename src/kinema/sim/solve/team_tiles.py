"""Equations of a heap, solved by a team: the matrix is tiles between trees that touch, or are coupled on the way.

Trees are eliminated one after the other, whichever is coupled with the fewest first (`Arrange`). Of each its own tile
is factorised by all threads alike, in registers; then a thread has a row of a tile that it is coupled by, and then a
row of a tile between two of those.
"""

from __future__ import annotations

from collections.abc import Callable

from kinema import trace
from kinema.trace import SCRATCH, Arrange, Choose, Slot, Value

from ..constrain.between_trees import BetweenTrees, divided
from ..sweeps.maths import dot, sum_of
from ..sweeps.rooms import Rooms
from ..sweeps.sweeps import Sweeps

TILES_OF_TREE = 8
"""Tiles that there is room for between trees, for each of them: of 50 objects that have eight neighbours each it takes
6.6 at most, of 4 x 4 x 4 cubes 7.3, with what elimination fills in."""
NEAR_TILES = 2
"""Likewise near at hand, with its own: what a tower takes."""
MOST_NEAR = 2048
"""Numbers of tiles that are near at hand at all."""
ORDER, RANK, FIRST, MANY = range(4)
"""What is told of trees; see `Arrange`."""


class TeamTiles:
    """A matrix of tiles, those of trees with themselves first, and which of them there are."""

    def __init__(self, s: Sweeps, rooms: Rooms) -> None:
        self.s, self.rooms = s, rooms
        count, self.area = rooms.count, rooms.width**2
        self.room = max(min(count * (count - 1) // 2, TILES_OF_TREE * count), 1)
        self.trees = s.take(4 * count).row
        self.pairs = s.take(2 * self.room, distant=True).row
        self.between = s.take(count * count, distant=True).row
        self.told = s.take_fixed(2).row
        self.tiles = s.take((count + self.room) * self.area, distant=True).row

    def arrange(self, contacts: BetweenTrees | None) -> None:
        """Find out which tiles there are."""
        recorder, rooms = self.s.recorder, self.rooms
        places = [Slot(SCRATCH, row) for row in (self.trees, self.pairs, self.between, self.told)]
        couplings = () if contacts is None else contacts.couplings()
        recorder.add(Arrange("trees", rooms.count, self.room, couplings, *places), {})
        near = min(NEAR_TILES, 1 + self.room // rooms.count) * rooms.count
        if near * self.area > MOST_NEAR:
            return
        tiles, length = Slot(SCRATCH, self.tiles), (rooms.count + self.room) * self.area
        between, count = Slot(SCRATCH, self.told), rooms.count
        recorder.add(Choose("tiles", tiles, length, self.area, between, near - count, always=count), {})

    @property
    def is_missing_some(self) -> Value:
        """1 where there is no room for all tiles, so that solutions are not exact."""
        return self._read(self.told + 1)

    def _read(self, row: int, index: Value | None = None) -> Value:
        return self.s.recorder.read(SCRATCH, row, index)

    def _of_tree(self, what: int, tree: Value) -> Value:
        return self._read(self.trees + what, tree * 4.0)

    def _tile(self, tile: Value, row: int, column: int) -> Value:
        """An entry of a tile."""
        return self._read(self.tiles + row * self.rooms.width + column, tile * float(self.area))

    def _row(self, tile: Value, row: Value) -> list[Value]:
        """A row of a tile that is known only when it runs."""
        at = tile * float(self.area) + row * float(self.rooms.width)
        return [self._read(self.tiles + i, at) for i in range(self.rooms.width)]

    def _put_row(self, tile: Value, row: Value, values: list[Value]) -> None:
        at = tile * float(self.area) + row * float(self.rooms.width)
        self.s.recorder.write(SCRATCH, values, self.tiles, at)

    def _rows_of_tiles(self, name: str, n_tiles: Value, body: Callable[[Value, Value], None]) -> None:
        """Each row of some tiles, by a thread each."""
        width = self.rooms.width

        def one(turn: Value) -> list[Value]:
            body(*divided(turn, width))
            return []

        self.s.recorder.share(name, n_tiles * float(width), one)

    # -------------------------------------------------------------------------------------------------- what is in it

    def fill(self, inertia: int, diagonal: int, contacts: BetweenTrees | None) -> None:
        """The inertia, numbers on the diagonal, and what contacts add."""
        recorder, width, count = self.s.recorder, self.rooms.width, float(self.rooms.count)

        def one(tile: Value, row: Value) -> None:
            sums, beyond = recorder.local(width), tile - count
            pair = trace.maximum(beyond, 0.0) * 2.0
            own, other = (trace.select(beyond, -0.5, tile, self._read(self.pairs + i, pair)) for i in range(2))
            counts = trace.select(beyond, -0.5, 1.0, 0.0)
            at = counts * (tile * float(self.area) + row * float(width))
            stiff = self._read(diagonal, own * float(width) + row)
            for i in range(width):
                here = trace.select(trace.absolute(row - float(i)), 0.5, stiff, 0.0)
                recorder.write(sums, [counts * (self._read(inertia + i, at) + here)], i)
            if contacts is not None:
                contacts.add_stiffness(sums, (own, other), row)
            self._put_row(tile, row, [recorder.read(sums, i) for i in range(width)])

        self._rows_of_tiles("tiles", count + self._read(self.told), one)

    # ---------------------------------------------------------------------------------------------------- the solution

    def solve(self, most: int, x: int) -> None:
        """Replace a vector by the solution; no inverse of a pivot is above `most`."""
        recorder, count = self.s.recorder, float(self.rooms.count)

        def eliminate(turn: Value) -> None:
            self._eliminate(self._of_tree(ORDER, turn), most, x)

        def back(turn: Value) -> None:
            self._back(self._of_tree(ORDER, count - 1.0 - turn), x)

        recorder.count("trees, the first to go first", count, eliminate)
        recorder.count("trees, back again", count, back)

    def _eliminate(self, tree: Value, most: int, x: int) -> None:
        recorder, n, at = self.s.recorder, self.rooms.width, tree * float(self.rooms.width)
        own = [[self._tile(tree, i, j) for j in range(i + 1)] for i in range(n)]
        right = [self._read(x + i, at) for i in range(n)]
        inverses: list[Value] = [0.0] * n
        for k in reversed(range(n)):
            bound = self._read(most + k, at)
            inverses[k] = trace.select(1.0, bound * own[k][k], 1.0 / own[k][k], bound)
            for i in range(k):
                factor = own[k][i] * inverses[k]
                for j in range(i + 1):
                    own[i][j] = own[i][j] - factor * own[k][j]
                right[i] = right[i] - factor * right[k]
            own[k] = [*(own[k][i] * inverses[k] for i in range(k)), inverses[k]]
        first, many = self._of_tree(FIRST, tree), self._of_tree(MANY, tree)
        scaled = [a * b for a, b in zip(inverses, right, strict=True)]
        for k in range(n):
            recorder.write(SCRATCH, own[k], self.tiles + k * n, tree * float(self.area))
        recorder.write(SCRATCH, right, x, at)
        start = float(self.rooms.count) + first

        def reduce(number: Value, row: Value) -> None:
            tile = start + number
            found = self._row(tile, row)
            for k in reversed(range(n)):
                for i in range(k):
                    found[i] = found[i] - own[k][i] * found[k]
            self._put_row(tile, row, found)
            place = self._read(self.pairs, (first + number) * 2.0) * float(n) + row
            recorder.write(SCRATCH, [self._read(x, place) - dot(found, scaled)], x, place)

        def update(pair: Value, row: Value) -> None:
            self._update(pair, row, first, inverses)

        self._rows_of_tiles("tiles of a tree", many, reduce)
        self._rows_of_tiles("tiles between its neighbours", 0.5 * many * (many + 1.0), update)

    def _update(self, pair: Value, row: Value, first: Value, inverses: list[Value]) -> None:
        """Take from a row of a tile what the elimination of a tree leaves between two that it was coupled with."""
        n, count = self.rooms.width, float(self.rooms.count)
        b = trace.floor(0.5 * trace.sqrt(8.0 * pair + 1.5) - 0.5)
        a = pair - 0.5 * b * (b + 1.0)
        trees = [self._read(self.pairs, (first + i) * 2.0) for i in (a, b)]
        ranks = [self._of_tree(RANK, tree) for tree in trees]
        later = trace.select(ranks[0], ranks[1], b, a)
        sooner = a + b - later
        between = count + self._read(self.between, trees[0] * count + trees[1])
        tile = trace.select(trace.absolute(a - b), 0.5, trees[0], between)
        start = count + first
        mine = [x * y for x, y in zip(self._row(start + later, row), inverses, strict=True)]
        found = self._row(tile, row)
        others = start + sooner
        taken = [dot(mine, [self._tile(others, j, i) for i in range(n)]) for j in range(n)]
        self._put_row(tile, row, [x - y for x, y in zip(found, taken, strict=True)])

    def _back(self, tree: Value, x: int) -> None:
        recorder, n, at = self.s.recorder, self.rooms.width, tree * float(self.rooms.width)
        first, many = self._of_tree(FIRST, tree), self._of_tree(MANY, tree)

        def column(item: Value) -> list[Value]:
            total = recorder.local(1)
            recorder.write(total, [self._read(x, at + item)])

            def one(number: Value) -> None:
                there = self._read(self.pairs, (first + number) * 2.0) * float(n)
                place = (float(self.rooms.count) + first + number) * float(self.area) + item
                taken = [self._read(self.tiles + i * n, place) * self._read(x + i, there) for i in range(n)]
                recorder.write(total, [recorder.read(total) - sum_of(taken)])

            recorder.count("tiles of a tree", many, one)
            recorder.write(SCRATCH, [recorder.read(total)], x, at + item)
            return []

        recorder.share("what others take", float(n), column)
        found: list[Value] = []
        for k in range(n):
            own = self._read(x + k, at) * self._tile(tree, k, k)
            found.append(own - dot([self._tile(tree, k, i) for i in range(k)], found) if k else own)
        recorder.write(SCRATCH, found, x, at)
