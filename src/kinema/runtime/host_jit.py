"""Just-in-time machine code of the host: linking, loading, and tiered compilation.

Code starts at the baseline tier, which compiles quickly, and is replaced by the optimised tier when a background
compilation has finished. Every floating-point operation of a program is one instruction at both tiers, so that results
do not depend on when that happens. `KINEMA_TIER` restricts compilation to one of the tiers.
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

from kinema.codegen import ENTRY_FUNCTION
from kinema.core import KinemaError, timed_stage

from .cpu_features import TIER_VARIABLE, n_threads
from .llvm_compiler import BACKGROUND, OptLevel, cached_code, compile_module, compile_modules, module_digest
from .perf_map import write_perf_map

_POINTERS, _INTEGERS = 7, 6
_SIGNATURE = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * _POINTERS, *[ctypes.c_int64] * _INTEGERS)
"""C signature of the compiled function: array pointers, then 64-bit integers."""
HostFunction = Callable[..., None]


class TierPolicy(enum.StrEnum):
    """Which tiers are compiled."""

    TIERED = "tiered"
    """Baseline first, optimised in the background."""
    BASELINE = "baseline"
    OPTIMISED = "optimised"


def tier_policy() -> TierPolicy:
    """Tier policy set by `KINEMA_TIER`, tiered by default; KinemaError for other values."""
    value = os.environ.get(TIER_VARIABLE) or TierPolicy.TIERED
    try:
        return TierPolicy(value)
    except ValueError:
        raise KinemaError(f"{TIER_VARIABLE}={value}: expected {', '.join(TierPolicy)}") from None


def is_tiered() -> bool:
    """Whether code starts at the baseline tier and is replaced by the optimised tier."""
    return tier_policy() is TierPolicy.TIERED


def first_tier(*, wait: bool) -> str:
    """Tier at which uncached code is compiled first; `wait` asks for the optimised tier."""
    policy = tier_policy()
    return str(
        TierPolicy.OPTIMISED
        if policy is TierPolicy.OPTIMISED or (wait and policy is TierPolicy.TIERED)
        else TierPolicy.BASELINE
    )


class HostCode:
    """The compiled function `kinema_run` of a set of LLVM modules, at its active tier."""

    def __init__(self, digests: Sequence[str], name: str, modules: Callable[[], Sequence[str] | None]) -> None:
        """Code of modules with given digests, not loaded yet.

        Args:
            digests: content hashes of the LLVM modules; the first defines the entry function, which calls the others.
            name: name in profilers.
            modules: returns the LLVM IR, or None if it is unknown; then the code must be in the disk cache.
        """
        self.digests = tuple(digests)
        self.name = name
        self.level: OptLevel | None = None
        """Active tier; None before `load`."""
        self.active_since: dict[OptLevel, float] = {}
        """Time at which each tier became active (`time.perf_counter`) [s]."""
        self.run: HostFunction = _not_loaded
        """Function of the active tier; it may be replaced between two calls."""
        self.optimised = threading.Event()
        """Set once the optimised tier is active, or has failed to compile."""
        self._modules = modules
        self._compiling_pid: int | None = None
        """Process whose threads compile the optimised tier in the background: threads do not survive a fork."""
        self._engines: list[Any] = []
        self._load_lock = threading.Lock()

    def load(self, *, wait: bool = False) -> bool:
        """Load or compile the function, at the optimised tier with `wait`; True if its code or LLVM IR is available.

        With policy `baseline` the optimised tier is never compiled nor waited for. Otherwise the baseline tier is
        loaded first and the optimised tier compiled in the background.
        """
        with self._load_lock:
            policy = tier_policy()
            wait = policy is TierPolicy.OPTIMISED or (wait and policy is TierPolicy.TIERED)
            if self.level is OptLevel.OPTIMISED or (self.level is OptLevel.BASELINE and not wait):
                return True
            if self.level is None and policy is not TierPolicy.BASELINE and self._load_cached(OptLevel.OPTIMISED):
                return True
            if self.level is None and not wait:
                if not self._load_cached(OptLevel.BASELINE):
                    modules = self._modules()
                    if modules is None:
                        return False
                    self._install(self._compile(modules, OptLevel.BASELINE), OptLevel.BASELINE)
                if policy is TierPolicy.TIERED:
                    self._optimise_in_background()
                return True
            if self._compiling_pid != os.getpid():
                modules = self._modules()
                if modules is not None:
                    self._install(self._compile(modules, OptLevel.OPTIMISED), OptLevel.OPTIMISED)
                return self.level is not None
        self.optimised.wait()
        return True

    def _compile(self, modules: Sequence[str], level: OptLevel) -> list[bytes]:
        with timed_stage(f"compile {level.name.lower()}"):
            return compile_modules(modules, self.digests, level)

    def _load_cached(self, level: OptLevel) -> bool:
        """Load all modules of a tier from the disk cache; False if any is missing."""
        with timed_stage("look up"):
            cached = [cached_code(digest, level) for digest in self.digests]
        objects = [code for code in cached if code is not None]
        if len(objects) < len(cached):
            return False
        self._install(objects, level)
        return True

    def _optimise_in_background(self) -> None:
        """Submit all modules to the background threads that compile the optimised tier."""
        modules = self._modules()
        if modules is None:
            return
        self._compiling_pid = os.getpid()
        job = _OptimiseJob(weakref.ref(self), list(modules))
        for index in range(len(modules)):
            _submit(job, index)

    def _install(self, objects: Sequence[bytes], level: OptLevel) -> None:
        """Link the object files of an optimisation tier, and make their entry function the one that later calls run.

        Code of the other tier stays loaded, as a thread may be running it.
        """
        with timed_stage("load"):
            engine = _link(objects)
        self._engines.append(engine)  # code of the other tier stays: a thread may be running it
        write_perf_map(self.name, level.name.lower(), engine, objects)
        self.run, self.level = _SIGNATURE(engine.get_function_address(ENTRY_FUNCTION)), level
        self.active_since[level] = time.perf_counter()
        if level is OptLevel.OPTIMISED:
            self.optimised.set()

    def switch_to_optimised(self, objects: Sequence[bytes] | None) -> None:
        """Activate the optimised tier compiled in the background; `objects` is None if compilation failed."""
        try:
            with self._load_lock:
                if objects is not None and self.level is not OptLevel.OPTIMISED:
                    self._install(objects, OptLevel.OPTIMISED)
        finally:
            self.optimised.set()


def _not_loaded(*_: object) -> None:
    raise AssertionError("host code is run before it is loaded")


_loaded_codes: weakref.WeakValueDictionary[tuple[str, ...], HostCode] = weakref.WeakValueDictionary()
_codes_lock = threading.Lock()


def get_host_code(digests: Sequence[str], name: str, modules: Callable[[], Sequence[str] | None]) -> HostCode:
    """Host code of modules by their digests: the instance already in use in this process, or a new one."""
    with _codes_lock:
        code = _loaded_codes.get(tuple(digests))
        if code is None:
            code = _loaded_codes[tuple(digests)] = HostCode(digests, name, modules)
        return code


def compile_host(*modules: str, name: str = "kinema", wait: bool = False) -> HostCode:
    """Compile and load LLVM modules, of which the first defines the entry function."""
    code = get_host_code([module_digest(module) for module in modules], name, lambda: modules)
    code.load(wait=wait)
    return code


# ------------------------------------------------------------------------------------------------------------- linking


def _link(objects: Sequence[bytes]) -> Any:
    """LLVM MCJIT execution engine that holds object files, linked with each other."""
    import llvmlite.binding as llvm

    with _link_lock:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        machine = llvm.Target.from_default_triple().create_target_machine(codemodel="jitdefault", jit=True)
        engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
        for code in objects:
            engine.add_object_file(llvm.ObjectFileRef.from_data(code))
        engine.finalize_object()
        return engine


_link_lock = threading.Lock()


# -------------------------------------------------------------------------------------------- background compilation


class _OptimiseJob:
    """Compilation of the optimised tier of one `HostCode`; its modules are compiled by several threads."""

    def __init__(self, code: weakref.ref[HostCode], modules: list[str]) -> None:
        self.code = code
        self.modules = modules
        self.objects: dict[int, bytes | None] = {}
        self.lock = threading.Lock()

    def compile(self, index: int) -> None:
        """Compile one module at the optimised tier; the last one to finish activates the tier.

        Nothing is compiled if the code is no longer in use. If any module fails, the baseline tier stays active.
        """
        compiled = None
        if self.code() is not None:
            with suppress(Exception):  # the baseline tier stays
                compiled = compile_module(self.modules[index], OptLevel.OPTIMISED, BACKGROUND)
        with self.lock:
            self.objects[index] = compiled
            is_last = len(self.objects) == len(self.modules)
        code = self.code() if is_last else None
        if code is not None:
            results = [self.objects[i] for i in range(len(self.modules))]
            objects = [result for result in results if result is not None]
            code.switch_to_optimised(objects if len(objects) == len(results) else None)


_job_queue: SimpleQueue[tuple[_OptimiseJob, int]] = SimpleQueue()
_worker_threads: list[threading.Thread] = []


def _submit(job: _OptimiseJob, index: int) -> None:
    """Queue one module of a job, starting another worker thread if there are fewer than cores."""
    with _codes_lock:
        _worker_threads[:] = [thread for thread in _worker_threads if thread.is_alive()]  # none of them survives a fork
        _job_queue.put((job, index))
        if len(_worker_threads) < n_threads():
            thread = threading.Thread(target=_worker_loop, name="kinema optimiser", daemon=True)
            thread.start()
            _worker_threads.append(thread)


def _worker_loop() -> None:
    """Background thread: compile queued modules until the process ends."""
    while True:
        job, index = _job_queue.get()
        with suppress(Exception):
            job.compile(index)
        del job


def wait_for_background() -> None:
    """Wait until all host code in use has reached the optimised tier."""
    with _codes_lock:
        codes = list(_loaded_codes.values())
    for code in codes:
        if code.level is OptLevel.BASELINE and tier_policy() is TierPolicy.TIERED:
            code.load(wait=True)
