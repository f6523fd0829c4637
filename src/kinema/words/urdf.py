"""URDF: the keys under which a description keeps what it says and nobody else needs."""

from __future__ import annotations

from typing import Final

FORMAT: Final = "urdf"

CALIBRATION: Final = "urdf:calibration"
LIMIT: Final = "urdf:limit"
"""The numbers of a continuous joint's limits, which mean nothing."""
SAFETY_CONTROLLER: Final = "urdf:safety_controller"
TEXTURE: Final = "urdf:texture"
"""The reference to a texture that was not found."""
VERSION: Final = "urdf:version"

KEYS: Final = (VERSION, LIMIT, SAFETY_CONTROLLER, CALIBRATION, TEXTURE)
"""All of them."""
