"""Decomposition of joints into chains of primitive joints, and linear couplings, for the URDF and SDFormat writers.

A chain is an alternating sequence of constant poses and primitive joints: pose, joint, pose, joint, ..., pose. Every
joint and every stack of joints between two links is such a chain, and the inverse of a chain is a chain with the same
coordinates. Primitive joints therefore represent all joints, in either direction of the tree.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np

from kinema.core import Pose, axis_angle_to_matrix
from kinema.description import Axis, AxisMotion, Constraint, ConstraintKind, Inertial, Joint, Robot

# ------------------------------------------------------------------------------------------- chains of primitive joints

START_TOLERANCE = 1e-7
"""Deviation [m, rad] from the initial joint coordinate of a format that counts as rounding."""
SMALL_MASS = 2e-6
"""Mass [kg] of links that need one, such as the links between two joints of a chain.

libsdformat drops URDF links with masses up to 1e-6, MuJoCo refuses zero masses, and the default of SDFormat is 1.
"""
SMALL_INERTIA = 1e-9
"""Moments of inertia [kg m2] of links with `SMALL_MASS`."""


@dataclass(frozen=True, slots=True, eq=False)
class ChainJoint:
    """One primitive joint of a chain."""

    joint: Joint
    """Joint of the description from which the primitive joint derives."""
    before: Pose = field(default=Pose(), kw_only=True)
    """Pose of the joint frame in the frame at the end of the previous primitive joint."""


ChainJointT = TypeVar("ChainJointT", bound=ChainJoint)


def build_chain(
    joints: Sequence[Joint], decompose: Callable[[Joint], Iterable[ChainJointT]]
) -> tuple[list[ChainJointT], Pose]:
    """Decompose a joint, or the stacked joints between two links, into a chain of primitive joints.

    Args:
        joints: the stacked joints, from parent to child.
        decompose: primitive joints of one joint.

    Returns:
        The primitive joints and the constant pose after the last one.
    """
    motions: list[ChainJointT] = []
    here = joints[0].parent_pose
    for number, joint in enumerate(joints):
        if number:
            here = here @ joint.child_pose
        for motion in decompose(joint):
            motions.append(replace(motion, before=here @ motion.before))
            here = Pose()
        here = here @ joint.child_pose.inverse()
    return motions, here


def invert_chain(
    chain_joints: Sequence[ChainJointT], end_frame: Pose, invert: Callable[[ChainJointT], ChainJointT]
) -> tuple[list[ChainJointT], Pose]:
    """Inverse of a chain: the inverse primitive joints in reverse order, with the same coordinates.

    Args:
        chain_joints: the chain.
        end_frame: frame of the last primitive joint relative to the end of the chain.
        invert: inverse of one primitive joint.

    Returns:
        The primitive joints, and the pose from the last one to the new end.
    """
    result: list[ChainJointT] = []
    before = end_frame
    for motion in reversed(chain_joints):
        result.append(replace(invert(motion), before=before))
        before = motion.before.inverse()
    return result, before.inverse()


def chain_joint_suffixes(axes: Sequence[Axis]) -> list[str]:
    """Name suffixes of the primitive joints of a joint: `_translation` and `_rotation`, numbered if there are several.

    A single primitive joint has an empty suffix.
    """
    kinds = [a.motion.value for a in axes]
    if len(kinds) == 1:
        return [""]
    return [
        f"_{kind}" if kinds.count(kind) == 1 else f"_{kind}_{kinds[: i + 1].count(kind)}"
        for i, kind in enumerate(kinds)
    ]


def axis_transform(axis: Axis, value: float) -> Pose:
    """Transform of a prismatic or revolute axis at a coordinate value [m or rad]."""
    if value == 0:
        return Pose()
    if axis.motion is AxisMotion.ROTATION:
        return Pose(rotation=axis_angle_to_matrix(axis.direction, value))
    return Pose.translation(value * axis.direction)


def minimal_inertial() -> Inertial:
    """Mass properties of a link that needs a mass: `SMALL_MASS`, `SMALL_INERTIA`, centre at the origin."""
    return Inertial(SMALL_MASS, np.zeros(3), SMALL_INERTIA * np.eye(3))


# ----------------------------------------------------------------------------------------------------- linear couplings

Key = TypeVar("Key", bound=Hashable)


def linear_coupling(robot: Robot, constraint: Constraint) -> tuple[float, float] | None:
    """Offset and factor of a joint constraint whose polynomial is linear; None for other or inactive constraints.

    The result relates the coordinates themselves (follower = offset + factor * leader); the polynomial of a constraint
    counts coordinates from the references of their axes.
    """
    offset, factor, *higher = constraint.polynomial
    if constraint.kind is not ConstraintKind.JOINT or not constraint.active or any(higher):
        return None
    references = []
    for name, number in ((constraint.a, constraint.axis_a), (constraint.b, constraint.axis_b)):
        axes = next((j.moving_axes for j in robot.joints if j.name == name), [])
        if not 0 <= number < len(axes):
            return None
        references.append(axes[number].reference)
    return offset + references[0] - factor * references[1], factor


def follows(follower: Key, leader: Key, leader_of: Callable[[Key], Key | None]) -> bool:
    """Whether a mimic joint follows another directly or transitively; every joint follows itself."""
    seen: set[Key] = set()
    here: Key | None = follower
    while here is not None and here not in seen:
        if here == leader:
            return True
        seen.add(here)
        here = leader_of(here)
    return False
