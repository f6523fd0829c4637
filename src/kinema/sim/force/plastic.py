"""Springs that give way for good when they are stretched too far (MJCF `springyield`): where they rest is state."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from kinema import trace
from kinema.model import Model, Motion
from kinema.trace import Value

from ..settings import Integrator
from ..sweeps.cords import Cord, Pull
from ..sweeps.maths import dot, normalised, quaternion_of, quaternion_product, rotation_vector, scale
from ..sweeps.sweeps import Sweeps
from ..sweeps.tree import Node
from .paths import HasFrames, lengths_of

SMALLEST = 1e-15


def rest_of(s: Sweeps, node: Node) -> Sequence[Value]:
    """The coordinates at which the springs of a frame rest."""
    if _gives_way(s, node):
        return s.of("spring_rest", node)
    return s.of("spring_quat" if node.motion == Motion.BALL else "spring_ref", node)


def _gives_way(s: Sweeps, node: Node) -> bool:
    first = s.of("spring_yield", node)[0]
    return node.sprung and not (isinstance(first, float) and first == math.inf)


def rotation_from(rest: Sequence[Value], q: Sequence[Value]) -> Sequence[Value]:
    """How far a ball has turned from where it rests."""
    w, x, y, z = rest
    return rotation_vector(quaternion_product([w, -x, -y, -z], q))


def give_way(s: Sweeps, node: Node, q: Sequence[Value]) -> None:
    """Where the springs of a frame rest once it is at q: never further away than they can be stretched."""
    if not _gives_way(s, node):
        return
    rest, most = s.of("spring_rest", node), s.of("spring_yield", node)[0]
    if node.motion == Motion.BALL:
        turn = rotation_from(rest, q)
        size = trace.sqrt(dot(turn, turn))
        share = trace.maximum(size - most, 0.0) / trace.maximum(size, SMALLEST)
        moved = list(normalised(quaternion_product(rest, quaternion_of(scale(0.5 * share, turn)))))
    else:
        moved = [trace.clamp(rest[0], q[0] - most, q[0] + most)]
    if s.settings.integrator is Integrator.RK4:  # what happens between the stages of a step does not count
        phase = s.read("phase")
        moved = [trace.select(2.5, phase, new, old) for new, old in zip(moved, rest, strict=True)]
    s.write("spring_rest", node, moved)


# ------------------------------------------------------------------------------------------------------------ tendons


def give_way_in_tendons(step: HasFrames) -> None:
    """Where the springs of tendons rest after a step: to be asked for when the new state is written.

    A path is not measured anew, but taken to go on as it changes now, as MuJoCo has it; the last stage of a Runge-Kutta
    step has measured it where the step ends.
    """
    s, which = step.s, yielding_tendons(step.s.model)
    in_stages = s.settings.integrator is Integrator.RK4

    def body(cord: Cord) -> Pull:
        ahead = s.dt * cord.speed if cord.kind.startswith("spatial") and not in_stages else 0.0
        old = cord.of("rest_lower")[0], cord.of("rest_upper")[0]
        new = _given_way(*old, cord.length + ahead, cord.of("spring_yield")[0])
        if in_stages:
            (phase,) = cord.of("phase")
            new = tuple(trace.select(2.5, phase, x, y) for x, y in zip(new, old, strict=True))
        for name, value in zip(("rest_lower", "rest_upper"), new, strict=True):
            s.code.write(name, [value])
        return Pull(0.0, 0.0)

    if which:
        s.cords("tendons", which, body, lengths_of(step), name="tendons that give way")


def _given_way(lower: Value, upper: Value, length: Value, most: Value) -> tuple[Value, ...]:
    """The lengths that a spring rests between; a lower one of zero, which a slack tendon never gets below, stays."""
    longer, shorter = (trace.maximum(x - most, 0.0) for x in (length - upper, lower - length))
    taut = trace.select(0.0, trace.absolute(lower), longer, trace.select(0.0, upper, 0.0, longer))
    return lower + taut - shorter, upper + longer - shorter


def yielding_tendons(model: Model) -> list[int]:
    """Those whose springs give way."""
    return [int(i) for i in np.flatnonzero(np.isfinite(model.tendons.spring_yield))]
