"""From the joints of a CAD assembly to joints of the description.

The joint's frame on the parent lies where the CAD program has it, and the frame on the child where the coordinates put
it from there: so the description is the assembly at the very coordinates that the CAD program shows (`Joint.state`),
and limits stay in the CAD program's own coordinates.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from kinema.description import Axis, Joint, JointKind, can_reverse, joint_motion, reverse_joint, spherical_axes
from kinema.foundation import Array, Diagnostics, Pose

from .elements import JointElement, MotionLinkElement
from .motions import JointModel, model_joint
from .probe import check_probes
from .schema import FORMAT, ROOT


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """Where an occurrence ended up."""

    link: str | None
    """The link it is part of; None for the robot's base frame."""
    link_pose: Pose
    """Where that link stands in the snapshot, in the root frame."""
    pose: Pose
    """Where the occurrence itself stands."""


@dataclass(frozen=True, slots=True, eq=False)
class Coordinate:
    """One motion of a CAD joint among the coordinates of the description."""

    joint: Joint
    axis: Axis
    number: int
    """Its place among the joint's coordinates."""
    value: float
    """The coordinate's value in the snapshot."""
    rate: float = 1.0
    """How far the motion goes while the coordinate goes by one: not one for the travel of a screw."""


@dataclass(slots=True, eq=False)
class JointConverter:
    """Converts all joints, one after the other."""

    places: Mapping[str, Place]
    """Path of an occurrence -> where it is."""
    motion_links: Sequence[MotionLinkElement]
    names: Mapping[int, str]
    """id of an element -> the joint's unique name."""
    diagnostics: Diagnostics
    coordinates: dict[tuple[int, str], Coordinate] = field(default_factory=dict)
    """(id of an element, motion) -> its coordinate; motions of joints that are fixed have none."""
    links_at: dict[int, list[MotionLinkElement]] = field(default_factory=dict)
    """id of an element -> the motion links that use it."""

    def __post_init__(self) -> None:
        for link in self.motion_links:
            if not link.suppressed:
                for end in {id(link.joint1), id(link.joint2)}:
                    self.links_at.setdefault(end, []).append(link)

    def convert(self, element: JointElement) -> list[Joint]:
        """The joint, or the joints that add up to it; none where both its ends are in one link."""
        one, two = self.places[element.one], self.places[element.two]
        if one.link == two.link:
            self._inside_link(element, one.link)
            return []
        linked, within = self._links_of(element)
        model = model_joint(element, one.pose, self.diagnostics, by_angles=linked)
        check_probes(element, model, one.pose, two.pose, self.diagnostics)
        if element.problem:
            message = f'joint "{element.name}": the CAD program says: {element.problem:.200}'
            self.diagnostics.warning(f"{FORMAT}.joint-problem", message, origin=element.place)
        if within is not None and model.kind is JointKind.CYLINDRICAL:
            self._make_screw(element, model, within)
        elif within is not None:
            model.stacked = True
        joints = self._stack(element, model) if model.stacked else [self._single(element, model)]
        on_child = model.frame
        for joint in joints:
            on_child = on_child @ joint_motion(joint, np.zeros(0) if joint.state is None else joint.state)
        for joint in joints:
            joint.parent, joint.child = two.link, one.link
            joint.parent_pose = two.link_pose.inverse() @ model.frame
            joint.child_pose = one.link_pose.inverse() @ on_child
        return self._hung_on_base(joints, element)

    def _inside_link(self, element: JointElement, link: str | None) -> None:
        name = "the root component" if link is None else f'link "{link}"'
        message = f'joint "{element.name}" ({element.type}) joins two parts of {name}'
        if element.type == "rigid":
            self.diagnostics.note(f"{FORMAT}.joint-inside-link", message, origin=element.place)
        else:
            hint = "take one of them out of the rigid group, or let it not be grounded to its parent"
            text = f"{message}, which a rigid group or nesting holds together: it does not move"
            self.diagnostics.warning(f"{FORMAT}.joint-inside-link", text, hint=hint, origin=element.place)

    def _links_of(self, element: JointElement) -> tuple[bool, MotionLinkElement | None]:
        """Whether a motion link uses the joint, and the one that ties two of its own motions to each other."""
        used = self.links_at.get(id(element), [])
        own = [m for m in used if m.joint1 is m.joint2 and m.motion1 != m.motion2]
        return bool(used), own[0] if own else None

    # -- the description's joints ---------------------------------------------------------------------------------

    def _single(self, element: JointElement, model: JointModel) -> Joint:
        joint = self._joint(element, self.names[id(element)], model.kind)
        joint.axes = model.axes
        state = np.array([model.values[n] for n in model.names])
        if model.kind is JointKind.SPHERICAL:
            joint.axes, joint.state = spherical_axes(), model.motion().quaternion
            return joint
        if model.kind is JointKind.SCREW:
            joint.axes, state = model.axes[:1], state[:1]
            joint.pitch = model.pitch
        joint.state = state if len(state) else None
        for number, (name, axis) in enumerate(zip(model.names, model.axes, strict=True)):
            place = (id(element), name)
            if model.kind is JointKind.SCREW and number == 1:
                rate = model.pitch / (2 * math.pi) * float(axis.direction[2])
                self.coordinates[place] = Coordinate(joint, joint.axes[0], 0, float(state[0]), rate)
            else:
                self.coordinates[place] = Coordinate(joint, axis, number, float(state[number]))
        return joint

    def _stack(self, element: JointElement, model: JointModel) -> list[Joint]:
        """One joint for each axis; the later ones add their motion to the first."""
        joints: list[Joint] = []
        for name, axis in zip(model.names, model.axes, strict=True):
            kind = _single_kind(axis)
            joint = self._joint(element, f"{self.names[id(element)]}_{name}", kind)
            joint.axes, joint.state, joint.stacked = [axis], np.array([model.values[name]]), bool(joints)
            self.coordinates[id(element), name] = Coordinate(joint, axis, 0, model.values[name])
            joints.append(joint)
        return joints

    def _joint(self, element: JointElement, name: str, kind: JointKind) -> Joint:
        joint = Joint(kind=kind, parent=None, child=None, name=name, origin=element.place, extras=list(element.extras))
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
        """A cylindrical joint whose slide follows its rotation; its limits are those of both."""
        ratio = link.value2 / link.value1 * (-1 if link.reversed else 1)
        if link.motion1 == "slide":
            if ratio == 0:
                message = f'motion link "{link.name}" stops joint "{element.name}" altogether; it is left out'
                self.diagnostics.error(f"{FORMAT}.zero-motion-link", message, origin=link.place)
                return
            ratio = 1 / ratio
        turn, slide = model.axes
        model.kind = JointKind.SCREW
        model.pitch = 2 * math.pi * ratio * float(slide.direction[2])
        if ratio:
            start, at = model.values["rotation"], model.values["slide"]
            ends = sorted(start + (end - at) / ratio for end in (slide.lower, slide.upper))
            turn.lower, turn.upper = max(turn.lower, ends[0]), min(turn.upper, ends[1])

    def _hung_on_base(self, joints: list[Joint], element: JointElement) -> list[Joint]:
        """The joints with the base frame as the parent, where they can be turned around."""
        first = joints[0]
        if first.child is not None or len(joints) > 1 or not can_reverse(first):
            return joints
        turned = reverse_joint(first)
        # the axes, which motion links will change, are those of the joint that is given back
        axis_of = {id(old): new for old, new in zip(first.axes, turned.axes, strict=True)}
        for name in element.motions:
            known = self.coordinates.get((id(element), name))
            if known is not None:
                self.coordinates[id(element), name] = replace(known, joint=turned, axis=axis_of[id(known.axis)])
        return [turned]


def _single_kind(axis: Axis) -> JointKind:
    if axis.motion == "translation":
        return JointKind.PRISMATIC
    return JointKind.REVOLUTE if math.isfinite(axis.lower) or math.isfinite(axis.upper) else JointKind.CONTINUOUS


def joint_names(elements: Sequence[JointElement]) -> dict[int, str]:
    """A unique name for each joint: its own, then with the occurrence that owns it, then with a number."""
    count = Counter(e.name for e in elements)
    names: dict[int, str] = {}
    taken: set[str] = set()
    next_number: Counter[str] = Counter()
    for i, element in enumerate(elements):
        wanted = element.name or f"joint_{i + 1}"
        if count[element.name] > 1 and element.context != ROOT and element.name:
            wanted = f"{element.context}+{element.name}"
        name = wanted
        while name in taken:
            next_number[wanted] += 1
            name = f"{wanted}_{next_number[wanted]}"
        taken.add(name)
        names[id(element)] = name
    return names


def base_offset(up: str) -> Pose:
    """How the root frame stands in a world whose z is up."""
    if up == "y":
        turn: Array = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, -1.0], [0.0, 1.0, 0.0]])
        return Pose(rotation=turn)
    return Pose()
