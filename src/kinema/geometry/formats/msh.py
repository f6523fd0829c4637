"""Reader of MuJoCo's binary .msh meshes."""

from __future__ import annotations

import numpy as np

from ..appearance import Appearance, normalize_normals, validated_corner_attribute
from ..convex import convex_hull
from ..mesh import MeshData, MeshError
from .loaded_mesh import LoadedMesh, MeshSource
from .parsing import require_bytes, to_float64

_HEADER_BYTES = 16


def read_msh(source: MeshSource) -> LoadedMesh:
    """Read a MuJoCo binary .msh: vertices and faces, and the appearance if requested.

    Without faces, the result is the convex hull of the vertices, as in MuJoCo. Normals and texture coordinates are used
    if there is one per vertex; v is flipped to point upwards.
    """
    data = source.data
    if data.lstrip().startswith(b"$MeshFormat"):
        raise MeshError("This is a Gmsh file, not a MuJoCo .msh mesh.")
    if len(data) < _HEADER_BYTES:
        raise MeshError("The file is too short to be a MuJoCo .msh mesh.")
    n_vertices, n_normals, n_texcoords, n_faces = np.frombuffer(data, dtype="<i4", count=4).tolist()
    if min(n_vertices, n_normals, n_texcoords, n_faces) < 0:
        raise MeshError("The file is not a MuJoCo .msh mesh: a count in its header is negative.")
    faces_offset = _HEADER_BYTES + 4 * (3 * n_vertices + 3 * n_normals + 2 * n_texcoords)
    needed = faces_offset + 12 * n_faces
    require_bytes(needed, len(data), f"a .msh mesh of {n_vertices} vertices and {n_faces} faces")
    # The format has no magic number: a size that does not match the counts means a different format.
    if needed != len(data):
        raise MeshError(f"The file is not a MuJoCo .msh mesh: its header describes {needed} of {len(data)} bytes.")
    source.limits.check_counts(n_vertices, n_faces)
    vertices = to_float64(np.frombuffer(data, dtype="<f4", count=3 * n_vertices, offset=_HEADER_BYTES)).reshape(-1, 3)
    faces = np.frombuffer(data, dtype="<i4", count=3 * n_faces, offset=faces_offset).reshape(-1, 3)
    if n_faces == 0:
        return LoadedMesh(
            convex_hull(MeshData(vertices, faces)), notes=("The file has no faces; the convex hull was used.",)
        )
    appearance = None
    if source.with_appearance:
        floats = np.frombuffer(data, dtype="<f4", count=(faces_offset - _HEADER_BYTES) // 4, offset=_HEADER_BYTES)
        normals, coordinates = np.split(floats[3 * n_vertices :], [3 * n_normals])
        # MuJoCo attributes are per vertex and used if there is one for each vertex; v points downwards
        uvs = to_float64(coordinates).reshape(-1, 2) * (1.0, -1.0) + (0.0, 1.0)
        corners = faces.astype(np.int64)
        texcoords = validated_corner_attribute(uvs, corners, 2) if n_texcoords == n_vertices else None
        corner_normals = (
            validated_corner_attribute(to_float64(normals).reshape(-1, 3), corners, 3)
            if n_normals == n_vertices
            else None
        )
        appearance = Appearance(
            normals=normalize_normals(corner_normals), texture_coordinates=() if texcoords is None else (texcoords,)
        )
    return LoadedMesh(MeshData(vertices, faces), appearance=appearance)
