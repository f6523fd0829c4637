"""Arrays of collision geoms: parameters, triangles, signed distance fields, support tables, poses and AABBs.

Geoms are numbered entity after entity: static ones, then link by link, in file order. Geoms that collide with nothing
are included, unlike in the tables of the model. The vertices of all geoms are concatenated, as are triangles, edges,
grid nodes of distance fields and cells of support tables; `start` and `end` indices delimit those of one geom.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from kinema import geometry as geo
from kinema.builder import EntitySpec, GeomRecord, collision_geoms_of, sdf_mesh
from kinema.core import multiply_quaternions, rotate_vectors
from kinema.description import (
    Box,
    Capsule,
    Cone,
    Cylinder,
    Ellipsoid,
    Geometry,
    HeightField,
    Mesh,
    Plane,
    Sphere,
    tessellate,
)
from kinema.model import Model

from .entity_queries import geometry_aabb
from .flat_arrays import declare

# ------------------------------------------------------------------------------------------------------ declarations


class GeomType(enum.IntEnum):
    """Geom types, numbered as MuJoCo's `mjtGeom`; cones, which MuJoCo lacks, follow."""

    PLANE = 0
    HEIGHT_FIELD = 1
    SPHERE = 2
    CAPSULE = 3
    ELLIPSOID = 4
    CYLINDER = 5
    BOX = 6
    MESH = 7
    DISTANCE_FIELD = 8
    CONE = 9


GEOMS_INFO = declare(
    "n_geoms",
    (
        "type",
        (),
        "int32",
        "1",
        "geom type: " + ", ".join(f"{x.value} {x.name.lower().replace('_', ' ')}" for x in GeomType),
    ),
    (
        "data",
        (7,),
        "float64",
        "m",
        "size: sphere [radius]; capsule, cylinder, cone [radius, half length]; box half extents; ellipsoid semi-axes; "
        "height field half extents in x and y and depth of the base; zeros for others, and at the end",
    ),
    ("pos", (3,), "float64", "m", "position in the link, or in the world for a static geom"),
    ("center", (3,), "float64", "m", "centre of the bounding sphere in the geom"),
    ("quat", (4,), "float64", "1", "orientation in the link, or in the world"),
    ("friction", (), "float64", "1", "sliding friction coefficient, as built"),
    ("sol_params", (7,), "float64", "mixed", "solref (time constant [s], damping ratio) and solimp, as built"),
    ("vert_start", (), "int32", "1", "first vertex in `verts_info`"),
    ("vert_end", (), "int32", "1", "end of the vertices"),
    ("face_start", (), "int32", "1", "first triangle in `faces_info`"),
    ("face_end", (), "int32", "1", "end of the triangles"),
    ("edge_start", (), "int32", "1", "first edge in `edges_info`"),
    ("edge_end", (), "int32", "1", "end of the edges"),
    ("verts_state_start", (), "int32", "1", "first vertex in `verts_state`"),
    (
        "verts_state_end",
        (),
        "int32",
        "1",
        "end of these vertices; an empty range for geoms fixed in the world",
    ),
    ("is_convex", (), "bool", "1", "False for height fields and distance fields"),
    ("contype", (), "int32", "1", "bit mask of collision types"),
    ("conaffinity", (), "int32", "1", "bit mask of collision affinities"),
    ("needs_coup", (), "int32", "1", "1 if the geom is coupled to other physics solvers: always 0"),
    ("coup_friction", (), "float64", "1", "friction of that coupling: always 0"),
    ("coup_softness", (), "float64", "m", "softness of that coupling: always 0"),
    ("coup_restitution", (), "float64", "1", "restitution of that coupling: always 0"),
    ("link_idx", (), "int32", "1", "link of the geom; -1 for the world"),
    ("entity_idx", (), "int32", "1", "entity of the geom"),
)
GEOMS_STATE = declare(
    "n_geoms n_envs",
    ("pos", (3,), "float", "m", "position in the world (MuJoCo's geom_xpos)"),
    ("quat", (4,), "float", "1", "orientation in the world"),
    ("aabb_min", (3,), "float", "m", "minimum of the axis-aligned bounding box; -inf for planes"),
    ("aabb_max", (3,), "float", "m", "maximum of the axis-aligned bounding box; inf for planes"),
    ("verts_updated", (), "bool", "1", "True: `verts_state` is computed from the present pose whenever it is read"),
    ("hibernated", (), "int32", "1", "1 if the link of the geom is asleep, else 0"),
)
VERTS_INFO = declare(
    "n_verts",
    ("init_pos", (3,), "float64", "m", "position in the geom"),
    ("init_normal", (3,), "float64", "1", "outward normal in the geom: mean of the adjacent triangles by angle"),
    ("geom_idx", (), "int32", "1", "geom of the vertex"),
)
VERTS_STATE = declare(
    "n_free_verts n_envs", ("pos", (3,), "float", "m", "position in the world, of geoms on moving links")
)
FACES_INFO = declare(
    "n_faces",
    ("verts_idx", (3,), "int32", "1", "vertices in `verts_info`, counter-clockwise as seen from outside"),
    ("normal", (3,), "float64", "1", "outward unit normal in the geom"),
    ("geom_idx", (), "int32", "1", "geom of the triangle"),
)
EDGES_INFO = declare(
    "n_edges",
    ("v0", (), "int32", "1", "first vertex in `verts_info`"),
    ("v1", (), "int32", "1", "second vertex in `verts_info`"),
    ("length", (), "float64", "m", "length"),
)
SDF_INFO = [
    *declare(
        "n_geoms",
        (
            "T_mesh_to_sdf",
            (4, 4),
            "float64",
            "1 / m",
            "transform from the geom [m] to grid indices; zeros without field",
        ),
        ("sdf_res", (3,), "int32", "1", "number of grid nodes along each axis; zeros without field"),
        ("sdf_cell_size", (), "float64", "m", "grid spacing; 0 without field"),
        ("sdf_max", (), "float64", "m", "largest absolute distance; 0 without field"),
        ("sdf_cell_start", (), "int32", "1", "first node of the geom in the arrays of nodes"),
    ),
    *declare(
        "n_cells",
        ("geoms_sdf_val", (), "float64", "m", "signed distance at the node, negative inside; z varies fastest"),
        ("geoms_sdf_grad", (3,), "float64", "1", "gradient of the distance in the geom"),
        ("geoms_sdf_closest_vert", (), "int32", "1", "vertex in `verts_info` that is closest to the node"),
    ),
]
SUPPORT_INFO = [
    *declare(
        "n_geoms",
        ("support_cell_start", (), "int32", "1", "first cell of the geom; non-convex geoms and planes have no cells"),
    ),
    *declare(
        "n_support_cells",
        ("support_v", (3,), "float64", "m", "support point in the geom, of the direction of the cell"),
        ("support_vid", (), "int32", "1", "vertex in `verts_info` that is the support point"),
    ),
    *declare(
        "",
        (
            "support_res",
            (),
            "int32",
            "1",
            "number of azimuths 2 pi i / 180 - pi and of polar angles pi j / 179; their cell is 180 i + j",
        ),
    ),
]
BROAD_PHASE = [
    *declare(
        "n_pairs n_envs",
        (
            "broad_collision_pairs",
            (2,),
            "int32",
            "1",
            "geoms of the pairs that may collide and whose AABBs, inflated by half the largest margin, overlap; then "
            "-1",
        ),
    ),
    *declare("n_envs", ("n_broad_pairs", (), "int32", "1", "number of these pairs")),
    *declare(
        "n_geoms n_envs",
        ("sort_buffer_min", (), "float", "m", "lower ends of the inflated AABBs along x, ascending (sweep and prune)"),
        ("sort_buffer_max", (), "float", "m", "upper ends of the same AABBs"),
        ("sort_buffer_idx", (), "int32", "1", "geoms of these AABBs"),
    ),
]

# -------------------------------------------------------------------------------------------------- constant arrays


class GeomTables:
    """Constant arrays of the collision geoms of a scene, each group computed when it is first used."""

    def __init__(self, model: Model, specs: Sequence[EntitySpec]) -> None:
        """Geoms of the entities in `specs`, whose model is `model`."""
        self.records = collision_geoms_of(specs)
        self._nonconvex = [spec.nonconvex for spec in specs]
        links = [-1 if geom.link is None else geom.link.index for geom in self.records]
        self.link_idx = np.array(links, np.int32)
        self.pos = _stacked([geom.pose_in_link.position for geom in self.records], (3,))
        self.quat = _stacked([geom.pose_in_link.quaternion for geom in self.records], (4,))
        moves = np.append(model.links.frame_idx >= 0, False)
        self.is_free = moves[self.link_idx]
        """Whether each geom is on a moving link."""
        self.row_of_model_geom = self._match_model_geoms(model)
        """Geom here of each geom of the model."""

    def _match_model_geoms(self, model: Model) -> np.ndarray:
        """Index here of each row of the model's table of geoms: by link, name, type and size, in equal order."""
        geoms, indices = model.geoms, dict[tuple[object, ...], list[int]]()
        for i, record in enumerate(self.records):
            shape = record.collision_shape
            key = (record.entity, int(self.link_idx[i]), record.name, shape.type, *shape.size)
            indices.setdefault(key, []).append(i)
        columns = (geoms.entity_idx.tolist(), geoms.link_idx.tolist(), geoms.names, geoms.types, geoms.size.tolist())
        keys = [(entity, link, name, kind, *size) for entity, link, name, kind, size in zip(*columns, strict=True)]
        return np.array([indices[key].pop(0) for key in keys], np.int32)

    @property
    def n_geoms(self) -> int:
        """Number of geoms."""
        return len(self.records)

    @cached_property
    def geometries(self) -> list[Geometry]:
        """Geometry of each geom in its own frame; hulls and the sources of distance fields are meshes."""
        return [_collision_geometry(record, self._nonconvex[record.entity]) for record in self.records]

    @cached_property
    def meshes(self) -> list[geo.MeshData]:
        """Triangles of each geom in its own frame; curved surfaces and infinite planes are approximated."""
        meshes = [tessellate(geometry) for geometry in self.geometries]
        return [geo.MeshData(np.zeros((0, 3)), np.zeros((0, 3), np.int64)) if m is None else m for m in meshes]

    @cached_property
    def vert_ends(self) -> np.ndarray:
        """End of the vertices of each geom."""
        return np.cumsum([mesh.n_vertices for mesh in self.meshes], dtype=np.int32)

    @property
    def vert_starts(self) -> np.ndarray:
        """First vertex of each geom."""
        return self.vert_ends - np.array([mesh.n_vertices for mesh in self.meshes], np.int32)

    @cached_property
    def edges(self) -> list[np.ndarray]:
        """Edges of each geom as pairs of its own vertices."""
        return [geo.unique_edges(mesh) for mesh in self.meshes]

    def link_ranges(self, n_links: int) -> tuple[np.ndarray, np.ndarray]:
        """First geom and end of the geoms of each link."""
        starts, counts = np.zeros(n_links, np.int32), np.zeros(n_links, np.int32)
        for i in np.flatnonzero(self.link_idx >= 0)[::-1]:
            starts[self.link_idx[i]] = i
            counts[self.link_idx[i]] += 1
        return starts, starts + counts

    def geoms_info(self) -> dict[str, Any]:
        """Names, types, sizes, poses in the links, contact parameters and vertex ranges of all geoms, by array name."""
        records, n = self.records, self.n_geoms
        shapes, parameters = [r.collision_shape for r in records], [r.contact_parameters for r in records]
        data = np.zeros((n, 7))
        data[:, :3] = _stacked([shape.size for shape in shapes], (3,))
        free_counts = np.where(self.is_free, self.vert_ends - self.vert_starts, 0)
        free_ends = np.cumsum(free_counts)
        ranges = {
            "vert": (self.vert_starts, self.vert_ends),
            "face": _ranges([mesh.n_faces for mesh in self.meshes]),
            "edge": _ranges([len(edges) for edges in self.edges]),
            "verts_state": (free_ends - free_counts, free_ends),
        }
        sol_params = [(*x.solref, *x.solimp) for x in parameters]
        return {
            "names": tuple(record.name for record in records),
            "type": np.array([GeomType[shape.type.upper().replace(" ", "_")] for shape in shapes], np.int32),
            "data": data,
            "pos": self.pos,
            "center": _stacked([shape.center for shape in shapes], (3,)),
            "quat": self.quat,
            "friction": np.array([x.friction[0] for x in parameters], np.float64),
            "sol_params": _stacked(sol_params, (7,)),
            **{f"{name}_start": start.astype(np.int32) for name, (start, _) in ranges.items()},
            **{f"{name}_end": end.astype(np.int32) for name, (_, end) in ranges.items()},
            "is_convex": np.array([shape.heights is None and shape.sdf is None for shape in shapes], np.bool_),
            "contype": _masks([record.shape.contype for record in records]),
            "conaffinity": _masks([record.shape.conaffinity for record in records]),
            "needs_coup": np.zeros(n, np.int32),
            **{f"coup_{name}": np.zeros(n) for name in ("friction", "softness", "restitution")},
            "link_idx": self.link_idx,
            "entity_idx": np.array([record.entity for record in records], np.int32),
        }

    def verts_info(self) -> dict[str, np.ndarray]:
        """Positions and normals of the vertices of all geoms in geom coordinates, and their geoms, by array name."""
        return {
            "init_pos": _concatenated([mesh.vertices for mesh in self.meshes], (3,)),
            "init_normal": _concatenated([geo.vertex_normals(mesh) for mesh in self.meshes], (3,)),
            "geom_idx": _owners([mesh.n_vertices for mesh in self.meshes]),
        }

    def faces_info(self) -> dict[str, np.ndarray]:
        """Vertex indices, normals and geom of all triangles of the geoms, by array name."""
        faces = [mesh.faces + start for mesh, start in zip(self.meshes, self.vert_starts, strict=True)]
        return {
            "verts_idx": _concatenated(faces, (3,), np.int32),
            "normal": _concatenated([geo.face_normals(mesh) for mesh in self.meshes], (3,)),
            "geom_idx": _owners([mesh.n_faces for mesh in self.meshes]),
        }

    def edges_info(self) -> dict[str, np.ndarray]:
        """Vertex indices and lengths of the edges of all geoms, by array name."""
        pairs = zip(self.meshes, self.edges, strict=True)
        lengths = [np.linalg.norm(np.subtract(*mesh.vertices[edges.T]), axis=1) for mesh, edges in pairs]
        edges = [edges + start for edges, start in zip(self.edges, self.vert_starts, strict=True)]
        v0, v1 = _concatenated(edges, (2,), np.int32).T
        return {"v0": v0, "v1": v1, "length": _concatenated(lengths, ())}

    def sdf_info(self) -> dict[str, np.ndarray]:
        """Signed distance fields of the geoms by array name: grid transforms, grid sizes, node values and gradients."""
        fields = [record.collision_shape.sdf for record in self.records]
        maps = np.zeros((self.n_geoms, 4, 4))
        for i, field in enumerate(fields):
            if field is not None:
                maps[i] = np.eye(4)
                maps[i, :3, :3] /= field.cell_size
                maps[i, :3, 3] = -field.origin / field.cell_size
        present = [(i, field) for i, field in enumerate(fields) if field is not None]
        closest = [field.closest_vertices + self.vert_starts[i] for i, field in present]
        return {
            "T_mesh_to_sdf": maps,
            "sdf_res": np.array([(0, 0, 0) if f is None else f.n_nodes for f in fields], np.int32).reshape(-1, 3),
            "sdf_cell_size": np.array([0.0 if f is None else f.cell_size for f in fields]),
            "sdf_max": np.array([0.0 if f is None else np.abs(f.values).max() for f in fields]),
            "sdf_cell_start": _ranges([0 if f is None else len(f.values) for f in fields])[0],
            "geoms_sdf_val": _concatenated([field.values for _, field in present], ()),
            "geoms_sdf_grad": _concatenated([field.gradients for _, field in present], (3,)),
            "geoms_sdf_closest_vert": _concatenated(closest, (), np.int32),
        }

    def support_info(self) -> dict[str, np.ndarray]:
        """Support points of each convex geom for a grid of directions, by array name (lookup tables)."""
        solids = [
            record.collision_shape.type not in ("plane", "height field", "distance field") for record in self.records
        ]
        tables = [
            geo.build_support_table(mesh.vertices) if s else None for mesh, s in zip(self.meshes, solids, strict=True)
        ]
        present = [(start, table) for start, table in zip(self.vert_starts, tables, strict=True) if table is not None]
        return {
            "support_cell_start": _ranges([geo.SUPPORT_RESOLUTION**2 * s for s in solids])[0],
            "support_v": _concatenated([table.support_points for _, table in present], (3,)),
            "support_vid": _concatenated([table.vertex_indices + start for start, table in present], (), np.int32),
            "support_res": np.array(geo.SUPPORT_RESOLUTION, np.int32),
        }

    # ------------------------------------------------------------------------------------------ arrays of the state

    def geoms_state(self, links_pos: np.ndarray, links_quat: np.ndarray, asleep: np.ndarray) -> dict[str, np.ndarray]:
        """World poses, AABBs and sleep flags of all geoms by array name (`pos`, `quat`, `aabb_min`, `aabb_max`, ...).

        `verts_updated` is always True, as vertices are computed on read; `hibernated` is 1 for geoms of sleeping links.

        Args:
            links_pos: world positions of the links [m], (n_links, n_envs, 3).
            links_quat: orientations of the links, (n_links, n_envs, 4).
            asleep: whether each link is asleep, (n_links, n_envs).
        """
        pos, quat = world_poses(links_pos, links_quat, self.link_idx, self.pos, self.quat)
        low, high = np.zeros_like(pos), np.zeros_like(pos)
        for i, geometry in enumerate(self.geometries):
            axes = np.stack([rotate_vectors(quat[i], axis) for axis in np.eye(3)], axis=2)
            low[i], high[i] = geometry_aabb(geometry, pos[i], axes)
        dtype = links_pos.dtype
        hibernated = np.concatenate([asleep, np.zeros_like(asleep[:1])])[self.link_idx] if len(asleep) else None
        return {
            **{
                name: x.astype(dtype)
                for name, x in (("pos", pos), ("quat", quat), ("aabb_min", low), ("aabb_max", high))
            },
            "verts_updated": np.ones(pos.shape[:2], np.bool_),
            "hibernated": np.zeros(pos.shape[:2], np.int32) if hibernated is None else hibernated.astype(np.int32),
        }

    def verts_state(self, geoms_pos: np.ndarray, geoms_quat: np.ndarray) -> np.ndarray:
        """World positions [m] of the vertices of geoms on moving links, (n_free_verts, n_envs, 3).

        Args:
            geoms_pos: world positions of the geoms [m], (n_geoms, n_envs, 3).
            geoms_quat: orientations of the geoms, (n_geoms, n_envs, 4).
        """
        blocks = [
            geoms_pos[i] + rotate_vectors(geoms_quat[i][None], self.meshes[i].vertices[:, None])
            for i in np.flatnonzero(self.is_free)
        ]
        empty = np.zeros((0, *geoms_pos.shape[1:]))
        return np.concatenate([empty, *blocks]).astype(geoms_pos.dtype)

    def broad_phase(self, model: Model, low: np.ndarray, high: np.ndarray) -> dict[str, np.ndarray]:
        """Geom pairs with overlapping AABBs, and the AABB ends along x, sorted (sweep and prune), by array name.

        Args:
            model: model with the geom pairs that may collide.
            low: minima of the AABBs [m], (n_geoms, n_envs, 3).
            high: maxima of the AABBs [m].
        """
        parameters = model.pair_rules.parameters if model.has_pair_rules else model.pairs
        margin = 0.5 * float(parameters.margin.max(initial=0.0))
        low, high = low - np.asarray(margin, low.dtype), high + np.asarray(margin, low.dtype)
        order = np.argsort(low[..., 0], axis=0, kind="stable")
        pairs = self.row_of_model_geom[model.geom_pairs()]
        pairs = np.unique(pairs.reshape(-1, 2), axis=0)
        a, b = pairs.T
        overlaps = ((low[a] <= high[b]) & (low[b] <= high[a])).all(axis=2)
        first = np.argsort(~overlaps, axis=0, kind="stable")
        candidates = np.where(np.take_along_axis(overlaps, first, axis=0)[..., None], pairs[first], -1)
        return {
            "broad_collision_pairs": candidates.astype(np.int32),
            "n_broad_pairs": overlaps.sum(axis=0, dtype=np.int32),
            "sort_buffer_min": np.take_along_axis(low[..., 0], order, axis=0),
            "sort_buffer_max": np.take_along_axis(high[..., 0], order, axis=0),
            "sort_buffer_idx": order.astype(np.int32),
        }


def world_poses(
    links_pos: np.ndarray, links_quat: np.ndarray, link_idx: np.ndarray, pos: np.ndarray, quat: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """World positions [m] (n, n_envs, 3) and quaternions (n, n_envs, 4) of frames on links, in float64.

    Args:
        links_pos: world positions of the links [m], (n_links, n_envs, 3).
        links_quat: orientations of the links, (n_links, n_envs, 4).
        link_idx: link of each frame, (n,); -1 for the world.
        pos: position of each frame in its link [m], (n, 3).
        quat: orientation of each frame in its link, (n, 4).
    """
    n_envs = links_pos.shape[1]
    identity = np.broadcast_to([1.0, 0.0, 0.0, 0.0], (1, n_envs, 4))
    origins = np.concatenate([links_pos.astype(np.float64), np.zeros((1, n_envs, 3))])[link_idx]
    rotations = np.concatenate([links_quat.astype(np.float64), identity])[link_idx]
    return origins + rotate_vectors(rotations, pos[:, None]), multiply_quaternions(rotations, quat[:, None])


def _collision_geometry(record: GeomRecord, nonconvex: str | None) -> Geometry:
    """Geometry of a geom in its own frame, a hull or the source of a distance field as a mesh.

    `nonconvex` is the collision approximation of non-convex meshes that the user chose for the entity.
    """
    shape, described = record.collision_shape, record.shape.geometry
    radius, half, _ = shape.size
    if shape.hull is not None:
        vertices = shape.hull.data[: 3 * shape.hull.n_vertices[0]].reshape(-1, 3)
        hull = geo.convex_hull(geo.MeshData(vertices, np.zeros((0, 3), np.int64)))
        return Mesh(vertices=hull.vertices, faces=hull.faces)
    if shape.sdf is not None:
        assert isinstance(described, Mesh)
        source = sdf_mesh(described, nonconvex)
        return Mesh(vertices=source.vertices, faces=source.faces)
    primitives = {
        "sphere": lambda: Sphere(radius),
        "capsule": lambda: Capsule(radius, 2.0 * half),
        "cylinder": lambda: Cylinder(radius, 2.0 * half),
        "cone": lambda: Cone(radius, 2.0 * half),
        "ellipsoid": lambda: Ellipsoid(np.array(shape.size)),
        "box": lambda: Box(2.0 * np.array(shape.size)),
    }
    if shape.type in primitives:
        return primitives[shape.type]()
    assert isinstance(described, Plane | HeightField)
    return described


# ---------------------------------------------------------------------------------------------- concatenated arrays


def _stacked(values: Sequence[Any], element: tuple[int, ...]) -> np.ndarray:
    return np.array(values, np.float64).reshape(len(values), *element)


def _concatenated(blocks: Sequence[np.ndarray], element: tuple[int, ...], dtype: Any = np.float64) -> np.ndarray:
    return np.concatenate([np.zeros((0, *element), dtype), *blocks]).astype(dtype)


def _ranges(counts: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """Start and end of consecutive ranges of the given lengths."""
    ends = np.cumsum(np.array(counts, np.int32), dtype=np.int32)
    return ends - np.array(counts, np.int32), ends


def _owners(counts: Sequence[int]) -> np.ndarray:
    return np.repeat(np.arange(len(counts), dtype=np.int32), counts)


def _masks(values: Sequence[int]) -> np.ndarray:
    """Bit masks of 32 bits as signed integers."""
    return (np.array(values, np.int64) & 0xFFFFFFFF).astype(np.uint32).view(np.int32)
