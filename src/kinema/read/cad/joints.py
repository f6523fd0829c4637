"""Converts CAD joints to joints of the description, and motion links to mimic relations.

The joint frame on the parent is the frame given by the CAD program; the frame on the child follows from the joint
coordinates in the snapshot. The description therefore reproduces the assembly at the coordinates shown in the CAD
program (`Joint.state`), and joint limits stay in the CAD program's coordinates.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from kinema.core import Array, Diagnostics, Pose
from kinema.description import (
    Axis,
    Joint,
    JointKind,
    Mimic,
    can_reverse,
    joint_transform,
    reverse_joint,
    spherical_axes,
)

from .elements import FORMAT, ROOT_PATH, JointElement, MotionLinkElement
from .grouping import DisjointSets
from .joint_models import JointModel, build_joint_model, check_pose_samples

# -- joints ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class OccurrencePlacement:
    """Link and pose of an occurrence in the converted robot."""

    link: str | None
    """Name of the link; None for the base frame of the robot."""
    link_pose: Pose
    """Pose of the link in the root frame in the snapshot."""
    pose: Pose
    """Pose of the occurrence in the root frame."""


@dataclass(frozen=True, slots=True, eq=False)
class JointCoordinate:
    """Joint coordinate of the description that represents one motion of a CAD joint."""

    joint: Joint
    axis: Axis
    index: int
    """Index among the coordinates of the joint."""
    value: float
    """Value in the snapshot."""
    motion_per_coordinate: float = 1.0
    """Derivative of the motion with respect to the coordinate; differs from 1 for the translation of a screw."""


@dataclass(slots=True, eq=False)
class JointConverter:
    """Converts the CAD joints of a snapshot one by one, and records their coordinates for mimic relations."""

    placements: Mapping[str, OccurrencePlacement]
    """Path of an occurrence -> placement."""
    motion_links: Sequence[MotionLinkElement]
    names: Mapping[int, str]
    """id of a joint element -> unique joint name."""
    diagnostics: Diagnostics
    coordinates: dict[tuple[int, str], JointCoordinate] = field(default_factory=dict)
    """(id of a joint element, motion) -> coordinate; motions of fixed joints have no entry."""
    motion_links_by_joint: dict[int, list[MotionLinkElement]] = field(default_factory=dict)
    """id of a joint element -> motion links that use the joint."""

    def __post_init__(self) -> None:
        for link in self.motion_links:
            if not link.suppressed:
                for end in {id(link.joint1), id(link.joint2)}:
                    self.motion_links_by_joint.setdefault(end, []).append(link)

    def convert(self, element: JointElement) -> list[Joint]:
        """Convert a CAD joint to one joint or several stacked joints; none if both ends are in the same link."""
        one, two = self.placements[element.occurrence_one], self.placements[element.occurrence_two]
        if one.link == two.link:
            self._report_joint_inside_link(element, one.link)
            return []
        linked, within = self._motion_links_of(element)
        model = build_joint_model(element, one.pose, self.diagnostics, as_three_rotations=linked)
        check_pose_samples(element, model, one.pose, two.pose, self.diagnostics)
        if element.problem:
            message = f'joint "{element.name}": the CAD program says: {element.problem:.200}'
            self.diagnostics.warning(f"{FORMAT}.joint-problem", message, origin=element.origin)
        if within is not None and model.kind is JointKind.CYLINDRICAL:
            self._make_screw(element, model, within)
        elif within is not None:
            model.stacked = True
        joints = self._stacked_joints(element, model) if model.stacked else [self._single_joint(element, model)]
        on_child = model.frame
        for joint in joints:
            on_child = on_child @ joint_transform(joint, np.zeros(0) if joint.state is None else joint.state)
        for joint in joints:
            joint.parent, joint.child = two.link, one.link
            joint.parent_pose = two.link_pose.inverse() @ model.frame
            joint.child_pose = one.link_pose.inverse() @ on_child
        return self._with_base_as_parent(joints, element)

    def _report_joint_inside_link(self, element: JointElement, link: str | None) -> None:
        """Report a joint whose ends belong to the same link."""
        name = "the root component" if link is None else f'link "{link}"'
        message = f'joint "{element.name}" ({element.type}) joins two parts of {name}'
        if element.type == "rigid":
            self.diagnostics.note(f"{FORMAT}.joint-inside-link", message, origin=element.origin)
        else:
            hint = "take one of them out of the rigid group, or let it not be grounded to its parent"
            text = f"{message}, which a rigid group or nesting holds together: it does not move"
            self.diagnostics.warning(f"{FORMAT}.joint-inside-link", text, hint=hint, origin=element.origin)

    def _motion_links_of(self, element: JointElement) -> tuple[bool, MotionLinkElement | None]:
        """Whether a motion link uses the joint, and the motion link that couples two motions of the joint."""
        used = self.motion_links_by_joint.get(id(element), [])
        internal = [m for m in used if m.joint1 is m.joint2 and m.motion1 != m.motion2]
        return bool(used), internal[0] if internal else None

    # -- joints of the description ---------------------------------------------------------------------------------

    def _single_joint(self, element: JointElement, model: JointModel) -> Joint:
        """Joint of the description for a model that needs a single joint; records its coordinates."""
        joint = self._new_joint(element, self.names[id(element)], model.kind)
        joint.axes = model.axes
        state = np.array([model.values[n] for n in model.motion_names])
        if model.kind is JointKind.SPHERICAL:
            joint.axes, joint.state = spherical_axes(), model.relative_pose().quaternion
            return joint
        if model.kind is JointKind.SCREW:
            joint.axes, state = model.axes[:1], state[:1]
            joint.pitch = model.pitch
        joint.state = state if len(state) else None
        for index, (name, axis) in enumerate(zip(model.motion_names, model.axes, strict=True)):
            key = (id(element), name)
            if model.kind is JointKind.SCREW and index == 1:
                rate = model.pitch / (2 * math.pi) * float(axis.direction[2])
                self.coordinates[key] = JointCoordinate(joint, joint.axes[0], 0, float(state[0]), rate)
            else:
                self.coordinates[key] = JointCoordinate(joint, axis, index, float(state[index]))
        return joint

    def _stacked_joints(self, element: JointElement, model: JointModel) -> list[Joint]:
        """One joint per axis of the model; all but the first are stacked on the first."""
        joints: list[Joint] = []
        for name, axis in zip(model.motion_names, model.axes, strict=True):
            kind = _joint_kind_of_axis(axis)
            joint = self._new_joint(element, f"{self.names[id(element)]}_{name}", kind)
            joint.axes, joint.state, joint.stacked = [axis], np.array([model.values[name]]), bool(joints)
            self.coordinates[id(element), name] = JointCoordinate(joint, axis, 0, model.values[name])
            joints.append(joint)
        return joints

    def _new_joint(self, element: JointElement, name: str, kind: JointKind) -> Joint:
        """New joint with name, origin and CAD attributes, not yet connected to links."""
        joint = Joint(kind=kind, parent=None, child=None, name=name, origin=element.origin, extras=list(element.extras))
        joint.name_is_generated = not element.name
        joint.attributes[f"{FORMAT}:type"] = element.type
        joint.attributes[f"{FORMAT}:kind"] = element.kind
        for key, value in (("offset", element.offset), ("angle", element.angle), ("flipped", element.flipped)):
            if value:
                joint.attributes[f"{FORMAT}:{key}"] = value
        rest = {n: m.rest for n, m in element.motions.items() if m.rest is not None}
        if rest:
            joint.attributes[f"{FORMAT}:rest"] = rest
        return joint

    def _make_screw(self, element: JointElement, model: JointModel, link: MotionLinkElement) -> None:
        """Turn a cylindrical model into a screw with the ratio of a motion link; limits are intersected."""
        ratio = link.value2 / link.value1 * (-1 if link.reversed else 1)
        if link.motion1 == "slide":
            if ratio == 0:
                message = f'motion link "{link.name}" stops joint "{element.name}" altogether; it is left out'
                self.diagnostics.error(f"{FORMAT}.zero-motion-link", message, origin=link.origin)
                return
            ratio = 1 / ratio
        turn, slide = model.axes
        model.kind = JointKind.SCREW
        model.pitch = 2 * math.pi * ratio * float(slide.direction[2])
        if ratio:
            start, at = model.values["rotation"], model.values["slide"]
            ends = sorted(start + (end - at) / ratio for end in (slide.lower, slide.upper))
            turn.lower, turn.upper = max(turn.lower, ends[0]), min(turn.upper, ends[1])

    def _with_base_as_parent(self, joints: list[Joint], element: JointElement) -> list[Joint]:
        """Reverse a single joint whose child is the base frame, if its kind can be reversed."""
        first = joints[0]
        if first.child is not None or len(joints) > 1 or not can_reverse(first):
            return joints
        turned = reverse_joint(first)
        # motion links modify the axes of the returned joint
        axis_of = {id(old): new for old, new in zip(first.axes, turned.axes, strict=True)}
        for name in element.motions:
            known = self.coordinates.get((id(element), name))
            if known is not None:
                self.coordinates[id(element), name] = replace(known, joint=turned, axis=axis_of[id(known.axis)])
        return [turned]


def _joint_kind_of_axis(axis: Axis) -> JointKind:
    if axis.motion == "translation":
        return JointKind.PRISMATIC
    return JointKind.REVOLUTE if math.isfinite(axis.lower) or math.isfinite(axis.upper) else JointKind.CONTINUOUS


def unique_joint_names(elements: Sequence[JointElement]) -> dict[int, str]:
    """Map the id of each joint element to a unique name: plain, then with the owning occurrence, then numbered."""
    count = Counter(e.name for e in elements)
    names: dict[int, str] = {}
    taken: set[str] = set()
    next_number: Counter[str] = Counter()
    for i, element in enumerate(elements):
        wanted = element.name or f"joint_{i + 1}"
        if count[element.name] > 1 and element.context != ROOT_PATH and element.name:
            wanted = f"{element.context}+{element.name}"
        name = wanted
        while name in taken:
            next_number[wanted] += 1
            name = f"{wanted}_{next_number[wanted]}"
        taken.add(name)
        names[id(element)] = name
    return names


def up_axis_pose(up: str) -> Pose:
    """Pose of the root frame in a world with z up, for the up axis `y` or `z`."""
    if up == "y":
        turn: Array = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, -1.0], [0.0, 1.0, 0.0]])
        return Pose(rotation=turn)
    return Pose()


# -- motion links ------------------------------------------------------------------------------------------------------


def add_mimics(
    motion_links: Sequence[MotionLinkElement],
    coordinates: Mapping[tuple[int, str], JointCoordinate],
    diagnostics: Diagnostics,
) -> None:
    """Convert motion links to mimic relations through the joint values in the snapshot.

    An axis mimics at most one other: if the second axis already has a mimic, the first axis mimics the second instead.
    A link between axes that are already coupled is ignored with a warning.
    """
    coupled = DisjointSets(id(c.axis) for c in coordinates.values())
    for link in motion_links:
        if link.suppressed:
            message = f'motion link "{link.name}" is suppressed and left out'
            diagnostics.note(f"{FORMAT}.suppressed", message, origin=link.origin)
            continue
        first = coordinates.get((id(link.joint1), link.motion1))
        second = coordinates.get((id(link.joint2), link.motion2))
        if first is None or second is None:
            names = {link.joint1.name, link.joint2.name}
            which = " and ".join(f'"{n}"' for n in sorted(names))
            _report_ignored_link(link, f"of {which} not all motions are left", diagnostics)
            continue
        if first.axis is second.axis:
            continue  # the pitch of a screw
        ratio = (
            link.value2
            / link.value1
            * (-1 if link.reversed else 1)
            * first.motion_per_coordinate
            / second.motion_per_coordinate
        )
        if coupled.are_connected(id(first.axis), id(second.axis)):
            _report_ignored_link(link, "the two follow each other already", diagnostics)
        elif second.axis.mimic is None:
            _set_mimic(second, first, ratio)
            coupled.union(id(first.axis), id(second.axis))
        elif first.axis.mimic is None and ratio != 0:
            _set_mimic(first, second, 1 / ratio)
            coupled.union(id(first.axis), id(second.axis))
        else:
            _report_ignored_link(link, "both follow others already", diagnostics)


def _set_mimic(follower: JointCoordinate, leader: JointCoordinate, multiplier: float) -> None:
    follower.axis.mimic = Mimic(
        joint=leader.joint.name,
        axis=leader.index,
        multiplier=multiplier,
        offset=follower.value,
        reference=leader.value,
    )


def _report_ignored_link(link: MotionLinkElement, reason: str, diagnostics: Diagnostics) -> None:
    message = f'motion link "{link.name}" is left out: {reason}'
    diagnostics.warning(f"{FORMAT}.motion-link-ignored", message, origin=link.origin)
