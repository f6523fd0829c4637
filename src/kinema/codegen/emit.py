"""Emission of complete LLVM modules: the CPU function of a program and its GPU kernels.

The CPU function loops over its share of the environments, one SIMD vector (or one environment) at a time, and for each
vector over all steps, so that the state stays in the cache. On a GPU an environment is a thread (thread kernel),
several specialized warps (partitions), or a group of threads (warp kernel); filter and queue kernels process work-queue
loops, and a binning kernel sorts environments by workload.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from kinema.ir import (
    SCRATCH,
    UNIFORM,
    ArenaOffset,
    BasicBlock,
    CountedLoop,
    ForEachLoop,
    If,
    KernelPart,
    Program,
    Statement,
    WhileLoop,
    WorkQueueLoop,
    count_instructions,
    exchange_size,
    frame_layout,
    nested_bodies,
    parallel_loop,
)

from .abi import ENTRY_FUNCTION
from .cpu.statement_timing import StatementTimer, timer_declarations
from .cpu.varying_emitter import VaryingEmitter
from .cuda.environment_binning import BINNING_DECLARATIONS, EnvBinningEmitter
from .cuda.thread_kernel import PARALLEL_ITERATION, ThreadKernelEmitter
from .cuda.warp import NO_UNROLL_METADATA, POPCOUNT, SHUFFLE_INDEX, SHUFFLE_XOR, WARP_SYNC, WarpRegionConfig
from .cuda.warp_region import WarpRegionEmitter, pad_copy_pairs, pad_vector_targets, scale_offsets_to_bytes
from .cuda.work_queue import QUEUE_DECLARATIONS, WorkQueueEmitter
from .memory import WARP_SIZE
from .statements import StatementEmitter
from .target import Target

POINTER_PARAMETERS = ("state", "controls_start", "out", UNIFORM, SCRATCH, "ints", "floats")
"""Pointer parameters of the entry function."""
INTEGER_PARAMETERS = ("stride", "steps", "advance", "n_envs", "first", "last")
"""Integer parameters of the entry function, after the pointers; a CPU function runs the vectors `first` to `last` -
1."""
_SREG_INTRINSIC, _SPECIAL_REGISTERS = "llvm.nvvm.read.ptx.sreg", ("tid", "ctaid", "ntid")
_BLOCK_BARRIER = "llvm.nvvm.barrier0"
_LOOP_METADATA = f"""!0 = !{{}}
{NO_UNROLL_METADATA} = distinct !{{{NO_UNROLL_METADATA}, !3}}
!3 = !{{!"llvm.loop.unroll.disable"}}
"""
"""Metadata that the text of warp kernels refers to."""
_MXCSR_INTRINSICS = ("llvm.x86.sse.stmxcsr", "llvm.x86.sse.ldmxcsr")
"""Intrinsics that store and load the SSE control register (MXCSR) of x86 processors."""
_FTZ_DAZ_BITS = 0x8040
"""Bits of MXCSR: flush subnormal results to zero, treat subnormal operands as zero."""


def emit_cpu_modules(
    program: Program,
    array_offsets: Mapping[str, ArenaOffset],
    target: Target,
    runs_per_step: int = 1,
    *,
    block_pass: Callable[[BasicBlock], BasicBlock] | None = None,
    timer_machine: str = "",
    on_module: Callable[[str], None] | None = None,
) -> tuple[str, ...]:
    """Emit the LLVM modules of a program for a CPU; the first one defines the entry function `kinema_run`.

    The function runs some environments for some steps. A step takes `runs_per_step` runs of the program, and the arena
    of control inputs advances by `advance` rows per step. Further modules hold outlined functions. Returns all modules.

    Args:
        program: program to emit.
        array_offsets: array -> arena and first row.
        target: precision, SIMD width and processor features.
        runs_per_step: runs of the program per step.
        block_pass: optimisation applied to each basic block just before it is emitted.
        timer_machine: processor (`platform.machine()`) to time statements on; the arena `out` then holds clock ticks.
        on_module: called with each module as soon as it is complete, while others are still being emitted.
    """
    emitter = (
        StatementEmitter(array_offsets, target)
        if program.uniform_locals is None
        else VaryingEmitter(array_offsets, target)
    )
    modules: list[str] = []

    def finish_module(pending: StatementEmitter, signature: str, extra_declarations: Sequence[str] = ()) -> None:
        declarations = [f"declare {name}" for name in (*pending.callees, *extra_declarations)]
        modules.append(_format_module(pending, [*declarations, f"define {signature} {{"]))
        if on_module is not None:
            on_module(modules[-1])

    emitter.block_pass = block_pass
    begin_cpu_function(emitter, program)
    if target.flush_subnormals:
        enable_flush_to_zero(emitter)
    loop, vector_index = emitter.begin_loop("%first", "%last")
    emitter.emit(f"%e = mul i64 {vector_index}, {target.lanes}")
    if emitter.target.lanes > 1 and any(is_divergent(block) for block in program.body):
        emitter.mask = emitter.present_lanes = _emit_present_lanes(emitter)
    emit_body = (
        StatementTimer(emitter, program.body, timer_machine).emit
        if timer_machine
        else partial(emitter.emit_statements, program.body)
    )
    _emit_step_loop(emitter, ("state", "out"), runs_per_step, emit_body)
    emitter.end_loop(loop)
    if target.flush_subnormals:
        restore_float_mode(emitter)
    arguments = [f"ptr noalias %{name}" for name in POINTER_PARAMETERS] + [
        f"i64 %{name}" for name in INTEGER_PARAMETERS
    ]
    extra_declarations = flush_to_zero_declarations() if target.flush_subnormals else []
    extra_declarations += timer_declarations(timer_machine) if timer_machine else []
    finish_module(emitter, f"void @{ENTRY_FUNCTION}({', '.join(arguments)})", extra_declarations)
    while emitter.pending_functions:  # longest first, as it takes longest to compile
        pending = max(emitter.pending_functions, key=lambda f: count_instructions(f.statements))
        emitter.pending_functions.remove(pending)
        pending.emit_body(pending.emitter)
        finish_module(pending.emitter, pending.signature)
    return tuple(modules)


def begin_cpu_function(emitter: StatementEmitter, program: Program) -> None:
    """Start the CPU function of a program: allocate the frame of outlined functions and its own local arrays."""
    emitter.frame = frame_layout(program)
    emitter.allocate_frame(program)
    outlined_locals = set[str]().union(*program.outlined.values()) - emitter.frame.keys()
    emitter.begin_program(program, emitter.allocate_locals(program, program.locals.keys() - outlined_locals))


def flush_to_zero_declarations() -> list[str]:
    """LLVM declarations of the intrinsics that access MXCSR."""
    return [f"void @{name}(ptr)" for name in _MXCSR_INTRINSICS]


def restore_float_mode(emitter: StatementEmitter) -> None:
    """Emit code that restores the MXCSR of the calling thread from `%mode`."""
    emitter.emit(f"call void @{_MXCSR_INTRINSICS[1]}(ptr %mode)")


def enable_flush_to_zero(emitter: StatementEmitter) -> None:
    """Emit code that saves MXCSR to `%mode` and enables flush-to-zero and denormals-are-zero (x86)."""
    for name in ("mode", "own_mode"):
        emitter.emit(f"%{name} = alloca i32")
    emitter.emit(f"call void @{_MXCSR_INTRINSICS[0]}(ptr %mode)")
    mode = emitter.assign("load i32, ptr %mode")
    emitter.emit(f"store i32 {emitter.assign(f'or i32 {mode}, {_FTZ_DAZ_BITS}')}, ptr %own_mode")
    emitter.emit(f"call void @{_MXCSR_INTRINSICS[1]}(ptr %own_mode)")


def emit_thread_kernel(
    partitions: Sequence[Program],
    array_offsets: Mapping[str, ArenaOffset],
    target: Target,
    runs_per_step: int = 1,
    envs_per_warp: int = WARP_SIZE,
) -> str:
    """Emit the LLVM module of a GPU kernel with one thread per environment, or with several specialized warps.

    A single program runs with one thread per environment, and per iteration if it is a parallel loop; with fewer than
    32 `envs_per_warp`, a thread block is one warp, whose other threads return at once. Several partitions of a basic
    block run in thread blocks of 32 environments with one warp per partition; in the last block, surplus threads work
    on padding environments, as all threads must reach the barriers.
    """
    emitter = ThreadKernelEmitter(array_offsets, target)
    emitter.n_handoff_rows = target.n_handoff_rows
    local_arrays = [emitter.allocate_locals(partition) for partition in partitions]
    for register in _SPECIAL_REGISTERS:
        emitter.emit(f"%{register} = call i32 @{_SREG_INTRINSIC}.{register}.x()")
    if len(partitions) == 1:
        emitter.allocate_row_list(partitions[0])
        _emit_thread_env(emitter, envs_per_warp, is_parallel_loop=parallel_loop(partitions[0]) is not None)
    else:
        _emit_partition_env(emitter)
    emitter.set_scratch_pointers("%e")
    _emit_step_loop(
        emitter, ("state", "out"), runs_per_step, lambda: _emit_partitions(emitter, partitions, local_arrays)
    )
    return _format_module(emitter, _thread_kernel_prologue(emitter, partitions)) + "!0 = !{}\n"


def emit_warp_kernel(
    part: KernelPart,
    array_offsets: Mapping[str, ArenaOffset],
    target: Target,
    config: WarpRegionConfig,
    *,
    binned: bool = False,
) -> str:
    """Emit the LLVM module of a GPU kernel in which a group of threads works on each environment.

    Each group repeatedly takes the next environment, copies the data of other kernels to its memory, runs the
    level-scheduled statements and copies results back. `%steps` is the number of groups. With `binned`, environments
    are taken in order of decreasing workload, as sorted by the binning kernel.
    """
    emitter = WarpRegionEmitter(array_offsets, target)
    program = scale_offsets_to_bytes(part.program, emitter.scalar_bytes)
    emitter.begin_program(program, emitter.allocate_locals(program))
    for register in _SPECIAL_REGISTERS:
        emitter.emit(f"%{register} = call i32 @{_SREG_INTRINSIC}.{register}.x()")
    emitter.begin_region(config, binned=binned)
    emitter.emit(f"%pitch = mul i32 %stride, {emitter.scalar_bytes}")
    emitter.set_env_pointers("%e")
    ints, _ = program.pack_tables()
    table_end = len(ints)
    emitter.emit_handoff_load(table_end, part.handoff)
    table_end += len(pad_vector_targets(part.handoff, config.group_size))
    emitter.emit_copies(table_end, part.copy_in, copy_in=True)
    emitter.emit_statements(program.body)
    emitter.emit_barrier()
    emitter.emit_copies(table_end + len(pad_copy_pairs(part.copy_in, config.group_size)), part.copy_out, copy_in=False)
    emitter.end_region()
    shared_type = f"[{config.n_shared * config.groups_per_block} x {emitter.scalar_type}]"
    prologue = [
        'target triple = "nvptx64-nvidia-cuda"',
        *(
            [f"@shared = internal addrspace(3) global {shared_type} poison, align 16"]
            if config.uses_shared_memory
            else []
        ),
        f"declare void @{WARP_SYNC}(i32)",
        *(f"declare i32 @{intrinsic}(i32, i32, i32, i32)" for intrinsic in (SHUFFLE_XOR, SHUFFLE_INDEX)),
        f"declare i32 @{POPCOUNT}(i32)",
        *(f"declare i32 @{_SREG_INTRINSIC}.{register}.x()" for register in _SPECIAL_REGISTERS),
        _kernel_signature(emitter),
    ]
    return _format_module(emitter, prologue) + _LOOP_METADATA


def emit_binning_kernel(part: KernelPart, target: Target, n_queues: int = 0) -> str:
    """Emit the LLVM module of the GPU kernel that sorts environments into bins by workload.

    It also empties `n_queues` work queues.
    """
    emitter = EnvBinningEmitter({}, target)
    for register in _SPECIAL_REGISTERS:
        emitter.emit(f"%{register} = call i32 @{_SREG_INTRINSIC}.{register}.x()")
    emitter.emit("%first = mul i32 %ctaid, %ntid")
    emitter.emit_binning(part.workload_offsets, n_queues)
    registers = [f"declare i32 @{_SREG_INTRINSIC}.{register}.x()" for register in _SPECIAL_REGISTERS]
    return _format_module(
        emitter,
        ['target triple = "nvptx64-nvidia-cuda"', *BINNING_DECLARATIONS, *registers, _kernel_signature(emitter)],
    )


def emit_filter_kernel(
    part: KernelPart,
    array_offsets: Mapping[str, ArenaOffset],
    target: Target,
    iteration_chunks: Sequence[Sequence[int]],
    *,
    run_inline: bool,
) -> str:
    """Emit the LLVM module of the GPU kernel that tests the iterations of a work-queue loop.

    Each warp tests the iterations of one of `iteration_chunks`. Iterations that pass all filters are processed in the
    same kernel (`run_inline`) or appended to the queue of their specialization, which another kernel processes.
    """
    emitter, queue_loop = _work_queue_emitter(part, array_offsets, target)
    global_arrays = emitter.emit_filters(queue_loop, iteration_chunks, run_inline=run_inline)
    return _format_module(emitter, [*_work_queue_prologue(global_arrays), _kernel_signature(emitter)]) + "!0 = !{}\n"


def emit_queue_kernel(
    part: KernelPart, array_offsets: Mapping[str, ArenaOffset], target: Target, specialization_index: int
) -> str:
    """Emit the GPU kernel that processes the queued iterations of one specialization of a work-queue loop."""
    emitter, queue_loop = _work_queue_emitter(part, array_offsets, target)
    emitter.emit_queue_work(queue_loop, specialization_index)
    return _format_module(emitter, [*_work_queue_prologue([]), _kernel_signature(emitter)]) + "!0 = !{}\n"


def _work_queue_emitter(
    part: KernelPart, array_offsets: Mapping[str, ArenaOffset], target: Target
) -> tuple[WorkQueueEmitter, WorkQueueLoop]:
    """Prepare the emission of a work-queue kernel: an emitter with local arrays and special registers, and the loop."""
    emitter, queue_loop = WorkQueueEmitter(array_offsets, target), part.work_queue_loop
    assert queue_loop is not None
    emitter.begin_program(part.program, emitter.allocate_locals(part.program))
    for register in _SPECIAL_REGISTERS:
        emitter.emit(f"%{register} = call i32 @{_SREG_INTRINSIC}.{register}.x()")
    emitter.emit(f"%pitch = mul i32 %stride, {emitter.scalar_bytes}")
    return emitter, queue_loop


def _work_queue_prologue(global_arrays: Sequence[str]) -> list[str]:
    registers = [f"declare i32 @{_SREG_INTRINSIC}.{register}.x()" for register in _SPECIAL_REGISTERS]
    return ['target triple = "nvptx64-nvidia-cuda"', *global_arrays, *QUEUE_DECLARATIONS, *registers]


def _kernel_signature(emitter: StatementEmitter) -> str:
    """Head of the definition of a GPU kernel with the parameter `%memory` for shared global memory."""
    arguments = [f"{emitter.arena_pointer_type} %{name}" for name in (*POINTER_PARAMETERS, "memory")]
    arguments += [f"i32 %{name}" for name in INTEGER_PARAMETERS[:4]]
    return f'define ptx_kernel void @{ENTRY_FUNCTION}({", ".join(arguments)}) "no-jump-tables"="true" {{'


def warp_region_tables(
    part: KernelPart, target: Target, group_size: int
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float64]]:
    """Constant tables of a warp kernel, an int32 and a float64 array, with array offsets in bytes.

    Behind the integers of its loops follow the table of vector loads at the start of the kernel and the (source,
    target) tables of `copy_in` and `copy_out`, padded to whole batches.
    """
    ints, floats = scale_offsets_to_bytes(part.program, target.scalar_bytes).pack_tables()
    copy_table = (
        pad_vector_targets(part.handoff, group_size)
        + pad_copy_pairs(part.copy_in, group_size)
        + pad_copy_pairs(part.copy_out, group_size)
    )
    padding = [0] * WARP_SIZE  # threads without an iteration read behind the table
    return np.concatenate([ints, np.array([*copy_table, *padding], np.int32)]), floats


def _emit_thread_env(emitter: StatementEmitter, envs_per_warp: int, *, is_parallel_loop: bool) -> None:
    """Emit the environment `%e` of a thread, and its iteration of a parallel loop; surplus threads return.

    Blocks of all environments for the first iteration come first, then those for the second one, and so on.
    """
    is_full = envs_per_warp == WARP_SIZE
    envs_per_block, block = "%ntid" if is_full else str(envs_per_warp), "%ctaid"
    if is_parallel_loop:
        rounded = emitter.assign(f"add i32 %n_envs, {emitter.assign(f'sub i32 {envs_per_block}, 1')}")
        emitter.emit(f"%env_blocks = udiv i32 {rounded}, {envs_per_block}")
        emitter.emit(f"{PARALLEL_ITERATION} = udiv i32 %ctaid, %env_blocks")
        block = emitter.assign("urem i32 %ctaid, %env_blocks")
    emitter.emit(f"%first = mul i32 {block}, {envs_per_block}")
    emitter.emit("%e = add i32 %first, %tid")
    end = "%n_envs"
    if not is_full:
        end_of_warp = emitter.assign(f"add i32 %first, {envs_per_warp}")
        is_partial = emitter.assign(f"icmp slt i32 %n_envs, {end_of_warp}")
        end = emitter.assign(f"select i1 {is_partial}, i32 %n_envs, i32 {end_of_warp}")
    emitter.emit(f"%there = icmp slt i32 %e, {end}")
    emitter.emit("br i1 %there, label %begin, label %leave")
    emitter.start_block("leave")
    emitter.emit("ret void")
    emitter.start_block("begin")


def _emit_partition_env(emitter: StatementEmitter) -> None:
    """Emit the environment `%e` and partition `%role` of a thread, and its pointer to the exchange array."""
    emitter.emit(f"%role = udiv i32 %tid, {WARP_SIZE}")
    emitter.emit(f"%lane = urem i32 %tid, {WARP_SIZE}")
    emitter.emit(f"%first = mul i32 %ctaid, {WARP_SIZE}")
    emitter.emit("%e = add i32 %first, %lane")
    emitter.emit(f"%exchange_e = getelementptr {emitter.scalar_type}, ptr addrspace(3) @exchange, i32 %lane")


def _thread_kernel_prologue(emitter: StatementEmitter, partitions: Sequence[Program]) -> list[str]:
    """LLVM text before the body of a thread kernel: target, declarations and signature; one string per line.

    With several partitions also the exchange array in shared memory; the state may then alias.
    """
    # partitions read state that others write: it must not be noalias
    shared = {"state"} if len(partitions) > 1 else set()
    arguments = [
        f"{emitter.arena_pointer_type} {'' if name in shared else 'noalias '}%{name}" for name in POINTER_PARAMETERS
    ]
    arguments += [f"i32 %{name}" for name in INTEGER_PARAMETERS[:4]]
    exchange_type = f"[{max(exchange_size(tuple(partitions)), 1) * WARP_SIZE} x {emitter.scalar_type}]"
    return [
        'target triple = "nvptx64-nvidia-cuda"',
        *([f"@exchange = internal addrspace(3) global {exchange_type} poison, align 16"] if shared else []),
        f"declare void @{_BLOCK_BARRIER}()",
        *(f"declare i32 @{_SREG_INTRINSIC}.{register}.x()" for register in _SPECIAL_REGISTERS),
        f'define ptx_kernel void @{ENTRY_FUNCTION}({", ".join(arguments)}) "no-jump-tables"="true" {{',
    ]


def _format_module(emitter: StatementEmitter, prologue: Sequence[str]) -> str:
    """Text of an LLVM module: declarations, intrinsics and the function with the emitted instructions."""
    *declarations, signature = prologue
    return (
        "\n".join(
            [*declarations, *emitter.declarations(), signature, "entry:", *emitter.output_lines, "  ret void", "}"]
        )
        + "\n"
    )


def _emit_step_loop(
    emitter: StatementEmitter, arenas: Sequence[str], runs_per_step: int, body: Callable[[], None]
) -> None:
    """Emit the loop over all steps, and all runs of the program in each, for one environment or SIMD vector.

    `%e` is the (first) environment. Sets the pointers `%<arena>_e` to its data in the device buffers `arenas`, and
    `%controls_e` to the control inputs of the current step; `body` emits one run.
    """
    emitter.emit(f"%pitch = mul {emitter.index_type} %stride, {emitter.scalar_bytes}")
    for arena in arenas:
        emitter.emit(
            f"%{arena}_e = getelementptr {emitter.scalar_type}, "
            f"{emitter.arena_pointer_type} %{arena}, {emitter.index_type} %e"
        )
    emitter.emit(
        f"%controls_0 = getelementptr {emitter.scalar_type}, "
        f"{emitter.arena_pointer_type} %controls_start, {emitter.index_type} %e"
    )
    total = emitter.assign(f"mul {emitter.index_type} %steps, {runs_per_step}")
    loop, run = emitter.begin_loop("0", total)
    step = run if runs_per_step == 1 else emitter.assign(f"udiv {emitter.index_type} {run}, {runs_per_step}")
    inputs = emitter.row_pointer("%controls_0", emitter.assign(f"mul {emitter.index_type} {step}, %advance"))
    emitter.emit(f"%controls_e = getelementptr i8, {emitter.arena_pointer_type} {inputs}, i64 0")
    body()
    emitter.end_loop(loop)


def _emit_partitions(
    emitter: StatementEmitter, partitions: Sequence[Program], local_arrays: Sequence[dict[str, str]]
) -> None:
    """Emit one run of a program, or of several partitions with one warp each (warp specialization).

    `%role` is the partition of the warp. A block barrier follows each of the two basic blocks of a partition: one for
    the exchange of values, one so that no warp reads state that another has not written yet.
    """
    if len(partitions) == 1:
        emitter.begin_program(partitions[0], local_arrays[0])
        emitter.emit_statements(partitions[0].body)
        return
    labels, done = [emitter.fresh_name("role") for _ in partitions], emitter.fresh_name("done")
    cases = " ".join(f"i32 {i}, label %{label}" for i, label in enumerate(labels))
    emitter.emit(f"switch i32 %role, label %{done} [ {cases} ]")
    for partition, label, arrays in zip(partitions, labels, local_arrays, strict=True):
        emitter.start_block(label)
        emitter.begin_program(partition, arrays)
        for block in partition.body:
            emitter.emit_statements((block,))
            emitter.emit(f"call void @{_BLOCK_BARRIER}()")
        emitter.emit(f"br label %{done}")
    emitter.start_block(done)


def _emit_present_lanes(emitter: StatementEmitter) -> str:
    """Emit the mask of lanes that are environments; the last vector may be partial."""
    n = emitter.target.lanes
    first = emitter.assign(f"insertelement <{n} x i64> poison, i64 %e, i64 0")
    first_envs = emitter.assign(f"shufflevector <{n} x i64> {first}, <{n} x i64> poison, <{n} x i32> zeroinitializer")
    envs = emitter.assign(f"add <{n} x i64> {first_envs}, <{', '.join(f'i64 {i}' for i in range(n))}>")
    count = emitter.assign(f"insertelement <{n} x i64> poison, i64 %n_envs, i64 0")
    end = emitter.assign(f"shufflevector <{n} x i64> {count}, <{n} x i64> poison, <{n} x i32> zeroinitializer")
    return emitter.assign(f"icmp slt <{n} x i64> {envs}, {end}")


def is_divergent(statement: Statement) -> bool:
    """Whether control flow or addresses of a statement may differ between environments."""
    if isinstance(statement, BasicBlock):
        return any(location.index is not None for location in statement.locations())
    if isinstance(statement, WhileLoop | If) or (isinstance(statement, CountedLoop) and not statement.uniform):
        return True
    return isinstance(statement, ForEachLoop) and any(is_divergent(x) for b in nested_bodies(statement) for x in b)
