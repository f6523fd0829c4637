"""Which degrees of freedom a team eliminates at once: those of limbs that only the trunk between them couples.

The curvature is as sparse as the tree, but for what contacts and loops couple. What may be coupled is known of loops
when a program is made; whether contacts couple two limbs, is seen once they are listed, and then nothing is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kinema import trace
from kinema.trace import SCRATCH, Limbs, Slot, Value

from ..collide.listing import Lists, last_carried, preorder
from ..constrain.gathered import Gathered
from ..constrain.taking import Group, InRecord, Kept
from ..sweeps.sweeps import Sweeps
from ..sweeps.tree import WORLD, Node

TEAM = 32
"""Threads that there are at least."""
LEVERS = 12
"""Rows of contacts that push, in a wild run of a robot."""
FREE = 6
"""Degrees of freedom of a body that hangs on nothing; some of them are of one frame."""
Frames = tuple[int, int]
"""Between which numbers those of frames are, by `preorder`."""


@dataclass(frozen=True, slots=True)
class Split:
    """A trunk, and limbs on it."""

    limbs: Limbs
    frames: Sequence[Frames]
    """Of each limb."""

    @property
    def cost(self) -> float:
        """About how many instructions a solution takes."""
        n, longest, count = len(self.limbs.trunk), self.limbs.longest, self.limbs.n_limbs
        both = 0 if count + n <= TEAM else n
        share = 5 + 1.25 * self.limbs.columns(TEAM)[1]
        limbs = longest * (28 + 1.3 * n + 0.7 * longest) + count * share
        return 30 + limbs + n * (24 + 0.6 * n) + LEVERS * (2 * longest + 1.3 * n + both)


def cost_of_all(n: int) -> float:
    """About how many instructions a solution takes that leaves nothing out."""
    rows = -(-n // TEAM)
    return n * (24 + 0.6 * n) + LEVERS * n * (rows + 0.25)


def find_split(s: Sweeps, coupled: Iterable[Iterable[int]]) -> Split | None:
    """The best there is, for what rows of constraints couple; None where leaving nothing out is as good.

    From all of it in limbs, the root of the longest becomes part of the trunk, again and again. Lone bodies that hang
    on nothing are what everything else touches, and part of it from the beginning.
    """
    tree = _Tree(s, [set(dofs) for dofs in coupled])
    roots = tree.children.get(WORLD, [])
    lone = [node for node in roots if tree.is_lone(node)]
    trunk = [node for root in lone for node in tree.carried(root)] if len(lone) < len(roots) else []
    limbs = [node for node in roots if node not in trunk]
    best, least = None, cost_of_all(tree.n)
    while limbs:
        found = tree.split(trunk, limbs)
        if found is not None and found.cost < least:
            best, least = found, found.cost
        longest = max(limbs, key=lambda node: len(tree.unknowns(node)))
        trunk = [*trunk, longest]
        limbs = [*(node for node in limbs if node is not longest), *tree.children.get(longest.index, [])]
    return best


class _Tree:
    """Frames, and the unknowns of what they carry."""

    def __init__(self, s: Sweeps, coupled: Sequence[set[int]]) -> None:
        self.order, self.last = preorder(s), last_carried(s)
        self.children: dict[int, list[Node]] = {}
        self.nodes = s.nodes
        for node in s.nodes:
            self.children.setdefault(node.parent, []).append(node)
        self.position = {dof: i for i, dof in enumerate(dof for node in s.nodes for dof in node.dofs)}
        self.n = len(self.position)
        self.coupled = [{self.position[dof] for dof in dofs if dof in self.position} for dofs in coupled]

    def carried(self, node: Node) -> list[Node]:
        """A frame, and all that it carries."""
        first, last = self.order[node.index], self.last[node.index]
        return [other for other in self.nodes if first <= self.order[other.index] <= last]

    def unknowns(self, node: Node) -> list[int]:
        """Of a frame and all that it carries."""
        return sorted(self.position[dof] for own in self.carried(node) for dof in own.dofs)

    def is_lone(self, root: Node) -> bool:
        """Whether it is one body that moves freely."""
        sizes = [len(node.dofs) for node in self.carried(root)]
        return sum(sizes) == FREE and max(sizes) > 1

    def split(self, trunk: Sequence[Node], limbs: Sequence[Node]) -> Split | None:
        """With these; None where they are no limbs, or too many for a team."""
        parts = [(node, own) for node in limbs if (own := self.unknowns(node))]
        parts.sort(key=lambda part: part[1][0])
        if any(own != list(range(own[0], own[-1] + 1)) for _, own in parts):
            return None
        if any(sum(not touched.isdisjoint(own) for _, own in parts) > 1 for touched in self.coupled):
            return None
        rest = tuple(sorted(self.position[dof] for node in trunk for dof in node.dofs))
        found = Limbs(tuple((own[0], len(own)) for _, own in parts), rest, None)
        frames = [(self.order[node.index], self.last[node.index]) for node, _ in parts]
        return Split(found, frames) if found.fit(TEAM) else None


def with_contacts(split: Split, s: Sweeps, lists: Lists | None, gathered: Gathered | None) -> Limbs:
    """The limbs, and where it says whether contacts couple any of them; nothing says so where none ever can."""
    if lists is None or gathered is None:
        return split.limbs

    def limb_of(frame: int) -> int:
        number = lists.order[frame]
        return next((i for i, (first, last) in enumerate(split.frames) if first <= number <= last), -1)

    found = [[limb_of(frame) for frame in plan.frames] for plan in lists.plans]
    if not any(a >= 0 and b >= 0 and a != b for a, b in found):
        return split.limbs
    total: Value = 0.0
    for group in gathered.groups:

        def one(turn: Value, group: Group = group) -> list[Value]:
            a, b = InRecord(s, group, turn).read(Kept.FRAMES, 2)
            return [_couples(split.frames, a, b)]

        total = total + s.recorder.share("limbs that touch", gathered.count(group), one, 1)[0]
    place = s.take_fixed(1)
    s.recorder.write(SCRATCH, [trace.select(total, 0.5, 1.0, 0.0)], place.row)
    s.recorder.new_line()
    return Limbs(split.limbs.parts, split.limbs.trunk, Slot(SCRATCH, place.row))


def _couples(limbs: Sequence[Frames], a: Value, b: Value) -> Value:
    """Whether two frames are in different limbs."""

    def limb_of(frame: Value) -> Value:
        number: Value = 0.0
        for i, (first, last) in enumerate(limbs):
            inside = trace.select(first - 0.5, frame, trace.select(frame, last + 0.5, 1.0, 0.0), 0.0)
            number = number + (i + 1.0) * inside
        return number

    first, second = limb_of(a), limb_of(b)
    other = trace.select(0.5, trace.absolute(first - second), 1.0, 0.0)
    return trace.select(0.5, trace.minimum(first, second), other, 0.0)
