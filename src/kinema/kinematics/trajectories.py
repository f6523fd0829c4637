"""Trajectories through waypoints (linear, minimum jerk) and interpolation between poses (slerp)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kinema.core import Array, KinemaError

from .arguments import validate_unit_rows


@dataclass(frozen=True, slots=True)
class Trajectory:
    """Samples of a trajectory at equal time intervals, with derivatives; the first axis is time."""

    time: Array
    """Sample times [s], (n_samples,)."""
    position: Array
    """(n_samples, ...)"""
    velocity: Array
    """First derivative per second."""
    acceleration: Array
    """Second derivative per second squared."""

    def __len__(self) -> int:
        return len(self.time)


def linear_trajectory(waypoints: Any, duration: Any, dt: float) -> Trajectory:
    """Piecewise linear trajectory through waypoints, with constant velocity on each segment.

    Args:
        waypoints: waypoints (k, ...) of any element shape.
        duration: total time, or one time for each segment [s].
        dt: sampling interval [s].
    """
    return _interpolate_waypoints(waypoints, duration, dt, lambda s: (s, np.ones_like(s), np.zeros_like(s)))


def min_jerk_trajectory(waypoints: Any, duration: Any, dt: float) -> Trajectory:
    """Minimum-jerk trajectory through waypoints, at rest at each waypoint.

    Each segment is x(s) = 10 s^3 - 15 s^4 + 6 s^5, which minimises the integral of the squared jerk; the peak velocity
    is 15/8 of the mean.

    Args:
        waypoints: waypoints (k, ...) of any element shape.
        duration: total time, or one time for each segment [s].
        dt: sampling interval [s].
    """
    return _interpolate_waypoints(
        waypoints,
        duration,
        dt,
        lambda s: (
            s**3 * (10.0 + s * (6.0 * s - 15.0)),
            30.0 * s**2 * (1.0 - s) ** 2,
            60.0 * s * (1.0 - s) * (1.0 - 2.0 * s),
        ),
    )


def _interpolate_waypoints(waypoints: Any, duration: Any, dt: float, blend: Any) -> Trajectory:
    """Sample a trajectory whose segments follow `blend`: s in [0, 1] -> value, first and second derivative by s.

    Validates waypoints, durations and sampling interval. A scalar duration is split equally between the segments.
    """
    points = np.asarray(waypoints, np.float64)
    if points.ndim < 1 or len(points) < 2 or not np.isfinite(points).all():
        raise KinemaError("waypoints: expected at least two waypoints with finite values")
    n_segments = len(points) - 1
    durations = np.asarray(duration, np.float64)
    durations = np.full(n_segments, durations / n_segments) if durations.ndim == 0 else durations
    if durations.shape != (n_segments,) or not (np.isfinite(durations).all() and (durations > 0.0).all()):
        raise KinemaError(f"duration: expected a positive time [s], or one for each of {n_segments} segments")
    if not (np.isfinite(dt) and dt > 0.0):
        raise KinemaError(f"dt: expected a positive time [s], not {dt!r}")
    ends = np.concatenate([[0.0], np.cumsum(durations)])
    steps = round(float(ends[-1] / dt))
    time = np.minimum(np.arange(steps + 1) * dt, ends[-1])
    segment = np.clip(np.searchsorted(ends, time, side="right") - 1, 0, n_segments - 1)
    fraction = (time - ends[segment]) / durations[segment]
    expand = (slice(None), *(None,) * (points.ndim - 1))
    x, v, a = (values[expand] for values in blend(fraction))
    difference, segment_time = points[segment + 1] - points[segment], durations[segment][expand]
    return Trajectory(
        time, points[segment] + x * difference, v * difference / segment_time, a * difference / segment_time**2
    )


def interpolate_pose(pos: Any, quat: Any, fraction: Any) -> tuple[Array, Array]:
    """Poses between two: linear interpolation of positions and slerp of orientations along the shorter arc.

    Args:
        pos: the two positions [m], (2, 3).
        quat: the two orientations (w, x, y, z), (2, 4).
        fraction: interpolation parameters from 0 to 1, (n,), for example `min_jerk_trajectory([0, 1], duration,
            dt).position`.

    Returns:
        positions (n, 3) and quaternions (n, 4).
    """
    positions, (a, b) = np.asarray(pos, np.float64), validate_unit_rows(quat, 4, "quat", 2)
    if positions.shape != (2, 3):
        raise KinemaError(f"pos: expected two positions of shape (2, 3), not {positions.shape}")
    s = np.asarray(fraction, np.float64)[:, None]
    b = b if a @ b >= 0.0 else -b
    angle = np.arccos(np.clip(a @ b, -1.0, 1.0))
    if angle < 1e-9:
        quaternions = (1.0 - s) * a + s * b
    else:
        quaternions = (np.sin((1.0 - s) * angle) * a + np.sin(s * angle) * b) / np.sin(angle)
    return positions[0] + s * (positions[1] - positions[0]), quaternions / np.linalg.norm(
        quaternions, axis=1, keepdims=True
    )
