"""`<include>`: the model, light or actor of another file, with the overrides applied."""

from __future__ import annotations

from dataclasses import replace

from kinema.description import Extra

from ..cursor import Cursor
from .context import MAX_MODEL_DEPTH, Context, keep, optional_flag, pose_of
from .elements import LightElement, Member, ModelElement, PoseElement

MAX_SIZE = 10_000
"""How many links, joints, frames and models may be included in all."""

Included = ModelElement | LightElement | Extra
"""An actor is kept as an extra."""


def admits(context: Context, size: int, member: Member, cursor: Cursor) -> bool:
    """Whether something may be added to a model or world of that size; included models add up quickly."""
    if cursor.tag != "include" or not isinstance(member, ModelElement):
        return True
    if context.depth + member.height > MAX_MODEL_DEPTH:
        problem = f'model "{member.name}" makes models nested more than {MAX_MODEL_DEPTH} deep and is left out'
        cursor.error("nested-too-deep", problem)
        return False
    if size + member.size <= MAX_SIZE:
        return True
    if not context.library.is_full:
        problem = f"includes add up to more than {MAX_SIZE} links, joints and frames; the rest is left out"
        cursor.error("too-many-includes", problem)
    context.library.is_full = True
    return False


def include(cursor: Cursor, context: Context) -> Included | None:
    """What an `<include>` stands for; None, with an error, where there is nothing to be had."""
    uri = cursor.child_text("uri").strip()
    if not uri:
        cursor.error("include-not-found", "<include> has no <uri>")
        return None
    try:
        root = context.library.load(cursor, uri)
    except OSError as error:  # a folder that may not be looked into
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
    return _overridden(entities[0], cursor, context)


def _overridden(entity: Included, cursor: Cursor, context: Context) -> Included:
    """The included thing with the name, pose, ... that the `<include>` gives it; the original stays as it is."""
    merge = cursor.flag(cursor.text_of("merge"), False)
    name, static = cursor.child_text("name").strip(), optional_flag(cursor, "static")
    pose_cursor, placement = cursor.child("pose"), cursor.child_text("placement_frame").strip()
    pose = None if pose_cursor is None else pose_of(pose_cursor, context)
    extras = keep(cursor, "plugin")
    extras += keep(cursor, "model_state", why="the state is that of a simulation in progress")
    extras += context.finish(cursor)
    if isinstance(entity, Extra):
        return entity
    changes: dict[str, object] = {"extras": [*entity.extras, *extras]}
    if name:
        changes |= {"name": name, "name_is_generated": False}
    if pose is not None:
        changes["pose"] = pose
    if isinstance(entity, ModelElement):
        changes |= _model_changes(entity, cursor, static, placement, pose)
        if merge:
            changes["merged"] = True
    return replace(entity, **changes)  # type: ignore[arg-type]


def _model_changes(
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
