"""MuJoCo's prims: sites, actuators and tendons. Their numbers are MuJoCo's own, in the stage's units and radians."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kinema.description import Actuator, Extra, Frame, Joint, Tendon, TendonPathItem, TendonPathKind, Transmission
from kinema.foundation import Origin

from . import pxr
from .geometry import GeometryError, place_geometry
from .names import unique_names
from .own_names import own_names, own_order
from .own_settings import own
from .polar import rigid
from .shapes_on_links import SITE_SCHEMAS, into_link
from .stage_index import StageIndex
from .vendor import keep_vendor_data, limited_range, solver_parameters


@dataclass(slots=True, eq=False)
class MjcParts:
    """What was made of MuJoCo's prims."""

    frames: list[Frame] = field(default_factory=list)
    tendons: list[Tendon] = field(default_factory=list)
    actuators: list[Actuator] = field(default_factory=list)
    extras: list[Extra] = field(default_factory=list)
    """Prims of other types, as text."""


@dataclass(frozen=True, slots=True, eq=False)
class Names:
    """Prim path -> name, for everything that an actuator or a tendon may pull on."""

    joints: Mapping[str, str]
    shapes: Mapping[str, str]
    frames: Mapping[str, str]
    tendons: Mapping[str, str]


def read_mjc(index: StageIndex, joints: list[Joint], shapes: Mapping[str, str]) -> MjcParts:
    """Sites, tendons and actuators.

    Args:
        index: the stage.
        joints: those of the stage.
        shapes: prim path -> name, of all shapes.
    """
    sites = [prim for prim in index.gprims if index.schemas(prim) & SITE_SCHEMAS]
    sites = own_order(index, sites, sites)
    kinds = {kind: [p for p in index.others if index.values.facts(p).kind.type == kind] for kind in _READ}
    names = Names(
        joints={joint.origin.path: joint.name for joint in joints},
        shapes=shapes,
        frames=_names(index, sites),
        tendons=_names(index, kinds["MjcTendon"]),
    )
    actuators = _names(index, kinds["MjcActuator"])
    parts = MjcParts()
    parts.frames = [_frame(index, prim, names.frames[_path(index, prim)]) for prim in sites]
    parts.tendons = [_tendon(index, prim, names) for prim in kinds["MjcTendon"]]
    for prim in kinds["MjcActuator"]:
        actuator = _actuator(index, prim, actuators[_path(index, prim)], names)
        if actuator is not None:
            parts.actuators.append(actuator)
    parts.extras = [_as_text(index, p) for p in index.others if index.values.facts(p).kind.type not in _READ]
    if (parts.tendons or parts.actuators) and (index.units.length != 1 or index.units.mass != 1):
        message = "MuJoCo's tendons and actuators are read as if the stage were in metres and kilograms"
        index.diagnostics.warning("usd.mjc-units", message, origin=Origin(index.file))
    return parts


_READ = ("MjcTendon", "MjcActuator")


def _names(index: StageIndex, prims: Sequence[pxr.Prim]) -> dict[str, str]:
    paths = [_path(index, p) for p in prims]
    return own_names(index, dict(zip(paths, prims, strict=True)), unique_names(paths))


def _path(index: StageIndex, prim: pxr.Prim) -> str:
    return index.values.facts(prim).path


# -- sites ------------------------------------------------------------------------------------------------------------


def _frame(index: StageIndex, prim: pxr.Prim, name: str) -> Frame:
    body = index.owner(prim)
    into = into_link(index.world(prim), body)
    frame = Frame(
        name=name,
        origin=index.origin(prim),
        link=None if body is None else body.name,
        pose=rigid(into),
    )
    try:
        placed = place_geometry(index, prim, into)
    except GeometryError:
        placed = None
    if placed is not None and placed.pose.is_close(frame.pose, 1e-9) and not own(index, prim, "noMarker"):
        frame.marker = placed.geometry
    colors, opacities = (index.value(prim, f"primvars:display{n}") for n in ("Color", "Opacity"))
    if colors:
        r, g, b = (float(c) for c in colors[0])
        frame.color = (r, g, b, float(opacities[0]) if opacities else 1.0)
    keep_vendor_data(index, prim, frame, ())
    return frame


# -- tendons ----------------------------------------------------------------------------------------------------------


def _tendon(index: StageIndex, prim: pxr.Prim, names: Names) -> Tendon:
    def number(name: str) -> float:
        return float(index.authored(prim, f"mjc:{name}") or 0.0)

    lower, upper = limited_range(index, prim, "mjc:range", "mjc:limited")
    tendon = Tendon(
        name=names.tendons[_path(index, prim)],
        origin=index.origin(prim),
        path=_tendon_path(index, prim, names),
        lower=lower,
        upper=upper,
        stiffness=number("stiffness"),
        damping=number("damping"),
        friction=number("frictionloss"),
        armature=number("armature"),
        spring_length=_spring_length(index, prim),
        force_range=limited_range(index, prim, "mjc:actuatorfrcrange", "mjc:actuatorfrclimited"),
        limit_solver=solver_parameters(index, prim, "mjc:solreflimit", "mjc:solimplimit", "mjc:margin"),
        friction_solver=solver_parameters(index, prim, "mjc:solreffriction", "mjc:solimpfriction"),
    )
    width, color = index.authored(prim, "mjc:width"), index.authored(prim, "mjc:rgba")
    if width is not None:
        tendon.width = float(width)
    if color is not None:
        r, g, b, a = (float(c) for c in color)
        tendon.color = (r, g, b, a)
    return tendon


def _spring_length(index: StageIndex, prim: pxr.Prim) -> tuple[float, float] | None:
    """One length, or a dead band; -1 is the length at the zero configuration."""
    values = [float(v) for v in index.authored(prim, "mjc:springlength") or (-1.0,)]
    return None if values[0] == -1.0 else (values[0], values[-1])


def _tendon_path(index: StageIndex, prim: pxr.Prim, names: Names) -> list[TendonPathItem]:
    """The steps in their order: joints with their coefficients, or sites and shapes, with pulleys between."""
    targets = [str(t) for t in index.targets(prim, "mjc:path")]
    order, segments, sides = (
        [int(i) for i in index.authored(prim, f"mjc:{name}") or ()]
        for name in ("path:indices", "path:segments", "sideSites:indices")
    )
    coefficients, divisors = (
        [float(v) for v in index.authored(prim, f"mjc:path:{name}") or ()] for name in ("coef", "divisors")
    )
    side_sites = [str(t) for t in index.targets(prim, "mjc:sideSites")]
    items: list[TendonPathItem] = []
    segment = 0
    for step, number in enumerate(order or range(len(targets))):
        if step < len(segments) and segments[step] != segment:
            segment = segments[step]
            divisor = divisors[segment] if 0 <= segment < len(divisors) else 1.0
            items.append(TendonPathItem(kind=TendonPathKind.PULLEY, coefficient=divisor))
        target = targets[number] if 0 <= number < len(targets) else ""
        side = sides[number] if 0 <= number < len(sides) else -1
        kind, name = _step(target, names)
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


def _step(target: str, names: Names) -> tuple[TendonPathKind | None, str]:
    for kind, known in (
        (TendonPathKind.JOINT, names.joints),
        (TendonPathKind.SITE, names.frames),
        (TendonPathKind.WRAP, names.shapes),
    ):
        if target in known:
            return kind, known[target]
    return None, ""


# -- actuators --------------------------------------------------------------------------------------------------------


def _actuator(index: StageIndex, prim: pxr.Prim, name: str, names: Names) -> Actuator | None:
    def numbers(attribute: str, default: tuple[float, ...]) -> tuple[float, ...]:
        values = index.authored(prim, f"mjc:{attribute}")
        return default if values is None else tuple(float(v) for v in values)

    def token(attribute: str, default: str) -> str:
        return str(index.authored(prim, f"mjc:{attribute}") or default)

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
        gear=numbers("gear", (1.0, *zeros[:5])),
        crank_length=float(index.authored(prim, "mjc:crankLength") or 0.0),
        gain_type=token("gainType", "fixed"),
        gain=numbers("gainPrm", (1.0, *zeros[:9])),
        bias_type=token("biasType", "none"),
        bias=numbers("biasPrm", zeros),
        dynamics_type=token("dynType", "none"),
        dynamics=numbers("dynPrm", (1.0, *zeros[:9])),
        control_range=limited_range(index, prim, "mjc:ctrlRange", "mjc:ctrlLimited"),
        force_range=limited_range(index, prim, "mjc:forceRange", "mjc:forceLimited"),
        activation_range=limited_range(index, prim, "mjc:actRange", "mjc:actLimited"),
        settings=_other_settings(index, prim),
    )
    low, high = (float(index.authored(prim, f"mjc:lengthRange:{end}") or 0.0) for end in ("min", "max"))
    actuator.length_range = (low, high)
    return actuator


def _transmission(index: StageIndex, prim: pxr.Prim, names: Names) -> tuple[Transmission, str, str] | None:
    """What the actuator pulls on: its kind, name, and the name of its reference."""
    target, slider, reference = (
        next((str(t) for t in index.targets(prim, f"mjc:{name}")), "") for name in ("target", "sliderSite", "refSite")
    )
    if target in names.joints:
        in_parent = bool(index.authored(prim, "mjc:jointInParent"))
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
    """What has no field of its own, under the names of MJCF."""
    result: dict[str, Any] = {}
    for attribute, name in (
        ("mjc:group", "group"),
        ("mjc:actEarly", "actearly"),
        ("mjc:actDim", "actdim"),
        ("mjc:inheritRange", "inheritrange"),
    ):
        value = index.authored(prim, attribute)
        if value is not None:
            result[name] = value
    return result


# -- the rest ---------------------------------------------------------------------------------------------------------


def _as_text(index: StageIndex, prim: pxr.Prim) -> Extra:
    """A prim that has no place in the description, as `name = value` lines."""
    kind = index.values.facts(prim).kind.type
    lines = []
    for name in sorted(index.values.facts(prim).authored):
        attribute = prim.GetAttribute(name)
        value = attribute.Get(index.time) if attribute else ", ".join(str(t) for t in index.targets(prim, name))
        lines.append(f"{name} = {value}")
    message = f"{kind} {prim.GetName()!r} has no place in the description; it is kept as text"
    index.diagnostics.note("usd.kept-prim", message, origin=index.origin(prim))
    return Extra("usd", kind, "\n".join(lines), index.origin(prim))
