"""Articulated trees in the linear system of Newton-CG: their diagonal block of the Hessian, and products with it.

A pair of bodies in contact has a 6 x 6 block of the Hessian that acts on six numbers of each body. Those of a free body
are its degrees of freedom, those of a link of an articulated tree its twist about the reference point of the tree.
Twists follow from joint accelerations by a pass from the root to the leaves, joint forces from wrenches by a pass back.
All other terms of an articulated tree (mass matrix, constraint rows, contacts as seen by this tree by itself) form its
diagonal block, with the sparsity of the mass matrix and the fill-in of the rows; its L^T D L factors precondition.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from kinema.ir import SCRATCH, ArenaOffset, IterationContext, Value

from ..constraints.contacts import ContactConstraints
from ..constraints.rows import ConstraintRows
from ..rigid.kinematics import ZERO_TWIST, Twist
from ..rigid.rnea import ZERO_WRENCH, Wrench, power
from ..tree.kinematic_tree import WORLD, NodeRefs, NodeType, frame_ref
from ..tree.node_values import NodeValues, flatten
from ..tree.per_tree import PerFrameArray, frame_rows
from ..tree.sparse_matrix import JointSpaceMatrix, LDLFactors, ldl_factorize, with_fill_in
from ..tree.trace_context import TraceContext
from ..vector_math import add, dot, scale
from .joint_vectors import JointVector

IDENTITY_AXES = [float(i == j) for i in range(6) for j in range(6)]
"""Motion axes of a link: the six unit twists."""
RZ, CURVATURE, FORCE_NORM, FACTOR, LENGTH = 0, 2, 3, 4, 5
"""Positions of the scalars of conjugate gradients: r . z, p . H p, f . P^-1 f, factor of the last direction in the next
one, and step length."""


@dataclass(frozen=True, slots=True, eq=False)
class ArticulatedInputs:
    """Mass matrix of the articulated trees with its factors, and the constraint rows that act on them."""

    ctx: TraceContext
    """Context whose nodes are the frames of these trees."""
    mass_matrix: JointSpaceMatrix
    mass_factors: LDLFactors
    rows: ConstraintRows


class ArticulatedSystem:
    """Vectors of conjugate gradients over the joints of articulated trees, and their block of the Hessian H."""

    def __init__(
        self,
        inputs: ArticulatedInputs,
        contacts: ContactConstraints,
        arrays: Mapping[str, PerFrameArray],
        scalars: ArenaOffset,
    ) -> None:
        """Args: `arrays` are `axes`, `p` and `product` of the links; `scalars` those of conjugate gradients."""
        self.inputs, self.contacts, self.scalars = inputs, contacts, scalars
        self.ctx = ctx = inputs.ctx
        self._axes = arrays["axes"]
        self._sparsity = with_fill_in(inputs.mass_matrix.sparsity, [block.dofs for block in inputs.rows.blocks])
        self.x, self._residual, self._p, self._z = (
            ctx.joint_vector(f"articulated {name}") for name in ("solution", "residual", "direction", "preconditioned")
        )
        refs = NodeRefs(NodeType.FRAMES, np.array([node.index for node in ctx.nodes]))
        self._twists: NodeValues[Twist] = ctx.new_values("twists of links along the conjugate direction")
        self._twists.assign_columns(refs, arrays["p"].column_of(refs.index), ZERO_TWIST)
        self._world = self._twists.allocate(frame_ref(WORLD), ZERO_TWIST)
        self._wrenches: NodeValues[Wrench] = ctx.new_values("wrenches on links of the conjugate direction")
        self._wrenches.assign_columns(refs, arrays["product"].column_of(refs.index), ZERO_WRENCH)
        self._matrix: JointSpaceMatrix | None = None
        self._factors: LDLFactors | None = None
        self._product: JointVector | None = None

    def _for_each_frame(
        self, name: str, body: Callable[[IterationContext], None], arrays: Mapping[str, ArenaOffset | PerFrameArray]
    ) -> None:
        """Trace a loop over the frames, parents first, with additional arrays."""
        ctx = self.ctx
        rows = frame_rows(ctx, ctx.nodes, {"scalars": self.scalars, **arrays})
        with ctx.without_unrolling():
            ctx.for_each(name, rows, body)

    def write_axes(self) -> None:
        """Trace the motion axes of all links, once per solve."""
        self.ctx.tracer.write(SCRATCH, flatten(ZERO_TWIST), self._world.row)
        self._for_each_frame(
            "axes of links", lambda iteration: iteration.write("axes", IDENTITY_AXES), {"axes": self._axes}
        )

    def assemble(self, hessians: NodeValues[list[Value]]) -> None:
        """Trace the diagonal block and its factors, given the spatial Hessians of the contacts of each frame."""
        inputs = self.inputs
        with self.ctx.without_unrolling():
            matrix = inputs.mass_matrix.copy_with_sparsity("articulated Hessian", self._sparsity)
            inputs.rows.add_hessian(matrix)
            self.contacts.add_subtree_hessians(matrix, self.ctx, hessians)
            self._matrix = matrix
            self._factors = ldl_factorize(matrix.copy("articulated preconditioner"), inputs.mass_factors)

    def begin(self, gradient: JointVector, forces: JointVector) -> None:
        """Trace the start of conjugate gradients: zero solution, residual, r . z, and squared norm of the forces."""
        assert self._factors is not None
        with self.ctx.without_unrolling():
            z = self._factors.solve("articulated preconditioned gradient", gradient)
            scaled_forces = self._factors.solve("articulated preconditioned forces", forces)

        def begin(iteration: IterationContext) -> None:
            ref = self.ctx.frame_of_iteration(iteration).ref
            residual, preconditioned, force = gradient[ref], z[ref], forces[ref]
            zeros = [0.0] * len(residual)
            self.x.put(ref, zeros)
            self._p.put(ref, zeros)
            self._residual.put(ref, residual)
            self._z.put(ref, preconditioned)
            iteration.write("scalars", [iteration.read("scalars", RZ) + dot(residual, preconditioned)], RZ)
            squared = iteration.read("scalars", FORCE_NORM) + dot(force, scaled_forces[ref])
            iteration.write("scalars", [squared], FORCE_NORM)

        self._for_each_frame("begin conjugate gradients of joints", begin, {})

    def turn(self) -> None:
        """Trace the next direction p with the twists of the links, and its product with the diagonal block."""
        assert self._matrix is not None
        axes = self.contacts.motion_subspaces_about_reference

        def turn(iteration: IterationContext) -> None:
            node = self.ctx.frame_of_iteration(iteration)
            factor, ref = iteration.read("scalars", FACTOR), node.ref
            p = [z + factor * y for z, y in zip(self._z[ref], self._p[ref], strict=True)]
            self._p.put(ref, p)
            twist = self._twists[node.parent_ref]
            angular, linear = twist.angular, twist.linear
            for value, axis in zip(p, axes[ref].twists, strict=True):
                angular = add(angular, scale(value, axis.angular))
                linear = add(linear, scale(value, axis.linear))
            self._twists.put(ref, Twist(angular, linear))
            self._wrenches.put(ref, ZERO_WRENCH)

        self._for_each_frame("conjugate direction of joints", turn, {})
        with self.ctx.without_unrolling():
            self._product = product = self._matrix.multiply("articulated product", self._p)

        def add_curvature(iteration: IterationContext) -> None:
            ref = self.ctx.frame_of_iteration(iteration).ref
            curvature = iteration.read("scalars", CURVATURE) + dot(self._p[ref], product[ref])
            iteration.write("scalars", [curvature], CURVATURE)

        self._for_each_frame("curvature of joints", add_curvature, {})

    def advance(self) -> None:
        """Trace the step along the direction, given the wrenches that the blocks of pairs exert on the links."""
        assert self._factors is not None
        assert self._product is not None
        axes, product = self.contacts.motion_subspaces_about_reference, self._product
        with self.ctx.without_unrolling():
            self.ctx.accumulate_to_parents("wrenches on subtrees of the conjugate direction", self._wrenches)

        def advance(iteration: IterationContext) -> None:
            ref, length = self.ctx.frame_of_iteration(iteration).ref, iteration.read("scalars", LENGTH)
            wrench = self._wrenches[ref]
            total = [y + power(axis, wrench) for y, axis in zip(product[ref], axes[ref].twists, strict=True)]
            self.x.put(ref, [x + length * p for x, p in zip(self.x[ref], self._p[ref], strict=True)])
            self._residual.put(ref, [r - length * y for r, y in zip(self._residual[ref], total, strict=True)])

        self._for_each_frame("advance conjugate gradients of joints", advance, {})
        with self.ctx.without_unrolling():
            z = self._factors.solve("articulated preconditioned residual", self._residual)

        def sum_product(iteration: IterationContext) -> None:
            ref = self.ctx.frame_of_iteration(iteration).ref
            self._z.put(ref, z[ref])
            iteration.write("scalars", [iteration.read("scalars", RZ) + dot(self._residual[ref], z[ref])], RZ)

        self._for_each_frame("residual product of joints", sum_product, {})
