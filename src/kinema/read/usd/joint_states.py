"""Where a stage shows its joints: the coordinates that follow from where the bodies are posed.

`PhysicsJointStateAPI` says the same in numbers. Poses are what everybody sees, so they decide; the numbers say how many
whole turns a joint has made, and a stage in which the two disagree is diagnosed.
"""

from __future__ import annotations

import math

import numpy as np

from kinema.description import Axis, AxisMotion, Joint, JointKind
from kinema.foundation import Array, Pose, matrix_to_quaternion
from kinema.words import ours, physics

from . import pxr
from .own_settings import own
from .stage_index import StageIndex
from .units import DEGREE

_TURN = 2 * math.pi
_ROUNDING = 1e-12
_APART = 1e-3
"""How far [rad, m] what a stage says and what it shows may be from each other."""


def settle(index: StageIndex, prim: pxr.Prim, joint: Joint, gap: Pose) -> None:
    """Find the coordinates at which the stage shows the joint; say how far its sides are apart beyond them."""
    state, metres, radians = _explain(joint, gap)
    joint.state = None if state is None else _counted(index, prim, joint, state)
    if metres > 1e-5 or radians > 1e-4:
        index.diagnostics.warning(
            "usd.joint-frames-apart",
            f"the two frames of joint {joint.name!r} are {metres:.3g} m and {math.degrees(radians):.3g} degrees apart",
            hint="make localPos/localRot of both sides agree with where the bodies are",
            origin=joint.origin,
        )


# -- what is said -----------------------------------------------------------------------------------------------------


def _counted(index: StageIndex, prim: pxr.Prim, joint: Joint, state: Array) -> Array:
    """The coordinates that are shown, with as many whole turns as the stage says, or else as the limits need."""
    if joint.kind is JointKind.SPHERICAL:
        return state
    said = _said(index, prim, joint)
    result = np.array([0.0 if abs(value) < _ROUNDING else value for value in state])
    for i, (axis, value) in enumerate(zip(joint.moving_axes, result, strict=True)):
        if axis.motion is AxisMotion.ROTATION:
            result[i] = _with_turns(axis, float(value), said.get(i))
        if i in said and not abs(result[i] - said[i]) <= _APART:
            index.diagnostics.warning(
                "usd.joint-state",
                f"PhysicsJointStateAPI puts joint {joint.name!r} at {said[i]:.4g}, but the bodies are posed at "
                f"{result[i]:.4g} (rad or m), which is taken",
                hint="pose the bodies where the joints are",
                origin=joint.origin,
            )
    return result


def _said(index: StageIndex, prim: pxr.Prim, joint: Joint) -> dict[int, float]:
    """Coordinates that the stage states in numbers, by the number of the moving axis."""
    kept = own(index, prim, ours.STATE)
    if kept is not None and len(kept) == joint.n_dofs:
        return {i: float(value) for i, value in enumerate(kept)}
    result: dict[int, float] = {}
    for i, axis in enumerate(joint.moving_axes):
        turns = axis.motion is AxisMotion.ROTATION
        for token in _tokens(joint, axis):
            value = index.authored(prim, physics.state(token, physics.STATE_POSITION))
            if value is not None and math.isfinite(value):
                result[i] = float(value) * (DEGREE if turns else index.units.length)
            speed = index.authored(prim, physics.state(token, physics.STATE_VELOCITY))
            if speed:
                message = f"joint {joint.name!r} moves at the start, says PhysicsJointStateAPI; that is only kept"
                index.diagnostics.note("usd.joint-velocity", message, origin=joint.origin)
    return result


def _tokens(joint: Joint, axis: Axis) -> list[str]:
    """What the state of an axis may be called."""
    turns = axis.motion is AxisMotion.ROTATION
    if len(joint.axes) == 1:
        return [physics.ANGULAR if turns else physics.LINEAR]
    place = int(np.argmax(np.abs(axis.direction)))
    return [physics.SIX[place + (3 if turns else 0)]]


def _with_turns(axis: Axis, value: float, said: float | None) -> float:
    """An angle that is known up to whole turns."""
    if said is not None:
        return value + _TURN * round((said - value) / _TURN)
    if axis.lower - 1e-6 <= value <= axis.upper + 1e-6 or not axis.lower <= axis.upper:
        return value
    nearest = axis.lower if value < axis.lower else axis.upper
    turned = value + _TURN * (math.ceil if value < axis.lower else math.floor)((nearest - value) / _TURN)
    return turned if axis.lower <= turned <= axis.upper else value


# -- what is shown ----------------------------------------------------------------------------------------------------


def _explain(joint: Joint, gap: Pose) -> tuple[Array | None, float, float]:
    """The joint's coordinates that explain the gap best, and what is left of it: metres and radians."""
    if joint.kind is JointKind.DISTANCE:
        return None, 0.0, 0.0
    if joint.kind is JointKind.SPHERICAL:
        return gap.quaternion, float(np.linalg.norm(gap.position)), 0.0
    left_position, left_rotation = gap.position.copy(), gap.rotation
    state: list[float] = []
    turns = [a for a in joint.moving_axes if a.motion is AxisMotion.ROTATION]
    for axis in joint.moving_axes:
        if axis.motion is AxisMotion.TRANSLATION:
            value = float(axis.direction @ left_position)
            left_position -= value * axis.direction
            state.append(value + axis.reference)
    if len(turns) == 3:
        state += [a.reference + value for a, value in zip(turns, _xyz_angles(left_rotation), strict=True)]
        angle = 0.0
    else:
        q = matrix_to_quaternion(left_rotation).tolist()
        for axis in turns:
            value, q = _untwist(q, axis.direction.tolist())
            state.append(value + axis.reference)
        angle = 2 * math.atan2(math.hypot(*q[1:]), abs(q[0]))
    if joint.kind is JointKind.CYLINDRICAL:
        state.reverse()  # it turns first, then slides
    return (np.array(state) if state else None), math.sqrt(float(left_position @ left_position)), angle


def _untwist(q: list[float], axis: list[float]) -> tuple[float, list[float]]:
    """The angle about an axis that takes most of a rotation away, and the quaternion that is left after it."""
    w, x, y, z = q
    a, b, d = axis
    along = a * x + b * y + d * z
    half = math.atan2(along, w)
    c, s = math.cos(half), math.sin(half)
    # the inverse twist (c, -s axis) times q
    left = [
        c * w + s * along,
        c * x - s * (a * w + b * z - d * y),
        c * y - s * (b * w + d * x - a * z),
        c * z - s * (d * w + a * y - b * x),
    ]
    return 2 * half, left


def _xyz_angles(r: Array) -> tuple[float, float, float]:
    """Angles of R = Rx Ry Rz."""
    return (math.atan2(-r[1, 2], r[2, 2]), math.asin(max(-1.0, min(1.0, r[0, 2]))), math.atan2(-r[0, 1], r[0, 0]))
