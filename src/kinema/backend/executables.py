"""Compiled programs with everything that is needed to run them, cached on disk by what the program was traced from.

A `Source` names a program by a digest of all that decides it. Where the cache has that program, it is neither traced
nor emitted: machine code, tables and sizes come from the cache. Executables are shared by all kernels of a process.
"""

from __future__ import annotations

import platform
import threading
import weakref
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from kinema.foundation import (
    content_digest,
    is_recording,
    load_entry,
    no_collecting,
    source_digest,
    stage,
    store_entry,
)
from kinema.trace import Place, Program, Target, emit_llvm, optimise

from .compilers import FOREGROUND, Level, compile_ahead, module_digest
from .devices import Device, numpy_type
from .dump import dump_folder, dump_modules, dump_program
from .host_code import HostCode, Tiers, host_code, tiers
from .processor import has_fused_multiply_add, is_x86, n_threads

GENERATORS = ("foundation", "trace", "model", "backend", "sim")
"""Packages whose sources decide what a program is compiled to."""
Tables = tuple[np.ndarray, np.ndarray]
"""Integers, and numbers in the precision of the program."""


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """A program that is traced only where the cache does not have it."""

    trace: Callable[[], Program]
    key: str | None = None
    """A digest of all that the program is made from, but for the sources of Kinema; None where it is not known."""
    name: str = "kinema"
    """What profilers show."""


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """What a program is compiled for."""

    device: Device
    precision: str
    lanes: int
    runs_per_step: int
    n_envs: int | None
    """About how many environments it runs for, on a GPU; None for any number."""
    timed: bool = False
    """Whether the time of its blocks is measured, on a CPU (`kinema.trace.block_names`)."""


def program_key(source: Source, options: CompileOptions, more: object) -> str | None:
    """The key of a compiled program in the cache; None where that cannot be known without tracing it."""
    if source.key is None or options.timed or dump_folder() is not None:
        return None
    about = (options.precision, options.lanes, options.runs_per_step, more)
    machine: object = (has_fused_multiply_add(), is_x86())
    if not options.device.is_cpu:
        machine = (options.device.architecture, options.device.n_multiprocessors, options.n_envs)
    return content_digest(source_digest(*GENERATORS), source.key, source.name, options.device.is_cpu, about, machine)


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class HostExecutable:
    """A program compiled for the CPU."""

    code: HostCode
    ints: np.ndarray
    floats: np.ndarray
    n_scratch: int
    """Rows of the scratch memory of a run."""
    n_operations: int
    """Floating-point operations of a run, roughly."""
    n_instructions: int


_host: weakref.WeakValueDictionary[str, HostExecutable] = weakref.WeakValueDictionary()
_sharing = threading.Lock()


def host_executable(
    source: Source, places: Mapping[str, Place], options: CompileOptions, *, wait: bool
) -> HostExecutable:
    """A program for the CPU: one that is loaded already, from the cache, or compiled now."""
    key = program_key(source, options, None)
    with _sharing:
        found = None if key is None else _host.get(key)
    if found is None and key is not None:
        found = _cached_host(key, source.name, wait=wait)
    if found is None:
        found = _compiled_host(source, places, options, key, wait=wait)
    found.code.load(wait=wait)
    if key is not None:
        with _sharing:
            found = _host.setdefault(key, found)
    return found


def _cached_host(key: str, name: str, *, wait: bool) -> HostExecutable | None:
    with stage("look up"):
        entry = load_entry("programs", key)
    if entry is None:
        return None
    texts = entry["modules"]

    def modules() -> list[str]:
        return [text.decode() for text in zlib.decompress(texts).split(b"\0")]

    code = host_code(entry["digests"], name, modules)
    code.load(wait=wait)
    sizes = (entry[word] for word in ("n_scratch", "n_operations", "n_instructions"))
    return HostExecutable(code, entry["ints"], entry["floats"], *sizes)


@no_collecting()
def _compiled_host(
    source: Source, places: Mapping[str, Place], options: CompileOptions, key: str | None, *, wait: bool
) -> HostExecutable:
    FOREGROUND.start(min(2, n_threads()))  # while the program is traced
    with stage("trace"):
        program = source.trace()
    n_instructions = program.n_instructions
    timed_on = platform.machine() if options.timed else ""
    level = Level.OPTIMISED if wait or tiers() is Tiers.OPTIMISED else Level.BASELINE
    with stage("emit"):
        program = optimise(program)
        ints, floats = in_precision(program.tables(), options.precision)
        target = Target(options.precision, options.lanes, fused=has_fused_multiply_add(), flushes=is_x86())
        ahead = partial(compile_ahead, level=level)
        texts = emit_llvm(program, places, target, options.runs_per_step, on_module=ahead, timed_on=timed_on)
        digests = [module_digest(text) for text in texts]
    if dump_folder() is not None:
        dump_program(source.name, digests[0], str(program))
        dump_modules(source.name, digests[0], texts)
    code = host_code(digests, source.name, lambda: texts)
    code.load(wait=wait)
    made = HostExecutable(code, ints, floats, program.n_scratch, program.n_operations, n_instructions)
    if key is not None:
        values = {word: getattr(made, word) for word in ("n_scratch", "n_operations", "n_instructions")}
        values |= {"digests": digests, "ints": ints, "floats": floats}

        def store() -> None:
            compressed = zlib.compress(b"\0".join(text.encode() for text in texts), 1)
            store_entry("programs", key, {**values, "modules": compressed})

        _stored_by_thread(store)
    return made


def _stored_by_thread(store: Callable[[], None]) -> None:
    """Write to the cache beside the first steps; the process ends when that is done. Recordings want it at once."""
    if is_recording():
        store()
    else:
        threading.Thread(target=store, name="kinema cache").start()


def in_precision(tables: tuple[np.ndarray, np.ndarray], precision: str) -> Tables:
    """Tables of a program as its code reads them."""
    ints, floats = tables
    with np.errstate(over="ignore"):  # beyond the largest number is infinite
        return np.ascontiguousarray(ints), np.ascontiguousarray(floats.astype(numpy_type(precision)))
