"""Tasks with PyTorch's arrays do the same as with NumPy's, by the ways that never leave a GPU."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import kinema as km
from kinema.apps import learn
from kinema.apps.learn.tasks.cartpole import cartpole
from kinema.scene.arrays import OutputConverter

torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed")


def test_both_kinds_of_arrays_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tensors of the host stand for those of a GPU; both begin each step in the same state."""
    monkeypatch.setattr(OutputConverter, "on_gpu", property(lambda self: self.kind == "torch"))
    monkeypatch.setattr(OutputConverter, "_is_cuda", staticmethod(lambda x: isinstance(x, torch.Tensor)))
    command = learn.UniformVelocityCommand((0, 1), (0, 1), (0, 1), resampling_time_range=(0.1, 0.1))
    task = replace(cartpole(), episode_length_s=0.24, commands={"told": command})
    env, other = learn.make_env(task, 5, arrays="torch"), learn.make_env(task, 5)
    acting, log = np.random.default_rng(0), {}
    for i in range(7):
        other.robot.set_qpos(env.robot.get_qpos().numpy().copy())
        other.robot.set_qvel(env.robot.get_qvel().numpy().copy())
        action = acting.normal(size=(5, 1)).astype(np.float32)
        found, expected = env.step(torch.as_tensor(action)), other.step(action)
        np.testing.assert_allclose(found.reward.numpy(), expected.reward, atol=1e-6)
        np.testing.assert_array_equal(found.done.numpy(), expected.done)
        seen = (found.final_obs, expected.final_obs) if expected.done.any() else (found.obs, expected.obs)
        np.testing.assert_allclose(seen[0]["policy"].numpy(), seen[1]["policy"], atol=1e-6)
        assert expected.done.all() == (i == 5)
        log = found.log
    assert float(log["Episode_Termination/time_out"]) == 1.0
    assert env.commands["told"].shape == (5, 3)
    assert (np.abs(env.robot.get_qpos().numpy() - [0.0, np.pi]).max(axis=0) > 0.0).all()  # from its keyframe, shaken


def test_gymnasium_gets_tensors() -> None:
    pytest.importorskip("gymnasium")
    env = learn.make_vec(replace(cartpole(), episode_length_s=0.08), num_envs=3, arrays="torch")
    env.reset(seed=0)
    env.step(torch.ones(3, 1))
    obs, reward, _, truncated, info = env.step(torch.ones(3, 1))
    assert torch.is_tensor(obs)
    assert torch.is_tensor(reward)
    assert truncated.all()
    assert info["_final_obs"].all()
    assert info["final_obs"].shape == obs.shape


def test_stable_baselines3_is_told_to_take_numpy() -> None:
    pytest.importorskip("stable_baselines3", reason="needs the extra rl")
    with pytest.raises(km.KinemaError, match="takes NumPy's arrays"):
        learn.Sb3Task(learn.make_env(cartpole(), 1, arrays="torch"))


def test_a_network_of_pytorch_becomes_plain_arrays() -> None:
    layers = torch.nn
    network = layers.Sequential(layers.Linear(3, 4), layers.ELU(), layers.Linear(4, 2))
    seen = torch.randn(6, 3)
    np.testing.assert_allclose(learn.Policy.from_torch(network)(seen.numpy()), network(seen).detach(), atol=1e-6)
    with pytest.raises(km.KinemaError, match="only ELU may stand between layers, not Tanh"):
        learn.Policy.from_torch(layers.Sequential(layers.Linear(3, 4), layers.Tanh()))
