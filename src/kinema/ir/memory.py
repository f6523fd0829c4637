"""Memory of programs: arenas, array offsets in an arena (`ArenaOffset`), array elements (`MemoryLocation`).

An arena is a 2-D buffer with one row per scalar and one column per environment. Arrays of a program are ranges of rows.
"""

from __future__ import annotations

from typing import NamedTuple

Operand = int | float
"""Operand of an instruction: an `int` is the number of a recorded value, a `float` is a constant."""

SCRATCH = "scratch"
"""Arena of intermediate results of one run; its contents are not preserved between runs."""
UNIFORM = "uniform"
"""Arena of values that all environments share."""
PRECOMPUTED = "precomputed"
"""Arena of the varying part of a program: scratch memory of the uniform part, which is the same for all lanes."""
WARP_GLOBAL = "warp global"
"""Arena in global memory for the scratch data of a warp region that is not placed in shared memory."""
THREAD_SCRATCH = "thread scratch"
"""Arena name under which a warp region accesses the scratch memory of the thread kernels directly."""
CONSTANT_PREFIX = "number "
"""Prefix of the names of table constants, which keeps them apart from arrays of the same name."""
FIRST_ITERATION_PREFIX, ITERATION_COUNT_PREFIX = "first of ", "many of "
"""Prefixes of two integer columns of an iteration: first index and number of iterations of a nested loop."""


def round_up_to_4(n: int) -> int:
    """Round up to a multiple of 4, the vector width of memory accesses."""
    return -(-n // 4) * 4


class ArenaOffset(NamedTuple):
    """Start of an array in memory: the name of an arena (a pointer) and the first row of the array there."""

    arena: str
    row: int


class MemoryLocation(NamedTuple):
    """Reference to one array element, with one value per environment."""

    array: str
    element: int
    index: int | None = None  # type: ignore[assignment]  tuple.index is never called on a slot
    """Number of the value that is added to `element`, possibly different in each environment (dynamic index), or
    None."""
