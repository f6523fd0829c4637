"""Modified copies of descriptions: with a fixed or floating base, or uniformly scaled."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

from kinema.core import Array, KinemaError, Pose

from .joint import Axis, AxisMotion, Joint, JointKind
from .kinematics import TreeEdge, joint_coordinates
from .link import Inertial, Link
from .robot import Base, Robot
from .sensing import TAXELS
from .shape import Box, Capsule, Cone, Cylinder, Ellipsoid, Geometry, HeightField, Mesh, Plane, Shape, Sphere
from .world import World

# --------------------------------------------------------------------------------------------------------- base


def with_base(description: Robot | World, base: Base) -> Robot | World:
    """Copy of a description whose robots have the given base (fixed or floating).

    Fixed and free joints that attach a root link to the world are removed; other joints to the world belong to the
    mechanism and stay. Static robots are not changed.

    Args:
        description: robot or world.
        base: new base type.
    """
    if isinstance(description, Robot):
        return _robot_with_base(description, base)
    world = copy.copy(description)
    world.robots = [_robot_with_base(robot, base) for robot in description.robots]
    return world


def _robot_with_base(robot: Robot, base: Base) -> Robot:
    """Copy of a robot with another base.

    Fixed or free joints to the world are removed and their child links keep their pose.
    """
    if robot.static:
        return robot
    result = copy.copy(robot)
    result.base = base
    initial = joint_coordinates(robot.joints, {})
    for edge in robot.tree().edges:
        if edge.parent is None and _is_fixed_or_free_base(edge):
            removed = {id(joint) for joint in edge.joints}
            result.joints = [joint for joint in result.joints if id(joint) not in removed]
            result.links = [link if link.name != edge.child else copy.copy(link) for link in result.links]
            result.link(edge.child).pose = edge.pose(initial)
    return result


def _is_fixed_or_free_base(edge: TreeEdge) -> bool:
    """Whether the joints of an edge to the world only fix the link, or are a single free joint."""
    return not any(joint.n_dofs for joint in edge.joints) or (
        len(edge.joints) == 1 and edge.joints[0].kind is JointKind.FREE
    )


# ------------------------------------------------------------------------------------------------------ scaling

UNSCALABLE_ELEMENTS = ("tendons", "constraints", "keyframes")
"""Elements that contain lengths in format-specific settings, and cannot be scaled."""


def scale_description(description: Robot | World, factor: float) -> Robot | World:
    """Copy of a description with all lengths multiplied by a factor about the origin of the file; densities are kept.

    Masses scale with factor^3, inertias with factor^5; forces, gains, damping and armature do not change. Raises
    `KinemaError` for tendons, constraints and keyframes.

    Args:
        description: robot or world.
        factor: scale factor.
    """
    _check_scalable(description)
    if isinstance(description, Robot):
        return _scale_robot(description, factor)
    world = _scale_placed_elements(description, factor)
    world.robots = [_scale_robot(robot, factor) for robot in description.robots]
    world.shapes = [_scale_shape(shape, factor) for shape in description.shapes]
    return world


def _check_scalable(description: Robot | World) -> None:
    """Raise `KinemaError` if a description has tactile sensors or `UNSCALABLE_ELEMENTS`, which cannot be scaled."""
    for owner in (description, *(description.robots if isinstance(description, World) else ())):
        has_taxels = any(TAXELS in sensor.settings for sensor in owner.sensors)
        for name in (*UNSCALABLE_ELEMENTS, *(["tactile sensors"] if has_taxels else [])):
            if name == "tactile sensors" or getattr(owner, name):
                reason = f'"{owner.name}" has {name}, which cannot be scaled'
                raise KinemaError(f"scale: {reason}: use scale 1")


def _scale_robot(robot: Robot, factor: float) -> Robot:
    """Copy of a robot with links, joints and placed elements scaled."""
    result: Robot = _scale_placed_elements(robot, factor)
    motions = {joint.name: [axis.motion for axis in joint.axes] for joint in robot.joints}
    result.pose = _scale_pose(robot.pose, factor)
    result.links = [_scale_link(link, factor) for link in robot.links]
    result.joints = [_scale_joint(joint, motions, factor) for joint in robot.joints]
    return result


def _scale_placed_elements(owner: Any, factor: float) -> Any:
    """Copy of a robot or world with scaled poses of frames, cameras, lights and sensors, and scaled frame markers."""
    result = copy.copy(owner)
    for name in ("frames", "cameras", "lights", "sensors"):
        setattr(
            result, name, [replace(element, pose=_scale_pose(element.pose, factor)) for element in getattr(owner, name)]
        )
    for frame in result.frames:
        frame.marker = None if frame.marker is None else scale_geometry(frame.marker, factor)
    return result


def _scale_pose(pose: Pose, factor: float) -> Pose:
    return Pose(factor * pose.position, pose.rotation)


def _scale_link(link: Link, factor: float) -> Link:
    """Copy of a link with scaled inertia, pose, shapes and initial linear velocity."""
    inertial = link.inertial
    if inertial is not None:
        inertial = Inertial(factor**3 * inertial.mass, factor * inertial.center, factor**5 * inertial.inertia)
    return replace(
        link,
        inertial=inertial,
        pose=None if link.pose is None else _scale_pose(link.pose, factor),
        shapes=[_scale_shape(shape, factor) for shape in link.shapes],
        linear_velocity=factor * link.linear_velocity,
    )


def _scale_shape(shape: Shape, factor: float) -> Shape:
    mass = None if shape.mass is None else factor**3 * shape.mass
    return replace(
        shape, geometry=scale_geometry(shape.geometry, factor), pose=_scale_pose(shape.pose, factor), mass=mass
    )


def scale_geometry(geometry: Geometry, factor: float) -> Geometry:
    """Geometry with all lengths multiplied by a factor."""
    match geometry:
        case Box():
            return Box(factor * geometry.size)
        case Sphere():
            return Sphere(factor * geometry.radius)
        case Ellipsoid():
            return Ellipsoid(factor * geometry.radii)
        case Capsule() | Cylinder() | Cone():
            return type(geometry)(factor * geometry.radius, factor * geometry.length)
        case Plane():
            return geometry if geometry.size is None else Plane((factor * geometry.size[0], factor * geometry.size[1]))
        case Mesh():
            return replace(geometry, scale=factor * geometry.scale)
        case HeightField():
            size = (factor * geometry.size[0], factor * geometry.size[1])
            return replace(geometry, heights=factor * geometry.heights, size=size, base=factor * geometry.base)


def _scale_joint(joint: Joint, axis_motions: dict[str, list[AxisMotion]], factor: float) -> Joint:
    """Copy of a joint with scaled joint frames, axes, coordinates, pitch and distance limits.

    Args:
        joint: the joint.
        axis_motions: motion type of the axes of all joints by joint name, for mimics.
        factor: scale factor.
    """
    return replace(
        joint,
        parent_pose=_scale_pose(joint.parent_pose, factor),
        child_pose=_scale_pose(joint.child_pose, factor),
        axes=[_scale_axis(axis, axis_motions, factor) for axis in joint.axes],
        initial=_scale_coordinates(joint, joint.initial, factor),
        state=_scale_coordinates(joint, joint.state, factor),
        pitch=factor * joint.pitch,
        distance=(factor * joint.distance[0], factor * joint.distance[1]),
    )


def _scale_coordinates(joint: Joint, values: Array | None, factor: float) -> Array | None:
    """Joint coordinates with the translational ones multiplied by the factor; None and invalid lengths are kept."""
    if values is None or values.shape != (joint.n_qs,) or joint.kind is JointKind.SPHERICAL:
        return values
    values = values.copy()
    if joint.kind is JointKind.FREE:
        values[:3] *= factor
    else:
        values[[axis.motion is AxisMotion.TRANSLATION for axis in joint.moving_axes]] *= factor
    return values


def _scale_axis(axis: Axis, axis_motions: dict[str, list[AxisMotion]], factor: float) -> Axis:
    """Copy of an axis with scaled limits, references, drive targets and mimic; only lengths are scaled, not angles.

    The multiplier of a mimic between a translational and a rotational axis changes accordingly.

    Args:
        axis: the axis.
        axis_motions: motion type of the axes of all joints by joint name.
        factor: scale factor.
    """
    axis_factor = factor if axis.motion is AxisMotion.TRANSLATION else 1.0
    result = replace(axis)
    if axis.mimic is not None:
        leader_axes = axis_motions.get(axis.mimic.joint, [])
        leader_motion = leader_axes[axis.mimic.axis] if axis.mimic.axis < len(leader_axes) else AxisMotion.ROTATION
        leader_factor, mimic = factor if leader_motion is AxisMotion.TRANSLATION else 1.0, axis.mimic
        result.mimic = replace(
            mimic,
            multiplier=mimic.multiplier * axis_factor / leader_factor,
            offset=mimic.offset * axis_factor,
            reference=mimic.reference * leader_factor,
        )
    for name in ("lower", "upper", "velocity", "acceleration", "deceleration", "jerk", "reference", "spring_reference"):
        setattr(result, name, axis_factor * getattr(axis, name))
    if axis.drive is not None:
        drive = axis.drive
        position, velocity = axis_factor * drive.target_position, axis_factor * drive.target_velocity
        result.drive = replace(drive, target_position=position, target_velocity=velocity)
    return result
