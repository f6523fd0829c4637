"""Records of scalars per frame or link in scratch memory, and flattening of records to lists of scalars."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from kinema.ir import SCRATCH, ArenaOffset, IterationContext, OffsetColumn, RowwiseGroup, Scalar, Value

from .kinematic_tree import NodeRef, NodeRefs
from .node_tables import JoinedColumns, NodeColumns, NodeIteration, OffsetRegistry

# ------------------------------------------------------------------------------------------------ flattening of records

RecordT = TypeVar("RecordT")


_SCALARS = (Scalar, float, int)


@cache
def _field_names(kind: type) -> tuple[str, ...] | None:
    """Field names of a dataclass type; None for lists and tuples."""
    return tuple(field.name for field in fields(kind)) if is_dataclass(kind) else None


def flatten(record: Any) -> list[Value]:
    """All scalars of a record (nested dataclasses, lists and tuples) as a flat list, in field order."""
    scalars: list[Value] = []
    _flatten_into(record, scalars)
    return scalars


def _flatten_into(record: Any, scalars: list[Value]) -> None:
    if isinstance(record, _SCALARS):
        scalars.append(record)
    else:
        for part in _children(record):
            _flatten_into(part, scalars)


def unflatten(template: RecordT, values: Sequence[Value]) -> RecordT:
    """A record of the structure of `template` filled with the given scalars in field order; inverse of `flatten`."""
    rest = iter(values)
    return _map_scalars(lambda _: next(rest), template)


def add_records(a: RecordT, b: RecordT) -> RecordT:
    """Elementwise sum of two records of the same structure."""
    return _map_scalars(lambda x, y: x + y, a, b)


def _map_scalars(function: Callable[..., Value], first: RecordT, *others: RecordT) -> RecordT:
    """Apply a function elementwise to the scalars of one or more equally structured records; returns such a record."""
    if isinstance(first, _SCALARS):
        return function(first, *others)  # type: ignore[return-value]  # ty: ignore[invalid-explicit-return]
    if others:
        results = [
            _map_scalars(function, *children)
            for children in zip(*(_children(r) for r in (first, *others)), strict=True)
        ]
    else:
        results = [_map_scalars(function, child) for child in _children(first)]
    if isinstance(first, list):
        return results  # type: ignore[return-value]  # ty: ignore[invalid-explicit-return]
    return tuple(results) if isinstance(first, tuple) else type(first)(*results)  # type: ignore[return-value]  # ty: ignore[invalid-explicit-return]


def _children(record: Any) -> Iterable[Any]:
    names = _field_names(type(record))
    return record if names is None else [getattr(record, name) for name in names]


# ------------------------------------------------------------------------------------ values per node in scratch memory

R = TypeVar("R")


class ScratchContext(Protocol):
    """Context in which node values live: scratch allocator, offset registry and the code being traced."""

    registry: OffsetRegistry

    @property
    def iteration(self) -> IterationContext:
        """Code of the loop specialization being traced."""
        ...

    def allocate(self, count: int, *, oversized: bool = False) -> ArenaOffset:
        """Allocate `count` scalars of scratch memory."""
        ...

    def allocate_fixed(self, count: int) -> ArenaOffset:
        """Allocate scalars at offsets that are the same for all models, for code outside of loops."""
        ...


MIN_COLUMN_LENGTH = 256
"""Number of nodes from which on memory is allocated and registered by columns instead of node by node."""


class NodeValues(Generic[R]):
    """One record of scalars (for example a pose) per frame or link, stored in scratch memory.

    In traced loop bodies, `values[ref]` reads the record of a node and `put` writes it; the node is named by the prefix
    of the loop iteration (`NodeRef.index` a string). Memory is allocated on the first write.
    """

    def __init__(self, ctx: ScratchContext, name: str) -> None:
        self.ctx = ctx
        self.name = name
        self._offsets: dict[NodeRef, ArenaOffset] = {}
        """Scratch offsets of the records of nodes that are allocated one by one."""
        self._templates: dict[NodeRef, R] = {}
        """A record of the structure that is stored, for these nodes."""
        self._columns: list[tuple[NodeRefs, R]] = []
        """Nodes whose offsets are registered by columns, with a record of the structure that is stored."""

    def find_offset(self, ref: NodeRef) -> ArenaOffset | None:
        """Scratch offset of the record of a node; None before it is allocated."""
        offset = self._offsets.get(ref)
        return self.ctx.registry.find(ref, self.name) if offset is None and self._columns else offset

    def offset_of(self, ref: NodeRef) -> ArenaOffset:
        """Scratch offset of the record of a node, which is allocated."""
        offset = self.find_offset(ref)
        assert offset is not None, "read before it is written"
        return offset

    def template_of(self, ref: NodeRef) -> R:
        """A record of the structure that is stored for a node."""
        if ref in self._templates:
            return self._templates[ref]
        return next(t for refs, t in self._columns if refs.node_type is ref.node_type and ref.index in refs.index)

    def allocate(self, ref: NodeRef, template: R, *, fixed: bool = False) -> ArenaOffset:
        """Allocate scratch memory for the record of a node unless it has some, and return its offset.

        With `fixed` the offset is the same for all models.
        """
        offset = self.find_offset(ref)
        if offset is None:
            take = self.ctx.allocate_fixed if fixed else self.ctx.allocate
            offset = take(len(flatten(template)))
            self._register(ref, offset, template)
        return offset

    def allocate_columns(self, refs: NodeRefs, template: R) -> OffsetColumn:
        """Allocate scratch memory for the values of frames or links where missing; returns the offset column."""
        registry = self.ctx.registry
        column = registry.column(refs, self.name)
        if column is not None:
            return column
        count, unique = len(flatten(template)), refs.unique_refs()
        if len(unique) == len(refs.index) >= MIN_COLUMN_LENGTH and not registry.has_any(refs, self.name):
            start = self.ctx.allocate(count * len(unique))
            column = OffsetColumn(SCRATCH, start.row + count * np.arange(len(unique)))
            self.assign_columns(refs, column, template)
            return column
        for ref in unique:
            self.allocate(ref, template)
        column = registry.column(refs, self.name)
        assert column is not None
        return column

    def assign_columns(self, refs: NodeRefs, column: OffsetColumn, template: R) -> None:
        """Store the records of nodes at scratch offsets chosen by the caller."""
        self._columns.append((refs, template))
        self.ctx.registry.register_column(refs, self.name, column)

    def assign_offsets(self, offsets: Mapping[NodeRef, ArenaOffset], templates: Mapping[NodeRef, R]) -> None:
        """Store the records of nodes at scratch offsets chosen by the caller, node by node."""
        for ref, template in templates.items():
            self._register(ref, offsets[ref], template)

    def allocate_contiguous(self, templates: Mapping[NodeRef, R]) -> ArenaOffset:
        """Allocate one contiguous scratch range for the values of several frames or links; returns its start.

        The order is that of `templates`, which maps each frame or link to a record of the size and structure of its
        value.
        """
        counts = [len(flatten(template)) for template in templates.values()]
        start = self.ctx.allocate(sum(counts))
        if len(counts) >= MIN_COLUMN_LENGTH and len(set(counts)) == 1:
            refs, rows = NodeRefs.from_refs([*templates]), start.row + counts[0] * np.arange(len(counts))
            self.assign_columns(refs, OffsetColumn(SCRATCH, rows), next(iter(templates.values())))
            return start
        row = start.row
        for (ref, template), count in zip(templates.items(), counts, strict=True):
            self._register(ref, ArenaOffset(SCRATCH, row), template)
            row += count
        return start

    def _register(self, ref: NodeRef, offset: ArenaOffset, template: R) -> None:
        self._offsets[ref], self._templates[ref] = offset, template
        self.ctx.registry.register(ref, self.name, offset)

    def array_name(self, ref: NodeRef) -> str:
        """Name of the array in a loop iteration: the prefix of the node followed by the name of the values."""
        return f"{ref.index}{self.name}"

    def __getitem__(self, ref: NodeRef) -> R:
        iteration = self.ctx.iteration
        template = self.template_of(first_bound_node(iteration, str(ref.index)))
        return unflatten(template, iteration.read_array(self.array_name(ref), len(flatten(template))))

    def put(self, ref: NodeRef, record: R) -> None:
        """Write the value of a frame or link in the loop body being traced, allocating its memory on first use."""
        iteration = self.ctx.iteration
        group, prefix = iteration.group, str(ref.index)
        if isinstance(group, NodeColumns | JoinedColumns):
            group.set_column(self.array_name(ref), self.allocate_columns(group.bindings[prefix], record))
        else:
            for row in node_iterations(iteration):
                row.offsets[self.array_name(ref)] = self.allocate(row.bindings[prefix], record)
        iteration.write(self.array_name(ref), flatten(record))

    def add(self, ref: NodeRef, increment: R) -> None:
        """Add a record elementwise to the record of a node in the loop body being traced."""
        self.put(ref, add_records(self[ref], increment))


def node_iterations(iteration: IterationContext) -> list[NodeIteration]:
    """Loop iterations of the loop specialization being traced; requires a row-wise group over frames or links."""
    assert isinstance(iteration.group, RowwiseGroup)
    rows = [row for row in iteration.group.iterations if isinstance(row, NodeIteration)]
    assert len(rows) == len(iteration.group.iterations), "only iterations over frames and links have node values"
    return rows


def first_bound_node(iteration: IterationContext, prefix: str) -> NodeRef:
    """The node that a prefix is bound to in the first loop iteration of the loop specialization being traced."""
    group = iteration.group
    if isinstance(group, NodeColumns | JoinedColumns):
        return group.bindings[prefix].first
    assert isinstance(group, RowwiseGroup)
    row = group.iterations[0]
    assert isinstance(row, NodeIteration)
    return row.bindings[prefix]
