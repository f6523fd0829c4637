"""Rules about shapes: their sizes, and whether there are any. For meshes see `meshes`."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from kinema.description import Box, Capsule, Cone, Cylinder, Ellipsoid, Geometry, HeightField, Mesh, Plane, Sphere
from kinema.foundation import Severity

from .context import Context
from .rule import Finding, rule
from .words import label, listing, number, plural, shape_label


@rule("shapes.size", Severity.ERROR)
def size(context: Context) -> Iterable[Finding]:
    """A size of a shape is zero or negative.

    It is a warning on a shape that is only seen. A mesh's scale may be negative, which mirrors it, but not zero.
    """
    for shape, link in context.shapes:
        for what, value in _bad_sizes(shape.geometry):
            severity = None if shape.collision else Severity.WARNING
            message = f"{shape_label(shape, link)} has a {what} of {number(value)}"
            yield Finding(shape, message, "give a size above zero", severity)


def _bad_sizes(geometry: Geometry) -> list[tuple[str, float]]:
    match geometry:
        case Box():
            sizes = [("size", v) for v in geometry.size]
        case Sphere():
            sizes = [("radius", geometry.radius)]
        case Ellipsoid():
            sizes = [("radius", v) for v in geometry.radii]
        case Capsule():
            # a capsule without a straight part is a sphere, and fine
            length = [("length", geometry.length)] if geometry.length != 0 else []
            sizes = [("radius", geometry.radius), *length]
        case Cylinder() | Cone():
            sizes = [("radius", geometry.radius), ("length", geometry.length)]
        case Plane():
            sizes = [("size", v) for v in geometry.size or ()]
        case HeightField():
            sizes = [("size", v) for v in geometry.size]
        case Mesh():
            return [("scale", float(v)) for v in geometry.scale if v == 0]
    return [(what, float(v)) for what, v in sizes if v <= 0]


@rule("shapes.terrain", Severity.ERROR)
def terrain(context: Context) -> Iterable[Finding]:
    """A height field has fewer than two rows or columns, or reaches below its own base."""
    for shape, link in context.shapes:
        field = shape.geometry
        if not isinstance(field, HeightField):
            continue
        if field.heights.ndim != 2 or min(field.heights.shape) < 2:
            message = f"{shape_label(shape, link)} has {' x '.join(map(str, field.heights.shape))} heights"
            yield Finding(shape, message, "give at least two rows and two columns")
        elif np.isfinite(field.heights).all() and not -field.base < float(field.heights.min()):
            lowest, base = number(float(field.heights.min())), number(-field.base)
            message = f"{shape_label(shape, link)} has its lowest point, {lowest} m, not above its base, {base} m"
            yield Finding(shape, message, "make the base thicker", Severity.WARNING)


@rule("shapes.no-collision", Severity.NOTE)
def no_collision(context: Context) -> Iterable[Finding]:
    """Moving links can be seen but not touched: neither they nor what is fixed to them has a collision shape."""
    if not any(link.collisions for link in context.links):
        return  # shapes.visual-only says it
    found = [
        body.links[0]
        for body in context.bodies
        if body.moves and any(x.visuals for x in body.links) and not any(x.collisions for x in body.links)
    ]
    if found:
        count = plural(len(found), "moving link has", "moving links have")
        message = f"{count} no collision shape: {listing([link.name for link in found])}"
        yield Finding(found[0], message, "add one to each that should touch anything")


@rule("shapes.visual-only", Severity.NOTE)
def visual_only(context: Context) -> Iterable[Finding]:
    """The whole robot can be seen but not touched."""
    seen = sum(len(link.visuals) for link in context.links)
    if context.robot is not None and seen and not any(link.collisions for link in context.links):
        message = (
            f"{label(context.robot)} has {plural(seen, 'visual shape')} but no collision shape: it falls through floors"
        )
        yield Finding(context.robot, message, "add collision shapes, if it should touch anything")


@rule("shapes.friction", Severity.WARNING)
def friction(context: Context) -> Iterable[Finding]:
    """A coefficient of friction, or a restitution, is negative, or the restitution is above one."""
    for shape, link in context.shapes:
        surface = shape.surface
        if surface is None:
            continue
        values = {
            "static friction": surface.static_friction,
            "dynamic friction": surface.dynamic_friction,
            "restitution": surface.restitution,
        }
        for what, value in values.items():
            most = 1.0 if what == "restitution" else math.inf
            if value is not None and (value < 0 or value > most):
                message = f"{shape_label(shape, link)} has a {what} of {number(value)}"
                yield Finding(shape, message, "give a value of zero or more" + ", up to one" * (most == 1.0))
