"""Prims of MuJoCo's USD schema: sites, tendons and actuators, in the stage's units and radians."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kinema.core import Origin
from kinema.description import Actuator, Extra, Frame, Joint, Tendon, TendonPathItem, TendonPathKind, Transmission
from kinema.tokens import kinema_usd, mjc, usd

from . import pxr
from .geometry import PrimGeometryError, read_geometry
from .kinema_attributes import (
    preserved_table,
    read_kinema_attributes,
    restored_names,
    restored_order,
    valid_settings,
)
from .prim_values import to_floats
from .shapes import SITE_SCHEMAS, transform_into_link
from .stage_index import StageIndex, unique_names
from .transforms import rigid_part
from .vendor_schemas import limited_range, preserve_vendor_attributes, solver_parameters


@dataclass(slots=True, eq=False)
class MujocoElements:
    """Elements read from prims of MuJoCo's schema."""

    frames: list[Frame] = field(default_factory=list)
    tendons: list[Tendon] = field(default_factory=list)
    actuators: list[Actuator] = field(default_factory=list)
    extras: list[Extra] = field(default_factory=list)
    """Prims of other types, preserved as text."""


@dataclass(frozen=True, slots=True, eq=False)
class TargetNames:
    """Prim path -> name of all possible targets of actuators and tendons."""

    joints: Mapping[str, str]
    shapes: Mapping[str, str]
    frames: Mapping[str, str]
    tendons: Mapping[str, str]


def read_mujoco_prims(index: StageIndex, joints: list[Joint], shapes: Mapping[str, str]) -> MujocoElements:
    """Read sites, tendons and actuators.

    Args:
        index: the stage.
        joints: joints of the stage.
        shapes: prim path -> name, of all shapes.
    """
    sites = [prim for prim in index.gprims if index.schemas(prim) & SITE_SCHEMAS]
    sites = restored_order(index, sites, sites)
    kinds = {kind: [p for p in index.vendor_prims if index.values.facts(p).kind.type == kind] for kind in _READ_TYPES}
    names = TargetNames(
        joints={joint.origin.path: joint.name for joint in joints},
        shapes=shapes,
        frames=_prim_names(index, sites),
        tendons=_prim_names(index, kinds[mjc.TENDON]),
    )
    actuators = _prim_names(index, kinds[mjc.ACTUATOR])
    elements = MujocoElements()
    elements.frames = [_read_site(index, prim, names.frames[_prim_path(index, prim)]) for prim in sites]
    elements.tendons = [_read_tendon(index, prim, names) for prim in kinds[mjc.TENDON]]
    for prim in kinds[mjc.ACTUATOR]:
        actuator = _read_actuator(index, prim, actuators[_prim_path(index, prim)], names)
        if actuator is not None:
            elements.actuators.append(actuator)
    for nodes in (elements.tendons, elements.actuators):
        nodes.sort(key=lambda node: -1 if node.order is None else node.order)
    elements.extras = [
        _prim_to_extra(index, p) for p in index.vendor_prims if index.values.facts(p).kind.type not in _READ_TYPES
    ]
    if (elements.tendons or elements.actuators) and (index.units.length != 1 or index.units.mass != 1):
        message = "MuJoCo's tendons and actuators are read as if the stage were in metres and kilograms"
        index.diagnostics.warning("usd.mjc-units", message, origin=Origin(index.file))
    return elements


_READ_TYPES = (mjc.TENDON, mjc.ACTUATOR)


def _prim_names(index: StageIndex, prims: Sequence[pxr.Prim]) -> dict[str, str]:
    paths = [_prim_path(index, p) for p in prims]
    return restored_names(index, dict(zip(paths, prims, strict=True)), unique_names(paths))


def _prim_path(index: StageIndex, prim: pxr.Prim) -> str:
    return index.values.facts(prim).path


# -- sites ------------------------------------------------------------------------------------------------------------


def _read_site(index: StageIndex, prim: pxr.Prim, name: str) -> Frame:
    """Convert a site to a frame with marker geometry and colour."""
    body = index.owner_body(prim)
    into = transform_into_link(index.world_transform(prim), body)
    frame = Frame(
        name=name,
        origin=index.origin(prim),
        link=None if body is None else body.name,
        pose=rigid_part(into),
    )
    try:
        placed = read_geometry(index, prim, into)
    except PrimGeometryError:
        placed = None
    if (
        placed is not None
        and placed.pose.is_close(frame.pose, 1e-9)
        and not index.custom_value(prim, kinema_usd.NO_SITE_MARKER)
    ):
        frame.marker = placed.geometry
    colors, opacities = (index.value(prim, name) for name in (usd.DISPLAY_COLOR, usd.DISPLAY_OPACITY))
    if colors:
        r, g, b = to_floats(colors[0])
        frame.color = (r, g, b, float(opacities[0]) if opacities else 1.0)
    preserve_vendor_attributes(index, prim, frame, ())
    read_kinema_attributes(index, prim, frame)
    return frame


# -- tendons ----------------------------------------------------------------------------------------------------------


def _read_tendon(index: StageIndex, prim: pxr.Prim, names: TargetNames) -> Tendon:
    """Convert a tendon prim."""

    def number(name: str) -> float:
        return float(index.authored(prim, name) or 0.0)

    lower, upper = limited_range(index, prim, mjc.RANGE, mjc.LIMITED)
    tendon = Tendon(
        name=names.tendons[_prim_path(index, prim)],
        origin=index.origin(prim),
        path=_tendon_path(index, prim, names),
        lower=lower,
        upper=upper,
        stiffness=number(mjc.STIFFNESS),
        damping=number(mjc.DAMPING),
        friction=number(mjc.FRICTION_LOSS),
        armature=number(mjc.ARMATURE),
        spring_length=_spring_length(index, prim),
        force_range=limited_range(index, prim, mjc.ACTUATOR_FORCE_RANGE, mjc.ACTUATOR_FORCE_LIMITED),
        limit_solver=solver_parameters(index, prim, *mjc.LIMIT_SOLVER),
        friction_solver=solver_parameters(index, prim, *mjc.FRICTION_SOLVER),
    )
    width, color = index.authored(prim, mjc.WIDTH), index.authored(prim, mjc.COLOR)
    if width is not None:
        tendon.width = float(width)
    if color is not None:
        r, g, b, a = to_floats(color)
        tendon.color = (r, g, b, a)
    read_kinema_attributes(index, prim, tendon)
    return tendon


def _spring_length(index: StageIndex, prim: pxr.Prim) -> tuple[float, float] | None:
    """Spring length range; None for -1, the length at the reference configuration."""
    values = [float(v) for v in index.authored(prim, mjc.SPRING_LENGTH) or (-1.0,)]
    return None if values[0] == -1.0 else (values[0], values[-1])


def _tendon_path(index: StageIndex, prim: pxr.Prim, names: TargetNames) -> list[TendonPathItem]:
    """Items of a tendon path in order: joints with coefficients, or sites and wrapping shapes with pulleys."""
    targets = [str(t) for t in index.targets(prim, mjc.PATH)]
    order, segments, sides = (
        [int(i) for i in index.authored(prim, name) or ()]
        for name in (mjc.PATH_INDICES, mjc.PATH_SEGMENTS, mjc.SIDE_SITE_INDICES)
    )
    coefficients, divisors = (
        [float(v) for v in index.authored(prim, name) or ()] for name in (mjc.PATH_COEFFICIENTS, mjc.PATH_DIVISORS)
    )
    side_sites = [str(t) for t in index.targets(prim, mjc.SIDE_SITES)]
    items: list[TendonPathItem] = []
    segment = 0
    for step, target_index in enumerate(order or range(len(targets))):
        if step < len(segments) and segments[step] != segment:
            segment = segments[step]
            divisor = divisors[segment] if 0 <= segment < len(divisors) else 1.0
            items.append(TendonPathItem(kind=TendonPathKind.PULLEY, coefficient=divisor))
        target = targets[target_index] if 0 <= target_index < len(targets) else ""
        side = sides[target_index] if 0 <= target_index < len(sides) else -1
        kind, name = _path_target(target, names)
        if kind is None:
            index.diagnostics.error(
                "usd.tendon-target",
                f"tendon {prim.GetName()!r} goes by {target or 'nothing'}, which is no joint, site or shape",
                origin=index.origin(prim),
            )
            continue
        items.append(
            TendonPathItem(
                kind=kind,
                target=name,
                coefficient=coefficients[step] if step < len(coefficients) else 1.0,
                side=names.frames.get(side_sites[side], "") if 0 <= side < len(side_sites) else "",
            )
        )
    return items


def _path_target(target: str, names: TargetNames) -> tuple[TendonPathKind | None, str]:
    for kind, known in (
        (TendonPathKind.JOINT, names.joints),
        (TendonPathKind.SITE, names.frames),
        (TendonPathKind.WRAP, names.shapes),
    ):
        if target in known:
            return kind, known[target]
    return None, ""


# -- actuators --------------------------------------------------------------------------------------------------------


def _read_actuator(index: StageIndex, prim: pxr.Prim, name: str, names: TargetNames) -> Actuator | None:
    """Convert an actuator prim; None with an error if its target is invalid."""

    def numbers(attribute: str, default: tuple[float, ...]) -> tuple[float, ...]:
        values = index.authored(prim, attribute)
        return default if values is None else tuple(float(v) for v in values)

    def token(attribute: str, default: str) -> str:
        return str(index.authored(prim, attribute) or default)

    found = _transmission(index, prim, names)
    if found is None:
        index.diagnostics.error(
            "usd.actuator-target",
            f"actuator {name!r} is left out: its target is no joint, tendon, site or body",
            origin=index.origin(prim),
        )
        return None
    transmission, target, reference = found
    zeros = (0.0,) * 10
    actuator = Actuator(
        name=name,
        origin=index.origin(prim),
        transmission=transmission,
        target=target,
        reference=reference,
        gear=numbers(mjc.GEAR, (1.0, *zeros[:5])),
        crank_length=float(index.authored(prim, mjc.CRANK_LENGTH) or 0.0),
        gain_type=token(mjc.GAIN_TYPE, "fixed"),
        gain=numbers(mjc.GAIN_PARAMETERS, (1.0, *zeros[:9])),
        bias_type=token(mjc.BIAS_TYPE, "none"),
        bias=numbers(mjc.BIAS_PARAMETERS, zeros),
        dynamics_type=token(mjc.DYNAMICS_TYPE, "none"),
        dynamics=numbers(mjc.DYNAMICS_PARAMETERS, (1.0, *zeros[:9])),
        control_range=limited_range(index, prim, mjc.CONTROL_RANGE, mjc.CONTROL_LIMITED),
        force_range=limited_range(index, prim, mjc.FORCE_RANGE, mjc.FORCE_LIMITED),
        activation_range=limited_range(index, prim, mjc.ACTIVATION_RANGE, mjc.ACTIVATION_LIMITED),
        settings=_other_settings(index, prim),
    )
    low, high = (float(index.authored(prim, end) or 0.0) for end in mjc.range_attributes(mjc.LENGTH_RANGE))
    actuator.length_range = (low, high)
    read_kinema_attributes(index, prim, actuator)
    return actuator


def _transmission(index: StageIndex, prim: pxr.Prim, names: TargetNames) -> tuple[Transmission, str, str] | None:
    """Transmission type, target name and reference name of an actuator; None if the target is invalid."""
    target, slider, reference = (
        next((str(t) for t in index.targets(prim, name)), "")
        for name in (mjc.TARGET, mjc.SLIDER_SITE, mjc.REFERENCE_SITE)
    )
    if target in names.joints:
        in_parent = bool(index.authored(prim, mjc.JOINT_IN_PARENT))
        return Transmission.JOINT_IN_PARENT if in_parent else Transmission.JOINT, names.joints[target], ""
    if target in names.tendons:
        return Transmission.TENDON, names.tendons[target], ""
    if target in names.frames:
        kind = Transmission.SLIDER_CRANK if slider else Transmission.SITE
        return kind, names.frames[target], names.frames.get(slider or reference, "")
    if target in index.bodies:
        return Transmission.BODY, index.bodies[target].name, ""
    return None


def _other_settings(index: StageIndex, prim: pxr.Prim) -> dict[str, Any]:
    """Settings without a field in the description, under their MJCF names."""
    result: dict[str, Any] = {}
    for attribute, name in (
        (mjc.GROUP, "group"),
        (mjc.ACT_EARLY, "actearly"),
        (mjc.ACT_DIM, "actdim"),
        (mjc.INHERIT_RANGE, "inheritrange"),
    ):
        value = index.authored(prim, attribute)
        if value is not None:
            result[name] = value
    return result | valid_settings(preserved_table(index, prim, kinema_usd.SETTINGS))


# -- unread attributes -------------------------------------------------------------------------------------------------


def _prim_to_extra(index: StageIndex, prim: pxr.Prim) -> Extra:
    """A prim without counterpart in the description, preserved as `name = value` lines."""
    kind = index.values.facts(prim).kind.type
    lines = []
    for name in sorted(index.values.facts(prim).authored):
        attribute = prim.GetAttribute(name)
        value = attribute.Get(index.time) if attribute else ", ".join(str(t) for t in index.targets(prim, name))
        lines.append(f"{name} = {value}")
    message = f"{kind} {prim.GetName()!r} has no place in the description; it is kept as text"
    index.diagnostics.note("usd.kept-prim", message, origin=index.origin(prim))
    return Extra(usd.FORMAT, kind, "\n".join(lines), index.origin(prim))
