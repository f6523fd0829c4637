"""How a team shares a loop: which of its rows run side by side, found from what each of them reads and writes.

A row waits for the rows before it that write what it reads, or that read or write what it writes; so whatever a loop
does, and in whatever order it says so, its rows fall into rounds, and the result is the same to the last bit. In a
sweep over a tree these are its levels. Only what all rows add to would make them wait for each other: there each
thread has a sum of its own, and these are added up in the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from .blocks import (
    Block,
    Blocks,
    Case,
    Count,
    If,
    Instruction,
    Line,
    Loop,
    Repeat,
    Round,
    Store,
    Team,
    lines,
    map_lines,
)
from .equations import Arrange, Choose, Solve
from .program import Program
from .slots import SCRATCH, Operand, Slot
from .staying import Cell, Touched, loops_in, touched_by_row

FEW = 2
"""Rows that may add to the same one after the other."""


def in_rounds(program: Program, size: int) -> Program:
    """The program of a team of so many threads: each loop that is not in the code of a row gets its rounds.

    Behind its scratch memory comes a piece that nobody looks at.
    """
    own_locals = dict(program.locals)
    program = replace(program, locals=own_locals)

    def shared(blocks: Blocks) -> Blocks:
        result: list[Block] = []
        for block in blocks:
            if isinstance(block, Loop):
                result.append(_scheduled(program, _with_sums(program, _merged(block), own_locals), size))
            elif isinstance(block, Line | Solve | Arrange | Choose) or (isinstance(block, Count) and block.shared):
                result.append(block)
            else:
                assert isinstance(block, Count | Repeat | If | Team), "that is not part of a team"
                result.append(replace(block, body=shared(block.body)))
        return tuple(result)

    end = program.n_scratch
    taken = (*(program.taken or (0,)), end)
    return replace(program, blocks=shared(program.blocks), n_scratch=end + _reach(program.blocks), taken=taken)


def _merged(loop: Loop) -> Loop:
    """Kinds of rows that turn out to do the same are one kind, wherever their columns are."""
    first: dict[str, int] = {}
    kept: list[Case] = []
    ints, floats, kinds = loop.ints.copy(), loop.floats.copy(), loop.case_of_row()
    for number, case in enumerate(loop.cases):
        rows = kinds == number
        text = _text_of(case)
        if text not in first:
            first[text] = len(kept)
            kept.append(case)
        same = kept[first[text]]
        for array, (_, column) in case.arrays.items():
            ints[rows, same.arrays[array][1]] = loop.ints[rows, column]
        for slot, column in case.numbers.items():
            floats[rows, same.numbers[slot]] = loop.floats[rows, column]
        if len(loop.cases) > 1:
            ints[rows, 0] = first[text]
    if len(kept) == len(loop.cases):
        return loop
    return replace(loop, cases=tuple(kept), ints=ints, floats=floats)


def _text_of(case: Case) -> str:
    """What a kind of rows does; nothing is like what has loops of its own, whose rows differ."""
    blocks = map_lines(case.blocks, _renumbered)
    nested = f"{id(case)}" if any(True for _ in loops_in(case.blocks)) else ""
    arenas = sorted((array, arena) for array, (arena, _) in case.arrays.items())
    return f"{Program(blocks)}\n{arenas}\n{sorted(map(str, case.numbers))}{nested}"


def _renumbered(line: Line) -> Line:
    """Values by the order in which they are computed."""
    new = {i.target: n for n, i in enumerate(line.instructions)}

    def operand(old: Operand) -> Operand:
        return new[old] if isinstance(old, int) else old

    def slot(old: Slot) -> Slot:
        return old if old.index is None else old._replace(index=new[old.index])

    instructions = tuple(
        Instruction(new[i.target], i.op, tuple(map(operand, i.args)), None if i.slot is None else slot(i.slot))
        for i in line.instructions
    )
    return Line(instructions, tuple(Store(slot(s.slot), operand(s.value)) for s in line.stores))


# --------------------------------------------------------------------------------------------------------------- sums


def _with_sums(program: Program, loop: Loop, own_locals: dict[str, int]) -> Loop:
    """Cells that all rows only add to become sums of each thread."""
    kinds = loop.case_of_row()
    slots: dict[Cell, list[tuple[int, Slot]]] = {}
    for number, case in enumerate(loop.cases):
        rows = loop.ints[kinds == number]
        for slot in _added_to(case):
            arena, column = case.arrays[slot.array]
            places = set(rows[:, column].tolist())
            if arena == SCRATCH and len(places) == 1:
                slots.setdefault((SCRATCH, int(places.pop()) + slot.item), []).append((number, slot))
    users = Counter(cell for row in touched_by_row(program, loop) for cell in row.writes)
    slots = {cell: found for cell, found in slots.items() if users[cell] > FEW}
    if not slots:
        return loop
    name = f"{loop.name}, sums {len(own_locals)}"
    numbers = {cell: i for i, cell in enumerate(sorted(slots))}
    changed = _renamed(loop, {(n, s): Slot(name, numbers[c]) for c, found in slots.items() for n, s in found})
    own_locals[name] = len(numbers)
    left = set[Cell]().union(*(row.reads | row.writes for row in touched_by_row(program, changed)))
    if left & set(slots):  # someone looks at it meanwhile
        own_locals.pop(name)
        return loop
    return replace(changed, sums=tuple((Slot(name, i), Slot(*cell)) for cell, i in numbers.items()))


def _added_to(case: Case) -> Iterator[Slot]:
    """Numbers of a row that its code only ever adds something to."""
    added: set[Slot] = set()
    otherwise: set[Slot] = set()
    for line in lines(case.blocks):
        own = set(_accumulated(line))
        for slot in line.slots():
            (added if slot in own else otherwise).add(slot)
    indexed = {slot.array for slot in otherwise if slot.index is not None}
    for slot in sorted(added - otherwise, key=str):
        if slot.array in case.arrays and slot.array not in indexed:
            yield slot


def _accumulated(line: Line) -> Iterator[Slot]:
    """Slots of which a line reads the number for nothing but to store it again with something added."""
    uses = Counter(a for i in line.instructions for a in i.needs)
    uses.update(line.roots)
    made_by = {i.target: i for i in line.instructions}
    readers: dict[Slot, list[Instruction]] = {}
    for i in line.instructions:
        if i.slot is not None:
            readers.setdefault(i.slot, []).append(i)
    for store in line.stores:
        read = readers.get(store.slot, [])
        if len(read) != 1 or not isinstance(store.value, int) or uses[store.value] != 1 or uses[read[0].target] != 1:
            continue
        maker = made_by[store.value]
        kept = read[0].target
        added = (maker.op == "add" and kept in maker.args) or (maker.op == "sub" and maker.args[0] == kept)
        if added or maker is read[0]:  # perhaps with nothing added
            yield store.slot


def _renamed(loop: Loop, names: dict[tuple[int, Slot], Slot]) -> Loop:
    cases = []
    for number, case in enumerate(loop.cases):

        def slot(old: Slot, number: int = number) -> Slot:
            return names.get((number, old), old)

        def line(old: Line, slot: Callable[[Slot], Slot] = slot) -> Line:
            instructions = tuple(i if i.slot is None else i._replace(slot=slot(i.slot)) for i in old.instructions)
            return Line(instructions, tuple(s._replace(slot=slot(s.slot)) for s in old.stores))

        cases.append(replace(case, blocks=map_lines(case.blocks, line)))
    return replace(loop, cases=tuple(cases))


# -------------------------------------------------------------------------------------------------------------- rounds


def _scheduled(program: Program, loop: Loop, size: int) -> Loop:
    """The rows in the order of their rounds, each filled up with rows that do nothing."""
    kinds = loop.case_of_row().tolist()
    groups: dict[tuple[int, int], list[int]] = {}
    for i, level in enumerate(_levels(touched_by_row(program, loop))):
        groups.setdefault((level, kinds[i]), []).append(i)
    order: list[int] = []
    there: list[int] = []
    rounds = []
    for key in sorted(groups):
        rows = groups[key]
        for first in range(0, len(rows), size):
            chosen = rows[first : first + size]
            rounds.append(Round(key[1], len(order), len(chosen), key[0]))
            missing = size - len(chosen)
            order += [*chosen, *chosen[-1:] * missing]
            there += [1] * len(chosen) + [0] * missing
    ints, guarded = loop.ints[order], not _is_harmless(loop)
    if guarded:
        ints = np.column_stack([ints, np.array(there, np.int32)])
    else:
        _send_away(loop, ints, np.array(there), [kinds[i] for i in order], program.n_scratch)
    return replace(loop, ints=ints, floats=loop.floats[order], rounds=tuple(rounds), guarded=guarded)


def _is_harmless(loop: Loop) -> bool:
    """Whether rows do no harm, nor take their time, if what they read and write is memory that nobody looks at."""
    if loop.sums:
        return False
    for case in loop.cases:
        for line in case.blocks:
            if not isinstance(line, Line) or any(slot.index is not None for slot in line.slots()):
                return False
            if any(case.arrays.get(s.slot.array, ("", 0))[0] != SCRATCH for s in line.stores):
                return False
    return True


def _send_away(
    loop: Loop, ints: npt.NDArray[np.int32], there: npt.NDArray[Any], kinds: list[int], nowhere: int
) -> None:
    """Rows that are not there work where nobody looks."""
    of = np.array(kinds)
    for number, case in enumerate(loop.cases):
        for arena, column in case.arrays.values():
            if arena == SCRATCH:
                ints[(of == number) & (there == 0), column] = nowhere


def _reach(blocks: Blocks) -> int:
    """How far from where arrays start the code of rows looks, at most."""
    slots = (slot for loop in loops_in(blocks) for case in loop.cases for x in lines(case.blocks) for slot in x.slots())
    return 1 + max((slot.item for slot in slots), default=0)


def _levels(rows: list[Touched]) -> list[int]:
    """How many rounds each row has to wait for others."""
    written: dict[Cell, int] = {}
    read: dict[Cell, int] = {}
    levels = []
    for row in rows:
        level = 0
        for cell in row.reads:
            level = max(level, written.get(cell, -1) + 1)
        for cell in row.writes:
            level = max(level, written.get(cell, -1) + 1, read.get(cell, -1) + 1)
        for cell in row.reads:
            read[cell] = max(read.get(cell, -1), level)
        for cell in row.writes:
            written[cell] = level
        levels.append(level)
    return levels
