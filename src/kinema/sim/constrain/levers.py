"""What one contact sees of motions, and what it does to frames: along its directions, about the origin."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kinema.trace import RowCode, Value

from ..collide.planned import SetKind
from ..collide.touches import Contact, Layout, each_contact
from ..rigid.kinematics import Pose, Twist
from ..rigid.rnea import Wrench
from ..sweeps.maths import add, cross, dot, rotate, scale, sub
from ..sweeps.quantities import Quantity
from ..sweeps.tree import frame_ref
from .laws import Law

Numbers = Sequence[Value]
N_STIFFNESS = 21
"""Of a symmetric matrix of six rows: the lower half, by rows."""


@dataclass(frozen=True, slots=True)
class Axes:
    """How a frame's degrees of freedom move what is rigid with it: twists about the origin, along the world's axes."""

    twists: Sequence[Twist]


def about_origin(at: Pose, motion: Twist) -> Twist:
    """A frame's motion along the world's axes, as that of what is at the origin."""
    angular = rotate(at.rotation, motion.angular)
    return Twist(angular, add(rotate(at.rotation, motion.linear), cross(at.position, angular)))


def between(motion: Quantity[Twist], kind: SetKind) -> Twist:
    """How the second frame of a set moves against the first."""
    b = motion[frame_ref("b ")]
    if kind.on_world:
        return b
    a = motion[frame_ref("a ")]
    return Twist(sub(b.angular, a.angular), sub(b.linear, a.linear))


def shifted(motion: Twist, to: Numbers) -> Twist:
    """A motion as that of what is at a point."""
    return Twist(motion.angular, add(motion.linear, cross(motion.angular, to)))


def levers_of(contact: Contact, about: Numbers | None = None) -> list[list[Value]]:
    """Of each direction what a unit along it does to a frame: torque about the origin or a point, and force; scaled."""
    dimension, point = contact.layout.dimension, contact.read(Layout.POINT, 3)
    point = point if about is None else sub(point, about)
    axes, result = contact.axes, []
    for j, factor in enumerate(contact.read(Layout.SCALE, dimension)):
        if j < 3:
            axis = scale(factor, axes[j])
            result.append([*cross(point, axis), *axis])
        else:
            result.append([*scale(factor, axes[j - 3]), 0.0, 0.0, 0.0])
    return result


def seen_by(contact: Contact, moving: Twist) -> list[Value]:
    """A motion in the directions of a contact."""
    dimension, point = contact.layout.dimension, contact.read(Layout.POINT, 3)
    at = add(moving.linear, cross(moving.angular, point))
    scales = contact.read(Layout.SCALE, dimension)
    axes = contact.axes
    return [
        factor * (dot(axes[j], at) if j < 3 else dot(axes[j - 3], moving.angular)) for j, factor in enumerate(scales)
    ]


def first_point(code: RowCode, kind: SetKind) -> str:
    """Where the first contact of a set is that has any: a local array."""
    found = code.recorder.local(3)
    code.recorder.write(found, Contact(code.recorder, Layout(kind.dimension), 0.0).read(Layout.POINT, 3))
    return found


def stiffness_of_set(code: RowCode, kind: SetKind, law: Law, about: Callable[[], Numbers]) -> str:
    """The stiffness of all contacts of a set against a motion of one frame, about a point: a local array."""
    sums = code.recorder.local(N_STIFFNESS)
    code.recorder.write(sums, [0.0] * N_STIFFNESS)

    def one(contact: Contact) -> None:
        levers, pulled = _levers_and_pulls(contact, kind, law, about())
        entry = 0
        for i in range(6):
            for j in range(i + 1):
                more = dot([lever[i] for lever in levers], [row[j] for row in pulled])
                code.recorder.write(sums, [code.recorder.read(sums, entry) + more], entry)
                entry += 1

    each_contact(code, kind.dimension, one)
    return sums


def _levers_and_pulls(contact: Contact, kind: SetKind, law: Law, about: Numbers) -> tuple[list[Numbers], list[Numbers]]:
    """Two lists of six numbers each, whose products add up to a contact's stiffness."""
    levers, known, n = levers_of(contact, about), law.bend(contact, kind), kind.dimension
    if known is None:
        curve = law.push(contact, kind, contact.residual).curve
        full = [[curve[max(i, j)][min(i, j)] for j in range(n)] for i in range(n)]
        return [*levers], [[dot(row, [lever[k] for lever in levers]) for k in range(6)] for row in full]
    bound = contact.law[1]
    outward = [dot(known.outward, [lever[k] for lever in levers[1:]]) for k in range(6)]
    steep = [x - bound * y for x, y in zip(levers[0], outward, strict=True)]
    every: list[Numbers] = [*levers, steep, outward]
    factors = [*known.weights, known.soft, -known.less]
    return every, [scale(factor, lever) for factor, lever in zip(factors, every, strict=True)]


def read_all(code: RowCode, array: str, count: int = N_STIFFNESS) -> list[Value]:
    """A stiffness from a local array, or another one's numbers."""
    return [code.recorder.read(array, i) for i in range(count)]


def resistance(stiffness: Sequence[Value], motion: Twist) -> Wrench:
    """The wrench against a motion."""
    x = [*motion.angular, *motion.linear]
    found: list[Value] = []
    for i in range(6):
        total: Value = 0.0
        for j in range(6):
            low, high = min(i, j), max(i, j)
            total = total + stiffness[high * (high + 1) // 2 + low] * x[j]
        found.append(total)
    return Wrench(found[:3], found[3:])


def resistance_about(stiffness: Sequence[Value], about: Numbers, motion: Twist) -> Wrench:
    """The wrench against a motion, both about the origin, by a stiffness about a point."""
    felt = resistance(stiffness, shifted(motion, about))
    return Wrench(add(felt.torque, cross(about, felt.force)), felt.force)


def stiffness_moved(stiffness: Sequence[Value], away: Numbers) -> list[Value]:
    """A stiffness about a point, as that about another one, from which the point is so far away."""
    felt = [resistance_about(stiffness, away, twist_of([float(i == j) for i in range(6)])) for j in range(6)]
    columns = [[*wrench.torque, *wrench.force] for wrench in felt]
    return [columns[j][i] for i in range(6) for j in range(i + 1)]


def twist_of(flat: Sequence[Value]) -> Twist:
    """Six numbers as a twist."""
    return Twist(flat[:3], flat[3:])
