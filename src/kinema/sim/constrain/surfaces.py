"""Surfaces that bounce, and surfaces that stick better than they slide.

Both are decided by the speed at the start of a step. Where two shapes meet faster than they could by resting on each
other, they are to part with a share of that speed at its end, as hard as can be: Newton's law of impact. While a point
slides slower than `SLIDES`, friction is the static one; at twice that speed it is the dynamic one, and between them it
falls evenly.
"""

from __future__ import annotations

from kinema import trace
from kinema.trace import RowCode, Value

from ..collide.planned import SetKind
from ..collide.touches import N_LIVELY, Contact, Layout
from ..rigid.kinematics import Twist
from ..sweeps.maths import add, cross, dot

SLIDES = 0.01
"""From here on a point slides [m/s]; what is held by soft friction creeps at less."""
RESTING_STEPS = 2.0
"""What gravity makes in so many steps is no impact."""
SMALLEST = 1e-30
NO_BOUNCE = -1e15
"""An acceleration that any contact wants more than."""


def enliven(contact: Contact, kind: SetKind, speed: Twist, code: RowCode) -> Value:
    """Set a contact's friction by how fast it slides; the acceleration that it wants for a bounce, or none at all."""
    hard, restitution, slowest, stick = contact.read(contact.layout.residual, N_LIVELY)
    at = add(speed.linear, cross(speed.angular, contact.read(Layout.POINT, 3)))
    axes = contact.axes
    if kind.dimension > 1:
        across = [dot(axis, at) for axis in axes[1:]]
        slides = trace.sqrt(trace.maximum(dot(across, across), SMALLEST))
        more = 1.0 + (stick - 1.0) * trace.clamp(2.0 - slides * (1.0 / SLIDES), 0.0, 1.0)
        hard = hard * _roughen(contact, kind, more)
        code.recorder.new_line()
    return _bounce(contact, code, dot(axes[0], at), [hard, restitution, slowest])


def _roughen(contact: Contact, kind: SetKind, more: Value) -> Value:
    """So many times as much friction, in the sliding directions; what becomes of the stiffness."""
    scales = contact.read(Layout.SCALE, 3)
    softer = 1.0 / (more * more)
    if kind.elliptic:
        contact.write(Layout.SCALE, [more * scales[0]])
        contact.write(Layout.BACK, [more * contact.read(Layout.BACK)[0]])
    else:
        square = scales[1] * scales[1]
        softer = softer * (1.0 + square) / (1.0 + more * more * square)
    contact.write(Layout.SCALE + 1, [more * x for x in scales[1:]])
    stiffness, bound = contact.law
    contact.write(Layout.STIFFNESS, [softer * stiffness, more * bound])
    return softer


def _bounce(contact: Contact, code: RowCode, approach: Value, numbers: list[Value]) -> Value:
    """How fast two shapes are to part, as an acceleration in this step; below zero where they do not bounce."""
    hard, restitution, slowest = numbers
    gravity, dt = code.array("gravity", 3), code.read("dt")
    resting = RESTING_STEPS * dt * trace.sqrt(dot(gravity, gravity))
    meets = trace.select(approach, -trace.maximum(resting, slowest), restitution, 0.0)
    stiffness = contact.read(Layout.STIFFNESS)[0]
    bounces = trace.select(0.0, meets, trace.select(0.0, stiffness, 1.0, 0.0), 0.0)
    contact.write(Layout.STIFFNESS, [trace.select(0.5, bounces, hard, stiffness)])
    return trace.select(0.5, bounces, -(1.0 + restitution) * approach / dt, NO_BOUNCE)
