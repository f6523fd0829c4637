"""Random robots that are held by more than can be held, stepped in single precision: what became of their numbers.

One program serves many robots: what can differ between environments (masses, limits, dry friction, how soft everything
is, which equalities hold) does, so that a robot is a random structure with random numbers in it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kinema.core import Array
from kinema.description import Robot
from kinema.dynamics import ControlMode, Engine, Settings
from kinema.model import Model
from kinema.runtime import find_device

from .robots.configurations import model_coordinates
from .robots.each_joint import model_of
from .robots.tied_robots import SOFT, tied_robot

Mask = npt.NDArray[np.bool_]
N_VARIANTS = 50
"""Robots of the same structure."""
N_STATES = 6
"""That each of them starts from."""
N_ENVS = N_VARIANTS * N_STATES
N_STEPS, EVERY = 200, 10
GROWTH = 10.0
"""How much more kinetic energy the second half of a run may see than there was in the first, with what constraints had
stored: that is not exact, as how much they store depends on how easily they are moved just then."""
TINY = 1e-3
"""Energies [J] that are not worth a word."""
USUAL = {"solref": (0.02, 1.0), "solimp": (0.9, 0.95, 0.001, 0.5, 2.0)}
"""How soft things are where nobody says it."""
PER_ENV = frozenset({"mass_shift", "limit", "frictionloss", "equality", "sol_params"})


@dataclass(frozen=True, slots=True)
class Outcome:
    """What 200 steps from several states, and single steps from wild ones, did to the robots of one structure."""

    seed: int
    n_dofs: int
    broken: tuple[int, ...] = ()
    """Environments that came to contain something that is no finite number."""
    flagged: tuple[int, ...] = ()
    """Those that were flagged, and held where they were."""
    growth: float = 0.0
    """Of kinetic energy, the most of the second half of a run over that of the first; 0 where both are tiny."""
    from_nowhere: float = 0.0
    """Likewise, with what constraints had stored in the first half; only where growth is large."""
    wild: int = 0
    """Single steps from wild states whose velocities are no finite numbers."""
    calm: bool = True
    """Whether motion that is too fast for the step was held back."""
    seconds: float = 0.0
    """How long it took."""

    @property
    def is_sound(self) -> bool:
        """Whether all stayed numbers, nothing ran away, and no energy came from nowhere."""
        return not (self.broken or self.flagged or self.wild) and self.from_nowhere <= GROWTH


class Structure(NamedTuple):
    """What is to be run."""

    seed: int
    calm: bool = True


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
    q, v = [], []
    for _ in range(N_VARIANTS):
        there = np.repeat(model.qpos0[:, None], 2, axis=1)
        q += [there, *(model_coordinates(model, rng, 2, reach) for reach in (0.6, 3.0))]
        v.append(rng.normal(size=(model.n_dofs, N_STATES)) * ([0.0, 3.0] * 3))
    return np.concatenate(q, axis=1), np.concatenate(v, axis=1)


def vary(engine: Engine, seed: int) -> None:
    """Give every robot but the first numbers of its own, often absurd ones."""
    rng, model = np.random.default_rng(seed), engine.model

    def put(name: str, values: Array) -> None:
        field = engine.array_view(name)
        if len(field.numpy()):
            values[:, 0] = field.numpy()[:, 0]
            field.assign(np.repeat(values, N_STATES, axis=1))

    def soft(kind: str, count: int) -> None:
        chosen = rng.integers(len(SOFT), size=(count, N_VARIANTS))
        for name, usual in USUAL.items():
            numbers = np.array([getattr(s, name) or usual for s in SOFT])[chosen].transpose(0, 2, 1)
            put(f"{kind}_{name}", numbers.reshape(count * len(usual), N_VARIANTS))

    n_ties, n_couplings = len(model.equalities.names), len(model.couplings.names)
    put("mass_shift", model.links.inertial_mass[:, None] * rng.uniform(-0.5, 2.0, (model.n_links, N_VARIANTS)))
    ends = rng.normal(size=(2, model.n_dofs, N_VARIANTS))
    ends = np.where(rng.random(ends[0].shape) < 0.3, ends, np.sort(ends, axis=0))  # some the wrong way round
    ends[1] = np.where(rng.random(ends[0].shape) < 0.2, ends[0], ends[1])
    for name, values in zip(("lower", "upper"), ends, strict=True):
        put(name, values)
    put("frictionloss", 10.0 ** rng.uniform(-1.0, 5.0, (model.n_dofs, N_VARIANTS)))
    for kind, count in (
        ("limit", model.n_dofs),
        ("friction", model.n_dofs),
        ("equality", n_ties),
        ("coupling", n_couplings),
    ):
        soft(kind, count)
    for name, count in (("equality_on", n_ties), ("coupling_on", n_couplings)):
        put(name, (rng.random((count, N_VARIANTS)) < 0.7).astype(float))


def kinetic(engine: Engine) -> Array:
    """Of each environment [J]."""
    return np.array(engine.fields.system.kinetic_energy.numpy(), dtype=float).reshape(-1, engine.n_envs).sum(axis=0)


def stored(engine: Engine) -> Array:
    """What constraints hold as springs, of each environment [J]: their forces at rest along how far they are off.

    A spring holds half of that, and what pulls back at a bounded speed all of it.
    """
    moving = np.array(engine.array_view("vel").numpy())
    engine.array_view("vel").assign(np.zeros_like(moving))
    rows = engine.fields.constraints
    found = np.abs(np.array(rows.efc_force.numpy(), float) * np.array(rows.efc_pos.numpy(), float)).sum(axis=0)
    engine.array_view("vel").assign(moving)
    return found


def engine_of(seed: int, *, calm: bool = True) -> Engine | None:
    """A structure with all its robots, in their first states; None where nothing moves."""
    model = model_of(idle(tied_robot(seed)), gravity=(0.0, 0.0, 0.0))
    if model.n_dofs == 0:
        return None
    settings = Settings(dt=0.002, limits=True, constraints=True, energy_limiter=calm, per_env=PER_ENV)
    modes = [ControlMode.FORCE] * model.n_dofs
    engine = Engine(model, settings, N_ENVS, find_device("cpu"), codegen="loops", control_modes=modes)
    vary(engine, seed)
    _put(engine, *starts(model, seed))
    return engine


def outcome_of(seed: int, *, calm: bool = True) -> Outcome:
    """Step the robots of one structure, that nothing does work on."""
    start = time.monotonic()
    engine = engine_of(seed, calm=calm)
    if engine is None:
        return Outcome(seed, 0, calm=calm)
    energies = [kinetic(engine)]
    for _ in range(N_STEPS // EVERY):
        engine.step(EVERY)
        energies.append(kinetic(engine))
    flagged: Mask = np.asarray(engine.array_view("error").numpy().any(axis=0))
    broken: Mask = np.asarray(~np.isfinite(energies).all(axis=0))
    for name in ("qpos", "vel"):
        broken |= ~np.isfinite(engine.array_view(name).numpy()).all(axis=0)
    growth = _growth(np.array(energies), np.array(energies), flagged | broken)
    growing = bool(growth.max() > GROWTH)
    return Outcome(
        seed,
        engine.model.n_dofs,
        tuple(np.flatnonzero(broken).tolist()),
        tuple(np.flatnonzero(flagged).tolist()),
        float(growth.max()),
        _from_nowhere(engine, seed, growth > GROWTH) if growing else 0.0,
        _wild(engine, seed),
        calm,
        time.monotonic() - start,
    )


def _growth(kinetic_energy: Array, energy: Array, aside: Mask) -> Array:
    """The most kinetic energy of the second half over the most energy of the first, of each environment."""
    half = len(energy) // 2 + 1
    before, after = np.nanmax(energy[:half], axis=0), np.nanmax(kinetic_energy[half:], axis=0)
    return np.where(aside | (after < TINY), 0.0, after / np.maximum(before, TINY))


def _from_nowhere(engine: Engine, seed: int, growing: Mask) -> float:
    """Once more, with what constraints store."""
    engine.array_view("error").assign(np.zeros((1, 1)))
    _put(engine, *starts(engine.model, seed))
    moving, held = [kinetic(engine)], [stored(engine)]
    for _ in range(N_STEPS // EVERY):
        engine.step(EVERY)
        moving.append(kinetic(engine))
        held.append(stored(engine))
    return float(_growth(np.array(moving), np.array(moving) + np.array(held), ~growing).max())


def _wild(engine: Engine, seed: int) -> int:
    """One step from anywhere, at speeds up to 100: how often that leaves no finite velocities."""
    rng, failures = np.random.default_rng(seed), 0
    for _ in range(2):
        engine.array_view("error").assign(np.zeros((1, 1)))
        q = model_coordinates(engine.model, rng, N_ENVS, 3.0)
        _put(engine, q, rng.uniform(-100.0, 100.0, (engine.model.n_dofs, N_ENVS)))
        engine.step()
        failures += int(engine.array_view("error").numpy().any(axis=0).sum())
    return failures


def _put(engine: Engine, q: Array, v: Array) -> None:
    engine.array_view("qpos").assign(q)
    engine.array_view("vel").assign(v)


def outcomes(structures: Iterable[Structure], workers: int = 1) -> Iterator[Outcome]:
    """Of many structures, in this process or in some beside it, as they are done."""
    if workers == 1:
        yield from map(_outcome, structures)
        return
    with ProcessPoolExecutor(workers) as pool:
        for done in as_completed([pool.submit(_outcome, one) for one in structures]):
            yield done.result()


def _outcome(structure: Structure) -> Outcome:
    return outcome_of(structure.seed, calm=structure.calm)
