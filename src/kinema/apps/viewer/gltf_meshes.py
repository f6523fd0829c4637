"""Shapes as glTF binary meshes: tessellation, smooth normals, simplification, materials and textures."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from kinema.core import Array, Pose
from kinema.description import (
    Box,
    HeightField,
    Mesh,
    Plane,
    Shape,
    effective_appearance,
    load_textured_mesh,
    tessellate,
)
from kinema.geometry import (
    DEFAULT_SEGMENTS,
    GLTF_IMAGE_TYPES,
    Appearance,
    CornerAttribute,
    GeometryError,
    GlbBuilder,
    GltfMaterials,
    MapRole,
    MeshData,
    MeshError,
    PbrMaterial,
    TextureMapping,
    apply_affine,
    simplify_mesh,
)
from kinema.tokens import mjcf

# -------------------------------------------------------------------------------------------------------- glTF encoding

_DEFAULT_COLOR = (0.72, 0.74, 0.77, 1.0)
"""Colour of surfaces without material."""
_DRAWN_MAPS = (MapRole.NORMAL, MapRole.EMISSION, MapRole.METALLIC, MapRole.ROUGHNESS)


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


def encode_glb(primitives: Sequence[GltfPrimitive]) -> bytes:
    """Binary glTF (GLB) file of primitives."""
    return encode_glb_nodes({"": primitives})


def encode_glb_nodes(nodes: Mapping[str, Sequence[GltfPrimitive]]) -> bytes:
    """Binary glTF (GLB) file of nodes by name, each with a mesh of primitives."""
    file = GlbBuilder()
    materials = GltfMaterials(file, [], 1, {**GLTF_IMAGE_TYPES, ".webp": "image/webp"})
    file.set_scene(
        {
            name: [_encode_primitive(file, materials, part) for part in primitives if len(part.faces)]
            for name, primitives in nodes.items()
        }
    )
    return b"".join(file.chunks())


def _encode_primitive(file: GlbBuilder, materials: GltfMaterials, primitive: GltfPrimitive) -> dict[str, Any]:
    """JSON of a primitive; adds its accessors and material to the file."""
    attributes: dict[str, np.ndarray] = {"POSITION": primitive.positions, "NORMAL": primitive.normals}
    if primitive.texture_coordinates is not None:
        attributes["TEXCOORD_0"] = primitive.texture_coordinates * (1.0, -1.0) + (0.0, 1.0)  # glTF counts v downwards
    if primitive.colors is not None:
        attributes["COLOR_0"] = primitive.colors
    material = materials.build_material(_displayed_material(primitive))
    if not primitive.is_lit:
        file.add_extension(material, "KHR_materials_unlit", {})
    return file.make_primitive(attributes, primitive.faces.ravel(), file.add("materials", material))


def _displayed_material(primitive: GltfPrimitive) -> PbrMaterial:
    """Properties that the viewer draws, with defaults and in linear colours.

    Texture mappings are left out, because they are applied to the texture coordinates.
    """
    look = primitive.material or PbrMaterial()
    has_coordinates = primitive.texture_coordinates is not None
    painted = primitive.colors is not None or bool(look.texture)
    color = look.color or ((1.0, 1.0, 1.0, 1.0) if painted else _DEFAULT_COLOR)
    is_hidden_behind = primitive.is_closed and color[3] >= 1.0 and not look.image_references
    maps = {
        role: replace(image, mapping=TextureMapping(wrap=image.mapping.wrap))
        for role, image in look.maps.items()
        if role == MapRole.OPACITY or (has_coordinates and role in _DRAWN_MAPS)
    }
    emission = look.emission
    if MapRole.EMISSION in maps and not any(emission or ()):
        emission = (1.0, 1.0, 1.0)
    default_roughness = 1.0 if maps.keys() & {MapRole.METALLIC, MapRole.ROUGHNESS} else 0.6
    return PbrMaterial(
        color=(_srgb_to_linear(color[0]), _srgb_to_linear(color[1]), _srgb_to_linear(color[2]), color[3]),
        texture=look.texture if has_coordinates else "",
        texture_mapping=TextureMapping(wrap=look.texture_mapping.wrap),
        emission=None if emission is None else (min(emission[0], 1.0), min(emission[1], 1.0), min(emission[2], 1.0)),
        metallic=float(MapRole.METALLIC in maps) if look.metallic is None else look.metallic,
        roughness=default_roughness if look.roughness is None else look.roughness,
        opacity_threshold=look.opacity_threshold,
        double_sided=not is_hidden_behind if look.double_sided is None else look.double_sided,
        maps=maps,
    )


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


def planar_texture_coordinates(shape: Shape, points: Array) -> Array:
    """Texture coordinates (n, 2), v upwards, of points (n, 3) of a plane or box in its frame, as MuJoCo defines them.

    An image is projected along z and repeated `texrepeat` times over the shape, or per 2 m if the shape is infinite or
    the material `texuniform`.
    """
    assert isinstance(shape.geometry, Plane | Box)
    attributes = shape.material.attributes if shape.material is not None else {}
    repeat = np.array(attributes.get(mjcf.attribute_key(mjcf.TEXREPEAT)) or (1.0, 1.0))
    per_metre = shape.geometry.size is None or attributes.get(mjcf.attribute_key(mjcf.TEXUNIFORM))
    return points[:, :2] * repeat / (2.0 if per_metre else np.array(shape.geometry.size)[:2]) + 0.5


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
        if mesh is not None and isinstance(shape.geometry, Plane | Box):
            laid = CornerAttribute(planar_texture_coordinates(shape, mesh.vertices), mesh.faces)
            appearance = replace(appearance, texture_coordinates=(laid,))
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
