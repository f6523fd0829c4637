"""Transmission paths: segments whose total length is that of a spatial tendon, an actuator or a loop coordinate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from kinema.core import Array, Pose, reproducible_norm
from kinema.description import Cylinder, JointKind, Sphere, Tendon, TendonPathItem, TendonPathKind
from kinema.model import PathSegmentsInfo, PrimitiveJointType

from .context import AttachmentFrame, BuildContext, JointRecord, PathSegment, find_attachment_frame, find_shape

MAX_ENDS = 4
"""Attachment frames of a segment: start, end, wrapping geom, side site."""
MAX_PARAMS = 6
"""Parameters of a segment."""
N_LOADED_ENDS = 3
"""Number of attachment frames of a segment that bear load: all but the side site of a wrapping geom."""
WORLD_FRAME = AttachmentFrame(-1, Pose())


def add_path(ctx: BuildContext, segments: list[tuple[str, list[AttachmentFrame], float, tuple[float, ...]]]) -> int:
    """Add a transmission path of segments (type, attachment frames, scale, parameters); returns its index."""
    path_idx = 1 + max((segment.path_idx for segment in ctx.path_segments), default=-1)
    ctx.path_segments += [PathSegment(path_idx, *spec) for spec in segments]
    return path_idx


def path_dof_mask(ctx: BuildContext, path_idx: int) -> Array:
    """Mask of the dofs that change the length of a transmission path: ones and zeros, shape (n_dofs,)."""
    masks = [_segment_dof_mask(ctx, segment) for segment in ctx.path_segments if segment.path_idx == path_idx]
    return np.any(masks, axis=0).astype(np.float64) if masks else np.zeros(ctx.n_dofs)


def are_on_one_branch(ctx: BuildContext, ends: Sequence[AttachmentFrame]) -> bool:
    """Whether two attachment frames are on one branch of the tree: the dofs that move one also move the other."""
    first, second = (set(_dofs_moving_frame(ctx, end.frame_idx)) for end in ends)
    return first <= second or second <= first


def _segment_dof_mask(ctx: BuildContext, segment: PathSegment) -> npt.NDArray[np.bool_]:
    """Mask (n_dofs,) of the dofs that move some, but not all, of the loaded ends of a transmission path segment."""
    dofs_of_end = [set(_dofs_moving_frame(ctx, end.frame_idx)) for end in segment.ends[:N_LOADED_ENDS]]
    mask = np.zeros(ctx.n_dofs, np.bool_)
    mask[sorted(set.union(*dofs_of_end) - set.intersection(*dofs_of_end))] = True
    return mask


def _dofs_moving_frame(ctx: BuildContext, frame_idx: int) -> Iterator[int]:
    """Indices of the dofs that move a moving frame: of its joint and of its ancestors."""
    while frame_idx != -1 and ctx.frames[frame_idx][2] >= 0:
        parent, placed, joint_idx = ctx.frames[frame_idx]
        start = ctx.joints[joint_idx].dof_start + placed.primitive.dof_offset
        yield from range(start, start + (3 if placed.primitive.type is PrimitiveJointType.BALL else 1))
        frame_idx = parent


def pack_path_segments(ctx: BuildContext) -> PathSegmentsInfo:
    """Table of the segments of all transmission paths (spatial tendons, actuators, loop-joint coordinates).

    One row per segment: the path it belongs to, kind, frame and pose of each end, scale, parameters, and the mask of
    degrees of freedom that change its length. Missing ends are the world frame, missing parameters zero.
    """
    segments, n = ctx.path_segments, len(ctx.path_segments)
    ends = [[*segment.ends, *[WORLD_FRAME] * (MAX_ENDS - len(segment.ends))] for segment in segments]
    params = [[*segment.params, *[0.0] * (MAX_PARAMS - len(segment.params))] for segment in segments]
    return PathSegmentsInfo(
        path_idx=np.array([segment.path_idx for segment in segments], np.int32),
        kinds=[segment.kind for segment in segments],
        frame_idx=np.array([[frame.frame_idx for frame in frames] for frames in ends], np.int32).reshape(n, MAX_ENDS),
        pos=np.array([[frame.pose.position for frame in frames] for frames in ends], np.float64).reshape(
            n, MAX_ENDS, 3
        ),
        rot=np.array([[frame.pose.rotation for frame in frames] for frames in ends], np.float64).reshape(
            n, MAX_ENDS, 3, 3
        ),
        scale=np.array([segment.scale for segment in segments], np.float64),
        params=np.array(params, np.float64).reshape(n, MAX_PARAMS),
        dof_mask=np.array([_segment_dof_mask(ctx, segment) for segment in segments], np.bool_).reshape(n, ctx.n_dofs),
    )


# ----------------------------------------------------------------------------------------------------------- tendons


def tendon_path_idx(ctx: BuildContext, entity: int, tendon: Tendon) -> int | None:
    """Transmission path of a spatial tendon, created on first use; None for missing sites or unsupported geoms."""
    key = (entity, id(tendon))
    if key not in ctx.path_idx:
        segments = _tendon_segments(ctx, entity, tendon.path)
        if segments is None:
            return None
        ctx.path_idx[key] = add_path(ctx, segments)
    return ctx.path_idx[key]


def _tendon_segments(
    ctx: BuildContext, entity: int, path: list[TendonPathItem]
) -> list[tuple[str, list[AttachmentFrame], float, tuple[float, ...]]] | None:
    """Path segments of a spatial tendon, from its sites, wrapping geoms and pulleys.

    One segment per pair of consecutive sites, scaled by the inverse divisor of the preceding pulley. None if a site or
    geom is missing, or the path contains a joint.
    """
    result: list[tuple[str, list[AttachmentFrame], float, tuple[float, ...]]] = []
    previous_site: AttachmentFrame | None = None
    wrap_item: TendonPathItem | None = None
    scale = 1.0
    for item in path:
        match item.kind:
            case TendonPathKind.PULLEY:
                previous_site, wrap_item, scale = None, None, 1.0 / item.coefficient
            case TendonPathKind.WRAP:
                wrap_item = item
            case TendonPathKind.SITE:
                site = find_attachment_frame(ctx, entity, item.target)
                if site is None:
                    return None
                if previous_site is not None:
                    kind, wrap_frames, params = (
                        ("straight", [], ()) if wrap_item is None else _wrap_segment(ctx, entity, wrap_item)
                    )
                    if not kind:
                        return None
                    result.append((kind, [previous_site, site, *wrap_frames], scale, params))
                previous_site, wrap_item = site, None
            case TendonPathKind.JOINT:
                return None
    return result


def _wrap_segment(
    ctx: BuildContext, entity: int, item: TendonPathItem
) -> tuple[str, list[AttachmentFrame], tuple[float, ...]]:
    """Path segment of a tendon around a wrapping geom: kind, attachment frames of geom and side site, and parameters.

    The side is `inside` or `beside` if the side site is fixed relative to the geom, else `either`, decided at run time.
    An empty kind means an unsupported or missing geom or side site.
    """
    found, side_site = find_shape(ctx, entity, item.target), find_attachment_frame(ctx, entity, item.side)
    if found is None or (item.side and side_site is None) or not isinstance(found[1], Sphere | Cylinder):
        return "", [], ()
    (shape, geometry), radius = found, found[1].radius
    kind = "sphere" if isinstance(geometry, Sphere) else "cylinder"
    if side_site is None:
        return kind, [shape], (radius,)
    side = "either"  # may change at run time, unless geom and side site move together
    if side_site.frame_idx == shape.frame_idx:
        distance = reproducible_norm(side_site.pose.position - shape.pose.position)
        side = "inside" if distance < radius else "beside"
    return f"{kind} {side}", [shape, side_site], (radius,)


# --------------------------------------------------------------------------------------------------------- actuators


def joint_path_idx(ctx: BuildContext, joint: JointRecord, gear: tuple[float, ...], *, in_parent: bool) -> int | None:
    """Index of a new transmission path of an actuator that acts on a ball or free joint; None for a reversed ball.

    A ball has one rotation segment: `pose_child_axes` (gear in axes of the child frame), or `pose` (axes of the parent
    frame) if `in_parent`. A free joint has a `wrench` segment for the force (parent axes) and a `wrench_child_axes`
    segment for the torque (child axes), or one `wrench` segment for both if `in_parent`. `gear` holds three values for
    a ball, six for a free joint.
    """
    joint_frames = [
        i for i, (_, _, joint_idx) in enumerate(ctx.frames) if joint_idx >= 0 and ctx.joints[joint_idx] is joint
    ]
    first, last = ctx.frames[joint_frames[0]], ctx.frames[joint_frames[-1]]
    if last[1].primitive.inverted:
        return None
    ends = [AttachmentFrame(joint_frames[-1], Pose()), AttachmentFrame(first[0], first[1].pose)]
    if joint.description.kind is not JointKind.FREE:
        return add_path(ctx, [("pose" if in_parent else "pose_child_axes", ends, 1.0, (0.0, 0.0, 0.0, *gear[:3]))])
    if in_parent:
        return add_path(ctx, [("wrench", ends, 1.0, gear)])
    linear_gear, angular_gear = (*gear[:3], 0.0, 0.0, 0.0), (0.0, 0.0, 0.0, *gear[3:])
    return add_path(ctx, [("wrench", ends, 1.0, linear_gear), ("wrench_child_axes", ends, 1.0, angular_gear)])
