"""What a format reader gets and what it returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

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
