"""Where the frames are, and how they move: the outward sweeps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kinema.model import Motion
from kinema.trace import Value

from .maths import (
    IDENTITY,
    ZERO,
    Matrix,
    Vector,
    add,
    cross,
    product,
    quaternion_matrix,
    rotate,
    scale,
    sub,
    transpose,
    turn,
    turn_by,
    unrotate,
)
from .tree import WORLD, Node, Tree


@dataclass(frozen=True, slots=True)
class Offset:
    """Where a frame is in its parent."""

    rotation: Matrix
    position: Vector


@dataclass(frozen=True, slots=True)
class Subspace:
    """One degree of freedom: the angular and linear velocity of its frame, in that frame, at unit speed."""

    angular: Vector
    linear: Vector


@dataclass(frozen=True, slots=True)
class Moving:
    """Velocity or acceleration of a frame: angular, and linear of its origin, in its own axes."""

    angular: Vector
    linear: Vector


RESTING = Moving(ZERO, ZERO)


def offsets(tree: Tree, q: Sequence[Value]) -> dict[int, Offset]:
    """Where each frame is in its parent, at the coordinates q."""
    return {node.index: offset(node, [q[i] for i in node.qs]) for node in tree.outward()}


def offset(node: Node, q: Sequence[Value], turning: tuple[Value, Value] | None = None) -> Offset:
    """Where a frame is in its parent; `turning` is the sine and cosine of its angle, where they are known already."""
    if node.motion is Motion.BALL:
        own = quaternion_matrix(q)
        return Offset(product(node.rotation, transpose(own) if node.inverted else own), node.position)
    value = q[0] - node.reference
    rotation, position = node.rotation, node.position
    if node.motion is not Motion.SLIDE:
        own = turn(node.axis, value) if turning is None else turn_by(node.axis, *turning)
        rotation = product(rotation, own)
    if node.motion is not Motion.HINGE:
        travel = value if node.motion is Motion.SLIDE else node.pitch * value
        position = add(position, scale(travel, rotate(node.rotation, node.axis)))
    return Offset(rotation, position)


def subspaces(tree: Tree, where: dict[int, Offset]) -> dict[int, Subspace]:
    """What each degree of freedom does to its frame, by its number."""
    result: dict[int, Subspace] = {}
    for node in tree.outward():
        for k, dof in enumerate(node.dofs):
            result[dof] = subspace_of(node, k, where[node.index])
    return result


def subspace_of(node: Node, k: int, where: Offset) -> Subspace:
    """What one of a frame's degrees of freedom does to it."""
    match node.motion:
        case Motion.HINGE:
            return Subspace(node.axis, ZERO)
        case Motion.SLIDE:
            return Subspace(ZERO, node.axis)
        case Motion.SCREW:
            return Subspace(node.axis, scale(node.pitch, node.axis))
    if node.inverted:  # the turning is that of the parent against this frame, in this file's child: our parent
        start = [row[k] for row in node.rotation]
        return Subspace(scale(-1.0, unrotate(where.rotation, start)), ZERO)
    return Subspace(IDENTITY[k], ZERO)


def joint_velocity(node: Node, v: Sequence[Value], subspace: dict[int, Subspace]) -> Moving:
    """What a frame's own motion adds to its velocity."""
    angular, linear = ZERO, ZERO
    for dof in node.dofs:
        angular = add(angular, scale(v[dof], subspace[dof].angular))
        linear = add(linear, scale(v[dof], subspace[dof].linear))
    return Moving(angular, linear)


def velocities(
    tree: Tree, where: dict[int, Offset], subspace: dict[int, Subspace], v: Sequence[Value]
) -> dict[int, Moving]:
    """The velocity of each frame against the world."""
    result = {WORLD: RESTING}
    for node in tree.outward():
        result[node.index] = _carried_velocity(
            result[node.parent], where[node.index], joint_velocity(node, v, subspace)
        )
    return result


def _carried_velocity(parent: Moving, where: Offset, own: Moving) -> Moving:
    at_origin = add(parent.linear, cross(parent.angular, where.position))
    return Moving(
        add(unrotate(where.rotation, parent.angular), own.angular),
        add(unrotate(where.rotation, at_origin), own.linear),
    )


def accelerations(
    tree: Tree,
    where: dict[int, Offset],
    subspace: dict[int, Subspace],
    v: Sequence[Value],
    qdd: Sequence[Value] | None,
    gravity: Vector,
) -> tuple[dict[int, Moving], dict[int, Vector]]:
    """The acceleration of each frame's origin, as felt (a resting frame accelerates against gravity), and its spin.

    Without qdd: what there is of it at this velocity when no coordinate accelerates.
    """
    result = {WORLD: Moving(ZERO, scale(-1.0, gravity))}
    spin: dict[int, Vector] = {WORLD: ZERO}
    for node in tree.outward():
        own = joint_velocity(node, v, subspace)
        moved, spin[node.index] = carried_acceleration(result[node.parent], spin[node.parent], where[node.index], own)
        if qdd is not None:
            more = joint_velocity(node, qdd, subspace)
            moved = Moving(add(moved.angular, more.angular), add(moved.linear, more.linear))
        result[node.index] = moved
    return result, spin


def carried_acceleration(parent: Moving, w: Vector, place: Offset, own: Moving) -> tuple[Moving, Vector]:
    """A frame's acceleration when its coordinate does not accelerate, and its spin; w is its parent's."""
    carried = unrotate(place.rotation, w)
    angular = add(unrotate(place.rotation, parent.angular), cross(carried, own.angular))
    at_origin = add(parent.linear, cross(parent.angular, place.position), cross(w, cross(w, place.position)))
    linear = add(unrotate(place.rotation, at_origin), scale(2.0, cross(carried, own.linear)))
    return Moving(angular, linear), add(carried, own.angular)


def world_poses(tree: Tree, where: dict[int, Offset]) -> dict[int, Offset]:
    """Where each frame is in the world."""
    result = {WORLD: Offset(IDENTITY, ZERO)}
    for node in tree.outward():
        parent, own = result[node.parent], where[node.index]
        result[node.index] = Offset(
            product(parent.rotation, own.rotation), add(parent.position, rotate(parent.rotation, own.position))
        )
    return result


def link_pose(tree: Tree, frames: dict[int, Offset], link: int) -> Offset:
    """Where a link is in the world."""
    links = tree.model.links
    frame = frames[int(links.frame_idx[link])]
    return Offset(
        product(frame.rotation, links.rot[link].tolist()),
        add(frame.position, rotate(frame.rotation, links.pos[link].tolist())),
    )


def point_velocity(motion: Moving, frame: Offset, offset: Vector) -> tuple[Vector, Vector]:
    """Angular velocity, and linear of a point at an offset in the frame, along the world's axes."""
    linear = add(motion.linear, cross(motion.angular, offset))
    return rotate(frame.rotation, motion.angular), rotate(frame.rotation, linear)


def jacobian(
    tree: Tree, frames: dict[int, Offset], subspace: dict[int, Subspace], frame: int, point: Vector
) -> dict[int, tuple[Vector, Vector]]:
    """Angular and linear velocity of a point of a frame per unit speed of each degree of freedom that moves it.

    The point and the result are in the world. Degrees of freedom that are not named do not move it.
    """
    result: dict[int, tuple[Vector, Vector]] = {}
    while frame != WORLD:
        node = tree.nodes[frame]
        at = frames[frame]
        for dof in node.dofs:
            angular = rotate(at.rotation, subspace[dof].angular)
            linear = rotate(at.rotation, subspace[dof].linear)
            result[dof] = (angular, add(linear, cross(angular, sub(point, at.position))))
        frame = node.parent
    return result


def center_of_mass(tree: Tree, frames: dict[int, Offset], nodes: Sequence[Node]) -> tuple[Value, Vector]:
    """The mass of some frames and their common centre in the world."""
    mass: Value = 0.0
    moment: Vector = ZERO
    for node in nodes:
        at = frames[node.index]
        mass = mass + node.inertia.mass
        moment = add(moment, scale(node.inertia.mass, at.position), rotate(at.rotation, node.inertia.moment))
    return mass, scale(1.0 / mass, moment)
