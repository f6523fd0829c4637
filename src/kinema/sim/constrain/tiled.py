"""What contacts between many trees do to a matrix of tiles: which tiles they fill, and how stiff these become."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kinema.trace import Place, Row, RowCode, Value

from ..collide.planned import SetKind
from ..collide.touches import Among, TouchSet
from ..sweeps.columns import PartRow
from ..sweeps.idle import trees_of_frames
from ..sweeps.maths import dot, scale, sub
from ..sweeps.matrix import TreeMatrix
from ..sweeps.quantities import Quantity
from ..sweeps.tiles import SIDE, TiledMatrix
from ..sweeps.tree import frame_ref
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
    return len({tree for touch in contacts.between_frames() for tree in contacts.trees_of(touch)}) >= ENOUGH


def _mark_touching(contacts: Contacts, matrix: TiledMatrix) -> None:
    """Mark the tiles that contacts fill."""

    def rows_of(touch: TouchSet) -> list[Row]:
        pairs = matrix.tiling.pairs(dof for dof, _ in contacts.apart(touch))
        return [Row("mark", {"mark": matrix.mark(a, b)}) for a, b in pairs]

    def body(code: RowCode, _: SetKind) -> None:
        code.each("marks", lambda inner: inner.write("mark", [1.0]))

    rows = [
        replace(contacts.touches.row(touch), inside={"marks": rows_of(touch)}) for touch in contacts.between_frames()
    ]
    contacts.touches.each("tiles that contacts fill", body, rows, Among.FRAMES)


def _add_stiffness_between(contacts: Contacts, matrix: TiledMatrix, stiff: Quantity[list[Value]]) -> None:
    """What contacts between moving frames add.

    Of those of two trees, what each of these feels of its own motion is as if the other were the world; what is left is
    tiles between both.
    """
    axes = contacts.places_of_axes()

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

    rows: list[PartRow] = []
    of_frames = trees_of_frames(contacts.s.model)
    for touch in contacts.between_frames():
        apart = dict(contacts.apart(touch))
        inside = []
        tree_a, tree_b = (of_frames[frame] for frame in touch.plan.frames)
        two = tree_a != tree_b
        trees = matrix.tiling.trees
        for a, b in ((a, b) for a, b in matrix.tiling.pairs(apart) if not two or trees[a] != trees[b]):
            places = {"tile": matrix.tile(a, b)}
            numbers: dict[str, Sequence[float]] = {}
            for word, tile in (("axis", a), ("other", b)):
                own, signs = _axes(matrix.tiling.dofs[tile], apart, axes)
                places |= {f"{word} {i}": place for i, place in enumerate(own)}
                numbers[f"{word} signs"] = signs
            inside.append(Row("tile", places, numbers))
        rows.append(replace(contacts.touches.row(touch), inside={"tiles": inside}, numbers={"two trees": [float(two)]}))
        rows[-1].places.update({"middle a": contacts.middle.of(tree_a), "middle b": contacts.middle.of(tree_b)})
    contacts.touches.each("stiffness of contacts between trees", body, rows, Among.FRAMES)


def _axes(dofs: Sequence[int], apart: dict[int, float], axes: dict[int, Place]) -> tuple[list[Place], list[float]]:
    """Of each row of a tile its axis, and how it moves the second frame of a set against the first."""
    some = axes[next(iter(apart))]
    own = [axes[d] if d in apart else some for d in dofs] + [some] * (SIDE - len(dofs))
    return own, [apart.get(d, 0.0) for d in dofs] + [0.0] * (SIDE - len(dofs))


def _signed(code: RowCode, word: str) -> list[list[Value]]:
    signs = code.numbers(f"{word} signs")
    return [list(scale(sign, code.array(f"{word} {i}", 6))) for i, sign in enumerate(signs)]
