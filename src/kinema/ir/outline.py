"""Function outlining: long for-each loops, loop specializations and basic blocks become functions in separate modules.

Modules are compiled in parallel, the first while later ones are still emitted, and the time of register allocation
grows faster than linearly with the length of a function. A for-each loop or specialization can be outlined if it shares
no local array with the surrounding code: it then communicates through memory only. A long basic block, and a loop of a
derivative, may share local arrays: these are placed in a frame in memory, whose pointer is passed to the function. The
surrounding function would have to spill most of them anyway.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from itertools import accumulate

from .program import (
    BasicBlock,
    ForEachLoop,
    If,
    Program,
    Statements,
    WhileLoop,
    basic_blocks,
    memory_accesses,
    nested_bodies,
)

MIN_LOOP_INSTRUCTIONS = 2000
"""Minimum number of instructions of an outlined for-each loop; calls of shorter ones inside the solver's loop cost 10
%."""
MIN_VARIANT_INSTRUCTIONS = 1000
"""Minimum number of instructions of an outlined loop specialization."""
MIN_BLOCK_INSTRUCTIONS = 2000
"""Minimum number of instructions of an outlined basic block."""


def outline_functions(program: Program) -> Program:
    """Mark the statements of a program that become functions (`Program.outlined`)."""
    return replace(program, outlined=find_outlined(program))


def find_outlined(program: Program) -> dict[int, frozenset[str]]:
    """Select the long for-each loops, loop specializations and basic blocks to outline as functions.

    Returns identity (`id`) of the statement -> names of local arrays: those allocated in the function, and those that
    are placed in a stack frame shared with the caller (`frame_layout`).
    """
    loops = {id(loop): loop for loop in _candidate_loops(program.body)}
    uses = {key: local_arrays_used(program, (loop,)) for key, loop in loops.items()}
    users = _count_users(program, uses)
    outlined = {id(block): local_arrays_used(program, (block,)) for block in _long_basic_blocks(program.body)}
    for key, names in uses.items():
        shared = {name for name in names if users[name] > 1}
        if not shared or program.has_short_blocks:
            specializations = _outlined_specializations(program, loops[key], shared)
            outlined |= specializations
            outlined[key] = names.difference(*specializations.values()) | shared
    return outlined


def _count_users(program: Program, loops: Mapping[int, Collection[str]]) -> Counter[str]:
    """Number of loops, from their identities and local arrays, that use an array; all other code counts as one."""
    users = Counter(name for names in loops.values() for name in names)
    users.update(set(_named_arrays(program.body, loops)))
    return users


def _outlined_specializations(
    program: Program, loop: ForEachLoop, shared: Collection[str]
) -> dict[int, frozenset[str]]:
    """Long specializations of a for-each loop to outline as functions: `id` of the specialization -> its local arrays.

    A specialization must share no local array with other specializations, except for those in `shared`; loops with a
    single specialization have none.
    """
    uses = [
        (specialization, local_arrays_used(program, specialization.body)) for specialization in loop.specializations
    ]
    users = Counter(name for _, names in uses for name in names)
    return {
        id(specialization): names
        for specialization, names in uses
        if len(uses) > 1
        and count_instructions(specialization.body) >= MIN_VARIANT_INSTRUCTIONS
        and all(users[name] == 1 or name in shared for name in names)
    }


def count_instructions(statements: Statements) -> int:
    """Number of instructions, including nested ones."""
    return sum(len(block.instructions) for block in basic_blocks(statements))


def local_arrays_used(program: Program, statements: Statements) -> frozenset[str]:
    """Local arrays that statements name."""
    return frozenset(_named_arrays(statements, ())) & program.locals.keys()


def _candidate_loops(statements: Statements) -> Iterator[ForEachLoop]:
    """Long for-each loops that may be outlined.

    Loops inside for-each loops, counted loops and scalarized branches are excluded.
    """
    for block in statements:
        if isinstance(block, ForEachLoop):
            if count_instructions((block,)) >= MIN_LOOP_INSTRUCTIONS:
                yield block
        elif isinstance(block, WhileLoop) or (isinstance(block, If) and not block.scalarize):
            yield from _candidate_loops(block.body)


def _long_basic_blocks(statements: Statements) -> Iterator[BasicBlock]:
    """Long basic blocks that may be outlined.

    Blocks inside for-each loops, counted loops and scalarized branches, and blocks that use a loop index, are excluded.
    """
    for block in statements:
        if isinstance(block, BasicBlock):
            if len(block.instructions) >= MIN_BLOCK_INSTRUCTIONS and all(
                i.op != "loop_index" for i in block.instructions
            ):
                yield block
        elif isinstance(block, WhileLoop) or (isinstance(block, If) and not block.scalarize):
            yield from _long_basic_blocks(block.body)


def frame_layout(program: Program) -> dict[str, int]:
    """Offset of each local array in the frame that outlined blocks and loops share with the calling function."""
    outlined_blocks = {id(block) for block in basic_blocks(program.body)} & program.outlined.keys()
    shared = set[str]().union(*(program.outlined[key] for key in outlined_blocks))
    loops = {id(x): program.outlined[id(x)] for x in _candidate_loops(program.body) if id(x) in program.outlined}
    if program.has_short_blocks and loops:
        shared |= {name for name, count in _count_users(program, loops).items() if count > 1}
    names = [name for name in program.locals if name in shared]
    ends = list(accumulate(program.locals[name] for name in names))
    return dict(zip(names, [0, *ends], strict=False))


def _named_arrays(statements: Statements, excluded: Collection[int]) -> Iterator[str]:
    """Names of all arrays and arenas that statements refer to, without the statements whose `id` is excluded."""
    for block in statements:
        if id(block) not in excluded:
            yield from (location.array for location, _ in memory_accesses(block))
            if isinstance(block, ForEachLoop):
                yield from (
                    arena
                    for specialization in block.specializations
                    for arena, _ in specialization.array_columns.values()
                )
            for body in nested_bodies(block):
                yield from _named_arrays(body, excluded)
