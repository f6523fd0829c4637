"""What drives the joints: springs and dampers, control, actuators; each with its derivative by velocity."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from kinema import trace
from kinema.trace import Value

from .dynamics import Force, add_forces, world_force
from .inputs import Inputs
from .kinematics import Offset
from .maths import ZERO, add, quaternion_product, rotate, rotation_vector, scale
from .settings import Control
from .tree import WORLD


@dataclass(slots=True, eq=False)
class JointForces:
    """Forces on degrees of freedom, and how they change with velocity."""

    force: list[Value]
    slope: list[Value]
    """The derivative of each by its own velocity."""
    coupling: dict[tuple[int, int], Value] = field(default_factory=dict)
    """Derivatives by other velocities, for pairs that share a tendon: (dof, dof with the lower number)."""
    frames: dict[int, Force] = field(default_factory=dict)
    """Forces on moving frames."""


def none(n_dofs: int) -> JointForces:
    """No forces."""
    return JointForces([0.0] * n_dofs, [0.0] * n_dofs)


def passive(inputs: Inputs, q: Sequence[Value], v: Sequence[Value]) -> JointForces:
    """Springs and dampers in joints."""
    result = none(inputs.model.n_dofs)
    for i, damping in enumerate(inputs.of_dofs("damping")):
        result.force[i] = -(damping * v[i])
        result.slope[i] = -damping
    for i, stretch in _stretches(inputs, q).items():
        result.force[i] = result.force[i] - float(inputs.model.dofs.stiffness[i]) * stretch
    return result


def _stretches(inputs: Inputs, q: Sequence[Value]) -> dict[int, Value]:
    """How far each spring in a joint is from its rest; that of a ball from the pose that it starts in."""
    dofs, frames = inputs.model.dofs, inputs.model.frames
    result: dict[int, Value] = {}
    for i in dofs.stiffness.nonzero()[0].tolist():
        if dofs.q_idx[i] >= 0:
            result[i] = q[int(dofs.q_idx[i])] - float(dofs.spring_ref[i])
            continue
        frame = int(dofs.frame_idx[i])
        start = int(frames.q_start[frame])
        turned = turned_from(inputs.model.qpos0[start : start + 4].tolist(), q[start : start + 4])
        result[i] = turned[i - int(frames.dof_start[frame])]
    return result


def turned_from(start: Sequence[Value], q: Sequence[Value]) -> Sequence[Value]:
    """The rotation from one orientation to another, as a vector."""
    w, x, y, z = start
    return rotation_vector(quaternion_product([w, -x, -y, -z], q))


def spring_energy(inputs: Inputs, q: Sequence[Value]) -> Value:
    """What springs in joints and tendons hold."""
    energy: Value = 0.0
    for i, stretch in _stretches(inputs, q).items():
        energy = energy + (0.5 * float(inputs.model.dofs.stiffness[i])) * (stretch * stretch)
    tendons = inputs.model.tendons
    for t in range(len(tendons.names)):
        stretch = _tendon_stretch(inputs, t, q)
        energy = energy + (0.5 * float(tendons.stiffness[t])) * (stretch * stretch)
    return energy


def tendons(inputs: Inputs, q: Sequence[Value], v: Sequence[Value]) -> JointForces:
    """Springs and dampers in tendons."""
    result = none(inputs.model.n_dofs)
    tendons = inputs.model.tendons
    for t in range(len(tendons.names)):
        moment = {int(d): float(tendons.moment[t, d]) for d in tendons.moment[t].nonzero()[0]}
        stiffness, damping = float(tendons.stiffness[t]), float(tendons.damping[t])
        pull = -stiffness * _tendon_stretch(inputs, t, q) - damping * _speed(moment, v)
        _pull(result, moment, pull, -damping)
    return result


def _tendon_stretch(inputs: Inputs, t: int, q: Sequence[Value]) -> Value:
    """How far a tendon is above or below the lengths at which its spring rests."""
    tendons = inputs.model.tendons
    moment = {int(d): float(tendons.moment[t, d]) for d in tendons.moment[t].nonzero()[0]}
    return beyond_rest(_length(inputs, moment, q), float(tendons.rest_lower[t]), float(tendons.rest_upper[t]))


def beyond_rest(length: Value, lower: Value, upper: Value) -> Value:
    """How far a length is above or below those at which a spring rests."""
    return trace.minimum(length - lower, 0.0) + trace.maximum(length - upper, 0.0)


def _length(inputs: Inputs, moment: dict[int, float], q: Sequence[Value]) -> Value:
    length: Value = 0.0
    for dof, lever in moment.items():
        if inputs.model.dofs.q_idx[dof] >= 0:
            length = length + lever * q[int(inputs.model.dofs.q_idx[dof])]
    return length


def _speed(moment: dict[int, float], v: Sequence[Value]) -> Value:
    speed: Value = 0.0
    for dof, lever in moment.items():
        speed = speed + lever * v[dof]
    return speed


def _pull(result: JointForces, moment: dict[int, float], force: Value, slope: Value) -> None:
    """A force along a length, on all degrees of freedom that change it."""
    for dof, lever in moment.items():
        result.force[dof] = result.force[dof] + lever * force
        for other, its in moment.items():
            if other == dof:
                result.slope[dof] = result.slope[dof] + (lever * lever) * slope
            elif other < dof:
                before = result.coupling.get((dof, other), 0.0)
                result.coupling[dof, other] = before + (lever * its) * slope


def weightless(inputs: Inputs, frames: dict[int, Offset]) -> dict[int, Force]:
    """What holds up the links that gravity pulls less, or more, than others."""
    result: dict[int, Force] = {}
    for link, share in enumerate(inputs.model.links.gravity_scale.tolist()):
        frame = int(inputs.model.links.frame_idx[link])
        if frame != WORLD and share != 1.0:
            mass, center = _weight(inputs, link)
            lift = scale((share - 1.0) * mass, inputs.gravity)
            result = add_forces(result, {frame: world_force(frames[frame], center, ZERO, lift)})
    return result


def _weight(inputs: Inputs, link: int) -> tuple[Value, Sequence[Value]]:
    """A link's mass, and its centre in its moving frame."""
    links = inputs.model.links
    center = add(links.pos[link].tolist(), rotate(links.rot[link].tolist(), inputs.center(link)))
    return inputs.mass(link), center


def applied(inputs: Inputs, frames: dict[int, Offset]) -> dict[int, Force]:
    """The user's forces on links: on their centres of mass, along the world's axes."""
    result: dict[int, Force] = {}
    if inputs.settings.external_forces:
        for link in range(inputs.model.n_links):
            frame = int(inputs.model.links.frame_idx[link])
            if frame != WORLD:
                torque = [inputs.read("cfrc_applied_ang", 3 * link + i) for i in range(3)]
                force = [inputs.read("cfrc_applied_vel", 3 * link + i) for i in range(3)]
                at = world_force(frames[frame], _weight(inputs, link)[1], torque, force)
                result = add_forces(result, {frame: at})
    return result


def control(inputs: Inputs, q: Sequence[Value], v: Sequence[Value], inertia: Sequence[Value]) -> JointForces:
    """What the user asks of each degree of freedom; `inertia` is what acceleration drives multiply their gains by."""
    result = none(inputs.model.n_dofs)
    dofs = inputs.model.dofs
    kps, kvs = inputs.of_dofs("kp"), inputs.of_dofs("kv")
    for i in range(inputs.model.n_dofs):
        unit: Value = inertia[i] if dofs.acceleration_drive[i] else 1.0
        force, slope = _asked(inputs, i, q, v, (unit * kps[i], unit * kvs[i]))
        bounds = float(dofs.force_lower[i]), float(dofs.force_upper[i])
        result.force[i], result.slope[i] = bounded(force, slope, *bounds)
    return result


def _asked(
    inputs: Inputs, i: int, q: Sequence[Value], v: Sequence[Value], gains: tuple[Value, Value]
) -> tuple[Value, Value]:
    """The force and its slope, before bounds."""
    modes = inputs.settings.control
    if modes is not None and modes[i] is Control.ACTUATOR:
        return 0.0, 0.0
    where = int(inputs.model.dofs.q_idx[i])
    mode = inputs.read("ctrl_mode", i) if modes is None else modes[i]
    return commanded(mode, inputs.read("command", i), (q[where] if where >= 0 else None, v[i]), gains)


def commanded(
    mode: Control | Value, told: Value, motion: tuple[Value | None, Value], gains: tuple[Value, Value]
) -> tuple[Value, Value]:
    """The force that a command means, and its slope, from coordinate (if there is one) and velocity.

    A mode that is a number is one of force, velocity and position, and may differ between environments.
    """
    kp, kv = gains
    position, v = motion
    if position is None:  # part of a quaternion: it can be held back, but not sent anywhere
        kp, position = 0.0, 0.0
    if not isinstance(mode, Control):
        kp = trace.select(1.5, mode, kp, 0.0)
        kv = trace.select(0.5, mode, kv, 0.0)
        speed = trace.select(0.5, mode, trace.select(1.5, mode, 0.0, told), 0.0)
        force = trace.select(0.5, mode, 0.0, told)
        return kp * (told - position) + kv * (speed - v) + force, -kv
    match mode:
        case Control.FORCE:
            return told, 0.0
        case Control.VELOCITY:
            return kv * (told - v), -kv
        case _:
            return kp * (told - position) - kv * v, -kv


def bounded(force: Value, slope: Value, lower: Value, upper: Value) -> tuple[Value, Value]:
    """Between bounds; at a bound the force no longer changes."""
    if lower == -math.inf and upper == math.inf:
        return force, slope
    if not (isinstance(slope, float) and slope == 0.0):
        slope = trace.select(force, upper, trace.select(lower, force, slope, 0.0), 0.0)
    return trace.clamp(force, lower, upper), slope


def actuators(inputs: Inputs, q: Sequence[Value], v: Sequence[Value]) -> JointForces:
    """The actuators that the files describe, on the degrees of freedom that are left to them."""
    result = none(inputs.model.n_dofs)
    info = inputs.model.actuators
    modes = inputs.settings.control
    for a in range(inputs.model.n_actuators):
        moment = {int(d): float(info.moment[a, d]) for d in info.moment[a].nonzero()[0]}
        if moment and not inputs.settings.actuators:
            continue
        if modes is not None and any(modes[d] is not Control.ACTUATOR for d in moment):
            continue  # the user has taken over
        length, speed = _length(inputs, moment, q), _speed(moment, v)
        told = trace.clamp(inputs.read("ctrl", a), float(info.ctrl_lower[a]), float(info.ctrl_upper[a]))
        force, slope = driven(told, (length, speed), info.gain[a].tolist(), info.bias[a].tolist())
        force, slope = bounded(force, slope, float(info.force_lower[a]), float(info.force_upper[a]))
        _pull(result, moment, force, slope)
        frame = int(info.frame_idx[a])
        if frame != WORLD:
            push = Force(scale(force, info.frame_torque[a].tolist()), scale(force, info.frame_force[a].tolist()))
            result.frames = add_forces(result.frames, {frame: push})
    dofs = inputs.model.dofs
    for i, (least, most) in enumerate(zip(dofs.effort_lower.tolist(), dofs.effort_upper.tolist(), strict=True)):
        result.force[i], result.slope[i] = bounded(result.force[i], result.slope[i], least, most)
    return result


def driven(
    told: Value, motion: tuple[Value, Value], gain: Sequence[Value], bias: Sequence[Value]
) -> tuple[Value, Value]:
    """An actuator's force along its length, and its slope, from length and speed."""
    return _affine(gain, *motion) * told + _affine(bias, *motion), gain[2] * told + bias[2]


def _affine(terms: Sequence[Value], length: Value, speed: Value) -> Value:
    return terms[0] + terms[1] * length + terms[2] * speed
