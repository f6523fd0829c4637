"""`<geometry>`: the one shape in it."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from kinema.foundation import Array

from ..cursor import Cursor, parse_float
from .context import Context, finite
from .elements import (
    BoxElement,
    CapsuleElement,
    CylinderElement,
    EllipsoidElement,
    GeometryElement,
    MeshElement,
    SphereElement,
)


def parse_geometry(cursor: Cursor, context: Context) -> GeometryElement | None:
    """The one shape in a `<geometry>`; None, and an error, where there is none that can be read."""
    names = [n for name in _READERS for n in (name, f"drake:{name}")]
    found = cursor.children(*names)
    if not found:
        unknown = [c.tag for c in cursor.element.children]
        if unknown:
            cursor.error("unknown-geometry", f"<{unknown[0]}> is not a geometry that URDF has; it is left out")
        else:
            cursor.error("missing-element", "<geometry> is empty; it is left out")
        return None
    if len(found) > 1:
        found[1].error("repeated-element", "<geometry> holds more than one shape; the first counts")
    shape = found[0]
    kind = shape.tag.removeprefix("drake:")
    if kind == "capsule" and shape.tag == kind:
        context.needs_version(shape, "<capsule>", (1, 1))
    result = _READERS[kind](shape)
    if result is not None:
        result.extras = context.leftovers(shape, shape.tag)
    return result


def _box(cursor: Cursor) -> BoxElement | None:
    size = _lengths(cursor, "size", 3)
    return None if size is None else BoxElement(place=cursor.origin, size=size)


def _sphere(cursor: Cursor) -> SphereElement | None:
    radius = _lengths(cursor, "radius", 1)
    return None if radius is None else SphereElement(place=cursor.origin, radius=float(radius[0]))


def _radius_and_length(cursor: Cursor) -> tuple[float, float] | None:
    radius, length = _lengths(cursor, "radius", 1), _lengths(cursor, "length", 1)
    return None if radius is None or length is None else (float(radius[0]), float(length[0]))


def _cylinder(cursor: Cursor) -> CylinderElement | None:
    found = _radius_and_length(cursor)
    return None if found is None else CylinderElement(place=cursor.origin, radius=found[0], length=found[1])


def _capsule(cursor: Cursor) -> CapsuleElement | None:
    found = _radius_and_length(cursor)
    return None if found is None else CapsuleElement(place=cursor.origin, radius=found[0], length=found[1])


def _ellipsoid(cursor: Cursor) -> EllipsoidElement | None:
    a, b, c = (_lengths(cursor, name, 1) for name in "abc")
    if a is None or b is None or c is None:
        return None
    return EllipsoidElement(place=cursor.origin, radii=np.concatenate([a, b, c]))


def _mesh(cursor: Cursor) -> MeshElement | None:
    filename = cursor.required("filename")
    scale = finite(cursor, "scale", (1, 1, 1))
    convex = bool(cursor.children("drake:declare_convex"))
    if not filename.strip():
        return None
    if np.any(scale == 0):
        cursor.error("zero-scale", f"mesh {filename!r} is scaled by zero; it is left out")
        return None
    return MeshElement(place=cursor.origin, filename=filename, scale=scale, convex=convex)


_READERS: dict[str, Callable[[Cursor], GeometryElement | None]] = {
    "box": _box,
    "sphere": _sphere,
    "cylinder": _cylinder,
    "capsule": _capsule,
    "ellipsoid": _ellipsoid,
    "mesh": _mesh,
}


def _lengths(cursor: Cursor, attribute: str, count: int) -> Array | None:
    """A size that must be there, be finite and not be negative; None, and an error, if not."""
    text = cursor.required(attribute)
    if not text:
        return None
    values = [parse_float(word) for word in text.split()]
    numbers = np.array([math.nan if v is None else v for v in values])
    if len(values) != count or not np.isfinite(numbers).all() or (numbers < 0).any():
        expected = "a number" if count == 1 else f"{count} numbers"
        message = (
            f"{attribute!r} of <{cursor.tag}> is {text.strip()[:60]!r}, not {expected} from zero up; it is left out"
        )
        cursor.error("geometry-size", message)
        return None
    if (numbers == 0).any() and not (cursor.tag.endswith("capsule") and attribute == "length"):
        cursor.warning("zero-size", f"{attribute!r} of <{cursor.tag}> is zero: the shape is flat")
    return numbers
