"""What holds a link as a chain: constant pose, simple motion, constant pose, simple motion, ..., constant pose.

Every joint, and every pile of stacked joints, is such a chain, and the inverse of a chain is one with the same
coordinates: so all of them can be said with simple joints, whichever way the tree runs along them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np

from kinema.description import Axis, AxisMotion, Inertial, Joint
from kinema.foundation import Pose, axis_angle_to_matrix

NO_START = 1e-7
"""What is less than this [m, rad] away from where a joint starts in a file anyway is rounding."""
SMALL_MASS = 2e-6
"""Mass [kg] of a link that has to have one: between two joints of a chain, say.

libsdformat drops links up to 1e-6 of a URDF file, MuJoCo refuses those of 0, and where SDFormat says nothing it is 1.
"""
SMALL_INERTIA = 1e-9
"""Its moments of inertia [kg m2]."""


@dataclass(frozen=True, slots=True, eq=False)
class Motion:
    """One motion of a chain."""

    joint: Joint
    """The joint it comes from."""
    before: Pose = field(default=Pose(), kw_only=True)
    """From where the motion before ends to where this one takes place."""


AnyMotion = TypeVar("AnyMotion", bound=Motion)


def chained(
    joints: Sequence[Joint], motions_of: Callable[[Joint], Iterable[AnyMotion]]
) -> tuple[list[AnyMotion], Pose]:
    """The motions of a joint, or of the stacked joints between two links, and the constant pose after the last one."""
    motions: list[AnyMotion] = []
    here = joints[0].parent_pose
    for number, joint in enumerate(joints):
        if number:
            here = here @ joint.child_pose
        for motion in motions_of(joint):
            motions.append(replace(motion, before=here @ motion.before))
            here = Pose()
        here = here @ joint.child_pose.inverse()
    return motions, here


def inverted(
    motions: Sequence[AnyMotion], frame: Pose, invert: Callable[[AnyMotion], AnyMotion]
) -> tuple[list[AnyMotion], Pose]:
    """The inverse of a chain: the inverse motions in the opposite order.

    Args:
        motions: the chain.
        frame: where the last motion takes place, seen from the chain's end.
        invert: the inverse of one motion, at the same coordinates.

    Returns:
        The motions, and where the last of them takes place, seen from the new end.
    """
    result: list[AnyMotion] = []
    before = frame
    for motion in reversed(motions):
        result.append(replace(invert(motion), before=before))
        before = motion.before.inverse()
    return result, before.inverse()


def suffixes(axes: Sequence[Axis]) -> list[str]:
    """What makes names for the motions of a joint: `_translation` and `_rotation`, numbered where there are several.

    The only motion of a joint has the joint's own name.
    """
    kinds = [a.motion.value for a in axes]
    if len(kinds) == 1:
        return [""]
    return [
        f"_{kind}" if kinds.count(kind) == 1 else f"_{kind}_{kinds[: i + 1].count(kind)}"
        for i, kind in enumerate(kinds)
    ]


def motion_along(axis: Axis, value: float) -> Pose:
    """What a coordinate does."""
    if value == 0:
        return Pose()
    if axis.motion is AxisMotion.ROTATION:
        return Pose(rotation=axis_angle_to_matrix(axis.direction, value))
    return Pose.translation(value * axis.direction)


def small_inertial() -> Inertial:
    """The mass properties of a link that has to have some."""
    return Inertial(SMALL_MASS, np.zeros(3), SMALL_INERTIA * np.eye(3))
