"""Statements that operate on memory without nested code: intrinsic calls, atomic increment, shared-memory staging.

An intrinsic is an algorithm executed cooperatively by the threads of a warp. The IR knows its operands, effects and
cost; the algorithm itself is implemented by the code generator (`codegen/cuda/intrinsics`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import numpy as np

from .memory import MemoryLocation


class Intrinsic(ABC):
    """Algorithm of an `IntrinsicCall`, as a frozen dataclass.

    Its operands are all fields of type `MemoryLocation`, also those of nested dataclasses and tuples. An operand refers
    to the first element of an array.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def reads(self) -> Sequence[MemoryLocation]:
        """Operands of all arrays that are read."""

    @property
    @abstractmethod
    def writes(self) -> Sequence[MemoryLocation]:
        """Operands of all arrays that are written, including the workspace."""

    @property
    def definite_writes(self) -> Sequence[tuple[MemoryLocation, int]]:
        """(operand, number of elements) of the parts of arrays that every execution writes."""
        return ()

    @property
    def n_operations(self) -> int:
        """Approximate number of floating-point operations of one execution."""
        return 1

    @abstractmethod
    def evaluate(self, memory: Callable[[MemoryLocation], np.ndarray]) -> None:
        """Execute the algorithm for one environment; `memory(operand)` is a view of the array from the operand on."""

    @abstractmethod
    def emit(self, emitter: Any) -> None:
        """Emit the LLVM code of the algorithm with the emitter of a warp region."""


@dataclass(frozen=True, slots=True)
class IntrinsicCall:
    """Cooperative execution of an intrinsic by the threads of a warp, for the environment of the warp."""

    name: str
    intrinsic: Intrinsic


@dataclass(frozen=True, slots=True)
class AtomicIncrement:
    """Atomic fetch-and-add of 1 on a counter; the previous value, unique to each thread, goes to `result`."""

    name: str
    counter: MemoryLocation
    result: MemoryLocation
    """Memory location of the previous counter value."""


@dataclass(frozen=True, slots=True)
class SharedMemoryStaging:
    """Placement of a list in shared memory for the following statements, if its used part fits there.

    From this statement on only the first `n_always + used_count` records of the list are used. They are in shared
    memory at `shared_offset` if `used_count` is at most `max_staged`, else in global memory.
    """

    name: str
    records: MemoryLocation
    """Start of the list in global memory."""
    total_size: int
    """Size of the whole list in scalars."""
    record_stride: int
    """Size of a record in scalars."""
    used_count: MemoryLocation
    """Number of records in use, beyond the `n_always` first."""
    max_staged: int
    """Maximum `used_count` for which the list is in shared memory."""
    min_staged: int | None = None
    """Lower bound when `max_staged` is reduced to save shared memory; None if it must not be reduced."""
    n_always: int = 0
    """Number of records that are always in use."""
    shared_offset: int = -1
    """Offset of the staged part in shared memory, in scalars; -1 if not assigned yet."""

    @property
    def staged_size(self) -> int:
        """Size of the staged part in scalars."""
        return (self.n_always + self.max_staged) * self.record_stride


def map_locations(value: Any, map_location: Callable[[MemoryLocation], MemoryLocation]) -> Any:
    """Copy of a dataclass with `map_location` applied to each `MemoryLocation`, also in nested records and tuples."""
    if isinstance(value, MemoryLocation):
        return map_location(value)
    if isinstance(value, tuple):
        return tuple(map_locations(element, map_location) for element in value)
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{f.name: map_locations(getattr(value, f.name), map_location) for f in fields(value)})
    return value
