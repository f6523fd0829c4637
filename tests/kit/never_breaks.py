"""Random robots that are held by more than can be held, stepped in single precision: what became of their numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import numpy as np

from kinema.backend import find_device
from kinema.description import Robot
from kinema.foundation import Array
from kinema.model import Model
from kinema.sim import Control, Engine, Settings

from .robots.configurations import model_coordinates
from .robots.each_joint import model_of
from .robots.tied_robots import tied_robot

N_STATES = 6
GROWTH = 10.0
"""How much more kinetic energy the second half of a run may see than the first: poses beyond limits are wound springs,
which let go when they do."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What 200 steps from several states, and single steps from wild ones, did to a robot."""

    seed: int
    n_dofs: int
    broken: tuple[int, ...]
    """States whose run came to contain something that is no finite number."""
    growth: float
    """Of kinetic energy, the most of the second half of a run over that of the first; 0 where both are tiny."""
    wild: int
    """Single steps from wild states whose velocities are no finite numbers."""

    @property
    def is_sound(self) -> bool:
        """Whether all stayed numbers, and no energy came from nowhere."""
        return not self.broken and not self.wild and self.growth <= GROWTH


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
    return q, rng.normal(size=(model.n_dofs, N_STATES)) * ([0.0, 3.0] * 3)


def kinetic(engine: Engine) -> Array:
    """Of each environment [J]."""
    return np.array(engine.fields.system.kinetic_energy.numpy(), dtype=float).reshape(-1, engine.n_envs).sum(axis=0)


def outcome_of(seed: int) -> Outcome:
    """Step one robot, that nothing does work on."""
    model = model_of(idle(tied_robot(seed)), gravity=(0.0, 0.0, 0.0))
    if model.n_dofs == 0:
        return Outcome(seed, 0, (), 0.0, 0)
    settings = Settings(dt=0.002, limits=True, constraints=True, calm=True)
    told = [Control.FORCE] * model.n_dofs
    engine = Engine(model, settings, N_STATES, find_device("cpu"), emission="rolled", control=told)
    _put(engine, *starts(model, seed))
    energies = [kinetic(engine)]
    for _ in range(20):
        engine.step(10)
        energies.append(kinetic(engine))
    flagged = engine.field("error").numpy().any(axis=0)
    for name in ("qpos", "vel"):
        flagged = flagged | ~np.isfinite(engine.field(name).numpy()).all(axis=0)
    before, after = np.max(energies[:11], axis=0), np.max(energies[11:], axis=0)
    growth = np.where(flagged | (after < 1e-3), 0.0, after / np.maximum(before, 1e-3))
    return Outcome(
        seed, model.n_dofs, tuple(np.flatnonzero(flagged).tolist()), float(growth.max()), _wild(engine, seed)
    )


def _wild(engine: Engine, seed: int) -> int:
    """One step from anywhere, at speeds up to 100: how often that leaves no finite velocities."""
    engine.reset()
    rng, failures = np.random.default_rng(seed), 0
    for _ in range(10):
        q = model_coordinates(engine.model, rng, N_STATES, 3.0)
        _put(engine, q, rng.uniform(-100.0, 100.0, (engine.model.n_dofs, N_STATES)))
        engine.step()
        failures += int((~np.isfinite(engine.field("vel").numpy()).all(axis=0)).sum())
    return failures


def _put(engine: Engine, q: Array, v: Array) -> None:
    engine.field("qpos").assign(q)
    engine.field("vel").assign(v)


def outcomes(seeds: Iterable[int], workers: int = 1) -> Iterator[Outcome]:
    """Of many robots, in this process or in some beside it."""
    if workers == 1:
        yield from map(outcome_of, seeds)
        return
    with ProcessPoolExecutor(workers) as pool:
        yield from pool.map(outcome_of, seeds, chunksize=4)
