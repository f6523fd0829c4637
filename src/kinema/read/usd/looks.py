"""Materials as looks: networks of UsdPreviewSurface with their textures; of other surfaces the name is kept."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from kinema.description import VisualMaterial
from kinema.shapes import IMAGE_SUFFIXES, MapRole, Placement, Texture, Wrap, roughness_of_shininess
from kinema.words import mjcf, ours, usd

from . import pxr
from .layers import beside, place_of
from .own_names import kept_attributes
from .own_settings import own
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
    shader = pxr.UsdShade.Material(material).ComputeSurfaceSource()[0]
    if not shader or shader.GetIdAttr().Get() != usd.PREVIEW_SURFACE:
        return None
    return _Surface(index, material, shader).look()


def surface_name(material: pxr.Prim) -> str:
    """What makes a material that is no preview surface: the name of its shader, or its MDL file and name."""
    for context in ("", "mdl", "mtlx"):
        shader = pxr.UsdShade.Material(material).ComputeSurfaceSource(context)[0]
        if not shader:
            continue
        if name := str(shader.GetIdAttr().Get() or ""):
            return name
        asset = shader.GetSourceAsset("mdl")
        if asset is not None:
            return f"{asset.path} {shader.GetSourceAssetSubIdentifier('mdl')}".strip()
    return ""


class _Surface:
    """One preview surface on its way into a look."""

    def __init__(self, index: StageIndex, material: pxr.Prim, shader: Any) -> None:
        self._index = index
        self._material = material
        self._shader = shader

    def look(self) -> VisualMaterial:
        """The look."""
        index, material = self._index, self._material
        kept = own(index, material, ours.NAME)
        emission = self._vector(usd.EMISSIVE_COLOR)
        look = VisualMaterial(
            name=material.GetName() if kept is None else str(kept),
            origin=index.origin(material),
            emission=emission,
            metallic=self._number(usd.METALLIC),
            roughness=self._number(usd.ROUGHNESS),
            clearcoat=self._number(usd.CLEARCOAT),
            clearcoat_roughness=self._number(usd.CLEARCOAT_ROUGHNESS),
            opacity_threshold=self._number(usd.OPACITY_THRESHOLD) or None,
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
        shininess = own(self._index, self._material, ours.SHININESS)
        if shininess is None:
            return
        look.attributes[mjcf.key(mjcf.SHININESS)] = shininess
        if look.roughness is not None and abs(look.roughness - roughness_of_shininess(shininess)) < 1e-6:
            look.roughness = None

    def _base(self, look: VisualMaterial) -> None:
        diffuse, opacity = self._vector(usd.DIFFUSE_COLOR), self._number(usd.OPACITY)
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
        if not look.texture and own(self._index, self._material, ours.TEXTURE) is not None:
            look.texture = self._asset([self._material.GetAttribute(ours.TEXTURE.name)])

    # -- inputs --

    def _source(self, shader: Any, name: str) -> tuple[Any, str, Any]:
        """What feeds an input: a shader and its output, or a value."""
        given = shader.GetInput(name)
        if not given:
            return None, "", None
        producing = given.GetValueProducingAttributes()
        if not producing:
            return None, "", None
        attribute = producing[0]
        if attribute.GetName().startswith(usd.output_of("")):
            return pxr.UsdShade.Shader(attribute.GetPrim()), attribute.GetName().removeprefix(usd.output_of("")), None
        return None, "", self._exact(attribute.Get(self._index.time))

    def _exact(self, value: Any) -> Any:
        """In a stage of Kinema's, numbers in single precision stand for the shortest decimals that round to them."""
        stamp = self._index.values.stamp
        if stamp is None or not stamp.decimals:
            return value
        if isinstance(value, float):
            return float(str(np.float32(value)))
        if isinstance(value, pxr.Gf.Vec2f | pxr.Gf.Vec3f | pxr.Gf.Vec4f):
            return tuple(float(str(np.float32(v))) for v in value)
        return value

    def _value(self, shader: Any, name: str) -> Any:
        return self._source(shader, name)[2]

    def _number(self, name: str) -> float | None:
        value = self._value(self._shader, name)
        is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        return float(value) if is_number else None

    def _vector(self, name: str) -> tuple[float, float, float] | None:
        numbers = _numbers(self._value(self._shader, name))
        return (numbers[0], numbers[1], numbers[2]) if len(numbers) == 3 else None

    def _image(self, name: str) -> _Image | None:
        shader, output, _ = self._source(self._shader, name)
        if not shader or shader.GetIdAttr().Get() != usd.UV_TEXTURE:
            return None
        file = self._file(shader)
        if not file:
            return None
        factor = _numbers(self._value(shader, usd.TEXTURE_SCALE))
        scale = (factor[0], factor[1], factor[2], factor[3]) if len(factor) == 4 else _WHITE
        channel = output if output in ("r", "g", "b", "a") else ""
        # a normal map is stretched from 0 .. 1 to -1 .. 1
        strength = {usd.NORMAL: scale[0] / 2.0, usd.OCCLUSION: scale[0]}.get(name, 1.0) if len(factor) == 4 else 1.0
        kept = own(self._index, shader.GetPrim(), ours.STRENGTH)
        strength = strength if kept is None else kept
        texture = Texture(file=file, channel=channel, strength=strength, placement=self._placement(shader))
        return _Image(texture, scale, len(factor) == 4)

    def _placement(self, shader: Any) -> Placement:
        wrap = tuple(_WRAPS.get(str(self._value(shader, name)), Wrap.REPEAT) for name in (usd.WRAP_S, usd.WRAP_T))
        scale, offset, turn, number = (1.0, 1.0), (0.0, 0.0), 0.0, 0
        source, _, _ = self._source(shader, usd.COORDINATES_INPUT)
        for _ in range(_DEPTH):
            kind = source.GetIdAttr().Get() if source else None
            if kind == usd.TRANSFORM_2D:
                scale = _pair(self._value(source, usd.TEXTURE_SCALE), scale)
                offset = _pair(self._value(source, usd.TRANSFORM_TRANSLATION), offset)
                turn = math.radians(_numbers(self._value(source, usd.TRANSFORM_ROTATION) or 0.0)[0])
                source, _, _ = self._source(source, usd.TRANSFORM_IN)
            else:
                if kind == usd.PRIMVAR_READER_2:
                    number = coordinate_set(str(self._value(source, usd.VARNAME) or ""))
                break
        return Placement(wrap=wrap, scale=scale, offset=offset, rotation=turn, coordinates=number)  # type: ignore[arg-type]

    def _file(self, shader: Any) -> str:
        """The image of a texture's shader, if it may be read."""
        given = shader.GetInput(usd.FILE)
        return self._asset(given.GetValueProducingAttributes() if given else [])

    def _asset(self, producing: Sequence[Any]) -> str:
        asset: Any = producing[0].Get(self._index.time) if producing else None
        if not isinstance(asset, pxr.Sdf.AssetPath) or not asset.path:
            return ""
        said_by = producing[0].GetPropertyStack()
        path = beside(place_of(said_by[0].layer), str(asset.path)) if said_by else str(asset.path)
        return allowed_image(self._index, path, self._material)


def allowed_image(index: StageIndex, path: str, owner: pxr.Prim) -> str:
    """The file of an image that a stage names, if it may be read; else nothing, and a warning."""
    outer, inner = pxr.Ar.SplitPackageRelativePathOuter(path) if pxr.Ar.IsPackageRelativePath(path) else (path, "")
    name = inner or outer
    if not name.lower().endswith(IMAGE_SUFFIXES):
        found, reason = None, "it is no image"
    else:
        resolved = index.resolve.resolve(outer, index.file)
        found, reason = resolved.path, resolved.reason
    if found is None:
        message = f"the texture {path!r} of {owner.GetName()!r} was not found: {reason}"
        index.diagnostics.warning("usd.missing-texture", message, origin=index.origin(owner))
        return ""
    return f"{found}[{inner}]" if inner else str(found)


def coordinate_set(name: str) -> int:
    """Which set of texture coordinates a primvar's name stands for: `st` is the first, `st1` the second."""
    digits = name[len(name.rstrip("0123456789")) :]
    return min(int(digits), 7) if digits and len(digits) < 3 else 0


def is_constant(prim: pxr.Prim, name: str) -> bool:
    """Whether a primvar has one value for the whole of its prim."""
    primvar = pxr.UsdGeom.Primvar(prim.GetAttribute(name))
    return not primvar or str(primvar.GetInterpolation()) == usd.CONSTANT


def _numbers(value: Any) -> list[float]:
    if value is None or isinstance(value, str | bool):
        return []
    try:
        numbers = [float(v) for v in value] if hasattr(value, "__len__") else [float(value)]
    except (TypeError, ValueError):
        return []
    return numbers if all(math.isfinite(v) for v in numbers) else []


def _pair(value: Any, default: tuple[float, float]) -> tuple[float, float]:
    numbers = _numbers(value)
    return (numbers[0], numbers[1]) if len(numbers) == 2 else default
