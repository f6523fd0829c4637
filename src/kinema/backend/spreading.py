"""What all threads of a GPU share: the launches that it takes, and which of them go side by side."""

from __future__ import annotations

from collections.abc import Sequence

from .devices import Device
from .graphs import Launch, one_by_one, side_by_side
from .pieces import Piece


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
