"""What a program runs on."""

from __future__ import annotations

import importlib
import os
import sys
import threading
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from kinema.foundation import CACHE_VARIABLE, KinemaError, cache_dir

from .processor import available_memory, lanes

warp_lock = threading.RLock()
"""Held while Warp starts or compiles: it does neither in two threads at a time."""


def warp() -> Any:
    """NVIDIA Warp, started; needed for GPUs only, as the host's code is made by LLVM."""
    with warp_lock:
        return _started_warp()


@cache
def _started_warp() -> Any:
    wp: Any = importlib.import_module("warp")
    wp.config.quiet = True  # the caller shows progress
    wp.config.log_level = getattr(wp, "LOG_ERROR", 40)
    if os.environ.get(CACHE_VARIABLE):
        wp.config.kernel_cache_dir = str(cache_dir() / "warp")
    with _stderr_silenced():  # its complaint about a missing CUDA driver is no news on a CPU
        wp.init()
    return wp


class _stderr_silenced:
    """Nothing reaches the terminal from C code meanwhile."""

    def __enter__(self) -> None:
        sys.stderr.flush()
        self.saved = os.dup(2)
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 2)
        os.close(nowhere)

    def __exit__(self, *_: object) -> None:
        sys.stderr.flush()
        os.dup2(self.saved, 2)
        os.close(self.saved)


def numpy_type(precision: str) -> type[np.floating[Any]]:
    """The type of a number."""
    return np.float32 if precision == "single" else np.float64


@dataclass(frozen=True, slots=True)
class Device:
    """A device by Warp's name, `cpu` or `cuda:0`; arrays on it are NumPy's or Warp's."""

    name: str

    @property
    def is_cpu(self) -> bool:
        """Whether programs run on the host."""
        return self.name == "cpu"

    @property
    def n_multiprocessors(self) -> int:
        """Of a GPU."""
        return int(warp().get_device(self.name).sm_count)

    @property
    def architecture(self) -> str:
        """Of a GPU, such as `sm_90`."""
        return f"sm_{warp().get_device(self.name).arch}"

    def lanes(self, precision: str, n_envs: int | None = None, threads: int | None = None) -> int:
        """How many environments a program takes at a time, of so many, shared by threads of the host."""
        return lanes(32 if precision == "single" else 64, n_envs, threads) if self.is_cpu else 1

    def free_memory(self) -> int:
        """Bytes that can be allocated."""
        if self.is_cpu:
            return available_memory()
        return int(warp().get_device(self.name).free_memory)

    def zeros(self, shape: tuple[int, ...], precision: str, what: str) -> Any:
        """An array, or an error that says what there is no room for."""
        needed = int(np.prod(shape)) * np.dtype(numpy_type(precision)).itemsize
        free = self.free_memory()
        if needed > free:
            raise KinemaError(
                f"{what}: {needed / 2**20:,.0f} MiB are needed, and {self.name} has {free / 2**20:,.0f} MiB free"
            )
        if self.is_cpu:
            return _aligned_zeros(shape, numpy_type(precision))
        wp = warp()
        return wp.zeros(shape, dtype=wp.float32 if precision == "single" else wp.float64, device=self.name)

    def array(self, values: np.ndarray) -> Any:
        """Numbers, there."""
        return np.ascontiguousarray(values) if self.is_cpu else warp().array(values, device=self.name)


LINE = 64
"""Bytes of a processor's cache line."""


def _aligned_zeros(shape: tuple[int, ...], dtype: type[np.floating[Any]]) -> np.ndarray:
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.zeros(size + LINE, np.uint8)
    start = -raw.ctypes.data % LINE
    return raw[start : start + size].view(dtype).reshape(shape)


def find_device(name: str) -> Device:
    """The device of that name: `cpu`, `cuda`, `cuda:1`, or `auto` for a GPU where there is one."""
    if name == "cpu":
        return Device("cpu")
    if name == "auto":
        name = "cuda:0" if warp().is_cuda_available() else "cpu"
    if name == "cuda":
        name = "cuda:0"
    known = [str(d) for d in warp().get_devices()]
    if name not in known:
        raise KinemaError(f"there is no device {name!r} here; there are: {', '.join(known)}")
    return Device(name)


def synchronise(device: Device) -> None:
    """Wait until the device has done all it was told."""
    if not device.is_cpu:
        warp().synchronize_device(device.name)


_shared: set[str] = set()
"""Devices on which PyTorch and Warp work one after the other."""


def torch_module() -> Any:
    """PyTorch, which is asked for only where somebody wants tensors."""
    try:
        return importlib.import_module("torch")
    except ImportError:
        raise KinemaError("this needs PyTorch: pip install torch") from None


def share_stream(device: Device) -> None:
    """Let a GPU do what Warp and PyTorch tell it in the order in which they do, so that neither waits for the other."""
    if not device.is_cpu:
        wp = warp()
        wp.set_stream(wp.stream_from_torch(torch_module().cuda.current_stream(device.name)), device.name)
        _shared.add(device.name)


def settle(device: Device) -> None:
    """Wait until what was computed can be seen by others; no need to where these stand in the same queue."""
    if device.name not in _shared:
        synchronise(device)


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """A device that programs can run on, for those who want to know."""

    name: str
    """`cpu`, `cuda:0`, ..."""
    description: str
    memory: int
    """Of a GPU [bytes]; 0 for the host's own."""
    free: int
    architecture: str
    """Of a GPU, such as `sm_90`."""


def all_devices() -> list[DeviceFacts]:
    """Everything that there is, the CPU first."""
    result = []
    for device in warp().get_devices():
        if device.is_cpu:
            result.append(DeviceFacts(str(device), device.name or "host", 0, 0, ""))
        else:
            arch = f"sm_{device.arch}"
            result.append(DeviceFacts(str(device), device.name, device.total_memory, device.free_memory, arch))
    return result
