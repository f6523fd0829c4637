"""Loops over records in scratch memory whose iterations join rows of several tables, such as the bodies of a contact.

A record names the rows. Loops over all pairs of bodies that are in contact in a step need no table of pairs this way:
one table of bodies serves for both bodies of a pair, and the size of all tables is linear in the number of bodies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from kinema.ir import (
    SCRATCH,
    ArenaOffset,
    IterationContext,
    IterationTable,
    MemoryLocation,
    Value,
    trace_for_each_loop as trace_loop,
)

from .loop_context import LoopContext
from .node_tables import JoinedColumns


@dataclass(frozen=True, slots=True, eq=False)
class RecordList:
    """List of records in scratch memory: its length, then the records."""

    offset: ArenaOffset
    record_size: int
    capacity: int
    """Maximum number of records."""

    @classmethod
    def allocate(cls, ctx: LoopContext, record_size: int, capacity: int) -> RecordList:
        """Allocate scratch memory for a list."""
        return cls(ctx.allocate(1 + record_size * capacity), record_size, capacity)

    def clear(self, ctx: LoopContext) -> None:
        """Write the length 0."""
        ctx.tracer.write(SCRATCH, [0.0], self.offset.row)

    def length(self, ctx: LoopContext) -> Value:
        """Read the length."""
        return ctx.tracer.read(SCRATCH, self.offset.row)


@dataclass(frozen=True, slots=True, eq=False)
class RecordRange:
    """Consecutive entries of a list of records in another order, chosen at run time."""

    order: ArenaOffset
    """Index of each record, in that order."""
    bounds: ArenaOffset
    """First entry, and number of entries."""


def for_each_record(
    ctx: LoopContext,
    name: str,
    records: RecordList,
    row_fields: Sequence[int],
    make_group: Callable[[Mapping[str, MemoryLocation]], JoinedColumns],
    field_names: Sequence[str],
    body: Callable[[IterationContext], None],
    selected: RecordRange | None = None,
) -> None:
    """Trace a loop over the records of a list; each iteration joins the rows that the record names.

    Args:
        ctx: tracing context.
        name: label of the loop.
        records: the list.
        row_fields: position in the record of the row of each table.
        make_group: makes the tables, given the places of the fields of a record in local memory, by name.
        field_names: names of the fields of a record; the body reads them like arrays. The index of the record follows.
        body: code of a record.
        selected: the records that are visited; None for all.
    """
    tracer = ctx.tracer
    record = tracer.allocate_local(records.record_size + 1)
    fields = {field: MemoryLocation(record, i) for i, field in enumerate([*field_names, "record index"])}
    group = make_group(fields)

    def visit_selected(position: Value) -> None:
        assert selected is not None
        first = tracer.read(SCRATCH, selected.bounds.row)
        visit(tracer.read(SCRATCH, selected.order.row, first + position))

    def visit(index: Value) -> None:
        start = records.offset.row + 1
        offset = index * float(records.record_size)
        values = [tracer.read(SCRATCH, start + i, offset) for i in range(records.record_size)]
        tracer.write(record, [*values, index])

        def run(iteration: IterationContext) -> None:
            ctx._iteration = iteration
            body(iteration)
            ctx._iteration = None

        rows = tuple(MemoryLocation(record, field) for field in row_fields)
        trace_loop(tracer, name, IterationTable([group]), run, no_unroll=True, joined_rows=rows)

    if selected is None:
        tracer.counted_loop(name, records.length(ctx), visit)
    else:
        tracer.counted_loop(name, tracer.read(SCRATCH, selected.bounds.row + 1), visit_selected)
