"""Small MJCF models for the tests, and how to read them."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np

from kinema.core import Array, Diagnostics
from kinema.description import Robot, World
from kinema.read.mjcf import read_mjcf

BALL = '<geom size=".1"/>'

KINEMATICS = """
<mujoco model="kinematics">
  <compiler angle="degree" eulerseq="XYZ"/>
  <default>
    <default class="light"><geom density="50" rgba="1 0 0 1"/><joint damping="3"/></default>
  </default>
  <worldbody>
    <body name="base" pos=".1 .2 .3" euler="10 20 30">
      <geom type="box" size=".1 .2 .3"/>
      <frame name="turned" pos="0 0 .5" euler="0 45 0" childclass="light">
        <body name="stacked" pos="0 .1 0">
          <joint name="x" axis="1 0 0" pos="0 0 .1" ref="20" range="-100 80"/>
          <joint name="y" axis="0 1 1" pos=".1 0 0" type="slide" ref=".3"/>
          <joint name="z" axis="0 0 1" pos="0 .3 0" limited="false" range="0 1"/>
          <geom type="capsule" fromto="0 0 0 .3 .2 .1" size=".05"/>
          <body name="ball" pos="0 0 .4">
            <joint name="b" type="ball" pos=".1 .2 .3" range="0 70"/>
            <joint name="after_ball" axis="1 2 3" pos=".2 0 0" type="slide"/>
            <geom type="ellipsoid" size=".1 .2 .3" pos=".1 0 0" axisangle="1 1 0 40"/>
            <body name="fixed" quat=".5 .5 .1 .2"><geom type="cylinder" size=".1 .2" zaxis="1 1 1"/></body>
          </body>
        </body>
      </frame>
    </body>
  </worldbody>
</mujoco>
"""

FREE_AND_MOCAP = f"""
<mujoco>
  <worldbody>
    <geom name="floor" type="plane" size="2 3 .1"/>
    <body name="drone" pos="0 0 1" quat="1 1 0 0"><freejoint name="free"/>{BALL}
      <body name="arm" pos=".2 0 0"><joint name="j" axis="0 1 0"/>{BALL}</body>
    </body>
    <body name="hand" mocap="true" pos="1 2 3" euler="0 0 90">{BALL}
      <body name="finger" pos="0 0 .2"><joint name="f"/>{BALL}</body>
    </body>
    <body name="table" pos="3 0 0"><geom type="box" size="1 1 .1"/></body>
  </worldbody>
  <keyframe><key name="home" qpos="1 2 3 0 1 0 0 .5 .25" qvel="0 0 0 0 0 0 2 0" mpos="4 5 6" time="3"/></keyframe>
</mujoco>
"""

REPLICATED = f"""
<mujoco>
  <compiler inertiafromgeom="true" balanceinertia="true"/>
  <worldbody>
    <replicate count="3" offset=".5 0 0" euler="0 0 30" sep="-">
      <body name="leg" pos="0 0 1"><inertial mass="3" pos="0 0 0" diaginertia="1 1 1"/>
        <joint name="hip" axis="0 1 0"/>{BALL}<geom name="tip" size=".02" pos="0 0 -.3" mass=".25"/>
      </body>
    </replicate>
  </worldbody>
</mujoco>
"""

INERTIAS = """
<mujoco>
  <compiler boundmass=".5" boundinertia=".01"/>
  <worldbody>
    <body name="full"><joint/><inertial mass="2" pos=".1 .2 .3" fullinertia="1 2 2.5 .1 .2 .3"/>
      <geom size=".1" mass="100"/></body>
    <body name="turned"><joint/><inertial mass="2" pos=".1 .2 .3" diaginertia="1 2 2.5" euler="10 20 30"/></body>
    <body name="tiny"><joint/><geom size=".001"/></body>
    <body name="shell"><joint/><geom type="box" size=".1 .2 .3" shellinertia="true" mass="2"/></body>
    <body name="many"><joint/><geom type="capsule" size=".1 .2" pos=".5 0 0"/>
      <geom type="cylinder" size=".1 .2" mass="0"/>
      <geom type="ellipsoid" size=".1 .2 .3" pos="0 .4 0" density="5"/></body>
  </worldbody>
</mujoco>
"""

MESHES = """
<mujoco>
  <asset>
    <mesh name="plain" vertex="0 0 0  1 0 0  0 1 0  0 0 1  2 2 2"/>
    <mesh name="faces" vertex="0 0 0  1 0 0  0 1 0  0 0 1" face="0 2 1  0 1 3  0 3 2  1 2 3"/>
    <mesh name="moved" vertex="0 0 0  1 0 0  0 1 0  0 0 1  2 2 2" refpos="1 2 3" scale="1 2 -3"/>
    <mesh name="turned" vertex="0 0 0  1 0 0  0 1 0  0 0 1  2 2 2" refpos="1 2 3" refquat="1 2 3 4" scale="2 2 2"/>
    <mesh name="skewed" vertex="0 0 0  1 0 0  0 1 0  0 0 1  2 2 2" refpos="1 2 3" refquat="1 2 3 4" scale="1 2 -3"/>
    <mesh name="torus" builtin="supertorus" params="8 .3 1 1"/>
    <hfield name="hills" nrow="2" ncol="3" size="1 2 3 .5" elevation="0 1 2 3 4 5"/>
  </asset>
  <worldbody>
    <geom name="hills" type="hfield" hfield="hills" pos="0 0 -9"/>
    <body name="a" pos="1 2 3" euler="10 20 30"><joint/>
      <geom name="plain" type="mesh" mesh="plain" pos=".1 .2 .3" euler="5 6 7"/>
      <geom name="faces" type="mesh" mesh="faces"/>
      <geom name="moved" type="mesh" mesh="moved" pos=".1 .2 .3" euler="5 6 7"/>
      <geom name="turned" type="mesh" mesh="turned" pos=".1 .2 .3" euler="5 6 7"/>
      <geom name="skewed" type="mesh" mesh="skewed" pos=".1 .2 .3" euler="5 6 7"/>
      <geom name="torus" type="mesh" mesh="torus" pos=".1 .2 .3" contype="0" conaffinity="0"/>
      <geom name="box" type="box" mesh="moved" pos=".1 .2 .3" euler="5 6 7"/>
      <geom name="capsule" type="capsule" mesh="moved" fitscale="2"/>
    </body>
  </worldbody>
</mujoco>
"""

FUSED = """
<mujoco>
  <compiler fusestatic="true" discardvisual="true"/>
  <worldbody>
    <body name="base" pos="0 0 1"><geom name="g" size=".1"/>
      <body name="arm" pos="1 0 0"><joint name="j"/><geom name="a" size=".1"/>
        <body name="lump" pos="0 1 0"><geom name="l" size=".1"/>
          <geom name="seen" size=".3" contype="0" conaffinity="0"/>
          <body name="tip" pos="0 1 0"><joint name="k"/><geom name="t" size=".1"/></body>
        </body>
      </body>
    </body>
  </worldbody>
</mujoco>
"""

ALIGNED = """
<mujoco>
  <compiler alignfree="true" settotalmass="7"/>
  <worldbody>
    <body name="a" pos="1 2 3" euler="10 20 30"><freejoint/>
      <geom type="box" size=".1 .2 .3" pos=".3 0 0" euler="1 2 3"/><geom size=".2" pos="0 .5 .5"/></body>
  </worldbody>
</mujoco>
"""

INLINE = {
    "kinematics": KINEMATICS,
    "free_and_mocap": FREE_AND_MOCAP,
    "replicated": REPLICATED,
    "inertias": INERTIAS,
    "meshes": MESHES,
    "fused": FUSED,
    "aligned": ALIGNED,
}


def write(folder: Path, text: str, name: str = "model.xml") -> Path:
    """The text as a file."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def read_text(folder: Path, text: str, diagnostics: Diagnostics | None = None) -> Robot | World:
    """What Kinema reads from a text."""
    return read_mjcf(write(folder, text), diagnostics=diagnostics)


def in_body(inside: str, rest: str = "") -> str:
    """A model with one hinged body that holds some elements."""
    body = f'<body name="b"><joint name="j" axis="0 0 1"/>{BALL}{inside}</body>'
    return f'<mujoco model="m"><worldbody>{body}</worldbody>{rest}</mujoco>'


def configuration(described: Robot | World, q: Array) -> dict[str, Array]:
    """MuJoCo's positions by joint: in the order of the description's joints, as its contract says."""
    result: dict[str, Array] = {}
    position = 0
    for joint in described.joints:
        if joint.n_qs:
            result[joint.name] = q[position : position + joint.n_qs]
            position += joint.n_qs
    assert position == len(q)
    return result


def binary_stl(vertices: np.ndarray, faces: np.ndarray) -> bytes:
    """A mesh file."""
    data = bytes(80) + struct.pack("<I", len(faces))
    for face in faces:
        data += struct.pack("<12f", 0, 0, 0, *vertices[face].ravel()) + bytes(2)
    return data


VERTICES = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [1.5, 1, 1]], dtype=float)
FACES = np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 4, 3], [2, 3, 4], [1, 2, 4]])
STL = binary_stl(VERTICES, FACES)
