"""From a stage's units and up axis to SI with Z up."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from kinema.foundation import Array, Diagnostics, Origin
from kinema.words import usd

from . import pxr

DEGREE = math.pi / 180
Y_TO_Z = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, -1.0], [0.0, 1.0, 0.0]])
"""Turns a world whose up is Y so that its up is Z."""


@dataclass(frozen=True, slots=True, eq=False)
class Units:
    """What one of the stage's units is in SI; time is in seconds everywhere, angles are in degrees."""

    length: float = 1.0
    """Metres per unit."""
    mass: float = 1.0
    """Kilograms per unit."""
    up: Array = field(default_factory=lambda: np.eye(3))
    """Rotation from the stage's world to Z up."""
    up_axis: str = "Z"

    @property
    def force(self) -> float:
        """Newtons per unit (mass length / s2)."""
        return self.mass * self.length

    @property
    def torque(self) -> float:
        """Newton metres per unit (mass length2 / s2)."""
        return self.mass * self.length**2

    @property
    def inertia(self) -> float:
        """Kg m2 per unit."""
        return self.mass * self.length**2

    @property
    def density(self) -> float:
        """kg/m3 per unit."""
        return self.mass / self.length**3


def stage_units(stage: pxr.Stage, file: str, diagnostics: Diagnostics) -> Units:
    """The units that the stage declares, or USD's fallbacks (centimetres, kilograms, Y up); wrong ones are errors."""

    def positive(name: str, value: float, fallback: float) -> float:
        if math.isfinite(value) and value > 0:
            return value
        _complain(
            file, diagnostics, f"{name} is {value:g}, which nothing can be measured in; it is taken as {fallback:g}"
        )
        return fallback

    up_axis = str(pxr.UsdGeom.GetStageUpAxis(stage))
    if up_axis not in ("Y", "Z"):
        _complain(file, diagnostics, f"upAxis is {up_axis!r}, where Y or Z belongs; it is taken as Z")
        up_axis = "Z"
    return Units(
        length=positive(usd.METERS_PER_UNIT, pxr.UsdGeom.GetStageMetersPerUnit(stage), 0.01),
        mass=positive(usd.KILOGRAMS_PER_UNIT, pxr.UsdPhysics.GetStageKilogramsPerUnit(stage), 1.0),
        up=Y_TO_Z if up_axis == "Y" else np.eye(3),
        up_axis=up_axis,
    )


def _complain(file: str, diagnostics: Diagnostics, message: str) -> None:
    hint = "correct the metadata at the head of the stage"
    diagnostics.error("usd.bad-units", message, hint=hint, origin=Origin(file))
