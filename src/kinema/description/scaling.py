"""The same made larger or smaller: all lengths by one factor, of the same stuff."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

from kinema.foundation import Array, KinemaError, Pose

from .joint import Axis, AxisMotion, Joint, JointKind
from .link import Inertial, Link
from .robot import Robot
from .shape import Box, Capsule, Cone, Cylinder, Ellipsoid, Geometry, HeightField, Mesh, Plane, Shape, Sphere
from .world import World

NOT_SCALED = ("tendons", "constraints", "keyframes")
"""What has lengths in places that only its format knows."""


def scaled(described: Robot | World, factor: float) -> Robot | World:
    """The description with all lengths times a factor, about its file's origin; nothing of the one given changes.

    Masses grow with the volume, inertias with its fifth power of length. Forces, gains, dampers and rotors stay as they
    are: nobody can say what they would be.
    """
    _refuse(described)
    if isinstance(described, Robot):
        return _robot(described, factor)
    world = _frames(described, factor)
    world.robots = [_robot(robot, factor) for robot in described.robots]
    world.shapes = [_shape(shape, factor) for shape in described.shapes]
    return world


def _refuse(described: Robot | World) -> None:
    for owner in (described, *(described.robots if isinstance(described, World) else ())):
        for name in NOT_SCALED:
            if getattr(owner, name):
                said = f'"{owner.name}" has {name}, which cannot be scaled'
                raise KinemaError(f"scale: {said}: it is as large as its file says")


def _robot(robot: Robot, factor: float) -> Robot:
    result: Robot = _frames(robot, factor)
    motions = {joint.name: [axis.motion for axis in joint.axes] for joint in robot.joints}
    result.pose = _pose(robot.pose, factor)
    result.links = [_link(link, factor) for link in robot.links]
    result.joints = [_joint(joint, motions, factor) for joint in robot.joints]
    return result


def _frames(owner: Any, factor: float) -> Any:
    """A copy, with what is placed on links or in the world."""
    result = copy.copy(owner)
    for name in ("frames", "cameras", "lights", "sensors"):
        setattr(result, name, [replace(one, pose=_pose(one.pose, factor)) for one in getattr(owner, name)])
    for frame in result.frames:
        frame.marker = None if frame.marker is None else scaled_geometry(frame.marker, factor)
    return result


def _pose(pose: Pose, factor: float) -> Pose:
    return Pose(factor * pose.position, pose.rotation)


def _link(link: Link, factor: float) -> Link:
    own = link.inertial
    if own is not None:
        own = Inertial(factor**3 * own.mass, factor * own.center, factor**5 * own.inertia)
    return replace(
        link,
        inertial=own,
        pose=None if link.pose is None else _pose(link.pose, factor),
        shapes=[_shape(shape, factor) for shape in link.shapes],
        linear_velocity=factor * link.linear_velocity,
    )


def _shape(shape: Shape, factor: float) -> Shape:
    mass = None if shape.mass is None else factor**3 * shape.mass
    return replace(shape, geometry=scaled_geometry(shape.geometry, factor), pose=_pose(shape.pose, factor), mass=mass)


def scaled_geometry(form: Geometry, factor: float) -> Geometry:
    """A geometry with all lengths times a factor."""
    match form:
        case Box():
            return Box(factor * form.size)
        case Sphere():
            return Sphere(factor * form.radius)
        case Ellipsoid():
            return Ellipsoid(factor * form.radii)
        case Capsule() | Cylinder() | Cone():
            return type(form)(factor * form.radius, factor * form.length)
        case Plane():
            return form if form.size is None else Plane((factor * form.size[0], factor * form.size[1]))
        case Mesh():
            return replace(form, scale=factor * form.scale)
        case HeightField():
            size = (factor * form.size[0], factor * form.size[1])
            return replace(form, heights=factor * form.heights, size=size, base=factor * form.base)


def _joint(joint: Joint, motions: dict[str, list[AxisMotion]], factor: float) -> Joint:
    return replace(
        joint,
        parent_pose=_pose(joint.parent_pose, factor),
        child_pose=_pose(joint.child_pose, factor),
        axes=[_axis(axis, motions, factor) for axis in joint.axes],
        initial=_coordinates(joint, joint.initial, factor),
        state=_coordinates(joint, joint.state, factor),
        pitch=factor * joint.pitch,
        distance=(factor * joint.distance[0], factor * joint.distance[1]),
    )


def _coordinates(joint: Joint, values: Array | None, factor: float) -> Array | None:
    """Those that are lengths, times the factor."""
    if values is None or values.shape != (joint.n_qs,) or joint.kind is JointKind.SPHERICAL:
        return values
    values = values.copy()
    if joint.kind is JointKind.FREE:
        values[:3] *= factor
    else:
        values[[axis.motion is AxisMotion.TRANSLATION for axis in joint.moving_axes]] *= factor
    return values


def _axis(axis: Axis, motions: dict[str, list[AxisMotion]], factor: float) -> Axis:
    own = factor if axis.motion is AxisMotion.TRANSLATION else 1.0
    result = replace(axis)
    if axis.mimic is not None:
        known = motions.get(axis.mimic.joint, [])
        leads = known[axis.mimic.axis] if axis.mimic.axis < len(known) else AxisMotion.ROTATION
        leader, said = factor if leads is AxisMotion.TRANSLATION else 1.0, axis.mimic
        result.mimic = replace(
            said,
            multiplier=said.multiplier * own / leader,
            offset=said.offset * own,
            reference=said.reference * leader,
        )
    for name in ("lower", "upper", "velocity", "acceleration", "deceleration", "jerk", "reference", "spring_reference"):
        setattr(result, name, own * getattr(axis, name))
    if axis.drive is not None:
        drive = axis.drive
        position, velocity = own * drive.target_position, own * drive.target_velocity
        result.drive = replace(drive, target_position=position, target_velocity=velocity)
    return result
