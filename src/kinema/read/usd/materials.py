"""What is bound to shapes: looks and physics materials, each read once however many shapes share it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from kinema.description import PhysicsMaterial, VisualMaterial
from kinema.words import ours, physics, usd

from . import pxr
from .layers import beside, place_of
from .own_settings import own
from .own_shapes import kept_texture, restore_surface
from .stage_index import StageIndex
from .vendor import CONTACT_SETTINGS, MATERIAL_SETTINGS, contact_settings, keep_vendor_data, material_settings

_LOOK, _PHYSICS = "", usd.PHYSICS_PURPOSE


class Materials:
    """The materials of a stage's shapes; bindings are found for all shapes together, which is far quicker."""

    def __init__(self, index: StageIndex, prims: Sequence[pxr.Prim]) -> None:
        self._index = index
        self._bound = {purpose: _bindings(prims, purpose) for purpose in (_LOOK, _PHYSICS)}
        self._looks: dict[pxr.Prim, VisualMaterial | None] = {}
        self._surfaces: dict[pxr.Prim, PhysicsMaterial] = {}

    def look(self, prim: pxr.Prim) -> VisualMaterial | None:
        """A preview surface's constants, or the display colour."""
        index = self._index
        bound = self._binding(prim, _LOOK)
        if bound is not None:
            if bound not in self._looks:
                self._looks[bound] = _preview_surface(index, bound)
            if self._looks[bound] is not None:
                return self._looks[bound]
        color = _display_color(index, prim)
        if color is None and bound is None:
            return None
        name = bound.GetName() if bound is not None else ""
        return VisualMaterial(name=name, color=color, origin=index.origin(bound if bound is not None else prim))

    def surface(self, prim: pxr.Prim) -> PhysicsMaterial | None:
        """The physics material bound to a collider, directly, by inheritance or by a collection."""
        index = self._index
        bound = self._binding(prim, _PHYSICS)
        material: PhysicsMaterial | None = None
        if bound is not None and physics.MATERIAL_API in index.schemas(bound):
            if bound not in self._surfaces:
                self._surfaces[bound] = _physics_material(index, bound)
            material = self._surfaces[bound]
        if index.values.facts(prim).authored.isdisjoint(CONTACT_SETTINGS):
            return material
        own = PhysicsMaterial(origin=index.origin(prim)) if material is None else material
        return dataclasses.replace(own, **contact_settings(index, prim))

    def _binding(self, prim: pxr.Prim, purpose: str) -> pxr.Prim | None:
        known = self._bound[purpose]
        if prim not in known:  # a shape in the prototype of a point instancer
            known.update(_bindings([prim], purpose))
        return known[prim]


def check_bindings(index: StageIndex) -> None:
    """Say which bindings lead nowhere: what they are for gets another material, or none."""
    for prim in index.bound:
        for name in sorted(n for n in index.values.facts(prim).authored if n.startswith(usd.MATERIAL_BINDING)):
            for target in index.targets(prim, name):
                if target.IsPrimPath() and not index.stage.GetPrimAtPath(target):
                    index.diagnostics.warning(
                        "usd.material-missing",
                        f"{prim.GetName()!r} is bound to the material {target}, which does not exist",
                        hint=f"correct {name}",
                        origin=index.origin(prim),
                    )


def _bindings(prims: Sequence[pxr.Prim], purpose: str) -> dict[pxr.Prim, pxr.Prim | None]:
    """Shape -> the material that is bound to it for a purpose."""
    if not prims:
        return {}
    compute = pxr.UsdShade.MaterialBindingAPI.ComputeBoundMaterials
    materials = (compute(list(prims), purpose) if purpose else compute(list(prims)))[0]
    return {prim: material.GetPrim() if material else None for prim, material in zip(prims, materials, strict=True)}


def _physics_material(index: StageIndex, bound: pxr.Prim) -> PhysicsMaterial:
    get = index.value
    density = index.positive(bound, physics.DENSITY)
    material = PhysicsMaterial(
        name=bound.GetName(),
        origin=index.origin(bound),
        static_friction=_float(get(bound, physics.STATIC_FRICTION)),
        dynamic_friction=_float(get(bound, physics.DYNAMIC_FRICTION)),
        restitution=_float(get(bound, physics.RESTITUTION)),
        density=None if density is None else density * index.units.density,
        **material_settings(index, bound),
    )
    keep_vendor_data(index, bound, material, MATERIAL_SETTINGS.keys())
    return restore_surface(index, bound, material)


def _preview_surface(index: StageIndex, material: pxr.Prim) -> VisualMaterial | None:
    """The constants of a material's preview surface; None where it has none."""
    shader = pxr.UsdShade.Material(material).ComputeSurfaceSource()[0]
    if not shader or shader.GetIdAttr().Get() != usd.PREVIEW_SURFACE:
        return None

    def constant(name: str) -> Any:
        shader_input = shader.GetInput(name)
        return shader_input.Get(index.time) if shader_input and not shader_input.HasConnectedSource() else None

    diffuse, opacity = constant(usd.DIFFUSE_COLOR), constant(usd.OPACITY)
    emissive = constant(usd.EMISSIVE_COLOR)
    kept = own(index, material, ours.NAME)
    return VisualMaterial(
        name=material.GetName() if kept is None else str(kept),
        origin=index.origin(material),
        color=None if diffuse is None else (*(float(c) for c in diffuse), 1.0 if opacity is None else float(opacity)),  # type: ignore[arg-type]
        emission=None if emissive is None else tuple(float(c) for c in emissive),  # type: ignore[arg-type]
        metallic=_float(constant(usd.METALLIC)),
        roughness=_float(constant(usd.ROUGHNESS)),
        texture=_texture(shader) or kept_texture(index, material),
    )


def _texture(shader: Any) -> str:
    """The file of the texture that the diffuse colour is connected to."""
    diffuse = shader.GetInput(usd.DIFFUSE_COLOR)
    if not diffuse or not diffuse.HasConnectedSource():
        return ""
    sources = diffuse.GetConnectedSources()[0]
    if not sources:
        return ""
    source = pxr.UsdShade.Shader(sources[0].source.GetPrim())
    file: Any = source.GetInput("file") if source else None
    asset: Any = file.Get() if file else None
    if not isinstance(asset, pxr.Sdf.AssetPath) or not asset.path:
        return ""
    said_by = file.GetAttr().GetPropertyStack()
    return beside(place_of(said_by[0].layer), str(asset.path)) if said_by else str(asset.path)


def _display_color(index: StageIndex, prim: pxr.Prim) -> tuple[float, float, float, float] | None:
    colors = index.value(prim, usd.DISPLAY_COLOR)
    if not colors:
        return None
    opacities = index.value(prim, usd.DISPLAY_OPACITY)
    r, g, b = (float(c) for c in colors[0])
    return (r, g, b, float(opacities[0]) if opacities else 1.0)


def _float(value: Any) -> float | None:
    return None if value is None else float(value)
