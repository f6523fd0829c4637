"""Looks and surfaces: one material prim for each that differs, bound to the shapes that have it."""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path

from kinema.description import PhysicsMaterial, Shape, VisualMaterial
from kinema.words import mjc, newton, ours, physics, usd

from ..report import Action
from .draft import Draft, PrimDraft
from .plan import PrimNames

_USUAL_FRICTION = 1.0
"""Written where a surface says nothing of friction: USD's fallback is none at all, which nobody means."""


class Materials:
    """The materials of a stage."""

    def __init__(self, draft: Draft, names: PrimNames, root: str, target: Path) -> None:
        self._draft = draft
        self._names = names
        self._root = root
        self._folder = target.parent
        self._made: dict[Hashable, str] = {}

    def bind(self, prim: PrimDraft, shape: Shape) -> None:
        """Give a shape its look, and its surface where it collides."""
        if shape.material is not None:
            self._bind_look(prim, shape.material)
        if shape.surface is not None and shape.collision:
            self._contact(prim, shape, shape.surface)
            prim.apply(usd.MATERIAL_BINDING_API)
            prim.relate(usd.PHYSICS_BINDING, [self._surface(shape.surface)])

    def _scope(self, name: str) -> str:
        key = ("scope", name)
        if key not in self._made:
            self._made[key] = self._names.child(self._root, name, name)
            self._draft.prim(self._made[key], usd.SCOPE)
        return self._made[key]

    # -- looks --------------------------------------------------------------------------------------------------

    def _bind_look(self, prim: PrimDraft, look: VisualMaterial) -> None:
        if _is_only_a_color(look):
            if look.color is not None:
                _display(prim, look.color)
            return
        key = ("look", look.name, look.color, look.texture, look.emission, look.metallic, look.roughness)
        if key not in self._made:
            self._made[key] = self._look(look)
        prim.apply(usd.MATERIAL_BINDING_API)
        prim.relate(usd.MATERIAL_BINDING, [self._made[key]])

    def _look(self, look: VisualMaterial) -> str:
        path = self._names.child(self._scope("Looks"), look.name, "look")
        material = self._draft.prim(path, usd.MATERIAL)
        shader = self._draft.prim(f"{path}/Surface", usd.SHADER)
        shader.set(usd.SHADER_ID, "token", usd.PREVIEW_SURFACE, uniform=True)
        if look.texture:
            self._texture(material, look)
        if look.color is not None:
            shader.set(usd.input_of(usd.DIFFUSE_COLOR), "color3f", look.color[:3])
        if look.color is not None and look.color[3] != 1.0:
            shader.set(usd.input_of(usd.OPACITY), "float", look.color[3])
        if look.emission is not None:
            shader.set(usd.input_of(usd.EMISSIVE_COLOR), "color3f", look.emission)
        for name, value in ((usd.METALLIC, look.metallic), (usd.ROUGHNESS, look.roughness)):
            if value is not None:
                shader.set(usd.input_of(name), "float", value)
        shader.declare(usd.SURFACE_OUTPUT, "token")
        material.declare(usd.SURFACE_OUTPUT, "token", source=f"{path}/Surface.{usd.SURFACE_OUTPUT}")
        lost = [n for n in ("specular", "reflectance") if getattr(look, n) is not None]
        if lost:
            how = "UsdPreviewSurface has metallic and roughness instead"
            self._draft.lose(Action.DROPPED, ("material", look.name), " and ".join(lost), how)
        if look.name != material.name:
            material.keep(ours.NAME, look.name)
        return path

    def _texture(self, material: PrimDraft, look: VisualMaterial) -> None:
        """Without coordinates on the shapes, a connected texture would paint everything in the colour of one texel."""
        material.keep(ours.TEXTURE, self._asset(look.texture))
        how = "the shapes have no texture coordinates; the file's name is in kinema:texture"
        self._draft.lose(Action.EXTENSION, ("material", look.name), "the texture", how)

    def _asset(self, file: str) -> str:
        """The path from the stage to a file, where it stands in the stage's folder; else the file's own."""
        path = Path(file)
        try:
            return "./" + path.resolve().relative_to(self._folder.resolve()).as_posix()
        except (ValueError, OSError):
            return str(path)

    # -- surfaces -----------------------------------------------------------------------------------------------

    def _surface(self, surface: PhysicsMaterial) -> str:
        key = ("surface", surface.name, *(getattr(surface, f) for f in _SURFACE_FIELDS))
        if key not in self._made:
            self._made[key] = self._new_surface(surface)
        return self._made[key]

    def _new_surface(self, surface: PhysicsMaterial) -> str:
        path = self._names.child(self._scope("PhysicsMaterials"), surface.name, "surface")
        prim = self._draft.prim(path, usd.MATERIAL)
        prim.apply(physics.MATERIAL_API)
        static, dynamic = surface.static_friction, surface.dynamic_friction
        unset = [word for word, field in ours.UNSET_FIELDS.items() if getattr(surface, field) is None]
        usual = next((v for v in (dynamic, static) if v is not None), _USUAL_FRICTION)
        prim.number(physics.STATIC_FRICTION, "float", usual if static is None else static)
        prim.number(physics.DYNAMIC_FRICTION, "float", usual if dynamic is None else dynamic)
        if surface.restitution is not None:
            prim.number(physics.RESTITUTION, "float", surface.restitution)
        if surface.density is not None:
            prim.number(physics.DENSITY, "float", surface.density)
        if unset:
            prim.keep(ours.UNSET, unset)
        for field, attribute in _NEWTON_SURFACE.items():
            value = getattr(surface, field)
            if value is not None:
                prim.apply(newton.MATERIAL_API)
                prim.number(attribute, "float", value)
                how = f"it is in {attribute}, which is no part of UsdPhysics"
                self._draft.lose(Action.EXTENSION, ("material", prim.name), field.replace("_", " "), how)
        if surface.dynamic_friction2 is not None and surface.dynamic_friction2 != dynamic:
            prim.keep(ours.DYNAMIC_FRICTION_2, surface.dynamic_friction2)
            how = "USD has one coefficient for all directions; it is in kinema:dynamicFriction2"
            self._draft.lose(Action.EXTENSION, ("material", prim.name), "friction in the second direction", how)
        if surface.name != prim.name:
            prim.keep(ours.NAME, surface.name)
        return path

    def _contact(self, prim: PrimDraft, shape: Shape, surface: PhysicsMaterial) -> None:
        """MuJoCo's contact settings, which its schema puts on the collider."""
        said: list[tuple[str, str, object]] = []
        solver = surface.solver
        reference, impedance, margin = mjc.CONTACT_SOLVER
        if solver.solref is not None:
            said.append((reference, "double[]", solver.solref))
        if solver.solimp is not None:
            said.append((impedance, "double[]", solver.solimp))
        if solver.margin:
            said.append((margin, "double", solver.margin))
        if surface.contact_dimension is not None:
            said.append((mjc.CONDIM, "int", surface.contact_dimension))
        if surface.gap:
            said.append((mjc.GAP, "double", surface.gap))
        if surface.priority:
            said.append((mjc.PRIORITY, "int", surface.priority))
        if surface.solmix != 1.0:
            said.append((mjc.SOLMIX, "double", surface.solmix))
        for name, kind, value in said:
            prim.set(name, kind, value, uniform=True)
        if said:
            prim.apply(mjc.COLLISION_API)
            names = ", ".join(name for name, _, _ in said)
            self._draft.lose(Action.EXTENSION, shape, "MuJoCo's contact settings", f"they are in {names}")


_NEWTON_SURFACE = {
    "torsional_friction": newton.TORSIONAL_FRICTION,
    "rolling_friction": newton.ROLLING_FRICTION,
    "contact_stiffness": newton.CONTACT_STIFFNESS,
    "contact_damping": newton.CONTACT_DAMPING,
}
_SURFACE_FIELDS = (
    "static_friction",
    "dynamic_friction",
    "dynamic_friction2",
    "restitution",
    "density",
    *_NEWTON_SURFACE,
)
"""What makes a surface differ from another; the solver's settings are on the colliders."""


def _is_only_a_color(look: VisualMaterial) -> bool:
    rest = (look.emission, look.specular, look.metallic, look.roughness, look.reflectance)
    return not look.name and not look.texture and all(value is None for value in rest)


def _display(prim: PrimDraft, color: tuple[float, float, float, float]) -> None:
    prim.set(usd.DISPLAY_COLOR, "color3f[]", [color[:3]])
    if color[3] != 1.0:
        prim.set(usd.DISPLAY_OPACITY, "float[]", [color[3]])
