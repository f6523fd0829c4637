"""Joints that follow others exactly.

MJCF has soft constraints only. Kinema writes a mimic as one, and calls it by a name of its own; such a one is the mimic
again here, as long as nobody made something else of it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kinema.description import Assembly, Constraint, ConstraintKind, Joint, Mimic, Robot, SolverParameters
from kinema.words import mjcf

PREFIX = mjcf.MIMIC
"""What the names of such constraints begin with; the writer says the same."""


def mimics(homes: Sequence[Assembly]) -> None:
    """Make mimics of the constraints that stand for them."""
    for home in homes:
        if isinstance(home, Robot):
            home.constraints = [c for c in home.constraints if not _is_mimic(home, c)]


def _is_mimic(robot: Robot, constraint: Constraint) -> bool:
    """Whether a constraint was made a mimic of its first joint."""
    offset, factor, *higher = constraint.polynomial
    if not constraint.name.startswith(PREFIX) or constraint.kind is not ConstraintKind.JOINT or any(higher):
        return False
    if not constraint.active or constraint.solver != SolverParameters() or constraint.b is None:
        return False
    follower, leader = _simple_joint(robot, constraint.a), _simple_joint(robot, constraint.b)
    if follower is None or leader is None or follower is leader or follower.axes[0].mimic is not None:
        return False
    # MuJoCo counts both coordinates from their references
    axis = follower.axes[0]
    axis.mimic = Mimic(
        joint=constraint.b, multiplier=factor, offset=offset + axis.reference, reference=leader.axes[0].reference
    )
    if offset:
        follower.state = np.array([axis.reference])  # MuJoCo starts both at their references all the same
    return True


def _simple_joint(robot: Robot, name: str | None) -> Joint | None:
    found = next((j for j in robot.joints if j.name == name), None)
    return found if found is not None and found.n_qs == len(found.axes) == 1 else None
