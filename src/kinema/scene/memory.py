"""The arrays of a running scene, read and written environments first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kinema.backend import torch_module
from kinema.sim import WEIGHING, Engine

from .batches import Index

SOL_PARAMS = (("solref", 2), ("solimp", 5))
"""What makes up the seven parameters of a soft constraint."""


class Memory:
    """An engine's arrays; on a CPU they are looked at in place, which makes a write as cheap as it can be."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.n_envs = engine.n_envs
        self.dtype = np.dtype(np.float32 if engine.precision == "single" else np.float64)
        self._views: dict[str, np.ndarray] = {}
        self._tensors: dict[str, Any] = {}
        self._constants: dict[object, Any] = {}
        arenas = (engine.state, engine.told, engine.uniform)
        self._sizes = {name: rows for arena in arenas for name, rows in arena.layout.rows.items()}

    def all(self, name: str) -> np.ndarray:
        """The whole array, (items, environments): the memory itself on a CPU, a copy from a GPU.

        Of numbers that environments share it has one column.
        """
        view = self._views.get(name)
        if view is not None:
            return view
        if self._sizes[name][1] == 0:
            return np.zeros((0, self.n_envs), self.dtype)
        array = self.engine.field(name).numpy()
        if self.engine.device.is_cpu:
            self._views[name] = array
        return array

    def read(self, name: str, items: slice | Index, envs: Index | None = None) -> np.ndarray:
        """A copy of some items, (environments, items)."""
        array = self.all(name)[items]
        if array.shape[1] != self.n_envs:
            array = np.broadcast_to(array, (len(array), self.n_envs))
        return np.array(array.T if envs is None else array[:, envs].T, order="C")

    def read_sol_params(self, kind: str, items: Index, envs: Index | None) -> np.ndarray:
        """`solref` and `solimp` of some items, (environments, items, 7)."""
        parts = []
        for name, width in SOL_PARAMS:
            rows = (width * items[:, None] + np.arange(width)).ravel()
            found = self.read(f"{kind}_{name}", rows, envs)
            parts.append(found.reshape(len(found), len(items), width))
        return np.concatenate(parts, axis=-1)

    def write_sol_params(self, kind: str, items: Index, values: np.ndarray, envs: Index | None) -> None:
        """Set them, from (environments, items, 7)."""
        start = 0
        for name, width in SOL_PARAMS:
            rows = (width * items[:, None] + np.arange(width)).ravel()
            own = values[..., start : start + width]
            self.write(f"{kind}_{name}", rows, own.reshape(len(own), -1), envs)
            start += width

    def has(self, name: str) -> bool:
        """Whether it is an array at all, and not folded into the program."""
        return bool(self._sizes.get(name, (0, 0))[1])

    def is_shared(self, name: str) -> bool:
        """Whether all environments have the same numbers."""
        return name in self.engine.uniform.layout.rows

    def write(self, name: str, items: slice | Index, values: np.ndarray, envs: Index | None = None) -> None:
        """Set some items from values of shape (environments, items)."""
        self.engine.touch()
        self.engine.masses_changed |= name in WEIGHING
        if self.engine.device.is_cpu:
            self._put(self.all(name), items, values, envs)
            if envs is None:
                self.engine.field(name).fill_up()
            return
        array = self.all(name).copy()
        self._put(array, items, values, envs)
        if array.size:
            self.engine.field(name).assign(array)

    @staticmethod
    def _put(array: np.ndarray, items: slice | Index, values: np.ndarray, envs: Index | None) -> None:
        if envs is None:
            array[items] = values.T
        else:
            rows = np.arange(len(array))[items]
            array[rows[:, None], envs] = values.T

    def source(self, name: str) -> Rows:
        """An array as something that getters can pick from."""
        return Rows(self, name)

    def there(self, index: Any) -> Any:
        """An index as a slice, or a tensor of the device that is made once."""
        index = compact(index)
        if not isinstance(index, np.ndarray):
            return index
        return self.constant(index)

    def constant(self, values: np.ndarray) -> Any:
        """Numbers as a tensor of the device, which is made once."""
        key = (values.dtype.str, values.shape, values.tobytes())
        if key not in self._constants:
            self._constants[key] = torch_module().as_tensor(values.copy(), device=self.engine.device.name)
        return self._constants[key]

    def tensor(self, name: str) -> Any:
        """The whole array as a PyTorch tensor on the same memory, (items, environments); it may be written through."""
        self.engine.touch()
        if name not in self._tensors:
            self._tensors[name] = self.engine.field(name).to_torch()
        return self._tensors[name]

    def on_device(self, name: str, items: slice | Index, values: Any, envs: Any) -> None:
        """Set some items from a PyTorch tensor on the same GPU, without a detour through the host."""
        self.engine.masses_changed |= name in WEIGHING
        target = self.tensor(name)
        values = values.detach().to(target.dtype)
        values = (values[None] if values.ndim < 2 else values).movedim(0, 1)
        if envs is None:
            target[self.there(items)] = values
            return
        rows, columns = self.there(np.arange(len(target))[items]), self.there(envs)
        if isinstance(rows, slice):
            target[rows][:, columns] = values
        else:
            target[rows[:, None], columns] = values


@dataclass(frozen=True, slots=True)
class Rows:
    """One array of a memory, to be picked from."""

    memory: Memory
    name: str

    def numpy(self) -> np.ndarray:
        """As NumPy: a view of the memory on a CPU, a copy from a GPU."""
        return self.memory.all(self.name)

    def to_torch(self) -> Any:
        """As a PyTorch tensor on the same memory."""
        return self.memory.tensor(self.name)


def compact(own: Any) -> Any:
    """A slice where an index is one, so that what it picks is the memory itself."""
    if isinstance(own, np.ndarray) and own.ndim == 1 and len(own) and own.dtype != np.bool_:
        first, count = int(own[0]), len(own)
        if (own == np.arange(first, first + count)).all():
            return slice(first, first + count)
    return own
