"""Operational space: the joint forces that move one link as wished."""

from __future__ import annotations

import numpy as np

from kinema.foundation import Array


def operational_forces(
    jacobian: Array,
    drift: Array,
    mass: Array,
    bias: Array,
    wished: Array,
    mask: np.ndarray,
    extra: Array | None,
    damping: float,
) -> Array:
    """Khatib's law: J^T L (a - drift) + bias, with L the inertia that the link seems to have, (J M^-1 J^T)^-1.

    What `extra` asks for is taken through I - J^T L J M^-1, which leaves the link's acceleration alone.
    """
    j, missing = jacobian[:, mask], (wished - drift)[:, mask]
    light = np.linalg.solve(mass, np.swapaxes(j, 1, 2))  # M^-1 J^T
    mobility = j @ light
    size = np.trace(mobility, axis1=1, axis2=2)[:, None, None] / len(mobility[0])
    seen = np.linalg.inv(mobility + damping * size * np.eye(len(mobility[0])))
    force = np.einsum("nij,nj->ni", seen, missing)
    result = np.einsum("nij,ni->nj", j, force) + bias
    if extra is None:
        return result
    taken = np.einsum("nij,nj->ni", seen, np.einsum("nji,nj->ni", light, np.broadcast_to(extra, bias.shape)))
    return result + extra - np.einsum("nij,ni->nj", j, taken)
