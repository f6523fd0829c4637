"""Whether a solution is good enough for each tree by itself: what is small against all forces may be large for one.

In single precision a body that is held by ten newtons, beside one that is pressed by ten thousand, would be left to
slip: the whole solution ends when what is missing is small against all that is pushed.
"""

from __future__ import annotations

from kinema import trace
from kinema.trace import SCRATCH, RowCode, Value

from ..sweeps.idle import trees_of_frames
from ..sweeps.maths import dot
from ..sweeps.quantities import Quantity
from ..sweeps.sweeps import Sweeps
from ..sweeps.trees import PerTree, each_tree

OWN = 1e-4
"""How much of the slope may be left of a tree against its own forces."""
ROUNDED = 1e-6
"""And against those of all trees: what touches hands on the rounding of large forces."""
OfDofs = Quantity[list[Value]]


def tree_by_tree(s: Sweeps) -> TreeByTree | None:
    """What looks at each tree by itself, where one may be lost among others."""
    is_needed = len(s.trees) > 1 and s.settings.is_coarse and not s.recorder.in_team
    return TreeByTree(s) if is_needed else None


class TreeByTree:
    """The squares of the slope, and of the forces, of each tree."""

    def __init__(self, s: Sweeps) -> None:
        self.s = s
        self._sums = PerTree(s, 2)
        self._share = s.take_fixed(1)
        self._all = s.take_fixed(1)
        self._far = s.take_fixed(1)

    def far_off(self, slope: OfDofs, forces: OfDofs, share: Value) -> Value:
        """How many trees have more left of the slope than a share of their forces."""
        s, recorder, sums = self.s, self.s.recorder, self._sums
        for place, value in ((self._share, share * share), (self._all, 0.0), (self._far, 0.0)):
            recorder.write(SCRATCH, [value], place.row)
        recorder.new_line()  # whoever reads them, reads them now
        each_tree(s, "no slopes of trees", lambda t: {"sums": sums.of(t)}, lambda code: code.write("sums", [0.0] * 2))
        trees, rows = trees_of_frames(s.model), []
        for node in s.nodes:
            rows.append(s.frame_row(node))
            rows[-1].places.update({"sums": sums.of(trees[node.index]), "all": self._all})

        def add(code: RowCode) -> None:
            here = s.node(code).here
            squares = [dot(x[here], x[here]) for x in (slope, forces)]
            code.write("sums", [a + b for a, b in zip(code.array("sums", 2), squares, strict=True)])
            code.write("all", [code.read("all") + squares[1]])

        def look(code: RowCode) -> None:
            left, own = code.array("sums", 2)
            bound = code.read("share") * own + ROUNDED**2 * code.read("all")
            code.write("far", [code.read("far") + trace.select(bound, left, 1.0, 0.0)])

        s.loop("slopes of trees", rows, add)
        places = {"share": self._share, "all": self._all, "far": self._far}
        each_tree(s, "trees that are far off", lambda t: {"sums": sums.of(t), **places}, look)
        return recorder.read(SCRATCH, self._far.row)
