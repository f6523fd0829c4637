"""Muscles: how hard they pull at a length and speed, as MuJoCo has it."""

from __future__ import annotations

from kinema import trace
from kinema.trace import Value

from ..sweeps.cords import Cord


def active(cord: Cord) -> tuple[Value, Value]:
    """The force of a fully active muscle, and its derivative by speed: force over length times force over speed."""
    start, low, per_length, per_speed, below, above, most, beyond, per_beyond = cord.of("muscle_gain")
    (peak, _) = cord.of("peak_force")
    offset = low + (cord.length - start) * per_length - 1.0
    pull = -peak * _over_length(trace.select(0.0, offset, above, -below) * offset)
    speed = per_speed * cord.speed
    return pull * _over_speed(speed, most, beyond, per_beyond), pull * per_speed * _slope(speed, beyond, per_beyond)


def passive(cord: Cord) -> Value:
    """The force of a muscle that is longer than its optimum, whether it is active or not: half a parabola, a line."""
    start, low, per_length, above, height = cord.of("muscle_bias")
    (_, peak) = cord.of("peak_force")
    x = trace.maximum(above * (low + (cord.length - start) * per_length - 1.0), 0.0)
    return -peak * height * trace.select(1.0, x, x - 0.5, 0.5 * x * x)


def _over_length(distance: Value) -> Value:
    """1 at the optimum, 0 two half widths away from it, of parabolas."""
    left = trace.maximum(2.0 - distance, 0.0)
    return trace.select(1.0, distance, 0.5 * left * left, 1.0 - 0.5 * distance * distance)


def _over_speed(v: Value, most: Value, beyond: Value, per_beyond: Value) -> Value:
    """0 at the greatest speed of shortening, 1 at rest, `most` when lengthening fast."""
    shortening = trace.maximum(v + 1.0, 0.0)
    lengthening = trace.select(beyond, v, most, most - (beyond - v) * (beyond - v) * per_beyond)
    return trace.select(0.0, v, lengthening, shortening * shortening)


def _slope(v: Value, beyond: Value, per_beyond: Value) -> Value:
    """Its derivative."""
    lengthening = trace.select(beyond, v, 0.0, 2.0 * (beyond - v) * per_beyond)
    return trace.select(0.0, v, lengthening, 2.0 * trace.maximum(v + 1.0, 0.0))
