"""What a stage lays on its meshes: normals, texture coordinates, colours, and materials of parts."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

from kinema.description import VisualMaterial
from kinema.foundation import Array
from kinema.shapes import Appearance, CornerValues, Look, corner_values, unit_normals, with_alpha
from kinema.words import usd

from . import pxr
from .geometry import polygons, triangulate
from .looks import coordinate_set, is_constant
from .materials import Materials
from .polar import Affine, polar, similarity
from .stage_index import StageIndex

_MOST_SETS = 8
_PLAIN = np.eye(3)


class _Corners(NamedTuple):
    """How the triangles of a mesh come from its polygons."""

    points: np.ndarray
    """The point of each corner, shape (triangles, 3)."""
    corners: np.ndarray
    """The place of each corner among the corners of all polygons, shape (triangles, 3)."""
    faces: np.ndarray
    """The polygon of each triangle."""


class MeshLooks:
    """The appearance of a stage's meshes; copies of one mesh share it."""

    def __init__(self, index: StageIndex, materials: Materials) -> None:
        self._index = index
        self.materials = materials
        self._known: dict[str, Appearance | None] = {}
        self._turned: dict[tuple[str, bytes], Appearance] = {}

    def of(self, prim: pxr.Prim, into_link: Affine) -> Appearance | None:
        """What is seen on a mesh in its link's frame; None where nothing is said."""
        source = prim.GetPrimInPrototype() if prim.IsInstanceProxy() else prim
        path = str(source.GetPath())
        path = self._index.copies.source(path) or path
        if path not in self._known:
            self._known[path] = self._read(prim)
        found = self._known[path]
        if found is None or found.normals is None:
            return found
        if similarity(into_link.linear) > 0:
            return found
        _, scale = polar(into_link.linear)
        if scale[0, 0] > 0 and np.abs(scale - scale[0, 0] * _PLAIN).max() <= 1e-6 * scale[0, 0]:
            return found
        key = (path, np.round(scale, 12).tobytes())
        if key not in self._turned:
            self._index.points_left -= len(found.normals.values)
            self._turned[key] = found.under(scale) if self._index.points_left >= 0 else found
        return self._turned[key]

    def _read(self, prim: pxr.Prim) -> Appearance | None:
        authored = self._index.values.facts(prim).authored
        subsets = self._subsets(prim)
        if not subsets and usd.NORMALS not in authored and not any(n.startswith(usd.PRIMVARS) for n in authored):
            return None
        corners = self._corners(prim)
        materials, numbers = self._parts(prim, subsets, corners)
        appearance = Appearance(
            normals=self._normals(prim, corners, authored),
            coordinates=self._coordinates(prim, corners, authored),
            colors=self._colors(prim, corners, authored),
            materials=materials,
            material_of_face=numbers,
        )
        return None if appearance.is_empty else appearance

    def _corners(self, prim: pxr.Prim) -> _Corners:
        index = self._index
        counts, indices = polygons(index, prim)
        corners = triangulate(counts, np.arange(len(indices)))
        is_plain = len(corners) == len(counts)  # triangles already
        faces = np.arange(len(counts)) if is_plain else np.repeat(np.arange(len(counts)), np.maximum(counts - 2, 0))
        if index.value(prim, usd.ORIENTATION) == usd.LEFT_HANDED:
            corners = corners[:, ::-1]
        return _Corners(indices[corners], corners, faces)

    # -- layers --

    def _normals(self, prim: pxr.Prim, corners: _Corners, authored: frozenset[str]) -> CornerValues | None:
        if usd.PRIMVAR_NORMALS in authored:
            found = self._primvar(prim, usd.PRIMVAR_NORMALS, corners)
        elif usd.NORMALS in authored:
            kind = str(pxr.UsdGeom.PointBased(prim).GetNormalsInterpolation())
            found = _layer(_array(prim.GetAttribute(usd.NORMALS).Get(self._index.time)), None, kind, corners)
        else:
            return None
        return unit_normals(found)

    def _coordinates(self, prim: pxr.Prim, corners: _Corners, authored: frozenset[str]) -> tuple[CornerValues, ...]:
        """All pairs of numbers that say that they are texture coordinates, or are called as such."""
        named: dict[int, CornerValues] = {}
        for name in sorted(n for n in authored if n.startswith(usd.PRIMVARS) and not n.endswith(usd.INDICES)):
            attribute = prim.GetAttribute(name)
            kind = str(attribute.GetTypeName()) if attribute else ""
            is_meant = kind.startswith("texCoord2") or (kind == "float2[]" and name.startswith(usd.TEXTURE_COORDINATES))
            if is_meant and (found := self._primvar(prim, name, corners)) is not None:
                named.setdefault(coordinate_set(name), found)
        listed = [named[number] for number in sorted(named)]
        return tuple(listed[:_MOST_SETS])

    def _colors(self, prim: pxr.Prim, corners: _Corners, authored: frozenset[str]) -> CornerValues | None:
        """Colours that differ over the mesh; one for all of it is a material's."""
        if usd.DISPLAY_COLOR not in authored or is_constant(prim, usd.DISPLAY_COLOR):
            return None
        found = self._primvar(prim, usd.DISPLAY_COLOR, corners)
        if found is None or found.values.shape[1] != 3:
            return None
        opacity = self._primvar(prim, usd.DISPLAY_OPACITY, corners) if usd.DISPLAY_OPACITY in authored else None
        if opacity is None or (opacity.values == 1.0).all():
            return CornerValues(with_alpha(found.values), found.corners)
        pairs = np.stack([found.corners, opacity.corners], axis=-1).reshape(-1, 2)
        used, numbers = np.unique(pairs, axis=0, return_inverse=True)
        return CornerValues(
            np.column_stack([found.values[used[:, 0]], opacity.values[used[:, 1]]]), numbers.reshape(-1, 3)
        )

    def _primvar(self, prim: pxr.Prim, name: str, corners: _Corners) -> CornerValues | None:
        primvar = pxr.UsdGeom.Primvar(prim.GetAttribute(name))
        if not primvar:
            return None
        values = _array(primvar.GetAttr().Get(self._index.time))
        indices = _array(primvar.GetIndices(self._index.time)) if primvar.IsIndexed() else None
        return _layer(values, indices, str(primvar.GetInterpolation()), corners)

    # -- parts --

    def _subsets(self, prim: pxr.Prim) -> list[pxr.Prim]:
        children = prim.GetFilteredChildren(_everywhere())
        return [c for c in children if c.GetTypeName() == usd.GEOM_SUBSET and self._is_painted(c)]

    def _is_painted(self, subset: pxr.Prim) -> bool:
        kind = self._index.value(subset, usd.ELEMENT_TYPE)
        return kind in (None, usd.FACE) and usd.MATERIAL_BINDING_API in self._index.schemas(subset)

    def _parts(
        self, prim: pxr.Prim, subsets: list[pxr.Prim], corners: _Corners
    ) -> tuple[tuple[Look, ...], np.ndarray | None]:
        """The materials of subsets, and the number of each triangle's."""
        looks: list[VisualMaterial] = []
        n_faces = int(corners.faces.max(initial=-1)) + 1
        of_face = np.full(n_faces, -1, dtype=np.int64)
        for subset in subsets:
            look = self.materials.bound_look(subset)
            faces = _array(self._index.value(subset, usd.SUBSET_INDICES))
            if look is None or faces is None or faces.ndim != 1:
                continue
            numbers = faces.astype(np.int64)
            if look not in looks:
                looks.append(look)
            of_face[numbers[(numbers >= 0) & (numbers < n_faces)]] = looks.index(look)
        return (tuple(looks), of_face[corners.faces]) if looks else ((), None)


@functools.cache
def _everywhere() -> Any:
    """The children of a prim that are there, those of instances among them."""
    return pxr.Usd.TraverseInstanceProxies(pxr.Usd.PrimDefaultPredicate)


def _layer(values: Array | None, indices: Array | None, kind: str, corners: _Corners) -> CornerValues | None:
    """Values that belong to corners, points or polygons as values of corners."""
    if values is None:
        return None
    match kind:
        case usd.FACE_VARYING:
            places = corners.corners
        case usd.VERTEX | usd.VARYING:
            places = corners.points
        case usd.UNIFORM:
            places = np.repeat(corners.faces[:, None], 3, axis=1)
        case _:
            places = np.zeros_like(corners.points)
    table = values.reshape(len(values), -1)
    if indices is not None:
        if indices.ndim != 1 or places.max(initial=0) >= len(indices):
            return None
        places = indices.astype(np.int64)[places]
    return corner_values(table, places, table.shape[1])


def _array(value: Any) -> Array | None:
    try:
        found = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        return None
    return found if value is not None and found.ndim >= 1 and len(found) else None
