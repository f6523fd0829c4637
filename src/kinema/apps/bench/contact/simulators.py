"""Rollouts of a contact benchmark case by Kinema, MuJoCo C and MuJoCo Warp, timed, with contact and solver statistics.

All simulators start from the same states, and their runs alternate.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from kinema.dynamics import Engine
from kinema.runtime import find_device, synchronise

from ..throughput import Measurement
from .case import ROLLOUT_STEPS, ContactCase

# --------------------------------------------------------------------------------------------------------- measurements


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


@dataclass(slots=True)
class RolloutStatistics:
    """Contact and solver statistics collected over the steps of one rollout."""

    contacts: list[float] = field(default_factory=list)
    iterations: list[float] = field(default_factory=list)
    overflows: int = 0
    max_rows: int = 0
    max_contacts: int = 0
    first_step_velocities: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    """Velocities after the first step, (environments, dofs)."""


class SimulatorRollout(Protocol):
    """Interface of a simulator that is set up for one scene."""

    name: str
    n_envs: int
    bytes_per_env: float
    build_seconds: float
    statistics: RolloutStatistics
    """Statistics of one rollout from the initial states, step by step."""

    def reset(self) -> None:
        """Set all environments to the initial states."""

    def rollout(self) -> None:
        """Run one rollout and wait for its end."""

    def is_finite(self) -> bool:
        """Whether the whole state is finite after a rollout."""
        ...


def time_rollouts(
    simulators: Sequence[SimulatorRollout], seconds: float, clock: Callable[[], float] = time.perf_counter
) -> list[float]:
    """Shortest time of a rollout of each simulator [s]; simulators alternate, for about `seconds` each."""
    best = [float("inf")] * len(simulators)
    spent = 0.0
    while spent < seconds * len(simulators):
        for i, simulator in enumerate(simulators):
            simulator.reset()
            start = clock()
            simulator.rollout()
            elapsed = clock() - start
            best[i] = min(best[i], elapsed)
            spent += elapsed
    return best


def device_memory_in_use(device: str) -> float:
    """GPU memory allocated by Kinema and MuJoCo Warp [bytes]; NaN on a CPU.

    Garbage is collected first: simulators contain reference cycles, and memory freed later would falsify the next
    measurement.
    """
    if device == "cpu":
        return float("nan")
    gc.collect()
    return _mempool_bytes_in_use(device)


def _mempool_bytes_in_use(device: str) -> float:
    import warp as wp

    found: Any = wp.get_device(device)
    wp.synchronize_device(found)  # memory is freed when all launches have ended
    return float(wp.get_mempool_used_mem_current(found)) if found.is_mempool_supported else float("nan")


# --------------------------------------------------------------------------------------------------------------- Kinema

CONVERGED_TOLERANCE, CONVERGED_MAX_ITERATIONS = 1e-14, 300
"""Solver tolerance and maximum iterations of the double-precision reference."""


class KinemaSimulator:
    """Kinema engine on one core of a CPU or on a GPU."""

    def __init__(self, case: ContactCase, n_envs: int, device: str) -> None:
        self.case, self.n_envs = case, n_envs
        before, began = device_memory_in_use(device), time.perf_counter()
        found = find_device(device)
        self.engine = Engine(case.model, case.settings, n_envs, found, threads=1 if found.is_cpu else None)
        self.engine.compile_step()
        self.build_seconds = time.perf_counter() - began
        self.controls = case.random_controls(n_envs)
        self.statistics = self.measure_statistics()
        rows = self.engine.state.layout.n_rows + self.engine.controls.layout.n_rows
        used = device_memory_in_use(device) - before
        self.bytes_per_env = rows * 4.0 if self.engine.device.is_cpu else used / n_envs
        self.control_sequence = self.engine.allocate_control_sequence(ROLLOUT_STEPS)
        for t in range(ROLLOUT_STEPS):
            if case.model.n_actuators:
                self.control_sequence.view(f"ctrl {t}").assign(self.controls[t])

    def reset(self) -> None:
        """Set all environments to the initial states."""
        _reset_engine(self.engine, self.case)

    @cached_property
    def error_vs_double_precision(self) -> float:
        """Median velocity error after one step against Kinema in double precision, relative to the velocity change."""
        case, n = self.case, min(self.n_envs, self.case.n_initial_states)
        settings = replace(case.settings, tolerance=CONVERGED_TOLERANCE, iterations=CONVERGED_MAX_ITERATIONS)
        exact = Engine(case.model, settings, n, find_device("cpu"), precision="double", threads=1)
        _reset_engine(exact, case)
        if case.model.n_actuators:
            exact.array_view("ctrl").assign(np.ascontiguousarray(self.controls[0][:, :n]))
        exact.step()
        velocities = np.array(exact.array_view("vel").numpy()).T
        change = np.abs(velocities - case.initial_states(n)[1]).max(axis=1)
        return float(
            np.median(
                np.abs(self.statistics.first_step_velocities[:n] - velocities).max(axis=1) / np.maximum(change, 1e-9)
            )
        )

    def measure_statistics(self) -> RolloutStatistics:
        """Statistics of one rollout, step by step."""
        found, engine = RolloutStatistics(), self.engine
        self.reset()
        for t in range(ROLLOUT_STEPS):
            if self.case.model.n_actuators:
                engine.array_view("ctrl").assign(self.controls[t])
            engine.step()
            found.contacts.append(float(engine.array_view("n_contacts").numpy().mean()))
            found.iterations.append(float(engine.array_view("n_iterations").numpy().mean()))
            if t == 0:
                found.first_step_velocities = np.array(engine.array_view("vel").numpy(), dtype=np.float64).T
        found.overflows = int((engine.array_view("most_wanted").numpy() > 0).sum())
        found.max_contacts = int(engine.array_view("most_contacts").numpy().max())
        return found

    def is_finite(self) -> bool:
        """Whether positions are finite and no environment has an error flag."""
        engine = self.engine
        return bool(
            np.isfinite(engine.array_view("qpos").numpy()).all() and not engine.array_view("error").numpy().any()
        )


def _reset_engine(engine: Engine, case: ContactCase) -> None:
    """Set all environments of an engine to the initial states of a case."""
    qpos, qvel = case.initial_states(engine.n_envs)
    engine.reset()
    engine.array_view("qpos").assign(np.ascontiguousarray(qpos.T))
    engine.array_view("vel").assign(np.ascontiguousarray(qvel.T))
    synchronise(engine.device)


class KinemaRollout:
    """Rollouts of a `KinemaSimulator` with all steps in one launch, or one launch per step."""

    def __init__(self, simulator: KinemaSimulator, *, single_launch: bool) -> None:
        self.simulator, self.n_envs = simulator, simulator.n_envs
        self.bytes_per_env, self.build_seconds = simulator.bytes_per_env, simulator.build_seconds
        self.statistics = simulator.statistics
        self.name = "Kinema, rollout" if single_launch else "Kinema, step by step"
        self.name += ", one core" if simulator.engine.device.is_cpu else ""
        self._launch: Callable[[], None] = simulator.engine.rollout(
            simulator.control_sequence, single_launch=single_launch
        )

    def reset(self) -> None:
        """Set all environments to the initial states."""
        self.simulator.reset()

    def rollout(self) -> None:
        """Run one rollout and wait for its end."""
        self._launch()
        synchronise(self.simulator.engine.device)

    def is_finite(self) -> bool:
        """Whether positions are finite and no environment has an error flag."""
        return self.simulator.is_finite()


# --------------------------------------------------------------------------------------------- MuJoCo C and MuJoCo Warp


class MujocoC:
    """MuJoCo C with its `rollout` module, on one core."""

    name = "MuJoCo C, one core"
    build_seconds = 0.0

    def __init__(self, case: ContactCase, n_envs: int) -> None:
        import mujoco
        from mujoco import rollout

        self.case, self.n_envs, self.model = case, n_envs, case.mujoco_model
        self._state_spec = mujoco.mjtState.mjSTATE_FULLPHYSICS
        self.data = mujoco.MjData(self.model)
        self.controls = case.random_controls(n_envs)
        self._rollout_controls = np.ascontiguousarray(self.controls.transpose(2, 0, 1), dtype=np.float64)
        self._states = np.array([self._initial_state(i) for i in range(n_envs)])
        self._rollout_states = np.zeros((n_envs, ROLLOUT_STEPS, self._states.shape[1]))
        self._models, self._runner = [self.model] * n_envs, rollout.Rollout(nthread=0)
        self.statistics = self.measure_statistics()
        self.bytes_per_env = float(self.data.nbuffer + self.data.maxuse_arena)

    def _initial_state(self, env: int) -> np.ndarray:
        """Full physics state of an environment (mjSTATE_FULLPHYSICS) at the start."""
        import mujoco

        mujoco.mj_resetData(self.model, self.data)
        self.data.qpos[:], self.data.qvel[:] = (
            x[env % self.case.n_initial_states] for x in (self.case.qpos, self.case.qvel)
        )
        state = np.zeros(mujoco.mj_stateSize(self.model, self._state_spec))
        mujoco.mj_getState(self.model, self.data, state, self._state_spec)
        return state

    def reset(self) -> None:
        """Does nothing: rollouts take their initial states as an argument."""

    def rollout(self) -> None:
        """Run one rollout of all environments."""
        self._runner.rollout(
            self._models, [self.data], self._states, self._rollout_controls, state=self._rollout_states
        )

    def measure_statistics(self) -> RolloutStatistics:
        """Statistics of a rollout from each initial state, step by step."""
        import mujoco

        found, first = RolloutStatistics(), []
        full = (mujoco.mjtWarning.mjWARN_CONTACTFULL, mujoco.mjtWarning.mjWARN_CNSTRFULL)
        for i in range(min(self.n_envs, self.case.n_initial_states)):
            self._initial_state(i)
            for t in range(ROLLOUT_STEPS):
                self.data.ctrl[:] = self.controls[t, :, i]
                mujoco.mj_step(self.model, self.data)
                found.contacts.append(self.data.ncon)
                found.iterations.append(float(self.data.solver_niter.sum()))
                found.max_rows = max(found.max_rows, self.data.nefc)
                if t == 0:
                    first.append(self.data.qvel.copy())
            found.overflows += any(self.data.warning[int(w)].number for w in full)
        found.first_step_velocities, found.max_contacts = np.array(first), int(max(found.contacts))
        return found

    def is_finite(self) -> bool:
        """Whether all states of the rollout are finite."""
        return bool(np.isfinite(self._rollout_states).all())


class MujocoWarp:
    """MuJoCo Warp with all steps of a rollout, each with its own controls, in one CUDA graph."""

    name = "MuJoCo Warp"

    def __init__(self, case: ContactCase, n_envs: int, device: str, reference_statistics: RolloutStatistics) -> None:
        import mujoco
        import mujoco_warp as mjw  # pyright: ignore[reportMissingImports]
        import warp as wp

        self.case, self.n_envs, self.device, self._mjw, self._wp = case, n_envs, device, mjw, wp
        self.controls = case.random_controls(n_envs)
        before, began = device_memory_in_use(device), time.perf_counter()
        with wp.ScopedDevice(device):
            data = mujoco.MjData(case.mujoco_model)
            mujoco.mj_forward(case.mujoco_model, data)
            self.model = mjw.put_model(case.mujoco_model)
            contacts, rows = (
                2 * reference_statistics.max_contacts + 16,
                2 * reference_statistics.max_rows + 64,
            )  # twice the maximum of MuJoCo C
            self.batch: Any = mjw.put_data(case.mujoco_model, data, nworld=n_envs, nconmax=contacts, njmax=rows)
            self._step_controls = [wp.array(np.ascontiguousarray(c.T), dtype=wp.float32) for c in self.controls]
            qpos, qvel = case.initial_states(n_envs)
            self._initial_states = [wp.array(np.ascontiguousarray(x), dtype=wp.float32) for x in (qpos, qvel)]
            self.reset()
            self._step(0)
            wp.synchronize()
            self.build_seconds = time.perf_counter() - began
            self.bytes_per_env = (device_memory_in_use(device) - before) / n_envs
            self.statistics = self.measure_statistics()
            self._graph: Any = None
            if wp.get_device().is_cuda:
                with wp.ScopedCapture() as capture:
                    self._run_all_steps()
                self._graph = capture.graph

    def reset(self) -> None:
        """Set all environments to the initial states."""
        batch, wp = self.batch, self._wp
        with wp.ScopedDevice(self.device):
            for array, value in zip((batch.qpos, batch.qvel), self._initial_states, strict=True):
                wp.copy(array, value)
            for array in (batch.qacc_warmstart, batch.overflow, batch.act):
                array.zero_()
            wp.synchronize()

    def _step(self, t: int) -> None:
        if self.case.mujoco_model.nu:
            self._wp.copy(self.batch.ctrl, self._step_controls[t])
        self._mjw.step(self.model, self.batch)

    def _run_all_steps(self) -> None:
        for t in range(ROLLOUT_STEPS):
            self._step(t)

    def rollout(self) -> None:
        """Run one rollout and wait for its end."""
        with self._wp.ScopedDevice(self.device):
            if self._graph is None:
                self._run_all_steps()
            else:
                self._wp.capture_launch(self._graph)
            self._wp.synchronize()

    def measure_statistics(self) -> RolloutStatistics:
        """Statistics of one rollout, step by step."""
        found, batch = RolloutStatistics(), self.batch
        self.reset()
        with self._wp.ScopedDevice(self.device):
            for t in range(ROLLOUT_STEPS):
                self._step(t)
                found.contacts.append(float(batch.nacon.numpy()[0]) / self.n_envs)
                found.iterations.append(float(batch.solver_niter.numpy().mean()))
                if t == 0:
                    found.first_step_velocities = batch.qvel.numpy().astype(np.float64)
            found.overflows = int((batch.overflow.numpy() != 0).sum())
        return found

    def is_finite(self) -> bool:
        """Whether all positions are finite after a rollout."""
        return bool(np.isfinite(self.batch.qpos.numpy()).all())


# ------------------------------------------------------------------------------------------ single environment on a CPU

STEPS_PER_STATE = 40
"""Steps from each of the `N_STATES` initial states."""
N_STATES = 8


def measure_single_contact_environment(case: ContactCase, seconds: float = 1.0) -> dict[str, float]:
    """Steps per second of CPU time of one environment, by Kinema and MuJoCo C, with 1 and 10 steps per call.

    Controls are constant.
    """
    import mujoco

    engine = Engine(case.model, case.settings, 1, find_device("cpu"), lanes=1, threads=1)
    engine.compile_step()
    data = mujoco.MjData(case.mujoco_model)
    commands = case.random_controls(N_STATES)[0]

    def put_ours(i: int) -> None:
        engine.reset()
        engine.array_view("qpos").assign(case.qpos[i][:, None])
        engine.array_view("vel").assign(case.qvel[i][:, None])
        if case.model.n_actuators:
            engine.array_view("ctrl").assign(commands[:, i : i + 1])

    def put_theirs(i: int) -> None:
        mujoco.mj_resetData(case.mujoco_model, data)
        data.qpos[:], data.qvel[:], data.ctrl[:] = case.qpos[i], case.qvel[i], commands[:, i]

    def theirs(count: int) -> None:
        mujoco.mj_step(case.mujoco_model, data, count)

    ways: dict[str, tuple[Callable[[int], None], Callable[[int], None], int]] = {
        "step": (put_ours, engine.step, 1),
        "step(10)": (put_ours, engine.step, 10),
        "mj_step": (put_theirs, theirs, 1),
        "mj_step(10)": (put_theirs, theirs, 10),
    }
    best: dict[str, Any] = dict.fromkeys(ways, np.inf)
    end = time.perf_counter() + seconds * len(ways)
    while time.perf_counter() < end:
        for name, (put, step, count) in ways.items():
            best[name] = min(best[name], _time_steps(put, step, count))
    return {name: N_STATES * STEPS_PER_STATE / took for name, took in best.items()}


def _time_steps(set_state: Callable[[int], None], step: Callable[[int], None], steps_per_call: int) -> float:
    """CPU time of `STEPS_PER_STATE` steps from each initial state, with `steps_per_call` steps in each call [s]."""
    took = 0.0
    for i in range(N_STATES):
        set_state(i)
        began = time.process_time()
        for _ in range(STEPS_PER_STATE // steps_per_call):
            step(steps_per_call)
        took += time.process_time() - began
    return took
