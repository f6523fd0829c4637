"""MuJoCo's own binary mesh: four int32 counts, then float32 positions, normals, texture coordinates, int32 faces."""

from __future__ import annotations

import numpy as np

from kinema.shapes.appearance import Appearance, corner_values, unit_normals
from kinema.shapes.formats.numbers import require_bytes, to_float64
from kinema.shapes.formats.source import LoadedMesh, MeshSource
from kinema.shapes.hull import convex_hull
from kinema.shapes.mesh_data import MeshData, MeshError

_HEADER_BYTES = 16


def read_msh(source: MeshSource) -> LoadedMesh:
    """Read a MuJoCo .msh; without faces it stands for the convex hull of its vertices, as in MuJoCo."""
    data = source.data
    if data.lstrip().startswith(b"$MeshFormat"):
        raise MeshError("This is a Gmsh file, not a MuJoCo .msh mesh.")
    if len(data) < _HEADER_BYTES:
        raise MeshError("The file is too short to be a MuJoCo .msh mesh.")
    n_vertices, n_normals, n_texcoords, n_faces = np.frombuffer(data, dtype="<i4", count=4).tolist()
    if min(n_vertices, n_normals, n_texcoords, n_faces) < 0:
        raise MeshError("The file is not a MuJoCo .msh mesh: a count in its header is negative.")
    faces_at = _HEADER_BYTES + 4 * (3 * n_vertices + 3 * n_normals + 2 * n_texcoords)
    needed = faces_at + 12 * n_faces
    require_bytes(needed, len(data), f"a .msh mesh of {n_vertices} vertices and {n_faces} faces")
    # The counts are the only thing to recognise the format by: a size that does not fit means it is something else.
    if needed != len(data):
        raise MeshError(f"The file is not a MuJoCo .msh mesh: its header describes {needed} of {len(data)} bytes.")
    source.limits.check_counts(n_vertices, n_faces)
    vertices = to_float64(np.frombuffer(data, dtype="<f4", count=3 * n_vertices, offset=_HEADER_BYTES)).reshape(-1, 3)
    faces = np.frombuffer(data, dtype="<i4", count=3 * n_faces, offset=faces_at).reshape(-1, 3)
    if n_faces == 0:
        return LoadedMesh(
            convex_hull(MeshData(vertices, faces)), notes=("There are no faces; the convex hull was taken.",)
        )
    appearance = None
    if source.looks:
        floats = np.frombuffer(data, dtype="<f4", count=(faces_at - _HEADER_BYTES) // 4, offset=_HEADER_BYTES)
        normals, coordinates = np.split(floats[3 * n_vertices :], [3 * n_normals])
        # MuJoCo reads them by vertex, where there is one for each, and counts v downwards
        uv = to_float64(coordinates).reshape(-1, 2) * (1.0, -1.0) + (0.0, 1.0)
        corners = faces.astype(np.int64)
        found = corner_values(uv, corners, 2) if n_texcoords == n_vertices else None
        directions = corner_values(to_float64(normals).reshape(-1, 3), corners, 3) if n_normals == n_vertices else None
        appearance = Appearance(normals=unit_normals(directions), coordinates=() if found is None else (found,))
    return LoadedMesh(MeshData(vertices, faces), appearance=appearance)
