"""What whole trees have, and ways through them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kinema.trace import SCRATCH, Column, Place, Row, RowCode, Value

from .idle import IDLE, trees_of_frames
from .loops import Loops
from .tree import Ints, Node


class PerTree:
    """Numbers for each tree of a model, in the scratch memory."""

    def __init__(self, loops: Loops, width: int = 1) -> None:
        self.width = width
        self.first = loops.take(width * (max(loops.trees, default=-1) + 1))

    def of(self, tree: int, item: int = 0) -> Place:
        """Those of a tree, from one on."""
        return Place(SCRATCH, self.first.row + self.width * tree + item)

    def of_each(self, trees: Ints) -> Column:
        """Those of many trees."""
        return Column(SCRATCH, self.first.row + self.width * trees)


Places = Mapping[str, Place | PerTree]
"""Where arrays of rows are: for all rows, or for those of each tree."""


def places_in(tree: int, places: Places) -> dict[str, Place]:
    """Where arrays are for the rows of a tree."""
    return {name: place.of(tree) if isinstance(place, PerTree) else place for name, place in places.items()}


def each_tree(
    loops: Loops, name: str, places: Callable[[int], Mapping[str, Place]], body: Callable[[RowCode], None]
) -> None:
    """Each tree by itself, which knows its number as `tree`."""
    rows = [Row("tree", dict(places(tree)), {"tree": [float(tree)]}) for tree in loops.trees]
    with loops.staying():
        loops.loop(name, rows, body)


def each_busy_tree(loops: Loops, name: str, places: Places, body: Callable[[RowCode], None]) -> None:
    """Likewise, but for those that are idle."""
    idle = loops.idle
    assert idle is not None
    each_tree(loops, name, lambda tree: {**places_in(tree, places), IDLE: idle.of(tree)}, body)


def tree_totals(loops: Loops, name: str, to: PerTree, body: Callable[[Node], Sequence[Value]]) -> None:
    """Sums over the frames of each tree."""
    each_busy_tree(loops, f"{name}, none yet", {"total": to}, lambda code: code.write("total", [0.0] * to.width))
    trees, rows = trees_of_frames(loops.model), []
    for node in loops.nodes:
        rows.append(loops.frame_row(node))
        rows[-1].places["total"] = to.of(trees[node.index])

    def add(code: RowCode) -> None:
        found = body(loops.node(code))
        code.write("total", [a + b for a, b in zip(code.array("total", to.width), found, strict=True)])

    loops.loop(name, rows, add)
