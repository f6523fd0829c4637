"""Drives as actuators: a spring and damper towards a control, limited in force."""

from __future__ import annotations

import math

import numpy as np

from kinema.description import Axis, AxisMotion, Drive, DriveType, Joint, JointKind, Robot
from kinema.foundation import Pose
from kinema.words import mjcf

from ..text import Element, number, numbers
from .bodies import all_bodies, part_name
from .body_plan import BodyPlan
from .joint_parts import JointPart
from .writing import Writing


def write_drives(writing: Writing) -> dict[str, float]:
    """An actuator for every drive; gives back the controls that hold the targets, by actuator, where they are not 0."""
    targets: dict[str, float] = {}
    for robot in writing.robots:
        for joint in robot.joints:
            for number_of_axis, axis in enumerate(joint.moving_axes):
                if axis.drive is not None:
                    targets |= _drive(writing, robot, joint, number_of_axis, axis.drive)
            if any(a.drive is not None for a in joint.axes if a.locked):
                writing.drop(joint, "the drive of a locked axis", "the axis does not move")
    return targets


def _drive(writing: Writing, robot: Robot, joint: Joint, number_of_axis: int, drive: Drive) -> dict[str, float]:
    """The actuator of one drive; its control, if that is not zero."""
    axis = joint.moving_axes[number_of_axis]
    found = _acts_on(writing, joint, number_of_axis)
    if found is None:
        writing.drop(joint, "the drive", "it is not written as a joint that an actuator could move")
        return {}
    part, gear = found
    if part.kind == "ball":
        how = "the drives of its axes act on the components of the whole rotation"
        writing.approximate(joint, "its drives", how)
    scale = 1.0
    if drive.type is DriveType.ACCELERATION:
        scale = _carried_inertia(writing, part, axis)
        what = "kg m2" if axis.motion is AxisMotion.ROTATION else "kg"
        how = f"MuJoCo's gains give forces; they are written for the {scale:.6g} {what} that the joint carries at rest"
        writing.approximate(joint, "a drive that gives accelerations", how)
    stiffness, damping = scale * drive.stiffness, scale * drive.damping
    name = writing.names.new(mjcf.ACTUATOR, part_name(writing, part) + gear[1], robot)
    element = writing.section(mjcf.ACTUATOR).child(_tag(stiffness, damping), name=name, joint=part_name(writing, part))
    element.set({"gear": gear[0]})
    control = _law(element, drive, stiffness, damping)
    if math.isfinite(drive.max_force):
        element.set({"forcerange": f"{number(-drive.max_force)} {number(drive.max_force)}"})
    return {name: control} if control else {}


def _acts_on(writing: Writing, joint: Joint, number_of_axis: int) -> tuple[JointPart, tuple[str | None, str]] | None:
    """The joint of MuJoCo's, the gear, and what to add to the actuator's name."""
    for part in writing.parts_of.get(id(joint), []):
        if part.travel is not None or part.kind == "free":
            continue
        if part.kind == "ball" and joint.kind is JointKind.SPHERICAL:
            direction = part.place.rotation[:, number_of_axis] * (-1.0 if part.inverted else 1.0)
            return part, (numbers(direction.tolist()), f"_{'xyz'[number_of_axis]}")
        if part.number == number_of_axis and part.kind in ("hinge", "slide"):
            return part, (None, "")
    return None


def _tag(stiffness: float, damping: float) -> str:
    if stiffness > 0 and damping >= 0:
        return "position"
    return "velocity" if stiffness == 0 and damping > 0 else "general"


def _law(element: Element, drive: Drive, stiffness: float, damping: float) -> float:
    """Gain and bias; the control that stands for the drive's targets."""
    if element.tag == "position":
        element.set({"kp": number(stiffness), "kv": number(damping) if damping else None})
        return drive.target_position + drive.target_velocity * damping / stiffness
    if element.tag == "velocity":
        element.set({"kv": number(damping)})
        return drive.target_velocity
    element.set({"biastype": "affine", "gainprm": number(stiffness or damping)})
    element.set({"biasprm": numbers([0.0, -stiffness, -damping])})
    if stiffness:
        return drive.target_position + drive.target_velocity * damping / stiffness
    return drive.target_velocity if damping else 0.0


# -- inertia ----------------------------------------------------------------------------------------------------------


def _carried_inertia(writing: Writing, part: JointPart, axis: Axis) -> float:
    """The inertia of everything that hangs on a joint, about or along its axis, at the reference configuration."""
    body = next(b for b in all_bodies(writing) if part in b.parts)
    total = axis.armature
    assert part.direction is not None or part.kind == "ball"  # hinges and slides have one
    direction = part.direction if part.direction is not None else part.place.rotation[:, 0]
    for piece, pose in _subtree(body):
        inertial = piece.link.inertial if piece.link is not None else None
        if inertial is None:
            continue
        if axis.motion is AxisMotion.TRANSLATION:
            total += inertial.mass
            continue
        turned = pose.rotation @ inertial.inertia @ pose.rotation.T
        lever = np.cross(direction, pose.apply(inertial.center) - part.place.position)
        total += float(direction @ turned @ direction + inertial.mass * lever @ lever)
    return total if total > 0 else 1.0


def _subtree(body: BodyPlan) -> list[tuple[BodyPlan, Pose]]:
    """Everything below a body, posed in its frame."""
    result: list[tuple[BodyPlan, Pose]] = []
    stack = [(body, Pose())]
    while stack:
        current, pose = stack.pop()
        result.append((current, pose))
        stack += [(child, pose @ child.pose) for child in current.children]
    return result
