"""What the emitter needs to know: where the arrays of a program lie, and what they are emitted for."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from .blocks import Case, Instruction, Loop
from .conventions import UNIFORM
from .program import HEADER, Program
from .slots import COMMON, FAR, SCRATCH, Place, Slot


@dataclass(frozen=True, slots=True)
class Target:
    """What the text is for."""

    precision: str = "single"
    """`single` or `double`."""
    lanes: int = 1
    """Environments to a vector; 1 for plain scalars."""
    fused: bool = True
    """Whether the processor has an instruction that multiplies and adds with one rounding."""
    flushes: bool = False
    """Whether numbers that are too small for all their digits become zero: processors of x86 take a hundred times as
    long for them."""
    gpu: bool = False
    """Whether it is a GPU: an environment is a thread there, or several, and not a lane of a vector."""
    n_scratch: int = 0
    """Numbers of an environment in the scratch memory of a GPU."""
    n_given: int = 0
    """How many of them, the first, lie in groups (`given.py`)."""

    @property
    def scalar(self) -> str:
        """The type of a number, as LLVM calls it."""
        return "float" if self.precision == "single" else "double"

    @property
    def bytes(self) -> int:
        """Of a number."""
        return 4 if self.precision == "single" else 8

    def rounded(self, value: float) -> float:
        """A constant as this precision has it."""
        with np.errstate(over="ignore"):  # beyond the largest number is infinite
            return float(np.float32(value)) if self.precision == "single" else value


@dataclass(frozen=True, slots=True)
class Address:
    """Where a number is: in an arena or a local array, or among the constants of a row."""

    arena: str
    row: int
    column: tuple[int, int] | None = None
    """Loop and column of the row number that is to be added; of a constant, where it is."""


class Addresses:
    """Finds the places of slots, with the rows of tables that the text is in."""

    def __init__(self, program: Program, places: Mapping[str, Place]) -> None:
        self._program = program
        self._places = places
        self._numbers = {id(loop): i for i, loop in enumerate(program.loops)}
        self.rows: list[tuple[int, Case]] = []

    def number_of(self, loop: Loop) -> int:
        """Which loop of the program it is."""
        return self._numbers[id(loop)]

    def header(self, loop: Loop) -> int:
        """Where in the tables of integers its header is."""
        return HEADER * self.number_of(loop)

    def of(self, slot: Slot) -> Address:
        """Where a slot is."""
        for number, case in reversed(self.rows):
            if slot in case.numbers:
                return Address("", 0, (number, case.numbers[slot]))
            if slot.array in case.arrays:
                arena, column = case.arrays[slot.array]
                start = self._places.get(arena, Place(arena, 0))  # a straight line calls arrays by their names
                return Address(start.arena, start.row + slot.item, (number, column))
        if slot.array in self._program.locals or slot.array in (SCRATCH, FAR, COMMON):
            return Address(slot.array, slot.item)
        place = self._places[slot.array]
        return Address(place.arena, place.row + slot.item)

    def is_local(self, address: Address) -> bool:
        """Whether it is in an array of the run."""
        return address.arena in self._program.locals


def uniform_values(instructions: Sequence[Instruction], addresses: Addresses) -> set[int]:
    """Values that all environments share: turns, constants of rows, shared numbers, and what is computed from these."""
    found: set[int] = set()
    for i in instructions:
        if i.slot is not None:
            shared = i.slot.index is None and addresses.of(i.slot).arena in ("", UNIFORM)
        else:
            shared = i.op == "turn" or (bool(i.args) and all(a in found for a in i.args if isinstance(a, int)))
        if shared:
            found.add(i.target)
    return found


@dataclass(frozen=True, slots=True)
class SineConstants:
    """Sine and cosine by polynomials, without a branch, the same bits on every width.

    The angle is brought into [-pi/4, pi/4] by subtracting k pi/2 in three parts, where the polynomials of lowest
    greatest error are good to half a unit in the last place. The result is within 1.0e-7 (single, |x| < 1e4) and
    2.0e-16 (double, |x| < 1e6) of the true value, measured on dense samples and next to multiples of pi/2 (9.1e-8 and
    1.91e-16): see `tests/trace/test_emitted_functions.py`.
    """

    magic: float
    """Adding it and taking it away again rounds to the nearest integer; in between its lowest bits are that integer."""
    half_pi: tuple[float, float, float]
    """In parts, of which the first ones end in zeros: k times them is exact."""
    sine: tuple[float, ...]
    cosine: tuple[float, ...]
    two_over_pi: float = 2.0 / math.pi


SINES = {
    "single": SineConstants(
        magic=12582912.0,
        half_pi=(1.5703125, 4.837512969970703125e-4, 7.549789948768648e-8),
        sine=(-1.6666654611e-1, 8.3321608736e-3, -1.9515295891e-4),
        cosine=(4.166664568298827e-2, -1.388731625493765e-3, 2.443315711809948e-5),
    ),
    "double": SineConstants(
        magic=6755399441055744.0,
        half_pi=(1.57079632673412561417e00, 6.07710050630396597660e-11, 2.02226624879595063154e-21),
        sine=(
            -1.66666666666666324348e-01,
            8.33333333332248946124e-03,
            -1.98412698298579493134e-04,
            2.75573137070700676789e-06,
            -2.50507602534068634195e-08,
            1.58969099521155010221e-10,
        ),
        cosine=(
            4.16666666666666019037e-02,
            -1.38888888888741095749e-03,
            2.48015872894767294178e-05,
            -2.75573143513906633035e-07,
            2.08757232129817482790e-09,
            -1.13596475577881948265e-11,
        ),
    ),
}
