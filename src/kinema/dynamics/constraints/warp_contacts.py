"""Contacts of the warp solver with explicit Jacobian rows, stored in contact records.

`WarpContacts` has Jacobian rows over all dofs, for the dense Newton solver; `TreePairContacts` has rows over the two
trees of each contact, for the block-sparse Newton solver. Threads share contacts, contact rows or dofs; no thread waits
for another one along the kinematic tree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kinema import ir
from kinema.codegen import EdgeRecords, HessianTerm
from kinema.ir import (
    SCRATCH,
    ArenaOffset,
    LoopIteration,
    MemoryLocation,
    SharedMemoryStaging,
    Value,
    round_up_to_4,
)

from ..collision.contact_buffer_specs import has_surface_velocity
from ..collision.contact_lists import ContactListGroup, ContactLists, last_descendant_indices
from ..collision.contact_records import Contact, ContactLayout
from ..collision.vector_math import if_less
from ..tree.node_values import NodeValues
from ..tree.per_tree import PaddedTreeLayout
from ..tree.trace_context import TraceContext
from ..vector_math import dot, sum_values
from .contact_jacobian import MotionSubspace
from .friction_cone import cone_gradient_and_hessian, contact_cost_derivatives
from .warp_contact_records import (
    ContactGroup,
    ContactRow,
    ContactSorter,
    ContactSource,
    compute_sort_keys,
    contact_record,
    jacobian_row_stride,
    warp_record_layout,
)

# ----------------------------------------------------------------------------------------------- Jacobian over all dofs

MAX_SHARED_CONTACTS, MIN_SHARED_CONTACTS = 8, 5
"""Number of contact records staged in shared memory at most; and at least, where the cache would become too small
otherwise."""


@dataclass(frozen=True, slots=True, eq=False)
class LoadedVector:
    """Joint-space vector of the warp solver."""

    start: int
    """Scratch row of the first element."""
    values: Sequence[Value]
    """All elements, loaded into registers; empty if elements are read on demand."""


class WarpContacts:
    """All contacts of an environment as sorted records with Jacobian rows over all dofs."""

    def __init__(
        self, ctx: TraceContext, contact_lists: ContactLists, motion_subspaces: NodeValues[MotionSubspace]
    ) -> None:
        self.ctx = ctx
        self.n_dofs = sum(len(node.dofs) for node in ctx.nodes)
        self.frame_order = contact_lists.frame_order
        self.groups = [self._make_group(law) for law in contact_lists.groups]
        ctx.tracer.new_basic_block()
        for group in self.groups:
            self._stage_in_shared_memory(group)
        self._compute_jacobian(ctx.start_offset(motion_subspaces))

    def _make_group(self, list_group: ContactListGroup) -> ContactGroup:
        """Allocate the contact records of a group of contact lists and write the number of contacts.

        All contacts get the largest condim of the lists. Also writes the record offset of each list: the running total
        of the preceding list lengths.
        """
        ctx, tracer, capacity = self.ctx, self.ctx.tracer, list_group.capacity
        condim = max(x.specialization.condim for x in list_group.lists)
        elliptic = any(x.specialization.elliptic for x in list_group.lists)
        layout = self._record_layout(condim, elliptic=elliptic)
        total: Value = 0.0
        sources: list[ContactSource] = []
        for contact_list, n_contacts in zip(list_group.lists, list_group.stored_counts(ctx), strict=True):
            sources.append(
                ContactSource(contact_list, ctx.allocate_fixed(1), ctx.allocate(contact_list.capacity, oversized=True))
            )
            tracer.write(SCRATCH, [total], sources[-1].offset.row)
            total = total + n_contacts
        count, records = ctx.allocate_fixed(1), ctx.allocate(capacity * layout.record_size, oversized=True)
        tracer.write(SCRATCH, [ir.minimum(total, float(capacity))], count.row)
        return ContactGroup(condim, elliptic, sources, capacity, records, layout, count)

    def _record_layout(self, condim: int, *, elliptic: bool) -> ContactLayout:
        """Return the record layout with Jacobian rows over all dofs.

        The size is an odd multiple of four, so that neighbouring records start in different banks of shared memory.
        """
        layout = warp_record_layout(condim, self.n_dofs, elliptic=elliptic, fields=self._extra_fields())
        layout.record_size += 0 if layout.record_size % 8 else 4
        return layout

    def _extra_fields(self) -> list[str]:
        return ["surface_velocity"] if has_surface_velocity(self.ctx.model) else []

    def _stage_in_shared_memory(self, group: ContactGroup) -> None:
        """Stage the first contact records of a group in GPU shared memory, used if there are few contacts."""
        record_size, capacity = group.layout.record_size, group.capacity
        records, count = (MemoryLocation(SCRATCH, offset.row) for offset in (group.records, group.count))
        max_staged = min(MAX_SHARED_CONTACTS, capacity)
        self.ctx.tracer.add_statement(
            SharedMemoryStaging(
                "contacts", records, capacity * record_size, record_size, count, max_staged, MIN_SHARED_CONTACTS
            ),
            {},
        )

    # --------------------------------------------------------------------------------------------------------- Jacobian

    def _compute_jacobian(self, axes_start: int) -> None:
        """Copy all contacts into records and write their Jacobian rows over all dofs, one thread per dof (column).

        `axes_start` is the scratch offset of the motion axes, six values per dof.
        """
        tracer = self.ctx.tracer
        self._store_contacts()
        ranges = self._subtree_ranges()

        def write_column(dof: Value) -> list[Value]:
            axis = [tracer.read(SCRATCH, axes_start + i, dof * 6.0) for i in range(6)]
            first, last = (tracer.read(SCRATCH, ranges.row + i, dof * 2.0) for i in range(2))
            for group in self.groups:
                self._compute_jacobian_column(group, dof, axis, (first, last))
            return []

        tracer.parallel_loop("Jacobian of contacts", float(self.n_dofs), write_column)

    def _store_contacts(self) -> None:
        """Copy all listed contacts into records, sorted by geom pair, with their spatial Jacobian."""
        tracer = self.ctx.tracer
        for group in self.groups:
            compute_sort_keys(self.ctx, group.sources, group.capacity)
            for source in group.sources:
                count, first = source.count(self.ctx), tracer.read(SCRATCH, source.offset.row)
                sorter = ContactSorter(self.ctx, group, source, count, first)
                tracer.parallel_loop("sort contacts into records", count, sorter.store)

    def count(self, group: ContactGroup) -> Value:
        """Return the number of contacts stored in a group."""
        return self.ctx.tracer.read(SCRATCH, group.count.row)

    def _subtree_ranges(self) -> ArenaOffset:
        """Write the preorder range (first - 0.5, last + 0.5) of the frames that each dof moves; return the offset."""
        ctx, order, last = self.ctx, self.frame_order, last_descendant_indices(self.ctx)
        ranges, rows = ctx.allocate(2 * self.n_dofs), []
        nodes = [node for node in ctx.nodes for _ in node.dofs]
        for i, node in enumerate(nodes):
            bounds = [order[node.index] - 0.5, last[node.index] + 0.5]
            rows.append(LoopIteration("dof", {"to": ArenaOffset(SCRATCH, ranges.row + 2 * i)}, {"bounds": bounds}))
        ctx.for_each(
            "subtree ranges of dofs", rows, lambda iteration: iteration.write("to", iteration.constants("bounds"))
        )
        return ranges

    def _compute_jacobian_column(
        self, group: ContactGroup, dof: Value, axis: Sequence[Value], subtree: tuple[Value, Value]
    ) -> None:
        """Write the column of one dof into the Jacobians of all contacts of a group.

        Args:
            group: contacts whose spatial Jacobians are stored in their records.
            dof: index of the dof.
            axis: motion axis of the dof (6 values).
            subtree: preorder range of the frames that the dof moves.
        """
        tracer, layout = self.ctx.tracer, group.layout
        records = group.records.row

        def moves(frame: Value) -> Value:
            first, last = subtree
            return ir.select(first, frame, ir.select(frame, last, 1.0, 0.0), 0.0)

        def write_entries(index: Value) -> None:
            record = contact_record(self.ctx, group, index)
            a, b = record.read("frames")
            sign, record_offset = moves(b) - moves(a), record.offset
            for k in range(group.condim):
                jacobian_row = record.read("spatial_jacobian", 6 * k, 6)
                tracer.write(
                    SCRATCH,
                    [sign * dot(axis, jacobian_row)],
                    records + layout.offsets["jacobian"] + k * jacobian_row_stride(layout),
                    record_offset + dof,
                )

        tracer.counted_loop("contacts", self.count(group), write_entries)

    # -------------------------------------------------------------------------------------------------------- residuals

    def initialize_residuals(self, qacc_smooth: LoadedVector, velocity: LoadedVector) -> None:
        """Write the residual J a - aref of each contact row at the unconstrained accelerations, one thread per row.

        aref = -(damping * J v + position feedback), with separate damping in normal and tangential directions.
        """

        def write_residual(row: ContactRow) -> None:
            terms = [ir.select(row.row_index, 0.5, a, b) for a, b in self._reference_terms(row)]
            acceleration = self.multiply_jacobian(row, qacc_smooth)
            relative_velocity = self.multiply_jacobian(row, velocity) + row.surface_velocity()
            row.write("residual", acceleration + terms[0] * relative_velocity + terms[1])

        for group in self.groups:

            def run(index: Value, group: ContactGroup = group) -> list[Value]:
                write_residual(ContactRow(self.ctx, group, index))
                return []

            self.ctx.tracer.parallel_loop("contact residuals", self.n_rows(group), run)

    @staticmethod
    def _reference_terms(row: ContactRow) -> list[tuple[Value, Value]]:
        """Return (normal, tangential) pairs of damping [1/s] and of position feedback (zero if tangential)."""
        damping, friction_damping, position_feedback = (
            row.read_contact(element) for element in ("damping", "friction_damping", "position_feedback")
        )
        return [(damping, friction_damping), (position_feedback, 0.0)]

    def n_rows(self, group: ContactGroup) -> Value:
        """Return the number of contact rows of a group, including surplus rows of contacts with a smaller condim."""
        return float(group.condim) * self.count(group)

    def multiply_jacobian(self, row: ContactRow, vector: LoadedVector) -> Value:
        """Return the product of a contact's Jacobian row with a joint-space vector."""
        return row.multiply_jacobian(vector.values)

    # ----------------------------------------------------------------------------------------- joint forces and Hessian

    @staticmethod
    def store_derivatives(record: Contact, residual: Sequence[Value]) -> None:
        """Write gradient, Hessian and number of active rows of a contact's cost at `residual` into its record.

        The Hessian is stored in compact form for elliptic cones, else as a full matrix. Contacts without force get 0
        active rows and are skipped in the assembly of the Hessian.
        """
        n, n_rows = record.condim, record.scalar("n_rows")
        if record.elliptic:
            stiffness, mu = record.stiffness_and_mu
            gradient, hessian = cone_gradient_and_hessian(residual, stiffness, mu)
            record.write("gradient", gradient)
            record.write(
                "n_active_rows",
                [ir.select(0.0, hessian.diagonal[0] + hessian.cone_weight, n_rows, 0.0)],
            )
            record.write(
                "hessian",
                [*hessian.diagonal[:2], hessian.cone_weight, hessian.tangent_weight, mu, *hessian.tangent],
            )
            return
        derivatives = contact_cost_derivatives(residual, *record.stiffness_and_mu, elliptic=False)
        record.write("gradient", derivatives.gradient)
        record.write("n_active_rows", [ir.select(0.0, derivatives.hessian[0][0], n_rows, 0.0)])
        for i in range(n):
            row = [derivatives.hessian[max(i, j)][min(i, j)] for j in range(n)]
            record.write("hessian", row, i * round_up_to_4(n))

    def joint_force(self, dof: Value) -> Value:
        """Return the joint force J^T f of all contacts on one dof, with f the negative cost gradient."""
        tracer, sums = self.ctx.tracer, self.ctx.tracer.allocate_local(1)
        tracer.write(sums, [0.0])
        for group in self.groups:
            self._add_joint_force(group, dof, sums)
        return tracer.read(sums)

    def _add_joint_force(self, group: ContactGroup, dof: Value, total: str) -> None:
        """Add the joint force J^T f of all contacts of a group on one dof to the local array `total`."""
        tracer, layout = self.ctx.tracer, group.layout

        def add_contact(index: Value) -> None:
            record, offset = contact_record(self.ctx, group, index), index * float(layout.record_size) + dof
            first = group.records.row + layout.offsets["jacobian"]
            jacobian_column = [
                tracer.read(SCRATCH, first + k * jacobian_row_stride(layout), offset) for k in range(layout.condim)
            ]
            gradient = record.read("gradient")
            tracer.write(total, [tracer.read(total) - dot(gradient, jacobian_column)])

        tracer.counted_loop("contacts", self.count(group), add_contact)

    def hessian_terms(self) -> tuple[HessianTerm, ...]:
        """Return descriptors of the terms J^T H J that the contacts add to the Hessian, one per group."""
        return tuple(
            HessianTerm(
                MemoryLocation(SCRATCH, group.records.row),
                group.layout.record_size,
                MemoryLocation(SCRATCH, group.count.row),
                group.condim,
                group.layout.offsets["n_active_rows"],
                group.layout.offsets["hessian"],
                group.layout.offsets["jacobian"],
                jacobian_row_stride(group.layout),
                group.elliptic,
            )
            for group in self.groups
        )


# ---------------------------------------------------------------------------------------------- Jacobian over two trees


class ContactSide:
    """Accessor of the Jacobian of a contact with respect to one of its two trees."""

    def __init__(self, record: Contact, tree_stride: int, side: Value) -> None:
        self.record, self.tree_stride, self.side = record, tree_stride, side

    def jacobian_entry(self, row: int, column: int, column_offset: Value = 0.0) -> Value:
        """Return the Jacobian entry of a row and a column (dof within the tree, plus a run-time column offset)."""
        record, layout = self.record, self.record.layout
        first = record.start + layout.offsets["jacobian"] + row * jacobian_row_stride(layout) + column
        return record.tracer.read(
            record.array, first, record.offset + self.side * float(self.tree_stride) + column_offset
        )


class TreePairContacts(WarpContacts):
    """All contacts of an environment as sorted records with Jacobian rows over two trees, and lists per tree."""

    def __init__(
        self,
        ctx: TraceContext,
        contact_lists: ContactLists,
        motion_subspaces: NodeValues[MotionSubspace],
        layout: PaddedTreeLayout,
    ) -> None:
        self.layout = layout
        self.tree_contact_lists: list[tuple[int, int]] = []
        """Per group: scratch offset of a table with first entry and number of entries per tree, and scratch offset of
        the entries (2 * contact + side)."""
        super().__init__(ctx, contact_lists, motion_subspaces)
        for group in self.groups:
            self.tree_contact_lists.append(self._list_contacts_by_tree(group))

    def _record_layout(self, condim: int, *, elliptic: bool) -> ContactLayout:
        """Return the record layout with Jacobian rows over two padded trees, followed by the two tree indices.

        A contact with the world or within one tree has equal tree indices and its Jacobian in the second half of the
        row.
        """
        fields = ("tree_indices", *self._extra_fields())
        return warp_record_layout(condim, 2 * self.layout.stride, elliptic=elliptic, fields=fields)

    def _stage_in_shared_memory(self, group: ContactGroup) -> None:
        """Do nothing: there are too many contacts for shared memory."""

    # --------------------------------------------------------------------------------------------------------- Jacobian

    def _compute_jacobian(self, axes_start: int) -> None:
        """Copy all contacts into records and write their tree indices and Jacobian rows over the two trees.

        One thread per contact and column. `axes_start` is the scratch offset of the motion axes, six values per dof.
        """
        tracer, stride = self.ctx.tracer, self.layout.stride
        self._store_contacts()
        trees, dof_table = self._frame_tree_table(), self._dof_table(axes_start)
        for group in self.groups:

            def write_trees(index: Value, group: ContactGroup = group) -> list[Value]:
                record = contact_record(self.ctx, group, index)
                tree_indices = [tracer.read(SCRATCH, trees.row + 1, frame) for frame in record.read("frames")]
                a, b = (ir.select(x, -0.5, y, x) for x, y in (tree_indices, reversed(tree_indices)))
                record.write("tree_indices", [a, b])
                return []

            tracer.parallel_loop("trees of contacts", self.count(group), write_trees)

            def write_column(index: Value, group: ContactGroup = group) -> list[Value]:
                contact, column = divmod_index(index, 2 * stride)
                self._compute_jacobian_entry(contact_record(self.ctx, group, contact), column, dof_table)
                return []

            tracer.parallel_loop("Jacobian of contacts", self.count(group) * float(2 * stride), write_column)

    def _compute_jacobian_entry(self, record: Contact, column: Value, dof_table: ArenaOffset) -> None:
        """Write one Jacobian column of a contact: effect of a dof of one of its two trees on each contact row.

        Args:
            record: contact with its spatial Jacobian, frame and tree indices.
            column: dof within the two trees, 0 to 2 * stride - 1.
            dof_table: offset of the table of motion axes and subtree ranges (see `_dof_table`).
        """
        tracer, stride, layout = self.ctx.tracer, float(self.layout.stride), record.layout
        a, b = record.read("tree_indices")
        is_second = ir.select(column, stride - 0.5, 0.0, 1.0)
        tree = ir.select(is_second, 0.5, a, b)
        is_used = ir.select(0.5, ir.absolute(a - b) + is_second, 1.0, 0.0)
        dof = tree * stride + column - is_second * stride
        axis = [tracer.read(SCRATCH, dof_table.row + i, dof * 8.0) for i in range(6)]
        first, last = (tracer.read(SCRATCH, dof_table.row + 6 + i, dof * 8.0) for i in range(2))

        def moves(frame: Value) -> Value:
            return ir.select(first, frame, ir.select(frame, last, 1.0, 0.0), 0.0)

        frames = record.read("frames")
        sign = is_used * (moves(frames[1]) - moves(frames[0]))
        for k in range(record.condim):
            entry = dot(axis, record.read("spatial_jacobian", 6 * k, 6))
            row = record.start + layout.offsets["jacobian"] + k * jacobian_row_stride(layout)
            tracer.write(SCRATCH, [sign * entry], row, record.offset + column)

    def _frame_tree_table(self) -> ArenaOffset:
        """Write the tree index of each frame by preorder index, -1 for the world first; return the offset."""
        ctx, layout = self.ctx, self.layout
        table = ctx.allocate(len(ctx.nodes) + 1)
        rows = [LoopIteration("frame", {"to": table}, {"tree": [-1.0]})]
        for node in ctx.nodes:
            to = ArenaOffset(SCRATCH, table.row + 1 + self.frame_order[node.index])
            rows.append(LoopIteration("frame", {"to": to}, {"tree": [float(layout.tree_of[node.index])]}))
        ctx.for_each("trees of frames", rows, lambda iteration: iteration.write("to", [iteration.constant("tree")]))
        return table

    def _dof_table(self, axes_start: int) -> ArenaOffset:
        """Write per dof the motion axis (6) and the preorder range (2) of the frames that it moves; return the offset.

        Dofs are in the padded layout; padding entries are zero.
        """
        ctx, layout, last = self.ctx, self.layout, last_descendant_indices(self.ctx)
        start, table = ctx.allocate(8 * layout.size), list[LoopIteration]()
        nodes = [(node, dof) for node in ctx.nodes for dof in node.dofs]
        for i, (node, dof) in enumerate(nodes):
            bounds = [self.frame_order[node.index] - 0.5, last[node.index] + 0.5]
            to = ArenaOffset(SCRATCH, start.row + 8 * layout.position_of_dof[dof])
            table.append(
                LoopIteration("joint", {"to": to, "axis": ArenaOffset(SCRATCH, axes_start + 6 * i)}, {"bounds": bounds})
            )
        table += [
            LoopIteration("none", {"to": ArenaOffset(SCRATCH, start.row + 8 * position)}) for position in layout.padding
        ]

        ctx.for_each(
            "motion axes and subtree ranges of dofs",
            table,
            lambda iteration: iteration.write(
                "to",
                [*iteration.read_array("axis", 6), *iteration.constants("bounds")]
                if iteration.specialization == "joint"
                else [0.0] * 8,
            ),
        )
        return start

    def _list_contacts_by_tree(self, group: ContactGroup) -> tuple[int, int]:
        """Build the contact list of each tree (CSR layout); return scratch offsets of the bounds and of the entries.

        One thread per tree counts the preceding entries and appends 2 * contact + side. A contact within one tree or
        with the world is listed once, as side 1.
        """
        ctx, tracer, count = self.ctx, self.ctx.tracer, self.count(group)
        bounds = ctx.allocate(2 * self.layout.n_trees).row
        entries = ctx.allocate(2 * group.capacity, oversized=True).row

        def sides(index: Value) -> tuple[Value, Value, Value]:
            a, b = contact_record(ctx, group, index).read("tree_indices")
            return ir.select(0.5, ir.absolute(a - b), a, 1e9), a, b

        def list_tree(tree: Value) -> list[Value]:
            position = tracer.allocate_local(1)
            tracer.write(position, [0.0])

            def count_preceding(index: Value) -> None:
                a, _, b = sides(index)
                n_preceding = sum_values([ir.select(x, tree - 0.5, 1.0, 0.0) for x in (a, b)])
                tracer.write(position, [tracer.read(position) + n_preceding])

            tracer.counted_loop("contacts", count, count_preceding)
            start = tracer.read(position)
            tracer.write(SCRATCH, [start], bounds, tree * 2.0)

            def append(index: Value) -> None:
                a, _, b = sides(index)
                for side, x in enumerate((a, b)):
                    distance = ir.absolute(x - tree)

                    def append_entry(side: int = side) -> None:
                        end = tracer.read(position)
                        tracer.write(SCRATCH, [2.0 * index + float(side)], entries, end)
                        tracer.write(position, [end + 1.0])

                    if_less(tracer, "contact of this tree", distance, 0.5, append_entry)

            tracer.counted_loop("contacts", count, append)
            tracer.write(SCRATCH, [tracer.read(position) - start], bounds + 1, tree * 2.0)
            return []

        tracer.parallel_loop("contacts of trees", float(self.layout.n_trees), list_tree)
        return bounds, entries

    # -------------------------------------------------------------------------------------------------------- residuals

    def multiply_jacobian(self, row: ContactRow, vector: LoadedVector) -> Value:
        """Return the product of a contact's Jacobian row over two trees with a padded joint-space vector."""
        stride, products = self.layout.stride, list[Value]()
        for side in range(2):
            first = row.read_contact("tree_indices", side) * float(stride)
            elements = [self.ctx.tracer.read(SCRATCH, vector.start + i, first) for i in range(stride)]
            products.append(dot([row.jacobian_entry(side * stride + i) for i in range(stride)], elements))
        return products[0] + products[1]

    # ----------------------------------------------------------------------------------------- joint forces and Hessian

    def for_each_contact_of_tree(
        self,
        group: ContactGroup,
        tree: Value,
        body: Callable[[Contact, Value], None],
        entries: tuple[Value, Value] | None = None,
    ) -> None:
        """Run `body` with the record and the side (0 or 1) of each contact of a group that involves a tree.

        `entries` are the first and the number of the entries of the list to visit; None for all those of the tree.
        """
        tracer = self.ctx.tracer
        bounds, start = self.tree_contact_lists[self.groups.index(group)]
        first, count = entries or [tracer.read(SCRATCH, bounds + i, tree * 2.0) for i in range(2)]

        def visit(index: Value) -> None:
            contact, side = divmod_index(tracer.read(SCRATCH, start, first + index), 2)
            body(contact_record(self.ctx, group, contact), side)

        tracer.counted_loop("contacts of a tree", count, visit)

    def _add_joint_force(self, group: ContactGroup, dof: Value, total: str) -> None:
        """Add the joint force of a group's contacts on one dof, using the contact list of its tree, to `total`."""
        tracer, layout = self.ctx.tracer, group.layout
        tree, column = divmod_index(dof, self.layout.stride)

        def add_contact(record: Contact, side: Value) -> None:
            contact_side = ContactSide(record, self.layout.stride, side)
            gradient = record.read("gradient")
            product = dot(gradient, [contact_side.jacobian_entry(k, 0, column) for k in range(layout.condim)])
            tracer.write(total, [tracer.read(total) - product])

        self.for_each_contact_of_tree(group, tree, add_contact)

    def tree_couplings(self) -> tuple[EdgeRecords, ...]:
        """Return descriptors of the contact records as edges of the tree graph, for minimum-degree ordering."""
        return tuple(
            EdgeRecords(
                MemoryLocation(SCRATCH, group.records.row),
                group.layout.record_size,
                MemoryLocation(SCRATCH, group.count.row),
                group.layout.offsets["tree_indices"],
            )
            for group in self.groups
        )

    def add_hessian_row(
        self,
        target: str,
        tree_pair: tuple[Value, Value],
        row: Value,
        entries: Sequence[tuple[Value, Value]] | None = None,
    ) -> None:
        """Add one row of J^T H J between two trees, or of one tree with itself, to the local array `target`.

        `entries` are, for each group, the first and the number of the entries in the contact list of the first tree
        that may be contacts with the second one; None for all of them.
        """
        for i, group in enumerate(self.groups):
            self._add_group_hessian_row(group, target, tree_pair, row, None if entries is None else entries[i])

    def _add_group_hessian_row(
        self,
        group: ContactGroup,
        target: str,
        tree_pair: tuple[Value, Value],
        row: Value,
        entries: tuple[Value, Value] | None,
    ) -> None:
        """Add one row of the J^T H J block of a tree pair, summed over the active contacts of a group.

        Args:
            group: contacts.
            target: local array of one matrix row (tree stride values).
            tree_pair: tree of the block row and tree of the block column; equal for a diagonal block.
            row: dof within the first tree.
            entries: entries of the contact list of the first tree that are visited (`for_each_contact_of_tree`).
        """
        tracer, stride, (row_tree, column_tree) = self.ctx.tracer, self.layout.stride, tree_pair
        tree_difference = ir.absolute(row_tree - column_tree)

        def visit(record: Contact, side: Value) -> None:
            other_side = ir.select(tree_difference, 0.5, side, 1.0 - side)
            other_tree = tracer.read(
                SCRATCH, group.records.row + group.layout.offsets["tree_indices"], record.offset + other_side
            )
            n_active = record.scalar("n_active_rows")
            n_relevant = ir.select(ir.absolute(other_tree - column_tree), 0.5, n_active, 0.0)
            if_less(tracer, "active contact between both trees", 0.5, n_relevant, lambda: add(record, side, other_side))

        def add(record: Contact, side: Value, other_side: Value) -> None:
            row_side, column_side = (ContactSide(record, stride, x) for x in (side, other_side))
            weighted = _multiply_contact_hessian(
                record, [row_side.jacobian_entry(k, 0, row) for k in range(group.condim)]
            )
            for i in range(stride):
                product = dot(weighted, [column_side.jacobian_entry(k, i) for k in range(group.condim)])
                tracer.write(target, [tracer.read(target, i) + product], i)

        self.for_each_contact_of_tree(group, row_tree, visit, entries)


def divmod_index(index: Value, divisor: int) -> tuple[Value, Value]:
    """Return quotient and remainder of an index value by a constant divisor, in floating point."""
    quotient = ir.floor((index + 0.5) * (1.0 / divisor))
    return quotient, index - float(divisor) * quotient


def _multiply_contact_hessian(record: Contact, vector: Sequence[Value]) -> list[Value]:
    """Return the product of a contact's stored cost Hessian (compact if elliptic) with a vector of row values."""
    n = record.condim
    if not record.elliptic:
        rows = [record.read("hessian", k * round_up_to_4(n), n) for k in range(n)]
        return [dot(row, vector) for row in rows]
    normal_weight, tangential_weight, cone_weight, tangent_weight, mu, *tangent = record.read("hessian")
    tangential = dot(tangent, vector[1:]) if n > 1 else 0.0
    cone_term = cone_weight * (vector[0] - mu * tangential)
    tangent_term = mu * cone_term + tangent_weight * tangential
    return [
        normal_weight * vector[0] + cone_term,
        *(tangential_weight * x - tangent_term * t for t, x in zip(tangent, vector[1:], strict=True)),
    ]
