"""Lengths and moment arms of transmission paths: straight and wrapped segments, slider-cranks, poses, loop joints.

The length of a path is the sum of its segments between points on frames. The moment arm of a dof is the power of the
unit-force wrenches on the ends of the segments in the motion of that dof.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from kinema import ir
from kinema.ir import SCRATCH, ArenaOffset, IterationContext, LoopIteration, Tracer, Value
from kinema.model import Model

from ..extensions import look_up
from ..rigid.kinematics import Pose, ball_angle_limit, ball_cone_limit, motion_subspace, twist_at_point
from ..rigid.rnea import Wrench, power
from ..topology import ancestor_frames, dynamic_frames
from ..tree.kinematic_tree import WORLD, frame_ref
from ..tree.loop_context import LoopContext
from ..tree.node_constants import FrameSpecialization, with_per_env_parameters
from ..tree.node_values import NodeValues
from ..tree.trace_context import TraceContext
from ..tree.transmissions import PathLengths
from ..vector_math import (
    IDENTITY,
    ZERO,
    Matrix,
    Vector,
    add,
    cross,
    dot,
    matmul,
    matrix_to_quaternion,
    quaternion_to_rotation_vector,
    rotate,
    rotate_inverse,
    scale,
    sub,
    transpose,
)
from .tendon_wrapping import angle_from_cos_sin, wrap_path

# ----------------------------------------------------------------------------------- coordinates of loop-closing joints
#
# Displacement or rotation of the joint frame on the child (first end) relative to that on the parent (second end). The
# unit-force load on the parent is opposite to that on the child.

MIN_AXIS_INDEPENDENCE = 0.05
"""Lower bound of the determinant of two rotation axes: where they nearly coincide, the torques would be unbounded."""
MIN_AXIS_LENGTH = 1e-9
AXIS_LETTERS = "xyz"
CoordinateAndLoad = tuple[Value, Vector, Vector]
"""A coordinate, and the force and torque on the child at its origin, in world axes, for unit generalized force."""


def loop_joint_coordinate(ends: Sequence[Pose], parameters: Sequence[Value], kind: str) -> CoordinateAndLoad:
    """Coordinate of a loop-closing joint, and its gradient: force and torque on the child at unit generalised force.

    Args:
        ends: world poses of the joint frames on child and parent.
        parameters: parameters of the segment (slide axis and offset, cone angles, or the middle of an angle's range).
        kind: "slide", "hinge <axis>", "first <axes>" or "second <axes>" (universal joint), "euler <axis>",
            "cone <axis>" or "cone all" (limits of a ball joint).
    """
    family, _, suffix = kind.partition(" ")
    child, parent = ends[0], ends[1]
    if family == "slide":
        axis = rotate(parent.rotation, parameters[:3])
        return parameters[3] + dot(axis, sub(child.position, parent.position)), axis, (0.0, 0.0, 0.0)
    relative = matmul(transpose(parent.rotation), child.rotation)
    if family == "cone":
        distance, gradient_axis = (
            ball_angle_limit(matrix_to_quaternion(relative), parameters[0])
            if suffix == "all"
            else ball_cone_limit(relative, parameters[:2], int(suffix))
        )
        return distance, (0.0, 0.0, 0.0), rotate(child.rotation, gradient_axis)
    sine, cosine, torque = {
        "hinge": _hinge_angle,
        "first": _universal_parent_angle,
        "second": _universal_child_angle,
        "euler": _euler_angle,
    }[family](parent.rotation, child.rotation, relative, [AXIS_LETTERS.index(x) for x in suffix])
    return _unwrap_angle(sine, cosine, parameters), (0.0, 0.0, 0.0), torque


def _unwrap_angle(sine: Value, cosine: Value, parameters: Sequence[Value]) -> Value:
    """Angle with the given sine and cosine that is closest to the middle of a range, given as (middle, cos, sin)."""
    middle, cos, sin = parameters[:3]
    relative_sine, relative_cosine = sine * cos - cosine * sin, cosine * cos + sine * sin
    angle = angle_from_cos_sin(relative_cosine, ir.absolute(relative_sine))
    return middle + ir.select(relative_sine, 0.0, -angle, angle)


def _matrix_column(rotation: Matrix, column: int) -> Vector:
    return [row[column] for row in rotation]


AngleAndTorque = tuple[Value, Value, Vector]
"""Sine and cosine of an angle, both scaled by any common factor, and the torque of unit power per angular velocity."""


def _hinge_angle(parent: Matrix, child: Matrix, relative: Matrix, axes: Sequence[int]) -> AngleAndTorque:
    """Rotation angle about the hinge axis (twist of a swing-twist decomposition), and its gradient (a torque).

    The angle is returned as sine and cosine up to a common factor, the torque on the child in world axes at unit
    generalised force. `axes` holds the index of the hinge axis.
    """
    (k,) = axes
    i, j = (k + 1) % 3, (k + 2) % 3
    trace_ = relative[0][0] + relative[1][1] + relative[2][2]
    skew = [relative[2][1] - relative[1][2], relative[0][2] - relative[2][0], relative[1][0] - relative[0][1]]
    symmetric = [relative[k][n] + relative[n][k] for n in range(3)]
    symmetric[k] = 1.0 + 2.0 * relative[k][k] - trace_
    numerator = add(scale(1.0 + trace_, IDENTITY[k]), cross(skew, IDENTITY[k]), symmetric)
    torque = scale(1.0 / ir.maximum(2.0 + 2.0 * relative[k][k], MIN_AXIS_INDEPENDENCE), numerator)
    return skew[k], relative[i][i] + relative[j][j], rotate(parent, torque)


def _remaining_axis(axes: Sequence[int]) -> tuple[int, int, int, float]:
    i, j = axes
    return i, j, 3 - i - j, 1.0 if (j - i) % 3 == 1 else -1.0


def _decoupled_torque(axis: Vector, other_axis: Vector) -> Vector:
    """Torque with unit power about `axis` and none about `other_axis`."""
    cosine = dot(axis, other_axis)
    return scale(1.0 / ir.maximum(1.0 - cosine * cosine, MIN_AXIS_INDEPENDENCE), sub(axis, scale(cosine, other_axis)))


def _universal_parent_angle(parent: Matrix, child: Matrix, relative: Matrix, axes: Sequence[int]) -> AngleAndTorque:
    """Angle of a universal joint about its parent-side axis."""
    i, j, k, sign = _remaining_axis(axes)
    return sign * relative[k][j], relative[j][j], _decoupled_torque(_matrix_column(parent, i), _matrix_column(child, j))


def _universal_child_angle(parent: Matrix, child: Matrix, relative: Matrix, axes: Sequence[int]) -> AngleAndTorque:
    """Angle of a universal joint about its child-side axis."""
    i, j, k, sign = _remaining_axis(axes)
    return sign * relative[i][k], relative[i][i], _decoupled_torque(_matrix_column(child, j), _matrix_column(parent, i))


def _euler_angle(parent: Matrix, child: Matrix, relative: Matrix, axes: Sequence[int]) -> AngleAndTorque:
    """One of the intrinsic Euler angles (x, y, z) of child relative to parent, and a torque that changes no other.

    The angle is returned as sine and cosine up to a common factor, the torque in world axes at unit generalised force.
    `axes` holds the index of the angle.
    """
    x, z = _matrix_column(parent, 0), _matrix_column(child, 2)
    normal = cross(z, x)
    norm = ir.sqrt(dot(normal, normal))
    divisor = ir.maximum(norm, MIN_AXIS_INDEPENDENCE)
    y = scale(1.0 / ir.maximum(norm, MIN_AXIS_LENGTH), normal)
    if axes[0] == 0:
        return -relative[1][2], relative[2][2], scale(1.0 / divisor, cross(y, z))
    if axes[0] == 1:
        return relative[0][2], norm, y
    return -relative[0][1], relative[0][0], scale(1.0 / divisor, cross(x, y))


LOOP_COORDINATES = (
    "slide",
    "cone all",
    *(f"cone {i}" for i in range(3)),
    *(f"{word} {x}" for word in ("hinge", "euler") for x in AXIS_LETTERS),
    *(f"{word} {x}" for word in ("first", "second") for x in ("xy", "xz", "yz")),
)
"""All segment kinds that are coordinates of loop-closing joints."""


# ------------------------------------------------------------------------------------------- transmission path segments

MIN_SEGMENT_LENGTH = 1e-15


@dataclass(frozen=True, slots=True)
class EndLoad:
    """Load on an end of a segment in world axes: (force, point) pairs and a torque."""

    forces: Sequence[tuple[Vector, Vector]]
    torque: Vector = ZERO


@dataclass(frozen=True, slots=True)
class MeasuredSegment:
    """Length of a segment, and the loads on its ends for unit force that increases the length."""

    length: Value
    end_loads: Sequence[EndLoad]


def _direction_and_length(v: Vector) -> tuple[Vector, Value]:
    size = ir.sqrt(dot(v, v))
    return scale(1.0 / ir.maximum(size, MIN_SEGMENT_LENGTH), v), size


def _straight_segment(ends: Sequence[Pose], parameters: Sequence[Value], kind: str, tracer: Tracer) -> MeasuredSegment:
    """Straight segment between two points."""
    a, b = ends[0].position, ends[1].position
    along, size = _direction_and_length(sub(b, a))
    return MeasuredSegment(size, [EndLoad([(scale(-1.0, along), a)]), EndLoad([(along, b)])])


def _wrapped_segment(ends: Sequence[Pose], parameters: Sequence[Value], kind: str, tracer: Tracer) -> MeasuredSegment:
    """Tendon segment that wraps around a sphere or cylinder, or runs straight where it does not touch the geom.

    Ends are the two points, the geom and optionally the side site. Returns the length and the forces on ends and geom
    at unit tension.
    """
    a, b, geom, radius = ends[0].position, ends[1].position, ends[2], parameters[0]
    local_points = [rotate_inverse(geom.rotation, sub(p.position, geom.position)) for p in (*ends[:2], *ends[3:])]
    wrapped = wrap_path(
        kind, local_points[0], local_points[1], radius, local_points[2] if len(local_points) > 2 else None, tracer
    )
    first, last = (add(geom.position, rotate(geom.rotation, p)) for p in (wrapped.start_point, wrapped.end_point))
    (start_direction, start_length), (end_direction, end_length), (straight_direction, straight_length) = (
        _direction_and_length(sub(first, a)),
        _direction_and_length(sub(b, last)),
        _direction_and_length(sub(b, a)),
    )

    def if_wrapped(x: Value, y: Value) -> Value:
        return ir.select(0.5, wrapped.wraps, x, y)

    at_start = [if_wrapped(x, y) for x, y in zip(start_direction, straight_direction, strict=True)]
    at_end = [if_wrapped(x, y) for x, y in zip(end_direction, straight_direction, strict=True)]
    geom_forces = [
        ([if_wrapped(x, 0.0) for x in start_direction], first),
        ([if_wrapped(-x, 0.0) for x in end_direction], last),
    ]
    length = if_wrapped(start_length + wrapped.length + end_length, straight_length)
    return MeasuredSegment(
        length, [EndLoad([(scale(-1.0, at_start), a)]), EndLoad([(at_end, b)]), EndLoad(geom_forces)]
    )


def _slider_crank_segment(
    ends: Sequence[Pose], parameters: Sequence[Value], kind: str, tracer: Tracer
) -> MeasuredSegment:
    """Position of a slider along its axis (z of the second end), connected to the crank pin (first end) by a rod.

    MuJoCo's slider-crank transmission; with the gradient of the position as unit-force loads on both ends. If the rod
    is too short to reach the axis, the pin is projected onto the axis.
    """
    crank, slider = ends[0].position, ends[1].position
    axis, offset, rod = [row[2] for row in ends[1].rotation], sub(crank, slider), parameters[0]
    along = dot(offset, axis)
    discriminant = along * along + rod * rod - dot(offset, offset)
    root = ir.sqrt(ir.maximum(discriminant, MIN_SEGMENT_LENGTH))
    inverse_root = ir.select(0.0, discriminant, 1.0 / root, 0.0)
    length = along - ir.select(0.0, discriminant, root, 0.0)
    axis_gradient = scale(1.0 - along * inverse_root, offset)
    point_gradient = add(scale(1.0 - along * inverse_root, axis), scale(inverse_root, offset))
    return MeasuredSegment(
        length,
        [
            EndLoad([(point_gradient, crank)]),
            EndLoad([(scale(-1.0, point_gradient), slider)], cross(axis, axis_gradient)),
        ],
    )


def _relative_pose_segment(
    ends: Sequence[Pose], parameters: Sequence[Value], kind: str, tracer: Tracer
) -> MeasuredSegment:
    """Relative pose of two frames projected on six coefficients, q = c . (position, rotation vector), or a pure wrench.

    Kinds `pose` and `pose_child_axes` have this length, in axes of the second frame; `wrench` and `wrench_child_axes`
    have length zero. The load at unit force on the first frame (and its opposite on the second, at its own origin) is
    the wrench with the coefficients as components, in axes of the second frame (`pose`, `wrench`) or of the first
    (`*_child_axes`).
    """
    first, second = ends[0], ends[1]
    axes = second.rotation if kind in ("pose", "wrench") else first.rotation
    force, torque = rotate(axes, parameters[:3]), rotate(axes, parameters[3:])
    length: Value = 0.0
    if kind in ("pose", "pose_child_axes"):
        position = rotate_inverse(second.rotation, sub(first.position, second.position))
        rotation = quaternion_to_rotation_vector(
            matrix_to_quaternion(matmul(transpose(second.rotation), first.rotation))
        )
        length = dot(position, parameters[:3]) + dot(rotation, parameters[3:])
    loads = [
        (f, end.position, t)
        for f, end, t in ((force, first, torque), (scale(-1.0, force), second, scale(-1.0, torque)))
    ]
    return MeasuredSegment(length, [EndLoad([(f, point)], t) for f, point, t in loads])


def _loop_joint_segment(
    ends: Sequence[Pose], parameters: Sequence[Value], kind: str, tracer: Tracer
) -> MeasuredSegment:
    """Coordinate of a loop-closing joint; its load acts on both frames at the origin of the child's joint frame."""
    point = ends[0].position
    length, force, torque = loop_joint_coordinate(ends, parameters, kind)
    reaction = EndLoad([(scale(-1.0, force), point)], scale(-1.0, torque))
    return MeasuredSegment(length, [EndLoad([(force, point)], torque), reaction])


SegmentFunction = Callable[[Sequence[Pose], Sequence[Value], str, Tracer], MeasuredSegment]
SEGMENT_KINDS: dict[str, tuple[int, SegmentFunction]] = {
    "straight": (2, _straight_segment),
    "crank": (2, _slider_crank_segment),
    **dict.fromkeys(("pose", "pose_child_axes", "wrench", "wrench_child_axes"), (2, _relative_pose_segment)),
    **dict.fromkeys(LOOP_COORDINATES, (2, _loop_joint_segment)),
    **dict.fromkeys(("sphere", "cylinder"), (3, _wrapped_segment)),
    **{f"{x} {side}": (4, _wrapped_segment) for x in ("sphere", "cylinder") for side in ("beside", "inside", "either")},
}
"""Number of ends and measuring function of every segment kind. A fourth end (the side site) carries no load."""


# ---------------------------------------------------------------------------------------------- lengths and moment arms

END_PREFIXES = ("a ", "b ", "c ", "side ")
N_LOADED_ENDS = 3


class HasPoses(Protocol):
    """A state with a tracing context and poses of frames."""

    ctx: TraceContext

    @property
    def local_poses(self) -> NodeValues[Pose]:
        """Poses of frames in their parents."""
        ...

    @property
    def world_poses(self) -> NodeValues[Pose]:
        """Poses of frames in the world."""
        ...

    @property
    def path_lengths(self) -> PathLengths:
        """Lengths and moment arms of transmission paths."""
        ...


def frames_of_path(model: Model, path: int) -> set[int]:
    """Indices of the moving frames that the segments of a transmission path are attached to."""
    frames = model.path_segments.frame_idx[model.path_segments.path_idx == path]
    return {*dynamic_frames(model, frames).ravel().tolist()} - {WORLD}


def paths_in_context(ctx: TraceContext) -> list[int]:
    """Indices of the transmission paths whose segments are attached only to frames of the context or to the world."""
    frames, paths = {node.index for node in ctx.nodes}, sorted(set(ctx.model.path_segments.path_idx.tolist()))
    return [path for path in paths if frames.issuperset(frames_of_path(ctx.model, path))]


def measure_path_lengths(step: HasPoses) -> PathLengths:
    """Trace lengths and moment arms of transmission paths (spatial tendons, actuators) and wrenches on segment ends.

    The length is the sum over the segments, the moment arm on a dof its derivative by the coordinate; wrenches are at
    unit tension.
    """
    ctx, info = step.ctx, step.ctx.model.path_segments
    paths = paths_in_context(ctx)
    lengths, moments = {}, {}
    for path in paths:
        dofs = np.flatnonzero(info.dof_mask[info.path_idx == path].any(axis=0)).tolist()
        lengths[path] = ctx.allocate(1)
        start = ctx.allocate(len(dofs)).row
        moments[path] = {dof: ArenaOffset(SCRATCH, start + k) for k, dof in enumerate(dofs)}
    if not paths:
        return PathLengths(lengths, moments)
    local_poses, world_poses = step.local_poses, step.world_poses
    offsets = [*lengths.values(), *(x for moment in moments.values() for x in moment.values())]
    ctx.for_each(
        "clear paths",
        [LoopIteration("value", {"value": x}) for x in offsets],
        lambda iteration: iteration.write("value", [0.0]),
    )
    segments = [i for i, path in enumerate(info.path_idx.tolist()) if path in lengths]
    wrenches = {
        i: {end: ctx.allocate(6) for end in END_PREFIXES[:N_LOADED_ENDS]} | {"about": ctx.allocate(3)} for i in segments
    }
    table = [_segment_iteration(ctx, i, {**wrenches[i], "length": lengths[int(info.path_idx[i])]}) for i in segments]
    ctx.for_each("path segments", table, lambda iteration: _measure_segment(iteration, world_poses))
    moment_rows = [
        row for i in segments for row in _moment_arm_iterations(ctx, i, moments[int(info.path_idx[i])], wrenches[i])
    ]
    ctx.for_each(
        "moment arms of paths",
        moment_rows,
        lambda iteration: _accumulate_moment(ctx, iteration, local_poses, world_poses),
    )
    return PathLengths(lengths, moments, wrenches)


PATH_SEGMENT = "path segment"
"""Kind of the elements of `segment_constants`."""


def segment_constants(model: Model, segment: int) -> dict[str, list[float]]:
    """Constants of a transmission path segment: poses of its ends in their frames, scale and parameters."""
    info = model.path_segments
    n_ends, _ = look_up(SEGMENT_KINDS, info.kinds[segment], "path segment (`SEGMENT_KINDS`)")
    constants = {f"pos {k}": info.pos[segment, k].tolist() for k in range(n_ends)}
    constants |= {f"rot {k}": info.rot[segment, k].ravel().tolist() for k in range(n_ends)}
    return constants | {"scale": [float(info.scale[segment])], "parameters": info.params[segment].tolist()}


def _segment_iteration(ctx: LoopContext, segment: int, iteration_offsets: dict[str, ArenaOffset]) -> LoopIteration:
    """Loop iteration of a transmission path segment: poses of its ends in their frames, scale and parameters."""
    info, kind = ctx.model.path_segments, ctx.model.path_segments.kinds[segment]
    n_ends, _ = look_up(SEGMENT_KINDS, kind, "path segment (`SEGMENT_KINDS`)")
    bindings = {END_PREFIXES[k]: frame_ref(int(info.frame_idx[segment, k])) for k in range(n_ends)}
    constants = with_per_env_parameters(ctx, PATH_SEGMENT, segment, segment_constants(ctx.model, segment))
    return ctx.node_iteration(kind, bindings, iteration_offsets, constants)


def _measure_segment(iteration: IterationContext, world_poses: NodeValues[Pose]) -> None:
    """Traced loop body: add the scaled length of a segment to its path; write the wrenches on its ends at unit force.

    The wrenches (torque, force) are in world axes about a common reference point, the position of the second end.
    """
    kind, factor = str(iteration.specialization), iteration.constant("scale")
    n_ends, measure = SEGMENT_KINDS[kind]
    ends = []
    for k in range(n_ends):
        frame, flat = world_poses[frame_ref(END_PREFIXES[k])], iteration.constants(f"rot {k}")
        axes = matmul(frame.rotation, [flat[3 * i : 3 * i + 3] for i in range(3)])
        ends.append(Pose(axes, add(frame.position, rotate(frame.rotation, iteration.constants(f"pos {k}")))))
    measured = measure(ends, iteration.constants("parameters"), kind, iteration.tracer)
    reference_point = ends[1].position
    iteration.write("about", reference_point)
    iteration.write("length", [iteration.read("length") + factor * measured.length])
    for prefix, end in zip(END_PREFIXES, measured.end_loads, strict=False):
        torque, force = end.torque, (0.0, 0.0, 0.0)
        for end_force, point in end.forces:
            torque, force = add(torque, cross(sub(point, reference_point), end_force)), add(force, end_force)
        iteration.write(prefix, scale(factor, [*torque, *force]))


def _moment_arm_iterations(
    ctx: TraceContext, segment: int, moment_offsets: dict[int, ArenaOffset], wrench_offsets: dict[str, ArenaOffset]
) -> Iterator[LoopIteration]:
    """Yield the loop iterations of a segment's moment arms: one per loaded end and ancestor frame of the end."""
    info = ctx.model.path_segments
    for k in range(min(N_LOADED_ENDS, SEGMENT_KINDS[info.kinds[segment]][0])):
        for frame in ancestor_frames(ctx.model, int(info.frame_idx[segment, k])):
            node = ctx.tree.nodes[frame]
            if info.dof_mask[segment, node.dofs.start]:
                frame_iteration = ctx.frame_iteration(node)
                assert isinstance(frame_iteration.specialization, FrameSpecialization)
                entries = {f"entry {i}": moment_offsets[dof] for i, dof in enumerate(node.dofs)}
                offsets = {
                    **frame_iteration.offsets,
                    **entries,
                    "wrench": wrench_offsets[END_PREFIXES[k]],
                    "about": wrench_offsets["about"],
                }
                yield ctx.node_iteration(
                    (("", frame_iteration.specialization),),
                    frame_iteration.bindings,
                    offsets,
                    frame_iteration.constants,
                )


def _accumulate_moment(
    ctx: TraceContext, iteration: IterationContext, local_poses: NodeValues[Pose], world_poses: NodeValues[Pose]
) -> None:
    """Loop body: add the power of an end's unit-force wrench in the motion of a frame's dofs to the moment arms."""
    node, reference_point = ctx.frame_of_iteration(iteration), iteration.read_array("about", 3)
    flat: Vector = iteration.read_array("wrench", 6)
    for k, twist in enumerate(motion_subspace(node, local_poses[node.ref])):
        moment_arm = power(twist_at_point(world_poses[node.ref], twist, reference_point), Wrench(flat[:3], flat[3:]))
        iteration.write(f"entry {k}", [iteration.read(f"entry {k}") + moment_arm])
