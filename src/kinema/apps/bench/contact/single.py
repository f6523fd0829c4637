"""One environment alone on a CPU, with things that touch."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from kinema.backend import find_device
from kinema.sim import Engine

from .case import TouchCase

CALLS = 40
"""Calls from each state to start from, of which there are `STATES`."""
STATES = 8


def single_touching(case: TouchCase, seconds: float = 1.0) -> dict[str, float]:
    """Steps a second of CPU time, called one by one and ten at a time, and MuJoCo C's; commands are held."""
    import mujoco

    engine = Engine(case.model, case.settings, 1, find_device("cpu"), lanes=1, threads=1)
    engine.prepare()
    data = mujoco.MjData(case.peer)
    commands = case.commands(STATES)[0]

    def put_ours(i: int) -> None:
        engine.reset()
        engine.field("qpos").assign(case.qpos[i][:, None])
        engine.field("vel").assign(case.qvel[i][:, None])
        if case.model.n_actuators:
            engine.field("ctrl").assign(commands[:, i : i + 1])

    def put_theirs(i: int) -> None:
        mujoco.mj_resetData(case.peer, data)
        data.qpos[:], data.qvel[:], data.ctrl[:] = case.qpos[i], case.qvel[i], commands[:, i]

    def theirs(count: int) -> None:
        mujoco.mj_step(case.peer, data, count)

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
            best[name] = min(best[name], _time(put, step, count))
    return {name: STATES * CALLS / took for name, took in best.items()}


def _time(put: Callable[[int], None], step: Callable[[int], None], count: int) -> float:
    """CPU time of `CALLS` steps from each state, so many in one call [s]."""
    took = 0.0
    for i in range(STATES):
        put(i)
        began = time.process_time()
        for _ in range(CALLS // count):
            step(count)
        took += time.process_time() - began
    return took
