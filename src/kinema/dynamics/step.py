"""StepData: quantities of one state (poses, velocities, mass matrix, forces, accelerations), traced on demand.

Joint vectors (`NodeValues[list[Value]]`) hold one value per degree of freedom; names follow MuJoCo (qfrc_bias,
qacc_smooth).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

from kinema.ir import ArenaOffset, Value

from .collision.contact_buffers import ContactBuffers, has_collision_pairs
from .collision.contact_lists import ContactLists
from .collision.contact_sets import plan_contact_sets
from .collision.narrow_phase import detect_contacts_into_lists
from .constraints.contacts import ContactConstraints, world_motion_subspaces
from .constraints.rows import KinematicState
from .forces import transmission_forces
from .forces.adhesion import add_adhesion_wrenches
from .forces.external_wrenches import (
    add_applied_wrenches,
    add_gravcomp_wrenches,
    has_actuator_gravcomp,
    has_external_wrenches,
    zero_wrenches,
)
from .forces.fluid import add_fluid_wrenches, free_body_drag_derivatives, has_fluid, subtract_drag_derivatives
from .forces.joint_forces import add_joint_vectors, collect_joint_force_terms
from .forces.tendon_armature import bias_forces_with_tendon_armature, mass_matrix_with_tendon_armature
from .forces.transmission_paths import path_lengths
from .rigid.aba import aba_accelerations
from .rigid.energy_limiter import init_limiter_factors, limit_constraint_motion
from .rigid.free_bodies import implicit_free_body_accelerations, replace_free_body_accelerations
from .rigid.kinematics import (
    FrameAcceleration,
    Pose,
    Twist,
    floating_origin,
    poses_in_parents,
    poses_in_world,
    spatial_accelerations,
    spatial_velocities,
)
from .rigid.rnea import ZERO_WRENCH, Wrench, generalized_forces, inertial_wrench
from .settings import Integrator
from .sleep.sleep_wake import SleepState, find_contacts_and_wake
from .solver.constraint_solver import (
    BlocksByKind,
    build_constraint_rows,
    enabled_constraint_blocks,
    fits_warp_solver,
    solve_constraints,
)
from .solver.islands import find_islands
from .solver.newton import NewtonSolver
from .solver.objective import SolverInputs
from .tree.kinematic_tree import FrameNode
from .tree.node_values import NodeValues
from .tree.per_tree import PerTreeArray
from .tree.sparse_matrix import JointSpaceMatrix, LDLFactors, ldl_factorize, with_fill_in
from .tree.trace_context import TraceContext
from .tree.transmissions import ForceTerm, Transmissions
from .vector_math import scale, sub, sum_values

DofFunction = Callable[[FrameNode], list[Value]]


@dataclass(eq=False)
class StepData:
    """Quantities of one state that determine the next state; each is traced once, on first access."""

    ctx: TraceContext
    use_aba: bool = False
    """Whether accelerations are computed by the articulated-body algorithm instead of the mass matrix (faster for deep
    trees)."""
    partition_of_frame: Mapping[int, int | None] = field(default_factory=dict)
    """For each frame the partition (thread) that computes it, where several threads share an environment."""
    stage_results: dict[str, Any] = field(default_factory=dict)
    """Results that stages share, by name."""
    contacts: ContactConstraints | None = None
    """Contact constraints, once the constraint forces are traced."""
    solver_inputs: SolverInputs | None = None
    """Inputs of the constraint solver (rows, mass matrix, factors), where they are computed unconditionally."""
    always_solve: bool = False
    """Whether the solver runs even if no constraint is active, so that queries can read its results."""
    solver: NewtonSolver | None = None
    """The constraint solver, once the constraint forces are traced."""
    qacc: NodeValues[list[Value]] | None = None
    """Joint accelerations that the step is integrated with."""
    sleepers: SleepState | None = None
    """Sleep state of the trees, where sleeping is enabled."""
    islands: PerTreeArray | None = None
    """Island index of each tree, where islands are solved separately."""
    limiter_factors: ArenaOffset | None = None
    """Scratch offset of the energy limiter's factors of accelerations and velocities; None if the limiter is off."""

    @cached_property
    def local_poses(self) -> NodeValues[Pose]:
        """Pose of each frame in its parent."""
        return poses_in_parents(self.ctx)

    @cached_property
    def world_poses(self) -> NodeValues[Pose]:
        """Pose of each frame in the world."""
        return poses_in_world(self.ctx, self.local_poses)

    @cached_property
    def floating_origin_poses(self) -> NodeValues[Pose]:
        """Pose of each frame in the world, relative to the position of the first free body.

        Used for contacts, which are then as accurate far from the world origin as near it.
        """
        return poses_in_world(self.ctx, self.local_poses, scale(-1.0, floating_origin(self.ctx)))

    @cached_property
    def contact_buffers(self) -> ContactBuffers | None:
        """Contact buffers with the detected contacts, waking touched trees; None without possible contacts."""
        if not has_collision_pairs(self.ctx.model, self.ctx.settings):
            return None
        buffers = ContactBuffers(self.ctx)
        if not buffers.sets:
            return None
        find_contacts_and_wake(self.ctx, buffers, self.floating_origin_poses, self.sleepers)
        return buffers

    @cached_property
    def solves_on_warp(self) -> bool:
        """Whether a warp per environment solves the constraints, with a dense or a block-sparse Hessian."""
        ctx = self.ctx
        return not self.use_aba and fits_warp_solver(ctx.model, ctx.settings, ctx.nodes)

    @cached_property
    def contact_lists(self) -> ContactLists | None:
        """Contact lists with the detected contacts for the warp solver.

        None for other solvers or without possible contacts.
        """
        if not self.solves_on_warp or not has_collision_pairs(self.ctx.model, self.ctx.settings):
            return None
        lists = ContactLists(self.ctx)
        if not lists.specs:
            return None
        detect_contacts_into_lists(self.ctx, lists, self.floating_origin_poses)
        return lists

    @cached_property
    def velocities(self) -> NodeValues[Twist]:
        """Spatial velocity of each frame, in frame axes."""
        return spatial_velocities(self.ctx, self.local_poses)

    @cached_property
    def bias_accelerations(self) -> NodeValues[FrameAcceleration]:
        """Proper acceleration of each frame at zero joint accelerations, and its angular velocity."""
        return spatial_accelerations(self.ctx, self.local_poses)

    @property
    def kinematic_state(self) -> KinematicState:
        """Kinematic quantities that constraints read."""
        return KinematicState(
            self.ctx, self.local_poses, self.world_poses, self.velocities, self.bias_accelerations, path_lengths(self)
        )

    @cached_property
    def mass_matrix(self) -> JointSpaceMatrix:
        """Joint-space mass matrix M with joint and tendon armature."""
        return mass_matrix_with_tendon_armature(self)

    @cached_property
    def qfrc_bias(self) -> NodeValues[list[Value]]:
        """Bias force c(q, v): Coriolis, centrifugal and gravitational joint forces."""
        return bias_forces_with_tendon_armature(self)

    @cached_property
    def external_wrenches(self) -> NodeValues[Wrench] | None:
        """Wrenches on frames: gravity compensation, user-applied forces and fluid forces; None if there are none.

        Actuators and adhesion add their wrenches later, when `actuators` is traced.
        """
        if not has_external_wrenches(self.ctx.model, self.ctx.settings):
            return None
        wrenches = zero_wrenches(self.ctx, "wrenches")
        if not has_actuator_gravcomp(self.ctx.model):
            add_gravcomp_wrenches(self.ctx, self.world_poses, wrenches)
        add_applied_wrenches(self.ctx, self.world_poses, wrenches)
        add_fluid_wrenches(self, wrenches)
        return wrenches

    @cached_property
    def qfrc_gravcomp(self) -> NodeValues[list[Value]] | None:
        """Joint forces of gravity compensation, where actuators provide it; None if it acts as wrenches on frames."""
        if not has_actuator_gravcomp(self.ctx.model):
            return None
        wrenches = zero_wrenches(self.ctx, "gravity compensation")
        add_gravcomp_wrenches(self.ctx, self.world_poses, wrenches)
        return generalized_forces(self.ctx, "gravity compensation", self.local_poses, lambda node: wrenches[node.ref])

    @cached_property
    def tendons(self) -> Transmissions:
        """Spring and damper forces of tendons."""
        return transmission_forces.tendon_forces(self)

    @cached_property
    def actuators(self) -> Transmissions:
        """Actuator forces; actuators on frames and adhesion actuators add to `external_wrenches`."""
        actuators = transmission_forces.actuator_forces(self, self.external_wrenches)
        if (self.ctx.model.actuators.link_idx >= 0).any():
            add_adhesion_wrenches(
                self.ctx, actuators, self.contact_buffers, self.floating_origin_poses, self.external_wrenches
            )
        return actuators

    @cached_property
    def wrench_joint_forces(self) -> NodeValues[list[Value]] | None:
        """Generalized forces J^T w of the external wrenches; None if there are none."""
        wrenches = self.external_wrenches
        _ = self.actuators
        if wrenches is None:
            return None
        return generalized_forces(self.ctx, "wrenches", self.local_poses, lambda node: wrenches[node.ref])

    @cached_property
    def joint_force_terms(self) -> NodeValues[list[list[ForceTerm]]]:
        """Joint forces except bias and constraint forces, with velocity derivatives, as a list of terms per source.

        Sources are passive forces, tendons, control, actuators and applied forces.
        """
        tendons, actuators, gravcomp = self.tendons, self.actuators, self.qfrc_gravcomp
        needs_inertia = bool(self.ctx.model.dofs.acceleration_drive.any())
        return collect_joint_force_terms(
            self.ctx, tendons, actuators, gravcomp, self.mass_matrix if needs_inertia else None
        )

    def joint_force_sum(self, node: FrameNode) -> list[Value]:
        """Sum of the joint force terms of a frame's dofs, read in a loop body."""
        terms = self.joint_force_terms[node.ref]
        return [sum_values([term[k].force for term in terms]) for k in range(len(node.dofs))]

    def nonbias_force(self, node: FrameNode) -> list[Value]:
        """Joint forces of a frame's dofs except bias and constraint forces, including those of external wrenches."""
        forces, wrench_forces = self.joint_force_sum(node), self.wrench_joint_forces
        return (
            forces if wrench_forces is None else [a + b for a, b in zip(forces, wrench_forces[node.ref], strict=True)]
        )

    @cached_property
    def qfrc_smooth(self) -> NodeValues[list[Value]]:
        """Total joint force without constraints: all applied, passive and actuator forces minus the bias force."""
        bias, _ = self.qfrc_bias, (self.wrench_joint_forces, self.joint_force_terms)
        force: NodeValues[list[Value]] = self.ctx.new_values("force")

        def body(node: FrameNode) -> None:
            pairs = zip(self.nonbias_force(node), bias[node.ref], strict=True)
            force.put(node.ref, [applied - bias_force for applied, bias_force in pairs])

        self.ctx.for_each_frame("unconstrained forces", body)
        return force

    @cached_property
    def mass_factors(self) -> LDLFactors:
        """L^T D L factors of the mass matrix."""
        return ldl_factorize(self.mass_matrix)

    @cached_property
    def qacc_smooth(self) -> NodeValues[list[Value]]:
        """Unconstrained joint accelerations M^-1 qfrc_smooth."""
        if self.use_aba:
            return self._aba_accelerations(_zeros, None)
        force = self.qfrc_smooth
        return self.mass_factors.solve("unconstrained accelerations", force)

    @cached_property
    def qfrc_constraint(self) -> NodeValues[list[Value]] | None:
        """Joint forces of constraints and contacts, by the constraint solver; None if no constraint is possible.

        Also sets `limiter_factors`, `islands`, `contacts`, `solver_inputs` and `solver`.
        """
        ctx, blocks = self.ctx, enabled_constraint_blocks(self.ctx)
        may_collide = has_collision_pairs(ctx.model, ctx.settings) and bool(
            plan_contact_sets(ctx.model, [node.index for node in ctx.nodes])
        )
        if not blocks and not may_collide:
            return None
        kinematic_state, _ = (
            self.kinematic_state,
            (self.joint_force_terms, self.wrench_joint_forces if ctx.settings.energy_limiter else None),
        )
        _ = None if self.use_aba else (self.qfrc_smooth, self.mass_matrix)
        self.limiter_factors = init_limiter_factors(ctx)
        contact_poses = self.floating_origin_poses if may_collide else None
        inputs = (
            self._make_solver_inputs(blocks, kinematic_state, contact_poses)
            if ctx.settings.use_warps and not self.use_aba
            else None
        )
        contacts = self.contact_buffers if may_collide and self.contact_lists is None else self.contact_lists

        def on_solved(solver: NewtonSolver) -> None:
            limit_constraint_motion(ctx, self.limiter_factors, solver.acceleration_change_of)

        if ctx.settings.islands:
            buffers = contacts if isinstance(contacts, ContactBuffers) else None
            self.islands = find_islands(
                ctx, buffers, [block.dofs for _, blocks_of_kind in blocks for block in blocks_of_kind]
            )
        with ctx.warp_region(
            "constraints",
            [] if self.contact_lists is None else [x.count for x in self.contact_lists.by_condim_and_cone.values()],
        ):
            if isinstance(contacts, ContactBuffers) and ctx.settings.use_warps:
                contacts = contacts.copy_to_warp_memory()
            options = {"always_solve": self.always_solve, "on_warp": self.solves_on_warp}
            make_inputs = (
                partial(self._make_solver_inputs, blocks, kinematic_state, contact_poses)
                if inputs is None
                else lambda: inputs
            )
            solution = solve_constraints(
                ctx, blocks, kinematic_state, contacts, make_inputs, on_solved, islands=self.islands, **options
            )
        self.contacts, self.solver_inputs, self.solver = solution.contacts, solution.inputs, solution.solver
        return solution.qfrc_constraint

    def _make_solver_inputs(
        self, blocks: BlocksByKind, kinematic_state: KinematicState, contact_poses: NodeValues[Pose] | None
    ) -> SolverInputs:
        """Trace the constraint solver's inputs: constraint rows, mass matrix, its factors, qacc_smooth.

        `contact_poses` are the floating-origin poses of frames for contacts; None without contacts.
        """
        ctx = self.ctx
        rows = build_constraint_rows(ctx, blocks, kinematic_state)
        inertia = mass_matrix_with_tendon_armature(self) if self.use_aba else self.mass_matrix
        factors = ldl_factorize(inertia)
        unconstrained = (
            self._aba_accelerations(_zeros, None)
            if self.use_aba
            else factors.solve("unconstrained accelerations", self.qfrc_smooth)
        )
        return SolverInputs(
            rows,
            inertia,
            factors,
            unconstrained,
            None if contact_poses is None else world_motion_subspaces(ctx, self.local_poses, contact_poses),
            contact_poses,
        )

    @cached_property
    def constrained_acceleration(self) -> NodeValues[list[Value]]:
        """Forward dynamics: joint accelerations M^-1 (qfrc_smooth + qfrc_constraint)."""
        qfrc_constraint = self.qfrc_constraint
        if qfrc_constraint is None:
            return self.qacc_smooth
        if self.use_aba:
            return self._aba_accelerations(_zeros, qfrc_constraint)
        return self.mass_factors.solve("accelerations", self._with_constraint_forces(qfrc_constraint))

    def _aba_accelerations(
        self, diagonal_terms: DofFunction, qfrc_constraint: NodeValues[list[Value]] | None
    ) -> NodeValues[list[Value]]:
        """Joint accelerations by the articulated-body algorithm, with `diagonal_terms` added to the joint inertias."""
        ctx, motion, wrenches, _ = self.ctx, self.bias_accelerations, self.external_wrenches, self.joint_force_terms

        def joint_inertia(node: FrameNode) -> list[Value]:
            return [a + b for a, b in zip(ctx.read_node("armature", node), diagonal_terms(node), strict=True)]

        def force(node: FrameNode) -> list[Value]:
            extra = _zeros(node) if qfrc_constraint is None else qfrc_constraint[node.ref]
            return [a + b for a, b in zip(self.joint_force_sum(node), extra, strict=True)]

        def bias(node: FrameNode) -> Wrench:
            inertial = inertial_wrench(node.inertia, motion[node.ref])
            external = ZERO_WRENCH if wrenches is None else wrenches[node.ref]
            return Wrench(sub(inertial.torque, external.torque), sub(inertial.force, external.force))

        return aba_accelerations(ctx, self.local_poses, joint_inertia, force, bias)

    def implicit_acceleration(self) -> NodeValues[list[Value]]:
        """Joint accelerations a of a step implicit in velocity: (M - dt dF/dv) a = qfrc_smooth + qfrc_constraint.

        EULER is implicit in joint damping only (if `eulerdamp` is set), IMPLICIT in all velocity derivatives of joints,
        tendons, actuators and fluid forces. Rigid constraints are included as implicit springs, followed by a
        correction for their remaining error; free single bodies are also implicit in gyroscopic forces.
        """
        ctx, _ = self.ctx, self.joint_force_terms
        is_implicit_fast = ctx.settings.integrator is Integrator.IMPLICIT

        def damping_terms(node: FrameNode) -> list[Value]:
            terms = self.joint_force_terms[node.ref][: None if is_implicit_fast else int(ctx.model.options.eulerdamp)]
            return [-(ctx.dt * sum_values([term[k].dforce_dvel for term in terms])) for k in range(len(node.dofs))]

        qfrc_constraint = self.qfrc_constraint
        if self.use_aba:
            return self._aba_accelerations(damping_terms, qfrc_constraint)
        force = self.qfrc_smooth if qfrc_constraint is None else self._with_constraint_forces(qfrc_constraint)
        transmissions = [self.tendons, self.actuators] if is_implicit_fast else []
        implicit = self.mass_matrix.plus_diagonal("implicit", damping_terms, transmissions, lambda: -ctx.dt)
        if is_implicit_fast and has_fluid(ctx.model):
            subtract_drag_derivatives(self, implicit)
        inputs, min_pivots = self.solver_inputs, None
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
        drag = free_body_drag_derivatives(self) if is_implicit_fast else None
        free_bodies = (
            implicit_free_body_accelerations(ctx, implicit, self.local_poses, force, coupled_dofs, drag)
            if is_implicit_fast
            else None
        )
        factors = ldl_factorize(implicit, min_pivots)
        acceleration = factors.solve("accelerations", force)
        if rigid is not None:
            corrected_force = add_joint_vectors(
                ctx,
                "corrected forces",
                force,
                rigid.remaining_spring_forces("rigid constraint correction", acceleration),
            )
            acceleration = factors.solve("corrected accelerations", corrected_force)
        if free_bodies is not None:
            replace_free_body_accelerations(ctx, free_bodies, acceleration, coupled_dofs)
        return acceleration

    def _with_constraint_forces(self, qfrc_constraint: NodeValues[list[Value]]) -> NodeValues[list[Value]]:
        """Trace the sum of `qfrc_smooth` and the constraint forces."""
        return add_joint_vectors(self.ctx, "total joint force", self.qfrc_smooth, qfrc_constraint)


def _zeros(node: FrameNode) -> list[Value]:
    return [0.0] * len(node.dofs)
