"""Lazily imported names of the package `kinema.codegen`: the emitters and their targets."""

from .cpu.statement_timing import timed_statement_names as timed_statement_names
from .cuda.warp import WarpRegionConfig as WarpRegionConfig
from .cuda.work_queue import (
    inline_variants as inline_variants,
    max_queued_rows as max_queued_rows,
    queued_variants as queued_variants,
    split_rows_among_warps as split_rows_among_warps,
)
from .emit import (
    emit_binning_kernel as emit_binning_kernel,
    emit_cpu_modules as emit_cpu_modules,
    emit_filter_kernel as emit_filter_kernel,
    emit_queue_kernel as emit_queue_kernel,
    emit_thread_kernel as emit_thread_kernel,
    emit_warp_kernel as emit_warp_kernel,
    warp_region_tables as warp_region_tables,
)
from .target import Target as Target
