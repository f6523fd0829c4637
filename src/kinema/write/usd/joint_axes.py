"""Joint axes as USD has them: along x, y, z of the joint's frame, translations before rotations.

A joint whose axes point elsewhere has its frame turned, on both sides alike, which changes nothing of its motion.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np

from kinema.description import Axis, AxisMotion, Joint, JointKind
from kinema.foundation import Array, axis_angle_to_matrix, rotation_aligning
from kinema.words import physics

_SAME = 1e-12
"""Sine of the angle below which two directions are the same."""


class UsdAxes(NamedTuple):
    """How the axes of a joint map to those of USD."""

    turn: Array
    """Rotation from USD's joint frame into the description's."""
    slots: tuple[int, ...]
    """For each axis of the joint which of USD's x, y, z it is."""
    is_exact: bool = True
    """False where no turn fits and the axes are only the nearest ones."""

    def token(self, number: int, axis: Axis) -> str:
        """USD's name for an axis of the joint: `rotX`, `transZ`, ..."""
        return physics.SIX[self.slots[number] + (3 if axis.motion is AxisMotion.ROTATION else 0)]


def usd_axes(joint: Joint) -> UsdAxes:
    """The turn that puts a joint's axes along x, y and z."""
    if joint.kind in (JointKind.SPHERICAL, JointKind.FREE) or not joint.axes:
        return UsdAxes(np.eye(3), (0, 1, 2))
    if len(joint.axes) == 1:
        return _one_axis(joint.axes[0].direction)
    frames = [np.eye(3), *_candidates(joint.axes)]
    for frame in frames:
        slots = _fits(joint.axes, frame)
        if slots is not None:
            return UsdAxes(frame, slots)
    return _nearest(joint.axes)


def _one_axis(direction: Array) -> UsdAxes:
    """The smallest turn that puts a direction along the axis it is closest to."""
    slot = int(np.argmax(np.abs(direction)))
    if not direction.any() or not np.isfinite(direction).all():
        return UsdAxes(np.eye(3), (0,), is_exact=False)
    exact = np.eye(3)[slot]
    if np.linalg.norm(direction - exact) <= _SAME:
        return UsdAxes(np.eye(3), (slot,))
    # an axis against x, y or z: turn around first, so that the rest is small
    frame = np.eye(3) if direction[slot] > 0 else axis_angle_to_matrix(np.eye(3)[(slot + 1) % 3], np.pi).round()
    start = frame[:, slot]
    cross = np.cross(start, direction)
    sine = float(np.linalg.norm(cross))
    if sine > _SAME:
        frame = axis_angle_to_matrix(cross / sine, float(np.arctan2(sine, start @ direction))) @ frame
    return UsdAxes(frame, (slot,))


def _candidates(axes: list[Axis]) -> list[Array]:
    """Right-handed frames along the directions of the axes, in all their orders and signs."""
    base = _base_frame([a.direction for a in axes if not a.locked] or [np.eye(3)[0]])
    return [] if base is None else [base @ turn for turn in _cube_turns()]


def _base_frame(directions: list[Array]) -> Array | None:
    """A frame along the first two directions that differ; None where they are not square to each other."""
    first = directions[0]
    second = next((d for d in directions[1:] if np.linalg.norm(np.cross(first, d)) > _SAME), None)
    if abs(float(np.linalg.norm(first)) - 1) > _SAME:
        return None
    if second is None:
        return rotation_aligning(first)
    if abs(float(first @ second)) > _SAME:
        return None
    return np.column_stack([first, second, np.cross(first, second)])


def _cube_turns() -> list[Array]:
    """The 24 rotations of a cube, the identity first."""
    turns = []
    for order in itertools.permutations(range(3)):
        for signs in itertools.product((1.0, -1.0), repeat=3):
            matrix = np.zeros((3, 3))
            for column, (row, sign) in enumerate(zip(order, signs, strict=True)):
                matrix[row, column] = sign
            if np.linalg.det(matrix) > 0:
                turns.append(matrix)
    return turns


def _fits(axes: list[Axis], frame: Array) -> tuple[int, ...] | None:
    """Which of the frame's axes each axis is, where they stand in USD's order; None where they do not."""
    slots: dict[int, int] = {}
    moving = [(i, a) for i, a in enumerate(axes) if not a.locked]
    for i, axis in moving:
        along = frame.T @ axis.direction
        slot = int(np.argmax(along))
        if np.linalg.norm(along - np.eye(3)[slot]) > _SAME:
            return None
        slots[i] = slot
    if not _in_order([(a, slots[i]) for i, a in moving]):
        return None
    for i, axis in enumerate(axes):
        if axis.locked:  # it makes no motion, so that any place left over will do; its own where that is free
            used = {slots[k] for k in slots if axes[k].motion is axis.motion}
            left = [s for s in range(3) if s not in used]
            if not left:
                return None
            slots[i] = max(left, key=lambda s: float(frame[:, s] @ axis.direction))
    return tuple(slots[i] for i in range(len(axes)))


def _in_order(named: list[tuple[Axis, int]]) -> bool:
    """Whether the motions, one after the other, are those of USD: translations, then turns about x, y, z."""
    if len({(a.motion, s) for a, s in named}) < len(named):
        return False
    turns = [s for a, s in named if a.motion is AxisMotion.ROTATION]
    if turns != sorted(turns):
        return False
    for i, (axis, slot) in enumerate(named):
        if axis.motion is AxisMotion.TRANSLATION:
            before = [s for a, s in named[:i] if a.motion is AxisMotion.ROTATION]
            if any(s != slot for s in before):  # a turn about the line of travel itself makes no difference
                return False
    return True


def _nearest(axes: list[Axis]) -> UsdAxes:
    """The frame that is least wrong: first axes exact, the others on what is left, in order."""
    turns = [a.direction for a in axes if a.motion is AxisMotion.ROTATION] or [a.direction for a in axes]
    x = turns[0] / (np.linalg.norm(turns[0]) or 1.0)
    rest = next((d - x * (x @ d) for d in turns[1:] if np.linalg.norm(np.cross(x, d)) > 1e-6), None)
    if rest is None or not np.isfinite(x).all() or not x.any():
        frame = rotation_aligning(x) if x.any() and np.isfinite(x).all() else np.eye(3)
        frame = frame[:, [2, 0, 1]]
    else:
        y = rest / np.linalg.norm(rest)
        frame = np.column_stack([x, y, np.cross(x, y)])
    free = {AxisMotion.ROTATION: [0, 1, 2], AxisMotion.TRANSLATION: [0, 1, 2]}
    slots: list[int] = []
    for axis in axes:
        left = free[axis.motion]
        slot = max(left, key=lambda s: abs(float(frame[:, s] @ axis.direction))) if left else 0
        if axis.motion is AxisMotion.ROTATION and left:
            slot = left[0]  # turns come in the order x, y, z
        slots.append(slot)
        if slot in left:
            left.remove(slot)
    return UsdAxes(frame, tuple(slots), is_exact=False)
