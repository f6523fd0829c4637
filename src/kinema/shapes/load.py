"""Mesh files as triangles.

Files come from strangers. Their size is bounded, what they declare is compared with what is there before memory is
spent on it, nothing in them is executed, and no other file is opened, except the buffers of a .gltf and the material
libraries of an OBJ that lie in its own folder. Images are named, never opened. Whatever is wrong becomes one
`MeshError` with a plain reason.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from kinema.foundation import content_digest, load_or_make, source_digest
from kinema.shapes.formats.collada import read_collada
from kinema.shapes.formats.gltf import read_gltf
from kinema.shapes.formats.msh import read_msh
from kinema.shapes.formats.obj import read_obj
from kinema.shapes.formats.off import read_off
from kinema.shapes.formats.ply import read_ply
from kinema.shapes.formats.source import LoadedMesh, MeshSource
from kinema.shapes.formats.stl import read_stl
from kinema.shapes.limits import MeshLimits
from kinema.shapes.mesh_data import MeshData, MeshError, check_mesh

_READERS: dict[str, Callable[[MeshSource], LoadedMesh]] = {
    ".stl": read_stl,
    ".obj": read_obj,
    ".dae": read_collada,
    ".ply": read_ply,
    ".off": read_off,
    ".glb": read_gltf,
    ".gltf": read_gltf,
    ".msh": read_msh,
}

MESH_SUFFIXES = tuple(_READERS)
"""File name endings that can be read, in lower case."""

_CACHED = (".obj", ".dae", ".off")
"""Text, of which nothing but the bytes of the file decides what triangles it has."""
_DEFAULT_LIMITS = MeshLimits()
_LFS_POINTER = b"version https://git-lfs"
# What indexing, converting and decoding raise on nonsense. Readers name the likely faults; this is for the unlikely.
_NONSENSE = (ValueError, TypeError, LookupError, ArithmeticError, AttributeError, RecursionError, struct.error)


def load_mesh(path: str | Path, *, limits: MeshLimits = _DEFAULT_LIMITS) -> MeshData:
    """The triangles in the file, in the file's axes and order.

    Lengths are as written, taken for metres, except that COLLADA's `<unit>` is applied. The parts of a scene (.dae,
    .glb, .gltf) are put in their places and joined. Vertices are not welded. Raises `MeshError`.
    """
    path = Path(path)
    return mesh_triangles(mesh_bytes(path, limits=limits), path.suffix, limits=limits, file=path)


def mesh_triangles(
    data: bytes, suffix: str, *, limits: MeshLimits = _DEFAULT_LIMITS, file: Path | None = None
) -> MeshData:
    """As `load_mesh`, from bytes (see `parse_mesh`); those of formats that take long to parse are cached on disk."""
    if suffix.lower() not in _CACHED or not data:
        return parse_mesh(data, suffix, limits=limits, file=file).mesh

    def make() -> dict[str, np.ndarray]:
        mesh = parse_mesh(data, suffix, limits=limits, file=file).mesh
        return {"vertices": mesh.vertices, "faces": mesh.faces}

    key = content_digest("triangles", source_digest("foundation", "shapes"), suffix.lower(), limits, data)
    found = load_or_make("geometry", key, make, keep=True)
    return MeshData(found["vertices"], found["faces"])


def load_mesh_with_notes(path: str | Path, *, limits: MeshLimits = _DEFAULT_LIMITS, looks: bool = False) -> LoadedMesh:
    """As `load_mesh`, together with the up axis the file declares and what was skipped or simplified.

    With `looks`, what is laid on the triangles is read too: normals, texture coordinates, colours and materials. A
    fault in those leaves them out and is noted; it never makes the mesh unusable.
    """
    path = Path(path)
    return parse_mesh(mesh_bytes(path, limits=limits), path.suffix, limits=limits, file=path, looks=looks)


def parse_mesh(
    data: bytes,
    suffix: str,
    *,
    limits: MeshLimits = _DEFAULT_LIMITS,
    file: Path | None = None,
    looks: bool = False,
) -> LoadedMesh:
    """As `load_mesh_with_notes`, from bytes in the format that `suffix` (such as ".stl") stands for.

    Without the `file` they came from, no other file is opened: the buffers of a .gltf must be inside it.
    """
    reader = _READERS.get(suffix.lower())
    if reader is None:
        raise MeshError(f"Mesh files of type '{suffix}' cannot be read; {', '.join(MESH_SUFFIXES)} can.")
    if not data:
        raise MeshError("The file is empty.")
    if data.startswith(_LFS_POINTER):
        raise MeshError("The file is a Git LFS pointer; the mesh itself has not been downloaded ('git lfs pull').")
    source = MeshSource(data, limits, None if file is None else file.parent, "" if file is None else str(file), looks)
    try:
        loaded = _parse(reader, source, suffix)
    except MeshError as error:
        if not looks:
            raise
        loaded = _parse(reader, replace(source, looks=False), suffix)
        loaded = replace(loaded, unseen=(f"What its surfaces look like was not read: {error.reason}",))
    check_mesh(loaded.mesh, max_coordinate=limits.coordinate)
    return loaded


def _parse(reader: Callable[[MeshSource], LoadedMesh], source: MeshSource, suffix: str) -> LoadedMesh:
    """What a reader makes of a file; whatever goes wrong is a `MeshError`."""
    try:
        # Wild numbers become NaN or infinity here, and are refused later.
        with np.errstate(all="ignore"):
            return reader(source)
    except MeshError:
        raise
    except MemoryError:
        raise MeshError("There is not enough memory to read the file.") from None
    except OSError as error:
        raise MeshError(f"A file could not be read: {error.strerror or error}.") from None
    except _NONSENSE as error:
        raise MeshError(f"The file is not a valid {suffix.lower()} mesh ({_first_line(error)}).") from error


def mesh_bytes(path: str | Path, *, limits: MeshLimits = _DEFAULT_LIMITS) -> bytes:
    """The content of a mesh file; `MeshError` where it cannot be read, or is too large."""
    path = Path(path)
    try:
        if not path.exists():
            raise MeshError("The file does not exist.")
        # Also keeps away from devices and pipes, which have no end.
        if not path.is_file():
            raise MeshError("The path is not a file.")
        with path.open("rb") as file:
            data = file.read(min(path.stat().st_size, limits.file_bytes) + 1)  # which is allocated first
    except (OSError, ValueError) as error:
        if isinstance(error, MeshError):
            raise
        raise MeshError(f"The file could not be read: {_first_line(error)}.") from None
    if len(data) > limits.file_bytes:
        raise MeshError(f"The file is larger than the {limits.file_bytes} bytes allowed.")
    return data


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200].rstrip(".")
