"""Loop iterations over frames and links, row-wise or columnar, and registry of each node's arena offsets.

An iteration binds prefixes to nodes: its array `<prefix><name>` is the array `<name>` of the bound node. Iterations
look arrays up on demand instead of copying all offsets, which matters for large models.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

import numpy as np
import numpy.typing as npt

from kinema.ir import (
    ArenaOffset,
    ColumnarGroup,
    IterationTable,
    LoopIteration,
    LoopIterations,
    MemoryLocation,
    NestedIterations,
    OffsetColumn,
    PerEnvParameterColumn,
    PerEnvParameters,
    RowwiseGroup,
)

from .kinematic_tree import WORLD, Ints, NodeRef, NodeRefs, NodeType


class _RegisteredArray:
    """Start offsets of one array for all nodes that have it."""

    def __init__(self, arena: str) -> None:
        self.arena = arena
        self.rows: dict[int, int] = {}
        self._columns: list[tuple[Ints, Ints]] = []
        self._starts: npt.NDArray[np.int64] | None = None

    def register(self, node_index: int, offset: ArenaOffset) -> None:
        assert offset.arena == self.arena, "one arena for each array"
        self.rows[node_index] = offset.row
        self._starts = None

    def register_column(self, node_indices: Ints, starts: Ints) -> None:
        self._columns.append((node_indices, starts))
        self._starts = None

    def start_offsets(self) -> npt.NDArray[np.int64]:
        """Start offsets by node index plus one (the world comes first); -1 for nodes without the array."""
        if self._starts is None:
            columns = [*self._columns, (np.array([*self.rows], np.int64), np.array([*self.rows.values()], np.int64))]
            self._starts = np.full(max(int(nodes.max(initial=WORLD)) for nodes, _ in columns) + 2, -1, np.int64)
            for nodes, starts in columns:
                self._starts[nodes + 1] = starts
        return self._starts

    def offset_of(self, node_index: int) -> ArenaOffset | None:
        """Start offset for a node; None without the array."""
        starts = self.start_offsets()
        start = int(starts[node_index + 1]) if node_index + 1 < len(starts) else -1
        return ArenaOffset(self.arena, start) if start >= 0 else None


class OffsetRegistry:
    """Arena offsets of all arrays of every frame and link, in order of registration."""

    def __init__(self) -> None:
        self._offsets: dict[NodeRef, dict[str, ArenaOffset]] = {}
        self._registration_order: dict[NodeRef, dict[str, int]] = {}
        self._arrays: dict[tuple[bool, str], _RegisteredArray] = {}
        self._columns: dict[NodeType, dict[str, tuple[int, _RegisteredArray]]] = {}
        """Arrays registered by columns, with their number in the order of registration."""
        self.count = 0
        """Number of registrations so far."""

    def register(self, ref: NodeRef, name: str, offset: ArenaOffset) -> None:
        """Register the arena offset of a named array of a frame or link, for lookup by loops traced later."""
        self._offsets.setdefault(ref, {})[name] = offset
        self._registration_order.setdefault(ref, {})[name] = self.count
        self.count += 1
        if isinstance(ref.index, int):
            key = ref.node_type is NodeType.FRAMES, name
            registered = self._arrays.get(key)
            if registered is None:
                registered = self._arrays[key] = _RegisteredArray(offset.arena)
            registered.register(ref.index, offset)

    def register_column(self, refs: NodeRefs, name: str, column: OffsetColumn) -> None:
        """Register the arena offsets of a named array of many frames or links."""
        is_frame = refs.node_type is NodeType.FRAMES
        registered = self._arrays.setdefault((is_frame, name), _RegisteredArray(column.arena))
        registered.register_column(refs.index, column.rows)
        self._columns.setdefault(refs.node_type, {}).setdefault(name, (self.count, registered))
        self.count += 1

    def names_registered_before(self, ref: NodeRef, count: int) -> Iterator[str]:
        """Names of the arrays of a node among the first `count` registrations."""
        positions, names = self._registration_order.get(ref, {}), self.offsets_of(ref)
        columns = self._columns_of(ref)
        if columns:
            positions = {**positions, **{name: position for name, (position, _) in columns.items()}}
            names = sorted(names, key=positions.__getitem__)
        return takewhile(lambda name: positions[name] < count, names)

    def offsets_of(self, ref: NodeRef) -> Mapping[str, ArenaOffset]:
        """Arena offsets of all arrays of a node by name."""
        own, columns = self._offsets.get(ref, {}), self._columns_of(ref)
        if not columns:
            return own
        found = {name: array.offset_of(int(ref.index)) for name, (_, array) in columns.items()}
        return {**own, **{name: offset for name, offset in found.items() if offset is not None}}

    def find(self, ref: NodeRef, name: str) -> ArenaOffset | None:
        """Arena offset of a named array of a node; None without the array."""
        found = self._columns_of(ref).get(name)
        return self._offsets.get(ref, {}).get(name) if found is None else found[1].offset_of(int(ref.index))

    def has_any(self, refs: NodeRefs, name: str) -> bool:
        """Whether any of the nodes has the named array."""
        registered = self._arrays.get((refs.node_type is NodeType.FRAMES, name))
        if registered is None:
            return False
        starts = registered.start_offsets()
        return bool((starts[refs.index[refs.index + 1 < len(starts)] + 1] >= 0).any())

    def _columns_of(self, ref: NodeRef) -> Mapping[str, tuple[int, _RegisteredArray]]:
        return self._columns.get(ref.node_type, {}) if isinstance(ref.index, int) else {}

    def column(self, refs: NodeRefs, name: str) -> OffsetColumn | None:
        """Arena offsets of a named array for many frames or links as a table column; None unless all have the array."""
        registered = self._arrays.get((refs.node_type is NodeType.FRAMES, name))
        if registered is None:
            return None
        starts = registered.start_offsets()
        if refs.max_index + 2 > len(starts):
            return None
        rows = starts[refs.index + 1]
        return OffsetColumn(registered.arena, rows) if not np.count_nonzero(rows < 0) else None


class IterationOffsets(MutableMapping[str, ArenaOffset]):
    """Arena offsets of the arrays of a loop iteration: its own arrays, and arrays of bound nodes and the environment.

    Lookup finds arrays registered after construction; iterating lists only arrays registered before, and added ones.
    """

    __slots__ = ("_added", "_bindings", "_env_offsets", "_iteration_offsets", "_n_registered", "_registry")

    def __init__(
        self,
        iteration_offsets: Mapping[str, ArenaOffset],
        bindings: Mapping[str, NodeRef],
        registry: OffsetRegistry,
        env_offsets: Mapping[str, ArenaOffset],
    ) -> None:
        self._iteration_offsets = dict(iteration_offsets)
        self._bindings = bindings
        self._registry = registry
        self._env_offsets = env_offsets
        self._n_registered = registry.count
        self._added: dict[str, ArenaOffset] = {}

    @property
    def iteration_offsets(self) -> Mapping[str, ArenaOffset]:
        """Arena offsets of the iteration's own arrays, without arrays of bound nodes and the environment."""
        return self._iteration_offsets

    def _find(self, name: str) -> ArenaOffset | None:
        """Arena offset of an array by name: added, of the iteration, the environment or a bound node; else None."""
        offset = self._added.get(name) or self._iteration_offsets.get(name) or self._env_offsets.get(name)
        if offset is not None:
            return offset
        for prefix, ref in self._bindings.items():
            if name.startswith(prefix):
                offset = self._registry.offsets_of(ref).get(name[len(prefix) :])
                if offset is not None:
                    return offset
        return None

    def __getitem__(self, name: str) -> ArenaOffset:
        offset = self._find(name)
        if offset is None:
            raise KeyError(name)
        return offset

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._find(name) is not None

    def __setitem__(self, name: str, offset: ArenaOffset) -> None:
        self._added[name] = offset

    def __delitem__(self, name: str) -> None:
        del self._added[name]

    def __iter__(self) -> Iterator[str]:
        yield from dict.fromkeys(self._names())

    def _names(self) -> Iterator[str]:
        yield from self._iteration_offsets
        for prefix, ref in self._bindings.items():
            yield from (prefix + name for name in self._registry.names_registered_before(ref, self._n_registered))
        yield from self._env_offsets
        yield from self._added

    def __len__(self) -> int:
        return sum(1 for _ in self)


NodeBindings = Mapping[str, NodeRef]
"""The node that each prefix of an iteration is bound to."""


@dataclass(frozen=True, slots=True, eq=False)
class NodeIteration(LoopIteration):
    """Loop iteration of one frame or link, with the nodes that its prefixes are bound to."""

    bindings: NodeBindings = field(default_factory=dict)


class NodeColumns(ColumnarGroup):
    """Columnar loop iterations over frames or links with one specialization.

    Iterations find their own arrays, those of the nodes their prefixes are bound to, and those of the environment.
    """

    def __init__(
        self,
        specialization: Hashable,
        iteration_indices: npt.NDArray[np.intp],
        offset_columns: Mapping[str, OffsetColumn],
        constants: Mapping[str, npt.NDArray[np.float64] | PerEnvParameterColumn],
        bindings: Mapping[str, NodeRefs],
        registry: OffsetRegistry,
        env_offsets: Mapping[str, ArenaOffset],
        nested_tables: Mapping[str, NestedIterations] | None = None,
    ) -> None:
        super().__init__(specialization, iteration_indices, offset_columns, constants, nested_tables)
        self.bindings = bindings
        """The nodes that each prefix is bound to, one per iteration."""
        self._registry = registry
        self._env_offsets = env_offsets
        self._n_registered = registry.count
        self._added_columns: dict[str, OffsetColumn] = {}
        self._resolved_columns: dict[str, OffsetColumn] = {}

    def with_current_offsets(
        self,
        more_columns: Mapping[str, OffsetColumn] | None = None,
        more_constants: Mapping[str, npt.NDArray[np.float64]] | None = None,
        nested_tables: Mapping[str, NestedIterations] | None = None,
    ) -> NodeColumns:
        """Copy that sees all arrays registered so far, with more columns, constants or nested tables."""
        columns, constants = (
            {**self.offset_columns, **(more_columns or {})},
            {**self.constants, **(more_constants or {})},
        )
        result = NodeColumns(
            self.specialization,
            self.iteration_indices,
            columns,
            constants,
            self.bindings,
            self._registry,
            self._env_offsets,
            nested_tables,
        )
        result._fold_cache = self._fold_cache
        return result

    def find_column(self, array: str) -> OffsetColumn | None:
        """Column of the arena offsets of an array; None if the iterations do not have the array."""
        column = self._added_columns.get(array) or self.offset_columns.get(array) or self._resolved_columns.get(array)
        if column is None and (column := self._resolve(array)) is not None:
            self._resolved_columns[array] = column
        return column

    def _resolve(self, array: str) -> OffsetColumn | None:
        """Column of an array of the environment or of a bound node; None if there is none."""
        if array in self._env_offsets:
            return OffsetColumn.repeated(self._env_offsets[array], len(self.iteration_indices))
        for prefix, refs in self.bindings.items():
            if array.startswith(prefix):
                column = self._registry.column(refs, array[len(prefix) :])
                if column is not None:
                    return column
        return None

    def set_column(self, array: str, column: OffsetColumn) -> None:
        """Add or replace the column of arena offsets of an array."""
        self._added_columns[array] = column

    def array_names(self) -> Iterable[str]:
        """Names of all arrays of the iterations, in order of registration."""
        return dict.fromkeys(self._all_names())

    def _all_names(self) -> Iterator[str]:
        yield from self.offset_columns
        for prefix, refs in self.bindings.items():
            yield from (
                prefix + name for name in self._registry.names_registered_before(refs.first, self._n_registered)
            )
        yield from self._env_offsets
        yield from self._added_columns


class JoinedColumns(ColumnarGroup):
    """Iterations that join one row of each of several tables; an array belongs to the table whose nodes it is of."""

    def __init__(self, tables: Sequence[NodeColumns], record_fields: Mapping[str, MemoryLocation]) -> None:
        self.tables = tables
        self.record_fields = record_fields
        self._n_rows = max(len(table.iteration_indices) for table in tables)
        constants = {name: self._padded(x) for table in tables for name, x in table.constants.items()}  # type: ignore[arg-type]
        bindings = {prefix: refs for table in tables for prefix, refs in table.bindings.items()}
        super().__init__(tables[0].specialization, np.arange(self._n_rows), {}, constants)
        self.bindings = bindings
        """The nodes that each prefix is bound to, one per row of its table."""
        self._added_columns: dict[str, OffsetColumn] = {}
        self._resolved_columns: dict[str, OffsetColumn] = {}

    def _padded(self, column: np.ndarray) -> np.ndarray:
        """Column of a shorter table with its last row repeated."""
        return np.concatenate([column, np.repeat(column[-1:], self._n_rows - len(column), axis=0)])

    def find_column(self, array: str) -> OffsetColumn | None:
        """Offsets of an array by row of the table that has it; None if no table has the array."""
        column = self._added_columns.get(array) or self._resolved_columns.get(array)
        if column is None:
            found = next((x for table in self.tables if (x := table.find_column(array)) is not None), None)
            if found is not None:
                column = self._resolved_columns[array] = OffsetColumn(found.arena, self._padded(found.rows))
        return column

    def set_column(self, array: str, column: OffsetColumn) -> None:
        """Set the offsets of an array of bound nodes, by row of the table of these nodes, or of all iterations."""
        for table in self.tables:
            if any(prefix and array.startswith(prefix) for prefix in table.bindings):
                table.set_column(array, column)
                return
        self._added_columns[array] = column

    def array_names(self) -> Iterable[str]:
        """Names of all arrays of the tables."""
        names = [name for table in self.tables for name in table.array_names()]
        return dict.fromkeys([*names, *self._added_columns])

    def table_of_array(self, array: str) -> int:
        """Index of the table that has an array."""
        if array in self._added_columns:
            return 0
        return next(i for i, table in enumerate(self.tables) if table.find_column(array) is not None)

    def table_of_constants(self, name: str) -> int:
        """Index of the table that has constants."""
        return next(i for i, table in enumerate(self.tables) if name in table.constants)


def iterations_to_columns(
    rows: Sequence[NodeIteration], registry: OffsetRegistry, env_offsets: Mapping[str, ArenaOffset]
) -> list[NodeColumns]:
    """Convert loop iterations of frames or links to columnar form (struct of arrays), one group per specialization.

    Constants must be numeric or per-environment parameters.
    """
    return [
        _group_to_columns(group, registry, env_offsets)
        for group in IterationTable.from_iterations(rows).groups
        if isinstance(group, RowwiseGroup)
    ]


def _group_to_columns(
    group: RowwiseGroup, registry: OffsetRegistry, env_offsets: Mapping[str, ArenaOffset]
) -> NodeColumns:
    """Columnar form of the iterations of one specialization: columns of array offsets, constants and bound nodes."""
    rows = [row for row in group.iterations if isinstance(row, NodeIteration)]
    first, iteration_offsets = (
        rows[0],
        [row.offsets.iteration_offsets for row in rows if isinstance(row.offsets, IterationOffsets)],
    )
    columns = {
        name: OffsetColumn.from_offsets([own[name] for own in iteration_offsets]) for name in iteration_offsets[0]
    }
    constants: dict[str, npt.NDArray[np.float64] | PerEnvParameterColumn] = {}
    for name, values in first.constants.items():
        if isinstance(values, PerEnvParameters):
            offsets = [row.constants[name].offset for row in rows]  # type: ignore[union-attr]  # ty: ignore[missing-union-attribute]
            constants[name] = PerEnvParameterColumn(OffsetColumn.from_offsets(offsets), values.folded)
        else:
            constants[name] = np.array([row.constants[name] for row in rows], np.float64).reshape(len(rows), -1)
    bindings = {prefix: NodeRefs.from_refs([row.bindings[prefix] for row in rows]) for prefix in first.bindings}
    return NodeColumns(
        first.specialization, group.iteration_indices, columns, constants, bindings, registry, env_offsets
    )


def make_table(rows: Sequence[NodeIteration] | Sequence[NodeColumns]) -> LoopIterations:
    """Iteration table over frames or links, given row-wise or in columnar form."""
    columns = [x for x in rows if isinstance(x, NodeColumns)]
    return IterationTable(columns) if columns else [x for x in rows if isinstance(x, NodeIteration)]
