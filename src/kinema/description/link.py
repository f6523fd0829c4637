"""Rigid bodies."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from kinema.foundation import Array, Pose

from .node import Node
from .shape import Shape


def _zeros3() -> Array:
    return np.zeros(3)


@dataclass(frozen=True, slots=True, eq=False)
class Inertial:
    """Mass, centre and inertia of a link."""

    mass: float
    """Mass [kg]."""
    center: Array
    """Centre of mass in the link's frame [m], shape (3,)."""
    inertia: Array
    """Inertia about the centre of mass, along the link frame's axes [kg m2], shape (3, 3)."""


@dataclass(kw_only=True, slots=True, eq=False)
class Link(Node):
    """A rigid body with its shapes."""

    inertial: Inertial | None = None
    """None for a link without mass of its own (a frame, a ghost link)."""
    inertial_is_computed: bool = False
    """Whether the file left the inertia to be computed from shapes and densities (and `inertial` is the result)."""
    density: float | None = None
    """Density [kg/m3] asked for where it is computed."""
    shapes: list[Shape] = field(default_factory=list)
    pose: Pose | None = None
    """Pose in the robot's frame as authored, at the authored configuration; None where only joints place the link."""
    nested_in: str | None = None
    """The link this one is written inside of, where the format nests links."""
    enabled: bool = True
    kinematic: bool = False
    """Moved by the user, not by forces (USD kinematic bodies, MJCF mocap, SDFormat kinematic)."""
    starts_asleep: bool = False
    gravity_scale: float = 1.0
    """1 for full gravity, 0 for none."""
    self_collide: bool | None = None
    """Whether this link may collide with others of its robot, if only one of the two allows it; None for the robot's
    setting."""
    linear_velocity: Array = field(default_factory=_zeros3)
    """Initial velocity of the link's origin in the world [m/s]."""
    angular_velocity: Array = field(default_factory=_zeros3)
    """Initial angular velocity in the world [rad/s]."""

    @property
    def visuals(self) -> list[Shape]:
        """The shapes to be seen."""
        return [s for s in self.shapes if s.visual]

    @property
    def collisions(self) -> list[Shape]:
        """The shapes that collide."""
        return [s for s in self.shapes if s.collision]
