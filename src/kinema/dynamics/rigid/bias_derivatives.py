"""Derivatives of the bias force c(q, v), and of wrenches on frames, by joint velocities (Singh, Russell and Wensing).

For a dof i and a dof j between i and the root, with motion subspaces S, composite inertia I of the subtree of i,
composite Coriolis matrix B of that subtree and Z = 2 dS/dt at fixed joint velocity (the sum of the rates of S seen from
the frame and from its parent):

    dc_i/dv_j = S_i^T (2 B S_j + I Z_j),   dc_j/dv_i = S_j^T (2 B S_i + I Z_i).

Wrenches on frames that depend on their twists (fluid forces) enter B with minus half their derivative.
"""

from __future__ import annotations

from kinema.ir import Value

from ..tree.kinematic_tree import FrameNode, SpatialInertia
from ..tree.node_values import NodeValues
from ..tree.sparse_matrix import JointSpaceMatrix
from ..tree.trace_context import TraceContext
from ..vector_math import IDENTITY, add, cross, rotate_inverse, scale, sub, transpose
from .crba import composite_inertias
from .kinematics import Pose, Twist, joint_twist, motion_subspace
from .rnea import Wrench, power, spatial_momentum, transform_wrench_to_parent
from .wrench_derivatives import (
    ZERO_MATRIX,
    WrenchDerivative,
    apply_derivative,
    subtract_derivatives,
    transform_derivative,
)


def add_bias_derivatives(
    ctx: TraceContext,
    lower: JointSpaceMatrix,
    upper: JointSpaceMatrix,
    local_poses: NodeValues[Pose],
    velocities: NodeValues[Twist],
    wrench_derivatives: NodeValues[WrenchDerivative] | None,
) -> None:
    """Trace loops that add dt times the derivatives of bias force minus wrench forces to a nonsymmetric matrix.

    Args:
        ctx: tracing context.
        lower: entries (dof, ancestor), diagonal included.
        upper: entries (ancestor, dof), stored at (dof, ancestor).
        local_poses: poses of frames in their parents.
        velocities: spatial velocities of frames.
        wrench_derivatives: derivatives of the wrenches on frames by their twists; None for none.
    """
    inertias = composite_inertias(ctx, local_poses)
    rates: NodeValues[list[Twist]] = ctx.new_values("subspace rates")

    def subspace_rates(node: FrameNode) -> None:
        pose, velocity = local_poses[node.ref], velocities[node.ref]
        joint = joint_twist(node, pose, ctx.read_node("vel", node))
        both = Twist(sub(scale(2.0, velocity.angular), joint.angular), sub(scale(2.0, velocity.linear), joint.linear))
        rates.put(node.ref, [_cross_motion(both, column) for column in motion_subspace(node, pose)])

    ctx.for_each_frame("subspace rates", subspace_rates)

    def of_frame(node: FrameNode) -> WrenchDerivative:
        derivative = _twice_coriolis_matrix(node.inertia, velocities[node.ref])
        if wrench_derivatives is None:
            return derivative
        return subtract_derivatives(derivative, wrench_derivatives[node.ref])

    def to_parent(node: FrameNode, total: WrenchDerivative) -> WrenchDerivative:
        pose = local_poses[node.ref]
        return transform_derivative(total, pose.rotation, pose.position)

    composite = ctx.backward_pass("composite Coriolis matrices", of_frame, to_parent)

    def scaled_row(values: list[Value]) -> list[Value]:
        return [ctx.dt * value for value in values]

    def lower_diagonal(node: FrameNode) -> tuple[list[tuple[Wrench, Wrench]], list[list[Value]]]:
        subspace, rate = motion_subspace(node, local_poses[node.ref]), rates[node.ref]
        carried = [
            (_apply_transposed(composite[node.ref], x), spatial_momentum(inertias[node.ref], x)) for x in subspace
        ]
        return carried, [
            scaled_row([power(x, w) + power(z, p) for x, z in zip(subspace[: k + 1], rate[: k + 1], strict=True)])
            for k, (w, p) in enumerate(carried)
        ]

    def lower_block(
        child: FrameNode, ancestor: FrameNode, carried: list[tuple[Wrench, Wrench]]
    ) -> tuple[list[tuple[Wrench, Wrench]], list[list[Value]]]:
        pose = local_poses[child.ref]
        moved = [(transform_wrench_to_parent(w, pose), transform_wrench_to_parent(p, pose)) for w, p in carried]
        pairs = list(zip(motion_subspace(ancestor, local_poses[ancestor.ref]), rates[ancestor.ref], strict=True))
        return moved, [scaled_row([power(x, w) + power(z, p) for x, z in pairs]) for w, p in moved]

    def upper_diagonal(node: FrameNode) -> tuple[list[Wrench], list[list[Value]]]:
        subspace = motion_subspace(node, local_poses[node.ref])
        wrenches = []
        for column, rate in zip(subspace, rates[node.ref], strict=True):
            a, b = apply_derivative(composite[node.ref], column), spatial_momentum(inertias[node.ref], rate)
            wrenches.append(Wrench(add(a.torque, b.torque), add(a.force, b.force)))
        return wrenches, [scaled_row([power(x, w) for x in subspace[: k + 1]]) for k, w in enumerate(wrenches)]

    def upper_block(
        child: FrameNode, ancestor: FrameNode, wrenches: list[Wrench]
    ) -> tuple[list[Wrench], list[list[Value]]]:
        moved = [transform_wrench_to_parent(wrench, local_poses[child.ref]) for wrench in wrenches]
        subspace = motion_subspace(ancestor, local_poses[ancestor.ref])
        return moved, [scaled_row([power(column, wrench) for column in subspace]) for wrench in moved]

    lower.compute(lower_diagonal, lower_block, accumulate=True)
    upper.compute(upper_diagonal, upper_block, accumulate=True)


def _cross_motion(a: Twist, b: Twist) -> Twist:
    """Cross product a x b of motion vectors."""
    return Twist(cross(a.angular, b.angular), add(cross(a.angular, b.linear), cross(a.linear, b.angular)))


def _twice_coriolis_matrix(inertia: SpatialInertia, velocity: Twist) -> WrenchDerivative:
    """Matrix 2 B = (v x*) I - I (v x) + (I v) xbar* of a rigid body; its columns of linear motion vanish."""
    omega, momentum = velocity.angular, spatial_momentum(inertia, velocity)
    torques, forces = [], []
    for unit in IDENTITY:
        own = spatial_momentum(inertia, Twist(unit, (0.0, 0.0, 0.0)))
        moved = spatial_momentum(inertia, _cross_motion(velocity, Twist(unit, (0.0, 0.0, 0.0))))
        torques.append(
            sub(
                add(
                    cross(unit, momentum.torque),
                    cross(omega, own.torque),
                    cross(velocity.linear, own.force),
                ),
                moved.torque,
            )
        )
        forces.append(sub(add(cross(unit, momentum.force), cross(omega, own.force)), moved.force))
    return WrenchDerivative(transpose(torques), ZERO_MATRIX, transpose(forces), ZERO_MATRIX)


def _apply_transposed(derivative: WrenchDerivative, twist: Twist) -> Wrench:
    """Product K^T s of the transposed derivative and a twist, as a wrench."""
    return Wrench(
        add(
            rotate_inverse(derivative.torque_by_angular, twist.angular),
            rotate_inverse(derivative.force_by_angular, twist.linear),
        ),
        add(
            rotate_inverse(derivative.torque_by_linear, twist.angular),
            rotate_inverse(derivative.force_by_linear, twist.linear),
        ),
    )
