"""Affine transforms with polar decomposition T = Q S, and the conversion of stage units and up axis to SI with Z up.

The rotation Q is the rigid part; the symmetric stretch S is baked into the geometry.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from kinema.core import (
    Array,
    Diagnostics,
    Origin,
    Pose,
    determinant3,
    reproducible_inverse,
    reproducible_product,
    singular_value_decomposition,
)
from kinema.tokens import usd

from . import pxr

# -- affine transforms -------------------------------------------------------------------------------------------------


class Affine(NamedTuple):
    """Affine map x -> linear @ x + offset."""

    linear: Array
    offset: Array

    def __matmul__(self, other: Affine) -> Affine:  # type: ignore[override]
        offset = reproducible_product(self.linear, other.offset) + self.offset
        return Affine(reproducible_product(self.linear, other.linear), offset)

    def inverse(self) -> Affine:
        """Inverse map; the linear part must be regular."""
        inverse = reproducible_inverse(self.linear)
        return Affine(inverse, -reproducible_product(inverse, self.offset))

    @property
    def is_finite(self) -> bool:
        """Whether all entries are finite."""
        return all(map(math.isfinite, (*self.offset.tolist(), *self.linear.ravel().tolist())))


def polar_decomposition(linear: Array) -> tuple[Array, Array]:
    """Right polar decomposition `linear = Q @ S`: Q a proper rotation, S symmetric.

    S is positive definite, or negative definite for a reflection (the reflection `-I` is folded into S). A singular map
    gives one of several possible rotations, a non-finite map the identity.
    """
    size = uniform_scale(linear)
    if size:
        return linear / size, np.array([[size, 0.0, 0.0], [0.0, size, 0.0], [0.0, 0.0, size]])
    if not np.isfinite(linear).all():
        return np.eye(3), linear
    u, s, vt = singular_value_decomposition(linear)
    rotation = reproducible_product(u, vt)
    scale = reproducible_product(vt.T * s, vt)
    if is_reflection(rotation):
        # regular reflection: -I; singular map: flip the null direction, which keeps S >= 0
        if s[2] <= 1e-12 * max(s[0], 1e-300):
            u = u.copy()
            u[:, 2] = -u[:, 2]
            return reproducible_product(u, vt), scale
        return -rotation, -scale
    return rotation, scale


def uniform_scale(linear: Array) -> float:
    """Scale factor of a similarity transform, negative for a reflection; zero for other maps.

    Most transforms are rigid or uniformly scaled; this test takes a fifth of the time of an SVD.
    """
    (a, b, c), (d, e, f), (g, h, i) = linear.tolist()
    xx, yy, zz = a * a + d * d + g * g, b * b + e * e + h * h, c * c + f * f + i * i
    xy, xz, yz = a * b + d * e + g * h, a * c + d * f + g * i, b * c + e * f + h * i
    mean = (xx + yy + zz) / 3
    off = max(abs(xy), abs(xz), abs(yz), abs(xx - mean), abs(yy - mean), abs(zz - mean))
    if not (off <= 2e-15 * mean and 1e-200 < mean < 1e200):
        return 0.0
    return -math.sqrt(mean) if is_reflection(linear) else math.sqrt(mean)


def is_reflection(linear: Array) -> bool:
    """Whether a map reverses orientation (negative determinant)."""
    return determinant3(linear) < 0


def polar_decomposition_batch(linears: Array) -> tuple[Array, Array]:
    """Polar decompositions of a stack of maps, shape (n, 3, 3), vectorised for similarity transforms."""
    gram = reproducible_product(np.swapaxes(linears, 1, 2), linears)
    mean = np.trace(gram, axis1=1, axis2=2) / 3
    off = np.abs(gram - mean[:, None, None] * np.eye(3)).max(axis=(1, 2), initial=0.0)
    similar = (off <= 2e-15 * mean) & (mean > 1e-200) & (mean < 1e200)
    mirrored = np.array([is_reflection(linear) for linear in linears], bool)
    size = np.sqrt(np.where(similar, mean, 1.0)) * np.where(mirrored, -1.0, 1.0)
    rotations = linears / size[:, None, None]
    scales = size[:, None, None] * np.eye(3)
    for i in np.flatnonzero(~similar):
        rotations[i], scales[i] = polar_decomposition(linears[i])
    return rotations, scales


def affine_from_gf(matrix: object) -> Affine:
    """Affine map (column vectors) of a USD 4x4 matrix (row vectors)."""
    m = np.array(matrix, dtype=np.float64)
    return Affine(m[:3, :3].T, m[3, :3])


def rigid_part(affine: Affine) -> Pose:
    """Pose with offset and rotation Q of an affine map; identity if not finite."""
    if not affine.is_finite:
        return Pose()
    return Pose(affine.offset, polar_decomposition(affine.linear)[0])


def is_singular(linear: Array) -> bool:
    """Whether the smallest singular value is negligible relative to the largest."""
    volume = abs(determinant3(linear))
    length = math.hypot(*linear.ravel().tolist())
    if 1e-100 < length < 1e100 and volume > 1e-9 * length**3:
        return False  # sigma_min >= |det| / sigma_max^2
    _, s, _ = singular_value_decomposition(linear)
    return not (s[2] > 1e-9 * s[0] and s[0] > 0)


# -- units and up axis -------------------------------------------------------------------------------------------------

DEGREE = math.pi / 180
Y_TO_Z = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, -1.0], [0.0, 1.0, 0.0]])
"""Rotation from Y up to Z up."""


@dataclass(frozen=True, slots=True, eq=False)
class Units:
    """Stage units in SI; times are in seconds, angles in degrees."""

    length: float = 1.0
    """Metres per unit."""
    mass: float = 1.0
    """Kilograms per unit."""
    up: Array = field(default_factory=lambda: np.eye(3))
    """Rotation from the stage's world to Z up."""
    up_axis: str = "Z"

    @property
    def force(self) -> float:
        """Newtons per unit (mass length / s2)."""
        return self.mass * self.length

    @property
    def torque(self) -> float:
        """Newton metres per unit (mass length2 / s2)."""
        return self.mass * self.length**2

    @property
    def inertia(self) -> float:
        """Kg m2 per unit."""
        return self.mass * self.length**2

    @property
    def density(self) -> float:
        """kg/m3 per unit."""
        return self.mass / self.length**3


def stage_units(stage: pxr.Stage, file: str, diagnostics: Diagnostics) -> Units:
    """Units and up axis of a stage, with USD's fallbacks (centimetres, kilograms, Y up); invalid ones are reported."""

    def positive(name: str, value: float, fallback: float) -> float:
        if math.isfinite(value) and value > 0:
            return value
        _report_bad_units(
            file, diagnostics, f"{name} is {value:g}, which nothing can be measured in; it is taken as {fallback:g}"
        )
        return fallback

    up_axis = str(pxr.UsdGeom.GetStageUpAxis(stage))
    if up_axis not in ("Y", "Z"):
        _report_bad_units(file, diagnostics, f"upAxis is {up_axis!r}, where Y or Z belongs; it is taken as Z")
        up_axis = "Z"
    return Units(
        length=positive(usd.METERS_PER_UNIT, pxr.UsdGeom.GetStageMetersPerUnit(stage), 0.01),
        mass=positive(usd.KILOGRAMS_PER_UNIT, pxr.UsdPhysics.GetStageKilogramsPerUnit(stage), 1.0),
        up=Y_TO_Z if up_axis == "Y" else np.eye(3),
        up_axis=up_axis,
    )


def _report_bad_units(file: str, diagnostics: Diagnostics, message: str) -> None:
    hint = "correct the metadata at the head of the stage"
    diagnostics.error("usd.bad-units", message, hint=hint, origin=Origin(file))
