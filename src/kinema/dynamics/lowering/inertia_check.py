"""Inertia check of a model: diagonal and pivots of the mass matrix, singular and ill-conditioned degrees of freedom."""

from __future__ import annotations

import math
from dataclasses import dataclass

MIN_INERTIA_RATIO = 1e-12
"""Ratio of pivot to diagonal below which the pivot of a dof is only rounding error."""


@dataclass(frozen=True, slots=True)
class MassMatrixConditioning:
    """Diagonal of the mass matrix at one configuration, and the pivots that elimination leaves."""

    diagonal: list[float]
    """Diagonal entries of the mass matrix: inertia of each dof with all other dofs locked [kg or kg m2]."""
    pivots: list[float]
    """Pivots of the factorisation: inertia of each dof with the dofs of its subtree free to move [kg or kg m2]."""

    def singular_dofs(self) -> list[int]:
        """Indices of dofs without inertia: pivot not above `MIN_INERTIA_RATIO` times the diagonal, or not finite."""
        pairs = zip(self.diagonal, self.pivots, strict=True)
        return [
            i
            for i, (diagonal, pivot) in enumerate(pairs)
            if not pivot > MIN_INERTIA_RATIO * diagonal or not math.isfinite(pivot)
        ]

    def worst_conditioned_dof(self) -> tuple[int, float]:
        """Index of the dof with the smallest ratio of pivot to diagonal, and the ratio."""
        ratios = [pivot / diagonal for diagonal, pivot in zip(self.diagonal, self.pivots, strict=True)]
        worst = min(range(len(ratios)), key=ratios.__getitem__)
        return worst, ratios[worst]
