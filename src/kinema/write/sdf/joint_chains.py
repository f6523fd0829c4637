"""Joints and stacked joints as chains of SDFormat joints, and the configuration at which the file poses the links."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from kinema.core import Array, Pose
from kinema.description import Axis, AxisMotion, Constraint, Joint, JointKind, KinematicTree, Robot, joint_coordinates
from kinema.tokens import sdf

from ..joint_chains import ChainJoint, build_chain, chain_joint_suffixes, invert_chain

# -------------------------------------------------------------------------------------------- chains of SDFormat joints


@dataclass(frozen=True, slots=True, eq=False)
class SdfChainJoint(ChainJoint):
    """One SDFormat joint of a chain."""

    kind: JointKind
    axes: list[Axis]
    coordinates: tuple[int, ...]
    """Indices of the source joint's coordinates of the axes; empty for a ball."""
    suffix: str = ""

    def inverted(self) -> SdfChainJoint:
        """Joint with the inverse motion at the same coordinates; a ball has inverse coordinates instead."""
        axes = [copy.copy(axis) for axis in reversed(self.axes)]
        for axis in axes:
            axis.direction = -axis.direction
        if self.kind is JointKind.SPHERICAL:
            axes = self.axes
        return replace(self, axes=axes, coordinates=self.coordinates[::-1])


@dataclass(frozen=True, slots=True, eq=False)
class JointChain:
    """Chain of joints from a parent to a child link."""

    joints: list[SdfChainJoint]
    child_frame: Pose
    """Frame of the last joint in the child link."""


def build_joint_chain(joints: Sequence[Joint]) -> JointChain:
    """Chain of SDFormat joints of a joint, or of the stacked joints between two links."""
    pieces, _ = build_chain(joints, decompose_joint)
    return JointChain(pieces, _child_frame(joints))


def _child_frame(joints: Sequence[Joint]) -> Pose:
    """Frame of the last moving joint in the child link."""
    moving = [i for i, j in enumerate(joints) if decompose_joint(j)]
    # those that move nothing add c @ c^-1, which is nothing
    return joints[moving[-1] if moving else 0].child_pose


def invert_joint_chain(chain: JointChain) -> JointChain:
    """The same chain from the child to the parent."""
    return JointChain(*invert_chain(chain.joints, chain.child_frame, SdfChainJoint.inverted))


def decompose_joint(joint: Joint) -> list[SdfChainJoint]:
    """SDFormat joints whose product is the motion of a joint of the description."""
    moving = joint.moving_axes
    if joint.kind is JointKind.SPHERICAL:
        return [SdfChainJoint(joint, JointKind.SPHERICAL, joint.axes, ())]
    usable = [(i, a) for i, a in enumerate(moving) if a.direction.any()]
    if joint.kind is JointKind.UNIVERSAL and len(usable) == 2:
        first, second = (a.direction for _, a in usable)
        is_own = joint.attributes.get(sdf.attribute_key(sdf.TYPE)) in ("universal", "revolute2")
        if is_own or abs(float(first @ second)) < 1e-12:  # programs take it to be square
            return [SdfChainJoint(joint, JointKind.UNIVERSAL, moving, (0, 1))]
    if joint.kind is JointKind.SCREW and usable and joint.pitch:
        return [SdfChainJoint(joint, JointKind.SCREW, [usable[0][1]], (0,))]
    return [
        SdfChainJoint(joint, _primitive_kind(joint, axis), [axis], (number,), suffix)
        for (number, axis), suffix in zip(usable, chain_joint_suffixes([a for _, a in usable]), strict=True)
    ]


def _primitive_kind(joint: Joint, axis: Axis) -> JointKind:
    if axis.motion is AxisMotion.TRANSLATION:
        return JointKind.PRISMATIC
    is_bounded = bool(np.isfinite([axis.lower, axis.upper]).any())
    return JointKind.CONTINUOUS if joint.kind is JointKind.CONTINUOUS and not is_bounded else JointKind.REVOLUTE


def nearest_coordinate(axis: Axis, transform: Pose) -> float:
    """Coordinate of an axis whose transform is nearest to a given one [m or rad]."""
    if axis.motion is AxisMotion.TRANSLATION:
        return float(axis.direction @ transform.position)
    r, d = transform.rotation, axis.direction
    sine = 0.5 * float(d @ np.array([r[2, 1] - r[1, 2], r[0, 2] - r[2, 0], r[1, 0] - r[0, 1]]))
    return float(np.arctan2(sine, 0.5 * (float(np.trace(r)) - 1.0)))


# -------------------------------------------------------------------------------------- configuration of the link poses

LOOP_TOLERANCE = 1e-9
"""Distance [m] and angle [rad] up to which the frames of a loop-closing joint coincide."""


def posing_coordinates(robot: Robot, tree: KinematicTree) -> dict[str, Array]:
    """Coordinates at which the file poses the links, by joint name; an empty table is the zero configuration.

    If loops are open at zero, the reference or initial coordinates are used, whichever closes them first.
    """
    zero: dict[str, Array] = {}
    joined = [c for c in robot.constraints if c.active and c.kind.value in ("connect", "weld")]
    if not (tree.loops or joined):
        return zero
    candidates = [zero, _reference_coordinates(robot), _initial_coordinates(robot)]
    gaps = [_loop_gap(robot, tree, c, joined) for c in candidates]
    return candidates[next((i for i, gap in enumerate(gaps) if gap <= LOOP_TOLERANCE), 0)]


def _reference_coordinates(robot: Robot) -> dict[str, Array]:
    found = {j.name: np.array([a.reference for a in j.moving_axes]) for j in robot.joints if _has_scalar_coordinates(j)}
    return {name: q for name, q in found.items() if q.any()}


def _initial_coordinates(robot: Robot) -> dict[str, Array]:
    starts = joint_coordinates(robot.joints, {})
    return {j.name: starts[j.name] for j in robot.joints if _has_scalar_coordinates(j) and starts[j.name].any()}


def _has_scalar_coordinates(joint: Joint) -> bool:
    return joint.kind not in (JointKind.SPHERICAL, JointKind.FREE, JointKind.DISTANCE)


def _loop_gap(
    robot: Robot, tree: KinematicTree, joint_values: dict[str, Array], constraints: list[Constraint]
) -> float:
    """Largest distance [m] between the frames of loop-closing joints and constraints at given coordinates."""
    poses = link_poses_at(robot, tree, joint_values)

    def at(link: str | None) -> Pose:
        return Pose() if link is None else poses.get(link, Pose())

    gaps = [0.0]
    for joint in tree.loops:
        if joint.kind is not JointKind.DISTANCE:
            a, b = at(joint.parent) @ joint.parent_pose, at(joint.child) @ joint.child_pose
            slides = any(x.motion is AxisMotion.TRANSLATION for x in joint.moving_axes)
            gaps.append(0.0 if slides else a.distance(b)[0])
    gaps += [(at(c.a) @ c.pose_a).distance(at(c.b) @ c.pose_b)[0] for c in constraints]
    return max(gaps)


def link_poses_at(robot: Robot, tree: KinematicTree, joint_values: dict[str, Array]) -> dict[str, Pose]:
    """Poses of all links in the model frame at given coordinates; free joints at their initial pose, others at zero."""
    by_name = {link.name: link for link in robot.links}
    poses = {root: by_name[root].pose or Pose() for root in tree.roots}
    for edge in tree.edges:
        values = {j.name: _joint_value(j, joint_values) for j in edge.joints}
        poses[edge.child] = (Pose() if edge.parent is None else poses[edge.parent]) @ edge.pose(values)
    return poses


def _joint_value(joint: Joint, joint_values: dict[str, Array]) -> Array:
    if joint.name in joint_values:
        return joint_values[joint.name]
    if joint.kind is JointKind.SPHERICAL:
        return np.array([1.0, 0.0, 0.0, 0.0])
    return joint.start if joint.kind is JointKind.FREE else np.zeros(joint.n_qs)
