"""Rows of parts by column: what `PartRow` is to one part, for thousands."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from kinema.trace import Column, Columns, Inside, Own, OwnColumn, Place, Row, RowGroup, Rows, Table

from .known import KnownPlaces, RowPlaces
from .tree import Parts, Ref

Targets = Mapping[str, Ref]
"""What the words of a row's code for other parts stand for."""


@dataclass(frozen=True, slots=True, eq=False)
class PartRow(Row):
    """A row of one part."""

    targets: Targets = field(default_factory=dict)


class PartColumns(Columns):
    """Rows of parts: they find arrays of their own, all that the parts have they speak of, and the environment's."""

    def __init__(
        self,
        kind: Hashable,
        at: npt.NDArray[np.intp],
        own: Mapping[str, Column],
        numbers: Mapping[str, npt.NDArray[np.float64] | OwnColumn],
        targets: Mapping[str, Parts],
        known: KnownPlaces,
        of_all: Mapping[str, Place],
        inside: Mapping[str, Inside] | None = None,
    ) -> None:
        super().__init__(kind, at, own, numbers, inside)
        self.targets = targets
        """What the words of their code for other parts stand for."""
        self._known = known
        self._of_all = of_all
        self._count = known.count
        self._later: dict[str, Column] = {}
        self._found: dict[str, Column] = {}

    def again(
        self,
        more: Mapping[str, Column] | None = None,
        numbers: Mapping[str, npt.NDArray[np.float64]] | None = None,
        inside: Mapping[str, Inside] | None = None,
    ) -> PartColumns:
        """The same rows, which know what is known by now, with more in them."""
        own, every = {**self.places, **(more or {})}, {**self.numbers, **(numbers or {})}
        made = PartColumns(self.kind, self.at, own, every, self.targets, self._known, self._of_all, inside)
        made._folds = self._folds
        return made

    def find(self, array: str) -> Column | None:
        """Where an array starts for each row, if they have it."""
        found = self._later.get(array) or self.places.get(array) or self._found.get(array)
        if found is None and (found := self._sought(array)) is not None:
            self._found[array] = found
        return found

    def _sought(self, array: str) -> Column | None:
        if array in self._of_all:
            return Column.same(self._of_all[array], len(self.at))
        for word, parts in self.targets.items():
            if array.startswith(word):
                found = self._known.column(parts, array[len(word) :])
                if found is not None:
                    return found
        return None

    def put(self, array: str, column: Column) -> None:
        """They find an array there from now on."""
        self._later[array] = column

    def names(self) -> Iterable[str]:
        """The arrays that they have, in the order in which they came to be known."""
        return dict.fromkeys(self._names())

    def _names(self) -> Iterator[str]:
        yield from self.places
        for word, parts in self.targets.items():
            yield from (word + name for name in self._known.first(parts.first, self._count))
        yield from self._of_all
        yield from self._later


def by_column(rows: Sequence[PartRow], known: KnownPlaces, of_all: Mapping[str, Place]) -> list[PartColumns]:
    """Rows that are new, none of whose numbers are symbols, by column: to be used again and again."""
    return [_columns(group, known, of_all) for group in Table.of(rows).groups if isinstance(group, RowGroup)]


def _columns(group: RowGroup, known: KnownPlaces, of_all: Mapping[str, Place]) -> PartColumns:
    rows = [row for row in group.rows if isinstance(row, PartRow)]
    first, owns = rows[0], [row.places.own for row in rows if isinstance(row.places, RowPlaces)]
    places = {name: Column.of([own[name] for own in owns]) for name in owns[0]}
    numbers: dict[str, npt.NDArray[np.float64] | OwnColumn] = {}
    for name, values in first.numbers.items():
        if isinstance(values, Own):
            numbers[name] = OwnColumn(Column.of([row.numbers[name].place for row in rows]), values.known)  # type: ignore[union-attr]  # ty: ignore[missing-union-attribute]
        else:
            numbers[name] = np.array([row.numbers[name] for row in rows], np.float64).reshape(len(rows), -1)
    targets = {word: Parts.of([row.targets[word] for row in rows]) for word in first.targets}
    return PartColumns(first.kind, group.at, places, numbers, targets, known, of_all)


def table_of(rows: Sequence[PartRow] | Sequence[PartColumns]) -> Rows:
    """Rows of a loop, whichever way they are given."""
    columns = [x for x in rows if isinstance(x, PartColumns)]
    return Table(columns) if columns else [x for x in rows if isinstance(x, PartRow)]
