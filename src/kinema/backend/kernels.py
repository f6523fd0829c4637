"""Emitted programs, compiled and launched.

This module must not postpone its annotations: Warp reads the types of kernels from them.
"""

# pyright: reportInvalidTypeForm=false

import hashlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from kinema.trace import Place, Program, Split, Target, emit

from .arrays import Arena
from .devices import Device, warp
from .processor import n_threads

WORK_PER_THREAD = 200_000
"""Operations below which a second thread costs more than it brings."""
BLOCK_DIM = 64
WARP = 32
SHARED_BYTES = 48 * 1024

_HEAD = """
{scalar}* __restrict__ state = state_.data; const {scalar}* __restrict__ told_start = told_.data;
{scalar}* __restrict__ out = out_.data;
const int e = {environment};
"""
_ONE_THREAD = "first + thread * {lanes}"
_SEVERAL_THREADS = "thread / {block} * {warp} + thread % {warp}"
"""A block is one warp of environments, and as many warps as there are roles."""


@dataclass(frozen=True, slots=True)
class Arguments:
    """What a kernel is launched with."""

    state: Arena
    told: Any
    """A Warp array of rows; a rollout's has those of all steps one after the other."""
    out: Arena
    steps: int = 1
    advance: int = 0
    """Rows from one step's commands to the next."""
    threads: int | None = None
    """At most so many on a CPU; None for as many as there are cores."""


class Kernel:
    """A program, compiled for a device."""

    def __init__(
        self,
        program: Program | Split,
        places: Mapping[str, Place],
        device: Device,
        precision: str,
        lanes: int | None = None,
        runs_per_step: int = 1,
    ) -> None:
        lanes = lanes or device.lanes(precision)
        self.device = device
        self.lanes = lanes
        self.n_operations = program.n_operations
        self.roles = len(program.roles) if isinstance(program, Split) else 1
        environment = _ONE_THREAD.format(lanes=lanes)
        if self.roles > 1:
            environment = _SEVERAL_THREADS.format(block=WARP * self.roles, warp=WARP)
        target = Target(precision, lanes)
        head = _HEAD.format(scalar=target.scalar, environment=environment)
        self.source = head + emit(program, places, target, runs_per_step)
        self._kernel = _kernel(self.source, precision, device)

    def compile(self) -> None:
        """Compile, or load from the disk cache, now."""
        warp().load_module(self._kernel.module, device=self.device.name)

    def record(self, arguments: Arguments) -> "Launch":
        """A launch that can be repeated without looking at its arguments again."""
        n_envs = arguments.state.n_envs
        blocks = -(-n_envs // self.lanes) if self.roles == 1 else -(-n_envs // WARP) * WARP * self.roles
        shards = 1
        if self.device.is_cpu:
            work = blocks * self.lanes * self.n_operations * arguments.steps
            shards = max(1, min(arguments.threads or n_threads(), work // WORK_PER_THREAD, blocks))
        bounds = [blocks * i // shards for i in range(shards + 1)]
        parts = [self._record(arguments, a, b - a) for a, b in pairwise(bounds)]
        return Launch(parts)

    def _record(self, arguments: Arguments, first: int, count: int) -> Any:
        return warp().launch(
            self._kernel,
            dim=count,
            inputs=[
                arguments.state.data,
                arguments.told,
                arguments.out.data,
                arguments.state.stride,
                arguments.steps,
                arguments.advance,
                first * self.lanes,
            ],
            device=self.device.name,
            block_dim=BLOCK_DIM if self.roles == 1 else WARP * self.roles,
            record_cmd=True,
        )


def fits_exchange(n_values: int, precision: str) -> bool:
    """Whether the threads of a block can exchange so many values: in the memory that every GPU lets them share."""
    return n_values * WARP * (4 if precision == "single" else 8) <= SHARED_BYTES


class Launch:
    """One or several recorded launches that make up a call; several run at the same time."""

    def __init__(self, parts: Sequence[Any]) -> None:
        self._parts = list(parts)
        self._pool = ThreadPoolExecutor(len(parts) - 1) if len(parts) > 1 else None

    def __call__(self) -> None:
        """Launch; on a CPU it is done when this returns."""
        if self._pool is None:
            self._parts[0].launch()
            return
        waiting = [self._pool.submit(part.launch) for part in self._parts[1:]]
        self._parts[0].launch()
        for future in waiting:
            future.result()


def captured(device: Device, launches: Sequence[Callable[[], None]]) -> Callable[[], None]:
    """Several launches as one: a CUDA graph on a GPU, a loop on a CPU."""
    if device.is_cpu:

        def run() -> None:
            for launch in launches:
                launch()

        return run
    wp = warp()
    with wp.ScopedCapture(device=device.name) as capture:
        for launch in launches:
            launch()
    return lambda: wp.capture_launch(capture.graph)


def _kernel(source: str, precision: str, device: Device) -> Any:
    """A Warp kernel around the text, in a module of its own that is called after its content."""
    wp = warp()
    scalar = wp.float32 if precision == "single" else wp.float64

    @wp.func_native(source)
    def run(
        state_: wp.array2d(dtype=scalar),
        told_: wp.array2d(dtype=scalar),
        out_: wp.array2d(dtype=scalar),
        stride: int,
        steps: int,
        advance: int,
        first: int,
        thread: int,
    ): ...

    def kinema_program(
        state: wp.array2d(dtype=scalar),
        told: wp.array2d(dtype=scalar),
        out: wp.array2d(dtype=scalar),
        stride: int,
        steps: int,
        advance: int,
        first: int,
    ):
        run(state, told, out, stride, steps, advance, first, wp.tid())

    return in_own_module(kinema_program, source, precision, device)


def in_own_module(function: Callable[..., None], source: str, precision: str, device: Device) -> Any:
    """A function around emitted text as a kernel, in a module that is called after its content, as its cache is."""
    wp = warp()
    digest = hashlib.sha256(f"{function.__name__} {precision} {device.is_cpu} {source}".encode()).hexdigest()[:16]
    options: dict[str, Any] = {"enable_backward": False, "fuse_fp": not device.is_cpu}
    if device.is_cpu:
        options["optimization_level"] = 1  # straight-line code leaves nothing for more of it to do but take time
        options["cpu_compiler_flags"] = "-march=native -fno-vectorize -fno-slp-vectorize"
    module = wp.get_module(f"kinema_{digest}")
    module.options.update(options)
    return wp.Kernel(func=function, module=module, options={"enable_backward": False})
