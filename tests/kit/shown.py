"""Robots that are looked at: small ones, whose pictures are known."""

from __future__ import annotations

from pathlib import Path

import pytest

LEVER = """<robot name="lever">
  <material name="grey"><color rgba="0.4 0.4 0.4 1"/></material>
  <material name="red"><color rgba="1 0 0 1"/></material>
  <link name="stand">
    <visual><geometry><box size="0.1 0.1 0.6"/></geometry><material name="grey"/></visual>
  </link>
  <link name="arm">
    <inertial><origin xyz="0.2 0 0"/><mass value="1"/>
      <inertia ixx="0.001" iyy="0.02" izz="0.02" ixy="0" ixz="0" iyz="0"/></inertial>
    <visual><origin xyz="0.2 0 0"/><geometry><box size="0.4 0.06 0.06"/></geometry><material name="red"/></visual>
    <collision><origin xyz="0.2 0 0"/><geometry><box size="0.4 0.06 0.06"/></geometry></collision>
  </link>
  <link name="heavy">
    <inertial><mass value="1"/><inertia ixx="1" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/></inertial>
  </link>
  <joint name="turn" type="revolute">
    <parent link="stand"/><child link="arm"/><origin xyz="0 -0.1 0.2"/><axis xyz="0 1 0"/>
    <limit lower="-1.5" upper="1.5" effort="50" velocity="5"/>
  </joint>
  <joint name="weld" type="fixed"><parent link="stand"/><child link="heavy"/></joint>
</robot>
"""
"""A red arm that turns at a grey stand, and a link whose inertia no body can have."""
CHROMIUM = Path("/usr/bin/chromium")
FLAGS = ["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]


def needs_viser() -> None:
    """Skip where there is nothing to show robots with."""
    pytest.importorskip("viser", reason="the viewer needs viser: pip install 'kinema[viewer]'")


def needs_browser() -> None:
    """Skip where there is nobody to look."""
    needs_viser()
    pytest.importorskip("playwright", reason="a browser is driven by playwright: pip install playwright")
    if not CHROMIUM.exists():
        pytest.skip(f"there is no browser at {CHROMIUM}: apt install chromium")
