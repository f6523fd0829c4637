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

from ..collision.contact_lists import ContactList
from ..collision.contact_records import Contact, ContactLayout, list_layout
from ..collision.vector_math import if_less
from ..tree.trace_context import TraceContext
from ..vector_math import dot, sum_values
from .contact_jacobian import spatial_contact_jacobian

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
        layout, start = list_layout(self.contact_list.specialization), self.contact_list.contacts.row
        return Contact(ctx.tracer, layout, index, SCRATCH, start)

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
    pair = ir.absolute(source.contact(ctx, index).scalar("signed_pair"))
    ctx.tracer.write(SCRATCH, [pair], source.sort_keys.row, index)
    return []


def _drop_shallow_contacts(ctx: TraceContext, sources: Sequence[ContactSource], capacity: float) -> list[Value]:
    """Mark all but the `capacity` deepest contacts of all lists as dropped, and recompute each list's record offset.

    Returns an empty list, as a branch without results.
    """
    n_before: Value = 0.0
    for source_index, source in enumerate(sources):

        def write_key(index: Value, source_index: int = source_index, source: ContactSource = source) -> list[Value]:
            is_kept = ir.select(_count_deeper_contacts(ctx, sources, source_index, index), capacity - 0.5, 1.0, 0.0)
            pair = ir.absolute(source.contact(ctx, index).scalar("signed_pair"))
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
    distance, pair = contact.scalar("distance"), ir.absolute(contact.scalar("signed_pair"))
    for other_index, source in enumerate(sources):

        def compare(other_contact_index: Value, other_index: int = other_index, source: ContactSource = source) -> None:
            other_contact = source.contact(ctx, other_contact_index)
            other_distance, other_pair = (
                other_contact.scalar("distance"),
                ir.absolute(other_contact.scalar("signed_pair")),
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


SOLVER_FIELDS = (
    "stiffness",
    "regularized_mu",
    "frames",
    "n_active_rows",
    "position_feedback",
    "damping",
    "friction_damping",
    "n_rows",
    "residual",
    "residual_derivative",
    "gradient",
    "hessian",
    "spatial_jacobian",
    "jacobian",
)
"""Fields of a record of the warp solver, in the order of memory."""


def warp_record_layout(condim: int, n_columns: int, *, elliptic: bool, fields: Sequence[str] = ()) -> ContactLayout:
    """Return the layout of a record whose Jacobian rows have `n_columns` columns, with further fields at its end."""
    sizes = {
        "hessian": cone_weight_size(condim) if elliptic else condim * round_up_to_4(condim),
        "jacobian": condim * round_up_to_4(n_columns),
    }
    layout = ContactLayout(condim, (*SOLVER_FIELDS, *fields), elliptic=elliptic, sizes=sizes)
    layout.record_size = round_up_to_4(layout.record_size)
    return layout


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
    layout: ContactLayout
    count: ArenaOffset
    """Offset of the number of stored contacts."""


def contact_record(ctx: TraceContext, group: ContactGroup, index: Value) -> Contact:
    """Return the accessor of the record at `index` of a group."""
    return Contact(ctx.tracer, group.layout, index, SCRATCH, group.records.row)


def jacobian_row_stride(layout: ContactLayout) -> int:
    """Return the distance of the Jacobian rows in a record."""
    return layout.sizes["jacobian"] // layout.condim


class ContactRow:
    """Accessor of one Jacobian row of one contact; index = contact * condim + row, one thread per row."""

    def __init__(self, ctx: TraceContext, group: ContactGroup, index: Value) -> None:
        condim = float(group.condim)
        self.tracer, self.group, self.layout = ctx.tracer, group, group.layout
        contact = ir.floor((index + 0.5) * (1.0 / condim))
        self.row_index = index - condim * contact
        """Row within the contact: 0 normal, then tangential, torsional and rolling."""
        self.offset = contact * float(group.layout.record_size)

    def read_contact(self, field: str, element: int = 0) -> Value:
        """Read one scalar of a field of the row's contact record."""
        return self.tracer.read(SCRATCH, self.group.records.row + self.layout.offsets[field] + element, self.offset)

    def jacobian_entry(self, column: int) -> Value:
        """Return the Jacobian entry of this row in a column."""
        row_offset = self.offset + self.row_index * float(jacobian_row_stride(self.layout))
        return self.tracer.read(SCRATCH, self.group.records.row + self.layout.offsets["jacobian"] + column, row_offset)

    def multiply_jacobian(self, vector: Sequence[Value]) -> Value:
        """Return the product of this Jacobian row with a joint-space vector; zero for surplus rows."""
        return dot([self.jacobian_entry(i) for i in range(len(vector))], vector)

    def surface_velocity(self) -> Value:
        """Return the relative velocity of the two surfaces along this scaled row, without frame velocities."""
        if "surface_velocity" not in self.layout.offsets:
            return 0.0
        first = self.group.records.row + self.layout.offsets["surface_velocity"]
        return self.tracer.read(SCRATCH, first, self.offset + self.row_index)

    def write(self, field: str, value: Value) -> None:
        """Write this row's element of a per-row field of the record."""
        first = self.group.records.row + self.layout.offsets[field]
        self.tracer.write(SCRATCH, [value], first, self.offset + self.row_index)


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
        record = contact_record(self.ctx, group, record_index)
        stiffness, mu = contact.stiffness_and_mu
        frictionless = group.elliptic and not contact_list.specialization.elliptic
        record.write("stiffness", [stiffness, 0.0 if frictionless else mu])
        names = ("frames", "position_feedback", "damping", "friction_damping")
        record.write("frames", [x for name in names for x in contact.read(name)])
        jacobian = spatial_contact_jacobian(contact)
        record.write("n_rows", [float(len(jacobian))])
        jacobian += [[0.0] * 6] * (group.condim - len(jacobian))
        record.write("spatial_jacobian", [x for row in jacobian for x in row])
        if "surface_velocity" in group.layout.offsets:
            velocity = [x * v for x, v in zip(contact.read("row_scales"), contact.surface_velocity, strict=True)]
            record.write("surface_velocity", [*velocity, *[0.0] * (group.condim - len(velocity))])

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
