"""Programs to better programs that compute the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from .blocks import Instruction, Line, map_lines
from .program import Program


def fuse_multiply_add(line: Line, kept: Sequence[int] = ()) -> Line:
    """A product that is used once, in a sum, is computed together with the sum: fma(a, b, c) = a b + c.

    `fma`, `fms` (a b - c) and `fnma` (c - a b) are one instruction each on every processor that matters. Values that
    are `kept` are wanted beside those that are stored.
    """
    uses = Counter(a for i in line.instructions for a in i.needs)
    uses.update(line.roots)
    uses.update(kept)
    made_by = {i.target: i for i in line.instructions}

    def product(argument: object) -> Instruction | None:
        if not isinstance(argument, int) or uses[argument] != 1:
            return None
        maker = made_by.get(argument)
        return maker if maker is not None and maker.op == "mul" else None

    gone: set[int] = set()
    fused: list[Instruction] = []
    for instruction in line.instructions:
        new = instruction
        if instruction.op in ("add", "sub"):
            a, b = instruction.args
            if (p := product(b)) is not None:
                op = "fma" if instruction.op == "add" else "fnma"
                new = Instruction(instruction.target, op, (*p.args, a))
            elif (p := product(a)) is not None:
                op = "fma" if instruction.op == "add" else "fms"
                new = Instruction(instruction.target, op, (*p.args, b))
            if new is not instruction:
                gone.add(p.target)  # type: ignore[union-attr]
        fused.append(new)
    return Line(tuple(i for i in fused if i.target not in gone), line.stores)


def schedule(line: Line) -> Line:
    """An order with short live ranges: each value is computed shortly before it is first needed.

    Values are visited depth first from the outputs, the argument that needs more room first, so that it is done before
    others have to be held. The order of the tape is kept where that holds fewer values.
    """
    candidates = [line, Line(depth_first(line.instructions, line.roots), line.stores)]
    return min(candidates, key=lambda x: x.max_live())


def depth_first(instructions: Sequence[Instruction], roots: Sequence[int]) -> tuple[Instruction, ...]:
    """What the roots need of some instructions, depth first; arguments from elsewhere are taken as given."""
    made_by = {i.target: i for i in instructions}
    room = _room_needed(instructions)
    done: set[int] = set()
    order: list[Instruction] = []
    for root in roots:
        _visit(root, made_by, room, done, order)
    return tuple(order)


def _visit(
    root: int, made_by: dict[int, Instruction], room: dict[int, int], done: set[int], order: list[Instruction]
) -> None:
    """Append what a value needs, then the value; with a stack of its own, because programs are deep."""
    stack: list[tuple[int, bool]] = [(root, False)]
    while stack:
        number, ready = stack.pop()
        if number in done or number not in made_by:
            continue
        instruction = made_by[number]
        if ready:
            done.add(number)
            order.append(instruction)
            continue
        stack.append((number, True))
        arguments = sorted({a for a in instruction.needs if a in made_by and a not in done}, key=lambda a: (room[a], a))
        stack.extend((a, False) for a in arguments)


def _room_needed(instructions: Sequence[Instruction]) -> dict[int, int]:
    """For each value how many others have to be held while it is computed (Sethi and Ullman, as if it were a tree)."""
    room: dict[int, int] = {}
    for instruction in instructions:
        needs = sorted([room.get(a, 1) for a in set(instruction.needs)], reverse=True)
        room[instruction.target] = max([1, *[n + i for i, n in enumerate(needs)]])
    return room


def optimise(program: Program) -> Program:
    """All passes, in order, on every line."""
    blocks = program.blocks
    for improve in PASSES:
        blocks = map_lines(blocks, improve)
    return replace(program, blocks=blocks)


PASSES: Sequence[Callable[[Line], Line]] = (fuse_multiply_add, schedule)
