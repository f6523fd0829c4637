"""L2: arrays and compiled programs on a CPU or GPU, through NVIDIA Warp. The one package that imports it."""

from .arrays import Arena as Arena, Field as Field, Layout as Layout, padded as padded
from .devices import Device as Device, find_device as find_device, synchronise as synchronise
from .kernels import (
    Arguments as Arguments,
    Kernel as Kernel,
    captured as captured,
    fits_exchange as fits_exchange,
)
from .machine import DeviceFacts as DeviceFacts, all_devices as all_devices, cache_folder as cache_folder
from .processor import n_threads as n_threads, processor_text as processor_text, vector_bits as vector_bits
from .rolled import RolledKernel as RolledKernel
