"""The choices that options offer."""

from __future__ import annotations

import enum


class Layout(str, enum.Enum):
    """How links are arranged in a USD stage."""

    NESTED = "nested"
    FLAT = "flat"


class Meshes(str, enum.Enum):
    """What becomes of meshes."""

    EMBED = "embed"
    COPY = "copy"
    BAKE = "bake"
    REFERENCE = "reference"
