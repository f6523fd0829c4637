"""Joints as they were before USD had to be told them: kinds it does not have, frames that were turned, references."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from kinema.description import (
    Axis,
    AxisMotion,
    Constraint,
    ConstraintKind,
    Joint,
    JointKind,
    free_axes,
    joint_motion,
    rotation,
    translation,
)
from kinema.foundation import Array, Origin, Pose, quaternion_to_matrix
from kinema.words import ours, physics, usd

from . import pxr
from .own_names import mark_generated
from .own_records import kept_fields
from .own_settings import own
from .stage_index import Body, StageIndex

_PER_AXIS = (
    *("armature", "damping", "friction", "velocity", "effort", "stiffness", "spring_reference"),
    *("acceleration", "deceleration", "jerk"),
)


def restore_joint(index: StageIndex, prim: pxr.Prim, joint: Joint, gap: Pose) -> Pose:
    """Undo what the writer did so that USD could say the joint.

    Args:
        index: the stage.
        prim: the joint's prim.
        joint: what was read so far.
        gap: the pose of the second side's frame in the first's, as the stage shows them.

    Returns:
        The gap between the frames as they are then.
    """
    if index.values.stamp is None:
        return gap
    mark_generated(index, prim, joint)
    joint.implicit = bool(own(index, prim, ours.IMPLICIT))
    implied = own(index, prim, ours.IMPLIED) or ()
    if ours.IMPLIED_EXCLUSION in implied:
        joint.closes_loop = False
    if ours.IMPLIED_SWITCH in implied:
        joint.enabled = True
    if joint.cone is not None and own(index, prim, ours.CONE_IS_TOTAL):
        joint.cone = dataclasses.replace(joint.cone, total=True)
    _kind(index, prim, joint)
    gap = _turn_back(index, prim, joint, gap)
    _settings(index, prim, joint)
    gap = _references(index, prim, joint, gap)
    if joint.kind is JointKind.SCREW:  # how far it has moved along its axis follows from how far it has turned
        direction = joint.axes[0].direction
        return Pose(gap.position - direction * float(direction @ gap.position), gap.rotation)
    return gap


def _kind(index: StageIndex, prim: pxr.Prim, joint: Joint) -> None:
    if joint.kind is JointKind.SIX_AXIS:
        _limits(index, prim, joint)
    token = own(index, prim, ours.KIND)
    if token is None or str(token) not in {k.value for k in JointKind}:
        return
    kind = JointKind(str(token))
    tokens = [str(t) for t in own(index, prim, ours.AXES) or (physics.SIX if kind is JointKind.SIX_AXIS else ())]
    if joint.kind is JointKind.FIXED:
        if len(tokens) == 1 and tokens[0] in physics.SIX:
            joint.kind, joint.axes = kind, [_axis(tokens[0], locked=True)]
        return
    if joint.kind in (JointKind.REVOLUTE, JointKind.CONTINUOUS):
        if kind in (JointKind.REVOLUTE, JointKind.CONTINUOUS):
            joint.kind = kind
        return
    if joint.kind is not JointKind.SIX_AXIS or any(t not in physics.SIX for t in tokens):
        return
    at: dict[str, Axis] = dict(zip(physics.SIX, joint.axes, strict=True))
    travels = _travel(index, prim, joint, kind, tokens)
    if any(not a.locked for t, a in at.items() if t not in tokens and t != travels):
        return  # somebody made the joint freer than it was
    joint.kind, joint.axes = kind, [at[t] for t in tokens]


def _travel(index: StageIndex, prim: pxr.Prim, joint: Joint, kind: JointKind, tokens: list[str]) -> str:
    """The axis along which a screw moves as it turns."""
    if kind is not JointKind.SCREW or len(tokens) != 1:
        return ""
    joint.pitch = float(own(index, prim, ours.PITCH) or 0.0)
    return tokens[0].replace("rot", "trans")


def _axis(token: str, *, locked: bool) -> Axis:
    direction = np.eye(3)[usd.XYZ.index(token[-1])]
    axis = rotation(direction) if token.startswith("rot") else translation(direction)
    axis.locked = locked
    return axis


def _limits(index: StageIndex, prim: pxr.Prim, joint: Joint) -> None:
    """Limits that would say that an axis is locked."""
    for token, axis in zip(physics.SIX, joint.axes, strict=True):
        kept = own(index, prim, ours.limit(token))
        if kept is not None and axis.locked:
            unit = math.pi / 180 if axis.motion is AxisMotion.ROTATION else index.units.length
            axis.locked, axis.lower, axis.upper = False, float(kept[0]) * unit, float(kept[1]) * unit


def _turn_back(index: StageIndex, prim: pxr.Prim, joint: Joint, gap: Pose) -> Pose:
    kept = own(index, prim, ours.FRAME)
    if kept is None:
        return gap
    turn = quaternion_to_matrix([kept.GetReal(), *kept.GetImaginary()])
    back = Pose(rotation=turn.T)
    if joint.kind is not JointKind.SPHERICAL:
        for axis in joint.axes:
            axis.direction = _clean(turn @ axis.direction)
    directions = own(index, prim, ours.DIRECTIONS)
    if directions is not None and len(directions) == len(joint.axes):
        for axis, direction in zip(joint.axes, directions, strict=True):
            axis.direction = np.array(direction, dtype=np.float64)
    joint.parent_pose, joint.child_pose = joint.parent_pose @ back, joint.child_pose @ back
    return Pose(rotation=turn) @ gap @ back


def _clean(direction: Array) -> Array:
    """A direction without the rounding of its quaternion."""
    rounded = np.where(np.abs(direction) < 1e-15, 0.0, direction)
    return rounded / np.linalg.norm(rounded)


def _references(index: StageIndex, prim: pxr.Prim, joint: Joint, gap: Pose) -> Pose:
    """The coordinates at which the frames coincide; where they were folded into a frame, they are taken out again."""
    kept = own(index, prim, ours.REFERENCE)
    axes = joint.moving_axes
    if kept is None or len(kept) != len(axes):
        return gap
    for axis, value in zip(axes, kept, strict=True):
        axis.reference = float(value)
    if not own(index, prim, ours.REFERENCE_IS_FOLDED):
        return gap
    folded = joint_motion(joint, np.zeros(joint.n_qs))
    joint.parent_pose = joint.parent_pose @ folded.inverse()
    return folded @ gap


def _settings(index: StageIndex, prim: pxr.Prim, joint: Joint) -> None:
    for field in _PER_AXIS:
        values = own(index, prim, ours.axis(field))
        if values is not None and len(values) == len(joint.axes):
            for axis, value in zip(joint.axes, values, strict=True):
                setattr(axis, field, float(value))


# -- free joints and constraints --------------------------------------------------------------------------------------


def free_joint(index: StageIndex, body: Body) -> Joint | None:
    """The free joint that was said by having none."""
    name = own(index, body.prim, ours.FREE_JOINT)
    if name is None:
        return None
    parents = [index.bodies.get(str(t)) for t in index.targets(body.prim, ours.FREE_JOINT_PARENT)]
    parent = parents[0] if parents else None
    joint = Joint(
        name=str(name),
        origin=Origin(index.file, None, body.path),
        kind=JointKind.FREE,
        parent=None if parent is None else parent.name,
        child=body.name,
        parent_pose=_kept_pose(index, body.prim, 0),
        child_pose=_kept_pose(index, body.prim, 1),
        axes=free_axes(),
    )
    collides = own(index, body.prim, ours.FREE_JOINT_COLLISION)
    joint.collision_enabled = None if collides is None else bool(collides)
    held = Pose() if parent is None else parent.pose
    motion = (held @ joint.parent_pose).inverse() @ body.pose @ joint.child_pose
    joint.initial = np.concatenate([motion.position, motion.quaternion])
    return joint


def _kept_pose(index: StageIndex, prim: pxr.Prim, side: int) -> Pose:
    point = own(index, prim, ours.FREE_JOINT_POSITIONS[side])
    turn = own(index, prim, ours.FREE_JOINT_ROTATIONS[side])
    if point is None or turn is None:
        return Pose()
    return Pose.from_quaternion(list(point), [turn.GetReal(), *turn.GetImaginary()])


def as_constraint(index: StageIndex, prim: pxr.Prim, joint: Joint) -> Constraint | None:
    """The constraint that a joint stands for; None for a joint that is one."""
    token = own(index, prim, ours.CONSTRAINT)
    if token is None or str(token) not in {k.value for k in ConstraintKind}:
        return None
    constraint = Constraint(
        name=joint.name,
        name_is_generated=joint.name_is_generated,
        origin=joint.origin,
        kind=ConstraintKind(str(token)),
        a=joint.parent,
        b=joint.child,
        pose_a=joint.parent_pose,
        pose_b=joint.child_pose,
        distance=joint.distance[0],
        active=joint.enabled,
        attributes=joint.attributes,
        order=joint.order,
    )
    _fill(index, prim, constraint)
    return constraint


def _fill(index: StageIndex, prim: pxr.Prim, constraint: Constraint) -> None:
    """What neither a joint nor mimicry says of a constraint."""
    for field, value in kept_fields(index, prim, ours.RECORD_CONSTRAINT).items():
        setattr(constraint, field, value)


def following(index: StageIndex, prim: pxr.Prim, joint: Joint) -> list[Constraint]:
    """The constraint that was written as one joint following another; the joint then follows nobody."""
    name = own(index, prim, ours.MIMIC_IS_CONSTRAINT)
    mimic = joint.axes[0].mimic if joint.axes else None
    if name is None or mimic is None:
        return []
    joint.axes[0].mimic = None
    line = (mimic.offset, mimic.multiplier, 0.0, 0.0, 0.0)
    kind, joint.order = ConstraintKind.JOINT, None
    constraint = Constraint(
        name=str(name), origin=joint.origin, kind=kind, a=joint.name, b=mimic.joint, polynomial=line
    )
    constraint.order = own(index, prim, ours.PLACE)
    constraint.name_is_generated = bool(own(index, prim, ours.MIMIC_NAME_IS_GENERATED))
    _fill(index, prim, constraint)
    return [constraint]
