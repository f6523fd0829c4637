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
    uses = Counter([a for _, _, args, _ in line.instructions for a in args if type(a) is int])
    uses.update([slot.index for _, _, _, slot in line.instructions if slot is not None and slot.index is not None])
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
                gone.add(p.target)  # type: ignore[union-attr]  # ty: ignore[missing-union-attribute]
        fused.append(new)
    return Line(tuple(i for i in fused if i.target not in gone), line.stores)


def schedule(line: Line) -> Line:
    """An order with short live ranges: each value is computed shortly before it is first needed.

    Values are visited depth first from the outputs, the argument that needs more room first, so that it is done before
    others have to be held. The order of the tape is kept where that holds fewer values.
    """
    needs = _needs(line.instructions)
    roots = line.roots
    order = _depth_first(needs, roots)
    if _max_live(list(needs), needs, roots) <= _max_live(order, needs, roots):
        return line
    made_by = {i.target: i for i in line.instructions}
    return Line(tuple([made_by[number] for number in order]), line.stores)


def depth_first(instructions: Sequence[Instruction], roots: Sequence[int]) -> tuple[Instruction, ...]:
    """What the roots need of some instructions, depth first; arguments from elsewhere are taken as given."""
    made_by = {i.target: i for i in instructions}
    return tuple([made_by[number] for number in _depth_first(_needs(instructions), roots)])


def _needs(instructions: Sequence[Instruction]) -> dict[int, list[int]]:
    """By value, those that it is computed from."""
    found = {target: [a for a in args if type(a) is int] for target, _, args, _ in instructions}
    for target, _, _, slot in instructions:
        if slot is not None and slot.index is not None:
            found[target].append(slot.index)
    return found


def _depth_first(needs: dict[int, list[int]], roots: Sequence[int]) -> list[int]:
    """Values that the roots need, each after those that it is computed from (`needs`)."""
    room = _room_needed(needs)
    done: set[int] = set()
    order: list[int] = []
    stack: list[int] = []
    for root in roots:
        stack.append(root)
        while stack:  # of its own, because programs are deep; ~n is value n once all that it needs is done
            number = stack.pop()
            if number < 0:
                number = ~number
                if number not in done:
                    done.add(number)
                    order.append(number)
                continue
            if number in done or number not in needs:
                continue
            waiting = [a for a in needs[number] if a not in done and a in needs]
            stack.append(~number)
            if len(waiting) > 1:
                waiting = sorted(set(waiting), key=lambda a: (room[a], a))
            stack += waiting
    return order


def _room_needed(needs: dict[int, list[int]]) -> dict[int, int]:
    """For each value how many others have to be held while it is computed (Sethi and Ullman, as if it were a tree)."""
    room: dict[int, int] = {}
    for target, arguments in needs.items():
        if len(arguments) < 2:
            room[target] = room.get(arguments[0], 1) if arguments else 1
            continue
        if len(arguments) == 2:
            a, b = room.get(arguments[0], 1), room.get(arguments[1], 1)
            room[target] = a + (a == b and arguments[0] != arguments[1]) if a >= b else b
            continue
        most, *others = sorted([room.get(a, 1) for a in set(arguments)], reverse=True)
        for i, n in enumerate(others, 1):
            most = max(most, n + i)
        room[target] = most
    return room


def _max_live(order: Sequence[int], needs: dict[int, list[int]], roots: Sequence[int]) -> int:
    """The most values that are needed later at any one time, if they are computed in some order."""
    last: dict[int, int] = {}
    for position, number in enumerate(order):
        for argument in needs[number]:
            last[argument] = position
    for root in roots:
        last[root] = len(order)
    expiring = Counter(last.values())
    live = most = 0
    for position, number in enumerate(order):
        if number in last:
            live += 1
            most = max(most, live)
        live -= expiring.get(position, 0)
    return most


def optimise(program: Program) -> Program:
    """All passes, in order, on every line."""
    return replace(program, blocks=map_lines(program.blocks, optimise_line))


def optimise_line(line: Line) -> Line:
    """All passes, in order."""
    for improve in PASSES:
        line = improve(line)
    return line


PASSES: Sequence[Callable[[Line], Line]] = (fuse_multiply_add, schedule)
