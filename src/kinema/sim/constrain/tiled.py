"""What contacts between many trees do to a matrix of tiles: which tiles they fill, and how stiff these become."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kinema.trace import SCRATCH, Column, Columns, Inside, RowCode, Table, Value

from ..collide.planned import SetKind
from ..collide.touch_sets import SetColumns, TouchSet
from ..collide.touches import Among
from ..sweeps.columns import PartColumns
from ..sweeps.idle import trees_of_frames
from ..sweeps.maths import dot, scale, sub
from ..sweeps.matrix import TreeMatrix
from ..sweeps.quantities import Quantity
from ..sweeps.tiles import SIDE, TiledMatrix, Tiling
from ..sweeps.tree import WORLD, Ints, frame_ref
from .contacts import Contacts
from .levers import first_point, read_all, resistance_about, stiffness_moved, stiffness_of_set, twist_of
from .rows import Rows

ENOUGH = 4
"""Trees that may touch each other from which on it pays to look which of them do."""


def tiles_for(contacts: Contacts, rows: Rows, mass: TreeMatrix) -> TiledMatrix | None:
    """Room for the curvature where many trees may touch, and the marks of what does; None where few may."""
    s = contacts.s
    if not _is_worth_tiles(contacts):
        return None
    with s.staying():
        matrix = TiledMatrix(mass, "inertia with contacts")
        matrix.unmark()
        matrix.mark_known(block.dofs for block in rows.blocks)
        _mark_touching(contacts, matrix)
        matrix.mark_filled()
        matrix.list_marked()
    return matrix


def fill_tiles(matrix: TiledMatrix, mass: TreeMatrix, rows: Rows, contacts: Contacts) -> None:
    """The inertia, and what constraints and contacts add to it where they are."""
    with contacts.s.staying():
        matrix.take(mass)
        rows.add_stiffness(matrix)
        contacts.add_stiffness_on_world(matrix, lambda stiff: _add_stiffness_between(contacts, matrix, stiff))


def _is_worth_tiles(contacts: Contacts) -> bool:
    """Whether so many trees may touch that most of them do not."""
    of_frames, sets = trees_of_frames(contacts.s.model), contacts.between_frames()
    return len({of_frames[frame] for touch in sets for frame in touch.plan.frames if frame != WORLD}) >= ENOUGH


def _mark_touching(contacts: Contacts, matrix: TiledMatrix) -> None:
    """Mark the tiles that contacts fill."""

    def body(code: RowCode, _: SetKind) -> None:
        code.each("marks", lambda inner: inner.write("mark", [1.0]))

    between, rows = TilesBetween(contacts, matrix.tiling), []
    for sets in contacts.touches.columns(Among.FRAMES):
        a, b, many = between.all_of(sets)
        marks = Table([Columns("mark", np.arange(len(a)), {"mark": matrix.marks(a, b)})])
        rows.append(contacts.touches.rows_of(sets, inside={"marks": Inside(marks, many)}))
    contacts.touches.each("tiles that contacts fill", body, rows, Among.FRAMES)


def _add_stiffness_between(contacts: Contacts, matrix: TiledMatrix, stiff: Quantity[list[Value]]) -> None:
    """What contacts between moving frames add.

    Of those of two trees, what each of these feels of its own motion is as if the other were the world; what is left is
    tiles between both.
    """

    def body(code: RowCode, kind: SetKind) -> None:
        point = first_point(code, kind)
        made = stiffness_of_set(code, kind, contacts.law, lambda: read_all(code, point, 3))
        for word in ("a", "b"):
            away = sub(read_all(code, point, 3), code.array(f"middle {word}", 3))
            moved = stiffness_moved(read_all(code, made), away)
            stiff.add(frame_ref(f"{word} "), list(scale(code.number("two trees"), moved)))

        def of_tile(inner: RowCode) -> None:
            stiffness, about = read_all(inner, made), read_all(inner, point, 3)
            felt = [resistance_about(stiffness, about, twist_of(axis)) for axis in _signed(inner, "axis")]
            others = _signed(inner, "other")
            added = [dot(other, [*wrench.torque, *wrench.force]) for wrench in felt for other in others]
            before = inner.array("tile", SIDE * SIDE)
            inner.write("tile", [a + b for a, b in zip(before, added, strict=True)])

        code.each("tiles", of_tile)

    rows: list[PartColumns] = []
    between, of_frames = TilesBetween(contacts, matrix.tiling), np.array(trees_of_frames(contacts.s.model))
    for sets in contacts.touches.columns(Among.FRAMES):
        tiles, many = between.axes_of(matrix, sets)
        trees = [of_frames[parts.index] for parts in sets.frames]
        numbers = {"two trees": (trees[0] != trees[1]).astype(np.float64)[:, None]}
        rows.append(contacts.touches.rows_of(sets, numbers=numbers, inside={"tiles": Inside(tiles, many)}))
        for word, own in zip("ab", trees, strict=True):
            rows[-1].put(f"middle {word}", contacts.middle.of_each(own))
    contacts.touches.each("stiffness of contacts between trees", body, rows, Among.FRAMES)


class TilesBetween:
    """Of sets the tiles that their contacts fill, and the axes of joints that these are made of.

    What of a set between two trees belongs to each of its frames is found once for that frame.
    """

    def __init__(self, contacts: Contacts, tiling: Tiling) -> None:
        self._contacts, self._tiling = contacts, tiling
        self._trees = trees_of_frames(contacts.s.model)
        self._axes = {dof: place.row for dof, place in contacts.places_of_axes().items()}
        self._found: dict[int, _OfFrame] = {}

    def all_of(self, sets: SetColumns) -> tuple[Ints, Ints, Ints]:
        """The rows and columns of tiles, and how many each set fills."""
        pairs = [self._pairs(touch) for touch in sets.sets]
        flat = np.array([pair for own in pairs for pair in own], np.int64).reshape(-1, 2)
        return flat[:, 0], flat[:, 1], np.array([len(own) for own in pairs], np.int64)

    def axes_of(self, matrix: TiledMatrix, sets: SetColumns) -> tuple[Table, Ints]:
        """Rows of tiles with their axes, and how many each set has; but for those within one of two trees."""
        found, many = [], []
        for touch in sets.sets:
            own = list(self._of_two_trees(touch)) if self._are_two(touch) else list(self._of_one_tree(touch))
            found += own
            many.append(len(own))
        flat = np.array(found).reshape(len(found), -1)
        axes, signs = flat[:, 2 : 2 + 2 * SIDE].astype(np.int64), flat[:, 2 + 2 * SIDE :]
        a, b = flat[:, :2].T.astype(np.int64)
        places = {"tile": matrix.tiles(a, b)}
        for i in range(2 * SIDE):
            places[f"{'axis' if i < SIDE else 'other'} {i % SIDE}"] = Column(SCRATCH, axes[:, i])
        numbers = {"axis signs": signs[:, :SIDE], "other signs": signs[:, SIDE:]}
        groups = [Columns("tile", np.arange(len(flat)), places, numbers)] if found else []
        return Table(groups), np.array(many, np.int64)

    def _are_two(self, touch: TouchSet) -> bool:
        a, b = touch.plan.frames
        return self._trees[a] != self._trees[b]

    def _pairs(self, touch: TouchSet) -> list[tuple[int, int]]:
        if not self._are_two(touch):
            return self._tiling.pairs(dof for dof, _ in self._contacts.apart(touch))
        own = sorted([*self._of(touch.plan.frames[0]).tiles, *self._of(touch.plan.frames[1]).tiles])
        return [(a, b) for a in own for b in own if b <= a]

    def _of(self, frame: int) -> _OfFrame:
        if frame not in self._found:
            dofs = self._contacts.path(frame)
            tiles = {tile: _axes_of(self._tiling.dofs[tile], dofs, self._axes) for tile in self._tiling.of_dofs(dofs)}
            self._found[frame] = _OfFrame(tiles, min(dofs))
        return self._found[frame]

    def _of_two_trees(self, touch: TouchSet) -> Iterator[list[float]]:
        first, second = (self._of(frame) for frame in touch.plan.frames)
        some = self._axes[min(first.least, second.least)]
        sides = ((first, second), (-1.0, 1.0)), ((second, first), (1.0, -1.0))
        turned = {(a, b): way for way in sides for a in way[0][0].tiles for b in way[0][1].tiles if b <= a}
        for a, b in sorted(turned):
            owners, signs = turned[a, b]
            own = [owner.tiles[tile] for owner, tile in zip(owners, (a, b), strict=True)]
            axes = [some if axis is None else axis for side in own for axis in side]
            known = [0.0 if axis is None else sign for side, sign in zip(own, signs, strict=True) for axis in side]
            yield [a, b, *axes, *known]

    def _of_one_tree(self, touch: TouchSet) -> Iterator[list[float]]:
        apart = dict(self._contacts.apart(touch))
        some = self._axes[next(iter(apart))]
        for a, b in self._tiling.pairs(apart):
            own = [axis for tile in (a, b) for axis in _axes_of(self._tiling.dofs[tile], apart, self._axes)]
            signs = [apart.get(dof, 0.0) for tile in (a, b) for dof in [*self._tiling.dofs[tile], *[-1] * SIDE][:SIDE]]
            yield [a, b, *(some if axis is None else axis for axis in own), *signs]


@dataclass(frozen=True, slots=True, eq=False)
class _OfFrame:
    """What a frame has in tiles."""

    tiles: Mapping[int, Sequence[int | None]]
    """Where the axes of its rows are; None for those that do not move the frame."""
    least: int
    """The first degree of freedom that moves it."""


def _axes_of(dofs: Sequence[int], moving: Collection[int], axes: Mapping[int, int]) -> list[int | None]:
    """Of each row of a tile its axis, if it is of those that move something."""
    return [axes[dof] if dof in moving else None for dof in dofs] + [None] * (SIDE - len(dofs))


def _signed(code: RowCode, word: str) -> list[list[Value]]:
    signs = code.numbers(f"{word} signs")
    return [list(scale(sign, code.array(f"{word} {i}", 6))) for i, sign in enumerate(signs)]
