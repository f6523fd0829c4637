"""The medium's force on a link taken as a box: MuJoCo's model by inertia, drag and viscous resistance."""

from __future__ import annotations

import math
from collections.abc import Sequence

from kinema import trace
from kinema.trace import RowCode, Value

from ..rigid.kinematics import Twist
from ..rigid.rnea import Wrench
from ..sweeps.maths import diagonal
from .slopes import NOTHING, Slopes


def box_numbers(sides: Sequence[float]) -> dict[str, list[float]]:
    """What turns density and viscosity into resistance: of a sphere of that size, and of each face."""
    across = sum(sides) / 3.0
    fourth = [x**4 for x in sides]
    return {
        "viscous": [math.pi * across**3, 3.0 * math.pi * across],
        "spin": [sides[i] * (fourth[i - 2] + fourth[i - 1]) / 64.0 for i in range(3)],
        "faces": [0.5 * sides[i - 2] * sides[i - 1] for i in range(3)],
    }


def box_force(code: RowCode, density: Value, viscosity: Value, motion: Twist) -> Wrench:
    """In the box's axes, at its centre, from its motion against the medium."""
    torque, force = (
        [-(viscosity * slow + density * (fast * trace.absolute(x))) * x for fast, x in zip(drag, speeds, strict=True)]
        for slow, drag, speeds in _parts(code, motion)
    )
    return Wrench(torque, force)


def box_slopes(code: RowCode, density: Value, viscosity: Value, motion: Twist) -> Slopes:
    """How that changes with the motion."""
    turning, moving = (
        [-(viscosity * slow + 2.0 * density * (fast * trace.absolute(x))) for fast, x in zip(drag, speeds, strict=True)]
        for slow, drag, speeds in _parts(code, motion)
    )
    return Slopes(diagonal(turning), NOTHING, NOTHING, diagonal(moving))


def _parts(code: RowCode, motion: Twist) -> list[tuple[Value, Sequence[Value], Sequence[Value]]]:
    """Of turning and of moving on: resistance by viscosity, by density, and the speeds."""
    by_turn, by_move = code.numbers("viscous")
    return [(by_turn, code.numbers("spin"), motion.angular), (by_move, code.numbers("faces"), motion.linear)]
