"""How a scene hands out its arrays: as copies, or as NumPy views or PyTorch tensors on its own memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from kinema.backend import share_stream, torch_module
from kinema.foundation import KinemaError

from .arguments import choice
from .batches import Index, environments
from .memory import Memory, compact

OUTPUTS = ("numpy", "view", "torch")
"""NumPy arrays that stay as they are; NumPy arrays on the memory itself; PyTorch tensors on the memory itself."""


class Source(Protocol):
    """A field of the engine: items, environments, and more where an item is a vector or a matrix."""

    def numpy(self) -> np.ndarray:
        """As NumPy: a view of the memory on a CPU, a copy from a GPU."""
        ...

    def to_torch(self) -> Any:
        """As a PyTorch tensor on the same memory."""
        ...


class Outputs:
    """What all getters of a scene end with."""

    def __init__(self, memory: Memory, kind: str = "numpy") -> None:
        self.memory = memory
        self.engine = memory.engine
        self.kind = "numpy"
        self.choose(kind)

    def choose(self, kind: str) -> None:
        """Hand out this kind from now on."""
        kind = choice(kind, "out", OUTPUTS)
        if kind == "view" and not self.engine.device.is_cpu:
            raise KinemaError('out: NumPy cannot look into the memory of a GPU; "torch" can')
        if kind == "torch":
            torch_module()
            share_stream(self.engine.device)
        self.kind = kind

    @property
    def copies(self) -> bool:
        """Whether what is handed out stays as it is."""
        return self.kind == "numpy"

    @property
    def on_device(self) -> bool:
        """Whether everything happens on a GPU."""
        return self.kind == "torch" and not self.engine.device.is_cpu

    def is_there(self, values: Any) -> bool:
        """Whether these are a tensor on the GPU that the scene is on."""
        return self._is_there(values) and (self.on_device or not self.engine.device.is_cpu)

    @staticmethod
    def _is_there(values: Any) -> bool:
        return bool(getattr(values, "is_cuda", False))

    def envs(self, envs_idx: Any) -> Any:
        """The environments meant; None for all. Tensors on the GPU stay there."""
        if self.on_device and self.is_there(envs_idx):
            return envs_idx.nonzero().flatten() if str(envs_idx.dtype) == "torch.bool" else envs_idx
        return environments(envs_idx, self.engine.n_envs)

    def pick(self, source: Source, own: slice | Index, envs: Any = None) -> Any:
        """Some items of some environments, (n_envs, items, ...), from (items, n_envs, ...)."""
        if self.on_device:
            values = source.to_torch()[self.memory.there(own)].movedim(1, 0)
            return values if envs is None else values[self.memory.there(envs)]
        values = np.moveaxis(source.numpy()[compact(own)], 1, 0)
        if len(values) != self.engine.n_envs:  # what all share
            values = np.broadcast_to(values, (self.engine.n_envs, *values.shape[1:]))
        return self.hand(values if envs is None else values[envs])

    def hand(self, values: np.ndarray) -> Any:
        """NumPy's as what is asked for."""
        if self.kind == "numpy":
            return np.array(values, order="C")
        if self.kind == "view":
            return values
        return torch_module().from_numpy(values if values.flags.writeable else values.copy())

    def new(self, values: np.ndarray) -> Any:
        """NumPy's that nobody else has, as what is asked for."""
        return torch_module().from_numpy(values) if self.kind == "torch" else values

    def square(self, source: Source, own: slice, envs: Any = None) -> Any:
        """A part on the diagonal of matrices, (n_envs, n, n), from (items, items, n_envs)."""
        if self.on_device:
            values = source.to_torch()[own, own].movedim(2, 0)
            return values if envs is None else values[self.memory.there(envs)]
        values = np.moveaxis(source.numpy()[own, own], 2, 0)
        return self.hand(values if envs is None else values[envs])


def stacked(parts: Sequence[Any]) -> Any:
    """Arrays of the same shape as one, NumPy's or PyTorch's."""
    return np.stack(parts) if isinstance(parts[0], np.ndarray) else torch_module().stack(list(parts))
