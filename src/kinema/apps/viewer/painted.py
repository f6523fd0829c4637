"""A shape's triangles with what is seen on them, ready to be drawn."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import fields, replace

import numpy as np

from kinema.description import HeightField, Mesh, Plane, Shape, dressed_mesh, tessellate, worn_appearance
from kinema.foundation import Array, Pose
from kinema.shapes import (
    DEFAULT_SEGMENTS,
    Appearance,
    CornerValues,
    Look,
    MeshData,
    MeshError,
    ShapeError,
    apply_linear,
    simplified,
)

from .glb import Painted

_CREASE = math.radians(35.0)
"""Faces that meet at a flatter angle are one smooth surface; those of round shapes in few segments always are."""
_FEWEST = 24
"""Triangles that anything keeps when it is made coarser."""
_MANY_CORNERS = 1_500_000
"""Meshes with more are drawn with the normals of their faces: that they are smooth costs too much time."""


def painted(shape: Shape, segments: int = DEFAULT_SEGMENTS) -> list[Painted]:
    """The triangles of a shape in its link's frame, one entry for each look; none where a mesh cannot be read.

    Circles of round shapes are cut into so many segments.
    """
    try:
        with np.errstate(all="ignore"):
            return _painted(shape, segments)
    except (ShapeError, MeshError):
        return []


def joined(parts: Sequence[Painted]) -> list[Painted]:
    """The same triangles in fewer parts: those of one look without images become one."""
    result: list[Painted] = []
    kinds: dict[str, list[Painted]] = {}
    for part in parts:
        if part.coordinates is not None or part.colors is not None:
            result.append(part)
        else:
            said = {} if part.look is None else {f.name: getattr(part.look, f.name) for f in fields(Look)}
            kinds.setdefault(repr((said | {"name": ""}, part.closed, part.lit)), []).append(part)
    for same in kinds.values():
        starts = np.cumsum([0, *(len(part.positions) for part in same)])
        result.append(
            replace(
                same[0],
                positions=np.concatenate([part.positions for part in same]),
                normals=np.concatenate([part.normals for part in same]),
                faces=np.concatenate([part.faces + start for part, start in zip(same, starts, strict=False)]),
            )
        )
    return result


def coarser(part: Painted, share: float) -> Painted:
    """About the same surface in a share of its triangles; what has texture coordinates or colours stays."""
    wanted = max(round(share * len(part.faces)), _FEWEST)
    if part.coordinates is not None or part.colors is not None or wanted >= len(part.faces):
        return part
    few = simplified(MeshData(part.positions, part.faces), wanted)
    normals = _corner_normals(few, Appearance(), True, _CREASE)
    made = _one_look(few, normals, Appearance(), part.look, np.arange(few.n_faces), Pose())
    return replace(made, closed=part.closed, lit=part.lit)


def triangles(shape: Shape) -> MeshData | None:
    """The bare triangles of a shape in its own frame; None where a mesh cannot be read, or has none."""
    try:
        mesh = tessellate(shape.geometry)
    except (ShapeError, MeshError):
        return None
    return mesh if mesh is not None and mesh.n_faces and np.isfinite(mesh.vertices).all() else None


def is_endless(shape: Shape) -> bool:
    """Whether it is a plane without an edge, which is drawn as the floor."""
    return isinstance(shape.geometry, Plane) and shape.geometry.size is None


def _painted(shape: Shape, segments: int) -> list[Painted]:
    if isinstance(shape.geometry, Mesh):
        dressed = dressed_mesh(shape.geometry)
        if dressed is None:
            return []
        scale = np.diag(shape.geometry.scale)
        mesh = apply_linear(dressed.mesh, scale)
        appearance = worn_appearance(shape, dressed).under(scale)
    else:
        mesh = tessellate(shape.geometry, segments)
        appearance = Appearance(materials=() if shape.material is None else (shape.material,))
    if mesh is None or not mesh.n_faces or not np.isfinite(mesh.vertices).all():
        return []
    smooth = not isinstance(shape.geometry, HeightField) or mesh.n_faces < _MANY_CORNERS
    round_off = 0.0 if isinstance(shape.geometry, Mesh) else 1.2 * 2 * math.pi / segments
    normals = _corner_normals(mesh, appearance, smooth, max(_CREASE, round_off))
    groups = appearance.faces_of_materials(mesh.n_faces)
    closed = not isinstance(shape.geometry, Mesh | Plane | HeightField)
    parts = [_one_look(mesh, normals, appearance, look, faces, shape.pose) for look, faces in groups]
    return [replace(part, closed=closed) for part in parts]


def _one_look(
    mesh: MeshData, normals: Array, appearance: Appearance, look: Look | None, faces: np.ndarray, pose: Pose
) -> Painted:
    """The faces of one look; corners that agree in everything become one vertex."""
    columns = [pose.apply(mesh.triangles()[faces].reshape(-1, 3)), normals[faces].reshape(-1, 3) @ pose.rotation.T]
    own = appearance.of_faces(faces)
    laid = _laid(own.coordinates, look)
    if laid is not None:
        columns.append(laid.reshape(-1, 2))
    if own.colors is not None:
        columns.append(own.colors.expanded().reshape(-1, 4))
    rows = np.ascontiguousarray(np.concatenate(columns, axis=1).astype(np.float32))
    keys = rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).ravel()
    _, first, corners = np.unique(keys, return_index=True, return_inverse=True)
    parts = np.split(rows[first].astype(np.float64), np.cumsum([c.shape[1] for c in columns])[:-1], axis=1)
    return Painted(
        positions=parts[0],
        normals=parts[1],
        faces=corners.reshape(-1, 3),
        look=look,
        coordinates=parts[2] if laid is not None else None,
        colors=parts[-1] if own.colors is not None else None,
    )


def _laid(sets: tuple[CornerValues, ...], look: Look | None) -> Array | None:
    """Texture coordinates of all corners, (faces, 3, 2), moved as the look says."""
    if not sets or look is None or not look.images:
        return None
    placement = look.placement
    values = sets[min(placement.coordinates, len(sets) - 1)].expanded()
    cosine, sine = math.cos(placement.rotation), math.sin(placement.rotation)
    turn = np.array([[cosine, -sine], [sine, cosine]])
    return (values * placement.scale) @ turn.T + placement.offset


def _corner_normals(mesh: MeshData, appearance: Appearance, smooth: bool, crease: float) -> Array:
    """A unit normal for every corner, (faces, 3, 3): the file's, else smooth across edges that are not sharp."""
    if appearance.normals is not None and len(appearance.normals.corners) == mesh.n_faces:
        return appearance.normals.expanded()
    a, b, c = (mesh.triangles()[:, i] for i in range(3))
    flat = _unit(np.cross(b - a, c - a))
    if not smooth or 3 * mesh.n_faces > _MANY_CORNERS:
        return np.repeat(flat[:, None], 3, axis=1)
    return _smooth(mesh, flat, crease)


def _smooth(mesh: MeshData, flat: Array, crease: float) -> Array:
    """Each corner's normal is the mean over the faces around its vertex that are not across a sharp edge.

    Faces count by their angle there, so that it does not matter how a surface is cut into triangles.
    """
    span = float(np.ptp(mesh.vertices, axis=0).max()) or 1.0
    _, place = np.unique(np.round(mesh.vertices / (span * 1e-6)).astype(np.int64), axis=0, return_inverse=True)
    vertex = place.ravel()[mesh.faces].ravel()  # of each corner; equal where corners lie on each other
    order = np.argsort(vertex, kind="stable")
    _, starts, counts = np.unique(vertex[order], return_index=True, return_counts=True)
    group = np.repeat(np.arange(len(counts)), counts)
    others = counts[group]
    ends = np.cumsum(others)
    within = np.arange(ends[-1]) - np.repeat(ends - others, others)
    face = order // 3
    neighbour = np.repeat(starts[group], others) + within
    one, two = np.repeat(face, others), face[neighbour]
    counted = np.einsum("ij,ij->i", flat[one], flat[two]) > math.cos(crease)
    weights = counted * _angles(mesh).ravel()[order][neighbour]
    sums = np.add.reduceat(flat[two] * weights[:, None], ends - others, axis=0)
    result = np.zeros((3 * mesh.n_faces, 3))
    result[order] = sums
    lost = np.linalg.norm(result, axis=1) < 1e-300
    result[lost] = np.repeat(flat, 3, axis=0)[lost]
    return _unit(result).reshape(-1, 3, 3)


def _angles(mesh: MeshData) -> Array:
    """The angle of each face at each of its corners [rad], (faces, 3)."""
    corners = mesh.triangles()
    ahead, back = (_unit(np.roll(corners, shift, axis=1) - corners) for shift in (-1, 1))
    return np.arccos(np.clip(np.einsum("ijk,ijk->ij", ahead, back), -1.0, 1.0))


def _unit(vectors: Array) -> Array:
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.where(lengths > 0, vectors / np.where(lengths > 0, lengths, 1.0), [0.0, 0.0, 1.0])
