"""Compilation of LLVM IR to machine code or PTX in a pool of worker processes, cached on disk by content.

Two optimisation levels (tiers). Modules can be compiled ahead, while later ones are emitted.
"""

from __future__ import annotations

import atexit
import contextlib
import enum
import hashlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from pathlib import Path

from kinema.core import InternalError, content_digest, load_entry, store_entry

from .cpu_features import cpu_fingerprint, n_threads
from .llvm_worker import REQUEST, RESPONSE

_WORKER_SCRIPT = Path(__file__).with_name("llvm_worker.py")
_SWITCH_INTERVAL = 2e-4
"""Thread switch interval [s] during emission, so that modules are handed to workers without delay; Python's default is
5e-3."""
_LOW_PRIORITY = 10
"""Niceness of worker processes that compile in the background."""


class OptLevel(enum.IntEnum):
    """Optimisation levels of LLVM's code generator; results are bitwise equal at both levels."""

    BASELINE = 0
    """Fast instruction selection and register allocation: compiles about ten times faster."""
    OPTIMISED = 2


class WorkerPool:
    """Pool of compiler processes, each serving one caller at a time; started on demand."""

    def __init__(self, niceness: int = 0, command: Sequence[str] = ()) -> None:
        """`command` is the worker script and its arguments; empty for the LLVM worker."""
        self._niceness = niceness
        self._command = command
        self._idle: list[subprocess.Popen[bytes]] = []
        self._all: list[subprocess.Popen[bytes]] = []
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._is_final = False

    def start(self, count: int = 1) -> None:
        """Start worker processes until there are `count`, before they are needed."""
        with self._lock:
            self._reset_after_fork()
            for _ in range(count - len(self._all)):
                self._idle.append(self._spawn())

    def _reset_after_fork(self) -> None:
        if self._pid != os.getpid():  # after a fork, the workers belong to the parent process
            self._idle, self._all, self._pid, self._is_final = [], [], os.getpid(), False

    def _spawn(self) -> subprocess.Popen[bytes]:
        """Start a worker process at the niceness of the pool, with this process's module search path."""
        worker = subprocess.Popen(
            [sys.executable, *(self._command or [str(_WORKER_SCRIPT)])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        )
        if self._niceness and hasattr(os, "setpriority"):
            with contextlib.suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, worker.pid, self._niceness)
        self._all.append(worker)
        return worker

    def _acquire(self) -> subprocess.Popen[bytes]:
        """Take an idle worker process that is alive, or start one; InternalError during interpreter shutdown."""
        with self._lock:
            self._reset_after_fork()
            while self._idle:
                worker = self._idle.pop()
                if worker.poll() is None:
                    return worker
                self._all.remove(worker)  # it was killed
                kill_worker(worker)
            if self._is_final:
                raise InternalError("compilation is not possible during interpreter shutdown")
            return self._spawn()

    def compile(self, module: str | bytes, level: int = OptLevel.OPTIMISED, *, assembly: bool = False) -> bytes:
        """Compile a module in a worker process: to object code, assembly or PTX (LLVM), or a cubin (PTX worker).

        On any exception, such as an interrupt, the worker is killed. Raises InternalError if compilation fails.
        """
        worker = self._acquire()
        try:
            return self._request(worker, module, level, assembly=assembly)
        except BaseException:
            kill_worker(worker)
            raise
        finally:
            with self._lock:
                if worker.returncode is None:
                    self._idle.append(worker)
                elif worker in self._all:
                    self._all.remove(worker)

    @staticmethod
    def _request(worker: subprocess.Popen[bytes], module: str | bytes, level: int, *, assembly: bool = False) -> bytes:
        """Send one request to a worker and read its response; InternalError if it fails or the worker ends."""
        assert worker.stdin is not None
        assert worker.stdout is not None
        source = module if isinstance(module, bytes) else module.encode()
        with contextlib.suppress(BrokenPipeError):  # the missing response is reported below
            worker.stdin.write(REQUEST.pack(level, assembly, len(source)) + source)
            worker.stdin.flush()
        head = worker.stdout.read(RESPONSE.size)
        if len(head) < RESPONSE.size:
            raise InternalError(f"the compiler process ended with status {worker.wait()}")
        succeeded, size = RESPONSE.unpack(head)
        payload = worker.stdout.read(size)
        if len(payload) < size:
            raise InternalError(f"the compiler process ended during a response with status {worker.wait()}")
        if not succeeded:
            raise InternalError(f"the compiler rejected a module: {payload.decode(errors='replace')}")
        return payload

    def close(self, *, final: bool = False) -> None:
        """Kill all worker processes, busy or idle; with `final`, no others are started afterwards."""
        with self._lock:
            workers, self._idle, self._all = self._all, [], []
            self._is_final = final
        if self._pid == os.getpid():
            for worker in workers:
                kill_worker(worker)


def kill_worker(worker: subprocess.Popen[bytes]) -> None:
    """Kill a worker process and close its pipes."""
    worker.kill()
    for stream in (worker.stdin, worker.stdout):
        if stream is not None:
            with contextlib.suppress(BrokenPipeError):
                stream.close()
    worker.wait()


FOREGROUND, BACKGROUND = WorkerPool(), WorkerPool(_LOW_PRIORITY)
atexit.register(FOREGROUND.close, final=True)
atexit.register(BACKGROUND.close, final=True)


def module_digest(llvm_ir: str) -> str:
    """Content hash of an LLVM module."""
    return hashlib.sha256(llvm_ir.encode()).hexdigest()[:40]


@cache
def _compiler_digest() -> str:
    """Digest of everything that determines machine code besides the module: CPU, worker source, llvmlite version."""
    from importlib.metadata import version

    return content_digest(cpu_fingerprint(), _WORKER_SCRIPT.read_text(encoding="utf-8"), version("llvmlite"))


def _code_key(digest: str, level: OptLevel) -> str:
    return content_digest(_compiler_digest(), digest, int(level))


def cached_code(digest: str, level: OptLevel) -> bytes | None:
    """Machine code of a module from the disk cache; None if it is not cached."""
    entry = load_entry("code", _code_key(digest, level))
    return None if entry is None else entry["code"]


_pending_compilations: dict[tuple[str, OptLevel], Future[bytes]] = {}
"""Compilations started ahead, by module digest and level."""
_worker_slots = threading.BoundedSemaphore(n_threads())
"""Limits concurrent compilations started ahead to the number of cores."""


def compile_async(llvm_ir: str, level: OptLevel) -> str:
    """Start compilation of a module in a background thread; `compile_module` later returns the result.

    Returns the digest of the module.
    """
    digest, future = module_digest(llvm_ir), Future[bytes]()

    def run() -> None:
        """Compile the module and set the result or exception of the future, unless it was cancelled."""
        with _worker_slots:
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(_compile_cached(llvm_ir, digest, level, FOREGROUND))
                except BaseException as error:  # raised by future.result()
                    future.set_exception(error)

    _pending_compilations[digest, level] = future
    threading.Thread(target=run, name="kinema compiler", daemon=True).start()
    return digest


_switch_interval_lock = threading.Lock()
_saved_switch_intervals: list[float] = []
"""Thread switch intervals found on entry of nested or concurrent `async_compilation` contexts."""


@contextlib.contextmanager
def async_compilation() -> Iterator[None]:
    """Context manager for emitting modules while earlier ones are compiled in background threads.

    Shortens Python's thread switch interval, so that modules are passed on without delay. An interrupt kills the
    compiler processes and cancels pending compilations.
    """
    with _switch_interval_lock:
        _saved_switch_intervals.append(
            sys.getswitchinterval()
        )  # the last context to end restores the value found by the first
        sys.setswitchinterval(min(_saved_switch_intervals[0], _SWITCH_INTERVAL))
    try:
        yield
    except KeyboardInterrupt:
        stop_compiling(FOREGROUND)
        raise
    finally:
        with _switch_interval_lock:
            if len(_saved_switch_intervals) == 1:
                sys.setswitchinterval(_saved_switch_intervals[0])
            _saved_switch_intervals.pop()


def stop_compiling(pool: WorkerPool) -> None:
    """Kill the worker processes of a pool; for the foreground pool, also cancel asynchronous compilations."""
    if pool is FOREGROUND:
        while _pending_compilations:
            _pending_compilations.popitem()[1].cancel()
    pool.close()


def discard_pending(digests: Sequence[str]) -> None:
    """Cancel asynchronous compilations that are not needed, as optimised code was in the cache."""
    for digest in digests:
        for level in OptLevel:
            future = _pending_compilations.pop((digest, level), None)
            if future is not None:
                future.cancel()


def compile_module(
    llvm_ir: str,
    level: OptLevel = OptLevel.OPTIMISED,
    pool: WorkerPool | None = None,
    digest: str | None = None,
) -> bytes:
    """Machine code of a module: from an asynchronous compilation, from the disk cache, or compiled now by `pool`.

    `digest` is that of the module, if known.
    """
    digest = digest or module_digest(llvm_ir)
    future = _pending_compilations.pop((digest, level), None)
    return _compile_cached(llvm_ir, digest, level, pool or FOREGROUND) if future is None else future.result()


def _compile_cached(llvm_ir: str, digest: str, level: OptLevel, pool: WorkerPool) -> bytes:
    """Machine code of a module, from the disk cache or compiled by the pool and stored."""
    code = cached_code(digest, level)
    if code is None:
        code = pool.compile(llvm_ir, level)
        store_entry("code", _code_key(digest, level), {"code": code})
    return code


def compile_modules(
    modules: Sequence[str], digests: Sequence[str], level: OptLevel, pool: WorkerPool | None = None
) -> list[bytes]:
    """Machine code of several modules, compiled in parallel; an interrupt kills the compiler processes."""
    pool = pool or FOREGROUND
    threads = ThreadPoolExecutor(max(1, min(len(modules), n_threads()) - 1))
    try:
        if n_threads() == 1:
            return [
                compile_module(module, level, pool, digest) for module, digest in zip(modules, digests, strict=True)
            ]
        first, *others = zip(modules, digests, strict=True)
        futures = [threads.submit(compile_module, module, level, pool, digest) for module, digest in others]
        return [compile_module(first[0], level, pool, first[1]), *(future.result() for future in futures)]
    except KeyboardInterrupt:
        stop_compiling(pool)  # else process exit would wait for the other threads
        raise
    finally:
        threads.shutdown(wait=False, cancel_futures=True)
