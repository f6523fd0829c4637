"""Several threads that build and step scenes at once: each as if it were alone."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as km
from kinema.backend import CACHE_VARIABLE
from kit.assets import EXAMPLES
from kit.patience import HANG

ARM = {"file": EXAMPLES / "arm" / "arm.urdf"}
SAME = [ARM] * 4
DIFFERENT = [
    ARM,
    {**ARM, "precision": "double", "integrator": "rk4"},
    {"file": EXAMPLES / "quadruped" / "quadruped.xml"},
    {"file": EXAMPLES / "gripper" / "gripper.sdf", "emission": "rolled"},
]


def run(file: Path, precision: str = "single", **how: Any) -> dict[str, np.ndarray]:
    """A scene from its file to a state: coordinates, velocities, and fields of both."""
    scene = km.Scene(precision=precision, quiet=True, contacts=False, limits=False, **how)
    robot = scene.add(file)
    scene.build(5)
    rng = np.random.default_rng(2)
    robot.set_qvel(rng.uniform(-0.5, 0.5, (5, robot.n_dofs)))
    robot.control_dofs_velocity(rng.uniform(-0.5, 0.5, (5, robot.n_dofs)))
    result = {}
    for _ in range(10):
        scene.step(5)
        result = {"q": robot.get_qpos(), "v": robot.get_qvel()}
        result |= {"poses": robot.get_links_pos(), "forces": robot.get_dofs_force()}
    return result


@pytest.mark.parametrize("cases", [SAME, DIFFERENT], ids=["the same robot", "different robots"])
def test_threads_do_not_disturb_each_other(
    cases: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four at a time, with nothing compiled before: no error, and the bits that each gives alone."""
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "together"))
    together = threading.Barrier(len(cases))
    results: dict[int, dict[str, np.ndarray]] = {}
    errors: list[BaseException] = []

    def work(number: int) -> None:
        try:
            together.wait(HANG)
            results[number] = run(**cases[number])
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(len(cases))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANG)
    assert not errors
    assert len(results) == len(cases)
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "alone"))
    for number, case in enumerate(cases):
        for name, expected in run(**case).items():
            assert np.isfinite(expected).all()
            np.testing.assert_array_equal(results[number][name], expected, err_msg=name)
