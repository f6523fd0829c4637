"""Articulated trees (robots) in the step of a scene of many free bodies: loops over their frames.

The stages of the pipeline compute what the contacts depend on in a context of these trees, and integrate them after the
constraint solve. In between, their frames are nodes beside the free bodies.
"""

from __future__ import annotations

from collections.abc import Mapping

from kinema.ir import ArenaOffset, Tracer, Value
from kinema.model import Model

from ..collision.contact_slots import ContactSlots
from ..constraints.contact_jacobian import (
    MotionSubspace,
    frames_with_contacts,
    motion_subspaces_about,
    tree_reference_points,
)
from ..constraints.contacts import world_motion_subspaces
from ..constraints.rows import ConstraintRows
from ..free_bodies import articulated_frames
from ..pipeline import compute, record_step
from ..rigid.kinematics import Pose, poses_in_world
from ..settings import Settings
from ..solver.constraint_solver import ConstraintSolution, build_constraint_rows
from ..solver.objective import SolverInputs
from ..step import KINEMATIC_STATE_QUANTITIES, StepData
from ..tree.kinematic_tree import FrameNode, KinematicTree
from ..tree.node_values import NodeValues
from ..tree.per_tree import PerTreeArray
from ..tree.trace_context import TraceContext
from ..vector_math import Vector, scale
from .program_tracing import OutputSpecs


class ArticulatedTrees:
    """Articulated trees of a model while a program is traced: their context, and the quantities of the state."""

    def __init__(self, ctx: TraceContext) -> None:
        self.ctx = ctx
        self.step = StepData(ctx)
        self.rows: ConstraintRows | None = None
        """Constraint rows, once they are traced."""

    @classmethod
    def of_model(
        cls,
        model: Model,
        settings: Settings,
        array_offsets: Mapping[str, ArenaOffset],
        tracer: Tracer,
        tree: KinematicTree,
        outputs: OutputSpecs | None,
    ) -> ArticulatedTrees | None:
        """The articulated trees of a model; None without any."""
        frames = articulated_frames(model)
        if not frames:
            return None
        return cls(TraceContext(model, settings, array_offsets, tracer, tree, frames, outputs=outputs))

    def compute_contact_inputs(self, origin: Vector, poses: NodeValues[Pose]) -> None:
        """Trace the unconstrained dynamics, and write the poses about the shifted origin to those of all bodies."""
        step, ctx = self.step, self.ctx
        compute(step, "local_poses", "mass_matrix", "mass_factors", "qacc_smooth", *KINEMATIC_STATE_QUANTITIES)
        step.shifted_world_poses = poses_in_world(ctx, step.local_poses, scale(-1.0, origin))
        shifted = step.shifted_world_poses
        ctx.for_each_frame("poses of articulated trees", lambda node: poses.put(node.ref, shifted[node.ref]))

    def add_to_inputs(
        self,
        slots: ContactSlots,
        points: PerTreeArray,
        about_point: NodeValues[MotionSubspace],
        subspaces: NodeValues[MotionSubspace],
        qacc_smooth: NodeValues[list[Value]],
    ) -> None:
        """Trace the rows, and write reference points, motion axes and accelerations to those of all bodies."""
        ctx, step = self.ctx, self.step
        self.rows = build_constraint_rows(ctx, step.constraint_blocks, step.kinematic_state)
        tree_reference_points(ctx, frames_with_contacts(slots), step.shifted_world_poses, points)
        own = world_motion_subspaces(ctx, step.local_poses, step.shifted_world_poses)
        own_about_point = motion_subspaces_about(ctx, own, points)
        accelerations = step.qacc_smooth

        def write(node: FrameNode) -> None:
            subspaces.put(node.ref, own[node.ref])
            about_point.put(node.ref, own_about_point[node.ref])
            qacc_smooth.put(node.ref, accelerations[node.ref])

        ctx.for_each_frame("contact inputs of articulated trees", write)

    def integrate(self, solution: ConstraintSolution) -> None:
        """Trace the next state, given the solution of the constraints."""
        step = self.step
        step.limiter_factors = step.islands = step.contacts = step.solver = None
        inputs = None
        if solution.inputs is not None:
            assert self.rows is not None
            inputs = SolverInputs(self.rows, step.mass_matrix, step.mass_factors, step.qacc_smooth, None)
        step.solver_inputs, step.qfrc_constraint = inputs, solution.qfrc_constraint
        record_step(step)
