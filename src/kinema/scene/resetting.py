"""Back to the start on a GPU, where a policy says which environments are done: nothing goes through the host."""

from __future__ import annotations

from typing import Any

import numpy as np

from kinema.backend import torch_module
from kinema.sim import ARRAYS, Use, start_of

from .running import Running


def reset_on_device(running: Running, envs_idx: Any) -> None:
    """State and commands of some environments as they were at the start; a mask is not even counted."""
    engine = running.engine
    engine.touch()
    for info in ARRAYS:
        if info.use is Use.STATE and running.memory.has(info.name):
            start = start_of(info, running.model, engine.settings)
            _put(running, info.name, start.astype(running.memory.dtype), envs_idx)
    for name, values in running.controls.first_commands().items():
        if running.memory.has(name):
            _put(running, name, values.astype(running.memory.dtype), envs_idx)


def _put(running: Running, name: str, start: np.ndarray, envs_idx: Any) -> None:
    torch = torch_module()
    target, first = running.engine.field(name).to_torch(), running.memory.constant(start)
    if envs_idx.dtype == torch.bool:
        target.copy_(torch.where(envs_idx, first, target))
    else:
        target[:, envs_idx] = first.expand(-1, len(envs_idx))
