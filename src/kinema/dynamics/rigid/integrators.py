"""Time integration on the configuration manifold (semi-implicit Euler, RK4 stages) and freezing of invalid states."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kinema import ir
from kinema.ir import SCRATCH, IterationContext, Value
from kinema.model import PrimitiveJointType

from ..settings import Integrator
from ..tree.kinematic_tree import FrameNode
from ..tree.node_values import NodeValues
from ..tree.trace_context import TraceContext
from ..vector_math import add, cross, scale, sum_values
from .kinematics import JOINT_MODELS

# ----------------------------------------------------------------------------------------------------- time integration

RK4_NEXT_OFFSETS = (0.5, 0.5, 1.0, 0.0)
"""Time of the next stage after each stage, relative to the start of the step and in units of dt."""
RK4_OFFSETS = (0.0, 0.5, 0.5, 1.0)
"""Time of each stage relative to the start of the step, in units of dt."""
RK4_WEIGHTS = (1 / 6, 1 / 3, 1 / 3, 1 / 6)
"""Weight of each stage in the sums of a step."""


def integrate_coordinates(node: FrameNode, q: Sequence[Value], displacement: Sequence[Value]) -> list[Value]:
    """Coordinates of a frame's joint after a displacement along its degrees of freedom (retraction on the manifold)."""
    return JOINT_MODELS[node.joint_type].integrate(q, displacement)


def semi_implicit_euler_step(
    ctx: TraceContext,
    node: FrameNode,
    acceleration: Sequence[Value],
    limit_velocity: Callable[[list[Value]], list[Value]],
) -> tuple[list[Value], list[Value]]:
    """Semi-implicit Euler step of a frame: v' = limit_velocity(v + dt a), q' = q integrated over dt v'.

    Returns the next coordinates and velocities.
    """
    dt = ctx.dt
    v = limit_velocity(
        [velocity + dt * a for velocity, a in zip(ctx.read_node("vel", node), acceleration, strict=True)]
    )
    return integrate_coordinates(node, ctx.read_node("qpos", node), [dt * x for x in v]), v


def rk4_stage(ctx: TraceContext, node: FrameNode, acceleration: Sequence[Value]) -> tuple[list[Value], list[Value]]:
    """One of the four stages of a Runge-Kutta step (RK4) of a frame; returns the state for the next stage.

    The array `phase` counts the stages 0 to 3. The state at the start of the step, the displacement of the stage from
    it and the weighted sums of rates and accelerations are carried in the arrays `stage_*`, which are read and written.
    The last stage returns the state at the end of the step.
    """
    q, v = ctx.read_node("qpos", node), ctx.read_node("vel", node)
    phase, dt = ctx.read("phase"), ctx.dt

    def initial_or_stored(initial: Sequence[Value], stored: str) -> list[Value]:
        return [ir.select(phase, 0.5, x, y) for x, y in zip(initial, ctx.read_node(stored, node), strict=True)]

    zero = [0.0] * len(v)
    q0, v0, displacement = (
        initial_or_stored(q, "stage_qpos"),
        initial_or_stored(v, "stage_vel"),
        initial_or_stored(zero, "stage_shift"),
    )
    rate = displacement_rate(node, displacement, v)
    weight, next_offset = rk4_weight(phase), rk4_next_time_offset(phase, dt)
    sum_v = [x + weight * r for x, r in zip(initial_or_stored(zero, "stage_sum_vel"), rate, strict=True)]
    sum_a = [x + weight * r for x, r in zip(initial_or_stored(zero, "stage_sum_acc"), acceleration, strict=True)]

    def last_stage_or(final: Value, intermediate: Value) -> Value:
        return ir.select(2.5, phase, final, intermediate)

    shift = [last_stage_or(dt * x, next_offset * r) for x, r in zip(sum_v, rate, strict=True)]
    next_v = [x + last_stage_or(dt * y, next_offset * z) for x, y, z in zip(v0, sum_a, acceleration, strict=True)]
    for name, values in (("qpos", q0), ("vel", v0), ("shift", shift), ("sum_vel", sum_v), ("sum_acc", sum_a)):
        ctx.write(f"stage_{name}", node, values)
    return integrate_coordinates(node, q0, shift), next_v


def displacement_rate(node: FrameNode, displacement: Sequence[Value], velocity: Sequence[Value]) -> list[Value]:
    """Time derivative of the displacement from a fixed configuration at velocity v (inverse of dexp).

    Equal to v, except for rotations: for a rotation vector u it is v + u x v / 2 + u x (u x v) / 12 + ...
    (Munthe-Kaas), which is truncated without loss of order.
    """
    if node.joint_type != PrimitiveJointType.BALL:
        return list(velocity)
    bracket = cross(displacement, velocity)
    return list(add(velocity, scale(0.5, bracket), scale(1.0 / 12.0, cross(displacement, bracket))))


def next_rk4_phase(phase: Value) -> Value:
    """Index of the next Runge-Kutta stage: (phase + 1) mod 4."""
    return ir.select(2.5, phase, 0.0, phase + 1.0)


def rk4_weight(phase: Value) -> Value:
    """Weight of a Runge-Kutta stage in the sums of the step."""
    return _select_by_phase(phase, RK4_WEIGHTS)


def rk4_next_time_offset(phase: Value, dt: Value) -> Value:
    """Time of the next Runge-Kutta stage relative to the start of the step [s]."""
    return dt * _select_by_phase(phase, RK4_NEXT_OFFSETS)


def rk4_stage_offset(phase: Value) -> Value:
    """Time of the current Runge-Kutta stage relative to the start of the step, in units of dt."""
    return _select_by_phase(phase, RK4_OFFSETS)


def _select_by_phase(phase: Value, values: tuple[float, ...]) -> Value:
    result: Value = values[-1]
    for i in reversed(range(len(values) - 1)):
        result = ir.select(phase, i + 0.5, values[i], result)
    return result


# ------------------------------------------------------------------------------------------- freezing of invalid states
#
# By default a frame whose next velocity is not finite keeps its state, and from the next step on so does the whole
# environment, whose error flag is set by then. With `freeze_on_error`, the next state is written only after the sum
# over all frames is known (`DeferredState`), so that the whole environment keeps its last valid state.

MAX_FINITE_STATE = 1e8
"""Velocities or coordinates [SI units] beyond this value count as invalid, so that their squares stay finite."""


def state_before_step(ctx: TraceContext, node: FrameNode) -> tuple[list[Value], list[Value]]:
    """Coordinates and velocities of a frame at the start of the step.

    With RK4 the current state is that of a stage, so the stored state `stage_qpos`, `stage_vel` is used after stage 0.
    """
    q, v = ctx.read_node("qpos", node), ctx.read_node("vel", node)
    if ctx.settings.integrator is not Integrator.RK4:
        return q, v
    phase = ctx.read("phase")

    def initial_or_stored(initial: list[Value], stored: str) -> list[Value]:
        return [ir.select(phase, 0.5, x, y) for x, y in zip(initial, ctx.read_node(stored, node), strict=True)]

    return initial_or_stored(q, "stage_qpos"), initial_or_stored(v, "stage_vel")


def freeze_if_invalid(
    error_flag: Value, old_state: tuple[list[Value], list[Value]], q: Sequence[Value], v: Sequence[Value]
) -> tuple[list[Value], list[Value]]:
    """Next coordinates and velocities of a frame, or the old state if the step is invalid.

    Invalid are velocities whose sum is NaN or has an absolute value above `MAX_FINITE_STATE`, and any step with
    `error_flag` above 0.5.
    """
    invalid = ir.select(ir.absolute(sum_values(list(v))), MAX_FINITE_STATE, error_flag, 1.0)

    def keep_if_valid(new: Sequence[Value], old: list[Value]) -> list[Value]:
        return [ir.select(invalid, 0.5, x, y) for x, y in zip(new, old, strict=True)]

    return keep_if_valid(q, old_state[0]), keep_if_valid(v, old_state[1])


class DeferredState:
    """Next state of all frames in scratch memory, written to the state arrays only if all of it is finite."""

    def __init__(self, ctx: TraceContext) -> None:
        self.ctx = ctx
        self.error_offset = ctx.allocate_fixed(1)
        self.q: NodeValues[list[Value]] = ctx.new_values("next coordinates")
        self.v: NodeValues[list[Value]] = ctx.new_values("next velocities")

    def defer(self, node: FrameNode, q: Sequence[Value], v: Sequence[Value]) -> None:
        """Store the next state of a frame in scratch memory."""
        self.q.put(node.ref, list(q))
        self.v.put(node.ref, list(v))

    def commit(self, error: Value) -> None:
        """Trace a loop that writes the next coordinates and velocities, or those before the step if `error` is set."""
        ctx = self.ctx
        ctx.tracer.write(SCRATCH, [error], self.error_offset.row)
        prefix = "stage_" if ctx.settings.integrator is Integrator.RK4 else ""
        rows = []
        for node in ctx.nodes:
            rows.append(ctx.frame_iteration(node))
            rows[-1].offsets["invalid"] = self.error_offset

        def body(iteration: IterationContext) -> None:
            node, invalid = ctx.frame_of_iteration(iteration), iteration.read("invalid")
            for name, deferred in (("qpos", self.q), ("vel", self.v)):
                pairs = zip(deferred[node.ref], ctx.read_node(prefix + name, node), strict=True)
                ctx.write(name, node, [ir.select(invalid, 0.5, new, old) for new, old in pairs])

        ctx.for_each("write next state if valid", rows, body)
