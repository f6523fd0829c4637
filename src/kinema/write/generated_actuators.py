"""Generated actuators and joint drives for descriptions of formats without actuators (URDF).

The joints named by a `<transmission>` or `<ros2_control>` block are actuated; if no joint is named, the joints with an
effort limit are. The gains follow from the limits of the joint:

- effort: the control is a force or torque, limited to the effort limit.
- velocity: full effort at a velocity error equal to the velocity limit.
- position: full effort at a position error of a tenth of the joint range; damping = stiffness times 0.05 s.
"""

from __future__ import annotations

import copy
import math
import re

from kinema.description import Actuator, Axis, AxisMotion, Drive, Joint, Robot, Transmission, World
from kinema.tokens import urdf

from .loss_report import Action, Loss, LossReport

_MOTOR_TAGS = ("transmission", "ros2_control")
_JOINT_NAME = re.compile(r"""<joint\b[^<>]*?\sname\s*=\s*["']([^"']+)["']""")
_REDUCTION = re.compile(r"<mechanicalReduction>\s*([^<\s]+)\s*</mechanicalReduction>")
_DEFAULT_RANGE = {AxisMotion.ROTATION: 2 * math.pi, AxisMotion.TRANSLATION: 1.0}
"""Assumed range of joints without limits [rad or m]."""
_DEFAULT_EFFORT = 100.0
"""Assumed effort limit of joints without one [N m or N]."""
_RANGE_FRACTION, _DAMPING_TIME = 0.1, 0.05


def add_actuators(description: Robot | World, mode: str, report: LossReport) -> Robot | World:
    """Copy of a description with an actuator or drive for every actuated joint that has neither.

    Args:
        description: the robot or world.
        mode: `effort` adds actuators; `position` and `velocity` add drives with gains from the joint limits.
        report: receives the generated gains as approximations.
    """
    if isinstance(description, Robot):
        return _add_robot_actuators(description, mode, report)
    world = copy.copy(description)
    driven = {a.target for a in description.actuators}
    world.robots = [_add_robot_actuators(robot, mode, report, driven) for robot in description.robots]
    return world


def _add_robot_actuators(robot: Robot, mode: str, report: LossReport, driven_joints: set[str] | None = None) -> Robot:
    """Copy of a robot with generated actuators or drives; joints with several axes, mimics or drives are unchanged."""
    result = copy.copy(robot)
    gears = _motor_gear_ratios(robot)
    has = {a.target for a in robot.actuators} | (driven_joints or set())
    result.joints, result.actuators = [], list(robot.actuators)
    for joint in robot.joints:
        axis = joint.axes[0] if len(joint.axes) == 1 else None
        wanted = joint.name in gears if gears else axis is not None and math.isfinite(axis.effort) and axis.effort > 0
        free = axis is not None and axis.mimic is None and axis.drive is None and not axis.locked
        if axis is None or not wanted or not free or joint.name in has:
            result.joints.append(joint)
        elif mode == "effort":
            result.joints.append(joint)
            result.actuators.append(_effort_actuator(joint, axis, gears.get(joint.name, 1.0)))
        else:
            result.joints.append(_joint_with_drive(joint, axis, mode, report))
    return result


def _motor_gear_ratios(robot: Robot) -> dict[str, float]:
    """Gear ratios of the joints named in `<transmission>` and `<ros2_control>` blocks, by joint name; default 1."""
    found: dict[str, float] = {}
    nodes = [robot, *robot.joints]
    for extra in (e for node in nodes for e in node.extras if e.format == urdf.FORMAT and e.tag in _MOTOR_TAGS):
        match = _REDUCTION.search(extra.text)
        gear = _parse_gear_ratio(match[1]) if match and extra.tag == "transmission" else 1.0
        found |= dict.fromkeys(_JOINT_NAME.findall(extra.text), gear)
    known = {joint.name for joint in robot.joints}
    return {name: gear for name, gear in found.items() if name in known}


def _parse_gear_ratio(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        return 1.0
    return value if math.isfinite(value) and value != 0.0 else 1.0


def _effort_actuator(joint: Joint, axis: Axis, gear: float) -> Actuator:
    """Actuator that applies its control as joint force, limited to effort limit / |gear ratio|."""
    strength = axis.effort / abs(gear)
    return Actuator(
        name=joint.name,
        origin=joint.origin,
        transmission=Transmission.JOINT,
        target=joint.name,
        gear=(gear, 0.0, 0.0, 0.0, 0.0, 0.0),
        control_range=(-strength, strength),
    )


def _joint_with_drive(joint: Joint, axis: Axis, mode: str, report: LossReport) -> Joint:
    """Copy of a joint with a position or velocity drive whose gains follow from the joint limits; reports the gains."""
    effort = axis.effort if math.isfinite(axis.effort) and axis.effort > 0 else _DEFAULT_EFFORT
    if mode == "velocity":
        speed = axis.velocity if math.isfinite(axis.velocity) and axis.velocity > 0 else 1.0
        drive = Drive(damping=effort / speed, max_force=axis.effort)
    else:
        reach = axis.upper - axis.lower
        stiffness = effort / (
            _RANGE_FRACTION * (reach if math.isfinite(reach) and reach > 0 else _DEFAULT_RANGE[axis.motion])
        )
        drive = Drive(stiffness=stiffness, damping=stiffness * _DAMPING_TIME, max_force=axis.effort)
    made = copy.copy(joint)
    made.axes = [copy.copy(axis)]
    made.axes[0].drive = drive
    how = f"its file has none: {drive.stiffness:.4g} and {drive.damping:.4g}, from its limits"
    report.add(Loss(Action.APPROXIMATED, "joint", joint.name, "the gains of its drive", how, joint.origin))
    return made
