"""Actuators and tendons."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass, field
from typing import Any

from .material import DEFAULT_SOLVER, SolverParameters
from .node import Node


class Transmission(enum.StrEnum):
    """What an actuator pulls on."""

    JOINT = "joint"
    JOINT_IN_PARENT = "jointinparent"
    TENDON = "tendon"
    SITE = "site"
    SLIDER_CRANK = "slidercrank"
    BODY = "body"
    ORIENTATION = "orientation"
    """All three rotations of a spherical joint, or of a frame against its reference frame, at once."""


@dataclass(kw_only=True, slots=True, eq=False)
class Actuator(Node):
    """A controlled force: gain(length, velocity) * activation + bias(length, velocity), through a transmission."""

    transmission: Transmission
    target: str
    """Name of the joint, tendon, frame (site) or link."""
    reference: str = ""
    """The reference frame (site transmissions) or slider frame (slider-crank)."""
    gear: tuple[float, ...] = (1.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    crank_length: float = 0.0
    """[m]"""
    gain_type: str = "fixed"
    gain: tuple[float, ...] = (1.0,)
    bias_type: str = "none"
    bias: tuple[float, ...] = ()
    dynamics_type: str = "none"
    dynamics: tuple[float, ...] = ()
    control_range: tuple[float, float] = (-math.inf, math.inf)
    force_range: tuple[float, float] = (-math.inf, math.inf)
    activation_range: tuple[float, float] = (-math.inf, math.inf)
    length_range: tuple[float, float] = (0.0, 0.0)
    settings: dict[str, Any] = field(default_factory=dict)
    """Everything else its format says of it."""


class TendonPathKind(enum.StrEnum):
    """One step of a tendon's path."""

    JOINT = "joint"
    SITE = "site"
    WRAP = "wrap"
    PULLEY = "pulley"


@dataclass(frozen=True, kw_only=True, slots=True)
class TendonPathItem:
    """A joint with its coefficient, a frame passed through, a shape wrapped around, or a pulley."""

    kind: TendonPathKind
    target: str = ""
    coefficient: float = 1.0
    """Of a joint; or a pulley's divisor."""
    side: str = ""
    """The frame that decides on which side a shape is wrapped."""


@dataclass(kw_only=True, slots=True, eq=False)
class Tendon(Node):
    """A length: a weighted sum of joints (fixed) or the shortest path through frames and around shapes (spatial)."""

    path: list[TendonPathItem] = field(default_factory=list)
    lower: float = -math.inf
    upper: float = math.inf
    stiffness: float = 0.0
    damping: float = 0.0
    friction: float = 0.0
    armature: float = 0.0
    spring_length: tuple[float, float] | None = None
    """Rest length, or dead band, of the spring [m]; None for the length where the joints' own springs are at rest."""
    force_range: tuple[float, float] = (-math.inf, math.inf)
    width: float = 0.003
    color: tuple[float, float, float, float] = (0.5, 0.5, 0.5, 1.0)
    limit_solver: SolverParameters = DEFAULT_SOLVER
    friction_solver: SolverParameters = DEFAULT_SOLVER

    @property
    def is_fixed(self) -> bool:
        """Whether it is a sum of joint coordinates."""
        return all(item.kind is TendonPathKind.JOINT for item in self.path)
