"""Machine code: compiled by LLVM in a process beside this one, kept on disk; the host's is loaded into this one."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import hashlib
import os
import re
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from kinema.foundation import InternalError, cache_folder, keep
from kinema.trace import ENTRY

from .processor import n_threads, processor_key

_WORKER = Path(__file__).with_name("llvm_worker.py")
_POINTERS, _INTEGERS = 7, 6
_DEFINED = re.compile(r"^define [^@\n]*@(\w+)\(", re.MULTILINE)
HostFunction = Callable[..., None]


class _Workers:
    """Compiling processes that wait for work; each serves one caller at a time."""

    def __init__(self) -> None:
        self._idle: list[subprocess.Popen[bytes]] = []
        self._all: list[subprocess.Popen[bytes]] = []
        self._lock = threading.Lock()
        self._pid = os.getpid()

    def _take(self) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._pid != os.getpid():  # a fork: the parent's processes answer the parent
                self._idle, self._all, self._pid = [], [], os.getpid()
            if self._idle:
                return self._idle.pop()
            worker = subprocess.Popen(
                [sys.executable, str(_WORKER)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
            )
            self._all.append(worker)
            return worker

    def compile(self, text: str) -> bytes:
        """Object code or PTX; an interrupt ends the process that is compiling."""
        worker = self._take()
        try:
            return self._ask(worker, text)
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
    def _ask(worker: subprocess.Popen[bytes], text: str) -> bytes:
        assert worker.stdin is not None
        assert worker.stdout is not None
        source = text.encode()
        with contextlib.suppress(BrokenPipeError):  # the answer, or that there is none, says more
            worker.stdin.write(struct.pack("<I", len(source)) + source)
            worker.stdin.flush()
        head = worker.stdout.read(5)
        if len(head) < 5:
            raise InternalError(f"the compiler's process ended with status {worker.wait()}")
        worked, size = struct.unpack("<?I", head)
        payload = worker.stdout.read(size)
        if len(payload) < size:
            raise InternalError(f"the compiler's process ended in the middle of an answer, with status {worker.wait()}")
        if not worked:
            raise InternalError(f"LLVM refused a program: {payload.decode(errors='replace')}")
        return payload

    def close(self) -> None:
        """End all of them, whatever they are doing."""
        with self._lock:
            workers, self._idle, self._all = self._all, [], []
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


WORKERS = _Workers()
atexit.register(WORKERS.close)


def compile_host(text: str, *called: str) -> HostFunction:
    """The function of a module's text, and of those whose functions it calls; they are compiled side by side."""
    code, *others = _side_by_side([text, *called])
    for own, other in zip(called, others, strict=True):
        _add_function(other, own)
    types = [ctypes.c_void_p] * _POINTERS + [ctypes.c_int64] * _INTEGERS
    return ctypes.CFUNCTYPE(None, *types)(_load(code, ENTRY))


def _side_by_side(texts: Sequence[str]) -> list[bytes]:
    """Machine code of texts: of the first here, so that an interrupt ends it at once, of others in other threads."""
    if len(texts) == 1 or n_threads() == 1:
        return [machine_code(text) for text in texts]
    pool = ThreadPoolExecutor(min(len(texts), n_threads()) - 1)
    try:
        others = [pool.submit(machine_code, text) for text in texts[1:]]
        return [machine_code(texts[0]), *(future.result() for future in others)]
    except KeyboardInterrupt:
        WORKERS.close()  # or the end of this process would wait for the other threads, and they for theirs
        raise
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _add_function(code: bytes, text: str) -> None:
    """Load the function of a module by itself, for others to call; its name says what it does."""
    import llvmlite.binding as llvm

    defined = _DEFINED.search(text)
    assert defined is not None, "a module defines a function"
    name = defined.group(1)
    if name not in _functions:
        _functions[name] = _load(code, name)
        llvm.add_symbol(name, _functions[name])


def machine_code(text: str, kind: str = "o") -> bytes:
    """What a module's text compiles to, from the disk cache if it was compiled before."""
    key = hashlib.sha256(f"{processor_key()} {_WORKER.read_text(encoding='utf-8')} {text}".encode()).hexdigest()[:32]
    file = cache_folder() / "code" / f"{key}.{kind}"
    code = _kept(file)
    if code is None:
        code = WORKERS.compile(text)
        keep(file, hashlib.sha256(code).digest() + code)
    for noted in _noting:
        noted[file.name] = code
    return code


_noting: list[dict[str, bytes]] = []


@contextlib.contextmanager
def noting_code() -> Iterator[dict[str, bytes]]:
    """What is compiled or loaded meanwhile, by content-keyed names: for others to start with."""
    noted: dict[str, bytes] = {}
    _noting.append(noted)
    try:
        yield noted
    finally:
        _noting[:] = [other for other in _noting if other is not noted]


def keep_code(code: dict[str, bytes]) -> None:
    """Keep code that another process compiled, where this one looks for it; what is there already stays."""
    for name, content in code.items():
        file = cache_folder() / "code" / name
        if not file.exists():
            keep(file, hashlib.sha256(content).digest() + content)


def _kept(file: Path) -> bytes | None:
    """Code that was kept, if it is still what it was."""
    try:
        content = file.read_bytes()
    except OSError:
        return None
    digest, code = content[:32], content[32:]
    return code if hashlib.sha256(code).digest() == digest else None


_loading = threading.Lock()
_engines: list[Any] = []
"""What holds loaded code; it stays as long as the process, as launches may."""


_functions: dict[str, int] = {}
"""Where functions are that other code calls."""


def _load(code: bytes, function: str) -> int:
    """Where a function of some machine code is now."""
    import llvmlite.binding as llvm

    with _loading:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        machine = llvm.Target.from_default_triple().create_target_machine(codemodel="jitdefault", jit=True)
        engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
        engine.add_object_file(llvm.ObjectFileRef.from_data(code))
        engine.finalize_object()
        address = engine.get_function_address(function)
        _engines.append(engine)
    return address
