"""USD geometry under any linear map: the same kind of primitive where the map allows it, an exact mesh where not."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from kinema import shapes
from kinema.description import (
    Approximation,
    Box,
    Capsule,
    Cone,
    Cylinder,
    Ellipsoid,
    Geometry,
    Mesh,
    Plane,
    Sphere,
)
from kinema.foundation import Array, Pose
from kinema.words import physics, usd

from . import pxr
from .own_shapes import stood_for
from .polar import Affine, is_singular, mirrors, polar, similarity
from .stage_index import StageIndex

_SAME = 2e-6
"""Relative difference below which two scales are the same: single-precision rotations are this far from orthogonal."""


class Placed(NamedTuple):
    """A geometry and its pose in the link's frame."""

    geometry: Geometry
    pose: Pose
    became_mesh: str = ""
    """The kind of primitive it was, where no primitive has the mapped shape."""


class GeometryError(Exception):
    """A prim that says it is geometry but cannot be."""


# where the local axis of a USD primitive has to be turned to, so that the shape lies along z
_ALONG = {
    "X": np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]),
    "Y": np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]),
    "Z": np.eye(3),
}
"""Axis token -> rotation that takes z to that axis (a cyclic permutation: proper)."""


def place_geometry(index: StageIndex, prim: pxr.Prim, into_link: Affine) -> Placed | None:
    """The prim's geometry in the frame of its link; None for kinds that are not solid shapes or meshes.

    Args:
        index: the stage.
        prim: a Gprim.
        into_link: from the prim's local coordinates (stage units) into the link's frame (metres).
    """
    original = stood_for(index, prim, into_link)
    if original is not None:
        return Placed(*original)
    make = _MAKERS.get(index.values.facts(prim).kind.type)
    if make is None:
        return None
    if not into_link.is_finite or is_singular(into_link.linear):
        raise GeometryError("its transform is not finite, or flattens it")
    try:
        return make(index, prim, into_link)
    except shapes.ShapeError as error:
        raise GeometryError(str(error)) from None


def _cube(index: StageIndex, prim: pxr.Prim, into: Affine) -> Placed:
    size = _positive(index, prim, usd.SIZE)
    lengths = _orthogonal_lengths(into.linear)
    if lengths is not None:
        scale = np.array(lengths)
        return Placed(Box(size * scale), Pose(into.offset, _proper(into.linear / scale)))
    return _meshed(shapes.box([size] * 3), into, "cube")


def _sphere(index: StageIndex, prim: pxr.Prim, into: Affine) -> Placed:
    radius = _positive(index, prim, usd.RADIUS)
    # the image of a sphere is an ellipsoid under every linear map: L = U diag(s) V^T, and V^T keeps the sphere
    size = similarity(into.linear)
    if size:
        return Placed(Sphere(radius * abs(size)), Pose(into.offset, into.linear / size))
    u, s, _ = np.linalg.svd(into.linear)
    if s[0] - s[2] <= _SAME * s[0]:
        return Placed(Sphere(radius * float(s.mean())), Pose(into.offset, polar(into.linear)[0]))
    lengths = _orthogonal_lengths(into.linear)
    if lengths is not None:
        scale = np.array(lengths)
        return Placed(Ellipsoid(radius * scale), Pose(into.offset, _proper(into.linear / scale)))
    return Placed(Ellipsoid(radius * s), Pose(into.offset, _proper(u)))


def _capsule(index: StageIndex, prim: pxr.Prim, into: Affine) -> Placed:
    radius, height = _positive(index, prim, usd.RADIUS), _not_negative(index, prim, usd.HEIGHT)
    along, scales = _axial(index, prim, into)
    if scales is not None and abs(scales[0] - scales[1]) <= _SAME * scales[0]:
        return Placed(Capsule(radius * scales[0], height * scales[0]), Pose(into.offset, along))
    return _meshed(shapes.capsule(radius, height), _along_axis(index, prim, into), "capsule")


def _cylinder(index: StageIndex, prim: pxr.Prim, into: Affine) -> Placed:
    radius, height = _positive(index, prim, usd.RADIUS), _positive(index, prim, usd.HEIGHT)
    along, scales = _axial(index, prim, into)
    if scales is not None:
        return Placed(Cylinder(radius * scales[0], height * scales[1]), Pose(into.offset, along))
    return _meshed(shapes.cylinder(radius, height), _along_axis(index, prim, into), "cylinder")


def _cone(index: StageIndex, prim: pxr.Prim, into: Affine) -> Placed:
    radius, height = _positive(index, prim, usd.RADIUS), _positive(index, prim, usd.HEIGHT)
    along, scales = _axial(index, prim, into)
    if scales is not None:
        return Placed(Cone(radius * scales[0], height * scales[1]), Pose(into.offset, along))
    return _meshed(shapes.cone(radius, height), _along_axis(index, prim, into), "cone")


def _two_radii(kind: str) -> Callable[[StageIndex, pxr.Prim, Affine], Placed]:
    """Capsule_1 and Cylinder_1, which may be thicker at one end."""

    def make(index: StageIndex, prim: pxr.Prim, into: Affine) -> Placed:
        top, bottom = _positive(index, prim, usd.RADIUS_TOP), _positive(index, prim, usd.RADIUS_BOTTOM)
        height = _not_negative(index, prim, usd.HEIGHT)
        along, scales = _axial(index, prim, into)
        if top == bottom and scales is not None:
            if kind == "cylinder":
                return Placed(Cylinder(top * scales[0], height * scales[1]), Pose(into.offset, along))
            if abs(scales[0] - scales[1]) <= _SAME * scales[0]:
                return Placed(Capsule(top * scales[0], height * scales[0]), Pose(into.offset, along))
        mesh = _tapered(top, bottom, height, rounded=kind == "capsule")
        return _meshed(mesh, _along_axis(index, prim, into), kind)

    return make


def _tapered(top: float, bottom: float, height: float, *, rounded: bool) -> shapes.MeshData:
    """A truncated cone along z, with half spheres on its ends where rounded: the convex hull of its rims."""
    angles = np.linspace(0, 2 * np.pi, 33)[:-1]
    latitudes = np.linspace(0, np.pi / 2, 9) if rounded else np.zeros(1)
    points: list[Array] = []
    for radius, z, sign in ((top, height / 2, 1.0), (bottom, -height / 2, -1.0)):
        for latitude in latitudes:
            ring = radius * np.cos(latitude)
            level = np.full_like(angles, z + sign * radius * np.sin(latitude) * rounded)
            points.append(np.column_stack([ring * np.cos(angles), ring * np.sin(angles), level]))
    cloud = np.vstack(points)
    return shapes.convex_hull(shapes.MeshData(cloud, np.array([[0, 1, 2]])))


def _plane(index: StageIndex, prim: pxr.Prim, into: Affine) -> Placed:
    turned = into.linear @ _ALONG[_axis(index, prim)]
    # a plane's normal is carried by the inverse transpose, so that it stays normal under shear
    normal = np.linalg.inv(turned).T @ np.array([0.0, 0.0, 1.0])
    normal *= np.sign(np.linalg.det(turned)) or 1.0
    z = normal / np.linalg.norm(normal)
    x = turned[:, 0] - z * (z @ turned[:, 0])
    x /= np.linalg.norm(x)
    rotation = np.column_stack([x, np.cross(z, x), z])
    width, length = index.authored(prim, usd.WIDTH), index.authored(prim, usd.LENGTH)
    size = None
    if width is not None and length is not None:
        lengths = np.linalg.norm(turned, axis=0)
        size = (float(width) * float(lengths[0]), float(length) * float(lengths[1]))
    return Placed(Plane(size), Pose(into.offset, rotation))


def _mesh(index: StageIndex, prim: pxr.Prim, into: Affine) -> Placed:
    """A mesh with its scale baked in; copies of one mesh that are scaled alike share their points."""
    rotation, scale = polar(into.linear)
    source = prim.GetPrimInPrototype() if prim.IsInstanceProxy() else prim
    exponent = math.frexp(float(np.abs(scale).max()))[1]
    path = str(source.GetPath())
    key = (index.copies.source(path) or path, exponent, np.round(np.ldexp(scale, -exponent), 13).tobytes())
    mesh = index.meshes.get(key)
    if mesh is None:
        data = _mesh_data(index, prim)
        index.points_left -= data.n_vertices
        if index.points_left < 0:
            raise GeometryError("the meshes of the stage have too many points together")
        baked = shapes.apply_linear(data, scale)
        mesh = index.meshes[key] = Mesh(vertices=baked.vertices, faces=baked.faces)
    return Placed(mesh, Pose(into.offset, rotation))


def _mesh_data(index: StageIndex, prim: pxr.Prim) -> shapes.MeshData:
    points = np.asarray(index.value(prim, usd.POINTS) or (), dtype=np.float64).reshape(-1, 3)
    counts, indices = polygons(index, prim)
    if len(points) == 0 or len(counts) == 0:
        raise GeometryError("the mesh has no points or no faces")
    if (counts < 0).any() or counts.sum() != len(indices):
        raise GeometryError(f"faceVertexCounts add up to {counts.sum()}, but there are {len(indices)} indices")
    if len(indices) and (indices.min() < 0 or indices.max() >= len(points)):
        raise GeometryError(f"a face refers to point {int(indices.max())} of {len(points)}")
    if not np.isfinite(points).all():
        raise GeometryError("points hold NaN or infinity")
    faces = triangulate(counts, indices)
    if len(faces) == 0:
        raise GeometryError("none of its faces has three corners")
    if index.value(prim, usd.ORIENTATION) == usd.LEFT_HANDED:
        faces = faces[:, ::-1]
    return shapes.MeshData(points, faces)


def polygons(index: StageIndex, prim: pxr.Prim) -> tuple[np.ndarray, np.ndarray]:
    """How many corners each polygon of a mesh has, and the points of these; those of the last mesh are kept."""
    if index.last_polygons is None or index.last_polygons[0] != prim:
        counts = np.asarray(index.value(prim, usd.FACE_VERTEX_COUNTS) or (), dtype=np.int64)
        indices = np.asarray(index.value(prim, usd.FACE_VERTEX_INDICES) or (), dtype=np.int64)
        index.last_polygons = (prim, counts, indices)
    return index.last_polygons[1:]


def triangulate(counts: np.ndarray, indices: np.ndarray) -> np.ndarray:
    """Faces as fans of triangles; corners 0, i, i + 1."""
    if (counts == 3).all():
        return indices.reshape(-1, 3)
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    n_triangles = np.maximum(counts - 2, 0)
    face_of = np.repeat(np.arange(len(counts)), n_triangles)
    first = np.cumsum(n_triangles) - n_triangles
    step = np.arange(n_triangles.sum()) - first[face_of]
    base = starts[face_of]
    return np.column_stack([indices[base], indices[base + step + 1], indices[base + step + 2]])


_MAKERS: dict[str, Callable[[StageIndex, pxr.Prim, Affine], Placed]] = {
    usd.CUBE: _cube,
    usd.SPHERE: _sphere,
    usd.CAPSULE: _capsule,
    usd.CYLINDER: _cylinder,
    usd.CONE: _cone,
    usd.TAPERED_CAPSULE: _two_radii("capsule"),
    usd.TAPERED_CYLINDER: _two_radii("cylinder"),
    usd.PLANE: _plane,
    usd.MESH: _mesh,
}


# -- parts ------------------------------------------------------------------------------------------------------------


def _meshed(mesh: shapes.MeshData, into: Affine, kind: str) -> Placed:
    """The mesh with the symmetric part of the map baked in, posed by the rigid part."""
    rotation, scale = polar(into.linear)
    baked = shapes.apply_linear(mesh, scale)
    return Placed(Mesh(vertices=baked.vertices, faces=baked.faces), Pose(into.offset, rotation), kind)


def _along_axis(index: StageIndex, prim: pxr.Prim, into: Affine) -> Affine:
    """The map, for a shape that was made along z instead of along the prim's axis."""
    return Affine(into.linear @ _ALONG[_axis(index, prim)], into.offset)


def _axis(index: StageIndex, prim: pxr.Prim) -> str:
    axis = str(index.value(prim, usd.AXIS) or usd.Z)
    if axis not in _ALONG:
        raise GeometryError(f"its axis is {axis!r}")
    return axis


def _axial(index: StageIndex, prim: pxr.Prim, into: Affine) -> tuple[Array, tuple[float, float] | None]:
    """The rotation of a shape of revolution along z, and its radial and axial scale; None where it stays none."""
    turned = _along_axis(index, prim, into).linear
    lengths = _orthogonal_lengths(turned)
    if lengths is None or abs(lengths[0] - lengths[1]) > _SAME * max(lengths):
        return np.eye(3), None
    frame = turned / np.array(lengths)
    if mirrors(frame):
        frame[:, 0] = -frame[:, 0]  # a mirror through a plane that holds the axis: the shape is the same
    return polar(frame)[0], ((lengths[0] + lengths[1]) / 2, lengths[2])


def _orthogonal_lengths(linear: Array) -> tuple[float, float, float] | None:
    """The lengths of a map's columns where these are at right angles, else None."""
    (a, b, c), (d, e, f), (g, h, i) = linear.tolist()
    x, y, z = math.hypot(a, d, g), math.hypot(b, e, h), math.hypot(c, f, i)
    if min(x, y, z) <= 0:
        return None
    skew = max(
        abs(a * b + d * e + g * h) / (x * y), abs(a * c + d * f + g * i) / (x * z), abs(b * c + e * f + h * i) / (y * z)
    )
    return (x, y, z) if skew <= _SAME else None


def _proper(frame: Array) -> Array:
    """The rotation next to a frame, its mirror taken away; boxes and ellipsoids look the same in it."""
    return polar(frame)[0]


def _positive(index: StageIndex, prim: pxr.Prim, name: str) -> float:
    value = _not_negative(index, prim, name)
    if value == 0:
        raise GeometryError(f"its {name} is zero")
    return value


def _not_negative(index: StageIndex, prim: pxr.Prim, name: str) -> float:
    value = float(index.value(prim, name))
    if not np.isfinite(value) or value < 0:
        raise GeometryError(f"its {name} is {value:g}")
    return value


def approximation(index: StageIndex, prim: pxr.Prim) -> Approximation | None:
    """What a mesh collider asks to be replaced by; None where it does not ask."""
    if physics.MESH_COLLISION_API not in index.schemas(prim):
        return None
    token = str(index.value(prim, physics.APPROXIMATION) or "none")
    try:
        return Approximation(token)
    except ValueError:
        index.diagnostics.warning(
            "usd.unknown-approximation",
            f"mesh {prim.GetName()!r} asks for the approximation {token!r}, which is unknown; it stays a mesh",
            origin=index.origin(prim),
        )
        return Approximation.NONE
