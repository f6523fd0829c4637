"""Materials: definitions anywhere in the file, references from visuals."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from kinema.description import VisualMaterial
from kinema.foundation import Diagnostics
from kinema.read.resolve import warn_of_stand_in
from kinema.words import urdf

from .elements import LinkElement, MaterialElement
from .references import References


@dataclass(slots=True, eq=False)
class Materials:
    """All materials of a robot by name. A definition inside a visual defines its name for the whole file."""

    diagnostics: Diagnostics
    references: References
    named: dict[str, tuple[MaterialElement, VisualMaterial]] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)

    def define(self, robot_level: list[MaterialElement], links: list[LinkElement]) -> None:
        """Collect the definitions, those of the robot first, so that the order of elements does not matter."""
        for element in robot_level:
            if not element.is_definition:
                message = f'material "{element.name}" has neither colour nor texture'
                self.diagnostics.warning(f"{urdf.FORMAT}.empty-material", message, origin=element.place)
            elif self._define(element):
                message = f'material "{element.name}" is defined more than once'
                hint = "ROS refuses this even where the definitions agree"
                self.diagnostics.warning(f"{urdf.FORMAT}.repeated-material", message, hint=hint, origin=element.place)
        for link in links:
            for shape in link.shapes:
                if shape.material is not None and shape.material.is_definition and shape.material.name:
                    self._define(shape.material)

    def _define(self, element: MaterialElement) -> bool:
        """Whether the same material was defined before."""
        known = self.named.get(element.name)
        if known is None:
            self.named[element.name] = (element, self._build(element))
            return False
        if _same(known[0], element):
            return True
        message = f'material "{element.name}" is defined differently at line {known[0].place.line}'
        hint = "give the two looks different names; each visual keeps the one written in it"
        self.diagnostics.error(f"{urdf.FORMAT}.material-conflict", message, hint=hint, origin=element.place)
        return False

    def of(self, element: MaterialElement) -> VisualMaterial | None:
        """What a visual's `<material>` means."""
        known = self.named.get(element.name) if element.name else None
        if element.is_definition:
            if known is None or not _same(known[0], element):
                return self._build(element)
        elif known is None:
            if element.name:
                message = f'material "{element.name}" is not defined anywhere in the file'
                self.diagnostics.warning(f"{urdf.FORMAT}.undefined-material", message, origin=element.place)
                return VisualMaterial(name=element.name, origin=element.place)
            return None
        self.used.add(element.name)
        return known[1]

    def _build(self, element: MaterialElement) -> VisualMaterial:
        color = None if element.color is None else tuple(element.color.tolist())
        material = VisualMaterial(name=element.name, origin=element.place, color=color)
        if element.texture is not None:
            material.attributes[urdf.TEXTURE] = element.texture
            found = self.references.find(element.texture)
            material.texture = str(found.path or "")
            if not found:
                message = f'material "{element.name}": the texture {element.texture!r} was not found: {found.reason}'
                self.diagnostics.warning(f"{urdf.FORMAT}.missing-texture", message, origin=element.place)
            warn_of_stand_in(found, self.diagnostics, urdf.FORMAT, element.place)
        return material


def _same(a: MaterialElement, b: MaterialElement) -> bool:
    if a.texture != b.texture or (a.color is None) != (b.color is None):
        return False
    return a.color is None or b.color is None or bool(np.array_equal(a.color, b.color))
