"""What a mesh is replaced by for collision: what USD's MeshCollisionAPI names, and distance fields."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from kinema.shapes.bounds import BoundingBox, BoundingSphere, bounding_sphere, oriented_box
from kinema.shapes.decompose import Decomposition, convex_parts
from kinema.shapes.distance.field import DEFAULT_RESOLUTION, DistanceField, distance_field
from kinema.shapes.flat import THICKNESS, is_flat, thickened
from kinema.shapes.mesh_data import MeshData, MeshError, ShapeError, check_mesh
from kinema.shapes.polytope import Polytope, polytope
from kinema.shapes.report import Report
from kinema.shapes.simplify import simplified

Piece = MeshData | Polytope | BoundingSphere | BoundingBox | DistanceField


@dataclass(frozen=True, kw_only=True)
class ApproximationOptions:
    """How closely a mesh is approximated."""

    max_hull_vertices: int | None = None
    """Of the convex hull (MJCF's `maxhullvert`); None for all."""
    decomposition: Decomposition = field(default_factory=Decomposition)
    max_faces: int = 500
    """Triangles of a simplified mesh, about."""
    field_resolution: int = DEFAULT_RESOLUTION
    """Cells of a distance field along its longest side."""


@dataclass(frozen=True, eq=False)
class Approximated:
    """What stands for a mesh, in the mesh's frame."""

    pieces: tuple[Piece, ...]
    notes: tuple[str, ...] = ()
    """What was done that nobody asked for, in plain sentences."""


def approximate(
    mesh: MeshData, how: str, options: ApproximationOptions | None = None, report: Report | None = None
) -> Approximated:
    """The pieces that stand for `mesh` in collisions.

    Args:
        mesh: its triangles [m].
        how: `none`, `convexHull`, `convexDecomposition`, `boundingSphere`, `boundingCube` (a box that is turned to
            fit), `meshSimplification`, or `sdf`.
        options: how closely.
        report: told how far it is, where it takes long.

    Raises:
        ShapeError: there is no such approximation.
        MeshError: the mesh cannot be used, or not approximated like this.
    """
    if how not in _WAYS:
        raise ShapeError(f"There is no approximation {how!r}; there are {', '.join(_WAYS)}.")
    check_mesh(mesh)
    notes: tuple[str, ...] = ()
    if how in _SOLID and is_flat(mesh):
        thicker = thickened(mesh)
        if thicker is None:
            raise MeshError("The points lie on one line, so there is nothing to collide with.")
        mesh = thicker
        notes = (f"The mesh is flat; it is given a thickness of {THICKNESS:g} of its size.",)
        if how == "convexDecomposition":
            how, notes = "convexHull", (*notes, "A flat mesh is not taken apart; its convex hull stands for it.")
    return Approximated(_WAYS[how](mesh, options or ApproximationOptions(), report), notes)


_SOLID = ("convexHull", "convexDecomposition", "boundingCube")
"""What takes a thickness."""

_WAYS: dict[str, Callable[[MeshData, ApproximationOptions, Report | None], tuple[Piece, ...]]] = {
    "none": lambda mesh, options, report: (mesh,),
    "convexHull": lambda mesh, options, report: (polytope(mesh, options.max_hull_vertices),),
    "convexDecomposition": lambda mesh, options, report: tuple(
        polytope(part) for part in convex_parts(mesh, options.decomposition, report)
    ),
    "boundingSphere": lambda mesh, options, report: (bounding_sphere(mesh),),
    "boundingCube": lambda mesh, options, report: (oriented_box(mesh),),
    "meshSimplification": lambda mesh, options, report: (simplified(mesh, options.max_faces),),
    "sdf": lambda mesh, options, report: (distance_field(mesh, resolution=options.field_resolution, report=report),),
}

APPROXIMATIONS = tuple(_WAYS)
"""The names that `approximate` knows."""
