"""A body of the file in the making."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from kinema.description import Link, Robot
from kinema.foundation import Pose

from ..text import Element
from .joint_parts import JointPart


@dataclass(slots=True, eq=False, repr=False)
class BodyPlan:
    """A body of the file: a link, or one that only carries joints."""

    robot: Robot
    link: Link | None
    pose: Pose
    """In its parent, or in the world, at the reference configuration."""
    parts: list[JointPart] = field(default_factory=list)
    children: list[BodyPlan] = field(default_factory=list)
    parent: BodyPlan | None = None
    mocap: bool = False
    carries: str = ""
    """The name of a body that is no link."""
    name: str = ""
    """Its name in the file; empty where it has none (a link's is in the writing's names)."""
    element: Element | None = None

    @property
    def world_pose(self) -> Pose:
        """Its pose in the world at the reference configuration."""
        pose, above = self.pose, self.parent
        while above is not None:
            pose, above = above.pose @ pose, above.parent
        return pose

    @property
    def moves(self) -> bool:
        """Whether it moves against its parent, or by itself."""
        return bool(self.parts) or self.mocap

    @property
    def weld(self) -> BodyPlan | None:
        """The body at or above it that moves and that it is rigidly part of; None for the world."""
        body: BodyPlan | None = self
        while body is not None and not body.moves:
            body = body.parent
        return body

    def walk(self) -> Iterator[BodyPlan]:
        """This body and all below it, in the order of the file."""
        stack: list[BodyPlan] = [self]
        while stack:
            body = stack.pop()
            yield body
            stack.extend(reversed(body.children))

    def hang(self, parent: BodyPlan) -> None:
        """Put it into another body."""
        self.parent = parent
        parent.children.append(self)
