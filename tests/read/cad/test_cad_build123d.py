"""Assemblies of build123d parts: build123d itself says where every part must be."""

from __future__ import annotations

import copy
import importlib.util
import math
import sys
from typing import Any

import numpy as np
import pytest

from kinema import geometry
from kinema.core import KinemaError, Pose
from kinema.description import JointKind, Mesh, Robot, mesh_data
from kinema.read.cad import from_build123d
from kinema.read.cad.build123d_assembly import location_to_pose
from kit.assets import ROOT
from kit.diagnostics import ClaimedDiagnostics

b = pytest.importorskip("build123d", reason="build123d is not installed (pip install 'kinema[cad]')")


def make(part: Any, label: str) -> Any:
    part.label = label
    return part


def pair(joint: Any, *, rigid_first: bool = False, **values: Any) -> tuple[Any, Any, Any]:
    """Two boxes somewhere, the first with the joint (made by `joint(part)`), connected."""
    moving = make(b.Location((5, -7, 11), (20, 40, 60)) * b.Box(30, 20, 10), "moving")
    rigid = make(b.Box(10, 10, 40), "rigid")
    made = joint(moving)
    mount = b.RigidJoint("mount", rigid, b.Location((3, 4, -20), (10, -70, 30)))
    if rigid_first:
        mount.connect_to(made, **values)
    else:
        made.connect_to(mount, **values)
    return b.Compound(label="pair", children=[moving, rigid]), made, mount


AXIS = b.Axis((4, -2, 9), (1, 2, -0.5))
NORMAL = (0.5, 0, 1)
JOINTS: dict[str, tuple[Any, dict[str, Any], JointKind]] = {
    "revolute": (lambda p: b.RevoluteJoint("j", p, AXIS, angular_range=(-90, 120)), {"angle": 35}, JointKind.REVOLUTE),
    "revolute with a reference": (
        lambda p: b.RevoluteJoint("j", p, AXIS, angle_reference=NORMAL, angular_range=(-90, 120)),
        {"angle": 35},
        JointKind.REVOLUTE,
    ),
    "full turn": (
        lambda p: b.RevoluteJoint("j", p, AXIS, angular_range=(-90, 270)),
        {"angle": 200},
        JointKind.CONTINUOUS,
    ),
    "linear": (lambda p: b.LinearJoint("j", p, AXIS, linear_range=(-50, 80)), {"position": 30}, JointKind.PRISMATIC),
    "cylindrical": (
        lambda p: b.CylindricalJoint("j", p, AXIS, linear_range=(-50, 80), angular_range=(-90, 120)),
        {"angle": -40, "position": 30},
        JointKind.CYLINDRICAL,
    ),
}


def moved(robot: Robot, values: dict[str, float]) -> dict[str, Pose]:
    """Poses of the links with the joint at build123d's values."""
    order = {"angle": math.radians(1), "position": 1e-3}
    return robot.link_poses({"j": [values[k] * unit for k, unit in order.items() if k in values]})


@pytest.mark.parametrize("rigid_first", [False, True])
@pytest.mark.parametrize("name", JOINTS)
def test_every_part_is_where_build123d_puts_it(name: str, rigid_first: bool, diagnostics: ClaimedDiagnostics) -> None:
    """In the assembly, and for other values of the joint, whichever of the two parts is the parent."""
    joint, values, kind = JOINTS[name]
    assembly, made, mount = pair(joint, rigid_first=rigid_first, **values)
    robot = from_build123d(assembly, diagnostics=diagnostics)
    (found,) = robot.joints
    assert found.kind is kind
    assert found.name == "j"
    assert (found.parent, found.child) == (("rigid", "moving") if rigid_first else ("moving", "rigid"))
    first, second = (mount, made) if rigid_first else (made, mount)
    for other in ({}, {"angle": 70.0}, {"position": -20.0}, {"angle": -65.0, "position": 55.0}):
        at = {**values, **{k: v for k, v in other.items() if k in values}}
        first.connect_to(second, **at)
        poses = moved(robot, at)
        for part in assembly.children:
            assert max(poses[part.label].distance(location_to_pose(part.location))) < 1e-9


def test_limits_and_values(diagnostics: ClaimedDiagnostics) -> None:
    """Degrees and millimetres become radians and metres."""
    joint, values, _ = JOINTS["cylindrical"]
    (found,) = from_build123d(pair(joint, **values)[0], diagnostics=diagnostics).joints
    assert found.state == pytest.approx([math.radians(-40), 0.03])
    turn, slide = found.axes
    assert (turn.lower, turn.upper) == pytest.approx((math.radians(-90), math.radians(120)))
    assert (slide.lower, slide.upper) == pytest.approx((-0.05, 0.08))
    one_sided = from_build123d(pair(lambda p: b.LinearJoint("j", p, AXIS), position=5)[0], diagnostics=diagnostics)
    assert (one_sided.joints[0].axes[0].lower, one_sided.joints[0].axes[0].upper) == (0.0, math.inf)


@pytest.mark.parametrize("rigid_first", [False, True])
@pytest.mark.parametrize("angles", [(20, 40, -60), (10, 90, 30)])
@pytest.mark.parametrize("limited", [False, True])
def test_ball_joints(angles: Any, rigid_first: bool, limited: bool, diagnostics: ClaimedDiagnostics) -> None:
    """Three angles about x, y, z where they have limits, otherwise any rotation; at the gimbal's lock too."""
    ranges = ((-180, 170),) * 3 if limited else ((-180, 180),) * 3
    place = b.Location((4, -2, 9), (15, 25, 35))
    assembly, made, mount = pair(
        lambda p: b.BallJoint("j", p, place, angular_range=ranges), rigid_first=rigid_first, angles=angles
    )
    robot = from_build123d(assembly, diagnostics=diagnostics)
    (found,) = robot.joints
    assert found.kind is (JointKind.SIX_AXIS if limited else JointKind.SPHERICAL)
    assert found.state is not None
    poses = robot.link_poses({"j": found.state})
    for part in assembly.children:
        assert max(poses[part.label].distance(location_to_pose(part.location))) < 1e-9
    if not limited:
        return
    first, second = (mount, made) if rigid_first else (made, mount)
    first.connect_to(second, angles=(-30, 25, 70))
    q = np.radians([-30, 25, 70])
    poses = robot.link_poses({"j": q[::-1] if rigid_first else q})
    for part in assembly.children:
        assert max(poses[part.label].distance(location_to_pose(part.location))) < 1e-9


def test_a_linear_joint_on_a_revolute_one_slides_and_turns(diagnostics: ClaimedDiagnostics) -> None:
    """build123d's only joint of two parts' motions: a pin in a slot."""
    rail, wheel = make(b.Box(100, 10, 10), "rail"), make(b.Cylinder(8, 5), "wheel")
    slot = b.LinearJoint("slot", rail, b.Axis((0, 5, 0), (1, 0, 0)), linear_range=(-40, 40))
    pin = b.RevoluteJoint("pin", wheel, b.Axis((0, 0, 1), (0, 0, 1)), angular_range=(-180, 180))
    slot.connect_to(pin, position=12, angle=50)
    assembly = b.Compound(label="slider", children=[rail, wheel])
    robot = from_build123d(assembly, diagnostics=diagnostics)
    (found,) = robot.joints
    assert found.n_dofs == 2
    slot.connect_to(pin, position=-30, angle=-75)
    poses = robot.link_poses({found.name: [-0.03, math.radians(-75)]})
    assert max(poses["wheel"].distance(location_to_pose(wheel.location))) < 1e-9


def test_masses_and_meshes(diagnostics: ClaimedDiagnostics) -> None:
    """A box weighs what it must, in its own frame; triangles enclose the same volume; densities by name."""
    box = make(b.Location((100, 200, 300), (30, 40, 50)) * b.Box(20, 30, 40), "box")
    pin = make(b.Cylinder(5, 50), "pin")
    steel = make(b.Pos(50, 0, 0) * b.Box(10, 10, 10), "steel one")
    assembly = b.Compound(label="parts", children=[box, pin, steel])
    for part in (pin, steel):
        joint = b.RigidJoint(f"to {part.label}", box, part.location)
        joint.connect_to(b.RigidJoint("here", part, part.location))
    densities = {"pin": 8000.0, "steel one": 7850.0}
    robot = from_build123d(assembly, density=2000, densities=densities, tolerance=1e-5, diagnostics=diagnostics)
    box_link, pin_link, steel_link = robot.links
    assert box_link.inertial is not None
    assert box_link.inertial.mass == pytest.approx(24e-6 * 2000, rel=1e-12)
    np.testing.assert_allclose(box_link.inertial.center, 0, atol=1e-12)
    expected = geometry.box_mass_properties((0.02, 0.03, 0.04), 2000).inertia
    np.testing.assert_allclose(box_link.inertial.inertia, expected, atol=1e-15)
    assert pin_link.inertial is not None
    assert pin_link.inertial.mass == pytest.approx(math.pi * 25e-6 * 0.05 * 8000, rel=1e-9)
    assert steel_link.inertial is not None
    assert steel_link.inertial.mass == pytest.approx(7850e-6, rel=1e-9)
    for link in robot.links:
        mesh = link.shapes[0].geometry
        assert isinstance(mesh, Mesh)
        data = mesh_data(mesh)
        assert data is not None
        assert link.inertial is not None
        quality = geometry.measure_mesh_quality(data)
        assert quality.is_closed
        assert quality.volume == pytest.approx(link.inertial.mass / densities.get(link.name, 2000.0), rel=5e-3)


def test_colours_nesting_and_repeated_parts(diagnostics: ClaimedDiagnostics) -> None:
    """A wheel that is there twice has one mesh; a sub-assembly carries its parts; a part inherits its colour."""
    wheel = make(b.Cylinder(10, 5), "wheel")
    other = copy.copy(wheel)
    axle = make(b.Box(40, 2, 2), "axle")
    wheel.location, other.location = b.Location((20, 0, 0), (0, 90, 0)), b.Location((-20, 0, 0), (0, 90, 0))
    sub = b.Compound(label="bogie", children=[axle, wheel, other])
    sub.location = b.Location((0, 0, -30), (0, 0, 90))
    sub.color = b.Color(0.25, 0.5, 0.75, 0.5)
    body = make(b.Box(100, 50, 20), "body")
    assembly = b.Compound(label="car", children=[body, sub])
    for i, part in enumerate((wheel, other)):
        hinge = b.RevoluteJoint(f"hinge {i}", axle, b.Axis(part.position, (1, 0, 0)))
        hinge.connect_to(b.RigidJoint("hub", part, b.Location(part.position, (0, 90, 0))), angle=0)
    robot = from_build123d(assembly, ground="body", diagnostics=diagnostics)
    diagnostics.claim("cad.loose-link")  # nothing joins the bogie to the body
    assert [link.name for link in robot.links] == ["body", "axle", "bogie+wheel_1", "bogie+wheel_2"]
    assert robot.root == "body"
    first, second = (robot.link(f"bogie+wheel_{i}").shapes[0] for i in (1, 2))
    assert isinstance(first.geometry, Mesh)
    assert isinstance(second.geometry, Mesh)
    assert first.geometry.vertices is second.geometry.vertices
    assert first.material is not None
    assert first.material.color == pytest.approx((0.25, 0.5, 0.75, 0.5))
    poses = robot.link_poses({j.name: j.state for j in robot.joints if j.state is not None})
    for link, part in (("bogie+wheel_1", wheel), ("bogie+wheel_2", other)):
        assert max(poses[link].distance(location_to_pose(part.global_location))) < 1e-9


def test_an_assembly_without_joints_is_one_link(diagnostics: ClaimedDiagnostics) -> None:
    parts = [make(b.Pos(20 * i, 0, 0) * b.Box(10, 10, 10), f"block {i}") for i in range(3)]
    robot = from_build123d(b.Compound(label="wall", children=parts), diagnostics=diagnostics)
    assert [(link.name, len(link.shapes)) for link in robot.links] == [("wall", 3)]
    assert "cad.no-joints" in diagnostics.codes()
    single = from_build123d(parts[0], diagnostics=diagnostics)
    assert [link.name for link in single.links] == ["block 0"]


def test_what_is_wrong_is_said(diagnostics: ClaimedDiagnostics) -> None:
    """Parts that were moved after they were connected, joints that lead out of the assembly, names of no part."""
    joint, values, _ = JOINTS["revolute"]
    assembly, *_ = pair(joint, **values)
    assembly.children[1].location = b.Location((1, 2, 3))
    outside = b.RigidJoint("lost", assembly.children[0])
    outside.connect_to(b.RigidJoint("far", b.Box(1, 1, 1)))
    from_build123d(assembly, ground="nobody", densities={"nothing": 1.0}, diagnostics=diagnostics)
    assert '"rigid" was moved' in diagnostics.claim("cad.moved-since-connected").message
    assert '"lost"' in diagnostics.claim("cad.joint-outside-assembly").message
    assert [d.severity.value for d in diagnostics.claim_all("cad.unknown-part")] == ["warning", "error"]
    with pytest.raises(KinemaError, match="build123d Compound"):
        from_build123d("arm")


def test_sheets_and_lines_have_no_mass(diagnostics: ClaimedDiagnostics) -> None:
    parts = [make(b.Box(1, 1, 1), "box"), make(b.Rectangle(5, 5), "sheet"), make(b.Line((0, 0), (1, 1)), "line")]
    robot = from_build123d(b.Compound(label="odd", children=parts), diagnostics=diagnostics)
    assert '"sheet"' in diagnostics.claim("cad.no-mass").message
    assert "cad.no-solid" in diagnostics.codes()
    assert robot.links[0].inertial is not None


def test_the_assembly_is_not_changed(diagnostics: ClaimedDiagnostics) -> None:
    """Measuring the joints leaves their values alone."""
    joint, values, _ = JOINTS["cylindrical"]
    assembly, made, _ = pair(joint, **values)
    before = [str(p.location) for p in assembly.children]
    from_build123d(assembly, diagnostics=diagnostics)
    assert (made.angle, made.position, made.linear_range) == (-40, 30, (-50, 80))
    assert [str(p.location) for p in assembly.children] == before


def test_builders_are_taken_too(diagnostics: ClaimedDiagnostics) -> None:
    with b.BuildPart() as builder:
        b.Box(10, 20, 30)
        b.RigidJoint("top", joint_location=b.Location((0, 0, 15)))
    builder.part.label = "made"
    assert from_build123d(builder, diagnostics=diagnostics).links[0].name == "made"


def test_the_example(diagnostics: ClaimedDiagnostics) -> None:
    """The figures were worked out by hand from the example's dimensions."""
    spec = importlib.util.spec_from_file_location("two_link_arm", ROOT / "examples" / "cad" / "two_link_arm.py")
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    robot = from_build123d(example.two_link_arm(), density=2700, ground="base", diagnostics=diagnostics)
    assert {j.name: float(np.degrees(j.state)[0]) for j in robot.joints if j.state is not None} == pytest.approx(
        {"shoulder": 30, "elbow": -20}
    )
    masses = {k.name: k.inertial.mass for k in robot.links if k.inertial is not None}
    expected = {"base": math.pi * 0.06**2 * 0.04 * 2700, "upper_arm": 0.648, "forearm": 0.253125}
    assert masses == pytest.approx(expected)
    pose = robot.link("upper_arm").pose
    assert pose is not None
    np.testing.assert_allclose(pose.position, [0, 0, 0.12], atol=1e-12)


def test_without_build123d_one_sentence_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "build123d", None)
    with pytest.raises(KinemaError, match=r"pip install 'kinema\[cad\]'"):
        from_build123d(None)
