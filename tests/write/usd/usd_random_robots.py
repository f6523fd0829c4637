"""Random descriptions: trees with every kind of joint, random frames, masses, shapes and rules."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import strategies as st

from kinema.description import (
    Axis,
    Base,
    Box,
    Capsule,
    CollisionPair,
    CollisionRules,
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
    Mimic,
    PhysicsMaterial,
    Robot,
    Shape,
    Sphere,
    VisualMaterial,
    free_axes,
    rotation,
    spherical_axes,
    translation,
)
from kinema.foundation import Array, Pose, quaternion_to_matrix
from kinema.shapes import box
from kit.robots.parts import random_pose

ONE_AXIS = (JointKind.REVOLUTE, JointKind.CONTINUOUS, JointKind.PRISMATIC, JointKind.SCREW)
NAMES = ("base", "upper arm", "link/1", "finger-3", "θ", "link_1", "link 1", "gripper", "été", "9lives", "a.b", "x")

numbers = st.integers(min_value=0, max_value=2**32 - 1)


def generator(seed: int) -> np.random.Generator:
    """One seed makes a whole robot: shrinking it is of no use, but drawing it is quick."""
    return np.random.default_rng(seed)


def random_direction(rng: np.random.Generator) -> Array:
    """A unit vector; often along an axis or against it."""
    if rng.random() < 0.5:
        return float(rng.choice([-1.0, 1.0])) * np.eye(3)[rng.integers(3)]
    d = rng.normal(size=3)
    return d / np.linalg.norm(d)


def random_frame(rng: np.random.Generator) -> Array:
    """Three directions square to each other."""
    return np.eye(3) if rng.random() < 0.3 else quaternion_to_matrix(rng.normal(size=4))


def _fill(rng: np.random.Generator, axis: Axis, *, limited: bool = True) -> Axis:
    """Limits, a drive and passive dynamics, sometimes."""
    if limited and rng.random() < 0.7:
        axis.lower, axis.upper = -abs(float(rng.normal())) - 0.1, abs(float(rng.normal())) + 0.1
        if rng.random() < 0.2:
            axis.lower = -math.inf
    if rng.random() < 0.3:
        axis.velocity, axis.effort = float(rng.uniform(0.1, 5)), float(rng.uniform(1, 100))
    if rng.random() < 0.3:
        axis.damping, axis.friction = float(rng.uniform(0, 1)), float(rng.uniform(0, 1))
        axis.armature, axis.stiffness = float(rng.uniform(0, 0.1)), float(rng.uniform(0, 3))
        axis.spring_reference = float(rng.normal())
    if rng.random() < 0.3:
        axis.drive = Drive(
            stiffness=float(rng.uniform(0, 100)),
            damping=float(rng.uniform(0, 10)),
            target_position=float(rng.normal()),
            target_velocity=float(rng.normal()),
            max_force=float(rng.choice([math.inf, 12.5])),
            type=DriveType.ACCELERATION if rng.random() < 0.3 else DriveType.FORCE,
        )
    return axis


def random_axes(rng: np.random.Generator, kind: JointKind) -> list[Axis]:
    """The axes that a kind of joint has."""
    d, frame = random_direction(rng), random_frame(rng)
    match kind:
        case JointKind.REVOLUTE | JointKind.SCREW:
            axes = [rotation(d, lower=-1.0, upper=2.0)]
        case JointKind.CONTINUOUS:
            return [_fill(rng, rotation(d), limited=False)]
        case JointKind.PRISMATIC:
            axes = [translation(d)]
        case JointKind.SPHERICAL:
            return spherical_axes()
        case JointKind.CYLINDRICAL:
            axes = [rotation(d), translation(d)]
        case JointKind.PLANAR:
            axes = [translation(frame[:, 0]), translation(frame[:, 1]), rotation(frame[:, 2])]
        case JointKind.UNIVERSAL:
            axes = [rotation(frame[:, 0]), rotation(frame[:, 1])]
        case JointKind.SIX_AXIS:
            axes = [translation(e) for e in np.eye(3)] + [rotation(e) for e in np.eye(3)]
            for axis in axes:
                axis.locked = bool(rng.random() < 0.4)
        case JointKind.FREE:
            return free_axes()
        case _:
            return []
    for axis in axes:
        if not axis.locked:
            _fill(rng, axis)
    if kind in ONE_AXIS and rng.random() < 0.2:
        axes[0].reference = float(rng.normal())
    return axes


def random_joint(rng: np.random.Generator, name: str, kind: JointKind, parent: str | None, child: str) -> Joint:
    """A joint of a kind between two links."""
    joint = Joint(
        name=name,
        kind=kind,
        parent=parent,
        child=child,
        parent_pose=random_pose(rng),
        child_pose=random_pose(rng),
        axes=random_axes(rng, kind),
        pitch=float(rng.normal()) if kind is JointKind.SCREW else 0.0,
        collision_enabled=[None, True, False][rng.integers(3)],
    )
    if kind is JointKind.SPHERICAL and rng.random() < 0.5:
        joint.cone = ConeLimit(angle_y=0.7, angle_z=float(rng.uniform(0.1, 2)), axis=int(rng.integers(3)))
    if rng.random() < 0.1 and kind is not JointKind.FREE:
        joint.break_force, joint.break_torque = 100.5, float(rng.uniform(1, 10))
    if kind is JointKind.FREE:
        joint.parent_pose, joint.child_pose = Pose(), Pose()
        joint.initial = np.concatenate([rng.normal(size=3), random_pose(rng).quaternion])
    return joint


def random_geometry(rng: np.random.Generator) -> Geometry:
    """Any solid."""
    a, b, c = (float(v) for v in rng.uniform(0.02, 0.5, size=3))
    kinds: list[Geometry] = [
        Box(np.array([a, b, c])),
        Box(np.array([a, a, a])),
        Sphere(a),
        Ellipsoid(np.array([a, b, c])),
        Capsule(a, b),
        Cylinder(a, b),
        Cone(a, b),
        Mesh(
            vertices=box([a, b, c]).vertices + rng.normal(size=3) * 0.1,
            faces=box([1, 1, 1]).faces,
            scale=np.array([1.0, 1.0, 1.0]) if rng.random() < 0.5 else np.array([0.5, -1.5, 2.0]),
        ),
    ]
    return kinds[rng.integers(len(kinds))]


def random_shape(rng: np.random.Generator, name: str) -> Shape:
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
        color = (float(rng.random()), 0.5, 0.25, float(rng.choice([1.0, 0.5])))
        shape.material = VisualMaterial(name=str(rng.choice(["steel", "red paint", ""])), color=color)
    if shape.collision and rng.random() < 0.4:
        shape.surface = PhysicsMaterial(
            static_friction=[None, 0.7][rng.integers(2)], dynamic_friction=float(rng.random()), restitution=0.25
        )
    return shape


def random_inertial(rng: np.random.Generator) -> Inertial | None:
    """A positive inertia that obeys the triangle inequality."""
    if rng.random() < 0.1:
        return None
    turn = quaternion_to_matrix(rng.normal(size=4))
    x, y, z = rng.uniform(1e-3, 1.0, size=3)
    moments = np.diag([y + z, x + z, x + y])
    tensor = np.diag([0.1, 0.2, 0.25]) if rng.random() < 0.2 else turn @ moments @ turn.T
    return Inertial(float(rng.uniform(0.01, 20)), rng.normal(size=3), (tensor + tensor.T) / 2)


def random_link(rng: np.random.Generator, name: str) -> Link:
    """A link with up to three shapes."""
    link = Link(
        name=name,
        inertial=random_inertial(rng),
        shapes=[random_shape(rng, f"{name} shape {i}") for i in range(rng.integers(4))],
        starts_asleep=bool(rng.random() < 0.1),
        gravity_scale=float(rng.choice([1.0, 1.0, 0.5, 0.0])),
    )
    if rng.random() < 0.3:
        link.linear_velocity, link.angular_velocity = rng.normal(size=3), rng.normal(size=3)
    return link


def random_robot(seed: int, *, masks: bool = True) -> Robot:
    """A tree of one to seven links, perhaps on the world, perhaps with a loop, joints of every kind."""
    rng = generator(seed)
    count = int(rng.integers(1, 8))
    names = [str(n) for n in rng.permutation(NAMES)[:count]]
    robot = Robot(name="my robot", links=[random_link(rng, n) for n in names], base=Base.FREE)
    kinds = [k for k in JointKind if k not in (JointKind.DISTANCE, JointKind.FREE)]
    for i in range(1, count):
        kind = kinds[rng.integers(len(kinds))]
        parent, child = names[int(rng.integers(i))], names[i]
        if rng.random() < 0.2 and kind in (JointKind.REVOLUTE, JointKind.PRISMATIC, JointKind.FIXED):
            parent, child = child, parent
        robot.joints.append(random_joint(rng, f"joint {i}", kind, parent, child))
    _hold(rng, robot, names[0])
    _follow(rng, robot)
    if count > 2 and rng.random() < 0.3:
        kind = [JointKind.DISTANCE, JointKind.FIXED, JointKind.SPHERICAL][rng.integers(3)]
        loop = random_joint(rng, "loop", kind, names[-1], names[0])
        loop.closes_loop, loop.distance = True, (0.1, float(rng.choice([2.0, math.inf])))
        poses = robot.link_poses()
        loop.child_pose = poses[names[0]].inverse() @ poses[names[-1]] @ loop.parent_pose  # it closes
        robot.joints.append(loop)
    _filter(rng, robot, names, masked=masks)
    if rng.random() < 0.5:
        robot.gravity = rng.normal(size=3)
    return robot


def _hold(rng: np.random.Generator, robot: Robot, root: str) -> None:
    """How the root is held: by its pose, by a joint to the world, or by being fixed."""
    choice = rng.integers(4)
    if choice == 0:
        robot.link(robot.tree().roots[0]).pose = random_pose(rng)
    elif choice == 1:
        robot.base = Base.FIXED
        robot.pose = random_pose(rng)
    else:
        kind = [JointKind.FIXED, JointKind.FREE, JointKind.PRISMATIC, JointKind.REVOLUTE][rng.integers(4)]
        robot.joints.insert(0, random_joint(rng, "to the world", kind, None, root))


def _follow(rng: np.random.Generator, robot: Robot) -> None:
    candidates = [j for j in robot.joints if j.kind in (JointKind.REVOLUTE, JointKind.CONTINUOUS)]
    if len(candidates) > 1 and rng.random() < 0.5:
        follower, leader = candidates[1], candidates[0]
        follower.axes[0].mimic = Mimic(joint=leader.name, multiplier=-0.5, offset=float(rng.normal()))


def _filter(rng: np.random.Generator, robot: Robot, names: list[str], *, masked: bool) -> None:
    robot.collision = CollisionRules(self_collide=bool(rng.random() < 0.8), neighbours_collide=bool(rng.random() < 0.5))
    if len(names) > 1 and rng.random() < 0.5:
        robot.collision.pairs.append(CollisionPair(a=names[0], b=names[-1]))
    if not masked:
        return
    for link in robot.links:
        for shape in link.shapes:
            shape.contype, shape.conaffinity = (
                int(v) for v in rng.choice([0, 1, 2, 3], size=2, p=[0.1, 0.6, 0.2, 0.1])
            )


def random_configuration(rng: np.random.Generator, robot: Robot) -> dict[str, Any]:
    """Coordinates of every joint in the tree that does not follow another."""
    result: dict[str, Any] = {}
    for joint in (j for e in robot.tree().edges for j in e.joints):
        if joint.n_qs == 0 or any(a.mimic for a in joint.axes):
            continue
        q = rng.normal(size=joint.n_qs)
        if joint.kind in (JointKind.SPHERICAL, JointKind.FREE):
            q[-4:] /= np.linalg.norm(q[-4:])
        result[joint.name] = q
    return result
