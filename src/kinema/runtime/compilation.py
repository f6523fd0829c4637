"""Compilation pipeline: trace, optimise, split into kernels, choose occupancy and shared memory, emit LLVM IR.

The LLVM IR is compiled for the CPU, or to PTX for a GPU. On a GPU, a program with cooperative regions is split into
kernels of three types: thread kernels (one thread, or one thread per partition, per environment), warp kernels (one
warp per environment) and work-queue kernels (threads of all environments share queued loop iterations).
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from kinema.codegen import (
    Target,
    WarpRegionConfig,
    chunk_iterations,
    emit_binning_kernel,
    emit_cpu_modules,
    emit_filter_kernel,
    emit_queue_kernel,
    emit_thread_kernel,
    emit_warp_kernel,
    inline_specializations,
    is_divergent,
    max_queued_iterations,
    queued_specializations,
    warp_region_tables,
)
from kinema.core import pause_garbage_collection, timed_stage
from kinema.ir import (
    CPU_PASSES,
    SCRATCH,
    SEPARATED_EXCHANGE,
    ArenaOffset,
    BasicBlock,
    KernelPart,
    MemoryLocation,
    Program,
    basic_blocks,
    exchange_size,
    fuse_multiply_add,
    gpu_passes,
    optimise,
    optimise_basic_block,
    partition_basic_block,
    partitions_of_scratch,
    reduce_staged_records,
    round_up_to_4,
    run_passes,
    separate_partitions,
)

from .compiled_program import (
    BLOCK_DIM,
    CompileOptions,
    GpuCompilation,
    GpuImage,
    GpuModule,
    HostExecutable,
    Partitioning,
    ProgramSource,
    TableArrays,
    WorkQueues,
)
from .cpu_features import has_fma, has_scatter, is_x86, n_threads
from .cuda_driver import (
    CARVEOUT_STEPS,
    FULL_REGISTER_BLOCKS,
    SM_PARTITIONS,
    WARP_SIZE,
    blocks_fitting,
    compile_ptx,
    rename_kernel,
)
from .devices import Device, numpy_dtype
from .dump import dump_folder, dump_modules, dump_program
from .host_jit import TierPolicy, get_host_code, is_tiered, tier_policy
from .llvm_compiler import FOREGROUND, OptLevel, async_compilation, compile_async, discard_pending, module_digest
from .ptx_assembler import assemble_async, first_level, start_gpu_compilers

# --------------------------------------------------------------------------------------------------- work-queue kernels

QUEUE_BLOCKS_PER_SM = 8
"""Thread blocks per multiprocessor that process a work queue. Most queues are short, and idle blocks cost launch
time."""
FILTER_WARPS_PER_SM = 28
"""Warps per multiprocessor of a filter kernel: about as many as are resident at a time."""


def work_queue_kernels(
    part_index: int,
    emit_arguments: tuple[KernelPart, Mapping[str, ArenaOffset], Target],
    device: Device,
    n_envs: int,
) -> list[tuple[str, WorkQueues, int, Callable[[], str]]]:
    """Kernels of a work-queue loop: filter kernels, and one queue kernel per expensive specialization.

    The first filter kernel appends the iterations of expensive specializations that pass to work queues, which the
    queue kernels process; the second filter kernel processes the iterations of cheap specializations itself.

    Args:
        part_index: index of the part of the program; identifies its queues.
        emit_arguments: first arguments of the emit functions: part, array offsets, target.
        device: GPU, for its number of multiprocessors.
        n_envs: approximate number of environments, for the number of chunks of iterations.

    Returns:
        Per kernel its label, its queues, the number of floating-point operations per run, and a function that emits its
        LLVM IR.
    """
    part = emit_arguments[0]
    queue_loop = part.work_queue_loop
    assert queue_loop is not None
    base_queues = WorkQueues(part_index, len(queue_loop.work.specializations), max_queued_iterations(queue_loop))

    n_operations = part.program.n_operations // 2
    filters: list[tuple[str, WorkQueues, int, Callable[[], str]]] = []
    for specializations, run_inline in (
        (queued_specializations(queue_loop), False),
        (inline_specializations(queue_loop), True),
    ):
        iteration_chunks = chunk_iterations(
            queue_loop, specializations, FILTER_WARPS_PER_SM * device.n_multiprocessors * WARP_SIZE // n_envs
        )
        queues = replace(base_queues, n_chunks=len(iteration_chunks))
        label = "broadphase" if not run_inline else "narrowphase"
        filters += (
            [
                (
                    label,
                    queues,
                    n_operations,
                    partial(emit_filter_kernel, *emit_arguments, iteration_chunks, run_inline=run_inline),
                )
            ]
            if specializations
            else []
        )
    queues = replace(base_queues, n_blocks=QUEUE_BLOCKS_PER_SM * device.n_multiprocessors)
    queue_kernels = (
        (f"narrowphase_{specialization}", queues, 0, partial(emit_queue_kernel, *emit_arguments, specialization))
        for specialization in queued_specializations(queue_loop)
    )
    return [*filters, *queue_kernels]


def count_reset_queues(parts: Sequence[KernelPart]) -> int:
    """Number of work queues that the environment-binning kernel clears; 0 if they are cleared separately.

    The binning kernel clears them if exactly one part has queues and exactly one warp kernel is binned; this saves a
    dependency of the first filter kernel.
    """
    queue_loops = [part.work_queue_loop for part in parts if part.work_queue_loop is not None]
    is_single = len(queue_loops) == 1 and sum(bool(part.workload_offsets) for part in parts) == 1
    return len(queue_loops[0].work.specializations) if is_single and max_queued_iterations(queue_loops[0]) else 0


# ------------------------------------------------------------------------------------------- length of thread kernels
#
# The assembler takes more than linear time and one core for a kernel. Several short kernels are assembled in parallel,
# and run faster than a long one, whose values do not fit into registers (Unitree G1: assembled in 3 instead of 10 s,
# 5 to 12 % more steps per second). A long kernel of several partitions is faster whole. Only the baseline tier runs its
# basic blocks one after the other, each as a kernel of its own (Agility Cassie: assembled in a quarter of the time).

MAX_KERNEL_INSTRUCTIONS = 8000
"""Instructions from which on a thread kernel is split between statements, and a straight-line one into pieces.

The baseline tier of a kernel of several partitions that is longer is separated.
"""
BLOCK_INSTRUCTIONS = 5000
"""Maximum number of instructions of the pieces of a straight-line kernel."""
PARTITIONED_BLOCK_INSTRUCTIONS = 2500
"""The same for pieces of several partitions each, where those of the whole exchange too many values: for the adjoint of
a humanoid without contacts."""
LONG_BLOCK_INSTRUCTIONS, STRAIGHT_LINE_FRACTION = 500, 0.9
"""A thread kernel is compiled to PTX without optimisation if so large a part of it are basic blocks of so many
instructions: the assembler makes the same code of it, and LLVM is five times as fast."""


# -------------------------------------------------------------------------------------------- occupancy of warp kernels
#
# Shared memory is carved out of the L1 cache of a multiprocessor in steps. Staging a few contact records less in shared
# memory can save one step, so that tables and global working memory stay in the L1 cache (Cassie: 15 % faster).

MAX_SHARED_BYTES = 48 * 1024
"""Static shared memory per block that every GPU supports."""
MAX_WARPS_PER_SM, FEW_WARPS_PER_SM = 24, 16
"""Targets of resident warps per multiprocessor: more warps have too few registers each; with few, staging is reduced
rather than losing one."""
MAX_STAGING_REDUCTION = 8
"""Largest reduction of the number of records staged in shared memory per list."""


@dataclass(frozen=True, slots=True, eq=False)
class WarpRegionOccupancy:
    """Memory configuration and launch bound of a warp kernel."""

    part: KernelPart
    """The part, possibly with fewer staged records."""
    config: WarpRegionConfig
    min_blocks_per_sm: int | None
    """Minimum resident blocks per multiprocessor (launch bound); None leaves the register count to the assembler."""


def plan_occupancy(part: KernelPart, scalar_bytes: int) -> WarpRegionOccupancy:
    """Choose shared-memory use, records staged in it, and launch bound (blocks per multiprocessor) of a warp kernel.

    Scratch memory beyond `MAX_SHARED_BYTES` is placed in global memory, without a launch bound. At low occupancy, fewer
    records are staged if that reaches the same occupancy with the next smaller shared-memory carve-out. `scalar_bytes`
    is the size of a scalar.
    """
    if _shared_bytes(part, scalar_bytes) > MAX_SHARED_BYTES:
        return WarpRegionOccupancy(part, _region_config(part, uses_shared_memory=False), None)
    n_fitting = blocks_fitting(_shared_bytes(part, scalar_bytes), CARVEOUT_STEPS[-1])
    n_warps = min(n_fitting - n_fitting % SM_PARTITIONS, MAX_WARPS_PER_SM) or n_fitting
    if n_warps <= FEW_WARPS_PER_SM:
        candidates = (
            replace(part, program=reduce_staged_records(part.program, n_fewer))
            for n_fewer in range(MAX_STAGING_REDUCTION + 1)
        )
        part = next(
            (
                candidate
                for candidate in candidates
                if blocks_fitting(_shared_bytes(candidate, scalar_bytes), CARVEOUT_STEPS[-2]) >= n_warps
            ),
            part,
        )
    return WarpRegionOccupancy(part, _region_config(part, uses_shared_memory=True), n_warps)


def _shared_bytes(part: KernelPart, scalar_bytes: int) -> int:
    return round_up_to_4(max(part.program.n_scratch, 1)) * scalar_bytes


def _region_config(part: KernelPart, *, uses_shared_memory: bool) -> WarpRegionConfig:
    return WarpRegionConfig(
        WARP_SIZE, round_up_to_4(max(part.program.n_scratch, 1)), round_up_to_4(part.n_global), uses_shared_memory
    )


# ---------------------------------------------------------------------------------------------------------- compilation

MAX_LIVE_VALUES = 120
"""Live values that fit into half of the registers of a thread."""


@pause_garbage_collection()
def compile_for_host(
    source: ProgramSource, array_offsets: Mapping[str, ArenaOffset], options: CompileOptions, *, wait: bool
) -> tuple[HostExecutable, list[str], Sequence[str]]:
    """Trace a program, emit LLVM IR and compile it for the CPU (baseline or, with `wait`, optimised tier).

    Modules are compiled in worker processes while later ones are emitted. Returns the executable, the digests of its
    modules, and their LLVM IR.
    """
    FOREGROUND.start(min(2, n_threads()))  # while the program is traced
    with timed_stage("trace"):
        program = run_passes(source.trace(), CPU_PASSES)
    n_instructions = program.n_instructions
    timer_machine = platform.machine() if options.timed else ""
    with timed_stage("emit"), async_compilation():
        ints, floats = _cast_tables(program.pack_tables(), options.precision)
        features = {"has_fma": has_fma(), "has_scatter": has_scatter(), "flush_subnormals": is_x86()}
        target = Target(options.precision, options.lanes, **features)
        level = OptLevel.OPTIMISED if wait or tier_policy() is TierPolicy.OPTIMISED else OptLevel.BASELINE
        digests: list[str] = []
        modules = emit_cpu_modules(
            program,
            array_offsets,
            target,
            options.runs_per_step,
            # the register allocator of the baseline tier gains nothing from a schedule
            block_pass=fuse_multiply_add if tier_policy() is TierPolicy.BASELINE else optimise_basic_block,
            timer_machine=timer_machine,
            on_module=lambda module: digests.append(compile_async(module, level)),
        )
    if dump_folder() is not None:
        dump_program(source.name, digests[0], str(optimise(program)))
        dump_modules(source.name, digests[0], modules)
    code = get_host_code(digests, source.name, lambda: modules)
    code.load(wait=wait)
    discard_pending(digests)
    executable = HostExecutable(code, ints, floats, program.n_scratch, program.n_operations, n_instructions)
    return executable, digests, modules


class GpuCompiler:
    """Compiles programs to the kernels (PTX) of a GPU."""

    def __init__(
        self,
        array_offsets: Mapping[str, ArenaOffset],
        options: CompileOptions,
        partitioning: Partitioning | None,
        *,
        wait: bool,
    ) -> None:
        """Prepare a compiler for one program.

        Args:
            array_offsets: offsets of arrays in their arenas.
            options: device, precision, approximate number of environments, runs per step.
            partitioning: partitions of straight-line code (warp specialization); None for one thread per environment.
            wait: whether kernels are assembled at the optimised level from the start.
        """
        self._wait = wait
        self._array_offsets = array_offsets
        self._options = options
        self._partitioning = partitioning
        self._n_envs = options.n_envs or 1
        self._tables: list[TableArrays] = []
        self._separated: dict[int, tuple[KernelPart, tuple[Program, ...], int]] = {}
        """Parts whose final kernels are emitted last, by index: part, its partitions, index of its table."""
        self._partitions: dict[tuple[int, Partitioning], tuple[BasicBlock, tuple[Program, ...]]] = {}
        """Basic blocks and their partitions, by identity of the block and partitioning."""
        self._name = ""

    @pause_garbage_collection()
    def compile(self, source: ProgramSource) -> GpuCompilation:
        """Trace a program, split it into kernels, and compile all of them to PTX concurrently.

        Assembly to machine code starts asynchronously for each PTX module. Kernels with the most instructions are
        emitted first, as they take longest to assemble. Final kernels that are separated at first are emitted last.
        """
        start_gpu_compilers(self._options.device)  # while the program is traced
        program = source.trace()
        self._name = source.name
        if dump_folder() is not None:
            text = str(program)
            dump_program(source.name, module_digest(text), text)
        parts = self._split(program)
        n_scratch = max((part.program.n_scratch for part in parts if not part.is_warp_region), default=0)
        self._n_reset_queues = count_reset_queues(parts)
        n_handoff_rows = max(part.handoff.end_row for part in parts)
        self._target = Target(self._options.precision, is_gpu=True, n_scratch=n_scratch, n_handoff_rows=n_handoff_rows)
        self._is_single_kernel = len(parts) == 1
        partitioning = self._partitioning
        self._part_partitioning = (
            partitioning if partitioning is None or self._is_single_kernel else _extend_to_scratch(partitioning, parts)
        )
        first: list[list[Callable[[], GpuModule]]] = [[] for _ in parts]
        final = list(first)
        # the longest first: assembly takes longest, and starts as soon as the PTX is available
        order = sorted(range(len(parts)), key=lambda i: -parts[i].program.n_instructions)
        self._pool = ThreadPoolExecutor()
        try:
            with async_compilation():  # an interrupt stops the compilers
                for i in order:
                    first[i] = final[i] = self._compile_part(i, parts[i])
                for i, (part, partitions, table_index) in self._separated.items():
                    final[i] = [self._compile_partitions(part, partitions, table_index, ahead=False)]
                sizes = n_scratch, self._n_reset_queues, program.n_instructions
                image = GpuImage([get() for modules in first for get in modules], self._tables, *sizes)
        finally:
            self._pool.shutdown(wait=False)
        if not self._separated:
            return GpuCompilation(image)
        return GpuCompilation(image, lambda: replace(image, modules=[get() for modules in final for get in modules]))

    def _split(self, program: Program) -> list[KernelPart]:
        """Run the passes that split a program into kernels; a program without need for it is one kernel."""
        is_partitioned = self._partitioning is not None and self._partitioning.count > 1
        is_long = self._options.runs_per_step == 1 and program.n_instructions > MAX_KERNEL_INSTRUCTIONS
        block_instructions = None if is_partitioned else BLOCK_INSTRUCTIONS
        if is_partitioned and is_long and program.is_straight_line:
            self._part_partitioning = self._partitioning
            is_long, block_instructions = len(self._partition(program)) == 1, PARTITIONED_BLOCK_INSTRUCTIONS
        elif is_partitioned and program.has_cooperative_regions:
            is_long = False
        passes = gpu_passes(WARP_SIZE, *((MAX_KERNEL_INSTRUCTIONS, block_instructions) if is_long else ()))
        is_split = program.has_cooperative_regions or is_long
        parts = run_passes(program, passes) if is_split else [KernelPart(program)]
        if all(part.work_queue_loop is None for part in parts):  # the workload is unknown then
            parts = [replace(part, workload_offsets=()) for part in parts]
        return parts

    def _compile_part(self, index: int, part: KernelPart) -> list[Callable[[], GpuModule]]:
        """Start compilation of the kernels of a part; returns functions that wait for their modules."""
        if part.is_warp_region:
            return [self._compile_warp_kernel(part)]
        if part.work_queue_loop is None:
            return self._compile_thread_kernels(index, part)
        optimised = replace(part, program=optimise(part.program))
        emit_arguments = optimised, self._array_offsets, self._target
        kernels = work_queue_kernels(index, emit_arguments, self._options.device, self._n_envs)
        table_index = self._add_table(optimised.program.pack_tables())
        return [self._compile_queue_kernel(table_index, *kernel) for kernel in kernels]

    def _add_table(self, tables: tuple[np.ndarray, np.ndarray]) -> int:
        """Append the integer and float tables of a kernel, cast to the precision; returns their index."""
        self._tables.append(_cast_tables(tables, self._options.precision))
        return len(self._tables) - 1

    def _start_ptx(
        self,
        llvm_ir: str,
        block_dim: int,
        min_blocks_per_sm: int | None,
        label: str,
        level: OptLevel = OptLevel.OPTIMISED,
        *,
        ahead: bool = True,
    ) -> Future[bytes]:
        """Compile an LLVM module to PTX in the background, then start its assembly; returns a future of the PTX.

        Also dumps the code if `KINEMA_DUMP` is set.

        Args:
            llvm_ir: text of the module.
            block_dim: threads per block, a launch bound.
            min_blocks_per_sm: minimum of resident blocks per multiprocessor, a launch bound; None for no minimum.
            label: label of the kernel in profilers.
            level: optimisation level of LLVM.
            ahead: whether to start the assembly.
        """

        def run() -> bytes:
            """Compile to PTX, start assembly under the profiler name, and dump the code if asked for."""
            ptx = compile_ptx(llvm_ir, block_dim, min_blocks_per_sm, level)
            if ahead:
                renamed = rename_kernel(ptx, f"{self._name}_{label}")
                assemble_async(renamed, self._options.device, first_level(renamed, wait=self._wait))
            if dump_folder() is not None:
                dump_modules(f"{self._name}_{label}", module_digest(llvm_ir), [llvm_ir], ptx)
            return ptx

        return self._pool.submit(run)

    def _compile_queue_kernel(
        self, table_index: int, label: str, queues: WorkQueues, n_operations: int, emit: Callable[[], str]
    ) -> Callable[[], GpuModule]:
        """Start compilation of a filter or queue kernel; returns a function that waits for its module."""
        ptx = self._start_ptx(emit(), BLOCK_DIM, None, label)
        return lambda: GpuModule(
            ptx.result(), BLOCK_DIM, table_index, n_operations, BLOCK_DIM, queues=queues, label=label
        )

    def _compile_thread_kernels(self, index: int, part: KernelPart) -> list[Callable[[], GpuModule]]:
        """Start compilation of a thread kernel, or of the separated blocks of its partitions if it is long.

        Returns functions that wait for the modules. Partitions that were separated are added to `_separated`.
        """
        programs = self._partition(part.program)
        table_index = self._add_table(part.program.pack_tables())
        n_instructions = sum(program.n_instructions for program in programs)
        is_separated = len(programs) > 1 and n_instructions > MAX_KERNEL_INSTRUCTIONS and not self._wait and is_tiered()
        if not is_separated:
            return [self._compile_partitions(part, programs, table_index)]
        self._separated[index] = part, programs, table_index
        blocks, n_exchanged = separate_partitions(programs)
        offsets = {**self._array_offsets, SEPARATED_EXCHANGE: ArenaOffset("out", 0)}
        modules: list[Callable[[], GpuModule]] = []
        for block in blocks:
            llvm_ir = emit_thread_kernel((block,), offsets, self._target)
            ptx = self._start_ptx(llvm_ir, BLOCK_DIM, None, "thread_block", ptx_level((block,)))
            sizes = BLOCK_DIM, table_index, block.n_operations, BLOCK_DIM
            modules.append(partial(_wait_for_module, ptx, sizes, label="thread_block", n_exchanged=n_exchanged))
        return modules

    def _compile_partitions(
        self, part: KernelPart, programs: tuple[Program, ...], table_index: int, *, ahead: bool = True
    ) -> Callable[[], GpuModule]:
        """Start compilation of a thread kernel: one thread per environment, or one per partition and environment.

        If it is the only kernel of the program, it runs all runs of a step in one launch. Returns a function that waits
        for the module. `ahead` also starts its assembly.
        """
        runs = self._options.runs_per_step if self._is_single_kernel else 1
        n_partitions, n_multiprocessors = len(programs), self._options.device.n_multiprocessors
        loop = part.parallel_loop
        n_iterations = 1 if loop is None else len(loop.ints)
        n_gpu_threads = self._n_envs * n_iterations
        envs_per_warp = choose_envs_per_warp(programs, n_gpu_threads, n_multiprocessors)
        llvm_ir = emit_thread_kernel(programs, self._array_offsets, self._target, runs, envs_per_warp)
        block_dim = BLOCK_DIM if n_partitions == 1 else WARP_SIZE * n_partitions
        envs_per_block = block_dim // n_partitions
        if envs_per_warp < WARP_SIZE:
            block_dim, envs_per_block = WARP_SIZE, envs_per_warp
        elif loop is not None and self._n_envs < BLOCK_DIM:
            block_dim = envs_per_block = WARP_SIZE
        min_blocks = choose_min_blocks(programs, n_gpu_threads, n_multiprocessors, self._options.precision)
        ptx = self._start_ptx(llvm_ir, block_dim, min_blocks, "thread", ptx_level(programs), ahead=ahead)
        n_operations = sum(program.n_operations for program in programs)
        sizes = block_dim, table_index, n_operations, envs_per_block, n_partitions
        return partial(
            _wait_for_module, ptx, sizes, can_overlap=part.can_overlap, label="thread", n_iterations=n_iterations
        )

    def _compile_warp_kernel(self, part: KernelPart) -> Callable[[], GpuModule]:
        """Start compilation of a warp kernel (one warp per environment) and of its environment-binning kernel, if any.

        Returns a function that waits for the module.
        """
        target = self._target
        occupancy = plan_occupancy(replace(part, program=optimise(part.program)), target.scalar_bytes)
        planned, config = occupancy.part, occupancy.config
        llvm_ir = emit_warp_kernel(planned, self._array_offsets, target, config, binned=bool(planned.workload_offsets))
        ptx = self._start_ptx(llvm_ir, WARP_SIZE * config.groups_per_block, occupancy.min_blocks_per_sm, "warp")
        binning = None
        if planned.workload_offsets:
            binning = self._start_ptx(
                emit_binning_kernel(planned, target, self._n_reset_queues), BLOCK_DIM, None, "warp_order"
            )
        table_index = self._add_table(warp_region_tables(planned, target, WARP_SIZE))
        sizes = table_index, planned.program.n_operations, config.groups_per_block, 1, max(config.n_device_memory, 1)

        def get_module() -> GpuModule:
            binning_ptx = None if binning is None else binning.result()
            return GpuModule(
                ptx.result(), WARP_SIZE * config.groups_per_block, *sizes, binning_ptx=binning_ptx, label="warp"
            )

        return get_module

    def _partition(self, program: Program) -> tuple[Program, ...]:
        """Programs of a thread kernel: one per partition (warp specialization), or the optimised program alone.

        Not partitioned if partitioning is off, the program has loops or branches, or the values exchanged between
        partitions exceed shared memory.
        """
        partitioning = self._part_partitioning
        if partitioning is not None and partitioning.count > 1 and program.is_straight_line:
            key, block = (id(program.basic_block), partitioning), program.basic_block
            if key not in self._partitions:
                found = partition_basic_block(block, partitioning.partition_of, partitioning.count)
                self._partitions[key] = block, found
            partitions = self._partitions[key][1]
            if (
                exchange_size(partitions) * WARP_SIZE * np.dtype(numpy_dtype(self._options.precision)).itemsize
                <= MAX_SHARED_BYTES
            ):
                return partitions
        return (optimise(program),)


def _wait_for_module(ptx: Future[bytes], sizes: tuple[Any, ...], **values: Any) -> GpuModule:
    """Module of a kernel, once its PTX is available; `sizes` are the fields after the PTX, in order."""
    return GpuModule(ptx.result(), *sizes, **values)


def ptx_level(programs: Sequence[Program]) -> OptLevel:
    """Optimisation level at which LLVM compiles a thread kernel to PTX: the lowest for (nearly) straight-line code."""
    lengths = [len(block.instructions) for program in programs for block in basic_blocks(program.body)]
    n_in_long_blocks = sum(length for length in lengths if length >= LONG_BLOCK_INSTRUCTIONS)
    is_straight_line = n_in_long_blocks >= STRAIGHT_LINE_FRACTION * sum(lengths) and n_in_long_blocks > 0
    return OptLevel.BASELINE if is_straight_line else OptLevel.OPTIMISED


def choose_envs_per_warp(programs: tuple[Program, ...], n_envs: int, n_multiprocessors: int) -> int:
    """Environments per warp of a thread kernel: 32, or fewer if their control flow differs and few warps would be busy.

    Environments of a warp wait for each other where their branches differ. A warp of fewer takes less time, and half as
    many warps as are resident at a time with the most registers per thread run at no cost (adjoints of a go2 and a
    humanoid at 4,096 environments: 4 to 16 per warp take equally long, 32 half as long again).
    """
    (program, *others) = programs
    if others or not any(is_divergent(statement) for statement in program.body):
        return WARP_SIZE
    n_warps = FULL_REGISTER_BLOCKS * BLOCK_DIM // WARP_SIZE * n_multiprocessors // 2
    envs_per_warp = WARP_SIZE
    while envs_per_warp > 1 and n_envs * 2 <= n_warps * envs_per_warp:
        envs_per_warp //= 2
    return envs_per_warp


def choose_min_blocks(programs: tuple[Program, ...], n_envs: int, n_multiprocessors: int, precision: str) -> int | None:
    """Minimum resident blocks per multiprocessor (launch bound) of a thread kernel; None leaves it to the assembler.

    Doubled occupancy with half the registers per thread is about 20 % faster in single precision if environments exceed
    the GPU's resident threads and few values are live; it is slower with fewer environments.
    """
    live_counts = (block.max_live() for program in programs for block in basic_blocks(program.body))
    has_few_values = max(live_counts, default=0) < MAX_LIVE_VALUES
    is_oversubscribed = n_envs * len(programs) > FULL_REGISTER_BLOCKS * BLOCK_DIM * n_multiprocessors
    return 2 * FULL_REGISTER_BLOCKS if is_oversubscribed and has_few_values and precision == "single" else None


def _extend_to_scratch(partitioning: Partitioning, parts: list[KernelPart]) -> Partitioning:
    """Extend a partitioning of state arrays to the scratch offsets through which kernels exchange values.

    A scratch offset belongs to the partition that its stored value depends on; to none (None) if there are several.
    """
    partition_of_row: dict[int, int | None] = {}

    def partition_of(location: MemoryLocation) -> int | None:
        return (
            partition_of_row.get(location.element) if location.array == SCRATCH else partitioning.partition_of(location)
        )

    for part in parts:
        for block in () if part.is_warp_region else part.program.body:
            if isinstance(block, BasicBlock):
                partition_of_row.update(partitions_of_scratch(block, partition_of))
    return replace(partitioning, partition_of=partition_of)


def _cast_tables(tables: tuple[np.ndarray, np.ndarray], precision: str) -> TableArrays:
    """Integer table, and float table cast to the precision of the program, both contiguous."""
    ints, floats = tables
    with np.errstate(over="ignore"):  # overflow to infinity is intended
        return np.ascontiguousarray(ints), np.ascontiguousarray(floats.astype(numpy_dtype(precision)))
