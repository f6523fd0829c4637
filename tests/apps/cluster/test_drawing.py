"""Random numbers of episodes: as NumPy's own generators give them, all at once; threads; what is kept of steps."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from hypothesis import given, settings, strategies

from kinema.apps.cluster.episode_runner import (
    EpisodeDistribution,
    EpisodeRecorder,
    episode_uniforms,
    iterate_episode_generators,
)
from kinema.core import KinemaError
from kinema.runtime import n_threads

NUMBERS = strategies.lists(strategies.integers(0, 2**62), min_size=1, max_size=5)


@given(strategies.integers(0, 2**40), NUMBERS, strategies.integers(0, 2**32 - 1), strategies.integers(1, 13))
@settings(max_examples=25)
def test_all_at_once_as_one_after_the_other(seed: int, episodes: list[int], purpose: int, count: int) -> None:
    """NumPy's Philox is the judge, to the bit."""
    numbers = np.array(episodes)
    expected = [g.random(count) for g in iterate_episode_generators(seed, numbers, purpose)]
    np.testing.assert_array_equal(episode_uniforms(seed, numbers, purpose, count), expected)


@pytest.mark.parametrize(("kind", "a", "b"), [("uniform", -0.3, 0.7), ("loguniform", 0.1, 5.0), ("normal", 1.0, 0.2)])
@pytest.mark.parametrize(("each", "own"), [("item", (3, 2)), ("env", (1, 1))])
def test_distributions_are_numpys(kind: str, a: float, b: float, each: str, own: tuple[int, ...]) -> None:
    draw = EpisodeDistribution(kind, a, b, None, each, np.array([7, 3, 900]))
    found = draw.sample(np.array([2, 0]), (3, 2), 5, "mass")
    turns = iterate_episode_generators(5, np.array([900, 7]), zlib.crc32(b"mass"))
    expected = np.array([draw._sample(generator, own) for generator in turns])
    np.testing.assert_allclose(found, np.broadcast_to(expected, (2, 3, 2)), rtol=1e-15)


def test_steps_are_kept_until_an_episode_ends() -> None:
    """The second one ends after its second step; the environment behind them plays for nobody."""
    taken = EpisodeRecorder(np.array([4, 9]), 3)
    for step in range(3):
        row = np.array([0, 10, 20]) + step
        done = np.array([False, step == 1, True])
        taken.record(obs=row[:, None], action=row[:, None], reward=row, done=done, broken=done & False)
    found = taken.to_batch()
    assert found.episode.tolist() == [4, 4, 4, 9, 9]
    assert found.step.tolist() == [0, 1, 2, 0, 1]
    assert found.obs[:, 0].tolist() == [0, 1, 2, 10, 11]
    assert found.done.tolist() == [False, False, False, False, True]
    assert found.returns().tolist() == [3.0, 21.0]


def test_threads_are_as_many_as_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KINEMA_THREADS", "3")
    assert n_threads() == 3
    monkeypatch.setenv("KINEMA_THREADS", "many")
    with pytest.raises(KinemaError, match="KINEMA_THREADS: expected a whole number of at least 1, not 'many'"):
        n_threads()
