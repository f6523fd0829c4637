"""Equality constraints between two links (connect, weld and loop-closing joints), and their breaking under load.

A constraint is composed of components: a point on a point, line or plane, equal orientations, parallel or perpendicular
axes, or a screw. Each component contributes rows, and each row is a pair of opposite wrenches per unit force, on frame
a and on frame b, about the origin of frame b. The Jacobian entry of a dof is the power of the wrench in the dof's
motion.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

from kinema import ir
from kinema.ir import ArenaOffset, IterationContext, LoopIteration, Value
from kinema.model import Model

from ..arrays import UNBREAKABLE_FORCE, ElementKind
from ..forces.tendon_wrapping import angle_from_cos_sin
from ..rigid.kinematics import Pose, Twist, motion_subspace, twist_at_point
from ..rigid.link_dynamics import acceleration_at_point
from ..rigid.rnea import Wrench, power
from ..topology import ancestor_frames
from ..tree.kinematic_tree import WORLD, FrameNode, frame_ref
from ..tree.node_constants import FrameSpecialization, with_per_env_parameters
from ..tree.node_values import NodeValues
from ..tree.trace_context import TraceContext
from ..vector_math import (
    IDENTITY,
    ZERO,
    Vector,
    add,
    cross,
    dot,
    matmul,
    matrix_to_quaternion,
    rotate,
    rotate_inverse,
    scale,
    sub,
    transpose,
)
from .rows import ConstraintBlock, ConstraintRows, KinematicState, RowType

SIDES = ("a ", "b ")
"""Prefixes of the two constrained frames in loop rows."""


@dataclass(frozen=True, slots=True)
class FrameState:
    """World pose, velocity and bias acceleration (at zero joint accelerations) of one of two constrained frames."""

    pose: Pose
    velocity: Twist
    bias_acceleration: Twist

    def axis_derivatives(self, axis: int) -> list[Vector]:
        """Return the unit vector of a frame axis and its first and second time derivative."""
        u = [row[axis] for row in self.pose.rotation]
        derivative = cross(self.velocity.angular, u)
        return [u, derivative, add(cross(self.bias_acceleration.angular, u), cross(self.velocity.angular, derivative))]


@dataclass(frozen=True, slots=True)
class EqualityRow:
    """One constraint row: position error, bias acceleration, and the wrenches that a unit constraint force exerts.

    Frame a receives `force` at `point_a` and `torque`, frame b receives the opposite force at `point_b` and torque.
    """

    error: Value
    """Constraint violation [m]."""
    bias_acceleration: Value
    """Second time derivative of the error at zero joint accelerations."""
    force: Vector
    point_a: Vector
    point_b: Vector
    torque: Vector


@dataclass(frozen=True, slots=True)
class EqualityParameters:
    """Numeric parameters of one equality constraint."""

    torque_scale: Value
    """Length that converts orientation errors to position errors [m]."""
    pitch: Value
    """Pitch of a screw component [m/rad]."""
    length: Value = 0.0
    """Length of a rod or rope [m]."""


def _position_difference(a: FrameState, b: FrameState) -> list[Vector]:
    """Return the vector from the origin of b to the origin of a, and its first and second time derivative."""
    return [
        sub(a.pose.position, b.pose.position),
        sub(a.velocity.linear, b.velocity.linear),
        sub(a.bias_acceleration.linear, b.bias_acceleration.linear),
    ]


def _dot_second_derivative(x: Sequence[Vector], y: Sequence[Vector]) -> Value:
    """Return the second time derivative of x . y; each argument is a vector with its first two derivatives."""
    return dot(x[0], y[2]) + 2.0 * dot(x[1], y[1]) + dot(x[2], y[0])


def _point_rows(a: FrameState, b: FrameState, parameters: EqualityParameters) -> list[EqualityRow]:
    """Return three rows that keep the origins of both frames coincident."""
    difference = _position_difference(a, b)
    return [
        EqualityRow(difference[0][i], difference[2][i], unit, a.pose.position, b.pose.position, ZERO)
        for i, unit in enumerate(IDENTITY)
    ]


def _in_plane_rows(a: FrameState, b: FrameState, axes_a: Sequence[int]) -> list[EqualityRow]:
    """Return one row per listed axis of a that keeps b's origin in the plane through a's origin normal to the axis."""
    difference, point = _position_difference(a, b), b.pose.position
    # the axes rotate with a, so the force acts on a at b's origin
    return [
        EqualityRow(dot(axis[0], difference[0]), _dot_second_derivative(axis, difference), axis[0], point, point, ZERO)
        for axis in map(a.axis_derivatives, axes_a)
    ]


def _orientation_rows(a: FrameState, b: FrameState, parameters: EqualityParameters) -> list[EqualityRow]:
    """Return three rows that align both frames: the vector part of the relative quaternion times `torque_scale`."""
    torque_scale = parameters.torque_scale
    w, *v = matrix_to_quaternion(matmul(transpose(b.pose.rotation), a.pose.rotation))
    relative_velocity = sub(a.velocity.angular, b.velocity.angular)
    relative_acceleration = sub(
        sub(a.bias_acceleration.angular, b.bias_acceleration.angular), cross(b.velocity.angular, relative_velocity)
    )
    relative_velocity, relative_acceleration = (
        rotate_inverse(b.pose.rotation, x) for x in (relative_velocity, relative_acceleration)
    )
    bias = add(
        scale(0.5, add(scale(w, relative_acceleration), cross(relative_acceleration, v))),
        scale(-0.25 * dot(relative_velocity, relative_velocity), v),
    )
    rows = []
    for i, unit in enumerate(IDENTITY):
        torque = scale(0.5 * torque_scale, rotate(b.pose.rotation, add(scale(w, unit), cross(v, unit))))
        rows.append(EqualityRow(torque_scale * v[i], torque_scale * bias[i], ZERO, ZERO, ZERO, torque))
    return rows


def _perpendicular_axes_rows(a: FrameState, b: FrameState, axis_b: int, axes_a: Sequence[int]) -> list[EqualityRow]:
    """Return one row per listed axis of a that keeps the axis perpendicular to one axis of b (dot product 0)."""
    axis = b.axis_derivatives(axis_b)
    return [
        EqualityRow(
            dot(axis[0], axis_a[0]), _dot_second_derivative(axis, axis_a), ZERO, ZERO, ZERO, cross(axis_a[0], axis[0])
        )
        for axis_a in map(a.axis_derivatives, axes_a)
    ]


def _screw_rows(a: FrameState, b: FrameState, parameters: EqualityParameters) -> list[EqualityRow]:
    """Return the row of a screw: rotation about a's x axis times pitch equals b's displacement along the axis.

    The error is wrapped modulo one turn.
    """
    difference, axis, point = _position_difference(a, b), a.axis_derivatives(0), b.pose.position
    pitch, relative_velocity = parameters.pitch, sub(b.velocity.angular, a.velocity.angular)
    relative_rotation = matmul(transpose(a.pose.rotation), b.pose.rotation)
    travel = dot(axis[0], difference[0]) / pitch
    sin, cos = ir.sin(travel), ir.cos(travel)
    s, c = relative_rotation[2][1] - relative_rotation[1][2], relative_rotation[1][1] + relative_rotation[2][2]
    sine, cosine = sin * c + cos * s, cos * c - sin * s
    angle = angle_from_cos_sin(cosine, ir.absolute(sine))
    rotation_bias = dot(axis[1], relative_velocity) + dot(
        axis[0], sub(b.bias_acceleration.angular, a.bias_acceleration.angular)
    )
    error, bias = (
        pitch * ir.select(sine, 0.0, -angle, angle),
        _dot_second_derivative(axis, difference) + pitch * rotation_bias,
    )
    return [EqualityRow(error, bias, axis[0], point, point, scale(-pitch, axis[0]))]


MIN_DISTANCE = 1e-9
"""Lower bound of a distance as a denominator [m]."""


def _distance_row(a: FrameState, b: FrameState, parameters: EqualityParameters, sign: float) -> list[EqualityRow]:
    """Return the row of the distance of both origins minus `length`, times `sign`: +1 for a rod, -1 for a rope."""
    difference, velocity, bias = _position_difference(a, b)
    distance = ir.sqrt(dot(difference, difference))
    divisor = ir.maximum(distance, MIN_DISTANCE)
    direction = scale(1.0 / divisor, difference)
    speed = dot(direction, velocity)
    acceleration = dot(direction, bias) + (dot(velocity, velocity) - speed * speed) / divisor
    force, error = scale(sign, direction), sign * (distance - parameters.length)
    return [EqualityRow(error, sign * acceleration, force, a.pose.position, b.pose.position, ZERO)]


RowFunction = Callable[[FrameState, FrameState, EqualityParameters], list[EqualityRow]]
"""Function of both frame states and the parameters that returns the rows of a component."""
AXIS_NAMES = "xyz"


def _axis_components() -> dict[str, tuple[int, RowFunction]]:
    """Return the equality components of a single axis (line, plane, axis, cross) with row counts and functions."""
    components: dict[str, tuple[int, RowFunction]] = {}
    for k, name in enumerate(AXIS_NAMES):
        others = [i for i in range(3) if i != k]
        components[f"line {name}"] = (2, lambda a, b, _, others=others: _in_plane_rows(a, b, others))
        components[f"plane {name}"] = (1, lambda a, b, _, k=k: _in_plane_rows(a, b, [k]))
        components[f"axis {name}"] = (2, lambda a, b, _, k=k, others=others: _perpendicular_axes_rows(a, b, k, others))
        for j in range(k + 1, 3):
            components[f"cross {name}{AXIS_NAMES[j]}"] = (
                1,
                lambda a, b, _, k=k, j=j: _perpendicular_axes_rows(a, b, j, [k]),
            )
    return components


EQUALITY_COMPONENTS: dict[str, tuple[int, RowFunction]] = {
    "point": (3, _point_rows),
    "rotation": (3, _orientation_rows),
    "screw": (1, _screw_rows),
    "rod": (1, lambda a, b, parameters: _distance_row(a, b, parameters, 1.0)),
    "rope": (1, lambda a, b, parameters: _distance_row(a, b, parameters, -1.0)),
    **_axis_components(),
}
"""Number of rows and row function of each component. `line x` leaves b free to move along the x axis of a, `plane x`
free to move perpendicular to the axis, `axis x` free to rotate about it; `cross xy` keeps the x axis of a perpendicular
to the y axis of b. `rod` keeps the distance of both points, `rope` keeps it from exceeding its length."""


def is_rotational(component: str) -> bool:
    """Return whether a component constrains orientations instead of positions."""
    return component.partition(" ")[0] in ("rotation", "axis", "cross")


def equality_blocks(model: Model, nodes: list[FrameNode]) -> list[ConstraintBlock]:
    """Return one `ConstraintBlock` per equality constraint between links whose frames are all among `nodes`.

    The dofs of a constraint are those of both frames and of all their ancestors. Constraints between links that are
    rigidly connected are left out, as nothing can change their error.
    """
    info, frame_indices = model.equalities, {node.index for node in nodes}
    attachments = {equality: k for k, equality in enumerate(model.attachments.equality_idx.tolist())}
    blocks = []
    for i, components in enumerate(info.components):
        frame_pair = int(info.frame_a[i]), int(info.frame_b[i])
        frames = [frame for frame in frame_pair if frame != WORLD and frame not in model.kinematic_frames]
        # rows within one frame have a zero Jacobian, up to rounding
        if components and frame_pair[0] != frame_pair[1] and frames and frame_indices.issuperset(frames):
            invweights = [
                float(model.derived.equality_invweight[i, int(is_rotational(component))])
                for component in components
                for _ in range(EQUALITY_COMPONENTS[component][0])
            ]
            dofs = sorted(
                {
                    dof
                    for frame in frames
                    for ancestor in ancestor_frames(model, frame)
                    for dof in model.frame_dof_range(ancestor)
                }
            )
            solref_and_solimp = info.solref[i].tolist(), info.solimp[i].tolist()
            options: dict[str, Any] = {
                "element": (ElementKind.EQUALITY, i),
                "parameter_group": "equality",
                "equality_idx": i if info.breakable[i] else -1,
            }
            if i in attachments:
                options = {"element": (ElementKind.ATTACHMENT, attachments[i]), "attachment_idx": attachments[i]}
                options["parameter_group"] = "attachment"
            blocks.append(
                ConstraintBlock(
                    RowType.LIMIT if "rope" in components else RowType.EQUALITY,
                    dofs,
                    len(invweights),
                    invweights,
                    *solref_and_solimp,
                    has_bias_acceleration=True,
                    source={"equality": i},
                    **options,
                )
            )
    return blocks


EQUALITY = "equality"
"""Kind of the elements of `equality_constants`."""


def equality_constants(model: Model, equality: int) -> dict[str, list[float]]:
    """Constants of an equality constraint between links: poses of its frames on both links, pitch and torque scale."""
    info = model.equalities
    constants = {
        f"{quantity} {side}": getattr(info, f"{quantity}_{side}")[equality].ravel().tolist()
        for quantity in ("pos", "rot")
        for side in "ab"
    }
    return constants | {name: [float(getattr(info, name)[equality])] for name in ("torque_scale", "pitch")}


def fill_equalities(kinematic_state: KinematicState, rows: ConstraintRows) -> None:
    """Trace position errors, bias accelerations, wrenches and Jacobian of all equality constraints between links.

    A first loop evaluates the components of each constraint, a second one writes the Jacobian entries of each frame on
    the kinematic chains of both sides. The arrays `on a`, `on b`, `about` and `wrenches` are added to the arrays of
    each constraint.
    """
    ctx, local_poses, world_poses = kinematic_state.ctx, kinematic_state.local_poses, kinematic_state.world_poses
    blocks_and_equalities = [
        (i, int(cast("int", b.source["equality"]))) for i, b in enumerate(rows.blocks) if "equality" in b.source
    ]
    wrench_arrays = {
        i: {side: ctx.allocate(6 * rows.blocks[i].n_rows) for side in SIDES} | {"about": ctx.allocate(3)}
        for i, _ in blocks_and_equalities
    }
    for i, _ in blocks_and_equalities:
        rows.block_arrays[i] |= {
            "on a": wrench_arrays[i]["a "],
            "on b": wrench_arrays[i]["b "],
            "about": wrench_arrays[i]["about"],
        }
        if rows.blocks[i].equality_idx >= 0:
            rows.block_arrays[i]["wrenches"] = wrench_arrays[i]["b "]
    info, table = ctx.model.equalities, []
    for i, equality in blocks_and_equalities:
        bindings = {"a ": frame_ref(int(info.frame_a[equality])), "b ": frame_ref(int(info.frame_b[equality]))}
        constants = with_per_env_parameters(ctx, EQUALITY, equality, equality_constants(ctx.model, equality))
        offsets = {**rows.block_arrays[i], **wrench_arrays[i]}
        pose = ctx.element_arrays(ElementKind.EQUALITY, equality).get("equality_pose")
        if rows.blocks[i].attachment_idx >= 0:
            arrays = ctx.element_arrays(ElementKind.ATTACHMENT, rows.blocks[i].attachment_idx)
            pose = arrays["attachment_pose"]
            offsets |= {"point a": arrays["attachment_point"], "length": arrays["attachment_length"]}
        if pose is not None:
            offsets["pose b"] = pose
        specialization = tuple(info.components[equality]), rows.blocks[i].attachment_idx >= 0
        table.append(ctx.node_iteration(specialization, bindings, offsets, constants))
    ctx.for_each("equality constraints", table, lambda iteration: _write_equality(iteration, kinematic_state))
    jacobian_rows = [
        row for i, equality in blocks_and_equalities for row in _jacobian_rows(ctx, rows, i, equality, wrench_arrays[i])
    ]
    ctx.for_each(
        "Jacobian of equality constraints",
        jacobian_rows,
        lambda iteration: _write_jacobian_columns(ctx, iteration, local_poses, world_poses),
    )


def _write_equality(iteration: IterationContext, kinematic_state: KinematicState) -> None:
    """Write `position`, bias acceleration and the wrenches (6 per row: torque, force) of one equality constraint.

    Wrenches on a and b are about the origin of frame b, which is written to `about`.
    """
    a, b = (_frame_state(iteration, side, kinematic_state) for side in SIDES)
    components, is_attachment = iteration.specialization  # type: ignore[misc]
    length = iteration.read("length") if is_attachment else 0.0
    parameters = EqualityParameters(iteration.constant("torque_scale"), iteration.constant("pitch"), length)
    equality_rows = [row for component in components for row in EQUALITY_COMPONENTS[component][1](a, b, parameters)]
    reference = b.pose.position
    iteration.write("about", reference)
    iteration.write("position", [row.error for row in equality_rows])
    iteration.write("bias acceleration", [row.bias_acceleration for row in equality_rows])
    for r, row in enumerate(equality_rows):
        torques = [add(row.torque, cross(sub(point, reference), row.force)) for point in (row.point_a, row.point_b)]
        iteration.write("a ", [*torques[0], *row.force], 6 * r)
        iteration.write("b ", [-x for x in (*torques[1], *row.force)], 6 * r)


def _frame_state(iteration: IterationContext, side: str, kinematic_state: KinematicState) -> FrameState:
    """Return world pose, velocity and bias acceleration of one frame of an equality constraint: link frame plus offset.

    `side` is "a" or "b". The offset of frame b is read from `pose b` if it differs between environments, and the
    position of frame a in an attachment from `point a`.
    """
    name = side.strip()
    if iteration.has_array(f"pose {name}"):
        pose = iteration.read_array(f"pose {name}", 12)
        position, rotation = pose[:3], pose[3:]
    else:
        position, rotation = iteration.constants(f"pos {name}"), iteration.constants(f"rot {name}")
        position = iteration.read_array(f"point {name}", 3) if iteration.has_array(f"point {name}") else position
    ref = frame_ref(side)
    frame, velocity, bias_acceleration = (
        kinematic_state.world_poses[ref],
        kinematic_state.velocities[ref],
        kinematic_state.bias_accelerations[ref],
    )
    point = add(frame.position, rotate(frame.rotation, position))
    world_rotation = matmul(frame.rotation, [rotation[3 * i : 3 * i + 3] for i in range(3)])
    return FrameState(
        Pose(world_rotation, point),
        twist_at_point(frame, velocity, point),
        acceleration_at_point(frame, bias_acceleration, point),
    )


def _jacobian_rows(
    ctx: TraceContext, rows: ConstraintRows, block_index: int, equality: int, wrench_arrays: dict
) -> Iterator[LoopIteration]:
    """Yield one loop iteration per frame on the kinematic chain of each side, with the offsets of its Jacobian entries.

    A frame on both paths is visited twice; its second iteration (specialization `again`) adds to the entries.
    """
    visited: set[int] = set()
    block = rows.blocks[block_index]
    for side, frame in zip(
        SIDES, (int(ctx.model.equalities.frame_a[equality]), int(ctx.model.equalities.frame_b[equality])), strict=True
    ):
        for index in ancestor_frames(ctx.model, frame):
            node = ctx.tree.nodes[index]
            frame_iteration = ctx.frame_iteration(node)
            assert isinstance(frame_iteration.specialization, FrameSpecialization)
            specialization = (("", frame_iteration.specialization), ("rows", block.n_rows), ("again", index in visited))
            visited.add(index)
            columns = [(r, k, dof) for r in range(block.n_rows) for k, dof in enumerate(node.dofs)]
            entries = {f"entry {r} {k}": rows.jacobian_entry(block_index, r, dof) for r, k, dof in columns}
            offsets = {
                **frame_iteration.offsets,
                **entries,
                "wrenches": wrench_arrays[side],
                "about": wrench_arrays["about"],
            }
            yield ctx.node_iteration(specialization, frame_iteration.bindings, offsets, frame_iteration.constants)


def _write_jacobian_columns(
    ctx: TraceContext, iteration: IterationContext, local_poses: NodeValues[Pose], world_poses: NodeValues[Pose]
) -> None:
    """Write the Jacobian entries of one frame's dofs: power of each row's wrench in the motion of the dof."""
    options: dict[str, Any] = dict(iteration.specialization)  # type: ignore[call-overload]
    node = ctx.frame_of_iteration(iteration)
    about = iteration.read_array("about", 3)
    for k, twist in enumerate(motion_subspace(node, local_poses[node.ref])):
        motion = twist_at_point(world_poses[node.ref], twist, about)
        for r in range(options["rows"]):
            wrench = [iteration.read("wrenches", 6 * r + i) for i in range(6)]
            entry = power(motion, Wrench(wrench[:3], wrench[3:]))
            old = iteration.read(f"entry {r} {k}") if options["again"] else 0.0
            iteration.write(f"entry {r} {k}", [old + entry])


def write_equality_errors(ctx: TraceContext, rows: ConstraintRows) -> None:
    """Write the outputs `gap` and `turn`: norms of position and orientation errors of each equality constraint."""
    gap, turn = (ctx.array_offsets[ctx.output_prefix + name] for name in ("gap", "turn"))
    table = []
    for block, offsets in zip(rows.blocks, rows.block_arrays, strict=True):
        equality = int(block.source["equality"])  # type: ignore[call-overload]
        outputs = {
            "gap": ArenaOffset(gap.arena, gap.row + equality),
            "turn": ArenaOffset(turn.arena, turn.row + equality),
        }
        table.append(LoopIteration(tuple(ctx.model.equalities.components[equality]), {**offsets, **outputs}))

    def body(iteration: IterationContext) -> None:
        squares: dict[str, Value] = {"gap": 0.0, "turn": 0.0}
        errors = iter(
            iteration.read_array(
                "position", sum(EQUALITY_COMPONENTS[component][0] for component in iteration.specialization)
            )
        )  # type: ignore[attr-defined]
        for component in iteration.specialization:  # type: ignore[attr-defined]
            for _ in range(EQUALITY_COMPONENTS[component][0]):
                output, error = "turn" if is_rotational(component) else "gap", next(errors)
                squares[output] = squares[output] + error * error
        for output, square in squares.items():
            iteration.write(output, [ir.sqrt(square)])

    ctx.for_each("errors of equality constraints", table, body)


# ------------------------------------------------------------------------------------------------------------- breaking


def update_broken_joints(ctx: TraceContext, rows: ConstraintRows) -> None:
    """Set the flag `broken` of each breakable constraint whose force or torque exceeds its strength in this step.

    Considers equality constraints between links, and couplings and tendon limits that hold a breakable distance. Limits
    and drives of breakable joints are ignored, as they do not load the constraint itself.
    """
    info, table = ctx.model.equalities, []
    for block, offsets in zip(rows.blocks, rows.block_arrays, strict=True):
        if block.equality_idx < 0 or not (
            "wrenches" in offsets or "coupling" in block.source or "tendon limit" in block.source
        ):
            continue
        if "wrenches" not in offsets and info.components[block.equality_idx]:
            continue  # limits and drives along the free axes do not load the joint
        broken_flag = ctx.element_arrays(ElementKind.EQUALITY, block.equality_idx)["broken"]
        strength = [min(float(x[block.equality_idx]), UNBREAKABLE_FORCE) for x in (info.break_force, info.break_torque)]
        specialization = ("wrenches" if "wrenches" in offsets else "length", block.n_rows)
        table.append(LoopIteration(specialization, {**offsets, "broken": broken_flag}, {"strength": strength}))
    ctx.for_each("breaking joints", table, _write_broken)


def _write_broken(iteration: IterationContext) -> None:
    """Set `broken` to 1 if the norm of the total constraint force or torque exceeds its strength; never clear it."""
    load_type, n_rows = iteration.specialization  # type: ignore[misc]
    forces = iteration.read_array("force", n_rows)
    torque: Vector = [0.0, 0.0, 0.0]
    force: Vector = [forces[0], 0.0, 0.0]
    if load_type == "wrenches":
        force = [0.0, 0.0, 0.0]
        for r, magnitude in enumerate(forces):
            torque = add(torque, scale(magnitude, [iteration.read("wrenches", 6 * r + i) for i in range(3)]))
            force = add(force, scale(magnitude, [iteration.read("wrenches", 6 * r + 3 + i) for i in range(3)]))
    broken: Value = iteration.read("broken")
    for strength, load in zip(iteration.constants("strength"), (force, torque), strict=True):
        broken = ir.select(strength, ir.sqrt(dot(load, load)), 1.0, broken)
    iteration.write("broken", [broken])
