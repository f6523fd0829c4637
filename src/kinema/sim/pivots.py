"""Whether a model can be moved at all: the inertia that each degree of freedom is left with, in plain numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from kinema.foundation import Array
from kinema.model import Model

from .dynamics import TreeMatrix, mass_matrix
from .integrate import advance
from .kinematics import offsets, subspaces
from .tree import Tree, grow

NONE_LEFT = 1e-12
"""A share of its own inertia below which nothing but rounding is left to a degree of freedom."""


@dataclass(frozen=True, slots=True)
class Pivots:
    """The diagonal of a mass matrix, and what elimination leaves of it."""

    diagonal: list[float]
    remaining: list[float]
    """The inertia of each degree of freedom when those that it moves are free to give way."""

    def impossible(self) -> list[int]:
        """The degrees of freedom that any force would accelerate without bound."""
        pairs = zip(self.diagonal, self.remaining, strict=True)
        return [i for i, (own, left) in enumerate(pairs) if not left > NONE_LEFT * own or not math.isfinite(left)]

    def worst(self) -> tuple[int, float]:
        """The degree of freedom that keeps the smallest share of its inertia, and that share."""
        shares = [left / own for own, left in zip(self.diagonal, self.remaining, strict=True)]
        least = min(range(len(shares)), key=shares.__getitem__)
        return least, shares[least]


def pivots(model: Model, q: Sequence[float] | Array) -> Pivots:
    """Of the model's mass matrix at a configuration."""
    tree = grow(model)
    where = offsets(tree, [float(x) for x in q])
    matrix = mass_matrix(tree, where, subspaces(tree, where), model.dofs.armature.tolist())
    return Pivots([float(matrix.at(i, i)) for i in range(model.n_dofs)], _eliminated(tree, matrix))  # type: ignore[arg-type]


def perturbed(model: Model) -> list[float]:
    """A configuration near the start, in which no two axes are parallel by chance."""
    shift = [0.4 * math.cos(1.7 * i + 0.3) for i in range(model.n_dofs)]
    return [float(x) for x in advance(grow(model), model.qpos0.tolist(), shift, 1.0)]  # type: ignore[arg-type]


def _eliminated(tree: Tree, matrix: TreeMatrix) -> list[float]:
    """As `dynamics.factorise`, but a degree of freedom without inertia is passed over instead of divided by."""
    rest = {pair: float(value) for pair, value in matrix.entries.items()}  # type: ignore[arg-type]
    for dof in reversed(tree.dofs_outward()):
        if not rest[dof, dof] > NONE_LEFT * float(matrix.at(dof, dof)):  # type: ignore[arg-type]
            continue
        movers = list(tree.ancestors(dof))
        for place, mover in enumerate(movers):
            factor = rest[dof, mover] / rest[dof, dof]
            for other in movers[place:]:
                rest[mover, other] -= factor * rest[dof, other]
    return [rest[i, i] for i in range(matrix.tree.model.n_dofs)]
