"""Recursive Newton-Euler algorithm (RNEA): wrenches, generalized forces and the bias force."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kinema.ir import Value

from ..tree.kinematic_tree import FrameNode, SpatialInertia
from ..tree.node_values import NodeValues
from ..tree.trace_context import TraceContext
from ..vector_math import ZERO, Vector, add, cross, dot, rotate, rotate_inverse
from .kinematics import FrameAcceleration, Pose, Twist, motion_subspace


@dataclass(frozen=True, slots=True)
class Wrench:
    """Spatial force vector of a frame: torque about its origin [N m] and force [N], in frame axes."""

    torque: Vector
    force: Vector


ZERO_WRENCH = Wrench(ZERO, ZERO)


def inertial_wrench(inertia: SpatialInertia, frame_acceleration: FrameAcceleration) -> Wrench:
    """Newton-Euler wrench I a + v x* I v of a rigid body about the frame origin."""
    acceleration, omega = frame_acceleration.acceleration, frame_acceleration.angular_velocity
    force = add(
        [inertia.mass * x for x in acceleration.linear],
        cross(acceleration.angular, inertia.first_moment),
        cross(omega, cross(omega, inertia.first_moment)),
    )
    torque = add(
        rotate(inertia.rotational, acceleration.angular),
        cross(omega, rotate(inertia.rotational, omega)),
        cross(inertia.first_moment, acceleration.linear),
    )
    return Wrench(torque, force)


def spatial_momentum(inertia: SpatialInertia, twist: Twist) -> Wrench:
    """Spatial momentum I v of a body (angular momentum about the frame origin, linear momentum), as a wrench."""
    return Wrench(
        add(rotate(inertia.rotational, twist.angular), cross(inertia.first_moment, twist.linear)),
        add([inertia.mass * x for x in twist.linear], cross(twist.angular, inertia.first_moment)),
    )


def power(twist: Twist, wrench: Wrench) -> Value:
    """Power of a wrench along a twist: the dot product of motion and force vectors."""
    return dot(twist.angular, wrench.torque) + dot(twist.linear, wrench.force)


def transform_wrench_to_parent(wrench: Wrench, pose: Pose) -> Wrench:
    """Transform a wrench from a child frame to its parent frame, given the pose of the child in the parent."""
    force = rotate(pose.rotation, wrench.force)
    return Wrench(add(rotate(pose.rotation, wrench.torque), cross(pose.position, force)), force)


def wrench_in_frame(pose: Pose, point: Vector, torque: Vector, force: Vector) -> Wrench:
    """Wrench about a frame origin, in frame axes, of a torque and a force at a point, both given in world axes.

    `point` is given in frame coordinates.
    """
    local_force = rotate_inverse(pose.rotation, force)
    return Wrench(add(rotate_inverse(pose.rotation, torque), cross(point, local_force)), local_force)


def generalized_forces(
    ctx: TraceContext, name: str, local_poses: NodeValues[Pose], wrench: Callable[[FrameNode], Wrench]
) -> NodeValues[list[Value]]:
    """Trace the generalized forces J^T w of a wrench on each frame, by a backward pass; returns a joint vector.

    `wrench` gives the wrench on a frame about its origin, in frame axes.
    """
    result: NodeValues[list[Value]] = ctx.new_values(f"{name} on joints")

    def body(node: FrameNode, total: Wrench) -> Wrench:
        pose = local_poses[node.ref]
        result.put(node.ref, [power(twist, total) for twist in motion_subspace(node, pose)])
        return transform_wrench_to_parent(total, pose)

    ctx.backward_pass(name, wrench, body)
    return result


def bias_forces(
    ctx: TraceContext, local_poses: NodeValues[Pose], frame_accelerations: NodeValues[FrameAcceleration]
) -> NodeValues[list[Value]]:
    """Trace the inverse dynamics: joint forces that produce the given accelerations of the frames.

    With the bias accelerations of the frames, the bias force c(q, v) (Coriolis, centrifugal and gravity terms).
    """
    return generalized_forces(
        ctx, "bias", local_poses, lambda node: inertial_wrench(node.inertia, frame_accelerations[node.ref])
    )
