"""What was played: rows of steps, kept while they are taken."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

_KINDS = {"obs": np.float32, "action": np.float32, "reward": np.float32, "done": np.bool_, "broken": np.bool_}


@dataclass(frozen=True, slots=True)
class Played:
    """A group of episodes, a row for each step that was taken, one episode after the other."""

    episode: np.ndarray
    step: np.ndarray
    obs: np.ndarray
    """What was seen before each action, (rows, k)."""
    action: np.ndarray
    reward: np.ndarray
    done: np.ndarray
    """Whether the episode ended with this step, before its time was over."""
    broken: np.ndarray
    """Whether it ended because numbers were no longer finite."""

    def returns(self) -> np.ndarray:
        """What each episode earned, in their order."""
        starts = np.flatnonzero(self.step == 0)
        return np.add.reduceat(self.reward.astype(np.float64), starts) if len(starts) else np.zeros(0)


class Taken:
    """Steps of episodes that are being played: each goes to where it will lie, episode by episode, at once.

    Args:
        episodes: their numbers.
        limit: how many steps they have at most.
    """

    def __init__(self, episodes: np.ndarray, limit: int) -> None:
        self._episodes, self._limit = episodes.astype(np.int64), limit
        self._arrays: dict[str, np.ndarray] = {}
        self._lengths = np.zeros(len(episodes), np.int64)
        self._step = 0
        self.going = np.ones(len(episodes), np.bool_)
        """Which of them have not ended."""

    def note(self, **rows: np.ndarray) -> None:
        """A step of all environments, by what it gave: `obs`, `action`, ...; those without an episode come last."""
        count = len(self._episodes)
        for name, row in rows.items():
            if name not in self._arrays:
                self._arrays[name] = np.zeros((count, self._limit, *row.shape[1:]), _KINDS[name])
            self._arrays[name][:, self._step] = row[:count]
        self._step += 1
        self._lengths[self.going] = self._step
        self.going &= ~rows["done"][:count]

    def rows(self) -> Played:
        """All steps, but none of an episode that had ended before."""
        steps = np.arange(self._limit, dtype=np.int32)
        if self._lengths.min(initial=self._limit) == self._limit:  # nothing has to be moved
            found = [self._arrays[name].reshape(-1, *self._arrays[name].shape[2:]) for name in _KINDS]
            return Played(np.repeat(self._episodes, self._limit), np.tile(steps, len(self._episodes)), *found)
        number, step = np.nonzero(steps < self._lengths[:, None])
        return Played(self._episodes[number], steps[step], *(self._arrays[name][number, step] for name in _KINDS))
