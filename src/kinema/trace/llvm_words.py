"""LLVM's text for numbers of one environment or of a vector of them: types, names, arithmetic, loops over integers.

No operation may be reordered or contracted by the compiler: every width gives the same bits.
"""

from __future__ import annotations

import struct
from functools import cache

from .lowering import SINES, Target


class LlvmWords:
    """A function that is being written; what a method returns is what a value is called there."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.lines: list[str] = []
        self.turns: list[str] = []
        """The counters of the counted loops that the text is in."""
        self.n = target.scalar
        self.vector = f"<{target.lanes} x {self.n}>" if target.lanes > 1 else self.n
        """The type of a number of all environments that run side by side."""
        self.size = target.bytes
        self.i = "i32" if target.gpu else "i64"
        """The type of counters and row numbers: what the processor is quick with."""
        self.label = "entry"
        """The block of code that is being written."""
        self._count = 0
        self._pending: dict[str, tuple[int, str]] = {}
        """Loops that are not closed yet: the line of the counter."""
        self.be_wide(target)

    def be_wide(self, target: Target) -> None:
        """Write for as many environments at once as the target says."""
        self.target = target
        wide = target.lanes > 1
        self.kn = f"<{target.lanes} x {self.n}>" if wide else self.n
        self.i1 = f"<{target.lanes} x i1>" if wide else "i1"
        bits = 8 * self.size
        self.int = f"<{target.lanes} x i{bits}>" if wide else f"i{bits}"
        self.suffix = f"v{target.lanes}f{bits}" if wide else f"f{bits}"

    def declarations(self) -> list[str]:
        """The functions that arithmetic calls."""
        called = [("llvm.fma", 3), ("llvm.sqrt", 1), ("llvm.fabs", 1), ("llvm.floor", 1)]
        types = {self.suffix: self.kn, f"f{8 * self.size}": self.n}
        texts = [
            f"declare {kind} @{name}.{suffix}({', '.join([kind] * count)})"
            for name, count in called
            for suffix, kind in types.items()
        ]
        texts += [] if self.target.lanes == 1 else ["declare i64 @llvm.cttz.i64(i64, i1)"]
        return [*texts, "declare float @llvm.nvvm.rcp.approx.ftz.f(float)"] if self.target.gpu else texts

    # ------------------------------------------------------------------------------------------------------- text

    def put(self, line: str) -> None:
        """A line of text."""
        self.lines.append("  " + line)

    def set(self, expression: str) -> str:
        """A new name for what an expression gives."""
        self._count += 1
        name = f"%t{self._count}"
        self.lines.append(f"  {name} = {expression}")
        return name

    def fresh(self, what: str) -> str:
        """A name that nothing has."""
        self._count += 1
        return f"{what}{self._count}"

    def open(self, label: str) -> None:
        """Begin a block of code."""
        self.lines.append(f"{label}:")
        self.label = label

    def begin(self, start: str, end: str) -> tuple[tuple[str, str, str, str], str]:
        """A loop over integers; what its end needs, and the counter."""
        head, body, done = self.fresh("head"), self.fresh("body"), self.fresh("done")
        counter, after = f"%{head}.i", f"%{head}.next"
        before = self.label
        self.put(f"br label %{head}")
        self.open(head)
        place = len(self.lines)
        self.put("")  # the counter, when it is known where the loop comes back from
        more = self.set(f"icmp slt {self.i} {counter}, {end}")
        self.put(f"br i1 {more}, label %{body}, label %{done}")
        self.open(body)
        self._pending[head] = (place, f"  {counter} = phi {self.i} [ {start}, %{before} ], [ {after}, %{{}} ]")
        return (head, done, counter, after), counter

    def end(self, loop: tuple[str, str, str, str]) -> None:
        """The end of a loop over integers."""
        head, done, counter, after = loop
        self.put(f"{after} = add {self.i} {counter}, 1")
        place, line = self._pending.pop(head)
        self.lines[place] = line.format(self.label)
        self.put(f"br label %{head}")
        self.open(done)

    # ------------------------------------------------------------------------------------------------------- numbers

    def constant(self, value: float) -> str:
        """A number, the same for all environments."""
        text = _hexadecimal(struct.pack("<d", value), self.target.precision)
        return text if self.target.lanes == 1 else f"splat ({self.n} {text})"

    def whole(self, number: int) -> str:
        """An integer, the same for all environments."""
        kind = f"i{8 * self.size}"
        return str(number) if self.target.lanes == 1 else f"splat ({kind} {number})"

    def splat(self, scalar: str) -> str:
        """One number for all environments."""
        if self.target.lanes == 1:
            return scalar
        first = self.set(f"insertelement {self.kn} poison, {self.n} {scalar}, i64 0")
        zeros = f"<{self.target.lanes} x i32> zeroinitializer"
        return self.set(f"shufflevector {self.kn} {first}, {self.kn} poison, {zeros}")

    def any_of(self, mask: str) -> str:
        """Whether any environment takes part."""
        if self.target.lanes == 1:
            return mask
        bits = self.set(f"bitcast {self.i1} {mask} to i{self.target.lanes}")
        return self.set(f"icmp ne i{self.target.lanes} {bits}, 0")

    def both(self, mask: str, other: str | None) -> str:
        """Environments that two masks have in common; None stands for all."""
        return mask if other is None else self.set(f"and {self.i1} {mask}, {other}")

    def all_of(self) -> str:
        """The mask of all environments."""
        return "true" if self.target.lanes == 1 else f"<{', '.join(['i1 true'] * self.target.lanes)}>"

    # ---------------------------------------------------------------------------------------------------- arithmetic

    def operation(self, op: str, args: list[str]) -> str:
        """What an instruction that reads no memory gives."""
        match op:
            case "fma" if self.target.fused:
                a, b, c = args
                return self.set(f"call {self.kn} @llvm.fma.{self.suffix}({self.kn} {a}, {self.kn} {b}, {self.kn} {c})")
            case "add" | "sub" | "mul":
                return self.set(f"f{op} {self.kn} {args[0]}, {args[1]}")
            case "neg":
                return self._negative(*args)
            case "reciprocal":
                return self._reciprocal(*args)
            case "sqrt" | "abs" | "floor":
                name = {"abs": "fabs"}.get(op, op)
                return self.set(f"call {self.kn} @llvm.{name}.{self.suffix}({self.kn} {args[0]})")
            case "min":
                return self._choose(args[1], args[0], args[1], args[0])
            case "max":
                return self._choose(args[0], args[1], args[1], args[0])
            case "select":
                return self._choose(*args)
            case "fma":
                return self._fma(*args)
            case "fms":
                return self._fma(args[0], args[1], self._negative(args[2]))
            case "fnma":
                return self._fma(self._negative(args[0]), args[1], args[2])
            case "turn":
                return self.turns[-1]
            case "any":
                mask = self.set(f"fcmp ogt {self.kn} {args[0]}, {self.constant(0.5)}")
                flag = self.set(f"uitofp i1 {self.any_of(mask)} to {self.n}")
                return self.splat(flag)
        raise AssertionError(f"no operation {op!r}")

    def _binary(self, op: str, a: str, b: str) -> str:
        return self.set(f"f{op} {self.kn} {a}, {b}")

    def _negative(self, a: str) -> str:
        return self.set(f"fneg {self.kn} {a}")

    def _reciprocal(self, a: str) -> str:
        """On a GPU in single precision its estimate and one step of Newton's: exact but for the last bit."""
        if not (self.target.gpu and self.target.precision == "single"):
            return self.set(f"fdiv {self.kn} {self.constant(1.0)}, {a}")
        guess = self.set(f"call float @llvm.nvvm.rcp.approx.ftz.f(float {a})")
        return self._fma(guess, self._fma(self._negative(a), guess, self.constant(1.0)), guess)

    def _fma(self, a: str, b: str, c: str) -> str:
        if self.target.fused:
            return self.set(f"call {self.kn} @llvm.fma.{self.suffix}({self.kn} {a}, {self.kn} {b}, {self.kn} {c})")
        return self._binary("add", self._binary("mul", a, b), c)

    def _choose(self, a: str, b: str, below: str, otherwise: str) -> str:
        """One of two values, by whether a is below b."""
        return self._either(self.set(f"fcmp olt {self.kn} {a}, {b}"), below, otherwise)

    def _either(self, condition: str, then: str, otherwise: str) -> str:
        return self.set(f"select {self.i1} {condition}, {self.kn} {then}, {self.kn} {otherwise}")

    # ----------------------------------------------------------------------------------------------- sine and cosine

    def sine_and_cosine(self, x: str) -> tuple[str, str]:
        """See `SineConstants`."""
        known, one = SINES[self.target.precision], self.constant
        shifted = self._fma(x, one(known.two_over_pi), one(known.magic))
        k = self._binary("sub", shifted, one(known.magic))
        r = x
        for part in known.half_pi:
            r = self._fma(k, one(-part), r)
        z = self._binary("mul", r, r)
        sine = self._fma(self._binary("mul", r, z), self._horner(known.sine, z), r)
        about = self._fma(z, one(-0.5), one(1.0))
        cosine = self._fma(self._binary("mul", z, z), self._horner(known.cosine, z), about)
        odd, second, third = self._quadrant(shifted)
        s, c = self._either(odd, cosine, sine), self._either(odd, sine, cosine)
        return self._either(second, self._negative(s), s), self._either(third, self._negative(c), c)

    def _horner(self, coefficients: tuple[float, ...], z: str) -> str:
        result = self.constant(coefficients[-1])
        for coefficient in reversed(coefficients[:-1]):
            result = self._fma(z, result, self.constant(coefficient))
        return result

    def _quadrant(self, shifted: str) -> tuple[str, str, str]:
        """Conditions of the lowest bits of a number: whether bit 0 is set, bit 1, and bit 1 of the next number."""
        bits = self.set(f"bitcast {self.kn} {shifted} to {self.int}")
        after = self.set(f"add {self.int} {bits}, {self.whole(1)}")
        return self._bit(bits, 1), self._bit(bits, 2), self._bit(after, 2)

    def _bit(self, word: str, bit: int) -> str:
        masked = self.set(f"and {self.int} {word}, {self.whole(bit)}")
        return self.set(f"icmp ne {self.int} {masked}, {self.whole(0)}")


@cache
def _hexadecimal(double: bytes, precision: str) -> str:
    """A constant, rounded to a precision, as LLVM reads it: the bits of a double. By bits, as 0 and -0 are equal."""
    (value,) = struct.unpack("<d", double)
    (bits,) = struct.unpack("<Q", struct.pack("<d", Target(precision).rounded(value)))
    return f"0x{bits:016X}"
