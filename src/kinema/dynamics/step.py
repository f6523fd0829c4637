"""StepData: the record of the quantities of one state (poses, velocities, mass matrix, forces, accelerations).

Each field names the pipeline stage that produces it (`pipeline.py`). A field is assigned once, by that stage; reading a
field before that raises `UnproducedQuantityError`. Reading never traces code. Joint vectors (`NodeValues[list[Value]]`)
hold one value per degree of freedom; names follow MuJoCo (qfrc_bias, qacc_smooth).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic, Self, TypeVar, overload

from kinema.ir import ArenaOffset, Value

from .collision.contact_buffer_specs import plan_contact_buffers
from .collision.contact_buffers import ContactBuffers, has_collision_pairs
from .collision.contact_lists import ContactLists
from .collision.contact_slots import ContactSlots
from .constraints.contacts import ContactConstraints
from .constraints.rows import KinematicState
from .rigid.kinematics import FrameAcceleration, Pose, Twist
from .rigid.link_dynamics import LinkBody
from .rigid.rnea import Wrench
from .sleep.sleep_wake import SleepState
from .solver.constraint_solver import BlocksByKind, enabled_constraint_blocks, fits_warp_solver
from .solver.newton import NewtonSolver
from .solver.objective import SolverInputs
from .tree.node_values import NodeValues
from .tree.per_tree import PerTreeArray
from .tree.sparse_matrix import JointSpaceMatrix, LDLFactors
from .tree.trace_context import TraceContext
from .tree.transmissions import ForceTerm, PathLengths, Transmissions
from .vector_math import Vector

T = TypeVar("T")


class UnproducedQuantityError(RuntimeError):
    """A field of `StepData` was read before the stage that produces it has run, or by a stage that does not list it."""


class Quantity(Generic[T]):
    """Descriptor of a field of `StepData`: assigned once by the stage named here, then readable."""

    def __new__(cls, stage: str) -> T:
        """Descriptor, for type checkers a value: protocols are matched with the class attribute, not with `__get__`."""
        descriptor: Any = super().__new__(cls)
        return descriptor

    def __init__(self, stage: str) -> None:
        self.stage = stage
        """Name of the stage that produces the quantity."""
        self.name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, data: None, owner: type) -> Self: ...
    @overload
    def __get__(self, data: StepData, owner: type) -> T: ...
    def __get__(self, data: StepData | None, owner: type) -> Self | T:
        if data is None:
            return self
        if self.name not in data.produced:
            raise UnproducedQuantityError(
                f"the quantity `{self.name}` was read before the stage `{self.stage}` produced it"
            )
        if data.readable is not None and self.name not in data.readable:
            raise UnproducedQuantityError(
                f"the quantity `{self.name}` of stage `{self.stage}` is not listed in the `reads` of stage "
                f"`{data.running_stage}`"
            )
        return data.produced[self.name]

    def __set__(self, data: StepData, value: T) -> None:
        if self.name in data.produced:
            raise RuntimeError(f"the quantity `{self.name}` was produced twice")
        data.produced[self.name] = value


KINEMATIC_STATE_QUANTITIES = ("local_poses", "world_poses", "velocities", "bias_accelerations", "path_lengths")
"""Quantities that `StepData.kinematic_state` consists of."""


@dataclass(eq=False)
class StepData:
    """Quantities of one state, for the step and for queries of fields and sensors.

    A quantity that a model cannot have (contacts without collision pairs, for example) is None. Spatial vectors are in
    frame axes at the frame origin unless stated otherwise.
    """

    ctx: TraceContext
    use_aba: bool = False
    """Whether accelerations are computed by the articulated-body algorithm instead of the mass matrix (faster for deep
    trees)."""
    partition_of_frame: Mapping[int, int | None] = field(default_factory=dict)
    """For each frame the partition (thread) that computes it, where several threads share an environment."""
    always_solve: bool = False
    """Whether the solver runs even if no constraint is active, so that queries can read its results."""
    sleep_state: SleepState | None = None
    """Sleep state of the trees; None in queries and where sleeping is disabled."""
    produced: dict[str, Any] = field(default_factory=dict)
    """Quantities produced so far, by name."""
    running_stage: str = ""
    """Name of the stage being traced."""
    readable: Collection[str] | None = None
    """Quantities that the stage being traced lists in its `reads`; None outside of stages."""

    # kinematics
    local_poses = Quantity[NodeValues[Pose]]("compute_local_poses")
    """Pose of each frame in its parent."""
    shifted_world_poses = Quantity[NodeValues[Pose]]("compute_shifted_world_poses")
    """Pose of each frame in world axes, relative to the position of the first free body: contacts are then as accurate
    far from the world origin as near it."""
    world_poses = Quantity[NodeValues[Pose]]("compute_world_poses")
    """Pose of each frame in the world."""
    velocities = Quantity[NodeValues[Twist]]("compute_velocities")
    """Spatial velocity of each frame."""
    bias_accelerations = Quantity[NodeValues[FrameAcceleration]]("compute_bias_accelerations")
    """Proper acceleration of each frame at zero joint accelerations, and its angular velocity."""
    path_lengths = Quantity[PathLengths]("measure_paths")
    """Lengths and moment arms of the transmission paths of tendons and actuators."""
    link_bodies = Quantity[NodeValues[LinkBody]]("compute_link_bodies")
    """Links as rigid bodies in world axes: pose, mass, centre of mass and inertia about it."""
    tree_coms = Quantity[NodeValues[Vector]]("compute_tree_coms")
    """Centre of mass [m] of each kinematic tree, by root link: the reference point of com-based quantities."""

    # collision detection
    sweep_velocities = Quantity[NodeValues[Twist] | None]("compute_sweep_velocities")
    """Spatial velocities of frames, sleeping ones included, for contacts of fast geoms; None without any."""
    contact_buffers = Quantity[ContactBuffers | ContactSlots | None]("detect_contacts")
    """Contacts for solvers with one thread per environment."""
    contact_lists = Quantity[ContactLists | None]("list_contacts_for_warps")
    """Contacts for the warp solvers."""

    # inertia and forces
    mass_matrix = Quantity[JointSpaceMatrix]("compute_mass_matrix")
    """Joint-space mass matrix M with joint and tendon armature."""
    mass_factors = Quantity[LDLFactors]("factorize_mass_matrix")
    """L^T D L factors of the mass matrix."""
    qfrc_bias = Quantity[NodeValues[list[Value]]]("compute_bias_forces")
    """Bias force c(q, v): Coriolis, centrifugal and gravitational joint forces."""
    external_wrenches = Quantity[NodeValues[Wrench] | None]("compute_external_wrenches")
    """Wrenches on frames: gravity compensation, user-applied forces, fluid forces; the stage `compute_actuator_forces`
    adds those of actuators on sites and adhesion."""
    qfrc_gravcomp = Quantity[NodeValues[list[Value]] | None]("compute_gravity_compensation")
    """Joint forces of gravity compensation where actuators provide it; None where it acts as wrenches on frames."""
    tendons = Quantity[Transmissions]("compute_tendon_forces")
    """Spring and damper forces of tendons."""
    actuators = Quantity[Transmissions]("compute_actuator_forces")
    """Actuator forces."""
    wrench_joint_forces = Quantity[NodeValues[list[Value]] | None]("map_wrenches_to_joints")
    """Generalised forces J^T w of the external wrenches."""
    joint_force_terms = Quantity[NodeValues[list[list[ForceTerm]]]]("compute_joint_forces")
    """Joint forces except bias and constraint forces, with velocity derivatives, as one list of terms per source:
    passive forces, tendons, control, actuators, applied forces."""
    qfrc_smooth = Quantity[NodeValues[list[Value]]]("sum_smooth_forces")
    """Total joint force without constraints: applied, passive and actuator forces minus the bias force."""
    qacc_smooth = Quantity[NodeValues[list[Value]]]("compute_unconstrained_accelerations")
    """Unconstrained joint accelerations M^-1 qfrc_smooth."""

    # constraints
    limiter_factors = Quantity[ArenaOffset | None]("solve_constraint_forces")
    """Scratch offset of the energy limiter's factors of accelerations and velocities; None if the limiter is off."""
    islands = Quantity[PerTreeArray | None]("solve_constraint_forces")
    """Island index of each tree, where islands are solved separately."""
    contacts = Quantity[ContactConstraints | None]("solve_constraint_forces")
    """Contact constraints of the solvers with one thread per environment."""
    solver_inputs = Quantity[SolverInputs | None]("solve_constraint_forces")
    """Inputs of the constraint solver (rows, mass matrix, factors); None if the solve is skipped without active
    constraints."""
    solver = Quantity[NewtonSolver | None]("solve_constraint_forces")
    """The constraint solver with its results."""
    qfrc_constraint = Quantity[NodeValues[list[Value]] | None]("solve_constraint_forces")
    """Joint forces of constraints and contacts; None if the model has neither."""

    # accelerations
    constrained_acceleration = Quantity[NodeValues[list[Value]]]("compute_constrained_accelerations")
    """Forward dynamics: joint accelerations M^-1 (qfrc_smooth + qfrc_constraint)."""
    proper_accelerations = Quantity[NodeValues[FrameAcceleration]]("compute_proper_accelerations")
    """Proper acceleration (acceleration minus gravity) of each frame origin, constraints applied."""
    qacc = Quantity[NodeValues[list[Value]]]("compute_step_accelerations")
    """Joint accelerations with which the step is integrated."""

    @cached_property
    def constraint_blocks(self) -> BlocksByKind:
        """Constraint blocks of the enabled kinds (equalities, friction, limits)."""
        return enabled_constraint_blocks(self.ctx)

    @cached_property
    def may_collide(self) -> bool:
        """Whether any two geoms of the traced frames can touch."""
        ctx = self.ctx
        if ctx.model.has_pair_rules:
            return ctx.settings.contacts and bool(ctx.nodes)
        return has_collision_pairs(ctx.model, ctx.settings) and bool(
            plan_contact_buffers(ctx.model, [node.index for node in ctx.nodes])
        )

    @property
    def has_constraints(self) -> bool:
        """Whether constraint forces are possible."""
        return bool(self.constraint_blocks) or self.may_collide

    @cached_property
    def solves_on_warp(self) -> bool:
        """Whether a warp per environment solves the constraints, with a dense or a block-sparse Hessian."""
        ctx = self.ctx
        return not self.use_aba and fits_warp_solver(ctx.model, ctx.settings, ctx.nodes)

    @property
    def kinematic_state(self) -> KinematicState:
        """Kinematic quantities that constraints read."""
        return KinematicState(self.ctx, *(getattr(self, name) for name in KINEMATIC_STATE_QUANTITIES))


QUANTITIES: dict[str, Quantity[Any]] = {name: x for name, x in vars(StepData).items() if isinstance(x, Quantity)}
"""Fields of `StepData` that stages produce, by name."""
