"""What a format reader gets and what it returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from kinema.shapes.limits import MeshLimits
from kinema.shapes.mesh_data import MeshData


@dataclass(frozen=True)
class MeshSource:
    """The bytes of a mesh file."""

    data: bytes
    limits: MeshLimits = field(default_factory=MeshLimits)
    folder: Path | None = None
    """Folder of the file; None when the bytes came from elsewhere, and then no other file is ever opened."""


@dataclass(frozen=True)
class LoadedMesh:
    """A mesh and what its file said about it."""

    mesh: MeshData
    up_axis: str | None = None
    """Up axis the file declares ("X_UP", "Y_UP", "Z_UP"), None where it does not. Not applied."""
    notes: tuple[str, ...] = ()
    """What was skipped or simplified, one sentence each."""
    parts: Mapping[str, Sequence[tuple[int, int]]] = field(default_factory=dict)
    """The named parts of the file: the nodes and meshes of a scene, the groups of an OBJ; each with the first of its
    faces and the one after its last, as often as it is there."""

    def part(self, name: str) -> MeshData | None:
        """One part alone, without the vertices of others; None where the file has none of that name."""
        ranges = self.parts.get(name)
        if not ranges:
            return None
        faces = np.concatenate([self.mesh.faces[start:end] for start, end in ranges])
        used, numbers = np.unique(faces, return_inverse=True)
        return MeshData(self.mesh.vertices[used], numbers.reshape(-1, 3))
