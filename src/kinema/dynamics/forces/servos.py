"""PID controllers and DC motors: forces, derivatives by velocity, and integration of their state variables.

A PID controller has the force kp (u_pos - l) + kv (u_vel - l') + ki x + u_ff with the integral x of the position error.
The controller of a DC motor commands this torque through its voltage; the motor adds back-EMF, current dynamics,
winding temperature, cogging torque and LuGre friction. State variables are those of MuJoCo.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from kinema import ir
from kinema.ir import Value
from kinema.model import SERVO_PARAMETERS, SERVO_STATES

from ..rigid.integrators import rk4_next_time_offset, rk4_weight
from ..settings import InputMode, Integrator
from ..tree.trace_context import TraceContext
from ..tree.transmissions import ForceTerm, Transmission, Transmissions
from ..vector_math import one_minus_exp_neg
from .activation import interpolate_control_history, push_control_history
from .joint_forces import clamp_force_term

SERVO_KINDS = ("pid", "dcmotor")
"""Kinds of actuators with these laws."""
MINVAL = 1e-15
"""Smallest divisor, as in MuJoCo (mjMINVAL)."""


class ServoParameters:
    """Parameters of a PID controller or DC motor by name."""

    def __init__(self, transmission: Transmission) -> None:
        self._values = dict(zip(SERVO_PARAMETERS, transmission.read("servo_params"), strict=True))

    def __getitem__(self, name: str) -> Value:
        return self._values[name]


@dataclass(frozen=True, slots=True)
class _Command:
    """Controls of a servo and the rates of its controller states."""

    controls: dict[str, Value]
    """Delayed, clamped and rate-limited controls by input name; 0 for missing inputs."""
    torque: Value
    """Commanded force kp (u_pos - l) + kv (u_vel - l') + ki x + u_ff + constant."""
    rates: dict[str, Value]
    """Rates of the states `setpoint` and `integral`."""


def servo_force(
    ctx: TraceContext, transmission: Transmission, unwrap: Callable[[Transmission, Value], Transmission]
) -> ForceTerm:
    """Force of a PID controller or DC motor with its velocity derivative; traces a store of its state derivatives.

    The force of a PID controller, and the electrical force of a DC motor, are clamped to the force range.

    Args:
        ctx: tracing context.
        transmission: the actuator.
        unwrap: shifts the length of a position servo of an angle by whole turns towards its target.
    """
    parameters = ServoParameters(transmission)
    states = _read_states(transmission)
    command = _controller(ctx, transmission, parameters, states, unwrap)
    (lower,), (upper,) = transmission.read("force_lower"), transmission.read("force_upper")
    if transmission.kind == "pid":
        rates, term = command.rates, clamp_force_term(ForceTerm(command.torque, -parameters["kv"]), lower, upper)
    else:
        electrical, rates = _electrical_force(ctx, transmission, parameters, states, command)
        term = clamp_force_term(electrical, lower, upper)
        friction, bristle_rate = _mechanical_force(transmission, parameters, states)
        term = ForceTerm(term.force + friction.force, term.dforce_dvel + friction.dforce_dvel)
        rates = {**command.rates, **rates, "bristle": bristle_rate}
    if transmission.servo_states:
        values = [rates.get(name, 0.0) if name in transmission.servo_states else 0.0 for name in SERVO_STATES]
        ctx.iteration.write("servo rates", [*values, transmission.velocity])
    return term


def _read_states(transmission: Transmission) -> dict[str, Value]:
    """State variables of a servo by name; 0 for those that it lacks."""
    if not transmission.servo_states:
        return dict.fromkeys(SERVO_STATES, 0.0)
    values = dict(zip(SERVO_STATES, transmission.read("servo_state"), strict=True))
    return {name: x if name in transmission.servo_states else 0.0 for name, x in values.items()}


def _read_controls(ctx: TraceContext, transmission: Transmission) -> dict[str, Value]:
    """Read the controls of a servo from its inputs or delay history, clamped to their ranges, by input name.

    0 for inputs that the servo lacks.
    """
    controls: dict[str, Value] = dict.fromkeys(("pos", "vel", "ff", "voltage"), 0.0)
    for k, name in enumerate(transmission.control_inputs):
        control = transmission.read(f"ctrl {k}")[0]
        if transmission.n_delay_samples:
            history, delay = transmission.read(f"history {k}"), transmission.read("delay")[0]
            control = interpolate_control_history(ctx, transmission.interpolation, history, delay)
        controls[name] = ir.clamp(control, *transmission.read(f"range {k}"))
    return controls


def _controller(
    ctx: TraceContext,
    transmission: Transmission,
    parameters: ServoParameters,
    states: dict[str, Value],
    unwrap: Callable[[Transmission, Value], Transmission],
) -> _Command:
    """Slew-rate-limited controls, PID force before clamping, and time derivatives of setpoint and error integral.

    The slew rate limits the first control. The error integral stops at its limit (anti-windup).
    """
    controls, rates = _read_controls(ctx, transmission), {}
    if "setpoint" in states and "setpoint" in transmission.servo_states:
        first, setpoint, largest = transmission.control_inputs[0], states["setpoint"], parameters["slew_rate"] * ctx.dt
        change = controls[first] - setpoint
        if transmission.is_angle_servo:
            change = controls[first] - unwrap(replace(transmission, length=setpoint), controls[first]).length
        change = ir.clamp(change, -largest, largest)
        rates["setpoint"], controls[first] = change / ctx.dt, setpoint + change
    length = unwrap(transmission, controls["pos"]).length if transmission.is_angle_servo else transmission.length
    error, integral = controls["pos"] - length, states["integral"]
    if "integral" in transmission.servo_states:
        limit = parameters["integral_limit"]
        rate = ir.select(integral, limit, error, ir.minimum(error, 0.0))
        rates["integral"] = ir.select(-limit, integral, rate, ir.maximum(error, 0.0))
    torque = parameters["kp"] * error + parameters["kv"] * (controls["vel"] - transmission.velocity)
    torque = torque + parameters["ki"] * integral + controls["ff"] + parameters["constant"]
    return _Command(controls, torque, rates)


def _electrical_force(
    ctx: TraceContext,
    transmission: Transmission,
    parameters: ServoParameters,
    states: dict[str, Value],
    command: _Command,
) -> tuple[ForceTerm, dict[str, Value]]:
    """Electromagnetic force of a DC motor with velocity derivative, and time derivatives of temperature and current.

    The force is the motor constant times the current: a state with electrical time constant, else the steady current
    (voltage - back EMF) / resistance.

    The controller computes its voltage with the resistance at the reference temperature.
    """
    constant, velocity = parameters["motor_constant"], transmission.velocity
    voltage, voltage_derivative = command.controls["voltage"], 0.0
    if set(transmission.control_inputs) - {"voltage"}:
        ratio, limit = parameters["resistance"] / constant, parameters["max_voltage"]
        drive = clamp_force_term(
            ForceTerm(ratio * command.torque + constant * velocity, constant - ratio * parameters["kv"]), -limit, limit
        )
        voltage, voltage_derivative = voltage + drive.force, drive.dforce_dvel
    resistance = parameters["resistance"]
    if "temperature" in transmission.servo_states:
        rise = states["temperature"] + parameters["ambient_temperature"] - parameters["reference_temperature"]
        resistance = ir.maximum(resistance * (1.0 + parameters["temperature_coefficient"] * rise), MINVAL)
    steady = (voltage - constant * velocity) / resistance
    steady_derivative = (voltage_derivative - constant) / resistance
    current, derivative, rates = steady, steady_derivative, {}
    if "current" in transmission.servo_states:
        tau, max_rate = parameters["time_constant"], parameters["max_current_rate"]
        rate = clamp_force_term(
            ForceTerm((steady - states["current"]) / tau, steady_derivative / tau), -max_rate, max_rate
        )
        current, derivative, rates["current"] = states["current"], 0.0, rate.force
        if transmission.act_early:
            duration = tau * one_minus_exp_neg(ctx.dt / tau)
            current, derivative = current + duration * rate.force, duration * rate.dforce_dvel
    if "temperature" in transmission.servo_states:
        heating_current = states["current"] if "current" in transmission.servo_states else current
        power = resistance * heating_current * heating_current
        loss = states["temperature"] / parameters["thermal_resistance"]
        rates["temperature"] = (power - loss) / parameters["thermal_capacitance"]
    return ForceTerm(constant * current, constant * derivative), rates


def _mechanical_force(
    transmission: Transmission, parameters: ServoParameters, states: dict[str, Value]
) -> tuple[ForceTerm, Value]:
    """Sum of cogging torque and LuGre friction of a DC motor with velocity derivative, and the bristle's rate.

    As in MuJoCo, only the bristle damping counts for the derivative. Without bristle state there is no friction.
    """
    angle = parameters["cogging_poles"] * transmission.length + parameters["cogging_phase"]
    force = parameters["cogging_amplitude"] * ir.sin(angle)
    if "bristle" not in transmission.servo_states:
        return ForceTerm(force, 0.0), 0.0
    stiffness, damping = parameters["bristle_stiffness"], parameters["bristle_damping"]
    rate = transmission.velocity - _bristle_decay(parameters, transmission.velocity) * states["bristle"]
    return ForceTerm(force - stiffness * states["bristle"] - damping * rate, -damping), rate


def _bristle_decay(parameters: ServoParameters, velocity: Value) -> Value:
    """Decay rate sigma_0 |v| / g(v) of the bristle deflection [1/s], with the Stribeck curve g."""
    coulomb, static = parameters["coulomb_friction"], parameters["static_friction"]
    ratio = velocity / ir.maximum(parameters["stribeck_velocity"], MINVAL)
    stribeck = static - (static - coulomb) * one_minus_exp_neg(ratio * ratio)
    return parameters["bristle_stiffness"] * ir.absolute(velocity) / ir.maximum(stribeck, MINVAL)


# ----------------------------------------------------------------------------------------------- integration of states


def integrate_servo_states(ctx: TraceContext, actuators: Transmissions) -> None:
    """Trace a loop that integrates the states of PID controllers and DC motors over a step or RK4 stage.

    States of disabled actuators stay.
    """
    if not actuators.servo_rate_offsets:
        return
    is_rk4 = ctx.settings.integrator is Integrator.RK4

    def body(actuator: Transmission) -> None:
        parameters, before = ServoParameters(actuator), actuator.read("servo_state")
        *rates, velocity = actuator.read("servo rates")
        if is_rk4:
            (first_velocity,) = actuator.read("stage_servo_velocity")
            velocity = ir.select(ctx.read("phase"), 0.5, velocity, first_velocity)
            ctx.iteration.write("stage_servo_velocity", [velocity])
        advance = _rk4_stage if is_rk4 else _step
        after: list[Any] = [
            advance(ctx, actuator, parameters, k, rates[k], velocity) if name in actuator.servo_states else before[k]
            for k, name in enumerate(SERVO_STATES)
        ]
        if is_rk4:
            for array, column in (("stage_servo_state", 1), ("stage_sum_servo_state", 2)):
                ctx.iteration.write(array, [x[column] if isinstance(x, tuple) else 0.0 for x in after])
            after = [x[0] if isinstance(x, tuple) else x for x in after]
        if ctx.settings.input_mode is not InputMode.ACTUATORS:
            (on,) = actuator.read("actuator_on")
            after = [ir.select(0.5, on, x, y) for x, y in zip(after, before, strict=True)]
        ctx.iteration.write("servo_state", after)

    actuators.for_each("states of servos", body, lambda specialization: bool(specialization.servo_states))


def _step(
    ctx: TraceContext, actuator: Transmission, parameters: ServoParameters, index: int, rate: Value, velocity: Value
) -> Value:
    """State variable after one step at a constant rate."""
    return _integrate(ctx, actuator, parameters, index, actuator.read("servo_state")[index], rate, velocity)


def _rk4_stage(
    ctx: TraceContext, actuator: Transmission, parameters: ServoParameters, index: int, rate: Value, velocity: Value
) -> tuple[Value, Value, Value]:
    """RK4 stage of a servo state: value for the next stage, value at the start of the step, weighted sum of rates.

    Limits and exact solutions apply to the whole step, in the last stage; that of the bristle has the first velocity.
    """
    phase, value = ctx.read("phase"), actuator.read("servo_state")[index]
    start = ir.select(phase, 0.5, value, actuator.read("stage_servo_state")[index])
    total = ir.select(phase, 0.5, 0.0, actuator.read("stage_sum_servo_state")[index]) + rk4_weight(phase) * rate
    end = _integrate(ctx, actuator, parameters, index, start, total, velocity)
    return ir.select(2.5, phase, end, start + rk4_next_time_offset(phase, ctx.dt) * rate), start, total


def _integrate(
    ctx: TraceContext,
    actuator: Transmission,
    parameters: ServoParameters,
    index: int,
    value: Value,
    rate: Value,
    velocity: Value,
) -> Value:
    """Servo state variable after one step from `value`: exact for bristle and current, else by explicit Euler.

    The error integral of a DC motor is clamped to its limit.

    Args:
        ctx: trace context, which gives the time step.
        actuator: the actuator of the loop iteration being traced.
        parameters: parameters of the PID controller or DC motor.
        index: index of the state variable in `SERVO_STATES`.
        value: value at the start of the step.
        rate: its time derivative.
        velocity: velocity of the actuator.
    """
    name, dt = SERVO_STATES[index], ctx.dt
    if name == "bristle":
        decay = _bristle_decay(parameters, velocity) * dt
        remaining = one_minus_exp_neg(decay)
        duration = ir.select(MINVAL, decay, remaining / ir.maximum(decay, MINVAL), 1.0) * dt
        return (1.0 - remaining) * value + duration * velocity
    if name == "current":
        tau = parameters["time_constant"]
        return value + tau * one_minus_exp_neg(dt / tau) * rate
    after = value + dt * rate
    if name == "integral" and actuator.kind == "dcmotor":
        limit = parameters["integral_limit"]
        return ir.clamp(after, -limit, limit)
    return after


def record_servo_controls(ctx: TraceContext, actuators: Transmissions) -> None:
    """Trace a loop that prepends the second and further controls of delayed servos to their history buffers.

    These controls belong to rows without transmission, which `record_controls` does not cover.
    """

    def body(actuator: Transmission) -> None:
        for k in range(1, len(actuator.control_inputs)):
            new = push_control_history(ctx, actuator.read(f"ctrl {k}")[0], actuator.read(f"history {k}"))
            ctx.iteration.write(f"history {k}", new)

    actuators.for_each(
        "record delayed controls of servos",
        body,
        lambda specialization: specialization.n_delay_samples > 0 and len(specialization.control_inputs) > 1,
    )
