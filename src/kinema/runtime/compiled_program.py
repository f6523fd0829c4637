"""Compiled programs as data: program sources, compile options, host executables, GPU modules and launch arguments.

GPU modules and images are stored in the disk cache; loaded kernels and host shards exist in one process only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kinema.ir import MemoryLocation

from .arrays import Arena
from .cuda_driver import GpuFunction
from .devices import Device
from .host_jit import HostCode

if TYPE_CHECKING:
    from kinema.ir import Program


# ------------------------------------------------------------------------------------------------------------- launches

BLOCK_DIM = 64
"""Threads per block of thread and work-queue kernels."""


@dataclass(frozen=True, slots=True)
class Partitioning:
    """Partitioning of an environment among several GPU threads (warp specialization)."""

    count: int
    """Number of partitions."""
    partition_of: Callable[[MemoryLocation], int | None]
    """Partition of an input or output slot; None for slots that all partitions use."""


@dataclass(frozen=True, slots=True)
class LaunchArguments:
    """Arrays and counts that a kernel is launched with."""

    state: Arena
    """Arena of the state, read and written."""
    inputs: Any
    """Array of input rows (controls); of a rollout, the rows of all steps consecutively."""
    out: Arena
    """Arena of outputs."""
    uniform: Arena
    """Arena of values shared by all environments."""
    steps: int = 1
    input_rows_per_step: int = 0
    """Input rows to advance by after each step; 0 for the same inputs in all steps."""
    max_threads: int | None = None
    """Largest number of CPU threads; None for the number of cores."""


@dataclass(frozen=True, slots=True, eq=False)
class HostShard:
    """The part of a CPU launch that one thread executes: a range of environments."""

    code: HostCode
    arguments: tuple[int, ...]
    """Arguments of the compiled function: array addresses, then integers."""
    envs: slice
    """Environments of the shard."""
    keep_alive: tuple[Any, ...]
    """The arrays behind the addresses."""

    def __call__(self) -> None:
        """Run the shard with the code of the active tier."""
        self.code.run(*self.arguments)


@dataclass(frozen=True, slots=True, eq=False)
class CompiledKernel:
    """A kernel loaded on a GPU, with its launch parameters."""

    function: GpuFunction
    name: str
    """Label in profilers."""
    tables: tuple[Any, Any]
    """Integer and float table on the device."""
    n_operations: int
    """Approximate floating-point operations per run."""
    envs_per_block: int
    n_partitions: int = 1
    n_warp_memory: int = 0
    """Scalars of global working memory per warp; 0 for kernels with independent threads."""
    max_resident_blocks: int = 0
    """Resident blocks of a warp kernel on the whole GPU; each warp processes environments in turn."""
    queues: WorkQueues | None = None
    """Work queues that the kernel fills or processes; None for other kernels."""
    can_overlap: bool = False
    """Whether the kernel may run concurrently with the preceding work-queue kernels."""
    binning: GpuFunction | None = None
    """Kernel that bins environments by workload before a warp kernel."""
    n_exchanged: int = 0
    """Scalars per environment that separated partitions exchange; 0 for other kernels."""
    n_iterations: int = 1
    """Iterations of a parallel loop, with a thread per environment each."""

    def n_warps(self, n_envs: int) -> int:
        """Number of warps that a warp kernel is launched with for so many environments."""
        per_block = self.envs_per_block
        return min(-(-n_envs // per_block), self.max_resident_blocks) * per_block


@dataclass(frozen=True, slots=True)
class WorkQueues:
    """Work queues of one program part, one per loop specialization."""

    part_index: int
    """The program part that they belong to."""
    n_specializations: int
    max_iterations_per_env: int
    """Largest number of queued iterations per environment."""
    n_blocks: int = 0
    """Thread blocks of a queue kernel; 0 for a filter kernel."""
    n_chunks: int = 0
    """Chunks into which a filter kernel divides the iterations."""


# ------------------------------------------------------------------------------------------------------------- programs

TableArrays = tuple[np.ndarray, np.ndarray]
"""Integer table, and float table in the precision of the program."""


@dataclass(frozen=True, slots=True, eq=False)
class ProgramSource:
    """A program that is traced only if it is not in the cache."""

    trace: Callable[[], Program]
    """Traces the program."""
    key: str | None = None
    """Digest of everything that determines the program, except Kinema's source code; None if unknown."""
    name: str = "kinema"
    """Name in profilers."""


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """Target of a compilation."""

    device: Device
    precision: str
    """`single` or `double`."""
    lanes: int
    """Environments per SIMD vector on a CPU."""
    runs_per_step: int
    """Executions of the program per step."""
    n_envs: int | None
    """Approximate number of environments on a GPU; None for any number."""
    timed: bool = False
    """Whether to measure the time of top-level statements, on a CPU (`kinema.codegen.timed_statement_names`)."""


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class HostExecutable:
    """A program compiled for the CPU."""

    code: HostCode
    ints: np.ndarray
    floats: np.ndarray
    """Integer and float tables."""
    n_scratch: int
    """Scratch memory of an environment, in scalars."""
    n_operations: int
    """Approximate floating-point operations per run."""
    n_instructions: int


@dataclass(frozen=True, slots=True, eq=False)
class GpuModule:
    """A GPU kernel as PTX, with its launch parameters; a `CompiledKernel` is loaded from it."""

    ptx: bytes
    block_dim: int
    table_index: int
    """Index into the tables of the image."""
    n_operations: int
    envs_per_block: int
    n_partitions: int = 1
    n_warp_memory: int = 0
    queues: WorkQueues | None = None
    can_overlap: bool = False
    binning_ptx: bytes | None = None
    """PTX of the kernel that bins environments by workload before a warp kernel."""
    label: str = ""
    """Label in profilers."""
    n_exchanged: int = 0
    """Scalars per environment that separated partitions exchange in memory passed as the arena `out`."""
    n_iterations: int = 1
    """Iterations of a parallel loop, with a thread per environment each."""


@dataclass(frozen=True, slots=True, eq=False)
class GpuImage:
    """All kernels of a program as PTX, with their tables: the content of a cache entry."""

    modules: list[GpuModule]
    tables: list[TableArrays]
    n_scratch: int
    """Scratch memory of the thread kernels per environment, in scalars."""
    n_reset_queues: int
    """Work queues that the environment-binning kernel clears."""
    n_instructions: int

    def to_cache_entry(self) -> dict[str, Any]:
        """Convert the image to the dictionary stored in the disk cache; inverse of `from_cache_entry`."""
        values: dict[str, Any] = {
            name: getattr(self, name) for name in ("n_scratch", "n_reset_queues", "n_instructions")
        }
        values["modules"] = records = []
        for i, module in enumerate(self.modules):
            queues = None if module.queues is None else asdict(module.queues)
            fields = (
                "block_dim",
                "table_index",
                "n_operations",
                "envs_per_block",
                "n_partitions",
                "n_warp_memory",
                "can_overlap",
                "label",
                "n_exchanged",
                "n_iterations",
            )
            records.append({name: getattr(module, name) for name in fields} | {"queues": queues})
            values[f"ptx {i}"] = module.ptx
            if module.binning_ptx is not None:
                values[f"binning_ptx {i}"] = module.binning_ptx
        for i, (ints, floats) in enumerate(self.tables):
            values |= {f"ints {i}": ints, f"floats {i}": floats}
        values["n_tables"] = len(self.tables)
        return values

    @classmethod
    def from_cache_entry(cls, entry: Mapping[str, Any]) -> GpuImage:
        """Build an image from a dictionary of the disk cache; inverse of `to_cache_entry`."""
        modules = []
        for i, record in enumerate(entry["modules"]):
            queues = None if record["queues"] is None else WorkQueues(**record.pop("queues"))
            record = {name: value for name, value in record.items() if name != "queues"}
            modules.append(
                GpuModule(entry[f"ptx {i}"], queues=queues, binning_ptx=entry.get(f"binning_ptx {i}"), **record)
            )
        tables = [(entry[f"ints {i}"], entry[f"floats {i}"]) for i in range(entry["n_tables"])]
        return cls(modules, tables, *(entry[name] for name in ("n_scratch", "n_reset_queues", "n_instructions")))


@dataclass(frozen=True, slots=True, eq=False)
class GpuCompilation:
    """Result of compiling a program for a GPU: kernels to start with and final kernels, with bitwise equal results."""

    first: GpuImage
    """Kernels to start with; long kernels of several partitions are replaced by several that are assembled sooner."""
    get_final: Callable[[], GpuImage] | None = None
    """Waits for the final kernels; None if `first` has them."""
