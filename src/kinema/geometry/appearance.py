"""Physically based materials, textures, and per-corner mesh attributes (normals, texture coordinates, colours).

Materials follow the metallic-roughness model shared by glTF, UsdPreviewSurface and the `<pbr>` element of SDFormat.
Formats attach attributes to vertices (glTF, PLY), corners (OBJ, COLLADA, USD) or faces (STL); here all attributes are
indexed per face corner.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from .mesh import FloatArray, IntArray, MeshData, is_identity_matrix

# Materials ------------------------------------------------------------------------------------------------------------

Color = tuple[float, float, float, float]


class WrapMode(enum.StrEnum):
    """Texture sampling outside of the image (sampler wrap mode)."""

    REPEAT = "repeat"
    CLAMP = "clamp"
    MIRROR = "mirror"
    BLACK = "black"


class MapRole(enum.StrEnum):
    """Material parameter that a texture other than the base colour texture modulates."""

    OPACITY = "opacity"
    METALLIC = "metallic"
    ROUGHNESS = "roughness"
    EMISSION = "emission"
    NORMAL = "normal"
    BUMP = "bump"
    OCCLUSION = "occlusion"
    SPECULAR = "specular"
    CLEARCOAT = "clearcoat"


@dataclass(frozen=True, kw_only=True, slots=True)
class TextureMapping:
    """Sampler settings and transform from texture coordinates to image coordinates.

    Image coordinates are `rotate(uv * scale) + offset`, with v upwards.
    """

    wrap: tuple[WrapMode, WrapMode] = (WrapMode.REPEAT, WrapMode.REPEAT)
    """Wrap modes in u and v."""
    scale: tuple[float, float] = (1.0, 1.0)
    """Repetitions of the image per unit of the texture coordinates, in u and v."""
    offset: tuple[float, float] = (0.0, 0.0)
    rotation: float = 0.0
    """Counter-clockwise rotation [rad]."""
    texcoord_set: int = 0
    """Index of the set of texture coordinates of the mesh."""


DEFAULT_TEXTURE_MAPPING = TextureMapping()


@dataclass(frozen=True, kw_only=True, slots=True)
class Texture:
    """A texture map other than the base colour."""

    file: str
    """Image reference: a file, or `file[part]` for an image embedded in another file (see `textures`)."""
    channel: str = ""
    """`r`, `g`, `b` or `a` to read a scalar from a colour image; empty for the default channel of the role."""
    strength: float = 1.0
    """Strength of a normal or occlusion map."""
    mapping: TextureMapping = DEFAULT_TEXTURE_MAPPING


@dataclass(kw_only=True, eq=False)
class PbrMaterial:
    """A physically based material; parameters the source does not specify are None."""

    name: str = ""
    color: Color | None = None
    """Base colour red, green, blue, alpha, each 0 to 1, multiplied by the texture; None if unspecified."""
    texture: str = ""
    """Image reference of the base colour: a file, or `file[part]`; empty for none."""
    texture_mapping: TextureMapping = DEFAULT_TEXTURE_MAPPING
    """Mapping of the base colour texture."""
    mean_texture_color: tuple[float, float, float] | None = None
    """Mean colour of a MuJoCo cube-map texture, for shapes without texture coordinates. On meshes, `texture` also holds
    the cube map as an atlas (`CubeMapProjection`)."""
    emission: tuple[float, float, float] | None = None
    specular: float | None = None
    metallic: float | None = None
    roughness: float | None = None
    reflectance: float | None = None
    clearcoat: float | None = None
    clearcoat_roughness: float | None = None
    opacity_threshold: float | None = None
    """Alpha cutoff: the surface is invisible where less opaque, else fully opaque; None for alpha blending."""
    double_sided: bool | None = None
    maps: dict[str, Texture] = field(default_factory=dict)
    """Other texture maps by `MapRole`."""

    @property
    def has_properties(self) -> bool:
        """Whether any parameter or texture besides the name is specified."""
        values = (self.color, self.emission, self.specular, self.metallic, self.roughness, self.reflectance)
        others = (self.clearcoat, self.opacity_threshold, self.double_sided)
        return bool(self.texture or self.maps) or any(value is not None for value in (*values, *others))

    @property
    def is_color_only(self) -> bool:
        """Whether the base colour is the only specified parameter besides the name and `double_sided`."""
        return self.color is not None and not replace(self, color=None, double_sided=None).has_properties

    @property
    def image_references(self) -> list[str]:
        """References of all images, without duplicates, the base colour first."""
        files = [self.texture, *(texture.file for texture in self.maps.values())]
        return [file for file in dict.fromkeys(files) if file]


# Phong conversion -----------------------------------------------------------------------------------------------------


def roughness_from_phong_exponent(exponent: float) -> float:
    """Roughness of a Phong specular exponent n: the square root of the Beckmann width alpha = sqrt(2 / (n + 2))."""
    alpha = math.sqrt(2.0 / (max(exponent, 0.0) + 2.0))
    return math.sqrt(alpha)


def phong_exponent_from_roughness(roughness: float) -> float:
    """Phong specular exponent of a roughness (at least 0.01); inverse of `roughness_from_phong_exponent`."""
    return 2.0 / max(roughness, 1e-2) ** 4 - 2.0


def roughness_from_shininess(shininess: float) -> float:
    """Roughness of a MuJoCo `shininess`, the Phong exponent divided by 128 (the OpenGL maximum)."""
    return roughness_from_phong_exponent(128.0 * shininess)


# Mesh attributes ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, slots=True)
class CornerAttribute:
    """An indexed attribute of face corners (such as normals or texture coordinates)."""

    values: FloatArray
    """Distinct values, shape (n, width)."""
    indices: IntArray
    """Index of the value of each face corner, shape (n_faces, 3)."""

    def select_faces(self, face_indices: IntArray) -> CornerAttribute:
        """Attribute of the faces `face_indices` only, in that order, without unused values."""
        used, indices = np.unique(self.indices[face_indices], return_inverse=True)
        return CornerAttribute(self.values[used], indices.reshape(-1, 3))

    def reverse_winding(self) -> CornerAttribute:
        """Attribute for faces with their corners in reverse order."""
        return CornerAttribute(self.values, self.indices[:, ::-1])

    def expanded(self) -> FloatArray:
        """Value at every face corner, shape (n_faces, 3, width)."""
        return self.values[self.indices]


@dataclass(frozen=True, kw_only=True, eq=False)
class Appearance:
    """Per-corner attributes and materials of the faces of one mesh; all of them are optional."""

    normals: CornerAttribute | None = None
    """Unit normals."""
    texture_coordinates: tuple[CornerAttribute, ...] = ()
    """Sets of texture coordinates (u, v); v points upwards, (0, 0) is the lower left corner of an image."""
    colors: CornerAttribute | None = None
    """RGBA colours."""
    materials: tuple[PbrMaterial, ...] = ()
    face_material_indices: IntArray | None = None
    """Index of the material of each face, -1 for none; None if all faces have the first material, if any."""

    @property
    def is_empty(self) -> bool:
        """Whether there are no attributes and no materials."""
        return self.normals is None and not self.texture_coordinates and self.colors is None and not self.materials

    def select_faces(self, face_indices: IntArray) -> Appearance:
        """Appearance of the faces `face_indices` only, in that order; all materials are kept."""
        return replace(
            self,
            normals=None if self.normals is None else self.normals.select_faces(face_indices),
            texture_coordinates=tuple(c.select_faces(face_indices) for c in self.texture_coordinates),
            colors=None if self.colors is None else self.colors.select_faces(face_indices),
            face_material_indices=None
            if self.face_material_indices is None
            else self.face_material_indices[face_indices],
        )

    def transformed(self, matrix: FloatArray) -> Appearance:
        """Appearance of the mesh after the linear map `matrix` (3, 3).

        Normals are transformed by the inverse transpose. A reflection (negative determinant) reverses the corner order
        of all attributes, consistent with `apply_affine`.
        """
        if is_identity_matrix(matrix):
            return self
        mirrored = np.linalg.det(matrix) < 0
        normals, coordinates, colors = self.normals, self.texture_coordinates, self.colors
        if normals is not None:
            normals = CornerAttribute(_transform_normals(normals.values, matrix), normals.indices)
        if mirrored:
            normals = None if normals is None else normals.reverse_winding()
            coordinates = tuple(c.reverse_winding() for c in coordinates)
            colors = None if colors is None else colors.reverse_winding()
        return replace(self, normals=normals, texture_coordinates=coordinates, colors=colors)

    def faces_by_material(self, n_faces: int) -> list[tuple[PbrMaterial | None, IntArray]]:
        """Face indices grouped by material: pairs of (material or None, indices), for a mesh with `n_faces` faces."""
        if self.face_material_indices is None:
            return [(self.materials[0] if self.materials else None, np.arange(n_faces))]
        indices = np.where(self.face_material_indices < len(self.materials), self.face_material_indices, -1)
        order = np.argsort(indices, kind="stable")
        used, starts = np.unique(indices[order], return_index=True)
        groups = np.split(order, starts[1:])
        return [(self.materials[n] if n >= 0 else None, group) for n, group in zip(used.tolist(), groups, strict=True)]


EMPTY_APPEARANCE = Appearance()


def validated_corner_attribute(values: FloatArray, indices: IntArray, width: int) -> CornerAttribute | None:
    """Corner attribute of the first `width` columns of `values`, or None if the data is invalid.

    Invalid are empty arrays, fewer than `width` columns, indices out of range and non-finite values.
    """
    if values.ndim != 2 or values.shape[1] < width or len(values) == 0 or len(indices) == 0:
        return None
    if indices.min() < 0 or indices.max() >= len(values) or not np.isfinite(values).all():
        return None
    return CornerAttribute(np.ascontiguousarray(values[:, :width]), indices)


def normalize_normals(normals: CornerAttribute | None) -> CornerAttribute | None:
    """Normals scaled to unit length; None if they are not 3-vectors or if a referenced normal is zero.

    Normals already of unit length within 1e-6 are left unchanged.
    """
    if normals is None or normals.values.shape[1] < 3:
        return None
    corners, values = normals.indices, normals.values[:, :3]
    lengths = np.sqrt(np.einsum("ij,ij->i", values, values))
    is_zero = lengths == 0
    if is_zero.any() and is_zero[corners].any():
        return None
    # normals of unit length up to the precision of files stay bitwise unchanged
    needs_scaling = (np.abs(lengths - 1.0) >= 1e-6) & ~is_zero
    if not needs_scaling.any():
        return CornerAttribute(values, corners)
    return CornerAttribute(values / np.where(needs_scaling, lengths, 1.0)[:, None], corners)


def to_rgba(colors: FloatArray) -> FloatArray:
    """Convert RGB or RGBA colours (n, 3 or more) to RGBA (n, 4); alpha defaults to 1."""
    if colors.shape[1] >= 4:
        return colors[:, :4]
    return np.column_stack([colors[:, :3], np.ones(len(colors))])


def merge_appearances(parts: Sequence[tuple[MeshData, Appearance | None]]) -> Appearance | None:
    """Appearance of meshes concatenated by `merge_meshes`; None if no part has an appearance.

    Args:
        parts: each mesh with its appearance, in the order of concatenation. Missing normals become flat-shading
            normals, missing texture coordinates zero and missing colours white.
    """
    appearances = [EMPTY_APPEARANCE if appearance is None else appearance for _, appearance in parts]
    counts = [mesh.n_faces for mesh, _ in parts]
    if all(part.is_empty for part in appearances):
        return None
    materials, material_indices = _merge_materials(appearances, counts)
    return Appearance(
        normals=_merge_normals(parts),
        texture_coordinates=_merge_texture_coordinates(appearances, counts),
        colors=_merge_attributes([part.colors for part in appearances], counts, 4),
        materials=materials,
        face_material_indices=material_indices,
    )


def _merge_texture_coordinates(
    appearances: Sequence[Appearance], face_counts: Sequence[int]
) -> tuple[CornerAttribute, ...]:
    """Concatenate the texture coordinate sets of all parts set by set; parts without a set get zeros."""
    n_sets = max(len(appearance.texture_coordinates) for appearance in appearances)
    sets = [
        [(*appearance.texture_coordinates, *[None] * n_sets)[i] for appearance in appearances] for i in range(n_sets)
    ]
    merged = (_merge_attributes(parts, face_counts, 2) for parts in sets)
    return tuple(layer for layer in merged if layer is not None)


def _merge_attributes(
    attributes: Sequence[CornerAttribute | None], face_counts: Sequence[int], width: int
) -> CornerAttribute | None:
    """Concatenate corner attributes of meshes; missing ones become zero, or white for a width of 4 (RGBA).

    Args:
        attributes: attribute of each mesh, or None.
        face_counts: number of faces of each mesh.
        width: number of columns of the values.
    """
    if all(attribute is None for attribute in attributes):
        return None
    default = np.full((1, width), 1.0 if width == 4 else 0.0)
    values, corners, start = [], [], 0
    for attribute, count in zip(attributes, face_counts, strict=True):
        filled = CornerAttribute(default, np.zeros((count, 3), dtype=np.int64)) if attribute is None else attribute
        values.append(filled.values)
        corners.append(filled.indices + start)
        start += len(filled.values)
    return CornerAttribute(np.concatenate(values), np.concatenate(corners))


def _merge_normals(parts: Sequence[tuple[MeshData, Appearance | None]]) -> CornerAttribute | None:
    """Concatenate the normals of all parts, with flat-shading normals for parts without; None if no part has any."""
    found = [None if appearance is None else appearance.normals for _, appearance in parts]
    if all(normals is None for normals in found):
        return None
    filled = [
        _flat_shading_normals(mesh) if normals is None else normals
        for normals, (mesh, _) in zip(found, parts, strict=True)
    ]
    return _merge_attributes(filled, [mesh.n_faces for mesh, _ in parts], 3)


def _flat_shading_normals(mesh: MeshData) -> CornerAttribute:
    """Geometric unit normal of each face at its three corners; +z for degenerate faces."""
    a, b, c = (mesh.triangles()[:, i] for i in range(3))
    normals = np.cross(b - a, c - a)
    lengths = np.linalg.norm(normals, axis=1)
    normals = np.where(lengths[:, None] > 0, normals / np.where(lengths > 0, lengths, 1.0)[:, None], [0.0, 0.0, 1.0])
    return CornerAttribute(normals, np.repeat(np.arange(mesh.n_faces)[:, None], 3, axis=1))


def _merge_materials(
    appearances: Sequence[Appearance], face_counts: Sequence[int]
) -> tuple[tuple[PbrMaterial, ...], IntArray | None]:
    """Distinct materials of all parts, and the material index of each face of the concatenated mesh.

    The indices are -1 for faces without material, and None if all faces have the only material.
    """
    materials = list(dict.fromkeys(material for appearance in appearances for material in appearance.materials))
    if not materials:
        return (), None
    index = {id(material): i for i, material in enumerate(materials)}
    indices: list[IntArray] = []
    for appearance, count in zip(appearances, face_counts, strict=True):
        local_indices = np.array([*(index[id(m)] for m in appearance.materials), -1], dtype=np.int64)
        if appearance.face_material_indices is None:
            indices.append(np.full(count, local_indices[0]))
        else:
            indices.append(
                local_indices[
                    np.where(
                        appearance.face_material_indices < len(appearance.materials),
                        appearance.face_material_indices,
                        -1,
                    )
                ]
            )
    all_indices = np.concatenate(indices) if indices else np.zeros(0, dtype=np.int64)
    return tuple(materials), None if len(materials) == 1 and (all_indices == 0).all() else all_indices


def _transform_normals(normals: FloatArray, matrix: FloatArray) -> FloatArray:
    """Transform normals (n, 3) by the inverse transpose of `matrix` (3, 3) and renormalise them.

    A singular matrix leaves the normals unchanged.
    """
    scale = np.abs(matrix).max()
    if not scale or not np.isfinite(scale) or abs(np.linalg.det(matrix / scale)) < 1e-12:
        return normals
    inverse_transpose = np.linalg.inv(matrix / scale).T
    mapped = np.einsum("ij,nj->ni", inverse_transpose, normals)
    lengths = np.linalg.norm(mapped, axis=1, keepdims=True)
    return mapped / np.where(lengths > 0, lengths, 1.0)
