"""LLVM IR to machine code: in worker processes, at one of two optimisation levels, cached on disk by content."""

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

from kinema.foundation import InternalError, content_digest, load_entry, store_entry

from .llvm_worker import ANSWER, REQUEST
from .processor import n_threads, processor_key

_WORKER = Path(__file__).with_name("llvm_worker.py")
_SWITCH_INTERVAL = 2e-4
"""Seconds; Python's own is 5e-3, which is as long as a module takes to be handed over."""
_LOW_PRIORITY = 10
"""The niceness of processes that compile in the background."""


class Level(enum.IntEnum):
    """Optimisation levels of LLVM's code generator; both produce code that computes the same bits."""

    BASELINE = 0
    """Fast instruction selection and register allocation: compiles about ten times faster."""
    OPTIMISED = 2


class WorkerPool:
    """Compiling processes that wait for work; each serves one caller at a time."""

    def __init__(self, niceness: int = 0, command: Sequence[str] = ()) -> None:
        """`command` is the script of the processes and its arguments; LLVM's where none is given."""
        self._niceness = niceness
        self._command = command
        self._idle: list[subprocess.Popen[bytes]] = []
        self._all: list[subprocess.Popen[bytes]] = []
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._is_final = False

    def start(self, count: int = 1) -> None:
        """Have so many processes start now: they are ready when they are needed."""
        with self._lock:
            self._forget_parent()
            for _ in range(count - len(self._all)):
                self._idle.append(self._started())

    def _forget_parent(self) -> None:
        if self._pid != os.getpid():  # a fork: the parent's processes answer the parent
            self._idle, self._all, self._pid, self._is_final = [], [], os.getpid(), False

    def _started(self) -> subprocess.Popen[bytes]:
        worker = subprocess.Popen(
            [sys.executable, *(self._command or [str(_WORKER)])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        )
        if self._niceness and hasattr(os, "setpriority"):
            with contextlib.suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, worker.pid, self._niceness)
        self._all.append(worker)
        return worker

    def _take(self) -> subprocess.Popen[bytes]:
        with self._lock:
            self._forget_parent()
            while self._idle:
                worker = self._idle.pop()
                if worker.poll() is None:
                    return worker
                self._all.remove(worker)  # somebody killed it
                end(worker)
            if self._is_final:
                raise InternalError("nothing is compiled while Python ends")
            return self._started()

    def compile(self, text: str | bytes, level: int = Level.OPTIMISED, *, assembly: bool = False) -> bytes:
        """Object code, assembly, PTX or a cubin; an interrupt ends the process that is compiling."""
        worker = self._take()
        try:
            return self._ask(worker, text, level, assembly=assembly)
        except BaseException:
            end(worker)
            raise
        finally:
            with self._lock:
                if worker.returncode is None:
                    self._idle.append(worker)
                elif worker in self._all:
                    self._all.remove(worker)

    @staticmethod
    def _ask(worker: subprocess.Popen[bytes], text: str | bytes, level: int, *, assembly: bool = False) -> bytes:
        assert worker.stdin is not None
        assert worker.stdout is not None
        source = text if isinstance(text, bytes) else text.encode()
        with contextlib.suppress(BrokenPipeError):  # the answer, or that there is none, says more
            worker.stdin.write(REQUEST.pack(level, assembly, len(source)) + source)
            worker.stdin.flush()
        head = worker.stdout.read(ANSWER.size)
        if len(head) < ANSWER.size:
            raise InternalError(f"the compiler process ended with status {worker.wait()}")
        worked, size = ANSWER.unpack(head)
        payload = worker.stdout.read(size)
        if len(payload) < size:
            raise InternalError(f"the compiler process ended in the middle of an answer, with status {worker.wait()}")
        if not worked:
            raise InternalError(f"the compiler refused a module: {payload.decode(errors='replace')}")
        return payload

    def close(self, *, final: bool = False) -> None:
        """End all processes, whatever they are doing; with `final`, threads that are left start no others."""
        with self._lock:
            workers, self._idle, self._all = self._all, [], []
            self._is_final = final
        if self._pid == os.getpid():
            for worker in workers:
                end(worker)


def end(worker: subprocess.Popen[bytes]) -> None:
    """Stop a process, whatever it is doing."""
    worker.kill()
    for stream in (worker.stdin, worker.stdout):
        if stream is not None:
            with contextlib.suppress(BrokenPipeError):
                stream.close()
    worker.wait()


FOREGROUND, BACKGROUND = WorkerPool(), WorkerPool(_LOW_PRIORITY)
atexit.register(FOREGROUND.close, final=True)
atexit.register(BACKGROUND.close, final=True)


def module_digest(text: str) -> str:
    """The content hash of a module of LLVM IR."""
    return hashlib.sha256(text.encode()).hexdigest()[:40]


@cache
def _compiler_digest() -> str:
    """Changes with the processor, the worker's source and the version of LLVM."""
    from importlib.metadata import version

    return content_digest(processor_key(), _WORKER.read_text(encoding="utf-8"), version("llvmlite"))


def _code_key(digest: str, level: Level) -> str:
    return content_digest(_compiler_digest(), digest, int(level))


def cached_code(digest: str, level: Level) -> bytes | None:
    """Machine code of a module from the disk cache."""
    entry = load_entry("code", _code_key(digest, level))
    return None if entry is None else entry["code"]


_ahead: dict[tuple[str, Level], Future[bytes]] = {}
"""Compilations that were started before their result is asked for."""
_at_once = threading.BoundedSemaphore(n_threads())
"""Held by each of them while it runs: no more processes than cores."""


def compile_ahead(text: str, level: Level) -> None:
    """Start to compile a module in another thread; `machine_code` gives the result."""
    digest, future = module_digest(text), Future[bytes]()

    def run() -> None:
        with _at_once:
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(_compiled(text, digest, level, FOREGROUND))
                except BaseException as error:  # whoever asks for the result is told
                    future.set_exception(error)

    _ahead[digest, level] = future
    threading.Thread(target=run, name="kinema compiler", daemon=True).start()


_switching = threading.Lock()
_emitting: list[float] = []
"""Python's switch interval as each thread that emits found it."""


@contextlib.contextmanager
def compiling_ahead() -> Iterator[None]:
    """While modules are emitted that are compiled ahead: the threads that hand them over run soon.

    An interrupt ends the compilers, and drops what they have not begun.
    """
    with _switching:
        _emitting.append(sys.getswitchinterval())  # of several threads the last to end restores what the first found
        sys.setswitchinterval(min(_emitting[0], _SWITCH_INTERVAL))
    try:
        yield
    except KeyboardInterrupt:
        stop_compiling(FOREGROUND)
        raise
    finally:
        with _switching:
            if len(_emitting) == 1:
                sys.setswitchinterval(_emitting[0])
            _emitting.pop()


def stop_compiling(pool: WorkerPool) -> None:
    """End the processes of a pool, whatever they are doing, and drop compilations that are waiting for them."""
    if pool is FOREGROUND:
        while _ahead:
            _ahead.popitem()[1].cancel()
    pool.close()


def forget_ahead(digests: Sequence[str]) -> None:
    """Drop compilations of modules that were started ahead and nobody needs, as the cache had better code."""
    for digest in digests:
        for level in Level:
            future = _ahead.pop((digest, level), None)
            if future is not None:
                future.cancel()


def machine_code(text: str, level: Level = Level.OPTIMISED, pool: WorkerPool | None = None) -> bytes:
    """Machine code of a module, from the disk cache if it was compiled before."""
    digest = module_digest(text)
    future = _ahead.pop((digest, level), None)
    return _compiled(text, digest, level, pool or FOREGROUND) if future is None else future.result()


def _compiled(text: str, digest: str, level: Level, pool: WorkerPool) -> bytes:
    code = cached_code(digest, level)
    if code is None:
        code = pool.compile(text, level)
        store_entry("code", _code_key(digest, level), {"code": code})
    return code


def compile_modules(texts: Sequence[str], level: Level, pool: WorkerPool | None = None) -> list[bytes]:
    """Machine code of several modules; an interrupt ends their compilers at once."""
    pool = pool or FOREGROUND
    threads = ThreadPoolExecutor(max(1, min(len(texts), n_threads()) - 1))
    try:
        if n_threads() == 1:
            return [machine_code(text, level, pool) for text in texts]
        others = [threads.submit(machine_code, text, level, pool) for text in texts[1:]]
        return [machine_code(texts[0], level, pool), *(future.result() for future in others)]
    except KeyboardInterrupt:
        stop_compiling(pool)  # or the end of this process would wait for the other threads
        raise
    finally:
        threads.shutdown(wait=False, cancel_futures=True)
