"""Loops, mimicry, screws, gears, drives and distances do in MuJoCo what they do in the description."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

from kinema.core import Array, Pose
from kinema.description import (
    Axis,
    Base,
    ConeLimit,
    Constraint,
    ConstraintKind,
    Drive,
    DriveType,
    Frame,
    Inertial,
    Joint,
    JointKind,
    Link,
    Mimic,
    Robot,
    Tendon,
    TendonPathItem,
    TendonPathKind,
    free_axes,
    joint_transform,
    rotation,
    spherical_axes,
    translation,
)
from kit.mujoco_models import quiet
from kit.written.mjcf import Written, assert_poses, positions, write

Z = (0.0, 0.0, 1.0)
FRAME = Pose.from_rpy((0.3, -0.1, 0.2), (0.4, -0.5, 0.6))
OTHER = Pose.from_rpy((-0.2, 0.5, 0.1), (1.4, 0.2, -0.3))


def link(name: str) -> Link:
    return Link(name=name, inertial=Inertial(2.0, np.array([0.1, 0.0, 0.2]), np.diag([1.0, 1.5, 2.0])))


def hinge(name: str, parent: str | None, child: str, **settings: Any) -> Joint:
    axis = rotation(settings.pop("direction", (0.0, 0.6, 0.8)), **settings)
    return Joint(name=name, kind=JointKind.REVOLUTE, parent=parent, child=child, parent_pose=FRAME, axes=[axis])


def residual(written: Written, q: Array, *, distance: bool = False) -> float:
    """How much MuJoCo's constraints are violated."""
    model, data = written.model, mujoco.MjData(written.model)
    data.qpos[:] = q
    with quiet():
        mujoco.mj_forward(model, data)
    kinds = mujoco.mjtConstraint
    wanted = {int(kinds.mjCNSTR_LIMIT_TENDON)} if distance else {int(kinds.mjCNSTR_EQUALITY)}
    rows = [abs(p) for p, kind in zip(data.efc_pos, data.efc_type, strict=True) if int(kind) in wanted]
    return max(rows, default=0.0)


def freedom(written: Written, q: Array) -> int:
    """Degrees of freedom that the equality constraints leave."""
    model, data = written.model, mujoco.MjData(written.model)
    model.opt.jacobian = mujoco.mjtJacobian.mjJAC_DENSE
    data.qpos[:] = q
    with quiet():
        mujoco.mj_forward(model, data)
    rows = data.efc_J.reshape(-1, model.nv)[data.efc_type == int(mujoco.mjtConstraint.mjCNSTR_EQUALITY)]
    return model.nv - int(np.linalg.matrix_rank(rows, tol=1e-6))


# -- loops ------------------------------------------------------------------------------------------------------------

LOOPS: dict[str, tuple[JointKind, list[Axis], float]] = {
    "fixed": (JointKind.FIXED, [], 0.0),
    "spherical": (JointKind.SPHERICAL, spherical_axes(), 0.0),
    "spherical with a cone": (JointKind.SPHERICAL, spherical_axes(), 0.0),
    "hinge": (JointKind.CONTINUOUS, [rotation((0.0, 0.6, 0.8))], 0.0),
    "limited hinge": (JointKind.REVOLUTE, [rotation(Z, lower=-3.0, upper=3.0)], 0.0),
    "slide": (JointKind.PRISMATIC, [translation((0.0, 0.6, 0.8))], 0.0),
    "cylinder": (JointKind.CYLINDRICAL, [rotation(Z), translation(Z)], 0.0),
    "screw": (JointKind.SCREW, [rotation(Z)], 0.3),
    "universal": (JointKind.UNIVERSAL, [rotation((1.0, 0.0, 0.0)), rotation(Z)], 0.0),
    "planar": (JointKind.PLANAR, [translation((1, 0, 0)), translation((0, 1, 0)), rotation(Z)], 0.0),
    "six axes": (JointKind.SIX_AXIS, [translation((1, 0, 0)), rotation((0, 1, 0)), rotation(Z)], 0.0),
}


@pytest.mark.parametrize("name", LOOPS)
@pytest.mark.parametrize("closed", [True, False])
@pytest.mark.parametrize("to_world", [False, True])
def test_a_loop_allows_just_the_motion_of_its_joint(name: str, closed: bool, to_world: bool, tmp_path: Path) -> None:
    """Along the joint the constraints hold; across it they do not, and the right number of freedoms is left."""
    kind, axes, pitch = LOOPS[name]
    loop = Joint(name="loop", kind=kind, parent="a", child=None if to_world else "b", axes=axes, pitch=pitch)
    loop.parent_pose, loop.child_pose, loop.closes_loop = FRAME, OTHER, True
    if "cone" in name:
        loop.cone = ConeLimit(angle_y=3.0, angle_z=3.0, total=True)
    robot = Robot(name="r", links=[link("a"), link("b")], pose=FRAME, joints=[loop])
    for body in robot.links:
        joint = Joint(name=body.name, kind=JointKind.FREE, parent=None, child=body.name, axes=free_axes())
        if closed and body.name == "a":  # at the zero configuration the frames are in one place
            pose = OTHER @ FRAME.inverse()
            joint.initial = np.concatenate([pose.position, pose.quaternion])
        robot.joints.append(joint)
    written = write(robot, tmp_path)
    generator = np.random.default_rng(4)
    for _ in range(3):
        q = _random(loop, generator)
        values = {"loop": q, "b": robot.joint("b").rest, "a": robot.joint("a").rest}
        child = Pose() if to_world else robot.link_poses(values)["b"]
        held = robot.pose if to_world else child
        place = robot.pose.inverse() @ held @ OTHER @ joint_transform(loop, q).inverse() @ FRAME.inverse()
        values["a"] = np.concatenate([place.position, place.quaternion])
        state = positions(written, [values])
        assert_poses(written, [values])
        assert residual(written, state) < 1e-9
        # the body that carries a loop's joint brings its freedoms with it; the other body stays free
        assert freedom(written, state) == loop.n_dofs + 6
        off = dict(values) | {"a": values["a"] + np.array([0.1, 0.2, 0.3, 0.0, 0.0, 0.0, 0.0])}
        assert residual(written, positions(written, [off])) > 1e-3
    assert any(loss.name == "loop" for loss in written.report)


def _random(joint: Joint, generator: np.random.Generator) -> Array:
    q = generator.uniform(-1, 1, joint.n_qs)
    return q / np.linalg.norm(q) if joint.kind is JointKind.SPHERICAL else q


def test_a_distance_is_a_tendon_of_limited_length(tmp_path: Path) -> None:
    """Within its range nothing pulls; outside, the excess is the violation."""
    rope = Joint(name="rope", kind=JointKind.DISTANCE, parent=None, child="a", distance=(0.5, 2.0))
    free = Joint(name="free", kind=JointKind.FREE, parent=None, child="a", axes=free_axes())
    written = write(Robot(name="r", links=[link("a")], joints=[free, rope]), tmp_path)
    for x, wrong in ((1.0, 0.0), (2.5, 0.5), (0.1, 0.4)):
        q = positions(written, [{"free": np.array([x, 0, 0, 1, 0, 0, 0])}])
        assert residual(written, q, distance=True) == pytest.approx(wrong, abs=1e-12)


def test_a_distance_that_is_kept(tmp_path: Path) -> None:
    """A distance constraint is a tendon whose length is held."""
    robot = Robot(name="r", links=[link("a")], base=Base.FREE, pose=FRAME)
    robot.constraints = [Constraint(name="rod", kind=ConstraintKind.DISTANCE, a="a", pose_a=OTHER, distance=0.75)]
    written = write(robot, tmp_path)
    for distance in (0.75, 1.0):
        q = np.array([distance, 0, 0, 1, 0, 0, 0], dtype=float)
        q[:3] -= OTHER.position
        assert residual(written, q) == pytest.approx(abs(distance - 0.75), abs=1e-12)


# -- sleep ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [{}, {"stiffness": 3.0}, {"damping": 2.0}, {"friction": 1.0}], ids=str)
@pytest.mark.parametrize(
    ("kind", "ends"),
    [
        (TendonPathKind.JOINT, ("ja", "jb")),
        (TendonPathKind.JOINT, ("ja", "jaa")),
        (TendonPathKind.SITE, ("sa", "sb")),
        (TendonPathKind.SITE, ("sa", "base")),
    ],
)
def test_what_springy_tendons_tie_together_is_written_awake(
    kind: TendonPathKind, ends: tuple[str, str], settings: dict[str, float], tmp_path: Path
) -> None:
    """MuJoCo refuses a file where one of two trees may sleep that a spring or damper ties together; others sleep on."""
    links = [link(name) for name in ("a", "aa", "b", "c")]
    for asleep in (links[0], links[3]):
        asleep.starts_asleep = True
    held = (("ja", None, "a"), ("jaa", "a", "aa"), ("jb", None, "b"), ("jc", None, "c"))
    robot = Robot(name="r", links=links, joints=[hinge(*names) for names in held])
    robot.frames = [Frame(name="sa", link="a"), Frame(name="sb", link="b"), Frame(name="base", link=None, pose=OTHER)]
    path = [TendonPathItem(kind=kind, target=end) for end in ends]
    robot.tendons = [Tendon(name="t", path=path, **settings)]  # type: ignore[arg-type]
    written = write(robot, tmp_path)
    springs = bool(settings.keys() & {"stiffness", "damping"})
    tied = springs and ends[1] in ("jb", "sb")
    assert written.lost("how it sleeps") == (["a"] if tied else [])
    roots = [written.model.body_treeid[written.model.body(name).id] for name in ("a", "c")]
    init = int(mujoco.mjtSleepPolicy.mjSLEEP_INIT)
    assert [written.model.tree_sleep_policy[tree] == init for tree in roots] == [not tied, True]


# -- joints that follow others ----------------------------------------------------------------------------------------


def test_mimicry_holds_where_the_follower_follows(tmp_path: Path) -> None:
    """Multiplier, offset and reference of the description, and the reference coordinates of both axes."""
    lead = hinge("lead", None, "a", reference=0.3)
    follow = hinge("follow", "a", "b", reference=-0.2)
    follow.axes[0].mimic = Mimic(joint="lead", multiplier=-2.0, offset=0.7, reference=0.4)
    robot = Robot(name="r", links=[link("a"), link("b")], joints=[lead, follow])
    written = write(robot, tmp_path)
    for value in (-1.0, 0.0, 0.9):
        following = -2.0 * (value - 0.4) + 0.7
        values = {"lead": np.array([value]), "follow": np.array([following])}
        assert residual(written, positions(written, [values])) < 1e-12
        values["follow"] = values["follow"] + 0.1
        assert residual(written, positions(written, [values])) == pytest.approx(0.1)


def test_a_screw_travels_as_it_turns(tmp_path: Path) -> None:
    """Travel per revolution, from the reference coordinate on."""
    screw = Joint(name="s", kind=JointKind.SCREW, parent=None, child="a", axes=[rotation(Z, reference=0.5)], pitch=0.2)
    written = write(Robot(name="r", links=[link("a")], joints=[screw]), tmp_path)
    for turn in (0.5, 3.0):
        q = positions(written, [{"s": np.array([turn])}])
        assert residual(written, q) < 1e-12
        assert 0.2 * (turn - 0.5) / (2 * math.pi) in [pytest.approx(v) for v in q.tolist()]


@pytest.mark.parametrize("backwards", [False, True])
def test_a_gear_couples_two_hinges(backwards: bool, tmp_path: Path) -> None:
    """Link b turns by -ratio times what link a turns, each about the gear's axis, whichever way the hinges run."""
    axis = np.array([0.0, 0.6, 0.8])
    one, two = hinge("one", "base", "a"), hinge("two", "base", "b", direction=-axis)
    if backwards:
        one = Joint(
            name="one", kind=JointKind.REVOLUTE, parent="a", child="base", child_pose=FRAME, axes=[rotation(axis)]
        )
    robot = Robot(name="r", links=[link("base"), link("a"), link("b")], joints=[one, two], root="base", base=Base.FIXED)
    gear = Constraint(name="g", kind=ConstraintKind.GEAR, a="a", b="b", reference="base", ratio=3.0)
    gear.gear_axis_a = gear.gear_axis_b = axis
    robot.constraints = [gear]
    written = write(robot, tmp_path)
    turn_of_a = -0.2 if backwards else 0.2
    for off in (0.0, 0.1):
        # two runs against the gear's axis: it turns by +3 times for -3 about the axis
        values = {"one": np.array([0.2]), "two": np.array([3.0 * turn_of_a + off])}
        assert residual(written, positions(written, [values])) == pytest.approx(off, abs=1e-12)


# -- drives -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stiffness", [0.0, 40.0])
@pytest.mark.parametrize("damping", [0.0, 3.0])
@pytest.mark.parametrize("max_force", [math.inf, 0.5])
def test_a_drive_pulls_as_hard(stiffness: float, damping: float, max_force: float, tmp_path: Path) -> None:
    """The force of the actuator, with the control that the keyframe holds, is the drive's."""
    joint = hinge("j", None, "a", reference=0.3)
    drive = Drive(stiffness=stiffness, damping=damping, target_position=0.4, target_velocity=-0.2, max_force=max_force)
    joint.axes[0].drive = drive
    written = write(Robot(name="r", links=[link("a")], joints=[joint]), tmp_path)
    model, data = written.model, mujoco.MjData(written.model)
    if model.nkey:
        mujoco.mj_resetDataKeyframe(model, data, 0)
    for q, v in ((0.0, 0.0), (0.7, 0.3), (-1.0, 2.0)):
        data.qpos[:], data.qvel[:] = q, v
        mujoco.mj_forward(model, data)
        wanted = stiffness * (0.4 - q) + damping * (-0.2 - v)
        assert data.qfrc_actuator[0] == pytest.approx(min(max(wanted, -max_force), max_force), abs=1e-9)


def test_an_acceleration_drive_is_scaled_by_what_it_moves(tmp_path: Path) -> None:
    """At rest the acceleration that the actuator gives is nearly the one asked for; it is reported as nearly."""
    joint = hinge("j", None, "a")
    joint.axes[0].drive = Drive(stiffness=10.0, target_position=1.0, type=DriveType.ACCELERATION)
    robot = Robot(name="r", links=[link("a")], joints=[joint], gravity=np.zeros(3))
    written = write(robot, tmp_path)
    model, data = written.model, mujoco.MjData(written.model)
    mujoco.mj_resetDataKeyframe(model, data, 0)
    mujoco.mj_forward(model, data)
    assert data.qacc[0] == pytest.approx(10.0, rel=1e-9)
    assert written.lost("accelerations") == ["j"]


def test_drives_of_a_ball_act_on_its_rotation(tmp_path: Path) -> None:
    """For a turn about one axis the torque is that axis' drive, wherever the joint's frame is."""
    ball = Joint(name="ball", kind=JointKind.SPHERICAL, parent=None, child="a", parent_pose=FRAME, child_pose=OTHER)
    ball.axes = spherical_axes()
    for axis in ball.axes:
        axis.drive = Drive(stiffness=10.0)
    written = write(Robot(name="r", links=[link("a")], joints=[ball]), tmp_path)
    data = mujoco.MjData(written.model)
    data.qpos[:] = positions(written, [{"ball": np.array([math.cos(0.2), 0.0, math.sin(0.2), 0.0])}])
    mujoco.mj_forward(written.model, data)
    torque = OTHER.rotation.T @ data.qfrc_actuator
    np.testing.assert_allclose(torque, [0.0, -4.0, 0.0], atol=1e-9)


# -- states -----------------------------------------------------------------------------------------------------------


def test_mujoco_starts_where_the_description_does(tmp_path: Path) -> None:
    """Coordinates are in the reference configuration, velocities, which have no place there, in a keyframe."""
    joint = hinge("j", "a", "b")
    joint.initial = np.array([0.25])
    robot = Robot(name="r", links=[link("a"), link("b")], joints=[joint], base=Base.FREE, pose=FRAME)
    robot.links[0].linear_velocity = np.array([1.0, 2.0, 3.0])
    robot.links[0].angular_velocity = np.array([0.1, 0.2, 0.3])
    written = write(robot, tmp_path)
    model, data = written.model, mujoco.MjData(written.model)
    assert mujoco.mj_id2name(model, mujoco.mjtObj.mjOBJ_KEY, 0) == "initial"
    assert model.qpos0[7] == 0.25
    mujoco.mj_resetDataKeyframe(model, data, 0)
    mujoco.mj_forward(model, data)
    assert data.qpos[7] == 0.25
    velocity = np.zeros(6)
    mujoco.mj_objectVelocity(model, data, mujoco.mjtObj.mjOBJ_XBODY, 1, velocity, 0)
    np.testing.assert_allclose(velocity, [0.1, 0.2, 0.3, 1.0, 2.0, 3.0], atol=1e-12)
    assert {x.name for x in written.report.extensions} == {"a"}
