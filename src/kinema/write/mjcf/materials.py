"""Looks: material and texture assets, and colours on geoms."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from kinema.description import VisualMaterial
from kinema.shapes import MapRole, Texture, Wrap
from kinema.words import mjcf

from ..stand_ins import with_mean_color
from ..text import Element, number, numbers
from ..textures import NoImage
from .numbers import text_or_none
from .writing import Writing

DEFAULT_COLOR = (0.5, 0.5, 0.5, 1.0)
"""What MuJoCo paints a geom without a colour."""
_TEXTURE_SUFFIXES = (".png", ".ktx")
_ROLES = {
    MapRole.NORMAL: "normal",
    MapRole.OCCLUSION: "occlusion",
    MapRole.ROUGHNESS: "roughness",
    MapRole.METALLIC: "metallic",
    MapRole.OPACITY: "opacity",
    MapRole.EMISSION: "emissive",
}
_PACKED = (MapRole.OCCLUSION, MapRole.ROUGHNESS, MapRole.METALLIC)
"""What the channels of MuJoCo's `orm` say, in their order."""


def apply_material(writing: Writing, material: VisualMaterial | None, element: Element, format: str) -> None:
    """Give a geom or site its material and colour."""
    if material is None:
        return
    if material.image_color is not None and not known_layers(writing, material):
        material = with_mean_color(material)
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
        _report_unsaid(writing, material)
    name, own = writing.materials.made[key]
    element.set({"material": name})
    if material.color is not None and material.color != own:
        if material.color == DEFAULT_COLOR:
            how = "MuJoCo takes this grey of a geom for none at all and paints it as its material"
            writing.approximate(material, "its colour", how)
        element.set({"rgba": numbers(material.color)})


def _is_asset(material: VisualMaterial) -> bool:
    """Whether there is more to it than a colour."""
    named = bool(material.name) and not material.name_is_generated
    textured = bool(material.attributes.get(mjcf.key(mjcf.TEXTURES)))
    return named or textured or (material.says_anything and not material.is_only_a_color)


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
        return list(_images(writing, material))
    known = known_layers(writing, material)
    for name in layers.values():
        if name not in known.values():
            writing.drop(material, f"the texture {name!r}", "the description does not have it")
    return list(known.items())


def known_layers(writing: Writing, material: VisualMaterial) -> dict[str, str]:
    """Role and name of the textures of an MJCF file that the description has."""
    known = writing.names.taken.get(mjcf.TEXTURE, set())
    layers = material.attributes.get(mjcf.key(mjcf.TEXTURES)) or {}
    return {role: name for role, name in layers.items() if name in known}


def _images(writing: Writing, material: VisualMaterial) -> Iterator[tuple[str, str]]:
    """The textures of a material of another format."""
    maps = dict(material.maps)
    opacity = maps.get(MapRole.OPACITY)
    has_alpha = opacity is not None and opacity.file == material.texture and opacity.channel in ("", "a")
    if material.texture:
        if has_alpha:
            del maps[MapRole.OPACITY]
        single = _texture(writing, material, material.texture, "the texture", "4" if has_alpha else None)
        if single is not None:
            yield "rgba" if has_alpha else "rgb", single
    if packed := _packed_image(maps):
        name = _texture(writing, material, packed, "its roughness map")
        maps = {role: image for role, image in maps.items() if role not in _PACKED}
        if name is not None:
            yield "orm", name
    for role, image in material.maps.items():
        if image.strength != 1.0 or (image.placement != material.placement and material.texture):
            how = "MuJoCo takes it at its full strength, lying as the mesh's coordinates say"
            writing.approximate(material, f"its {role} map", how)
    for role, image in maps.items():
        word = _ROLES.get(MapRole(role))
        if word is None or image.channel not in ("", "r"):
            writing.drop(material, f"its {role} map", "MuJoCo has no such texture, or takes another channel of it")
            continue
        name = _texture(writing, material, image.file, f"its {role} map")
        if name is not None:
            yield word, name


def _packed_image(maps: Mapping[str, Texture]) -> str:
    """The one image that has occlusion, roughness and metalness, each in a channel of its own; else nothing."""
    found = [(maps.get(role), channel) for role, channel in zip(_PACKED, "rgb", strict=True)]
    there = [(image, channel) for image, channel in found if image is not None]
    is_one = len(there) > 1 and len({image.file for image, _ in there}) == 1
    return there[0][0].file if is_one and all(image.channel == channel for image, channel in there) else ""


def _texture(
    writing: Writing, material: VisualMaterial, image: str, what: str, channels: str | None = None
) -> str | None:
    try:
        file = writing.materials.files.place(image, _TEXTURE_SUFFIXES)
    except NoImage as error:
        writing.drop(material, what, str(error))
        return None
    if file not in writing.materials.textures:
        name = writing.names.new(mjcf.TEXTURE, Path(file).stem)
        writing.section(mjcf.ASSET).child(mjcf.TEXTURE, type="2d", name=name, file=file, nchannel=channels)
        writing.materials.textures[file] = name
    return writing.materials.textures[file]


def _report_unsaid(writing: Writing, material: VisualMaterial) -> None:
    unsaid = [
        words
        for words, there in (
            ("its clearcoat", material.clearcoat is not None or material.clearcoat_roughness is not None),
            ("that it is seen from both sides", bool(material.double_sided)),
            ("from which opacity on it is there", material.opacity_threshold is not None),
            ("what is beyond the edges of its texture", set(material.placement.wrap) != {Wrap.REPEAT}),
        )
        if there
    ]
    if unsaid:
        writing.drop(material, ", ".join(unsaid), "MuJoCo's materials have no word for it")
