"""Lazily imported names of the package `kinema.ir`: tracing, optimisation and interpretation of programs."""

from .adjoint_sweep import ADJOINT_PREFIX as ADJOINT_PREFIX
from .block_split import split_basic_block as split_basic_block
from .dead_stores import eliminate_dead_stores as eliminate_dead_stores
from .effects import outermost_for_each_loops as outermost_for_each_loops
from .for_each_loops import (
    ColumnarGroup as ColumnarGroup,
    IterationContext as IterationContext,
    IterationTable as IterationTable,
    LoopIteration as LoopIteration,
    LoopIterations as LoopIterations,
    NestedIterations as NestedIterations,
    OffsetColumn as OffsetColumn,
    PerEnvParameterColumn as PerEnvParameterColumn,
    PerEnvParameters as PerEnvParameters,
    RowwiseGroup as RowwiseGroup,
    SpecializationGroup as SpecializationGroup,
    trace_for_each_loop as trace_for_each_loop,
    trace_work_queue_loop as trace_work_queue_loop,
)
from .forward_mode import TANGENT_PREFIX as TANGENT_PREFIX, jvp as jvp
from .interpreter import (
    interpret as interpret,
    interpret_batched as interpret_batched,
    interpret_in_place as interpret_in_place,
    supports_batching as supports_batching,
)
from .intrinsics import (
    AtomicIncrement as AtomicIncrement,
    Intrinsic as Intrinsic,
    IntrinsicCall as IntrinsicCall,
    SharedMemoryStaging as SharedMemoryStaging,
)
from .kernel_split import KernelPart as KernelPart, parallel_loop as parallel_loop
from .memory import (
    FIRST_ITERATION_PREFIX as FIRST_ITERATION_PREFIX,
    ITERATION_COUNT_PREFIX as ITERATION_COUNT_PREFIX,
    THREAD_SCRATCH as THREAD_SCRATCH,
    WARP_GLOBAL as WARP_GLOBAL,
    Operand as Operand,
    round_up_to_4 as round_up_to_4,
)
from .optimise import fuse_multiply_add as fuse_multiply_add, schedule_instructions as schedule_instructions
from .outline import (
    count_instructions as count_instructions,
    frame_layout as frame_layout,
    outline_functions as outline_functions,
)
from .partition import (
    EXCHANGE as EXCHANGE,
    LIVE_ACROSS_BARRIER as LIVE_ACROSS_BARRIER,
    SEPARATED_EXCHANGE as SEPARATED_EXCHANGE,
    exchange_size as exchange_size,
    partition_basic_block as partition_basic_block,
    partitions_of_scratch as partitions_of_scratch,
    separate_partitions as separate_partitions,
)
from .passes import (
    BLOCK_PASSES as BLOCK_PASSES,
    CPU_PASSES as CPU_PASSES,
    gpu_passes as gpu_passes,
    optimise as optimise,
    optimise_basic_block as optimise_basic_block,
    run_passes as run_passes,
    split_into_kernels as split_into_kernels,
)
from .program import (
    HALF_WORD_BITS as HALF_WORD_BITS,
    TABLE_HEADER_SIZE as TABLE_HEADER_SIZE,
    BasicBlock as BasicBlock,
    CountedLoop as CountedLoop,
    ForEachLoop as ForEachLoop,
    If as If,
    Instruction as Instruction,
    LevelBatch as LevelBatch,
    LoopSpecialization as LoopSpecialization,
    Program as Program,
    Statement as Statement,
    Statements as Statements,
    Store as Store,
    WarpRegion as WarpRegion,
    WhileLoop as WhileLoop,
    WorkQueueLoop as WorkQueueLoop,
    basic_blocks as basic_blocks,
    fits_half_words as fits_half_words,
    map_bodies as map_bodies,
    memory_accesses as memory_accesses,
    nested_bodies as nested_bodies,
    pack_int_table as pack_int_table,
    walk as walk,
)
from .reverse_mode import vjp as vjp
from .row_guards import Guard as Guard, find_guards as find_guards
from .scratch_layout import (
    MAX_ACCESS_BYTES as MAX_ACCESS_BYTES,
    ROW_GROUP as ROW_GROUP,
    VECTOR_WIDTH as VECTOR_WIDTH,
    HandoffLayout as HandoffLayout,
    handoff_offset as handoff_offset,
    reduce_staged_records as reduce_staged_records,
)
from .symbolic import (
    Scalar as Scalar,
    Tape as Tape,
    Value as Value,
    absolute as absolute,
    any_lane as any_lane,
    attach as attach,
    clamp as clamp,
    cos as cos,
    detach as detach,
    floor as floor,
    maximum as maximum,
    minimum as minimum,
    select as select,
    sin as sin,
    sqrt as sqrt,
    square as square,
    with_derivative_of as with_derivative_of,
    without_derivative as without_derivative,
)
from .tracer import Tracer as Tracer, program_from_tape as program_from_tape, while_loop as while_loop
from .uniform_split import (
    NotSplittableError as NotSplittableError,
    SplitProgram as SplitProgram,
    split_uniform as split_uniform,
)
from .unroll import unroll as unroll, unroll_program as unroll_program
from .verifier import verify as verify
