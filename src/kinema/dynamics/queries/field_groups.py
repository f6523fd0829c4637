"""Traced writers of field groups: link poses, velocities, accelerations and loads, joint forces, mass matrix, energies.

Each function traces the program of one group: it reads quantities of `StepData` and writes the output arrays that
`field_catalog.py` lists for the group. com-based quantities use the centre of mass of the link's tree as reference
point (MuJoCo's convention). Vectors are in world axes unless stated otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kinema import ir
from kinema.ir import IterationContext, Value
from kinema.model import PrimitiveJointType

from ..arrays import ElementKind
from ..forces import transmission_forces
from ..forces.external_wrenches import add_applied_wrenches, add_gravcomp_wrenches, zero_wrenches
from ..forces.fluid import add_fluid_wrenches
from ..pipeline import compute
from ..rigid import link_dynamics
from ..rigid.kinematics import Pose, Twist, link_pose, motion_subspace, twist_at_point
from ..rigid.rnea import Wrench, generalized_forces
from ..sensors.registry import evaluate_sensors
from ..settings import ControlMode
from ..step import StepData
from ..topology import ancestor_frames, dynamic_frames
from ..tree.kinematic_tree import WORLD, FrameNode, LinkNode, NodeRef
from ..tree.loop_context import tree_index_of_frames
from ..tree.node_values import NodeValues
from ..tree.sparse_matrix import ldl_factorize
from ..tree.trace_context import TraceContext
from ..tree.transmissions import ForceTerm
from ..vector_math import (
    ZERO,
    Vector,
    add,
    matmul,
    matrix_to_quaternion,
    quaternion_to_rotation_vector,
    scale,
    sub,
    sum_values,
)
from .body_quantities import (
    NEWTON_EULER_QUANTITIES,
    frame_twist,
    kinetic_energy,
    newton_euler_wrench,
    potential_energy,
    system_totals,
)
from .constraint_fields import (
    write_constraint_row_fields,
    write_contact_fields,
    write_contact_law_fields,
    write_coupling_fields,
    write_delassus_fields,
    write_equality_fields,
    write_equality_wrench_fields,
    write_solution_fields,
)
from .field_catalog import JACOBIAN_ARRAYS

# ---------------------------------------------------------------------------------------------------------- sleep flags


def write_sleep_fields(data: StepData) -> None:
    """Write `hibernated` of each link: 1 if its kinematic tree is asleep, else 0."""
    ctx, table, trees = data.ctx, [], tree_index_of_frames(data.ctx.model)
    for link in ctx.links:
        frame = int(dynamic_frames(ctx.model, ctx.model.links.frame_idx)[link])
        table.append(ctx.link_iteration(link))
        table[-1].offsets.update({} if frame == WORLD else ctx.element_arrays(ElementKind.TREE, trees[frame]))

    def body(iteration: IterationContext) -> None:
        link = ctx.link_of_iteration(iteration)
        can_sleep = link.in_moving_frame and ctx.settings.sleep_tolerance > 0.0
        asleep = ir.select(0.5, iteration.read("asleep"), 1.0, 0.0) if can_sleep else 0.0
        ctx.write("hibernated", link, [asleep])

    ctx.for_each("sleep flags", table, body)


def write_awake_dof_mask(data: StepData) -> None:
    """Write `mass_mat_mask` of each dof: 1 if its kinematic tree is awake, else 0."""
    ctx, table, trees = data.ctx, [], tree_index_of_frames(data.ctx.model)
    for node in ctx.nodes:
        table.append(ctx.frame_iteration(node))
        table[-1].offsets.update(ctx.element_arrays(ElementKind.TREE, trees[node.index]))

    def body(iteration: IterationContext) -> None:
        node = ctx.frame_of_iteration(iteration)
        awake = ir.select(iteration.read("asleep"), 0.5, 1.0, 0.0) if ctx.settings.sleep_tolerance else 1.0
        ctx.write("mass_mat_mask", node, [awake] * len(node.dofs))

    ctx.for_each("awake dof mask", table, body)


# ---------------------------------------------------------------------------------------------------------------- links


def _flatten(rows: Sequence[Sequence[Value]]) -> list[Value]:
    return [x for row in rows for x in row]


def write_pose_fields(data: StepData) -> None:
    """Write world position and quaternion of each link (`pos`, `quat`) and its joint frame (`j_pos`, `j_quat`).

    Quaternions are (w, x, y, z). The joint frame is the frame moved by the link's last joint; a link without joints
    uses its own pose.
    """
    compute(data, "world_poses")
    ctx, poses = data.ctx, data.world_poses

    def body(link: LinkNode) -> None:
        link_frame = link_pose(link, poses)
        joint_frame = link_frame if link.joint_frame_ref is None else poses[link.joint_frame_ref]
        for prefix, pose in (("", link_frame), ("j_", joint_frame)):
            ctx.write(f"{prefix}pos", link, pose.position)
            ctx.write(f"{prefix}quat", link, matrix_to_quaternion(pose.rotation))

    ctx.for_each_link("link poses", body)


def write_inertia_fields(data: StepData) -> None:
    """Write the inertial properties of each link: `i_pos`, the com-based `cinr_*` fields and `root_COM`.

    `i_pos` is the link's centre of mass, `cinr_inertial` its inertia about `root_COM` (the centre of mass of its tree),
    `cinr_pos` the vector from `root_COM` to `i_pos` and `cinr_quat` the orientation of its principal axes.
    """
    compute(data, "tree_coms")
    ctx, bodies, tree_coms = data.ctx, data.link_bodies, data.tree_coms

    def body(link: LinkNode) -> None:
        rigid_body, tree_com = bodies[link.ref], tree_coms[link.root_ref]
        ctx.write("i_pos", link, rigid_body.com)
        ctx.write("cinr_inertial", link, _flatten(link_dynamics.inertia_about_point(rigid_body, tree_com)))
        ctx.write("cinr_mass", link, [rigid_body.mass])
        ctx.write("cinr_pos", link, sub(rigid_body.com, tree_com))
        ctx.write("cinr_quat", link, matrix_to_quaternion(matmul(rigid_body.pose.rotation, link.principal_axes)))
        ctx.write("root_COM", link, tree_com)

    ctx.for_each_link("link inertias", body)


def write_velocity_fields(data: StepData) -> None:
    """Write the twist of each link: at its origin (`vel`, `ang`), com-based (`cdd_*`), relative to its parent (`j_*`).

    `cdd_vel` is the velocity of the link's material point at the centre of mass of its tree. `j_vel` and `j_ang` are
    the twist at the joint frame minus that of the parent frame at the same point: zero for links without joints.
    """
    compute(data, "world_poses", "tree_coms", "velocities")
    ctx, poses, tree_coms = data.ctx, data.world_poses, data.tree_coms

    def body(link: LinkNode) -> None:
        at_origin = frame_twist(data, link.frame_ref, link_pose(link, poses).position)
        com_based = frame_twist(data, link.frame_ref, tree_coms[link.root_ref])
        relative = Twist(ZERO, ZERO)
        if link.joint_frame_ref is not None:
            anchor = poses[link.joint_frame_ref].position
            parent, child = (
                frame_twist(data, link.parent_frame_ref, anchor),
                frame_twist(data, link.joint_frame_ref, anchor),
            )
            relative = Twist(sub(child.angular, parent.angular), sub(child.linear, parent.linear))
        for prefix, twist in (("", at_origin), ("cdd_", com_based), ("j_", relative)):
            ctx.write(f"{prefix}vel", link, twist.linear)
            ctx.write(f"{prefix}ang", link, twist.angular)

    ctx.for_each_link("link velocities", body)


def write_load_fields(data: StepData) -> None:
    """Write the accelerations of each link and the wrench from its parent (`cfrc_*`), as in MuJoCo's rnePostConstraint.

    `acc` is the acceleration of the link origin (gravity included), `cacc_*` the com-based spatial acceleration minus
    gravity. `cfrc_*` sums the Newton-Euler wrenches of the link's subtree, about the centre of mass of its tree.
    """
    compute(data, *NEWTON_EULER_QUANTITIES)
    ctx, poses, tree_coms, accelerations = data.ctx, data.world_poses, data.tree_coms, data.proper_accelerations

    def link_wrench(link: LinkNode) -> Wrench:
        tree_com = tree_coms[link.root_ref]
        com_acceleration = link_dynamics.acceleration_at_point(
            poses[link.frame_ref], accelerations[link.frame_ref], tree_com
        )
        com_based = link_dynamics.spatial_acceleration(com_acceleration, frame_twist(data, link.frame_ref, tree_com))
        ctx.write("cacc_ang", link, com_based.angular)
        ctx.write("cacc_lin", link, com_based.linear)
        origin_acceleration = link_dynamics.acceleration_at_point(
            poses[link.frame_ref], accelerations[link.frame_ref], link_pose(link, poses).position
        )
        ctx.write("acc", link, add(origin_acceleration.linear, ctx.gravity))
        return newton_euler_wrench(data, link)

    subtree_wrenches = ctx.sum_over_subtrees("subtree wrenches", link_wrench)

    def body(link: LinkNode) -> None:
        ctx.write("cfrc_ang", link, subtree_wrenches[link.ref].torque)
        ctx.write("cfrc_vel", link, subtree_wrenches[link.ref].force)

    ctx.for_each_link("link wrenches", body)


# --------------------------------------------------------------------------------------------------- degrees of freedom


def write_coordinate_fields(data: StepData) -> None:
    """Write `pos` of each dof: its joint coordinate; of a ball joint the rotation vector of its quaternion."""
    ctx = data.ctx

    def body(node: FrameNode) -> None:
        q = ctx.read_node("qpos", node)
        ctx.write(
            "pos", node, list(quaternion_to_rotation_vector(q)) if node.joint_type == PrimitiveJointType.BALL else q
        )

    ctx.for_each_frame("joint coordinates", body)


def write_force_fields(data: StepData) -> None:
    """Write `acc`, `force` and `qf_constraint` of each dof: what follows from the constraint forces.

    `force` is the sum of smooth and constraint forces (M `acc`).
    """
    compute(data, "qfrc_smooth", "qfrc_constraint", "constrained_acceleration")
    ctx, qacc, qfrc_smooth = data.ctx, data.constrained_acceleration, data.qfrc_smooth
    qfrc_constraint = data.qfrc_constraint

    def body(node: FrameNode) -> None:
        ctx.write("acc", node, qacc[node.ref])
        constraint = [0.0] * len(node.dofs) if qfrc_constraint is None else qfrc_constraint[node.ref]
        ctx.write("force", node, [a + b for a, b in zip(qfrc_smooth[node.ref], constraint, strict=True)])
        ctx.write("qf_constraint", node, constraint)

    ctx.for_each_frame("joint forces", body)


def write_bias_force_fields(data: StepData) -> None:
    """Write `qf_bias` of each dof, the bias forces by the recursive Newton-Euler algorithm."""
    compute(data, "qfrc_bias")
    ctx, qfrc_bias = data.ctx, data.qfrc_bias
    ctx.for_each_frame("bias forces", lambda node: ctx.write("qf_bias", node, qfrc_bias[node.ref]))


def write_smooth_force_fields(data: StepData) -> None:
    """Write the generalised forces of each dof that do not follow from constraints: `qf_passive`, `qf_actuator`, ...

    `qf_passive` contains springs, dampers, tendons, fluid forces and gravity compensation, `qf_actuator` user commands
    and all actuators, `qf_control` the same without actuators on sites, `qf_applied` the user's wrenches and joint
    forces. Wrenches on links are mapped to joint forces by J^T.
    """
    compute(data, "world_poses", "velocities", "path_lengths", "joint_force_terms", "qfrc_gravcomp")
    ctx = data.ctx
    wrenches = {
        name: zero_wrenches(ctx, name) for name in ("passive wrenches", "site actuator wrenches", "applied wrenches")
    }
    passive_wrenches, site_actuator_wrenches, applied_wrenches = wrenches.values()
    if data.qfrc_gravcomp is None:  # else joint_force_terms contain it
        add_gravcomp_wrenches(ctx, data.world_poses, passive_wrenches)
    add_fluid_wrenches(data, passive_wrenches)
    add_applied_wrenches(ctx, data.world_poses, applied_wrenches)
    transmission_forces.actuator_forces(data, site_actuator_wrenches)
    passive_forces, site_actuator_forces, applied_forces = (
        generalized_forces(ctx, name, data.local_poses, lambda node, of=of: of[node.ref])
        for name, of in wrenches.items()
    )
    force_terms = data.joint_force_terms

    def body(node: FrameNode) -> None:
        passive, tendons, control, actuators, *applied_terms = force_terms[node.ref]
        ctx.write("qf_passive", node, _sum_forces(passive, tendons, passive_forces[node.ref]))
        ctx.write("qf_actuator", node, _sum_forces(control, actuators, site_actuator_forces[node.ref]))
        applied = [sum_values([term[k].force for term in applied_terms]) for k in range(len(node.dofs))]
        ctx.write("qf_applied", node, [a + b for a, b in zip(applied_forces[node.ref], applied, strict=True)])
        ctx.write("qf_control", node, _sum_forces(control, actuators, [0.0] * len(node.dofs)))

    ctx.for_each_frame("smooth joint forces", body)


def _sum_forces(a: Sequence[ForceTerm], b: Sequence[ForceTerm], c: Sequence[Value]) -> list[Value]:
    return [x.force + y.force + z for x, y, z in zip(a, b, c, strict=True)]


def write_control_fields(data: StepData) -> None:
    """Write `ctrl_mode` of each dof and its command as `ctrl_force`, `ctrl_vel` or `ctrl_pos`.

    The command appears in the field of the active control mode; the other two are zero.
    """
    ctx = data.ctx

    def body(node: FrameNode) -> None:
        modes, commands = ctx.read_node("ctrl_mode", node), ctx.read_node("command", node)
        ctx.write("ctrl_mode", node, modes)
        for name, mode_index in (
            ("force", ControlMode.FORCE),
            ("vel", ControlMode.VELOCITY),
            ("pos", ControlMode.POSITION),
        ):
            mode_errors = (ir.absolute(mode - float(mode_index)) for mode in modes)
            ctx.write(
                f"ctrl_{name}", node, [ir.select(x, 0.5, y, 0.0) for x, y in zip(mode_errors, commands, strict=True)]
            )

    ctx.for_each_frame("control inputs", body)


def write_dof_axis_fields(data: StepData) -> None:
    """Write the motion subspace S of each dof (`cdof_*`), S times its velocity (`cdofvel_*`) and dS/dt (`cdofd_*`).

    All com-based (MuJoCo's `cdof` and `cdof_dot`): twists of unit joint velocity at the centre of mass of the tree. The
    derivative is the spatial cross product of the parent frame's twist with the motion vector.
    """
    compute(data, "tree_coms", "velocities")
    ctx, local_poses, tree_coms, world_poses = data.ctx, data.local_poses, data.tree_coms, data.world_poses

    def body(node: FrameNode) -> None:
        tree_com, v = tree_coms[node.root_ref], ctx.read_node("vel", node)
        axes = [
            twist_at_point(world_poses[node.ref], twist, tree_com)
            for twist in motion_subspace(node, local_poses[node.ref])
        ]
        parent_twist = frame_twist(data, node.parent_ref, tree_com)
        derivatives = [link_dynamics.motion_cross_product(parent_twist, twist) for twist in axes]
        axis_velocities = [Twist(scale(x, t.angular), scale(x, t.linear)) for x, t in zip(v, axes, strict=True)]
        for name, twists in (("cdof", axes), ("cdofvel", axis_velocities), ("cdofd", derivatives)):
            ctx.write(f"{name}_ang", node, _flatten([t.angular for t in twists]))
            ctx.write(f"{name}_vel", node, _flatten([t.linear for t in twists]))

    ctx.for_each_frame("motion subspace", body)


def write_mass_matrix_fields(data: StepData) -> None:
    """Write mass matrix M = L^T D L (`mass_mat`), its factors (`mass_mat_L`, `mass_mat_D_inv`) and awake mask."""
    compute(data, "mass_matrix")
    matrix = data.mass_matrix
    matrix.store("mass_mat")
    ldl_factorize(matrix).store("mass_mat_L", "mass_mat_D_inv")
    write_awake_dof_mask(data)


# ------------------------------------------------------------------------------------------------- system and Jacobians


def write_system_fields(data: StepData) -> None:
    """Write the energies [J], total mass, centre of mass and momenta of all moving frames.

    The angular momentum is about the world origin.
    """
    ctx, totals = data.ctx, system_totals(data)
    potential = potential_energy(data, totals)
    divisor = ir.select(0.0, totals.mass, totals.mass, 1.0)
    ctx.write("kinetic_energy", None, [kinetic_energy(data, totals)])
    ctx.write("potential_energy", None, [potential])
    ctx.write("mass", None, [totals.mass])
    ctx.write("com", None, scale(1.0 / divisor, totals.first_moment))
    ctx.write("linear_momentum", None, totals.linear_momentum)
    ctx.write("angular_momentum", None, totals.angular_momentum)


def link_jacobian_writer(link: int) -> Callable[[StepData], None]:
    """Return the traced function that writes the 6 x n_dofs Jacobian of one link at its origin.

    Rows are the arrays of `JACOBIAN_ARRAYS`: three of linear, three of angular velocity, in world axes.
    """

    def write(data: StepData) -> None:
        compute(data, "world_poses")
        ctx, world_poses = data.ctx, data.world_poses
        origins: NodeValues[Vector] = ctx.new_values("link origins")
        ctx.for_each_link("link origins", lambda x: origins.put(x.ref, link_pose(x, world_poses).position))
        write_link_jacobians(ctx, data.local_poses, world_poses, [link], lambda ref: origins[ref])

    return write


def write_link_jacobians(
    ctx: TraceContext,
    local_poses: NodeValues[Pose],
    world_poses: NodeValues[Pose],
    link_indices: Sequence[int],
    point_of: Callable[[NodeRef], Vector],
    prefix: str = "",
) -> None:
    """Write the columns of the 6 x n_dofs geometric Jacobian of links, at a point of each link.

    For each dof on the path from the world to a link, writes the twist of unit joint velocity at the point to the six
    arrays `prefix` + `JACOBIAN_ARRAYS` (three linear, three angular rows, in world axes). Entries of other dofs are not
    written. Several links share the arrays, so that they must lie in different kinematic trees.

    Args:
        ctx: the tracing context.
        local_poses: poses of the frames in their parents.
        world_poses: poses of the frames in the world.
        link_indices: the links.
        point_of: link reference -> world position of the point [m].
        prefix: prefix of the output array names.
    """
    rows = []
    for link in link_indices:
        path = ancestor_frames(ctx.model, int(ctx.model.links.frame_idx[link]))
        rows += [ctx.frame_iteration(ctx.tree.nodes[i], link) for i in reversed(path)]

    def body(node: FrameNode) -> None:
        assert node.target_link_ref is not None
        pose, point = world_poses[node.ref], point_of(node.target_link_ref)
        columns = [twist_at_point(pose, twist, point) for twist in motion_subspace(node, local_poses[node.ref])]
        for k, name in enumerate(JACOBIAN_ARRAYS):
            ctx.write(prefix + name, node, [(*c.linear, *c.angular)[k] for c in columns])

    ctx.for_each("link Jacobian", rows, lambda iteration: body(ctx.frame_of_iteration(iteration)))


FIELD_GROUPS: dict[str, Callable[[StepData], None]] = {
    "poses": write_pose_fields,
    "inertia": write_inertia_fields,
    "velocities": write_velocity_fields,
    "loads": write_load_fields,
    "coordinates": write_coordinate_fields,
    "forces": write_force_fields,
    "bias forces": write_bias_force_fields,
    "smooth forces": write_smooth_force_fields,
    "control": write_control_fields,
    "axes": write_dof_axis_fields,
    "mass": write_mass_matrix_fields,
    "sleep": write_sleep_fields,
    "equalities": write_equality_fields,
    "equality wrenches": write_equality_wrench_fields,
    "couplings": write_coupling_fields,
    "contacts": write_contact_fields,
    "laws of contacts": write_contact_law_fields,
    "solution": write_solution_fields,
    "rows": write_constraint_row_fields,
    "rows against rows": write_delassus_fields,
    "system": write_system_fields,
    "sensors": evaluate_sensors,
}
"""Group name in `field_catalog.py` -> function that traces the fields of the group."""
