"""How a wrench on a body changes with the body's motion: what a step has to know to be implicit in it."""

from __future__ import annotations

from dataclasses import dataclass

from ..rigid.aba import Articulated, half
from ..rigid.kinematics import Twist
from ..rigid.rnea import Wrench
from ..sweeps.maths import Matrix, Vector, add, matrix_scale, matrix_sum, product, rotate, skew, transpose


@dataclass(frozen=True, slots=True)
class Slopes:
    """Four matrices: what turning and what moving on does to torque and to force."""

    torque_by_turn: Matrix
    torque_by_move: Matrix
    force_by_turn: Matrix
    force_by_move: Matrix


NOTHING: Matrix = ((0.0,) * 3,) * 3
NO_SLOPES = Slopes(NOTHING, NOTHING, NOTHING, NOTHING)


def moved(slopes: Slopes, rotation: Matrix, position: Vector) -> Slopes:
    """Slopes that are given in a body's axes at a point, in the frame where that has a rotation and a position."""
    arm, back = skew(position), transpose(rotation)
    tt, tm, ft, fm = (
        product(product(rotation, x), back)
        for x in (slopes.torque_by_turn, slopes.torque_by_move, slopes.force_by_turn, slopes.force_by_move)
    )
    pull = _minus(ft, product(fm, arm))  # a turn of the frame moves the point by turn x position
    return Slopes(
        matrix_sum(_minus(tt, product(tm, arm)), product(arm, pull)),
        matrix_sum(tm, product(arm, fm)),
        pull,
        fm,
    )


def symmetric(slopes: Slopes) -> Articulated:
    """The symmetric part, as if it were an inertia."""
    across = matrix_scale(0.5, matrix_sum(slopes.torque_by_move, transpose(slopes.force_by_turn)))
    return Articulated(half(_even(slopes.torque_by_turn)), across, half(_even(slopes.force_by_move)))


def odd(slopes: Slopes) -> Slopes:
    """The rest."""
    across = matrix_scale(0.5, _minus(slopes.torque_by_move, transpose(slopes.force_by_turn)))
    return Slopes(
        matrix_scale(0.5, _minus(slopes.torque_by_turn, transpose(slopes.torque_by_turn))),
        across,
        matrix_scale(-1.0, transpose(across)),
        matrix_scale(0.5, _minus(slopes.force_by_move, transpose(slopes.force_by_move))),
    )


def response(slopes: Slopes, motion: Twist) -> Wrench:
    """What a change of the motion changes."""
    return Wrench(
        add(rotate(slopes.torque_by_turn, motion.angular), rotate(slopes.torque_by_move, motion.linear)),
        add(rotate(slopes.force_by_turn, motion.angular), rotate(slopes.force_by_move, motion.linear)),
    )


def _even(a: Matrix) -> Matrix:
    return matrix_scale(0.5, matrix_sum(a, transpose(a)))


def _minus(a: Matrix, b: Matrix) -> Matrix:
    return matrix_sum(a, matrix_scale(-1.0, b))
