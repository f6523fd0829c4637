"""What does not change: the model's arrays under the names of the array contract."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import numpy as np

from kinema.foundation import matrix_to_quaternion
from kinema.model import Model


def links_info(model: Model) -> SimpleNamespace:
    """The arrays of all links, and `inertial_quat`: the principal axes of inertia in the link, (n_links, 4)."""
    from ..sweeps.tree import principal_axes

    own = {f.name: getattr(model.links, f.name) for f in dataclasses.fields(model.links)}
    axes = [matrix_to_quaternion(principal_axes(i)) for i in model.links.inertial_i]
    return SimpleNamespace(**own, inertial_quat=np.array(axes).reshape(-1, 4))


def dofs_info(model: Model) -> SimpleNamespace:
    """The arrays of all degrees of freedom."""
    return SimpleNamespace(**{f.name: getattr(model.dofs, f.name) for f in dataclasses.fields(model.dofs)})
