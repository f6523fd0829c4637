"""Links instead of frames: where they are, how they move and what they bear, in the world's axes.

Quantities that are called *com-based* are those of motion and force vectors taken at one point for a whole tree: the
centre of mass of everything that hangs on the tree's root link, at rest for the moment. That is MuJoCo's convention.
"""

from __future__ import annotations

from dataclasses import dataclass

from kinema import trace
from kinema.trace import Value

from ..sweeps.maths import Matrix, Vector, add, cross, matrix_sum, product, rotate, scale, sub, transpose
from ..sweeps.quantities import Quantity
from ..sweeps.sweeps import Sweeps
from ..sweeps.tree import Link, point_inertia
from .kinematics import Moving, Pose, Twist, link_pose
from .rnea import Wrench


@dataclass(frozen=True, slots=True)
class LinkBody:
    """A link as a rigid body in the world."""

    pose: Pose
    mass: Value
    center: Vector
    """Its centre of mass [m]."""
    inertia: Matrix
    """About that centre [kg m2]."""


@dataclass(frozen=True, slots=True)
class TreeMass:
    """The masses of a tree, their first moment, and the root's own centre, which serves where there is no mass."""

    mass: Value
    moment: Vector
    root: Vector


def link_bodies(s: Sweeps, frames: Quantity[Pose]) -> Quantity[LinkBody]:
    """All links, with the masses of this environment."""
    bodies: Quantity[LinkBody] = s.quantity("bodies")

    def body(link: Link) -> None:
        pose = link_pose(link, frames)
        center = add(pose.position, rotate(pose.rotation, link.center))
        inertia = product(product(pose.rotation, link.inertia), transpose(pose.rotation))
        bodies.put(link.here, LinkBody(pose, link.mass, center, inertia))

    s.each_link("links as bodies", body)
    return bodies


def tree_centers(s: Sweeps, bodies: Quantity[LinkBody]) -> Quantity[Vector]:
    """Of each root link the centre of mass of its whole tree."""

    def own(link: Link) -> TreeMass:
        body = bodies[link.here]
        nowhere = body.center if link.above is None else scale(0.0, body.center)
        return TreeMass(body.mass, scale(body.mass, body.center), [x + 0.0 for x in nowhere])

    masses = s.links_by_root("masses of trees", own)
    centers: Quantity[Vector] = s.quantity("centers of trees")

    def body(link: Link) -> None:
        if link.above is None:
            tree = masses[link.here]
            known = 1.0 / trace.select(0.0, tree.mass, tree.mass, 1.0)
            pairs = zip(tree.moment, tree.root, strict=True)
            centers.put(link.here, [trace.select(0.0, tree.mass, known * m, own) for m, own in pairs])

    s.each_link("centers of trees", body)
    return centers


def inertia_at(body: LinkBody, point: Vector) -> Matrix:
    """A link's inertia about a point of the world."""
    return matrix_sum(body.inertia, point_inertia(body.mass, sub(body.center, point)))


def acceleration_at(at: Pose, motion: Moving, point: Vector) -> Twist:
    """The acceleration of a frame's point that is now somewhere in the world, along the world's axes."""
    acceleration = motion.acceleration
    angular, linear = rotate(at.rotation, acceleration.angular), rotate(at.rotation, acceleration.linear)
    arm, w = sub(point, at.position), rotate(at.rotation, motion.spin)
    return Twist(angular, add(linear, cross(angular, arm), cross(w, cross(w, arm))))


def spatial_acceleration(of_point: Twist, velocity: Twist) -> Twist:
    """How the velocity vector at a point that stays where it is changes, from how the body's point there moves."""
    return Twist(of_point.angular, sub(of_point.linear, cross(velocity.angular, velocity.linear)))


def motion_change(velocity: Twist, motion: Twist) -> Twist:
    """How a motion vector changes that moves along with a body (the spatial cross product), all at one point."""
    return Twist(
        cross(velocity.angular, motion.angular),
        add(cross(velocity.angular, motion.linear), cross(velocity.linear, motion.angular)),
    )


def newton_euler(body: LinkBody, acceleration: Twist, spin: Vector, point: Vector) -> Wrench:
    """The wrench about a point that moves a link so; the acceleration is that of its centre of mass."""
    force = scale(body.mass, acceleration.linear)
    turning = add(rotate(body.inertia, acceleration.angular), cross(spin, rotate(body.inertia, spin)))
    return moved_wrench(sub(body.center, point), turning, force)


def moved_wrench(arm: Vector, torque: Vector, force: Vector) -> Wrench:
    """The wrench about another point, from which the force's point is an arm away."""
    return Wrench(add(torque, cross(arm, force)), force)
