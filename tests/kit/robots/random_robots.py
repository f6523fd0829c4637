"""Random robots as descriptions, each from one seed: trees with what a `Variety` lets occur."""

from __future__ import annotations

import numpy as np

from kinema.description import (
    Actuator,
    Base,
    CollisionGroup,
    CollisionPair,
    CollisionRules,
    JointKind,
    Mimic,
    Robot,
    Sensor,
    Tendon,
    TendonPathItem,
    TendonPathKind,
    Transmission,
    World,
)

from .parts import Generator, random_inertial, random_joint, random_link, random_pose, random_shape
from .variety import ONE_AXIS, Variety


def random_robot(seed: int, may: Variety) -> Robot:
    """A tree of links, in any order and direction, perhaps on the world, perhaps with loops, followers and rules."""
    rng = np.random.default_rng(seed)
    names = rng.permutation(may.names)[: rng.integers(may.n_links[0], may.n_links[1] + 1)].tolist()
    robot = Robot(name="my robot", links=[random_link(rng, name, may) for name in names], base=Base.FREE)
    if len(names) > 1 and all(link.inertial is None for link in robot.links[1:]):
        robot.links[-1].inertial = random_inertial(rng)  # something that moves has a mass
    for i in range(1, len(names)):
        _join(rng, robot, i, may)
    _hold(rng, robot, may)
    _follow(rng, robot, may)
    _close(rng, robot, may)
    _filter(rng, robot, may)
    _drive(rng, robot, may)
    if rng.random() < may.gravity:
        robot.gravity = rng.normal(size=3)
    return robot


def random_world(seed: int, may: Variety) -> World:
    """Several robots whose parts are called alike, some of them scenery, and shapes of the world's own."""
    rng = np.random.default_rng(seed)
    robots = [random_robot(seed + i, may) for i in range(int(rng.integers(1, 4)))]
    for i, robot in enumerate(robots):
        robot.name = f"robot {i}"
        robot.static = bool(rng.random() < 0.2)
    scenery = [random_shape(rng, f"scenery {i}", may) for i in range(rng.integers(4))]
    return World(name="world", robots=robots, shapes=scenery)


def _one_of(rng: Generator, kinds: tuple[JointKind, ...]) -> JointKind:
    return kinds[rng.integers(len(kinds))]


# -- the tree ---------------------------------------------------------------------------------------------------------


def _join(rng: Generator, robot: Robot, i: int, may: Variety) -> None:
    """Hang a link on one of those before it."""
    kind = _one_of(rng, may.kinds)
    parent, child = robot.links[int(rng.integers(i))].name, robot.links[i].name
    if rng.random() < 0.25 and kind in may.reversible:
        parent, child = child, parent
    robot.joints.append(random_joint(rng, f"joint {i}", kind, parent, child, may))
    if may.stacked and rng.random() < 0.2:
        more = random_joint(rng, f"joint {i} b", _one_of(rng, may.stacked), parent, child, may)
        more.stacked = True
        robot.joints.append(more)


def _hold(rng: Generator, robot: Robot, may: Variety) -> None:
    """What holds the robot: nothing, its base, a joint to the world or from it, or somebody's hand."""
    robot.pose = random_pose(rng)
    if rng.random() < may.declares_root:
        robot.root = robot.links[0].name
    root = robot.link(robot.tree().roots[0])
    match rng.integers(6):
        case 0:
            root.pose = random_pose(rng)
        case 1:
            robot.base = [Base.FIXED, Base.UNSPECIFIED][rng.integers(2)]
            root.pose = random_pose(rng) if rng.random() < 0.5 else None
        case 2:
            root.kinematic = True
        case 3 | 4:
            held = robot.links[rng.integers(len(robot.links)) if rng.random() < may.on_any_link else 0].name
            joint = random_joint(rng, "to the world", _one_of(rng, may.to_world), None, held, may)
            if rng.random() < 0.3 and joint.kind in may.reversible:
                joint.parent, joint.child = joint.child, joint.parent
            robot.joints.insert(int(rng.choice([0, len(robot.joints)])), joint)


# -- beside the tree ------------------------------------------------------------------------------------------------


def _follow(rng: Generator, robot: Robot, may: Variety) -> None:
    """One joint follows another."""
    able = [j for j in robot.joints if j.kind in may.followers and j.moving_axes]
    if len(able) < 2 or rng.random() < 0.4:
        return
    leader, follower = (able[i] for i in rng.choice(len(able), size=2, replace=False))
    multiplier, offset, reference = rng.normal(size=3).tolist()
    follower.moving_axes[rng.integers(follower.n_dofs)].mimic = Mimic(
        joint=leader.name,
        axis=int(rng.integers(leader.n_dofs)),
        multiplier=multiplier,
        offset=offset,
        reference=reference,
    )


def _close(rng: Generator, robot: Robot, may: Variety) -> None:
    """Joints that close loops."""
    names = [link.name for link in robot.links]
    for i in range(rng.integers(may.n_loops + 1) if may.loops and len(names) > 2 else 0):
        a, b = names[-1], [names[0], names[0], None][rng.integers(3)]
        if not may.declared_loops:
            a, b = (names[k] for k in rng.choice(len(names), size=2, replace=False))
            if any({a, b} == {j.parent, j.child} for j in robot.joints):
                continue
        loop = random_joint(rng, f"loop {i}", _one_of(rng, may.loops), a, b, may)
        if rng.random() >= may.open_loops:
            poses = robot.link_poses()
            loop.child_pose = (robot.pose if b is None else poses[b]).inverse() @ poses[a] @ loop.parent_pose
        loop.closes_loop = may.declared_loops
        robot.joints.append(loop)


def _filter(rng: Generator, robot: Robot, may: Variety) -> None:
    """Which shapes may collide."""
    rules = CollisionRules(self_collide=bool(rng.random() < 0.8), neighbours_collide=bool(rng.random() < 0.4))
    robot.collision = rules
    links = [link.name for link in robot.links]
    shapes = [shape.name for link in robot.links for shape in link.shapes]
    if len(links) > 1 and rng.random() < 0.5:
        rules.pairs.append(CollisionPair(a=links[0], b=links[-1]))
    if len(shapes) > 1 and rng.random() < may.shape_pairs:
        a, b = rng.choice(shapes, size=2, replace=False).tolist()
        rules.pairs.append(CollisionPair(a=a, b=b, between="shapes", collide=bool(rng.random() < 0.5)))
    if rng.random() < may.groups:
        rules.groups = [CollisionGroup(name=f"group {i}") for i in range(3)]
        for name in [*links, *shapes]:
            if rng.random() < 0.5:
                rules.groups[rng.integers(3)].members.append(name)
        for group in rules.groups:
            group.filtered = [f"group {i}" for i in range(3) if rng.random() < 0.4]
            group.invert = bool(rng.random() < 0.2)


def _drive(rng: Generator, robot: Robot, may: Variety) -> None:
    """Tendons over joints, actuators on both, sensors of what moves."""
    joints = [j for j in robot.joints if j.kind in ONE_AXIS and not j.closes_loop]
    if joints and rng.random() < may.tendons:
        path = [
            TendonPathItem(kind=TendonPathKind.JOINT, target=j.name, coefficient=float(rng.normal())) for j in joints
        ]
        tendon = Tendon(name="tendon", path=path, stiffness=float(rng.uniform(0, 5)), damping=float(rng.uniform(0, 1)))
        robot.tendons.append(tendon)
    targets = [(Transmission.JOINT, j) for j in joints] + [(Transmission.TENDON, t) for t in robot.tendons]
    for transmission, target in targets:
        if rng.random() < may.actuators:
            gear = (float(rng.normal()), 0.0, 0.0, 0.0, 0.0, 0.0)
            kp, kv = rng.uniform(1, 50), rng.uniform(0, 5)
            actuator = Actuator(
                name=f"{target.name} motor", transmission=transmission, target=target.name, gear=gear, gain=(kp,)
            )
            if rng.random() < 0.5:  # a servo
                actuator.bias_type, actuator.bias = "affine", (0.0, -kp, -kv)
                actuator.control_range, actuator.force_range = (-1.0, 2.0), (-30.0, 30.0)
            robot.actuators.append(actuator)
    if joints and rng.random() < may.sensors:
        robot.sensors.append(Sensor(name="angle", kind="jointpos", target_kind="joint", target=joints[0].name))
