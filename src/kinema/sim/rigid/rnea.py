"""Recursive Newton-Euler (RNEA): the forces that motions take, and what forces on frames do to joints."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kinema.trace import Value

from ..sweeps.maths import ZERO, Vector, add, cross, dot, rotate, unrotate
from ..sweeps.quantities import Quantity
from ..sweeps.sweeps import Sweeps
from ..sweeps.tree import Inertia, Node
from .kinematics import Moving, Pose, Twist, twists


@dataclass(frozen=True, slots=True)
class Wrench:
    """A torque about a frame's origin and a force, in its axes."""

    torque: Vector
    force: Vector


NO_WRENCH = Wrench(ZERO, ZERO)


def inertial_wrench(inertia: Inertia, motion: Moving) -> Wrench:
    """What it takes to accelerate a body like that: Newton and Euler about the frame's origin."""
    acceleration, spin = motion.acceleration, motion.spin
    force = add(
        [inertia.mass * x for x in acceleration.linear],
        cross(acceleration.angular, inertia.moment),
        cross(spin, cross(spin, inertia.moment)),
    )
    torque = add(
        rotate(inertia.matrix, acceleration.angular),
        cross(spin, rotate(inertia.matrix, spin)),
        cross(inertia.moment, acceleration.linear),
    )
    return Wrench(torque, force)


def momentum(inertia: Inertia, motion: Twist) -> Wrench:
    """The momentum of a body in that motion, which is also the wrench that starts it in unit time."""
    return Wrench(
        add(rotate(inertia.matrix, motion.angular), cross(inertia.moment, motion.linear)),
        add([inertia.mass * x for x in motion.linear], cross(motion.angular, inertia.moment)),
    )


def power(motion: Twist, wrench: Wrench) -> Value:
    """The power of a wrench in a motion."""
    return dot(motion.angular, wrench.torque) + dot(motion.linear, wrench.force)


def on_parent(wrench: Wrench, at: Pose) -> Wrench:
    """A wrench on a frame as one on the frame that holds it."""
    force = rotate(at.rotation, wrench.force)
    return Wrench(add(rotate(at.rotation, wrench.torque), cross(at.position, force)), force)


def world_wrench(at: Pose, point: Vector, torque: Vector, force: Vector) -> Wrench:
    """A torque, and a force on a point of a frame (the point in the frame), both along the world's axes."""
    own = unrotate(at.rotation, force)
    return Wrench(add(unrotate(at.rotation, torque), cross(point, own)), own)


def joint_forces(
    s: Sweeps, name: str, where: Quantity[Pose], wrench: Callable[[Node], Wrench]
) -> Quantity[list[Value]]:
    """The generalised forces of a wrench on each frame: what the joints would have to bear."""
    result: Quantity[list[Value]] = s.quantity(f"{name} on joints")

    def body(node: Node, total: Wrench) -> Wrench:
        at = where[node.here]
        result.put(node.here, [power(twist, total) for twist in twists(node, at)])
        return on_parent(total, at)

    s.inward(name, wrench, body)
    return result


def bias_forces(s: Sweeps, where: Quantity[Pose], motion: Quantity[Moving]) -> Quantity[list[Value]]:
    """Inverse dynamics: the joint forces that these motions take."""
    return joint_forces(s, "bias", where, lambda node: inertial_wrench(node.inertia, motion[node.here]))
