"""What is laid on the triangles of a mesh: normals, texture coordinates, colours, and a material for each.

Formats differ in what these belong to: to vertices (glTF, PLY), to corners (OBJ, COLLADA, USD), to faces (STL). Here
all belong to corners: a list of values, and for each corner of each face the number of its value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from kinema.shapes.affine import is_identity
from kinema.shapes.look import Look
from kinema.shapes.mesh_data import FloatArray, IntArray, MeshData


@dataclass(frozen=True, eq=False, slots=True)
class CornerValues:
    """A value for each corner of each face."""

    values: FloatArray
    """Shape (n, width)."""
    corners: IntArray
    """The number of the value of each corner, shape (faces, 3)."""

    def of_faces(self, faces: IntArray) -> CornerValues:
        """The values of some faces alone, in that order."""
        used, numbers = np.unique(self.corners[faces], return_inverse=True)
        return CornerValues(self.values[used], numbers.reshape(-1, 3))

    def reversed(self) -> CornerValues:
        """The same for faces with their corners in reverse order."""
        return CornerValues(self.values, self.corners[:, ::-1])

    def expanded(self) -> FloatArray:
        """The value of every corner, shape (faces, 3, width)."""
        return self.values[self.corners]


@dataclass(frozen=True, kw_only=True, eq=False)
class Appearance:
    """What is laid on the faces of one mesh. Everything may be missing."""

    normals: CornerValues | None = None
    """Unit vectors."""
    coordinates: tuple[CornerValues, ...] = ()
    """Sets of texture coordinates (u, v); v counts upwards, so that (0, 0) is the lower left corner of an image."""
    colors: CornerValues | None = None
    """Red, green, blue, alpha."""
    materials: tuple[Look, ...] = ()
    material_of_face: IntArray | None = None
    """The number of each face's material, -1 for none; None where all faces have the first, if there is one."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing is said."""
        return self.normals is None and not self.coordinates and self.colors is None and not self.materials

    def of_faces(self, faces: IntArray) -> Appearance:
        """The appearance of some faces alone, in that order."""
        return replace(
            self,
            normals=None if self.normals is None else self.normals.of_faces(faces),
            coordinates=tuple(c.of_faces(faces) for c in self.coordinates),
            colors=None if self.colors is None else self.colors.of_faces(faces),
            material_of_face=None if self.material_of_face is None else self.material_of_face[faces],
        )

    def under(self, linear: FloatArray) -> Appearance:
        """The appearance of a mesh under a linear map: normals stay normal, a mirror turns the faces around."""
        if is_identity(linear):
            return self
        mirrored = np.linalg.det(linear) < 0
        normals, coordinates, colors = self.normals, self.coordinates, self.colors
        if normals is not None:
            normals = CornerValues(_mapped_normals(normals.values, linear), normals.corners)
        if mirrored:
            normals = None if normals is None else normals.reversed()
            coordinates = tuple(c.reversed() for c in coordinates)
            colors = None if colors is None else colors.reversed()
        return replace(self, normals=normals, coordinates=coordinates, colors=colors)

    def faces_of_materials(self, n_faces: int) -> list[tuple[Look | None, IntArray]]:
        """The materials that faces have, each with the numbers of its faces; None for faces without one."""
        if self.material_of_face is None:
            return [(self.materials[0] if self.materials else None, np.arange(n_faces))]
        numbers = np.where(self.material_of_face < len(self.materials), self.material_of_face, -1)
        order = np.argsort(numbers, kind="stable")
        used, starts = np.unique(numbers[order], return_index=True)
        groups = np.split(order, starts[1:])
        return [(self.materials[n] if n >= 0 else None, group) for n, group in zip(used.tolist(), groups, strict=True)]


EMPTY_APPEARANCE = Appearance()


def corner_values(values: FloatArray, corners: IntArray, width: int) -> CornerValues | None:
    """The values, where they are numbers of the right width and the corners refer to them; else None."""
    if values.ndim != 2 or values.shape[1] < width or len(values) == 0 or len(corners) == 0:
        return None
    if corners.min() < 0 or corners.max() >= len(values) or not np.isfinite(values).all():
        return None
    return CornerValues(np.ascontiguousarray(values[:, :width]), corners)


def unit_normals(found: CornerValues | None) -> CornerValues | None:
    """Normals of length one, where they are vectors and all that are used have a length."""
    if found is None or found.values.shape[1] < 3:
        return None
    corners, values = found.corners, found.values[:, :3]
    lengths = np.sqrt(np.einsum("ij,ij->i", values, values))
    is_nothing = lengths == 0
    if is_nothing.any() and is_nothing[corners].any():
        return None
    # those that have length one already, to the precision that files have, are left as they are
    is_off = (np.abs(lengths - 1.0) >= 1e-6) & ~is_nothing
    if not is_off.any():
        return CornerValues(values, corners)
    return CornerValues(values / np.where(is_off, lengths, 1.0)[:, None], corners)


def with_alpha(colors: FloatArray) -> FloatArray:
    """Colours of three or four numbers as red, green, blue, alpha."""
    if colors.shape[1] >= 4:
        return colors[:, :4]
    return np.column_stack([colors[:, :3], np.ones(len(colors))])


def merge_appearances(parts: Sequence[tuple[MeshData, Appearance | None]]) -> Appearance | None:
    """The appearance of meshes that are joined one after the other (`merge`); None where none has any."""
    looks = [EMPTY_APPEARANCE if appearance is None else appearance for _, appearance in parts]
    counts = [mesh.n_faces for mesh, _ in parts]
    if all(look.is_empty for look in looks):
        return None
    materials, numbers = _merged_materials(looks, counts)
    return Appearance(
        normals=_merged_normals(parts),
        coordinates=_merged_sets(looks, counts),
        colors=_merged([look.colors for look in looks], counts, 4),
        materials=materials,
        material_of_face=numbers,
    )


def _merged_sets(looks: Sequence[Appearance], counts: Sequence[int]) -> tuple[CornerValues, ...]:
    """The sets of texture coordinates, first with first, second with second."""
    n_sets = max(len(look.coordinates) for look in looks)
    sets = [[(*look.coordinates, *[None] * n_sets)[i] for look in looks] for i in range(n_sets)]
    merged = (_merged(parts, counts, 2) for parts in sets)
    return tuple(layer for layer in merged if layer is not None)


def _merged(parts: Sequence[CornerValues | None], counts: Sequence[int], width: int) -> CornerValues | None:
    """Values one after the other; parts without any get zeros, or white."""
    if all(part is None for part in parts):
        return None
    missing = np.full((1, width), 1.0 if width == 4 else 0.0)
    values, corners, start = [], [], 0
    for part, count in zip(parts, counts, strict=True):
        own = CornerValues(missing, np.zeros((count, 3), dtype=np.int64)) if part is None else part
        values.append(own.values)
        corners.append(own.corners + start)
        start += len(own.values)
    return CornerValues(np.concatenate(values), np.concatenate(corners))


def _merged_normals(parts: Sequence[tuple[MeshData, Appearance | None]]) -> CornerValues | None:
    """Normals, where at least one part has some; parts without get those of their faces."""
    found = [None if appearance is None else appearance.normals for _, appearance in parts]
    if all(normals is None for normals in found):
        return None
    filled = [
        _face_normals(mesh) if normals is None else normals for normals, (mesh, _) in zip(found, parts, strict=True)
    ]
    return _merged(filled, [mesh.n_faces for mesh, _ in parts], 3)


def _face_normals(mesh: MeshData) -> CornerValues:
    a, b, c = (mesh.triangles()[:, i] for i in range(3))
    normals = np.cross(b - a, c - a)
    lengths = np.linalg.norm(normals, axis=1)
    normals = np.where(lengths[:, None] > 0, normals / np.where(lengths > 0, lengths, 1.0)[:, None], [0.0, 0.0, 1.0])
    return CornerValues(normals, np.repeat(np.arange(mesh.n_faces)[:, None], 3, axis=1))


def _merged_materials(looks: Sequence[Appearance], counts: Sequence[int]) -> tuple[tuple[Look, ...], IntArray | None]:
    """The materials of all parts, each once, and the number of each face's."""
    every = list(dict.fromkeys(material for look in looks for material in look.materials))
    if not every:
        return (), None
    place = {id(material): number for number, material in enumerate(every)}
    numbers: list[IntArray] = []
    for look, count in zip(looks, counts, strict=True):
        own = np.array([*(place[id(m)] for m in look.materials), -1], dtype=np.int64)
        if look.material_of_face is None:
            numbers.append(np.full(count, own[0]))
        else:
            numbers.append(own[np.where(look.material_of_face < len(look.materials), look.material_of_face, -1)])
    joined = np.concatenate(numbers) if numbers else np.zeros(0, dtype=np.int64)
    return tuple(every), None if len(every) == 1 and (joined == 0).all() else joined


def _mapped_normals(normals: FloatArray, linear: FloatArray) -> FloatArray:
    """By the inverse transpose, and of length one again; a map without an inverse leaves them."""
    scale = np.abs(linear).max()
    if not scale or not np.isfinite(scale) or abs(np.linalg.det(linear / scale)) < 1e-12:
        return normals
    carry = np.linalg.inv(linear / scale).T
    mapped = np.einsum("ij,nj->ni", carry, normals)
    lengths = np.linalg.norm(mapped, axis=1, keepdims=True)
    return mapped / np.where(lengths > 0, lengths, 1.0)
