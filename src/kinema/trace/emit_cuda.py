"""Programs for a GPU, as the body of a CUDA function: one environment to a thread, or several threads to one.

Arrays live in arenas: item `i` of an array that starts at row `r` of an arena is `arena[(r + i) * stride + e]` for
environment `e`. Every operation is one statement, so that no compiler's choice of contraction decides how it rounds:
products are added where the program says so, with one rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from .blocks import Blocks, Count, If, Instruction, Line, Loop, Operand, Place, Repeat, Slot
from .lowering import SINES, UNIFORM, Addresses, Target, sine_pairs
from .program import Program
from .split import EXCHANGE, n_exchanged

WARP = 32
MEET = 'asm volatile("bar.sync 0;" ::: "memory");'
"""All threads of a block wait for each other; a barrier counts warps as they come, wherever in the program they are."""


def emit_cuda(roles: Sequence[Program], places: Mapping[str, Place], target: Target, runs_per_step: int = 1) -> str:
    """The body of a function that runs a program for some steps: of one role, or of the roles of one line.

    It expects `e` (the environment), `stride`, `steps`, a pointer for each arena, `ints` and `floats` (the tables), and
    `told_start`: the arena `told` moves on by `advance` rows from step to step. A step may take several runs.
    """
    lines = [
        _prelude(target),
        "#define KN_AT(arena, row) (arena)[(long long)(row) * stride + e]",
        f"for (int run = 0; run < steps * {runs_per_step}; ++run) {{",
        f"const {target.scalar}* told = told_start + (long long)(run / {runs_per_step}) * advance * stride;",
        *(_Text(roles[0], places, target).program() if len(roles) == 1 else _meeting(roles, places, target)),
        "}",
        *(f"#undef {name}" for name in ("KN_AT", "KN", "KN_FMA")),
    ]
    return "\n".join(lines) + "\n"


def _meeting(roles: Sequence[Program], places: Mapping[str, Place], target: Target) -> list[str]:
    """Each warp of a block has one role for the same 32 environments; they meet twice in a run.

    The first meeting is for the exchange, the second so that none reads a state that another has yet to write.
    """
    lines = [
        f"__shared__ {target.scalar} exchange[{max(n_exchanged(tuple(roles)), 1)}][{WARP}];",
        f"const int role = threadIdx.x / {WARP}, lane = threadIdx.x % {WARP};",
    ]
    places = {**places, EXCHANGE: Place(EXCHANGE, 0)}
    for number, role in enumerate(roles):
        lines.append(f"{'else ' if number else ''}if (role == {number}) {{")
        lines += [*_Text(role, places, target).program(MEET), "}"]
    return lines


class _Text:
    def __init__(self, program: Program, places: Mapping[str, Place], target: Target) -> None:
        self._program = program
        self._addresses = Addresses(program, places)
        self._target = target
        self._locals = {name: f"local{i}" for i, name in enumerate(program.locals)}
        self._depth = 0

    def program(self, after_each: str = "") -> list[str]:
        lines = [f"kn {self._locals[name]}[{max(n, 1)}];" for name, n in self._program.locals.items()]
        for block in self._program.blocks:
            lines += [*self.body((block,)), *([after_each] if after_each else [])]
        return lines

    def body(self, blocks: Blocks) -> list[str]:
        lines: list[str] = []
        for block in blocks:
            match block:
                case Line():
                    lines += ["{", *self._line(block), "}"]
                case Loop():
                    lines += self._loop(block)
                case Count():
                    turn = f"turn{self._depth}"
                    lines.append(f"for (int {turn} = 0; (kn){turn} < {self._at(block.count)}; ++{turn}) {{")
                    self._depth += 1
                    lines += [*self.body(block.body), "}"]
                    self._depth -= 1
                case Repeat():
                    lines += [f"for (int again = 0; again < {block.most}; ++again) {{", *self.body(block.body)]
                    lines += [f"if (!({self._at(block.again)} > KN(0.5))) break;", "}"]
                case If():
                    lines += [f"if ({self._at(block.flag)} > KN(0.5)) {{", *self.body(block.body), "}"]
        return lines

    def _loop(self, loop: Loop) -> list[str]:
        at, own = self._addresses.header(loop), self._addresses.number_of(loop)
        lines = [
            f"{{ // {loop.name}",
            f"const int count{own} = ints[{at}]; const int* row{own} = ints + ints[{at + 1}];",
            f"const {self._target.scalar}* number{own} = floats + ints[{at + 2}];",
            "#pragma unroll 1",
            f"for (int i{own} = 0; i{own} < count{own}; ++i{own}) {{",
        ]
        several = len(loop.cases) > 1
        if several:
            lines.append(f"switch (row{own}[0]) {{")
        for place, case in enumerate(loop.cases):
            lines.append(f"case {place}: {{ // {case.kind}" if several else "{")
            lines += [f"const int r{own}_{column} = row{own}[{column}];" for _, column in case.arrays.values()]
            self._addresses.rows.append((own, case))
            lines += self.body(case.blocks)
            self._addresses.rows.pop()
            lines.append("} break;" if several else "}")
        if several:
            lines.append("}")
        lines.append(f"row{own} += {loop.ints.shape[1]}; number{own} += {loop.floats.shape[1]};")
        return [*lines, "}", "}"]

    def _line(self, line: Line) -> list[str]:
        lines: list[str] = []
        pairs = sine_pairs(line)
        done: set[int] = set()
        for instruction in line.instructions:
            if instruction.target in done:
                continue
            lines.append(self._statement(instruction, pairs))
            if instruction.op in ("sin", "cos"):
                done.update(pairs.get(instruction.args[0], ()))
        return lines + [f"{self._at(s.slot)} = {self._value(s.value)};" for s in line.stores]

    def _statement(self, instruction: Instruction, pairs: Mapping[Operand, tuple[int, int]]) -> str:
        if instruction.slot is not None:
            return f"const kn v{instruction.target} = {self._at(instruction.slot)};"
        if instruction.op == "turn":
            return f"const kn v{instruction.target} = (kn)turn{self._depth - 1};"
        args = [self._value(a) for a in instruction.args]
        if instruction.op in ("sin", "cos") and instruction.args[0] in pairs:
            sine, cosine = pairs[instruction.args[0]]
            return f"kn v{sine}, v{cosine}; kn_sincos({args[0]}, v{sine}, v{cosine});"
        return f"const kn v{instruction.target} = {_C[instruction.op](*args)};"

    def _value(self, operand: Operand) -> str:
        return f"v{operand}" if isinstance(operand, int) else literal(operand, self._target)

    def _at(self, slot: Slot) -> str:
        address = self._addresses.of(slot)
        if not address.arena:
            assert address.column is not None
            return f"KN(number{address.column[0]}[{address.column[1]}])"
        row = str(address.row)
        if address.column is not None:
            row = f"r{address.column[0]}_{address.column[1]} + {row}"
        if slot.index is not None:
            row = f"(int)v{slot.index} + {row}"
        if self._addresses.is_local(address):
            return f"{self._locals[address.arena]}[{row}]"
        if address.arena == EXCHANGE:
            return f"exchange[{row}][lane]"
        return f"uniform[{row}]" if address.arena == UNIFORM else f"KN_AT({address.arena}, {row})"


def literal(value: float, target: Target) -> str:
    """A constant, in the fewest digits that give it back."""
    if not math.isfinite(value):
        return "KN(NAN)" if math.isnan(value) else f"KN({'-' if value < 0 else ''}INFINITY)"
    if target.precision == "double":
        return f"KN({value!r})"
    return f"KN({np.float32(value)!s}f)" if "." in str(np.float32(value)) else f"KN({float(np.float32(value))!r})"


_C: dict[str, Callable[..., str]] = {
    "add": lambda a, b: f"{a} + {b}",
    "sub": lambda a, b: f"{a} - {b}",
    "mul": lambda a, b: f"{a} * {b}",
    "neg": lambda a: f"-{a}",
    "reciprocal": lambda a: f"kn_reciprocal({a})",
    "sqrt": lambda a: f"sqrt({a})",
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

_PRELUDE = """
typedef {s} kn; typedef {integer} kni;
#define KN_FMA(a, b, c) {fma}(a, b, c)
#define KN(x) ((kn)(x))
const auto kn_reciprocal = [](kn x) -> kn {{ {reciprocal} }};
const auto kn_sincos = [](kn x, kn& sine, kn& cosine) {{
  const kn shifted = KN_FMA(x, {two_over_pi}, {magic});
  const kn k = shifted - {magic};
  kn r = x;
{reduction}
  const kn z = r * r;
  const kn s0 = KN_FMA(r * z, {sine}, r);
  const kn c0 = KN_FMA(z * z, {cosine}, KN_FMA(z, KN(-0.5), KN(1)));
  const kni quadrant = {bits}(shifted);  // its lowest bits are those of k
  const bool odd = (quadrant & 1) != 0;
  const kn s = odd ? c0 : s0;
  const kn c = odd ? s0 : c0;
  sine = ((quadrant & 2) != 0) ? -s : s;
  cosine = (((quadrant + 1) & 2) != 0) ? -c : c;
}};
const auto kn_sin = [&](kn x) -> kn {{ kn s, c; kn_sincos(x, s, c); return s; }};
const auto kn_cos = [&](kn x) -> kn {{ kn s, c; kn_sincos(x, s, c); return c; }};
"""
_RECIPROCAL = {
    # the processor's estimate and one step of Newton's: exact but for the last bit, without the branch of a division
    "single": 'float r; asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x)); return fmaf(r, fmaf(-x, r, 1.0f), r);',
    "double": "return 1.0 / x;",
}


def _prelude(target: Target) -> str:
    """The number type, and the functions on it; see `SineConstants`."""
    known, single = SINES[target.precision], target.precision == "single"

    def horner(coefficients: tuple[float, ...]) -> str:
        text = literal(coefficients[-1], target)
        for coefficient in reversed(coefficients[:-1]):
            text = f"KN_FMA(z, {text}, {literal(coefficient, target)})"
        return text

    return _PRELUDE.format(
        s=target.scalar,
        integer="int" if single else "long long",
        fma="fmaf" if single else "fma",
        reciprocal=_RECIPROCAL[target.precision],
        two_over_pi=literal(known.two_over_pi, target),
        magic=literal(known.magic, target),
        reduction="\n".join(f"  r = KN_FMA(k, {literal(-part, target)}, r);" for part in known.half_pi),
        sine=horner(known.sine),
        cosine=horner(known.cosine),
        bits="__float_as_int" if single else "__double_as_longlong",
    )
