"""Rows of tables: one by one, or column by column where there are thousands of a kind.

A scene of a hundred bodies has five thousand pairs of them, in dozens of loops: as an object each, with names for all
that is in it, rows take longer to make than code does to compile. By column a kind of rows is a few arrays.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from .slots import FIRST, MANY, Place
from .tape import Value

FOLDED = (0.0, 1.0, -1.0, math.inf, -math.inf)
"""Numbers that are worth a code of their own where all rows of a kind have them."""
OWN = "own "
"""Before the name of a row's numbers, where environments have their own: the array that they are read from."""
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Own:
    """Numbers of a row that lie in an array, because they differ between environments or may be set."""

    place: Place
    known: tuple[float | None, ...]
    """Those that are plain all the same; None for what is read, each at its place in the row."""


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """One row of a table; those of a kind name the same arrays and numbers."""

    kind: Hashable
    """Which code it runs: a record of all that the code asks for; rows are told apart by its text."""
    places: MutableMapping[str, Place]
    """Array -> where its first item is for this row."""
    numbers: Mapping[str, Sequence[Value] | Own] = field(default_factory=dict)
    """Symbols only in what is going to be unrolled."""
    inside: Mapping[str, Sequence[Row]] = field(default_factory=dict)
    """Rows of its own, for loops in its code."""

    @property
    def code(self) -> str:
        """What tells apart the rows that run different code."""
        own = [(name, x.known) for name, x in self.numbers.items() if isinstance(x, Own)]
        return _code(self.kind, own)


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """A `Place` for each of many rows: where an array starts."""

    arena: str
    rows: Ints

    @classmethod
    def of(cls, places: Sequence[Place]) -> Column:
        """Places of one arena."""
        arena = places[0].arena
        assert all(place.arena == arena for place in places), "one arena for each array"
        return cls(arena, np.array([place.row for place in places], np.int64))

    @classmethod
    def same(cls, place: Place, count: int) -> Column:
        """One place for all of so many rows."""
        return cls(place.arena, np.full(count, place.row, np.int64))

    def taken(self, which: Any) -> Column:
        """Those of some of the rows."""
        return Column(self.arena, self.rows[which])


@dataclass(frozen=True, slots=True, eq=False)
class OwnColumn:
    """`Own` for each of many rows."""

    places: Column
    known: tuple[float | None, ...]


Numbers = Mapping[str, "Floats | OwnColumn"]
"""Of many rows the numbers by word, (rows, numbers of the word)."""


class Group(ABC):
    """Rows that run the same code."""

    kind: Hashable
    code: str
    at: npt.NDArray[np.intp]
    """Which rows of the loop they are."""
    own: frozenset[str]
    """The numbers that environments have their own of."""

    @abstractmethod
    def holds(self, array: str) -> bool:
        """Whether they have such an array."""

    @abstractmethod
    def give(self, array: str, place: Place) -> None:
        """All of them find an array there from now on."""

    @abstractmethod
    def arenas(self, used: Collection[str]) -> dict[str, str]:
        """Of the arrays that are used where they lie, in the order in which rows have them."""

    @abstractmethod
    def starts(self, array: str) -> npt.ArrayLike:
        """Where an array starts for each row."""

    @abstractmethod
    def values(self, word: str, item: int) -> Any:
        """One of its numbers for each row."""

    @abstractmethod
    def folded(self) -> dict[str, list[float | None]]:
        """What all rows agree on, and is worth a code of its own."""

    @abstractmethod
    def place_own(self) -> None:
        """The arrays of numbers that environments have their own of become arrays of the rows."""

    @abstractmethod
    def inner(self, name: str) -> Sequence[Row] | Table:
        """All rows of these rows' own for a loop in their code; each row knows which of them are its."""


class RowGroup(Group):
    """Rows one by one."""

    def __init__(self, code: str, rows: Sequence[Row], at: Sequence[int]) -> None:
        self.kind, self.code, self.rows = rows[0].kind, code, rows
        self.at = np.array(at, np.intp)
        self.own = frozenset(name for name, x in rows[0].numbers.items() if isinstance(x, Own))

    def holds(self, array: str) -> bool:
        """Whether they have such an array."""
        return array in self.rows[0].places

    def give(self, array: str, place: Place) -> None:
        """All of them find an array there from now on."""
        for row in self.rows:
            row.places[array] = place

    def arenas(self, used: Collection[str]) -> dict[str, str]:
        """Of the arrays that are used where they lie, in the order in which rows have them."""
        return {a: place.arena for a, place in self.rows[0].places.items() if a in used}

    def starts(self, array: str) -> npt.ArrayLike:
        """Where an array starts for each row."""
        places = [row.places[array] for row in self.rows]
        assert all(place.arena == places[0].arena for place in places), "one arena for each array"
        return [place.row for place in places]

    def values(self, word: str, item: int) -> Any:
        """One of its numbers for each row."""
        return [row.numbers[word][item] for row in self.rows]  # type: ignore[index]  # ty: ignore[not-subscriptable]

    def folded(self) -> dict[str, list[float | None]]:
        """What all rows agree on, and is worth a code of its own."""
        return {name: _fold([row.numbers[name] for row in self.rows]) for name in self.rows[0].numbers}

    def place_own(self) -> None:
        """The arrays of numbers that environments have their own of become arrays of the rows."""
        for name in [name for name in self.rows[0].numbers if name in self.own]:
            for row in self.rows:
                row.places[OWN + name] = row.numbers[name].place  # type: ignore[union-attr]  # ty: ignore[missing-union-attribute]

    def inner(self, name: str) -> Sequence[Row] | Table:
        """All rows of these rows' own for a loop in their code; each row knows which of them are its."""
        own: list[Row] = []
        for row in self.rows:
            found = row.inside.get(name, ())
            row.places[FIRST + name] = Place("", len(own))
            row.places[MANY + name] = Place("", len(found))
            own.extend(found)
        return own


class Columns(Group):
    """Rows by column."""

    def __init__(
        self,
        kind: Hashable,
        at: npt.NDArray[np.intp],
        places: Mapping[str, Column],
        numbers: Numbers | None = None,
        inside: Mapping[str, Inside] | None = None,
    ) -> None:
        self.kind, self.at = kind, at
        self.places = dict(places)
        self.numbers = numbers or {}
        self.inside = inside or {}
        self._folds: dict[int, tuple[Floats, list[float | None]]] = {}
        """What was folded before, by the identity of the array."""
        own = {name: x.known for name, x in self.numbers.items() if isinstance(x, OwnColumn)}
        self.code, self.own = _code(kind, own.items()), frozenset(own)

    def find(self, array: str) -> Column | None:
        """Where an array starts for each row, if they have it."""
        return self.places.get(array)

    def names(self) -> Iterable[str]:
        """The arrays that they have, in order."""
        return self.places

    def put(self, array: str, column: Column) -> None:
        """They find an array there from now on."""
        self.places[array] = column

    def give(self, array: str, place: Place) -> None:
        """All of them find an array there from now on."""
        self.put(array, Column.same(place, len(self.at)))

    def holds(self, array: str) -> bool:
        """Whether they have such an array."""
        return self.find(array) is not None

    def arenas(self, used: Collection[str]) -> dict[str, str]:
        """Of the arrays that are used where they lie, in the order in which rows have them."""
        found = ((a, self.find(a)) for a in self.names() if a in used)
        return {a: column.arena for a, column in found if column is not None}

    def starts(self, array: str) -> npt.ArrayLike:
        """Where an array starts for each row."""
        column = self.find(array)
        assert column is not None
        return column.rows

    def values(self, word: str, item: int) -> Any:
        """One of its numbers for each row."""
        column = self.numbers[word]
        assert not isinstance(column, OwnColumn)
        return column[:, item]

    def folded(self) -> dict[str, list[float | None]]:
        """What all rows agree on, and is worth a code of its own."""
        return {name: list(x.known) if isinstance(x, OwnColumn) else self._fold(x) for name, x in self.numbers.items()}

    def _fold(self, values: Floats) -> list[float | None]:
        found = self._folds.get(id(values))
        if found is None:
            found = self._folds[id(values)] = values, _fold_columns(values)
        return found[1]

    def place_own(self) -> None:
        """The arrays of numbers that environments have their own of become arrays of the rows."""
        for name, column in self.numbers.items():
            if isinstance(column, OwnColumn):
                self.put(OWN + name, column.places)

    def inner(self, name: str) -> Sequence[Row] | Table:
        """All rows of these rows' own for a loop in their code; each row knows which of them are its."""
        own = self.inside[name]
        self.put(FIRST + name, Column("", np.cumsum(own.many) - own.many))
        self.put(MANY + name, Column("", own.many))
        return own.table


class Table:
    """The rows of a loop, by what code they run."""

    def __init__(self, groups: Sequence[Group]) -> None:
        self.groups = sorted(groups, key=lambda group: group.code)  # so that models share their code
        assert len({group.code for group in self.groups}) == len(self.groups), "one group for each kind of rows"
        self.n_rows = sum(len(group.at) for group in self.groups)

    @classmethod
    def of(cls, rows: Sequence[Row]) -> Table:
        """Rows one by one."""
        by_code: dict[str, list[int]] = {}
        for i, code in enumerate(_codes(rows)):
            by_code.setdefault(code, []).append(i)
        return cls([RowGroup(code, [rows[i] for i in at], at) for code, at in by_code.items()])

    def __len__(self) -> int:
        return self.n_rows


@dataclass(frozen=True, slots=True, eq=False)
class Inside:
    """Rows that rows have of their own: those of the first, of the second, and so on."""

    table: Table
    many: Ints
    """How many each has."""


def _code(kind: Hashable, own: Iterable[tuple[str, tuple[float | None, ...]]]) -> str:
    """What tells apart the rows that run different code."""
    return str(kind) + "".join(f" {name} {known}" for name, known in own)


def _codes(rows: Sequence[Row]) -> Iterator[str]:
    """What tells apart the rows that run different code: of kinds that many rows have the text is made once."""
    known: dict[Hashable, str] = {}
    for row in rows:
        if any(isinstance(x, Own) for x in row.numbers.values()):
            yield row.code
        else:
            key = type(row.kind), row.kind
            if key not in known:
                known[key] = row.code
            yield known[key]


def _fold(values: Sequence[Sequence[Value] | Own]) -> list[float | None]:
    """What all rows agree on, and is worth a code of its own."""
    if isinstance(values[0], Own):
        return list(values[0].known)
    columns = list(zip(*values, strict=True))  # type: ignore[arg-type]
    return [c[0] if c[0] in FOLDED and len(set(c)) == 1 else None for c in columns]  # type: ignore[list-item]


def _fold_columns(values: Floats) -> list[float | None]:
    """Likewise."""
    first = values[0].tolist()
    if len(values) == 1:
        return [x if x in FOLDED else None for x in first]
    return [x if x in FOLDED and (values[:, i] == x).all() else None for i, x in enumerate(first)]
