"""Sleeping links: which kinematic trees are asleep, and waking them."""

from __future__ import annotations

from typing import Any

import numpy as np

from kinema.core import KinemaError
from kinema.dynamics import tree_index_of_frames

from .arguments import resolve_envs
from .built_scene import BuiltMixin, BuiltScene
from .entity_control import EntityControlMixin


class SceneSleepMixin(BuiltMixin):
    """Part of `Scene`: sleeping links."""

    def get_links_asleep(self, envs_idx: Any = None) -> np.ndarray:
        """Whether each link of the scene is asleep, bool (n_envs, n_links); all False without `Scene(sleep=...)`.

        Args:
            envs_idx: environments by index, slice or mask; None for all.
        """
        return links_asleep(self.built, slice(None), envs_idx)

    def wake(self, envs_idx: Any = None) -> None:
        """Wake all trees; needed after changes that the step does not detect, such as masses or geoms.

        Args:
            envs_idx: environments by index, slice or mask; None for all.
        """
        wake_trees(self.built, slice(None), envs_idx)


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


class EntitySleepMixin(EntityControlMixin):
    """Part of `Entity`: sleeping links."""

    def get_links_asleep(self, envs_idx: Any = None) -> np.ndarray:
        """Whether each link of the entity is asleep, bool (n_envs, n_links); all False without `Scene(sleep=...)`."""
        return links_asleep(self._built_scene, slice(self.info.link_start, self.info.link_end), envs_idx)

    def is_asleep(self, envs_idx: Any = None) -> np.ndarray:
        """Whether all movable links of the entity are asleep, bool (n_envs,)."""
        movable = ~self._built_scene.model.links.is_fixed[self.info.link_start : self.info.link_end]
        asleep = self.get_links_asleep(envs_idx)[:, movable]
        return np.logical_and(asleep.all(axis=1), movable.any())

    def wake(self, envs_idx: Any = None) -> None:
        """Wake the entity and all bodies of its sleeping islands, in the selected environments (None for all)."""
        wake_trees(self._built_scene, slice(self.info.link_start, self.info.link_end), envs_idx)
