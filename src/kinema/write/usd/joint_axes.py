"""Mapping of joint axes to the USD axis tokens X, Y and Z by a rotation of the joint frame.

The frame is rotated by the same rotation on both sides of the joint, which leaves the joint's motion unchanged.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np

from kinema.core import Array, axis_angle_to_matrix, rotation_aligning_z
from kinema.description import Axis, AxisMotion, Joint, JointKind
from kinema.tokens import usd_physics

_DIRECTION_TOLERANCE = 1e-12
"""Sine of the angle up to which two directions are equal."""


class UsdAxisMapping(NamedTuple):
    """Mapping of joint axes to USD axes."""

    frame_rotation: Array
    """Rotation matrix (3, 3) from the USD joint frame to the description's joint frame."""
    slots: tuple[int, ...]
    """USD axis index (0, 1, 2 for x, y, z) of each axis."""
    is_exact: bool = True
    """False if no rotation fits and the axes are approximated."""

    def token(self, axis_index: int, axis: Axis) -> str:
        """USD token of an axis: `rotX`, `transZ`, ..."""
        return usd_physics.DOF_TOKENS[self.slots[axis_index] + (3 if axis.motion is AxisMotion.ROTATION else 0)]


def map_axes_to_usd(joint: Joint) -> UsdAxisMapping:
    """Rotation of the joint frame that aligns all axes with x, y and z in USD's order, else an approximation."""
    if joint.kind in (JointKind.SPHERICAL, JointKind.FREE) or not joint.axes:
        return UsdAxisMapping(np.eye(3), (0, 1, 2))
    if len(joint.axes) == 1:
        return _map_single_axis(joint.axes[0].direction)
    frames = [np.eye(3), *_candidate_frames(joint.axes)]
    for frame in frames:
        slots = _match_axes(joint.axes, frame)
        if slots is not None:
            return UsdAxisMapping(frame, slots)
    return _approximate_mapping(joint.axes)


def _map_single_axis(direction: Array) -> UsdAxisMapping:
    """Smallest rotation that aligns a direction with its nearest coordinate axis."""
    slot = int(np.argmax(np.abs(direction)))
    if not direction.any() or not np.isfinite(direction).all():
        return UsdAxisMapping(np.eye(3), (0,), is_exact=False)
    exact = np.eye(3)[slot]
    if np.linalg.norm(direction - exact) <= _DIRECTION_TOLERANCE:
        return UsdAxisMapping(np.eye(3), (slot,))
    # an axis against x, y or z: turn around first, so that the rest is small
    frame = np.eye(3) if direction[slot] > 0 else axis_angle_to_matrix(np.eye(3)[(slot + 1) % 3], np.pi).round()
    start = frame[:, slot]
    cross = np.cross(start, direction)
    sine = float(np.linalg.norm(cross))
    if sine > _DIRECTION_TOLERANCE:
        frame = axis_angle_to_matrix(cross / sine, float(np.arctan2(sine, start @ direction))) @ frame
    return UsdAxisMapping(frame, (slot,))


def _candidate_frames(axes: list[Axis]) -> list[Array]:
    """Right-handed frames along the axis directions, in all permutations and signs."""
    base = _base_frame([a.direction for a in axes if not a.locked] or [np.eye(3)[0]])
    return [] if base is None else [base @ turn for turn in _cube_rotations()]


def _base_frame(directions: list[Array]) -> Array | None:
    """Frame spanned by the first two distinct directions; None unless they are orthonormal."""
    first = directions[0]
    second = next((d for d in directions[1:] if np.linalg.norm(np.cross(first, d)) > _DIRECTION_TOLERANCE), None)
    if abs(float(np.linalg.norm(first)) - 1) > _DIRECTION_TOLERANCE:
        return None
    if second is None:
        return rotation_aligning_z(first)
    if abs(float(first @ second)) > _DIRECTION_TOLERANCE:
        return None
    return np.column_stack([first, second, np.cross(first, second)])


def _cube_rotations() -> list[Array]:
    """The 24 rotations of a cube, identity first."""
    turns = []
    for order in itertools.permutations(range(3)):
        for signs in itertools.product((1.0, -1.0), repeat=3):
            matrix = np.zeros((3, 3))
            for column, (row, sign) in enumerate(zip(order, signs, strict=True)):
                matrix[row, column] = sign
            if np.linalg.det(matrix) > 0:
                turns.append(matrix)
    return turns


def _match_axes(axes: list[Axis], frame: Array) -> tuple[int, ...] | None:
    """USD axis index of each axis in a frame; None if axes are not aligned or not in USD's order."""
    slots: dict[int, int] = {}
    moving = [(i, a) for i, a in enumerate(axes) if not a.locked]
    for i, axis in moving:
        along = frame.T @ axis.direction
        slot = int(np.argmax(along))
        if np.linalg.norm(along - np.eye(3)[slot]) > _DIRECTION_TOLERANCE:
            return None
        slots[i] = slot
    if not _is_usd_order([(a, slots[i]) for i, a in moving]):
        return None
    for i, axis in enumerate(axes):
        if axis.locked:  # it makes no motion, so that any place left over will do; its own where that is free
            used = {slots[k] for k in slots if axes[k].motion is axis.motion}
            left = [s for s in range(3) if s not in used]
            if not left:
                return None
            slots[i] = max(left, key=lambda s: float(frame[:, s] @ axis.direction))
    return tuple(slots[i] for i in range(len(axes)))


def _is_usd_order(axes_with_slots: list[tuple[Axis, int]]) -> bool:
    """Whether the axes compose as in USD: translations, then rotations about x, y, z."""
    if len({(a.motion, s) for a, s in axes_with_slots}) < len(axes_with_slots):
        return False
    turns = [s for a, s in axes_with_slots if a.motion is AxisMotion.ROTATION]
    if turns != sorted(turns):
        return False
    for i, (axis, slot) in enumerate(axes_with_slots):
        if axis.motion is AxisMotion.TRANSLATION:
            before = [s for a, s in axes_with_slots[:i] if a.motion is AxisMotion.ROTATION]
            if any(s != slot for s in before):  # a turn about the line of travel itself makes no difference
                return False
    return True


def _approximate_mapping(axes: list[Axis]) -> UsdAxisMapping:
    """Approximate mapping: the frame is built from the rotation axes, and remaining axes take the free slots."""
    turns = [a.direction for a in axes if a.motion is AxisMotion.ROTATION] or [a.direction for a in axes]
    x = turns[0] / (np.linalg.norm(turns[0]) or 1.0)
    rest = next((d - x * (x @ d) for d in turns[1:] if np.linalg.norm(np.cross(x, d)) > 1e-6), None)
    if rest is None or not np.isfinite(x).all() or not x.any():
        frame = rotation_aligning_z(x) if x.any() and np.isfinite(x).all() else np.eye(3)
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
    return UsdAxisMapping(frame, tuple(slots), is_exact=False)
