"""Actuators: a transmission, and what MuJoCo's shortcuts (`motor`, `position`, ...) come down to."""

from __future__ import annotations

import math
from typing import Any

from kinema.description import Actuator, Transmission
from kinema.words import mjcf

from .engine import mujoco
from .leftovers import plugins_of
from .reading import Reading, floats, given, n_actuators, polynomial, word
from .tendons import bodies_of_tendon

_UNLIMITED = (-math.inf, math.inf)


def actuators(reading: Reading) -> list[tuple[set[int], Actuator]]:
    """Every actuator with the bodies it acts on."""
    return [(bodies_of_actuator(reading.model, a), _actuator(reading, a)) for a in range(n_actuators(reading.model))]


def _actuator(reading: Reading, number: int) -> Actuator:
    model = reading.model
    transmission, target, reference = _target(reading, number)
    control, output = first_control(model, number), _first_output(model, number)
    actuator = Actuator(
        **reading.node(mjcf.ACTUATOR, "actuators", number),
        transmission=transmission,
        target=target,
        reference=reference,
        gear=floats(model.actuator_gear[output]),
        crank_length=float(model.actuator_cranklength[number]),
        gain_type=word(model.actuator_gaintype[number], "mjtGain"),
        gain=floats(model.actuator_gainprm[number]),
        bias_type=word(model.actuator_biastype[number], "mjtBias"),
        bias=floats(model.actuator_biasprm[number]),
        dynamics_type=word(model.actuator_dyntype[number], "mjtDyn"),
        dynamics=floats(model.actuator_dynprm[number]),
        control_range=_range(model.actuator_ctrllimited, model.actuator_ctrlrange, control),
        force_range=_range(model.actuator_forcelimited, model.actuator_forcerange, number),
        activation_range=_range(model.actuator_actlimited, model.actuator_actrange, number),
    )
    actuator.extras = plugins_of(reading, "actuators", number)
    low, high = floats(model.actuator_lengthrange[output])
    actuator.length_range = (low, high)
    _settings(reading, number, actuator)
    return actuator


def _range(limited: Any, ranges: Any, number: int) -> tuple[float, float]:
    if not limited[number]:
        return _UNLIMITED
    low, high = floats(ranges[number])
    return low, high


def _target(reading: Reading, number: int) -> tuple[Transmission, str, str]:
    """How the actuator acts, on what, and its reference."""
    kinds, model = mujoco().mjtTrn, reading.model
    first, second = (int(i) for i in model.actuator_trnid[number])
    kind = int(model.actuator_trntype[number])
    match kind:
        case kinds.mjTRN_JOINT:
            return Transmission.JOINT, reading.name(mjcf.JOINT, first), ""
        case kinds.mjTRN_JOINTINPARENT:
            return Transmission.JOINT_IN_PARENT, reading.name(mjcf.JOINT, first), ""
        case kinds.mjTRN_TENDON:
            return Transmission.TENDON, reading.name(mjcf.TENDON, first), ""
        case kinds.mjTRN_BODY:
            return Transmission.BODY, reading.name(mjcf.BODY, first), ""
        case kinds.mjTRN_SLIDERCRANK:
            return Transmission.SLIDER_CRANK, reading.name(mjcf.SITE, first), reading.name(mjcf.SITE, second)
        case kinds.mjTRN_SITE:
            return Transmission.SITE, reading.name(mjcf.SITE, first), reading.name(mjcf.SITE, second)
    # an orientation servo acts on a ball joint, or on a site against a reference site
    if second < 0:
        return Transmission.ORIENTATION, reading.name(mjcf.JOINT, first), ""
    return Transmission.ORIENTATION, reading.name(mjcf.SITE, first), reading.name(mjcf.SITE, second)


def first_control(model: Any, number: int) -> int:
    """Where an actuator's controls begin."""
    return int(model.actuator_ctrladr[number]) if hasattr(model, "actuator_ctrladr") else number


def n_controls(model: Any, number: int) -> int:
    """How many controls an actuator has."""
    return int(model.actuator_ctrlnum[number]) if hasattr(model, "actuator_ctrlnum") else 1


def _first_output(model: Any, number: int) -> int:
    return int(model.actuator_outadr[number]) if hasattr(model, "actuator_outadr") else number


def _settings(reading: Reading, number: int, actuator: Actuator) -> None:
    """Everything else that MuJoCo has."""
    model = reading.model
    control = first_control(model, number)
    element = reading.element("actuators", number)
    samples = tuple(int(n) for n in model.actuator_history[number]) if hasattr(model, "actuator_history") else ()
    actuator.settings = given(
        {
            mjcf.SHORTCUT: "" if element is None else element.tag,
            mjcf.GROUP: int(model.actuator_group[number]),
            mjcf.UNUSED_RANGE: () if model.actuator_ctrllimited[control] else floats(model.actuator_ctrlrange[control]),
            mjcf.ACTEARLY: bool(model.actuator_actearly[number]),
            mjcf.N_ACTIVATIONS: int(model.actuator_actnum[number]),
            mjcf.N_CONTROLS: n_controls(model, number) if n_controls(model, number) > 1 else 0,
            mjcf.CONTROL_RANGES: _control_ranges(model, number) if n_controls(model, number) > 1 else (),
            mjcf.DELAY: float(getattr(model, "actuator_delay", (0.0,) * (number + 1))[number]),
            mjcf.HISTORY: samples,
            mjcf.DAMPING: float(getattr(model, "actuator_damping", (0.0,) * (number + 1))[number]),
            mjcf.DAMPINGPOLY: polynomial(model, "actuator_dampingpoly", number),
            mjcf.ARMATURE: float(getattr(model, "actuator_armature", (0.0,) * (number + 1))[number]),
            mjcf.INPUT: int(getattr(model, "actuator_ctrlspec", (0,) * (number + 1))[number]),
            mjcf.PLUGIN: int(model.actuator_plugin[number]) >= 0,
            mjcf.USER: model.actuator_user[number] if model.nuser_actuator else (),
        }
    )


def _control_ranges(model: Any, number: int) -> tuple[tuple[float, float], ...]:
    """The range of each of several controls; nothing where none is limited."""
    first = first_control(model, number)
    controls = range(first, first + n_controls(model, number))
    ranges = tuple(_range(model.actuator_ctrllimited, model.actuator_ctrlrange, c) for c in controls)
    return ranges if any(r != _UNLIMITED for r in ranges) else ()


def bodies_of_actuator(model: Any, number: int) -> set[int]:
    """The bodies an actuator acts on."""
    kinds = mujoco().mjtTrn
    first, second = (int(i) for i in model.actuator_trnid[number])
    match int(model.actuator_trntype[number]):
        case kinds.mjTRN_JOINT | kinds.mjTRN_JOINTINPARENT:
            return {int(model.jnt_bodyid[first])}
        case kinds.mjTRN_TENDON:
            return bodies_of_tendon(model, first)
        case kinds.mjTRN_BODY:
            return {first}
        case kinds.mjTRN_SITE | kinds.mjTRN_SLIDERCRANK:
            return {int(model.site_bodyid[s]) for s in (first, second) if s >= 0}
    if second < 0:
        return {int(model.jnt_bodyid[first])}
    return {int(model.site_bodyid[first]), int(model.site_bodyid[second])}
