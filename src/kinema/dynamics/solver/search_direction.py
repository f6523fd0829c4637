"""Search directions of the constraint solve on one thread per environment: Newton and conjugate gradients.

Newton: H^-1 (-g), with the Hessian H = M + J^T D J factorised by LDL along the tree, or by block Cholesky in scenes of
many trees. Conjugate gradients (Polak-Ribiere+) need no Hessian and are preconditioned by the factorised mass matrix.
"""

from __future__ import annotations

from kinema import ir
from kinema.ir import SCRATCH, Value

from ..constraints.block_sparse_hessian import allocate_block_sparse_hessian, assemble_block_sparse_hessian
from ..constraints.contacts import ContactConstraints
from ..tree.block_sparse_matrix import BlockCholeskyFactors, BlockSparseMatrix
from ..tree.sparse_matrix import JointSpaceMatrix, ldl_factorize, with_fill_in
from .newton import INFINITE_COST, TINY, SearchDirection
from .objective import JointVector, ThreadObjective

MAX_STRAIGHT_LINE_DOFS = 40
"""Largest number of dofs for which a Hessian with entries between branches is factorised in straight-line code."""


class NewtonDirection(SearchDirection):
    """Newton direction with a Hessian of branch-induced sparsity, or a block-sparse Hessian."""

    def __init__(self, objective: ThreadObjective) -> None:
        self.objective, self.inputs, self.ctx = objective, objective.inputs, objective.ctx
        self.sparsity = with_fill_in(
            self.inputs.mass_matrix.sparsity, [block.dofs for block in self.inputs.rows.blocks]
        )
        self.block_sparse_hessian: BlockSparseMatrix | None = None
        """Block-sparse Hessian for scenes with many trees; None if the Hessian with branch-induced sparsity is
        used."""

    def find_sparsity(self) -> None:
        """Find the nonzero blocks of a block-sparse Hessian."""
        contacts = self.objective.contacts
        if contacts is not None and not self.ctx.tracer.in_warp_region:
            self.block_sparse_hessian = allocate_block_sparse_hessian(
                contacts, self.inputs.rows, self.inputs.mass_matrix
            )

    def compute(self) -> JointVector:
        """Return the Newton direction H^-1 (-g).

        A Hessian with branch-induced sparsity is extended by the entries between branches only if contacts between
        moving bodies exist at run time.
        """
        contacts, inputs = self.objective.contacts, self.inputs
        if self.block_sparse_hessian is not None and contacts is not None:
            assemble_block_sparse_hessian(self.block_sparse_hessian, inputs.mass_matrix, inputs.rows, contacts)
            with self.ctx.without_unrolling():
                return BlockCholeskyFactors(self.block_sparse_hessian, inputs.mass_factors).solve(
                    "direction", self.objective.state.negative_gradient
                )
        couplings = contacts.coupled_dofs() if contacts is not None else []
        sparsity = with_fill_in(self.sparsity, couplings) if couplings else self.sparsity
        matrix = inputs.mass_matrix.copy_with_sparsity("Hessian with constraints", sparsity)
        inputs.rows.add_hessian(matrix)
        if contacts is not None:
            contacts.add_world_contact_hessian(matrix)
        if contacts is None or not couplings:
            return self._factorize_and_solve(matrix, "direction")
        return self._solve_with_coupled_branches(matrix, contacts)

    def _factorize_and_solve(self, matrix: JointSpaceMatrix, name: str) -> JointVector:
        factors = ldl_factorize(matrix, self.inputs.mass_factors)
        return factors.solve(name, self.objective.state.negative_gradient, constant_matrix=True)

    def _solve_with_coupled_branches(self, matrix: JointSpaceMatrix, contacts: ContactConstraints) -> JointVector:
        """Return the Newton direction with a Hessian that has entries between branches of the tree.

        The entries are assembled and factorised only if contacts couple branches at run time; always in straight-line
        code for the threads of a GPU, where loops over the entries take ten times as long as a small dense matrix.
        """
        ctx, state = self.ctx, self.objective.state
        if ctx.settings.always_solve and len(matrix.sparsity) <= MAX_STRAIGHT_LINE_DOFS:
            with ctx.without_unrolling():
                contacts.add_frame_contact_hessian(matrix)
            return self._factorize_and_solve(matrix, "direction")
        direction: JointVector = ctx.new_values("direction")
        self.objective.vectors.set_zero(direction, "clear direction")
        n_contacts = state.read(state.n_frame_contacts)

        def solve_decoupled() -> None:
            solution = self._factorize_and_solve(
                matrix.view_with_sparsity(self.sparsity), "direction without branch coupling"
            )
            ctx.for_each_frame(
                "store direction without branch coupling", lambda node: direction.put(node.ref, solution[node.ref])
            )

        def solve_coupled() -> None:
            with ctx.without_unrolling():
                contacts.add_frame_contact_hessian(matrix)
                solution = self._factorize_and_solve(matrix, "direction with branch coupling")
                ctx.for_each_frame(
                    "store direction with branch coupling", lambda node: direction.put(node.ref, solution[node.ref])
                )

        ctx.if_nonzero("branches decoupled", ir.select(n_contacts, 0.5, 1.0, 0.0), solve_decoupled)
        ctx.if_nonzero("branches coupled by contacts", n_contacts, solve_coupled)
        return direction


class ConjugateGradientDirection(SearchDirection):
    """Direction of preconditioned nonlinear conjugate gradients, M^-1 (-g) + beta d_prev."""

    has_exact_hessian = False

    def __init__(self, objective: ThreadObjective) -> None:
        """Allocate and clear the vectors of the previous iteration."""
        self.objective, self.ctx = objective, objective.ctx
        self.previous_gradient_product = self.ctx.allocate_fixed(1)
        """Product g . M^-1 g of the previous iteration."""
        self.ctx.tracer.write(SCRATCH, [INFINITE_COST], self.previous_gradient_product.row)
        self.previous_preconditioned_gradient = objective.vectors.new("previous preconditioned gradient")
        self.previous_direction = objective.vectors.new("previous direction")
        for vector in (self.previous_preconditioned_gradient, self.previous_direction):
            objective.vectors.set_zero(vector, "clear previous direction")

    def compute(self) -> JointVector:
        """Return the conjugate gradient direction.

        beta is the Polak-Ribiere factor, at least 0, and 0 where the result would not be a descent direction. Stores
        gradient product, preconditioned gradient and direction for the next iteration.
        """
        ctx, state, vectors = self.ctx, self.objective.state, self.objective.vectors
        preconditioned = self.objective.inputs.mass_factors.solve("preconditioned gradient", state.negative_gradient)
        factors = (preconditioned, self.previous_preconditioned_gradient, self.previous_direction)
        gradient_product, mixed_product, direction_product = vectors.dot_products(
            "Polak-Ribiere products", [(state.negative_gradient, x) for x in factors]
        )
        previous_product = ir.maximum(state.read(self.previous_gradient_product), TINY)
        beta: Value = ir.maximum((gradient_product - mixed_product) / previous_product, 0.0)
        beta = ir.select(0.0, gradient_product + beta * direction_product, beta, 0.0)
        ctx.tracer.write(SCRATCH, [beta], state.step_length.row)
        ctx.tracer.write(SCRATCH, [gradient_product], self.previous_gradient_product.row)
        self._store(self.previous_preconditioned_gradient, preconditioned)
        vectors.axpy(preconditioned, self.previous_direction, state.step_length)
        self._store(self.previous_direction, preconditioned)
        return self.previous_direction

    def _store(self, target: JointVector, source: JointVector) -> None:
        self.ctx.for_each_frame("store for next iteration", lambda node: target.put(node.ref, source[node.ref]))
