"""What a joint, or a pile of joints, is in SDFormat's terms: constant pose, simple motion, constant pose, ..."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from kinema.description import Axis, AxisMotion, Joint, JointKind
from kinema.foundation import Pose
from kinema.words import sdf

from ..chains import Motion, chained, inverted, suffixes


@dataclass(frozen=True, slots=True, eq=False)
class Piece(Motion):
    """What one joint of SDFormat can say of a joint's motion."""

    kind: JointKind
    axes: list[Axis]
    coordinates: tuple[int, ...]
    """Which of the joint's coordinates its axes are; empty for a ball."""
    suffix: str = ""

    def reversed(self) -> Piece:
        """The inverse motion at the same coordinates; but a ball has the inverse ones."""
        axes = [copy.copy(axis) for axis in reversed(self.axes)]
        for axis in axes:
            axis.direction = -axis.direction
        if self.kind is JointKind.SPHERICAL:
            axes = self.axes
        return replace(self, axes=axes, coordinates=self.coordinates[::-1])


@dataclass(frozen=True, slots=True, eq=False)
class Chain:
    """From a parent to its child."""

    pieces: list[Piece]
    tail: Pose
    """The last motion's frame in the child."""


def chain_of(joints: Sequence[Joint]) -> Chain:
    """The motions of a joint, or of the stacked joints between two links, one after the other."""
    pieces, _ = chained(joints, pieces_of)
    return Chain(pieces, _tail(joints))


def _tail(joints: Sequence[Joint]) -> Pose:
    """The child's pose in the frame of the last joint that moves, inverted; exact where that is the last joint."""
    moving = [i for i, j in enumerate(joints) if pieces_of(j)]
    # those that move nothing add c @ c^-1, which is nothing
    return joints[moving[-1] if moving else 0].child_pose


def inverse_of(chain: Chain) -> Chain:
    """The same motions seen from the child."""
    return Chain(*inverted(chain.pieces, chain.tail, Piece.reversed))


def pieces_of(joint: Joint) -> list[Piece]:
    """The joints of SDFormat whose motions, one after the other, are the joint's."""
    moving = joint.moving_axes
    if joint.kind is JointKind.SPHERICAL:
        return [Piece(joint, JointKind.SPHERICAL, joint.axes, ())]
    usable = [(i, a) for i, a in enumerate(moving) if a.direction.any()]
    if joint.kind is JointKind.UNIVERSAL and len(usable) == 2:
        first, second = (a.direction for _, a in usable)
        is_own = joint.attributes.get(sdf.key(sdf.TYPE)) in ("universal", "revolute2")
        if is_own or abs(float(first @ second)) < 1e-12:  # programs take it to be square
            return [Piece(joint, JointKind.UNIVERSAL, moving, (0, 1))]
    if joint.kind is JointKind.SCREW and usable and joint.pitch:
        return [Piece(joint, JointKind.SCREW, [usable[0][1]], (0,))]
    return [
        Piece(joint, _simple_kind(joint, axis), [axis], (number,), suffix)
        for (number, axis), suffix in zip(usable, suffixes([a for _, a in usable]), strict=True)
    ]


def _simple_kind(joint: Joint, axis: Axis) -> JointKind:
    if axis.motion is AxisMotion.TRANSLATION:
        return JointKind.PRISMATIC
    is_bounded = bool(np.isfinite([axis.lower, axis.upper]).any())
    return JointKind.CONTINUOUS if joint.kind is JointKind.CONTINUOUS and not is_bounded else JointKind.REVOLUTE


def coordinate_between(axis: Axis, motion: Pose) -> float:
    """The value of a coordinate that comes nearest to a motion."""
    if axis.motion is AxisMotion.TRANSLATION:
        return float(axis.direction @ motion.position)
    r, d = motion.rotation, axis.direction
    sine = 0.5 * float(d @ np.array([r[2, 1] - r[1, 2], r[0, 2] - r[2, 0], r[1, 0] - r[0, 1]]))
    return float(np.arctan2(sine, 0.5 * (float(np.trace(r)) - 1.0)))
