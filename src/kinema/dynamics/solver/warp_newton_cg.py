"""Newton-CG by a warp for scenes of many trees: conjugate gradients with a block Jacobi preconditioner.

The method of `newton_cg.py` (Nocedal and Wright, section 7.1), shared by the threads of a warp. The Hessian has a dense
block per tree, and one per pair of trees in contact, stored for both trees (block compressed sparse rows), so that each
thread computes one row of a product. Nothing is eliminated: neither the number of trees nor the number of neighbours of
a tree is limited, and memory is proportional to the number of contacts.
"""

from __future__ import annotations

from collections.abc import Sequence

from kinema import ir
from kinema.ir import SCRATCH, Value

from ..collision.contact_records import Contact
from ..constraints.warp_contacts import TreePairContacts, divmod_index
from ..tree.per_tree import PaddedTreeLayout
from ..tree.trace_context import TraceContext
from ..vector_math import dot, sum_values
from .newton import TINY, SearchDirection
from .newton_cg import CG_TOLERANCES_DOUBLE, CG_TOLERANCES_SINGLE, MAX_CG_ITERATIONS, MIN_PIVOT_SHARE
from .objective import JointVector
from .warp_objective import BlockDiagonalMatrix, WarpObjective


class TreePairBlocks:
    """Blocks of the Hessian of a warp: one per tree, and per tree one for each other tree that it touches.

    Rows of blocks are compressed: the neighbours of a tree and their blocks are contiguous. The first neighbour has the
    index of the first contact of the tree in the lists of all contacts by tree.
    """

    def __init__(self, ctx: TraceContext, layout: PaddedTreeLayout, contacts: TreePairContacts | None) -> None:
        self.ctx, self.layout, self.contacts = ctx, layout, contacts
        stride = layout.stride
        n_entries = 1 if contacts is None else sum(2 * group.capacity for group in contacts.groups)
        self.neighbour_ranges = ctx.allocate(2 * layout.n_trees).row
        """First neighbour and number of neighbours of each tree."""
        self.neighbours = ctx.allocate(n_entries, oversized=True).row
        """Tree index of each neighbour."""
        self._entry_width = 0 if contacts is None else 2 * len(contacts.groups)
        self.entry_ranges = ctx.allocate(max(n_entries * self._entry_width, 1), oversized=True).row
        """Per neighbour and group of contacts, the first and the end of its entries in the contact list of the tree."""
        self.blocks = ctx.allocate(n_entries * stride**2, oversized=True).row
        """Off-diagonal blocks, one per neighbour, stored by columns: threads read consecutive rows."""
        self.diagonal, self.inverse = (ctx.allocate(layout.size * stride, oversized=True).row for _ in range(2))
        """Diagonal blocks and their inverses, stored by rows."""

    def _read(self, row: int, index: Value | None = None) -> Value:
        return self.ctx.tracer.read(SCRATCH, row, index)

    def find_neighbours(self) -> None:
        """Write the list of neighbours of each tree: the other trees of its contacts, without repetitions.

        Also writes which entries of the contact list of the tree belong to a neighbour, per group the first one and the
        end. Contacts are sorted by geom pair, so that these are few others.
        """
        tracer, contacts = self.ctx.tracer, self.contacts
        lists = [] if contacts is None else contacts.tree_contact_lists
        width = float(self._entry_width)

        def list_neighbours(tree: Value) -> list[Value]:
            first = sum_values([self._read(start, tree * 2.0) for start, _ in lists])
            count, entry = tracer.allocate_local(1), tracer.allocate_local(1)
            tracer.write(count, [0.0])

            def visit(group_index: int, other: Value) -> None:
                """Find the place of another tree among the neighbours, or append it; extend its range by the entry."""
                found = tracer.allocate_local(1)
                tracer.write(found, [ir.select(ir.absolute(other - tree), 0.5, -1.0, tracer.read(count))])

                def compare(index: Value) -> None:
                    distance = ir.absolute(self._read(self.neighbours, first + index) - other)
                    tracer.write(found, [ir.select(distance, 0.5, index, tracer.read(found))])

                def append() -> list[Value]:
                    position = first + tracer.read(count)
                    tracer.write(SCRATCH, [other], self.neighbours, position)
                    tracer.write(SCRATCH, [0.0] * self._entry_width, self.entry_ranges, position * width)
                    tracer.write(count, [tracer.read(count) + 1.0])
                    return []

                def extend() -> list[Value]:
                    range_offset = (first + tracer.read(found)) * width
                    start, end = (self.entry_ranges + 2 * group_index + i for i in range(2))
                    is_new = ir.select(self._read(end, range_offset), 0.5, 1.0, 0.0)
                    begin = ir.select(0.5, is_new, tracer.read(entry), self._read(start, range_offset))
                    tracer.write(SCRATCH, [begin, tracer.read(entry) + 1.0], start, range_offset)
                    return []

                tracer.counted_loop("known neighbours", tracer.read(count), compare)
                tracer.if_less("new neighbour", tracer.read(count) - 0.5, tracer.read(found), append, [])
                tracer.if_less("other tree", -0.5, tracer.read(found), extend, [])
                tracer.write(entry, [tracer.read(entry) + 1.0])

            for i, group in enumerate([] if contacts is None else contacts.groups):
                assert contacts is not None
                tracer.write(entry, [self._read(lists[i][0], tree * 2.0)])

                def visit_contact(record: Contact, side: Value, group_index: int = i) -> None:
                    trees = record.read("tree_indices")
                    visit(group_index, ir.select(side, 0.5, trees[1], trees[0]))

                contacts.for_each_contact_of_tree(group, tree, visit_contact)
            tracer.write(SCRATCH, [first, tracer.read(count)], self.neighbour_ranges, tree * 2.0)
            return []

        tracer.parallel_loop("neighbours of trees", float(self.layout.n_trees), list_neighbours)

    def _entries_of(self, neighbour: Value) -> list[tuple[Value, Value]]:
        """Range of contact-list entries of a neighbour for each group: first entry and number of entries."""
        assert self.contacts is not None
        offset = neighbour * float(self._entry_width)
        ranges = []
        for i in range(len(self.contacts.groups)):
            start, end = (self._read(self.entry_ranges + 2 * i + k, offset) for k in range(2))
            ranges.append((start, end - start))
        return ranges

    # --------------------------------------------------------------------------------------------------------- assembly

    def assemble(self, mass: BlockDiagonalMatrix, diagonal_start: int) -> None:
        """Write the Hessian M + diagonal + J^T H J of the contacts, and the inverses of its diagonal blocks.

        One thread per row of blocks, then one per tree. `diagonal_start` is the scratch offset of the vector added to
        the diagonal (stiffness of single-dof rows).
        """
        tracer, stride, contacts = self.ctx.tracer, self.layout.stride, self.contacts

        def write_row(index: Value) -> list[Value]:
            tree, row = divmod_index(index, stride)
            sums, extra = tracer.allocate_local(stride), self._read(diagonal_start, index)
            for i in range(stride):
                entry = self._read(mass.start + i, index * float(stride))
                tracer.write(sums, [entry + ir.select(ir.absolute(row - float(i)), 0.5, extra, 0.0)], i)
            if contacts is not None:
                contacts.add_hessian_row(sums, (tree, tree), row)
            tracer.write(SCRATCH, [tracer.read(sums, i) for i in range(stride)], self.diagonal, index * float(stride))
            if contacts is None:
                return []
            first, count = (self._read(self.neighbour_ranges + i, tree * 2.0) for i in range(2))

            def write_neighbour(neighbour: Value) -> None:
                entries, position = tracer.allocate_local(stride), first + neighbour
                tracer.write(entries, [0.0] * stride)
                pair = tree, self._read(self.neighbours, position)
                contacts.add_hessian_row(entries, pair, row, self._entries_of(position))
                start = position * float(stride**2) + row
                for i in range(stride):
                    tracer.write(SCRATCH, [tracer.read(entries, i)], self.blocks + i * stride, start)

            tracer.counted_loop("blocks of neighbours", count, write_neighbour)
            return []

        tracer.parallel_loop("rows of the Hessian", float(self.layout.size), write_row)

        def invert(tree: Value) -> list[Value]:
            offset = tree * float(stride**2)
            matrix = [[self._read(self.diagonal + i * stride + j, offset) for j in range(i + 1)] for i in range(stride)]
            bounds = [self._read(mass.start + i * (stride + 1), offset) for i in range(stride)]
            inverse = inverse_by_ldl(matrix, bounds)
            for i in range(stride):
                row = [inverse[max(i, j)][min(i, j)] for j in range(stride)]
                tracer.write(SCRATCH, row, self.inverse + i * stride, offset)
            return []

        tracer.parallel_loop("inverse diagonal blocks", float(self.layout.n_trees), invert)

    # --------------------------------------------------------------------------------------------------------- products

    def _elements(self, vector_start: int, tree: Value) -> list[Value]:
        """Elements of a vector that belong to a tree."""
        return [self._read(vector_start + i, tree * float(self.layout.stride)) for i in range(self.layout.stride)]

    def _block_row(self, start: int, block: Value, row: Value) -> list[Value]:
        """One row of a block stored by columns, or of a symmetric one."""
        stride = self.layout.stride
        offset = block * float(stride**2) + row
        return [self._read(start + i * stride, offset) for i in range(stride)]

    def row_times(self, index: Value, vector_start: int) -> Value:
        """Return one row of the Hessian times a vector."""
        tracer = self.ctx.tracer
        tree, row = divmod_index(index, self.layout.stride)
        total = tracer.allocate_local(1)
        tracer.write(total, [dot(self._block_row(self.diagonal, tree, row), self._elements(vector_start, tree))])
        first, count = (self._read(self.neighbour_ranges + i, tree * 2.0) for i in range(2))

        def add_block(neighbour: Value) -> None:
            elements = self._elements(vector_start, self._read(self.neighbours, first + neighbour))
            product = dot(self._block_row(self.blocks, first + neighbour, row), elements)
            tracer.write(total, [tracer.read(total) + product])

        tracer.counted_loop("blocks of neighbours", count, add_block)
        return tracer.read(total)

    def precondition_row(self, index: Value, vector_start: int) -> Value:
        """Return one row of the inverse of the diagonal blocks times a vector."""
        tree, row = divmod_index(index, self.layout.stride)
        return dot(self._block_row(self.inverse, tree, row), self._elements(vector_start, tree))


def inverse_by_ldl(matrix: Sequence[Sequence[Value]], mass: Sequence[Value]) -> list[list[Value]]:
    """Lower triangle of the inverse of a positive definite matrix, given its lower triangle, by factors L D L^T.

    Pivots are bounded from below by a fraction of the diagonal `mass` of the mass matrix, so that rounding cannot make
    the factorisation fail.
    """
    n, entry = len(matrix), [list(row) for row in matrix]
    inverse_pivots: list[Value] = []
    for k in range(n):
        inverse = 1.0 / ir.maximum(entry[k][k], MIN_PIVOT_SHARE * mass[k])
        inverse_pivots.append(inverse)
        column = [entry[i][k] for i in range(k + 1, n)]
        for i in range(k + 1, n):
            entry[i][k] = entry[i][k] * inverse
            for j in range(k + 1, i + 1):
                entry[i][j] = entry[i][j] - entry[i][k] * column[j - k - 1]
    lower: list[list[Value]] = [[0.0] * i + [1.0] for i in range(n)]  # L^-1
    for j in range(n):
        for i in range(j + 1, n):
            lower[i][j] = -sum_values([entry[i][k] * lower[k][j] for k in range(j, i)])
    scaled = [[inverse_pivots[k] * x for x in lower[k]] for k in range(n)]
    return [[sum_values([lower[k][i] * scaled[k][j] for k in range(i, n)]) for j in range(i + 1)] for i in range(n)]


# ------------------------------------------------------------------------------------------------ conjugate gradients


class WarpNewtonCGDirection(SearchDirection):
    """Newton direction of trees in contact, by conjugate gradients with a block Jacobi preconditioner.

    All constraint rows must act on single dofs; only contacts couple trees.
    """

    loose_tolerance = 3e-4
    starts_warm = True

    def __init__(self, objective: WarpObjective, layout: PaddedTreeLayout, contacts: TreePairContacts | None) -> None:
        self.objective, self.layout, self.ctx = objective, layout, objective.ctx
        self.hessian = TreePairBlocks(self.ctx, layout, contacts)
        new = objective.vectors.new
        self._solution, self._residual, self._preconditioned, self._conjugate, self._product = (
            new(name) for name in ("direction", "residual", "preconditioned residual", "conjugate", "product")
        )

    def find_sparsity(self) -> None:
        """Find the pairs of trees in contact."""
        self.hessian.find_neighbours()

    def compute(self) -> JointVector:
        """Return the Newton direction H^-1 (-g), up to the tolerance of the conjugate gradients."""
        objective, tracer = self.objective, self.ctx.tracer
        self.hessian.assemble(objective.mass, self.ctx.start_offset(objective.hessian_diagonal))
        first, forces = self._begin()
        is_single = self.ctx.settings.is_single_precision
        relative, absolute = CG_TOLERANCES_SINGLE if is_single else CG_TOLERANCES_DOUBLE
        threshold = ir.maximum(relative**2 * first, absolute**2 * forces)

        def iterate(state: Sequence[Value]) -> tuple[list[Value], Value, Value]:
            squares = self._iterate(state[0], state[1])
            return [squares, squares / ir.maximum(state[0], TINY)], threshold, squares

        def solve() -> list[Value]:
            tracer.while_loop("conjugate gradients", iterate, [first, 0.0], MAX_CG_ITERATIONS)
            return []

        tracer.if_less("nonzero gradient", 0.0, first, solve, [])
        return self._solution

    def _begin(self) -> list[Value]:
        """Write x = 0, r = -g and z = P^-1 r; return r . z, and f . P^-1 f of the forces f."""
        vectors, state, start = self.objective.vectors, self.objective.state, self.ctx.start_offset

        def begin(dof: Value) -> list[Value]:
            preconditioned = self.hessian.precondition_row(dof, start(state.negative_gradient))
            scaled_force = self.hessian.precondition_row(dof, start(state.mass_times_acceleration))
            residual, force = (vectors.read(x, dof) for x in (state.negative_gradient, state.mass_times_acceleration))
            for vector, value in (
                (self._solution, 0.0),
                (self._conjugate, 0.0),
                (self._residual, residual),
                (self._preconditioned, preconditioned),
            ):
                vectors.write(vector, dof, value)
            return [residual * preconditioned, force * scaled_force]

        return vectors.for_each_dof("begin conjugate gradients", begin, 2)

    def _iterate(self, squares: Value, factor: Value) -> Value:
        """Take one step of preconditioned conjugate gradients; return r . z of the next iterate.

        Args:
            squares: r . z of the current iterate.
            factor: share of the previous conjugate direction in the next one.
        """
        vectors, start = self.objective.vectors, self.ctx.start_offset

        def turn(dof: Value) -> list[Value]:
            conjugate = vectors.read(self._preconditioned, dof) + factor * vectors.read(self._conjugate, dof)
            return vectors.write(self._conjugate, dof, conjugate)

        vectors.for_each_dof("conjugate direction", turn)

        def multiply(dof: Value) -> list[Value]:
            product = self.hessian.row_times(dof, start(self._conjugate))
            vectors.write(self._product, dof, product)
            return [vectors.read(self._conjugate, dof) * product]

        (curvature,) = vectors.for_each_dof("product with the Hessian", multiply, 1)
        length = squares / ir.maximum(curvature, TINY)

        def advance(dof: Value) -> list[Value]:
            x, conjugate = vectors.read(self._solution, dof), vectors.read(self._conjugate, dof)
            residual = vectors.read(self._residual, dof) - length * vectors.read(self._product, dof)
            vectors.write(self._solution, dof, x + length * conjugate)
            return vectors.write(self._residual, dof, residual)

        vectors.for_each_dof("advance conjugate gradients", advance)

        def precondition(dof: Value) -> list[Value]:
            preconditioned = self.hessian.precondition_row(dof, start(self._residual))
            vectors.write(self._preconditioned, dof, preconditioned)
            return [vectors.read(self._residual, dof) * preconditioned]

        return vectors.for_each_dof("preconditioned residual", precondition, 1)[0]
