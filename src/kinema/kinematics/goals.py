"""Goals of inverse kinematics: residual and Jacobian of position, orientation, axis, look-at and centre of mass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kinema import ir
from kinema.core import Array, KinemaError
from kinema.dynamics.rigid.kinematics import Twist, twist_at_point
from kinema.dynamics.tree.kinematic_tree import WORLD
from kinema.dynamics.vector_math import (
    Vector,
    add,
    cross,
    dot,
    matmul,
    matrix_to_quaternion,
    quaternion_to_matrix,
    rotate,
    scale,
    sub,
    transpose,
)
from kinema.ir import Value

from .chain import ChainState

MIN_SQUARED_LENGTH = 1e-20
UNIT_AXES = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))


@dataclass(frozen=True, slots=True)
class GoalResidual:
    """Residual of a goal and its Jacobian by the free dofs."""

    residual: Sequence[Value]
    """Target minus current value [m], or approximately [rad]."""
    jacobian: dict[int, Sequence[Value]]
    """Free dof -> derivative of the current value by the dof."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Goal:
    """Base class of goals; a target of a goal has `target_size` values."""

    weight: float = 1.0
    """Weight of the squared residual in the cost."""

    target_size = 3
    """Number of values of a target."""
    is_angular = False
    """Whether the residual is an angle [rad]; otherwise a length [m]."""
    link_idx: int = -1
    """Link of the goal; -1 if there is none."""
    uses_whole_model = False
    """Whether the goal depends on all frames of the model."""

    def evaluate(self, state: ChainState, target: Sequence[Value]) -> GoalResidual:
        """Traced residual and Jacobian of the goal for a chain state and a target."""
        raise NotImplementedError(f"{type(self).__name__} does not implement `evaluate`")


@dataclass(frozen=True, kw_only=True, slots=True)
class PositionGoal(Goal):
    """Goal: a point of a link is at a target position in the world."""

    point: tuple[float, ...] = (0.0, 0.0, 0.0)
    """Point in link coordinates [m]."""
    mask: tuple[bool, ...] = (True, True, True)
    """World axes along which the position matters."""

    def evaluate(self, state: ChainState, target: Sequence[Value]) -> GoalResidual:
        """Residual target - position [m] and linear Jacobian of the point, along the masked world axes."""
        position = state.point_position(self.link_idx, self.point)
        columns = state.jacobian_columns(_link_frame(state, self.link_idx), position)
        return GoalResidual(
            self._masked(sub(target, position)), {dof: self._masked(column.linear) for dof, column in columns.items()}
        )

    def _masked(self, vector: Vector) -> list[Value]:
        return [x for x, wanted in zip(vector, self.mask, strict=True) if wanted]


@dataclass(frozen=True, kw_only=True, slots=True)
class OrientationGoal(Goal):
    """Goal: a link has a target orientation, given as quaternion (w, x, y, z)."""

    target_size = 4
    is_angular = True

    def evaluate(self, state: ChainState, target: Sequence[Value]) -> GoalResidual:
        """Residual 2 sin(angle / 2) axis of the rotation from current to target orientation, and angular Jacobian."""
        pose = state.link_pose(self.link_idx)
        w, *xyz = matrix_to_quaternion(matmul(quaternion_to_matrix(target), transpose(pose.rotation)))
        factor = ir.select(w, 0.0, -2.0, 2.0)
        columns = state.jacobian_columns(_link_frame(state, self.link_idx), pose.position)
        return GoalResidual(scale(factor, xyz), {dof: column.angular for dof, column in columns.items()})


@dataclass(frozen=True, kw_only=True, slots=True)
class AxisGoal(Goal):
    """Goal: an axis of a link points along the axis of a target quaternion (w, x, y, z); rotation about it is free."""

    axis: int = 2
    """Index of the link axis: 0, 1 or 2 for x, y or z."""
    target_size = 4
    is_angular = True

    def evaluate(self, state: ChainState, target: Sequence[Value]) -> GoalResidual:
        """Residual: difference of target axis and current axis (unit vectors); Jacobian omega x axis."""
        pose = state.link_pose(self.link_idx)
        current, desired = (rotate(r, UNIT_AXES[self.axis]) for r in (pose.rotation, quaternion_to_matrix(target)))
        columns = state.jacobian_columns(_link_frame(state, self.link_idx), pose.position)
        return GoalResidual(
            sub(desired, current), {dof: cross(column.angular, current) for dof, column in columns.items()}
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class LookAtGoal(Goal):
    """Goal: an axis through a point of a link points at a target position in the world."""

    axis: tuple[float, ...] = (0.0, 0.0, 1.0)
    """Unit vector in link coordinates."""
    point: tuple[float, ...] = (0.0, 0.0, 0.0)
    """Origin of the axis in link coordinates [m]."""
    is_angular = True

    def evaluate(self, state: ChainState, target: Sequence[Value]) -> GoalResidual:
        """Residual (unit vector from the link's point to the target minus the link's axis) and its Jacobian.

        The Jacobian includes the rotation of the axis and the translation of the point.
        """
        pose, origin = state.link_pose(self.link_idx), state.point_position(self.link_idx, self.point)
        to_target = sub(target, origin)
        inverse_distance = 1.0 / ir.sqrt(ir.maximum(dot(to_target, to_target), MIN_SQUARED_LENGTH))
        direction, axis = scale(inverse_distance, to_target), rotate(pose.rotation, self.axis)

        def column(twist: Twist) -> Vector:
            perpendicular = sub(twist.linear, scale(dot(direction, twist.linear), direction))
            return add(cross(twist.angular, axis), scale(inverse_distance, perpendicular))

        columns = state.jacobian_columns(_link_frame(state, self.link_idx), origin)
        return GoalResidual(sub(direction, axis), {dof: column(x) for dof, x in columns.items()})


@dataclass(frozen=True, kw_only=True, slots=True)
class CenterOfMassGoal(Goal):
    """Goal: the centre of mass of the whole model is at a target position in the world."""

    mask: tuple[bool, ...] = (True, True, True)
    """World axes along which the centre of mass matters."""
    uses_whole_model = True

    def evaluate(self, state: ChainState, target: Sequence[Value]) -> GoalResidual:
        """Residual target - centre of mass [m] along the masked axes, and centre-of-mass Jacobian.

        The column of a dof is its twist at the centre of mass of its subtree, scaled by the subtree's fraction of the
        total mass.
        """
        model, nodes = state.chain.model, state.chain.tree.nodes
        total = float(model.links.inertial_mass.sum())
        if total <= 0.0:
            raise KinemaError("inverse kinematics: the model has no mass, so there is no centre of mass")
        masses, moments = _subtree_masses_and_moments(state)
        center = scale(
            1.0 / total, add(_static_mass_moment(state), *(moments[n.index] for n in nodes if n.parent == WORLD))
        )
        columns: dict[int, Twist] = {}
        for node in nodes:
            if masses[node.index] == 0.0:
                continue
            pose, subtree_com = state.frame_poses[node.index], scale(1.0 / masses[node.index], moments[node.index])
            fraction = masses[node.index] / total
            for dof, twist in zip(node.dofs, state.joint_twists[node.index], strict=True):
                com_twist = twist_at_point(pose, twist, subtree_com)
                state.add_jacobian_column(columns, dof, Twist(com_twist.angular, scale(fraction, com_twist.linear)))
        return GoalResidual(
            self._masked(sub(target, center)), {dof: self._masked(x.linear) for dof, x in columns.items()}
        )

    def _masked(self, vector: Vector) -> list[Value]:
        return [x for x, wanted in zip(vector, self.mask, strict=True) if wanted]


def _subtree_masses_and_moments(state: ChainState) -> tuple[list[float], list[Vector]]:
    """Mass and first moment (mass times world centre of mass) of the subtree of each frame."""
    nodes = state.chain.tree.nodes
    masses = [float(node.inertia.mass) for node in nodes]  # type: ignore[arg-type]
    moments: list[Vector] = []
    for node in nodes:
        pose, inertia = state.frame_poses[node.index], node.inertia
        moments.append(add(scale(inertia.mass, pose.position), rotate(pose.rotation, inertia.first_moment)))
    for node in reversed(nodes):
        if node.parent != WORLD:
            masses[node.parent] += masses[node.index]
            moments[node.parent] = add(moments[node.parent], moments[node.index])
    return masses, moments


def _static_mass_moment(state: ChainState) -> list[float]:
    """First moment (mass times world centre of mass) of all links fixed to the world."""
    links = state.chain.model.links
    moment: Array = np.zeros(3)
    for i in np.flatnonzero(links.frame_idx == WORLD):
        moment += links.inertial_mass[i] * (links.pos[i] + links.rot[i] @ links.inertial_pos[i])
    return moment.tolist()


def _link_frame(state: ChainState, link: int) -> int:
    return int(state.chain.model.links.frame_idx[link])
