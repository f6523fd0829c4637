"""What every part of a description has: a name, an origin, and whatever its file said that has no place elsewhere."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kinema.foundation import NOWHERE, Origin


@dataclass(frozen=True, slots=True)
class Extra:
    """Vendor or unknown data, kept verbatim so that a writer of the same format can give it back."""

    format: str
    """The format it comes from: `urdf`, `sdf`, `mjcf`, `usd`, `cad`."""
    tag: str
    """The element, attribute or property it was, such as `gazebo` or `physxJoint:armature`."""
    text: str
    """Its source text, as it stood in the file."""
    origin: Origin = NOWHERE


@dataclass(kw_only=True, slots=True, eq=False)
class Node:
    """The base of every part of a description."""

    name: str = ""
    """The file's own name. Links and joints always have one: see `name_is_generated`."""
    name_is_generated: bool = False
    """True where the file gives none and the reader made one up, so that a writer may leave it out again."""
    order: int | None = None
    """Its place among all of its kind in the file, where a world shares them out among its robots."""
    origin: Origin = NOWHERE
    extras: list[Extra] = field(default_factory=list)
    """Unknown or vendor data that belongs to this node."""
    attributes: dict[str, Any] = field(default_factory=dict)
    """Known, typed settings of one format that have no meaning elsewhere, as `format:name` -> value."""
