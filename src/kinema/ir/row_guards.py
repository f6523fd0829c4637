"""Guards of the rows of for-each loops: conditions, known before the loop, without which a row has no effect.

Rows of most loops over pairs of bodies consist of a branch that few of them take, behind basic blocks that compute its
condition and may record it. If no row of the loop changes what these are computed from, or uses what they store, they
can be executed for all rows before the loop, which then runs for the rows that take their branch only, in the same
order.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import NamedTuple

from .effects import find_effects
from .memory import MemoryLocation, Operand
from .program import (
    BasicBlock,
    ForEachLoop,
    If,
    Instruction,
    LoopSpecialization,
    Program,
    Statements,
    Store,
    memory_accesses,
    nested_bodies,
)

LocalValues = dict[MemoryLocation | None, Operand]
"""Values of elements of local arrays."""


class Guard(NamedTuple):
    """Statements of a specialization in front of its branch, as one basic block, and the condition of the branch."""

    block: BasicBlock
    condition: Operand


def find_guards(program: Program, loops: Iterable[ForEachLoop]) -> dict[int, list[Guard | None]]:
    """Guards of the rows of for-each loops, by identity of the loop: one per specialization, None if all its rows run.

    Without loops that have no guards.

    Args:
        program: the program.
        loops: some of its loops, none of which is nested in another for-each loop.
    """
    users, result = _users_of_locals(program), dict[int, list[Guard | None]]()
    for loop in loops:
        guards = [_find_guard(program, specialization, users) for specialization in loop.specializations]
        if any(guards) and _are_independent(program, loop, guards):
            result[id(loop)] = guards
    return result


def _are_independent(program: Program, loop: ForEachLoop, guards: list[Guard | None]) -> bool:
    """Whether the statements in front of the branches of a loop can be executed for all rows before the branches."""
    parts: tuple[list[LoopSpecialization], list[LoopSpecialization]] = [], []
    for specialization, guard in zip(loop.specializations, guards, strict=True):
        n_before = 0 if guard is None else len(specialization.body) - 1
        parts[0].append(replace(specialization, body=tuple(specialization.body[:n_before])))
        parts[1].append(replace(specialization, body=tuple(specialization.body[n_before:])))
    before, after = (find_effects(program, (replace(loop, specializations=tuple(part)),)) for part in parts)
    written = before.writes | after.writes
    return before.reads.isdisjoint(written) and before.writes.isdisjoint(after.reads | after.writes)


def _find_guard(program: Program, specialization: LoopSpecialization, users: dict[str, set[int]]) -> Guard | None:
    """Guard of a specialization whose last statement is a branch; None if it has none.

    The statements in front of the branch are basic blocks without constants of the row and local arrays of other code.
    """
    branch = specialization.body[-1] if specialization.body else None
    if not isinstance(branch, If) or branch.scalarize or branch.condition.array not in program.locals:
        return None
    blocks, columns = [x for x in specialization.body[:-1] if isinstance(x, BasicBlock)], specialization.array_columns
    locations = [x for block in blocks for x in block.locations()]
    arrays = {columns.get(x.array, (x.array, 0))[0] for x in locations}
    is_own = all(users[array] == {id(specialization)} for array in arrays & program.locals.keys())
    is_own = is_own and specialization.constant_columns.keys().isdisjoint(locations)
    if not is_own or len(blocks) < len(specialization.body) - 1 or any(x.index is not None for x in locations):
        return None
    block, local_values = _merge_blocks(blocks, program.locals.keys())
    return Guard(block, local_values[branch.condition]) if branch.condition in local_values else None


def _merge_blocks(blocks: Iterable[BasicBlock], local_arrays: Collection[str]) -> tuple[BasicBlock, LocalValues]:
    """One basic block that executes several without their stores to local arrays, and the values of these."""
    instructions, stores, local_values = list[Instruction](), list[Store](), LocalValues()
    for block in blocks:
        new: dict[int, Operand] = {}
        for i in block.instructions:
            if i.location in local_values:
                new[i.result] = local_values[i.location]
                continue
            new[i.result] = len(instructions)
            arguments = tuple(new[x] if type(x) is int else x for x in i.args)
            instructions.append(Instruction(len(instructions), i.op, arguments, i.location))
        for location, value in block.stores:
            operand = new[value] if type(value) is int else value
            if location.array in local_arrays:
                local_values[location] = operand
            else:
                stores.append(Store(location, operand))
    return BasicBlock(tuple(instructions), tuple(stores)), local_values


def _users_of_locals(program: Program) -> dict[str, set[int]]:
    """Local array -> identities of the outermost loop specializations that use it; 0 for the code outside of these."""
    users: dict[str, set[int]] = {}

    def visit(statements: Statements, owner: int) -> None:
        for statement in statements:
            for location, _ in memory_accesses(statement):
                if location.array in program.locals:
                    users.setdefault(location.array, set()).add(owner)
            if isinstance(statement, ForEachLoop):
                for specialization in statement.specializations:
                    for arena, _ in specialization.array_columns.values():
                        if arena in program.locals:
                            users.setdefault(arena, set()).add(0)
                    visit(specialization.body, owner or id(specialization))
            else:
                for body in nested_bodies(statement):
                    visit(body, owner)

    visit(program.body, 0)
    return users
