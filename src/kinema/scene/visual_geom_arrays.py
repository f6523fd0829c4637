"""Arrays of visual geoms: poses, triangles, texture coordinates and colors of the visual shapes of a scene.

Visual geoms are numbered entity after entity: static ones, then link by link, in file order. The vertices of all visual
geoms are concatenated, as are their triangles; `start` and `end` indices delimit those of one geom.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kinema import geometry as geo
from kinema.builder import EntitySpec
from kinema.core import Array, Pose
from kinema.description import Mesh, Robot, Shape, World, effective_appearance, load_textured_mesh, tessellate
from kinema.geometry import GeometryError
from kinema.model import Model

from .flat_arrays import declare

VGEOMS_INFO = declare(
    "n_vgeoms",
    ("pos", (3,), "float64", "m", "position in the link, or in the world for a static shape"),
    ("quat", (4,), "float64", "1", "orientation in the link, or in the world"),
    ("link_idx", (), "int32", "1", "link of the shape; -1 for the world"),
    ("vvert_start", (), "int32", "1", "first vertex in `vverts_info`"),
    ("vvert_end", (), "int32", "1", "end of the vertices"),
    ("vface_start", (), "int32", "1", "first triangle in `vfaces_info`"),
    ("vface_end", (), "int32", "1", "end of the triangles"),
    (
        "color",
        (4,),
        "float64",
        "1",
        "base color: red, green, blue, opacity; of the first material if there are several",
    ),
)
VGEOMS_STATE = declare(
    "n_vgeoms n_envs",
    ("pos", (3,), "float", "m", "position in the world"),
    ("quat", (4,), "float", "1", "orientation in the world"),
)
VVERTS_INFO = declare(
    "n_vverts",
    ("init_pos", (3,), "float64", "m", "position in the visual geom"),
    ("init_normal", (3,), "float64", "1", "outward normal: that of the file, or the mean of the adjacent triangles"),
    ("uv", (2,), "float64", "1", "texture coordinates; zeros without"),
    ("vgeom_idx", (), "int32", "1", "visual geom of the vertex"),
)
VFACES_INFO = declare(
    "n_vfaces",
    ("vverts_idx", (3,), "int32", "1", "vertices in `vverts_info`, counter-clockwise as seen from outside"),
    ("vgeom_idx", (), "int32", "1", "visual geom of the triangle"),
)
DEFAULT_COLOR = (0.72, 0.72, 0.72, 1.0)
"""Color of shapes whose file gives none, as in images."""


@dataclass(frozen=True, slots=True, eq=False)
class VisualMesh:
    """Triangles of a visual geom, with one normal and one pair of texture coordinates per vertex."""

    vertices: Array
    """[m], (n, 3)"""
    normals: Array
    uv: Array
    faces: np.ndarray
    color: tuple[float, ...]


class VisualGeomTables:
    """Constant arrays of the visual geoms of a scene."""

    def __init__(self, model: Model, specs: Sequence[EntitySpec]) -> None:
        """Visual shapes of the entities in `specs`, whose model is `model`."""
        shapes = [
            row
            for spec, info in zip(specs, model.entities, strict=True)
            for row in _visual_shapes(spec, model.links.names[info.link_start : info.link_end], info.link_start)
        ]
        self.link_idx = np.array([link for link, _, _ in shapes], np.int32)
        self.pos = np.array([pose.position for _, pose, _ in shapes]).reshape(-1, 3)
        self.quat = np.array([pose.quaternion for _, pose, _ in shapes]).reshape(-1, 4)
        self._shapes = [shape for _, _, shape in shapes]
        self._meshes: list[VisualMesh] | None = None

    @property
    def meshes(self) -> list[VisualMesh]:
        """Triangles of each visual geom; loaded when first used."""
        if self._meshes is None:
            self._meshes = [_visual_mesh(shape) for shape in self._shapes]
        return self._meshes

    def vgeoms_info(self) -> dict[str, Any]:
        """Names, poses in the link, colours and vertex and triangle ranges of all visual geoms, by array name."""
        n_vertices, n_faces = self._counts()
        vvert_end, vface_end = np.cumsum(n_vertices), np.cumsum(n_faces)
        return {
            "names": tuple(shape.name for shape in self._shapes),
            "pos": self.pos,
            "quat": self.quat,
            "link_idx": self.link_idx,
            "vvert_start": (vvert_end - n_vertices).astype(np.int32),
            "vvert_end": vvert_end.astype(np.int32),
            "vface_start": (vface_end - n_faces).astype(np.int32),
            "vface_end": vface_end.astype(np.int32),
            "color": np.array([mesh.color for mesh in self.meshes], np.float64).reshape(-1, 4),
        }

    def vverts_info(self) -> dict[str, np.ndarray]:
        """Positions, normals and texture coordinates of all vertices of the visual geoms, by array name."""
        n_vertices, _ = self._counts()
        return {
            "init_pos": np.concatenate([np.zeros((0, 3)), *(mesh.vertices for mesh in self.meshes)]),
            "init_normal": np.concatenate([np.zeros((0, 3)), *(mesh.normals for mesh in self.meshes)]),
            "uv": np.concatenate([np.zeros((0, 2)), *(mesh.uv for mesh in self.meshes)]),
            "vgeom_idx": np.repeat(np.arange(len(self.meshes), dtype=np.int32), n_vertices),
        }

    def vfaces_info(self) -> dict[str, np.ndarray]:
        """Vertex indices and visual geom of all triangles of the visual geoms, by array name."""
        n_vertices, n_faces = self._counts()
        starts = np.cumsum(n_vertices) - n_vertices
        faces = [mesh.faces + start for mesh, start in zip(self.meshes, starts, strict=True)]
        return {
            "vverts_idx": np.concatenate([np.zeros((0, 3), np.int32), *faces]).astype(np.int32),
            "vgeom_idx": np.repeat(np.arange(len(self.meshes), dtype=np.int32), n_faces),
        }

    def _counts(self) -> tuple[np.ndarray, np.ndarray]:
        """Number of vertices and of triangles of each visual geom."""
        counts = np.array([(len(mesh.vertices), len(mesh.faces)) for mesh in self.meshes], np.int64).reshape(-1, 2)
        return counts[:, 0], counts[:, 1]


def _visual_shapes(spec: EntitySpec, link_names: Sequence[str], first_link: int) -> list[tuple[int, Pose, Shape]]:
    """Link index (-1 for the world), pose in the link and description of each visual shape of an entity, by link.

    Args:
        spec: the entity.
        link_names: names of its links, unique in the entity, in the order of the model.
        first_link: index of its first link in the scene.
    """
    description: Robot | World = spec.description
    shapes: list[tuple[int, Pose, Shape]] = []
    if isinstance(description, World):
        base = spec.pose or Pose()
        shapes += [(-1, base @ shape.pose, shape) for shape in description.shapes]
        links: Mapping[str, Sequence[Shape]] = {name: link.shapes for name, _, link in description.named_links()}
    else:
        links = {link.name: link.shapes for link in description.links}
    for i, name in enumerate(link_names):
        shapes += [(first_link + i, shape.pose, shape) for shape in links[name]]
    return [row for row in shapes if row[2].visual]


def _visual_mesh(shape: Shape) -> VisualMesh:
    """Triangles of a visual shape, without any if its mesh file is missing or unusable.

    A vertex that triangles use with several normals or texture coordinates is repeated.
    """
    material = shape.material
    color = None if material is None else material.color
    if not isinstance(shape.geometry, Mesh):
        mesh = tessellate(shape.geometry)
        assert mesh is not None
        return VisualMesh(
            mesh.vertices,
            geo.vertex_normals(mesh),
            np.zeros((mesh.n_vertices, 2)),
            mesh.faces,
            color or DEFAULT_COLOR,
        )
    try:
        loaded = load_textured_mesh(shape.geometry)
    except GeometryError:
        loaded = None
    if loaded is None:
        return VisualMesh(
            np.zeros((0, 3)), np.zeros((0, 3)), np.zeros((0, 2)), np.zeros((0, 3), np.int64), color or DEFAULT_COLOR
        )
    scale = np.diag(shape.geometry.scale)
    mesh = geo.apply_affine(loaded.mesh, scale)
    appearance = effective_appearance(shape, loaded).transformed(scale)
    colors = [m.color for m in appearance.materials if m.color is not None]
    normals, coordinates = appearance.normals, appearance.texture_coordinates
    corners = [mesh.faces, mesh.faces if normals is None else normals.indices]
    corners.append(coordinates[0].indices if coordinates else np.zeros_like(mesh.faces))
    used, faces = np.unique(np.stack(corners, axis=-1).reshape(-1, 3), axis=0, return_inverse=True)
    normal_values = geo.vertex_normals(mesh) if normals is None else normals.values
    uv_values = coordinates[0].values if coordinates else np.zeros((1, 2))
    return VisualMesh(
        mesh.vertices[used[:, 0]],
        normal_values[used[:, 1]],
        uv_values[used[:, 2]],
        faces.reshape(-1, 3),
        colors[0] if colors else color or DEFAULT_COLOR,
    )
