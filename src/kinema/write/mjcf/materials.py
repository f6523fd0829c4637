"""Material and texture assets, colours of geoms, and meshes split by material."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from kinema import geometry
from kinema.description import Mesh, Shape, VisualMaterial, effective_appearance
from kinema.geometry import Appearance, CubeMapProjection, MapRole, PbrMaterial, Texture, WrapMode
from kinema.tokens import mjcf

from ..textures import ImageUnavailableError, is_default_mapping, mapped_coordinates, with_mean_color
from ..xml_document import Element, format_number, format_numbers
from .assets import MESH_SUFFIXES
from .attributes import text_unless_default
from .context import MjcfContext

# ------------------------------------------------------------------------------------------------------------ materials

DEFAULT_COLOR = (0.5, 0.5, 0.5, 1.0)
"""MuJoCo's default geom colour."""
_TEXTURE_SUFFIXES = (".png", ".ktx")
_TEXTURE_ROLES = {
    MapRole.NORMAL: "normal",
    MapRole.OCCLUSION: "occlusion",
    MapRole.ROUGHNESS: "roughness",
    MapRole.METALLIC: "metallic",
    MapRole.OPACITY: "opacity",
    MapRole.EMISSION: "emissive",
}
_ORM_ROLES = (MapRole.OCCLUSION, MapRole.ROUGHNESS, MapRole.METALLIC)
"""Roles of the red, green and blue channels of MuJoCo's `orm` textures."""


def set_material(ctx: MjcfContext, material: VisualMaterial | None, element: Element, source_format: str) -> None:
    """Set material and colour of a geom or site; writes the material asset on first use."""
    if material is None:
        return
    if material.mean_texture_color is not None and not original_texture_layers(ctx, material):
        material = with_mean_color(material)
    color = DEFAULT_COLOR if material.color is None else material.color
    if not _needs_asset(material):
        if color != DEFAULT_COLOR:
            element.set_attributes({"rgba": format_numbers(color)})
        return
    look, layers = _material_attributes(ctx, material, source_format), _texture_layers(ctx, material)
    key = (material.name, *look.items(), *layers)
    if key not in ctx.materials.written_materials:
        name = ctx.names.new_name(mjcf.MATERIAL, material.name or "material")
        own = color if material.color is not None else (1.0, 1.0, 1.0, 1.0)
        asset = ctx.section(mjcf.ASSET).add_child(mjcf.MATERIAL, name=name)
        if [role for role, _ in layers] == ["rgb"]:
            asset.set_attributes({"texture": layers.pop()[1]})
        asset.set_attributes({**look, "rgba": None if own == (1.0, 1.0, 1.0, 1.0) else format_numbers(own)})
        for role, texture in layers:
            asset.add_child("layer", role=role, texture=texture)
        ctx.materials.written_materials[key] = (name, own)
        _report_unsupported(ctx, material)
    name, own = ctx.materials.written_materials[key]
    element.set_attributes({"material": name})
    if material.color is not None and material.color != own:
        if material.color == DEFAULT_COLOR:
            how = "MuJoCo takes this grey of a geom for none at all and paints it as its material"
            ctx.report_approximated(material, "its colour", how)
        element.set_attributes({"rgba": format_numbers(material.color)})


def _needs_asset(material: VisualMaterial) -> bool:
    """Whether a material needs an asset: it has a name, a texture or properties beyond a colour."""
    named = bool(material.name) and not material.name_is_generated
    textured = bool(material.attributes.get(mjcf.attribute_key(mjcf.TEXTURES)))
    return named or textured or (material.has_properties and not material.is_color_only)


def _material_attributes(ctx: MjcfContext, material: VisualMaterial, source_format: str) -> dict[str, str | None]:
    """Attributes of a material asset except its colour."""
    shininess = ctx.use_attribute(material, mjcf.SHININESS, 0.0 if source_format == mjcf.FORMAT else 0.5)
    repeat = ctx.use_attribute(material, mjcf.TEXREPEAT)
    look: dict[str, str | None] = {
        "texrepeat": None if repeat is None else format_numbers(repeat),
        "texuniform": "true" if ctx.use_attribute(material, mjcf.TEXUNIFORM) else None,
        "emission": _emission_text(ctx, material),
        "specular": None if material.specular is None else text_unless_default(material.specular, 0.5),
        "shininess": text_unless_default(shininess, 0.5),
        "reflectance": None if material.reflectance is None else text_unless_default(material.reflectance),
        "metallic": None if material.metallic is None else format_number(material.metallic),
        "roughness": None if material.roughness is None else format_number(material.roughness),
    }
    return {name: text for name, text in look.items() if text is not None}


def _emission_text(ctx: MjcfContext, material: VisualMaterial) -> str | None:
    """MuJoCo's scalar emission, the factor of the material's own colour; reports differently coloured emission."""
    if material.emission is None or not any(material.emission):
        return None
    color = (material.color or (1.0, 1.0, 1.0, 1.0))[:3]
    parts = [e / c for e, c in zip(material.emission, color, strict=True) if c > 0]
    share = max(parts, default=0.0)
    if any(abs(e - share * c) > 1e-6 for e, c in zip(material.emission, color, strict=True)):
        how = f"MuJoCo's materials give off their own colour; {share:g} of it is written"
        ctx.report_approximated(material, "the light it gives off", how)
    return format_number(float(f"{share:.7g}"))


# ------------------------------------------------------------------------------------------------------------- textures


def _texture_layers(ctx: MjcfContext, material: VisualMaterial) -> list[tuple[str, str]]:
    """Role and name of each texture of a material."""
    layers = ctx.use_attribute(material, mjcf.TEXTURES)
    if not layers:
        return list(_image_layers(ctx, material))
    known = original_texture_layers(ctx, material)
    for name in layers.values():
        if name not in known.values():
            ctx.report_dropped(material, f"the texture {name!r}", "the description does not have it")
    return list(known.items())


def original_texture_layers(ctx: MjcfContext, material: VisualMaterial) -> dict[str, str]:
    """Role and name of a material's textures from an MJCF source that are in the file."""
    known = ctx.names.taken_names.get(mjcf.TEXTURE, set())
    layers = material.attributes.get(mjcf.attribute_key(mjcf.TEXTURES)) or {}
    return {role: name for role, name in layers.items() if name in known}


def _image_layers(ctx: MjcfContext, material: VisualMaterial) -> Iterator[tuple[str, str]]:
    """Role and name of the textures of a material from another format; writes the texture assets."""
    maps = dict(material.maps)
    opacity = maps.get(MapRole.OPACITY)
    has_alpha = opacity is not None and opacity.file == material.texture and opacity.channel in ("", "a")
    if material.texture:
        if has_alpha:
            del maps[MapRole.OPACITY]
        single = _texture_name(ctx, material, material.texture, "the texture", "4" if has_alpha else None)
        if single is not None:
            yield "rgba" if has_alpha else "rgb", single
    if packed := _orm_image(maps):
        name = _texture_name(ctx, material, packed, "its roughness map")
        maps = {role: image for role, image in maps.items() if role not in _ORM_ROLES}
        if name is not None:
            yield "orm", name
    for role, image in material.maps.items():
        if image.strength != 1.0 or (image.mapping != material.texture_mapping and material.texture):
            how = "MuJoCo takes it at its full strength, lying as the mesh's coordinates say"
            ctx.report_approximated(material, f"its {role} map", how)
    for role, image in maps.items():
        word = _TEXTURE_ROLES.get(MapRole(role))
        if word is None or image.channel not in ("", "r"):
            ctx.report_dropped(
                material, f"its {role} map", "MuJoCo has no such texture, or takes another channel of it"
            )
            continue
        name = _texture_name(ctx, material, image.file, f"its {role} map")
        if name is not None:
            yield word, name


def _orm_image(maps: Mapping[str, Texture]) -> str:
    """Image with occlusion, roughness and metalness in its red, green and blue channels; empty if there is none."""
    found = [(maps.get(role), channel) for role, channel in zip(_ORM_ROLES, "rgb", strict=True)]
    there = [(image, channel) for image, channel in found if image is not None]
    is_one = len(there) > 1 and len({image.file for image, _ in there}) == 1
    return there[0][0].file if is_one and all(image.channel == channel for image, channel in there) else ""


def _texture_name(
    ctx: MjcfContext, material: VisualMaterial, image: str, what: str, channels: str | None = None
) -> str | None:
    """Name of the texture asset of an image, written on first use; None, with a report, if unavailable."""
    try:
        file = ctx.materials.texture_store.place_image(image, _TEXTURE_SUFFIXES)
    except ImageUnavailableError as error:
        ctx.report_dropped(material, what, str(error))
        return None
    if file not in ctx.materials.texture_names:
        name = ctx.names.new_name(mjcf.TEXTURE, Path(file).stem)
        ctx.section(mjcf.ASSET).add_child(mjcf.TEXTURE, type="2d", name=name, file=file, nchannel=channels)
        ctx.materials.texture_names[file] = name
    return ctx.materials.texture_names[file]


def _report_unsupported(ctx: MjcfContext, material: VisualMaterial) -> None:
    """Report clearcoat, double-sidedness, opacity threshold and wrap modes, which MuJoCo lacks."""
    unsaid = [
        words
        for words, there in (
            ("its clearcoat", material.clearcoat is not None or material.clearcoat_roughness is not None),
            ("that it is seen from both sides", bool(material.double_sided)),
            ("from which opacity on it is there", material.opacity_threshold is not None),
            ("what is beyond the edges of its texture", set(material.texture_mapping.wrap) != {WrapMode.REPEAT}),
        )
        if there
    ]
    if unsaid:
        ctx.report_dropped(material, ", ".join(unsaid), "MuJoCo's materials have no word for it")


# --------------------------------------------------------------------------------------------- meshes split by material

_MAX_FACE_COLORS = 64
"""Maximum number of face colours for which a mesh is split."""


class SingleMaterialMesh(NamedTuple):
    """Mesh with one material."""

    mesh: Mesh
    material: VisualMaterial | None


def split_by_material(ctx: MjcfContext, shape: Shape) -> list[SingleMaterialMesh]:
    """Meshes of a visual shape split by material; empty if the shape needs no split and has its own material."""
    mesh = shape.geometry
    if not shape.visual or not isinstance(mesh, Mesh) or _uses_original_file(ctx, shape, mesh):
        return []
    if not isinstance(mesh.projection, CubeMapProjection) or original_texture_layers(
        ctx, shape.material or VisualMaterial()
    ):
        mesh = dataclasses.replace(mesh, projection=None)  # MuJoCo lays images so by itself
    try:
        dressed = ctx.meshes.textured_meshes.get(mesh)
        if dressed is None or len(dressed.mesh.faces) == 0:
            return []
        geometry.validate_mesh(dressed.mesh)
    except geometry.GeometryError:
        return []
    for sentence in dressed.appearance_notes:
        ctx.report_dropped(shape, "a part of the look of its mesh", sentence.rstrip("."))
    appearance = _face_colors_as_materials(ctx, shape, effective_appearance(shape, dressed))
    groups = appearance.faces_by_material(dressed.mesh.n_faces)
    if len(groups) == 1:
        return [
            SingleMaterialMesh(
                _whole_mesh(ctx, mesh, dressed.mesh, appearance, groups[0][0]), _as_visual_material(groups[0][0])
            )
        ]
    return list(_split_faces(ctx, mesh, dressed.mesh, appearance))


def _uses_original_file(ctx: MjcfContext, shape: Shape, mesh: Mesh) -> bool:
    """Whether MuJoCo can use a mesh as it is: no appearance, or a readable file whose materials are overridden."""
    is_plain = mesh.vertices is not None and mesh.appearance is None
    is_read = mesh.vertices is None and Path(mesh.path).suffix.lower() in MESH_SUFFIXES and not mesh.submesh
    is_painted = shape.material is not None and shape.material.has_properties
    has_none = is_read and Path(mesh.path).suffix.lower() == ".msh"
    return is_plain or has_none or (is_read and is_painted and not _has_custom_mapping(ctx, shape.material))


def _has_custom_mapping(ctx: MjcfContext, material: PbrMaterial | None) -> bool:
    """Whether a material's texture mapping must be baked into the mesh's texture coordinates."""
    return (
        _new_texture_material(ctx, material) is not None
        and material is not None
        and not is_default_mapping(material.texture_mapping)
    )


def _new_texture_material(ctx: MjcfContext, material: PbrMaterial | None) -> PbrMaterial | None:
    """The material if its image is not a texture of the MJCF source (which defines its mapping itself), else None."""
    is_own = isinstance(material, VisualMaterial) and bool(original_texture_layers(ctx, material))
    return None if material is None or not material.texture or is_own else material


def _whole_mesh(
    ctx: MjcfContext, mesh: Mesh, data: geometry.MeshData, appearance: Appearance, material: PbrMaterial | None
) -> Mesh:
    """Mesh with all faces; the original file if MuJoCo reads it and no texture mapping must be baked."""
    is_read = mesh.vertices is None and not mesh.submesh and Path(mesh.path).suffix.lower() in MESH_SUFFIXES
    if is_read and not _has_custom_mapping(ctx, material):
        return mesh
    return _inline_mesh(ctx, mesh, data, appearance, material)


def _split_faces(
    ctx: MjcfContext, mesh: Mesh, data: geometry.MeshData, appearance: Appearance
) -> Iterator[SingleMaterialMesh]:
    for look, faces in appearance.faces_by_material(data.n_faces):
        part = _inline_mesh(ctx, mesh, geometry.extract_faces(data, faces), appearance.select_faces(faces), look)
        yield SingleMaterialMesh(part, _as_visual_material(look))


def _inline_mesh(
    ctx: MjcfContext, mesh: Mesh, data: geometry.MeshData, appearance: Appearance, material: PbrMaterial | None
) -> Mesh:
    """Mesh given in place with normals and baked texture coordinates."""
    coordinates = mapped_coordinates(
        appearance.texture_coordinates, _new_texture_material(ctx, material)
    )  # MuJoCo has no other way to say how an image lies
    layers = Appearance(normals=appearance.normals, texture_coordinates=() if coordinates is None else (coordinates,))
    return dataclasses.replace(
        mesh,
        path=mesh.path,
        vertices=data.vertices,
        faces=data.faces,
        appearance=None if layers.is_empty else layers,
        submesh="",
        center_submesh=False,
    )


def _as_visual_material(material: PbrMaterial | None) -> VisualMaterial | None:
    if material is None or isinstance(material, VisualMaterial):
        return material
    fields = {field.name: getattr(material, field.name) for field in dataclasses.fields(PbrMaterial)}
    return VisualMaterial(**fields)


def _face_colors_as_materials(ctx: MjcfContext, shape: Shape, appearance: Appearance) -> Appearance:
    """Appearance with uniform face colours converted to materials; varying colours are reported as dropped."""
    colors = appearance.colors
    if colors is None:
        return appearance
    plain = dataclasses.replace(appearance, colors=None)
    kinds = np.unique(colors.values, axis=0)
    of_corner = colors.expanded()
    is_flat = (of_corner == of_corner[:, :1]).all()
    if not is_flat or len(kinds) > _MAX_FACE_COLORS or any(look.texture for look in appearance.materials):
        ctx.report_dropped(
            shape, "the colours of its vertices", "MuJoCo paints a mesh in one colour, or with a texture"
        )
        return plain
    found, numbers = np.unique(of_corner[:, 0], axis=0, return_inverse=True)
    looks = tuple(VisualMaterial(color=(r, g, b, a)) for r, g, b, a in found.tolist())
    return dataclasses.replace(plain, materials=looks, face_material_indices=numbers.reshape(-1))
