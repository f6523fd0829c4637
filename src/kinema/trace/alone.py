"""What environments of a vector do one after the other, and which local arrays are then theirs alone.

Where few of them take part, or each does something else, a vector is wasted: `If.alone` says so. A local array that is
used nowhere else need not be as wide as the vector; of one that is used within and without, numbers that are not looked
up by a computed index lie in memory each by itself, so that all others can be registers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .blocks import Blocks, Count, If, Line, Repeat, inner
from .equations import Next
from .program import Program
from .slots import Slot

Owner = int | None
"""Which block of that kind; None for all that is outside of them."""


@dataclass(frozen=True, slots=True)
class Owned:
    """Which local arrays are whose."""

    narrow: frozenset[str]
    """Arrays of one environment at a time."""
    apart: frozenset[str]
    """Arrays of which each number is kept by itself."""
    narrow_items: frozenset[tuple[str, int]]
    """Of these, numbers of one environment at a time."""


def owned(program: Program) -> Owned:
    """Look at all that a program does."""
    owners: dict[str, set[Owner]] = {}
    items: dict[tuple[str, int], set[Owner]] = {}
    looked_up: set[str] = set()
    for slot, owner in _uses(program.blocks, None):
        owners.setdefault(slot.array, set()).add(owner)
        items.setdefault((slot.array, slot.item), set()).add(owner)
        if slot.index is not None:
            looked_up.add(slot.array)
    for loop in program.loops:  # arrays of rows may be anywhere
        looked_up |= {arena for case in loop.cases for arena, _ in case.arrays.values()}
    own = {array: found for array, found in owners.items() if array in program.locals}
    narrow = {array for array, found in own.items() if _is_one(found)}
    apart = {a for a, found in own.items() if len(found) > 1 and a not in looked_up}
    single = {key for key, found in items.items() if key[0] in apart and _is_one(found)}
    return Owned(frozenset(narrow), frozenset(apart), frozenset(single))


def _is_one(owners: set[Owner]) -> bool:
    return len(owners) == 1 and None not in owners


def _uses(blocks: Blocks, owner: Owner) -> Iterator[tuple[Slot, Owner]]:
    """All that is read or written, and within which block."""
    for block in blocks:
        within = owner
        match block:
            case Line():
                yield from ((slot, owner) for slot in block.slots())
            case If():
                yield block.flag, owner
                within = id(block) if block.alone and owner is None else owner
            case Count():
                yield block.count, owner
            case Repeat():
                yield block.again, owner
            case Next():
                yield block.counter, owner
                yield block.to, owner
            case _:
                pass
        for body in inner(block):
            yield from _uses(body, within)


def any_alone(blocks: Blocks) -> bool:
    """Whether anything is done one after the other."""
    return any((isinstance(b, If) and b.alone) or any(any_alone(x) for x in inner(b)) for b in blocks)
