"""What the two emitters have in common: the way through blocks and lines, and what operations are made of."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

from .blocks import Blocks, Count, If, Instruction, Line, Loop, Operand, Repeat, Slot
from .lowering import SINES, Addresses, Target

Names = Mapping[int, str]
"""What the values of a line are called."""


class Emitter(ABC):
    """A text that is being written; what a method returns is what a value is called there."""

    target: Target
    addresses: Addresses

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.turns: list[str] = []
        """The counters of the counted loops that the text is in."""

    # ---------------------------------------------------------------------------------------------------- blocks

    def blocks(self, blocks: Blocks) -> None:
        """Blocks, one after the other."""
        for block in blocks:
            match block:
                case Line():
                    self.line(block)
                case Loop():
                    self.loop(block)
                case Count():
                    self.count(block)
                case Repeat():
                    self.repeat(block)
                case If():
                    self.condition(block)

    @abstractmethod
    def loop(self, loop: Loop) -> None: ...
    @abstractmethod
    def count(self, block: Count) -> None: ...
    @abstractmethod
    def repeat(self, block: Repeat) -> None: ...
    @abstractmethod
    def condition(self, block: If) -> None: ...

    # ----------------------------------------------------------------------------------------------------- lines

    def line(self, line: Line) -> None:
        """Instructions, then stores; sine and cosine of one angle are computed together."""
        names: dict[int, str] = {}
        pairs = _sine_pairs(line)
        for instruction in line.instructions:
            if instruction.target not in names:
                names.update(self._instruction(instruction, names, pairs))
        for store in line.stores:
            self.store(store.slot, self._operand(store.value, names), names)

    def _instruction(
        self, instruction: Instruction, names: Names, pairs: Mapping[Operand, tuple[int, int]]
    ) -> dict[int, str]:
        if instruction.slot is not None:
            return {instruction.target: self.load(instruction.slot, names)}
        args = [self._operand(a, names) for a in instruction.args]
        if instruction.op in ("sin", "cos"):
            both = self._sine_and_cosine(args[0])
            if instruction.args[0] in pairs:
                return dict(zip(pairs[instruction.args[0]], both, strict=True))
            return {instruction.target: both[instruction.op == "cos"]}
        return {instruction.target: self._operation(instruction.op, args)}

    def _operation(self, op: str, args: list[str]) -> str:
        match op:
            case "add" | "sub" | "mul":
                return self.binary(op, *args)
            case "neg":
                return self.negative(*args)
            case "reciprocal":
                return self.reciprocal(*args)
            case "sqrt":
                return self.root(*args)
            case "abs":
                return self.absolute(*args)
            case "min":
                return self.choose(args[1], args[0], args[1], args[0])
            case "max":
                return self.choose(args[0], args[1], args[1], args[0])
            case "select":
                return self.choose(*args)
            case "fma":
                return self.fma(*args)
            case "fms":
                return self.fma(args[0], args[1], self.negative(args[2]))
            case "fnma":
                return self.fma(self.negative(args[0]), args[1], args[2])
            case "turn":
                return self.turns[-1]
        raise AssertionError(f"no operation {op!r}")

    def _operand(self, operand: Operand, names: Names) -> str:
        return names[operand] if isinstance(operand, int) else self.constant(operand)

    def _sine_and_cosine(self, x: str) -> tuple[str, str]:
        """See `SineConstants`."""
        known, one = SINES[self.target.precision], self.constant
        shifted = self.fma(x, one(known.two_over_pi), one(known.magic))
        k = self.binary("sub", shifted, one(known.magic))
        r = x
        for part in known.half_pi:
            r = self.fma(k, one(-part), r)
        z = self.binary("mul", r, r)
        sine = self.fma(self.binary("mul", r, z), self._horner(known.sine, z), r)
        about = self.fma(z, one(-0.5), one(1.0))
        cosine = self.fma(self.binary("mul", z, z), self._horner(known.cosine, z), about)
        odd, second, third = self.quadrant(shifted)
        s, c = self.either(odd, cosine, sine), self.either(odd, sine, cosine)
        return self.either(second, self.negative(s), s), self.either(third, self.negative(c), c)

    def _horner(self, coefficients: tuple[float, ...], z: str) -> str:
        result = self.constant(coefficients[-1])
        for coefficient in reversed(coefficients[:-1]):
            result = self.fma(z, result, self.constant(coefficient))
        return result

    # -------------------------------------------------------------------------------------------------- words

    @abstractmethod
    def constant(self, value: float) -> str: ...
    @abstractmethod
    def binary(self, op: str, a: str, b: str) -> str: ...
    @abstractmethod
    def negative(self, a: str) -> str: ...
    @abstractmethod
    def absolute(self, a: str) -> str: ...
    @abstractmethod
    def reciprocal(self, a: str) -> str: ...
    @abstractmethod
    def root(self, a: str) -> str: ...
    @abstractmethod
    def fma(self, a: str, b: str, c: str) -> str: ...
    @abstractmethod
    def either(self, condition: str, then: str, otherwise: str) -> str: ...

    @abstractmethod
    def below(self, a: str, b: str) -> str:
        """A condition: whether one number is below another."""

    def choose(self, a: str, b: str, below: str, otherwise: str) -> str:
        """One of two values, by whether a is below b."""
        return self.either(self.below(a, b), below, otherwise)

    @abstractmethod
    def quadrant(self, shifted: str) -> tuple[str, str, str]:
        """Conditions of the lowest bits of a number: whether bit 0 is set, bit 1, and bit 1 of the next number."""

    @abstractmethod
    def load(self, slot: Slot, names: Names) -> str: ...
    @abstractmethod
    def store(self, slot: Slot, value: str, names: Names) -> None: ...


def _sine_pairs(line: Line) -> dict[Operand, tuple[int, int]]:
    """Angles of which both sine and cosine are wanted -> the two values."""
    sines = {i.args[0]: i.target for i in line.instructions if i.op == "sin"}
    cosines = {i.args[0]: i.target for i in line.instructions if i.op == "cos"}
    return {angle: (sines[angle], cosines[angle]) for angle in sines if angle in cosines}
