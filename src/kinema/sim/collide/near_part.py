"""A box that is very large against another shape, cut down to what is near it: its far corners would cost digits."""

from __future__ import annotations

from dataclasses import replace

from kinema import trace
from kinema.trace import Value

from ..sweeps.maths import add, rotate, scale, sub, unrotate
from .solid import Solid, Work

LARGER = 10.0
"""How far the cut is from the other shape, against its size: up to there depths are right."""


def near_part(work: Work, box: Solid, other: Solid, size: Value) -> Solid:
    """The box, or as much of it as is near another shape of that size [m]."""
    centre = unrotate(box.rotation, sub(other.position, box.position))
    far = LARGER * size + work.reach
    low = [trace.clamp(c - far, -s, s) for c, s in zip(centre, box.size, strict=True)]
    high = [trace.clamp(c + far, -s, s) for c, s in zip(centre, box.size, strict=True)]
    middle, half = scale(0.5, add(low, high)), scale(0.5, sub(high, low))
    return replace(box, position=add(box.position, rotate(box.rotation, middle)), size=half)
