"""Parts in words, and the part that a diagnostic is about."""

from __future__ import annotations

import math
import re
from html import escape
from typing import Any

from kinema.description import AxisMotion, Joint, Link, Mesh, Shape
from kinema.foundation import Diagnostic, Origin

from .exhibit import WORLD, Exhibit, Part

_NAMED = re.compile(r'(link|joint) "([^"]+)"')


def shape_name(shape: Shape) -> str:
    """What a shape is called in the tree: its name, else its mesh's file, else its kind."""
    if shape.name and not shape.name_is_generated:
        return shape.name
    if isinstance(shape.geometry, Mesh) and shape.geometry.uri:
        return shape.geometry.uri.rpartition("/")[2]
    return shape.kind


def details(exhibit: Exhibit, part: Part) -> str:
    """A table of what is known of a part, as HTML."""
    if part.kind == "joint":
        head, rows, node = part.name, _joint_rows(exhibit.joints[part.name]), exhibit.joints[part.name]
    elif part.kind == "shape":
        node = exhibit.shapes(part.name)[part.index]
        head, rows = f"{shape_name(node)} of {part.name}", _shape_rows(node)
    else:
        node = exhibit.links.get(part.name)
        head, rows = part.name, _link_rows(node) if node is not None else {}
    if node is not None and str(node.origin):
        rows["from"] = str(node.origin)
    lines = "".join(
        f"<tr><td style='opacity:.6;padding-right:.8em;vertical-align:top'>{escape(k)}</td><td>{escape(v)}</td></tr>"
        for k, v in rows.items()
    )
    return f"<b>{escape(part.kind)} {escape(head)}</b><table style='font-size:.85em'>{lines}</table>"


def _numbers(values: Any) -> str:
    return ", ".join(f"{float(v):.4g}" for v in values)


def _link_rows(link: Link) -> dict[str, str]:
    rows = {}
    if link.inertial is not None:
        rows["mass"] = f"{link.inertial.mass:.4g} kg"
        rows["centre"] = f"{_numbers(link.inertial.center)} m"
        rows["inertia"] = f"{_numbers(link.inertial.inertia.diagonal())} kg m²"
    rows["shapes"] = f"{len(link.visuals)} to be seen, {len(link.collisions)} that collide"
    return rows


def _joint_rows(joint: Joint) -> dict[str, str]:
    rows = {"kind": joint.kind.value, "between": f"{joint.parent or WORLD} and {joint.child or WORLD}"}
    for i, axis in enumerate(joint.moving_axes):
        number = f" {i}" if joint.n_dofs > 1 else ""
        unit = "rad" if axis.motion is AxisMotion.ROTATION else "m"
        rows[f"axis{number}"] = _numbers(axis.direction)
        if math.isfinite(axis.lower) or math.isfinite(axis.upper):
            rows[f"limits{number}"] = f"{axis.lower:.4g} to {axis.upper:.4g} {unit}"
        if axis.mimic is not None:
            rows[f"follows{number}"] = f"{axis.mimic.multiplier:g} × {axis.mimic.joint} + {axis.mimic.offset:g}"
        for word, value in (("damping", axis.damping), ("friction", axis.friction), ("armature", axis.armature)):
            if value:
                rows[f"{word}{number}"] = f"{value:.4g}"
    return rows


def _shape_rows(shape: Shape) -> dict[str, str]:
    role = [word for word, on in (("seen", shape.visual), ("collides", shape.collision)) if on]
    rows = {"kind": shape.kind, "role": ", ".join(role) or "none", "place": f"{_numbers(shape.pose.position)} m"}
    for name in ("size", "radius", "radii", "length"):
        value = getattr(shape.geometry, name, None)
        if value is not None:
            rows[name] = f"{_numbers(value if hasattr(value, '__len__') else [value])} m"
    if shape.material is not None and shape.material.color is not None:
        rows["colour"] = _numbers(shape.material.color)
    return rows


def part_of(exhibit: Exhibit, diagnostic: Diagnostic) -> Part | None:
    """The part that a diagnostic is about: what stands at its place in the file, else what it calls by name."""
    at = diagnostic.origin
    named = _named_part(exhibit, diagnostic.message)
    if at.line is None and not at.path:
        return named
    for link, shapes in exhibit.shapes_by_link().items():
        for i, shape in enumerate(shapes):
            if _same(shape.origin, at):
                return Part(exhibit.number, "shape", link, i)
    for kind, nodes in (("joint", exhibit.joints), ("link", exhibit.links)):
        for name, node in nodes.items():
            if _same(node.origin, at):
                return Part(exhibit.number, kind, name)
    return named


def _same(a: Origin, b: Origin) -> bool:
    return (a.line is not None or bool(a.path)) and (a.line, a.path, a.file) == (b.line, b.path, b.file)


def _named_part(exhibit: Exhibit, message: str) -> Part | None:
    for kind, name in _NAMED.findall(message):
        known = exhibit.links if kind == "link" else exhibit.joints
        unique = next((u for u, node in known.items() if name in (u, node.name)), None)
        if unique is not None:
            return Part(exhibit.number, kind, unique)
    return None
