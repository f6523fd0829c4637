"""What stands for a shape in collisions: itself, or what its mesh is approximated by."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

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
    mesh_data,
)
from kinema.foundation import Array, Diagnostics, Pose
from kinema.model import Polyhedron, SampledField

from .hollow import KEEPS_HOLLOWS, sampled, touches_as


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """One shape that touches others."""

    kind: str
    size: tuple[float, float, float]
    radius: float
    """Of a sphere around it."""
    center: Array = field(default_factory=lambda: np.zeros(3))
    """Of that sphere."""
    pose: Pose = field(default_factory=Pose)
    """In the frame of the shape that it stands for."""
    hull: Polyhedron | None = None
    heights: Array | None = None
    distances: SampledField | None = None


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
            return [Piece("ellipsoid", _three(form.radii), float(form.radii.max()))]
        case Box():
            return [Piece("box", _three(form.size / 2), float(np.linalg.norm(form.size / 2)))]
        case Plane():
            return [Piece("plane", (0.0, 0.0, 0.0), np.inf)]
        case HeightField():
            return [_terrain(form)]
        case Mesh():
            return _of_mesh(shape, label, form, diagnostics, nonconvex)


def _three(values: Array) -> tuple[float, float, float]:
    x, y, z = (float(v) for v in values)
    return x, y, z


def _terrain(field_: HeightField) -> Piece:
    half = np.array(field_.size) / 2
    low, high = -field_.base, float(field_.heights.max(initial=0.0))
    center = np.array([0.0, 0.0, (low + high) / 2])
    radius = float(np.linalg.norm([*half, (high - low) / 2]))
    size = (float(half[0]), float(half[1]), field_.base)
    return Piece("height field", size, radius, center, heights=np.asarray(field_.heights, np.float64))


def _of_mesh(shape: Shape, label: str, mesh: Mesh, diagnostics: Diagnostics, nonconvex: str | None) -> list[Piece]:
    try:
        data = mesh_data(mesh)
        if data is None:
            raise shapes.MeshError("Its file was not found.")
        data, how, note = touches_as(mesh, shapes.check_mesh(data), nonconvex)
        if note:
            diagnostics.note("sim.hull", f"the mesh of {label} {note}", hint=KEEPS_HOLLOWS, origin=shape.origin)
        options = shapes.ApproximationOptions(max_hull_vertices=mesh.max_hull_vertices)
        if mesh.field_resolution is not None:
            options = replace(options, field_resolution=mesh.field_resolution)
        found = shapes.approximate(data, how, options)
    except shapes.ShapeError as problem:
        message = f"the mesh of {label} touches nothing: {problem}"
        diagnostics.warning("sim.no-contact", message, origin=shape.origin)
        return []
    for note in found.notes:
        diagnostics.note("sim.hull", f"{label}: {note}", origin=shape.origin)
    return [_piece(x, data) for x in found.pieces]


def _piece(found: object, data: shapes.MeshData) -> Piece:
    if isinstance(found, shapes.Polytope):
        low, high = found.vertices.min(axis=0), found.vertices.max(axis=0)
        center = (low + high) / 2
        radius = float(np.linalg.norm(found.vertices - center, axis=1).max())
        faces = [found.polygon(i).tolist() for i in range(found.n_faces)]
        return Piece("mesh", (0.0, 0.0, 0.0), radius, center, hull=Polyhedron(found.vertices, faces, found.normals))
    if isinstance(found, shapes.DistanceField):
        low, high = data.vertices[data.faces].min(axis=(0, 1)), data.vertices[data.faces].max(axis=(0, 1))
        center, radius = (low + high) / 2, float(np.linalg.norm(high - low)) / 2
        return Piece("distance field", (0.0, 0.0, 0.0), radius, center, distances=sampled(found, data))
    if isinstance(found, shapes.BoundingSphere):
        return Piece("sphere", (found.radius, 0.0, 0.0), found.radius, pose=Pose(found.center, np.eye(3)))
    assert isinstance(found, shapes.BoundingBox)
    half = found.size / 2
    return Piece("box", _three(half), float(np.linalg.norm(half)), pose=Pose(found.center, found.rotation))
