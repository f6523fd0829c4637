"""What all threads of a GPU share: the launches that it takes, and which of them go side by side."""

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
from .graphs import Launch, one_by_one, side_by_side
from .pieces import Lists, Piece

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


def by_lists(pieces: Sequence[Piece]) -> list[list[Piece]]:
    """Pieces in order: those of the same lists together, with what may run beside them."""
    groups: list[list[Piece]] = []
    for piece in pieces:
        before = groups[-1][0].lists if groups else None
        same = piece.lists is not None and before is not None and piece.lists.part == before.part
        if same or (piece.beside and before is not None):
            groups[-1].append(piece)
        else:
            groups.append([piece])
    return groups


def ask_for_the_same(pieces: Sequence[Piece]) -> None:
    """What runs side by side has as much memory shared: a multiprocessor has to be idle to change that."""
    for group in by_lists(pieces):
        for piece in group if len(group) > 1 else ():
            piece.code.ask_for(max(own.code.room for own in group))


def shared_by_all(
    device: Device, pieces: Sequence[Piece], launches: Sequence[Launch], then: Sequence[Launch]
) -> Launch:
    """What is long is listed, then done kind by kind; beside that all that is short, which would else come first.

    What comes `then` needs all of it; some may have nothing to do with it.
    """
    tests, work, beside = list[Launch](), list[Launch](), list[Launch]()
    for piece, launch in zip(pieces, launches, strict=True):
        (beside if piece.lists is None else work if piece.lists.blocks else tests).append(launch)
    long, short = (tests[:1], tests[1:]) if work else ([], tests)
    found = one_by_one([*long, side_by_side(device, [*work, *short]), *then])
    return side_by_side(device, [found, *beside])
