"""The way around a shape against plain geometry: tangents, arcs, unrolled cylinders, reflections."""

from __future__ import annotations

import math

import numpy as np
import pytest

from kinema.core import Array
from kinema.dynamics.forces.tendon_wrapping import WrappedPath, angle_from_cos_sin, asin, wrap_path

RADIUS = 0.1


def around(kind: str, a: Array, b: Array, beside: Array | None = None) -> tuple[WrappedPath, float]:
    """The way, and the length of all of it."""
    way = wrap_path(kind, a.tolist(), b.tolist(), RADIUS, None if beside is None else beside.tolist())
    straight = np.linalg.norm(a - np.array(way.start_point)) + np.linalg.norm(b - np.array(way.end_point))
    return way, float(straight) + float(way.length)  # type: ignore[arg-type]


def tangents_and_arc(angle: float, far: tuple[float, float], radius: float = RADIUS) -> float:
    """The length around a circle from one distance to another, an angle apart."""
    reach = sum(math.sqrt(d * d - radius * radius) for d in far)
    return reach + radius * (angle - sum(math.acos(radius / d) for d in far))


@pytest.mark.parametrize("turn", [0.0, 1e-9, 0.3, 1.5, math.pi - 1e-9, math.pi])
def test_angles(turn: float) -> None:
    """Between 0 and a half turn, whatever the size."""
    for size in (1e-6, 1.0, 50.0):
        assert angle_from_cos_sin(size * math.cos(turn), size * math.sin(turn)) == pytest.approx(turn, abs=1e-15)
    assert asin(math.sin(turn)) == pytest.approx(math.asin(math.sin(turn)), abs=1e-15)


@pytest.mark.parametrize("angle", [2.8, 3.0, 3.1])
def test_around_a_sphere(angle: float) -> None:
    """In whatever plane: two tangents and an arc."""
    turn, _ = np.linalg.qr(np.random.default_rng(3).normal(size=(3, 3)))
    a, b = turn @ [0.3, 0.0, 0.0], turn @ [0.4 * math.cos(angle), 0.4 * math.sin(angle), 0.0]
    way, length = around("sphere", a, b)
    assert way.wraps == 1.0
    assert length == pytest.approx(tangents_and_arc(angle, (0.3, 0.4)), abs=1e-12)
    beside = turn @ [0.3 * math.cos(-0.5), 0.3 * math.sin(-0.5), 0.0]
    way, length = around("sphere beside", a, b, beside)
    assert length == pytest.approx(tangents_and_arc(2.0 * math.pi - angle, (0.3, 0.4)), abs=1e-12)


def test_past_a_sphere() -> None:
    """What does not hit it goes straight; neither does what begins inside of it wrap."""
    assert around("sphere", np.array([0.3, 0.0, 0.0]), np.array([0.0, 0.3, 0.0]))[0].wraps == 0.0
    assert around("sphere", np.array([0.05, 0.0, 0.0]), np.array([-0.3, 0.0, 0.0]))[0].wraps == 0.0


@pytest.mark.parametrize("kind", ["sphere", "sphere beside", "cylinder", "cylinder beside"])
def test_straight_through_the_middle(kind: str) -> None:
    """Two points opposite each other have a way, too."""
    beside = np.array([0.0, 0.3, 0.0]) if "beside" in kind else None
    way, length = around(kind, np.array([0.3, 0.0, 0.0]), np.array([-0.4, 0.0, 0.0]), beside)
    assert way.wraps == 1.0
    assert length == pytest.approx(tangents_and_arc(math.pi, (0.3, 0.4)), abs=1e-9)


def test_around_a_cylinder() -> None:
    """Unrolled it is a straight line."""
    a, b = np.array([0.3, 0.02, -0.2]), np.array([-0.4, -0.05, 0.5])
    angle = abs(math.atan2(b[1], b[0]) - math.atan2(a[1], a[0]))
    flat = tangents_and_arc(min(angle, 2.0 * math.pi - angle), (np.hypot(*a[:2]), np.hypot(*b[:2])))
    assert around("cylinder", a, b)[1] == pytest.approx(math.hypot(flat, 0.7), abs=1e-12)


@pytest.mark.parametrize("angle", [0.3, 1.0, 2.0, 2.45, 2.4661])
def test_through_the_inside(angle: float) -> None:
    """The shortest way that touches the circle, also where it nearly grazes it."""
    a, b = np.array([0.3, 0.0, 0.0]), np.array([0.4 * math.cos(angle), 0.4 * math.sin(angle), 0.0])
    way, length = around("sphere inside", a, b, np.zeros(3) + 0.01)
    assert way.wraps == 1.0
    low, high = 0.0, angle

    def through(x: float) -> float:
        point = RADIUS * np.array([math.cos(x), math.sin(x), 0.0])
        return float(np.linalg.norm(a - point) + np.linalg.norm(b - point))

    for _ in range(200):  # the shortest by thirds
        third = (high - low) / 3.0
        low, high = (low, high - third) if through(low + third) < through(high - third) else (low + third, high)
    assert length == pytest.approx(through(low), abs=1e-12)


def test_freely_through_the_inside() -> None:
    """What hits the circle anyway is not held."""
    a, b = np.array([0.3, 0.0, 0.0]), np.array([-0.4, 0.01, 0.0])
    assert around("cylinder inside", a, b, np.zeros(3))[0].wraps == 0.0


def test_either() -> None:
    """As the point is inside or outside."""
    a, b = np.array([0.3, 0.0, 0.0]), np.array([0.0, 0.4, 0.1])
    for shape in ("sphere", "cylinder"):
        for side, beside in (("inside", np.array([0.02, 0.0, 0.0])), ("beside", np.array([-0.3, -0.2, 0.0]))):
            assert around(f"{shape} either", a, b, beside)[1] == around(f"{shape} {side}", a, b, beside)[1]
