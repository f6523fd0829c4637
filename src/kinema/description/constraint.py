"""Equality constraints between links, joints and tendons."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

import numpy as np

from kinema.foundation import Array, Pose

from .material import DEFAULT_SOLVER, SolverParameters
from .node import Node


class ConstraintKind(enum.StrEnum):
    """What a constraint holds equal."""

    CONNECT = "connect"
    """A point of link a stays on a point of link b."""
    WELD = "weld"
    """A frame on link a stays on a frame on link b."""
    JOINT = "joint"
    """Joint a follows a polynomial of joint b (or stays constant)."""
    TENDON = "tendon"
    """Tendon a's length follows a polynomial of tendon b's (or stays constant)."""
    DISTANCE = "distance"
    """Two points keep their distance."""
    GEAR = "gear"
    """Link b turns about its axis by -ratio times what link a turns about its own, both against a reference link."""
    OTHER = "other"
    """A kind of one format only (MJCF flex); see `attributes`."""


@dataclass(kw_only=True, slots=True, eq=False)
class Constraint(Node):
    """An equality constraint. `a` and `b` name links, joints or tendons by kind; None is the world or nothing."""

    kind: ConstraintKind
    a: str | None = None
    b: str | None = None
    pose_a: Pose = field(default_factory=Pose)
    """The constrained frame (its origin for connect) in link a."""
    pose_b: Pose = field(default_factory=Pose)
    """The constrained frame in link b."""
    polynomial: tuple[float, float, float, float, float] = (0.0, 1.0, 0.0, 0.0, 0.0)
    """Coefficients of powers 0 to 4 for joint and tendon constraints, as MuJoCo counts: coordinates from the axes'
    `reference`, lengths from those at the reference configuration."""
    axis_a: int = 0
    """Which axis of joint a, where it has several."""
    axis_b: int = 0
    distance: float = 0.0
    """[m]"""
    ratio: float = 1.0
    reference: str | None = None
    """The reference link of a gear."""
    gear_axis_a: Array = field(default_factory=lambda: np.array([0.0, 0.0, 1.0]))
    """A gear's axis in link a."""
    gear_axis_b: Array = field(default_factory=lambda: np.array([0.0, 0.0, 1.0]))
    """A gear's axis in link b."""
    torque_scale: float = 1.0
    """Weight of a weld's rotation against its translation [m]."""
    active: bool = True
    solver: SolverParameters = DEFAULT_SOLVER
