"""Converts SDFormat joints: frames, axes, limits, mimics; gearboxes become constraints."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kinema.core import Array, Diagnostics, Pose, reproducible_norm, reproducible_product
from kinema.description import (
    Axis,
    AxisMotion,
    Constraint,
    ConstraintKind,
    Extra,
    Joint,
    JointKind,
    Mimic,
    spherical_axes,
)
from kinema.tokens import sdf

from .convert_shape import to_attributes
from .elements import AxisElement, JointElement
from .frames import FrameGraph, Scope, SdfFrame

_JOINT_KINDS = {
    "revolute": JointKind.REVOLUTE,
    "continuous": JointKind.CONTINUOUS,
    "prismatic": JointKind.PRISMATIC,
    "fixed": JointKind.FIXED,
    "ball": JointKind.SPHERICAL,
    "universal": JointKind.UNIVERSAL,
    "revolute2": JointKind.UNIVERSAL,
    "screw": JointKind.SCREW,
}
_AXIS_COUNTS = {JointKind.FIXED: 0, JointKind.SPHERICAL: 0, JointKind.UNIVERSAL: 2}


@dataclass(frozen=True, slots=True, eq=False)
class JointEnd:
    """One end of a joint: link (None for the base of the robot) and joint frame on it."""

    link: str | None
    pose: Pose
    frame: SdfFrame | None


@dataclass(slots=True, eq=False)
class JointConverter:
    """Converts joint elements with resolved ends."""

    graph: FrameGraph
    diagnostics: Diagnostics

    def convert_joint(self, node: SdfFrame, name: str, parent: JointEnd, child: JointEnd) -> Joint:
        """Convert a joint with frames, axes, limits and initial position."""
        element = _joint_element(node)
        kind = _JOINT_KINDS[element.kind]
        joint = Joint(
            name=name,
            name_is_generated=element.name_is_generated,
            origin=element.origin,
            kind=kind,
            parent=parent.link,
            child=child.link,
            parent_pose=parent.pose,
            child_pose=child.pose,
            closes_loop=element.must_be_loop_joint,
            extras=element.extras[:],
            attributes=to_attributes(element.settings),
        )
        joint.attributes[sdf.attribute_key(sdf.TYPE)] = element.kind
        if kind is JointKind.SCREW:
            joint.pitch = element.pitch
        joint.axes = self._axes(node, element, kind)
        joint.initial = _initial_positions(element, joint)
        for tag, axis in zip(sdf.AXES, (element.axis, element.axis2), strict=True):
            if axis is not None:
                joint.attributes |= to_attributes(
                    {sdf.axis_key(tag, name): value for name, value in axis.settings.items()}
                )
        return joint

    def gearbox_constraint(
        self, node: SdfFrame, name: str, parent: JointEnd, child: JointEnd, reference: str | None
    ) -> Constraint:
        """Gear constraint of a gearbox, which couples the rotations of two links relative to a third."""
        element = _joint_element(node)
        first, second = (self._direction(node, a) for a in (element.axis, element.axis2))
        return Constraint(
            name=name,
            name_is_generated=element.name_is_generated,
            origin=element.origin,
            kind=ConstraintKind.GEAR,
            a=parent.link,
            b=child.link,
            pose_a=parent.pose,
            pose_b=child.pose,
            ratio=element.gearbox_ratio,
            reference=reference,
            gear_axis_a=reproducible_product(parent.pose.rotation, first),
            gear_axis_b=reproducible_product(child.pose.rotation, second),
            extras=[*element.extras, Extra(sdf.FORMAT, "joint", element.verbatim, element.origin)],
            attributes={**to_attributes(element.settings), sdf.attribute_key(sdf.TYPE): element.kind},
        )

    # -- axes -----------------------------------------------------------------------------------------------------

    def _axes(self, node: SdfFrame, element: JointElement, kind: JointKind) -> list[Axis]:
        """Axes of a joint of the given kind; missing and unused axes are reported."""
        n_axes = _AXIS_COUNTS.get(kind, 1)
        given = [element.axis, element.axis2]
        if kind is JointKind.SPHERICAL:
            return _ball_axes(element.axis)
        for tag, axis in zip(("axis", "axis2"), given, strict=True):
            needed = n_axes >= (1 if tag == "axis" else 2)
            if needed and axis is None:
                problem = f'{element.kind} joint "{element.name}" has no <{tag}>'
                self._report("warning", "missing-axis", problem, element, "0 0 1 without limits is assumed")
            elif not needed and axis is not None:
                problem = f'<{tag}> of the {element.kind} joint "{element.name}" has no meaning'
                self._report("note", "unused-axis", problem, element)
        return [self._axis(node, a or AxisElement(), kind) for a in given[:n_axes]]

    def _axis(self, node: SdfFrame, element: AxisElement, kind: JointKind) -> Axis:
        """Convert an axis with limits, spring, damping and friction."""
        motion = AxisMotion.TRANSLATION if kind is JointKind.PRISMATIC else AxisMotion.ROTATION
        axis = Axis(
            direction=self._direction(node, element),
            motion=motion,
            lower=element.lower,
            upper=element.upper,
            velocity=element.velocity,
            effort=element.effort,
            stiffness=element.spring_stiffness,
            spring_reference=element.spring_reference,
            damping=element.damping,
            friction=element.friction,
        )
        if kind is JointKind.CONTINUOUS:
            axis.lower, axis.upper = -math.inf, math.inf
        return axis

    def _direction(self, node: SdfFrame, element: AxisElement | None) -> Array:
        """Unit vector of an axis in the joint frame."""
        if element is None:
            return np.array([0.0, 0.0, 1.0])
        direction = element.xyz / reproducible_norm(element.xyz)
        if not element.expressed_in:
            return direction
        what = f'the axis of joint "{node.element.name}"'
        frame = self.graph.lookup(node.scope, element.expressed_in, what, element.origin)
        return (
            direction
            if frame is None
            else reproducible_product(self.graph.relative_pose(frame, node).rotation, direction)
        )

    def apply_mimics(self, node: SdfFrame, joint: Joint, names: dict[int, str]) -> None:
        """Set the mimic relations of a joint; `names` maps frame ids to joint names."""
        element = _joint_element(node)
        for axis, axis_element in zip(joint.axes, (element.axis, element.axis2), strict=False):
            mimic = None if axis_element is None else axis_element.mimic
            if mimic is None or joint.kind is JointKind.SPHERICAL:
                continue
            leader = find_joint(node.scope, mimic.joint)
            name = None if leader is None else names.get(id(leader))
            if name is None or leader is node:
                problem = f'joint "{element.name}" mimics {mimic.joint!r}, which is no other joint of this model'
                self._report("error", "mimic", problem, element, "it moves freely instead")
                continue
            axis.mimic = Mimic(
                joint=name,
                axis=mimic.axis,
                multiplier=mimic.multiplier,
                offset=mimic.offset,
                reference=mimic.reference,
            )

    def _report(self, severity: str, code: str, problem: str, element: JointElement, hint: str = "") -> None:
        report = getattr(self.diagnostics, severity)
        report(f"{sdf.FORMAT}.{code}", problem, hint=hint, origin=element.origin)


def find_joint(scope: Scope, name: str) -> SdfFrame | None:
    """Joint with a name in a scope, not hidden by a link of the same name (old files)."""
    if name in scope.joints:
        return scope.joints[name]
    found = scope.find(name)
    return found if found is not None and isinstance(found.element, JointElement) else None


def _initial_positions(element: JointElement, joint: Joint) -> Array | None:
    """Initial joint coordinates; None if not given."""
    axes = (element.axis, element.axis2)
    positions = [None if a is None else a.initial_position for a in axes[: joint.n_dofs]]
    if joint.kind is JointKind.SPHERICAL or all(value is None for value in positions):
        return None
    return np.array([value or 0.0 for value in positions])


def set_follower_states(joints: Sequence[Joint]) -> None:
    """Set the state of mimicking joints to zero, where the file poses their links.

    Not if a joint that they follow has an initial position.
    """
    followers: dict[str, list[Joint]] = {}
    for joint in joints:
        for leader in {a.mimic.joint for a in joint.moving_axes if a.mimic is not None}:
            followers.setdefault(leader, []).append(joint)
    displaced = {joint.name for joint in joints if joint.initial is not None}
    waiting = list(displaced)
    while waiting:
        new = [j.name for j in followers.get(waiting.pop(), ()) if j.name not in displaced]
        displaced.update(new)
        waiting += new
    for joint in (j for joints_of_leader in followers.values() for j in joints_of_leader):
        mimics = [a.mimic for a in joint.moving_axes if a.mimic is not None]
        if joint.name not in displaced and any(m.offset - m.multiplier * m.reference for m in mimics):
            joint.state = np.zeros(joint.n_qs)


def _ball_axes(element: AxisElement | None) -> list[Axis]:
    """Axes of a ball joint with damping and friction of its `<axis>`."""
    axes = spherical_axes()
    if element is not None:
        for axis in axes:
            axis.damping, axis.friction = element.damping, element.friction
    return axes


def _joint_element(node: SdfFrame) -> JointElement:
    assert isinstance(node.element, JointElement)
    return node.element
