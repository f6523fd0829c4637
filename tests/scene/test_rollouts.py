"""Rollouts: the same as telling, stepping and looking in turn."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import kinema as km
from kinema.scene.recording import Recording

CARTPOLE = Path(__file__).parents[2] / "examples" / "robots" / "cartpole" / "cartpole.xml"
TURNS, HOLD, N_ENVS = 6, 3, 260


@pytest.fixture(scope="module")
def scene() -> km.Scene:
    scene = km.Scene(dt=0.01, contacts=False, quiet=True)
    scene.add(CARTPOLE, name="first")
    scene.build(N_ENVS)
    return scene


def commands(n: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(3).normal(0.0, 8.0, (TURNS, *shape, n)).astype(np.float32)


@pytest.mark.parametrize("kind", ["force", "velocity", "ctrl"])
def test_a_rollout_is_what_calls_in_turn_are(scene: km.Scene, kind: str) -> None:
    """Bit for bit, time and the last command included; two threads share it."""
    robot, idx = scene.entities[0], ["slide"] if kind == "ctrl" else ["slider"]
    tell = robot.control if kind == "ctrl" else getattr(robot, f"control_dofs_{kind}")
    values = commands(1, N_ENVS)
    scene.reset()
    tell(values[0], idx)
    start, seen = scene.get_state(), []
    for value in values:
        tell(value, idx)
        scene.step(HOLD)
        seen.append((robot.get_qpos(), robot.get_qvel()))
    there = scene.get_state()
    scene.set_state(start)
    found = scene.rollout(robot, idx=idx, hold=HOLD, **{kind: values})
    for ours, expected in zip(found, zip(*seen, strict=True), strict=True):
        assert np.array_equal(ours, np.stack(expected))
    now = scene.get_state()
    assert now.arrays.keys() == there.arrays.keys()
    assert all(np.array_equal(now.arrays[name], there.arrays[name]) for name in there.arrays)
    assert np.abs(found.qvel).max() > 0.1


def test_one_row_serves_all_environments(scene: km.Scene) -> None:
    """(turns, n) as with the setters."""
    robot, values = scene.entities[0], commands(2)
    scene.reset()
    first = scene.rollout(robot, force=values)
    scene.reset()
    again = scene.rollout(robot, force=np.repeat(values[:, None], N_ENVS, axis=1))
    assert np.array_equal(first.qpos, again.qpos)
    assert first.qpos.shape == (TURNS, N_ENVS, 2)


def test_a_recording_sees_every_step(scene: km.Scene, tmp_path: Path) -> None:
    """What looks at each step makes it go one by one, to the same numbers."""
    robot, values = scene.entities[0], commands(2)
    scene.reset()
    plain = scene.rollout(robot, force=values, hold=2)
    scene.reset()
    with scene.record(tmp_path / "all.npz", envs_idx=[0]) as recording:
        seen = scene.rollout(robot, force=values, hold=2)
    assert np.array_equal(plain.qpos, seen.qpos)
    assert isinstance(recording, Recording)
    assert len(recording.frames.times) == 2 * TURNS + 1


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "expected one of position, velocity, force, ctrl, not 0"),
        ({"force": np.zeros((3, 2)), "ctrl": np.zeros((3, 1))}, "not 2 of them"),
        ({"force": np.zeros(2)}, r"shape \(n_commands, 2\) or \(n_commands, 260, 2\), not \(2,\)"),
        ({"force": np.zeros((0, 2))}, r"not \(0, 2\)"),
        ({"force": np.zeros((3, 7, 2))}, r"not \(3, 7, 2\)"),
        ({"force": np.zeros((3, 260, 5))}, r"or \(n_commands, 260, 2\), not \(3, 260, 5\)"),
        ({"force": np.zeros((3, 2)), "hold": 0}, "at least one step"),
        ({"force": "hard"}, "not numeric"),
    ],
)
def test_what_is_wrong_is_said(scene: km.Scene, given: dict[str, object], message: str) -> None:
    with pytest.raises(km.KinemaError, match=message):
        scene.rollout(scene.entities[0], **given)  # type: ignore[arg-type]


def test_on_a_cpu_what_is_captured_is_called(scene: km.Scene) -> None:
    scene.reset()
    began, again = scene.time, scene.capture(lambda: scene.step(2))
    assert scene.time == began
    again()
    assert scene.time == pytest.approx(began + 0.02)
    with pytest.raises(km.KinemaError, match="warm_up: expected a whole number"):
        scene.capture(scene.step, warm_up=0)


def test_an_entity_of_another_scene_is_refused(scene: km.Scene) -> None:
    other = km.Scene(quiet=True).add(km.Sphere(0.1))
    with pytest.raises(km.KinemaError, match="an entity of this scene"):
        scene.rollout(other, force=np.zeros((3, 6)))
