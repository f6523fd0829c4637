"""How joints, bases and names become URDF."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path

import mujoco
import numpy as np
import pytest

import kinema
from kinema.core import Pose, WriteError
from kinema.description import (
    Base,
    Constraint,
    ConstraintKind,
    Frame,
    Joint,
    JointKind,
    Link,
    Mimic,
    Robot,
    Shape,
    Sphere,
    World,
    free_axes,
    rotation,
    translation,
)
from kit.robots import small_robots
from kit.robots.same import agree
from kit.written.urdf import Written, check_urdf

body = partial(small_robots.body, mass=2.0, center=(0.1, 0.0, 0.2), inertia=0.3)


def _pair(joint: Joint, **settings: object) -> Robot:
    """Two links and the joint between them."""
    joint.name, joint.parent, joint.child = joint.name or "j", "a", "b"
    return Robot(name="pair", links=[body("a"), body("b")], joints=[joint], **settings)  # type: ignore[arg-type]


def _joint(kind: JointKind, **settings: object) -> Joint:
    return Joint(kind=kind, parent=None, child=None, **settings)  # type: ignore[arg-type]


def _read(written: Written) -> Robot:
    robot = kinema.read(written.file)
    assert isinstance(robot, Robot)
    return robot


# -- frames -----------------------------------------------------------------------------------------------------------


def test_a_joint_on_the_axis_needs_no_link_between(tmp_path: Path) -> None:
    """Wherever on its axis the child's origin is, and however the child is turned."""
    along = Pose.from_rpy((0, 0, 0.7), (0.1, 0.2, 0.3))
    written = Written.make(
        _pair(_joint(JointKind.REVOLUTE, axes=[rotation((0, 0, 1), lower=-1, upper=1)], child_pose=along.inverse())),
        tmp_path,
    )
    assert [link.name for link in _read(written).links] == ["a", "b"]


def test_a_joint_beside_the_origin_gets_a_link_without_mass(tmp_path: Path) -> None:
    """The link keeps its own frame, and no mass is made up."""
    robot = _pair(_joint(JointKind.CONTINUOUS, axes=[rotation((0, 0, 1))], child_pose=Pose.translation((1, 0, 0))))
    written = Written.make(robot, tmp_path)
    again = _read(written)
    assert [link.name for link in again.links] == ["a", "j_frame", "b"]
    assert again.link("j_frame").inertial is None
    assert again.total_mass == robot.total_mass
    assert [x.name for x in written.report] == ["j_frame"]


def test_a_slide_beside_the_origin_needs_no_link_between(tmp_path: Path) -> None:
    """Nothing turns, so that any point of the child moves alike."""
    pose = Pose.from_rpy((1, 2, 3), (1, 2, 3))
    joint = _joint(JointKind.PRISMATIC, axes=[translation((0, 0, 1), lower=0, upper=1)], child_pose=pose)
    assert len(_read(Written.make(_pair(joint), tmp_path)).links) == 2


def test_the_reference_coordinate_is_in_the_origin(tmp_path: Path) -> None:
    """Coordinates and limits stay what they are."""
    joint = _joint(JointKind.REVOLUTE, axes=[rotation((0, 0, 1), lower=0.5, upper=2.0, reference=1.0)])
    robot = _pair(joint)
    again = _read(Written.make(robot, tmp_path))
    axis = again.joint("j").axes[0]
    assert (axis.lower, axis.upper, axis.reference) == (0.5, 2.0, 0.0)
    for q in (0.0, 1.0, -2.0):
        agree(again.forward_kinematics({"j": q}), robot.forward_kinematics({"j": q}), 1e-12)


# -- kinds ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lead", ["", "leader"])
def test_a_screw_is_a_turn_and_a_travel_that_follows_it(tmp_path: Path, lead: str) -> None:
    """The travel follows what the turn follows, because few programs understand followers of followers."""
    screw = _joint(JointKind.SCREW, axes=[rotation((0, 0, 1), lower=-3, upper=3, velocity=2.0)], pitch=0.5)
    robot = _pair(screw)
    if lead:
        robot.links.append(body("c"))
        robot.joints.append(
            Joint(name=lead, kind=JointKind.CONTINUOUS, parent="a", child="c", axes=[rotation((1, 0, 0))])
        )
        screw.axes[0].mimic = Mimic(joint=lead, multiplier=2.0, offset=0.1)
    written = Written.make(robot, tmp_path)
    again = _read(written)
    travel = again.joint("j_travel").axes[0]
    per_radian = 0.5 / (2 * math.pi)
    assert travel.mimic is not None
    expected = (lead, 2 * per_radian, 0.1 * per_radian) if lead else ("j", per_radian, 0.0)
    assert (travel.mimic.joint, travel.mimic.multiplier, travel.mimic.offset) == pytest.approx(expected)
    assert (travel.lower, travel.upper, travel.velocity) == pytest.approx(
        (-3 * per_radian, 3 * per_radian, 1 / math.tau)
    )
    configuration = {lead: 0.4} if lead else {"j": 0.4}
    agree(again.forward_kinematics(configuration), robot.forward_kinematics(configuration), 1e-12)
    check_urdf(written.file)


def test_a_chain_has_links_of_little_mass(tmp_path: Path) -> None:
    """MuJoCo and Gazebo want a mass of everything that moves; the report says how much it is."""
    robot = _pair(_joint(JointKind.UNIVERSAL, axes=[rotation((1, 0, 0)), rotation((0, 1, 0))]))
    written = Written.make(robot, tmp_path)
    again = _read(written)
    assert [j.name for j in again.joints] == ["j_rotation_1", "j_rotation_2"]
    assert again.total_mass == pytest.approx(robot.total_mass + 2e-6, rel=1e-12)
    assert any("2e-06 kg" in x for x in written.losses("j"))


def test_a_planar_joint_is_one_where_its_plane_is_that_of_the_link(tmp_path: Path) -> None:
    """Otherwise, or with limits, it is a chain."""
    axes = [translation((1, 0, 0)), translation((0, 1, 0)), rotation((0, 0, 1))]
    flat = Written.make(_pair(_joint(JointKind.PLANAR, axes=axes)), tmp_path / "flat")
    assert _read(flat).joint("j").kind is JointKind.PLANAR
    turned = Pose.from_rpy((0, 0, 0), (0, 1, 0))
    tilted = Written.make(_pair(_joint(JointKind.PLANAR, axes=axes, child_pose=turned)), tmp_path / "tilted")
    assert [j.kind.value for j in _read(tilted).joints] == ["prismatic", "prismatic", "continuous"]
    axes[0].upper = 1.0
    limited = Written.make(_pair(_joint(JointKind.PLANAR, axes=axes)), tmp_path / "limited")
    assert len(_read(limited).joints) == 3


def test_a_joint_that_cannot_move_is_fixed(tmp_path: Path) -> None:
    """All its axes are locked, or have no direction."""
    axis = rotation((0, 0, 1))
    axis.locked = True
    for number, one in enumerate((axis, rotation((0, 0, 0)))):
        written = Written.make(_pair(_joint(JointKind.REVOLUTE, axes=[one])), tmp_path / str(number))
        assert _read(written).joint("j").kind is JointKind.FIXED
        assert written.losses("j")


# -- limits and followers ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limits", "kind", "reported"),
    [
        ({}, JointKind.CONTINUOUS, False),
        ({"effort": 1.0, "velocity": 2.0}, JointKind.CONTINUOUS, False),
        ({"effort": 1.0}, JointKind.CONTINUOUS, True),
        ({"lower": -1.0, "upper": 1.0}, JointKind.REVOLUTE, True),
        ({"lower": -1.0, "upper": 1.0, "effort": 3.0, "velocity": 4.0}, JointKind.REVOLUTE, False),
        ({"upper": 1.0, "effort": 3.0, "velocity": 4.0}, JointKind.REVOLUTE, True),
    ],
)
def test_limits_come_back(tmp_path: Path, limits: dict[str, float], kind: JointKind, reported: bool) -> None:
    """Absent ones too, which URDF has no word for: the report says so, because other programs see a number."""
    written = Written.make(_pair(_joint(JointKind.REVOLUTE, axes=[rotation((0, 0, 1), **limits)])), tmp_path)
    joint = _read(written).joint("j")
    defaults = {"lower": -math.inf, "upper": math.inf, "effort": math.inf, "velocity": math.inf}
    assert {n: getattr(joint.axes[0], n) for n in defaults} == defaults | limits
    assert joint.kind is kind
    assert bool(written.losses("j")) is reported
    check_urdf(written.file)


def test_a_follower_follows_the_right_coordinate(tmp_path: Path) -> None:
    """The second axis of a chain, with the reference of the leader in the offset."""
    robot = _pair(_joint(JointKind.CYLINDRICAL, axes=[rotation((0, 0, 1)), translation((0, 0, 1))]))
    robot.links.append(body("c"))
    follower = Joint(name="k", kind=JointKind.CONTINUOUS, parent="b", child="c", axes=[rotation((1, 0, 0))])
    follower.axes[0].mimic = Mimic(joint="j", axis=1, multiplier=2.0, offset=1.0, reference=0.25)
    robot.joints.append(follower)
    mimic = _read(Written.make(robot, tmp_path)).joint("k").axes[0].mimic
    assert mimic is not None
    assert (mimic.joint, mimic.multiplier, mimic.offset) == ("j_translation", 2.0, 0.5)


def test_a_straight_constraint_between_joints_is_mimicry(tmp_path: Path) -> None:
    """A bent one is not."""
    robot = _pair(_joint(JointKind.PRISMATIC, axes=[translation((1, 0, 0), lower=0, upper=1)]))
    robot.links.append(body("c"))
    robot.joints.append(Joint(name="k", kind=JointKind.PRISMATIC, parent="a", child="c", axes=[translation((0, 1, 0))]))
    robot.constraints = [
        Constraint(name="equal", kind=ConstraintKind.JOINT, a="k", b="j", polynomial=(0.1, -1.0, 0.0, 0.0, 0.0))
    ]
    written = Written.make(robot, tmp_path / "straight")
    mimic = _read(written).joint("k").axes[0].mimic
    assert mimic is not None
    assert (mimic.joint, mimic.multiplier, mimic.offset) == ("j", -1.0, 0.1)
    assert [x.action.value for x in written.report if x.name == "equal"] == ["approximated"]
    robot.constraints[0].polynomial = (0.0, 1.0, 0.5, 0.0, 0.0)
    bent = Written.make(robot, tmp_path / "bent")
    assert _read(bent).joint("k").axes[0].mimic is None
    assert [x.action.value for x in bent.report if x.name == "equal"] == ["dropped"]


# -- bases ------------------------------------------------------------------------------------------------------------


def test_a_robot_that_stands_elsewhere_hangs_on_a_link_called_world(tmp_path: Path) -> None:
    """So that its links are where they were."""
    robot = _pair(_joint(JointKind.FIXED), pose=Pose.translation((1, 2, 3)))
    again = _read(Written.make(robot, tmp_path))
    assert [link.name for link in again.links] == ["world", "a", "b"]
    agree(again.forward_kinematics(), robot.forward_kinematics(), 1e-12)


@pytest.mark.parametrize("with_joint", [False, True])
def test_a_free_base_is_the_root_unless_asked(tmp_path: Path, with_joint: bool) -> None:
    """URDF leaves it to its reader what holds the root; a floating joint on a link `world` can say it."""
    robot = _pair(_joint(JointKind.FIXED))
    if with_joint:
        free = Joint(name="free", kind=JointKind.FREE, parent=None, child="a", axes=free_axes())
        free.initial = np.array([0.0, 0.0, 2.0, 1.0, 0.0, 0.0, 0.0])
        robot.joints.append(free)
    else:
        robot.base, robot.links[0].pose = Base.FREE, Pose.translation((0, 0, 2))
    written = Written.make(robot, tmp_path / "auto")
    assert [link.name for link in _read(written).links] == ["a", "b"]
    assert written.losses("free" if with_joint else "pair")
    assert any("where it stands, 0 0 2" in x for x in written.losses("pair"))
    asked = _read(Written.make(robot, tmp_path / "world", base="world"))
    assert [j.kind for j in asked.joints if j.parent == "world"] == [JointKind.FREE]
    agree(asked.forward_kinematics(), robot.forward_kinematics(), 1e-12)


def test_several_roots_hang_on_one_world(tmp_path: Path) -> None:
    """URDF has one root; of a link that is called `world`, and is not, MuJoCo would take the joint for a mistake."""
    robot = Robot(name="r", links=[body("world"), body("b")], base=Base.FREE)
    written = Written.make(robot, tmp_path)
    assert [link.name for link in _read(written).links] == ["world", "world_1", "b"]
    assert any("its name" in loss for loss in written.losses("world"))
    check_urdf(written.file)
    assert mujoco.MjModel.from_xml_path(str(written.file)).nbody == 3
    again = Written.make(Robot(name="r", links=[Link(name="world")]), tmp_path / "alone")
    assert [link.name for link in _read(again).links] == ["world"]


def test_frames_become_links_when_asked(tmp_path: Path) -> None:
    """A link without mass and a fixed joint, which is how URDF names a place."""
    robot = _pair(_joint(JointKind.FIXED), frames=[Frame(name="tip", link="b", pose=Pose.translation((0, 0, 1)))])
    assert Written.make(robot, tmp_path / "without").losses("tip")
    written = Written.make(robot, tmp_path / "with", frames=True)
    assert written.losses("tip") == []
    np.testing.assert_allclose(_read(written).forward_kinematics()["tip"][:3, 3], (0, 0, 1))


# -- worlds, names, errors --------------------------------------------------------------------------------------------


def test_the_one_robot_of_a_world_is_written(tmp_path: Path) -> None:
    """Scenery is named in the report."""
    ground = Robot(name="ground", links=[Link(name="g")], static=True)
    world = World(robots=[ground, _pair(_joint(JointKind.FIXED))], shapes=[Shape(name="ball", geometry=Sphere(1.0))])
    written = Written.make(world, tmp_path)
    assert _read(written).name == "pair"
    assert written.losses("ground")
    assert written.losses("ball")


def test_one_of_several_robots_must_be_chosen(tmp_path: Path) -> None:
    """The error names them."""
    world = World(robots=[Robot(name=n, links=[Link(name=n)]) for n in ("one", "two")])
    with pytest.raises(WriteError, match='"one", "two"; say which'):
        Written.make(world, tmp_path)
    with pytest.raises(WriteError, match='no robot "three"'):
        Written.make(world, tmp_path, robot="three")
    assert _read(Written.make(world, tmp_path, robot="two")).name == "two"


def test_names_that_xml_cannot_hold_are_changed_and_reported(tmp_path: Path) -> None:
    """Control characters are the only ones; everything else stays as it is."""
    names = ["bell\x07", "bell_", 'quote " & < >', "new\nline", "été 😀"]
    robot = Robot(name="n", links=[Link(name=n) for n in names])
    robot.joints = [Joint(name=n, kind=JointKind.FIXED, parent=names[0], child=n) for n in names[1:]]
    written = Written.make(robot, tmp_path)
    assert [link.name for link in _read(written).links] == ["bell_", "bell__1", *names[2:]]
    assert [x.name for x in written.report] == ["bell\x07", "bell_"]


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_what_is_no_number_is_refused_by_name(tmp_path: Path, value: float) -> None:
    """And nothing is left behind."""
    robot = _pair(_joint(JointKind.FIXED, parent_pose=Pose.translation((value, 0, 0))))
    with pytest.raises(WriteError, match='joint "j": its position is'):
        Written.make(robot, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_wrong_options_and_empty_robots_are_refused(tmp_path: Path) -> None:
    """With what would be right."""
    with pytest.raises(WriteError, match="no links"):
        Written.make(Robot(name="empty"), tmp_path)
    with pytest.raises(WriteError, match="no robot in this world"):
        Written.make(World(), tmp_path)
    with pytest.raises(WriteError, match="'copy', 'bake', 'reference'"):
        Written.make(_pair(_joint(JointKind.FIXED)), tmp_path, meshes="all")
