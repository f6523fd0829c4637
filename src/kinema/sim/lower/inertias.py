"""The inertia of degrees of freedom, and whether enough of it is left to each of them."""

from __future__ import annotations

import math
from dataclasses import dataclass

NONE_LEFT = 1e-12
"""A share of its own inertia below which nothing but rounding is left to a degree of freedom."""


@dataclass(frozen=True, slots=True)
class Inertias:
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
