"""Gradients whose contacts begin gradually: against a closed form, and exact outside of the smoothed distance."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as km
from kinema.core import Array, KinemaError
from kinema.dynamics.constraints.impedance import smoothed_violation

BALL = """
<mujoco><option timestep="0.002" integrator="Euler"/><default><geom condim="{condim}" solimp=".95 .95 .001 .5 2"/>
</default><worldbody><geom type="plane" size="1 1 1"/>
<body pos="0 0 0.1"><joint type="slide" axis="0 0 1"/><joint type="slide" axis="1 0 0"/><joint axis="0 1 0"/>
<geom size="0.1" mass="2"/></body></worldbody></mujoco>"""
WIDTH = 0.01


def scene_of(folder: Path, condim: int) -> km.Scene:
    (folder / "ball.xml").write_text(BALL.format(condim=condim))
    scene = km.Scene(device="cpu", precision="double", quiet=True)
    scene.add(folder / "ball.xml")
    scene.build()
    return scene


@pytest.fixture(scope="module")
def frictionless(tmp_path_factory: pytest.TempPathFactory) -> km.Scene:
    return scene_of(tmp_path_factory.mktemp("ball"), 1)


def gradient(scene: km.Scene, height: float, velocity: float, smoothing: float, n_steps: int = 1) -> dict[str, Array]:
    """Gradient of the final vertical velocity by the initial state."""
    state = {"qpos": [height, 0.0, 0.0], "qvel": [velocity, 0.1, 0.0]}
    control = np.zeros((n_steps, 1, 0))
    trajectory, pullback = km.gradients.rollout(scene, control=control, state=state, smoothing=smoothing)
    weights = np.zeros_like(trajectory.qvel)
    weights[-1, 0, 0] = 1.0
    found = pullback(qvel=weights)
    assert found["valid"].all()
    return {name: x[0] for name, x in found["state"].items()}


def plain_violation(distance: float) -> tuple[float, float]:
    """Violation and activation of a contact as numbers."""
    values: Any = smoothed_violation(distance, WIDTH)
    violation, activation = (float(x) for x in values)
    return violation, activation


def test_the_violation_is_an_expected_value() -> None:
    """Of distances with a random error; the activation is its derivative."""
    error = np.linspace(-1.0, 1.0, 20001)
    density = 0.75 * (1.0 - error**2)
    for distance in (-1.2, -0.7, -0.1, 0.0, 0.4, 0.9, 1.3):
        expected = np.trapezoid(np.minimum(distance + error, 0.0) * density, error)
        violation, activation = plain_violation(distance * WIDTH)
        assert violation == pytest.approx(WIDTH * expected, abs=1e-9)
        assert activation == pytest.approx(np.trapezoid((distance + error < 0.0) * density, error), abs=1e-4)


def test_a_ball_above_the_floor_sees_it(frictionless: km.Scene) -> None:
    """The derivative of a Newton step of the smoothed problem, by a closed form; zero beyond the smoothed distance."""
    mass, dt, gravity, time_constant, impedance = 2.0, 0.002, 9.81, 0.02, 0.95

    def force(height: float, velocity: float, acceleration: float) -> float:
        """Contact force by MuJoCo's solref and solimp; the inverse weight is the mean over axes, one of them fixed."""
        violation, activation = plain_violation(height)
        stiffness = activation * 1.5 * mass * impedance / (1.0 - impedance)
        reference = -2.0 / (impedance * time_constant) * velocity
        reference -= impedance * violation / (impedance * time_constant) ** 2
        return stiffness * max(reference - acceleration, 0.0)

    for height, velocity in ((0.002, 0.0), (0.004, -0.2), (0.0045, 0.05)):
        assert frictionless.get_contacts().n[0] == 0
        found = gradient(frictionless, height, velocity, WIDTH)
        h = 1e-7
        by = [
            (force(height + x, velocity + y, z - gravity) - force(height - x, velocity - y, -z - gravity)) / (2.0 * h)
            for x, y, z in np.eye(3) * h
        ]
        assert found["qpos"][0] == pytest.approx(dt * by[0] / (mass - by[2]), rel=1e-5)
        assert found["qvel"][0] == pytest.approx(1.0 + dt * by[1] / (mass - by[2]), rel=1e-5)
        assert found["qpos"][0] != 0.0
        assert gradient(frictionless, height, velocity, 0.0)["qpos"][0] == 0.0
    assert gradient(frictionless, 1.01 * WIDTH, -0.2, WIDTH)["qpos"][0] == 0.0


def test_deep_contacts_are_exact(frictionless: km.Scene) -> None:
    """From the smoothed distance on downwards."""
    exact, smoothed = (gradient(frictionless, -0.003, -0.1, x) for x in (0.0, 0.0029))
    assert abs(exact["qpos"][0]) > 0.1
    for name in ("qpos", "qvel"):
        np.testing.assert_allclose(smoothed[name], exact[name], rtol=1e-9, atol=1e-12)


def test_forces_of_an_earlier_contact_do_not_act_above_the_floor(frictionless: km.Scene) -> None:
    """A ball that is moved up from the floor has the gradient of one that was never there."""
    found = []
    for rests in (False, True):
        frictionless.reset()
        if rests:
            gradient(frictionless, -0.0002, 0.0, 0.0, 50)
            assert frictionless.get_contacts().n[0] == 1
        found.append(gradient(frictionless, 0.002, 0.0, WIDTH))
    for name in ("qpos", "qvel"):
        np.testing.assert_array_equal(found[0][name], found[1][name])


def test_friction_is_smoothed_too(tmp_path: Path) -> None:
    """A ball that hovers above the floor is slowed down and turned by friction, as the gradient says."""
    scene = scene_of(tmp_path, 3)
    state = {"qpos": [0.001, 0.0, 0.0], "qvel": [0.0, 0.5, 0.0]}
    results = []
    for smoothing in (0.0, WIDTH):
        trajectory, pullback = km.gradients.rollout(
            scene, control=np.zeros((2, 1, 0)), state=state, smoothing=smoothing
        )
        weights = np.zeros_like(trajectory.qvel)
        weights[-1, 0, 1] = 1.0
        results.append((trajectory, pullback(qvel=weights)["state"]))
    np.testing.assert_array_equal(results[0][0].qpos, results[1][0].qpos)
    np.testing.assert_allclose(results[0][1]["qvel"], [[0.0, 1.0, 0.0]], atol=1e-12)
    assert results[1][1]["qvel"][0, 1] < 1.0
    assert np.abs(results[1][1]["qvel"][0, 2]) > 1e-3


def test_errors(frictionless: km.Scene) -> None:
    with pytest.raises(KinemaError, match="rollout: smoothing: expected a finite number that is not negative"):
        km.gradients.rollout(frictionless, control=np.zeros((1, 1, 0)), smoothing=-1.0)
