"""What parts of a robot have, in the scratch memory of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, Protocol, TypeVar

from kinema.trace import SCRATCH, Column, Place, RowCode, RowGroup

from .columns import PartColumns, PartRow
from .known import KnownPlaces
from .records import like, numbers, plus
from .tree import Parts, Ref

R = TypeVar("R")


class Memory(Protocol):
    """Where there is room for it."""

    known: KnownPlaces

    @property
    def code(self) -> RowCode:
        """The code that is being traced."""
        ...

    def take(self, count: int, *, distant: bool = False) -> Place:
        """Rows of the scratch memory that nobody has."""
        ...

    def take_fixed(self, count: int) -> Place:
        """Rows that code outside of loops names."""
        ...


class Quantity(Generic[R]):
    """Something that parts of a robot have, a record of scalars each, in the scratch memory."""

    def __init__(self, loops: Memory, name: str) -> None:
        self.loops = loops
        self.name = name
        self.places: dict[Ref, Place] = {}
        self.forms: dict[Ref, R] = {}
        """A record of the form that each part's has."""

    def make_room(self, ref: Ref, form: R, *, fixed: bool = False) -> Place:
        """A place for what a part will have."""
        if ref not in self.places:
            take = self.loops.take_fixed if fixed else self.loops.take
            self.places[ref] = take(len(numbers(form)))
            self.forms[ref] = form
            self.loops.known.note(ref, self.name, self.places[ref])
        return self.places[ref]

    def make_room_for(self, parts: Parts, form: R) -> Column:
        """Places for what many parts will have."""
        known = self.loops.known
        found = known.column(parts, self.name)
        if found is None:
            count = len(numbers(form))
            for ref in parts.refs():
                if ref not in self.places:
                    self.places[ref], self.forms[ref] = self.loops.take(count), form
                    known.note(ref, self.name, self.places[ref])
            found = known.column(parts, self.name)
        assert found is not None
        return found

    def put_at(self, places: Mapping[Ref, Place], forms: Mapping[Ref, R]) -> None:
        """What parts will have is at places that were chosen for it."""
        for ref, form in forms.items():
            self.places[ref], self.forms[ref] = places[ref], form
            self.loops.known.note(ref, self.name, places[ref])

    def make_rooms(self, forms: Mapping[Ref, R]) -> Place:
        """Places for what parts will have, one behind the other."""
        counts = [len(numbers(form)) for form in forms.values()]
        start = self.loops.take(sum(counts))
        row = start.row
        for (ref, form), count in zip(forms.items(), counts, strict=True):
            self.places[ref], self.forms[ref] = Place(SCRATCH, row), form
            self.loops.known.note(ref, self.name, self.places[ref])
            row += count
        return start

    def array(self, ref: Ref) -> str:
        """What the code calls it."""
        return f"{ref.index}{self.name}"

    def __getitem__(self, ref: Ref) -> R:
        code = self.loops.code
        form = self.forms[target_of(code, str(ref.index))]
        return like(form, code.array(self.array(ref), len(numbers(form))))

    def put(self, ref: Ref, record: R) -> None:
        """What a part has from now on."""
        code = self.loops.code
        group, word = code.group, str(ref.index)
        if isinstance(group, PartColumns):
            group.put(self.array(ref), self.make_room_for(group.targets[word], record))
        else:
            for row in part_rows(code):
                row.places[self.array(ref)] = self.make_room(row.targets[word], record)
        code.write(self.array(ref), numbers(record))

    def add(self, ref: Ref, more: R) -> None:
        """Add to what a part has."""
        self.put(ref, plus(self[ref], more))


def part_rows(code: RowCode) -> list[PartRow]:
    """The rows that run a code, one by one."""
    assert isinstance(code.group, RowGroup)
    rows = [row for row in code.group.rows if isinstance(row, PartRow)]
    assert len(rows) == len(code.group.rows), "parts know what they have, other rows do not"
    return rows


def target_of(code: RowCode, word: str) -> Ref:
    """What a word stands for in the first row that runs a code."""
    group = code.group
    if isinstance(group, PartColumns):
        return group.targets[word].first
    assert isinstance(group, RowGroup)
    row = group.rows[0]
    assert isinstance(row, PartRow)
    return row.targets[word]
