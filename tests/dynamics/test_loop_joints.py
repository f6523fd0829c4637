"""Joints of every kind that close loops: their coordinates, and what they hold, beside the same joints in a tree."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from kinema.builder import EntitySpec, build_model
from kinema.core import Array, Diagnostics, Pose
from kinema.description import (
    ConeLimit,
    Drive,
    DriveType,
    Inertial,
    Joint,
    JointKind,
    Link,
    Mimic,
    Robot,
    SolverParameters,
    free_axes,
    rotation,
    spherical_axes,
    translation,
)
from kinema.dynamics import Engine
from kinema.dynamics.lowering.invweight import with_constraint_invweights
from kinema.dynamics.lowering.reference_configuration import path_lengths_and_moments, perturbed_configuration
from kinema.dynamics.rigid.integrators import integrate_coordinates
from kinema.dynamics.tree.kinematic_tree import build_tree
from kit.robots.configurations import by_joint
from kit.robots.each_joint import OBLIQUE, lumpy_link, model_of, oblique_pose, simple_body

from .constrained import constrained_engine

SPRING = {"stiffness": 3.0, "spring_reference": 0.1, "damping": 0.2}


def six(*locked: int, **settings: float) -> list:
    """The axes of a six-axis joint, some of them locked."""
    axes = [translation(e, **settings) for e in np.eye(3)] + [rotation(e, **settings) for e in np.eye(3)]
    for i in locked:
        axes[i].locked = True
    return axes


KINDS: dict[str, tuple[JointKind, list, Array]] = {
    "fixed": (JointKind.FIXED, [], np.zeros(0)),
    "revolute": (JointKind.REVOLUTE, [rotation(OBLIQUE, reference=0.4, **SPRING)], np.array([1.3])),
    "backwards": (JointKind.CONTINUOUS, [rotation((0, 0, -1), **SPRING)], np.array([-0.7])),
    "prismatic": (JointKind.PRISMATIC, [translation(OBLIQUE, reference=-0.2, **SPRING)], np.array([0.3])),
    "cylindrical": (
        JointKind.CYLINDRICAL,
        [rotation(OBLIQUE, **SPRING), translation(OBLIQUE, **SPRING)],
        np.array([0.5, 0.2]),
    ),
    "planar": (
        JointKind.PLANAR,
        [translation((0, 0.6, 0.8), **SPRING), translation((0, -0.8, 0.6), **SPRING), rotation((1, 0, 0), **SPRING)],
        np.array([0.1, -0.2, 0.4]),
    ),
    "universal": (
        JointKind.UNIVERSAL,
        [rotation((0, 0, 1), **SPRING), rotation((0.6, 0.8, 0), **SPRING)],
        np.array([0.5, -2.0]),
    ),
    "screw": (JointKind.SCREW, [rotation(OBLIQUE, reference=0.3, **SPRING)], np.array([2.9])),
    "flat screw": (JointKind.SCREW, [rotation(OBLIQUE, **SPRING)], np.array([0.9])),
    "six axes": (JointKind.SIX_AXIS, six(**SPRING), np.array([0.1, 0.2, -0.1, 0.4, -0.9, 0.7])),
    "six axes, one turn": (JointKind.SIX_AXIS, six(0, 1, 2, 3, 5, **SPRING), np.array([2.2])),
    "six axes, two turns": (JointKind.SIX_AXIS, six(0, 2, 4, **SPRING), np.array([0.2, 1.9, 0.5])),
    "six axes, other turns": (JointKind.SIX_AXIS, six(1, 3, **SPRING), np.array([0.2, -0.1, 1.7, 0.5])),
}
PITCH = {"screw": 0.5}


def joint_of(which: str, number: int, **settings: object) -> Joint:
    """The joint of a kind from the base to an arm of its own, with frames that are nowhere special."""
    generator = np.random.default_rng(number)
    kind, axes, _ = KINDS[which]
    own: dict[str, object] = {"parent": "base", "child": f"arm {which}", "axes": axes, "pitch": PITCH.get(which, 0.0)}
    own |= {"parent_pose": oblique_pose(generator), "child_pose": oblique_pose(generator)}
    return Joint(kind=kind, **{"name": which, **own, **settings})  # type: ignore[arg-type]


def arms(kinds: Sequence[str]) -> list[Link]:
    generator = np.random.default_rng(5)
    return [Link(name="base"), *(lumpy_link(f"arm {name}", generator) for name in kinds)]


def in_tree(kinds: Sequence[str] = tuple(KINDS)) -> Robot:
    """All of them in the tree."""
    joints = [joint_of(name, i) for i, name in enumerate(kinds)]
    for joint in joints:
        joint.state = KINDS[joint.name][2]
    return Robot(name="tree", links=arms(kinds), joints=joints, root="base")


def in_loops(kinds: Sequence[str]) -> Robot:
    """All arms fly, from where the tree has them, and are held by the same joints as loops."""
    tree = in_tree(kinds)
    poses = tree.link_poses({})
    joints = []
    for joint in tree.joints:
        joint.closes_loop = True
        pose = poses[joint.child or ""]
        initial = np.concatenate([pose.position, pose.quaternion])
        own: dict[str, object] = {"parent": None, "child": joint.child, "axes": free_axes(), "initial": initial}
        joints += [Joint(name=f"{joint.name} flies", kind=JointKind.FREE, **own), joint]  # type: ignore[arg-type]
    return Robot(name="loops", links=tree.links, joints=joints, root="base")


def test_coordinates_of_loops() -> None:
    """A loop beside the same joint in the tree has the same coordinates, and moves with each of them alone."""
    robot = in_tree()
    twins = [joint_of(name, i, name=f"{name} twin", closes_loop=True) for i, name in enumerate(KINDS)]
    robot.joints += twins
    model = model_of(robot)
    lengths, moments = path_lengths_and_moments(model, model.qpos0)
    seen = 0
    for j, name in enumerate(model.joints.names):
        dofs = range(int(model.joints.dof_start[j]), int(model.joints.dof_end[j]))
        for k, dof in enumerate(dofs):
            axes = KINDS[name][1]
            at = [i for i, a in enumerate(axes) if not a.locked][k]
            row = model.tendons.names.index(f"{name} twin" if len(dofs) == 1 else f"{name} twin[{at}]")
            path = int(model.tendons.path_idx[row])
            assert lengths[path] == pytest.approx(model.qpos0[int(model.dofs.q_idx[dof])], abs=1e-12), name
            np.testing.assert_allclose(moments[path], np.eye(model.n_dofs)[dof], atol=1e-12, err_msg=name)
            seen += 1
    assert seen == model.n_dofs


def test_lengths_change_as_their_moments_say() -> None:
    """Also where loops are open: by differences along each degree of freedom of arms that are anywhere."""
    model = model_of(in_loops(("revolute", "universal", "six axes", "six axes, one turn")))
    tree, rng, step = build_tree(model), np.random.default_rng(3), 1e-6
    q = np.array(perturbed_configuration(model))
    _, moments = path_lengths_and_moments(model, q)
    dofs = rng.choice(model.n_dofs, 10, replace=False)
    for dof in dofs:
        ends = []
        for sign in (-1.0, 1.0):
            moved = q.copy()
            node = next(n for n in tree.nodes if dof in n.dofs)
            shift = [sign * step * (d == dof) for d in node.dofs]
            moved[list(node.qs)] = integrate_coordinates(node, [float(x) for x in q[list(node.qs)]], shift)
            ends.append(path_lengths_and_moments(model, moved)[0])
        np.testing.assert_allclose((ends[1] - ends[0]) / (2 * step), moments[:, dof], rtol=0, atol=1e-6)


def arm_names(robot: Robot) -> list[str]:
    return [link.name.removeprefix("arm ") for link in robot.links if link.name != "base"]


def link_positions(engine: Engine, robot: Robot) -> dict[str, Array]:
    """Where a point of each arm is that turns with it."""
    q = by_joint(engine.model, np.array(engine.array_view("qpos").numpy()[:, 0], dtype=float))
    poses = robot.link_poses(q)
    return {name: (poses[f"arm {name}"] @ Pose.translation((0.3, 0.2, -0.1))).position for name in arm_names(robot)}


SOME = ("fixed", "cylindrical", "planar", "six axes")
OTHERS = ("screw", "universal", "six axes, other turns")


@pytest.mark.parametrize(
    ("precision", "codegen", "kinds"), [("single", "loops", SOME), ("double", "unrolled", OTHERS)], ids=["one", "two"]
)
def test_loops_move_as_trees_do(precision: str, codegen: str, kinds: tuple[str, ...]) -> None:
    """Every form of what joints hold, with springs and dampers, over a third of a second."""
    ends = []
    for robot in (in_tree(kinds), in_loops(kinds)):
        engine = constrained_engine(model_of(robot), dt=1e-3, precision=precision, codegen=codegen)
        engine.step(300)
        ends.append(link_positions(engine, robot))
    for name in kinds:
        error = float(np.abs(ends[0][name] - ends[1][name]).max())
        print(f"{name}: {error:.1e}")
        assert error < 2e-3, name


# ------------------------------------------------------------------------------------------------ what acts along them

WEIGHT = 9.81
DOWN = Pose(rotation=np.array([[0.0, 0, 1], [0, 1, 0], [-1, 0, 0]]))
"""Its x points down."""


def held(name: str, kind: JointKind, axes: list, start: float = 0.0, **settings: object) -> list[Joint]:
    """A body of one kilogram that flies, held by a joint whose x points down, and starts that far down."""
    initial = np.array([0.0, 0.0, -start, *DOWN.quaternion])
    flying = Joint(
        name=f"{name} flies", kind=JointKind.FREE, parent=None, child=name, axes=free_axes(), initial=initial
    )
    own: dict[str, object] = {"parent": None, "child": name, "parent_pose": DOWN, "axes": axes, "closes_loop": True}
    return [flying, Joint(name=name, kind=kind, **{**own, **settings})]  # type: ignore[arg-type]


def along(**settings: object) -> list:
    return [translation((1, 0, 0), **settings)]  # type: ignore[arg-type]


HARD = SolverParameters(solref=(1e-9, 1.0), solimp=(0.9999, 0.9999, 0.001, 0.5, 2.0))
SLOW = {"damping": 30.0}
SERVO = Drive(stiffness=200.0, damping=40.0, target_position=0.3)
WEAK = Drive(stiffness=200.0, damping=40.0, target_position=-0.3, max_force=WEIGHT / 2)
SPIN = Drive(damping=2.0, target_velocity=0.7)
PER_KILOGRAM = Drive(stiffness=50.0, damping=20.0, target_position=0.1, type=DriveType.ACCELERATION)
SWING = {"axis": 0, "angle_y": 0.4, "angle_z": 0.4}
HELD: dict[str, tuple[list[Joint], float, float]] = {
    "stops": (held("stops", JointKind.PRISMATIC, along(upper=0.2, drive=WEAK, **SLOW)), 0.2, 5e-3),
    "rests": (held("rests", JointKind.PRISMATIC, along(friction=15.0, friction_solver=HARD), 0.1), 0.1, 1e-3),
    "driven": (held("driven", JointKind.PRISMATIC, along(drive=SERVO)), 0.3 + WEIGHT / 200, 1e-4),
    "driven by mass": (held("driven by mass", JointKind.PRISMATIC, along(drive=PER_KILOGRAM)), 0.1 + WEIGHT / 50, 1e-3),
    "hangs on a rope": (held("hangs on a rope", JointKind.DISTANCE, [], 0.5, distance=(0.0, 0.5)), 0.5, 5e-3),
    "stands on a rod": (held("stands on a rod", JointKind.DISTANCE, [], 0.4, distance=(0.4, 0.4)), 0.4, 1e-4),
    "is kept away": (
        held("is kept away", JointKind.SIX_AXIS, six(1, 2, 3, 4, 5), -0.3, distance=(0.3, math.inf)),
        -0.3,
        5e-3,
    ),
    "lies on a thread": (
        held("lies on a thread", JointKind.SCREW, [rotation((1, 0, 0), upper=8.0, damping=0.02)], pitch=0.1),
        8.0 * 0.1 / 2 / math.pi,
        1e-3,
    ),
}
"""Joints, where they end up (how far down), and how exactly."""


def hanging() -> Robot:
    """All of them, a bob on a ball in a cone, a wheel that is driven, and one that follows it."""
    bob = held("bob", JointKind.SPHERICAL, spherical_axes(), child_pose=Pose.translation((0.5, 0, 0)))
    bob[0].initial = np.array([0.0, 0.02, 0.5, *DOWN.quaternion])  # upside down: it falls to the rim of its cone
    bob[1].cone = ConeLimit(**SWING)  # type: ignore[arg-type]
    for axis in bob[1].axes:
        axis.damping = 0.3
    wheel = held("wheel", JointKind.CONTINUOUS, [rotation((1, 0, 0))])
    wheel[1].axes[0].drive = SPIN
    follower = held("follower", JointKind.CONTINUOUS, [rotation((1, 0, 0))])
    follower[1].axes[0].mimic = Mimic(joint="wheel", multiplier=-0.5)
    joints = [j for own, _, _ in HELD.values() for j in own] + bob + wheel + follower
    bodies = [simple_body(1.0, (0.01, 0.01, 0.01)) for _ in joints[::2]]
    for link, joint in zip(bodies, joints[::2], strict=True):
        link.name = joint.child or ""
    return Robot(name="held", links=bodies, joints=joints)


@pytest.mark.parametrize("total", [False, True])
def test_cones_are_as_hard_as_what_they_turn(total: bool) -> None:
    """Also where a ball starts in the middle of its cone, and has turned about no axis: one over its inertia."""
    ball = held("ball", JointKind.SPHERICAL, spherical_axes())
    ball[1].cone = ConeLimit(**SWING, total=total)  # type: ignore[arg-type]
    link = simple_body(1.0, (0.2, 0.2, 0.2))
    link.name = "ball"
    model = model_of(Robot(name="ball", links=[link], joints=ball))
    (model,) = with_constraint_invweights([model])
    np.testing.assert_allclose(model.derived.tendon_invweight, 1.0 / 0.2, rtol=1e-9)


def test_what_acts_along_loops() -> None:
    """Limits, friction, springs, drives, ropes and rods hold a weight where they should."""
    robot = hanging()
    diagnostics = Diagnostics()
    model = build_model([EntitySpec(name="it", description=robot)], diagnostics=diagnostics)
    assert [str(d) for d in diagnostics] == []
    engine = constrained_engine(model, dt=4e-3)
    engine.step(600)
    poses = robot.link_poses(by_joint(model, np.array(engine.array_view("qpos").numpy()[:, 0], dtype=float)))
    for name, (_, expected, within) in HELD.items():
        x, y, z = poses[name].position
        print(f"{name}: {-z:.5f} instead of {expected:.5f}")
        assert -z == pytest.approx(expected, abs=within), name
        assert max(abs(x), abs(y)) < 1e-3, name
    speeds = engine.fields.links_state.ang.numpy()
    names = model.links.names
    assert speeds[names.index("wheel"), 0, 2] == pytest.approx(-0.7, abs=1e-3)
    assert speeds[names.index("follower"), 0, 2] == pytest.approx(0.35, abs=1e-3)
    swing = math.acos(float(poses["bob"].rotation[:, 0] @ DOWN.rotation[:, 0]))
    assert swing == pytest.approx(0.4, abs=0.01)


# ------------------------------------------------------------------------------------------------- what turns with them

TURNED = ("cylindrical", "backwards")


def with_rotors(on_loops: bool) -> Robot:
    """A base that turns, arms on it, and beside each joint one like it that closes a loop; rotors on these or those."""
    robot = in_tree(TURNED)
    robot.links[0].inertial = Inertial(2.0, np.array((0.1, 0.0, 0.05)), np.diag((0.03, 0.04, 0.05)))
    twins = [joint_of(name, i, name=f"{name} twin", closes_loop=True) for i, name in enumerate(TURNED)]
    for joint in twins if on_loops else robot.joints:
        joint.axes = [replace(axis, armature=0.7 + 0.4 * i) for i, axis in enumerate(joint.axes)]
    axes = [rotation((0, 0, 1)), rotation((0.6, 0.8, 0))]
    turns = Joint(name="turns", kind=JointKind.UNIVERSAL, parent=None, child="base", axes=axes)
    robot.joints = [turns, *robot.joints, *twins]
    return robot


def test_rotors_of_loops() -> None:
    """A rotor on a joint that closes a loop is felt as on the same joint in the tree, however what carries it turns."""
    found = []
    for on_loops in (False, True):
        engine = constrained_engine(model_of(with_rotors(on_loops), gravity=(0.0, 0.0, 0.0)), codegen="loops")
        rng = np.random.default_rng(4)
        engine.array_view("vel").assign(3.0 * rng.normal(size=(engine.model.n_dofs, 1)))
        energy = np.array(engine.fields.system.kinetic_energy.numpy()).ravel()
        found.append(np.concatenate([np.array(engine.fields.constraints.qacc.numpy())[:, 0], energy]))
    np.testing.assert_allclose(found[1], found[0], rtol=1e-7, atol=1e-7)


def test_rotors_that_have_no_place() -> None:
    """Between two branches, about one of several axes, and on threads: they are left out, and that is said."""
    robot, diagnostics = in_loops(("revolute", "universal", "screw")), Diagnostics()
    robot.links[0].inertial = Inertial(2.0, np.zeros(3), np.eye(3))
    flies = Joint(name="flies", kind=JointKind.FREE, parent=None, child="base", axes=free_axes())
    robot.joints = [flies, *robot.joints]
    for joint in robot.joints:
        joint.axes = [replace(axis, armature=0.5 * joint.closes_loop) for axis in joint.axes]
    model = build_model([EntitySpec(name="it", description=robot)], diagnostics=diagnostics)
    assert not model.tendons.armature.any()
    reasons = ("two branches", "several axes", "several axes", "screw")
    assert all(reason in str(said) for reason, said in zip(reasons, diagnostics, strict=True))
