"""Articulated bodies (ABA): forces to accelerations without a matrix, in work that grows with the frames alone.

From the tips inwards each frame, with all that hangs on it, becomes one *articulated body*: what it takes to accelerate
it while its joints further out give way. Outwards again, each joint's acceleration follows from its parent's. The
accelerations here are what the forces add to those that the frames have anyway (`kinematics.accelerations`), so that
the result is that of the mass matrix, which takes the square of the depth for each degree of freedom and is faster for
short chains.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kinema import trace
from kinema.model import Motion
from kinema.trace import Value

from ..sweeps.maths import Matrix, Vector, add, cross, dot, product, rotate, scale, transpose, unrotate
from ..sweeps.quantities import Quantity
from ..sweeps.sweeps import Sweeps
from ..sweeps.tree import Inertia, Node
from .kinematics import RESTING, Pose, Twist, carried_twist, twists
from .rnea import NO_WRENCH, Wrench, on_parent, power

SHARES = {True: 1e-7, False: 1e-14}
"""What is left of a hinge at least, in single and in double precision, against what its body resists about any axis:
in a gimbal's lock, where hinges further out give way to all of it, it would be nothing but rounding."""


@dataclass(frozen=True, slots=True)
class Articulated:
    """What it takes to accelerate a frame with all it carries: torque = turning a + coupling b for angular a, linear b.

    And force = coupling^T a + mass b. `turning` and `mass` are symmetric: xx, xy, xz, yy, yz, zz.
    """

    turning: Vector
    coupling: Matrix
    mass: Vector


@dataclass(frozen=True, slots=True)
class Release:
    """One degree of freedom that was let go."""

    wrench: Wrench
    """What it took to accelerate it by one."""
    inverse: Value
    """Of the inertia that it was left with."""
    push: Value
    """The force on it that nothing balanced."""


@dataclass(frozen=True, slots=True)
class Carried:
    """A body, and the wrench that it takes without being accelerated."""

    body: Articulated
    bias: Wrench


def half(matrix: Matrix) -> Vector:
    """The upper half of a symmetric matrix."""
    return [matrix[i][j] for i in range(3) for j in range(i, 3)]


def whole(values: Vector) -> Matrix:
    """A symmetric matrix by its upper half."""
    xx, xy, xz, yy, yz, zz = values
    return ((xx, xy, xz), (xy, yy, yz), (xz, yz, zz))


def rigid(inertia: Inertia) -> Articulated:
    """A body by itself."""
    x, y, z = inertia.moment
    m = inertia.mass
    coupling: Matrix = [[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]]
    return Articulated(half(inertia.matrix), coupling, [m, 0.0, 0.0, m, 0.0, m])


def release(carried: Carried, motion: Twist, own: Value, force: Value, share: float = 0.0) -> tuple[Carried, Release]:
    """Let a degree of freedom give way, which has `own` inertia of its own and a force: what is left, and what went.

    It resists at least by a share of what the body resists about any axis.
    """
    body, bias = carried.body, carried.bias
    response = resistance(body, motion)
    resists = power(motion, response)
    if share:
        resists = trace.maximum(resists, share * (body.turning[0] + body.turning[3] + body.turning[5]))
    inverse = 1.0 / (resists + own)
    push = force - power(motion, bias)
    torque, pull = scale(inverse, response.torque), scale(inverse, response.force)
    left = Articulated(
        _less(body.turning, torque, response.torque),
        [[body.coupling[i][j] - torque[i] * response.force[j] for j in range(3)] for i in range(3)],
        _less(body.mass, pull, response.force),
    )
    more = Wrench(add(bias.torque, scale(push, torque)), add(bias.force, scale(push, pull)))
    return Carried(left, more), Release(response, inverse, push)


def resistance(body: Articulated, motion: Twist) -> Wrench:
    """What it takes to accelerate a body by one along a motion."""
    return Wrench(
        add(rotate(whole(body.turning), motion.angular), rotate(body.coupling, motion.linear)),
        add(unrotate(body.coupling, motion.angular), rotate(whole(body.mass), motion.linear)),
    )


def _less(symmetric: Vector, a: Vector, b: Vector) -> Vector:
    """A symmetric matrix, less a b^T."""
    pairs = ((i, j) for i in range(3) for j in range(i, 3))
    return [x - a[i] * b[j] for x, (i, j) in zip(symmetric, pairs, strict=True)]


def seen_from_parent(body: Articulated, at: Pose) -> Articulated:
    """A body in the axes of the frame that holds it, about that frame's origin."""
    r = at.position
    mass = _rotated(at.rotation, body.mass)
    coupling = product(product(at.rotation, body.coupling), transpose(at.rotation))
    shifts = [cross(r, column) for column in whole(mass)]  # mass is symmetric: its columns are its rows
    moved = [[coupling[i][j] + shifts[j][i] for j in range(3)] for i in range(3)]
    turning = whole(_rotated(at.rotation, body.turning))
    by_moved, by_coupling = [cross(r, row) for row in moved], [cross(r, row) for row in coupling]
    rows = [turning[i][j] + by_moved[i][j] + by_coupling[j][i] for i in range(3) for j in range(i, 3)]
    return Articulated(rows, moved, mass)


def _rotated(rotation: Matrix, symmetric: Vector) -> Vector:
    """R A R^T of a symmetric A."""
    by_rows = product(rotation, whole(symmetric))
    return [dot(by_rows[i], rotation[j]) for i in range(3) for j in range(i, 3)]


def articulated_accelerations(
    s: Sweeps,
    where: Quantity[Pose],
    own: Callable[[Node], list[Value]],
    force: Callable[[Node], list[Value]],
    bias: Callable[[Node], Wrench],
) -> Quantity[list[Value]]:
    """The x of (M + diagonal own) x = force - what the wrenches on frames, `bias`, take of the joints."""
    released: Quantity[list[Release]] = s.quantity("released")

    def inwards(node: Node, carried: Carried) -> Carried:
        at = where[node.here]
        motions, inertias, forces = twists(node, at), own(node), force(node)
        gone: list[Release] = []
        for k in reversed(range(len(motions))):
            share = SHARES[s.settings.is_coarse] if node.motion == Motion.HINGE else 0.0
            carried, let_go = release(carried, motions[k], inertias[k], forces[k], share)
            gone.insert(0, let_go)
        released.put(node.here, gone)
        return Carried(seen_from_parent(carried.body, at), on_parent(carried.bias, at))

    s.inward("articulated bodies", lambda node: Carried(rigid(node.inertia), bias(node)), inwards)
    accelerations: Quantity[list[Value]] = s.quantity("joint accelerations")

    def outwards(node: Node, above: Twist) -> Twist:
        at = where[node.here]
        motion = carried_twist(above, at)
        found: list[Value] = []
        for let_go, twist in zip(released[node.here], twists(node, at), strict=True):
            x = let_go.inverse * (let_go.push - power(motion, let_go.wrench))
            motion = Twist(add(motion.angular, scale(x, twist.angular)), add(motion.linear, scale(x, twist.linear)))
            found.append(x)
        accelerations.put(node.here, found)
        return motion

    s.outward("accelerations of articulated bodies", RESTING, outwards)
    return accelerations


HELD = 1e300
"""What is added to the inertia of a degree of freedom that is not let go."""


def remaining_inertias(s: Sweeps, where: Quantity[Pose], negligible: float) -> None:
    """Write of each degree of freedom its inertia, `entire`, and what is `left` when those it moves give way.

    One that is left with a negligible share of its inertia is not let go: nothing is divided by zero.
    """

    def body(node: Node, both: tuple[Articulated, Articulated]) -> tuple[Articulated, Articulated]:
        whole, at = both[0], where[node.here]
        carried = Carried(both[1], NO_WRENCH)
        rotors, motions = s.of("armature", node), twists(node, at)
        entire = [power(m, resistance(whole, m)) + rotor for m, rotor in zip(motions, rotors, strict=True)]
        left: list[Value] = []
        for k in reversed(range(len(motions))):
            left.insert(0, power(motions[k], resistance(carried.body, motions[k])) + rotors[k])
            held = trace.select(negligible * entire[k], left[0], 0.0, HELD)
            carried = release(carried, motions[k], rotors[k] + held, 0.0)[0]
        s.write("entire", node, entire)
        s.write("left", node, left)
        return seen_from_parent(whole, at), seen_from_parent(carried.body, at)

    s.inward("remaining inertias", lambda node: (rigid(node.inertia), rigid(node.inertia)), body)
