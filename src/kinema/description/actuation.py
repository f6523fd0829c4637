"""Actuators with their transmissions, and tendons, in the conventions of MuJoCo."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass, field
from typing import Any

from .material import DEFAULT_SOLVER, SolverParameters
from .node import Node


class Transmission(enum.StrEnum):
    """What the force of an actuator acts on."""

    JOINT = "joint"
    JOINT_IN_PARENT = "jointinparent"
    TENDON = "tendon"
    SITE = "site"
    SLIDER_CRANK = "slidercrank"
    BODY = "body"
    ORIENTATION = "orientation"
    """All three rotations of a spherical joint, or of a frame relative to its reference frame, at once."""


@dataclass(kw_only=True, slots=True, eq=False)
class Actuator(Node):
    """An actuator with the force gain(length, velocity) * activation + bias(length, velocity) and a transmission."""

    transmission: Transmission
    target: str
    """Name of the joint, tendon, frame (site) or link."""
    reference: str = ""
    """Name of the reference frame (site transmission) or slider frame (slider-crank)."""
    gear: tuple[float, ...] = (1.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    """Scale of the transmission; for 6D transmissions three translations and three rotations."""
    crank_length: float = 0.0
    """Length of the connecting rod of a slider-crank [m]."""
    gain_type: str = "fixed"
    gain: tuple[float, ...] = (1.0,)
    """Parameters of the gain (MuJoCo gainprm)."""
    bias_type: str = "none"
    bias: tuple[float, ...] = ()
    """Parameters of the bias (MuJoCo biasprm)."""
    dynamics_type: str = "none"
    dynamics: tuple[float, ...] = ()
    """Parameters of the activation dynamics (MuJoCo dynprm)."""
    control_range: tuple[float, float] = (-math.inf, math.inf)
    force_range: tuple[float, float] = (-math.inf, math.inf)
    activation_range: tuple[float, float] = (-math.inf, math.inf)
    length_range: tuple[float, float] = (0.0, 0.0)
    """Feasible transmission lengths, for muscles."""
    settings: dict[str, Any] = field(default_factory=dict)
    """All other settings of the format."""


class TendonPathKind(enum.StrEnum):
    """Type of an item of a tendon path."""

    JOINT = "joint"
    SITE = "site"
    WRAP = "wrap"
    PULLEY = "pulley"


@dataclass(frozen=True, kw_only=True, slots=True)
class TendonPathItem:
    """Item of a tendon path: a joint with coefficient, a site, a wrapping shape, or a pulley."""

    kind: TendonPathKind
    target: str = ""
    coefficient: float = 1.0
    """Coefficient of a joint, or divisor of a pulley."""
    side: str = ""
    """Name of the side site that selects the side of a wrapping shape."""


@dataclass(kw_only=True, slots=True, eq=False)
class Tendon(Node):
    """A tendon: weighted sum of joint coordinates (fixed), or shortest path via sites and around shapes (spatial)."""

    path: list[TendonPathItem] = field(default_factory=list)
    lower: float = -math.inf
    """Lower length limit [m]."""
    upper: float = math.inf
    """Upper length limit [m]."""
    stiffness: float = 0.0
    """[N/m]"""
    damping: float = 0.0
    """[N s/m]"""
    friction: float = 0.0
    """Dry friction [N]."""
    armature: float = 0.0
    """Inertia associated with the rate of length [kg]."""
    spring_length: tuple[float, float] | None = None
    """Rest length, or dead band, of the spring [m]; None for the length at which the joint springs are at rest."""
    force_range: tuple[float, float] = (-math.inf, math.inf)
    width: float = 0.003
    """Radius for rendering [m]."""
    color: tuple[float, float, float, float] = (0.5, 0.5, 0.5, 1.0)
    limit_solver: SolverParameters = DEFAULT_SOLVER
    friction_solver: SolverParameters = DEFAULT_SOLVER

    @property
    def is_fixed(self) -> bool:
        """Whether the length is a weighted sum of joint coordinates (only joints in the path)."""
        return all(item.kind is TendonPathKind.JOINT for item in self.path)
