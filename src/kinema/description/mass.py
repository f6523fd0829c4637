"""Mass properties of shapes."""

from __future__ import annotations

from collections.abc import Sequence

from kinema import shapes
from kinema.foundation import Pose

from .link import Inertial
from .posed_meshes import mesh_data, tessellate
from .shape import Box, Capsule, Cone, Cylinder, Ellipsoid, Geometry, Mesh, Plane, Sphere


def geometry_mass(geometry: Geometry, density: float) -> shapes.MassProperties | None:
    """Mass properties of a solid geometry in its own frame; None where it has no volume.

    Exact for primitives and closed meshes. A mesh that is open, inside out or flat has the volume of its convex hull.
    """
    match geometry:
        case Box():
            return shapes.box_mass(geometry.size, density)
        case Sphere():
            return shapes.sphere_mass(geometry.radius, density)
        case Ellipsoid():
            return shapes.ellipsoid_mass(geometry.radii, density)
        case Capsule():
            return shapes.capsule_mass(geometry.radius, geometry.length, density)
        case Cylinder():
            return shapes.cylinder_mass(geometry.radius, geometry.length, density)
        case Cone():
            return shapes.cone_mass(geometry.radius, geometry.length, density)
        case Plane():
            return None
    mesh = mesh_data(geometry) if isinstance(geometry, Mesh) else tessellate(geometry)
    return None if mesh is None else _mesh_mass(mesh, density)


def is_solid(mesh: shapes.MeshData) -> bool:
    """Whether a mesh encloses a volume, seen from outside."""
    quality = shapes.mesh_quality(mesh)
    return quality.is_closed and not quality.is_inside_out and quality.volume > 0


def _mesh_mass(mesh: shapes.MeshData, density: float) -> shapes.MassProperties | None:
    try:
        return shapes.mesh_mass_properties(mesh if is_solid(mesh) else shapes.convex_hull(mesh), density)
    except shapes.ShapeError:
        return None  # flat or empty


def combined_inertial(parts: Sequence[tuple[shapes.MassProperties, Pose]]) -> Inertial | None:
    """The inertia of several posed pieces in their common frame; None for no mass."""
    posed = [shapes.transform(p, pose.rotation, pose.position) for p, pose in parts if p.mass > 0]
    if not posed:
        return None
    total = shapes.combine(posed)
    return Inertial(total.mass, total.center, total.inertia)
