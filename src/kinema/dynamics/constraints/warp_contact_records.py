"""Contact records of the warp solver: memory layout, sorting by geom pair and dropping of surplus contacts.

Threads append contacts to unordered lists. The warp copies them into records sorted by geom pair, so that results do
not depend on the order of detection. If there are more contacts than records, the deepest contacts are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kinema import ir
from kinema.codegen import cone_weight_size
from kinema.ir import SCRATCH, ArenaOffset, Value, round_up_to_4

from ..collision.contact_buffers import Contact, ContactLayout, if_less
from ..collision.contact_lists import ContactList, ListedContactLayout
from ..tree.trace_context import TraceContext
from ..vector_math import dot, sum_values
from .contact_jacobian import spatial_contact_jacobian
from .friction_cone import contact_active_set_changes, contact_cost, contact_line_derivatives

# -------------------------------------------------------------------------------------------------------------- sorting

DROPPED_KEY = 1e9
"""Sort key of contacts that are dropped because the capacity is exceeded."""


@dataclass(frozen=True, slots=True, eq=False)
class ContactSource:
    """Unordered contact list from which contacts are copied into the records of a group."""

    contact_list: ContactList
    offset: ArenaOffset
    """Offset of a scalar: number of contacts that the preceding lists of the group contribute."""
    sort_keys: ArenaOffset
    """Offset of one sort key per contact: index of its geom pair, or `DROPPED_KEY`."""

    def count(self, ctx: TraceContext) -> Value:
        """Return the number of contacts stored in the list (at most its capacity)."""
        return ir.minimum(ctx.tracer.read(SCRATCH, self.contact_list.count.row), float(self.contact_list.capacity))

    def contact(self, ctx: TraceContext, index: Value) -> Contact:
        """Return an accessor of the contact at `index` of the list."""
        accessor = Contact(ctx.tracer, ListedContactLayout(self.contact_list.variant.condim), index)
        accessor.array_name, accessor.base_offset = SCRATCH, self.contact_list.contacts.row
        return accessor

    def sort_key(self, ctx: TraceContext, index: Value) -> Value:
        """Return the sort key of the contact at `index` of the list."""
        return ctx.tracer.read(SCRATCH, self.sort_keys.row, index)


def compute_sort_keys(ctx: TraceContext, sources: Sequence[ContactSource], capacity: int) -> None:
    """Write the sort key of each listed contact: its geom-pair index, or `DROPPED_KEY` beyond the capacity.

    If the lists hold more than `capacity` contacts in total, only the deepest ones keep their key, and the offsets of
    the lists are recomputed.
    """
    for source in sources:
        ctx.tracer.parallel_loop(
            "sort keys of contacts", source.count(ctx), lambda index, source=source: _write_pair_key(ctx, source, index)
        )
    if sum(source.contact_list.capacity for source in sources) > capacity:
        total = sum_values([source.count(ctx) for source in sources])
        ctx.tracer.if_less(
            "contact capacity exceeded",
            capacity + 0.5,
            total,
            lambda: _drop_shallow_contacts(ctx, sources, float(capacity)),
            [],
        )


def _write_pair_key(ctx: TraceContext, source: ContactSource, index: Value) -> list[Value]:
    """Write the geom-pair index of one contact as its sort key."""
    pair = ir.absolute(source.contact(ctx, index).read(ContactLayout.SIGNED_PAIR)[0])
    ctx.tracer.write(SCRATCH, [pair], source.sort_keys.row, index)
    return []


def _drop_shallow_contacts(ctx: TraceContext, sources: Sequence[ContactSource], capacity: float) -> list[Value]:
    """Mark all but the `capacity` deepest contacts as dropped and recompute the record offset of each list."""
    n_before: Value = 0.0
    for source_index, source in enumerate(sources):

        def write_key(index: Value, source_index: int = source_index, source: ContactSource = source) -> list[Value]:
            is_kept = ir.select(_count_deeper_contacts(ctx, sources, source_index, index), capacity - 0.5, 1.0, 0.0)
            pair = ir.absolute(source.contact(ctx, index).read(ContactLayout.SIGNED_PAIR)[0])
            ctx.tracer.write(SCRATCH, [ir.select(0.5, is_kept, pair, DROPPED_KEY)], source.sort_keys.row, index)
            return [is_kept]

        ctx.tracer.write(SCRATCH, [n_before], source.offset.row)
        (is_kept,) = ctx.tracer.parallel_loop("select deepest contacts", source.count(ctx), write_key, 1)
        n_before = n_before + is_kept
    return []


def _count_deeper_contacts(
    ctx: TraceContext, sources: Sequence[ContactSource], source_index: int, index: Value
) -> Value:
    """Return the number of contacts of all lists that are deeper than the given one.

    Ties are broken by list, then by geom pair, then by position in the list, so that the order is total.
    """
    tracer, total = ctx.tracer, ctx.tracer.allocate_local(1)
    tracer.write(total, [0.0])
    contact = sources[source_index].contact(ctx, index)
    distance, pair = contact.read(ContactLayout.DISTANCE)[0], ir.absolute(contact.read(ContactLayout.SIGNED_PAIR)[0])
    for other_index, source in enumerate(sources):

        def compare(other_contact_index: Value, other_index: int = other_index, source: ContactSource = source) -> None:
            other_contact = source.contact(ctx, other_contact_index)
            other_distance, other_pair = (
                other_contact.read(ContactLayout.DISTANCE)[0],
                ir.absolute(other_contact.read(ContactLayout.SIGNED_PAIR)[0]),
            )
            comes_first: Value = float(other_index < source_index)
            if other_index == source_index:
                comes_first = ir.select(other_contact_index, index, 1.0, 0.0)  # contacts of one pair keep their order
                comes_first = ir.select(other_pair, pair, 1.0, ir.select(pair, other_pair, 0.0, comes_first))
            is_deeper = ir.select(other_distance, distance, 1.0, ir.select(distance, other_distance, 0.0, comes_first))
            tracer.write(total, [tracer.read(total) + is_deeper])

        tracer.counted_loop("other contacts", source.count(ctx), compare)
    return tracer.read(total)


# -------------------------------------------------------------------------------------------------------------- records


class ContactRecordLayout:
    """Offsets of the fields in a warp's contact record.

    The record has a header (stiffness, regularised mu, frames, reference parameters, number of rows), residual,
    residual derivative, gradient and Hessian of the cost, and condim Jacobian rows. Two fields share memory with others
    of a shorter life: the 6 x condim spatial Jacobian lies where residual derivative, gradient and Hessian follow, and
    the number of active rows replaces the frame indices.
    """

    STIFFNESS, REGULARIZED_MU, FRAMES, POSITION_FEEDBACK, DAMPING, FRICTION_DAMPING, N_ROWS, RESIDUAL = (
        0,
        1,
        2,
        4,
        5,
        6,
        7,
        8,
    )
    N_ACTIVE_ROWS = FRAMES

    def __init__(self, condim: int, n_dofs: int, *, elliptic: bool) -> None:
        self.condim = condim
        self.residual_derivative = self.RESIDUAL + condim
        self.gradient = self.residual_derivative + condim
        self.hessian = round_up_to_4(self.gradient + condim)
        hessian_size = cone_weight_size(condim) if elliptic else condim * round_up_to_4(condim)
        end = max(self.hessian + hessian_size, self.residual_derivative + 6 * condim)
        self.jacobian = round_up_to_4(end)
        self.jacobian_row_stride = round_up_to_4(n_dofs)
        end = self.jacobian + condim * self.jacobian_row_stride
        self.record_size = end if end % 8 else end + 4
        """Values per record: an odd multiple of four, so that neighbouring records start in different banks of shared
        memory."""


@dataclass(frozen=True, slots=True, eq=False)
class ContactGroup:
    """Contacts with the same type of friction cone, stored in records of equal layout.

    In an elliptic group all contacts have the condim of the largest: surplus rows are zero, and frictionless contacts
    have mu = 0.
    """

    condim: int
    """Rows per contact."""
    elliptic: bool
    """Whether the friction cones are elliptic."""
    sources: Sequence[ContactSource]
    """Contact lists of the group."""
    capacity: int
    """Maximum number of contacts."""
    records: ArenaOffset
    """Offset of the first record."""
    layout: ContactRecordLayout
    count: ArenaOffset
    """Offset of the number of stored contacts."""


class ContactRecord:
    """Accessor of one contact record, for a run-time index."""

    def __init__(self, ctx: TraceContext, group: ContactGroup, index: Value) -> None:
        self.tracer = ctx.tracer
        self.group = group
        self.index = index
        self.offset = index * float(group.layout.record_size)

    def read(self, item: int, count: int = 1) -> list[Value]:
        """Read `count` values from field offset `item`."""
        return [self.tracer.read(SCRATCH, self.group.records.row + item + i, self.offset) for i in range(count)]

    def write(self, item: int, values: Sequence[Value]) -> None:
        """Write values from field offset `item` on."""
        self.tracer.write(SCRATCH, values, self.group.records.row + item, self.offset)

    @property
    def residual(self) -> list[Value]:
        """Residual J a - aref, condim values."""
        return self.read(ContactRecordLayout.RESIDUAL, self.group.condim)

    @property
    def residual_derivative(self) -> list[Value]:
        """Derivative J d of the residual along the search direction d, condim values."""
        return self.read(self.group.layout.residual_derivative, self.group.condim)

    @property
    def stiffness_and_mu(self) -> list[Value]:
        """Stiffness D and regularised friction coefficient mu."""
        return self.read(ContactRecordLayout.STIFFNESS, 2)

    def residual_at(self, step_length: Value) -> list[Value]:
        """Return the residual at a step length along the search direction."""
        return [x + step_length * v for x, v in zip(self.residual, self.residual_derivative, strict=True)]

    def line_derivatives(self, step_length: Value) -> Sequence[Value]:
        """Return first and second derivative of the contact cost along the search direction at a step length."""
        return contact_line_derivatives(
            self.residual_at(step_length),
            self.residual_derivative,
            *self.stiffness_and_mu,
            elliptic=self.group.elliptic,
        )

    def active_set_changes(self, new_residual: Sequence[Value]) -> Value:
        """Return 0 if the cost is the same quadratic function at current and new residual, else a positive value."""
        return contact_active_set_changes(
            self.residual, new_residual, *self.stiffness_and_mu, elliptic=self.group.elliptic
        )

    def cost(self, step_length: Value) -> Value:
        """Return the contact cost at a step length along the search direction."""
        return contact_cost(self.residual_at(step_length), *self.stiffness_and_mu, elliptic=self.group.elliptic)


class ContactRow:
    """Accessor of one Jacobian row of one contact; index = contact * condim + row, one thread per row."""

    def __init__(self, ctx: TraceContext, group: ContactGroup, index: Value) -> None:
        condim = float(group.condim)
        self.tracer = ctx.tracer
        self.group = group
        contact = ir.floor((index + 0.5) * (1.0 / condim))
        self.row_index = index - condim * contact
        """Row within the contact: 0 normal, then tangential, torsional and rolling."""
        self.offset = contact * float(group.layout.record_size)

    def read_contact(self, item: int) -> Value:
        """Read one value of the row's contact record."""
        return self.tracer.read(SCRATCH, self.group.records.row + item, self.offset)

    def jacobian_entry(self, column: int) -> Value:
        """Return the Jacobian entry of this row in a column."""
        row_offset = self.offset + self.row_index * float(self.group.layout.jacobian_row_stride)
        return self.tracer.read(SCRATCH, self.group.records.row + self.group.layout.jacobian + column, row_offset)

    def multiply_jacobian(self, vector: Sequence[Value]) -> Value:
        """Return the product of this Jacobian row with a joint-space vector; zero for surplus rows."""
        return dot([self.jacobian_entry(i) for i in range(len(vector))], vector)

    def write(self, item: int, value: Value) -> None:
        """Write this row's element of a per-row field of the record."""
        self.tracer.write(SCRATCH, [value], self.group.records.row + item, self.offset + self.row_index)


@dataclass(frozen=True, slots=True, eq=False)
class ContactSorter:
    """Copies contacts of one list into the records of a group, sorted by key (rank sort, one thread per contact)."""

    ctx: TraceContext
    group: ContactGroup
    source: ContactSource
    n_contacts: Value
    """Number of contacts in the list."""
    first_record: Value
    """Index of the first record of the list."""

    def store(self, index: Value) -> list[Value]:
        """Copy the contact at `index` into the record of its rank, unless dropped or beyond the capacity."""
        key = self.source.sort_key(self.ctx, index)
        record_index = ir.select(
            key, 0.5 * DROPPED_KEY, self.first_record + self._rank(index, key), float(self.group.capacity)
        )
        if_less(
            self.ctx.tracer,
            "has free record",
            record_index,
            float(self.group.capacity),
            lambda: self._write_record(index, record_index),
        )
        return []

    def _write_record(self, index: Value, record_index: Value) -> None:
        """Write the header and the spatial Jacobian of a listed contact into a record.

        The spatial Jacobian (6 values per row) is stored temporarily in place of the residual derivative and later
        fields; surplus rows are zero.
        """
        group, contact, contact_list = self.group, self.source.contact(self.ctx, index), self.source.contact_list
        record, layout = ContactRecord(self.ctx, group, record_index), ListedContactLayout(contact_list.variant.condim)
        stiffness, mu = contact.stiffness_and_mu
        frictionless = group.elliptic and not contact_list.variant.elliptic
        record.write(ContactRecordLayout.STIFFNESS, [stiffness, 0.0 if frictionless else mu])
        record.write(
            ContactRecordLayout.FRAMES,
            [*contact.read(layout.frames, 2), *contact.read(ContactLayout.POSITION_FEEDBACK, 3)],
        )
        jacobian = spatial_contact_jacobian(contact)
        record.write(ContactRecordLayout.N_ROWS, [float(len(jacobian))])
        jacobian += [[0.0] * 6] * (group.condim - len(jacobian))
        record.write(group.layout.residual_derivative, [x for row in jacobian for x in row])

    def _rank(self, index: Value, sort_key: Value) -> Value:
        """Return the number of contacts in the list with a smaller sort key, or an equal key and a smaller index."""
        tracer, rank = self.ctx.tracer, self.ctx.tracer.allocate_local(1)
        tracer.write(rank, [0.0])

        def compare(other: Value) -> None:
            other_key = self.source.sort_key(self.ctx, other)
            comes_first = ir.select(
                other_key, sort_key, 1.0, ir.select(sort_key, other_key, 0.0, ir.select(other, index, 1.0, 0.0))
            )
            tracer.write(rank, [tracer.read(rank) + comes_first])

        tracer.counted_loop("other contacts", self.n_contacts, compare)
        return tracer.read(rank)
