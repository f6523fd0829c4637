"""Spatial Jacobian (condim x 6) and spatial Hessian (6 x 6) of contacts, and joint motion axes in world coordinates.

Twists are [angular, linear] and wrenches [torque, force], expressed in world axes about the shifted world origin of the
contact coordinates or about a reference point. Symmetric 6 x 6 Hessians are stored as their lower triangle by rows (21
values). Hessians are accumulated about a reference point inside each tree: rotational entries grow with the square of
the distance to the reference point, and about a distant origin they would be lost to rounding in single precision.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from kinema.ir import IterationContext, Value
from kinema.model import Model

from ..collision.contact_buffer_specs import ContactSpecialization
from ..collision.contact_buffers import ContactBufferFilter, ContactBuffers
from ..collision.contact_records import Contact, ContactSums, contact_of_iteration
from ..collision.contact_slots import ContactSlots
from ..rigid.kinematics import Pose, Twist
from ..rigid.rnea import Wrench
from ..tree.kinematic_tree import WORLD, frame_ref
from ..tree.loop_context import tree_index_of_frames
from ..tree.node_values import NodeValues
from ..tree.per_tree import PerTreeArray, frame_rows
from ..tree.trace_context import TraceContext
from ..vector_math import add, cross, dot, rotate, scale, sub
from .friction_cone import ContactCost

Values = Sequence[Value]
N_SPATIAL_HESSIAN = 21
"""Entries of the lower triangle of a symmetric 6 x 6 matrix, stored by rows."""


@dataclass(frozen=True, slots=True)
class MotionSubspace:
    """Motion subspace S of a joint (MuJoCo's cdof): a unit twist per dof, in world axes about the shifted origin."""

    twists: Sequence[Twist]


def twist_about_world_origin(pose: Pose, twist: Twist) -> Twist:
    """Transform a body-frame twist to world axes, with the linear part taken at the coordinate origin."""
    angular = rotate(pose.rotation, twist.angular)
    return Twist(angular, add(rotate(pose.rotation, twist.linear), cross(pose.position, angular)))


def relative_twist(twists: NodeValues[Twist], specialization: ContactSpecialization) -> Twist:
    """Return the twist of the second frame ("b") of a buffer relative to the first frame ("a", or the world)."""
    b = twists[frame_ref("b ")]
    if specialization.involves_world:
        return b
    a = twists[frame_ref("a ")]
    return Twist(sub(b.angular, a.angular), sub(b.linear, a.linear))


def shift_twist(twist: Twist, point: Values) -> Twist:
    """Move the reference point of a twist from the origin to `point`: v' = v + w x p."""
    return Twist(twist.angular, add(twist.linear, cross(twist.angular, point)))


def spatial_contact_jacobian(contact: Contact, reference_point: Values | None = None) -> list[list[Value]]:
    """Return the contact Jacobian (condim x 6) with respect to a body's twist [angular, linear], with friction scaling.

    Rows are normal, two tangents, torsion and two rolling axes. Friction rows are multiplied by their friction
    coefficients, the normal row by 1 (pyramidal cone) or the regularised mu (elliptic cone). The transpose maps contact
    forces to a wrench [torque, force]. Torques are about the shifted world origin or about `reference_point`.
    """
    point = contact.read("point")
    point = point if reference_point is None else sub(point, reference_point)
    axes, rows = contact.axes, []
    for j, factor in enumerate(contact.read("row_scales")):
        if j < 3:
            axis = scale(factor, axes[j])
            rows.append([*cross(point, axis), *axis])
        else:
            rows.append([*scale(factor, axes[j - 3]), 0.0, 0.0, 0.0])
    return rows


def project_twist(contact: Contact, twist: Twist) -> list[Value]:
    """Project a relative twist (about the origin) onto the scaled contact axes: J v, with condim values."""
    point = contact.read("point")
    point_velocity = add(twist.linear, cross(twist.angular, point))
    scales = contact.read("row_scales")
    axes = contact.axes
    return [
        factor * (dot(axes[j], point_velocity) if j < 3 else dot(axes[j - 3], twist.angular))
        for j, factor in enumerate(scales)
    ]


def contact_velocity(contact: Contact, relative_velocity: Twist) -> list[Value]:
    """Relative velocity of the two surfaces of a contact along its scaled rows: J v plus the surface velocity."""
    velocity = project_twist(contact, relative_velocity)
    if "surface_velocity" not in contact.layout.offsets:
        return velocity
    terms = zip(velocity, contact.read("row_scales"), contact.surface_velocity, strict=True)
    return [v + factor * surface_velocity for v, factor, surface_velocity in terms]


def first_contact_point(iteration: IterationContext, specialization: ContactSpecialization) -> str:
    """Copy the position of the first contact of a non-empty contact buffer into a new local array; return its name."""
    array = iteration.tracer.allocate_local(3)
    iteration.tracer.write(array, contact_of_iteration(iteration, specialization, 0.0).read("point"))
    return array


def sum_spatial_hessians(
    buffers: ContactBuffers | ContactSlots,
    iteration: IterationContext,
    specialization: ContactSpecialization,
    cost_model: ContactCost,
    reference_point: Callable[[], Values],
) -> str:
    """Sum J^T H J (6 x 6, lower triangle) over the contacts of a frame pair; return the local array of the sums.

    J is the spatial contact Jacobian about `reference_point` and H the Hessian of the contact cost at the current
    residual. The sum is the Hessian of the cost with respect to the relative twist of the two frames.
    """
    sums = ContactSums(iteration, specialization, N_SPATIAL_HESSIAN)

    def add_contact(contact: Contact) -> None:
        left, right = _hessian_factors(contact, cost_model, reference_point())
        entry = 0
        for i in range(6):
            for j in range(i + 1):
                product = dot([column[i] for column in left], [row[j] for row in right])
                sums.add(contact, entry, product)
                entry += 1

    buffers.for_each_lane_of_contacts(iteration, specialization, add_contact)
    return sums.local_array()


def _hessian_factors(
    contact: Contact, cost_model: ContactCost, reference_point: Values
) -> tuple[list[Values], list[Values]]:
    """Return two lists of 6-vectors (u_k, w_k) such that the spatial Hessian of a contact is sum_k u_k w_k^T.

    For elliptic cones with a compact Hessian the factors are the Jacobian rows, the cone direction (normal - mu
    tangent) and the sliding tangent with their weights; otherwise the Jacobian rows J and the rows of H J.
    """
    jacobian, compact, n = (
        spatial_contact_jacobian(contact, reference_point),
        cost_model.compact_hessian(contact),
        contact.condim,
    )
    if compact is None:
        lower = cost_model.derivatives(contact, contact.residual).hessian
        full = [[lower[max(i, j)][min(i, j)] for j in range(n)] for i in range(n)]
        return [*jacobian], [
            [dot(row, [jacobian_row[k] for jacobian_row in jacobian]) for k in range(6)] for row in full
        ]
    mu = contact.stiffness_and_mu[1]
    tangent = [dot(compact.tangent, [jacobian_row[k] for jacobian_row in jacobian[1:]]) for k in range(6)]
    cone_direction = [x - mu * y for x, y in zip(jacobian[0], tangent, strict=True)]
    vectors: list[Values] = [*jacobian, cone_direction, tangent]
    weights = [*compact.diagonal, compact.cone_weight, -compact.tangent_weight]
    return vectors, [scale(factor, jacobian_row) for factor, jacobian_row in zip(weights, vectors, strict=True)]


def read_local_array(iteration: IterationContext, array: str, count: int = N_SPATIAL_HESSIAN) -> list[Value]:
    """Read the first `count` values of a local array; by default a packed 6 x 6 Hessian."""
    return [iteration.tracer.read(array, i) for i in range(count)]


def apply_spatial_hessian(hessian: Sequence[Value], twist: Twist) -> Wrench:
    """Multiply a packed symmetric 6 x 6 Hessian with a twist; returns a wrench about the same point."""
    x = [*twist.angular, *twist.linear]
    result: list[Value] = []
    for i in range(6):
        total: Value = 0.0
        for j in range(6):
            low, high = min(i, j), max(i, j)
            total = total + hessian[high * (high + 1) // 2 + low] * x[j]
        result.append(total)
    return Wrench(result[:3], result[3:])


def apply_spatial_hessian_about(hessian: Sequence[Value], point: Values, twist: Twist) -> Wrench:
    """Multiply a Hessian given about `point` with a twist about the origin; returns a wrench about the origin."""
    wrench = apply_spatial_hessian(hessian, shift_twist(twist, point))
    return Wrench(add(wrench.torque, cross(point, wrench.force)), wrench.force)


def shift_spatial_hessian(hessian: Sequence[Value], offset: Values) -> list[Value]:
    """Move the reference point of a packed 6 x 6 Hessian; `offset` is the old point relative to the new one."""
    wrenches = [
        apply_spatial_hessian_about(hessian, offset, unflatten_twist([float(i == j) for i in range(6)]))
        for j in range(6)
    ]
    columns = [[*wrench.torque, *wrench.force] for wrench in wrenches]
    return [columns[j][i] for i in range(6) for j in range(i + 1)]


def unflatten_twist(values: Sequence[Value]) -> Twist:
    """Make a twist of six values [angular, linear]."""
    return Twist(values[:3], values[3:])


# -------------------------------------------------------------------------------------------- reference points of trees


def frames_with_contacts(buffers: ContactBuffers | ContactSlots) -> list[int]:
    """Return the frames that contacts with the world refer to."""
    if isinstance(buffers, ContactSlots):
        return buffers.frames.tolist()
    return [x.spec.frames[1] for x in buffers.select_buffers(ContactBufferFilter.WITH_WORLD)]


def tree_reference_points(
    ctx: TraceContext,
    contact_frames: Sequence[int],
    shifted_world_poses: NodeValues[Pose],
    points: PerTreeArray | None = None,
) -> PerTreeArray:
    """Write the reference point of each tree (3 values, about the shifted world origin) and return the array.

    The point is the origin of a frame near the middle of the frames in contact (see `reference_frames`).

    Args:
        ctx: tracing context.
        contact_frames: frames that can be in contact with the world, which are to be close to the reference point.
        shifted_world_poses: poses of all frames about the shifted world origin.
        points: array that is written; None for a new one.
    """
    points, trees = points or PerTreeArray(ctx, 3), tree_index_of_frames(ctx.model)
    rows = []
    for frame in reference_frames(ctx.model, [node.index for node in ctx.nodes], contact_frames):
        rows.append(ctx.frame_iteration(ctx.tree.nodes[frame]))
        rows[-1].offsets["point"] = points.offset_of(trees[frame])
    ctx.for_each(
        "reference points of trees",
        rows,
        lambda iteration: iteration.write("point", shifted_world_poses[ctx.frame_of_iteration(iteration).ref].position),
    )
    return points


def motion_subspaces_about(
    ctx: TraceContext, motion_subspaces: NodeValues[MotionSubspace], reference_points: PerTreeArray
) -> NodeValues[MotionSubspace]:
    """Shift the joint motion subspaces from the shifted world origin to the reference point of their tree."""
    shifted: NodeValues[MotionSubspace] = ctx.new_values("motion subspaces about reference points")
    rows = frame_rows(ctx, ctx.nodes, {"point": reference_points})

    def body(iteration: IterationContext) -> None:
        ref, point = ctx.frame_of_iteration(iteration).ref, iteration.read_array("point", 3)
        shifted.put(ref, MotionSubspace([shift_twist(x, point) for x in motion_subspaces[ref].twists]))

    ctx.for_each("motion subspaces about reference points", rows, body)
    return shifted


def reference_frames(model: Model, frames: Sequence[int], contact_frames: Sequence[int]) -> list[int]:
    """Return for each tree the contact frame with the smallest maximum distance to its other contact frames.

    Distances are summed joint offsets along the tree. A tree without frames in contact with the world uses its last
    frame.
    """
    trees, frames_of_trees = tree_index_of_frames(model), []
    by_tree: dict[int, tuple[list[int], set[int]]] = {}
    for frame in frames:
        by_tree.setdefault(trees[frame], ([], set()))[0].append(frame)
    for frame in contact_frames:
        if trees[frame] in by_tree:
            by_tree[trees[frame]][1].add(frame)
    for tree_frames, in_contact in by_tree.values():
        candidates = sorted(in_contact) or tree_frames[-1:]
        if len(candidates) == 1:
            frames_of_trees.append(candidates[0])
            continue
        distances = {frame: _distances_to_ancestors(model, frame) for frame in candidates}
        frames_of_trees.append(
            min(candidates, key=lambda a: max(_tree_distance(distances[a], distances[b]) for b in candidates))
        )
    return frames_of_trees


def _distances_to_ancestors(model: Model, frame: int) -> dict[int, float]:
    """Return the transmission path length [m] from a frame to itself and to each of its ancestors."""
    distances, length = {}, 0.0
    while frame != WORLD:
        distances[frame] = length
        length += float(np.linalg.norm(model.frames.pos[frame]))
        frame = int(model.frames.parent_idx[frame])
    return distances


def _tree_distance(a: dict[int, float], b: dict[int, float]) -> float:
    return min(a[frame] + b[frame] for frame in a.keys() & b.keys())
