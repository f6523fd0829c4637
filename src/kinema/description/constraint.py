"""Equality constraints between links, joints and tendons."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

import numpy as np

from kinema.core import Array, Pose

from .material import DEFAULT_SOLVER, SolverParameters
from .node import Node


class ConstraintKind(enum.StrEnum):
    """Type of an equality constraint."""

    CONNECT = "connect"
    """A point of link a coincides with a point of link b."""
    WELD = "weld"
    """A frame on link a coincides with a frame on link b."""
    JOINT = "joint"
    """Joint a is a polynomial of joint b, or constant."""
    TENDON = "tendon"
    """The length of tendon a is a polynomial of the length of tendon b, or constant."""
    DISTANCE = "distance"
    """Two points keep a distance."""
    GEAR = "gear"
    """Link b rotates about its axis by -ratio times the rotation of link a about its axis, both relative to a reference
    link."""
    OTHER = "other"
    """A type that only one format has (MJCF flex); see `attributes`."""


@dataclass(kw_only=True, slots=True, eq=False)
class Constraint(Node):
    """An equality constraint; `a` and `b` name links, joints or tendons by kind, None is the world or nothing."""

    kind: ConstraintKind
    a: str | None = None
    b: str | None = None
    pose_a: Pose = field(default_factory=Pose)
    """Constrained frame (its origin for connect) in link a."""
    pose_b: Pose = field(default_factory=Pose)
    """Constrained frame in link b."""
    polynomial: tuple[float, float, float, float, float] = (0.0, 1.0, 0.0, 0.0, 0.0)
    """Coefficients of the powers 0 to 4 of joint and tendon constraints in MuJoCo's convention: coordinates relative to
    the `reference` of the axes, lengths relative to those in the reference configuration."""
    axis_a: int = 0
    """Index of the axis of joint a."""
    axis_b: int = 0
    """Index of the axis of joint b."""
    distance: float = 0.0
    """Distance of the points [m]."""
    ratio: float = 1.0
    """Gear ratio."""
    reference: str | None = None
    """The reference link of a gear."""
    gear_axis_a: Array = field(default_factory=lambda: np.array([0.0, 0.0, 1.0]))
    """Gear axis in link a, (3,)."""
    gear_axis_b: Array = field(default_factory=lambda: np.array([0.0, 0.0, 1.0]))
    """Gear axis in link b, (3,)."""
    torque_scale: float = 1.0
    """Weight of the rotation of a weld relative to its translation [m]."""
    active: bool = True
    solver: SolverParameters = DEFAULT_SOLVER
