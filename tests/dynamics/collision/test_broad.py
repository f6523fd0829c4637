"""A list of pairs whose boxes overlap: what touches, and all that follows, is the same to the last bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import kinema as km
from kinema.core import KinemaError
from kinema.dynamics.lowering.step_program import is_sparse_pile

SHAPES = ('size=".05"', 'type="capsule" size=".03 .06"', 'type="box" size=".06 .02 .04"')
N_ENVS = 6
"""More than run side by side: environments whose lists differ share one."""


def heap() -> str:
    """Balls, capsules and boxes on a floor, at a wall, with margins."""
    bodies = "".join(
        f'<body pos="{0.09 * (i % 3)} {0.08 * (i // 3 % 3)} {0.08 + 0.12 * (i // 9)}"><freejoint/>'
        f'<geom {SHAPES[i % 3]} margin="{0.002 * (i % 2)}"/></body>'
        for i in range(12)
    )
    return f"""<mujoco><worldbody><geom type="plane" size="1 1 1"/><geom type="box" size=".4 .01 .3" pos="0 -.08 .3"/>
    {bodies}</worldbody></mujoco>"""


def fallen(file: Path, broad_phase: str) -> tuple[np.ndarray, np.ndarray]:
    """Where everything is after a while, and how many contacts there were; on a GPU a thread would do it."""
    scene = km.Scene(quiet=True, codegen="loops", broad_phase=broad_phase)
    entity = scene.add(file)
    scene.build(n_envs=N_ENVS)
    assert is_sparse_pile(scene.built.model)
    rng = np.random.default_rng(3)
    entity.set_qvel(rng.normal(size=(N_ENVS, 72)))
    state = scene.built.engine.state.data
    np.testing.assert_array_equal(state[:, N_ENVS], state[:, N_ENVS - 1])  # what fills up a vector is apart likewise
    scene.step(150)
    return entity.get_qpos(), scene.get_peak_contacts()


def test_the_same_to_the_last_bit(tmp_path: Path) -> None:
    """A heap that falls, in environments that differ."""
    file = tmp_path / "heap.xml"
    file.write_text(heap(), encoding="utf-8")
    (all_, touched), (listed, also) = (fallen(file, how) for how in ("all", "list"))
    assert touched.min() > 5
    np.testing.assert_array_equal(touched, also)
    np.testing.assert_array_equal(all_, listed)


def test_a_way_that_is_not_there() -> None:
    """It is said which there are."""
    with pytest.raises(KinemaError, match=r"broad_phase.*all.*list"):
        km.Scene(broad_phase="magic")
