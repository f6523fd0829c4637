"""Loading of mesh files (STL, OBJ, COLLADA, PLY, OFF, glTF, MSH) within limits for untrusted input.

File sizes are bounded, declared counts are compared with the data present before memory is allocated, and nothing in a
file is executed. No other file is opened except the buffers of a .gltf and the material libraries of an OBJ inside the
folder of the mesh file. Images are referenced by path and never opened. Every failure raises a `MeshError` with a
one-sentence reason.
"""

from __future__ import annotations

import importlib
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from kinema.core import ReadError, content_digest, load_or_compute, source_digest

from .formats.loaded_mesh import LoadedMesh, MeshSource
from .mesh import MeshData, MeshError, MeshLimits, validate_mesh

_READERS = {
    ".stl": "stl:read_stl",
    ".obj": "obj:read_obj",
    ".dae": "collada:read_collada",
    ".ply": "ply:read_ply",
    ".off": "off:read_off",
    ".glb": "gltf:read_gltf",
    ".gltf": "gltf:read_gltf",
    ".msh": "msh:read_msh",
}
"""Reader of each format as `module:name` in `formats`: a start from the cache needs none of them."""

MESH_SUFFIXES = tuple(_READERS)
"""Supported file name suffixes, in lower case."""

_CACHED_SUFFIXES = (".obj", ".dae", ".off")
"""Slow text formats whose triangles depend on the bytes of the file only, so that they can be cached."""
_DEFAULT_LIMITS = MeshLimits()
_LFS_POINTER = b"version https://git-lfs"
# Exceptions of indexing, conversion and decoding on malformed data that a reader did not detect itself.
_PARSE_ERRORS = (
    *(ReadError, ValueError, TypeError, LookupError, ArithmeticError, AttributeError, RecursionError),
    struct.error,
)


def load_mesh(path: str | Path, *, limits: MeshLimits = _DEFAULT_LIMITS) -> MeshData:
    """Load the triangles of a mesh file, in the axes and the order of the file.

    Lengths are taken as metres, except that the `<unit>` of COLLADA is applied. Node transforms of scene files (.dae,
    .glb, .gltf) are applied and all meshes of the scene are merged. Vertices are not welded. Raises `MeshError`.
    """
    path = Path(path)
    return load_mesh_from_bytes(read_mesh_bytes(path, limits=limits), path.suffix, limits=limits, file=path)


def load_mesh_from_bytes(
    data: bytes, suffix: str, *, limits: MeshLimits = _DEFAULT_LIMITS, file: Path | None = None
) -> MeshData:
    """Load the triangles of a mesh file from its bytes (see `load_mesh` and `parse_mesh`).

    Triangles of text formats that are slow to parse (.obj, .dae, .off) are cached on disk and in memory, keyed by the
    content, the limits and the source code of the readers.
    """
    if suffix.lower() not in _CACHED_SUFFIXES or not data:
        return parse_mesh(data, suffix, limits=limits, file=file).mesh

    def compute() -> dict[str, np.ndarray]:
        mesh = parse_mesh(data, suffix, limits=limits, file=file).mesh
        return {"vertices": mesh.vertices, "faces": mesh.faces}

    key = content_digest("triangles", source_digest("core", "geometry"), suffix.lower(), limits, data)
    arrays = load_or_compute("geometry", key, compute, keep_in_memory=True)
    return MeshData(arrays["vertices"], arrays["faces"])


def load_mesh_with_metadata(
    path: str | Path, *, limits: MeshLimits = _DEFAULT_LIMITS, with_appearance: bool = False
) -> LoadedMesh:
    """Load a mesh file together with its declared up axis, named parts and notes on skipped data.

    With `with_appearance`, normals, texture coordinates, colours and materials are read too. Invalid appearance data is
    omitted and reported in `appearance_notes`; it never makes the mesh unusable. Raises `MeshError`.
    """
    path = Path(path)
    return parse_mesh(
        read_mesh_bytes(path, limits=limits), path.suffix, limits=limits, file=path, with_appearance=with_appearance
    )


def parse_mesh(
    data: bytes,
    suffix: str,
    *,
    limits: MeshLimits = _DEFAULT_LIMITS,
    file: Path | None = None,
    with_appearance: bool = False,
) -> LoadedMesh:
    """Parse the bytes of a mesh file in the format given by `suffix` (such as ".stl").

    Args:
        data: content of the file.
        suffix: file name suffix that selects the reader.
        limits: upper bounds on sizes and counts.
        file: path of the file. Without it no other file is opened, so that the buffers of a .gltf must be embedded.
        with_appearance: also read normals, texture coordinates, colours and materials. If that fails, the mesh is read
            again without them and the reason is added to `appearance_notes`.

    Raises:
        MeshError: the format is unknown, the data is invalid, or a limit is exceeded.
    """
    if suffix.lower() not in _READERS:
        raise MeshError(f"Mesh files of type '{suffix}' cannot be read; {', '.join(MESH_SUFFIXES)} can.")
    if not data:
        raise MeshError("The file is empty.")
    if data.startswith(_LFS_POINTER):
        raise MeshError("The file is a Git LFS pointer; the mesh itself has not been downloaded ('git lfs pull').")
    module, _, name = _READERS[suffix.lower()].partition(":")
    reader = getattr(importlib.import_module(f".formats.{module}", __package__), name)
    source = MeshSource(
        data, limits, None if file is None else file.parent, "" if file is None else str(file), with_appearance
    )
    try:
        loaded = _run_reader(reader, source, suffix)
    except MeshError as error:
        if not with_appearance:
            raise
        loaded = _run_reader(reader, replace(source, with_appearance=False), suffix)
        loaded = replace(loaded, appearance_notes=(f"The appearance of the mesh was not read: {error.reason}",))
    validate_mesh(loaded.mesh, max_coordinate=limits.coordinate)
    return loaded


def _run_reader(reader: Callable[[MeshSource], LoadedMesh], source: MeshSource, suffix: str) -> LoadedMesh:
    """Call a format reader and convert every exception on malformed input, I/O or memory errors to `MeshError`."""
    try:
        # Overflow gives NaN or infinity, which `validate_mesh` rejects.
        with np.errstate(all="ignore"):
            return reader(source)
    except MeshError:
        raise
    except MemoryError:
        raise MeshError("There is not enough memory to read the file.") from None
    except OSError as error:
        raise MeshError(f"A file could not be read: {error.strerror or error}.") from None
    except _PARSE_ERRORS as error:
        raise MeshError(f"The file is not a valid {suffix.lower()} mesh ({_error_summary(error)}).") from error


def read_mesh_bytes(path: str | Path, *, limits: MeshLimits = _DEFAULT_LIMITS) -> bytes:
    """Read the content of a mesh file; `MeshError` if it is not a readable regular file or exceeds the size limit."""
    path = Path(path)
    try:
        if not path.exists():
            raise MeshError("The file does not exist.")
        # Rejects devices and pipes, which have no end.
        if not path.is_file():
            raise MeshError("The path is not a file.")
        with path.open("rb") as file:
            data = file.read(min(path.stat().st_size, limits.file_bytes) + 1)  # bounds the allocation
    except (OSError, ValueError) as error:
        if isinstance(error, MeshError):
            raise
        raise MeshError(f"The file could not be read: {_error_summary(error)}.") from None
    if len(data) > limits.file_bytes:
        raise MeshError(f"The file is larger than the {limits.file_bytes} bytes allowed.")
    return data


def _error_summary(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200].rstrip(".")
