"""Outlining: loops, and cases of loops, that are functions of their own, each in a module of its own.

Modules are compiled in parallel, the first while later ones are still emitted, and the time of register allocation
grows faster than the length of a function. A block can be outlined if it shares no local array with the code around it:
it then communicates through memory only. A long line may share local arrays: these lie in a frame in memory, which it
is given a pointer to, where the function around it would have to spill most of them from registers anyway.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from itertools import accumulate

from .blocks import Block, Blocks, Count, If, Line, Loop, Repeat, inner, lines
from .equations import Next
from .program import Program

LEAST = 2000
"""Instructions of the shortest loop that is outlined; calls of shorter ones, in the solver's loop, cost a tenth."""
LEAST_OF_CASE = 1000
"""Likewise of a case of such a loop."""
LEAST_OF_LINE = 2000
"""Likewise of a line."""


def outlined(program: Program) -> dict[int, frozenset[str]]:
    """Loops and cases that become functions, by their identity, and the local arrays that are allocated in each."""
    loops = {id(loop): loop for loop in _candidates(program.blocks)}
    uses = {key: _local_arrays(program, (loop,)) for key, loop in loops.items()}
    users = Counter(name for names in uses.values() for name in names)
    users.update(set(_named(program.blocks, loops)))
    found = {id(line): _local_arrays(program, (line,)) for line in _long_lines(program.blocks)}
    for key, names in uses.items():
        if all(users[name] == 1 for name in names):
            cases = _outlined_cases(program, loops[key])
            found |= cases
            found[key] = names.difference(*cases.values())
    return found


def _outlined_cases(program: Program, loop: Loop) -> dict[int, frozenset[str]]:
    """Long cases of a loop, one of several, that share no local array with the others."""
    uses = [(case, _local_arrays(program, case.blocks)) for case in loop.cases]
    users = Counter(name for _, names in uses for name in names)
    return {
        id(case): names
        for case, names in uses
        if len(uses) > 1 and n_instructions(case.blocks) >= LEAST_OF_CASE and all(users[name] == 1 for name in names)
    }


def n_instructions(blocks: Blocks) -> int:
    """Instructions that have to be compiled."""
    return sum(len(line.instructions) for line in lines(blocks))


def _local_arrays(program: Program, blocks: Blocks) -> frozenset[str]:
    return frozenset(_named(blocks, ())) & program.locals.keys()


def _candidates(blocks: Blocks) -> Iterator[Loop]:
    """Long loops that run neither for a row of another one, nor in turns, nor for one environment of a vector."""
    for block in blocks:
        if isinstance(block, Loop):
            if n_instructions((block,)) >= LEAST:
                yield block
        elif isinstance(block, Repeat) or (isinstance(block, If) and not block.alone):
            yield from _candidates(block.body)


def _long_lines(blocks: Blocks) -> Iterator[Line]:
    """Long lines that are neither of rows, nor of numbered turns, nor for one environment of a vector."""
    for block in blocks:
        if isinstance(block, Line):
            if len(block.instructions) >= LEAST_OF_LINE and all(i.op != "turn" for i in block.instructions):
                yield block
        elif isinstance(block, Repeat) or (isinstance(block, If) and not block.alone):
            yield from _long_lines(block.body)


def frame_of(program: Program, outlined: Mapping[int, Collection[str]]) -> dict[str, int]:
    """Where in the memory that outlined lines share with the function around them their local arrays start."""
    own = {id(line) for line in lines(program.blocks)} & outlined.keys()
    shared = set[str]().union(*(outlined[key] for key in own))
    names = [name for name in program.locals if name in shared]
    ends = list(accumulate(program.locals[name] for name in names))
    return dict(zip(names, [0, *ends], strict=False))


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
