"""The code of what all threads of a GPU share: tests of rows, and lists of the work that they leave."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from kinema.trace import (
    Part,
    Place,
    Target,
    emit_listed,
    emit_tests,
    long_kinds,
    n_listed,
    shares,
    short_kinds,
)

from .devices import Device
from .gpu_code import WARP
from .pieces import Lists

BLOCKS_OF_WORK = 8
"""Of threads, to a multiprocessor, that go through lists of what there is to do. Most lists are short, and blocks take
time to begin and end with nothing: with twice as many a go2 is 2 % slower."""
AT_A_TIME = 28
"""Warps of a multiprocessor that test rows: as many as run at a time, so that none begins when others are done."""


def spread_pieces(
    number: int,
    emission: tuple[Part, Mapping[str, Place], Target],
    device: Device,
    n_envs: int,
) -> list[tuple[str, Lists, int, Callable[[], str]]]:
    """Tests of what is long, of what is short and done at once, then the lists of what is long.

    For about so many environments. Of each its role, its lists, the operations of a run and how to emit it.
    """
    part = emission[0]
    block = part.spread
    assert block is not None
    lists = Lists(number, len(block.work.cases), n_listed(block))

    operations = part.program.n_operations // 2
    made: list[tuple[str, Lists, int, Callable[[], str]]] = []
    for kinds, at_once in ((long_kinds(block), False), (short_kinds(block), True)):
        found = shares(block, kinds, AT_A_TIME * device.n_multiprocessors * WARP // n_envs)
        own = replace(lists, shares=len(found))
        role = "broadphase" if not at_once else "narrowphase"
        made += [(role, own, operations, partial(emit_tests, *emission, found, at_once=at_once))] if kinds else []
    own = replace(lists, blocks=BLOCKS_OF_WORK * device.n_multiprocessors)
    long = ((f"narrowphase_{kind}", own, 0, partial(emit_listed, *emission, kind)) for kind in long_kinds(block))
    return [*made, *long]


def n_emptied(parts: Sequence[Part]) -> int:
    """How many lists are emptied once environments are put in order: those of one part, for the teams of one.

    In a launch of its own, the first tests would wait for two things instead of one.
    """
    spread = [part.spread for part in parts if part.spread is not None]
    is_alone = len(spread) == 1 and sum(bool(part.weights) for part in parts) == 1
    return len(spread[0].work.cases) if is_alone and n_listed(spread[0]) else 0
