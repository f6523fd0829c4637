"""Optimisation passes on basic blocks: multiply-add fusion and instruction scheduling for low register pressure.

Scheduling is a depth-first traversal from the stored values with operands ordered by Sethi-Ullman numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from .program import BasicBlock, Instruction


def fuse_multiply_add(block: BasicBlock, extra_roots: Sequence[int] = ()) -> BasicBlock:
    """Pass (FP contraction): fuse products that are used once, in a sum or difference, into multiply-add instructions.

    The instructions are `fma` (a b + c), `fms` (a b - c) and `fnma` (c - a b). Values in `extra_roots` count as used in
    addition to those that are stored.
    """
    uses = Counter([a for _, _, args, _ in block.instructions for a in args if type(a) is int])
    uses.update(
        [
            location.index
            for _, _, _, location in block.instructions
            if location is not None and location.index is not None
        ]
    )
    uses.update(block.roots)
    uses.update(extra_roots)
    definitions = {i.result: i for i in block.instructions}

    def product(argument: object) -> Instruction | None:
        if not isinstance(argument, int) or uses[argument] != 1:
            return None
        definition = definitions.get(argument)
        return definition if definition is not None and definition.op == "mul" else None

    fused_products: set[int] = set()
    instructions: list[Instruction] = []
    for instruction in block.instructions:
        new = instruction
        if instruction.op in ("add", "sub"):
            a, b = instruction.args
            if (p := product(b)) is not None:
                op = "fma" if instruction.op == "add" else "fnma"
                new = Instruction(instruction.result, op, (*p.args, a))
            elif (p := product(a)) is not None:
                op = "fma" if instruction.op == "add" else "fms"
                new = Instruction(instruction.result, op, (*p.args, b))
            if new is not instruction:
                fused_products.add(p.result)  # type: ignore[union-attr]  # ty: ignore[missing-union-attribute]
        instructions.append(new)
    return BasicBlock(tuple(i for i in instructions if i.result not in fused_products), block.stores)


def schedule_instructions(block: BasicBlock) -> BasicBlock:
    """Pass: reorder the instructions of a block to lower the register pressure (maximum number of live values).

    Values are visited depth first from the stored ones, the operand with the higher Sethi-Ullman number first. The
    block is returned unchanged unless this lowers the maximum number of live values.
    """
    dependencies = _dependencies(block.instructions)
    roots = block.roots
    order = _depth_first_values(dependencies, roots)
    if _max_live(list(dependencies), dependencies, roots) <= _max_live(order, dependencies, roots):
        return block
    definitions = {i.result: i for i in block.instructions}
    return BasicBlock(tuple([definitions[value] for value in order]), block.stores)


def depth_first_order(instructions: Sequence[Instruction], roots: Sequence[int]) -> tuple[Instruction, ...]:
    """Instructions that the roots depend on, in depth-first order; operands defined elsewhere are assumed available."""
    definitions = {i.result: i for i in instructions}
    return tuple([definitions[value] for value in _depth_first_values(_dependencies(instructions), roots)])


def _dependencies(instructions: Sequence[Instruction]) -> dict[int, list[int]]:
    """Map each value to its operands (value numbers), including the dynamic index of a load."""
    dependencies = {target: [a for a in args if type(a) is int] for target, _, args, _ in instructions}
    for target, _, _, location in instructions:
        if location is not None and location.index is not None:
            dependencies[target].append(location.index)
    return dependencies


def _depth_first_values(dependencies: dict[int, list[int]], roots: Sequence[int]) -> list[int]:
    """Values that the roots depend on, in depth-first post-order: each value after its dependencies.

    Of several pending operands the one with the highest Sethi-Ullman number is computed first.
    """
    registers = _sethi_ullman_numbers(dependencies)
    done: set[int] = set()
    order: list[int] = []
    stack: list[int] = []
    for root in roots:
        stack.append(root)
        while stack:  # explicit, as expressions are deep; ~n stands for value n after its operands
            value = stack.pop()
            if value < 0:
                value = ~value
                if value not in done:
                    done.add(value)
                    order.append(value)
                continue
            if value in done or value not in dependencies:
                continue
            pending = [a for a in dependencies[value] if a not in done and a in dependencies]
            stack.append(~value)
            if len(pending) > 1:
                pending = sorted(set(pending), key=lambda a: (registers[a], a))
            stack += pending
    return order


def _sethi_ullman_numbers(dependencies: dict[int, list[int]]) -> dict[int, int]:
    """Sethi-Ullman number of each value: registers needed to compute it if its expression were a tree."""
    registers: dict[int, int] = {}
    for target, arguments in dependencies.items():
        if len(arguments) < 2:
            registers[target] = registers.get(arguments[0], 1) if arguments else 1
            continue
        if len(arguments) == 2:
            a, b = registers.get(arguments[0], 1), registers.get(arguments[1], 1)
            registers[target] = a + (a == b and arguments[0] != arguments[1]) if a >= b else b
            continue
        needed, *others = sorted([registers.get(a, 1) for a in set(arguments)], reverse=True)
        for i, n in enumerate(others, 1):
            needed = max(needed, n + i)
        registers[target] = needed
    return registers


def _max_live(order: Sequence[int], dependencies: dict[int, list[int]], roots: Sequence[int]) -> int:
    """Register pressure of an order of values: the maximum number of live values; roots stay live to the end."""
    last: dict[int, int] = {}
    for position, value in enumerate(order):
        for argument in dependencies[value]:
            last[argument] = position
    for root in roots:
        last[root] = len(order)
    expiring = Counter(last.values())
    live = peak = 0
    for position, value in enumerate(order):
        if value in last:
            live += 1
            peak = max(peak, live)
        live -= expiring.get(position, 0)
    return peak
