"""A scene, and `forward_kinematics({})`, start a robot where its file shows it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

import kinema as km
from kinema.core import Pose, collect
from kinema.description import Joint, JointKind, Link, Mimic, Robot, World, rotation
from kinema.read import read
from kit.assets import all_assets, asset_id, assets

from .mujoco_names import mujoco_joint

MJCF = [p for p in all_assets("mjcf/**/*.xml") if "<mujoco" in p.read_text(errors="replace")[:4000]]
USD = [
    "usd/conv_mjcf_cassie/cassie.usda",
    "usd/newton_assets_robotiq_2f85_v4/Dual_wrist_camera.usda",
    "usd/newton_tests/kamino/basics/boxes_nunchaku.usda",
    "usd/newton_tests/kamino/testing/joints/test_joint_d6_6dof_actuated.usda",
    "usd/newton_tests/kamino/testing/joints/test_joint_spherical_unary.usda",
    "usd/newton_examples/ant.usda",
]
SDF = [
    "sdf/double_pendulum/double_pendulum.sdf",
    "sdf/gz_simple_arm/simple_arm/model.sdf",
    "sdf/joint_complete/joint_complete.sdf",
]


def _built(described: Robot | World) -> tuple[km.Scene, Any]:
    scene = km.Scene(contacts=False, limits=False, constraints=False, precision="double", quiet=True)
    entity = scene.add(described)
    scene.build(2)
    return scene, entity


def _assert_links(entity: Any, described: Robot | World) -> None:
    """The scene's links are where the description starts them."""
    poses = described.link_poses({})
    place, turn = entity.get_links_pos()[-1], entity.get_links_quat()[-1]
    for number, link in enumerate(entity.links):
        found = Pose.from_quaternion(place[number], turn[number])
        assert max(found.distance(poses[link.name])) < 1e-9, link.name


# -- MJCF -------------------------------------------------------------------------------------------------------------


def _compiled(file: Path) -> Any:
    try:
        return mujoco.MjModel.from_xml_path(str(file))
    except ValueError as error:
        pytest.skip(f"MuJoCo does not take it by itself: {error}")


@pytest.mark.wide
@pytest.mark.parametrize("file", MJCF, ids=asset_id)
def test_mjcf_starts_at_qpos0(file: Path) -> None:
    """Kinematics, coordinates after building and after a reset, and link poses, are MuJoCo's at qpos0."""
    model, described = _compiled(file), read(file, policy=collect)
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    poses = described.link_poses({})
    for number in range(1, model.nbody):
        name = model.body(number).name
        if name in poses:
            theirs = Pose.from_quaternion(data.xpos[number], data.xquat[number])
            assert max(theirs.distance(poses[name])) < 1e-9, name
    scene, entity = _built(described)
    start = entity.get_qpos()
    for joint in entity.joints:
        first = int(mujoco_joint(model, joint).qposadr[0])
        wanted = model.qpos0[first : first + len(joint.qs_idx)]
        np.testing.assert_allclose(start[-1, list(joint.qs_idx)], wanted, atol=1e-12, err_msg=joint.name)
    assert entity.n_qs == model.nq
    _assert_links(entity, described)
    if entity.n_qs:
        entity.set_qpos(start + 0.25)
        scene.reset()
        np.testing.assert_array_equal(entity.get_qpos(), start)


def test_cassie_starts_within_its_limits() -> None:
    """Its knees start bent: at zero they would be outside of their limits, and its feet 10 cm away."""
    robot = read(assets("mjcf/agility_cassie/cassie.xml"), policy=collect)
    _, entity = _built(robot)
    for name in ("left-knee", "right-knee"):
        (number,) = entity.get_joint(name).qs_idx
        np.testing.assert_allclose(entity.get_qpos()[0, number], -np.pi / 4)


REFERENCES = """<mujoco><compiler angle="radian"/><worldbody>
<body name="a" pos="0.1 0 1"><joint name="lead" axis="0 1 0" ref="0.5" springref="0.2" stiffness="3"/>
<joint name="second" axis="1 0 0" pos="0.1 0.2 0" ref="-0.3"/><geom size=".1" pos=".3 0 0"/>
<body name="b" pos="0 0 -.5" euler=".1 .2 .3"><joint name="slides" type="slide" axis="0 0 1" ref="0.7"/>
<joint name="ball" type="ball" stiffness="2"/><geom size=".1" pos=".2 0 0"/></body></body>
<body name="c" pos="1 2 3" quat="0 1 0 0"><freejoint name="free"/><geom size=".1"/></body></worldbody>
<equality><joint name="kinema:mimic:second" joint1="second" joint2="lead" polycoef="0.25 2 0 0 0"/></equality></mujoco>
"""


def test_references_and_springs_are_mujocos(tmp_path: Path) -> None:
    """Several joints on a body, a follower with an offset, a ball and a free body; springs pull as MuJoCo's do."""
    file = tmp_path / "robot.xml"
    file.write_text(REFERENCES)
    model, described = _compiled(file), read(file, policy=collect)
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    poses = described.link_poses({})
    for name in ("a", "b", "c"):
        theirs = Pose.from_quaternion(data.body(name).xpos, data.body(name).xquat)
        assert max(theirs.distance(poses[name])) < 1e-12
    _, entity = _built(described)
    qpos = {j.name: entity.get_qpos()[0, list(j.qs_idx)] for j in entity.joints}
    for name, value in qpos.items():
        first = int(model.joint(name).qposadr[0])
        np.testing.assert_allclose(value, model.qpos0[first : first + len(value)], atol=1e-12)
    _assert_links(entity, described)
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_EQUALITY
    mujoco.mj_forward(model, data)
    force = {j.name: entity.get_dofs_force(list(j.dofs_idx))[0] for j in entity.joints}
    total = data.qfrc_passive - data.qfrc_bias
    for name, value in force.items():
        first = int(model.joint(name).dofadr[0])
        np.testing.assert_allclose(value, total[first : first + len(value)], atol=1e-9, err_msg=name)
    # its leader moves: the follower goes with it, from both references
    moved = described.link_poses({"lead": 0.6})
    again = described.link_poses({"lead": 0.6, "second": -0.3 + 0.25 + 2 * 0.1})
    assert max(moved["a"].distance(again["a"])) < 1e-12


# -- USD --------------------------------------------------------------------------------------------------------------


def _robots(described: Robot | World) -> list[Robot]:
    return described.robots if isinstance(described, World) else [described]


@pytest.mark.parametrize("file", USD)
def test_usd_starts_as_the_stage_is_posed(file: str) -> None:
    """Links are at the poses that the stage authors, in the description and in a scene."""
    described = read(assets(file), policy=collect)
    for robot in _robots(described):
        poses = robot.link_poses({})
        for link in robot.links:
            assert link.pose is not None
            assert max((robot.pose @ link.pose).distance(poses[link.name])) < 1e-5, link.name
    _, entity = _built(described)
    _assert_links(entity, described)


STAGE = """#usda 1.0
(metersPerUnit = 1
upAxis = "Z")
def Xform "base" (prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsMassAPI", "PhysicsArticulationRootAPI"])
{{
   float physics:mass = 1
}}
def Xform "arm" (prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsMassAPI"])
{{
   float physics:mass = 1
   quatf xformOp:orient = ({half_cosine}, 0, 0, {half_sine})
   uniform token[] xformOpOrder = ["xformOp:orient"]
}}
def PhysicsRevoluteJoint "turn" (prepend apiSchemas = ["PhysicsJointStateAPI:angular"])
{{
   rel physics:body0 = </base>
   rel physics:body1 = </arm>
   uniform token physics:axis = "Z"
   {more}
}}
"""


def _turned(tmp_path: Path, degrees: float, more: str) -> Robot:
    file = tmp_path / "stage.usda"
    half = np.radians(degrees) / 2
    file.write_text(STAGE.format(half_cosine=np.cos(half), half_sine=np.sin(half), more=more))
    described = read(file, policy=collect)
    assert isinstance(described, Robot)
    return described


def test_a_joint_state_says_how_often_the_joint_has_turned(tmp_path: Path) -> None:
    """Poses repeat with every turn, the state of the joint does not."""
    robot = _turned(tmp_path, 30.0, "float state:angular:physics:position = 390")
    np.testing.assert_allclose(robot.joint("turn").start, np.radians(390.0), atol=1e-6)
    assert "usd.joint-state" not in robot.diagnostics.codes()


def test_limits_say_how_often_the_joint_has_turned(tmp_path: Path) -> None:
    """Without a state: a turn more, if only that is inside of the limits."""
    robot = _turned(tmp_path, -100.0, "float physics:lowerLimit = 200\n float physics:upperLimit = 300")
    np.testing.assert_allclose(robot.joint("turn").start, np.radians(260.0), atol=1e-6)


def test_poses_win_over_a_joint_state_that_disagrees(tmp_path: Path) -> None:
    """What the stage shows is where the robot is; that the numbers say otherwise is a warning."""
    robot = _turned(tmp_path, 30.0, "float state:angular:physics:position = 60")
    np.testing.assert_allclose(robot.joint("turn").start, np.radians(30.0), atol=1e-6)
    assert "usd.joint-state" in robot.diagnostics.codes()


# -- SDFormat, URDF ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("file", SDF)
def test_sdf_starts_as_posed_or_as_it_says(file: str) -> None:
    """Links are at the poses of the file, but for what hangs on joints with an initial position."""
    described = read(assets(file), policy=collect)
    for robot in _robots(described):
        poses = robot.link_poses({})
        moved = {e.child for e in robot.tree().edges if any(j.initial is not None for j in e.joints)}
        for link in robot.links:
            assert link.pose is not None
            if not moved:
                assert max((robot.pose @ link.pose).distance(poses[link.name])) < 1e-9, link.name
        said = {j.name: j.initial for j in robot.joints if j.initial is not None}
        zero = {j.name: j.rest for j in robot.joints if j.n_qs}
        for name, pose in robot.link_poses({**zero, **said}).items():
            assert max(pose.distance(poses[name])) < 1e-9, name
    _, entity = _built(_heavy(described))
    _assert_links(entity, described)


def _heavy(described: Robot | World) -> Robot | World:
    """With rotors in the joints, so that it can be simulated whatever moves what."""
    for axis in (a for joint in described.joints for a in joint.axes):
        axis.armature = 1.0
    return described


def test_an_initial_position_of_sdf_is_in_the_scene() -> None:
    """The only one that means something: a revolute joint has one axis."""
    described = read(assets("sdf/joint_complete/joint_complete.sdf"), policy=collect)
    _, entity = _built(_heavy(described))
    (number,) = entity.get_joint("revolute_joint").qs_idx
    assert entity.get_qpos()[0, number] == 0.5


def test_a_follower_starts_with_its_leader() -> None:
    """URDF: the leader is at zero, and the follower where that puts it, in the description and in a scene."""
    links = [Link(name=n) for n in ("base", "a", "b")]
    lead = Joint(name="lead", kind=JointKind.CONTINUOUS, parent="base", child="a", axes=[rotation((0, 0, 1))])
    follow = Joint(name="follow", kind=JointKind.CONTINUOUS, parent="base", child="b", axes=[rotation((0, 0, 1))])
    follow.axes[0].mimic = Mimic(joint="lead", multiplier=2.0, offset=0.3)
    robot = Robot(name="r", links=links, joints=[follow, lead])
    _heavy(robot)
    assert robot.link_poses({})["b"].is_close(robot.link_poses({"follow": 0.3})["b"])
    _, entity = _built(robot)
    np.testing.assert_allclose(entity.get_qpos()[0], [0.3, 0.0])
    _assert_links(entity, robot)


FOLLOWERS = """<sdf version="1.11"><model name="m"><link name="base"/><link name="a"/><link name="b"/><link name="c"/>
<joint name="held" type="fixed"><parent>world</parent><child>base</child></joint>
<joint name="lead" type="revolute"><parent>base</parent><child>a</child><axis><xyz>0 0 1</xyz>{start}</axis></joint>
<joint name="next" type="revolute"><parent>base</parent><child>b</child><axis><xyz>0 0 1</xyz>
<mimic joint="lead"><multiplier>2</multiplier><offset>0.5</offset><reference>0</reference></mimic></axis></joint>
<joint name="last" type="revolute"><parent>base</parent><child>c</child><axis><xyz>0 0 1</xyz>
<mimic joint="next"><multiplier>1</multiplier><offset>0.1</offset><reference>0</reference></mimic></axis></joint>
</model></sdf>"""


@pytest.mark.parametrize(
    ("start", "at"),
    [
        ("", {"lead": 0.0, "next": 0.0, "last": 0.0}),
        ("<kinema:initial_position>0.25</kinema:initial_position>", {"lead": 0.25, "next": 1.0, "last": 1.1}),
    ],
)
def test_followers_of_sdf_stand_as_posed_unless_their_leader_starts_elsewhere(
    start: str, at: dict[str, float], tmp_path: Path
) -> None:
    """The poses of the file show every joint at zero; a follower of one that starts elsewhere goes with it."""
    file = tmp_path / "m.sdf"
    file.write_text(FOLLOWERS.format(start=start).replace("<sdf", '<sdf xmlns:kinema="urn:kinema"'))
    robot = read(file, policy=collect)
    assert isinstance(robot, Robot)
    assert not [d for d in robot.diagnostics if d.severity is km.Severity.ERROR]
    wanted = robot.link_poses(at)
    for name, pose in robot.link_poses({}).items():
        assert max(pose.distance(wanted[name])) < 1e-12, name
    moved, named = robot.link_poses({"lead": 0.3}), robot.link_poses({"lead": 0.3, "next": 1.1, "last": 1.2})
    for name, pose in moved.items():
        assert max(pose.distance(named[name])) < 1e-12, name
