"""Where the frames are, and how they move."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kinema import trace
from kinema.model import Motion
from kinema.trace import Value

from ..sweeps.maths import (
    IDENTITY,
    ZERO,
    Matrix,
    Vector,
    add,
    axis_rotation,
    cross,
    normalised,
    product,
    quaternion_matrix,
    quaternion_of,
    quaternion_product,
    rotate,
    scale,
    sub,
    transpose,
    unrotate,
)
from ..sweeps.quantities import Quantity
from ..sweeps.sweeps import Sweeps
from ..sweeps.tree import WORLD, Link, Node


@dataclass(frozen=True, slots=True)
class Pose:
    """Where a frame is in another."""

    rotation: Matrix
    position: Vector


@dataclass(frozen=True, slots=True)
class Twist:
    """An angular and a linear vector of motion: a velocity or an acceleration of a frame's origin, in its own axes.

    Also what one degree of freedom does to its frame at unit speed.
    """

    angular: Vector
    linear: Vector


@dataclass(frozen=True, slots=True)
class Moving:
    """A frame's acceleration as felt (at rest it is against gravity), and its angular velocity."""

    acceleration: Twist
    spin: Vector


RESTING = Twist(ZERO, ZERO)
HERE = Pose(IDENTITY, ZERO)


# ------------------------------------------------------------------------------------------------------------ motions


@dataclass(frozen=True, slots=True)
class MotionKind:
    """How a kind of elementary motion moves its frame."""

    pose: Callable[[Node, Sequence[Value]], Pose]
    """Where the frame is in its parent, from its coordinates."""
    twists: Callable[[Node, Pose], list[Twist]]
    """What each of its degrees of freedom does to it."""
    advance: Callable[[Sequence[Value], Sequence[Value]], list[Value]]
    """The coordinates after a shift along the degrees of freedom."""


def _hinge(node: Node, q: Sequence[Value]) -> Pose:
    return Pose(product(node.rotation, axis_rotation(node.axis, q[0] - node.reference)), node.position)


def _slide(node: Node, q: Sequence[Value]) -> Pose:
    travel = scale(q[0] - node.reference, rotate(node.rotation, node.axis))
    return Pose(node.rotation, add(node.position, travel))


def _screw(node: Node, q: Sequence[Value]) -> Pose:
    angle = q[0] - node.reference
    travel = scale(node.pitch * angle, rotate(node.rotation, node.axis))
    return Pose(product(node.rotation, axis_rotation(node.axis, angle)), add(node.position, travel))


def _ball(node: Node, q: Sequence[Value]) -> Pose:
    own = quaternion_matrix(q)
    return Pose(product(node.rotation, transpose(own) if node.inverted else own), node.position)


def _ball_twists(node: Node, at: Pose) -> list[Twist]:
    if not node.inverted:
        return [Twist(unit, ZERO) for unit in IDENTITY]
    # the turning is that of the parent against this frame, in this file's child: our parent
    starts = ([row[k] for row in node.rotation] for k in range(3))
    return [Twist(scale(-1.0, unrotate(at.rotation, start)), ZERO) for start in starts]


FURTHEST = 8.0
"""Half the angle [rad] about an axis that a ball turns at most in a step: beyond it a quaternion would be no number."""


def _ball_advance(q: Sequence[Value], shift: Sequence[Value]) -> list[Value]:
    half = [trace.clamp(x, -FURTHEST, FURTHEST) for x in scale(0.5, shift)]
    return list(normalised(quaternion_product(q, quaternion_of(half))))


def _shifted(q: Sequence[Value], shift: Sequence[Value]) -> list[Value]:
    return [q[0] + shift[0]]


MOTIONS: dict[int, MotionKind] = {
    Motion.HINGE: MotionKind(_hinge, lambda node, _: [Twist(node.axis, ZERO)], _shifted),
    Motion.SLIDE: MotionKind(_slide, lambda node, _: [Twist(ZERO, node.axis)], _shifted),
    Motion.SCREW: MotionKind(_screw, lambda node, _: [Twist(node.axis, scale(node.pitch, node.axis))], _shifted),
    Motion.BALL: MotionKind(_ball, _ball_twists, _ball_advance),
}
"""Every elementary motion; `kinema.model.MOTION_SIZES` says how many coordinates and degrees of freedom each has."""


def twists(node: Node, at: Pose) -> list[Twist]:
    """What each of a frame's degrees of freedom does to it."""
    return MOTIONS[node.motion].twists(node, at)


def joint_twist(node: Node, at: Pose, speeds: Sequence[Value]) -> Twist:
    """What a frame's own motion adds to its velocity, or its acceleration."""
    angular, linear = ZERO, ZERO
    for speed, twist in zip(speeds, twists(node, at), strict=True):
        angular = add(angular, scale(speed, twist.angular))
        linear = add(linear, scale(speed, twist.linear))
    return Twist(angular, linear)


# ------------------------------------------------------------------------------------------------------------- sweeps


def poses_in_parents(s: Sweeps) -> Quantity[Pose]:
    """Where each frame is in the frame that holds it."""
    where: Quantity[Pose] = s.quantity("where")
    with s.everybody():
        s.each_frame("poses", lambda node: where.put(node.here, MOTIONS[node.motion].pose(node, s.of("qpos", node))))
    return where


def poses_in_world(s: Sweeps, where: Quantity[Pose], start: Vector = ZERO) -> Quantity[Pose]:
    """Where each frame is in the world, whose origin is put somewhere."""

    def body(node: Node, above: Pose) -> Pose:
        own = where[node.here]
        return Pose(product(above.rotation, own.rotation), add(above.position, rotate(above.rotation, own.position)))

    with s.everybody():
        return s.outward("poses in the world", Pose(HERE.rotation, start), body)


def origin_of(s: Sweeps) -> Vector:
    """Where the first free body is; nowhere if there is none.

    Where islands are to know nothing of each other it is where that body starts.
    """
    for x, y, z in zip(s.nodes, s.nodes[1:], s.nodes[2:], strict=False):
        held = (x.parent, y.parent, z.parent) == (WORLD, x.index, y.index)
        if held and all(node.motion == Motion.SLIDE for node in (x, y, z)):
            starts = [node.reference for node in (x, y, z)]
            told: list[Value] = [s.recorder.read("qpos", node.qs.start) for node in (x, y, z)]
            if s.idle is not None:
                told = [float(s.model.qpos0[node.qs.start]) for node in (x, y, z)]
            axes = zip((x, y, z), told, starts, strict=True)
            return add(*(scale(q - start, node.axis) for node, q, start in axes))
    return ZERO


def velocities(s: Sweeps, where: Quantity[Pose]) -> Quantity[Twist]:
    """The velocity of each frame against the world."""

    def body(node: Node, above: Twist) -> Twist:
        at = where[node.here]
        own = joint_twist(node, at, s.of("vel", node))
        carried = carried_twist(above, at)
        return Twist(add(carried.angular, own.angular), add(carried.linear, own.linear))

    return s.outward("velocities", RESTING, body)


def carried_twist(above: Twist, at: Pose) -> Twist:
    """How a frame moves with the frame that holds it."""
    at_origin = add(above.linear, cross(above.angular, at.position))
    return Twist(unrotate(at.rotation, above.angular), unrotate(at.rotation, at_origin))


def accelerations(s: Sweeps, where: Quantity[Pose], qacc: Quantity[list[Value]] | None = None) -> Quantity[Moving]:
    """The acceleration of each frame's origin, as felt, and its spin.

    Without accelerations of coordinates: what there is of it at this velocity when none of them accelerates.
    """

    def body(node: Node, above: Moving) -> Moving:
        at = where[node.here]
        moved = carried_motion(above, at, joint_twist(node, at, s.of("vel", node)))
        if qacc is None:
            return moved
        more = joint_twist(node, at, qacc[node.here])
        felt = moved.acceleration
        return Moving(Twist(add(felt.angular, more.angular), add(felt.linear, more.linear)), moved.spin)

    return s.outward("accelerations", Moving(Twist(ZERO, scale(-1.0, s.gravity)), ZERO), body)


def carried_motion(above: Moving, at: Pose, own: Twist) -> Moving:
    """A frame's motion when its coordinates do not accelerate; `own` is the velocity that they add."""
    w, parent = above.spin, above.acceleration
    carried = unrotate(at.rotation, w)
    angular = add(unrotate(at.rotation, parent.angular), cross(carried, own.angular))
    at_origin = add(parent.linear, cross(parent.angular, at.position), cross(w, cross(w, at.position)))
    linear = add(unrotate(at.rotation, at_origin), scale(2.0, cross(carried, own.linear)))
    return Moving(Twist(angular, linear), add(carried, own.angular))


# -------------------------------------------------------------------------------------------------------------- links


def link_pose(link: Link, frames: Quantity[Pose]) -> Pose:
    """Where a link is in the world."""
    at = frames[link.frame]
    return Pose(product(at.rotation, link.rotation), add(at.position, rotate(at.rotation, link.position)))


def twist_at(at: Pose, motion: Twist, point: Vector) -> Twist:
    """A frame's velocity as that of its point that is now somewhere in the world, along the world's axes."""
    angular = rotate(at.rotation, motion.angular)
    linear = rotate(at.rotation, motion.linear)
    return Twist(angular, add(linear, cross(angular, sub(point, at.position))))
