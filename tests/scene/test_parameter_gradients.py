"""Gradients of trajectories by parameters of the model, against differences of simulations with other parameters.

Environments are simulated with different parameters, so that one simulation gives all differences; scenes that are
built from other files have the same trajectories.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as km
from kinema.core import Array, KinemaError
from kinema.dynamics.model_parameters import MODEL_PARAMETERS
from kinema.model import Model
from kit.choosing import combinations

ARM = """<mujoco><option timestep="0.005" gravity="0 0 {gravity}"/><default><geom condim="4" solref="0.03 1"/></default>
<worldbody><geom type="plane" size="2 2 .1" friction="{floor} 0.005"/>
<body pos="0 0 0.5">
 <joint name="a" axis="0 1 0" damping="{damping}" armature="{armature}" stiffness="{stiffness}" frictionloss="0.05"
  range="-50 60"/>
 <inertial pos="{com} 0.01 0" mass="{mass}" fullinertia="{inertia} 0.004 0.003 0.0002 0.0001 0.0003"/>
 <geom type="capsule" size="0.03" fromto="0 0 0 0.3 0 0" group="3"/>
 <body pos="0.3 0 0"><joint name="b" axis="0 1 0.2" damping="0.05" frictionloss="{frictionloss}" range="-60 60"/>
  <geom type="capsule" size="0.03" fromto="0 0 0 0.25 0 -.3" mass="0.3" friction="0.5 0.01"/></body></body>
</worldbody>
<actuator><position joint="a" kp="{kp}" kv="{kv}"/><motor joint="b" gear="{gear}"/></actuator></mujoco>"""
VALUES = {
    **{"gravity": -9.81, "floor": 0.7, "damping": 0.1, "armature": 0.01, "stiffness": 1.0, "com": 0.15, "mass": 0.5},
    **{"inertia": 0.002, "frictionloss": 0.02, "kp": 10.0, "kv": 0.5, "gear": 2.0},
}
STENCIL = {1.0: 8.0 / 12.0, -1.0: -8.0 / 12.0, 2.0: -1.0 / 12.0, -2.0: 1.0 / 12.0}
STATE = {"qpos": [0.62, 0.3], "qvel": [1.2, -0.4]}


def built(path: Path, text: str, n_envs: int = 1, **options: Any) -> km.Scene:
    path.write_text(text)
    scene = km.Scene(**{"device": "cpu", "precision": "double", "quiet": True, **options})
    scene.add(str(path))
    scene.build(n_envs=n_envs)
    return scene


def n_envs_for(names: Collection[str]) -> int:
    return 1 + len(STENCIL) * len(names)


def assert_gradients_match_differences(
    scene: km.Scene,
    names: Collection[str],
    control: Array,
    state: Any,
    tolerance: float = 1e-6,
    h: float = 1e-5,
    model: Model | None = None,
    **options: Any,
) -> None:
    """Environment 0 has the present values, each group of four others those of one parameter at four distances.

    `model` has the present values, if they are not those of the model of the scene.
    """
    generator, model = np.random.default_rng(1), model or scene.built.model
    base = {name: MODEL_PARAMETERS[name].read(model) for name in names}
    params = {name: np.repeat(x[None], scene.n_envs, axis=0) for name, x in base.items()}
    directions = {}
    for k, (name, x) in enumerate(base.items()):
        parameter = MODEL_PARAMETERS[name]
        directions[name] = generator.uniform(0.5, 1.0, x.shape) * parameter.steps(model, x)
        directions[name][~parameter.variable_entries(model)] = 0.0
        for i, offset in enumerate(STENCIL):
            params[name][1 + len(STENCIL) * k + i] += h * offset * directions[name]
    trajectory, pullback = km.gradients.rollout(scene, control=control, state=state, params=params, **options)
    weights = {name: generator.normal(size=getattr(trajectory, name)[:, 0].shape) for name in ("qpos", "qvel")}
    cost = np.sum([np.einsum("tev,tv->e", getattr(trajectory, name), w) for name, w in weights.items()], axis=0)
    padded = {name: np.zeros_like(getattr(trajectory, name)) for name in weights}
    for name, w in weights.items():
        padded[name][:, 0] = w
    found = pullback(**padded)
    assert found["valid"].all()
    failures = {}
    for k, (name, direction) in enumerate(directions.items()):
        others = cost[1 + len(STENCIL) * k :][: len(STENCIL)]
        expected = others @ list(STENCIL.values()) / h
        terms = found["params"][name][0] * direction
        assert not found["params"][name][1:].any()
        error = abs(terms.sum() - expected) / max(np.abs(terms).sum(), 1e-300)
        if not error <= tolerance or not np.abs(terms).sum() > 0.0:
            failures[name] = error
    assert not failures, {name: f"{error:.1e}" for name, error in failures.items()}


DYNAMICS = (
    *("mass", "com", "inertia", "armature", "damping", "stiffness", "frictionloss"),
    *("gear", "gravity", "geom_friction"),
)
PLACEMENT = ("geom_size", "geom_pos", "geom_quat", "link_pos", "link_quat", "joint_pos", "joint_axis")
HELD = """<mujoco><option timestep="0.005"/><default><geom contype="0" conaffinity="0"/></default><worldbody>
<body><joint name="a" axis="0 1 0" pos="0 0 0.02" range="-10 10" solreflimit="0.03 0.9" damping="0.3"/>
 <geom type="capsule" size="0.03" fromto="0 0 0 0.3 0 0"/><site name="s" pos="0.2 0 0.1"/>
 <body pos="0.3 0 0" euler="0 0 20"><joint name="b" axis="0 1 0" frictionloss="40" solreffriction="0.03 1"/>
  <geom type="capsule" size="0.03" fromto="0 0 0 0.2 0 0"/><site name="t" pos="0.1 0.02 0.1"/>
  <body name="c" pos="0.2 0 0"><joint name="c" axis="1 0 0.3"/><joint name="d" axis="0 0 1" pos="0.01 0 0"/>
   <geom size="0.05" pos="0.1 0 0"/></body></body></body></worldbody>
<tendon><fixed name="f" stiffness="3" damping="0.2" frictionloss="0.1" springlength="0.1"><joint joint="c" coef="1"/>
 <joint joint="d" coef="-0.5"/></fixed><spatial name="g" stiffness="40" damping="1" springlength="0.1">
 <site site="s"/><site site="t"/></spatial></tendon>
<equality><connect body1="c" anchor="0.2 0 0" solref="0.04 1"/></equality>
<actuator><motor joint="a" gear="2"/><motor tendon="f" gear="0.5"/></actuator></mujoco>"""
CONSTRAINED = (
    *("limit", "limit_sol_params", "friction_sol_params", "equality_sol_params", "tendon_stiffness"),
    *("tendon_damping", "tendon_frictionloss", "gear", "com"),
)


@pytest.mark.parametrize("codegen", combinations(["unrolled", "loops"], strength=0))
def test_constraints_and_tendons(tmp_path: Path, codegen: str) -> None:
    """A limit is exceeded, dry friction holds, an anchor is violated; springs along paths."""
    names = CONSTRAINED if codegen == "unrolled" else (*CONSTRAINED, *PLACEMENT[3:])
    scene = built(tmp_path / "held.xml", HELD, n_envs_for(names), codegen=codegen)
    state = {"qpos": [0.2, 0.1, 0.1, 0.2], "qvel": [0.3, 0.0, 0.4, -0.5]}
    control = np.random.default_rng(2).uniform(-1.0, 1.0, (10, 2))
    assert_gradients_match_differences(scene, names, control, state)


@pytest.mark.parametrize(
    ("codegen", "integrator"), combinations(["loops", "unrolled"], ["implicitfast", "rk4"], strength=0)
)
def test_an_arm_on_the_floor(tmp_path: Path, codegen: str, integrator: str) -> None:
    names = [*DYNAMICS, *(("actuator_gain", "actuator_bias") if codegen == "loops" else ("actuator_kp", "actuator_kv"))]
    names += PLACEMENT if codegen == "unrolled" else ["geom_sol_params"]
    options = {"codegen": codegen, "integrator": integrator}
    scene = built(tmp_path / "arm.xml", ARM.format(**VALUES), n_envs_for(names), **options)
    control = np.random.default_rng(2).uniform(-1.0, 1.0, (20, 2))
    assert_gradients_match_differences(scene, names, control, STATE)


CHANGED = {
    **{"gravity": -8.0, "floor": 0.5, "damping": 0.2, "armature": 0.02, "stiffness": 2.0, "com": 0.1, "mass": 0.4},
    **{"inertia": 0.003, "frictionloss": 0.01, "kp": 8.0, "kv": 0.3, "gear": -1.5},
}


def changed_params(scene: km.Scene) -> dict[str, Array]:
    """Parameters of a scene with the values of `CHANGED`."""
    names = ("gravity", "geom_friction", "damping", "armature", "stiffness", "com", "mass", "inertia", "frictionloss")
    params = {
        name: MODEL_PARAMETERS[name].read(scene.built.model).copy()
        for name in (*names, "actuator_kp", "actuator_kv", "gear")
    }
    params["gravity"][2], params["geom_friction"][0, 0] = CHANGED["gravity"], CHANGED["floor"]
    params["com"][0, 0], params["mass"][0], params["inertia"][0, 0] = CHANGED["com"], CHANGED["mass"], 0.003
    for name, dof in (("damping", 0), ("armature", 0), ("stiffness", 0), ("frictionloss", 1)):
        params[name][dof] = CHANGED[name]
    params["actuator_kp"][0], params["actuator_kv"][0], params["gear"][1] = 8.0, 0.3, -1.5
    return params


def test_values_are_those_of_a_scene_from_another_file(tmp_path: Path) -> None:
    """Inverse weights, friction of geom pairs and so on follow from the parameters; the scene keeps its own."""
    scene = built(tmp_path / "arm.xml", ARM.format(**VALUES))
    other = built(tmp_path / "other.xml", ARM.format(**CHANGED))
    control = np.random.default_rng(2).uniform(-1.0, 1.0, (20, 2))
    trajectory, _ = km.gradients.rollout(scene, control=control, state=STATE, params=changed_params(scene))
    expected, _ = km.gradients.rollout(other, control=control, state=STATE)
    own, _ = km.gradients.rollout(scene, control=control, state=STATE)
    np.testing.assert_allclose(trajectory.qpos, expected.qpos, rtol=0.0, atol=1e-12)
    np.testing.assert_allclose(trajectory.qvel, expected.qvel, rtol=0.0, atol=1e-11)
    assert np.abs(own.qpos - expected.qpos).max() > 1e-2
    assert scene.built.model.dofs.damping[0] == VALUES["damping"]


PLACED = """<mujoco><option timestep="0.005"/><default><geom condim="3" solref="0.02 1"/></default><worldbody>
<geom type="plane" size="2 2 .1" pos="0 0 {floor}"/>
<body pos="0 0 0.3"><joint axis="0 1 0"/><inertial pos="0.1 0 0" mass="0.5" diaginertia="0.002 0.003 0.004"/>
 <body pos="{pos} 0.01 0" euler="{euler} 10 0"><joint axis="{axis} 1 0.2" pos="0 {anchor} 0.01" range="-80 80"/>
  <inertial pos="0.1 0 0" mass="0.5" diaginertia="0.002 0.003 0.004"/><site name="s" pos="0.1 0.02 0.03"/>
  <geom type="capsule" size="{radius} 0.1" pos="0.1 {offset} -0.03" euler="0 {angle} 0"/>
  <body pos="0.2 0 0"><joint type="slide" axis="1 0 0.1" stiffness="50" damping="1"/><joint axis="1 0 0"/>
   <inertial pos="0 0.02 0" mass="0.3" diaginertia="0.001 0.001 0.001"/></body></body></body>
<site name="w" pos="0.1 0.1 0.5"/></worldbody>
<tendon><spatial stiffness="20" springlength="0.1"><site site="w"/><site site="s"/></spatial></tendon></mujoco>"""
PLACES = {
    "floor": 0.0,
    "pos": 0.2,
    "euler": 5.0,
    "axis": 0.1,
    "anchor": 0.02,
    "radius": 0.04,
    "offset": 0.0,
    "angle": 80.0,
}
MOVED = {
    "floor": 0.01,
    "pos": 0.22,
    "euler": 7.0,
    "axis": 0.3,
    "anchor": 0.05,
    "radius": 0.06,
    "offset": 0.02,
    "angle": 70.0,
}


def test_places_are_those_of_a_scene_from_another_file(tmp_path: Path) -> None:
    """Links, joints and geoms at other places, with contact, a limit and a tendon between sites."""
    scene = built(tmp_path / "placed.xml", PLACED.format(**PLACES))
    other = built(tmp_path / "moved.xml", PLACED.format(**MOVED))
    params = {name: MODEL_PARAMETERS[name].read(other.built.model).copy() for name in PLACEMENT}
    state = {"qpos": [0.6, 0.5, 0.01, 0.2], "qvel": [1.0, 0.3, 0.2, 0.0]}
    control = np.zeros((20, 0))
    trajectory, _ = km.gradients.rollout(scene, control=control, state=state, params=params)
    expected, _ = km.gradients.rollout(other, control=control, state=state)
    own, _ = km.gradients.rollout(scene, control=control, state=state)
    np.testing.assert_allclose(trajectory.qpos, expected.qpos, rtol=0.0, atol=1e-11)
    assert np.abs(own.qpos - expected.qpos).max() > 1e-2


PENDULUM = """<mujoco><worldbody><body><joint name="a" axis="0 1 0" damping="0.1"/>
<geom size="0.1" pos="0.3 0 0" mass="1"/><body pos="0.5 0 0"><joint axis="0 1 0" damping="0.2"/>
<geom size="0.1" pos="0.3 0 0" mass="0.5"/></body></body></worldbody>
<actuator><motor joint="a"/></actuator></mujoco>"""


def test_values_of_all_environments_or_of_each(tmp_path: Path) -> None:
    scene = built(tmp_path / "pendulum.xml", PENDULUM, 3)
    control, cotangent = np.zeros((5, 3, 1)), np.random.default_rng(3).normal(size=(5, 3, 2))
    results = []
    for mass in (np.array([1.5, 0.6]), np.array([[1.5, 0.6]] * 3), None):
        state = {"qpos": [0.3, 0.2], "qvel": [0.0, 1.0]}
        params = {"mass": mass, "damping": None}
        _, pullback = km.gradients.rollout(scene, control=control, state=state, params=params)
        results.append(pullback(qpos=cotangent)["params"])
    assert results[0]["mass"].shape == (2,)
    assert results[2]["mass"].shape == results[1]["damping"].shape == (3, 2)
    np.testing.assert_allclose(results[1]["mass"].sum(axis=0), results[0]["mass"], rtol=1e-12)


def test_gradients_by_controls_do_not_depend_on_which_parameters_are_inputs(tmp_path: Path) -> None:
    """Programs for different parameters have memory of their own."""
    scene = built(tmp_path / "pendulum.xml", PENDULUM)
    state, control = {"qpos": [0.3, 0.2], "qvel": [0.0, 1.0]}, np.ones((4, 1))
    gradients = []
    for names in ((), ("mass",), ("stiffness",), ("joint_pos", "armature")):
        _, pullback = km.gradients.rollout(scene, control=control, state=state, params=dict.fromkeys(names))
        gradients.append(pullback(qpos=np.ones((4, 1, 2)), max_norm=0.5))
    assert np.abs(gradients[0]["control"]).max() > 0.0
    for gradient in gradients[1:]:
        np.testing.assert_allclose(gradient["control"], gradients[0]["control"], rtol=1e-10)
        np.testing.assert_allclose(gradient["state"]["qvel"], gradients[0]["state"]["qvel"], rtol=1e-10)


def test_present_values_are_those_that_were_set(tmp_path: Path) -> None:
    """Also masses of each environment, with inertias in proportion; the scene keeps its own values."""
    options = {"device": "cpu", "precision": "double", "quiet": True}
    (tmp_path / "pendulum.xml").write_text(PENDULUM)
    scene = km.Scene(**options)
    robot = scene.add(str(tmp_path / "pendulum.xml"))
    scene.build(n_envs=2, per_env=("mass_shift", "com_shift", "damping", "gravity"))
    mass = np.array([[1.5, 0.6], [0.8, 0.9]])
    robot.set_links_inertial_mass(mass)
    robot.set_com_shift(np.array([[[0.01, 0.0, 0.0], [0.0, 0.02, 0.0]]] * 2))
    robot.set_dofs_damping([[0.3, 0.1], [0.2, 0.4]])
    scene.set_gravity([[0.0, 0.0, -9.0], [1.0, 0.0, -8.0]])
    state, control = {"qpos": [0.3, 0.2], "qvel": [0.0, 1.0]}, np.ones((6, 1))
    expected, _ = km.gradients.rollout(scene, control=control, state=state)
    names = ("mass", "com", "damping", "gravity", "armature")
    found, pullback = km.gradients.rollout(scene, control=control, state=state, params=dict.fromkeys(names))
    np.testing.assert_allclose(found.qpos, expected.qpos, rtol=0.0, atol=1e-13)
    assert np.abs(expected.qpos[:, 0] - expected.qpos[:, 1]).max() > 1e-3
    gradient = pullback(qpos=np.ones((6, 2, 2)))["params"]
    assert np.abs(gradient["damping"][0] - gradient["damping"][1]).max() > 1e-6
    robot.set_links_inertial_mass(mass + 0.1)
    expected, _ = km.gradients.rollout(scene, control=control, state=state)
    robot.set_links_inertial_mass(mass)
    found, _ = km.gradients.rollout(scene, control=control, state=state, params={"mass": mass + 0.1})
    np.testing.assert_allclose(found.qpos, expected.qpos, rtol=0.0, atol=1e-13)
    np.testing.assert_allclose(robot.get_links_inertial_mass(), mass)


def test_gains_of_position_control(tmp_path: Path) -> None:
    names = ["kp", "kv", "armature"]
    scene = built(tmp_path / "pendulum.xml", PENDULUM, n_envs_for(names))
    (robot,) = scene.entities
    robot.set_dofs_kp([20.0, 10.0])
    robot.set_dofs_kv([2.0, 1.0])
    robot.control_dofs_position([0.1, 0.2])
    model = scene.built.model.with_columns("dofs", kp=np.array([20.0, 10.0]), kv=np.array([2.0, 1.0]))
    control = np.random.default_rng(4).uniform(-1.0, 1.0, (10, 2))
    state = {"qpos": [0.3, 0.2], "qvel": [0.0, 1.0]}
    assert_gradients_match_differences(scene, names, control, state, model=model, by="position", hold=2)


@pytest.mark.parametrize("name", ["kp", "kv"])
def test_one_gain_of_position_control(tmp_path: Path, name: str) -> None:
    """The other gain is no input of the programs."""
    scene = built(tmp_path / "pendulum.xml", PENDULUM, n_envs_for([name]))
    (robot,) = scene.entities
    robot.set_dofs_kp([20.0, 10.0])
    robot.set_dofs_kv([2.0, 1.0])
    robot.control_dofs_position([0.1, 0.2])
    model = scene.built.model.with_columns("dofs", kp=np.array([20.0, 10.0]), kv=np.array([2.0, 1.0]))
    control = np.random.default_rng(4).uniform(-1.0, 1.0, (10, 2))
    state = {"qpos": [0.3, 0.2], "qvel": [0.0, 1.0]}
    assert_gradients_match_differences(scene, [name], control, state, model=model, by="position")


@pytest.mark.parametrize("codegen", combinations(["unrolled", "loops"], strength=0))
def test_zero_dry_friction_has_the_gradient_from_above(tmp_path: Path, codegen: str) -> None:
    """Rows of dry friction exist where its value is zero, also if a parameter changes their weights."""
    control, state = np.full((6, 1), 0.3), {"qpos": [0.3, 0.2], "qvel": [0.5, 1.0]}
    h, scene = 1e-6, built(tmp_path / "pendulum.xml", PENDULUM, 3, codegen=codegen)
    friction = np.array([[0.0, 0.0], [h, h], [2.0 * h, 2.0 * h]])
    params = {"frictionloss": friction, "mass": None, "armature": None}
    trajectory, pullback = km.gradients.rollout(scene, control=control, state=state, params=params)
    without, _ = km.gradients.rollout(scene, control=control, state=state)
    np.testing.assert_allclose(trajectory.qpos[:, 0], without.qpos[:, 0], rtol=0.0, atol=1e-14)
    weights = np.zeros_like(trajectory.qvel)
    weights[:, 0] = 1.0
    found = pullback(qvel=weights)
    assert all(np.isfinite(found["params"][name]).all() for name in params)
    assert found["valid"].all()
    cost = trajectory.qvel.sum(axis=(0, 2))
    from_above = (-3.0 * cost[0] + 4.0 * cost[1] - cost[2]) / (2.0 * h)
    assert abs(from_above) > 1e-3
    np.testing.assert_allclose(found["params"]["frictionloss"][0].sum(), from_above, rtol=1e-5)


def test_a_hundred_steps_in_double_and_in_single_precision(tmp_path: Path) -> None:
    names = ["mass", "com", "inertia", "damping", "stiffness", "gravity"]
    scene = built(tmp_path / "pendulum.xml", PENDULUM, n_envs_for(names))
    control, state = np.ones((20, 1)), {"qpos": [0.3, 0.2], "qvel": [0.0, 1.0]}
    assert_gradients_match_differences(scene, names, control, state, 1e-5, hold=5)
    found = {}
    for precision in ("single", "double"):
        scene = built(tmp_path / "pendulum.xml", PENDULUM, precision=precision)
        _, pullback = km.gradients.rollout(scene, control=control, state=state, params=dict.fromkeys(names), hold=5)
        found[precision] = pullback(qpos=np.ones((20, 1, 2)))["params"]
    for name in names:
        scale = np.abs(found["double"][name]).max()
        np.testing.assert_allclose(found["single"][name], found["double"][name], rtol=0.0, atol=1e-3 * scale)


def test_torch(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    scene = built(tmp_path / "pendulum.xml", PENDULUM)
    state = {name: torch.full((1, 2), 0.2, dtype=torch.float64) for name in ("qpos", "qvel")}
    control = torch.full((3, 1, 1), 0.2, dtype=torch.float64)
    damping = torch.tensor([0.1, 0.2], dtype=torch.float64, requires_grad=True)
    mass = torch.tensor([1.0, 0.5], dtype=torch.float64, requires_grad=True)

    def simulate(mass: Any, damping: Any) -> Any:
        return km.gradients.torch_rollout(scene, state, control, {"mass": mass, "damping": damping})["qvel"]

    assert torch.autograd.gradcheck(simulate, (mass, damping))
    km.gradients.torch_step(scene, state, control[0], {"damping": damping})["qvel"].sum().backward()
    assert damping.grad.abs().min() > 0.0


LOCKED = """<robot name="locked"><link name="base"/>{links}
<joint name="a" type="revolute"><parent link="base"/><child link="b"/><axis xyz="0 1 0"/>
 <limit lower="-1" upper="1" effort="10" velocity="5"/></joint>
<joint name="b" type="revolute"><parent link="b"/><child link="c"/><origin xyz="0.5 0 0"/><axis xyz="0 1 0"/>
 <limit lower="0" upper="0" effort="10" velocity="5"/></joint></robot>"""
LINK = """<link name="{}"><inertial><origin xyz="0.3 0 0"/><mass value="1"/>
<inertia ixx="0.01" iyy="0.01" izz="0.01" ixy="0" ixz="0" iyz="0"/></inertial></link>"""


def test_limits_of_a_locked_joint(tmp_path: Path) -> None:
    """Both limits are rows where they are the same, and move apart."""
    text = LOCKED.format(links=LINK.format("b") + LINK.format("c"))
    scene = built(tmp_path / "locked.urdf", text, n_envs_for(["limit"]))
    control, state = np.ones((4, 2)), {"qpos": [0.3, 0.02], "qvel": [0.0, 1.0]}
    assert_gradients_match_differences(scene, ["limit"], control, state, by="force")


def test_errors(tmp_path: Path) -> None:
    scene = built(tmp_path / "pendulum.xml", PENDULUM, 2)

    def rollout(**params: Any) -> None:
        km.gradients.rollout(scene, control=np.zeros((1, 1)), params=params)

    with pytest.raises(KinemaError, match="there is no parameter 'masses'; there are mass, com, inertia, armature"):
        rollout(masses=[1.0])
    with pytest.raises(
        KinemaError, match=r"'damping'\] must have shape \(2,\), or \(2, 2\) for values per environment"
    ):
        rollout(damping=[1.0, 2.0, 3.0])
    with pytest.raises(KinemaError, match=r"'damping'\]: expected finite numbers, not nan"):
        rollout(damping=[1.0, np.nan])
    with pytest.raises(KinemaError, match=r"'actuator_kp'\]: the value at \(0,\) is 0 and cannot change to 1"):
        rollout(actuator_kp=[1.0])
