"""The examples of gradients run, and the results that they check of themselves hold."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from kit.assets import assets
from kit.choosing import representatives

EXAMPLES = Path(__file__).parents[1] / "examples"
SCRIPTS = {
    "throw_ball": "",
    "swing_up_acrobot": "",
    "climb_step": "mjcf/unitree_go2/go2_scene.xml",
    "wipe_table": "mjcf/franka_emika_panda/panda.xml",
}
"""Program -> robot among the shared ones that it needs."""


def run(script: str, *arguments: str) -> None:
    if SCRIPTS[script]:
        assets(SCRIPTS[script])
    command = [sys.executable, str(EXAMPLES / f"{script}.py"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("script", representatives(SCRIPTS, 0))
def test_an_example_runs(script: str, tmp_path: Path) -> None:
    picture = tmp_path / "picture.png"
    run(script, "--short", "--picture", str(picture))
    assert picture.stat().st_size > 500


@pytest.mark.exhaustive
@pytest.mark.slow("optimises until the result is as good as the example promises")
@pytest.mark.parametrize("script", SCRIPTS)
def test_an_example_succeeds(script: str) -> None:
    run(script)


def ilqr() -> ModuleType:
    spec = importlib.util.spec_from_file_location("example_ilqr", EXAMPLES / "ilqr.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["example_ilqr"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_riccati_recursion_solves_the_least_squares_problem() -> None:
    """Against the solution of the dense problem, in which the states are eliminated."""
    module, rng = ilqr(), np.random.default_rng(0)
    knots, n, m, outputs, damping = 4, 3, 2, 5, 0.1
    A, B = rng.normal(size=(knots, n, n)), rng.normal(size=(knots, n, m))
    C, D, r = (
        rng.normal(size=(knots, outputs, n)),
        rng.normal(size=(knots, outputs, m)),
        rng.normal(size=(knots, outputs)),
    )
    final_x, final_root = rng.normal(size=n), rng.normal(size=(n, n))
    found = module.solve(A, B, module.least_squares(r, C, D), final_x, final_root @ final_root.T, damping)
    by_controls = np.zeros((n, knots * m))  # of the state
    hessian, gradient = damping * np.eye(knots * m), np.zeros(knots * m)
    for k in range(knots):
        output = C[k] @ by_controls
        output[:, k * m : (k + 1) * m] += D[k]
        hessian, gradient = hessian + output.T @ output, gradient + output.T @ r[k]
        by_controls = A[k] @ by_controls
        by_controls[:, k * m : (k + 1) * m] += B[k]
    hessian += by_controls.T @ final_root @ final_root.T @ by_controls
    gradient += by_controls.T @ final_x
    np.testing.assert_allclose(found.ravel(), -np.linalg.solve(hessian, gradient), rtol=1e-9, atol=1e-9)
