"""Random numbers for a structure, 200 steps, and what became of them."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import kinema as km

from .structures import HULLS, MESHES, PER_ENV, STRUCTURES, Structure

CONES = ("elliptic", "pyramidal")
N_STEPS, EVERY = 200, 10
GROWTH = 0.02
"""How much energy may be more than there was, against what moves and what could fall half a metre."""
FALL = 0.5
APART = 2.5
"""How far bodies are from each other at first, against their sizes, so that nothing begins inside another."""


@dataclass(frozen=True, slots=True)
class Tumbled:
    """The scenes of one seed."""

    seed: int
    structure: str
    cone: str
    n_scenes: int
    """None where the structure takes what is not installed."""
    broken: tuple[int, ...] = ()
    """Scenes that were flagged, or are not finite."""
    growth: float = 0.0
    """The most that energy grew, as a share of what there was."""
    growing: tuple[int, ...] = ()
    """Scenes in which it grew by more than `GROWTH`."""
    lost: int = 0
    """Scenes that had more contacts than there was room for."""
    contacts: int = 0
    """The most at once."""

    @property
    def is_sound(self) -> bool:
        """Whether all stayed numbers and no energy came from nowhere."""
        return not (self.broken or self.growing)


def tumbled(seed: int, n_scenes: int = 250, precision: str = "single") -> Tumbled:
    """Step the scenes of a seed."""
    names = list(STRUCTURES)
    name, cone = names[seed % len(names)], CONES[seed // len(names) % len(CONES)]
    if name in MESHES and not HULLS:
        return Tumbled(seed, name, cone, 0)
    scene = km.Scene(quiet=True, codegen="loops", cone=cone, precision=precision)
    structure, rng = STRUCTURES[name](scene), np.random.default_rng(seed)
    scene.build(n_scenes, per_env=PER_ENV)
    vary(structure, n_scenes, rng)
    masses = sum(float(np.sum(e.get_mass())) for e in structure.entities if e.n_dofs)
    gravity = np.linalg.norm(_gravity(scene, n_scenes, rng), axis=1)
    moving, height = scene.get_energy()
    start, most = moving + height, moving + height
    for _ in range(N_STEPS // EVERY):
        scene.step(EVERY)
        most = np.fmax(most, sum(scene.get_energy()))
    broken = scene.get_error_envs_mask().astype(bool)
    for entity in structure.entities:
        if entity.n_dofs:
            broken |= ~np.isfinite(entity.get_qpos()).all(axis=1) | ~np.isfinite(entity.get_qvel()).all(axis=1)
    growth = np.where(broken, 0.0, (most - start) / (moving + masses * gravity * FALL + 1e-3))
    return Tumbled(
        seed,
        name,
        cone,
        n_scenes,
        tuple(np.flatnonzero(broken).tolist()),
        float(growth.max()),
        tuple(np.flatnonzero(growth > GROWTH).tolist()),
        int(scene.get_overflow_envs_mask().sum()),
        int(scene.get_peak_contacts().max()),
    )


def _gravity(scene: km.Scene, n: int, rng: np.random.Generator) -> np.ndarray:
    gravity = np.concatenate([rng.uniform(-4.0, 4.0, (n, 2)), rng.uniform(-12.0, -2.0, (n, 1))], axis=1)
    scene.set_gravity(gravity)
    return gravity


def vary(structure: Structure, n: int, rng: np.random.Generator) -> None:
    """Surfaces, sizes, places and speeds."""
    for entity in structure.entities:
        count = len(entity.geom_names)
        entity.set_geoms_friction(10.0 ** rng.uniform(-3.0, 0.5, (n, count)), entity.geom_names)
        soft = np.broadcast_to([0.02, 1.0, 0.9, 0.95, 0.001, 0.5, 2.0], (n, count, 7)).copy()
        soft[..., 0] = 10.0 ** rng.uniform(-2.3, -1.0, (n, count))
        soft[..., 1] = rng.uniform(0.7, 2.0, (n, count))
        entity.set_geoms_sol_params(soft, entity.geom_names)
    largest = np.full(n, structure.reach)
    if structure.sized:
        usual = np.array(list(structure.sized.values()))[:, None]
        size = usual * 10.0 ** rng.uniform(-0.8, 0.4, (n, len(usual), 3))
        structure.entities[0].set_geoms_size(size, list(structure.sized))
        largest = np.maximum(largest, np.linalg.norm(size, axis=2).max(axis=1) * 2.0)
    for entity in structure.entities:
        if entity.n_dofs:
            _place(structure, entity, largest, rng)


def _place(structure: Structure, entity: Any, largest: np.ndarray, rng: np.random.Generator) -> None:
    """Free bodies one above the other, a little aside, anyhow turned; or all where it is. In motion."""
    n = len(largest)
    if structure.spread:
        q, free = entity.get_qpos(), _free_places(entity)
        for row, at in enumerate(rng.permutation(free).tolist()):
            q[:, at : at + 2] = 0.3 * largest[:, None] * rng.normal(size=(n, 2))
            q[:, at + 2] = largest * (1.0 + APART * row) + rng.uniform(0.0, 0.2, n)
            turn = rng.normal(size=(n, 4))
            q[:, at + 3 : at + 7] = turn / np.linalg.norm(turn, axis=1, keepdims=True)
        entity.set_qpos(q)
    entity.set_qvel(structure.speed * rng.normal(size=(n, entity.n_dofs)))


def _free_places(entity: Any) -> list[int]:
    """Where the coordinates of free joints begin."""
    return [joint.qs_idx[0] for joint in entity.joints if len(joint.qs_idx) == 7]


def outcomes(seeds: Iterable[int], n_scenes: int, workers: int = 1, precision: str = "single") -> Iterator[Tumbled]:
    """Of many seeds, in this process or in some beside it, as they come."""
    one = partial(tumbled, n_scenes=n_scenes, precision=precision)
    if workers == 1:
        yield from map(one, seeds)
        return
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(one, seeds)
