"""Contact buffers: memory, record layout and loops over the contacts between two bodies (moving frames).

A contact buffer holds the contacts between two bodies (moving frames) with one condim. Its buffer is at an offset known
while tracing, so that the code for all its contacts binds the two frames once, and environments of a SIMD vector have
their contacts at the same offsets.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kinema import ir
from kinema.ir import (
    SCRATCH,
    ArenaOffset,
    ColumnarGroup,
    IterationContext,
    IterationTable,
    LoopIteration,
    OffsetColumn,
    Value,
)
from kinema.model import Model

from ..settings import Settings
from ..tree.kinematic_tree import Ints, NodeRefs, NodeType, frame_ref
from ..tree.loop_context import IDLE_FLAG, tree_index_of_frames
from ..tree.node_tables import NodeColumns, NodeIteration, make_table
from ..tree.per_tree import OffsetsPerTree, PerTreeArray, offsets_of_tree
from ..tree.trace_context import TraceContext
from .contact_buffer_specs import ContactBufferSpec, ContactSpecialization, plan_contact_buffers
from .contact_records import Contact, buffer_layout, for_each_contact, noslip_record_size
from .vector_math import if_less

# ------------------------------------------------------------------------------------ contact buffers with their memory


@dataclass(frozen=True, slots=True, eq=False)
class ContactBuffer:
    """Contact buffer with the offsets of its arrays in scratch memory."""

    spec: ContactBufferSpec
    contacts: ArenaOffset
    """Offset of the contact records."""
    count: ArenaOffset
    """Offset of the number of contacts."""
    overlap_flag: ArenaOffset
    """Offset of the broad-phase flag: 1 if the narrow phase is needed."""
    lost_count: ArenaOffset
    """Offset of the number of contacts that exceeded the capacity."""
    noslip_data: ArenaOffset | None = None
    """Offset of the no-slip solver data of each contact (`noslip_record_size`), if the no-slip solver is used."""

    @property
    def specialization(self) -> ContactSpecialization:
        """Specialization of the buffer."""
        return self.spec.specialization

    @property
    def offsets(self) -> dict[str, ArenaOffset]:
        """Offsets of the arrays of the buffer, by name in loop iterations."""
        arrays = {
            "contacts": self.contacts,
            "count": self.count,
            "near": self.overlap_flag,
            "buffer lost count": self.lost_count,
        }
        return arrays if self.noslip_data is None else {**arrays, "noslip data": self.noslip_data}


@dataclass(frozen=True, slots=True, eq=False)
class ContactBufferColumns:
    """Contact buffers of one specialization in columnar form."""

    specialization: ContactSpecialization
    iteration_indices: npt.NDArray[np.intp]
    """Indices of the iterations of the buffers in a for-each loop."""
    buffers: Sequence[ContactBuffer]
    offset_columns: Mapping[str, OffsetColumn]
    """Offsets of the arrays of all buffers, by array name."""
    frames: Sequence[NodeRefs]
    """First and second bodies (moving frames) of the buffers."""
    trees: Ints
    """Kinematic tree index of the second frame of each buffer."""


def contact_buffer_columns(
    specialization: ContactSpecialization,
    iteration_indices: Sequence[int],
    buffers: Sequence[ContactBuffer],
    tree_of_frame: Sequence[int],
) -> ContactBufferColumns:
    """Struct of arrays for buffers of one specialization: buffer offsets, both bodies and tree, one element per buffer.

    Args:
        specialization: the common specialization.
        iteration_indices: index of the iteration of each buffer in its for-each loop.
        buffers: the contact buffers.
        tree_of_frame: kinematic tree index of every frame of the model.
    """
    buffer_offsets = [contact_buffer.offsets for contact_buffer in buffers]
    offset_columns = {name: OffsetColumn.from_offsets([x[name] for x in buffer_offsets]) for name in buffer_offsets[0]}
    frame_pairs = np.array([x.spec.frames for x in buffers], np.int64)
    frames = [NodeRefs(NodeType.FRAMES, frame_pairs[:, i]) for i in range(2)]
    return ContactBufferColumns(
        specialization,
        np.array(iteration_indices, np.intp),
        buffers,
        offset_columns,
        frames,
        np.array(tree_of_frame)[frame_pairs[:, 1]],
    )


# ---------------------------------------------------------------------------------------------------- contact buffers


def _buffer_sizes(specs: Sequence[ContactBufferSpec]) -> list[int]:
    """Number of scalars of each contact buffer's buffer."""
    return [spec.capacity * buffer_layout(spec.specialization).record_size for spec in specs]


def _allocate_scalars(ctx: TraceContext, n: int) -> list[ArenaOffset]:
    """Allocate a scalar for each of `n` contact buffers, contiguous in scratch memory.

    One allocation for all, as the broad phase fills it by a loop over its elements. In programs with warps, which do
    not, each is an allocation of its own, so that kernels exchange only those that they need.
    """
    if ctx.settings.use_warps:
        return ctx.allocate_many([1] * n)
    first = ctx.allocate(n).row
    return [ArenaOffset(SCRATCH, first + i) for i in range(n)]


class ContactBufferFilter(enum.Enum):
    """Selection of contact buffers by whether they involve the world."""

    ALL = "all"
    WITH_WORLD = "with the world"
    BETWEEN_FRAMES = "between frames"


MIN_BUFFERS_FOR_ACTIVE_LIST = 24
"""Number of buffers from which on the active buffers (with contacts) are listed, so that the solver's loops skip the
others."""


class ContactBuffers:
    """Contact buffers of the traced frames, in scratch memory."""

    def __init__(self, ctx: TraceContext) -> None:
        self.ctx = ctx
        self.lost_count = ctx.allocate(1)
        """Offset of the number of contacts of all buffers that exceeded the capacity."""
        self.required_capacity = ctx.allocate(1)
        """Offset of the largest capacity that any overflowing buffer would have needed; 0 without overflow."""
        self.buffers: list[ContactBuffer] = []
        specs = plan_contact_buffers(ctx.model, [node.index for node in ctx.nodes])
        # Contiguous scalars: next to the contacts of its buffer, each would be on a memory page of its own.
        counts, overlap_flags, lost_counts = (_allocate_scalars(ctx, len(specs)) for _ in range(3))
        noslip_data: Sequence[ArenaOffset | None] = [None] * len(specs)
        if ctx.settings.noslip_iterations:
            noslip_sizes = [spec.capacity * noslip_record_size(spec.specialization.condim) for spec in specs]
            pairs = zip(noslip_sizes, _buffer_sizes(specs), strict=True)
            offsets = ctx.allocate_many([size for pair in pairs for size in pair])  # each beside its buffer
            noslip_data, contact_offsets = offsets[::2], offsets[1::2]
        else:
            contact_offsets = ctx.allocate_many(_buffer_sizes(specs))
        for fields in zip(specs, contact_offsets, counts, overlap_flags, lost_counts, noslip_data, strict=True):
            self.buffers.append(ContactBuffer(*fields))
        self._tree_of_frame = tree_index_of_frames(ctx.model)
        self._columns: dict[ContactBufferFilter, list[ContactBufferColumns]] = {}
        self._active_lists: dict[ContactBufferFilter, ArenaOffset] = {}

    def select_buffers(self, buffer_filter: ContactBufferFilter) -> list[ContactBuffer]:
        """Contact buffers selected by a filter, in order."""
        return [
            x
            for x in self.buffers
            if buffer_filter is ContactBufferFilter.ALL
            or x.specialization.involves_world is (buffer_filter is ContactBufferFilter.WITH_WORLD)
        ]

    def for_each_contact(
        self, iteration: IterationContext, specialization: ContactSpecialization, body: Callable[[Contact], None]
    ) -> None:
        """Trace a loop over the contacts of the current iteration's contact buffer."""
        capacity = max(x.spec.capacity for x in self.buffers if x.specialization == specialization)
        for_each_contact(iteration, specialization, body, capacity)

    for_each_lane_of_contacts = for_each_contact

    def list_active_buffers(self, candidate_pairs: ArenaOffset | None = None) -> None:
        """Trace a stream compaction: list the contact buffers that have contacts in any environment of the vector.

        Later loops visit only the listed buffers. One list per filter (all buffers, with the world, between frames)
        with at least `MIN_BUFFERS_FOR_ACTIVE_LIST` buffers: its length, then the indices of the buffers. Does nothing
        with a warp per environment.

        Args:
            candidate_pairs: offset of the broad-phase list of geom pairs; only their buffers are examined. None
                to examine all buffers.
        """
        ctx = self.ctx
        set_indices = {
            buffer_filter: {id(x): i for i, x in enumerate(self.select_buffers(buffer_filter))}
            for buffer_filter in ContactBufferFilter
        }
        filters = [
            buffer_filter
            for buffer_filter in ContactBufferFilter
            if len(set_indices[buffer_filter]) >= MIN_BUFFERS_FOR_ACTIVE_LIST and not ctx.settings.use_warps
        ]
        if not filters:
            return
        self._active_lists = {
            buffer_filter: ctx.allocate(len(set_indices[buffer_filter]) + 1) for buffer_filter in filters
        }
        rows = self._active_buffer_iterations(filters, set_indices, per_pair=candidate_pairs is not None)
        with ctx.without_unrolling():
            list_rows = [LoopIteration("list", {"list": offset}) for offset in self._active_lists.values()]
            ctx.for_each(
                "clear lists of active contact buffers", list_rows, lambda iteration: iteration.write("list", [0.0])
            )
            ctx.for_each("active contact buffers", rows, _append_if_active, candidate_pairs)

    def _active_buffer_iterations(
        self,
        filters: Sequence[ContactBufferFilter],
        set_indices: Mapping[ContactBufferFilter, Mapping[int, int]],
        *,
        per_pair: bool,
    ) -> IterationTable:
        """Loop iterations for listing the active contact buffers: one per buffer, or one per geom pair of a buffer.

        Args:
            filters: filters for which a list is made.
            set_indices: per filter, index in the list by `id` of the contact buffer.
            per_pair: whether there is one iteration per geom pair, as needed with a candidate list of pairs.

        Returns:
            The table; its specializations are (filters that select the buffer, whether the buffer has several
                iterations).
        """
        groups: dict[tuple[tuple[ContactBufferFilter, ...], bool], list[tuple[int, ContactBuffer]]] = {}
        first_row = 0
        for contact_buffer in self.buffers:
            count = len(contact_buffer.spec.pairs) if per_pair else 1
            specialization = (
                tuple(buffer_filter for buffer_filter in filters if id(contact_buffer) in set_indices[buffer_filter]),
                count > 1,
            )
            groups.setdefault(specialization, []).extend((first_row + i, contact_buffer) for i in range(count))
            first_row += count
        column_groups = []
        for (set_filters, has_several_rows), rows in groups.items():
            offsets = {"count": OffsetColumn.from_offsets([contact_buffer.count for _, contact_buffer in rows])}
            offsets |= {
                buffer_filter.value: OffsetColumn.repeated(self._active_lists[buffer_filter], len(rows))
                for buffer_filter in set_filters
            }
            constants = {
                f"row {buffer_filter.value}": np.array(
                    [[float(set_indices[buffer_filter][id(contact_buffer)])] for _, contact_buffer in rows]
                )
                for buffer_filter in set_filters
            }
            column_groups.append(
                ColumnarGroup(
                    (set_filters, has_several_rows),
                    np.array([row_index for row_index, _ in rows], np.intp),
                    offsets,
                    constants,
                )
            )
        return IterationTable(column_groups)

    def copy_to_warp_memory(self) -> ContactBuffers:
        """Trace a copy of all contacts and their counts to new buffers in the memory of the current warp region.

        A warp region is code that a warp executes cooperatively for one environment.

        Returns:
            The new contact buffers, which share the counters of lost contacts and required capacity with the original.
        """
        copy = ContactBuffers(self.ctx)
        rows = []
        for source, target in zip(self.buffers, copy.buffers, strict=True):
            offsets = {"from": source.contacts, "old count": source.count, "to": target.contacts, "count": target.count}
            rows.append(
                LoopIteration(
                    "buffer", offsets, {"record size": [float(buffer_layout(source.specialization).record_size)]}
                )
            )

        def body(iteration: IterationContext) -> None:
            tracer, count = iteration.tracer, iteration.read("old count")

            def copy_scalar(index: Value) -> None:
                tracer.write("to", [tracer.read("from", 0, index)], index=index)

            iteration.write("count", [count])
            tracer.counted_loop("contact records", count * iteration.constant("record size"), copy_scalar)

        with self.ctx.without_unrolling():
            self.ctx.for_each("copy contacts to warp memory", rows, body)
        copy.lost_count, copy.required_capacity = self.lost_count, self.required_capacity
        return copy

    def count_contacts(self, *, between_frames: bool = False) -> Value:
        """Trace the run-time sum of the contact counts of all contact buffers, or of those between moving frames."""
        ctx, total = self.ctx, self.ctx.allocate_fixed(1)
        ctx.tracer.write(SCRATCH, [0.0], total.row)
        buffer_filter = ContactBufferFilter.BETWEEN_FRAMES if between_frames else ContactBufferFilter.ALL
        buffers = self.select_buffers(buffer_filter)
        offset_columns = (
            {
                "count": OffsetColumn.from_offsets([x.count for x in buffers]),
                "total": OffsetColumn.repeated(total, len(buffers)),
            }
            if buffers
            else {}
        )
        rows = IterationTable([ColumnarGroup("buffer", np.arange(len(buffers)), offset_columns)] if buffers else [])

        def add_count(iteration: IterationContext) -> None:
            iteration.write("total", [iteration.read("total") + iteration.read("count")])

        with ctx.without_unrolling():
            ctx.for_each("number of contacts", rows, add_count, self._active_lists.get(buffer_filter))
        return ctx.tracer.read(SCRATCH, total.row)

    def buffer_columns(self, buffer_filter: ContactBufferFilter) -> list[ContactBufferColumns]:
        """Contact buffers selected by a filter as structs of arrays, one per specialization (condim etc.); cached."""
        if buffer_filter not in self._columns:
            by_specialization: dict[ContactSpecialization, list[int]] = {}
            buffers = self.select_buffers(buffer_filter)
            for i, contact_buffer in enumerate(buffers):
                by_specialization.setdefault(contact_buffer.specialization, []).append(i)
            self._columns[buffer_filter] = [
                contact_buffer_columns(specialization, indices, [buffers[i] for i in indices], self._tree_of_frame)
                for specialization, indices in by_specialization.items()
            ]
        return self._columns[buffer_filter]

    def table_columns(
        self, buffer_filter: ContactBufferFilter, extra_offsets: OffsetsPerTree | None = None
    ) -> list[NodeColumns]:
        """Table columns of the contact buffers selected by a filter, the columnar form of `loop_iteration`.

        Args:
            buffer_filter: selection of buffers.
            extra_offsets: additional arrays of the iterations, one offset for all or one per kinematic tree.
        """
        return [self.table_columns_of(columns, extra_offsets) for columns in self.buffer_columns(buffer_filter)]

    def table_columns_of(
        self, buffer_columns: ContactBufferColumns, extra_offsets: OffsetsPerTree | None = None, **options: Any
    ) -> NodeColumns:
        """Loop iterations over the contact buffers of one specialization, in columnar form (struct of arrays).

        The loop body reads the arrays of a buffer by name, and arrays of its two bodies (moving frames) with the name
        prefixes "a " and "b ".

        Args:
            buffer_columns: the contact buffers in columnar form.
            extra_offsets: offsets of additional arrays, one for all buffers or one per kinematic tree.
            options: constants and nested tables of the iterations (`TraceContext.node_columns`).
        """
        offset_columns = {**buffer_columns.offset_columns}
        for name, offset in (extra_offsets or {}).items():
            offset_columns[name] = (
                offset.column_of(buffer_columns.trees)
                if isinstance(offset, PerTreeArray)
                else OffsetColumn.repeated(offset, len(buffer_columns.iteration_indices))
            )
        if self.ctx.idle_flags is not None and not self.ctx.idle_flags.paused:
            offset_columns[IDLE_FLAG] = self.ctx.idle_flags.of_trees(buffer_columns.trees)
        a, b = buffer_columns.frames
        return self.ctx.node_columns(
            buffer_columns.specialization,
            buffer_columns.iteration_indices,
            {"a ": a, "b ": b},
            offset_columns,
            **options,
        )

    def loop_iteration(
        self, contact_buffer: ContactBuffer, extra_offsets: OffsetsPerTree | None = None
    ) -> NodeIteration:
        """Iteration of a for-each loop for one contact buffer: offsets of its arrays and of its two bodies.

        The loop body reads arrays of both bodies (moving frames) with the name prefixes "a " and "b ".

        Args:
            contact_buffer: the contact buffer.
            extra_offsets: offsets of additional arrays, one for all buffers or one per kinematic tree.
        """
        second_frame = contact_buffer.spec.frames[1]
        offsets = {
            **contact_buffer.offsets,
            **offsets_of_tree(self._tree_of_frame[second_frame], extra_offsets or {}),
            **self.ctx.idle_flag_of_frame(second_frame),
        }
        bindings = {"a ": frame_ref(contact_buffer.spec.frames[0]), "b ": frame_ref(contact_buffer.spec.frames[1])}
        return self.ctx.node_iteration(contact_buffer.specialization, bindings, offsets, {})

    def for_each_active_buffer(
        self,
        name: str,
        body: Callable[[IterationContext, ContactSpecialization], None],
        rows: Sequence[NodeIteration] | Sequence[NodeColumns] | None = None,
        buffer_filter: ContactBufferFilter = ContactBufferFilter.ALL,
    ) -> None:
        """Trace a loop over the contact buffers (geom pairs of two bodies with equal condim) that have contacts.

        Never unrolled, also in unrolled programs.

        Args:
            name: label of the loop.
            body: traces the code of a buffer, given its iteration context and specialization.
            rows: loop iterations of all buffers of the filter, in order; made by `table_columns` if None.
            buffer_filter: selection of buffers.
        """

        def run(iteration: IterationContext) -> None:
            specialization = iteration.specialization
            assert isinstance(specialization, ContactSpecialization)
            if_less(
                iteration.tracer, "has contacts", 0.5, iteration.read("count"), lambda: body(iteration, specialization)
            )

        with self.ctx.without_unrolling():
            loop_iterations = self.table_columns(buffer_filter) if rows is None else rows
            self.ctx.for_each(name, make_table(loop_iterations), run, self._active_lists.get(buffer_filter))


def _append_if_active(iteration: IterationContext) -> None:
    """Append a contact buffer to the lists of active buffers if any SIMD lane has contacts in it.

    A buffer with one iteration per geom pair is appended only once: it is skipped if the last entry of the list is the
    buffer itself. The specialization is (filters whose lists contain the buffer, whether the buffer has several
    iterations).
    """
    set_filters, has_several_rows = iteration.specialization  # type: ignore[misc]
    if not set_filters:
        return
    tracer, first_list = iteration.tracer, set_filters[0].value
    is_active = ir.any_lane(iteration.read("count"))
    if has_several_rows:
        count = iteration.read(first_list)
        distance_to_last = ir.absolute(tracer.read(first_list, 0, count) - iteration.constant(f"row {first_list}"))
        is_active = ir.select(ir.select(count, 0.5, 1.0, distance_to_last), 0.5, 0.0, is_active)

    def append() -> None:
        for buffer_filter in set_filters:
            count = iteration.read(buffer_filter.value) + 1.0
            tracer.write(buffer_filter.value, [iteration.constant(f"row {buffer_filter.value}")], 0, count)
            iteration.write(buffer_filter.value, [count])

    if_less(tracer, "is active", 0.5, is_active, append)


def has_collision_pairs(model: Model, settings: Settings) -> bool:
    """Whether contacts are enabled and the model has geom pairs."""
    return settings.contacts and bool(len(model.pairs.geom_a))
