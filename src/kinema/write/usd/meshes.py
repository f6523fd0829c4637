"""Mesh prims: triangles and primvars in the stage, or as payloads of a mesh layer beside it."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np

from kinema import geometry
from kinema.core import to_identifier, unique_name
from kinema.description import Mesh, load_textured_mesh, submesh_data
from kinema.tokens import kinema_usd, usd

from ..mesh_files import appearance_digest
from . import pxr
from .layer_builder import LayerBuilder, PrimBuilder


class MeshUnavailableError(Exception):
    """Mesh without triangles; the message is the reason."""


class StageMeshes:
    """Meshes of a stage; each file is read once."""

    def __init__(self, builder: LayerBuilder, target: Path, *, embed: bool) -> None:
        self._builder = builder
        self._loaded: dict[tuple[object, ...], geometry.LoadedMesh | MeshUnavailableError] = {}
        self._loaded_with_appearance: set[tuple[object, ...]] = set()
        self._library = None if embed else _MeshLibrary(builder, target)

    @property
    def library(self) -> tuple[str, pxr.Layer] | None:
        """File name and layer of the mesh library, if there is one."""
        return None if self._library is None or not self._library.paths else (self._library.name, self._library.layer)

    def load(self, mesh: Mesh, *, is_visual: bool) -> geometry.LoadedMesh:
        """Unscaled triangles of a mesh, with appearance if visual.

        Args:
            mesh: the mesh.
            is_visual: whether the appearance is needed.

        Raises:
            MeshUnavailableError: the mesh cannot be loaded.
        """
        if mesh.vertices is not None and mesh.faces is not None:
            return load_textured_mesh(mesh) or geometry.LoadedMesh(geometry.MeshData(mesh.vertices, mesh.faces))
        if not mesh.path:
            raise MeshUnavailableError(
                f"the file {mesh.uri!r} was not found" if mesh.uri else "it has no file and no triangles"
            )
        key = (mesh.path, mesh.submesh, mesh.center_submesh, mesh.projection)
        if key not in self._loaded or (is_visual and key not in self._loaded_with_appearance):
            self._loaded[key] = _load_mesh(mesh, is_visual=is_visual)
            if is_visual:
                self._loaded_with_appearance.add(key)
        found = self._loaded[key]
        if isinstance(found, MeshUnavailableError):
            raise found
        return found

    def author_mesh(
        self, prim: PrimBuilder, data: geometry.MeshData, appearance: geometry.Appearance | None, name: str
    ) -> None:
        """Write triangles to a prim, or a payload from the mesh library."""
        if self._library is None:
            author_triangles(prim, data)
            author_vertex_attributes(prim, data, appearance)
        else:
            self._library.add_payload(prim, data, appearance, name)


def _load_mesh(mesh: Mesh, *, is_visual: bool) -> geometry.LoadedMesh | MeshUnavailableError:
    try:
        found = load_textured_mesh(mesh) if is_visual else None
        return found or geometry.LoadedMesh(submesh_data(mesh) or geometry.load_mesh(mesh.path))
    except geometry.MeshError as error:
        reason = str(error)
        return MeshUnavailableError(f"{mesh.path}: {reason[:1].lower()}{reason[1:]}".rstrip("."))


def author_triangles(prim: PrimBuilder, data: geometry.MeshData) -> None:
    """Write a polygon mesh without subdivision."""
    low, high = data.vertices.min(axis=0), data.vertices.max(axis=0)
    prim.set_attribute(usd.EXTENT, "float3[]", np.array([low, high]))
    prim.set_single_precision(usd.POINTS, "point3f[]", data.vertices)
    prim.set_attribute(usd.FACE_VERTEX_COUNTS, "int[]", np.full(len(data.faces), 3))
    prim.set_attribute(usd.FACE_VERTEX_INDICES, "int[]", np.asarray(data.faces).reshape(-1))
    prim.set_attribute(usd.SUBDIVISION_SCHEME, "token", "none", uniform=True)


def author_vertex_attributes(
    prim: PrimBuilder, data: geometry.MeshData, appearance: geometry.Appearance | None
) -> None:
    """Write normals, texture coordinates and colours of a mesh as primvars."""
    if appearance is None:
        return
    if appearance.normals is not None:
        _author_normals(prim, data, appearance.normals)
    for number, layer in enumerate(appearance.texture_coordinates):
        kind, places = _interpolation(data, layer)
        prim.set_primvar(f"{usd.TEXTURE_COORDINATES}{number or ''}", "texCoord2f[]", layer.values, kind, places)
    if appearance.colors is not None:
        kind, places = _interpolation(data, appearance.colors, allow_uniform=True)
        values = appearance.colors.values
        prim.set_primvar(usd.DISPLAY_COLOR, "color3f[]", values[:, :3], kind, places)
        if (values[:, 3] != 1.0).any():
            prim.set_primvar(usd.DISPLAY_OPACITY, "float[]", values[:, 3], kind, places)


def _author_normals(prim: PrimBuilder, data: geometry.MeshData, normals: geometry.CornerAttribute) -> None:
    """Write normals in the standard attribute, or as an indexed primvar if that is much smaller."""
    kind, places = _interpolation(data, normals, allow_uniform=True)
    if places is None:
        prim.set_primvar(usd.NORMALS, "normal3f[]", normals.values, kind)
    elif 2 * len(normals.values) > len(places):
        prim.set_primvar(usd.NORMALS, "normal3f[]", normals.values[places], kind)
    else:
        prim.set_primvar(usd.PRIMVAR_NORMALS, "normal3f[]", normals.values, kind, places)


def _interpolation(
    data: geometry.MeshData, layer: geometry.CornerAttribute, *, allow_uniform: bool = False
) -> tuple[str, np.ndarray | None]:
    """Primvar interpolation of a corner attribute and its indices (None for identity).

    `vertex` if all corners of a point agree, else `faceVarying`; `uniform` if all corners of each face agree and
    `allow_uniform`.
    """
    corners, faces = layer.indices, np.asarray(data.faces)
    if allow_uniform and (corners == corners[:, :1]).all():
        return usd.UNIFORM, corners[:, 0]
    of_point = np.zeros(data.n_vertices, dtype=np.int64)
    of_point[faces] = corners
    if not np.array_equal(of_point[faces], corners):
        return usd.FACE_VARYING, corners.reshape(-1)
    is_own = len(layer.values) == data.n_vertices and np.array_equal(corners, faces)
    return usd.VERTEX, None if is_own else of_point


class _MeshLibrary:
    """Layer of meshes beside the stage, each content once."""

    def __init__(self, builder: LayerBuilder, target: Path) -> None:
        self.name = f"{target.stem}_meshes.usdc"
        self.layer = pxr.Sdf.Layer.CreateAnonymous(".usdc")
        self.paths: dict[bytes, str] = {}
        self._builder = LayerBuilder(self.layer, builder.report, builder.exact, builder.decimals)
        self.layer.customLayerData = {kinema_usd.CUSTOM_DATA_KEY: {kinema_usd.CUSTOM_DATA_DECIMALS: builder.decimals}}
        self._taken_names: set[str] = set()

    def add_payload(
        self, prim: PrimBuilder, data: geometry.MeshData, appearance: geometry.Appearance | None, name: str
    ) -> None:
        """Add a payload with the triangles to a prim; equal meshes are stored once."""
        layers = None if appearance is None else replace(appearance, materials=(), face_material_indices=None)
        key = hashlib.sha256(data.vertices.tobytes() + np.asarray(data.faces, dtype=np.int64).tobytes()).digest()
        key += b"" if layers is None or layers.is_empty else appearance_digest(layers)
        if key not in self.paths:
            plain = to_identifier(name)
            path = "/" + unique_name(plain if plain.strip("_") else "mesh", self._taken_names)
            made = self._builder.define_prim(path, usd.MESH)
            author_triangles(made, data)
            author_vertex_attributes(made, data, layers)
            self.paths[key] = path
        payload = pxr.Sdf.Payload(f"./{self.name}", self.paths[key])
        prim.spec.payloadList.prependedItems = [payload]
