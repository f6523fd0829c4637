"""The choices that options offer."""

from __future__ import annotations

import enum


class Layout(str, enum.Enum):
    """How links are arranged in a USD stage."""

    NESTED = "nested"
    FLAT = "flat"


class IntegratorName(str, enum.Enum):
    """How a step goes from one state to the next."""

    IMPLICIT = "implicitfast"
    EULER = "euler"
    RK4 = "rk4"


class Precision(str, enum.Enum):
    """32 or 64 bits."""

    SINGLE = "single"
    DOUBLE = "double"


class Driving(str, enum.Enum):
    """What joints are told while a robot is simulated."""

    ZERO = "zero"
    HOLD = "hold"
    RANDOM = "random"


class Meshes(str, enum.Enum):
    """What becomes of meshes."""

    EMBED = "embed"
    COPY = "copy"
    BAKE = "bake"
    REFERENCE = "reference"
