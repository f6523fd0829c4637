"""The peers under test: MuJoCo C on one core and on all, MuJoCo Warp."""

from __future__ import annotations

import importlib.util
import time
from typing import Any

import numpy as np

from kinema.backend import n_threads

from .case import STEPS, Case
from .ours import Figures, fastest

MUJOCO_ENVS = 256
"""As many environments as MuJoCo C is given: its rate does not depend on it."""


def mujoco_c(case: Case, threads: int, seconds: float = 1.0) -> Figures:
    """MuJoCo C through its own rollout, on one core or several."""
    import mujoco
    from mujoco import rollout

    n_envs = MUJOCO_ENVS * threads
    commands = np.ascontiguousarray(case.commands(n_envs).transpose(2, 0, 1), dtype=np.float64)
    datas = [mujoco.MjData(case.peer) for _ in range(threads)]
    start = mujoco.mj_stateSize(case.peer, mujoco.mjtState.mjSTATE_FULLPHYSICS)
    state = np.zeros(start)
    mujoco.mj_getState(case.peer, datas[0], state, mujoco.mjtState.mjSTATE_FULLPHYSICS)
    states = np.tile(state, (n_envs, 1))
    out = np.zeros((n_envs, STEPS, start))
    with rollout.Rollout(nthread=threads if threads > 1 else 0) as runner:
        best = fastest(
            lambda: runner.rollout([case.peer] * n_envs, datas, states, commands, state=out) and None,
            lambda: None,
            seconds,
        )
    finite = bool(np.isfinite(out).all())
    name = "MuJoCo C, one core" if threads == 1 else f"MuJoCo C, {threads} cores"
    return Figures(name, n_envs, n_envs * STEPS / best, 0.0, finite, start * 8, 0.0)


def all_cores() -> int:
    """Cores that MuJoCo C may use."""
    return n_threads()


def has_mujoco_warp() -> bool:
    """Whether MuJoCo Warp is installed."""
    return importlib.util.find_spec("mujoco_warp") is not None


def mujoco_warp(case: Case, n_envs: int, device: str, seconds: float = 1.0) -> Figures:
    """MuJoCo Warp: one CUDA graph with all steps, each with its own commands."""
    import mujoco
    import mujoco_warp as mjw  # pyright: ignore[reportMissingImports]
    import warp as wp

    commands = case.commands(n_envs)
    with wp.ScopedDevice(device):
        start = time.perf_counter()
        data = mujoco.MjData(case.peer)
        mujoco.mj_forward(case.peer, data)
        model = mjw.put_model(case.peer)
        most = 6 * case.peer.neq + 3 * case.peer.nv + 2 * case.peer.ntendon + 1
        batch = mjw.put_data(case.peer, data, nworld=n_envs, njmax=1 if case.free else most, nconmax=1)
        told = [wp.array(np.ascontiguousarray(c.T), dtype=wp.float32) for c in commands]

        def rollout() -> None:
            for ctrl in told:
                wp.copy(batch.ctrl, ctrl)
                mjw.step(model, batch)

        wp.copy(batch.ctrl, told[0])
        mjw.step(model, batch)
        wp.synchronize()
        build_seconds = time.perf_counter() - start
        if not wp.get_device().is_cuda:
            best = fastest(rollout, wp.synchronize, seconds)
        else:
            with wp.ScopedCapture() as capture:
                rollout()
            graph: Any = capture.graph
            best = fastest(lambda: wp.capture_launch(graph), wp.synchronize, seconds)
        finite = bool(np.isfinite(batch.qpos.numpy()).all())
    return Figures("MuJoCo Warp", n_envs, n_envs * STEPS / best, float("nan"), finite, float("nan"), build_seconds)
