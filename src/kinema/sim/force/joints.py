"""What joints do by themselves, and what they are told: springs and dampers, control."""

from __future__ import annotations

import math
from collections.abc import Sequence

from kinema import trace
from kinema.model import Motion
from kinema.trace import Value

from ..arrays import GAINS
from ..settings import Drive
from ..sweeps.cords import Pull
from ..sweeps.maths import dot
from ..sweeps.sweeps import Sweeps
from ..sweeps.tree import Node
from .plastic import rest_of, rotation_from

NO_PULL = Pull(0.0, 0.0)


def passive(s: Sweeps, node: Node) -> list[Pull]:
    """Springs and dampers."""
    curves = _pairs(s.of("damping_poly", node))
    dampers = zip(s.of("damping", node), curves, s.of("vel", node), strict=True)
    result = [damper(damping, curve, v) for damping, curve, v in dampers]
    if not node.sprung:
        return result
    stiffness, x = s.of("stiffness", node), stretches(s, node)
    springs = zip(result, stiffness, _pairs(s.of("stiffness_poly", node)), x, strict=True)
    size = trace.sqrt(dot(x, x)) if len(x) > 1 else x[0]
    return [Pull(p.force - bent(k, curve, size) * at, p.slope) for p, k, curve, at in springs]


def _pairs(values: Sequence[Value]) -> list[Sequence[Value]]:
    return [values[i : i + 2] for i in range(0, len(values), 2)]


def bent(linear: Value, curve: Sequence[Value], x: Value) -> Value:
    """A stiffness, or a damping, that changes with x."""
    return linear + (curve[0] * x + curve[1] * (x * x))


def damper(damping: Value, curve: Sequence[Value], v: Value) -> Pull:
    """What a damper does at a speed, whichever way it goes."""
    square, cube = curve
    speed = trace.absolute(v)
    return Pull(-(bent(damping, curve, speed) * v), -bent(damping, (2.0 * square, 3.0 * cube), speed))


def stored(stiffness: Value, curve: Sequence[Value], x: Value) -> Value:
    """The energy of a spring."""
    third, fourth = curve[0] * (1.0 / 3.0), curve[1] * 0.25
    return (0.5 * stiffness) * (x * x) + (third * (x * x) * x + fourth * (x * x) * (x * x))


def stretches(s: Sweeps, node: Node) -> Sequence[Value]:
    """How far the springs of a frame are from their rest; those of a ball from the pose that they rest in."""
    q = s.of("qpos", node)
    rest = rest_of(s, node)
    return rotation_from(rest, q) if node.motion == Motion.BALL else [q[0] - rest[0]]


def spring_energy(s: Sweeps, node: Node) -> Value:
    """What the springs of a frame hold."""
    energy: Value = 0.0
    if not node.sprung:
        return energy
    x, curves = stretches(s, node), _pairs(s.of("stiffness_poly", node))
    for k, at in zip(s.of("stiffness", node), x, strict=True):
        energy = energy + (0.5 * k) * (at * at)
    size = trace.sqrt(dot(x, x)) if len(x) > 1 else x[0]
    return energy + stored(0.0, curves[0], size)


def control(s: Sweeps, node: Node, inertia: Sequence[Value]) -> list[Pull]:
    """What the user asks of each degree of freedom; `inertia` is what acceleration drives multiply their gains by."""
    if s.settings.drive is Drive.ACTUATORS:
        return [NO_PULL] * len(node.dofs)
    asked = _mixed(s, node) if s.settings.drive is Drive.MIXED else _by_gains(s, node)
    if node.per_inertia:
        asked = [Pull(unit * p.force, unit * p.slope) for unit, p in zip(inertia, asked, strict=True)]
    bounds = zip(s.of("force_lower", node), s.of("force_upper", node), strict=True)
    return [bounded(pull, *limits) for pull, limits in zip(asked, bounds, strict=True)]


def _by_gains(s: Sweeps, node: Node) -> list[Pull]:
    """The force is linear in command, position and velocity: what a command means is in the gains."""
    command, v = s.of("command", node), s.of("vel", node)
    by_command, by_position, by_velocity = (s.of(name, node) for name in GAINS)
    result = []
    for k in range(len(node.dofs)):
        force = by_command[k] * command[k] - by_velocity[k] * v[k]
        if node.motion != Motion.BALL:  # part of a quaternion can be held back, but not sent anywhere
            force = force - by_position[k] * s.of("qpos", node)[k]
        result.append(Pull(force, -by_velocity[k]))
    return result


def _mixed(s: Sweeps, node: Node) -> list[Pull]:
    """The mode is a number: one of force, velocity and position; or beyond, where actuators pull."""
    names = ("ctrl_mode", "command", "vel", "kp", "kv")
    result = []
    for mode, command, v, kp, kv in zip(*(s.of(name, node) for name in names), strict=True):
        position: Value = 0.0
        if node.motion == Motion.BALL:
            kp = 0.0
        else:
            position = s.of("qpos", node)[0]
        kp = trace.select(1.5, mode, trace.select(mode, 2.5, kp, 0.0), 0.0)
        kv = trace.select(0.5, mode, trace.select(mode, 2.5, kv, 0.0), 0.0)
        speed = trace.select(0.5, mode, trace.select(1.5, mode, 0.0, command), 0.0)
        force = trace.select(0.5, mode, 0.0, command)
        result.append(Pull(kp * (command - position) + kv * (speed - v) + force, -kv))
    return result


def applied(s: Sweeps, node: Node) -> list[Pull]:
    """What the user adds to whatever else acts on each degree of freedom."""
    return [Pull(force, 0.0) for force in s.of("dof_force_applied", node)]


def plus(pulls: Sequence[Pull], forces: Sequence[Value]) -> list[Pull]:
    """With forces that do not depend on speed."""
    return [Pull(pull.force + force, pull.slope) for pull, force in zip(pulls, forces, strict=True)]


def bounded(pull: Pull, lower: Value, upper: Value) -> Pull:
    """Between bounds; at a bound the force no longer changes."""
    if lower == -math.inf and upper == math.inf:
        return pull
    slope = pull.slope
    if not (isinstance(slope, float) and slope == 0.0):
        slope = trace.select(pull.force, upper, trace.select(lower, pull.force, slope, 0.0), 0.0)
    return Pull(trace.clamp(pull.force, lower, upper), slope)
