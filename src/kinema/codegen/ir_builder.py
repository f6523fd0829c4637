"""LLVM IR builder: types, value names, arithmetic on scalars or SIMD vectors, and integer loops.

Floating-point operations carry no fast-math flags: the compiler must not reassociate or contract them, so that results
are bitwise equal for every vector width.
"""

from __future__ import annotations

import struct
from functools import cache

from .superwords import WIDTHS
from .target import SINCOS_CONSTANTS, Target

MAX_BLOCK_LINES = 500
"""Number of lines from which on a basic block of LLVM IR is split, in programs with short blocks."""


class IRBuilder:
    """Builds the text of an LLVM function; methods that emit a value return its name or literal."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.output_lines: list[str] = []
        self.iteration_values: list[str] = []
        """Indices of the enclosing counted loops as floating-point values, outermost first."""
        self.scalar_type = target.scalar_type
        self.vector_type = f"<{target.lanes} x {self.scalar_type}>" if target.lanes > 1 else self.scalar_type
        """LLVM type of one scalar for each lane (environment) of a vector."""
        self.scalar_bytes = target.scalar_bytes
        self.index_type = "i32" if target.is_gpu else "i64"
        """LLVM type of loop counters and table indices."""
        self.current_label = "entry"
        """Label of the basic block being emitted."""
        self._block_start = 0
        """Number of lines before the basic block being emitted."""
        self.uses_superwords = False
        """Whether the code has vectors of the components of a body (`superwords.py`)."""
        self.has_short_blocks = False
        """Whether long basic blocks are split."""
        self._n_names = 0
        self._block_pointers: dict[tuple[str, str, str], str] = {}
        """Pointers computed in the current basic block, by base, element type and row."""
        self._open_loops: dict[str, tuple[int, str]] = {}
        """Open loops by head label: position and text of the phi of the counter."""
        self.set_lanes(target)

    def set_lanes(self, target: Target) -> None:
        """Switch the types of values and masks to the number of lanes of `target`."""
        self.target = target
        is_vector = target.lanes > 1
        self.value_type = f"<{target.lanes} x {self.scalar_type}>" if is_vector else self.scalar_type
        self.mask_type = f"<{target.lanes} x i1>" if is_vector else "i1"
        bits = 8 * self.scalar_bytes
        self.int_type = f"<{target.lanes} x i{bits}>" if is_vector else f"i{bits}"
        self.type_suffix = f"v{target.lanes}f{bits}" if is_vector else f"f{bits}"

    def declarations(self) -> list[str]:
        """LLVM declarations of arithmetic intrinsics: fma, sqrt, fabs, floor; on a GPU the approximate reciprocal.

        For scalars and SIMD vectors. SIMD code also gets the count of trailing zeros, for loops over lane masks.
        """
        intrinsics = [("llvm.fma", 3), ("llvm.sqrt", 1), ("llvm.fabs", 1), ("llvm.floor", 1)]
        types = {self.type_suffix: self.value_type, f"f{8 * self.scalar_bytes}": self.scalar_type}
        if self.uses_superwords:
            types |= {f"v{n}f{8 * self.scalar_bytes}": f"<{n} x {self.scalar_type}>" for n in WIDTHS}
        lines = [
            f"declare {llvm_type} @{name}.{suffix}({', '.join([llvm_type] * count)})"
            for name, count in intrinsics
            for suffix, llvm_type in types.items()
        ]
        lines += [] if self.target.lanes == 1 else ["declare i64 @llvm.cttz.i64(i64, i1)"]
        if self.target.lanes > 1 and self.target.has_scatter:
            pointers, suffix = f"<{self.target.lanes} x ptr>", f"{self.type_suffix}.v{self.target.lanes}p0"
            lines += [
                f"declare {self.value_type} @llvm.masked.gather.{suffix}({pointers}, i32, {self.mask_type}, "
                f"{self.value_type})",
                f"declare void @llvm.masked.scatter.{suffix}({self.value_type}, {pointers}, i32, {self.mask_type})",
            ]
        return [*lines, "declare float @llvm.nvvm.rcp.approx.ftz.f(float)"] if self.target.is_gpu else lines

    # ----------------------------------------------------------------------------------------- instructions and blocks

    def emit(self, instruction: str) -> None:
        """Append an instruction without result."""
        self.output_lines.append("  " + instruction)

    def assign(self, expression: str) -> str:
        """Append an instruction and return the new name of its result."""
        self._n_names += 1
        name = f"%{self._n_names}"  # LLVM reads numbers faster than names
        self.output_lines.append(f"  {name} = {expression}")
        return name

    def fresh_name(self, prefix: str) -> str:
        """Unique name with a prefix."""
        self._n_names += 1
        return f"{prefix}{self._n_names}"

    def start_block(self, label: str) -> None:
        """Start a basic block with a label."""
        self.output_lines.append(f"{label}:")
        self.current_label, self._block_start = label, len(self.output_lines)
        self._block_pointers = {}

    def split_long_block(self) -> None:
        """Continue in another basic block if the current one is long, in programs with short blocks.

        The time of LLVM's code generator grows faster than linearly with the length of a basic block.
        """
        if self.has_short_blocks and len(self.output_lines) - self._block_start >= MAX_BLOCK_LINES:
            label = self.fresh_name("next")
            self.emit(f"br label %{label}")
            self.start_block(label)

    def begin_loop(self, start: str, end: str) -> tuple[tuple[str, str, str, str], str]:
        """Emit the head of a loop over the integers from `start` to `end` - 1.

        Returns the handle for `end_loop` and the name of the counter. The phi of the counter is filled in by
        `end_loop`.
        """
        head, body, done = self.fresh_name("head"), self.fresh_name("body"), self.fresh_name("done")
        counter, next_value = f"%{head}.i", f"%{head}.next"
        before = self.current_label
        self.emit(f"br label %{head}")
        self.start_block(head)
        position = len(self.output_lines)
        self.emit("")  # placeholder of the phi, filled in by `end_loop`
        continues = self.assign(f"icmp slt {self.index_type} {counter}, {end}")
        self.emit(f"br i1 {continues}, label %{body}, label %{done}")
        self.start_block(body)
        self._open_loops[head] = (
            position,
            f"  {counter} = phi {self.index_type} [ {start}, %{before} ], [ {next_value}, %{{}} ]",
        )
        return (head, done, counter, next_value), counter

    def end_loop(self, loop: tuple[str, str, str, str]) -> None:
        """Emit the increment and back edge of a loop over integers, and start the block behind it."""
        head, done, counter, next_value = loop
        self.emit(f"{next_value} = add {self.index_type} {counter}, 1")
        position, phi = self._open_loops.pop(head)
        self.output_lines[position] = phi.format(self.current_label)
        self.emit(f"br label %{head}")
        self.start_block(done)

    # --------------------------------------------------------------------------------------------- constants and masks

    def constant(self, value: float) -> str:
        """Floating-point constant, the same in all lanes."""
        literal = float_literal(value, self.target.precision)
        return literal if self.target.lanes == 1 else f"splat ({self.scalar_type} {literal})"

    def int_constant(self, value: int) -> str:
        """Integer constant of the width of a scalar, the same in all lanes."""
        int_type = f"i{8 * self.scalar_bytes}"
        return str(value) if self.target.lanes == 1 else f"splat ({int_type} {value})"

    def splat(self, scalar: str) -> str:
        """Broadcast a scalar to all lanes."""
        if self.target.lanes == 1:
            return scalar
        first = self.assign(f"insertelement {self.value_type} poison, {self.scalar_type} {scalar}, i64 0")
        zeros = f"<{self.target.lanes} x i32> zeroinitializer"
        return self.assign(f"shufflevector {self.value_type} {first}, {self.value_type} poison, {zeros}")

    def any_lane(self, mask: str) -> str:
        """Whether any lane of a mask is set, as an `i1`."""
        if self.target.lanes == 1:
            return mask
        bits = self.assign(f"bitcast {self.mask_type} {mask} to i{self.target.lanes}")
        return self.assign(f"icmp ne i{self.target.lanes} {bits}, 0")

    def and_masks(self, mask: str, other: str | None) -> str:
        """Intersection of two masks; None stands for all lanes."""
        return mask if other is None else self.assign(f"and {self.mask_type} {mask}, {other}")

    def all_lanes_mask(self) -> str:
        """Mask with all lanes set."""
        return "true" if self.target.lanes == 1 else f"<{', '.join(['i1 true'] * self.target.lanes)}>"

    # ---------------------------------------------------------------------------------------------------- arithmetic

    def emit_op(self, op: str, args: list[str]) -> str:
        """Emit the LLVM instructions of an operation (`add`, `fma`, `select`, ...); returns the name of its result."""
        match op:
            case "fma" if self.target.has_fma:
                a, b, c = args
                return self.assign(
                    f"call {self.value_type} @llvm.fma.{self.type_suffix}"
                    f"({self.value_type} {a}, {self.value_type} {b}, {self.value_type} {c})"
                )
            case "add" | "sub" | "mul":
                return self.assign(f"f{op} {self.value_type} {args[0]}, {args[1]}")
            case "neg":
                return self._negate(*args)
            case "reciprocal":
                return self._reciprocal(*args)
            case "sqrt" | "abs" | "floor":
                name = {"abs": "fabs"}.get(op, op)
                return self.assign(
                    f"call {self.value_type} @llvm.{name}.{self.type_suffix}({self.value_type} {args[0]})"
                )
            case "min":
                return self._select_less(args[1], args[0], args[1], args[0])
            case "max":
                return self._select_less(args[0], args[1], args[1], args[0])
            case "select":
                return self._select_less(*args)
            case "fma":
                return self._fma(*args)
            case "fms":
                return self._fma(args[0], args[1], self._negate(args[2]))
            case "fnma":
                return self._fma(self._negate(args[0]), args[1], args[2])
            case "loop_index":
                return self.iteration_values[-1]
            case "any":
                mask = self.assign(f"fcmp ogt {self.value_type} {args[0]}, {self.constant(0.5)}")
                flag = self.assign(f"uitofp i1 {self.any_lane(mask)} to {self.scalar_type}")
                return self.splat(flag)
        raise AssertionError(f"unknown operation {op!r}")

    def _binary(self, op: str, a: str, b: str) -> str:
        return self.assign(f"f{op} {self.value_type} {a}, {b}")

    def _negate(self, a: str) -> str:
        return self.assign(f"fneg {self.value_type} {a}")

    def _reciprocal(self, a: str) -> str:
        """Reciprocal 1/a; in single precision on a GPU, the hardware estimate and one Newton step (1 ulp)."""
        if not (self.target.is_gpu and self.target.precision == "single"):
            return self.assign(f"fdiv {self.value_type} {self.constant(1.0)}, {a}")
        estimate = self.assign(f"call float @llvm.nvvm.rcp.approx.ftz.f(float {a})")
        return self._fma(estimate, self._fma(self._negate(a), estimate, self.constant(1.0)), estimate)

    def _fma(self, a: str, b: str, c: str) -> str:
        if self.target.has_fma:
            return self.assign(
                f"call {self.value_type} @llvm.fma.{self.type_suffix}"
                f"({self.value_type} {a}, {self.value_type} {b}, {self.value_type} {c})"
            )
        return self._binary("add", self._binary("mul", a, b), c)

    def _select_less(self, a: str, b: str, below: str, otherwise: str) -> str:
        """`below` where a < b, else `otherwise`."""
        return self._select(self.assign(f"fcmp olt {self.value_type} {a}, {b}"), below, otherwise)

    def _select(self, condition: str, then: str, otherwise: str) -> str:
        return self.assign(
            f"select {self.mask_type} {condition}, {self.value_type} {then}, {self.value_type} {otherwise}"
        )

    # ----------------------------------------------------------------------------------------------- sine and cosine

    def sincos(self, x: str) -> tuple[str, str]:
        """Emit branch-free sine and cosine of an angle [rad]; returns (sine, cosine).

        Cody-Waite range reduction to [-pi/4, pi/4] and minimax polynomials; see `SincosConstants`.
        """
        constants, constant = SINCOS_CONSTANTS[self.target.precision], self.constant
        shifted = self._fma(x, constant(constants.two_over_pi), constant(constants.rounding_magic))
        k = self._binary("sub", shifted, constant(constants.rounding_magic))
        r = x
        for part in constants.half_pi:
            r = self._fma(k, constant(-part), r)
        z = self._binary("mul", r, r)
        sine = self._fma(self._binary("mul", r, z), self._horner(constants.sine, z), r)
        cosine_start = self._fma(z, constant(-0.5), constant(1.0))
        cosine = self._fma(self._binary("mul", z, z), self._horner(constants.cosine, z), cosine_start)
        odd, second, third = self._quadrant(shifted)
        s, c = self._select(odd, cosine, sine), self._select(odd, sine, cosine)
        return self._select(second, self._negate(s), s), self._select(third, self._negate(c), c)

    def _horner(self, coefficients: tuple[float, ...], z: str) -> str:
        """Polynomial in z by Horner's rule with fused multiply-adds; coefficients lowest order first."""
        result = self.constant(coefficients[-1])
        for coefficient in reversed(coefficients[:-1]):
            result = self._fma(z, result, self.constant(coefficient))
        return result

    def _quadrant(self, shifted: str) -> tuple[str, str, str]:
        """Conditions on the quadrant k in the low bits: bit 0 of k, bit 1 of k, bit 1 of k + 1."""
        bits = self.assign(f"bitcast {self.value_type} {shifted} to {self.int_type}")
        incremented = self.assign(f"add {self.int_type} {bits}, {self.int_constant(1)}")
        return self._test_bit(bits, 1), self._test_bit(bits, 2), self._test_bit(incremented, 2)

    def _test_bit(self, word: str, bit: int) -> str:
        masked = self.assign(f"and {self.int_type} {word}, {self.int_constant(bit)}")
        return self.assign(f"icmp ne {self.int_type} {masked}, {self.int_constant(0)}")


def float_literal(value: float, precision: str) -> str:
    """LLVM literal of a constant rounded to a precision, as the bits of a double."""
    return _float_literal(struct.pack("<d", value), precision)


@cache
def _float_literal(double_bytes: bytes, precision: str) -> str:
    """LLVM literal of a constant given by the bytes of a double: cached by bits, as 0 == -0."""
    (value,) = struct.unpack("<d", double_bytes)
    (bits,) = struct.unpack("<Q", struct.pack("<d", Target(precision).round_constant(value)))
    return f"0x{bits:016X}"
