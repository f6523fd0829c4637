"""L2: arrays and compiled programs, through LLVM and on a GPU NVIDIA Warp and CUDA: only this knows of them."""

from kinema.foundation import CACHE_VARIABLE as CACHE_VARIABLE, cache_dir as cache_dir

from .arrays import Arena as Arena, Field as Field, Layout as Layout, padded as padded
from .devices import (
    Device as Device,
    DeviceFacts as DeviceFacts,
    all_devices as all_devices,
    find_device as find_device,
    settle as settle,
    share_stream as share_stream,
    synchronise as synchronise,
    torch_module as torch_module,
    warp as warp,
)
from .dump import dump_arrays as dump_arrays, dump_folder as dump_folder
from .graphs import captured as captured
from .host_code import first_tier as first_tier, is_tiered as is_tiered
from .images import Source as Source
from .kernels import Kernel as Kernel
from .pieces import Arguments as Arguments, Roles as Roles
from .processor import n_threads as n_threads, processor_text as processor_text, vector_bits as vector_bits
