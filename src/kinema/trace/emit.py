"""Programs as C: for one environment to a thread (CPU scalar, CUDA), or for several to a SIMD vector (CPU).

The emitted text is a function body. Arrays live in arenas: item `i` of an array that starts at row `r` of an arena is
`arena[(r + i) * stride + e]` for environment `e`. Every operation is one statement, so that no compiler's choice of
contraction decides how it rounds: products are added where the program says so, with one rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from .c_functions import prelude
from .program import Instruction, Program
from .split import Split
from .tape import Operand, Slot


@dataclass(frozen=True, slots=True)
class Place:
    """Where an array of a program lives: the name of an arena (a C pointer), and its first row there."""

    arena: str
    row: int


@dataclass(frozen=True, slots=True)
class Target:
    """What the text is for."""

    precision: str = "single"
    """`single` or `double`."""
    lanes: int = 1
    """Environments to a vector; 1 for plain scalars."""

    @property
    def scalar(self) -> str:
        """The C type of a number in memory."""
        return "float" if self.precision == "single" else "double"

    def literal(self, value: float) -> str:
        """A constant, in the fewest digits that give it back."""
        if not math.isfinite(value):
            return "KN(NAN)" if math.isnan(value) else f"KN({'-' if value < 0 else ''}INFINITY)"
        if self.precision == "double":
            return f"KN({value!r})"
        return f"KN({np.float32(value)!s}f)" if "." in str(np.float32(value)) else f"KN({float(np.float32(value))!r})"


def emit(program: Program | Split, places: Mapping[str, Place], target: Target, runs_per_step: int = 1) -> str:
    """The body of a function that runs a program for some steps.

    It expects `e` (the first environment), `stride`, `steps`, a pointer for each arena, and `told_start`: the arena
    `told` moves on by `advance` rows from step to step, so that each step may be told something else. A step may take
    several runs of the program.
    """
    lines = [
        prelude(target.scalar, target.lanes),
        "#define KN_AT(arena, row) (*(kn*)((arena) + (long long)(row) * stride + e))",
        f"for (int run = 0; run < steps * {runs_per_step}; ++run) {{",
        f"const {target.scalar}* told = told_start + (long long)(run / {runs_per_step}) * advance * stride;",
        *_run(program, lambda slot: _address(places[slot.array], slot.item), target),
        "}",
        *(f"#undef {name}" for name in ("KN_AT", "KN_SQRT", "KN_BITS", "KN", "KN_FMA")),
    ]
    return "\n".join(lines) + "\n"


def _run(program: Program | Split, address: Callable[[Slot], str], target: Target) -> list[str]:
    return _roles(program, address, target) if isinstance(program, Split) else straight_line(program, address, target)


def _roles(split: Split, address: Callable[[Slot], str], target: Target) -> list[str]:
    """Each warp of a block has one role for the same 32 environments; they meet twice in a run.

    The first meeting is for the exchange, the second so that none reads a state that another has yet to write. A
    barrier counts warps as they come, wherever in the program they are.
    """
    lines = [
        f"__shared__ {target.scalar} exchange[{max(split.n_exchanged, 1)}][32];",
        "const int role = threadIdx.x >> 5, lane = threadIdx.x & 31;",
    ]
    meet = 'asm volatile("bar.sync 0;" ::: "memory");'
    for number, role in enumerate(split.roles):
        lines.append(f"{'else ' if number else ''}if (role == {number}) {{")
        lines += straight_line(Program(role.before, ()), address, target)
        lines += [f"exchange[{place}][lane] = v{value};" for value, place in role.gives.items()]
        lines.append(meet)
        lines += [f"const kn v{value} = exchange[{place}][lane];" for value, place in role.takes.items()]
        lines += straight_line(Program(role.after, role.stores), address, target)
        lines += [meet, "}"]
    return lines


def straight_line(program: Program, address: Callable[[Slot], str], target: Target) -> list[str]:
    """The statements of a program; `address` says how a slot is written in C."""
    lines: list[str] = []
    pairs = _sine_pairs(program)
    done: set[int] = set()
    for instruction in program.instructions:
        if instruction.target in done:
            continue
        lines.append(_statement(instruction, address, target, pairs))
        if instruction.op in ("sin", "cos"):
            done.update(pairs.get(instruction.args[0], ()))
    lines += [f"{address(s.slot)} = {_value(s.value, target)};" for s in program.stores]
    return lines


def _sine_pairs(program: Program) -> dict[Operand, tuple[int, int]]:
    """Angles of which both sine and cosine are wanted -> the two values: they are computed together."""
    sines = {i.args[0]: i.target for i in program.instructions if i.op == "sin"}
    cosines = {i.args[0]: i.target for i in program.instructions if i.op == "cos"}
    return {angle: (sines[angle], cosines[angle]) for angle in sines if angle in cosines}


def _address(place: Place, item: int) -> str:
    return f"KN_AT({place.arena}, {place.row + item})"


def _value(operand: Operand, target: Target) -> str:
    return f"v{operand}" if isinstance(operand, int) else target.literal(operand)


def _statement(
    instruction: Instruction, address: Callable[[Slot], str], target: Target, pairs: Mapping[Operand, tuple[int, int]]
) -> str:
    if instruction.slot is not None:
        return f"const kn v{instruction.target} = {address(instruction.slot)};"
    args = [_value(a, target) for a in instruction.args]
    if instruction.op in ("sin", "cos") and instruction.args[0] in pairs:
        sine, cosine = pairs[instruction.args[0]]
        return f"kn v{sine}, v{cosine}; kn_sincos({args[0]}, v{sine}, v{cosine});"
    return f"const kn v{instruction.target} = {_C[instruction.op](*args)};"


_C: dict[str, Callable[..., str]] = {
    "add": lambda a, b: f"{a} + {b}",
    "sub": lambda a, b: f"{a} - {b}",
    "mul": lambda a, b: f"{a} * {b}",
    "neg": lambda a: f"-{a}",
    "reciprocal": lambda a: f"kn_reciprocal({a})",
    "sqrt": lambda a: f"KN_SQRT({a})",
    "sin": lambda a: f"kn_sin({a})",
    "cos": lambda a: f"kn_cos({a})",
    "abs": lambda a: f"({a} < KN(0)) ? -{a} : {a}",
    "min": lambda a, b: f"({b} < {a}) ? {b} : {a}",
    "max": lambda a, b: f"({a} < {b}) ? {b} : {a}",
    "select": lambda a, b, below, otherwise: f"({a} < {b}) ? {below} : {otherwise}",
    "fma": lambda a, b, c: f"KN_FMA({a}, {b}, {c})",
    "fms": lambda a, b, c: f"KN_FMA({a}, {b}, -{c})",
    "fnma": lambda a, b, c: f"KN_FMA(-{a}, {b}, {c})",
}
"""How each operation reads in C."""
