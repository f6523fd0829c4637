"""Joints as they are drawn: their axes, how far they may go, and where they are."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kinema.description import Axis, AxisMotion, Joint
from kinema.foundation import Array, Pose, rotation_aligning

from .exhibit import Exhibit
from .stage import Stage

_TURN, _SLIDE, _LIMIT, _NOW = (40, 90, 220), (230, 120, 30), (120, 160, 240), (20, 40, 110)


def joints(stage: Stage, exhibit: Exhibit) -> list[Any]:
    """An arrow for each axis; a sector or a rail for its limits; a hand that shows where the joint is."""
    handles: list[Any] = []
    for number, mechanism in enumerate(exhibit.mechanisms):
        for i, joint in enumerate(mechanism.robot.joints):
            if not joint.parent_pose.is_finite or not joint.child_pose.is_finite:
                continue
            parent, child = (exhibit.unique_link(number, end) for end in (joint.parent, joint.child))
            for j, axis in enumerate(joint.moving_axes if joint.n_dofs <= 3 else []):
                name = f"joint/{number}/{i}/{j}"
                handles += _axis(stage, f"{stage.under(exhibit, child)}/{name}", joint.child_pose, axis)
                if joint.n_dofs == 1 and parent is not None:
                    handles += _limits(stage, f"{stage.under(exhibit, parent)}/{name}/limits", joint, axis)
                    handles += _hand(stage, f"{stage.under(exhibit, child)}/{name}/hand", joint, axis)
    return handles


def _axis(stage: Stage, name: str, pose: Pose, axis: Axis) -> list[Any]:
    reach = 0.11 * stage.size * axis.direction
    ends = pose.apply(np.stack([-reach, reach]))
    return [
        stage.scene.add_arrows(
            name,
            ends[None],
            _TURN if axis.motion is AxisMotion.ROTATION else _SLIDE,
            shaft_radius=0.0025 * stage.size,
            head_radius=0.007 * stage.size,
            head_length=0.018 * stage.size,
        )
    ]


def _limits(stage: Stage, name: str, joint: Joint, axis: Axis) -> list[Any]:
    if not (math.isfinite(axis.lower) and math.isfinite(axis.upper) and axis.upper > axis.lower):
        return []
    if axis.motion is AxisMotion.TRANSLATION:
        ends = [joint.parent_pose.apply((x - axis.reference) * axis.direction) for x in (axis.lower, axis.upper)]
        rail = np.stack(ends)[None]
        return [
            stage.scene.add_line_segments(
                name, rail, np.array(_LIMIT, dtype=np.uint8), thickness=6.0, thickness_units="screen"
            )
        ]
    rim = _rim(axis, axis.lower - axis.reference, axis.upper - axis.reference, 0.085 * stage.size)
    vertices = joint.parent_pose.apply(np.concatenate([np.zeros((1, 3)), rim]))
    faces = [[0, k, k + 1] for k in range(1, len(rim))]
    return [
        stage.scene.add_mesh_simple(
            name, vertices, np.array(faces), color=_LIMIT, opacity=0.55, side="double", cast_shadow=False
        )
    ]


def _hand(stage: Stage, name: str, joint: Joint, axis: Axis) -> list[Any]:
    """On the child: it turns over the sector of the limits."""
    if axis.motion is AxisMotion.TRANSLATION:
        return []
    tip = _rim(axis, 0.0, 0.0, 0.095 * stage.size)[:1]
    ends = joint.child_pose.apply(np.concatenate([np.zeros((1, 3)), tip]))
    return [
        stage.scene.add_line_segments(
            name, ends[None], np.array(_NOW, dtype=np.uint8), thickness=3.0, thickness_units="screen"
        )
    ]


def _rim(axis: Axis, lower: float, upper: float, radius: float) -> Array:
    """Points on a circle about an axis; of more than a turn, one turn."""
    upper = min(upper, lower + 2 * math.pi)
    angles = np.linspace(lower, upper, max(2, round((upper - lower) / 0.1)))
    frame = rotation_aligning(axis.direction)
    return radius * (np.cos(angles)[:, None] * frame[:, 0] + np.sin(angles)[:, None] * frame[:, 1])
