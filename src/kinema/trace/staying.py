"""What loops and teams among straight lines touch: the memory through which they and the lines speak to each other."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from .blocks import Blocks, Count, If, Line, Loop, Repeat, Spread, Team, inner
from .equations import Arrange, Choose, Next, Solve
from .program import Program
from .slots import COMMON, FAR, FIRST, MANY, NUMBER, SCRATCH, Place, Slot

Cell = tuple[str, int]
"""A number in memory: its arena or array, and which of its rows."""


@dataclass(slots=True, eq=False)
class Touched:
    """The memory that something reads, the memory it writes, and its local arrays."""

    reads: set[Cell] = field(default_factory=set)
    writes: set[Cell] = field(default_factory=set)
    locals: set[str] = field(default_factory=set)


def staying(blocks: Blocks) -> Iterator[Loop | Team | Spread]:
    """The outermost loops that stay, teams, and what is spread."""
    for block in blocks:
        if isinstance(block, Team | Spread) or (isinstance(block, Loop) and block.stays):
            yield block
            continue
        for body in inner(block):
            yield from staying(body)


def touched(program: Program, blocks: Blocks) -> Touched:
    """What blocks touch; an array that is looked up at a computed index from where it is named to its end."""
    found = Touched()
    _visit_blocks(program, blocks, [], found)
    return found


def touched_by_row(program: Program, loop: Loop) -> list[Touched]:
    """What each row of a loop touches."""
    rows = []
    for i in range(len(loop.ints)):
        rows.append(Touched())
        _visit(program, loop, [i], [], rows[-1])
    return rows


def _visit_blocks(program: Program, blocks: Blocks, around: list[dict[str, Place]], found: Touched) -> None:
    for slot, written in _slots(blocks):
        _note(program, slot, around, found.writes if written else found.reads, found.locals)
    for nested in loops_in(blocks):
        own = range(len(nested.ints))
        if nested.within:
            first, many = (around[-1][word + nested.within].row for word in (FIRST, MANY))
            own = range(first, first + many)
        _visit(program, nested, own, around, found)


def _visit(program: Program, loop: Loop, rows: Sequence[int], around: list[dict[str, Place]], found: Touched) -> None:
    kinds = loop.case_of_row()
    for i in rows:
        case, ints = loop.cases[int(kinds[i])], loop.ints[i]
        places = {array: Place(arena, int(ints[column])) for array, (arena, column) in case.arrays.items()}
        _visit_blocks(program, case.blocks, [*around, places], found)


def _slots(blocks: Blocks) -> Iterator[tuple[Slot, bool]]:
    """What lines name, but for those of loops within; and whether it is written."""
    seen: set[tuple[Slot, bool]] = set()
    for block in blocks:
        match block:
            case Line():
                seen |= {(Slot(i.slot.array, i.slot.item, _any(i.slot)), False) for i in block.instructions if i.slot}
                seen |= {(Slot(s.slot.array, s.slot.item, _any(s.slot)), True) for s in block.stores}
                continue
            case Loop() | Spread():
                continue
            case Choose():
                seen.add((block.fits, False))
                continue
            case Next():
                seen |= {(block.counter, False), (block.counter, True), (block.to, True)}
                continue
            case Solve():
                seen |= {(Slot(x.array, x.item, 0), False) for x in block.reads}
                seen |= {(Slot(x.array, x.item, 0), True) for x in (block.result, block.work)}
                continue
            case Arrange():
                seen |= {(Slot(x.array, x.item, 0), False) for x in block.reads}
                seen |= {(Slot(x.array, x.item, 0), True) for x in block.writes}
                continue
            case Count():
                seen.add((block.count, False))
            case Repeat():
                seen.add((block.again, False))
            case If():
                seen.add((block.flag, False))
            case Team():
                pass
        seen |= set(_slots(block.body))
    yield from sorted(seen, key=str)


def _any(slot: Slot) -> int | None:
    return None if slot.index is None else 0


def loops_in(blocks: Blocks) -> Iterator[Loop]:
    """The outermost loops over tables."""
    for block in blocks:
        if isinstance(block, Loop):
            yield block
        else:
            for body in inner(block):
                yield from loops_in(body)


def _note(program: Program, slot: Slot, stack: list[dict[str, Place]], to: set[Cell], local: set[str]) -> None:
    if slot.array.startswith(NUMBER):
        return
    place = next((places[slot.array] for places in reversed(stack) if slot.array in places), Place(slot.array, 0))
    if place.arena in program.locals:
        local.add(place.arena)
        return
    start = place.row + slot.item
    if place.arena in (FAR, COMMON):  # a list is one thing
        to.add((place.arena, place.row))
    elif place.arena == SCRATCH and program.distant and start_of(program, start) in program.distant:
        to.add((SCRATCH, start_of(program, start)))
    elif slot.index is None:
        to.add((place.arena, start))
    elif place.arena == SCRATCH:
        to.update((SCRATCH, row) for row in range(start, end_of(program, start)))


def start_of(program: Program, row: int) -> int:
    """Where what a row of the scratch memory was taken with starts."""
    return program.taken[bisect_right(program.taken, row) - 1] if program.taken else 0


def end_of(program: Program, row: int) -> int:
    """Where what a row of the scratch memory was taken with ends."""
    after = bisect_right(program.taken, row)
    return program.taken[after] if after < len(program.taken) else program.n_scratch
