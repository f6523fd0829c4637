"""Rigid transforms, rotation matrices, roll-pitch-yaw angles and (batched) quaternions in float64.

Quaternions are (w, x, y, z). `T_ab` maps coordinates in frame b to coordinates in frame a.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from .linear_algebra import Array, ArrayLike, reproducible_norm, reproducible_product, sine_cosine


def float64_array(values: ArrayLike) -> Array:
    """Copy of the values as a float64 array."""
    return np.array(values, dtype=np.float64)


_IDENTITY3 = np.eye(3)


def _identity3() -> Array:
    return _IDENTITY3.copy()


def _zeros3() -> Array:
    return np.zeros(3)


@dataclass(frozen=True, slots=True, eq=False)
class Pose:
    """Rigid transform: the pose of a frame b in a frame a, `x_a = rotation @ x_b + position`."""

    position: Array = field(default_factory=_zeros3)
    """Position [m], shape (3,)."""
    rotation: Array = field(default_factory=_identity3)
    """Rotation matrix, shape (3, 3)."""

    @classmethod
    def from_quaternion(cls, position: ArrayLike, quaternion: ArrayLike) -> Pose:
        """Pose from a position and a quaternion (w, x, y, z), which is normalised."""
        return cls(float64_array(position), quaternion_to_matrix(quaternion))

    @classmethod
    def from_rpy(cls, position: ArrayLike, rpy: ArrayLike) -> Pose:
        """Pose from a position and fixed-axis roll, pitch, yaw [rad] (URDF and SDFormat)."""
        return cls(float64_array(position), rpy_to_matrix(rpy))

    @classmethod
    def from_matrix(cls, matrix: ArrayLike) -> Pose:
        """Pose from a rigid 4x4 homogeneous matrix."""
        m = float64_array(matrix)
        return cls(m[:3, 3].copy(), m[:3, :3].copy())

    @classmethod
    def translation(cls, offset: ArrayLike) -> Pose:
        """Pose of a pure translation."""
        return cls(position=float64_array(offset))

    @property
    def matrix(self) -> Array:
        """Homogeneous matrix, shape (4, 4)."""
        m = np.eye(4)
        m[:3, :3] = self.rotation
        m[:3, 3] = self.position
        return m

    @property
    def quaternion(self) -> Array:
        """Rotation as a unit quaternion (w, x, y, z) with w >= 0."""
        return matrix_to_quaternion(self.rotation)

    @property
    def rpy(self) -> Array:
        """Rotation as fixed-axis roll, pitch, yaw [rad]."""
        return matrix_to_rpy(self.rotation)

    @property
    def is_finite(self) -> bool:
        """Whether all entries are finite."""
        return all(map(math.isfinite, (*self.position.tolist(), *self.rotation.ravel().tolist())))

    def inverse(self) -> Pose:
        """Inverse transform: the pose of a in b."""
        transposed = self.rotation.T
        return Pose(np.array([-x for x in _product_with_vector(transposed, self.position)]), transposed)

    def __matmul__(self, other: Pose) -> Pose:
        position = np.array(_product_with_vector(self.rotation, other.position)) + self.position
        b = other.rotation.T.tolist()
        rows = [[x * p + y * q + z * r for p, q, r in b] for x, y, z in self.rotation.tolist()]
        return Pose(position, np.array(rows))

    def apply(self, points: ArrayLike) -> Array:
        """Transform points, shape (..., 3), from b to a."""
        rows = np.asarray(points, dtype=np.float64)[..., None, :]
        return reproducible_product(rows, self.rotation.T)[..., 0, :] + self.position

    def distance(self, other: Pose) -> tuple[float, float]:
        """Distance of two positions [m] and angle of the relative rotation [rad]."""
        (xx, xy, xz), (yx, yy, yz), (zx, zy, zz) = (self.rotation.T @ other.rotation).tolist()
        # the sine part keeps accuracy for small angles, where acos of the trace loses half the digits
        sine = 0.5 * math.hypot(zy - yz, xz - zx, yx - xy)
        cosine = 0.5 * (xx + yy + zz - 1.0)
        return math.dist(self.position.tolist(), other.position.tolist()), math.atan2(sine, cosine)

    def is_close(self, other: Pose, tolerance: float = 1e-12) -> bool:
        """Whether position [m] and angle [rad] differ from another pose by at most the tolerance."""
        return max(self.distance(other)) <= tolerance


def _product_with_vector(matrix: Array, vector: Array) -> list[float]:
    """`reproducible_product` of one (3, 3) matrix and one vector, on Python floats: faster for single poses."""
    p, q, r = vector.tolist()
    return [x * p + y * q + z * r for x, y, z in matrix.tolist()]


def quaternion_to_matrix(quaternion: ArrayLike) -> Array:
    """Rotation matrix of a quaternion (w, x, y, z), which is normalised; the identity for a zero quaternion."""
    w, x, y, z = np.asarray(quaternion, dtype=np.float64).tolist()
    scale = max(abs(w), abs(x), abs(y), abs(z))
    if scale == 0.0:
        return np.eye(3)
    w, x, y, z = w / scale, x / scale, y / scale, z / scale  # avoids underflow and overflow of the squares
    norm = math.sqrt(w * w + x * x + y * y + z * z)
    w, x, y, z = w / norm, x / norm, y / norm, z / norm
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


def matrix_to_quaternion(matrix: ArrayLike) -> Array:
    """Unit quaternion (w, x, y, z), w >= 0, of a rotation matrix (Shepperd's method, accurate for every angle).

    NaN for a degenerate matrix.
    """
    m = np.asarray(matrix, dtype=np.float64).tolist()
    trace = m[0][0] + m[1][1] + m[2][2]
    # the largest of the four squared components is computed first, so that none divides by a small number
    candidates = [trace, m[0][0], m[1][1], m[2][2]]
    largest = candidates.index(max(candidates))
    if largest == 0:
        q = [1 + trace, m[2][1] - m[1][2], m[0][2] - m[2][0], m[1][0] - m[0][1]]
    else:
        i = largest - 1
        j, k = (i + 1) % 3, (i + 2) % 3
        q = [0.0] * 4
        q[0] = m[k][j] - m[j][k]
        q[1 + i] = 1 + m[i][i] - m[j][j] - m[k][k]
        q[1 + j] = m[j][i] + m[i][j]
        q[1 + k] = m[k][i] + m[i][k]
    norm = math.sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3])
    if norm == 0.0:
        return np.full(4, math.nan)
    return np.array(q) / (-norm if q[0] < 0 else norm)


def rpy_to_matrix(rpy: ArrayLike) -> Array:
    """Rotation matrix of fixed-axis roll (x), pitch (y), yaw (z) [rad]; NaN if an angle is not finite."""
    roll, pitch, yaw = (float(a) for a in np.asarray(rpy, dtype=np.float64))
    if not (math.isfinite(roll) and math.isfinite(pitch) and math.isfinite(yaw)):
        return np.full((3, 3), np.nan)
    (sr, cr), (sp, cp), (sy, cy) = map(sine_cosine, (roll, pitch, yaw))
    return np.array(
        [
            [cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr],
            [sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr],
            [-sp, cp * sr, cp * cr],
        ]
    )


def matrix_to_rpy(matrix: ArrayLike) -> Array:
    """Fixed-axis roll, pitch, yaw [rad] of a rotation matrix; yaw is zero in gimbal lock.

    Roll is computed after removing yaw, so that the result is accurate near gimbal lock too.
    """
    m = float64_array(matrix)
    yaw = 0.0 if math.hypot(m[0, 0], m[1, 0]) < 1e-14 else math.atan2(m[1, 0], m[0, 0])
    # near gimbal lock, errors of yaw and roll cancel, as roll is computed after removing yaw
    c, s = math.cos(yaw), math.sin(yaw)
    pitch = math.atan2(-m[2, 0], c * m[0, 0] + s * m[1, 0])
    roll = math.atan2(s * m[0, 2] - c * m[1, 2], c * m[1, 1] - s * m[0, 1])
    return np.array([roll, pitch, yaw])


def axis_angle_to_matrix(axis: ArrayLike, angle: float) -> Array:
    """Rotation matrix of a rotation by an angle [rad] about a unit axis (Rodrigues' formula); NaN if not finite."""
    x, y, z = (float(a) for a in np.asarray(axis, dtype=np.float64))
    if not math.isfinite(angle):
        return np.full((3, 3), np.nan)
    s, c = sine_cosine(angle)
    t = 1 - c
    return np.array(
        [
            [t * x * x + c, t * x * y - s * z, t * x * z + s * y],
            [t * x * y + s * z, t * y * y + c, t * y * z - s * x],
            [t * x * z - s * y, t * y * z + s * x, t * z * z + c],
        ]
    )


def skew(vector: ArrayLike) -> Array:
    """Skew-symmetric matrix of the cross product: `skew(a) @ b == cross(a, b)`."""
    x, y, z = (float(a) for a in np.asarray(vector, dtype=np.float64))
    return np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])


def rotation_aligning_z(axis: ArrayLike) -> Array:
    """A rotation matrix that maps +z to the given unit axis; deterministic."""
    z = float64_array(axis)
    helper = np.eye(3)[int(np.argmin(np.abs(z)))]
    x = np.cross(helper, z)
    x /= reproducible_norm(x)
    return np.column_stack([x, np.cross(z, x), z])


# -------------------------------------------------------------------------------------------------- batched quaternions

MIN_SINE = 1e-12
"""Sine of half the rotation angle below which a rotation counts as the identity."""


def quaternions_from_rotation_vectors(rotation_vectors: Array) -> Array:
    """Unit quaternions (..., 4) of rotation vectors [rad], shape (..., 3) (exponential map)."""
    half = 0.5 * np.linalg.norm(rotation_vectors, axis=-1, keepdims=True)
    return np.concatenate([np.cos(half), 0.5 * np.sinc(half / np.pi) * rotation_vectors], axis=-1)


def rotation_vectors_from_quaternions(quaternions: Array) -> Array:
    """Rotation vectors [rad] (..., 3) of unit quaternions (..., 4), of angle at most pi (logarithmic map)."""
    canonical = quaternions * np.where(quaternions[..., :1] < 0, -1.0, 1.0)
    sine = np.linalg.norm(canonical[..., 1:], axis=-1)
    angle = 2.0 * np.arctan2(sine, canonical[..., 0])
    scale = np.where(sine > MIN_SINE, angle / np.where(sine > MIN_SINE, sine, 1.0), 2.0)
    return canonical[..., 1:] * scale[..., None]


def multiply_quaternions(a: Array, b: Array) -> Array:
    """Products a * b of quaternions (..., 4): the rotation b followed by the rotation a."""
    w, v, x, u = a[..., :1], a[..., 1:], b[..., :1], b[..., 1:]
    scalar = w * x - (v * u).sum(axis=-1, keepdims=True)
    return np.concatenate([scalar, w * u + x * v + np.cross(v, u)], axis=-1)


def conjugate_quaternions(quaternions: Array) -> Array:
    """Conjugates of quaternions (..., 4): the inverse rotations of unit quaternions."""
    return quaternions * np.array([1.0, -1.0, -1.0, -1.0])


def rotate_vectors(quaternions: Array, vectors: Array) -> Array:
    """Vectors (..., 3) rotated by unit quaternions (..., 4)."""
    w, u = quaternions[..., :1], quaternions[..., 1:]
    t = 2.0 * np.cross(u, vectors)
    return vectors + w * t + np.cross(u, t)
