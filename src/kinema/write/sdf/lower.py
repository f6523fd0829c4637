"""From a robot to one that SDFormat can say: simple joints, and all links posed where the joints are at zero.

A joint of SDFormat has its frame on the child; where it is on the parent follows from where the two links stand. So
the links are posed at the zero configuration, and then every coordinate means what it meant. The result is a
description again, so that what it says can be compared with what it came from.
"""

from __future__ import annotations

import copy

import numpy as np

from kinema.description import (
    Base,
    Joint,
    JointKind,
    KinematicTree,
    Link,
    Mimic,
    Robot,
    coordinates,
)
from kinema.foundation import Pose, unique_name

from ..bases import WHAT, assumed
from ..chains import NO_START, SMALL_MASS, motion_along, small_inertial
from ..report import Action
from .constraints import joints_of_constraints
from .lowered import Lowered
from .pieces import Chain, Piece, chain_of, coordinate_between, inverse_of
from .start import CLOSED, poses_at, start_of
from .writing import Writing


def lower(writing: Writing, robot: Robot) -> Lowered:
    """The robot in SDFormat's terms; what changes on the way is put on record."""
    return _Lowering(writing, robot).run()


class _Lowering:
    def __init__(self, writing: Writing, robot: Robot) -> None:
        self.writing, self.source = writing, robot
        self.tree: KinematicTree = robot.tree()
        self.link_names = {link.name for link in robot.links}
        self.joint_names = {j.name for j in robot.joints}
        self.made: list[tuple[int, Joint]] = []
        self.order = {id(j): i for i, j in enumerate(robot.joints)}
        self.between: dict[str | None, list[Link]] = {}
        self.start = start_of(robot, self.tree)
        self.poses = poses_at(robot, self.tree, self.start)
        result = copy.copy(robot)
        result.constraints = []
        self.result = Lowered(result)

    def run(self) -> Lowered:
        robot = self.result.robot
        for edge in self.tree.edges:
            self._bundle(edge.joints, is_loop=False)
        for joint in self.tree.loops:
            self._bundle((joint,), is_loop=True)
        for joint in self.tree.dangling:
            self.writing.drop(joint, f"the {joint.kind.value} joint", "a link that it names does not exist")
        for joint in self.source.joints:
            if not joint.enabled and joint not in self.tree.dangling:
                self.writing.drop(joint, f"the {joint.kind.value} joint", "it is disabled, and there is no word for it")
        self._hold_roots()
        robot.joints = [joint for _, joint in sorted(self.made, key=lambda m: m[0])]
        robot.links = []
        for link in self.source.links:
            placed = copy.copy(link)
            placed.pose = self.poses[link.name]
            if link.pose is not None and link.pose.is_close(placed.pose):
                placed.pose = link.pose  # the same to the last digits, but as it was written
            robot.links += [*self.between.get(link.name, ()), placed]
        self._follow()
        joints_of_constraints(self.writing, self.source, self.result, self.poses, self.joint_names)
        self._say_start()
        return self.result

    # -- joints ---------------------------------------------------------------------------------------------------

    def _bundle(self, joints: tuple[Joint, ...], *, is_loop: bool) -> None:
        """One joint, or those that hold a link together, as a chain of simple ones."""
        first = joints[0]
        if first.kind is JointKind.DISTANCE:
            self.writing.drop(first, "the distance joint", "SDFormat has no such joint")
            return
        if any(j.kind is JointKind.FREE for j in joints):
            self._free(joints)
            return
        chain = chain_of(joints)
        parent, child = first.parent, first.child
        if child is None:
            # the world cannot be a child: the motions are the inverse ones then, at the same coordinates
            chain, parent, child = inverse_of(chain), first.child, first.parent
            self._report_turned(chain)
        assert child is not None  # a joint of the world with itself is dangling
        if not chain.pieces:
            self._fixed(joints, parent, child, is_loop=is_loop)
            return
        if is_loop:
            self._close(chain, parent, child)
        self._chain(chain, parent, child)
        self._say_what_became(joints, chain.pieces)

    def _report_turned(self, chain: Chain) -> None:
        for piece in chain.pieces:
            if piece.kind is JointKind.SPHERICAL:
                how = "the world cannot be a child: parent and child are swapped, and so is the rotation"
                self.writing.approximate(piece.joint, "its coordinates", how)
            elif piece.kind is JointKind.UNIVERSAL:
                how = "the world cannot be a child: parent and child are swapped"
                self.writing.approximate(piece.joint, "the order of its axes", how)

    def _fixed(self, joints: tuple[Joint, ...], parent: str | None, child: str, *, is_loop: bool) -> None:
        source = joints[0]
        in_child, in_parent = source.child_pose, source.parent_pose
        if source.child is None:
            in_child, in_parent = in_parent, in_child
        self._make(source, source.name, JointKind.FIXED, (parent, child), in_child)
        if source.kind is not JointKind.FIXED:
            self.writing.approximate(source, f"its kind, {source.kind.value}", "none of its axes moves: it is fixed")
        for other in joints[1:]:
            self.writing.drop(other, "the joint", "it moves nothing, and its link is held by another joint")
        if is_loop:
            self._check_closed(source, self._pose(parent) @ in_parent, self._pose(child) @ in_child, turns=True)

    def _chain(self, chain: Chain, parent: str | None, child: str) -> None:
        here = self._pose(parent)
        for number, piece in enumerate(chain.pieces):
            joint, is_last = piece.joint, number == len(chain.pieces) - 1
            first, second = self._motions(piece)
            frame = here @ piece.before @ first
            here = frame @ second
            name = joint.name if not piece.suffix else unique_name(joint.name + piece.suffix, self.joint_names)
            if is_last:
                target, in_child = child, chain.tail @ second.inverse()
            else:
                target, in_child = self._link_between(child, f"{name}_frame", frame), Pose()
            made = self._make(joint, name, piece.kind, (parent, target), in_child)
            made.closes_loop = joint.closes_loop and is_last
            made.pitch = joint.pitch if piece.kind is JointKind.SCREW else 0.0
            made.axes = [copy.copy(a) for a in piece.axes]
            self._shift(piece, made)
            parent = target

    def _motions(self, piece: Piece) -> tuple[Pose, Pose]:
        """The motions before and after the frame in which a piece's axes are given, where the file poses the links."""
        q = self.start.get(piece.joint.name)
        values = [
            (0.0 if q is None else float(q[number])) - axis.reference
            for number, axis in zip(piece.coordinates, piece.axes, strict=False)
        ]
        if not values:
            return Pose(), Pose()
        first = motion_along(piece.axes[0], values[0])
        if piece.kind is JointKind.SCREW:
            first = first @ Pose.translation(piece.joint.pitch * values[0] / (2 * np.pi) * piece.axes[0].direction)
        return first, Pose() if len(values) == 1 else motion_along(piece.axes[1], values[1])

    def _shift(self, piece: Piece, made: Joint) -> None:
        """Record which coordinates the file's joint has, and count them from where the file poses the links."""
        q = self.start.get(piece.joint.name)
        for i, axis in enumerate(made.axes):
            axis.reference = 0.0
            if i >= len(piece.coordinates):
                continue
            number = piece.coordinates[i]
            self.result.coordinates.setdefault(piece.joint.name, {})[number] = (made.name, i)
            offset = 0.0 if q is None else float(q[number])
            if offset:
                self.result.offsets[piece.joint.name, number] = offset
                axis.lower, axis.upper = axis.lower - offset, axis.upper - offset
                axis.spring_reference -= offset
                if axis.mimic is not None:
                    axis.mimic = copy.copy(axis.mimic)
                    axis.mimic.offset -= offset
                how = f"zero in the file is {offset:g}, where loops are closed; limits and springs are shifted"
                self.writing.approximate(piece.joint, "coordinate offset", how)

    def _make(self, source: Joint, name: str, kind: JointKind, ends: tuple[str | None, str], in_child: Pose) -> Joint:
        """A joint whose frame in its child is known; that in the parent is where the links stand."""
        made = copy.copy(source)
        made.name, made.kind, (made.parent, made.child) = name, kind, ends
        made.child_pose = in_child
        made.parent_pose = self._pose(ends[0]).inverse() @ self._pose(ends[1]) @ in_child
        made.stacked, made.axes, made.initial, made.state = False, [], None, None
        if self.result.chains.get(source.name):
            made.extras, made.attributes = [], {}  # they go with the first one of a chain
        self.result.chains.setdefault(source.name, []).append(name)
        self.result.source_of[name] = source
        self.made.append((self.order.get(id(source), -1), made))
        return made

    def _link_between(self, child: str | None, name: str, pose: Pose) -> str:
        link = Link(name=unique_name(name, self.link_names), pose=pose)
        link.inertial = small_inertial()
        self.between.setdefault(child, []).append(link)
        self.poses[link.name] = pose
        how = f'it is added: it is between the joints that hold "{child}", and has {SMALL_MASS:g} kg'
        self.writing.approximate(("link", link.name), "the link", how)
        return link.name

    def _pose(self, link: str | None) -> Pose:
        return Pose() if link is None else self.poses[link]

    # -- loops ----------------------------------------------------------------------------------------------------

    def _close(self, chain: Chain, parent: str | None, child: str) -> None:
        """Find the coordinate at which a joint's two frames are where the links stand."""
        here, frame = self._pose(parent), self._pose(child) @ chain.tail
        piece = chain.pieces[0]
        if len(chain.pieces) == 1 and len(piece.coordinates) == 1:
            axis = piece.axes[0]
            value = coordinate_between(axis, (here @ piece.before).inverse() @ frame) + axis.reference
            if abs(value) > CLOSED:
                self.start[piece.joint.name] = np.array([value])
        for piece in chain.pieces:
            first, second = self._motions(piece)
            here = here @ piece.before @ first @ second
        is_ball = chain.pieces[-1].kind is JointKind.SPHERICAL
        self._check_closed(chain.pieces[0].joint, here, frame, turns=not is_ball)

    def _check_closed(self, joint: Joint, wanted: Pose, frame: Pose, *, turns: bool) -> None:
        metres, radians = wanted.distance(frame)
        if metres <= CLOSED and (radians <= CLOSED or not turns):
            return
        how = f"its frames are {metres:.3g} m and {radians:.3g} rad apart where the links stand, and meet there"
        self.writing.approximate(joint, "where it is on its parent", how)

    # -- where it starts ------------------------------------------------------------------------------------------

    def _say_start(self) -> None:
        """Where joints start, in the file's coordinates; the file shows them all at zero."""
        made = {joint.name: joint for joint in self.result.robot.joints}
        starts = coordinates(self.source.joints, {})
        loops = {id(j) for j in self.tree.loops}
        for joint in self.source.joints:
            if id(joint) in loops or joint.kind is JointKind.FREE or joint.name not in self.result.chains:
                continue
            if joint.kind is JointKind.SPHERICAL:
                if np.abs(starts[joint.name][1:]).max() > NO_START:
                    self.writing.drop(joint, "the coordinates it starts at", "a ball has no axis to put them on")
                continue
            for number, (name, axis) in self.result.coordinates.get(joint.name, {}).items():
                value = float(starts[joint.name][number]) - self.result.offsets.get((joint.name, number), 0.0)
                self._starts_at(joint, made[name], axis, value)
        for joint in made.values():
            leaders = [made[a.mimic.joint] for a in joint.axes if a.mimic is not None]
            is_led = any(leader.initial is not None for leader in leaders)
            if is_led and joint.initial is None and self.result.source_of[joint.name].is_shown:
                joint.initial = np.zeros(len(joint.axes))  # without a word it would go with its leader

    def _starts_at(self, source: Joint, made: Joint, axis: int, value: float) -> None:
        if abs(value) <= NO_START:
            return
        if made.initial is None:
            made.initial = np.zeros(len(made.axes))
            how = "it is in kinema:initial_position; others start at zero, where the links are posed"
            self.writing.lose(Action.EXTENSION, source, "the coordinates it starts at", how)
        made.initial[axis] = value

    # -- what nothing holds ---------------------------------------------------------------------------------------

    def _free(self, joints: tuple[Joint, ...]) -> None:
        for joint in joints:
            what = f"the {joint.kind.value} joint"
            if joint.kind is JointKind.FREE:
                self.writing.approximate(joint, what, f'nothing holds the link "{joint.child}" in the file')
            else:
                self.writing.drop(joint, what, "it is stacked on a free joint")

    def _hold_roots(self) -> None:
        """Root links that are fixed get a joint that says so; what is not said is left free."""
        source, fixed = self.source, self.source.base is Base.FIXED
        free = [e.child for e in self.tree.edges if any(j.kind is JointKind.FREE for j in e.joints)]
        if source.static:
            return
        if source.base is Base.UNSPECIFIED and self.tree.roots:
            fixed = self.writing.options.base == "world"
            if not fixed:
                self.writing.approximate(source, WHAT, assumed("in SDFormat nothing holds it, so that it falls"))
                self.result.base_is_unspecified = True
        for root in self.tree.roots if fixed else ():
            name = unique_name(f"{root}_to_world", self.joint_names)
            pose = self._pose(root)
            joint = Joint(name=name, name_is_generated=True, kind=JointKind.FIXED, parent=None, child=root)
            joint.parent_pose, joint.implicit = pose, True
            self.made.append((-1, joint))
        if fixed or free:
            self.result.robot.base = Base.FREE if free else Base.FIXED

    # -- the record -----------------------------------------------------------------------------------------------

    def _follow(self) -> None:
        """Let every following axis name the joint of the file that it follows."""
        for joint in self.result.robot.joints:
            for axis in joint.axes:
                mimic = axis.mimic
                if mimic is None:
                    continue
                leader = self.result.coordinates.get(mimic.joint, {}).get(mimic.axis)
                offset = self.result.offsets.get((mimic.joint, mimic.axis), 0.0)
                axis.mimic = None
                if leader is None or joint.kind is JointKind.SPHERICAL:
                    source = self.result.source_of[joint.name]
                    self.writing.drop(source, f'that it follows "{mimic.joint}"', "the file has no such coordinate")
                    continue
                axis.mimic = Mimic(
                    joint=leader[0],
                    axis=leader[1],
                    multiplier=mimic.multiplier,
                    offset=mimic.offset,
                    reference=mimic.reference - offset,
                )

    def _say_what_became(self, joints: tuple[Joint, ...], pieces: list[Piece]) -> None:
        moving = {id(p.joint) for p in pieces}
        weight = f", with links of {SMALL_MASS:g} kg between them" if len(pieces) > 1 else ""
        for joint in joints:
            parts = self.result.chains.get(joint.name, [])
            if id(joint) not in moving:
                self.writing.drop(joint, "the joint", "it moves nothing, and its link is held by other joints")
            elif len(parts) > 1:
                chain = ", ".join(f'"{p}"' for p in parts)
                self.writing.approximate(joint, f"its kind, {joint.kind.value}", f"it is the chain {chain}{weight}")
            elif len(joints) > 1:
                how = f"its link hangs on a chain of joints{weight}"
                self.writing.approximate(joint, "that several joints hold one link", how)
            elif pieces[0].kind is not joint.kind:
                how = f"it is a {pieces[0].kind.value} joint: no other of its axes moves"
                self.writing.approximate(joint, f"its kind, {joint.kind.value}", how)
