"""Flattening a scene of placed meshes, within limits."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from kinema.shapes.affine import apply_linear, merge
from kinema.shapes.appearance import Appearance, merge_appearances
from kinema.shapes.limits import MeshLimits
from kinema.shapes.mesh_data import FloatArray, IntArray, MeshData, MeshError


class SceneBuilder:
    """Collects placed meshes. A small file may place one mesh very often: the sum is checked before it is built."""

    def __init__(self, limits: MeshLimits) -> None:
        self._limits = limits
        self._parts: list[MeshData] = []
        self._looks: list[Appearance | None] = []
        self._n_vertices = 0
        self._n_faces = 0
        self._n_nodes = 0
        self.parts: dict[str, list[tuple[int, int]]] = {}
        """Name of a part -> the first of its faces and the one after its last."""

    def visit_node(self, depth: int) -> None:
        """Count a scene node at `depth`; nodes that place nodes can multiply without ever placing a mesh."""
        self._n_nodes += 1
        if depth > self._limits.depth:
            raise MeshError(f"The scene is nested deeper than the {self._limits.depth} levels allowed.")
        if self._n_nodes > self._limits.markup_items:
            raise MeshError(f"The scene has more than the {self._limits.markup_items} nodes allowed.")

    def place(
        self,
        mesh: MeshData,
        pose: FloatArray,
        names: Iterable[str | None] = (),
        appearance: Appearance | None = None,
    ) -> None:
        """Add `mesh` mapped by the 4x4 matrix `pose`; `names` are what the file calls it and where it is placed."""
        for name in dict.fromkeys(names):
            if name:
                self.parts.setdefault(name, []).append((self._n_faces, self._n_faces + mesh.n_faces))
        self._n_vertices += mesh.n_vertices
        self._n_faces += mesh.n_faces
        self._limits.check_counts(self._n_vertices, self._n_faces)
        if not np.isfinite(pose).all():
            raise MeshError("The pose of a part of the scene is not finite.")
        self._parts.append(apply_linear(mesh, pose[:3, :3], pose[:3, 3]))
        self._looks.append(None if appearance is None else appearance.under(pose[:3, :3]))

    def build(self) -> MeshData:
        """All parts as one mesh."""
        return merge(self._parts)

    def appearance(self) -> Appearance | None:
        """What is laid on all parts."""
        return merge_appearances(list(zip(self._parts, self._looks, strict=True)))


def checked_part(vertices: FloatArray, faces: IntArray) -> MeshData:
    """A mesh with its indices in range: once merged, one past the end of a part would silently land in the next."""
    if len(faces) and not 0 <= faces.min() <= faces.max() < len(vertices):
        raise MeshError(f"A face refers to vertex {faces.max()}, but there are only {len(vertices)} vertices.")
    return MeshData(vertices, faces)


def translation_matrix(offset: FloatArray) -> FloatArray:
    """4x4 matrix that moves by `offset` (3,)."""
    matrix = np.eye(4)
    matrix[:3, 3] = offset
    return matrix


def scale_matrix(factors: FloatArray) -> FloatArray:
    """4x4 matrix that scales by `factors` (3,)."""
    return np.diag([*factors, 1.0])


def axis_angle_matrix(axis: FloatArray, angle: float) -> FloatArray:
    """4x4 matrix that rotates by `angle` [rad] about `axis` (3,), of any length but zero."""
    half = angle / 2
    return quaternion_matrix(np.sin(half) * axis / np.linalg.norm(axis), np.cos(half))


def quaternion_matrix(vector: FloatArray, scalar: float) -> FloatArray:
    """4x4 rotation matrix of a quaternion, normalised first."""
    norm = np.sqrt(vector @ vector + scalar**2)
    (x, y, z), w = vector / norm, scalar / norm
    matrix = np.eye(4)
    matrix[:3, :3] = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return matrix
