"""Joints as chains of elementary motions: constant poses, and turns, slides, screws and balls between them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kinema.description import AxisMotion, Joint, JointKind, TreeEdge
from kinema.foundation import Array, KinemaError, Pose, rotation_aligning
from kinema.model import Motion

Z = np.array([0.0, 0.0, 1.0])
NEGLIGIBLE = 1e-14
"""Sines and cosines of right angles come out this far from 0 and 1; exact ones fold away."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Elementary:
    """One elementary motion of a joint."""

    motion: Motion
    joint: Joint
    axis: Array
    pitch: float = 0.0
    reference: float = 0.0
    inverted: bool = False
    q: int = 0
    """Which of the joint's coordinates it starts at."""
    dof: int = 0


Chain = list["Pose | Elementary"]


def chain_of(edge: TreeEdge) -> Chain:
    """From the parent link to the child link."""
    chain: Chain = []
    for place, joint in enumerate(edge.joints):
        start = joint.parent_pose if place == 0 else joint.child_pose
        chain += [start, *elementary(joint), joint.child_pose.inverse()]
    return inverse(chain) if edge.reversed else chain


def elementary(joint: Joint) -> list[Elementary]:
    """The motions of a joint, in its own frame."""
    match joint.kind:
        case JointKind.FREE:
            slides = [Elementary(motion=Motion.SLIDE, joint=joint, axis=e, q=i, dof=i) for i, e in enumerate(np.eye(3))]
            return [*slides, Elementary(motion=Motion.BALL, joint=joint, axis=Z, q=3, dof=3)]
        case JointKind.SPHERICAL:
            if joint.n_dofs != 3:
                raise KinemaError(
                    f"{joint.origin}: spherical joint {joint.name!r} with locked axes cannot be simulated"
                )
            return [Elementary(motion=Motion.BALL, joint=joint, axis=Z)]
        case JointKind.SCREW:
            axis = joint.axes[0]
            pitch = joint.pitch / (2 * math.pi)
            screw = Elementary(
                motion=Motion.SCREW, joint=joint, axis=axis.direction, pitch=pitch, reference=axis.reference
            )
            return [] if axis.locked else [screw]
    kinds = {AxisMotion.ROTATION: Motion.HINGE, AxisMotion.TRANSLATION: Motion.SLIDE}
    return [
        Elementary(motion=kinds[axis.motion], joint=joint, axis=axis.direction, reference=axis.reference, q=i, dof=i)
        for i, axis in enumerate(joint.moving_axes)
    ]


def inverse(chain: Chain) -> Chain:
    """The way back: the same coordinates, seen from the other end."""
    return [step.inverse() if isinstance(step, Pose) else _inverted(step) for step in reversed(chain)]


def _inverted(step: Elementary) -> Elementary:
    return Elementary(
        motion=step.motion,
        joint=step.joint,
        axis=-step.axis,
        pitch=step.pitch,  # both the turn and the travel change sign with the axis
        reference=step.reference,
        inverted=not step.inverted if step.motion is Motion.BALL else False,
        q=step.q,
        dof=step.dof,
    )


@dataclass(frozen=True, slots=True, eq=False)
class Placed:
    """An elementary motion, and where it starts in the frame before it."""

    start: Pose
    step: Elementary


def placed(start: Pose, chain: Sequence[Pose | Elementary]) -> tuple[list[Placed], Pose]:
    """The motions of a chain that begins at a pose, and where the chain ends in the last frame.

    A frame is turned so that its axis is one of its own: turning about z is cheaper than about anything.
    """
    motions: list[Placed] = []
    pose = start
    for step in chain:
        if isinstance(step, Pose):
            pose = pose @ step
            continue
        align = _alignment(step)
        motions.append(Placed(tidy(pose @ Pose(rotation=align)), _along(step, align.T @ step.axis)))
        pose = Pose(rotation=align.T)
    return motions, tidy(pose)


def _alignment(step: Elementary) -> Array:
    """The rotation of a frame in which the axis is z, or none where it is an axis already."""
    if step.motion is Motion.BALL or np.max(np.abs(step.axis)) > 1.0 - NEGLIGIBLE:
        return np.eye(3)
    return rotation_aligning(step.axis)


def _along(step: Elementary, axis: Array) -> Elementary:
    exact = np.zeros(3)
    k = int(np.argmax(np.abs(axis)))
    exact[k] = math.copysign(1.0, axis[k])
    return Elementary(
        motion=step.motion,
        joint=step.joint,
        axis=exact,
        pitch=step.pitch,
        reference=step.reference,
        inverted=step.inverted,
        q=step.q,
        dof=step.dof,
    )


def tidy(pose: Pose) -> Pose:
    """The pose, with zeros and ones where its numbers are that but for rounding."""
    rotation, position = pose.rotation.copy(), pose.position.copy()
    rotation[np.abs(rotation) < NEGLIGIBLE] = 0.0
    ones = np.abs(np.abs(rotation) - 1.0) < NEGLIGIBLE
    rotation[ones] = np.sign(rotation[ones])
    position[np.abs(position) < NEGLIGIBLE] = 0.0
    return Pose(position, rotation)
