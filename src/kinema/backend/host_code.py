"""Machine code in this process: loaded once for all kernels that run it, unloaded with the last of them.

Compilation is tiered. Code starts at the baseline tier, which compiles quickly, and is replaced by the optimised tier
when a background compilation is done. Every floating-point operation of a program is one instruction at both tiers, so
that results do not depend on when that happens. `KINEMA_TIER` restricts compilation to one of the tiers.
"""

from __future__ import annotations

import ctypes
import enum
import os
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import SimpleQueue
from typing import Any

from kinema.foundation import KinemaError, stage
from kinema.trace import ENTRY

from .compilers import BACKGROUND, Level, cached_code, compile_modules, machine_code, module_digest
from .perf_map import note_symbols
from .processor import n_threads

TIER_VARIABLE = "KINEMA_TIER"
_POINTERS, _INTEGERS = 7, 6
_SIGNATURE = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * _POINTERS, *[ctypes.c_int64] * _INTEGERS)
HostFunction = Callable[..., None]


class Tiers(enum.StrEnum):
    """Which tiers are compiled."""

    TIERED = "tiered"
    """Baseline first, optimised in the background."""
    BASELINE = "baseline"
    OPTIMISED = "optimised"


def tiers() -> Tiers:
    """As `KINEMA_TIER` says, tiered unless it is set."""
    asked = os.environ.get(TIER_VARIABLE) or Tiers.TIERED
    try:
        return Tiers(asked)
    except ValueError:
        raise KinemaError(f"{TIER_VARIABLE}={asked}: expected {', '.join(Tiers)}") from None


def is_tiered() -> bool:
    """Whether code starts at the baseline tier and is replaced by the optimised one."""
    return tiers() is Tiers.TIERED


def first_tier(*, wait: bool) -> str:
    """The tier that code which is not cached is compiled at first."""
    wanted = tiers()
    return str(Tiers.OPTIMISED if wanted is Tiers.OPTIMISED or (wait and wanted is Tiers.TIERED) else Tiers.BASELINE)


class HostCode:
    """The function `kinema_run` of some LLVM modules, of which the others hold functions that it calls."""

    def __init__(self, digests: Sequence[str], name: str, texts: Callable[[], Sequence[str] | None]) -> None:
        """`texts` gives the modules, or None where they are not known: the code has to be in the disk cache then."""
        self.digests = tuple(digests)
        self.name = name
        self.level: Level | None = None
        """The active tier."""
        self.active_since: dict[Level, float] = {}
        """When tiers became active, by `time.perf_counter`."""
        self.run: HostFunction = _not_loaded
        """The function at the active tier; it may be replaced between two calls."""
        self.optimised = threading.Event()
        """Set once the optimised tier is active, or has failed to compile."""
        self._texts = texts
        self._compiled_by: int | None = None
        """The process whose background threads compile the optimised tier: they do not survive a fork."""
        self._engines: list[Any] = []
        self._loading = threading.Lock()

    def load(self, *, wait: bool = False) -> bool:
        """Make the function available, at the optimised tier with `wait`; whether the code or its text is known.

        Where `KINEMA_TIER` says `baseline`, that is all there is, and nobody waits for more.
        """
        with self._loading:
            wanted = tiers()
            wait = wanted is Tiers.OPTIMISED or (wait and wanted is Tiers.TIERED)
            if self.level is Level.OPTIMISED or (self.level is Level.BASELINE and not wait):
                return True
            if self.level is None and wanted is not Tiers.BASELINE and self._load_cached(Level.OPTIMISED):
                return True
            if self.level is None and not wait:
                if not self._load_cached(Level.BASELINE):
                    texts = self._texts()
                    if texts is None:
                        return False
                    self._install(self._compiled(texts, Level.BASELINE), Level.BASELINE)
                if wanted is Tiers.TIERED:
                    self._optimise_later()
                return True
            if self._compiled_by != os.getpid():
                texts = self._texts()
                if texts is not None:
                    self._install(self._compiled(texts, Level.OPTIMISED), Level.OPTIMISED)
                return self.level is not None
        self.optimised.wait()
        return True

    @staticmethod
    def _compiled(texts: Sequence[str], level: Level) -> list[bytes]:
        with stage(f"compile {level.name.lower()}"):
            return compile_modules(texts, level)

    def _load_cached(self, level: Level) -> bool:
        with stage("look up"):
            found = [cached_code(digest, level) for digest in self.digests]
        known = [code for code in found if code is not None]
        if len(known) < len(found):
            return False
        self._install(known, level)
        return True

    def _optimise_later(self) -> None:
        texts = self._texts()
        if texts is None:
            return
        self._compiled_by = os.getpid()
        job = _Job(weakref.ref(self), list(texts))
        for number in range(len(texts)):
            _background(job, number)

    def _install(self, objects: Sequence[bytes], level: Level) -> None:
        """Link the modules and make their function the active one."""
        with stage("load"):
            engine = _linked(objects)
        self._engines.append(engine)  # code of the other tier stays: a thread may be running it
        note_symbols(self.name, level.name.lower(), engine, objects)
        self.run, self.level = _SIGNATURE(engine.get_function_address(ENTRY)), level
        self.active_since[level] = time.perf_counter()
        if level is Level.OPTIMISED:
            self.optimised.set()

    def finish(self, objects: Sequence[bytes] | None) -> None:
        """Switch to optimised code that was compiled in the background; None where that failed."""
        try:
            with self._loading:
                if objects is not None and self.level is not Level.OPTIMISED:
                    self._install(objects, Level.OPTIMISED)
        finally:
            self.optimised.set()


def _not_loaded(*_: object) -> None:
    raise AssertionError("host code is run before it is loaded")


_codes: weakref.WeakValueDictionary[tuple[str, ...], HostCode] = weakref.WeakValueDictionary()
_codes_lock = threading.Lock()


def host_code(digests: Sequence[str], name: str, texts: Callable[[], Sequence[str] | None]) -> HostCode:
    """The code of some modules: that which is loaded already, if somebody uses it."""
    with _codes_lock:
        found = _codes.get(tuple(digests))
        if found is None:
            found = _codes[tuple(digests)] = HostCode(digests, name, texts)
        return found


def compile_host(*texts: str, name: str = "kinema", wait: bool = False) -> HostCode:
    """Compile and load the modules of a function."""
    code = host_code([module_digest(text) for text in texts], name, lambda: texts)
    code.load(wait=wait)
    return code


# ------------------------------------------------------------------------------------------------------------- linking


def _linked(objects: Sequence[bytes]) -> Any:
    """An execution engine of LLVM that holds some object files, linked with each other."""
    import llvmlite.binding as llvm

    with _linking:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        machine = llvm.Target.from_default_triple().create_target_machine(codemodel="jitdefault", jit=True)
        engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
        for code in objects:
            engine.add_object_file(llvm.ObjectFileRef.from_data(code))
        engine.finalize_object()
        return engine


_linking = threading.Lock()


# -------------------------------------------------------------------------------------------- background compilation


class _Job:
    """The modules of one function, compiled by several threads."""

    def __init__(self, code: weakref.ref[HostCode], texts: list[str]) -> None:
        self.code = code
        self.texts = texts
        self.objects: dict[int, bytes | None] = {}
        self.lock = threading.Lock()

    def compile(self, number: int) -> None:
        """Compile one module; the last of them makes the code switch. Nothing is done for code that nobody uses."""
        made = None
        if self.code() is not None:
            with suppress(Exception):  # the baseline tier stays
                made = machine_code(self.texts[number], Level.OPTIMISED, BACKGROUND)
        with self.lock:
            self.objects[number] = made
            done = len(self.objects) == len(self.texts)
        code = self.code() if done else None
        if code is not None:
            found = [self.objects[i] for i in range(len(self.texts))]
            known = [x for x in found if x is not None]
            code.finish(known if len(known) == len(found) else None)


_jobs: SimpleQueue[tuple[_Job, int]] = SimpleQueue()
_threads: list[threading.Thread] = []


def _background(job: _Job, number: int) -> None:
    with _codes_lock:
        _threads[:] = [thread for thread in _threads if thread.is_alive()]  # none of them survives a fork
        _jobs.put((job, number))
        if len(_threads) < n_threads():
            thread = threading.Thread(target=_serve, name="kinema optimiser", daemon=True)
            thread.start()
            _threads.append(thread)


def _serve() -> None:
    while True:
        job, number = _jobs.get()
        with suppress(Exception):
            job.compile(number)
        del job


def wait_for_background() -> None:
    """Until all code in use is optimised."""
    with _codes_lock:
        waiting = list(_codes.values())
    for code in waiting:
        if code.level is Level.BASELINE and tiers() is Tiers.TIERED:
            code.load(wait=True)
