"""Newton-CG: search directions of scenes of many bodies by preconditioned conjugate gradients on the Newton system.

Nocedal and Wright, section 7.1 (line-search Newton-CG). The Hessian H = M + J^T D J of a scene of free bodies has a
dense block per body, and one per pair of bodies in contact. A factorisation fills in: in a heap, its cost grows with
the square of the number of bodies and more. Conjugate gradients need products with H only, whose cost is proportional
to the number of contacts, and soft contacts limit the condition number of the system that is preconditioned by the
diagonal blocks, so that the number of iterations hardly grows with the number of bodies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from kinema import ir
from kinema.ir import SCRATCH, ArenaOffset, IterationContext, IterationTable, OffsetColumn, Value

from ..collision.contact_buffer_specs import ContactSpecialization
from ..collision.contact_buffers import ContactBufferFilter
from ..collision.contact_slots import ContactSlots, PairLoop
from ..constraints.contact_jacobian import (
    N_SPATIAL_HESSIAN,
    apply_spatial_hessian,
    first_contact_point,
    read_local_array,
    shift_spatial_hessian,
    shift_twist,
    sum_spatial_hessians,
    unflatten_twist,
)
from ..free_bodies import articulated_trees
from ..tree.body_context import (
    BODY_DOFS,
    LOWER_TRIANGLE,
    BodyFactors,
    BodyMassMatrix,
    multiply_packed,
    node_values_in,
)
from ..tree.kinematic_tree import WORLD, Ints, NodeRefs, NodeType, frame_ref
from ..tree.loop_context import tree_index_of_frames
from ..tree.node_tables import NodeColumns
from ..tree.node_values import NodeValues, flatten
from ..tree.per_tree import PerFrameArray, PerTreeArray
from ..tree.trace_context import TraceContext
from ..vector_math import ZERO, dot, sub, sum_values
from .articulated_system import ArticulatedInputs, ArticulatedSystem
from .newton import TINY, SearchDirection
from .objective import JointVector, ThreadObjective

MIN_BODIES = 64
"""Number of free bodies from which on conjugate gradients are used; measured with heaps of boxes and spheres."""
CG_TOLERANCES_SINGLE, CG_TOLERANCES_DOUBLE = (3e-3, 1e-5), (1e-10, 1e-12)
"""Residual of the Newton system relative to the gradient, or to the constraint forces, in the norm of the
preconditioner, by precision."""
MAX_CG_ITERATIONS = 200
"""Maximum number of iterations for one direction."""
BodyArray = PerTreeArray | PerFrameArray | ArenaOffset
"""Array of loops over bodies: by tree, by body or link, or common to all."""


def fits_newton_cg(objective: ThreadObjective) -> bool:
    """Whether Newton-CG applies, with all trees solved together.

    With rules of collision always; with a table of pairs for many free bodies, contacts and no other constraints.
    """
    ctx, contacts = objective.ctx, objective.contacts
    if contacts is None or ctx.idle_flags is not None or ctx.tracer.in_warp_region:
        return False
    if ctx.model.has_pair_rules:
        return True
    if (
        objective.rows.blocks
        or ctx.settings.differentiable
        or ctx.settings.noslip_iterations
        or len(ctx.trees) < MIN_BODIES
    ):
        return False
    dofs_of_trees = dict.fromkeys(ctx.trees, 0)
    trees = tree_index_of_frames(ctx.model)
    for node in ctx.nodes:
        dofs_of_trees[trees[node.index]] += len(node.dofs)
    if set(dofs_of_trees.values()) != {BODY_DOFS}:
        return False
    last = set(_last_frames(ctx))
    frames = {frame for x in contacts.listed_buffers.buffers for frame in x.spec.frames if frame != WORLD}
    return frames <= last


def _articulated_inputs(objective: ThreadObjective) -> ArticulatedInputs | None:
    """Articulated trees of a solve; all trees, if nodes are frames and not all trees are free bodies."""
    ctx, inputs = objective.ctx, objective.inputs
    if isinstance(inputs.mass_matrix, BodyMassMatrix):
        assert isinstance(inputs.mass_factors, BodyFactors)
        matrix, factors = inputs.mass_matrix.articulated, inputs.mass_factors.articulated
        if matrix is None or factors is None:
            return None
        return ArticulatedInputs(ctx.articulated, matrix, factors, objective.rows)
    if not ctx.model.has_pair_rules or not articulated_trees(ctx.model).any():
        return None
    return ArticulatedInputs(ctx, inputs.mass_matrix, inputs.mass_factors, objective.rows)


def _last_frames(ctx: TraceContext) -> list[int]:
    """Last frame of each tree of the context."""
    trees = tree_index_of_frames(ctx.model)
    return list({trees[node.index]: node.index for node in ctx.nodes}.values())


class NewtonCGDirection(SearchDirection):
    """Newton direction of bodies in contact, by conjugate gradients with a block Jacobi preconditioner."""

    loose_tolerance = 3e-4
    starts_warm = True

    def __init__(self, objective: ThreadObjective) -> None:
        self.objective, self.ctx = objective, objective.ctx
        ctx = self.ctx
        assert objective.contacts is not None
        self.contacts = objective.contacts
        self._has_vectors = ctx.settings.uses_superwords
        """Whether matrices are stored such that products with vectors are computed by SIMD instructions."""
        n_entries = len(LOWER_TRIANGLE)
        n_stored = BODY_DOFS**2 if self._has_vectors else n_entries
        self.diagonal, self.inverse = (PerTreeArray(ctx, n_stored) for _ in range(2))
        """Diagonal block of H and its inverse, by tree: packed triangles, or whole matrices for SIMD code."""
        matrix = objective.inputs.mass_matrix
        self._has_body_nodes = isinstance(matrix, BodyMassMatrix)
        self.mass = matrix.entries if isinstance(matrix, BodyMassMatrix) else PerTreeArray(ctx, n_entries)
        """Mass matrix, by tree."""
        articulated = _articulated_inputs(objective)
        links = [] if articulated is None else [node.index for node in articulated.ctx.nodes]
        self._last = [frame for frame in _last_frames(ctx) if frame not in set(links)]
        """Last frame of each free body."""
        self._has_axes = bool(links) or not self._has_body_nodes
        """Whether motion axes are in an array; else each row is a node whose motion axes are those of a free joint."""
        row_of_frame, n_rows = np.full(ctx.model.n_frames, -1), len(self._last) + len(links)
        row_of_frame[[*self._last, *links]] = np.arange(n_rows)
        n_axes = BODY_DOFS * 6 if self._has_axes else 0
        self.axes, self.p, self.product = (
            PerFrameArray(ctx, n, row_of_frame, n_rows) for n in (n_axes, BODY_DOFS, BODY_DOFS)
        )
        """Motion axes about the reference point, direction, and product with it, by free body or link."""
        self.x, self.residual = (PerTreeArray(ctx, BODY_DOFS) for _ in range(2))
        self.scalars = ctx.allocate(7)
        """r . z, its first value, p . H p, f . P^-1 f of the constraint forces f, factor of the last direction in the
        next one, step length, and the last r . z."""
        self._articulated = None
        """Trees that are no free bodies; None without any."""
        if articulated is not None:
            of_links = {"axes": self.axes, "p": self.p, "product": self.product}
            self._articulated = ArticulatedSystem(articulated, self.contacts, of_links, self.scalars)
        self._trees = np.array(tree_index_of_frames(ctx.model))
        self._dofs: dict[int, list[int]] = {tree: [] for tree in ctx.trees}
        """Degrees of freedom of each tree."""
        for node in ctx.nodes:
            self._dofs[int(self._trees[node.index])] += node.dofs
        buffers = self.contacts.buffers
        if isinstance(buffers, ContactSlots):
            counts = [pool.pairs[False].capacity for pool in buffers.pools]
        else:
            counts = [1] * len(buffers.select_buffers(ContactBufferFilter.BETWEEN_FRAMES))
        self._block_size = (2 if self._has_vectors else 1) * BODY_DOFS**2
        self._blocks = ctx.allocate_many([self._block_size * count for count in counts])
        """Blocks of H of each contact buffer between two bodies, or of the pairs in contact of each pool: by rows, and
        for SIMD code also by columns."""

    # ------------------------------------------------------------------------------------------------------------ loops

    def _for_each_body(
        self, name: str, body: Callable[[IterationContext], None], arrays: Mapping[str, BodyArray]
    ) -> None:
        """Trace a loop over the free bodies; iterations are bound to the frame of the body."""
        if not self._last:
            return
        frames = np.array(self._last)
        columns = {x: self._column_of(offset, frames) for x, offset in {**arrays, "scalars": self.scalars}.items()}
        group = self.ctx.node_columns("body", np.arange(len(frames)), {"": NodeRefs(NodeType.FRAMES, frames)}, columns)
        with self.ctx.without_unrolling():
            self.ctx.for_each(name, IterationTable([group]), body, self.ctx.active_bodies)

    def _column_of(self, array: BodyArray, frames: Ints) -> OffsetColumn:
        """Offsets of an array for the bodies or links with the given frames."""
        if isinstance(array, ArenaOffset):
            return OffsetColumn.repeated(array, len(frames))
        return array.column_of(frames if isinstance(array, PerFrameArray) else self._trees[frames])

    def _for_each_contact_pair(
        self,
        name: str,
        body: Callable[[IterationContext, ContactSpecialization], None],
        arrays: Mapping[str, BodyArray],
    ) -> None:
        """Trace a loop over the contact buffers between two bodies, with arrays of both as `<name> a` and `b`."""
        buffers, rows = self.contacts.buffers, list[NodeColumns]()
        if isinstance(buffers, ContactSlots):
            of_sides: dict[str, BodyArray] = {}
            for array, offset in arrays.items():
                is_per_body = not isinstance(offset, ArenaOffset)
                of_sides |= {f"{array} {side}": offset for side in "ab"} if is_per_body else {array: offset}
            loops = zip(buffers.pools, self._blocks, strict=True)
            pairs = [PairLoop(pool, False, {**of_sides, "block": blocks}) for pool, blocks in loops]
            buffers.for_each_active_buffer(name, body, pairs, ContactBufferFilter.BETWEEN_FRAMES)
            return
        for columns in buffers.buffer_columns(ContactBufferFilter.BETWEEN_FRAMES):
            rows.append(buffers.table_columns_of(columns))
            for side, refs in zip("ab", columns.frames, strict=True):
                for array, offset in arrays.items():
                    name_of_side = array if isinstance(offset, ArenaOffset) else f"{array} {side}"
                    rows[-1].set_column(name_of_side, self._column_of(offset, refs.index))
            offsets = [self._blocks[i] for i in columns.iteration_indices]
            rows[-1].set_column("block", OffsetColumn.from_offsets(offsets))
        if rows:
            buffers.for_each_active_buffer(name, body, rows, ContactBufferFilter.BETWEEN_FRAMES)

    # ---------------------------------------------------------------------------------------------------------- Hessian

    def find_sparsity(self) -> None:
        """Store the mass matrix and the motion axes of each body, unless these are values of a node."""
        ctx, matrix = self.ctx, self.objective.inputs.mass_matrix
        if self._articulated is not None:
            self._articulated.write_axes()
        if self._has_body_nodes and self._has_axes:
            subspaces = self.contacts.motion_subspaces_about_reference

            def store(iteration: IterationContext) -> None:
                iteration.write("axes", flatten(subspaces[frame_ref("")]))

            self._for_each_body("motion axes of bodies", store, {"axes": self.axes})
        if self._has_body_nodes or not self._last:
            return
        dofs = self._dofs
        axes = self._axis_places()
        rows = []
        for frame in self._last:
            tree = int(self._trees[frame])
            offsets = {"mass": self.mass.offset_of(tree), "axes": self.axes.offset_of(frame)}
            offsets |= {f"axis {i}": axes[dof] for i, dof in enumerate(self._dofs[tree])}
            for i, j in LOWER_TRIANGLE:
                offsets[f"entry {i} {j}"] = matrix.symmetric_entry(dofs[tree][i], dofs[tree][j])
            rows.append(ctx.node_iteration("body", {}, offsets, {}))

        def body(iteration: IterationContext) -> None:
            iteration.write("mass", [iteration.read(f"entry {i} {j}") for i, j in LOWER_TRIANGLE])
            iteration.write("axes", [x for i in range(BODY_DOFS) for x in iteration.read_array(f"axis {i}", 6)])

        with ctx.without_unrolling():
            ctx.for_each("mass matrices of bodies", rows, body)

    def _axis_places(self) -> dict[int, ArenaOffset]:
        """Scratch offset of the motion axis of each dof about the reference point of its tree."""
        subspaces = self.contacts.motion_subspaces_about_reference
        starts = {node.index: subspaces.offset_of(node.ref).row for node in self.ctx.nodes}
        return {d: ArenaOffset(SCRATCH, starts[n.index] + 6 * k) for n in self.ctx.nodes for k, d in enumerate(n.dofs)}

    def _assemble(self) -> NodeValues[list[Value]]:
        """Write the blocks of the pairs in contact; return the spatial Hessian of all contacts of each body."""
        hessians = self.contacts.world_contact_hessians()
        self._for_each_contact_pair(
            "Hessian blocks of pairs of bodies",
            lambda iteration, specialization: self._add_pair(iteration, specialization, hessians),
            {"axes": self.axes, "point": self.contacts.reference_points},
        )
        return hessians

    def _diagonal_block(self, iteration: IterationContext, hessian: list[Value]) -> list[Value]:
        """Write the diagonal block of H of the current body and its inverse; return the inverse, a packed triangle."""
        axes = self._read_axes(iteration)
        wrenches = [apply_spatial_hessian(hessian, unflatten_twist(axis)) for axis in axes]
        flat = [[*wrench.torque, *wrench.force] for wrench in wrenches]
        terms = [dot(axes[i], flat[j]) for i, j in LOWER_TRIANGLE]
        mass = iteration.read_array("mass", len(terms))
        diagonal = [a + b for a, b in zip(mass, terms, strict=True)]
        inverse = invert_packed(diagonal, mass)
        self._write_symmetric(iteration, "diagonal", diagonal)
        self._write_symmetric(iteration, "inverse", inverse)
        return inverse

    def _read_axes(self, iteration: IterationContext, side: str = "") -> list[list[Value]]:
        """Motion axes of the current body, or of body `a` or `b`: a twist [angular, linear] per dof."""
        if not self._has_axes:  # three slides, and a ball whose axes pass through the reference point
            twists = self.contacts.motion_subspaces_about_reference[frame_ref(f"{side} " if side else "")].twists
            slides = [[*ZERO, *twist.linear] for twist in twists[:3]]
            return slides + [[*twist.angular, *ZERO] for twist in twists[3:]]
        flat = iteration.read_array(f"axes {side}".strip(), 6 * BODY_DOFS)
        return [flat[6 * i : 6 * i + 6] for i in range(BODY_DOFS)]

    def _add_pair(
        self, iteration: IterationContext, specialization: ContactSpecialization, hessians: NodeValues[list[Value]]
    ) -> None:
        """Code of a pair of bodies in contact: its spatial Hessian on both frames, and the block J_a^T S J_b of H."""
        point = first_contact_point(iteration, specialization)
        hessian = sum_spatial_hessians(
            self.contacts.buffers,
            iteration,
            specialization,
            self.contacts.cost_model,
            lambda: read_local_array(iteration, point, 3),
        )
        for side in "ab":
            offset = sub(read_local_array(iteration, point, 3), iteration.read_array(f"point {side}", 3))
            shifted = shift_spatial_hessian(read_local_array(iteration, hessian, N_SPATIAL_HESSIAN), offset)
            hessians.add(frame_ref(f"{side} "), shifted)
        iteration.tracer.new_basic_block()
        offsets = [
            sub(read_local_array(iteration, point, 3), iteration.read_array(f"point {side}", 3)) for side in "ab"
        ]
        packed = read_local_array(iteration, hessian, N_SPATIAL_HESSIAN)
        columns = []
        for axis in self._read_axes(iteration, "b"):
            wrench = apply_spatial_hessian(packed, shift_twist(unflatten_twist(axis), offsets[1]))
            columns.append([*wrench.torque, *wrench.force])
        rows = []
        for axis in self._read_axes(iteration, "a"):
            twist = shift_twist(unflatten_twist(axis), offsets[0])
            rows.append([*twist.angular, *twist.linear])
        values = [[-dot(row, column) for column in columns] for row in rows]
        blocks = [values, list(zip(*values, strict=True))] if self._has_vectors else [values]
        flat = [x for block in blocks for row in block for x in row]
        iteration.tracer.write("block", flat, 0, self._block_offset(iteration))

    # ---------------------------------------------------------------------------------------------- conjugate gradients

    def compute(self) -> JointVector:
        """Return the Newton direction H^-1 (-g), up to the tolerance of the conjugate gradients."""
        ctx, state = self.ctx, self.objective.state
        hessians = self._assemble()
        ctx.tracer.write(SCRATCH, [0.0] * 7, self.scalars.row)
        if self._last and not self._has_body_nodes:
            self._copy_dofs(state.mass_times_acceleration, "forces of bodies", self.product, to_body=True)
            self._copy_dofs(state.negative_gradient, "gradient of bodies", self.residual, to_body=True)

        def begin(iteration: IterationContext) -> None:
            inverse = self._diagonal_block(iteration, hessians[frame_ref("")])
            if self._has_body_nodes:
                force, residual = (x[frame_ref("")] for x in (state.mass_times_acceleration, state.negative_gradient))
                iteration.write("residual", residual)
            else:
                force, residual = (iteration.read_array(name, BODY_DOFS) for name in ("product", "residual"))
            preconditioned = multiply_packed(inverse, residual)
            iteration.write("x", [0.0] * BODY_DOFS)
            iteration.write("p", [0.0] * BODY_DOFS)
            iteration.write("product", preconditioned)
            iteration.write("scalars", [iteration.read("scalars") + dot(residual, preconditioned)])
            squared_force = dot(force, multiply_packed(inverse, force))
            iteration.write("scalars", [iteration.read("scalars", 3) + squared_force], 3)

        arrays: dict[str, BodyArray] = {"diagonal": self.diagonal, "inverse": self.inverse, "mass": self.mass}
        arrays |= {"x": self.x, "residual": self.residual, "p": self.p, "product": self.product}
        if self._has_axes:
            arrays["axes"] = self.axes
        self._for_each_body("diagonal Hessian blocks of bodies", begin, arrays)
        if self._articulated is not None:
            self._articulated.assemble(hessians)
            self._articulated.begin(state.negative_gradient, state.mass_times_acceleration)
        first = ctx.tracer.read(SCRATCH, self.scalars.row)
        ctx.tracer.write(SCRATCH, [first], self.scalars.row + 1)
        ctx.if_nonzero(
            "nonzero gradient",
            ir.select(0.0, first, 1.0, 0.0),
            lambda: ctx.while_loop("conjugate gradients", self._iterate, MAX_CG_ITERATIONS),
        )
        return self._store_direction()

    def _store_direction(self) -> JointVector:
        """Return the solution as a joint vector, which is a copy unless each body is a node."""
        if self._has_body_nodes:
            trees = self._trees[self._last].tolist()
            result: JointVector = node_values_in(self.ctx, "direction", self.x, [0.0] * BODY_DOFS, trees)
        else:
            result = self.ctx.joint_vector("direction")
            if self._last:
                self._copy_dofs(result, "Newton direction", self.x, to_body=False)
        if (system := self._articulated) is not None:
            system.ctx.for_each_frame("Newton direction", lambda node: result.put(node.ref, system.x[node.ref]))
        return result

    def _copy_dofs(self, vector: JointVector, name: str, array: PerTreeArray | PerFrameArray, *, to_body: bool) -> None:
        """Trace a loop that copies a joint vector of several frames per body to an array of the bodies, or back."""
        places, rows = self.ctx.dof_offsets(vector), []
        for frame in self._last:
            tree = int(self._trees[frame])
            offsets = {f"dof {i}": places[dof] for i, dof in enumerate(self._dofs[tree])}
            offsets["array"] = array.offset_of(frame if isinstance(array, PerFrameArray) else tree)
            rows.append(self.ctx.node_iteration("body", {}, offsets, {}))

        def copy(iteration: IterationContext) -> None:
            for i in range(BODY_DOFS):
                source, target = (f"dof {i}", "array") if to_body else ("array", f"dof {i}")
                value = iteration.read(source, 0 if to_body else i)
                iteration.write(target, [value], i if to_body else 0)

        with self.ctx.without_unrolling():
            self.ctx.for_each(name, rows, copy)

    def _iterate(self) -> tuple[Value, Value]:
        """Take one step of preconditioned conjugate gradients; return the loop condition.

        Three loops: the direction with its product with the diagonal blocks, the products with the blocks of pairs, and
        the step along the direction. The curvature is summed on the way.
        """
        tracer, scalars = self.ctx.tracer, self.scalars.row
        vectors = {"p": self.p, "product": self.product}
        tracer.write(SCRATCH, [0.0], scalars + 2)

        def turn(iteration: IterationContext) -> None:
            p, preconditioned = (iteration.read_array(name, BODY_DOFS) for name in ("p", "product"))
            factor = iteration.read("scalars", 4)
            p = [z + factor * y for z, y in zip(preconditioned, p, strict=True)]
            product = self._multiply(iteration, "diagonal", p)
            iteration.write("p", p)
            iteration.write("product", product)
            iteration.write("scalars", [iteration.read("scalars", 2) + dot(p, product)], 2)

        self._for_each_body("conjugate direction", turn, {**vectors, "diagonal": self.diagonal})
        if self._articulated is not None:
            self._articulated.turn()

        def multiply_pair(iteration: IterationContext, _: ContactSpecialization) -> None:
            offset = self._block_offset(iteration)
            block = [iteration.tracer.read("block", i, offset) for i in range(self._block_size)]
            rows, columns = (
                [block[first + BODY_DOFS * i : first + BODY_DOFS * (i + 1)] for i in range(BODY_DOFS)]
                for first in (0, self._block_size - BODY_DOFS**2)
            )
            directions = {side: iteration.read_array(f"p {side}", BODY_DOFS) for side in "ab"}
            # of SIMD code, lanes are consecutive entries: of a column for `a`, of a row for `b`
            by_rows = [list(x) for x in zip(*columns, strict=True)] if self._has_vectors else rows
            for side, other, matrix in (("a", "b", by_rows), ("b", "a", [list(x) for x in zip(*rows, strict=True)])):
                old = iteration.read_array(f"product {side}", BODY_DOFS)
                terms = [dot(row, directions[other]) for row in matrix]
                iteration.write(f"product {side}", [x + y for x, y in zip(old, terms, strict=True)])
                if side == "a":
                    curvature = iteration.read("scalars", 2) + 2.0 * dot(directions["a"], terms)
                    iteration.write("scalars", [curvature], 2)

        self._for_each_contact_pair(
            "products with blocks of pairs", multiply_pair, {**vectors, "scalars": self.scalars}
        )
        squares, product = tracer.read(SCRATCH, scalars), tracer.read(SCRATCH, scalars + 2)
        tracer.write(SCRATCH, [squares / ir.maximum(product, TINY), squares], scalars + 5)
        tracer.write(SCRATCH, [0.0], scalars)

        def advance(iteration: IterationContext) -> None:
            length = iteration.read("scalars", 5)
            x, residual, p, product = (
                iteration.read_array(name, BODY_DOFS) for name in ("x", "residual", "p", "product")
            )
            residual = [r - length * y for r, y in zip(residual, product, strict=True)]
            preconditioned = self._multiply(iteration, "inverse", residual)
            iteration.write("x", [a + length * b for a, b in zip(x, p, strict=True)])
            iteration.write("residual", residual)
            iteration.write("product", preconditioned)
            iteration.write("scalars", [iteration.read("scalars") + dot(residual, preconditioned)])

        arrays = {"x": self.x, "residual": self.residual, "inverse": self.inverse}
        self._for_each_body("advance conjugate gradients", advance, {**vectors, **arrays})
        if self._articulated is not None:
            self._articulated.advance()
        squares = tracer.read(SCRATCH, scalars)
        tracer.write(SCRATCH, [squares / ir.maximum(tracer.read(SCRATCH, scalars + 6), TINY)], scalars + 4)
        first, forces = tracer.read(SCRATCH, scalars + 1), tracer.read(SCRATCH, scalars + 3)
        is_single = self.ctx.settings.is_single_precision
        relative, absolute = CG_TOLERANCES_SINGLE if is_single else CG_TOLERANCES_DOUBLE
        return ir.maximum(relative**2 * first, absolute**2 * forces), squares

    # -------------------------------------------------------------------------------------------- matrices of a body

    def _write_symmetric(self, iteration: IterationContext, array: str, packed: Sequence[Value]) -> None:
        """Write a symmetric 6 x 6 matrix of the current body, given its packed lower triangle."""
        if not self._has_vectors:
            iteration.write(array, packed)
            return
        entry = dict(zip(LOWER_TRIANGLE, packed, strict=True))
        dofs = range(BODY_DOFS)
        iteration.write(array, [entry[max(i, j), min(i, j)] for i in dofs for j in dofs])

    def _multiply(self, iteration: IterationContext, array: str, vector: Sequence[Value]) -> list[Value]:
        """Product of a symmetric 6 x 6 matrix of the current body with a vector."""
        if not self._has_vectors:
            return multiply_packed(iteration.read_array(array, len(LOWER_TRIANGLE)), vector)
        matrix = iteration.read_array(array, BODY_DOFS**2)
        return [dot(matrix[i::BODY_DOFS], vector) for i in range(BODY_DOFS)]

    def _block_offset(self, iteration: IterationContext) -> Value | None:
        """Offset of the block of a pair in contact among those of its pool; None for a contact buffer."""
        if not iteration.has_array("record index"):
            return None
        return iteration.read("record index") * float(self._block_size)


MIN_PIVOT_SHARE = 1e-3
"""Lower bound of pivots relative to the diagonal of the mass matrix."""


def invert_packed(packed: Sequence[Value], mass: Sequence[Value]) -> list[Value]:
    """Inverse of a positive definite 6 x 6 matrix by its factors L D L^T, as packed triangles.

    Pivots are bounded from below by a fraction of the diagonal of the mass matrix, so that rounding cannot make the
    factorisation fail. Products with the inverse take less time than two triangular solves, each entry of whose
    solution waits for the one before.
    """
    entry, mass_entry = (dict(zip(LOWER_TRIANGLE, x, strict=True)) for x in (packed, mass))
    inverse_pivots = []
    for k in range(BODY_DOFS):
        inverse = 1.0 / ir.maximum(entry[k, k], MIN_PIVOT_SHARE * mass_entry[k, k])
        inverse_pivots.append(inverse)
        column = {i: entry[i, k] for i in range(k + 1, BODY_DOFS)}
        for i in range(k + 1, BODY_DOFS):
            entry[i, k] = column[i] * inverse
            for j in range(k + 1, i + 1):
                entry[i, j] = entry[i, j] - entry[i, k] * column[j]
    lower: dict[tuple[int, int], Value] = {(k, k): 1.0 for k in range(BODY_DOFS)}  # L^-1
    for j in range(BODY_DOFS):
        for i in range(j + 1, BODY_DOFS):
            lower[i, j] = -sum_values([entry[i, k] * lower[k, j] for k in range(j, i)])
    scaled = {(k, j): inverse_pivots[k] * lower[k, j] for k, j in LOWER_TRIANGLE}
    return [sum_values([lower[k, i] * scaled[k, j] for k in range(i, BODY_DOFS)]) for i, j in LOWER_TRIANGLE]
