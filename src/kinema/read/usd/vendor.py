"""Settings that the schema does not have but others author: one table row each, with its unit.

`newton:` and `physx` angular values are in degrees like the schema's own; `mjc:` values are MuJoCo's, in radians or
degrees as its compiler setting says. What is not in the tables is kept verbatim on its node.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kinema.description import Axis, AxisMotion, Extra, Joint, Mimic, Node

from . import pxr
from .stage_index import StageIndex
from .units import DEGREE

PREFIXES = ("newton:", "mjc:", "physx", "drake:", "urdf:", "state:", "isaac")
"""Namespaces whose attributes are kept where they have no meaning here."""


@dataclass(frozen=True, slots=True)
class _Scale:
    """What one unit of an attribute is in SI, on an axis of rotation and on one of translation."""

    rotation: Callable[[StageIndex], float]
    translation: Callable[[StageIndex], float]


def _one(_: StageIndex) -> float:
    return 1.0


def _mjc_angle(index: StageIndex) -> float:
    for scene in index.scenes:
        unit = index.authored(scene, "mjc:compiler:angle")
        if unit is not None:
            return 1.0 if str(unit) == "radian" else DEGREE
    return DEGREE


_COORDINATE = _Scale(lambda _: DEGREE, lambda i: i.units.length)
_FORCE = _Scale(lambda i: i.units.torque, lambda i: i.units.force)
_FORCE_PER_SPEED = _Scale(lambda i: i.units.torque / DEGREE, lambda i: i.units.force / i.units.length)
_INERTIA = _Scale(lambda i: i.units.inertia, lambda i: i.units.mass)
_SI = _Scale(_one, _one)
_MJC_ANGLE = _Scale(_mjc_angle, _one)

AXIS_SETTINGS: dict[str, tuple[str, _Scale]] = {
    "newton:armature": ("armature", _INERTIA),
    "newton:damping": ("damping", _FORCE_PER_SPEED),
    "newton:friction": ("friction", _FORCE),
    "newton:velocityLimit": ("velocity", _COORDINATE),
    "newton:effortLimit": ("effort", _FORCE),
    "physxJoint:armature": ("armature", _INERTIA),
    "physxJoint:jointFriction": ("friction", _FORCE),
    "physxJoint:maxJointVelocity": ("velocity", _COORDINATE),
    "mjc:armature": ("armature", _SI),
    "mjc:damping": ("damping", _SI),
    "mjc:frictionloss": ("friction", _SI),
    "mjc:stiffness": ("stiffness", _SI),
    "mjc:springref": ("spring_reference", _MJC_ANGLE),
    "mjc:ref": ("reference", _MJC_ANGLE),
    "urdf:limit:effort": ("effort", _SI),
    "urdf:dynamics:damping": ("damping", _SI),
    "urdf:dynamics:friction": ("friction", _SI),
}
"""Joint attribute -> field of `Axis`, and its unit. Later rows win over earlier ones."""
_MIMIC = ("newton:mimicCoef0", "newton:mimicCoef1", "newton:mimicEnabled")


def apply_joint_settings(index: StageIndex, prim: pxr.Prim, joint: Joint) -> None:
    """Put what the table knows on the joint's axes, and keep the rest."""
    authored = index.values.facts(prim).authored
    for name in (n for n in AXIS_SETTINGS if n in authored):
        field, scale = AXIS_SETTINGS[name]
        value = index.authored(prim, name)
        if value is None:
            continue
        for axis in joint.axes:
            setattr(axis, field, float(value) * _factor(index, axis, scale))
    keep_vendor_data(index, prim, joint, known={*AXIS_SETTINGS, *_MIMIC})


def _factor(index: StageIndex, axis: Axis, scale: _Scale) -> float:
    return (scale.rotation if axis.motion is AxisMotion.ROTATION else scale.translation)(index)


def apply_mimic(index: StageIndex, prim: pxr.Prim, joint: Joint, name_of: dict[str, str]) -> None:
    """Newton's and PhysX's mimic schemas: who is followed, and how."""
    targets = [str(t) for t in index.targets(prim, "newton:mimicJoint")]
    if targets and joint.axes and index.value(prim, "newton:mimicEnabled") is not False:
        offset, multiplier = (index.authored(prim, f"newton:mimicCoef{i}") for i in (0, 1))
        axis = joint.axes[0]
        axis.mimic = Mimic(
            joint=name_of.get(targets[0], targets[0]),
            multiplier=1.0 if multiplier is None else float(multiplier),
            offset=0.0 if offset is None else float(offset) * _factor(index, axis, _COORDINATE),
        )
    _physx_mimic(index, prim, joint, name_of)


def _physx_mimic(index: StageIndex, prim: pxr.Prim, joint: Joint, name_of: dict[str, str]) -> None:
    """PhysX says q + gearing * leader + offset = 0."""
    for name in sorted(index.values.facts(prim).authored):
        parts = name.split(":")
        if parts[0] != "physxMimicJoint" or parts[-1] != "referenceJoint":
            continue
        targets = index.targets(prim, name)
        if not targets:
            continue
        prefix = ":".join(parts[:-1])
        gearing, offset = (index.authored(prim, f"{prefix}:{n}") for n in ("gearing", "offset"))
        if joint.axes:
            axis = joint.axes[0]
            leader = str(targets[0])
            axis.mimic = Mimic(
                joint=name_of.get(leader, leader),
                multiplier=-float(1.0 if gearing is None else gearing),
                offset=-float(offset or 0.0) * _factor(index, axis, _COORDINATE),
            )


def keep_vendor_data(index: StageIndex, prim: pxr.Prim, node: Node, known: set[str]) -> None:
    """Authored vendor attributes that no table knows, as they are, on the node they belong to."""
    for name in sorted(index.values.facts(prim).authored):
        if not name.startswith(PREFIXES) or name in known:
            continue
        attribute = prim.GetAttribute(name)
        if attribute:
            node.extras.append(Extra("usd", name, _text(attribute.Get(index.time)), index.origin(prim)))


def _text(value: Any) -> str:
    return str(value)
