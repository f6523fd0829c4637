"""Looks and surfaces: one material prim for each that differs, bound to the shapes that have it."""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path

from kinema.description import PhysicsMaterial, Shape
from kinema.shapes import Appearance, Look
from kinema.words import mjc, newton, ours, physics, usd

from ..meshes import look_key
from ..report import Action
from ..textures import NoImage, TextureStore
from .draft import Draft, PrimDraft
from .looks import LookAuthor
from .plan import PrimNames

_USUAL_FRICTION = 1.0
"""Written where a surface says nothing of friction: USD's fallback is none at all, which nobody means."""


class Materials:
    """The materials of a stage."""

    def __init__(self, draft: Draft, names: PrimNames, root: str, folder: Path, *, is_package: bool) -> None:
        self._is_package = is_package
        self._draft = draft
        self._names = names
        self._root = root
        self._textures = TextureStore(folder)
        self._looks = LookAuthor(draft, self._textures)
        self._made: dict[Hashable, str] = {}
        self._keys: dict[int, tuple[object, ...]] = {}
        """Of looks, which the description holds meanwhile."""

    def place(self, file: str) -> str:
        """Where a file lies beside the stage, into which it is put; `NoImage` where it cannot be."""
        if self._is_package:
            raise NoImage("a package holds what the stage refers to, and nothing else")
        return self._textures.place(file)

    def bind(self, prim: PrimDraft, shape: Shape, appearance: Appearance | None) -> None:
        """Give a shape its look, its parts theirs, and its surface where it collides.

        Args:
            prim: the shape's prim.
            shape: the shape.
            appearance: what is seen on it, where it is a mesh.
        """
        if appearance is None:
            if shape.material is not None:
                self._bind_look(prim, shape.material, None)
        else:
            self._bind_parts(prim, shape, appearance)
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

    def _bind_parts(self, prim: PrimDraft, shape: Shape, appearance: Appearance) -> None:
        """The shape's own material on the whole, those of its parts on subsets of the faces."""
        sides = {bool(look.double_sided) for look in appearance.materials}
        if True in sides:
            prim.set(usd.DOUBLE_SIDED, "bool", True, uniform=True)
        if len(sides) > 1:
            how = "USD says that of the whole mesh; all of it is seen from both sides"
            self._draft.lose(Action.APPROXIMATED, shape, "that only some of its parts are seen from both sides", how)
        if appearance.material_of_face is None:
            # a name alone is kept too
            look = appearance.materials[0] if appearance.materials else shape.material
            if look is not None:
                self._bind_look(prim, look, appearance)
            return
        for look, faces in appearance.faces_of_materials(len(appearance.material_of_face)):
            if look is None:
                continue
            if look is shape.material:
                self._bind_look(prim, look, appearance)
                continue
            path = self._names.child(prim.path, look.name, "part")
            subset = self._draft.prim(path, usd.GEOM_SUBSET)
            subset.set(usd.ELEMENT_TYPE, "token", usd.FACE, uniform=True)
            subset.set(usd.FAMILY_NAME, "token", usd.MATERIAL_BIND, uniform=True)
            subset.set(usd.SUBSET_INDICES, "int[]", faces)
            self._bind_look(subset, look, appearance, is_part=True)
        prim.set(usd.SUBSET_FAMILY_TYPE, "token", "nonOverlapping", uniform=True)

    def _bind_look(self, prim: PrimDraft, look: Look, appearance: Appearance | None, *, is_part: bool = False) -> None:
        has_colors = appearance is not None and appearance.colors is not None
        if _is_only_a_color(look) and not is_part and not has_colors:
            if look.color is not None:
                _display(prim, look.color)
            return
        has_coordinates = appearance is not None and bool(appearance.coordinates)
        if id(look) not in self._keys:
            self._keys[id(look)] = look_key(look)
        key = ("look", self._keys[id(look)], has_coordinates and bool(look.images), has_colors)
        if key not in self._made:
            path = self._names.child(self._scope("Looks"), look.name, "look")
            self._looks.author(path, look, has_coordinates=has_coordinates, has_colors=has_colors)
            self._made[key] = path
        if look.double_sided and appearance is None:
            prim.set(usd.DOUBLE_SIDED, "bool", True, uniform=True)
        prim.apply(usd.MATERIAL_BINDING_API)
        prim.relate(usd.MATERIAL_BINDING, [self._made[key]])

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


def _is_only_a_color(look: Look) -> bool:
    return not look.name and (look.is_only_a_color or not look.says_anything)


def _display(prim: PrimDraft, color: tuple[float, float, float, float]) -> None:
    prim.set(usd.DISPLAY_COLOR, "color3f[]", [color[:3]])
    if color[3] != 1.0:
        prim.set(usd.DISPLAY_OPACITY, "float[]", [color[3]])
