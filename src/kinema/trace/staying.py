"""What loops that stay among straight lines touch: the memory through which they and the lines speak to each other."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from .blocks import FIRST, MANY, NUMBER, SCRATCH, Blocks, Case, Line, Loop, Place, Slot, inner
from .program import Program

Cell = tuple[str, int]
"""A number in memory: its arena or array, and which of its rows."""


@dataclass(slots=True, eq=False)
class Touched:
    """The memory that a loop reads, the memory it writes, and its local arrays."""

    reads: set[Cell] = field(default_factory=set)
    writes: set[Cell] = field(default_factory=set)
    locals: set[str] = field(default_factory=set)


def staying_loops(blocks: Blocks) -> Iterator[Loop]:
    """The outermost loops that stay."""
    for block in blocks:
        if isinstance(block, Loop) and block.stays:
            yield block
            continue
        for body in inner(block):
            yield from staying_loops(body)


def touched(program: Program, loop: Loop) -> Touched:
    """What a loop touches; an array that is looked up at a computed index from where it is named to its end."""
    found = Touched()
    _visit(program, loop, range(len(loop.ints)), [], found)
    return found


def _visit(program: Program, loop: Loop, rows: Sequence[int], around: list[dict[str, Place]], found: Touched) -> None:
    kinds = loop.case_of_row()
    named = {number: list(_slots(case.blocks)) for number, case in enumerate(loop.cases)}
    for i in rows:
        case, ints = loop.cases[int(kinds[i])], loop.ints[i]
        places = {array: Place(arena, int(ints[column])) for array, (arena, column) in case.arrays.items()}
        stack = [*around, places]
        for slot, written in named[int(kinds[i])]:
            _note(program, slot, stack, found.writes if written else found.reads, found.locals)
        for nested in _loops(case):
            own = range(len(nested.ints))
            if nested.within:
                first, many = (places[word + nested.within].row for word in (FIRST, MANY))
                own = range(first, first + many)
            _visit(program, nested, own, stack, found)


def _slots(blocks: Blocks) -> Iterator[tuple[Slot, bool]]:
    """What the lines of a row's code name, but for those of loops within; and whether it is written."""
    seen: set[tuple[Slot, bool]] = set()
    for block in blocks:
        if isinstance(block, Line):
            seen |= {(Slot(i.slot.array, i.slot.item, _any(i.slot)), False) for i in block.instructions if i.slot}
            seen |= {(Slot(s.slot.array, s.slot.item, _any(s.slot)), True) for s in block.stores}
        elif not isinstance(block, Loop):
            for body in inner(block):
                seen |= set(_slots(body))
    yield from sorted(seen, key=str)


def _any(slot: Slot) -> int | None:
    return None if slot.index is None else 0


def _loops(case: Case) -> Iterator[Loop]:
    def among(blocks: Blocks) -> Iterator[Loop]:
        for block in blocks:
            if isinstance(block, Loop):
                yield block
            else:
                for body in inner(block):
                    yield from among(body)

    return among(case.blocks)


def _note(program: Program, slot: Slot, stack: list[dict[str, Place]], to: set[Cell], local: set[str]) -> None:
    if slot.array.startswith(NUMBER):
        return
    place = next((places[slot.array] for places in reversed(stack) if slot.array in places), Place(slot.array, 0))
    if place.arena in program.locals:
        local.add(place.arena)
        return
    start = place.row + slot.item
    if slot.index is None:
        to.add((place.arena, start))
    elif place.arena == SCRATCH:
        to.update((SCRATCH, row) for row in range(start, end_of(program, start)))


def end_of(program: Program, row: int) -> int:
    """Where what a row of the scratch memory was taken with ends."""
    after = bisect_right(program.taken, row)
    return program.taken[after] if after < len(program.taken) else program.n_scratch
