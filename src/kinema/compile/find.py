"""What names of a file stand for."""

from __future__ import annotations

from kinema.description import Geometry, Robot, Shape, World
from kinema.foundation import Pose

from .draft import Draft, DraftJoint, Spot


def all_of(description: Robot | World, name: str) -> list:
    """What robots or the world itself have of something."""
    own = list(getattr(description, name))
    if isinstance(description, World):
        own += [x for robot in description.robots for x in getattr(robot, name)]
    return own


def find_joint(draft: Draft, entity: int, name: str) -> DraftJoint | None:
    """The joint of that name in a part."""
    return next((j for j in draft.joints if j.entity == entity and j.name == name), None)


def _owners(draft: Draft, entity: int) -> list[Robot | World]:
    description = draft.parts[entity].description
    return [description, *(description.robots if isinstance(description, World) else [])]


def find_spot(draft: Draft, entity: int, name: str) -> Spot | None:
    """Where the frame of that name is."""
    for owner in _owners(draft, entity):
        for frame in owner.frames:
            if frame.name == name:
                return _on_link(draft, entity, owner, frame.link, frame.pose)
    return None


def find_shape(draft: Draft, entity: int, name: str) -> tuple[Spot, Geometry] | None:
    """Where the shape of that name is, and what it is."""
    for owner in _owners(draft, entity):
        static: list[Shape] = owner.shapes if isinstance(owner, World) else []
        placed = [(shape, None) for shape in static]
        placed += [(s, link.name) for link in (owner.links if isinstance(owner, Robot) else []) for s in link.shapes]
        for shape, link in placed:
            if shape.name == name:
                spot = _on_link(draft, entity, owner, link, shape.pose)
                return None if spot is None else (spot, shape.geometry)
    return None


def _on_link(draft: Draft, entity: int, owner: Robot | World, link: str | None, pose: Pose) -> Spot | None:
    if link is None:
        return Spot(-1, _base(draft, entity, owner) @ pose)
    own = (b for b in draft.bodies if b.entity == entity and (b.robot is owner or isinstance(owner, World)))
    body = next((b for b in own if link in (b.link.name, b.name)), None)
    return None if body is None else Spot(body.frame, body.place @ pose)


def _base(draft: Draft, entity: int, owner: Robot | World) -> Pose:
    """Where something without a link counts from."""
    part = draft.parts[entity]
    own = owner.pose if isinstance(owner, Robot) else Pose()
    if part.pose is None:
        return own
    return part.pose if isinstance(part.description, Robot) else part.pose @ own
