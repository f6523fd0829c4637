"""State of one run of the MJCF writer: document sections, body tree, names, assets, and the settings written so far."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kinema.core import Pose
from kinema.description import Assembly, Link, Node, Robot, Shape, World, file_order
from kinema.tokens import WriteOptions, mjcf

from ..loss_report import LossReport, LossReporter
from ..xml_document import Element
from .assets import MaterialAssets, MeshAssets
from .attributes import NameRegistry
from .joint_decomposition import MjcfJoint

# --------------------------------------------------------------------------------------------------------- body records


@dataclass(slots=True, eq=False, repr=False)
class MjcfBody:
    """MuJoCo body of the file: a link, or an auxiliary body that carries joints."""

    robot: Robot
    link: Link | None
    pose: Pose
    """Pose in the parent body, or in the world, at the reference configuration."""
    joints: list[MjcfJoint] = field(default_factory=list)
    children: list[MjcfBody] = field(default_factory=list)
    parent: MjcfBody | None = None
    mocap: bool = False
    carrier_name: str = ""
    """Preferred name of an auxiliary body; empty for links."""
    name: str = ""
    """Name in the file of an auxiliary body; names of links are in `MjcfContext.names`."""
    element: Element | None = None

    @property
    def world_pose(self) -> Pose:
        """World pose at the reference configuration."""
        pose, above = self.pose, self.parent
        while above is not None:
            pose, above = above.pose @ pose, above.parent
        return pose

    @property
    def moves(self) -> bool:
        """Whether the body moves relative to its parent: it has joints or is a mocap body."""
        return bool(self.joints) or self.mocap

    @property
    def weld_body(self) -> MjcfBody | None:
        """Nearest moving body at or above this body (MuJoCo's weld body); None for the world."""
        body: MjcfBody | None = self
        while body is not None and not body.moves:
            body = body.parent
        return body

    def iterate_subtree(self) -> Iterator[MjcfBody]:
        """Iterate over this body and its descendants in file order (depth first)."""
        stack: list[MjcfBody] = [self]
        while stack:
            body = stack.pop()
            yield body
            stack.extend(reversed(body.children))

    def attach_to(self, parent: MjcfBody) -> None:
        """Make this body a child of another body."""
        self.parent = parent
        parent.children.append(self)


# ------------------------------------------------------------------------------------------------------- writer context


@dataclass(slots=True, eq=False)
class MjcfDocument:
    """Sections of an MJCF document, created on first use."""

    sections: dict[str, Element] = field(default_factory=dict)
    verbatim_sections: list[Element] = field(default_factory=list)
    """Preserved sections; a tag may occur several times."""

    def section(self, tag: str) -> Element:
        """Section with the given tag, such as `asset`."""
        if tag not in self.sections:
            self.sections[tag] = Element(tag)
        return self.sections[tag]

    def root(self, model: str) -> Element:
        """Root element with all non-empty sections in the conventional order."""
        root = Element(mjcf.ROOT, {"model": model} if model else {})
        every = [*self.sections.values(), *self.verbatim_sections]
        for section in sorted(every, key=lambda s: mjcf.SECTIONS.index(s.tag)):
            if section.children or section.attributes:
                root.children.append(section)
        return root


@dataclass(slots=True, eq=False, repr=False)
class MjcfContext(LossReporter):
    """State of one run of the MJCF writer."""

    description: Robot | World
    report: LossReport
    options: WriteOptions
    document: MjcfDocument
    names: NameRegistry
    meshes: MeshAssets
    materials: MaterialAssets
    root_bodies: list[MjcfBody] = field(default_factory=list)
    """Children of the world body."""
    bodies_by_link: dict[int, MjcfBody] = field(default_factory=dict)
    """`id` of a link -> its body."""
    joints_by_source: dict[int, list[MjcfJoint]] = field(default_factory=dict)
    """`id` of a joint of the description -> its MuJoCo joints."""
    unspecified_roots: list[Link] = field(default_factory=list)
    """Root links of robots with unspecified base."""
    geoms: dict[int, Element] = field(default_factory=dict)
    """`id` of a shape -> its first geom; shapes that could not be written are missing."""
    geom_counts: dict[int, int] = field(default_factory=dict)
    """`id` of a shape -> number of its geoms."""
    duplicate_shape_names: frozenset[str] = frozenset()
    """Names shared by several shapes."""
    tendon_classes: dict[tuple[tuple[str, str], ...], str] = field(default_factory=dict)
    """Width and colour of fixed tendons -> name of the default class that sets them."""
    used_settings: set[tuple[int, str]] = field(default_factory=set)
    """Written settings: `id` of the table or node, and name."""

    # -- what is written ----------------------------------------------------------------------------------------------

    @property
    def robots(self) -> list[Robot]:
        """All robots."""
        return self.description.robots if isinstance(self.description, World) else [self.description]

    @property
    def assemblies(self) -> list[Assembly]:
        """World (if any) and robots: the owners of actuators, sensors and so on."""
        return [self.description, *self.robots] if isinstance(self.description, World) else [self.description]

    @property
    def static_shapes(self) -> list[Shape]:
        """Shapes of the world."""
        return self.description.shapes if isinstance(self.description, World) else []

    def ordered_items(self, list_name: str) -> list[tuple[Assembly, Any]]:
        """All items of a list such as `actuators` or `sensors` with their owner, in MuJoCo's id order.

        Items of an MJCF source keep their order, which defines MuJoCo's control and sensor vectors; others follow.
        """
        found = [(home, item) for home in self.assemblies for item in getattr(home, list_name)]
        return sorted(found, key=lambda part: file_order(part[1]))

    def section(self, tag: str) -> Element:
        """A section of the document."""
        return self.document.section(tag)

    # -- settings that only MJCF has -----------------------------------------------------------------------------------

    def use_attribute(self, node: Node, name: str, default: Any = None) -> Any:
        """MuJoCo-specific attribute of a node; marks the attribute as written."""
        return self.use_setting(node.attributes, mjcf.attribute_key(name), default)

    def use_setting(self, table: Mapping[str, Any], name: str, default: Any = None) -> Any:
        """Value in a settings table; marks the setting as written."""
        self.used_settings.add((id(table), name))
        return table.get(name, default)

    def unused_settings(self, table: Mapping[str, Any]) -> Iterator[str]:
        """Names in a table that were not marked as written."""
        return (name for name in table if (id(table), name) not in self.used_settings)
