"""Who sleeps, and waking: of a scene as a whole, and of an entity."""

from __future__ import annotations

from typing import Any

import numpy as np

from kinema.foundation import KinemaError
from kinema.sim import trees_of_frames

from .batches import environments
from .commands import Commands
from .running import Built, Running


class Sleeping(Built):
    """The part of a scene that knows who sleeps."""

    def get_links_asleep(self, envs_idx: Any = None) -> np.ndarray:
        """Which links of the scene sleep, (n_envs, n_links); none does without `Scene(sleep=...)`."""
        return links_asleep(self.running, slice(None), envs_idx)

    def wake(self, envs_idx: Any = None) -> None:
        """Wake everything, in all environments or some: after a change that no step can see, as of masses or shapes."""
        wake_trees(self.running, slice(None), envs_idx)


def links_asleep(running: Running, links: slice, envs_idx: Any) -> np.ndarray:
    """Which links sleep, (n_envs, n)."""
    trees = _trees(running)[links]
    envs = environments(envs_idx, running.n_envs)
    if not running.engine.settings.sleep:
        return np.zeros((running.n_envs if envs is None else len(envs), len(trees)), np.bool_)
    asleep = running.memory.all("asleep") > 0.0
    found = np.where(trees[:, None] >= 0, asleep[np.maximum(trees, 0)], False).T
    return found if envs is None else found[envs]


def wake_trees(running: Running, links: slice, envs_idx: Any) -> None:
    """Wake the trees of some links, and who fell asleep with them."""
    if not running.engine.settings.sleep:
        raise KinemaError("wake: nothing sleeps in this scene: it was built without Scene(sleep=True)")
    envs = environments(envs_idx, running.n_envs)
    columns = np.arange(running.n_envs) if envs is None else np.asarray(envs)
    own = np.unique(_trees(running)[links])
    own = own[own >= 0]
    asleep = np.array(running.memory.all("asleep"))[:, columns]
    still = np.array(running.memory.all("still"))[:, columns]
    called = (asleep[:, None] == asleep[None, own]).any(axis=1)
    called[own] = True
    for name, values in (("asleep", asleep), ("still", still)):
        running.memory.write(name, slice(None), np.where(called, 0.0, values).T, columns)


def _trees(running: Running) -> np.ndarray:
    """Of each link its tree; -1 of what the world holds."""
    frames = running.model.links.frame_idx
    trees = np.array([*trees_of_frames(running.model), -1])
    return trees[frames]


class Resting(Commands):
    """The part of an entity that may sleep."""

    def get_links_asleep(self, envs_idx: Any = None) -> np.ndarray:
        """Which links sleep, (n_envs, n_links); none does without `Scene(sleep=...)`."""
        return links_asleep(self._running, slice(self.info.link_start, self.info.link_end), envs_idx)

    def is_asleep(self, envs_idx: Any = None) -> np.ndarray:
        """Where all of it that can move sleeps, (n_envs,)."""
        moving = ~self._running.model.links.is_fixed[self.info.link_start : self.info.link_end]
        found = self.get_links_asleep(envs_idx)[:, moving]
        return np.logical_and(found.all(axis=1), moving.any())

    def wake(self, envs_idx: Any = None) -> None:
        """Wake it, and what fell asleep with it, in all environments or some."""
        wake_trees(self._running, slice(self.info.link_start, self.info.link_end), envs_idx)
