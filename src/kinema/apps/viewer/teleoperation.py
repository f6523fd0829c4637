"""Velocity commands by keyboard, gamepad or the pad of the page, and their application to wheels.

Browsers report the deflection of keys and sticks at 20 Hz (`page.js`); a command ends when reports stop.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from urllib.parse import parse_qs

import numpy as np

from kinema.core import Array, Pose
from kinema.description import AxisMotion, Joint, Link

from .displayed_model import DisplayedModel
from .gltf_meshes import shape_triangles
from .simulation import ControlInputs

# ----------------------------------------------------------------------------------------------------- velocity command

DRIVE_PATH = "/kinema/drive"
"""Path of the reports of browsers: `?command=forward,lateral,vertical,yaw`, each from -1 to 1."""
DRIVE_INTERVAL = 0.05
"""Time between the reports of a browser [s]."""
_REPORT_LIFETIME = 0.4
"""Time after which a report expires [s]: the page was closed."""


class VelocityCommand:
    """Velocity commanded by keyboard, gamepad or pad: forward, lateral, vertical [m/s] and yaw rate [rad/s]."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.max_speed = 0.5
        """Speed at full deflection [m/s]."""
        self.max_yaw_rate = 1.0
        """Yaw rate at full deflection [rad/s]."""
        self._clock = clock
        self._deflection = np.zeros(4)
        self._reported_at = -math.inf

    def handle_report(self, query: str) -> None:
        """Process the report of a browser, `command=1,0,0,-0.5`; invalid reports are ignored."""
        try:
            values = [float(x) for x in parse_qs(query).get("command", [""])[0].split(",")]
        except ValueError:
            return
        if len(values) == 4 and all(map(math.isfinite, values)):
            self._deflection, self._reported_at = np.clip(values, -1.0, 1.0), self._clock()

    @property
    def value(self) -> Array:
        """Commanded velocity, (4,): forward, lateral (left), vertical [m/s], yaw rate [rad/s]; zero without reports."""
        if self._clock() - self._reported_at > _REPORT_LIFETIME:
            return np.zeros(4)
        return self._deflection * (self.max_speed, self.max_speed, self.max_speed, self.max_yaw_rate)


# --------------------------------------------------------------------------------------------------------------- wheels

_MAX_AXLE_SLOPE = 0.2
"""Sine of the angle between an axle and the ground, at most."""
_MAX_GROUND_GAP = 0.2
"""Distance of a wheel to the lowest point of the robot, in radii of the wheel, at most."""


@dataclass(frozen=True, slots=True, eq=False)
class Wheel:
    """Wheel of a model, in the frame of the model's base: x forwards, z upwards."""

    joint: str
    """Name of the joint that turns the wheel."""
    center: Array
    """[m]"""
    direction: Array
    """Horizontal direction in which the wheel rolls at positive speed, while the steering angle is zero."""
    radius: float
    """[m]"""
    steering_joint: str = ""
    """Name of the joint that steers the wheel; empty without."""
    steering_sign: float = 1.0
    """Sign of the rotation about the vertical at positive steering coordinate."""
    steering_range: tuple[float, float] = (0.0, 0.0)
    """[rad]"""

    def targets(self, command: Array) -> tuple[float, float]:
        """Wheel speed and steering angle [rad/s, rad] for a velocity command of the base (`VelocityCommand.value`)."""
        yaw_rate = command[3]
        velocity = np.array([command[0] - yaw_rate * self.center[1], command[1] + yaw_rate * self.center[0], 0.0])
        if not self.steering_joint or not velocity.any():
            return float(velocity @ self.direction) / self.radius, 0.0
        left = np.array([-self.direction[1], self.direction[0], 0.0])
        angle = math.atan2(velocity @ left, velocity @ self.direction)
        reverse = abs(angle) > math.pi / 2
        angle -= math.copysign(math.pi, angle) if reverse else 0.0
        angle = float(np.clip(self.steering_sign * angle, *self.steering_range))
        speed = float(np.linalg.norm(velocity)) / self.radius
        return -speed if reverse else speed, angle


def find_wheels(model: DisplayedModel) -> list[Wheel]:
    """Wheels of a model.

    A wheel is a link on the ground that turns without limits about a horizontal axis. Casters, which swivel without
    limits about a vertical axis, are left out; a limited vertical axis above a wheel steers it.
    """
    wheels = []
    for i, mechanism in enumerate(model.mechanisms):
        roots = mechanism.tree.roots
        poses = mechanism.link_poses()
        if not roots or not all(pose.is_finite for pose in poses.values()):
            continue
        base = poses[roots[0]].inverse()
        points = {x.name: _link_points(x, base @ poses[x.name]) for x in mechanism.robot.links}
        low = min((float(p[:, 2].min()) for p in points.values() if len(p)), default=0.0)
        for edge in mechanism.tree.edges:
            if len(edge.joints) == 1 and _is_unlimited_hinge(edge.joints[0]) and len(points[edge.child]):
                found = _find_wheel(model, i, edge.joints[0], base, poses, points[edge.child], low)
                wheels += [] if found is None else [found]
    return wheels


def _is_unlimited_hinge(joint: Joint) -> bool:
    return (
        joint.n_dofs == 1
        and joint.moving_axes[0].motion is AxisMotion.ROTATION
        and not (math.isfinite(joint.moving_axes[0].lower) and math.isfinite(joint.moving_axes[0].upper))
    )


def _link_points(link: Link, pose: Pose) -> Array:
    """Vertices of the collision shapes of a link, or of all shapes if there are none, at a pose."""
    shapes = [s for s in link.shapes if s.collision] or link.shapes
    found = [(pose @ s.pose).apply(mesh.vertices) for s in shapes if (mesh := shape_triangles(s)) is not None]
    return np.concatenate(found) if found else np.zeros((0, 3))


def _axis_in_base(joint: Joint, base: Pose, poses: dict[str, Pose]) -> tuple[Array, Array]:
    """Position and direction of the axis of a hinge in the base frame."""
    assert joint.child is not None
    pose = base @ poses[joint.child] @ joint.child_pose
    return pose.position, pose.rotation @ joint.moving_axes[0].direction


def _find_wheel(
    model: DisplayedModel, number: int, joint: Joint, base: Pose, poses: dict[str, Pose], points: Array, low: float
) -> Wheel | None:
    """Wheel that a hinge turns; None if the link is none."""
    if joint.child is None:
        return None
    position, axis = _axis_in_base(joint, base, poses)
    arms = points - position
    middle = position + axis * float((arms @ axis).mean())
    radius = float(np.linalg.norm(arms - np.outer(arms @ axis, axis), axis=1).max())
    if abs(axis[2]) > _MAX_AXLE_SLOPE or abs(middle[2] - radius - low) > _MAX_GROUND_GAP * radius:
        return None
    direction = np.cross(axis, (0.0, 0.0, 1.0))
    wheel = Wheel(model.unique_joint(number, joint.name), middle, direction / np.linalg.norm(direction), radius)
    mechanism = model.mechanisms[number]
    for name in mechanism.joints_to_base(joint.parent):
        above = mechanism.joints_by_name[name]
        if above.n_dofs != 1 or above.child is None or above.moving_axes[0].motion is not AxisMotion.ROTATION:
            continue
        position, axis = _axis_in_base(above, base, poses)
        if abs(axis[2]) > 0.9:
            if _is_unlimited_hinge(above):
                return None
            limits = above.moving_axes[0].lower, above.moving_axes[0].upper
            steering_joint = model.unique_joint(number, name)
            sign = math.copysign(1.0, axis[2])
            return replace(wheel, steering_joint=steering_joint, steering_sign=sign, steering_range=limits)
    return wheel


def drive_wheels(model: DisplayedModel, wheels: Sequence[Wheel], command: Array, inputs: ControlInputs) -> None:
    """Send wheel speeds and steering angles of a velocity command (`VelocityCommand.value`), in all environments.

    Differential, skid-steered and steered wheels; steering keeps its angles while the command is zero.
    """
    entity = model.entity
    assert entity is not None
    speeds, angles = {}, {}
    for wheel in wheels:
        speed, angle = wheel.targets(command)
        speeds[entity.get_joint(wheel.joint).dof_idx] = speed
        if wheel.steering_joint:
            angles[entity.get_joint(wheel.steering_joint).dof_idx] = angle
    if angles and command.any():
        inputs.set_positions(entity, angles)
    inputs.send_velocities(entity, speeds)
