"""Table of actuators: transmissions, gain and bias laws, activation dynamics, control delay and muscle parameters.

Follows MuJoCo's actuation model: force = gain(length, velocity) * (ctrl or act) + bias(length, velocity), applied along
the moment arm of the transmission.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from kinema.core import Array, reproducible_norm, reproducible_product
from kinema.description import Actuator, Tendon, Transmission
from kinema.model import SERVO_PARAMETERS, ActuatorsInfo, DofsInfo
from kinema.tokens import mjcf

from .context import BuildContext, all_elements, find_attachment_frame, find_joint
from .options import enabled_actuators, option_flags
from .paths import WORLD_FRAME, add_path, joint_path_idx, path_dof_mask, tendon_path_idx
from .servo_parameters import SERVO_KINDS, control_inputs, servo_parameters, servo_states
from .tendons import fixed_tendon_moment

# -------------------------------------------------------------------------------------------- gain, bias and activation

MINVAL = 1e-15
"""MuJoCo's mjMINVAL: lower bound of divisors."""
SUPPORTED_DYNAMICS = ("none", "integrator", "filter", "filterexact", "muscle", "pid", "dcmotor")
"""Supported activation dynamics (MJCF `dyntype`)."""
SUPPORTED_GAINS = ("fixed", "affine", "muscle", "so3", "pid", "dcmotor")
"""Supported gain types (MJCF `gaintype`)."""
SUPPORTED_BIASES = ("none", "affine", "muscle", "so3", "dcmotor")
"""Supported bias types (MJCF `biastype`)."""
INTERPOLATIONS = ("zoh", "linear", "cubic")
"""Interpolation of delayed controls, by the index in MJCF's `history` setting."""
MAX_DELAY_SAMPLES = 100
"""Largest history of past controls of an actuator; all samples are shifted in each step."""
INPUT_ROW = "input"
"""Kind of the rows of the second and further controls of a PID controller or DC motor."""
N_MUSCLE_PARAMS = 9
"""Number of muscle parameters: range (2), force, scale, lmin, lmax, vmax, fpmax, fvmax."""


def unsupported_reason(actuator: Actuator) -> str:
    """Reason why an actuator cannot be simulated (plugin, dynamics, gain or bias type), as text; empty if it can."""
    if actuator.settings.get(mjcf.PLUGIN):
        return "a plugin"
    if actuator.dynamics_type not in SUPPORTED_DYNAMICS:
        return f"activation dynamics ({actuator.dynamics_type})"
    if actuator.gain_type not in SUPPORTED_GAINS:
        return f"gain of type {actuator.gain_type}"
    if actuator.bias_type not in SUPPORTED_BIASES:
        return f"bias of type {actuator.bias_type}"
    return ""


def ignored_settings(actuator: Actuator) -> list[str]:
    """Names of the settings of a supported actuator that are not simulated: `delay` with too long a history."""
    return [mjcf.DELAY] if _delay_history(actuator)[0] > MAX_DELAY_SAMPLES else []


def delay_samples(actuator: Actuator) -> tuple[int, str]:
    """Number of past controls stored for the control delay, and their interpolation (`zoh`, `linear`, `cubic`).

    0 and an empty string without a delay, or if the history exceeds `MAX_DELAY_SAMPLES`.
    """
    count, interpolation = _delay_history(actuator)
    return (count, INTERPOLATIONS[interpolation]) if 0 < count <= MAX_DELAY_SAMPLES else (0, "")


def _delay_history(actuator: Actuator) -> tuple[int, int]:
    count, interpolation = (*actuator.settings.get(mjcf.HISTORY, ()), 0, 0)[:2]
    return (int(count), int(interpolation)) if actuator.settings.get(mjcf.DELAY, 0.0) > 0.0 else (0, 0)


def n_controls(actuator: Actuator) -> int:
    """Number of control inputs: 1, or 3 or 4 for an orientation servo (rotation vector or quaternion)."""
    return max(int(actuator.settings.get(mjcf.N_CONTROLS, 0)), 1)


def control_range(actuator: Actuator, control_idx: int) -> tuple[float, float]:
    """Control range (lower, upper) of one of the control inputs of an actuator."""
    ranges = actuator.settings.get(mjcf.CONTROL_RANGES, ())
    return ranges[control_idx] if control_idx < len(ranges) else actuator.control_range


def force_law(actuator: Actuator) -> str:
    """Force law of an actuator: `affine`, `muscle`, `muscle gain`, `muscle bias`, `orientation`, `pid`, `dcmotor`."""
    if actuator.gain_type in ("so3", *SERVO_KINDS):
        return "orientation" if actuator.gain_type == "so3" else actuator.gain_type
    gain, bias = actuator.gain_type == "muscle", actuator.bias_type == "muscle"
    return {(True, True): "muscle", (True, False): "muscle gain", (False, True): "muscle bias"}.get(
        (gain, bias), "affine"
    )


def depends_on_length(actuator: Actuator) -> bool:
    """Whether the actuator force depends on the transmission length or velocity."""
    return (
        force_law(actuator) != "affine"
        or (actuator.gain_type == "affine" and any(actuator.gain[1:3]))
        or (actuator.bias_type == "affine" and any(actuator.bias[1:3]))
    )


def activation_dynamics(actuator: Actuator) -> str:
    """Activation dynamics of an actuator: its MJCF `dyntype`, or `smooth muscle`.

    A muscle is `smooth muscle` if its third dynamics parameter (width of the smoothed switch between the time constants
    of activation and deactivation) is not zero. States of PID controllers and DC motors are no activations here.
    """
    if actuator.gain_type in SERVO_KINDS:
        return "none"
    smooth = actuator.dynamics_type == "muscle" and len(actuator.dynamics) > 2 and actuator.dynamics[2] >= MINVAL
    return "smooth muscle" if smooth else actuator.dynamics_type


def uses_act_early(actuator: Actuator) -> bool:
    """Whether the force uses the activation of the next step (MJCF `actearly`)."""
    return bool(actuator.settings.get(mjcf.ACTEARLY)) and actuator.dynamics_type != "none"


def time_constants(actuator: Actuator) -> Array:
    """Parameters of the activation dynamics, shape (3,); zeros without activation dynamics.

    The time constant [s] of a filter; for a muscle, the time constants of activation and deactivation [s] and the width
    of the smoothed transition between them.
    """
    constants = zero_padded(actuator.dynamics, 3)
    if actuator.dynamics_type in ("filter", "filterexact"):
        constants = np.array([max(MINVAL, constants[0]), 0.0, 0.0])
    return constants if actuator.dynamics_type != "none" else np.zeros(3)


def muscle_gain_params(actuator: Actuator) -> Array:
    """Parameters of the active force-length-velocity curve of a muscle, shape (9,); zeros for other gain types.

    The order is that of `ActuatorsInfo.muscle_gain_params`: normalisation of the length (3), inverse of the maximum
    velocity, inverse widths of the force-length curve below and above its optimum (2), fvmax, fvmax - 1 and its
    inverse.
    """
    if actuator.gain_type != "muscle":
        return np.zeros(9)
    low, high, _, _, lmin, lmax, vmax, _, fvmax = zero_padded(actuator.gain, N_MUSCLE_PARAMS)
    optimal_length = _optimal_length(actuator, low, high)
    widths = [2.0 / max(2 * MINVAL, 1.0 - lmin), 2.0 / max(2 * MINVAL, lmax - 1.0)]
    excess = fvmax - 1.0
    return np.array(
        [
            *_length_normalization(actuator, low, optimal_length),
            1.0 / max(MINVAL, optimal_length * vmax),
            *widths,
            fvmax,
            excess,
            1.0 / max(MINVAL, excess),
        ]
    )


def muscle_bias_params(actuator: Actuator) -> Array:
    """Parameters of the passive force-length curve of a muscle, shape (5,); zeros for other bias types.

    The order is that of `ActuatorsInfo.muscle_bias_params`: normalisation of the length (3), inverse width of the
    curve, fpmax.
    """
    if actuator.bias_type != "muscle":
        return np.zeros(5)
    low, high, _, _, _, lmax, _, fpmax, _ = zero_padded(actuator.bias, N_MUSCLE_PARAMS)
    width = 2.0 / max(2 * MINVAL, lmax - 1.0)
    return np.array([*_length_normalization(actuator, low, _optimal_length(actuator, low, high)), width, fpmax])


def peak_forces(actuator: Actuator) -> tuple[list[float], list[bool]]:
    """Peak isometric forces [N] of muscle gain and muscle bias, and whether each must be divided by acc0.

    A negative `force` parameter asks for `scale` / acc0, where acc0 is the acceleration caused by unit actuator force
    in the initial state. Zeros for gains and biases of other types.
    """
    forces, needs_acc0 = [0.0, 0.0], [False, False]
    for i, (law_type, params) in enumerate(
        ((actuator.gain_type, actuator.gain), (actuator.bias_type, actuator.bias)),
    ):
        if law_type == "muscle":
            force, scale = zero_padded(params, N_MUSCLE_PARAMS)[2:4]
            needs_acc0[i] = bool(force < 0.0)
            forces[i] = float(scale if needs_acc0[i] else force)
    return forces, needs_acc0


def _optimal_length(actuator: Actuator, range_lower: float, range_upper: float) -> float:
    """Optimal muscle length L0 (of maximum active force): length range divided by the normalised operating range."""
    lower, upper = actuator.length_range
    return (upper - lower) / max(MINVAL, range_upper - range_lower)


def _length_normalization(actuator: Actuator, range_lower: float, optimal_length: float) -> tuple[float, float, float]:
    """Normalisation of the muscle length: (lower length, lower normalised length, 1 / L0)."""
    return actuator.length_range[0], range_lower, 1.0 / max(MINVAL, optimal_length)


def zero_padded(values: tuple[float, ...], count: int) -> Array:
    """The first `count` values as an array, padded with zeros."""
    result = np.zeros(count)
    result[: min(count, len(values))] = values[:count]
    return result


# --------------------------------------------------------------------------------------------------- table of actuators


_JOINT_TRANSMISSIONS = (Transmission.JOINT, Transmission.JOINT_IN_PARENT)


def pack_actuators(ctx: BuildContext) -> tuple[ActuatorsInfo, list[int]]:
    """Table of actuators, one row per control input of each simulated actuator, and the entity index of each row.

    Disabled and unsupported actuators have no row. An orientation servo has a row for each component of its target.
    Controls of entities with `clampctrl` off have infinite ranges.
    """
    rows: list[_ActuatorRow] = []
    unclamped = {e for e, spec in enumerate(ctx.entities) if not option_flags(spec.description).clampctrl}
    for entity in range(len(ctx.entities)):
        for actuator in enabled_actuators(ctx, entity):
            rows += _actuator_rows(ctx, entity, actuator)
    n = len(rows)

    def table(name: str, width: int) -> Array:
        return np.array([getattr(r, name) for r in rows], dtype=np.float64).reshape(n, width)

    def bounds(name: str, side: int) -> Array:
        return np.array([getattr(r.actuator, name)[side] for r in rows], dtype=np.float64)

    is_unclamped = np.array([r.entity in unclamped for r in rows], dtype=np.bool_)

    def params(function: Callable[[Actuator], Array], width: int) -> Array:
        return np.array([function(r.actuator) for r in rows], dtype=np.float64).reshape(n, width)

    peaks = [peak_forces(r.actuator) for r in rows]
    info = ActuatorsInfo(
        names=[r.actuator.name for r in rows],
        kinds=[r.kind for r in rows],
        moment=table("moment", ctx.n_dofs),
        on_joint=np.array([r.actuator.transmission in _JOINT_TRANSMISSIONS for r in rows], dtype=np.bool_),
        frame_idx=np.array([r.frame_idx for r in rows], dtype=np.int32),
        link_idx=np.array([r.link_idx for r in rows], dtype=np.int32),
        frame_torque=table("torque", 3),
        frame_force=table("force", 3),
        gain=table("gain", 3),
        bias=table("bias", 3),
        ctrl_lower=np.where(is_unclamped, -np.inf, bounds("control_range", 0)),
        ctrl_upper=np.where(is_unclamped, np.inf, bounds("control_range", 1)),
        force_lower=bounds("force_range", 0),
        force_upper=bounds("force_range", 1),
        force_group_idx=_force_group_indices(rows),
        orientation_servo_idx=_orientation_servo_indices(rows),
        force_group_lower=table("force_group_bounds", 2)[:, 0],
        force_group_upper=table("force_group_bounds", 2)[:, 1],
        length_per_radian=np.array([r.length_per_radian for r in rows], dtype=np.float64),
        path_idx=np.array([r.path_idx for r in rows], dtype=np.int32),
        dynamics=[activation_dynamics(r.actuator) for r in rows],
        act_early=np.array([uses_act_early(r.actuator) for r in rows], dtype=np.bool_),
        time_constants=params(time_constants, 3),
        delay=np.array([r.actuator.settings.get(mjcf.DELAY, 0.0) for r in rows], dtype=np.float64),
        n_delay_samples=np.array([delay_samples(r.actuator)[0] for r in rows], dtype=np.int32),
        interpolation=[delay_samples(r.actuator)[1] for r in rows],
        act_lower=bounds("activation_range", 0),
        act_upper=bounds("activation_range", 1),
        muscle_gain_params=params(muscle_gain_params, 9),
        muscle_bias_params=params(muscle_bias_params, 5),
        peak_force=np.array([force for force, _ in peaks], dtype=np.float64).reshape(n, 2),
        peak_force_needs_acc0=np.array([needs_acc0 for _, needs_acc0 in peaks], dtype=np.bool_).reshape(n, 2),
        **_servo_columns(rows),
    )
    return info, [r.entity for r in rows]


def _servo_columns(rows: list[_ActuatorRow]) -> dict[str, Any]:
    """Columns of the table for PID controllers and DC motors: empty entries for other rows."""
    servos = [row.actuator if row.kind in SERVO_KINDS else None for row in rows]
    width = len(SERVO_PARAMETERS) if any(servos) else 0
    params = [np.zeros(width) if actuator is None else servo_parameters(actuator) for actuator in servos]
    return {
        "control_inputs": [() if actuator is None else control_inputs(actuator) for actuator in servos],
        "servo_states": [() if actuator is None else servo_states(actuator) for actuator in servos],
        "servo_params": np.array(params).reshape(len(rows), width),
    }


def _force_group_indices(rows: list[_ActuatorRow]) -> npt.NDArray[np.int32]:
    """Index of the force-limited tendon that each row acts on; -1 for none.

    Rows of one tendon share its force range.
    """
    keys = [(r.entity, r.actuator.target) if np.isfinite(r.force_group_bounds).any() else None for r in rows]
    index_of_key = {key: i for i, key in enumerate(dict.fromkeys(k for k in keys if k is not None))}
    return np.array([-1 if key is None else index_of_key[key] for key in keys], dtype=np.int32)


class _ActuatorRow:
    """One row of the table of actuators while its transmission is resolved."""

    def __init__(self, actuator: Actuator, entity: int, n_dofs: int) -> None:
        """Row of an actuator without transmission: zero moment arms, affine terms of gain and bias."""
        self.actuator = actuator
        self.kind = force_law(actuator)
        self.entity = entity
        self.moment = np.zeros(n_dofs)
        self.path_idx = -1
        self.length_per_radian = 0.0
        self.orientation_servo: Actuator | None = None
        self.force_group_bounds = (-np.inf, np.inf)
        self.frame_idx = -1
        self.link_idx = -1
        self.torque = np.zeros(3)
        self.force = np.zeros(3)
        self.gain = _affine_terms(actuator.gain, {"affine": 3, "fixed": 1, "so3": 1}.get(actuator.gain_type, 0))
        self.bias = _affine_terms(actuator.bias, 3 if actuator.bias_type in ("affine", "so3") else 0)
        self.depends_on_length = depends_on_length(actuator)


def _affine_terms(values: tuple[float, ...], count: int) -> Array:
    return zero_padded(values[:count], 3)


def _actuator_rows(ctx: BuildContext, entity: int, actuator: Actuator) -> list[_ActuatorRow]:
    """Rows of an actuator for the table of actuators, one per control input, with resolved transmissions.

    Empty, with a warning, if the actuator or its transmission cannot be simulated; also warns of ignored settings.
    """
    rows = [_ActuatorRow(actuator, entity, ctx.n_dofs)]
    if actuator.transmission is Transmission.ORIENTATION:
        rows = _orientation_servo_rows(ctx, entity, actuator)
    if actuator.gain_type in SERVO_KINDS:
        rows = _servo_rows(ctx, entity, actuator)
    reason = unsupported_reason(actuator)
    for row in rows:
        if row.kind != INPUT_ROW:
            reason = reason or _resolve_transmission(ctx, entity, actuator, row)
    if reason:
        ctx.diagnostics.warning(
            "sim.actuator",
            f'actuator "{actuator.name}" is left out: {reason} is not simulated yet',
            origin=actuator.origin,
        )
        return []
    for name in ignored_settings(actuator):
        ctx.diagnostics.warning(
            "sim.actuator-part",
            f'the {name} of actuator "{actuator.name}" is not simulated: the history is limited to '
            f"{MAX_DELAY_SAMPLES} samples",
            origin=actuator.origin,
        )
    return rows


def _servo_rows(ctx: BuildContext, entity: int, actuator: Actuator) -> list[_ActuatorRow]:
    """Rows of a PID controller or DC motor: one per control input, of which the first has force law and transmission.

    Several rows are named `<name> <input>`. A passive motor without inputs has one row whose control has no effect.
    """
    inputs = control_inputs(actuator)
    rows = []
    for i, name in enumerate(inputs or ("",)):
        row_name = f"{actuator.name} {name}" if len(inputs) > 1 else actuator.name
        row = _ActuatorRow(
            replace(actuator, name=row_name, control_range=control_range(actuator, i)), entity, ctx.n_dofs
        )
        row.kind = INPUT_ROW if i else actuator.gain_type
        rows.append(row)
    return rows


def _orientation_servo_rows(ctx: BuildContext, entity: int, actuator: Actuator) -> list[_ActuatorRow]:
    """Rows of an orientation servo: one per axis x, y, z of the rotation, preceded by w for a quaternion target.

    Each row has a copy of the actuator named `<name> <component>`, with the unit axis as gear (zero for w) and the
    control range of the component.
    """
    n = n_controls(actuator)
    components = ("w", "x", "y", "z")[-n:]
    rows = []
    for i, component in enumerate(components):
        axis = tuple(float(component == x) for x in "xyz")
        bounds = control_range(actuator, i)
        row_actuator = replace(actuator, name=f"{actuator.name} {component}", gear=axis, control_range=bounds)
        rows.append(_ActuatorRow(row_actuator, entity, ctx.n_dofs))
        rows[-1].orientation_servo = actuator
    return rows


def _orientation_servo_indices(rows: list[_ActuatorRow]) -> npt.NDArray[np.int32]:
    """Index of the orientation servo that each row belongs to; -1 for rows of other actuators."""
    keys = [
        None if row.orientation_servo is None else (row.entity, id(row.orientation_servo)) for row in rows
    ]  # entities may share a description
    index_of_key = {key: i for i, key in enumerate(dict.fromkeys(key for key in keys if key is not None))}
    return np.array([-1 if key is None else index_of_key[key] for key in keys], dtype=np.int32)


def _resolve_transmission(ctx: BuildContext, entity: int, actuator: Actuator, row: _ActuatorRow) -> str:
    """Set the transmission of an actuator's table row by its type: moment arms, transmission path or wrench on a frame.

    Returns why the transmission cannot be simulated, as text; empty if it is resolved.
    """
    match actuator.transmission:
        case Transmission.JOINT | Transmission.JOINT_IN_PARENT:
            return _joint_transmission(ctx, entity, actuator, row)
        case Transmission.TENDON:
            return _tendon_transmission(ctx, entity, actuator, row)
        case Transmission.SITE:
            return _site_transmission(ctx, entity, actuator, row)
        case Transmission.SLIDER_CRANK:
            return _slider_crank_transmission(ctx, entity, actuator, row)
        case Transmission.BODY:
            return _adhesion_transmission(ctx, entity, actuator, row)
        case Transmission.ORIENTATION:
            return _orientation_transmission(ctx, entity, actuator, row)


def _length_per_radian(row: _ActuatorRow, gear: tuple[float, ...]) -> float:
    """Length per radian (norm of the gear) if the row is a position servo, else 0."""
    is_position = row.bias[1] == -row.gain[0] and row.bias[1] and not row.gain[1:].any()
    is_position = is_position or (row.kind == "pid" and "pos" in control_inputs(row.actuator))
    return reproducible_norm(gear) if is_position else 0.0


def _padded_gear(actuator: Actuator) -> tuple[float, ...]:
    return tuple((list(actuator.gear) + [0.0] * 6)[:6])


def _attach_to_path(ctx: BuildContext, row: _ActuatorRow, path_idx: int, scale: float = 1.0) -> None:
    """Set the transmission path of an actuator's table row.

    Sets `path_idx`, and `moment` to `scale` for each dof that changes the transmission path length.
    """
    row.path_idx = path_idx
    row.moment[:] = scale * path_dof_mask(ctx, path_idx)


def _joint_transmission(ctx: BuildContext, entity: int, actuator: Actuator, row: _ActuatorRow) -> str:
    """Resolve a joint transmission: constant moment arms (the gear) on the dofs of a joint.

    A ball or free joint whose actuator depends on length, or acts in the parent frame, gets a transmission path
    instead. Returns why it cannot be simulated, as text (no such joint in the tree, or a reversed ball joint); empty if
    it is resolved.
    """
    joint = find_joint(ctx, entity, actuator.target)
    if joint is None:
        return f'a joint "{actuator.target}" without degrees of freedom'
    n, gear = joint.description.n_dofs, _padded_gear(actuator)
    in_parent = actuator.transmission is Transmission.JOINT_IN_PARENT
    if joint.description.n_qs == n or not (in_parent or row.depends_on_length):
        row.moment[joint.dof_start : joint.dof_start + n] = gear[:n]
        return ""
    path = joint_path_idx(ctx, joint, gear, in_parent=in_parent)
    if path is None:
        return "a servo on a reversed ball joint"
    row.length_per_radian = 0.0 if n > 3 else _length_per_radian(row, gear[:3])
    _attach_to_path(ctx, row, path)
    return ""


def _tendon_transmission(ctx: BuildContext, entity: int, actuator: Actuator, row: _ActuatorRow) -> str:
    """Resolve a tendon transmission: gear times the moment arms of a fixed tendon, or the path of a spatial tendon.

    Also takes the force range of the tendon, which bounds the sum of its actuators. Returns why it cannot be simulated,
    as text; empty if it is resolved.
    """
    tendons: list[Tendon] = all_elements(ctx.entities[entity].description, "tendons")
    tendon = next((t for t in tendons if t.name == actuator.target), None)
    if tendon is None:
        return f'the tendon "{actuator.target}"'
    row.force_group_bounds = tendon.force_range
    if tendon.is_fixed:
        row.moment[:] = actuator.gear[0] * fixed_tendon_moment(ctx, entity, tendon)
        return ""
    path = tendon_path_idx(ctx, entity, tendon)
    if path is None:
        return f'the path of tendon "{actuator.target}"'
    _attach_to_path(ctx, row, path, actuator.gear[0])
    return ""


def _slider_crank_transmission(ctx: BuildContext, entity: int, actuator: Actuator, row: _ActuatorRow) -> str:
    """Resolve a slider-crank transmission: a path of one `crank` segment between crank site and slider site.

    Returns why it cannot be simulated, as text; empty if the transmission is resolved.
    """
    ends = [find_attachment_frame(ctx, entity, name) for name in (actuator.target, actuator.reference)]
    if ends[0] is None or ends[1] is None:
        return f'the crank "{actuator.target}"'
    path = add_path(ctx, [("crank", [ends[0], ends[1]], 1.0, (actuator.crank_length,))])
    _attach_to_path(ctx, row, path, actuator.gear[0])
    return ""


def _site_transmission(ctx: BuildContext, entity: int, actuator: Actuator, row: _ActuatorRow) -> str:
    """Resolve a site transmission: a wrench given by the gear (force, torque) in the axes of a site.

    With a reference site the row has a transmission path of type `pose` between both sites; if the force depends on
    length, a path of type `wrench_child_axes`; else the row holds a constant wrench about the origin of the moving
    frame. Returns why it cannot be simulated, as text; empty if it is resolved.
    """
    site, gear = find_attachment_frame(ctx, entity, actuator.target), _padded_gear(actuator)
    if site is None or (site.frame_idx < 0 and not actuator.reference):
        return f'the frame "{actuator.target}"'
    if actuator.reference:
        reference = find_attachment_frame(ctx, entity, actuator.reference)
        if reference is None:
            return f'the reference frame "{actuator.reference}"'
        _attach_to_path(ctx, row, add_path(ctx, [("pose", [site, reference], 1.0, gear)]))
        row.length_per_radian = 0.0 if any(gear[:3]) else _length_per_radian(row, gear[3:])
    elif row.depends_on_length:
        _attach_to_path(ctx, row, add_path(ctx, [("wrench_child_axes", [site, WORLD_FRAME], 1.0, gear)]))
    else:
        row.frame_idx = site.frame_idx
        row.force = reproducible_product(site.pose.rotation, np.array(gear[:3]))
        row.torque = reproducible_product(site.pose.rotation, np.array(gear[3:])) + np.cross(
            site.pose.position, row.force
        )
    return ""


def _orientation_transmission(ctx: BuildContext, entity: int, actuator: Actuator, row: _ActuatorRow) -> str:
    """Resolve the transmission of one force output of an orientation servo: rotation about one axis of a joint or site.

    Adds a transmission path for the axis (`gear`) of a ball joint, or of a site relative to its reference site, to the
    context, and writes its index and the mask of dofs with a moment arm to the table row of the force output. Outputs
    without an axis (the w of a quaternion) need no transmission. Returns the reason why the transmission cannot be
    simulated, as text; empty if it is resolved.
    """
    axis = row.actuator.gear
    if not any(axis):
        return ""
    if actuator.reference:
        ends = [find_attachment_frame(ctx, entity, name) for name in (actuator.target, actuator.reference)]
        if ends[0] is None or ends[1] is None:
            return f'the frame "{actuator.target}" against "{actuator.reference}"'
        _attach_to_path(ctx, row, add_path(ctx, [("pose_child_axes", [ends[0], ends[1]], 1.0, (0.0, 0.0, 0.0, *axis))]))
        return "" if row.moment.any() else f'the frame "{actuator.target}", which does not rotate,'
    joint = find_joint(ctx, entity, actuator.target)
    path = None if joint is None else joint_path_idx(ctx, joint, axis, in_parent=False)
    if path is None:
        return f'the ball joint "{actuator.target}"'
    _attach_to_path(ctx, row, path)
    return ""


def _adhesion_transmission(ctx: BuildContext, entity: int, actuator: Actuator, row: _ActuatorRow) -> str:
    """Resolve an adhesion transmission (MJCF `body`): sets the link whose contacts the actuator acts on.

    Returns why it cannot be simulated, as text; empty if it is resolved.
    """
    candidates = (
        link for link in ctx.links if link.entity == entity and actuator.target in (link.description.name, link.name)
    )
    link_record = next(candidates, None)
    if link_record is None or not ctx.n_dofs:
        return f'the link "{actuator.target}"'
    row.link_idx, row.frame_idx = (
        link_record.index,
        max(link_record.frame_idx, 0),
    )  # any frame will do for a static link
    return ""


def with_gains_of_servos(dofs: DofsInfo, actuators: ActuatorsInfo) -> DofsInfo:
    """Table of dofs, with gains (kp, kv) and force range of the servo for dofs that are actuated by a single servo.

    kp and kv of the dof are -bias[1] * moment^2 and -bias[2] * moment^2 of the affine actuator, or the gains of a PID
    controller times moment^2, and the force ranges are intersected, so that targets can be set on the joint. Skips dofs
    that already have a drive, and actuators with length- or velocity-dependent gain.
    """
    n_actuators = np.count_nonzero(actuators.moment, axis=0)
    kp, kv, lower, upper = dofs.kp.copy(), dofs.kv.copy(), dofs.force_lower.copy(), dofs.force_upper.copy()
    for a in range(len(actuators.names)):
        actuated = np.flatnonzero(actuators.moment[a])
        if len(actuated) != 1 or n_actuators[actuated[0]] != 1 or kp[actuated[0]] or actuators.gain[a, 1:].any():
            continue
        if actuators.path_idx[a] >= 0 or actuators.kinds[a] not in ("affine", *SERVO_KINDS):
            continue
        dof, moment = int(actuated[0]), float(actuators.moment[a, actuated[0]])
        stiffness, damping = -actuators.bias[a, 1:3]
        if actuators.kinds[a] in SERVO_KINDS:
            stiffness, damping = (actuators.servo_params[a, SERVO_PARAMETERS.index(x)] for x in ("kp", "kv"))
        kp[dof] = stiffness * moment * moment
        kv[dof] = damping * moment * moment
        force_lower, force_upper = sorted((actuators.force_lower[a] * moment, actuators.force_upper[a] * moment))
        lower[dof], upper[dof] = max(lower[dof], force_lower), min(upper[dof], force_upper)
    return replace(dofs, kp=kp, kv=kv, force_lower=lower, force_upper=upper)
