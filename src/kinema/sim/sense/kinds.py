"""The list of what can be measured."""

from __future__ import annotations

from collections.abc import Callable

from ..fields.situation import Situation
from . import contact_sensor, cords, joints, limits, loads, rays, spots, subtrees, touching, volumes, whole
from .readings import Readings

Family = Callable[[Situation, Readings, list[int]], None]

FAMILIES: list[tuple[tuple[str, ...], Family]] = [
    (spots.PLACED, spots.placed),
    (spots.TURNED, spots.turned),
    (spots.MOVING, spots.moving),
    (spots.FELT, spots.felt),
    (joints.COORDINATES, joints.coordinates),
    (joints.SPEEDS, joints.speeds),
    (("jointactuatorfrc",), joints.forces),
    (cords.LENGTHS, cords.lengths),
    (cords.FORCES, cords.forces),
    (cords.TENDONS, cords.tendons),
    (limits.JOINTS, limits.joint_limits),
    (limits.TENDONS, limits.tendon_limits),
    (subtrees.KINDS, subtrees.subtrees),
    (loads.KINDS, loads.loads),
    (("touch",), touching.touch),
    (contact_sensor.KINDS, contact_sensor.contact_sensors),
    (("insidesite",), volumes.volumes),
    (rays.KINDS, rays.cast),
    (whole.KINDS, whole.whole),
]
"""Kinds of readings, and what computes all of them together. `nothing` and `user` stay as they are."""


def sense(now: Situation) -> None:
    """All readings of the model."""
    readings = Readings(now.s)
    for kinds, family in FAMILIES:
        which = readings.which(*kinds)
        if which:
            family(now, readings, which)
