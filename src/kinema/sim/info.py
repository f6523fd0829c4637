"""What does not change: the model's arrays under the names of the array contract."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import numpy as np

from kinema.foundation import Array, matrix_to_quaternion
from kinema.model import Model

NEGLIGIBLE = 1e-12
"""Products of inertia this small against the moments are rounding: the axes are the link's own."""


def links_info(model: Model) -> SimpleNamespace:
    """The arrays of all links, and `inertial_quat`: the principal axes of inertia in the link, (n_links, 4)."""
    own = {f.name: getattr(model.links, f.name) for f in dataclasses.fields(model.links)}
    axes = [matrix_to_quaternion(principal_axes(i)) for i in model.links.inertial_i]
    return SimpleNamespace(**own, inertial_quat=np.array(axes).reshape(-1, 4))


def dofs_info(model: Model) -> SimpleNamespace:
    """The arrays of all degrees of freedom."""
    return SimpleNamespace(**{f.name: getattr(model.dofs, f.name) for f in dataclasses.fields(model.dofs)})


def principal_axes(inertia: Array) -> Array:
    """A rotation whose columns are the principal axes, in the order and with the signs nearest to no rotation."""
    off = np.abs(inertia - np.diag(np.diag(inertia))).max(initial=0.0)
    if off <= NEGLIGIBLE * np.abs(inertia).max(initial=0.0):
        return np.eye(3)
    axes = np.linalg.eigh(inertia)[1]
    order: list[int] = []
    for row in axes:  # each axis of the link takes the nearest that is left
        order.append(max((c for c in range(3) if c not in order), key=lambda c, row=row: abs(row[c])))
    axes = axes[:, order]
    axes = axes * np.where(np.diag(axes) < 0, -1.0, 1.0)
    if np.linalg.det(axes) < 0:
        axes[:, 2] *= -1.0
    return axes
