"""glTF 2.0 reader (.gltf, .glb): accessors, scene nodes, primitives, materials and images.

glTF is in metres with +Y up. Coordinates are returned unrotated and `up_axis` is "Y_UP"; applying the up axis is left
to the robot format that references the file. Accessors, buffer views and buffers are checked against the data present
before they are read.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np

from ..appearance import (
    Appearance,
    CornerAttribute,
    MapRole,
    PbrMaterial,
    Texture,
    TextureMapping,
    WrapMode,
    merge_appearances,
    normalize_normals,
    to_rgba,
    validated_corner_attribute,
)
from ..mesh import FloatArray, IntArray, MeshData, MeshError, MeshLimits, merge_meshes
from .image_files import find_image_file
from .loaded_mesh import (
    LoadedMesh,
    MeshSource,
    SceneFlattener,
    checked_mesh,
    quaternion_matrix,
    scale_matrix,
    translation_matrix,
)
from .parsing import require_bytes, to_float64, triangulate_polygons, triangulate_strips

# Accessors ------------------------------------------------------------------------------------------------------------

_COMPONENT_DTYPES = {5120: "<i1", 5121: "<u1", 5122: "<i2", 5123: "<u2", 5125: "<u4", 5126: "<f4"}
_MAX_ATTRIBUTES_PER_VERTEX = 8
"""Limit on attribute elements read in total, per allowed vertex."""
_TYPE_WIDTHS = {"SCALAR": 1, "VEC2": 2, "VEC3": 3, "VEC4": 4}


class AccessorReader:
    """Reads accessor data with checks against limits; buffers are loaded on first use."""

    def __init__(self, document: dict[str, Any], binary: bytes | None, source: MeshSource) -> None:
        """Prepare reading from the JSON `document` and the `binary` chunk of a .glb; nothing is read yet."""
        self._document = document
        self._binary = binary
        self._source = source
        self._buffers: dict[int, bytes] = {}
        # Many primitives may read the same bytes, so the totals are bounded too.
        self._n_vertices = 0
        self._n_corners = 0
        self._n_attributes = 0
        self._attributes: dict[int, FloatArray] = {}
        self._bytes_left = source.limits.file_bytes - len(source.data)

    def read_positions(self, accessor_index: int) -> FloatArray:
        """Vertex positions of an accessor as float64, shape (n, 3); counts towards the vertex limit."""
        accessor = document_item(self._document, "accessors", accessor_index)
        self._n_vertices += _require_natural_number(accessor.get("count"))
        self._check_counts()
        return self._read_floats(accessor, "VEC3")

    def read_attribute(self, accessor_index: object, n_vertices: int) -> FloatArray:
        """Vertex attribute of an accessor as float64, shape (n_vertices, width); cached per accessor.

        Raises `MeshError` if type or count do not match, or if the total exceeds the limits.
        """
        accessor = document_item(self._document, "accessors", accessor_index)
        accessor_type = accessor.get("type")
        if accessor_type not in _TYPE_WIDTHS or _require_natural_number(accessor.get("count")) != n_vertices:
            raise MeshError("A glTF attribute does not fit its positions.")
        assert isinstance(accessor_index, int)
        if accessor_index not in self._attributes:
            self._n_attributes += n_vertices
            self._source.limits.check_counts(self._n_attributes // _MAX_ATTRIBUTES_PER_VERTEX, 0)
            self._attributes[accessor_index] = self._read_floats(accessor, accessor_type)
        return self._attributes[accessor_index]

    def _read_floats(self, accessor: dict[str, Any], accessor_type: str) -> FloatArray:
        """Accessor values as float64, shape (count, width); normalised integers are mapped to [0, 1] or [-1, 1]."""
        raw = self._read_accessor(accessor, accessor_type)
        values = to_float64(raw)
        if accessor.get("normalized") and raw.dtype.kind in "iu":
            # a signed type maps both -max and -max - 1 to -1
            values = np.maximum(values / np.iinfo(raw.dtype).max, -1.0)
        return values

    def read_buffer_view(self, index: object) -> bytes:
        """Raw bytes of a buffer view (an embedded image)."""
        view = document_item(self._document, "bufferViews", index)
        assert isinstance(index, int)
        data, _ = self._buffer_view(index, 1) if "byteStride" not in view else (memoryview(b""), 1)
        return bytes(data)

    def read_indices(self, accessor_index: int | None, n_vertices: int) -> IntArray:
        """Vertex indices of an accessor as int64, shape (n,); without accessor, 0 to n_vertices - 1."""
        if accessor_index is None:
            self._n_corners += n_vertices
            self._check_counts()
            return np.arange(n_vertices)
        accessor = document_item(self._document, "accessors", accessor_index)
        self._n_corners += _require_natural_number(accessor.get("count"))
        self._check_counts()
        raw = self._read_accessor(accessor, "SCALAR")
        if raw.dtype.kind != "u":
            raise MeshError("The glTF indices are not unsigned integers.")
        return raw.reshape(-1).astype(np.int64)

    def _check_counts(self) -> None:
        self._source.limits.check_counts(self._n_vertices, self._n_corners // 3)

    def _read_accessor(self, accessor: dict[str, Any], accessor_type: str) -> np.ndarray:
        """Values of an accessor of type `accessor_type` as a strided view into its buffer, shape (count, width)."""
        if accessor.get("type") != accessor_type or accessor.get("componentType") not in _COMPONENT_DTYPES:
            raise MeshError(f"A glTF accessor is not of type {accessor_type}.")
        if "sparse" in accessor or "bufferView" not in accessor:
            raise MeshError("The glTF uses sparse accessors, which are not supported.")
        count = _require_natural_number(accessor.get("count"))
        dtype = np.dtype(_COMPONENT_DTYPES[accessor["componentType"]])
        width = _TYPE_WIDTHS[accessor_type]
        view, stride = self._buffer_view(accessor["bufferView"], dtype.itemsize * width)
        start = _require_natural_number(accessor.get("byteOffset", 0))
        needed = start + (count - 1) * stride + dtype.itemsize * width if count else 0
        require_bytes(needed, len(view), f"a glTF accessor of {count} items")
        return np.ndarray((count, width), dtype, view, start, (stride, dtype.itemsize))

    def _buffer_view(self, index: int, item_bytes: int) -> tuple[memoryview, int]:
        """Bytes of a glTF buffer view and its stride [bytes]: `byteStride`, or by default `item_bytes` (packed)."""
        view = document_item(self._document, "bufferViews", index)
        stride = _require_natural_number(view.get("byteStride", item_bytes))
        if stride < item_bytes:
            raise MeshError("A glTF buffer view has items that overlap.")
        start, length = (
            _require_natural_number(view.get("byteOffset", 0)),
            _require_natural_number(view.get("byteLength")),
        )
        data = self._buffer(view.get("buffer"))
        require_bytes(start + length, len(data), "a glTF buffer view")
        return memoryview(data)[start : start + length], stride

    def _buffer(self, index: object) -> bytes:
        """Content of a buffer, loaded on first use and checked against its declared length."""
        buffer = document_item(self._document, "buffers", index)
        assert isinstance(index, int)
        if index not in self._buffers:
            data = self._load_buffer(buffer.get("uri"))
            require_bytes(_require_natural_number(buffer.get("byteLength")), len(data), "a glTF buffer")
            self._buffers[index] = data
        return self._buffers[index]

    def _load_buffer(self, uri: object) -> bytes:
        """Content of the buffer at `uri`; the binary chunk of a .glb if `uri` is None."""
        if uri is None:
            if self._binary is None:
                raise MeshError("The glTF refers to a binary chunk that does not exist.")
            return self._binary
        if not isinstance(uri, str):
            raise MeshError("A glTF buffer has an invalid URI.")
        return self.resolve_uri(uri)

    def resolve_uri(self, uri: str) -> bytes:
        """Content of a URI: embedded base64 data, or a file in the folder of the glTF."""
        if uri.startswith("data:"):
            return _decode_data_uri(uri)
        return self._read_sibling_file(uri)

    def _read_sibling_file(self, uri: str) -> bytes:
        """Content of a file at or below the folder of the glTF, within the total size limit; `MeshError` otherwise."""
        if self._source.folder is None or ":" in uri:
            raise MeshError(f"The glTF buffer '{uri[:80]}' is outside the file and is not opened.")
        folder = self._source.folder.resolve()
        path = (folder / unquote(uri)).resolve()
        if not path.is_relative_to(folder) or not path.is_file():
            raise MeshError(f"The glTF buffer '{uri[:80]}' is not a file beside the glTF.")
        return self._read_within_limit(path)

    def _read_within_limit(self, path: Path) -> bytes:
        with path.open("rb") as file:
            data = file.read(max(self._bytes_left, 0) + 1)
        self._bytes_left -= len(data)
        if self._bytes_left < 0:
            raise MeshError(f"The glTF with its buffers is larger than {self._source.limits.file_bytes} bytes.")
        return data


def document_item(document: dict[str, Any], collection: str, index: object) -> dict[str, Any]:
    """`document[collection][index]`; `MeshError` if there is no such object."""
    items = document.get(collection, [])
    if not isinstance(index, int) or not 0 <= index < len(items) or not isinstance(items[index], dict):
        raise MeshError(f"The glTF refers to {collection}[{index!r:.40}], which does not exist.")
    return items[index]


def _require_natural_number(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise MeshError(f"The glTF has {value!r:.40} where a count or an offset should be.")
    return value


def _decode_data_uri(uri: str) -> bytes:
    """Decode a base64 data URI; `MeshError` if malformed."""
    head, _, payload = uri.partition(",")
    if not head.endswith(";base64"):
        raise MeshError("A glTF data URI is not base64 encoded.")
    try:
        return base64.b64decode(payload, validate=True)
    except binascii.Error:
        raise MeshError("A glTF buffer is not valid base64.") from None


# Materials and attributes ---------------------------------------------------------------------------------------------

_WRAP_MODES = {33071: WrapMode.CLAMP, 33648: WrapMode.MIRROR, 10497: WrapMode.REPEAT}
_MAX_TEXCOORD_SETS = 8
_SUPPORTED_MATERIAL_EXTENSIONS = {
    "KHR_materials_clearcoat",
    "KHR_materials_emissive_strength",
    "KHR_materials_unlit",
    "KHR_materials_specular",
}


class GltfAppearanceReader:
    """Reads attributes and materials of glTF primitives; materials are converted on first use."""

    def __init__(
        self,
        document: dict[str, Any],
        accessors: AccessorReader,
        source: MeshSource,
        note: Callable[[str], object],
    ) -> None:
        """Prepare reading from the JSON `document`; `note` is called with a sentence for each omission."""
        self._document = document
        self._accessors = accessors
        self._source = source
        self._note = note
        self._materials: dict[int, PbrMaterial] = {}

    def read_appearance(self, primitive: Mapping[str, Any], mesh: MeshData) -> Appearance:
        """Normals, texture coordinates, vertex colours and material of a primitive as an appearance.

        `mesh` is the mesh of this primitive only. Texture coordinates are flipped to v upwards.
        """
        attributes = primitive["attributes"]
        normals = self._corner_attribute(attributes.get("NORMAL"), mesh, 3)
        sets = [self._corner_attribute(attributes.get(f"TEXCOORD_{i}"), mesh, 2) for i in range(_MAX_TEXCOORD_SETS)]
        n_sets = next((i for i, texcoords in enumerate(sets) if texcoords is None), _MAX_TEXCOORD_SETS)
        colors = self._corner_attribute(attributes.get("COLOR_0"), mesh, 3)
        return Appearance(
            normals=normalize_normals(normals),
            texture_coordinates=tuple(_flip_v(texcoords) for texcoords in sets[:n_sets] if texcoords is not None),
            colors=None if colors is None else CornerAttribute(to_rgba(colors.values), colors.indices),
            materials=(self._material(primitive["material"]),) if "material" in primitive else (),
        )

    def _corner_attribute(self, accessor: object, mesh: MeshData, width: int) -> CornerAttribute | None:
        """Corner attribute of a vertex accessor with `width` columns; None if missing or invalid, with a note.

        For a `width` of 3, all columns of the accessor are kept (RGBA colours).
        """
        if accessor is None:
            return None
        try:
            values = self._accessors.read_attribute(accessor, mesh.n_vertices)
        except MeshError as error:
            self._note(f"A vertex attribute was omitted: {error.reason}")
            return None
        # colours may have an alpha channel
        return validated_corner_attribute(values, mesh.faces, max(width, values.shape[1]) if width == 3 else width)

    # Materials -------------------------------------------------------------------------------------------------------

    def _material(self, index: object) -> PbrMaterial:
        definition = document_item(self._document, "materials", index)
        assert isinstance(index, int)
        if index not in self._materials:
            self._materials[index] = self._read_material(definition, index)
        return self._materials[index]

    def _read_material(self, definition: Mapping[str, Any], index: int) -> PbrMaterial:
        """Convert a glTF material (metallic-roughness and supported extensions) to a `PbrMaterial`.

        Unsupported material extensions are noted.
        """
        pbr = _as_mapping(definition.get("pbrMetallicRoughness"))
        extensions = _as_mapping(definition.get("extensions"))
        material = PbrMaterial(
            name=str(definition.get("name", "")) or f"material_{index}",
            color=_floats_or_default(pbr.get("baseColorFactor"), (1.0, 1.0, 1.0, 1.0)),  # type: ignore[arg-type]
            metallic=_float_or_default(pbr.get("metallicFactor"), 1.0),
            roughness=_float_or_default(pbr.get("roughnessFactor"), 1.0),
            double_sided=bool(definition.get("doubleSided", False)),
        )
        alpha_mode = definition.get("alphaMode", "OPAQUE")
        if alpha_mode == "MASK":
            material.opacity_threshold = _float_or_default(definition.get("alphaCutoff"), 0.5)
        elif alpha_mode != "BLEND" and material.color is not None:
            material.color = (*material.color[:3], 1.0)  # alpha is ignored for opaque materials
        if texture := self._read_texture(pbr.get("baseColorTexture")):
            material.texture, material.texture_mapping = texture.file, texture.mapping
            if alpha_mode in ("MASK", "BLEND"):
                material.maps[MapRole.OPACITY] = Texture(file=texture.file, channel="a", mapping=texture.mapping)
        self._read_texture_maps(definition, pbr, material)
        self._read_emission(definition, extensions, material)
        self._read_clearcoat(_as_mapping(extensions.get("KHR_materials_clearcoat")), material)
        material.specular = _float_or_none(_as_mapping(extensions.get("KHR_materials_specular")).get("specularFactor"))
        for name in sorted(set(extensions) - _SUPPORTED_MATERIAL_EXTENSIONS):
            self._note(f"The extension {name[:60]} of a material was skipped.")
        return material

    def _read_texture_maps(
        self, definition: Mapping[str, Any], metallic_roughness: Mapping[str, Any], material: PbrMaterial
    ) -> None:
        """Add metallic, roughness, normal, occlusion and emission maps to `material`."""
        sources = (
            (MapRole.METALLIC, metallic_roughness.get("metallicRoughnessTexture"), "b", ""),
            (MapRole.ROUGHNESS, metallic_roughness.get("metallicRoughnessTexture"), "g", ""),
            (MapRole.NORMAL, definition.get("normalTexture"), "", "scale"),
            (MapRole.OCCLUSION, definition.get("occlusionTexture"), "r", "strength"),
            (MapRole.EMISSION, definition.get("emissiveTexture"), "", ""),
        )
        for role, reference, channel, strength_key in sources:
            if texture := self._read_texture(reference):
                strength = _float_or_default(_as_mapping(reference).get(strength_key), 1.0)
                material.maps[role] = Texture(
                    file=texture.file, channel=channel, strength=strength, mapping=texture.mapping
                )

    def _read_emission(
        self, definition: Mapping[str, Any], extensions: Mapping[str, Any], material: PbrMaterial
    ) -> None:
        """Set the emission of `material`: emissive factor times `KHR_materials_emissive_strength`."""
        factor = _floats_or_default(definition.get("emissiveFactor"), (0.0, 0.0, 0.0))
        strength = _float_or_default(
            _as_mapping(extensions.get("KHR_materials_emissive_strength")).get("emissiveStrength"), 1.0
        )
        if any(factor):
            red, green, blue = (strength * value for value in factor)
            material.emission = (red, green, blue)
        else:
            material.maps.pop(MapRole.EMISSION, None)  # a zero factor cancels the map

    def _read_clearcoat(self, definition: Mapping[str, Any], material: PbrMaterial) -> None:
        """Set clearcoat, clearcoat roughness and clearcoat map of `material` from `KHR_materials_clearcoat`."""
        if not definition:
            return
        material.clearcoat = _float_or_default(definition.get("clearcoatFactor"), 0.0)
        material.clearcoat_roughness = _float_or_default(definition.get("clearcoatRoughnessFactor"), 0.0)
        if texture := self._read_texture(definition.get("clearcoatTexture")):
            material.maps[MapRole.CLEARCOAT] = Texture(file=texture.file, channel="r", mapping=texture.mapping)

    # Images ----------------------------------------------------------------------------------------------------------

    def _read_texture(self, reference: object) -> Texture | None:
        """Texture of a glTF textureInfo object: image and mapping; None, with a message, if it is not found."""
        if not isinstance(reference, dict):
            return None
        texture = document_item(self._document, "textures", reference.get("index"))
        webp = _as_mapping(_as_mapping(texture.get("extensions")).get("EXT_texture_webp"))
        image_index = texture.get("source", webp.get("source"))
        image = document_item(self._document, "images", image_index)
        file = self._image_reference(image, image_index)
        if not file:
            self._note(f"The image '{str(image.get('uri', image_index))[:80]}' was not found.")
            return None
        sampler = texture.get("sampler")
        sampler_definition = document_item(self._document, "samplers", sampler) if sampler is not None else {}
        return Texture(file=file, mapping=_texture_mapping(reference, sampler_definition))

    def _image_reference(self, image: Mapping[str, Any], index: object) -> str:
        """Path of an external image, or `file[index]` of an embedded one; empty if not available."""
        uri = image.get("uri")
        if isinstance(uri, str) and not uri.startswith("data:"):
            return find_image_file(self._source.folder, uri)
        return f"{self._source.file_name}[{index}]" if self._source.file_name else ""


def _texture_mapping(reference: Mapping[str, Any], sampler: Mapping[str, Any]) -> TextureMapping:
    """Texture mapping of a textureInfo with `KHR_texture_transform` and sampler, converted to v upwards.

    glTF has v downwards; with `v_up = 1 - v`, scale, rotation and offset are changed accordingly.
    """
    wrap = (_wrap_mode(sampler.get("wrapS")), _wrap_mode(sampler.get("wrapT")))
    texcoord_set = reference.get("texCoord", 0)
    transform = _as_mapping(_as_mapping(reference.get("extensions")).get("KHR_texture_transform"))
    texcoord_set = transform.get("texCoord", texcoord_set)
    u_scale, v_scale = _floats_or_default(transform.get("scale"), (1.0, 1.0))
    u_offset, v_offset = _floats_or_default(transform.get("offset"), (0.0, 0.0))
    rotation = _float_or_default(transform.get("rotation"), 0.0)
    # (u, w) -> R S (u, w) + offset with w = 1 - v and R = [[c, s], [-s, c]], which is clockwise in (u, w) and
    # counter-clockwise in (u, v)
    cosine, sine = math.cos(rotation), math.sin(rotation)
    offset = (u_offset + sine * v_scale, 1.0 - v_offset - cosine * v_scale)
    return TextureMapping(
        wrap=wrap,
        scale=(u_scale, v_scale),
        offset=(_snap_to_zero(offset[0]), _snap_to_zero(offset[1])),
        rotation=rotation,
        texcoord_set=texcoord_set if isinstance(texcoord_set, int) and 0 <= texcoord_set < _MAX_TEXCOORD_SETS else 0,
    )


def _snap_to_zero(value: float) -> float:
    return 0.0 if abs(value) < 1e-15 else value


def _wrap_mode(value: object) -> WrapMode:
    return _WRAP_MODES.get(value, WrapMode.REPEAT) if isinstance(value, int) else WrapMode.REPEAT


def _flip_v(coordinates: CornerAttribute) -> CornerAttribute:
    flipped: FloatArray = coordinates.values.copy()
    flipped[:, 1] = 1.0 - flipped[:, 1]
    return CornerAttribute(flipped, coordinates.indices)


def _as_mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _float_or_default(value: object, default: float) -> float:
    found = _float_or_none(value)
    return default if found is None else found


def _float_or_none(value: object) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if is_number else None  # type: ignore[arg-type]


def _floats_or_default(value: object, default: tuple[float, ...]) -> tuple[float, ...]:
    """Tuple of floats from a JSON list of the right length, invalid items and lists replaced by `default`."""
    if not isinstance(value, list) or len(value) != len(default):
        return default
    return tuple(_float_or_default(item, item_default) for item, item_default in zip(value, default, strict=True))


# Document -------------------------------------------------------------------------------------------------------------

_MODE_TRIANGLES, _MODE_STRIP, _MODE_FAN = 4, 5, 6
_SUPPORTED_EXTENSIONS = {"KHR_mesh_quantization", "KHR_texture_transform", "KHR_materials_unlit"}
_GLB_MAGIC, _JSON_CHUNK, _BINARY_CHUNK = b"glTF", b"JSON", b"BIN\0"


def read_gltf(source: MeshSource) -> LoadedMesh:
    """Read all mesh instances of the scene of a .gltf or .glb (detected by content) as one merged mesh.

    Node and mesh names become named parts. Materials are converted if the appearance is requested. Skins, animations
    and morph targets are ignored with a note.
    """
    text, binary = _split_container(source.data)
    document = _parse_json(text, source.limits)
    _check_supported(document)
    accessors = AccessorReader(document, binary, source)
    notes: list[str] = []
    scene = SceneFlattener(source.limits)
    appearance_notes: dict[str, None] = {}
    appearance_reader = (
        GltfAppearanceReader(document, accessors, source, appearance_notes.setdefault)
        if source.with_appearance
        else None
    )
    meshes: dict[int, tuple[MeshData, Appearance | None]] = {}
    for node, pose in _mesh_instances(document, scene):
        mesh_index = node["mesh"]
        mesh = document_item(document, "meshes", mesh_index)
        if mesh_index not in meshes:
            meshes[mesh_index] = _read_mesh(mesh, accessors, notes, appearance_reader)
        data, appearance = meshes[mesh_index]
        scene.add_instance(data, pose, [str(item.get("name", "")) for item in (node, mesh)], appearance)
    if document.get("skins") or document.get("animations"):
        notes.append("Skins and animations were ignored.")
    return LoadedMesh(
        scene.merged_mesh(),
        up_axis="Y_UP",
        notes=tuple(dict.fromkeys(notes)),
        parts=scene.parts,
        appearance=None if appearance_reader is None else scene.merged_appearance(),
        appearance_notes=tuple(appearance_notes),
    )


def read_gltf_image(data: bytes, index: int, folder: Path | None) -> bytes:
    """Encoded bytes of the image with the given index of a .gltf or .glb, embedded or beside the file in `folder`."""
    text, binary = _split_container(data)
    source = MeshSource(data, MeshLimits(), folder)
    document = _parse_json(text, source.limits)
    image = document_item(document, "images", index)
    accessors = AccessorReader(document, binary, source)
    uri = image.get("uri")
    return accessors.resolve_uri(uri) if isinstance(uri, str) else accessors.read_buffer_view(image.get("bufferView"))


def _split_container(data: bytes) -> tuple[bytes, bytes | None]:
    """Split a .glb into JSON text and binary chunk; other data is returned as text without binary chunk."""
    if not data.startswith(_GLB_MAGIC):
        return data, None
    if len(data) < 20 or int.from_bytes(data[4:8], "little") != 2:
        raise MeshError("The file is not a glTF 2.0 binary.")
    require_bytes(int.from_bytes(data[8:12], "little"), len(data), "the glTF binary")
    chunks: dict[bytes, bytes] = {}
    position = 12
    while position + 8 <= len(data):
        length = int.from_bytes(data[position : position + 4], "little")
        require_bytes(length, len(data) - position - 8, "a chunk of the glTF binary")
        chunks.setdefault(data[position + 4 : position + 8], data[position + 8 : position + 8 + length])
        position += 8 + length
    if _JSON_CHUNK not in chunks:
        raise MeshError("The glTF binary has no JSON chunk.")
    return chunks[_JSON_CHUNK], chunks.get(_BINARY_CHUNK)


def _parse_json(text: bytes, limits: MeshLimits) -> dict[str, Any]:
    # Estimate of the number of values by delimiters, which base64 data does not contain.
    """Parse and check the JSON document; the number of values is bounded before parsing. `MeshError` if invalid."""
    n_values = text.count(b",") + text.count(b"[") + text.count(b"{")
    if n_values > limits.markup_items:
        raise MeshError(f"The glTF has {n_values} JSON values, more than the {limits.markup_items} allowed.")
    try:
        document = json.loads(text.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        raise MeshError("The file is not valid JSON, so it is not a glTF mesh.") from None
    if not isinstance(document, dict) or not isinstance(document.get("asset"), dict):
        raise MeshError("The JSON does not describe a glTF asset.")
    return document


def _check_supported(document: dict[str, Any]) -> None:
    """Raise `MeshError` unless the version is 2.x and all required extensions that affect geometry are supported."""
    version = str(document["asset"].get("version"))
    if not version.startswith("2."):
        raise MeshError(f"The file is glTF {version}; only glTF 2 can be read.")
    unknown = sorted(set(document.get("extensionsRequired", [])) - _SUPPORTED_EXTENSIONS)
    # Unknown material and texture extensions are harmless; others, such as compression, affect the geometry.
    needed = [name for name in unknown if not name.startswith(("KHR_materials_", "KHR_texture_", "EXT_texture_"))]
    if needed:
        raise MeshError(f"The glTF requires the extension {needed[0]}, which is not supported.")


# Scene ----------------------------------------------------------------------------------------------------------------


def _mesh_instances(document: dict[str, Any], scene: SceneFlattener) -> list[tuple[dict[str, Any], FloatArray]]:
    """All nodes with a mesh and their world transforms (4, 4), depth first in file order."""
    instances: list[tuple[dict[str, Any], FloatArray]] = []
    visited: set[int] = set()
    pending = [(index, np.eye(4), 1) for index in reversed(_root_nodes(document))]
    while pending:
        index, parent_pose, depth = pending.pop()
        node = document_item(document, "nodes", index)
        if index in visited:
            raise MeshError(f"The glTF node {index} has two parents, or is its own ancestor.")
        visited.add(index)
        scene.count_node(depth)
        pose = parent_pose @ _node_transform(node)
        if "mesh" in node:
            instances.append((node, pose))
        pending += [(child, pose, depth + 1) for child in reversed(node.get("children", []))]
    return instances


def _root_nodes(document: dict[str, Any]) -> list[int]:
    """Root node indices of the default scene, or all nodes without parent if there are no scenes."""
    if document.get("scenes"):
        return list(document_item(document, "scenes", document.get("scene", 0)).get("nodes", []))
    nodes = document.get("nodes", [])
    children = {child for node in nodes for child in node.get("children", [])}
    return [index for index in range(len(nodes)) if index not in children]


def _node_transform(node: dict[str, Any]) -> FloatArray:
    """Local transform of a node, shape (4, 4), from its matrix or translation, rotation and scale."""
    if "matrix" in node:
        return np.array(node["matrix"], dtype=np.float64).reshape(4, 4).T
    *vector, scalar = np.array(node.get("rotation", [0, 0, 0, 1]), dtype=np.float64).reshape(4)
    translation = translation_matrix(np.array(node.get("translation", [0, 0, 0]), dtype=np.float64).reshape(3))
    scale = scale_matrix(np.array(node.get("scale", [1, 1, 1]), dtype=np.float64).reshape(3))
    return translation @ quaternion_matrix(np.array(vector), float(scalar)) @ scale


# Geometry -------------------------------------------------------------------------------------------------------------


def _read_mesh(
    mesh: dict[str, Any], accessors: AccessorReader, notes: list[str], appearance_reader: GltfAppearanceReader | None
) -> tuple[MeshData, Appearance | None]:
    # Primitives that differ only in material share their vertices: one block per position accessor.
    """Triangles and appearance of all primitives of a glTF mesh, merged.

    Primitives that share a position accessor share their vertices. Points, lines and morph targets are noted and
    skipped.
    """
    blocks: dict[int, FloatArray] = {}
    faces: dict[int, list[IntArray]] = {}
    textured_parts: dict[int, list[tuple[MeshData, Appearance | None]]] = {}
    for primitive in mesh["primitives"]:
        mode = primitive.get("mode", _MODE_TRIANGLES)
        if mode not in (_MODE_TRIANGLES, _MODE_STRIP, _MODE_FAN):
            notes.append("Points and lines were skipped.")
            continue
        if primitive.get("targets"):
            notes.append("Morph targets were ignored.")
        accessor = primitive["attributes"]["POSITION"]
        if accessor not in blocks:
            blocks[accessor] = accessors.read_positions(accessor)
        corners = accessors.read_indices(primitive.get("indices"), len(blocks[accessor]))
        faces.setdefault(accessor, []).append(_triangulate_primitive(corners, mode))
        if appearance_reader is not None:
            part = checked_mesh(blocks[accessor], faces[accessor][-1])
            textured_parts.setdefault(accessor, []).append((part, appearance_reader.read_appearance(primitive, part)))
    merged = merge_meshes(
        [checked_mesh(vertices, np.concatenate(faces[accessor])) for accessor, vertices in blocks.items()]
    )
    parts = [part for accessor in blocks for part in textured_parts.get(accessor, [])]
    return merged, merge_appearances(parts) if parts else None


def _triangulate_primitive(corners: IntArray, mode: int) -> IntArray:
    """Triangles (k, 3) of corner indices in mode triangles, triangle strip or triangle fan."""
    counts = np.array([len(corners)])
    if mode == _MODE_STRIP:
        return triangulate_strips(corners, counts)
    if mode == _MODE_FAN:
        return triangulate_polygons(corners, counts)
    if len(corners) % 3:
        raise MeshError(f"The glTF lists {len(corners)} triangle corners, which is not a multiple of three.")
    return corners.reshape(-1, 3)
