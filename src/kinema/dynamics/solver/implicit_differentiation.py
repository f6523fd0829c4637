"""Implicit differentiation of the constraint solve.

At its solution a, the gradient of the constraint cost vanishes:

    g(a, x) = M a - qfrc_smooth - J^T f(J a - aref) = 0,

where the matrices and vectors depend on state, controls and parameters x. By the implicit function theorem the
derivative of the solution is da/dx = -H^-1 dg/dx, with the Hessian H = M + J^T D J of the cost. The iterations of the
solver need not be differentiated: a program to be differentiated reads the solution that the step has stored in the
array `warm_start`, and takes one Newton step from there, with constant H and a. The value of this step is zero up to
the tolerance of the solver; its derivative is that of the solution.

With `Settings.contact_smoothing` the function g is another one, whose contacts begin gradually, while a is the solution
of the step: the derivative is that of a Newton step of the smoothed problem.
"""

from __future__ import annotations

from kinema import ir
from kinema.ir import SCRATCH

from ..constraints.rows import write_row_forces
from ..tree.kinematic_tree import FrameNode
from .joint_vectors import JointVector
from .newton import NewtonSolver
from .objective import ThreadObjective, initialize_row_residuals
from .search_direction import NewtonDirection


def solve_implicitly(solver: NewtonSolver) -> JointVector:
    """Trace the joint forces of constraints and contacts at the stored solution, with the derivative of the solution.

    Leaves residuals and forces of the constraint rows, and the constraint accelerations of the solver, as at the
    solution, with their derivatives.
    """
    objective = solver.objective
    assert isinstance(objective, ThreadObjective), "programs to be differentiated run on one thread per environment"
    ctx, inputs, state, vectors = objective.ctx, objective.inputs, objective.state, objective.vectors
    smooth_force = inputs.qfrc_smooth
    assert smooth_force is not None
    constant = vectors.new("accelerations, constant")

    def add_stored_solution(node: FrameNode) -> None:
        stored = ctx.read_node("warm_start", node)
        if ctx.settings.contact_smoothing or ctx.settings.always_solve:  # without constraints there is no solution
            is_stored = ir.select(0.5, ctx.read("n_iterations"), 1.0, 0.0)
            stored = [is_stored * x for x in stored]
        constant.put(
            node.ref, [ir.detach(a) + ir.detach(x) for a, x in zip(inputs.qacc_smooth[node.ref], stored, strict=True)]
        )

    ctx.for_each_frame("accelerations at the solution", add_stored_solution)
    _write_residuals(objective, constant)
    _write_newton_residual(objective, constant, smooth_force)
    direction = NewtonDirection(objective).compute()
    acceleration, mass_times = vectors.new("accelerations"), state.mass_times_acceleration
    change = vectors.new("derivative of the accelerations")

    def attach_derivative(node: FrameNode) -> None:
        values = [ir.attach(a, d) for a, d in zip(constant[node.ref], direction[node.ref], strict=True)]
        acceleration.put(node.ref, values)
        change.put(node.ref, [ir.attach(0.0, d) for d in direction[node.ref]])
        pairs = zip(values, inputs.qacc_smooth[node.ref], strict=True)
        state.constraint_acceleration.put(node.ref, [a - b for a, b in pairs])

    ctx.for_each_frame("derivative of the solution", attach_derivative)
    if objective.rows.blocks:
        initialize_row_residuals(objective.rows, acceleration)
        objective.rows.for_each_block("forces of constraint rows", write_row_forces)
    if objective.contacts is not None:  # contact forces, for sensors
        objective.contacts.multiply_jacobian(objective.contacts.frame_twists("derivative of the twists", change))
        state.set_step_length(1.0)
        objective.contacts.advance_residuals(state.step_length)
    product = inputs.mass_matrix.multiply("mass times accelerations", acceleration)
    vectors.set_sum(mass_times, product, smooth_force, -1.0)
    return mass_times


def _write_residuals(objective: ThreadObjective, acceleration: JointVector) -> None:
    """Write the residuals J a - aref of constraint rows and contacts at joint accelerations a."""
    initialize_row_residuals(objective.rows, acceleration)
    contacts = objective.contacts
    if contacts is None:
        return
    objective.ctx.tracer.write(
        SCRATCH, [contacts.buffers.count_contacts(between_frames=True)], objective.state.n_frame_contacts.row
    )
    contacts.initialize_residuals(
        contacts.frame_twists("velocities of frames"), contacts.frame_twists("accelerations of frames", acceleration)
    )


def _write_newton_residual(objective: ThreadObjective, acceleration: JointVector, smooth_force: JointVector) -> None:
    """Write the negative gradient J^T f + qfrc_smooth - M a of the cost, at the current residuals."""
    vectors, gradient = objective.vectors, objective.state.negative_gradient
    product = objective.inputs.mass_matrix.multiply("mass times constant accelerations", acceleration)
    applied = vectors.new("applied and constraint forces")
    vectors.set_sum(applied, objective.constraint_forces(), smooth_force, 1.0)
    vectors.set_sum(gradient, applied, product, -1.0)
