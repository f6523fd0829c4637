"""T = Q S: the rigid part of a transform, and the symmetric scale that is baked into geometry."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kinema.foundation import Array, Pose


class Affine(NamedTuple):
    """x -> linear @ x + offset."""

    linear: Array
    offset: Array

    def __matmul__(self, other: Affine) -> Affine:  # type: ignore[override]
        return Affine(self.linear @ other.linear, self.linear @ other.offset + self.offset)

    def inverse(self) -> Affine:
        """The map back; the linear part must be regular."""
        inverse = np.asarray(np.linalg.inv(self.linear), dtype=np.float64)
        return Affine(inverse, -inverse @ self.offset)

    @property
    def is_finite(self) -> bool:
        """Whether no number is NaN or infinite."""
        return bool(np.isfinite(self.linear).all() and np.isfinite(self.offset).all())


def polar(linear: Array) -> tuple[Array, Array]:
    """Right polar decomposition `linear = Q @ S`: Q a proper rotation, S symmetric.

    S is positive definite, or negative definite where the map mirrors: then Q stays proper and the mirror is `-I`,
    folded into S. A singular map still gives a rotation, one of several.
    """
    u, s, vt = np.linalg.svd(linear)
    rotation = u @ vt
    scale = (vt.T * s) @ vt
    if np.linalg.det(rotation) < 0:
        # for a regular mirror, -I; for a singular map the null direction may be flipped freely, which keeps S >= 0
        if s[2] <= 1e-12 * max(s[0], 1e-300):
            u = u.copy()
            u[:, 2] = -u[:, 2]
            return u @ vt, scale
        return -rotation, -scale
    return rotation, scale


def from_gf(matrix: object) -> Affine:
    """A USD matrix (row vectors, 4x4) as an affine map of column vectors."""
    m = np.array(matrix, dtype=np.float64)
    return Affine(m[:3, :3].T.copy(), m[3, :3].copy())


def rigid(affine: Affine) -> Pose:
    """The rigid part."""
    return Pose(affine.offset, polar(affine.linear)[0])


def is_singular(linear: Array) -> bool:
    """Whether a direction is scaled to nothing, against the largest one."""
    s = np.linalg.svd(linear, compute_uv=False)
    return not (s[2] > 1e-9 * s[0] and s[0] > 0)


def is_rigid(linear: Array, tolerance: float = 1e-9) -> bool:
    """Whether lengths are kept."""
    return bool(np.abs(linear.T @ linear - np.eye(3)).max() <= tolerance)
