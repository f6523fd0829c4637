"""For-each loops: loop iterations grouped by specialization, and tracing of the loop body once per specialization.

The specialization of an iteration selects the code that the iteration runs, its integers are the offsets of its arrays
in the arenas, and its floats are its constants. Constants that are 0, 1, -1 or infinite in all iterations of a
specialization are folded into the code. The code size is thus independent of the size of the model, and models with the
same specializations share code. Per-environment parameters are read from an array instead. Tables with thousands of
rows are built column by column (`ColumnarGroup`), as creating one object per iteration would take longer than compiling
the code.
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

# ---------------------------------------------------------------------------------------------------- loop iterations

FOLDABLE_CONSTANTS = (0.0, 1.0, -1.0, math.inf, -math.inf)
"""Constants that are folded into the code if all iterations of a specialization have them."""
PER_ENV_PREFIX = "own "
"""Prefix of the array that per-environment parameters of an iteration are read from."""
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class PerEnvParameters:
    """Parameters of an iteration that are stored in an array, as they may differ between environments or change."""

    offset: ArenaOffset
    """Start of the array."""
    folded: tuple[float | None, ...]
    """Values folded into the code, or None for values read from the array, by position."""


@dataclass(frozen=True, slots=True, eq=False)
class LoopIteration:
    """Iteration of a for-each loop; all iterations of a specialization name the same arrays and constants."""

    specialization: Hashable
    """Record of all properties that the code depends on; iterations with equal text of the record share code."""
    offsets: MutableMapping[str, ArenaOffset]
    """Array -> offset of its first element for this iteration."""
    constants: Mapping[str, Sequence[Value] | PerEnvParameters] = field(default_factory=dict)
    """Name -> constants or per-environment parameters; symbolic values only if the loop is going to be unrolled."""
    nested_iterations: Mapping[str, Sequence[LoopIteration]] = field(default_factory=dict)
    """Iterations of nested loops in the code of this iteration, by name of the loop."""

    @property
    def specialization_key(self) -> str:
        """Text that identifies the specialization of the iteration, including the folded per-environment parameters."""
        per_env = [(name, x.folded) for name, x in self.constants.items() if isinstance(x, PerEnvParameters)]
        return _specialization_key(self.specialization, per_env)


@dataclass(frozen=True, slots=True, eq=False)
class OffsetColumn:
    """Array offsets of many iterations, all in one arena."""

    arena: str
    rows: Ints
    """(n_rows,) first arena row of the array for each loop iteration."""

    @classmethod
    def from_offsets(cls, offsets: Sequence[ArenaOffset]) -> OffsetColumn:
        """Build a column from single offsets, which must be in one arena."""
        arena = offsets[0].arena
        assert all(offset.arena == arena for offset in offsets), "all iterations must use one arena for each array"
        return cls(arena, np.array([offset.row for offset in offsets], np.int64))

    @classmethod
    def repeated(cls, offset: ArenaOffset, count: int) -> OffsetColumn:
        """Column of `count` iterations with the same offset."""
        return cls(offset.arena, np.full(count, offset.row, np.int64))

    def select(self, indices: Any) -> OffsetColumn:
        """Column of a subset of the iterations."""
        return OffsetColumn(self.arena, self.rows[indices])


@dataclass(frozen=True, slots=True, eq=False)
class PerEnvParameterColumn:
    """Per-environment parameters of many iterations."""

    offsets: OffsetColumn
    folded: tuple[float | None, ...]


ConstantColumns = Mapping[str, "Floats | PerEnvParameterColumn"]
"""Name -> constants of many iterations, shape (n_rows, n_values), or per-environment parameters."""


# ------------------------------------------------------------------------------------ groups of iterations, tables


class SpecializationGroup(ABC):
    """Iterations of a table that run the same specialization."""

    specialization: Hashable
    specialization_key: str
    iteration_indices: npt.NDArray[np.intp]
    """Indices of the iterations in the loop."""
    per_env_names: frozenset[str]
    """Names of the constants that are per-environment parameters."""

    @abstractmethod
    def has_array(self, array: str) -> bool:
        """Whether the iterations have an array of this name."""

    @abstractmethod
    def set_offset(self, array: str, offset: ArenaOffset) -> None:
        """Set the offset of an array to the same value in all iterations."""

    @abstractmethod
    def arenas(self, used: Collection[str]) -> dict[str, str]:
        """Map each array in `used` to its arena, in the order of the iterations' arrays."""

    @abstractmethod
    def start_offsets(self, array: str) -> npt.ArrayLike:
        """First arena row of an array for each loop iteration, shape (n_rows,)."""

    @abstractmethod
    def constant_column(self, name: str, element: int) -> Any:
        """One constant for each iteration, shape (n_rows,): element `element` of the constants `name`."""

    @abstractmethod
    def folded_constants(self) -> dict[str, list[float | None]]:
        """Constants folded into the code by name; None for constants that are read from the table."""

    @abstractmethod
    def add_per_env_arrays(self) -> None:
        """Add the arrays of per-environment parameters to the arrays of the iterations."""

    @abstractmethod
    def nested_table(self, name: str) -> Sequence[LoopIteration] | IterationTable:
        """Iterations of the nested loop `name` of all iterations of the group, concatenated.

        Sets the columns with the first iteration and the number of iterations of each iteration's range.
        """

    record_fields: Mapping[str, MemoryLocation] = {}
    """Arrays and constants of one scalar that are in local memory, by name; of joined loops."""

    def table_of_array(self, array: str) -> int:
        """Index of the table of a joined loop that has an array."""
        return 0

    def table_of_constants(self, name: str) -> int:
        """Index of the table of a joined loop that has constants."""
        return 0


class RowwiseGroup(SpecializationGroup):
    """Iterations of one specialization as a sequence of `LoopIteration` objects."""

    def __init__(
        self, specialization_key: str, iterations: Sequence[LoopIteration], iteration_indices: Sequence[int]
    ) -> None:
        self.specialization, self.specialization_key, self.iterations = (
            iterations[0].specialization,
            specialization_key,
            iterations,
        )
        self.iteration_indices = np.array(iteration_indices, np.intp)
        self.per_env_names = frozenset(
            name for name, x in iterations[0].constants.items() if isinstance(x, PerEnvParameters)
        )

    def has_array(self, array: str) -> bool:
        """Whether the iterations have an array of this name."""
        return array in self.iterations[0].offsets

    def set_offset(self, array: str, offset: ArenaOffset) -> None:
        """Set the offset of an array to the same value in all iterations."""
        for iteration in self.iterations:
            iteration.offsets[array] = offset

    def arenas(self, used: Collection[str]) -> dict[str, str]:
        """Map each array in `used` to its arena, in the order of the iterations' arrays."""
        return {a: offset.arena for a, offset in self.iterations[0].offsets.items() if a in used}

    def start_offsets(self, array: str) -> npt.ArrayLike:
        """First arena row of an array for each loop iteration."""
        offsets = [iteration.offsets[array] for iteration in self.iterations]
        assert all(offset.arena == offsets[0].arena for offset in offsets), (
            "all iterations must use one arena for each array"
        )
        return [offset.row for offset in offsets]

    def constant_column(self, name: str, element: int) -> Any:
        """One constant for each iteration: element `element` of the constants `name`."""
        return [iteration.constants[name][element] for iteration in self.iterations]  # type: ignore[index]  # ty: ignore[not-subscriptable]

    def folded_constants(self) -> dict[str, list[float | None]]:
        """Constants folded into the code by name; None for constants that are read from the table."""
        return {
            name: _fold_iterations([iteration.constants[name] for iteration in self.iterations])
            for name in self.iterations[0].constants
        }

    def add_per_env_arrays(self) -> None:
        """Add the arrays of per-environment parameters to the arrays of the iterations."""
        for name in [name for name in self.iterations[0].constants if name in self.per_env_names]:
            for iteration in self.iterations:
                iteration.offsets[PER_ENV_PREFIX + name] = iteration.constants[name].offset  # type: ignore[union-attr]  # ty: ignore[missing-union-attribute]

    def nested_table(self, name: str) -> Sequence[LoopIteration] | IterationTable:
        """Iterations of the nested loop `name` of all iterations of the group, concatenated into one table.

        Side effect: the range of nested iterations of each iteration is stored in its offsets `FIRST_ITERATION_PREFIX`
        + name (first iteration) and `ITERATION_COUNT_PREFIX` + name (number of iterations).
        """
        nested: list[LoopIteration] = []
        for iteration in self.iterations:
            iterations = iteration.nested_iterations.get(name, ())
            iteration.offsets[FIRST_ITERATION_PREFIX + name] = ArenaOffset("", len(nested))
            iteration.offsets[ITERATION_COUNT_PREFIX + name] = ArenaOffset("", len(iterations))
            nested.extend(iterations)
        return nested


class ColumnarGroup(SpecializationGroup):
    """Iterations of one specialization stored column by column, for tables with thousands of iterations."""

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
        """Offsets of an array for each iteration, or None if the iterations do not have the array."""
        return self.offset_columns.get(array)

    def array_names(self) -> Iterable[str]:
        """Names of the arrays of the iterations, in order."""
        return self.offset_columns

    def set_column(self, array: str, column: OffsetColumn) -> None:
        """Set the offsets of an array for all iterations."""
        self.offset_columns[array] = column

    def set_offset(self, array: str, offset: ArenaOffset) -> None:
        """Set the offset of an array to the same value in all iterations."""
        self.set_column(array, OffsetColumn.repeated(offset, len(self.iteration_indices)))

    def has_array(self, array: str) -> bool:
        """Whether the iterations have an array of this name."""
        return self.find_column(array) is not None

    def arenas(self, used: Collection[str]) -> dict[str, str]:
        """Map each array in `used` to its arena, in the order of the iterations' arrays."""
        columns = ((a, self.find_column(a)) for a in self.array_names() if a in used)
        return {a: column.arena for a, column in columns if column is not None}

    def start_offsets(self, array: str) -> npt.ArrayLike:
        """First arena row of an array for each loop iteration."""
        column = self.find_column(array)
        assert column is not None
        return column.rows

    def constant_column(self, name: str, element: int) -> Any:
        """One constant for each iteration: element `element` of the constants `name`."""
        column = self.constants[name]
        assert not isinstance(column, PerEnvParameterColumn)
        return column[:, element]

    def folded_constants(self) -> dict[str, list[float | None]]:
        """Constants folded into the code by name; None for constants that are read from the table."""
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
        """Add the arrays of per-environment parameters to the arrays of the iterations."""
        for name, column in self.constants.items():
            if isinstance(column, PerEnvParameterColumn):
                self.set_column(PER_ENV_PREFIX + name, column.offsets)

    def nested_table(self, name: str) -> Sequence[LoopIteration] | IterationTable:
        """Table of the nested loop `name` of all iterations of the group.

        Sets the columns `FIRST_ITERATION_PREFIX` and `ITERATION_COUNT_PREFIX` + name to each iteration's range of
        nested iterations.
        """
        nested = self.nested_tables[name]
        self.set_column(
            FIRST_ITERATION_PREFIX + name,
            OffsetColumn("", np.cumsum(nested.iteration_counts) - nested.iteration_counts),
        )
        self.set_column(ITERATION_COUNT_PREFIX + name, OffsetColumn("", nested.iteration_counts))
        return nested.table


class IterationTable:
    """Iterations of a loop, grouped by specialization."""

    def __init__(self, groups: Sequence[SpecializationGroup]) -> None:
        # in canonical order, so that models share code
        self.groups = sorted(groups, key=lambda group: group.specialization_key)
        assert len({group.specialization_key for group in self.groups}) == len(self.groups), (
            "there must be one group for each specialization"
        )
        self.n_rows = sum(len(group.iteration_indices) for group in self.groups)

    @classmethod
    def from_iterations(cls, iterations: Sequence[LoopIteration]) -> IterationTable:
        """Group single iterations by their specialization key."""
        indices_by_key: dict[str, list[int]] = {}
        for i, key in enumerate(_specialization_keys(iterations)):
            indices_by_key.setdefault(key, []).append(i)
        return cls(
            [RowwiseGroup(key, [iterations[i] for i in indices], indices) for key, indices in indices_by_key.items()]
        )

    def __len__(self) -> int:
        return self.n_rows


@dataclass(frozen=True, slots=True, eq=False)
class NestedIterations:
    """Iterations of a nested loop for all iterations of a group, concatenated in order of the outer iterations."""

    table: IterationTable
    iteration_counts: Ints
    """(n_outer_rows,) number of nested iterations of each outer iteration."""


def _specialization_key(specialization: Hashable, per_env: Iterable[tuple[str, tuple[float | None, ...]]]) -> str:
    """Text that identifies a specialization: the specialization record and the folded per-environment parameters."""
    return str(specialization) + "".join(f" {name} {folded}" for name, folded in per_env)


def _specialization_keys(iterations: Sequence[LoopIteration]) -> Iterator[str]:
    """Text key of the specialization of each loop iteration; iterations with equal keys share code.

    Keys of iterations without per-environment parameters are cached by specialization record.
    """
    key_cache: dict[Hashable, str] = {}
    for iteration in iterations:
        if any(isinstance(x, PerEnvParameters) for x in iteration.constants.values()):
            yield iteration.specialization_key
        else:
            specialization = type(iteration.specialization), iteration.specialization
            if specialization not in key_cache:
                key_cache[specialization] = iteration.specialization_key
            yield key_cache[specialization]


def _fold_iterations(values: Sequence[Sequence[Value] | PerEnvParameters]) -> list[float | None]:
    """Constants that are equal and foldable in all iterations, else None, by position (iterations given one by one)."""
    if isinstance(values[0], PerEnvParameters):
        return list(values[0].folded)
    columns = list(zip(*values, strict=True))  # type: ignore[arg-type]
    return [c[0] if c[0] in FOLDABLE_CONSTANTS and len(set(c)) == 1 else None for c in columns]  # type: ignore[list-item]


def _fold_columns(values: Floats) -> list[float | None]:
    """Constants that are equal and foldable in all iterations, else None, by column of `values` (n_rows, n_values)."""
    first = values[0].tolist()
    if len(values) == 1:
        return [x if x in FOLDABLE_CONSTANTS else None for x in first]
    if not any(x in FOLDABLE_CONSTANTS for x in first):
        return [None] * len(first)
    is_equal = (values == values[0]).all(axis=0).tolist()
    return [x if equal and x in FOLDABLE_CONSTANTS else None for x, equal in zip(first, is_equal, strict=True)]


# ------------------------------------------------------------------------------------------------------------ tracing

LoopIterations = Sequence[LoopIteration] | IterationTable
"""Iterations of a for-each loop, one by one or grouped."""


class IterationContext:
    """Access to the arrays and constants of an iteration while the code of a specialization is traced."""

    def __init__(
        self,
        group: SpecializationGroup,
        tracer: Tracer,
        folded: Mapping[str, Sequence[float | None]],
        outer: IterationContext | None = None,
    ) -> None:
        self.group = group
        """All iterations that run this code; tracing may add arrays to them."""
        self.specialization: Any = group.specialization
        self.tracer = tracer
        self._folded = folded if outer is None else {**outer._folded, **folded}
        self._per_env_names = (
            set(group.per_env_names) if outer is None else (outer._per_env_names - folded.keys()) | group.per_env_names
        )

    def read(self, array: str, element: int = 0) -> Value:
        """Load an element of an array of this iteration."""
        if array in self.group.record_fields:
            field = self.group.record_fields[array]
            return self.tracer.read(field.array, field.element)
        return self.tracer.read(array, element)

    def read_array(self, array: str, count: int) -> list[Value]:
        """Load the first `count` elements of an array."""
        return [self.read(array, i) for i in range(count)]

    def constants(self, name: str) -> list[Value]:
        """Constants of this iteration: plain numbers if folded, else loads from the table or per-environment array."""
        if name in self.group.record_fields:
            return [self.read(name)]
        array = PER_ENV_PREFIX if name in self._per_env_names else CONSTANT_PREFIX
        return [self.read(array + name, i) if x is None else x for i, x in enumerate(self._folded[name])]

    def constant(self, name: str) -> Value:
        """First value of the constants `name`."""
        return self.constants(name)[0]

    def has_array(self, array: str) -> bool:
        """Whether the iterations have an array of this name."""
        return array in self.group.record_fields or self.group.has_array(array)

    def set_offset(self, array: str, offset: ArenaOffset) -> None:
        """Set the offset of an array to the same value in all iterations of the specialization."""
        self.group.set_offset(array, offset)

    def write(self, array: str, values: Sequence[Value], element: int = 0) -> None:
        """Store values to consecutive elements of an array at the end of the current basic block."""
        self.tracer.write(array, values, element)

    def nested_loop(self, name: str, body: IterationBody) -> None:
        """Trace the nested loop `name` of this iteration; its body also sees the arrays of this iteration."""
        _add_loop(self.tracer, name, self.group.nested_table(name), body, range_name=name, outer=self)


IterationBody = Callable[[IterationContext], None]
"""Code of an iteration: reads and writes the iteration's arrays."""
IterationFilter = Callable[[IterationContext], "tuple[Value, Value]"]
"""Filter of an iteration: returns (a, b); the iteration passes if a < b."""


def trace_for_each_loop(
    tracer: Tracer,
    name: str,
    iterations: LoopIterations,
    body: IterationBody,
    *,
    no_unroll: bool = False,
    active_iterations: ArenaOffset | None = None,
    joined_rows: tuple[MemoryLocation, ...] = (),
) -> None:
    """Append a for-each loop: the body is traced once per specialization, the iterations are packed into a table.

    Args:
        tracer: receives the `ForEachLoop`; nothing is appended if there are no iterations.
        name: name of the loop.
        iterations: specialization, array offsets and constants of each iteration.
        body: code of an iteration.
        no_unroll: whether the loop is kept when the program is unrolled.
        active_iterations: offset of a list of the iterations that run, preceded by its length; None for all.
        joined_rows: memory locations of the row numbers of a joined loop, one per table of its `JoinedGroup`.
    """
    options = {"joined_rows": joined_rows} if joined_rows else {}
    _add_loop(tracer, name, iterations, body, no_unroll=no_unroll, active_iterations=active_iterations, **options)


def trace_work_queue_loop(
    tracer: Tracer, name: str, iterations: LoopIterations, filters: Sequence[IterationFilter], work: IterationBody
) -> None:
    """Append a work-queue loop: `work` runs only for (iteration, environment) pairs that pass all filters.

    A filter returns (a, b), and an iteration passes if a < b; later filters run only for iterations that passed the
    earlier ones. The code of filters and work is traced once per specialization of the iterations.
    """
    flag = f"{tracer.prefix}filter flag {len(tracer.locals)}"

    def run_filter(iteration_filter: IterationFilter, iteration: IterationContext) -> None:
        iteration.tracer.write(flag, [select(*iteration_filter(iteration), 1.0, 0.0)])

    bodies = [*(partial(run_filter, iteration_filter) for iteration_filter in filters), work]
    loops = [_pack_loop(tracer, name, iterations, body, prefix=f"{i} ") for i, body in enumerate(bodies)]
    *filter_loops, (work_loop, _) = loops
    local_arrays = {local: count for _, locals_ in loops for local, count in locals_.items()}
    tracer.add_statement(
        WorkQueueLoop(name, tuple(loop for loop, _ in filter_loops), MemoryLocation(flag, 0), work_loop),
        {**local_arrays, flag: 1},
    )


def _add_loop(
    tracer: Tracer,
    name: str,
    iterations: LoopIterations,
    body: IterationBody,
    outer: IterationContext | None = None,
    **options: Any,
) -> None:
    """Append a for-each loop to the program, unless there are no iterations; options as of `_pack_loop`."""
    if iterations:
        tracer.add_statement(*_pack_loop(tracer, name, iterations, body, outer, **options))


def _pack_loop(
    tracer: Tracer,
    name: str,
    iterations: LoopIterations,
    body: IterationBody,
    outer: IterationContext | None = None,
    prefix: str = "",
    **options: Any,
) -> tuple[ForEachLoop, dict[str, int]]:
    """Trace the body of a for-each loop for each specialization; pack the iterations into an integer and a float table.

    Integers are the specialization index (if there are several specializations) and the array offsets; floats are the
    constants that are not folded into the code. Returns the loop and the sizes of the local arrays of its code. `outer`
    is the context of the enclosing iteration, `options` are further fields of `ForEachLoop`.
    """
    table = iterations if isinstance(iterations, IterationTable) else IterationTable.from_iterations(iterations)
    n_key_columns = int(len(table.groups) > 1)
    specializations: list[LoopSpecialization] = []
    local_arrays: dict[str, int] = {}
    for specialization_index, group in enumerate(table.groups):
        specialization_prefix = f"{prefix}{tracer.prefix}{len(tracer.locals)} {specialization_index} "
        specialization, specialization_locals = _trace_specialization(
            group, body, n_key_columns, Tracer(specialization_prefix, differentiable=tracer.differentiable), outer
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
    if options.get("joined_rows"):
        assert len(table.groups) == 1, "a joined loop has one specialization"
        options["joined_tables"] = _joined_tables(table.groups[0], specializations[0])
    return ForEachLoop(name, tuple(specializations), ints, floats, **options), local_arrays


def _joined_tables(
    group: SpecializationGroup, specialization: LoopSpecialization
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Index of the table that each integer column and each column of constants of a joined loop is from."""
    arrays = sorted(specialization.array_columns, key=lambda array: specialization.array_columns[array][1])
    constants = sorted(specialization.constant_columns, key=lambda x: specialization.constant_columns[x])
    names = [location.array.removeprefix(CONSTANT_PREFIX) for location in constants]
    return tuple(map(group.table_of_array, arrays)), tuple(map(group.table_of_constants, names))


def _trace_specialization(
    group: SpecializationGroup, body: IterationBody, first_column: int, tracer: Tracer, outer: IterationContext | None
) -> tuple[LoopSpecialization, dict[str, int]]:
    """Trace the loop body for one specialization, and assign table columns to its arrays and constants.

    Returns the `LoopSpecialization` and the sizes of the local arrays of `tracer`, which is empty before. Array columns
    start at `first_column`; `outer` is the context of the enclosing iteration of a nested loop.
    """
    folded = group.folded_constants()
    group.add_per_env_arrays()
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
    """Names of the iteration ranges of the outermost nested for-each loops."""
    for block in statements:
        if isinstance(block, ForEachLoop) and block.range_name:
            yield block.range_name
        elif not isinstance(block, ForEachLoop):
            for body in nested_bodies(block):
                yield from _nested_loop_names(body)
