"""Compiled programs with everything that is needed to run them, cached on disk by what the program was traced from.

A `Source` names a program by a digest of all that decides it. Where the cache has that program, it is neither traced
nor emitted: machine code, tables and sizes come from the cache. Executables are shared by all kernels of a process.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
import zlib
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from kinema.foundation import content_digest, is_recording, load_entry, source_digest, stage, store_entry
from kinema.trace import Place

from .compilers import Level
from .cubins import JitLevel, assemble, cached_cubins, first_level, forget_assembled
from .devices import Device
from .dump import dump_folder
from .gpu_code import GpuFunction, named
from .host_code import host_code
from .images import CompileOptions, GpuImage, GpuModule, HostExecutable, Source
from .pieces import BLOCK_DIM, Piece, Roles
from .processor import has_fused_multiply_add, is_x86
from .spreading import ask_for_the_same

GENERATORS = ("foundation", "trace", "model", "backend", "sim")
"""Packages whose sources decide what a program is compiled to."""


def program_key(source: Source, options: CompileOptions, more: object) -> str | None:
    """The key of a compiled program in the cache; None where that cannot be known without tracing it."""
    if source.key is None or options.timed or dump_folder() is not None:
        return None
    about = (options.precision, options.lanes, options.runs_per_step, more)
    machine: object = (has_fused_multiply_add(), is_x86())
    if not options.device.is_cpu:
        machine = (options.device.architecture, options.device.n_multiprocessors, options.n_envs)
    return content_digest(source_digest(*GENERATORS), source.key, source.name, options.device.is_cpu, about, machine)


# ------------------------------------------------------------------------------------------------------------------ CPU


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


def _compiled_host(
    source: Source, places: Mapping[str, Place], options: CompileOptions, key: str | None, *, wait: bool
) -> HostExecutable:
    from .generation import compile_for_host  # which takes longer to import than a cached program to load

    made, digests, texts = compile_for_host(source, places, options, wait=wait)
    if key is not None:
        values = {word: getattr(made, word) for word in ("n_scratch", "n_operations", "n_instructions")}
        values |= {"digests": digests, "ints": made.ints, "floats": made.floats}

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
        thread = threading.Thread(target=store, name="kinema cache")
        _storing[:] = [other for other in _storing if other.is_alive()]
        _storing.append(thread)
        thread.start()


_storing: list[threading.Thread] = []


def finish_storing() -> None:
    """Until all programs that were compiled are in the cache."""
    for thread in _storing:
        thread.join()


# ------------------------------------------------------------------------------------------------------------------ GPU


@dataclass(slots=True, eq=False, weakref_slot=True)
class GpuExecutable:
    """A program compiled for a GPU and loaded on it."""

    pieces: list[Piece]
    """Its launches, in order: another list once the optimised tier is active."""
    n_scratch: int
    n_kinds: int
    n_instructions: int
    level: Level = Level.OPTIMISED
    """The active tier."""
    optimised: threading.Event = field(default_factory=threading.Event)
    """Set once the optimised tier is active, or has failed to compile, if it was not from the start."""

    @property
    def n_operations(self) -> int:
        """Floating-point operations of a run, roughly."""
        return sum(piece.n_operations for piece in self.pieces)


_gpu: weakref.WeakValueDictionary[tuple[str, str], GpuExecutable] = weakref.WeakValueDictionary()


def gpu_executable(
    source: Source, places: Mapping[str, Place], options: CompileOptions, roles: Roles | None, *, wait: bool
) -> GpuExecutable:
    """A program for a GPU: one that is loaded already, from the cache, or compiled now."""
    key = program_key(source, options, None if roles is None else roles.count)
    with _sharing:
        found = None if key is None else _gpu.get((options.device.name, key))
    if found is not None:
        return found
    entry = None if key is None else load_entry("programs", key)
    image = GpuImage.of(entry) if entry is not None else _compiled_gpu(source, places, options, roles, wait=wait)
    if entry is None and key is not None:
        store_entry("programs", key, image.values())
    found = _loaded_gpu(image, source.name, options.device, wait=wait)
    if key is not None:
        with _sharing:
            found = _gpu.setdefault((options.device.name, key), found)
    return found


def _loaded_gpu(image: GpuImage, name: str, device: Device, *, wait: bool) -> GpuExecutable:
    """Assemble and load the kernels of an image; those that take long at the baseline tier first."""
    codes = [named(module.ptx, f"{name}_{module.role}") for module in image.modules]
    codes += [named(m.order, f"{name}_{m.role}_order") for m in image.modules if m.order is not None]
    levels = [first_level(code, wait=wait) for code in codes]
    optimised = cached_cubins(codes, device, JitLevel.OPTIMISED)
    tables = [(device.array(ints), device.array(floats)) for ints, floats in image.tables]
    cubins = assemble(codes, device, levels) if optimised is None else optimised
    forget_assembled(codes, device)
    made = GpuExecutable(
        _pieces(image, cubins, tables, name, device), image.n_scratch, image.n_kinds, image.n_instructions
    )
    if optimised is None and JitLevel.BASELINE in levels:
        made.level = Level.BASELINE
        threading.Thread(
            target=_optimise_gpu,
            args=(weakref.ref(made), image, codes, tables, name, device),
            name="kinema optimiser",
            daemon=True,
        ).start()
    return made


def _optimise_gpu(
    made: weakref.ref[GpuExecutable], image: GpuImage, codes: list[bytes], tables: list[Any], name: str, device: Device
) -> None:
    """Assemble the optimised tier of a program and let its kernels switch to that."""
    with contextlib.suppress(Exception):  # the baseline tier stays
        cubins = assemble(codes, device, [JitLevel.OPTIMISED] * len(codes))
        forget_assembled(codes, device)
        executable = made()
        if executable is not None:
            executable.pieces = _pieces(image, cubins, tables, name, device)
            executable.level = Level.OPTIMISED
    executable = made()
    if executable is not None:
        executable.optimised.set()


def _pieces(image: GpuImage, cubins: list[bytes], tables: list[Any], name: str, device: Device) -> list[Piece]:
    """The launches of a program, loaded; `cubins` are those of its modules, then of what orders environments."""
    orders = iter(cubins[len(image.modules) :])

    def load(module: GpuModule, cubin: bytes, ordering: bytes | None) -> Piece:
        code = GpuFunction(cubin, device, module.block_dim, f"{name}_{module.role}")
        order = None
        if ordering is not None:
            order = GpuFunction(ordering, device, BLOCK_DIM, f"{name}_{module.role}_order")
        return Piece(
            code,
            module.role,
            tables[module.table],
            module.n_operations,
            module.envs_per_block,
            module.roles,
            module.n_memory,
            code.n_resident if module.n_memory else 0,
            module.lists,
            module.beside,
            order,
        )

    ordering = [None if module.order is None else next(orders) for module in image.modules]
    with ThreadPoolExecutor() as pool:
        pieces = list(pool.map(load, image.modules, cubins[: len(image.modules)], ordering))
    ask_for_the_same(pieces)
    return pieces


def _compiled_gpu(
    source: Source, places: Mapping[str, Place], options: CompileOptions, roles: Roles | None, *, wait: bool
) -> GpuImage:
    from .generation import GpuCompiler

    return GpuCompiler(places, options, roles, wait=wait).compile(source)
