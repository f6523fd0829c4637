"""Devices that programs run on: lookup, memory allocation, synchronisation and stream sharing with PyTorch."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import math
import os
import sys
import threading
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from kinema.core import CACHE_ENV_VARIABLE, KinemaError, cache_dir

from .cpu_features import TIER_VARIABLE, available_memory, choose_lanes

warp_lock = threading.RLock()
"""Held during initialisation and compilation of Warp, which are not thread-safe."""


def warp() -> Any:
    """The initialised NVIDIA Warp module; only needed for GPUs, as host code is compiled by LLVM."""
    with warp_lock:
        return _initialise_warp()


@cache
def _initialise_warp() -> Any:
    """Import and initialise NVIDIA Warp quietly, with its kernel cache inside `KINEMA_CACHE` if set."""
    wp: Any = importlib.import_module("warp")
    wp.config.quiet = True  # the caller shows progress
    wp.config.log_level = getattr(wp, "LOG_ERROR", 40)
    if os.environ.get(CACHE_ENV_VARIABLE):
        wp.config.kernel_cache_dir = str(cache_dir() / "warp")
    if os.environ.get(TIER_VARIABLE) == "baseline":
        wp.config.optimization_level = 1  # compiles kernels of images in two thirds of the time
    with _stderr_silenced():  # suppresses its message about a missing CUDA driver
        wp.init()
    return wp


class _stderr_silenced:
    """Context manager that redirects file descriptor 2 (stderr, also of C code) to the null device."""

    def __enter__(self) -> None:
        sys.stderr.flush()
        self.saved = os.dup(2)
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 2)
        os.close(null)

    def __exit__(self, *_: object) -> None:
        sys.stderr.flush()
        os.dup2(self.saved, 2)
        os.close(self.saved)


def begin_initialisation(name: str) -> threading.Thread | None:
    """Start the initialisation of a GPU in a background thread: CUDA driver, primary context, import of Warp.

    It takes some 0.4 s, and files can be read at the same time. Errors are reported by the next use of the GPU. Returns
    the thread; None for the CPU.
    """
    if name == "cpu":
        return None
    index = int(name.partition(":")[2] or 0)
    thread = threading.Thread(target=_create_context, args=(index,), name="kinema CUDA context", daemon=True)
    thread.start()
    return thread


def _create_context(index: int) -> None:
    """Retain the primary CUDA context of a GPU by index and import Warp; without effect if there is no driver."""
    with contextlib.suppress(OSError, ImportError):
        cuda = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
        device, context = ctypes.c_int(), ctypes.c_void_p()
        if cuda.cuInit(0) == 0 and cuda.cuDeviceGet(ctypes.byref(device), index) == 0:
            cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)  # kept by the process, as Warp does
            importlib.import_module("warp")


def numpy_dtype(precision: str) -> type[np.floating[Any]]:
    """NumPy scalar type of a precision, `single` or `double`."""
    return np.float32 if precision == "single" else np.float64


@dataclass(frozen=True, slots=True)
class Device:
    """A device by Warp's name, `cpu` or `cuda:0`; its arrays are NumPy or Warp arrays."""

    name: str

    @property
    def is_cpu(self) -> bool:
        """Whether the device is the host CPU."""
        return self.name == "cpu"

    @property
    def n_multiprocessors(self) -> int:
        """Number of multiprocessors of a GPU."""
        return int(warp().get_device(self.name).sm_count)

    @property
    def architecture(self) -> str:
        """Architecture of a GPU, such as `sm_90`."""
        return f"sm_{warp().get_device(self.name).arch}"

    def lanes(self, precision: str, n_envs: int | None = None, threads: int | None = None) -> int:
        """Environments per SIMD vector for a number of environments and CPU threads; 1 on a GPU."""
        return choose_lanes(32 if precision == "single" else 64, n_envs, threads) if self.is_cpu else 1

    def free_memory(self) -> int:
        """Free memory of the device [bytes]."""
        if self.is_cpu:
            return available_memory()
        return int(warp().get_device(self.name).free_memory)

    def zeros(self, shape: tuple[int, ...], precision: str, purpose: str) -> Any:
        """Allocate an array of zeros; aligned to cache lines on a CPU.

        Raises KinemaError, which names `purpose`, if the device has too little free memory.
        """
        needed = math.prod(shape) * (4 if precision == "single" else 8)
        if self.is_cpu and (needed <= MIN_CHECKED_BYTES or needed <= self.free_memory()):
            return _aligned_zeros(shape, numpy_dtype(precision))
        if not self.is_cpu:  # no query before the allocation: the driver takes 60 ms to answer
            wp = warp()
            for is_last in (False, True):
                with contextlib.suppress(RuntimeError):  # out of memory
                    return wp.zeros(shape, dtype=wp.float32 if precision == "single" else wp.float64, device=self.name)
                if not is_last:
                    gc.collect()  # scenes that were dropped
        free = self.free_memory()
        raise KinemaError(
            f"{purpose}: {needed / 2**20:,.0f} MiB are needed, and {self.name} has {free / 2**20:,.0f} MiB free"
        )

    def upload(self, values: np.ndarray) -> Any:
        """Copy of a NumPy array on the device; on a CPU the array itself, if contiguous."""
        return np.ascontiguousarray(values) if self.is_cpu else warp().array(values, device=self.name)


MIN_CHECKED_BYTES = 2**20
"""Size of an allocation [bytes] up to which the free memory of the host is not queried, which takes 0.1 ms."""
CACHE_LINE_BYTES = 64
"""Size of a CPU cache line [bytes]."""


def _aligned_zeros(shape: tuple[int, ...], dtype: type[np.floating[Any]]) -> np.ndarray:
    """NumPy array of zeros that starts at a cache line."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    raw = np.zeros(size + CACHE_LINE_BYTES, np.uint8)
    start = -raw.ctypes.data % CACHE_LINE_BYTES
    return raw[start : start + size].view(dtype).reshape(shape)


def find_device(name: str) -> Device:
    """Device by name: `cpu`, `cuda`, `cuda:1`, or `auto` for a GPU if present; KinemaError for unknown names."""
    if name == "cpu":
        return Device("cpu")
    if name == "auto":
        name = "cuda:0" if warp().is_cuda_available() else "cpu"
    if name == "cuda":
        name = "cuda:0"
    known = [str(d) for d in warp().get_devices()]
    if name not in known:
        raise KinemaError(f"device {name!r} does not exist; available devices: {', '.join(known)}")
    return Device(name)


def synchronise(device: Device) -> None:
    """Wait until a GPU has completed all submitted work."""
    if not device.is_cpu:
        warp().synchronize_device(device.name)


_shared_stream_devices: set[str] = set()
"""Devices on which Warp uses PyTorch's CUDA stream."""


def torch_module() -> Any:
    """The PyTorch module, imported on demand; KinemaError if it is not installed."""
    try:
        return importlib.import_module("torch")
    except ImportError:
        raise KinemaError("this needs PyTorch: pip install torch") from None


def share_torch_stream(device: Device) -> None:
    """Make Warp use PyTorch's current CUDA stream of a GPU, so that their work is ordered without synchronisation."""
    if not device.is_cpu:
        wp = warp()
        stream = wp.stream_from_torch(torch_module().cuda.current_stream(device.name))
        wp.set_stream(stream, device.name, sync=True)  # after the work on the previous stream
        _shared_stream_devices.add(device.name)


def synchronise_unless_shared(device: Device) -> None:
    """Wait until results on a GPU are visible to others; returns at once if PyTorch shares the stream."""
    if device.name not in _shared_stream_devices:
        synchronise(device)


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """Properties of an available device."""

    name: str
    """`cpu`, `cuda:0`, ..."""
    description: str
    """Product name."""
    total_memory: int
    """Memory of a GPU [bytes]; 0 for the CPU."""
    free_memory: int
    """Free memory of a GPU [bytes]; 0 for the CPU."""
    architecture: str
    """Architecture of a GPU, such as `sm_90`; empty for the CPU."""


def list_devices() -> list[DeviceInfo]:
    """Properties of all devices, the CPU first."""
    result = []
    for device in warp().get_devices():
        if device.is_cpu:
            result.append(DeviceInfo(str(device), device.name or "host", 0, 0, ""))
        else:
            arch = f"sm_{device.arch}"
            result.append(DeviceInfo(str(device), device.name, device.total_memory, device.free_memory, arch))
    return result
