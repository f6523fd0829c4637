"""The joints of a build123d assembly, in the terms of a snapshot.

`a.connect_to(b)` moves the part of `b`, so that the part of `a` is the parent. How the two then move is not worked out
from the joints' fields but measured: `relative_to` says where build123d puts the child for other values. (It turns
about another axis than the declared one where a revolute joint has an angle reference and its axis is not z.)
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kinema.description import AxisMotion
from kinema.foundation import Array, Diagnostics, Pose, axis_angle_to_matrix

from .elements import JointElement, MotionElement, ProbeElement
from .schema import FORMAT, MOTIONS
from .solids import MM, Part, pose_of

_STEP = {AxisMotion.ROTATION: 0.5, AxisMotion.TRANSLATION: 0.1}
"""How far a joint is driven to find its axis [rad or m]."""
_MOVED = 1e-6
"""How far [m or rad] a part may be from where its joint puts it."""
_ANY = (-math.inf, math.inf)
_TURN = math.radians(1.0)


@dataclass(frozen=True, slots=True)
class _Setting:
    """One motion of a joint as build123d has it: degrees or millimetres."""

    keyword: str
    value: float
    range: tuple[float, float]


@dataclass(slots=True, eq=False)
class _Connection:
    """Two joints that are connected, the parent's first."""

    caller: Any
    other: Any
    parent: Part
    child: Part
    type: str = "rigid"
    settings: dict[str, _Setting] = field(default_factory=dict)

    @property
    def moving(self) -> Any:
        """The one of the two that lets something move."""
        return self.other if type(self.caller).__name__ == "RigidJoint" else self.caller

    @property
    def is_turned_around(self) -> bool:
        """Whether the moving joint belongs to the child."""
        return self.moving is self.other and self.type != "rigid"

    def measured(self, values: Mapping[str, float]) -> Pose:
        """Pose of the child in the parent at these values [rad or m], as build123d says it."""
        caller, other = copy.copy(self.caller), copy.copy(self.other)  # `relative_to` notes the values it was given
        for joint in (caller, other):
            joint.angular_range = joint.linear_range = _ANY
        given = {self.settings[name].keyword: value / self.unit(name) for name, value in values.items()}
        return pose_of(caller.relative_to(other, **given))

    def unit(self, motion: str) -> float:
        """Radians or metres in build123d's unit."""
        return _TURN if MOTIONS[self.type][motion] is AxisMotion.ROTATION else MM

    def values(self) -> dict[str, float]:
        """Where the joint stands [rad or m]."""
        return {name: setting.value * self.unit(name) for name, setting in self.settings.items()}


def joint_elements(parts: Sequence[Part], diagnostics: Diagnostics) -> list[JointElement]:
    """The joints between the parts."""
    part_of = {id(part.shape): part for part in parts}
    elements = []
    for part in parts:
        for joint in getattr(part.shape, "joints", {}).values():  # lines and faces have none
            other = joint.connected_to
            if other is None:
                continue
            child = part_of.get(id(other.parent))
            if child is None:
                message = f'joint "{joint.label}" of "{part.occurrence.name}" leads to a part outside the assembly'
                hint = "add that part to the assembly, or connect the copy that is in it"
                diagnostics.warning(f"{FORMAT}.joint-outside-assembly", message, hint=hint)
                continue
            elements.append(_element(_Connection(joint, other, part, child), diagnostics))
    return elements


def _element(connection: _Connection, diagnostics: Diagnostics) -> JointElement:
    _classify(connection, diagnostics)
    parent, child = connection.parent.occurrence, connection.child.occurrence
    joint = connection.moving if connection.type != "rigid" else connection.caller
    element = JointElement(name=joint.label, type=connection.type, context=parent.path, one=child.path, two=parent.path)
    at = parent.pose @ pose_of(connection.parent.shape.location).inverse() @ pose_of(connection.caller.location)
    element.frame1 = at
    if connection.type == "ball":
        _add_ball(element, connection, at)
    elif connection.type != "rigid":
        _add_measured(element, connection, at)
    return element


def _classify(connection: _Connection, diagnostics: Diagnostics) -> None:
    """Find the joint's type and the settings of its motions."""
    moving = connection.moving
    kind = type(moving).__name__
    if kind == "RevoluteJoint":
        connection.type = "revolute"
        connection.settings = {"rotation": _Setting("angle", moving._angle or 0.0, moving.angular_range)}
    elif kind == "LinearJoint":
        connection.type = "slider"
        connection.settings = {"slide": _Setting("position", moving.position or 0.0, moving.linear_range)}
        if type(connection.other).__name__ == "RevoluteJoint":
            connection.type = "pin_slot"
            turned = _Setting("angle", moving.angle or 0.0, connection.other.angular_range)
            connection.settings["rotation"] = turned
    elif kind == "CylindricalJoint":
        connection.type = "cylindrical"
        connection.settings = {
            "rotation": _Setting("angle", moving.angle or 0.0, moving.angular_range),
            "slide": _Setting("position", moving.position or 0.0, moving.linear_range),
        }
    elif kind == "BallJoint":
        connection.type = "ball"
    elif kind != "RigidJoint":
        message = f'joint "{moving.label}" is a {kind}, which is not known; it is fixed'
        diagnostics.warning(f"{FORMAT}.unknown-joint-type", message)
        return
    if connection.type != "ball":
        _check_unmoved(connection, diagnostics)


def _check_unmoved(connection: _Connection, diagnostics: Diagnostics) -> None:
    """Warn where a part is no longer where its joint put it; where it is counts."""
    parent, child = connection.parent.occurrence, connection.child.occurrence
    off = max((parent.pose @ connection.measured(connection.values())).distance(child.pose))
    if off > _MOVED:
        message = (
            f'"{child.name}" was moved by {off:.3g} (m or rad) since joint "{connection.caller.label}" put it there'
        )
        hint = "connect the parts from the base outwards, then do not move them one by one"
        diagnostics.warning(f"{FORMAT}.moved-since-connected", message, hint=hint)


def _add_measured(element: JointElement, connection: _Connection, at: Pose) -> None:
    """Find the axes of the motions by driving them one by one."""
    values, parent = connection.values(), connection.parent.occurrence.pose
    start = connection.measured(values)
    for name, setting in connection.settings.items():
        motion = MOTIONS[connection.type][name]
        step = _STEP[motion]
        moved = parent @ connection.measured({**values, name: values[name] + step}) @ start.inverse() @ parent.inverse()
        if motion is AxisMotion.ROTATION:
            axis, at = _turned(moved, at)
        else:
            axis = moved.position / np.linalg.norm(moved.position)
        lower, upper = _limits(setting.range, connection.unit(name))
        element.motions[name] = MotionElement(axis=axis, value=values[name], lower=lower, upper=upper)
    element.frame1 = at
    driven = {name: value - 0.3 * _STEP[MOTIONS[connection.type][name]] for name, value in values.items()}
    here = parent @ start
    shown = connection.child.occurrence.pose
    if max(here.distance(shown)) <= _MOVED:
        pose = parent @ connection.measured(driven)
        element.probes.append(ProbeElement(values=driven, pose1=pose, pose2=parent))


def _turned(moved: Pose, at: Pose) -> tuple[Array, Pose]:
    """The axis of a rotation by `_STEP`, and the frame moved onto it the shortest way."""
    turn = moved.rotation
    axis = np.array([turn[2, 1] - turn[1, 2], turn[0, 2] - turn[2, 0], turn[1, 0] - turn[0, 1]])
    axis /= np.linalg.norm(axis)
    stays = np.eye(3) - turn
    point = at.position + np.linalg.pinv(stays, rcond=1e-6) @ (moved.position - stays @ at.position)
    return axis, Pose(point, at.rotation)


def _limits(bounds: tuple[float, float], unit: float) -> tuple[float | None, float | None]:
    """Limits in SI units; none where they span a full turn, build123d's default, or are infinite."""
    lower, upper = (float(b) * unit for b in bounds)
    if unit == _TURN and upper - lower >= 2 * math.pi - 1e-9:
        return None, None
    return lower if math.isfinite(lower) else None, upper if math.isfinite(upper) else None


def _add_ball(element: JointElement, connection: _Connection, at: Pose) -> None:
    """Three rotations about x, y and z of the ball's frame, each carried along by those before it.

    build123d does not note the angles. Seen from the child they are undone in the opposite order.
    """
    on_parent, on_child = (pose_of(j.relative_location) for j in (connection.caller, connection.other))
    parent, child = connection.parent.occurrence.pose, connection.child.occurrence.pose
    turn = ((parent @ on_parent).inverse() @ child @ on_child).rotation
    around = connection.is_turned_around
    angles = _intrinsic_angles(turn.T if around else turn)
    ranges = connection.moving.angular_range
    order = (2, 1, 0) if around else (0, 1, 2)
    for name, i in zip(MOTIONS["ball"], order, strict=True):
        axis = at.rotation[:, i] * (-1.0 if around else 1.0)
        lower, upper = _limits(ranges[i], _TURN)
        element.motions[name] = MotionElement(axis=axis, value=angles[i], lower=lower, upper=upper)


def _intrinsic_angles(turn: Array) -> tuple[float, float, float]:
    """Angles about x, then the new y, then the new z; about x none where x and z have become parallel."""
    x, y, _ = np.eye(3)
    aside = math.hypot(turn[0, 0], turn[0, 1])
    second = math.atan2(turn[0, 2], aside)
    first = math.atan2(-turn[1, 2], turn[2, 2]) if aside > 1e-9 else 0.0
    rest = axis_angle_to_matrix(y, -second) @ axis_angle_to_matrix(x, -first) @ turn
    return first, second, math.atan2(rest[1, 0], rest[0, 0])
