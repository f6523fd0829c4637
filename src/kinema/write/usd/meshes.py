"""Triangles: read from where the description says, written into the stage or into a file beside it."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np

from kinema import shapes
from kinema.description import Mesh, dressed_mesh, mesh_part
from kinema.foundation import clean_name, unique_name
from kinema.words import ours, usd

from ..meshes import appearance_key
from . import pxr
from .draft import Draft, PrimDraft


class MeshMissing(Exception):
    """There are no triangles to write; the text says why."""


class Meshes:
    """The triangles of a stage. Those of one file are read once."""

    def __init__(self, draft: Draft, target: Path, *, embed: bool) -> None:
        self._draft = draft
        self._loaded: dict[tuple[object, ...], shapes.LoadedMesh | MeshMissing] = {}
        self._dressed: set[tuple[object, ...]] = set()
        self._library = None if embed else _Library(draft, target)

    @property
    def library(self) -> tuple[str, pxr.Layer] | None:
        """The name and content of the file of meshes, where there is one."""
        return None if self._library is None or not self._library.paths else (self._library.name, self._library.layer)

    def data(self, mesh: Mesh, *, seen: bool) -> shapes.LoadedMesh:
        """The triangles before the mesh's scale; `MeshMissing` where they cannot be had.

        Args:
            mesh: the mesh.
            seen: whether what is laid on the triangles is wanted too.
        """
        if mesh.vertices is not None and mesh.faces is not None:
            return dressed_mesh(mesh) or shapes.LoadedMesh(shapes.MeshData(mesh.vertices, mesh.faces))
        if not mesh.path:
            raise MeshMissing(f"the file {mesh.uri!r} was not found" if mesh.uri else "it has no file and no triangles")
        key = (mesh.path, mesh.submesh, mesh.center_submesh, mesh.projection)
        if key not in self._loaded or (seen and key not in self._dressed):
            self._loaded[key] = _loaded(mesh, seen=seen)
            if seen:
                self._dressed.add(key)
        found = self._loaded[key]
        if isinstance(found, MeshMissing):
            raise found
        return found

    def author(self, prim: PrimDraft, data: shapes.MeshData, appearance: shapes.Appearance | None, name: str) -> None:
        """Put triangles on a prim, or have it load them from the file of meshes."""
        if self._library is None:
            write_triangles(prim, data)
            write_layers(prim, data, appearance)
        else:
            self._library.load(prim, data, appearance, name)


def _loaded(mesh: Mesh, *, seen: bool) -> shapes.LoadedMesh | MeshMissing:
    try:
        found = dressed_mesh(mesh) if seen else None
        return found or shapes.LoadedMesh(mesh_part(mesh) or shapes.load_mesh(mesh.path))
    except shapes.MeshError as error:
        reason = str(error)
        return MeshMissing(f"{mesh.path}: {reason[:1].lower()}{reason[1:]}".rstrip("."))


def write_triangles(prim: PrimDraft, data: shapes.MeshData) -> None:
    """A polygon mesh, not to be smoothed."""
    low, high = data.vertices.min(axis=0), data.vertices.max(axis=0)
    prim.set(usd.EXTENT, "float3[]", np.array([low, high]))
    prim.number(usd.POINTS, "point3f[]", data.vertices)
    prim.set(usd.FACE_VERTEX_COUNTS, "int[]", np.full(len(data.faces), 3))
    prim.set(usd.FACE_VERTEX_INDICES, "int[]", np.asarray(data.faces).reshape(-1))
    prim.set(usd.SUBDIVISION_SCHEME, "token", "none", uniform=True)


def write_layers(prim: PrimDraft, data: shapes.MeshData, appearance: shapes.Appearance | None) -> None:
    """Normals, texture coordinates and colours of a mesh."""
    if appearance is None:
        return
    if appearance.normals is not None:
        _write_normals(prim, data, appearance.normals)
    for number, layer in enumerate(appearance.coordinates):
        kind, places = _belonging(data, layer)
        prim.primvar(f"{usd.TEXTURE_COORDINATES}{number or ''}", "texCoord2f[]", layer.values, kind, places)
    if appearance.colors is not None:
        kind, places = _belonging(data, appearance.colors, flat=True)
        values = appearance.colors.values
        prim.primvar(usd.DISPLAY_COLOR, "color3f[]", values[:, :3], kind, places)
        if (values[:, 3] != 1.0).any():
            prim.primvar(usd.DISPLAY_OPACITY, "float[]", values[:, 3], kind, places)


def _write_normals(prim: PrimDraft, data: shapes.MeshData, normals: shapes.CornerValues) -> None:
    """Normals in the attribute that all programs read; as a primvar with indices where that is far less to write."""
    kind, places = _belonging(data, normals, flat=True)
    if places is None:
        prim.primvar(usd.NORMALS, "normal3f[]", normals.values, kind)
    elif 2 * len(normals.values) > len(places):
        prim.primvar(usd.NORMALS, "normal3f[]", normals.values[places], kind)
    else:
        prim.primvar(usd.PRIMVAR_NORMALS, "normal3f[]", normals.values, kind, places)


def _belonging(
    data: shapes.MeshData, layer: shapes.CornerValues, *, flat: bool = False
) -> tuple[str, np.ndarray | None]:
    """What values belong to, and where each of these has its value where that is not its own place.

    To points where all faces at a point agree, to corners where not; and where that is allowed (`flat`), to faces.
    """
    corners, faces = layer.corners, np.asarray(data.faces)
    if flat and (corners == corners[:, :1]).all():
        return usd.UNIFORM, corners[:, 0]
    of_point = np.zeros(data.n_vertices, dtype=np.int64)
    of_point[faces] = corners
    if not np.array_equal(of_point[faces], corners):
        return usd.FACE_VARYING, corners.reshape(-1)
    is_own = len(layer.values) == data.n_vertices and np.array_equal(corners, faces)
    return usd.VERTEX, None if is_own else of_point


class _Library:
    """A layer of meshes, each one once."""

    def __init__(self, draft: Draft, target: Path) -> None:
        self.name = f"{target.stem}_meshes.usdc"
        self.layer = pxr.Sdf.Layer.CreateAnonymous(".usdc")
        self.paths: dict[bytes, str] = {}
        self._draft = Draft(self.layer, draft.report, draft.exact, draft.decimals)
        self.layer.customLayerData = {ours.STAMP: {ours.STAMP_DECIMALS: draft.decimals}}
        self._taken: set[str] = set()

    def load(self, prim: PrimDraft, data: shapes.MeshData, appearance: shapes.Appearance | None, name: str) -> None:
        """A payload of the triangles on a prim; the same triangles are stored once."""
        layers = None if appearance is None else replace(appearance, materials=(), material_of_face=None)
        key = hashlib.sha256(data.vertices.tobytes() + np.asarray(data.faces, dtype=np.int64).tobytes()).digest()
        key += b"" if layers is None or layers.is_empty else appearance_key(layers)
        if key not in self.paths:
            plain = clean_name(name)
            path = "/" + unique_name(plain if plain.strip("_") else "mesh", self._taken)
            made = self._draft.prim(path, usd.MESH)
            write_triangles(made, data)
            write_layers(made, data, layers)
            self.paths[key] = path
        payload = pxr.Sdf.Payload(f"./{self.name}", self.paths[key])
        prim.spec.payloadList.prependedItems = [payload]
