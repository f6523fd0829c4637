"""Tangent space of the generalized coordinates: a change of a quaternion is a rotation vector in body axes."""

from __future__ import annotations

import numpy as np

from kinema.core import Array
from kinema.model import PRIMITIVE_JOINT_SIZES, Model, PrimitiveJointType

IDENTITY = np.eye(3)
CROSS_PRODUCT_GENERATORS = np.cross(IDENTITY[:, None], IDENTITY[None]).transpose(0, 2, 1)
"""Matrices [e_i]x of the cross product with each unit vector, (3, 3, 3)."""
QUATERNION_BASIS_GENERATORS = 0.5 * np.array(
    [
        [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]],
        [[-1, 0, 0], [0, 0, 0], [0, 0, -1], [0, 1, 0]],
        [[0, -1, 0], [0, 0, 1], [0, 0, 0], [-1, 0, 0]],
        [[0, 0, -1], [0, -1, 0], [1, 0, 0], [0, 0, 0]],
    ]
)
"""Derivative of a quaternion by rotation vectors in body axes, by each component of the quaternion, (4, 4, 3)."""


class TangentSpace:
    """Conversions between changes of the coordinates (n_qs) and positions in the tangent space (n_dofs) of a model."""

    def __init__(self, model: Model) -> None:
        frames = model.frames
        scalar = [i for i, kind in enumerate(frames.joint_type) if PRIMITIVE_JOINT_SIZES[int(kind)] == (1, 1)]
        self.scalar_qs, self.scalar_dofs = frames.q_start[scalar], frames.dof_start[scalar]
        """Coordinates and dofs of joints with one dof."""
        self.balls = [
            (int(frames.q_start[i]), slice(int(frames.dof_start[i]), int(frames.dof_start[i]) + 3))
            for i in np.flatnonzero(np.asarray(frames.joint_type) == PrimitiveJointType.BALL)
        ]
        """First coordinate and dofs of each ball joint."""
        self.n_qs, self.n_dofs = model.n_qs, model.n_dofs

    def project(self, qpos: Array, derivatives: Array) -> Array:
        """Derivatives of the coordinates as positions in the tangent space.

        As of `mj_differentiatePos`.

        Args:
            qpos: coordinates, (n_qs, n_envs).
            derivatives: derivatives of the coordinates, (n_envs, n_qs, n).

        Returns:
            Derivatives of the positions, (n_envs, n_dofs, n).
        """
        result = np.zeros((len(derivatives), self.n_dofs, derivatives.shape[2]))
        result[:, self.scalar_dofs] = derivatives[:, self.scalar_qs]
        for q, dofs in self.balls:  # the columns of the basis have length 1/2
            basis = quaternion_basis(qpos[q : q + 4])
            result[:, dofs] = 4.0 * basis.transpose(0, 2, 1) @ derivatives[:, q : q + 4]
        return result

    def move(self, qpos: Array, displacement: Array) -> Array:
        """Coordinates (n_qs, n) moved by displacements of the dofs (n_dofs, n), as by `mj_integratePos`."""
        result = qpos.copy()
        result[self.scalar_qs] += displacement[self.scalar_dofs]
        for q, dofs in self.balls:
            angle = np.linalg.norm(displacement[dofs], axis=0)
            w, (x, y, z) = np.cos(0.5 * angle), 0.5 * np.sinc(0.5 * angle / np.pi) * displacement[dofs]
            a, b, c, d = qpos[q : q + 4]
            result[q : q + 4] = [
                a * w - b * x - c * y - d * z,
                a * x + b * w + c * z - d * y,
                a * y - b * z + c * w + d * x,
                a * z + b * y - c * x + d * w,
            ]
        return result

    def integration_jacobian(self, velocity: Array, dt: float, derivatives: Array) -> Array:
        """Derivatives of positions after a step of semi-implicit integration, q' = q + dt v'.

        Args:
            velocity: next velocities v', (n_dofs, n_envs).
            dt: time step [s].
            derivatives: derivatives of the next velocities by positions (the first n_dofs) and other variables,
                (n_envs, n_dofs, n).

        Returns:
            Derivatives of the next positions in the tangent space, (n_envs, n_dofs, n).
        """
        result = dt * derivatives
        result[:, self.scalar_dofs, self.scalar_dofs] += 1.0
        for _, dofs in self.balls:
            rotation, right_jacobian = _rotation_and_right_jacobian(dt * velocity[dofs])
            result[:, dofs] = right_jacobian @ result[:, dofs]
            result[:, dofs, dofs] += rotation.transpose(0, 2, 1)
        return result


def _rotation_and_right_jacobian(vector: Array) -> tuple[Array, Array]:
    """Rotation matrices exp([v]x) and right Jacobians of SO(3) of rotation vectors (3, n), (n, 3, 3) each."""
    cross = np.tensordot(vector, CROSS_PRODUCT_GENERATORS, (0, 0))
    square = cross @ cross
    squared_angle = np.einsum("in,in->n", vector, vector)[:, None, None]
    angle = np.maximum(np.sqrt(squared_angle), 1e-30)
    sine, half_sine = np.sin(angle) / angle, np.sin(0.5 * angle) / angle
    cosine = 2.0 * half_sine * half_sine  # (1 - cos(angle)) / angle^2
    series = (1.0 - 0.05 * squared_angle) / 6.0
    cubic = np.where(angle < 1e-3, series, (1.0 - sine) / np.maximum(squared_angle, 1e-30))
    return IDENTITY + sine * cross + cosine * square, IDENTITY - cosine * cross + cubic * square


def quaternion_basis(quaternion: Array) -> Array:
    """Derivative of quaternions (4, n) by rotation vectors in body axes, (n, 4, 3)."""
    return np.tensordot(quaternion, QUATERNION_BASIS_GENERATORS, (0, 0))
