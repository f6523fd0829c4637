"""Constraint rows of single joints: position limits, including angle and cone limits of ball joints, and dry friction.

The `source` of a `ConstraintBlock` names its constraint: `limit` and `side` ("lower", "upper", "nearer", "angle" or
"cone <axis>"), or `friction` with the dof index.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from kinema import ir
from kinema.ir import SCRATCH, IterationContext, LoopIteration, Value
from kinema.model import Model, PrimitiveJointType

from ..arrays import ElementKind
from ..rigid.kinematics import UNLIMITED_DISTANCE, ball_angle_limit, ball_cone_limit
from ..tree.kinematic_tree import FrameNode
from ..tree.node_tables import NodeIteration
from ..tree.trace_context import TraceContext
from ..vector_math import quaternion_to_matrix
from .rows import ConstraintBlock, ConstraintRows, KinematicState, RowType

# --------------------------------------------------------------------------------------------------------- joint limits


def joint_limit_blocks(model: Model, nodes: list[FrameNode]) -> list[ConstraintBlock]:
    """Return the limit constraints of one row each: one per limited joint, or two where both limits may be active.

    A hinge or slide whose range is wider than twice the margin has one row for the nearer limit. A ball joint has a row
    for its angle limit and one for its cone (swing) limit.
    """
    blocks = []
    for node in nodes:
        first = node.dofs.start
        invweights = [float(model.derived.dof_invweight[first])]
        solref_and_solimp = model.dofs.limit_solref[first].tolist(), model.dofs.limit_solimp[first].tolist()
        margin = float(model.dofs.limit_margin[first])
        for side in _limited_sides(model, node, margin):
            source = {"limit": node.index, "side": side}
            element = (ElementKind.DOF, first)
            options = {
                "spring_damper": model.dofs.limit_spring[first].tolist(),
                "element": element,
                "parameter_group": "limit",
            }
            blocks += [
                ConstraintBlock(
                    RowType.LIMIT, list(node.dofs), 1, invweights, *solref_and_solimp, margin, **options, source=source
                )
            ]
    return blocks


def _limited_sides(model: Model, node: FrameNode, margin: float) -> list[str]:
    """Return the names of a joint's limit rows: "lower", "upper", "nearer", "angle", "cone <axis>"; or none."""
    lower, upper = (float(x[node.dofs.start]) for x in (model.dofs.lower, model.dofs.upper))
    if node.joint_type == PrimitiveJointType.BALL:
        has_cone = np.isfinite(model.frames.cone[node.index]).any()
        return ["angle"] * bool(np.isfinite(upper)) + [f"cone {model.frames.cone_axis[node.index]}"] * bool(has_cone)
    if not (np.isfinite(lower) or np.isfinite(upper)):
        return []
    return ["lower", "upper"] if upper - lower <= 2.0 * margin else ["nearer"]


def fill_joint_limits(kinematic_state: KinematicState, rows: ConstraintRows) -> None:
    """Trace stores of signed distance to the limit and Jacobian row (d distance / d dof) of each joint limit."""
    ctx = kinematic_state.ctx

    def body(iteration: IterationContext) -> None:
        distance, jacobian_row = limit_distance_and_jacobian(
            ctx, ctx.frame_of_iteration(iteration), str(dict(iteration.specialization)["side"])
        )  # type: ignore[arg-type]
        iteration.write("position", [distance])
        iteration.write("jacobian 0", jacobian_row)

    ctx.for_each(
        "joint limits",
        [_limit_block_iteration(ctx, rows, i) for i, b in enumerate(rows.blocks) if "limit" in b.source],
        body,
    )


def count_joint_limits_within_margin(kinematic_state: KinematicState, blocks: list[ConstraintBlock]) -> Value:
    """Trace the number of joint limits whose distance is below their margin (active limits), summed at run time."""
    ctx = kinematic_state.ctx
    table = [_limit_frame_iteration(ctx, block) for block in blocks]

    def distance_and_margin(iteration: IterationContext) -> tuple[Value, Value]:
        node = ctx.frame_of_iteration(iteration)
        distance, _ = limit_distance_and_jacobian(ctx, node, str(dict(iteration.specialization)["side"]))  # type: ignore[arg-type]
        return distance, ctx.read_node("limit_margin", node)[0]

    return count_within_margin(ctx, "joint limits within their margin", table, distance_and_margin)


def count_within_margin(
    ctx: TraceContext,
    name: str,
    table: Sequence[LoopIteration],
    distance_and_margin: Callable[[IterationContext], tuple[Value, Value]],
) -> Value:
    """Trace the number of loop iterations (limits) whose distance is below their margin, summed at run time."""
    total = ctx.allocate_fixed(1)
    ctx.tracer.write(SCRATCH, [0.0], total.row)
    for row in table:
        row.offsets["near"] = total

    def body(iteration: IterationContext) -> None:
        iteration.write("near", [iteration.read("near") + ir.select(*distance_and_margin(iteration), 1.0, 0.0)])

    ctx.for_each(name, table, body)
    return ctx.tracer.read(SCRATCH, total.row)


def _limit_frame_iteration(ctx: TraceContext, block: ConstraintBlock) -> NodeIteration:
    """Return the loop iteration of a joint limit's frame, with the side of the limit as part of the specialization."""
    node = ctx.tree.nodes[int(block.source["limit"])]  # type: ignore[call-overload]
    row = ctx.frame_iteration(node)
    specialization = (("", row.specialization), ("side", block.source["side"]))
    return ctx.node_iteration(specialization, row.bindings, row.offsets, row.constants)


def _limit_block_iteration(ctx: TraceContext, rows: ConstraintRows, block_index: int) -> NodeIteration:
    row = _limit_frame_iteration(ctx, rows.blocks[block_index])
    row.offsets.update(rows.block_arrays[block_index])
    return row


def limit_distance_and_jacobian(ctx: TraceContext, node: FrameNode, side: str) -> tuple[Value, list[Value]]:
    """Return the signed distance of a joint to a limit and its derivatives with respect to the joint's dofs.

    The distance is negative beyond the limit. Absent limits of hinges and slides are replaced by a large finite one.

    Args:
        ctx: tracing context.
        node: frame of the joint.
        side: "lower", "upper", "nearer", "angle" (ball joint) or "cone <axis index>" (ball joint).
    """
    lower, upper = ctx.read_node("lower", node), ctx.read_node("upper", node)
    q = ctx.read_node("qpos", node)
    if side == "angle":
        return ball_angle_limit(q, upper[0])
    if side.startswith("cone"):
        return ball_cone_limit(quaternion_to_matrix(q), ctx.read_node("cone", node), int(side.split()[1]))
    distance, sign = limit_distance_and_sign(q[0], lower[0], upper[0], side)
    return distance, [sign]


def limit_distance_and_sign(x: Value, lower: Value, upper: Value, side: str) -> tuple[Value, Value]:
    """Return the signed distance of a coordinate to its "lower", "upper" or "nearer" limit, and the derivative (+-1).

    Absent limits are replaced by large finite ones.
    """
    lower_distance = x - ir.maximum(lower, -UNLIMITED_DISTANCE)
    upper_distance = ir.minimum(upper, UNLIMITED_DISTANCE) - x
    if side == "lower":
        return lower_distance, 1.0
    if side == "upper":
        return upper_distance, -1.0
    return ir.minimum(lower_distance, upper_distance), ir.select(lower_distance, upper_distance, 1.0, -1.0)


# --------------------------------------------------------------------------------------------------------- dry friction


def joint_friction_blocks(model: Model, nodes: list[FrameNode]) -> list[ConstraintBlock]:
    """Return a list of friction constraints of one row each, one per dof with dry friction (frictionloss != 0)."""
    dofs = model.dofs
    return [
        ConstraintBlock(
            RowType.FRICTION,
            [dof],
            1,
            [float(model.derived.dof_invweight[dof])],
            dofs.friction_solref[dof].tolist(),
            dofs.friction_solimp[dof].tolist(),
            friction_bound=float(dofs.frictionloss[dof]),
            element=(ElementKind.DOF, dof),
            parameter_group="friction",
            source={"friction": dof},
        )
        for node in nodes
        for dof in node.dofs
        if dofs.frictionloss[dof] != 0.0
    ]


def fill_joint_friction(kinematic_state: KinematicState, rows: ConstraintRows) -> None:
    """Trace stores of the rows of dry joint friction: position error 0 and Jacobian entry 1."""
    ctx = kinematic_state.ctx
    table = [
        LoopIteration("dof", rows.block_arrays[i]) for i, block in enumerate(rows.blocks) if "friction" in block.source
    ]

    def body(iteration: IterationContext) -> None:
        iteration.write("position", [0.0])
        iteration.write("jacobian 0", [1.0])

    ctx.for_each("dry joint friction", table, body)
