"""COLLADA 1.4.1 mesh files with Phong effects and external images.

The common profile of COLLADA is the Phong model: diffuse colour or image, specular colour, shininess, transparency.
Material properties that the profile lacks are appended to a list of losses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from kinema.geometry import (
    Appearance,
    CornerAttribute,
    MapRole,
    MeshData,
    PbrMaterial,
    TextureMapping,
    WrapMode,
    phong_exponent_from_roughness,
)

from .obj_file import format_rows
from .textures import ImageUnavailableError, LossEntries, is_default_mapping
from .xml_document import Element, format_number, format_numbers, to_xml

# ------------------------------------------------------------------------------------------------------------ materials

_WRAP_MODES = {WrapMode.REPEAT: "WRAP", WrapMode.CLAMP: "CLAMP", WrapMode.MIRROR: "MIRROR", WrapMode.BLACK: "BORDER"}
_NOT_SUPPORTED_TEXT = "COLLADA has no word for it"
_UNSUPPORTED_PROPERTIES = (
    ("its metallic share", "metallic"),
    ("its reflectance", "reflectance"),
    ("its clearcoat", "clearcoat"),
    ("the roughness of its clearcoat", "clearcoat_roughness"),
    ("from which opacity on it is there", "opacity_threshold"),
)
_SUPPORTED_MAPS = (MapRole.EMISSION, MapRole.SPECULAR, MapRole.OPACITY, MapRole.NORMAL)


class ColladaEffects:
    """Image, effect and material libraries of one COLLADA file."""

    def __init__(self, place_image: Callable[[str], str], losses: LossEntries) -> None:
        self._place_image = place_image
        self._losses = losses
        self._images = Element("library_images")
        self._effects = Element("library_effects")
        self._materials = Element("library_materials")
        self._symbols_by_id: dict[int, str] = {}
        self._image_ids: dict[str, str] = {}

    def non_empty_libraries(self) -> list[Element]:
        """Library elements that have children."""
        return [library for library in (self._images, self._effects, self._materials) if library.children]

    def add_material(self, material: PbrMaterial | None) -> str:
        """Add a material with its effect at its first use and return its symbol (also its id); empty for None."""
        if material is None:
            return ""
        if id(material) not in self._symbols_by_id:
            symbol = self._symbols_by_id[id(material)] = f"material_{len(self._symbols_by_id)}"
            effect = self._effects.add_child("effect", id=f"{symbol}_effect")
            self._write_effect(effect.add_child("profile_COMMON"), material)
            if material.double_sided is not None:
                extra = effect.add_child("extra").add_child("technique", profile="GOOGLEEARTH")
                extra.add_child("double_sided", "1" if material.double_sided else "0")
            made = self._materials.add_child("material", id=symbol, name=material.name or symbol)
            made.add_child("instance_effect", url=f"#{symbol}_effect")
        return self._symbols_by_id[id(material)]

    def _report_loss(self, material: PbrMaterial, what: str, why: str = _NOT_SUPPORTED_TEXT) -> None:
        self._losses.append((material.name, what, why))

    def _write_effect(self, profile: Element, material: PbrMaterial) -> None:
        """Write the Phong technique of a material into a common profile; report properties that COLLADA lacks."""
        technique = Element("technique", {"sid": "common"})
        model = technique.add_child("phong")
        self._write_emission(profile, model, material)
        self._write_diffuse(profile, model, material)
        self._write_specular(profile, model, material)
        self._write_transparency(profile, model, material)
        normal = material.maps.get(MapRole.NORMAL)
        if normal is not None:
            bump = Element("bump", {"bumptype": "NORMALMAP"})
            if self._write_texture(profile, bump, material, normal.file, normal.mapping, "its normal map"):
                technique.add_child("extra").add_child("technique", profile="FCOLLADA").children.append(bump)
        for role, texture in material.maps.items():
            if role not in _SUPPORTED_MAPS:
                self._report_loss(material, f"its {role} map")
            elif texture.strength != 1.0:
                self._report_loss(material, f"the strength of its {role} map")
        for words, field in _UNSUPPORTED_PROPERTIES:
            if getattr(material, field) is not None:
                self._report_loss(material, words)
        profile.children.append(technique)

    def _write_emission(self, profile: Element, model: Element, material: PbrMaterial) -> None:
        """Write the emission map or colour of a material; COLLADA has either."""
        image = material.maps.get(MapRole.EMISSION)
        if image is not None:
            element = Element("emission")
            if self._write_texture(profile, element, material, image.file, image.mapping, "its emission map"):
                model.children.append(element)
            if material.emission is not None:
                self._report_loss(material, "its emission beside the map of it", "COLLADA has one or the other")
        elif material.emission is not None:
            model.add_child("emission").add_child("color", format_numbers((*material.emission, 1.0)))

    def _write_diffuse(self, profile: Element, model: Element, material: PbrMaterial) -> None:
        """Write the base texture or colour of a material as diffuse; COLLADA has either."""
        element = Element("diffuse")
        if material.texture and self._write_texture(
            profile, element, material, material.texture, material.texture_mapping, "its texture"
        ):
            if material.color is not None and material.color[:3] != (1.0, 1.0, 1.0):
                self._report_loss(
                    material, "the colour that its texture is multiplied by", "COLLADA has one or the other"
                )
        elif material.color is not None:
            element.add_child("color", format_numbers((*material.color[:3], 1.0)))
        if element.children:
            model.children.append(element)

    def _write_specular(self, profile: Element, model: Element, material: PbrMaterial) -> None:
        """Write the specular map or colour, and the Phong exponent of the roughness."""
        image = material.maps.get(MapRole.SPECULAR)
        element = Element("specular")
        if image is not None and self._write_texture(
            profile, element, material, image.file, image.mapping, "its specular map"
        ):
            if material.specular is not None:
                self._report_loss(material, "its specular share beside the map of it", "COLLADA has one or the other")
        elif material.specular is not None:
            element.add_child("color", format_numbers((*(material.specular,) * 3, 1.0)))
        if element.children:
            model.children.append(element)
        if material.roughness is not None:
            exponent = phong_exponent_from_roughness(material.roughness)
            model.add_child("shininess").add_child("float", format_number(round(exponent, 6)))

    def _write_transparency(self, profile: Element, model: Element, material: PbrMaterial) -> None:
        """Write the opacity map or alpha of a material; nothing if it is opaque."""
        image = material.maps.get(MapRole.OPACITY)
        alpha = 1.0 if material.color is None else material.color[3]
        if image is None and alpha == 1.0:
            return
        element = Element("transparent", {"opaque": "A_ONE"})
        if image is None or not self._write_texture(
            profile, element, material, image.file, image.mapping, "its opacity map"
        ):
            element.add_child("color", "1 1 1 1")
        elif image.channel not in ("", "a"):
            self._report_loss(material, "which channel its opacity map is", "COLLADA takes the alpha of its image")
        model.children.append(element)
        model.add_child("transparency").add_child("float", format_number(alpha))

    def _write_texture(
        self, profile: Element, element: Element, material: PbrMaterial, file: str, mapping: TextureMapping, what: str
    ) -> bool:
        """Write a texture with its sampler and image into an element.

        Returns:
            False, with a reported loss, if the image is unavailable.
        """
        try:
            reference = self._place_image(file)
        except ImageUnavailableError as error:
            self._report_loss(material, what, str(error))
            return False
        if reference not in self._image_ids:
            self._image_ids[reference] = f"image_{len(self._image_ids)}"
            self._images.add_child("image", id=self._image_ids[reference]).add_child("init_from", reference)
        wraps = [_WRAP_MODES[side] for side in mapping.wrap]
        name = "_".join([self._image_ids[reference], *map(str.lower, wraps)])
        if not any(isinstance(e, Element) and e.attributes.get("sid") == name for e in profile.children):
            surface = profile.add_child("newparam", sid=f"{name}_surface").add_child("surface", type="2D")
            surface.add_child("init_from", self._image_ids[reference])
            sampler = profile.add_child("newparam", sid=name).add_child("sampler2D")
            sampler.add_child("source", f"{name}_surface")
            for tag, word in zip(("wrap_s", "wrap_t"), wraps, strict=True):
                sampler.add_child(tag, word)
        element.add_child("texture", texture=name, texcoord="UV")
        if not is_default_mapping(mapping):
            self._report_loss(material, "how a texture lies (its scale, its turn, or its set of coordinates)")
        return True


# ------------------------------------------------------------------------------------------------------- mesh documents

_NAMESPACE = "http://www.collada.org/2005/11/COLLADASchema"


def collada_text(
    mesh: MeshData, appearance: Appearance | None, name: str, place_image: Callable[[str], str], losses: LossEntries
) -> str:
    """COLLADA 1.4.1 text of a mesh; positions are exact in float64, other numbers have nine digits.

    Args:
        mesh: the triangles [m]; axes are unchanged.
        appearance: vertex attributes and materials; None for none.
        name: name of the mesh.
        place_image: places an image beside the file and returns its reference; raises `ImageUnavailableError`.
        losses: receives properties that COLLADA cannot represent.
    """
    looks = appearance or Appearance()
    root = Element("COLLADA", {"xmlns": _NAMESPACE, "version": "1.4.1"})
    asset = root.add_child("asset")
    asset.add_child("contributor").add_child("authoring_tool", "Kinema")
    for tag in ("created", "modified"):
        asset.add_child(tag, "2000-01-01T00:00:00")  # the same content is the same file
    asset.add_child("unit", name="meter", meter="1")
    asset.add_child("up_axis", "Z_UP")
    groups = [(look, faces) for look, faces in looks.faces_by_material(mesh.n_faces) if len(faces)]
    effects = ColladaEffects(place_image, losses)
    symbols = [effects.add_material(look) for look, _ in groups]
    root.children += effects.non_empty_libraries()
    geometry = root.add_child("library_geometries").add_child("geometry", id="mesh", name=name)
    _write_mesh(geometry.add_child("mesh"), mesh, looks, [(s, f) for s, (_, f) in zip(symbols, groups, strict=True)])
    _write_visual_scene(root, name, [symbol for symbol in dict.fromkeys(symbols) if symbol])
    return to_xml(root)


def _write_mesh(
    element: Element, mesh: MeshData, appearance: Appearance, groups: Sequence[tuple[str, np.ndarray]]
) -> None:
    """Write sources and one `<triangles>` element per group (material symbol, face indices) of a mesh."""
    layers = list(_vertex_attributes(appearance))
    _write_source(element, "positions", mesh.vertices, "XYZ", "%r")
    for _, name, axes, _, layer in layers:
        _write_source(element, name, layer.values, axes, "%.9g")
    vertices = element.add_child("vertices", id="vertices")
    vertices.add_child("input", semantic="POSITION", source="#positions")
    table = np.stack([mesh.faces, *(layer.indices for *_, layer in layers)], axis=-1)
    for symbol, faces in groups:
        made = element.add_child("triangles", count=str(len(faces)), material=symbol or None)
        made.add_child("input", semantic="VERTEX", source="#vertices", offset="0")
        for place, (semantic, name, _, number_of_set, _) in enumerate(layers, start=1):
            given = number_of_set if semantic == "TEXCOORD" else None
            made.add_child("input", semantic=semantic, source=f"#{name}", offset=str(place), set=given)
        made.add_child("p", format_rows("%d ", table[faces].reshape(-1)).strip())


def _vertex_attributes(appearance: Appearance) -> Iterator[tuple[str, str, str, str, CornerAttribute]]:
    """Vertex attributes of an appearance: semantic, source id, parameter names, set index and values."""
    if appearance.normals is not None:
        yield "NORMAL", "normals", "XYZ", "0", appearance.normals
    for i, coordinates in enumerate(appearance.texture_coordinates):
        yield "TEXCOORD", f"coordinates_{i}", "ST", str(i), coordinates
    if appearance.colors is not None:
        yield "COLOR", "colors", "RGBA", "0", appearance.colors


def _write_source(element: Element, name: str, values: np.ndarray, axes: str, number_format: str) -> None:
    """Write a `<source>` with a float array (n, len(axes)) and its accessor."""
    source = element.add_child("source", id=name)
    text = format_rows(f"{number_format} ", values.reshape(-1)).strip()
    source.add_child("float_array", text, id=f"{name}_array", count=str(values.size))
    accessor = source.add_child("technique_common").add_child(
        "accessor", source=f"#{name}_array", count=str(len(values)), stride=str(len(axes))
    )
    for axis in axes:
        accessor.add_child("param", name=axis, type="float")


def _write_visual_scene(root: Element, name: str, symbols: Sequence[str]) -> None:
    """Write a visual scene with one node that instances the mesh and binds its materials."""
    scene = root.add_child("library_visual_scenes").add_child("visual_scene", id="scene")
    instance = scene.add_child("node", id="node", name=name).add_child("instance_geometry", url="#mesh")
    if symbols:
        common = instance.add_child("bind_material").add_child("technique_common")
        for symbol in symbols:
            bound = common.add_child("instance_material", symbol=symbol, target=f"#{symbol}")
            bound.add_child("bind_vertex_input", semantic="UV", input_semantic="TEXCOORD", input_set=format_number(0))
    root.add_child("scene").add_child("instance_visual_scene", url="#scene")
