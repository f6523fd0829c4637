"""Joint prims: types, frames, limits, drives, passive dynamics and mimic joints."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from kinema.core import Pose
from kinema.description import Axis, AxisMotion, AxisState, Base, Joint, JointKind, SolverParameters, joint_transform
from kinema.tokens import kinema_usd, mjc, newton, usd, usd_physics

from ..loss_report import Action
from .context import UsdContext, author_stored_fields, write_preserved
from .joint_axes import UsdAxisMapping, map_axes_to_usd
from .layer_builder import PrimBuilder, is_default
from .prim_paths import RobotPaths

# ----------------------------------------------------------------------------------- joint attributes beyond UsdPhysics

_RADIANS_PER_DEGREE = math.pi / 180


class _AxisSetting(NamedTuple):
    """USD attribute and unit conversion of a field of `Axis` that UsdPhysics lacks."""

    field: str
    """Field of `Axis`."""
    attribute: str
    """USD attribute; empty if no schema has one, then a Kinema attribute is used."""
    convert: Callable[[float, bool], float] = lambda value, turns: value
    """Conversion of (value, is_rotation) to the USD unit."""


def _to_degrees(value: float, is_rotation: bool) -> float:
    return value / _RADIANS_PER_DEGREE if is_rotation else value


def _per_degree(value: float, is_rotation: bool) -> float:
    return value * _RADIANS_PER_DEGREE if is_rotation else value


_AXIS_SETTINGS = (
    _AxisSetting("armature", newton.ARMATURE),
    _AxisSetting("damping", newton.DAMPING, _per_degree),
    _AxisSetting("friction", newton.FRICTION),
    _AxisSetting("velocity", newton.VELOCITY_LIMIT, _to_degrees),
    _AxisSetting("effort", newton.EFFORT_LIMIT),
    _AxisSetting("stiffness", mjc.STIFFNESS),
    _AxisSetting("spring_reference", mjc.SPRING_REF, _to_degrees),
    _AxisSetting("acceleration", ""),
    _AxisSetting("deceleration", ""),
    _AxisSetting("jerk", ""),
)


def author_axis_settings(ctx: UsdContext, joint: Joint, prim: PrimBuilder) -> None:
    """Write passive dynamics, velocity and effort limits of a joint in Newton, MuJoCo or Kinema attributes."""
    axes = joint.axes
    for setting in _AXIS_SETTINGS:
        values = [getattr(a, setting.field) for a in axes]
        if all(is_default(a, setting.field) for a in axes):
            continue
        in_usd = {setting.convert(v, a.motion is AxisMotion.ROTATION) for v, a in zip(values, axes, strict=True)}
        if setting.attribute and len(in_usd) == 1:
            _set_joint_attribute(prim, setting.attribute, in_usd.pop())
            how = f"it is in {setting.attribute}, which is no part of UsdPhysics"
        else:
            kept = kinema_usd.field_attributes("Axis")[setting.field]
            prim.set_custom(kept, values)
            how = f"it is in {kept.name}, which other tools do not know"
        ctx.report_loss(Action.EXTENSION, joint, setting.field.replace("_", " "), how)
    _author_joint_solvers(ctx, joint, prim)


def _set_joint_attribute(prim: PrimBuilder, attribute: str, value: float) -> None:
    """Set a Newton attribute (single precision) or a MuJoCo attribute (double) and apply its schema."""
    if attribute.startswith(newton.NAMESPACE):
        prim.apply_schemas(newton.JOINT_API)
        prim.set_single_precision(attribute, "float", value)
    else:
        prim.apply_schemas(mjc.JOINT_API)
        prim.set_attribute(attribute, "double", value, uniform=True)


def _author_joint_solvers(ctx: UsdContext, joint: Joint, prim: PrimBuilder) -> None:
    """Write MuJoCo's solver parameters of limits and friction; dropped if they differ between axes."""
    default = SolverParameters()
    for field, names in (("limit_solver", mjc.LIMIT_SOLVER), ("friction_solver", mjc.FRICTION_SOLVER)):
        solvers = {getattr(a, field) for a in joint.axes} - {default}
        if not solvers:
            continue
        prim.apply_schemas(mjc.JOINT_API)
        if len({getattr(a, field) for a in joint.axes}) > 1:
            ctx.report_loss(
                Action.DROPPED, joint, f"{field.replace('_', ' ')} parameters", "they differ between its axes"
            )
            continue
        solver = solvers.pop()
        author_solver_parameters(prim, solver, names)
        how = f"they are in {names[0]} and {names[1]}, which MuJoCo knows"
        ctx.report_loss(Action.EXTENSION, joint, f"{field.replace('_', ' ')} parameters", how)


def author_solver_parameters(prim: PrimBuilder, solver: SolverParameters, names: Sequence[str]) -> None:
    """Write MuJoCo solver parameters; `names` are the attributes of solref, solimp and optionally margin."""
    if solver.solref is not None:
        prim.set_attribute(names[0], "double[]", solver.solref, uniform=True)
    if solver.solimp is not None:
        prim.set_attribute(names[1], "double[]", solver.solimp, uniform=True)
    if solver.margin and len(names) > 2:
        prim.set_attribute(names[2], "double", solver.margin, uniform=True)


def author_mimic(ctx: UsdContext, robot_paths: RobotPaths, joint: Joint, prim: PrimBuilder) -> None:
    """Write mimic axes by NewtonMimicAPI: joint = coef0 + coef1 * leader, coef0 in degrees for rotations."""
    for number, axis in enumerate(joint.axes):
        mimic = axis.mimic
        if mimic is None:
            continue
        leader = robot_paths.joint_by_name.get(mimic.joint)
        if leader is None or id(leader) not in robot_paths.joints:
            ctx.report_loss(Action.DROPPED, joint, "that it follows another", f'there is no joint "{mimic.joint}"')
            continue
        if number > 0 or mimic.axis > 0 or len(leader.axes) != 1:
            how = "only joints of one axis can follow each other in NewtonMimicAPI"
            ctx.report_loss(Action.DROPPED, joint, f'that it follows "{mimic.joint}"', how)
            continue
        turns = axis.motion is AxisMotion.ROTATION
        prim.apply_schemas(newton.MIMIC_API)
        prim.set_relationship(newton.MIMIC_JOINT, [robot_paths.joints[id(leader)]])
        offset = mimic.offset - mimic.multiplier * mimic.reference
        if offset:
            prim.set_single_precision(newton.MIMIC_OFFSET, "float", _to_degrees(offset, turns))
        prim.set_single_precision(newton.MIMIC_FACTOR, "float", mimic.multiplier)
        how = "it is in NewtonMimicAPI, which is no part of UsdPhysics"
        if leader.axes[0].motion is not axis.motion:
            how += "; the factor is in metres and radians, as the schema gives no unit where one turns and one slides"
        ctx.report_loss(Action.EXTENSION, joint, f'that it follows "{mimic.joint}"', how)


# ---------------------------------------------------------------------------------------------------------- joint prims

DEGREE_IN_RADIANS = math.pi / 180
_JOINT_PRIM_TYPES = {
    JointKind.FIXED: usd_physics.FIXED_JOINT,
    JointKind.REVOLUTE: usd_physics.REVOLUTE_JOINT,
    JointKind.CONTINUOUS: usd_physics.REVOLUTE_JOINT,
    JointKind.PRISMATIC: usd_physics.PRISMATIC_JOINT,
    JointKind.SPHERICAL: usd_physics.SPHERICAL_JOINT,
    JointKind.DISTANCE: usd_physics.DISTANCE_JOINT,
}
"""Joint kinds with a USD joint type; other kinds are six-axis joints with locked axes."""


def author_joint(ctx: UsdContext, robot_paths: RobotPaths, joint: Joint) -> None:
    """Write the prim of a joint: bodies, frames, type, flags, dynamics and mimic."""
    prim = ctx.builder.define_prim(robot_paths.joints[id(joint)], _joint_prim_type(joint))
    axes = map_axes_to_usd(joint)
    author_stored_fields(ctx, prim, joint)
    _author_bodies_and_frames(ctx, robot_paths, joint, prim, axes)
    _author_joint_type(ctx, joint, prim, axes)
    _author_flags(ctx, robot_paths, joint, prim)
    author_axis_settings(ctx, joint, prim)
    author_mimic(ctx, robot_paths, joint, prim)
    write_preserved(ctx, prim, joint)


def _joint_prim_type(joint: Joint) -> str:
    if _is_locked_single_axis(joint):
        return usd_physics.FIXED_JOINT
    return _JOINT_PRIM_TYPES.get(joint.kind, usd_physics.SIX_AXIS_JOINT)


def _is_locked_single_axis(joint: Joint) -> bool:
    """Whether a joint has a single, locked axis."""
    return len(joint.axes) == 1 and joint.axes[0].locked and joint.kind in _JOINT_PRIM_TYPES


def author_joint_without_prim(ctx: UsdContext, robot_paths: RobotPaths, joint: Joint) -> None:
    """Store a free joint, which USD represents by the absence of a joint, on its body; report dangling joints."""
    if joint.kind is not JointKind.FREE or any(j is joint for j in robot_paths.tree.dangling):
        ctx.report_loss(Action.DROPPED, joint, "the joint", "it names a link that does not exist, or one link twice")
        return
    free, other = (joint.child, joint.parent) if joint.child is not None else (joint.parent, joint.child)
    if free is None or not joint.enabled:
        return
    body = ctx.builder.prims[robot_paths.links[free]]
    body.set_custom(kinema_usd.FREE_JOINT, joint.name)
    if other is not None:
        body.set_relationship(kinema_usd.FREE_JOINT_PARENT, [robot_paths.links[other]], custom=True)
        if not ctx.collision_filters.joined_links_collide(robot_paths, joint):
            ctx.free_joint_filters.append((robot_paths.links[other], body.path))
    if joint.collision_enabled is not None:
        body.set_custom(kinema_usd.FREE_JOINT_COLLISION, joint.collision_enabled)
    for side, pose in enumerate((joint.parent_pose, joint.child_pose)):
        if not pose.is_close(Pose()):
            body.set_custom(kinema_usd.FREE_JOINT_POSITIONS[side], pose.position)
            body.set_custom(kinema_usd.FREE_JOINT_ROTATIONS[side], pose.quaternion)
    passive = [a for a in joint.axes if a.damping or a.friction or a.armature or a.stiffness or a.drive]
    if passive or math.isfinite(joint.break_force) or math.isfinite(joint.break_torque):
        how = "USD says that a body is free by having no joint, which leaves nothing to put them on"
        ctx.report_loss(Action.DROPPED, joint, "damping, friction, armature, spring, drive or break force", how)


# --------------------------------------------------------------------------------------------------------- joint frames


def _author_bodies_and_frames(
    ctx: UsdContext, robot_paths: RobotPaths, joint: Joint, prim: PrimBuilder, axis_mapping: UsdAxisMapping
) -> None:
    """Write the bodies of a joint and its frame on each; the world side is the robot's own prim."""
    frames = _joint_frames(ctx, robot_paths, joint)
    nested = ctx.paths.layout == "nested"
    for side, (link, frame) in enumerate(zip((joint.parent, joint.child), frames, strict=True)):
        target = robot_paths.path if link is None else robot_paths.links[link]
        prim.set_relationship(usd_physics.BODIES[side], [target], relative=nested)
        turned = frame @ Pose(rotation=axis_mapping.frame_rotation)
        prim.set_single_precision(usd_physics.LOCAL_POSITIONS[side], "point3f", turned.position)
        prim.set_single_precision(usd_physics.LOCAL_ROTATIONS[side], "quatf", turned.quaternion)
    if not np.array_equal(axis_mapping.frame_rotation, np.eye(3)):
        prim.set_custom(kinema_usd.AXIS_FRAME, Pose(rotation=axis_mapping.frame_rotation).quaternion)


def _joint_frames(ctx: UsdContext, robot_paths: RobotPaths, joint: Joint) -> tuple[Pose, Pose]:
    """Joint frames on parent and child, shifted so that they coincide at the coordinate zero."""
    parent, child = joint.parent_pose, joint.child_pose
    if joint.stacked and ctx.description.format != usd.FORMAT:
        # only the child's side of a stacked joint has a meaning; the other is where the links are shown
        held = Pose() if joint.parent is None else robot_paths.poses[joint.parent]
        carried = Pose() if joint.child is None else robot_paths.poses[joint.child]
        return held.inverse() @ carried @ child, child
    if any(a.reference for a in joint.moving_axes) and _can_shift_frame(joint):
        offset = joint_transform(joint, np.zeros(joint.n_qs))
        parent = parent @ offset
    return parent, child


def _can_shift_frame(joint: Joint) -> bool:
    """Whether a nonzero reference coordinate can be expressed by a shifted parent frame."""
    return joint.n_dofs == 1 and not joint.stacked


# ---------------------------------------------------------------------------------------------------------- joint types


def _author_joint_type(ctx: UsdContext, joint: Joint, prim: PrimBuilder, axis_mapping: UsdAxisMapping) -> None:
    """Write the attributes of the joint's type: axis, limits, drives, references."""
    if not axis_mapping.is_exact:
        how = "USD's axes are square to each other, translations first; these are not, and the nearest are written"
        ctx.report_loss(Action.APPROXIMATED, joint, "the directions of its axes", how)
        prim.set_custom(kinema_usd.AXIS_DIRECTIONS, np.array([a.direction for a in joint.axes]))
    if _is_locked_single_axis(joint):
        prim.set_custom(kinema_usd.JOINT_KIND, joint.kind.value)
        prim.set_custom(kinema_usd.AXES, [axis_mapping.token(0, joint.axes[0])])
        ctx.report_loss(Action.APPROXIMATED, joint, "the locked axis", "it is written as a fixed joint")
    elif joint.kind in (JointKind.REVOLUTE, JointKind.CONTINUOUS, JointKind.PRISMATIC):
        _author_single_axis(joint, prim, axis_mapping)
    elif joint.kind is JointKind.SPHERICAL:
        _author_spherical(ctx, joint, prim)
    elif joint.kind is JointKind.DISTANCE:
        _author_distance(joint, prim)
    elif joint.kind is not JointKind.FIXED:
        _author_six_axis(ctx, joint, prim, axis_mapping)
    _author_references(ctx, joint, prim)
    _author_initial_turns(joint, prim)


def _author_single_axis(joint: Joint, prim: PrimBuilder, axis_mapping: UsdAxisMapping) -> None:
    """Write axis token, limits [deg or m] and drive of a revolute or prismatic joint."""
    axis = joint.axes[0]
    prim.set_attribute(usd_physics.AXIS, "token", usd.AXIS_TOKENS[axis_mapping.slots[0]], uniform=True)
    unit = _radians_per_unit(axis)
    for name, value in ((usd_physics.LOWER_LIMIT, axis.lower), (usd_physics.UPPER_LIMIT, axis.upper)):
        if math.isfinite(value):
            prim.set_single_precision(name, "float", value / unit)
    _author_drive(axis, prim, usd_physics.ANGULAR if axis.motion is AxisMotion.ROTATION else usd_physics.LINEAR)
    free = axis.state is AxisState.FREE
    if (joint.kind is JointKind.CONTINUOUS and not free) or (joint.kind is JointKind.REVOLUTE and free):
        prim.set_custom(kinema_usd.JOINT_KIND, joint.kind.value)


def _author_spherical(ctx: UsdContext, joint: Joint, prim: PrimBuilder) -> None:
    """Write the cone limit and drives of a spherical joint; limits of single axes are dropped."""
    cone = joint.cone
    prim.set_attribute(usd_physics.AXIS, "token", usd.AXIS_TOKENS[0 if cone is None else cone.axis], uniform=True)
    if cone is not None:
        for name, angle in zip(usd_physics.CONE_ANGLES, (cone.angle_y, cone.angle_z), strict=True):
            if math.isfinite(angle):
                prim.set_single_precision(name, "float", angle / DEGREE_IN_RADIANS)
        if cone.total:
            prim.set_custom(kinema_usd.CONE_IS_TOTAL, True)
            how = "USD limits how far the axis swings, not how far the joint turns altogether"
            ctx.report_loss(Action.APPROXIMATED, joint, "the limit of its whole rotation", how)
    for token, axis in zip(usd_physics.DOF_TOKENS[3:], joint.axes, strict=False):
        _author_drive(axis, prim, token)
    if any(a.state is AxisState.LIMITED for a in joint.axes):
        ctx.report_loss(Action.DROPPED, joint, "limits of single axes", "a spherical joint of USD has a cone only")


def _author_distance(joint: Joint, prim: PrimBuilder) -> None:
    low, high = joint.distance
    if low > 0:
        prim.set_single_precision(usd_physics.MIN_DISTANCE, "float", low)
    if math.isfinite(high):
        prim.set_single_precision(usd_physics.MAX_DISTANCE, "float", high)


def _author_six_axis(ctx: UsdContext, joint: Joint, prim: PrimBuilder, axis_mapping: UsdAxisMapping) -> None:
    """Write limits and drives of a general joint; axes that are absent or locked in the description are locked."""
    at = {axis_mapping.token(i, a): a for i, a in enumerate(joint.axes)}
    also_free = _author_screw(ctx, joint, prim, axis_mapping)
    for token in usd_physics.DOF_TOKENS:
        axis = at.get(token)
        if token == also_free:
            _author_limit(prim, token, -math.inf, math.inf)
            continue
        if axis is None or axis.locked:
            _author_limit(prim, token, 1.0, -1.0)  # low above high: locked
            if axis is not None:
                _author_drive(axis, prim, token)
            continue
        unit = _radians_per_unit(axis)
        if axis.state is AxisState.LIMITED:
            low, high = axis.lower / unit, axis.upper / unit
            if low == high == 0.0 or low > high:  # which would say that it is locked
                prim.set_custom(kinema_usd.limit_attribute(token), (low, high))
            _author_limit(prim, token, low, high)
        else:
            # it says nothing that is not so without it, but Newton takes axes that it is not applied to for locked
            _author_limit(prim, token, -math.inf, math.inf)
        _author_drive(axis, prim, token)
    if joint.kind is not JointKind.SIX_AXIS or tuple(at) != usd_physics.DOF_TOKENS:
        prim.set_custom(kinema_usd.JOINT_KIND, joint.kind.value)
        prim.set_custom(kinema_usd.AXES, list(at))
    low, high = joint.distance
    if joint.kind is JointKind.SIX_AXIS and (low > 0 or math.isfinite(high)):
        _author_limit(prim, usd_physics.DISTANCE, low, high)


def _author_screw(ctx: UsdContext, joint: Joint, prim: PrimBuilder, axis_mapping: UsdAxisMapping) -> str:
    """Store the pitch of a screw and return the token of its free translation; empty for other joints."""
    if joint.kind is not JointKind.SCREW:
        return ""
    prim.set_custom(kinema_usd.PITCH, joint.pitch)
    how = "USD has no screw: turning about and moving along its axis are both free; the pitch is in kinema:pitch"
    ctx.report_loss(Action.APPROXIMATED, joint, "the pitch", how)
    return usd_physics.DOF_TOKENS[axis_mapping.slots[0]]


def _author_limit(prim: PrimBuilder, token: str, low: float, high: float) -> None:
    prim.apply_schemas(usd_physics.limit_api(token))
    for name, value in ((usd_physics.LOW, low), (usd_physics.HIGH, high)):
        if math.isfinite(value):
            prim.set_single_precision(usd_physics.limit_attribute(token, name), "float", value)


def _author_drive(axis: Axis, prim: PrimBuilder, token: str) -> None:
    """Write the drive of an axis with gains per degree for rotations."""
    drive = axis.drive
    if drive is None:
        return
    prim.apply_schemas(usd_physics.drive_api(token))
    unit = _radians_per_unit(axis)
    prim.set_attribute(usd_physics.drive_attribute(token, usd_physics.TYPE), "token", drive.type.value, uniform=True)
    settings = {
        usd_physics.STIFFNESS: drive.stiffness * unit,
        usd_physics.DAMPING: drive.damping * unit,
        usd_physics.TARGET_POSITION: drive.target_position / unit,
        usd_physics.TARGET_VELOCITY: drive.target_velocity / unit,
        usd_physics.MAX_FORCE: drive.max_force,
    }
    for name, value in settings.items():
        if value != (math.inf if name == usd_physics.MAX_FORCE else 0.0):
            prim.set_single_precision(usd_physics.drive_attribute(token, name), "float", value)


def _author_initial_turns(joint: Joint, prim: PrimBuilder) -> None:
    """Store initial coordinates beyond half a revolution, which link poses cannot represent."""
    start = joint.start
    if joint.kind is JointKind.SPHERICAL or start.shape != (joint.n_dofs,) or not np.isfinite(start).all():
        return
    turned = [s - a.reference for s, a in zip(start, joint.moving_axes, strict=True) if a.motion is AxisMotion.ROTATION]
    if any(abs(angle) > math.pi for angle in turned):
        prim.set_custom(kinema_usd.INITIAL_STATE, start.tolist())


def _author_references(ctx: UsdContext, joint: Joint, prim: PrimBuilder) -> None:
    """Store nonzero reference coordinates, and whether they are folded into the parent frame."""
    references = [a.reference for a in joint.moving_axes]
    if not any(references):
        return
    prim.set_custom(kinema_usd.REFERENCE, references)
    if _can_shift_frame(joint):
        prim.set_custom(kinema_usd.REFERENCE_IS_FOLDED, True)
    else:
        how = "in USD they coincide at zero; the coordinate is in kinema:reference"
        ctx.report_loss(Action.EXTENSION, joint, "the coordinate at which its frames coincide", how)


def _radians_per_unit(axis: Axis) -> float:
    return DEGREE_IN_RADIANS if axis.motion is AxisMotion.ROTATION else 1.0


# ---------------------------------------------------------------------------------------- collision, breaking and mimic


def _author_flags(ctx: UsdContext, robot_paths: RobotPaths, joint: Joint, prim: PrimBuilder) -> None:
    """Write enabled, collision and articulation exclusion flags and break force of a joint."""
    moved_by_hand = _fixes_kinematic_link(robot_paths, joint)
    if not joint.enabled or moved_by_hand:
        prim.set_attribute(usd_physics.JOINT_ENABLED, "bool", False)
    if joint.enabled and moved_by_hand:
        prim.set_custom(kinema_usd.IMPLIED, [kinema_usd.IMPLIED_JOINT_ENABLED])
    if ctx.collision_filters.joined_links_collide(robot_paths, joint):
        prim.set_attribute(usd_physics.COLLISION_ENABLED, "bool", True)
    closes = id(joint) in robot_paths.loop_joint_ids and ctx.is_articulated(robot_paths)
    if joint.closes_loop or closes:
        prim.set_attribute(usd_physics.EXCLUDE_FROM_ARTICULATION, "bool", True, uniform=True)
        if not joint.closes_loop:
            prim.set_custom(kinema_usd.IMPLIED, [kinema_usd.IMPLIED_EXCLUSION])
    for name, value in ((usd_physics.BREAK_FORCE, joint.break_force), (usd_physics.BREAK_TORQUE, joint.break_torque)):
        if math.isfinite(value):
            prim.set_single_precision(name, "float", value)


def _fixes_kinematic_link(robot_paths: RobotPaths, joint: Joint) -> bool:
    """Whether a joint fixes a kinematic link to the world, which in USD would prevent its motion."""
    if joint.kind is not JointKind.FIXED or (joint.parent is not None and joint.child is not None):
        return False
    link = robot_paths.link_by_name.get(joint.child or joint.parent or "")
    return link is not None and link.kinematic


def author_base_joint(ctx: UsdContext, robot_paths: RobotPaths, root_link: str) -> str:
    """Write a fixed joint between the world and a root link and return its path."""
    body = robot_paths.links[root_link]
    path = ctx.paths.names.child_path(body, "base_fixed", "base_fixed")
    prim = ctx.builder.define_prim(path, usd_physics.FIXED_JOINT)
    prim.set_custom(kinema_usd.BASE, Base.FIXED.value)
    nested = ctx.paths.layout == "nested"
    prim.set_relationship(usd_physics.BODIES[0], [robot_paths.path], relative=nested)
    prim.set_relationship(usd_physics.BODIES[1], [body], relative=nested)
    prim.set_single_precision(usd_physics.LOCAL_POSITIONS[0], "point3f", robot_paths.poses[root_link].position)
    prim.set_single_precision(usd_physics.LOCAL_ROTATIONS[0], "quatf", robot_paths.poses[root_link].quaternion)
    prim.set_attribute(usd_physics.COLLISION_ENABLED, "bool", True)
    return path
