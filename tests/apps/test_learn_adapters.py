"""Adapters for the libraries that train, where they are installed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kinema.apps import learn
from kinema.apps.learn.tasks.cartpole import cartpole


def task() -> learn.Task:
    """A cart-pole with episodes of four steps."""
    return replace(cartpole(), episode_length_s=0.16)


def test_stable_baselines3_learns_on_it() -> None:
    baselines: Any = pytest.importorskip("stable_baselines3", reason="needs the extra rl")
    env = learn.Sb3Task(learn.make_env(task(), 4))
    model = baselines.PPO("MlpPolicy", env, n_steps=8, batch_size=16, n_epochs=1, device="cpu")
    model.learn(64)
    env.reset()
    infos: list[dict[str, Any]] = []
    for i in range(4):
        obs, reward, done, infos = env.step(np.ones((4, 1), np.float32))
        assert obs.shape == (4, 5)
        assert reward.shape == (4,)
        assert done.tolist() == [i == 3] * 4
    assert all(info["TimeLimit.truncated"] and info["terminal_observation"].shape == (5,) for info in infos)
    assert all(info["episode"]["l"] == 4 for info in infos)


def test_rsl_rl_steps_it() -> None:
    torch: Any = pytest.importorskip("torch", reason="needs PyTorch")
    pytest.importorskip("rsl_rl", reason="needs rsl-rl-lib")
    env = learn.RslTask(learn.make_env(task(), 3))
    assert env.get_observations()["policy"].shape == (3, 5)
    extras: dict[str, Any] = {}
    for i in range(4):
        obs, reward, dones, extras = env.step(torch.ones(3, 1))
        assert obs["policy"].shape == (3, 5)
        assert reward.shape == (3,)
        assert dones.tolist() == [int(i == 3)] * 3
    assert extras["time_outs"].tolist() == [True] * 3
    assert "Episode_Reward/upright" in extras["log"]
    assert env.episode_length_buf.tolist() == [0, 0, 0]
