"""Who sleeps, by links and by degrees of freedom."""

from __future__ import annotations

from kinema import trace
from kinema.trace import RowCode

from ..arrays import Owner
from ..sweeps.idle import trees_of_frames
from ..sweeps.tree import WORLD
from .situation import Situation


def sleep(now: Situation) -> None:
    """Which links sleep."""
    s, table, trees = now.s, [], trees_of_frames(now.s.model)
    for link in s.links:
        frame = int(s.model.links.frame_idx[link])
        table.append(s.link_row(link))
        table[-1].places.update({} if frame == WORLD else s.arrays_of(Owner.TREE, trees[frame]))

    def body(code: RowCode) -> None:
        link = s.link(code)
        may = link.moves and s.settings.sleep > 0.0
        asleep = trace.select(0.5, code.read("asleep"), 1.0, 0.0) if may else 0.0
        s.write("hibernated", link, [asleep])

    s.loop("who sleeps", table, body)


def write_awake(now: Situation) -> None:
    """Which degrees of freedom are awake."""
    s, table, trees = now.s, [], trees_of_frames(now.s.model)
    for node in s.nodes:
        table.append(s.frame_row(node))
        table[-1].places.update(s.arrays_of(Owner.TREE, trees[node.index]))

    def body(code: RowCode) -> None:
        node = s.node(code)
        awake = trace.select(code.read("asleep"), 0.5, 1.0, 0.0) if s.settings.sleep else 1.0
        s.write("mass_mat_mask", node, [awake] * len(node.dofs))

    s.loop("awake", table, body)
