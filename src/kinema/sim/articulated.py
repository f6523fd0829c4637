"""Forces to accelerations without a matrix: articulated bodies, in work that grows with the number of frames alone.

From the tips inwards each frame, with all that hangs on it, becomes one *articulated body*: what it takes to accelerate
it while its joints further out give way. Outwards again, each joint's acceleration follows from its parent's. The
accelerations here are what the forces add to those that the frames have anyway (`kinematics.accelerations`), so that
the result is that of `dynamics.factorise(mass_matrix).solve(force)`, which takes the square of the depth for each
degree of freedom and is faster for short chains.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kinema.trace import Value

from .dynamics import NO_FORCE, Force
from .kinematics import RESTING, Moving, Offset, Subspace
from .maths import Matrix, Vector, add, cross, dot, matrix_sum, product, rotate, scale, transpose, unrotate
from .tree import WORLD, Inertia, Tree


@dataclass(frozen=True, slots=True)
class Articulated:
    """What it takes to accelerate a frame with all it carries: torque = turning a + coupling b for angular a, linear b.

    And force = coupling^T a + mass b. `turning` and `mass` are symmetric.
    """

    turning: Matrix
    coupling: Matrix
    mass: Matrix


@dataclass(frozen=True, slots=True)
class Release:
    """One degree of freedom that was let go."""

    force: Force
    """What it took to accelerate it by one."""
    inverse: Value
    """Of the inertia that it was left with."""
    push: Value
    """The force on it that nothing balanced."""


def rigid(inertia: Inertia) -> Articulated:
    """A body by itself."""
    x, y, z = inertia.moment
    m = inertia.mass
    coupling: Matrix = [[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]]
    return Articulated(inertia.matrix, coupling, [[m, 0.0, 0.0], [0.0, m, 0.0], [0.0, 0.0, m]])


def both(a: Articulated, b: Articulated) -> Articulated:
    """Two that move together."""
    return Articulated(matrix_sum(a.turning, b.turning), matrix_sum(a.coupling, b.coupling), matrix_sum(a.mass, b.mass))


def release(
    body: Articulated, bias: Force, subspace: Subspace, own: Value, force: Value
) -> tuple[Articulated, Force, Release]:
    """Let a degree of freedom give way, which has `own` inertia of its own and a force: what is left of the body.

    `bias` is the force that the body takes without being accelerated.
    """
    response = resistance(body, subspace)
    inverse = 1.0 / (along(subspace, response) + own)
    push = force - along(subspace, bias)
    torque, pull = scale(inverse, response.torque), scale(inverse, response.force)
    left = Articulated(
        _less(body.turning, torque, response.torque, symmetric=True),
        _less(body.coupling, torque, response.force),
        _less(body.mass, pull, response.force, symmetric=True),
    )
    more = Force(add(bias.torque, scale(push, torque)), add(bias.force, scale(push, pull)))
    return left, more, Release(response, inverse, push)


def resistance(body: Articulated, subspace: Subspace) -> Force:
    """What it takes to accelerate a body by one along a degree of freedom."""
    return Force(
        add(rotate(body.turning, subspace.angular), rotate(body.coupling, subspace.linear)),
        add(unrotate(body.coupling, subspace.angular), rotate(body.mass, subspace.linear)),
    )


def along(subspace: Subspace | Moving, force: Force) -> Value:
    """The power of a force in a motion."""
    return dot(subspace.angular, force.torque) + dot(subspace.linear, force.force)


def _less(matrix: Matrix, a: Vector, b: Vector, *, symmetric: bool = False) -> Matrix:
    """A matrix, less a b^T; of a symmetric one only a half is computed."""
    rows = [[matrix[i][j] - a[i] * b[j] if j >= i or not symmetric else 0.0 for j in range(3)] for i in range(3)]
    return _mirrored(rows) if symmetric else rows


def _mirrored(rows: list[list[Value]]) -> Matrix:
    for i in range(3):
        for j in range(i):
            rows[i][j] = rows[j][i]
    return rows


def seen_from_parent(body: Articulated, place: Offset) -> Articulated:
    """A body in the axes of the frame that holds it, about that frame's origin."""
    r = place.position
    mass = _turned(place.rotation, body.mass)
    coupling = product(product(place.rotation, body.coupling), transpose(place.rotation))
    shifts = [cross(r, column) for column in mass]  # mass is symmetric: its columns are its rows
    moved = [[coupling[i][j] + shifts[j][i] for j in range(3)] for i in range(3)]
    turning = _turned(place.rotation, body.turning)
    by_moved, by_coupling = [cross(r, row) for row in moved], [cross(r, row) for row in coupling]
    rows: list[list[Value]] = [
        [turning[i][j] + by_moved[i][j] + by_coupling[j][i] if j >= i else 0.0 for j in range(3)] for i in range(3)
    ]
    return Articulated(_mirrored(rows), moved, mass)


def _turned(rotation: Matrix, matrix: Matrix) -> Matrix:
    """R A R^T of a symmetric A."""
    half = product(rotation, matrix)
    return _mirrored([[dot(half[i], rotation[j]) if j >= i else 0.0 for j in range(3)] for i in range(3)])


def on_parent(force: Force, place: Offset) -> Force:
    """A force on a frame as one on the frame that holds it."""
    pull = rotate(place.rotation, force.force)
    return Force(add(rotate(place.rotation, force.torque), cross(place.position, pull)), pull)


def carried_along(parent: Moving, place: Offset) -> Moving:
    """How a frame accelerates with the frame that holds it."""
    at_origin = add(parent.linear, cross(parent.angular, place.position))
    return Moving(unrotate(place.rotation, parent.angular), unrotate(place.rotation, at_origin))


def follow(released: Release, subspace: Subspace, moving: Moving) -> tuple[Value, Moving]:
    """The acceleration of a degree of freedom whose frame accelerates like that without it; and the frame's with it."""
    qdd = released.inverse * (released.push - along(moving, released.force))
    return qdd, Moving(
        add(moving.angular, scale(qdd, subspace.angular)), add(moving.linear, scale(qdd, subspace.linear))
    )


def articulated_solve(
    tree: Tree,
    where: dict[int, Offset],
    subspace: dict[int, Subspace],
    own: Sequence[Value],
    force: Sequence[Value],
    biases: Mapping[int, Force] | None = None,
) -> list[Value]:
    """The x of (M + diagonal own) x = force - what the forces on frames, `biases`, take of the joints."""
    bodies = {node.index: rigid(node.inertia) for node in tree.outward()}
    bias = {node.index: (biases or {}).get(node.index, NO_FORCE) for node in tree.outward()}
    released: dict[int, Release] = {}
    for node in tree.inward():
        body, rest = bodies[node.index], bias[node.index]
        for dof in reversed(node.dofs):
            body, rest, released[dof] = release(body, rest, subspace[dof], own[dof], force[dof])
        if node.parent != WORLD:
            place, above = where[node.index], node.parent
            bodies[above] = both(bodies[above], seen_from_parent(body, place))
            more = on_parent(rest, place)
            bias[above] = Force(add(bias[above].torque, more.torque), add(bias[above].force, more.force))
    result: list[Value] = [0.0] * len(force)
    moving = {WORLD: RESTING}
    for node in tree.outward():
        now = carried_along(moving[node.parent], where[node.index])
        for dof in node.dofs:
            result[dof], now = follow(released[dof], subspace[dof], now)
        moving[node.index] = now
    return result


def remaining_inertias(
    tree: Tree, where: dict[int, Offset], subspace: dict[int, Subspace], own: Sequence[float], negligible: float
) -> tuple[list[float], list[float]]:
    """Of each degree of freedom, in plain numbers: its inertia, and what is left when those it moves give way.

    One that is left with a negligible share of its inertia is not let go: nothing is divided by zero.
    """
    bodies = {node.index: rigid(node.inertia) for node in tree.outward()}
    whole = dict(bodies)
    diagonal, left = [0.0] * len(own), [0.0] * len(own)
    for node in tree.inward():
        body = bodies[node.index]
        for dof in reversed(node.dofs):
            diagonal[dof] = _inertia(whole[node.index], subspace[dof]) + own[dof]
            left[dof] = _inertia(body, subspace[dof]) + own[dof]
            if left[dof] > negligible * diagonal[dof]:
                body = release(body, NO_FORCE, subspace[dof], own[dof], 0.0)[0]
        if node.parent != WORLD:
            place, above = where[node.index], node.parent
            bodies[above] = both(bodies[above], seen_from_parent(body, place))
            whole[above] = both(whole[above], seen_from_parent(whole[node.index], place))
    return diagonal, left


def _inertia(body: Articulated, subspace: Subspace) -> float:
    return float(along(subspace, resistance(body, subspace)))  # type: ignore[arg-type]
