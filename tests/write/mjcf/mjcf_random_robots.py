"""Random descriptions with everything that a tree in MJCF can be made of, each from one seed."""

from __future__ import annotations

import math

import numpy as np

from kinema.description import (
    Axis,
    Base,
    Box,
    Capsule,
    CollisionGroup,
    CollisionPair,
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
    World,
    free_axes,
    rotation,
    spherical_axes,
    translation,
)
from kinema.foundation import Array, Pose, quaternion_to_matrix
from kinema.shapes import box

Generator = np.random.Generator
TREE_KINDS = [k for k in JointKind if k is not JointKind.DISTANCE]


def pose(rng: Generator) -> Pose:
    """Anywhere near; often a plain offset or a quarter turn."""
    if rng.random() < 0.2:
        return Pose()
    if rng.random() < 0.3:
        return Pose.from_rpy(rng.normal(size=3).round(2), rng.integers(-2, 3, size=3) * math.pi / 2)
    return Pose(rng.normal(size=3), quaternion_to_matrix(rng.normal(size=4)))


def direction(rng: Generator) -> Array:
    """A unit vector, often along an axis."""
    return np.eye(3)[rng.integers(3)] * rng.choice([-1.0, 1.0]) if rng.random() < 0.5 else _unit(rng.normal(size=3))


def _unit(v: Array) -> Array:
    return v / np.linalg.norm(v)


def axes(rng: Generator, kind: JointKind) -> list[Axis]:
    """The axes of a kind of joint, with limits and dynamics."""
    d = direction(rng)
    frame = quaternion_to_matrix(rng.normal(size=4))
    made = {
        JointKind.REVOLUTE: lambda: [rotation(d, lower=-1.0, upper=2.0)],
        JointKind.CONTINUOUS: lambda: [rotation(d)],
        JointKind.SCREW: lambda: [rotation(d)],
        JointKind.PRISMATIC: lambda: [translation(d)],
        JointKind.SPHERICAL: spherical_axes,
        JointKind.CYLINDRICAL: lambda: [rotation(d), translation(d)],
        JointKind.PLANAR: lambda: [translation(frame[0]), translation(frame[1]), rotation(frame[2])],
        JointKind.UNIVERSAL: lambda: [rotation(frame[0]), rotation(frame[1])],
        JointKind.FREE: free_axes,
        JointKind.SIX_AXIS: free_axes,
    }.get(kind, list)()
    if kind is JointKind.SIX_AXIS:
        for axis in made:
            axis.locked = bool(rng.random() < 0.5)
    for axis in made:
        if kind not in (JointKind.SPHERICAL, JointKind.FREE):
            _fill(rng, axis)
    return made


def _fill(rng: Generator, axis: Axis) -> None:
    if rng.random() < 0.5:
        axis.lower, axis.upper = sorted(rng.normal(size=2).tolist())
    if rng.random() < 0.2:
        axis.lower = axis.upper = float(rng.normal())
    if rng.random() < 0.2:
        axis.upper = math.inf
    if rng.random() < 0.4:
        axis.damping, axis.friction, axis.armature, axis.stiffness = rng.uniform(0, 1, size=4).tolist()
        axis.spring_reference, axis.effort = rng.uniform(0, 5, size=2).tolist()
    if rng.random() < 0.2:
        axis.reference = float(rng.normal())
    if rng.random() < 0.3:
        stiffness, damping, position, velocity = rng.uniform(0, 10, size=4).tolist()
        axis.drive = Drive(
            stiffness=stiffness if rng.random() < 0.8 else 0.0,
            damping=damping,
            target_position=position,
            target_velocity=velocity,
            max_force=float(rng.choice([7.5, math.inf])),
            type=DriveType.ACCELERATION if rng.random() < 0.2 else DriveType.FORCE,
        )


def joint(rng: Generator, name: str, kind: JointKind, parent: str | None, child: str | None) -> Joint:
    """A joint of a kind."""
    made = Joint(
        name=name,
        kind=kind,
        parent=parent,
        child=child,
        parent_pose=pose(rng),
        child_pose=pose(rng),
        axes=axes(rng, kind),
        collision_enabled=[None, None, True, False][rng.integers(4)],
    )
    if kind is JointKind.SCREW:
        made.pitch = float(rng.normal())
    if kind is JointKind.FREE:
        made.initial = np.concatenate([rng.normal(size=3), _unit(rng.normal(size=4))])
    elif rng.random() < 0.4:
        q = rng.normal(size=made.n_qs)
        made.state = _unit(q) if kind is JointKind.SPHERICAL else q
    if kind is JointKind.SPHERICAL and rng.random() < 0.5:
        made.cone = ConeLimit(angle_y=0.5, angle_z=float(rng.uniform(0.1, 2)), total=bool(rng.random() < 0.5))
    if kind is JointKind.DISTANCE:
        made.distance = (float(rng.uniform(0, 1)), float(rng.choice([2.0, math.inf])))
    return made


def geometry(rng: Generator) -> Geometry:
    """Any solid."""
    a, b, c = rng.uniform(0.02, 0.5, size=3).tolist()
    mesh = box([a, b, c])
    scale = np.ones(3) if rng.random() < 0.5 else np.array([0.5, -1.5, 2.0])
    made: list[Geometry] = [
        *(
            Box(np.array([a, b, c])),
            Sphere(a),
            Ellipsoid(np.array([a, b, c])),
            Capsule(a, b),
            Cylinder(a, b),
            Cone(a, b),
        ),
        Mesh(vertices=mesh.vertices + rng.normal(size=3), faces=mesh.faces, scale=scale),
    ]
    return made[rng.integers(len(made))]


def shape(rng: Generator, name: str) -> Shape:
    """A shape to be seen, to collide, or both."""
    role = rng.integers(3)
    made = Shape(name=name, geometry=geometry(rng), pose=pose(rng), visual=role != 0, collision=role != 1)
    made.enabled = bool(rng.random() < 0.9)
    if rng.random() < 0.3:
        made.contype, made.conaffinity = (int(v) for v in rng.integers(0, 5, size=2))
    if rng.random() < 0.4:
        made.material = VisualMaterial(name=str(rng.choice(["steel", ""])), color=(*rng.random(3).tolist(), 1.0))  # type: ignore[arg-type]
    if made.collision and rng.random() < 0.4:
        made.surface = PhysicsMaterial(
            dynamic_friction=float(rng.random()), contact_dimension=int(rng.choice([1, 4, 6]))
        )
    return made


def link(rng: Generator, name: str) -> Link:
    """A link with a few shapes and, mostly, a mass."""
    made = Link(name=name, shapes=[shape(rng, f"{name} shape {i}") for i in range(rng.integers(4))])
    turn = quaternion_to_matrix(rng.normal(size=4))
    x, y, z = rng.uniform(1e-3, 1.0, size=3)
    tensor = turn @ np.diag([y + z, x + z, x + y]) @ turn.T
    if rng.random() < 0.9:
        made.inertial = Inertial(float(rng.uniform(0.1, 20)), rng.normal(size=3), (tensor + tensor.T) / 2)
    made.self_collide = [None, None, True, False][rng.integers(4)]
    made.gravity_scale = float(rng.choice([1.0, 0.25]))
    return made


def robot(seed: int) -> Robot:
    """A tree of up to seven links, some joints the other way round or stacked, perhaps loops and collision rules."""
    rng = np.random.default_rng(seed)
    names = [f"link {i}" for i in range(int(rng.integers(1, 8)))]
    made = Robot(name="robot", links=[link(rng, n) for n in names], pose=pose(rng), base=Base.FREE)
    for i in range(1, len(names)):
        ends = [names[int(rng.integers(i))], names[i]]
        if rng.random() < 0.25:
            ends.reverse()
        made.joints.append(joint(rng, f"joint {i}", TREE_KINDS[rng.integers(len(TREE_KINDS))], *ends))
        if rng.random() < 0.15:
            stacked = joint(rng, f"joint {i}b", [JointKind.REVOLUTE, JointKind.SPHERICAL][rng.integers(2)], *ends)
            stacked.stacked = True
            made.joints.append(stacked)
    _hold(rng, made, names[0])
    _loops(rng, made, names)
    _follow(rng, made)
    _rules(rng, made, names)
    return made


def _hold(rng: Generator, made: Robot, root: str) -> None:
    choice = rng.integers(4)
    made.root = root
    if choice == 0:
        made.base = [Base.FIXED, Base.UNSPECIFIED][rng.integers(2)]
        made.link(root).pose = pose(rng)
    elif choice == 1:
        ends = [None, root] if rng.random() < 0.7 else [root, None]
        made.joints.append(joint(rng, "to the world", TREE_KINDS[rng.integers(len(TREE_KINDS))], ends[0], ends[1]))
    elif choice == 2:
        made.link(root).kinematic = True


def _loops(rng: Generator, made: Robot, names: list[str]) -> None:
    for i in range(int(rng.integers(3)) if len(names) > 2 else 0):
        kind = list(JointKind)[rng.integers(len(JointKind))]
        loop = joint(rng, f"loop {i}", kind, names[-1], [names[0], None][int(rng.random() < 0.3)])
        loop.closes_loop = True
        if rng.random() < 0.7:  # else it is open at the zero configuration
            poses = {n: made.pose.inverse() @ p for n, p in made.link_poses().items()}
            held = Pose() if loop.child is None else poses[loop.child]
            loop.child_pose = held.inverse() @ poses[names[-1]] @ loop.parent_pose
        made.joints.append(loop)


def _follow(rng: Generator, made: Robot) -> None:
    single = [j for j in made.joints if len(j.moving_axes) == 1 and not j.closes_loop]
    if len(single) > 1 and rng.random() < 0.6:
        follower, leader = single[0], single[1]
        line = rng.normal(size=3).tolist()
        follower.axes[0].mimic = Mimic(joint=leader.name, multiplier=line[0], offset=line[1], reference=line[2])


def _rules(rng: Generator, made: Robot, names: list[str]) -> None:
    rules = made.collision
    rules.self_collide, rules.neighbours_collide = bool(rng.random() < 0.8), bool(rng.random() < 0.3)
    shapes = [s.name for x in made.links for s in x.shapes]
    if len(names) > 1 and rng.random() < 0.4:
        rules.pairs.append(CollisionPair(a=names[0], b=names[-1]))
    if len(shapes) > 1 and rng.random() < 0.4:
        a, b = rng.choice(shapes, size=2, replace=False).tolist()
        rules.pairs.append(CollisionPair(a=a, b=b, between="shapes", collide=bool(rng.random() < 0.5)))
    if rng.random() < 0.4:
        groups = [CollisionGroup(name=f"group {i}") for i in range(3)]
        for name in [*names, *shapes]:
            if rng.random() < 0.5:
                groups[rng.integers(3)].members.append(name)
        for group in groups:
            group.filtered = [f"group {i}" for i in range(3) if rng.random() < 0.4]
            group.invert = bool(rng.random() < 0.2)
        rules.groups = groups


def world(seed: int) -> World:
    """Several robots whose parts are called alike, and scenery."""
    rng = np.random.default_rng(seed)
    robots = [robot(seed + i) for i in range(int(rng.integers(1, 4)))]
    for i, made in enumerate(robots):
        made.name = f"robot {i}"
        made.static = bool(rng.random() < 0.2)
    scenery = [shape(rng, f"scenery {i}") for i in range(rng.integers(4))]
    return World(name="world", robots=robots, shapes=scenery)
