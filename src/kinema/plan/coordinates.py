"""Coordinates of a model and changes of them, many sets at a time; quaternions turn along the link's own axes."""

from __future__ import annotations

import numpy as np

from kinema.foundation import (
    Array,
    conjugates,
    quaternion_products,
    quaternions_of,
    rotation_vectors,
)
from kinema.model import Model, Motion


def integrated(model: Model, qpos: Array, change: Array) -> Array:
    """Coordinates (n, n_qs) after a change along each degree of freedom, (n, n_dofs)."""
    result = np.array(np.broadcast_to(qpos, (max(len(qpos), len(change)), model.n_qs)))
    own = np.flatnonzero(model.dofs.q_idx >= 0)
    result[:, model.dofs.q_idx[own]] += change[:, own]
    for q, dofs in _balls(model):
        moved = quaternion_products(result[:, q], quaternions_of(np.broadcast_to(change[:, dofs], (len(result), 3))))
        result[:, q] = moved / np.linalg.norm(moved, axis=1, keepdims=True)
    return result


def difference(model: Model, before: Array, after: Array) -> Array:
    """The change along each degree of freedom that leads from some coordinates to others, (n, n_dofs)."""
    before, after = np.broadcast_arrays(before, after)
    result = np.zeros((len(before), model.n_dofs))
    own = np.flatnonzero(model.dofs.q_idx >= 0)
    places = model.dofs.q_idx[own]
    result[:, own] = after[:, places] - before[:, places]
    for q, dofs in _balls(model):
        result[:, dofs] = rotation_vectors(quaternion_products(conjugates(before[:, q]), after[:, q]))
    return result


def _balls(model: Model) -> list[tuple[slice, slice]]:
    """Of each quaternion its coordinates, and its degrees of freedom."""
    frames = model.frames
    starts = [(int(frames.q_start[f]), int(frames.dof_start[f])) for f in np.flatnonzero(frames.motion == Motion.BALL)]
    return [(slice(q, q + 4), slice(dof, dof + 3)) for q, dof in starts]
