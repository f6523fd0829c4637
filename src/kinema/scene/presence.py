"""Presence of entities, links and geoms in environments, in scenes whose entities can be removed."""

from __future__ import annotations

import numpy as np

from kinema.dynamics import PRESENT_ARRAY, Engine, tree_index_of_frames, trees_of_entity

from .arguments import IndexArray, Selection, resolve_envs
from .arrays import SceneArrays
from .entity_index import EntityIndex


def is_present(index: EntityIndex, envs_idx: Selection) -> np.ndarray:
    """Whether an entity is present, bool (environments,)."""
    return entity_presence(index.built.arrays, index.number, envs_idx)


def entity_presence(arrays: SceneArrays, number: int, envs_idx: Selection) -> np.ndarray:
    """Whether the entity with a number in the scene is present, bool (environments,)."""
    envs, trees = resolve_envs(envs_idx, arrays.n_envs), trees_of_entity(arrays.engine.model, number)
    if not arrays.engine.settings.presence or not trees:
        return np.ones(arrays.n_envs if envs is None else len(envs), np.bool_)
    return arrays.read(PRESENT_ARRAY, np.array(trees[:1]), envs)[:, 0] > 0.5


def presence_of_links(engine: Engine) -> np.ndarray | None:
    """Whether each link is present, bool (n_links, n_envs); None if all are always present."""
    if not engine.settings.presence:
        return None
    trees = np.array([*tree_index_of_frames(engine.model), -1])[engine.model.links.frame_idx]
    present = np.concatenate([engine.read_array(PRESENT_ARRAY) > 0.5, np.ones((1, engine.n_envs), np.bool_)])
    return present[trees]


def presence_of_entities(arrays: SceneArrays, envs: IndexArray) -> np.ndarray:
    """Whether each entity is present, bool (environments, n_entities)."""
    return np.stack([entity_presence(arrays, i, envs) for i in range(len(arrays.engine.model.entities))], axis=1)


def set_entity_presence(arrays: SceneArrays, number: int, present: np.ndarray, envs: IndexArray) -> None:
    """Make an entity present or absent, without a change of its state: bool (environments,) or (1,)."""
    trees = np.array(trees_of_entity(arrays.engine.model, number), np.int64)
    if len(trees):
        values = np.broadcast_to(np.asarray(present, np.float64)[:, None], (len(present), len(trees)))
        arrays.write(PRESENT_ARRAY, trees, values, envs)
