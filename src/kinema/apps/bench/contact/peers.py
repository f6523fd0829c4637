"""The peers with things that touch: MuJoCo C on one core, MuJoCo Warp."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from .case import STEPS, TouchCase
from .figures import Counts, device_bytes


class MujocoC:
    """MuJoCo C through its own rollout, on one core."""

    name = "MuJoCo C, one core"
    build_seconds = 0.0

    def __init__(self, case: TouchCase, n_envs: int) -> None:
        import mujoco
        from mujoco import rollout

        self.case, self.n_envs, self.model = case, n_envs, case.peer
        self._kind = mujoco.mjtState.mjSTATE_FULLPHYSICS
        self.data = mujoco.MjData(self.model)
        self.commands = case.commands(n_envs)
        self._told = np.ascontiguousarray(self.commands.transpose(2, 0, 1), dtype=np.float64)
        self._states = np.array([self._state(i) for i in range(n_envs)])
        self._out = np.zeros((n_envs, STEPS, self._states.shape[1]))
        self._models, self._runner = [self.model] * n_envs, rollout.Rollout(nthread=0)
        self.counts = self.counted()
        self.bytes_per_env = float(self.data.nbuffer + self.data.maxuse_arena)

    def _state(self, i: int) -> np.ndarray:
        """As the rollout takes it."""
        import mujoco

        mujoco.mj_resetData(self.model, self.data)
        self.data.qpos[:], self.data.qvel[:] = (x[i % self.case.n_starts] for x in (self.case.qpos, self.case.qvel))
        state = np.zeros(mujoco.mj_stateSize(self.model, self._kind))
        mujoco.mj_getState(self.model, self.data, state, self._kind)
        return state

    def start(self) -> None:
        """A rollout starts where it is told."""

    def run(self) -> None:
        """One rollout, to its end."""
        self._runner.rollout(self._models, [self.data], self._states, self._told, state=self._out)

    def counted(self) -> Counts:
        """A rollout of one environment for each state to start from."""
        import mujoco

        found, first = Counts(), []
        full = (mujoco.mjtWarning.mjWARN_CONTACTFULL, mujoco.mjtWarning.mjWARN_CNSTRFULL)
        for i in range(min(self.n_envs, self.case.n_starts)):
            self._state(i)
            for t in range(STEPS):
                self.data.ctrl[:] = self.commands[t, :, i]
                mujoco.mj_step(self.model, self.data)
                found.contacts.append(self.data.ncon)
                found.iterations.append(float(self.data.solver_niter.sum()))
                found.most_rows = max(found.most_rows, self.data.nefc)
                if t == 0:
                    first.append(self.data.qvel.copy())
            found.overflows += any(self.data.warning[int(w)].number for w in full)
        found.first, found.most_contacts = np.array(first), int(max(found.contacts))
        return found

    def is_finite(self) -> bool:
        """Whether all states on the way are."""
        return bool(np.isfinite(self._out).all())


class MujocoWarp:
    """MuJoCo Warp: one CUDA graph with all steps, each with its own commands."""

    name = "MuJoCo Warp"

    def __init__(self, case: TouchCase, n_envs: int, device: str, room: Counts) -> None:
        import mujoco
        import mujoco_warp as mjw  # pyright: ignore[reportMissingImports]
        import warp as wp

        self.case, self.n_envs, self.device, self._mjw, self._wp = case, n_envs, device, mjw, wp
        self.commands = case.commands(n_envs)
        before, began = device_bytes(device), time.perf_counter()
        with wp.ScopedDevice(device):
            data = mujoco.MjData(case.peer)
            mujoco.mj_forward(case.peer, data)
            self.model = mjw.put_model(case.peer)
            contacts, rows = 2 * room.most_contacts + 16, 2 * room.most_rows + 64  # twice what MuJoCo C was seen with
            self.batch: Any = mjw.put_data(case.peer, data, nworld=n_envs, nconmax=contacts, njmax=rows)
            self._told = [wp.array(np.ascontiguousarray(c.T), dtype=wp.float32) for c in self.commands]
            qpos, qvel = case.starts(n_envs)
            self._starts = [wp.array(np.ascontiguousarray(x), dtype=wp.float32) for x in (qpos, qvel)]
            self.start()
            self._step(0)
            wp.synchronize()
            self.build_seconds = time.perf_counter() - began
            self.bytes_per_env = (device_bytes(device) - before) / n_envs
            self.counts = self.counted()
            self._graph: Any = None
            if wp.get_device().is_cuda:
                with wp.ScopedCapture() as capture:
                    self._all_steps()
                self._graph = capture.graph

    def start(self) -> None:
        """All environments into the states to start from."""
        batch, wp = self.batch, self._wp
        with wp.ScopedDevice(self.device):
            for array, value in zip((batch.qpos, batch.qvel), self._starts, strict=True):
                wp.copy(array, value)
            for array in (batch.qacc_warmstart, batch.overflow, batch.act):
                array.zero_()
            wp.synchronize()

    def _step(self, t: int) -> None:
        if self.case.peer.nu:
            self._wp.copy(self.batch.ctrl, self._told[t])
        self._mjw.step(self.model, self.batch)

    def _all_steps(self) -> None:
        for t in range(STEPS):
            self._step(t)

    def run(self) -> None:
        """One rollout, to its end."""
        with self._wp.ScopedDevice(self.device):
            if self._graph is None:
                self._all_steps()
            else:
                self._wp.capture_launch(self._graph)
            self._wp.synchronize()

    def counted(self) -> Counts:
        """One rollout, step by step."""
        found, batch = Counts(), self.batch
        self.start()
        with self._wp.ScopedDevice(self.device):
            for t in range(STEPS):
                self._step(t)
                found.contacts.append(float(batch.nacon.numpy()[0]) / self.n_envs)
                found.iterations.append(float(batch.solver_niter.numpy().mean()))
                if t == 0:
                    found.first = batch.qvel.numpy().astype(np.float64)
            found.overflows = int((batch.overflow.numpy() != 0).sum())
        return found

    def is_finite(self) -> bool:
        """Whether all coordinates are, after a rollout."""
        return bool(np.isfinite(self.batch.qpos.numpy()).all())
