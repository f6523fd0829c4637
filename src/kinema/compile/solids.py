"""What stands for a shape in collisions: itself, or what its mesh is approximated by."""

from __future__ import annotations

import numpy as np

from kinema import shapes
from kinema.description import (
    Box,
    Capsule,
    Cone,
    Cylinder,
    Ellipsoid,
    HeightField,
    Mesh,
    Plane,
    Shape,
    Sphere,
)
from kinema.foundation import Diagnostics

from .approximated import Unusable, approximated
from .hollow import KEEPS_HOLLOWS
from .pieces import Piece, three_of


def pieces_of(shape: Shape, label: str, diagnostics: Diagnostics, nonconvex: str | None = None) -> list[Piece]:
    """What stands for a shape; nothing where its mesh cannot be used, which is said.

    `label` is what messages call it, `nonconvex` what the user says of meshes with hollows (`Part.nonconvex`).
    """
    form = shape.geometry
    match form:
        case Sphere():
            return [Piece("sphere", (form.radius, 0.0, 0.0), form.radius)]
        case Capsule():
            half = form.length / 2
            return [Piece("capsule", (form.radius, half, 0.0), form.radius + half)]
        case Cylinder() | Cone():
            kind, half = "cylinder" if isinstance(form, Cylinder) else "cone", form.length / 2
            return [Piece(kind, (form.radius, half, 0.0), float(np.hypot(form.radius, half)))]
        case Ellipsoid():
            return [Piece("ellipsoid", three_of(form.radii), float(form.radii.max()))]
        case Box():
            return [Piece("box", three_of(form.size / 2), float(np.linalg.norm(form.size / 2)))]
        case Plane():
            return [Piece("plane", (0.0, 0.0, 0.0), np.inf)]
        case HeightField():
            return [_terrain(form)]
        case Mesh():
            return _of_mesh(shape, label, form, diagnostics, nonconvex)


def _terrain(field_: HeightField) -> Piece:
    half = np.array(field_.size) / 2
    low, high = -field_.base, float(field_.heights.max(initial=0.0))
    center = np.array([0.0, 0.0, (low + high) / 2])
    radius = float(np.linalg.norm([*half, (high - low) / 2]))
    size = (float(half[0]), float(half[1]), field_.base)
    return Piece("height field", size, radius, center, heights=np.asarray(field_.heights, np.float64))


def _of_mesh(shape: Shape, label: str, mesh: Mesh, diagnostics: Diagnostics, nonconvex: str | None) -> list[Piece]:
    try:
        found = approximated(mesh, nonconvex)
    except shapes.ShapeError as problem:
        if isinstance(problem, Unusable):
            _say_hollow(shape, label, problem.hollow, diagnostics)
        message = f"the mesh of {label} touches nothing: {problem}"
        diagnostics.warning("sim.no-contact", message, origin=shape.origin)
        return []
    _say_hollow(shape, label, found.hollow, diagnostics)
    for note in found.notes:
        diagnostics.note("sim.hull", f"{label}: {note}", origin=shape.origin)
    return found.pieces


def _say_hollow(shape: Shape, label: str, hollow: str, diagnostics: Diagnostics) -> None:
    if hollow:
        diagnostics.note("sim.hull", f"the mesh of {label} {hollow}", hint=KEEPS_HOLLOWS, origin=shape.origin)
