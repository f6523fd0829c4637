"""Runs the contact benchmarks on all simulators and collects throughput and accuracy.

Accuracy is measured on one step, relative to a converged step of MuJoCo C in double precision; the measure is the same
for every simulator.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..throughput import BenchmarkResult, has_mujoco_warp
from .case import ROLLOUT_STEPS, ContactCase, load_contact_case
from .scenes import ContactScene
from .simulators import (
    ContactMeasurement,
    KinemaRollout,
    KinemaSimulator,
    MujocoC,
    MujocoWarp,
    SimulatorRollout,
    time_rollouts,
)

# ------------------------------------------------------------------------------------------------- accuracy of one step


@dataclass(frozen=True, slots=True)
class StepAccuracy:
    """Accuracy of one step from each of the initial states."""

    error: float
    """Median over states of the maximum velocity error relative to a converged step, divided by the velocity change."""
    error_99: float
    """99th percentile of that error."""
    residual: float
    """Median residual force of the equations of motion (inverse dynamics), relative to the constraint force."""


def step_accuracy(case: ContactCase, velocities: np.ndarray, controls: np.ndarray) -> StepAccuracy:
    """Accuracy of the velocities after one step, (environments, dofs), under controls, (actuators, environments)."""
    import mujoco

    exact = case.converged_mujoco_model()
    exact.opt.enableflags |= int(mujoco.mjtEnableBit.mjENBL_INVDISCRETE)
    data = mujoco.MjData(exact)
    errors, residuals = [], []
    for i in range(min(case.n_initial_states, len(velocities))):
        before = case.qvel[i]
        _set_mujoco_state(case, data, i, controls)
        mujoco.mj_step(exact, data)
        change = np.abs(data.qvel - before).max()
        errors.append(np.abs(velocities[i] - data.qvel).max() / max(change, 1e-9))
        _set_mujoco_state(case, data, i, controls)
        mujoco.mj_forward(exact, data)
        qfrc_actuator, constraint_norm = data.qfrc_actuator.copy(), np.linalg.norm(data.qfrc_constraint)
        data.qacc[:] = (velocities[i] - before) / exact.opt.timestep
        mujoco.mj_inverse(exact, data)
        residuals.append(np.linalg.norm(data.qfrc_inverse - qfrc_actuator) / max(constraint_norm, 1e-9))
    worst = float(np.percentile(errors, 99))
    return StepAccuracy(float(np.median(errors)), worst, float(np.median(residuals)))


def _set_mujoco_state(case: ContactCase, data: Any, state_index: int, controls: np.ndarray) -> None:
    import mujoco

    mujoco.mj_resetData(case.converged_mujoco_model(), data)
    data.qpos[:], data.qvel[:] = case.qpos[state_index], case.qvel[state_index]
    data.ctrl[:] = controls[:, state_index]


# ------------------------------------------------------------------------------------- running all cases and simulators

ProgressCallback = Callable[[str], None]
DIFFERENT_CONTACTS_ERROR = 1e-2
"""Error relative to MuJoCo above which contact points are assumed to differ."""
MAX_MUJOCO_ENVS = 128
"""Maximum number of environments of MuJoCo C on a CPU; its rate does not depend on the number."""


def run_contact_benchmark(
    scene: ContactScene,
    robots: Sequence[Path | None],
    env_counts: Sequence[int],
    device: str,
    seconds: float = 1.0,
    progress: ProgressCallback = lambda _: None,
) -> Iterator[BenchmarkResult]:
    """Benchmark results of all simulators; timed by CPU time of one core on a CPU, otherwise by wall-clock time."""
    for robot in robots:
        progress(f"{scene.value if robot is None else robot.stem}: reading, and falling over")
        case = load_contact_case(scene, robot)
        progress(f"{case.name}: MuJoCo C")
        single = MujocoC(case, min(MAX_MUJOCO_ENVS, 2 * case.n_initial_states))
        for n_envs in env_counts:
            yield from _run_all_simulators(case, n_envs, device, seconds, single, progress)


def _run_all_simulators(
    case: ContactCase, n_envs: int, device: str, seconds: float, mujoco_c: MujocoC, progress: ProgressCallback
) -> Iterator[BenchmarkResult]:
    progress(f"{case.name}: Kinema, {n_envs} environments, compiling")
    ours = KinemaSimulator(case, n_envs, device)
    racing: list[SimulatorRollout] = [KinemaRollout(ours, single_launch=True), KinemaRollout(ours, single_launch=False)]
    if device == "cpu":
        racing.insert(0, mujoco_c)
        clock = time.process_time
    else:
        clock = time.perf_counter
        if has_mujoco_warp():
            progress(f"{case.name}: MuJoCo Warp, {n_envs} environments, compiling")
            racing.insert(0, MujocoWarp(case, n_envs, device, mujoco_c.statistics))
        else:
            racing.insert(0, mujoco_c)
    progress(f"{case.name}: {n_envs} environments, running")
    found = [
        _make_measurement(case, contestant, took)
        for contestant, took in zip(racing, time_rollouts(racing, seconds, clock), strict=True)
    ]
    for figures in found:
        yield BenchmarkResult(
            case=case.name,
            n_dofs=case.model.n_dofs,
            figures=figures,
            reference=found[0].simulator,
            ratio=figures.rate / found[0].rate,
        )


def _make_measurement(case: ContactCase, simulator: SimulatorRollout, seconds: float) -> ContactMeasurement:
    counts = simulator.statistics
    found = step_accuracy(case, counts.first_step_velocities, case.random_controls(simulator.n_envs)[0])
    ours = (
        simulator.simulator if isinstance(simulator, KinemaRollout) and found.error > DIFFERENT_CONTACTS_ERROR else None
    )
    return ContactMeasurement(
        simulator=simulator.name,
        n_envs=simulator.n_envs,
        rate=simulator.n_envs * ROLLOUT_STEPS / seconds,
        error=found.error,
        finite=simulator.is_finite(),
        bytes_per_env=simulator.bytes_per_env,
        build_seconds=simulator.build_seconds,
        error_99=found.error_99,
        residual=found.residual,
        contacts=float(np.mean(counts.contacts)),
        iterations=float(np.mean(counts.iterations)),
        overflows=counts.overflows,
        own_error=None if ours is None else ours.error_vs_double_precision,
    )
