"""Mass properties, as the API gives them: kg, cm and kg cm2, moments about the origin, products in tensor sign."""

from __future__ import annotations

from typing import Any

from .api import attribute, point

HIGH_ACCURACY = 2
"""adsk.fusion.CalculationAccuracy.HighCalculationAccuracy"""
_ACCURACIES = ["low", "medium", "high", "very high"]


def describe_physical(thing: Any, frame: str, notes: list[str]) -> dict[str, Any] | None:
    """Mass properties of an occurrence (in the root component's frame) or of a native body (in its component's)."""
    name = attribute(thing, "fullPathName", attribute(thing, "name", ""))
    try:
        properties = thing.getPhysicalProperties(HIGH_ACCURACY)
        moments = properties.getXYZMomentsOfInertia()
        principal = properties.getPrincipalMomentsOfInertia()
        mass = float(properties.mass)
        center = point(properties.centerOfMass)
    except (RuntimeError, AttributeError) as error:
        notes.append(f"{name}: the mass properties could not be computed ({error})")
        return None
    if not moments[0]:
        notes.append(f"{name}: the moments of inertia could not be computed")
        return None
    accuracy = attribute(properties, "accuracy")
    return {
        "mass": mass,
        "center": center,
        # success, xx, yy, zz, xy, yz, xz: in this order, yz before xz
        "inertia": [float(v) for v in moments[1:7]],
        "principal": [float(v) for v in principal[1:4]] if principal[0] else None,
        "frame": frame,
        "accuracy": _ACCURACIES[accuracy] if accuracy in range(4) else "",
    }
