"""Memory: arenas of named arrays, environments side by side."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kinema.trace import UNIFORM, Place

from .devices import Device, numpy_type, torch_module, warp

BLOCK = 32
"""Environments are allocated in multiples of this, so that vectors of any width, and warps, stay inside an array."""
PAGE = 1024
WIDEST = 16
"""Environments in a vector, at most."""


def padded(n_envs: int, device: Device) -> int:
    """The distance between rows: room for whole vectors, and on a CPU not a power of two, which caches dislike."""
    stride = -(-n_envs // BLOCK) * BLOCK
    if device.is_cpu and stride >= PAGE:
        stride += 16 + (-stride) % 16
    return stride


@dataclass(slots=True)
class Layout:
    """The arrays of an arena: name -> first row and number of rows."""

    name: str
    rows: dict[str, tuple[int, int]] = field(default_factory=dict)
    n_rows: int = 0

    @classmethod
    def of(cls, name: str, arrays: Iterable[tuple[str, int]]) -> Layout:
        """Arrays one after the other."""
        layout = cls(name)
        for array, count in arrays:
            layout.rows[array] = (layout.n_rows, count)
            layout.n_rows += count
        return layout

    def places(self) -> dict[str, Place]:
        """For the emitter."""
        return {array: Place(self.name, row) for array, (row, _) in self.rows.items()}


class Arena:
    """One allocation that holds all arrays of a layout, shape (rows, stride).

    Numbers that all environments share are an arena of one environment, without a distance between rows.
    """

    def __init__(self, layout: Layout, n_envs: int, device: Device, precision: str) -> None:
        self.layout = layout
        self.device = device
        self.precision = precision
        shared = layout.name == UNIFORM
        self.n_envs = 1 if shared else n_envs
        self.stride = 1 if shared else padded(n_envs, device)
        self.dtype = np.dtype(numpy_type(precision))
        rows = max(layout.n_rows, 1)
        shape = (rows,) if shared else (rows, self.stride)
        self.data = device.zeros(shape, precision, f"{n_envs:,} environments, their {layout.name} arrays")

    def field(self, array: str) -> Field:
        """One of its arrays."""
        return self.rows(*self.layout.rows[array])

    def rows(self, start: int, count: int) -> Field:
        """Some of its rows, of one array or of several that lie side by side."""
        if not count:  # there are no empty slices of Warp's arrays
            return Field(np.zeros((0, self.stride), self.dtype), self.n_envs)
        rows = self.data[start : start + count]
        return Field(rows.reshape((count, 1)) if rows.ndim == 1 else rows, self.n_envs)


class Field:
    """A flat array of the model's state: items by environments."""

    def __init__(self, data: Any, n_envs: int) -> None:
        self._data = data
        self._n_envs = n_envs
        self._on_host = isinstance(data, np.ndarray)

    @property
    def shape(self) -> tuple[int, int]:
        """Items, environments."""
        return int(self._data.shape[0]), self._n_envs

    @property
    def is_on_host(self) -> bool:
        """Whether NumPy can look into the memory."""
        return self._on_host

    @property
    def warp(self) -> Any:
        """As a Warp array, without a copy."""
        data = self._data
        if self._on_host:
            wp = warp()
            dtype = wp.float32 if data.dtype == np.float32 else wp.float64
            data = wp.array(data, dtype=dtype, copy=False, device="cpu")
        return data[:, : self._n_envs]

    def numpy(self) -> np.ndarray:
        """As NumPy: a view of the memory on a CPU, a copy from a GPU."""
        return (self._data if self._on_host else self._data.numpy())[:, : self._n_envs]

    def to_torch(self) -> Any:
        """As a PyTorch tensor on the same memory."""
        torch = torch_module()
        whole = torch.from_numpy(self._data) if self._on_host else warp().to_torch(self._data)
        return whole[:, : self._n_envs]

    def __dlpack__(self, **how: Any) -> Any:
        """For whoever takes arrays by DLPack: `numpy.from_dlpack`, `torch.from_dlpack`, `jax.dlpack.from_dlpack`."""
        return self._shared().__dlpack__(**how)

    def __dlpack_device__(self) -> Any:
        """Where the memory is, for the same."""
        return self._shared().__dlpack_device__()

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """For those who know NumPy's protocol; on a CPU only."""
        if not self._on_host:
            raise AttributeError("__array_interface__")
        return self.numpy().__array_interface__

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """For those who know Numba's protocol (CuPy, PyTorch); on a GPU only."""
        if self._on_host:
            raise AttributeError("__cuda_array_interface__")
        return self.warp.__cuda_array_interface__

    def _shared(self) -> Any:
        return self.numpy() if self._on_host else self.warp

    def fill_up(self) -> None:
        """Let what fills up the last vector be as the last environment is, on a CPU: it stays as it is put.

        Else it would be all zeros: everything in one place, where all pairs are near, and the vector looks at them.
        """
        if self._on_host and self._data.shape[1] > self._n_envs:
            self._data[:, self._n_envs : self._n_envs + WIDEST] = self._data[:, self._n_envs - 1 : self._n_envs]

    def assign(self, values: np.ndarray | float, envs: Any = None) -> None:
        """Write all environments, or some, from NumPy: (items, environments)."""
        chosen = slice(None) if envs is None else envs
        if self._on_host:
            self.numpy()[:, chosen] = values
            if envs is None:
                self.fill_up()
            return
        host = self._data.numpy()
        host[:, : self._n_envs][:, chosen] = values
        self._data.assign(host)
