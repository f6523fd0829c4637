"""What a surface looks like: numbers, and the images that are laid on it.

The model is the one that glTF, UsdPreviewSurface and SDFormat's `<pbr>` share: a base colour, how metallic and how
rough the surface is, the light it gives off. Older models are taken into it and out of it by the functions at the end.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass, field, replace

Color = tuple[float, float, float, float]


class Wrap(enum.StrEnum):
    """What is seen beyond the edges of an image."""

    REPEAT = "repeat"
    CLAMP = "clamp"
    MIRROR = "mirror"
    BLACK = "black"


class MapRole(enum.StrEnum):
    """What an image says of a surface, beside its colour."""

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
class Placement:
    """How an image lies on a surface: at `rotate(coordinates * scale) + offset`, v counted upwards."""

    wrap: tuple[Wrap, Wrap] = (Wrap.REPEAT, Wrap.REPEAT)
    scale: tuple[float, float] = (1.0, 1.0)
    """How often the image fits into one unit of the coordinates, in u and v."""
    offset: tuple[float, float] = (0.0, 0.0)
    rotation: float = 0.0
    """Counter-clockwise [rad]."""
    coordinates: int = 0
    """Which of the mesh's sets of texture coordinates it uses."""


PLAIN_PLACEMENT = Placement()


@dataclass(frozen=True, kw_only=True, slots=True)
class Texture:
    """An image that says something else than the base colour."""

    file: str
    """The image: a file, or `file[part]` for one inside of another (see `images`)."""
    channel: str = ""
    """`r`, `g`, `b` or `a` where one number is wanted and the image has several; empty for the usual one."""
    strength: float = 1.0
    """How much of it counts: of a normal map, and of occlusion."""
    placement: Placement = PLAIN_PLACEMENT


@dataclass(kw_only=True, eq=False)
class Look:
    """The look of a surface; None where the file says nothing."""

    name: str = ""
    color: Color | None = None
    """Red, green, blue, alpha, each 0 to 1; None where the file gives no colour. A texture is multiplied by it."""
    texture: str = ""
    """The image of the base colour: a file, or `file[part]`; empty for none."""
    placement: Placement = PLAIN_PLACEMENT
    """How that image lies."""
    image_color: tuple[float, float, float] | None = None
    """The mean colour of six images that only MuJoCo can lay around a shape, beside the colour. On meshes `texture` has
    them too, as one (`CubeProjection`)."""
    emission: tuple[float, float, float] | None = None
    specular: float | None = None
    metallic: float | None = None
    roughness: float | None = None
    reflectance: float | None = None
    clearcoat: float | None = None
    clearcoat_roughness: float | None = None
    opacity_threshold: float | None = None
    """Where the surface is less opaque than this it is not there at all, else it is solid; None where it blends."""
    double_sided: bool | None = None
    maps: dict[str, Texture] = field(default_factory=dict)
    """Other images: `MapRole` -> image."""

    @property
    def says_anything(self) -> bool:
        """Whether there is more to it than a name."""
        numbers = (self.color, self.emission, self.specular, self.metallic, self.roughness, self.reflectance)
        more = (self.clearcoat, self.opacity_threshold, self.double_sided)
        return bool(self.texture or self.maps) or any(value is not None for value in (*numbers, *more))

    @property
    def is_only_a_color(self) -> bool:
        """Whether a colour is all that it says, beside its name and the sides that it is seen from."""
        return self.color is not None and not replace(self, color=None, double_sided=None).says_anything

    @property
    def images(self) -> list[str]:
        """The files of all images, the base colour's first."""
        files = [self.texture, *(texture.file for texture in self.maps.values())]
        return [file for file in dict.fromkeys(files) if file]


# Older models ---------------------------------------------------------------------------------------------------------


def roughness_of_exponent(exponent: float) -> float:
    """The roughness of a highlight with Phong's exponent: that of Beckmann's microfacets, alpha = roughness squared."""
    alpha = math.sqrt(2.0 / (max(exponent, 0.0) + 2.0))
    return math.sqrt(alpha)


def exponent_of_roughness(roughness: float) -> float:
    """Phong's exponent for a roughness of at least 0.01; the inverse of `roughness_of_exponent`."""
    return 2.0 / max(roughness, 1e-2) ** 4 - 2.0


def roughness_of_shininess(shininess: float) -> float:
    """The roughness of MuJoCo's shininess, which is Phong's exponent against its largest in OpenGL, 128."""
    return roughness_of_exponent(128.0 * shininess)
