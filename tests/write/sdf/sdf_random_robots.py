"""Random robots: trees with every kind of joint, loops, random frames, masses, shapes and rules."""

from __future__ import annotations

import math

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
    Cylinder,
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
from kinema.foundation import Array, quaternion_to_matrix
from kinema.shapes import box
from kit.robots.parts import random_pose

NAMES = ("base", "world", "a::b", "__x__", "θ", "link 1", "joint 1", "gripper", "link/1", "x")
"""Names that the format forbids, and one that a joint has too."""
seeds = st.integers(min_value=0, max_value=2**32 - 1)


def _direction(rng: np.random.Generator) -> Array:
    if rng.random() < 0.5:
        return float(rng.choice([-1.0, 1.0])) * np.eye(3)[rng.integers(3)]
    return rng.normal(size=3)


def _fill(rng: np.random.Generator, axis: Axis) -> Axis:
    if rng.random() < 0.7:
        axis.lower = -float(rng.uniform(0.1, 3))
    if rng.random() < 0.7:
        axis.upper = float(rng.uniform(0.1, 3))
    axis.effort = float(rng.choice([math.inf, 10.0, 0.0]))
    axis.velocity = float(rng.choice([math.inf, 2.5]))
    axis.damping, axis.friction, axis.stiffness = (float(v) for v in rng.choice([0.0, 0.5, 1.25], size=3))
    axis.spring_reference, axis.armature = (float(v) for v in rng.choice([0.0, 0.25], size=2))
    axis.reference = float(rng.choice([0.0, 0.0, 0.0, 0.7]))
    return axis


def _axes(rng: np.random.Generator, kind: JointKind) -> list[Axis]:
    first, frame = _direction(rng), quaternion_to_matrix(rng.normal(size=4))
    match kind:
        case JointKind.REVOLUTE | JointKind.SCREW:
            axes = [rotation(first)]
        case JointKind.CONTINUOUS:
            return [rotation(first, damping=0.5)]
        case JointKind.PRISMATIC:
            axes = [translation(first)]
        case JointKind.CYLINDRICAL:
            axes = [rotation(first), translation(first)]
        case JointKind.PLANAR:
            axes = [translation(frame[0]), translation(frame[1]), rotation(frame[2])]
        case JointKind.UNIVERSAL:
            axes = [rotation(frame[0]), rotation(frame[1] if rng.random() < 0.8 else first)]
        case JointKind.SIX_AXIS:
            axes = free_axes()
            for axis in axes:
                axis.locked = bool(rng.random() < 0.4)
        case JointKind.SPHERICAL:
            return spherical_axes()
        case JointKind.FREE:
            return free_axes()
        case _:
            return []
    return [axis if axis.locked else _fill(rng, axis) for axis in axes]


def random_joint(rng: np.random.Generator, name: str, kind: JointKind, parent: str | None, child: str) -> Joint:
    """A joint of a kind between two links."""
    joint = Joint(
        name=name,
        kind=kind,
        parent=parent,
        child=child,
        parent_pose=random_pose(rng),
        child_pose=random_pose(rng),
        axes=_axes(rng, kind),
        pitch=float(rng.normal()) if kind is JointKind.SCREW else 0.0,
        collision_enabled=[None, None, True, False][rng.integers(4)],
    )
    if kind is JointKind.FREE:
        joint.initial = np.concatenate([rng.normal(size=3), random_pose(rng).quaternion])
    return joint


def _geometry(rng: np.random.Generator) -> Geometry:
    a, b, c = (float(v) for v in rng.uniform(0.02, 0.5, size=3))
    kinds: list[Geometry] = [
        Box(np.array([a, b, c])),
        Sphere(a),
        Ellipsoid(np.array([a, b, c])),
        Capsule(a, b),
        Cylinder(a, b),
        Cone(a, b),
        Mesh(vertices=box([a, b, c]).vertices, faces=box([1, 1, 1]).faces, scale=np.array([0.5, -1.5, 2.0])),
    ]
    return kinds[rng.integers(len(kinds))]


def _shape(rng: np.random.Generator, name: str) -> Shape:
    role = rng.integers(3)
    shape = Shape(name=name, geometry=_geometry(rng), pose=random_pose(rng), visual=role != 0, collision=role != 1)
    shape.enabled = bool(rng.random() < 0.9)
    if shape.visual and rng.random() < 0.4:
        shape.material = VisualMaterial(color=(float(rng.random()), 0.5, 0.25, 0.5))
    if shape.collision and rng.random() < 0.4:
        shape.surface = PhysicsMaterial(dynamic_friction=float(rng.random()), restitution=0.25)
    if rng.random() < 0.3:
        shape.contype, shape.conaffinity = (int(v) for v in rng.choice([0, 1, 2, 3], size=2))
    return shape


def _inertial(rng: np.random.Generator) -> Inertial | None:
    if rng.random() < 0.1:
        return None
    turn = quaternion_to_matrix(rng.normal(size=4))
    x, y, z = rng.uniform(1e-3, 1.0, size=3)
    tensor = turn @ np.diag([y + z, x + z, x + y]) @ turn.T
    return Inertial(float(rng.uniform(0.01, 20)), rng.normal(size=3), (tensor + tensor.T) / 2)


def random_robot(seed: int) -> Robot:
    """A tree of one to seven links, perhaps on the world, perhaps with a loop, joints of every kind."""
    rng = np.random.default_rng(seed)
    names = [str(n) for n in rng.permutation(NAMES)[: int(rng.integers(1, 8))]]
    links = [Link(name=n, inertial=_inertial(rng)) for n in names]
    for link in links:
        link.shapes = [_shape(rng, f"shape {i}") for i in range(rng.integers(3))]
        link.gravity_scale = float(rng.choice([1.0, 1.0, 0.5, 0.0]))
    robot = Robot(name="my robot", links=links, base=Base.FREE, pose=random_pose(rng))
    kinds = [k for k in JointKind if k not in (JointKind.DISTANCE, JointKind.FREE)]
    for i in range(1, len(names)):
        parent, child = names[int(rng.integers(i))], names[i]
        if rng.random() < 0.2:
            parent, child = child, parent
        robot.joints.append(random_joint(rng, f"joint {i}", kinds[rng.integers(len(kinds))], parent, child))
    if len(names) > 2 and rng.random() < 0.3:  # a second joint adds its motion to the last one
        last = robot.joints[-1]
        robot.joints.append(random_joint(rng, "stacked", JointKind.REVOLUTE, last.parent, last.child or ""))
        robot.joints[-1].stacked = True
    _hold(rng, robot, names[0])
    _follow(robot, rng)
    _close(rng, robot, names)
    rules = CollisionRules(self_collide=bool(rng.random() < 0.8), neighbours_collide=bool(rng.random() < 0.3))
    if len(names) > 1 and rng.random() < 0.5:
        rules.pairs.append(CollisionPair(a=names[0], b=names[-1]))
    robot.collision = rules
    return robot


def _hold(rng: np.random.Generator, robot: Robot, root: str) -> None:
    """How the root is held: by its pose, by a joint to the world or from it, or by being fixed."""
    choice = rng.integers(5)
    if choice == 0:
        robot.link(robot.tree().roots[0]).pose = random_pose(rng)
    elif choice == 1:
        robot.base = Base.FIXED
    elif choice > 2:
        kinds = [k for k in JointKind if k is not JointKind.DISTANCE]
        joint = random_joint(rng, "to the world", kinds[rng.integers(len(kinds))], None, root)
        if choice == 4 and joint.kind is not JointKind.FREE:
            joint.parent, joint.child = joint.child, joint.parent
        robot.joints.insert(0, joint)


def _follow(robot: Robot, rng: np.random.Generator) -> None:
    turning = [j for j in robot.joints if j.kind in (JointKind.REVOLUTE, JointKind.UNIVERSAL, JointKind.CYLINDRICAL)]
    if len(turning) > 1 and rng.random() < 0.5:
        leader, follower = turning[:2]
        axis = len(leader.moving_axes) - 1
        mimic = Mimic(joint=leader.name, axis=axis, multiplier=-0.5, offset=float(rng.normal()), reference=0.25)
        follower.axes[0].mimic = mimic


def _close(rng: np.random.Generator, robot: Robot, names: list[str]) -> None:
    if len(names) < 3 or rng.random() > 0.3:
        return
    kind = [JointKind.DISTANCE, JointKind.FIXED, JointKind.SPHERICAL, JointKind.REVOLUTE][rng.integers(4)]
    loop = random_joint(rng, "loop", kind, names[-1], names[0])
    loop.closes_loop = True
    poses = robot.link_poses({j.name: j.rest for j in robot.joints})
    loop.child_pose = poses[names[0]].inverse() @ poses[names[-1]] @ loop.parent_pose  # it closes
    robot.joints.append(loop)
