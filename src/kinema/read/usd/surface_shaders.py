"""Inputs of shader networks, and surfaces of MDL (OmniPBR) and MaterialX converted to physically based materials.

Parameters and images with an equivalent meaning are converted; the shader identifier is preserved as `usd:surface`. Of
other surfaces only the identifier is preserved.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kinema.description import VisualMaterial
from kinema.geometry import IMAGE_SUFFIXES, MapRole, Texture
from kinema.tokens import usd

from . import pxr
from .layers import anchor_path, layer_location
from .prim_values import to_floats
from .stage_index import StageIndex

# -- shader inputs -----------------------------------------------------------------------------------------------------


class ShaderInputs:
    """Inputs of the surface shader of a material."""

    def __init__(self, index: StageIndex, material: pxr.Prim, shader: pxr.Prim) -> None:
        self.index = index
        self.material = material
        self.shader = shader
        self._authored = index.values.facts(shader).authored

    def has_input(self, name: str) -> bool:
        """Whether an input of the surface shader is authored."""
        return usd.input_attribute(name) in self._authored

    def input_source(self, shader: pxr.Prim, name: str) -> tuple[pxr.Prim | None, str, Any]:
        """Source of an input: (connected shader, output name, None) or (None, "", value)."""
        if shader is self.shader and not self.has_input(name):
            return None, "", None
        given = shader.GetAttribute(usd.input_attribute(name))
        if not given:
            return None, "", None
        if not given.HasAuthoredConnections():  # fast path: following connections is slow
            return None, "", self.exact_value(given.Get(self.index.time))
        producing = pxr.UsdShade.Input(given).GetValueProducingAttributes()
        if not producing:
            return None, "", None
        attribute = producing[0]
        if attribute.GetName().startswith(usd.output_attribute("")):
            prim = attribute.GetPrim()
            source = prim if prim.IsA(pxr.UsdShade.Shader) else None
            return source, attribute.GetName().removeprefix(usd.output_attribute("")), None
        return None, "", self.exact_value(attribute.Get(self.index.time))

    def exact_value(self, value: Any) -> Any:
        """Shortest decimal for single-precision values, in stages of Kinema that ask for it."""
        layer_data = self.index.values.kinema_layer_data
        if layer_data is None or not layer_data.decimals:
            return value
        if isinstance(value, float):
            return float(str(np.float32(value)))
        if isinstance(value, pxr.Gf.Vec2f | pxr.Gf.Vec3f | pxr.Gf.Vec4f):
            return tuple(float(str(np.float32(v))) for v in to_floats(value))
        return value

    def input_value(self, shader: pxr.Prim, name: str) -> Any:
        """Value of an input; None if it has none or is connected to a shader output."""
        return self.input_source(shader, name)[2]

    def input_float(self, name: str) -> float | None:
        """Finite number input of the surface shader, or None."""
        value = self.input_value(self.shader, name)
        is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        return float(value) if is_number else None

    def input_vector(self, name: str) -> tuple[float, float, float] | None:
        """Input of three finite numbers of the surface shader, or None."""
        numbers = finite_floats(self.input_value(self.shader, name))
        return (numbers[0], numbers[1], numbers[2]) if len(numbers) == 3 else None

    def input_image(self, shader: pxr.Prim, name: str) -> str:
        """Image file of an input of a shader; empty if it may not be read."""
        given = shader.GetAttribute(usd.input_attribute(name))
        return self.resolve_asset(pxr.UsdShade.Input(given).GetValueProducingAttributes() if given else [])

    def resolve_asset(self, producing: Sequence[Any]) -> str:
        """Image file of an asset attribute; empty if it may not be read."""
        asset: Any = producing[0].Get(self.index.time) if producing else None
        if not isinstance(asset, pxr.Sdf.AssetPath) or not asset.path:
            return ""
        property_stack = producing[0].GetPropertyStack()
        path = (
            anchor_path(layer_location(property_stack[0].layer), str(asset.path)) if property_stack else str(asset.path)
        )
        return resolve_image(self.index, path, self.material)


def surface_shader(index: StageIndex, material: pxr.Prim, context: str, output: str) -> pxr.Prim | None:
    """Shader connected to the surface output of a material in a render context; None if there is none."""
    connected = material.GetAttribute(output).GetConnections()
    if len(connected) == 1:  # fast path: direct connection to a shader
        prim = index.stage.GetPrimAtPath(connected[0].GetPrimPath())
        name = connected[0].name
        facts = index.values.facts(prim) if prim and name.startswith(usd.output_attribute("")) else None
        if facts is not None and facts.kind.type == usd.SHADER and name in facts.authored:
            return facts.prim
    found = pxr.UsdShade.Material(material).ComputeSurfaceSource(context)[0]
    return found.GetPrim() if found else None


def shader_id(shader: pxr.Prim) -> str:
    """Value of `info:id` of a shader; empty if it is defined by a source asset."""
    return str(shader.GetAttribute(usd.SHADER_ID).Get() or "")


def resolve_image(index: StageIndex, path: str, prim: pxr.Prim) -> str:
    """Path of an image named in a stage; empty with a warning if it may not be read."""
    outer, inner = pxr.Ar.SplitPackageRelativePathOuter(path) if pxr.Ar.IsPackageRelativePath(path) else (path, "")
    name = inner or outer
    if not name.lower().endswith(IMAGE_SUFFIXES):
        found, reason = None, "it is no image"
    else:
        resolved = index.resolve.resolve(outer, index.file)
        found, reason = resolved.path, resolved.reason
    if found is None:
        message = f"the texture {path!r} of {prim.GetName()!r} was not found: {reason}"
        index.diagnostics.warning("usd.missing-texture", message, origin=index.origin(prim))
        return ""
    return f"{found}[{inner}]" if inner else str(found)


def finite_floats(value: Any) -> list[float]:
    """Numbers of a scalar or vector value; empty if not numeric or not finite."""
    if value is None or isinstance(value, str | bool):
        return []
    try:
        numbers = to_floats(value) if hasattr(value, "__len__") else [float(value)]
        return numbers if all(math.isfinite(v) for v in numbers) else []
    except (TypeError, ValueError):
        return []


def float_pair(value: Any, default: tuple[float, float]) -> tuple[float, float]:
    """Two finite numbers, or the default."""
    numbers = finite_floats(value)
    return (numbers[0], numbers[1]) if len(numbers) == 2 else default


# -- MDL and MaterialX surfaces ----------------------------------------------------------------------------------------

_MATERIALX_IMAGE_NODES = ("ND_image_", "ND_tiledimage_", "ND_UsdUVTexture", "ND_gltf_image_", "ND_gltf_colorimage")
_NORMAL_MAP_NODES = ("ND_normalmap", "ND_gltf_normalmap")


@dataclass(frozen=True, slots=True)
class _InputNames:
    """Names of the inputs of a surface shader type."""

    color: str
    weight: str = ""
    """Factor of the colour."""
    opacity: str = ""
    opacity_switch: str = ""
    """Input that enables the opacity."""
    emission: str = ""
    emission_weight: str = ""
    emission_switch: str = ""
    float_inputs: Mapping[str, str] = field(default_factory=dict)
    """Field of `VisualMaterial` -> input."""
    color_image: str = ""
    """Input with the image of the colour, if it differs from the colour input."""
    image_inputs: Mapping[MapRole, tuple[str, str]] = field(default_factory=dict)
    """Map role -> input and image channel."""


_OMNI_PBR = _InputNames(
    color="diffuse_color_constant",
    weight="albedo_brightness",
    opacity="opacity_constant",
    opacity_switch="enable_opacity",
    emission="emissive_color",
    emission_switch="enable_emission",
    float_inputs={
        "roughness": "reflection_roughness_constant",
        "metallic": "metallic_constant",
        "specular": "specular_level",
    },
    color_image="diffuse_texture",
    image_inputs={
        MapRole.ROUGHNESS: ("reflectionroughness_texture", ""),
        MapRole.METALLIC: ("metallic_texture", ""),
        MapRole.NORMAL: ("normalmap_texture", ""),
        MapRole.OCCLUSION: ("ao_texture", ""),
        MapRole.EMISSION: ("emissive_mask_texture", ""),
    },
)
_STANDARD_SURFACE = _InputNames(
    color="base_color",
    weight="base",
    opacity="opacity",
    emission="emission_color",
    emission_weight="emission",
    float_inputs={
        "roughness": "specular_roughness",
        "metallic": "metalness",
        "specular": "specular",
        "clearcoat": "coat",
        "clearcoat_roughness": "coat_roughness",
    },
    image_inputs={
        MapRole.ROUGHNESS: ("specular_roughness", ""),
        MapRole.METALLIC: ("metalness", ""),
        MapRole.NORMAL: ("normal", ""),
        MapRole.EMISSION: ("emission_color", ""),
    },
)
_OPEN_PBR = _InputNames(
    color="base_color",
    weight="base_weight",
    opacity="geometry_opacity",
    float_inputs={
        "roughness": "specular_roughness",
        "metallic": "base_metalness",
        "specular": "specular_weight",
        "clearcoat": "coat_weight",
        "clearcoat_roughness": "coat_roughness",
    },
    image_inputs={
        MapRole.ROUGHNESS: ("specular_roughness", ""),
        MapRole.METALLIC: ("base_metalness", ""),
        MapRole.NORMAL: ("geometry_normal", ""),
    },
)
_GLTF = _InputNames(
    color="base_color",
    opacity="alpha",
    emission="emissive",
    emission_weight="emissive_strength",
    float_inputs={
        "roughness": "roughness",
        "metallic": "metallic",
        "specular": "specular",
        "clearcoat": "clearcoat",
        "clearcoat_roughness": "clearcoat_roughness",
    },
    image_inputs={
        MapRole.ROUGHNESS: ("roughness", ""),
        MapRole.METALLIC: ("metallic", ""),
        MapRole.NORMAL: ("normal", ""),
        MapRole.OCCLUSION: ("occlusion", ""),
        MapRole.EMISSION: ("emissive", ""),
    },
)
_USD_PREVIEW_SURFACE = _InputNames(
    color=usd.DIFFUSE_COLOR,
    opacity=usd.OPACITY,
    emission=usd.EMISSIVE_COLOR,
    float_inputs={
        "roughness": usd.ROUGHNESS,
        "metallic": usd.METALLIC,
        "clearcoat": usd.CLEARCOAT,
        "clearcoat_roughness": usd.CLEARCOAT_ROUGHNESS,
    },
    image_inputs={
        MapRole.ROUGHNESS: (usd.ROUGHNESS, ""),
        MapRole.METALLIC: (usd.METALLIC, ""),
        MapRole.NORMAL: (usd.NORMAL, ""),
        MapRole.OCCLUSION: (usd.OCCLUSION, ""),
        MapRole.EMISSION: (usd.EMISSIVE_COLOR, ""),
    },
)
_INPUT_NAMES_BY_SHADER = {
    "OmniPBR": _OMNI_PBR,
    "ND_standard_surface_surfaceshader": _STANDARD_SURFACE,
    "ND_open_pbr_surface_surfaceshader": _OPEN_PBR,
    "ND_gltf_pbr_surfaceshader": _GLTF,
    "ND_UsdPreviewSurface_surfaceshader": _USD_PREVIEW_SURFACE,
}

_SURFACE_OUTPUTS = {
    "": usd.SURFACE_OUTPUT,
    **{name: usd.output_attribute(f"{name}:surface") for name in ("mdl", "mtlx")},
}
"""Render context -> surface output."""


def read_mdl_or_materialx_surface(index: StageIndex, material: pxr.Prim) -> VisualMaterial | None:
    """Visual material of an MDL or MaterialX surface, as far as convertible; None without surface."""
    authored = index.values.facts(material).authored
    for context, output in _SURFACE_OUTPUTS.items():
        shader = surface_shader(index, material, context, output) if output in authored else None
        if shader is None:
            continue
        file, kind = _mdl_source(index, shader)
        result = VisualMaterial(name=material.GetName(), origin=index.origin(material))
        name = f"{file} {kind}".strip()
        if name:
            result.attributes[usd.PRESERVED_SURFACE] = name
        if kind in _INPUT_NAMES_BY_SHADER:
            _MdlOrMaterialXSurface(index, material, shader, _INPUT_NAMES_BY_SHADER[kind]).fill_material(result)
        return result
    return None


def _mdl_source(index: StageIndex, shader: pxr.Prim) -> tuple[str, str]:
    """MDL file and material name of a shader; without a file, the shader identifier."""
    authored = index.values.facts(shader).authored
    kind = shader_id(shader) if usd.SHADER_ID in authored else ""
    if usd.SHADER_SOURCE not in authored or shader.GetAttribute(usd.SHADER_SOURCE).Get() != usd.SOURCE_ASSET:
        return "", kind
    asset = next((shader.GetAttribute(name).Get() for name in usd.MDL_ASSETS if name in authored), None)
    if asset is not None and not kind:
        kind = next(
            (str(shader.GetAttribute(name).Get() or "") for name in usd.MDL_SUB_IDENTIFIERS if name in authored), ""
        )
    return ("" if asset is None else asset.path), kind


class _MdlOrMaterialXSurface(ShaderInputs):
    """Conversion of one MDL or MaterialX surface to a visual material."""

    def __init__(self, index: StageIndex, material: pxr.Prim, shader: pxr.Prim, input_names: _InputNames) -> None:
        super().__init__(index, material, shader)
        self._input_names = input_names

    def fill_material(self, result: VisualMaterial) -> None:
        """Set colour, emission, numbers and images of a visual material from the surface."""
        names = self._input_names
        for name, input_name in names.float_inputs.items():
            setattr(result, name, self.input_float(input_name))
        result.texture = self._image_file(names.color_image or names.color)
        result.color = self._color(has_image=bool(result.texture))
        result.emission = self._emission()
        for role, (input_name, channel) in names.image_inputs.items():
            file = self._image_file(input_name)
            if file:
                result.maps[role] = Texture(file=file, channel=channel)

    def _color(self, *, has_image: bool) -> tuple[float, float, float, float] | None:
        """Base colour times weight with opacity, RGBA; None if unset."""
        names = self._input_names
        color, opacity = self.input_vector(names.color), self._opacity()
        if color is None and opacity is None:
            return None
        weight = self.input_float(names.weight) if names.weight and color is not None else None
        # MDL's image replaces the constant colour
        red, green, blue = (1.0, 1.0, 1.0) if color is None or (has_image and names.color_image) else color
        factor = 1.0 if weight is None else weight
        return red * factor, green * factor, blue * factor, 1.0 if opacity is None else opacity

    def _opacity(self) -> float | None:
        names = self._input_names
        if not names.opacity or (names.opacity_switch and not self.input_value(self.shader, names.opacity_switch)):
            return None
        numbers = finite_floats(self.input_value(self.shader, names.opacity))
        return sum(numbers) / len(numbers) if numbers else None

    def _emission(self) -> tuple[float, float, float] | None:
        """Emission colour times weight; None if unset or disabled."""
        names = self._input_names
        if not names.emission or (names.emission_switch and not self.input_value(self.shader, names.emission_switch)):
            return None
        color = self.input_vector(names.emission)
        weight = self.input_float(names.emission_weight) if names.emission_weight else None
        if names is _STANDARD_SURFACE:  # its default weight is zero
            weight = weight or 0.0
        if color is None or weight == 0.0:
            return None
        factor = 1.0 if weight is None else weight
        return color[0] * factor, color[1] * factor, color[2] * factor

    def _image_file(self, input_name: str) -> str:
        """Image of an input: given by the input (MDL) or by the connected node (MaterialX)."""
        if not self.has_input(input_name):
            return ""
        shader, _, _ = self.input_source(self.shader, input_name)
        for _ in range(2):  # normal maps have an additional node
            if shader is None:
                break
            kind = shader_id(shader)
            if kind.startswith(_MATERIALX_IMAGE_NODES):
                return self.input_image(shader, usd.FILE)
            shader = self.input_source(shader, usd.TRANSFORM_IN)[0] if kind.startswith(_NORMAL_MAP_NODES) else None
        given = self.shader.GetAttribute(usd.input_attribute(input_name))
        producing = pxr.UsdShade.Input(given).GetValueProducingAttributes() if given else []
        is_asset = bool(producing) and isinstance(producing[0].Get(self.index.time), pxr.Sdf.AssetPath)
        return self.resolve_asset(producing) if is_asset else ""
