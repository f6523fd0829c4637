"""The elements `<geometry>`, `<material>` and `<surface>` of a shape."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from kinema import geometry as geo
from kinema.description import (
    Approximation,
    Box,
    Capsule,
    Cone,
    Cylinder,
    Ellipsoid,
    Geometry,
    HeightField,
    Mesh,
    PhysicsMaterial,
    Plane,
    Shape,
    Sphere,
    VisualMaterial,
    tessellate,
)
from kinema.geometry import Texture, TextureMapping, channel_image_reference
from kinema.tokens import sdf

from ..textures import ImageUnavailableError, cube_map_loss_text, with_mean_color, without_written_textures
from ..xml_document import Element, format_number, format_numbers
from .context import MIMIC_VERSION, SdfContext, bool_text, require_finite, sdf_setting, setting_text, write_preserved

# ------------------------------------------------------------------------------------------------------------- geometry

MESH_SUFFIXES = (".stl", ".obj", ".dae", ".glb")
_INFINITE_PLANE_SIZE = (100.0, 100.0)
_OPTIMIZATIONS = {
    Approximation.CONVEX_HULL: "convex_hull",
    Approximation.CONVEX_DECOMPOSITION: "convex_decomposition",
}


def geometry_element(ctx: SdfContext, shape: Shape, *, is_visual: bool) -> Element | None:
    """The `<geometry>` of a shape; None, with a report, if there is nothing to write.

    Args:
        ctx: the writer context.
        shape: the shape.
        is_visual: whether the geometry is for a visual, so that mesh files include the appearance.
    """
    element = Element("geometry")
    made = _write_geometry(ctx, element, shape, shape.geometry, is_visual=is_visual)
    return element if made else None


def _write_geometry(ctx: SdfContext, element: Element, shape: Shape, geometry: Geometry, *, is_visual: bool) -> bool:
    """Write a primitive or mesh into a geometry element; returns False if nothing was written."""
    owner = f'shape "{shape.name}"'

    def say(tag: str, **values: float) -> bool:
        made = element.add_child(tag)
        for name, value in values.items():
            made.add_child(name, format_number(require_finite(value, owner, name)))
        return True

    match geometry:
        case Box(size=size):
            element.add_child("box").add_child(
                "size", format_numbers(require_finite(x, owner, "size") for x in size.tolist())
            )
        case Sphere(radius=radius):
            say("sphere", radius=radius)
        case Ellipsoid(radii=radii):
            element.add_child("ellipsoid").add_child(
                "radii", format_numbers(require_finite(x, owner, "radii") for x in radii.tolist())
            )
        case Capsule(radius=radius, length=length):
            say("capsule", radius=radius, length=length)
        case Cylinder(radius=radius, length=length):
            say("cylinder", radius=radius, length=length)
        case Cone(radius=radius, length=length) if ctx.supports(MIMIC_VERSION):
            say("cone", radius=radius, length=length)
        case Plane(size=size):
            if size is None:
                how = f"it is drawn {_INFINITE_PLANE_SIZE[0]:g} m wide; what collides has no end all the same"
                ctx.report_approximated(shape, "that it has no end", how)
            plane = element.add_child("plane")
            plane.add_child("normal", "0 0 1")
            plane.add_child(
                "size", format_numbers(require_finite(x, owner, "size") for x in size or _INFINITE_PLANE_SIZE)
            )
        case Mesh():
            return _write_mesh(ctx, element, shape, geometry, is_visual=is_visual)
        case Cone() | HeightField():
            return _write_tessellated(ctx, element, shape, geometry)
    return True


def _write_tessellated(ctx: SdfContext, element: Element, shape: Shape, geometry: Geometry) -> bool:
    """Write a primitive as a tessellated mesh; returns False, with a report, if tessellation fails."""
    try:
        data = tessellate(geometry)
    except geo.GeometryError as error:
        ctx.report_dropped(shape, f"the {shape.kind}", f"it cannot be made into triangles: {error}")
        return False
    if data is None:
        return False
    ctx.report_approximated(shape, f"the {shape.kind}", f"it is a mesh of {len(data.faces)} triangles")
    return _write_mesh(ctx, element, shape, Mesh(vertices=data.vertices, faces=data.faces))


def _write_mesh(ctx: SdfContext, element: Element, shape: Shape, mesh: Mesh, *, is_visual: bool = False) -> bool:
    """Write a mesh reference with scale, submesh and approximation; returns False if the mesh is unavailable."""
    owner = f'shape "{shape.name}"'
    whole = replace(mesh, submesh="")
    # a part is named beside the file; of a new file made of that one it is the whole
    is_made = (
        bool(mesh.path)
        and mesh.vertices is None
        and not ctx.meshes.uses_original_file(whole, visual_shape=shape if is_visual else None)
    )
    named, whole = ("", mesh) if is_made else (mesh.submesh, whole)
    placed = ctx.meshes.place_mesh(whole, shape.name, visual_shape=shape if is_visual else None)
    if placed is None and not mesh.uri:
        ctx.report_dropped(shape, "the mesh", "there is no file with its triangles, or it cannot be read")
        return False
    if placed is None:
        how = f"the file {mesh.uri!r} was not found or cannot be read; the reference is written as it was"
        ctx.report_approximated(shape, "the mesh", how)
        placed, named = (mesh.uri, mesh.scale), mesh.submesh
    made = element.add_child("mesh")
    uri, scale = placed
    made.add_child("uri", uri)
    if not (scale == 1).all():
        made.add_child("scale", format_numbers(require_finite(x, owner, "scale") for x in np.asarray(scale).tolist()))
    if named:
        part = made.add_child("submesh")
        part.add_child("name", named)
        if mesh.center_submesh:
            part.add_child("center", "true")
    _set_approximation(ctx, made, shape, mesh)
    return True


def _set_approximation(ctx: SdfContext, mesh_element: Element, shape: Shape, mesh: Mesh) -> None:
    """Set the convex approximation of a mesh, which SDFormat has since version 1.11; reports others."""
    hulls = sdf_setting(shape, sdf.MAX_CONVEX_HULLS)
    if mesh.approximation is not None:
        word = _OPTIMIZATIONS.get(mesh.approximation)
        if word is not None and ctx.supports(MIMIC_VERSION):
            mesh_element.set_attributes({"optimization": word})
        else:
            how = f"SDFormat {ctx.version} has no word for it"
            ctx.report_dropped(shape, f"the approximation {mesh.approximation.value}", how)
            hulls = None
    if hulls is not None and ctx.supports(MIMIC_VERSION):
        mesh_element.add_child("convex_decomposition").add_child("max_convex_hulls", setting_text(hulls))
    if mesh.max_hull_vertices is not None:
        ctx.report_dropped(shape, "the bound on its hull's vertices")


# ------------------------------------------------------------------------------------------------------------ materials

_SIMPLE_MATERIAL_SETTINGS = (*sdf.MATERIAL_PARAMETERS, *sdf.MATERIAL_FLAGS)
_WRITTEN_MATERIAL_SETTINGS = (sdf.AMBIENT, sdf.SPECULAR, sdf.SCRIPT, sdf.PBR)
_MAP_ELEMENT = re.compile(r"<(\w+_map)>\s*(.*?)\s*</\1>", re.DOTALL)


def add_material(ctx: SdfContext, element: Element, shape: Shape, material: VisualMaterial) -> None:
    """Append the `<material>` of a visual: ambient, diffuse, specular, emissive, PBR; reports lost properties."""
    if material.mean_texture_color is not None:
        ctx.report_approximated(shape, "the texture around it", cube_map_loss_text(material))
        material = with_mean_color(material)
    made = Element("material")
    color = _clamped_color(ctx, shape, _color_without_transparency(shape, material))
    specular, ambient = sdf_setting(material, sdf.SPECULAR), sdf_setting(material, sdf.AMBIENT)
    if ambient is None and color is not None and not ctx.is_same_format:
        ambient = color  # the format would take black: a shape would be dark wherever no lamp shines on it
    if ambient is not None:
        made.add_child(sdf.AMBIENT, setting_text(ambient))
    if color is not None:
        made.add_child("diffuse", format_numbers(color))
    if specular is None and material.specular is not None:
        specular = _clamped_color(ctx, shape, (material.specular, material.specular, material.specular, 1.0))
    if specular is not None:
        made.add_child(sdf.SPECULAR, setting_text(specular))
    if material.emission is not None:
        emission = _clamped_color(ctx, shape, (*material.emission, 1.0))
        made.add_child("emissive", format_numbers(emission or ()))
    _write_pbr(ctx, made, shape, material)
    if material.double_sided is not None and sdf_setting(material, sdf.DOUBLE_SIDED) is None:
        made.add_child(sdf.DOUBLE_SIDED, bool_text(material.double_sided))
    unsaid = ["its reflectance"] if material.reflectance is not None else []
    unsaid += ["its clearcoat"] if material.clearcoat is not None or material.clearcoat_roughness is not None else []
    unsaid += ["from which opacity on it is there"] if material.opacity_threshold is not None else []
    unsaid += ["how its texture lies"] if material.texture_mapping != TextureMapping() else []
    unsaid += ["its name"] if material.name and not material.name_is_generated else []
    is_mesh = isinstance(shape.geometry, Mesh)
    called = VisualMaterial(name=material.name or f"of {shape.name}", origin=material.origin)
    called.extras, called.attributes = (
        material.extras,
        without_written_textures(material, is_on_mesh=is_mesh).attributes,
    )
    if unsaid:
        ctx.report_dropped(called, ", ".join(unsaid))
    write_preserved(
        ctx,
        called,
        made,
        already_written=_WRITTEN_MATERIAL_SETTINGS,
        skipped_tags=(sdf.PBR,),
        simple_settings=_SIMPLE_MATERIAL_SETTINGS,
    )
    if made.children:
        element.children.append(made)


def _color_without_transparency(shape: Shape, material: VisualMaterial) -> tuple[float, float, float, float] | None:
    """RGBA colour with the visual's separate transparency divided out."""
    if material.color is None:
        return None
    transparency = sdf_setting(shape, sdf.TRANSPARENCY)
    red, green, blue, alpha = material.color
    if isinstance(transparency, float) and 0 < transparency <= 1:
        alpha = alpha / (1 - transparency) if transparency < 1 else 1.0
    return red, green, blue, alpha


def _clamped_color(
    ctx: SdfContext, shape: Shape, color: tuple[float, float, float, float] | None
) -> tuple[float, ...] | None:
    """RGBA colour clamped to [0, 1], as readers require; reports changes."""
    if color is None:
        return None
    clamped = tuple(min(max(require_finite(c, shape.name, "colour"), 0.0), 1.0) for c in color)
    if clamped != color:
        how = f"{format_numbers(color)} is not from 0 to 1, and is {format_numbers(clamped)} here"
        ctx.report_approximated(shape, "its colour", how)
    return clamped


def _write_pbr(ctx: SdfContext, element: Element, shape: Shape, material: VisualMaterial) -> None:
    """Write the PBR element with texture maps, metalness and roughness; a preserved element with updated references."""
    texture = _texture_reference(ctx, shape, material.texture)
    maps = {sdf.PBR_MAPS[role]: texture for role, texture in _map_references(ctx, shape, material).items()}
    kept = next((e.text for e in material.extras if e.tag == sdf.PBR and e.format == sdf.FORMAT), None)
    if kept is not None:
        files = {**maps, "albedo_map": texture}
        element.add_verbatim(_MAP_ELEMENT.sub(lambda m: f"<{m[1]}>{files.get(m[1]) or m[2]}</{m[1]}>", kept))
        others = sorted({m[0] for m in _MAP_ELEMENT.findall(kept) if not files.get(m[0])})
        if others:
            ctx.report_approximated(material, "its other maps", "the references are written as they were")
        return
    values = {"metalness": material.metallic, "roughness": material.roughness}
    if not texture and not maps and all(v is None for v in values.values()):
        return
    metal = element.add_child("pbr").add_child("metal")
    if texture:
        metal.add_child("albedo_map", texture)
    for tag, value in values.items():
        if value is not None:
            metal.add_child(tag, format_number(require_finite(value, material.name, tag)))
    for tag, reference in maps.items():
        metal.add_child(tag, reference)


def _map_references(ctx: SdfContext, shape: Shape, material: VisualMaterial) -> dict[str, str]:
    """References to the texture maps by role; reports unsupported maps and mappings."""
    found: dict[str, str] = {}
    files = [image.file for image in material.maps.values()]
    for role, image in material.maps.items():
        if role not in sdf.PBR_MAPS:
            ctx.report_dropped(shape, f"the {role} map of its material")
            continue
        split = _channel_reference(ctx, image, is_shared=files.count(image.file) > 1)
        reference = split or _texture_reference(ctx, shape, image.file)
        if reference:
            found[role] = reference
        is_whole = bool(split) or image.channel in ("", "r")
        if not is_whole or image.strength != 1.0 or image.mapping != material.texture_mapping:
            how = "SDFormat takes the whole of the image, at its full strength and as the base colour's lies"
            ctx.report_approximated(shape, f"the {role} map of its material", how)
    return found


def _channel_reference(ctx: SdfContext, image: Texture, *, is_shared: bool) -> str:
    """Reference to a greyscale image of a texture's channel; empty if the whole image is used.

    Packed images (as in glTF) are split into one image per role.
    """
    if not image.channel or (image.channel == "r" and not is_shared):
        return ""
    try:
        return ctx.meshes.textures.place_image(channel_image_reference(image.file, image.channel))
    except ImageUnavailableError:
        return ""


def _texture_reference(ctx: SdfContext, shape: Shape, image: str) -> str:
    """Reference to a texture copied beside the file; the original reference, with a report, if unavailable."""
    if not image:
        return ""
    try:
        return ctx.meshes.textures.place_image(image)
    except ImageUnavailableError as error:
        ctx.report_approximated(shape, "its texture", f"{error}; the reference is written as it was")
        return image


# ----------------------------------------------------------------------------------------------------- contact surfaces

_MASK_BITS = 0xFFFFFFFF
_BULLET_FRICTION = (*sdf.BULLET_FRICTION[:2], sdf.FDIR1, *sdf.BULLET_FRICTION[2:])
_ODE_FRICTION = (sdf.FDIR1, *sdf.SLIPS)
_CONTACT_SETTINGS = (sdf.COLLIDE_WITHOUT_CONTACT, sdf.COLLIDE_WITHOUT_CONTACT_BITMASK, *sdf.CONTACT_PARAMETERS)
SURFACE_SETTINGS = (
    *(sdf.THRESHOLD, sdf.SURFACE_RADIUS, sdf.TORSIONAL_SLIP),
    *_ODE_FRICTION,
    *_CONTACT_SETTINGS,
    *(sdf.engine_key(sdf.BULLET, tag) for tag in (*_BULLET_FRICTION, *sdf.ENGINE_PARAMETERS)),
    *(sdf.engine_key(sdf.ODE, tag) for tag in sdf.ENGINE_PARAMETERS),
)
"""Settings of a shape that belong to its `<surface>`."""
_UNSUPPORTED_FIELDS = {
    "rolling_friction": (None, "rolling friction"),
    "density": (None, "density"),
    "contact_dimension": (None, "contact dimension"),
    "gap": (0.0, "gap"),
    "priority": (0, "priority"),
    "solmix": (1.0, "solmix"),
}
_TORSIONAL_PATCH_FACTOR = 3.0 * math.pi / 16.0
"""Torsional friction of a circular Hertzian contact patch / (coefficient * radius)."""


def add_surface(ctx: SdfContext, element: Element, shape: Shape, *, with_masks: bool) -> None:
    """Append the `<surface>` of a collision: friction, restitution, contact masks and stiffness."""
    surface = shape.surface or PhysicsMaterial()
    made = Element("surface")
    friction, bounce, contact = _friction_element(ctx, shape, surface), Element("bounce"), Element("contact")
    if surface.restitution is not None:
        bounce.add_child(
            "restitution_coefficient", format_number(require_finite(surface.restitution, shape.name, "restitution"))
        )
    _write_settings(bounce, shape, (sdf.THRESHOLD,))
    if with_masks:
        contact.add_child("collide_bitmask", str(shape.conaffinity & _MASK_BITS))
        if shape.contype != shape.conaffinity:
            contact.add_child("category_bitmask", str(shape.contype & _MASK_BITS))
    _write_settings(contact, shape, _CONTACT_SETTINGS)
    _write_contact_stiffness(contact, shape, surface)
    for part in (bounce, friction, contact):
        if part.children:
            made.children.append(part)
    if shape.surface is not None:
        _report_surface_losses(ctx, shape, shape.surface)
        called = PhysicsMaterial(
            name=surface.name or f"of {shape.name}", extras=surface.extras, attributes=surface.attributes
        )
        write_preserved(ctx, called, made, already_written=(sdf.TORSIONAL,))
    if made.children or made.attributes:
        element.children.append(made)


def _write_settings(element: Element, shape: Shape, tags: Iterable[str], engine: str = "") -> None:
    """Append preserved settings of a shape as child elements unless they exist already."""
    for tag in tags:
        value = sdf_setting(shape, sdf.engine_key(engine, tag) if engine else tag)
        if value is not None and not any(isinstance(c, Element) and c.tag == tag for c in element.children):
            element.add_child(tag, setting_text(value))


def _friction_element(ctx: SdfContext, shape: Shape, surface: PhysicsMaterial) -> Element:
    """Friction element with ODE, Bullet and torsional coefficients; reports static friction."""
    element = Element("friction")
    ode, bullet, torsional = Element(sdf.ODE), Element(sdf.BULLET), Element("torsional")
    mu, mu2 = surface.dynamic_friction, surface.dynamic_friction2
    if mu is None:
        mu = surface.static_friction
    if mu2 is None and not ctx.is_same_format:
        mu2 = mu  # the format would take 1
    if mu is not None:
        ode.add_child("mu", format_number(require_finite(mu, shape.name, "friction")))
    if mu2 is not None:
        ode.add_child("mu2", format_number(require_finite(mu2, shape.name, "friction")))
    if surface.dynamic_friction is not None and surface.static_friction not in (None, surface.dynamic_friction):
        how = f"the one coefficient, {surface.dynamic_friction:g}, is that of sliding"
        ctx.report_approximated(shape, "its static friction", how)
    elif surface.dynamic_friction is None and surface.static_friction is not None:
        ctx.report_approximated(shape, "its static friction", "it is that of sliding, too")
    _write_settings(ode, shape, _ODE_FRICTION)
    _write_settings(bullet, shape, _BULLET_FRICTION, sdf.BULLET)
    _write_torsional_friction(torsional, shape, surface)
    for part in (ode, bullet, torsional):
        if part.children:
            element.children.append(part)
    return element


def _write_torsional_friction(element: Element, shape: Shape, surface: PhysicsMaterial) -> None:
    """Write torsional coefficient and patch radius, derived from the torsional friction if not preserved."""
    given = surface.attributes.get(sdf.attribute_key(sdf.TORSIONAL))
    if isinstance(given, tuple):
        coefficient, radius = given
    elif surface.torsional_friction is not None:
        coefficient, radius = 1.0, surface.torsional_friction / _TORSIONAL_PATCH_FACTOR
    else:
        coefficient = radius = None
    if coefficient is not None and radius is not None:
        element.add_child("coefficient", format_number(require_finite(coefficient, shape.name, "torsional friction")))
        element.add_child("use_patch_radius", bool_text(surface.torsional_friction is not None))
        element.add_child("patch_radius", format_number(require_finite(radius, shape.name, "torsional friction")))
    _write_settings(element, shape, (sdf.SURFACE_RADIUS,))
    slip = sdf_setting(shape, sdf.TORSIONAL_SLIP)
    if slip is not None:
        element.add_child(sdf.ODE).add_child("slip", setting_text(slip))


def _write_contact_stiffness(contact: Element, shape: Shape, surface: PhysicsMaterial) -> None:
    """Write contact stiffness and damping for ODE, and preserved engine-specific parameters."""
    bullet, ode = Element(sdf.BULLET), Element(sdf.ODE)
    _write_settings(bullet, shape, sdf.ENGINE_PARAMETERS, sdf.BULLET)
    for tag, value in (("kp", surface.contact_stiffness), ("kd", surface.contact_damping)):
        own = sdf_setting(shape, sdf.engine_key(sdf.ODE, tag))
        if own is None and sdf_setting(shape, sdf.engine_key(sdf.BULLET, tag)) == value:
            continue
        if value is not None:
            ode.add_child(tag, format_number(require_finite(value, shape.name, tag)))
    _write_settings(ode, shape, sdf.ENGINE_PARAMETERS, sdf.ODE)
    for part in (bullet, ode):
        if part.children:
            contact.children.append(part)


def _report_surface_losses(ctx: SdfContext, shape: Shape, surface: PhysicsMaterial) -> None:
    """Report properties of a physics material that SDFormat lacks."""
    unsaid = [words for name, (default, words) in _UNSUPPORTED_FIELDS.items() if getattr(surface, name) != default]
    if surface.solver != PhysicsMaterial().solver:
        unsaid.append("solver parameters")
    if surface.name and not surface.name_is_generated:
        unsaid.append(f"the name {surface.name!r}")
    if unsaid:
        ctx.report_dropped(shape, f"of its surface: {', '.join(unsaid)}")
