"""Triangles: read from where the description says, written into the stage or into a file beside it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from kinema import shapes
from kinema.description import Mesh, mesh_part
from kinema.foundation import clean_name, unique_name
from kinema.words import ours, usd

from . import pxr
from .draft import Draft, PrimDraft


class MeshMissing(Exception):
    """There are no triangles to write; the text says why."""


class Meshes:
    """The triangles of a stage. Those of one file are read once."""

    def __init__(self, draft: Draft, target: Path, *, embed: bool) -> None:
        self._draft = draft
        self._loaded: dict[tuple[str, str, bool], shapes.MeshData | MeshMissing] = {}
        self._library = None if embed else _Library(draft, target)

    @property
    def library(self) -> tuple[str, pxr.Layer] | None:
        """The name and content of the file of meshes, where there is one."""
        return None if self._library is None or not self._library.paths else (self._library.name, self._library.layer)

    def data(self, mesh: Mesh) -> shapes.MeshData:
        """The triangles before the mesh's scale; `MeshMissing` where they cannot be had."""
        if mesh.vertices is not None and mesh.faces is not None:
            return shapes.MeshData(mesh.vertices, mesh.faces)
        if not mesh.path:
            raise MeshMissing(f"the file {mesh.uri!r} was not found" if mesh.uri else "it has no file and no triangles")
        key = (mesh.path, mesh.submesh, mesh.center_submesh)
        if key not in self._loaded:
            try:
                self._loaded[key] = mesh_part(mesh) or shapes.load_mesh(mesh.path)
            except shapes.MeshError as error:
                reason = str(error)
                self._loaded[key] = MeshMissing(f"{mesh.path}: {reason[:1].lower()}{reason[1:]}".rstrip("."))
        found = self._loaded[key]
        if isinstance(found, MeshMissing):
            raise found
        return found

    def author(self, prim: PrimDraft, data: shapes.MeshData, name: str) -> None:
        """Put triangles on a prim, or have it load them from the file of meshes."""
        if self._library is None:
            write_triangles(prim, data)
        else:
            self._library.load(prim, data, name)


def write_triangles(prim: PrimDraft, data: shapes.MeshData) -> None:
    """A polygon mesh, not to be smoothed."""
    low, high = data.vertices.min(axis=0), data.vertices.max(axis=0)
    prim.set(usd.EXTENT, "float3[]", np.array([low, high]))
    prim.number(usd.POINTS, "point3f[]", data.vertices)
    prim.set(usd.FACE_VERTEX_COUNTS, "int[]", np.full(len(data.faces), 3))
    prim.set(usd.FACE_VERTEX_INDICES, "int[]", np.asarray(data.faces).reshape(-1))
    prim.set(usd.SUBDIVISION_SCHEME, "token", "none", uniform=True)


class _Library:
    """A layer of meshes, each one once."""

    def __init__(self, draft: Draft, target: Path) -> None:
        self.name = f"{target.stem}_meshes.usdc"
        self.layer = pxr.Sdf.Layer.CreateAnonymous(".usdc")
        self.paths: dict[bytes, str] = {}
        self._draft = Draft(self.layer, draft.report, draft.exact, draft.decimals)
        self.layer.customLayerData = {ours.STAMP: {ours.STAMP_DECIMALS: draft.decimals}}
        self._taken: set[str] = set()

    def load(self, prim: PrimDraft, data: shapes.MeshData, name: str) -> None:
        """A payload of the triangles on a prim; the same triangles are stored once."""
        key = data.vertices.tobytes() + np.asarray(data.faces, dtype=np.int64).tobytes()
        if key not in self.paths:
            plain = clean_name(name)
            path = "/" + unique_name(plain if plain.strip("_") else "mesh", self._taken)
            write_triangles(self._draft.prim(path, usd.MESH), data)
            self.paths[key] = path
        payload = pxr.Sdf.Payload(f"./{self.name}", self.paths[key])
        prim.spec.payloadList.prependedItems = [payload]
