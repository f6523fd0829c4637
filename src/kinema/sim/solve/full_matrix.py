"""A matrix of which nothing is left out, for a team."""

from __future__ import annotations

from kinema.trace import SCRATCH, Place, Value

from ..sweeps.sweeps import Sweeps


class FullMatrix:
    """A symmetric matrix over all degrees of freedom, by rows, in the scratch memory."""

    def __init__(self, s: Sweeps) -> None:
        self.s = s
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

    def row(self, number: Value) -> list[Value]:
        """All entries of a row."""
        read, at = self.s.recorder.read, number * float(self.pitch)
        return [read(SCRATCH, self.start + j, at) for j in range(self.n)]

    def copied(self) -> FullMatrix:
        """The same, to be added to."""
        recorder, to = self.s.recorder, FullMatrix(self.s)

        def one(turn: Value) -> list[Value]:
            recorder.write(SCRATCH, [recorder.read(SCRATCH, self.start, turn)], to.start, turn)
            return []

        recorder.share("the inertia, to be added to", float(to.n * to.pitch), one)
        return to
