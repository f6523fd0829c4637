"""Surface appearance of the renderers (PBR parameters and texture maps), and loading of texture images."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from kinema.core import Array, Diagnostics
from kinema.geometry import MapRole, MeshError, PbrMaterial, Texture, TextureMapping, WrapMode, read_image_pixels


def load_texture_images(files: Iterable[str], diagnostics: Diagnostics) -> dict[str, np.ndarray]:
    """RGBA pixels of images by file, each uint8 (rows, columns, 4); unreadable images become white with a warning."""
    result = {}
    for file in dict.fromkeys(files):
        try:
            result[file] = read_image_pixels(file)
        except MeshError as error:
            diagnostics.warning("render.image", f"the image {file} is not rendered: {error}")
            result[file] = np.full((1, 1, 4), 255, np.uint8)
    return result


DEFAULT_COLOR = (0.72, 0.72, 0.72, 1.0)
"""Colour of surfaces without colour."""
DEFAULT_CLEARCOAT_ROUGHNESS = 0.01
DEFAULT_ROUGHNESS, DEFAULT_SPECULAR = 0.5, 0.5
"""Defaults of unspecified parameters; specular 0.5 reflects 4 % at normal incidence, as plastics and paint do."""
GLASS_IOR = 1.5
MAX_GLASS_OPACITY, MAX_GLASS_ROUGHNESS = 0.5, 0.1
"""Upper bounds of opacity and roughness of materials that the path tracer treats as glass."""

TEXTURE_ROLES = (
    "color",
    "opacity",
    "metallic",
    "roughness",
    "emission",
    "normal",
    "occlusion",
    "specular",
    "clearcoat",
)
"""Supported texture maps, in the order of the kernel constants."""
_CHANNEL_INDEX = {"r": 0, "g": 1, "b": 2, "a": 3}
_DEFAULT_CHANNEL = {"opacity": 3, "metallic": 2, "roughness": 1}
_WRAP_MODES = {WrapMode.REPEAT: 0, WrapMode.CLAMP: 1, WrapMode.MIRROR: 2, WrapMode.BLACK: 3}


@dataclass(frozen=True, kw_only=True)
class TextureMap:
    """A texture map of a surface."""

    file: str
    channel: int = 0
    """Channel of a scalar map."""
    wrap: tuple[int, int] = (0, 0)
    """Wrap modes in u and v: 0 repeat, 1 clamp, 2 mirror, 3 black."""
    uv_transform: tuple[float, ...] = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0)
    """Affine transform from texture coordinates to image coordinates, two rows of three."""
    strength: float = 1.0
    """Strength of a normal map."""


@dataclass(kw_only=True, eq=False)
class Surface:
    """Material parameters of a surface. Colours are sRGB; emission is linear radiance without upper bound."""

    name: str = ""
    color: tuple[float, float, float, float] = DEFAULT_COLOR
    """Base colour and opacity."""
    metallic: float = 0.0
    roughness: float = DEFAULT_ROUGHNESS
    specular: float = DEFAULT_SPECULAR
    """Reflectance of the dielectric layer at normal incidence in units of 8 %; 0 for none."""
    clearcoat: float = 0.0
    """Weight of the clearcoat, which reflects 4 % at normal incidence."""
    clearcoat_roughness: float = DEFAULT_CLEARCOAT_ROUGHNESS
    ior: float = 0.0
    """Index of refraction of clear glass; 0 for other materials. Refraction is supported by the path tracer only."""
    emission: tuple[float, float, float] = (0.0, 0.0, 0.0)
    alpha_cutoff: float = -1.0
    """Opacity below which the surface is invisible; negative for alpha blending."""
    maps: dict[str, TextureMap] = field(default_factory=dict)
    """Texture maps by role (`TEXTURE_ROLES`)."""


def make_surface(material: PbrMaterial, *, linear_colors: bool = False) -> Surface:
    """Render surface of a PBR material.

    Unspecified parameters get defaults. Clear, smooth materials without textures become glass.

    Args:
        material: material of a description or mesh file.
        linear_colors: whether its colours are linear (USD, glTF) instead of sRGB.
    """
    maps = _texture_maps(material)
    default_color = (1.0, 1.0, 1.0, 1.0) if "color" in maps else DEFAULT_COLOR
    color = default_color if material.color is None else material.color
    if material.mean_texture_color is not None and not material.texture:
        mean = material.mean_texture_color
        color = (color[0] * mean[0], color[1] * mean[1], color[2] * mean[2], color[3])
    rgb = tuple(_linear_to_srgb(np.array(color[:3])).tolist()) if linear_colors else color[:3]
    roughness = _value_or(material.roughness, 1.0 if "roughness" in maps else DEFAULT_ROUGHNESS)
    is_clear = color[3] < MAX_GLASS_OPACITY and material.roughness is not None and roughness <= MAX_GLASS_ROUGHNESS
    is_glass = is_clear and material.opacity_threshold is None and not maps
    return Surface(
        name=material.name,
        color=(*rgb, 1.0 if is_glass else color[3]),  # type: ignore[arg-type]
        metallic=_value_or(material.metallic, 1.0 if "metallic" in maps else 0.0),
        roughness=roughness,
        specular=_value_or(material.specular, DEFAULT_SPECULAR),
        clearcoat=_value_or(material.clearcoat, 1.0 if "clearcoat" in maps else 0.0),
        clearcoat_roughness=_value_or(material.clearcoat_roughness, DEFAULT_CLEARCOAT_ROUGHNESS),
        ior=GLASS_IOR if is_glass else 0.0,
        emission=material.emission or ((1.0, 1.0, 1.0) if "emission" in maps else (0.0, 0.0, 0.0)),
        alpha_cutoff=_value_or(material.opacity_threshold, -1.0),
        maps=maps,
    )


def unsupported_features(material: PbrMaterial) -> list[str]:
    """Descriptions of material features that are not rendered (unsupported maps, second texcoord sets, reflectance)."""
    images = {MapRole(role): image for role, image in material.maps.items()}
    features = [f"{role} image" for role in images if role not in TEXTURE_ROLES]
    mappings = [("color", material.texture_mapping), *((str(role), image.mapping) for role, image in images.items())]
    features += [
        f"second set of texture coordinates of the {role} image" for role, mapping in mappings if mapping.texcoord_set
    ]
    return features + (["reflectance"] if material.reflectance else [])


def _value_or(value: float | None, default: float) -> float:
    return default if value is None else float(value)


def _texture_maps(material: PbrMaterial) -> dict[str, TextureMap]:
    """Supported texture maps of a material by role, including the base colour."""
    images = {"color": Texture(file=material.texture, mapping=material.texture_mapping)} if material.texture else {}
    images |= {str(role): image for role, image in material.maps.items() if str(MapRole(role)) in TEXTURE_ROLES}
    return {role: _texture_map(role, image) for role, image in images.items()}


def _texture_map(role: str, image: Texture) -> TextureMap:
    """Texture map of a surface role (colour, roughness, ...): file, channel, wrap modes and UV transform."""
    channel = _CHANNEL_INDEX.get(image.channel, _DEFAULT_CHANNEL.get(role, 0))
    wrap = (_WRAP_MODES[image.mapping.wrap[0]], _WRAP_MODES[image.mapping.wrap[1]])
    return TextureMap(
        file=image.file,
        channel=channel,
        wrap=wrap,
        uv_transform=_uv_transform(image.mapping),
        strength=float(image.strength),
    )


def _uv_transform(placement: TextureMapping) -> tuple[float, ...]:
    """Affine transform (two rows of three) from texture to image coordinates: scale, rotation, offset."""
    c, s = np.cos(placement.rotation), np.sin(placement.rotation)
    (a, b), (x, y) = placement.scale, placement.offset
    return (c * a, -s * b, x, s * a, c * b, y)


def _linear_to_srgb(linear: Array) -> Array:
    """SRGB values of linear values, clipped to [0, 1]."""
    linear = np.clip(linear, 0.0, 1.0)
    return np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
