"""What lowering makes of a robot: a robot that SDFormat can say, and what became of its joints."""

from __future__ import annotations

from dataclasses import dataclass, field

from kinema.description import Joint, Robot


@dataclass(slots=True, eq=False)
class Lowered:
    """A robot in SDFormat's terms."""

    robot: Robot
    """Every link has its pose; joints are fixed, simple, ball, universal or screw; none is stacked or free."""
    coordinates: dict[str, dict[int, tuple[str, int]]] = field(default_factory=dict)
    """Joint of the description -> its coordinates' numbers -> joint of the file and which of its axes."""
    chains: dict[str, list[str]] = field(default_factory=dict)
    """Joint of the description -> the joints of the file that it became."""
    offsets: dict[tuple[str, int], float] = field(default_factory=dict)
    """Joint of the description and coordinate -> what is zero in the file; only where that is not zero."""
    source_of: dict[str, Joint] = field(default_factory=dict)
    """Joint of the file -> the joint of the description that it is, or is a part of."""
    base_is_unspecified: bool = False
    """Whether nothing says what holds its roots."""
    said: set[int] = field(default_factory=set)
    """Ids of the constraints that are joints or mimics in the file."""
