"""The root, worlds and models of a file: elements with their places to format objects."""

from __future__ import annotations

from kinema.description import Extra
from kinema.foundation import Diagnostics, ReadError
from kinema.words import sdf

from ..cursor import Cursor
from ..xml_text import XmlElement
from .context import (
    MAX_MODEL_DEPTH,
    Context,
    child_number,
    keep,
    label,
    numbers,
    read_name,
    read_pose,
    read_settings,
    verbatim,
)
from .elements import FrameElement, LightElement, Member, ModelElement, RootElement, WorldElement
from .include import admits, include
from .library import Library
from .parse_joint import parse_joint
from .parse_link import parse_light, parse_link
from .version import read_version

_ROOTS = (sdf.FORMAT, "gazebo")
_WORLD_DATA = (
    *("audio", "wind", "magnetic_field", "atmosphere", "gui", "scene", "road", "spherical_coordinates"),
    *("plugin", "model_state"),
)


def parse_root(element: XmlElement, library: Library, diagnostics: Diagnostics) -> RootElement:
    """A whole document; a `ReadError` where it is none of SDFormat."""
    cursor = Cursor(element, sdf.FORMAT, diagnostics)
    if cursor.tag not in _ROOTS:
        raise ReadError(f"{cursor.origin}: the root element is <{cursor.tag[:60]}>, not <sdf>")
    version = read_version(cursor)
    context = Context(version, library)
    root = RootElement(version=version, origin=cursor.origin)
    for child in cursor.children("world", "model", "light", "actor", "include"):
        match child.tag:
            case "world":
                root.worlds.append(_parse_world(child, context))
            case "light":
                root.lights.append(parse_light(child, context))
            case "actor":
                root.actors.append(_keep_actor(child))
            case _:
                member = _parse_member(child, context)
                root.models += [member] if isinstance(member, ModelElement) else []
                root.lights += [member] if isinstance(member, LightElement) else []
                root.actors += [member] if isinstance(member, Extra) else []
    root.extras = keep(cursor, "plugin") + context.finish(cursor)
    return root


def parse_model(cursor: Cursor, context: Context) -> ModelElement | None:
    """`<model>` with everything inside, and what it includes; None where models are nested too deep."""
    if context.depth >= MAX_MODEL_DEPTH:
        cursor.error("nested-too-deep", f"{label(cursor)} is nested more than {MAX_MODEL_DEPTH} deep and left out")
        return None
    name, generated = read_name(cursor, context)
    model = ModelElement(
        name=name,
        name_is_generated=generated,
        origin=cursor.origin,
        version=context.version,
        pose=read_pose(cursor, context),
        canonical_link=(cursor.text_of("canonical_link") or "").strip(),
        placement_frame=(cursor.text_of("placement_frame") or "").strip(),
        static=cursor.child_flag("static", False),
        self_collide=cursor.child_flag("self_collide", False),
        base=cursor.child_text(sdf.OWN_BASE).strip(),
        settings=read_settings(cursor, flags=sdf.MODEL_FLAGS),
    )
    namespace = cursor.text_of("namespace")
    if namespace:
        model.settings[sdf.NAMESPACE] = namespace
    own = context.loose[:]  # the members below take what is theirs
    context.loose.clear()
    inside = context.deeper()
    for child in cursor.children("link", "joint", "frame", "model", "include"):
        member = _parse_member(child, inside)
        if isinstance(member, LightElement | Extra):
            child.error("include-content", f"{label(cursor)} includes something else than a model")
        elif member is not None and admits(inside, model.size, member, child):
            model.add(member)
    model.extras = own + keep(cursor, "plugin", "gripper")
    model.extras += keep(cursor, "model_state", why="the state is that of a simulation in progress")
    model.extras += context.finish(cursor)
    return model


def _parse_member(cursor: Cursor, context: Context) -> Member | LightElement | Extra | None:
    """What may stand in a model: a link, joint, frame or model, or what an `<include>` brings."""
    match cursor.tag:
        case "link":
            return parse_link(cursor, context)
        case "joint":
            return parse_joint(cursor, context)
        case "frame":
            return _parse_frame(cursor, context)
        case "model":
            return parse_model(cursor, context)
        case _:
            return include(cursor, context)


def _parse_frame(cursor: Cursor, context: Context) -> FrameElement:
    name, generated = read_name(cursor, context)
    frame = FrameElement(
        name=name,
        name_is_generated=generated,
        origin=cursor.origin,
        pose=read_pose(cursor, context),
        attached_to=(cursor.text_of("attached_to") or "").strip(),
    )
    frame.extras = context.finish(cursor)
    return frame


def _keep_actor(cursor: Cursor) -> Extra:
    cursor.note("kept", f"{label(cursor)} is kept as it is: animated figures are not simulated")
    return verbatim(cursor)


# -- worlds ------------------------------------------------------------------------------------------------------------


def _parse_world(cursor: Cursor, context: Context) -> WorldElement:
    name, generated = read_name(cursor, context)
    world = WorldElement(name=name, name_is_generated=generated, origin=cursor.origin, version=context.version)
    namespace = cursor.text_of("namespace")
    if namespace:
        world.settings[sdf.NAMESPACE] = namespace
    _read_physics(cursor, context, world)
    gravity = cursor.child("gravity")
    if gravity is not None:
        world.gravity = numbers(gravity, world.gravity.tolist())
    size = 0
    for child in cursor.children("model", "frame", "joint", "light", "actor", "include"):
        if child.tag == "actor":
            member = _keep_actor(child)
        else:
            member = parse_light(child, context) if child.tag == "light" else _parse_member(child, context)
        if isinstance(member, LightElement):
            world.lights.append(member)
        elif isinstance(member, Extra):
            world.extras.append(member)
        elif member is not None and admits(context, size, member, child):
            world.members.append(member)
            size += member.size if isinstance(member, ModelElement) else 1
    world.extras += keep(cursor, *_WORLD_DATA)
    world.extras += keep(cursor, "state", why="the state of a saved simulation is not applied to the models")
    for population in cursor.children("population"):
        world.extras.append(verbatim(population))
        population.warning(
            "population", f"{label(population)} stands for models that are not created", "write them out"
        )
    world.extras += context.finish(cursor)
    return world


def _read_physics(cursor: Cursor, context: Context, world: WorldElement) -> None:
    """The time step, and in old files gravity, of the physics that is marked as default or comes first."""
    found = cursor.children("physics")
    if not found:
        return
    chosen = next((p for p in found if p.flag(p.text_of("default"), False)), found[0])
    world.timestep = child_number(chosen, "max_step_size", 0.001)
    gravity = chosen.child("gravity")
    if gravity is not None and context.version.gravity_is_in_physics:
        world.gravity = numbers(gravity, world.gravity.tolist())
    world.settings |= read_settings(chosen, numbers=sdf.PHYSICS_NUMBERS)
    world.settings[sdf.PHYSICS_TYPE] = (chosen.text_of("type") or "ode").strip()
    for physics in found:
        world.extras.append(verbatim(physics))
        physics.note("kept", "<physics> is kept as it is; of its settings the time step is used")
