"""Link poses for each frame of a robot video, from a joint-range sweep or a position-controlled simulation."""

from __future__ import annotations

import math

import numpy as np

from kinema.core import Array, KinemaError, Pose
from kinema.description import AxisMotion, Joint, Robot, World
from kinema.scene import Scene

JOINT_RANGE_FRACTION = 0.45
"""Sweep amplitude as a fraction of the joint range."""
UNLIMITED_JOINT_AMPLITUDE = {AxisMotion.ROTATION: 0.6, AxisMotion.TRANSLATION: 0.1}
"""Sweep amplitude of joints without limits [rad, m]."""
_MAX_TIME_STEP = 0.002


def keyframe_coordinates(description: Robot | World, name_or_index: str) -> dict[str, Array]:
    """Joint coordinates of a keyframe, given by name or index, by joint name; empty for an empty argument."""
    if not name_or_index:
        return {}
    frames = description.keyframes
    keyframe = next((k for k in frames if k.name == name_or_index), None)
    if keyframe is None and name_or_index.isdecimal() and int(name_or_index) < len(frames):
        keyframe = frames[int(name_or_index)]
    if keyframe is None:
        names = ", ".join(k.name or str(i) for i, k in enumerate(frames))
        raise KinemaError(f"there is no keyframe {name_or_index!r}; the file has: {names or 'none'}")
    return dict(keyframe.positions)


def sweep_link_poses(
    description: Robot | World, initial_coordinates: dict[str, Array], n_frames: int
) -> list[dict[str, Pose]]:
    """Link poses while all independent 1-dof joints oscillate about their initial position within their limits.

    The motion is periodic: the frame after the last equals the first.
    """
    if isinstance(description, World):
        moving = [(name, joint) for name, _, joint in description.named_joints()]
    else:
        moving = [(joint.name, joint) for joint in description.joints]
    moving = [
        (name, joint) for name, joint in moving if joint.n_dofs == 1 and joint.n_qs == 1 and _is_independent(joint)
    ]
    result = []
    for k in range(n_frames):
        angle = 2.0 * math.pi * k / n_frames
        coordinates = dict(initial_coordinates)
        for i, (name, joint) in enumerate(moving):
            coordinates[name] = np.array(
                [_swept_position(joint, initial_coordinates.get(name, joint.start), math.sin((1 + i % 2) * angle))]
            )
        result.append(dict(description.link_poses(coordinates)))
    return result


def _is_independent(joint: Joint) -> bool:
    return all(axis.mimic is None for axis in joint.moving_axes)


def _swept_position(joint: Joint, start: Array, phase_value: float) -> float:
    """Joint position at the value of a sine in [-1, 1], clamped to the joint limits."""
    axis = joint.moving_axes[0]
    low, high, middle = axis.lower, axis.upper, float(np.atleast_1d(start)[0])
    if low is None or high is None or not (math.isfinite(low) and math.isfinite(high)) or high <= low:
        return middle + UNLIMITED_JOINT_AMPLITUDE[axis.motion] * phase_value
    middle = min(max(middle, low), high)
    room = (high - middle) if phase_value > 0.0 else (middle - low)
    return middle + phase_value * min(
        room, JOINT_RANGE_FRACTION * (high - low), 2.0 * UNLIMITED_JOINT_AMPLITUDE[axis.motion]
    )


def simulate_link_poses(
    description: Robot | World, keyframe: str, n_frames: int, frame_period: float
) -> list[dict[str, Pose]]:
    """Link poses of a simulation from the initial state or a keyframe, one per `frame_period` [s].

    Without a keyframe, position control holds the initial joint positions.
    """
    steps = max(1, round(frame_period / _MAX_TIME_STEP))
    scene = Scene(dt=frame_period / steps, quiet=True)
    entity = scene.add(description, errors="keep")
    scene.build(1)
    if keyframe:
        scene.reset(keyframe=int(keyframe) if keyframe.isdecimal() else keyframe)
    if entity.n_dofs and not keyframe:
        entity.control_dofs_position(entity.get_dofs_position())
    names = [link.name for link in entity.links]
    result = []
    for _ in range(n_frames):
        positions, turns = entity.get_links_pos()[0], entity.get_links_quat()[0]
        result.append({n: Pose.from_quaternion(p, q) for n, p, q in zip(names, positions, turns, strict=True)})
        scene.step(steps)
    return result
