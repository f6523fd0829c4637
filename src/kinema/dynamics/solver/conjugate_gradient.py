"""Nonlinear conjugate gradient solver (Polak-Ribiere+), preconditioned by the factorised mass matrix.

Needs no Hessian. Line search and convergence test are those of the Newton solver.
"""

from __future__ import annotations

from kinema import ir
from kinema.ir import SCRATCH, Value

from ..tree.kinematic_tree import FrameNode, NodeType
from ..vector_math import dot
from .newton import INFINITE_COST, NewtonSolver
from .objective import TINY, JointVector


class ConjugateGradientSolver(NewtonSolver):
    """Constraint solver by preconditioned nonlinear conjugate gradients."""

    has_exact_hessian = False

    def solve(self) -> JointVector:
        """Minimise the constraint cost and return the joint forces of constraints and contacts.

        Allocates and clears the vectors of the previous iteration, then runs the iteration of the Newton solver with
        the conjugate gradient direction.
        """
        ctx = self.ctx
        self.previous_gradient_product = ctx.allocate_fixed(1)
        """Product g . M^-1 g of the previous iteration."""
        ctx.tracer.write(SCRATCH, [INFINITE_COST], self.previous_gradient_product.row)
        self.previous_preconditioned_gradient: JointVector = ctx.new_values("previous preconditioned gradient")
        self.previous_direction: JointVector = ctx.new_values("previous direction")
        for vector in (self.previous_preconditioned_gradient, self.previous_direction):
            ctx.for_each_frame(
                "clear previous direction", lambda node, q=vector: q.put(node.ref, [0.0] * len(node.dofs))
            )
        return super().solve()

    def _search_direction(self) -> JointVector:
        """Return the conjugate gradient direction M^-1 (-g) + beta d_prev.

        beta is the Polak-Ribiere factor, at least 0, and 0 where the result would not be a descent direction. Stores
        gradient product, preconditioned gradient and direction for the next iteration.
        """
        ctx, tracer = self.ctx, self.ctx.tracer
        preconditioned = self.mass_factors.solve("preconditioned gradient", self.negative_gradient)

        def products(node: FrameNode) -> tuple[Value, Value, Value]:
            vectors = (preconditioned, self.previous_preconditioned_gradient, self.previous_direction)
            return tuple(dot(self.negative_gradient[node.ref], x[node.ref]) for x in vectors)  # type: ignore[return-value]  # ty: ignore[invalid-explicit-return]

        gradient_product, mixed_product, direction_product = ctx.sum_over_nodes(
            "Polak-Ribiere products", NodeType.FRAMES, (0.0, 0.0, 0.0), products
        )
        previous_product = ir.maximum(tracer.read(SCRATCH, self.previous_gradient_product.row), TINY)
        beta = ir.maximum((gradient_product - mixed_product) / previous_product, 0.0)
        tracer.write(
            SCRATCH, [ir.select(0.0, gradient_product + beta * direction_product, beta, 0.0)], self.step_length.row
        )
        tracer.write(SCRATCH, [gradient_product], self.previous_gradient_product.row)
        ctx.for_each_frame(
            "store preconditioned gradient",
            lambda node: self.previous_preconditioned_gradient.put(node.ref, preconditioned[node.ref]),
        )
        self._axpy(preconditioned, self.previous_direction)
        ctx.for_each_frame(
            "store direction", lambda node: self.previous_direction.put(node.ref, preconditioned[node.ref])
        )
        return self.previous_direction
