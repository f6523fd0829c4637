"""Derivatives of steps of random robots and scenes by forward and by reverse mode of differentiation."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import numpy as np

import kinema as km
from kinema.core import Array
from kinema.dynamics import ControlMode, Engine, Linearizer, Settings
from kinema.runtime import find_device

from .never_breaks import N_STATES, N_VARIANTS, PER_ENV, starts, vary
from .robots.each_joint import model_of
from .robots.tied_robots import tied_robot
from .scene_fuzz.outcome import CONES, vary as vary_scene
from .scene_fuzz.structures import HULLS, MESHES, PER_ENV as PER_ENV_OF_SCENES, STRUCTURES

SCENE_EVERY = 8
"""One of so many seeds is a scene with contacts."""
N_STEPS = 100
"""Steps of a scene until its bodies touch."""


@dataclass(frozen=True, slots=True)
class ModeDifference:
    """Difference of the two modes for the models of one structure."""

    seed: int
    name: str
    n_dofs: int
    errors: tuple[float, ...]
    """|w.(J v) - (J^T w).v| of each model for random v and w, relative to |w|.(|J| |v|)."""


def mode_difference(seed: int) -> ModeDifference:
    """Differentiate one step of `N_VARIANTS` models of a structure in both modes, in double precision."""
    name, engine, envs = _scene(seed) if seed % SCENE_EVERY == 0 else _robot(seed)
    if engine is None:
        return ModeDifference(seed, name, 0, ())
    by_adjoints, by_tangents = (Linearizer(engine, "force", reverse=x).compute(envs) for x in (True, False))
    rows, columns = (np.concatenate([x.A, x.B], axis=2) for x in (by_adjoints, by_tangents))
    generator = np.random.default_rng(seed)
    w, v = generator.normal(size=rows.shape[:2]), generator.normal(size=(len(rows), rows.shape[2]))

    def products(jacobian: Array, w: Array, v: Array) -> Array:
        return np.asarray(np.einsum("ei,eij,ej->e", w, jacobian, v))

    scale = np.maximum(products(np.abs(columns), np.abs(w), np.abs(v)), 1e-300)
    errors = np.abs(products(rows, w, v) - products(columns, w, v)) / scale
    return ModeDifference(seed, name, engine.model.n_dofs, tuple(errors.tolist()))


def _robot(seed: int) -> tuple[str, Engine | None, np.ndarray]:
    """Robots with joints of all kinds, loops, limits, tendons, springs and dry friction, and one state of each."""
    model = model_of(tied_robot(seed))
    if model.n_dofs == 0:
        return "robot", None, np.zeros(0, np.intp)
    settings = Settings(dt=0.002, limits=True, constraints=True, energy_limiter=bool(seed % 2), per_env=PER_ENV)
    modes = [ControlMode.FORCE] * model.n_dofs
    n_envs = N_VARIANTS * N_STATES
    engine = Engine(
        model, settings, n_envs, find_device("cpu"), precision="double", codegen="loops", control_modes=modes
    )
    vary(engine, seed)
    for array, values in zip(("qpos", "vel"), starts(model, seed), strict=True):
        engine.array_view(array).assign(values)
    return "robot", engine, np.arange(N_VARIANTS) * N_STATES + seed % N_STATES


def _scene(seed: int) -> tuple[str, Engine | None, np.ndarray]:
    """Scenes of bodies that have fallen onto each other."""
    names = [name for name in STRUCTURES if HULLS or name not in MESHES]
    k = seed // SCENE_EVERY
    name, cone = names[k % len(names)], CONES[k // len(names) % len(CONES)]
    scene = km.Scene(quiet=True, codegen="loops", cone=cone, precision="double")
    structure = STRUCTURES[name](scene)
    scene.build(N_VARIANTS, per_env=PER_ENV_OF_SCENES)
    vary_scene(structure, N_VARIANTS, np.random.default_rng(seed))
    scene.step(N_STEPS)
    return name, scene.built.engine, np.arange(N_VARIANTS)


def mode_differences(seeds: Iterable[int], workers: int = 1) -> Iterator[ModeDifference]:
    """Differences for many seeds, in this process or in parallel ones."""
    if workers == 1:
        yield from map(mode_difference, seeds)
        return
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(mode_difference, seeds)
