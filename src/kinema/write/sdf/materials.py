"""The look of a visual: `<material>`."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from kinema.description import Shape, VisualMaterial
from kinema.foundation import clean_name, unique_name
from kinema.words import sdf

from ..text import Element, number, numbers
from .extras import give_back, setting
from .writing import Writing, finite, plain_text

FOLDER = "textures"
_SIMPLE = (*sdf.MATERIAL_NUMBERS, *sdf.MATERIAL_FLAGS)
_SAID = (sdf.AMBIENT, sdf.SPECULAR, sdf.SCRIPT, sdf.PBR)
_ALBEDO = re.compile(r"(<albedo_map>).*?(</albedo_map>)", re.DOTALL)


def add_material(writing: Writing, element: Element, shape: Shape, material: VisualMaterial) -> None:
    """The `<material>` of a visual, where there is something to say."""
    made = Element("material")
    color = _shown(writing, shape, _color(shape, material))
    specular, ambient = setting(material, sdf.SPECULAR), setting(material, sdf.AMBIENT)
    if ambient is None and color is not None and not writing.is_same_format:
        ambient = color  # the format would take black: a shape would be dark wherever no lamp shines on it
    if ambient is not None:
        made.child(sdf.AMBIENT, plain_text(ambient))
    if color is not None:
        made.child("diffuse", numbers(color))
    if specular is None and material.specular is not None:
        specular = _shown(writing, shape, (material.specular, material.specular, material.specular, 1.0))
    if specular is not None:
        made.child(sdf.SPECULAR, plain_text(specular))
    if material.emission is not None:
        emission = _shown(writing, shape, (*material.emission, 1.0))
        made.child("emissive", numbers(emission or ()))
    _pbr(writing, made, material)
    unsaid = ["its reflectance"] if material.reflectance is not None else []
    unsaid += ["its name"] if material.name and not material.name_is_generated else []
    called = material if material.name else VisualMaterial(name=f"of {shape.name}", origin=material.origin)
    called.extras, called.attributes = material.extras, material.attributes
    if unsaid:
        writing.drop(called, ", ".join(unsaid))
    give_back(writing, called, made, said=_SAID, skip=(sdf.PBR,), simple=_SIMPLE)
    if made.children:
        element.children.append(made)


def _color(shape: Shape, material: VisualMaterial) -> tuple[float, float, float, float] | None:
    """The colour without the transparency that the visual has beside it."""
    if material.color is None:
        return None
    transparency = setting(shape, sdf.TRANSPARENCY)
    red, green, blue, alpha = material.color
    if isinstance(transparency, float) and 0 < transparency <= 1:
        alpha = alpha / (1 - transparency) if transparency < 1 else 1.0
    return red, green, blue, alpha


def _shown(writing: Writing, shape: Shape, color: tuple[float, float, float, float] | None) -> tuple[float, ...] | None:
    """The colour as readers accept it: from 0 to 1."""
    if color is None:
        return None
    clamped = tuple(min(max(finite(c, shape.name, "colour"), 0.0), 1.0) for c in color)
    if clamped != color:
        how = f"{numbers(color)} is not from 0 to 1, and is {numbers(clamped)} here"
        writing.approximate(shape, "its colour", how)
    return clamped


def _pbr(writing: Writing, element: Element, material: VisualMaterial) -> None:
    texture = _texture(writing, material)
    kept = next((e.text for e in material.extras if e.tag == sdf.PBR and e.format == sdf.FORMAT), None)
    if kept is not None:
        element.verbatim(_ALBEDO.sub(lambda m: f"{m[1]}{texture}{m[2]}", kept) if texture else kept)
        if re.search(r"<(?!albedo)\w+_map>", kept):
            writing.approximate(material, "its other maps", "the references are written as they were")
        return
    values = {"metalness": material.metallic, "roughness": material.roughness}
    if not texture and all(v is None for v in values.values()):
        return
    metal = element.child("pbr").child("metal")
    if texture:
        metal.child("albedo_map", texture)
    for tag, value in values.items():
        if value is not None:
            metal.child(tag, number(finite(value, material.name, tag)))


def _texture(writing: Writing, material: VisualMaterial) -> str:
    """The reference to a texture, which is copied beside the file that is written."""
    if not material.texture or writing.options.meshes == "reference":
        return material.texture
    if material.texture not in writing.textures:
        source = Path(material.texture)
        if not source.is_file():
            writing.approximate(material, "its texture", "the file was not found; the reference is written as it was")
            return material.texture
        taken = {Path(p).stem for p in writing.textures.values()}
        place = f"{FOLDER}/{unique_name(clean_name(source.stem), taken)}{source.suffix.lower()}"
        target = writing.meshes.draft / place
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
        writing.textures[material.texture] = place
    return writing.textures[material.texture]
