"""What programs are made of: blocks that run one after the other, for each environment by itself.

A *line* computes values from what arrays hold, then stores some. Loops and conditions are made of lines: over the rows
of a table that is known when the program is made (`Loop`), as often as a number says that is known only when it runs
(`Count`), until something is reached (`Repeat`), or not at all (`If`). Values live within one line; what one line
leaves to another lies in an array: of an arena that outlives the run, of the scratch memory of a run, or in a *local*
array, whose places are known to the compiler, so that they become registers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .equations import Arrange, Choose, Next, Solve
from .slots import Operand, Place, Slot

COST = {"input": 0, "turn": 0, "neg": 1, "reciprocal": 4, "sqrt": 4, "sin": 10, "cos": 10, "select": 2}
COST |= {"fma": 2, "fms": 2, "fnma": 2}
"""Floating-point operations an instruction stands for, where it is not one."""


def needed(args: tuple[Operand, ...], slot: Slot | None) -> list[int]:
    """The values that arguments and an input take."""
    found = [a for a in args if type(a) is int]
    if slot is not None and slot.index is not None:
        found.append(slot.index)
    return found


class Instruction(NamedTuple):
    """`target = op(args)`; an `int` argument is the target of an earlier instruction, a `float` a constant."""

    target: int
    op: str
    args: tuple[Operand, ...]
    slot: Slot | None = None
    """Where an input is read from."""

    @property
    def needs(self) -> list[int]:
        """The values it is computed from."""
        return needed(self.args, self.slot)


class Store(NamedTuple):
    """An output: a value, or a constant, and where it is written to."""

    slot: Slot
    value: Operand

    @property
    def needs(self) -> list[int]:
        """The values it takes."""
        found = [self.value] if isinstance(self.value, int) else []
        return found if self.slot.index is None else [*found, self.slot.index]


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """Instructions in an order in which they can run, then the stores: all is read before anything is written."""

    instructions: tuple[Instruction, ...]
    stores: tuple[Store, ...]

    @property
    def roots(self) -> list[int]:
        """The values that are stored, or that say where."""
        return [value for store in self.stores for value in store.needs]

    @property
    def n_operations(self) -> int:
        """Floating-point operations, roughly."""
        return sum(COST.get(i.op, 1) for i in self.instructions)

    def max_live(self, soon: Collection[str] = ()) -> int:
        """The most values that are needed later at any one time: what registers would have to hold.

        What goes to the arrays `soon` is stored as soon as it is computed.
        """
        last = self.last_uses(soon)
        expiring = Counter(last.values())
        live = most = 0
        for position, instruction in enumerate(self.instructions):
            if instruction[0] in last:
                live += 1
                most = max(most, live)
            live -= expiring.get(position, 0)
        return most

    def last_uses(self, soon: Collection[str] = ()) -> dict[int, int]:
        """Value -> position of the last instruction that needs it; stores come after all instructions, or soon."""
        last: dict[int, int] = {}
        for position, (_, _, arguments, slot) in enumerate(self.instructions):
            for argument in arguments:
                if type(argument) is int:
                    last[argument] = position
            if slot is not None and slot.index is not None:
                last[slot.index] = position
        later = (store for store in self.stores if store.slot.array not in soon)
        last.update((value, len(self.instructions)) for store in later for value in store.needs)
        return last

    def slots(self) -> Iterator[Slot]:
        """Everything that is read or written."""
        yield from (i.slot for i in self.instructions if i.slot is not None)
        yield from (s.slot for s in self.stores)

    def __str__(self) -> str:
        lines = [f"v{i.target} = {_call(i)}" for i in self.instructions]
        return "\n".join(lines + [f"{place_text(s.slot)} = {_show(s.value)}" for s in self.stores])


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """What the rows of one kind do, and how its slots are found from a row."""

    kind: str
    blocks: Blocks
    arrays: dict[str, tuple[str, int]]
    """Array -> its arena, and the column of the integers that holds its first row."""
    numbers: dict[Slot, int]
    """Constant of a row -> the column it is in."""


@dataclass(frozen=True, slots=True)
class Round:
    """Rows of a loop that run side by side."""

    kind: int
    """Which case they are."""
    first: int
    n_rows: int
    level: int = 0
    """Rounds of one level need not wait for each other."""


@dataclass(frozen=True, slots=True, eq=False)
class Loop:
    """The rows of a table, in the order in which they run; each row is a case."""

    name: str
    cases: tuple[Case, ...]
    ints: npt.NDArray[np.int32]
    """(rows, columns); the first column says which case, if there are several."""
    floats: npt.NDArray[np.float64]
    stays: bool = False
    """Whether it is a loop also in what is a straight line otherwise."""
    within: str = ""
    """Of a loop in the code of rows: under which name these say which of its rows are theirs; else all are."""
    chosen: Place | None = None
    """Where in the scratch memory a list of rows is that do anything at all, their number first; None if it is not
    known. All others may be left out: a CPU does."""
    rounds: tuple[Round, ...] = ()
    """Of a loop that a team shares: which rows run side by side, in order."""
    guarded: bool = False
    """Likewise: whether the last column says which rows are there at all. Rounds are filled up with rows that are not;
    where nothing says so they do no harm."""
    sums: tuple[tuple[Slot, Slot], ...] = ()
    """Likewise: numbers that each thread adds to by itself, and what their sums are added to in the end."""

    def case_of_row(self) -> npt.NDArray[np.int32]:
        """Which case each row is."""
        return self.ints[:, 0] if len(self.cases) > 1 else np.zeros(len(self.ints), np.int32)


@dataclass(frozen=True, slots=True, eq=False)
class Count:
    """As many turns as a number says, which may differ between environments; `turn` counts them from 0."""

    name: str
    count: Slot
    body: Blocks
    uniform: bool = False
    """Whether all environments have the same number."""
    shared: bool = False
    """Whether turns do not depend on each other: the threads of a team share them."""
    most: int | None = None
    """How many turns there are, of shared ones, or at most, where that is known."""
    sums: tuple[Slot, ...] = ()
    """Of shared turns: local numbers that each thread adds to by itself; in the end all have the sum over threads."""


@dataclass(frozen=True, slots=True, eq=False)
class Repeat:
    """Once, and again as long as a number is above a half, but not more often than `most` times."""

    name: str
    again: Slot
    body: Blocks
    most: int


@dataclass(frozen=True, slots=True, eq=False)
class If:
    """Where a number is above a half."""

    name: str
    flag: Slot
    body: Blocks
    alone: bool = False
    """Whether environments that a CPU runs side by side do it one after the other: few take part, or each does
    something else."""
    together: bool = False
    """Whether all of them have the same number, and what it leaves in the scratch memory of those that take no part,
    as they are done, does not matter: nothing there has to be kept then."""


@dataclass(frozen=True, slots=True, eq=False)
class Team:
    """What several threads of a GPU do together for one environment: they share the rows of its loops.

    It is a part of a program by itself: it sees nothing of the lines around it but what lies in arenas.
    """

    name: str
    body: Blocks
    weights: tuple[Slot, ...] = ()
    """Numbers that say, all together, how much there is to do."""


@dataclass(frozen=True, slots=True, eq=False)
class Spread:
    """Rows of which few have anything to do in an environment: all threads of a GPU share those that have.

    It is a part of a program by itself, as a team is; no row looks at what another one writes.
    """

    name: str
    tests: tuple[Loop, ...]
    """Whose rows decide, one after the other: the quickest first."""
    flag: Slot
    """Above a half where a row has something to do."""
    work: Loop
    """The same rows, and what they do then."""

    @property
    def loops(self) -> tuple[Loop, ...]:
        """All, in order."""
        return (*self.tests, self.work)


Block = Line | Loop | Count | Repeat | If | Team | Solve | Arrange | Next | Choose | Spread
Blocks = tuple["Line | Loop | Count | Repeat | If | Team | Solve | Arrange | Next | Choose | Spread", ...]


def inner(block: Block) -> list[Blocks]:
    """The blocks that a block is made of."""
    match block:
        case Line() | Solve() | Arrange() | Next() | Choose():
            return []
        case Spread():
            return [block.loops]
        case Loop():
            return [case.blocks for case in block.cases]
        case _:
            return [block.body]


def lines(blocks: Blocks) -> Iterator[Line]:
    """All lines, those within other blocks among them."""
    for block in blocks:
        if isinstance(block, Line):
            yield block
        for body in inner(block):
            yield from lines(body)


def counters(blocks: Blocks) -> Iterator[Slot]:
    """All counters that numbers are taken from."""
    for block in blocks:
        if isinstance(block, Next):
            yield block.counter
        for body in inner(block):
            yield from counters(body)


def map_lines(blocks: Blocks, change: Callable[[Line], Line]) -> Blocks:
    """The same blocks with each line changed."""
    result: list[Block] = []
    for block in blocks:
        match block:
            case Line():
                result.append(change(block))
            case Loop():
                cases = tuple(replace(c, blocks=map_lines(c.blocks, change)) for c in block.cases)
                result.append(replace(block, cases=cases))
            case Solve() | Arrange() | Next() | Choose():
                result.append(block)
            case Spread():
                *tests, work = map_lines(block.loops, change)
                result.append(replace(block, tests=tuple(tests), work=work))
            case _:
                result.append(replace(block, body=map_lines(block.body, change)))
    return tuple(result)


def place_text(slot: Slot) -> str:
    """How a slot is written down."""
    return f"{slot.array}[{slot.item}]" if slot.index is None else f"{slot.array}[{slot.item} + v{slot.index}]"


def _call(instruction: Instruction) -> str:
    if instruction.slot is not None:
        return place_text(instruction.slot)
    return f"{instruction.op}({', '.join(_show(a) for a in instruction.args)})"


def _show(operand: Operand) -> str:
    return f"v{operand}" if isinstance(operand, int) else repr(operand)
