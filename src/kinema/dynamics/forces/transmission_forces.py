"""Scalar forces along transmissions: actuators (affine, muscle, orientation servos) and tendon springs and dampers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from kinema import ir
from kinema.ir import ArenaOffset, IterationContext, LoopIteration, Value

from ..arrays import ElementKind
from ..extensions import look_up
from ..rigid.rnea import Wrench
from ..settings import InputMode
from ..tree.node_values import NodeValues
from ..tree.trace_context import TraceContext
from ..tree.transmissions import ForceTerm, Transmission, Transmissions
from ..vector_math import dot, normalize, quaternion_multiply, quaternion_to_rotation_vector, scale
from . import muscle
from .activation import actuator_input, interpolate_control_history, push_control_history
from .joint_forces import clamp_force_term, damper_force, polynomial_coefficient, polynomial_spring_energy
from .servos import SERVO_KINDS, servo_force
from .tendon_wrapping import angle_from_cos_sin
from .transmission_paths import HasPoses

# ------------------------------------------------------------------------------- total actuator force limits of tendons


def clamp_shared_tendon_forces(actuators: Transmissions) -> None:
    """Trace loops that scale the forces of actuators on a common tendon so that their sum is within its force range.

    MJCF `actuatorfrcrange` of tendons. The (force, derivative by velocity) pairs of the actuators are changed in place.
    """
    ctx, info = actuators.ctx, actuators.ctx.model.actuators
    group_of = {i: int(info.force_group_idx[i]) for i in actuators.pair_offsets if info.force_group_idx[i] >= 0}
    totals = {group: ctx.allocate(1) for group in sorted(set(group_of.values()))}
    rows = [
        LoopIteration(
            "actuator",
            {"pair": actuators.pair_offsets[i], "total": totals[group]},
            {name: [float(getattr(info, name)[i])] for name in ("force_group_lower", "force_group_upper")},
        )
        for i, group in group_of.items()
    ]
    clear = [LoopIteration("tendon", {"total": offset}) for offset in totals.values()]
    ctx.for_each("clear actuator forces of tendons", clear, lambda iteration: iteration.write("total", [0.0]))
    ctx.for_each("sum actuator forces of tendons", rows, _sum_tendon_force)
    ctx.for_each("clamp actuator forces of tendons", rows, _scale_to_tendon_limits)


def _sum_tendon_force(iteration: IterationContext) -> None:
    iteration.write("total", [iteration.read("total") + iteration.read("pair")])


def _scale_to_tendon_limits(iteration: IterationContext) -> None:
    """Loop body: scale an actuator force so that the total force on its tendon is within the force range.

    Where the range is exceeded, the derivative of the force by velocity becomes zero.
    """
    total, lower, upper = (
        iteration.read("total"),
        iteration.constant("force_group_lower"),
        iteration.constant("force_group_upper"),
    )
    force, derivative = iteration.read_array("pair", 2)
    exceeds = ir.select(upper, total, 1.0, ir.select(total, lower, 1.0, 0.0))
    factor = ir.clamp(total, lower, upper) / ir.select(0.5, exceeds, total, 1.0)
    iteration.write("pair", [ir.select(0.5, exceeds, factor * force, force), ir.select(0.5, exceeds, 0.0, derivative)])


# --------------------------------------------------------------------------------------------------- orientation servos
#
# An orientation servo is a group of three actuators (target rotation vector) or four (target quaternion), whose last
# three have the rotation axes as transmissions. It rotates the shortest way to the target.

ORIENTATION_SERVO = "orientation"
"""Kind of the actuators that belong to an orientation servo."""
SERVO_AXES = range(3)
MIN_QUATERNION_NORM = 1e-15


def apply_orientation_servos(ctx: TraceContext, actuators: Transmissions) -> None:
    """Trace the torques of orientation servos: kp log(R^T T) - kv w, with R the orientation and T the target.

    The pairs of the three actuators hold (control, velocity) before and (torque, derivative by velocity) after. The
    torque vector is limited to the length `force_upper`.
    """
    rows = [
        _orientation_servo_iteration(ctx, actuators, group) for group in _orientation_servo_actuators(ctx, actuators)
    ]
    ctx.for_each("orientation servos", rows, lambda iteration: _orientation_servo_torque(ctx, iteration))


def record_quaternion_controls(ctx: TraceContext, actuators: Transmissions) -> None:
    """Trace a loop that prepends the scalar parts w of delayed quaternion controls to their history buffers.

    The scalar part belongs to an actuator without transmission, which `record_controls` does not cover.
    """
    delayed = [
        group
        for group in _orientation_servo_actuators(ctx, actuators)
        if len(group) > len(SERVO_AXES) and ctx.model.actuators.n_delay_samples[group[0]]
    ]
    rows = [
        LoopIteration(int(ctx.model.actuators.n_delay_samples[group[0]]), _scalar_part_offsets(ctx, group[0]))
        for group in delayed
    ]

    def body(iteration: IterationContext) -> None:
        n: int = iteration.specialization  # type: ignore[assignment]
        iteration.write("history", push_control_history(ctx, iteration.read("w"), iteration.read_array("history", n)))

    ctx.for_each("record delayed quaternion controls", rows, body)


def _orientation_servo_actuators(ctx: TraceContext, actuators: Transmissions) -> list[list[int]]:
    """Actuator indices of each orientation servo that acts on frames of the context."""
    servos: dict[int, list[int]] = {}
    for i, servo in enumerate(ctx.model.actuators.orientation_servo_idx.tolist()):
        if servo >= 0:
            servos.setdefault(servo, []).append(i)
    return [group for group in servos.values() if actuators.pair_offsets.keys() >= set(group[-len(SERVO_AXES) :])]


def _scalar_part_offsets(ctx: TraceContext, actuator: int) -> dict[str, ArenaOffset]:
    """Arena offsets of the scalar part of a quaternion control: control `w` and, if delayed, its history buffer."""
    offsets, info = {"w": ctx.element_arrays(ElementKind.ACTUATOR, actuator)["ctrl"]}, ctx.model.actuators
    if info.n_delay_samples[actuator]:
        offsets["history"] = ctx.element_arrays(ElementKind.DELAY_SAMPLE, int(info.n_delay_samples[:actuator].sum()))[
            "history"
        ]
    return offsets


def _orientation_servo_iteration(
    ctx: TraceContext, actuators: Transmissions, servo_actuators: Sequence[int]
) -> LoopIteration:
    """Loop iteration of an orientation servo: memory offsets of its axes, target, PD gains and torque limit.

    The specialization key is (control form, whether the actuator can be disabled, number of delay samples,
    interpolation).
    """
    info, axes = ctx.model.actuators, servo_actuators[-len(SERVO_AXES) :]
    offsets: dict[str, ArenaOffset] = {}
    for k, i in enumerate(axes):
        offsets[f"pair {k}"] = actuators.pair_offsets[i]
        offsets[f"rotation {k}"] = actuators.path_lengths.lengths[actuators.path_of_transmission[i]]
    first, is_quaternion = servo_actuators[0], len(servo_actuators) > len(SERVO_AXES)
    if is_quaternion:
        offsets |= _scalar_part_offsets(ctx, first)
    can_disable = ctx.settings.input_mode is not InputMode.ACTUATORS
    if can_disable:
        offsets["on"] = ctx.element_arrays(ElementKind.ACTUATOR, axes[0])["actuator_on"]
    constants = {
        "kp": [float(info.gain[axes[0], 0])],
        "kv": [-float(info.bias[axes[0], 2])],
        "max torque": [float(info.force_upper[axes[0]])],
        "w range": [float(info.ctrl_lower[first]), float(info.ctrl_upper[first])],
        "delay": [float(info.delay[first])],
    }
    delay = (int(info.n_delay_samples[first]), info.interpolation[first]) if is_quaternion else (0, "")
    return LoopIteration(("quaternion" if is_quaternion else "vector", can_disable, *delay), offsets, constants)


def _orientation_servo_torque(ctx: TraceContext, iteration: IterationContext) -> None:
    """Traced loop body: PD torque of an orientation servo, limited in norm, written as force of its three axes.

    Torque kp e - kv w, with e the rotation vector from current to target orientation; the target is a rotation vector
    or a quaternion (whose scalar part may be delayed).
    """
    form, can_disable, n_samples, interpolation = iteration.specialization  # type: ignore[misc]
    pairs = [iteration.read_array(f"pair {k}", 2) for k in SERVO_AXES]
    control, velocities = ([pair[index] for pair in pairs] for index in (0, 1))
    current = _rotation_vector_to_quaternion([iteration.read(f"rotation {k}") for k in SERVO_AXES])
    target = _rotation_vector_to_quaternion(control)
    if form == "quaternion":
        scalar = iteration.read("w")
        if n_samples:
            scalar = interpolate_control_history(
                ctx, interpolation, iteration.read_array("history", n_samples), iteration.constant("delay")
            )
        target = _normalize_quaternion([ir.clamp(scalar, *iteration.constants("w range")), *control])
    inverse = [current[0], *scale(-1.0, current[1:])]
    error = quaternion_to_rotation_vector(normalize(quaternion_multiply(inverse, target)))
    kp, kv, max_torque = (iteration.constant(name) for name in ("kp", "kv", "max torque"))
    torque = [kp * x - kv * w for x, w in zip(error, velocities, strict=True)]
    norm = ir.sqrt(ir.maximum(dot(torque, torque), MIN_QUATERNION_NORM * MIN_QUATERNION_NORM))
    factor = ir.minimum(max_torque / norm, 1.0)
    derivative = ir.select(norm, max_torque, -kv, 0.0)
    on = iteration.read("on") if can_disable else 1.0
    for k in SERVO_AXES:
        iteration.write(f"pair {k}", [on * factor * torque[k], on * derivative])


def _rotation_vector_to_quaternion(rotation_vector: Sequence[Value]) -> list[Value]:
    """Quaternion (w, x, y, z) of a rotation vector of any length."""
    half = scale(0.5, rotation_vector)
    angle = ir.sqrt(ir.maximum(dot(half, half), MIN_QUATERNION_NORM * MIN_QUATERNION_NORM))
    return [ir.cos(angle), *scale(ir.sin(angle) / angle, half)]


def _normalize_quaternion(q: Sequence[Value]) -> list[Value]:
    """Normalised quaternion; the identity for a zero quaternion."""
    square = dot(q, q)
    length = ir.sqrt(ir.maximum(square, MIN_QUATERNION_NORM * MIN_QUATERNION_NORM))
    nonzero = ir.select(MIN_QUATERNION_NORM * MIN_QUATERNION_NORM, square, 1.0, 0.0)
    return [nonzero * q[0] / length + (1.0 - nonzero), *scale(nonzero / length, q[1:])]


# ------------------------------------------------------------------------------------------------ tendons and actuators


def tendon_forces(step: HasPoses, force_law: Callable[[Transmission], ForceTerm] | None = None) -> Transmissions:
    """Trace spring and damper forces of tendons, or another `force_law` for the tendons with springs or dampers."""
    ctx, info = step.ctx, step.ctx.model.tendons
    springs, dampers = info.stiffness_poly.any(axis=1), info.damping_poly.any(axis=1)
    indices = [int(i) for i in ((info.stiffness != 0) | (info.damping != 0) | springs | dampers).nonzero()[0]]
    return ctx.transmissions(
        "tendons", indices, force_law or (lambda tendon: _tendon_force(tendon, ctx.dt)), step.path_lengths
    )


def _tendon_force(transmission: Transmission, dt: Value) -> ForceTerm:
    """Force of a tendon by the law of its kind, with derivative by velocity."""
    law = look_up(TENDON_FORCE_LAWS, transmission.kind, "tendon force law (`TENDON_FORCE_LAWS`)")
    return law(transmission, dt)


def _spring_damper_force(transmission: Transmission, dt: Value) -> ForceTerm:
    """Spring and damper force of a tendon, with derivative by velocity."""
    (stiffness,), (damping,) = transmission.read("stiffness"), transmission.read("damping")
    stretch = _tendon_stretch(transmission)
    spring = -polynomial_coefficient(stiffness, transmission.read("stiffness_poly"), stretch) * stretch
    damper = damper_force(damping, transmission.read("damping_poly"), transmission.velocity)
    return ForceTerm(spring + damper.force, damper.dforce_dvel)


def _drive_force(transmission: Transmission, dt: Value) -> ForceTerm:
    """Spring and damper force of a drive with a target velocity and a force limit."""
    total, (damping,) = _spring_damper_force(transmission, dt), transmission.read("damping")
    (target_velocity,), (max_force,) = transmission.read("target_vel"), transmission.read("max_force")
    return clamp_force_term(
        ForceTerm(total.force + damping * target_velocity, total.dforce_dvel), -max_force, max_force
    )


def _loop_damper_force(transmission: Transmission, dt: Value) -> ForceTerm:
    """Force of a damper at a loop-closing joint, limited so that it stops the motion within one step.

    Constraints see the damper force at the start of the step. A stronger damper would make them respond with forces
    that are not balanced at the end of the step, and energy would grow.
    """
    (invweight,), (damping,) = transmission.read("invweight"), transmission.read("damping")
    coefficient = ir.minimum(damping, 1.0 / (dt * invweight))
    return ForceTerm(-coefficient * transmission.velocity, -coefficient)


TENDON_FORCE_LAWS: dict[str, Callable[[Transmission, Value], ForceTerm]] = {
    **dict.fromkeys(("fixed", "spatial", "fixed yielding", "spatial yielding"), _spring_damper_force),
    "drive": _drive_force,
    "brake": _loop_damper_force,
}
"""Force law per kind of tendon (`TendonsInfo.kinds`), from the transmission and the time step. Applied to the tendons
with a nonzero stiffness or damping."""


def tendon_spring_energy(transmission: Transmission) -> ForceTerm:
    """Potential energy of a tendon spring [J], returned as the force of a `ForceTerm`."""
    return ForceTerm(
        polynomial_spring_energy(
            transmission.read("stiffness")[0], transmission.read("stiffness_poly"), _tendon_stretch(transmission)
        ),
        0.0,
    )


def _tendon_stretch(transmission: Transmission) -> Value:
    """Signed stretch of a tendon beyond its interval of rest lengths; zero within."""
    (lower,), (upper,) = transmission.read("rest_lower"), transmission.read("rest_upper")
    return ir.minimum(transmission.length - lower, 0.0) + ir.maximum(transmission.length - upper, 0.0)


def _affine_actuator_force(transmission: Transmission, actuator_input: Value) -> ForceTerm:
    """Affine actuator force: gain(l, l') input + bias(l, l'), with three coefficients each."""
    return _gain_bias_force(_affine_gain(transmission), actuator_input, _affine_bias(transmission))


def _muscle_force(transmission: Transmission, actuator_input: Value) -> ForceTerm:
    """Muscle actuator force: active force times input plus passive force."""
    return _gain_bias_force(
        muscle.active_force(transmission), actuator_input, (muscle.passive_force(transmission), 0.0)
    )


def _muscle_gain_force(transmission: Transmission, actuator_input: Value) -> ForceTerm:
    """Actuator force with muscle gain and affine bias."""
    return _gain_bias_force(muscle.active_force(transmission), actuator_input, _affine_bias(transmission))


def _muscle_bias_force(transmission: Transmission, actuator_input: Value) -> ForceTerm:
    """Actuator force with affine gain and the passive force of a muscle."""
    return _gain_bias_force(_affine_gain(transmission), actuator_input, (muscle.passive_force(transmission), 0.0))


ValueAndVelocityDerivative = tuple[Value, Value]
"""A value and its derivative by velocity."""


def _gain_bias_force(
    gain: ValueAndVelocityDerivative, actuator_input: Value, bias: ValueAndVelocityDerivative
) -> ForceTerm:
    return ForceTerm(gain[0] * actuator_input + bias[0], gain[1] * actuator_input + bias[1])


def _affine_gain(transmission: Transmission) -> ValueAndVelocityDerivative:
    terms = transmission.read("gain")
    return _affine_sum(terms, transmission), terms[2]


def _affine_bias(transmission: Transmission) -> ValueAndVelocityDerivative:
    terms = transmission.read("bias")
    return _affine_sum(terms, transmission), terms[2]


def _affine_sum(terms: Sequence[Value], transmission: Transmission) -> Value:
    return terms[0] + terms[1] * transmission.length + terms[2] * transmission.velocity


def _unwrap_servo_length(transmission: Transmission, control: Value) -> Transmission:
    """Transmission of an angle servo with its length shifted by whole turns to within half a turn of the control."""
    (radian,) = transmission.read("length_per_radian")
    error = (control - transmission.length) / radian
    sine, cosine = ir.sin(error), ir.cos(error)
    angle = angle_from_cos_sin(cosine, ir.absolute(sine))
    return replace(transmission, length=control - radian * ir.select(sine, 0.0, -angle, angle))


ACTUATOR_FORCE_LAWS: dict[str, Callable[[Transmission, Value], ForceTerm]] = {
    "affine": _affine_actuator_force,
    "muscle": _muscle_force,
    "muscle gain": _muscle_gain_force,
    "muscle bias": _muscle_bias_force,
}
"""Force law per kind of actuator, from the transmission and the control or activation."""


def actuator_forces(step: HasPoses, wrenches: NodeValues[Wrench] | None) -> Transmissions:
    """Trace the force of every actuator, clamped to its force range, with derivative by velocity.

    The wrenches of actuators that act on frames (sites) are added to `wrenches`. Also computes torques of orientation
    servos and scales forces of actuators on a common tendon. Unless only actuators are controlled, `actuator_on`
    disables actuators whose joints are controlled by user commands.
    """
    ctx = step.ctx

    def body(actuator: Transmission) -> ForceTerm:
        if actuator.kind in SERVO_KINDS:
            term = servo_force(ctx, actuator, _unwrap_servo_length)
        else:
            control_input = actuator_input(ctx, actuator)
            if actuator.kind == ORIENTATION_SERVO:
                return ForceTerm(control_input, actuator.velocity)  # turned into torques by `apply_orientation_servos`
            unwrapped = _unwrap_servo_length(actuator, control_input) if actuator.is_angle_servo else actuator
            law = look_up(ACTUATOR_FORCE_LAWS, actuator.kind, "actuator force law (`ACTUATOR_FORCE_LAWS`)")
            (lower,), (upper,) = actuator.read("force_lower"), actuator.read("force_upper")
            term = clamp_force_term(law(unwrapped, control_input), lower, upper)
        if ctx.settings.input_mode is not InputMode.ACTUATORS:
            (on,) = actuator.read("actuator_on")
            term = ForceTerm(on * term.force, on * term.dforce_dvel)
        if actuator.frame_ref is not None and wrenches is not None:
            torque, force = actuator.read("frame_torque"), actuator.read("frame_force")
            wrenches.add(actuator.frame_ref, Wrench(scale(term.force, torque), scale(term.force, force)))
        return term

    def adjust(actuators: Transmissions) -> None:
        apply_orientation_servos(ctx, actuators)
        clamp_shared_tendon_forces(actuators)

    return ctx.transmissions("actuators", range(ctx.model.n_actuators), body, step.path_lengths, adjust_forces=adjust)
