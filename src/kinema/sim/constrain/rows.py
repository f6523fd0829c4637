"""Constraints as rows: soft bounds on the acceleration of degrees of freedom, and the list of what makes them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kinema.trace import Value

from ..settings import Settings
from ..sweeps.sweeps import Sweeps
from ..sweeps.tree import Node
from .limits import limit_rows


@dataclass(frozen=True, slots=True)
class ConstraintKind:
    """One kind of constraints."""

    name: str
    applies: Callable[[Settings], bool]
    """Whether it is asked for."""
    rows: Callable[[Sweeps, Node], list[list[tuple[Value, Value, Value]]]]
    """Of each degree of freedom of a frame its rows: (lever, reference acceleration, stiffness).

    A row pushes along its lever as soon as lever times acceleration falls short of the reference, with the stiffness
    times what is missing; one that is not there has no stiffness. All frames have the same number of rows to a degree
    of freedom.
    """


CONSTRAINTS: list[ConstraintKind] = [ConstraintKind("limits", lambda settings: settings.limits, limit_rows)]
"""Every kind of constraints."""


def kinds(settings: Settings) -> list[ConstraintKind]:
    """Those that are asked for."""
    return [kind for kind in CONSTRAINTS if kind.applies(settings)]
