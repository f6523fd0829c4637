"""Joints that close loops: what they hold of two links, and their coordinates as lengths that limits and drives act on.

Both frames of such a joint are turned alike, so that what it leaves free is along axes of theirs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from kinema.description import Axis, AxisMotion, DriveType, Joint, JointKind, Robot, Tendon
from kinema.foundation import Array, Pose

from .draft import Body, Draft, Spot
from .paths import is_in_branch, new_path
from .soft_limits import limit_softness, limit_spring, range_of

LETTERS = "xyz"
ALIGNED = 1e-9
"""How far an axis may be from those of its frame, and still be one of them."""


@dataclass(frozen=True, slots=True, eq=False)
class Loop:
    """A joint that closes a loop."""

    entity: int
    joint: Joint
    ends: tuple[Body | None, Body | None]
    """Parent and child."""
    poses: tuple[Pose, Pose]
    """Its frames there, turned."""
    turn: Pose
    """By how much."""
    parts: tuple[str, ...] | None
    """What it holds; None where that cannot be said."""

    @property
    def pitch(self) -> float:
        """Of a screw [m/rad]."""
        return self.joint.pitch / (2 * math.pi)


@dataclass(frozen=True, slots=True, eq=False)
class LoopLength:
    """Something that acts along a coordinate of such a joint: written as a tendon."""

    tendon: Tendon
    path: int
    holder: int = -1
    """The tie that it goes with when that breaks."""
    speed: float = 0.0
    """That a drive is to keep."""
    per_inertia: bool = False
    """Whether its gains are per unit of inertia."""
    spring: tuple[float, float] = (0.0, 0.0)
    """Of its limits, where a file gives one."""


def loops_of(draft: Draft, entity: int) -> Iterator[Loop]:
    """All of them in a part, but for those that hold nothing anyway."""
    description = draft.parts[entity].description
    for robot in [description] if isinstance(description, Robot) else description.robots:
        for joint in draft.tree(robot).loops:
            if joint.kind is not JointKind.FREE and joint.enabled:
                yield _loop(draft, entity, joint)


def find_loop(draft: Draft, entity: int, name: str) -> Loop | None:
    """The one of that name."""
    return next((loop for loop in loops_of(draft, entity) if loop.joint.name == name), None)


def _loop(draft: Draft, entity: int, joint: Joint) -> Loop:
    turn = Pose(rotation=_turned(joint))
    a, b = (find_end(draft, entity, name) for name in (joint.parent, joint.child))
    poses = [in_world(draft, entity, end, p) @ turn for end, p in ((a, joint.parent_pose), (b, joint.child_pose))]
    return Loop(entity, joint, (a, b), (poses[0], poses[1]), turn, _parts(joint, turn.rotation))


def find_end(draft: Draft, entity: int, name: str | None) -> Body | None:
    """The link of that name; None for the world."""
    return next((b for b in draft.bodies if b.entity == entity and name in (b.name, b.link.name)), None)


def in_world(draft: Draft, entity: int, end: Body | None, pose: Pose) -> Pose:
    """What is fixed in the world of a file stands where the file's things were put."""
    part = draft.parts[entity]
    if end is not None or part.pose is None:
        return pose
    own = part.description.pose if isinstance(part.description, Robot) else Pose()
    return part.pose @ own.inverse() @ pose


def spot_of(end: Body | None, pose: Pose) -> Spot:
    """A place on a link, or in the world."""
    return Spot(-1, pose) if end is None else Spot(end.frame, end.place @ pose)


# ------------------------------------------------------------------------------------------------------- what it holds


def _free(joint: Joint, motion: AxisMotion) -> list[Array]:
    return [np.asarray(a.direction, np.float64) for a in joint.moving_axes if a.motion is motion]


def _turned(joint: Joint) -> Array:
    """Axes of which the first is the one that matters most, and the second the next."""
    if joint.kind in (JointKind.SIX_AXIS, JointKind.SPHERICAL):
        return np.eye(3)
    turns, slides = _free(joint, AxisMotion.ROTATION), _free(joint, AxisMotion.TRANSLATION)
    if len(slides) == 2 and not turns:
        turns = [np.cross(slides[0], slides[1])]
    first, *others = [*turns, *slides, np.array([1.0, 0.0, 0.0])]
    main = first / np.linalg.norm(first)
    others += [np.eye(3)[int(np.argmin(np.abs(main)))]]
    side = next(x for x in (y - (y @ main) * main for y in others) if np.linalg.norm(x) > ALIGNED)
    side /= np.linalg.norm(side)
    return np.stack([main, side, np.cross(main, side)], axis=1)


def _letters(directions: list[Array], turn: Array) -> str | None:
    """The axes of a turned frame that directions are along; None where one is between them."""
    found = ""
    for direction in directions:
        along = np.abs(turn.T @ direction)
        if along.max() < 1.0 - ALIGNED:
            return None
        found += LETTERS[int(np.argmax(along))]
    return found


def _parts(joint: Joint, turn: Array) -> tuple[str, ...] | None:
    if joint.kind is JointKind.SPHERICAL:
        return ("point",) if joint.n_dofs == 3 else None
    if joint.kind is JointKind.SCREW and joint.moving_axes and joint.pitch:
        return "line x", "axis x", "screw"
    if joint.kind is JointKind.DISTANCE:
        return ("point",) if max(joint.distance) == 0.0 else ()
    turns, slides = (_letters(_free(joint, m), turn) for m in (AxisMotion.ROTATION, AxisMotion.TRANSLATION))
    if turns is None or slides is None or max(map(len, (turns, slides))) > 3:
        return None
    locked = "".join(x for x in LETTERS if x not in slides)
    place = {3: "point", 2: f"line {slides[:1]}", 1: f"plane {locked}", 0: ""}[len(locked)]
    if max(joint.distance) == 0.0:
        place = "point"
    axes = {0: "rotation", 1: f"axis {turns}", 2: f"cross {turns}", 3: ""}[len(turns)]
    return tuple(part for part in (place, axes) if part)


# ------------------------------------------------------------------------------------------------------ its coordinates


def loop_lengths(draft: Draft, entity: int) -> Iterator[LoopLength]:
    """What acts along the coordinates of all of them: limits, friction, springs and dampers, drives, distances."""
    for loop in loops_of(draft, entity):
        holder = draft.breakable.get((entity, loop.joint.name), -1)
        for length in _lengths(draft, loop):
            yield replace(length, holder=holder)


def _lengths(draft: Draft, loop: Loop) -> Iterator[LoopLength]:
    for i, axis in enumerate(loop.joint.axes):
        if not axis.locked:
            yield from _along_axis(draft, loop, i, axis)
    yield from _cone(draft, loop)
    yield from _distance(draft, loop)


def _along_axis(draft: Draft, loop: Loop, number: int, axis: Axis) -> Iterator[LoopLength]:
    joint, drive = loop.joint, axis.drive
    name = joint.name if len(joint.moving_axes) == 1 else f"{joint.name}[{number}]"
    turns = joint.kind is JointKind.SPHERICAL
    limits = (-math.inf, math.inf) if turns else range_of(joint, axis, draft.diagnostics)
    limited = any(map(math.isfinite, limits))
    driven = drive is not None and bool(drive.stiffness or drive.damping)
    acts = limited or axis.stiffness or axis.damping or axis.friction or axis.armature
    if not (acts or driven):
        return
    path = axis_path(draft, loop, number)
    if path is None:
        return
    if limited and axis.motion is AxisMotion.ROTATION and axis.upper - axis.lower > 2 * math.pi and not joint.pitch:
        draft.diagnostics.warning(
            "sim.loop-axis",
            f'the limits of joint "{joint.name}" are left out: it closes a loop, where turns are not counted, and they '
            "are more than a turn apart",
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
        armature=_armature(draft, loop, number),
        spring_length=(axis.spring_reference, axis.spring_reference),
        limit_solver=limit_softness(joint, axis),
        friction_solver=axis.friction_solver,
        origin=joint.origin,
    )
    if acts:
        yield LoopLength(tendon, path, spring=limit_spring(joint, axis))
    if drive is not None and driven:
        most = min(drive.max_force, axis.effort)
        made = Tendon(
            name=f"{name} drive",
            stiffness=drive.stiffness,
            damping=drive.damping,
            spring_length=(drive.target_position, drive.target_position),
            force_range=(-most, most),
            origin=joint.origin,
        )
        yield LoopLength(made, path, speed=drive.target_velocity, per_inertia=drive.type is DriveType.ACCELERATION)


def _armature(draft: Draft, loop: Loop, number: int) -> float:
    """What turns with an axis, where the inertia of the tree has a place for it."""
    armature, why = loop.joint.axes[number].armature, _without_armature(draft, loop, number)
    if not armature or not why:
        return armature
    draft.diagnostics.warning(
        "sim.loop-axis",
        f'the armature of joint "{loop.joint.name}" is left out: it closes a loop, and {why}',
        origin=loop.joint.origin,
    )
    return 0.0


def _without_armature(draft: Draft, loop: Loop, number: int) -> str:
    """Why an axis cannot have inertia of its own; nothing where it can."""
    if (_kind(loop, number) or "").partition(" ")[0] not in ("hinge", "slide"):
        return "turns about several axes"
    if loop.joint.kind is JointKind.SCREW and loop.joint.pitch:
        return "is a screw, along whose travel it would weigh too much"
    if (loop.entity, loop.joint.name) in draft.breakable:
        return "may break"
    ends = [spot_of(end, pose) for end, pose in zip(loop.ends, loop.poses, strict=True)]
    return "" if is_in_branch(draft, ends) else "is between two branches"


def axis_path(draft: Draft, loop: Loop, number: int) -> int | None:
    """The path whose length is a coordinate of a joint that closes a loop; None where it has no such coordinate."""
    axis = loop.joint.axes[number]
    kind = _kind(loop, number)
    if axis.locked or kind is None:
        return None
    key = (loop.entity, id(axis))
    if key not in draft.paths_of_tendons:
        factor, numbers = _numbers(loop, axis)
        (parent, child), poses = loop.ends, loop.poses
        spots = [spot_of(child, poses[1]), spot_of(parent, poses[0])]
        draft.paths_of_tendons[key] = new_path(draft, [(kind, spots, factor, numbers)])
    return draft.paths_of_tendons[key]


def _kind(loop: Loop, number: int) -> str | None:
    joint, axis = loop.joint, loop.joint.axes[number]
    if loop.parts is None:
        return None
    if axis.motion is AxisMotion.TRANSLATION or (joint.kind is JointKind.SCREW and joint.pitch):
        return "slide"
    if joint.kind is JointKind.SPHERICAL:
        return "turn"
    turning = [a for a in joint.moving_axes if a.motion is AxisMotion.ROTATION]
    letters = _letters([a.direction for a in turning], loop.turn.rotation)
    if letters is None:
        return None
    place = next(i for i, a in enumerate(turning) if a is axis)
    return {1: f"hinge {letters}", 2: f"{('first', 'second')[place % 2]} {letters}", 3: f"euler {letters[place]}"}[
        len(turning)
    ]


def _numbers(loop: Loop, axis: Axis) -> tuple[float, tuple[float, ...]]:
    """The factor of a coordinate's piece, and its numbers."""
    joint, direction = loop.joint, loop.turn.rotation.T @ axis.direction
    if joint.kind is JointKind.SPHERICAL:
        return 1.0, (0.0, 0.0, 0.0, *direction)
    if joint.kind is JointKind.SCREW and joint.pitch:
        return 1.0 / loop.pitch, (*direction, axis.reference * loop.pitch)
    if axis.motion is AxisMotion.TRANSLATION:
        return 1.0, (*direction, axis.reference)
    ends = [x for x in (axis.lower, axis.upper) if math.isfinite(x)] or [axis.spring_reference]
    if axis.drive is not None and not math.isfinite(axis.upper - axis.lower):
        ends = [axis.drive.target_position]
    middle = sum(ends) / len(ends)
    sign = float(np.sign(direction[np.argmax(np.abs(direction))]))  # about an axis that points the other way
    turned = sign * (middle - axis.reference)
    return sign, (sign * middle, math.cos(turned), math.sin(turned))


def _cone(draft: Draft, loop: Loop) -> Iterator[LoopLength]:
    cone, joint = loop.joint.cone, loop.joint
    if cone is None or joint.kind is not JointKind.SPHERICAL or loop.parts is None:
        return
    kind = "cone all" if cone.total else f"cone {cone.axis}"
    spots = [spot_of(end, pose) for end, pose in zip(loop.ends[::-1], loop.poses[::-1], strict=True)]
    path = new_path(draft, [(kind, spots, 1.0, (cone.angle_y, cone.angle_z))])
    solver, spring = limit_softness(joint, joint.axes[0]), limit_spring(joint, joint.axes[0])
    tendon = Tendon(name=f"{joint.name} cone", lower=0.0, limit_solver=solver, origin=joint.origin)
    yield LoopLength(tendon, path, spring=spring)


def _distance(draft: Draft, loop: Loop) -> Iterator[LoopLength]:
    """How far the frames of a distance joint, or of a six-axis one, may be apart."""
    joint, (least, most) = loop.joint, loop.joint.distance
    if (
        joint.kind not in (JointKind.DISTANCE, JointKind.SIX_AXIS)
        or least == most
        or (least <= 0.0 and most == math.inf)
    ):
        return
    path = straight_path(draft, loop)
    lower = least if least > 0.0 else -math.inf
    yield LoopLength(Tendon(name=f"{joint.name} distance", lower=lower, upper=most, origin=joint.origin), path)


def straight_path(draft: Draft, loop: Loop) -> int:
    """From one of its frames to the other."""
    ends = [spot_of(end, pose) for end, pose in zip(loop.ends, loop.poses, strict=True)]
    return new_path(draft, [("straight", ends, 1.0, ())])
