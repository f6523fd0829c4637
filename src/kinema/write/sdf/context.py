"""State of one run of the SDFormat writer: options, version, names, formatted values and preserved elements."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from kinema.core import Pose
from kinema.description import Extra, Node, Robot, World
from kinema.tokens import WriteOptions, sdf

from .. import validation
from ..loss_report import LossReport, LossReporter, reportable_attributes
from ..mesh_files import MeshStore
from ..xml_document import Element, NameTable, format_number, format_numbers, xml_safe_name

# ------------------------------------------------------------------------------------------------------- writer context

VERSIONS = ("1.9", "1.10", "1.11", "1.12")
DEFAULT_VERSION, MIMIC_VERSION = "1.9", "1.11"
"""Default version, and the first version with mimics and cones."""
SCOPE_SEPARATOR = "::"
ROUNDING_NOISE = 1e-15
"""Positions [m] and angles [rad] below this magnitude are rounded zeros."""


@dataclass(slots=True, eq=False)
class ModelNames:
    """Names of one model; links, joints, frames and constraints share one namespace."""

    taken_names: set[str] = field(default_factory=set)
    links: NameTable = field(init=False)
    joints: NameTable = field(init=False)
    frames: NameTable = field(init=False)
    constraints: NameTable = field(init=False)

    def __post_init__(self) -> None:
        self.links, self.joints, self.frames, self.constraints = (
            NameTable(sanitize=to_sdf_name, taken_names=self.taken_names) for _ in range(4)
        )


@dataclass(slots=True, eq=False)
class SdfContext(LossReporter):
    """State of one run of the SDFormat writer."""

    options: WriteOptions
    report: LossReport
    meshes: MeshStore
    version: str = DEFAULT_VERSION
    source_format: str = ""
    """Format of the description's source."""

    def supports(self, version: str) -> bool:
        """Whether features of an SDFormat version may be written."""
        return VERSIONS.index(self.version) >= VERSIONS.index(version)

    @property
    def is_same_format(self) -> bool:
        """Whether the source is SDFormat, so that absent elements are meant to be absent."""
        return self.source_format == sdf.FORMAT

    def report_renamed(self, kind: str, table: NameTable) -> None:
        """Report the renamed elements of a name table."""
        for name, written in table.renamed.items():
            self.report_approximated((kind, name), "its name", f'it is called "{written}"')


def to_sdf_name(name: str) -> str:
    """Name that SDFormat accepts: without `::`, reserved names and surrounding blanks."""
    plain = xml_safe_name(name).strip().replace(SCOPE_SEPARATOR, "_")
    plain = " ".join(plain.split()) if any(c in plain for c in "\t\r\n") else plain
    is_reserved = plain == "world" or (len(plain) >= 4 and plain.startswith("__") and plain.endswith("__"))
    return f"{plain}_1" if is_reserved else plain


def require_finite(value: float, owner: str, quantity: str) -> float:
    """The value; raises a `WriteError` naming the owner if it is not finite."""
    return validation.require_finite(value, owner, quantity, "SDFormat")


def add_pose(element: Element, pose: Pose, owner: str, *, computed: bool = False) -> None:
    """Append a `<pose>` unless it is the identity; rounding errors of computed positions are removed."""
    angles = [0.0 if abs(v) < ROUNDING_NOISE else v for v in pose.rpy.tolist()]
    position = [0.0 if computed and abs(v) < ROUNDING_NOISE else v for v in pose.position.tolist()]
    values = [*position, *angles]
    if any(values):
        element.add_child("pose", format_numbers(require_finite(v, owner, "pose") for v in values))


def bool_text(value: object) -> str:
    """True or false as the format writes it."""
    return "true" if value else "false"


def setting_text(value: object) -> str:
    """Text of a preserved setting: a flag, a number, several numbers, or text."""
    if isinstance(value, bool):
        return bool_text(value)
    if isinstance(value, int | float):
        return format_number(value)
    return format_numbers(value) if isinstance(value, tuple | list) else str(value)


def choose_version(description: Robot | World, options: WriteOptions, needs_new_version: Callable[[], bool]) -> str:
    """Version to write: the requested one, else the newer of the source's and the oldest sufficient version."""
    if options.version:
        return options.version
    read = str(description.attributes.get(sdf.attribute_key(sdf.VERSION), ""))
    oldest = MIMIC_VERSION if needs_new_version() else DEFAULT_VERSION
    return max(oldest, read if read in VERSIONS else DEFAULT_VERSION, key=VERSIONS.index)


# --------------------------------------------------------------------------------------------------- preserved elements

_NAME_ATTRIBUTE = re.compile(r"""<[^<>]*?\sname\s*=\s*("[^"]*"|'[^']*')""")


def write_preserved(
    ctx: SdfContext,
    node: Node,
    element: Element | None,
    *,
    already_written: Collection[str] = (),
    skipped_tags: Collection[str] = (),
    simple_settings: Collection[str] = (),
) -> None:
    """Write the preserved SDFormat extras and settings of a node into its element, and report all others.

    Args:
        ctx: the writer context.
        node: the node.
        element: element of the node; None if it has none.
        already_written: settings that are written elsewhere, without the prefix `sdf:`.
        skipped_tags: tags of extras that are written elsewhere.
        simple_settings: settings that are child elements with a value only.
    """
    lost = [
        f"{extra.format} {extra.tag}"
        for extra in node.extras
        if not (extra.format == sdf.FORMAT and (extra.tag in skipped_tags or _add_extra(extra, element)))
    ]
    left = []
    for key, value in node.attributes.items():
        format, _, name = key.partition(":")
        if format == sdf.FORMAT and name in simple_settings and element is not None:
            element.add_child(name, setting_text(value))
        elif format != sdf.FORMAT or name not in already_written:
            left.append(key)
    lost += reportable_attributes(left)
    if lost:
        shown = ", ".join(dict.fromkeys(lost))
        ctx.report_dropped(node, f"settings of its own format: {shown}", "SDFormat has no place for them here")


def _add_extra(extra: Extra, element: Element | None) -> bool:
    """Insert a preserved element or attribute; returns False if there is no place for it."""
    if element is None:
        return False
    if not extra.tag.startswith("@"):
        element.add_verbatim(extra.text)
        return True
    name = extra.tag[1:]
    if name in element.attributes:
        return False
    element.attributes[name] = extra.text
    return True


def names_in_extras(extras: Collection[Extra], *tags: str) -> set[str]:
    """Values of the `name` attribute of preserved elements with the given tags."""
    found = (_NAME_ATTRIBUTE.match(e.text) for e in extras if e.tag in tags and e.format == sdf.FORMAT)
    return {match[1][1:-1] for match in found if match}


def sdf_setting(node: Node, name: str) -> object:
    """SDFormat-specific setting of a node; None if absent."""
    return node.attributes.get(sdf.attribute_key(name))
