"""Programs: blocks in order, and the memory that a run needs beside the arenas."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from .blocks import Blocks, Count, If, Line, Loop, Repeat, Spread, Team, inner, lines, place_text
from .equations import Arrange, Choose, Next, Solve
from .slots import SCRATCH, Slot


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """Blocks in order, and the memory that a run needs beside the arenas."""

    blocks: Blocks
    locals: Mapping[str, int] = field(default_factory=dict)
    """Arrays of a run, by name: how many numbers each has."""
    n_scratch: int = 0
    """Rows of the arena `scratch`."""
    taken: Sequence[int] = ()
    """Where the pieces start that these rows were taken in, in order."""
    distant: frozenset[int] = frozenset()
    """Pieces, by where they start, that are lists with room for more than they mostly hold."""

    @property
    def line(self) -> Line:
        """Its one line, if it is a straight line."""
        if len(self.blocks) != 1 or not isinstance(self.blocks[0], Line):
            raise TypeError("this program is not a straight line")
        return self.blocks[0]

    @property
    def is_straight(self) -> bool:
        """Whether it is one line."""
        return len(self.blocks) == 1 and isinstance(self.blocks[0], Line)

    @property
    def loops(self) -> list[Loop]:
        """All loops over tables, in the order of their text."""
        return list(every_loop(self.blocks))

    @property
    def keeps_loops(self) -> bool:
        """Whether some loops stay where all else becomes a straight line."""
        return self.has_team or any(loop.stays for loop in self.loops)

    @property
    def has_team(self) -> bool:
        """Whether several threads work together in it."""
        return any(isinstance(block, Team | Spread) for block in self.blocks)

    @property
    def inputs(self) -> dict[str, int]:
        """Array -> how many of its items are read at least; not those of rows, and no locals."""
        slots = (i.slot for line in outside_loops(self.blocks) for i in line.instructions if i.slot is not None)
        return self._extents(slots)

    @property
    def outputs(self) -> dict[str, int]:
        """Array -> how many items are written at least; likewise."""
        return self._extents(s.slot for line in outside_loops(self.blocks) for s in line.stores)

    def _extents(self, slots: Iterable[Slot]) -> dict[str, int]:
        extents: dict[str, int] = {}
        for slot in slots:
            if slot.array not in self.locals and slot.array != SCRATCH:
                extents[slot.array] = max(extents.get(slot.array, 0), slot.item + 1)
        return extents

    @property
    def n_instructions(self) -> int:
        """Instructions that have to be compiled."""
        return sum(len(line.instructions) for line in lines(self.blocks))

    @property
    def n_operations(self) -> int:
        """Floating-point operations of a run, roughly: what turns an unknown number of times is counted once."""
        return _operations(self.blocks)

    def counts(self) -> dict[str, int]:
        """How often each operation occurs."""
        return dict(Counter(i.op for line in lines(self.blocks) for i in line.instructions))

    def tables(self) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float64]]:
        """All tables of integers behind one header, and all tables of numbers."""
        loops = self.loops
        header: list[int] = []
        start, first = HEADER * len(loops), 0
        for loop in loops:
            header += [len(loop.ints), start, first]
            start, first = start + integers_of(loop).size, first + loop.floats.size
        ints = [np.array([*header, 0], np.int32)[: max(len(header), 1)]]
        ints += [integers_of(loop).ravel() for loop in loops]
        floats = [(loop.floats.T if loop.rounds else loop.floats).ravel() for loop in loops]
        return np.concatenate(ints), np.concatenate([*floats, np.zeros(1)])

    def __str__(self) -> str:
        return "\n".join(_text(self.blocks, ""))


HEADER = 3
"""Integers for each loop: how many rows it has, and where its integers and its numbers start."""


HALF = 16
"""Bits of an integer of which there are two to a word."""


def is_narrow(loop: Loop) -> bool:
    """Whether two integers of a row fit into one word: threads that share rows read less."""
    return bool(loop.rounds) and loop.ints.size > 0 and loop.ints.min() >= 0 and loop.ints.max() < 1 << HALF


def integers_of(loop: Loop) -> npt.NDArray[np.int32]:
    """A table of integers by rows; where threads share them by columns, so that they read neighbours."""
    if not loop.rounds:
        return loop.ints
    if not is_narrow(loop):
        return np.ascontiguousarray(loop.ints.T)
    columns = [*loop.ints.T.astype(np.uint32), np.zeros(len(loop.ints), np.uint32)]
    pairs = [a | b << np.uint32(HALF) for a, b in zip(columns[:-1:2], columns[1::2], strict=True)]
    return np.array(pairs, np.uint32).view(np.int32)


def every_loop(blocks: Blocks) -> Iterator[Loop]:
    """All loops over tables, those within others among them, in the order of their text."""
    for block in blocks:
        if isinstance(block, Loop):
            yield block
        for body in inner(block):
            yield from every_loop(body)


def outside_loops(blocks: Blocks) -> Iterator[Line]:
    """All lines but those of rows."""
    for block in blocks:
        if isinstance(block, Line):
            yield block
        elif not isinstance(block, Loop | Solve | Arrange | Next | Choose | Spread):
            yield from outside_loops(block.body)


def _operations(blocks: Blocks) -> int:
    total = 0
    for block in blocks:
        if isinstance(block, Line):
            total += block.n_operations
        elif isinstance(block, Loop):
            counts = np.bincount(block.case_of_row(), minlength=len(block.cases))
            total += sum(int(n) * _operations(c.blocks) for n, c in zip(counts, block.cases, strict=True))
        elif isinstance(block, Solve):
            total += block.size**3 // 3
        elif isinstance(block, Spread):
            total += _operations(block.tests[:1])
        elif isinstance(block, Arrange | Next | Choose):
            total += 1
        else:
            total += _operations(block.body)
    return total


def _text(blocks: Blocks, indent: str) -> Iterator[str]:
    for block in blocks:
        match block:
            case Line():
                yield from (indent + line for line in str(block).splitlines())
                continue
            case Loop():
                yield f"{indent}for {len(block.ints)} rows of {block.name}:"
                for case in block.cases:
                    yield f"{indent}  {case.kind}:"
                    yield from _text(case.blocks, indent + "    ")
                continue
            case Count():
                yield f"{indent}for {place_text(block.count)} turns of {block.name}{', shared' * block.shared}:"
            case Repeat():
                yield f"{indent}repeat {block.name}, at most {block.most} times, while {place_text(block.again)}:"
            case Team():
                yield f"{indent}together ({block.name}):"
            case Solve():
                yield f"{indent}{place_text(block.result)} = solution of {block.name}: {block}"
                continue
            case Arrange():
                yield f"{indent}{place_text(block.blocks)} = order of {block.name}: {block}"
                continue
            case Choose():
                yield f"{indent}{place_text(block.list)} is near up to {block.most} of {place_text(block.used)}"
                continue
            case Next():
                yield f"{indent}{place_text(block.to)} = next of {place_text(block.counter)}"
                continue
            case Spread():
                yield f"{indent}wherever {place_text(block.flag)} ({block.name}):"
                yield from _text(block.loops, indent + "  ")
                continue
            case If():
                yield f"{indent}if {place_text(block.flag)} ({block.name}):"
        yield from _text(block.body, indent + "  ")
