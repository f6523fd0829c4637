"""Joints to the description: frames, axes, limits; gearboxes to constraints."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

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
from kinema.foundation import Array, Diagnostics, Pose
from kinema.words import sdf

from .convert_shape import prefixed
from .elements import AxisElement, JointElement
from .frames import FrameGraph
from .scopes import FrameNode, Scope

_KINDS = {
    "revolute": JointKind.REVOLUTE,
    "continuous": JointKind.CONTINUOUS,
    "prismatic": JointKind.PRISMATIC,
    "fixed": JointKind.FIXED,
    "ball": JointKind.SPHERICAL,
    "universal": JointKind.UNIVERSAL,
    "revolute2": JointKind.UNIVERSAL,
    "screw": JointKind.SCREW,
}
_N_AXES = {JointKind.FIXED: 0, JointKind.SPHERICAL: 0, JointKind.UNIVERSAL: 2}


@dataclass(frozen=True, slots=True, eq=False)
class End:
    """One end of a joint: its body (None for the robot's base) and the joint's frame on it."""

    link: str | None
    pose: Pose
    node: FrameNode | None


@dataclass(slots=True, eq=False)
class JointConverter:
    """Makes joints from their elements, once their ends are known."""

    graph: FrameGraph
    diagnostics: Diagnostics

    def joint(self, node: FrameNode, name: str, parent: End, child: End) -> Joint:
        """A joint of the tree, or one that closes a loop."""
        element = _element(node)
        kind = _KINDS[element.kind]
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
            attributes=prefixed(element.settings),
        )
        joint.attributes[sdf.key(sdf.TYPE)] = element.kind
        if kind is JointKind.SCREW:
            joint.pitch = element.pitch
        joint.axes = self._axes(node, element, kind)
        joint.initial = _initial(element, joint)
        for tag, axis in zip(sdf.AXES, (element.axis, element.axis2), strict=True):
            if axis is not None:
                joint.attributes |= prefixed({sdf.of_axis(tag, name): value for name, value in axis.settings.items()})
        return joint

    def gear(self, node: FrameNode, name: str, parent: End, child: End, reference: str | None) -> Constraint:
        """A gearbox: it couples how two links turn against a third one, and holds nothing else."""
        element = _element(node)
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
            gear_axis_a=parent.pose.rotation @ first,
            gear_axis_b=child.pose.rotation @ second,
            extras=[*element.extras, Extra(sdf.FORMAT, "joint", element.verbatim, element.origin)],
            attributes={**prefixed(element.settings), sdf.key(sdf.TYPE): element.kind},
        )

    # -- axes -----------------------------------------------------------------------------------------------------

    def _axes(self, node: FrameNode, element: JointElement, kind: JointKind) -> list[Axis]:
        wanted = _N_AXES.get(kind, 1)
        given = [element.axis, element.axis2]
        if kind is JointKind.SPHERICAL:
            return _ball_axes(element.axis)
        for tag, axis in zip(("axis", "axis2"), given, strict=True):
            needed = wanted >= (1 if tag == "axis" else 2)
            if needed and axis is None:
                problem = f'{element.kind} joint "{element.name}" has no <{tag}>'
                self._report("warning", "missing-axis", problem, element, "0 0 1 without limits is assumed")
            elif not needed and axis is not None:
                problem = f'<{tag}> of the {element.kind} joint "{element.name}" has no meaning'
                self._report("note", "unused-axis", problem, element)
        return [self._axis(node, a or AxisElement(), kind) for a in given[:wanted]]

    def _axis(self, node: FrameNode, element: AxisElement, kind: JointKind) -> Axis:
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

    def _direction(self, node: FrameNode, element: AxisElement | None) -> Array:
        """The unit vector of an axis in the joint's frame."""
        if element is None:
            return np.array([0.0, 0.0, 1.0])
        direction = element.xyz / np.linalg.norm(element.xyz)
        if not element.expressed_in:
            return direction
        what = f'the axis of joint "{node.element.name}"'
        frame = self.graph.lookup(node.scope, element.expressed_in, what, element.origin)
        return direction if frame is None else self.graph.relative(frame, node).rotation @ direction

    def mimics(self, node: FrameNode, joint: Joint, names: dict[int, str]) -> None:
        """Let the joint's axes follow those they mimic; all joints must have their names by now."""
        element = _element(node)
        for axis, said in zip(joint.axes, (element.axis, element.axis2), strict=False):
            mimic = None if said is None else said.mimic
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


def find_joint(scope: Scope, name: str) -> FrameNode | None:
    """The joint of a name in a scope; a link of the same name (old files) does not hide it."""
    if name in scope.joints:
        return scope.joints[name]
    found = scope.find(name)
    return found if found is not None and isinstance(found.element, JointElement) else None


def _initial(element: JointElement, joint: Joint) -> Array | None:
    """The coordinates that the file says the joint starts at."""
    axes = (element.axis, element.axis2)
    said = [None if a is None else a.initial_position for a in axes[: joint.n_dofs]]
    if joint.kind is JointKind.SPHERICAL or all(value is None for value in said):
        return None
    return np.array([value or 0.0 for value in said])


def show_followers(joints: Sequence[Joint]) -> None:
    """Say that followers stand where the file poses their links, whatever they follow would have them do.

    Not where something that they follow starts elsewhere: then they go with it.
    """
    followers: dict[str, list[Joint]] = {}
    for joint in joints:
        for leader in {a.mimic.joint for a in joint.moving_axes if a.mimic is not None}:
            followers.setdefault(leader, []).append(joint)
    moved = {joint.name for joint in joints if joint.initial is not None}
    waiting = list(moved)
    while waiting:
        new = [j.name for j in followers.get(waiting.pop(), ()) if j.name not in moved]
        moved.update(new)
        waiting += new
    for joint in (j for led in followers.values() for j in led):
        mimics = [a.mimic for a in joint.moving_axes if a.mimic is not None]
        if joint.name not in moved and any(m.offset - m.multiplier * m.reference for m in mimics):
            joint.state = np.zeros(joint.n_qs)


def _ball_axes(element: AxisElement | None) -> list[Axis]:
    """A ball joint has no axes of its own, but its damping and friction may be written in one."""
    axes = spherical_axes()
    if element is not None:
        for axis in axes:
            axis.damping, axis.friction = element.damping, element.friction
    return axes


def _element(node: FrameNode) -> JointElement:
    assert isinstance(node.element, JointElement)
    return node.element
