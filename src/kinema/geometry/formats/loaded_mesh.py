"""Input and output types of mesh readers, and flattening of scene graphs of mesh instances into one mesh."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from kinema.core import reproducible_norm, sine_cosine

from ..appearance import Appearance, merge_appearances
from ..mesh import FloatArray, IntArray, MeshData, MeshError, MeshLimits, apply_affine, extract_faces, merge_meshes


@dataclass(frozen=True)
class MeshSource:
    """Input of a mesh reader: content of a mesh file, with limits and options."""

    data: bytes
    limits: MeshLimits = field(default_factory=MeshLimits)
    folder: Path | None = None
    """Folder of the file; None if unknown, in which case no other file is opened."""
    file_name: str = ""
    """Path of the file, used in references to embedded images."""
    with_appearance: bool = False
    """Whether to read normals, texture coordinates, colours and materials."""


@dataclass(frozen=True)
class LoadedMesh:
    """Output of a mesh reader: mesh, metadata, named parts and appearance."""

    mesh: MeshData
    up_axis: str | None = None
    """Up axis declared by the file ("X_UP", "Y_UP", "Z_UP"), None if undeclared. Not applied."""
    notes: tuple[str, ...] = ()
    """Skipped or simplified geometry, one sentence each."""
    parts: Mapping[str, Sequence[tuple[int, int]]] = field(default_factory=dict)
    """Face ranges (start, end) of the named parts: nodes and meshes of a scene, groups of an OBJ; one range per
    instance."""
    appearance: Appearance | None = None
    """Attributes and materials of the faces; None if not requested or absent."""
    appearance_notes: tuple[str, ...] = ()
    """Skipped or missing appearance data, one sentence each."""

    def part_mesh(self, name: str) -> MeshData | None:
        """Mesh of one named part without unreferenced vertices; None if there is no such part."""
        part = self.part_with_appearance(name)
        return None if part is None else part.mesh

    def part_with_appearance(self, name: str) -> LoadedMesh | None:
        """Mesh and appearance of one named part; None if there is no such part."""
        ranges = self.parts.get(name)
        if not ranges:
            return None
        face_indices = np.concatenate([np.arange(start, end) for start, end in ranges])
        mesh = extract_faces(self.mesh, face_indices)
        return LoadedMesh(
            mesh, appearance=None if self.appearance is None else self.appearance.select_faces(face_indices)
        )


# Scene flattening -----------------------------------------------------------------------------------------------------


class SceneFlattener:
    """Collects transformed mesh instances of a scene graph and merges them.

    Totals are checked against the limits before geometry is created, since a small file may instantiate a mesh many
    times.
    """

    def __init__(self, limits: MeshLimits) -> None:
        """Start with an empty scene; `limits` bound its nodes, vertices and triangles."""
        self._limits = limits
        self._instances: list[MeshData] = []
        self._appearances: list[Appearance | None] = []
        self._n_vertices = 0
        self._n_faces = 0
        self._n_nodes = 0
        self.parts: dict[str, list[tuple[int, int]]] = {}
        """Face ranges (start, end) of each named part."""

    def count_node(self, depth: int) -> None:
        """Count a scene node at `depth` and check limits, since nested node instances can grow exponentially."""
        self._n_nodes += 1
        if depth > self._limits.nesting_depth:
            raise MeshError(f"The scene is nested deeper than the {self._limits.nesting_depth} levels allowed.")
        if self._n_nodes > self._limits.markup_items:
            raise MeshError(f"The scene has more than the {self._limits.markup_items} nodes allowed.")

    def add_instance(
        self,
        mesh: MeshData,
        transform: FloatArray,
        names: Iterable[str | None] = (),
        appearance: Appearance | None = None,
    ) -> None:
        """Add a mesh at a pose in the scene to the merged mesh; raises `MeshError` if the limits are exceeded.

        Args:
            mesh: the mesh.
            transform: world transform, shape (4, 4).
            names: names under which the faces of the instance are recorded in `parts`.
            appearance: appearance of the mesh, transformed with it.
        """
        for name in dict.fromkeys(names):
            if name:
                self.parts.setdefault(name, []).append((self._n_faces, self._n_faces + mesh.n_faces))
        self._n_vertices += mesh.n_vertices
        self._n_faces += mesh.n_faces
        self._limits.check_counts(self._n_vertices, self._n_faces)
        if not np.isfinite(transform).all():
            raise MeshError("The transform of a scene node is not finite.")
        self._instances.append(apply_affine(mesh, transform[:3, :3], transform[:3, 3]))
        self._appearances.append(None if appearance is None else appearance.transformed(transform[:3, :3]))

    def merged_mesh(self) -> MeshData:
        """All instances as one mesh."""
        return merge_meshes(self._instances)

    def merged_appearance(self) -> Appearance | None:
        """Appearance of the merged mesh; None if no instance has one."""
        return merge_appearances(list(zip(self._instances, self._appearances, strict=True)))


def checked_mesh(vertices: FloatArray, faces: IntArray) -> MeshData:
    """Mesh with vertex indices checked to be in range; `MeshError` otherwise.

    After merging, an index past the end of one part would silently refer to a vertex of the next part.
    """
    if len(faces) and not 0 <= faces.min() <= faces.max() < len(vertices):
        raise MeshError(f"A face refers to vertex {faces.max()}, but there are only {len(vertices)} vertices.")
    return MeshData(vertices, faces)


def translation_matrix(offset: FloatArray) -> FloatArray:
    """Homogeneous matrix (4, 4) of a translation by `offset` (3,)."""
    matrix = np.eye(4)
    matrix[:3, 3] = offset
    return matrix


def scale_matrix(factors: FloatArray) -> FloatArray:
    """Homogeneous matrix (4, 4) of a scaling by `factors` (3,)."""
    return np.diag([*factors, 1.0])


def axis_angle_matrix(axis: FloatArray, angle: float) -> FloatArray:
    """Homogeneous matrix (4, 4) of a rotation by `angle` [rad] about `axis` (3,), not necessarily of unit length."""
    sine, cosine = sine_cosine(angle / 2)
    return quaternion_matrix(sine * axis / reproducible_norm(axis), cosine)


def quaternion_matrix(vector: FloatArray, scalar: float) -> FloatArray:
    """Homogeneous rotation matrix (4, 4) of a quaternion with vector part (3,) and scalar part, normalised first."""
    norm = np.sqrt(vector @ vector + scalar**2)
    (x, y, z), w = vector / norm, scalar / norm
    matrix = np.eye(4)
    matrix[:3, :3] = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return matrix
