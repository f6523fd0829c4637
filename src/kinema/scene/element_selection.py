"""Selection of one link, joint or geom of any entity of a scene, for sensors and cameras."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral
from typing import TYPE_CHECKING, Any, Protocol

from kinema.core import KinemaError

from .arguments import index_of_name
from .entity_index import EntityJoint, EntityLink
from .entity_queries import WORLD_LINK

if TYPE_CHECKING:
    from .entity import Entity


class HasEntities(Protocol):
    """Interface of `Scene`: its entities, by index or name."""

    entities: list[Entity]


def entity_named(scene: HasEntities, name: str, label: str) -> Entity:
    """Entity with a name; raises `KinemaError`, prefixed with `label`, if there is none."""
    return scene.entities[index_of_name(name, [entity.name for entity in scene.entities], label, "entities")]


def select_link(scene: HasEntities, link: Any, label: str) -> tuple[Entity, int] | None:
    """Entity and index within it of a link; None for the world.

    Raises `KinemaError`, prefixed with `label`, if the link is unknown or ambiguous.

    Args:
        scene: the scene.
        link: handle, pair of entity (or its name) and link name or index, name of a link that no other entity has,
            entity with a single link, -1 for the world, or with a single entity also the index of a link.
        label: prefix of error messages.
    """
    if isinstance(link, Integral) and link == WORLD_LINK:
        return None
    selection = (link.entity, link.idx) if isinstance(link, EntityLink) else link
    entity, idx = _select_entity(scene, selection, label, "link", lambda e: [item.name for item in e.links])
    rows = entity._index.links(idx, label)
    if len(rows) != 1:
        raise KinemaError(f"{label}: expected one link, not {link!r}")
    return entity, int(rows[0])


def select_joint(scene: HasEntities, joint: Any, label: str) -> EntityJoint:
    """Moving joint given by handle, (entity, name) or a name that no other entity has; `KinemaError` if unknown."""
    if isinstance(joint, EntityJoint):
        joint = joint.entity, joint.name
    entity, name = _select_entity(scene, joint, label, "joint", lambda e: [item.name for item in e.joints])
    return entity.joints[index_of_name(name, [item.name for item in entity.joints], label, "moving joints")]


def select_shape(scene: HasEntities, shape: Any, label: str) -> tuple[Entity, str]:
    """Entity and name of a shape: (entity, name), or a name that no other entity has; `KinemaError` if unknown."""
    entity, name = _select_entity(scene, shape, label, "shape", shape_names)
    names = shape_names(entity)
    return entity, names[index_of_name(name, names, label, "shapes")]


def shape_names(entity: Entity) -> list[str]:
    """Names of all shapes of an entity's description, static shapes of a world included."""
    description = entity.description
    shapes = list(getattr(description, "shapes", []))
    return [shape.name for shape in (*shapes, *(shape for link in description.links for shape in link.shapes))]


def _select_entity(
    scene: HasEntities, element: Any, label: str, noun: str, names_of: Callable[[Entity], list[str]]
) -> tuple[Entity, Any]:
    """Entity of an element, and the name or index within it.

    Args:
        scene: the scene.
        element: (entity or its name, name or index), a name that no other entity has, an entity with one such element,
            or with one entity in the scene an index.
        label: prefix of error messages.
        noun: `link`, `joint` or `shape`.
        names_of: names of the elements of an entity.
    """
    example = f"entity.get_{noun}(name)" if noun != "shape" else "(entity, name)"
    if any(element is own for own in scene.entities):
        names = names_of(element)
        if len(names) != 1:
            raise KinemaError(f"{label}: {element.name} has {len(names)} {noun}s: name one, such as {example}")
        entity, selection = element, names[0]
    elif isinstance(element, tuple) and len(element) == 2:
        entity, selection = element
        entity = entity_named(scene, entity, label) if isinstance(entity, str) else entity
    elif isinstance(element, str):
        owners, selection = [e for e in scene.entities if element in names_of(e)], element
        if len(owners) > 1:
            listed = ", ".join(e.name for e in owners)
            raise KinemaError(
                f"{label}: several entities have a {noun} {element!r}: {listed}; use (entity, {element!r})"
            )
        entity = owners[0] if owners else None
    else:
        entity, selection = scene.entities[0] if len(scene.entities) == 1 else None, element
    if entity is None or not any(entity is own for own in scene.entities):
        raise KinemaError(f"{label}: expected a {noun} of an entity of this scene, such as {example}, not {element!r}")
    return entity, selection
