"""T = Q S: the rigid part of a transform, and the symmetric scale that is baked into geometry."""

from __future__ import annotations

import math
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
        return all(map(math.isfinite, (*self.offset.tolist(), *self.linear.ravel().tolist())))


def polar(linear: Array) -> tuple[Array, Array]:
    """Right polar decomposition `linear = Q @ S`: Q a proper rotation, S symmetric.

    S is positive definite, or negative definite where the map mirrors: then Q stays proper and the mirror is `-I`,
    folded into S. A singular map still gives a rotation, one of several, and one that is not finite the identity.
    """
    size = similarity(linear)
    if size:
        return linear / size, np.array([[size, 0.0, 0.0], [0.0, size, 0.0], [0.0, 0.0, size]])
    if not np.isfinite(linear).all():
        return np.eye(3), linear
    u, s, vt = np.linalg.svd(linear)
    rotation = u @ vt
    scale = (vt.T * s) @ vt
    if mirrors(rotation):
        # for a regular mirror, -I; for a singular map the null direction may be flipped freely, which keeps S >= 0
        if s[2] <= 1e-12 * max(s[0], 1e-300):
            u = u.copy()
            u[:, 2] = -u[:, 2]
            return u @ vt, scale
        return -rotation, -scale
    return rotation, scale


def similarity(linear: Array) -> float:
    """The factor by which a map scales all lengths, negative where it mirrors; zero where lengths differ.

    Most transforms on a stage are rigid or uniformly scaled. Finding that out in plain arithmetic costs a fifth of a
    singular value decomposition.
    """
    (a, b, c), (d, e, f), (g, h, i) = linear.tolist()
    xx, yy, zz = a * a + d * d + g * g, b * b + e * e + h * h, c * c + f * f + i * i
    xy, xz, yz = a * b + d * e + g * h, a * c + d * f + g * i, b * c + e * f + h * i
    mean = (xx + yy + zz) / 3
    off = max(abs(xy), abs(xz), abs(yz), abs(xx - mean), abs(yy - mean), abs(zz - mean))
    if not (off <= 2e-15 * mean and 1e-200 < mean < 1e200):
        return 0.0
    return -math.sqrt(mean) if mirrors(linear) else math.sqrt(mean)


def mirrors(linear: Array) -> bool:
    """Whether a map turns right hands into left hands."""
    return _volume(linear) < 0


def _volume(linear: Array) -> float:
    """The determinant."""
    (a, b, c), (d, e, f), (g, h, i) = linear.tolist()
    return a * (e * i - f * h) - b * (d * i - f * g) + c * (d * h - e * g)


def polar_many(linears: Array) -> tuple[Array, Array]:
    """`polar` of each map of a stack, shapes (n, 3, 3): one call for many is much quicker than many calls."""
    gram = np.swapaxes(linears, 1, 2) @ linears
    mean = np.trace(gram, axis1=1, axis2=2) / 3
    off = np.abs(gram - mean[:, None, None] * np.eye(3)).max(axis=(1, 2), initial=0.0)
    similar = (off <= 2e-15 * mean) & (mean > 1e-200) & (mean < 1e200)
    size = np.sqrt(np.where(similar, mean, 1.0)) * np.where(np.linalg.det(linears) < 0, -1.0, 1.0)
    rotations = linears / size[:, None, None]
    scales = size[:, None, None] * np.eye(3)
    for i in np.flatnonzero(~similar):
        rotations[i], scales[i] = polar(linears[i])
    return rotations, scales


def from_gf(matrix: object) -> Affine:
    """A USD matrix (row vectors, 4x4) as an affine map of column vectors."""
    m = np.array(matrix, dtype=np.float64)
    return Affine(m[:3, :3].T, m[3, :3])


def rigid(affine: Affine) -> Pose:
    """The rigid part; the identity where there is none, because a number is not finite."""
    if not affine.is_finite:
        return Pose()
    return Pose(affine.offset, polar(affine.linear)[0])


def is_singular(linear: Array) -> bool:
    """Whether a direction is scaled to nothing, against the largest one."""
    volume = abs(_volume(linear))
    length = math.hypot(*linear.ravel().tolist())
    if 1e-100 < length < 1e100 and volume > 1e-9 * length**3:
        return False  # the least singular value is at least the volume over the square of the greatest
    s = np.linalg.svd(linear, compute_uv=False)
    return not (s[2] > 1e-9 * s[0] and s[0] > 0)
