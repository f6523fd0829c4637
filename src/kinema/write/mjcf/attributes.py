"""Values of MJCF attributes: unique element names, and poses, directions, ranges and numbers as text."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from kinema.core import Array, Pose, unique_name
from kinema.description import SCOPE, Assembly, Node, Robot
from kinema.tokens import mjcf

from ..xml_document import Element, format_number, format_numbers

# ----------------------------------------------------------------------------------------------------- attribute values

ROUNDING_NOISE = 1e-15
"""Vector components [m or unitless] below this magnitude are rounded zeros."""
_MIN_RANGE_WIDTH = 1e-12


def vector_text(values: Iterable[float]) -> str:
    """Text of numbers with rounded zeros replaced by 0."""
    return format_numbers(0.0 if abs(v) < ROUNDING_NOISE else v for v in map(float, values))


def direction_text(values: Array) -> str:
    """Text of a vector of arbitrary length, with integer components if exact, such as `0 1 -1`."""
    largest = float(np.abs(values).max())
    scaled = values / largest if largest > 0 else values
    whole = np.round(scaled)
    if largest > 0 and float(np.abs(scaled - whole).max()) < ROUNDING_NOISE:
        return format_numbers(whole.tolist())
    return vector_text(values)


def is_identity_rotation(rotation: Array) -> bool:
    """Whether a rotation matrix is the identity up to rounding."""
    return bool(np.abs(rotation - np.eye(3)).max() < ROUNDING_NOISE)


def quaternion_text(rotation: Array) -> str:
    """Text of MuJoCo's `quat` of a rotation matrix, with integer components if exact (MuJoCo normalizes it)."""
    quaternion = Pose(rotation=rotation).quaternion
    # what is no rotation has none; a unit quaternion has a part that is at least a half
    return direction_text(quaternion) if float(np.abs(quaternion).max()) >= 0.5 else "1 0 0 0"


def pose_attributes(pose: Pose) -> dict[str, str | None]:
    """Attributes `pos` and `quat` of a pose; identities are omitted."""
    moved = bool((np.abs(pose.position) >= ROUNDING_NOISE).any())
    return {
        "pos": vector_text(pose.position) if moved else None,
        "quat": None if is_identity_rotation(pose.rotation) else quaternion_text(pose.rotation),
    }


def valid_range(low: float, high: float) -> tuple[float, float] | None:
    """Range that MuJoCo accepts; None for unlimited or invalid ranges.

    MuJoCo treats a range of zero width as no range, so such ranges are widened by the smallest amount.
    """
    if math.isnan(low) or math.isnan(high) or low > high or (math.isinf(low) and math.isinf(high)):
        return None
    return (low, math.nextafter(low, math.inf) if low else _MIN_RANGE_WIDTH) if low == high else (low, high)


def text_unless_default(value: float, default: float = 0.0) -> str | None:
    """Text of a number; None for the default or NaN."""
    return None if value == default or math.isnan(value) else format_number(value)


def trimmed_text(values: Sequence[float], min_count: int = 1) -> str:
    """Text of numbers without trailing zeros, which are MuJoCo's defaults."""
    count = len(values)
    while count > min_count and values[count - 1] == 0.0:
        count -= 1
    return format_numbers(values[:count])


def degrees_text(radians: float) -> str:
    """Angle [rad] as text in degrees: the shortest decimal that converts to the same radians, if any."""
    degrees = math.degrees(radians)
    for digits in range(16):
        rounded = round(degrees, digits)
        if math.radians(rounded) == radians:
            return format_number(rounded)
    return format_number(degrees)


# -------------------------------------------------------------------------------------------------------- element names

_CONTROL_CHARACTERS = re.compile(r"[\x00-\x1f\x7f\ufffe\uffff\ud800-\udfff]")
_RESERVED_NAMES = {mjcf.BODY: {"world"}}


@dataclass(slots=True, eq=False)
class NamedElement:
    """Named element of the file and the node of the description it represents."""

    kind: str
    node: Node
    assembly: Assembly
    element: Element | None = None
    written_name: str = ""
    """Name in the file; empty until one is needed."""
    scope: str = ""
    """Prefix for names that are not unique."""


@dataclass(slots=True, eq=False)
class NameRegistry:
    """Names of all elements of the file by kind: `body`, `geom`, `site`, ..."""

    has_multiple_robots: bool = False
    taken_names: dict[str, set[str]] = field(default_factory=dict)
    by_node: dict[tuple[str, int], NamedElement] = field(default_factory=dict)
    by_name: dict[tuple[str, str], list[NamedElement]] = field(default_factory=dict)
    entries: list[NamedElement] = field(default_factory=list)

    def new_name(self, kind: str, preferred_name: str, assembly: Assembly | None = None) -> str:
        """Reserve a unique name; taken names are prefixed by the robot name if there are several robots."""
        taken = self.taken_names.setdefault(kind, set(_RESERVED_NAMES.get(kind, ())))
        name = sanitize_name(preferred_name) or kind
        if name in taken and self.has_multiple_robots and isinstance(assembly, Robot) and assembly.name:
            name = f"{sanitize_name(assembly.name)}_{name}"
        return unique_name(name, taken)

    def register(
        self, kind: str, node: Node, assembly: Assembly, *, always_named: bool, scope: str = ""
    ) -> NamedElement:
        """Register a node; `always_named` assigns its name in the file immediately instead of on first reference."""
        entry = NamedElement(kind, node, assembly, scope=scope)
        self.by_node[kind, id(node)] = entry
        self.by_name.setdefault((kind, node.name), []).append(entry)
        self.entries.append(entry)
        if always_named:
            self._ensure_name(entry)
        return entry

    def name_of(self, kind: str, node: Node) -> str:
        """Name in the file of a registered node, assigned on first reference."""
        return self._ensure_name(self.by_node[kind, id(node)])

    def find(self, kind: str, name: str, assembly: Assembly) -> NamedElement | None:
        """Element of a given name, as seen from an assembly: its own elements first, then others, then scoped names."""
        found = self.by_name.get((kind, name), [])
        own = [e for e in found if e.assembly is assembly]
        if own or found:
            return (own or found)[0]
        robot, _, rest = name.partition(SCOPE)
        return next((e for e in self.by_name.get((kind, rest), []) if rest and e.assembly.name == robot), None)

    def resolve_reference(self, kind: str, name: str, assembly: Assembly) -> str | None:
        """Name in the file of the element with a name in the description; None if missing."""
        entry = self.find(kind, name, assembly)
        return None if entry is None else self._ensure_name(entry)

    def _ensure_name(self, entry: NamedElement) -> str:
        if not entry.written_name:
            wanted = f"{entry.scope}_{entry.node.name}" if entry.scope else entry.node.name
            entry.written_name = self.new_name(entry.kind, wanted, entry.assembly)
        return entry.written_name

    def write_names(self) -> None:
        """Set the `name` attribute of all elements as first attribute."""
        for entry in self.entries:
            if entry.element is not None and entry.written_name:
                entry.element.attributes = {"name": entry.written_name, **entry.element.attributes}

    def renamed(self) -> list[NamedElement]:
        """Registered elements whose name in the file differs from the description."""
        return [e for e in self.entries if e.written_name and e.written_name != e.node.name]


def sanitize_name(name: str) -> str:
    """Name with characters that XML cannot represent replaced by underscores."""
    return _CONTROL_CHARACTERS.sub("_", name).strip()
