"""Parameters, control inputs and states of PID controllers and DC motors (MJCF `pid`, `dcmotor`)."""

from __future__ import annotations

import numpy as np

from kinema.core import Array
from kinema.description import Actuator
from kinema.model import CONTROL_INPUTS, SERVO_PARAMETERS, SERVO_STATES
from kinema.tokens import mjcf

SERVO_KINDS = ("pid", "dcmotor")
"""Gain types with these parameters."""
DEFAULT_INPUTS = {"pid": 0b0011, "dcmotor": 0b1000}
"""Bit masks of the inputs that files without a choice of inputs have: pos and vel, and voltage."""
N_PARAMETERS = 10
"""Number of parameters that MuJoCo has for gain, bias and dynamics each."""


def control_inputs(actuator: Actuator) -> tuple[str, ...]:
    """Names of the control inputs of a PID controller or DC motor; empty for a passive motor."""
    mask = int(actuator.settings.get(mjcf.INPUT, 0)) or DEFAULT_INPUTS[actuator.gain_type]
    return tuple(name for i, name in enumerate(CONTROL_INPUTS) if mask >> i & 1)


def servo_states(actuator: Actuator) -> tuple[str, ...]:
    """Names of the state variables of a PID controller or DC motor, in the order of MuJoCo's activations."""
    values = _named_parameters(actuator)
    is_present = {
        "setpoint": 0.0 < values["slew_rate"] < np.inf,
        "integral": values["ki"] > 0.0,
        "temperature": values["thermal_resistance"] > 0.0,
        "bristle": values["bristle_stiffness"] > 0.0,
        "current": values["time_constant"] > 0.0,
    }
    return tuple(name for name in SERVO_STATES if is_present[name])


def servo_parameters(actuator: Actuator) -> Array:
    """Parameters of a PID controller or DC motor in the order of `SERVO_PARAMETERS`; missing limits are infinite."""
    values = _named_parameters(actuator)
    return np.array([values[name] for name in SERVO_PARAMETERS])


def _named_parameters(actuator: Actuator) -> dict[str, float]:
    """Parameters by name, from the gain, bias and dynamics parameters of MuJoCo; 0 for what the actuator lacks."""
    gain, bias, dynamics = (
        (*values, *[0.0] * N_PARAMETERS)[:N_PARAMETERS] for values in (actuator.gain, actuator.bias, actuator.dynamics)
    )
    values: dict[str, float]
    if actuator.gain_type == "pid":
        values = {"kp": -bias[1], "ki": gain[0], "kv": -bias[2], "constant": bias[0]}
        values |= {"integral_limit": dynamics[0], "slew_rate": dynamics[1]}
    else:
        names = ("resistance", "motor_constant", "temperature_coefficient", "reference_temperature")
        values = dict(zip([*names, "kp", "ki", "kv", "max_voltage"], gain, strict=False))
        values["resistance"] = max(values["resistance"], MINVAL)
        names = ("time_constant", "max_current_rate", "thermal_resistance", "thermal_capacitance")
        names += ("ambient_temperature", "bristle_stiffness", "bristle_damping", "slew_rate", "integral_limit")
        values |= dict(zip(names, dynamics, strict=False))
        names = ("cogging_amplitude", "cogging_poles", "cogging_phase")
        values |= dict(zip([*names, "coulomb_friction", "static_friction", "stribeck_velocity"], bias, strict=False))
    values = {name: float(values.get(name, 0.0)) for name in SERVO_PARAMETERS}
    return values | {name: values[name] if values[name] > 0.0 else np.inf for name in LIMITS}


MINVAL = 1e-15
"""MuJoCo's mjMINVAL: lower bound of divisors."""
LIMITS = ("integral_limit", "slew_rate", "max_voltage", "max_current_rate")
"""Parameters for which 0 stands for no limit."""
