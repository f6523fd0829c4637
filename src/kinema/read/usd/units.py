"""From a stage's units and up axis to SI with Z up."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from kinema.foundation import Array

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


def stage_units(stage: pxr.Stage) -> Units:
    """The units that the stage declares, or USD's fallbacks (centimetres, kilograms, Y up)."""
    up_axis = str(pxr.UsdGeom.GetStageUpAxis(stage))
    return Units(
        length=pxr.UsdGeom.GetStageMetersPerUnit(stage),
        mass=pxr.UsdPhysics.GetStageKilogramsPerUnit(stage),
        up=Y_TO_Z if up_axis == "Y" else np.eye(3),
        up_axis=up_axis,
    )
