"""Inputs of the constraint solver, safeguarded Newton line search, and residual, force and cost of constraint rows.

The functions of constraint rows are bodies of loops over blocks: they read and write the row arrays of one block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kinema import ir
from kinema.ir import RowContext, Value

from ..constraints.contacts import MotionSubspace
from ..constraints.rows import BlockVariant, ConstraintRows, row_forces_and_stiffness
from ..rigid.kinematics import Pose
from ..tree.node_values import NodeValues
from ..tree.sparse_matrix import JointSpaceMatrix, LDLFactors
from ..vector_math import sum_values

JointVector = NodeValues[list[Value]]


@dataclass(frozen=True, slots=True, eq=False)
class SolverInputs:
    """Quantities of the unconstrained dynamics that the constraint solver starts from."""

    rows: ConstraintRows
    """Constraint rows with stiffness and reference accelerations."""
    mass_matrix: JointSpaceMatrix
    """Joint-space mass matrix M."""
    mass_factors: LDLFactors
    """LDL factors of M."""
    qacc_smooth: JointVector
    """Joint accelerations without constraints."""
    motion_subspaces: NodeValues[MotionSubspace] | None
    """Motion subspaces of the joints about the floating origin; None without contacts."""
    floating_origin_poses: NodeValues[Pose] | None = None
    """Frame poses about the floating origin of the contact coordinates; None without contacts."""


# ---------------------------------------------------------------------------------------------------------- line search

LINE_SEARCH_TOLERANCE = 5e-2
"""The line search ends when the directional derivative is this small relative to its start value. With 0.2, solves take
as long, and the worst 1 % of a G1's steps are 100 times less accurate."""
MAX_STEP_LENGTH = 1e3
"""Upper bound of the step length; a smaller remaining curvature along the direction is rounding error."""
TINY = 1e-30
"""Lower bound of denominators."""


def next_trial_step(
    step_length: Value, lower_bound: Value, upper_bound: Value, derivative: Value, second_derivative: Value
) -> tuple[Value, Value, Value]:
    """Return the next trial step length of the line search, and the updated bracket (lower, upper).

    Newton step on the directional derivative; where it leaves the bracket, bisection, or doubling while there is no
    upper bound.

    Args:
        step_length: current trial step length.
        lower_bound: largest step length known to have a negative derivative.
        upper_bound: smallest step length known to have a nonnegative derivative, or `MAX_STEP_LENGTH`.
        derivative: derivative of the cost along the direction at the trial step.
        second_derivative: second derivative at the trial step.
    """
    lower_bound, upper_bound = (
        ir.select(derivative, 0.0, step_length, lower_bound),
        ir.select(derivative, 0.0, upper_bound, step_length),
    )
    fallback = ir.select(
        upper_bound, MAX_STEP_LENGTH, 0.5 * (lower_bound + upper_bound), ir.minimum(2.0 * step_length, MAX_STEP_LENGTH)
    )
    newton_step = step_length - derivative / ir.maximum(second_derivative, TINY)
    next_step = ir.select(
        lower_bound, newton_step, ir.select(newton_step, upper_bound, newton_step, fallback), fallback
    )
    return next_step, lower_bound, upper_bound


# ------------------------------------------------------------------------------------------------------ constraint rows


def subtract_aref(code: RowContext) -> None:
    """Turn J a into the residual J a - aref, in the row array `residual` of a block."""
    variant: BlockVariant = code.variant  # type: ignore[assignment]
    pairs = zip(code.read_array("residual", variant.n_rows), code.read_array("wanted", variant.n_rows), strict=True)
    code.write("residual", [a - b for a, b in pairs])


def write_row_forces(code: RowContext) -> None:
    """Write the constraint forces of a block's rows at their current residuals to the row array `force`."""
    variant: BlockVariant = code.variant  # type: ignore[assignment]
    code.write(
        "force", [force for force, _ in row_forces_and_stiffness(code, code.read_array("residual", variant.n_rows))]
    )


def _residuals_at_step(code: RowContext) -> list[Value]:
    """Return the residuals of a block's rows at step length `length` along the search direction."""
    variant: BlockVariant = code.variant  # type: ignore[assignment]
    pairs = zip(code.read_array("residual", variant.n_rows), code.read_array("change", variant.n_rows), strict=True)
    return [x + code.read("length") * v for x, v in pairs]


def advance_row_residuals(code: RowContext) -> None:
    """Update the residuals of a block's rows by the step along the search direction."""
    code.write("residual", _residuals_at_step(code))


def block_active_set_changes(code: RowContext) -> list[Value]:
    """Return the number of a block's rows whose active set changes within the step, and a zero.

    A row counts if it becomes active or inactive, or if its friction switches to the opposite bound.
    """
    variant: BlockVariant = code.variant  # type: ignore[assignment]
    before, after = (
        row_forces_and_stiffness(code, x)
        for x in (code.read_array("residual", variant.n_rows), _residuals_at_step(code))
    )
    total: Value = 0.0
    for (force, stiffness), (new_force, new_stiffness) in zip(before, after, strict=True):
        bound_change = ir.select(
            0.0, stiffness + new_stiffness, 0.0, ir.absolute(force - new_force)
        )  # friction at the opposite bound
        total = total + ir.select(0.0, ir.absolute(stiffness - new_stiffness) + bound_change, 1.0, 0.0)
    return [total, 0.0]


def block_cost(code: RowContext) -> list[Value]:
    """Return the summed cost of a block's rows at step length `length`, and a zero."""
    return [sum_values(row_costs(code, _residuals_at_step(code))), 0.0]


def row_costs(code: RowContext, residuals: Sequence[Value]) -> list[Value]:
    """Return the cost of each row of a block: D/2 r^2 where active, linear beyond a friction bound, else 0."""
    stiffness, forces = code.read_array("stiffness", len(residuals)), row_forces_and_stiffness(code, residuals)
    # beyond its bound, the cost of friction grows linearly
    deflections = [force / ir.maximum(d, TINY) for d, (force, _) in zip(stiffness, forces, strict=True)]
    return [
        -(force * (x + 0.5 * deflection))
        for x, deflection, (force, _) in zip(residuals, deflections, forces, strict=True)
    ]


def block_line_derivatives(code: RowContext) -> list[Value]:
    """Return first and second derivative of a block's cost along the search direction at step length `length`.

    In the no-slip solve, the first derivative is relative to its value at step length 0.
    """
    variant: BlockVariant = code.variant  # type: ignore[assignment]
    first: Value = 0.0
    second: Value = 0.0
    start_forces: list[Value] = [0.0] * variant.n_rows
    if variant.is_noslip:  # relative to the start of the line search
        start_forces = [
            force for force, _ in row_forces_and_stiffness(code, code.read_array("residual", variant.n_rows))
        ]
    rows = zip(
        row_forces_and_stiffness(code, _residuals_at_step(code)),
        start_forces,
        code.read_array("change", variant.n_rows),
        strict=True,
    )
    for (force, stiffness), start_force, derivative in rows:
        first, second = first - (force - start_force) * derivative, second + stiffness * (derivative * derivative)
    return [first, second]
