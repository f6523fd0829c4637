"""Looks: material and texture assets, and colours on geoms."""

from __future__ import annotations

from pathlib import Path

from kinema.description import VisualMaterial
from kinema.words import mjcf

from ..text import Element, number, numbers
from .numbers import text_or_none
from .writing import Writing

DEFAULT_COLOR = (0.5, 0.5, 0.5, 1.0)
"""What MuJoCo paints a geom without a colour."""
_TEXTURE_SUFFIXES = (".png", ".ktx")


def apply_material(writing: Writing, material: VisualMaterial | None, element: Element, format: str) -> None:
    """Give a geom or site its material and colour."""
    if material is None:
        return
    color = DEFAULT_COLOR if material.color is None else material.color
    if not _is_asset(material):
        if color != DEFAULT_COLOR:
            element.set({"rgba": numbers(color)})
        return
    look, layers = _look(writing, material, format), _layers(writing, material)
    key = (material.name, *look.items(), *layers)
    if key not in writing.materials.made:
        name = writing.names.new(mjcf.MATERIAL, material.name or "material")
        own = color if material.color is not None else (1.0, 1.0, 1.0, 1.0)
        asset = writing.section(mjcf.ASSET).child(mjcf.MATERIAL, name=name)
        if [role for role, _ in layers] == ["rgb"]:
            asset.set({"texture": layers.pop()[1]})
        asset.set({**look, "rgba": None if own == (1.0, 1.0, 1.0, 1.0) else numbers(own)})
        for role, texture in layers:
            asset.child("layer", role=role, texture=texture)
        writing.materials.made[key] = (name, own)
    name, own = writing.materials.made[key]
    element.set({"material": name})
    if material.color is not None and material.color != own:
        if material.color == DEFAULT_COLOR:
            how = "MuJoCo takes this grey of a geom for none at all and paints it as its material"
            writing.approximate(material, "its colour", how)
        element.set({"rgba": numbers(material.color)})


def _is_asset(material: VisualMaterial) -> bool:
    """Whether there is more to it than a colour."""
    looks = (material.emission, material.specular, material.metallic, material.roughness, material.reflectance)
    named = bool(material.name) and not material.name_is_generated
    textured = bool(material.texture or material.attributes.get(mjcf.key(mjcf.TEXTURES)))
    return named or textured or any(x is not None for x in looks)


def _look(writing: Writing, material: VisualMaterial, format: str) -> dict[str, str | None]:
    """The attributes of the material, but for its colour."""
    shininess = writing.take(material, mjcf.SHININESS, 0.0 if format == mjcf.FORMAT else 0.5)
    repeat = writing.take(material, mjcf.TEXREPEAT)
    look: dict[str, str | None] = {
        "texrepeat": None if repeat is None else numbers(repeat),
        "texuniform": "true" if writing.take(material, mjcf.TEXUNIFORM) else None,
        "emission": _emission(writing, material),
        "specular": None if material.specular is None else text_or_none(material.specular, 0.5),
        "shininess": text_or_none(shininess, 0.5),
        "reflectance": None if material.reflectance is None else text_or_none(material.reflectance),
        "metallic": None if material.metallic is None else number(material.metallic),
        "roughness": None if material.roughness is None else number(material.roughness),
    }
    return {name: text for name, text in look.items() if text is not None}


def _emission(writing: Writing, material: VisualMaterial) -> str | None:
    """MuJoCo has one number: how much of its own colour the material gives off."""
    if material.emission is None or not any(material.emission):
        return None
    color = (material.color or (1.0, 1.0, 1.0, 1.0))[:3]
    parts = [e / c for e, c in zip(material.emission, color, strict=True) if c > 0]
    share = max(parts, default=0.0)
    if any(abs(e - share * c) > 1e-6 for e, c in zip(material.emission, color, strict=True)):
        how = f"MuJoCo's materials give off their own colour; {share:g} of it is written"
        writing.approximate(material, "the light it gives off", how)
    return number(float(f"{share:.7g}"))


# -- textures ---------------------------------------------------------------------------------------------------------


def _layers(writing: Writing, material: VisualMaterial) -> list[tuple[str, str]]:
    """Role and name of each texture."""
    layers = writing.take(material, mjcf.TEXTURES)
    if not layers:
        single = _texture(writing, material)
        return [] if single is None else [("rgb", single)]
    known = writing.names.taken.get(mjcf.TEXTURE, set())
    for name in layers.values():
        if name not in known:
            writing.drop(material, f"the texture {name!r}", "the description does not have it")
    return [(role, name) for role, name in layers.items() if name in known]


def _texture(writing: Writing, material: VisualMaterial) -> str | None:
    if not material.texture:
        return None
    path = Path(material.texture)
    if path.suffix.lower() not in _TEXTURE_SUFFIXES:
        writing.drop(material, "the texture", f"MuJoCo does not read {path.suffix or 'such'} files")
        return None
    file = writing.materials.copy(path)
    if file is None:
        writing.drop(material, "the texture", f"there is no file {path}")
        return None
    if file not in writing.materials.textures:
        name = writing.names.new(mjcf.TEXTURE, Path(file).stem)
        writing.section(mjcf.ASSET).child(mjcf.TEXTURE, type="2d", name=name, file=file)
        writing.materials.textures[file] = name
    return writing.materials.textures[file]
