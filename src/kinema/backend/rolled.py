"""Structured programs, compiled and launched: code that fits many models, and the tables of one.

This module must not postpone its annotations: Warp reads the types of kernels from them.
"""

# pyright: reportInvalidTypeForm=false

from itertools import pairwise
from typing import Any

import numpy as np

from kinema.foundation import KinemaError
from kinema.trace import Rolled, Target, emit_rolled

from .devices import Device, warp
from .kernels import BLOCK_DIM, WORK_PER_THREAD, Arguments, Launch, in_own_module
from .processor import n_threads

_HEAD = """
{scalar}* __restrict__ state = state_.data; const {scalar}* __restrict__ told_start = told_.data;
{scalar}* __restrict__ scratch = scratch_.data;
const int* __restrict__ ints = ints_.data; const {scalar}* __restrict__ floats = floats_.data;
"""


class RolledKernel:
    """A structured program, compiled for a device; with the tables of a model, and memory to work in."""

    def __init__(
        self, rolled: Rolled, device: Device, precision: str, lanes: int | None = None, runs_per_step: int = 1
    ) -> None:
        self.device = device
        self.precision = precision
        self.lanes = lanes or device.lanes(precision)
        self.n_operations = rolled.n_operations
        self.n_scratch = max(rolled.n_scratch, 1)
        wp = warp()
        self._dtype = wp.float32 if precision == "single" else wp.float64
        ints, floats = rolled.tables()
        self._ints = wp.array(ints, dtype=wp.int32, device=device.name)
        self._floats = wp.array(floats.astype(_numpy(precision)), dtype=self._dtype, device=device.name)
        target = Target(precision, self.lanes)
        self.source = _HEAD.format(scalar=target.scalar) + emit_rolled(rolled, target, runs_per_step)
        self._kernel = _kernel(self.source, precision, device)
        self._scratch: dict[int, Any] = {}

    def compile(self) -> None:
        """Compile, or load from the disk cache, now."""
        warp().load_module(self._kernel.module, device=self.device.name)

    def record(self, arguments: Arguments) -> Launch:
        """A launch that can be repeated without looking at its arguments again."""
        blocks = -(-arguments.state.n_envs // self.lanes)
        shards = 1
        if self.device.is_cpu:
            work = blocks * self.lanes * self.n_operations * arguments.steps
            shards = max(1, min(arguments.threads or n_threads(), work // WORK_PER_THREAD, blocks))
        bounds = [blocks * i // shards for i in range(shards + 1)]
        return Launch([self._record(arguments, a, b - a, shard) for shard, (a, b) in enumerate(pairwise(bounds))])

    def _record(self, arguments: Arguments, first: int, count: int, shard: int) -> Any:
        # on a CPU a thread runs one vector of environments after the other, in memory that stays in its cache
        stride = self.lanes if self.device.is_cpu else arguments.state.stride
        return warp().launch(
            self._kernel,
            dim=count,
            inputs=[
                arguments.state.data,
                arguments.told,
                self._scratch_of(shard, stride),
                self._ints,
                self._floats,
                arguments.state.stride,
                stride,
                0 if self.device.is_cpu else 1,
                arguments.steps,
                arguments.advance,
                first * self.lanes,
                self.lanes,
            ],
            device=self.device.name,
            block_dim=BLOCK_DIM,
            record_cmd=True,
        )

    def _scratch_of(self, shard: int, stride: int) -> Any:
        """The memory that a thread works in on a CPU, or all threads on a GPU."""
        if shard not in self._scratch:
            needed = self.n_scratch * stride * np.dtype(_numpy(self.precision)).itemsize
            free = self.device.free_memory()
            if needed > free:
                raise KinemaError(
                    f"{stride} environments need {needed / 2**20:,.0f} MiB to work in, and {self.device.name} has "
                    f"{free / 2**20:,.0f} MiB free"
                )
            self._scratch[shard] = warp().zeros((self.n_scratch, stride), dtype=self._dtype, device=self.device.name)
        return self._scratch[shard]


def _numpy(precision: str) -> type[np.floating[Any]]:
    return np.float32 if precision == "single" else np.float64


def _kernel(source: str, precision: str, device: Device) -> Any:
    """A Warp kernel around the text, in a module of its own that is called after its content."""
    wp = warp()
    scalar = wp.float32 if precision == "single" else wp.float64

    @wp.func_native(source)
    def run(  # noqa: PLR0913, PLR0917  all that the text names
        state_: wp.array2d(dtype=scalar),
        told_: wp.array2d(dtype=scalar),
        scratch_: wp.array2d(dtype=scalar),
        ints_: wp.array(dtype=wp.int32),
        floats_: wp.array(dtype=scalar),
        stride: int,
        scratch_stride: int,
        scratch_e: int,
        steps: int,
        advance: int,
        e: int,
    ): ...

    def kinema_rolled(  # noqa: PLR0913, PLR0917
        state: wp.array2d(dtype=scalar),
        told: wp.array2d(dtype=scalar),
        scratch: wp.array2d(dtype=scalar),
        ints: wp.array(dtype=wp.int32),
        floats: wp.array(dtype=scalar),
        stride: int,
        scratch_stride: int,
        shared: int,
        steps: int,
        advance: int,
        first: int,
        lanes: int,
    ):
        e = first + wp.tid() * lanes
        run(state, told, scratch, ints, floats, stride, scratch_stride, e * shared, steps, advance, e)

    return in_own_module(kinema_rolled, source, precision, device)
