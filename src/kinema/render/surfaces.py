"""What surfaces look like: numbers and images, from the looks of a description."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from kinema.foundation import Array
from kinema.shapes import Look, MapRole, Placement, Texture, Wrap

GREY = (0.72, 0.72, 0.72, 1.0)
"""Of what has no colour of its own."""
COAT_ROUGHNESS = 0.01
ROUGHNESS, SPECULAR = 0.5, 0.5
"""Of what says nothing of it: 0.5 of specular reflects 4 % straight on, as plastics and paint do."""
GLASS_INDEX = 1.5
GLASS_OPACITY, GLASS_ROUGHNESS = 0.5, 0.1
"""What is less opaque and at most that rough is taken for glass by the path tracer."""

MAPS = ("color", "opacity", "metallic", "roughness", "emission", "normal", "occlusion", "specular", "clearcoat")
"""The images that are used, in the order of the kernels' slots."""
_CHANNELS = {"r": 0, "g": 1, "b": 2, "a": 3}
_USUAL_CHANNEL = {"opacity": 3, "metallic": 2, "roughness": 1}
_WRAPS = {Wrap.REPEAT: 0, Wrap.CLAMP: 1, Wrap.MIRROR: 2, Wrap.BLACK: 3}


@dataclass(frozen=True, kw_only=True)
class Map:
    """An image laid on a surface."""

    file: str
    channel: int = 0
    wrap: tuple[int, int] = (0, 0)
    place: tuple[float, ...] = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0)
    """From texture coordinates to those of the image: two rows of a linear map with an offset."""
    strength: float = 1.0


@dataclass(kw_only=True, eq=False)
class Surface:
    """The look of a surface. Colours are as a display takes them (sRGB); emission is light itself, without a bound."""

    name: str = ""
    color: tuple[float, float, float, float] = GREY
    """Red, green, blue, and how opaque."""
    metallic: float = 0.0
    roughness: float = ROUGHNESS
    specular: float = SPECULAR
    """What the surface of the base reflects straight on, in units of 8 %; 0 for none."""
    clearcoat: float = 0.0
    """How much of it is under a coat of clear varnish, which reflects 4 % straight on."""
    clearcoat_roughness: float = COAT_ROUGHNESS
    glass: float = 0.0
    """The index of refraction of clear glass; 0 for what is none. Only the path tracer bends light."""
    emission: tuple[float, float, float] = (0.0, 0.0, 0.0)
    cutoff: float = -1.0
    """Opacity below which there is nothing; negative where it blends."""
    maps: dict[str, Map] = field(default_factory=dict)
    """Images, by `MAPS`."""


def surface_of(look: Look, *, linear: bool = False) -> Surface:
    """The surface of a look.

    Args:
        look: of a description or a mesh file.
        linear: whether its colours are in proportion to light (USD, glTF), not as a display takes them.
    """
    maps = _maps(look)
    plain = (1.0, 1.0, 1.0, 1.0) if "color" in maps else GREY
    color = plain if look.color is None else look.color
    if look.image_color is not None and not look.texture:
        mean = look.image_color
        color = (color[0] * mean[0], color[1] * mean[1], color[2] * mean[2], color[3])
    rgb = tuple(_to_display(np.array(color[:3])).tolist()) if linear else color[:3]
    roughness = _said(look.roughness, 1.0 if "roughness" in maps else ROUGHNESS)
    clear = color[3] < GLASS_OPACITY and look.roughness is not None and roughness <= GLASS_ROUGHNESS
    glass = clear and look.opacity_threshold is None and not maps
    return Surface(
        name=look.name,
        color=(*rgb, 1.0 if glass else color[3]),  # type: ignore[arg-type]
        metallic=_said(look.metallic, 1.0 if "metallic" in maps else 0.0),
        roughness=roughness,
        specular=_said(look.specular, SPECULAR),
        clearcoat=_said(look.clearcoat, 1.0 if "clearcoat" in maps else 0.0),
        clearcoat_roughness=_said(look.clearcoat_roughness, COAT_ROUGHNESS),
        glass=GLASS_INDEX if glass else 0.0,
        emission=look.emission or ((1.0, 1.0, 1.0) if "emission" in maps else (0.0, 0.0, 0.0)),
        cutoff=_said(look.opacity_threshold, -1.0),
        maps=maps,
    )


def unused_maps(look: Look) -> list[str]:
    """What a look has that is not shown, in words."""
    images = {MapRole(role): image for role, image in look.maps.items()}
    left = [f"{role} image" for role in images if role not in MAPS]
    placed = [("color", look.placement), *((str(role), image.placement) for role, image in images.items())]
    left += [f"another set of coordinates of the {role} image" for role, place in placed if place.coordinates]
    return left + (["reflectance"] if look.reflectance else [])


def _said(value: float | None, otherwise: float) -> float:
    return otherwise if value is None else float(value)


def _maps(look: Look) -> dict[str, Map]:
    images = {"color": Texture(file=look.texture, placement=look.placement)} if look.texture else {}
    images |= {str(role): image for role, image in look.maps.items() if str(MapRole(role)) in MAPS}
    return {role: _map(role, image) for role, image in images.items()}


def _map(role: str, image: Texture) -> Map:
    channel = _CHANNELS.get(image.channel, _USUAL_CHANNEL.get(role, 0))
    wrap = (_WRAPS[image.placement.wrap[0]], _WRAPS[image.placement.wrap[1]])
    return Map(
        file=image.file, channel=channel, wrap=wrap, place=_place(image.placement), strength=float(image.strength)
    )


def _place(placement: Placement) -> tuple[float, ...]:
    c, s = np.cos(placement.rotation), np.sin(placement.rotation)
    (a, b), (x, y) = placement.scale, placement.offset
    return (c * a, -s * b, x, s * a, c * b, y)


def _to_display(light: Array) -> Array:
    """What a display takes for amounts of light."""
    light = np.clip(light, 0.0, 1.0)
    return np.where(light <= 0.0031308, 12.92 * light, 1.055 * light ** (1 / 2.4) - 0.055)
