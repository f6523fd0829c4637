"""Programs, compiled for a device and launched."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np

from kinema.trace import Place, Program, Slot, Target, emit_gpu, emit_llvm, lines, n_exchanged, optimise, split

from .arrays import Arena
from .devices import Device, numpy_type, warp
from .gpu_code import BLOCKS, GpuFunction
from .host_code import compile_host
from .processor import has_fused_multiply_add, n_threads

WORK_PER_THREAD = 200_000
"""Operations below which a second thread costs more than it brings."""
BLOCK_DIM = 64
WARP = 32
MOST_VALUES = 120
"""That fit into half the registers."""
SHARED_BYTES = 48 * 1024
"""Memory that the threads of a block share, on every GPU."""


@dataclass(frozen=True, slots=True)
class Roles:
    """How several threads share an environment: the role of each input and output, None for what all of them have."""

    count: int
    of: Callable[[Slot], int | None]


@dataclass(frozen=True, slots=True)
class Arguments:
    """What a kernel is launched with."""

    state: Arena
    told: Any
    """An array of rows; a rollout's has those of all steps one after the other."""
    out: Arena
    uniform: Arena
    steps: int = 1
    advance: int = 0
    """Rows from one step's commands to the next."""
    threads: int | None = None
    """At most so many on a CPU; None for as many as there are cores."""


class Kernel:
    """A program, compiled for a device: with its tables, and memory to work in.

    Vectors of environments, and several threads to one, are matters of how it is compiled, not of the program.
    """

    def __init__(
        self,
        program: Program,
        places: Mapping[str, Place],
        device: Device,
        precision: str,
        *,
        lanes: int | None = None,
        roles: Roles | None = None,
        runs_per_step: int = 1,
        n_envs: int = 1,
    ) -> None:
        """`n_envs` is about how many environments it will run for."""
        self.device = device
        self.lanes = lanes or device.lanes(precision)
        self.n_scratch = program.n_scratch
        self._precision = precision
        parts = self._parts(program, roles)
        self.roles = len(parts)
        self.n_operations = sum(part.n_operations for part in parts)
        ints, floats = program.tables()
        self._ints = device.array(ints)
        with np.errstate(over="ignore"):  # beyond the largest number is infinite
            self._floats = device.array(floats.astype(numpy_type(precision)))
        self._scratch: dict[int, Any] = {}
        self._earlier: list[Any] = []
        """Narrower memory that earlier launches work in."""
        if device.is_cpu:
            target = Target(precision, self.lanes, fused=has_fused_multiply_add())
            self.source = emit_llvm(parts[0], places, target, runs_per_step)
            self._code: Any = compile_host(self.source)
        else:
            self.source = emit_gpu(parts, places, Target(precision, gpu=True), runs_per_step)
            self._code = GpuFunction(self.source, device, self._block_dim, self._n_blocks(parts, n_envs))

    def _parts(self, program: Program, roles: Roles | None) -> tuple[Program, ...]:
        """The program, or one for each role where it is a line that can be shared."""
        if roles is not None and roles.count > 1 and program.is_straight and not self.device.is_cpu:
            divided = split(program.line, roles.of, roles.count)
            if n_exchanged(divided) * WARP * np.dtype(numpy_type(self._precision)).itemsize <= SHARED_BYTES:
                return divided
        return (optimise(program),)

    def _n_blocks(self, parts: tuple[Program, ...], n_envs: int) -> int | None:
        """How many blocks a multiprocessor of a GPU has to have room for; None leaves that to the assembler.

        Where there are so many environments that they would wait for each other, and a line with few values at a time,
        twice as many with half the registers each are a fifth faster; with fewer environments they are slower.
        """
        few_values = max((line.max_live() for part in parts for line in lines(part.blocks)), default=0) < MOST_VALUES
        crowded = n_envs * self.roles > BLOCKS * BLOCK_DIM * self.device.n_multiprocessors
        return 2 * BLOCKS if crowded and few_values and self._precision == "single" else None

    @property
    def _block_dim(self) -> int:
        """Threads of a block; where there are roles, one warp of environments, and as many warps as roles."""
        return BLOCK_DIM if self.roles == 1 else WARP * self.roles

    def record(self, arguments: Arguments) -> Callable[[], None]:
        """A launch that can be repeated without looking at its arguments again; on a CPU it is done when it returns."""
        return self._on_host(arguments) if self.device.is_cpu else self._on_gpu(arguments)

    def _on_host(self, arguments: Arguments) -> Callable[[], None]:
        vectors = -(-arguments.state.n_envs // self.lanes)
        work = vectors * self.lanes * self.n_operations * arguments.steps
        shards = max(1, min(arguments.threads or n_threads(), work // WORK_PER_THREAD, vectors))
        bounds = [vectors * i // shards for i in range(shards + 1)]
        arrays = [arguments.state.data, arguments.told, arguments.out.data, arguments.uniform.data]
        run, steps = self._code, (arguments.state.stride, arguments.steps, arguments.advance, arguments.state.n_envs)
        calls = []
        for shard, (first, last) in enumerate(pairwise(bounds)):
            # a thread runs one vector of environments after the other, in memory that stays in its cache
            own = [*arrays, self._memory(shard, self.lanes), self._ints, self._floats]
            calls.append((own, (*(a.ctypes.data for a in own), *steps, first, last)))
        if shards == 1:
            kept, only = calls[0]
            return lambda kept=kept: run(*only)

        def launch() -> None:
            waiting = [_pool().submit(run, *values) for _, values in calls[1:]]
            run(*calls[0][1])
            for future in waiting:
                future.result()

        return launch

    def _on_gpu(self, arguments: Arguments) -> Callable[[], None]:
        state = arguments.state
        arrays = [state.data, arguments.told, arguments.out.data, arguments.uniform.data]
        arrays += [self._memory(0, state.stride), self._ints, self._floats]
        n_blocks = -(-state.n_envs // (self._block_dim // self.roles))
        return self._code.record(n_blocks, arrays, (state.stride, arguments.steps, arguments.advance, state.n_envs))

    def _memory(self, shard: int, stride: int) -> Any:
        """What a thread works in on a CPU, or all threads on a GPU."""
        stride = stride if self.n_scratch else self.lanes
        if shard not in self._scratch or self._scratch[shard].shape[1] < stride:
            self._earlier += [self._scratch[shard]] if shard in self._scratch else []
            shape = (max(self.n_scratch, 1), stride)
            self._scratch[shard] = self.device.zeros(shape, self._precision, f"{stride} environments, to work in")
        return self._scratch[shard]


def _after_fork() -> None:
    """Threads do not survive a fork."""
    _pool.cache_clear()


@cache
def _pool() -> ThreadPoolExecutor:
    """The threads of all launches: as many as there are cores, whoever asks."""
    return ThreadPoolExecutor(n_threads(), thread_name_prefix="kinema")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


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
    # the graph knows addresses; the launches keep the arrays there
    return lambda kept=tuple(launches): wp.capture_launch(capture.graph)
