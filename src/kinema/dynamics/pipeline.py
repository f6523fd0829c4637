"""The step pipeline: ordered stages from state to next state (kinematics, contacts, forces, constraints, integration).

Each stage traces table loops and adds quantities to the `StepData` that later stages read. Whether the loops are kept
or unrolled to straight-line code is decided in `lowering/`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from kinema import ir
from kinema.ir import Tracer

from .constraints.equalities import update_broken_joints
from .forces.activation import integrate_activations, record_controls
from .forces.joint_forces import update_spring_rest, update_tendon_spring_rest
from .forces.transmission_forces import record_quaternion_controls
from .rigid.energy_limiter import limit_energy, scale_accelerations, scale_velocities
from .rigid.integrators import (
    MAX_FINITE_STATE,
    DeferredState,
    freeze_if_invalid,
    next_rk4_phase,
    rk4_stage,
    semi_implicit_euler_step,
    state_before_step,
)
from .settings import Integrator
from .sleep.sleep_wake import SleepState, mark_all_awake, put_still_islands_to_sleep
from .step import StepData
from .tree.kinematic_tree import FrameNode


def wake_trees(step: StepData) -> None:
    """Stage: wake sleeping trees that were disturbed or touched, and exclude the other sleeping trees from loops."""
    if step.ctx.skips_sleeping_trees:
        step.sleepers = SleepState(step.ctx)
        step.sleepers.begin_step()
        _ = step.contact_buffers  # contacts wake trees, before anything is computed for awake trees
    elif step.ctx.idle_flags is not None:
        mark_all_awake(step.ctx)


def compute_poses(step: StepData) -> None:
    """Stage: poses of frames in their parents."""
    _ = step.local_poses


def detect_contacts(step: StepData) -> None:
    """Stage: contact detection into contact lists for the warp solver.

    Other solvers detect contacts with the constraints.
    """
    _ = step.contact_lists


def compute_joint_forces(step: StepData) -> None:
    """Stage: joint forces except bias and constraint forces."""
    _ = step.joint_force_terms


def compute_constraint_forces(step: StepData) -> None:
    """Stage: joint forces of the constraints, by the constraint solver."""
    _ = step.qfrc_constraint


def break_overloaded_equalities(step: StepData) -> None:
    """Stage: mark breakable equality constraints whose force exceeds their limit as broken."""
    if step.solver_inputs is not None:
        update_broken_joints(step.ctx, step.solver_inputs.rows)


def compute_accelerations(step: StepData) -> None:
    """Stage: joint accelerations with which the step is integrated (implicit in velocity, except for RK4)."""
    is_rk4 = step.ctx.settings.integrator is Integrator.RK4
    step.qacc = step.constrained_acceleration if is_rk4 else step.implicit_acceleration()


def limit_step_energy(step: StepData) -> None:
    """Stage: limit the kinetic energy of a step in which joints move too far (energy limiter)."""
    assert step.qacc is not None
    limit_energy(step.ctx, step.limiter_factors, step.qacc, step.nonbias_force, step.qfrc_constraint)


def integrate_state(step: StepData) -> None:
    """Stage: integrate coordinates, velocities, activations and spring rest; set the error flag if not finite.

    Also stores the controls of delayed actuators. With `freeze_on_error` the whole environment keeps its state if the
    next state is invalid.
    """
    ctx, qacc = step.ctx, step.qacc
    assert qacc is not None
    is_rk4 = ctx.settings.integrator is Integrator.RK4
    finite_check = ctx.finite_check(step.partition_of_frame)
    deferred = DeferredState(ctx) if ctx.settings.freeze_on_error else None

    def body(node: FrameNode) -> None:
        old = state_before_step(ctx, node)
        acceleration = scale_accelerations(ctx, step.limiter_factors, qacc[node.ref])
        limit_velocity = partial(scale_velocities, ctx, step.limiter_factors)
        q, v = (
            rk4_stage(ctx, node, acceleration)
            if is_rk4
            else semi_implicit_euler_step(ctx, node, acceleration, limit_velocity)
        )
        finite_check.accumulate(node, q, v)
        if deferred is None:
            q, v = freeze_if_invalid(finite_check.error_flag(), old, q, v)
            ctx.write("qpos", node, q)
            ctx.write("vel", node, v)
        else:
            deferred.defer(node, q, v)
        update_spring_rest(ctx, node, q)

    ctx.for_each_frame("next state", body)
    update_tendon_spring_rest(step)
    integrate_activations(ctx, step.actuators)
    record_controls(ctx, step.actuators)
    record_quaternion_controls(ctx, step.actuators)
    errors = [
        ir.select(ir.absolute(total), MAX_FINITE_STATE, ctx.read("error", partition), 1.0)
        for partition, total in enumerate(finite_check.totals())
    ]
    ctx.write("error", None, errors)
    if deferred is not None:
        deferred.commit(errors[0])


def put_trees_to_sleep(step: StepData) -> None:
    """Stage: put islands that stayed below the sleep tolerance for long enough to sleep, from the next step on."""
    if step.ctx.skips_sleeping_trees and step.islands is not None:
        put_still_islands_to_sleep(step.ctx, step.islands)


Stage = Callable[[StepData], None]
STAGES: list[Stage] = [
    wake_trees,
    compute_poses,
    detect_contacts,
    compute_joint_forces,
    compute_constraint_forces,
    break_overloaded_equalities,
    compute_accelerations,
    limit_step_energy,
    integrate_state,
    put_trees_to_sleep,
]
"""The stages of a step in order; additional stages can be inserted."""


def record_step(step: StepData) -> None:
    """Trace all stages of one step; with RK4 one of four runs, each followed by `advance_rk4_phase`."""
    for stage in STAGES:
        stage(step)


def advance_rk4_phase(tracer: Tracer) -> None:
    """Advance the array `phase` to the next Runge-Kutta stage."""
    tracer.write("phase", [next_rk4_phase(tracer.read("phase"))])
