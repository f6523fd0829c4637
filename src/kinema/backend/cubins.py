"""PTX to machine code of a GPU: several modules at a time, each in a process of its own, cached on disk by content."""

from __future__ import annotations

import atexit
import enum
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path

from kinema.foundation import InternalError, content_digest, load_entry, store_entry

from .compilers import WorkerPool
from .devices import Device
from .gpu_code import driver_version
from .host_code import Tiers, tiers
from .processor import n_threads

_WORKER = Path(__file__).with_name("ptx_worker.py")
_MOST_WORKERS = 6
"""Processes that assemble at a time: each holds a context of the GPU, some hundred MB of its memory."""
LARGE_PTX = 700_000
"""Bytes of PTX from which on a module takes the CUDA driver so long that it starts at the baseline tier: a G1's line of
1.1 MB takes 10 s, 3 s at that tier, with which a step takes seven times as long; half of that 2 s at either tier."""
_IDLE = 5.0
"""After how long without work they end [s]."""


class JitLevel(enum.IntEnum):
    """Optimisation levels of the CUDA driver; code of all of them computes the same bits."""

    BASELINE = 0
    OPTIMISED = 4


class _Assemblers:
    """The processes of one GPU; they end when they have had nothing to do for a while."""

    def __init__(self, number: str) -> None:
        self.pool = WorkerPool(command=[str(_WORKER), number])
        self._users = 0
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None
        atexit.register(self.pool.close, final=True)

    def __enter__(self) -> WorkerPool:
        with self._lock:
            self._users += 1
            if self._timer is not None:
                self._timer.cancel()
        return self.pool

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._users -= 1
            if not self._users:
                self._timer = threading.Timer(_IDLE, self._close)
                self._timer.daemon = True
                self._timer.start()

    def _close(self) -> None:
        with self._lock:
            if not self._users:
                self.pool.close()


_assemblers: dict[str, _Assemblers] = {}
_lock = threading.Lock()


def _assemblers_of(device: Device) -> _Assemblers:
    with _lock:
        if device.name not in _assemblers:
            _assemblers[device.name] = _Assemblers(device.name.partition(":")[2] or "0")
        return _assemblers[device.name]


def start_assemblers(device: Device, count: int) -> None:
    """Have processes start while there is other work to do: their first call takes half a second."""
    with _assemblers_of(device) as pool:
        pool.start(min(count, _MOST_WORKERS, n_threads()))


def _key(code: bytes, device: Device, level: JitLevel) -> str:
    return content_digest("cubin", device.architecture, driver_version(), int(level), code)


def cached_cubins(codes: Sequence[bytes], device: Device, level: JitLevel) -> list[bytes] | None:
    """Machine code of modules from the disk cache, if it has all of them."""
    found: list[bytes] = []
    for code in codes:
        entry = load_entry("code", _key(code, device, level))
        if entry is None:
            return None
        found.append(entry["code"])
    return found


def first_level(code: bytes, *, wait: bool) -> JitLevel:
    """The level that a module of PTX is assembled at first, unless the optimised one is waited for."""
    tiered = not wait and tiers() is Tiers.TIERED and len(code) > LARGE_PTX
    return JitLevel.BASELINE if tiered else JitLevel.OPTIMISED


_ahead: dict[str, Future[bytes]] = {}
"""Modules that are assembled before their machine code is asked for."""
_at_once = threading.BoundedSemaphore(min(_MOST_WORKERS, n_threads()))


def assemble_ahead(code: bytes, device: Device, level: JitLevel) -> Future[bytes]:
    """Start to assemble a module of PTX in another thread; `assemble` gives the result."""
    key, future = _key(code, device, level), Future[bytes]()

    def run() -> None:
        try:
            with _at_once, _assemblers_of(device) as pool:
                future.set_result(_assembled(code, key, pool, level))
        except BaseException as error:  # whoever asks for the result is told
            future.set_exception(error)

    _ahead[key] = future
    # a daemon, unlike those of an executor: no process waits at its end for what is compiled in the background
    threading.Thread(target=run, name="kinema assembler", daemon=True).start()
    return future


def _assembled(code: bytes, key: str, pool: WorkerPool, level: JitLevel) -> bytes:
    """Machine code of a module; PTX itself, which the driver assembles, where no process can do it.

    Such processes fail where only one may use the GPU, or its memory is full.
    """
    entry = load_entry("code", key)
    if entry is not None:
        return entry["code"]
    try:
        found = pool.compile(code, int(level))
    except InternalError:
        return code
    store_entry("code", key, {"code": found})
    return found


def assemble(codes: Sequence[bytes], device: Device, levels: Sequence[JitLevel]) -> list[bytes]:
    """Machine code of modules of PTX, those that are being assembled already among them."""
    waiting = [
        _ahead.get(_key(code, device, level)) or assemble_ahead(code, device, level)
        for code, level in zip(codes, levels, strict=True)
    ]
    return [future.result() for future in waiting]


def forget_assembled(codes: Sequence[bytes], device: Device) -> None:
    """Drop what was assembled ahead of modules that are loaded."""
    for code in codes:
        for level in JitLevel:
            _ahead.pop(_key(code, device, level), None)
