"""States: kept, saved, restored in another process, bit for bit; and refused where they do not belong."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as km
from kit.robots.small_robots import lift, reacher

N_ENVS = 3


def rolling(**how: Any) -> tuple[km.Scene, km.Entity, km.Entity]:
    """A ball that bounces and rolls on a slope, a box that falls asleep there, and an arm that is controlled."""
    scene = km.Scene(quiet=True, sleep=0.02, **how)
    scene.add(km.Plane((0.2, 0.1, 1.0)))
    scene.add(km.Box((0.3, 0.3, 0.1)), pos=(1.66, 0.93, -0.372), euler=(-0.1, 0.2, 0), friction=1.5, name="box")
    ball = scene.add([km.Sphere(0.1), km.Sphere(0.12)], pos=(0, 0, 0.2))
    arm = scene.add(reacher(), pos=(0, 0, 5))
    scene.build(N_ENVS, per_env=("mass_shift", "kp", "geom_friction"), external_forces=True)
    return scene, ball, arm


@pytest.fixture(scope="module")
def scene() -> tuple[km.Scene, km.Entity, km.Entity]:
    scene, ball, arm = rolling()
    ball.set_qvel(np.arange(18.0).reshape(3, 6) / 10)
    scene.randomize(ball, mass=km.uniform(0.5, 1.5), friction=km.uniform(0.5, 1.5), seed=2)
    arm.control_dofs_position([0.3, -0.2], ["shoulder", "elbow"])
    arm.set_dofs_kp(np.array([[10.0], [20.0], [30.0]]), ["elbow"])
    scene.step(130)
    return scene, ball, arm


def everything(scene: km.Scene) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in scene.get_state().arrays.items()}


GO_ON = """
import sys
import kinema as km
from scene.test_states import rolling
scene, *_ = rolling()
scene.set_state(km.SceneState.load(sys.argv[1]))
scene.step(1000)
scene.get_state().save(sys.argv[2])
"""


def test_another_process_goes_on_bit_for_bit(scene: tuple[km.Scene, km.Entity, km.Entity], tmp_path: Path) -> None:
    """1,000 further steps with contact, commands, randomisation, balls of two sizes, and a box that they wake."""
    here, before, after = scene[0], tmp_path / "before.npz", tmp_path / "after.npz"
    box = here.entities[1]
    place = box.get_pos()
    assert box.is_asleep().all()
    here.get_state().save(before)
    here.step(1000)
    assert (box.get_pos()[0] != place[0]).any()
    assert here.get_state().arrays["n_contacts"].any()
    subprocess.run([sys.executable, "-c", GO_ON, str(before), str(after)], check=True)
    there = km.SceneState.load(after)
    assert {name: array.tobytes() for name, array in there.arrays.items()} == everything(here)
    assert (there.step_count, there.sim_time) == (1130, here.time)


def test_a_scene_goes_back(scene: tuple[km.Scene, km.Entity, km.Entity]) -> None:
    here, ball, arm = scene
    state = here.get_state()
    here.step(20)
    once, time = everything(here), here.time
    arm.control_dofs_velocity(1.0)
    arm.set_dofs_kp(7.0)
    here.dt = 0.001
    here.step(20)
    here.set_state(state)
    assert here.dt == 0.002
    here.step(20)
    assert (everything(here), here.time) == (once, time)
    del ball


def test_some_environments_go_back(scene: tuple[km.Scene, km.Entity, km.Entity]) -> None:
    here, ball, _ = scene
    kept, second = here.get_state(), here.get_state(envs_idx=[1])
    here.step(10)
    first = ball.get_qpos(0)
    here.set_state(second, envs_idx=[1, 2])
    np.testing.assert_array_equal(ball.get_qpos(0), first)
    np.testing.assert_array_equal(ball.get_qpos([1, 2])[0], ball.get_qpos([1, 2])[1])
    here.set_state(second)
    assert (ball.get_qpos() == ball.get_qpos(0)).all()
    here.set_state(kept)
    with pytest.raises(km.KinemaError, match="the state has 3 environments, but 2 are selected"):
        here.set_state(kept, envs_idx=[0, 1])


def test_what_is_no_state_is_refused(scene: tuple[km.Scene, km.Entity, km.Entity], tmp_path: Path) -> None:
    here, file = scene[0], tmp_path / "state.npz"
    here.get_state().save(file)
    content = file.read_bytes()
    for cut in (0, 10, len(content) // 2, len(content) - 1):
        file.write_bytes(content[:cut])
        with pytest.raises(km.KinemaError, match=r"not a state file, or incomplete|cannot be read"):
            km.SceneState.load(file)
    middle = content.index(b"\x93NUMPY", len(content) // 2) + 100  # within an array, not between two
    file.write_bytes(content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :])
    with pytest.raises(km.KinemaError, match="not a state file, or incomplete"):
        km.SceneState.load(file)
    np.savez(file, qpos=np.zeros(3))
    with pytest.raises(km.KinemaError, match='no "kinema state 2"'):
        km.SceneState.load(file)
    np.save(tmp_path / "array.npy", np.zeros(3))
    with pytest.raises(km.KinemaError, match='no "kinema state 2"'):
        km.SceneState.load(tmp_path / "array.npy")
    with pytest.raises(km.KinemaError, match="cannot be read"):
        km.SceneState.load(tmp_path / "none.npz")
    with pytest.raises(km.KinemaError, match="cannot be made: it is a file"):
        here.get_state().save(file / "state.npz")
    here.get_state().save(tmp_path / "new" / "state.npz")
    assert km.SceneState.load(tmp_path / "new" / "state.npz").n_envs == here.n_envs
    with pytest.raises(km.KinemaError, match="expected a SceneState of get_state, not dict"):
        here.set_state({})  # type: ignore[arg-type]


def test_a_state_of_another_scene_is_refused() -> None:
    def state_of(robot: km.Robot, n_envs: int = 1, per_env: tuple[str, ...] = (), **how: Any) -> tuple[km.Scene, Any]:
        scene = km.Scene(quiet=True, **how)
        scene.add(robot)
        scene.build(n_envs, per_env=per_env)
        return scene, scene.get_state()

    _, state = state_of(lift())
    for other, _ in (state_of(lift(3.0)), state_of(lift(), precision="double"), state_of(lift(), integrator="rk4")):
        with pytest.raises(km.KinemaError, match="the state of another model"):
            other.set_state(state)
    state_of(lift())[0].set_state(state)
    with pytest.raises(km.KinemaError, match="only this scene has gravity per environment"):
        state_of(lift(), per_env=("gravity",))[0].set_state(state)


def test_a_file_is_plain_arrays_and_written_whole(scene: tuple[km.Scene, km.Entity, km.Entity], tmp_path: Path) -> None:
    file = tmp_path / "state.npz"
    file.write_text("what was there before")
    scene[0].get_state().save(file)
    with np.load(file, allow_pickle=False) as arrays:
        assert {"about", "qpos", "vel", "mass_shift", "shared kv", "control modes"} <= set(arrays.files)
    assert list(tmp_path.iterdir()) == [file]


def test_a_push_on_a_joint_wakes(scene: tuple[km.Scene, km.Entity, km.Entity]) -> None:
    """The user's force on a degree of freedom is among what those that sleep feel; a reset takes it away."""
    here, box = scene[0], scene[0].entities[1]
    here.reset()
    here.step(130)
    assert box.is_asleep().all()
    box.apply_dofs_external_force([0.0, 0.0, 500.0, 0.0, 0.0, 0.0], envs_idx=[1])
    here.step()
    assert box.is_asleep().tolist() == [True, False, True]
    here.step(20)
    assert box.get_vel()[1, 2] > 1.0
    here.reset()
    assert not here.built.arrays.get("dof_force_applied").any()
