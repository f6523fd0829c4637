"""Mesh files beside the file that is written."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from kinema import shapes
from kinema.description import Mesh, mesh_data
from kinema.foundation import clean_name, unique_name

from .sidecars import sidecars
from .text import number

FOLDER = "meshes"


@dataclass(slots=True, eq=False)
class MeshStore:
    """Copies or makes the mesh files that a written file refers to, each once.

    Meshes that come from a file the target can read are copied as they are, and their scale is left to the target;
    all others, and all where scale is to be baked, are written as OBJ with full precision.
    """

    draft: Path
    """The folder in which the files are made (see `files.staging`)."""
    suffixes: Collection[str]
    """Suffixes of files that the target can read."""
    mode: str = "copy"
    """`copy` files as they are; `bake` scale into new ones; `reference` the original files where they lie."""
    _made: dict[object, str] = field(default_factory=dict)
    _taken: set[str] = field(default_factory=set)
    left_behind: list[tuple[str, str]] = field(default_factory=list)
    """Mesh files, and the textures and material libraries they refer to that could not be put beside them."""

    def place(self, mesh: Mesh, name: str, suffixes: Collection[str] | None = None) -> tuple[str, np.ndarray] | None:
        """The reference to write for a mesh and the scale to write with it; None where there is nothing to refer to.

        Args:
            mesh: the mesh.
            name: what to call the file, where the mesh has none of its own.
            suffixes: suffixes of files that the target can read, where they depend on what the mesh is for.
        """
        readable = bool(mesh.path) and mesh.vertices is None and not mesh.submesh
        readable &= Path(mesh.path).suffix.lower() in (self.suffixes if suffixes is None else suffixes)
        if readable and self.mode == "reference":
            return mesh.path, mesh.scale
        if readable and self.mode == "copy":
            return self._copied(Path(mesh.path)), mesh.scale
        return self._baked(mesh, name)

    def _copied(self, source: Path) -> str:
        key = str(source)
        if key not in self._made:
            stem = unique_name(clean_name(source.stem), self._taken)
            self._made[key] = f"{FOLDER}/{stem}{source.suffix.lower()}"
            place = self.draft / self._made[key]
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, place)
            for name in sidecars(source):
                self._copy_sidecar(source, name)
        return self._made[key]

    def _copy_sidecar(self, mesh: Path, name: str) -> None:
        """Put a file that a mesh refers to beside its copy, under the name that the mesh calls it by."""
        place = self.draft / FOLDER / name
        if not place.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(mesh.parent / name, place)
        elif place.read_bytes() != (mesh.parent / name).read_bytes():
            self.left_behind.append((str(mesh), name))

    def _baked(self, mesh: Mesh, name: str) -> tuple[str, np.ndarray] | None:
        try:
            data = mesh_data(mesh)
        except shapes.MeshError:
            data = None
        if data is None:
            return None
        key = hashlib.sha256(data.vertices.tobytes() + data.faces.tobytes()).hexdigest()
        if key not in self._made:
            stem = unique_name(clean_name(Path(mesh.path).stem if mesh.path else name or "mesh"), self._taken)
            self._made[key] = f"{FOLDER}/{stem}.obj"
            place = self.draft / self._made[key]
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(obj_text(data), encoding="ascii")
        return self._made[key], np.ones(3)


def obj_text(mesh: shapes.MeshData) -> str:
    """The mesh as a Wavefront OBJ file; numbers read back exactly."""
    lines = [f"v {number(x)} {number(y)} {number(z)}" for x, y, z in mesh.vertices.tolist()]
    lines += [f"f {a + 1} {b + 1} {c + 1}" for a, b, c in mesh.faces.tolist()]
    return "\n".join(lines) + "\n"
