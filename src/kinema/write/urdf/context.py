"""State of one run of the URDF writer: options, names, poses as text, preserved elements and choice of the robot."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from pathlib import Path

from kinema.core import Array, Pose, WriteError
from kinema.description import Extra, Joint, Node, Robot, World
from kinema.tokens import WriteOptions, urdf

from .. import validation
from ..loss_report import Action, Loss, LossReport, LossReporter, reportable_attributes
from ..mesh_files import MeshStore
from ..xml_document import Element, NameTable, format_number, format_numbers, xml_safe_name

# ------------------------------------------------------------------------------------------------------- writer context

VERSIONS = ("1.0", "1.1", "1.2")
UNLIMITED_VALUE = 1e16
"""Written for absent limits that URDF requires: readers refuse infinity."""


@dataclass(slots=True, eq=False)
class UrdfContext(LossReporter):
    """State of one run of the URDF writer."""

    robot: Robot
    options: WriteOptions
    report: LossReport
    meshes: MeshStore
    links: NameTable = field(default_factory=lambda: NameTable(sanitize=xml_safe_name))
    joints: NameTable = field(default_factory=lambda: NameTable(sanitize=xml_safe_name))
    source_joints: dict[str, Joint] = field(default_factory=dict)
    """Joint of the file -> its joint of the description."""

    @property
    def version(self) -> str:
        """URDF version of the file."""
        own = str(self.robot.attributes.get(urdf.VERSION, ""))
        return self.options.version or (own if own in VERSIONS else VERSIONS[0])

    def keeps_package_uri(self, uri: str) -> bool:
        """Whether a package reference is written unchanged."""
        wanted = self.options.keeps_package_references and self.robot.format == urdf.FORMAT
        return wanted and uri.startswith("package://")

    def file_reference(self, file: str) -> str:
        """Reference to a file: `package://` for files beside the output if a package is given, else the path."""
        is_beside = not Path(file).is_absolute()
        return f"package://{self.options.package}/{file}" if self.options.package and is_beside else file


def require_finite(value: float, owner: str, quantity: str) -> float:
    """The value; raises a `WriteError` naming the owner if it is not finite."""
    return validation.require_finite(value, owner, quantity, "URDF")


# ---------------------------------------------------------------------------------------------------------------- poses

_ROUNDING_NOISE = 5e-16
"""Rounding error of angles [rad] and unit vector components computed from rotation matrices."""
_EIGHTH_TURN = math.pi / 4


def add_origin(element: Element, pose: Pose, owner: str, *, computed: bool = False) -> None:
    """Append an `<origin>` unless it is the identity; rounding errors of computed positions are removed."""
    position = [require_finite(x, owner, "position") for x in pose.position.tolist()]
    if computed:
        position = [remove_rounding(x) for x in position]
    angles = [remove_rounding(require_finite(a, owner, "rotation")) for a in pose.rpy.tolist()]
    if any(position) or any(angles):
        xyz = format_numbers(position) if any(position) else None
        element.add_child("origin", xyz=xyz, rpy=format_numbers(angles) if any(angles) else None)


def direction_text(direction: Array, owner: str) -> str:
    """Text of a unit vector without rounding errors."""
    return " ".join(format_number(remove_rounding(require_finite(x, owner, "axis"))) for x in direction.tolist())


def remove_rounding(value: float) -> float:
    """The value, or the 15-digit decimal or multiple of pi/4 from which it differs by rounding only."""
    if abs(value) < _ROUNDING_NOISE:
        return 0.0
    candidates = (float(f"{value:.15g}"), round(value / _EIGHTH_TURN) * _EIGHTH_TURN)
    return next((c for c in candidates if abs(c - value) < _ROUNDING_NOISE), value)


# --------------------------------------------------------------------------------------------------- preserved elements


def write_preserved(ctx: UrdfContext, node: Node, element: Element | None, root: Element) -> None:
    """Write the preserved URDF extras of a node into its element, and report all others.

    Args:
        ctx: the writer context.
        node: the node.
        element: element of the node; None if it has none.
        root: the `<robot>` element, which receives elements that refer to the node by name.
    """
    lost = [
        f"{extra.format} {extra.tag}"
        for extra in node.extras
        if not (extra.format == urdf.FORMAT and _add_extra(extra, element, root))
    ]
    # what is kept of URDF itself is put into elements of its own
    lost += [key for key in reportable_attributes(node.attributes) if key not in urdf.ALL_KEYS]
    if lost:
        shown = ", ".join(dict.fromkeys(lost))
        ctx.report_dropped(node, f"settings of its own format: {shown}", "URDF has no place for them")


def _add_extra(extra: Extra, element: Element | None, root: Element) -> bool:
    """Insert a preserved element or attribute; returns False if there is no place for it."""
    *path, last = extra.tag.split("/")
    if not path and last == "gazebo" and element is not root and _has_reference_attribute(extra.text):
        root.add_verbatim(extra.text)
        return True
    holder = _find_descendant(element, path)
    if holder is None:
        return False
    if last.startswith("@"):
        if last[1:] in holder.attributes:
            return False
        holder.attributes[last[1:]] = extra.text
    else:
        holder.add_verbatim(extra.text)
    return True


def _find_descendant(element: Element | None, path: list[str]) -> Element | None:
    for tag in path:
        if element is None:
            return None
        element = next((c for c in element.children if isinstance(c, Element) and c.tag == tag), None)
    return element


def _has_reference_attribute(text: str) -> bool:
    """Whether an element has a `reference` attribute, so that it belongs to the top level."""
    return re.match(r"<[^<>]*\sreference\s*=", text) is not None


def names_in_extras(extras: list[Extra], tag: str) -> set[str]:
    """Values of the `name` attribute of preserved elements with a tag."""
    found = (re.match(r"""<[^<>]*\sname\s*=\s*("[^"]*"|'[^']*')""", e.text) for e in extras if e.tag == tag)
    return {match[1][1:-1] for match in found if match}


# -------------------------------------------------------------------------------------------------- choice of the robot


def choose_robot(description: Robot | World, robot_name: str, report: LossReport) -> Robot:
    """Robot of a description to write: the named one, the only moving one, or the only one.

    Other robots and static shapes are reported as dropped.

    Raises:
        WriteError: there is no such robot, or the choice is ambiguous.
    """
    if isinstance(description, Robot):
        if robot_name and robot_name != description.name:
            raise WriteError(f'there is no robot "{robot_name}"; there is only "{description.name}"')
        return description
    robots = description.robots
    names = ", ".join(f'"{r.name}"' for r in robots)
    if not robots:
        raise WriteError("there is no robot in this world, and URDF can hold nothing else")
    if robot_name:
        candidates = [r for r in robots if r.name == robot_name]
        if not candidates:
            raise WriteError(f'there is no robot "{robot_name}" in this world; there are {names}')
    else:
        candidates = [r for r in robots if not r.static] or robots
        if len(candidates) > 1:
            called = ", ".join(f'"{r.name}"' for r in candidates)
            raise WriteError(f"URDF can hold one robot, and this world has {called}; say which one to write")
    chosen = candidates[0]
    for other in robots:
        if other is not chosen:
            how = "URDF can hold one robot"
            report.add(Loss(Action.DROPPED, "robot", other.name, "the robot", how, other.origin))
    for number, shape in enumerate(description.shapes):
        name = shape.name or f"{shape.kind} {number + 1} of the world"
        report.add(Loss(Action.DROPPED, "shape", name, "the static shape", "URDF has no scenery", shape.origin))
    return chosen
