"""The tree of bodies: which body each link is, what it hangs on, and by which joints of MuJoCo's."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from kinema.description import Base, Joint, JointKind, KinematicTree, Link, Robot, TreeEdge, coordinates, free_axes
from kinema.foundation import Array, Pose, WriteError
from kinema.words import mjcf

from ..bases import WHAT, assumed
from .body_plan import BodyPlan
from .joint_parts import FreePose, JointPart, edge_parts, joint_parts, part_suffixes, runs
from .writing import Writing

MAX_DEPTH = 480
"""Bodies inside each other: MuJoCo's XML parser takes no more than 500 elements."""


def plan_bodies(writing: Writing) -> None:
    """Fill in the writing's bodies, and name them and their joints."""
    for robot in writing.robots:
        tree = robot.tree()
        _Plan(writing, robot, tree).make()
    writing.bodies.sort(key=_place)  # which changes nothing unless robots were mixed in a file
    for top in writing.bodies:
        for body in top.walk():
            if body.link is None:
                body.name = writing.names.new(mjcf.BODY, body.carries, body.robot)
    _check_depth(writing)


def _place(top: BodyPlan) -> float:
    """Where a file of its own had a body that hangs on nothing; others come behind."""
    link = next(body.link for body in top.walk() if body.link is not None)
    return math.inf if link.order is None else link.order


def all_bodies(writing: Writing) -> Iterator[BodyPlan]:
    """Every body in the order of the file, which is MuJoCo's."""
    for top in writing.bodies:
        yield from top.walk()


def body_name(writing: Writing, body: BodyPlan) -> str:
    """The name of a body that something refers to."""
    return body.name if body.link is None else writing.names.of(mjcf.BODY, body.link)


@dataclass(slots=True, eq=False)
class _Plan:
    writing: Writing
    robot: Robot
    tree: KinematicTree
    starts: dict[str, Array] = field(default_factory=dict)
    """Where the joints start, by name."""

    def make(self) -> None:
        robot = self.robot
        is_own = robot.format == mjcf.FORMAT
        for link in robot.links:
            self.writing.names.add(mjcf.BODY, link, robot, shown=not (link.name_is_generated and is_own))
        self.starts = coordinates(robot.joints, {})
        by_name = {link.name: link for link in robot.links}
        order = {link.name: i for i, link in enumerate(robot.links)}
        hanging = [(order[root], self._root(by_name[root])) for root in self.tree.roots]
        inside: dict[str, list[TreeEdge]] = {}
        for edge in self.tree.edges:
            if edge.parent is None:
                body = self._hang(by_name[edge.child], edge, None)
                hanging.append((order[edge.child], body))
            else:
                inside.setdefault(edge.parent, []).append(edge)
        self.writing.bodies += [body for _, body in sorted(hanging, key=lambda item: item[0])]
        waiting = [self.writing.body_of[id(by_name[name])] for name in [*self.tree.roots, *self._held()]]
        while waiting:
            body = waiting.pop()
            assert body.link is not None  # only links are in the tree
            for edge in sorted(inside.get(body.link.name, ()), key=lambda e: order[e.child]):
                self._hang(by_name[edge.child], edge, body)
                waiting.append(self.writing.body_of[id(by_name[edge.child])])
        self._unused_joints()

    def _held(self) -> list[str]:
        return [e.child for e in self.tree.edges if e.parent is None]

    # -- roots --------------------------------------------------------------------------------------------------------

    def _root(self, link: Link) -> BodyPlan:
        """A link that no joint holds."""
        writing, robot = self.writing, self.robot
        pose = robot.pose if link.pose is None else robot.pose @ link.pose
        body = BodyPlan(robot, link, pose)
        writing.body_of[id(link)] = body
        if robot.static:
            return body
        if link.kinematic:
            body.mocap = True
        elif robot.base is Base.FREE:
            # not a joint of the description, but the freedom that its base has
            free = Joint(name=f"{link.name}_free", kind=JointKind.FREE, parent=None, child=link.name, axes=free_axes())
            body.parts = [JointPart(free, "free", 0, free_pose=FreePose(pose, Pose()))]
        elif robot.base is Base.UNSPECIFIED:
            writing.approximate(robot, WHAT, assumed("MuJoCo fixes it to the world"))
            writing.loose_roots.append(link)
        return body

    # -- links that joints hold ---------------------------------------------------------------------------------------

    def _hang(self, link: Link, edge: TreeEdge, parent: BodyPlan | None) -> BodyPlan:
        """The body of a link; what is given back is the outermost, where it takes several to carry its joints."""
        pose, parts = (edge.pose(self.starts), []) if self.robot.static else edge_parts(edge, self.starts)
        base = self.robot.pose if parent is None else None
        if parts and parent is None and len(edge.joints) == 1 and edge.joints[0].kind is JointKind.FREE:
            pose, parts = self._free(edge)
            base = None
        pose = pose if base is None else base @ pose
        chain = runs(parts)
        outermost = above = None
        for number, run in enumerate(chain):
            last = number == len(chain) - 1
            body = BodyPlan(self.robot, link if last else None, pose if number == 0 else Pose(), run)
            body.carries = "" if last else f"{link.name}_carrier"
            if number == 0:
                outermost = body
                if parent is not None:
                    body.hang(parent)
            else:
                assert above is not None  # the run before this one made it
                body.hang(above)
            above = body
        assert above is not None  # there is at least one run, if an empty one
        assert outermost is not None  # likewise
        self._kinematic(link, above, parent)
        self.writing.body_of[id(link)] = above
        self._register(edge.joints, parts)
        if len(chain) > 1:
            how = "they have more freedom than one body of MuJoCo's may have; a body of hardly any mass is between"
            self.writing.approximate(link, "its joints", how)
        return outermost

    def _free(self, edge: TreeEdge) -> tuple[Pose, list[JointPart]]:
        """A free joint to the world: MuJoCo's coordinates are the body's pose in the world."""
        joint = edge.joints[0]
        before, after = self.robot.pose @ joint.parent_pose, joint.child_pose.inverse()
        if edge.reversed:
            before, after = self.robot.pose @ joint.child_pose, joint.parent_pose.inverse()
        placed = FreePose(before, after, edge.reversed)
        return placed.at(self.starts[joint.name]), [JointPart(joint, "free", 0, free_pose=placed)]

    def _kinematic(self, link: Link, body: BodyPlan, parent: BodyPlan | None) -> None:
        if not link.kinematic or self.robot.static:
            return
        if parent is None and not body.parts:
            body.mocap = True
        else:
            how = "MuJoCo moves only bodies so that hang on nothing; this one follows its joints"
            self.writing.drop(link, "that it is moved by the user", how)

    def _register(self, joints: tuple[Joint, ...], parts: list[JointPart]) -> None:
        """Names for the parts of joints, and the report on those that are not one joint of the same kind."""
        for joint in joints:
            register_joint(self.writing, self.robot, joint, [p for p in parts if p.joint is joint])

    def _unused_joints(self) -> None:
        for joint in self.tree.dangling:
            self.writing.drop(joint, "the joint", "it names a link that does not exist, or one link twice")
        for joint in self.robot.joints:
            if not joint.enabled:
                self.writing.drop(joint, "the joint", "it is switched off")


def register_joint(writing: Writing, robot: Robot, joint: Joint, parts: list[JointPart]) -> None:
    """Name the parts of a joint, remember them, and report where they are not one joint of the same kind."""
    writing.parts_of[id(joint)] = parts
    shown = not (joint.name_is_generated and robot.format == mjcf.FORMAT)
    entry = writing.names.add(mjcf.JOINT, joint, robot, shown=shown and len(parts) == 1)
    if not parts:
        if robot.static and joint.n_dofs:
            writing.drop(joint, "the joint", "nothing of its robot ever moves")
        elif not joint.implicit:
            writing.drop(joint, "its name", "MuJoCo has no fixed joints: the body sits in its parent")
        return
    if len(parts) == 1:
        parts[0].name = entry.text
    else:
        for part, suffix in zip(parts, part_suffixes(parts), strict=True):
            part.name = writing.names.new(mjcf.JOINT, joint.name + suffix, robot)
        listed = ", ".join(f"{p.kind} {p.name!r}" for p in parts)
        how = f"it is {listed} of one body; the motion and the coordinates are the same"
        if joint.kind is JointKind.SCREW:
            how = f"it is {listed}, which an equality constraint couples"
        writing.approximate(joint, f"a {joint.kind.value.replace('_', '-')} joint", how)
    if not all(p.keeps_coordinates for p in parts if p.travel is None):
        how = "MuJoCo measures them by the frame of the body; the motion is the same"
        writing.approximate(joint, "its coordinates", how)


def part_name(writing: Writing, part: JointPart) -> str:
    """The name of a joint that something refers to."""
    if not part.name:
        key = ("joint", id(part.joint))
        if key in writing.names.by_node:
            part.name = writing.names.of(mjcf.JOINT, part.joint)
        else:
            part.name = writing.names.new(mjcf.JOINT, part.joint.name)
    return part.name


def carrier(writing: Writing, robot: Robot, joint: Joint) -> BodyPlan:
    """A body that hangs by a joint on the joint's parent, in the place of the joint's child."""
    pose, parts = joint_parts([joint], {joint.name: joint.start})
    links = {link.name: link for link in robot.links}
    parent = None if joint.parent is None else writing.body_of[id(links[joint.parent])]
    body = BodyPlan(robot, None, pose if parent is not None else robot.pose @ pose, parts)
    body.carries = f"{joint.name}_carrier"
    body.name = writing.names.new(mjcf.BODY, body.carries, robot)
    if parent is None:
        writing.bodies.append(body)
    else:
        body.hang(parent)
    register_joint(writing, robot, joint, parts)
    return body


def _check_depth(writing: Writing) -> None:
    level = [(body, 1) for body in writing.bodies]
    while level:
        body, depth = level.pop()
        if depth > MAX_DEPTH:
            raise WriteError(
                f"{writing.report.path}: more than {MAX_DEPTH} links hang on each other, which MuJoCo cannot read"
            )
        level += [(child, depth + 1) for child in body.children]
