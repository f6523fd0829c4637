"""Whether a model can be moved at all: the inertia that each degree of freedom is left with, in plain numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kinema.foundation import Array
from kinema.model import Model

from ..arrays import Owner
from ..rigid.aba import remaining_inertias
from ..rigid.crba import mass_matrix
from ..rigid.integrate import advance
from ..rigid.kinematics import poses_in_parents
from ..settings import Settings
from ..sweeps.sweeps import Sweeps
from ..sweeps.tree import grow
from .programs import plain_numbers

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


def dof_inertias(model: Model, q: Sequence[float] | Array) -> Inertias:
    """Of the model's mass matrix at a configuration."""

    def run(s: Sweeps) -> None:
        remaining_inertias(s, poses_in_parents(s), NONE_LEFT)

    outputs = {"entire": (Owner.DOF, 1), "left": (Owner.DOF, 1)}
    found = plain_numbers(model, Settings(), run, outputs, {"qpos": q})
    return Inertias(found["entire"].tolist(), found["left"].tolist())


def inverse_weights(model: Model) -> Array:
    """Of each degree of freedom the acceleration by a unit force at the start; those of a ball share theirs."""
    n = model.n_dofs

    def run(s: Sweeps) -> None:
        mass_matrix(s, poses_in_parents(s)).store("inertia")

    found = plain_numbers(model, Settings(), run, {"inertia": (Owner.DOF, n)}, {"qpos": model.qpos0})["inertia"]
    inertia = np.zeros((n, n))
    inertia.flat[: len(found)] = found
    own: Array = np.array(np.diag(np.linalg.inv(inertia)) if n else np.zeros(0), np.float64)
    for node in grow(model).nodes:
        own[list(node.dofs)] = own[list(node.dofs)].mean()
    return own


def perturbed(model: Model) -> list[float]:
    """A configuration near the start, in which no two axes are parallel by chance."""
    shift = [0.4 * math.cos(1.7 * i + 0.3) for i in range(model.n_dofs)]
    q = [float(x) for x in model.qpos0]
    for node in grow(model).nodes:
        own = advance(node, [q[i] for i in node.qs], [shift[d] for d in node.dofs])
        for i, x in zip(node.qs, own, strict=True):
            q[i] = float(x)  # type: ignore[arg-type]
    return q
