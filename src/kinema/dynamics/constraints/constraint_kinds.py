"""Registry of the constraint kinds (joint and tendon limits, dry friction, couplings, equality constraints).

Each kind says when it is enabled, creates its constraints from the model, fills position error and Jacobian of its
rows, and optionally counts the constraints close to their limits so that an inactive solve can be skipped.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kinema.ir import Value
from kinema.model import Model

from ..settings import Settings
from ..tree.kinematic_tree import FrameNode
from .couplings import coupling_blocks, fill_couplings
from .equalities import equality_blocks, fill_equalities
from .joint_constraints import (
    count_joint_limits_within_margin,
    fill_joint_friction,
    fill_joint_limits,
    joint_friction_blocks,
    joint_limit_blocks,
)
from .rows import ConstraintBlock, ConstraintRows, KinematicState
from .tendon_constraints import (
    count_tendon_limits_within_margin,
    fill_tendon_friction,
    fill_tendon_limits,
    tendon_friction_blocks,
    tendon_limit_blocks,
)


def _constraints_enabled(settings: Settings) -> bool:
    return settings.constraints


def _limits_enabled(settings: Settings) -> bool:
    return settings.limits


@dataclass(frozen=True, slots=True)
class ConstraintKind:
    """One kind of constraints: functions that create its constraints and fill their rows."""

    name: str
    """Name of the kind, for diagnostics."""
    is_enabled: Callable[[Settings], bool]
    """Whether the simulation settings enable this kind."""
    make_blocks: Callable[[Model, list[FrameNode]], list[ConstraintBlock]]
    """Returns the constraints of this kind that act on the given frames; runs before tracing."""
    fill_rows: Callable[[KinematicState, ConstraintRows], None]
    """Traces code that writes `position` and the Jacobian of the constraints of this kind."""
    count_near: Callable[[KinematicState, list[ConstraintBlock]], Value] | None = None
    """Traces code that returns the number of constraints within their margin; None for constraints that are always
    active."""
    follows_from_tables: bool = False
    """Whether equal rows of dofs, tendons, couplings and equalities imply equal constraints. If not, `make_blocks` also
    tells which trees are connected, and trees with such constraints do not share code (`lowering/components.py`)."""


CONSTRAINT_KINDS: list[ConstraintKind] = [
    ConstraintKind(
        "limits",
        _limits_enabled,
        joint_limit_blocks,
        fill_joint_limits,
        count_joint_limits_within_margin,
        follows_from_tables=True,
    ),
    ConstraintKind(
        "tendon limits",
        _limits_enabled,
        tendon_limit_blocks,
        fill_tendon_limits,
        count_tendon_limits_within_margin,
        follows_from_tables=True,
    ),
    ConstraintKind(
        "friction", _constraints_enabled, joint_friction_blocks, fill_joint_friction, follows_from_tables=True
    ),
    ConstraintKind("couplings", _constraints_enabled, coupling_blocks, fill_couplings, follows_from_tables=True),
    ConstraintKind("equalities", _constraints_enabled, equality_blocks, fill_equalities, follows_from_tables=True),
    ConstraintKind(
        "tendon friction", _constraints_enabled, tendon_friction_blocks, fill_tendon_friction, follows_from_tables=True
    ),
]
"""All constraint kinds, in the order of their rows."""


def blocks_by_kind(
    model: Model, settings: Settings, nodes: list[FrameNode]
) -> list[tuple[ConstraintKind, list[ConstraintBlock]]]:
    """Return the constraints that act on the given frames, grouped by enabled constraint kind."""
    return [(kind, kind.make_blocks(model, nodes)) for kind in CONSTRAINT_KINDS if kind.is_enabled(settings)]


def blocks_beyond_tables(model: Model, nodes: list[FrameNode]) -> list[ConstraintBlock]:
    """Return the constraints of all kinds, enabled or not, that do not follow from the tables of the model."""
    kinds = [kind for kind in CONSTRAINT_KINDS if not kind.follows_from_tables]
    return [block for kind in kinds for block in kind.make_blocks(model, nodes)]
