"""Programs before and after compilation, as data: where they come from, what for, and what the cache keeps of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .devices import Device
from .host_code import HostCode
from .pieces import Lists

if TYPE_CHECKING:
    from kinema.trace import Program

Tables = tuple[np.ndarray, np.ndarray]
"""Integers, and numbers in the precision of the program."""


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """A program that is traced only where the cache does not have it."""

    trace: Callable[[], Program]
    key: str | None = None
    """A digest of all that the program is made from, but for the sources of Kinema; None where it is not known."""
    name: str = "kinema"
    """What profilers show."""


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """What a program is compiled for."""

    device: Device
    precision: str
    lanes: int
    runs_per_step: int
    n_envs: int | None
    """About how many environments it runs for, on a GPU; None for any number."""
    timed: bool = False
    """Whether the time of its blocks is measured, on a CPU (`kinema.trace.block_names`)."""


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class HostExecutable:
    """A program compiled for the CPU."""

    code: HostCode
    ints: np.ndarray
    floats: np.ndarray
    n_scratch: int
    """Rows of the scratch memory of a run."""
    n_operations: int
    """Floating-point operations of a run, roughly."""
    n_instructions: int


@dataclass(frozen=True, slots=True, eq=False)
class GpuModule:
    """A kernel of a GPU before it is loaded, and how it is launched: what a `Piece` is made from."""

    ptx: bytes
    block_dim: int
    table: int
    """Which of the tables of the executable it has."""
    n_operations: int
    envs_per_block: int
    roles: int = 1
    n_memory: int = 0
    lists: Lists | None = None
    beside: bool = False
    order: bytes | None = None
    """PTX of what puts environments in the order in which teams take them."""
    role: str = ""
    """What it does, for profilers."""


@dataclass(frozen=True, slots=True, eq=False)
class GpuImage:
    """All kernels of a program before they are loaded."""

    modules: list[GpuModule]
    tables: list[Tables]
    n_scratch: int
    n_kinds: int
    """Lists that the kernel which orders environments empties."""
    n_instructions: int

    def values(self) -> dict[str, Any]:
        """As an entry of the cache."""
        values: dict[str, Any] = {word: getattr(self, word) for word in ("n_scratch", "n_kinds", "n_instructions")}
        values["modules"] = about = []
        for i, module in enumerate(self.modules):
            lists = None if module.lists is None else asdict(module.lists)
            words = ("block_dim", "table", "n_operations", "envs_per_block", "roles", "n_memory", "beside", "role")
            about.append({word: getattr(module, word) for word in words} | {"lists": lists})
            values[f"ptx {i}"] = module.ptx
            if module.order is not None:
                values[f"order {i}"] = module.order
        for i, (ints, floats) in enumerate(self.tables):
            values |= {f"ints {i}": ints, f"floats {i}": floats}
        values["n_tables"] = len(self.tables)
        return values

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> GpuImage:
        """From an entry of the cache."""
        modules = []
        for i, about in enumerate(values["modules"]):
            lists = None if about["lists"] is None else Lists(**about.pop("lists"))
            about = {word: x for word, x in about.items() if word != "lists"}
            modules.append(GpuModule(values[f"ptx {i}"], lists=lists, order=values.get(f"order {i}"), **about))
        tables = [(values[f"ints {i}"], values[f"floats {i}"]) for i in range(values["n_tables"])]
        return cls(modules, tables, *(values[word] for word in ("n_scratch", "n_kinds", "n_instructions")))
