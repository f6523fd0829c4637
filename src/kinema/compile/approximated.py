"""What stands for a mesh in collisions: convex hulls with their support tables, distance fields; cached on disk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kinema import shapes
from kinema.description import Mesh, mesh_data, mesh_digest
from kinema.foundation import Pose, content_digest, load_or_make, source_digest
from kinema.model import Polyhedron, pack_hulls

from .hollow import sampled, touches_as
from .pieces import Piece, pieces_from_values, pieces_to_values, three_of

SOURCES = ("foundation", "shapes", "description", "model", "compile")
"""Packages that compute it."""


@dataclass(frozen=True, slots=True, eq=False)
class Approximated:
    """What stands for a mesh, and what there is to say of that."""

    pieces: list[Piece]
    hollow: str
    """Empty, or that the mesh is not convex although its hull stands for it."""
    notes: tuple[str, ...]


class Unusable(shapes.ShapeError):
    """Nothing can stand for a mesh."""

    def __init__(self, reason: str, hollow: str) -> None:
        super().__init__(reason)
        self.hollow = hollow
        """As in `Approximated`."""


def approximated(mesh: Mesh, nonconvex: str | None) -> Approximated:
    """What stands for a mesh, from the cache or computed now.

    Args:
        mesh: its triangles, and what is asked for.
        nonconvex: what the user says of meshes with hollows (`Part.nonconvex`).

    Raises:
        ShapeError: the mesh cannot be used; that is not cached.
    """
    asked = (mesh.approximation, nonconvex, mesh.max_hull_vertices, mesh.field_resolution)
    digest = mesh_digest(mesh)
    if digest is None:
        raise shapes.MeshError("Its file was not found.")
    key = content_digest("pieces", source_digest(*SOURCES), digest, asked)
    values = load_or_make("geometry", key, lambda: _computed(mesh, nonconvex), keep=True)
    return Approximated(pieces_from_values(values), values["hollow"], tuple(values["notes"]))


def _computed(mesh: Mesh, nonconvex: str | None) -> Mapping[str, Any]:
    data = mesh_data(mesh)
    assert data is not None
    data, how, hollow = touches_as(mesh, shapes.check_mesh(data), nonconvex)
    options = shapes.ApproximationOptions(max_hull_vertices=mesh.max_hull_vertices)
    if mesh.field_resolution is not None:
        options = replace(options, field_resolution=mesh.field_resolution)
    try:
        found = shapes.approximate(data, how, options)
    except shapes.ShapeError as problem:
        raise Unusable(str(problem), hollow) from problem
    pieces = [_piece(x, data) for x in found.pieces]
    return {**pieces_to_values(pieces), "hollow": hollow, "notes": list(found.notes)}


def _piece(found: object, data: shapes.MeshData) -> Piece:
    if isinstance(found, shapes.Polytope):
        low, high = found.vertices.min(axis=0), found.vertices.max(axis=0)
        center = (low + high) / 2
        radius = float(np.linalg.norm(found.vertices - center, axis=1).max())
        faces = [found.polygon(i).tolist() for i in range(found.n_faces)]
        hull = pack_hulls([Polyhedron(found.vertices, faces, found.normals)])
        return Piece("mesh", (0.0, 0.0, 0.0), radius, center, hull=hull)
    if isinstance(found, shapes.DistanceField):
        low, high = data.vertices[data.faces].min(axis=(0, 1)), data.vertices[data.faces].max(axis=(0, 1))
        center, radius = (low + high) / 2, float(np.linalg.norm(high - low)) / 2
        return Piece("distance field", (0.0, 0.0, 0.0), radius, center, distances=sampled(found, data))
    if isinstance(found, shapes.BoundingSphere):
        return Piece("sphere", (found.radius, 0.0, 0.0), found.radius, pose=Pose(found.center, np.eye(3)))
    assert isinstance(found, shapes.BoundingBox)
    half = found.size / 2
    return Piece("box", three_of(half), float(np.linalg.norm(half)), pose=Pose(found.center, found.rotation))
