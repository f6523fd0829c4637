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
        balls = np.flatnonzero(np.asarray(frames.joint_type) == PrimitiveJointType.BALL)
        self.ball_qs = frames.q_start[balls][:, None] + np.arange(4)
        """Coordinates of the ball joints, (n_balls, 4)."""
        self.ball_dofs = frames.dof_start[balls][:, None] + np.arange(3)
        """Dofs of the ball joints, (n_balls, 3)."""
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
        if len(self.ball_qs):  # the columns of the basis have length 1/2
            result[:, self.ball_dofs] = 4.0 * self.ball_bases(qpos).swapaxes(2, 3) @ derivatives[:, self.ball_qs]
        return result

    def ball_bases(self, qpos: Array) -> Array:
        """Derivatives of the quaternions of the ball joints by rotation vectors in body axes, (n_envs, n_balls, 4, 3).

        Args:
            qpos: coordinates, (n_qs, n_envs).
        """
        return np.einsum("bqn,qij->nbij", qpos[self.ball_qs], QUATERNION_BASIS_GENERATORS)

    def move(self, qpos: Array, displacement: Array) -> Array:
        """Coordinates (n_qs, n) moved by displacements of the dofs (n_dofs, n), as by `mj_integratePos`."""
        result = qpos.copy()
        result[self.scalar_qs] += displacement[self.scalar_dofs]
        if len(self.ball_qs):
            rotation = displacement[self.ball_dofs]  # (n_balls, 3, n)
            angle = np.linalg.norm(rotation, axis=1)
            w, (x, y, z) = np.cos(0.5 * angle), (0.5 * np.sinc(0.5 * angle / np.pi)) * rotation.swapaxes(0, 1)
            a, b, c, d = qpos[self.ball_qs].swapaxes(0, 1)
            moved = [
                a * w - b * x - c * y - d * z,
                a * x + b * w + c * z - d * y,
                a * y - b * z + c * w + d * x,
                a * z + b * y - c * x + d * w,
            ]
            result[self.ball_qs] = np.stack(moved, axis=1)
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
        if len(self.ball_dofs):
            dofs = self.ball_dofs
            rotation, right_jacobian = _rotation_and_right_jacobian(dt * velocity[dofs].transpose(2, 0, 1))
            result[:, dofs] = right_jacobian @ result[:, dofs]
            result[:, dofs[:, :, None], dofs[:, None, :]] += rotation.swapaxes(2, 3)
        return result


def _rotation_and_right_jacobian(vector: Array) -> tuple[Array, Array]:
    """Rotation matrices exp([v]x) and right Jacobians of SO(3) of rotation vectors (..., 3), (..., 3, 3) each."""
    cross = vector @ CROSS_PRODUCT_GENERATORS.reshape(3, 9)
    cross = cross.reshape(*vector.shape, 3)
    square = cross @ cross
    squared_angle = (vector * vector).sum(axis=-1)[..., None, None]
    angle = np.maximum(np.sqrt(squared_angle), 1e-30)
    sine, half_sine = np.sin(angle) / angle, np.sin(0.5 * angle) / angle
    cosine = 2.0 * half_sine * half_sine  # (1 - cos(angle)) / angle^2
    series = (1.0 - 0.05 * squared_angle) / 6.0
    cubic = np.where(angle < 1e-3, series, (1.0 - sine) / np.maximum(squared_angle, 1e-30))
    return IDENTITY + sine * cross + cosine * square, IDENTITY - cosine * cross + cubic * square
