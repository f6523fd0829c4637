"""Meshes with what is laid on them as binary glTF files, images inside.

A vertex of glTF has one normal, one colour and one point of each image, so that a vertex on a seam is there several
times; faces of one material are one primitive. What its materials have no word for is handed back as a list.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from kinema.shapes import Appearance, CornerValues, MeshData

from .glb_file import GlbFile
from .glb_materials import GlbMaterials
from .textures import Losses

_DIGITS = 1e-12
"""Rounding, against the size of a mesh, that is not worth a word."""


def dressed_glb(mesh: MeshData, appearance: Appearance | None, name: str, losses: Losses) -> Iterator[bytes]:
    """The mesh as a binary glTF file, piece by piece.

    Args:
        mesh: the triangles; axes stay as they are.
        appearance: what is laid on them; None for nothing.
        name: what the mesh is called.
        losses: where to put what cannot be said.
    """
    file = GlbFile()
    looks = appearance or Appearance()
    materials = GlbMaterials(file, losses, len(looks.coordinates))
    primitives = [
        _primitive(file, mesh, looks, faces, materials.number(look))
        for look, faces in looks.faces_of_materials(mesh.n_faces)
        if len(faces)
    ]
    scale = float(np.abs(mesh.vertices).max(initial=0.0))
    if np.abs(mesh.vertices - mesh.vertices.astype(np.float32)).max(initial=0.0) > _DIGITS * scale:
        losses.append((name, "digits of its mesh beyond the seventh", "glTF has single precision"))
    file.add("meshes", {"name": name, "primitives": primitives})
    file.add("nodes", {"name": name, "mesh": 0})
    file.add("scenes", {"nodes": [0]})
    file.document["scene"] = 0
    return file.pieces()


def _primitive(
    file: GlbFile, mesh: MeshData, looks: Appearance, faces: np.ndarray, material: int | None
) -> dict[str, Any]:
    """Faces of one material."""
    layers: list[tuple[str, CornerValues]] = [("POSITION", CornerValues(mesh.vertices, mesh.faces))]
    if looks.normals is not None:
        layers.append(("NORMAL", looks.normals))
    layers += [(f"TEXCOORD_{i}", _downwards(c)) for i, c in enumerate(looks.coordinates)]
    if looks.colors is not None:
        layers.append(("COLOR_0", looks.colors))
    columns = np.stack([layer.corners[faces].reshape(-1) for _, layer in layers], axis=-1)
    used, corners = _distinct(columns)
    attributes = {
        name: file.numbers(layer.values[used[:, i]], bounds=name == "POSITION")
        for i, (name, layer) in enumerate(layers)
    }
    primitive: dict[str, Any] = {"attributes": attributes, "indices": file.numbers(corners), "mode": 4}
    return primitive if material is None else {**primitive, "material": material}


def _distinct(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The rows that differ, and which of them each row is."""
    order = np.lexsort(rows.T[::-1])
    ordered = rows[order]
    is_new = np.ones(len(rows), dtype=bool)
    is_new[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    numbers = np.zeros(len(rows), dtype=np.int64)
    numbers[order] = np.cumsum(is_new) - 1
    return ordered[is_new], numbers


def _downwards(layer: CornerValues) -> CornerValues:
    """Texture coordinates as glTF has them, whose v counts from the top of an image."""
    return CornerValues(np.column_stack([layer.values[:, 0], 1.0 - layer.values[:, 1]]), layer.corners)
