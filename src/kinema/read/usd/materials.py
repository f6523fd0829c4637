"""What is bound to shapes: looks and physics materials, each read once however many shapes share it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from kinema.description import PhysicsMaterial, VisualMaterial
from kinema.words import physics, usd

from . import pxr
from .gf_values import floats
from .looks import is_constant, read_look
from .other_surfaces import read_other_surface
from .own_shapes import restore_surface
from .stage_index import StageIndex
from .vendor import CONTACT_SETTINGS, MATERIAL_SETTINGS, contact_settings, keep_vendor_data, material_settings

_LOOK, _PHYSICS = "", usd.PHYSICS_PURPOSE


class Materials:
    """The materials of a stage's shapes; bindings are found for all shapes together, which is far quicker."""

    def __init__(self, index: StageIndex, prims: Sequence[pxr.Prim]) -> None:
        self._index = index
        touching = [prim for prim in prims if physics.COLLISION_API in index.schemas(prim)]
        self._bound = {_LOOK: _bindings(index, prims, _LOOK), _PHYSICS: _bindings(index, touching, _PHYSICS)}
        self._looks: dict[pxr.Prim, VisualMaterial | None] = {}
        self._others: dict[pxr.Prim, VisualMaterial] = {}
        self._surfaces: dict[pxr.Prim, PhysicsMaterial] = {}

    def look(self, prim: pxr.Prim) -> VisualMaterial | None:
        """A preview surface, or the display colour."""
        index = self._index
        bound = self._binding(prim, _LOOK)
        if bound is not None and (found := self._preview(bound)) is not None:
            return found
        color = _display_color(index, prim)
        if bound is None:
            return None if color is None else VisualMaterial(color=color, origin=index.origin(prim))
        look = self._other(bound)
        return dataclasses.replace(look, color=color) if color is not None and not look.says_anything else look

    def bound_look(self, prim: pxr.Prim) -> VisualMaterial | None:
        """The look of a part of a mesh; None where none is bound to it."""
        bound = self._binding(prim, _LOOK)
        if bound is None:
            return None
        return self._preview(bound) or self._other(bound)

    def _preview(self, bound: pxr.Prim) -> VisualMaterial | None:
        if bound not in self._looks:
            self._looks[bound] = read_look(self._index, bound)
        return self._looks[bound]

    def _other(self, bound: pxr.Prim) -> VisualMaterial:
        """A material of another kind, or one of which only the name can be told."""
        if bound not in self._others:
            found = read_other_surface(self._index, bound)
            self._others[bound] = found or VisualMaterial(name=bound.GetName(), origin=self._index.origin(bound))
        return self._others[bound]

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
            known.update(_bindings(self._index, [prim], purpose))
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


def _bindings(index: StageIndex, prims: Sequence[pxr.Prim], purpose: str) -> dict[pxr.Prim, pxr.Prim | None]:
    """Shape -> the material that is bound to it for a purpose."""
    if not prims:
        return {}
    compute = pxr.UsdShade.MaterialBindingAPI.ComputeBoundMaterials
    materials = (compute(list(prims), purpose) if purpose else compute(list(prims)))[0]
    # the prims that the facts hold: what is known of those is found without hashing them
    found = [index.values.facts(material.GetPrim()).prim if material else None for material in materials]
    return dict(zip(prims, found, strict=True))


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


def _display_color(index: StageIndex, prim: pxr.Prim) -> tuple[float, float, float, float] | None:
    colors = index.value(prim, usd.DISPLAY_COLOR)
    if not colors or (index.values.facts(prim).kind.type == usd.MESH and not is_constant(prim, usd.DISPLAY_COLOR)):
        return None
    opacities = index.value(prim, usd.DISPLAY_OPACITY)
    r, g, b = floats(colors[0])
    return (r, g, b, float(opacities[0]) if opacities else 1.0)


def _float(value: Any) -> float | None:
    return None if value is None else float(value)
