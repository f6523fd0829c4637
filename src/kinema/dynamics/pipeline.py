"""The step pipeline: ordered stages from state to next state (kinematics, contacts, forces, constraints, integration).

Each stage is a function that traces for-each loops. It reads quantities of the `StepData` that it lists, and produces
quantities that later stages read. `STAGES` is the complete, ordered list. A step runs the stages with an effect on the
state, and the stages that produce what these read; `compute` runs the stages for given quantities, for queries of
fields and sensors. Stages that nothing needs are not traced. Whether loops are kept or unrolled to straight-line code
is decided in `lowering/`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from kinema import ir
from kinema.ir import Tracer, Value

from .collision.contact_buffers import ContactBuffers
from .collision.contact_lists import ContactLists
from .collision.contact_slots import ContactSlots
from .collision.narrow_phase import detect_contacts_into_lists
from .collision.ruled_narrow_phase import detect_contacts_by_rules
from .constraints.attachments import update_attachments, update_suction_cups
from .constraints.contacts import world_motion_subspaces
from .constraints.equalities import update_broken_joints
from .constraints.rows import KinematicState
from .forces import transmission_forces
from .forces.activation import integrate_activations, record_controls
from .forces.adhesion import add_adhesion_wrenches
from .forces.external_wrenches import (
    add_applied_wrenches,
    add_gravcomp_wrenches,
    has_actuator_gravcomp,
    has_external_wrenches,
    zero_wrenches,
)
from .forces.fluid import (
    add_fluid_wrenches,
    drag_derivatives,
    free_body_drag_derivatives,
    has_fluid,
    subtract_drag_derivatives,
)
from .forces.joint_forces import (
    add_joint_vectors,
    collect_joint_force_terms,
    implicit_force_terms,
    update_spring_rest,
    update_tendon_spring_rest,
)
from .forces.servos import integrate_servo_states, record_servo_controls
from .forces.tendon_armature import (
    bias_forces_with_tendon_armature,
    mass_matrix_with_tendon_armature,
    tendons_with_armature,
)
from .forces.transmission_forces import record_quaternion_controls
from .forces.transmission_paths import measure_path_lengths, paths_in_context
from .rigid import link_dynamics
from .rigid.aba import aba_accelerations
from .rigid.bias_derivatives import add_bias_derivatives
from .rigid.energy_limiter import (
    init_limiter_factors,
    limit_constraint_motion,
    limit_energy,
    scale_accelerations,
    scale_velocities,
)
from .rigid.free_bodies import implicit_free_body_accelerations, replace_free_body_accelerations
from .rigid.integrators import (
    MAX_FINITE_STATE,
    DeferredState,
    freeze_if_invalid,
    next_rk4_phase,
    rk4_stage,
    semi_implicit_euler_step,
    state_before_step,
)
from .rigid.kinematic_bodies import move_kinematic_bodies
from .rigid.kinematics import (
    Pose,
    poses_in_parents,
    poses_in_world,
    shifted_world_origin,
    spatial_accelerations,
    spatial_velocities,
)
from .rigid.rnea import ZERO_WRENCH, Wrench, generalized_forces, inertial_wrench
from .settings import Integrator
from .sleep.sleep_wake import SleepState, find_contacts_and_wake, mark_all_awake, put_resting_islands_to_sleep
from .solver.constraint_solver import build_constraint_rows, solve_constraints
from .solver.islands import find_islands
from .solver.newton import NewtonSolver
from .solver.objective import SolverInputs
from .step import KINEMATIC_STATE_QUANTITIES, StepData, UnproducedQuantityError
from .tree.kinematic_tree import FrameNode
from .tree.lu_factors import LUFactors
from .tree.node_values import NodeValues
from .tree.presence import keep_if_absent, zero_if_absent
from .tree.sparse_matrix import JointSpaceMatrix, LDLFactors, ldl_factorize, with_fill_in
from .vector_math import scale, sub, sum_values

JointVector = NodeValues[list[Value]]
DofFunction = Callable[[FrameNode], list[Value]]
Reads = Sequence[str] | Callable[[StepData], Iterable[str]]


@dataclass(frozen=True, slots=True, eq=False)
class Stage:
    """One stage of the pipeline."""

    run: Callable[[StepData], None]
    """Traces the stage: reads quantities of the record, assigns those it produces."""
    produces: tuple[str, ...]
    """Quantities that the stage assigns; empty for a stage with an effect on the state, which every step runs."""
    reads: Reads
    """Quantities that the stage may read, or a function that returns them for a model and its settings."""

    @property
    def name(self) -> str:
        """Name of the stage function."""
        return self.run.__name__  # ty: ignore[missing-attribute]

    def reads_of(self, step: StepData) -> set[str]:
        """Quantities that the stage may read for the model and settings of `step`."""
        return set(self.reads(step) if callable(self.reads) else self.reads)

    def __call__(self, step: StepData) -> None:
        """Trace the stage, checking that it reads no other quantities than it lists and produces all of its own."""
        step.running_stage, step.readable = self.name, {*self.reads_of(step), *self.produces}
        self.run(step)
        step.running_stage, step.readable = "", None
        missing = [name for name in self.produces if name not in step.produced]
        if missing:
            raise UnproducedQuantityError(f"the stage `{self.name}` did not produce `{'`, `'.join(missing)}`")


def stage(*produces: str, reads: Reads = ()) -> Callable[[Callable[[StepData], None]], Stage]:
    """Decorator that makes a pipeline stage of a function; `produces` and `reads` are names of `StepData` fields."""
    return lambda run: Stage(run, produces, reads)


def compute(data: StepData, *quantities: str) -> None:
    """Trace the stages that produce the named quantities, and the stages they depend on, unless already traced."""
    _run_required(data, set(quantities), with_effects=False)


def record_step(step: StepData) -> None:
    """Trace all stages of one step; with RK4 one of four runs, each followed by `advance_rk4_phase`."""
    _run_required(step, set(), with_effects=True)


def _run_required(step: StepData, required: set[str], *, with_effects: bool) -> None:
    """Trace the stages that produce the `required` quantities and, recursively, the quantities that these stages read.

    In pipeline order; with `with_effects` (a step) also all stages that have an effect on the state. Stages whose
    quantities are already produced are skipped.
    """
    selected: list[Stage] = []
    for candidate in reversed(STAGES):
        has_effect = with_effects and not candidate.produces
        if has_effect or not (required - step.produced.keys()).isdisjoint(candidate.produces):
            selected.append(candidate)
            required |= candidate.reads_of(step)
    for selected_stage in reversed(selected):
        selected_stage(step)


# --------------------------------------------------------------------------------------------------- sleep and contacts


@stage()
def wake_disturbed_trees(step: StepData) -> None:
    """Wake sleeping trees whose state or inputs changed, and exclude the other sleeping trees from loops."""
    if step.ctx.skips_sleeping_trees:
        step.sleep_state = SleepState(step.ctx)
        step.sleep_state.begin_step()
    elif step.ctx.idle_flags is not None:
        mark_all_awake(step.ctx)


@stage("local_poses")
def compute_local_poses(step: StepData) -> None:
    """Poses of frames in their parents."""
    step.local_poses = poses_in_parents(step.ctx)


@stage("shifted_world_poses", reads=["local_poses"])
def compute_shifted_world_poses(step: StepData) -> None:
    """Poses of frames in world axes relative to the first free body, for contacts."""
    origin = scale(-1.0, shifted_world_origin(step.ctx))
    step.shifted_world_poses = poses_in_world(step.ctx, step.local_poses, origin)


def _reads_of_sweep_velocities(step: StepData) -> list[str]:
    return ["local_poses"] if step.may_collide and step.ctx.model.geoms.fast.any() else []


@stage("sweep_velocities", reads=_reads_of_sweep_velocities)
def compute_sweep_velocities(step: StepData) -> None:
    """Spatial velocities of frames along which contacts of fast geoms are found; None without fast geoms."""
    velocities = None
    if step.may_collide and step.ctx.model.geoms.fast.any():
        with step.ctx.including_idle_trees():
            velocities = spatial_velocities(step.ctx, step.local_poses)
    step.sweep_velocities = velocities


def _reads_of_contacts(step: StepData) -> list[str]:
    return ["shifted_world_poses", "sweep_velocities"] if step.may_collide else []


@stage("contact_buffers", reads=_reads_of_contacts)
def detect_contacts(step: StepData) -> None:
    """Broad and narrow phase into contact buffers; wakes sleeping trees that awake trees touch."""
    if step.may_collide and step.ctx.model.has_pair_rules:
        slots = ContactSlots(step.ctx)
        detect_contacts_by_rules(step.ctx, slots, step.shifted_world_poses, is_step=False)
        step.contact_buffers = slots
        return
    buffers = ContactBuffers(step.ctx) if step.may_collide else None
    if buffers is not None:
        poses, velocities = step.shifted_world_poses, step.sweep_velocities
        find_contacts_and_wake(step.ctx, buffers, poses, velocities, step.sleep_state)
    step.contact_buffers = buffers


@stage("contact_lists", reads=lambda step: _reads_of_contacts(step) if step.solves_on_warp else [])
def list_contacts_for_warps(step: StepData) -> None:
    """Broad and narrow phase into the contact lists of the warp solvers."""
    lists = ContactLists(step.ctx) if step.may_collide and step.solves_on_warp else None
    if lists is not None:
        detect_contacts_into_lists(step.ctx, lists, step.shifted_world_poses, step.sweep_velocities)
    step.contact_lists = lists


# ----------------------------------------------------------------------------------------------------------- kinematics


@stage("world_poses", reads=["local_poses"])
def compute_world_poses(step: StepData) -> None:
    """Poses of frames in the world."""
    step.world_poses = poses_in_world(step.ctx, step.local_poses)


@stage("velocities", reads=["local_poses"])
def compute_velocities(step: StepData) -> None:
    """Spatial velocities of frames."""
    step.velocities = spatial_velocities(step.ctx, step.local_poses)


@stage("bias_accelerations", reads=["local_poses"])
def compute_bias_accelerations(step: StepData) -> None:
    """Proper accelerations of frames at zero joint accelerations."""
    step.bias_accelerations = spatial_accelerations(step.ctx, step.local_poses)


@stage("path_lengths", reads=lambda step: ["local_poses", "world_poses"] if paths_in_context(step.ctx) else [])
def measure_paths(step: StepData) -> None:
    """Lengths and moment arms of the transmission paths of tendons and actuators."""
    step.path_lengths = measure_path_lengths(step)


@stage("link_bodies", reads=["world_poses"])
def compute_link_bodies(step: StepData) -> None:
    """Poses, masses and inertias of links in world axes."""
    step.link_bodies = link_dynamics.link_bodies(step.ctx, step.world_poses)


@stage("tree_coms", reads=["link_bodies"])
def compute_tree_coms(step: StepData) -> None:
    """Centres of mass of kinematic trees."""
    step.tree_coms = link_dynamics.tree_coms(step.ctx, step.link_bodies)


# ----------------------------------------------------------------------------------------------- inertia and bias force


def _reads_of_mass_matrix(step: StepData) -> list[str]:
    return ["local_poses", *(["path_lengths"] if tendons_with_armature(step.ctx) else [])]


@stage("mass_matrix", reads=_reads_of_mass_matrix)
def compute_mass_matrix(step: StepData) -> None:
    """Joint-space mass matrix by the composite-rigid-body algorithm, with armature."""
    step.mass_matrix = mass_matrix_with_tendon_armature(step)


@stage("mass_factors", reads=["mass_matrix"])
def factorize_mass_matrix(step: StepData) -> None:
    """L^T D L factorisation of the mass matrix."""
    step.mass_factors = ldl_factorize(step.mass_matrix)


def _reads_of_bias_forces(step: StepData) -> list[str]:
    of_tendons = ["path_lengths", "world_poses", "velocities"] if tendons_with_armature(step.ctx) else []
    return ["local_poses", "bias_accelerations", *of_tendons]


@stage("qfrc_bias", reads=_reads_of_bias_forces)
def compute_bias_forces(step: StepData) -> None:
    """Bias forces by the recursive Newton-Euler algorithm."""
    step.qfrc_bias = bias_forces_with_tendon_armature(step)


# ------------------------------------------------------------------------------------------------------- applied forces


def _reads_of_external_wrenches(step: StepData) -> list[str]:
    return ["world_poses", "velocities"] if has_external_wrenches(step.ctx.model, step.ctx.settings) else []


@stage("external_wrenches", reads=_reads_of_external_wrenches)
def compute_external_wrenches(step: StepData) -> None:
    """Produce the wrenches on frames by gravity compensation, user-applied forces and fluids; None without any.

    Gravity compensation is left out if any joint counts it as an actuator force (`compute_gravity_compensation`).
    """
    ctx, wrenches = step.ctx, None
    if has_external_wrenches(ctx.model, ctx.settings):
        wrenches = zero_wrenches(ctx, "wrenches")
        if not has_actuator_gravcomp(ctx.model):
            add_gravcomp_wrenches(ctx, step.world_poses, wrenches)
        add_applied_wrenches(ctx, step.world_poses, wrenches)
        add_fluid_wrenches(step, wrenches)
    step.external_wrenches = wrenches


def _reads_of_gravity_compensation(step: StepData) -> list[str]:
    return ["local_poses", "world_poses"] if has_actuator_gravcomp(step.ctx.model) else []


@stage("qfrc_gravcomp", reads=_reads_of_gravity_compensation)
def compute_gravity_compensation(step: StepData) -> None:
    """Produce the joint forces J^T w of gravity compensation that counts as actuator force; None if unused."""
    ctx, qfrc_gravcomp = step.ctx, None
    if has_actuator_gravcomp(ctx.model):
        wrenches = zero_wrenches(ctx, "gravity compensation")
        add_gravcomp_wrenches(ctx, step.world_poses, wrenches)
        qfrc_gravcomp = generalized_forces(
            ctx, "gravity compensation", step.local_poses, lambda node: wrenches[node.ref]
        )
    step.qfrc_gravcomp = qfrc_gravcomp


@stage("tendons", reads=["path_lengths"])
def compute_tendon_forces(step: StepData) -> None:
    """Spring and damper forces of tendons."""
    step.tendons = transmission_forces.tendon_forces(step)


def _has_adhesion(step: StepData) -> bool:
    return bool((step.ctx.model.actuators.link_idx >= 0).any())


def _reads_of_actuator_forces(step: StepData) -> list[str]:
    of_adhesion = ["contact_buffers", *(["shifted_world_poses"] if step.may_collide else [])]
    return ["path_lengths", "external_wrenches", *(of_adhesion if _has_adhesion(step) else [])]


@stage("actuators", reads=_reads_of_actuator_forces)
def compute_actuator_forces(step: StepData) -> None:
    """Actuator forces; actuators on sites and adhesion add their wrenches to `external_wrenches`."""
    actuators = transmission_forces.actuator_forces(step, step.external_wrenches)
    if _has_adhesion(step) and step.contact_buffers is not None:
        add_adhesion_wrenches(
            step.ctx, actuators, step.contact_buffers, step.shifted_world_poses, step.external_wrenches
        )
    step.actuators = actuators


@stage("wrench_joint_forces", reads=["local_poses", "external_wrenches", "actuators"])
def map_wrenches_to_joints(step: StepData) -> None:
    """Generalised forces J^T w of the external wrenches, including the wrenches of actuators."""
    wrenches = step.external_wrenches
    step.wrench_joint_forces = (
        None
        if wrenches is None
        else generalized_forces(step.ctx, "wrenches", step.local_poses, lambda node: wrenches[node.ref])
    )


def _reads_of_joint_forces(step: StepData) -> list[str]:
    needs_inertia = step.ctx.model.dofs.acceleration_drive.any()
    return ["tendons", "actuators", "qfrc_gravcomp", *(["mass_matrix"] if needs_inertia else [])]


@stage("joint_force_terms", reads=_reads_of_joint_forces)
def compute_joint_forces(step: StepData) -> None:
    """Joint forces except bias and constraint forces, with their derivatives by velocity."""
    needs_inertia = bool(step.ctx.model.dofs.acceleration_drive.any())
    step.joint_force_terms = collect_joint_force_terms(
        step.ctx, step.tendons, step.actuators, step.qfrc_gravcomp, step.mass_matrix if needs_inertia else None
    )


def joint_force_sum(step: StepData, node: FrameNode) -> list[Value]:
    """Sum of the joint force terms of a frame's dofs, read in a loop body."""
    terms = step.joint_force_terms[node.ref]
    return [sum_values([term[k].force for term in terms]) for k in range(len(node.dofs))]


def nonbias_force(step: StepData, node: FrameNode) -> list[Value]:
    """Joint forces of a frame's dofs except bias and constraint forces, including J^T w of external wrenches."""
    forces, wrench_forces = joint_force_sum(step, node), step.wrench_joint_forces
    return forces if wrench_forces is None else [a + b for a, b in zip(forces, wrench_forces[node.ref], strict=True)]


# ----------------------------------------------------------------------------------------------- unconstrained dynamics


@stage("qfrc_smooth", reads=["qfrc_bias", "wrench_joint_forces", "joint_force_terms"])
def sum_smooth_forces(step: StepData) -> None:
    """Produce `qfrc_smooth`, the joint forces without constraints: applied, passive, actuator minus bias forces.

    Zero for absent trees.
    """
    bias, force = step.qfrc_bias, step.ctx.new_values("force")

    def body(node: FrameNode) -> None:
        pairs = zip(nonbias_force(step, node), bias[node.ref], strict=True)
        force.put(node.ref, zero_if_absent(step.ctx, [applied - bias_force for applied, bias_force in pairs]))

    step.ctx.for_each_frame("unconstrained forces", body)
    step.qfrc_smooth = force


_READS_OF_ABA = ("local_poses", "bias_accelerations", "external_wrenches", "actuators", "joint_force_terms")


def _aba_accelerations(step: StepData, diagonal_terms: DofFunction, qfrc_constraint: JointVector | None) -> JointVector:
    """Joint accelerations by the articulated-body algorithm (ABA) for all forces of the step.

    `diagonal_terms` are added to the joint inertias, for example dt times damping; `qfrc_constraint` to the joint
    forces.
    """
    ctx, motion, wrenches = step.ctx, step.bias_accelerations, step.external_wrenches

    def joint_inertia(node: FrameNode) -> list[Value]:
        return [a + b for a, b in zip(ctx.read_node("armature", node), diagonal_terms(node), strict=True)]

    def force(node: FrameNode) -> list[Value]:
        extra = _zeros(node) if qfrc_constraint is None else qfrc_constraint[node.ref]
        return [a + b for a, b in zip(joint_force_sum(step, node), extra, strict=True)]

    def bias(node: FrameNode) -> Wrench:
        inertial = inertial_wrench(node.inertia, motion[node.ref])
        external = ZERO_WRENCH if wrenches is None else wrenches[node.ref]
        return Wrench(sub(inertial.torque, external.torque), sub(inertial.force, external.force))

    accelerations = aba_accelerations(ctx, step.local_poses, joint_inertia, force, bias)
    if not ctx.settings.presence:
        return accelerations
    of_present = ctx.joint_vector("accelerations of present trees")
    ctx.for_each_frame(
        "accelerations of present trees",
        lambda node: of_present.put(node.ref, zero_if_absent(ctx, accelerations[node.ref])),
    )
    return of_present


def _zeros(node: FrameNode) -> list[Value]:
    return [0.0] * len(node.dofs)


@stage("qacc_smooth", reads=lambda step: _READS_OF_ABA if step.use_aba else ("mass_factors", "qfrc_smooth"))
def compute_unconstrained_accelerations(step: StepData) -> None:
    """Forward dynamics without constraints: M^-1 qfrc_smooth."""
    if step.use_aba:
        step.qacc_smooth = _aba_accelerations(step, _zeros, None)
    else:
        step.qacc_smooth = step.mass_factors.solve("unconstrained accelerations", step.qfrc_smooth)


# ---------------------------------------------------------------------------------------------------- constraint forces


def _has_suction_cups(step: StepData) -> bool:
    return step.ctx.settings.constraints and bool(step.ctx.model.suction_cups.names)


@stage(reads=lambda step: ["world_poses"] if _has_suction_cups(step) else [])
def control_suction_cups(step: StepData) -> None:
    """Attach links to suction cups that are on, and detach links from cups that are off."""
    if _has_suction_cups(step):
        update_suction_cups(step.ctx, step.world_poses)


def _reads_of_constraint_forces(step: StepData) -> list[str]:
    if not step.has_constraints:
        return []
    reads = [*KINEMATIC_STATE_QUANTITIES, "joint_force_terms"]
    reads += _READS_OF_ABA if step.use_aba else ("qfrc_smooth", "mass_matrix")
    if step.may_collide:
        reads += ["shifted_world_poses", "contact_lists" if step.solves_on_warp else "contact_buffers"]
    return reads


@stage(
    "limiter_factors",
    "islands",
    "contacts",
    "solver_inputs",
    "solver",
    "qfrc_constraint",
    reads=_reads_of_constraint_forces,
)
def solve_constraint_forces(step: StepData) -> None:
    """Assemble and solve the constraints: produces the joint forces of equalities, friction, limits and contacts.

    Also produces the solver, its inputs, islands and the factors of the energy limiter; None without constraints. With
    one thread per environment, rows are assembled and solved only if a constraint is active at run time; else by one
    GPU warp per environment.
    """
    ctx, blocks = step.ctx, step.constraint_blocks
    if not step.has_constraints:
        step.limiter_factors = step.islands = step.contacts = step.solver_inputs = step.solver = None
        step.qfrc_constraint = None
        return
    kinematic_state = step.kinematic_state
    limiter_factors = init_limiter_factors(ctx)
    contact_poses = step.shifted_world_poses if step.may_collide else None
    make_inputs = partial(_assemble_solver_inputs, step, kinematic_state, contact_poses)
    if ctx.settings.use_warps and not step.use_aba:
        inputs = make_inputs()
        make_inputs = lambda: inputs  # noqa: E731
    contacts: ContactBuffers | ContactSlots | ContactLists | None = None
    if step.may_collide:
        contacts = step.contact_lists if step.solves_on_warp else step.contact_buffers

    def on_solved(solver: NewtonSolver) -> None:
        limit_constraint_motion(ctx, limiter_factors, solver.constraint_acceleration_of)

    islands = None
    if ctx.settings.islands:
        buffers = contacts if isinstance(contacts, ContactBuffers) else None
        islands = find_islands(ctx, buffers, [block.dofs for _, of_kind in blocks for block in of_kind])
    list_counts = [x.count for x in contacts.by_condim_and_cone.values()] if isinstance(contacts, ContactLists) else []
    with ctx.warp_region("constraints", list_counts):
        if isinstance(contacts, ContactBuffers) and ctx.settings.use_warps:
            contacts = contacts.copy_to_warp_memory()
        solution = solve_constraints(
            ctx,
            blocks,
            kinematic_state,
            contacts,
            make_inputs,
            on_solved,
            islands=islands,
            always_solve=step.always_solve or (ctx.settings.differentiable and ctx.settings.always_solve),
            on_warp=step.solves_on_warp,
        )
    step.limiter_factors, step.islands = limiter_factors, islands
    step.contacts, step.solver_inputs, step.solver = solution.contacts, solution.inputs, solution.solver
    step.qfrc_constraint = solution.qfrc_constraint


def _assemble_solver_inputs(
    step: StepData, kinematic_state: KinematicState, contact_poses: NodeValues[Pose] | None
) -> SolverInputs:
    """Trace the inputs of the constraint solver.

    Constraint rows, mass matrix, its LDL factors, unconstrained acceleration qacc_smooth, and with contacts the motion
    subspaces in the world. `contact_poses` are the shifted-world poses of frames; None without contacts.
    """
    ctx = step.ctx
    rows = build_constraint_rows(ctx, step.constraint_blocks, kinematic_state)
    inertia = mass_matrix_with_tendon_armature(step) if step.use_aba else step.mass_matrix
    factors = ldl_factorize(inertia)
    unconstrained = (
        _aba_accelerations(step, _zeros, None)
        if step.use_aba
        else factors.solve("unconstrained accelerations", step.qfrc_smooth)
    )
    subspaces = None if contact_poses is None else world_motion_subspaces(ctx, step.local_poses, contact_poses)
    smooth = step.qfrc_smooth if ctx.settings.differentiable else None
    return SolverInputs(rows, inertia, factors, unconstrained, subspaces, contact_poses, qfrc_smooth=smooth)


def _has_attachments(step: StepData) -> bool:
    return step.ctx.settings.constraints and bool(step.ctx.model.attachments.names)


@stage(reads=lambda step: ["solver_inputs", *(["world_poses"] if _has_attachments(step) else [])])
def break_overloaded_equalities(step: StepData) -> None:
    """Mark breakable equality constraints whose force exceeds their limit as broken, and release attachments."""
    if step.solver_inputs is not None:
        update_broken_joints(step.ctx, step.solver_inputs.rows)
        if _has_attachments(step):
            update_attachments(step.ctx, step.solver_inputs.rows, step.world_poses)


# -------------------------------------------------------------------------------------------------------- accelerations


def _with_constraint_forces(step: StepData) -> JointVector:
    """Trace the sum of `qfrc_smooth` and the constraint forces."""
    if step.qfrc_constraint is None:
        return step.qfrc_smooth
    return add_joint_vectors(step.ctx, "total joint force", step.qfrc_smooth, step.qfrc_constraint)


def _reads_of_constrained_accelerations(step: StepData) -> list[str]:
    if not step.has_constraints:
        return ["qacc_smooth"]
    return ["qfrc_constraint", *(_READS_OF_ABA if step.use_aba else ("mass_factors", "qfrc_smooth"))]


@stage("constrained_acceleration", reads=_reads_of_constrained_accelerations)
def compute_constrained_accelerations(step: StepData) -> None:
    """Forward dynamics: joint accelerations M^-1 (qfrc_smooth + qfrc_constraint)."""
    if not step.has_constraints:
        step.constrained_acceleration = step.qacc_smooth
    elif step.use_aba:
        step.constrained_acceleration = _aba_accelerations(step, _zeros, step.qfrc_constraint)
    else:
        step.constrained_acceleration = step.mass_factors.solve("accelerations", _with_constraint_forces(step))


@stage("proper_accelerations", reads=["local_poses", "constrained_acceleration"])
def compute_proper_accelerations(step: StepData) -> None:
    """Proper accelerations of frames, constraints applied."""
    step.proper_accelerations = spatial_accelerations(step.ctx, step.local_poses, step.constrained_acceleration)


def _reads_of_step_accelerations(step: StepData) -> list[str]:
    if step.ctx.settings.integrator is Integrator.RK4:
        return ["constrained_acceleration"]
    reads = ["local_poses", "joint_force_terms", "qfrc_constraint", "solver_inputs"]
    reads += _READS_OF_ABA if step.use_aba else ("qfrc_smooth", "mass_matrix", "tendons", "actuators")
    reads += ["velocities"] if step.ctx.settings.integrator is Integrator.IMPLICIT else []
    return reads + (["world_poses", "velocities"] if has_fluid(step.ctx.model) else [])


@stage("qacc", reads=_reads_of_step_accelerations)
def compute_step_accelerations(step: StepData) -> None:
    """Joint accelerations with which the step is integrated: implicit in velocity, except for RK4."""
    is_rk4 = step.ctx.settings.integrator is Integrator.RK4
    step.qacc = step.constrained_acceleration if is_rk4 else _implicit_acceleration(step)


def _implicit_acceleration(step: StepData) -> JointVector:
    """Joint accelerations a of a step implicit in velocity: (M - dt dF/dv) a = qfrc_smooth + qfrc_constraint.

    EULER is implicit in joint damping and in control with default gains (if `eulerdamp` is set), IMPLICITFAST in all
    velocity derivatives of joints, tendons, actuators and, symmetrised, fluid forces, and for free single bodies in
    gyroscopic forces; IMPLICIT in the full derivatives of fluid and bias forces as well. Rigid constraints are included
    as implicit springs, followed by a correction for their remaining error.
    """
    ctx = step.ctx
    integrator = ctx.settings.integrator
    is_implicit, is_fast = integrator.is_implicit_in_velocity, integrator is Integrator.IMPLICITFAST

    def damping_terms(node: FrameNode) -> list[Value]:
        terms = implicit_force_terms(ctx, node, step.joint_force_terms[node.ref])
        return [-(ctx.dt * sum_values([term[k].dforce_dvel for term in terms])) for k in range(len(node.dofs))]

    if step.use_aba:
        return _aba_accelerations(step, damping_terms, step.qfrc_constraint)
    force = _with_constraint_forces(step)
    transmissions = [step.tendons, step.actuators] if is_implicit else []
    implicit = step.mass_matrix.plus_diagonal("implicit", damping_terms, transmissions, lambda: -ctx.dt)
    if is_fast and has_fluid(ctx.model):
        subtract_drag_derivatives(step, implicit)
    inputs, min_pivots = step.solver_inputs, None
    rigid = None if inputs is None else inputs.rows.rigid_rows()
    if rigid is not None and inputs is not None:
        min_pivots = inputs.mass_factors
        implicit = implicit.copy_with_sparsity(
            "implicit", with_fill_in(implicit.sparsity, [block.dofs for block in rigid.blocks])
        )
        rigid.add_hessian(implicit)
        force = add_joint_vectors(
            ctx, "forces with rigid constraints", force, rigid.implicit_spring_forces("rigid constraint springs")
        )
    coupled_dofs = set() if rigid is None else {dof for block in rigid.blocks for dof in block.dofs}
    free_bodies = None
    if is_fast:
        drag = free_body_drag_derivatives(step)
        free_bodies = implicit_free_body_accelerations(ctx, implicit, step.local_poses, force, coupled_dofs, drag)
    if integrator is Integrator.IMPLICIT:
        factors: LDLFactors | LUFactors = _factorize_with_bias_derivatives(step, implicit)
    else:
        factors = ldl_factorize(implicit, min_pivots)
    acceleration = factors.solve("accelerations", force)
    if rigid is not None:
        corrected_force = add_joint_vectors(
            ctx, "corrected forces", force, rigid.remaining_spring_forces("rigid constraint correction", acceleration)
        )
        acceleration = factors.solve("corrected accelerations", corrected_force)
    if free_bodies is not None:
        replace_free_body_accelerations(ctx, free_bodies, acceleration, coupled_dofs)
    return acceleration


def _factorize_with_bias_derivatives(step: StepData, implicit: JointSpaceMatrix) -> LUFactors:
    """LU factors of a symmetric matrix plus dt times the velocity derivatives of bias minus fluid forces."""
    upper = implicit.copy("upper implicit")
    add_bias_derivatives(step.ctx, implicit, upper, step.local_poses, step.velocities, drag_derivatives(step))
    return LUFactors(implicit, upper)


# --------------------------------------------------------------------------------------------- integration and sleeping


def _reads_of_energy_limiter(step: StepData) -> list[str]:
    is_enabled = step.ctx.settings.energy_limiter and step.has_constraints
    forces = ["joint_force_terms", "wrench_joint_forces"] if is_enabled else []
    return ["limiter_factors", "qacc", "qfrc_constraint", *forces]


@stage(reads=_reads_of_energy_limiter)
def limit_step_energy(step: StepData) -> None:
    """Energy limiter: bound the kinetic energy of a step in which joints move too far."""
    limit_energy(step.ctx, step.limiter_factors, step.qacc, partial(nonbias_force, step), step.qfrc_constraint)


@stage(reads=["qacc", "limiter_factors", "actuators", "path_lengths"])
def integrate_state(step: StepData) -> None:
    """Integrate coordinates and velocities (semi-implicit Euler or one RK4 stage) and write the next state.

    Also integrates activations and plastic spring rest positions, stores the controls of delayed actuators and sets the
    error flag if the state is not finite. A frame with invalid velocities keeps its state; with `freeze_on_error` the
    whole environment does.
    """
    ctx, qacc, limiter_factors = step.ctx, step.qacc, step.limiter_factors
    is_rk4 = ctx.settings.integrator is Integrator.RK4
    finite_check = ctx.finite_check(step.partition_of_frame)
    deferred = DeferredState(ctx) if ctx.settings.freeze_on_error else None

    def body(node: FrameNode) -> None:
        old = state_before_step(ctx, node)
        acceleration = scale_accelerations(ctx, limiter_factors, qacc[node.ref])
        limit_velocity = partial(scale_velocities, ctx, limiter_factors)
        q, v = (
            rk4_stage(ctx, node, acceleration)
            if is_rk4
            else semi_implicit_euler_step(ctx, node, acceleration, limit_velocity)
        )
        q, v = keep_if_absent(ctx, old, q, v)
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
    integrate_servo_states(ctx, step.actuators)
    record_servo_controls(ctx, step.actuators)
    errors = [
        ir.select(ir.absolute(total), MAX_FINITE_STATE, ctx.read("error", partition), 1.0)
        for partition, total in enumerate(finite_check.totals())
    ]
    ctx.write("error", None, errors)
    if deferred is not None:
        deferred.commit(errors[0])


@stage()
def move_bodies(step: StepData) -> None:
    """Move kinematic bodies towards their target poses."""
    move_kinematic_bodies(step.ctx)


@stage(reads=["islands"])
def put_trees_to_sleep(step: StepData) -> None:
    """Put islands that stayed below the sleep tolerance for long enough to sleep, from the next step on."""
    if step.ctx.skips_sleeping_trees and step.islands is not None:
        put_resting_islands_to_sleep(step.ctx, step.islands)


STAGES: list[Stage] = [
    wake_disturbed_trees,
    compute_local_poses,
    compute_shifted_world_poses,
    compute_sweep_velocities,
    detect_contacts,
    list_contacts_for_warps,
    compute_world_poses,
    compute_velocities,
    compute_bias_accelerations,
    measure_paths,
    compute_link_bodies,
    compute_tree_coms,
    compute_mass_matrix,
    factorize_mass_matrix,
    compute_bias_forces,
    compute_external_wrenches,
    compute_gravity_compensation,
    compute_tendon_forces,
    compute_actuator_forces,
    map_wrenches_to_joints,
    compute_joint_forces,
    sum_smooth_forces,
    compute_unconstrained_accelerations,
    control_suction_cups,
    solve_constraint_forces,
    break_overloaded_equalities,
    compute_constrained_accelerations,
    compute_proper_accelerations,
    compute_step_accelerations,
    limit_step_energy,
    integrate_state,
    move_bodies,
    put_trees_to_sleep,
]
"""All stages in order. A stage may read the quantities of earlier stages only; stages can be inserted."""


def advance_rk4_phase(tracer: Tracer) -> None:
    """Advance the array `phase` to the next Runge-Kutta stage."""
    tracer.write("phase", [next_rk4_phase(tracer.read("phase"))])
