"""Random scenes whose entities are placed and removed, and the scenes with the present entities built directly."""

from __future__ import annotations

import functools
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import kinema as km
from kinema.core import cache
from kinema.core.cache import CACHE_ENV_VARIABLE
from kinema.description import Robot, World
from kinema.ir import for_each_loops
from kinema.scene import Entity

from .mjcf_texts import read_text

CRAWLER = """
<mujoco model="crawler">
  <worldbody>
    <body name="trunk">
      <freejoint/>
      <geom type="box" size="0.08 0.05 0.03" density="500"/>
      <body name="leg" pos="0.1 0 0">
        <joint name="knee" axis="0 1 0" range="-60 60" damping="0.02" frictionloss="0.01"/>
        <geom type="capsule" fromto="0 0 0 0.1 0 -0.05" size="0.02" density="500"/>
      </body>
    </body>
  </worldbody>
  <actuator><motor joint="knee" gear="0.5"/></actuator>
</mujoco>
"""
"""A small robot with a floating base, a limited joint with dry friction, and a motor."""
VARIANTS: tuple[dict[str, Any], ...] = (
    {},
    {"cone": "elliptic"},
    {"solver": "cg"},
    {"precision": "double", "integrator": "rk4"},
    {"sleep": True},
    {"integrator": "implicit", "noslip_iterations": 3},
)
"""Options of scenes with different code. Unrolled code shares products of equal bodies, which are then rounded."""
N_EVENTS, N_CHANGES, N_STEPS = 5, 3, 40
"""Times of change, changes at a time, and steps after the last change whose result is compared."""
FEW = 3
"""Trees up to which the Hessian of a scene is one block; from the next number on it has blocks of trees."""


@contextmanager
def without_folding(cache_folder: Path) -> Iterator[None]:
    """Within it, code is compiled without the constants that all bodies of a scene share, such as 0 and 1.

    Code of a loop is folded with the constants that all of its iterations have, and so rounds products and sums as one
    operation where other code does not: a body more changes the last bit of others. The cache is another one.
    """
    constants, folder = for_each_loops.FOLDABLE_CONSTANTS, os.environ.get(CACHE_ENV_VARIABLE)
    for_each_loops.FOLDABLE_CONSTANTS = ()  # type: ignore[assignment]
    os.environ[CACHE_ENV_VARIABLE] = str(cache_folder)
    cache._memory_cache.clear()
    try:
        yield
    finally:
        for_each_loops.FOLDABLE_CONSTANTS = constants
        cache._memory_cache.clear()
        if folder is None:
            del os.environ[CACHE_ENV_VARIABLE]
        else:
            os.environ[CACHE_ENV_VARIABLE] = folder


@dataclass(frozen=True)
class Comparison:
    """Outcome of a random scene."""

    n_scenes: int
    """Scenes that were built directly."""
    differing: list[str]
    """Descriptions of the environments that differ in a bit."""
    n_contacts: int
    """Contacts at the end, in all environments."""


def compare_random_scene(
    seed: int, n_envs: int = 32, n_groups: int = 4, variants: Sequence[Mapping[str, Any]] = VARIANTS
) -> Comparison:
    """Place and remove entities at random, then compare with scenes of exactly the present entities, bit for bit.

    All environments have different states; those of a group have the same entities.
    """
    random = np.random.default_rng(seed)
    options = {"codegen": "loops", **variants[seed % len(variants)]}
    few = random.random() < 0.3
    kinds = random.choice(["box", "sphere", "capsule", "crawler"], 2 if few else 4, p=[0.3, 0.3, 0.25, 0.15])
    kinds[0] = random.choice(["box", "sphere", "capsule"])  # scenes without single bodies use another algorithm (ABA)
    sources = [_source(str(kind), random) for kind in kinds]
    scene = km.Scene(quiet=True, **options)
    scene.add(km.Plane())
    places = [(0.3 * i, 0.0, 0.3) for i in range(len(sources))]
    originals = [scene.add(source, pos=place) for source, place in zip(sources, places, strict=True)]
    room = {originals[0]: 1} if few else {x: int(random.integers(0, 3)) for x in originals}
    scene.build(n_envs, room=room)
    source_of = {entity: _original(entity, originals) for entity in scene.entities[1:]}
    groups = np.arange(n_envs).reshape(n_groups, -1)
    for _ in range(N_EVENTS):
        for _ in range(N_CHANGES):
            _change(scene, originals, random, groups)
        scene.step(int(random.integers(1, 25)))
    if not few:
        for group in groups:
            while sum(entity.is_present(group[0])[0] for entity in scene.entities[1:]) <= FEW:
                _spawn(scene, originals, random, group)
    _change(scene, originals, random, groups, at_least=0 if few else FEW + 1)
    if options.get("sleep"):
        scene.wake()
    starts = [{entity: _state(scene, entity, env) for entity in source_of} for env in range(n_envs)]
    present = [[e for e in source_of if e.is_present(env)[0]] for env in range(n_envs)]
    controls = {e: random.uniform(-1.0, 1.0, (n_envs, 1)) for e in source_of if e.n_actuators}
    for entity, values in controls.items():
        entity.control(values)
    scene.step(N_STEPS)
    differing, sets = [], {tuple(entities) for entities in present}
    for group in sorted(sets, key=lambda x: [e.name for e in x]):
        envs = [env for env in range(n_envs) if tuple(present[env]) == group]
        direct = km.Scene(quiet=True, **options)
        direct.add(km.Plane())
        copies = {entity: direct.add(sources[source_of[entity]], pos=places[source_of[entity]]) for entity in group}
        direct.build(len(envs))
        for entity, copy in copies.items():
            _set_state(direct, copy, [starts[env][entity] for env in envs])
            if entity in controls:
                copy.control(controls[entity][envs])
        direct.step(N_STEPS)
        for entity, copy in copies.items():
            for name in ("qpos", "qvel"):
                expected, found = (getattr(x, f"get_{name}")() for x in (copy, entity))
                rows = [env for i, env in enumerate(envs) if not np.array_equal(expected[i], found[env])]
                if rows:
                    difference = np.abs(expected - found[envs]).max()
                    differing.append(f"seed {seed} {options}: {name} of {entity.name} in {rows}: {difference:g}")
        if not np.array_equal(direct.get_energy()[1], scene.get_energy()[1][envs]):
            differing.append(f"seed {seed} {options}: potential energy of {envs}")
        if not np.array_equal(direct.get_contacts().n, scene.get_contacts().n[envs]):
            differing.append(f"seed {seed} {options}: number of contacts of {envs}")
    return Comparison(len(sets), differing, int(scene.get_contacts().n.sum()))


def _source(kind: str, random: np.random.Generator) -> Any:
    if kind == "box":
        return km.Box(tuple(random.uniform(0.06, 0.2, 3)))
    if kind == "sphere":
        return km.Sphere(float(random.uniform(0.03, 0.1)))
    if kind == "capsule":
        return km.Capsule(float(random.uniform(0.03, 0.06)), float(random.uniform(0.08, 0.2)))
    return _crawler()


@functools.cache
def _crawler() -> Robot | World:
    with tempfile.TemporaryDirectory() as folder:
        return read_text(Path(folder), CRAWLER)


def _original(entity: Entity, originals: Sequence[Entity]) -> int:
    """Index of the original of a copy, which has its description."""
    return next(i for i, x in enumerate(originals) if x.description is entity.description)


def _change(
    scene: km.Scene,
    originals: Sequence[Entity],
    random: np.random.Generator,
    groups: np.ndarray,
    at_least: int = 0,
) -> None:
    """Spawn or remove an entity in random groups of environments; at least so many stay in each, and the first one."""
    envs = groups[random.random(len(groups)) < 0.5].ravel()
    if random.random() < 0.5:
        _spawn(scene, originals, random, envs)
        return
    counts = sum(entity.is_present().astype(int) for entity in scene.entities[1:])
    envs = envs[counts[envs] > at_least]
    removable = scene.entities[2:]
    scene.remove(removable[int(random.integers(len(removable)))], envs)


def _spawn(scene: km.Scene, originals: Sequence[Entity], random: np.random.Generator, envs: Sequence[int]) -> None:
    """Spawn an entity for which there is room at random poses near the others, if there is any."""
    for i in random.permutation(len(originals)):
        try:
            scene.spawn(
                originals[int(i)],
                pos=random.uniform((-0.15, -0.15, 0.1), (0.15, 0.15, 0.6), (len(envs), 3)),
                quat=random.normal(size=(len(envs), 4)),
                vel=random.uniform(-1.0, 1.0, (len(envs), 3)),
                ang=random.uniform(-3.0, 3.0, (len(envs), 3)),
                envs_idx=envs,
            )
        except km.KinemaError:
            continue
        return


def _state(scene: km.Scene, entity: Entity, env: int) -> tuple[np.ndarray, ...]:
    """Coordinates, velocities and warm start of the solver of an entity in an environment."""
    dofs = slice(entity.info.dof_start, entity.info.dof_end)
    warm_start = scene.built.arrays.read("warm_start", dofs, np.array([env]))[0]
    return entity.get_qpos(env)[0], entity.get_qvel(env)[0], warm_start


def _set_state(scene: km.Scene, entity: Entity, states: Sequence[tuple[np.ndarray, ...]]) -> None:
    """Write states bit for bit, without normalising quaternions."""
    arrays, info = scene.built.arrays, entity.info
    ranges = {"qpos": (info.q_start, info.q_end), "vel": (info.dof_start, info.dof_end)}
    ranges["warm_start"] = ranges["vel"]
    for i, (name, (start, end)) in enumerate(ranges.items()):
        arrays.write(name, slice(start, end), np.array([x[i] for x in states]))
