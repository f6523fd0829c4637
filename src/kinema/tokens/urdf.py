"""URDF: the keys of URDF settings that a description preserves."""

from __future__ import annotations

from typing import Final

FORMAT: Final = "urdf"

CALIBRATION: Final = "urdf:calibration"
CONTINUOUS_JOINT_LIMIT: Final = "urdf:limit"
"""Position limits of a continuous joint, which have no effect."""
SAFETY_CONTROLLER: Final = "urdf:safety_controller"
MISSING_TEXTURE: Final = "urdf:texture"
"""Reference to a texture file that was not found."""
VERSION: Final = "urdf:version"

ALL_KEYS: Final = (VERSION, CONTINUOUS_JOINT_LIMIT, SAFETY_CONTROLLER, CALIBRATION, MISSING_TEXTURE)
"""All keys of this module."""
