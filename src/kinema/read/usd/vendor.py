"""Settings that the schema does not have but others author: one table row each, with its unit.

`newton:` and `physx` angular values are in degrees like the schema's own. `mjc:` values are MuJoCo's: in the stage's
units and radians, but for angles, which its compiler setting says. `urdf:` values are SI. What is not in the tables is
kept verbatim on its node.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Set
from typing import Any, NamedTuple

from kinema.description import Axis, AxisMotion, Extra, Joint, Link, Mesh, Node, Shape, SolverParameters
from kinema.words import mjc, newton, physics, physx, usd

from . import pxr
from .own_extras import keep_for_writing
from .stage_index import StageIndex
from .units import DEGREE, Units

PREFIXES = (
    newton.NAMESPACE,
    mjc.NAMESPACE,
    physx.NAMESPACE,
    "drake:",
    usd.URDF_NAMESPACE,
    physics.STATE_NAMESPACE,
    "isaac",
)
"""Namespaces whose attributes are kept where they have no meaning here."""


class Scale(NamedTuple):
    """What one unit of an attribute is in SI, on an axis of rotation and on one of translation."""

    rotation: Callable[[Units], float]
    translation: Callable[[Units], float]

    def on(self, index: StageIndex, axis: Axis) -> float:
        """The unit for an axis."""
        return (self.rotation if axis.motion is AxisMotion.ROTATION else self.translation)(index.units)


def _one(_: Units) -> float:
    return 1.0


COORDINATE = Scale(lambda _: DEGREE, lambda u: u.length)
_FORCE = Scale(lambda u: u.torque, lambda u: u.force)
_FORCE_PER_DEGREE = Scale(lambda u: u.torque / DEGREE, lambda u: u.force / u.length)
_FORCE_PER_RADIAN = Scale(lambda u: u.torque, lambda u: u.force / u.length)
_INERTIA = Scale(lambda u: u.inertia, lambda u: u.mass)
_SI = Scale(_one, _one)
_MJC_ANGLE = Scale(_one, lambda u: u.length)
"""An angle is scaled by `_mjc_angle` as well."""

AXIS_SETTINGS: dict[str, tuple[str, Scale]] = {
    newton.ARMATURE: ("armature", _INERTIA),
    newton.DAMPING: ("damping", _FORCE_PER_DEGREE),
    newton.FRICTION: ("friction", _FORCE),
    newton.VELOCITY_LIMIT: ("velocity", COORDINATE),
    newton.EFFORT_LIMIT: ("effort", _FORCE),
    physx.ARMATURE: ("armature", _INERTIA),
    physx.MAX_JOINT_VELOCITY: ("velocity", COORDINATE),
    mjc.ARMATURE: ("armature", _INERTIA),
    mjc.DAMPING: ("damping", _FORCE_PER_RADIAN),
    mjc.FRICTION_LOSS: ("friction", _FORCE),
    mjc.STIFFNESS: ("stiffness", _FORCE_PER_RADIAN),
    mjc.SPRING_REF: ("spring_reference", _MJC_ANGLE),
    mjc.REF: ("reference", _MJC_ANGLE),
    usd.URDF_EFFORT: ("effort", _SI),
    usd.URDF_DAMPING: ("damping", _SI),
    usd.URDF_FRICTION: ("friction", _SI),
}
"""Joint attribute -> field of `Axis`, and its unit. Later rows win over earlier ones."""

MATERIAL_SETTINGS: dict[str, tuple[str, Callable[[Units], float]]] = {
    mjc.TORSIONAL_FRICTION: ("torsional_friction", lambda u: u.length),
    mjc.ROLLING_FRICTION: ("rolling_friction", lambda u: u.length),
    newton.TORSIONAL_FRICTION: ("torsional_friction", lambda u: u.length),
    newton.ROLLING_FRICTION: ("rolling_friction", lambda u: u.length),
    newton.CONTACT_STIFFNESS: ("contact_stiffness", lambda u: u.force / u.length),
    newton.CONTACT_DAMPING: ("contact_damping", lambda u: u.force / u.length),
}
"""Material attribute -> field of `PhysicsMaterial`, and its unit; infinities mean unset."""

ARTICULATION_SETTINGS = (*(newton.JOINTS_ADD_MOBILITY, newton.SELF_COLLISION_ENABLED, physx.ENABLED_SELF_COLLISIONS),)
LINK_SETTINGS = (physx.DISABLE_GRAVITY, newton.INERTIA, *ARTICULATION_SETTINGS)
SHAPE_SETTINGS = (mjc.GROUP, mjc.MAX_HULL_VERTICES, newton.MAX_HULL_VERTICES)
CONTACT_SETTINGS = (*mjc.CONTACT_SOLVER, mjc.GAP, mjc.CONDIM, mjc.PRIORITY, mjc.SOLMIX)
"""What MuJoCo's schema says of contact on the collider, not on its material."""
_SOLVER_SETTINGS = (
    *(*mjc.LIMIT_SOLVER, *mjc.FRICTION_SOLVER),
    *(*mjc.ends(mjc.ACTUATOR_FORCE_RANGE), mjc.ACTUATOR_FORCE_LIMITED),
)


def has_vendor_data(index: StageIndex, prim: pxr.Prim) -> bool:
    """Whether a prim has anything that is not the schema's."""
    return any(name.startswith(PREFIXES) for name in index.values.facts(prim).authored)


# -- joints -----------------------------------------------------------------------------------------------------------


def apply_joint_settings(index: StageIndex, prim: pxr.Prim, joint: Joint, known: Set[str]) -> None:
    """Put what the table knows on the joint's axes, and keep what is not known elsewhere either."""
    if not has_vendor_data(index, prim):
        return
    authored = index.values.facts(prim).authored
    for name in (n for n in AXIS_SETTINGS if n in authored):
        field, scale = AXIS_SETTINGS[name]
        value = index.authored(prim, name)
        if value is None:
            continue
        for axis in joint.axes:
            angle = _mjc_angle(index) if scale is _MJC_ANGLE and axis.motion is AxisMotion.ROTATION else 1.0
            setattr(axis, field, float(value) * scale.on(index, axis) * angle)
    _solver_settings(index, prim, joint)
    _complain_of_friction(index, prim, joint)
    keep_vendor_data(index, prim, joint, {*AXIS_SETTINGS, *_SOLVER_SETTINGS, *known})
    _scale_limits(index, joint)


def _scale_limits(index: StageIndex, joint: Joint) -> None:
    """Springs and dampers of limits in N and m, per degree as they are: they are written so, and simulated."""
    turns = not joint.axes or joint.axes[0].motion is AxisMotion.ROTATION
    for key, kept in list(joint.attributes.items()):
        name = key.removeprefix(usd.KEPT)
        space, _, rest = name.partition(":")
        token, _, what = rest.partition(":")
        if name in (newton.LIMIT_STIFFNESS, newton.LIMIT_DAMPING):
            angular = turns
        elif space == physx.LIMIT_NAMESPACE and what in (physx.LIMIT_STIFFNESS, physx.LIMIT_DAMPING):
            angular = token in (physics.ANGULAR, physx.CONE, *physics.SIX[3:])
        else:
            continue
        unit = index.units.torque if angular else index.units.force / index.units.length
        if isinstance(kept[1], float):
            joint.attributes[key] = (kept[0], kept[1] * unit)


def _mjc_angle(index: StageIndex) -> float:
    """The unit of MuJoCo's angles, in radians."""
    for scene in index.scenes:
        unit = index.authored(scene, mjc.COMPILER_ANGLE)
        if unit is not None:
            return 1.0 if str(unit) == "radian" else DEGREE
    return DEGREE


def _solver_settings(index: StageIndex, prim: pxr.Prim, joint: Joint) -> None:
    """MuJoCo's soft limits and dry friction, and how much its actuators may do together."""
    limit = solver_parameters(index, prim, *mjc.LIMIT_SOLVER)
    friction = solver_parameters(index, prim, *mjc.FRICTION_SOLVER)
    forces = limited_range(index, prim, mjc.ACTUATOR_FORCE_RANGE, mjc.ACTUATOR_FORCE_LIMITED)
    for axis in joint.axes:
        axis.limit_solver, axis.friction_solver = limit, friction
        if math.isfinite(forces[1]):
            axis.effort = max(abs(f) for f in forces) * _FORCE.on(index, axis)


def solver_parameters(index: StageIndex, prim: pxr.Prim, *names: str) -> SolverParameters:
    """MuJoCo's soft-constraint parameters from the attributes for solref, solimp and, perhaps, margin."""
    values = [index.authored(prim, name) for name in names]
    reference, impedance = (None if v is None else tuple(float(x) for x in v) for v in values[:2])
    margin = float(values[2]) if len(values) > 2 and values[2] is not None else 0.0
    return SolverParameters(
        solref=reference if reference is not None and len(reference) == 2 else None,
        solimp=impedance if impedance is not None and len(impedance) == 5 else None,
        margin=margin,
    )


def limited_range(index: StageIndex, prim: pxr.Prim, name: str, flag: str) -> tuple[float, float]:
    """A range of MuJoCo's: unlimited where its flag says so, or where neither flag nor range is authored."""
    low, high = (index.authored(prim, end) for end in mjc.ends(name))
    limited = str(index.authored(prim, flag) or "auto")
    if limited == "false" or (limited == "auto" and low is None and high is None):
        return -math.inf, math.inf
    return float(low or 0.0), float(high or 0.0)


def _complain_of_friction(index: StageIndex, prim: pxr.Prim, joint: Joint) -> None:
    if index.authored(prim, physx.JOINT_FRICTION):
        index.diagnostics.warning(
            "usd.joint-friction",
            f"physxJoint:jointFriction of joint {joint.name!r} has no effect: it is a share of the joint's load, while"
            " the description knows friction as a force",
            hint="author newton:friction",
            origin=joint.origin,
        )


# -- links, shapes, materials -----------------------------------------------------------------------------------------


def apply_link_settings(index: StageIndex, prim: pxr.Prim, link: Link) -> None:
    """What vendors say of a body."""
    if not has_vendor_data(index, prim):
        return
    if index.authored(prim, physx.DISABLE_GRAVITY):
        link.gravity_scale = 0.0
    keep_vendor_data(index, prim, link, LINK_SETTINGS)


def apply_shape_settings(index: StageIndex, prim: pxr.Prim, shape: Shape) -> None:
    """What vendors say of a shape."""
    if not has_vendor_data(index, prim):
        return
    shape.group = int(index.authored(prim, mjc.GROUP) or 0)
    most = [index.authored(prim, name) for name in (newton.MAX_HULL_VERTICES, mjc.MAX_HULL_VERTICES)]
    most = [int(n) for n in most if n is not None and n > 0]
    if most and isinstance(shape.geometry, Mesh):
        shape.geometry = dataclasses.replace(shape.geometry, max_hull_vertices=most[-1])
    keep_vendor_data(index, prim, shape, {*SHAPE_SETTINGS, *CONTACT_SETTINGS})


def material_settings(index: StageIndex, prim: pxr.Prim) -> dict[str, Any]:
    """Fields of a physics material that vendors' attributes say, in SI."""
    result: dict[str, Any] = {}
    for name, (field, unit) in MATERIAL_SETTINGS.items():
        value = index.authored(prim, name)
        if value is not None and math.isfinite(value):
            result[field] = float(value) * unit(index.units)
    return result


def contact_settings(index: StageIndex, prim: pxr.Prim) -> dict[str, Any]:
    """Fields of a physics material that MuJoCo's schema puts on the collider."""
    length = index.units.length
    result: dict[str, Any] = {}
    solver = solver_parameters(index, prim, *mjc.CONTACT_SOLVER)
    if solver != SolverParameters():
        result["solver"] = dataclasses.replace(solver, margin=solver.margin * length)
    for name, field, convert in (
        (mjc.CONDIM, "contact_dimension", int),
        (mjc.PRIORITY, "priority", int),
        (mjc.SOLMIX, "solmix", float),
        (mjc.GAP, "gap", lambda v: float(v) * length),
    ):
        value = index.authored(prim, name)
        if value is not None:
            result[field] = convert(value)
    return result


# -- the rest ---------------------------------------------------------------------------------------------------------


def keep_vendor_data(index: StageIndex, prim: pxr.Prim, node: Node, known: Set[str] | tuple[str, ...]) -> None:
    """Authored vendor attributes that no table knows, as they are, on the node they belong to."""
    for name in sorted(index.values.facts(prim).authored):
        if not name.startswith(PREFIXES) or name in known:
            continue
        attribute = prim.GetAttribute(name)
        if attribute:
            value = attribute.Get(index.time)
            node.extras.append(Extra(usd.FORMAT, name, str(value), index.origin(prim)))
            keep_for_writing(prim, node, attribute, value)
