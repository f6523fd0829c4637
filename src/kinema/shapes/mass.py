"""Mass, centre of mass and inertia of primitives and meshes.

Inertia tensors are those of dynamics, `I = integral of density * (|x|^2 1 - x x^T)`, about the centre of mass. Some
laws are simpler for the second moment `C = integral of density * x x^T`; the two carry the same information:
`C = tr(I)/2 1 - I` and `I = tr(C) 1 - C`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import pi

import numpy as np
from numpy.typing import ArrayLike

from kinema.shapes.mesh_data import FloatArray, MeshData, MeshError, ShapeError, float_matrix, float_vector

# Rounding of the volume of a flat mesh, relative to its area times its diameter.
_FLAT = 4e-15


@dataclass(frozen=True, eq=False)
class MassProperties:
    """Mass properties of a rigid piece of matter, in the frame its shape is given in."""

    mass: float
    """Mass [kg]; negative for a mesh whose faces point inward."""
    center: FloatArray
    """Centre of mass [m], shape (3,)."""
    inertia: FloatArray
    """Inertia about the centre of mass, along the axes of the frame [kg m^2], shape (3, 3), symmetric."""


# Primitives -----------------------------------------------------------------------------------------------------------


def box_mass(size: ArrayLike, density: float) -> MassProperties:
    """Solid box with full edge lengths `size` [m] at `density` [kg/m^3]."""
    x, y, z = _not_negative(size, 3, "box size")
    return _from_moments(density * x * y * z, x * x / 12, y * y / 12, z * z / 12)


def sphere_mass(radius: float, density: float) -> MassProperties:
    """Solid sphere of `radius` [m] at `density` [kg/m^3]."""
    return ellipsoid_mass((radius, radius, radius), density)


def ellipsoid_mass(radii: ArrayLike, density: float) -> MassProperties:
    """Solid ellipsoid with half axes `radii` [m] at `density` [kg/m^3]."""
    x, y, z = _not_negative(radii, 3, "ellipsoid radii")
    return _from_moments(density * 4 / 3 * pi * x * y * z, x * x / 5, y * y / 5, z * z / 5)


def capsule_mass(radius: float, length: float, density: float) -> MassProperties:
    """Solid capsule along z, `length` [m] without its round ends, at `density` [kg/m^3]."""
    radius, length = _not_negative((radius, length), 2, "capsule size")
    middle = density * pi * radius * radius * length
    ends = density * 4 / 3 * pi * radius * radius * radius
    across = middle * radius * radius / 4 + ends * radius * radius / 5
    # The two half spheres have their centres of mass 3/8 radius outside the cylinder's ends.
    along = middle * length * length / 12 + ends * (radius * radius / 5 + length * length / 4 + 3 * radius * length / 8)
    return _from_moments(1.0, across, across, along, mass=middle + ends)


def cylinder_mass(radius: float, length: float, density: float) -> MassProperties:
    """Solid cylinder along z of full `length` [m] at `density` [kg/m^3]."""
    radius, length = _not_negative((radius, length), 2, "cylinder size")
    across = radius * radius / 4
    return _from_moments(density * pi * radius * radius * length, across, across, length * length / 12)


def cone_mass(radius: float, length: float, density: float) -> MassProperties:
    """Solid cone along z, base at z = -length/2 and apex at +length/2 [m], at `density` [kg/m^3]."""
    radius, length = _not_negative((radius, length), 2, "cone size")
    across = 3 * radius * radius / 20
    properties = _from_moments(density * pi * radius * radius * length / 3, across, across, 3 * length * length / 80)
    return MassProperties(properties.mass, np.array([0.0, 0.0, -length / 4]), properties.inertia)


# Meshes ---------------------------------------------------------------------------------------------------------------


def mesh_mass_properties(mesh: MeshData, density: float) -> MassProperties:
    """What the mesh encloses, filled with `density` [kg/m^3].

    Exact for closed meshes; the mass is negative when the faces point inward. An open mesh encloses nothing definite:
    then the centre is that of the pyramids from the centroid of its surface to its faces, and mass and inertia are
    those of the pyramids from that centre (MuJoCo's "exact"). `mesh_quality` tells which case it is. Raises `MeshError`
    when the enclosed volume is zero to rounding.
    """
    return _solid_properties(mesh, density, unsigned=False)


def unsigned_mass_properties(mesh: MeshData, density: float) -> MassProperties:
    """A stand-in for meshes that are open or wound inconsistently: every pyramid counts as positive.

    Otherwise as `mesh_mass_properties` does for open meshes (MuJoCo's "legacy", its default). Right for closed meshes
    that are star-shaped about their middle, too heavy for others. Raises `MeshError` when the mesh is flat.
    """
    return _solid_properties(mesh, density, unsigned=True)


def shell_mass_properties(mesh: MeshData, area_density: float) -> MassProperties:
    """The faces themselves as a thin sheet of `area_density` [kg/m^2]; they may be open and wound in any way."""
    origin, corners = _centred_triangles(mesh)
    areas = _areas(corners)
    area = float(areas.sum())
    if area <= 0.0:
        raise MeshError("The mesh has no area.")
    # The origin is the centroid of the surface already.
    second = _second_moment(corners, areas) / 12
    return MassProperties(area_density * area, origin, area_density * inertia_from_second_moment(second))


def signed_volume(mesh: MeshData) -> float:
    """Volume enclosed [m^3]; negative when the faces point inward, meaningless when the mesh is open."""
    if mesh.n_faces == 0:
        return 0.0
    _, corners = _centred_triangles(mesh)
    return float(_pyramid_volumes(corners).sum())


# Laws -----------------------------------------------------------------------------------------------------------------


def combine(parts: Iterable[MassProperties]) -> MassProperties:
    """Mass properties of all `parts` together; they must be given in one frame. No parts: zero mass at the origin."""
    pieces = list(parts)
    mass = float(sum(piece.mass for piece in pieces))
    center = np.zeros(3)
    if mass != 0.0:
        center = sum((piece.mass * piece.center for piece in pieces), center) / mass
    inertia = np.zeros((3, 3))
    for piece in pieces:
        offset = piece.center - center
        inertia += piece.inertia + inertia_from_second_moment(piece.mass * np.outer(offset, offset))
    return MassProperties(mass, center, inertia)


def transform(properties: MassProperties, rotation: ArrayLike, translation: ArrayLike) -> MassProperties:
    """The same matter in another frame: a point x of the old frame is `rotation @ x + translation` [m] in the new."""
    turn = float_matrix(rotation, "rotation")
    center = turn @ properties.center + float_vector(translation, 3, "translation")
    return MassProperties(properties.mass, center, _symmetric(turn @ properties.inertia @ turn.T))


def under_linear_map(
    properties: MassProperties,
    matrix: ArrayLike,
    translation: ArrayLike = (0.0, 0.0, 0.0),
    *,
    keep_mass: bool = False,
) -> MassProperties:
    """Mass properties after the matter's shape is mapped by x -> `matrix @ x + translation` [m].

    Exact for any scale, shear or mirror of any shape, since the second moment maps as `A C A^T`. The density stays and
    the mass grows with |det matrix|; with `keep_mass` the mass stays instead.
    """
    linear = float_matrix(matrix, "linear map")
    growth = 1.0 if keep_mass else abs(float(np.linalg.det(linear)))
    second = growth * linear @ second_moment_from_inertia(properties.inertia) @ linear.T
    center = linear @ properties.center + float_vector(translation, 3, "translation")
    return MassProperties(growth * properties.mass, center, inertia_from_second_moment(_symmetric(second)))


def inertia_from_second_moment(second: FloatArray) -> FloatArray:
    """Inertia tensor [kg m^2] of a second moment [kg m^2]; both (3, 3), about the same point."""
    return np.trace(second) * np.eye(3) - second


def second_moment_from_inertia(inertia: FloatArray) -> FloatArray:
    """Second moment [kg m^2] of an inertia tensor [kg m^2]; both (3, 3), about the same point."""
    return np.trace(inertia) / 2 * np.eye(3) - inertia


# Helpers --------------------------------------------------------------------------------------------------------------


def _from_moments(weight: float, x: float, y: float, z: float, *, mass: float | None = None) -> MassProperties:
    """Centred shape from the mean squares of x, y and z [m^2] over its mass `weight` [kg].

    With a `weight` of 1 and the `mass` given apart, x, y and z are second moments [kg m^2].
    """
    inertia = np.array([[weight * (y + z), 0.0, 0.0], [0.0, weight * (x + z), 0.0], [0.0, 0.0, weight * (x + y)]])
    return MassProperties(weight if mass is None else mass, np.zeros(3), inertia)


def _solid_properties(mesh: MeshData, density: float, *, unsigned: bool) -> MassProperties:
    origin, corners = _centred_triangles(mesh)
    volumes = _pyramid_volumes(corners, unsigned=unsigned)
    volume = float(volumes.sum())
    if abs(volume) <= _FLAT * _area_times_diameter(corners):
        raise MeshError("The mesh encloses no volume.")
    # A tetrahedron's centre of mass is the mean of its corners, one of which is the origin.
    offset = np.einsum("i,ij->j", volumes, corners.sum(axis=1)) / (4 * volume)
    corners = corners - offset
    volumes = _pyramid_volumes(corners, unsigned=unsigned)
    second = _second_moment(corners, volumes) / 20
    return MassProperties(density * float(volumes.sum()), origin + offset, density * inertia_from_second_moment(second))


def _centred_triangles(mesh: MeshData) -> tuple[FloatArray, FloatArray]:
    """The centroid of the surface, and the corners (m, 3, 3) relative to it [m].

    Moments of a small mesh far from the origin cancel almost entirely; about a point amid it they do not.
    """
    if mesh.n_faces == 0:
        raise MeshError("The mesh has no triangles.")
    corners = mesh.triangles()
    mean = corners.reshape(-1, 3).mean(axis=0)
    corners = corners - mean
    areas = _areas(corners)
    area = float(areas.sum())
    if area <= 0.0:
        return mean, corners
    centroid = np.einsum("i,ij->j", areas, corners.sum(axis=1)) / (3 * area)
    return mean + centroid, corners - centroid


def _doubled_normals(corners: FloatArray) -> FloatArray:
    """Normals as long as twice the area of each face [m^2], shape (m, 3)."""
    return np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])


def _areas(corners: FloatArray) -> FloatArray:
    return np.linalg.norm(_doubled_normals(corners), axis=1) / 2


def _pyramid_volumes(corners: FloatArray, *, unsigned: bool = False) -> FloatArray:
    """Volumes of the tetrahedra from the origin to each face [m^3], shape (m,); negative where it sees the back."""
    volumes = np.einsum("ij,ij->i", corners[:, 0], _doubled_normals(corners)) / 6
    return np.abs(volumes) if unsigned else volumes


def _second_moment(corners: FloatArray, weights: FloatArray) -> FloatArray:
    """Sum of w (a a^T + b b^T + c c^T + s s^T), s = a + b + c, over faces (a, b, c) of weight w; shape (3, 3).

    A twelfth of it is the second moment of triangles of area w, a twentieth that of tetrahedra of volume w.
    """
    vectors = np.concatenate([corners, corners.sum(axis=1, keepdims=True)], axis=1)
    weighted = weights[:, None, None] * vectors
    return _symmetric(np.einsum("ijk,ijl->kl", weighted, vectors))


def _area_times_diameter(corners: FloatArray) -> float:
    points = corners.reshape(-1, 3)
    diameter = np.linalg.norm(points.max(axis=0) - points.min(axis=0))
    return float(_areas(corners).sum() * diameter)


def _symmetric(matrix: FloatArray) -> FloatArray:
    return (matrix + matrix.T) / 2


def _not_negative(values: ArrayLike, length: int, what: str) -> list[float]:
    array = float_vector(values, length, what)
    numbers: list[float] = array.tolist()
    if min(numbers) < 0:
        raise ShapeError(f"The {what} must not be negative, got {numbers}.")
    return numbers
