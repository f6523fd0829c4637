"""The medium that everything moves in, and what feels it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kinema.foundation import Array

from .bodies import Ints


@dataclass(kw_only=True, slots=True, eq=False)
class FluidInfo:
    """One row for each link or shape that the medium acts on; none where there is no medium.

    A `box` is a link, as the box that has its mass and inertia. An `ellipsoid` is a shape; a link with any is no box.
    """

    density: float
    """[kg/m3]"""
    viscosity: float
    """[Pa s]"""
    wind: Array
    """How the medium moves [m/s], (3,)."""
    kinds: list[str]
    link_idx: Ints
    frame_idx: Ints
    """The moving frame that it sits in."""
    pos: Array
    """Its centre there [m], (n, 3)."""
    rot: Array
    """Its axes there, (n, 3, 3)."""
    size: Array
    """The sides of a box, the half axes of an ellipsoid [m], (n, 3)."""
    coefficients: Array
    """Of an ellipsoid: blunt, slender and angular drag, Kutta lift, Magnus lift, (n, 5)."""
    added_mass: Array
    """Of an ellipsoid: the volume of the medium that moves with it along each of its axes [m3], (n, 3)."""
    added_inertia: Array
    """Likewise, the inertia about each axis, of a medium of unit density [m5], (n, 3)."""


def no_fluid() -> FluidInfo:
    """Nothing that anything would feel."""
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
