"""Materials as looks: networks of UsdPreviewSurface with their textures; those of others are in `other_surfaces`."""

from __future__ import annotations

import math
from typing import NamedTuple

from kinema.description import VisualMaterial
from kinema.shapes import MapRole, Placement, Texture, Wrap, roughness_of_shininess
from kinema.words import mjcf, ours, usd

from . import pxr
from .own_names import kept_attributes
from .own_settings import own
from .shader_inputs import ShaderInputs, kind_of_shader, plain_numbers, plain_pair, surface_shader
from .stage_index import StageIndex

_ROLES = {
    usd.OPACITY: MapRole.OPACITY,
    usd.METALLIC: MapRole.METALLIC,
    usd.ROUGHNESS: MapRole.ROUGHNESS,
    usd.EMISSIVE_COLOR: MapRole.EMISSION,
    usd.NORMAL: MapRole.NORMAL,
    usd.OCCLUSION: MapRole.OCCLUSION,
    usd.CLEARCOAT: MapRole.CLEARCOAT,
}
_WRAPS = {"repeat": Wrap.REPEAT, "clamp": Wrap.CLAMP, "mirror": Wrap.MIRROR, "black": Wrap.BLACK}
_WHITE = (1.0, 1.0, 1.0, 1.0)
_DEPTH = 8
"""How many shaders may stand one behind the other between a texture and its coordinates."""


class _Image(NamedTuple):
    """A texture that an input is connected to."""

    texture: Texture
    factor: tuple[float, float, float, float]
    is_scaled: bool
    """Whether the stage says the factor."""


def read_look(index: StageIndex, material: pxr.Prim) -> VisualMaterial | None:
    """A material's preview surface; None where it has none."""
    if usd.SURFACE_OUTPUT not in index.values.facts(material).authored:
        return None
    shader = surface_shader(index, material, "", usd.SURFACE_OUTPUT)
    if shader is None or kind_of_shader(shader) != usd.PREVIEW_SURFACE:
        return None
    return _Surface(index, material, shader).look()


class _Surface(ShaderInputs):
    """One preview surface on its way into a look."""

    def look(self) -> VisualMaterial:
        """The look."""
        index, material = self.index, self.material
        kept = own(index, material, ours.NAME)
        emission = self.vector(usd.EMISSIVE_COLOR)
        look = VisualMaterial(
            name=material.GetName() if kept is None else str(kept),
            origin=index.origin(material),
            emission=emission,
            metallic=self.number(usd.METALLIC),
            roughness=self.number(usd.ROUGHNESS),
            clearcoat=self.number(usd.CLEARCOAT),
            clearcoat_roughness=self.number(usd.CLEARCOAT_ROUGHNESS),
            opacity_threshold=self.number(usd.OPACITY_THRESHOLD) or None,
            specular=own(index, material, ours.SPECULAR),
            reflectance=own(index, material, ours.REFLECTANCE),
        )
        look.attributes |= kept_attributes(index, material)
        self._shininess(look)
        self._base(look)
        for name, role in _ROLES.items():
            image = self._image(name)
            if image is None:
                continue
            look.maps[role] = image.texture
            if role is MapRole.EMISSION:
                look.emission = image.factor[:3]
            elif image.is_scaled and role in (MapRole.METALLIC, MapRole.ROUGHNESS, MapRole.CLEARCOAT):
                factor = image.factor["rgba".index(image.texture.channel or "r")]
                setattr(look, role.value, factor)
        return look

    def _shininess(self, look: VisualMaterial) -> None:
        """MuJoCo's shininess, and no roughness where that only follows from it."""
        shininess = own(self.index, self.material, ours.SHININESS)
        if shininess is None:
            return
        look.attributes[mjcf.key(mjcf.SHININESS)] = shininess
        if look.roughness is not None and abs(look.roughness - roughness_of_shininess(shininess)) < 1e-6:
            look.roughness = None

    def _base(self, look: VisualMaterial) -> None:
        diffuse, opacity = self.vector(usd.DIFFUSE_COLOR), self.number(usd.OPACITY)
        image = self._image(usd.DIFFUSE_COLOR)
        alpha = 1.0 if opacity is None else opacity
        if image is not None:
            look.texture, look.placement = image.texture.file, image.texture.placement
            if image.is_scaled or alpha != 1.0:
                look.color = (*image.factor[:3], alpha)
        elif diffuse is not None:
            look.color = (*diffuse, alpha)
        elif opacity is not None:
            look.color = (1.0, 1.0, 1.0, alpha)
        if not look.texture and own(self.index, self.material, ours.TEXTURE) is not None:
            look.texture = self.asset([self.material.GetAttribute(ours.TEXTURE.name)])
        mean = own(self.index, self.material, ours.IMAGE_COLOR)
        look.image_color = None if mean is None else (mean[0], mean[1], mean[2])
        self._color_beside_image(look, alpha)

    def _color_beside_image(self, look: VisualMaterial, alpha: float) -> None:
        """The colour without the image's mean, where that is what the stage still shows."""
        kept, shown = (own(self.index, self.material, s) for s in (ours.COLOR, ours.COLOR_SHOWN))
        if kept is None or shown is None or look.color is None or not (look.texture or look.image_color):
            return
        if max(abs(a - b) for a, b in zip(look.color, shown, strict=False)) < 1e-6:
            color = tuple(kept)
            look.color = (*color, alpha) if len(color) == 3 else None

    # -- images --

    def _image(self, name: str) -> _Image | None:
        shader, output, _ = self.source(self.shader, name)
        if shader is None or kind_of_shader(shader) != usd.UV_TEXTURE:
            return None
        file = self.image_of(shader, usd.FILE)
        if not file:
            return None
        factor = plain_numbers(self.value(shader, usd.TEXTURE_SCALE))
        scale = (factor[0], factor[1], factor[2], factor[3]) if len(factor) == 4 else _WHITE
        channel = output if output in ("r", "g", "b", "a") else ""
        # a normal map is stretched from 0 .. 1 to -1 .. 1
        strength = {usd.NORMAL: scale[0] / 2.0, usd.OCCLUSION: scale[0]}.get(name, 1.0) if len(factor) == 4 else 1.0
        kept = own(self.index, shader, ours.STRENGTH)
        strength = strength if kept is None else kept
        texture = Texture(file=file, channel=channel, strength=strength, placement=self._placement(shader))
        return _Image(texture, scale, len(factor) == 4)

    def _placement(self, shader: pxr.Prim) -> Placement:
        wrap = tuple(_WRAPS.get(str(self.value(shader, name)), Wrap.REPEAT) for name in (usd.WRAP_S, usd.WRAP_T))
        scale, offset, turn, number = (1.0, 1.0), (0.0, 0.0), 0.0, 0
        source, _, _ = self.source(shader, usd.COORDINATES_INPUT)
        for _ in range(_DEPTH):
            kind = "" if source is None else kind_of_shader(source)
            if kind == usd.TRANSFORM_2D:
                scale = plain_pair(self.value(source, usd.TEXTURE_SCALE), scale)
                offset = plain_pair(self.value(source, usd.TRANSFORM_TRANSLATION), offset)
                turn = math.radians(plain_numbers(self.value(source, usd.TRANSFORM_ROTATION) or 0.0)[0])
                source, _, _ = self.source(source, usd.TRANSFORM_IN)
            else:
                if kind == usd.PRIMVAR_READER_2:
                    number = coordinate_set(str(self.value(source, usd.VARNAME) or ""))
                break
        return Placement(wrap=wrap, scale=scale, offset=offset, rotation=turn, coordinates=number)  # type: ignore[arg-type]


def coordinate_set(name: str) -> int:
    """Which set of texture coordinates a primvar's name stands for: `st` is the first, `st1` the second."""
    digits = name[len(name.rstrip("0123456789")) :]
    return min(int(digits), 7) if digits and len(digits) < 3 else 0


def is_constant(prim: pxr.Prim, name: str) -> bool:
    """Whether a primvar has one value for the whole of its prim."""
    primvar = pxr.UsdGeom.Primvar(prim.GetAttribute(name))
    return not primvar or str(primvar.GetInterpolation()) == usd.CONSTANT
