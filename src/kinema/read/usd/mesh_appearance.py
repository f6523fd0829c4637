"""Appearance of meshes: normals, texture coordinates, vertex colours, subset materials and MuJoCo's cube maps."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from kinema.core import Array
from kinema.description import Mesh, VisualMaterial
from kinema.geometry import (
    Appearance,
    CornerAttribute,
    CubeMapProjection,
    GeometryError,
    MeshData,
    PbrMaterial,
    mesh_mass_properties,
    normalize_normals,
    to_rgba,
    validated_corner_attribute,
)
from kinema.tokens import kinema_usd, mjcf, usd

from . import pxr
from .geometry import fan_triangulate, read_polygons
from .materials import MaterialBindings, is_constant_primvar, texcoord_set_index
from .stage_index import StageIndex
from .transforms import Affine, polar_decomposition, uniform_scale

# -- primvars and subsets ----------------------------------------------------------------------------------------------

_MAX_TEXCOORD_SETS = 8
_IDENTITY = np.eye(3)


class _FaceCorners(NamedTuple):
    """Mapping from triangles to the polygons of a mesh."""

    point_indices: np.ndarray
    """Point of each corner, shape (n_triangles, 3)."""
    corner_indices: np.ndarray
    """Index of each corner among the corners of all polygons, shape (n_triangles, 3)."""
    polygon_indices: np.ndarray
    """Polygon of each triangle, shape (n_triangles,)."""


class MeshAppearances:
    """Appearances of the meshes of a stage, shared between instances."""

    def __init__(self, index: StageIndex, materials: MaterialBindings) -> None:
        self._index = index
        self.materials = materials
        self._appearances: dict[str, Appearance | None] = {}
        self._transformed: dict[tuple[str, bytes], Appearance] = {}

    def appearance(self, prim: pxr.Prim, into_link: Affine) -> Appearance | None:
        """Normals, texture coordinates, colours and materials of a mesh in its link frame; None if unset."""
        source = prim.GetPrimInPrototype() if prim.IsInstanceProxy() else prim
        path = str(source.GetPath())
        path = self._index.instances.prototype_path(path) or path
        if path not in self._appearances:
            self._appearances[path] = self._read_appearance(prim)
        found = self._appearances[path]
        if found is None or found.normals is None:
            return found
        if uniform_scale(into_link.linear) > 0:
            return found
        _, scale = polar_decomposition(into_link.linear)
        if scale[0, 0] > 0 and np.abs(scale - scale[0, 0] * _IDENTITY).max() <= 1e-6 * scale[0, 0]:
            return found
        key = (path, np.round(scale, 12).tobytes())
        if key not in self._transformed:
            self._index.points_left -= len(found.normals.values)
            self._transformed[key] = found.transformed(scale) if self._index.points_left >= 0 else found
        return self._transformed[key]

    def _read_appearance(self, prim: pxr.Prim) -> Appearance | None:
        """Appearance in the mesh's local coordinates; None if nothing is authored."""
        authored = self._index.values.facts(prim).authored
        subsets = self._subsets(prim)
        if not subsets and usd.NORMALS not in authored and not any(n.startswith(usd.PRIMVARS_PREFIX) for n in authored):
            return None
        corners = self._corners(prim)
        materials, material_indices = self._subset_materials(prim, subsets, corners)
        appearance = Appearance(
            normals=self._normals(prim, corners, authored),
            texture_coordinates=self._texture_coordinates(prim, corners, authored),
            colors=self._colors(prim, corners, authored),
            materials=materials,
            face_material_indices=material_indices,
        )
        return None if appearance.is_empty else appearance

    def _corners(self, prim: pxr.Prim) -> _FaceCorners:
        """Fan triangulation of the polygons with corner and polygon indices."""
        index = self._index
        counts, indices = read_polygons(index, prim)
        corners = fan_triangulate(counts, np.arange(len(indices)))
        is_plain = len(corners) == len(counts)  # all polygons are triangles
        faces = np.arange(len(counts)) if is_plain else np.repeat(np.arange(len(counts)), np.maximum(counts - 2, 0))
        if index.value(prim, usd.ORIENTATION) == usd.LEFT_HANDED:
            corners = corners[:, ::-1]
        return _FaceCorners(indices[corners], corners, faces)

    # -- primvars --

    def _normals(self, prim: pxr.Prim, corners: _FaceCorners, authored: frozenset[str]) -> CornerAttribute | None:
        """Normals per corner from the primvar or the attribute `normals`; None if unset."""
        if usd.PRIMVAR_NORMALS in authored:
            found = self._primvar(prim, usd.PRIMVAR_NORMALS, corners)
        elif usd.NORMALS in authored:
            kind = str(pxr.UsdGeom.PointBased(prim).GetNormalsInterpolation())
            found = _to_corner_attribute(
                _to_array(prim.GetAttribute(usd.NORMALS).Get(self._index.time)), None, kind, corners
            )
        else:
            return None
        return normalize_normals(found)

    def _texture_coordinates(
        self, prim: pxr.Prim, corners: _FaceCorners, authored: frozenset[str]
    ) -> tuple[CornerAttribute, ...]:
        """Texture coordinate sets of primvars with texture coordinate type or name, in order."""
        sets: dict[int, CornerAttribute] = {}
        for name in sorted(
            n for n in authored if n.startswith(usd.PRIMVARS_PREFIX) and not n.endswith(usd.INDICES_SUFFIX)
        ):
            attribute = prim.GetAttribute(name)
            kind = str(attribute.GetTypeName()) if attribute else ""
            is_texcoord = kind.startswith("texCoord2") or (
                kind == "float2[]" and name.startswith(usd.TEXTURE_COORDINATES)
            )
            if is_texcoord and (found := self._primvar(prim, name, corners)) is not None:
                sets.setdefault(texcoord_set_index(name), found)
        ordered = [sets[number] for number in sorted(sets)]
        return tuple(ordered[:_MAX_TEXCOORD_SETS])

    def _colors(self, prim: pxr.Prim, corners: _FaceCorners, authored: frozenset[str]) -> CornerAttribute | None:
        """Non-constant display colours with opacity as RGBA per corner; a constant colour belongs to the material."""
        if usd.DISPLAY_COLOR not in authored or is_constant_primvar(prim, usd.DISPLAY_COLOR):
            return None
        found = self._primvar(prim, usd.DISPLAY_COLOR, corners)
        if found is None or found.values.shape[1] != 3:
            return None
        opacity = self._primvar(prim, usd.DISPLAY_OPACITY, corners) if usd.DISPLAY_OPACITY in authored else None
        if opacity is None or (opacity.values == 1.0).all():
            return CornerAttribute(to_rgba(found.values), found.indices)
        pairs = np.stack([found.indices, opacity.indices], axis=-1).reshape(-1, 2)
        used, numbers = np.unique(pairs, axis=0, return_inverse=True)
        return CornerAttribute(
            np.column_stack([found.values[used[:, 0]], opacity.values[used[:, 1]]]), numbers.reshape(-1, 3)
        )

    def _primvar(self, prim: pxr.Prim, name: str, corners: _FaceCorners) -> CornerAttribute | None:
        primvar = pxr.UsdGeom.Primvar(prim.GetAttribute(name))
        if not primvar:
            return None
        values = _to_array(primvar.GetAttr().Get(self._index.time))
        indices = _to_array(primvar.GetIndices(self._index.time)) if primvar.IsIndexed() else None
        return _to_corner_attribute(values, indices, str(primvar.GetInterpolation()), corners)

    # -- subsets --

    def _subsets(self, prim: pxr.Prim) -> list[pxr.Prim]:
        children = prim.GetFilteredChildren(_instance_proxy_predicate())
        return [c for c in children if c.GetTypeName() == usd.GEOM_SUBSET and self._has_material(c)]

    def _has_material(self, subset: pxr.Prim) -> bool:
        kind = self._index.value(subset, usd.ELEMENT_TYPE)
        return kind in (None, usd.FACE) and usd.MATERIAL_BINDING_API in self._index.schemas(subset)

    def _subset_materials(
        self, prim: pxr.Prim, subsets: list[pxr.Prim], corners: _FaceCorners
    ) -> tuple[tuple[PbrMaterial, ...], np.ndarray | None]:
        """Materials of the subsets, and the material index of each triangle (-1 for none)."""
        materials: list[VisualMaterial] = []
        n_faces = int(corners.polygon_indices.max(initial=-1)) + 1
        material_of_face = np.full(n_faces, -1, dtype=np.int64)
        for subset in subsets:
            material = self.materials.subset_material(subset)
            faces = _to_array(self._index.value(subset, usd.SUBSET_INDICES))
            if material is None or faces is None or faces.ndim != 1:
                continue
            numbers = faces.astype(np.int64)
            if material not in materials:
                materials.append(material)
            material_of_face[numbers[(numbers >= 0) & (numbers < n_faces)]] = materials.index(material)
        return (tuple(materials), material_of_face[corners.polygon_indices]) if materials else ((), None)


@functools.cache
def _instance_proxy_predicate() -> Any:
    """Predicate of child prims including instance proxies."""
    return pxr.Usd.TraverseInstanceProxies(pxr.Usd.PrimDefaultPredicate)


def _to_corner_attribute(
    values: Array | None, indices: Array | None, interpolation: str, corners: _FaceCorners
) -> CornerAttribute | None:
    """Values with any interpolation (face-varying, vertex, uniform, constant) as values per corner."""
    if values is None:
        return None
    match interpolation:
        case usd.FACE_VARYING:
            value_indices = corners.corner_indices
        case usd.VERTEX | usd.VARYING:
            value_indices = corners.point_indices
        case usd.UNIFORM:
            value_indices = np.repeat(corners.polygon_indices[:, None], 3, axis=1)
        case _:
            value_indices = np.zeros_like(corners.point_indices)
    table = values.reshape(len(values), -1)
    if indices is not None:
        if indices.ndim != 1 or value_indices.max(initial=0) >= len(indices):
            return None
        value_indices = indices.astype(np.int64)[value_indices]
    return validated_corner_attribute(table, value_indices, table.shape[1])


def _to_array(value: Any) -> Array | None:
    try:
        found = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        return None
    return found if value is not None and found.ndim >= 1 and len(found) else None


# -- cube maps ---------------------------------------------------------------------------------------------------------

_COORDINATE_TOLERANCE = 1e-4
"""Tolerance of texture coordinates for recognising a projection."""
_MOMENT_SEPARATION = 1e-3
"""Minimum difference of principal moments, relative to the largest, for well-defined axes."""


def restore_cube_map_projection(
    index: StageIndex, prim: pxr.Prim, mesh: Mesh, material: VisualMaterial, into_link: Affine
) -> tuple[Mesh, VisualMaterial]:
    """Replace texture coordinates that follow from a stored cube map projection by that projection.

    Args:
        index: the stage.
        prim: prim of the mesh.
        mesh: mesh with its appearance.
        material: material with the mean colour of a cube map.
        into_link: map from the prim's coordinates to the link frame.
    """
    parameters, appearance = index.custom_value(prim, kinema_usd.CUBE_MAP_PROJECTION), mesh.appearance
    if not material.texture or appearance is None or not appearance.texture_coordinates:
        return mesh, material
    projection = None if parameters is None else CubeMapProjection.from_parameters(parameters)
    if projection is not None and mesh.vertices is not None and mesh.faces is not None:
        projection = projection.transformed(polar_decomposition(into_link.linear)[1])
        triangles = MeshData(mesh.vertices, mesh.faces)
        if _are_close(
            projection.texture_coordinates(triangles), appearance.texture_coordinates[0]
        ) and _has_distinct_principal_axes(triangles):
            bare = replace(appearance, texture_coordinates=())
            return replace(mesh, projection=projection, appearance=None if bare.is_empty else bare), material
    # edited, or MuJoCo would orient the projection differently: an ordinary texture
    names = mjcf.attribute_key(mjcf.TEXTURES)
    attributes = {key: value for key, value in material.attributes.items() if key != names}
    return mesh, replace(material, mean_texture_color=None, attributes=attributes)


def _has_distinct_principal_axes(mesh: MeshData) -> bool:
    """Whether the principal axes of inertia, which orient MuJoCo's cube maps, are well defined."""
    try:
        moments = np.linalg.eigvalsh(mesh_mass_properties(mesh, 1.0).inertia)
    except (GeometryError, np.linalg.LinAlgError):
        return False
    return bool((np.diff(moments) > _MOMENT_SEPARATION * np.abs(moments).max()).all())


def _are_close(one: CornerAttribute, other: CornerAttribute) -> bool:
    return bool(np.abs(one.expanded() - other.expanded()).max(initial=0.0) < _COORDINATE_TOLERANCE)
