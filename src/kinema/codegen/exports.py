"""Lazily imported names of the package `kinema.codegen`: the emitters and their targets."""

from .cpu.library import LibraryModule as LibraryModule, call_program as call_program
from .cpu.statement_timing import timed_statement_names as timed_statement_names
from .cuda.intrinsics.ldl_solve import LdlSolve as LdlSolve
from .cuda.intrinsics.linear_system import (
    BlockArrowhead as BlockArrowhead,
    HessianTerm as HessianTerm,
    cone_weight_size as cone_weight_size,
)
from .cuda.intrinsics.minimum_degree import (
    EdgeRecords as EdgeRecords,
    MinimumDegreeOrdering as MinimumDegreeOrdering,
)
from .cuda.warp import WarpRegionConfig as WarpRegionConfig
from .cuda.work_queue import (
    chunk_iterations as chunk_iterations,
    inline_specializations as inline_specializations,
    max_queued_iterations as max_queued_iterations,
    queued_specializations as queued_specializations,
)
from .emit import (
    emit_binning_kernel as emit_binning_kernel,
    emit_cpu_modules as emit_cpu_modules,
    emit_filter_kernel as emit_filter_kernel,
    emit_queue_kernel as emit_queue_kernel,
    emit_thread_kernel as emit_thread_kernel,
    emit_warp_kernel as emit_warp_kernel,
    is_divergent as is_divergent,
    warp_region_tables as warp_region_tables,
)
from .target import Target as Target
