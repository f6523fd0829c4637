"""`<link>`, with its inertia, its shapes and their materials."""

from __future__ import annotations

import numpy as np

from ..cursor import Cursor
from .context import Context, extra_of, finite, parse_placement, under
from .elements import InertialElement, LinkElement, MaterialElement, ShapeElement
from .parse_geometry import parse_geometry


def parse_link(cursor: Cursor, context: Context) -> LinkElement:
    """A link."""
    link = LinkElement(place=cursor.origin, name=cursor.required("name"), source=cursor.element)
    inertial = cursor.child("inertial")
    if inertial is not None:
        link.inertial = _inertial(inertial, context, link.name)
        link.extras += under("inertial", link.inertial)
    link.shapes = [_shape(child, context) for child in cursor.children("visual", "collision")]
    link.extras += context.leftovers(cursor)
    return link


def _inertial(cursor: Cursor, context: Context, link: str) -> InertialElement:
    result = InertialElement(place=cursor.origin, placement=parse_placement(cursor, context))
    result.extras += under("origin", result.placement)
    mass, inertia = cursor.child("mass"), cursor.child("inertia")
    for name, child in (("mass", mass), ("inertia", inertia)):
        if child is None:
            cursor.error("missing-element", f'link "{link}": <inertial> has no <{name}>', "zero is assumed")
    if mass is not None and mass.required("value"):
        result.mass = float(finite(mass, "value", [0.0])[0])
    if inertia is not None:
        names = ("ixx", "iyy", "izz", "ixy", "ixz", "iyz")
        missing = [n for n in names if n not in inertia.element.attributes]
        if missing:
            message = f'link "{link}": <inertia> has no {", ".join(missing)}'
            inertia.error("missing-attribute", message, "zero is assumed")
        values = np.array([float(finite(inertia, n, [0.0])[0]) for n in names])
        result.moments, result.products = values[:3], values[3:]
    for name, child in (("mass", mass), ("inertia", inertia)):
        if child is not None:
            result.extras += context.leftovers(child, name)
    result.extras += context.leftovers(cursor)
    return result


def _shape(cursor: Cursor, context: Context) -> ShapeElement:
    result = ShapeElement(
        place=cursor.origin,
        is_visual=cursor.tag == "visual",
        name=cursor.text_of("name") or "",
        placement=parse_placement(cursor, context),
        source=cursor.element,
    )
    result.extras += under("origin", result.placement)
    geometry = cursor.child("geometry")
    if geometry is None:
        cursor.error("missing-element", f"<{cursor.tag}> has no <geometry>; it is left out")
    else:
        result.geometry = parse_geometry(geometry, context)
        if result.geometry is not None:
            result.extras += under("geometry", result.geometry)
            result.extras += context.leftovers(geometry, "geometry")
    if result.is_visual:
        material = cursor.child("material")
        if material is not None:
            result.material = parse_material(material, context)
            result.extras += under("material", result.material)
    else:
        # means nothing, but half of all robots have it
        for material in cursor.children("material"):
            context.kept.setdefault("material", []).append(material.element)
            result.extras.append(extra_of(material.element))
    result.extras += context.leftovers(cursor)
    return result


def parse_material(cursor: Cursor, context: Context) -> MaterialElement:
    """A material, of the robot or of a shape."""
    name = cursor.text_of("name")
    result = MaterialElement(place=cursor.origin, name=name or "", source=cursor.element)
    color, texture = cursor.child("color"), cursor.child("texture")
    if color is not None and color.required("rgba"):
        result.color = finite(color, "rgba", (1, 1, 1, 1))
        if np.any((result.color < 0) | (result.color > 1)):
            color.warning("color-range", f'material "{result.name}": a part of its colour is not from 0 to 1')
    if texture is not None:
        result.texture = (texture.text_of("filename") or "").strip() or None
        if result.texture is None:
            texture.warning("empty-texture", f"material \"{result.name}\": <texture> has no 'filename'")
    if name is None:
        cursor.warning("missing-attribute", "<material> has no 'name'", "ROS refuses it; an empty name will do")
    for tag, child in (("color", color), ("texture", texture)):
        if child is not None:
            result.extras += context.leftovers(child, tag)
    result.extras += context.leftovers(cursor)
    return result
