"""Arenas: one allocation for the named arrays of all environments, and views of these arrays.

An arena has shape (rows, stride): a row per scalar of an array, a column per environment (structure of arrays). Views
are shared with NumPy, Warp, PyTorch and DLPack without copies where possible.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kinema.ir import UNIFORM, ArenaOffset

from .devices import Device, numpy_dtype, torch_module, warp

ENV_ALIGNMENT = 32
"""The number of allocated environments is a multiple of this, so that SIMD vectors and warps stay inside an array."""
ALIASING_STRIDE = 1024
"""Strides from this one on are padded on a CPU to avoid cache set conflicts between rows."""
MAX_LANES = 16
"""Largest number of environments in a SIMD vector."""


def padded_stride(n_envs: int, device: Device) -> int:
    """Distance between rows of an arena in scalars: n_envs rounded up to whole vectors; on a CPU not a power of two."""
    stride = -(-n_envs // ENV_ALIGNMENT) * ENV_ALIGNMENT
    if device.is_cpu and stride >= ALIASING_STRIDE:
        stride += 16 + (-stride) % 16
    return stride


@dataclass(slots=True)
class ArenaLayout:
    """Row layout of the arrays of an arena."""

    name: str
    rows: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Array name -> first row and number of rows."""
    n_rows: int = 0
    """Total number of rows."""

    @classmethod
    def from_sizes(cls, name: str, sizes: Iterable[tuple[str, int]]) -> ArenaLayout:
        """Layout of arrays stored consecutively, from names and numbers of rows."""
        layout = cls(name)
        for array, count in sizes:
            layout.rows[array] = (layout.n_rows, count)
            layout.n_rows += count
        return layout

    def offsets(self) -> dict[str, ArenaOffset]:
        """First row of each array as an `ArenaOffset`, for code generation."""
        return {array: ArenaOffset(self.name, row) for array, (row, _) in self.rows.items()}


class Arena:
    """One device allocation that holds all arrays of a layout, shape (rows, stride).

    The arena `UNIFORM` of values shared by all environments has shape (rows,).
    """

    def __init__(self, layout: ArenaLayout, n_envs: int, device: Device, precision: str) -> None:
        """Allocate the arena, filled with zeros; KinemaError if the device has too little memory."""
        self.layout = layout
        self.device = device
        self.precision = precision
        is_uniform = layout.name == UNIFORM
        self.n_envs = 1 if is_uniform else n_envs
        self.stride = 1 if is_uniform else padded_stride(n_envs, device)
        self.dtype = np.dtype(numpy_dtype(precision))
        rows = max(layout.n_rows, 1)
        shape = (rows,) if is_uniform else (rows, self.stride)
        self.data = device.zeros(shape, precision, f"{n_envs:,} environments, their {layout.name} arrays")

    def view(self, array: str) -> ArrayView:
        """View of one array, by name."""
        return self.rows(*self.layout.rows[array])

    def rows(self, start: int, count: int) -> ArrayView:
        """View of a range of rows, of one array or of several adjacent arrays."""
        if not count:  # Warp arrays cannot be sliced to zero length
            return ArrayView(np.zeros((0, self.stride), self.dtype), self.n_envs)
        rows = self.data[start : start + count]
        return ArrayView(rows.reshape((count, 1)) if rows.ndim == 1 else rows, self.n_envs)


class ArrayView:
    """View of an array of the state, shape (elements, environments), without the padding of the stride."""

    def __init__(self, data: Any, n_envs: int) -> None:
        self._data = data
        self._n_envs = n_envs
        self._on_host = isinstance(data, np.ndarray)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of elements and of environments."""
        return int(self._data.shape[0]), self._n_envs

    @property
    def dtype(self) -> np.dtype:
        """NumPy type of the values."""
        return np.dtype(np.float64 if "64" in str(self._data.dtype) else np.float32)

    @property
    def is_on_host(self) -> bool:
        """Whether the array is in host memory."""
        return self._on_host

    @property
    def warp(self) -> Any:
        """The array as a Warp array that shares its memory."""
        data = self._data
        if self._on_host:
            wp = warp()
            dtype = wp.float32 if data.dtype == np.float32 else wp.float64
            data = wp.array(data, dtype=dtype, copy=False, device="cpu")
        return data[:, : self._n_envs]

    def numpy(self) -> np.ndarray:
        """The array as NumPy array: a view on a CPU, a copy from a GPU."""
        return (self._data if self._on_host else self._data.numpy())[:, : self._n_envs]

    def to_torch(self) -> Any:
        """The array as a PyTorch tensor that shares its memory."""
        torch = torch_module()
        padded = torch.from_numpy(self._data) if self._on_host else warp().to_torch(self._data)
        return padded[:, : self._n_envs]

    def __dlpack__(self, **kwargs: Any) -> Any:
        """DLPack capsule of the array, for `numpy.from_dlpack`, `torch.from_dlpack` or `jax.dlpack.from_dlpack`."""
        return self._native_array().__dlpack__(**kwargs)

    def __dlpack_device__(self) -> Any:
        """Device of the array by the DLPack protocol."""
        return self._native_array().__dlpack_device__()

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """NumPy array interface; on a CPU only."""
        if not self._on_host:
            raise AttributeError("__array_interface__")
        return self.numpy().__array_interface__

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """CUDA array interface (Numba, CuPy, PyTorch); on a GPU only."""
        if self._on_host:
            raise AttributeError("__cuda_array_interface__")
        return self.warp.__cuda_array_interface__

    def _native_array(self) -> Any:
        return self.numpy() if self._on_host else self.warp

    def pad_last_vector(self) -> None:
        """Copy the last environment into the padding lanes of the last SIMD vector, on a CPU.

        Otherwise the padding would be zeros, with all geoms at one point, so that every pair of geoms collides in the
        vector.
        """
        if self._on_host and self._data.shape[1] > self._n_envs:
            self._data[:, self._n_envs : self._n_envs + MAX_LANES] = self._data[:, self._n_envs - 1 : self._n_envs]

    def assign(self, values: np.ndarray | float, envs: Any = None) -> None:
        """Write all environments, or those selected by `envs`, from a NumPy array (elements, environments) or a scalar.

        On a GPU the whole array is copied to the host, modified and copied back.
        """
        columns = slice(None) if envs is None else envs
        if self._on_host:
            self.numpy()[:, columns] = values
            if envs is None:
                self.pad_last_vector()
            return
        host = self._data.numpy()
        host[:, : self._n_envs][:, columns] = values
        self._data.assign(host)
