"""Exponent of the impedance function as a constant of programs; imports nothing that traces programs."""

from __future__ import annotations

from collections.abc import Sequence


def integer_power(solimp: Sequence[float]) -> int:
    """Return the exponent of the impedance function, max(solimp[4], 1), if it is an integer, else 0."""
    power = max(solimp[4], 1.0)
    return round(power) if power == round(power) else 0
