"""Timed trajectories stay within velocity, acceleration and jerk limits, and pass near their waypoints."""

from __future__ import annotations

import numpy as np
import pytest

from kinema.core import KinemaError
from kinema.kinematics import time_parameterize

STEP = 1e-3


@pytest.mark.parametrize("max_blend", [0.0, 0.1, 0.4])
def test_limits_hold_at_all_times(max_blend: float) -> None:
    """Velocity, acceleration and jerk never exceed their limits; the motion starts and ends at rest."""
    rng = np.random.default_rng(1)
    for _ in range(12):
        n = int(rng.integers(1, 8))
        points = rng.uniform(-1.0, 1.0, (int(rng.integers(2, 8)), n))
        limits = rng.uniform(0.5, 3.0, n), rng.uniform(1.0, 10.0, n), rng.uniform(5.0, 200.0, n)
        path = time_parameterize(points, *limits, STEP, max_blend=max_blend)
        rates = [np.diff(x, axis=0)[:-1] / STEP for x in (path.position, path.velocity, path.acceleration)]
        for rate, limit in zip(rates, limits, strict=True):
            assert (np.abs(rate) <= limit * (1.0 + 1e-6)).all()
        assert (np.abs(path.velocity) <= limits[0] * (1.0 + 1e-9)).all()
        assert (np.abs(path.acceleration) <= limits[1] * (1.0 + 1e-9)).all()
        means = 0.5 * (path.velocity[:-1] + path.velocity[1:])[:-1]
        np.testing.assert_allclose(rates[0], means, atol=STEP**2 * limits[2].max())
        np.testing.assert_allclose(path.position[[0, -1]], points[[0, -1]])
        assert not path.velocity[[0, -1]].any()
        for point in points[1:-1]:
            nearest = np.linalg.norm(path.position - point, axis=1).min()
            assert nearest <= 0.38 * max_blend + 2.0 * STEP * np.linalg.norm(limits[0])


def test_a_straight_motion_takes_the_time_of_a_double_s_profile() -> None:
    """Without corners, one of the limits is reached: durations in closed form for a long and for a short motion."""
    long = time_parameterize([[0.0], [2.0]], 1.0, 4.0, 40.0, STEP)
    assert long.time[-1] == pytest.approx(2.0 / 1.0 + 1.0 / 4.0 + 4.0 / 40.0)
    short = time_parameterize([[0.0], [1e-3]], 1.0, 4.0, 40.0, STEP)
    assert short.time[-1] == pytest.approx((32.0 * 1e-3 / 40.0) ** (1 / 3))
    assert len(time_parameterize([[1.0], [1.0]], 1.0, 4.0, 40.0, STEP)) == 1


def test_blends_are_shortened_until_they_are_free() -> None:
    """A blend that may not be used is halved; if none may be used, the motion stops at the corner."""
    corner = [[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]]

    def miss(path: object) -> float:
        return float(np.linalg.norm(path.position - (1.0, 0.0), axis=1).min())  # type: ignore[attr-defined]

    wide = time_parameterize(corner, 2.0, 10.0, 100.0, STEP)
    narrow = time_parameterize(
        corner, 2.0, 10.0, 100.0, STEP, is_free=lambda path, corners: path.blends[corners] < 0.11
    )
    stop = time_parameterize(corner, 2.0, 10.0, 100.0, STEP, is_free=lambda _, corners: np.zeros(len(corners), bool))
    assert miss(wide) == pytest.approx(0.1875 * 0.2 * np.sqrt(2.0), rel=0.02)
    assert miss(narrow) == pytest.approx(0.1875 * 0.1 * np.sqrt(2.0), rel=0.05)
    assert miss(stop) < 1e-4
    assert wide.time[-1] < narrow.time[-1] < stop.time[-1]


def test_wrong_arguments_are_named() -> None:
    """Limits that are not positive, and waypoints that are not finite, are errors that name them."""
    with pytest.raises(KinemaError, match="acceleration: expected a positive finite limit"):
        time_parameterize([[0.0], [1.0]], 1.0, 0.0, 1.0, STEP)
    with pytest.raises(KinemaError, match="waypoints"):
        time_parameterize([[0.0], [np.nan]], 1.0, 1.0, 1.0, STEP)
