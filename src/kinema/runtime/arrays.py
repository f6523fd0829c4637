"""Arenas: one allocation for the named arrays of all environments, views of these arrays, and series of them in time.

An arena has shape (rows, stride): a row per scalar of an array, a column per environment (structure of arrays). Views
are shared with NumPy, Warp, PyTorch and DLPack without copies where possible.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
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


def padded_stride(n_envs: int, device: Device, *, is_scalar: bool = False) -> int:
    """Distance between rows of an arena in scalars: n_envs rounded up to whole vectors; on a CPU not a power of two.

    1 for a single environment that scalar code steps (`is_scalar`): its values lie side by side, 16 to a cache line.
    """
    if is_scalar and n_envs == 1:
        return 1
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

    def __init__(
        self, layout: ArenaLayout, n_envs: int, device: Device, precision: str, *, is_scalar: bool = False
    ) -> None:
        """Allocate the arena, filled with zeros; KinemaError if the device has too little memory.

        `is_scalar` tells that scalar code on a CPU is all that accesses the arena.
        """
        self.layout = layout
        self.device = device
        self.precision = precision
        is_uniform = layout.name == UNIFORM
        self.n_envs = 1 if is_uniform else n_envs
        self.stride = 1 if is_uniform else padded_stride(n_envs, device, is_scalar=is_scalar)
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


# ---------------------------------------------------------------------------------------------- copies between arenas


def copy_rows(target: Any, target_row: int, source: Any, source_row: int, count: int) -> None:
    """Copy rows of a device array (rows, stride), or (rows,), to another of equal stride; on a GPU in stream order."""
    if isinstance(target, np.ndarray):
        target[target_row : target_row + count] = source[source_row : source_row + count]
    elif count:
        stride = int(target.shape[1]) if target.ndim == 2 else 1
        warp().copy(target, source, target_row * stride, source_row * stride, count * stride)


def row_filler(data: Any, start: int, count: int) -> Callable[[float], None]:
    """Function that sets rows of a device array (rows, stride) to a value; on a GPU in stream order."""
    rows = data[start : start + count] if count else np.zeros(0)
    return rows.fill if isinstance(rows, np.ndarray) else rows.fill_


class ArraySeries:
    """Values of consecutive rows of an arena at several times, (times, rows, environments), on the arena's device."""

    def __init__(self, n_times: int, n_rows: int, arena: Arena, purpose: str) -> None:
        """Allocate a series of zeros in the strides of an arena; `purpose` is named if there is too little memory."""
        self.n_times, self.n_rows, self._n_envs, self._dtype = n_times, n_rows, arena.n_envs, arena.dtype
        self.data = arena.device.zeros((max(n_times * n_rows, 1), arena.stride), arena.precision, purpose)
        """Rows of all times, one time after the other, (times x rows, stride)."""

    def store(self, time: int, source: Any, row: int) -> None:
        """Copy rows of the data of an arena, from `row` on, to a time of the series."""
        copy_rows(self.data, time * self.n_rows, source, row, self.n_rows)

    def load(self, time: int, target: Any, row: int) -> None:
        """Copy a time of the series to rows of the data of an arena, from `row` on."""
        copy_rows(target, row, self.data, time * self.n_rows, self.n_rows)

    def numpy(self) -> np.ndarray:
        """The series as NumPy array (times, rows, environments): a view on a CPU, a copy from a GPU."""
        data = self.data if isinstance(self.data, np.ndarray) else self.data.numpy()
        return self._shaped(data)

    def to_torch(self) -> Any:
        """The series as PyTorch tensor (times, rows, environments) that shares its memory."""
        is_on_host = isinstance(self.data, np.ndarray)
        return self._shaped(torch_module().from_numpy(self.data) if is_on_host else warp().to_torch(self.data))

    def _shaped(self, data: Any) -> Any:
        n = self.n_times * self.n_rows
        return data[:n].reshape(self.n_times, self.n_rows, data.shape[1])[..., : self._n_envs]

    def assign(self, values: Any) -> None:
        """Set all values from a NumPy array or a PyTorch tensor (times, environments, rows); no host copy of a tensor.

        The padding of the stride gets the values of the last environment, as in `ArrayView.pad_last_vector`.
        """
        is_on_host = isinstance(self.data, np.ndarray)
        if not isinstance(values, np.ndarray):
            target = self._shaped(torch_module().from_numpy(self.data) if is_on_host else warp().to_torch(self.data))
            target.copy_(values.movedim(-1, 1))
        elif is_on_host:
            self.numpy()[:] = values.transpose(0, 2, 1)
        else:
            host = np.zeros(self.data.shape, self._dtype)
            self._shaped(host)[:] = values.transpose(0, 2, 1)
            self.data.assign(host)
        if is_on_host and self.data.shape[1] > self._n_envs:
            self.data[:, self._n_envs : self._n_envs + MAX_LANES] = self.data[:, self._n_envs - 1 : self._n_envs]
