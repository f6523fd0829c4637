"""Target description, memory locations resolved to addresses, uniformity analysis, and sine and cosine constants."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kinema.ir import (
    SCRATCH,
    TABLE_HEADER_SIZE,
    THREAD_SCRATCH,
    UNIFORM,
    WARP_GLOBAL,
    ArenaOffset,
    ForEachLoop,
    Instruction,
    LoopSpecialization,
    MemoryLocation,
    Program,
)


@dataclass(frozen=True, slots=True)
class Target:
    """Target of code emission: precision, vector width and processor features."""

    precision: str = "single"
    """`single` or `double`."""
    lanes: int = 1
    """Environments per SIMD vector; 1 for scalar code."""
    has_fma: bool = True
    """Whether the processor has a fused multiply-add instruction."""
    has_scatter: bool = False
    """Whether the processor has gather and scatter instructions, with masks, for vectors of 256 bits and more."""
    flush_subnormals: bool = False
    """Whether subnormal numbers are flushed to zero; x86 processors are about a hundred times slower on them."""
    is_gpu: bool = False
    """Whether the target is a GPU, where an environment is a thread or a group of threads instead of a SIMD lane."""
    n_scratch: int = 0
    """Scalars per environment in the scratch memory of a GPU."""
    n_handoff_rows: int = 0
    """Number of leading scratch offsets in the hand-off layout (see `ir/scratch_layout.py`)."""
    has_contiguous_rows: bool = False
    """Whether the rows of an arena are adjacent in memory, as those of a single environment in a compiled library."""

    @property
    def scalar_type(self) -> str:
        """LLVM type of a scalar."""
        return "float" if self.precision == "single" else "double"

    @property
    def scalar_bytes(self) -> int:
        """Bytes of a scalar."""
        return 4 if self.precision == "single" else 8

    def round_constant(self, value: float) -> float:
        """Round a constant to the precision of the target."""
        with np.errstate(over="ignore"):  # overflow gives infinity
            return float(np.float32(value)) if self.precision == "single" else value


@dataclass(frozen=True, slots=True)
class Address:
    """Resolved address of a location: a row of an arena or local array, or a constant of an iteration (empty arena)."""

    arena: str
    row: int
    column: tuple[int, int] | None = None
    """(loop number, column) of the table: of the array offset to be added, or of the constant itself."""


class AddressResolver:
    """Resolves memory locations to addresses, given the loop iterations that enclose the current code."""

    def __init__(self, program: Program, array_offsets: Mapping[str, ArenaOffset]) -> None:
        self._program = program
        self._array_offsets = array_offsets
        self._loop_numbers = {id(loop): i for i, loop in enumerate(program.for_each_loops)}
        self.iteration_stack: list[tuple[int, LoopSpecialization]] = []
        self._resolved: list[dict[MemoryLocation, Address]] = [{}]
        """Addresses resolved so far, outside of loops and in each enclosing iteration."""

    def enter_iteration(self, loop_number: int, specialization: LoopSpecialization) -> None:
        """Resolve locations in the code of an iteration of a for-each loop from now on."""
        self.iteration_stack.append((loop_number, specialization))
        self._resolved.append({})

    def leave_iteration(self) -> None:
        """Resolve locations outside of the innermost iteration again."""
        self.iteration_stack.pop()
        self._resolved.pop()

    def loop_number(self, loop: ForEachLoop) -> int:
        """Index of a for-each loop among all for-each loops of the program."""
        return self._loop_numbers[id(loop)]

    def header_offset(self, loop: ForEachLoop) -> int:
        """Offset of the header of a for-each loop in the packed integer table."""
        return TABLE_HEADER_SIZE * self.loop_number(loop)

    def resolve(self, location: MemoryLocation) -> Address:
        """Address of a memory location in a device buffer, local array or table, without its dynamic index.

        Looks up the constants and array offsets of the enclosing loop iterations, innermost first, then local arrays,
        scratch memory and the array offsets of the program.
        """
        address = self._resolved[-1].get(location)
        if address is None:
            address = self._resolved[-1][location] = self._look_up(location)
        return address

    def _look_up(self, location: MemoryLocation) -> Address:
        for loop_number, specialization in reversed(self.iteration_stack):
            if location in specialization.constant_columns:
                return Address("", 0, (loop_number, specialization.constant_columns[location]))
            if location.array in specialization.array_columns:
                arena, column = specialization.array_columns[location.array]
                start = self._array_offsets.get(arena, ArenaOffset(arena, 0))  # an array or an arena
                return Address(start.arena, start.row + location.element, (loop_number, column))
        if location.array in self._program.locals or location.array in (SCRATCH, WARP_GLOBAL, THREAD_SCRATCH):
            return Address(location.array, location.element)
        offset = self._array_offsets[location.array]
        return Address(offset.arena, offset.row + location.element)

    def is_local(self, address: Address) -> bool:
        """Whether an address is in a local array."""
        return address.arena in self._program.locals


def find_uniform_values(instructions: Sequence[Instruction], address_resolver: AddressResolver) -> set[int]:
    """Uniformity analysis: values of a basic block that are the same in all environments, by value number.

    Loop indices, table constants, loads from the uniform arena, and operations on uniform values only.
    """
    uniform: set[int] = set()
    for i in instructions:
        if i.location is not None:
            is_uniform = i.location.index is None and address_resolver.resolve(i.location).arena in ("", UNIFORM)
        else:
            is_uniform = i.op == "loop_index" or (
                bool(i.args) and all(a in uniform for a in i.args if isinstance(a, int))
            )
        if is_uniform:
            uniform.add(i.result)
    return uniform


@dataclass(frozen=True, slots=True)
class SincosConstants:
    """Constants of branch-free sine and cosine by polynomials, with the same bits for every vector width.

    The angle is reduced to [-pi/4, pi/4] by subtracting k pi/2 in three parts (Cody-Waite), where minimax polynomials
    are accurate to half a unit in the last place. The result is within 1.0e-7 (single, |x| < 1e4) and 2.0e-16 (double,
    |x| < 1e6) of the true value, measured on dense samples and next to multiples of pi/2 (9.1e-8 and 1.91e-16): see
    `tests/ir/test_emitted_functions.py`.
    """

    rounding_magic: float
    """Adding and subtracting this constant rounds to the nearest integer; the low bits of the intermediate sum are
    that integer."""
    half_pi: tuple[float, float, float]
    """pi/2 as a sum of three parts; the leading parts have trailing zero bits, so that their products with k are
    exact."""
    sine: tuple[float, ...]
    """Coefficients of the sine polynomial, lowest order first."""
    cosine: tuple[float, ...]
    """Coefficients of the cosine polynomial, lowest order first."""
    two_over_pi: float = 2.0 / math.pi


SINCOS_CONSTANTS = {
    "single": SincosConstants(
        rounding_magic=12582912.0,
        half_pi=(1.5703125, 4.837512969970703125e-4, 7.549789948768648e-8),
        sine=(-1.6666654611e-1, 8.3321608736e-3, -1.9515295891e-4),
        cosine=(4.166664568298827e-2, -1.388731625493765e-3, 2.443315711809948e-5),
    ),
    "double": SincosConstants(
        rounding_magic=6755399441055744.0,
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
