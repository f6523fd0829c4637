"""Composite-rigid-body algorithm (CRBA): composite inertias and the joint-space mass matrix."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kinema.ir import Value

from ..tree.kinematic_tree import FrameNode, SpatialInertia, transform_inertia
from ..tree.node_values import NodeValues
from ..tree.sparse_matrix import JointSpaceMatrix
from ..tree.trace_context import TraceContext
from .kinematics import Pose, Twist, motion_subspace
from .rnea import Wrench, power, spatial_momentum, transform_wrench_to_parent


def composite_inertias(ctx: TraceContext, local_poses: NodeValues[Pose]) -> NodeValues[SpatialInertia]:
    """Trace the composite spatial inertia of each frame: the sum over its subtree, in the axes of the frame."""

    def body(node: FrameNode, total: SpatialInertia) -> SpatialInertia:
        pose = local_poses[node.ref]
        return transform_inertia(total, pose.rotation, pose.position)

    return ctx.backward_pass("composite inertias", lambda node: node.inertia, body)


def mass_matrix(ctx: TraceContext, local_poses: NodeValues[Pose]) -> JointSpaceMatrix:
    """Trace the joint-space mass matrix M (n_dofs, n_dofs) by the CRBA, with the armature on its diagonal."""
    composite = composite_inertias(ctx, local_poses)
    return joint_space_matrix(
        ctx,
        "mass matrix",
        local_poses,
        lambda node, motion: spatial_momentum(composite[node.ref], motion),
        lambda node: ctx.read_node("armature", node),
    )


def joint_space_matrix(
    ctx: TraceContext,
    name: str,
    local_poses: NodeValues[Pose],
    subtree_response: Callable[[FrameNode, Twist], Wrench],
    diagonal_terms: Callable[[FrameNode], Sequence[Value]] | None = None,
) -> JointSpaceMatrix:
    """Trace the sparse symmetric joint-space matrix J^T K J (as the CRBA does M), plus optional diagonal terms.

    `subtree_response(node, twist)` is the wrench on a frame if its whole subtree moves rigidly with a twist, for
    example the momentum of the composite inertia for the mass matrix. Entries exist for pairs of a dof and an ancestor
    dof.
    """

    def diagonal_block(node: FrameNode) -> tuple[list[Wrench], list[list[Value]]]:
        subspace = motion_subspace(node, local_poses[node.ref])
        wrenches = [subtree_response(node, motion) for motion in subspace]
        extra = [0.0] * len(subspace) if diagonal_terms is None else diagonal_terms(node)
        rows: list[list[Value]] = []
        for k, wrench in enumerate(wrenches):
            row = [power(column, wrench) for column in subspace[: k + 1]]
            rows.append([*row[:-1], row[-1] + extra[k]])
        return wrenches, rows

    def ancestor_block(
        child: FrameNode, ancestor: FrameNode, wrenches: list[Wrench]
    ) -> tuple[list[Wrench], list[list[Value]]]:
        transformed = [transform_wrench_to_parent(wrench, local_poses[child.ref]) for wrench in wrenches]
        subspace = motion_subspace(ancestor, local_poses[ancestor.ref])
        return transformed, [[power(column, wrench) for column in subspace] for wrench in transformed]

    return ctx.joint_space_matrix(name, diagonal_block, ancestor_block)
