"""What all parts of the writer share."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from kinema.description import Node, Robot, World
from kinema.words import usd

from ..report import Action
from .draft import Draft, PrimDraft
from .filters import Filters
from .materials import Materials
from .meshes import Meshes
from .plan import Plan, RobotPlan, is_free


@dataclass(frozen=True, slots=True)
class UsdOptions:
    """How a stage is written; see `kinema.write`."""

    layout: str = "nested"
    meshes: str = "embed"
    layered: bool = False
    exact: bool = True
    base: str = "auto"


@dataclass(slots=True, eq=False)
class Writing:
    """One run of the writer."""

    described: Robot | World
    plan: Plan
    draft: Draft
    options: UsdOptions
    filters: Filters
    materials: Materials
    meshes: Meshes
    repeated: frozenset[str] = frozenset()
    """Names of prims that occur more than once, so that a reader must be told whom they stand for."""
    shapes_of_link: dict[str, list[str]] = field(default_factory=dict)
    """Link's prim -> the prims of its colliders."""
    loose: list[tuple[str, str]] = field(default_factory=list)
    """Bodies that a free joint, which has no prim, keeps from colliding."""
    placed: Counter[str] = field(default_factory=Counter)
    """How many cameras, lights and frames there are already."""
    frames: dict[str, str] = field(default_factory=dict)
    """Frame, by its own and its scoped name -> its prim, of all robots."""
    tendons: dict[str, str] = field(default_factory=dict)
    """The same of tendons."""
    scene: PrimDraft | None = None
    """The physics scene, where there is one."""
    filtered: dict[str, list[str]] = field(default_factory=dict)
    """Prim -> the prims it never collides with."""

    def lose(self, action: Action, node: Node | tuple[str, str], what: str, how: str = "") -> None:
        """Put a loss on record."""
        self.draft.lose(action, node, what, how)

    def is_articulated(self, parts: RobotPlan) -> bool:
        """Whether the robot's tree is to be simulated as one mechanism, which nesting requires.

        A stage that was read without an articulation stays without one where nothing asks for it.
        """
        robot = parts.robot
        if robot.static or not any(e.parent is not None and not is_free(e) for e in parts.tree.edges):
            return False
        return self.options.layout == "nested" or robot.root is not None or self.described.format != usd.FORMAT
