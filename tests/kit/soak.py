"""Long runs of random commands: what is no number, what is beyond its limits, what sinks, and memory that grows."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from kinema.apps.bench import BenchmarkCase, KinemaRollout, KinemaSimulator

CHUNK = 20
"""Steps of one launch, as the rollouts of benchmarks have."""
LIFE = 1_000
"""Steps after which all environments start again: a cube that has fallen beside its hand is in it again."""
LOOKED_AT = 32
"""Environments of which MuJoCo finds the depth of contacts, after every `LOOK` launches."""
LOOK = 10
GROWTH = 8.0
"""What memory may grow by after the first tenth of a run [MiB]."""


@dataclass(slots=True)
class Worst:
    """The worst of what was seen."""

    beyond_limits: float = 0.0
    """How far a joint was beyond its limits [rad or m]."""
    depth: float = 0.0
    """How deep a contact was, by MuJoCo [m]."""

    def see(self, case: BenchmarkCase, data: Any, qpos: np.ndarray) -> None:
        """Look at coordinates, (environments, coordinates): limits of all of them, contacts of some."""
        model = case.mujoco_model
        limited = model.jnt_limited.astype(bool) & (model.jnt_type >= int(mujoco.mjtJoint.mjJNT_SLIDE))
        if limited.any():
            values, (lower, upper) = qpos[:, model.jnt_qposadr[limited]], model.jnt_range[limited].T
            beyond = float(np.maximum(lower - values, values - upper).max())
            self.beyond_limits = max(self.beyond_limits, beyond)
        for row in qpos[:LOOKED_AT]:
            data.qpos[:] = row
            mujoco.mj_kinematics(model, data)
            mujoco.mj_comPos(model, data)
            mujoco.mj_collision(model, data)
            if data.ncon:
                self.depth = max(self.depth, -float(data.contact.dist.min()))


@dataclass(slots=True)
class Soaked:
    """What a long run came to."""

    name: str
    env_steps: int = 0
    seconds: float = 0.0
    broken: int = 0
    """Environments that were flagged, or not finite, added up over looks."""
    overflows: int = 0
    ours: Worst = field(default_factory=Worst)
    theirs: Worst = field(default_factory=Worst)
    growth: float = 0.0
    """Of memory, after the first tenth [MiB]."""

    @property
    def faults(self) -> list[str]:
        """What is wrong; joints and contacts are held to what MuJoCo's do under such commands."""
        found = []
        if self.broken:
            found.append(f"{self.broken} environments broke")
        if self.ours.beyond_limits > 2.0 * self.theirs.beyond_limits + 0.05:
            found.append(f"a joint was {self.ours.beyond_limits:.3g} beyond its limits")
        if self.ours.depth > 2.0 * self.theirs.depth + 0.005:
            found.append(f"something sank by {1e3 * self.ours.depth:.3g} mm")
        if self.growth > GROWTH:
            found.append(f"memory grew by {self.growth:.1f} MiB")
        return found


Progress = Callable[[Soaked, float], None]
"""Called now and then with what was found so far, and which share of the run that is."""


def soak(case: BenchmarkCase, n_envs: int, env_steps: int, device: str, progress: Progress = lambda *_: None) -> Soaked:
    """Run so many environment-steps, and look on the way."""
    found, data = Soaked(case.name), mujoco.MjData(case.mujoco_model)
    _look_at_theirs(case, found.theirs, data)
    ours = KinemaSimulator(case, n_envs, device)
    rollout = KinemaRollout(ours, single_launch=True)
    rounds, lives = max(1, env_steps // (n_envs * CHUNK)), LIFE // CHUNK
    first, began = 0.0, time.perf_counter()
    for i in range(rounds):
        if i % lives == 0:
            found.overflows += _overflows(ours) if i else 0
            rollout.reset()
        _tell(ours, seed=i)
        rollout.rollout()
        found.env_steps += n_envs * CHUNK
        qpos = np.array(ours.engine.array_view("qpos").numpy(), dtype=np.float64).T
        sound = np.isfinite(qpos).all(axis=1) & ~ours.engine.array_view("error").numpy().any(axis=0)
        found.broken += int((~sound).sum())
        if i % LOOK == LOOK - 1 or i == rounds - 1:
            found.ours.see(case, data, np.roll(qpos[sound], -i, axis=0))
            progress(found, (i + 1) / rounds)
        if i == rounds // 10:
            first = _mebibytes()
    found.overflows += _overflows(ours)
    found.seconds, found.growth = time.perf_counter() - began, _mebibytes() - first
    return found


def _tell(ours: KinemaSimulator, seed: int) -> None:
    """New random commands for the steps of a launch."""
    ours.set_controls(ours.case.random_controls(ours.n_envs, CHUNK, seed))


def _look_at_theirs(case: BenchmarkCase, worst: Worst, data: Any, steps: int = 300) -> None:
    """What MuJoCo's joints and contacts do, from the same states, under such commands."""
    running = mujoco.MjData(case.mujoco_model)
    controls = case.random_controls(case.n_initial_states, steps, seed=2)
    for i in range(0, case.n_initial_states, max(1, case.n_initial_states // 16)):
        mujoco.mj_resetData(case.mujoco_model, running)
        running.qpos[:], running.qvel[:] = case.qpos[i], case.qvel[i]
        for t in range(steps):
            running.ctrl[:] = controls[t, :, i]
            mujoco.mj_step(case.mujoco_model, running)
            if t % CHUNK == CHUNK - 1:
                worst.see(case, data, running.qpos[None])


def _overflows(ours: KinemaSimulator) -> int:
    return int((ours.engine.array_view("max_required_capacity").numpy() > 0).sum())


def _mebibytes() -> float:
    """Memory that this process has now, where the system tells; else 0."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines()
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS:"))
    except (OSError, StopIteration):
        return 0.0
