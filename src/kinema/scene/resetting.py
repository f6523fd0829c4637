"""Back to the start on a GPU, where a policy says which environments are done: nothing goes through the host."""

from __future__ import annotations

from typing import Any

import numpy as np

from kinema.backend import torch_module
from kinema.sim import ARRAYS, Use, start_of

from .keyframes import State
from .running import Running


def reset_on_device(running: Running, envs_idx: Any, state: State | None = None) -> None:
    """State and commands of some environments as at the start, or in a keyframe; a mask is not even counted."""
    engine = running.engine
    engine.touch()
    for name, values in _first(running, state).items():
        _put(running, name, values, envs_idx)


def _first(running: Running, state: State | None) -> dict[str, np.ndarray]:
    """What everything begins with: arrays (items, 1), or (items, n_envs) where environments differ."""
    model, settings = running.model, running.engine.settings
    first = {info.name: start_of(info, model, settings) for info in ARRAYS if info.use is Use.STATE}
    if state is None:
        first |= running.controls.first_commands()
    else:
        first |= {"qpos": state.qpos[:, None], "vel": state.qvel[:, None], "act": state.act[:, None]}
        first |= running.controls.first_commands(None, state.qpos, state.ctrl)
    if settings.external_forces:
        first |= {name: np.zeros((3 * model.n_links, 1)) for name in ("cfrc_applied_ang", "cfrc_applied_vel")}
    return {name: values.astype(running.memory.dtype) for name, values in first.items() if running.memory.has(name)}


def _put(running: Running, name: str, start: np.ndarray, envs_idx: Any) -> None:
    torch = torch_module()
    target, first = running.engine.field(name).to_torch(), running.memory.constant(start)
    if envs_idx.dtype == torch.bool:
        torch.where(envs_idx, first, target, out=target)
    elif first.shape[1] == 1:
        target[:, envs_idx] = first.expand(-1, len(envs_idx))
    else:
        target[:, envs_idx] = first[:, envs_idx]
