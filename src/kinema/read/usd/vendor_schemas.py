"""Attributes of vendor schemas (Newton, MuJoCo, PhysX, Drake, Isaac) with their units; unknown ones are preserved.

Angular values of `newton:` and `physx` are in degrees as in UsdPhysics. `mjc:` values are in the stage's units and
radians, except angles, whose unit is set by MuJoCo's compiler option. `urdf:` values are SI.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Set
from typing import Any, NamedTuple

from kinema.description import Axis, AxisMotion, Extra, Joint, Link, Mesh, Node, Shape, SolverParameters
from kinema.tokens import mjc, newton, physx, usd, usd_physics

from . import pxr
from .prim_values import IMPLIED_SCHEMAS
from .stage_index import StageIndex
from .transforms import DEGREE, Units

# -- preserved vendor attributes ---------------------------------------------------------------------------------------

_VENDOR_SCHEMA_PREFIXES = (newton.SCHEMA_PREFIX, mjc.SCHEMA_PREFIX, physx.SCHEMA_PREFIX, "Drake", "Isaac", "Omni")


def preserve_vendor_attribute(prim: pxr.Prim, node: Node, attribute: Any, value: Any) -> None:
    """Store type and value of a vendor attribute and the vendor schemas of its prim on a node."""
    if value is None:
        return
    node.attributes[usd.PRESERVED_PREFIX + attribute.GetName()] = (str(attribute.GetTypeName()), _to_plain_value(value))
    if usd.PRESERVED_SCHEMAS not in node.attributes:
        names = prim.GetPrimTypeInfo().GetAppliedAPISchemas()
        # without vendor schemas that imply UsdPhysics schemas; the writer applies them as needed
        node.attributes[usd.PRESERVED_SCHEMAS] = [
            n for n in names if n.startswith(_VENDOR_SCHEMA_PREFIXES) and n not in IMPLIED_SCHEMAS
        ]


def _to_plain_value(value: Any) -> Any:
    """Value without OpenUSD types: numbers, texts and lists of them."""
    if isinstance(value, bool | int | float | str):
        return value
    if hasattr(value, "GetReal"):
        return [value.GetReal(), *value.GetImaginary()]
    if isinstance(value, pxr.Sdf.AssetPath):
        return value.path
    try:
        return [_to_plain_value(v) for v in value]
    except TypeError:
        return str(value)


# -- attribute tables --------------------------------------------------------------------------------------------------

VENDOR_NAMESPACES = (
    newton.NAMESPACE,
    mjc.NAMESPACE,
    physx.NAMESPACE_PREFIX,
    "drake:",
    usd.URDF_NAMESPACE,
    usd_physics.STATE_NAMESPACE,
    "isaac",
)
"""Namespaces of attributes that are preserved if not interpreted."""


class UnitScale(NamedTuple):
    """SI value of one unit of an attribute, for rotational and translational axes."""

    rotation: Callable[[Units], float]
    translation: Callable[[Units], float]

    def factor(self, index: StageIndex, axis: Axis) -> float:
        """SI value of one unit for an axis."""
        return (self.rotation if axis.motion is AxisMotion.ROTATION else self.translation)(index.units)


def _one(_: Units) -> float:
    return 1.0


COORDINATE_SCALE = UnitScale(lambda _: DEGREE, lambda u: u.length)
_FORCE_SCALE = UnitScale(lambda u: u.torque, lambda u: u.force)
_FORCE_PER_DEGREE_SCALE = UnitScale(lambda u: u.torque / DEGREE, lambda u: u.force / u.length)
_FORCE_PER_RADIAN_SCALE = UnitScale(lambda u: u.torque, lambda u: u.force / u.length)
_INERTIA_SCALE = UnitScale(lambda u: u.inertia, lambda u: u.mass)
_SI_SCALE = UnitScale(_one, _one)
_MJC_ANGLE_SCALE = UnitScale(_one, lambda u: u.length)
"""Angles are additionally scaled by `_mjc_angle_unit`."""

AXIS_ATTRIBUTES: dict[str, tuple[str, UnitScale]] = {
    newton.ARMATURE: ("armature", _INERTIA_SCALE),
    newton.DAMPING: ("damping", _FORCE_PER_DEGREE_SCALE),
    newton.FRICTION: ("friction", _FORCE_SCALE),
    newton.VELOCITY_LIMIT: ("velocity", COORDINATE_SCALE),
    newton.EFFORT_LIMIT: ("effort", _FORCE_SCALE),
    physx.ARMATURE: ("armature", _INERTIA_SCALE),
    physx.MAX_JOINT_VELOCITY: ("velocity", COORDINATE_SCALE),
    mjc.ARMATURE: ("armature", _INERTIA_SCALE),
    mjc.DAMPING: ("damping", _FORCE_PER_RADIAN_SCALE),
    mjc.FRICTION_LOSS: ("friction", _FORCE_SCALE),
    mjc.STIFFNESS: ("stiffness", _FORCE_PER_RADIAN_SCALE),
    mjc.SPRING_REF: ("spring_reference", _MJC_ANGLE_SCALE),
    mjc.REF: ("reference", _MJC_ANGLE_SCALE),
    usd.URDF_EFFORT: ("effort", _SI_SCALE),
    usd.URDF_DAMPING: ("damping", _SI_SCALE),
    usd.URDF_FRICTION: ("friction", _SI_SCALE),
}
"""Joint attribute -> field of `Axis` and unit; later rows take precedence."""

MATERIAL_ATTRIBUTES: dict[str, tuple[str, Callable[[Units], float]]] = {
    mjc.TORSIONAL_FRICTION: ("torsional_friction", lambda u: u.length),
    mjc.ROLLING_FRICTION: ("rolling_friction", lambda u: u.length),
    newton.TORSIONAL_FRICTION: ("torsional_friction", lambda u: u.length),
    newton.ROLLING_FRICTION: ("rolling_friction", lambda u: u.length),
    newton.CONTACT_STIFFNESS: ("contact_stiffness", lambda u: u.force / u.length),
    newton.CONTACT_DAMPING: ("contact_damping", lambda u: u.force / u.length),
}
"""Material attribute -> field of `PhysicsMaterial` and unit; infinities mean unset."""

ARTICULATION_ATTRIBUTES = (*(newton.JOINTS_ADD_MOBILITY, newton.SELF_COLLISION_ENABLED, physx.ENABLED_SELF_COLLISIONS),)
LINK_ATTRIBUTES = (physx.DISABLE_GRAVITY, *physx.CONTINUOUS_COLLISION, newton.INERTIA, *ARTICULATION_ATTRIBUTES)
SHAPE_ATTRIBUTES = (mjc.GROUP, mjc.MAX_HULL_VERTICES, newton.MAX_HULL_VERTICES)
CONTACT_ATTRIBUTES = (*mjc.CONTACT_SOLVER, mjc.GAP, mjc.CONDIM, mjc.PRIORITY, mjc.SOLMIX)
"""Contact attributes that MuJoCo's schema has on the collider instead of the material."""
_SOLVER_ATTRIBUTES = (
    *(*mjc.LIMIT_SOLVER, *mjc.FRICTION_SOLVER),
    *(*mjc.range_attributes(mjc.ACTUATOR_FORCE_RANGE), mjc.ACTUATOR_FORCE_LIMITED),
)


def has_vendor_attributes(index: StageIndex, prim: pxr.Prim) -> bool:
    """Whether a prim authors attributes in a vendor namespace."""
    return any(name.startswith(VENDOR_NAMESPACES) for name in index.values.facts(prim).authored)


# -- joints ------------------------------------------------------------------------------------------------------------


def apply_joint_attributes(index: StageIndex, prim: pxr.Prim, joint: Joint, known_attributes: Set[str]) -> None:
    """Set axis fields from vendor attributes in SI units, and preserve unknown vendor attributes."""
    if not has_vendor_attributes(index, prim):
        return
    authored = index.values.facts(prim).authored
    for name in (n for n in AXIS_ATTRIBUTES if n in authored):
        field, scale = AXIS_ATTRIBUTES[name]
        value = index.authored(prim, name)
        if value is None:
            continue
        for axis in joint.axes:
            angle = _mjc_angle_unit(index) if scale is _MJC_ANGLE_SCALE and axis.motion is AxisMotion.ROTATION else 1.0
            setattr(axis, field, float(value) * scale.factor(index, axis) * angle)
    _apply_solver_attributes(index, prim, joint)
    _warn_about_friction(index, prim, joint)
    preserve_vendor_attributes(index, prim, joint, {*AXIS_ATTRIBUTES, *_SOLVER_ATTRIBUTES, *known_attributes})
    _scale_limits(index, joint)


def _scale_limits(index: StageIndex, joint: Joint) -> None:
    """Scale preserved stiffness and damping of limits to N and m; angular ones stay per degree."""
    is_rotation = not joint.axes or joint.axes[0].motion is AxisMotion.ROTATION
    for key, stored in list(joint.attributes.items()):
        name = key.removeprefix(usd.PRESERVED_PREFIX)
        space, _, rest = name.partition(":")
        token, _, field = rest.partition(":")
        if name in (newton.LIMIT_STIFFNESS, newton.LIMIT_DAMPING):
            angular = is_rotation
        elif space == physx.LIMIT_NAMESPACE and field in (physx.LIMIT_STIFFNESS, physx.LIMIT_DAMPING):
            angular = token in (usd_physics.ANGULAR, physx.CONE_LIMIT, *usd_physics.DOF_TOKENS[3:])
        else:
            continue
        unit = index.units.torque if angular else index.units.force / index.units.length
        if isinstance(stored[1], float):
            joint.attributes[key] = (stored[0], stored[1] * unit)


def _mjc_angle_unit(index: StageIndex) -> float:
    """Unit of MuJoCo's angles [rad], from the compiler option."""
    for scene in index.scenes:
        unit = index.authored(scene, mjc.COMPILER_ANGLE)
        if unit is not None:
            return 1.0 if str(unit) == "radian" else DEGREE
    return DEGREE


def _apply_solver_attributes(index: StageIndex, prim: pxr.Prim, joint: Joint) -> None:
    """Set limit and friction solver parameters and the actuator force limit of the axes."""
    limit = solver_parameters(index, prim, *mjc.LIMIT_SOLVER)
    friction = solver_parameters(index, prim, *mjc.FRICTION_SOLVER)
    forces = limited_range(index, prim, mjc.ACTUATOR_FORCE_RANGE, mjc.ACTUATOR_FORCE_LIMITED)
    for axis in joint.axes:
        axis.limit_solver, axis.friction_solver = limit, friction
        if math.isfinite(forces[1]):
            axis.effort = max(abs(f) for f in forces) * _FORCE_SCALE.factor(index, axis)


def solver_parameters(index: StageIndex, prim: pxr.Prim, *names: str) -> SolverParameters:
    """Soft-constraint parameters from the attributes for solref, solimp and optionally margin."""
    values = [index.authored(prim, name) for name in names]
    reference, impedance = (None if v is None else tuple(float(x) for x in v) for v in values[:2])
    margin = float(values[2]) if len(values) > 2 and values[2] is not None else 0.0
    return SolverParameters(
        solref=reference if reference is not None and len(reference) == 2 else None,
        solimp=impedance if impedance is not None and len(impedance) == 5 else None,
        margin=margin,
    )


def limited_range(index: StageIndex, prim: pxr.Prim, name: str, flag: str) -> tuple[float, float]:
    """A MuJoCo range; infinite if disabled by its flag or if neither flag nor range is authored."""
    low, high = (index.authored(prim, end) for end in mjc.range_attributes(name))
    limited = str(index.authored(prim, flag) or "auto")
    if limited == "false" or (limited == "auto" and low is None and high is None):
        return -math.inf, math.inf
    return float(low or 0.0), float(high or 0.0)


def _warn_about_friction(index: StageIndex, prim: pxr.Prim, joint: Joint) -> None:
    if index.authored(prim, physx.JOINT_FRICTION):
        index.diagnostics.warning(
            "usd.joint-friction",
            f"physxJoint:jointFriction of joint {joint.name!r} has no effect: it is a share of the joint's load, while"
            " the description knows friction as a force",
            hint="author newton:friction",
            origin=joint.origin,
        )


# -- links, shapes, materials ------------------------------------------------------------------------------------------


def apply_link_attributes(index: StageIndex, prim: pxr.Prim, link: Link) -> None:
    """Apply and preserve vendor attributes of a body."""
    if not has_vendor_attributes(index, prim):
        return
    if index.authored(prim, physx.DISABLE_GRAVITY):
        link.gravity_scale = 0.0
    link.continuous_collision = any(index.authored(prim, name) for name in physx.CONTINUOUS_COLLISION)
    preserve_vendor_attributes(index, prim, link, LINK_ATTRIBUTES)


def apply_shape_attributes(index: StageIndex, prim: pxr.Prim, shape: Shape) -> None:
    """Apply and preserve vendor attributes of a shape."""
    if not has_vendor_attributes(index, prim):
        return
    shape.group = int(index.authored(prim, mjc.GROUP) or 0)
    max_vertices = [index.authored(prim, name) for name in (newton.MAX_HULL_VERTICES, mjc.MAX_HULL_VERTICES)]
    max_vertices = [int(n) for n in max_vertices if n is not None and n > 0]
    if max_vertices and isinstance(shape.geometry, Mesh):
        shape.geometry = dataclasses.replace(shape.geometry, max_hull_vertices=max_vertices[-1])
    preserve_vendor_attributes(index, prim, shape, {*SHAPE_ATTRIBUTES, *CONTACT_ATTRIBUTES})


def material_fields(index: StageIndex, prim: pxr.Prim) -> dict[str, Any]:
    """Fields of a physics material from vendor attributes, in SI units."""
    result: dict[str, Any] = {}
    for name, (field, unit) in MATERIAL_ATTRIBUTES.items():
        value = index.authored(prim, name)
        if value is not None and math.isfinite(value):
            result[field] = float(value) * unit(index.units)
    return result


def contact_fields(index: StageIndex, prim: pxr.Prim) -> dict[str, Any]:
    """Fields of a physics material from MuJoCo's attributes on the collider, in SI units."""
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


# -- unread attributes -------------------------------------------------------------------------------------------------


def preserve_vendor_attributes(
    index: StageIndex, prim: pxr.Prim, node: Node, known_attributes: Set[str] | tuple[str, ...]
) -> None:
    """Preserve authored vendor attributes that are not in `known_attributes` on a node."""
    for name in sorted(index.values.facts(prim).authored):
        if not name.startswith(VENDOR_NAMESPACES) or name in known_attributes:
            continue
        attribute = prim.GetAttribute(name)
        if attribute:
            value = attribute.Get(index.time)
            node.extras.append(Extra(usd.FORMAT, name, str(value), index.origin(prim)))
            preserve_vendor_attribute(prim, node, attribute, value)
