"""From joint prims to joints: kinds, limits, drives, what breaks them, and vendor settings."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from kinema.description import (
    Axis,
    AxisMotion,
    ConeLimit,
    Drive,
    DriveType,
    Joint,
    JointKind,
    rotation,
    spherical_axes,
    translation,
)
from kinema.words import physics

from . import pxr
from .joint_frames import AXES, JointTargetError, Side, Sides, read_sides
from .joint_states import settle
from .mimic import NEWTON_MIMIC
from .own_joints import restore_joint
from .schemas import instances
from .stage_index import StageIndex
from .units import DEGREE
from .vendor import apply_joint_settings

_KINDS = {
    physics.FIXED_JOINT: JointKind.FIXED,
    physics.REVOLUTE_JOINT: JointKind.REVOLUTE,
    physics.PRISMATIC_JOINT: JointKind.PRISMATIC,
    physics.SPHERICAL_JOINT: JointKind.SPHERICAL,
    physics.DISTANCE_JOINT: JointKind.DISTANCE,
    physics.SIX_AXIS_JOINT: JointKind.SIX_AXIS,
}
_SPECIAL_AXIS = (JointKind.REVOLUTE, JointKind.PRISMATIC, JointKind.SPHERICAL)


def read_joints(index: StageIndex, names: Mapping[str, str]) -> list[tuple[pxr.Prim, Joint]]:
    """Every joint with its prim, but for those that lead nowhere: they are errors.

    Args:
        index: the stage.
        names: what joints are called, by the paths of their prims.
    """
    mains = [_main_axis(index, prim) for prim in index.joints]
    result: list[tuple[pxr.Prim, Joint]] = []
    for prim, main, sides in zip(
        index.joints, mains, read_sides(index, list(zip(index.joints, mains, strict=True))), strict=True
    ):
        joint = _joint(index, prim, names[index.values.facts(prim).path], main, sides)
        if joint is not None:
            result.append((prim, joint))
    return result


def _joint(
    index: StageIndex, prim: pxr.Prim, name: str, main: int | None, sides: Sides | JointTargetError
) -> Joint | None:
    if isinstance(sides, JointTargetError):
        hint = "point physics:body0 and physics:body1 at bodies; leave one empty for the world"
        message = f"joint {name!r} is left out: {sides}"
        index.diagnostics.error("usd.joint-target", message, hint=hint, origin=index.origin(prim))
        return None
    first, second, gap = sides
    if not _connects(index, prim, name, first, second):
        return None
    kind = _kind(index, prim)
    joint = Joint(
        name=name,
        origin=index.origin(prim),
        kind=kind,
        parent=None if first.body is None else first.body.name,
        child=None if second.body is None else second.body.name,
        parent_pose=first.frame,
        child_pose=second.frame,
        axes=_axes(index, prim, kind, main or 0),
        enabled=index.value(prim, physics.JOINT_ENABLED) is not False,
        collision_enabled=_may_collide(index, prim, first, second),
        closes_loop=bool(index.value(prim, physics.EXCLUDE_FROM_ARTICULATION)),
        break_force=_scaled(index.value(prim, physics.BREAK_FORCE), index.units.force, math.inf),
        break_torque=_scaled(index.value(prim, physics.BREAK_TORQUE), index.units.torque, math.inf),
    )
    if kind is JointKind.SPHERICAL:
        joint.cone = _cone(index, prim, main or 0)
    elif kind is JointKind.DISTANCE:
        joint.distance = _distance(index, prim)
    elif kind is JointKind.SIX_AXIS:
        joint.distance = _distance_limit(index, prim)
    elif kind is JointKind.REVOLUTE and joint.axes[0].state == "free":
        joint.kind = JointKind.CONTINUOUS
    _drives(index, prim, joint, kind, main or 0)
    _complain_of_limits(index, prim, joint, kind)
    apply_joint_settings(index, prim, joint, {*NEWTON_MIMIC})
    settle(index, prim, joint, restore_joint(index, prim, joint, gap))
    return joint


def _kind(index: StageIndex, prim: pxr.Prim) -> JointKind:
    return _KINDS.get(index.values.facts(prim).kind.type, JointKind.SIX_AXIS)


def _main_axis(index: StageIndex, prim: pxr.Prim) -> int | None:
    """Which axis of its frame the joint moves about or along; None for kinds that have no such axis."""
    if _kind(index, prim) not in _SPECIAL_AXIS:
        return None
    token = str(index.value(prim, physics.AXIS) or "X")
    if token not in AXES:
        index.diagnostics.error(
            "usd.bad-axis", f"joint {prim.GetName()!r} has the axis {token!r}; X is assumed", origin=index.origin(prim)
        )
    return AXES.get(token, 0)


def _connects(index: StageIndex, prim: pxr.Prim, name: str, first: Side, second: Side) -> bool:
    """Whether the joint is between two different things that can move against each other."""
    if first.body is not second.body:
        return True
    where = "the world" if first.body is None else f"body {first.body.name!r}"
    index.diagnostics.error(
        "usd.joint-to-itself",
        f"joint {name!r} is left out: both of its sides are on {where}",
        hint="one side at least must be on an enabled rigid body, and not both on the same",
        origin=index.origin(prim),
    )
    return False


def _may_collide(index: StageIndex, prim: pxr.Prim, first: Side, second: Side) -> bool | None:
    """Whether the two sides may touch; what hangs on the world may touch it whatever the joint says.

    Where the world's side is a static collider, `filters` keeps the two apart.
    """
    if index.value(prim, physics.COLLISION_ENABLED):
        return True
    return None if first.body is None or second.body is None else False


def _axes(index: StageIndex, prim: pxr.Prim, kind: JointKind, main: int) -> list[Axis]:
    direction = np.eye(3)[main]
    if kind is JointKind.REVOLUTE:
        return [_limited(index, prim, rotation(direction), DEGREE)]
    if kind is JointKind.PRISMATIC:
        return [_limited(index, prim, translation(direction), index.units.length)]
    if kind is JointKind.SPHERICAL:
        return spherical_axes()
    if kind is JointKind.SIX_AXIS:
        return [_six_axis(index, prim, i, token) for i, token in enumerate(physics.SIX)]
    return []


def _limited(index: StageIndex, prim: pxr.Prim, axis: Axis, unit: float) -> Axis:
    """The axis of a revolute or prismatic joint with its limits; locked where the lower is above the upper one."""
    axis.lower = _scaled(index.value(prim, physics.LOWER_LIMIT), unit, -math.inf)
    axis.upper = _scaled(index.value(prim, physics.UPPER_LIMIT), unit, math.inf)
    if axis.lower > axis.upper:
        index.diagnostics.warning(
            "usd.limits-lock",
            f"the lower limit of joint {prim.GetName()!r} is above its upper one, which locks it",
            hint="swap the limits, or make it a fixed joint",
            origin=index.origin(prim),
        )
        axis.locked, axis.lower, axis.upper = True, -math.inf, math.inf
    return axis


def _six_axis(index: StageIndex, prim: pxr.Prim, number: int, token: str) -> Axis:
    """One axis of the general joint: free without limits, locked where low is above high."""
    turns = number >= 3
    axis = (rotation if turns else translation)(np.eye(3)[number % 3])
    if physics.limit_api(token) in index.schemas(prim):
        low, high = _range(index, prim, token, DEGREE if turns else index.units.length)
        if low > high or low == high == 0.0:
            axis.locked = True
        else:
            axis.lower, axis.upper = low, high
    return axis


def _range(index: StageIndex, prim: pxr.Prim, token: str, unit: float) -> tuple[float, float]:
    """What a limit schema says."""
    low = _scaled(index.value(prim, physics.limit(token, physics.LOW)), unit, -math.inf)
    return low, _scaled(index.value(prim, physics.limit(token, physics.HIGH)), unit, math.inf)


def _distance_limit(index: StageIndex, prim: pxr.Prim) -> tuple[float, float]:
    """How far the frames of a general joint may be apart; low above high locks them together."""
    if physics.limit_api(physics.DISTANCE) not in index.schemas(prim):
        return 0.0, math.inf
    low, high = _range(index, prim, physics.DISTANCE, index.units.length)
    return (0.0, 0.0) if low > high else (max(low, 0.0), high)


def _complain_of_limits(index: StageIndex, prim: pxr.Prim, joint: Joint, kind: JointKind) -> None:
    """Say which limit schemas the joint has no axis for."""
    known = {*physics.SIX, physics.DISTANCE} if kind is JointKind.SIX_AXIS else set[str]()
    for token in instances(index.schemas(prim), physics.LIMIT_API):
        if token not in known:
            _say_no_axis(index, prim, joint, physics.limit_api(token))


def _drives(index: StageIndex, prim: pxr.Prim, joint: Joint, kind: JointKind, main: int) -> None:
    """Put the stage's drives on the axes they are for."""
    number_of: dict[str, int] = {}
    if kind is JointKind.SIX_AXIS:
        number_of = {token: i for i, token in enumerate(physics.SIX)}
    elif kind is JointKind.SPHERICAL:
        number_of = {token: i for i, token in enumerate(physics.SIX[3:])}
    elif kind is JointKind.REVOLUTE:
        number_of = {physics.SIX[3 + main]: 0, physics.ANGULAR: 0}
    elif kind is JointKind.PRISMATIC:
        number_of = {physics.SIX[main]: 0, physics.LINEAR: 0}
    tokens = instances(index.schemas(prim), physics.DRIVE_API)
    for token in tokens:
        if token not in number_of:
            _say_no_axis(index, prim, joint, physics.drive_api(token))
    for token, number in number_of.items():  # the predefined joints' own names come last, and win
        if token in tokens:
            joint.axes[number].drive = _drive(index, prim, joint.axes[number], token)


def _say_no_axis(index: StageIndex, prim: pxr.Prim, joint: Joint, schema: str) -> None:
    index.diagnostics.warning(
        "usd.no-such-axis",
        f"{schema} on joint {joint.name!r} is ignored: its type has no axis of that name",
        hint="limits and drives are for transX to rotZ of a PhysicsJoint (limits for its distance too);"
        " drives also for `angular` of a revolute and `linear` of a prismatic joint",
        origin=index.origin(prim),
    )


def _drive(index: StageIndex, prim: pxr.Prim, axis: Axis, token: str) -> Drive:
    """What a drive schema says."""

    def get(name: str) -> Any:
        return index.value(prim, physics.drive(token, name))

    units = index.units
    turns = axis.motion is AxisMotion.ROTATION
    coordinate = DEGREE if turns else units.length
    kind = DriveType.ACCELERATION if str(get(physics.TYPE)) == DriveType.ACCELERATION.value else DriveType.FORCE
    force = units.torque if turns else units.force
    # a gain is force, or acceleration in rad/s2 and lengths/s2, per unit of the coordinate (a degree, a length)
    acceleration = 1.0 if turns else units.length
    gain = (force if kind is DriveType.FORCE else acceleration) / coordinate
    return Drive(
        stiffness=_scaled(get(physics.STIFFNESS), gain, 0.0),
        damping=_scaled(get(physics.DAMPING), gain, 0.0),
        target_position=_scaled(get(physics.TARGET_POSITION), coordinate, 0.0),
        target_velocity=_scaled(get(physics.TARGET_VELOCITY), coordinate, 0.0),
        max_force=_scaled(get(physics.MAX_FORCE), force, math.inf),
        type=kind,
    )


def _cone(index: StageIndex, prim: pxr.Prim, main: int) -> ConeLimit | None:
    """The cone of a spherical joint; a negative angle is no limit."""
    first, second = (index.value(prim, name) for name in physics.CONE_ANGLES)
    angles = [math.inf if a is None or a < 0 else float(a) * DEGREE for a in (first, second)]
    if all(math.isinf(a) for a in angles):
        return None
    return ConeLimit(angle_y=angles[0], angle_z=angles[1], axis=main)


def _distance(index: StageIndex, prim: pxr.Prim) -> tuple[float, float]:
    """Least and greatest distance; a negative one is no limit."""
    low, high = (index.value(prim, name) for name in (physics.MIN_DISTANCE, physics.MAX_DISTANCE))
    unit = index.units.length
    return (
        0.0 if low is None or low < 0 else float(low) * unit,
        math.inf if high is None or high < 0 else float(high) * unit,
    )


def _scaled(value: Any, unit: float, fallback: float) -> float:
    return fallback if value is None else float(value) * unit
