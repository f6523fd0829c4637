"""Frames, sensors, cameras, lights and keyframes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kinema.foundation import Array, Pose

from .node import Node
from .shape import Geometry


@dataclass(kw_only=True, slots=True, eq=False)
class Frame(Node):
    """A named frame on a link (an MJCF site, an SDFormat frame)."""

    link: str | None
    """None for the robot's base frame, as for joints; for the world where a world holds the frame."""
    pose: Pose = field(default_factory=Pose)
    marker: Geometry | None = None
    """What it is drawn as; also the volume of a touch sensor."""
    color: tuple[float, float, float, float] | None = None


@dataclass(kw_only=True, slots=True, eq=False)
class Sensor(Node):
    """A measurement, kept as its format describes it."""

    kind: str
    """The format's own word: `accelerometer`, `gyro`, `camera`, `imu`, `ray`, ..."""
    target_kind: str = ""
    """`link`, `joint`, `frame`, `shape`, `tendon`, `actuator`, `camera`, or empty."""
    target: str = ""
    reference_kind: str = ""
    reference: str = ""
    pose: Pose = field(default_factory=Pose)
    """Pose in the target link, for sensors that have one."""
    noise: float = 0.0
    cutoff: float = 0.0
    update_rate: float = 0.0
    """[Hz]; 0 for every step."""
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(kw_only=True, slots=True, eq=False)
class Camera(Node):
    """A camera; it looks along -z with +y up, in its own frame."""

    link: str | None
    pose: Pose = field(default_factory=Pose)
    vertical_fov: float = 0.785398163397
    """[rad]"""
    resolution: tuple[int, int] | None = None
    clip: tuple[float, float] | None = None
    """Near and far distance [m]."""
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(kw_only=True, slots=True, eq=False)
class Light(Node):
    """A light; it shines along -z of its own frame."""

    kind: str
    """`directional`, `point` or `spot`."""
    link: str | None
    pose: Pose = field(default_factory=Pose)
    color: tuple[float, float, float] = (1.0, 1.0, 1.0)
    casts_shadow: bool = True
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(kw_only=True, slots=True, eq=False)
class Keyframe(Node):
    """A named state: coordinates and velocities by joint, controls and activations by actuator."""

    time: float = 0.0
    positions: dict[str, Array] = field(default_factory=dict)
    velocities: dict[str, Array] = field(default_factory=dict)
    controls: dict[str, float] = field(default_factory=dict)
    activations: dict[str, Array] = field(default_factory=dict)
    kinematic_poses: dict[str, Pose] = field(default_factory=dict)
    """World poses of kinematic links (MJCF mocap)."""
