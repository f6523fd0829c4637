"""Contacts of models with rules of collision: a pool of records, and a list of the pairs of geoms that are in contact.

The counterpart of `ContactBuffers`, which has memory for every pair of bodies. A pair in contact is a record: rows of
its two bodies in one table of all bodies, and the range of its contacts in the pool. Loops over pairs in contact join
the rows (`tree/joined_columns.py`), so that the memory and the tables are linear in the number of bodies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from kinema.ir import (
    SCRATCH,
    ArenaOffset,
    IterationContext,
    MemoryLocation,
    OffsetColumn,
    Value,
)

from ..topology import dynamic_frames, tree_index_of_frames
from ..tree.joined_columns import RecordList, RecordRange, for_each_record
from ..tree.kinematic_tree import WORLD, NodeRefs, NodeType
from ..tree.node_tables import JoinedColumns, NodeColumns
from ..tree.per_tree import PerFrameArray, PerTreeArray, StatePerTree
from ..tree.trace_context import TraceContext
from ..vector_math import sum_values
from .contact_buffer_specs import ContactSpecialization, contact_capacity
from .contact_buffers import ContactBufferFilter
from .contact_records import Contact, buffer_layout, for_each_contact, for_each_lane_of_contacts
from .pair_kinds import pool_specializations

PAIRS_PER_GEOM = 8
"""Capacity of each list of pairs in contact, per geom."""
PAIR_FIELDS = ("row a", "row b", "first contact", "count", "first record", "geom a", "geom b")
"""Values of a pair in contact: rows of its bodies (of contacts with the world, `row b` is that of the body), number of
contacts before it, number of its contacts, index of its first record in the pool, geoms in the order of the pair."""
SIMD_GROUP_SIZE = 4
"""Number of contacts whose records are interleaved for SIMD code: most pairs of boxes have four contacts."""
MAX_RECORD_SCALARS = 2**24
"""Maximum size of the records of a pool: offsets are floating-point numbers."""


@dataclass(frozen=True, slots=True, eq=False)
class ContactPool:
    """Contacts of one contact dimension and friction cone, and the pairs of bodies in contact, and with the world."""

    specialization: ContactSpecialization
    contacts: ArenaOffset
    n_contacts: ArenaOffset
    n_records: ArenaOffset
    """Number of records, with those of inactive contacts at the end of each pair; in groups of one, of contacts."""
    capacity: int
    """Maximum number of contacts."""
    record_capacity: int
    pairs: Mapping[bool, RecordList]
    """Pairs in contact, by whether the world is the first body."""


@dataclass(frozen=True, slots=True, eq=False)
class PairLoop:
    """Loop over the pairs in contact of a pool, with additional arrays of its iterations."""

    pool: ContactPool
    involves_world: bool
    extra_offsets: Mapping[str, ArenaOffset | PerTreeArray | PerFrameArray | StatePerTree]


class ContactSlots:
    """Contacts of the bodies of a model with rules of collision, in scratch memory."""

    def __init__(self, ctx: TraceContext) -> None:
        self.ctx = ctx
        model = ctx.model
        self.lost_count, self.required_capacity = ctx.allocate(1), ctx.allocate(1)
        """Number of contacts that did not fit, and the capacity per geom that would have sufficed; 0 without."""
        geom_frames = dynamic_frames(model, model.geoms.frame_idx)
        self.frames = np.unique(geom_frames[geom_frames != WORLD])
        """Moving frames with geoms; a row of the table of bodies each."""
        self.row_of_geom = np.where(geom_frames == WORLD, 0, np.searchsorted(self.frames, geom_frames))
        self._trees = np.array(tree_index_of_frames(model))[self.frames]
        n_geoms = len(model.geoms.names)
        capacity = contact_capacity(model) * n_geoms
        self.group_size = SIMD_GROUP_SIZE if ctx.settings.uses_superwords else 1
        self.selected: dict[ArenaOffset, RecordRange] = {}
        """Pairs that loops visit, by the offset of their list; empty for all."""
        self.pools: list[ContactPool] = []
        for specialization in pool_specializations(model):
            lists = {
                world: RecordList.allocate(ctx, len(PAIR_FIELDS), PAIRS_PER_GEOM * n_geoms) for world in (False, True)
            }
            grouped = replace(specialization, group_size=self.group_size)
            size, n_contacts = buffer_layout(grouped).record_size, ctx.allocate(1)
            n_records = n_contacts
            record_capacity = capacity
            if self.group_size > 1:
                n_records = ctx.allocate(1)
                limit = max(capacity, MAX_RECORD_SCALARS // (size * self.group_size) * self.group_size)
                record_capacity = min(self.group_size * capacity, limit)
            records = ctx.allocate((record_capacity + self.group_size) * size)
            self.pools.append(ContactPool(grouped, records, n_contacts, n_records, capacity, record_capacity, lists))

    def clear(self) -> None:
        """Remove all contacts and pairs."""
        tracer = self.ctx.tracer
        counts = dict.fromkeys(x for pool in self.pools for x in (pool.n_contacts, pool.n_records))
        for offset in (self.lost_count, self.required_capacity, *counts):
            tracer.write(SCRATCH, [0.0], offset.row)
        for pool in self.pools:
            for records in pool.pairs.values():
                records.clear(self.ctx)

    # ------------------------------------------------------------------------------------------------------------ loops

    def loops(
        self,
        buffer_filter: ContactBufferFilter = ContactBufferFilter.ALL,
        extra: Mapping[str, ArenaOffset | PerTreeArray | PerFrameArray | StatePerTree] | None = None,
    ) -> list[PairLoop]:
        """Loops over the pairs in contact selected by a filter, contacts with the world first."""
        worlds = {
            ContactBufferFilter.ALL: (True, False),
            ContactBufferFilter.WITH_WORLD: (True,),
            ContactBufferFilter.BETWEEN_FRAMES: (False,),
        }[buffer_filter]
        return [PairLoop(pool, world, extra or {}) for pool in self.pools for world in worlds]

    table_columns = loops

    def for_each_active_buffer(
        self,
        name: str,
        body: Callable[[IterationContext, ContactSpecialization], None],
        rows: Sequence[PairLoop] | None = None,
        buffer_filter: ContactBufferFilter = ContactBufferFilter.ALL,
    ) -> None:
        """Trace loops over the pairs in contact; each iteration binds the prefixes `a ` and `b ` to the two bodies.

        Args:
            name: label of the loops.
            body: traces the code of a pair, given its iteration context and specialization.
            rows: the loops; None for those of the filter without additional arrays.
            buffer_filter: selection of pairs.
        """
        for loop in self.loops(buffer_filter) if rows is None else rows:
            specialization = replace(loop.pool.specialization, involves_world=loop.involves_world)
            with self.ctx.without_unrolling():
                records = loop.pool.pairs[loop.involves_world]
                for_each_record(
                    self.ctx,
                    name,
                    records,
                    [1] if loop.involves_world else [0, 1],
                    partial(self._join_bodies, loop, specialization),
                    PAIR_FIELDS,
                    lambda iteration, specialization=specialization: body(iteration, specialization),
                    self.selected.get(records.offset),
                )

    def _join_bodies(
        self, loop: PairLoop, specialization: ContactSpecialization, fields: Mapping[str, MemoryLocation]
    ) -> JoinedColumns:
        """Tables of the bodies of a loop, with the arrays of the pool in the first table."""
        common = {"contacts": loop.pool.contacts}
        tables: list[NodeColumns] = []
        for side in "b" if loop.involves_world else "ab":
            columns = {} if tables else {n: OffsetColumn.repeated(x, len(self.frames)) for n, x in common.items()}
            for name, offset in loop.extra_offsets.items():
                by_side = name.endswith(f" {side}")
                if by_side or (not name.endswith((" a", " b")) and side == "b"):
                    columns[name] = self._column_of_bodies(offset)
            refs = NodeRefs(NodeType.FRAMES, self.frames)
            tables.append(
                self.ctx.node_columns(specialization, np.arange(len(self.frames)), {f"{side} ": refs}, columns)
            )
        return JoinedColumns(tables, fields)

    def _column_of_bodies(self, offset: ArenaOffset | PerTreeArray | PerFrameArray | StatePerTree) -> OffsetColumn:
        """Offsets of an array for all rows of the table of bodies."""
        if isinstance(offset, ArenaOffset):
            return OffsetColumn.repeated(offset, len(self.frames))
        return offset.column_of(self.frames if isinstance(offset, PerFrameArray) else self._trees)

    def for_each_contact(
        self, iteration: IterationContext, specialization: ContactSpecialization, body: Callable[[Contact], None]
    ) -> None:
        """Trace a loop over the contacts of the current iteration's pair."""
        for_each_contact(iteration, specialization, body)

    def for_each_lane_of_contacts(
        self, iteration: IterationContext, specialization: ContactSpecialization, body: Callable[[Contact], None]
    ) -> None:
        """Trace a loop over the groups of contacts of the current iteration's pair, with `body` for each lane."""
        for_each_lane_of_contacts(iteration, specialization, body)

    def count_contacts(self, *, between_frames: bool = False) -> Value:
        """Trace the number of contacts, or, between bodies, of pairs in contact."""
        if between_frames:
            return sum_values([pool.pairs[False].length(self.ctx) for pool in self.pools])
        return sum_values([self.ctx.tracer.read(SCRATCH, pool.n_contacts.row) for pool in self.pools])

    def select_buffers(self, _buffer_filter: ContactBufferFilter) -> list[ContactPool]:
        """No buffers of fixed pairs of bodies."""
        return []

    def list_active_buffers(self) -> None:
        """Nothing to list: all pairs of the lists are in contact."""
