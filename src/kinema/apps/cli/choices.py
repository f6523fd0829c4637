"""The choices that options offer."""

from __future__ import annotations

import enum


class Layout(enum.StrEnum):
    """How links are arranged in a USD stage."""

    NESTED = "nested"
    FLAT = "flat"


class IntegratorName(enum.StrEnum):
    """How a step goes from one state to the next."""

    IMPLICIT = "implicitfast"
    EULER = "euler"
    RK4 = "rk4"


class PlaceName(enum.StrEnum):
    """Where things touch while they are measured."""

    FLOOR = "floor"
    TERRAIN = "terrain"
    CUBE = "cube"
    TOWER = "tower"
    CLUTTER = "clutter"


class Precision(enum.StrEnum):
    """32 or 64 bits."""

    SINGLE = "single"
    DOUBLE = "double"


class Driving(enum.StrEnum):
    """What joints are told while a robot is simulated."""

    ZERO = "zero"
    HOLD = "hold"
    RANDOM = "random"


class Meshes(enum.StrEnum):
    """What becomes of meshes."""

    EMBED = "embed"
    COPY = "copy"
    BAKE = "bake"
    REFERENCE = "reference"


class MeshFormat(enum.StrEnum):
    """The kinds of mesh files that are made."""

    OBJ = "obj"
    DAE = "dae"
    GLB = "glb"


class BaseName(enum.StrEnum):
    """What holds a robot's base."""

    FIXED = "fixed"
    FREE = "free"
    UNSPECIFIED = "unspecified"


class Drives(enum.StrEnum):
    """What actuators that are made for joints follow."""

    POSITION = "position"
    VELOCITY = "velocity"
    EFFORT = "effort"


class Lighting(enum.StrEnum):
    """What lights a picture."""

    STUDIO = "studio"
    FILE = "file"


class Motion(enum.StrEnum):
    """What moves in a video."""

    SWEEP = "sweep"
    SIMULATE = "simulate"
    STILL = "still"
