"""Limits of joints: MuJoCo's soft constraint on both sides of a hinge, slide or screw."""

from __future__ import annotations

from kinema import trace
from kinema.model import Motion
from kinema.trace import Value

from ..sweeps.sweeps import Sweeps
from ..sweeps.tree import Node

LEAST_IMPEDANCE, MOST_IMPEDANCE = 1e-4, 0.9999
"""Between these an impedance is kept, so that neither it nor its complement vanishes."""
FAR = 1e10
"""As far as an unlimited joint is from its limits."""


def limit_rows(s: Sweeps, node: Node) -> list[list[tuple[Value, Value, Value]]]:
    """Two rows: one that pushes up from the lower limit, one that pushes down from the upper one."""
    names = ("lower", "upper", "limit_margin", "invweight")
    lower, upper, margin, weight = (s.of(name, node) for name in names)
    speeds = s.of("vel", node)
    if node.motion == Motion.BALL:
        return [[(0.0, 0.0, 0.0)] * 2 for _ in node.dofs]
    q, v = s.of("qpos", node)[0], speeds[0]
    sides = ((1.0, q - trace.maximum(lower[0], -FAR)), (-1.0, trace.minimum(upper[0], FAR) - q))
    return [[_row(s, node, side * v, side, distance - margin[0], weight[0]) for side, distance in sides]]


def _row(s: Sweeps, node: Node, speed: Value, lever: float, beyond: Value, weight: Value) -> tuple[Value, Value, Value]:
    impedance = _impedance(s.of("limit_solimp", node), node.limit_power, beyond)
    stiffness, damping = _reference(s, node)
    missing = (1.0 - impedance) * weight * (1.0 / impedance)
    there = trace.select(beyond, 0.0, 1.0 / missing, 0.0)
    return lever, -(damping * speed) - stiffness * impedance * beyond, there


def _impedance(solimp: list[Value], power: int, beyond: Value) -> Value:
    """How hard a constraint is, by how far it is violated: d0 at the bound, dw a width further, a power law between."""
    start, end, width, midpoint, _ = solimp
    x = trace.minimum(trace.absolute(beyond) * (1.0 / width), 1.0)
    below, above = x, 1.0 - x
    for _ in range(power - 1):
        below, above = below * x * (1.0 / midpoint), above * (1.0 - x) * (1.0 / (1.0 - midpoint))
    y = trace.select(x, midpoint, below, 1.0 - above)
    return trace.clamp(start + y * (end - start), LEAST_IMPEDANCE, MOST_IMPEDANCE)


def _reference(s: Sweeps, node: Node) -> tuple[Value, Value]:
    """Stiffness and damping of the reference: the time constant and damping ratio of the file, or given directly."""
    first, second = s.of("limit_solref", node)
    end = trace.clamp(s.of("limit_solimp", node)[1], LEAST_IMPEDANCE, MOST_IMPEDANCE)
    time = trace.maximum(first, 2.0 * s.dt)
    by_time = 1.0 / (end * end * time * time * second * second), 2.0 / (end * time)
    direct = -first / (end * end), -second / end
    pairs = zip(by_time, direct, strict=True)
    return tuple(trace.select(0.0, first, a, b) for a, b in pairs)  # type: ignore[return-value]
