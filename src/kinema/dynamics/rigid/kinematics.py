"""Forward kinematics: joint models, poses, spatial velocities and accelerations of frames, limits of ball joints.

Spatial vectors of a frame are those of its origin, in frame axes, angular part first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from kinema import ir
from kinema.ir import SCRATCH, Value
from kinema.model import PrimitiveJointType

from ..tree.kinematic_tree import FrameNode, LinkNode, build_tree
from ..tree.node_values import NodeValues
from ..tree.presence import free_body_chains, origin_of_chain, origin_of_first_present
from ..tree.trace_context import TraceContext
from ..vector_math import (
    IDENTITY,
    ZERO,
    Matrix,
    Vector,
    add,
    axis_angle_to_matrix,
    cross,
    dot,
    matmul,
    normalize,
    quaternion_exp,
    quaternion_multiply,
    quaternion_to_matrix,
    quaternion_to_rotation_vector,
    rotate,
    rotate_inverse,
    scale,
    sub,
    transpose,
)

# ------------------------------------------------------------------------------------------------ limits of ball joints

UNLIMITED_DISTANCE = 1e10
"""Distance of an unlimited joint from its limits."""
MIN_LIMIT_ANGLE = 1e-12
"""Angles below this value [rad] have no defined axis."""


def ball_angle_limit(quaternion: Sequence[Value], max_angle: Value) -> tuple[Value, list[Value]]:
    """Distance of a ball joint's total rotation angle from its limit [rad], and the gradient axis of the distance.

    The axis (in child axes) is the direction of angular velocity that increases the distance.
    """
    rotation_vector = quaternion_to_rotation_vector(quaternion)
    angle = ir.sqrt(dot(rotation_vector, rotation_vector))
    return ir.maximum(max_angle, 0.0) - angle, _restoring_axis(rotation_vector, angle, IDENTITY[0])


def ball_cone_limit(rotation: Matrix, cone_angles: Sequence[Value], main_axis: int) -> tuple[Value, list[Value]]:
    """Angular distance of a ball joint's main axis from the rim of an elliptic cone [rad], and its gradient axis.

    `cone_angles` are the half angles towards the two axes after `main_axis`. The gradient axis (in child axes) is the
    direction of angular velocity that increases the distance.
    """
    main_direction = [row[main_axis] for row in rotation]
    along, first, second = (main_direction[(main_axis + k) % 3] for k in range(3))
    half_cosine = ir.sqrt(ir.maximum(0.5 + 0.5 * along, MIN_LIMIT_ANGLE))
    rotation_vector = quaternion_to_rotation_vector(
        [half_cosine, *scale(0.5 / half_cosine, cross(list(IDENTITY[main_axis]), main_direction))]
    )
    angle = ir.sqrt(dot(rotation_vector, rotation_vector))
    sine = ir.maximum(ir.sqrt(first * first + second * second), MIN_LIMIT_ANGLE)
    components = [
        x / (sine * ir.minimum(half_angle, UNLIMITED_DISTANCE))
        for x, half_angle in zip((first, second), cone_angles, strict=True)
    ]
    rim = 1.0 / ir.maximum(ir.sqrt(components[0] * components[0] + components[1] * components[1]), MIN_LIMIT_ANGLE)
    return rim - angle, list(
        rotate_inverse(rotation, _restoring_axis(rotation_vector, angle, IDENTITY[(main_axis + 1) % 3]))
    )


def _restoring_axis(rotation_vector: Vector, angle: Value, default_axis: Vector) -> list[Value]:
    """Axis that rotates back, -rotation_vector / angle; minus the default axis if the angle is zero.

    The default matters because the constraint inertia about the axis determines the stiffness of the limit.
    """
    inverse = 1.0 / ir.maximum(angle, MIN_LIMIT_ANGLE)
    return [
        ir.select(MIN_LIMIT_ANGLE, angle, -(x * inverse), -y)
        for x, y in zip(rotation_vector, default_axis, strict=True)
    ]


# ----------------------------------------------------------------------------------------------------- poses and twists


@dataclass(frozen=True, slots=True)
class Pose:
    """Pose of a frame in another frame: rotation matrix and position [m]."""

    rotation: Matrix
    position: Vector


@dataclass(frozen=True, slots=True)
class Twist:
    """Spatial motion vector (angular, linear) of a frame origin, in frame axes.

    A velocity, an acceleration or a column of a motion subspace.
    """

    angular: Vector
    linear: Vector


@dataclass(frozen=True, slots=True)
class FrameAcceleration:
    """Proper acceleration of a frame origin (at rest: minus gravity) and angular velocity, in frame axes."""

    acceleration: Twist
    angular_velocity: Vector


ZERO_TWIST = Twist(ZERO, ZERO)
IDENTITY_POSE = Pose(IDENTITY, ZERO)


# --------------------------------------------------------------------------------------------------------- joint models


@dataclass(frozen=True, slots=True)
class JointModel:
    """Kinematics of a primitive joint type."""

    pose: Callable[[FrameNode, Sequence[Value]], Pose]
    """Pose of the frame in its parent from the joint coordinates."""
    motion_subspace: Callable[[FrameNode, Pose], list[Twist]]
    """Motion subspace S: the twist of the frame for unit velocity of each dof."""
    integrate: Callable[[Sequence[Value], Sequence[Value]], list[Value]]
    """Joint coordinates after a displacement along the dofs."""


def _hinge_pose(node: FrameNode, q: Sequence[Value]) -> Pose:
    return Pose(matmul(node.rotation, axis_angle_to_matrix(node.axis, q[0] - node.reference)), node.position)


def _slide_pose(node: FrameNode, q: Sequence[Value]) -> Pose:
    travel = scale(q[0] - node.reference, rotate(node.rotation, node.axis))
    return Pose(node.rotation, add(node.position, travel))


def _screw_pose(node: FrameNode, q: Sequence[Value]) -> Pose:
    angle = q[0] - node.reference
    travel = scale(node.pitch * angle, rotate(node.rotation, node.axis))
    return Pose(matmul(node.rotation, axis_angle_to_matrix(node.axis, angle)), add(node.position, travel))


def _ball_pose(node: FrameNode, q: Sequence[Value]) -> Pose:
    rotation = quaternion_to_matrix(q)
    return Pose(matmul(node.rotation, transpose(rotation) if node.inverted else rotation), node.position)


def _ball_motion_subspace(node: FrameNode, pose: Pose) -> list[Twist]:
    if not node.inverted:
        return [Twist(unit, ZERO) for unit in IDENTITY]
    # the coordinates describe the rotation of the parent relative to this frame, with dofs along the parent-side axes
    axes = ([row[k] for row in node.rotation] for k in range(3))
    return [Twist(scale(-1.0, rotate_inverse(pose.rotation, axis)), ZERO) for axis in axes]


MAX_HALF_ROTATION = 8.0
"""Bound of half the rotation per step about each axis [rad]; beyond it the quaternion exponential would overflow."""


def _integrate_quaternion(q: Sequence[Value], displacement: Sequence[Value]) -> list[Value]:
    half = [ir.clamp(x, -MAX_HALF_ROTATION, MAX_HALF_ROTATION) for x in scale(0.5, displacement)]
    return list(normalize(quaternion_multiply(q, quaternion_exp(half))))


def _integrate_scalar(q: Sequence[Value], displacement: Sequence[Value]) -> list[Value]:
    return [q[0] + displacement[0]]


JOINT_MODELS: dict[int, JointModel] = {
    PrimitiveJointType.HINGE: JointModel(_hinge_pose, lambda node, _: [Twist(node.axis, ZERO)], _integrate_scalar),
    PrimitiveJointType.SLIDE: JointModel(_slide_pose, lambda node, _: [Twist(ZERO, node.axis)], _integrate_scalar),
    PrimitiveJointType.SCREW: JointModel(
        _screw_pose, lambda node, _: [Twist(node.axis, scale(node.pitch, node.axis))], _integrate_scalar
    ),
    PrimitiveJointType.BALL: JointModel(_ball_pose, _ball_motion_subspace, _integrate_quaternion),
}
"""Kinematics of every primitive joint type; `PRIMITIVE_JOINT_SIZES` has their numbers of coordinates and dofs."""


def _no_dofs(*_: object) -> list[Any]:
    return []


JOINT_MODELS[PrimitiveJointType.KINEMATIC] = JointModel(
    lambda _, pose: Pose(quaternion_to_matrix(pose[3:]), pose[:3]), _no_dofs, _no_dofs
)


def kinematic_velocity(ctx: TraceContext, pose: Pose) -> Twist:
    """Velocity of the kinematic body in the loop body being traced, in its own axes."""
    velocity = ctx.iteration.read_array("kinematic_velocity", 6)
    return Twist(rotate_inverse(pose.rotation, velocity[3:]), rotate_inverse(pose.rotation, velocity[:3]))


def motion_subspace(node: FrameNode, pose: Pose) -> list[Twist]:
    """Motion subspace S of a frame's joint: one twist per dof, in frame axes."""
    return JOINT_MODELS[node.joint_type].motion_subspace(node, pose)


def joint_twist(node: FrameNode, pose: Pose, joint_velocities: Sequence[Value]) -> Twist:
    """Joint velocity S v of a frame relative to its parent, or S a if given joint accelerations."""
    angular, linear = ZERO, ZERO
    for velocity, twist in zip(joint_velocities, motion_subspace(node, pose), strict=True):
        angular = add(angular, scale(velocity, twist.angular))
        linear = add(linear, scale(velocity, twist.linear))
    return Twist(angular, linear)


# ------------------------------------------------------------------------------------------------------- forward passes


def poses_in_parents(ctx: TraceContext) -> NodeValues[Pose]:
    """Trace the pose of each frame in its parent frame, from `qpos`, for idle trees too."""
    poses: NodeValues[Pose] = ctx.new_values("local pose")
    with ctx.including_idle_trees():
        ctx.for_each_frame(
            "poses",
            lambda node: poses.put(node.ref, JOINT_MODELS[node.joint_type].pose(node, ctx.read_node("qpos", node))),
        )
        ctx.for_each_kinematic_body(
            "poses of kinematic bodies",
            lambda node: poses.put(
                node.ref, JOINT_MODELS[node.joint_type].pose(node, ctx.iteration.read_array("kinematic_pose", 7))
            ),
        )
    return poses


def poses_in_world(ctx: TraceContext, local_poses: NodeValues[Pose], world_origin: Vector = ZERO) -> NodeValues[Pose]:
    """Trace the pose of each frame in the world, sleeping trees included; `world_origin` is added to all positions."""

    def body(node: FrameNode, parent: Pose) -> Pose:
        local = local_poses[node.ref]
        return Pose(
            matmul(parent.rotation, local.rotation), add(parent.position, rotate(parent.rotation, local.position))
        )

    with ctx.including_idle_trees():
        return ctx.forward_pass("poses in the world", Pose(IDENTITY_POSE.rotation, world_origin), body, body)


def shifted_world_origin(ctx: TraceContext) -> Vector:
    """Position of the first free-floating body that is present: origin that keeps precision far from the world origin.

    Zero if there is no free body. If islands are solved separately, its initial position, so that islands do not depend
    on each other.
    """
    nodes = build_tree(ctx.model).nodes if ctx.model.has_pair_rules else ctx.nodes  # these may be whole bodies
    chains = free_body_chains(nodes)
    if not chains:
        return ZERO
    if ctx.settings.presence:
        place = origin_of_first_present(ctx, chains)
        return [ctx.tracer.read(SCRATCH, place.row + i) for i in range(3)]
    coordinates: list[Value] = [ctx.tracer.read("qpos", node.qs.start) for node in chains[0]]
    if ctx.idle_flags is not None:
        coordinates = [float(ctx.model.qpos0[node.qs.start]) for node in chains[0]]
    return origin_of_chain(chains[0], coordinates)


def spatial_velocities(ctx: TraceContext, local_poses: NodeValues[Pose]) -> NodeValues[Twist]:
    """Trace the spatial velocity of each frame relative to the world, in frame axes."""

    def body(node: FrameNode, parent_velocity: Twist) -> Twist:
        pose = local_poses[node.ref]
        joint = joint_twist(node, pose, ctx.read_node("vel", node))
        inherited = transform_twist_to_child(parent_velocity, pose)
        return Twist(add(inherited.angular, joint.angular), add(inherited.linear, joint.linear))

    def kinematic_body(node: FrameNode, _: Twist) -> Twist:
        return kinematic_velocity(ctx, local_poses[node.ref])

    return ctx.forward_pass("velocities", ZERO_TWIST, body, kinematic_body)


def transform_twist_to_child(parent_twist: Twist, pose: Pose) -> Twist:
    """Transform a twist from a parent frame to a child frame, given the pose of the child in the parent."""
    at_origin = add(parent_twist.linear, cross(parent_twist.angular, pose.position))
    return Twist(rotate_inverse(pose.rotation, parent_twist.angular), rotate_inverse(pose.rotation, at_origin))


def spatial_accelerations(
    ctx: TraceContext, local_poses: NodeValues[Pose], qacc: NodeValues[list[Value]] | None = None
) -> NodeValues[FrameAcceleration]:
    """Trace the proper acceleration (at the frame origin) and angular velocity of each frame, in frame axes.

    With `qacc` at these joint accelerations; without, the bias acceleration at zero joint accelerations. Gravity enters
    as acceleration -g of the world.
    """

    def body(node: FrameNode, parent: FrameAcceleration) -> FrameAcceleration:
        pose = local_poses[node.ref]
        bias = propagate_acceleration(parent, pose, joint_twist(node, pose, ctx.read_node("vel", node)))
        if qacc is None:
            return bias
        joint = joint_twist(node, pose, qacc[node.ref])
        acceleration = bias.acceleration
        return FrameAcceleration(
            Twist(add(acceleration.angular, joint.angular), add(acceleration.linear, joint.linear)),
            bias.angular_velocity,
        )

    def kinematic_body(node: FrameNode, world: FrameAcceleration) -> FrameAcceleration:
        pose = local_poses[node.ref]
        return propagate_acceleration(world, pose, kinematic_velocity(ctx, pose))

    world = FrameAcceleration(Twist(ZERO, scale(-1.0, ctx.gravity)), ZERO)
    return ctx.forward_pass("accelerations", world, body, kinematic_body)


def propagate_acceleration(
    parent_acceleration: FrameAcceleration, pose: Pose, joint_velocity: Twist
) -> FrameAcceleration:
    """Proper acceleration and angular velocity of a frame from its parent's, at zero joint acceleration.

    `joint_velocity` is the joint twist S v, which adds Coriolis and centripetal terms; `pose` is the frame in its
    parent.
    """
    w, parent = parent_acceleration.angular_velocity, parent_acceleration.acceleration
    inherited = rotate_inverse(pose.rotation, w)
    angular = add(rotate_inverse(pose.rotation, parent.angular), cross(inherited, joint_velocity.angular))
    at_origin = add(parent.linear, cross(parent.angular, pose.position), cross(w, cross(w, pose.position)))
    linear = add(rotate_inverse(pose.rotation, at_origin), scale(2.0, cross(inherited, joint_velocity.linear)))
    return FrameAcceleration(Twist(angular, linear), add(inherited, joint_velocity.angular))


# ---------------------------------------------------------------------------------------------------------------- links


def link_pose(link: LinkNode, world_poses: NodeValues[Pose]) -> Pose:
    """Pose of a link in the world."""
    frame_pose = world_poses[link.frame_ref]
    return Pose(
        matmul(frame_pose.rotation, link.rotation), add(frame_pose.position, rotate(frame_pose.rotation, link.position))
    )


def twist_at_point(pose: Pose, twist: Twist, point: Vector) -> Twist:
    """Twist of a frame at a point given in world coordinates, in world axes."""
    angular = rotate(pose.rotation, twist.angular)
    linear = rotate(pose.rotation, twist.linear)
    return Twist(angular, add(linear, cross(angular, sub(point, pose.position))))
