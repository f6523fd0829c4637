"""What a format reader gets and what it returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from kinema.shapes.affine import faces_alone
from kinema.shapes.appearance import Appearance
from kinema.shapes.limits import MeshLimits
from kinema.shapes.mesh_data import MeshData


@dataclass(frozen=True)
class MeshSource:
    """The bytes of a mesh file."""

    data: bytes
    limits: MeshLimits = field(default_factory=MeshLimits)
    folder: Path | None = None
    """Folder of the file; None when the bytes came from elsewhere, and then no other file is ever opened."""
    name: str = ""
    """Name of the file, by which images inside of it are called."""
    looks: bool = False
    """Whether normals, texture coordinates, colours and materials are wanted too."""


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
    appearance: Appearance | None = None
    """What is laid on the faces; None where it was not asked for, or the file says nothing."""
    unseen: tuple[str, ...] = ()
    """What of the appearance was skipped or not found, one sentence each."""

    def part(self, name: str) -> MeshData | None:
        """One part alone, without the vertices of others; None where the file has none of that name."""
        part = self.whole_part(name)
        return None if part is None else part.mesh

    def whole_part(self, name: str) -> LoadedMesh | None:
        """As `part`, with its appearance."""
        ranges = self.parts.get(name)
        if not ranges:
            return None
        wanted = np.concatenate([np.arange(start, end) for start, end in ranges])
        mesh = faces_alone(self.mesh, wanted)
        return LoadedMesh(mesh, appearance=None if self.appearance is None else self.appearance.of_faces(wanted))
