"""Energy limiter: scales accelerations and velocities of a step in which joints move too far, to keep energy bounded.

Constraint Jacobians and bias forces are those at the start of a step. If constraints would move a joint far in one
step, as near a singular Jacobian, their linearisation is no longer valid: the accelerations of the step are scaled
down. If a joint rotates so far that the inertia is different at the end of the step, the bias forces are wrong and
constraint forces that pull bodies back make it worse: kinetic energy would grow from nothing at every step. In these
cases only, all velocities of the environment are scaled so that the kinetic energy does not exceed its value before the
step plus the work of the forces.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kinema import ir
from kinema.ir import SCRATCH, ArenaOffset, IterationContext, Value
from kinema.model import PrimitiveJointType

from ..settings import Integrator
from ..tree.kinematic_tree import FrameNode, NodeType
from ..tree.node_values import NodeValues
from ..tree.trace_context import TraceContext
from ..vector_math import add, dot, sum_values
from .integrators import integrate_coordinates
from .kinematics import JOINT_MODELS, ZERO_TWIST, Pose, Twist, joint_twist, poses_in_parents, transform_twist_to_child
from .rnea import spatial_momentum

MAX_MOTION_PER_STEP = 0.3
"""Joint motion per step [rad or m] beyond which the linearisation of constraints is invalid."""
FAST_MOTION_PER_STEP = 0.1
"""Joint rotation per step [rad] beyond which bias forces may be wrong; their relative error is about its square."""
INERTIA_CHANGE_RATIO = 0.01
"""Relative change of kinetic energy at equal joint velocities above which the inertia counts as changed."""
FULL_STEP_FACTOR = 0.999
"""Acceleration factors below this value count as a scaled step."""
MAX_ENERGY, MIN_ENERGY = 1e37, 1e-30
JointVector = NodeValues[list[Value]]
DofFunction = Callable[[FrameNode], list[Value]]


def init_limiter_factors(ctx: TraceContext) -> ArenaOffset | None:
    """Allocate the two limiter factors (of accelerations, of next velocities), both 1, and return their scratch offset.

    None if the limiter is disabled, with the RK4 integrator, or if all joints are slides.
    """
    has_rotation = any(node.joint_type != PrimitiveJointType.SLIDE for node in ctx.nodes)
    if not ctx.settings.energy_limiter or ctx.settings.integrator is Integrator.RK4 or not has_rotation:
        return None
    factors = ctx.allocate_fixed(2)
    ctx.tracer.write(SCRATCH, [1.0, 1.0], factors.row)
    return factors


def limit_constraint_motion(
    ctx: TraceContext, limiter_factors: ArenaOffset | None, constraint_acceleration: DofFunction
) -> None:
    """Trace a scaling factor that limits constraint accelerations: MAX / max(MAX, largest dt^2 |acceleration|).

    Multiplied by the factor, the accelerations due to constraints rotate no joint by more than MAX =
    `MAX_MOTION_PER_STEP` [rad] in a step; slides do not count. Written to the first of the limiter factors in scratch
    memory. Nothing is traced if `limiter_factors` is None.
    """
    if limiter_factors is None:
        return
    largest = ctx.allocate_fixed(1)
    ctx.tracer.write(SCRATCH, [MAX_MOTION_PER_STEP], largest.row)
    rows = [ctx.frame_iteration(node) for node in ctx.nodes if node.joint_type != PrimitiveJointType.SLIDE]
    for row in rows:
        row.offsets["largest"] = largest

    def update_largest(iteration: IterationContext) -> None:
        maximum = iteration.read("largest")
        for a in constraint_acceleration(ctx.frame_of_iteration(iteration)):
            maximum = ir.maximum(maximum, ir.absolute(ctx.dt * (ctx.dt * a)))
        iteration.write("largest", [maximum])

    ctx.for_each("largest rotation by constraints", rows, update_largest)
    ctx.tracer.write(SCRATCH, [MAX_MOTION_PER_STEP / ctx.tracer.read(SCRATCH, largest.row)], limiter_factors.row)


def limit_energy(
    ctx: TraceContext,
    limiter_factors: ArenaOffset | None,
    qacc: JointVector,
    nonbias_force: DofFunction,
    constraint_force: JointVector | None,
) -> None:
    """Trace a scaling factor of velocities that bounds the kinetic energy after a step of large motion.

    Computed at run time only if a rotational joint is fast, or if constraint forces overshoot (a joint moves too far,
    or the acceleration factor is below 1).

    Args:
        ctx: tracing context.
        limiter_factors: scratch offset of the factors; the second is written.
        qacc: joint accelerations of the step, before scaling.
        nonbias_force: joint forces of a frame except bias and constraint forces.
        constraint_force: joint forces of the constraints; without constraints nothing is traced.
    """
    if limiter_factors is None or constraint_force is None:
        return
    next_velocities: JointVector = ctx.new_values("next velocities")

    def count_fast(node: FrameNode) -> tuple[Value, Value]:
        scaled = scale_accelerations(ctx, limiter_factors, qacc[node.ref])
        v = [v + ctx.dt * a for v, a in zip(ctx.read_node("vel", node), scaled, strict=True)]
        next_velocities.put(node.ref, v)
        fast = [ir.select(FAST_MOTION_PER_STEP, ir.absolute(ctx.dt * x), 1.0, 0.0) for x in v]
        far = [ir.select(MAX_MOTION_PER_STEP, ir.absolute(ctx.dt * x), 1.0, 0.0) for x in v]
        overshooting = [
            ir.select(0.0, ir.absolute(f), x, 0.0) for f, x in zip(constraint_force[node.ref], far, strict=True)
        ]
        return 0.0 if node.joint_type == PrimitiveJointType.SLIDE else sum_values(fast), sum_values(overshooting)

    rotating, overshooting = ctx.sum_over_nodes("count fast joints", NodeType.FRAMES, (0.0, 0.0), count_fast)
    overshooting = overshooting + ir.select(ctx.tracer.read(SCRATCH, limiter_factors.row), FULL_STEP_FACTOR, 1.0, 0.0)
    overshoot = ctx.allocate_fixed(1)
    ctx.tracer.write(SCRATCH, [overshooting], overshoot.row)
    with ctx.without_unrolling(ctx.covers_model):  # rarely executed: not worth unrolling
        ctx.if_nonzero(
            "energy limiter",
            rotating + overshooting,
            lambda: _limit_kinetic_energy(
                ctx, limiter_factors, next_velocities, nonbias_force, constraint_force, overshoot
            ),
        )


def _limit_kinetic_energy(
    ctx: TraceContext,
    limiter_factors: ArenaOffset,
    next_velocities: JointVector,
    nonbias_force: DofFunction,
    constraint_force: JointVector,
    overshoot: ArenaOffset,
) -> None:
    """Trace the velocity factor sqrt(E_max / E_end) (at most 1), with E_max from an energy balance over the step.

    E_max is the kinetic energy before the step plus dt times the power of joint forces and constraints (as far as
    positive) and |gravity| times the sum of momenta. With overshoot the power of constraints does not count; without,
    the factor applies only if the inertia changes much over the step (kinetic energies at old and new poses differ),
    else it is 1. It is 0 if the kinetic energy at the end is excessive or not finite.
    """

    def next_velocity(node: FrameNode) -> list[Value]:
        return next_velocities[node.ref]

    def work(node: FrameNode) -> tuple[Value, Value, Value]:
        forces, constraint_forces = nonbias_force(node), constraint_force[node.ref]
        v, next_v = ctx.read_node("vel", node), next_velocity(node)
        return dot(forces, v), dot(forces, next_v), 0.5 * (dot(constraint_forces, v) + dot(constraint_forces, next_v))

    poses, end_poses = poses_in_parents(ctx), _poses_at_step_end(ctx, next_velocity)
    start_energy, _ = _kinetic_energy(ctx, "energy before step", poses, lambda node: ctx.read_node("vel", node))
    frozen_energy, momentum = _kinetic_energy(ctx, "energy at old poses", poses, next_velocity)
    end_energy, _ = _kinetic_energy(ctx, "energy after step", end_poses, next_velocity)
    *powers, constraint_power = ctx.sum_over_nodes("work", NodeType.FRAMES, (0.0, 0.0, 0.0), work)
    overshoots = ctx.tracer.read(SCRATCH, overshoot.row)
    # summed before clamping: a damper in a kinematic loop has positive power at some joints
    force_power = ir.maximum(ir.minimum(*powers), 0.0)
    constraint_power = ir.select(0.5, overshoots, 0.0, ir.maximum(constraint_power, 0.0))
    max_energy = start_energy + ctx.dt * (
        force_power + constraint_power + ir.sqrt(dot(ctx.gravity, ctx.gravity)) * momentum
    )
    limited_factor = ir.select(max_energy, end_energy, ir.sqrt(max_energy / ir.maximum(end_energy, MIN_ENERGY)), 1.0)
    factor = ir.select(
        INERTIA_CHANGE_RATIO * frozen_energy, ir.absolute(end_energy - frozen_energy), limited_factor, 1.0
    )
    factor = ir.select(0.5, overshoots, limited_factor, factor)
    ctx.tracer.write(SCRATCH, [ir.select(end_energy, MAX_ENERGY, factor, 0.0)], limiter_factors.row + 1)


def scale_accelerations(
    ctx: TraceContext, limiter_factors: ArenaOffset | None, accelerations: Sequence[Value]
) -> list[Value]:
    """Joint accelerations of a frame times the first limiter factor; unchanged without a limiter."""
    return _multiply_by_factor(ctx, limiter_factors, 0, accelerations)


def scale_velocities(
    ctx: TraceContext, limiter_factors: ArenaOffset | None, velocities: Sequence[Value]
) -> list[Value]:
    """Joint velocities of a frame times the second limiter factor; unchanged without a limiter."""
    return _multiply_by_factor(ctx, limiter_factors, 1, velocities)


def _multiply_by_factor(
    ctx: TraceContext, limiter_factors: ArenaOffset | None, factor_index: int, x: Sequence[Value]
) -> list[Value]:
    if limiter_factors is None:
        return list(x)
    ctx.iteration.set_offset("limiter factors", limiter_factors)
    return [ctx.iteration.read("limiter factors", factor_index) * y for y in x]


def _poses_at_step_end(ctx: TraceContext, next_velocities: DofFunction) -> NodeValues[Pose]:
    """Trace the poses of frames in their parents at the end of the step, from the next joint velocities."""
    poses: NodeValues[Pose] = ctx.new_values("poses at step end")

    def body(node: FrameNode) -> None:
        q = integrate_coordinates(node, ctx.read_node("qpos", node), [ctx.dt * v for v in next_velocities(node)])
        poses.put(node.ref, JOINT_MODELS[node.joint_type].pose(node, q))

    ctx.for_each_frame("poses at step end", body)
    return poses


def _kinetic_energy(
    ctx: TraceContext, name: str, local_poses: NodeValues[Pose], joint_velocities: DofFunction
) -> tuple[Value, Value]:
    """Trace the kinetic energy at given poses and joint velocities [J], and the sum of the norms of linear momenta."""

    def move(node: FrameNode, parent_twist: Twist) -> Twist:
        pose = local_poses[node.ref]
        joint, inherited = joint_twist(node, pose, joint_velocities(node)), transform_twist_to_child(parent_twist, pose)
        return Twist(add(inherited.angular, joint.angular), add(inherited.linear, joint.linear))

    velocities = ctx.forward_pass(f"{name}, velocities", ZERO_TWIST, move)

    def energy_and_momentum(node: FrameNode) -> tuple[Value, Value]:
        twist = velocities[node.ref]
        momentum = spatial_momentum(node.inertia, twist)
        energy = 0.5 * (dot(twist.angular, momentum.torque) + dot(twist.linear, momentum.force))
        for velocity, rotor in zip(joint_velocities(node), ctx.read_node("armature", node), strict=True):
            energy = energy + (0.5 * rotor) * (velocity * velocity)
        return energy, ir.sqrt(dot(momentum.force, momentum.force))

    return ctx.sum_over_nodes(name, NodeType.FRAMES, (0.0, 0.0), energy_and_momentum)
