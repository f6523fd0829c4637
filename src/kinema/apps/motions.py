"""What a robot does in a video: its links, picture by picture."""

from __future__ import annotations

import math

import numpy as np

from kinema.description import AxisMotion, Joint, Robot, World
from kinema.foundation import Array, KinemaError, Pose
from kinema.scene import Scene

SHARE = 0.45
"""How much of its range a joint goes through to each side."""
REACH = {AxisMotion.ROTATION: 0.6, AxisMotion.TRANSLATION: 0.1}
"""How far joints without limits go [rad, m]."""
_STEP = 0.002


def keyframe_coordinates(described: Robot | World, wanted: str) -> dict[str, Array]:
    """The coordinates of joints in a keyframe, by its name or number; none for no keyframe."""
    if not wanted:
        return {}
    frames = described.keyframes
    found = next((k for k in frames if k.name == wanted), None)
    if found is None and wanted.isdecimal() and int(wanted) < len(frames):
        found = frames[int(wanted)]
    if found is None:
        names = ", ".join(k.name or str(i) for i, k in enumerate(frames))
        raise KinemaError(f"there is no keyframe {wanted!r}; the file has: {names or 'none'}")
    return dict(found.positions)


def swept(described: Robot | World, start: dict[str, Array], count: int) -> list[dict[str, Pose]]:
    """All joints to and fro around where they are, within their limits; the last picture meets the first."""
    if isinstance(described, World):
        moving = [(name, joint) for name, _, joint in described.named_joints()]
    else:
        moving = [(joint.name, joint) for joint in described.joints]
    moving = [(name, joint) for name, joint in moving if joint.n_dofs == 1 and joint.n_qs == 1 and _leads(joint)]
    result = []
    for k in range(count):
        angle = 2.0 * math.pi * k / count
        now = dict(start)
        for i, (name, joint) in enumerate(moving):
            now[name] = np.array([_place(joint, start.get(name, joint.start), math.sin((1 + i % 2) * angle))])
        result.append(dict(described.link_poses(now)))
    return result


def _leads(joint: Joint) -> bool:
    return all(axis.mimic is None for axis in joint.moving_axes)


def _place(joint: Joint, start: Array, wave: float) -> float:
    axis = joint.moving_axes[0]
    low, high, middle = axis.lower, axis.upper, float(np.atleast_1d(start)[0])
    if low is None or high is None or not (math.isfinite(low) and math.isfinite(high)) or high <= low:
        return middle + REACH[axis.motion] * wave
    middle = min(max(middle, low), high)
    room = (high - middle) if wave > 0.0 else (middle - low)
    return middle + wave * min(room, SHARE * (high - low), 2.0 * REACH[axis.motion])


def simulated(described: Robot | World, keyframe: str, count: int, period: float) -> list[dict[str, Pose]]:
    """The robot from its start or a keyframe on, its joints told to stay; a picture every `period` seconds."""
    steps = max(1, round(period / _STEP))
    scene = Scene(dt=period / steps, quiet=True)
    entity = scene.add(described)
    scene.build(1)
    if keyframe:
        scene.reset(keyframe=int(keyframe) if keyframe.isdecimal() else keyframe)
    if entity.n_dofs and not keyframe:
        entity.control_dofs_position(entity.get_dofs_position())
    names = [link.name for link in entity.links]
    result = []
    for _ in range(count):
        positions, turns = entity.get_links_pos()[0], entity.get_links_quat()[0]
        result.append({n: Pose.from_quaternion(p, q) for n, p, q in zip(names, positions, turns, strict=True)})
        scene.step(steps)
    return result
