"""A URDF file that is read, written and read again says the same."""

from __future__ import annotations

from pathlib import Path

import pytest

import kinema
from kinema.core import Diagnostics
from kinema.description import Link, Robot, colliding_pairs
from kinema.read.resolve import Resolver
from kinema.read.urdf import read_urdf
from kit.assets import EXAMPLES, all_assets, asset_id
from kit.written.urdf import Written

from .urdf_differences import differences

FILES = [*all_assets("urdf/**/*.urdf"), *sorted(EXAMPLES.glob("*/*.urdf"))]

EVERYTHING = """<?xml version="1.0"?>
<robot name="every thing" xmlns:drake="http://drake.mit.edu" xmlns:xacro="http://ros.org/wiki/xacro" note="kept">
  <material name="red"><color rgba="1 0 0 0.5"/></material>
  <material name="checker" finish="matt"><color rgba="0.5 0.5 0.5 1"/><texture filename="checker.png"/></material>
  <material name="unused"><color rgba="0 0 1 1"/></material>
  <link name="base" colour="kept">
    <inertial unit="kg">
      <origin xyz="0.1 0.2 0.3" rpy="0.3 1.5707963267948966 -0.7"/>
      <mass value="2.5" error="0.1"/>
      <inertia ixx="2" ixy="0.1" ixz="-0.2" iyy="2.5" iyz="0.3" izz="1.9"/>
    </inertial>
    <visual name="v"><origin xyz="0 0 1" kept="1"/><geometry><box size="1 2 3" kept="2"/></geometry>
      <material name="red"/></visual>
    <visual><geometry><mesh filename="tetrahedron.obj" scale="1 -2 3"/></geometry><material name="checker"/></visual>
    <visual><geometry><sphere radius="0.1"/></geometry><material name=""><color rgba="1 1 0 1"/></material></visual>
    <visual><geometry><sphere radius="0.2"/></geometry>
      <material name="inline"><color rgba="0.1 0.2 0.3 0.4"/></material></visual>
    <collision name="c"><origin rpy="0 -1.5707963267948966 0"/><geometry><cylinder radius="0.1" length="2"/></geometry>
      <material name="red"/></collision>
    <collision><geometry><mesh filename="tetrahedron.obj"><drake:declare_convex/></mesh></geometry></collision>
    <gazebo kept="inside"/>
  </link>
  <link name="a/b"/><link name="c::d"/><link name="é 😀"/><link name="f"/>
  <link name="g"/><link name="h"/><link name="i"/>
  <joint name="hinge" type="revolute" kept="3">
    <origin xyz="1 2 3" rpy="0.4 1.5707963267948966 0.2"/><parent link="base"/><child link="a/b"/>
    <axis xyz="0.6 0 0.8" kept="4"/><limit lower="-1" upper="2" effort="3" velocity="4" kept="5"/>
    <dynamics damping="0.1" friction="0.2"/><mimic joint="slide" multiplier="-2" offset="0.5"/>
    <safety_controller soft_lower_limit="-0.9" soft_upper_limit="1.9" k_position="10" k_velocity="20"/>
    <calibration rising="0.1" falling="0.2"/><unknown><deep text="kept"/></unknown>
  </joint>
  <joint name="slide" type="prismatic"><parent link="base"/><child link="c::d"/>
    <limit lower="-0.1" upper="0.1" effort="0" velocity="0"/></joint>
  <joint name="wheel" type="continuous"><parent link="a/b"/><child link="é 😀"/><axis xyz="0 1 0"/>
    <limit lower="-1" upper="1" effort="7" velocity="8"/></joint>
  <joint name="plane" type="planar"><origin rpy="1 2 3"/><parent link="base"/><child link="f"/><axis xyz="0 0.6 0.8"/>
    <dynamics damping="0.3"/></joint>
  <joint name="float" type="floating"><origin xyz="0 1 0"/><parent link="base"/><child link="g"/></joint>
  <joint name="weld" type="fixed"><origin xyz="0 1 0"/><parent link="g"/><child link="h"/><axis xyz="0 0 1"/></joint>
  <joint name="bare" type="continuous"><parent link="h"/><child link="i"/></joint>
  <gazebo reference="base"><mu1>0.3</mu1></gazebo>
  <gazebo reference="hinge"><preserveFixedJoint>true</preserveFixedJoint></gazebo>
  <gazebo><plugin name="p" filename="p.so"><![CDATA[ a < b ]]></plugin></gazebo>
  <transmission name="t"><type>simple</type><joint name="hinge"/></transmission>
  <ros2_control name="r" type="system"><hardware/></ros2_control>
</robot>
"""
TETRAHEDRON = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n"


def _read(file: Path) -> Robot:
    return read_urdf(file, diagnostics=Diagnostics(), resolve=Resolver(use_environment=False))


def _round_trip(file: Path, folder: Path) -> tuple[Robot, Robot, Written]:
    robot = _read(file)
    written = Written.make(robot, folder)
    return robot, _read(written.file), written


def _differences(robot: Robot, again: Robot) -> list[str]:
    """What differs beside the order in which things are kept, and how meshes and textures are found."""
    for one in (robot, again):
        one.extras = [e for e in one.extras if 'strippath="false"' not in e.text]
        for node in (one, *one.links, *one.joints):
            node.extras.sort(key=lambda e: (e.tag, e.text))
    return [d for d in differences(robot, again) if "texture" not in d]


@pytest.mark.wide
@pytest.mark.parametrize("file", FILES, ids=asset_id)
def test_real_robots_come_back(file: Path, tmp_path: Path) -> None:
    """Everything of a real robot is the same, or the report says why not; and writing again changes nothing."""
    robot, again, written = _round_trip(file, tmp_path / "once")
    reported = {x.name for x in written.report}
    left = [d for d in _differences(robot, again) if not any(f"[{name}]" in d for name in reported)]
    assert left == []
    _, _, twice = _round_trip(written.file, tmp_path / "twice")
    _, _, thrice = _round_trip(twice.file, tmp_path / "thrice")
    assert thrice.file.read_bytes() == twice.file.read_bytes()


def test_everything_comes_back(tmp_path: Path) -> None:
    """Each element and attribute of a file that has all of them."""
    (tmp_path / "tetrahedron.obj").write_text(TETRAHEDRON)
    (tmp_path / "checker.png").write_bytes(b"\x89PNG")
    file = tmp_path / "everything.urdf"
    file.write_text(EVERYTHING, encoding="utf-8")
    robot, again, written = _round_trip(file, tmp_path / "out")
    assert _differences(robot, again) == []
    assert [str(x) for x in written.report if x.action.value != "extension"] == []
    assert len(list(written.report)) == 1  # <drake:declare_convex>
    assert _pairs(again) == _pairs(robot)
    assert (tmp_path / "out" / "textures" / "checker.png").read_bytes() == b"\x89PNG"


def _pairs(robot: Robot) -> set[frozenset[str | None]]:
    return {frozenset((a.link, b.link)) for a, b in colliding_pairs(robot)}


def test_a_newer_version_stays_what_it_is(tmp_path: Path) -> None:
    """Version 1.2 has capsules, and limits that may be absent."""
    file = tmp_path / "newer.urdf"
    file.write_text(
        '<robot name="r" version="1.2"><link name="a"><visual><geometry><capsule radius="1" length="2"/></geometry>'
        '</visual></link><link name="b"/><joint name="j" type="prismatic"><parent link="a"/><child link="b"/>'
        '<limit upper="3" acceleration="4" jerk="5"/></joint></robot>'
    )
    robot, again, written = _round_trip(file, tmp_path / "out")
    assert _differences(robot, again) == []
    assert len(written.report) == 0
    assert 'version="1.2"' in written.text


def test_writing_goes_through_the_one_function(tmp_path: Path) -> None:
    """`kinema.write` finds the format by the suffix and gives the report back."""
    robot = Robot(name="r", links=[Link(name="only")])
    report = kinema.write(robot, tmp_path / "r.urdf")
    assert (report.format, list(report)) == ("urdf", [])
    assert (tmp_path / "r.urdf").read_text() == (
        '<?xml version="1.0" encoding="utf-8"?>\n<robot name="r">\n  <link name="only"/>\n</robot>\n'
    )
