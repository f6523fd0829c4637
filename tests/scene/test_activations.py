"""Activations of actuators in a scene: read, set, reset, in keyframes, and while the user moves the joints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as km
from kit.robots.small_robots import from_text, lift

TEXT = """<mujoco model="limb"><worldbody><body name="arm"><joint name="turn" axis="0 1 0" range="-60 60"/>
<geom size=".05" pos=".2 0 0"/><body name="hand" pos=".4 0 0"><joint name="wrist" axis="0 1 0"/>
<geom size=".03" pos=".1 0 0"/></body></body></worldbody>
<actuator><motor name="motor" joint="wrist"/><general name="valve" joint="wrist" dyntype="filter" dynprm=".1"/>
<muscle name="biceps" joint="turn" lengthrange="-1 1" force="5"/></actuator>
<keyframe><key name="tense" ctrl="0 .5 1" act=".25 .75"/></keyframe></mujoco>"""


def built(*parts: Any, n_envs: int = 3, **how: Any) -> tuple[km.Scene, list[Any]]:
    """A scene of these, in double precision."""
    scene = km.Scene(contacts=False, limits=False, precision="double", quiet=True, **how)
    entities = [scene.add(part) for part in parts]
    scene.build(n_envs)
    return scene, entities


def test_read_and_set(tmp_path: Path) -> None:
    """By number or name, for all environments or some; an actuator without an activation stays without."""
    scene, (other, limb) = built(lift(), from_text(tmp_path, TEXT))
    assert limb.get_activations().shape == (3, 3)
    assert other.get_activations().shape == (3, 0)
    limb.set_activations([9.0, 0.5, 0.25])
    np.testing.assert_array_equal(limb.get_activations(), [[0.0, 0.5, 0.25]] * 3)
    limb.set_activations(1.0, "biceps", envs_idx=1)
    np.testing.assert_array_equal(limb.get_activations("biceps")[:, 0], [0.25, 1.0, 0.25])
    np.testing.assert_array_equal(limb.get_activations(["valve"], [2, 0]), [[0.5], [0.5]])
    scene.step(5)
    assert (limb.get_activations()[:, 1:] < 1.0).all(), "they are told nothing, and fade"
    scene.reset(envs_idx=[0])
    assert not limb.get_activations(envs_idx=0).any()
    assert limb.get_activations(envs_idx=[1, 2])[:, 1:].all()


def test_wrong_ones(tmp_path: Path) -> None:
    """The error says what there is."""
    _, (limb,) = built(from_text(tmp_path, TEXT))
    with pytest.raises(km.KinemaError, match="set_activations: actuators_idx"):
        limb.set_activations(1.0, "triceps")
    with pytest.raises(km.KinemaError, match="set_activations: expected values of shape"):
        limb.set_activations([1.0, 2.0])


def test_nobody_has_any() -> None:
    """Then there are none to read, and nothing is set."""
    scene, (box,) = built(lift())
    box.set_activations(1.0)
    assert box.get_activations().shape == (3, 0)
    scene.step()


def test_keyframes_have_them(tmp_path: Path) -> None:
    """Those of the file, by actuator; nothing is noted as left out."""
    scene, (limb, other) = built(from_text(tmp_path, TEXT), lift())
    scene.reset(keyframe="tense")
    np.testing.assert_array_equal(limb.get_activations(), [[0.0, 0.25, 0.75]] * 3)
    assert other.get_activations().size == 0
    assert "scene.keyframe-unsupported" not in scene.diagnostics.codes()
    scene.reset()
    assert not limb.get_activations().any()


def test_it_follows_the_control(tmp_path: Path) -> None:
    """A filter comes to its control; a muscle pulls its arm up the more, the longer it is told to."""
    scene, (limb,) = built(from_text(tmp_path, TEXT), dt=0.001)
    assert "sim.actuator" not in scene.diagnostics.codes()
    limb.control([[0.0, 0.5, 0.0], [0.0, 0.5, 0.5], [0.0, 0.5, 1.0]])
    scene.step(1000)
    activations = limb.get_activations()
    np.testing.assert_allclose(activations[:, 1], 0.5 * (1.0 - 0.99**1000), rtol=1e-9)
    np.testing.assert_allclose(activations[:, 2], [0.0, 0.5, 1.0], atol=1e-6)


def test_joints_that_the_user_moves(tmp_path: Path) -> None:
    """An actuator that no longer pulls keeps its activation, and goes on from it when it is told again."""
    scene, (limb,) = built(from_text(tmp_path, TEXT))
    limb.control([0.0, 1.0, 1.0])
    scene.step(10)
    before = limb.get_activations()
    limb.control_dofs_force(0.0, "turn")
    scene.step(10)
    after = limb.get_activations()
    np.testing.assert_array_equal(after[:, 2], before[:, 2])
    assert (after[:, 1] > before[:, 1]).all()
    limb.control(1.0, "biceps")
    scene.step()
    assert (limb.get_activations()[:, 2] > before[:, 2]).all()


def test_joints_that_the_user_moves_in_some_environments(tmp_path: Path) -> None:
    """An environment is what it is where all are told the same, activations included."""
    scene, (limb,) = built(from_text(tmp_path, TEXT))
    limb.control([0.0, 1.0, 1.0])
    limb.control_dofs_force(0.3, "turn", envs_idx=[1])
    scene.step(20)
    for env in (1, 2):
        other, (same,) = built(from_text(tmp_path, TEXT))
        same.control([0.0, 1.0, 1.0])
        if env == 1:
            same.control_dofs_force(0.3, "turn")
        other.step(20)
        for ours, theirs in ((limb.get_qpos(), same.get_qpos()), (limb.get_activations(), same.get_activations())):
            np.testing.assert_allclose(ours[env], theirs[env], rtol=1e-6)


def test_what_is_not_simulated_is_said(tmp_path: Path) -> None:
    """Dynamics of another kind leave the actuator out; what an actuator has beside its law is left out of it."""
    odd = '<general name="odd" joint="wrist" dyntype="user"/><motor name="slow" joint="wrist" delay="2" nsample="999"/>'
    text = TEXT.replace("<actuator>", f"<actuator>{odd}<motor name='heavy' joint='wrist' armature='.1' damping='2'/>")
    scene, (limb,) = built(from_text(tmp_path, text.replace('ctrl="0 .5 1" act=".25 .75"', "")))
    said = {code: [d.message for d in scene.diagnostics if d.code == code] for code in scene.diagnostics.codes()}
    assert [m for m in said["sim.actuator"] if '"odd"' in m and "(user)" in m]
    (part,) = said["sim.actuator-part"]
    assert 'delay of actuator "slow"' in part
    assert limb.actuator_names == ["slow", "heavy", "motor", "valve", "biceps"]
