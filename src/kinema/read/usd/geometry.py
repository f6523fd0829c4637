"""Geometry of gprims under any linear map: a primitive where the map allows it, otherwise an exact mesh."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from kinema import geometry as geo
from kinema.core import (
    Array,
    Pose,
    reproducible_inverse,
    reproducible_norm,
    reproducible_product,
    sine_cosine,
    sines_cosines,
    singular_value_decomposition,
)
from kinema.description import Approximation, Box, Capsule, Cone, Cylinder, Ellipsoid, Geometry, Mesh, Plane, Sphere
from kinema.tokens import usd, usd_physics

from . import pxr
from .kinema_attributes import original_geometry
from .stage_index import StageIndex
from .transforms import Affine, is_reflection, is_singular, polar_decomposition, uniform_scale

_SCALE_TOLERANCE = 2e-6
"""Relative tolerance of equal scales: the error of orthogonality of single-precision rotations."""


class PlacedGeometry(NamedTuple):
    """Geometry with its pose in the link frame."""

    geometry: Geometry
    pose: Pose
    became_mesh: str = ""
    """Original primitive type if the mapped shape is no primitive and became a mesh."""


class PrimGeometryError(Exception):
    """Invalid geometry prim."""


_AXIS_ROTATIONS = {
    "X": np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]),
    "Y": np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]),
    "Z": np.eye(3),
}
"""Axis token -> proper rotation (cyclic permutation) that maps z to that axis."""


def read_geometry(index: StageIndex, prim: pxr.Prim, into_link: Affine) -> PlacedGeometry | None:
    """Geometry of a gprim in its link frame under an affine map; None for unsupported prim types.

    Args:
        index: the stage.
        prim: a Gprim.
        into_link: map from the prim's local coordinates (stage units) to the link frame (metres).
    """
    original = original_geometry(index, prim, into_link)
    if original is not None:
        return PlacedGeometry(*original)
    make = _GEOMETRY_READERS.get(index.values.facts(prim).kind.type)
    if make is None:
        return None
    if not into_link.is_finite or is_singular(into_link.linear):
        raise PrimGeometryError("its transform is not finite, or flattens it")
    try:
        return make(index, prim, into_link)
    except geo.GeometryError as error:
        raise PrimGeometryError(str(error)) from None


def _cube(index: StageIndex, prim: pxr.Prim, into_link: Affine) -> PlacedGeometry:
    """Box, or a mesh if the map shears it."""
    size = _positive(index, prim, usd.SIZE)
    lengths = _orthogonal_column_lengths(into_link.linear)
    if lengths is not None:
        scale = np.array(lengths)
        return PlacedGeometry(Box(size * scale), Pose(into_link.offset, _proper_rotation(into_link.linear / scale)))
    return _mesh_under_map(geo.box([size] * 3), into_link, "cube")


def _sphere(index: StageIndex, prim: pxr.Prim, into_link: Affine) -> PlacedGeometry:
    """Sphere or ellipsoid (the image of a sphere under any linear map, from the SVD)."""
    radius = _positive(index, prim, usd.RADIUS)
    # L = U diag(s) V^T, and V^T preserves the sphere
    size = uniform_scale(into_link.linear)
    if size:
        return PlacedGeometry(Sphere(radius * abs(size)), Pose(into_link.offset, into_link.linear / size))
    u, s, _ = singular_value_decomposition(into_link.linear)
    if s[0] - s[2] <= _SCALE_TOLERANCE * s[0]:
        return PlacedGeometry(
            Sphere(radius * float(s.mean())), Pose(into_link.offset, polar_decomposition(into_link.linear)[0])
        )
    lengths = _orthogonal_column_lengths(into_link.linear)
    if lengths is not None:
        scale = np.array(lengths)
        return PlacedGeometry(
            Ellipsoid(radius * scale), Pose(into_link.offset, _proper_rotation(into_link.linear / scale))
        )
    return PlacedGeometry(Ellipsoid(radius * s), Pose(into_link.offset, _proper_rotation(u)))


def _capsule(index: StageIndex, prim: pxr.Prim, into_link: Affine) -> PlacedGeometry:
    """Capsule, or a mesh under non-uniform scale."""
    radius, height = _positive(index, prim, usd.RADIUS), _nonnegative(index, prim, usd.HEIGHT)
    along, scales = _axial_scales(index, prim, into_link)
    if scales is not None and abs(scales[0] - scales[1]) <= _SCALE_TOLERANCE * scales[0]:
        return PlacedGeometry(Capsule(radius * scales[0], height * scales[0]), Pose(into_link.offset, along))
    return _mesh_under_map(geo.capsule(radius, height), _along_axis(index, prim, into_link), "capsule")


def _cylinder(index: StageIndex, prim: pxr.Prim, into_link: Affine) -> PlacedGeometry:
    """Cylinder, or a mesh if the map does not preserve its symmetry."""
    radius, height = _positive(index, prim, usd.RADIUS), _positive(index, prim, usd.HEIGHT)
    along, scales = _axial_scales(index, prim, into_link)
    if scales is not None:
        return PlacedGeometry(Cylinder(radius * scales[0], height * scales[1]), Pose(into_link.offset, along))
    return _mesh_under_map(geo.cylinder(radius, height), _along_axis(index, prim, into_link), "cylinder")


def _cone(index: StageIndex, prim: pxr.Prim, into_link: Affine) -> PlacedGeometry:
    """Cone, or a mesh if the map does not preserve its symmetry."""
    radius, height = _positive(index, prim, usd.RADIUS), _positive(index, prim, usd.HEIGHT)
    along, scales = _axial_scales(index, prim, into_link)
    if scales is not None:
        return PlacedGeometry(Cone(radius * scales[0], height * scales[1]), Pose(into_link.offset, along))
    return _mesh_under_map(geo.cone(radius, height), _along_axis(index, prim, into_link), "cone")


def _tapered_reader(kind: str) -> Callable[[StageIndex, pxr.Prim, Affine], PlacedGeometry]:
    """Reader of Capsule_1 and Cylinder_1, which have separate top and bottom radii."""

    def make(index: StageIndex, prim: pxr.Prim, into: Affine) -> PlacedGeometry:
        top, bottom = _positive(index, prim, usd.RADIUS_TOP), _positive(index, prim, usd.RADIUS_BOTTOM)
        height = _nonnegative(index, prim, usd.HEIGHT)
        along, scales = _axial_scales(index, prim, into)
        if top == bottom and scales is not None:
            if kind == "cylinder":
                return PlacedGeometry(Cylinder(top * scales[0], height * scales[1]), Pose(into.offset, along))
            if abs(scales[0] - scales[1]) <= _SCALE_TOLERANCE * scales[0]:
                return PlacedGeometry(Capsule(top * scales[0], height * scales[0]), Pose(into.offset, along))
        mesh = _tapered_mesh(top, bottom, height, rounded=kind == "capsule")
        return _mesh_under_map(mesh, _along_axis(index, prim, into), kind)

    return make


def _tapered_mesh(top: float, bottom: float, height: float, *, rounded: bool) -> geo.MeshData:
    """Convex hull of a truncated cone along z, with hemispheres at its ends if `rounded`."""
    sines, cosines = sines_cosines(np.linspace(0, 2 * np.pi, 33)[:-1])
    latitudes = np.linspace(0, np.pi / 2, 9) if rounded else np.zeros(1)
    points: list[Array] = []
    for radius, z, sign in ((top, height / 2, 1.0), (bottom, -height / 2, -1.0)):
        for latitude in latitudes:
            sine, cosine = sine_cosine(float(latitude))
            level = np.full_like(sines, z + sign * radius * sine * rounded)
            points.append(np.column_stack([radius * cosine * cosines, radius * cosine * sines, level]))
    cloud = np.vstack(points)
    return geo.convex_hull(geo.MeshData(cloud, np.array([[0, 1, 2]])))


def _plane(index: StageIndex, prim: pxr.Prim, into_link: Affine) -> PlacedGeometry:
    """Plane with its normal mapped by the inverse transpose."""
    turned = _along_axis(index, prim, into_link).linear
    # the inverse transpose keeps the normal perpendicular under shear
    normal = reproducible_inverse(turned)[2].copy()
    normal *= -1.0 if is_reflection(turned) else 1.0
    z = normal / reproducible_norm(normal)
    x = turned[:, 0] - z * (z * turned[:, 0]).sum()
    x /= reproducible_norm(x)
    rotation = np.column_stack([x, np.cross(z, x), z])
    width, length = index.authored(prim, usd.WIDTH), index.authored(prim, usd.LENGTH)
    size = None
    if width is not None and length is not None:
        lengths = np.linalg.norm(turned, axis=0)
        size = (float(width) * float(lengths[0]), float(length) * float(lengths[1]))
    return PlacedGeometry(Plane(size), Pose(into_link.offset, rotation))


def _mesh(index: StageIndex, prim: pxr.Prim, into_link: Affine) -> PlacedGeometry:
    """Mesh with the symmetric part of the map baked in; instances with equal scale share vertices."""
    rotation, scale = polar_decomposition(into_link.linear)
    source = prim.GetPrimInPrototype() if prim.IsInstanceProxy() else prim
    exponent = math.frexp(float(np.abs(scale).max()))[1]
    path = str(source.GetPath())
    key = (index.instances.prototype_path(path) or path, exponent, np.round(np.ldexp(scale, -exponent), 13).tobytes())
    mesh = index.meshes.get(key)
    if mesh is None:
        data = _mesh_data(index, prim)
        index.points_left -= data.n_vertices
        if index.points_left < 0:
            raise PrimGeometryError("the meshes of the stage have too many points together")
        baked = geo.apply_affine(data, scale)
        mesh = index.meshes[key] = Mesh(vertices=baked.vertices, faces=baked.faces)
    return PlacedGeometry(mesh, Pose(into_link.offset, rotation))


def _mesh_data(index: StageIndex, prim: pxr.Prim) -> geo.MeshData:
    """Validated triangles of a mesh prim in local coordinates; raises `PrimGeometryError`."""
    points = np.asarray(index.value(prim, usd.POINTS) or (), dtype=np.float64).reshape(-1, 3)
    counts, indices = read_polygons(index, prim)
    if len(points) == 0 or len(counts) == 0:
        raise PrimGeometryError("the mesh has no points or no faces")
    if (counts < 0).any() or counts.sum() != len(indices):
        raise PrimGeometryError(f"faceVertexCounts add up to {counts.sum()}, but there are {len(indices)} indices")
    if len(indices) and (indices.min() < 0 or indices.max() >= len(points)):
        raise PrimGeometryError(f"a face refers to point {int(indices.max())} of {len(points)}")
    if not np.isfinite(points).all():
        raise PrimGeometryError("points hold NaN or infinity")
    faces = fan_triangulate(counts, indices)
    if len(faces) == 0:
        raise PrimGeometryError("none of its faces has three corners")
    if index.value(prim, usd.ORIENTATION) == usd.LEFT_HANDED:
        faces = faces[:, ::-1]
    return geo.MeshData(points, faces)


def read_polygons(index: StageIndex, prim: pxr.Prim) -> tuple[np.ndarray, np.ndarray]:
    """Face vertex counts and indices of a mesh; the result for the last mesh is cached."""
    if index.last_polygons is None or index.last_polygons[0] != prim:
        counts = np.asarray(index.value(prim, usd.FACE_VERTEX_COUNTS) or (), dtype=np.int64)
        indices = np.asarray(index.value(prim, usd.FACE_VERTEX_INDICES) or (), dtype=np.int64)
        index.last_polygons = (prim, counts, indices)
    return index.last_polygons[1:]


def fan_triangulate(counts: np.ndarray, indices: np.ndarray) -> np.ndarray:
    """Triangulate polygons as fans with corners 0, i, i + 1; shape (n, 3)."""
    if (counts == 3).all():
        return indices.reshape(-1, 3)
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    n_triangles = np.maximum(counts - 2, 0)
    face_of = np.repeat(np.arange(len(counts)), n_triangles)
    first = np.cumsum(n_triangles) - n_triangles
    step = np.arange(n_triangles.sum()) - first[face_of]
    base = starts[face_of]
    return np.column_stack([indices[base], indices[base + step + 1], indices[base + step + 2]])


_GEOMETRY_READERS: dict[str, Callable[[StageIndex, pxr.Prim, Affine], PlacedGeometry]] = {
    usd.CUBE: _cube,
    usd.SPHERE: _sphere,
    usd.CAPSULE: _capsule,
    usd.CYLINDER: _cylinder,
    usd.CONE: _cone,
    usd.TAPERED_CAPSULE: _tapered_reader("capsule"),
    usd.TAPERED_CYLINDER: _tapered_reader("cylinder"),
    usd.PLANE: _plane,
    usd.MESH: _mesh,
}


# -- mesh helpers ------------------------------------------------------------------------------------------------------


def _mesh_under_map(mesh: geo.MeshData, into_link: Affine, kind: str) -> PlacedGeometry:
    """Mesh with the symmetric part of the map baked in and the rotation as pose."""
    rotation, scale = polar_decomposition(into_link.linear)
    baked = geo.apply_affine(mesh, scale)
    return PlacedGeometry(Mesh(vertices=baked.vertices, faces=baked.faces), Pose(into_link.offset, rotation), kind)


def _along_axis(index: StageIndex, prim: pxr.Prim, into_link: Affine) -> Affine:
    """The map composed with the rotation from z to the axis of the prim."""
    return Affine(reproducible_product(into_link.linear, _AXIS_ROTATIONS[_axis_token(index, prim)]), into_link.offset)


def _axis_token(index: StageIndex, prim: pxr.Prim) -> str:
    axis = str(index.value(prim, usd.AXIS) or usd.Z_AXIS)
    if axis not in _AXIS_ROTATIONS:
        raise PrimGeometryError(f"its axis is {axis!r}")
    return axis


def _axial_scales(index: StageIndex, prim: pxr.Prim, into_link: Affine) -> tuple[Array, tuple[float, float] | None]:
    """Rotation, and radial and axial scale of a shape of revolution; scales are None if symmetry is lost."""
    turned = _along_axis(index, prim, into_link).linear
    lengths = _orthogonal_column_lengths(turned)
    if lengths is None or abs(lengths[0] - lengths[1]) > _SCALE_TOLERANCE * max(lengths):
        return np.eye(3), None
    frame = turned / np.array(lengths)
    if is_reflection(frame):
        frame[:, 0] = -frame[:, 0]  # a reflection through a plane containing the axis preserves the shape
    return polar_decomposition(frame)[0], ((lengths[0] + lengths[1]) / 2, lengths[2])


def _orthogonal_column_lengths(linear: Array) -> tuple[float, float, float] | None:
    """Column lengths of a matrix with orthogonal columns; None otherwise."""
    (a, b, c), (d, e, f), (g, h, i) = linear.tolist()
    x, y, z = (math.sqrt(p * p + q * q + r * r) for p, q, r in ((a, d, g), (b, e, h), (c, f, i)))
    if min(x, y, z) <= 0:
        return None
    skew = max(
        abs(a * b + d * e + g * h) / (x * y), abs(a * c + d * f + g * i) / (x * z), abs(b * c + e * f + h * i) / (y * z)
    )
    return (x, y, z) if skew <= _SCALE_TOLERANCE else None


def _proper_rotation(frame: Array) -> Array:
    """Nearest proper rotation of a frame, without reflection (boxes and ellipsoids are symmetric)."""
    return polar_decomposition(frame)[0]


def _positive(index: StageIndex, prim: pxr.Prim, name: str) -> float:
    value = _nonnegative(index, prim, name)
    if value == 0:
        raise PrimGeometryError(f"its {name} is zero")
    return value


def _nonnegative(index: StageIndex, prim: pxr.Prim, name: str) -> float:
    value = float(index.value(prim, name))
    if not np.isfinite(value) or value < 0:
        raise PrimGeometryError(f"its {name} is {value:g}")
    return value


def read_approximation(index: StageIndex, prim: pxr.Prim) -> Approximation | None:
    """Collision approximation authored on a mesh; None if the schema is not applied."""
    if usd_physics.MESH_COLLISION_API not in index.schemas(prim):
        return None
    token = str(index.value(prim, usd_physics.APPROXIMATION) or "none")
    try:
        return Approximation(token)
    except ValueError:
        index.diagnostics.warning(
            "usd.unknown-approximation",
            f"mesh {prim.GetName()!r} asks for the approximation {token!r}, which is unknown; it stays a mesh",
            origin=index.origin(prim),
        )
        return Approximation.NONE
