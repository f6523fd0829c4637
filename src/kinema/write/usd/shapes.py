"""Shapes as gprims: geometry, collision and mass attributes, and primitives that USD lacks as meshes or boxes.

USD has no ellipsoid, no height field, and no plane on a moving body: a triangle mesh or a slab approximates them, and
`kinema:solid` stores the original geometry.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from kinema import geometry as geo
from kinema.core import Array, Pose
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
    effective_appearance,
    submesh_data,
    tessellate,
)
from kinema.tokens import kinema_usd, mjc, newton, usd, usd_physics

from ..loss_report import Action
from .context import UsdContext, author_stored_fields, write_preserved
from .layer_builder import PrimBuilder
from .meshes import MeshUnavailableError, author_triangles

# ------------------------------------------------------------------------------------------------------------- geometry

_PLANE_THICKNESS = 0.01
"""Thickness [m] of the slab that approximates a plane on a moving body."""
_INFINITE_PLANE_SIZE = 10.0
"""Width and length [m] of the slab for an infinite plane."""


class UnsupportedGeometryError(Exception):
    """Geometry that cannot be written; the message is the reason."""


class GprimSpec(NamedTuple):
    """USD prim type and geometry data of a shape."""

    prim_type: str
    scale: Array | None = None
    """Scale (3,) of the prim."""
    mesh: geo.MeshData | None = None
    """Unscaled triangles of a mesh."""
    offset: Array | None = None
    """Centre (3,) of the prim in the shape frame [m]."""
    appearance: geo.Appearance | None = None
    """Appearance of a visual mesh."""


def gprim_spec(ctx: UsdContext, shape: Shape, *, is_on_body: bool) -> GprimSpec:
    """Prim type, scale and triangles of a shape.

    Args:
        ctx: the writer context.
        shape: the shape.
        is_on_body: whether the shape is on a body, where colliders may be neither planes nor scaled spheres.

    Raises:
        UnsupportedGeometryError: the geometry cannot be written.
    """
    geometry = shape.geometry
    match geometry:
        case Box():
            _check_lengths(geometry.size)
            edges = geometry.size
            return GprimSpec(usd.CUBE, None if edges[0] == edges[1] == edges[2] else edges)
        case Sphere():
            _check_lengths([geometry.radius])
            return GprimSpec(usd.SPHERE)
        case Ellipsoid():
            _check_lengths(geometry.radii)
            if shape.collision:
                return GprimSpec(usd.MESH, mesh=geo.ellipsoid(geometry.radii))
            return GprimSpec(usd.SPHERE, geometry.radii)
        case Capsule():
            _check_lengths([geometry.radius])
            _check_lengths([geometry.length], allow_zero=True)
            return GprimSpec(usd.CAPSULE)
        case Cylinder() | Cone():
            _check_lengths([geometry.radius, geometry.length])
            return GprimSpec(usd.CYLINDER if isinstance(geometry, Cylinder) else usd.CONE)
        case Plane():
            if not (is_on_body and shape.collision):
                return GprimSpec(usd.PLANE)
            width, length = geometry.size or (_INFINITE_PLANE_SIZE, _INFINITE_PLANE_SIZE)
            size = np.array([width, length, _PLANE_THICKNESS])
            return GprimSpec(usd.CUBE, size, offset=np.array([0.0, 0.0, -_PLANE_THICKNESS / 2]))
        case HeightField():
            return GprimSpec(usd.MESH, mesh=tessellate(geometry))
        case Mesh():
            return _mesh_gprim_spec(ctx, shape, geometry)


def _mesh_gprim_spec(ctx: UsdContext, shape: Shape, mesh: Mesh) -> GprimSpec:
    """Specification of a mesh prim; mirrored meshes have their scale applied to the points."""
    try:
        loaded = ctx.meshes.load(mesh, is_visual=shape.visual)
    except MeshUnavailableError as error:
        raise UnsupportedGeometryError(str(error)) from None
    data, appearance = loaded.mesh, effective_appearance(shape, loaded) if shape.visual else None
    if shape.visual and (shape.material is None or not shape.material.has_properties):
        for sentence in loaded.appearance_notes:
            ctx.report_loss(Action.DROPPED, shape, "a part of the look of its mesh", sentence.rstrip("."))
    if len(data.vertices) == 0 or len(data.faces) == 0:
        raise UnsupportedGeometryError("it has no triangles")
    if not (np.isfinite(mesh.scale).all() and mesh.scale.all()):
        raise UnsupportedGeometryError("one of its scales is zero or no number")
    if np.prod(mesh.scale) < 0:  # many tools get a mirroring transform wrong: the points themselves are mirrored
        linear = np.diag(mesh.scale)
        mirrored = None if appearance is None else appearance.transformed(linear)
        return GprimSpec(usd.MESH, mesh=geo.apply_affine(data, linear), appearance=mirrored)
    return GprimSpec(usd.MESH, mesh.scale, data, appearance=appearance)


def author_geometry(ctx: UsdContext, shape: Shape, gprim: GprimSpec, prim: PrimBuilder) -> None:
    """Write the geometry attributes of a gprim."""
    geometry = shape.geometry
    match geometry:
        case Box():
            _author_cube(prim, float(geometry.size[0]) if gprim.scale is None else 1.0)
        case Sphere():
            _author_sphere(prim, geometry.radius)
        case Ellipsoid():
            _author_ellipsoid(ctx, shape, geometry, gprim, prim)
        case Capsule() | Cylinder() | Cone():
            _author_z_aligned(prim, geometry)
        case Plane():
            _author_plane(ctx, shape, geometry, gprim, prim)
        case HeightField():
            _author_height_field(ctx, shape, geometry, gprim, prim)
        case Mesh():
            _author_mesh(ctx, shape, geometry, gprim, prim)


def _author_cube(prim: PrimBuilder, size: float) -> None:
    prim.set_attribute(usd.SIZE, "double", size)
    prim.set_attribute(usd.EXTENT, "float3[]", _box_extent([size] * 3))


def _author_sphere(prim: PrimBuilder, radius: float) -> None:
    prim.set_attribute(usd.RADIUS, "double", radius)
    prim.set_attribute(usd.EXTENT, "float3[]", _box_extent([2 * radius] * 3))


def _author_z_aligned(prim: PrimBuilder, geometry: Capsule | Cylinder | Cone) -> None:
    """Write axis, radius, height and extent of a capsule, cylinder or cone."""
    prim.set_attribute(usd.AXIS, "token", usd.Z_AXIS, uniform=True)
    prim.set_attribute(usd.RADIUS, "double", geometry.radius)
    prim.set_attribute(usd.HEIGHT, "double", geometry.length)
    whole = geometry.length + (2 * geometry.radius if isinstance(geometry, Capsule) else 0.0)
    prim.set_attribute(usd.EXTENT, "float3[]", _box_extent([2 * geometry.radius, 2 * geometry.radius, whole]))


def _author_ellipsoid(ctx: UsdContext, shape: Shape, geometry: Ellipsoid, gprim: GprimSpec, prim: PrimBuilder) -> None:
    """Write a scaled unit sphere, or for colliders a convex mesh with the radii in Kinema attributes."""
    if gprim.mesh is None:
        _author_sphere(prim, 1.0)
        return
    # validators refuse a collider that is a sphere scaled unevenly, and simulators make a ball of it
    author_triangles(prim, gprim.mesh)
    _set_primitive_parameters(prim, kinema_usd.PRIMITIVE_ELLIPSOID, geometry.radii)
    _set_convex_hull(prim)
    how = "USD has no ellipsoid that collides; a mesh of it is written, and its radii are in kinema:solid:numbers"
    ctx.report_loss(Action.APPROXIMATED, shape, "that it is an ellipsoid", how)


def _author_plane(ctx: UsdContext, shape: Shape, geometry: Plane, gprim: GprimSpec, prim: PrimBuilder) -> None:
    """Write a plane, or on moving bodies a slab with the plane size in Kinema attributes."""
    if gprim.prim_type == usd.CUBE:
        _author_cube(prim, 1.0)
        _set_primitive_parameters(prim, kinema_usd.PRIMITIVE_PLANE, geometry.size or ())
        how = "planes may not be on bodies in USD; a slab is written in its place"
        ctx.report_loss(Action.APPROXIMATED, shape, "that it is a plane", how)
        return
    prim.set_attribute(usd.AXIS, "token", usd.Z_AXIS, uniform=True)
    if geometry.size is not None:
        width, length = geometry.size
        prim.set_attribute(usd.WIDTH, "double", width)
        prim.set_attribute(usd.LENGTH, "double", length)
        prim.set_attribute(usd.EXTENT, "float3[]", _box_extent([width, length, 0.0]))


def _author_height_field(
    ctx: UsdContext, shape: Shape, geometry: HeightField, gprim: GprimSpec, prim: PrimBuilder
) -> None:
    """Write the triangles of a height field, with the heights in Kinema attributes."""
    if gprim.mesh is not None:
        author_triangles(prim, gprim.mesh)
    rows, columns = geometry.heights.shape
    _set_primitive_parameters(
        prim,
        kinema_usd.PRIMITIVE_HEIGHT_FIELD,
        [*geometry.size, geometry.base, rows, columns, *geometry.heights.reshape(-1)],
    )
    how = "USD has no height fields; its triangles are written, and the heights are in kinema:solid:numbers"
    ctx.report_loss(Action.APPROXIMATED, shape, "that it is a height field", how)


def _author_mesh(ctx: UsdContext, shape: Shape, mesh: Mesh, gprim: GprimSpec, prim: PrimBuilder) -> None:
    """Write a mesh with its collision approximation and hull vertex limit."""
    if gprim.mesh is not None:
        ctx.meshes.author_mesh(prim, gprim.mesh, gprim.appearance, _file_stem(mesh) or shape.name)
        if isinstance(mesh.projection, geo.CubeMapProjection) and gprim.appearance is not None:
            # a mirror is in the points themselves
            linear = np.diag(mesh.scale) if gprim.scale is None else np.eye(3)
            prim.set_custom(kinema_usd.CUBE_MAP_PROJECTION, mesh.projection.transformed(linear).parameters)
    if mesh.submesh and submesh_data(mesh) is None:
        ctx.report_loss(Action.APPROXIMATED, shape, f'that only its part "{mesh.submesh}" is meant', "all is written")
    if not shape.collision:
        return
    if mesh.approximation is not None:
        prim.apply_schemas(usd_physics.MESH_COLLISION_API)
        prim.set_attribute(usd_physics.APPROXIMATION, "token", mesh.approximation.value, uniform=True)
        if mesh.approximation is Approximation.SDF:
            how = "the token sdf is PhysX's and Newton's, no part of UsdPhysics"
            ctx.report_loss(Action.EXTENSION, shape, "that it collides as a distance field", how)
    if mesh.max_hull_vertices is not None:
        prim.apply_schemas(newton.MESH_COLLISION_API)
        prim.set_attribute(newton.MAX_HULL_VERTICES, "int", mesh.max_hull_vertices, uniform=True)
        how = "it is in newton:maxHullVertices, which is no part of UsdPhysics"
        ctx.report_loss(Action.EXTENSION, shape, "how many vertices its hull may have", how)


def _file_stem(mesh: Mesh) -> str:
    """File name of a mesh without folder and suffixes."""
    return (mesh.path or mesh.uri).replace("\\", "/").rpartition("/")[2].partition(".")[0]


def _set_convex_hull(prim: PrimBuilder) -> None:
    prim.apply_schemas(usd_physics.MESH_COLLISION_API)
    prim.set_attribute(usd_physics.APPROXIMATION, "token", Approximation.CONVEX_HULL.value, uniform=True)


def _set_primitive_parameters(prim: PrimBuilder, kind: str, parameters: Sequence[float] | Array) -> None:
    prim.set_custom(kinema_usd.PRIMITIVE, kind)
    prim.set_custom(kinema_usd.PRIMITIVE_PARAMETERS, np.asarray(parameters, dtype=np.float64))


def _box_extent(edges: Sequence[float]) -> Array:
    half = np.asarray(edges, dtype=np.float64) / 2
    return np.array([-half, half])


def _check_lengths(lengths: Sequence[float] | Array, *, allow_zero: bool = False) -> None:
    """Raise `UnsupportedGeometryError` unless all lengths are finite and positive (or zero if allowed)."""
    for length in lengths:
        if not math.isfinite(length) or length < 0 or (length == 0 and not allow_zero):
            raise UnsupportedGeometryError(f"one of its lengths is {length:g}")


# --------------------------------------------------------------------------------------------------------------- shapes


def author_shape(ctx: UsdContext, parent_path: str, shape: Shape, *, is_on_body: bool) -> PrimBuilder | None:
    """Write a shape below a prim; None, with a report, if it cannot be written.

    Args:
        ctx: the writer context.
        parent_path: prim path of the link or of the static shapes.
        shape: the shape.
        is_on_body: whether the shape is on a body.
    """
    try:
        solid = gprim_spec(ctx, shape, is_on_body=is_on_body)
    except UnsupportedGeometryError as error:
        ctx.report_loss(Action.DROPPED, shape, f"the {shape.kind}", str(error))
        return None
    path = ctx.paths.names.child_path(parent_path, shape.name, _default_name(shape))
    prim = ctx.builder.define_prim(path, solid.prim_type)
    ctx.paths.shapes[id(shape)] = path
    author_stored_fields(ctx, prim, shape)
    offset = Pose() if solid.offset is None else Pose.translation(solid.offset)
    prim.set_transform(shape.pose @ offset, solid.scale)
    author_geometry(ctx, shape, solid, prim)
    _author_collision(ctx, shape, prim)
    ctx.materials.bind(prim, shape, solid.appearance)
    if shape.group:
        prim.apply_schemas(mjc.IMAGEABLE_API)
        prim.set_attribute(mjc.GROUP, "int", shape.group, uniform=True)
    write_preserved(ctx, prim, shape)
    return prim


def _default_name(shape: Shape) -> str:
    """Prim name of a shape without name."""
    if shape.visual and shape.collision:
        return "shape"
    return "visual" if shape.visual else "collision"


def _author_collision(ctx: UsdContext, shape: Shape, prim: PrimBuilder) -> None:
    """Write collision, purpose and mass attributes of a shape."""
    if not shape.collision:
        if not shape.visual:  # a tendon may wrap around it
            prim.set_attribute(usd.PURPOSE, "token", "guide", uniform=True)
            prim.set_custom(kinema_usd.NON_VISUAL_NON_COLLISION, True)
            how = "it is a guide, which others may leave out"
            ctx.report_loss(Action.EXTENSION, shape, "that it is there although it is neither seen nor touched", how)
        return
    prim.apply_schemas(usd_physics.COLLISION_API)
    if not shape.visual:
        prim.set_attribute(usd.PURPOSE, "token", "guide", uniform=True)
    if not shape.enabled or ctx.collision_filters.is_disabled(shape):
        prim.set_attribute(usd_physics.COLLISION_ENABLED, "bool", False)
    if shape.mass is not None or shape.density is not None:
        prim.apply_schemas(usd_physics.MASS_API)
        if shape.mass is not None:
            prim.set_single_precision(usd_physics.MASS, "float", shape.mass)
        if shape.density is not None:
            prim.set_single_precision(usd_physics.DENSITY, "float", shape.density)
