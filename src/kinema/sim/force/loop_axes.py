"""Coordinates of joints that close loops, as pieces of paths: how far one frame is along or about axes of another.

The first end is the joint's frame on its child, the second that on its parent. What a coordinate does to the child at
unit force, it does to the parent the other way round.
"""

from __future__ import annotations

from collections.abc import Sequence

from kinema import trace
from kinema.trace import Value

from ..rigid.ball_limits import beyond_angle, swing
from ..rigid.kinematics import Pose
from ..sweeps.maths import (
    IDENTITY,
    Matrix,
    Vector,
    add,
    cross,
    dot,
    matrix_quaternion,
    product,
    rotate,
    scale,
    sub,
    transpose,
)
from .wrap import angle_of

LEAST_LEVEL = 0.05
"""Turns are told apart no better than this: where two are about one axis, nothing would be bounded."""
SMALLEST = 1e-9
LETTERS = "xyz"
Found = tuple[Value, Vector, Vector]
"""A length, and the force and torque on the child, at its origin."""


def loop_axis(ends: Sequence[Pose], numbers: Sequence[Value], kind: str) -> Found:
    """The coordinate of an axis: `slide`, `hinge x`, `first xy`, `second xy`, `euler x`, `cone 0`, `cone all`."""
    word, _, which = kind.partition(" ")
    child, parent = ends[0], ends[1]
    if word == "slide":
        along = rotate(parent.rotation, numbers[:3])
        return numbers[3] + dot(along, sub(child.position, parent.position)), along, (0.0, 0.0, 0.0)
    between = product(transpose(parent.rotation), child.rotation)
    if word == "cone":
        far, levers = (
            beyond_angle(matrix_quaternion(between), numbers[0])
            if which == "all"
            else swing(between, numbers[:2], int(which))
        )
        return far, (0.0, 0.0, 0.0), rotate(child.rotation, levers)
    sine, cosine, torque = {"hinge": _hinge, "first": _first, "second": _second, "euler": _euler}[word](
        parent.rotation, child.rotation, between, [LETTERS.index(x) for x in which]
    )
    return _unwound(sine, cosine, numbers), (0.0, 0.0, 0.0), torque


def _unwound(sine: Value, cosine: Value, numbers: Sequence[Value]) -> Value:
    """The angle that is nearest to a middle, of which the cosine and sine are given beside it."""
    middle, cos, sin = numbers[:3]
    s, c = sine * cos - cosine * sin, cosine * cos + sine * sin
    angle = angle_of(c, trace.absolute(s))
    return middle + trace.select(s, 0.0, -angle, angle)


def _column(rotation: Matrix, number: int) -> Vector:
    return [row[number] for row in rotation]


Angle = tuple[Value, Value, Vector]
"""Its sine and cosine, both times any length, and the torque that turns it at unit power."""


def _hinge(parent: Matrix, child: Matrix, r: Matrix, which: Sequence[int]) -> Angle:
    """About the only axis that turns: the twist of whatever turn there is."""
    (k,) = which
    i, j = (k + 1) % 3, (k + 2) % 3
    trace_ = r[0][0] + r[1][1] + r[2][2]
    skew = [r[2][1] - r[1][2], r[0][2] - r[2][0], r[1][0] - r[0][1]]
    even = [r[k][n] + r[n][k] for n in range(3)]
    even[k] = 1.0 + 2.0 * r[k][k] - trace_
    own = add(scale(1.0 + trace_, IDENTITY[k]), cross(skew, IDENTITY[k]), even)
    torque = scale(1.0 / trace.maximum(2.0 + 2.0 * r[k][k], LEAST_LEVEL), own)
    return skew[k], r[i][i] + r[j][j], rotate(parent, torque)


def _third(which: Sequence[int]) -> tuple[int, int, int, float]:
    i, j = which
    return i, j, 3 - i - j, 1.0 if (j - i) % 3 == 1 else -1.0


def _without(axis: Vector, other: Vector) -> Vector:
    """What turns about an axis and leaves another in its plane."""
    along = dot(axis, other)
    return scale(1.0 / trace.maximum(1.0 - along * along, LEAST_LEVEL), sub(axis, scale(along, other)))


def _first(parent: Matrix, child: Matrix, r: Matrix, which: Sequence[int]) -> Angle:
    """Of two turns, that about an axis of the parent: it carries the child's other axis."""
    i, j, k, sign = _third(which)
    return sign * r[k][j], r[j][j], _without(_column(parent, i), _column(child, j))


def _second(parent: Matrix, child: Matrix, r: Matrix, which: Sequence[int]) -> Angle:
    """Of two turns, that about an axis of the child."""
    i, j, k, sign = _third(which)
    return sign * r[i][k], r[i][i], _without(_column(child, j), _column(parent, i))


def _euler(parent: Matrix, child: Matrix, r: Matrix, which: Sequence[int]) -> Angle:
    """Of three turns about x, y and z: each is moved by what moves neither of the others."""
    x, z = _column(parent, 0), _column(child, 2)
    across = cross(z, x)
    size = trace.sqrt(dot(across, across))
    level = trace.maximum(size, LEAST_LEVEL)
    y = scale(1.0 / trace.maximum(size, SMALLEST), across)
    if which[0] == 0:
        return -r[1][2], r[2][2], scale(1.0 / level, cross(y, z))
    if which[0] == 1:
        return r[0][2], size, y
    return -r[0][1], r[0][0], scale(1.0 / level, cross(x, y))


LOOP_AXES = (
    "slide",
    "cone all",
    *(f"cone {i}" for i in range(3)),
    *(f"{word} {x}" for word in ("hinge", "euler") for x in LETTERS),
    *(f"{word} {x}" for word in ("first", "second") for x in ("xy", "xz", "yz")),
)
"""Every kind of piece that is such a coordinate."""
