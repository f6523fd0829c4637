"""Loss report: records of everything that a target format cannot represent, with category and action."""

from __future__ import annotations

import copy
import enum
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, overload

import numpy as np

from kinema.core import UNKNOWN_ORIGIN, Array, Origin
from kinema.description import FLAG_DEFAULTS, OPTION_DEFAULTS, Link, Node, Robot, Shape, SolverParameters, World
from kinema.tokens import mjcf, sdf, urdf, usd

# ------------------------------------------------------------------------------------------------------ loss categories


class LossCategory(enum.StrEnum):
    """Aspect of a description that a loss affects, most important first."""

    MOTION = "motion"
    """Dynamics and contacts."""
    APPEARANCE = "looks"
    """Appearance, cameras and lights."""
    METADATA = "bookkeeping"
    """Names, notes, sensors, and settings of a single program: neither dynamics nor appearance."""


_APPEARANCE_KINDS = {"visualmaterial", "camera", "light"}
_METADATA_KINDS = {"sensor", "keyframe", "frame"}
_APPEARANCE_PATTERN = re.compile(
    r"colou?r|texture|material '|its look|emi(ssion|t)|roughness|metal|reflect|shin|marker|drawn|seen|visib|shadow|skin"
    r"|mjcf visual\b|normals",
    re.IGNORECASE,
)
_METADATA_PATTERN = re.compile(
    r"^(its name|settings?( of its own format)?: |the setting |<)|\bgroup\b|^that it (has links|is stacked)|statistic",
)


_GEOMETRY_LOSSES = {"the mesh", "its mesh", "the shape"}
"""Losses of the geometry of a shape; they affect only the appearance if the shape is visual only."""


def classify_loss(kind: str, what: str, *, visual_only: bool = False) -> LossCategory:
    """Category of a loss, from the element kind and a regular-expression match of the lost property's text.

    Args:
        kind: element kind, as in `Loss.kind`.
        what: text of the lost property, as in `Loss.what`.
        visual_only: whether the element is a shape without collision and mass.
    """
    if kind in _APPEARANCE_KINDS or _APPEARANCE_PATTERN.search(what) or (visual_only and what in _GEOMETRY_LOSSES):
        return LossCategory.APPEARANCE
    if kind in _METADATA_KINDS or (_METADATA_PATTERN.search(what) and kind != "collisiongroup"):
        return LossCategory.METADATA
    return LossCategory.MOTION


# ---------------------------------------------------------------------------------------------------------- loss report


class Action(enum.StrEnum):
    """Treatment of a property that the target format cannot represent."""

    DROPPED = "dropped"
    """The property is not in the file."""
    APPROXIMATED = "approximated"
    """The file contains an approximation."""
    EXTENSION = "extension"
    """The property is stored in an extension that only some readers know."""


_CATEGORIES, _ACTIONS = list(LossCategory), list(Action)
_CATEGORY_TEXTS = {
    LossCategory.MOTION: "that change motion",
    LossCategory.APPEARANCE: "that change looks",
    LossCategory.METADATA: "of bookkeeping",
}


@dataclass(frozen=True, slots=True)
class Loss:
    """Record of one property of one element that the target format cannot represent exactly."""

    action: Action
    kind: str
    """Element kind: `link`, `joint`, `shape`, ..."""
    name: str
    """Name of the element."""
    what: str
    """Lost property in a few words: `pitch`, `the texture`."""
    how: str = ""
    """Treatment and reason."""
    origin: Origin = UNKNOWN_ORIGIN
    """Position of the element in its source file."""
    visual_only: bool = False
    """Whether the element is a shape without collision and mass."""

    @property
    def category(self) -> LossCategory:
        """Category of the loss: motion, looks or bookkeeping."""
        return classify_loss(self.kind, self.what, visual_only=self.visual_only)

    def __str__(self) -> str:
        place = f"{self.origin}: " if str(self.origin) else ""
        how = f": {self.how}" if self.how else ""
        return f'{place}{self.action.value}: {self.kind} "{self.name}": {self.what}{how}'

    def to_json(self) -> dict[str, object]:
        """The loss as plain JSON values."""
        return {
            "action": self.action.value,
            "matter": self.category.value,
            "kind": self.kind,
            "name": self.name,
            "what": self.what,
            "how": self.how,
            "file": self.origin.file or None,
            "line": self.origin.line,
            "path": self.origin.path or None,
        }


MAX_PRINTED_GROUPS = 20


@dataclass(slots=True, repr=False)
class LossReport(Sequence[Loss]):
    """Sequence of the losses of one written file, in the order of their detection; empty if nothing was lost.

    Its text is a summary and one line per group of equal losses.
    """

    format: str = ""
    """Output format."""
    path: str = ""
    """Output file."""
    items: list[Loss] = field(default_factory=list)
    unnamed_elements: dict[int, str] = field(default_factory=dict, repr=False, compare=False)
    """Labels of elements without a name, by `id`; valid only while the file is written."""

    def __repr__(self) -> str:
        return f"<LossReport of {self.path or self.format}: {self.summary()}>"

    def __str__(self) -> str:
        groups, lines = self.grouped(), [f"{self.path}: {self.summary()}"]
        for first, members in groups[:MAX_PRINTED_GROUPS]:
            names = f'"{first.name}"' + (f" and {len(members) - 1} more" if len(members) > 1 else "")
            lines.append(f"  {first.action.value}: {first.kind} {names}: {first.what}{first.how and f': {first.how}'}")
        if len(groups) > MAX_PRINTED_GROUPS:
            lines.append(f"  and {len(groups) - MAX_PRINTED_GROUPS} more groups: see to_json()")
        return "\n".join(lines)

    def add(self, loss: Loss) -> None:
        """Append a loss unless it equals one of the last eight (repeated losses are adjacent)."""
        if loss not in self.items[-8:]:  # repeats come together: a joint's three axes, say
            self.items.append(loss)

    def with_action(self, action: Action) -> list[Loss]:
        """Losses with the given action."""
        return [x for x in self.items if x.action is action]

    @property
    def dropped(self) -> list[Loss]:
        """Losses whose property is not in the file at all."""
        return self.with_action(Action.DROPPED)

    @property
    def approximated(self) -> list[Loss]:
        """Losses whose property is approximated in the file."""
        return self.with_action(Action.APPROXIMATED)

    @property
    def extensions(self) -> list[Loss]:
        """Losses whose property is stored in an extension."""
        return self.with_action(Action.EXTENSION)

    def grouped(self) -> list[tuple[Loss, list[Loss]]]:
        """Losses grouped by action, kind, property and treatment, sorted by category and action.

        Returns:
            Pairs of the first loss of a group and all losses of the group.
        """
        groups: dict[tuple[str, str, str, str], list[Loss]] = {}
        for loss in sorted(self.items, key=lambda x: (_CATEGORIES.index(x.category), _ACTIONS.index(x.action))):
            groups.setdefault((loss.action, loss.kind, loss.what, loss.how), []).append(loss)
        return [(members[0], members) for members in groups.values()]

    def summary(self) -> str:
        """One line with the number of losses per category, and the number of properties stored in extensions."""
        if not self.items:
            return "nothing lost"
        known_to_all = [x for x in self.items if x.action is not Action.EXTENSION]
        counts = Counter(x.category for x in known_to_all)
        words = [f"{counts[m]} {_CATEGORY_TEXTS[m]}" for m in LossCategory if counts[m]]
        if len(known_to_all) < len(self.items):
            words.append(f"{len(self.items) - len(known_to_all)} in extensions")
        return ", ".join(words)

    def to_json(self) -> dict[str, object]:
        """JSON values of the report: format, path, summary, counts by action and by category, and all losses."""
        counts, matters = Counter(x.action for x in self.items), Counter(x.category for x in self.items)
        return {
            "format": self.format,
            "path": self.path,
            "summary": self.summary(),
            "counts": {action.value: counts[action] for action in Action},
            "matters": {matter.value: matters[matter] for matter in LossCategory},
            "losses": [x.to_json() for x in self.items],
        }

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Loss]:
        return iter(self.items)

    @overload
    def __getitem__(self, index: int) -> Loss: ...
    @overload
    def __getitem__(self, index: slice) -> list[Loss]: ...
    def __getitem__(self, index: int | slice) -> Loss | list[Loss]:
        return self.items[index]


# ------------------------------------------------------------------------------------------------- reporting by writers

ReportedFields = Mapping[str, tuple[Any, str]]
"""Field name -> default value and text of the loss report for other values."""
_INFINITY = float("inf")
COMMON_AXIS_FIELDS: ReportedFields = {
    "acceleration": (_INFINITY, "its limit of acceleration"),
    "deceleration": (_INFINITY, "its limit of deceleration"),
    "jerk": (_INFINITY, "its limit of jerk"),
    "armature": (0.0, "its armature"),
    "drive": (None, "its drive"),
    "limit_solver": (SolverParameters(), "the solver parameters of its limits"),
    "friction_solver": (SolverParameters(), "the solver parameters of its friction"),
}
"""Fields of an axis that neither URDF nor SDFormat can represent."""
COMMON_JOINT_FIELDS: ReportedFields = {
    "state": (None, "the coordinates it is shown at"),
    "cone": (None, "its cone limit"),
    "break_force": (_INFINITY, "the force it breaks at"),
    "break_torque": (_INFINITY, "the torque it breaks at"),
}
"""Fields of a joint that neither URDF nor SDFormat can represent."""


def _has_mass(shape: Shape) -> bool:
    return shape.mass is not None or shape.density is not None


def record_loss(report: LossReport, action: Action, node: Node | tuple[str, str], what: str, how: str = "") -> None:
    """Add a loss to a report, with the name, origin and visual-only flag of the node.

    Args:
        report: the report.
        action: treatment of the property.
        node: the element, or its kind and name.
        what: the lost property.
        how: treatment and reason.
    """
    if not isinstance(node, Node):
        report.add(Loss(action, *node, what, how))
        return
    name = node.name or report.unnamed_elements.get(id(node), "")
    only_seen = isinstance(node, Shape) and node.visual and not (node.collision or _has_mass(node))
    report.add(Loss(action, type(node).__name__.lower(), name, what, how, node.origin, only_seen))


class LossReporter:
    """Base class of writer contexts: methods that add losses to `report`."""

    __slots__ = ()
    report: LossReport

    def report_loss(self, action: Action, node: Node | tuple[str, str], what: str, how: str = "") -> None:
        """Add a loss of a node, or of an element given by kind and name, to the report."""
        record_loss(self.report, action, node, what, how)

    def report_dropped(self, node: Node | tuple[str, str], what: str, how: str = "") -> None:
        """Add a loss with the action DROPPED to the report."""
        self.report_loss(Action.DROPPED, node, what, how)

    def report_approximated(self, node: Node | tuple[str, str], what: str, how: str = "") -> None:
        """Add a loss with the action APPROXIMATED to the report."""
        self.report_loss(Action.APPROXIMATED, node, what, how)


def non_default_fields(node: object, table: ReportedFields) -> list[str]:
    """Report texts of the fields of a node whose values differ from the defaults of the table."""
    return [words for name, (default, words) in table.items() if not _equals_default(getattr(node, name), default)]


def _equals_default(value: object, default: object) -> bool:
    if value is None or default is None or isinstance(value, np.ndarray):
        return value is default
    return value == default


def with_report_name(link: Link, shape: Shape) -> Shape:
    """The shape itself if it has a name, else a copy named by its label (kind, index and link) for loss reports."""
    if shape.name:
        return shape
    named = copy.copy(shape)
    named.name = _shape_label(link, link.shapes.index(shape))
    return named


def unnamed_shape_labels(description: Robot | World) -> dict[int, str]:
    """Labels of all shapes without a name for loss reports, by `id` of the shape."""
    return {
        id(shape): _shape_label(link, i)
        for link in description.links
        for i, shape in enumerate(link.shapes)
        if not shape.name
    }


def _shape_label(link: Link, index: int) -> str:
    return f"{link.shapes[index].kind} {index + 1} of {link.name}"


# ----------------------------------------------------------------------------------------- values that are not reported

_ROUND_TRIP_ATTRIBUTES = frozenset(
    {
        *map(mjcf.attribute_key, (mjcf.ASSETS, mjcf.ASSET_NAME, mjcf.FILES, mjcf.MESH_PLUGIN)),
        *map(mjcf.attribute_key, (mjcf.CLASS, mjcf.CHILDCLASS)),  # what they stand for is written in full
        *map(mjcf.attribute_key, (mjcf.UNUSED_RANGE, mjcf.UNUSED_CONTACT_PARAMETERS, mjcf.SIMPLE_SLIDER_BODY)),
        *map(sdf.attribute_key, (sdf.VERSION, sdf.CANONICAL_LINK, sdf.TYPE, sdf.TRACKS)),
        *(urdf.VERSION, urdf.CONTINUOUS_JOINT_LIMIT),
        *(usd.PRESERVED_ARTICULATION, usd.PRESERVED_RESET_XFORM_STACK, usd.PRESERVED_SCHEMAS, usd.PRESERVED_TYPE),
    }
)
_ROUND_TRIP_SETTINGS = frozenset(
    {
        *(mjcf.SHORTCUT, mjcf.UNUSED_RANGE),
        *(mjcf.N_ACTIVATIONS, mjcf.N_CONTROLS),  # they follow from the kind of actuator
        *(mjcf.DIM, mjcf.DATATYPE),  # they follow from the kind of sensor
        *(usd.PRESERVED_TYPE,),
    }
)


def reportable_attributes(attributes: Iterable[str]) -> list[str]:
    """Names of node attributes without those that serve only the round trip to the source format."""
    return [name for name in attributes if name not in _ROUND_TRIP_ATTRIBUTES]


def reportable_settings(settings: Iterable[str]) -> list[str]:
    """Names of settings of an actuator, sensor, camera or light without those that serve only the round trip."""
    return [name for name in settings if name not in _ROUND_TRIP_SETTINGS]


def non_default_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Simulation options that differ from the defaults of simulators, with one entry `flag <name>` per flag.

    An MJCF reader fills in all options of MuJoCo, whether written by the author or not.
    """
    flags: Mapping[str, bool] = options.get(mjcf.FLAGS, {})
    plain = {name: value for name, value in options.items() if name not in (mjcf.FLAGS, mjcf.DISABLEACTUATOR)}
    result = {n: v for n, v in plain.items() if n not in OPTION_DEFAULTS or v != OPTION_DEFAULTS[n]}
    if options.get(mjcf.DISABLEACTUATOR):
        result[mjcf.DISABLEACTUATOR] = options[mjcf.DISABLEACTUATOR]
    return result | {f"flag {name}": on for name, on in flags.items() if on != FLAG_DEFAULTS.get(name, True)}


def is_non_default_gravity(gravity: Array | None) -> bool:
    """Whether gravity differs from both (0, 0, -9.81) and (0, 0, -9.8) m/s2; False if unspecified."""
    return gravity is not None and tuple(gravity.tolist()) not in ((0.0, 0.0, -9.81), (0.0, 0.0, -9.8))
