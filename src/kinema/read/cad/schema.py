"""What a CAD snapshot is made of: its marker, versions, units, joint types and their motions.

`docs/cad-snapshot.md` is the full description of the format.
"""

from __future__ import annotations

from kinema.description import AxisMotion

FORMAT = "cad"
MARKER_KEY = "kinema"
MARKER = "cad-snapshot"
VERSION = 1

LENGTH_UNITS = {"m": 1.0, "cm": 0.01, "mm": 0.001, "in": 0.0254, "ft": 0.3048}
"""Metres in one unit of length."""
UNITS = {"cm,kg,rad": "cm", "m,kg,rad": "m"}
"""What `units` may say, and the unit of length it means."""

KINDS = ("joint", "as_built")

_R, _T = AxisMotion.ROTATION, AxisMotion.TRANSLATION
MOTIONS: dict[str, dict[str, AxisMotion]] = {
    "rigid": {},
    "revolute": {"rotation": _R},
    "slider": {"slide": _T},
    "cylindrical": {"rotation": _R, "slide": _T},
    "pin_slot": {"slide": _T, "rotation": _R},
    "planar": {"primary_slide": _T, "secondary_slide": _T, "rotation": _R},
    "ball": {"pitch": _R, "yaw": _R, "roll": _R},
    "inferred": {},
}
"""The motions of each joint type, in the order in which they are applied."""

ROOT = ""
"""The path of the root component, which is no occurrence."""
