"""Tendons."""

from __future__ import annotations

import math

from kinema.description import Assembly, Tendon, TendonPathItem, TendonPathKind
from kinema.words import mjcf

from ..text import Element, number, numbers
from .bodies import part_name
from .joint_parts import JointPart
from .joints import solver_attributes, unused_range
from .numbers import proper_range, text_or_none, trimmed
from .writing import Writing

_DEFAULT_COLOR = (0.5, 0.5, 0.5, 1.0)


def joint_part(writing: Writing, name: str, home: Assembly, axis: int = 0) -> JointPart | None:
    """The joint of MuJoCo's for an axis of a joint of the description; None where there is none."""
    entry = writing.names.find(mjcf.JOINT, name, home)
    parts = [] if entry is None else writing.parts_of.get(id(entry.node), [])
    simple = [p for p in parts if p.travel is None]
    return next((p for p in simple if p.number == axis), simple[0] if len(simple) == 1 else None)


def write_tendons(writing: Writing) -> None:
    """All tendons."""
    for home, tendon in writing.parts("tendons"):
        _tendon(writing, home, tendon)


def _tendon(writing: Writing, home: Assembly, tendon: Tendon) -> None:
    path = [_path_element(writing, home, tendon, item) for item in tendon.path]
    kept = [element for element in path if element is not None]
    sites = sum(1 for element in kept if element.tag == mjcf.SITE)
    if len(kept) < len(path) or not kept or (not tendon.is_fixed and sites < 2):
        if len(kept) == len(path):
            writing.drop(tendon, "the tendon", "its path is no path that MuJoCo takes")
        return
    element = Element("fixed" if tendon.is_fixed else "spatial")
    entry = writing.names.add(mjcf.TENDON, tendon, home, shown=not tendon.name_is_generated)
    entry.element = element
    bounds = proper_range(tendon.lower, tendon.upper)
    force = proper_range(*tendon.force_range)
    element.set(
        {
            "range": None if bounds is None else numbers(bounds),
            "actuatorfrcrange": None if force is None else numbers(force),
            "stiffness": _polynomial(writing, tendon, tendon.stiffness, mjcf.STIFFNESSPOLY),
            "damping": _polynomial(writing, tendon, tendon.damping, mjcf.DAMPINGPOLY),
            "springlength": _spring_length(tendon),
            "frictionloss": text_or_none(tendon.friction),
            "armature": _armature(writing, tendon),
            "springyield": text_or_none(writing.take(tendon, mjcf.SPRINGYIELD, 0.0)),
            **solver_attributes(tendon.limit_solver, "limit", margin=True),
            **solver_attributes(tendon.friction_solver, "friction"),
        }
    )
    element.set(unused_range(writing.take(tendon, mjcf.UNUSED_RANGE), element))
    _look(writing, tendon, element)
    element.children += kept
    writing.section(mjcf.TENDON).children.append(element)


def _path_element(writing: Writing, home: Assembly, tendon: Tendon, item: TendonPathItem) -> Element | None:
    match item.kind:
        case TendonPathKind.PULLEY if not item.coefficient > 0:
            writing.drop(tendon, "the tendon", "the divisor of its pulley is not positive")
            return None
        case TendonPathKind.PULLEY:
            return Element("pulley", {"divisor": number(item.coefficient)})
        case TendonPathKind.JOINT:
            part = joint_part(writing, item.target, home)
            if part is None or part.kind not in ("hinge", "slide"):
                writing.drop(tendon, "the tendon", f"MuJoCo cannot count the joint {item.target!r} into a length")
                return None
            return Element(mjcf.JOINT, {"joint": part_name(writing, part), "coef": number(item.coefficient)})
        case TendonPathKind.SITE:
            site = writing.names.refer(mjcf.SITE, item.target, home)
            if site is None:
                writing.drop(tendon, "the tendon", f"there is no frame {item.target!r} to pass through")
                return None
            return Element(mjcf.SITE, {"site": site})
    geom = _geom_name(writing, item.target, home)
    if geom is None:
        writing.drop(tendon, "the tendon", f"there is no shape {item.target!r} to wrap around")
        return None
    element = Element(mjcf.GEOM, {"geom": geom})
    element.set({"sidesite": writing.names.refer(mjcf.SITE, item.side, home) if item.side else None})
    return element


def _geom_name(writing: Writing, name: str, home: Assembly) -> str | None:
    entry = writing.names.find(mjcf.GEOM, name, home)
    return None if entry is None or entry.element is None else writing.names.refer(mjcf.GEOM, name, home)


def _polynomial(writing: Writing, tendon: Tendon, first: float, name: str) -> str | None:
    higher = writing.take(tendon, name)
    return f"{number(first)} {trimmed(higher)}" if higher else text_or_none(first)


def _armature(writing: Writing, tendon: Tendon) -> str | None:
    if tendon.armature and any(item.kind is TendonPathKind.WRAP for item in tendon.path):
        writing.drop(tendon, "its armature", "MuJoCo has none for tendons that wrap around shapes")
        return None
    return text_or_none(tendon.armature)


def _spring_length(tendon: Tendon) -> str | None:
    if tendon.spring_length is None:
        return None
    low, high = tendon.spring_length
    return number(low) if low == high else numbers((low, high))


def _look(writing: Writing, tendon: Tendon, element: Element) -> None:
    group, user = writing.take(tendon, mjcf.GROUP, 0), writing.take(tendon, mjcf.USER)
    material = writing.take(tendon, mjcf.MATERIAL, "")
    look = writing.materials.color_of(material)
    if material and look is None:
        writing.drop(tendon, f"its material {material!r}", "no shape has it")
    element.set({"group": str(group) if group else None, "user": None if user is None else trimmed(user)})
    width = text_or_none(tendon.width, 0.003) if tendon.width > 0 else None
    color = None if tendon.color in (_DEFAULT_COLOR, look) else numbers(tendon.color)
    if tendon.is_fixed:  # which has a look by its class alone
        element.set({"class": _class_of_look(writing, {"width": width, "rgba": color})})
    else:
        element.set({"width": width, "material": None if look is None else material, "rgba": color})


def _class_of_look(writing: Writing, look: dict[str, str | None]) -> str | None:
    said = tuple((name, value) for name, value in look.items() if value is not None)
    if not said:
        return None
    if said not in writing.tendon_classes:
        writing.tendon_classes[said] = f"tendon{len(writing.tendon_classes) + 1}"
    return writing.tendon_classes[said]


def distance_tendon(writing: Writing, name: str, sites: tuple[str, str], bounds: tuple[float, float] | None) -> str:
    """A straight tendon between two sites; its name."""
    own = writing.names.new(mjcf.TENDON, name)
    element = writing.section(mjcf.TENDON).child("spatial", name=own)
    limits = None if bounds is None else proper_range(max(bounds[0], 0.0), bounds[1])
    if limits is not None and (limits[0] > 0 or math.isfinite(limits[1])):
        element.set({"range": numbers(limits)})
    for site in sites:
        element.child(mjcf.SITE, site=site)
    return own
