"""Geometry, surface and material: `<collision>` and `<visual>` to format objects."""

from __future__ import annotations

import numpy as np

from kinema.description import Box, Capsule, Cone, Cylinder, Ellipsoid, Sphere
from kinema.words import sdf

from ..cursor import Cursor
from .context import (
    Context,
    as_tree,
    child_color,
    child_integer,
    child_number,
    child_vector,
    finish,
    keep,
    label,
    numbers,
    optional_flag,
    optional_number,
    read_name,
    read_pose,
    read_settings,
    verbatim,
)
from .elements import (
    CollisionElement,
    MaterialElement,
    MeshShape,
    PlaneShape,
    PolylineShape,
    ShapeElement,
    SurfaceElement,
    UnreadShape,
    VisualElement,
)
from .heightmap import HeightmapShape

_UNREAD = ("image", "empty")
_SHAPES = (
    *("box", "sphere", "cylinder", "capsule", "ellipsoid", "cone", "plane", "mesh", "polyline", "heightmap"),
    *_UNREAD,
)
_MAX_POINTS = 2000
_ENGINE_NUMBERS = tuple(tag for tag in sdf.ENGINE_SETTINGS if tag != sdf.SPLIT_IMPULSE)


def parse_collision(cursor: Cursor, context: Context) -> CollisionElement:
    """`<collision>`."""
    name, generated = read_name(cursor, context)
    collision = CollisionElement(
        name=name,
        name_is_generated=generated,
        origin=cursor.origin,
        pose=read_pose(cursor, context),
        shape=_read_geometry(cursor, context),
        density=optional_number(cursor, "density"),
        settings=read_settings(cursor, numbers=(sdf.LASER_RETRO, sdf.MAX_CONTACTS)),
        verbatim=cursor.element.verbatim,
    )
    surface = cursor.child("surface")
    if surface is not None:
        collision.surface = _parse_surface(surface)
    collision.extras = keep(cursor, "auto_inertia_params", why="it is for a program that computes inertias")
    collision.extras += keep(cursor, "frame", why="frames inside a collision were never used")
    collision.extras += context.finish(cursor)
    return collision


def parse_visual(cursor: Cursor, context: Context) -> VisualElement:
    """`<visual>`."""
    name, generated = read_name(cursor, context)
    settings = read_settings(cursor, numbers=(sdf.LASER_RETRO,), flags=(sdf.CAST_SHADOWS,))
    flags = child_integer(cursor, "visibility_flags")
    if flags is not None:
        settings[sdf.VISIBILITY_FLAGS] = flags
    meta = cursor.child("meta")
    if meta is not None:
        settings[sdf.META] = as_tree(meta.element)
    visual = VisualElement(
        name=name,
        name_is_generated=generated,
        origin=cursor.origin,
        pose=read_pose(cursor, context),
        shape=_read_geometry(cursor, context),
        transparency=child_number(cursor, "transparency", 0.0),
        settings=settings,
        verbatim=cursor.element.verbatim,
    )
    material = cursor.child("material")
    if material is not None:
        visual.material = _parse_material(material)
    visual.extras = keep(cursor, "plugin")
    visual.extras += keep(cursor, "frame", why="frames inside a visual were never used")
    visual.extras += context.finish(cursor)
    return visual


# -- geometry ----------------------------------------------------------------------------------------------------------


def _read_geometry(owner: Cursor, context: Context) -> ShapeElement | None:
    geometry = owner.child("geometry")
    if geometry is None:
        owner.error("missing-geometry", f"{label(owner)} has no <geometry>", "it is left out")
        return None
    found = geometry.children(*_SHAPES)
    context.close(geometry)
    if not found:
        geometry.error("missing-geometry", f"the geometry of {label(owner)} holds no known shape", "it is left out")
        return None
    if len(found) > 1:
        if all(f.tag == "polyline" for f in found):
            problem = f"{label(owner)} has several polylines, which are holes or parts of one another"
            owner.warning("polyline", problem, "give each a collision and visual of its own; it is left out")
            return UnreadShape(tag="polyline", origin=found[0].origin)
        owner.error("several-shapes", f"the geometry of {label(owner)} holds several shapes; the first counts")
    return _parse_shape(found[0], context)


def _parse_shape(cursor: Cursor, context: Context) -> ShapeElement:
    """One child of `<geometry>`, with the defaults of the format."""
    match cursor.tag:
        case "box":
            shape = Box(child_vector(cursor, "size", (1.0, 1.0, 1.0)))
        case "sphere":
            shape = Sphere(child_number(cursor, "radius", 1.0))
        case "cylinder":
            shape = Cylinder(child_number(cursor, "radius", 1.0), child_number(cursor, "length", 1.0))
        case "capsule":
            shape = Capsule(child_number(cursor, "radius", 0.5), child_number(cursor, "length", 1.0))
        case "ellipsoid":
            shape = Ellipsoid(child_vector(cursor, "radii", (1.0, 1.0, 1.0)))
        case "cone":
            shape = Cone(child_number(cursor, "radius", 1.0), child_number(cursor, "length", 1.0))
        case "plane":
            width, depth = child_vector(cursor, "size", (1.0, 1.0)).tolist()
            shape = PlaneShape(normal=child_vector(cursor, "normal", (0.0, 0.0, 1.0)), size=(width, depth))
        case "mesh":
            return _parse_mesh(cursor, context)
        case "polyline":
            return _parse_polyline(cursor, context)
        case "heightmap":
            return _parse_heightmap(cursor, context)
        case _:
            return UnreadShape(tag=cursor.tag, origin=cursor.origin)
    context.close(cursor)
    return shape


def _parse_mesh(cursor: Cursor, context: Context) -> MeshShape:
    submesh = cursor.child("submesh")
    decomposition = cursor.child("convex_decomposition")
    shape = MeshShape(
        uri=cursor.child_text("uri").strip(),
        scale=child_vector(cursor, "scale", (1.0, 1.0, 1.0)),
        submesh="" if submesh is None else submesh.child_text("name").strip(),
        center_submesh=False if submesh is None else submesh.child_flag("center", False),
        optimization=(cursor.text_of("optimization") or "").strip(),
        max_convex_hulls=None if decomposition is None else child_integer(decomposition, "max_convex_hulls"),
        origin=cursor.origin,
    )
    for child in (submesh, decomposition):
        if child is not None:
            context.close(child)
    context.close(cursor)
    return shape


def _parse_polyline(cursor: Cursor, context: Context) -> ShapeElement:
    points = cursor.children("point")
    height = child_number(cursor, "height", 1.0)
    context.close(cursor)
    if len(points) > _MAX_POINTS:
        cursor.warning("polyline", f"the polyline has more than {_MAX_POINTS} points", "it is left out")
        return UnreadShape(tag="polyline", origin=cursor.origin)
    corners = np.array([numbers(p, (0.0, 0.0)) for p in points]).reshape(-1, 2)
    return PolylineShape(points=corners, height=height, origin=cursor.origin)


def _parse_heightmap(cursor: Cursor, context: Context) -> HeightmapShape:
    """With the defaults of the format; what is only seen is kept."""
    shape = HeightmapShape(
        uri=cursor.child_text("uri").strip(),
        size=child_vector(cursor, "size", (1.0, 1.0, 1.0)),
        position=child_vector(cursor, "pos", (0.0, 0.0, 0.0)),
        extras=keep(cursor, "texture", "blend", "use_terrain_paging", "sampling", why="it is how terrain is drawn"),
        origin=cursor.origin,
    )
    context.close(cursor)
    return shape


# -- surface -----------------------------------------------------------------------------------------------------------


def _parse_surface(cursor: Cursor) -> SurfaceElement:
    surface = SurfaceElement(origin=cursor.origin)
    bounce = cursor.child("bounce")
    if bounce is not None:
        surface.restitution = child_number(bounce, "restitution_coefficient", 0.0)
        surface.settings |= read_settings(bounce, numbers=(sdf.THRESHOLD,))
        surface.extras += finish(bounce)
    friction = cursor.child("friction")
    if friction is not None:
        _parse_friction(friction, surface)
    contact = cursor.child("contact")
    if contact is not None:
        _parse_contact(contact, surface)
    surface.extras += keep(cursor, "soft_contact", why="soft bodies are not simulated")
    surface.extras += finish(cursor)
    return surface


def _parse_friction(cursor: Cursor, surface: SurfaceElement) -> None:
    """ODE's coefficients are the ones everybody uses; Bullet's count where ODE's are not given."""
    ode, bullet = cursor.child(sdf.ODE), cursor.child(sdf.BULLET)
    if bullet is not None:
        surface.friction = optional_number(bullet, "friction")
        surface.friction2 = optional_number(bullet, "friction2")
        found = read_settings(bullet, numbers=sdf.BULLET_FRICTION)
        surface.settings |= {sdf.of_engine(sdf.BULLET, tag): value for tag, value in found.items()}
        if bullet.child(sdf.FDIR1) is not None:
            direction = child_vector(bullet, sdf.FDIR1, (0.0, 0.0, 0.0))
            surface.settings[sdf.of_engine(sdf.BULLET, sdf.FDIR1)] = tuple(direction.tolist())
        surface.extras += finish(bullet)
    if ode is not None:
        mu, mu2 = optional_number(ode, "mu"), optional_number(ode, "mu2")
        surface.friction = surface.friction if mu is None else mu
        surface.friction2 = surface.friction2 if mu2 is None else mu2
        if ode.child(sdf.FDIR1) is not None:
            surface.settings[sdf.FDIR1] = tuple(child_vector(ode, sdf.FDIR1, (0.0, 0.0, 0.0)).tolist())
        surface.settings |= read_settings(ode, numbers=sdf.SLIPS)
        surface.extras += finish(ode)
    torsional = cursor.child("torsional")
    if torsional is not None:
        surface.torsional_coefficient = child_number(torsional, "coefficient", 1.0)
        surface.use_patch_radius = torsional.child_flag("use_patch_radius", True)
        surface.patch_radius = child_number(torsional, "patch_radius", 0.0)
        surface.settings |= read_settings(torsional, numbers=(sdf.SURFACE_RADIUS,))
        torsional_ode = torsional.child(sdf.ODE)
        if torsional_ode is not None:
            slip = optional_number(torsional_ode, "slip")
            if slip is not None:
                surface.settings[sdf.TORSIONAL_SLIP] = slip
            surface.extras += finish(torsional_ode)
        surface.extras += finish(torsional)
    surface.extras += finish(cursor)


def _parse_contact(cursor: Cursor, surface: SurfaceElement) -> None:
    surface.collide_bitmask = child_integer(cursor, "collide_bitmask")
    surface.category_bitmask = child_integer(cursor, "category_bitmask")
    ignored = optional_flag(cursor, sdf.COLLIDE_WITHOUT_CONTACT)
    if ignored is not None:
        surface.settings[sdf.COLLIDE_WITHOUT_CONTACT] = ignored
    mask = child_integer(cursor, sdf.COLLIDE_WITHOUT_CONTACT_BITMASK)
    if mask is not None:
        surface.settings[sdf.COLLIDE_WITHOUT_CONTACT_BITMASK] = mask
    surface.settings |= read_settings(cursor, numbers=sdf.CONTACT_NUMBERS)
    for engine in (sdf.BULLET, sdf.ODE):
        child = cursor.child(engine)
        if child is None:
            continue
        stiffness, damping = optional_number(child, "kp"), optional_number(child, "kd")
        surface.stiffness = surface.stiffness if stiffness is None else stiffness
        surface.damping = surface.damping if damping is None else damping
        found = read_settings(child, numbers=_ENGINE_NUMBERS, flags=(sdf.SPLIT_IMPULSE,))
        surface.settings |= {sdf.of_engine(engine, tag): value for tag, value in found.items()}
        surface.extras += finish(child)
    surface.extras += finish(cursor)


# -- material ----------------------------------------------------------------------------------------------------------


def _parse_material(cursor: Cursor) -> MaterialElement:
    material = MaterialElement(
        diffuse=child_color(cursor, "diffuse"),
        specular=child_color(cursor, "specular"),
        emissive=child_color(cursor, "emissive"),
        settings=read_settings(cursor, numbers=sdf.MATERIAL_NUMBERS, flags=sdf.MATERIAL_FLAGS),
        origin=cursor.origin,
    )
    ambient = child_color(cursor, "ambient")
    if ambient is not None:
        material.settings[sdf.AMBIENT] = ambient
    script = cursor.child("script")
    if script is not None:
        material.settings[sdf.SCRIPT] = as_tree(script.element)
        material.extras.append(verbatim(script))
        what = script.child_text("name").strip()
        script.note("material-script", f"the material script {what!r} is kept as it is; its colours are not looked up")
    material.extras += keep(cursor, "shader", why="shaders belong to their renderer")
    pbr = cursor.child("pbr")
    if pbr is not None:
        _parse_pbr(pbr, material)
    material.extras += finish(cursor)
    return material


def _parse_pbr(cursor: Cursor, material: MaterialElement) -> None:
    """The metal workflow is read; everything else of `<pbr>` is kept beside it."""
    material.extras.append(verbatim(cursor))
    metal, specular = cursor.child("metal"), cursor.child("specular")
    if metal is not None:
        material.albedo_map = metal.child_text("albedo_map").strip()
        material.metalness = child_number(metal, "metalness", 0.5)
        material.roughness = child_number(metal, "roughness", 0.5)
    elif specular is not None:
        material.albedo_map = specular.child_text("albedo_map").strip()
    workflow = metal if metal is not None else specular
    if workflow is not None:
        maps = {role: workflow.child_text(tag).strip() for role, tag in sdf.PBR_MAPS.items()}
        material.maps = {role: reference for role, reference in maps.items() if reference}
    material.settings[sdf.PBR] = as_tree(cursor.element)
