"""The random parts of robots: poses, directions, axes, joints, shapes, masses and links."""

from __future__ import annotations

import math

import numpy as np

from kinema.core import Array, Pose, quaternion_to_matrix
from kinema.description import (
    Axis,
    Box,
    Capsule,
    Cone,
    ConeLimit,
    Cylinder,
    Drive,
    DriveType,
    Ellipsoid,
    Geometry,
    Inertial,
    Joint,
    JointKind,
    Link,
    Mesh,
    PhysicsMaterial,
    Shape,
    Sphere,
    VisualMaterial,
    free_axes,
    rotation,
    spherical_axes,
    translation,
)
from kinema.geometry import box

from .variety import Variety

Generator = np.random.Generator
EVERYTHING = Variety()
_QUARTER = math.pi / 2
_AWKWARD = (0.0, _QUARTER, -_QUARTER, math.pi, _QUARTER - 1e-9, _QUARTER - 3e-13)
"""Angles: roll, pitch and yaw lock at a quarter turn, and nearly so."""


# -- frames -----------------------------------------------------------------------------------------------------------


def random_pose(rng: Generator, reach: float = 1.0) -> Pose:
    """Any pose; often the identity, a plain offset, or a turn at which roll, pitch and yaw lock, or nearly so."""
    kind = rng.integers(6)
    if kind == 0:
        return Pose()
    position = reach * rng.normal(size=3)
    if kind == 1:
        return Pose.translation(position.round(3))
    if kind == 2:
        return Pose.from_rpy(position, rng.integers(-2, 3, size=3) * _QUARTER)
    if kind == 3:
        angles = np.where(rng.random(3) < 0.5, rng.choice(_AWKWARD, size=3), rng.uniform(-math.pi, math.pi, size=3))
        return Pose.from_rpy(position * rng.integers(2, size=3), angles)
    return Pose(position, quaternion_to_matrix(rng.normal(size=4)))


def random_direction(rng: Generator) -> Array:
    """A unit vector; often along an axis or against it."""
    if rng.random() < 0.5:
        return float(rng.choice([-1.0, 1.0])) * np.eye(3)[rng.integers(3)]
    d = rng.normal(size=3)
    return d / np.linalg.norm(d)


def random_frame(rng: Generator) -> Array:
    """Three directions square to each other, as columns."""
    return np.eye(3) if rng.random() < 0.3 else quaternion_to_matrix(rng.normal(size=4))


# -- joints -----------------------------------------------------------------------------------------------------------


def random_axes(rng: Generator, kind: JointKind, may: Variety = EVERYTHING) -> list[Axis]:
    """The axes that a kind of joint has, mostly with limits, a drive and passive dynamics."""
    d, frame = random_direction(rng), random_frame(rng)
    match kind:
        case JointKind.REVOLUTE | JointKind.CONTINUOUS | JointKind.SCREW:
            axes = [rotation(d)]
        case JointKind.PRISMATIC:
            axes = [translation(d)]
        case JointKind.SPHERICAL:
            return spherical_axes()
        case JointKind.CYLINDRICAL:
            axes = [rotation(d), translation(d)]
        case JointKind.PLANAR:
            axes = [translation(frame[:, 0]), translation(frame[:, 1]), rotation(frame[:, 2])]
        case JointKind.UNIVERSAL:
            tilt = rng.normal() if rng.random() < may.oblique else 0.0
            axes = [rotation(frame[:, 0]), rotation(frame[:, 1] + tilt * frame[:, 0])]
        case JointKind.SIX_AXIS:
            axes = free_axes()
            for axis in axes:
                axis.locked = bool(rng.random() < 0.4)
        case JointKind.FREE:
            return free_axes()
        case _:
            return []
    if rng.random() < 0.2:  # nothing but motion
        return axes
    for axis in axes:
        if not axis.locked:
            _fill(rng, axis, may)
    return axes


def _fill(rng: Generator, axis: Axis, may: Variety) -> None:
    """Limits, a drive and passive dynamics, sometimes."""
    if rng.random() < 0.7:
        axis.lower, axis.upper = _limits(rng)
    if rng.random() < 0.4:
        axis.velocity = float(rng.uniform(0.1, 5))
    if rng.random() < 0.4:
        axis.effort = float(rng.choice([0.0, rng.uniform(1, 100)]))
    if rng.random() < 0.4:
        axis.damping, axis.friction, axis.stiffness, armature = rng.uniform(0, 1, size=4).tolist()
        axis.armature = armature if may.armature else 0.0
        axis.spring_reference = float(rng.normal())
    if rng.random() < 0.25:
        axis.reference = float(rng.normal())
    if rng.random() < 0.3:
        axis.drive = Drive(
            stiffness=float(rng.choice([0.0, rng.uniform(0, 100), rng.uniform(0, 100)])),
            damping=float(rng.uniform(0, 10)),
            target_position=float(rng.normal()),
            target_velocity=float(rng.normal()),
            max_force=float(rng.choice([math.inf, 12.5])),
            type=DriveType.ACCELERATION if rng.random() < 0.3 else DriveType.FORCE,
        )


def _limits(rng: Generator) -> tuple[float, float]:
    """Around zero or beside it, open on one side, or both the same."""
    if rng.random() < 0.1:
        both = float(rng.normal())
        return both, both
    lower, upper = sorted(rng.normal(size=2).tolist())
    if rng.random() < 0.5:
        lower, upper = -float(rng.uniform(0.0, 3.0)), float(rng.uniform(0.0, 3.0))
    if rng.random() < 0.3:
        return (-math.inf, upper) if rng.random() < 0.5 else (lower, math.inf)
    return lower, upper


def random_joint(
    rng: Generator, name: str, kind: JointKind, parent: str | None, child: str | None, may: Variety = EVERYTHING
) -> Joint:
    """A joint of a kind between two links."""
    joint = Joint(
        name=name,
        kind=kind,
        parent=parent,
        child=child,
        parent_pose=random_pose(rng),
        child_pose=random_pose(rng),
        axes=random_axes(rng, kind, may),
        pitch=float(rng.normal()) if kind is JointKind.SCREW else 0.0,
        collision_enabled=[None, None, True, False][rng.integers(4)],
    )
    if kind is JointKind.SPHERICAL and rng.random() < 0.5:
        y, z = 0.7, float(rng.uniform(0.1, 2))
        joint.cone = ConeLimit(angle_y=y, angle_z=z, axis=int(rng.integers(3)))
        if rng.random() < 0.3:
            joint.cone = ConeLimit(angle_y=y, angle_z=y, total=True)
    if kind is JointKind.FREE:
        joint.initial = np.concatenate([rng.normal(size=3), random_pose(rng).quaternion])
        if not may.free_anywhere:
            joint.parent_pose, joint.child_pose = Pose(), Pose()
    elif rng.random() < 0.1:
        joint.break_force, joint.break_torque = 100.5, float(rng.uniform(1, 10))
    if kind is JointKind.DISTANCE:
        joint.distance = (float(rng.uniform(0, 1)), float(rng.choice([2.0, math.inf])))
    return joint


# -- links ------------------------------------------------------------------------------------------------------------


def random_inertial(rng: Generator) -> Inertial:
    """Any that a body can have: its moments obey the triangle inequality."""
    turn = quaternion_to_matrix(rng.normal(size=4))
    x, y, z = rng.uniform(1e-3, 1.0, size=3)
    tensor = turn @ np.diag([y + z, x + z, x + y]) @ turn.T
    if rng.random() < 0.2:
        tensor = np.diag([0.1, 0.2, 0.25])
    return Inertial(float(rng.uniform(0.01, 20)), rng.normal(size=3), (tensor + tensor.T) / 2)


def random_geometry(rng: Generator) -> Geometry:
    """Any solid."""
    a, b, c = rng.uniform(0.02, 0.5, size=3).tolist()
    solid = box([a, b, c])
    scale = np.ones(3) if rng.random() < 0.5 else np.array([0.5, -1.5, 2.0])
    kinds: list[Geometry] = [
        Box(np.array([a, b, c])),
        Box(np.array([a, a, a])),
        Sphere(a),
        Ellipsoid(np.array([a, b, c])),
        Capsule(a, b),
        Cylinder(a, b),
        Cone(a, b),
        Mesh(vertices=solid.vertices + rng.normal(size=3) * 0.1, faces=solid.faces, scale=scale),
    ]
    return kinds[rng.integers(len(kinds))]


def random_shape(rng: Generator, name: str, may: Variety = EVERYTHING) -> Shape:
    """A shape that is seen, collides, or both."""
    role = rng.integers(3)
    shape = Shape(
        name=name,
        geometry=random_geometry(rng),
        pose=random_pose(rng),
        visual=role != 0,
        collision=role != 1,
        enabled=bool(rng.random() < 0.9),
    )
    if rng.random() < 0.4:
        red, alpha = float(rng.random()), float(rng.choice([1.0, 0.5]))
        name = str(rng.choice(["steel", "red paint", ""]))
        shape.material = VisualMaterial(name=name, color=(red, 0.5, 0.25, alpha))
    if shape.collision and rng.random() < 0.4:
        shape.surface = PhysicsMaterial(
            static_friction=[None, 0.7][rng.integers(2)],
            dynamic_friction=float(rng.random()),
            restitution=0.25,
            contact_dimension=[None, 1, 4, 6][rng.integers(4)],
        )
    if rng.random() < may.masks:
        shape.contype, shape.conaffinity = rng.integers(0, 5, size=2).tolist()
    return shape


def random_link(rng: Generator, name: str, may: Variety = EVERYTHING) -> Link:
    """A link with some shapes and, mostly, a mass."""
    link = Link(
        name=name,
        inertial=None if rng.random() < may.massless else random_inertial(rng),
        shapes=[random_shape(rng, f"{name} shape {i}", may) for i in range(rng.integers(may.n_shapes + 1))],
        gravity_scale=float(rng.choice([1.0, 1.0, 0.5, 0.25, 0.0])),
    )
    if rng.random() < may.in_motion:
        link.linear_velocity, link.angular_velocity = rng.normal(size=3), rng.normal(size=3)
    link.starts_asleep = bool(rng.random() < may.asleep)
    link.continuous_collision = len(name) % 3 == 0
    if rng.random() < may.own_self_collide:
        link.self_collide = bool(rng.random() < 0.5)
    return link
