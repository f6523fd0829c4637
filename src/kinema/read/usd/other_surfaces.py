"""Materials that are no preview surfaces: MDL's OmniPBR, and the surfaces of MaterialX.

Their numbers and images are taken into the physically based model where they have the same meaning; the name of what
makes the material is kept beside (`usd:surface`). Of other surfaces it is all that can be told.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kinema.description import VisualMaterial
from kinema.shapes import MapRole, Texture
from kinema.words import usd

from . import pxr
from .shader_inputs import ShaderInputs, kind_of_shader, plain_numbers, surface_shader
from .stage_index import StageIndex

_MATERIALX_IMAGES = ("ND_image_", "ND_tiledimage_", "ND_UsdUVTexture", "ND_gltf_image_", "ND_gltf_colorimage")
_NORMAL_MAPS = ("ND_normalmap", "ND_gltf_normalmap")


@dataclass(frozen=True, slots=True)
class _Words:
    """What a kind of surface calls things: the names of its inputs."""

    color: str
    weight: str = ""
    """What the colour is multiplied by."""
    opacity: str = ""
    opacity_switch: str = ""
    """Without this the opacity does not count."""
    emission: str = ""
    emission_weight: str = ""
    emission_switch: str = ""
    numbers: Mapping[str, str] = field(default_factory=dict)
    """Field of a look -> input."""
    color_image: str = ""
    """The input that names the image of the colour, where it is not the colour's own."""
    images: Mapping[MapRole, tuple[str, str]] = field(default_factory=dict)
    """Role -> input, and the channel of its image that counts."""


_OMNI_PBR = _Words(
    color="diffuse_color_constant",
    weight="albedo_brightness",
    opacity="opacity_constant",
    opacity_switch="enable_opacity",
    emission="emissive_color",
    emission_switch="enable_emission",
    numbers={
        "roughness": "reflection_roughness_constant",
        "metallic": "metallic_constant",
        "specular": "specular_level",
    },
    color_image="diffuse_texture",
    images={
        MapRole.ROUGHNESS: ("reflectionroughness_texture", ""),
        MapRole.METALLIC: ("metallic_texture", ""),
        MapRole.NORMAL: ("normalmap_texture", ""),
        MapRole.OCCLUSION: ("ao_texture", ""),
        MapRole.EMISSION: ("emissive_mask_texture", ""),
    },
)
_STANDARD = _Words(
    color="base_color",
    weight="base",
    opacity="opacity",
    emission="emission_color",
    emission_weight="emission",
    numbers={
        "roughness": "specular_roughness",
        "metallic": "metalness",
        "specular": "specular",
        "clearcoat": "coat",
        "clearcoat_roughness": "coat_roughness",
    },
    images={
        MapRole.ROUGHNESS: ("specular_roughness", ""),
        MapRole.METALLIC: ("metalness", ""),
        MapRole.NORMAL: ("normal", ""),
        MapRole.EMISSION: ("emission_color", ""),
    },
)
_OPEN_PBR = _Words(
    color="base_color",
    weight="base_weight",
    opacity="geometry_opacity",
    numbers={
        "roughness": "specular_roughness",
        "metallic": "base_metalness",
        "specular": "specular_weight",
        "clearcoat": "coat_weight",
        "clearcoat_roughness": "coat_roughness",
    },
    images={
        MapRole.ROUGHNESS: ("specular_roughness", ""),
        MapRole.METALLIC: ("base_metalness", ""),
        MapRole.NORMAL: ("geometry_normal", ""),
    },
)
_GLTF = _Words(
    color="base_color",
    opacity="alpha",
    emission="emissive",
    emission_weight="emissive_strength",
    numbers={
        "roughness": "roughness",
        "metallic": "metallic",
        "specular": "specular",
        "clearcoat": "clearcoat",
        "clearcoat_roughness": "clearcoat_roughness",
    },
    images={
        MapRole.ROUGHNESS: ("roughness", ""),
        MapRole.METALLIC: ("metallic", ""),
        MapRole.NORMAL: ("normal", ""),
        MapRole.OCCLUSION: ("occlusion", ""),
        MapRole.EMISSION: ("emissive", ""),
    },
)
_PREVIEW = _Words(
    color=usd.DIFFUSE_COLOR,
    opacity=usd.OPACITY,
    emission=usd.EMISSIVE_COLOR,
    numbers={
        "roughness": usd.ROUGHNESS,
        "metallic": usd.METALLIC,
        "clearcoat": usd.CLEARCOAT,
        "clearcoat_roughness": usd.CLEARCOAT_ROUGHNESS,
    },
    images={
        MapRole.ROUGHNESS: (usd.ROUGHNESS, ""),
        MapRole.METALLIC: (usd.METALLIC, ""),
        MapRole.NORMAL: (usd.NORMAL, ""),
        MapRole.OCCLUSION: (usd.OCCLUSION, ""),
        MapRole.EMISSION: (usd.EMISSIVE_COLOR, ""),
    },
)
_KNOWN = {
    "OmniPBR": _OMNI_PBR,
    "ND_standard_surface_surfaceshader": _STANDARD,
    "ND_open_pbr_surface_surfaceshader": _OPEN_PBR,
    "ND_gltf_pbr_surfaceshader": _GLTF,
    "ND_UsdPreviewSurface_surfaceshader": _PREVIEW,
}

_OUTPUTS = {"": usd.SURFACE_OUTPUT, **{name: usd.output_of(f"{name}:surface") for name in ("mdl", "mtlx")}}
"""For whom a surface is meant -> the output that leads to it."""


def read_other_surface(index: StageIndex, material: pxr.Prim) -> VisualMaterial | None:
    """A material that MDL or MaterialX makes, as far as it can be told; None where nothing makes it."""
    said = index.values.facts(material).authored
    for context, output in _OUTPUTS.items():
        shader = surface_shader(index, material, context, output) if output in said else None
        if shader is None:
            continue
        file, kind = _made_by(index, shader)
        look = VisualMaterial(name=material.GetName(), origin=index.origin(material))
        name = f"{file} {kind}".strip()
        if name:
            look.attributes[usd.KEPT_SURFACE] = name
        if kind in _KNOWN:
            _OtherSurface(index, material, shader, _KNOWN[kind]).fill(look)
        return look
    return None


def _made_by(index: StageIndex, shader: pxr.Prim) -> tuple[str, str]:
    """The file of MDL that makes a shader, and which of its materials; without a file, the shader's kind."""
    said = index.values.facts(shader).authored
    kind = kind_of_shader(shader) if usd.SHADER_ID in said else ""
    if usd.SHADER_SOURCE not in said or shader.GetAttribute(usd.SHADER_SOURCE).Get() != usd.SOURCE_ASSET:
        return "", kind
    asset = next((shader.GetAttribute(name).Get() for name in usd.MDL_ASSETS if name in said), None)
    if asset is not None and not kind:
        kind = next((str(shader.GetAttribute(name).Get() or "") for name in usd.MDL_PARTS if name in said), "")
    return ("" if asset is None else asset.path), kind


class _OtherSurface(ShaderInputs):
    """One such surface on its way into a look."""

    def __init__(self, index: StageIndex, material: pxr.Prim, shader: pxr.Prim, words: _Words) -> None:
        super().__init__(index, material, shader)
        self._words = words

    def fill(self, look: VisualMaterial) -> None:
        """Give a look what the surface says."""
        words = self._words
        for name, word in words.numbers.items():
            setattr(look, name, self.number(word))
        look.texture = self._file(words.color_image or words.color)
        look.color = self._color(has_image=bool(look.texture))
        look.emission = self._emission()
        for role, (word, channel) in words.images.items():
            file = self._file(word)
            if file:
                look.maps[role] = Texture(file=file, channel=channel)

    def _color(self, *, has_image: bool) -> tuple[float, float, float, float] | None:
        words = self._words
        color, opacity = self.vector(words.color), self._opacity()
        if color is None and opacity is None:
            return None
        weight = self.number(words.weight) if words.weight and color is not None else None
        # MDL's image takes the place of the constant colour, and is not multiplied by it
        red, green, blue = (1.0, 1.0, 1.0) if color is None or (has_image and words.color_image) else color
        share = 1.0 if weight is None else weight
        return red * share, green * share, blue * share, 1.0 if opacity is None else opacity

    def _opacity(self) -> float | None:
        words = self._words
        if not words.opacity or (words.opacity_switch and not self.value(self.shader, words.opacity_switch)):
            return None
        numbers = plain_numbers(self.value(self.shader, words.opacity))
        return sum(numbers) / len(numbers) if numbers else None

    def _emission(self) -> tuple[float, float, float] | None:
        words = self._words
        if not words.emission or (words.emission_switch and not self.value(self.shader, words.emission_switch)):
            return None
        color = self.vector(words.emission)
        weight = self.number(words.emission_weight) if words.emission_weight else None
        if words is _STANDARD:  # it gives off nothing where it does not say how much
            weight = weight or 0.0
        if color is None or weight == 0.0:
            return None
        share = 1.0 if weight is None else weight
        return color[0] * share, color[1] * share, color[2] * share

    def _file(self, word: str) -> str:
        """The image of an input: named by the input itself (MDL), or by the node that feeds it (MaterialX)."""
        if not self.says(word):
            return ""
        shader, _, _ = self.source(self.shader, word)
        for _ in range(2):  # a normal map has a node of its own before the image's
            if shader is None:
                break
            kind = kind_of_shader(shader)
            if kind.startswith(_MATERIALX_IMAGES):
                return self.image_of(shader, usd.FILE)
            shader = self.source(shader, usd.TRANSFORM_IN)[0] if kind.startswith(_NORMAL_MAPS) else None
        given = self.shader.GetAttribute(usd.input_of(word))
        producing = pxr.UsdShade.Input(given).GetValueProducingAttributes() if given else []
        is_asset = bool(producing) and isinstance(producing[0].Get(self.index.time), pxr.Sdf.AssetPath)
        return self.asset(producing) if is_asset else ""
