"""What robots and worlds have in common."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kinema.foundation import Array, Diagnostics

from .actuation import Actuator, Tendon
from .collision import CollisionRules
from .constraint import Constraint
from .node import Node
from .sensing import Camera, Frame, Keyframe, Light, Sensor


@dataclass(kw_only=True, slots=True, eq=False)
class Assembly(Node):
    """The parts of a robot or world beside its links, joints and shapes."""

    format: str = ""
    """What it was read from: `urdf`, `sdf`, `mjcf`, `usd`, `cad`; empty when made in memory."""
    source: str = ""
    """The file it was read from."""
    diagnostics: Diagnostics = field(default_factory=Diagnostics)
    """What the reader had to say."""
    gravity: Array | None = None
    """[m/s2] in the world; None where the file does not say (then (0, 0, -9.81))."""
    constraints: list[Constraint] = field(default_factory=list)
    actuators: list[Actuator] = field(default_factory=list)
    tendons: list[Tendon] = field(default_factory=list)
    sensors: list[Sensor] = field(default_factory=list)
    frames: list[Frame] = field(default_factory=list)
    cameras: list[Camera] = field(default_factory=list)
    lights: list[Light] = field(default_factory=list)
    keyframes: list[Keyframe] = field(default_factory=list)
    collision: CollisionRules = field(default_factory=CollisionRules)
    options: dict[str, Any] = field(default_factory=dict)
    """Simulation settings its file asks for: `timestep` [s], `integrator`, ...; see `OPTION_DEFAULTS`."""
