"""Coordinates, links, actuators and sensors are in file order, whatever equality constraints connect the trees."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest
from hypothesis import given, settings

import kinema as km
from kinema.core import Array
from kit.robots.seeds import seeds

DT = 0.002


def random_forest(seed: int) -> str:
    """MJCF of several random trees without contacts, with random equalities, actuators, sensors and one keyframe."""
    rng = np.random.default_rng(seed)
    n_trees, bodies, joints, hinges = int(rng.integers(3, 7)), [], [], []
    trees = ""
    for tree in range(n_trees):
        text, end = "", ""
        for depth in range(int(rng.integers(1, 4))):
            body = f"b{len(bodies)}"
            kinds = ["hinge", "slide", "ball"] + (["free"] if depth == 0 else [])
            position = f"{tree} {0.3 * depth:.2f} {1 + 0.1 * depth:.2f}"
            text += f'<body name="{body}" pos="{position if depth == 0 else "0.1 0.3 0.1"}">'
            for kind in [str(rng.choice(kinds))] if rng.random() < 0.7 else ["slide", "hinge"]:
                name = f"j{len(joints)}"
                joints.append(name)
                hinges += [name] * (kind in ("hinge", "slide"))
                axis = "" if kind in ("free", "ball") else ' axis="{:.3f} {:.3f} 1"'.format(*rng.normal(size=2))
                text += f'<joint name="{name}" type="{kind}" damping="{0 if kind == "free" else 0.1}"{axis}/>'
            text += f'<geom size=".1 .08 .05" type="box" pos=".1 .05 0" mass="{rng.uniform(1, 3):.3f}"/>'
            text += f'<site name="s{len(bodies)}" pos=".1 0 0"/>'
            bodies.append(body)
            end += "</body>"
        trees += text + end

    def pick(names: list[str], n: int) -> list[str]:
        return [names[i] for i in rng.permutation(len(names))[:n]]

    equalities = "".join(
        '<connect body1="{}" body2="{}" anchor="0 0 0"/>'.format(*pick(bodies, 2))
        for _ in range(int(rng.integers(1, 3)))
    )
    equalities += '<weld body1="{}" body2="{}"/>'.format(*pick(bodies, 2))
    if len(hinges) > 1:
        equalities += '<joint joint1="{}" joint2="{}"/>'.format(*pick(hinges, 2))
    driven = pick(hinges, 3)
    actuators = "".join(f'<position name="a{i}" joint="{joint}" kp="{5 + i}"/>' for i, joint in enumerate(driven))
    sensors = "".join(f'<jointpos name="q{i}" joint="{joint}"/>' for i, joint in enumerate(pick(hinges, 4)))
    sensors += "".join(f'<framepos name="p{b}" objtype="body" objname="{b}"/>' for b in pick(bodies, 3))
    return f"""<mujoco><option timestep="{DT}" integrator="implicitfast"><flag contact="disable"/></option>
    <worldbody>{trees}</worldbody><equality>{equalities}</equality><actuator>{actuators}</actuator>
    <sensor>{sensors}</sensor></mujoco>"""


def _random_state(model: Any, rng: np.random.Generator) -> tuple[Array, Array]:
    q, v = model.qpos0.copy(), 0.3 * rng.normal(size=model.nv)
    mujoco.mj_integratePos(model, q, 0.2 * rng.normal(size=model.nv), 1.0)
    return q, v


def _with_keyframe(text: str, q: Array, v: Array, ctrl: Array) -> str:
    def numbers(values: Array) -> str:
        return " ".join(map(repr, values.tolist()))

    key = f'<key name="there" qpos="{numbers(q)}" qvel="{numbers(v)}" ctrl="{numbers(ctrl)}"/>'
    return text.replace("</mujoco>", f"<keyframe>{key}</keyframe></mujoco>")


def compare_with_mujoco(text: str, folder: Path, seed: int) -> None:
    """Names, ranges, coordinates by joint, keyframe, forward kinematics, sensors and a step equal MuJoCo's."""
    rng, model = np.random.default_rng(seed), mujoco.MjModel.from_xml_string(text)
    q, v = _random_state(model, rng)
    text = _with_keyframe(text, q, v, rng.normal(size=model.nu))
    model = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(model)
    file = folder / "forest.xml"
    file.write_text(text)
    described = km.read(file)
    assert [link.name for link in described.links] == [model.body(b).name for b in range(1, model.nbody)]
    names = [model.joint(j).name for j in range(model.njnt)]
    assert [joint.name for joint in described.joints if joint.n_qs] == names
    scene = km.Scene(dt=DT, integrator="implicitfast", precision="double", quiet=True)
    robot = scene.add(described)
    scene.build(2)
    assert [link.name for link in robot.links] == [link.name for link in described.links]
    assert [joint.name for joint in robot.joints] == names
    assert [joint.qs_idx[0] for joint in robot.joints] == model.jnt_qposadr.tolist()
    assert [joint.dofs_idx[0] for joint in robot.joints] == model.jnt_dofadr.tolist()
    assert robot.actuator_names == [model.actuator(a).name for a in range(model.nu)]
    mujoco.mj_resetDataKeyframe(model, data, 0)
    scene.reset(keyframe="there")
    np.testing.assert_allclose(robot.get_qpos()[1], data.qpos, atol=1e-15)
    np.testing.assert_array_equal(robot.get_qvel()[1], data.qvel)
    np.testing.assert_array_equal(scene.built.arrays.get("ctrl")[:, 1], data.ctrl)
    scene.reset()
    robot.set_qpos(q)
    robot.set_qvel(v)
    if model.nu:
        robot.control(data.ctrl)
    for joint in robot.joints:
        address = int(model.joint(joint.name).qposadr[0])
        ours, wanted = robot.get_qpos()[0, list(joint.qs_idx)], q[address : address + len(joint.qs_idx)]
        np.testing.assert_allclose(ours, wanted, atol=1e-15)
    mujoco.mj_forward(model, data)
    np.testing.assert_allclose(robot.get_links_pos()[0], data.xpos[1:], atol=1e-9)
    solver = scene.sim.rigid_solver
    np.testing.assert_allclose(solver.links_state.pos.numpy()[:, 0], data.xpos[1:], atol=1e-9)
    np.testing.assert_allclose(solver.dofs_state.vel.numpy()[:, 0], v, atol=0)
    np.testing.assert_allclose(solver.dofs_state.qf_actuator.numpy()[:, 0], data.qfrc_actuator, atol=1e-9)
    poses = described.forward_kinematics(
        {joint.name: robot.get_qpos()[0, list(joint.qs_idx)] for joint in robot.joints}
    )
    np.testing.assert_allclose([poses[link.name][:3, 3] for link in robot.links], data.xpos[1:], atol=1e-9)
    for sensor in range(model.nsensor):
        start, dim = int(model.sensor_adr[sensor]), int(model.sensor_dim[sensor])
        ours = np.ravel(scene.sensors[model.sensor(sensor).name].read()[0])
        np.testing.assert_allclose(ours, data.sensordata[start : start + dim], atol=1e-9)
    scene.step()
    mujoco.mj_step(model, data)
    np.testing.assert_allclose(robot.get_qpos()[0], data.qpos, atol=1e-7)
    np.testing.assert_allclose(robot.get_qvel()[0], data.qvel, atol=1e-5)


@pytest.mark.slow("compiles two scenes")
@given(seeds)
@settings(max_examples=2)
def test_random_forests(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    """Several trees with random equality constraints between them."""
    compare_with_mujoco(random_forest(seed), tmp_path_factory.mktemp("forest"), seed)


def test_two_constraints_across_six_bodies(tmp_path: Path) -> None:
    """`joint` between the first and last body and `connect` between the second and fifth keep j0 to j5 in order."""
    bodies = "".join(
        f'<body name="b{i}" pos="{i} 0 1"><joint name="j{i}" axis="0 1 0"/>'
        f'<geom size=".1" pos=".2 0 0" mass="{1 + i}"/></body>'
        for i in range(6)
    )
    text = f"""<mujoco><option timestep="{DT}" integrator="implicitfast"/><worldbody>{bodies}</worldbody>
    <equality><joint joint1="j0" joint2="j5"/><connect body1="b1" body2="b4" anchor="0 0 0"/></equality></mujoco>"""
    compare_with_mujoco(text, tmp_path, 0)
