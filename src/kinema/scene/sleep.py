"""Sleeping links: which kinematic trees are asleep, and waking them."""

from __future__ import annotations

from typing import Any

import numpy as np

from kinema.core import KinemaError
from kinema.dynamics import tree_index_of_frames

from .arguments import resolve_envs
from .built_scene import BuiltScene


def links_asleep(built: BuiltScene, links: slice, envs_idx: Any) -> np.ndarray:
    """Whether each of the links is asleep, bool (environments, n); links fixed in the world never are."""
    trees = _tree_of_link(built)[links]
    envs = resolve_envs(envs_idx, built.n_envs)
    if not built.engine.settings.sleep_tolerance:
        return np.zeros((built.n_envs if envs is None else len(envs), len(trees)), np.bool_)
    asleep = built.arrays.get("asleep") > 0.0
    result = np.where(trees[:, None] >= 0, asleep[np.maximum(trees, 0)], False).T
    return result if envs is None else result[envs]


def wake_trees(built: BuiltScene, links: slice, envs_idx: Any) -> None:
    """Wake the kinematic trees of the given links, and all trees of the same sleeping islands.

    Clears the entries of these trees in the state arrays `asleep` and `still`. Raises `KinemaError` if sleeping is
    disabled.

    Args:
        built: the built scene.
        links: slice of scene link indices.
        envs_idx: environments; None for all.
    """
    if not built.engine.settings.sleep_tolerance:
        raise KinemaError("wake: sleeping is disabled in this scene: use Scene(sleep=True)")
    envs = resolve_envs(envs_idx, built.n_envs)
    columns = np.arange(built.n_envs) if envs is None else np.asarray(envs)
    trees = np.unique(_tree_of_link(built)[links])
    trees = trees[trees >= 0]
    asleep = np.array(built.arrays.get("asleep"))[:, columns]
    still = np.array(built.arrays.get("still"))[:, columns]
    wakes = (asleep[:, None] == asleep[None, trees]).any(axis=1)
    wakes[trees] = True
    for name, values in (("asleep", asleep), ("still", still)):
        built.arrays.write(name, slice(None), np.where(wakes, 0.0, values).T, columns)


def _tree_of_link(built: BuiltScene) -> np.ndarray:
    """Index of the kinematic tree of each link, (n_links,); -1 for links fixed in the world."""
    frames = built.model.links.frame_idx
    trees = np.array([*tree_index_of_frames(built.model), -1])
    return trees[frames]
