"""Shapes as glTF binary meshes: tessellation, smooth normals, simplification, materials and textures."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from kinema.core import Array, Pose
from kinema.description import HeightField, Mesh, Plane, Shape, effective_appearance, load_textured_mesh, tessellate
from kinema.geometry import (
    DEFAULT_SEGMENTS,
    Appearance,
    CornerAttribute,
    GeometryError,
    MapRole,
    MeshData,
    MeshError,
    PbrMaterial,
    TextureMapping,
    WrapMode,
    apply_affine,
    convert_to_png,
    read_image,
    simplify_mesh,
)

# -------------------------------------------------------------------------------------------------------- glTF encoding

_DEFAULT_COLOR = (0.72, 0.74, 0.77, 1.0)
"""The colour of what has none."""
_WRAP_MODES = {WrapMode.REPEAT: 10497, WrapMode.CLAMP: 33071, WrapMode.MIRROR: 33648, WrapMode.BLACK: 33071}
_MIME_TYPES = {".png": "image/png", ".jpg": "image/jpeg", ".webp": "image/webp"}
_ARRAY_BUFFER, _ELEMENT_ARRAY_BUFFER = 34962, 34963
_UNLIT = "KHR_materials_unlit"


@dataclass(frozen=True, slots=True, eq=False)
class GltfPrimitive:
    """Triangles of one material: equal face corners share a vertex."""

    positions: Array
    """(n, 3) [m]"""
    normals: Array
    faces: np.ndarray
    material: PbrMaterial | None = None
    texture_coordinates: Array | None = None
    """Of textures, (n, 2), v upwards, moved as the look says."""
    colors: Array | None = None
    """Red, green, blue, alpha, (n, 4)."""
    is_closed: bool = False
    """Whether nobody can look at it from behind, so that half of its faces need not be drawn."""
    is_lit: bool = True
    """Whether it has its colour by light; else it has it by itself, which costs a browser next to nothing."""


@dataclass(slots=True, eq=False)
class _GltfBuilder:
    """glTF document under construction: binary buffer and JSON lists."""

    data: bytearray = field(default_factory=bytearray)
    views: list[dict[str, Any]] = field(default_factory=list)
    accessors: list[dict[str, Any]] = field(default_factory=list)
    materials: list[dict[str, Any]] = field(default_factory=list)
    textures: list[dict[str, Any]] = field(default_factory=list)
    samplers: list[dict[str, Any]] = field(default_factory=list)
    images: list[dict[str, Any]] = field(default_factory=list)
    texture_indices: dict[Any, int] = field(default_factory=dict)

    def add_buffer_view(self, data: bytes, **more: Any) -> int:
        """Append bytes as a buffer view; returns its index."""
        self.data += b"\0" * (-len(self.data) % 4)
        self.views.append({"buffer": 0, "byteOffset": len(self.data), "byteLength": len(data), **more})
        self.data += data
        return len(self.views) - 1

    def add_accessor(self, values: np.ndarray, kind: str, component: int, target: int) -> int:
        """Append an array of vertex attributes or indices as an accessor; returns its index."""
        entry: dict[str, Any] = {
            "bufferView": self.add_buffer_view(np.ascontiguousarray(values).tobytes(), target=target),
            "componentType": component,
            "count": len(values),
            "type": kind,
        }
        if kind == "VEC3":
            entry |= {"min": values.min(axis=0).tolist(), "max": values.max(axis=0).tolist()}
        self.accessors.append(entry)
        return len(self.accessors) - 1

    def add_texture(self, reference: str, wraps: tuple[WrapMode, WrapMode]) -> int | None:
        """Add an image with wrap modes as a texture; returns its index, or None if the image cannot be read."""
        key = (reference, wraps)
        if key not in self.texture_indices:
            image = self._add_image(reference)
            if image is None:
                return None
            self.samplers.append({"wrapS": _WRAP_MODES[wraps[0]], "wrapT": _WRAP_MODES[wraps[1]]})
            self.textures.append({"source": image, "sampler": len(self.samplers) - 1})
            self.texture_indices[key] = len(self.textures) - 1
        return self.texture_indices[key]

    def _add_image(self, reference: str) -> int | None:
        key = ("image", reference)
        if key not in self.texture_indices:
            try:
                data, suffix = read_image(reference)
                if suffix not in _MIME_TYPES:
                    data, suffix = convert_to_png(data), ".png"
            except MeshError:
                return None
            self.images.append({"bufferView": self.add_buffer_view(data), "mimeType": _MIME_TYPES[suffix]})
            self.texture_indices[key] = len(self.images) - 1
        return self.texture_indices[key]


def encode_glb(gltf_primitives: Sequence[GltfPrimitive]) -> bytes:
    """Binary glTF (GLB) file of primitives."""
    file = _GltfBuilder()
    primitives = [_encode_primitive(file, part) for part in gltf_primitives if len(part.faces)]
    document = {
        "asset": {"version": "2.0"},
        "scene": 0,
        "scenes": [{"nodes": [0]}],
        "nodes": [{"mesh": 0}],
        "meshes": [{"primitives": primitives}],
        "buffers": [{"byteLength": len(file.data)}],
        "bufferViews": file.views,
        "accessors": file.accessors,
        "materials": file.materials,
        **{
            name: list(values)
            for name, values in (
                ("textures", file.textures),
                ("samplers", file.samplers),
                ("images", file.images),
                ("extensionsUsed", () if all(part.is_lit for part in gltf_primitives) else (_UNLIT,)),
            )
            if values
        },
    }
    text = json.dumps(document, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 4)
    data = bytes(file.data) + b"\0" * (-len(file.data) % 4)
    size = 12 + 8 + len(text) + 8 + len(data)
    head = struct.pack("<4sII", b"glTF", 2, size)
    return head + struct.pack("<I4s", len(text), b"JSON") + text + struct.pack("<I4s", len(data), b"BIN\0") + data


def _encode_primitive(builder: _GltfBuilder, primitive: GltfPrimitive) -> dict[str, Any]:
    """JSON of a primitive; adds its accessors and material to the builder."""
    attributes = {
        "POSITION": builder.add_accessor(primitive.positions.astype(np.float32), "VEC3", 5126, _ARRAY_BUFFER),
        "NORMAL": builder.add_accessor(primitive.normals.astype(np.float32), "VEC3", 5126, _ARRAY_BUFFER),
    }
    if primitive.texture_coordinates is not None:
        upside_down = primitive.texture_coordinates * (1.0, -1.0) + (0.0, 1.0)  # glTF counts v downwards
        attributes["TEXCOORD_0"] = builder.add_accessor(upside_down.astype(np.float32), "VEC2", 5126, _ARRAY_BUFFER)
    if primitive.colors is not None:
        attributes["COLOR_0"] = builder.add_accessor(primitive.colors.astype(np.float32), "VEC4", 5126, _ARRAY_BUFFER)
    indices = builder.add_accessor(primitive.faces.astype(np.uint32).ravel(), "SCALAR", 5125, _ELEMENT_ARRAY_BUFFER)
    material = _encode_material(builder, primitive)
    builder.materials.append(material)
    return {"attributes": attributes, "indices": indices, "material": len(builder.materials) - 1}


def _encode_material(builder: _GltfBuilder, primitive: GltfPrimitive) -> dict[str, Any]:
    """JSON of the material of a primitive (metallic-roughness model)."""
    look = primitive.material or PbrMaterial()
    has_paint = primitive.colors is not None or bool(look.texture)
    color = look.color or ((1.0, 1.0, 1.0, 1.0) if has_paint else _DEFAULT_COLOR)
    surface: dict[str, Any] = {
        "baseColorFactor": [*(_srgb_to_linear(c) for c in color[:3]), float(color[3])],
        "metallicFactor": 0.0 if look.metallic is None else float(look.metallic),
        "roughnessFactor": 0.6 if look.roughness is None else float(look.roughness),
    }
    material: dict[str, Any] = {
        "pbrMetallicRoughness": surface,
        "doubleSided": _is_double_sided(look, primitive, color[3]),
    }
    if not primitive.is_lit:
        material["extensions"] = {_UNLIT: {}}
    if color[3] < 1.0 or MapRole.OPACITY in look.maps:
        material["alphaMode"] = "BLEND"
    if look.opacity_threshold is not None:
        material |= {"alphaMode": "MASK", "alphaCutoff": float(look.opacity_threshold)}
    if look.emission is not None and any(look.emission):
        material["emissiveFactor"] = [min(max(float(e), 0.0), 1.0) for e in look.emission]
    if primitive.texture_coordinates is not None:
        _add_texture_maps(builder, look, material, surface)
    return material


def _is_double_sided(material: PbrMaterial, primitive: GltfPrimitive, opacity: float) -> bool:
    hidden = primitive.is_closed and opacity >= 1.0 and not material.image_references
    return not hidden if material.double_sided is None else material.double_sided


def _add_texture_maps(
    builder: _GltfBuilder, pbr_material: PbrMaterial, material_json: dict[str, Any], pbr_json: dict[str, Any]
) -> None:
    """Add the texture maps of a material to its glTF JSON."""

    def image(reference: str, placement: TextureMapping, **more: Any) -> dict[str, Any] | None:
        number = builder.add_texture(reference, placement.wrap)
        return None if number is None else {"index": number, **more}

    if pbr_material.texture:
        pbr_json["baseColorTexture"] = image(pbr_material.texture, pbr_material.texture_mapping)
    maps = pbr_material.maps
    if MapRole.NORMAL in maps:
        bumps = maps[MapRole.NORMAL]
        material_json["normalTexture"] = image(bumps.file, bumps.mapping, scale=bumps.strength)
    if MapRole.EMISSION in maps:
        material_json["emissiveTexture"] = image(maps[MapRole.EMISSION].file, maps[MapRole.EMISSION].mapping)
        material_json.setdefault("emissiveFactor", [1.0, 1.0, 1.0])
    rough, metal = maps.get(MapRole.ROUGHNESS), maps.get(MapRole.METALLIC)
    shared = rough or metal
    if shared is not None and (rough is None or metal is None or rough.file == metal.file):
        # one image tells both in glTF: roughness in green, metal in blue
        pbr_json["metallicRoughnessTexture"] = image(shared.file, shared.mapping)
        pbr_json["roughnessFactor"] = 1.0 if pbr_material.roughness is None else float(pbr_material.roughness)
        pbr_json["metallicFactor"] = (
            (1.0 if metal else 0.0) if pbr_material.metallic is None else float(pbr_material.metallic)
        )
    for holder in (material_json, pbr_json):
        for name in [n for n, value in holder.items() if value is None]:
            del holder[name]


def _srgb_to_linear(value: float) -> float:
    """Convert an sRGB colour component to linear light."""
    v = min(max(float(value), 0.0), 1.0)
    return v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4


# ------------------------------------------------------------------------------------------------------ drawable meshes

_CREASE_ANGLE = math.radians(35.0)
"""Faces that meet at a flatter angle are one smooth surface; those of round shapes in few segments always are."""
_MIN_TRIANGLES = 24
"""Triangles that anything keeps when it is made coarser."""
_MAX_SMOOTH_CORNERS = 1_500_000
"""Meshes with more are drawn with the normals of their faces: that they are smooth costs too much time."""


def shape_primitives(shape: Shape, segments: int = DEFAULT_SEGMENTS) -> list[GltfPrimitive]:
    """Tessellated shape in the link frame, one primitive per material; empty if a mesh cannot be read.

    `segments` is the number of segments of a circle.
    """
    try:
        with np.errstate(all="ignore"):
            return _tessellate_with_materials(shape, segments)
    except (GeometryError, MeshError):
        return []


def merge_primitives(primitives: Sequence[GltfPrimitive]) -> list[GltfPrimitive]:
    """Merge primitives of equal materials that have neither texture coordinates nor vertex colours."""
    result: list[GltfPrimitive] = []
    kinds: dict[str, list[GltfPrimitive]] = {}
    for part in primitives:
        if part.texture_coordinates is not None or part.colors is not None:
            result.append(part)
        else:
            said = (
                {} if part.material is None else {f.name: getattr(part.material, f.name) for f in fields(PbrMaterial)}
            )
            kinds.setdefault(repr((said | {"name": ""}, part.is_closed, part.is_lit)), []).append(part)
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


def simplify_primitive(primitive: GltfPrimitive, fraction: float) -> GltfPrimitive:
    """Simplify a primitive to a fraction of its triangles, unless it has texture coordinates or colours."""
    wanted = max(round(fraction * len(primitive.faces)), _MIN_TRIANGLES)
    if primitive.texture_coordinates is not None or primitive.colors is not None or wanted >= len(primitive.faces):
        return primitive
    few = simplify_mesh(MeshData(primitive.positions, primitive.faces), wanted)
    normals = _corner_normals(few, Appearance(), True, _CREASE_ANGLE)
    made = _primitive_of_material(few, normals, Appearance(), primitive.material, np.arange(few.n_faces), Pose())
    return replace(made, is_closed=primitive.is_closed, is_lit=primitive.is_lit)


def shape_triangles(shape: Shape) -> MeshData | None:
    """Triangles of a shape in its own frame; None if a mesh cannot be read or is empty."""
    try:
        mesh = tessellate(shape.geometry)
    except (GeometryError, MeshError):
        return None
    return mesh if mesh is not None and mesh.n_faces and np.isfinite(mesh.vertices).all() else None


def is_infinite_plane(shape: Shape) -> bool:
    """Whether a shape is an infinite plane, which is drawn as the floor."""
    return isinstance(shape.geometry, Plane) and shape.geometry.size is None


def _tessellate_with_materials(shape: Shape, segments: int) -> list[GltfPrimitive]:
    if isinstance(shape.geometry, Mesh):
        dressed = load_textured_mesh(shape.geometry)
        if dressed is None:
            return []
        scale = np.diag(shape.geometry.scale)
        mesh = apply_affine(dressed.mesh, scale)
        appearance = effective_appearance(shape, dressed).transformed(scale)
    else:
        mesh = tessellate(shape.geometry, segments)
        appearance = Appearance(materials=() if shape.material is None else (shape.material,))
    if mesh is None or not mesh.n_faces or not np.isfinite(mesh.vertices).all():
        return []
    smooth = not isinstance(shape.geometry, HeightField) or mesh.n_faces < _MAX_SMOOTH_CORNERS
    round_off = 0.0 if isinstance(shape.geometry, Mesh) else 1.2 * 2 * math.pi / segments
    normals = _corner_normals(mesh, appearance, smooth, max(_CREASE_ANGLE, round_off))
    groups = appearance.faces_by_material(mesh.n_faces)
    closed = not isinstance(shape.geometry, Mesh | Plane | HeightField)
    parts = [_primitive_of_material(mesh, normals, appearance, look, faces, shape.pose) for look, faces in groups]
    return [replace(part, is_closed=closed) for part in parts]


def _primitive_of_material(
    mesh: MeshData, normals: Array, appearance: Appearance, material: PbrMaterial | None, faces: np.ndarray, pose: Pose
) -> GltfPrimitive:
    """Primitive of the faces of one material; face corners with equal attributes are merged to one vertex."""
    columns = [pose.apply(mesh.triangles()[faces].reshape(-1, 3)), normals[faces].reshape(-1, 3) @ pose.rotation.T]
    own = appearance.select_faces(faces)
    laid = _mapped_texture_coordinates(own.texture_coordinates, material)
    if laid is not None:
        columns.append(laid.reshape(-1, 2))
    if own.colors is not None:
        columns.append(own.colors.expanded().reshape(-1, 4))
    rows = np.ascontiguousarray(np.concatenate(columns, axis=1).astype(np.float32))
    keys = rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).ravel()
    _, first, corners = np.unique(keys, return_index=True, return_inverse=True)
    parts = np.split(rows[first].astype(np.float64), np.cumsum([c.shape[1] for c in columns])[:-1], axis=1)
    return GltfPrimitive(
        positions=parts[0],
        normals=parts[1],
        faces=corners.reshape(-1, 3),
        material=material,
        texture_coordinates=parts[2] if laid is not None else None,
        colors=parts[-1] if own.colors is not None else None,
    )


def _mapped_texture_coordinates(
    texcoord_sets: tuple[CornerAttribute, ...], material: PbrMaterial | None
) -> Array | None:
    """Texture coordinates of all face corners, (faces, 3, 2), transformed by the material's texture mapping."""
    if not texcoord_sets or material is None or not material.image_references:
        return None
    placement = material.texture_mapping
    values = texcoord_sets[min(placement.texcoord_set, len(texcoord_sets) - 1)].expanded()
    cosine, sine = math.cos(placement.rotation), math.sin(placement.rotation)
    turn = np.array([[cosine, -sine], [sine, cosine]])
    return (values * placement.scale) @ turn.T + placement.offset


def _corner_normals(mesh: MeshData, appearance: Appearance, smooth: bool, crease_angle: float) -> Array:
    """Unit normals of face corners, (faces, 3, 3): those of the file, or smoothed below a crease angle."""
    if appearance.normals is not None and len(appearance.normals.indices) == mesh.n_faces:
        return appearance.normals.expanded()
    a, b, c = (mesh.triangles()[:, i] for i in range(3))
    flat = _normalize(np.cross(b - a, c - a))
    if not smooth or 3 * mesh.n_faces > _MAX_SMOOTH_CORNERS:
        return np.repeat(flat[:, None], 3, axis=1)
    return _smooth_normals(mesh, flat, crease_angle)


def _smooth_normals(mesh: MeshData, face_normals: Array, crease_angle: float) -> Array:
    """Angle-weighted vertex normals, averaged over adjacent faces that are not separated by a crease edge.

    Weighting by the corner angle makes the result independent of the triangulation.
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
    counted = np.einsum("ij,ij->i", face_normals[one], face_normals[two]) > math.cos(crease_angle)
    weights = counted * _corner_angles(mesh).ravel()[order][neighbour]
    sums = np.add.reduceat(face_normals[two] * weights[:, None], ends - others, axis=0)
    result = np.zeros((3 * mesh.n_faces, 3))
    result[order] = sums
    lost = np.linalg.norm(result, axis=1) < 1e-300
    result[lost] = np.repeat(face_normals, 3, axis=0)[lost]
    return _normalize(result).reshape(-1, 3, 3)


def _corner_angles(mesh: MeshData) -> Array:
    """Angle of each face at each of its corners [rad], (faces, 3)."""
    corners = mesh.triangles()
    ahead, back = (_normalize(np.roll(corners, shift, axis=1) - corners) for shift in (-1, 1))
    return np.arccos(np.clip(np.einsum("ijk,ijk->ij", ahead, back), -1.0, 1.0))


def _normalize(vectors: Array) -> Array:
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.where(lengths > 0, vectors / np.where(lengths > 0, lengths, 1.0), [0.0, 0.0, 1.0])
