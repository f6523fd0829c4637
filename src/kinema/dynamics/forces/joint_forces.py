"""Joint-space forces: springs (with yield), dampers, user control and applied forces, with velocity derivatives."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from kinema import ir
from kinema.ir import Value
from kinema.model import Model, PrimitiveJointType

from ..arrays import CLAMP_SLOPE, CONTROL_GAINS
from ..settings import InputMode, Integrator
from ..tree.kinematic_tree import FrameNode
from ..tree.node_values import NodeValues
from ..tree.sparse_matrix import JointSpaceMatrix
from ..tree.trace_context import TraceContext
from ..tree.transmissions import ForceTerm, Transmission, Transmissions
from ..vector_math import dot, normalize, quaternion_exp, quaternion_multiply, quaternion_to_rotation_vector, scale
from .transmission_paths import HasPoses

# ----------------------------------------------------------------------------------------------------- yielding springs
#
# A spring stretched beyond its yield displacement deforms plastically (MJCF `springyield`): its rest position is state.

MIN_SPRING_ANGLE = 1e-15
SMALLEST_FORCE = 1e-30
"""Added to forces before a division [N or N m]."""


def spring_rest(ctx: TraceContext, node: FrameNode) -> Sequence[Value]:
    """Rest coordinates of the springs of a frame's joint."""
    if _has_yielding_spring(ctx, node):
        return ctx.read_node("spring_rest", node)
    return ctx.read_node("spring_quat" if node.joint_type == PrimitiveJointType.BALL else "spring_ref", node)


def _has_yielding_spring(ctx: TraceContext, node: FrameNode) -> bool:
    first = ctx.read_node("spring_yield", node)[0]
    return node.has_spring and not (isinstance(first, float) and first == math.inf)


def rotation_from_rest(rest: Sequence[Value], q: Sequence[Value]) -> Sequence[Value]:
    """Rotation vector of a ball joint's coordinates q relative to its rest quaternion."""
    w, x, y, z = rest
    return quaternion_to_rotation_vector(quaternion_multiply([w, -x, -y, -z], q))


def update_spring_rest(ctx: TraceContext, node: FrameNode, q: Sequence[Value]) -> None:
    """Write the rest coordinates of a yielding (plastic) joint spring after the step, given the next coordinates q.

    The rest position moves so that the displacement stays within the yield displacement. With RK4 only the last stage
    changes it; nothing is written for other joints.
    """
    if not _has_yielding_spring(ctx, node):
        return
    rest, max_displacement = ctx.read_node("spring_rest", node), ctx.read_node("spring_yield", node)[0]
    if node.joint_type == PrimitiveJointType.BALL:
        rotation = rotation_from_rest(rest, q)
        angle = ir.sqrt(dot(rotation, rotation))
        fraction = ir.maximum(angle - max_displacement, 0.0) / ir.maximum(angle, MIN_SPRING_ANGLE)
        moved = list(normalize(quaternion_multiply(rest, quaternion_exp(scale(0.5 * fraction, rotation)))))
    else:
        moved = [ir.clamp(rest[0], q[0] - max_displacement, q[0] + max_displacement)]
    if ctx.settings.integrator is Integrator.RK4:
        phase = ctx.read("phase")
        moved = [ir.select(2.5, phase, new, old) for new, old in zip(moved, rest, strict=True)]
    ctx.write("spring_rest", node, moved)


def update_tendon_spring_rest(step: HasPoses) -> None:
    """Trace the update of the rest lengths of yielding (plastic) tendon springs, at the end of a step.

    Rest lengths move so that the stretch stays within the yield displacement. The next length of a transmission path is
    extrapolated by its velocity, as in MuJoCo, instead of measured. The last stage of a Runge-Kutta step uses the
    measured length.
    """
    ctx, indices = step.ctx, yielding_tendons(step.ctx.model)
    is_rk4 = ctx.settings.integrator is Integrator.RK4

    def body(tendon: Transmission) -> ForceTerm:
        extrapolation = ctx.dt * tendon.velocity if tendon.kind.startswith("spatial") and not is_rk4 else 0.0
        old = tendon.read("rest_lower")[0], tendon.read("rest_upper")[0]
        new = _yielded_rest_lengths(*old, tendon.length + extrapolation, tendon.read("spring_yield")[0])
        if is_rk4:
            (phase,) = tendon.read("phase")
            new = tuple(ir.select(2.5, phase, x, y) for x, y in zip(new, old, strict=True))
        for name, value in zip(("rest_lower", "rest_upper"), new, strict=True):
            ctx.iteration.write(name, [value])
        return ForceTerm(0.0, 0.0)

    if indices:
        ctx.transmissions("tendons", indices, body, step.path_lengths, name="yielding tendons")


def _yielded_rest_lengths(lower: Value, upper: Value, length: Value, yield_length: Value) -> tuple[Value, ...]:
    """Lower and upper rest length of a spring, moved so that its stretch does not exceed `yield_length`.

    A lower rest length of zero (a tendon that may be slack) stays zero unless the upper one is zero too.
    """
    stretch_excess, compression_excess = (ir.maximum(x - yield_length, 0.0) for x in (length - upper, lower - length))
    lower_shift = ir.select(0.0, ir.absolute(lower), stretch_excess, ir.select(0.0, upper, 0.0, stretch_excess))
    return lower + lower_shift - compression_excess, upper + stretch_excess - compression_excess


def yielding_tendons(model: Model) -> list[int]:
    """Indices of the tendons with a finite spring yield."""
    return [int(i) for i in np.flatnonzero(np.isfinite(model.tendons.spring_yield))]


# -------------------------------------------------------------------------------------------- springs, dampers, control

ZERO_FORCE = ForceTerm(0.0, 0.0)


def passive_forces(ctx: TraceContext, node: FrameNode) -> list[ForceTerm]:
    """Spring and damper force on each dof of a frame, with derivative by velocity.

    Stiffness and damping may be polynomials in displacement and speed; the displacement of a ball joint is a rotation
    vector.
    """
    polynomials = _coefficient_pairs(ctx.read_node("damping_poly", node))
    dampers = zip(ctx.read_node("damping", node), polynomials, ctx.read_node("vel", node), strict=True)
    result = [damper_force(damping, poly, velocity) for damping, poly, velocity in dampers]
    if not node.has_spring:
        return result
    stiffness, x = ctx.read_node("stiffness", node), spring_displacements(ctx, node)
    springs = zip(result, stiffness, _coefficient_pairs(ctx.read_node("stiffness_poly", node)), x, strict=True)
    distance = ir.sqrt(dot(x, x)) if len(x) > 1 else x[0]
    return [
        ForceTerm(term.force - polynomial_coefficient(coefficient, poly, distance) * displacement, term.dforce_dvel)
        for term, coefficient, poly, displacement in springs
    ]


def _coefficient_pairs(values: Sequence[Value]) -> list[Sequence[Value]]:
    return [values[i : i + 2] for i in range(0, len(values), 2)]


def polynomial_coefficient(linear: Value, poly: Sequence[Value], x: Value) -> Value:
    """Stiffness or damping coefficient as a polynomial: linear + poly[0] x + poly[1] x^2."""
    return linear + (poly[0] * x + poly[1] * (x * x))


def damper_force(damping: Value, poly: Sequence[Value], velocity: Value) -> ForceTerm:
    """Force of a damper with a polynomial coefficient in the absolute velocity, and its derivative by velocity."""
    square, cube = poly
    speed = ir.absolute(velocity)
    return ForceTerm(
        -(polynomial_coefficient(damping, poly, speed) * velocity),
        -polynomial_coefficient(damping, (2.0 * square, 3.0 * cube), speed),
    )


def polynomial_spring_energy(stiffness: Value, poly: Sequence[Value], x: Value) -> Value:
    """Potential energy of a spring with polynomial stiffness at displacement x [J]."""
    third, fourth = poly[0] * (1.0 / 3.0), poly[1] * 0.25
    return (0.5 * stiffness) * (x * x) + (third * (x * x) * x + fourth * (x * x) * (x * x))


def spring_displacements(ctx: TraceContext, node: FrameNode) -> Sequence[Value]:
    """Displacement of a frame's joint from the rest position of its springs; for a ball joint a rotation vector."""
    q = ctx.read_node("qpos", node)
    rest = spring_rest(ctx, node)
    return rotation_from_rest(rest, q) if node.joint_type == PrimitiveJointType.BALL else [q[0] - rest[0]]


def joint_spring_energy(ctx: TraceContext, node: FrameNode) -> Value:
    """Potential energy of the (possibly polynomial) springs of a frame's joint [J]; zero without springs."""
    energy: Value = 0.0
    if not node.has_spring:
        return energy
    x, polynomials = spring_displacements(ctx, node), _coefficient_pairs(ctx.read_node("stiffness_poly", node))
    for k, displacement in zip(ctx.read_node("stiffness", node), x, strict=True):
        energy = energy + (0.5 * k) * (displacement * displacement)
    distance = ir.sqrt(dot(x, x)) if len(x) > 1 else x[0]
    return energy + polynomial_spring_energy(0.0, polynomials[0], distance)


def control_forces(ctx: TraceContext, node: FrameNode, inertia: Sequence[Value]) -> list[ForceTerm]:
    """Control force on each dof of a frame from user commands, clamped to its force range; zero in actuator-only mode.

    `inertia` is the diagonal of the mass matrix, by which acceleration drives multiply their gains.
    """
    if ctx.settings.input_mode is InputMode.ACTUATORS:
        return [ZERO_FORCE] * len(node.dofs)
    terms = (
        _mode_control_forces(ctx, node)
        if ctx.settings.input_mode is InputMode.MIXED
        else _gain_control_forces(ctx, node)
    )
    if node.has_acceleration_drive:
        terms = [
            ForceTerm(factor * term.force, factor * term.dforce_dvel)
            for factor, term in zip(inertia, terms, strict=True)
        ]
    bounds = zip(*(ctx.read_node(name, node) for name in ("force_lower", "force_upper", CLAMP_SLOPE)), strict=True)
    return [clamp_control_term(term, *limits) for term, limits in zip(terms, bounds, strict=True)]


def _gain_control_forces(ctx: TraceContext, node: FrameNode) -> list[ForceTerm]:
    """Control forces with gains: gain_command command - gain_position q - gain_velocity v, for each dof.

    Ball joints have no position term.
    """
    command, v = ctx.read_node("command", node), ctx.read_node("vel", node)
    by_command, by_position, by_velocity = (ctx.read_node(name, node) for name in CONTROL_GAINS)
    result = []
    for k in range(len(node.dofs)):
        force = by_command[k] * command[k] - by_velocity[k] * v[k]
        if node.joint_type != PrimitiveJointType.BALL:  # a quaternion cannot be controlled per dof
            force = force - by_position[k] * ctx.read_node("qpos", node)[k]
        result.append(ForceTerm(force, -by_velocity[k]))
    return result


def _mode_control_forces(ctx: TraceContext, node: FrameNode) -> list[ForceTerm]:
    """Control force on each dof by its control mode, an array value that may differ between environments.

    0 force: the command; 1 velocity: kv (command - v); 2 position: kp (command - q) - kv v; 3 actuator: zero. Balls
    have no position term.
    """
    names = ("ctrl_mode", "command", "vel", "kp", "kv")
    result = []
    for mode, command, v, kp, kv in zip(*(ctx.read_node(name, node) for name in names), strict=True):
        position: Value = 0.0
        if node.joint_type == PrimitiveJointType.BALL:
            kp = 0.0
        else:
            position = ctx.read_node("qpos", node)[0]
        kp = ir.select(1.5, mode, ir.select(mode, 2.5, kp, 0.0), 0.0)
        kv = ir.select(0.5, mode, ir.select(mode, 2.5, kv, 0.0), 0.0)
        target_velocity = ir.select(0.5, mode, ir.select(1.5, mode, 0.0, command), 0.0)
        force = ir.select(0.5, mode, 0.0, command)
        result.append(ForceTerm(kp * (command - position) + kv * (target_velocity - v) + force, -kv))
    return result


def applied_forces(ctx: TraceContext, node: FrameNode) -> list[ForceTerm]:
    """User-applied joint forces of a frame, added to all other forces."""
    return [ForceTerm(force, 0.0) for force in ctx.read_node("dof_force_applied", node)]


def add_to_force_terms(terms: Sequence[ForceTerm], forces: Sequence[Value]) -> list[ForceTerm]:
    """Force terms with velocity-independent forces added."""
    return [ForceTerm(term.force + force, term.dforce_dvel) for term, force in zip(terms, forces, strict=True)]


def clamp_force_term(term: ForceTerm, lower: Value, upper: Value) -> ForceTerm:
    """Force clamped to [lower, upper]; the velocity derivative is zero where the clamp is active."""
    if lower == -math.inf and upper == math.inf:
        return term
    derivative = term.dforce_dvel
    if not (isinstance(derivative, float) and derivative == 0.0):
        derivative = ir.select(term.force, upper, ir.select(lower, term.force, derivative, 0.0), 0.0)
    return ForceTerm(ir.clamp(term.force, lower, upper), derivative)


def clamp_control_term(term: ForceTerm, lower: Value, upper: Value, clamp_slope: Value) -> ForceTerm:
    """Control force clamped to [lower, upper], with `clamp_slope` times the secant slope as derivative while clamped.

    The secant slope is the derivative without the clamp times clamped / unclamped force: a step implicit in velocity
    then ends with zero force where the unclamped force is zero. With the derivative 0 of the clamp, a controller with
    kv dt above twice the inertia steps across its target velocity and back for ever (chatter).
    """
    if lower == -math.inf and upper == math.inf:
        return term
    clamped = ir.clamp(term.force, lower, upper)
    size = ir.absolute(clamped)
    secant = clamp_slope * (size / ir.maximum(ir.absolute(term.force), size + SMALLEST_FORCE)) * term.dforce_dvel
    derivative = ir.select(term.force, upper, ir.select(lower, term.force, term.dforce_dvel, secant), secant)
    return ForceTerm(clamped, derivative)


# ----------------------------------------------------------------------------------------------------- all joint forces


def collect_joint_force_terms(
    ctx: TraceContext,
    tendons: Transmissions,
    actuators: Transmissions,
    gravcomp_forces: NodeValues[list[Value]] | None,
    mass_matrix: JointSpaceMatrix | None,
) -> NodeValues[list[list[ForceTerm]]]:
    """Trace all joint forces of each frame except bias and constraint forces, as a list of force terms per source.

    Sources are passive (springs, dampers), tendons, user control, actuators, and applied forces if enabled.
    `gravcomp_forces` are added to the actuator forces of joints with actuator gravity compensation (and clamped with
    them), else to the passive forces.
    """
    forces: NodeValues[list[list[ForceTerm]]] = ctx.new_values("forces")

    def body(node: FrameNode) -> None:
        inertia = mass_matrix.diagonal(node) if mass_matrix is not None and node.has_acceleration_drive else []
        passive, actuated = passive_forces(ctx, node), actuators.forces_on_joint(node)
        if gravcomp_forces is not None and node.has_actuator_gravcomp:
            actuated = add_to_force_terms(actuated, gravcomp_forces[node.ref])
        elif gravcomp_forces is not None:
            passive = add_to_force_terms(passive, gravcomp_forces[node.ref])
        bounds = zip(ctx.read_node("effort_lower", node), ctx.read_node("effort_upper", node), strict=True)
        actuated = [clamp_force_term(term, *limits) for term, limits in zip(actuated, bounds, strict=True)]
        terms = [passive, tendons.forces_on_joint(node), control_forces(ctx, node, inertia), actuated]
        forces.put(node.ref, terms if not ctx.settings.external_forces else [*terms, applied_forces(ctx, node)])

    ctx.for_each_frame("forces on joints", body)
    return forces


def implicit_force_terms(
    ctx: TraceContext, node: FrameNode, terms: Sequence[Sequence[ForceTerm]]
) -> Sequence[Sequence[ForceTerm]]:
    """Force terms of a frame by source in whose velocity derivatives a step is implicit.

    All terms with an integrator that is implicit in velocity. With EULER passive forces, as in MuJoCo, and the control
    forces of dofs with default gains (those with a `CLAMP_SLOPE`); none without `eulerdamp`.
    """
    if ctx.settings.integrator.is_implicit_in_velocity:
        return terms
    if not ctx.model.options.eulerdamp:
        return []
    if ctx.settings.input_mode is InputMode.ACTUATORS:
        return terms[:1]
    slopes = ctx.read_node(CLAMP_SLOPE, node)
    control = [ForceTerm(x.force, slope * x.dforce_dvel) for x, slope in zip(terms[2], slopes, strict=True)]
    return [terms[0], control]


def add_joint_vectors(
    ctx: TraceContext, name: str, first: NodeValues[list[Value]], second: NodeValues[list[Value]]
) -> NodeValues[list[Value]]:
    """Trace the sum of two joint vectors."""
    total: NodeValues[list[Value]] = ctx.new_values(name)

    def body(node: FrameNode) -> None:
        total.put(node.ref, [a + b for a, b in zip(first[node.ref], second[node.ref], strict=True)])

    ctx.for_each_frame(name, body)
    return total
