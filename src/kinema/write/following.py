"""Joints that follow others, by a mimic or by a constraint that says the same."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TypeVar

from kinema.description import Constraint, ConstraintKind, Robot

Key = TypeVar("Key", bound=Hashable)


def line_of(robot: Robot, constraint: Constraint) -> tuple[float, float] | None:
    """Offset and factor where a constraint makes a joint follow a straight line of another; None where it does not.

    The line is that of the coordinates themselves; a constraint counts them from the references of their axes.
    """
    offset, factor, *higher = constraint.polynomial
    if constraint.kind is not ConstraintKind.JOINT or not constraint.active or any(higher):
        return None
    references = []
    for name, number in ((constraint.a, constraint.axis_a), (constraint.b, constraint.axis_b)):
        axes = next((j.moving_axes for j in robot.joints if j.name == name), [])
        if not 0 <= number < len(axes):
            return None
        references.append(axes[number].reference)
    return offset + references[0] - factor * references[1], factor


def leads_to(start: Key, leader: Key, leader_of: Callable[[Key], Key | None]) -> bool:
    """Whether one follows another, directly or not; it also follows itself."""
    seen: set[Key] = set()
    here: Key | None = start
    while here is not None and here not in seen:
        if here == leader:
            return True
        seen.add(here)
        here = leader_of(here)
    return False
