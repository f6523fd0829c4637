"""Surfaces that bounce, and that stick better than they slide, as USD and SDFormat ask for them: closed forms."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import kinema as km
from kinema.builder.collision_geoms import ContactParameters, combine_contact_parameters

BALL = """<sdf version="1.9"><world name="w"><model name="floor"><static>true</static><link name="l">
<collision name="c"><geometry><plane><normal>0 0 1</normal><size>9 9</size></plane></geometry></collision>
</link></model><model name="ball"><pose>0 0 0.6 0 0 0</pose><link name="l"><inertial><mass>1</mass>
<inertia><ixx>.004</ixx><iyy>.004</iyy><izz>.004</izz></inertia></inertial>
<collision name="c"><geometry><sphere><radius>.1</radius></sphere></geometry><surface><bounce>
<restitution_coefficient>0.8</restitution_coefficient>{threshold}</bounce></surface></collision></link></model>
</world></sdf>"""

SLED = """#usda 1.0
( metersPerUnit = 1
  kilogramsPerUnit = 1
  upAxis = "Z"
)
def Material "ice" ( prepend apiSchemas = ["PhysicsMaterialAPI"] )
{ float physics:staticFriction = 0.8
  float physics:dynamicFriction = 0.4
}
def Plane "floor" ( prepend apiSchemas = ["PhysicsCollisionAPI", "MaterialBindingAPI"] )
{ uniform token axis = "Z"
  rel material:binding:physics = </ice>
}
def Cube "sled" ( prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsMassAPI", "PhysicsCollisionAPI",
                  "MaterialBindingAPI"] )
{ double size = 0.2
  float physics:mass = 2
  double3 xformOp:translate = (0, 0, 0.0999)
  uniform token[] xformOpOrder = ["xformOp:translate"]
  rel material:binding:physics = </ice>
}
"""


@pytest.mark.parametrize(("threshold", "share"), [("", 0.8), ("<threshold>5</threshold>", 0.0)])
def test_a_ball_bounces(threshold: str, share: float, tmp_path: Path) -> None:
    """A drop of half a metre comes back to e² of it, to 2.5 % and a millimetre; where it is too slow, to nothing."""
    file = tmp_path / "ball.sdf"
    file.write_text(BALL.format(threshold=threshold), encoding="utf-8")
    scene = km.Scene(dt=0.001, quiet=True, codegen="loops")
    ball = scene.add(file)
    scene.build()
    scene.step(330)
    heights = []
    for _ in range(300):
        scene.step(2)
        heights.append(float(ball.get_qpos()[0, 2]) - 0.1)
    wanted = share**2 * 0.5
    assert abs(max(heights) - wanted) <= 0.025 * wanted + 1e-3


def test_a_sled_sticks_until_it_slides(tmp_path: Path) -> None:
    """Where a slope is between both coefficients, what rests stays, and what slides goes on by the smaller one."""
    file = tmp_path / "sled.usda"
    file.write_text(SLED, encoding="utf-8")
    angle = np.arctan(0.6)
    gravity = 9.81 * np.array([np.sin(angle), 0.0, -np.cos(angle)])
    scene = km.Scene(quiet=True, codegen="loops")
    sled = scene.add(file)
    scene.build(n_envs=2)
    scene.step(100)
    scene.set_gravity(gravity)
    start = sled.get_qpos()[:, 0]
    sled.set_qvel(np.array([[0.0], [0.5]]) * np.eye(6)[0])
    scene.step(250)
    moved, speed = sled.get_qpos()[:, 0] - start, sled.get_qvel()[:, 0]
    assert abs(speed[0]) < 0.01
    assert abs(moved[0]) < 0.005
    expected = 0.5 + 0.5 * (gravity[0] + 0.4 * gravity[2])
    assert abs(speed[1] / expected - 1.0) < 0.03


def test_two_surfaces() -> None:
    """The larger restitution and static friction count, as the larger friction does."""
    a, b = ContactParameters(restitution=0.2, static_friction=1.5), ContactParameters(restitution=0.7)
    both = combine_contact_parameters(a, b)
    assert (both.restitution, both.stiction_ratio) == (0.7, 1.5)
    assert combine_contact_parameters(ContactParameters(), ContactParameters()).stiction_ratio == 1.0
