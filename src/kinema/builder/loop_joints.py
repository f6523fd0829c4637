"""Loop-closing joints: their equality constraints, and their free coordinates as transmission path lengths.

Both joint frames are rotated by the same alignment, so that the free axes are coordinate axes; the constrained
directions are then a list of components such as `point`, `line x`, `axis x`. Limits, springs, friction and drives of a
free coordinate are represented as tendons along a transmission path whose length is the coordinate.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from kinema.core import Array, Pose, reproducible_norm, reproducible_product, sine_cosine
from kinema.description import Axis, AxisMotion, DriveType, Joint, JointKind, Robot, Tendon

from .context import AttachmentFrame, BuildContext, LinkRecord
from .joints import axis_limits, limit_solver_parameters, limit_spring
from .paths import add_path, are_on_one_branch

AXIS_LETTERS = "xyz"
ALIGNMENT_TOLERANCE = 1e-9
"""Tolerance of the test whether a direction is a coordinate axis."""


@dataclass(frozen=True, slots=True, eq=False)
class LoopJoint:
    """A joint that closes a kinematic loop."""

    entity: int
    joint: Joint
    links: tuple[LinkRecord | None, LinkRecord | None]
    """Parent and child link; None for the world."""
    poses: tuple[Pose, Pose]
    """Aligned joint frames, relative to the parent and child link."""
    alignment: Pose
    """Rotation from the joint frame of the file to the aligned frame."""
    components: tuple[str, ...] | None
    """Constrained components (see `EqualitiesInfo.components`); None if they cannot be represented."""

    @property
    def pitch(self) -> float:
        """Pitch of a screw joint [m/rad]."""
        return self.joint.pitch / (2 * math.pi)


@dataclass(frozen=True, slots=True, eq=False)
class LoopTendon:
    """Limit, spring-damper, friction or drive along a coordinate of a loop joint, represented as a tendon."""

    tendon: Tendon
    path_idx: int
    """Transmission path whose length is the coordinate."""
    equality_idx: int = -1
    """Breakable equality that the tendon is disabled with; -1 for none."""
    target_vel: float = 0.0
    """Target velocity of a drive [m/s or rad/s]."""
    acceleration_drive: bool = False
    """Whether stiffness and damping are per unit of inertia."""
    limit_spring: tuple[float, float] = (0.0, 0.0)
    """Stiffness and damping of the limits given by the file; zeros for none."""


def loop_joints(ctx: BuildContext, entity: int) -> Iterator[LoopJoint]:
    """Enabled loop-closing joints of an entity, except free joints."""
    description = ctx.entities[entity].description
    for robot in [description] if isinstance(description, Robot) else description.robots:
        for joint in ctx.spanning_tree(robot).loops:
            if joint.kind is not JointKind.FREE and joint.enabled:
                yield _make_loop_joint(ctx, entity, joint)


def find_loop_joint(ctx: BuildContext, entity: int, name: str) -> LoopJoint | None:
    """Loop-closing joint of an entity by name; None if there is none."""
    return next((loop for loop in loop_joints(ctx, entity) if loop.joint.name == name), None)


def _make_loop_joint(ctx: BuildContext, entity: int, joint: Joint) -> LoopJoint:
    """Resolve a loop-closing joint: its links, its frames on both links, and the components that it constrains.

    The frames are rotated so that the free axes of the joint are coordinate axes.
    """
    alignment = Pose(rotation=_aligned_axes(joint))
    parent, child = (find_link(ctx, entity, name) for name in (joint.parent, joint.child))
    poses = [
        resolve_world_pose(ctx, entity, link, pose) @ alignment
        for link, pose in ((parent, joint.parent_pose), (child, joint.child_pose))
    ]
    return LoopJoint(
        entity,
        joint,
        (parent, child),
        (poses[0], poses[1]),
        alignment,
        _constraint_components(joint, alignment.rotation),
    )


def find_link(ctx: BuildContext, entity: int, name: str | None) -> LinkRecord | None:
    """Link record of an entity by name; None for the world."""
    return next(
        (link for link in ctx.links if link.entity == entity and name in (link.name, link.description.name)), None
    )


def resolve_world_pose(ctx: BuildContext, entity: int, link: LinkRecord | None, pose: Pose) -> Pose:
    """Pose of a constraint frame relative to its link; for the world (`link` None), as moved with the entity.

    Frames that a file attaches to the world move with the base pose at which its entity is added to the scene.
    """
    spec = ctx.entities[entity]
    if link is not None or spec.pose is None:
        return pose
    file_pose = spec.description.pose if isinstance(spec.description, Robot) else Pose()
    return spec.pose @ file_pose.inverse() @ pose


def attachment_frame(link: LinkRecord | None, pose: Pose) -> AttachmentFrame:
    """Attachment frame at `pose` relative to a link, or to the world for `link` None."""
    return AttachmentFrame(-1, pose) if link is None else AttachmentFrame(link.frame_idx, link.pose_in_frame @ pose)


# ----------------------------------------------------------------------------------------------- constrained components


def _free_directions(joint: Joint, motion: AxisMotion) -> list[Array]:
    return [np.asarray(a.direction, np.float64) for a in joint.moving_axes if a.motion is motion]


def _aligned_axes(joint: Joint) -> Array:
    """Rotation matrix whose x and y axes are the first two free axes of a loop-closing joint (y orthogonalised).

    Rotation axes come before translation axes; x is the normal of the plane for a planar joint without rotation.
    Identity for spherical and six-axis joints.
    """
    if joint.kind in (JointKind.SIX_AXIS, JointKind.SPHERICAL):
        return np.eye(3)
    rotations, translations = (
        _free_directions(joint, AxisMotion.ROTATION),
        _free_directions(joint, AxisMotion.TRANSLATION),
    )
    if len(translations) == 2 and not rotations:
        rotations = [np.cross(translations[0], translations[1])]
    first, *others = [*rotations, *translations, np.array([1.0, 0.0, 0.0])]
    main = first / reproducible_norm(first)
    others += [np.eye(3)[int(np.argmin(np.abs(main)))]]
    second = next(
        direction
        for direction in (candidate - (candidate * main).sum() * main for candidate in others)
        if reproducible_norm(direction) > ALIGNMENT_TOLERANCE
    )
    second /= reproducible_norm(second)
    return np.stack([main, second, np.cross(main, second)], axis=1)


def _axis_letters(directions: list[Array], alignment: Array) -> str | None:
    """Letters (`x`, `y`, `z`) of the aligned axes that directions are parallel to; None if one is parallel to none."""
    letters = ""
    for direction in directions:
        along = np.abs(reproducible_product(alignment.T, direction))
        if along.max() < 1.0 - ALIGNMENT_TOLERANCE:
            return None
        letters += AXIS_LETTERS[int(np.argmax(along))]
    return letters


def _constraint_components(joint: Joint, alignment: Array) -> tuple[str, ...] | None:
    """Components of position and orientation that a loop-closing joint constrains, as names with axis letters.

    Position: `point` (all), `line x` (all but x), `plane x` (only x); orientation: `rotation` (all), `axis x` (all but
    x), `cross xy` (axes x and y stay orthogonal); `screw` couples both. None if the joint cannot be represented.
    """
    if joint.kind is JointKind.SPHERICAL:
        return ("point",) if joint.n_dofs == 3 else None
    if joint.kind is JointKind.SCREW and joint.moving_axes and joint.pitch:
        return "line x", "axis x", "screw"
    if joint.kind is JointKind.DISTANCE:
        return ("point",) if max(joint.distance) == 0.0 else ()
    rotations, translations = (
        _axis_letters(_free_directions(joint, motion), alignment)
        for motion in (AxisMotion.ROTATION, AxisMotion.TRANSLATION)
    )
    if rotations is None or translations is None or max(map(len, (rotations, translations))) > 3:
        return None
    locked = "".join(letter for letter in AXIS_LETTERS if letter not in translations)
    position = {3: "point", 2: f"line {translations[:1]}", 1: f"plane {locked}", 0: ""}[len(locked)]
    if max(joint.distance) == 0.0:
        position = "point"
    orientation = {0: "rotation", 1: f"axis {rotations}", 2: f"cross {rotations}", 3: ""}[len(rotations)]
    return tuple(component for component in (position, orientation) if component)


# ----------------------------------------------------------------------------------------------------- free coordinates


def loop_tendons(ctx: BuildContext, entity: int) -> Iterator[LoopTendon]:
    """Tendons along the free coordinates of all loop joints of an entity.

    They hold limits, friction, springs, dampers, drives and distance limits, and refer to the equality of a breakable
    joint.
    """
    for loop in loop_joints(ctx, entity):
        equality_idx = ctx.breakable_equality_idx.get((entity, loop.joint.name), -1)
        for tendon in _tendons_of_loop(ctx, loop):
            yield replace(tendon, equality_idx=equality_idx)


def _tendons_of_loop(ctx: BuildContext, loop: LoopJoint) -> Iterator[LoopTendon]:
    """Tendons of one loop joint: of its unlocked axes, its cone limit and its distance limit."""
    for i, axis in enumerate(loop.joint.axes):
        if not axis.locked:
            yield from _axis_tendons(ctx, loop, i, axis)
    yield from _cone_limit(ctx, loop)
    yield from _distance_limit(ctx, loop)


def _axis_tendons(ctx: BuildContext, loop: LoopJoint, axis_idx: int, axis: Axis) -> Iterator[LoopTendon]:
    """Tendons that apply the passive forces, limits and drive along the coordinate of one axis of a loop-closing joint.

    Yields nothing if the axis has none. Warns of, and drops, rotation limits more than one turn apart, as the angle is
    only known modulo one turn.
    """
    joint, drive = loop.joint, axis.drive
    name = joint.name if len(joint.moving_axes) == 1 else f"{joint.name}[{axis_idx}]"
    is_spherical = joint.kind is JointKind.SPHERICAL
    limits = (-math.inf, math.inf) if is_spherical else axis_limits(joint, axis, ctx.diagnostics)
    limited = any(map(math.isfinite, limits))
    is_driven = drive is not None and bool(drive.stiffness or drive.damping)
    is_passive = limited or axis.stiffness or axis.damping or axis.friction or axis.armature
    if not (is_passive or is_driven):
        return
    path = axis_path_idx(ctx, loop, axis_idx)
    if path is None:
        return
    if limited and axis.motion is AxisMotion.ROTATION and axis.upper - axis.lower > 2 * math.pi and not joint.pitch:
        ctx.diagnostics.warning(
            "sim.loop-axis",
            f'the limits of joint "{joint.name}" are ignored: it closes a loop, where full turns are not counted, and '
            "they are more than one turn apart",
            origin=joint.origin,
        )
        limits = (-math.inf, math.inf)
    tendon = Tendon(
        name=name,
        lower=limits[0],
        upper=limits[1],
        stiffness=axis.stiffness,
        damping=axis.damping,
        friction=axis.friction,
        armature=_axis_armature(ctx, loop, axis_idx),
        spring_length=(axis.spring_reference, axis.spring_reference),
        limit_solver=limit_solver_parameters(joint, axis),
        friction_solver=axis.friction_solver,
        origin=joint.origin,
    )
    if is_passive:
        yield LoopTendon(tendon, path, limit_spring=limit_spring(joint, axis))
    if drive is not None and is_driven:
        max_force = min(drive.max_force, axis.effort)
        drive_tendon = Tendon(
            name=f"{name} drive",
            stiffness=drive.stiffness,
            damping=drive.damping,
            spring_length=(drive.target_position, drive.target_position),
            force_range=(-max_force, max_force),
            origin=joint.origin,
        )
        yield LoopTendon(
            drive_tendon,
            path,
            target_vel=drive.target_velocity,
            acceleration_drive=drive.type is DriveType.ACCELERATION,
        )


def _axis_armature(ctx: BuildContext, loop: LoopJoint, axis_idx: int) -> float:
    """Armature of an axis of a loop joint; 0, with a warning, if the joint-space inertia cannot represent it."""
    armature, reason = loop.joint.axes[axis_idx].armature, _unsupported_armature_reason(ctx, loop, axis_idx)
    if not armature or not reason:
        return armature
    ctx.diagnostics.warning(
        "sim.loop-axis",
        f'the armature of joint "{loop.joint.name}" is ignored: it closes a loop, and {reason}',
        origin=loop.joint.origin,
    )
    return 0.0


def _unsupported_armature_reason(ctx: BuildContext, loop: LoopJoint, axis_idx: int) -> str:
    """Reason why an axis of a loop joint cannot have armature; empty if it can.

    Armature needs a hinge or slide coordinate of an unbreakable joint whose links are on one branch of the tree.
    """
    if (_segment_kind(loop, axis_idx) or "").partition(" ")[0] not in ("hinge", "slide"):
        return "rotates about several axes"
    if loop.joint.kind is JointKind.SCREW and loop.joint.pitch:
        return "is a screw"
    if (loop.entity, loop.joint.name) in ctx.breakable_equality_idx:
        return "is breakable"
    ends = [attachment_frame(link, pose) for link, pose in zip(loop.links, loop.poses, strict=True)]
    return "" if are_on_one_branch(ctx, ends) else "connects two branches of the tree"


def axis_path_idx(ctx: BuildContext, loop: LoopJoint, axis_idx: int) -> int | None:
    """Index of the transmission path whose length is the coordinate of a loop joint axis; created on first use.

    None for a locked axis or a coordinate that cannot be represented.
    """
    axis = loop.joint.axes[axis_idx]
    kind = _segment_kind(loop, axis_idx)
    if axis.locked or kind is None:
        return None
    key = (loop.entity, id(axis))
    if key not in ctx.path_idx:
        scale, params = _segment_scale_and_params(loop, axis)
        (parent, child), poses = loop.links, loop.poses
        ends = [attachment_frame(child, poses[1]), attachment_frame(parent, poses[0])]
        ctx.path_idx[key] = add_path(ctx, [(kind, ends, scale, params)])
    return ctx.path_idx[key]


def _segment_kind(loop: LoopJoint, axis_idx: int) -> str | None:
    """Type of path segment whose length is the coordinate of one axis of a loop joint.

    `slide`, `pose_child_axes` (spherical), `hinge x`, `first xy` or `second xy` (universal), `euler x`; None if it
    cannot be represented.
    """
    joint, axis = loop.joint, loop.joint.axes[axis_idx]
    if loop.components is None:
        return None
    if axis.motion is AxisMotion.TRANSLATION or (joint.kind is JointKind.SCREW and joint.pitch):
        return "slide"
    if joint.kind is JointKind.SPHERICAL:
        return "pose_child_axes"
    rotation_axes = [
        rotation_axis for rotation_axis in joint.moving_axes if rotation_axis.motion is AxisMotion.ROTATION
    ]
    letters = _axis_letters([rotation_axis.direction for rotation_axis in rotation_axes], loop.alignment.rotation)
    if letters is None:
        return None
    i_rotation = next(k for k, rotation_axis in enumerate(rotation_axes) if rotation_axis is axis)
    return {
        1: f"hinge {letters}",
        2: f"{('first', 'second')[i_rotation % 2]} {letters}",
        3: f"euler {letters[i_rotation]}",
    }[len(rotation_axes)]


def _segment_scale_and_params(loop: LoopJoint, axis: Axis) -> tuple[float, tuple[float, ...]]:
    """Scale and parameters of the transmission path segment of one axis of a loop joint.

    A rotation is measured about the middle of its range (limits, spring or drive target), so that the wrap-around of
    the angle is far from it: parameters are the middle and its cosine and sine. Translations have direction and
    reference.
    """
    joint, direction = loop.joint, reproducible_product(loop.alignment.rotation.T, axis.direction)
    if joint.kind is JointKind.SPHERICAL:
        return 1.0, (0.0, 0.0, 0.0, *direction)
    if joint.kind is JointKind.SCREW and joint.pitch:
        return 1.0 / loop.pitch, (*direction, axis.reference * loop.pitch)
    if axis.motion is AxisMotion.TRANSLATION:
        return 1.0, (*direction, axis.reference)
    bounds = [bound for bound in (axis.lower, axis.upper) if math.isfinite(bound)] or [axis.spring_reference]
    if axis.drive is not None and not math.isfinite(axis.upper - axis.lower):
        bounds = [axis.drive.target_position]
    middle = sum(bounds) / len(bounds)
    sign = float(np.sign(direction[np.argmax(np.abs(direction))]))  # -1 for an axis opposite to a coordinate axis
    offset = sign * (middle - axis.reference)
    sine, cosine = sine_cosine(offset)
    return sign, (sign * middle, cosine, sine)


def _cone_limit(ctx: BuildContext, loop: LoopJoint) -> Iterator[LoopTendon]:
    """Limit of swing or total rotation of a spherical loop joint: a tendon of length >= 0, the distance to the cone."""
    cone, joint = loop.joint.cone, loop.joint
    if cone is None or joint.kind is not JointKind.SPHERICAL or loop.components is None:
        return
    kind = "cone all" if cone.total else f"cone {cone.axis}"
    ends = [attachment_frame(link, pose) for link, pose in zip(loop.links[::-1], loop.poses[::-1], strict=True)]
    path = add_path(ctx, [(kind, ends, 1.0, (cone.angle_y, cone.angle_z))])
    solver, spring = limit_solver_parameters(joint, joint.axes[0]), limit_spring(joint, joint.axes[0])
    tendon = Tendon(name=f"{joint.name} cone", lower=0.0, limit_solver=solver, origin=joint.origin)
    yield LoopTendon(tendon, path, limit_spring=spring)


def _distance_limit(ctx: BuildContext, loop: LoopJoint) -> Iterator[LoopTendon]:
    """Tendon that limits the distance between the frames of a distance or six-axis loop joint; none if unlimited."""
    joint, (min_distance, max_distance) = loop.joint, loop.joint.distance
    if (
        joint.kind not in (JointKind.DISTANCE, JointKind.SIX_AXIS)
        or min_distance == max_distance
        or (min_distance <= 0.0 and max_distance == math.inf)
    ):
        return
    path = distance_path_idx(ctx, loop)
    lower = min_distance if min_distance > 0.0 else -math.inf
    yield LoopTendon(Tendon(name=f"{joint.name} distance", lower=lower, upper=max_distance, origin=joint.origin), path)


def distance_path_idx(ctx: BuildContext, loop: LoopJoint) -> int:
    """New straight transmission path between the two frames of a loop joint; returns its index."""
    ends = [attachment_frame(link, pose) for link, pose in zip(loop.links, loop.poses, strict=True)]
    return add_path(ctx, [("straight", ends, 1.0, ())])
