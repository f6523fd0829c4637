"""What kernels are made of and launched with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kinema.trace import Slot

from .arrays import Arena
from .gpu_code import GpuFunction
from .host_code import HostCode

BLOCK_DIM = 64
"""Threads of a block, where each works by itself."""


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


@dataclass(frozen=True, slots=True, eq=False)
class Share:
    """What a thread of a CPU does of a launch."""

    code: HostCode
    arguments: tuple[int, ...]
    envs: slice
    kept: tuple[Any, ...]
    """The arrays that it works on, by their addresses."""

    def __call__(self) -> None:
        """Do it, with the code of the tier that is active now."""
        self.code.run(*self.arguments)


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """A launch of a GPU."""

    code: GpuFunction
    name: str
    """What it does."""
    tables: tuple[Any, Any]
    n_operations: int
    envs_per_block: int
    roles: int = 1
    n_memory: int = 0
    """Numbers that a team works in; 0 where each thread works by itself."""
    most_blocks: int = 0
    """Of teams: as many as run at a time, each for one environment after the other."""
    lists: Lists | None = None
    """What it works with, of what all threads share."""
    beside: bool = False
    """Whether it may run at the same time as the work of lists before it."""
    order: GpuFunction | None = None
    """What puts environments in the order in which teams take them."""

    def n_teams(self, n_envs: int) -> int:
        """That so many environments are shared between."""
        per_block = self.envs_per_block
        return min(-(-n_envs // per_block), self.most_blocks) * per_block


@dataclass(frozen=True, slots=True)
class Lists:
    """Lists of what there is to do, of each kind of rows."""

    part: int
    """Whose."""
    n_kinds: int
    n_rows: int
    """That may be in them."""
    blocks: int = 0
    """How many blocks of threads go through them; 0 where rows are tested."""
    shares: int = 0
    """Of the rows that are tested."""
