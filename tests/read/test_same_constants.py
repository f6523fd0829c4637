"""Constants of models do not depend on how MuJoCo and OpenUSD round, which differs on other processors.

Another processor is imitated: everything that the two libraries compute is changed in its last bits.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import model_digests
import numpy as np
import pytest

import kinema as km
from kinema.builder import EntitySpec, build_model
from kinema.core import Diagnostics
from kinema.read import mjcf
from kinema.read.mjcf.mujoco_compiler import CompiledModel, compile_model
from kinema.read.usd.world_transforms import WorldTransforms
from kit.assets import assets

DERIVED_ARRAYS = (
    *("body_pos", "body_quat", "body_ipos", "body_iquat", "body_inertia", "body_mass", "geom_pos", "geom_quat"),
    *("site_pos", "site_quat", "cam_pos", "cam_quat", "jnt_pos", "jnt_axis", "mesh_pos", "mesh_quat"),
)
ROBOT = """
<mujoco>
  <compiler eulerseq="xYz"/>
  <worldbody>
    <frame pos="1 2 3" euler="10 20 30">
      <body name="base" pos="0.1 0.2 0.3" axisangle="1 1 0 40">
        <freejoint/>
        <geom fromto="0 0 0 0.1 0.2 0.5" size="0.02" type="capsule"/>
        <geom type="box" size="0.1 0.2 0.3" pos="1 0 0" euler="10 20 31"/>
        <geom type="ellipsoid" size="0.1 0.2 0.3" zaxis="1 1 1" mass="2"/>
        <site name="line" type="cylinder" fromto="0 0.1 0.3 0.1 0 0" size="0.01"/>
        <frame quat="1 1 0.5 0">
          <site name="tip" xyaxes="1 1 0.1 0 1 1"/>
          <body name="arm" pos="1 2 3" zaxis="0.1 -0.2 -1">
            <joint name="elbow" axis="1 2 3" pos="0.1 0 0.2" range="-20 40"/>
            <inertial pos="0 0.1 1" mass="1" diaginertia="1 2 2.5" euler="10 20 30"/>
            <geom type="cylinder" fromto="0 0.3 0 0.1 0.2 -0.5" size="0.1"/>
          </body>
        </frame>
      </body>
    </frame>
    <replicate count="3" euler="0 10 31" offset="1 0.1 0">
      <body pos="1 1 5"><joint/><geom size="0.3"/></body>
    </replicate>
    <body name="anchor" mocap="true" pos="5 5 5" quat="1 2 3 4"/>
  </worldbody>
  <actuator><position joint="elbow" kp="30" dampratio="0.7" gear="2"/></actuator>
  <equality>
    <weld body1="base" body2="arm" anchor="0.1 0.2 0.3"/>
    <weld body1="arm" relpose="1 2 3 1 1 0 0"/>
    <connect body1="arm" body2="base" anchor="1 2 3"/>
  </equality>
  <keyframe><key qpos="1 2 3 1 2 3 4 0.1 0 0 0"/></keyframe>
</mujoco>
"""


def next_numbers(values: Any) -> np.ndarray:
    """All numbers but zeros one bit away from zero."""
    return np.asarray(np.where(values == 0.0, values, np.nextafter(values, np.inf * np.sign(values))))


def rounded_otherwise(compiled: CompiledModel) -> CompiledModel:
    """A compiled model with the last bits of all that MuJoCo has computed changed."""
    model = compiled.model
    for name in DERIVED_ARRAYS:
        values = getattr(model, name)
        values[...] = next_numbers(values)
    model.eq_data[:, 3:10] = next_numbers(model.eq_data[:, 3:10])
    for kind, sizes in (("geom", model.geom_size), ("site", model.site_size)):
        elements = {e.id: e for e in getattr(compiled.spec, f"{kind}s")}
        for i, element in elements.items():
            if not np.isnan(element.fromto[0]):
                along = 1 if int(getattr(model, f"{kind}_type")[i]) in (3, 5) else 2  # capsule, cylinder
                sizes[i][along] = next_numbers(sizes[i][along])
    for joint in range(model.njnt):
        address = int(model.jnt_qposadr[joint]) + (3 if model.jnt_type[joint] == 0 else 0)  # free
        if model.jnt_type[joint] < 2:  # free or ball
            for coordinates in (model.qpos0, *model.key_qpos):
                coordinates[address : address + 4] = next_numbers(coordinates[address : address + 4])
    model.key_mquat[...] = next_numbers(model.key_mquat)
    for actuator in compiled.spec.actuators:
        if actuator.biasprm[2] > 0.0:
            model.actuator_biasprm[actuator.id][2] = next_numbers(model.actuator_biasprm[actuator.id][2])
    return compiled


def constants(file: Path) -> bytes:
    """All numbers of the model of a file."""
    diagnostics = Diagnostics()
    description = km.read(file, policy=lambda _: None)
    model = build_model([EntitySpec(name="robot", description=description)], None, diagnostics, with_contacts=True)
    return b"".join(model_digests.array_bytes(model))


def check_equal(file: Path, imitate: Callable[[], None]) -> None:
    before = constants(file)
    imitate()
    assert constants(file) == before


def imitate_mujoco(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    return lambda: monkeypatch.setattr(mjcf, "compile_model", lambda *a: rounded_otherwise(compile_model(*a)))


@pytest.mark.parametrize("name", ["mujoco_humanoid/humanoid.xml", "mujoco_car/car.xml", "wonik_allegro/right_hand.xml"])
def test_mjcf_files(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    check_equal(assets(f"mjcf/{name}"), imitate_mujoco(monkeypatch))


def test_every_way_to_place_things_in_mjcf(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Orientations of all kinds, frames, replicates, ends of geoms, constraints, keyframes, damping ratios."""
    file = tmp_path / "robot.xml"
    file.write_text(ROBOT)
    check_equal(file, imitate_mujoco(monkeypatch))


@pytest.mark.parametrize(
    "options",
    ['settotalmass="3" balanceinertia="true"', 'boundmass="0.2" boundinertia="0.003"'],
)
def test_masses_that_the_compiler_changes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, options: str) -> None:
    file = tmp_path / "robot.xml"
    file.write_text(
        f"""<mujoco><compiler {options}/><worldbody>
        <body><joint axis="0 1 0"/><geom type="box" size="0.1 0.12 0.03" density="11"/>
        <body pos="0.1 0 0.3"><joint/><inertial pos="0 0 0.1" mass="0.7" diaginertia="0.002 0.001 0.004" euler="9 8 7"/>
        <body pos="0.1 0.2 0.3"><joint axis="1 0 0"/><geom size="0.03" fromto="0 0 0 0.1 0.1 0.1" type="capsule"/>
        </body></body></body></worldbody></mujoco>"""
    )
    check_equal(file, imitate_mujoco(monkeypatch))


STAGE = """#usda 1.0
(
    metersPerUnit = 1
    upAxis = "Y"
    defaultPrim = "robot"
)
def PhysicsScene "scene" {}
def Xform "robot" (prepend apiSchemas = ["PhysicsArticulationRootAPI"])
{
    double3 xformOp:translate = (0.1, 0.2, 0.3)
    float xformOp:rotateZ:tilt = 20
    uniform token[] xformOpOrder = ["xformOp:translate", "xformOp:rotateZ:tilt"]
    def Xform "base" (prepend apiSchemas = ["PhysicsRigidBodyAPI"])
    {
        float3 xformOp:rotateZYX = (10, 20, 31)
        quatf xformOp:orient = (0.98, 0.1, 0.12, 0.11)
        uniform token[] xformOpOrder = ["xformOp:rotateZYX", "xformOp:orient"]
        def Cube "box" (prepend apiSchemas = ["PhysicsCollisionAPI"])
        {
            double size = 0.3
            float3 xformOp:scale = (1, 1.7, 0.6)
            double3 xformOp:translate:p = (0.1, 0, 0.2)
            float xformOp:rotateX = 33
            uniform token[] xformOpOrder = ["xformOp:translate:p", "xformOp:rotateX", "xformOp:scale",
                "!invert!xformOp:translate:p"]
        }
    }
    def Xform "arm" (prepend apiSchemas = ["PhysicsRigidBodyAPI"])
    {
        matrix4d xformOp:transform = ((0.6, 0.8, 0, 0), (-0.8, 0.6, 0, 0), (0, 0, 1, 0), (0.5, 0.1, 0.2, 1))
        uniform token[] xformOpOrder = ["xformOp:transform", "!invert!xformOp:rotateXYZ:turn", "xformOp:rotateY:turn"]
        double3 xformOp:rotateXYZ:turn = (12, 23, 34)
        float xformOp:rotateY:turn = 13
        def Cylinder "rod" (prepend apiSchemas = ["PhysicsCollisionAPI"])
        {
            double radius = 0.1
            double height = 0.7
            float xformOp:scaleZ = 1.5
            uniform token[] xformOpOrder = ["xformOp:scaleZ"]
        }
    }
    def PhysicsRevoluteJoint "joint"
    {
        rel physics:body0 = </robot/base>
        rel physics:body1 = </robot/arm>
        uniform token physics:axis = "Z"
        point3f physics:localPos0 = (0.3, 0, 0)
        quatf physics:localRot1 = (0.9, 0.1, 0.3, 0.2)
    }
}
"""


def imitate_openusd(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    matrix = WorldTransforms._openusd_matrix
    return lambda: monkeypatch.setattr(WorldTransforms, "_openusd_matrix", lambda *a: next_numbers(matrix(*a)))


@pytest.mark.parametrize("name", ["newton_tests/humanoid_mjc.usda", "conv_urdf_minitaur/quadruped.usda"])
def test_usd_files(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    check_equal(assets(f"usd/{name}"), imitate_openusd(monkeypatch))


def test_every_transform_operation_of_usd(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Translations, scales, rotations about one and three axes, quaternions and matrices, also inverted."""
    file = tmp_path / "robot.usda"
    file.write_text(STAGE)
    check_equal(file, imitate_openusd(monkeypatch))
