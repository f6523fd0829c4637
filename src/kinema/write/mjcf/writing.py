"""What all parts of the writer share: the document in the making, names, losses, and what was used of each node."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kinema.description import Assembly, Link, Node, Robot, Shape, World
from kinema.words import mjcf

from ..losing import Losing
from ..report import LossReport
from ..text import Element
from .body_plan import BodyPlan
from .joint_parts import JointPart
from .material_assets import MaterialAssets
from .meshes import MeshAssets
from .names import Names


@dataclass(frozen=True, slots=True)
class MjcfOptions:
    """How a file is written; see `kinema.write`."""

    meshes: str = "copy"


@dataclass(slots=True, eq=False)
class Document:
    """The sections of the file, each made when it is first needed."""

    sections: dict[str, Element] = field(default_factory=dict)
    given_back: list[Element] = field(default_factory=list)
    """Sections that were kept as text; there may be several of one kind."""

    def section(self, tag: str) -> Element:
        """A section such as `asset`."""
        if tag not in self.sections:
            self.sections[tag] = Element(tag)
        return self.sections[tag]

    def root(self, model: str) -> Element:
        """The whole document, with the sections that hold anything in the usual order."""
        root = Element(mjcf.ROOT, {"model": model} if model else {})
        every = [*self.sections.values(), *self.given_back]
        for section in sorted(every, key=lambda s: mjcf.SECTIONS.index(s.tag)):
            if section.children or section.attributes:
                root.children.append(section)
        return root


@dataclass(slots=True, eq=False, repr=False)
class Writing(Losing):
    """One run of the writer."""

    described: Robot | World
    report: LossReport
    options: MjcfOptions
    document: Document
    names: Names
    meshes: MeshAssets
    materials: MaterialAssets
    bodies: list[BodyPlan] = field(default_factory=list)
    """Top-level bodies."""
    body_of: dict[int, BodyPlan] = field(default_factory=dict)
    """`id` of a link -> its body."""
    parts_of: dict[int, list[JointPart]] = field(default_factory=dict)
    """`id` of a joint -> the joints of MuJoCo's that it became."""
    loose_roots: list[Link] = field(default_factory=list)
    """Links of which nothing says what holds them."""
    geoms: dict[int, Element] = field(default_factory=dict)
    """`id` of a shape -> its geom; shapes that could not be written are not in it."""
    geom_counts: dict[int, int] = field(default_factory=dict)
    """`id` of a shape -> how many geoms it became; the first of them stands for it."""
    repeated_shapes: frozenset[str] = frozenset()
    """Names that several shapes have."""
    tendon_classes: dict[tuple[tuple[str, str], ...], str] = field(default_factory=dict)
    """Width and colour of tendons that have them from a class alone -> its name."""
    used: set[tuple[int, str]] = field(default_factory=set)
    """Settings that were written: `id` of the node or table that holds each, and its name."""

    # -- what is written ----------------------------------------------------------------------------------------------

    @property
    def robots(self) -> list[Robot]:
        """All robots."""
        return self.described.robots if isinstance(self.described, World) else [self.described]

    @property
    def homes(self) -> list[Assembly]:
        """The world, if there is one, then the robots: what may hold actuators, sensors, ..."""
        return [self.described, *self.robots] if isinstance(self.described, World) else [self.described]

    @property
    def scenery(self) -> list[Shape]:
        """The world's own shapes."""
        return self.described.shapes if isinstance(self.described, World) else []

    def parts(self, kind: str) -> list[tuple[Assembly, Any]]:
        """All `actuators`, `sensors`, ... with the robot or world that has each.

        Their order is that of MuJoCo's vectors of controls and measurements, so that those of a file stay as they were;
        what was added to it comes behind.
        """
        found = [(home, item) for home in self.homes for item in getattr(home, kind)]
        return sorted(found, key=lambda part: math.inf if part[1].order is None else part[1].order)

    def section(self, tag: str) -> Element:
        """A section of the document."""
        return self.document.section(tag)

    # -- settings that only MJCF has -----------------------------------------------------------------------------------

    def take(self, node: Node, name: str, default: Any = None) -> Any:
        """A setting that only MuJoCo has, which is thereby written."""
        return self.take_from(node.attributes, mjcf.key(name), default)

    def take_from(self, table: Mapping[str, Any], name: str, default: Any = None) -> Any:
        """A setting of a node's own table (an actuator's, say), which is thereby written."""
        self.used.add((id(table), name))
        return table.get(name, default)

    def left_over(self, table: Mapping[str, Any]) -> Iterator[str]:
        """The settings in a table that nobody took."""
        return (name for name in table if (id(table), name) not in self.used)
