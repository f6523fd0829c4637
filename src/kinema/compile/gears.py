"""Gears: how far a link turns about an axis against another one, as a sum of the hinges between the two."""

from __future__ import annotations

import numpy as np

from kinema.foundation import Array
from kinema.model import Motion

from .draft import Body, Draft

PARALLEL = 1e-9


def gear_moment(draft: Draft, link: Body | None, reference: Body | None, axis: Array) -> Array | None:
    """How the turn changes with each coordinate; None where anything else moves the two against each other.

    Angles themselves would lose count of turns, of which a gear's ratio makes parts.
    """
    own, other = (_way(draft, -1 if body is None else body.frame) for body in (link, reference))
    shared = set(own) & set(other)
    moment = np.zeros(draft.n_dofs)
    direction = np.asarray(axis, np.float64) if link is None else link.place.rotation @ axis
    for frame in (f for f in own if f not in shared):
        if not _turn(draft, frame, direction, 1.0, moment):
            return None
        direction = draft.frames[frame][1].start.rotation @ direction
    for frame in (f for f in reversed(other) if f not in shared):
        direction = draft.frames[frame][1].start.rotation.T @ direction
        if not _turn(draft, frame, direction, -1.0, moment):
            return None
    return moment


def _way(draft: Draft, frame: int) -> list[int]:
    """The frame, and those that move it."""
    way = []
    while frame != -1:
        way.append(frame)
        frame = draft.frames[frame][0]
    return way


def _turn(draft: Draft, frame: int, direction: Array, sign: float, moment: Array) -> bool:
    """Add a hinge about that direction; whether it is one."""
    _, placed, joint = draft.frames[frame]
    along = float(placed.step.axis @ direction)
    if placed.step.motion is not Motion.HINGE or abs(abs(along) - np.linalg.norm(direction)) > PARALLEL:
        return False
    moment[draft.joints[joint].dof_start + placed.step.dof] += sign * np.sign(along)
    return True
