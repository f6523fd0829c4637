"""Links as rigid bodies in world axes: centres of mass, inertias, point accelerations, com-based spatial quantities.

Com-based spatial vectors follow MuJoCo: they are taken at one point per tree, the centre of mass of all links below the
root link, regarded as fixed in the world.
"""

from __future__ import annotations

from dataclasses import dataclass

from kinema import ir
from kinema.ir import Value

from ..tree.kinematic_tree import LinkNode, point_mass_inertia
from ..tree.node_values import NodeValues
from ..tree.trace_context import TraceContext
from ..vector_math import Matrix, Vector, add, cross, matmul, matrix_add, rotate, scale, sub, transpose
from .kinematics import FrameAcceleration, Pose, Twist, link_pose
from .rnea import Wrench


@dataclass(frozen=True, slots=True)
class LinkBody:
    """A link as a rigid body in world axes."""

    pose: Pose
    mass: Value
    com: Vector
    """Centre of mass [m]."""
    inertia: Matrix
    """Rotational inertia about the centre of mass [kg m2]."""


@dataclass(frozen=True, slots=True)
class TreeMass:
    """Total mass and first mass moment of a tree, and the root link's centre of mass for trees without mass."""

    mass: Value
    first_moment: Vector
    root_com: Vector


def link_bodies(ctx: TraceContext, world_poses: NodeValues[Pose]) -> NodeValues[LinkBody]:
    """Trace pose, mass, centre of mass and inertia of all links in world axes."""
    bodies: NodeValues[LinkBody] = ctx.new_values("bodies")

    def body(link: LinkNode) -> None:
        pose = link_pose(link, world_poses)
        com = add(pose.position, rotate(pose.rotation, link.com))
        inertia = matmul(matmul(pose.rotation, link.inertia), transpose(pose.rotation))
        bodies.put(link.ref, LinkBody(pose, link.mass, com, inertia))

    ctx.for_each_link("links as bodies", body)
    return bodies


def tree_coms(ctx: TraceContext, bodies: NodeValues[LinkBody]) -> NodeValues[Vector]:
    """Trace the centre of mass of each tree in world axes [m], stored for the root links.

    For a tree without mass, the root link's own centre.
    """

    def link_mass(link: LinkNode) -> TreeMass:
        link_body = bodies[link.ref]
        root_com = link_body.com if link.parent_ref is None else scale(0.0, link_body.com)
        return TreeMass(link_body.mass, scale(link_body.mass, link_body.com), [x + 0.0 for x in root_com])

    masses = ctx.sum_over_link_trees("tree masses", link_mass)
    coms: NodeValues[Vector] = ctx.new_values("tree com")

    def body(link: LinkNode) -> None:
        if link.parent_ref is None:
            tree = masses[link.ref]
            inverse_mass = 1.0 / ir.select(0.0, tree.mass, tree.mass, 1.0)
            pairs = zip(tree.first_moment, tree.root_com, strict=True)
            coms.put(link.ref, [ir.select(0.0, tree.mass, inverse_mass * moment, com) for moment, com in pairs])

    ctx.for_each_link("tree coms", body)
    return coms


def inertia_about_point(body: LinkBody, point: Vector) -> Matrix:
    """Rotational inertia of a link about a point in world coordinates [kg m2]."""
    return matrix_add(body.inertia, point_mass_inertia(body.mass, sub(body.com, point)))


def acceleration_at_point(pose: Pose, frame_acceleration: FrameAcceleration, point: Vector) -> Twist:
    """Acceleration of a frame's material point at a position given in world coordinates, in world axes."""
    acceleration = frame_acceleration.acceleration
    angular, linear = rotate(pose.rotation, acceleration.angular), rotate(pose.rotation, acceleration.linear)
    arm, w = sub(point, pose.position), rotate(pose.rotation, frame_acceleration.angular_velocity)
    return Twist(angular, add(linear, cross(angular, arm), cross(w, cross(w, arm))))


def spatial_acceleration(point_acceleration: Twist, velocity: Twist) -> Twist:
    """Spatial acceleration from the acceleration of the material point: a - w x v for the linear part."""
    return Twist(point_acceleration.angular, sub(point_acceleration.linear, cross(velocity.angular, velocity.linear)))


def motion_cross_product(velocity: Twist, motion: Twist) -> Twist:
    """Spatial cross product velocity x motion: rate of change of a motion vector that is fixed to a moving body."""
    return Twist(
        cross(velocity.angular, motion.angular),
        add(cross(velocity.angular, motion.linear), cross(velocity.linear, motion.angular)),
    )


def newton_euler_wrench(body: LinkBody, com_acceleration: Twist, angular_velocity: Vector, point: Vector) -> Wrench:
    """Newton-Euler equations of a link: the wrench about `point` for given acceleration of its centre of mass."""
    force = scale(body.mass, com_acceleration.linear)
    torque = add(
        rotate(body.inertia, com_acceleration.angular), cross(angular_velocity, rotate(body.inertia, angular_velocity))
    )
    return shift_wrench(sub(body.com, point), torque, force)


def shift_wrench(offset: Vector, torque: Vector, force: Vector) -> Wrench:
    """Wrench about another reference point: torque + offset x force, with `offset` from the new point to the old."""
    return Wrench(add(torque, cross(offset, force)), force)
