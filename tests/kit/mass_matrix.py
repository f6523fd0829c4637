"""The mass matrix from forward kinematics alone: an independent way through a description's frames and inertias."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from kinema.core import Array, Pose, axis_angle_to_matrix, matrix_to_quaternion, quaternion_to_matrix
from kinema.description import Joint, JointKind, Robot, World

_STEP = 1e-3
_STENCIL = ((-2, 1 / 12), (-1, -2 / 3), (1, 2 / 3), (2, -1 / 12))
"""Fourth-order central difference."""

Move = Callable[[Array, float], Array]
"""Coordinates and a step -> coordinates that far along one degree of freedom."""


def moves(joint: Joint) -> list[Move]:
    """One move per degree of freedom, in MuJoCo's velocity coordinates (rotations of balls in the child's frame)."""
    if joint.kind is JointKind.SPHERICAL:
        return [_turn(i, 0) for i in range(3)]
    if joint.kind is JointKind.FREE:
        return [_shift(i) for i in range(3)] + [_turn(i, 3) for i in range(3)]
    return [_shift(i) for i in range(joint.n_qs)]


def _shift(i: int) -> Move:
    def move(q: Array, h: float) -> Array:
        moved = q.copy()
        moved[i] += h
        return moved

    return move


def _turn(i: int, start: int) -> Move:
    def move(q: Array, h: float) -> Array:
        moved = q.copy()
        turned = quaternion_to_matrix(q[start : start + 4]) @ axis_angle_to_matrix(np.eye(3)[i], h)
        moved[start : start + 4] = matrix_to_quaternion(turned)
        return moved

    return move


def mass_matrix(robot: Robot | World, joints: Sequence[str], configuration: dict[str, Array]) -> Array:
    """M(q) for the named joints, by differences of link poses; other joints must not move."""
    by_name = {j.name: j for j in robot.joints}
    poses = robot.link_poses(configuration)
    columns = [
        link_velocities(robot, name, move, configuration, poses) for name in joints for move in moves(by_name[name])
    ]
    matrix = np.zeros((len(columns), len(columns)))
    links = {link.name: link.inertial for link in robot.links if link.inertial is not None}
    for i, a in enumerate(columns):
        for j, b in enumerate(columns[: i + 1]):
            for name, inertial in links.items():
                r = poses[name].rotation
                (va, wa), (vb, wb) = a[name], b[name]
                matrix[i, j] += inertial.mass * va @ vb + wa @ (r @ inertial.inertia @ r.T) @ wb
            matrix[j, i] = matrix[i, j]
    armature = [axis.armature for name in joints for axis in by_name[name].moving_axes]
    return matrix + np.diag(armature)


def link_velocities(
    robot: Robot | World, joint: str, move: Move, configuration: dict[str, Array], poses: dict[str, Pose]
) -> dict[str, tuple[Array, Array]]:
    """For each link with mass, the velocity of its centre of mass and its angular velocity per unit of the dof."""
    linear = {name: np.zeros(3) for name in poses}
    spin = {name: np.zeros((3, 3)) for name in poses}
    centers = {link.name: link.inertial.center for link in robot.links if link.inertial is not None}
    for k, weight in _STENCIL:
        moved = robot.link_poses({**configuration, joint: move(configuration[joint], k * _STEP)})
        for name, center in centers.items():
            linear[name] += weight / _STEP * moved[name].apply(center)
            spin[name] += weight / _STEP * moved[name].rotation
    result = {}
    for name in centers:
        w = spin[name] @ poses[name].rotation.T
        result[name] = (linear[name], np.array([w[2, 1] - w[1, 2], w[0, 2] - w[2, 0], w[1, 0] - w[0, 1]]) / 2)
    return result
