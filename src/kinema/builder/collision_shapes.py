"""Collision shapes of description shapes: primitives, convex hulls, convex decompositions, SDFs and height fields.

Mesh approximations are cached on disk, keyed by the digest of the mesh and the approximation options.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from kinema import geometry
from kinema.core import Array, Diagnostics, Pose, content_digest, load_or_compute, reproducible_norm, source_digest
from kinema.description import (
    Approximation,
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
    mesh_digest,
)
from kinema.model import PackedHulls, Polyhedron, SampledSdf, pack_hulls

# ----------------------------------------------------------------------------------------------------- collision shapes


@dataclass(frozen=True, slots=True, eq=False)
class CollisionShape:
    """A primitive, convex hull, height field or signed distance field used for collision detection."""

    type: str
    """One of `GEOM_TYPES`."""
    size: tuple[float, float, float]
    """Size parameters of the type: radius, half lengths [m]."""
    radius: float
    """Radius of the bounding sphere [m]."""
    center: Array = field(default_factory=lambda: np.zeros(3))
    """Centre of the bounding sphere [m], (3,)."""
    pose: Pose = field(default_factory=Pose)
    """Pose in the frame of the described shape."""
    hull: PackedHulls | None = None
    """Convex hull of a mesh."""
    heights: Array | None = None
    """Heights of a height field [m], (rows, columns)."""
    sdf: SampledSdf | None = None
    """Sampled signed distance field of a mesh."""


def as_triple(values: Array) -> tuple[float, float, float]:
    """The three components of an array as floats."""
    x, y, z = (float(v) for v in values)
    return x, y, z


def shapes_to_cache_values(collision_shapes: Sequence[CollisionShape]) -> dict[str, Any]:
    """Encode the collision shapes of a mesh as named values (JSON values and arrays) of a disk cache entry.

    Inverse of `shapes_from_cache_values`. Height fields are not supported.
    """
    values: dict[str, Any] = {"shapes": []}
    for i, shape in enumerate(collision_shapes):
        record: dict[str, Any] = {"type": shape.type, "size": shape.size, "radius": shape.radius}
        arrays = {"center": shape.center, "position": shape.pose.position, "rotation": shape.pose.rotation}
        hull, grid = shape.hull, shape.sdf
        if hull is not None:
            record["hull"] = [hull.starts, hull.n_vertices, hull.n_faces, hull.bounding_radii]
            arrays["hull_data"] = hull.data
        if grid is not None:
            record["grid"] = [grid.n_nodes, grid.cell_size]
            arrays |= {name: getattr(grid, name) for name in _SDF_ARRAYS}
        values["shapes"].append(record)
        values |= {f"{i} {name}": np.asarray(x) for name, x in arrays.items()}
    return values


def shapes_from_cache_values(values: Mapping[str, Any]) -> list[CollisionShape]:
    """Decode collision shapes from the values of a cache entry; inverse of `shapes_to_cache_values`."""
    shapes = []
    for i, record in enumerate(values["shapes"]):
        hull = grid = None
        if "hull" in record:
            hull = PackedHulls(values[f"{i} hull_data"], *(tuple(x) for x in record["hull"]))
        if "grid" in record:
            n_nodes, cell_size = record["grid"]
            grid = SampledSdf(tuple(n_nodes), cell_size, *(values[f"{i} {name}"] for name in _SDF_ARRAYS))
        pose = Pose(values[f"{i} position"], values[f"{i} rotation"])
        size, center = tuple(record["size"]), values[f"{i} center"]
        shapes.append(CollisionShape(record["type"], size, record["radius"], center, pose, hull, sdf=grid))
    return shapes


_SDF_ARRAYS = ("origin", "values", "gradients", "closest_vertices", "contact_sample_points")
"""Array fields of `SampledSdf`, in the order of its constructor."""


# ----------------------------------------------------------------------------------- approximation of non-convex meshes

NONCONVEX_APPROXIMATIONS = {
    "hull": Approximation.CONVEX_HULL,
    "decompose": Approximation.CONVEX_DECOMPOSITION,
    "sdf": Approximation.SDF,
}
"""Approximations of non-convex meshes that a user can choose, by name."""
EXACT_APPROXIMATIONS = (Approximation.NONE, Approximation.MESH_SIMPLIFICATION)
"""Approximations that ask for the exact triangles: non-convex meshes are represented by a signed distance field."""
NONCONVEX_HINT = 'Scene(nonconvex="sdf") or scene.add(..., nonconvex="decompose") keeps concavities'
"""Hint of the note that a non-convex mesh collides as its convex hull."""
NONCONVEX_VOLUME_RATIO = 1.3
"""A mesh counts as non-convex if the volume of its convex hull exceeds its own by this factor."""


def choose_mesh_approximation(
    mesh: Mesh, data: geometry.MeshData, nonconvex: str | None
) -> tuple[geometry.MeshData, str, str]:
    """Choose the collision approximation of a mesh: hull, decomposition, SDF or the choice of the file.

    The user's choice `nonconvex` applies to non-convex meshes whose file asks for the convex hull, for exact triangles
    or for nothing. The default is the convex hull, as in MuJoCo. Returns the mesh (simplified if the file asks for
    simplification), the approximation as a value of `Approximation`, and a note if a non-convex mesh is replaced by its
    hull without being asked for.
    """
    approximation = mesh.approximation
    if approximation == Approximation.MESH_SIMPLIFICATION:
        (simplified,) = geometry.approximate_for_collision(data, approximation.value).geometries
        assert isinstance(simplified, geometry.MeshData)
        data = simplified
    if approximation not in (None, Approximation.CONVEX_HULL, *EXACT_APPROXIMATIONS):
        return data, approximation.value, ""
    volume_ratio = _hull_volume_ratio(data)
    if approximation in EXACT_APPROXIMATIONS:
        return (
            data,
            (
                NONCONVEX_APPROXIMATIONS[nonconvex or "sdf"]
                if volume_ratio > NONCONVEX_VOLUME_RATIO
                else Approximation.CONVEX_HULL
            ).value,
            "",
        )
    if volume_ratio > NONCONVEX_VOLUME_RATIO:
        if nonconvex is not None:
            return data, NONCONVEX_APPROXIMATIONS[nonconvex].value, ""
        note = f"is not convex: it collides as its convex hull, which has {volume_ratio:.2g} times its volume"
        return data, Approximation.CONVEX_HULL.value, note
    return data, Approximation.CONVEX_HULL.value, ""


def _hull_volume_ratio(data: geometry.MeshData) -> float:
    """Ratio of the volume of the convex hull to the volume of a mesh; 1 for a planar mesh."""
    if geometry.is_planar(data):
        return 1.0
    volume, hull_volume = abs(geometry.signed_volume(data)), geometry.signed_volume(geometry.convex_hull(data))
    return float(hull_volume / max(volume, 1e-9 * hull_volume))


def sdf_mesh(mesh: Mesh, nonconvex: str | None) -> geometry.MeshData:
    """Triangles from which the signed distance field of a mesh is computed; simplified if its file asks for it."""
    data = mesh_data(mesh)
    assert data is not None
    return choose_mesh_approximation(mesh, geometry.validate_mesh(data), nonconvex)[0]


def to_sampled_sdf(sdf: geometry.SignedDistanceField, mesh: geometry.MeshData) -> SampledSdf:
    """Combine a signed distance field with the contact sample points of its mesh."""
    x, y, z = (int(n) for n in sdf.n_nodes)
    return SampledSdf(
        n_nodes=(x, y, z),
        cell_size=sdf.cell_size,
        origin=sdf.origin,
        values=sdf.values,
        gradients=sdf.gradients,
        closest_vertices=sdf.closest_vertices,
        contact_sample_points=geometry.contact_sample_points(mesh),
    )


# ------------------------------------------------------------------------------------------- cached mesh approximations

CACHE_SOURCES = ("core", "geometry", "description", "model", "builder")
"""Packages whose source code determines cached approximations."""


@dataclass(frozen=True, slots=True, eq=False)
class MeshApproximation:
    """Collision shapes that approximate a mesh, with notes for the user."""

    collision_shapes: list[CollisionShape]
    nonconvex_note: str
    """Note that a non-convex mesh is represented by its convex hull, or empty."""
    notes: tuple[str, ...]
    """Notes of the approximation algorithm."""


class UnusableMeshError(geometry.GeometryError):
    """A mesh cannot be approximated for collision."""

    def __init__(self, reason: str, nonconvex_note: str) -> None:
        super().__init__(reason)
        self.nonconvex_note = nonconvex_note
        """As in `MeshApproximation`."""


def approximate_mesh(mesh: Mesh, nonconvex: str | None) -> MeshApproximation:
    """Collision approximation of a mesh, from the disk cache or computed and stored.

    Args:
        mesh: triangles and approximation options.
        nonconvex: the user's choice for non-convex meshes (`EntitySpec.nonconvex`).

    Raises:
        GeometryError: the mesh file is missing or the mesh is unusable; failures are not cached.
    """
    options = (mesh.approximation, nonconvex, mesh.max_hull_vertices, mesh.sdf_resolution)
    digest = mesh_digest(mesh)
    if digest is None:
        raise geometry.MeshError("Its file was not found.")
    key = content_digest("collision shapes", source_digest(*CACHE_SOURCES), digest, options)
    values = load_or_compute("geometry", key, lambda: _compute_approximation(mesh, nonconvex), keep_in_memory=True)
    return MeshApproximation(shapes_from_cache_values(values), values["nonconvex_note"], tuple(values["notes"]))


def _compute_approximation(mesh: Mesh, nonconvex: str | None) -> Mapping[str, Any]:
    """Load and validate a mesh and compute its collision approximation: hull, decomposition, SDF, sphere or box.

    Returns the values of its cache entry. Raises UnusableMeshError if the approximation fails.
    """
    data = mesh_data(mesh)
    assert data is not None
    data, approximation, nonconvex_note = choose_mesh_approximation(mesh, geometry.validate_mesh(data), nonconvex)
    options = geometry.ApproximationOptions(max_hull_vertices=mesh.max_hull_vertices)
    if mesh.sdf_resolution is not None:
        options = replace(options, sdf_resolution=mesh.sdf_resolution)
    try:
        result = geometry.approximate_for_collision(data, approximation, options)
    except geometry.GeometryError as error:
        raise UnusableMeshError(str(error), nonconvex_note) from error
    shapes = [_to_collision_shape(part, data) for part in result.geometries]
    return {**shapes_to_cache_values(shapes), "nonconvex_note": nonconvex_note, "notes": list(result.notes)}


def _to_collision_shape(approximation: object, mesh: geometry.MeshData) -> CollisionShape:
    """Convert a polytope, SDF, bounding sphere or oriented bounding box to a `CollisionShape`.

    `mesh` is the source mesh of an SDF.
    """
    if isinstance(approximation, geometry.Polytope):
        low, high = approximation.vertices.min(axis=0), approximation.vertices.max(axis=0)
        center = (low + high) / 2
        radius = float(np.linalg.norm(approximation.vertices - center, axis=1).max())
        faces = [approximation.face_vertices(i).tolist() for i in range(approximation.n_faces)]
        hull = pack_hulls([Polyhedron(approximation.vertices, faces, approximation.normals)])
        return CollisionShape("mesh", (0.0, 0.0, 0.0), radius, center, hull=hull)
    if isinstance(approximation, geometry.SignedDistanceField):
        low, high = mesh.vertices[mesh.faces].min(axis=(0, 1)), mesh.vertices[mesh.faces].max(axis=(0, 1))
        center, radius = (low + high) / 2, reproducible_norm(high - low) / 2
        return CollisionShape(
            "distance field", (0.0, 0.0, 0.0), radius, center, sdf=to_sampled_sdf(approximation, mesh)
        )
    if isinstance(approximation, geometry.BoundingSphere):
        return CollisionShape(
            "sphere", (approximation.radius, 0.0, 0.0), approximation.radius, pose=Pose(approximation.center, np.eye(3))
        )
    assert isinstance(approximation, geometry.OrientedBoundingBox)
    half = approximation.size / 2
    return CollisionShape(
        "box", as_triple(half), reproducible_norm(half), pose=Pose(approximation.center, approximation.rotation)
    )


# ----------------------------------------------------------------------------------------------- shapes of descriptions


def make_collision_shapes(
    shape: Shape, label: str, diagnostics: Diagnostics, nonconvex: str | None = None
) -> list[CollisionShape]:
    """Collision shapes of a description shape: its primitive, or the approximation of its mesh.

    Empty, with a warning, if the mesh is unusable. `label` names the shape in messages, `nonconvex` is the user's
    choice for non-convex meshes (`EntitySpec.nonconvex`).
    """
    shape_geometry = shape.geometry
    match shape_geometry:
        case Sphere():
            return [CollisionShape("sphere", (shape_geometry.radius, 0.0, 0.0), shape_geometry.radius)]
        case Capsule():
            half = shape_geometry.length / 2
            return [CollisionShape("capsule", (shape_geometry.radius, half, 0.0), shape_geometry.radius + half)]
        case Cylinder() | Cone():
            geom_type, half = "cylinder" if isinstance(shape_geometry, Cylinder) else "cone", shape_geometry.length / 2
            return [
                CollisionShape(
                    geom_type, (shape_geometry.radius, half, 0.0), reproducible_norm((shape_geometry.radius, half))
                )
            ]
        case Ellipsoid():
            return [CollisionShape("ellipsoid", as_triple(shape_geometry.radii), float(shape_geometry.radii.max()))]
        case Box():
            return [
                CollisionShape("box", as_triple(shape_geometry.size / 2), reproducible_norm(shape_geometry.size / 2))
            ]
        case Plane():
            return [CollisionShape("plane", (0.0, 0.0, 0.0), np.inf)]
        case HeightField():
            return [_height_field_shape(shape_geometry)]
        case Mesh():
            return _mesh_collision_shapes(shape, label, shape_geometry, diagnostics, nonconvex)


def _height_field_shape(height_field: HeightField) -> CollisionShape:
    """Collision shape of a height field: half sizes and base depth [m], heights, and its bounding sphere."""
    half = np.array(height_field.size) / 2
    low, high = -height_field.base, float(height_field.heights.max(initial=0.0))
    center = np.array([0.0, 0.0, (low + high) / 2])
    radius = reproducible_norm([*half, (high - low) / 2])
    size = (float(half[0]), float(half[1]), height_field.base)
    return CollisionShape("height field", size, radius, center, heights=np.asarray(height_field.heights, np.float64))


def _mesh_collision_shapes(
    shape: Shape, label: str, mesh: Mesh, diagnostics: Diagnostics, nonconvex: str | None
) -> list[CollisionShape]:
    """Collision shapes that approximate a mesh, reporting notes; empty, with a warning, for an unusable mesh."""
    try:
        approximation = approximate_mesh(mesh, nonconvex)
    except geometry.GeometryError as error:
        if isinstance(error, UnusableMeshError):
            _note_nonconvex(shape, label, error.nonconvex_note, diagnostics)
        message = f"the mesh of {label} collides with nothing: {error}"
        diagnostics.warning("sim.no-contact", message, origin=shape.origin)
        return []
    _note_nonconvex(shape, label, approximation.nonconvex_note, diagnostics)
    for note in approximation.notes:
        diagnostics.note("sim.hull", f"{label}: {note}", origin=shape.origin)
    return approximation.collision_shapes


def _note_nonconvex(shape: Shape, label: str, nonconvex_note: str, diagnostics: Diagnostics) -> None:
    if nonconvex_note:
        diagnostics.note("sim.hull", f"the mesh of {label} {nonconvex_note}", hint=NONCONVEX_HINT, origin=shape.origin)
