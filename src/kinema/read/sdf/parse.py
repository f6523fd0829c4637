"""Parses the root, worlds, models, frames and includes of an SDFormat file."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kinema.core import Diagnostics, ReadError, XmlElement
from kinema.description import Extra
from kinema.tokens import sdf

from ..cursor import Cursor
from .context import (
    MAX_MODEL_DEPTH,
    IncludeLibrary,
    ParseContext,
    child_float,
    child_settings,
    element_label,
    keep_verbatim,
    optional_flag,
    parse_header,
    parse_name,
    parse_numbers,
    parse_pose,
    to_extra,
)
from .elements import (
    FrameElement,
    LightElement,
    Member,
    ModelElement,
    PoseElement,
    RootElement,
    WorldElement,
    read_version,
)
from .parse_links import parse_joint, parse_light, parse_link

# -- includes ----------------------------------------------------------------------------------------------------------

MAX_INCLUDED_ELEMENTS = 10_000
"""Maximum number of included links, joints, frames and models."""

Included = ModelElement | LightElement | Extra
"""Result of an include; an actor is an extra."""


def fits_size_limit(context: ParseContext, size: int, member: Member, cursor: Cursor) -> bool:
    """Whether a member may be added to a model or world of the given size; violations are reported."""
    if cursor.tag != "include" or not isinstance(member, ModelElement):
        return True
    if context.depth + member.nesting_depth > MAX_MODEL_DEPTH:
        problem = f'model "{member.name}" makes models nested more than {MAX_MODEL_DEPTH} deep and is left out'
        cursor.error("nested-too-deep", problem)
        return False
    if size + member.n_members <= MAX_INCLUDED_ELEMENTS:
        return True
    if not context.library.limit_was_reported:
        problem = f"includes add up to more than {MAX_INCLUDED_ELEMENTS} links, joints and frames; the rest is left out"
        cursor.error("too-many-includes", problem)
    context.library.limit_was_reported = True
    return False


def parse_include(cursor: Cursor, context: ParseContext) -> Included | None:
    """Model, light or actor of an `<include>`; None with an error if unavailable."""
    uri = cursor.child_text("uri").strip()
    if not uri:
        cursor.error("include-not-found", "<include> has no <uri>")
        return None
    try:
        root = context.library.load_include(cursor, uri)
    except OSError as error:  # an unreadable folder
        cursor.error("include-unreadable", f"<include> of {uri!r}: {error.strerror or error}")
        return None
    if root is None:
        return None
    entities: list[Included] = [*root.models, *root.lights, *root.actors]
    if not entities:
        cursor.error("include-content", f"{uri!r} holds no model, light or actor to include")
        return None
    if len(entities) > 1:
        cursor.error("include-content", f"{uri!r} holds {len(entities)} models, lights or actors; the first counts")
    return _apply_overrides(entities[0], cursor, context)


def _apply_overrides(included: Included, cursor: Cursor, context: ParseContext) -> Included:
    """Copy of the included element with the overrides (name, pose, ...) of the `<include>`."""
    merge = cursor.parse_flag(cursor.attribute_text("merge"), False)
    name, static = cursor.child_text("name").strip(), optional_flag(cursor, "static")
    pose_cursor, placement = cursor.child("pose"), cursor.child_text("placement_frame").strip()
    pose = None if pose_cursor is None else parse_pose(pose_cursor, context)
    extras = keep_verbatim(cursor, "plugin")
    extras += keep_verbatim(cursor, "model_state", reason="the state is that of a simulation in progress")
    extras += context.collect_unread(cursor)
    if isinstance(included, Extra):
        return included
    changes: dict[str, object] = {"extras": [*included.extras, *extras]}
    if name:
        changes |= {"name": name, "name_is_generated": False}
    if pose is not None:
        changes["pose"] = pose
    if isinstance(included, ModelElement):
        changes |= _model_overrides(included, cursor, static, placement, pose)
        if merge:
            changes["merged"] = True
    return replace(included, **changes)  # type: ignore[arg-type]


def _model_overrides(
    model: ModelElement, cursor: Cursor, static: bool | None, placement: str, pose: PoseElement | None
) -> dict[str, object]:
    changes: dict[str, object] = {}
    if static is not None:
        changes["static"] = static
    if placement:
        changes["placement_frame"] = placement
        if pose is None:
            problem = f'<include> of model "{model.name}" has a <placement_frame> but no <pose>'
            cursor.error("placement-frame", problem, "the identity is assumed")
            changes["pose"] = PoseElement(origin=cursor.origin)
    return changes


# -- root and models ---------------------------------------------------------------------------------------------------

_ROOT_TAGS = (sdf.FORMAT, "gazebo")
_VERBATIM_WORLD_TAGS = (
    *("audio", "wind", "magnetic_field", "atmosphere", "gui", "scene", "road", "spherical_coordinates"),
    *("plugin", "model_state"),
)


def parse_root(element: XmlElement, library: IncludeLibrary, diagnostics: Diagnostics) -> RootElement:
    """Parse a document; raises `ReadError` if the root element is not SDFormat."""
    cursor = Cursor(element, sdf.FORMAT, diagnostics)
    if cursor.tag not in _ROOT_TAGS:
        raise ReadError(f"{cursor.origin}: the root element is <{cursor.tag[:60]}>, not <sdf>")
    version = read_version(cursor)
    context = ParseContext(version, library)
    root = RootElement(version=version, origin=cursor.origin)
    for child in cursor.children("world", "model", "light", "actor", "include"):
        match child.tag:
            case "world":
                root.worlds.append(_parse_world(child, context))
            case "light":
                root.lights.append(parse_light(child, context))
            case "actor":
                root.actors.append(_actor_extra(child))
            case _:
                member = _parse_member(child, context)
                root.models += [member] if isinstance(member, ModelElement) else []
                root.lights += [member] if isinstance(member, LightElement) else []
                root.actors += [member] if isinstance(member, Extra) else []
    root.extras = keep_verbatim(cursor, "plugin") + context.collect_unread(cursor)
    return root


def parse_model(cursor: Cursor, context: ParseContext) -> ModelElement | None:
    """Parse `<model>` with its members and includes; None if nested too deeply."""
    if context.depth >= MAX_MODEL_DEPTH:
        cursor.error(
            "nested-too-deep", f"{element_label(cursor)} is nested more than {MAX_MODEL_DEPTH} deep and left out"
        )
        return None
    model = ModelElement(
        **parse_header(cursor, context),
        version=context.version,
        canonical_link=(cursor.attribute_text("canonical_link") or "").strip(),
        placement_frame=(cursor.attribute_text("placement_frame") or "").strip(),
        static=cursor.child_flag("static", False),
        self_collide=cursor.child_flag("self_collide", False),
        base=cursor.child_text(sdf.KINEMA_BASE).strip(),
        settings=child_settings(cursor, flags=sdf.MODEL_FLAGS),
    )
    namespace = cursor.attribute_text("namespace")
    if namespace:
        model.settings[sdf.NAMESPACE] = namespace
    pending = context.pending_extras[:]  # members collect their own extras
    context.pending_extras.clear()
    inside = context.nested()
    for child in cursor.children("link", "joint", "frame", "model", "include"):
        member = _parse_member(child, inside)
        if isinstance(member, LightElement | Extra):
            child.error("include-content", f"{element_label(cursor)} includes something else than a model")
        elif member is not None and fits_size_limit(inside, model.n_members, member, child):
            model.add(member)
    model.extras = pending + keep_verbatim(cursor, "plugin", "gripper")
    tracks = _parse_tracks(cursor)
    if tracks:
        model.settings[sdf.TRACKS] = tracks
    model.extras += keep_verbatim(cursor, "model_state", reason="the state is that of a simulation in progress")
    model.extras += context.collect_unread(cursor)
    return model


def _parse_tracks(cursor: Cursor) -> dict[str, tuple[float, ...]]:
    """Orientation (roll, pitch, yaw) on its link of each track that a Gazebo plugin of a model drives, by link."""
    tracks: dict[str, tuple[float, ...]] = {}
    for plugin in cursor.children("plugin"):
        if sdf.TRACK_PLUGIN not in f"{plugin.attribute_text('name')} {plugin.attribute_text('filename')}":
            continue
        link, orientation = plugin.child_text("link").strip(), plugin.child("track_orientation")
        angles = np.zeros(3) if orientation is None else parse_numbers(orientation, (0.0, 0.0, 0.0))
        if link:
            tracks[link] = tuple(angles.tolist())
            plugin.note("track", f'link "{link}" is a track', hint="Scene.set_track_velocity drives it")
        else:
            plugin.warning("track", "the plugin of a track has no <link>: the track is not driven")
    return tracks


def _parse_member(cursor: Cursor, context: ParseContext) -> Member | LightElement | Extra | None:
    """Parse a link, joint, frame or model, or resolve an `<include>`."""
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
            return parse_include(cursor, context)


def _parse_frame(cursor: Cursor, context: ParseContext) -> FrameElement:
    frame = FrameElement(
        **parse_header(cursor, context),
        attached_to=(cursor.attribute_text("attached_to") or "").strip(),
    )
    frame.extras = context.collect_unread(cursor)
    return frame


def _actor_extra(cursor: Cursor) -> Extra:
    cursor.note("kept", f"{element_label(cursor)} is kept as it is: animated figures are not simulated")
    return to_extra(cursor)


# -- worlds ------------------------------------------------------------------------------------------------------------


def _parse_world(cursor: Cursor, context: ParseContext) -> WorldElement:
    """Parse `<world>` with physics, gravity, models, lights and frames."""
    name, generated = parse_name(cursor, context)
    world = WorldElement(name=name, name_is_generated=generated, origin=cursor.origin, version=context.version)
    namespace = cursor.attribute_text("namespace")
    if namespace:
        world.settings[sdf.NAMESPACE] = namespace
    _parse_physics(cursor, context, world)
    gravity = cursor.child("gravity")
    if gravity is not None:
        world.gravity = parse_numbers(gravity, world.gravity.tolist())
    size = 0
    for child in cursor.children("model", "frame", "joint", "light", "actor", "include"):
        if child.tag == "actor":
            member = _actor_extra(child)
        else:
            member = parse_light(child, context) if child.tag == "light" else _parse_member(child, context)
        if isinstance(member, LightElement):
            world.lights.append(member)
        elif isinstance(member, Extra):
            world.extras.append(member)
        elif member is not None and fits_size_limit(context, size, member, child):
            world.members.append(member)
            size += member.n_members if isinstance(member, ModelElement) else 1
    world.extras += keep_verbatim(cursor, *_VERBATIM_WORLD_TAGS)
    world.extras += keep_verbatim(
        cursor, "state", reason="the state of a saved simulation is not applied to the models"
    )
    for population in cursor.children("population"):
        world.extras.append(to_extra(population))
        population.warning(
            "population", f"{element_label(population)} stands for models that are not created", "write them out"
        )
    world.extras += context.collect_unread(cursor)
    return world


def _parse_physics(cursor: Cursor, context: ParseContext, world: WorldElement) -> None:
    """Time step (and gravity in old versions) of the default or first `<physics>`."""
    found = cursor.children("physics")
    if not found:
        return
    chosen = next((p for p in found if p.parse_flag(p.attribute_text("default"), False)), found[0])
    world.timestep = child_float(chosen, "max_step_size", 0.001)
    gravity = chosen.child("gravity")
    if gravity is not None and context.version.gravity_is_in_physics:
        world.gravity = parse_numbers(gravity, world.gravity.tolist())
    world.settings |= child_settings(chosen, numbers=sdf.PHYSICS_PARAMETERS)
    world.settings[sdf.PHYSICS_TYPE] = (chosen.attribute_text("type") or "ode").strip()
    for physics in found:
        world.extras.append(to_extra(physics))
        physics.note("kept", "<physics> is kept as it is; of its settings the time step is used")
