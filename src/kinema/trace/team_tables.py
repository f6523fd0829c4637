"""The tables of a team: places in bytes, and what is copied before and after."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from .blocks import Block, Blocks, Count, If, Line, Loop, Repeat, Team
from .equations import Arrange, Choose, Solve
from .given import Given
from .program import Program
from .slots import FAR, SCRATCH


def padded(pairs: Sequence[tuple[int, int]], size: int) -> list[int]:
    """Pairs for rounds of a team: the first of each, then the second; the last round may have the last one again."""
    whole = [*pairs, *[pairs[-1]] * (-len(pairs) % size)] if pairs else []
    return [x for i in range(0, len(whole), size) for side in (0, 1) for x in (p[side] for p in whole[i : i + size])]


def padded_fours(given: Given, size: int) -> list[int]:
    """Where each four numbers of what is given go, for rounds of a team; the last round may have the last again."""
    fours = list(given.fours)
    return fours + fours[-1:] * (-len(fours) % size)


def in_bytes(program: Program, size: int) -> Program:
    """The same with places of arrays in bytes, of so many to a number: what a thread adds to an address as it is."""

    def changed(blocks: Blocks) -> Blocks:
        result: list[Block] = []
        for block in blocks:
            if isinstance(block, Line | Solve | Arrange | Choose):
                result.append(block)
            elif isinstance(block, Loop):
                ints, kinds = block.ints.copy(), block.case_of_row()
                for number, case in enumerate(block.cases):
                    for arena, column in case.arrays.values():
                        if arena in (SCRATCH, FAR):
                            ints[kinds == number, column] *= size
                cases = tuple(replace(case, blocks=changed(case.blocks)) for case in block.cases)
                result.append(replace(block, ints=ints, cases=cases))
            else:
                assert isinstance(block, Count | Repeat | If | Team), "that is not part of a team"
                result.append(replace(block, body=changed(block.body)))
        return tuple(result)

    return replace(program, blocks=changed(program.blocks))
