"""From algorithms to blocks: the recorder begins a new line wherever an algorithm asks for a loop or a condition.

Loops and conditions are functions of functions, so that an algorithm still runs on plain numbers: without a recorder
`repeat` is Python's own loop.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from .blocks import Block, Blocks, Count, If, Instruction, Line, Loop, Repeat, Spread, Store, Team
from .equations import Arrange, Choose, Next, Solve
from .functions import select
from .program import Program
from .slots import Slot
from .tape import Scalar, Tape, Value

CARRIED = "carried"
"""The local array of values that one line leaves to others."""
State = Sequence[Value]
Step = Callable[[State], "tuple[State, Value, Value]"]
"""From a state to the next, and two numbers: again, while the first is below the second."""


@dataclass(slots=True, eq=False)
class _Draft:
    """A line, and what it stores."""

    tape: Tape
    stores: list[Store] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class _Nest:
    """Blocks that something is done with."""

    close: Callable[[Blocks], Block]
    inside: list[_Draft | _Nest | Loop | Team | Solve | Arrange | Next | Choose | Spread]


class Recorder:
    """Records what an algorithm does with the arrays of one environment."""

    def __init__(self, prefix: str = "") -> None:
        self.prefix = prefix
        """What the names of local arrays start with: those of one program differ."""
        self.locals: dict[str, int] = {}
        self._open: list[list[_Draft | _Nest | Loop | Team | Solve | Arrange | Next | Choose | Spread]] = [[]]
        self._carried: dict[tuple[Tape, int], int] = {}
        self._apart = 0
        """The team that works, counted from 1, if any: it shares no values with the lines around it."""
        self._n_teams = 0
        self._part_of: dict[Tape, int] = {}
        self.new_line()

    def new_line(self) -> None:
        """Begin a line."""
        self.tape = Tape(carrier=self)
        self._part_of[self.tape] = self._apart
        self._draft = _Draft(self.tape)
        self._open[-1].append(self._draft)

    # ---------------------------------------------------------------------------------------------- what lines do

    def read(self, array: str, item: int = 0, index: Value | None = None) -> Value:
        """The number that an array holds before this line."""
        return self.tape.input(array, item, index)

    def write(self, array: str, values: State, item: int = 0, index: Value | None = None) -> None:
        """Store numbers one after the other, at the end of this line."""
        if isinstance(index, float | int):
            item, index = item + int(index), None
        where = None if index is None else self.tape.operand(index)
        assert where is None or isinstance(where, int)
        for i, value in enumerate(values):
            self._draft.stores.append(Store(Slot(array, item + i, where), self.tape.operand(value)))

    def local(self, count: int) -> str:
        """A new array of this run."""
        name = f"{self.prefix}local {len(self.locals)}"
        self.locals[name] = count
        return name

    def carry(self, value: Scalar) -> Scalar:
        """A value of an earlier line."""
        assert value.tape.carrier is self, "the code of rows sees only what rows have: not a value from around the loop"
        assert self._part_of[value.tape] is self._apart, "a team and the lines around it share memory, but no values"
        key = (value.tape, value.number)
        place = self._carried.setdefault(key, len(self._carried))
        return self.tape.input(self._carrier(value.tape), place)

    def _carrier(self, tape: Tape) -> str:
        """The local array of values that lines leave to others: the threads of a team have their own."""
        team = self._part_of[tape]
        return f"{self.prefix}{CARRIED}{f' by team {team}' if team else ''}"

    # -------------------------------------------------------------------------------------------- loops and conditions

    @contextmanager
    def _nested(self, close: Callable[[Blocks], Block]) -> Iterator[None]:
        nest = _Nest(close, [])
        self._open[-1].append(nest)
        self._open.append(nest.inside)
        self.new_line()
        yield
        self._open.pop()
        self.new_line()

    @property
    def in_team(self) -> bool:
        """Whether what is recorded is the work of a team: the smaller the rows, the more run side by side."""
        return self._apart > 0

    @contextmanager
    def team(self, name: str, weights: Sequence[Slot] = ()) -> Iterator[None]:
        """What is recorded meanwhile several threads may do together; some numbers say how much there is to do."""
        assert not self._apart, "a team is not part of another"
        with self._nested(lambda blocks: Team(name, blocks, tuple(weights))):
            self._n_teams += 1
            self._apart = self._n_teams
            self.new_line()
            yield
            self._apart = 0

    def repeat(self, name: str, step: Step, start: State, most: int) -> list[Value]:
        """Take steps from a start while they ask for another one, at most so often: the last state."""
        if most < 1:
            return list(start)
        state, n = self.local(len(start) + 1), len(start)
        self.write(state, start)
        with self._nested(lambda blocks: Repeat(name, Slot(state, n), blocks, most)):
            after, a, b = step([self.read(state, i) for i in range(n)])
            assert len(after) == n, "a state keeps its length"
            self.write(state, [*after, select(a, b, 1.0, 0.0)])
        return [self.read(state, i) for i in range(n)]

    def where(
        self,
        name: str,
        a: Value,
        b: Value,
        then: Callable[[], State],
        otherwise: State,
        *,
        alone: bool = False,
        together: bool = False,
    ) -> list[Value]:
        """What `then` gives where a < b, and nothing is computed in vain; else the other values.

        With `alone` environments of a vector do it one after the other, with `together` all or none of them do.
        """
        state, n = self.local(len(otherwise) + 1), len(otherwise)
        self.write(state, [*otherwise, select(a, b, 1.0, 0.0)])
        with self._nested(lambda blocks: If(name, Slot(state, n), blocks, alone, together)):
            found = then()
            assert len(found) == n, "a state keeps its length"
            self.write(state, found)
        return [self.read(state, i) for i in range(n)]

    def count(
        self,
        name: str,
        count: Value,
        body: Callable[[Value], None],
        *,
        uniform: bool = False,
        most: int | None = None,
    ) -> None:
        """Run the body for each of the numbers below a count; it reads and writes arrays.

        There may be known to be so many at `most`.
        """
        most = int(count) if isinstance(count, float | int) else most
        number = self.local(1)
        self.write(number, [count])
        with self._nested(lambda blocks: Count(name, Slot(number, 0), blocks, uniform, most=most)):
            body(self.turn())

    def share(self, name: str, count: Value, body: Callable[[Value], State], n_sums: int = 0) -> list[Value]:
        """Likewise, where turns do not depend on each other; of so many numbers that each gives, the sums."""
        number, sums = self.local(1), self.local(max(n_sums, 1))
        self.write(number, [count])
        self.write(sums, [0.0] * n_sums)
        own = tuple(Slot(sums, i) for i in range(n_sums))
        most = int(count) if isinstance(count, float | int) else None
        with self._nested(lambda blocks: Count(name, Slot(number, 0), blocks, shared=True, most=most, sums=own)):
            found = body(self.turn())
            assert len(found) == n_sums, "each turn gives as many numbers"
            self.write(sums, [self.read(sums, i) + x for i, x in enumerate(found)])
        return [self.read(sums, i) for i in range(n_sums)]

    def next_number(self, array: str, item: int = 0) -> Value:
        """A number from a counter, which has one more from then on."""
        to = self.local(1)
        self.add(Next("next number", Slot(array, item), Slot(to, 0)), {})
        return self.read(to)

    def turn(self) -> Value:
        """Which turn of the innermost counted loop this is."""
        return self.tape.record("turn")

    def add(self, block: Loop | Team | Solve | Arrange | Next | Choose | Spread, local: Mapping[str, int]) -> None:
        """A block that was made by itself, with the local arrays it has."""
        self.locals.update(local)
        self._open[-1].append(block)
        self.new_line()

    # ---------------------------------------------------------------------------------------------------- the end

    def finish(
        self,
        outputs: Mapping[str, State] | None = None,
        n_scratch: int = 0,
        taken: Sequence[int] = (),
        distant: Collection[int] = (),
    ) -> Program:
        """The program, without what nothing needs."""
        for array, values in (outputs or {}).items():
            self.write(array, values)
        wanted: set[int] = set()
        blocks = self._close(self._open[0], wanted)
        for (tape, _), place in self._carried.items():
            if place in wanted:
                name = self._carrier(tape)
                self.locals[name] = max(self.locals.get(name, 0), place + 1)
        return Program(blocks, dict(self.locals), n_scratch, taken, frozenset(distant))

    def _close(
        self,
        drafts: Sequence[_Draft | _Nest | Loop | Team | Solve | Arrange | Next | Choose | Spread],
        wanted: set[int],
    ) -> Blocks:
        """From the last to the first, so that it is known which values later lines want."""
        blocks: list[Block] = []
        for draft in reversed(drafts):
            if isinstance(draft, Loop | Team | Solve | Arrange | Next | Choose | Spread):
                blocks.append(draft)
            elif isinstance(draft, _Nest):
                blocks.append(draft.close(self._close(draft.inside, wanted)))
            else:
                kept = [
                    Store(Slot(self._carrier(tape), place), number)
                    for (tape, number), place in self._carried.items()
                    if tape is draft.tape and place in wanted
                ]
                line = straight(draft.tape, [*draft.stores, *kept])
                carried = self.prefix + CARRIED
                wanted.update(i.slot.item for i in line.instructions if i.slot and i.slot.array.startswith(carried))
                if line.stores:
                    blocks.append(line)
        return tuple(reversed(blocks))


def repeat(recorder: Recorder | None, name: str, step: Step, start: State, most: int) -> list[Value]:
    """The same with or without a recorder: then on plain numbers."""
    if recorder is not None:
        return recorder.repeat(name, step, start, most)
    state: State = start
    for _ in range(most):
        state, a, b = step(state)
        if not a < b:  # type: ignore[operator]  # ty: ignore[unsupported-operator]
            break
    return list(state)


def straight(tape: Tape, stores: Sequence[Store]) -> Line:
    """The line that computes what is stored, without what that does not need."""
    ops, arguments, slots = tape.ops, tape.args, tape.slots
    wanted = bytearray(len(ops))
    for store in stores:
        for value in store.needs:
            wanted[value] = True
    found: list[Instruction] = []
    new = tuple.__new__  # a third of the time that the class itself takes
    number = wanted.rfind(True)
    while number >= 0:  # a value is computed from earlier ones
        slot = slots.get(number)
        for argument in arguments[number]:
            if type(argument) is int:
                wanted[argument] = True
        if slot is not None and slot.index is not None:
            wanted[slot.index] = True
        found.append(new(Instruction, (number, ops[number], arguments[number], slot)))
        number = wanted.rfind(True, 0, number)
    instructions = tuple(reversed(found))
    return Line(instructions, tuple(stores))


def finish(tape: Tape, outputs: Mapping[str, State]) -> Program:
    """The straight line that computes the wanted outputs from a tape's inputs."""
    stores = [
        Store(Slot(array, item), tape.operand(value))
        for array, values in outputs.items()
        for item, value in enumerate(values)
    ]
    return Program((straight(tape, stores),))
