"""Joints to joint prims: kinds, frames on both sides, limits, drives, and who may collide."""

from __future__ import annotations

import math

import numpy as np

from kinema.description import Axis, AxisMotion, AxisState, Base, Joint, JointKind, joint_motion
from kinema.foundation import Pose
from kinema.words import ours, physics, usd

from ..report import Action
from .draft import PrimDraft
from .joint_axes import UsdAxes, usd_axes
from .joint_settings import author_mimic, author_settings
from .names import author_name, give_back
from .plan import RobotPlan
from .writing import Writing

DEGREE = math.pi / 180
_TYPES = {
    JointKind.FIXED: physics.FIXED_JOINT,
    JointKind.REVOLUTE: physics.REVOLUTE_JOINT,
    JointKind.CONTINUOUS: physics.REVOLUTE_JOINT,
    JointKind.PRISMATIC: physics.PRISMATIC_JOINT,
    JointKind.SPHERICAL: physics.SPHERICAL_JOINT,
    JointKind.DISTANCE: physics.DISTANCE_JOINT,
}
"""Kinds that USD has a joint for; the others are the general joint with some axes locked."""


def author_joint(writing: Writing, parts: RobotPlan, joint: Joint) -> None:
    """The prim of a joint that has a path."""
    prim = writing.draft.prim(parts.joints[id(joint)], _type(joint))
    axes = usd_axes(joint)
    author_name(writing, prim, joint)
    _sides(writing, parts, joint, prim, axes)
    _kind(writing, joint, prim, axes)
    _flags(writing, parts, joint, prim)
    author_settings(writing, joint, prim)
    author_mimic(writing, parts, joint, prim)
    give_back(writing, prim, joint)


def _type(joint: Joint) -> str:
    if _is_locked(joint):
        return physics.FIXED_JOINT
    return _TYPES.get(joint.kind, physics.SIX_AXIS_JOINT)


def _is_locked(joint: Joint) -> bool:
    """Whether a joint of one axis cannot move."""
    return len(joint.axes) == 1 and joint.axes[0].locked and joint.kind in _TYPES


def say_without_prim(writing: Writing, parts: RobotPlan, joint: Joint) -> None:
    """A free joint is said by having none; a joint that leads nowhere cannot be said."""
    if joint.kind is not JointKind.FREE or any(j is joint for j in parts.tree.dangling):
        writing.lose(Action.DROPPED, joint, "the joint", "it names a link that does not exist, or one link twice")
        return
    free, other = (joint.child, joint.parent) if joint.child is not None else (joint.parent, joint.child)
    if free is None or not joint.enabled:
        return
    body = writing.draft.prims[parts.links[free]]
    body.keep(ours.FREE_JOINT, joint.name)
    if other is not None:
        body.relate(ours.FREE_JOINT_PARENT, [parts.links[other]], custom=True)
        if not writing.filters.joint_collides(parts, joint):
            writing.loose.append((parts.links[other], body.path))
    if joint.collision_enabled is not None:
        body.keep(ours.FREE_JOINT_COLLISION, joint.collision_enabled)
    for side, pose in enumerate((joint.parent_pose, joint.child_pose)):
        if not pose.is_close(Pose()):
            body.keep(ours.FREE_JOINT_POSITIONS[side], pose.position)
            body.keep(ours.FREE_JOINT_ROTATIONS[side], pose.quaternion)
    passive = [a for a in joint.axes if a.damping or a.friction or a.armature or a.stiffness or a.drive]
    if passive or math.isfinite(joint.break_force) or math.isfinite(joint.break_torque):
        how = "USD says that a body is free by having no joint, which leaves nothing to put them on"
        writing.lose(Action.DROPPED, joint, "damping, friction, armature, spring, drive or break force", how)


# -- frames -----------------------------------------------------------------------------------------------------------


def _sides(writing: Writing, parts: RobotPlan, joint: Joint, prim: PrimDraft, axes: UsdAxes) -> None:
    """Both bodies and the joint's frame on each; a side without a link is the robot's own prim, which never moves."""
    frames = _frames(writing, parts, joint)
    nested = writing.plan.layout == "nested"
    for side, (link, frame) in enumerate(zip((joint.parent, joint.child), frames, strict=True)):
        target = parts.path if link is None else parts.links[link]
        prim.relate(physics.BODIES[side], [target], relative=nested)
        turned = frame @ Pose(rotation=axes.turn)
        prim.number(physics.LOCAL_POSITIONS[side], "point3f", turned.position)
        prim.number(physics.LOCAL_ROTATIONS[side], "quatf", turned.quaternion)
    if not np.array_equal(axes.turn, np.eye(3)):
        prim.keep(ours.FRAME, Pose(rotation=axes.turn).quaternion)


def _frames(writing: Writing, parts: RobotPlan, joint: Joint) -> tuple[Pose, Pose]:
    """The joint's frames, with the coordinate at which they coincide made zero."""
    parent, child = joint.parent_pose, joint.child_pose
    if joint.stacked and writing.described.format != usd.FORMAT:
        # only the child's side of a stacked joint has a meaning; the other is where the links are shown
        held = Pose() if joint.parent is None else parts.poses[joint.parent]
        carried = Pose() if joint.child is None else parts.poses[joint.child]
        return held.inverse() @ carried @ child, child
    if any(a.reference for a in joint.moving_axes) and _folds(joint):
        offset = joint_motion(joint, np.zeros(joint.n_qs))
        parent = parent @ offset
    return parent, child


def _folds(joint: Joint) -> bool:
    """Whether the coordinate at which the frames coincide can be moved to zero by moving a frame."""
    return joint.n_dofs == 1 and not joint.stacked


# -- kinds ------------------------------------------------------------------------------------------------------------


def _kind(writing: Writing, joint: Joint, prim: PrimDraft, axes: UsdAxes) -> None:
    if not axes.is_exact:
        how = "USD's axes are square to each other, translations first; these are not, and the nearest are written"
        writing.lose(Action.APPROXIMATED, joint, "the directions of its axes", how)
        prim.keep(ours.DIRECTIONS, np.array([a.direction for a in joint.axes]))
    if _is_locked(joint):
        prim.keep(ours.KIND, joint.kind.value)
        prim.keep(ours.AXES, [axes.token(0, joint.axes[0])])
        writing.lose(Action.APPROXIMATED, joint, "the locked axis", "it is written as a fixed joint")
    elif joint.kind in (JointKind.REVOLUTE, JointKind.CONTINUOUS, JointKind.PRISMATIC):
        _one_axis(joint, prim, axes)
    elif joint.kind is JointKind.SPHERICAL:
        _spherical(writing, joint, prim)
    elif joint.kind is JointKind.DISTANCE:
        _distance(joint, prim)
    elif joint.kind is not JointKind.FIXED:
        _general(writing, joint, prim, axes)
    _references(writing, joint, prim)
    _turns(joint, prim)


def _one_axis(joint: Joint, prim: PrimDraft, axes: UsdAxes) -> None:
    axis = joint.axes[0]
    prim.set(physics.AXIS, "token", usd.XYZ[axes.slots[0]], uniform=True)
    unit = _unit(axis)
    for name, value in ((physics.LOWER_LIMIT, axis.lower), (physics.UPPER_LIMIT, axis.upper)):
        if math.isfinite(value):
            prim.number(name, "float", value / unit)
    _drive(axis, prim, physics.ANGULAR if axis.motion is AxisMotion.ROTATION else physics.LINEAR)
    free = axis.state is AxisState.FREE
    if (joint.kind is JointKind.CONTINUOUS and not free) or (joint.kind is JointKind.REVOLUTE and free):
        prim.keep(ours.KIND, joint.kind.value)


def _spherical(writing: Writing, joint: Joint, prim: PrimDraft) -> None:
    cone = joint.cone
    prim.set(physics.AXIS, "token", usd.XYZ[0 if cone is None else cone.axis], uniform=True)
    if cone is not None:
        for name, angle in zip(physics.CONE_ANGLES, (cone.angle_y, cone.angle_z), strict=True):
            if math.isfinite(angle):
                prim.number(name, "float", angle / DEGREE)
        if cone.total:
            prim.keep(ours.CONE_IS_TOTAL, True)
            how = "USD limits how far the axis swings, not how far the joint turns altogether"
            writing.lose(Action.APPROXIMATED, joint, "the limit of its whole rotation", how)
    for token, axis in zip(physics.SIX[3:], joint.axes, strict=False):
        _drive(axis, prim, token)
    if any(a.state is AxisState.LIMITED for a in joint.axes):
        writing.lose(Action.DROPPED, joint, "limits of single axes", "a spherical joint of USD has a cone only")


def _distance(joint: Joint, prim: PrimDraft) -> None:
    low, high = joint.distance
    if low > 0:
        prim.number(physics.MIN_DISTANCE, "float", low)
    if math.isfinite(high):
        prim.number(physics.MAX_DISTANCE, "float", high)


def _general(writing: Writing, joint: Joint, prim: PrimDraft, axes: UsdAxes) -> None:
    """The joint of six axes: those that the description does not have, or has locked, are locked."""
    at = {axes.token(i, a): a for i, a in enumerate(joint.axes)}
    also_free = _travel_of_screw(writing, joint, prim, axes)
    for token in physics.SIX:
        axis = at.get(token)
        if token == also_free:
            _limit(prim, token, -math.inf, math.inf)
            continue
        if axis is None or axis.locked:
            _limit(prim, token, 1.0, -1.0)  # low above high: locked
            if axis is not None:
                _drive(axis, prim, token)
            continue
        unit = _unit(axis)
        if axis.state is AxisState.LIMITED:
            low, high = axis.lower / unit, axis.upper / unit
            if low == high == 0.0 or low > high:  # which would say that it is locked
                prim.keep(ours.limit(token), (low, high))
            _limit(prim, token, low, high)
        else:
            # it says nothing that is not so without it, but Newton takes axes that it is not applied to for locked
            _limit(prim, token, -math.inf, math.inf)
        _drive(axis, prim, token)
    if joint.kind is not JointKind.SIX_AXIS or tuple(at) != physics.SIX:
        prim.keep(ours.KIND, joint.kind.value)
        prim.keep(ours.AXES, list(at))
    low, high = joint.distance
    if joint.kind is JointKind.SIX_AXIS and (low > 0 or math.isfinite(high)):
        _limit(prim, physics.DISTANCE, low, high)


def _travel_of_screw(writing: Writing, joint: Joint, prim: PrimDraft, axes: UsdAxes) -> str:
    """A screw also moves along its axis; that the two go together cannot be said."""
    if joint.kind is not JointKind.SCREW:
        return ""
    prim.keep(ours.PITCH, joint.pitch)
    how = "USD has no screw: turning about and moving along its axis are both free; the pitch is in kinema:pitch"
    writing.lose(Action.APPROXIMATED, joint, "the pitch", how)
    return physics.SIX[axes.slots[0]]


def _limit(prim: PrimDraft, token: str, low: float, high: float) -> None:
    prim.apply(physics.limit_api(token))
    for name, value in ((physics.LOW, low), (physics.HIGH, high)):
        if math.isfinite(value):
            prim.number(physics.limit(token, name), "float", value)


def _drive(axis: Axis, prim: PrimDraft, token: str) -> None:
    """USD's gains are per degree."""
    drive = axis.drive
    if drive is None:
        return
    prim.apply(physics.drive_api(token))
    unit = _unit(axis)
    prim.set(physics.drive(token, physics.TYPE), "token", drive.type.value, uniform=True)
    settings = {
        physics.STIFFNESS: drive.stiffness * unit,
        physics.DAMPING: drive.damping * unit,
        physics.TARGET_POSITION: drive.target_position / unit,
        physics.TARGET_VELOCITY: drive.target_velocity / unit,
        physics.MAX_FORCE: drive.max_force,
    }
    for name, value in settings.items():
        if value != (math.inf if name == physics.MAX_FORCE else 0.0):
            prim.number(physics.drive(token, name), "float", value)


def _turns(joint: Joint, prim: PrimDraft) -> None:
    """Where the joint starts, if it is more than half a turn away: poses do not tell how often it has turned."""
    start = joint.start
    if joint.kind is JointKind.SPHERICAL or start.shape != (joint.n_dofs,) or not np.isfinite(start).all():
        return
    turned = [s - a.reference for s, a in zip(start, joint.moving_axes, strict=True) if a.motion is AxisMotion.ROTATION]
    if any(abs(angle) > math.pi for angle in turned):
        prim.keep(ours.STATE, start.tolist())


def _references(writing: Writing, joint: Joint, prim: PrimDraft) -> None:
    """Where the coordinates at which the frames coincide are not zero, and no frame can say so."""
    references = [a.reference for a in joint.moving_axes]
    if not any(references):
        return
    prim.keep(ours.REFERENCE, references)
    if _folds(joint):
        prim.keep(ours.REFERENCE_IS_FOLDED, True)
    else:
        how = "in USD they coincide at zero; the coordinate is in kinema:reference"
        writing.lose(Action.EXTENSION, joint, "the coordinate at which its frames coincide", how)


def _unit(axis: Axis) -> float:
    return DEGREE if axis.motion is AxisMotion.ROTATION else 1.0


# -- the rest ---------------------------------------------------------------------------------------------------------


def _flags(writing: Writing, parts: RobotPlan, joint: Joint, prim: PrimDraft) -> None:
    moved_by_hand = _holds_kinematic(parts, joint)
    if not joint.enabled or moved_by_hand:
        prim.set(physics.JOINT_ENABLED, "bool", False)
    if joint.enabled and moved_by_hand:
        prim.keep(ours.IMPLIED, [ours.IMPLIED_SWITCH])
    if writing.filters.joint_collides(parts, joint):
        prim.set(physics.COLLISION_ENABLED, "bool", True)
    closes = id(joint) in parts.loops and writing.is_articulated(parts)
    if joint.closes_loop or closes:
        prim.set(physics.EXCLUDE_FROM_ARTICULATION, "bool", True, uniform=True)
        if not joint.closes_loop:
            prim.keep(ours.IMPLIED, [ours.IMPLIED_EXCLUSION])
    for name, value in ((physics.BREAK_FORCE, joint.break_force), (physics.BREAK_TORQUE, joint.break_torque)):
        if math.isfinite(value):
            prim.number(name, "float", value)
    if joint.implicit:
        prim.keep(ours.IMPLICIT, True)


def _holds_kinematic(parts: RobotPlan, joint: Joint) -> bool:
    """Whether the joint fixes a kinematic link to the world, which in USD would keep it from being moved."""
    if joint.kind is not JointKind.FIXED or (joint.parent is not None and joint.child is not None):
        return False
    link = parts.link_by_name.get(joint.child or joint.parent or "")
    return link is not None and link.kinematic


def hold_base(writing: Writing, parts: RobotPlan, root: str) -> str:
    """A base that is fixed without a joint has one in USD; its path."""
    body = parts.links[root]
    path = writing.plan.names.child(body, "base_fixed", "base_fixed")
    prim = writing.draft.prim(path, physics.FIXED_JOINT)
    prim.keep(ours.BASE, Base.FIXED.value)
    nested = writing.plan.layout == "nested"
    prim.relate(physics.BODIES[0], [parts.path], relative=nested)
    prim.relate(physics.BODIES[1], [body], relative=nested)
    prim.number(physics.LOCAL_POSITIONS[0], "point3f", parts.poses[root].position)
    prim.number(physics.LOCAL_ROTATIONS[0], "quatf", parts.poses[root].quaternion)
    prim.set(physics.COLLISION_ENABLED, "bool", True)
    return path
