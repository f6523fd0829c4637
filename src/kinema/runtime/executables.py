"""Executables: compiled programs loaded for execution, shared within the process and cached on disk.

A `ProgramSource` identifies a program by a digest of everything that determines it. If the disk cache has the compiled
program, it is neither traced nor emitted: machine code, tables and sizes come from the cache.
"""

from __future__ import annotations

import contextlib
import threading
import time
import weakref
import zlib
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from kinema.core import InternalError, content_digest, is_recording, load_entry, source_digest, store_entry, timed_stage
from kinema.ir import ArenaOffset

from .compiled_program import (
    BLOCK_DIM,
    CompiledKernel,
    CompileOptions,
    GpuCompilation,
    GpuImage,
    GpuModule,
    HostExecutable,
    Partitioning,
    ProgramSource,
)
from .cpu_features import has_fma, has_scatter, is_x86
from .cuda_driver import GpuFunction, rename_kernel
from .devices import Device
from .dump import dump_folder
from .host_jit import TierPolicy, get_host_code, tier_policy
from .launch_graphs import equalise_carveouts
from .llvm_compiler import OptLevel
from .ptx_assembler import JitLevel, assemble, cached_cubins, discard_assembled, first_level

GENERATOR_PACKAGES = ("core", "ir", "codegen", "model", "runtime", "dynamics")
"""Packages whose source code determines compiled programs."""


def program_key(source: ProgramSource, options: CompileOptions, extra: object) -> str | None:
    """Cache key of a compiled program: digest of its source, options, target machine and Kinema's source code.

    None if the source has no key, or if the program is timed or dumped: then it must be compiled.
    """
    if source.key is None or options.timed or dump_folder() is not None:
        return None
    settings = (options.precision, options.lanes, options.runs_per_step, extra)
    machine: object = (has_fma(), has_scatter(), is_x86(), tier_policy() is TierPolicy.BASELINE)
    if not options.device.is_cpu:
        machine = (options.device.architecture, options.device.n_multiprocessors, options.n_envs)
    return content_digest(
        source_digest(*GENERATOR_PACKAGES), source.key, source.name, options.device.is_cpu, settings, machine
    )


# ------------------------------------------------------------------------------------------------------------------ CPU


_host_executables: weakref.WeakValueDictionary[str, HostExecutable] = weakref.WeakValueDictionary()
_executables_lock = threading.Lock()


def host_executable(
    source: ProgramSource, array_offsets: Mapping[str, ArenaOffset], options: CompileOptions, *, wait: bool
) -> HostExecutable:
    """Executable of a program for the CPU: from this process, from the disk cache, or compiled now and stored there.

    With `wait`, returns once the optimised tier is active.
    """
    key = program_key(source, options, None)
    with _executables_lock:
        executable = None if key is None else _host_executables.get(key)
    if executable is None and key is not None:
        executable = _load_cached_host(key, source.name, wait=wait)
    if executable is None:
        executable = _compile_host(source, array_offsets, options, key, wait=wait)
    executable.code.load(wait=wait)
    if key is not None:
        with _executables_lock:
            executable = _host_executables.setdefault(key, executable)
    return executable


def _load_cached_host(key: str, name: str, *, wait: bool) -> HostExecutable | None:
    """Executable of a program for the CPU from the disk cache; None if it is not cached."""
    with timed_stage("look up"):
        entry = load_entry("programs", key)
    if entry is None:
        return None
    compressed = entry["modules"]

    def modules() -> list[str]:
        return [module.decode() for module in zlib.decompress(compressed).split(b"\0")]

    code = get_host_code(entry["digests"], name, modules)
    code.load(wait=wait)
    sizes = (entry[field] for field in ("n_scratch", "n_operations", "n_instructions"))
    return HostExecutable(code, entry["ints"], entry["floats"], *sizes)


def _compile_host(
    source: ProgramSource,
    array_offsets: Mapping[str, ArenaOffset],
    options: CompileOptions,
    key: str | None,
    *,
    wait: bool,
) -> HostExecutable:
    """Compile a program for the CPU and store it in the disk cache under `key` (unless None) in the background."""
    from .compilation import compile_for_host  # slow to import, and not needed for cached programs

    executable, digests, modules = compile_for_host(source, array_offsets, options, wait=wait)
    if key is not None:
        values = {name: getattr(executable, name) for name in ("n_scratch", "n_operations", "n_instructions")}
        values |= {"digests": digests, "ints": executable.ints, "floats": executable.floats}

        def store() -> None:
            compressed = zlib.compress(b"\0".join(module.encode() for module in modules), 1)
            store_entry("programs", key, {**values, "modules": compressed})

        _store_in_background(store)
    return executable


def _store_in_background(store: Callable[[], None]) -> None:
    """Write to the disk cache in a thread that process exit waits for; at once while cache entries are recorded."""
    if is_recording():
        store()
    else:
        thread = threading.Thread(target=store, name="kinema cache")
        _store_threads[:] = [running for running in _store_threads if running.is_alive()]
        _store_threads.append(thread)
        thread.start()


_store_threads: list[threading.Thread] = []


def finish_storing() -> None:
    """Wait until all compiled programs are stored in the disk cache."""
    for thread in _store_threads:
        thread.join()


# ------------------------------------------------------------------------------------------------------------------ GPU


@dataclass(slots=True, eq=False, weakref_slot=True)
class GpuExecutable:
    """A program compiled for a GPU and loaded on it."""

    kernels: list[CompiledKernel]
    """Kernels in launch order; the list is replaced when the optimised tier becomes active."""
    n_scratch: int
    n_reset_queues: int
    n_instructions: int
    level: OptLevel = OptLevel.OPTIMISED
    """Active tier."""
    active_since: dict[OptLevel, float] = field(default_factory=dict)
    """Time at which each tier became active (`time.perf_counter`)."""
    optimised: threading.Event = field(default_factory=threading.Event)
    """Set once the optimised tier is active or has failed to compile; unused if it was active from the start."""

    @property
    def n_operations(self) -> int:
        """Approximate floating-point operations per run."""
        return sum(kernel.n_operations for kernel in self.kernels)


_gpu_executables: weakref.WeakValueDictionary[tuple[str, str], GpuExecutable] = weakref.WeakValueDictionary()


def gpu_executable(
    source: ProgramSource,
    array_offsets: Mapping[str, ArenaOffset],
    options: CompileOptions,
    partitioning: Partitioning | None,
    *,
    wait: bool,
) -> GpuExecutable:
    """Executable of a program for a GPU: from this process, from the disk cache, or compiled now and stored there.

    With `wait`, all kernels are assembled at the optimised level at once.
    """
    key = program_key(source, options, None if partitioning is None else partitioning.count)
    with _executables_lock:
        executable = None if key is None else _gpu_executables.get((options.device.name, key))
    if executable is not None:
        return executable
    entry = None if key is None else load_entry("programs", key)
    compilation = (
        GpuCompilation(GpuImage.from_cache_entry(entry))
        if entry is not None
        else _compile_for_gpu(source, array_offsets, options, partitioning, wait=wait)
    )
    if entry is None and key is not None:
        _store_gpu_image(key, compilation)
    executable = _load_for_gpu(compilation, source.name, options.device, wait=wait)
    if key is not None:
        with _executables_lock:
            executable = _gpu_executables.setdefault((options.device.name, key), executable)
    return executable


def _store_gpu_image(key: str, compilation: GpuCompilation) -> None:
    """Write the final kernels of a program to the disk cache, in the background if they are still being compiled."""
    get_final = compilation.get_final
    if get_final is None:
        store_entry("programs", key, compilation.first.to_cache_entry())
        return

    def store() -> None:
        with contextlib.suppress(InternalError):  # an interrupt has stopped the compilers
            store_entry("programs", key, get_final().to_cache_entry())

    _store_in_background(store)


def _ptx_modules(image: GpuImage, name: str) -> list[bytes]:
    """PTX of all kernels of an image, then of their environment-binning kernels, with the names for profilers."""
    modules = [rename_kernel(module.ptx, f"{name}_{module.label}") for module in image.modules]
    return modules + [
        rename_kernel(module.binning_ptx, f"{name}_{module.label}_order")
        for module in image.modules
        if module.binning_ptx is not None
    ]


def _load_for_gpu(compilation: GpuCompilation, name: str, device: Device, *, wait: bool) -> GpuExecutable:
    """Assemble and load the kernels of a program on a GPU.

    Large kernels start at the baseline tier (unless optimised code is cached); a background thread then assembles the
    optimised tier.
    """
    image, get_final = compilation.first, compilation.get_final
    ptx_modules = _ptx_modules(image, name)
    levels = [first_level(ptx, wait=wait) for ptx in ptx_modules]
    optimised_cubins = cached_cubins(ptx_modules, device, JitLevel.OPTIMISED) if get_final is None else None
    tables = [(device.upload(ints), device.upload(floats)) for ints, floats in image.tables]
    cubins = assemble(ptx_modules, device, levels) if optimised_cubins is None else optimised_cubins
    discard_assembled(ptx_modules, device)
    executable = GpuExecutable(
        _load_kernels(image, cubins, tables, name, device), image.n_scratch, image.n_reset_queues, image.n_instructions
    )
    if get_final is not None or (optimised_cubins is None and JitLevel.BASELINE in levels):
        executable.level = OptLevel.BASELINE
    executable.active_since[executable.level] = time.perf_counter()
    if executable.level is OptLevel.BASELINE:
        threading.Thread(
            target=_optimise_gpu,
            args=(weakref.ref(executable), get_final or (lambda: image), tables, name, device),
            name="kinema optimiser",
            daemon=True,
        ).start()
    return executable


def _optimise_gpu(
    reference: weakref.ref[GpuExecutable],
    get_final: Callable[[], GpuImage],
    tables: list[Any],
    name: str,
    device: Device,
) -> None:
    """Background thread: assemble and load the optimised tier of a GPU program and make it active.

    Does nothing if the executable is no longer in use. If assembly fails, the baseline tier stays active.
    """
    with contextlib.suppress(Exception):  # the baseline tier stays
        image = get_final()
        ptx_modules = _ptx_modules(image, name)
        cubins = assemble(ptx_modules, device, [JitLevel.OPTIMISED] * len(ptx_modules))
        discard_assembled(ptx_modules, device)
        executable = reference()
        if executable is not None:
            executable.kernels = _load_kernels(image, cubins, tables, name, device)
            executable.level = OptLevel.OPTIMISED
            executable.active_since[executable.level] = time.perf_counter()
    executable = reference()
    if executable is not None:
        executable.optimised.set()


def _load_kernels(
    image: GpuImage, cubins: list[bytes], tables: list[Any], name: str, device: Device
) -> list[CompiledKernel]:
    """Load the kernels of a program on a GPU; kernels that run concurrently get equal shared-memory carve-outs.

    Args:
        image: the compiled program.
        cubins: machine code of all modules, then of their environment-binning kernels.
        tables: integer and float tables on the GPU.
        name: prefix of the names of the kernels in profilers.
        device: GPU.
    """
    binning_cubins = iter(cubins[len(image.modules) :])

    def load(module: GpuModule, cubin: bytes, binning: bytes | None) -> CompiledKernel:
        """Load one kernel and its environment-binning kernel, if any."""
        function = GpuFunction(cubin, device, module.block_dim, f"{name}_{module.label}")
        binning_function = None
        if binning is not None:
            binning_function = GpuFunction(binning, device, BLOCK_DIM, f"{name}_{module.label}_order")
        return CompiledKernel(
            function,
            module.label,
            tables[module.table_index],
            module.n_operations,
            module.envs_per_block,
            module.n_partitions,
            module.n_warp_memory,
            function.max_resident_blocks if module.n_warp_memory else 0,
            module.queues,
            module.can_overlap,
            binning_function,
            module.n_exchanged,
            module.n_iterations,
        )

    binning = [None if module.binning_ptx is None else next(binning_cubins) for module in image.modules]
    with ThreadPoolExecutor() as pool:
        kernels = list(pool.map(load, image.modules, cubins[: len(image.modules)], binning))
    equalise_carveouts(kernels)
    return kernels


def _compile_for_gpu(
    source: ProgramSource,
    array_offsets: Mapping[str, ArenaOffset],
    options: CompileOptions,
    partitioning: Partitioning | None,
    *,
    wait: bool,
) -> GpuCompilation:
    """Compile a program to GPU kernels (PTX).

    The compiler is imported here, as cached programs do not need it.
    """
    from .compilation import GpuCompiler

    return GpuCompiler(array_offsets, options, partitioning, wait=wait).compile(source)
