"""Twists and wrenches of links, and totals of the whole system: mass, energies and momenta."""

from __future__ import annotations

from dataclasses import dataclass

from kinema.ir import Value

from ..forces import joint_forces, transmission_forces
from ..forces.tendon_armature import tendon_armature_energy
from ..pipeline import compute
from ..rigid import link_dynamics
from ..rigid.kinematics import Twist, twist_at_point
from ..rigid.rnea import Wrench, spatial_momentum
from ..step import StepData
from ..tree.kinematic_tree import FrameNode, LinkNode, NodeRef, NodeType
from ..tree.node_values import flatten, unflatten
from ..tree.presence import zero_if_absent
from ..vector_math import ZERO, Vector, add, cross, dot, rotate, scale, sub


def frame_twist(data: StepData, frame: NodeRef, point: Vector) -> Twist:
    """Twist of a frame in world axes; the linear part is the velocity of its material point at `point`.

    Reads `world_poses` and `velocities`, in a loop body.
    """
    return twist_at_point(data.world_poses[frame], data.velocities[frame], point)


NEWTON_EULER_QUANTITIES = ("world_poses", "velocities", "tree_coms", "proper_accelerations")
"""Quantities that `newton_euler_wrench` reads."""


def newton_euler_wrench(data: StepData, link: LinkNode) -> Wrench:
    """Newton-Euler wrench of a link about the centre of mass of its tree, minus the user-applied wrench.

    The wrench that the link needs for its proper acceleration and angular velocity: force m a, torque I alpha + omega x
    I omega shifted to the tree's centre of mass, in world axes. If external forces are enabled, `cfrc_applied_ang` and
    `cfrc_applied_vel` (acting at the link's centre of mass) are subtracted.
    """
    ctx, body, center = data.ctx, data.link_bodies[link.ref], data.tree_coms[link.root_ref]
    com_acceleration = link_dynamics.acceleration_at_point(
        data.world_poses[link.frame_ref], data.proper_accelerations[link.frame_ref], body.com
    )
    wrench = link_dynamics.newton_euler_wrench(
        body, com_acceleration, frame_twist(data, link.frame_ref, body.com).angular, center
    )
    if ctx.settings.external_forces:
        applied = (ctx.read_node(f"cfrc_applied_{x}", link) for x in ("ang", "vel"))
        shifted = link_dynamics.shift_wrench(sub(body.com, center), *applied)
        wrench = Wrench(sub(wrench.torque, shifted.torque), sub(wrench.force, shifted.force))
    return wrench


# -------------------------------------------------------------------------------------------------------- system totals


@dataclass(frozen=True, slots=True)
class SystemTotals:
    """Sums over all moving frames of a system, in world axes."""

    mass: Value
    """[kg]"""
    first_moment: Vector
    """Mass times centre of mass [kg m]."""
    link_kinetic_energy: Value
    """Of the links and of the armature (rotor inertia) of joints [J]."""
    joint_spring_energy: Value
    """[J]"""
    linear_momentum: Vector
    """[kg m/s]"""
    angular_momentum: Vector
    """About the origin of the world [kg m2/s]."""


def system_totals(data: StepData) -> SystemTotals:
    """Sum mass, first moment, kinetic energy, joint spring energy and momenta over all moving frames.

    Moments and angular momentum are about the world origin, in world axes. Absent trees do not count.
    """
    compute(data, "world_poses", "velocities")
    ctx, poses, velocities = data.ctx, data.world_poses, data.velocities

    def frame_totals(node: FrameNode) -> SystemTotals:
        pose, twist, inertia = poses[node.ref], velocities[node.ref], node.inertia
        momentum = spatial_momentum(inertia, twist)
        kinetic = 0.5 * (dot(twist.angular, momentum.torque) + dot(twist.linear, momentum.force))
        for joint_velocity, armature in zip(ctx.read_node("vel", node), ctx.read_node("armature", node), strict=True):
            kinetic = kinetic + (0.5 * armature) * (joint_velocity * joint_velocity)
        linear = rotate(pose.rotation, momentum.force)
        totals = SystemTotals(
            inertia.mass,
            add(scale(inertia.mass, pose.position), rotate(pose.rotation, inertia.first_moment)),
            kinetic,
            joint_forces.joint_spring_energy(ctx, node),
            linear,
            add(rotate(pose.rotation, momentum.torque), cross(pose.position, linear)),
        )
        return unflatten(totals, zero_if_absent(ctx, flatten(totals)))

    return ctx.sum_over_nodes(
        "system totals", NodeType.FRAMES, SystemTotals(0.0, ZERO, 0.0, 0.0, ZERO, ZERO), frame_totals
    )


def kinetic_energy(data: StepData, totals: SystemTotals) -> Value:
    """Kinetic energy [J] of links, joint armatures and tendon armatures."""
    compute(data, "path_lengths")
    return totals.link_kinetic_energy + tendon_armature_energy(data)


def potential_energy(data: StepData, totals: SystemTotals, *, apply_gravity_scale: bool = True) -> Value:
    """Potential energy [J] of gravity (zero at the world origin), joint springs and tendon springs.

    Args:
        data: the state.
        totals: the sums of `system_totals`, for the energy of joint springs.
        apply_gravity_scale: whether the weight of a link is multiplied by its `gravity_scale` (gravity compensation);
            otherwise the full weight counts.
    """
    compute(data, "link_bodies", "path_lengths")
    ctx, bodies = data.ctx, data.link_bodies

    def gravity_energy(link: LinkNode) -> Value:
        height = dot(ctx.gravity, bodies[link.ref].com)
        (mass,) = zero_if_absent(ctx, [link.mass]) if link.in_moving_frame else [link.mass]
        return -((link.gravity_scale if apply_gravity_scale else 1.0) * mass) * height

    gravitational = ctx.sum_over_nodes("gravitational energy", NodeType.LINKS, 0.0, gravity_energy)
    tendon_springs = transmission_forces.tendon_forces(data, transmission_forces.tendon_spring_energy).total_force()
    return gravitational + (totals.joint_spring_energy + tendon_springs)
