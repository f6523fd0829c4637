"""Memory: arenas of named arrays, environments side by side."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kinema.foundation import KinemaError
from kinema.trace import Place

from .devices import Device, warp

BLOCK = 32
"""Environments are allocated in multiples of this, so that vectors of any width, and warps, stay inside an array."""
PAGE = 1024


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
    """One allocation that holds all arrays of a layout, shape (rows, stride)."""

    def __init__(self, layout: Layout, n_envs: int, device: Device, precision: str) -> None:
        self.layout = layout
        self.n_envs = n_envs
        self.device = device
        self.precision = precision
        self.stride = padded(n_envs, device)
        wp = warp()
        dtype = wp.float32 if precision == "single" else wp.float64
        shape = (max(layout.n_rows, 1), self.stride)
        needed = shape[0] * shape[1] * (4 if precision == "single" else 8)
        free = device.free_memory()
        if needed > free:
            raise KinemaError(
                f"{n_envs} environments need {needed / 2**20:,.0f} MiB for their {layout.name} arrays, "
                f"and {device.name} has {free / 2**20:,.0f} MiB free"
            )
        self.data = wp.zeros(shape, dtype=dtype, device=device.name)

    def field(self, array: str) -> Field:
        """One of its arrays."""
        start, count = self.layout.rows[array]
        return Field(self.data[start : start + count], self.n_envs)


class Field:
    """A flat array of the model's state: items by environments."""

    def __init__(self, data: Any, n_envs: int) -> None:
        self._data = data
        self._n_envs = n_envs

    @property
    def shape(self) -> tuple[int, int]:
        """Items, environments."""
        return int(self._data.shape[0]), self._n_envs

    @property
    def warp(self) -> Any:
        """As a Warp array, without a copy."""
        return self._data[:, : self._n_envs]

    def numpy(self) -> np.ndarray:
        """As NumPy: a view of the memory on a CPU, a copy from a GPU."""
        return self._data.numpy()[:, : self._n_envs]

    def to_torch(self) -> Any:
        """As a PyTorch tensor on the same memory."""
        try:
            import torch  # noqa: F401  # pyright: ignore[reportMissingImports]
        except ImportError:
            raise KinemaError("to_torch() needs PyTorch: pip install torch") from None
        return warp().to_torch(self._data)[:, : self._n_envs]

    def assign(self, values: np.ndarray, envs: Any = None) -> None:
        """Write all environments, or some, from NumPy: (items, environments)."""
        if self._data.device.is_cpu:
            self.numpy()[:, slice(None) if envs is None else envs] = values
            return
        host = self._data.numpy()
        host[:, : self._n_envs][:, slice(None) if envs is None else envs] = values
        self._data.assign(host)
