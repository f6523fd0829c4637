"""Loops that are compiled by themselves: functions of their own, each in a module of its own.

Modules are compiled side by side, and the time that registers take grows faster than a function does. A loop can do
without the function around it if it shares no local array with that: what it speaks to others through is memory then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator

from .blocks import Block, Blocks, Count, If, Line, Loop, Repeat, inner, lines
from .equations import Next
from .program import Program

LEAST = 2000
"""Instructions from which on a loop is worth a module; calls of shorter ones, in the solver's loop, cost a tenth."""


def loops_apart(program: Program) -> dict[int, frozenset[str]]:
    """Such loops, by their identity, and their local arrays."""
    found = {id(loop): loop for loop in _candidates(program.blocks)}
    own = {key: frozenset(_named((loop,), ())) & program.locals.keys() for key, loop in found.items()}
    users = Counter(name for names in own.values() for name in names)
    users.update(set(_named(program.blocks, found)))
    return {key: names for key, names in own.items() if all(users[name] == 1 for name in names)}


def _candidates(blocks: Blocks) -> Iterator[Loop]:
    """Long loops that run neither for a row of another one, nor in turns, nor for one environment of a vector."""
    for block in blocks:
        if isinstance(block, Loop):
            if sum(len(line.instructions) for line in lines((block,))) >= LEAST:
                yield block
        elif isinstance(block, Repeat) or (isinstance(block, If) and not block.alone):
            yield from _candidates(block.body)


def _named(blocks: Blocks, without: Collection[int]) -> Iterator[str]:
    """All arrays that blocks name, but for some loops."""
    for block in blocks:
        if id(block) not in without:
            yield from _named_by(block)
            for body in inner(block):
                yield from _named(body, without)


def _named_by(block: Block) -> Iterator[str]:
    match block:
        case Line():
            yield from (slot.array for slot in block.slots())
        case Loop():
            yield from (arena for case in block.cases for arena, _ in case.arrays.values())
        case If():
            yield block.flag.array
        case Count():
            yield block.count.array
        case Repeat():
            yield block.again.array
        case Next():
            yield from (block.counter.array, block.to.array)
        case _:
            pass
