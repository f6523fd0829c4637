"""Guards of the rows of for-each loops: conditions, known before the loop, without which a row has no effect.

Rows of most loops over pairs of bodies consist of nested branches that few of them take, each behind basic blocks that
compute its condition and may record it. If no row of the loop changes what these are computed from, or uses what they
store, they can be executed for all rows before the loop, which then runs for the rows that take their branches only, in
the same order.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import NamedTuple

from .effects import Cell, effects_per_iteration, find_effects
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

MAX_SPECULATED_INSTRUCTIONS = 60
"""Largest number of instructions of a guard with nested branches, which are executed for all rows."""
LocalValues = dict[MemoryLocation | None, Operand]
"""Values of elements of local arrays."""


class GuardLevel(NamedTuple):
    """A branch of a guard: what is stored in front of it, if all outer branches are taken, and its condition."""

    stores: tuple[Store, ...]
    condition: Operand


class Guard(NamedTuple):
    """Nested branches of a specialization, each the last statement of the one around it; a row runs if all are taken.

    The instructions of all of them can be executed for any row.
    """

    instructions: tuple[Instruction, ...]
    levels: tuple[GuardLevel, ...]
    blocks: tuple[BasicBlock, ...]
    """Basic blocks in front of the branches."""
    branch: If
    """The innermost branch."""


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
        bodies = ((), specialization.body) if guard is None else (guard.blocks, (guard.branch,))
        for part, body in zip(parts, bodies, strict=True):
            part.append(replace(specialization, body=body))
    loops = [replace(loop, specializations=tuple(part)) for part in parts]
    before, after = (find_effects(program, (part,)) for part in loops)
    if not before.reads.isdisjoint(before.writes | after.writes):
        return False
    shared = before.writes & (after.reads | after.writes)  # allowed within a row
    row_of: dict[Cell, int] = {}
    for part in loops if shared else ():
        for row, effects in enumerate(effects_per_iteration(program, part)):
            if any(row_of.setdefault(cell, row) != row for cell in (effects.reads | effects.writes) & shared):
                return False
    return True


def _find_guard(program: Program, specialization: LoopSpecialization, users: dict[str, set[int]]) -> Guard | None:
    """Guard of a specialization whose last statement is a branch; None if it has none.

    The statements in front of a branch are basic blocks without local arrays of other code, or of earlier rows.
    """
    instructions, levels, blocks = list[Instruction](), list[GuardLevel](), list[BasicBlock]()
    body, local_values, found = specialization.body, LocalValues(), None
    while body and isinstance(branch := body[-1], If) and not branch.scalarize:
        own = [x for x in body[:-1] if isinstance(x, BasicBlock)]
        n_instructions = sum(len(block.instructions) for block in own)
        if len(own) < len(body) - 1 or not all(_is_own(program, specialization, block, users) for block in own):
            break
        if levels and len(instructions) + n_instructions > MAX_SPECULATED_INSTRUCTIONS:
            break
        stores = _append_blocks(own, program.locals.keys(), instructions, local_values)
        if stores is None or branch.condition not in local_values:
            break
        levels.append(GuardLevel(stores, local_values[branch.condition]))
        blocks += own
        found, body = branch, branch.body
    if found is None:
        return None
    n_instructions = 1 + max((x for level in levels for x in _operands(level) if type(x) is int), default=-1)
    return Guard(tuple(instructions[:n_instructions]), tuple(levels), tuple(blocks), found)


def _operands(level: GuardLevel) -> list[Operand]:
    return [level.condition, *(store.value for store in level.stores)]


def _is_own(
    program: Program, specialization: LoopSpecialization, block: BasicBlock, users: dict[str, set[int]]
) -> bool:
    """Whether a basic block uses no dynamic indices and no local arrays of other code."""
    locations, columns = list(block.locations()), specialization.array_columns
    arrays = {columns.get(x.array, (x.array, 0))[0] for x in locations}
    is_own = all(users[array] == {id(specialization)} for array in arrays & program.locals.keys())
    return is_own and all(location.index is None for location in locations)


def _append_blocks(
    blocks: Iterable[BasicBlock],
    local_arrays: Collection[str],
    instructions: list[Instruction],
    local_values: LocalValues,
) -> tuple[Store, ...] | None:
    """Append the instructions of basic blocks, renumbered, with the values of local arrays instead of their loads.

    Returns the stores to other arrays; None if a local array is loaded that is not stored before.
    """
    stores: list[Store] = []
    for block in blocks:
        new: dict[int, Operand] = {}
        for i in block.instructions:
            if i.location is not None and i.location.array in local_arrays:
                if i.location not in local_values:
                    return None
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
    return tuple(stores)


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
