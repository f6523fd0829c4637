"""From a robot to one that URDF can say: one tree of simple joints whose frames are the frames of their child links.

The result is a description again, so that what it says can be compared with what it came from.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field

import numpy as np

from kinema.description import (
    Axis,
    AxisMotion,
    Base,
    Joint,
    JointKind,
    KinematicTree,
    Link,
    Robot,
    TreeEdge,
    joint_motion,
)
from kinema.foundation import Pose, WriteError, unique_name
from kinema.words import urdf

from ..chains import SMALL_MASS, small_inertial
from .planar import as_planar
from .steps import Step, steps_of
from .writing import Writing


@dataclass(slots=True, eq=False)
class Lowered:
    """A robot in URDF's terms."""

    robot: Robot
    """Joints are fixed, revolute, continuous, prismatic, planar or free, and `child_pose` is the identity."""
    coordinates: dict[str, dict[int, str]] = field(default_factory=dict)
    """Joint of the description -> its coordinates' numbers -> joint of the file with just that coordinate."""
    chains: dict[str, list[str]] = field(default_factory=dict)
    """Joint of the description -> the joints of the file that it became."""
    travels: dict[str, float] = field(default_factory=dict)
    """Screw of the description -> its travel [m] per radian."""
    world: str = ""
    """Link that was added to stand for the world; empty where there is none."""


def lower(writing: Writing) -> Lowered:
    """The robot in URDF's terms; what changes on the way is put on record."""
    return _Lowering(writing).run()


class _Lowering:
    def __init__(self, writing: Writing) -> None:
        self.writing = writing
        self.source = writing.robot
        self.tree: KinematicTree = self.source.tree()
        self.link_of = {link.name: link for link in self.source.links}
        self.link_names = set(self.link_of)
        self.joint_names = {j.name for j in self.source.joints}
        self.before: dict[str, list[Link]] = {}
        """Links that were made up, by the link of the description that comes after them."""
        self.made: list[tuple[int, Joint]] = []
        """Joints with their place in the order of the file."""
        self.order = {id(j): i for i, j in enumerate(self.source.joints)}
        self.world = ""
        """Name of the link that stands for the world; empty where there is none."""
        robot = copy.copy(self.source)
        robot.collision = type(robot.collision)()
        robot.base, robot.pose, robot.root, robot.static = Base.UNSPECIFIED, Pose(), None, False
        self.result = Lowered(robot)

    def run(self) -> Lowered:
        if not self.source.links:
            raise WriteError(f'robot "{self.source.name}" has no links, and URDF needs one')
        if self._needs_world():
            self.world = self.result.world = unique_name("world", self.link_names)
            self._say_added(self.world, "it stands for the world, on which the robot hangs")
        for name in self.tree.roots:
            self._root(name)
        for edge in self.tree.edges:
            if edge.parent is None and not self.world:
                self._let_go(edge)
            else:
                self._edge(edge)
        robot = self.result.robot
        robot.joints = [joint for _, joint in sorted(self.made, key=lambda m: m[0])]
        robot.links = [Link(name=self.world)] if self.world else []
        for link in self.source.links:
            robot.links += [*self.before.get(link.name, ()), link]
        if self.writing.options.frames:
            self._frames()
        return self.result

    def _frames(self) -> None:
        """Named frames as links without mass."""
        robot = self.result.robot
        for frame in self.source.frames:
            parent = self.world if frame.link is None else frame.link
            if parent not in self.link_names:
                self.writing.drop(frame, "the frame", "the link that it is on is not in the file")
                continue
            link = Link(name=unique_name(frame.name or "frame", self.link_names), origin=frame.origin)
            name = unique_name(f"{link.name}_joint", self.joint_names)
            pose = self.source.pose @ frame.pose if frame.link is None else frame.pose
            robot.links.append(link)
            robot.joints.append(
                Joint(name=name, kind=JointKind.FIXED, parent=parent, child=link.name, parent_pose=pose)
            )

    # -- the base -------------------------------------------------------------------------------------------------

    def _needs_world(self) -> bool:
        """Whether a link must stand for the world, because the robot's own root link cannot be the root of the file."""
        held = [e for e in self.tree.edges if e.parent is None]
        if self.writing.options.base == "world" or len(self.tree.roots) + len(held) != 1:
            return True
        if held:
            edge = held[0]
            if all(j.kind is JointKind.FREE for j in edge.joints):
                return False
            is_rigid = all(j.implicit and not j.n_dofs for j in edge.joints)
            return not (is_rigid and (self.source.pose @ _rest_pose(edge)).is_close(Pose()))
        return self.source.base is not Base.FREE and not self._root_pose(self.tree.roots[0]).is_close(Pose())

    def _root_pose(self, name: str) -> Pose:
        """Where a root link stands in the world."""
        own = self.link_of[name].pose
        return self.source.pose if own is None else self.source.pose @ own

    def _root(self, name: str) -> None:
        """A link that nothing holds."""
        pose = self._root_pose(name)
        is_free = self.source.base is Base.FREE
        if self.world:
            self._join(
                Joint(
                    name=unique_name(f"{name}_to_{self.world}", self.joint_names),
                    kind=JointKind.FREE if is_free else JointKind.FIXED,
                    parent=self.world,
                    child=name,
                    parent_pose=pose,
                )
            )
            return
        if is_free:
            how = f'whatever loads the file decides what holds its root link "{name}"; often it is fixed'
            self.writing.approximate(self.source, "that its base is free", how)
            self._displaced(pose)
        elif self.source.base is Base.FIXED:
            self._held_loosely(name)

    def _let_go(self, edge: TreeEdge) -> None:
        """The joint between the world and the only link that hangs on it, where the file is to begin with that link."""
        joint = edge.joints[0]
        if joint.kind is not JointKind.FREE:
            self._held_loosely(edge.child)
            return
        what = f'that the link "{edge.child}" is free'
        how = "the link is the root of the file, and whatever loads it decides what holds the root"
        self.writing.drop(joint, what, how)
        self._displaced(self.source.pose @ _rest_pose(edge))

    def _held_loosely(self, link: str) -> None:
        how = f'whatever loads the file decides what holds its root link "{link}"; most hold it fixed'
        self.writing.approximate(self.source, "that it is fixed to the world", how)

    def _displaced(self, pose: Pose) -> None:
        if not pose.is_close(Pose()):
            x, y, z = pose.position.tolist()
            how = "a root link has no pose in URDF"
            self.writing.drop(self.source, f"where it stands, {x:g} {y:g} {z:g} with its rotation", how)

    # -- joints ---------------------------------------------------------------------------------------------------

    def _edge(self, edge: TreeEdge) -> None:
        planar = as_planar(edge, self.source.format == urdf.FORMAT)
        if planar is not None:
            planar.parent, planar.parent_pose = edge.parent or self.world, self._from_world(edge, planar.parent_pose)
            self._record(edge.joints[0], planar.name)
            self._join(planar, edge.joints[0])
            return
        steps, tail = steps_of(edge)
        if not steps:
            self._fixed(edge, tail)
            return
        absorbed = steps[-1].absorb(tail)
        if absorbed is not None:
            steps[-1] = absorbed
        parent = self.world if edge.parent is None else edge.parent
        for number, step in enumerate(steps):
            is_last = number == len(steps) - 1
            name = self._step_name(step)
            if is_last and absorbed is not None:
                child = edge.child
            else:
                child = self._frame_link(edge.child, step, name, is_last=is_last)
            pose = step.before if number else self._from_world(edge, step.before)
            self._join(_joint(step, name, parent, child, pose), step.joint)
            parent = child
        if absorbed is None:
            name = unique_name(f"{self.made[-1][1].name}_offset", self.joint_names)
            self._join(
                Joint(name=name, kind=JointKind.FIXED, parent=parent, child=edge.child, parent_pose=tail),
                steps[-1].joint,
            )
        self._say_what_became(edge, steps)

    def _from_world(self, edge: TreeEdge, pose: Pose) -> Pose:
        """Joints to the world hang on the robot's own frame there."""
        return self.source.pose @ pose if edge.parent is None else pose

    def _step_name(self, step: Step) -> str:
        """The joint's own name for its only motion, one made from it for a part of its motion."""
        name = step.joint.name
        if step.suffix:
            name = unique_name(name + step.suffix, self.joint_names)
        self._record(step.joint, name)
        if step.follows is not None:
            self.result.travels[step.joint.name] = step.follows
        if step.coordinate is not None:
            self.result.coordinates.setdefault(step.joint.name, {})[step.coordinate] = name
        return name

    def _record(self, source: Joint, name: str) -> None:
        self.result.chains.setdefault(source.name, []).append(name)
        self.writing.source_of[name] = source

    def _frame_link(self, child: str, step: Step, joint: str, *, is_last: bool) -> str:
        """A link after a step that cannot end at the link it is for; the last one is fixed to it and has no mass."""
        link = Link(name=unique_name(f"{joint}_frame", self.link_names))
        self.before.setdefault(child, []).append(link)
        if is_last:
            how = f'the axis of "{step.joint.name}" does not pass through the origin of "{child}"; it has no mass'
        else:
            link.inertial = small_inertial()
            how = f'it is between the joints that hold "{child}", and has {SMALL_MASS:g} kg'
        self._say_added(link.name, how)
        return link.name

    def _say_added(self, link: str, how: str) -> None:
        self.writing.approximate(("link", link), "the link", f"it is added: {how}")

    def _fixed(self, edge: TreeEdge, tail: Pose) -> None:
        source = edge.joints[0]
        joint = Joint(name=source.name, kind=JointKind.FIXED, parent=edge.parent or self.world, child=edge.child)
        joint.parent_pose = self._from_world(edge, tail)
        _carry(source, joint)
        self._record(source, source.name)
        self._join(joint, source)
        if source.kind is not JointKind.FIXED:
            self.writing.approximate(source, f"its kind, {source.kind.value}", "none of its axes moves: it is fixed")
        for other in edge.joints[1:]:
            self.writing.drop(other, "the joint", "it moves nothing, and URDF has one joint between two links")

    def _join(self, joint: Joint, source: Joint | None = None) -> None:
        """Keep a joint in the order of the description's joints; those without one come first."""
        self.made.append((-1 if source is None else self.order[id(source)], joint))

    # -- the record -----------------------------------------------------------------------------------------------

    def _say_what_became(self, edge: TreeEdge, steps: list[Step]) -> None:
        moving = {id(s.joint) for s in steps}
        for joint in edge.joints:
            parts = self.result.chains.get(joint.name, [])
            if id(joint) not in moving:
                self.writing.drop(joint, "the joint", "it moves nothing, and its link is held by other joints")
            elif joint.kind is JointKind.FREE:
                self._floating(edge, joint)
            elif len(parts) > 1:
                chain = ", ".join(f'"{p}"' for p in parts)
                singular = "; at a quarter turn of the second, two of them turn about one line"
                more = singular if joint.kind is JointKind.SPHERICAL else ""
                how = f"it is the chain of joints {chain}{self._weight(steps)}{more}"
                self.writing.approximate(joint, f"its kind, {joint.kind.value}", how)
            elif len(edge.joints) > 1:
                how = f"its link hangs on a chain of joints{self._weight(steps)}"
                self.writing.approximate(joint, "that several joints hold one link", how)

    @staticmethod
    def _weight(steps: list[Step]) -> str:
        return f", with links of {SMALL_MASS:g} kg between them" if len(steps) > 1 else ""

    def _floating(self, edge: TreeEdge, joint: Joint) -> None:
        """Whether the coordinates of a free joint mean something else now."""
        is_offset = not (joint.child_pose.is_close(Pose()) and joint_motion(joint, joint.rest).is_close(Pose()))
        if edge.reversed or is_offset:
            how = "they are those of the child link now, and zero where the link stands at first"
            self.writing.approximate(joint, "its coordinates", how)


def _rest_pose(edge: TreeEdge) -> Pose:
    """Pose of an edge's child in its parent at the zero configuration."""
    return edge.pose({j.name: j.rest for j in edge.joints})


def _joint(step: Step, name: str, parent: str, child: str, pose: Pose) -> Joint:
    """The joint of the file for one step of a chain."""
    joint = Joint(name=name, kind=_kind(step.axis), parent=parent, child=child, parent_pose=pose)
    if step.axis is not None:
        axis = copy.copy(step.axis)
        axis.reference = 0.0
        joint.axes = [axis]
    if name == step.joint.name or step.coordinate == 0:
        _carry(step.joint, joint)
    return joint


def _kind(axis: Axis | None) -> JointKind:
    if axis is None:
        return JointKind.FREE
    if axis.motion is AxisMotion.TRANSLATION:
        return JointKind.PRISMATIC
    # without any limit, "revolute" would have to state one
    return JointKind.CONTINUOUS if axis.lower == -np.inf and axis.upper == np.inf else JointKind.REVOLUTE


def _carry(source: Joint, joint: Joint) -> None:
    """What is given back as it was read goes with the joint, or with the first one of a chain."""
    joint.extras, joint.attributes, joint.origin = source.extras, source.attributes, source.origin
