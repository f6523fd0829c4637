"""Muscle force-length-velocity curves and passive force (MuJoCo's muscle model).

Lengths are normalised by the optimal length L0, velocities by the maximum shortening velocity.
"""

from __future__ import annotations

from kinema import ir
from kinema.ir import Value

from ..tree.transmissions import Transmission


def active_force(transmission: Transmission) -> tuple[Value, Value]:
    """Force -F0 FL(length) FV(velocity) of a fully activated muscle of peak force F0, and its velocity derivative."""
    (
        range_start,
        length_lower,
        inverse_length,
        inverse_velocity,
        inverse_width_below,
        inverse_width_above,
        max_lengthening_force,
        saturation_velocity,
        inverse_saturation_velocity,
    ) = transmission.read("muscle_gain_params")
    (peak, _) = transmission.read("peak_force")
    offset = length_lower + (transmission.length - range_start) * inverse_length - 1.0
    isometric = -peak * _force_length_curve(ir.select(0.0, offset, inverse_width_above, -inverse_width_below) * offset)
    velocity = inverse_velocity * transmission.velocity
    return isometric * _force_velocity_curve(
        velocity, max_lengthening_force, saturation_velocity, inverse_saturation_velocity
    ), isometric * inverse_velocity * _force_velocity_derivative(
        velocity, saturation_velocity, inverse_saturation_velocity
    )


def passive_force(transmission: Transmission) -> Value:
    """Passive force of a muscle stretched beyond its optimal length: quadratic, then linear in length."""
    range_start, length_lower, inverse_length, inverse_width, height = transmission.read("muscle_bias_params")
    (_, peak) = transmission.read("peak_force")
    x = ir.maximum(inverse_width * (length_lower + (transmission.length - range_start) * inverse_length - 1.0), 0.0)
    return -peak * height * ir.select(1.0, x, x - 0.5, 0.5 * x * x)


def _force_length_curve(normalized_distance: Value) -> Value:
    """Force-length curve from parabolas: 1 at distance 0 from the optimum, 0 at distance 2 and beyond."""
    remaining = ir.maximum(2.0 - normalized_distance, 0.0)
    return ir.select(
        1.0, normalized_distance, 0.5 * remaining * remaining, 1.0 - 0.5 * normalized_distance * normalized_distance
    )


def _force_velocity_curve(
    velocity: Value, max_lengthening_force: Value, saturation_velocity: Value, inverse_saturation_velocity: Value
) -> Value:
    """Force-velocity curve: 0 at maximum shortening velocity (-1), 1 at rest, `max_lengthening_force` at most."""
    shortening = ir.maximum(velocity + 1.0, 0.0)
    lengthening = ir.select(
        saturation_velocity,
        velocity,
        max_lengthening_force,
        max_lengthening_force
        - (saturation_velocity - velocity) * (saturation_velocity - velocity) * inverse_saturation_velocity,
    )
    return ir.select(0.0, velocity, lengthening, shortening * shortening)


def _force_velocity_derivative(
    velocity: Value, saturation_velocity: Value, inverse_saturation_velocity: Value
) -> Value:
    """Derivative of the force-velocity curve by velocity."""
    lengthening = ir.select(
        saturation_velocity, velocity, 0.0, 2.0 * (saturation_velocity - velocity) * inverse_saturation_velocity
    )
    return ir.select(0.0, velocity, lengthening, 2.0 * ir.maximum(velocity + 1.0, 0.0))
