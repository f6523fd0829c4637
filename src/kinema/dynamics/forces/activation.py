"""Actuator inputs: delayed controls (history buffers) and activation dynamics."""

from __future__ import annotations

from collections.abc import Sequence

from kinema import ir
from kinema.ir import Value

from ..rigid.integrators import rk4_next_time_offset, rk4_stage_offset, rk4_weight
from ..settings import InputMode, Integrator
from ..tree.trace_context import TraceContext
from ..tree.transmissions import Transmission, Transmissions
from ..vector_math import one_minus_exp_neg

# ----------------------------------------------------------------------------------------------------- delayed controls
#
# The controls of past steps are state, newest first (MJCF `delay`). Past steps are assumed to have the current length.

DELAY_TOLERANCE = 1e-4
"""Fraction of a step by which a delay may exceed whole steps without counting as longer: rounding."""


def delayed_control(ctx: TraceContext, transmission: Transmission) -> Value:
    """Control of an actuator after its delay; the current control if the actuator has none."""
    if not transmission.n_delay_samples:
        return transmission.read("ctrl")[0]
    return interpolate_control_history(
        ctx, transmission.interpolation, transmission.read("history"), transmission.read("delay")[0]
    )


def interpolate_control_history(ctx: TraceContext, interpolation: str, history: Sequence[Value], delay: Value) -> Value:
    """Control of `delay` seconds ago, interpolated from the stored controls of past steps (newest first).

    With RK4 the delay counts from the time of the current stage.
    """
    steps = delay / ctx.dt
    if ctx.settings.integrator is Integrator.RK4:
        steps = steps - rk4_stage_offset(ctx.read("phase"))
    return INTERPOLATIONS[interpolation](history, steps)


def record_controls(ctx: TraceContext, actuators: Transmissions) -> None:
    """Trace a loop that prepends the controls of this step to the history buffers of delayed actuators."""

    def body(actuator: Transmission) -> None:
        ctx.iteration.write("history", push_control_history(ctx, actuator.read("ctrl")[0], actuator.read("history")))

    actuators.for_each("record delayed controls", body, lambda specialization: specialization.n_delay_samples > 0)


def push_control_history(ctx: TraceContext, control: Value, history: Sequence[Value]) -> list[Value]:
    """History buffer with a new control in front and the oldest removed; with RK4 only after the last stage."""
    new = [control, *history[:-1]]
    if ctx.settings.integrator is not Integrator.RK4:
        return new
    phase = ctx.read("phase")
    return [ir.select(2.5, phase, x, y) for x, y in zip(new, history, strict=True)]


def _zero_order_hold(samples: Sequence[Value], steps: Value) -> Value:
    """Zero-order hold: the newest sample that is at least `steps` steps old; the oldest if none is."""
    value = samples[-1]
    for k in reversed(range(1, len(samples))):
        value = ir.select(steps, k + DELAY_TOLERANCE, samples[k - 1], value)
    return value


def _linear_interpolation(samples: Sequence[Value], steps: Value) -> Value:
    """Linear interpolation between the two samples around an age of `steps` steps."""
    value = samples[0]
    for k in range(1, len(samples)):
        value = value + (samples[k] - samples[k - 1]) * _segment_fraction(steps, k)
    return value


def _cubic_interpolation(samples: Sequence[Value], steps: Value) -> Value:
    """Value of a delayed control by cubic Hermite interpolation of its history, with central-difference slopes.

    `samples` has the newest value first, `steps` is the age in samples; slopes are zero at both ends of the buffer.
    """
    last = len(samples) - 1
    slopes = [0.5 * (samples[i + 1] - samples[i - 1]) if 0 < i < last else 0.0 for i in range(last + 1)]
    value = samples[0]
    for k in range(1, len(samples)):
        u = _segment_fraction(steps, k)
        blend, rest = u * u * (3.0 - 2.0 * u), 1.0 - u
        value = value + (samples[k] - samples[k - 1]) * blend
        value = value + u * rest * (slopes[k - 1] * rest - slopes[k] * u)
    return value


def _segment_fraction(steps: Value, k: int) -> Value:
    """Interpolation parameter from sample k - 1, which is k steps old, to sample k, clamped to [0, 1]."""
    return ir.clamp(steps - float(k), 0.0, 1.0)


INTERPOLATIONS = {"zoh": _zero_order_hold, "linear": _linear_interpolation, "cubic": _cubic_interpolation}
"""Interpolation of the control of some steps ago from the stored samples, by the name of the method."""


# -------------------------------------------------------------------------------------------------- activation dynamics

MIN_TIME_CONSTANT = 1e-15
"""Smallest divisor, as in MuJoCo (mjMINVAL)."""


def clamped_control(ctx: TraceContext, transmission: Transmission) -> Value:
    """Delayed control of an actuator, clamped to its control range."""
    (lower,), (upper,) = transmission.read("ctrl_lower"), transmission.read("ctrl_upper")
    return ir.clamp(delayed_control(ctx, transmission), lower, upper)


def actuator_input(ctx: TraceContext, transmission: Transmission) -> Value:
    """Input of an actuator's force law: the (delayed, clamped) control, or the activation of a stateful actuator.

    With `act_early` the activation is that at the end of the step.
    """
    control = clamped_control(ctx, transmission)
    if transmission.dynamics == "none":
        return control
    (act,) = transmission.read("act")
    return (
        _integrate_activation(ctx, transmission, act, _activation_rate(transmission, act, control))
        if transmission.act_early
        else act
    )


def integrate_activations(ctx: TraceContext, actuators: Transmissions) -> None:
    """Trace a loop that integrates actuator activations over a step or RK4 stage; disabled actuators keep theirs."""
    is_rk4 = ctx.settings.integrator is Integrator.RK4

    def body(actuator: Transmission) -> None:
        (act,) = actuator.read("act")
        rate = _activation_rate(actuator, act, clamped_control(ctx, actuator))
        if ctx.settings.input_mode is not InputMode.ACTUATORS:
            rate = actuator.read("actuator_on")[0] * rate
        ctx.iteration.write(
            "act",
            [
                _rk4_activation_stage(ctx, actuator, act, rate)
                if is_rk4
                else _integrate_activation(ctx, actuator, act, rate)
            ],
        )

    actuators.for_each("activations", body, lambda specialization: specialization.dynamics != "none")


def _rk4_activation_stage(ctx: TraceContext, transmission: Transmission, act: Value, rate: Value) -> Value:
    """One of the four Runge-Kutta stages of an activation; returns the activation of the next stage.

    Reads and writes `stage_act` (activation at the start of the step) and `stage_sum_act` (weighted sum of rates).
    Clamping and exact filters apply to the step as a whole, in the last stage.
    """
    phase = ctx.read("phase")
    start = ir.select(phase, 0.5, act, transmission.read("stage_act")[0])
    rate_sum = ir.select(phase, 0.5, 0.0, transmission.read("stage_sum_act")[0]) + rk4_weight(phase) * rate
    ctx.iteration.write("stage_act", [start])
    ctx.iteration.write("stage_sum_act", [rate_sum])
    return ir.select(
        2.5,
        phase,
        _integrate_activation(ctx, transmission, start, rate_sum),
        start + rk4_next_time_offset(phase, ctx.dt) * rate,
    )


def _integrate_activation(ctx: TraceContext, transmission: Transmission, act: Value, rate: Value) -> Value:
    """Activation after one step at a constant rate, clamped to its range.

    "filterexact" uses the exact first-order response.
    """
    time = ctx.dt
    if transmission.dynamics == "filterexact":
        (tau, *_) = transmission.read("time_constants")
        time = tau * one_minus_exp_neg(ctx.dt / tau)
    (lower,), (upper,) = transmission.read("act_lower"), transmission.read("act_upper")
    return ir.clamp(act + time * rate, lower, upper)


def _activation_rate(transmission: Transmission, act: Value, control: Value) -> Value:
    """Time derivative of an activation by its dynamics type in MuJoCo: integrator, filter, filterexact or muscle.

    The rate is the control for an integrator, (control - act) / tau for filters, and for muscles the same with control
    clamped to [0, 1] and time constants that depend on activation and direction. "smooth muscle" blends the constants
    of activation and deactivation by a quintic smoothstep.
    """
    if transmission.dynamics == "integrator":
        return control
    tau, tau_off, width = transmission.read("time_constants")
    if transmission.dynamics in ("filter", "filterexact"):
        return (control - act) / tau
    change = ir.clamp(control, 0.0, 1.0) - act
    scale = 0.5 + 1.5 * ir.clamp(act, 0.0, 1.0)
    tau_rise, tau_fall = tau * scale, tau_off / scale
    if transmission.dynamics == "smooth muscle":
        tau_effective = tau_fall + (tau_rise - tau_fall) * _quintic_smoothstep(change / width + 0.5)
    else:
        tau_effective = ir.select(0.0, change, tau_rise, tau_fall)
    return change / ir.maximum(tau_effective, MIN_TIME_CONSTANT)


def _quintic_smoothstep(x: Value) -> Value:
    """Quintic smoothstep: from 0 at x = 0 to 1 at x = 1, with zero first and second derivatives there."""
    x = ir.clamp(x, 0.0, 1.0)
    return x * x * x * (3.0 * x * (2.0 * x - 5.0) + 10.0)
