"""Vectors over degrees of freedom in which each tree has as much room as the widest: for heaps, on a GPU."""

from __future__ import annotations

from kinema.trace import SCRATCH, Place, Value

from .quantities import Quantity
from .sweeps import Sweeps
from .tree import WORLD, Node


class Rooms:
    """Trees one behind the other, each with the same room; what one has not got of it stays zero."""

    def __init__(self, s: Sweeps) -> None:
        self.s = s
        self.tree_of: dict[int, int] = {}
        """Of each frame the number of its tree among those that are stepped together."""
        dofs: list[list[int]] = []
        for node in s.nodes:
            if node.parent == WORLD:
                dofs.append([])
            self.tree_of[node.index] = len(dofs) - 1 if node.parent == WORLD else self.tree_of[node.parent]
            dofs[self.tree_of[node.index]] += node.dofs
        self.count = len(dofs)
        self.width = widest(dofs)
        self.n = self.count * self.width
        """Numbers of a vector."""
        self.position = {dof: t * self.width + i for t, own in enumerate(dofs) for i, dof in enumerate(own)}
        """Of each degree of freedom where it is in a vector."""
        self.gaps = sorted(set(range(self.n)) - set(self.position.values()))
        """Where there is none."""

    @property
    def is_plain(self) -> bool:
        """Whether vectors are as they are elsewhere."""
        return list(self.position.values()) == list(range(self.n)) and [*self.position] == self._dofs

    @property
    def _dofs(self) -> list[int]:
        return [dof for node in self.s.nodes for dof in node.dofs]

    def vector(self, name: str) -> Quantity[list[Value]]:
        """A number for each degree of freedom."""
        made: Quantity[list[Value]] = self.s.quantity(name)
        start = self.s.take(self.n).row

        def place(node: Node) -> Place:
            return Place(SCRATCH, start + self.position[node.dofs[0]])

        made.put_at(
            {node.here: place(node) for node in self.s.nodes},
            {node.here: [0.0] * len(node.dofs) for node in self.s.nodes},
        )
        return made


def widest(dofs: list[list[int]]) -> int:
    """Degrees of freedom of the widest tree."""
    return max((len(own) for own in dofs), default=0)
