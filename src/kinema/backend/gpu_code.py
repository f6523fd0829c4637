"""Machine code for a GPU: compiled and kept by NVIDIA Warp.

This module must not postpone its annotations: Warp reads the types of kernels from them.
"""

# pyright: reportInvalidTypeForm=false

import hashlib
from typing import Any

from .devices import Device, warp, warp_lock

LEAST_BLOCKS = 4
"""Blocks that a multiprocessor has to have room for. More leave a thread too few registers: twice the time for a
humanoid with 5, measured on an H200."""
_HEAD = """
{scalar}* __restrict__ state = state_.data; const {scalar}* __restrict__ told_start = told_.data;
{scalar}* __restrict__ out = out_.data; const {scalar}* __restrict__ uniform = uniform_.data;
{scalar}* __restrict__ scratch = scratch_.data;
const int* __restrict__ ints = ints_.data; const {scalar}* __restrict__ floats = floats_.data;
const int e = {environment};
"""


def compile_gpu(text: str, scalar: str, environment: str, device: Device, block_dim: int) -> Any:
    """A Warp kernel around the text of a function, in a module that is called after its content, as its cache is."""
    wp = warp()
    number = wp.float32 if scalar == "float" else wp.float64
    source = _HEAD.format(scalar=scalar, environment=environment) + text

    @wp.func_native(source)
    def run(  # noqa: PLR0913, PLR0917  all that the text names
        state_: wp.array2d(dtype=number),
        told_: wp.array2d(dtype=number),
        out_: wp.array2d(dtype=number),
        uniform_: wp.array(dtype=number),
        scratch_: wp.array2d(dtype=number),
        ints_: wp.array(dtype=wp.int32),
        floats_: wp.array(dtype=number),
        stride: int,
        steps: int,
        advance: int,
        thread: int,
    ): ...

    def kinema_program(  # noqa: PLR0913, PLR0917
        state: wp.array2d(dtype=number),
        told: wp.array2d(dtype=number),
        out: wp.array2d(dtype=number),
        uniform: wp.array(dtype=number),
        scratch: wp.array2d(dtype=number),
        ints: wp.array(dtype=wp.int32),
        floats: wp.array(dtype=number),
        stride: int,
        steps: int,
        advance: int,
    ):
        run(state, told, out, uniform, scratch, ints, floats, stride, steps, advance, wp.tid())

    options = {"enable_backward": False, "launch_bounds": (block_dim, LEAST_BLOCKS)}
    digest = hashlib.sha256(f"{scalar} {options} {source}".encode()).hexdigest()[:16]
    with warp_lock:
        module = wp.get_module(f"kinema_{digest}")
        module.options.update({"enable_backward": False, "fuse_fp": True})
        kernel = wp.Kernel(func=kinema_program, module=module, options=options)
        wp.load_module(module, device=device.name, block_dim=block_dim)  # another one would compile again
    return kernel
