"""MJCF to MJCF: the layouts of MuJoCo's vectors, the names of assets, and numbers that nothing uses."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from kinema.core import collect
from kinema.read import read
from kit.mjcf_several import PART, WHOLE
from kit.mujoco_models import load
from kit.written.mjcf import write

from .mjmodel_compare import differences

UNUSED = """
<mujoco model="unused">
  <compiler autolimits="false"/>
  <default><tendon width=".02" rgba="1 0 0 1"/></default>
  <asset>
    <hfield name="flat" nrow="2" ncol="2" size="2 1.5 .3 .1" elevation="0 0 0 0"/>
    <mesh name="z" vertex="0 0 0 1 0 0 0 1 0 0 0 1"/><mesh name="a" vertex="0 0 0 2 0 0 0 1 0 0 0 1"/>
    <mesh name="again" vertex="0 0 0 1 0 0 0 1 0 0 0 1"/>
    <material name="zz" rgba="1 0 0 1"/><material name="aa" rgba="0 1 0 1"/>
  </asset>
  <worldbody>
    <geom name="field" type="hfield" hfield="flat" pos="0 0 -2"/>
    <body name="b" pos="0 0 3">
      <joint name="j" axis="0 1 0" limited="false" range="-30 40"/>
      <geom name="ghost" size=".1" contype="0" conaffinity="0" condim="4" friction=".3 .2 .1" solref=".01 .9"
        margin=".01" gap=".005" priority="3"/>
      <geom type="mesh" mesh="a" material="aa"/><geom type="mesh" mesh="again" pos="0 2 0"/>
      <body pos="3 0 0">
        <joint name="k" type="slide" limited="false" range="-1 1"/>
        <geom type="mesh" mesh="z" material="zz"/><site name="s"/>
        <body pos="3 0 0">
          <joint name="ball" type="ball" limited="false" range="0 50"/><geom size=".1"/><site name="e"/>
        </body>
      </body>
    </body>
  </worldbody>
  <tendon>
    <fixed name="fixed"><joint joint="j" coef="2"/></fixed>
    <spatial name="line" limited="false" range="0 2"><site site="s"/><site site="e"/></spatial>
  </tendon>
  <actuator><motor name="motor" joint="j" ctrllimited="false" ctrlrange="-1 2"/></actuator>
</mujoco>
"""

MIXED = """
<mujoco model="mixed">
  <worldbody>
    <geom name="floor" type="plane" size="9 9 1" pos="0 0 -2"/>
    <body name="left" pos="0 1 1"><joint name="l" axis="0 1 0"/><geom name="gl" size=".1"/><site name="sl"/></body>
    <body name="right" pos="0 -1 1"><joint name="r" axis="0 1 0"/><geom name="gr" size=".2"/></body>
    <body name="lead" mocap="true" pos="0 1 1"><geom size=".1" contype="0" conaffinity="0"/></body>
    <body name="loose" pos="2 0 1"><freejoint/><geom size=".3"/></body>
    <body name="drum" pos="0 3 1"><joint name="d" axis="1 0 0"/><geom size=".4"/></body>
  </worldbody>
  <contact><pair geom1="gl" geom2="gr"/><pair geom1="gr" geom2="gl" friction=".5 .5 .1 .1 .1"/></contact>
  <equality><weld body1="lead" body2="left"/><joint joint1="d" joint2="r"/></equality>
  <keyframe><key qpos=".1 .2 2 0 1 1 0 0 0 .3"/></keyframe>
</mujoco>
"""
"""Robots of which each is tied to a body that others stand before; a pair that is named twice touches twice."""


def _file(text: str, folder: Path, **others: str) -> Path:
    for name, content in {"model": text, **others}.items():
        (folder / f"{name}.xml").write_text(content, encoding="utf-8")
    return folder / "model.xml"


def _differences(file: Path) -> list[str]:
    written = write(read(file, policy=collect), file.parent / "out")
    return differences(load(file), written.model)


def test_the_order_of_several_robots_in_several_files(tmp_path: Path) -> None:
    """`sensordata`, `ctrl` and the rest have the layout they had, whoever each entry is about."""
    assert _differences(_file(WHOLE, tmp_path, part=PART)) == []


def test_the_order_of_bodies_of_robots_that_are_mixed(tmp_path: Path) -> None:
    """Bodies, and with them `qpos`, stay where they were; and pairs that name the same geoms again stay."""
    assert _differences(_file(MIXED, tmp_path)) == []


@pytest.mark.parametrize("section", ["asset", "deformable"])
def test_skins_come_along(section: str, tmp_path: Path) -> None:
    """With no mesh beside them, from the folder that the file names; what is not there is not referred to."""
    skin = f'<{section}><skin name="s" file="s.skn"/></{section}>'
    text = (
        f'<mujoco><compiler meshdir="m"/><worldbody><body name="b"><geom size="1"/></body></worldbody>{skin}</mujoco>'
    )
    file = _file(text, tmp_path)
    robot = read(file, policy=collect)
    assert write(robot, tmp_path / "without").model.nskin == 0
    (tmp_path / "m").mkdir()
    corner = [
        struct.pack("<4i", 3, 3, 1, 1),
        struct.pack("<9f", 0, 0, 0, 1, 0, 0, 0, 1, 0),
        struct.pack("<6f", *[0] * 6),
    ]
    bone = (
        b"b".ljust(40, b"\0") + struct.pack("<3f4fi", *[0] * 3, 1, 0, 0, 0, 3) + struct.pack("<3i3f", 0, 1, 2, 1, 1, 1)
    )
    (tmp_path / "m" / "s.skn").write_bytes(b"".join([*corner, struct.pack("<3i", 0, 1, 2), bone]))
    assert load(file).nskin == write(read(file, policy=collect), tmp_path / "with").model.nskin == 1


def test_what_is_written_down_and_not_used(tmp_path: Path) -> None:
    """Ranges that are switched off, contact of what never touches, looks by class alone, the height of a flat field."""
    assert _differences(_file(UNUSED, tmp_path)) == []


@pytest.mark.parametrize("moved", ["q2", "m2", "z"])
def test_the_comparison_sees_another_order(moved: str, tmp_path: Path) -> None:
    """The comparison itself: an entry that changes places is a difference."""
    robot = read(_file(WHOLE, tmp_path, part=PART), policy=collect)
    for home in (robot, *robot.robots):  # type: ignore[union-attr]
        for kind in ("sensors", "actuators", "frames"):
            items = getattr(home, kind)
            items.sort(key=lambda x: x.name == moved)
            for item in items:
                item.order = 99 if item.name == moved else item.order
    written = write(robot, tmp_path / "out")
    assert differences(load(tmp_path / "model.xml"), written.model)
