"""Parses `<collision>` and `<visual>`: geometry, surface and material."""

from __future__ import annotations

import numpy as np

from kinema.description import Box, Capsule, Cone, Cylinder, Ellipsoid, Sphere
from kinema.tokens import sdf

from ..cursor import Cursor
from .context import (
    ParseContext,
    child_color,
    child_float,
    child_floats,
    child_integer,
    child_settings,
    collect_unread_extras,
    element_label,
    keep_verbatim,
    optional_flag,
    optional_float,
    parse_header,
    parse_numbers,
    to_extra,
    to_plain_tree,
)
from .elements import (
    CollisionElement,
    MaterialElement,
    MeshShape,
    PlaneShape,
    PolylineShape,
    ShapeElement,
    SurfaceElement,
    UnsupportedShape,
    VisualElement,
)
from .generated_geometry import HeightmapShape

_UNSUPPORTED_TAGS = ("image", "empty")
_SHAPE_TAGS = (
    *("box", "sphere", "cylinder", "capsule", "ellipsoid", "cone", "plane", "mesh", "polyline", "heightmap"),
    *_UNSUPPORTED_TAGS,
)
_MAX_POLYLINE_POINTS = 2000
_ENGINE_PARAMETERS = tuple(tag for tag in sdf.ENGINE_PARAMETERS if tag != sdf.SPLIT_IMPULSE)


def parse_collision(cursor: Cursor, context: ParseContext) -> CollisionElement:
    """Parse `<collision>`."""
    collision = CollisionElement(
        **parse_header(cursor, context),
        shape=_parse_geometry(cursor, context),
        density=optional_float(cursor, "density"),
        settings=child_settings(cursor, numbers=(sdf.LASER_RETRO, sdf.MAX_CONTACTS)),
        verbatim=cursor.element.verbatim,
    )
    surface = cursor.child("surface")
    if surface is not None:
        collision.surface = _parse_surface(surface)
    collision.extras = keep_verbatim(cursor, "auto_inertia_params", reason="it is for a program that computes inertias")
    collision.extras += keep_verbatim(cursor, "frame", reason="frames inside a collision were never used")
    collision.extras += context.collect_unread(cursor)
    return collision


def parse_visual(cursor: Cursor, context: ParseContext) -> VisualElement:
    """Parse `<visual>`."""
    settings = child_settings(cursor, numbers=(sdf.LASER_RETRO,), flags=(sdf.CAST_SHADOWS,))
    flags = child_integer(cursor, "visibility_flags")
    if flags is not None:
        settings[sdf.VISIBILITY_FLAGS] = flags
    meta = cursor.child("meta")
    if meta is not None:
        settings[sdf.META] = to_plain_tree(meta.element)
    visual = VisualElement(
        **parse_header(cursor, context),
        shape=_parse_geometry(cursor, context),
        transparency=child_float(cursor, "transparency", 0.0),
        settings=settings,
        verbatim=cursor.element.verbatim,
    )
    material = cursor.child("material")
    if material is not None:
        visual.material = _parse_material(material)
    visual.extras = keep_verbatim(cursor, "plugin")
    visual.extras += keep_verbatim(cursor, "frame", reason="frames inside a visual were never used")
    visual.extras += context.collect_unread(cursor)
    return visual


# -- geometry ----------------------------------------------------------------------------------------------------------


def _parse_geometry(owner: Cursor, context: ParseContext) -> ShapeElement | None:
    """Parse the shape inside of `<geometry>`; None with an error if there is none."""
    geometry = owner.child("geometry")
    if geometry is None:
        owner.error("missing-geometry", f"{element_label(owner)} has no <geometry>", "it is left out")
        return None
    found = geometry.children(*_SHAPE_TAGS)
    context.defer_unread(geometry)
    if not found:
        geometry.error(
            "missing-geometry", f"the geometry of {element_label(owner)} holds no known shape", "it is left out"
        )
        return None
    if len(found) > 1:
        if all(f.tag == "polyline" for f in found):
            problem = f"{element_label(owner)} has several polylines, which are holes or parts of one another"
            owner.warning("polyline", problem, "give each a collision and visual of its own; it is left out")
            return UnsupportedShape(tag="polyline", origin=found[0].origin)
        owner.error("several-shapes", f"the geometry of {element_label(owner)} holds several shapes; the first counts")
    return _parse_shape(found[0], context)


def _parse_shape(cursor: Cursor, context: ParseContext) -> ShapeElement:
    """Parse one child of `<geometry>`, with the defaults of the format."""
    match cursor.tag:
        case "box":
            shape = Box(child_floats(cursor, "size", (1.0, 1.0, 1.0)))
        case "sphere":
            shape = Sphere(child_float(cursor, "radius", 1.0))
        case "cylinder":
            shape = Cylinder(child_float(cursor, "radius", 1.0), child_float(cursor, "length", 1.0))
        case "capsule":
            shape = Capsule(child_float(cursor, "radius", 0.5), child_float(cursor, "length", 1.0))
        case "ellipsoid":
            shape = Ellipsoid(child_floats(cursor, "radii", (1.0, 1.0, 1.0)))
        case "cone":
            shape = Cone(child_float(cursor, "radius", 1.0), child_float(cursor, "length", 1.0))
        case "plane":
            width, depth = child_floats(cursor, "size", (1.0, 1.0)).tolist()
            shape = PlaneShape(normal=child_floats(cursor, "normal", (0.0, 0.0, 1.0)), size=(width, depth))
        case "mesh":
            return _parse_mesh(cursor, context)
        case "polyline":
            return _parse_polyline(cursor, context)
        case "heightmap":
            return _parse_heightmap(cursor, context)
        case _:
            return UnsupportedShape(tag=cursor.tag, origin=cursor.origin)
    context.defer_unread(cursor)
    return shape


def _parse_mesh(cursor: Cursor, context: ParseContext) -> MeshShape:
    submesh = cursor.child("submesh")
    decomposition = cursor.child("convex_decomposition")
    shape = MeshShape(
        uri=cursor.child_text("uri").strip(),
        scale=child_floats(cursor, "scale", (1.0, 1.0, 1.0)),
        submesh="" if submesh is None else submesh.child_text("name").strip(),
        center_submesh=False if submesh is None else submesh.child_flag("center", False),
        optimization=(cursor.attribute_text("optimization") or "").strip(),
        max_convex_hulls=None if decomposition is None else child_integer(decomposition, "max_convex_hulls"),
        origin=cursor.origin,
    )
    for child in (submesh, decomposition):
        if child is not None:
            context.defer_unread(child)
    context.defer_unread(cursor)
    return shape


def _parse_polyline(cursor: Cursor, context: ParseContext) -> ShapeElement:
    points = cursor.children("point")
    height = child_float(cursor, "height", 1.0)
    context.defer_unread(cursor)
    if len(points) > _MAX_POLYLINE_POINTS:
        cursor.warning("polyline", f"the polyline has more than {_MAX_POLYLINE_POINTS} points", "it is left out")
        return UnsupportedShape(tag="polyline", origin=cursor.origin)
    corners = np.array([parse_numbers(p, (0.0, 0.0)) for p in points]).reshape(-1, 2)
    return PolylineShape(points=corners, height=height, origin=cursor.origin)


def _parse_heightmap(cursor: Cursor, context: ParseContext) -> HeightmapShape:
    """Parse `<heightmap>`; rendering parameters are preserved."""
    shape = HeightmapShape(
        uri=cursor.child_text("uri").strip(),
        size=child_floats(cursor, "size", (1.0, 1.0, 1.0)),
        position=child_floats(cursor, "pos", (0.0, 0.0, 0.0)),
        extras=keep_verbatim(
            cursor, "texture", "blend", "use_terrain_paging", "sampling", reason="it is how terrain is drawn"
        ),
        origin=cursor.origin,
    )
    context.defer_unread(cursor)
    return shape


# -- surface -----------------------------------------------------------------------------------------------------------


def _parse_surface(cursor: Cursor) -> SurfaceElement:
    """Parse `<surface>`: restitution, friction and contact parameters."""
    surface = SurfaceElement(origin=cursor.origin)
    bounce = cursor.child("bounce")
    if bounce is not None:
        surface.restitution = child_float(bounce, "restitution_coefficient", 0.0)
        surface.settings |= child_settings(bounce, numbers=(sdf.THRESHOLD,))
        surface.extras += collect_unread_extras(bounce)
    friction = cursor.child("friction")
    if friction is not None:
        _parse_friction(friction, surface)
    contact = cursor.child("contact")
    if contact is not None:
        _parse_contact(contact, surface)
    surface.extras += keep_verbatim(cursor, "soft_contact", reason="soft bodies are not simulated")
    surface.extras += collect_unread_extras(cursor)
    return surface


def _parse_friction(cursor: Cursor, surface: SurfaceElement) -> None:
    """Parse friction coefficients; ODE's take precedence over Bullet's."""
    ode, bullet = cursor.child(sdf.ODE), cursor.child(sdf.BULLET)
    if bullet is not None:
        surface.friction = optional_float(bullet, "friction")
        surface.friction2 = optional_float(bullet, "friction2")
        found = child_settings(bullet, numbers=sdf.BULLET_FRICTION)
        surface.settings |= {sdf.engine_key(sdf.BULLET, tag): value for tag, value in found.items()}
        if bullet.child(sdf.FDIR1) is not None:
            direction = child_floats(bullet, sdf.FDIR1, (0.0, 0.0, 0.0))
            surface.settings[sdf.engine_key(sdf.BULLET, sdf.FDIR1)] = tuple(direction.tolist())
        surface.extras += collect_unread_extras(bullet)
    if ode is not None:
        mu, mu2 = optional_float(ode, "mu"), optional_float(ode, "mu2")
        surface.friction = surface.friction if mu is None else mu
        surface.friction2 = surface.friction2 if mu2 is None else mu2
        if ode.child(sdf.FDIR1) is not None:
            surface.settings[sdf.FDIR1] = tuple(child_floats(ode, sdf.FDIR1, (0.0, 0.0, 0.0)).tolist())
        surface.settings |= child_settings(ode, numbers=sdf.SLIPS)
        surface.extras += collect_unread_extras(ode)
    torsional = cursor.child("torsional")
    if torsional is not None:
        surface.torsional_coefficient = child_float(torsional, "coefficient", 1.0)
        surface.use_patch_radius = torsional.child_flag("use_patch_radius", True)
        surface.patch_radius = child_float(torsional, "patch_radius", 0.0)
        surface.settings |= child_settings(torsional, numbers=(sdf.SURFACE_RADIUS,))
        torsional_ode = torsional.child(sdf.ODE)
        if torsional_ode is not None:
            slip = optional_float(torsional_ode, "slip")
            if slip is not None:
                surface.settings[sdf.TORSIONAL_SLIP] = slip
            surface.extras += collect_unread_extras(torsional_ode)
        surface.extras += collect_unread_extras(torsional)
    surface.extras += collect_unread_extras(cursor)


def _parse_contact(cursor: Cursor, surface: SurfaceElement) -> None:
    """Parse bit masks, stiffness and damping of contacts."""
    surface.collide_bitmask = child_integer(cursor, "collide_bitmask")
    surface.category_bitmask = child_integer(cursor, "category_bitmask")
    ignored = optional_flag(cursor, sdf.COLLIDE_WITHOUT_CONTACT)
    if ignored is not None:
        surface.settings[sdf.COLLIDE_WITHOUT_CONTACT] = ignored
    mask = child_integer(cursor, sdf.COLLIDE_WITHOUT_CONTACT_BITMASK)
    if mask is not None:
        surface.settings[sdf.COLLIDE_WITHOUT_CONTACT_BITMASK] = mask
    surface.settings |= child_settings(cursor, numbers=sdf.CONTACT_PARAMETERS)
    for engine in (sdf.BULLET, sdf.ODE):
        child = cursor.child(engine)
        if child is None:
            continue
        stiffness, damping = optional_float(child, "kp"), optional_float(child, "kd")
        surface.stiffness = surface.stiffness if stiffness is None else stiffness
        surface.damping = surface.damping if damping is None else damping
        found = child_settings(child, numbers=_ENGINE_PARAMETERS, flags=(sdf.SPLIT_IMPULSE,))
        surface.settings |= {sdf.engine_key(engine, tag): value for tag, value in found.items()}
        surface.extras += collect_unread_extras(child)
    surface.extras += collect_unread_extras(cursor)


# -- material ----------------------------------------------------------------------------------------------------------


def _parse_material(cursor: Cursor) -> MaterialElement:
    """Parse `<material>`; scripts and shaders are preserved."""
    material = MaterialElement(
        diffuse=child_color(cursor, "diffuse"),
        specular=child_color(cursor, "specular"),
        emissive=child_color(cursor, "emissive"),
        settings=child_settings(cursor, numbers=sdf.MATERIAL_PARAMETERS, flags=sdf.MATERIAL_FLAGS),
        origin=cursor.origin,
    )
    ambient = child_color(cursor, "ambient")
    if ambient is not None:
        material.settings[sdf.AMBIENT] = ambient
    script = cursor.child("script")
    if script is not None:
        material.settings[sdf.SCRIPT] = to_plain_tree(script.element)
        material.extras.append(to_extra(script))
        what = script.child_text("name").strip()
        script.note("material-script", f"the material script {what!r} is kept as it is; its colours are not looked up")
    material.extras += keep_verbatim(cursor, "shader", reason="shaders belong to their renderer")
    pbr = cursor.child("pbr")
    if pbr is not None:
        _parse_pbr(pbr, material)
    material.extras += collect_unread_extras(cursor)
    return material


def _parse_pbr(cursor: Cursor, material: MaterialElement) -> None:
    """Parse the metal workflow of `<pbr>`, which is also preserved verbatim."""
    material.extras.append(to_extra(cursor))
    metal, specular = cursor.child("metal"), cursor.child("specular")
    if metal is not None:
        material.albedo_map = metal.child_text("albedo_map").strip()
        material.metalness = child_float(metal, "metalness", 0.5)
        material.roughness = child_float(metal, "roughness", 0.5)
    elif specular is not None:
        material.albedo_map = specular.child_text("albedo_map").strip()
    workflow = metal if metal is not None else specular
    if workflow is not None:
        maps = {role: workflow.child_text(tag).strip() for role, tag in sdf.PBR_MAPS.items()}
        material.maps = {role: reference for role, reference in maps.items() if reference}
    material.settings[sdf.PBR] = to_plain_tree(cursor.element)
