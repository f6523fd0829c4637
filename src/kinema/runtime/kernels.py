"""Kernels: programs compiled for a device, their working memory, and their launches on CPU threads or a GPU."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from kinema.codegen import QUEUE_ENTRY_SIZE, WARP_MEMORY_HEADER, env_bins_size
from kinema.ir import ArenaOffset

from .arrays import Arena
from .compiled_program import (
    BLOCK_DIM,
    CompiledKernel,
    CompileOptions,
    HostShard,
    LaunchArguments,
    Partitioning,
    ProgramSource,
    WorkQueues,
)
from .cpu_features import n_threads
from .cuda_driver import is_capturing
from .devices import Device, numpy_dtype
from .executables import gpu_executable, host_executable
from .launch_graphs import group_by_queues, launch_concurrently, order_queue_launches, repeat_launches
from .llvm_compiler import OptLevel

if TYPE_CHECKING:
    from kinema.ir import Program

OPERATIONS_PER_THREAD = 200_000
"""Floating-point operations below which another CPU thread costs more than it saves."""


class Kernel:
    """A program compiled for a device: a shared executable, and working memory of its own.

    SIMD vectors of environments (CPU) and several threads per environment (GPU) are properties of the compilation, not
    of the program.
    """

    def __init__(  # noqa: PLR0913  compile options
        self,
        program: Program | ProgramSource,
        array_offsets: Mapping[str, ArenaOffset],
        device: Device,
        precision: str,
        *,
        lanes: int | None = None,
        partitioning: Partitioning | None = None,
        runs_per_step: int = 1,
        n_envs: int | None = None,
        wait: bool = False,
        timed: bool = False,
    ) -> None:
        """Compile a program, or load it from the cache.

        Args:
            program: program to run; a `ProgramSource` is traced only if the program is not in the cache.
            array_offsets: offsets of arrays in their arenas.
            device: device to run on.
            precision: `single` or `double`.
            lanes: environments per SIMD vector on a CPU; None for a choice by the CPU.
            partitioning: partitioning of an environment among several GPU threads.
            runs_per_step: executions of the program per step.
            n_envs: approximate number of environments; None for any number.
            wait: whether to wait for the optimised tier.
            timed: whether the arena `out` receives clock ticks per top-level statement
                (`kinema.codegen.timed_statement_names`), on a CPU.
        """
        self._requested_at = time.perf_counter()
        self.device = device
        self.lanes = lanes or device.lanes(precision, n_envs)
        self._precision = precision
        self._scratch: dict[object, Any] = {}
        self._retired_memory: list[Any] = []
        """Smaller memory that was replaced but may still be used by earlier launches."""
        self._runs_per_step = runs_per_step
        self.n_partitions = 1
        source = program if isinstance(program, ProgramSource) else ProgramSource(lambda: program)
        options = CompileOptions(device, precision, self.lanes, runs_per_step, n_envs, timed)
        if device.is_cpu:
            host = self._executable = host_executable(source, array_offsets, options, wait=wait)
            self._code, self._ints, self._floats = host.code, host.ints, host.floats
        else:
            gpu = self._executable = self._gpu = gpu_executable(source, array_offsets, options, partitioning, wait=wait)
            self._kernels, self._n_reset_queues = gpu.kernels, gpu.n_reset_queues
            self.n_partitions = self._kernels[0].n_partitions
        self.n_scratch = self._executable.n_scratch
        self.n_operations = self._executable.n_operations
        self.n_instructions = self._executable.n_instructions

    @property
    def tier(self) -> str:
        """Active tier: `baseline`, until the background compilation has finished, or `optimised`."""
        level = self._code.level if self.device.is_cpu else self._gpu.level
        return (OptLevel.OPTIMISED if level is None else level).name.lower()

    @property
    def tier_seconds(self) -> dict[str, float]:
        """Seconds from construction of the kernel until each of its tiers became active; active tiers only."""
        since = self._code.active_since if self.device.is_cpu else self._gpu.active_since
        return {level.name.lower(): max(at - self._requested_at, 0.0) for level, at in since.items()}

    def wait_optimised(self) -> None:
        """Wait until the optimised tier is active."""
        if self.device.is_cpu:
            self._code.load(wait=True)
        elif self._gpu.level is OptLevel.BASELINE:
            self._gpu.optimised.wait()

    def bytes_per_env(self, n_envs: int) -> int:
        """Working memory per environment on a GPU [bytes]: scratch offsets, warp memory, bins and work queues.

        0 on a CPU, whose threads use scratch memory for one vector of environments each.
        """
        if self.device.is_cpu:
            return 0
        n_warp_memory = sum(kernel.n_warp_memory * kernel.n_warps(n_envs) for kernel in self._kernels)
        n_warp_memory += sum(env_bins_size(n_envs) for kernel in self._kernels if kernel.binning is not None)
        n_scalars = self.n_scratch + -(-n_warp_memory // n_envs)
        queued_rows = {
            kernel.queues.part_index: kernel.queues.max_iterations_per_env
            for kernel in self._kernels
            if kernel.queues is not None
        }
        return n_scalars * numpy_dtype(self._precision)().itemsize + 4 * QUEUE_ENTRY_SIZE * sum(queued_rows.values())

    def prepare_launch(self, arguments: LaunchArguments) -> Callable[[], None]:
        """Function that repeats a launch with fixed arguments; on a CPU it returns when the launch has finished."""
        return self._prepare_host_launch(arguments) if self.device.is_cpu else self._prepare_gpu_launch(arguments)

    def _prepare_host_launch(self, arguments: LaunchArguments) -> Callable[[], None]:
        shards = self._host_shards(arguments)
        return shards[0] if len(shards) == 1 else lambda: run_in_threads(shards)

    def prepare_rollout(
        self, arguments_per_step: Sequence[LaunchArguments], on_step: Callable[[int, slice], None]
    ) -> Callable[[], None]:
        """Prepare a fused rollout on a CPU: returns a function that runs several launches (steps) in sequence.

        Threads are not synchronised between launches: each runs all launches of its share of environments.

        Args:
            arguments_per_step: launch arguments of each step, for the same environments.
            on_step: called by each thread after each step, with the step index and the thread's environments.
        """
        shards_per_thread = list(
            zip(
                *(self._host_shards(arguments, len(arguments_per_step)) for arguments in arguments_per_step),
                strict=True,
            )
        )

        def run(shards: Sequence[HostShard]) -> None:
            for step, shard in enumerate(shards):
                shard()
                on_step(step, shard.envs)

        return lambda: run_in_threads([partial(run, shards) for shards in shards_per_thread])

    def _host_shards(self, arguments: LaunchArguments, n_launches: int = 1) -> list[HostShard]:
        """Divide the environments of a CPU launch among threads, in whole SIMD vectors: one callable per thread.

        The number of threads follows from the floating-point operations of all `n_launches` launches. Each thread has
        its own scratch memory.
        """
        n_envs = arguments.state.n_envs
        n_vectors = -(-n_envs // self.lanes)
        n_operations = n_vectors * self.lanes * self.n_operations * arguments.steps * n_launches
        n_shards = max(1, min(arguments.max_threads or n_threads(), n_operations // OPERATIONS_PER_THREAD, n_vectors))
        bounds = [n_vectors * i // n_shards for i in range(n_shards + 1)]
        # a thread processes one vector of environments after the other, in scratch memory that stays in its cache
        return [
            self.host_shard(arguments, range(first, last), self._scratch_memory(shard, self.lanes))
            for shard, (first, last) in enumerate(pairwise(bounds))
        ]

    def host_shard(self, arguments: LaunchArguments, vectors: range, scratch: Any) -> HostShard:
        """Part of a CPU launch for consecutive SIMD vectors of environments, in the given scratch memory."""
        arrays = [arguments.state.data, arguments.inputs, arguments.out.data, arguments.uniform.data]
        arrays += [scratch, self._ints, self._floats]
        n_envs = arguments.state.n_envs
        integers = (arguments.state.stride, arguments.steps, arguments.input_rows_per_step, n_envs)
        values = (*(array.ctypes.data for array in arrays), *integers, vectors.start, vectors.stop)
        envs = slice(vectors.start * self.lanes, min(vectors.stop * self.lanes, n_envs))
        return HostShard(self._code, values, envs, tuple(arrays))

    def new_scratch_memory(self) -> Any:
        """Scratch memory of a CPU thread, (n_scratch, lanes)."""
        return self.device.zeros((max(self.n_scratch, 1), self.lanes), self._precision, "working memory of a thread")

    def _prepare_gpu_launch(self, arguments: LaunchArguments) -> Callable[[], None]:
        """Prepare a GPU launch; the returned function repeats it, with the optimised tier as soon as that is available.

        It does not switch tiers while a CUDA graph is being captured.
        """
        is_final = self._gpu.level is OptLevel.OPTIMISED
        kernels = self._kernels = self._gpu.kernels
        launch = self._record_launches(arguments)
        if is_final:
            return launch

        def run() -> None:
            """Launch, after preparing the launch again if the kernels were replaced by the optimised tier."""
            nonlocal kernels, launch
            if kernels is not self._gpu.kernels and not is_capturing(self.device):
                kernels = self._kernels = self._gpu.kernels
                launch = self._record_launches(arguments)
                self._scratch.pop("exchange", None)  # other launches of the baseline tier keep it alive
            launch()

        return run

    def _record_launches(self, arguments: LaunchArguments) -> Callable[[], None]:
        """Function that launches all kernels of a program on a GPU, for all steps.

        A single thread kernel loops over steps itself; otherwise the launches are captured as a CUDA graph, which is
        repeated.
        """
        if len(self._kernels) == 1 and not self._kernels[0].n_warp_memory:
            return self._kernel_launch(self._kernels[0], arguments, arguments.inputs, arguments.steps)
        launches = []
        for step in range(arguments.steps if arguments.input_rows_per_step else 1):
            inputs = arguments.inputs
            if arguments.input_rows_per_step:
                inputs = inputs[step * arguments.input_rows_per_step : (step + 1) * arguments.input_rows_per_step]
            launches += self._ordered_launches(arguments, inputs) * self._runs_per_step
        return repeat_launches(self.device, launches, 1 if arguments.input_rows_per_step else arguments.steps)

    def _ordered_launches(self, arguments: LaunchArguments, inputs: Any) -> list[Callable[[], None]]:
        """Prepare the launches of one run of the program, in order; independent kernels run on concurrent streams.

        Each returned function launches a kernel or a group of kernels. Clearing of the work queues overlaps with the
        first kernel, unless that is a work-queue kernel. `inputs` are the control inputs of the run.
        """
        ordered: list[Callable[[], None]] = []
        for group in group_by_queues(self._kernels):
            launches = [self._kernel_launch(kernel, arguments, inputs, 1) for kernel in group]
            if group[0].queues is None:
                ordered += launches
            else:
                ordered.append(order_queue_launches(self.device, group, launches, self._binning_launches(arguments)))
        # queues are cleared concurrently with the first kernel, unless that one uses them
        resets, starts_with_queue = self._queue_resets(arguments.state.stride), self._kernels[0].queues is not None
        return (
            [*resets, *ordered]
            if starts_with_queue or not resets
            else [launch_concurrently(self.device, [ordered[0], *resets]), *ordered[1:]]
        )

    def _queue_resets(self, stride: int) -> list[Callable[[], None]]:
        """Functions that set the lengths of the work queues to zero; none if the binning kernel does so."""
        if self._n_reset_queues:
            return []
        queues_of_part = {
            kernel.queues.part_index: kernel.queues for kernel in self._kernels if kernel.queues is not None
        }
        return [
            self._queue_memory(queues, stride)[: queues.n_specializations].zero_
            for queues in queues_of_part.values()
            if queues.max_iterations_per_env
        ]

    def _binning_launches(self, arguments: LaunchArguments) -> list[Callable[[], None]]:
        """Prepared launches of the kernels that sort environments by workload, one per warp kernel with binning."""
        state, binned = arguments.state, [kernel for kernel in self._kernels if kernel.binning is not None]
        integers = (state.stride, 1, 0, state.n_envs)
        queues = next((kernel.queues for kernel in self._kernels if kernel.queues is not None), None)
        reset_memory = (
            self._queue_memory(queues, state.stride)
            if queues is not None and self._n_reset_queues
            else arguments.inputs
        )
        launches = []
        for kernel in binned:
            assert kernel.binning is not None
            arrays = [state.data, reset_memory, arguments.out.data, arguments.uniform.data]
            arrays += [self._scratch_memory(0, state.stride), *kernel.tables, self._warp_memory(kernel, state)]
            launches.append(kernel.binning.prepare_launch(-(-state.n_envs // BLOCK_DIM), arrays, integers))
        return launches

    def _kernel_launch(
        self, kernel: CompiledKernel, arguments: LaunchArguments, inputs: Any, steps: int
    ) -> Callable[[], None]:
        """Prepare the launch of one GPU kernel: arrays, integer arguments and grid size.

        The grid covers all environments for a thread kernel, and only the resident warps for a warp kernel; for the
        kernels of a work queue it has a given number of blocks, or one block per chunk of iterations and block of
        environments.
        """
        state = arguments.state
        out = self._exchange_memory(kernel.n_exchanged, state.stride) if kernel.n_exchanged else arguments.out.data
        arrays = [state.data, inputs, out, arguments.uniform.data]
        arrays += [self._scratch_memory(0, state.stride), *kernel.tables]
        n_blocks = -(-state.n_envs // kernel.envs_per_block) * kernel.n_iterations
        if kernel.n_warp_memory:
            steps = kernel.n_warps(state.n_envs)
            n_blocks = steps // kernel.envs_per_block
            arrays.append(self._warp_memory(kernel, state))
        if kernel.queues is None:
            return kernel.function.prepare_launch(
                n_blocks, arrays, (state.stride, steps, arguments.input_rows_per_step, state.n_envs)
            )
        queue_memory = self._queue_memory(kernel.queues, state.stride)
        n_blocks = kernel.queues.n_blocks or kernel.queues.n_chunks * n_blocks
        return kernel.function.prepare_launch(
            n_blocks, [*arrays, queue_memory], (state.stride, n_blocks, arguments.input_rows_per_step, state.n_envs)
        )

    def _queue_memory(self, queues: WorkQueues, stride: int) -> Any:
        """Device memory of the work queues of a program part: one length per specialization, then the entries.

        Room for all queued loop iterations of all environments (`stride`). Allocated on first use and replaced by a
        larger array on demand.
        """
        key, n_integers = (
            ("queues", queues.part_index),
            queues.n_specializations + QUEUE_ENTRY_SIZE * queues.max_iterations_per_env * stride,
        )
        if key not in self._scratch or len(self._scratch[key]) < n_integers:
            self._retired_memory += [self._scratch[key]] if key in self._scratch else []
            # 32-bit integers, stored in an array of single-precision floats of equal size
            self._scratch[key] = self.device.zeros((n_integers,), "single", f"working memory of {stride} environments")
        return self._scratch[key]

    def _warp_memory(self, kernel: CompiledKernel, state: Arena) -> Any:
        """Global memory of a warp kernel: counters, environment bins, then one row per warp; enlarged on demand."""
        n_warps = kernel.n_warps(state.n_envs)
        n_scalars = (
            WARP_MEMORY_HEADER + (env_bins_size(state.stride) if kernel.binning else 0) + n_warps * kernel.n_warp_memory
        )
        if kernel not in self._scratch or len(self._scratch[kernel]) < n_scalars:
            self._retired_memory += [self._scratch[kernel]] if kernel in self._scratch else []
            self._scratch[kernel] = self.device.zeros(
                (n_scalars,), self._precision, f"working memory of {n_warps} warps"
            )
        return self._scratch[kernel]

    def _exchange_memory(self, n_exchanged: int, stride: int) -> Any:
        """Global memory in which separated partitions exchange values, (n_exchanged, stride); enlarged on demand."""
        if "exchange" not in self._scratch or self._scratch["exchange"].size < n_exchanged * stride:
            self._retired_memory += [self._scratch["exchange"]] if "exchange" in self._scratch else []
            purpose = f"working memory of {stride} environments"
            self._scratch["exchange"] = self.device.zeros((n_exchanged, stride), self._precision, purpose)
        return self._scratch["exchange"]

    def _scratch_memory(self, shard: int, stride: int) -> Any:
        """Scratch memory (n_scratch, stride) of a CPU thread, or of all GPU threads (shard 0); enlarged on demand."""
        stride = stride if self.n_scratch else self.lanes
        if shard not in self._scratch or self._scratch[shard].shape[1] < stride:
            self._retired_memory += [self._scratch[shard]] if shard in self._scratch else []
            shape = (max(self.n_scratch, 1), stride)
            self._scratch[shard] = self.device.zeros(shape, self._precision, f"working memory of {stride} environments")
        return self._scratch[shard]


def run_in_threads(tasks: Sequence[Callable[[], object]]) -> None:
    """Run tasks in parallel, the first in this thread and the others in the thread pool, and wait for all."""
    if len(tasks) == 1:
        tasks[0]()
        return
    futures = [_thread_pool().submit(task) for task in tasks[1:]]
    tasks[0]()
    for future in futures:
        future.result()


def _after_fork() -> None:
    """Discard the thread pool in a forked child, as threads do not survive a fork."""
    _thread_pool.cache_clear()


@cache
def _thread_pool() -> ThreadPoolExecutor:
    """Thread pool of all CPU launches, with one thread per core."""
    return ThreadPoolExecutor(n_threads(), thread_name_prefix="kinema")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
