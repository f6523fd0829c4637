"""One simulator on a heap, in a process of its own: CPU times of build, first step and later steps, and peak memory.

Run as a script by `heap.py`, so that the process imports one simulator only; prints one JSON object.
"""

from __future__ import annotations

import json
import math
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
TIME_STEP = 0.004
"""Time step of the scene [s]."""


class HeapSimulator(Protocol):
    """A scene loaded by one of the simulators."""

    def step(self, count: int) -> None:
        """Advance the scene by time steps."""

    def state(self) -> tuple[Array, Array]:
        """Positions and velocities in MuJoCo's layout."""
        ...

    def set_state(self, qpos: Array, qvel: Array) -> None:
        """Set positions and velocities in MuJoCo's layout."""

    def n_contacts(self) -> int:
        """Number of contacts of the last step."""
        ...

    def overflowed(self) -> bool:
        """Whether contacts were lost for lack of memory."""
        ...

    def fraction_asleep(self) -> float:
        """Fraction of the objects that sleep."""
        ...

    def prepare(self) -> None:
        """Wait for optimised code."""

    def keep_model(self, file: Path) -> None:
        """Store the compiled model, if compiling it again would take long."""


COMPILED_SUFFIX = ".mjb"
"""Suffix of the file, beside that of the scene, in which MuJoCo's compiled model is kept: compiling 10,000 bodies takes
a minute and a half."""
PROGRESS_PREFIX = "progress: "
"""Start of lines of the standard error stream that say what the process does."""


class _KinemaHeap:
    def __init__(self, file: Path, *, sleep: bool) -> None:
        import kinema

        self.scene = kinema.Scene(sleep=sleep or None, quiet=True)
        self.entity = self.scene.add(kinema.read(file))
        self.scene.build(n_envs=1)

    def step(self, count: int) -> None:
        self.scene.step(count)

    def prepare(self) -> None:
        self.scene.prepare(wait=True)

    def keep_model(self, file: Path) -> None:
        pass

    def state(self) -> tuple[Array, Array]:
        return self.entity.get_qpos()[0].astype(np.float64), self.entity.get_qvel()[0].astype(np.float64)

    def set_state(self, qpos: Array, qvel: Array) -> None:
        self.entity.set_qpos(qpos)
        self.entity.set_qvel(qvel)

    def n_contacts(self) -> int:
        return int(self.scene.get_contacts().n[0])

    def overflowed(self) -> bool:
        return bool(self.scene.get_overflow_envs_mask()[0])

    def fraction_asleep(self) -> float:
        return float(self.scene.get_links_asleep().mean())


class _MujocoHeap:
    def __init__(self, file: Path, *, sleep: bool) -> None:
        import mujoco

        self.mujoco = mujoco
        compiled = file.with_suffix(COMPILED_SUFFIX)
        is_kept = compiled.exists()
        load = mujoco.MjModel.from_binary_path if is_kept else mujoco.MjModel.from_xml_path
        self.model: Any = load(str(compiled if is_kept else file))
        if sleep:
            self.model.opt.enableflags |= int(mujoco.mjtEnableBit.mjENBL_SLEEP)
        self.data: Any = mujoco.MjData(self.model)

    def step(self, count: int) -> None:
        self.mujoco.mj_step(self.model, self.data, count)

    def prepare(self) -> None:
        pass

    def keep_model(self, file: Path) -> None:
        self.mujoco.mj_saveModel(self.model, str(file.with_suffix(COMPILED_SUFFIX)), None)

    def state(self) -> tuple[Array, Array]:
        return self.data.qpos.copy(), self.data.qvel.copy()

    def set_state(self, qpos: Array, qvel: Array) -> None:
        self.data.qpos[:], self.data.qvel[:] = qpos, qvel

    def n_contacts(self) -> int:
        return int(self.data.ncon)

    def overflowed(self) -> bool:
        full = (self.mujoco.mjtWarning.mjWARN_CONTACTFULL, self.mujoco.mjtWarning.mjWARN_CNSTRFULL)
        return any(self.data.warning[int(w)].number for w in full)

    def fraction_asleep(self) -> float:
        return float((self.data.tree_asleep >= 0).mean())


SIMULATORS: dict[str, Callable[..., HeapSimulator]] = {"Kinema": _KinemaHeap, "MuJoCo C": _MujocoHeap}
N_FALLING_STEPS, N_TIMED_STEPS = 20, 50
"""Steps during which the objects fall freely, and steps that are timed at rest and asleep."""
SETTLING_TIME, N_STEPS_PER_CHECK = 4.0, 25
"""Duration after which the objects should rest [s], and steps between two looks at them."""
N_STEPS_FROM_REST = 25
"""Steps before the timed ones of a simulator that starts from a resting state of the other one."""
N_UNTIMED_STEPS, MAX_TIMED_DURATION = 5, 4.0
"""Steps from whose time the number of timed steps follows, and CPU time that timed steps may take [s]."""
MIN_FALLING_DURATION = 0.05
"""CPU time of the timed steps of falling objects [s]."""
RESTING_SPEED = 0.05
"""Speed below which an object counts as resting [m/s, rad/s]."""
N_STEPS_TO_SLEEP = 400
"""Steps within which resting objects fall asleep."""


def run_scene(engine: str, file: str, states: str, mode: str, budget: float, start: str = "") -> dict[str, Any]:
    """Figures of one process: times of build and first step, then of steps, unless the mode is "start".

    Args:
        engine: name of the simulator.
        file: the scene.
        states: file of the states at the end, written unless the mode is "sleep", which starts from them.
        mode: "steps", "sleep", or "start" for the first step only.
        budget: CPU time for settling or falling asleep [s].
        start: file of resting states from which on the objects settle, after the steps of falling; empty to let them
            fall until they rest.
    """
    _report("builds the scene")
    simulator = SIMULATORS[engine](Path(file), sleep=mode == "sleep")
    result: dict[str, Any] = {"build": _cpu_seconds(), "memory": 0.0}
    if mode == "sleep":
        loaded = np.load(states)
        simulator.set_state(loaded["qpos"], loaded["qvel"])
    simulator.step(1)
    result |= {"first_step": _cpu_seconds(), "memory": peak_memory_mib()}
    if mode == "start":
        simulator.keep_model(Path(file))
        return result
    simulator.prepare()
    if mode == "sleep":
        began, n_steps = time.process_time(), 0
        while n_steps < N_STEPS_TO_SLEEP and time.process_time() - began < budget:
            simulator.step(N_STEPS_PER_CHECK)
            n_steps += N_STEPS_PER_CHECK
            _report(f"falls asleep, {n_steps} steps, {simulator.fraction_asleep():.0%}")
        return result | {"sleeping": _time_steps(simulator, N_TIMED_STEPS), "asleep": simulator.fraction_asleep()}
    _report("times falling objects")
    result["falling"] = _time_falling(simulator)
    settled_s = _settle(simulator, start, budget) + (N_UNTIMED_STEPS + N_TIMED_STEPS) * TIME_STEP
    _report("times steps at rest")
    result |= {"resting": _time_steps(simulator, N_TIMED_STEPS), "settled_s": settled_s}
    qpos, qvel = simulator.state()
    simulator.step(1)
    np.savez(states, qpos=qpos, qvel=qvel, next_qvel=simulator.state()[1], settled_s=settled_s)
    if not start:
        simulator.keep_model(Path(file))
    return result | {
        "contacts": simulator.n_contacts(),
        "overflowed": simulator.overflowed(),
        "memory": peak_memory_mib(),
    }


def _settle(simulator: HeapSimulator, start: str, budget: float) -> float:
    """Step until the objects rest, or a few steps from the resting states of a file; return the simulated time [s]."""
    if start:
        loaded = np.load(start)
        simulator.set_state(loaded["qpos"], loaded["qvel"])
        simulator.step(N_STEPS_FROM_REST)
        return float(loaded["settled_s"]) + N_STEPS_FROM_REST * TIME_STEP
    began, n_steps = time.process_time(), N_FALLING_STEPS
    while n_steps * TIME_STEP < SETTLING_TIME and time.process_time() - began < budget:
        simulator.step(N_STEPS_PER_CHECK)
        n_steps += N_STEPS_PER_CHECK
        _report(f"settles, {n_steps * TIME_STEP:.1f} of {SETTLING_TIME:.0f} s")
    return n_steps * TIME_STEP


def _report(what: str) -> None:
    """Say what the process does."""
    print(PROGRESS_PREFIX + what, file=sys.stderr, flush=True)  # noqa: T201


def _time_falling(simulator: HeapSimulator) -> float:
    """Mean CPU time of a step while the objects fall freely [s].

    They fall again and again from the same state until `MIN_FALLING_DURATION`: steps of few objects take microseconds.
    The first step after a change of the state is not timed.
    """
    (qpos, qvel), count = simulator.state(), N_FALLING_STEPS - 2
    seconds, n_falls = 0.0, 0
    while not n_falls or seconds < MIN_FALLING_DURATION:
        simulator.set_state(qpos, qvel)
        simulator.step(1)
        began = time.process_time()
        simulator.step(count)
        seconds, n_falls = seconds + time.process_time() - began, n_falls + 1
    return seconds / (count * n_falls)


def _time_steps(simulator: HeapSimulator, count: int) -> float:
    """Mean CPU time of `count` steps after a few others [s], or of fewer if they would exceed `MAX_TIMED_DURATION`."""
    began = time.process_time()
    simulator.step(N_UNTIMED_STEPS)
    affordable = int(N_UNTIMED_STEPS * MAX_TIMED_DURATION / max(time.process_time() - began, 1e-9))
    n_steps, began = max(min(count, affordable), 1), time.process_time()
    simulator.step(n_steps)
    return (time.process_time() - began) / n_steps


def _cpu_seconds() -> float:
    """CPU time of this process and of its workers since the start of the process [s]."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def peak_memory_mib() -> float:
    """Peak resident memory of this process [MiB], from /proc (`getrusage` includes the parent); NaN if unavailable."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines()
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:"))
    except (OSError, StopIteration):
        return math.nan


if __name__ == "__main__":
    print(json.dumps(run_scene(*sys.argv[1:5], float(sys.argv[5]), sys.argv[6])))  # noqa: T201
