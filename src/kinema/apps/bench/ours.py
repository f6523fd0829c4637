"""This simulator under test."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kinema.backend import find_device, n_threads, synchronise
from kinema.sim import Engine

from .case import STEPS, Case, load


@dataclass(frozen=True, slots=True)
class Figures:
    """What was measured of one simulator on one case."""

    simulator: str
    n_envs: int
    rate: float
    """Environment-steps a second."""
    error: float
    """Greatest difference of a coordinate from MuJoCo C in float64, after one rollout."""
    finite: bool
    bytes_per_env: float
    build_seconds: float
    """Tracing and compiling, or loading what was compiled before."""


def fastest(call: Callable[[], None], finish: Callable[[], None], seconds: float) -> float:
    """The shortest of several calls, which together take about so long [s]; on an idle machine it is the true one."""
    best = float("inf")
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        call()
        finish()
        best = min(best, time.perf_counter() - start)
    return best


def measure(
    case: Case,
    n_envs: int,
    device: str,
    *,
    one_launch: bool,
    threads: int | None = None,
    precision: str = "single",
    roles: int | None = None,
    seconds: float = 1.0,
) -> Figures:
    """Rollouts of random commands: all steps in one launch, or a launch for each step (in a CUDA graph on a GPU)."""
    start = time.perf_counter()
    engine = Engine(
        case.model, case.settings, n_envs, find_device(device), precision=precision, threads=threads, roles=roles
    )
    engine.prepare()
    build_seconds = time.perf_counter() - start
    commands = case.commands(n_envs)
    sequence = engine.sequence(STEPS)
    for t in range(STEPS):
        sequence.field(f"ctrl {t}").assign(commands[t])
    call = engine.rollout(sequence, one_launch=one_launch)

    def finish() -> None:
        synchronise(engine.device)

    engine.reset()
    call()
    finish()
    error = _error(case, engine, commands)
    best = fastest(call, finish, seconds)
    finite = bool(np.isfinite(engine.field("qpos").numpy()).all() and not engine.field("error").numpy().any())
    size = 4 if precision == "single" else 8
    rows = engine.state.layout.n_rows + engine.told.layout.n_rows
    name = "Kinema, rollout" if one_launch else "Kinema, step by step"
    if engine.device.is_cpu:
        name += f", {threads or n_threads()} cores" if threads != 1 else ", one core"
    return Figures(name, n_envs, n_envs * STEPS / best, error, finite, rows * size, build_seconds)


def _error(case: Case, engine: Engine, commands: np.ndarray) -> float:
    """Against MuJoCo C, in float64, on a few environments."""
    import mujoco

    ours = engine.field("qpos").numpy()
    data = mujoco.MjData(case.peer)
    worst = 0.0
    for env in {0, engine.n_envs // 2, engine.n_envs - 1}:
        mujoco.mj_resetData(case.peer, data)
        data.qpos[:] = case.model.qpos0
        for t in range(STEPS):
            data.ctrl[:] = commands[t, :, env]
            mujoco.mj_step(case.peer, data)
        worst = max(worst, float(np.abs(data.qpos - ours[:, env]).max()))
    return worst


def single_environment(file: Path, seconds: float = 1.0, *, free: bool = False) -> dict[str, float]:
    """One environment on a CPU: steps a second called one by one and ten at a time, and MuJoCo C's."""
    import mujoco

    case = load(file, free=free)
    engine = Engine(case.model, case.settings, 1, find_device("cpu"), lanes=1)
    engine.prepare()
    data = mujoco.MjData(case.peer)
    loops = 500

    def repeat(call: Callable[[], None]) -> Callable[[], None]:
        def run() -> None:
            for _ in range(loops):
                call()

        return run

    def nothing() -> None:
        pass

    return {
        "step": loops / fastest(repeat(engine.step), nothing, seconds),
        "step(10)": 10 * loops / fastest(repeat(lambda: engine.step(10)), nothing, seconds),
        "mj_step": loops / fastest(repeat(lambda: mujoco.mj_step(case.peer, data)), nothing, seconds),
        "mj_step(10)": 10 * loops / fastest(repeat(lambda: mujoco.mj_step(case.peer, data, 10)), nothing, seconds),
    }
