"""Unordered contact lists per environment, filled by GPU threads and consumed by a warp; contact counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kinema import ir
from kinema.ir import SCRATCH, ArenaOffset, Value

from ..tree.kinematic_tree import WORLD
from ..tree.trace_context import TraceContext
from ..vector_math import sum_values
from .contact_buffer_specs import (
    ContactBufferSpec,
    ContactSpecialization,
    has_surface_velocity,
    plan_contact_buffers,
    warp_contact_capacity,
)
from .contact_buffers import ContactBuffers
from .contact_records import list_layout
from .contact_slots import ContactSlots

# -------------------------------------------------------------------------------------------------------- contact lists

MAX_SPARE_CONTACTS = 192
"""Maximum number of listed contacts beyond the capacity, from which the deepest are selected; at most as many as the
capacity."""


@dataclass(frozen=True, slots=True, eq=False)
class ContactList:
    """List of contacts with one condim and friction cone."""

    specialization: ContactSpecialization
    capacity: int
    """Maximum number of contacts stored."""
    count: ArenaOffset
    """Offset of the number of contacts found, which may exceed the capacity."""
    contacts: ArenaOffset
    """Offset of the contact records."""


@dataclass(frozen=True, slots=True, eq=False)
class ContactListGroup:
    """Contact lists with the same cost function, which are stored together for the solver."""

    lists: Sequence[ContactList]
    capacity: int
    """Maximum number of contacts that the solver uses."""

    def stored_counts(self, ctx: TraceContext) -> list[Value]:
        """Number of contacts stored in each list: the number found, limited to the list's capacity."""
        counts = [ctx.tracer.read(SCRATCH, x.count.row) for x in self.lists]
        return [ir.minimum(count, float(x.capacity)) for count, x in zip(counts, self.lists, strict=True)]


class ContactLists:
    """Contact lists of an environment in scratch memory, one per condim and friction cone.

    The constructor allocates the lists and sets their counts to zero.
    """

    def __init__(self, ctx: TraceContext) -> None:
        self.frame_order = preorder_indices(ctx)
        self.max_contacts = warp_contact_capacity(ctx.model, sum(len(node.dofs) for node in ctx.nodes))
        self.specs = plan_contact_buffers(ctx.model, [node.index for node in ctx.nodes])
        max_counts: dict[tuple[int, bool], int] = {}
        for spec in self.specs:
            key = spec.specialization.condim, spec.specialization.elliptic
            max_counts[key] = max_counts.get(key, 0) + spec.max_contacts
        self.by_condim_and_cone: dict[tuple[int, bool], ContactList] = {}
        for (condim, elliptic), max_count in sorted(max_counts.items()):
            capacity = min(max_count, self.max_contacts + min(self.max_contacts, MAX_SPARE_CONTACTS))
            specialization = ContactSpecialization(
                condim,
                elliptic,
                involves_world=False,
                has_restitution_or_stiction=False,
                has_surface_velocity=has_surface_velocity(ctx.model),
            )
            contacts = ctx.allocate(capacity * list_layout(specialization).record_size, oversized=True)
            self.by_condim_and_cone[condim, elliptic] = ContactList(
                specialization, capacity, ctx.allocate_fixed(1), contacts
            )
            ctx.tracer.write(SCRATCH, [0.0], self.by_condim_and_cone[condim, elliptic].count.row)

    @property
    def groups(self) -> list[ContactListGroup]:
        """Contact lists grouped by cost function.

        With elliptic cones, all elliptic and frictionless lists form one group; every other list is a group of its own.
        """
        all_lists = list(self.by_condim_and_cone.values())
        has_elliptic = any(x.specialization.elliptic for x in all_lists)
        elliptic_group = [
            x for x in all_lists if has_elliptic and (x.specialization.elliptic or x.specialization.condim == 1)
        ]
        groups = [*([elliptic_group] if elliptic_group else []), *([x] for x in all_lists if x not in elliptic_group)]
        return [ContactListGroup(group, min(sum(x.capacity for x in group), self.max_contacts)) for group in groups]

    def loop_offsets(self, spec: ContactBufferSpec) -> Mapping[str, ArenaOffset]:
        """Offsets of the arrays "contacts" and "count" of the list that receives the contacts of a contact buffer."""
        contact_list = self.by_condim_and_cone[spec.specialization.condim, spec.specialization.elliptic]
        return {"contacts": contact_list.contacts, "count": contact_list.count}

    def loop_constants(self, spec: ContactBufferSpec) -> Mapping[str, list[float]]:
        """Iteration constants of a contact buffer: preorder indices of its frames, and the capacity of its list."""
        contact_list = self.by_condim_and_cone[spec.specialization.condim, spec.specialization.elliptic]
        return {"frames": [float(self.frame_order[f]) for f in spec.frames], "capacity": [float(contact_list.capacity)]}


def preorder_indices(ctx: TraceContext) -> dict[int, int]:
    """Depth-first preorder index of each frame (-1 for the world), so that a subtree is a contiguous index range."""
    children: dict[int, list[int]] = {}
    for node in ctx.nodes:
        children.setdefault(node.parent, []).append(node.index)
    order, stack = {WORLD: -1}, list(reversed(children.get(WORLD, [])))
    while stack:
        frame = stack.pop()
        order[frame] = len(order) - 1
        stack += reversed(children.get(frame, []))
    return order


def last_descendant_indices(ctx: TraceContext) -> dict[int, int]:
    """Largest preorder index among each frame and its descendants, by frame."""
    preorder = preorder_indices(ctx)
    last = {node.index: preorder[node.index] for node in ctx.nodes}
    for node in reversed(ctx.nodes):
        if node.parent != WORLD:
            last[node.parent] = max(last[node.parent], last[node.index])
    return last


# ------------------------------------------------------------------------------------------------------- contact counts


@dataclass(frozen=True, slots=True)
class ContactCounts:
    """Numbers of contacts of an environment."""

    found: Value
    """Number of contacts used by the solver."""
    lost: Value
    """Number of contacts that exceeded the capacity."""
    required_capacity: Value
    """Largest capacity that an overflowing buffer would have needed; 0 without overflow."""


def compute_contact_counts(ctx: TraceContext, contacts: ContactBuffers | ContactSlots | ContactLists) -> ContactCounts:
    """Trace the numbers of used contacts, of contacts lost by overflow, and the capacity that would have sufficed."""
    if not isinstance(contacts, ContactLists):
        offsets = (contacts.lost_count, contacts.required_capacity)
        return ContactCounts(contacts.count_contacts(), *(ctx.tracer.read(SCRATCH, offset.row) for offset in offsets))
    required: Value = 0.0
    kept: list[Value] = []
    lost: list[Value] = []
    for group in contacts.groups:
        found = sum_values([ctx.tracer.read(SCRATCH, x.count.row) for x in group.lists])
        kept.append(ir.minimum(sum_values(group.stored_counts(ctx)), float(group.capacity)))
        lost.append(found - kept[-1])
        required = ir.maximum(required, ir.select(0.5, lost[-1], found, 0.0))
    return ContactCounts(sum_values(kept), sum_values(lost), required)


def record_contact_counts(ctx: TraceContext, counts: ContactCounts) -> None:
    """Write the contact counts to the output arrays, and update their maxima since the last reset.

    Writes `n_contacts`, `n_lost_contacts` (dropped for lack of capacity), `max_n_contacts` (maximum of used plus lost
    contacts) and `max_required_capacity` (maximum of the required capacity). Does nothing if these outputs are not
    requested.
    """
    if not ctx.has_output("n_contacts"):
        return
    found, lost, required = counts.found, counts.lost, counts.required_capacity
    ctx.write("n_contacts", None, [found])
    ctx.write("n_lost_contacts", None, [lost])
    ctx.write("max_n_contacts", None, [ir.maximum(ctx.read("max_n_contacts"), found + lost)])
    ctx.write("max_required_capacity", None, [ir.maximum(ctx.read("max_required_capacity"), required)])
