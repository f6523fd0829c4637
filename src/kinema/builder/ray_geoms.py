"""Geoms that ray sensors can hit, with a stackless bounding volume hierarchy (BVH) for each mesh.

Nodes are stored in depth-first order with a skip index: a ray that misses the box of a node continues at the first node
outside its subtree, so that traversal needs no stack.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from kinema import geometry
from kinema.core import Array, Pose
from kinema.description import Mesh, Plane, Shape, World, mesh_data
from kinema.model import BVH_LEAF_TRIANGLES, BVH_NODE_SIZE, RayGeomsInfo, empty_ray_geoms

from .collision_shapes import CollisionShape, make_collision_shapes
from .context import BuildContext, LinkRecord, shape_label

# -------------------------------------------------------------------------------------------- bounding volume hierarchy


def pack_bvh(triangles: Array) -> tuple[Array, int]:
    """Build a stackless BVH of triangles by median splits along the axis of largest extent of the centroids.

    Args:
        triangles: vertices, shape (n, 3, 3).

    Returns:
        The packed data (all nodes in depth-first order, then the triangles in leaf order) and the number of nodes. A
        node is lower and upper corner of its AABB, skip index, first triangle and number of triangles (0 for an
        inner node).
    """
    nodes: list[list[float]] = []
    leaf_triangles: list[np.ndarray] = []
    n_packed = 0
    stack: list[tuple[np.ndarray, int]] = [(np.arange(len(triangles)), -1)]
    open_nodes: list[int] = []
    while stack:
        indices, depth = stack.pop()
        while len(open_nodes) > depth + 1:
            nodes[open_nodes.pop()][6] = float(len(nodes))
        vertices = triangles[indices]
        lower, upper = vertices.min(axis=(0, 1)), vertices.max(axis=(0, 1))
        is_leaf = len(indices) <= BVH_LEAF_TRIANGLES
        open_nodes.append(len(nodes))
        nodes.append([*lower, *upper, 0.0, float(n_packed), float(len(indices)) if is_leaf else 0.0])
        if is_leaf:
            leaf_triangles.append(indices)
            n_packed += len(indices)
            continue
        centers = vertices.mean(axis=1)
        order = np.argsort(centers[:, np.ptp(centers, axis=0).argmax()], kind="stable")
        half = len(indices) // 2
        stack += [(indices[order[half:]], depth + 1), (indices[order[:half]], depth + 1)]
    for node in open_nodes:
        nodes[node][6] = float(len(nodes))
    table = np.array(nodes)
    assert table.shape[1] == BVH_NODE_SIZE
    return np.concatenate([table.ravel(), triangles[np.concatenate(leaf_triangles)].ravel()]), len(nodes)


# ------------------------------------------------------------------------------------------------------------ ray geoms

MAX_DATA_SIZE = 1 << 24
"""Largest length of the shared array of ray geom data: integers up to this one are exact in float32."""


@dataclass(slots=True, eq=False)
class _RayGeom:
    """A geom that rays can hit, with its mesh or height field data."""

    shape: Shape
    collision_shape: CollisionShape
    link: LinkRecord | None
    pose: Pose
    """Pose in the moving frame of the link, or in the world."""
    data_start: int = 0
    """Start of its data in the shared array."""
    data_counts: tuple[int, int] = (0, 0)
    """BVH nodes and triangles of a mesh; rows and columns of a height field."""


@dataclass(slots=True, eq=False)
class _GeomData:
    """Shared data array of all ray geoms; meshes used several times are stored once."""

    arrays: list[Array]
    length: int
    entries: dict[object, tuple[int, tuple[int, int]]] = field(default_factory=dict)
    """Start and counts of each mesh or height field, by key."""

    def add(self, key: object, values: Array, data_counts: tuple[int, int]) -> tuple[int, tuple[int, int]]:
        """Append values unless the key exists; returns the start and counts of the entry."""
        if key not in self.entries:
            self.entries[key] = (self.length, data_counts)
            self.arrays.append(values)
            self.length += len(values)
        return self.entries[key]


def pack_ray_geoms(ctx: BuildContext, directions: list[Array]) -> RayGeomsInfo:
    """Table of all geoms that rays of rangefinders and lidars can hit, with the data of meshes and height fields.

    `directions` are the unit ray directions, (n, 3) each, of all ray sensors; they are stored at the start of the data
    array. An empty table if there are none and no suction cups, which cast rays too.
    """
    if not directions and not ctx.suction_cups:
        return empty_ray_geoms()
    ray_data = np.concatenate([np.zeros((0, 3)), *directions]).ravel()
    geom_data = _GeomData([ray_data], len(ray_data))
    geoms = [geom for entity in range(len(ctx.entities)) for geom in _entity_ray_geoms(ctx, entity, geom_data)]
    return RayGeomsInfo(
        types=[g.collision_shape.type for g in geoms],
        visual=np.array([g.shape.visual for g in geoms], np.bool_),
        collision=np.array([g.shape.collision for g in geoms], np.bool_),
        link_idx=np.array([-1 if g.link is None else g.link.index for g in geoms], np.int32),
        frame_idx=np.array([-1 if g.link is None else g.link.frame_idx for g in geoms], np.int32),
        pos=np.array([g.pose.position for g in geoms], np.float64).reshape(-1, 3),
        rot=np.array([g.pose.rotation for g in geoms], np.float64).reshape(-1, 3, 3),
        size=np.array([g.collision_shape.size for g in geoms], np.float64).reshape(-1, 3),
        center=np.array([g.collision_shape.center for g in geoms], np.float64).reshape(-1, 3),
        radius=np.array([g.collision_shape.radius for g in geoms], np.float64),
        data_start=np.array([g.data_start for g in geoms], np.int32),
        data_counts=np.array([g.data_counts for g in geoms], np.int32).reshape(-1, 2),
        data=np.concatenate(geom_data.arrays),
    )


def _entity_ray_geoms(ctx: BuildContext, entity: int, geom_data: _GeomData) -> list[_RayGeom]:
    """Geoms of an entity that rays can hit: static shapes of a world, and shapes of all its links."""
    spec = ctx.entities[entity]
    shapes: list[tuple[Shape, LinkRecord | None, Pose]] = []
    if isinstance(spec.description, World):
        base = spec.pose or Pose()
        shapes += [(shape, None, base @ shape.pose) for shape in spec.description.shapes]
    for link in ctx.links:
        if link.entity == entity:
            shapes += [(shape, link, link.pose_in_frame @ shape.pose) for shape in link.description.shapes]
    return [
        geom
        for shape, link, pose in shapes
        if is_visible_to_rays(shape) and (geom := _make_ray_geom(ctx, shape, link, pose, geom_data)) is not None
    ]


def is_visible_to_rays(shape: Shape) -> bool:
    """Whether rays can hit a shape: it is enabled, not fully transparent, and visual or collision."""
    color = None if shape.material is None else shape.material.color
    is_transparent = color is not None and len(color) > 3 and color[3] == 0.0
    return shape.enabled and not is_transparent and (shape.visual or shape.collision)


def _make_ray_geom(
    ctx: BuildContext, shape: Shape, link: LinkRecord | None, pose: Pose, geom_data: _GeomData
) -> _RayGeom | None:
    """Ray geom of a shape of the description; appends the data of meshes and height fields to `geom_data`.

    A plane keeps its half sizes, infinite if it is unbounded. None for a mesh that cannot be used.
    """
    shape_geometry = shape.geometry
    if isinstance(shape_geometry, Mesh):
        return _make_mesh_ray_geom(ctx, shape, shape_geometry, link, pose, geom_data)
    (collision_shape,) = make_collision_shapes(shape, shape_label(ctx, shape, link), ctx.diagnostics)
    geom = _RayGeom(shape, collision_shape, link, pose)
    if isinstance(shape_geometry, Plane):
        half = (
            (np.inf, np.inf)
            if shape_geometry.size is None
            else (shape_geometry.size[0] / 2 or np.inf, shape_geometry.size[1] / 2 or np.inf)
        )
        geom.collision_shape = CollisionShape("plane", (*half, 0.0), np.inf)
    if collision_shape.heights is not None:
        rows, columns = collision_shape.heights.shape
        geom.data_start, geom.data_counts = geom_data.add(
            id(shape_geometry), collision_shape.heights.ravel(), (rows, columns)
        )
    return geom


def _make_mesh_ray_geom(
    ctx: BuildContext, shape: Shape, mesh: Mesh, link: LinkRecord | None, pose: Pose, geom_data: _GeomData
) -> _RayGeom | None:
    """Ray geom of a mesh, with bounding sphere; appends its BVH to `geom_data`.

    None, with a warning, if the mesh cannot be read or the data array would become too large; None for an empty mesh.
    """
    try:
        data = mesh_data(mesh)
        if data is None:
            raise geometry.MeshError("Its file was not found.")
    except geometry.GeometryError as error:
        message = f"rays pass through the mesh of {shape_label(ctx, shape, link)}: {error}"
        ctx.diagnostics.warning("sim.no-rays", message, origin=shape.origin)
        return None
    triangles = np.asarray(data.triangles(), np.float64)
    if not len(triangles):
        return None
    center = (triangles.min(axis=(0, 1)) + triangles.max(axis=(0, 1))) / 2
    radius = float(np.linalg.norm(triangles - center, axis=2).max())
    bvh, n_nodes = pack_bvh(triangles)
    key = (mesh.path, mesh.submesh, mesh.center_submesh, tuple(mesh.scale)) if mesh.path else id(mesh)
    if key not in geom_data.entries and geom_data.length + len(bvh) > MAX_DATA_SIZE:
        message = f"rays pass through the mesh of {shape_label(ctx, shape, link)}: the scene has too many triangles"
        ctx.diagnostics.warning("sim.no-rays", message, origin=shape.origin)
        return None
    geom = _RayGeom(shape, CollisionShape("mesh", (0.0, 0.0, 0.0), radius, center), link, pose)
    geom.data_start, geom.data_counts = geom_data.add(key, bvh, (n_nodes, len(triangles)))
    return geom
