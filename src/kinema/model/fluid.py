"""Table of the links and geoms on which the surrounding fluid exerts forces, and the properties of the fluid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from kinema.core import Array

from .kinematic_tree import Ints
from .table import Table


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class FluidInfo(Table):
    """One row for each link or geom on which the fluid exerts forces; empty without a fluid.

    MuJoCo's two fluid models: a `box` is a link, represented by the equivalent inertia box of its mass and inertia; an
    `ellipsoid` is a geom. A link with ellipsoid geoms has no box.
    """

    density: float
    """[kg/m3]"""
    viscosity: float
    """[Pa s]"""
    wind: Array
    """Velocity of the fluid [m/s], (3,)."""
    kinds: Sequence[str]
    """`box` or `ellipsoid`: see `dynamics/forces/fluid.py`."""
    link_idx: Ints
    frame_idx: Ints
    """Moving frame of the link or geom."""
    pos: Array
    """Centre of the box or ellipsoid in the frame [m], (n, 3)."""
    rot: Array
    """Orientation of its axes in the frame, (n, 3, 3)."""
    size: Array
    """Side lengths of a box, half axes of an ellipsoid [m], (n, 3)."""
    coefficients: Array
    """Coefficients of an ellipsoid: blunt, slender and angular drag, Kutta lift, Magnus lift, (n, 5)."""
    added_mass: Array
    """Added (virtual) mass of an ellipsoid along its axes, per unit fluid density [m3], (n, 3)."""
    added_inertia: Array
    """Added (virtual) inertia of an ellipsoid about its axes, per unit fluid density [m5], (n, 3)."""


@cache
def empty_fluid() -> FluidInfo:
    """Table of a model without a fluid: zero density and viscosity, no rows."""
    return FluidInfo(
        density=0.0,
        viscosity=0.0,
        wind=np.zeros(3),
        kinds=[],
        link_idx=np.zeros(0, np.int32),
        frame_idx=np.zeros(0, np.int32),
        pos=np.zeros((0, 3)),
        rot=np.zeros((0, 3, 3)),
        size=np.zeros((0, 3)),
        coefficients=np.zeros((0, 5)),
        added_mass=np.zeros((0, 3)),
        added_inertia=np.zeros((0, 3)),
    )
