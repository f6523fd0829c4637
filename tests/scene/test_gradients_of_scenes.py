"""Gradients in scenes with all that a scene may have: attachments, sleep, islands, variants, parameters, substeps."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as km
from kinema.core import KinemaError
from kinema.description import PhysicsMaterial
from kinema.scene.built_scene import KinematicMotion
from kit.choosing import representatives

H = 1e-7
CART = """
<mujoco><option timestep="0.005"/><worldbody><body name="tool" pos="0 0 0.1">
<joint name="z" type="slide" axis="0 0 1" damping="1"/><joint name="x" type="slide" axis="1 0 0" damping="2"/>
<geom type="sphere" size="{radius}" mass="0.5"/></body></worldbody>
<actuator><motor joint="z"/><motor joint="x" gear="3"/></actuator></mujoco>"""
CUBE = """
<mujoco><worldbody><body name="cube"><joint type="slide" axis="0 0 1"/><joint type="slide" axis="1 0 0"/>
<joint axis="0 1 0"/><geom type="box" size=".02 .02 .02" mass="0.2"/></body></worldbody></mujoco>"""


def file_of(folder: Path, name: str, text: str, **values: float) -> str:
    path = folder / f"{name}.xml"
    path.write_text(text.format(**values))
    return str(path)


def scene_with(folder: Path, material: PhysicsMaterial | None = None, **options: Any) -> tuple[km.Scene, km.Entity]:
    """A cart, not built."""
    scene = km.Scene(device="cpu", precision="double", quiet=True, **options)
    return scene, scene.add(file_of(folder, "cart", CART, radius=0.05), material=material)


def assert_gradients_match_differences(
    scene: km.Scene, n_controls: int = 5, hold: int = 1, tolerance: float = 1e-6, seed: int = 0
) -> km.gradients.Trajectory:
    """Of a random function of the trajectory by a random direction of initial state and controls, from one state."""
    engine, generator, before = scene.built.engine, np.random.default_rng(seed), scene.get_state()
    names = {"qpos": "qpos", "qvel": "vel"}
    start = {name: np.array(engine.read_array(array).T) for name, array in names.items()}
    control = generator.uniform(-0.5, 0.5, (n_controls, scene.n_envs, scene.built.model.n_actuators))
    direction = {name: generator.normal(size=x.shape) for name, x in start.items()}
    change = generator.normal(size=control.shape)

    def rolled(h: float) -> tuple[km.gradients.Trajectory, Callable[..., Any]]:
        scene.set_state(before)
        state = {name: x + h * direction[name] for name, x in start.items()}
        return km.gradients.rollout(scene, control=control + h * change, state=state, hold=hold)

    trajectory, pullback = rolled(0.0)
    weights = {name: generator.normal(size=getattr(trajectory, name).shape) for name in start}
    found = pullback(**weights)
    assert found["valid"].all()
    costs = [sum(float((getattr(rolled(h)[0], name) * w).sum()) for name, w in weights.items()) for h in (H, -H)]
    terms = [found["control"] * change, *(found["state"][name] * direction[name] for name in start)]
    error = abs(sum(float(x.sum()) for x in terms) - (costs[0] - costs[1]) / (2.0 * H))
    assert error < tolerance * sum(float(np.abs(x).sum()) for x in terms)
    return trajectory


@pytest.mark.parametrize("kind", representatives(["weld", "rope"], 1))
def test_attachments(kind: str, tmp_path: Path) -> None:
    scene, cart = scene_with(tmp_path, contacts=False)
    cube = scene.add(file_of(tmp_path, "cube", CUBE))
    scene.reserve_attachments(cart, "tool", [(cube, "cube")], kind=kind)
    scene.build()
    cart.set_qpos([0.02, 0.01])
    cube.set_qvel([0.1, 0.2, 0.3])
    scene.attach(cart, cube, kind=kind, length=0.1 if kind == "rope" else None)
    assert_gradients_match_differences(scene)


def test_suction_cups_that_grip_during_a_rollout(tmp_path: Path) -> None:
    """The relative pose that the cup holds is a function of the state at which it grips."""
    scene, cart = scene_with(tmp_path, contacts=False)
    cube = scene.add(file_of(tmp_path, "cube", CUBE))
    cup = scene.add_suction(
        cart, "tool", pos=(0, 0, -0.03), normal=(0, 0, -1), distance=0.035, targets=[(cube, "cube")]
    )
    scene.build()
    cup.turn_on()
    cart.set_qvel([-0.6, 0.3])
    cube.set_qvel([0.0, 0.1, 0.5])
    assert_gradients_match_differences(scene, 9)
    assert cup.get_held().tolist() == [scene.entities.index(cube)]


def resting(scene: km.Scene, cart: km.Entity) -> None:
    """Push the cart onto the floor."""
    cart.set_qpos([-0.0503, 0.0])
    cart.set_qvel([-0.02, 0.4])


def test_islands_and_substeps(tmp_path: Path) -> None:
    """In contact with the floor; a step of several substeps, also in linearisations."""
    scene, cart = scene_with(tmp_path, islands=True, substeps=3)
    scene.add(km.Plane())
    scene.build()
    resting(scene, cart)
    assert_gradients_match_differences(scene, 3)
    resting(scene, cart)
    cart.control([0.0, 0.0])
    assert scene.get_contacts().n.any()
    jacobians = scene.linearize()
    _, pullback = km.gradients.rollout(scene, control=np.zeros((1, 1, 2)))
    found = pullback(qvel=np.array([[[0.0, 1.0]]]))
    np.testing.assert_allclose(found["state"]["qvel"], jacobians.A[:, 3, 2:], atol=1e-12)
    np.testing.assert_allclose(found["control"][0], jacobians.B[:, 3], atol=1e-12)
    resting(scene, cart)
    assert scene.check_gradients().max_error < 1e-6


def test_impacts_with_restitution(tmp_path: Path) -> None:
    """Newton's law of impact in one step, and the flight after it."""
    material = PhysicsMaterial(restitution=0.6)
    scene, cart = scene_with(tmp_path, material=material)
    scene.add(km.Plane(), material=material)
    scene.build()
    cart.set_qpos([-0.046, 0.0])
    cart.set_qvel([-1.0, 0.3])
    trajectory = assert_gradients_match_differences(scene, 4)
    assert trajectory.qvel[-1, 0, 0] > 0.5


PENDULUM = """
<mujoco><option timestep="0.005"/><worldbody><body><joint axis="0 1 0" frictionloss="0.05"/>
<inertial mass="1" pos="0.15 0 0" diaginertia="1e-4 8e-3 8e-3"/><body pos="0.3 0 0"><joint axis="0 1 0"/>
<inertial mass="0.5" pos="0.15 0.01 0" diaginertia="1e-4 4e-3 4e-3"/></body></body></worldbody></mujoco>"""


def test_steps_whose_energy_is_limited(tmp_path: Path) -> None:
    """A double pendulum that turns by more than a radian per step."""
    found = []
    for energy_limiter in (True, False):
        scene = km.Scene(device="cpu", precision="double", quiet=True, energy_limiter=energy_limiter)
        pendulum = scene.add(file_of(tmp_path, "pendulum", PENDULUM))
        scene.build()
        pendulum.set_qvel([300.0, -555.0])
        found.append(assert_gradients_match_differences(scene, 3).qvel)
    assert np.linalg.norm(found[0][-1]) < 0.99 * np.linalg.norm(found[1][-1])


def test_ten_steps_at_a_time_are_ten_steps(tmp_path: Path) -> None:
    scene, _ = scene_with(tmp_path, contacts=False)
    scene.build()
    control = np.random.default_rng(1).uniform(-1.0, 1.0, (2, 1, 2))
    start = {"qpos": [0.0, 0.1], "qvel": [0.3, 0.0]}
    held, pullback = km.gradients.rollout(scene, control=control, state=start, hold=10)
    single, single_pullback = km.gradients.rollout(scene, control=np.repeat(control, 10, 0), state=start)
    np.testing.assert_array_equal(held.qpos, single.qpos[9::10])
    weights = np.zeros_like(single.qpos)
    weights[9::10] = 1.0
    found, expected = pullback(qpos=weights[9::10]), single_pullback(qpos=weights)
    np.testing.assert_array_equal(found["state"]["qpos"], expected["state"]["qpos"])
    np.testing.assert_allclose(found["control"], expected["control"].reshape(2, 10, 1, 2).sum(1), rtol=1e-12)


def test_sleeping_bodies_are_as_if_awake() -> None:
    """A sleeping box has the gradients of one that is awake."""
    gradients, state = [], {}
    for sleep in (True, False):
        scene = km.Scene(device="cpu", precision="double", quiet=True, sleep=sleep)
        scene.add(km.Plane())
        ball = scene.add(km.Sphere(0.1), pos=(0.0, 0.0, 0.0999))
        scene.build()
        if sleep:
            scene.step(1000)
            assert ball.is_asleep().all()
            state = {"qpos": ball.get_qpos(), "qvel": ball.get_qvel()}
        trajectory, pullback = km.gradients.rollout(scene, control=np.zeros((4, 1, 0)), state=state)
        gradients.append(pullback(qpos=np.ones_like(trajectory.qpos), qvel=np.ones_like(trajectory.qvel))["state"])
    assert np.abs(gradients[0]["qvel"]).max() > 0.1
    for name in ("qpos", "qvel"):
        np.testing.assert_allclose(gradients[0][name], gradients[1][name], rtol=1e-6, atol=1e-9)


def test_variants_and_parameters_of_environments(tmp_path: Path) -> None:
    """Each environment has the gradients of a scene with its own ball, mass and gravity."""
    files = [file_of(tmp_path, f"cart{i}", CART, radius=0.05 + 0.02 * i) for i in range(2)]
    start = [[[-0.0503, 0.0]], [[-0.0303, 0.0]]]
    control = np.random.default_rng(2).uniform(-1.0, 1.0, (4, 2, 2))
    gravity, mass_shift = np.array([[0.0, 0.0, -9.0], [0.5, 0.0, -11.0]]), np.array([[0.1], [-0.1]])

    def gradient(which: Any, envs: list[int]) -> dict[str, Any]:
        scene = km.Scene(device="cpu", precision="double", quiet=True)
        cart = scene.add(which)
        scene.add(km.Plane())
        scene.build(n_envs=len(envs), per_env=("gravity", "mass_shift"))
        scene.set_gravity(gravity[envs])
        cart.set_mass_shift(mass_shift[envs], "tool")
        cart.set_qpos(np.concatenate([start[e] for e in envs]))
        trajectory, pullback = km.gradients.rollout(scene, control=control[:, envs])
        assert scene.get_contacts().n.all()
        return pullback(qpos=np.ones_like(trajectory.qpos))

    together = gradient(files, [0, 1])
    alone = gradient(files[1], [1])
    np.testing.assert_allclose(together["control"][:, 1], alone["control"][:, 0], rtol=1e-9)
    np.testing.assert_allclose(together["state"]["qpos"][1], alone["state"]["qpos"][0], rtol=1e-9)
    assert not np.allclose(together["control"][:, 0], together["control"][:, 1], rtol=1e-2)


def test_forces_that_users_apply(tmp_path: Path) -> None:
    """Forces on links act in rollouts, and gradients are those at these forces."""
    scene, cart = scene_with(tmp_path, contacts=False)
    scene.build(external_forces=True)
    cart.apply_links_external_force(np.array([0.0, 0.0, 40.0]), "tool")
    trajectory = assert_gradients_match_differences(scene)
    assert (trajectory.qvel[-1, :, 0] > 0.1).all()


def test_servos_with_integrators(tmp_path: Path) -> None:
    """The integral of a PID controller is a state, with derivatives from step to step."""
    text = CART.replace('<motor joint="z"/>', '<pid joint="z" kp="20" kv="2" ki="900" imax="5"/>')
    scene = km.Scene(device="cpu", precision="double", quiet=True, contacts=False)
    scene.add(file_of(tmp_path, "servo", text, radius=0.05))
    scene.build()
    assert_gradients_match_differences(scene)


def test_operations_without_derivative_are_named(tmp_path: Path) -> None:
    scene, _ = scene_with(tmp_path, noslip_iterations=2)
    scene.build()
    with pytest.raises(KinemaError, match="no derivative of a step with no-slip iterations"):
        km.gradients.rollout(scene, control=np.zeros((1, 2)))
    scene, _ = scene_with(tmp_path)
    scene.add(km.Box((0.1, 0.1, 0.1)), kinematic=True)
    scene.build()
    scene.built.motions.append(KinematicMotion(0, np.zeros(1), np.zeros((1, 7))))
    with pytest.raises(KinemaError, match="no derivative of motions of kinematic bodies that a file gives"):
        km.gradients.rollout(scene, control=np.zeros((1, 2)))


def test_scenes_with_rules_of_collision() -> None:
    """Their derivatives are those of the same scene with a table of pairs, and they keep their state and their form."""
    found = []
    for broad_phase in ("cells", "list"):
        scene = km.Scene(precision="double", quiet=True, broad_phase=broad_phase)
        scene.add(km.Plane())
        for i in range(2):
            scene.add(km.Sphere(0.1), pos=(0.01 * i, 0.0, 0.0999 + 0.1999 * i))
        scene.build()
        built = scene.built
        assert built.model.has_pair_rules == (broad_phase == "cells")
        scene.step(3)
        before, lin = scene.get_state(), scene.linearize(by="force")
        after = scene.get_state()
        assert all(np.array_equal(before.arrays[x], after.arrays[x]) for x in before.arrays)
        trajectory, pullback = km.gradients.rollout(scene, control=np.ones((3, 1, 12)), by="force")
        gradient = pullback(qvel=np.ones_like(trajectory.qvel))
        assert scene.built is built
        assert scene.time == pytest.approx(6 * scene.dt)
        np.testing.assert_array_equal(scene.built.engine.read_array("vel").T, trajectory.qvel[-1])
        found.append([lin.A, lin.B, trajectory.qvel, gradient["state"]["qpos"], gradient["control"]])
    for ruled, listed in zip(*found, strict=True):
        np.testing.assert_allclose(ruled, listed, rtol=1e-6, atol=1e-6 * np.abs(listed).max())
