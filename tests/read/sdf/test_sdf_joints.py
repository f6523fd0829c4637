"""Joints of every type: axes, limits, what holds them, and what follows what."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

from kinema.core import Pose
from kinema.description import AxisMotion, Base, ConstraintKind, JointKind, Robot
from kit.diagnostics import ClaimedDiagnostics

from .sdf_support import assert_close, model, read_robot, read_world, world

_LINKS = '<link name="a"/><link name="b"><pose>0 0 1 0 0 0</pose></link>'


def _joint(kind: str, inside: str = "", *, parent: str = "a", child: str = "b", name: str = "j") -> str:
    return f'<joint name="{name}" type="{kind}"><parent>{parent}</parent><child>{child}</child>{inside}</joint>'


def _axis(inside: str = "", tag: str = "axis", xyz: str = "0 0 1") -> str:
    return f"<{tag}><xyz>{xyz}</xyz>{inside}</{tag}>"


def _read(
    folder: Path, diagnostics: ClaimedDiagnostics | None, kind: str, inside: str = "", version: str = "1.12"
) -> Robot:
    return read_robot(folder, model(_LINKS + _joint(kind, inside), version=version), diagnostics)


@pytest.mark.parametrize(
    ("kind", "expected", "n_axes"),
    [
        ("revolute", JointKind.REVOLUTE, 1),
        ("continuous", JointKind.CONTINUOUS, 1),
        ("prismatic", JointKind.PRISMATIC, 1),
        ("fixed", JointKind.FIXED, 0),
        ("ball", JointKind.SPHERICAL, 3),
        ("universal", JointKind.UNIVERSAL, 2),
        ("revolute2", JointKind.UNIVERSAL, 2),
        ("screw", JointKind.SCREW, 1),
        ("Revolute", JointKind.REVOLUTE, 1),
    ],
)
def test_every_type_of_joint(
    tmp_path: Path, diagnostics: ClaimedDiagnostics, kind: str, expected: JointKind, n_axes: int
) -> None:
    """The type becomes a kind, and the type as written is remembered."""
    axes = "" if n_axes in (0, 3) else _axis() + (_axis(tag="axis2", xyz="1 0 0") if n_axes == 2 else "")
    joint = _read(tmp_path, diagnostics, kind, axes).joint("j")
    assert joint.kind is expected
    assert len(joint.axes) == n_axes
    assert joint.attributes["sdf:type"] == kind.lower()
    motion = AxisMotion.TRANSLATION if expected is JointKind.PRISMATIC else AxisMotion.ROTATION
    assert all(a.motion is motion for a in joint.axes)


@pytest.mark.parametrize("kind", ["floating", "", "planar"])
def test_an_unknown_type_is_an_error(tmp_path: Path, diagnostics: ClaimedDiagnostics, kind: str) -> None:
    """It is read as a fixed joint, so that the robot stays in one piece."""
    assert _read(tmp_path, diagnostics, kind).joint("j").kind is JointKind.FIXED
    assert '"j"' in diagnostics.claim("sdf.joint-type").message


def test_the_joint_turns_about_its_own_frame(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """A joint's pose is given in its child; the child turns about that point, not about its own origin."""
    robot = _read(tmp_path, diagnostics, "revolute", "<pose>1 0 0 0 0 0</pose>" + _axis())
    joint = robot.joint("j")
    assert_close(joint.child_pose.position, [1, 0, 0])
    assert_close(joint.parent_pose.position, [1, 0, 1])
    assert_close(robot.link_poses({"j": math.pi / 2})["b"].position, [1, -1, 1])


# -- axes and limits ---------------------------------------------------------------------------------------------------


def test_limits_and_dynamics(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Every number of an axis lands in its place."""
    inside = _axis(
        "<limit><lower>-1</lower><upper>2</upper><effort>3</effort><velocity>4</velocity>"
        "<stiffness>5</stiffness><dissipation>6</dissipation></limit>"
        "<dynamics><damping>7</damping><friction>8</friction><spring_reference>9</spring_reference>"
        "<spring_stiffness>10</spring_stiffness></dynamics>",
        xyz="0 3 4",
    )
    joint = _read(tmp_path, diagnostics, "revolute", inside).joint("j")
    (axis,) = joint.axes
    assert (axis.lower, axis.upper, axis.effort, axis.velocity) == (-1, 2, 3, 4)
    assert (axis.damping, axis.friction, axis.spring_reference, axis.stiffness) == (7, 8, 9, 10)
    assert_close(axis.direction, [0, 0.6, 0.8])
    assert joint.attributes["sdf:axis_limit_stiffness"] == 5
    assert joint.attributes["sdf:axis_limit_dissipation"] == 6


@pytest.mark.parametrize("version", ["1.4", "1.6", "1.9", "1.10", "1.12"])
@pytest.mark.parametrize(
    "limit",
    [
        "",
        "<limit/>",
        "<limit><lower>-1e16</lower><upper>1e16</upper><effort>-1</effort><velocity>-1</velocity></limit>",
        "<limit><lower>-inf</lower><upper>inf</upper><effort>inf</effort><velocity>inf</velocity></limit>",
        "<limit><lower>-1e+20</lower><upper>1e20</upper></limit>",
    ],
)
def test_no_limit_is_infinity(tmp_path: Path, diagnostics: ClaimedDiagnostics, version: str, limit: str) -> None:
    """Absent limits, the old 1e16 and -1, and infinities all mean the same."""
    (axis,) = _read(tmp_path, diagnostics, "revolute", _axis(limit), version).joint("j").axes
    assert (axis.lower, axis.upper, axis.effort, axis.velocity) == (-math.inf, math.inf, math.inf, math.inf)


def test_a_continuous_joint_has_no_limits(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Whatever its axis says; but its effort is limited."""
    inside = _axis("<limit><lower>-1</lower><upper>1</upper><effort>2</effort></limit>")
    (axis,) = _read(tmp_path, diagnostics, "continuous", inside).joint("j").axes
    assert (axis.lower, axis.upper, axis.effort) == (-math.inf, math.inf, 2)


@pytest.mark.parametrize("version", ["1.4", "1.5", "1.6", "1.7", "1.12"])
def test_old_versions_put_the_axis_into_the_model_frame(
    tmp_path: Path, diagnostics: ClaimedDiagnostics, version: str
) -> None:
    """In 1.4 always, since 1.5 only if asked for: the same text means two things."""
    turned = '<link name="a"/><link name="b"><pose>0 0 0 0 0 1.5707963267948966</pose></link>'
    text = model(turned + _joint("revolute", _axis(xyz="1 0 0")), version=version)
    (axis,) = read_robot(tmp_path, text, diagnostics).joint("j").axes
    assert_close(axis.direction, [0, -1, 0] if version == "1.4" else [1, 0, 0])


def test_an_axis_that_is_missing_or_zero(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Both are reported, and z is assumed."""
    assert_close(_read(tmp_path, diagnostics, "revolute").joint("j").axes[0].direction, [0, 0, 1])
    diagnostics.claim("sdf.missing-axis")
    assert_close(_read(tmp_path, diagnostics, "prismatic", _axis(xyz="0 0 0")).joint("j").axes[0].direction, [0, 0, 1])
    diagnostics.claim("sdf.zero-axis")


def test_an_axis_without_meaning_is_noted(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """A fixed joint has no axes; a ball joint takes the damping written in one."""
    assert _read(tmp_path, diagnostics, "fixed", _axis()).joint("j").axes == []
    assert "sdf.unused-axis" in diagnostics.codes()
    inside = _axis("<dynamics><damping>2</damping><friction>3</friction></dynamics>")
    ball = _read(tmp_path, diagnostics, "ball", inside).joint("j")
    assert [(a.damping, a.friction) for a in ball.axes] == [(2, 3)] * 3


def test_an_initial_position_is_where_the_joint_starts(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """The links are posed at zero, and the joint starts elsewhere."""
    robot = _read(tmp_path, diagnostics, "revolute", _axis("<initial_position>0.5</initial_position>"), "1.6")
    assert robot.joint("j").start == [0.5]
    assert robot.joint("j").rest == [0.0]
    assert "sdf.initial-position" in diagnostics.codes()
    assert_close(robot.link_poses({"j": 0.0})["b"].rotation, np.eye(3))
    assert_close(robot.link_poses()["b"].rotation, robot.link_poses({"j": 0.5})["b"].rotation)


# -- screws ------------------------------------------------------------------------------------------------------------


@given(pitch=st.floats(-100, 100).filter(lambda x: abs(x) > 1e-3), angle=st.floats(-10, 10))
def test_both_kinds_of_thread_pitch(tmp_path_factory: pytest.TempPathFactory, pitch: float, angle: float) -> None:
    """The old one is radians per metre, left-handed; the new one metres per revolution, right-handed."""
    folder = tmp_path_factory.mktemp("sdf")
    old = _read(folder, None, "screw", _axis() + f"<thread_pitch>{pitch!r}</thread_pitch>", "1.9")
    assert_close(old.link_poses({"j": angle})["b"].position, [0, 0, 1 - angle / pitch], 1e-6)
    new = _read(folder, None, "screw", _axis() + f"<screw_thread_pitch>{pitch!r}</screw_thread_pitch>")
    assert_close(new.link_poses({"j": angle})["b"].position, [0, 0, 1 + pitch * angle / (2 * math.pi)], 1e-6)


def test_screw_defaults(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """The default changed with the unit; where both are given the new one counts."""
    assert _read(tmp_path, diagnostics, "screw", _axis(), "1.9").joint("j").pitch == pytest.approx(-2 * math.pi)
    assert _read(tmp_path, diagnostics, "screw", _axis(), "1.10").joint("j").pitch == 1.0
    both = _axis() + "<thread_pitch>5</thread_pitch><screw_thread_pitch>0.2</screw_thread_pitch>"
    assert _read(tmp_path, diagnostics, "screw", both).joint("j").pitch == 0.2
    zero = _read(tmp_path, diagnostics, "screw", _axis() + "<thread_pitch>0</thread_pitch>", "1.9")
    assert math.isfinite(zero.joint("j").pitch)
    diagnostics.claim("sdf.thread-pitch")


# -- two axes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["universal", "revolute2"])
def test_the_first_axis_turns_the_second(tmp_path: Path, diagnostics: ClaimedDiagnostics, kind: str) -> None:
    """Rotation about `axis`, then about `axis2`, which goes with the first."""
    inside = _axis(xyz="0 0 1") + _axis(tag="axis2", xyz="1 0 0")
    robot = _read(tmp_path, diagnostics, kind, inside)
    pose = robot.link_poses({"j": [0.3, 0.4]})["b"]
    expected = Pose.from_rpy((0, 0, 0), (0, 0, 0.3)) @ Pose.from_rpy((0, 0, 0), (0.4, 0, 0))
    assert_close(pose.rotation, expected.rotation)


def test_a_gearbox_is_a_constraint(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """It holds nothing, so it is no joint; its axes are given in the links they turn."""
    body = (
        '<link name="base"/><link name="a"><pose>0 0 0 0 0 1.5707963267948966</pose></link><link name="b"/>'
        + _joint("revolute", _axis(xyz="1 0 0"), parent="base", child="a", name="ja")
        + _joint("revolute", _axis(xyz="1 0 0"), parent="base", child="b", name="jb")
        + _joint(
            "gearbox",
            "<gearbox_ratio>2.5</gearbox_ratio><gearbox_reference_body>base</gearbox_reference_body>"
            + _axis(xyz="1 0 0")
            + _axis(tag="axis2", xyz="0 1 0"),
            name="g",
        )
    )
    robot = read_robot(tmp_path, model(body), diagnostics)
    assert [j.name for j in robot.joints] == ["ja", "jb"]
    (gear,) = robot.constraints
    assert (gear.name, gear.kind, gear.a, gear.b, gear.reference) == ("g", ConstraintKind.GEAR, "a", "b", "base")
    assert gear.ratio == 2.5
    assert_close(gear.gear_axis_a, [0, -1, 0])
    assert_close(gear.gear_axis_b, [0, 1, 0])
    assert gear.extras[0].text.startswith('<joint name="g" type="gearbox">')


def test_a_gearbox_without_reference(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """The world is assumed, with a warning."""
    robot = _read(tmp_path, diagnostics, "gearbox", _axis() + _axis(tag="axis2"))
    assert robot.constraints[0].reference is None
    diagnostics.claim("sdf.gearbox-reference")


# -- mimic -------------------------------------------------------------------------------------------------------------


def test_a_mimic_follows_its_leader(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Follower = multiplier * (leader - reference) + offset, also across nested models and second axes."""
    mimic = (
        '<mimic joint="n::k" axis="axis2"><multiplier>2</multiplier><offset>0.5</offset>'
        "<reference>0.1</reference></mimic>"
    )
    two = _axis() + _axis(tag="axis2", xyz="1 0 0")
    body = (
        f'{_LINKS}<model name="n"><link name="c"/><link name="d"/>'
        f"{_joint('universal', two, parent='c', child='d', name='k')}</model>"
        f"{_joint('revolute', _axis(mimic))}{_joint('fixed', parent='a', child='n::c', name='f')}"
    )
    robot = read_robot(tmp_path, model(body, version="1.11"), diagnostics)
    follower = robot.joint("j").axes[0].mimic
    assert follower is not None
    assert (follower.joint, follower.axis) == ("n::k", 1)
    assert (follower.multiplier, follower.offset, follower.reference) == (2, 0.5, 0.1)
    led = robot.link_poses({"n::k": [0.0, 0.7]})["b"]
    assert_close(led.rotation, robot.link_poses({"j": 2 * 0.6 + 0.5})["b"].rotation)


@pytest.mark.parametrize("leader", ["nobody", "j", "a"])
def test_a_mimic_of_nothing(tmp_path: Path, diagnostics: ClaimedDiagnostics, leader: str) -> None:
    """A joint that is not there, the joint itself, or a link cannot lead."""
    robot = _read(tmp_path, diagnostics, "revolute", _axis(f'<mimic joint="{leader}"/>'))
    assert robot.joint("j").axes[0].mimic is None
    diagnostics.claim("sdf.mimic")


# -- ends --------------------------------------------------------------------------------------------------------------


def test_a_joint_to_the_world_holds_the_robot(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """It hangs on the model's frame, and the base is fixed."""
    body = '<pose>5 0 0 0 0 1</pose><link name="a"><pose>0 1 0 0 0 0</pose></link>'
    text = model(body + _joint("revolute", _axis(), parent="world", child="a"))
    robot = read_robot(tmp_path, text, diagnostics)
    joint = robot.joint("j")
    assert joint.parent is None
    assert_close(joint.parent_pose.position, [0, 1, 0])
    assert robot.base is Base.FIXED
    assert read_robot(tmp_path, model(_LINKS), diagnostics).base is Base.FREE
    expected = Pose.from_rpy((5, 0, 0), (0, 0, 1)) @ Pose.from_rpy((0, 1, 0), (0, 0, 0.3))
    assert robot.link_poses({"j": 0.3})["a"].is_close(expected, 1e-12)


def test_ends_may_be_frames_and_nested_models(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """They stand for the link they are attached to; the joint's pose is relative to the frame itself."""
    body = (
        '<link name="a"/><frame name="f" attached_to="a"><pose>1 0 0 0 0 0</pose></frame>'
        '<model name="n"><pose>0 0 2 0 0 0</pose><link name="c"><pose>0 0 1 0 0 0</pose></link></model>'
    )
    robot = read_robot(tmp_path, model(body + _joint("fixed", parent="f", child="n")), diagnostics)
    joint = robot.joint("j")
    assert (joint.parent, joint.child) == ("a", "n::c")
    assert_close(joint.child_pose.position, [0, 0, -1])
    assert_close(joint.parent_pose.position, [0, 0, 2])


@pytest.mark.parametrize(
    ("parent", "child", "code"),
    [
        ("a", "nobody", "sdf.unknown-link"),
        ("nobody", "b", "sdf.unknown-link"),
        ("a", "", "sdf.missing-element"),
        ("", "b", "sdf.missing-element"),
        ("a", "a", "sdf.joint-connects-nothing"),
        ("a", "f", "sdf.joint-connects-nothing"),
    ],
)
def test_a_joint_that_connects_nothing_is_left_out(
    tmp_path: Path, diagnostics: ClaimedDiagnostics, parent: str, child: str, code: str
) -> None:
    """With one error; its text is kept."""
    ends = "".join(f"<{t}>{n}</{t}>" for t, n in (("parent", parent), ("child", child)) if n)
    body = f'{_LINKS}<frame name="f" attached_to="a"/><joint name="j" type="fixed">{ends}</joint>'
    robot = read_robot(tmp_path, model(body), diagnostics)
    assert '"j"' in diagnostics.claim(code).message
    assert robot.joints == []
    assert [e.tag for e in robot.extras] == ["joint"]


def test_the_world_as_a_child(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """An error since 1.7; the joint still holds its parent, at the place its pose has in the world."""
    body = "<pose>3 0 0 0 0 0</pose>" + _LINKS + _joint("fixed", parent="a", child="world")
    robot = read_robot(tmp_path, model(body), diagnostics)
    diagnostics.claim("sdf.joint-child-world")
    joint = robot.joint("j")
    assert joint.child is None
    poses = robot.link_poses()
    assert_close(poses["a"].position, [3, 0, 0])


def test_a_link_with_two_parents_closes_a_loop(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Nothing to complain about; a joint that must be a loop joint never carries the tree."""
    body = (
        '<link name="a"/><link name="b"/><link name="c"/>'
        + _joint("revolute", _axis(), name="ab")
        + _joint("revolute", _axis(), child="c", name="ac")
        + _joint(
            "ball",
            "<physics><simbody><must_be_loop_joint>true</must_be_loop_joint></simbody></physics>",
            parent="b",
            child="c",
            name="bc",
        )
    )
    robot = read_robot(tmp_path, model(body), diagnostics)
    assert [j.name for j in robot.tree().loops] == ["bc"]
    assert robot.joint("bc").closes_loop
    assert [e.tag for e in robot.joint("bc").extras] == ["physics"]


# -- joints of the world -----------------------------------------------------------------------------------------------


def test_joints_of_the_world_make_one_robot(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Models that a joint of the world connects become one robot; it moves as the same joint in one model would."""
    joint = (
        '<joint name="j" type="revolute"><pose>0.1 0.2 0.3 0.4 0.5 0.6</pose><parent>{0}</parent><child>{1}</child>'
        '<axis><xyz expressed_in="{0}">1 2 3</xyz></axis></joint>'
    )
    models = (
        '<model name="a"><pose>1 2 3 0.1 0.2 0.3</pose><link name="l"/><link name="k"/></model>'
        '<model name="b"><pose>-1 2 0 0.3 0 0</pose><link name="l"/><frame name="f" attached_to="l"/></model>'
    )
    together = read_world(tmp_path, world(models + joint.format("a::l", "b::f"), version="1.10"), diagnostics)
    inside = world(f'<model name="m">{models}{joint.format("a::l", "b::f")}</model>', version="1.10")
    nested = read_world(tmp_path, inside, diagnostics)
    (robot,) = together.robots
    assert robot.name == "a+b"
    assert [link.name for link in robot.links] == ["a::l", "a::k", "b::l"]
    assert_close(together.forward_kinematics({"j": 0.7}), nested.forward_kinematics({"j": 0.7}))


def test_a_joint_of_the_world_may_hold_one_model(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Then the model stays a robot of its own, held by a joint to its base frame."""
    text = world(
        '<frame name="f"><pose>0 0 2 0 0 0</pose></frame>'
        '<model name="a"><pose>1 0 0 0 0 0.3</pose><link name="l"/></model>'
        '<model name="b"><link name="l"/></model>'
        '<joint name="j" type="revolute"><parent>f</parent><child>a::l</child><axis><xyz>0 0 1</xyz></axis></joint>',
        version="1.10",
    )
    result = read_world(tmp_path, text, diagnostics)
    a, b = result.robots
    assert (a.base, b.base) == (Base.FIXED, Base.FREE)
    assert a.joint("j").parent is None
    expected = Pose.from_rpy((1, 0, 0), (0, 0, 0.8))
    assert result.link_poses({"j": 0.5})["a::l"].is_close(expected, 1e-12)


def test_joined_models_still_collide(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Links of one model do not collide with one another by default, those of two joined models do."""
    from kinema.description import colliding_pairs

    shape = '<collision name="c"><geometry><sphere/></geometry></collision>'
    text = world(
        f'<model name="a"><link name="k">{shape}</link><link name="l">{shape}</link></model>'
        f'<model name="b"><link name="k">{shape}</link><link name="l">{shape}</link></model>'
        '<joint name="j" type="fixed"><parent>a::k</parent><child>b::k</child></joint>',
        version="1.10",
    )
    result = read_world(tmp_path, text, diagnostics)
    pairs = {frozenset((str(x.link), str(y.link))) for x, y in colliding_pairs(result)}
    assert pairs == {frozenset(p) for p in (("a::k", "b::l"), ("a::l", "b::k"), ("a::l", "b::l"))}


def test_a_joint_of_the_world_that_connects_nothing(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Links are named with their model from the world."""
    text = world(
        '<model name="a"><link name="l"/></model>'
        '<joint name="j" type="fixed"><parent>world</parent><child>l</child></joint>',
        version="1.10",
    )
    result = read_world(tmp_path, text, diagnostics)
    assert "model::link" in diagnostics.claim("sdf.unknown-link").hint
    assert result.joints == []
