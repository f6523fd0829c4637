"""Adapters of the simulators: rollouts of a benchmark case by Kinema, MuJoCo C and MuJoCo Warp, with statistics."""

from __future__ import annotations

import gc
import importlib.util
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from kinema.core import Array
from kinema.dynamics import Engine
from kinema.runtime import find_device, n_threads, synchronise

from .cases import ROLLOUT_STEPS, BenchmarkCase


@dataclass(slots=True)
class RolloutStatistics:
    """Contact and solver statistics collected over the steps of one rollout."""

    contacts: list[float] = field(default_factory=list)
    iterations: list[float] = field(default_factory=list)
    overflows: int = 0
    max_rows: int = 0
    max_contacts: int = 0
    first_step_velocities: Array = field(default_factory=lambda: np.zeros((0, 0)))
    """Velocities after the first step, (environments, dofs)."""


class Simulator(Protocol):
    """Interface of a simulator that is set up for one case."""

    name: str
    n_envs: int
    bytes_per_env: float
    build_seconds: float
    """Time of tracing and compilation, or of loading from the cache [s]."""
    statistics: RolloutStatistics
    """Statistics of one rollout from the initial states, step by step; of cases with contacts."""

    def reset(self) -> None:
        """Set all environments to the initial states."""

    def rollout(self) -> None:
        """Run one rollout and wait for its end."""

    def positions(self) -> Array:
        """Positions at the end of the last rollout, (environments, n_qs)."""
        ...

    def is_finite(self) -> bool:
        """Whether the whole state is finite after a rollout."""
        ...


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
    """Kinema engine on a GPU, or on one core of a CPU unless `threads` is None, for all cores."""

    def __init__(self, case: BenchmarkCase, n_envs: int, device: str, threads: int | None = 1) -> None:
        self.case, self.n_envs = case, n_envs
        before, began = device_memory_in_use(device), time.perf_counter()
        found = find_device(device)
        self.engine = Engine(case.model, case.settings, n_envs, found, threads=threads if found.is_cpu else None)
        self.engine.compile_step()
        self.build_seconds = time.perf_counter() - began
        self.suffix = "" if not found.is_cpu else ", one core" if threads == 1 else f", {n_threads()} cores"
        self.controls = case.random_controls(n_envs)
        self.statistics = self.measure_statistics() if case.has_contacts else RolloutStatistics()
        rows = self.engine.state.layout.n_rows + self.engine.controls.layout.n_rows
        used = device_memory_in_use(device) - before
        self.bytes_per_env = used / n_envs if case.has_contacts and not found.is_cpu else rows * 4.0
        self.control_sequence = self.engine.allocate_control_sequence(ROLLOUT_STEPS)
        self.set_controls(self.controls)

    def set_controls(self, controls: Array) -> None:
        """Set the controls of all steps of a rollout, (steps, actuators, environments)."""
        for t in range(ROLLOUT_STEPS if self.case.model.n_actuators else 0):
            self.control_sequence.view(f"ctrl {t}").assign(controls[t])

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
        change = np.maximum(np.abs(velocities - case.initial_states(n)[1]).max(axis=1), 1e-9)
        return float(np.median(np.abs(self.statistics.first_step_velocities[:n] - velocities).max(axis=1) / change))

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
        found.overflows = int((engine.array_view("max_required_capacity").numpy() > 0).sum())
        found.max_contacts = int(engine.array_view("max_n_contacts").numpy().max())
        return found

    def positions(self) -> Array:
        """Positions, (environments, n_qs)."""
        return np.array(self.engine.array_view("qpos").numpy(), dtype=np.float64).T

    def is_finite(self) -> bool:
        """Whether positions are finite and no environment has an error flag."""
        return bool(np.isfinite(self.positions()).all() and not self.engine.array_view("error").numpy().any())


def _reset_engine(engine: Engine, case: BenchmarkCase) -> None:
    """Set all environments of an engine to the initial states of a case."""
    qpos, qvel = case.initial_states(engine.n_envs)
    engine.reset()
    engine.array_view("qpos").assign(np.ascontiguousarray(qpos.T))
    engine.array_view("vel").assign(np.ascontiguousarray(qvel.T))
    synchronise(engine.device)


class KinemaRollout:
    """Rollouts of a `KinemaSimulator` with all steps in one launch, or one launch per step.

    On a GPU, the launches of single steps are recorded in a CUDA graph.
    """

    def __init__(self, simulator: KinemaSimulator, *, single_launch: bool) -> None:
        self.simulator, self.n_envs = simulator, simulator.n_envs
        self.bytes_per_env, self.build_seconds = simulator.bytes_per_env, simulator.build_seconds
        self.statistics = simulator.statistics
        self.name = ("Kinema, rollout" if single_launch else "Kinema, step by step") + simulator.suffix
        self._launch: Callable[[], None] = simulator.engine.rollout(
            simulator.control_sequence, single_launch=single_launch
        )

    def rollout(self) -> None:
        """Run one rollout and wait for its end."""
        self._launch()
        synchronise(self.simulator.engine.device)

    def reset(self) -> None:
        """Set all environments to the initial states."""
        self.simulator.reset()

    def positions(self) -> Array:
        """Positions, (environments, n_qs)."""
        return self.simulator.positions()

    def is_finite(self) -> bool:
        """Whether positions are finite and no environment has an error flag."""
        return self.simulator.is_finite()


# --------------------------------------------------------------------------------------------- MuJoCo C and MuJoCo Warp


class MujocoC:
    """MuJoCo C with its `rollout` module, on one or several cores."""

    build_seconds = 0.0

    def __init__(self, case: BenchmarkCase, n_envs: int, threads: int = 1) -> None:
        import mujoco
        from mujoco import rollout

        self.name = "MuJoCo C, one core" if threads == 1 else f"MuJoCo C, {threads} cores"
        self.case, self.n_envs, self.model = case, n_envs, case.mujoco_model
        self._state_spec = mujoco.mjtState.mjSTATE_FULLPHYSICS
        self.datas = [mujoco.MjData(self.model) for _ in range(threads)]
        self.controls = case.random_controls(n_envs)
        self._rollout_controls = np.ascontiguousarray(self.controls.transpose(2, 0, 1), dtype=np.float64)
        self._states = np.array([self._initial_state(i) for i in range(n_envs)])
        self._rollout_states = np.zeros((n_envs, ROLLOUT_STEPS, self._states.shape[1]))
        self._models, self._runner = [self.model] * n_envs, rollout.Rollout(nthread=threads if threads > 1 else 0)
        self.statistics = self.measure_statistics() if case.has_contacts else RolloutStatistics()
        self.bytes_per_env = float(self.datas[0].nbuffer + self.datas[0].maxuse_arena)

    def _initial_state(self, env: int) -> Array:
        """Full physics state of an environment (mjSTATE_FULLPHYSICS) at the start; set in the first `MjData`."""
        import mujoco

        data, state = self.datas[0], np.zeros(mujoco.mj_stateSize(self.model, self._state_spec))
        mujoco.mj_resetData(self.model, data)
        data.qpos[:], data.qvel[:] = (x[env % self.case.n_initial_states] for x in (self.case.qpos, self.case.qvel))
        mujoco.mj_getState(self.model, data, state, self._state_spec)
        return state

    def reset(self) -> None:
        """Does nothing: rollouts take their initial states as an argument."""

    def rollout(self) -> None:
        """Run one rollout of all environments."""
        self._runner.rollout(self._models, self.datas, self._states, self._rollout_controls, state=self._rollout_states)

    def measure_statistics(self) -> RolloutStatistics:
        """Statistics of a rollout from each initial state, step by step."""
        import mujoco

        found, first, data = RolloutStatistics(), [], self.datas[0]
        full = (mujoco.mjtWarning.mjWARN_CONTACTFULL, mujoco.mjtWarning.mjWARN_CNSTRFULL)
        for i in range(min(self.n_envs, self.case.n_initial_states)):
            self._initial_state(i)
            for t in range(ROLLOUT_STEPS):
                data.ctrl[:] = self.controls[t, :, i]
                mujoco.mj_step(self.model, data)
                found.contacts.append(data.ncon)
                found.iterations.append(float(data.solver_niter.sum()))
                found.max_rows = max(found.max_rows, data.nefc)
                if t == 0:
                    first.append(data.qvel.copy())
            found.overflows += any(data.warning[int(w)].number for w in full)
        found.first_step_velocities, found.max_contacts = np.array(first), int(max(found.contacts))
        return found

    def positions(self) -> Array:
        """Positions at the end of the last rollout, (environments, n_qs)."""
        return self._rollout_states[:, -1, 1 : 1 + self.model.nq]

    def is_finite(self) -> bool:
        """Whether all states of the rollout are finite."""
        return bool(np.isfinite(self._rollout_states).all())


def has_mujoco_warp() -> bool:
    """Whether MuJoCo Warp is installed."""
    return importlib.util.find_spec("mujoco_warp") is not None


class MujocoWarp:
    """MuJoCo Warp with all steps of a rollout, each with its own controls, in one CUDA graph."""

    name = "MuJoCo Warp"

    def __init__(self, case: BenchmarkCase, n_envs: int, device: str, reference_statistics: RolloutStatistics) -> None:
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
            contacts, rows = self._capacities(reference_statistics)
            self.batch: Any = mjw.put_data(case.mujoco_model, data, nworld=n_envs, nconmax=contacts, njmax=rows)
            self._step_controls = [wp.array(np.ascontiguousarray(c.T), dtype=wp.float32) for c in self.controls]
            qpos, qvel = case.initial_states(n_envs)
            self._initial_states = [wp.array(np.ascontiguousarray(x), dtype=wp.float32) for x in (qpos, qvel)]
            self.reset()
            self._step(0)
            wp.synchronize()
            self.build_seconds = time.perf_counter() - began
            self.bytes_per_env = (device_memory_in_use(device) - before) / n_envs
            self.statistics = self.measure_statistics() if case.has_contacts else RolloutStatistics()
            self._graph: Any = None
            if wp.get_device().is_cuda:
                with wp.ScopedCapture() as capture:
                    self._run_all_steps()
                self._graph = capture.graph

    def _capacities(self, reference: RolloutStatistics) -> tuple[int, int]:
        """Capacities for contacts and constraint rows: twice the maxima of MuJoCo C, or bounds without contacts."""
        if self.case.has_contacts:
            return 2 * reference.max_contacts + 16, 2 * reference.max_rows + 64
        model = self.case.mujoco_model
        return 1, 6 * model.neq + 3 * model.nv + 2 * model.ntendon + 1 if self.case.settings.constraints else 1

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

    def positions(self) -> Array:
        """Positions, (environments, n_qs)."""
        return self.batch.qpos.numpy().astype(np.float64)

    def is_finite(self) -> bool:
        """Whether all positions are finite."""
        return bool(np.isfinite(self.positions()).all())
