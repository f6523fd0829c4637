"""COLLADA (.dae) reader: scene nodes with their transforms, and effects converted to physically based materials.

`<unit meter="...">` is applied. `<up_axis>` is reported but not applied: coordinates stay in the axes of the file, as
in RViz and Gazebo, for which robot descriptions are written; files that declare Y_UP for an upright robot are common.
Effects of the common profile (Phong, Blinn, Lambert, constant) are converted to metallic-roughness materials.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from kinema.core import XmlElement, reproducible_norm

from ..appearance import (
    Appearance,
    MapRole,
    PbrMaterial,
    Texture,
    TextureMapping,
    WrapMode,
    roughness_from_phong_exponent,
)
from ..mesh import FloatArray, MeshError
from .collada_geometry import ColladaDocument, ColladaGeometry, read_collada_geometry
from .image_files import find_image_file
from .loaded_mesh import LoadedMesh, MeshSource, SceneFlattener, axis_angle_matrix, scale_matrix, translation_matrix
from .parsing import parse_floats

# Materials ------------------------------------------------------------------------------------------------------------

_SHADING_MODELS = ("phong", "blinn", "lambert", "constant")
_WRAP_MODES = {
    "WRAP": WrapMode.REPEAT,
    "MIRROR": WrapMode.MIRROR,
    "CLAMP": WrapMode.CLAMP,
    "BORDER": WrapMode.BLACK,
    "NONE": WrapMode.BLACK,
}
_LUMINANCE_WEIGHTS = (0.212671, 0.715160, 0.072169)


class ColladaMaterials:
    """Materials of a COLLADA document, converted on first use."""

    def __init__(self, document: ColladaDocument) -> None:
        self._document = document
        self._materials: dict[int, PbrMaterial] = {}

    def bind_materials(self, appearance: Appearance | None, instance: XmlElement | None) -> Appearance | None:
        """Replace material symbols of a geometry by the materials that an `<instance_geometry>` binds to them.

        Unbound symbols are looked up by material id or name; unknown symbols become a material with only a name.
        """
        if appearance is None or not appearance.materials:
            return appearance
        bindings = {} if instance is None else self._instance_bindings(instance)
        materials = tuple(
            bindings.get(symbol.name) or self._find_by_name(symbol.name) or PbrMaterial(name=symbol.name)
            for symbol in appearance.materials
        )
        return replace(appearance, materials=materials)

    def _instance_bindings(self, instance: XmlElement) -> Mapping[str, PbrMaterial]:
        """Material of each symbol bound by the `<instance_material>` elements of an instance."""
        bindings: dict[str, PbrMaterial] = {}
        for binding in instance.find_all("bind_material/technique_common/instance_material"):
            material = self._document.find_reference(binding, "target", "material")
            if material is not None:
                bindings[binding.get("symbol", "")] = self._read_material(material)
        return bindings

    def _find_by_name(self, symbol: str) -> PbrMaterial | None:
        """Material with the given id or name, for exporters that use the material instead of a bound symbol."""
        for material in self._document.root.find_all("library_materials/material"):
            if symbol in (material.get("id"), material.get("name")):
                return self._read_material(material)
        return None

    def _read_material(self, material: XmlElement) -> PbrMaterial:
        """Convert a `<material>` through its `profile_COMMON` effect; cached per element."""
        if id(material) not in self._materials:
            result = PbrMaterial(name=material.get("name") or material.get("id") or "")
            effect = self._document.find_reference(material.find("instance_effect"), "url", "effect")
            profile = None if effect is None else effect.find("profile_COMMON")
            if profile is not None and effect is not None:
                _EffectReader(self._document, effect, profile, result).read()
            self._materials[id(material)] = result
        return self._materials[id(material)]


class _EffectReader:
    """Converts one `<effect>` with `profile_COMMON` to a `PbrMaterial`."""

    def __init__(
        self, document: ColladaDocument, effect: XmlElement, profile: XmlElement, material: PbrMaterial
    ) -> None:
        """Collect the `<newparam>` elements of `effect` and `profile`; `material` is filled by `read`."""
        self._document = document
        self._effect = effect
        self._profile = profile
        self._material = material
        newparams = (
            *effect.find_all("newparam"),
            *profile.find_all("newparam"),
            *profile.find_all("technique/newparam"),
        )
        self._parameters = {item.get("sid", ""): item for item in newparams}

    def read(self) -> None:
        """Fill the material from the shading model: colours, opacity, roughness, specular, texture maps and sidedness.

        The Phong exponent `shininess` becomes roughness, and the mean of the specular colour the specular weight.
        """
        technique = self._profile.find("technique")
        model = None if technique is None else next((e for e in technique.children if e.tag in _SHADING_MODELS), None)
        if technique is None or model is None:
            return
        material = self._material
        self._read_diffuse(model)
        emission = self._read_color(model.find("emission"))
        if emission is not None and any(emission[:3]):
            material.emission = emission[:3]
        specular = self._read_color(model.find("specular"))
        if specular is not None:
            material.specular = sum(specular[:3]) / 3
        exponent = self._read_float(model.find("shininess"))
        if exponent is not None:
            material.roughness = roughness_from_phong_exponent(exponent)
        for role, element in (
            (MapRole.EMISSION, model.find("emission")),
            (MapRole.SPECULAR, model.find("specular")),
            (MapRole.OPACITY, model.find("transparent")),
            (MapRole.NORMAL, technique.find("extra/technique/bump")),
        ):
            texture = self._read_texture(element)
            if texture is not None:
                material.maps[role] = replace(texture, channel="a" if role is MapRole.OPACITY else "")
        double_sided = next((e.text for e in self._effect.iterate() if e.tag == "double_sided"), None)
        if double_sided is not None:
            material.double_sided = double_sided in ("1", "true")

    def _read_diffuse(self, model: XmlElement) -> None:
        """Set base colour, opacity and base colour texture from `<diffuse>` (or `<emission>` of a constant shader)."""
        material, diffuse = self._material, model.find("diffuse")
        color = self._read_color(diffuse)
        if color is None and model.tag == "constant":
            color = self._read_color(model.find("emission"))
        texture = self._read_texture(diffuse)
        if texture is not None:
            material.texture, material.texture_mapping = texture.file, texture.mapping
            color = color or (1.0, 1.0, 1.0, 1.0)
        if color is not None:
            material.color = (*color[:3], self._read_opacity(model))

    def _read_opacity(self, model: XmlElement) -> float:
        """Opacity from `<transparent>` and `<transparency>` by the `opaque` mode of the COLLADA specification.

        A fully transparent result is treated as an exporter error: it is noted and replaced by 1.
        """
        transparent, transparency = model.find("transparent"), self._read_float(model.find("transparency"))
        mode = "A_ONE" if transparent is None else transparent.get("opaque", "A_ONE")
        color = self._read_color(transparent) or ((0.0, 0.0, 0.0, 1.0) if mode == "RGB_ZERO" else (1.0, 1.0, 1.0, 1.0))
        factor = 1.0 if transparency is None else transparency
        if transparent is None and transparency is None:
            return 1.0
        luminance = sum(weight * value for weight, value in zip(_LUMINANCE_WEIGHTS, color[:3], strict=True))
        opacity = {
            "A_ZERO": 1.0 - color[3] * factor,
            "RGB_ZERO": 1.0 - luminance * factor,
            "RGB_ONE": luminance * factor,
        }.get(mode, color[3] * factor)
        if not opacity > 0.0:
            self._document.add_appearance_note("A fully transparent material was made opaque.")
            return 1.0
        return min(opacity, 1.0)

    # Values -----------------------------------------------------------------------------------------------------------

    def _resolve_parameter(self, element: XmlElement, tag: str) -> XmlElement | None:
        """Child element `tag`, or the value of the `<newparam>` that a `<param>` child references; None if absent."""
        found = element.find(tag)
        if found is None and (reference := element.find("param")) is not None:
            param = self._parameters.get(reference.get("ref", ""))
            found = None if param is None else param.find("float4" if tag == "color" else "float")
        return found

    def _read_color(self, element: XmlElement | None) -> tuple[float, float, float, float] | None:
        """RGBA of a `<color>` (direct or by parameter), alpha 1 by default; None if absent or malformed."""
        found = None if element is None else self._resolve_parameter(element, "color")
        values = _finite_floats(found)
        if len(values) not in (3, 4):
            return None
        red, green, blue, *alpha = values
        return red, green, blue, alpha[0] if alpha else 1.0

    def _read_float(self, element: XmlElement | None) -> float | None:
        """Value of a `<float>` (direct or by parameter); None if absent or malformed."""
        found = None if element is None else self._resolve_parameter(element, "float")
        values = _finite_floats(found)
        return values[0] if len(values) == 1 else None

    # Images -----------------------------------------------------------------------------------------------------------

    def _read_texture(self, element: XmlElement | None) -> Texture | None:
        """Texture of a `<texture>`, resolved through its sampler and surface or by image id; None if not found."""
        texture = None if element is None else element.find("texture")
        if texture is None:
            return None
        name = texture.get("texture", "")
        param = self._parameters.get(name)
        sampler = None if param is None else param.find("sampler2D")
        image_id, wrap = name, (WrapMode.REPEAT, WrapMode.REPEAT)
        if sampler is not None:
            wrap = (_wrap_mode(sampler, "wrap_s"), _wrap_mode(sampler, "wrap_t"))
            surface = self._parameters.get(sampler.find_text("source"))
            if surface is not None:
                image_id = surface.find_text("surface/init_from")
            elif (instance := sampler.find("instance_image")) is not None:
                image_id = instance.get("url", "").removeprefix("#")
        return self._texture_from_image(image_id, wrap)

    def _texture_from_image(self, image_id: str, wrap: tuple[WrapMode, WrapMode]) -> Texture | None:
        """Texture of the `<image>` with the given id; None if there is none, with a note if its file is not found."""
        image = next(
            (e for e in self._document.root.find_all("library_images/image") if e.attributes.get("id") == image_id),
            None,
        )
        if image is None:
            return None
        reference = image.find_text("init_from/ref") or image.find_text("init_from")
        file = find_image_file(self._document.folder, reference)
        if not file:
            self._document.add_appearance_note(f"The image '{reference[:80]}' was not found.")
            return None
        return Texture(file=file, mapping=TextureMapping(wrap=wrap))


def _wrap_mode(sampler: XmlElement, tag: str) -> WrapMode:
    return _WRAP_MODES.get(sampler.find_text(tag) or "WRAP", WrapMode.REPEAT)


def _finite_floats(element: XmlElement | None) -> list[float]:
    """Floats in the text of an element; empty if absent, malformed, longer than 1000 characters or non-finite."""
    if element is None or not element.text or len(element.text) > 1000:
        return []
    try:
        values = parse_floats(element.text.encode()).tolist()
    except ValueError:
        return []
    return values if all(math.isfinite(v) for v in values) else []


# Document -------------------------------------------------------------------------------------------------------------


def read_collada(source: MeshSource) -> LoadedMesh:
    """Read the visual scene of a COLLADA document as one merged mesh in metres.

    Node and geometry names and ids become named parts. Materials are converted if the appearance is requested.
    """
    document = ColladaDocument(source)
    materials = ColladaMaterials(document)
    scene = SceneFlattener(source.limits)
    unit_scale = scale_matrix(np.full(3, _unit_in_metres(document.root)))
    geometries: dict[int, ColladaGeometry] = {}
    for instance in _geometry_instances(document, scene):
        geometry = instance.geometry
        if id(geometry) not in geometries:
            geometries[id(geometry)] = read_collada_geometry(document, geometry, with_appearance=source.with_appearance)
        # robot tools refer to a part by the name of its node
        names = [e.get(key) for e in (instance.node, geometry) if e is not None for key in ("name", "id")]
        data = geometries[id(geometry)]
        scene.add_instance(
            data.mesh,
            unit_scale @ instance.transform,
            names,
            materials.bind_materials(data.appearance, instance.instance_element),
        )
    up_axis = document.root.find_text("asset/up_axis")
    appearance = scene.merged_appearance() if source.with_appearance else None
    return LoadedMesh(
        scene.merged_mesh(), up_axis or None, document.notes(), scene.parts, appearance, document.appearance_notes()
    )


class _GeometryInstance(NamedTuple):
    """A geometry instantiated in the scene."""

    geometry: XmlElement
    transform: FloatArray
    """World transform, shape (4, 4), in units of the file."""
    node: XmlElement | None = None
    instance_element: XmlElement | None = None
    """The instancing element, which may bind materials."""


def _unit_in_metres(root: XmlElement) -> float:
    """Length unit of the document [m], from `<unit meter>`; 1 by default."""
    unit = root.find("asset/unit")
    metres = float(unit.get("meter", "1")) if unit is not None else 1.0
    if not (math.isfinite(metres) and metres > 0.0):
        raise MeshError(f"The COLLADA unit is {metres} metres.")
    return metres


# Scene ----------------------------------------------------------------------------------------------------------------


def _geometry_instances(document: ColladaDocument, scene: SceneFlattener) -> Iterator[_GeometryInstance]:
    """All geometry instances of the visual scene with world transforms, depth first in file order."""
    roots = _root_nodes(document)
    if roots is None:
        document.add_note("There is no scene; every geometry was instantiated once without transform.")
        for geometry in document.root.find_all("library_geometries/geometry"):
            yield _GeometryInstance(geometry, np.eye(4))
        return
    pending = [(node, np.eye(4), 1) for node in reversed(roots)]
    while pending:
        node, parent_pose, depth = pending.pop()
        scene.count_node(depth)
        pose = parent_pose @ _node_transform(node)
        yield from _node_geometry_instances(document, node, pose)
        children = [
            _resolve_child_node(document, child) for child in node.children if child.tag in ("node", "instance_node")
        ]
        pending += [(child, pose, depth + 1) for child in reversed(children)]


def _root_nodes(document: ColladaDocument) -> list[XmlElement] | None:
    """Top-level nodes of the instantiated (or first) visual scene; None if there is none."""
    instance = document.root.find("scene/instance_visual_scene")
    if instance is not None:
        visual_scene = document.resolve_reference(instance, "url", "visual_scene")
    else:
        visual_scene = document.root.find("library_visual_scenes/visual_scene")
    return None if visual_scene is None else visual_scene.find_all("node")


def _resolve_child_node(document: ColladaDocument, child: XmlElement) -> XmlElement:
    return child if child.tag == "node" else document.resolve_reference(child, "url", "node")


def _node_geometry_instances(
    document: ColladaDocument, node: XmlElement, transform: FloatArray
) -> Iterator[_GeometryInstance]:
    """Geometry instances attached to one node, including those of controllers (skins and morphs)."""
    for instance in node.children:
        if instance.tag == "instance_geometry":
            yield _GeometryInstance(document.resolve_reference(instance, "url", "geometry"), transform, node, instance)
        elif instance.tag == "instance_controller":
            yield _GeometryInstance(*_controlled_geometry(document, instance, transform), node, instance)


def _controlled_geometry(
    document: ColladaDocument, instance: XmlElement, transform: FloatArray
) -> tuple[XmlElement, FloatArray]:
    """Base geometry of a skin or morph controller in its bind shape, and its transform.

    Skinning and morphing are ignored, with a note.
    """
    document.add_note("A skinned or morphed mesh was read in its bind shape.")
    controller = document.resolve_reference(instance, "url", "controller")
    skin = controller.find("skin")
    if skin is None:
        morph = controller.find("morph")
        if morph is None:
            raise MeshError("A COLLADA controller has neither a skin nor a morph.")
        return document.resolve_reference(morph, "source", "geometry"), transform
    bind_element = skin.find("bind_shape_matrix")
    bind_matrix = np.eye(4) if bind_element is None else _parse_exact_count(bind_element, 16).reshape(4, 4)
    return document.resolve_reference(skin, "source", "geometry"), transform @ bind_matrix


def _node_transform(node: XmlElement) -> FloatArray:
    """Product of the transform elements of a node in file order, shape (4, 4); `MeshError` for `<skew>`."""
    matrix = np.eye(4)
    for child in node.children:
        if child.tag == "matrix":
            matrix = matrix @ _parse_exact_count(child, 16).reshape(4, 4)
        elif child.tag == "translate":
            matrix = matrix @ translation_matrix(_parse_exact_count(child, 3))
        elif child.tag == "scale":
            matrix = matrix @ scale_matrix(_parse_exact_count(child, 3))
        elif child.tag == "rotate":
            *axis, degrees = _parse_exact_count(child, 4).tolist()
            # Exporters write zero rotations about a zero axis.
            if degrees != 0.0:
                matrix = matrix @ axis_angle_matrix(np.array(axis), math.radians(degrees))
        elif child.tag == "lookat":
            matrix = matrix @ _look_at_matrix(_parse_exact_count(child, 9).reshape(3, 3))
        elif child.tag == "skew":
            raise MeshError("The COLLADA scene uses <skew>, which is not supported.")
    return matrix


def _look_at_matrix(points: FloatArray) -> FloatArray:
    """Transform (4, 4) of a `<lookat>` element: rows eye, target and up of `points` (3, 3)."""
    eye, target, up = points
    z = (eye - target) / reproducible_norm(eye - target)
    x = np.cross(up, z) / reproducible_norm(np.cross(up, z))
    matrix = translation_matrix(eye)
    matrix[:3, :3] = np.stack([x, np.cross(z, x), z], axis=-1)
    return matrix


def _parse_exact_count(element: XmlElement, count: int) -> FloatArray:
    """Floats in the text of an element; `MeshError` unless there are exactly `count`."""
    values = parse_floats(element.text.encode())
    if len(values) != count:
        raise MeshError(f"A COLLADA <{element.tag}> has {len(values)} numbers instead of {count}.")
    return values
