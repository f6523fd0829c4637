"""The look of a visual: `<material>`."""

from __future__ import annotations

import re

from kinema.description import Mesh, Shape, VisualMaterial
from kinema.shapes import Placement, Texture, channel_reference
from kinema.words import sdf

from ..stand_ins import how_around, with_mean_color
from ..text import Element, number, numbers
from ..textures import NoImage, without_carried
from .extras import give_back, setting
from .writing import Writing, finite, flag, plain_text

_SIMPLE = (*sdf.MATERIAL_NUMBERS, *sdf.MATERIAL_FLAGS)
_SAID = (sdf.AMBIENT, sdf.SPECULAR, sdf.SCRIPT, sdf.PBR)
_MAP = re.compile(r"<(\w+_map)>\s*(.*?)\s*</\1>", re.DOTALL)


def add_material(writing: Writing, element: Element, shape: Shape, material: VisualMaterial) -> None:
    """The `<material>` of a visual, where there is something to say."""
    if material.image_color is not None:
        writing.approximate(shape, "the texture around it", how_around(material))
        material = with_mean_color(material)
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
    _pbr(writing, made, shape, material)
    if material.double_sided is not None and setting(material, sdf.DOUBLE_SIDED) is None:
        made.child(sdf.DOUBLE_SIDED, flag(material.double_sided))
    unsaid = ["its reflectance"] if material.reflectance is not None else []
    unsaid += ["its clearcoat"] if material.clearcoat is not None or material.clearcoat_roughness is not None else []
    unsaid += ["from which opacity on it is there"] if material.opacity_threshold is not None else []
    unsaid += ["how its texture lies"] if material.placement != Placement() else []
    unsaid += ["its name"] if material.name and not material.name_is_generated else []
    is_mesh = isinstance(shape.geometry, Mesh)
    called = VisualMaterial(name=material.name or f"of {shape.name}", origin=material.origin)
    called.extras, called.attributes = material.extras, without_carried(material, is_laid=is_mesh).attributes
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


def _pbr(writing: Writing, element: Element, shape: Shape, material: VisualMaterial) -> None:
    texture = _texture(writing, shape, material.texture)
    maps = {sdf.PBR_MAPS[role]: texture for role, texture in _maps(writing, shape, material).items()}
    kept = next((e.text for e in material.extras if e.tag == sdf.PBR and e.format == sdf.FORMAT), None)
    if kept is not None:
        files = {**maps, "albedo_map": texture}
        element.verbatim(_MAP.sub(lambda m: f"<{m[1]}>{files.get(m[1]) or m[2]}</{m[1]}>", kept))
        others = sorted({m[0] for m in _MAP.findall(kept) if not files.get(m[0])})
        if others:
            writing.approximate(material, "its other maps", "the references are written as they were")
        return
    values = {"metalness": material.metallic, "roughness": material.roughness}
    if not texture and not maps and all(v is None for v in values.values()):
        return
    metal = element.child("pbr").child("metal")
    if texture:
        metal.child("albedo_map", texture)
    for tag, value in values.items():
        if value is not None:
            metal.child(tag, number(finite(value, material.name, tag)))
    for tag, reference in maps.items():
        metal.child(tag, reference)


def _maps(writing: Writing, shape: Shape, material: VisualMaterial) -> dict[str, str]:
    """What images say -> the references to them; what the format has no word for is on record."""
    found: dict[str, str] = {}
    files = [image.file for image in material.maps.values()]
    for role, image in material.maps.items():
        if role not in sdf.PBR_MAPS:
            writing.drop(shape, f"the {role} map of its material")
            continue
        split = _channel(writing, image, is_shared=files.count(image.file) > 1)
        reference = split or _texture(writing, shape, image.file)
        if reference:
            found[role] = reference
        is_whole = bool(split) or image.channel in ("", "r")
        if not is_whole or image.strength != 1.0 or image.placement != material.placement:
            how = "SDFormat takes the whole of the image, at its full strength and as the base colour's lies"
            writing.approximate(shape, f"the {role} map of its material", how)
    return found


def _channel(writing: Writing, image: Texture, *, is_shared: bool) -> str:
    """The reference to a grey image of the channel that is meant; empty where the whole image is, or it cannot be made.

    Of an image that says several things, as glTF packs them, each gets one of its own.
    """
    if not image.channel or (image.channel == "r" and not is_shared):
        return ""
    try:
        return writing.meshes.textures.place(channel_reference(image.file, image.channel))
    except NoImage:
        return ""


def _texture(writing: Writing, shape: Shape, image: str) -> str:
    """The reference to a texture, which is copied beside the file that is written."""
    if not image:
        return ""
    try:
        return writing.meshes.textures.place(image)
    except NoImage as error:
        writing.approximate(shape, "its texture", f"{error}; the reference is written as it was")
        return image
