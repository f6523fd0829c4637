"""Time parameterisation of piecewise linear paths under velocity, acceleration and jerk limits.

Corners are rounded by blends with continuous curvature. Straight pieces are traversed with double-S velocity profiles
(Biagiotti and Melchiorri), blends at constant speed; the speeds at the blends are chosen by a forward and a backward
pass. Positions, velocities and accelerations are continuous, and all limits hold at all times.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from kinema.core import Array, KinemaError

from .trajectories import Trajectory

# --------------------------------------------------------------------------------------------------------- blended path


@dataclass(frozen=True, slots=True)
class MotionLimits:
    """Limits of the coordinates of a motion, (n_dofs,) each."""

    velocity: Array
    """[rad/s or m/s]"""
    acceleration: Array
    """[rad/s2 or m/s2]"""
    jerk: Array
    """[rad/s3 or m/s3]"""


@dataclass(frozen=True, slots=True, eq=False)
class BlendedPath:
    """Polyline whose corners are replaced by blends.

    The blend of a corner p between directions u and w begins at p - h u and ends at p + h w. With x = s / 2h, its
    derivative by arc length s is u + (w - u) (3 x^2 - 2 x^3), so that its second derivative vanishes at both ends.
    """

    points: Array
    """Waypoints, (k, n_dofs), all different."""
    blends: Array
    """Half length h of the blend at each waypoint, (k,); 0 for a corner where the motion stops, and at both ends."""

    @property
    def directions(self) -> Array:
        """Unit vectors along the straight pieces, (k - 1, n_dofs)."""
        offset = np.diff(self.points, axis=0)
        return offset / np.linalg.norm(offset, axis=1, keepdims=True)

    @property
    def straight_lengths(self) -> Array:
        """Lengths of the straight pieces between the blends, (k - 1,)."""
        return np.maximum(self._lengths - self.blends[:-1] - self.blends[1:], 0.0)

    @property
    def _lengths(self) -> Array:
        return np.linalg.norm(np.diff(self.points, axis=0), axis=1)

    def on_blend(self, corner: np.ndarray, x: Array) -> tuple[Array, Array, Array]:
        """Points of blends at x in [0, 1], and the first and second derivative by arc length, (m, n_dofs) each."""
        u = self.directions
        before, change = u[corner - 1], u[corner] - u[corner - 1]
        h, x = self.blends[corner][:, None], x[:, None]
        position = self.points[corner] + h * ((2.0 * x - 1.0) * before + (2.0 * x**3 - x**4) * change)
        return position, before + (3.0 * x**2 - 2.0 * x**3) * change, (3.0 * x * (1.0 - x) / h) * change


def longest_blends(points: Array, max_length: float) -> Array:
    """Half lengths of the blends at the waypoints: half of the shorter adjacent piece, at most `max_length`."""
    lengths = np.linalg.norm(np.diff(points, axis=0), axis=1)
    result = np.zeros(len(points))
    result[1:-1] = np.minimum(0.5 * np.minimum(lengths[:-1], lengths[1:]), max_length)
    return result


# ---------------------------------------------------------------------------------------------------- velocity profiles


def _speed_change_distance(v0: float, v1: float, a: float, j: float) -> float:
    """Distance of a change of speed from v0 to v1 with zero acceleration at both ends, under limits a and j."""
    change = abs(v1 - v0)
    duration = 2.0 * math.sqrt(change / j) if change * j <= a * a else change / a + a / j
    return 0.5 * (v0 + v1) * duration


def _largest_speed(is_possible: Callable[[float], bool], low: float, high: float) -> float:
    """Largest speed between `low`, which is possible, and `high`, by bisection of a monotone condition."""
    if high <= low or is_possible(high):
        return max(low, high)
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if is_possible(middle) else (low, middle)
    return low


@dataclass(frozen=True, slots=True)
class _Phase:
    """Part of a motion with constant jerk along the path."""

    duration: float
    s: float
    """Arc length within the piece at the start."""
    v: float
    a: float
    j: float
    piece: int
    """Straight piece, or corner of the blend."""
    is_blend: bool


def _speed_change_phases(v0: float, v1: float, a: float, j: float, s: float, piece: int) -> list[_Phase]:
    """Up to three phases of constant jerk that change the speed from v0 to v1 at acceleration <= a and jerk <= j.

    `s` is the path position at the start; no phases for equal speeds.
    """
    change = v1 - v0
    if abs(change) < 1e-12:
        return []
    sign = float(np.sign(change))
    ramp = min(a / j, float(np.sqrt(abs(change) / j)))
    hold = abs(change) / (j * ramp) - ramp
    phases, v, acceleration = [], v0, 0.0
    for duration, jerk in ((ramp, sign * j), (hold, 0.0), (ramp, -sign * j)):
        phases.append(_Phase(duration, s, v, acceleration, jerk, piece, is_blend=False))
        s += duration * (v + duration * (acceleration / 2.0 + duration * jerk / 6.0))
        v += duration * (acceleration + duration * jerk / 2.0)
        acceleration += duration * jerk
    return phases


def _profile(path: BlendedPath, limits: MotionLimits) -> list[_Phase]:
    """Phases of the fastest motion with constant speed on blends and a double-S profile on each straight piece."""
    u, lengths = path.directions, path.straight_lengths
    with np.errstate(divide="ignore"):
        v, a, j = (np.min(x / np.abs(u), axis=1).tolist() for x in (limits.velocity, limits.acceleration, limits.jerk))
    lengths = lengths.tolist()
    speed = [0.0] * len(path.points)  # at the blends
    for i in np.flatnonzero(path.blends > 0.0):
        change, h = np.abs(u[i] - u[i - 1]), path.blends[i]
        largest = np.maximum(np.abs(u[i]), np.abs(u[i - 1]))
        with np.errstate(divide="ignore"):
            by_acceleration = np.sqrt(limits.acceleration * h / (0.75 * change))
            by_jerk = np.cbrt(limits.jerk * h * h / (1.5 * change))
            speed[i] = float(min((limits.velocity / largest).min(), by_acceleration.min(), by_jerk.min()))

    def reaches(piece: int, v0: float, v1: float) -> bool:
        return _speed_change_distance(v0, v1, a[piece], j[piece]) <= lengths[piece]

    for i in range(len(u)):
        low = min(speed[i], speed[i + 1])
        speed[i + 1] = _largest_speed(lambda x, i=i: reaches(i, speed[i], x), low, speed[i + 1])
    for i in reversed(range(len(u))):
        low = min(speed[i], speed[i + 1])
        speed[i] = _largest_speed(lambda x, i=i: reaches(i, x, speed[i + 1]), low, speed[i])
    phases: list[_Phase] = []
    for i, length in enumerate(lengths):
        v0, v1 = speed[i], speed[i + 1]

        def fits(peak: float, i: int = i, v0: float = v0, v1: float = v1, length: float = length) -> bool:
            return sum(_speed_change_distance(x, peak, a[i], j[i]) for x in (v0, v1)) <= length

        peak = _largest_speed(fits, max(v0, v1), v[i])
        up, down = (_speed_change_distance(x, peak, a[i], j[i]) for x in (v0, v1))
        cruise = max(length - up - down, 0.0)
        phases += _speed_change_phases(v0, peak, a[i], j[i], 0.0, i)
        if cruise > 0.0 and peak > 0.0:
            phases.append(_Phase(cruise / peak, up, peak, 0.0, 0.0, i, is_blend=False))
        phases += _speed_change_phases(peak, v1, a[i], j[i], length - down, i)
        if path.blends[i + 1] > 0.0:
            phases.append(_Phase(2.0 * path.blends[i + 1] / v1, 0.0, v1, 0.0, 0.0, i + 1, is_blend=True))
    return phases


def _fastest_profile(path: BlendedPath, limits: MotionLimits) -> tuple[BlendedPath, list[_Phase]]:
    """Fastest motion profile, without blends that take longer than a stop at the corner (short ones need low speed)."""
    phases = _profile(path, limits)
    for corner in np.flatnonzero(path.blends > 0.0):
        blends = np.array(path.blends)
        blends[corner] = 0.0
        other = BlendedPath(path.points, blends)
        other_phases = _profile(other, limits)
        if sum(p.duration for p in other_phases) < sum(p.duration for p in phases):
            path, phases = other, other_phases
    return path, phases


# ----------------------------------------------------------------------------------------------------------- trajectory


def time_parameterize(
    waypoints: Any,
    velocity: Any,
    acceleration: Any,
    jerk: Any,
    dt: float,
    *,
    max_blend: float = 0.2,
    is_free: Callable[[BlendedPath, np.ndarray], np.ndarray] | None = None,
) -> Trajectory:
    """Fast trajectory along straight lines between waypoints, with rounded corners, within limits at all times.

    Args:
        waypoints: waypoints (k, n_dofs).
        velocity: velocity limit of all coordinates or of each, (n_dofs,) [rad/s or m/s].
        acceleration: acceleration limit [rad/s2 or m/s2].
        jerk: jerk limit [rad/s3 or m/s3].
        dt: sampling interval [s]; the last sample, at the end of the motion, may follow sooner.
        max_blend: largest distance of the ends of a blend from its corner [rad or m]; 0 to stop at each waypoint. A
            blend passes its corner at less than 0.38 times this distance.
        is_free: tells for a path and some of its corners whether the blends may be used; blends that may not are made
            shorter, and the motion stops at a corner without any.
    """
    points = np.asarray(waypoints, np.float64)
    if points.ndim != 2 or len(points) < 1 or not np.isfinite(points).all():
        raise KinemaError(f"waypoints: expected finite values of shape (k, n_dofs), not {points.shape}")
    if not (np.isfinite(dt) and dt > 0.0):
        raise KinemaError(f"dt: expected a positive time [s], not {dt!r}")
    limits = MotionLimits(
        *(
            _positive_limits(x, points.shape[1], name)
            for x, name in ((velocity, "velocity"), (acceleration, "acceleration"), (jerk, "jerk"))
        )
    )
    distinct = np.concatenate([[True], np.linalg.norm(np.diff(points, axis=0), axis=1) > 1e-9])
    points = points[distinct]
    if len(points) == 1:
        return Trajectory(np.zeros(1), points, np.zeros_like(points), np.zeros_like(points))
    path = _with_free_blends(BlendedPath(points, longest_blends(points, max_blend)), is_free)
    path, phases = _fastest_profile(path, limits)
    ends = np.cumsum([p.duration for p in phases])
    time = np.append(np.arange(0.0, ends[-1] - 1e-9, dt), ends[-1])
    index = np.minimum(np.searchsorted(ends, time, side="right"), len(phases) - 1)
    t = time - np.concatenate([[0.0], ends])[index]
    table = np.array([(p.s, p.v, p.a, p.j, p.piece, p.is_blend) for p in phases])[index].T
    s0, v0, a0, j0, piece, is_blend = table
    s = s0 + t * (v0 + t * (a0 / 2.0 + t * j0 / 6.0))
    v, a = v0 + t * (a0 + t * j0 / 2.0), a0 + t * j0
    first, second, position = (np.zeros((len(time), points.shape[1])) for _ in range(3))
    straight, blend = np.flatnonzero(is_blend == 0.0), np.flatnonzero(is_blend)
    rows = piece[straight].astype(np.intp)
    first[straight] = path.directions[rows]
    position[straight] = points[rows] + (path.blends[rows] + s[straight])[:, None] * first[straight]
    corners = piece[blend].astype(np.intp)
    position[blend], first[blend], second[blend] = path.on_blend(corners, s[blend] / (2.0 * path.blends[corners]))
    position[-1] = points[-1]
    v[-1] = a[-1] = 0.0
    return Trajectory(time, position, first * v[:, None], first * a[:, None] + second * (v * v)[:, None])


BLEND_HALVINGS = 5
"""Number of times that the length of a blend in collision is halved."""


def _with_free_blends(
    path: BlendedPath, is_free: Callable[[BlendedPath, np.ndarray], np.ndarray] | None
) -> BlendedPath:
    """Path whose blends are shortened until they may be used; without blends at corners where none may."""
    blends = np.array(path.blends)
    if is_free is None:
        return path
    open_corners = np.flatnonzero(blends > 0.0)
    for _ in range(BLEND_HALVINGS):
        if not len(open_corners):
            break
        open_corners = open_corners[~is_free(BlendedPath(path.points, blends), open_corners)]
        blends[open_corners] *= 0.5
    blends[open_corners] = 0.0
    return BlendedPath(path.points, blends)


def _positive_limits(values: Any, n_dofs: int, name: str) -> Array:
    """Positive finite limits (n_dofs,), from one value for all or one for each; else `KinemaError`."""
    array = np.asarray(values, np.float64)
    if array.shape not in ((), (n_dofs,)) or not ((array > 0.0) & np.isfinite(array)).all():
        raise KinemaError(f"{name}: expected a positive finite limit, or one for each of {n_dofs} coordinates")
    return np.broadcast_to(array, (n_dofs,))
