"""Frames (sites), sensors, cameras, lights and keyframes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kinema.core import Array, Pose

from .node import Node
from .shape import Geometry


@dataclass(kw_only=True, slots=True, eq=False)
class Frame(Node):
    """A named frame on a link (MJCF site, SDFormat frame)."""

    link: str | None
    """Name of the link; None for the base frame of the robot, or for the world if the frame belongs to a world."""
    pose: Pose = field(default_factory=Pose)
    marker: Geometry | None = None
    """Geometry for rendering; also the volume of a touch sensor."""
    color: tuple[float, float, float, float] | None = None


TAXELS = "taxels"
"""Setting of a tactile sensor: position of each taxel [m], or position and two unit tangents, in the frame of its link;
a flat tuple."""


@dataclass(kw_only=True, slots=True, eq=False)
class Sensor(Node):
    """A sensor, with the settings of its format."""

    kind: str
    """Sensor type of the format: `accelerometer`, `gyro`, `camera`, `imu`, `ray`, ..."""
    target_kind: str = ""
    """Type of the measured element: `link`, `joint`, `frame`, `shape`, `tendon`, `actuator`, `camera`, or empty."""
    target: str = ""
    """Name of the measured element."""
    reference_kind: str = ""
    reference: str = ""
    """Name of the reference element."""
    pose: Pose = field(default_factory=Pose)
    """Pose in the target link, for sensors that have a pose."""
    noise: float = 0.0
    """Standard deviation of the noise."""
    cutoff: float = 0.0
    """Maximum absolute reading; 0 for none."""
    update_rate: float = 0.0
    """Sampling rate [Hz]; 0 for every step."""
    settings: dict[str, Any] = field(default_factory=dict)
    """All other settings of the format."""


@dataclass(kw_only=True, slots=True, eq=False)
class Camera(Node):
    """A camera, which looks along -z with +y up in its own frame."""

    link: str | None
    pose: Pose = field(default_factory=Pose)
    vertical_fov: float = 0.785398163397
    """Vertical field of view [rad]."""
    resolution: tuple[int, int] | None = None
    """Width and height [pixels]."""
    clip: tuple[float, float] | None = None
    """Near and far clipping distance [m]."""
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(kw_only=True, slots=True, eq=False)
class Light(Node):
    """A light source, which shines along -z of its own frame."""

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
    """[s]"""
    positions: dict[str, Array] = field(default_factory=dict)
    velocities: dict[str, Array] = field(default_factory=dict)
    controls: dict[str, float] = field(default_factory=dict)
    activations: dict[str, Array] = field(default_factory=dict)
    kinematic_poses: dict[str, Pose] = field(default_factory=dict)
    """World poses of kinematic links (MJCF mocap)."""
