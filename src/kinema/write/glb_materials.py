"""Materials of a binary glTF file, with their images inside."""

from __future__ import annotations

import math
from typing import Any

from kinema import shapes
from kinema.shapes import Look, MapRole, Placement, Texture, Wrap

from .glb_file import GlbFile
from .textures import Losses

_WRAPS = {Wrap.REPEAT: 10497, Wrap.CLAMP: 33071, Wrap.MIRROR: 33648, Wrap.BLACK: 33071}
_MIME = {".png": "image/png", ".jpg": "image/jpeg"}
_NO_WORD = "glTF has no word for it"
_TRANSFORM = "KHR_texture_transform"


class GlbMaterials:
    """The materials of one file, each written once."""

    def __init__(self, file: GlbFile, losses: Losses, n_sets: int) -> None:
        self._file = file
        self._losses = losses
        self._n_sets = n_sets
        self._known: dict[int, int] = {}
        self._images: dict[str, int | None] = {}
        self._samplers: dict[tuple[Wrap, Wrap], int] = {}

    def number(self, look: Look | None) -> int | None:
        """The number of a material; None for faces without one."""
        if look is None:
            return None
        if id(look) not in self._known:
            self._known[id(look)] = self._file.add("materials", self._material(look))
        return self._known[id(look)]

    def _material(self, look: Look) -> dict[str, Any]:
        # where nothing is said of it a surface is no metal, which is not what glTF takes it for
        metal: dict[str, Any] = {"metallicFactor": 0.0 if look.metallic is None else _share(look.metallic)}
        if look.roughness is not None:
            metal["roughnessFactor"] = _share(look.roughness)
        if look.color is not None:
            metal["baseColorFactor"] = [_share(value) for value in look.color]
        made: dict[str, Any] = {"name": look.name, "pbrMetallicRoughness": metal}
        if look.texture and (image := self._image(look, look.texture, look.placement, "its texture")):
            metal["baseColorTexture"] = image
        self._opacity(look, made)
        if look.double_sided:
            made["doubleSided"] = True
        self._maps(look, made, metal)
        self._emission(look, made)
        self._extensions(look, made)
        if look.reflectance is not None:
            self._lose(look, "its reflectance")
        return made

    def _lose(self, look: Look, what: str, why: str = _NO_WORD) -> None:
        self._losses.append((look.name, what, why))

    def _opacity(self, look: Look, made: dict[str, Any]) -> None:
        image = look.maps.get(MapRole.OPACITY)
        is_in_base = image is not None and image.file == look.texture and image.channel in ("", "a")
        if image is not None and not is_in_base:
            self._lose(look, "its opacity map", "glTF has it in the image of the base colour")
        if look.opacity_threshold is not None:
            made |= {"alphaMode": "MASK", "alphaCutoff": look.opacity_threshold}
        elif is_in_base or (look.color is not None and look.color[3] < 1.0):
            made["alphaMode"] = "BLEND"

    # -- images --

    def _maps(self, look: Look, made: dict[str, Any], metal: dict[str, Any]) -> None:
        if image := self._metal_and_rough(look):
            metal["metallicRoughnessTexture"] = image
        for role, word, strength in (
            (MapRole.NORMAL, "normalTexture", "scale"),
            (MapRole.OCCLUSION, "occlusionTexture", "strength"),
            (MapRole.EMISSION, "emissiveTexture", ""),
        ):
            texture = look.maps.get(role)
            if texture is None:
                continue
            if role is MapRole.OCCLUSION and texture.channel not in ("", "r"):
                self._lose(look, "its occlusion map", "glTF takes the red channel of its image")
            elif image := self._image(look, texture.file, texture.placement, f"its {role} map"):
                made[word] = image if not strength else {**image, strength: texture.strength}
        for role in (MapRole.BUMP, MapRole.SPECULAR):
            if role in look.maps:
                self._lose(look, f"its {role} map")

    def _metal_and_rough(self, look: Look) -> dict[str, Any] | None:
        """The one image that has both: roughness in its green channel, metalness in its blue one."""
        metallic, rough = look.maps.get(MapRole.METALLIC), look.maps.get(MapRole.ROUGHNESS)
        if metallic is None and rough is None:
            return None
        is_both = (
            metallic is not None
            and rough is not None
            and metallic.file == rough.file
            and (rough.channel, metallic.channel) == ("g", "b")
        )
        # an image whose blue channel is not meant does no harm where nothing is metallic
        is_rough = metallic is None and rough is not None and rough.channel in ("", "g") and not look.metallic
        if not is_both and not is_rough:
            packed = self._packed(look, rough, metallic)
            if packed is not None:
                return packed
            said = " and ".join(
                f"its {role} map" for role in (MapRole.METALLIC, MapRole.ROUGHNESS) if role in look.maps
            )
            self._lose(look, said, "glTF takes both from one image, the green and the blue of it")
            return None
        assert rough is not None
        if is_rough and not rough.channel:
            self._lose(look, "which channel its roughness map is", "glTF takes the green one")
        return self._image(look, rough.file, rough.placement, "its roughness map")

    def _packed(self, look: Look, rough: Texture | None, metallic: Texture | None) -> dict[str, Any] | None:
        """Images of their own made into the one that glTF wants; None where that cannot be."""
        given = [image for image in (rough, metallic) if image is not None]
        if len({image.placement for image in given}) > 1:
            return None
        packed = shapes.packed_reference("", _grey(rough), _grey(metallic))
        try:
            shapes.read_image(packed)
        except shapes.MeshError:
            return None
        return self._image(look, packed, given[0].placement, "its roughness map")

    def _image(self, look: Look, file: str, placement: Placement, what: str) -> dict[str, Any] | None:
        """A reference to an image as it lies; None, and a loss on record, where it cannot be had."""
        number = self._stored(look, file, what)
        if number is None:
            return None
        texture = {"source": number, "sampler": self._sampler(look, placement.wrap)}
        textures = self._file.document.setdefault("textures", [])
        index = textures.index(texture) if texture in textures else self._file.add("textures", texture)
        found: dict[str, Any] = {"index": index}
        chosen = min(placement.coordinates, max(self._n_sets - 1, 0))
        if chosen:
            found["texCoord"] = chosen
        if transform := _transform(placement):
            self._file.use(_TRANSFORM)
            found["extensions"] = {_TRANSFORM: transform}
        return found

    def _stored(self, look: Look, file: str, what: str) -> int | None:
        if file not in self._images:
            try:
                data, suffix = shapes.read_image(file)
                if suffix not in _MIME:
                    data, suffix = shapes.to_png(data), ".png"
            except shapes.MeshError as error:
                self._lose(look, what, f"{file!r}: {error.reason[:1].lower()}{error.reason[1:].rstrip('.')}")
                self._images[file] = None
            else:
                image = {
                    "name": shapes.image_name(file),
                    "bufferView": self._file.view(data),
                    "mimeType": _MIME[suffix],
                }
                self._images[file] = self._file.add("images", image)
        return self._images[file]

    def _sampler(self, look: Look, wrap: tuple[Wrap, Wrap]) -> int:
        if wrap not in self._samplers:
            if Wrap.BLACK in wrap:
                self._lose(look, "that there is nothing beyond the edges of its texture")
            self._samplers[wrap] = self._file.add("samplers", {"wrapS": _WRAPS[wrap[0]], "wrapT": _WRAPS[wrap[1]]})
        return self._samplers[wrap]

    # -- light and extensions --

    def _emission(self, look: Look, made: dict[str, Any]) -> None:
        emission = look.emission or ((1.0, 1.0, 1.0) if MapRole.EMISSION in look.maps else None)
        if emission is None or not any(emission):
            return
        strength = max(1.0, *emission)
        made["emissiveFactor"] = [_share(value / strength) for value in emission]
        if strength > 1.0:
            self._extend(made, "KHR_materials_emissive_strength", {"emissiveStrength": strength})

    def _extensions(self, look: Look, made: dict[str, Any]) -> None:
        coat = {
            "clearcoatFactor": look.clearcoat,
            "clearcoatRoughnessFactor": look.clearcoat_roughness,
            "clearcoatTexture": self._clearcoat(look, look.maps.get(MapRole.CLEARCOAT)),
        }
        coat = {name: value for name, value in coat.items() if value is not None}
        if coat:
            self._extend(made, "KHR_materials_clearcoat", coat)
        if look.specular is not None:
            self._extend(made, "KHR_materials_specular", {"specularFactor": _share(look.specular)})

    def _clearcoat(self, look: Look, texture: Texture | None) -> dict[str, Any] | None:
        if texture is None:
            return None
        if texture.channel not in ("", "r"):
            self._lose(look, "its clearcoat map", "glTF takes the red channel of its image")
            return None
        return self._image(look, texture.file, texture.placement, "its clearcoat map")

    def _extend(self, made: dict[str, Any], name: str, content: dict[str, Any]) -> None:
        self._file.use(name)
        made.setdefault("extensions", {})[name] = content


def _grey(image: Texture | None) -> str:
    """The image whose red channel is the one that is meant."""
    if image is None:
        return ""
    return image.file if image.channel in ("", "r") else shapes.channel_reference(image.file, image.channel)


def _share(value: float) -> float:
    return min(max(float(value), 0.0), 1.0)


def _transform(placement: Placement) -> dict[str, Any]:
    """How an image lies where v counts from its top; empty where it lies plainly.

    With w = 1 - v, `(u, w) -> R S (u, w) + offset`, in which R turns clockwise.
    """
    cosine, sine = math.cos(placement.rotation), math.sin(placement.rotation)
    u_scale, v_scale = placement.scale
    offset = [placement.offset[0] - sine * v_scale, 1.0 - placement.offset[1] - cosine * v_scale]
    said = {
        "offset": [0.0 if abs(value) < 1e-15 else value for value in offset],
        "scale": [u_scale, v_scale],
        "rotation": placement.rotation,
    }
    plain = {"offset": [0.0, 0.0], "scale": [1.0, 1.0], "rotation": 0.0}
    return {name: value for name, value in said.items() if value != plain[name]}
