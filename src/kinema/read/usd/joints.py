"""Converts joint prims: kinds, limits, drives, mimic joints, and stacked joints between the same two bodies."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kinema.core import Origin
from kinema.description import (
    Axis,
    AxisMotion,
    ConeLimit,
    Drive,
    DriveType,
    Joint,
    JointKind,
    Mimic,
    can_reverse,
    reverse_joint,
    rotation,
    spherical_axes,
    translation,
)
from kinema.tokens import mjc, newton, physx, usd_physics

from . import pxr
from .articulations import articulation_links
from .joint_frames import AXIS_INDEX, JointSide, JointSides, JointTargetError, read_joint_sides, set_joint_state
from .kinema_round_trip import restore_joint
from .prim_values import schema_instances
from .stage_index import StageIndex
from .transforms import DEGREE
from .vendor_schemas import COORDINATE_SCALE, apply_joint_attributes

# -- mimic joints ------------------------------------------------------------------------------------------------------

NEWTON_MIMIC_ATTRIBUTES = (newton.MIMIC_OFFSET, newton.MIMIC_FACTOR, newton.MIMIC_ENABLED)
"""Attributes that belong to `newton:mimicJoint`."""


def apply_mimic(index: StageIndex, prim: pxr.Prim, joint: Joint, joint_names: Mapping[str, str]) -> None:
    """Set the mimic relation of a joint from Newton's or PhysX's mimic schema.

    Args:
        index: the stage.
        prim: prim of the joint.
        joint: gets the mimic on its first axis.
        joint_names: prim path -> name, of all joints.
    """
    leaders = index.targets(prim, newton.MIMIC_JOINT)
    if leaders and joint.axes and index.value(prim, newton.MIMIC_ENABLED) is not False:
        offset, multiplier = (index.authored(prim, name) for name in (newton.MIMIC_OFFSET, newton.MIMIC_FACTOR))
        axis = joint.axes[0]
        axis.mimic = Mimic(
            joint=_leader_joint(index, prim, joint, str(leaders[0]), joint_names),
            multiplier=1.0 if multiplier is None else float(multiplier),
            offset=0.0 if offset is None else float(offset) * COORDINATE_SCALE.factor(index, axis),
        )
    _apply_physx_mimic(index, prim, joint, joint_names)


def _apply_physx_mimic(index: StageIndex, prim: pxr.Prim, joint: Joint, joint_names: Mapping[str, str]) -> None:
    """Set the mimic relation from PhysX's schema: q + gearing * q_leader + offset = 0."""
    for name in sorted(index.values.facts(prim).authored):
        parts = name.split(":")
        if parts[0] != physx.MIMIC_NAMESPACE or parts[-1] != physx.MIMIC_REFERENCE:
            continue
        leaders = index.targets(prim, name)
        if not leaders or not joint.axes:
            continue
        prefix = ":".join(parts[:-1])
        gearing, offset = (index.authored(prim, f"{prefix}:{n}") for n in (physx.MIMIC_GEARING, physx.MIMIC_OFFSET))
        axis = joint.axes[0]
        axis.mimic = Mimic(
            joint=_leader_joint(index, prim, joint, str(leaders[0]), joint_names),
            multiplier=-float(1.0 if gearing is None else gearing),
            offset=-float(offset or 0.0) * COORDINATE_SCALE.factor(index, axis),
        )


def _leader_joint(index: StageIndex, prim: pxr.Prim, joint: Joint, path: str, joint_names: Mapping[str, str]) -> str:
    """Name of the leading joint at a path; warns if the path is no joint."""
    if path not in joint_names:
        index.diagnostics.warning(
            "usd.mimic-target",
            f"joint {joint.name!r} follows {path}, which is no joint",
            origin=index.origin(prim),
        )
    return joint_names.get(path, path)


# -- several joints between two bodies ---------------------------------------------------------------------------------


def stack_joints(
    index: StageIndex,
    joints: Sequence[tuple[pxr.Prim, Joint]],
    articulated: Mapping[str, Sequence[str]],
    override: bool | None,
) -> None:
    """Mark joints between the same two links as stacked (composed in series) where the stage or user asks for it.

    By default one joint is in the tree and the others close loops. Joints are composed in series if the
    user or the articulation asks for it and, as in MJCF, on a stage with MuJoCo's attributes.

    Args:
        index: the stage.
        joints: joints with their prims, in stage order.
        articulated: link name -> all links of its articulation.
        override: setting of the user; None for the setting of the stage.
    """
    bundles: dict[frozenset[str | None], list[tuple[pxr.Prim, Joint]]] = {}
    for prim, joint in joints:
        if joint.enabled and not joint.closes_loop:
            bundles.setdefault(frozenset((joint.parent, joint.child)), []).append((prim, joint))
    several = [bundle for bundle in bundles.values() if len(bundle) > 1]
    if not several:
        return
    stated = _stated_stacking(index, articulated)
    guessed = [b for b in several if _stack_bundle(index, b, stated, override)]
    if guessed:
        message = (
            f"{len(guessed)} pair(s) of bodies have several joints with MuJoCo's settings; they add their motion, as in"
            f" MJCF: {', '.join(j.name for _, j in guessed[0])} are the first"
        )
        hint = f"author {newton.JOINTS_ADD_MOBILITY} on the articulation's root"
        index.diagnostics.note("usd.stacked-joints", message, hint=hint, origin=Origin(index.file))


def _stack_bundle(
    index: StageIndex, bundle: Sequence[tuple[pxr.Prim, Joint]], stated: Mapping[str, bool], override: bool | None
) -> bool:
    """Mark the joints of one pair of links as stacked; returns whether this was inferred from MuJoCo attributes."""
    ends = (end for _, joint in bundle for end in (joint.parent, joint.child) if end is not None)
    answer = override if override is not None else next((stated[end] for end in ends if end in stated), None)
    guess = answer is None and _has_mujoco_attributes(index, bundle)
    if answer or guess:
        for _, joint in bundle[1:]:
            joint.stacked = _align_direction(joint, bundle[0][1])
            if not joint.stacked:
                index.diagnostics.warning(
                    "usd.stacked-backwards",
                    f"joint {joint.name!r} cannot add its motion to {bundle[0][1].name!r}: it runs the other way, and a"
                    f" {joint.kind.value} joint has no inverse of its kind; it closes a loop",
                    hint="swap physics:body0 and physics:body1, and the frames with them",
                    origin=joint.origin,
                )
    return guess


def _align_direction(joint: Joint, first: Joint) -> bool:
    """Reverse a joint to run from the same parent as `first`; False if its kind cannot be reversed."""
    if joint.parent == first.parent:
        return True
    if not can_reverse(joint):
        return False
    turned = reverse_joint(joint)
    joint.parent, joint.child, joint.axes = turned.parent, turned.child, turned.axes
    joint.parent_pose, joint.child_pose = turned.parent_pose, turned.child_pose
    return True


def _stated_stacking(index: StageIndex, articulated: Mapping[str, Sequence[str]]) -> dict[str, bool]:
    """Link -> `newton:jointsAddMobility` of its scene, articulation or body."""
    result: dict[str, bool] = {}
    for prim in index.scenes:
        value = index.authored(prim, newton.JOINTS_ADD_MOBILITY)
        if value is not None:
            result.update(dict.fromkeys(articulated, bool(value)))
    links_of = articulation_links(index)
    sources = [(prim, links_of[index.values.facts(prim).path]) for prim in index.articulations]
    sources += [(body.prim, [body.name]) for body in index.bodies.values()]
    for prim, links in sources:
        value = index.authored(prim, newton.JOINTS_ADD_MOBILITY)
        if value is not None:
            result.update({name: bool(value) for link in links for name in articulated[link]})
    return result


def _has_mujoco_attributes(index: StageIndex, bundle: Sequence[tuple[pxr.Prim, Joint]]) -> bool:
    prims = [*index.scenes, *(prim for prim, _ in bundle)]
    return any(name.startswith(mjc.NAMESPACE) for prim in prims for name in index.values.facts(prim).authored)


# -- joint prims -------------------------------------------------------------------------------------------------------

_JOINT_KINDS = {
    usd_physics.FIXED_JOINT: JointKind.FIXED,
    usd_physics.REVOLUTE_JOINT: JointKind.REVOLUTE,
    usd_physics.PRISMATIC_JOINT: JointKind.PRISMATIC,
    usd_physics.SPHERICAL_JOINT: JointKind.SPHERICAL,
    usd_physics.DISTANCE_JOINT: JointKind.DISTANCE,
    usd_physics.SIX_AXIS_JOINT: JointKind.SIX_AXIS,
}
_KINDS_WITH_AXIS = (JointKind.REVOLUTE, JointKind.PRISMATIC, JointKind.SPHERICAL)


def read_joints(index: StageIndex, names: Mapping[str, str]) -> list[tuple[pxr.Prim, Joint]]:
    """All joints with their prims; joints with invalid targets are reported and omitted.

    Args:
        index: the stage.
        names: prim path -> joint name.
    """
    axis_indices = [_joint_axis_index(index, prim) for prim in index.joints]
    result: list[tuple[pxr.Prim, Joint]] = []
    for prim, axis_index, sides in zip(
        index.joints,
        axis_indices,
        read_joint_sides(index, list(zip(index.joints, axis_indices, strict=True))),
        strict=True,
    ):
        joint = _read_joint(index, prim, names[index.values.facts(prim).path], axis_index, sides)
        if joint is not None:
            result.append((prim, joint))
    return result


def _read_joint(
    index: StageIndex, prim: pxr.Prim, name: str, axis_index: int | None, sides: JointSides | JointTargetError
) -> Joint | None:
    """Convert one joint prim; None with an error if its targets are invalid."""
    if isinstance(sides, JointTargetError):
        hint = "point physics:body0 and physics:body1 at bodies; leave one empty for the world"
        message = f"joint {name!r} is left out: {sides}"
        index.diagnostics.error("usd.joint-target", message, hint=hint, origin=index.origin(prim))
        return None
    first, second, gap = sides
    if not _is_valid_connection(index, prim, name, first, second):
        return None
    kind = _joint_kind(index, prim)
    joint = Joint(
        name=name,
        origin=index.origin(prim),
        kind=kind,
        parent=None if first.body is None else first.body.name,
        child=None if second.body is None else second.body.name,
        parent_pose=first.frame,
        child_pose=second.frame,
        axes=_read_axes(index, prim, kind, axis_index or 0),
        enabled=index.value(prim, usd_physics.JOINT_ENABLED) is not False,
        collision_enabled=_may_collide(index, prim, first, second),
        closes_loop=bool(index.value(prim, usd_physics.EXCLUDE_FROM_ARTICULATION)),
        break_force=_scaled_or_default(index.value(prim, usd_physics.BREAK_FORCE), index.units.force, math.inf),
        break_torque=_scaled_or_default(index.value(prim, usd_physics.BREAK_TORQUE), index.units.torque, math.inf),
    )
    if kind is JointKind.SPHERICAL:
        joint.cone = _cone_limit(index, prim, axis_index or 0)
    elif kind is JointKind.DISTANCE:
        joint.distance = _distance_range(index, prim)
    elif kind is JointKind.SIX_AXIS:
        joint.distance = _dof_distance_range(index, prim)
    elif kind is JointKind.REVOLUTE and joint.axes[0].state == "free":
        joint.kind = JointKind.CONTINUOUS
    _read_drives(index, prim, joint, kind, axis_index or 0)
    _warn_unused_limits(index, prim, joint, kind)
    apply_joint_attributes(index, prim, joint, {*NEWTON_MIMIC_ATTRIBUTES})
    set_joint_state(index, prim, joint, restore_joint(index, prim, joint, gap))
    return joint


def _joint_kind(index: StageIndex, prim: pxr.Prim) -> JointKind:
    return _JOINT_KINDS.get(index.values.facts(prim).kind.type, JointKind.SIX_AXIS)


def _joint_axis_index(index: StageIndex, prim: pxr.Prim) -> int | None:
    """Index of the frame axis of a revolute, prismatic or spherical joint; None for other kinds."""
    if _joint_kind(index, prim) not in _KINDS_WITH_AXIS:
        return None
    token = str(index.value(prim, usd_physics.AXIS) or "X")
    if token not in AXIS_INDEX:
        index.diagnostics.error(
            "usd.bad-axis", f"joint {prim.GetName()!r} has the axis {token!r}; X is assumed", origin=index.origin(prim)
        )
    return AXIS_INDEX.get(token, 0)


def _is_valid_connection(index: StageIndex, prim: pxr.Prim, name: str, first: JointSide, second: JointSide) -> bool:
    """Whether the two sides are on different bodies; reports an error otherwise."""
    if first.body is not second.body:
        return True
    where = "the world" if first.body is None else f"body {first.body.name!r}"
    index.diagnostics.error(
        "usd.joint-to-itself",
        f"joint {name!r} is left out: both of its sides are on {where}",
        hint="one side at least must be on an enabled rigid body, and not both on the same",
        origin=index.origin(prim),
    )
    return False


def _may_collide(index: StageIndex, prim: pxr.Prim, first: JointSide, second: JointSide) -> bool | None:
    """Collision flag of a joint: True if enabled, False between two bodies, None with the world.

    Contacts with a static collider on the world side are excluded in `collision_filters`.
    """
    if index.value(prim, usd_physics.COLLISION_ENABLED):
        return True
    return None if first.body is None or second.body is None else False


def _read_axes(index: StageIndex, prim: pxr.Prim, kind: JointKind, axis_index: int) -> list[Axis]:
    direction = np.eye(3)[axis_index]
    if kind is JointKind.REVOLUTE:
        return [_with_limits(index, prim, rotation(direction), DEGREE)]
    if kind is JointKind.PRISMATIC:
        return [_with_limits(index, prim, translation(direction), index.units.length)]
    if kind is JointKind.SPHERICAL:
        return spherical_axes()
    if kind is JointKind.SIX_AXIS:
        return [_read_dof_axis(index, prim, i, token) for i, token in enumerate(usd_physics.DOF_TOKENS)]
    return []


def _with_limits(index: StageIndex, prim: pxr.Prim, axis: Axis, unit: float) -> Axis:
    """Set the limits of a revolute or prismatic axis; locked with a warning if lower > upper."""
    axis.lower = _scaled_or_default(index.value(prim, usd_physics.LOWER_LIMIT), unit, -math.inf)
    axis.upper = _scaled_or_default(index.value(prim, usd_physics.UPPER_LIMIT), unit, math.inf)
    if axis.lower > axis.upper:
        index.diagnostics.warning(
            "usd.limits-lock",
            f"the lower limit of joint {prim.GetName()!r} is above its upper one, which locks it",
            hint="swap the limits, or make it a fixed joint",
            origin=index.origin(prim),
        )
        axis.locked, axis.lower, axis.upper = True, -math.inf, math.inf
    return axis


def _read_dof_axis(index: StageIndex, prim: pxr.Prim, dof: int, token: str) -> Axis:
    """One axis of a generic joint: free without limit schema, locked if low > high."""
    is_rotation = dof >= 3
    axis = (rotation if is_rotation else translation)(np.eye(3)[dof % 3])
    if usd_physics.limit_api(token) in index.schemas(prim):
        low, high = _limit_range(index, prim, token, DEGREE if is_rotation else index.units.length)
        if low > high or low == high == 0.0:
            axis.locked = True
        else:
            axis.lower, axis.upper = low, high
    return axis


def _limit_range(index: StageIndex, prim: pxr.Prim, token: str, unit: float) -> tuple[float, float]:
    """Range of a limit schema in SI units."""
    low = _scaled_or_default(index.value(prim, usd_physics.limit_attribute(token, usd_physics.LOW)), unit, -math.inf)
    return low, _scaled_or_default(
        index.value(prim, usd_physics.limit_attribute(token, usd_physics.HIGH)), unit, math.inf
    )


def _dof_distance_range(index: StageIndex, prim: pxr.Prim) -> tuple[float, float]:
    """Distance range [m] between the frames of a generic joint; zero if low > high."""
    if usd_physics.limit_api(usd_physics.DISTANCE) not in index.schemas(prim):
        return 0.0, math.inf
    low, high = _limit_range(index, prim, usd_physics.DISTANCE, index.units.length)
    return (0.0, 0.0) if low > high else (max(low, 0.0), high)


def _warn_unused_limits(index: StageIndex, prim: pxr.Prim, joint: Joint, kind: JointKind) -> None:
    """Warn about limit schemas for axes that the joint does not have."""
    known = {*usd_physics.DOF_TOKENS, usd_physics.DISTANCE} if kind is JointKind.SIX_AXIS else set[str]()
    for token in schema_instances(index.schemas(prim), usd_physics.LIMIT_API):
        if token not in known:
            _warn_no_axis(index, prim, joint, usd_physics.limit_api(token))


def _read_drives(index: StageIndex, prim: pxr.Prim, joint: Joint, kind: JointKind, axis_index: int) -> None:
    """Assign the drive schemas to the axes of a joint; warns about drives without axis."""
    index_of: dict[str, int] = {}
    if kind is JointKind.SIX_AXIS:
        index_of = {token: i for i, token in enumerate(usd_physics.DOF_TOKENS)}
    elif kind is JointKind.SPHERICAL:
        index_of = {token: i for i, token in enumerate(usd_physics.DOF_TOKENS[3:])}
    elif kind is JointKind.REVOLUTE:
        index_of = {usd_physics.DOF_TOKENS[3 + axis_index]: 0, usd_physics.ANGULAR: 0}
    elif kind is JointKind.PRISMATIC:
        index_of = {usd_physics.DOF_TOKENS[axis_index]: 0, usd_physics.LINEAR: 0}
    tokens = schema_instances(index.schemas(prim), usd_physics.DRIVE_API)
    for token in tokens:
        if token not in index_of:
            _warn_no_axis(index, prim, joint, usd_physics.drive_api(token))
    for token, number in index_of.items():  # `angular` and `linear` come last and take precedence
        if token in tokens:
            joint.axes[number].drive = _read_drive(index, prim, joint.axes[number], token)


def _warn_no_axis(index: StageIndex, prim: pxr.Prim, joint: Joint, schema: str) -> None:
    index.diagnostics.warning(
        "usd.no-such-axis",
        f"{schema} on joint {joint.name!r} is ignored: its type has no axis of that name",
        hint="limits and drives are for transX to rotZ of a PhysicsJoint (limits for its distance too);"
        " drives also for `angular` of a revolute and `linear` of a prismatic joint",
        origin=index.origin(prim),
    )


def _read_drive(index: StageIndex, prim: pxr.Prim, axis: Axis, token: str) -> Drive:
    """Convert a drive schema to SI units."""

    def get(name: str) -> Any:
        return index.value(prim, usd_physics.drive_attribute(token, name))

    units = index.units
    is_rotation = axis.motion is AxisMotion.ROTATION
    coordinate = DEGREE if is_rotation else units.length
    kind = DriveType.ACCELERATION if str(get(usd_physics.TYPE)) == DriveType.ACCELERATION.value else DriveType.FORCE
    force = units.torque if is_rotation else units.force
    # gains are force or acceleration (rad/s2, length/s2) per degree or length
    acceleration = 1.0 if is_rotation else units.length
    gain = (force if kind is DriveType.FORCE else acceleration) / coordinate
    return Drive(
        stiffness=_scaled_or_default(get(usd_physics.STIFFNESS), gain, 0.0),
        damping=_scaled_or_default(get(usd_physics.DAMPING), gain, 0.0),
        target_position=_scaled_or_default(get(usd_physics.TARGET_POSITION), coordinate, 0.0),
        target_velocity=_scaled_or_default(get(usd_physics.TARGET_VELOCITY), coordinate, 0.0),
        max_force=_scaled_or_default(get(usd_physics.MAX_FORCE), force, math.inf),
        type=kind,
    )


def _cone_limit(index: StageIndex, prim: pxr.Prim, axis_index: int) -> ConeLimit | None:
    """Cone limit of a spherical joint; a negative angle means unlimited."""
    first, second = (index.value(prim, name) for name in usd_physics.CONE_ANGLES)
    angles = [math.inf if a is None or a < 0 else float(a) * DEGREE for a in (first, second)]
    if all(math.isinf(a) for a in angles):
        return None
    return ConeLimit(angle_y=angles[0], angle_z=angles[1], axis=axis_index)


def _distance_range(index: StageIndex, prim: pxr.Prim) -> tuple[float, float]:
    """Distance range [m] of a distance joint; negative values mean unlimited."""
    low, high = (index.value(prim, name) for name in (usd_physics.MIN_DISTANCE, usd_physics.MAX_DISTANCE))
    unit = index.units.length
    return (
        0.0 if low is None or low < 0 else float(low) * unit,
        math.inf if high is None or high < 0 else float(high) * unit,
    )


def _scaled_or_default(value: Any, unit: float, fallback: float) -> float:
    return fallback if value is None else float(value) * unit
