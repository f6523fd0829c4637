"""The examples of gradients run, and the results that they check of themselves hold."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from kit.assets import assets

EXAMPLES = Path(__file__).parents[1] / "examples"
PANDA, GO2 = "mjcf/franka_emika_panda/panda.xml", "mjcf/unitree_go2/go2_scene.xml"
PROGRAMS = {
    "throw_ball.py": "",
    "identify_by_gradients.py": "",
    "swing_up_acrobot.py": "",
    "climb_step.py": GO2,
    "shac.py --task cartpole": "",
    "shac.py --task hopper": "",
    "wipe_table.py": PANDA,
}
"""Program and arguments -> robot among the shared ones that it needs."""


def run(program: str, *arguments: str) -> None:
    if PROGRAMS[program]:
        assets(PROGRAMS[program])
    script, *options = program.split()
    command = [sys.executable, str(EXAMPLES / script), *options, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.exhaustive
@pytest.mark.parametrize("program", PROGRAMS)
def test_an_example_runs(program: str, tmp_path: Path) -> None:
    picture = tmp_path / "picture.png"
    run(program, "--short", "--picture", str(picture))
    assert picture.stat().st_size > 500


@pytest.mark.exhaustive
@pytest.mark.slow("optimises until the result is as good as the example promises")
@pytest.mark.parametrize("program", PROGRAMS)
def test_an_example_succeeds(program: str) -> None:
    run(program)


def test_the_riccati_recursion_solves_the_least_squares_problem() -> None:
    """Against the solution of the dense problem, in which the states are eliminated."""
    ilqr, rng = importlib.import_module("ilqr"), np.random.default_rng(0)
    knots, n, m, outputs, damping = 4, 3, 2, 5, 0.1
    A, B = rng.normal(size=(knots, n, n)), rng.normal(size=(knots, n, m))
    C, D, r = (
        rng.normal(size=(knots, outputs, n)),
        rng.normal(size=(knots, outputs, m)),
        rng.normal(size=(knots, outputs)),
    )
    final_x, final_root = rng.normal(size=n), rng.normal(size=(n, n))
    found = ilqr.solve(A, B, ilqr.least_squares(r, C, D), final_x, final_root @ final_root.T, damping)
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


def test_networks_are_differentiated() -> None:
    """By inputs and by all parameters, against central differences."""
    rng = np.random.default_rng(0)
    network = importlib.import_module("networks").Network((3, 6, 5, 2), rng)
    x, weights = rng.normal(size=(4, 3)), rng.normal(size=(4, 2))

    def difference(values: np.ndarray, index: tuple[int, ...], h: float = 1e-6) -> float:
        value, results = values[index], []
        for sign in (1.0, -1.0):
            values[index] = value + sign * h
            results.append(float((network(x) * weights).sum()))
        values[index] = value
        return (results[0] - results[1]) / (2.0 * h)

    by_x = network.backward(network.forward(x), weights)
    for values, found in [(x, by_x), *zip(network.parameters, network.gradients, strict=True)]:
        expected = np.array([difference(values, index) for index in np.ndindex(values.shape)])
        np.testing.assert_allclose(found.ravel(), expected, atol=1e-8)


@pytest.mark.parametrize("name", ["cartpole", "hopper"])
def test_observations_and_rewards_are_differentiated(name: str) -> None:
    task, rng, h = importlib.import_module("shac_tasks").TASKS[name], np.random.default_rng(0), 1e-6
    x, u = task.initial(5, rng), rng.normal(size=(5, task.sizes[1]))
    weights = rng.normal(size=(5, task.sizes[0]))
    by_observation, (_, by_x, by_u) = task.pull_back(x, weights), task.reward(x, u)
    for i in range(x.shape[1]):
        step = h * np.eye(x.shape[1])[i]
        observed = ((task.observe(x + step) - task.observe(x - step)) * weights).sum(axis=1) / (2.0 * h)
        rewards = (task.reward(x + step, u)[0] - task.reward(x - step, u)[0]) / (2.0 * h)
        np.testing.assert_allclose(by_observation[:, i], observed, atol=1e-8)
        np.testing.assert_allclose(by_x[:, i], rewards, atol=1e-7)
    for i in range(u.shape[1]):
        step = h * np.eye(u.shape[1])[i]
        rewards = (task.reward(x, u + step)[0] - task.reward(x, u - step)[0]) / (2.0 * h)
        np.testing.assert_allclose(by_u[:, i], rewards, atol=1e-7)


def test_lambda_returns() -> None:
    """Without decay the discounted sum until the end of the episode; with full decay one-step targets."""
    rewards, values = np.array([[1.0], [2.0], [4.0]]), np.array([[10.0], [20.0], [30.0], [40.0]])
    ended = np.array([[False], [True], [False]])
    returns = importlib.import_module("networks").lambda_returns
    np.testing.assert_allclose(returns(rewards, values, ended, 0.5, 1.0), [[2.0], [2.0], [24.0]])
    np.testing.assert_allclose(returns(rewards, values, ended, 0.5, 0.0), [[11.0], [2.0], [24.0]])
