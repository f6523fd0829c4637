"""Runtime: devices, arrays, compilation of programs by LLVM, and kernel launches on the CPU or a GPU.

GPUs are used through NVIDIA Warp (memory, streams) and the CUDA driver API (kernels).
"""

from kinema.core import CACHE_ENV_VARIABLE as CACHE_ENV_VARIABLE, cache_dir as cache_dir

from .arrays import (
    ENV_ALIGNMENT as ENV_ALIGNMENT,
    Arena as Arena,
    ArenaLayout as ArenaLayout,
    ArraySeries as ArraySeries,
    ArrayView as ArrayView,
    copy_rows as copy_rows,
    padded_stride as padded_stride,
    row_filler as row_filler,
)
from .compiled_program import (
    LaunchArguments as LaunchArguments,
    Partitioning as Partitioning,
    ProgramSource as ProgramSource,
)
from .cpu_features import cpuinfo as cpuinfo, n_threads as n_threads, simd_width_bits as simd_width_bits
from .devices import (
    Device as Device,
    DeviceInfo as DeviceInfo,
    begin_initialisation as begin_initialisation,
    find_device as find_device,
    list_devices as list_devices,
    share_torch_stream as share_torch_stream,
    synchronise as synchronise,
    synchronise_unless_shared as synchronise_unless_shared,
    torch_module as torch_module,
    warp as warp,
)
from .dump import dump_arrays as dump_arrays, dump_folder as dump_folder
from .host_jit import first_tier as first_tier, is_tiered as is_tiered
from .kernels import Kernel as Kernel, run_in_threads as run_in_threads
from .launch_graphs import capture_graph as capture_graph
from .object_files import (
    TARGET_NAMES as TARGET_NAMES,
    ElfSummary as ElfSummary,
    LibraryTarget as LibraryTarget,
    ObjectFile as ObjectFile,
    compile_object as compile_object,
    library_target as library_target,
    static_library as static_library,
    summarise_elf as summarise_elf,
)
from .ptx_assembler import start_gpu_compilers as start_gpu_compilers
from .readback import HostCopy as HostCopy, PeriodicReadback as PeriodicReadback
from .wasm_modules import (
    WasmSummary as WasmSummary,
    summarise_wasm as summarise_wasm,
    wasm_module as wasm_module,
)
