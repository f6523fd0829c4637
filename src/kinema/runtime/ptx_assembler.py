"""Assembly of PTX to cubins in a pool of worker processes, at two optimisation levels, cached on disk by content."""

from __future__ import annotations

import atexit
import enum
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path

from kinema.core import InternalError, content_digest, load_entry, store_entry

from .cpu_features import n_threads
from .cuda_driver import driver_version
from .devices import Device
from .host_jit import TierPolicy, tier_policy
from .llvm_compiler import FOREGROUND, WorkerPool

_WORKER_SCRIPT = Path(__file__).with_name("ptx_worker.py")
_MAX_WORKERS = 6
"""Largest number of worker processes: each holds a CUDA context of some hundred MB of GPU memory."""
TIERED_PTX_BYTES = 150_000
"""PTX size [bytes] from which on a module starts at the baseline tier.

A thread kernel of 0.33 MB takes 1.8 s at level 4 and 1.2 s at level 1; one of 1.1 MB 10 s at level 4. Level 0 is slower
than level 1 for the largest modules, as it writes three times as much code.
"""
_IDLE_SECONDS = 5.0
"""Idle time after which the worker processes end [s]."""


class JitLevel(enum.IntEnum):
    """Optimisation levels of the CUDA driver's assembler; results are bitwise equal at all levels."""

    BASELINE = 1
    OPTIMISED = 4


class _AssemblerPool:
    """Worker processes of one GPU, as a reentrant context manager; they end after some idle time."""

    def __init__(self, device_index: str) -> None:
        """Pool for the GPU of a given index, without worker processes yet."""
        self.pool = WorkerPool(command=[str(_WORKER_SCRIPT), device_index])
        self._users = 0
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None
        atexit.register(self.pool.close, final=True)

    def __enter__(self) -> WorkerPool:
        """Register a user of the pool and cancel its shutdown."""
        with self._lock:
            self._users += 1
            if self._timer is not None:
                self._timer.cancel()
        return self.pool

    def __exit__(self, *_: object) -> None:
        """Unregister a user; the last one starts the timer after which the worker processes end."""
        with self._lock:
            self._users -= 1
            if not self._users:
                self._timer = threading.Timer(_IDLE_SECONDS, self._close)
                self._timer.daemon = True
                self._timer.start()

    def _close(self) -> None:
        with self._lock:
            if not self._users:
                self.pool.close()


_pools: dict[str, _AssemblerPool] = {}
_pools_lock = threading.Lock()


def _pool_of(device: Device) -> _AssemblerPool:
    with _pools_lock:
        if device.name not in _pools:
            _pools[device.name] = _AssemblerPool(device.name.partition(":")[2] or "0")
        return _pools[device.name]


def start_gpu_compilers(device: Device) -> None:
    """Start worker processes of LLVM and of the assembler ahead of use: the latter take half a second to start."""
    n_workers = min(_MAX_WORKERS, n_threads())
    FOREGROUND.start(n_workers)
    with _pool_of(device) as pool:
        pool.start(n_workers)


def _cubin_key(ptx: bytes, device: Device, level: JitLevel) -> str:
    return content_digest("cubin", device.architecture, driver_version(), int(level), ptx)


def cached_cubins(ptx_modules: Sequence[bytes], device: Device, level: JitLevel) -> list[bytes] | None:
    """Cubins of PTX modules from the disk cache; None unless all of them are cached."""
    cubins: list[bytes] = []
    for ptx in ptx_modules:
        entry = load_entry("code", _cubin_key(ptx, device, level))
        if entry is None:
            return None
        cubins.append(entry["code"])
    return cubins


def first_level(ptx: bytes, *, wait: bool) -> JitLevel:
    """Optimisation level at which a PTX module is assembled first.

    Baseline for modules above `TIERED_PTX_BYTES` under the tiered policy, unless `wait` asks for the optimised level.
    """
    starts_at_baseline = not wait and tier_policy() is TierPolicy.TIERED and len(ptx) > TIERED_PTX_BYTES
    return JitLevel.BASELINE if starts_at_baseline else JitLevel.OPTIMISED


_pending_assemblies: dict[str, Future[bytes]] = {}
"""Assemblies started ahead, by cubin key."""
_worker_slots = threading.BoundedSemaphore(min(_MAX_WORKERS, n_threads()))


def assemble_async(ptx: bytes, device: Device, level: JitLevel) -> Future[bytes]:
    """Start assembly of a PTX module in a background thread; returns the future, whose result `assemble` will use."""
    key, future = _cubin_key(ptx, device, level), Future[bytes]()

    def run() -> None:
        """Assemble the module in a worker process and set the result or exception of the future."""
        try:
            with _worker_slots, _pool_of(device) as pool:
                future.set_result(_assemble_cached(ptx, key, pool, level))
        except BaseException as error:  # raised by future.result()
            future.set_exception(error)

    _pending_assemblies[key] = future
    # a daemon thread: process exit does not wait for background assembly, as it would for an executor
    threading.Thread(target=run, name="kinema assembler", daemon=True).start()
    return future


def _assemble_cached(ptx: bytes, key: str, pool: WorkerPool, level: JitLevel) -> bytes:
    """Cubin of a PTX module, from the disk cache or assembled by a worker process and stored.

    Returns the PTX itself, which the driver assembles on loading, if the worker processes fail (exclusive GPU mode, or
    GPU memory exhausted).
    """
    entry = load_entry("code", key)
    if entry is not None:
        return entry["code"]
    try:
        cubin = pool.compile(ptx, int(level))
    except InternalError:
        return ptx
    store_entry("code", key, {"code": cubin})
    return cubin


def assemble(ptx_modules: Sequence[bytes], device: Device, levels: Sequence[JitLevel]) -> list[bytes]:
    """Cubins of PTX modules at given levels, using asynchronous assemblies in progress."""
    futures = [
        _pending_assemblies.get(_cubin_key(ptx, device, level)) or assemble_async(ptx, device, level)
        for ptx, level in zip(ptx_modules, levels, strict=True)
    ]
    return [future.result() for future in futures]


def discard_assembled(ptx_modules: Sequence[bytes], device: Device) -> None:
    """Discard the asynchronous assemblies of modules that are loaded."""
    for ptx in ptx_modules:
        for level in JitLevel:
            _pending_assemblies.pop(_cubin_key(ptx, device, level), None)
