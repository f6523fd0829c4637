"""A straight-line program: what is left of a tape when it is known which values are wanted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .tape import Operand, Slot, Tape, Value, operand

COST = {"input": 0, "neg": 1, "reciprocal": 4, "sqrt": 4, "sin": 10, "cos": 10, "select": 2, "fma": 2}
"""Floating-point operations an instruction stands for, where it is not one."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """`target = op(args)`; an `int` argument is the target of an earlier instruction, a `float` a constant."""

    target: int
    op: str
    args: tuple[Operand, ...]
    slot: Slot | None = None
    """Where an input is read from."""


@dataclass(frozen=True, slots=True)
class Store:
    """An output: a value, or a constant, and where it is written to."""

    slot: Slot
    value: Operand


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """Instructions in an order in which they can run, then the stores."""

    instructions: tuple[Instruction, ...]
    stores: tuple[Store, ...]

    @property
    def inputs(self) -> dict[str, int]:
        """Input array -> how many of its items are needed at least."""
        return _extents(i.slot for i in self.instructions if i.slot is not None)

    @property
    def outputs(self) -> dict[str, int]:
        """Output array -> how many items are written at least."""
        return _extents(s.slot for s in self.stores)

    @property
    def n_instructions(self) -> int:
        """How long it is."""
        return len(self.instructions)

    @property
    def n_operations(self) -> int:
        """Floating-point operations, roughly."""
        return sum(COST.get(i.op, 1) for i in self.instructions)

    def counts(self) -> dict[str, int]:
        """How often each operation occurs."""
        return dict(Counter(i.op for i in self.instructions))

    def max_live(self) -> int:
        """The most values that are needed later at any one time: what registers would have to hold."""
        last = last_uses(self)
        expiring = Counter(last.values())
        live = most = 0
        for position, instruction in enumerate(self.instructions):
            if instruction.target in last:
                live += 1
            most = max(most, live)
            live -= expiring.get(position, 0)
        return most

    def __str__(self) -> str:
        lines = [f"v{i.target} = {_call(i)}" for i in self.instructions]
        lines += [f"{s.slot.array}[{s.slot.item}] = {_show(s.value)}" for s in self.stores]
        return "\n".join(lines)


def last_uses(program: Program) -> dict[int, int]:
    """Value -> position of the last instruction that needs it; stores come after all instructions."""
    last: dict[int, int] = {}
    for position, instruction in enumerate(program.instructions):
        for a in instruction.args:
            if isinstance(a, int):
                last[a] = position
    for store in program.stores:
        if isinstance(store.value, int):
            last[store.value] = len(program.instructions)
    return last


def finish(tape: Tape, outputs: Mapping[str, Sequence[Value]]) -> Program:
    """The program that computes the wanted outputs from the tape's inputs, without what they do not need."""
    stores = tuple(
        Store(Slot(array, item), operand(value))
        for array, values in outputs.items()
        for item, value in enumerate(values)
    )
    needed = _needed(tape, [s.value for s in stores if isinstance(s.value, int)])
    instructions = tuple(
        Instruction(n, tape.ops[n], tape.args[n], tape.slots.get(n)) for n in range(len(tape.ops)) if n in needed
    )
    return Program(instructions, stores)


def _needed(tape: Tape, roots: Sequence[int]) -> set[int]:
    needed: set[int] = set()
    stack = list(roots)
    while stack:
        number = stack.pop()
        if number not in needed:
            needed.add(number)
            stack.extend(a for a in tape.args[number] if isinstance(a, int))
    return needed


def _extents(slots: object) -> dict[str, int]:
    extents: dict[str, int] = {}
    for slot in slots:  # type: ignore[attr-defined]
        extents[slot.array] = max(extents.get(slot.array, 0), slot.item + 1)
    return extents


def _call(instruction: Instruction) -> str:
    if instruction.slot is not None:
        return f"{instruction.slot.array}[{instruction.slot.item}]"
    return f"{instruction.op}({', '.join(_show(a) for a in instruction.args)})"


def _show(operand_: Operand) -> str:
    return f"v{operand_}" if isinstance(operand_, int) else repr(operand_)
