"""LLVM's text for numbers of one environment or of a vector of them: types, names, arithmetic, loops over integers."""

from __future__ import annotations

import struct

from .lowering import SINES, Target


class LlvmWords:
    """A function that is being written."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.n = target.scalar
        wide = target.lanes > 1
        self.kn = f"<{target.lanes} x {self.n}>" if wide else self.n
        self.i1 = f"<{target.lanes} x i1>" if wide else "i1"
        self.size = 4 if target.precision == "single" else 8
        bits = 8 * self.size
        self.int = f"<{target.lanes} x i{bits}>" if wide else f"i{bits}"
        self.suffix = f"v{target.lanes}f{bits}" if wide else f"f{bits}"
        self.lines: list[str] = []
        self.label = "entry"
        """The block of code that is being written."""
        self._count = 0
        self._pending: dict[str, tuple[int, str]] = {}
        """Loops that are not closed yet: the line of the counter."""

    def put(self, line: str) -> None:
        """A line of text."""
        self.lines.append("  " + line)

    def set(self, expression: str) -> str:
        """A new name for what an expression gives."""
        self._count += 1
        self.put(f"%t{self._count} = {expression}")
        return f"%t{self._count}"

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
        more = self.set(f"icmp slt i64 {counter}, {end}")
        self.put(f"br i1 {more}, label %{body}, label %{done}")
        self.open(body)
        self._pending[head] = (place, f"  {counter} = phi i64 [ {start}, %{before} ], [ {after}, %{{}} ]")
        return (head, done, counter, after), counter

    def end(self, loop: tuple[str, str, str, str]) -> None:
        """The end of a loop over integers."""
        head, done, counter, after = loop
        self.put(f"{after} = add i64 {counter}, 1")
        place, line = self._pending.pop(head)
        self.lines[place] = line.format(self.label)
        self.put(f"br label %{head}")
        self.open(done)

    def constant(self, value: float) -> str:
        """A number, the same for all environments."""
        (bits,) = struct.unpack("<Q", struct.pack("<d", self.target.rounded(value)))
        text = f"0x{bits:016X}"
        return text if self.target.lanes == 1 else f"splat ({self.n} {text})"

    def choose(self, a: str, b: str, below: str, otherwise: str) -> str:
        """One of two values, by whether a is below b."""
        condition = self.set(f"fcmp olt {self.kn} {a}, {b}")
        return self.set(f"select {self.i1} {condition}, {self.kn} {below}, {self.kn} {otherwise}")

    def fma(self, a: str, b: str, c: str) -> str:
        """A product and a sum, with one rounding."""
        if self.target.fused:
            return self.set(f"call {self.kn} @llvm.fma.{self.suffix}({self.kn} {a}, {self.kn} {b}, {self.kn} {c})")
        return self.set(f"fadd {self.kn} {self.set(f'fmul {self.kn} {a}, {b}')}, {c}")

    def sine_and_cosine(self, x: str) -> tuple[str, str]:
        """See `SineConstants`."""
        known, kn, one = SINES[self.target.precision], self.kn, self.constant
        shifted = self.fma(x, one(known.two_over_pi), one(known.magic))
        k = self.set(f"fsub {kn} {shifted}, {one(known.magic)}")
        r = x
        for part in known.half_pi:
            r = self.fma(k, one(-part), r)
        z = self.set(f"fmul {kn} {r}, {r}")
        cubed = self.set(f"fmul {kn} {r}, {z}")
        sine = self.fma(cubed, self.horner(known.sine, z), r)
        fourth = self.set(f"fmul {kn} {z}, {z}")
        cosine = self.fma(fourth, self.horner(known.cosine, z), self.fma(z, one(-0.5), one(1.0)))
        quadrant = self.set(f"bitcast {kn} {shifted} to {self.int}")
        odd = self._bit(quadrant, 1)
        s = self.set(f"select {self.i1} {odd}, {kn} {cosine}, {kn} {sine}")
        c = self.set(f"select {self.i1} {odd}, {kn} {sine}, {kn} {cosine}")
        return self._signed(s, self._bit(quadrant, 2)), self._signed(c, self._bit(self._next(quadrant), 2))

    def horner(self, coefficients: tuple[float, ...], z: str) -> str:
        """A polynomial."""
        result = self.constant(coefficients[-1])
        for coefficient in reversed(coefficients[:-1]):
            result = self.fma(z, result, self.constant(coefficient))
        return result

    def whole(self, number: int) -> str:
        """An integer, the same for all environments."""
        kind = f"i{8 * self.size}"
        return str(number) if self.target.lanes == 1 else f"splat ({kind} {number})"

    def _bit(self, quadrant: str, bit: int) -> str:
        masked = self.set(f"and {self.int} {quadrant}, {self.whole(bit)}")
        return self.set(f"icmp ne {self.int} {masked}, {self.whole(0)}")

    def _next(self, quadrant: str) -> str:
        return self.set(f"add {self.int} {quadrant}, {self.whole(1)}")

    def _signed(self, value: str, negative: str) -> str:
        minus = self.set(f"fneg {self.kn} {value}")
        return self.set(f"select {self.i1} {negative}, {self.kn} {minus}, {self.kn} {value}")

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
