"""Converts MuJoCo tendons and actuators."""

from __future__ import annotations

import math
from typing import Any

from kinema.description import Actuator, Tendon, TendonPathItem, TendonPathKind, Transmission
from kinema.tokens import mjcf

from .damping_ratios import actuator_bias
from .extras import plugin_extras
from .materials import read_visual_material
from .model_reader import (
    ModelReader,
    enum_name,
    n_actuators,
    nonempty_settings,
    polynomial_coefficients,
    solver_parameters,
    store_nonempty_settings,
    to_floats,
)
from .mujoco_compiler import mujoco

# -- tendons -----------------------------------------------------------------------------------------------------------


def read_tendons(reader: ModelReader) -> list[tuple[set[int], Tendon]]:
    """All tendons, each with the set of bodies on its path."""
    return [(tendon_bodies(reader.model, t), _read_tendon(reader, t)) for t in range(reader.model.ntendon)]


def _read_tendon(reader: ModelReader, index: int) -> Tendon:
    """Convert one tendon: path, stiffness, damping, limits, solver parameters and appearance."""
    model = reader.model
    tendon = Tendon(
        **reader.node_arguments(mjcf.TENDON, "tendons", index),
        path=[_path_item(reader, wrap) for wrap in _wrap_indices(model, index)],
        stiffness=float(model.tendon_stiffness[index]),
        damping=float(model.tendon_damping[index]),
        friction=float(model.tendon_frictionloss[index]),
        armature=float(model.tendon_armature[index]) if hasattr(model, "tendon_armature") else 0.0,
        spring_length=_spring_length(reader, index),
        width=float(model.tendon_width[index]),
        limit_solver=solver_parameters(
            model.tendon_solref_lim[index], model.tendon_solimp_lim[index], model.tendon_margin[index]
        ),
        friction_solver=solver_parameters(model.tendon_solref_fri[index], model.tendon_solimp_fri[index]),
    )
    if model.tendon_limited[index]:
        tendon.lower, tendon.upper = to_floats(model.tendon_range[index])
    if hasattr(model, "tendon_actfrclimited") and model.tendon_actfrclimited[index]:
        low, high = to_floats(model.tendon_actfrcrange[index])
        tendon.force_range = (low, high)
    material = read_visual_material(reader, int(model.tendon_matid[index]), model.tendon_rgba[index])
    tendon.color = material.color or tendon.color
    store_nonempty_settings(
        tendon.attributes,
        {
            mjcf.MATERIAL: material.name,
            mjcf.GROUP: int(model.tendon_group[index]),
            mjcf.UNUSED_RANGE: () if model.tendon_limited[index] else to_floats(model.tendon_range[index]),
            mjcf.STIFFNESSPOLY: polynomial_coefficients(model, "tendon_stiffnesspoly", index),
            mjcf.DAMPINGPOLY: polynomial_coefficients(model, "tendon_dampingpoly", index),
            mjcf.SPRINGYIELD: float(getattr(model, "tendon_springyield", (0.0,) * model.ntendon)[index]),
            mjcf.USER: model.tendon_user[index] if model.nuser_tendon else (),
        },
    )
    return tendon


def _spring_length(reader: ModelReader, index: int) -> tuple[float, float] | None:
    """Spring length range [m] as written; None for -1, the length at the reference configuration."""
    spec = reader.spec_element("tendons", index)
    written = to_floats(spec.springlength) if spec is not None else ()
    if len(written) == 2 and written[0] == -1.0:
        return None
    low, high = to_floats(reader.model.tendon_lengthspring[index])
    return low, high


def _wrap_indices(model: Any, index: int) -> range:
    first = int(model.tendon_adr[index])
    return range(first, first + int(model.tendon_num[index]))


def _path_item(reader: ModelReader, wrap: int) -> TendonPathItem:
    """Convert one wrap object (joint, pulley, site or wrapping geom) to a tendon path item."""
    model, kinds = reader.model, mujoco().mjtWrap
    target, parameter = int(model.wrap_objid[wrap]), float(model.wrap_prm[wrap])
    match int(model.wrap_type[wrap]):
        case kinds.mjWRAP_JOINT:
            return TendonPathItem(
                kind=TendonPathKind.JOINT, target=reader.name(mjcf.JOINT, target), coefficient=parameter
            )
        case kinds.mjWRAP_PULLEY:
            return TendonPathItem(kind=TendonPathKind.PULLEY, coefficient=parameter)
        case kinds.mjWRAP_SITE:
            return TendonPathItem(kind=TendonPathKind.SITE, target=reader.name(mjcf.SITE, target))
    # a sphere or cylinder; the parameter is the index of the side site
    side = reader.name(mjcf.SITE, round(parameter))
    return TendonPathItem(kind=TendonPathKind.WRAP, target=reader.name(mjcf.GEOM, target), side=side)


def tendon_bodies(model: Any, index: int) -> set[int]:
    """Bodies of the joints, sites and wrapping geoms on the path of a tendon."""
    kinds = mujoco().mjtWrap
    bodies: set[int] = set()
    for wrap in _wrap_indices(model, index):
        target = int(model.wrap_objid[wrap])
        match int(model.wrap_type[wrap]):
            case kinds.mjWRAP_JOINT:
                bodies.add(int(model.jnt_bodyid[target]))
            case kinds.mjWRAP_SITE:
                bodies.add(int(model.site_bodyid[target]))
            case kinds.mjWRAP_SPHERE | kinds.mjWRAP_CYLINDER:
                bodies.add(int(model.geom_bodyid[target]))
                side = round(float(model.wrap_prm[wrap]))
                if side >= 0:
                    bodies.add(int(model.site_bodyid[side]))
    return bodies


# -- actuators ---------------------------------------------------------------------------------------------------------

_UNLIMITED = (-math.inf, math.inf)


def read_actuators(reader: ModelReader) -> list[tuple[set[int], Actuator]]:
    """All actuators, each with the set of bodies on which it acts."""
    return [(actuator_bodies(reader.model, a), _read_actuator(reader, a)) for a in range(n_actuators(reader.model))]


def _read_actuator(reader: ModelReader, index: int) -> Actuator:
    """Convert one actuator: transmission, gear, gain, bias, activation dynamics and ranges."""
    model = reader.model
    transmission, target, reference = _transmission_target(reader, index)
    control, output = control_address(model, index), _output_address(model, index)
    actuator = Actuator(
        **reader.node_arguments(mjcf.ACTUATOR, "actuators", index),
        transmission=transmission,
        target=target,
        reference=reference,
        gear=to_floats(model.actuator_gear[output]),
        crank_length=float(model.actuator_cranklength[index]),
        gain_type=enum_name(model.actuator_gaintype[index], "mjtGain"),
        gain=to_floats(model.actuator_gainprm[index]),
        bias_type=enum_name(model.actuator_biastype[index], "mjtBias"),
        bias=actuator_bias(reader, index, output),
        dynamics_type=enum_name(model.actuator_dyntype[index], "mjtDyn"),
        dynamics=to_floats(model.actuator_dynprm[index]),
        control_range=_limited_range(model.actuator_ctrllimited, model.actuator_ctrlrange, control)
        if n_controls(model, index)
        else _UNLIMITED,
        force_range=_limited_range(model.actuator_forcelimited, model.actuator_forcerange, index),
        activation_range=_limited_range(model.actuator_actlimited, model.actuator_actrange, index),
    )
    actuator.extras = plugin_extras(reader, "actuators", index)
    low, high = to_floats(model.actuator_lengthrange[output])
    actuator.length_range = (low, high)
    _store_actuator_settings(reader, index, actuator)
    return actuator


def _limited_range(limited: Any, ranges: Any, index: int) -> tuple[float, float]:
    if not limited[index]:
        return _UNLIMITED
    low, high = to_floats(ranges[index])
    return low, high


def _transmission_target(reader: ModelReader, index: int) -> tuple[Transmission, str, str]:
    """Transmission type of an actuator, the name of its target and of its reference (empty if none)."""
    kinds, model = mujoco().mjtTrn, reader.model
    first, second = (int(i) for i in model.actuator_trnid[index])
    kind = int(model.actuator_trntype[index])
    match kind:
        case kinds.mjTRN_JOINT:
            return Transmission.JOINT, reader.name(mjcf.JOINT, first), ""
        case kinds.mjTRN_JOINTINPARENT:
            return Transmission.JOINT_IN_PARENT, reader.name(mjcf.JOINT, first), ""
        case kinds.mjTRN_TENDON:
            return Transmission.TENDON, reader.name(mjcf.TENDON, first), ""
        case kinds.mjTRN_BODY:
            return Transmission.BODY, reader.name(mjcf.BODY, first), ""
        case kinds.mjTRN_SLIDERCRANK:
            return Transmission.SLIDER_CRANK, reader.name(mjcf.SITE, first), reader.name(mjcf.SITE, second)
        case kinds.mjTRN_SITE:
            return Transmission.SITE, reader.name(mjcf.SITE, first), reader.name(mjcf.SITE, second)
    # an orientation servo acts on a ball joint, or on a site against a reference site
    if second < 0:
        return Transmission.ORIENTATION, reader.name(mjcf.JOINT, first), ""
    return Transmission.ORIENTATION, reader.name(mjcf.SITE, first), reader.name(mjcf.SITE, second)


def control_address(model: Any, index: int) -> int:
    """Index of the first control of an actuator in `ctrl`."""
    return int(model.actuator_ctrladr[index]) if hasattr(model, "actuator_ctrladr") else index


def n_controls(model: Any, index: int) -> int:
    """Number of controls of an actuator."""
    return int(model.actuator_ctrlnum[index]) if hasattr(model, "actuator_ctrlnum") else 1


def _output_address(model: Any, index: int) -> int:
    return int(model.actuator_outadr[index]) if hasattr(model, "actuator_outadr") else index


def _store_actuator_settings(reader: ModelReader, index: int, actuator: Actuator) -> None:
    """Store the remaining MuJoCo attributes of an actuator in its settings."""
    model = reader.model
    control = control_address(model, index)
    element = reader.xml_element("actuators", index)
    history = tuple(int(n) for n in model.actuator_history[index]) if hasattr(model, "actuator_history") else ()
    actuator.settings = nonempty_settings(
        {
            mjcf.SHORTCUT: "" if element is None else element.tag,
            mjcf.GROUP: int(model.actuator_group[index]),
            mjcf.UNUSED_RANGE: ()
            if n_controls(model, index) == 0 or model.actuator_ctrllimited[control]
            else to_floats(model.actuator_ctrlrange[control]),
            mjcf.ACTEARLY: bool(model.actuator_actearly[index]),
            mjcf.N_ACTIVATIONS: int(model.actuator_actnum[index]),
            mjcf.N_CONTROLS: n_controls(model, index) if n_controls(model, index) > 1 else 0,
            mjcf.CONTROL_RANGES: _control_ranges(model, index) if n_controls(model, index) > 1 else (),
            mjcf.DELAY: float(getattr(model, "actuator_delay", (0.0,) * (index + 1))[index]),
            mjcf.HISTORY: history,
            mjcf.DAMPING: float(getattr(model, "actuator_damping", (0.0,) * (index + 1))[index]),
            mjcf.DAMPINGPOLY: polynomial_coefficients(model, "actuator_dampingpoly", index),
            mjcf.ARMATURE: float(getattr(model, "actuator_armature", (0.0,) * (index + 1))[index]),
            mjcf.INPUT: int(getattr(model, "actuator_ctrlspec", (0,) * (index + 1))[index]),
            mjcf.PLUGIN: int(model.actuator_plugin[index]) >= 0,
            mjcf.USER: model.actuator_user[index] if model.nuser_actuator else (),
        }
    )


def _control_ranges(model: Any, index: int) -> tuple[tuple[float, float], ...]:
    """Ranges of the controls of an actuator; empty if none is limited."""
    first = control_address(model, index)
    controls = range(first, first + n_controls(model, index))
    ranges = tuple(_limited_range(model.actuator_ctrllimited, model.actuator_ctrlrange, c) for c in controls)
    return ranges if any(r != _UNLIMITED for r in ranges) else ()


def actuator_bodies(model: Any, index: int) -> set[int]:
    """Bodies on which an actuator acts through its transmission."""
    kinds = mujoco().mjtTrn
    first, second = (int(i) for i in model.actuator_trnid[index])
    match int(model.actuator_trntype[index]):
        case kinds.mjTRN_JOINT | kinds.mjTRN_JOINTINPARENT:
            return {int(model.jnt_bodyid[first])}
        case kinds.mjTRN_TENDON:
            return tendon_bodies(model, first)
        case kinds.mjTRN_BODY:
            return {first}
        case kinds.mjTRN_SITE | kinds.mjTRN_SLIDERCRANK:
            return {int(model.site_bodyid[s]) for s in (first, second) if s >= 0}
    if second < 0:
        return {int(model.jnt_bodyid[first])}
    return {int(model.site_bodyid[first]), int(model.site_bodyid[second])}
