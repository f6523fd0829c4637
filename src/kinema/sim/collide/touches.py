"""Where contacts are kept: for each two frames that may touch, room for as many points as their shapes can make.

A *set* is what touches between two frames, with one dimension of force. That it has its own place, known when the
program is made, lets code for all of its contacts name the two frames once, and lets environments that run side by side
find their contacts in the same places.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from kinema import trace
from kinema.model import Model
from kinema.trace import SCRATCH, Column, Columns, Place, Recorder, Row, RowCode, Table, Value

from ..settings import Settings
from ..sweeps.columns import PartColumns, PartRow, table_of
from ..sweeps.idle import IDLE, trees_of_frames
from ..sweeps.maths import Vector, cross
from ..sweeps.sweeps import Sweeps
from ..sweeps.tree import frame_ref
from ..sweeps.trees import PerTree, Places, places_in
from .branches import where
from .planned import PlannedSet, SetKind, planned_sets
from .touch_sets import SetColumns, TouchSet, set_columns

N_LIVELY = 4
"""Numbers that surfaces leave which bounce or stick, where the residual goes later: see `constrain/surfaces.py`."""


class Layout:
    """Where the numbers of a contact are, from its start.

    The pair is counted from 1, and negative where its first shape is on the second frame of the set. The axes of the
    frame are as seen from the first frame then.
    """

    POINT, FRAME, DISTANCE, PAIR, STIFFNESS, BOUND, BACK, DAMPING, SLIDING, SCALE = 0, 3, 12, 13, 14, 15, 16, 17, 18, 19
    n_axes = 3
    """Of the frame that are kept."""

    def __init__(self, dimension: int) -> None:
        self.dimension = dimension
        self.residual = self.SCALE + dimension
        self.change = self.residual + dimension
        self.width = self.residual + max(2 * dimension, N_LIVELY)

    def place(self, item: int) -> int:
        """Where a number is."""
        return item


def _rooms(plans: Sequence[PlannedSet]) -> list[int]:
    """Numbers of the contacts of each set."""
    return [plan.capacity * Layout(plan.kind.dimension).width for plan in plans]


def _in_turn(s: Sweeps, first: Sequence[int], second: Sequence[int]) -> tuple[list[Place], list[Place]]:
    """Pieces of memory, one of the first and one of the second after the other."""
    every = s.take_many([n for pair in zip(first, second, strict=True) for n in pair])
    return every[::2], every[1::2]


def n_held(kind: SetKind) -> int:
    """Numbers that a contact keeps whose friction is to hold: its normal force, the bounds of friction, and that."""
    return 2 * kind.dimension - 1


class Among(enum.Enum):
    """Which sets are meant."""

    ALL = "all"
    WORLD = "with the world"
    FRAMES = "between frames"


MANY = 24
"""Sets from which on it pays to list those that have contacts: most do not, and many loops pass by."""


class Touches:
    """All sets of some frames, in the scratch memory."""

    def __init__(self, s: Sweeps) -> None:
        self.s = s
        self.lost = s.take(1)
        """How many contacts there was no room for, in all sets."""
        self.wanted = s.take(1)
        """How many a set would have had of which some were lost, the most of all; 0 where none were."""
        self.sets: list[TouchSet] = []
        plans = planned_sets(s.model, [node.index for node in s.nodes])
        # Numbers that loops go through for all sets, one behind the other: each beside its contacts would be on a page
        # of memory of its own.
        counts, nears, losts = (s.take_many([1] * len(plans)) for _ in range(3))
        held: Sequence[Place | None] = [None] * len(plans)
        if s.settings.noslip_iterations:
            held, rooms = _in_turn(s, [plan.capacity * n_held(plan.kind) for plan in plans], _rooms(plans))
        else:
            rooms = s.take_many(_rooms(plans))
        for each in zip(plans, rooms, counts, nears, losts, held, strict=True):
            self.sets.append(TouchSet(*each))
        self._trees = trees_of_frames(s.model)
        self._columns: dict[Among, list[SetColumns]] = {}
        self._lists: dict[Among, Place] = {}

    def among(self, which: Among) -> list[TouchSet]:
        """Some of the sets, in order."""
        return [x for x in self.sets if which is Among.ALL or x.kind.on_world is (which is Among.WORLD)]

    def list_touching(self, near: Place | None = None) -> None:
        """List the sets that have contacts in any environment: loops need not look at the others.

        Args:
            near: a list of the pairs that may touch, numbered as they come in the sets; None to look at all sets.
        """
        s = self.s
        numbers = {which: {id(x): i for i, x in enumerate(self.among(which))} for which in Among}
        chosen = [which for which in Among if len(numbers[which]) >= MANY and not s.settings.team]
        if not chosen:
            return
        self._lists = {which: s.take(len(numbers[which]) + 1) for which in chosen}
        rows = self._rows_of_pairs(chosen, numbers, often=near is not None)
        with s.staying():
            none = [Row("list", {"list": place}) for place in self._lists.values()]
            s.loop("no sets that touch", none, lambda code: code.write("list", [0.0]))
            s.loop("sets that touch", rows, _note_set, near)

    def _rows_of_pairs(
        self, chosen: Sequence[Among], numbers: Mapping[Among, Mapping[int, int]], *, often: bool
    ) -> Table:
        """Rows of sets, often or one for each, which know their numbers on some lists."""
        groups: dict[tuple[tuple[Among, ...], bool], list[tuple[int, TouchSet]]] = {}
        first = 0
        for touch in self.sets:
            count = len(touch.plan.pairs) if often else 1
            kind = tuple(which for which in chosen if id(touch) in numbers[which]), count > 1
            groups.setdefault(kind, []).extend((first + i, touch) for i in range(count))
            first += count
        made = []
        for (own, several), rows in groups.items():
            places = {"count": Column.of([touch.count for _, touch in rows])}
            places |= {which.value: Column.same(self._lists[which], len(rows)) for which in own}
            known = {
                f"row {which.value}": np.array([[float(numbers[which][id(touch)])] for _, touch in rows])
                for which in own
            }
            made.append(Columns((own, several), np.array([at for at, _ in rows], np.intp), places, known))
        return Table(made)

    def taken_along(self) -> Touches:
        """The same contacts in memory of a team's own."""
        copy = Touches(self.s)
        rows = []
        for old, new in zip(self.sets, copy.sets, strict=True):
            places = {"from": old.contacts, "old count": old.count, "to": new.contacts, "count": new.count}
            rows.append(Row("set", places, {"width": [float(Layout(old.kind.dimension).width)]}))

        def body(code: RowCode) -> None:
            recorder, found = code.recorder, code.read("old count")

            def one(turn: Value) -> None:
                recorder.write("to", [recorder.read("from", 0, turn)], index=turn)

            code.write("count", [found])
            recorder.count("numbers of contacts", found * code.number("width"), one)

        with self.s.staying():
            self.s.loop("contacts, taken along", rows, body)
        copy.lost, copy.wanted = self.lost, self.wanted
        return copy

    def number(self, *, between_frames: bool = False) -> Value:
        """How many contacts there are, of all or only between moving frames."""
        s, total = self.s, self.s.take_fixed(1)
        s.recorder.write(SCRATCH, [0.0], total.row)
        which = Among.FRAMES if between_frames else Among.ALL
        sets = self.among(which)
        own = {"count": Column.of([x.count for x in sets]), "total": Column.same(total, len(sets))} if sets else {}
        rows = Table([Columns("set", np.arange(len(sets)), own)] if sets else [])

        def add_up(code: RowCode) -> None:
            code.write("total", [code.read("total") + code.read("count")])

        with s.staying():
            s.loop("number of contacts", rows, add_up, self._lists.get(which))
        return s.recorder.read(SCRATCH, total.row)

    def columns(self, which: Among) -> list[SetColumns]:
        """Some of the sets by column, those of a kind each."""
        if which not in self._columns:
            by_kind: dict[SetKind, list[int]] = {}
            sets = self.among(which)
            for i, touch in enumerate(sets):
                by_kind.setdefault(touch.kind, []).append(i)
            self._columns[which] = [
                set_columns(kind, at, [sets[i] for i in at], self._trees) for kind, at in by_kind.items()
            ]
        return self._columns[which]

    def rows(self, which: Among, more: Places | None = None) -> list[PartColumns]:
        """What `row` makes, by column: of all of some sets."""
        return [self.rows_of(sets, more) for sets in self.columns(which)]

    def rows_of(self, sets: SetColumns, more: Places | None = None, **how: Any) -> PartColumns:
        """Likewise of sets of a kind; `how` tells of numbers and rows of their own."""
        own = {**sets.places}
        for name, place in (more or {}).items():
            own[name] = place.of_each(sets.trees) if isinstance(place, PerTree) else Column.same(place, len(sets.at))
        if self.s.idle is not None and not self.s.idle.paused:
            own[IDLE] = self.s.idle.of_each(sets.trees)
        a, b = sets.frames
        return self.s.part_columns(sets.kind, sets.at, {"a ": a, "b ": b}, own, **how)

    def row(self, touch: TouchSet, more: Places | None = None) -> PartRow:
        """A row of a set, whose code knows its frames as `a ` and `b `."""
        own = {"contacts": touch.contacts, "count": touch.count, "near": touch.near, "own lost": touch.lost}
        own |= {} if touch.held is None else {"held": touch.held}
        second = touch.plan.frames[1]
        places = {**own, **places_in(self._trees[second], more or {}), **self.s.mark_of(second)}
        targets = {"a ": frame_ref(touch.plan.frames[0]), "b ": frame_ref(touch.plan.frames[1])}
        return self.s.row(touch.kind, targets, places, {})

    def each(
        self,
        name: str,
        body: Callable[[RowCode, SetKind], None],
        rows: Sequence[PartRow] | Sequence[PartColumns] | None = None,
        which: Among = Among.ALL,
    ) -> None:
        """Each set that has contacts, by itself; a loop that stays. Rows that are given are those of `which`, all."""

        def run(code: RowCode) -> None:
            kind = code.kind
            assert isinstance(kind, SetKind)
            where(code.recorder, "touching", 0.5, code.read("count"), lambda: body(code, kind))

        with self.s.staying():
            own = self.rows(which) if rows is None else rows
            self.s.loop(name, table_of(own), run, self._lists.get(which))


def _note_set(code: RowCode) -> None:
    """A set onto its lists, if it has contacts; once, though there may be a row for each of its pairs."""
    own, several = code.kind  # type: ignore[misc]
    if not own:
        return
    recorder, first = code.recorder, own[0].value
    touching = trace.any_of(code.read("count"))
    if several:
        number = code.read(first)
        known = trace.absolute(recorder.read(first, 0, number) - code.number(f"row {first}"))
        touching = trace.select(trace.select(number, 0.5, 1.0, known), 0.5, 0.0, touching)

    def append() -> None:
        for which in own:
            number = code.read(which.value) + 1.0
            recorder.write(which.value, [code.number(f"row {which.value}")], 0, number)
            code.write(which.value, [number])

    where(recorder, "touching", 0.5, touching, append)


class Contact:
    """One contact, in code for all."""

    array, first = "contacts", 0
    """Where the contacts are among which it is."""

    def __init__(self, recorder: Recorder, layout: Layout, turn: Value) -> None:
        self.layout = layout
        self.recorder = recorder
        self.turn = turn
        """Which one it is."""
        self._at = turn * float(self.layout.width)

    def read(self, item: int, count: int = 1) -> list[Value]:
        """Some of its numbers."""
        first = self.first + self.layout.place(item)
        return [self.recorder.read(self.array, first + i, self._at) for i in range(count)]

    def write(self, item: int, values: Sequence[Value]) -> None:
        """Set some of them."""
        self.recorder.write(self.array, values, self.first + self.layout.place(item), self._at)

    @property
    def axes(self) -> list[Vector]:
        """Its normal, and where it has friction the two directions across that."""
        count = self.layout.n_axes if self.layout.dimension > 1 else 1
        kept: list[Vector] = [self.read(Layout.FRAME + 3 * i, 3) for i in range(count)]
        return [*kept, cross(*kept)] if count == 2 else kept

    @property
    def residual(self) -> list[Value]:
        """What is missing in each of its directions."""
        return self.read(self.layout.residual, self.layout.dimension)

    @property
    def change(self) -> list[Value]:
        """How that changes along a search."""
        return self.read(self.layout.change, self.layout.dimension)

    @property
    def law(self) -> tuple[Value, Value]:
        """Stiffness, and the bound of friction."""
        return self.read(Layout.STIFFNESS)[0], self.read(Layout.BOUND)[0]


def each_contact(code: RowCode, dimension: int, body: Callable[[Contact], None]) -> None:
    """Each contact of a set that has any."""
    code.recorder.count(
        "contacts", code.read("count"), lambda turn: body(Contact(code.recorder, Layout(dimension), turn))
    )


def anything_touches(model: Model, settings: Settings) -> bool:
    """Whether there is anything to look for."""
    return settings.contacts and bool(len(model.pairs.geom_a))
