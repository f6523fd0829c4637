"""Joints: types, frames, axes, limits, dynamics, mimics, and what other programs add to them."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from kinema.core import Severity
from kinema.description import AxisMotion, Joint, JointKind
from kit.diagnostics import ClaimedDiagnostics

from .urdf_files import LIMIT, LINKS, joint, read_text


def _read(tmp_path: Path, inside: str, diagnostics: ClaimedDiagnostics, version: str = "1.0") -> Joint:
    return read_text(tmp_path, inside, diagnostics, attributes=f'name="r" version="{version}"').joints[0]


@pytest.mark.parametrize(
    ("type", "kind", "motions"),
    [
        ("revolute", JointKind.REVOLUTE, "r"),
        ("continuous", JointKind.CONTINUOUS, "r"),
        ("prismatic", JointKind.PRISMATIC, "t"),
        ("fixed", JointKind.FIXED, ""),
        ("floating", JointKind.FREE, "tttrrr"),
        ("planar", JointKind.PLANAR, "ttr"),
        ("spherical", JointKind.SPHERICAL, "rrr"),
    ],
)
def test_types(tmp_path: Path, diagnostics: ClaimedDiagnostics, type: str, kind: JointKind, motions: str) -> None:
    """Each type with its axes; the joint's frame is the child's frame."""
    inside = '<origin xyz="1 2 3" rpy="0 0 1"/>' + (LIMIT if type in ("revolute", "prismatic") else "")
    found = _read(tmp_path, joint(inside, type=type), diagnostics)
    assert (found.name, found.parent, found.child, found.kind) == ("j", "a", "b", kind)
    assert "".join("r" if a.motion is AxisMotion.ROTATION else "t" for a in found.axes) == motions
    np.testing.assert_array_equal(found.parent_pose.position, [1, 2, 3])
    np.testing.assert_allclose(found.parent_pose.rpy, [0, 0, 1])
    np.testing.assert_array_equal(found.child_pose.matrix, np.eye(4))


def test_the_default_axis_is_x(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Unlike in SDFormat and MJCF."""
    found = _read(tmp_path, joint(LIMIT), diagnostics)
    np.testing.assert_array_equal(found.axes[0].direction, [1, 0, 0])


@pytest.mark.parametrize(
    ("xyz", "severity"),
    [("0 0 2", Severity.WARNING), ("0 0.577 0.816", Severity.NOTE), ("0 1e-200 0", Severity.WARNING)],
)
def test_axes_are_normalised(tmp_path: Path, diagnostics: ClaimedDiagnostics, xyz: str, severity: Severity) -> None:
    """With a word about it: a note where the file has only rounded."""
    found = _read(tmp_path, joint(f'<axis xyz="{xyz}"/>{LIMIT}'), diagnostics)
    assert diagnostics.claim("urdf.axis-not-unit").severity is severity
    assert np.linalg.norm(found.axes[0].direction) == pytest.approx(1, abs=1e-15)


@pytest.mark.parametrize(
    ("axis", "code"),
    [
        ('<axis xyz="0 0 0"/>', "zero-axis"),
        ("<axis/>", "missing-attribute"),
        ('<axis xyz="up"/>', "not-a-number"),
        ('<axis xyz="0 0 nan"/>', "not-finite"),
        ('<axis xyz="1 0 0"/><axis xyz="0 1 0"/>', "repeated-element"),
    ],
)
def test_broken_axes(tmp_path: Path, diagnostics: ClaimedDiagnostics, axis: str, code: str) -> None:
    """An error, and x is assumed."""
    found = _read(tmp_path, joint(axis + LIMIT), diagnostics)
    assert diagnostics.claim(f"urdf.{code}").severity is Severity.ERROR
    np.testing.assert_array_equal(found.axes[0].direction, [1, 0, 0])


# -- origins ----------------------------------------------------------------------------------------------------------


def test_quaternions(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """x, y, z, w."""
    found = _read(tmp_path, joint('<origin quat_xyzw="0 0 1 0"/>', type="fixed"), diagnostics, "1.1")
    np.testing.assert_allclose(found.parent_pose.rotation, np.diag([-1.0, -1.0, 1.0]), atol=1e-15)


@pytest.mark.parametrize(
    ("origin", "version", "code", "severity"),
    [
        ('quat_xyzw="0 0 1 0"', "1.0", "needs-version", Severity.WARNING),
        ('quat_xyzw="0 0 1 0" rpy="1 0 0"', "1.1", "two-rotations", Severity.ERROR),
        ('quat_xyzw="0 0 2 0"', "1.2", "quaternion-not-unit", Severity.WARNING),
    ],
)
def test_suspicious_quaternions(
    tmp_path: Path, diagnostics: ClaimedDiagnostics, origin: str, version: str, code: str, severity: Severity
) -> None:
    """They are read all the same."""
    found = _read(tmp_path, joint(f"<origin {origin}/>", type="fixed"), diagnostics, version)
    assert diagnostics.claim(f"urdf.{code}").severity is severity
    np.testing.assert_allclose(found.parent_pose.rotation, np.diag([-1.0, -1.0, 1.0]), atol=1e-15)


def test_a_zero_quaternion(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Is no rotation, and an error."""
    found = _read(tmp_path, joint('<origin quat_xyzw="0 0 0 0"/>', type="fixed"), diagnostics, "1.1")
    diagnostics.claim("urdf.zero-quaternion")
    np.testing.assert_array_equal(found.parent_pose.rotation, np.eye(3))


# -- limits -----------------------------------------------------------------------------------------------------------


def test_limits(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """All four, and no others."""
    axis = _read(tmp_path, joint(LIMIT), diagnostics).axes[0]
    assert (axis.lower, axis.upper, axis.effort, axis.velocity) == (-1, 2, 3, 4)
    assert (axis.acceleration, axis.deceleration, axis.jerk) == (math.inf, math.inf, math.inf)


def test_limits_of_version_12(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Acceleration, deceleration (which is acceleration unless it is given) and jerk; effort and velocity optional."""
    limit = '<limit lower="-1" upper="2" acceleration="5" jerk="7"/>'
    axis = _read(tmp_path, joint(limit), diagnostics, "1.2").axes[0]
    assert (axis.acceleration, axis.deceleration, axis.jerk) == (5, 5, 7)
    assert (axis.effort, axis.velocity) == (math.inf, math.inf)
    limit = '<limit lower="-1" upper="2" acceleration="5" deceleration="6"/>'
    assert _read(tmp_path, joint(limit), diagnostics, "1.2").axes[0].deceleration == 6


def test_new_limits_need_a_version(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """They are read all the same."""
    limit = LIMIT.replace("/>", ' jerk="9"/>')
    assert _read(tmp_path, joint(limit), diagnostics).axes[0].jerk == 9
    assert "1.2" in diagnostics.claim("urdf.needs-version").message


@pytest.mark.parametrize("type", ["revolute", "prismatic"])
def test_a_missing_limit(tmp_path: Path, diagnostics: ClaimedDiagnostics, type: str) -> None:
    """Is an error, and the joint is unlimited."""
    axis = _read(tmp_path, joint(type=type), diagnostics).axes[0]
    assert diagnostics.claim("urdf.missing-limit").severity is Severity.ERROR
    assert (axis.lower, axis.upper) == (-math.inf, math.inf)


def test_missing_effort_and_velocity(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """An error that names both, before version 1.2."""
    axis = _read(tmp_path, joint('<limit lower="-1" upper="1"/>'), diagnostics).axes[0]
    found = diagnostics.claim("urdf.missing-limit")
    assert found.severity is Severity.ERROR
    assert "'effort' and 'velocity'" in found.message
    assert (axis.lower, axis.effort) == (-1, math.inf)


def test_a_frozen_joint(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """A <limit> without lower and upper means zero for both; in version 1.2 it is an error and means infinity."""
    limit = '<limit effort="1" velocity="1"/>'
    axis = _read(tmp_path, joint(limit), diagnostics).axes[0]
    assert diagnostics.claim("urdf.frozen-joint").severity is Severity.WARNING
    assert (axis.lower, axis.upper) == (0, 0)
    axis = _read(tmp_path, joint(limit), diagnostics, "1.2").axes[0]
    assert diagnostics.claim("urdf.missing-limit").severity is Severity.ERROR
    assert (axis.lower, axis.upper) == (-math.inf, math.inf)


def test_half_a_limit(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """The other half is zero, and a note says so."""
    axis = _read(tmp_path, joint('<limit upper="2" effort="1" velocity="1"/>'), diagnostics).axes[0]
    assert diagnostics.claim("urdf.limit-default").severity is Severity.NOTE
    assert (axis.lower, axis.upper) == (0, 2)


def test_limits_of_continuous_joints(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Effort and velocity count; lower and upper do not, and are kept aside with a warning."""
    limit = '<limit effort="3" velocity="4"/>'
    axis = _read(tmp_path, joint(limit, type="continuous"), diagnostics).axes[0]
    assert (axis.lower, axis.upper, axis.effort, axis.velocity) == (-math.inf, math.inf, 3, 4)
    found = _read(tmp_path, joint(LIMIT, type="continuous"), diagnostics)
    assert diagnostics.claim("urdf.continuous-limit").severity is Severity.WARNING
    assert (found.axes[0].lower, found.axes[0].upper) == (-math.inf, math.inf)
    assert found.attributes["urdf:limit"] == {"lower": -1, "upper": 2}


@pytest.mark.parametrize(
    ("limit", "code"),
    [
        ('<limit lower="x" upper="1" effort="1" velocity="1"/>', "not-a-number"),
        ('<limit lower="nan" upper="1" effort="1" velocity="1"/>', "not-a-number"),
        ('<limit lower="0" upper="1" effort="-1" velocity="1"/>', "negative-limit"),
    ],
)
def test_broken_limits(tmp_path: Path, diagnostics: ClaimedDiagnostics, limit: str, code: str) -> None:
    """Each is an error, and reading goes on."""
    axis = _read(tmp_path, joint(limit), diagnostics).axes[0]
    assert diagnostics.claim(f"urdf.{code}").severity is Severity.ERROR
    assert (axis.lower, axis.upper, axis.effort) == (0, 1, 1)


def test_infinite_limits_are_no_limits(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Infinity is a number here."""
    axis = _read(tmp_path, joint('<limit lower="-inf" upper="inf" effort="inf" velocity="1"/>'), diagnostics).axes[0]
    assert (axis.lower, axis.upper, axis.effort) == (-math.inf, math.inf, math.inf)


# -- mimic, dynamics, safety, calibration ------------------------------------------------------------------------------


def test_mimic(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """With its defaults."""
    found = _read(tmp_path, joint(f'{LIMIT}<mimic joint="other"/>'), diagnostics).axes[0].mimic
    assert found is not None
    assert (found.joint, found.multiplier, found.offset, found.reference) == ("other", 1, 0, 0)
    mimic = '<mimic joint="other" multiplier="-2" offset="0.5"/>'
    found = _read(tmp_path, joint(LIMIT + mimic), diagnostics).axes[0].mimic
    assert found is not None
    assert (found.multiplier, found.offset) == (-2, 0.5)


def test_mimic_of_nothing(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Is an error, and no mimic."""
    assert _read(tmp_path, joint(LIMIT + "<mimic/>"), diagnostics).axes[0].mimic is None
    diagnostics.claim("urdf.missing-attribute")


@pytest.mark.parametrize("type", ["revolute", "planar", "floating"])
def test_dynamics(tmp_path: Path, diagnostics: ClaimedDiagnostics, type: str) -> None:
    """Damping and friction, the same for each axis."""
    inside = '<dynamics damping="0.5" friction="0.25"/>' + (LIMIT if type == "revolute" else "")
    found = _read(tmp_path, joint(inside, type=type), diagnostics)
    assert {(a.damping, a.friction) for a in found.axes} == {(0.5, 0.25)}


def test_safety_and_calibration_are_kept(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Typed, and only what is written."""
    inside = '<safety_controller k_velocity="10" soft_lower_limit="-0.5"/><calibration rising="0.1"/>'
    found = _read(tmp_path, joint(LIMIT + inside), diagnostics)
    assert found.attributes == {
        "urdf:safety_controller": {"k_velocity": 10, "soft_lower_limit": -0.5},
        "urdf:calibration": {"rising": 0.1},
    }
    _read(tmp_path, joint(LIMIT + "<safety_controller/>"), diagnostics)
    diagnostics.claim("urdf.missing-attribute")


# -- what has no meaning for a type -----------------------------------------------------------------------------------


def test_fixed_joints_need_nothing(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """What they have is kept with a note: half of all exporters write it."""
    inside = f'<axis xyz="0 0 0"/>{LIMIT}<dynamics damping="1"/><mimic joint="x"/>'
    found = _read(tmp_path, joint(inside, type="fixed"), diagnostics)
    assert diagnostics.claim("urdf.ignored-element").severity is Severity.NOTE
    assert [e.tag for e in found.extras] == ["axis", "limit", "dynamics", "mimic"]
    assert found.extras[1].text == LIMIT


@pytest.mark.parametrize("type", ["planar", "floating", "spherical"])
def test_limits_of_several_axes_are_ignored(tmp_path: Path, diagnostics: ClaimedDiagnostics, type: str) -> None:
    """URDF does not say what they mean; a warning, and kept."""
    found = _read(tmp_path, joint(f'{LIMIT}<mimic joint="x"/>', type=type), diagnostics)
    assert diagnostics.claim("urdf.ignored-element").severity is Severity.WARNING
    assert [e.tag for e in found.extras] == ["limit", "mimic"]
    assert all(a.mimic is None and a.lower == -math.inf for a in found.axes)


# -- broken joints ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("type", ["helical", "screw", "ball", "Revolute"])
def test_unknown_types(tmp_path: Path, diagnostics: ClaimedDiagnostics, type: str) -> None:
    """Are errors, and fixed, so that the child is not lost."""
    assert _read(tmp_path, joint(type=type), diagnostics).kind is JointKind.FIXED
    assert type in diagnostics.claim("urdf.unknown-joint-type").message


def test_a_missing_type(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Likewise, with one error only."""
    inside = LINKS + '<joint name="j"><parent link="a"/><child link="b"/></joint>'
    assert _read(tmp_path, inside, diagnostics).kind is JointKind.FIXED
    diagnostics.claim("urdf.missing-attribute")


@pytest.mark.parametrize(
    ("ends", "code"),
    [
        ('<parent link="a"/>', "missing-element"),
        ('<child link="b"/>', "missing-element"),
        ('<parent/><child link="b"/>', "missing-attribute"),
        ('<parent link=""/><child link="b"/>', "missing-attribute"),
    ],
)
def test_a_joint_with_one_end(tmp_path: Path, diagnostics: ClaimedDiagnostics, ends: str, code: str) -> None:
    """It is left out and kept verbatim: a joint without parent would hang on the world."""
    robot = read_text(tmp_path, f'{LINKS}<joint name="j" type="fixed">{ends}</joint>', diagnostics)
    assert diagnostics.claim(f"urdf.{code}").severity is Severity.ERROR
    assert not robot.joints
    assert robot.extras[0].tag == "joint"


def test_joints_of_the_same_name(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """The later one is renamed, because it holds its child; nameless ones are named."""
    ends = '<parent link="a"/><child link="{}"/>'
    names = ("j", "j", "j_1", "")
    joints = "".join(
        f'<joint name="{n}" type="fixed">{ends.format(c)}</joint>' for n, c in zip(names, "bcde", strict=True)
    )
    links = "".join(f'<link name="{n}"/>' for n in "abcde")
    robot = read_text(tmp_path, links + joints, diagnostics)
    diagnostics.claim("urdf.duplicate-name")
    diagnostics.claim("urdf.missing-attribute")
    assert [j.name for j in robot.joints] == ["j", "j_2", "j_1", "joint_1"]
    assert [j.name_is_generated for j in robot.joints] == [False, False, False, True]
    assert len(robot.tree().roots) == 1


@pytest.mark.parametrize(
    "joints",
    [
        '<joint name="j" type="fixed"><parent link="a"/><child link="nowhere"/></joint>',
        '<joint name="j" type="fixed"><parent link="a"/><child link="a"/></joint>',
        '<joint name="j" type="fixed"><parent link="a"/><child link="b"/></joint>'
        '<joint name="k" type="fixed"><parent link="b"/><child link="a"/></joint>',
        '<joint name="j" type="fixed"><parent link="a"/><child link="b"/></joint>'
        '<joint name="k" type="continuous"><parent link="a"/><child link="b"/></joint>',
        '<joint name="j" type="continuous"><parent link="a"/><child link="b"/><mimic joint="k"/></joint>'
        '<joint name="k" type="continuous"><parent link="b"/><child link="c"/><mimic joint="j"/></joint>',
    ],
)
def test_impossible_graphs_are_read(tmp_path: Path, diagnostics: ClaimedDiagnostics, joints: str) -> None:
    """They are for the checks to report; the reader and the kinematics survive them."""
    robot = read_text(tmp_path, f'{LINKS}<link name="c"/>{joints}', diagnostics)
    assert set(robot.forward_kinematics()) == {"a", "b", "c"}


# -- Drake's joints ---------------------------------------------------------------------------------------------------


def test_drake_joints(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Screw, universal and ball; damping by axis for the planar joint."""
    pitch = '<drake:screw_thread_pitch value="0.5"/>'
    screw = _read(tmp_path, joint(pitch, type="screw", tag="drake:joint"), diagnostics)
    assert (screw.kind, screw.pitch) == (JointKind.SCREW, 0.5)
    universal = _read(tmp_path, joint(type="universal", tag="drake:joint"), diagnostics)
    assert (universal.kind, len(universal.axes)) == (JointKind.UNIVERSAL, 2)
    assert _read(tmp_path, joint(type="ball", tag="drake:joint"), diagnostics).kind is JointKind.SPHERICAL
    planar = _read(tmp_path, joint('<dynamics damping="1 2 3"/>', type="planar", tag="drake:joint"), diagnostics)
    assert [a.damping for a in planar.axes] == [1, 2, 3]
    _read(tmp_path, joint(type="screw", tag="drake:joint"), diagnostics)
    diagnostics.claim("urdf.missing-element")
    assert _read(tmp_path, joint(type="curvilinear", tag="drake:joint"), diagnostics).kind is JointKind.FIXED
    diagnostics.claim("urdf.unknown-joint-type")
