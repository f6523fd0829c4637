"""Actuators for robots whose format has none: URDF says in other words which joints have motors, and how strong.

Joints that a `<transmission>` or a `<ros2_control>` block names have motors; where no joint is named, those do that
have a limit of effort. A motor of a given effort gets gains by these rules:

- effort: the control is a force or torque, up to the limit.
- velocity: the full effort at an error of the joint's limit of velocity.
- position: the full effort at an error of a tenth of the joint's range, and damping for a twentieth of a second.
"""

from __future__ import annotations

import copy
import math
import re

from kinema.description import (
    Actuator,
    Axis,
    AxisMotion,
    Drive,
    Joint,
    Robot,
    Transmission,
    World,
)
from kinema.foundation import WriteError
from kinema.words import urdf

from .report import Action, Loss, LossReport

MODES = ("position", "velocity", "effort")
_BLOCKS = ("transmission", "ros2_control")
_NAMED = re.compile(r"""<joint\b[^<>]*?\sname\s*=\s*["']([^"']+)["']""")
_REDUCTION = re.compile(r"<mechanicalReduction>\s*([^<\s]+)\s*</mechanicalReduction>")
_REACH = {AxisMotion.ROTATION: 2 * math.pi, AxisMotion.TRANSLATION: 1.0}
"""The range that joints without limits are taken to have [rad or m]."""
_STRENGTH = 100.0
"""The effort of a joint that has no limit of it [N m or N]."""
_SHARE, _SECONDS = 0.1, 0.05


def with_actuators(described: Robot | World, mode: str, report: LossReport) -> Robot | World:
    """The description with an actuator or a drive for each joint that has a motor and nothing that drives it yet."""
    if mode not in MODES:
        raise WriteError(f"actuators are {mode!r}; they can be {', '.join(map(repr, MODES))}")
    if isinstance(described, Robot):
        return _equipped(described, mode, report)
    world = copy.copy(described)
    driven = {a.target for a in described.actuators}
    world.robots = [_equipped(robot, mode, report, driven) for robot in described.robots]
    return world


def _equipped(robot: Robot, mode: str, report: LossReport, driven: set[str] | None = None) -> Robot:
    result = copy.copy(robot)
    gears = _motors(robot)
    has = {a.target for a in robot.actuators} | (driven or set())
    result.joints, result.actuators = [], list(robot.actuators)
    for joint in robot.joints:
        axis = joint.axes[0] if len(joint.axes) == 1 else None
        wanted = joint.name in gears if gears else axis is not None and math.isfinite(axis.effort) and axis.effort > 0
        free = axis is not None and axis.mimic is None and axis.drive is None and not axis.locked
        if axis is None or not wanted or not free or joint.name in has:
            result.joints.append(joint)
        elif mode == "effort":
            result.joints.append(joint)
            result.actuators.append(_motor(joint, axis, gears.get(joint.name, 1.0)))
        else:
            result.joints.append(_driven(joint, axis, mode, report))
    return result


def _motors(robot: Robot) -> dict[str, float]:
    """The joints that the file says have motors, with their reductions."""
    found: dict[str, float] = {}
    nodes = [robot, *robot.joints]
    for extra in (e for node in nodes for e in node.extras if e.format == urdf.FORMAT and e.tag in _BLOCKS):
        match = _REDUCTION.search(extra.text)
        gear = _number(match[1]) if match and extra.tag == "transmission" else 1.0
        found |= dict.fromkeys(_NAMED.findall(extra.text), gear)
    known = {joint.name for joint in robot.joints}
    return {name: gear for name, gear in found.items() if name in known}


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        return 1.0
    return value if math.isfinite(value) and value != 0.0 else 1.0


def _motor(joint: Joint, axis: Axis, gear: float) -> Actuator:
    strength = axis.effort / abs(gear)
    return Actuator(
        name=joint.name,
        origin=joint.origin,
        transmission=Transmission.JOINT,
        target=joint.name,
        gear=(gear, 0.0, 0.0, 0.0, 0.0, 0.0),
        control_range=(-strength, strength),
    )


def _driven(joint: Joint, axis: Axis, mode: str, report: LossReport) -> Joint:
    effort = axis.effort if math.isfinite(axis.effort) and axis.effort > 0 else _STRENGTH
    if mode == "velocity":
        speed = axis.velocity if math.isfinite(axis.velocity) and axis.velocity > 0 else 1.0
        drive = Drive(damping=effort / speed, max_force=axis.effort)
    else:
        reach = axis.upper - axis.lower
        stiffness = effort / (_SHARE * (reach if math.isfinite(reach) and reach > 0 else _REACH[axis.motion]))
        drive = Drive(stiffness=stiffness, damping=stiffness * _SECONDS, max_force=axis.effort)
    made = copy.copy(joint)
    made.axes = [copy.copy(axis)]
    made.axes[0].drive = drive
    how = f"its file has none: {drive.stiffness:.4g} and {drive.damping:.4g}, from its limits"
    report.add(Loss(Action.APPROXIMATED, "joint", joint.name, "the gains of its drive", how, joint.origin))
    return made
