"""What a glTF lays on its triangles: normals, texture coordinates, colours, and materials with their images."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from kinema.shapes.appearance import Appearance, CornerValues, corner_values, unit_normals, with_alpha
from kinema.shapes.formats.gltf_data import AccessorReader, document_item
from kinema.shapes.formats.source import MeshSource
from kinema.shapes.images import find_image
from kinema.shapes.look import Look, MapRole, Placement, Texture, Wrap
from kinema.shapes.mesh_data import FloatArray, MeshData, MeshError

_WRAPS = {33071: Wrap.CLAMP, 33648: Wrap.MIRROR, 10497: Wrap.REPEAT}
_MOST_SETS = 8
_KNOWN_EXTENSIONS = {
    "KHR_materials_clearcoat",
    "KHR_materials_emissive_strength",
    "KHR_materials_unlit",
    "KHR_materials_specular",
}


class GltfLooks:
    """The materials of a glTF, each read once, and what its primitives say."""

    def __init__(
        self,
        document: dict[str, Any],
        accessors: AccessorReader,
        source: MeshSource,
        note: Callable[[str], object],
    ) -> None:
        self._document = document
        self._accessors = accessors
        self._source = source
        self._note = note
        self._materials: dict[int, Look] = {}

    def of(self, primitive: Mapping[str, Any], part: MeshData) -> Appearance:
        """What is laid on a primitive, whose triangles are all of the part's."""
        given = primitive["attributes"]
        normals = self._values(given.get("NORMAL"), part, 3)
        sets = [self._values(given.get(f"TEXCOORD_{i}"), part, 2) for i in range(_MOST_SETS)]
        n_sets = next((i for i, found in enumerate(sets) if found is None), _MOST_SETS)
        colors = self._values(given.get("COLOR_0"), part, 3)
        return Appearance(
            normals=unit_normals(normals),
            coordinates=tuple(_upwards(found) for found in sets[:n_sets] if found is not None),
            colors=None if colors is None else CornerValues(with_alpha(colors.values), colors.corners),
            materials=(self._material(primitive["material"]),) if "material" in primitive else (),
        )

    def _values(self, accessor: object, part: MeshData, width: int) -> CornerValues | None:
        if accessor is None:
            return None
        try:
            values = self._accessors.attribute(accessor, part.n_vertices)
        except MeshError as error:
            self._note(f"An attribute of vertices was left out: {error.reason}")
            return None
        # a colour may have an alpha
        return corner_values(values, part.faces, max(width, values.shape[1]) if width == 3 else width)

    # Materials -------------------------------------------------------------------------------------------------------

    def _material(self, index: object) -> Look:
        given = document_item(self._document, "materials", index)
        assert isinstance(index, int)
        if index not in self._materials:
            self._materials[index] = self._read(given, index)
        return self._materials[index]

    def _read(self, given: Mapping[str, Any], index: int) -> Look:
        metal = _table(given.get("pbrMetallicRoughness"))
        extensions = _table(given.get("extensions"))
        look = Look(
            name=str(given.get("name", "")) or f"material_{index}",
            color=_numbers(metal.get("baseColorFactor"), (1.0, 1.0, 1.0, 1.0)),  # type: ignore[arg-type]
            metallic=_number(metal.get("metallicFactor"), 1.0),
            roughness=_number(metal.get("roughnessFactor"), 1.0),
            double_sided=bool(given.get("doubleSided", False)),
        )
        mode = given.get("alphaMode", "OPAQUE")
        if mode == "MASK":
            look.opacity_threshold = _number(given.get("alphaCutoff"), 0.5)
        elif mode != "BLEND" and look.color is not None:
            look.color = (*look.color[:3], 1.0)  # the alpha of an opaque material does not count
        if image := self._image(metal.get("baseColorTexture")):
            look.texture, look.placement = image.file, image.placement
            if mode in ("MASK", "BLEND"):
                look.maps[MapRole.OPACITY] = Texture(file=image.file, channel="a", placement=image.placement)
        self._maps(given, metal, look)
        self._emission(given, extensions, look)
        self._clearcoat(_table(extensions.get("KHR_materials_clearcoat")), look)
        look.specular = _optional(_table(extensions.get("KHR_materials_specular")).get("specularFactor"))
        for name in sorted(set(extensions) - _KNOWN_EXTENSIONS):
            self._note(f"The extension {name[:60]} of a material was skipped.")
        return look

    def _maps(self, given: Mapping[str, Any], metal: Mapping[str, Any], look: Look) -> None:
        wanted = (
            (MapRole.METALLIC, metal.get("metallicRoughnessTexture"), "b", ""),
            (MapRole.ROUGHNESS, metal.get("metallicRoughnessTexture"), "g", ""),
            (MapRole.NORMAL, given.get("normalTexture"), "", "scale"),
            (MapRole.OCCLUSION, given.get("occlusionTexture"), "r", "strength"),
            (MapRole.EMISSION, given.get("emissiveTexture"), "", ""),
        )
        for role, reference, channel, strength in wanted:
            if image := self._image(reference):
                how_much = _number(_table(reference).get(strength), 1.0)
                look.maps[role] = Texture(
                    file=image.file, channel=channel, strength=how_much, placement=image.placement
                )

    def _emission(self, given: Mapping[str, Any], extensions: Mapping[str, Any], look: Look) -> None:
        factor = _numbers(given.get("emissiveFactor"), (0.0, 0.0, 0.0))
        times = _number(_table(extensions.get("KHR_materials_emissive_strength")).get("emissiveStrength"), 1.0)
        if any(factor):
            red, green, blue = (times * value for value in factor)
            look.emission = (red, green, blue)
        else:
            look.maps.pop(MapRole.EMISSION, None)  # times nothing

    def _clearcoat(self, given: Mapping[str, Any], look: Look) -> None:
        if not given:
            return
        look.clearcoat = _number(given.get("clearcoatFactor"), 0.0)
        look.clearcoat_roughness = _number(given.get("clearcoatRoughnessFactor"), 0.0)
        if image := self._image(given.get("clearcoatTexture")):
            look.maps[MapRole.CLEARCOAT] = Texture(file=image.file, channel="r", placement=image.placement)

    # Images ----------------------------------------------------------------------------------------------------------

    def _image(self, reference: object) -> Texture | None:
        """The image that a material refers to, and how it lies."""
        if not isinstance(reference, dict):
            return None
        texture = document_item(self._document, "textures", reference.get("index"))
        webp = _table(_table(texture.get("extensions")).get("EXT_texture_webp"))
        number = texture.get("source", webp.get("source"))
        image = document_item(self._document, "images", number)
        file = self._file(image, number)
        if not file:
            self._note(f"The image '{str(image.get('uri', number))[:80]}' was not found.")
            return None
        sampler = texture.get("sampler")
        wraps = document_item(self._document, "samplers", sampler) if sampler is not None else {}
        return Texture(file=file, placement=_placement(reference, wraps))

    def _file(self, image: Mapping[str, Any], number: object) -> str:
        uri = image.get("uri")
        if isinstance(uri, str) and not uri.startswith("data:"):
            return find_image(self._source.folder, uri)
        return f"{self._source.name}[{number}]" if self._source.name else ""


def _placement(reference: Mapping[str, Any], sampler: Mapping[str, Any]) -> Placement:
    """The v of glTF counts downwards: `v_up = 1 - v`, by which scale, turn and offset change too."""
    wrap = (_wrap(sampler.get("wrapS")), _wrap(sampler.get("wrapT")))
    chosen = reference.get("texCoord", 0)
    transform = _table(_table(reference.get("extensions")).get("KHR_texture_transform"))
    chosen = transform.get("texCoord", chosen)
    u_scale, v_scale = _numbers(transform.get("scale"), (1.0, 1.0))
    u_offset, v_offset = _numbers(transform.get("offset"), (0.0, 0.0))
    turn = _number(transform.get("rotation"), 0.0)
    # (u, w) -> R S (u, w) + offset with w = 1 - v and R = [[c, s], [-s, c]], which is clockwise in (u, w) and
    # counter-clockwise in (u, v)
    cosine, sine = math.cos(turn), math.sin(turn)
    offset = (u_offset + sine * v_scale, 1.0 - v_offset - cosine * v_scale)
    return Placement(
        wrap=wrap,
        scale=(u_scale, v_scale),
        offset=(_tidy(offset[0]), _tidy(offset[1])),
        rotation=turn,
        coordinates=chosen if isinstance(chosen, int) and 0 <= chosen < _MOST_SETS else 0,
    )


def _tidy(value: float) -> float:
    return 0.0 if abs(value) < 1e-15 else value


def _wrap(value: object) -> Wrap:
    return _WRAPS.get(value, Wrap.REPEAT) if isinstance(value, int) else Wrap.REPEAT


def _upwards(found: CornerValues) -> CornerValues:
    flipped: FloatArray = found.values.copy()
    flipped[:, 1] = 1.0 - flipped[:, 1]
    return CornerValues(flipped, found.corners)


def _table(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _number(value: object, default: float) -> float:
    found = _optional(value)
    return default if found is None else found


def _optional(value: object) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if is_number else None  # type: ignore[arg-type]


def _numbers(value: object, default: tuple[float, ...]) -> tuple[float, ...]:
    if not isinstance(value, list) or len(value) != len(default):
        return default
    return tuple(_number(item, usual) for item, usual in zip(value, default, strict=True))
