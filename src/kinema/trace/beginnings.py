"""The beginnings of lists, near at hand: a team's other memory there comes first, then they, one behind the other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from .blocks import Block, Blocks, Count, If, Repeat
from .equations import Choose, whole
from .program import Program


def with_beginnings(blocks: Blocks, end: int) -> tuple[Blocks, int]:
    """Room near at hand for the beginnings of lists, behind all else there."""
    result: list[Block] = []
    for block in blocks:
        new = block
        if isinstance(block, Choose):
            new, end = replace(block, near=whole(end)), whole(end) + block.count
        elif isinstance(block, Count | Repeat | If):
            body, end = with_beginnings(block.body, end)
            new = replace(block, body=body)
        result.append(new)
    return tuple(result), end


def shortened(program: Program, by: int) -> Program:
    """A team's program with so many items less of each list near at hand, as far as lists are to be shortened."""
    beginnings = list(_beginnings(program.blocks))
    if not beginnings:
        return program
    blocks, end = with_beginnings(_with_fewer(program.blocks, by), min(block.near for block in beginnings))
    return replace(program, blocks=blocks, n_scratch=end)


def _beginnings(blocks: Blocks) -> Iterator[Choose]:
    for block in blocks:
        if isinstance(block, Choose):
            yield block
        elif isinstance(block, Count | Repeat | If):
            yield from _beginnings(block.body)


def _with_fewer(blocks: Blocks, by: int) -> Blocks:
    result: list[Block] = []
    for block in blocks:
        new = block
        if isinstance(block, Choose) and block.fewest is not None:
            new = replace(block, most=min(block.most, max(block.most - by, block.fewest)))
        elif isinstance(block, Count | Repeat | If):
            new = replace(block, body=_with_fewer(block.body, by))
        result.append(new)
    return tuple(result)
