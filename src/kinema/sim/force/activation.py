"""Activations of actuators: state that follows their controls, and that they pull with instead of these."""

from __future__ import annotations

from kinema import trace
from kinema.trace import Value

from ..rigid.integrate import ahead_of, weight_of
from ..settings import Drive, Integrator
from ..sweeps.cords import Cord, Cords
from ..sweeps.maths import decayed
from ..sweeps.sweeps import Sweeps
from .delay import told_control

TINY = 1e-15
"""What MuJoCo divides by instead of anything smaller."""


def control_of(s: Sweeps, cord: Cord) -> Value:
    """What an actuator is told, within its range."""
    (lower,), (upper,) = cord.of("ctrl_lower"), cord.of("ctrl_upper")
    return trace.clamp(told_control(s, cord), lower, upper)


def drive_of(s: Sweeps, cord: Cord) -> Value:
    """What an actuator pulls with: its control, or its activation, or that of the next step."""
    control = control_of(s, cord)
    if cord.dynamics == "none":
        return control
    (act,) = cord.of("act")
    return _advanced(s, cord, act, _rate(cord, act, control)) if cord.early else act


def advance_activations(s: Sweeps, actuators: Cords) -> None:
    """The next activations; an actuator that is switched off keeps its own."""
    stages = s.settings.integrator is Integrator.RK4

    def body(cord: Cord) -> None:
        (act,) = cord.of("act")
        rate = _rate(cord, act, control_of(s, cord))
        if s.settings.drive is not Drive.ACTUATORS:
            rate = cord.of("actuator_on")[0] * rate
        s.code.write("act", [_stage(s, cord, act, rate) if stages else _advanced(s, cord, act, rate)])

    actuators.each("activations", body, lambda kind: kind.dynamics != "none")


def _stage(s: Sweeps, cord: Cord, act: Value, rate: Value) -> Value:
    """One of the four stages of a Runge-Kutta step; bounds, and what is exact, hold for the step as a whole."""
    phase = s.read("phase")
    start = trace.select(phase, 0.5, act, cord.of("stage_act")[0])
    total = trace.select(phase, 0.5, 0.0, cord.of("stage_sum_act")[0]) + weight_of(phase) * rate
    s.code.write("stage_act", [start])
    s.code.write("stage_sum_act", [total])
    return trace.select(2.5, phase, _advanced(s, cord, start, total), start + ahead_of(phase, s.dt) * rate)


def _advanced(s: Sweeps, cord: Cord, act: Value, rate: Value) -> Value:
    """An activation after a step at a rate, within its bounds; a filter may be exact for a constant control."""
    time = s.dt
    if cord.dynamics == "filterexact":
        (tau, *_) = cord.of("time_constants")
        time = tau * decayed(s.dt / tau)
    (lower,), (upper,) = cord.of("act_lower"), cord.of("act_upper")
    return trace.clamp(act + time * rate, lower, upper)


def _rate(cord: Cord, act: Value, control: Value) -> Value:
    """How fast an activation changes."""
    if cord.dynamics == "integrator":
        return control
    tau, off, width = cord.of("time_constants")
    if cord.dynamics in ("filter", "filterexact"):
        return (control - act) / tau
    change = trace.clamp(control, 0.0, 1.0) - act
    slowing = 0.5 + 1.5 * trace.clamp(act, 0.0, 1.0)
    rising, falling = tau * slowing, off / slowing
    if cord.dynamics == "smooth muscle":
        time = falling + (rising - falling) * _smooth(change / width + 0.5)
    else:
        time = trace.select(0.0, change, rising, falling)
    return change / trace.maximum(time, TINY)


def _smooth(x: Value) -> Value:
    """From 0 at 0 to 1 at 1, with two derivatives that are zero there."""
    x = trace.clamp(x, 0.0, 1.0)
    return x * x * x * (3.0 * x * (2.0 * x - 5.0) + 10.0)
