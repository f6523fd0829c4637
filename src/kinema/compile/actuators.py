"""Actuators and tendons with constant moments; what else there is, is reported."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kinema.description import Actuator, Robot, Tendon, Transmission, World
from kinema.foundation import Array, Pose
from kinema.model import ActuatorsInfo, DofsInfo, TendonsInfo

from . import activation
from .draft import Draft, DraftJoint
from .options import switches_of, working_actuators


def pack_actuators(draft: Draft) -> tuple[ActuatorsInfo, list[int]]:
    """One row for each actuator that can be simulated, and the entity it belongs to."""
    rows: list[_Row] = []
    unclamped = {e for e, part in enumerate(draft.parts) if not switches_of(part.description).clampctrl}
    for entity in range(len(draft.parts)):
        for actuator in working_actuators(draft, entity):
            row = _row(draft, entity, actuator)
            if row is not None:
                rows.append(row)
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
        frame_torque=table("torque", 3),
        frame_force=table("force", 3),
        gain=table("gain", 3),
        bias=table("bias", 3),
        ctrl_lower=np.where(free, -np.inf, bounds("control_range", 0)),
        ctrl_upper=np.where(free, np.inf, bounds("control_range", 1)),
        force_lower=bounds("force_range", 0),
        force_upper=bounds("force_range", 1),
        dynamics=[activation.dynamics_of(r.actuator) for r in rows],
        early=np.array([activation.is_early(r.actuator) for r in rows], dtype=np.bool_),
        time_constants=law(activation.time_constants, 3),
        act_lower=bounds("activation_range", 0),
        act_upper=bounds("activation_range", 1),
        muscle_gain=law(activation.muscle_gain, 9),
        muscle_bias=law(activation.muscle_bias, 5),
        peak_force=np.array([force for force, _ in strengths], dtype=np.float64).reshape(n, 2),
        per_acceleration=np.array([relative for _, relative in strengths], dtype=np.bool_).reshape(n, 2),
    )
    return info, [r.entity for r in rows]


class _Row:
    def __init__(self, actuator: Actuator, entity: int, n_dofs: int) -> None:
        self.actuator = actuator
        self.entity = entity
        self.moment = np.zeros(n_dofs)
        self.frame = -1
        self.torque = np.zeros(3)
        self.force = np.zeros(3)
        self.gain = _terms(actuator.gain, {"affine": 3, "fixed": 1}.get(actuator.gain_type, 0))
        self.bias = _terms(actuator.bias, 3 if actuator.bias_type == "affine" else 0)
        self.feels_length = activation.feels_length(actuator)


def _terms(values: tuple[float, ...], count: int) -> Array:
    return activation.padded(values[:count], 3)


def all_of(description: Robot | World, name: str) -> list:
    """What robots or the world itself have of something."""
    own = list(getattr(description, name))
    if isinstance(description, World):
        own += [x for robot in description.robots for x in getattr(robot, name)]
    return own


def _row(draft: Draft, entity: int, actuator: Actuator) -> _Row | None:
    row = _Row(actuator, entity, draft.n_dofs)
    reason = activation.unsupported(actuator)
    if not reason:
        match actuator.transmission:
            case Transmission.JOINT:
                reason = _on_joint(draft, entity, actuator, row)
            case Transmission.TENDON:
                reason = _on_tendon(draft, entity, actuator, row)
            case Transmission.SITE:
                reason = _on_site(draft, entity, actuator, row)
            case _:
                reason = f"transmission {actuator.transmission.value}"
    if reason:
        draft.diagnostics.warning(
            "sim.actuator",
            f'actuator "{actuator.name}" is left out: {reason} is not simulated yet',
            origin=actuator.origin,
        )
        return None
    for name in activation.ignored(actuator):
        draft.diagnostics.warning(
            "sim.actuator-part", f'{name} of actuator "{actuator.name}" is not simulated yet', origin=actuator.origin
        )
    return row


def find_joint(draft: Draft, entity: int, name: str) -> DraftJoint | None:
    """The joint of that name in a part."""
    return next((j for j in draft.joints if j.entity == entity and j.name == name), None)


def _on_joint(draft: Draft, entity: int, actuator: Actuator, row: _Row) -> str:
    joint = find_joint(draft, entity, actuator.target)
    if joint is None:
        return f'a joint "{actuator.target}" that does not move'
    n = joint.joint.n_dofs
    gear = list(actuator.gear) + [0.0] * 6
    if joint.joint.n_qs != n and row.feels_length:
        return "a servo on a quaternion"
    row.moment[joint.dof_start : joint.dof_start + n] = gear[:n]
    return ""


def _on_tendon(draft: Draft, entity: int, actuator: Actuator, row: _Row) -> str:
    tendons: list[Tendon] = all_of(draft.parts[entity].description, "tendons")
    tendon = next((t for t in tendons if t.name == actuator.target), None)
    if tendon is None or not tendon.is_fixed:
        return f'the spatial tendon "{actuator.target}"'
    row.moment[:] = actuator.gear[0] * tendon_moment(draft, entity, tendon)
    return ""


def tendon_moment(draft: Draft, entity: int, tendon: Tendon) -> Array:
    """How a fixed tendon's length changes with each coordinate."""
    moment = np.zeros(draft.n_dofs)
    for item in tendon.path:
        joint = find_joint(draft, entity, item.target)
        if joint is not None and joint.joint.n_qs == 1:
            moment[joint.dof_start] += item.coefficient
    return moment


def _on_site(draft: Draft, entity: int, actuator: Actuator, row: _Row) -> str:
    if actuator.reference:
        return "a frame against a reference frame"
    if row.feels_length:
        return "a servo on a frame"
    description = draft.parts[entity].description
    frame = next((f for f in all_of(description, "frames") if f.name == actuator.target), None)
    body = next((b for b in draft.bodies if b.entity == entity and frame and b.link.name == frame.link), None)
    if frame is None or body is None:
        return f'the frame "{actuator.target}"'
    at: Pose = body.place @ frame.pose
    gear = np.array((list(actuator.gear) + [0.0] * 6)[:6])
    row.frame = body.frame
    row.force = at.rotation @ gear[:3]
    row.torque = at.rotation @ gear[3:] + np.cross(at.position, row.force)
    return ""


def pack_tendons(draft: Draft, dofs: DofsInfo) -> TendonsInfo:
    """One row for each fixed tendon with a spring or damper."""
    rows: list[tuple[Tendon, Array, tuple[float, float], tuple[float, float]]] = []
    for entity, part in enumerate(draft.parts):
        switches = switches_of(part.description)
        for tendon in all_of(part.description, "tendons"):
            if not ((tendon.stiffness and switches.spring) or (tendon.damping and switches.damper)):
                continue
            if not tendon.is_fixed:
                draft.diagnostics.warning(
                    "sim.tendon", f'spatial tendon "{tendon.name}" is not simulated yet', origin=tendon.origin
                )
                continue
            moment = tendon_moment(draft, entity, tendon)
            law = (tendon.stiffness * switches.spring, tendon.damping * switches.damper)
            rows.append((tendon, moment, tendon.spring_length or _rest(moment, dofs), law))
    n = len(rows)
    return TendonsInfo(
        names=[t.name for t, _, _, _ in rows],
        kinds=["fixed"] * n,
        moment=np.array([m for _, m, _, _ in rows], dtype=np.float64).reshape(n, draft.n_dofs),
        stiffness=np.array([law[0] for _, _, _, law in rows], dtype=np.float64),
        damping=np.array([law[1] for _, _, _, law in rows], dtype=np.float64),
        rest_lower=np.array([r[0] for _, _, r, _ in rows], dtype=np.float64),
        rest_upper=np.array([r[1] for _, _, r, _ in rows], dtype=np.float64),
    )


def _rest(moment: Array, dofs: DofsInfo) -> tuple[float, float]:
    """The length at which the joints' own springs are at rest."""
    length = float(moment @ dofs.spring_ref)
    return length, length


def gains_from_actuators(dofs: DofsInfo, actuators: ActuatorsInfo) -> None:
    """A servo that alone moves a joint gives the joint its gains, so that the joint can be told where to go."""
    pulls = np.count_nonzero(actuators.moment, axis=0)
    for a in range(len(actuators.names)):
        moved = np.flatnonzero(actuators.moment[a])
        if len(moved) != 1 or pulls[moved[0]] != 1 or dofs.kp[moved[0]] or actuators.gain[a, 1:].any():
            continue
        if actuators.kinds[a] != "affine":
            continue
        dof, lever = int(moved[0]), float(actuators.moment[a, moved[0]])
        dofs.kp[dof] = -actuators.bias[a, 1] * lever * lever
        dofs.kv[dof] = -actuators.bias[a, 2] * lever * lever
        low, high = sorted((actuators.force_lower[a] * lever, actuators.force_upper[a] * lever))
        dofs.force_lower[dof] = max(dofs.force_lower[dof], low)
        dofs.force_upper[dof] = min(dofs.force_upper[dof], high)
