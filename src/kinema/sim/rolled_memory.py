"""What the joint-by-joint step keeps between its loops, and where."""

from __future__ import annotations

from collections.abc import Iterable

from kinema.trace import SCRATCH, Place

from .tree import WORLD

BODY = 21
"""Numbers of an articulated body: two symmetric matrices and a full one."""
BIAS = 6
"""The force beside it."""


class Scratch:
    """Rows of the arena `scratch`, given out one after the other.

    For each frame: `turning` (2), `spin` (3), `motion` (6) and `body` (27). Once a frame's accelerations have been
    used, `change` takes the place of `motion`, and once its degrees of freedom are let go, `released` that of `body`.
    The world has its own `change`, which stays zero.
    """

    def __init__(
        self, frames: Iterable[int], dofs: Iterable[int], *, attitudes: bool, composites: bool, inertias: bool
    ) -> None:
        self.attitudes = attitudes
        """Whether the frames' rotations in the world are kept."""
        self.composites = composites
        """Whether inertias with all that is carried are."""
        self.inertias = inertias
        """Whether frames' own inertias are, because they differ between environments."""
        self.n_rows = 0
        self.total = self.take(1)
        """The sum of the new state."""
        self._of_node = {frame: self._node() for frame in (WORLD, *frames)}
        self._of_node[WORLD]["change"] = self.take(6)
        self._of_dof = {dof: row for row, dof in enumerate(sorted(dofs), self.n_rows)}
        self._n_dofs = len(self._of_dof)
        self.n_rows += (3 if composites else 2) * self._n_dofs
        self._pairs: dict[tuple[str, int], Place] = {}

    def take(self, count: int) -> Place:
        """So many rows that nobody has."""
        place = Place(SCRATCH, self.n_rows)
        self.n_rows += count
        return place

    def pair(self, what: str, number: int) -> Place:
        """Two rows for a force and its slope."""
        if (what, number) not in self._pairs:
            self._pairs[what, number] = self.take(2)
        return self._pairs[what, number]

    def _node(self) -> dict[str, Place]:
        rows = {"turning": self.take(2), "spin": self.take(3), "motion": self.take(6), "body": self.take(BODY + BIAS)}
        rows |= {"change": rows["motion"], "released": rows["body"]}
        rows["bias"] = Place(SCRATCH, rows["body"].row + BODY)
        if self.attitudes:
            rows["attitude"] = self.take(9)
        if self.composites:
            rows["composite"] = self.take(10)
        if self.inertias:
            rows["inertia of links"] = self.take(10)
        return rows

    def of_node(self, frame: int) -> dict[str, Place]:
        """The rows of a frame."""
        return self._of_node[frame]

    def of_dof(self, dof: int) -> dict[str, Place]:
        """The rows of a degree of freedom: `push`, `hold`, perhaps `diagonal`; those of a frame are neighbours."""
        row, n = self._of_dof[dof], self._n_dofs
        result = {"push": Place(SCRATCH, row), "hold": Place(SCRATCH, row + n)}
        if self.composites:
            result["diagonal"] = Place(SCRATCH, row + 2 * n)
        return result
