"""For-each loops: loop iterations grouped by specialization, and tracing of the loop body once per specialization.

The specialization of a row selects the code that the row runs, its integers are the offsets of its arrays in the
arenas, and its floats are its constants. Constants that are 0, 1, -1 or infinite in all rows of a specialization are
folded into the code. The code size is thus independent of the size of the model, and models with the same
specializations share code. Per-environment parameters are read from an array instead. Tables with thousands of rows are
built column by column (`ColumnarGroup`), as creating one object per row would take longer than compiling the code.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from .memory import CONSTANT_PREFIX, FIRST_ITERATION_PREFIX, ITERATION_COUNT_PREFIX, ArenaOffset, MemoryLocation
from .program import ForEachLoop, LoopSpecialization, Statements, WorkQueueLoop, memory_accesses, nested_bodies, walk
from .symbolic import Scalar, Value, select
from .tracer import Tracer

# --------------------------------------------------------------------------------------------------------------- rows

FOLDABLE_CONSTANTS = (0.0, 1.0, -1.0, math.inf, -math.inf)
"""Constants that are folded into the code if all rows of a specialization have them."""
PER_ENV_PREFIX = "own "
"""Prefix of the array that per-environment parameters of a row are read from."""
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class PerEnvParameters:
    """Parameters of a row that are stored in an array, as they differ between environments or can be modified."""

    offset: ArenaOffset
    """Start of the array."""
    folded: tuple[float | None, ...]
    """Values folded into the code, or None for values read from the array, by position."""


@dataclass(frozen=True, slots=True, eq=False)
class LoopIteration:
    """Row of a table; all rows of a specialization name the same arrays and constants."""

    specialization: Hashable
    """Record of all properties that the code depends on; rows with equal text of the record share code."""
    offsets: MutableMapping[str, ArenaOffset]
    """Array -> offset of its first element for this row."""
    constants: Mapping[str, Sequence[Value] | PerEnvParameters] = field(default_factory=dict)
    """Name -> constants or per-environment parameters; symbolic values only if the loop is going to be unrolled."""
    nested_iterations: Mapping[str, Sequence[LoopIteration]] = field(default_factory=dict)
    """Rows of nested loops in the code of this row, by name of the loop."""

    @property
    def specialization_key(self) -> str:
        """Text that identifies the specialization of the row, including the folded per-environment parameters."""
        per_env = [(name, x.folded) for name, x in self.constants.items() if isinstance(x, PerEnvParameters)]
        return _specialization_key(self.specialization, per_env)


@dataclass(frozen=True, slots=True, eq=False)
class OffsetColumn:
    """Array offsets of many rows, all in one arena."""

    arena: str
    rows: Ints
    """(n_rows,) first arena row of the array for each loop iteration."""

    @classmethod
    def from_offsets(cls, offsets: Sequence[ArenaOffset]) -> OffsetColumn:
        """Build a column from single offsets, which must be in one arena."""
        arena = offsets[0].arena
        assert all(offset.arena == arena for offset in offsets), "all rows must use one arena for each array"
        return cls(arena, np.array([offset.row for offset in offsets], np.int64))

    @classmethod
    def repeated(cls, offset: ArenaOffset, count: int) -> OffsetColumn:
        """Column of `count` rows with the same offset."""
        return cls(offset.arena, np.full(count, offset.row, np.int64))

    def select(self, indices: Any) -> OffsetColumn:
        """Column of a subset of the rows."""
        return OffsetColumn(self.arena, self.rows[indices])


@dataclass(frozen=True, slots=True, eq=False)
class PerEnvParameterColumn:
    """Per-environment parameters of many rows."""

    offsets: OffsetColumn
    folded: tuple[float | None, ...]


ConstantColumns = Mapping[str, "Floats | PerEnvParameterColumn"]
"""Name -> constants of many rows, shape (n_rows, n_values), or per-environment parameters."""


# --------------------------------------------------------------------------------------------- groups of rows, tables


class SpecializationGroup(ABC):
    """Rows of a table that run the same specialization."""

    specialization: Hashable
    specialization_key: str
    iteration_indices: npt.NDArray[np.intp]
    """Indices of the rows in the loop."""
    per_env_names: frozenset[str]
    """Names of the constants that are per-environment parameters."""

    @abstractmethod
    def has_array(self, array: str) -> bool:
        """Whether the rows have an array of this name."""

    @abstractmethod
    def set_offset(self, array: str, offset: ArenaOffset) -> None:
        """Set the offset of an array to the same value in all rows."""

    @abstractmethod
    def arenas(self, used: Collection[str]) -> dict[str, str]:
        """Map each array in `used` to its arena, in the order of the rows' arrays."""

    @abstractmethod
    def start_offsets(self, array: str) -> npt.ArrayLike:
        """First arena row of an array for each loop iteration, shape (n_rows,)."""

    @abstractmethod
    def constant_column(self, name: str, element: int) -> Any:
        """One constant for each row, shape (n_rows,): element `element` of the constants `name`."""

    @abstractmethod
    def folded_constants(self) -> dict[str, list[float | None]]:
        """Name -> constants folded into the code, with None for those read from the table."""

    @abstractmethod
    def add_per_env_arrays(self) -> None:
        """Add the arrays of per-environment parameters to the arrays of the rows."""

    @abstractmethod
    def nested_table(self, name: str) -> Sequence[LoopIteration] | IterationTable:
        """Rows of the nested loop `name` of all rows of the group, concatenated.

        Sets the columns with the first row and the number of rows of each row's range.
        """


class RowwiseGroup(SpecializationGroup):
    """Rows of one specialization as a sequence of `LoopIteration` objects."""

    def __init__(
        self, specialization_key: str, rows: Sequence[LoopIteration], iteration_indices: Sequence[int]
    ) -> None:
        self.specialization, self.specialization_key, self.rows = rows[0].specialization, specialization_key, rows
        self.iteration_indices = np.array(iteration_indices, np.intp)
        self.per_env_names = frozenset(name for name, x in rows[0].constants.items() if isinstance(x, PerEnvParameters))

    def has_array(self, array: str) -> bool:
        """Whether the rows have an array of this name."""
        return array in self.rows[0].offsets

    def set_offset(self, array: str, offset: ArenaOffset) -> None:
        """Set the offset of an array to the same value in all rows."""
        for row in self.rows:
            row.offsets[array] = offset

    def arenas(self, used: Collection[str]) -> dict[str, str]:
        """Map each array in `used` to its arena, in the order of the rows' arrays."""
        return {a: offset.arena for a, offset in self.rows[0].offsets.items() if a in used}

    def start_offsets(self, array: str) -> npt.ArrayLike:
        """First arena row of an array for each loop iteration."""
        offsets = [row.offsets[array] for row in self.rows]
        assert all(offset.arena == offsets[0].arena for offset in offsets), "all rows must use one arena for each array"
        return [offset.row for offset in offsets]

    def constant_column(self, name: str, element: int) -> Any:
        """One constant for each row: element `element` of the constants `name`."""
        return [row.constants[name][element] for row in self.rows]  # type: ignore[index]  # ty: ignore[not-subscriptable]

    def folded_constants(self) -> dict[str, list[float | None]]:
        """Name -> constants folded into the code, with None for those read from the table."""
        return {name: _fold_iterations([row.constants[name] for row in self.rows]) for name in self.rows[0].constants}

    def add_per_env_arrays(self) -> None:
        """Add the arrays of per-environment parameters to the arrays of the rows."""
        for name in [name for name in self.rows[0].constants if name in self.per_env_names]:
            for row in self.rows:
                row.offsets[PER_ENV_PREFIX + name] = row.constants[name].offset  # type: ignore[union-attr]  # ty: ignore[missing-union-attribute]

    def nested_table(self, name: str) -> Sequence[LoopIteration] | IterationTable:
        """Rows of the nested loop `name` of all rows of the group, concatenated into one table.

        Side effect: the range of nested rows of each row is stored in its offsets `FIRST_ITERATION_PREFIX` + name
        (first row) and `ITERATION_COUNT_PREFIX` + name (number of rows).
        """
        nested: list[LoopIteration] = []
        for row in self.rows:
            rows = row.nested_iterations.get(name, ())
            row.offsets[FIRST_ITERATION_PREFIX + name] = ArenaOffset("", len(nested))
            row.offsets[ITERATION_COUNT_PREFIX + name] = ArenaOffset("", len(rows))
            nested.extend(rows)
        return nested


class ColumnarGroup(SpecializationGroup):
    """Rows of one specialization stored column by column, for tables with thousands of rows."""

    def __init__(
        self,
        specialization: Hashable,
        iteration_indices: npt.NDArray[np.intp],
        offset_columns: Mapping[str, OffsetColumn],
        constants: ConstantColumns | None = None,
        nested_tables: Mapping[str, NestedIterations] | None = None,
    ) -> None:
        self.specialization, self.iteration_indices = specialization, iteration_indices
        self.offset_columns = dict(offset_columns)
        self.constants = constants or {}
        self.nested_tables = nested_tables or {}
        self._fold_cache: dict[int, tuple[Floats, list[float | None]]] = {}
        """Results of constant folding by identity of the array."""
        per_env = {name: x.folded for name, x in self.constants.items() if isinstance(x, PerEnvParameterColumn)}
        self.specialization_key, self.per_env_names = (
            _specialization_key(specialization, per_env.items()),
            frozenset(per_env),
        )

    def find_column(self, array: str) -> OffsetColumn | None:
        """Offsets of an array for each row, or None if the rows do not have the array."""
        return self.offset_columns.get(array)

    def array_names(self) -> Iterable[str]:
        """Names of the arrays of the rows, in order."""
        return self.offset_columns

    def set_column(self, array: str, column: OffsetColumn) -> None:
        """Set the offsets of an array for all rows."""
        self.offset_columns[array] = column

    def set_offset(self, array: str, offset: ArenaOffset) -> None:
        """Set the offset of an array to the same value in all rows."""
        self.set_column(array, OffsetColumn.repeated(offset, len(self.iteration_indices)))

    def has_array(self, array: str) -> bool:
        """Whether the rows have an array of this name."""
        return self.find_column(array) is not None

    def arenas(self, used: Collection[str]) -> dict[str, str]:
        """Map each array in `used` to its arena, in the order of the rows' arrays."""
        columns = ((a, self.find_column(a)) for a in self.array_names() if a in used)
        return {a: column.arena for a, column in columns if column is not None}

    def start_offsets(self, array: str) -> npt.ArrayLike:
        """First arena row of an array for each loop iteration."""
        column = self.find_column(array)
        assert column is not None
        return column.rows

    def constant_column(self, name: str, element: int) -> Any:
        """One constant for each row: element `element` of the constants `name`."""
        column = self.constants[name]
        assert not isinstance(column, PerEnvParameterColumn)
        return column[:, element]

    def folded_constants(self) -> dict[str, list[float | None]]:
        """Name -> constants folded into the code, with None for those read from the table."""
        return {
            name: list(x.folded) if isinstance(x, PerEnvParameterColumn) else self._fold_cached(x)
            for name, x in self.constants.items()
        }

    def _fold_cached(self, values: Floats) -> list[float | None]:
        cached = self._fold_cache.get(id(values))
        if cached is None:
            cached = self._fold_cache[id(values)] = values, _fold_columns(values)
        return cached[1]

    def add_per_env_arrays(self) -> None:
        """Add the arrays of per-environment parameters to the arrays of the rows."""
        for name, column in self.constants.items():
            if isinstance(column, PerEnvParameterColumn):
                self.set_column(PER_ENV_PREFIX + name, column.offsets)

    def nested_table(self, name: str) -> Sequence[LoopIteration] | IterationTable:
        """Table of the nested loop `name` of all rows of the group.

        Sets the columns `FIRST_ITERATION_PREFIX` + name and `ITERATION_COUNT_PREFIX` + name to each row's range of
        nested rows.
        """
        nested = self.nested_tables[name]
        self.set_column(
            FIRST_ITERATION_PREFIX + name,
            OffsetColumn("", np.cumsum(nested.iteration_counts) - nested.iteration_counts),
        )
        self.set_column(ITERATION_COUNT_PREFIX + name, OffsetColumn("", nested.iteration_counts))
        return nested.table


class IterationTable:
    """Rows of a loop, grouped by specialization."""

    def __init__(self, groups: Sequence[SpecializationGroup]) -> None:
        # in canonical order, so that models share code
        self.groups = sorted(groups, key=lambda group: group.specialization_key)
        assert len({group.specialization_key for group in self.groups}) == len(self.groups), (
            "there must be one group for each specialization"
        )
        self.n_rows = sum(len(group.iteration_indices) for group in self.groups)

    @classmethod
    def from_rows(cls, rows: Sequence[LoopIteration]) -> IterationTable:
        """Group single rows by their specialization key."""
        indices_by_key: dict[str, list[int]] = {}
        for i, key in enumerate(_specialization_keys(rows)):
            indices_by_key.setdefault(key, []).append(i)
        return cls([RowwiseGroup(key, [rows[i] for i in indices], indices) for key, indices in indices_by_key.items()])

    def __len__(self) -> int:
        return self.n_rows


@dataclass(frozen=True, slots=True, eq=False)
class NestedIterations:
    """Rows of a nested loop for all rows of a group, concatenated in order of the outer rows."""

    table: IterationTable
    iteration_counts: Ints
    """(n_outer_rows,) number of nested rows of each outer row."""


def _specialization_key(specialization: Hashable, per_env: Iterable[tuple[str, tuple[float | None, ...]]]) -> str:
    """Text that identifies a specialization: the specialization record and the folded per-environment parameters."""
    return str(specialization) + "".join(f" {name} {folded}" for name, folded in per_env)


def _specialization_keys(rows: Sequence[LoopIteration]) -> Iterator[str]:
    """Text key of the specialization of each loop iteration; rows with equal keys share code.

    Keys of rows without per-environment parameters are cached by specialization record.
    """
    key_cache: dict[Hashable, str] = {}
    for row in rows:
        if any(isinstance(x, PerEnvParameters) for x in row.constants.values()):
            yield row.specialization_key
        else:
            specialization = type(row.specialization), row.specialization
            if specialization not in key_cache:
                key_cache[specialization] = row.specialization_key
            yield key_cache[specialization]


def _fold_iterations(values: Sequence[Sequence[Value] | PerEnvParameters]) -> list[float | None]:
    """Constants that are equal and foldable in all rows, else None, by position (rows given one by one)."""
    if isinstance(values[0], PerEnvParameters):
        return list(values[0].folded)
    columns = list(zip(*values, strict=True))  # type: ignore[arg-type]
    return [c[0] if c[0] in FOLDABLE_CONSTANTS and len(set(c)) == 1 else None for c in columns]  # type: ignore[list-item]


def _fold_columns(values: Floats) -> list[float | None]:
    """Constants that are equal and foldable in all rows, else None, by column of `values` (n_rows, n_values)."""
    first = values[0].tolist()
    if len(values) == 1:
        return [x if x in FOLDABLE_CONSTANTS else None for x in first]
    return [x if x in FOLDABLE_CONSTANTS and (values[:, i] == x).all() else None for i, x in enumerate(first)]


# ------------------------------------------------------------------------------------------------------------ tracing

LoopIterations = Sequence[LoopIteration] | IterationTable
"""Rows of a for-each loop, one by one or grouped."""


class IterationContext:
    """Access to the arrays and constants of a row while the code of a specialization is traced."""

    def __init__(
        self,
        group: SpecializationGroup,
        tracer: Tracer,
        folded: Mapping[str, Sequence[float | None]],
        outer: IterationContext | None = None,
    ) -> None:
        self.group = group
        """All rows that run this code; tracing may add arrays to them."""
        self.specialization: Any = group.specialization
        self.tracer = tracer
        self._folded = folded if outer is None else {**outer._folded, **folded}
        self._per_env_names = (
            set(group.per_env_names) if outer is None else (outer._per_env_names - folded.keys()) | group.per_env_names
        )

    def read(self, array: str, element: int = 0) -> Value:
        """Load an element of an array of this row."""
        return self.tracer.read(array, element)

    def read_array(self, array: str, count: int) -> list[Value]:
        """Load the first `count` elements of an array."""
        return [self.read(array, i) for i in range(count)]

    def constants(self, name: str) -> list[Value]:
        """Constants of this row: plain numbers if folded, else loads from the table or per-environment array."""
        array = PER_ENV_PREFIX if name in self._per_env_names else CONSTANT_PREFIX
        return [self.read(array + name, i) if x is None else x for i, x in enumerate(self._folded[name])]

    def constant(self, name: str) -> Value:
        """First value of the constants `name`."""
        return self.constants(name)[0]

    def has_array(self, array: str) -> bool:
        """Whether the rows have an array of this name."""
        return self.group.has_array(array)

    def set_offset(self, array: str, offset: ArenaOffset) -> None:
        """Set the offset of an array to the same value in all rows of the specialization."""
        self.group.set_offset(array, offset)

    def write(self, array: str, values: Sequence[Value], element: int = 0) -> None:
        """Store values to consecutive elements of an array at the end of the current basic block."""
        self.tracer.write(array, values, element)

    def nested_loop(self, name: str, body: IterationBody) -> None:
        """Trace a loop over the nested rows `name` of this row; its body also sees the arrays of this row."""
        _add_loop(self.tracer, name, self.group.nested_table(name), body, row_range_name=name, outer=self)


IterationBody = Callable[[IterationContext], None]
"""Code of a row: reads and writes the row's arrays."""
IterationFilter = Callable[[IterationContext], "tuple[Value, Value]"]
"""Filter of a row: returns (a, b); the row passes if a < b."""


def trace_for_each_loop(
    tracer: Tracer,
    name: str,
    rows: LoopIterations,
    body: IterationBody,
    *,
    keep_rolled: bool = False,
    active_iterations: ArenaOffset | None = None,
) -> None:
    """Append a loop over iterations: the body is traced once per specialization, and the rows are packed into a table.

    Args:
        tracer: receives the `ForEachLoop`; nothing is appended if there are no rows.
        name: name of the loop.
        rows: one row per iteration: specialization, array offsets and constants.
        body: code of a row.
        keep_rolled: whether the loop is kept when the program is unrolled.
        active_iterations: offset of a list of the rows that have an effect; CPU code skips all others.
    """
    _add_loop(tracer, name, rows, body, keep_rolled=keep_rolled, active_iterations=active_iterations)


def trace_work_queue_loop(
    tracer: Tracer, name: str, rows: LoopIterations, filters: Sequence[IterationFilter], work: IterationBody
) -> None:
    """Append a work-queue loop to the program: `work` runs only for (row, environment) pairs that pass all filters.

    A filter returns (a, b), and a row passes if a < b; later filters run only for rows that passed the earlier ones.
    The code of filters and work is traced once per specialization of the rows.
    """
    flag = f"{tracer.prefix}filter flag {len(tracer.locals)}"

    def run_filter(row_filter: IterationFilter, row: IterationContext) -> None:
        row.tracer.write(flag, [select(*row_filter(row), 1.0, 0.0)])

    bodies = [*(partial(run_filter, row_filter) for row_filter in filters), work]
    loops = [_pack_loop(tracer, name, rows, body, prefix=f"{i} ") for i, body in enumerate(bodies)]
    *filter_loops, (work_loop, _) = loops
    local_arrays = {local: count for _, locals_ in loops for local, count in locals_.items()}
    tracer.add_statement(
        WorkQueueLoop(name, tuple(loop for loop, _ in filter_loops), MemoryLocation(flag, 0), work_loop),
        {**local_arrays, flag: 1},
    )


def _add_loop(
    tracer: Tracer,
    name: str,
    rows: LoopIterations,
    body: IterationBody,
    outer: IterationContext | None = None,
    **options: Any,
) -> None:
    if rows:
        tracer.add_statement(*_pack_loop(tracer, name, rows, body, outer, **options))


def _pack_loop(
    tracer: Tracer,
    name: str,
    rows: LoopIterations,
    body: IterationBody,
    outer: IterationContext | None = None,
    prefix: str = "",
    **options: Any,
) -> tuple[ForEachLoop, dict[str, int]]:
    """Trace the body of a for-each loop for each specialization and pack its rows into an integer and a float table.

    Integers are the specialization index (if there are several specializations) and the array offsets; floats are the
    constants that are not folded into the code. Returns the loop and the sizes of the local arrays of its code. `outer`
    is the context of the enclosing row, `options` are further fields of `ForEachLoop`.
    """
    table = rows if isinstance(rows, IterationTable) else IterationTable.from_rows(rows)
    n_key_columns = int(len(table.groups) > 1)
    specializations: list[LoopSpecialization] = []
    local_arrays: dict[str, int] = {}
    for specialization_index, group in enumerate(table.groups):
        specialization_prefix = f"{prefix}{tracer.prefix}{len(tracer.locals)} {specialization_index} "
        specialization, specialization_locals = _trace_specialization(
            group, body, n_key_columns, specialization_prefix, outer
        )
        specializations.append(specialization)
        local_arrays.update(specialization_locals)
    ints = np.zeros((len(table), n_key_columns + max(len(v.array_columns) for v in specializations)), np.int32)
    columns: list[tuple[Any, int, Any]] = []
    for specialization_index, (group, specialization) in enumerate(zip(table.groups, specializations, strict=True)):
        ints[group.iteration_indices, :n_key_columns] = specialization_index
        for array, (_, column) in specialization.array_columns.items():
            ints[group.iteration_indices, column] = group.start_offsets(array)
        for location, column in specialization.constant_columns.items():
            columns.append(
                (
                    group.iteration_indices,
                    column,
                    group.constant_column(location.array.removeprefix(CONSTANT_PREFIX), location.element),
                )
            )
    symbolic = any(isinstance(values, list) and any(isinstance(x, Scalar) for x in values) for _, _, values in columns)
    floats = np.zeros(
        (len(table), max(len(v.constant_columns) for v in specializations)), object if symbolic else np.float64
    )
    for iteration_indices, column, values in columns:
        floats[iteration_indices, column] = values
    return ForEachLoop(name, tuple(specializations), ints, floats, **options), local_arrays


def _trace_specialization(
    group: SpecializationGroup, body: IterationBody, first_column: int, prefix: str, outer: IterationContext | None
) -> tuple[LoopSpecialization, dict[str, int]]:
    """Trace the loop body for the rows of one specialization, and assign table columns to its arrays and constants.

    Returns the `LoopSpecialization` and the sizes of its local arrays, whose names start with `prefix`. Array columns
    start at `first_column`; `outer` is the context of the enclosing row of a nested loop.
    """
    folded = group.folded_constants()
    group.add_per_env_arrays()
    tracer = Tracer(prefix)
    body(IterationContext(group, tracer, folded, outer))
    program = tracer.build()
    locations = {location for statement in walk(program.body) for location, _ in memory_accesses(statement)}
    used = {location.array for location in locations} | {
        range_prefix + name
        for name in _nested_loop_names(program.body)
        for range_prefix in (FIRST_ITERATION_PREFIX, ITERATION_COUNT_PREFIX)
    }
    arrays = group.arenas(used)
    order = {CONSTANT_PREFIX + name: (i, len(values)) for i, (name, values) in enumerate(folded.items())}
    constants = [
        location for location in locations if location.array in order and location.element < order[location.array][1]
    ]
    ordered = sorted(constants, key=lambda location: (order[location.array], location.element))
    return LoopSpecialization(
        group.specialization_key,
        program.body,
        {a: (arena, i + first_column) for i, (a, arena) in enumerate(arrays.items())},
        {location: i for i, location in enumerate(ordered)},
    ), dict(program.locals)


def _nested_loop_names(statements: Statements) -> Iterator[str]:
    """Names of the row ranges of the outermost nested for-each loops."""
    for block in statements:
        if isinstance(block, ForEachLoop) and block.row_range_name:
            yield block.row_range_name
        elif not isinstance(block, ForEachLoop):
            for body in nested_bodies(block):
                yield from _nested_loop_names(body)
