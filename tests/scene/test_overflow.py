"""More contacts than there is room for: the deepest stay, environments say so, and there can be more room."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import kinema as km
from kinema.core import KinemaError
from kinema.dynamics import contact_capacity, may_lose_contacts
from kinema.scene import contacts

FEET = "".join(f'<geom size=".1" pos="{x} {y} 0"/>' for x in (0, 0.3, 0.6, 0.9) for y in (0, 0.3))
SLEDGE = f"""<mujoco><worldbody><geom type="plane" size="5 5 .1"/>
<body pos="0 0 0.2"><freejoint/>{FEET}</body></worldbody></mujoco>"""
LYING, LEANING = [0.0, 0.0, 0.0999, 1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.098, 0.9999995, 0.0, -0.001, 0.0]


def scene_of(tmp_path: Path, text: str = SLEDGE, n_envs: int = 3, **how: Any) -> tuple[km.Scene, Any]:
    """A scene of a file."""
    file = tmp_path / "scene.xml"
    file.write_text(text, encoding="utf-8")
    scene = km.Scene(quiet=True, codegen="loops", precision="double", **how)
    entity = scene.add(file)
    scene.build(n_envs=n_envs)
    return scene, entity


def test_the_deepest_stay_and_it_is_said(tmp_path: Path) -> None:
    """Eight feet touch and four fit: flags, marks and a warning that names eight; the others notice nothing."""
    scene, sledge = scene_of(tmp_path, max_contacts=4)
    sledge.set_qpos([LYING, [0, 0, 1.0, 1, 0, 0, 0], LEANING])
    with pytest.warns(RuntimeWarning, match=r"2 of 3 environments .* \(4\).*max_contacts=8"):
        scene.step()
    assert scene.get_overflow_envs_mask().tolist() == [True, False, True]
    assert scene.get_required_max_contacts().tolist() == [8, 0, 8]
    assert scene.get_peak_contacts().tolist() == [8, 0, 8]
    assert scene.get_contacts()["valid_mask"].sum(axis=1).tolist() == [4, 0, 4]
    scene.reset()
    sledge.set_qpos(LEANING)
    kept = scene.get_contacts(envs_idx=[0])
    scene.max_contacts = 8
    every = scene.get_contacts(envs_idx=[0])
    assert every["valid_mask"].sum() == 8
    np.testing.assert_allclose(np.sort(kept["penetration"][0]), np.sort(every["penetration"][0])[4:])
    assert np.ptp(every["penetration"][0]) > 1e-4


def test_room_grows_at_a_reset(tmp_path: Path) -> None:
    """After `reset(grow=True)` there is room, the marks start anew, and a step is that of a scene with room.

    There is room, and half as much again, after a trial, of which nothing else is left.
    """
    scene, sledge = scene_of(tmp_path, max_contacts=3)
    roomy, other = scene_of(tmp_path, max_contacts=3)
    for entity in (sledge, other):
        entity.set_qpos(LYING)
    before = roomy.get_state().arrays
    assert roomy.calibrate_max_contacts(n_steps=2) == 12
    assert any(d.code == "scene.contact-capacity" and "had 8 contacts" in d.message for d in roomy.diagnostics)
    after = roomy.get_state().arrays
    for name, own in before.items():
        np.testing.assert_array_equal(own, after[name])
    assert (
        roomy.calibrate_max_contacts(n_steps=10**9) == 12
    )  # nothing is run: there is room for all that feet can touch
    with pytest.warns(RuntimeWarning, match="max_contacts=8"):
        scene.step()
    scene.reset(grow=True)
    assert scene.max_contacts == 8
    assert roomy.bytes_per_env >= 8 * (7 + 6)  # coordinates and speeds, in double precision
    assert not scene.get_overflow_envs_mask().any()
    for entity in (sledge, other):
        entity.set_qpos(LYING)
    scene.step(5)
    roomy.step(5)
    assert not scene.get_overflow_envs_mask().any()
    np.testing.assert_array_equal(sledge.get_qpos(), other.get_qpos())
    scene.max_contacts, scene.on_overflow = 3, "grow"
    with pytest.warns(RuntimeWarning, match="the capacity is 8 now"):
        scene.step()
    before = sledge.get_qpos()
    assert scene.max_contacts == 8
    assert scene.get_contacts()["valid_mask"].sum(axis=1).tolist() == [8, 8, 8]
    scene.step()
    assert 0.0 < np.abs(sledge.get_qpos() - before).max() < 1e-3  # it went on from where it was


class OnGpu:
    """An engine that says that it is on a GPU; its arrays stay on the CPU."""

    device = SimpleNamespace(is_cpu=False, name="cuda:0")

    def __init__(self, engine: Any) -> None:
        self.engine = engine

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)


class LateCopy:
    """A copy that is never complete before it is waited for."""

    def __init__(self, view: Any, _device: Any) -> None:
        self.values = np.array(view.numpy())

    def is_complete(self) -> bool:
        return False

    def wait(self) -> np.ndarray:
        return self.values


@pytest.mark.parametrize("calls_before", [0, 31, 32, 33, 500])
def test_on_a_gpu_it_is_said_within_64_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, calls_before: int
) -> None:
    """However many calls there were, for every kind of output, and without reading the counters at once."""
    scene, sledge = scene_of(tmp_path, max_contacts=4)
    monkeypatch.setattr(contacts, "HostCopy", LateCopy)
    engine = scene.built.engine
    sledge.set_qpos(LYING)
    engine.step()
    counters = engine.array_view("max_required_capacity").numpy()
    wanted = counters.copy()
    counters[:] = 0
    monkeypatch.setattr(scene.built, "engine", OnGpu(engine))
    for _ in range(calls_before):
        scene._stepper.check_overflow()
    counters[:] = wanted

    def call_64_times() -> None:
        for _ in range(64):
            scene._stepper.check_overflow()

    with pytest.warns(RuntimeWarning, match=r"3 of 3 environments .*max_contacts=8"):
        call_64_times()


def test_nothing_to_watch_without_contacts(tmp_path: Path) -> None:
    """Clear sentences."""
    scene, _ = scene_of(tmp_path, contacts=False)
    with pytest.raises(KinemaError, match="contacts are disabled"):
        scene.get_overflow_envs_mask()
    with pytest.raises(KinemaError, match="max_contacts: expected a whole number"):
        km.Scene(max_contacts=0)
    with pytest.raises(KinemaError, match="on_overflow"):
        km.Scene(on_overflow="shrink")


PENDULA = """<mujoco><option gravity="0 0 -9.81"/><worldbody>
<body><joint name="a" axis="0 1 0"/><geom size=".1" pos="0 0 -1" contype="0" conaffinity="0"/></body>
<body><joint name="b" axis="1 0 0"/><geom size=".1" pos="0 0 -1" contype="0" conaffinity="0"/></body>
</worldbody></mujoco>"""


@pytest.mark.parametrize("integrator", ["implicitfast", "rk4"])
def test_what_diverges_is_frozen_alone(integrator: str, tmp_path: Path) -> None:
    """A force that is no number: the state before it stays, the others move as if nothing had happened."""
    scene, arm = scene_of(tmp_path, PENDULA, on_error="freeze", integrator=integrator)
    plain, alone = scene_of(tmp_path, PENDULA, integrator=integrator)
    for entity in (arm, alone):
        entity.set_qpos([[0.5, 0.1], [0.6, 0.1], [0.7, 0.1]])
        entity.control_dofs_force(np.zeros((3, 2)))
    scene.step(3)
    plain.step(3)
    before = arm.get_qpos()[1], arm.get_qvel()[1]
    scene.built.arrays.write("command", slice(None), np.array([[np.nan, 0.0]]), np.array([1]))
    scene.step(4)
    plain.step(4)
    assert scene.get_error_envs_mask().tolist() == [False, True, False]
    np.testing.assert_array_equal(arm.get_qpos()[1], before[0])
    np.testing.assert_array_equal(arm.get_qvel()[1], before[1])
    np.testing.assert_array_equal(arm.get_qpos()[[0, 2]], alone.get_qpos()[[0, 2]])


def test_what_diverges_is_reset_alone(tmp_path: Path) -> None:
    """The flag is there after the step, and the next one starts from the start."""
    scene, arm = scene_of(tmp_path, PENDULA, on_error="reset")
    arm.set_qpos([0.5, 0.1])
    arm.control_dofs_force(0.0)
    scene.built.arrays.write("command", slice(None), np.array([[np.inf, 0.0]]), np.array([1]))
    scene.step()
    assert scene.get_error_envs_mask().tolist() == [False, True, False]
    scene.step()
    assert not scene.get_error_envs_mask().any()
    np.testing.assert_allclose(arm.get_qpos()[1], 0.0, atol=1e-12)
    assert (arm.get_qpos()[[0, 2], 0] > 0.4).all()


def test_room_of_a_team(tmp_path: Path) -> None:
    """A team of threads has room for all contacts together: many bodies of few may be more than that."""
    balls = "".join(f'<body pos="{i} 0 1"><joint/><geom size=".1"/></body>' for i in range(15))
    scene, _ = scene_of(tmp_path, f"<mujoco><worldbody>{balls}</worldbody></mujoco>")
    model = scene.built.model
    assert len(model.pairs.geom_a) == 105
    assert may_lose_contacts(model, use_warps=True)
    assert not may_lose_contacts(model)
    assert contact_capacity(model, use_warps=True) == 48 < contact_capacity(model) == scene.max_contacts == 64
    # as somebody may ask for after a warning, though it is less than two bodies may have
    model = model.with_derived(max_contacts_per_frame_pair=60)
    assert contact_capacity(model, use_warps=True) == contact_capacity(model) == 60
    model = model.with_derived(max_contacts_per_frame_pair=105)
    assert not may_lose_contacts(model, use_warps=True)
