"""A point amid each tree, about which contacts with the world resist its motions.

What contacts resist grows with the square of how far they are from where they are looked at. About an origin a metre
away, a ball of a centimetre that hardly rolls would be lost in what single precision rounds off.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kinema.model import Model
from kinema.trace import RowCode

from ..collide.touch_sets import TouchSet
from ..rigid.kinematics import Pose
from ..sweeps.idle import trees_of_frames
from ..sweeps.quantities import Quantity
from ..sweeps.sweeps import Sweeps
from ..sweeps.tree import WORLD
from ..sweeps.trees import PerTree
from .levers import Axes, shifted


def middles_of_trees(s: Sweeps, sets: Sequence[TouchSet], frames: Quantity[Pose]) -> PerTree:
    """Where the middle of each tree is, about the origin of all contacts; `sets` are those with the world."""
    middle, trees = PerTree(s, 3), trees_of_frames(s.model)
    rows = []
    for frame in middle_frames(s.model, [node.index for node in s.nodes], [x.plan.frames[1] for x in sets]):
        rows.append(s.frame_row(s.tree.nodes[frame]))
        rows[-1].places["middle"] = middle.of(trees[frame])
    s.loop("middles of trees", rows, lambda code: code.write("middle", frames[s.node(code).here].position))
    return middle


def axes_about(s: Sweeps, axes: Quantity[Axes], middle: PerTree) -> Quantity[Axes]:
    """The axes of joints about the middles of their trees, instead of the origin."""
    found: Quantity[Axes] = s.quantity("axes about middles")
    trees, rows = trees_of_frames(s.model), []
    for node in s.nodes:
        rows.append(s.frame_row(node))
        rows[-1].places["middle"] = middle.of(trees[node.index])

    def body(code: RowCode) -> None:
        here, point = s.node(code).here, code.array("middle", 3)
        found.put(here, Axes([shifted(x, point) for x in axes[here].twists]))

    s.loop("axes about middles", rows, body)
    return found


def middle_frames(model: Model, frames: Sequence[int], touching: Sequence[int]) -> list[int]:
    """Of each tree the frame that is nearest to all its frames that touch, the farthest of them counted."""
    trees, found = trees_of_frames(model), []
    for tree in dict.fromkeys(trees[frame] for frame in frames):
        own = [frame for frame in frames if trees[frame] == tree]
        some = sorted({frame for frame in touching if trees[frame] == tree}) or own[-1:]
        ways = {frame: _way(model, frame) for frame in some}
        found.append(min(some, key=lambda a: max(_apart(ways[a], ways[b]) for b in some)))
    return found


def _way(model: Model, frame: int) -> dict[int, float]:
    """How far it is from a frame to each frame that holds it, and to itself, along the tree [m]."""
    way, length = {}, 0.0
    while frame != WORLD:
        way[frame] = length
        length += float(np.linalg.norm(model.frames.pos[frame]))
        frame = int(model.frames.parent_idx[frame])
    return way


def _apart(a: dict[int, float], b: dict[int, float]) -> float:
    return min(a[frame] + b[frame] for frame in a.keys() & b.keys())
