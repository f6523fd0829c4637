"""Where numbers are: arenas, arrays, and items of arrays."""

from __future__ import annotations

from typing import NamedTuple

Operand = int | float
"""An `int` is the number of a recorded value, a `float` a constant."""

SCRATCH = "scratch"
"""The arena of what a run computes and the next one does not need."""
FAR = "far"
"""The arena of what a team computes and has no room for near at hand."""
COMMON = "common"
"""What a team calls the scratch memory of the threads before and after it, where it looks there itself."""
NUMBER = "number "
"""What the names of a table's constants start with: an array may have the same name."""
FIRST, MANY = "first of ", "many of "
"""What the names of two whole numbers of a row start with: which rows of a loop within its code are its own."""


class Place(NamedTuple):
    """Where an array of a program lives: the name of an arena (a pointer), and its first row there."""

    arena: str
    row: int


class Slot(NamedTuple):
    """One number of an array: an item of it, for every environment."""

    array: str
    item: int
    index: int | None = None  # type: ignore[assignment]  nobody looks for items of a slot
    """Number of a value that is added to `item`, each environment its own: a computed index."""
