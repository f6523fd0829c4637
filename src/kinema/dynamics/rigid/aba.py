"""Articulated-body algorithm (ABA): forward dynamics in O(n) without the mass matrix (Featherstone).

The backward pass computes the articulated-body inertia of each frame; the forward pass computes joint accelerations
from those of the parent. Spatial accelerations here are relative to the bias accelerations of the frames
(`kinematics.spatial_accelerations` without joint accelerations), so that the result equals that of a solve with the
mass matrix. The mass matrix costs O(n depth) and is faster for short chains.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kinema import ir
from kinema.ir import Value
from kinema.model import PrimitiveJointType

from ..tree.kinematic_tree import FrameNode, SpatialInertia
from ..tree.node_values import NodeValues
from ..tree.trace_context import TraceContext
from ..vector_math import Matrix, Vector, add, cross, dot, matmul, rotate, rotate_inverse, scale, transpose
from .kinematics import ZERO_TWIST, Pose, Twist, motion_subspace, transform_twist_to_child
from .rnea import ZERO_WRENCH, Wrench, power, transform_wrench_to_parent

MIN_INERTIA_RATIOS = {True: 1e-7, False: 1e-14}
"""Smallest joint inertia of a hinge relative to the trace of its articulated rotational inertia, in single (True) and
double precision. At a gimbal lock the joint inertia would otherwise be nothing but rounding error."""


@dataclass(frozen=True, slots=True)
class ArticulatedInertia:
    """Articulated-body inertia, a symmetric 6x6 matrix in three 3x3 blocks, about the frame origin in frame axes.

    For angular acceleration a and linear acceleration b: torque = rotational a + coupling b, force = coupling^T a +
    translational b. The symmetric blocks are stored packed: xx, xy, xz, yy, yz, zz.
    """

    rotational: Vector
    coupling: Matrix
    translational: Vector


@dataclass(frozen=True, slots=True)
class JointElimination:
    """Results of the elimination of one dof in the backward pass, needed in the forward pass."""

    inertia_column: Wrench
    """U = I^A S: the wrench per unit joint acceleration."""
    inverse_joint_inertia: Value
    """1 / D with D = S^T U + armature."""
    net_joint_force: Value
    """u = joint force - S^T bias force."""


@dataclass(frozen=True, slots=True)
class ArticulatedBody:
    """Articulated-body inertia I^A and bias force p^A of a frame."""

    inertia: ArticulatedInertia
    bias_force: Wrench


def pack_symmetric(matrix: Matrix) -> Vector:
    """Upper triangle of a symmetric 3x3 matrix: xx, xy, xz, yy, yz, zz."""
    return [matrix[i][j] for i in range(3) for j in range(i, 3)]


def unpack_symmetric(values: Vector) -> Matrix:
    """Symmetric 3x3 matrix from its upper triangle xx, xy, xz, yy, yz, zz."""
    xx, xy, xz, yy, yz, zz = values
    return ((xx, xy, xz), (xy, yy, yz), (xz, yz, zz))


def rigid_body_inertia(inertia: SpatialInertia) -> ArticulatedInertia:
    """Spatial inertia of a single rigid body in articulated-inertia form."""
    x, y, z = inertia.first_moment
    m = inertia.mass
    coupling: Matrix = [[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]]
    return ArticulatedInertia(pack_symmetric(inertia.rotational), coupling, [m, 0.0, 0.0, m, 0.0, m])


def eliminate_dof(
    articulated_body: ArticulatedBody,
    subspace_column: Twist,
    armature: Value,
    force: Value,
    min_inertia_ratio: float = 0.0,
) -> tuple[ArticulatedBody, JointElimination]:
    """Eliminate one dof from an articulated body: rank-one downdate of the inertia and update of the bias force.

    With S the motion subspace column: U = I^A S, D = S^T U + armature, u = force - S^T p^A; the remaining articulated
    body has inertia I^A - U U^T / D and bias force p^A + U u / D. Also returns U, 1 / D and u. The joint inertia S^T U
    is at least `min_inertia_ratio` times the trace of the rotational block.
    """
    inertia, bias = articulated_body.inertia, articulated_body.bias_force
    response = apply_inertia(inertia, subspace_column)
    joint_inertia = power(subspace_column, response)
    if min_inertia_ratio:
        joint_inertia = ir.maximum(
            joint_inertia, min_inertia_ratio * (inertia.rotational[0] + inertia.rotational[3] + inertia.rotational[5])
        )
    inverse = 1.0 / (joint_inertia + armature)
    net_force = force - power(subspace_column, bias)
    scaled_torque, scaled_force = scale(inverse, response.torque), scale(inverse, response.force)
    remaining = ArticulatedInertia(
        _subtract_outer_product(inertia.rotational, scaled_torque, response.torque),
        [[inertia.coupling[i][j] - scaled_torque[i] * response.force[j] for j in range(3)] for i in range(3)],
        _subtract_outer_product(inertia.translational, scaled_force, response.force),
    )
    remaining_bias = Wrench(
        add(bias.torque, scale(net_force, scaled_torque)), add(bias.force, scale(net_force, scaled_force))
    )
    return ArticulatedBody(remaining, remaining_bias), JointElimination(response, inverse, net_force)


def apply_inertia(inertia: ArticulatedInertia, twist: Twist) -> Wrench:
    """Wrench I^A a of an articulated inertia for a spatial acceleration a."""
    return Wrench(
        add(rotate(unpack_symmetric(inertia.rotational), twist.angular), rotate(inertia.coupling, twist.linear)),
        add(
            rotate_inverse(inertia.coupling, twist.angular),
            rotate(unpack_symmetric(inertia.translational), twist.linear),
        ),
    )


def _subtract_outer_product(symmetric: Vector, a: Vector, b: Vector) -> Vector:
    """Packed symmetric matrix minus a b^T, where a b^T is symmetric."""
    pairs = ((i, j) for i in range(3) for j in range(i, 3))
    return [x - a[i] * b[j] for x, (i, j) in zip(symmetric, pairs, strict=True)]


def transform_inertia_to_parent(inertia: ArticulatedInertia, pose: Pose) -> ArticulatedInertia:
    """Transform an articulated inertia to the parent frame, given the pose of the frame in its parent."""
    r = pose.position
    translational = _rotate_symmetric(pose.rotation, inertia.translational)
    coupling = matmul(matmul(pose.rotation, inertia.coupling), transpose(pose.rotation))
    shifts = [
        cross(r, column) for column in unpack_symmetric(translational)
    ]  # columns equal rows: the matrix is symmetric
    shifted = [[coupling[i][j] + shifts[j][i] for j in range(3)] for i in range(3)]
    rotational = unpack_symmetric(_rotate_symmetric(pose.rotation, inertia.rotational))
    cross_shifted, cross_coupling = [cross(r, row) for row in shifted], [cross(r, row) for row in coupling]
    rows = [rotational[i][j] + cross_shifted[i][j] + cross_coupling[j][i] for i in range(3) for j in range(i, 3)]
    return ArticulatedInertia(rows, shifted, translational)


def _rotate_symmetric(rotation: Matrix, symmetric: Vector) -> Vector:
    """R A R^T of a packed symmetric matrix A, packed."""
    by_rows = matmul(rotation, unpack_symmetric(symmetric))
    return [dot(by_rows[i], rotation[j]) for i in range(3) for j in range(i, 3)]


def aba_accelerations(
    ctx: TraceContext,
    local_poses: NodeValues[Pose],
    diagonal_terms: Callable[[FrameNode], list[Value]],
    joint_force: Callable[[FrameNode], list[Value]],
    bias_wrench: Callable[[FrameNode], Wrench],
) -> NodeValues[list[Value]]:
    """Trace the joint accelerations x of (M + diag(diagonal_terms)) x = joint_force - J^T bias_wrench by the ABA.

    `bias_wrench` is the wrench on a frame (inertial minus external) at zero joint acceleration. Backward pass over
    articulated inertias with elimination of each dof, then forward pass over accelerations. Returns a joint vector.
    """
    eliminations: NodeValues[list[JointElimination]] = ctx.new_values("joint eliminations")

    def backward(node: FrameNode, carried: ArticulatedBody) -> ArticulatedBody:
        pose = local_poses[node.ref]
        subspace, inertias, forces = motion_subspace(node, pose), diagonal_terms(node), joint_force(node)
        eliminated: list[JointElimination] = []
        for k in reversed(range(len(subspace))):
            min_ratio = (
                MIN_INERTIA_RATIOS[ctx.settings.is_single_precision]
                if node.joint_type == PrimitiveJointType.HINGE
                else 0.0
            )
            carried, elimination = eliminate_dof(carried, subspace[k], inertias[k], forces[k], min_ratio)
            eliminated.insert(0, elimination)
        eliminations.put(node.ref, eliminated)
        return ArticulatedBody(
            transform_inertia_to_parent(carried.inertia, pose), transform_wrench_to_parent(carried.bias_force, pose)
        )

    ctx.backward_pass(
        "articulated bodies",
        lambda node: ArticulatedBody(rigid_body_inertia(node.inertia), bias_wrench(node)),
        backward,
    )
    accelerations: NodeValues[list[Value]] = ctx.new_values("joint accelerations")

    def forward(node: FrameNode, parent_acceleration: Twist) -> Twist:
        pose = local_poses[node.ref]
        acceleration = transform_twist_to_child(parent_acceleration, pose)
        joint_accelerations: list[Value] = []
        for elimination, twist in zip(eliminations[node.ref], motion_subspace(node, pose), strict=True):
            x = elimination.inverse_joint_inertia * (
                elimination.net_joint_force - power(acceleration, elimination.inertia_column)
            )
            acceleration = Twist(
                add(acceleration.angular, scale(x, twist.angular)), add(acceleration.linear, scale(x, twist.linear))
            )
            joint_accelerations.append(x)
        accelerations.put(node.ref, joint_accelerations)
        return acceleration

    ctx.forward_pass("accelerations of articulated bodies", ZERO_TWIST, forward)
    return accelerations


LOCKED_JOINT_INERTIA = 1e300
"""Armature that locks a dof."""


def write_joint_inertias(ctx: TraceContext, local_poses: NodeValues[Pose], negligible_ratio: float) -> None:
    """Write two inertias of each dof: all descendant joints locked (composite body) or free (articulated body).

    S^T I S + armature, written to the output arrays `locked_inertia` and `free_inertia` of dofs. A dof whose free
    inertia is less than `negligible_ratio` of the locked inertia is kept locked in the elimination, so that nothing is
    divided by zero.
    """

    def backward(
        node: FrameNode, inertias: tuple[ArticulatedInertia, ArticulatedInertia]
    ) -> tuple[ArticulatedInertia, ArticulatedInertia]:
        composite, pose = inertias[0], local_poses[node.ref]
        articulated = ArticulatedBody(inertias[1], ZERO_WRENCH)
        armature, subspace = ctx.read_node("armature", node), motion_subspace(node, pose)
        locked = [
            power(column, apply_inertia(composite, column)) + rotor_inertia
            for column, rotor_inertia in zip(subspace, armature, strict=True)
        ]
        free: list[Value] = []
        for k in reversed(range(len(subspace))):
            free.insert(0, power(subspace[k], apply_inertia(articulated.inertia, subspace[k])) + armature[k])
            lock = ir.select(negligible_ratio * locked[k], free[0], 0.0, LOCKED_JOINT_INERTIA)
            articulated = eliminate_dof(articulated, subspace[k], armature[k] + lock, 0.0)[0]
        ctx.write("locked_inertia", node, locked)
        ctx.write("free_inertia", node, free)
        return transform_inertia_to_parent(composite, pose), transform_inertia_to_parent(articulated.inertia, pose)

    ctx.backward_pass(
        "remaining inertias",
        lambda node: (rigid_body_inertia(node.inertia), rigid_body_inertia(node.inertia)),
        backward,
    )
