"""Policies as plain arrays, and the one that comes along: it walks here, and in MuJoCo."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import mujoco
import numpy as np
import pytest

import kinema as km
from kinema.apps import learn
from kinema.apps.learn.tasks.walk import LEGS, STANCE

EXAMPLE = Path(__file__).parents[2] / "examples" / "walk_quadruped.py"
SCENE = learn.robot_file("quadruped/scene.xml")


def small() -> learn.Policy:
    rng = np.random.default_rng(0)
    return learn.Policy([rng.normal(size=(4, 3)), rng.normal(size=(2, 4))], [rng.normal(size=4), rng.normal(size=2)])


def test_a_policy_is_layers_with_elu_between_them(tmp_path: Path) -> None:
    policy, seen = small(), np.random.default_rng(1).normal(size=(5, 3))
    hidden = seen @ policy.weights[0].T + policy.biases[0]
    hidden = np.where(hidden > 0, hidden, np.exp(hidden) - 1.0)
    expected = hidden @ policy.weights[1].T + policy.biases[1]
    np.testing.assert_allclose(policy(seen), expected, rtol=1e-5, atol=1e-6)
    policy.save(tmp_path / "small.npz")
    again = learn.Policy.load(tmp_path / "small.npz")
    assert (again.n_observations, again.n_actions) == (3, 2)
    np.testing.assert_array_equal(again(seen), policy(seen))


def test_what_is_no_policy_is_said(tmp_path: Path) -> None:
    (tmp_path / "text.npz").write_text("no")
    np.savez(tmp_path / "other.npz", a=np.ones(3))
    np.savez(tmp_path / "pickled.npz", weight_0=np.array([None]), bias_0=np.ones(1))
    for name in ("text", "other", "pickled", "none"):
        with pytest.raises(km.KinemaError, match=r"no policy that was saved|do not fit together"):
            learn.Policy.load(tmp_path / f"{name}.npz")
    with pytest.raises(km.KinemaError, match="do not fit together"):
        learn.Policy([np.ones((4, 3)), np.ones((2, 5))], [np.ones(4), np.ones(2)])
    with pytest.raises(km.KinemaError, match=r"expected observations of shape \(n, 3\), not \(5, 4\)"):
        small()(np.ones((5, 4)))


def test_the_policy_that_comes_along_walks_in_mujoco() -> None:
    """With all shapes that touch, another solver's iterations, and nothing of ours but the arrays."""
    file = learn.robot_file("quadruped/walk.npz")
    assert file.stat().st_size < 1_000_000
    policy = learn.Policy.load(file)
    model = mujoco.MjModel.from_xml_path(str(SCENE))
    model.opt.timestep = 0.005
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, 0)
    at = [model.joint(name).qposadr[0] for name in LEGS]
    moves = [model.joint(name).dofadr[0] for name in LEGS]
    command, action, speeds = np.array([0.6, 0.0, 0.0]), np.zeros(12), []
    for step in range(150):
        turn = np.zeros(9)
        mujoco.mju_quat2Mat(turn, data.qpos[3:7])
        own = turn.reshape(3, 3).T
        speed = own @ data.qvel[:3]
        seen = [2.0 * speed, 0.25 * data.qvel[3:6], own @ [0.0, 0.0, -1.0], command * [2.0, 2.0, 0.25]]
        seen += [data.qpos[at] - STANCE, 0.05 * data.qvel[moves], action]
        action = policy(np.concatenate(seen)[None])[0]
        data.ctrl[:] = STANCE + 0.25 * action
        mujoco.mj_step(model, data, 4)
        speeds += [speed[:2]] if step >= 50 else []
    assert np.abs(np.mean(speeds, axis=0) - command[:2]).max() < 0.15
    assert data.qpos[2] > 0.2


@pytest.mark.exhaustive
def test_the_example_walks(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["walk", "--envs", "4", "--seconds", "1.5", "--codegen", "loops"])
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    said = capsys.readouterr().out
    off = float(said.split("off by ")[1].split()[0])
    assert off < 0.25
    assert "and 0 fell" in said
