"""A matrix of which nothing is left out, for a team."""

from __future__ import annotations

from kinema.trace import SCRATCH, Place

from ..sweeps.sweeps import Sweeps


class FullMatrix:
    """A symmetric matrix over all degrees of freedom, by rows, in the scratch memory."""

    def __init__(self, s: Sweeps) -> None:
        dofs = [dof for node in s.nodes for dof in node.dofs]
        self.position = {dof: i for i, dof in enumerate(dofs)}
        self.n = len(dofs)
        self.pitch = self.n | 1
        """Odd, so that threads that look at a column find it in different banks of memory."""
        self.start = s.take(self.n * self.pitch).row

    def entry(self, i: int, j: int) -> Place:
        """Where an entry is."""
        return Place(SCRATCH, self.start + i * self.pitch + j)

    def between(self, a: int, b: int) -> Place:
        """Where the entry of two degrees of freedom is, in the lower half."""
        i, j = sorted((self.position[a], self.position[b]), reverse=True)
        return self.entry(i, j)
