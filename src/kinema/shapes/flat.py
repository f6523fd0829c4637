"""Meshes that lie in a plane: no solid, and no convex hull, until they are given a thickness."""

from __future__ import annotations

import numpy as np

from kinema.shapes.mesh_data import FloatArray, MeshData

THICKNESS = 1e-3
"""Given to a flat mesh that is to collide, against its size."""
_FLAT = 1e-5
"""Spread across a plane below which a mesh counts as flat, against its spread along it."""
_THICK = 1e-3
"""Spread across a plane above which a mesh is clearly not flat."""
_THIN = 1e-6
"""Spread across a line below which there is not even a plane."""


def is_flat(mesh: MeshData) -> bool:
    """Whether all points lie in a plane, or nearly."""
    points = _centred(mesh)
    least, _, most = np.linalg.eigvalsh(points.T @ points)
    if least > _THICK**2 * most:
        return False  # squares are exact enough to say so, and quick
    spread, _ = _spread(mesh)
    return float(spread[2]) <= _FLAT * float(spread[0])


def thickened(mesh: MeshData) -> MeshData | None:
    """A flat mesh with a second side, `THICKNESS` of its size from the first; None for less than a plane."""
    spread, axes = _spread(mesh)
    if float(spread[1]) <= _THIN * float(spread[0]):
        return None
    reach = float(np.ptp(mesh.vertices @ axes.T, axis=0).max())
    offset = 0.5 * THICKNESS * reach * axes[2]
    vertices = np.vstack([mesh.vertices + offset, mesh.vertices - offset])
    return MeshData(vertices, np.vstack([mesh.faces, mesh.faces[:, ::-1] + mesh.n_vertices]))


def _spread(mesh: MeshData) -> tuple[FloatArray, FloatArray]:
    """How far what the faces use spreads along its principal axes, most first, and these axes in rows."""
    points = _centred(mesh)
    if len(points) < 3:
        return np.zeros(3), np.eye(3)
    _, spread, axes = np.linalg.svd(points, full_matrices=False)
    return spread, axes


def _centred(mesh: MeshData) -> FloatArray:
    """The points that faces use, about their mean."""
    used = np.zeros(mesh.n_vertices, dtype=bool)
    used[mesh.faces] = True
    points = mesh.vertices[used]
    return points - points.mean(axis=0) if len(points) else points
