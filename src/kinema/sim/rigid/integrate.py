"""From velocities to coordinates, on the manifold: quaternions stay quaternions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kinema import trace
from kinema.model import Motion
from kinema.trace import Value

from ..sweeps.maths import add, cross, scale
from ..sweeps.sweeps import Sweeps
from ..sweeps.tree import Node
from .kinematics import MOTIONS

RK4_NEXT = (0.5, 0.5, 1.0, 0.0)
"""How far the next stage looks ahead, in steps."""
RK4_AT = (0.0, 0.5, 0.5, 1.0)
"""How far each stage looks ahead itself."""
RK4_WEIGHT = (1 / 6, 1 / 3, 1 / 3, 1 / 6)


def advance(node: Node, q: Sequence[Value], shift: Sequence[Value]) -> list[Value]:
    """The coordinates of a frame after a shift along its degrees of freedom."""
    return MOTIONS[node.motion].advance(q, shift)


def euler_step(
    s: Sweeps, node: Node, acceleration: Sequence[Value], held: Callable[[list[Value]], list[Value]]
) -> tuple[list[Value], list[Value]]:
    """The next velocities by the accelerations, held back where they have to be, and the next coordinates by these."""
    dt = s.dt
    v = held([speed + dt * a for speed, a in zip(s.of("vel", node), acceleration, strict=True)])
    return advance(node, s.of("qpos", node), [dt * x for x in v]), v


def runge_kutta_stage(s: Sweeps, node: Node, a: Sequence[Value]) -> tuple[list[Value], list[Value]]:
    """One of the four stages of a Runge-Kutta step for a frame; four make the step.

    `phase` counts 0, 1, 2, 3. The state that the step started from, how far the stage is from it, and the weighted
    sums of velocities and accelerations, are carried from stage to stage.
    """
    q, v = s.of("qpos", node), s.of("vel", node)
    phase, dt = s.read("phase"), s.dt

    def first(now: Sequence[Value], kept: str) -> list[Value]:
        return [trace.select(phase, 0.5, x, y) for x, y in zip(now, s.of(kept, node), strict=True)]

    nothing = [0.0] * len(v)
    q0, v0, u = first(q, "stage_qpos"), first(v, "stage_vel"), first(nothing, "stage_shift")
    rate = shift_rate(node, u, v)
    weight, ahead = weight_of(phase), ahead_of(phase, dt)
    sum_v = [x + weight * r for x, r in zip(first(nothing, "stage_sum_vel"), rate, strict=True)]
    sum_a = [x + weight * r for x, r in zip(first(nothing, "stage_sum_acc"), a, strict=True)]

    def last(at_end: Value, before: Value) -> Value:
        return trace.select(2.5, phase, at_end, before)

    shift = [last(dt * x, ahead * r) for x, r in zip(sum_v, rate, strict=True)]
    next_v = [x + last(dt * y, ahead * z) for x, y, z in zip(v0, sum_a, a, strict=True)]
    for name, values in (("qpos", q0), ("vel", v0), ("shift", shift), ("sum_vel", sum_v), ("sum_acc", sum_a)):
        s.write(f"stage_{name}", node, values)
    return advance(node, q0, shift), next_v


def shift_rate(node: Node, shift: Sequence[Value], v: Sequence[Value]) -> list[Value]:
    """How fast a shift from a fixed state grows at velocity v: v itself, but for rotations, which do not commute.

    For a rotation vector u it is v + u x v / 2 + u x (u x v) / 12 + ... (Munthe-Kaas); that much keeps the order.
    """
    if node.motion != Motion.BALL:
        return list(v)
    once = cross(shift, v)
    return list(add(v, scale(0.5, once), scale(1.0 / 12.0, cross(shift, once))))


def next_phase(phase: Value) -> Value:
    """Which stage comes after this one."""
    return trace.select(2.5, phase, 0.0, phase + 1.0)


def weight_of(phase: Value) -> Value:
    """What a stage counts for in the sums of a step."""
    return _by_phase(phase, RK4_WEIGHT)


def ahead_of(phase: Value, dt: Value) -> Value:
    """How far the next stage looks ahead [s]."""
    return dt * _by_phase(phase, RK4_NEXT)


def looked_ahead(phase: Value) -> Value:
    """How far the present stage is from where the step starts, in steps."""
    return _by_phase(phase, RK4_AT)


def _by_phase(phase: Value, values: tuple[float, ...]) -> Value:
    result: Value = values[-1]
    for i in reversed(range(len(values) - 1)):
        result = trace.select(phase, i + 0.5, values[i], result)
    return result
