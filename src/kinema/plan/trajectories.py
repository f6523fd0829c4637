"""Motions from one point to the next: at constant speed, or with the least jerk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kinema.foundation import Array, KinemaError

from .arguments import unit_rows


@dataclass(frozen=True, slots=True)
class Trajectory:
    """Positions at equal times, with their derivatives; the first axis is time."""

    time: Array
    """[s], (steps,)."""
    position: Array
    velocity: Array
    acceleration: Array

    def __len__(self) -> int:
        return len(self.time)


def linear(points: Any, duration: Any, dt: float) -> Trajectory:
    """Through points, (k, ...), from each to the next at constant speed.

    Args:
        points: coordinates of any shape, the first axis goes from point to point.
        duration: time of the whole way, or of each piece [s].
        dt: time between two samples [s].
    """
    return _through(points, duration, dt, lambda s: (s, np.ones_like(s), np.zeros_like(s)))


def min_jerk(points: Any, duration: Any, dt: float) -> Trajectory:
    """Likewise, resting at each point, with the least integral of the squared jerk between them.

    That is x(s) = 10 s^3 - 15 s^4 + 6 s^5 of each piece; the greatest speed is 15/8 of the mean.
    """
    return _through(
        points,
        duration,
        dt,
        lambda s: (
            s**3 * (10.0 + s * (6.0 * s - 15.0)),
            30.0 * s**2 * (1.0 - s) ** 2,
            60.0 * s * (1.0 - s) * (1.0 - 2.0 * s),
        ),
    )


def _through(points: Any, duration: Any, dt: float, blend: Any) -> Trajectory:
    way = np.asarray(points, np.float64)
    if way.ndim < 1 or len(way) < 2 or not np.isfinite(way).all():
        raise KinemaError("a trajectory goes through at least two points of finite numbers")
    pieces = len(way) - 1
    times = np.asarray(duration, np.float64)
    times = np.full(pieces, times / pieces) if times.ndim == 0 else times
    if times.shape != (pieces,) or not (np.isfinite(times).all() and (times > 0.0).all()):
        raise KinemaError(f"duration: expected a time, or one for each of {pieces} pieces, that is more than none [s]")
    if not (np.isfinite(dt) and dt > 0.0):
        raise KinemaError(f"dt: expected a time that is more than none [s], not {dt!r}")
    ends = np.concatenate([[0.0], np.cumsum(times)])
    steps = round(float(ends[-1] / dt))
    time = np.minimum(np.arange(steps + 1) * dt, ends[-1])
    piece = np.clip(np.searchsorted(ends, time, side="right") - 1, 0, pieces - 1)
    share = (time - ends[piece]) / times[piece]
    wide = (slice(None), *(None,) * (way.ndim - 1))
    x, v, a = (values[wide] for values in blend(share))
    across, span = way[piece + 1] - way[piece], times[piece][wide]
    return Trajectory(time, way[piece] + x * across, v * across / span, a * across / span**2)


def straight_pose(pos: Any, quat: Any, share: Any) -> tuple[Array, Array]:
    """Poses between two: places on a straight line, orientations on the shortest arc.

    Args:
        pos: the two places [m], (2, 3).
        quat: the two orientations (w, x, y, z), (2, 4).
        share: of the way, from 0 to 1, (n,): `min_jerk([0, 1], duration, dt).position`, say.
    """
    places, (a, b) = np.asarray(pos, np.float64), unit_rows(quat, 4, "quat", 2)
    if places.shape != (2, 3):
        raise KinemaError(f"pos: expected two places, (2, 3), not {places.shape}")
    s = np.asarray(share, np.float64)[:, None]
    b = b if a @ b >= 0.0 else -b
    angle = np.arccos(np.clip(a @ b, -1.0, 1.0))
    if angle < 1e-9:
        turned = (1.0 - s) * a + s * b
    else:
        turned = (np.sin((1.0 - s) * angle) * a + np.sin(s * angle) * b) / np.sin(angle)
    return places[0] + s * (places[1] - places[0]), turned / np.linalg.norm(turned, axis=1, keepdims=True)
