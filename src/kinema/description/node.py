"""Base class of all description elements: name, origin in the file, extras and format-specific attributes."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from kinema.core import UNKNOWN_ORIGIN, Origin


@dataclass(frozen=True, slots=True)
class Extra:
    """Vendor-specific or unknown data, kept verbatim so that a writer of the same format can write it back."""

    format: str
    """Source format: `urdf`, `sdf`, `mjcf`, `usd`, `cad`."""
    tag: str
    """Name of the element, attribute or property, such as `gazebo` or `physxJoint:armature`."""
    text: str
    """Source text."""
    origin: Origin = UNKNOWN_ORIGIN


@dataclass(kw_only=True, slots=True, eq=False)
class Node:
    """Base class of the elements of a description."""

    name: str = ""
    """Name in the file; links and joints always have one (see `name_is_generated`)."""
    name_is_generated: bool = False
    """Whether the reader generated the name, so that a writer may omit it."""
    order: int | None = None
    """Position among the elements of the same type in the file, if a world distributes them to robots; for a joint,
    position of its link."""
    origin: Origin = UNKNOWN_ORIGIN
    extras: list[Extra] = field(default_factory=list)
    """Unknown or vendor-specific data of this element."""
    attributes: dict[str, Any] = field(default_factory=dict)
    """Typed settings that only one format has, by `format:name`."""


def file_order(node: Node) -> float:
    """Sort key of elements of one type: their position in the file, infinite for elements without one."""
    return math.inf if node.order is None else node.order
