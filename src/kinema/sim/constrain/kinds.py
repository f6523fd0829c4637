"""The list of what constrains."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kinema.model import Model
from kinema.trace import Value

from ..settings import Settings
from ..sweeps.tree import Node
from .couplings import coupling_blocks, fill_couplings
from .friction import fill_friction, friction_blocks
from .limits import fill_limits, limit_blocks, limits_near
from .rows import Block, Known, Rows
from .tendons import (
    fill_tendon_friction,
    fill_tendon_limits,
    tendon_friction_blocks,
    tendon_limit_blocks,
    tendon_limits_near,
)
from .ties import fill_ties, tie_blocks


def _asked(settings: Settings) -> bool:
    return settings.constraints


def _limited(settings: Settings) -> bool:
    return settings.limits


@dataclass(frozen=True, slots=True)
class ConstraintKind:
    """One kind of constraints."""

    name: str
    applies: Callable[[Settings], bool]
    """Whether it is asked for."""
    blocks: Callable[[Model, list[Node]], list[Block]]
    """All of them that act on some frames, known when the program is made."""
    fill: Callable[[Known, Rows], None]
    """Writes `position` and the Jacobian of its blocks."""
    near: Callable[[Known, list[Block]], Value] | None = None
    """How many of them act at all, by a glance; None where they always do."""


CONSTRAINTS: list[ConstraintKind] = [
    ConstraintKind("limits", _limited, limit_blocks, fill_limits, limits_near),
    ConstraintKind("tendon limits", _limited, tendon_limit_blocks, fill_tendon_limits, tendon_limits_near),
    ConstraintKind("friction", _asked, friction_blocks, fill_friction),
    ConstraintKind("couplings", _asked, coupling_blocks, fill_couplings),
    ConstraintKind("ties", _asked, tie_blocks, fill_ties),
    ConstraintKind("tendon friction", _asked, tendon_friction_blocks, fill_tendon_friction),
]
"""Every kind of constraints."""


def kinds_and_blocks(model: Model, settings: Settings, nodes: list[Node]) -> list[tuple[ConstraintKind, list[Block]]]:
    """All constraints on some frames that are asked for."""
    return [(kind, kind.blocks(model, nodes)) for kind in CONSTRAINTS if kind.applies(settings)]
