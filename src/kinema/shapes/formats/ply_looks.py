"""What PLY files say of how their meshes look."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kinema.shapes.appearance import Appearance, CornerValues, corner_values, unit_normals
from kinema.shapes.mesh_data import FloatArray, IntArray, MeshData

LAYERS = (
    *("nx", "ny", "nz", "red", "green", "blue", "alpha"),
    *("s", "t", "u", "v", "texture_u", "texture_v"),
)
"""Properties of vertices that say how they look."""
COLORS = ("red", "green", "blue", "alpha")
"""Those of faces that do."""


def skipped_looks(header: bytes, of_faces: list[str]) -> Iterator[str]:
    """What is said of looks and is not read: MeshLab's and others' ways of laying an image."""
    if "texcoord" in of_faces:
        yield "The texture coordinates of the corners of faces were skipped."
    for line in header.decode("ascii", "replace").splitlines():
        words = line.split(maxsplit=2)
        if words[:2] == ["comment", "TextureFile"]:
            yield f"The image {words[2][:200] if words[2:] else ''!r} was skipped."


def appearance_of(
    mesh: MeshData, extra: dict[str, FloatArray], of_faces: dict[str, FloatArray], counts: IntArray
) -> Appearance | None:
    """What vertices have beside their position, and faces of so many corners; colours of vertices go first.

    Both are columns: the name of a property -> a value for each vertex or face.
    """
    normals = _columns(extra, ("nx", "ny", "nz"))
    pairs = (("s", "t"), ("u", "v"), ("texture_u", "texture_v"))
    coordinates = next((c for names in pairs if (c := _columns(extra, names)) is not None), None)
    layers = Appearance(
        normals=None if normals is None else unit_normals(corner_values(normals, mesh.faces, 3)),
        coordinates=tuple(c for c in (_layer(coordinates, mesh, 2),) if c is not None),
        colors=_layer(_colors(extra), mesh, 4) or _face_colors(of_faces, counts),
    )
    return None if layers.is_empty else layers


def _colors(columns: dict[str, FloatArray]) -> FloatArray | None:
    """Red, green, blue and opacity, a row each."""
    colors = _columns(columns, COLORS[:3])
    return None if colors is None else np.column_stack([colors, columns.get("alpha", np.ones(len(colors)))])


def _face_colors(columns: dict[str, FloatArray], counts: IntArray) -> CornerValues | None:
    """The colour of each triangle's polygon, at all of its corners."""
    colors = _colors(columns)
    if colors is None:
        return None
    kinds, numbers = np.unique(colors, axis=0, return_inverse=True)
    of_triangles = np.repeat(numbers.reshape(-1, 1), np.maximum(counts - 2, 0), axis=0)
    return corner_values(kinds, np.repeat(of_triangles, 3, axis=1), 4)


def _columns(extra: dict[str, FloatArray], names: tuple[str, ...]) -> FloatArray | None:
    return np.column_stack([extra[name] for name in names]) if all(name in extra for name in names) else None


def _layer(values: FloatArray | None, mesh: MeshData, width: int) -> CornerValues | None:
    return None if values is None else corner_values(values, mesh.faces, width)
