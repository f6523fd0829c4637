"""Passes over links and joints: which link hangs on which, in what order, and what moves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kinema.description import (
    Base,
    Joint,
    JointKind,
    KinematicTree,
    Robot,
    TreeEdge,
    World,
    coordinates,
    free_axes,
)
from kinema.foundation import KinemaError, Pose, unique_name

from .breaking import in_tree_otherwise, is_stacked, may_break
from .draft import Body, Draft, DraftJoint, Part
from .motions import Chain, Elementary, chain_of, placed


def gather_bodies(draft: Draft) -> None:
    """Every link of every part, hung on its parent; the world holds what has none."""
    for entity, part in enumerate(draft.parts):
        for robot, names in _robots(part):
            _Hanging(draft, entity, part, robot, names).hang()


def _robots(part: Part) -> list[tuple[Robot, dict[str, str]]]:
    """The robots of a part, each with its links' names as they are unique in the part."""
    if isinstance(part.description, Robot):
        return [(part.description, {link.name: link.name for link in part.description.links})]
    world: World = part.description
    names: dict[int, dict[str, str]] = {id(robot): {} for robot in world.robots}
    for name, robot, link in world.named_links():
        names[id(robot)][link.name] = name
    return [(robot, names[id(robot)]) for robot in world.robots]


class _Hanging:
    """One robot's links, taken into the draft."""

    def __init__(self, draft: Draft, entity: int, part: Part, robot: Robot, names: dict[str, str]) -> None:
        self.draft = draft
        self.entity = entity
        self.part = part
        self.robot = robot
        self.names = names
        self.base = self._base()
        self.start = coordinates(robot.joints, {})
        self.counted_from: dict[str, Pose] = {}
        """Where the coordinates of free joints count from in their file."""
        self.bodies: dict[str, Body] = {}
        self.added: list[DraftJoint] = []

    def _base(self) -> Pose:
        if self.part.pose is None:
            return self.robot.pose
        return self.part.pose if isinstance(self.part.description, Robot) else self.part.pose @ self.robot.pose

    def hang(self) -> None:
        tree = self.draft.tree(self.robot)
        self._report(tree)
        links = {link.name: link for link in self.robot.links}
        breaks = any(map(may_break, self.robot.joints))
        held = set(tree.roots) - set(self.robot.tree().roots) if breaks else set()
        shown = self.robot.link_poses(self.start) if held else {}
        for root in tree.roots:
            own = self.robot.pose.inverse() @ shown[root] if root in held else links[root].pose
            self._root(root, Pose() if own is None else own, flies=root in held or self._free())
        for edge in tree.edges:
            self._edge(edge)
        order = {j.name: i for i, j in enumerate(self.robot.joints)}
        self.added.sort(key=lambda d: order.get(d.name, -1))  # joints that were made up come first
        self.draft.joints += self.added
        self.draft.bodies += self.bodies.values()

    def _report(self, tree: KinematicTree) -> None:
        for joint in tree.dangling:
            self.draft.diagnostics.error(
                "sim.dangling-joint", f'joint "{joint.name}" hangs nowhere', origin=joint.origin
            )
        for joint in in_tree_otherwise(self.robot):
            if is_stacked(self.robot, joint):
                text = "never breaks: it shares its links with others, whose motion it adds to"
            elif not self.robot.static and joint.n_dofs:
                text = "may break: it is simulated by what it holds, and has no coordinates to be set or commanded"
            else:
                continue
            self.draft.diagnostics.note("sim.breaking", f'joint "{joint.name}" {text}', origin=joint.origin)

    def _free(self) -> bool:
        """Whether a root that no joint holds flies."""
        if self.robot.static:
            return False
        if self.part.fixed is not None:
            return not self.part.fixed
        return self.robot.base is Base.FREE

    def _root(self, name: str, pose: Pose, *, flies: bool) -> None:
        link = self.robot.link(name)
        if flies and not link.kinematic:
            joint = Joint(
                name=unique_name(f"{name}_free", {j.name for j in self.robot.joints}),
                kind=JointKind.FREE,
                parent=None,
                child=name,
                axes=free_axes(),
                initial=np.concatenate([pose.position, pose.quaternion]),
                origin=link.origin,
            )
            self.start[joint.name] = joint.start
            self._edge(TreeEdge(None, name, (joint,), reversed=False))
        else:
            self._add(name, None, [self.base @ pose], [])

    def _edge(self, edge: TreeEdge) -> None:
        joints = list(edge.joints)
        to_world = edge.parent is None
        moves = any(j.n_dofs for j in joints)
        if to_world and self.part.fixed is False and not moves:
            self._root(edge.child, edge.pose(self.start), flies=self._free())
            return
        held = to_world and self.part.fixed is True and joints[0].kind is JointKind.FREE
        if held or self.robot.static or self.robot.link(edge.child).kinematic:
            chain: Chain = [edge.pose(self.start)]
            joints = []
        elif to_world and len(joints) == 1 and joints[0].kind is JointKind.FREE and not edge.reversed:
            joints = [self._in_world(joints[0])]
            self._add(edge.child, None, chain_of(TreeEdge(None, edge.child, tuple(joints), reversed=False)), joints)
            return
        else:
            chain = list(chain_of(edge))
        if to_world:
            chain.insert(0, self.base)
        self._add(edge.child, edge.parent, chain, joints)

    def _in_world(self, joint: Joint) -> Joint:
        """A free joint with coordinates that count from the world's origin, wherever the robot's base frame stands."""
        base = self.base @ joint.parent_pose
        if base.is_close(Pose()):
            return joint
        self.counted_from[joint.name] = base
        q = self.start[joint.name]
        pose = base @ Pose.from_quaternion(q[:3], q[3:])
        self.start[joint.name] = np.concatenate([pose.position, pose.quaternion])
        return replace(joint, parent_pose=Pose(), initial=self.start[joint.name])

    def _add(self, name: str, parent: str | None, chain: list[Pose | Elementary], joints: list[Joint]) -> None:
        drafts = [
            DraftJoint(j.name, j, self.robot, self.entity, self.start[j.name], self.counted_from.get(j.name))
            for j in joints
            if j.n_dofs
        ]
        body = Body(
            name=self.names[name],
            link=self.robot.link(name),
            robot=self.robot,
            entity=self.entity,
            parent=None if parent is None else self.bodies[parent],
            chain=chain,
            joints=drafts,
        )
        for d in drafts:
            d.body = body
        self.added += drafts
        self.bodies[name] = body


def number_links(draft: Draft) -> None:
    """Links in the order of the descriptions; coordinates in the order of their joints."""
    for entity, part in enumerate(draft.parts):
        order = {id(link): i for i, link in enumerate(part.description.links)}
        own = sorted((b for b in draft.bodies if b.entity == entity), key=lambda b: order[id(b.link)])
        start = sum(1 for b in draft.bodies if b.entity < entity)
        for i, body in enumerate(own):
            body.index = start + i
    draft.bodies.sort(key=lambda b: b.index)
    for number, joint in enumerate(draft.joints):
        joint.q_start, joint.dof_start = draft.n_qs, draft.n_dofs
        draft.n_qs += joint.joint.n_qs
        draft.n_dofs += joint.joint.n_dofs
        draft.joint_of[joint.entity, id(joint.joint)] = number


def fold_fixed(draft: Draft) -> None:
    """Only motions make frames: what is fixed to something sits in the frame of that.

    Frames are numbered depth first, so that what moves together is computed together.
    """
    children: dict[int, list[Body]] = {}
    for body in draft.bodies:
        children.setdefault(-1 if body.parent is None else body.parent.index, []).append(body)
    waiting = list(reversed(children.get(-1, [])))
    while waiting:
        body = waiting.pop()
        above, start = (-1, Pose()) if body.parent is None else (body.parent.frame, body.parent.place)
        motions, end = placed(start, body.chain)
        for motion in motions:
            draft.frames.append((above, motion, draft.joint_of[body.entity, id(motion.step.joint)]))
            above = len(draft.frames) - 1
        body.motions, body.frame, body.place = motions, above, end
        waiting += reversed(children.get(body.index, []))


def refuse_nothing(draft: Draft) -> None:
    """A scene has at least one link, or a shape that others may touch."""
    scenery = any(part.description.shapes for part in draft.parts if isinstance(part.description, World))
    if not draft.bodies and not scenery:
        raise KinemaError("there is nothing to simulate: add a robot with at least one link")
