"""LLVM's text for numbers of one environment or of a vector of them: types, names, arithmetic, loops over integers."""

from __future__ import annotations

import struct

from .emitter import Emitter
from .lowering import Target


class LlvmWords(Emitter):
    """A function that is being written."""

    def __init__(self, target: Target) -> None:
        super().__init__()
        self.target = target
        self.n = target.scalar
        wide = target.lanes > 1
        self.kn = f"<{target.lanes} x {self.n}>" if wide else self.n
        self.i1 = f"<{target.lanes} x i1>" if wide else "i1"
        self.size = 4 if target.precision == "single" else 8
        bits = 8 * self.size
        self.int = f"<{target.lanes} x i{bits}>" if wide else f"i{bits}"
        self.suffix = f"v{target.lanes}f{bits}" if wide else f"f{bits}"
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

    def binary(self, op: str, a: str, b: str) -> str:
        return self.set(f"f{op} {self.kn} {a}, {b}")

    def negative(self, a: str) -> str:
        return self.set(f"fneg {self.kn} {a}")

    def reciprocal(self, a: str) -> str:
        return self.set(f"fdiv {self.kn} {self.constant(1.0)}, {a}")

    def absolute(self, a: str) -> str:
        return self.set(f"call {self.kn} @llvm.fabs.{self.suffix}({self.kn} {a})")

    def root(self, a: str) -> str:
        return self.set(f"call {self.kn} @llvm.sqrt.{self.suffix}({self.kn} {a})")

    def fma(self, a: str, b: str, c: str) -> str:
        if self.target.fused:
            return self.set(f"call {self.kn} @llvm.fma.{self.suffix}({self.kn} {a}, {self.kn} {b}, {self.kn} {c})")
        return self.binary("add", self.binary("mul", a, b), c)

    def below(self, a: str, b: str) -> str:
        return self.set(f"fcmp olt {self.kn} {a}, {b}")

    def either(self, condition: str, then: str, otherwise: str) -> str:
        return self.set(f"select {self.i1} {condition}, {self.kn} {then}, {self.kn} {otherwise}")

    def quadrant(self, shifted: str) -> tuple[str, str, str]:
        bits = self.set(f"bitcast {self.kn} {shifted} to {self.int}")
        after = self.set(f"add {self.int} {bits}, {self.whole(1)}")
        return self._bit(bits, 1), self._bit(bits, 2), self._bit(after, 2)

    def _bit(self, word: str, bit: int) -> str:
        masked = self.set(f"and {self.int} {word}, {self.whole(bit)}")
        return self.set(f"icmp ne {self.int} {masked}, {self.whole(0)}")
