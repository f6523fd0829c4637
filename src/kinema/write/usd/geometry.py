"""Geometry to gprims.

USD has no ellipsoid, no terrain, and no plane on a moving body. A solid of triangles, or a slab, stands in for them;
what it stands for is kept in `kinema:solid`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
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
    HeightField,
    Mesh,
    Plane,
    Shape,
    Sphere,
    mesh_part,
    tessellate,
    worn_appearance,
)
from kinema.foundation import Array
from kinema.words import newton, ours, physics, usd

from ..report import Action
from .draft import PrimDraft
from .meshes import MeshMissing, write_triangles
from .writing import Writing

_SLAB = 0.01
"""Thickness [m] of what stands in for a plane on a moving body."""
_WIDE = 10.0
"""Width and length [m] of a slab for a plane that says none."""


class NoGeometry(Exception):
    """A shape that cannot be written; the text says why."""


class Solid(NamedTuple):
    """How a geometry is written."""

    prim_type: str
    scale: Array | None = None
    """Scale of the prim, beyond its pose."""
    mesh: shapes.MeshData | None = None
    """The triangles of a mesh, before the scale."""
    offset: Array | None = None
    """Where the prim's centre is in the shape's frame."""
    appearance: shapes.Appearance | None = None
    """What is seen on the triangles of a mesh."""


def solid_of(writing: Writing, shape: Shape, *, moves: bool) -> Solid:
    """The prim type that a shape is written as, its scale and its triangles; `NoGeometry` where there is no way.

    Args:
        writing: this run.
        shape: the shape.
        moves: whether it is on a body, where colliders may be neither planes nor scaled spheres.
    """
    geometry = shape.geometry
    match geometry:
        case Box():
            _check(geometry.size)
            edges = geometry.size
            return Solid(usd.CUBE, None if edges[0] == edges[1] == edges[2] else edges)
        case Sphere():
            _check([geometry.radius])
            return Solid(usd.SPHERE)
        case Ellipsoid():
            _check(geometry.radii)
            if shape.collision:
                return Solid(usd.MESH, mesh=shapes.ellipsoid(geometry.radii))
            return Solid(usd.SPHERE, geometry.radii)
        case Capsule():
            _check([geometry.radius])
            _check([geometry.length], or_zero=True)
            return Solid(usd.CAPSULE)
        case Cylinder() | Cone():
            _check([geometry.radius, geometry.length])
            return Solid(usd.CYLINDER if isinstance(geometry, Cylinder) else usd.CONE)
        case Plane():
            if not (moves and shape.collision):
                return Solid(usd.PLANE)
            width, length = geometry.size or (_WIDE, _WIDE)
            size = np.array([width, length, _SLAB])
            return Solid(usd.CUBE, size, offset=np.array([0.0, 0.0, -_SLAB / 2]))
        case HeightField():
            return Solid(usd.MESH, mesh=tessellate(geometry))
        case Mesh():
            return _mesh_solid(writing, shape, geometry)


def _mesh_solid(writing: Writing, shape: Shape, mesh: Mesh) -> Solid:
    try:
        loaded = writing.meshes.data(mesh, seen=shape.visual)
    except MeshMissing as error:
        raise NoGeometry(str(error)) from None
    data, appearance = loaded.mesh, worn_appearance(shape, loaded) if shape.visual else None
    if shape.visual and (shape.material is None or not shape.material.says_anything):
        for sentence in loaded.unseen:
            writing.lose(Action.DROPPED, shape, "a part of the look of its mesh", sentence.rstrip("."))
    if len(data.vertices) == 0 or len(data.faces) == 0:
        raise NoGeometry("it has no triangles")
    if not (np.isfinite(mesh.scale).all() and mesh.scale.all()):
        raise NoGeometry("one of its scales is zero or no number")
    if np.prod(mesh.scale) < 0:  # many tools get a mirroring transform wrong: the points themselves are mirrored
        linear = np.diag(mesh.scale)
        mirrored = None if appearance is None else appearance.under(linear)
        return Solid(usd.MESH, mesh=shapes.apply_linear(data, linear), appearance=mirrored)
    return Solid(usd.MESH, mesh.scale, data, appearance=appearance)


def author_geometry(writing: Writing, shape: Shape, solid: Solid, prim: PrimDraft) -> None:
    """The attributes of a gprim whose type and place are settled."""
    geometry = shape.geometry
    match geometry:
        case Box():
            _cube(prim, float(geometry.size[0]) if solid.scale is None else 1.0)
        case Sphere():
            _sphere(prim, geometry.radius)
        case Ellipsoid():
            _ellipsoid(writing, shape, geometry, solid, prim)
        case Capsule() | Cylinder() | Cone():
            _along_z(prim, geometry)
        case Plane():
            _plane(writing, shape, geometry, solid, prim)
        case HeightField():
            _terrain(writing, shape, geometry, solid, prim)
        case Mesh():
            _mesh(writing, shape, geometry, solid, prim)


def _cube(prim: PrimDraft, size: float) -> None:
    prim.set(usd.SIZE, "double", size)
    prim.set(usd.EXTENT, "float3[]", _box_extent([size] * 3))


def _sphere(prim: PrimDraft, radius: float) -> None:
    prim.set(usd.RADIUS, "double", radius)
    prim.set(usd.EXTENT, "float3[]", _box_extent([2 * radius] * 3))


def _along_z(prim: PrimDraft, geometry: Capsule | Cylinder | Cone) -> None:
    prim.set(usd.AXIS, "token", usd.Z, uniform=True)
    prim.set(usd.RADIUS, "double", geometry.radius)
    prim.set(usd.HEIGHT, "double", geometry.length)
    whole = geometry.length + (2 * geometry.radius if isinstance(geometry, Capsule) else 0.0)
    prim.set(usd.EXTENT, "float3[]", _box_extent([2 * geometry.radius, 2 * geometry.radius, whole]))


def _ellipsoid(writing: Writing, shape: Shape, geometry: Ellipsoid, solid: Solid, prim: PrimDraft) -> None:
    if solid.mesh is None:
        _sphere(prim, 1.0)
        return
    # validators refuse a collider that is a sphere scaled unevenly, and simulators make a ball of it
    write_triangles(prim, solid.mesh)
    _stands_for(prim, ours.SOLID_ELLIPSOID, geometry.radii)
    _hull(prim)
    how = "USD has no ellipsoid that collides; a mesh of it is written, and its radii are in kinema:solid:numbers"
    writing.lose(Action.APPROXIMATED, shape, "that it is an ellipsoid", how)


def _plane(writing: Writing, shape: Shape, geometry: Plane, solid: Solid, prim: PrimDraft) -> None:
    if solid.prim_type == usd.CUBE:
        _cube(prim, 1.0)
        _stands_for(prim, ours.SOLID_PLANE, geometry.size or ())
        how = "planes may not be on bodies in USD; a slab is written in its place"
        writing.lose(Action.APPROXIMATED, shape, "that it is a plane", how)
        return
    prim.set(usd.AXIS, "token", usd.Z, uniform=True)
    if geometry.size is not None:
        width, length = geometry.size
        prim.set(usd.WIDTH, "double", width)
        prim.set(usd.LENGTH, "double", length)
        prim.set(usd.EXTENT, "float3[]", _box_extent([width, length, 0.0]))


def _terrain(writing: Writing, shape: Shape, geometry: HeightField, solid: Solid, prim: PrimDraft) -> None:
    if solid.mesh is not None:
        write_triangles(prim, solid.mesh)
    rows, columns = geometry.heights.shape
    _stands_for(
        prim, ours.SOLID_HEIGHT_FIELD, [*geometry.size, geometry.base, rows, columns, *geometry.heights.reshape(-1)]
    )
    how = "USD has no height fields; its triangles are written, and the heights are in kinema:solid:numbers"
    writing.lose(Action.APPROXIMATED, shape, "that it is a height field", how)


def _mesh(writing: Writing, shape: Shape, mesh: Mesh, solid: Solid, prim: PrimDraft) -> None:
    if solid.mesh is not None:
        writing.meshes.author(prim, solid.mesh, solid.appearance, _file_stem(mesh) or shape.name)
        if isinstance(mesh.projection, shapes.CubeProjection) and solid.appearance is not None:
            # a mirror is in the points themselves
            linear = np.diag(mesh.scale) if solid.scale is None else np.eye(3)
            prim.keep(ours.AROUND, mesh.projection.under(linear).numbers)
    if mesh.submesh and mesh_part(mesh) is None:
        writing.lose(Action.APPROXIMATED, shape, f'that only its part "{mesh.submesh}" is meant', "all is written")
    if not shape.collision:
        return
    if mesh.approximation is not None:
        prim.apply(physics.MESH_COLLISION_API)
        prim.set(physics.APPROXIMATION, "token", mesh.approximation.value, uniform=True)
        if mesh.approximation is Approximation.SDF:
            how = "the token sdf is PhysX's and Newton's, no part of UsdPhysics"
            writing.lose(Action.EXTENSION, shape, "that it collides as a distance field", how)
    if mesh.max_hull_vertices is not None:
        prim.apply(newton.MESH_COLLISION_API)
        prim.set(newton.MAX_HULL_VERTICES, "int", mesh.max_hull_vertices, uniform=True)
        how = "it is in newton:maxHullVertices, which is no part of UsdPhysics"
        writing.lose(Action.EXTENSION, shape, "how many vertices its hull may have", how)


def _file_stem(mesh: Mesh) -> str:
    """The name of the mesh's file."""
    return (mesh.path or mesh.uri).replace("\\", "/").rpartition("/")[2].partition(".")[0]


def _hull(prim: PrimDraft) -> None:
    prim.apply(physics.MESH_COLLISION_API)
    prim.set(physics.APPROXIMATION, "token", Approximation.CONVEX_HULL.value, uniform=True)


def _stands_for(prim: PrimDraft, kind: str, numbers: Sequence[float] | Array) -> None:
    prim.keep(ours.SOLID, kind)
    prim.keep(ours.SOLID_NUMBERS, np.asarray(numbers, dtype=np.float64))


def _box_extent(edges: Sequence[float]) -> Array:
    half = np.asarray(edges, dtype=np.float64) / 2
    return np.array([-half, half])


def _check(lengths: Sequence[float] | Array, *, or_zero: bool = False) -> None:
    for length in lengths:
        if not math.isfinite(length) or length < 0 or (length == 0 and not or_zero):
            raise NoGeometry(f"one of its lengths is {length:g}")
