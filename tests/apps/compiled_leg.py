"""What tests of compiled libraries and pages share: a small robot in contact, and programs of the system."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

import kinema as km

LEG = """
<mujoco model="leg">
  <compiler angle="radian"/>
  <option timestep="0.004" integrator="implicitfast"/>
  <worldbody>
    <geom type="plane" size="5 5 1"/>
    <body name="hip" pos="0 0 0.62">
      <joint name="lift" type="slide" axis="0 0 1" range="-1 1"/>
      <inertial pos="0 0.01 0" mass="2" diaginertia="0.02 0.02 0.01"/>
      <body name="thigh">
        <joint name="swing" axis="0 1 0" damping="0.5" stiffness="2" armature="0.02"/>
        <geom type="capsule" fromto="0 0 0 0 0 -0.3" size="0.03" mass="0.5" contype="0" conaffinity="0"/>
        <body name="shin" pos="0 0 -0.3">
          <joint name="knee" axis="0 1 0" range="-2 0.1" limited="true"/>
          <geom type="sphere" pos="0 0 -0.28" size="0.04" mass="0.2"/>
          <site name="foot" pos="0 0 -0.28"/>
        </body>
      </body>
    </body>
  </worldbody>
  <actuator><motor name="drive" joint="swing" gear="0.5"/><position name="hold" joint="knee" kp="20"/></actuator>
  <sensor><accelerometer name="shock" site="foot"/><jointpos name="angle" joint="knee"/></sensor>
  <keyframe><key name="bent" qpos="0 0.3 -0.6"/></keyframe>
</mujoco>
"""


def tool(name: str) -> str:
    """A program of the system; without it the test is skipped."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"there is no {name}")
    return found


def run(*command: object, timeout: float = 300.0) -> bytes:
    """What a program prints; it must succeed."""
    done = subprocess.run([str(x) for x in command], capture_output=True, check=False, timeout=timeout)
    assert done.returncode == 0, done.stderr.decode(errors="replace") + done.stdout.decode(errors="replace")[-500:]
    return done.stdout or done.stderr  # to which QEMU prints what a board without operating system prints


def make_scene(file: Path, precision: str = "double") -> km.Scene:
    """A scene of one robot, built."""
    scene = km.Scene(precision=precision, quiet=True)
    scene.add(file)
    scene.build()
    return scene
