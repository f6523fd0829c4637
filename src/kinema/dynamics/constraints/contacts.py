"""Contact constraints without an explicit Jacobian: residuals, costs, joint forces and Hessian by tree recursion.

The residual of a contact is J a - aref in scaled contact axes, where J a is computed from the twists of the two frames
(forward pass). Contact forces are wrenches on the frames, accumulated towards the root (backward pass) and projected
onto the joint motion subspaces. Contacts with the world add a 6 x 6 spatial Hessian to their frame, which is
accumulated over subtrees like composite inertias (CRBA), so that it keeps the sparsity of the mass matrix. Only
contacts between two moving frames add entries between branches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from kinema import ir
from kinema.ir import SCRATCH, ArenaOffset, IterationContext, LoopIteration, Value

from ..collision.contact_buffer_specs import ContactSpecialization
from ..collision.contact_buffers import (
    ContactBuffer,
    ContactBufferFilter,
    ContactBuffers,
)
from ..collision.contact_records import Contact, ContactSums
from ..collision.contact_slots import ContactSlots
from ..rigid.kinematics import ZERO_TWIST, Pose, Twist, motion_subspace
from ..rigid.rnea import Wrench, power
from ..tree.kinematic_tree import WORLD, FrameNode, frame_ref
from ..tree.node_tables import NodeIteration
from ..tree.node_values import NodeValues
from ..tree.per_tree import OffsetsPerTree, PerTreeArray
from ..tree.sparse_matrix import JointSpaceMatrix
from ..tree.trace_context import TraceContext
from ..vector_math import ZERO, add, cross, dot, scale
from .contact_jacobian import (
    N_SPATIAL_HESSIAN,
    MotionSubspace,
    apply_spatial_hessian,
    apply_spatial_hessian_about,
    contact_velocity,
    first_contact_point,
    frames_with_contacts,
    motion_subspaces_about,
    project_twist,
    read_local_array,
    relative_twist,
    spatial_contact_jacobian,
    sum_spatial_hessians,
    tree_reference_points,
    twist_about_world_origin,
    unflatten_twist,
)
from .friction_cone import ContactCost

# -------------------------------------------------------------------------------------- restitution and static friction

SLIDING_SPEED = 0.01
"""Tangential speed [m/s] up to which the static friction coefficient applies; from twice this speed on the kinetic one
does."""
RESTING_STEPS = 2.0
"""Approach speeds below the gravity-induced speed of this many time steps cause no bounce."""
TINY = 1e-30
NO_BOUNCE = -1e15
"""Target acceleration [m/s^2] of a contact that does not bounce; below any other."""


def apply_restitution_and_static_friction(
    contact: Contact, specialization: ContactSpecialization, relative_velocity: Twist, iteration: IterationContext
) -> Value:
    """Scale a contact's friction by its sliding speed and return the normal acceleration of its rebound.

    Friction is multiplied by the stiction ratio below `SLIDING_SPEED` and fades linearly to the kinetic value at twice
    this speed. Reads restitution parameters from the contact record, rewrites stiffness, mu and friction scaling.
    Returns `NO_BOUNCE` where the approach speed is too small for a bounce.
    """
    rigid_stiffness, restitution, min_speed, stiction_ratio = contact.read("restitution")
    point_velocity = add(relative_velocity.linear, cross(relative_velocity.angular, contact.read("point")))
    axes, surface_velocity = contact.axes, contact.surface_velocity
    if specialization.condim > 1:
        sliding_velocity = [dot(axes[k], point_velocity) + surface_velocity[k] for k in (1, 2)]
        sliding_speed = ir.sqrt(ir.maximum(dot(sliding_velocity, sliding_velocity), TINY))
        factor = 1.0 + (stiction_ratio - 1.0) * ir.clamp(2.0 - sliding_speed * (1.0 / SLIDING_SPEED), 0.0, 1.0)
        rigid_stiffness = rigid_stiffness * _scale_friction(contact, factor)
        iteration.tracer.new_basic_block()
    normal_velocity = dot(axes[0], point_velocity) + surface_velocity[0]
    return _bounce_acceleration(contact, iteration, normal_velocity, [rigid_stiffness, restitution, min_speed])


def _scale_friction(contact: Contact, factor: Value) -> Value:
    """Multiply the friction coefficients of a contact by `factor`; return the factor by which its stiffness changes.

    Updates friction scaling, stiffness, regularised mu and position feedback in the contact record. The stiffness
    changes because rows are scaled by the friction coefficients, and for pyramidal cones also with the regularisation
    of the edges.
    """
    scales = contact.read("row_scales", 0, 3)
    stiffness_factor = 1.0 / (factor * factor)
    if contact.elliptic:
        contact.write("row_scales", [factor * scales[0]])
        contact.write("position_feedback", [factor * contact.scalar("position_feedback")])
    else:
        mu_squared = scales[1] * scales[1]
        stiffness_factor = stiffness_factor * (1.0 + mu_squared) / (1.0 + factor * factor * mu_squared)
    contact.write("row_scales", [factor * x for x in scales[1:]], 1)
    stiffness, mu = contact.stiffness_and_mu
    contact.write("stiffness", [stiffness_factor * stiffness, factor * mu])
    return stiffness_factor


def _bounce_acceleration(
    contact: Contact, iteration: IterationContext, normal_velocity: Value, parameters: list[Value]
) -> Value:
    """Return the normal acceleration of Newton's impact law, -(1 + e) v_n / dt [m/s^2], or `NO_BOUNCE`.

    A bouncing contact gets the stiffness of a rigid contact. Contacts that approach slower than the resting speed or
    than the threshold of the material do not bounce.

    Args:
        contact: contact record; the stiffness is overwritten where it bounces.
        iteration: loop code with the arrays `gravity` and `dt`.
        normal_velocity: relative normal velocity [m/s], negative when approaching.
        parameters: stiffness of a rigid contact, coefficient of restitution e, minimum approach speed [m/s].
    """
    rigid_stiffness, restitution, min_speed = parameters
    gravity, dt = iteration.read_array("gravity", 3), iteration.read("dt")
    resting_speed = RESTING_STEPS * dt * ir.sqrt(dot(gravity, gravity))
    effective_restitution = ir.select(normal_velocity, -ir.maximum(resting_speed, min_speed), restitution, 0.0)
    stiffness = contact.scalar("stiffness")
    bounces = ir.select(0.0, effective_restitution, ir.select(0.0, stiffness, 1.0, 0.0), 0.0)
    contact.write("stiffness", [ir.select(0.5, bounces, rigid_stiffness, stiffness)])
    return ir.select(0.5, bounces, -(1.0 + restitution) * normal_velocity / dt, NO_BOUNCE)


# -------------------------------------------------------------------------------------------------- contact constraints

PerContactValues = Callable[[Contact, Value], list[Value]]
"""Function of a contact and the step length that returns values to be summed over all contacts."""


def world_motion_subspaces(
    ctx: TraceContext, local_poses: NodeValues[Pose], shifted_world_poses: NodeValues[Pose]
) -> NodeValues[MotionSubspace]:
    """Compute the motion subspace of each joint in world axes about the shifted world origin.

    On warps the results are allocated contiguously, six values per dof.
    """
    subspaces: NodeValues[MotionSubspace] = ctx.new_values("motion subspaces")
    if ctx.settings.use_warps:
        zero = Twist(ZERO, ZERO)
        subspaces.allocate_contiguous({node.ref: MotionSubspace([zero] * len(node.dofs)) for node in ctx.nodes})

    def body(node: FrameNode) -> None:
        pose = shifted_world_poses[node.ref]
        subspaces.put(
            node.ref,
            MotionSubspace([twist_about_world_origin(pose, x) for x in motion_subspace(node, local_poses[node.ref])]),
        )

    ctx.for_each_frame("motion subspaces of joints", body)
    return subspaces


def add_joint_twist(parent_twist: Twist, coordinates: Sequence[Value], axes: Sequence[Twist]) -> Twist:
    """Twist of a frame: that of its parent, plus the motion axes of its joint times velocities or accelerations."""
    angular, linear = parent_twist.angular, parent_twist.linear
    for coordinate, axis in zip(coordinates, axes, strict=True):
        angular = add(angular, scale(coordinate, axis.angular))
        linear = add(linear, scale(coordinate, axis.linear))
    return Twist(angular, linear)


class ContactConstraints:
    """All contacts of an environment as constraints of the Newton solver, in a buffer per frame pair and condim."""

    def __init__(
        self,
        ctx: TraceContext,
        buffers: ContactBuffers | ContactSlots,
        motion_subspaces: NodeValues[MotionSubspace],
        shifted_world_poses: NodeValues[Pose],
        references: tuple[PerTreeArray, NodeValues[MotionSubspace]] | None = None,
    ) -> None:
        """Args beyond the contacts: `references` are reference points and motion subspaces, if already computed."""
        self.ctx = ctx
        self.buffers = buffers
        self.motion_subspaces = motion_subspaces
        self.cost_model = ContactCost()
        if references is None:
            points = tree_reference_points(ctx, frames_with_contacts(buffers), shifted_world_poses)
            references = points, motion_subspaces_about(ctx, motion_subspaces, points)
        self.reference_points, self.motion_subspaces_about_reference = references

    @property
    def listed_buffers(self) -> ContactBuffers:
        """The buffers of a model with listed geom pairs; a model with collision rules has none."""
        assert isinstance(self.buffers, ContactBuffers)
        return self.buffers

    # -------------------------------------------------------------------------------------------------------- residuals

    def frame_twists(self, name: str, joint_vector: NodeValues[list[Value]] | None = None) -> NodeValues[Twist]:
        """Map a joint-space vector to the twist of each frame by a forward pass over the kinematic tree: J v per frame.

        Joint velocities give spatial velocities, joint accelerations give spatial accelerations without bias terms.

        Args:
            name: label of the pass.
            joint_vector: vector to be mapped; None for the joint velocities of the state.
        """
        ctx = self.ctx

        def body(node: FrameNode, parent_twist: Twist) -> Twist:
            coordinates = ctx.read_node("vel", node) if joint_vector is None else joint_vector[node.ref]
            return add_joint_twist(parent_twist, coordinates, self.motion_subspaces[node.ref].twists)

        return ctx.forward_pass(name, ZERO_TWIST, body)

    def initialize_residuals(self, velocities: NodeValues[Twist], smooth_accelerations: NodeValues[Twist]) -> None:
        """Write the residual J a - aref of each contact at the unconstrained accelerations.

        The reference acceleration is -(damping * velocity + position feedback), with separate damping in normal and
        tangential directions; restitution raises the normal reference acceleration where contacts bounce.

        Args:
            velocities: twists of the frames.
            smooth_accelerations: spatial accelerations of the frames for the joint accelerations without constraints.
        """

        def body(iteration: IterationContext, specialization: ContactSpecialization) -> None:
            velocity, acceleration = (
                relative_twist(velocities, specialization),
                relative_twist(smooth_accelerations, specialization),
            )

            def write_residual(contact: Contact) -> None:
                residual = self.initial_residual(contact, iteration, specialization, velocity, acceleration)
                contact.write("residual", residual)

            self.buffers.for_each_lane_of_contacts(iteration, specialization, write_residual)

        self.buffers.for_each_active_buffer("contact residuals", body)

    def initial_residual(
        self,
        contact: Contact,
        iteration: IterationContext,
        specialization: ContactSpecialization,
        velocity: Twist,
        acceleration: Twist,
    ) -> list[Value]:
        """Residual J a - aref of a contact, given relative velocity and unconstrained acceleration of its frames."""
        bounce_acceleration = (
            apply_restitution_and_static_friction(contact, specialization, velocity, iteration)
            if specialization.has_restitution_or_stiction
            else None
        )
        damping = contact.damping
        projected = project_twist(contact, acceleration)
        normal, *tangential = [
            a + d * v for a, v, d in zip(projected, contact_velocity(contact, velocity), damping, strict=True)
        ]
        normal = normal + contact.scalar("position_feedback")
        if bounce_acceleration is not None:
            normal = ir.minimum(normal, projected[0] - contact.read("row_scales", 0, 1)[0] * bounce_acceleration)
        return [normal, *tangential]

    def multiply_jacobian(self, frame_twists: NodeValues[Twist]) -> None:
        """Write J d of each contact: derivative of its residual along a search direction d, given as frame twists."""

        def body(iteration: IterationContext, specialization: ContactSpecialization) -> None:
            twist = relative_twist(frame_twists, specialization)

            def write_derivative(contact: Contact) -> None:
                contact.write("residual_derivative", project_twist(contact, twist))

            self.buffers.for_each_lane_of_contacts(iteration, specialization, write_derivative)

        self.buffers.for_each_active_buffer("residual derivatives of contacts", body)

    def advance_residuals(self, step_length: ArenaOffset | PerTreeArray) -> None:
        """Update each contact's residual by a line-search step: r += step_length * (J d)."""

        def body(iteration: IterationContext, specialization: ContactSpecialization) -> None:
            length = iteration.read("length")

            def advance(contact: Contact) -> None:
                contact.write("residual", contact.residual_at(length))

            self.buffers.for_each_lane_of_contacts(iteration, specialization, advance)

        self.for_each_buffer("advance contact residuals", body, {"length": step_length})

    # ----------------------------------------------------------------------------------------------- sums over contacts

    def add_line_derivatives(self, step_length: ArenaOffset | PerTreeArray, total: ArenaOffset | PerTreeArray) -> None:
        """Add to `total` the first and second derivative of the contact costs along the search direction."""

        def contact_derivatives(contact: Contact, length: Value) -> list[Value]:
            residual = contact.residual_at(length)
            return list(self.cost_model.line_derivatives(contact, residual, contact.residual_derivative))

        self._sum_over_contacts("line derivatives of contacts", contact_derivatives, total, 2, step_length)

    def add_active_set_changes(
        self, step_length: ArenaOffset | PerTreeArray, total: ArenaOffset | PerTreeArray
    ) -> None:
        """Add to `total` the number of contacts that change their friction-cone zone or active pyramid edges in a step.

        An elliptic contact that slides before or after the line-search step always counts, as its cost is not
        quadratic.
        """

        def contact_changes(contact: Contact, length: Value) -> list[Value]:
            return [self.cost_model.active_set_changes(contact, contact.residual, contact.residual_at(length))]

        self._sum_over_contacts("active-set changes of contacts", contact_changes, total, 1, step_length)

    def add_costs(self, step_length: ArenaOffset | PerTreeArray, total: ArenaOffset | PerTreeArray) -> None:
        """Add to `total` the costs of all contacts at `step_length` along the search direction."""

        def contact_costs(contact: Contact, length: Value) -> list[Value]:
            return [self.cost_model.cost(contact, contact.residual_at(length))]

        self._sum_over_contacts("costs of contacts", contact_costs, total, 1, step_length)

    def _sum_over_contacts(
        self,
        name: str,
        contact_values: PerContactValues,
        total: ArenaOffset | PerTreeArray,
        n_values: int,
        step_length: ArenaOffset | PerTreeArray,
    ) -> None:
        """Trace the sum of `n_values` values of each contact over all active contacts, added to the array `total`.

        `total` and `step_length` are common to all trees or one per tree.
        """

        def body(iteration: IterationContext, specialization: ContactSpecialization) -> None:
            sums = ContactSums(iteration, specialization, n_values)

            def add_up(contact: Contact) -> None:
                for i, value in enumerate(contact_values(contact, iteration.read("length"))):
                    sums.add(contact, i, value)

            self.buffers.for_each_lane_of_contacts(iteration, specialization, add_up)
            pairs = zip(iteration.read_array("total", n_values), sums.read(), strict=True)
            iteration.write("total", [a + b for a, b in pairs])

        self.for_each_buffer(name, body, {"length": step_length, "total": total})

    def for_each_buffer(
        self, name: str, body: Callable[[IterationContext, ContactSpecialization], None], extra_arrays: OffsetsPerTree
    ) -> None:
        """Trace a loop over all pairs in contact, with additional arrays."""
        self.buffers.for_each_active_buffer(
            name, body, self.buffers.table_columns(ContactBufferFilter.ALL, extra_arrays)
        )

    # ----------------------------------------------------------------------------------------------------- joint forces

    def joint_forces(self, name: str) -> NodeValues[list[Value]]:
        """Compute the joint forces J^T f of all contacts, with f the negative gradient of the contact costs.

        Sums contact wrenches per frame, accumulates them towards the roots and projects them onto the motion subspaces.
        In code that a warp executes cooperatively (warp region), the wrenches of the buffers are first stored and then
        added to the frames, to avoid write conflicts.
        """
        ctx = self.ctx
        wrenches: NodeValues[Wrench] = ctx.new_values(f"{name}, on frames")
        ctx.for_each_frame(f"{name}, zero", lambda node: wrenches.put(node.ref, Wrench(ZERO, ZERO)))

        def body(iteration: IterationContext, specialization: ContactSpecialization) -> None:
            sums = ContactSums(iteration, specialization, 6)

            def add_contact(contact: Contact) -> None:
                gradient = self.cost_model.derivatives(contact, contact.residual).gradient
                for i, column in enumerate(zip(*spatial_contact_jacobian(contact), strict=True)):
                    sums.subtract(contact, i, dot(gradient, column))

            self.buffers.for_each_lane_of_contacts(iteration, specialization, add_contact)
            total = sums.read()
            if adds_directly:
                add_to_frames(total, specialization)
            else:
                iteration.write("wrench", total)

        def add_to_frames(total: Sequence[Value], specialization: ContactSpecialization) -> None:
            wrenches.add(frame_ref("b "), Wrench(total[:3], total[3:]))
            if not specialization.involves_world:
                wrenches.add(frame_ref("a "), Wrench([-x for x in total[:3]], [-x for x in total[3:]]))

        adds_directly = not ctx.tracer.in_warp_region  # else threads would write to the same frames
        if adds_directly:
            self.buffers.for_each_active_buffer(f"{name}, of contact buffers", body)
        else:
            wrench_arrays = [{"wrench": ctx.allocate(6)} for _ in self.listed_buffers.buffers]

            def rows() -> list[NodeIteration]:
                return [
                    self.listed_buffers.loop_iteration(x, arrays)
                    for x, arrays in zip(self.listed_buffers.buffers, wrench_arrays, strict=True)
                ]

            ctx.for_each(f"{name}, zero", rows(), lambda iteration: iteration.write("wrench", [0.0] * 6))
            self.buffers.for_each_active_buffer(f"{name}, of contact buffers", body, rows())
            self.buffers.for_each_active_buffer(
                f"{name}, on frames",
                lambda iteration, specialization: add_to_frames(iteration.read_array("wrench", 6), specialization),
                rows(),
            )
        ctx.accumulate_to_parents(f"{name}, of subtrees", wrenches)
        result: NodeValues[list[Value]] = ctx.new_values(name)

        def project(node: FrameNode) -> None:
            result.put(node.ref, [power(axis, wrenches[node.ref]) for axis in self.motion_subspaces[node.ref].twists])

        ctx.for_each_frame(name, project)
        return result

    # ---------------------------------------------------------------------------------------------------------- Hessian

    def add_world_contact_hessian(
        self, matrix: JointSpaceMatrix, add_frame_hessians: Callable[[NodeValues[list[Value]]], None] | None = None
    ) -> None:
        """Add J^T D J of the contacts with the world to a joint-space matrix.

        Sums 6 x 6 spatial Hessians per frame, accumulates them over subtrees and projects them onto the motion
        subspaces, as the composite-rigid-body algorithm does with inertias.

        Args:
            matrix: joint-space matrix with at least the sparsity of the mass matrix; entries are added.
            add_frame_hessians: adds further contributions to the spatial Hessians of the frames before the
                accumulation.
        """
        ctx, hessians = self.ctx, self.world_contact_hessians()
        if add_frame_hessians is not None:
            add_frame_hessians(hessians)
        self.add_subtree_hessians(matrix, ctx, hessians)

    def add_subtree_hessians(
        self, matrix: JointSpaceMatrix, ctx: TraceContext, hessians: NodeValues[list[Value]]
    ) -> None:
        """Add the joint-space matrix of the spatial Hessians of the frames of a context to `matrix`.

        Overwrites the Hessian of each frame with the sum over its subtree.
        """
        ctx.accumulate_to_parents("spatial Hessians of subtrees", hessians)

        def diagonal_entries(node: FrameNode) -> tuple[list[Wrench], list[list[Value]]]:
            axes = self.motion_subspaces_about_reference[node.ref].twists
            wrenches = [apply_spatial_hessian(hessians[node.ref], axis) for axis in axes]
            return wrenches, [[power(x, w) for x in axes[: k + 1]] for k, w in enumerate(wrenches)]

        def ancestor_entries(
            _node: FrameNode, ancestor: FrameNode, wrenches: list[Wrench]
        ) -> tuple[list[Wrench], list[list[Value]]]:
            return wrenches, [
                [power(x, w) for x in self.motion_subspaces_about_reference[ancestor.ref].twists] for w in wrenches
            ]

        matrix.compute(diagonal_entries, ancestor_entries, accumulate=True)

    def world_contact_hessians(self) -> NodeValues[list[Value]]:
        """Sum the 6 x 6 spatial Hessians of the contacts with the world of each frame, about its reference point."""
        ctx = self.ctx
        hessians: NodeValues[list[Value]] = ctx.new_values("spatial Hessians of frames")
        ctx.for_each_frame(
            "clear spatial Hessians of frames", lambda node: hessians.put(node.ref, [0.0] * N_SPATIAL_HESSIAN)
        )

        def body(iteration: IterationContext, specialization: ContactSpecialization) -> None:
            set_hessian = sum_spatial_hessians(
                self.buffers,
                iteration,
                specialization,
                self.cost_model,
                lambda: iteration.read_array("reference point", 3),
            )
            hessians.add(frame_ref("b "), read_local_array(iteration, set_hessian))

        columns = self.buffers.table_columns(ContactBufferFilter.WITH_WORLD, {"reference point": self.reference_points})
        self.buffers.for_each_active_buffer(
            "Hessian of contacts with the world", body, columns, ContactBufferFilter.WITH_WORLD
        )
        return hessians

    def coupled_dofs(self) -> list[list[int]]:
        """Return, for each contact buffer between moving frames, the dofs that move exactly one of the two frames."""
        return [[d for d, _ in self.relative_dofs(x)] for x in self.buffers_between_frames()]

    def buffers_between_frames(self) -> list[ContactBuffer]:
        """Return the contact buffers between two moving frames."""
        return self.listed_buffers.select_buffers(ContactBufferFilter.BETWEEN_FRAMES)

    def relative_dofs(self, contact_buffer: ContactBuffer) -> list[tuple[int, float]]:
        """Return the dofs that move exactly one frame of a buffer, with sign -1 (first frame) or +1 (second)."""
        first, second = (set(self.ancestor_dofs(frame)) for frame in contact_buffer.spec.frames)
        return sorted([(d, -1.0) for d in first - second] + [(d, 1.0) for d in second - first])

    def ancestor_dofs(self, frame: int) -> list[int]:
        """Return the dofs of a frame and of all its ancestors, starting at the frame."""
        nodes, path = self.ctx.tree.nodes, []
        while frame != WORLD:
            path += nodes[frame].dofs
            frame = nodes[frame].parent
        return path

    def add_frame_contact_hessian(self, matrix: JointSpaceMatrix) -> None:
        """Add J^T D J of the contacts between two moving frames to a joint-space matrix.

        For each frame pair in contact, the 6 x 6 spatial Hessian is projected onto all pairs of dofs that move exactly
        one of the two frames; `matrix` must have entries for these pairs.
        """
        axes = self.motion_axis_places()
        rows = []
        for contact_buffer in self.buffers_between_frames():
            row = self.listed_buffers.loop_iteration(contact_buffer)
            dof_rows = []
            signed_dofs = self.relative_dofs(contact_buffer)
            for i, (dof, sign) in enumerate(signed_dofs):
                entry_rows = [
                    LoopIteration(
                        "entry", {"other": axes[d], "entry": matrix.symmetric_entry(dof, d)}, {"other sign": [x]}
                    )
                    for d, x in signed_dofs[: i + 1]
                ]
                dof_rows.append(LoopIteration("dof", {"axis": axes[dof]}, {"sign": [sign]}, {"entries": entry_rows}))
            rows.append(replace(row, nested_iterations={"dofs": dof_rows}))

        def body(iteration: IterationContext, specialization: ContactSpecialization) -> None:
            reference = first_contact_point(iteration, specialization)
            set_hessian = sum_spatial_hessians(
                self.buffers,
                iteration,
                specialization,
                self.cost_model,
                lambda: read_local_array(iteration, reference, 3),
            )

            def project_dof(inner: IterationContext) -> None:
                axis = unflatten_twist(inner.read_array("axis", 6))
                wrench = apply_spatial_hessian_about(
                    read_local_array(inner, set_hessian), read_local_array(inner, reference, 3), axis
                )
                signed_wrench = inner.tracer.allocate_local(6)
                inner.tracer.write(signed_wrench, scale(inner.constant("sign"), [*wrench.torque, *wrench.force]))

                def add_entry(entry: IterationContext) -> None:
                    product = dot(entry.read_array("other", 6), [entry.tracer.read(signed_wrench, i) for i in range(6)])
                    entry.write("entry", [entry.read("entry") + entry.constant("other sign") * product])

                inner.nested_loop("entries", add_entry)

            iteration.nested_loop("dofs", project_dof)

        self.buffers.for_each_active_buffer(
            "Hessian of contacts between frames", body, rows, ContactBufferFilter.BETWEEN_FRAMES
        )

    def motion_axis_places(self) -> dict[int, ArenaOffset]:
        """Return for each dof the scratch offset of its motion axis (6 values: angular, linear)."""
        starts = {node.index: self.motion_subspaces.offset_of(node.ref).row for node in self.ctx.nodes}
        return {d: ArenaOffset(SCRATCH, starts[n.index] + 6 * k) for n in self.ctx.nodes for k, d in enumerate(n.dofs)}
