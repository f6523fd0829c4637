"""What the passes hand on to each other: the scene on its way from descriptions to flat arrays."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kinema.description import Joint, KinematicTree, Link, Robot, World
from kinema.foundation import Array, Diagnostics, Pose

from .breaking import simulated_tree
from .motions import Chain, Placed


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Part:
    """Something added to a scene: a description, where it stands, and whether its base is fixed."""

    name: str
    description: Robot | World
    pose: Pose | None = None
    """Where its base frame is put; None for where its file puts it."""
    fixed: bool | None = None
    """None for as the file says."""
    nonconvex: str | None = None
    """What meshes that are clearly not convex touch as (`hollow.NONCONVEX`); None for as the file says."""


@dataclass(slots=True, eq=False)
class Body:
    """A link on its way into the model."""

    name: str
    link: Link
    robot: Robot
    entity: int
    parent: Body | None
    """None for the world."""
    chain: Chain
    """How it moves against its parent."""
    joints: list[DraftJoint]
    index: int = -1
    motions: list[Placed] = field(default_factory=list)
    frame: int = -1
    """The moving frame it sits in."""
    place: Pose = field(default_factory=Pose)
    """Where it sits there."""


@dataclass(slots=True, eq=False)
class DraftJoint:
    """A joint of the tree, with its place among coordinates and degrees of freedom."""

    name: str
    joint: Joint
    robot: Robot
    entity: int
    start: Array
    """The coordinates that it starts from, (n_qs,)."""
    base: Pose | None = None
    """Of a free joint whose coordinates count from the world's origin here: where its file counts them from."""
    body: Body | None = None
    q_start: int = -1
    dof_start: int = -1


@dataclass(frozen=True, slots=True, eq=False)
class Spot:
    """A place on something: in a moving frame, or in the world (-1)."""

    frame: int
    pose: Pose


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """A piece of a path: what `PathsInfo` has a row for."""

    path: int
    kind: str
    ends: list[Spot]
    factor: float = 1.0
    numbers: tuple[float, ...] = ()


@dataclass(slots=True, eq=False)
class Draft:
    """The whole scene."""

    parts: list[Part]
    diagnostics: Diagnostics
    bodies: list[Body] = field(default_factory=list)
    joints: list[DraftJoint] = field(default_factory=list)
    frames: list[tuple[int, Placed, int]] = field(default_factory=list)
    """Of each moving frame: its parent, its motion, and the joint it belongs to."""
    joint_of: dict[tuple[int, int], int] = field(default_factory=dict)
    """Number of a description's joint, by its entity (the same robot may be added twice) and its identity."""
    switchable: bool = False
    """Whether constraints may be switched on and off."""
    solids: dict[tuple[int, str | None], Any] = field(default_factory=dict)
    """What stands for shapes, by their identity: may be handed on to drafts of the same descriptions."""
    n_qs: int = 0
    n_dofs: int = 0
    pieces: list[Piece] = field(default_factory=list)
    """Of all paths."""
    breakable: dict[tuple[int, str], int] = field(default_factory=dict)
    """Number of the tie of a joint that may break, by its entity and its name."""
    paths_of_tendons: dict[tuple[int, int], int] = field(default_factory=dict)
    """Number of a tendon's path, by its entity and its identity."""
    rows_of_tendons: dict[tuple[int, int], int] = field(default_factory=dict)
    """Number of a tendon in its table, by its entity and its identity; of those that are in it."""
    trees: dict[int, KinematicTree] = field(default_factory=dict)
    """By the identity of robots."""

    def tree(self, robot: Robot) -> KinematicTree:
        """The tree of one of its robots, in which joints that may break close loops."""
        if id(robot) not in self.trees:
            self.trees[id(robot)] = simulated_tree(robot)
        return self.trees[id(robot)]
