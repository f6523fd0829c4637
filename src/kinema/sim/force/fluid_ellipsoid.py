"""The medium's force on a shape taken as an ellipsoid: MuJoCo's model, with added mass, drag and lift.

With v and w the motion against the medium in the ellipsoid's axes, and Q the diagonal of the squares of (r_j r_k), the
surface that it shows to the stream is A = pi sqrt(v Q^2 v / v Q v), and Q v is the normal of what casts that shadow.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from kinema import trace
from kinema.trace import RowCode, Value

from ..rigid.kinematics import Twist
from ..rigid.rnea import Wrench
from ..sweeps.maths import (
    Matrix,
    Vector,
    add,
    cross,
    diagonal,
    dot,
    matrix_scale,
    matrix_sum,
    outer,
    product,
    scale,
    skew,
    sub,
)
from .slopes import Slopes

SMALLEST = 1e-15
"""What MuJoCo divides by instead of anything smaller."""


def ellipsoid_numbers(radii: Sequence[float], coefficients: Sequence[float]) -> dict[str, list[float]]:
    """What the law needs of a shape."""
    blunt, slender, angular, kutta, magnus = coefficients
    low, middle, high = sorted(radii)
    swept = [8.0 / 15.0 * math.pi * radii[i] * max(radii[i - 2], radii[i - 1]) ** 4 for i in range(3)]
    most = 8.0 / 15.0 * math.pi * middle * high**4
    across = 2.0 / 3.0 * sum(radii)
    return {
        "squares": [(radii[i - 2] * radii[i - 1]) ** 2 for i in range(3)],
        "viscous": [math.pi * across**3, 3.0 * math.pi * across],
        "spin": [angular * x + slender * (most - x) for x in swept],
        "surfaces": [(blunt - slender) * math.pi, slender * math.pi * high * middle],
        "lift": [kutta * math.pi, magnus * 4.0 / 3.0 * math.pi * low * middle * high],
    }


@dataclass(frozen=True, slots=True)
class _Stream:
    """What the law looks at: the numbers of the shape, and of its motion."""

    turn: Vector
    move: Vector
    squares: Vector
    viscous: Sequence[Value]
    spin: Vector
    surfaces: Sequence[Value]
    lift: Sequence[Value]
    mass: Vector
    inertia: Vector
    """Of the medium that moves along."""
    normal: Vector
    """Q v"""
    steep: Vector
    """Q^2 v"""
    num: Value
    """v Q v"""
    den: Value
    """v Q^2 v"""
    speed: Value
    moment: Vector
    """What resists turning, about each axis, and its size."""
    moment_size: Value


def _stream(code: RowCode, density: Value, motion: Twist) -> _Stream:
    turn, move, squares = motion.angular, motion.linear, code.numbers("squares")
    normal = [q * x for q, x in zip(squares, move, strict=True)]
    steep = [q * x for q, x in zip(squares, normal, strict=True)]
    spin = code.numbers("spin")
    moment = [k * x for k, x in zip(spin, turn, strict=True)]
    added = ([density * x for x in code.numbers(name)] for name in ("added_mass", "added_inertia"))
    return _Stream(
        turn,
        move,
        squares,
        code.numbers("viscous"),
        spin,
        code.numbers("surfaces"),
        code.numbers("lift"),
        *added,
        normal=normal,
        steep=steep,
        num=dot(move, normal),
        den=dot(normal, normal),
        speed=trace.sqrt(dot(move, move)),
        moment=moment,
        moment_size=trace.sqrt(dot(moment, moment)),
    )


def ellipsoid_force(code: RowCode, density: Value, viscosity: Value, motion: Twist) -> Wrench:
    """In the ellipsoid's axes, at its centre, from its motion against the medium."""
    s = _stream(code, density, motion)
    along, about = (_times(x, y) for x, y in ((s.mass, s.move), (s.inertia, s.turn)))
    added = add(cross(along, s.move), cross(about, s.turn))
    slow, fast = s.viscous
    torque = sub(added, scale(viscosity * slow + density * s.moment_size, s.turn))
    shadow = trace.sqrt(s.den / trace.maximum(s.num, SMALLEST))
    kutta, magnus = s.lift
    rising = density * kutta * shadow * s.num / trace.maximum(s.speed * s.den, SMALLEST)
    lift = add(
        scale(density * magnus, cross(s.turn, s.move)),
        scale(rising, cross(cross(s.normal, s.move), s.move)),
    )
    drag = viscosity * fast + density * s.speed * (s.surfaces[0] * shadow + s.surfaces[1])
    return Wrench(torque, add(cross(along, s.turn), lift, scale(-drag, s.move)))


def ellipsoid_slopes(code: RowCode, density: Value, viscosity: Value, motion: Twist) -> Slopes:
    """How that changes with the motion."""
    s = _stream(code, density, motion)
    magnus = density * s.lift[1]
    along, about = (_times(x, y) for x, y in ((s.mass, s.move), (s.inertia, s.turn)))
    return Slopes(
        matrix_sum(
            matrix_sum(skew(about), _cross_diagonal(s.turn, s.inertia)), _turning(s, density, viscosity * s.viscous[0])
        ),
        matrix_sum(skew(along), _cross_diagonal(s.move, s.mass)),
        matrix_sum(skew(along), skew(scale(-magnus, s.move))),
        matrix_sum(
            matrix_sum(_cross_diagonal(s.turn, s.mass), skew(scale(magnus, s.turn))),
            matrix_sum(_lift(s, density), _drag(s, density, viscosity * s.viscous[1])),
        ),
    )


def _times(a: Vector, b: Vector) -> list[Value]:
    return [x * y for x, y in zip(a, b, strict=True)]


def _cross_diagonal(a: Vector, factors: Vector) -> Matrix:
    """The derivative of (factors b) x a by b."""
    return product(skew(scale(-1.0, a)), diagonal(factors))


def _turning(s: _Stream, density: Value, slow: Value) -> Matrix:
    """Of the torque that resists turning, by the turning."""
    share = density / trace.maximum(s.moment_size, SMALLEST)
    falling = -(slow + share * (s.moment_size * s.moment_size))
    return matrix_sum(diagonal([falling] * 3), outer(s.turn, scale(-share, _times(s.spin, s.moment))))


def _drag(s: _Stream, density: Value, slow: Value) -> Matrix:
    """Of drag, by the motion."""
    shadow = trace.sqrt(s.den / trace.maximum(s.num, SMALLEST))
    surface = density * (s.surfaces[0] * shadow + s.surfaces[1])
    share = surface / trace.maximum(s.speed, SMALLEST)
    root = trace.sqrt(s.num) * s.num * trace.sqrt(s.den)
    change = scale(1.0 / trace.maximum(root, SMALLEST), sub(scale(s.num, s.steep), scale(s.den, s.normal)))
    along = add(scale(share, s.move), scale(density * s.speed * s.surfaces[0], change))
    return matrix_sum(diagonal([-(slow + surface * s.speed)] * 3), outer(scale(-1.0, s.move), along))


def _lift(s: _Stream, density: Value) -> Matrix:
    """Of Kutta's lift, which is some number times (v Q v) v - (v v) Q v, by the motion."""
    square = s.speed * s.speed
    strength = density * s.lift[0] / trace.maximum(trace.sqrt(s.den) * trace.sqrt(s.num) * s.speed, SMALLEST)
    rise = sub(scale(s.num, s.move), scale(square, s.normal))
    steepness = sub(
        sub(s.normal, scale(s.num / trace.maximum(s.den, SMALLEST), s.steep)),
        scale(s.num / trace.maximum(square, SMALLEST), s.move),
    )
    turned = matrix_sum(
        matrix_scale(2.0, matrix_sum(outer(s.move, s.normal), outer(scale(-1.0, s.normal), s.move))),
        diagonal([s.num - square * q for q in s.squares]),
    )
    return matrix_scale(strength, matrix_sum(outer(rise, steepness), matrix_scale(s.num, turned)))
