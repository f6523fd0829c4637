"""How good a step is, by MuJoCo C in double precision; the same measure for every simulator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .case import TouchCase


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Of one step from each of the states to start from."""

    error: float
    """Difference of velocities from those of a step that is solved to the end, against their change; median."""
    error_99: float
    """The same, of the hundredth part that is worst."""
    residual: float
    """Forces that are missing in the equations of motion, against those of contacts and constraints; median."""


def accuracy(case: TouchCase, velocities: np.ndarray, commands: np.ndarray) -> Accuracy:
    """From velocities after one step, (environments, dofs), and what was told, (actuators, environments)."""
    import mujoco

    exact = case.exact()
    exact.opt.enableflags |= int(mujoco.mjtEnableBit.mjENBL_INVDISCRETE)
    data = mujoco.MjData(exact)
    errors, residuals = [], []
    for i in range(min(case.n_starts, len(velocities))):
        before = case.qvel[i]
        _put(case, data, i, commands)
        mujoco.mj_step(exact, data)
        change = np.abs(data.qvel - before).max()
        errors.append(np.abs(velocities[i] - data.qvel).max() / max(change, 1e-9))
        _put(case, data, i, commands)
        mujoco.mj_forward(exact, data)
        told, held = data.qfrc_actuator.copy(), np.linalg.norm(data.qfrc_constraint)
        data.qacc[:] = (velocities[i] - before) / exact.opt.timestep
        mujoco.mj_inverse(exact, data)
        residuals.append(np.linalg.norm(data.qfrc_inverse - told) / max(held, 1e-9))
    worst = float(np.percentile(errors, 99))
    return Accuracy(float(np.median(errors)), worst, float(np.median(residuals)))


def _put(case: TouchCase, data: Any, i: int, commands: np.ndarray) -> None:
    import mujoco

    mujoco.mj_resetData(case.exact(), data)
    data.qpos[:], data.qvel[:] = case.qpos[i], case.qvel[i]
    data.ctrl[:] = commands[:, i]
