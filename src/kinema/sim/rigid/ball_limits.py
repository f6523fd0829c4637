"""How far a ball is from the limits of its turning, and what moves it there, along the axes of what it moves."""

from __future__ import annotations

from collections.abc import Sequence

from kinema import trace
from kinema.trace import Value

from ..sweeps.maths import IDENTITY, Matrix, Vector, cross, dot, rotation_vector, scale, unrotate

FAR = 1e10
"""As far as an unlimited joint is from its limits."""
SMALLEST = 1e-12
"""An angle that has no axis."""


def beyond_angle(q: Sequence[Value], most: Value) -> tuple[Value, list[Value]]:
    """Of a quaternion: how far its whole angle is from a limit."""
    turn = rotation_vector(q)
    angle = trace.sqrt(dot(turn, turn))
    return trace.maximum(most, 0.0) - angle, _back(turn, angle, IDENTITY[0])


def swing(rotation: Matrix, cone: Sequence[Value], main: int) -> tuple[Value, list[Value]]:
    """How far the main axis of a ball is from the rim of its cone, an ellipse of angles about where it starts."""
    moved = [row[main] for row in rotation]
    along, first, second = (moved[(main + k) % 3] for k in range(3))
    half = trace.sqrt(trace.maximum(0.5 + 0.5 * along, SMALLEST))
    turn = rotation_vector([half, *scale(0.5 / half, cross(list(IDENTITY[main]), moved))])
    angle = trace.sqrt(dot(turn, turn))
    sine = trace.maximum(trace.sqrt(first * first + second * second), SMALLEST)
    parts = [x / (sine * trace.minimum(width, FAR)) for x, width in zip((first, second), cone, strict=True)]
    rim = 1.0 / trace.maximum(trace.sqrt(parts[0] * parts[0] + parts[1] * parts[1]), SMALLEST)
    return rim - angle, list(unrotate(rotation, _back(turn, angle, IDENTITY[(main + 1) % 3])))


def _back(turn: Vector, angle: Value, other: Vector) -> list[Value]:
    """The axis that turns back; without a turn, another one: how hard a limit is follows from what moves about it."""
    inverse = 1.0 / trace.maximum(angle, SMALLEST)
    return [trace.select(SMALLEST, angle, -(x * inverse), -y) for x, y in zip(turn, other, strict=True)]
