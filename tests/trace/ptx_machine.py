"""A small GPU: it runs the text that `emit_ptx` writes, one environment after the other, on any computer.

It knows the instructions that the text is made of and no others, in double precision; every access is checked for
being within the array it is meant for. A fused product rounds twice here, so that results are the same but for the last
bits. Threads that share an environment run in turns, from one meeting to the next.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

SIZE = 8
SPACING = 1 << 40
"""Bytes from one array's address to the next one's: none is as large."""
_LINE = re.compile(r'^"(.*)\\n"$', re.MULTILINE)
_OPERAND = re.compile(r'"[lr]"\((\w+)\)')
_CONSTANT = re.compile(r"^0d([0-9A-F]{16})$")
_ADDRESS = re.compile(r"^\[(\w+)(?:\+(-?\d+))?\]$")


class Machine:
    """The text, and the memory that it runs in."""

    def __init__(self, text: str, arrays: Mapping[str, np.ndarray], stride: int, steps: int, advance: int) -> None:
        self.code: list[tuple[str, str, list[str]]] = []
        self.labels: dict[str, int] = {}
        self.local: dict[str, int] = {}
        self._parse(_LINE.findall(text))
        self.operands = _OPERAND.findall(text)
        self.numbers = {"stride": stride, "steps": steps, "advance": advance}
        self.arrays = dict(arrays)
        found = re.search(r"exchange_\[(\d+) \* 32\]", text)
        self.arrays["exchange"] = np.full(32 * int(found[1]) if found else 0, np.nan)
        self.n_roles = max(len(re.findall(r"setp\.ne\.s32 \w+, role,", text)), 1)

    def _parse(self, lines: list[str]) -> None:
        for line in lines:
            if line in ("{", "}") or line.startswith(".reg"):
                continue
            if line.startswith(".local"):
                name, count = re.fullmatch(r"\.local \.align 8 \.f64 (\w+)\[(\d+)\];", line).groups()  # type: ignore[union-attr]
                self.local[name] = int(count)
            elif line.endswith(":"):
                assert line[:-1] not in self.labels
                self.labels[line[:-1]] = len(self.code)
            else:
                guard, rest = re.fullmatch(r"(?:@(!?\w+) )?(.*);", line).groups()  # type: ignore[union-attr]
                op, _, operands = rest.partition(" ")
                self.code.append((guard or "", op, [o.strip() for o in operands.split(",")]))

    def run(self, environments: range) -> None:
        for e in environments:
            threads = [_Thread(self, e, role).run() for role in range(self.n_roles)]
            while threads:  # each runs up to the next meeting
                met = [next(thread, False) for thread in threads]
                assert len(set(met)) == 1, "some wait for others that are gone"
                threads = threads if met[0] else []


class _Thread:
    def __init__(self, machine: Machine, environment: int, role: int) -> None:
        self.machine = machine
        self.arrays = {**machine.arrays, **{name: np.full(n, np.nan) for name, n in machine.local.items()}}
        bases = {name: (i + 1) * SPACING for i, name in enumerate(self.arrays)}
        self.names = {base // SPACING: name for name, base in bases.items()}
        given = {**machine.numbers, "e": environment, "role": role, "lane": environment % 32 * SIZE}
        self.registers: dict[str, Any] = {name: bases[name] for name in machine.local}
        for i, name in enumerate(machine.operands):
            self.registers[f"%{i}"] = bases[name] if name in bases else given[name]

    def run(self) -> Iterator[bool]:
        """Go on to the next meeting, until there is nothing more to do."""
        position, code = 0, self.machine.code
        while position < len(code):
            guard, op, operands = code[position]
            position += 1
            if guard and self.registers[guard.lstrip("!")] == guard.startswith("!"):
                continue
            if op == "bra":
                position = self.machine.labels[operands[0]]
            elif op == "bar.sync":
                yield True
            else:
                self._do(op, operands)

    def _value(self, operand: str) -> Any:
        if operand in self.registers:
            return self.registers[operand]
        constant = _CONSTANT.match(operand)
        return struct.unpack(">d", bytes.fromhex(constant[1]))[0] if constant else int(operand)

    def _place(self, operand: str) -> tuple[np.ndarray, int]:
        register, offset = _ADDRESS.match(operand).groups()  # type: ignore[union-attr]
        at = self.registers[register] + int(offset or 0)
        array = self.arrays[self.names[(at + SPACING // 2) // SPACING]].reshape(-1)
        item, rest = divmod(at % SPACING, array.itemsize)
        assert rest == 0
        assert item < len(array), f"outside of {self.names[(at + SPACING // 2) // SPACING]}"
        return array, item

    def _do(self, op: str, operands: list[str]) -> None:
        kind, *more = op.split(".")
        if kind == "ld":
            array, item = self._place(operands[1])
            assert (array.dtype == np.int32) == (more[-1] == "s32")
            self.registers[operands[0]] = array[item].item()
        elif kind == "st":
            array, item = self._place(operands[0])
            array[item] = self._value(operands[1])
        elif kind in ("mov", "cvt", "cvta"):
            self.registers[operands[0]] = _CONVERT[op](self._value(operands[1]))
        else:
            self.registers[operands[0]] = _RUN[op](*(self._value(o) for o in operands[1:]))


def _reciprocal(x: float) -> float:
    return math.copysign(math.inf, x) if x == 0 else 1.0 / x


_CONVERT: dict[str, Callable[[Any], Any]] = {
    "mov.b32": int,
    "mov.s32": int,
    "mov.u64": int,
    "mov.f64": float,
    "mov.b64": lambda x: struct.unpack("<Q", struct.pack("<d", x))[0],
    "cvt.u32.u64": lambda x: x & 0xFFFFFFFF,
    "cvt.s64.s32": int,
    "cvt.rn.f64.s32": float,
    "cvt.rzi.s32.f64": math.trunc,
    "cvta.to.global.u64": int,
}
_RUN: dict[str, Callable[..., Any]] = {
    "add.rn.f64": lambda a, b: a + b,
    "sub.rn.f64": lambda a, b: a - b,
    "mul.rn.f64": lambda a, b: a * b,
    "fma.rn.f64": lambda a, b, c: a * b + c,
    "neg.f64": lambda a: -a,
    "abs.f64": abs,
    "sqrt.rn.f64": lambda a: math.sqrt(a) if a >= 0 else math.nan,
    "rcp.rn.f64": _reciprocal,
    "selp.f64": lambda a, b, p: a if p else b,
    "setp.lt.f64": lambda a, b: a < b,
    "setp.gt.f64": lambda a, b: a > b,
    "setp.ge.s32": lambda a, b: a >= b,
    "setp.ne.s32": lambda a, b: a != b,
    "add.s32": lambda a, b: a + b,
    "add.u64": lambda a, b: a + b,
    "and.b32": lambda a, b: a & b,
    "div.s32": lambda a, b: a // b,
    "mul.lo.s32": lambda a, b: a * b,
    "mul.wide.s32": lambda a, b: a * b,
    "mad.wide.s32": lambda a, b, c: a * b + c,
    "mad.lo.s64": lambda a, b, c: a * b + c,
}
