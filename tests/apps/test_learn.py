"""Tasks made of terms: what gymnasium expects of them, how episodes end and begin, and what terms compute."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import kinema as km
from kinema.apps import learn
from kinema.apps.learn import mdp
from kinema.apps.learn.tasks.cartpole import cartpole

gymnasium: Any = pytest.importorskip("gymnasium")


def short(seconds: float = 0.2, **more: Any) -> learn.Task:
    """A cart-pole with episodes of five steps."""
    return replace(cartpole(), episode_length_s=seconds, **more)


def test_gymnasium_sees_a_vector_environment() -> None:
    env = learn.make_vec("cartpole", num_envs=3)
    assert env.metadata["autoreset_mode"] is gymnasium.vector.AutoresetMode.SAME_STEP
    assert isinstance(env, gymnasium.vector.VectorEnv)
    obs, _ = env.reset(seed=5)
    assert env.observation_space.contains(obs)
    again, _ = env.reset(seed=5)
    np.testing.assert_array_equal(obs, again)
    obs, reward, terminated, truncated, _ = env.step(env.action_space.sample())
    assert env.observation_space.contains(obs)
    assert (reward.shape, terminated.shape, truncated.shape) == ((3,), (3,), (3,))
    assert terminated.dtype == truncated.dtype == np.bool_


def test_episodes_begin_anew_in_the_same_step_and_show_their_last_observation() -> None:
    ends = {
        "time_out": learn.DoneTerm(func=mdp.time_out, time_out=True),
        "away": learn.DoneTerm(func=lambda env: np.arange(env.n_envs) == 2),
    }
    task = short(terminations=ends, events={})
    env = learn.make_vec(task, num_envs=4, seed=3)
    before, info = env.reset()
    for i in range(5):
        obs, _, terminated, truncated, info = env.step(np.ones((4, 1)))
        assert terminated.tolist() == [False, False, True, False]
        assert truncated.tolist() == [i == 4, i == 4, False, i == 4]
        done = terminated | truncated
        assert info["_final_obs"].tolist() == done.tolist()
        assert info["final_obs"][2][3] > 0.0  # it was pushed
        assert obs[2, 3] == 0.0  # and starts anew
        assert [x is not None for x in info["final_obs"]] == done.tolist()
        if i < 4:
            assert (obs[[0, 1, 3], 3] > before[[0, 1, 3], 3]).all()
        before = obs
    assert env.env.episode_length.tolist() == [0, 0, 0, 0]
    assert info["log"]["Episode_Termination/time_out"] == 0.75
    assert info["log"]["Episode/length_s"] == pytest.approx(0.16)


def test_rewards_are_weights_times_terms_times_the_step() -> None:
    rewards = {
        "a": learn.RewTerm(func=lambda env: np.arange(env.n_envs), weight=2.0),
        "b": learn.RewTerm(func=lambda env, x: np.full(env.n_envs, x), weight=-1.0, params={"x": 3.0}),
    }
    env = learn.make_env(short(rewards=rewards), 3)
    assert env.step_dt == pytest.approx(0.04)
    np.testing.assert_allclose(env.step(np.zeros((3, 1))).reward, 0.04 * (2.0 * np.arange(3) - 3.0), rtol=1e-6)


def test_observations_are_scaled_bounded_and_noisy_by_group() -> None:
    def ones(env: learn.TaskEnv) -> np.ndarray:
        return np.ones((env.n_envs, 2))

    terms = {
        "plain": learn.ObsTerm(func=ones, scale=(2.0, 3.0)),
        "bounded": learn.ObsTerm(func=ones, clip=(-0.5, 0.5)),
        "noisy": learn.ObsTerm(func=ones, noise=0.1),
    }
    groups = {
        "policy": learn.ObsGroup(terms=terms, enable_corruption=True),
        "critic": learn.ObsGroup(terms=terms),
    }
    env = learn.make_vec(short(observations=groups), num_envs=2)
    seen, _ = env.reset(seed=0)
    assert set(seen) == {"policy", "critic"}
    np.testing.assert_array_equal(seen["critic"], [[2.0, 3.0, 0.5, 0.5, 1.0, 1.0]] * 2)
    assert (np.abs(seen["policy"] - seen["critic"]).max(axis=0) > [-1, -1, -1, -1, 0, 0]).all()
    assert np.abs(seen["policy"] - seen["critic"]).max() <= 0.1
    env.step(np.zeros((2, 1)))


def test_commands_and_events_come_every_so_often() -> None:
    happened: list[tuple[str, int]] = []
    command = learn.UniformVelocityCommand((0, 1), (0, 1), (0, 1), resampling_time_range=(0.1, 0.1))
    env = learn.make_env(
        short(
            1.0,
            commands={"v": command},
            events={
                "start": learn.EventTerm(func=lambda env, envs: happened.append(("start", envs.sum())), mode="startup"),
                "reset": learn.EventTerm(func=lambda env, envs: happened.append(("reset", envs.sum()))),
                "push": learn.EventTerm(
                    func=lambda env, envs: happened.append(("push", envs.sum())),
                    mode="interval",
                    interval_range_s=(0.18, 0.18),
                ),
            },
        ),
        2,
    )
    assert happened == [("start", 2), ("reset", 2)]
    commands = []
    for _ in range(10):
        env.step(np.zeros((2, 1)))
        commands.append(env.commands["v"].copy())
    assert happened[2:] == [("push", 2)] * 2
    assert len(np.unique([c[0, 0] for c in commands])) == 4


def test_what_breaks_is_ended_and_begins_anew() -> None:
    env = learn.make_env(short(1.0), 3)
    velocity = env.robot.get_qvel()
    velocity[1] = 1e9
    env.robot.set_qvel(velocity)
    out = env.step(np.zeros((3, 1)))
    assert out.terminated.tolist() == [False, True, False]
    assert np.isfinite(out.obs["policy"]).all()
    assert np.isfinite(out.reward).all()
    assert not env.scene.get_error_envs_mask().any()


def test_velocities_of_a_base_are_along_its_own_axes() -> None:
    """A base that is turned by a quarter about z, and moves along the world's y."""
    quat = np.array([[np.sqrt(0.5), 0.0, 0.0, np.sqrt(0.5)]])
    env = learn.make_env("cartpole", 1)
    np.testing.assert_allclose(
        mdp.rotate_inverse(env, quat, np.array([[0.0, 2.0, 1.0]])), [[2.0, 0.0, 1.0]], atol=1e-15
    )


def test_places_to_reach_are_reached_by_inverse_kinematics() -> None:
    env = learn.make_env("reach", 6)
    targets = env.commands["target"]
    found = env.robot.inverse_kinematics("tool_frame", targets, return_error=True)
    assert found.solved.all()
    env.robot.set_qpos(found.qpos)
    assert env.success().all()
    np.testing.assert_allclose(mdp.position_error(env, "target", "tool_frame"), 0.0, atol=2e-4)
    env.step(np.zeros((6, 6)))
    assert env.success().all()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"decimation": 0}, "at least one step to an action"),
        ({"observations": {}}, "no group of observations called 'policy'"),
        ({"events": {"x": learn.EventTerm(func=print, mode="often")}}, "'often' is none of startup, reset, interval"),
    ],
)
def test_what_is_no_task_is_said(change: dict[str, Any], said: str) -> None:
    with pytest.raises(km.KinemaError, match=said):
        learn.make_env(short(**change), 1)


def test_unknown_tasks_and_wrong_actions_are_said() -> None:
    with pytest.raises(km.KinemaError, match="no task 'fly'; there are: cartpole, reach, walk"):
        learn.make_env("fly")
    with pytest.raises(km.KinemaError, match=r"action: expected values of shape \(2, 1\), not \(2,\)"):
        learn.make_env("cartpole", 2).step(np.zeros(2))


@pytest.mark.parametrize(("name", "library"), [("Sb3Task", "stable_baselines3"), ("RslTask", "rsl_rl")])
def test_adapters_say_what_to_install(name: str, library: str) -> None:
    if importlib.util.find_spec(library) is not None:
        pytest.skip(f"{library} is installed")
    with pytest.raises(km.KinemaError, match=f"{name} needs .*: pip install"):
        getattr(learn, name)


def test_set_points_that_move_on_carry_the_weight() -> None:
    """An arm whose action is zero sags as far as its gains let it, and stays there."""
    env = learn.make_env("reach", 2)
    start = env.robot.get_dofs_position()
    for _ in range(30):
        env.step(np.zeros((2, 6)))
    here = env.robot.get_dofs_position()
    assert np.abs(here - start).max() < 0.3
    env.step(np.zeros((2, 6)))
    np.testing.assert_allclose(env.robot.get_dofs_position(), here, atol=2e-3)


def test_arrays_of_other_kinds_are_refused() -> None:
    with pytest.raises(km.KinemaError, match="arrays: 'jax' is none of numpy, torch"):
        learn.make_env("cartpole", 1, arrays="jax")
