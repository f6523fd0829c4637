"""Linearisation by a uniform and a varying program: the same as by one program that all directions execute."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import kinema as km
from kinema.dynamics import Linearizer
from kinema.dynamics.engine.linearization import _BatchJacobian
from kinema.dynamics.engine.step_adjoints import AdjointDirections, SplitStepAdjoints, StateJacobian, StepAdjoints
from kinema.dynamics.lowering import derivative_programs
from kinema.ir import NotSplittableError
from kit.choosing import representatives

ROLLER = """<mujoco><option timestep="0.002"/><worldbody><geom type="plane" size="1 1 .1"/>
<body pos="0 0 .098"><freejoint/><geom size=".1" mass="1"/>
<body pos=".1 0 0"><joint name="j" axis="0 1 0" damping=".1" limited="true" range="-1 1"/>
<geom size=".02" mass=".2" pos=".1 0 0" contype="0" conaffinity="0"/></body></body></worldbody>
<actuator><general joint="j" dyntype="filter" dynprm="0.05" gainprm="3"/><position joint="j" kp="2"/>
</actuator></mujoco>"""
"""A ball that touches the floor, with a limited pendulum and an activation."""


def rolling(folder: Path, n_envs: int, codegen: str = "auto") -> Linearizer:
    (folder / "roller.xml").write_text(ROLLER)
    scene = km.Scene(device="cpu", precision="double", quiet=True, codegen=codegen)
    robot = scene.add(folder / "roller.xml")
    scene.build(n_envs)
    robot.set_qvel(np.random.default_rng(0).normal(0.0, 0.1, (n_envs, 7)))
    robot.control(np.full((n_envs, 2), 0.4))
    scene.step(2)
    assert (scene.get_contacts().n > 0).all()
    return Linearizer(scene.built.engine, "ctrl")


def run(batch: _BatchJacobian, adjoints: StepAdjoints | SplitStepAdjoints) -> StateJacobian:
    batch.step.load(np.arange(batch.n_envs))
    adjoints.load()
    batch.step.run_stage()
    found = adjoints.run()
    assert found is not None
    return found


@pytest.mark.parametrize("codegen", representatives(["unrolled", "loops"], 1))
def test_both_parts_equal_the_whole_program(codegen: str, tmp_path: Path) -> None:
    linearizer = rolling(tmp_path, 3, codegen)
    batch = _BatchJacobian(linearizer, 3)
    directions = AdjointDirections(batch.step, linearizer.activations, linearizer.control_array)
    split = SplitStepAdjoints(directions)
    assert split.is_split
    found, expected = run(batch, split), run(batch, StepAdjoints(directions))
    assert found.by_state.shape == (3, 15, 15)
    assert found.by_controls.shape == (3, 15, 2)
    np.testing.assert_allclose(found.by_state, expected.by_state, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(found.by_controls, expected.by_controls, rtol=1e-12, atol=1e-12)
    assert np.abs(found.by_controls).max() > 0.0
    assert found.finite.all()
    again = run(batch, split)
    np.testing.assert_array_equal(again.by_state, found.by_state)


def test_values_that_are_not_finite_are_reported(tmp_path: Path) -> None:
    """In the environment that has them, and in no other."""
    linearizer = rolling(tmp_path, 3)
    linearizer.engine.array_view("vel").numpy()[6, 1] = np.nan
    found = linearizer.compute(np.arange(3))
    np.testing.assert_array_equal(found.finite, [True, False, True])


def test_programs_that_cannot_be_split(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_program_cache: None) -> None:
    """They have no parts: all directions execute the whole program then."""

    def refuse(*_: object) -> None:
        raise NotSplittableError("control flow varies")

    linearizer = rolling(tmp_path, 1)
    monkeypatch.setattr(derivative_programs, "split_uniform", refuse)
    step = _BatchJacobian(linearizer, 1).step
    assert not SplitStepAdjoints(AdjointDirections(step, linearizer.activations, linearizer.control_array)).is_split
