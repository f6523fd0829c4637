"""Writer of binary glTF 2.0 (GLB) with metallic-roughness materials and embedded images.

A glTF vertex has one normal, one colour and one texture coordinate per set, so vertices on seams are duplicated. Each
material becomes one primitive. Material properties that glTF lacks are appended to a list of losses.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ..appearance import Appearance, CornerAttribute, MapRole, PbrMaterial, Texture, TextureMapping, WrapMode
from ..mesh import MeshData, MeshError
from ..textures import channel_image_reference, convert_to_png, image_name, packed_image_reference, read_image

# -------------------------------------------------------------------------------------------------------- GLB container

_FLOAT, _UNSIGNED_INT = 5126, 5125
_ACCESSOR_TYPES = {1: "SCALAR", 2: "VEC2", 3: "VEC3", 4: "VEC4"}
_ARRAY_BUFFER, _ELEMENT_ARRAY_BUFFER = 34962, 34963


class GlbBuilder:
    """GLB file under construction: JSON document and binary buffer."""

    def __init__(self) -> None:
        self.document: dict[str, Any] = {"asset": {"version": "2.0", "generator": "Kinema"}}
        self._buffer_parts: list[bytes] = []
        self._buffer_length = 0

    def add(self, collection: str, item: dict[str, Any]) -> int:
        """Append an item to a top-level array of the document and return its index."""
        items = self.document.setdefault(collection, [])
        items.append(item)
        return len(items) - 1

    def add_buffer_view(self, data: bytes, target: int | None = None) -> int:
        """Append bytes to the buffer, padded to four bytes, and return the index of their buffer view."""
        found = {"buffer": 0, "byteOffset": self._buffer_length, "byteLength": len(data)}
        padding = b"\0" * (-len(data) % 4)
        self._buffer_parts += [data, padding]
        self._buffer_length += len(data) + len(padding)
        return self.add("bufferViews", found if target is None else {**found, "target": target})

    def add_accessor(self, values: np.ndarray, *, with_bounds: bool = False) -> int:
        """Store an array in the binary chunk and add an accessor to it; returns the index of the accessor.

        Integer arrays are vertex indices, float arrays vertex attributes. `with_bounds` adds the minimum and maximum of
        each column.
        """
        is_whole = values.dtype.kind in "iu"
        plain = np.ascontiguousarray(values, dtype=np.uint32 if is_whole else np.float32)
        accessor: dict[str, Any] = {
            "bufferView": self.add_buffer_view(plain.tobytes(), _ELEMENT_ARRAY_BUFFER if is_whole else _ARRAY_BUFFER),
            "componentType": _UNSIGNED_INT if is_whole else _FLOAT,
            "count": len(plain),
            "type": _ACCESSOR_TYPES[1 if plain.ndim == 1 else plain.shape[1]],
        }
        if with_bounds:
            accessor |= {"min": plain.min(axis=0).tolist(), "max": plain.max(axis=0).tolist()}
        return self.add("accessors", accessor)

    def make_primitive(
        self, attributes: Mapping[str, np.ndarray], indices: np.ndarray, material: int | None
    ) -> dict[str, Any]:
        """Triangles as a glTF primitive; adds the accessors of the vertex attributes, by name, and of the indices."""
        accessors = {
            name: self.add_accessor(values, with_bounds=name == "POSITION") for name, values in attributes.items()
        }
        primitive: dict[str, Any] = {"attributes": accessors, "indices": self.add_accessor(indices), "mode": 4}
        return primitive if material is None else {**primitive, "material": material}

    def set_scene(self, nodes: Mapping[str, list[dict[str, Any]]]) -> None:
        """Set the scene to nodes, each with a mesh of the given primitives."""
        indices = [
            self.add("nodes", {"name": name, "mesh": self.add("meshes", {"name": name, "primitives": primitives})})
            for name, primitives in nodes.items()
        ]
        self.add("scenes", {"nodes": indices})
        self.document["scene"] = 0

    def add_extension(self, item: dict[str, Any], name: str, content: dict[str, Any]) -> None:
        """Add an extension to an item of the document, and declare it."""
        self.declare_extension(name)
        item.setdefault("extensions", {})[name] = content

    def declare_extension(self, extension: str) -> None:
        """Add an extension to `extensionsUsed`."""
        used = self.document.setdefault("extensionsUsed", [])
        if extension not in used:
            used.append(extension)

    def chunks(self) -> Iterator[bytes]:
        """Bytes of the file in parts: header with JSON chunk, then the binary chunk."""
        if self._buffer_length:
            self.document["buffers"] = [{"byteLength": self._buffer_length}]
        text = json.dumps(self.document, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 4)
        chunks = 8 + len(text) + (8 + self._buffer_length if self._buffer_length else 0)
        yield struct.pack("<4sIII4s", b"glTF", 2, 12 + chunks, len(text), b"JSON") + text
        if self._buffer_length:
            yield struct.pack("<I4s", self._buffer_length, b"BIN\0")
            yield from self._buffer_parts


# ------------------------------------------------------------------------------------------------------------ materials

_WRAP_MODES = {WrapMode.REPEAT: 10497, WrapMode.CLAMP: 33071, WrapMode.MIRROR: 33648, WrapMode.BLACK: 33071}
GLTF_IMAGE_TYPES = {".png": "image/png", ".jpg": "image/jpeg"}
_NOT_SUPPORTED_TEXT = "glTF has no word for it"
_TEXTURE_TRANSFORM = "KHR_texture_transform"


class GltfMaterials:
    """Materials, textures, images and samplers of a glTF file, each written once."""

    def __init__(
        self,
        file: GlbBuilder,
        losses: list[tuple[str, str, str]],
        n_texcoord_sets: int,
        image_types: Mapping[str, str] = GLTF_IMAGE_TYPES,
    ) -> None:
        """Start without materials.

        Args:
            file: receives the materials.
            losses: receives properties that glTF cannot represent: name of the material, property and reason.
            n_texcoord_sets: number of sets of texture coordinates of the meshes.
            image_types: media types of images that are embedded as they are, by suffix; others are converted to PNG.
        """
        self._image_types = image_types
        self._file = file
        self._losses = losses
        self._n_texcoord_sets = n_texcoord_sets
        self._indices_by_id: dict[int, int] = {}
        self._images: dict[str, int | None] = {}
        self._samplers: dict[tuple[WrapMode, WrapMode], int] = {}

    def material_index(self, material: PbrMaterial | None) -> int | None:
        """Index of a material, added at its first use; None for faces without material."""
        if material is None:
            return None
        if id(material) not in self._indices_by_id:
            self._indices_by_id[id(material)] = self._file.add("materials", self.build_material(material))
        return self._indices_by_id[id(material)]

    def build_material(self, material: PbrMaterial) -> dict[str, Any]:
        """Metallic-roughness material of glTF, with textures and extensions; reports unsupported properties."""
        # an unspecified metalness is 0 here, but 1 in glTF
        pbr: dict[str, Any] = {"metallicFactor": 0.0 if material.metallic is None else _clamp_unit(material.metallic)}
        if material.roughness is not None:
            pbr["roughnessFactor"] = _clamp_unit(material.roughness)
        if material.color is not None:
            pbr["baseColorFactor"] = [_clamp_unit(value) for value in material.color]
        gltf_material: dict[str, Any] = {"name": material.name, "pbrMetallicRoughness": pbr}
        if material.texture and (
            image := self._texture_info(material, material.texture, material.texture_mapping, "its texture")
        ):
            pbr["baseColorTexture"] = image
        self._set_opacity(material, gltf_material)
        if material.double_sided:
            gltf_material["doubleSided"] = True
        self._set_maps(material, gltf_material, pbr)
        self._set_emission(material, gltf_material)
        self._set_extensions(material, gltf_material)
        if material.reflectance is not None:
            self._report_loss(material, "its reflectance")
        return gltf_material

    def _report_loss(self, material: PbrMaterial, lost_property: str, reason: str = _NOT_SUPPORTED_TEXT) -> None:
        self._losses.append((material.name, lost_property, reason))

    def _set_opacity(self, material: PbrMaterial, gltf_material: dict[str, Any]) -> None:
        """Set `alphaMode` from opacity threshold, base-colour alpha or an opacity map in the base-colour image."""
        image = material.maps.get(MapRole.OPACITY)
        is_in_base = image is not None and image.file == material.texture and image.channel in ("", "a")
        if image is not None and not is_in_base:
            self._report_loss(material, "its opacity map", "glTF has it in the image of the base colour")
        if material.opacity_threshold is not None:
            gltf_material |= {"alphaMode": "MASK", "alphaCutoff": material.opacity_threshold}
        elif is_in_base or (material.color is not None and material.color[3] < 1.0):
            gltf_material["alphaMode"] = "BLEND"

    # -- images --

    def _set_maps(
        self, material: PbrMaterial, gltf_material: dict[str, Any], pbr_metallic_roughness: dict[str, Any]
    ) -> None:
        """Set metallic-roughness, normal, occlusion and emissive textures; report bump and specular maps as lost."""
        if image := self._metallic_roughness_texture(material):
            pbr_metallic_roughness["metallicRoughnessTexture"] = image
        for role, word, strength in (
            (MapRole.NORMAL, "normalTexture", "scale"),
            (MapRole.OCCLUSION, "occlusionTexture", "strength"),
            (MapRole.EMISSION, "emissiveTexture", ""),
        ):
            texture = material.maps.get(role)
            if texture is None:
                continue
            if role is MapRole.OCCLUSION and texture.channel not in ("", "r"):
                self._report_loss(material, "its occlusion map", "glTF takes the red channel of its image")
            elif image := self._texture_info(material, texture.file, texture.mapping, f"its {role} map"):
                gltf_material[word] = image if not strength else {**image, strength: texture.strength}
        for role in (MapRole.BUMP, MapRole.SPECULAR):
            if role in material.maps:
                self._report_loss(material, f"its {role} map")

    def _metallic_roughness_texture(self, material: PbrMaterial) -> dict[str, Any] | None:
        """Texture with roughness in the green and metalness in the blue channel; packs separate images if necessary."""
        metallic, rough = material.maps.get(MapRole.METALLIC), material.maps.get(MapRole.ROUGHNESS)
        if metallic is None and rough is None:
            return None
        is_both = (
            metallic is not None
            and rough is not None
            and metallic.file == rough.file
            and (rough.channel, metallic.channel) == ("g", "b")
        )
        # an image that is not meant as metalness has no effect if the metallic factor is 0
        is_rough = metallic is None and rough is not None and rough.channel in ("", "g") and not material.metallic
        if not is_both and not is_rough:
            packed = self._packed_texture(material, rough, metallic)
            if packed is not None:
                return packed
            lost_maps = " and ".join(
                f"its {role} map" for role in (MapRole.METALLIC, MapRole.ROUGHNESS) if role in material.maps
            )
            self._report_loss(material, lost_maps, "glTF takes both from one image, its green and blue channels")
            return None
        assert rough is not None
        if is_rough and not rough.channel:
            self._report_loss(material, "the channel of its roughness map", "glTF takes the green one")
        return self._texture_info(material, rough.file, rough.mapping, "its roughness map")

    def _packed_texture(
        self, material: PbrMaterial, roughness: Texture | None, metallic: Texture | None
    ) -> dict[str, Any] | None:
        """Texture packed from separate roughness and metalness images; None if mappings differ or reading fails."""
        present = [image for image in (roughness, metallic) if image is not None]
        if len({image.mapping for image in present}) > 1:
            return None
        packed = packed_image_reference("", _single_channel_image(roughness), _single_channel_image(metallic))
        try:
            read_image(packed)
        except MeshError:
            return None
        return self._texture_info(material, packed, present[0].mapping, "its roughness map")

    def _texture_info(
        self, material: PbrMaterial, file: str, mapping: TextureMapping, lost_property: str
    ) -> dict[str, Any] | None:
        """The glTF `textureInfo` of an image and its mapping; None if the image is unreadable.

        `lost_property` is the property of the material that is then reported as lost.
        """
        image_index = self._image_index(material, file, lost_property)
        if image_index is None:
            return None
        texture = {"source": image_index, "sampler": self._sampler_index(material, mapping.wrap)}
        textures = self._file.document.setdefault("textures", [])
        index = textures.index(texture) if texture in textures else self._file.add("textures", texture)
        info: dict[str, Any] = {"index": index}
        texcoord_set = min(mapping.texcoord_set, max(self._n_texcoord_sets - 1, 0))
        if texcoord_set:
            info["texCoord"] = texcoord_set
        if transform := _texture_transform(mapping):
            self._file.declare_extension(_TEXTURE_TRANSFORM)
            info["extensions"] = {_TEXTURE_TRANSFORM: transform}
        return info

    def _image_index(self, material: PbrMaterial, file: str, lost_property: str) -> int | None:
        """Index of an image, embedded as PNG or JPEG at its first use; None if it is unreadable.

        `lost_property` is the property of the material that is then reported as lost.
        """
        if file not in self._images:
            try:
                data, suffix = read_image(file)
                if suffix not in self._image_types:
                    data, suffix = convert_to_png(data), ".png"
            except MeshError as error:
                reason = f"{file!r}: {error.reason[:1].lower()}{error.reason[1:].rstrip('.')}"
                self._report_loss(material, lost_property, reason)
                self._images[file] = None
            else:
                image = {
                    "name": image_name(file),
                    "bufferView": self._file.add_buffer_view(data),
                    "mimeType": self._image_types[suffix],
                }
                self._images[file] = self._file.add("images", image)
        return self._images[file]

    def _sampler_index(self, material: PbrMaterial, wrap: tuple[WrapMode, WrapMode]) -> int:
        """Index of the sampler with the given wrap modes; black borders become clamping, with a reported loss."""
        if wrap not in self._samplers:
            if WrapMode.BLACK in wrap:
                self._report_loss(material, "the black border of its texture")
            self._samplers[wrap] = self._file.add(
                "samplers", {"wrapS": _WRAP_MODES[wrap[0]], "wrapT": _WRAP_MODES[wrap[1]]}
            )
        return self._samplers[wrap]

    # -- light and extensions --

    def _set_emission(self, material: PbrMaterial, gltf_material: dict[str, Any]) -> None:
        """Set `emissiveFactor`, scaled to at most 1, and the emissive-strength extension for brighter emission."""
        emission = material.emission or ((1.0, 1.0, 1.0) if MapRole.EMISSION in material.maps else None)
        if emission is None or not any(emission):
            return
        strength = max(1.0, *emission)
        gltf_material["emissiveFactor"] = [_clamp_unit(value / strength) for value in emission]
        if strength > 1.0:
            self._file.add_extension(gltf_material, "KHR_materials_emissive_strength", {"emissiveStrength": strength})

    def _set_extensions(self, material: PbrMaterial, gltf_material: dict[str, Any]) -> None:
        """Set the extensions `KHR_materials_clearcoat` and `KHR_materials_specular` of a glTF material, if needed."""
        coat = {
            "clearcoatFactor": material.clearcoat,
            "clearcoatRoughnessFactor": material.clearcoat_roughness,
            "clearcoatTexture": self._clearcoat_texture(material, material.maps.get(MapRole.CLEARCOAT)),
        }
        coat = {name: value for name, value in coat.items() if value is not None}
        if coat:
            self._file.add_extension(gltf_material, "KHR_materials_clearcoat", coat)
        if material.specular is not None:
            self._file.add_extension(
                gltf_material, "KHR_materials_specular", {"specularFactor": _clamp_unit(material.specular)}
            )

    def _clearcoat_texture(self, material: PbrMaterial, texture: Texture | None) -> dict[str, Any] | None:
        """`textureInfo` of a clearcoat map in the red channel; None, with a reported loss, for other channels."""
        if texture is None:
            return None
        if texture.channel not in ("", "r"):
            self._report_loss(material, "its clearcoat map", "glTF takes the red channel of its image")
            return None
        return self._texture_info(material, texture.file, texture.mapping, "its clearcoat map")


def _single_channel_image(image: Texture | None) -> str:
    """Reference to an image whose red channel is the texture's channel."""
    if image is None:
        return ""
    return image.file if image.channel in ("", "r") else channel_image_reference(image.file, image.channel)


def _clamp_unit(value: float) -> float:
    return min(max(float(value), 0.0), 1.0)


def _texture_transform(mapping: TextureMapping) -> dict[str, Any]:
    """`KHR_texture_transform` of a texture mapping for glTF's v axis (from the top); empty for the identity.

    With w = 1 - v, `(u, w) -> R S (u, w) + offset`, where R is a clockwise rotation.
    """
    cosine, sine = math.cos(mapping.rotation), math.sin(mapping.rotation)
    u_scale, v_scale = mapping.scale
    offset = [mapping.offset[0] - sine * v_scale, 1.0 - mapping.offset[1] - cosine * v_scale]
    values = {
        "offset": [0.0 if abs(value) < 1e-15 else value for value in offset],
        "scale": [u_scale, v_scale],
        "rotation": mapping.rotation,
    }
    plain = {"offset": [0.0, 0.0], "scale": [1.0, 1.0], "rotation": 0.0}
    return {name: value for name, value in values.items() if value != plain[name]}


# --------------------------------------------------------------------------------------------------------------- meshes

_ROUNDING_TOLERANCE = 1e-12
"""Single-precision rounding error relative to the mesh size that is not reported."""


def glb_chunks(
    mesh: MeshData, appearance: Appearance | None, name: str, losses: list[tuple[str, str, str]]
) -> Iterator[bytes]:
    """Bytes of a GLB file of a mesh, in parts; positions are rounded to single precision.

    Args:
        mesh: the triangles; axes are unchanged.
        appearance: vertex attributes and materials; None for none.
        name: name of the mesh.
        losses: receives properties that glTF cannot represent.
    """
    file = GlbBuilder()
    looks = appearance or Appearance()
    materials = GltfMaterials(file, losses, len(looks.texture_coordinates))
    primitives = [
        _add_primitive(file, mesh, looks, faces, materials.material_index(look))
        for look, faces in looks.faces_by_material(mesh.n_faces)
        if len(faces)
    ]
    scale = float(np.abs(mesh.vertices).max(initial=0.0))
    if np.abs(mesh.vertices - mesh.vertices.astype(np.float32)).max(initial=0.0) > _ROUNDING_TOLERANCE * scale:
        losses.append((name, "digits of its mesh beyond the seventh", "glTF has single precision"))
    file.set_scene({name: primitives})
    return file.chunks()


def _add_primitive(
    file: GlbBuilder, mesh: MeshData, appearance: Appearance, faces: np.ndarray, material_index: int | None
) -> dict[str, Any]:
    """Add the vertex attributes and indices of the faces of one material and return the glTF primitive."""
    layers: list[tuple[str, CornerAttribute]] = [("POSITION", CornerAttribute(mesh.vertices, mesh.faces))]
    if appearance.normals is not None:
        layers.append(("NORMAL", appearance.normals))
    layers += [(f"TEXCOORD_{i}", _flip_v(c)) for i, c in enumerate(appearance.texture_coordinates)]
    if appearance.colors is not None:
        layers.append(("COLOR_0", appearance.colors))
    columns = np.stack([layer.indices[faces].reshape(-1) for _, layer in layers], axis=-1)
    used, corners = _unique_rows(columns)
    attributes = {name: layer.values[used[:, i]] for i, (name, layer) in enumerate(layers)}
    return file.make_primitive(attributes, corners, material_index)


def _unique_rows(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Unique rows (sorted) of a table and the index (n,) of each row's unique row."""
    order = np.lexsort(rows.T[::-1])
    ordered = rows[order]
    is_new = np.ones(len(rows), dtype=bool)
    is_new[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    numbers = np.zeros(len(rows), dtype=np.int64)
    numbers[order] = np.cumsum(is_new) - 1
    return ordered[is_new], numbers


def _flip_v(texture_coordinates: CornerAttribute) -> CornerAttribute:
    """Texture coordinates with v replaced by 1 - v: glTF counts v from the top of an image."""
    return CornerAttribute(
        np.column_stack([texture_coordinates.values[:, 0], 1.0 - texture_coordinates.values[:, 1]]),
        texture_coordinates.indices,
    )
