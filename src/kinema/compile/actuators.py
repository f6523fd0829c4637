"""Actuators: on coordinates, on frames, or along paths; what else there is, is reported."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from kinema.description import Actuator, Tendon, Transmission
from kinema.foundation import Array
from kinema.model import ActuatorsInfo, DofsInfo
from kinema.words import mjcf

from . import activation
from .draft import Draft
from .find import all_of, find_joint, find_spot
from .options import switches_of, working_actuators
from .paths import NOWHERE, joint_path, new_path, path_pattern, tendon_path
from .tendons import tendon_moment


def pack_actuators(draft: Draft) -> tuple[ActuatorsInfo, list[int]]:
    """One row for each actuator that can be simulated, and the entity it belongs to."""
    rows: list[_Row] = []
    unclamped = {e for e, part in enumerate(draft.parts) if not switches_of(part.description).clampctrl}
    for entity in range(len(draft.parts)):
        for actuator in working_actuators(draft, entity):
            rows += _rows(draft, entity, actuator)
    n = len(rows)

    def table(name: str, width: int) -> Array:
        return np.array([getattr(r, name) for r in rows], dtype=np.float64).reshape(n, width)

    def bounds(name: str, side: int) -> Array:
        return np.array([getattr(r.actuator, name)[side] for r in rows], dtype=np.float64)

    free = np.array([r.entity in unclamped for r in rows], dtype=np.bool_)

    def law(of: Callable[[Actuator], Array], width: int) -> Array:
        return np.array([of(r.actuator) for r in rows], dtype=np.float64).reshape(n, width)

    strengths = [activation.peaks(r.actuator) for r in rows]
    info = ActuatorsInfo(
        names=[r.actuator.name for r in rows],
        kinds=[activation.kind_of(r.actuator) for r in rows],
        moment=table("moment", draft.n_dofs),
        frame_idx=np.array([r.frame for r in rows], dtype=np.int32),
        link_idx=np.array([r.link for r in rows], dtype=np.int32),
        frame_torque=table("torque", 3),
        frame_force=table("force", 3),
        gain=table("gain", 3),
        bias=table("bias", 3),
        ctrl_lower=np.where(free, -np.inf, bounds("control_range", 0)),
        ctrl_upper=np.where(free, np.inf, bounds("control_range", 1)),
        force_lower=bounds("force_range", 0),
        force_upper=bounds("force_range", 1),
        shared_idx=_shared(rows),
        servo_idx=_servos(rows),
        shared_lower=table("bounds", 2)[:, 0],
        shared_upper=table("bounds", 2)[:, 1],
        turn=np.array([r.turn for r in rows], dtype=np.float64),
        path_idx=np.array([r.path for r in rows], dtype=np.int32),
        dynamics=[activation.dynamics_of(r.actuator) for r in rows],
        early=np.array([activation.is_early(r.actuator) for r in rows], dtype=np.bool_),
        time_constants=law(activation.time_constants, 3),
        delay=np.array([r.actuator.settings.get(mjcf.DELAY, 0.0) for r in rows], dtype=np.float64),
        samples=np.array([activation.samples_of(r.actuator)[0] for r in rows], dtype=np.int32),
        interpolation=[activation.samples_of(r.actuator)[1] for r in rows],
        act_lower=bounds("activation_range", 0),
        act_upper=bounds("activation_range", 1),
        muscle_gain=law(activation.muscle_gain, 9),
        muscle_bias=law(activation.muscle_bias, 5),
        peak_force=np.array([force for force, _ in strengths], dtype=np.float64).reshape(n, 2),
        per_acceleration=np.array([relative for _, relative in strengths], dtype=np.bool_).reshape(n, 2),
    )
    return info, [r.entity for r in rows]


def _shared(rows: list[_Row]) -> npt.NDArray[np.int32]:
    """A number for each tendon that bounds what actuators do to it."""
    keys = [(r.entity, r.actuator.target) if np.isfinite(r.bounds).any() else None for r in rows]
    known = {key: i for i, key in enumerate(dict.fromkeys(k for k in keys if k is not None))}
    return np.array([-1 if key is None else known[key] for key in keys], dtype=np.int32)


class _Row:
    def __init__(self, actuator: Actuator, entity: int, n_dofs: int) -> None:
        self.actuator = actuator
        self.entity = entity
        self.moment = np.zeros(n_dofs)
        self.path = -1
        self.turn = 0.0
        self.servo: Actuator | None = None
        self.bounds = (-np.inf, np.inf)
        self.frame = -1
        self.link = -1
        self.torque = np.zeros(3)
        self.force = np.zeros(3)
        self.gain = _terms(actuator.gain, {"affine": 3, "fixed": 1, "so3": 1}.get(actuator.gain_type, 0))
        self.bias = _terms(actuator.bias, 3 if actuator.bias_type in ("affine", "so3") else 0)
        self.feels_length = activation.feels_length(actuator)


def _terms(values: tuple[float, ...], count: int) -> Array:
    return activation.padded(values[:count], 3)


def _rows(draft: Draft, entity: int, actuator: Actuator) -> list[_Row]:
    """A row for each number that it is told; none, and a warning, where it cannot be simulated."""
    rows = [_Row(actuator, entity, draft.n_dofs)]
    if actuator.transmission is Transmission.ORIENTATION:
        rows = _parts(draft, entity, actuator)
    reason = activation.unsupported(actuator)
    for row in rows:
        reason = reason or _transmit(draft, entity, actuator, row)
    if reason:
        draft.diagnostics.warning(
            "sim.actuator",
            f'actuator "{actuator.name}" is left out: {reason} is not simulated yet',
            origin=actuator.origin,
        )
        return []
    for name in activation.ignored(actuator):
        draft.diagnostics.warning(
            "sim.actuator-part",
            f'the {name} of actuator "{actuator.name}" is not simulated: it remembers more than anybody keeps',
            origin=actuator.origin,
        )
    return rows


def _parts(draft: Draft, entity: int, actuator: Actuator) -> list[_Row]:
    """Of an orientation servo a row for each axis of what it turns, and one before them for a quaternion's first."""
    n = activation.n_controls(actuator)
    names = ("w", "x", "y", "z")[-n:]
    rows = []
    for number, name in enumerate(names):
        axis = tuple(float(name == x) for x in "xyz")
        bounds = activation.control_range(actuator, number)
        part = replace(actuator, name=f"{actuator.name} {name}", gear=axis, control_range=bounds)
        rows.append(_Row(part, entity, draft.n_dofs))
        rows[-1].servo = actuator
    return rows


def _servos(rows: list[_Row]) -> npt.NDArray[np.int32]:
    """A number for each orientation servo, the same for all rows of it."""
    keys = [None if row.servo is None else (row.entity, id(row.servo)) for row in rows]  # entities may share theirs
    known = {key: number for number, key in enumerate(dict.fromkeys(key for key in keys if key is not None))}
    return np.array([-1 if key is None else known[key] for key in keys], dtype=np.int32)


def _transmit(draft: Draft, entity: int, actuator: Actuator, row: _Row) -> str:
    """Find what a row pulls on; what stands in the way, in words."""
    match actuator.transmission:
        case Transmission.JOINT | Transmission.JOINT_IN_PARENT:
            return _on_joint(draft, entity, actuator, row)
        case Transmission.TENDON:
            return _on_tendon(draft, entity, actuator, row)
        case Transmission.SITE:
            return _on_site(draft, entity, actuator, row)
        case Transmission.SLIDER_CRANK:
            return _on_crank(draft, entity, actuator, row)
        case Transmission.BODY:
            return _on_body(draft, entity, actuator, row)
        case Transmission.ORIENTATION:
            return _on_orientation(draft, entity, actuator, row)


def _turn(row: _Row, gear: tuple[float, ...]) -> float:
    """How much of its length a radian is, if it is a position servo."""
    is_position = row.bias[1] == -row.gain[0] and row.bias[1] and not row.gain[1:].any()
    return float(np.linalg.norm(gear)) if is_position else 0.0


def _gear(actuator: Actuator) -> tuple[float, ...]:
    return tuple((list(actuator.gear) + [0.0] * 6)[:6])


def _along(draft: Draft, row: _Row, path: int, scale: float = 1.0) -> None:
    """Pull along a path."""
    row.path = path
    row.moment[:] = scale * path_pattern(draft, path)


def _on_joint(draft: Draft, entity: int, actuator: Actuator, row: _Row) -> str:
    joint = find_joint(draft, entity, actuator.target)
    if joint is None:
        return f'a joint "{actuator.target}" that does not move'
    n, gear = joint.joint.n_dofs, _gear(actuator)
    in_parent = actuator.transmission is Transmission.JOINT_IN_PARENT
    if joint.joint.n_qs == n or not (in_parent or row.feels_length):
        row.moment[joint.dof_start : joint.dof_start + n] = gear[:n]
        return ""
    path = joint_path(draft, joint, gear, in_parent=in_parent)
    if path is None:
        return "a servo on a quaternion that counts backwards"
    row.turn = 0.0 if n > 3 else _turn(row, gear[:3])
    _along(draft, row, path)
    return ""


def _on_tendon(draft: Draft, entity: int, actuator: Actuator, row: _Row) -> str:
    tendons: list[Tendon] = all_of(draft.parts[entity].description, "tendons")
    tendon = next((t for t in tendons if t.name == actuator.target), None)
    if tendon is None:
        return f'the tendon "{actuator.target}"'
    row.bounds = tendon.force_range
    if tendon.is_fixed:
        row.moment[:] = actuator.gear[0] * tendon_moment(draft, entity, tendon)
        return ""
    path = tendon_path(draft, entity, tendon)
    if path is None:
        return f'the path of tendon "{actuator.target}"'
    _along(draft, row, path, actuator.gear[0])
    return ""


def _on_crank(draft: Draft, entity: int, actuator: Actuator, row: _Row) -> str:
    ends = [find_spot(draft, entity, name) for name in (actuator.target, actuator.reference)]
    if ends[0] is None or ends[1] is None:
        return f'the crank "{actuator.target}"'
    path = new_path(draft, [("crank", [ends[0], ends[1]], 1.0, (actuator.crank_length,))])
    _along(draft, row, path, actuator.gear[0])
    return ""


def _on_site(draft: Draft, entity: int, actuator: Actuator, row: _Row) -> str:
    at, gear = find_spot(draft, entity, actuator.target), _gear(actuator)
    if at is None or (at.frame < 0 and not actuator.reference):
        return f'the frame "{actuator.target}"'
    if actuator.reference:
        reference = find_spot(draft, entity, actuator.reference)
        if reference is None:
            return f'the reference frame "{actuator.reference}"'
        _along(draft, row, new_path(draft, [("pose", [at, reference], 1.0, gear)]))
        row.turn = 0.0 if any(gear[:3]) else _turn(row, gear[3:])
    elif row.feels_length:
        _along(draft, row, new_path(draft, [("thrust", [at, NOWHERE], 1.0, gear)]))
    else:
        row.frame = at.frame
        row.force = at.pose.rotation @ np.array(gear[:3])
        row.torque = at.pose.rotation @ np.array(gear[3:]) + np.cross(at.pose.position, row.force)
    return ""


def _on_orientation(draft: Draft, entity: int, actuator: Actuator, row: _Row) -> str:
    """How far something is turned about one of its own axes, and how fast."""
    axis = row.actuator.gear
    if not any(axis):
        return ""
    if actuator.reference:
        ends = [find_spot(draft, entity, name) for name in (actuator.target, actuator.reference)]
        if ends[0] is None or ends[1] is None:
            return f'the frame "{actuator.target}" against "{actuator.reference}"'
        _along(draft, row, new_path(draft, [("turn", [ends[0], ends[1]], 1.0, (0.0, 0.0, 0.0, *axis))]))
        return "" if row.moment.any() else f'the frame "{actuator.target}", which does not turn,'
    joint = find_joint(draft, entity, actuator.target)
    path = None if joint is None else joint_path(draft, joint, axis, in_parent=False)
    if path is None:
        return f'the ball joint "{actuator.target}"'
    _along(draft, row, path)
    return ""


def _on_body(draft: Draft, entity: int, actuator: Actuator, row: _Row) -> str:
    """Pull a link to whatever touches it."""
    own = (b for b in draft.bodies if b.entity == entity and actuator.target in (b.link.name, b.name))
    body = next(own, None)
    if body is None or not draft.n_dofs:
        return f'the link "{actuator.target}"'
    row.link, row.frame = body.index, max(body.frame, 0)  # of a link that stands still any frame will do
    return ""


def gains_from_actuators(dofs: DofsInfo, actuators: ActuatorsInfo) -> None:
    """A servo that alone moves a joint gives the joint its gains, so that the joint can be told where to go."""
    pulls = np.count_nonzero(actuators.moment, axis=0)
    for a in range(len(actuators.names)):
        moved = np.flatnonzero(actuators.moment[a])
        if len(moved) != 1 or pulls[moved[0]] != 1 or dofs.kp[moved[0]] or actuators.gain[a, 1:].any():
            continue
        if actuators.path_idx[a] >= 0 or actuators.kinds[a] != "affine":
            continue
        dof, lever = int(moved[0]), float(actuators.moment[a, moved[0]])
        dofs.kp[dof] = -actuators.bias[a, 1] * lever * lever
        dofs.kv[dof] = -actuators.bias[a, 2] * lever * lever
        low, high = sorted((actuators.force_lower[a] * lever, actuators.force_upper[a] * lever))
        dofs.force_lower[dof] = max(dofs.force_lower[dof], low)
        dofs.force_upper[dof] = min(dofs.force_upper[dof], high)
