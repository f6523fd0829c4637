"""Ten programs for MuJoCo's Python API and their ports, line by line: the same numbers, in no more lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

import kinema as km

from .programs import Pair, compare, model_file


def simulate_mujoco(file: str) -> Any:
    model = mujoco.MjModel.from_xml_path(file)
    data = mujoco.MjData(model)
    for _ in range(100):
        mujoco.mj_step(model, data)
    return data.qpos, data.qvel, data.time


def simulate_kinema(file: str) -> Any:
    scene = km.Scene(precision="double", quiet=True)
    robot = scene.add(file)
    scene.build()
    scene.step(100)
    return robot.get_qpos(), robot.get_qvel(), scene.time


def control_mujoco(file: str) -> Any:
    model = mujoco.MjModel.from_xml_path(file)
    data = mujoco.MjData(model)
    data.ctrl[:] = 0.7, -0.2
    mujoco.mj_step(model, data, 50)
    mujoco.mj_forward(model, data)
    return data.ctrl, data.qpos, data.qfrc_actuator


def control_kinema(file: str) -> Any:
    scene = km.Scene(precision="double", quiet=True)
    robot = scene.add(file)
    scene.build()
    robot.control([0.7, -0.2])
    scene.step(50)
    return robot.get_control(), robot.get_qpos(), robot.get_dofs_control_force()


def keyframe_mujoco(file: str) -> Any:
    model = mujoco.MjModel.from_xml_path(file)
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, model.key("home").id)
    mujoco.mj_step(model, data, 20)
    return data.qpos, data.qvel, data.joint("joint2").qpos


def keyframe_kinema(file: str) -> Any:
    robot = km.Scene(precision="double", quiet=True).add(file)
    robot.scene.build()
    robot.scene.reset(keyframe="home")
    robot.scene.step(20)
    return robot.get_qpos(), robot.get_qvel(), robot.get_dofs_position("joint2")


def kinematics_mujoco(file: str) -> Any:
    model = mujoco.MjModel.from_xml_path(file)
    data = mujoco.MjData(model)
    data.joint("joint1").qpos = 0.3
    data.joint("joint2").qpos = -1.2
    mujoco.mj_forward(model, data)
    return data.body("lower").xpos, data.body("lower").xquat, data.body("lower").xipos


def kinematics_kinema(file: str) -> Any:
    scene = km.Scene(precision="double", quiet=True)
    robot = scene.add(file)
    scene.build()
    robot.set_dofs_position([0.3, -1.2], "joint[12]")
    lower = robot.get_link("lower")
    return lower.get_pos(), lower.get_quat(), lower.get_pos(ref="link_com")


def jacobian_mujoco(file: str) -> Any:
    model = mujoco.MjModel.from_xml_path(file)
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, 0)
    mujoco.mj_forward(model, data)
    jacobian = np.zeros((6, model.nv))
    tip = data.body("lower").xpos + data.body("lower").xmat.reshape(3, 3) @ [0.2, 0, 0]
    mujoco.mj_jac(model, data, jacobian[:3], jacobian[3:], tip, model.body("lower").id)
    return (jacobian,)


def jacobian_kinema(file: str) -> Any:
    scene = km.Scene(precision="double", quiet=True)
    robot = scene.add(file)
    scene.build()
    scene.reset(keyframe=0)
    return (robot.get_jacobian("lower", local_point=[0.2, 0, 0]),)


def dynamics_mujoco(file: str) -> Any:
    model = mujoco.MjModel.from_xml_path(file)
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, 0)
    mujoco.mj_forward(model, data)
    inertia = np.zeros((model.nv, model.nv))
    mujoco.mj_fullM(model, data, inertia)
    return inertia, data.qfrc_bias, data.qfrc_passive, data.qacc


def dynamics_kinema(file: str) -> Any:
    scene = km.Scene(precision="double", quiet=True)
    robot = scene.add(file)
    scene.build()
    scene.reset(keyframe=0)
    inertia, bias, passive = robot.get_mass_mat(), robot.get_dofs_bias_force(), robot.get_dofs_passive_force()
    return inertia, bias, passive, robot.get_dofs_acceleration()


def contacts_mujoco(file: str) -> Any:
    model = mujoco.MjModel.from_xml_path(file)
    data = mujoco.MjData(model)
    mujoco.mj_step(model, data, 30)
    mujoco.mj_forward(model, data)
    wrench, total = np.zeros(6), np.zeros(3)
    for i in range(data.ncon):
        mujoco.mj_contactForce(model, data, i, wrench)
        total += data.contact[i].frame.reshape(3, 3).T @ wrench[:3]
    return total, data.contact.pos, data.contact.dist


def contacts_kinema(file: str) -> Any:
    scene = km.Scene(precision="double", quiet=True)
    robot = scene.add(file)
    scene.build()
    scene.step(30)
    found = robot.get_contacts()
    total = robot.get_links_net_contact_force()[:, robot.get_link("ball").idx]
    return total, found["position"], -found["penetration"]


def push_mujoco(file: str) -> Any:
    model = mujoco.MjModel.from_xml_path(file)
    data = mujoco.MjData(model)
    data.body("ball").xfrc_applied[:3] = 2.0, 0.0, 1.0
    mujoco.mj_step(model, data, 40)
    return data.qpos, data.qvel


def push_kinema(file: str) -> Any:
    robot = km.Scene(precision="double", quiet=True).add(file)
    robot.scene.build(external_forces=True)
    robot.apply_links_external_force([[2.0, 0.0, 1.0]], "ball")
    robot.scene.step(40)
    return robot.get_qpos(), robot.get_qvel()


def parameters_mujoco(file: str) -> Any:
    model = mujoco.MjModel.from_xml_path(file)
    model.opt.gravity[:] = 0, 0, -1.62
    model.opt.timestep = 0.001
    model.dof_damping[-2:] = 0.5
    data = mujoco.MjData(model)
    mujoco.mj_step(model, data, 40)
    return data.qpos, data.qvel, model.body_mass.sum()


def parameters_kinema(file: str) -> Any:
    scene = km.Scene(dt=0.001, gravity=(0, 0, -1.62), precision="double", quiet=True)
    robot = scene.add(file)
    robot.set_dofs_damping(0.5, "joint.")
    scene.build()
    scene.step(40)
    return robot.get_qpos(), robot.get_qvel(), robot.get_mass()


def state_mujoco(file: str) -> Any:
    model = mujoco.MjModel.from_xml_path(file)
    data = mujoco.MjData(model)
    mujoco.mj_step(model, data, 10)
    state = np.zeros(mujoco.mj_stateSize(model, mujoco.mjtState.mjSTATE_INTEGRATION))
    mujoco.mj_getState(model, data, state, mujoco.mjtState.mjSTATE_INTEGRATION)
    mujoco.mj_step(model, data, 10)
    mujoco.mj_setState(model, data, state, mujoco.mjtState.mjSTATE_INTEGRATION)
    mujoco.mj_step(model, data, 10)
    return data.qpos, data.qvel, data.time


def state_kinema(file: str) -> Any:
    scene = km.Scene(precision="double", quiet=True)
    robot = scene.add(file)
    scene.build()
    scene.step(10)
    state = scene.get_state()
    scene.step(10)
    scene.set_state(state)
    scene.step(10)
    return robot.get_qpos(), robot.get_qvel(), scene.time


PROGRAMS = [
    Pair("simulate", simulate_mujoco, simulate_kinema, model="ball"),
    Pair("control", control_mujoco, control_kinema),
    Pair("keyframe", keyframe_mujoco, keyframe_kinema),
    Pair("kinematics", kinematics_mujoco, kinematics_kinema),
    Pair("jacobian", jacobian_mujoco, jacobian_kinema),
    Pair("dynamics", dynamics_mujoco, dynamics_kinema),
    Pair("contacts", contacts_mujoco, contacts_kinema, model="ball"),
    Pair("push", push_mujoco, push_kinema, model="ball"),
    Pair("parameters", parameters_mujoco, parameters_kinema, 1e-8),
    Pair("state", state_mujoco, state_kinema),
]


@pytest.mark.parametrize("pair", PROGRAMS, ids=[p.name for p in PROGRAMS])
def test_a_program_for_mujoco(pair: Pair, tmp_path: Path) -> None:
    file = str(model_file(tmp_path, pair.model))
    assert callable(pair.original)
    compare(pair, pair.original(file), pair.port(file))
