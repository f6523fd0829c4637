"""Benchmark runner: times rollouts of all simulators on a case in turns, and measures their errors and statistics.

Simulators of one comparison alternate, so that other load on the machine affects all of them. Without contacts the
error is the position error after one rollout; with contacts, accuracy is measured on one step, relative to a converged
step of MuJoCo C in double precision.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kinema.core import Array
from kinema.dynamics import Engine
from kinema.runtime import find_device, n_threads

from .cases import ROLLOUT_STEPS, BenchmarkCase, load_case
from .scenes import ContactScene
from .simulators import (
    KinemaRollout,
    KinemaSimulator,
    MujocoC,
    MujocoWarp,
    Simulator,
    has_mujoco_warp,
)

Clock = Callable[[], float]


def shortest_times(
    calls: Sequence[Callable[[], object]],
    seconds: float,
    clock: Clock = time.perf_counter,
    prepare: Sequence[Callable[[], object]] = (),
) -> list[float]:
    """Shortest time of each call [s]; calls alternate, for about `seconds` each, after an untimed `prepare` call."""
    best, spent = [float("inf")] * len(calls), 0.0
    while spent < seconds * len(calls):
        for i, call in enumerate(calls):
            if prepare:
                prepare[i]()
            start = clock()
            call()
            elapsed = clock() - start
            best[i] = min(best[i], elapsed)
            spent += elapsed
    return best


# ------------------------------------------------------------------------------------------------------------- accuracy


def position_error(case: BenchmarkCase, positions: Array) -> float:
    """Maximum error of the positions after one rollout, (environments, n_qs), relative to MuJoCo C in float64.

    On three environments.
    """
    import mujoco

    n_envs = len(positions)
    controls, data, worst = case.random_controls(n_envs), mujoco.MjData(case.mujoco_model), 0.0
    for env in {0, n_envs // 2, n_envs - 1}:
        _set_mujoco_state(case, case.mujoco_model, data, env % case.n_initial_states)
        for t in range(ROLLOUT_STEPS):
            data.ctrl[:] = controls[t, :, env]
            mujoco.mj_step(case.mujoco_model, data)
        worst = max(worst, float(np.abs(data.qpos - positions[env]).max()))
    return worst


@dataclass(frozen=True, slots=True)
class StepAccuracy:
    """Accuracy of one step from each of the initial states."""

    error: float
    """Median over states of the maximum velocity error relative to a converged step, divided by the velocity change."""
    error_99: float
    """99th percentile of that error."""
    residual: float
    """Median residual force of the equations of motion (inverse dynamics), relative to the constraint force."""


def step_accuracy(case: BenchmarkCase, velocities: Array, controls: Array) -> StepAccuracy:
    """Accuracy of the velocities after one step, (environments, dofs), under controls, (actuators, environments)."""
    import mujoco

    exact = case.converged_mujoco_model()
    exact.opt.enableflags |= int(mujoco.mjtEnableBit.mjENBL_INVDISCRETE)
    data = mujoco.MjData(exact)
    errors, residuals = [], []
    for i in range(min(case.n_initial_states, len(velocities))):
        before = case.qvel[i]
        _set_mujoco_state(case, exact, data, i, controls)
        mujoco.mj_step(exact, data)
        change = np.abs(data.qvel - before).max()
        errors.append(np.abs(velocities[i] - data.qvel).max() / max(change, 1e-9))
        _set_mujoco_state(case, exact, data, i, controls)
        mujoco.mj_forward(exact, data)
        qfrc_actuator, constraint_norm = data.qfrc_actuator.copy(), np.linalg.norm(data.qfrc_constraint)
        data.qacc[:] = (velocities[i] - before) / exact.opt.timestep
        mujoco.mj_inverse(exact, data)
        residuals.append(np.linalg.norm(data.qfrc_inverse - qfrc_actuator) / max(constraint_norm, 1e-9))
    worst = float(np.percentile(errors, 99))
    return StepAccuracy(float(np.median(errors)), worst, float(np.median(residuals)))


def _set_mujoco_state(
    case: BenchmarkCase, model: Any, data: Any, state_index: int, controls: Array | None = None
) -> None:
    import mujoco

    mujoco.mj_resetData(model, data)
    data.qpos[:], data.qvel[:] = case.qpos[state_index], case.qvel[state_index]
    if controls is not None:
        data.ctrl[:] = controls[:, state_index]


# -------------------------------------------------------------------------------------------------------------- results


@dataclass(frozen=True, slots=True)
class Measurement:
    """Measurement of one simulator on one case."""

    simulator: str
    n_envs: int
    rate: float
    """Environment-steps per second."""
    error: float
    """Without contacts the maximum position error after one rollout, with contacts `StepAccuracy.error`."""
    finite: bool
    bytes_per_env: float
    build_seconds: float


@dataclass(frozen=True, slots=True)
class ContactMeasurement(Measurement):
    """Measurement of one simulator on one contact scene; errors are those of `StepAccuracy`."""

    error_99: float
    residual: float
    contacts: float
    """Contacts per environment, mean over steps and environments."""
    iterations: float
    """Solver iterations per step, mean over steps and environments."""
    overflows: int
    """Environments in which contacts or constraint rows exceeded the capacity at any step."""
    own_error: float | None = None
    """Median error relative to Kinema in double precision, for scenes whose contact points differ from MuJoCo's."""


@dataclass(frozen=True, slots=True)
class BenchmarkResult:
    """Measurement of one simulator, compared with the reference simulator on the same hardware."""

    case: str
    n_dofs: int
    figures: Measurement
    reference: str
    ratio: float
    """Rate relative to the reference."""


# ------------------------------------------------------------------------------------- running all cases and simulators

ProgressCallback = Callable[[str], None]
DIFFERENT_CONTACTS_ERROR = 1e-2
"""Error relative to MuJoCo above which contact points are assumed to differ."""
MUJOCO_ENVS, MAX_MUJOCO_CONTACT_ENVS = 256, 128
"""Environments of MuJoCo C per core, at most with contacts; its rate does not depend on the number."""


def run_benchmark(
    robots: Sequence[Path | None],
    env_counts: Sequence[int],
    device: str,
    seconds: float = 1.0,
    progress: ProgressCallback = lambda _: None,
    *,
    scene: ContactScene | None = None,
    unconstrained: bool = False,
) -> Iterator[BenchmarkResult]:
    """Yield results of all robots, numbers of environments and simulators; arguments as for `load_case`.

    Timed by the CPU time of the process on one core, otherwise by wall-clock time.
    """
    for robot in robots:
        progress(f"{scene.value if scene and robot is None else robot and robot.stem}: reading")
        case = load_case(robot, scene, unconstrained=unconstrained)
        for n_envs in env_counts:
            for simulators, clock in _comparisons(case, n_envs, device, progress):
                progress(f"{case.name}: {n_envs} environments, running")
                figures = _measure(case, simulators, seconds, clock)
                for each in figures:
                    reference = figures[0]
                    yield BenchmarkResult(
                        case.name, case.model.n_dofs, each, reference.simulator, each.rate / reference.rate
                    )


def _comparisons(
    case: BenchmarkCase, n_envs: int, device: str, progress: ProgressCallback
) -> Iterator[tuple[list[Simulator], Clock]]:
    """Simulators that are timed in turns, the reference first, and the clock that times them."""
    progress(f"{case.name}: MuJoCo C")
    peer_envs = min(MAX_MUJOCO_CONTACT_ENVS, 2 * case.n_initial_states) if case.has_contacts else MUJOCO_ENVS
    peer: Simulator = MujocoC(case, peer_envs)
    if device != "cpu" and has_mujoco_warp():
        progress(f"{case.name}: MuJoCo Warp, {n_envs} environments, compiling")
        peer = MujocoWarp(case, n_envs, device, peer.statistics)
    progress(f"{case.name}: Kinema, {n_envs} environments, compiling")
    ours = KinemaSimulator(case, n_envs, device)
    rollouts = [KinemaRollout(ours, single_launch=single_launch) for single_launch in (True, False)]
    yield [peer, *rollouts], time.process_time if device == "cpu" else time.perf_counter
    if device == "cpu" and n_threads() > 1 and not case.has_contacts:
        several = KinemaRollout(KinemaSimulator(case, n_envs, device, threads=None), single_launch=False)
        yield [MujocoC(case, n_threads() * MUJOCO_ENVS, n_threads()), several], time.perf_counter


def _measure(case: BenchmarkCase, simulators: Sequence[Simulator], seconds: float, clock: Clock) -> list[Measurement]:
    """Measurements of simulators on a case: errors after one rollout, then times.

    With contacts every rollout starts from the initial states; without, Kinema and MuJoCo Warp go on, so that joints
    reach their limits.
    """
    errors = []
    for each in simulators:
        each.reset()
        each.rollout()
        errors.append(float("nan") if case.has_contacts else position_error(case, each.positions()))
    resets = [each.reset for each in simulators] if case.has_contacts else []
    times = shortest_times([each.rollout for each in simulators], seconds, clock, resets)
    return [
        _make_measurement(case, each, error, took) for each, error, took in zip(simulators, errors, times, strict=True)
    ]


def _make_measurement(case: BenchmarkCase, simulator: Simulator, error: float, seconds: float) -> Measurement:
    rate = simulator.n_envs * ROLLOUT_STEPS / seconds
    common = (simulator.is_finite(), simulator.bytes_per_env, simulator.build_seconds)
    if not case.has_contacts:
        return Measurement(simulator.name, simulator.n_envs, rate, error, *common)
    counts = simulator.statistics
    found = step_accuracy(case, counts.first_step_velocities, case.random_controls(simulator.n_envs)[0])
    own_error = None
    if isinstance(simulator, KinemaRollout) and found.error > DIFFERENT_CONTACTS_ERROR:
        own_error = simulator.simulator.error_vs_double_precision
    return ContactMeasurement(
        simulator.name,
        simulator.n_envs,
        rate,
        found.error,
        *common,
        error_99=found.error_99,
        residual=found.residual,
        contacts=float(np.mean(counts.contacts)),
        iterations=float(np.mean(counts.iterations)),
        overflows=counts.overflows,
        own_error=own_error,
    )


# ------------------------------------------------------------------------------------------ single environment on a CPU

STEPS_PER_STATE, N_STATES = 40, 8
"""Steps from each of at most so many initial states."""


def single_environment_rates(case: BenchmarkCase, seconds: float = 1.0) -> dict[str, float]:
    """Steps per second of CPU time of one environment, by Kinema and MuJoCo C, with 1 and 10 steps per call.

    Controls are constant.
    """
    import mujoco

    engine = Engine(case.model, case.settings, 1, find_device("cpu"), lanes=1, threads=1)
    engine.compile_step()
    data = mujoco.MjData(case.mujoco_model)
    n_states = min(N_STATES, case.n_initial_states)
    controls = case.random_controls(n_states)[0]

    def set_ours(i: int) -> None:
        engine.reset()
        for name, values in (("qpos", case.qpos[i]), ("vel", case.qvel[i]), ("ctrl", controls[:, i])):
            if len(values):
                engine.array_view(name).assign(np.ascontiguousarray(values[:, None]))

    def set_theirs(i: int) -> None:
        _set_mujoco_state(case, case.mujoco_model, data, i, controls)

    def theirs(count: int) -> None:
        mujoco.mj_step(case.mujoco_model, data, count)

    calls = {
        "step": (set_ours, engine.step, 1),
        "step(10)": (set_ours, engine.step, 10),
        "mj_step": (set_theirs, theirs, 1),
        "mj_step(10)": (set_theirs, theirs, 10),
    }
    best = dict.fromkeys(calls, float("inf"))
    end = time.perf_counter() + seconds * len(calls)
    while time.perf_counter() < end:
        for name, (put, step, count) in calls.items():
            best[name] = min(best[name], _time_steps(put, step, count, n_states))
    return {name: n_states * STEPS_PER_STATE / took for name, took in best.items()}


def _time_steps(put: Callable[[int], None], step: Callable[[int], None], steps_per_call: int, n_states: int) -> float:
    """CPU time of `STEPS_PER_STATE` steps from each initial state, with `steps_per_call` steps in each call [s]."""
    took = 0.0
    for i in range(n_states):
        put(i)
        began = time.process_time()
        for _ in range(STEPS_PER_STATE // steps_per_call):
            step(steps_per_call)
        took += time.process_time() - began
    return took
