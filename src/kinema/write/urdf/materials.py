"""Materials: defined once for the whole file, named by the visuals that have them."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field

from kinema.description import VisualMaterial
from kinema.foundation import unique_name
from kinema.shapes import Placement
from kinema.words import urdf

from ..report import Action
from ..stand_ins import how_around, with_mean_color
from ..text import Element, numbers, xml_name
from ..textures import NoImage, without_carried
from .extras import give_back, names_of
from .writing import Writing, finite

_UNSAID = (
    *("emission", "specular", "metallic", "roughness", "reflectance"),
    *("clearcoat", "clearcoat_roughness", "opacity_threshold", "double_sided"),
)


@dataclass(slots=True, eq=False)
class Materials:
    """The materials of one file."""

    writing: Writing
    root: Element
    taken: set[str] = field(init=False)
    _known: dict[tuple[object, ...], str] = field(default_factory=dict)
    """What a material is -> its name in the file."""
    _met: dict[int, str | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.taken = names_of(self.writing.robot.extras, "material")

    def add(self, visual: Element, material: VisualMaterial, *, is_in_mesh: bool = False) -> None:
        """Let a visual have a material, which is defined if it was not before.

        Args:
            visual: the element.
            material: the material.
            is_in_mesh: whether the visual is a mesh whose file has the whole of it.
        """
        if not material.name and self.writing.robot.format == urdf.FORMAT:
            self._inline(visual, material)
            return
        if id(material) not in self._met:
            self._met[id(material)] = self._define(material, is_in_mesh=is_in_mesh)
        name = self._met[id(material)]
        if name is not None:
            visual.child("material", name=name)

    def _inline(self, visual: Element, material: VisualMaterial) -> None:
        """A material without a name, which is read everywhere, but shared by nothing."""
        if self._fill(Element("material"), material):
            element = visual.child("material", name="")
            self._fill(element, material)
            give_back(self.writing, material, element, self.root)

    def _define(self, material: VisualMaterial, *, is_in_mesh: bool) -> str | None:
        """The name under which a material is defined for the whole file; None where URDF cannot say it."""
        self._report(material, is_in_mesh=is_in_mesh)
        element = Element("material")
        if not self._fill(element, material):
            how = "it has neither colour nor texture, which URDF takes as a mistake"
            self.writing.drop(_called(material), "the material", how)
            return None
        content = (material.name, *(tuple(c.attributes.items()) for c in element.children if isinstance(c, Element)))
        if content in self._known:
            return self._known[content]
        name = unique_name(xml_name(material.name) or "material", self.taken)
        self._known[content] = name
        if material.name and name != material.name:
            self.writing.approximate(_called(material), "its name", f'it is called "{name}": the other one is taken')
        element.set({"name": name})
        self.root.children.append(element)
        give_back(self.writing, without_carried(material, is_laid=is_in_mesh), element, self.root)
        return name

    def _fill(self, element: Element, material: VisualMaterial) -> bool:
        """Put colour and texture into an element; whether there are any."""
        color, texture = self._color(material), self._texture(material)
        if color is not None:
            element.child("color", rgba=numbers(color))
        if texture:
            element.child("texture", filename=texture)
        return bool(element.children)

    def _color(self, material: VisualMaterial) -> tuple[float, ...] | None:
        """Red, green, blue, alpha; readers refuse what is not from 0 to 1."""
        given = with_mean_color(material).color
        if given is None:
            return None
        color = tuple(finite(c, f'material "{material.name}"', "colour") for c in given)
        clamped = tuple(min(max(c, 0.0), 1.0) for c in color)
        if clamped != color:
            how = f"{numbers(color)} is not from 0 to 1, and is {numbers(clamped)} here"
            self.writing.approximate(_called(material), "its colour", how)
        return clamped

    def _texture(self, material: VisualMaterial) -> str:
        """The reference to write; the file is copied beside the one that is written."""
        if not material.texture:
            missing = str(material.attributes.get(urdf.TEXTURE, ""))
            if missing:
                how = f"the file {missing!r} was not found; the reference is written as it was"
                self.writing.approximate(_called(material), "its texture", how)
            return missing
        try:
            return self.writing.reference(self.writing.meshes.textures.place(material.texture))
        except NoImage as error:
            self.writing.drop(_called(material), "its texture", str(error))
            return ""

    def _report(self, material: VisualMaterial, *, is_in_mesh: bool) -> None:
        if material.image_color is not None:
            self.writing.approximate(_called(material), "the texture around it", how_around(material))
        unsaid = [name for name in _UNSAID if getattr(material, name) is not None]
        unsaid += [f"{role} map" for role in material.maps]
        unsaid += ["the placement of its texture"] if material.placement != Placement() else []
        if not unsaid:
            return
        if is_in_mesh:
            how = "it is in the file of the mesh, which URDF's own colour hides in many programs"
            self.writing.lose(Action.EXTENSION, _called(material), ", ".join(unsaid), how)
        else:
            self.writing.drop(_called(material), ", ".join(unsaid), "URDF's materials are a colour and a texture")


def _called(material: VisualMaterial) -> VisualMaterial:
    """The material, by a name that says so if it has none."""
    if material.name:
        return material
    named = copy.copy(material)
    named.name = "(without a name)"
    return named
