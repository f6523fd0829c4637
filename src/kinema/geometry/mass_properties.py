"""Mass, centre of mass and inertia tensor of primitives and meshes (volume, unsigned volume or shell), and transforms.

Inertia tensors are `I = integral of density * (|x|^2 1 - x x^T)` about the centre of mass. Some computations use the
second moment of mass `C = integral of density * x x^T` instead, which is equivalent: `C = tr(I)/2 1 - I` and `I = tr(C)
1 - C`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import pi

import numpy as np
from numpy.typing import ArrayLike

from kinema.core import determinant3, reproducible_product, rotate_tensor

from .mesh import FloatArray, GeometryError, MeshData, MeshError, float_matrix_3x3, float_vector

# Volume below which a mesh counts as flat, relative to its area times its diameter (rounding error).
_ZERO_VOLUME_TOLERANCE = 4e-15


@dataclass(frozen=True, eq=False)
class MassProperties:
    """Mass, centre of mass and central inertia tensor of a rigid body, in the frame of its shape."""

    mass: float
    """Mass [kg]; negative for a mesh whose faces point inward."""
    center: FloatArray
    """Centre of mass [m], shape (3,)."""
    inertia: FloatArray
    """Inertia tensor about the centre of mass, in the axes of the frame [kg m^2], shape (3, 3), symmetric."""


# Primitives -----------------------------------------------------------------------------------------------------------


def box_mass_properties(size: ArrayLike, density: float) -> MassProperties:
    """Mass properties of a solid box with full edge lengths `size` (x, y, z) [m] at `density` [kg/m^3]."""
    x, y, z = _require_non_negative_vector(size, 3, "box size")
    return _from_central_moments(density * x * y * z, x * x / 12, y * y / 12, z * z / 12)


def sphere_mass_properties(radius: float, density: float) -> MassProperties:
    """Mass properties of a solid sphere of `radius` [m] at `density` [kg/m^3]."""
    return ellipsoid_mass_properties((radius, radius, radius), density)


def ellipsoid_mass_properties(radii: ArrayLike, density: float) -> MassProperties:
    """Mass properties of a solid ellipsoid with semi-axes `radii` (x, y, z) [m] at `density` [kg/m^3]."""
    x, y, z = _require_non_negative_vector(radii, 3, "ellipsoid radii")
    return _from_central_moments(density * 4 / 3 * pi * x * y * z, x * x / 5, y * y / 5, z * z / 5)


def capsule_mass_properties(radius: float, length: float, density: float) -> MassProperties:
    """Mass, centre of mass and inertia of a solid capsule along z at `density` [kg/m^3].

    `length` [m] is the length of the cylindrical part without the hemispherical caps of `radius` [m].
    """
    radius, length = _require_non_negative_vector((radius, length), 2, "capsule size")
    cylinder_mass = density * pi * radius * radius * length
    caps_mass = density * 4 / 3 * pi * radius * radius * radius
    moment_xy = cylinder_mass * radius * radius / 4 + caps_mass * radius * radius / 5
    # The centre of mass of a hemispherical cap is 3/8 radius outside the end of the cylinder.
    moment_z = cylinder_mass * length * length / 12 + caps_mass * (
        radius * radius / 5 + length * length / 4 + 3 * radius * length / 8
    )
    return _from_central_moments(1.0, moment_xy, moment_xy, moment_z, mass=cylinder_mass + caps_mass)


def cylinder_mass_properties(radius: float, length: float, density: float) -> MassProperties:
    """Mass properties of a solid cylinder along z of `radius` and full `length` [m] at `density` [kg/m^3]."""
    radius, length = _require_non_negative_vector((radius, length), 2, "cylinder size")
    moment_xy = radius * radius / 4
    return _from_central_moments(density * pi * radius * radius * length, moment_xy, moment_xy, length * length / 12)


def cone_mass_properties(radius: float, length: float, density: float) -> MassProperties:
    """Mass properties of a solid cone along z at `density` [kg/m^3].

    The base of `radius` [m] is at z = -length/2, the apex at z = +length/2 and the centre of mass at z = -length/4 [m].
    """
    radius, length = _require_non_negative_vector((radius, length), 2, "cone size")
    moment_xy = 3 * radius * radius / 20
    properties = _from_central_moments(
        density * pi * radius * radius * length / 3, moment_xy, moment_xy, 3 * length * length / 80
    )
    return MassProperties(properties.mass, np.array([0.0, 0.0, -length / 4]), properties.inertia)


# Meshes ---------------------------------------------------------------------------------------------------------------


def mesh_mass_properties(mesh: MeshData, density: float) -> MassProperties:
    """Mass properties of the solid enclosed by a closed mesh at `density` [kg/m^3].

    Sums signed tetrahedra from the surface centroid to the faces; exact for closed meshes, and the mass is negative if
    the faces are oriented inwards. For an open mesh, the centre is computed from the tetrahedra to the surface
    centroid, and mass and inertia from the tetrahedra to that centre (`inertia="exact"` in MuJoCo);
    `measure_mesh_quality` tells the cases apart. Raises `MeshError` if the enclosed volume is zero up to rounding.
    """
    return _volume_mass_properties(mesh, density, unsigned=False)


def unsigned_mesh_mass_properties(mesh: MeshData, density: float) -> MassProperties:
    """Mass properties of an open or inconsistently wound mesh from unsigned tetrahedra at `density` [kg/m^3].

    As `mesh_mass_properties`, but every tetrahedron has positive volume (`inertia="legacy"` in MuJoCo). Correct for
    closed meshes that are star-shaped about their centre, an overestimate otherwise. Raises `MeshError` for a planar
    mesh.
    """
    return _volume_mass_properties(mesh, density, unsigned=True)


def shell_mesh_mass_properties(mesh: MeshData, area_density: float) -> MassProperties:
    """Mass properties of the faces as a thin shell of `area_density` [kg/m^2]; winding and holes do not matter."""
    origin, corners = _centered_triangles(mesh)
    areas = _triangle_areas(corners)
    area = float(areas.sum())
    if area <= 0.0:
        raise MeshError("The mesh has no area.")
    # The corners are relative to the surface centroid, which is the centre of mass of the shell.
    second_moment = _weighted_second_moment(corners, areas) / 12
    return MassProperties(area_density * area, origin, area_density * inertia_from_second_moment(second_moment))


def signed_volume(mesh: MeshData) -> float:
    """Volume enclosed by a closed mesh [m^3]; negative if the faces are oriented inwards, meaningless if open."""
    if mesh.n_faces == 0:
        return 0.0
    _, corners = _centered_triangles(mesh)
    return float(_tetrahedron_volumes(corners).sum())


# Combination and transformation ---------------------------------------------------------------------------------------


def combine_mass_properties(parts: Iterable[MassProperties]) -> MassProperties:
    """Mass properties of the union of `parts` given in one frame (parallel axis theorem); zero mass if empty."""
    items = list(parts)
    mass = float(np.sum([item.mass for item in items]))  # sum() rounds otherwise since Python 3.12
    center = np.zeros(3)
    if mass != 0.0:
        center = sum((item.mass * item.center for item in items), center) / mass
    inertia = np.zeros((3, 3))
    for item in items:
        offset = item.center - center
        inertia += item.inertia + inertia_from_second_moment(item.mass * np.outer(offset, offset))
    return MassProperties(mass, center, inertia)


def transform_mass_properties(
    properties: MassProperties, rotation: ArrayLike, translation: ArrayLike
) -> MassProperties:
    """Mass properties in another frame, where x has the coordinates `rotation @ x + translation` [m]."""
    matrix = float_matrix_3x3(rotation, "rotation")
    center = reproducible_product(matrix, properties.center) + float_vector(translation, 3, "translation")
    return MassProperties(properties.mass, center, _symmetrize(rotate_tensor(matrix, properties.inertia)))


def apply_affine_to_mass_properties(
    properties: MassProperties,
    matrix: ArrayLike,
    translation: ArrayLike = (0.0, 0.0, 0.0),
    *,
    keep_mass: bool = False,
) -> MassProperties:
    """Mass properties of a body whose shape is mapped by x -> `matrix @ x + translation` [m].

    Exact for any scale, shear or reflection, since the second moment transforms as `A C A^T`. The density is preserved
    and the mass scales with |det matrix|; with `keep_mass` the mass is preserved instead.
    """
    linear = float_matrix_3x3(matrix, "linear map")
    mass_factor = 1.0 if keep_mass else abs(determinant3(linear))
    second_moment = mass_factor * rotate_tensor(linear, second_moment_from_inertia(properties.inertia))
    center = reproducible_product(linear, properties.center) + float_vector(translation, 3, "translation")
    return MassProperties(mass_factor * properties.mass, center, inertia_from_second_moment(_symmetrize(second_moment)))


def inertia_from_second_moment(second_moment: FloatArray) -> FloatArray:
    """Inertia tensor I = tr(C) 1 - C of a second moment of mass C [kg m^2]; both (3, 3), about the same point."""
    return np.trace(second_moment) * np.eye(3) - second_moment


def second_moment_from_inertia(inertia: FloatArray) -> FloatArray:
    """Second moment of mass C = tr(I)/2 1 - I of an inertia tensor I [kg m^2]; both (3, 3), about the same point."""
    return np.trace(inertia) / 2 * np.eye(3) - inertia


# Helpers --------------------------------------------------------------------------------------------------------------


def _from_central_moments(weight: float, x: float, y: float, z: float, *, mass: float | None = None) -> MassProperties:
    """Mass properties of a shape centred at the origin from its mean squares of x, y and z [m^2] and its mass.

    With a `weight` of 1 and a separate `mass`, x, y and z are second moments [kg m^2] instead.
    """
    inertia = np.array([[weight * (y + z), 0.0, 0.0], [0.0, weight * (x + z), 0.0], [0.0, 0.0, weight * (x + y)]])
    return MassProperties(weight if mass is None else mass, np.zeros(3), inertia)


def _volume_mass_properties(mesh: MeshData, density: float, *, unsigned: bool) -> MassProperties:
    """Mass, centre of mass and inertia of a solid mesh, as a sum over tetrahedra of the faces and a reference point.

    The centre of mass is found with the surface centroid as reference; volume and second moment are then recomputed
    with the centre of mass as reference. With `unsigned`, all tetrahedron volumes are positive. Raises `MeshError` for
    zero volume.
    """
    origin, corners = _centered_triangles(mesh)
    volumes = _tetrahedron_volumes(corners, unsigned=unsigned)
    volume = float(volumes.sum())
    if abs(volume) <= _ZERO_VOLUME_TOLERANCE * _area_times_diameter(corners):
        raise MeshError("The mesh encloses no volume.")
    # The centre of mass of a tetrahedron is the mean of its corners, one of which is the origin.
    offset = (volumes[:, None] * corners.sum(axis=1)).sum(axis=0) / (4 * volume)
    corners = corners - offset
    volumes = _tetrahedron_volumes(corners, unsigned=unsigned)
    second_moment = _weighted_second_moment(corners, volumes) / 20
    return MassProperties(
        density * float(volumes.sum()), origin + offset, density * inertia_from_second_moment(second_moment)
    )


def _centered_triangles(mesh: MeshData) -> tuple[FloatArray, FloatArray]:
    """Area centroid of the surface [m], shape (3,), and triangle corners relative to it, shape (m, 3, 3).

    Centring avoids the cancellation in the moments of a small mesh far from the origin. If the area is zero, the mean
    of the corners is used.
    """
    if mesh.n_faces == 0:
        raise MeshError("The mesh has no triangles.")
    corners = mesh.triangles()
    mean = corners.reshape(-1, 3).mean(axis=0)
    corners = corners - mean
    areas = _triangle_areas(corners)
    area = float(areas.sum())
    if area <= 0.0:
        return mean, corners
    centroid = (areas[:, None] * corners.sum(axis=1)).sum(axis=0) / (3 * area)
    return mean + centroid, corners - centroid


def _double_area_normals(corners: FloatArray) -> FloatArray:
    """Face normals scaled to twice the face area [m^2], shape (m, 3)."""
    return np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])


def _triangle_areas(corners: FloatArray) -> FloatArray:
    return np.linalg.norm(_double_area_normals(corners), axis=1) / 2


def _tetrahedron_volumes(corners: FloatArray, *, unsigned: bool = False) -> FloatArray:
    """Signed volumes of the tetrahedra from the origin to each face [m^3], shape (m,); absolute if `unsigned`."""
    volumes = (corners[:, 0] * _double_area_normals(corners)).sum(axis=1) / 6
    return np.abs(volumes) if unsigned else volumes


def _weighted_second_moment(corners: FloatArray, weights: FloatArray) -> FloatArray:
    """Sum of w (a a^T + b b^T + c c^T + s s^T), s = a + b + c, over faces (a, b, c) of weight w; shape (3, 3).

    Divided by 12, the second moment of triangles of area w; divided by 20, of tetrahedra of volume w with apex at the
    origin.
    """
    vectors = np.concatenate([corners, corners.sum(axis=1, keepdims=True)], axis=1)
    weighted = weights[:, None, None] * vectors
    return _symmetrize(
        np.array([[(weighted[..., k] * vectors[..., m]).sum() for m in range(3)] for k in range(3)], np.float64)
    )


def _area_times_diameter(corners: FloatArray) -> float:
    points = corners.reshape(-1, 3)
    diameter = np.linalg.norm(points.max(axis=0) - points.min(axis=0))
    return float(_triangle_areas(corners).sum() * diameter)


def _symmetrize(matrix: FloatArray) -> FloatArray:
    return (matrix + matrix.T) / 2


def _require_non_negative_vector(values: ArrayLike, length: int, quantity: str) -> list[float]:
    """Convert `values` to a list of `length` floats; `GeometryError` naming `quantity` if one is negative."""
    array = float_vector(values, length, quantity)
    result: list[float] = array.tolist()
    if min(result) < 0:
        raise GeometryError(f"The {quantity} must not be negative, got {result}.")
    return result
