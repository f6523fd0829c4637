"""Queries for inverse dynamics by RNEA and forward dynamics by ABA, of the multibody system without passive forces.

Springs, dampers, dry friction, fluids, actuators, limits and other constraints are left out, as in the textbook
algorithms (Featherstone). Armature counts as inertia.
"""

from __future__ import annotations

from kinema.dynamics.arrays import ElementKind
from kinema.dynamics.pipeline import compute
from kinema.dynamics.rigid.aba import aba_accelerations
from kinema.dynamics.rigid.kinematics import spatial_accelerations
from kinema.dynamics.rigid.rnea import bias_forces, inertial_wrench
from kinema.dynamics.step import StepData
from kinema.dynamics.tree.kinematic_tree import FrameNode
from kinema.dynamics.tree.node_values import NodeValues
from kinema.ir import Value
from kinema.model import Model

from .batched_kinematics import QACC_INPUT, KinematicQuery

JOINT_FORCE, ACCELERATION = "joint force", "joint acceleration"
"""Array of the joint forces: output of RNEA and input of ABA; output array of the accelerations by ABA."""


def _read_joint_vector(data: StepData, array: str) -> NodeValues[list[Value]]:
    """Joint vector of an input array."""
    ctx = data.ctx
    values: NodeValues[list[Value]] = ctx.new_values(array)
    ctx.for_each_frame(array, lambda node: values.put(node.ref, ctx.iteration.read_array(array, len(node.dofs))))
    return values


def rnea_query(model: Model) -> KinematicQuery:
    """Query for the joint forces M(q) a + c(q, v) by the recursive Newton-Euler algorithm.

    With tendon armature the mass matrix is multiplied by the accelerations instead.
    """

    def trace(data: StepData) -> None:
        ctx, qacc = data.ctx, _read_joint_vector(data, QACC_INPUT)
        if model.tendons.armature.any():
            compute(data, "mass_matrix", "qfrc_bias")
            inertial, bias = data.mass_matrix.multiply("mass times acceleration", qacc), data.qfrc_bias
        else:
            compute(data, "local_poses")
            inertial = ctx.new_values("armature forces")
            ctx.for_each_frame(
                "armature forces",
                lambda node: inertial.put(
                    node.ref,
                    [x * a for x, a in zip(ctx.read_node("armature", node), qacc[node.ref], strict=True)],
                ),
            )
            bias = bias_forces(ctx, data.local_poses, spatial_accelerations(ctx, data.local_poses, qacc))

        def write(node: FrameNode) -> None:
            ctx.write(JOINT_FORCE, node, [m + b for m, b in zip(inertial[node.ref], bias[node.ref], strict=True)])

        ctx.for_each_frame("inverse dynamics", write)

    return KinematicQuery({JOINT_FORCE: (ElementKind.DOF, 1), QACC_INPUT: (ElementKind.DOF, 1)}, trace)


def aba_query(model: Model) -> KinematicQuery:
    """Query for the joint accelerations M(q)^-1 (tau - c(q, v)) by the articulated-body algorithm.

    With tendon armature the mass matrix is factorised instead.
    """

    def trace(data: StepData) -> None:
        ctx, force = data.ctx, _read_joint_vector(data, JOINT_FORCE)
        if model.tendons.armature.any():
            compute(data, "mass_factors", "qfrc_bias")
            net_force: NodeValues[list[Value]] = ctx.new_values("net force")
            ctx.for_each_frame(
                "net force",
                lambda node: net_force.put(
                    node.ref, [f - b for f, b in zip(force[node.ref], data.qfrc_bias[node.ref], strict=True)]
                ),
            )
            acceleration = data.mass_factors.solve("accelerations", net_force)
        else:
            compute(data, "local_poses", "bias_accelerations")
            motion = data.bias_accelerations
            acceleration = aba_accelerations(
                ctx,
                data.local_poses,
                lambda node: ctx.read_node("armature", node),
                lambda node: force[node.ref],
                lambda node: inertial_wrench(node.inertia, motion[node.ref]),
            )
        ctx.for_each_frame("accelerations", lambda node: ctx.write(ACCELERATION, node, acceleration[node.ref]))

    return KinematicQuery({ACCELERATION: (ElementKind.DOF, 1), JOINT_FORCE: (ElementKind.DOF, 1)}, trace)
