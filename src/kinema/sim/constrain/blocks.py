"""A block of constraints: what is known of it before a step is traced."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..arrays import Owner
from .impedance import sound


class Law(enum.StrEnum):
    """What a row may do."""

    EQUALITY = "equality"
    """Push and pull."""
    LIMIT = "limit"
    """Push."""
    FRICTION = "friction"
    """Push and pull up to a bound."""


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Rows that belong together."""

    law: Law
    dofs: Sequence[int]
    """That it acts on."""
    n_rows: int
    weights: Sequence[float]
    """Of each row, about the inverse of the inertia that it moves."""
    solref: Sequence[float]
    solimp: Sequence[float]
    margin: float = 0.0
    spring: Sequence[float] = (0.0, 0.0)
    """Of a limit that is a spring and a damper itself: stiffness and damping [N/m or N m/rad, per second]."""
    bound: float = 0.0
    """Of friction."""
    hard: bool = False
    """Whether it is to hold at the end of a step as well as a step can make it: nobody asked for softness."""
    patient: bool = False
    """Whether it comes back from afar no faster than `FASTEST`; what is hard always does."""
    drifts: bool = False
    """Whether its speed changes while no coordinate accelerates."""
    of: tuple[Owner, int] | None = None
    """Whose numbers it has, where they differ between environments."""
    called: str = ""
    """Under which of `OWN_NUMBERS`."""
    holder: int = -1
    """The tie that it goes with when that breaks."""
    tells: Mapping[str, object] = field(default_factory=dict)
    """What its kind wants to know of it again."""


def block_name(block: Block) -> str:
    """What tells it apart from others."""
    return f"{block.law} {sorted(block.tells.items())}"


def block_numbers(block: Block) -> dict[str, list[Any]]:
    """What its rows know of it."""
    return {
        "weights": list(block.weights),
        "solref": list(sound(block.solref)),
        "solimp": list(block.solimp),
        "margin": [block.margin],
        "bound": [block.bound],
        "spring": list(block.spring),
    }
