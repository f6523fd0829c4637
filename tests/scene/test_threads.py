"""Several threads that build and step scenes at once: each as if it were alone."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as km
from kinema.runtime import CACHE_ENV_VARIABLE
from kit.patience import HANG
from kit.robots.each_joint import Case, robot as small_robot

ARM: dict[str, Any] = {"kind": "planar"}
SAME = [ARM] * 4
DIFFERENT = [
    ARM,
    {**ARM, "precision": "double", "integrator": "rk4"},
    {"kind": "spherical"},
    {"kind": "universal", "codegen": "loops"},
]


def run(kind: str, precision: str = "single", **how: Any) -> dict[str, np.ndarray]:
    """A scene from its robot to a state: coordinates, velocities, and fields of both."""
    scene = km.Scene(precision=precision, quiet=True, contacts=False, limits=False, **how)
    robot = scene.add(small_robot(Case(kind, False)))
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
    monkeypatch.setenv(CACHE_ENV_VARIABLE, str(tmp_path / "together"))
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
    monkeypatch.setenv(CACHE_ENV_VARIABLE, str(tmp_path / "alone"))
    alone = [run(**case) for case in (cases if cases[0] != cases[-1] else cases[:1])] * len(cases)
    for number in range(len(cases)):
        for name, expected in alone[number].items():
            assert np.isfinite(expected).all()
            np.testing.assert_array_equal(results[number][name], expected, err_msg=name)
