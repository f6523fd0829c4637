"""Materials bound to shapes: visual materials from UsdPreviewSurface networks, and physics materials."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from kinema.description import PhysicsMaterial, VisualMaterial
from kinema.geometry import MapRole, Texture, TextureMapping, WrapMode, roughness_from_shininess
from kinema.tokens import kinema_usd, mjcf, usd, usd_physics

from . import pxr
from .kinema_attributes import preserved_attributes, restore_physics_material, stored_fields
from .prim_values import to_floats
from .stage_index import StageIndex
from .surface_shaders import (
    ShaderInputs,
    finite_floats,
    float_pair,
    read_mdl_or_materialx_surface,
    shader_id,
    surface_shader,
)
from .vendor_schemas import (
    CONTACT_ATTRIBUTES,
    MATERIAL_ATTRIBUTES,
    contact_fields,
    material_fields,
    preserve_vendor_attributes,
)

# -- preview surfaces --------------------------------------------------------------------------------------------------

_MAP_ROLES = {
    usd.OPACITY: MapRole.OPACITY,
    usd.METALLIC: MapRole.METALLIC,
    usd.ROUGHNESS: MapRole.ROUGHNESS,
    usd.EMISSIVE_COLOR: MapRole.EMISSION,
    usd.NORMAL: MapRole.NORMAL,
    usd.OCCLUSION: MapRole.OCCLUSION,
    usd.CLEARCOAT: MapRole.CLEARCOAT,
}
_WRAP_MODES = {"repeat": WrapMode.REPEAT, "clamp": WrapMode.CLAMP, "mirror": WrapMode.MIRROR, "black": WrapMode.BLACK}
_WHITE = (1.0, 1.0, 1.0, 1.0)
_MAX_SHADER_CHAIN = 8
"""Maximum number of shaders between a texture and its coordinates."""


class _TextureInput(NamedTuple):
    """Texture connected to a shader input, with its scale factor."""

    texture: Texture
    factor: tuple[float, float, float, float]
    is_scaled: bool
    """Whether the factor is authored."""


def read_preview_surface(index: StageIndex, material: pxr.Prim) -> VisualMaterial | None:
    """Visual material of the UsdPreviewSurface of a material prim; None if it has none."""
    if usd.SURFACE_OUTPUT not in index.values.facts(material).authored:
        return None
    shader = surface_shader(index, material, "", usd.SURFACE_OUTPUT)
    if shader is None or shader_id(shader) != usd.PREVIEW_SURFACE:
        return None
    return _PreviewSurface(index, material, shader).to_material()


class _PreviewSurface(ShaderInputs):
    """Conversion of one UsdPreviewSurface network to a visual material."""

    def to_material(self) -> VisualMaterial:
        """The visual material with colour, textures and maps."""
        index, material = self.index, self.material
        stored_name = index.custom_value(material, kinema_usd.NAME)
        emission = self.input_vector(usd.EMISSIVE_COLOR)
        result = VisualMaterial(
            name=material.GetName() if stored_name is None else stored_name,
            origin=index.origin(material),
            emission=emission,
            metallic=self.input_float(usd.METALLIC),
            roughness=self.input_float(usd.ROUGHNESS),
            clearcoat=self.input_float(usd.CLEARCOAT),
            clearcoat_roughness=self.input_float(usd.CLEARCOAT_ROUGHNESS),
            opacity_threshold=self.input_float(usd.OPACITY_THRESHOLD) or None,
            **stored_fields(index, material, VisualMaterial),
        )
        result.attributes |= preserved_attributes(index, material)
        self._restore_shininess(result)
        self._read_base_color(result)
        for name, role in _MAP_ROLES.items():
            image = self._read_texture(name)
            if image is None:
                continue
            result.maps[role] = image.texture
            if role is MapRole.EMISSION:
                result.emission = image.factor[:3]
            elif image.is_scaled and role in (MapRole.METALLIC, MapRole.ROUGHNESS, MapRole.CLEARCOAT):
                factor = image.factor["rgba".index(image.texture.channel or "r")]
                setattr(result, role.value, factor)
        return result

    def _restore_shininess(self, result: VisualMaterial) -> None:
        """Restore MuJoCo's shininess, and remove a roughness derived from it."""
        shininess = self.index.custom_value(self.material, kinema_usd.SHININESS)
        if shininess is None:
            return
        result.attributes[mjcf.attribute_key(mjcf.SHININESS)] = shininess
        if result.roughness is not None and abs(result.roughness - roughness_from_shininess(shininess)) < 1e-6:
            result.roughness = None

    def _read_base_color(self, result: VisualMaterial) -> None:
        """Set base colour, opacity and base colour texture."""
        diffuse, opacity = self.input_vector(usd.DIFFUSE_COLOR), self.input_float(usd.OPACITY)
        image = self._read_texture(usd.DIFFUSE_COLOR)
        alpha = 1.0 if opacity is None else opacity
        if image is not None:
            result.texture, result.texture_mapping = image.texture.file, image.texture.mapping
            if image.is_scaled or alpha != 1.0:
                result.color = (*image.factor[:3], alpha)
        elif diffuse is not None:
            result.color = (*diffuse, alpha)
        elif opacity is not None:
            result.color = (1.0, 1.0, 1.0, alpha)
        if not result.texture and self.index.custom_value(self.material, kinema_usd.TEXTURE) is not None:
            result.texture = self.resolve_asset([self.material.GetAttribute(kinema_usd.TEXTURE.name)])
        mean = self.index.custom_value(self.material, kinema_usd.MEAN_TEXTURE_COLOR)
        result.mean_texture_color = None if mean is None else tuple(mean)
        self._restore_base_color(result, alpha)

    def _restore_base_color(self, result: VisualMaterial, alpha: float) -> None:
        """Restore the colour without the mean texture colour if the displayed colour is unmodified."""
        stored, shown = (
            self.index.custom_value(self.material, s) for s in (kinema_usd.BASE_COLOR, kinema_usd.DISPLAYED_COLOR)
        )
        if stored is None or shown is None or result.color is None or not (result.texture or result.mean_texture_color):
            return
        if max(abs(a - b) for a, b in zip(result.color, shown, strict=False)) < 1e-6:
            color = tuple(stored.tolist())
            result.color = (*color, alpha) if len(color) == 3 else None

    # -- images --

    def _read_texture(self, name: str) -> _TextureInput | None:
        """Texture connected to an input, with channel, scale and strength; None if there is none."""
        shader, output, _ = self.input_source(self.shader, name)
        if shader is None or shader_id(shader) != usd.UV_TEXTURE:
            return None
        file = self.input_image(shader, usd.FILE)
        if not file:
            return None
        factor = finite_floats(self.input_value(shader, usd.TEXTURE_SCALE))
        scale = (factor[0], factor[1], factor[2], factor[3]) if len(factor) == 4 else _WHITE
        channel = output if output in ("r", "g", "b", "a") else ""
        # normal maps are scaled from [0, 1] to [-1, 1]
        strength = {usd.NORMAL: scale[0] / 2.0, usd.OCCLUSION: scale[0]}.get(name, 1.0) if len(factor) == 4 else 1.0
        stored_strength = self.index.custom_value(shader, kinema_usd.NORMAL_MAP_STRENGTH)
        strength = strength if stored_strength is None else stored_strength
        texture = Texture(file=file, channel=channel, strength=strength, mapping=self._texture_mapping(shader))
        return _TextureInput(texture, scale, len(factor) == 4)

    def _texture_mapping(self, shader: pxr.Prim) -> TextureMapping:
        """Wrap modes and 2D transform of a texture, and its texture coordinate set."""
        wrap = tuple(
            _WRAP_MODES.get(str(self.input_value(shader, name)), WrapMode.REPEAT) for name in (usd.WRAP_S, usd.WRAP_T)
        )
        scale, offset, rotation, texcoord_set = (1.0, 1.0), (0.0, 0.0), 0.0, 0
        source, _, _ = self.input_source(shader, usd.COORDINATES_INPUT)
        for _ in range(_MAX_SHADER_CHAIN):
            kind = "" if source is None else shader_id(source)
            if kind == usd.TRANSFORM_2D:
                scale = float_pair(self.input_value(source, usd.TEXTURE_SCALE), scale)
                offset = float_pair(self.input_value(source, usd.TRANSFORM_TRANSLATION), offset)
                rotation = math.radians(finite_floats(self.input_value(source, usd.TRANSFORM_ROTATION) or 0.0)[0])
                source, _, _ = self.input_source(source, usd.TRANSFORM_IN)
            else:
                if kind == usd.PRIMVAR_READER_2:
                    texcoord_set = texcoord_set_index(str(self.input_value(source, usd.VARNAME) or ""))
                break
        return TextureMapping(wrap=wrap, scale=scale, offset=offset, rotation=rotation, texcoord_set=texcoord_set)  # type: ignore[arg-type]


def texcoord_set_index(name: str) -> int:
    """Index of the texture coordinate set of a primvar name: 0 for `st`, 1 for `st1`."""
    digits = name[len(name.rstrip("0123456789")) :]
    return min(int(digits), 7) if digits and len(digits) < 3 else 0


def is_constant_primvar(prim: pxr.Prim, name: str) -> bool:
    """Whether a primvar has constant interpolation."""
    primvar = pxr.UsdGeom.Primvar(prim.GetAttribute(name))
    return not primvar or str(primvar.GetInterpolation()) == usd.CONSTANT


# -- material bindings -------------------------------------------------------------------------------------------------

_VISUAL_PURPOSE, _PHYSICS_PURPOSE = "", usd.PHYSICS_PURPOSE


class MaterialBindings:
    """Material bindings of the shapes of a stage, computed for all shapes in one call for speed."""

    def __init__(self, index: StageIndex, prims: Sequence[pxr.Prim]) -> None:
        self._index = index
        colliders = [prim for prim in prims if usd_physics.COLLISION_API in index.schemas(prim)]
        self._bound = {
            _VISUAL_PURPOSE: _compute_bound_materials(index, prims, _VISUAL_PURPOSE),
            _PHYSICS_PURPOSE: _compute_bound_materials(index, colliders, _PHYSICS_PURPOSE),
        }
        self._preview_materials: dict[pxr.Prim, VisualMaterial | None] = {}
        self._other_materials: dict[pxr.Prim, VisualMaterial] = {}
        self._physics_materials: dict[pxr.Prim, PhysicsMaterial] = {}

    def visual_material(self, prim: pxr.Prim) -> VisualMaterial | None:
        """Visual material of a shape: preview surface, other surface, or display colour; None if unset."""
        index = self._index
        bound = self._bound_material(prim, _VISUAL_PURPOSE)
        if bound is not None and (found := self._preview_material(bound)) is not None:
            return found
        color = _display_color(index, prim)
        if bound is None:
            return None if color is None else VisualMaterial(color=color, origin=index.origin(prim))
        material = self._other_material(bound)
        return (
            dataclasses.replace(material, color=color)
            if color is not None and not material.has_properties
            else material
        )

    def subset_material(self, prim: pxr.Prim) -> VisualMaterial | None:
        """Visual material of a mesh subset; None if unbound."""
        bound = self._bound_material(prim, _VISUAL_PURPOSE)
        if bound is None:
            return None
        return self._preview_material(bound) or self._other_material(bound)

    def _preview_material(self, bound: pxr.Prim) -> VisualMaterial | None:
        if bound not in self._preview_materials:
            self._preview_materials[bound] = read_preview_surface(self._index, bound)
        return self._preview_materials[bound]

    def _other_material(self, bound: pxr.Prim) -> VisualMaterial:
        """MDL or MaterialX material, or a material with only a name."""
        if bound not in self._other_materials:
            found = read_mdl_or_materialx_surface(self._index, bound)
            self._other_materials[bound] = found or VisualMaterial(
                name=bound.GetName(), origin=self._index.origin(bound)
            )
        return self._other_materials[bound]

    def physics_material(self, prim: pxr.Prim) -> PhysicsMaterial | None:
        """Physics material bound to a collider (directly, inherited or by collection) with its contact attributes."""
        index = self._index
        bound = self._bound_material(prim, _PHYSICS_PURPOSE)
        material: PhysicsMaterial | None = None
        if bound is not None and usd_physics.MATERIAL_API in index.schemas(bound):
            if bound not in self._physics_materials:
                self._physics_materials[bound] = _read_physics_material(index, bound)
            material = self._physics_materials[bound]
        if index.values.facts(prim).authored.isdisjoint(CONTACT_ATTRIBUTES):
            return material
        base = PhysicsMaterial(origin=index.origin(prim)) if material is None else material
        return dataclasses.replace(base, **contact_fields(index, prim))

    def _bound_material(self, prim: pxr.Prim, purpose: str) -> pxr.Prim | None:
        known = self._bound[purpose]
        if prim not in known:  # shapes in prototypes of point instancers
            known.update(_compute_bound_materials(self._index, [prim], purpose))
        return known[prim]


def check_bindings(index: StageIndex) -> None:
    """Warn about material bindings to prims that do not exist."""
    for prim in index.material_bound:
        for name in sorted(n for n in index.values.facts(prim).authored if n.startswith(usd.MATERIAL_BINDING)):
            for target in index.targets(prim, name):
                if target.IsPrimPath() and not index.stage.GetPrimAtPath(target):
                    index.diagnostics.warning(
                        "usd.material-missing",
                        f"{prim.GetName()!r} is bound to the material {target}, which does not exist",
                        hint=f"correct {name}",
                        origin=index.origin(prim),
                    )


def _compute_bound_materials(
    index: StageIndex, prims: Sequence[pxr.Prim], purpose: str
) -> dict[pxr.Prim, pxr.Prim | None]:
    """Shape -> material bound for a purpose, or None."""
    if not prims:
        return {}
    compute = pxr.UsdShade.MaterialBindingAPI.ComputeBoundMaterials
    materials = (compute(list(prims), purpose) if purpose else compute(list(prims)))[0]
    # the prim objects of the facts are looked up by id, without hashing
    found = [index.values.facts(material.GetPrim()).prim if material else None for material in materials]
    return dict(zip(prims, found, strict=True))


def _read_physics_material(index: StageIndex, bound: pxr.Prim) -> PhysicsMaterial:
    """Friction, restitution and density of a physics material in SI units."""
    get = index.value
    density = index.positive_value(bound, usd_physics.DENSITY)
    material = PhysicsMaterial(
        name=bound.GetName(),
        origin=index.origin(bound),
        static_friction=_float_or_none(get(bound, usd_physics.STATIC_FRICTION)),
        dynamic_friction=_float_or_none(get(bound, usd_physics.DYNAMIC_FRICTION)),
        restitution=_float_or_none(get(bound, usd_physics.RESTITUTION)),
        density=None if density is None else density * index.units.density,
        **material_fields(index, bound),
    )
    preserve_vendor_attributes(index, bound, material, MATERIAL_ATTRIBUTES.keys())
    return restore_physics_material(index, bound, material)


def _display_color(index: StageIndex, prim: pxr.Prim) -> tuple[float, float, float, float] | None:
    colors = index.value(prim, usd.DISPLAY_COLOR)
    if not colors or (
        index.values.facts(prim).kind.type == usd.MESH and not is_constant_primvar(prim, usd.DISPLAY_COLOR)
    ):
        return None
    opacities = index.value(prim, usd.DISPLAY_OPACITY)
    r, g, b = to_floats(colors[0])
    return (r, g, b, float(opacities[0]) if opacities else 1.0)


def _float_or_none(value: Any) -> float | None:
    return None if value is None else float(value)
