"""Visual materials as UsdPreviewSurface networks, physics materials, and their bindings."""

from __future__ import annotations

import math
from collections.abc import Hashable
from pathlib import Path

from kinema.description import PhysicsMaterial, Shape, VisualMaterial
from kinema.geometry import (
    Appearance,
    MapRole,
    PbrMaterial,
    Texture,
    TextureMapping,
    WrapMode,
    roughness_from_shininess,
)
from kinema.tokens import kinema_usd, mjc, mjcf, newton, usd, usd_physics

from ..loss_report import Action
from ..mesh_files import material_key
from ..textures import TEXTURE_REPEAT_KEYS, ImageUnavailableError, TextureStore, cube_map_loss_text, mean_surface_color
from .layer_builder import LayerBuilder, PrimBuilder, set_custom_json, write_kinema_attributes
from .prim_paths import PrimNames

# ------------------------------------------------------------------------------------------- UsdPreviewSurface networks

_MAP_INPUTS = {
    MapRole.OPACITY: (usd.OPACITY, "float"),
    MapRole.METALLIC: (usd.METALLIC, "float"),
    MapRole.ROUGHNESS: (usd.ROUGHNESS, "float"),
    MapRole.EMISSION: (usd.EMISSIVE_COLOR, "color3f"),
    MapRole.NORMAL: (usd.NORMAL, "normal3f"),
    MapRole.OCCLUSION: (usd.OCCLUSION, "float"),
    MapRole.CLEARCOAT: (usd.CLEARCOAT, "float"),
}
_BASE_COLOR = "color"
"""Name of the base colour's texture prim."""
_PRESERVED_KEYS = frozenset(map(mjcf.attribute_key, (mjcf.TEXTURES, mjcf.TEXREPEAT, mjcf.TEXUNIFORM)))
"""MuJoCo texture attributes that USD cannot represent."""
_IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".exr", ".bmp", ".tga", ".hdr", ".tif", ".tiff", ".webp", ".ktx", ".ktx2")


class PreviewSurfaceAuthor:
    """Writer of UsdPreviewSurface material networks."""

    def __init__(self, builder: LayerBuilder, textures: TextureStore) -> None:
        self._builder = builder
        self._textures = textures

    def author_material(self, path: str, pbr_material: PbrMaterial, *, has_coordinates: bool, has_colors: bool) -> None:
        """Write a material prim with its UsdPreviewSurface shader and textures.

        Args:
            path: prim path.
            pbr_material: the material.
            has_coordinates: whether the shape has texture coordinates; without them a connected texture would show
                the colour of a single texel everywhere.
            has_colors: whether the shape has vertex colours.
        """
        material = self._builder.define_prim(path, usd.MATERIAL)
        shader = self._define_shader(f"{path}/Surface", usd.PREVIEW_SURFACE)
        connected = self._author_base_color(
            material, shader, pbr_material, has_coordinates=has_coordinates, has_colors=has_colors
        )
        self._author_factors(shader, pbr_material)
        for role, texture in pbr_material.maps.items():
            self._author_map(material, shader, pbr_material, MapRole(role), texture, has_coordinates=has_coordinates)
        if pbr_material.color is not None and pbr_material.color[3] != 1.0 and MapRole.OPACITY not in pbr_material.maps:
            shader.set_attribute(usd.input_attribute(usd.OPACITY), "float", pbr_material.color[3])
        if pbr_material.texture and not connected:
            self._preserve_texture(material, pbr_material)
        shader.declare_attribute(usd.SURFACE_OUTPUT, "token")
        material.declare_attribute(usd.SURFACE_OUTPUT, "token", source=f"{path}/Surface.{usd.SURFACE_OUTPUT}")
        self._preserve_properties(material, pbr_material, texture_connected=connected)

    def _define_shader(self, path: str, shader_id: str) -> PrimBuilder:
        shader = self._builder.define_prim(path, usd.SHADER)
        shader.set_attribute(usd.SHADER_ID, "token", shader_id, uniform=True)
        return shader

    # -- values --

    def _author_factors(self, shader: PrimBuilder, pbr_material: PbrMaterial) -> None:
        """Write scalar and emission inputs that are not connected to textures."""
        if pbr_material.emission is not None and MapRole.EMISSION not in pbr_material.maps:
            shader.set_attribute(usd.input_attribute(usd.EMISSIVE_COLOR), "color3f", pbr_material.emission)
        for role, name, value in (
            (MapRole.METALLIC, usd.METALLIC, pbr_material.metallic),
            (MapRole.ROUGHNESS, usd.ROUGHNESS, _effective_roughness(pbr_material)),
            (MapRole.CLEARCOAT, usd.CLEARCOAT, pbr_material.clearcoat),
            (None, usd.CLEARCOAT_ROUGHNESS, pbr_material.clearcoat_roughness),
            (None, usd.OPACITY_THRESHOLD, pbr_material.opacity_threshold),
        ):
            if value is not None and role not in pbr_material.maps:
                shader.set_attribute(usd.input_attribute(name), "float", value)

    def _preserve_properties(
        self, material_prim: PrimBuilder, pbr_material: PbrMaterial, *, texture_connected: bool
    ) -> None:
        """Store specular, reflectance, name and source settings of a material in Kinema attributes."""
        for attribute in write_kinema_attributes(material_prim, pbr_material):
            if not attribute.field.startswith(PbrMaterial.__name__):
                continue
            what = attribute.name.rpartition(":")[2]
            how = f"UsdPreviewSurface has metallic and roughness instead; it is in {attribute.name}"
            self._builder.report_loss(Action.EXTENSION, ("material", pbr_material.name), what, how)
        if pbr_material.name != material_prim.name:
            material_prim.set_custom(kinema_usd.NAME, pbr_material.name)
        if isinstance(pbr_material, VisualMaterial):
            self._preserve_settings(material_prim, pbr_material, texture_connected=texture_connected)

    def _preserve_settings(
        self, material_prim: PrimBuilder, pbr_material: VisualMaterial, *, texture_connected: bool
    ) -> None:
        """Store or report the format-specific settings of a material that its textures do not represent."""
        shininess = pbr_material.attributes.get(mjcf.attribute_key(mjcf.SHININESS))
        if isinstance(shininess, float):
            material_prim.set_custom(kinema_usd.SHININESS, shininess)
        is_told = (
            pbr_material.texture and pbr_material.mean_texture_color is None
        )  # six images are told of by names of MJCF alone
        carried = {mjcf.attribute_key(mjcf.SHININESS), *((mjcf.attribute_key(mjcf.TEXTURES),) if is_told else ())}
        carried |= set(TEXTURE_REPEAT_KEYS) if texture_connected and is_told else set()
        own = {
            key: value
            for key, value in pbr_material.attributes.items()
            if key in _PRESERVED_KEYS and key not in carried
        }
        kept = set_custom_json(material_prim, kinema_usd.ATTRIBUTES, own)
        if kept:
            what = f"settings of its own format: {', '.join(kept)}"
            self._builder.report_loss(Action.EXTENSION, pbr_material, what, "they are kept for Kinema alone")
        lost = [key for key in pbr_material.attributes if key not in carried and key not in kept]
        lost += [f"{extra.format} {extra.tag}" for extra in pbr_material.extras]
        if lost:
            what = f"settings of its own format: {', '.join(dict.fromkeys(lost))}"
            self._builder.report_loss(Action.DROPPED, pbr_material, what, "USD has no place for them")

    # -- textures --

    def _author_base_color(
        self,
        material_prim: PrimBuilder,
        shader: PrimBuilder,
        pbr_material: PbrMaterial,
        *,
        has_coordinates: bool,
        has_colors: bool,
    ) -> bool:
        """Write the base colour from texture, vertex colours or constant; returns whether the texture is connected."""
        color = pbr_material.color
        if pbr_material.texture and has_coordinates:
            image = Texture(file=pbr_material.texture, mapping=pbr_material.texture_mapping)
            source = self._define_texture(material_prim, pbr_material, _BASE_COLOR, image, scale=color)
            if source:
                shader.declare_attribute(
                    usd.input_attribute(usd.DIFFUSE_COLOR), "color3f", source=f"{source}.{usd.output_attribute('rgb')}"
                )
                self._preserve_cube_map(material_prim, pbr_material)
                return True
        if has_colors and color is None:
            reader = self._define_shader(f"{material_prim.path}/colors", usd.PRIMVAR_READER_3)
            reader.set_attribute(
                usd.input_attribute(usd.VARNAME), "string", usd.DISPLAY_COLOR.removeprefix(usd.PRIMVARS_PREFIX)
            )
            reader.declare_attribute(usd.output_attribute(usd.RESULT), "float3")
            source = f"{reader.path}.{usd.output_attribute(usd.RESULT)}"
            shader.declare_attribute(usd.input_attribute(usd.DIFFUSE_COLOR), "color3f", source=source)
            return False
        shown = mean_surface_color(pbr_material)
        if shown is not None:
            shader.set_attribute(usd.input_attribute(usd.DIFFUSE_COLOR), "color3f", shown[:3])
            if shown != color:
                material_prim.set_custom(kinema_usd.BASE_COLOR, [] if color is None else color[:3])
                material_prim.set_custom(kinema_usd.DISPLAYED_COLOR, shown[:3])
        self._preserve_cube_map(material_prim, pbr_material)
        return False

    def _preserve_cube_map(self, material_prim: PrimBuilder, pbr_material: PbrMaterial) -> None:
        """Store the mean colour of a MuJoCo cube map and report the approximation."""
        if pbr_material.mean_texture_color is not None:
            material_prim.set_custom(kinema_usd.MEAN_TEXTURE_COLOR, pbr_material.mean_texture_color)
            self._builder.report_loss(
                Action.APPROXIMATED,
                ("material", pbr_material.name),
                "the texture around it",
                cube_map_loss_text(pbr_material),
            )

    def _author_map(
        self,
        material_prim: PrimBuilder,
        shader: PrimBuilder,
        pbr_material: PbrMaterial,
        role: MapRole,
        image: Texture,
        *,
        has_coordinates: bool,
    ) -> None:
        """Write a texture of another role and connect it to its shader input; reports unsupported roles."""
        if role not in _MAP_INPUTS or not has_coordinates:
            how = "UsdPreviewSurface has no such input" if has_coordinates else "the shapes have no texture coordinates"
            self._builder.report_loss(Action.DROPPED, ("material", pbr_material.name), f"its {role.value} map", how)
            return
        scale = self._map_factor(pbr_material, role, image)
        source = self._define_texture(material_prim, pbr_material, role.value, image, scale=scale)
        if source:
            name, kind = _MAP_INPUTS[role]
            usual = "rgb" if kind != "float" else ("a" if role is MapRole.OPACITY else "r")
            shader.declare_attribute(
                usd.input_attribute(name), kind, source=f"{source}.{usd.output_attribute(image.channel or usual)}"
            )

    def _map_factor(
        self, pbr_material: PbrMaterial, role: MapRole, image: Texture
    ) -> tuple[float, float, float, float] | None:
        """Scale (4) of a texture: the material's factor of the role; None for 1."""
        value = {
            MapRole.METALLIC: pbr_material.metallic,
            MapRole.ROUGHNESS: pbr_material.roughness,
            MapRole.CLEARCOAT: pbr_material.clearcoat,
        }.get(role)
        if value is not None:
            return value, value, value, value
        if role is MapRole.EMISSION and pbr_material.emission is not None:
            return (*pbr_material.emission, 1.0)
        if role is MapRole.NORMAL:
            return 2.0, 2.0, 2.0, 1.0
        if role is MapRole.OCCLUSION and image.strength != 1.0:
            return image.strength, image.strength, image.strength, image.strength
        return None

    def _define_texture(
        self,
        material_prim: PrimBuilder,
        pbr_material: PbrMaterial,
        name: str,
        image: Texture,
        *,
        scale: tuple[float, ...] | None,
    ) -> str:
        """Define a UVTexture shader for an image and return its path; empty, with a report, if unavailable."""
        try:
            file = self._textures.place_image(image.file, _IMAGE_SUFFIXES)
        except ImageUnavailableError as error:
            self._builder.report_loss(
                Action.DROPPED, ("material", pbr_material.name), f"its {name} texture", str(error)
            )
            return ""
        shader = self._define_shader(f"{material_prim.path}/{name}_texture", usd.UV_TEXTURE)
        shader.set_attribute(usd.input_attribute(usd.FILE), "asset", f"./{file}")
        is_color = name in (_BASE_COLOR, MapRole.EMISSION.value)
        shader.set_attribute(usd.input_attribute(usd.SOURCE_COLOR_SPACE), "token", "sRGB" if is_color else "raw")
        for word, wrap in zip((usd.WRAP_S, usd.WRAP_T), image.mapping.wrap, strict=True):
            shader.set_attribute(usd.input_attribute(word), "token", WrapMode(wrap).value)
        if scale is not None:
            shader.set_attribute(usd.input_attribute(usd.TEXTURE_SCALE), "float4", scale)
        if name == MapRole.NORMAL.value:
            shader.set_attribute(usd.input_attribute(usd.TEXTURE_BIAS), "float4", (-1.0, -1.0, -1.0, 0.0))
            if image.strength != 1.0:  # validators want normal maps to be stretched from -1 to 1, no less
                shader.set_custom(kinema_usd.NORMAL_MAP_STRENGTH, image.strength)
                how = f"it is in {kinema_usd.NORMAL_MAP_STRENGTH.name}, which only Kinema knows"
                self._builder.report_loss(
                    Action.EXTENSION, ("material", pbr_material.name), "the strength of its normal map", how
                )
        elif name == MapRole.OCCLUSION.value and image.strength != 1.0:
            shader.set_attribute(usd.input_attribute(usd.TEXTURE_BIAS), "float4", (1.0 - image.strength,) * 4)
        source = self._texture_coordinates_output(material_prim, name, image.mapping)
        shader.declare_attribute(usd.input_attribute(usd.COORDINATES_INPUT), "float2", source=source)
        for output, kind in (("rgb", "float3"), ("r", "float"), ("g", "float"), ("b", "float"), ("a", "float")):
            shader.declare_attribute(usd.output_attribute(output), kind)
        return shader.path

    def _texture_coordinates_output(self, material_prim: PrimBuilder, name: str, mapping: TextureMapping) -> str:
        """Path of the output with the texture coordinates, through a Transform2d shader if the mapping needs one."""
        number = mapping.texcoord_set
        path = f"{material_prim.path}/coordinates{number or ''}"
        if path not in self._builder.prims:
            reader = self._define_shader(path, usd.PRIMVAR_READER_2)
            varname = f"{usd.TEXTURE_COORDINATES.removeprefix(usd.PRIMVARS_PREFIX)}{number or ''}"
            reader.set_attribute(usd.input_attribute(usd.VARNAME), "string", varname)
            reader.declare_attribute(usd.output_attribute(usd.RESULT), "float2")
        output = f"{path}.{usd.output_attribute(usd.RESULT)}"
        if (mapping.scale, mapping.offset, mapping.rotation) == ((1.0, 1.0), (0.0, 0.0), 0.0):
            return output
        transform = self._define_shader(f"{material_prim.path}/{name}_place", usd.TRANSFORM_2D)
        transform.declare_attribute(usd.input_attribute(usd.TRANSFORM_IN), "float2", source=output)
        transform.set_attribute(usd.input_attribute(usd.TEXTURE_SCALE), "float2", mapping.scale)
        transform.set_attribute(usd.input_attribute(usd.TRANSFORM_ROTATION), "float", math.degrees(mapping.rotation))
        transform.set_attribute(usd.input_attribute(usd.TRANSFORM_TRANSLATION), "float2", mapping.offset)
        transform.declare_attribute(usd.output_attribute(usd.RESULT), "float2")
        return f"{transform.path}.{usd.output_attribute(usd.RESULT)}"

    def _preserve_texture(self, material_prim: PrimBuilder, pbr_material: PbrMaterial) -> None:
        """Store the file of a texture that is not connected, and report the approximation by its mean colour."""
        try:
            file = self._textures.place_image(pbr_material.texture)
        except ImageUnavailableError as error:
            self._builder.report_loss(Action.DROPPED, ("material", pbr_material.name), "the texture", str(error))
            return
        material_prim.set_custom(kinema_usd.TEXTURE, f"./{file}")
        how = "the shape has no texture coordinates; its colour is the image's mean, the file is in kinema:texture"
        self._builder.report_loss(Action.APPROXIMATED, ("material", pbr_material.name), "the texture", how)


def _effective_roughness(pbr_material: PbrMaterial) -> float | None:
    """Roughness of a material, converted from MuJoCo's shininess if not given."""
    shininess = (
        pbr_material.attributes.get(mjcf.attribute_key(mjcf.SHININESS))
        if isinstance(pbr_material, VisualMaterial)
        else None
    )
    if pbr_material.roughness is None and isinstance(shininess, float):
        return roughness_from_shininess(shininess)
    return pbr_material.roughness


# ------------------------------------------------------------------------------------------ material prims and bindings

_DEFAULT_FRICTION = 1.0
"""Friction of surfaces without one; the fallback of USD is 0."""


class UsdMaterials:
    """Visual and physics materials of a stage, each written once."""

    def __init__(self, builder: LayerBuilder, names: PrimNames, root: str, folder: Path, *, is_package: bool) -> None:
        self._is_package = is_package
        self._builder = builder
        self._names = names
        self._root = root
        self._textures = TextureStore(folder)
        self._preview_surfaces = PreviewSurfaceAuthor(builder, self._textures)
        self._written_paths: dict[Hashable, str] = {}
        self._material_keys: dict[int, tuple[object, ...]] = {}
        """Of looks, which the description holds meanwhile."""

    def place_file(self, file: str) -> str:
        """Copy a file beside the stage and return its relative path; raises `ImageUnavailableError` if impossible."""
        if self._is_package:
            raise ImageUnavailableError("a package holds what the stage refers to, and nothing else")
        return self._textures.place_image(file)

    def bind(self, prim: PrimBuilder, shape: Shape, appearance: Appearance | None) -> None:
        """Bind visual materials to a shape and its faces, and the physics material if it collides.

        Args:
            prim: prim of the shape.
            shape: the shape.
            appearance: appearance of a mesh; None for other geometries.
        """
        if appearance is None:
            if shape.material is not None:
                self._bind_material(prim, shape.material, None)
        else:
            self._bind_face_materials(prim, shape, appearance)
        if shape.surface is not None and shape.collision:
            self._author_contact_attributes(prim, shape, shape.surface)
            prim.apply_schemas(usd.MATERIAL_BINDING_API)
            prim.set_relationship(usd.PHYSICS_BINDING, [self._physics_material_path(shape.surface)])

    def _define_scope(self, name: str) -> str:
        key = ("scope", name)
        if key not in self._written_paths:
            self._written_paths[key] = self._names.child_path(self._root, name, name)
            self._builder.define_prim(self._written_paths[key], usd.SCOPE)
        return self._written_paths[key]

    # -- looks --------------------------------------------------------------------------------------------------

    def _bind_face_materials(self, prim: PrimBuilder, shape: Shape, appearance: Appearance) -> None:
        """Bind the shape's own material to the prim and others to geom subsets of faces."""
        sides = {bool(look.double_sided) for look in appearance.materials}
        if True in sides:
            prim.set_attribute(usd.DOUBLE_SIDED, "bool", True, uniform=True)
        if len(sides) > 1:
            how = "USD says that of the whole mesh; all of it is seen from both sides"
            self._builder.report_loss(
                Action.APPROXIMATED, shape, "that only some of its parts are seen from both sides", how
            )
        if appearance.face_material_indices is None:
            # a name alone is kept too
            look = appearance.materials[0] if appearance.materials else shape.material
            if look is not None:
                self._bind_material(prim, look, appearance)
            return
        for look, faces in appearance.faces_by_material(len(appearance.face_material_indices)):
            if look is None:
                continue
            if look is shape.material:
                self._bind_material(prim, look, appearance)
                continue
            path = self._names.child_path(prim.path, look.name, "part")
            subset = self._builder.define_prim(path, usd.GEOM_SUBSET)
            subset.set_attribute(usd.ELEMENT_TYPE, "token", usd.FACE, uniform=True)
            subset.set_attribute(usd.FAMILY_NAME, "token", usd.MATERIAL_BIND, uniform=True)
            subset.set_attribute(usd.SUBSET_INDICES, "int[]", faces)
            self._bind_material(subset, look, appearance, is_subset=True)
        prim.set_attribute(usd.SUBSET_FAMILY_TYPE, "token", "nonOverlapping", uniform=True)

    def _bind_material(
        self, prim: PrimBuilder, material: PbrMaterial, appearance: Appearance | None, *, is_subset: bool = False
    ) -> None:
        """Bind a material, written on first use, to a prim; plain colours become display colours."""
        has_colors = appearance is not None and appearance.colors is not None
        if _is_plain_color(material) and not is_subset and not has_colors:
            if material.color is not None:
                _set_display_color(prim, material.color)
            return
        has_coordinates = appearance is not None and bool(appearance.texture_coordinates)
        if id(material) not in self._material_keys:
            self._material_keys[id(material)] = material_key(material)
        key = (
            "look",
            self._material_keys[id(material)],
            has_coordinates and bool(material.image_references),
            has_colors,
        )
        if key not in self._written_paths:
            path = self._names.child_path(self._define_scope("Looks"), material.name, "look")
            self._preview_surfaces.author_material(
                path, material, has_coordinates=has_coordinates, has_colors=has_colors
            )
            self._written_paths[key] = path
        if material.double_sided and appearance is None:
            prim.set_attribute(usd.DOUBLE_SIDED, "bool", True, uniform=True)
        prim.apply_schemas(usd.MATERIAL_BINDING_API)
        prim.set_relationship(usd.MATERIAL_BINDING, [self._written_paths[key]])

    # -- surfaces -----------------------------------------------------------------------------------------------

    def _physics_material_path(self, surface: PhysicsMaterial) -> str:
        key = ("surface", surface.name, *(getattr(surface, f) for f in _SURFACE_FIELDS))
        if key not in self._written_paths:
            self._written_paths[key] = self._author_physics_material(surface)
        return self._written_paths[key]

    def _author_physics_material(self, surface: PhysicsMaterial) -> str:
        """Write a physics material with friction, restitution, density and Newton attributes; returns its path."""
        path = self._names.child_path(self._define_scope("PhysicsMaterials"), surface.name, "surface")
        prim = self._builder.define_prim(path, usd.MATERIAL)
        prim.apply_schemas(usd_physics.MATERIAL_API)
        static, dynamic = surface.static_friction, surface.dynamic_friction
        unset = [word for word, field in kinema_usd.UNSET_FIELDS.items() if getattr(surface, field) is None]
        usual = next((v for v in (dynamic, static) if v is not None), _DEFAULT_FRICTION)
        prim.set_single_precision(usd_physics.STATIC_FRICTION, "float", usual if static is None else static)
        prim.set_single_precision(usd_physics.DYNAMIC_FRICTION, "float", usual if dynamic is None else dynamic)
        if surface.restitution is not None:
            prim.set_single_precision(usd_physics.RESTITUTION, "float", surface.restitution)
        if surface.density is not None:
            prim.set_single_precision(usd_physics.DENSITY, "float", surface.density)
        if unset:
            prim.set_custom(kinema_usd.UNSET_PROPERTIES, unset)
        for field, attribute in _NEWTON_SURFACE_ATTRIBUTES.items():
            value = getattr(surface, field)
            if value is not None:
                prim.apply_schemas(newton.MATERIAL_API)
                prim.set_single_precision(attribute, "float", value)
                how = f"it is in {attribute}, which is no part of UsdPhysics"
                self._builder.report_loss(Action.EXTENSION, ("material", prim.name), field.replace("_", " "), how)
        if surface.dynamic_friction2 is not None and surface.dynamic_friction2 != dynamic:
            prim.set_custom(kinema_usd.DYNAMIC_FRICTION_2, surface.dynamic_friction2)
            how = "USD has one coefficient for all directions; it is in kinema:dynamicFriction2"
            self._builder.report_loss(
                Action.EXTENSION, ("material", prim.name), "friction in the second direction", how
            )
        if surface.name != prim.name:
            prim.set_custom(kinema_usd.NAME, surface.name)
        return path

    def _author_contact_attributes(self, prim: PrimBuilder, shape: Shape, surface: PhysicsMaterial) -> None:
        """Write MuJoCo's contact attributes, which its schema places on the collider."""
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
            prim.set_attribute(name, kind, value, uniform=True)
        if said:
            prim.apply_schemas(mjc.COLLISION_API)
            names = ", ".join(name for name, _, _ in said)
            self._builder.report_loss(Action.EXTENSION, shape, "MuJoCo's contact settings", f"they are in {names}")


_NEWTON_SURFACE_ATTRIBUTES = {
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
    *_NEWTON_SURFACE_ATTRIBUTES,
)
"""Fields that distinguish physics materials; solver parameters are on the colliders."""


def _is_plain_color(material: PbrMaterial) -> bool:
    return not material.name and (material.is_color_only or not material.has_properties)


def _set_display_color(prim: PrimBuilder, color: tuple[float, float, float, float]) -> None:
    prim.set_attribute(usd.DISPLAY_COLOR, "color3f[]", [color[:3]])
    if color[3] != 1.0:
        prim.set_attribute(usd.DISPLAY_OPACITY, "float[]", [color[3]])
