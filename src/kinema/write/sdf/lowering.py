"""Lowering of a robot to SDFormat: primitive joints, links posed at the zero configuration, constraints as joints.

An SDFormat joint has its frame on the child link; the frame on the parent follows from the poses of the two links.
Links are therefore posed at the zero configuration, so that all coordinates keep their meaning. Constraints become
loop joints, mimics or gears. The result is a description again and can be compared with the original.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field

import numpy as np

from kinema.core import Pose, unique_name
from kinema.description import (
    Base,
    Constraint,
    ConstraintKind,
    Joint,
    JointKind,
    KinematicTree,
    Link,
    Mimic,
    Robot,
    joint_coordinates,
    spherical_axes,
)
from kinema.tokens import sdf

from ..joint_chains import SMALL_MASS, START_TOLERANCE, axis_transform, follows, linear_coupling, minimal_inertial
from ..loss_report import Action
from ..validation import BASE_LOSS, unspecified_base_text
from .context import SdfContext
from .joint_chains import (
    LOOP_TOLERANCE,
    JointChain,
    SdfChainJoint,
    build_joint_chain,
    invert_joint_chain,
    link_poses_at,
    nearest_coordinate,
    posing_coordinates,
)

# ----------------------------------------------------------------------------------------------- result of the lowering


@dataclass(slots=True, eq=False)
class LoweredSdfRobot:
    """Robot that SDFormat can represent, and the correspondence of its joints to the description."""

    robot: Robot
    """All links have poses; joints are fixed, revolute, continuous, prismatic, ball, universal or screw."""
    coordinates: dict[str, dict[int, tuple[str, int]]] = field(default_factory=dict)
    """Joint of the description -> coordinate index -> joint of the file and axis index."""
    joint_chains: dict[str, list[str]] = field(default_factory=dict)
    """Joint of the description -> its joints in the file."""
    coordinate_offsets: dict[tuple[str, int], float] = field(default_factory=dict)
    """Joint of the description and coordinate index -> its nonzero value at the file's zero."""
    source_joints: dict[str, Joint] = field(default_factory=dict)
    """Joint of the file -> its joint of the description."""
    base_is_unspecified: bool = False
    """Whether the base of the robot is unspecified."""
    written_constraints: set[int] = field(default_factory=set)
    """ids of the constraints that are joints or mimics in the file."""


# ------------------------------------------------------------------------- constraints as loop joints, mimics and gears

_JOINT_KINDS = {ConstraintKind.CONNECT: JointKind.SPHERICAL, ConstraintKind.WELD: JointKind.FIXED}


def lower_constraints(
    ctx: SdfContext, source: Robot, lowered: LoweredSdfRobot, poses: dict[str, Pose], taken: set[str]
) -> None:
    """Lower all constraints to loop joints, gears or mimics of the lowered robot; others are reported as dropped."""
    for constraint in source.constraints:
        what = f"the {constraint.kind.value} constraint"
        if not constraint.active:
            ctx.report_dropped(constraint, what, "it is not active")
        elif constraint.kind in _JOINT_KINDS:
            _add_loop_joint(ctx, lowered, constraint, poses, taken)
        elif constraint.kind is ConstraintKind.GEAR:
            _add_gear(ctx, lowered, constraint, poses)
        elif not _add_mimic(ctx, source, lowered, constraint):
            ctx.report_dropped(constraint, what, "SDFormat has no such constraint")


def _add_loop_joint(
    ctx: SdfContext, lowered: LoweredSdfRobot, constraint: Constraint, poses: dict[str, Pose], taken: set[str]
) -> None:
    """Add a connect or weld constraint as a loop-closing ball or fixed joint; reports frames that do not coincide."""
    parent, child = (constraint.a, constraint.pose_a), (constraint.b, constraint.pose_b)
    if child[0] is None:
        parent, child = child, parent
    known = all(end is None or end in poses for end, _ in (parent, child))
    if not known or parent[0] == child[0]:
        ctx.report_dropped(constraint, f"the {constraint.kind.value} constraint", "it does not connect two links")
        return
    kind = _JOINT_KINDS[constraint.kind]
    wanted, frame = (_link_pose(poses, end) @ pose for end, pose in (parent, child))
    name = unique_name(constraint.name or constraint.kind.value, taken)
    joint = Joint(
        name=name,
        origin=constraint.origin,
        kind=kind,
        parent=parent[0],
        child=child[0],
        parent_pose=_link_pose(poses, parent[0]).inverse() @ frame,
        child_pose=child[1],
        axes=spherical_axes() if kind is JointKind.SPHERICAL else [],
        closes_loop=True,
        attributes={k: v for k, v in constraint.attributes.items() if k.startswith(sdf.KEY_PREFIX)},
    )
    lowered.robot.joints.append(joint)
    lowered.written_constraints.add(id(constraint))
    word = "ball" if kind is JointKind.SPHERICAL else "fixed"
    ctx.report_approximated(constraint, f"the {constraint.kind.value} constraint", f'it is the {word} joint "{name}"')
    metres, radians = wanted.distance(frame)
    if metres > LOOP_TOLERANCE or (radians > LOOP_TOLERANCE and kind is JointKind.FIXED):
        how = f"its frames are {metres:.3g} m and {radians:.3g} rad apart where the links stand, and meet there"
        ctx.report_approximated(constraint, "where it is on its first link", how)


def _add_gear(ctx: SdfContext, lowered: LoweredSdfRobot, constraint: Constraint, poses: dict[str, Pose]) -> None:
    """Copy a gear constraint to the lowered robot; dropped if its links are missing."""
    ends = (constraint.a, constraint.b, constraint.reference)
    if constraint.b is None or constraint.a == constraint.b or any(e is not None and e not in poses for e in ends):
        ctx.report_dropped(constraint, "the gear constraint", "its second link is none that can turn")
        return
    named = copy.copy(constraint)
    named.name = constraint.name or "gear"
    lowered.robot.constraints.append(named)
    lowered.written_constraints.add(id(constraint))


def _add_mimic(ctx: SdfContext, source: Robot, lowered: LoweredSdfRobot, constraint: Constraint) -> bool:
    """Write a linear joint constraint as a mimic; returns False if that is impossible."""
    line = linear_coupling(source, constraint)
    if line is None or constraint.a is None or constraint.b is None:
        return False
    keys = (constraint.a, constraint.axis_a), (constraint.b, constraint.axis_b)
    follower, leader = (lowered.coordinates.get(joint, {}).get(axis) for joint, axis in keys)
    if follower is None or leader is None or follower == leader:
        return False
    joints = {j.name: j for j in lowered.robot.joints}
    axis = joints[follower[0]].axes[follower[1]]
    if axis.mimic is not None or follows(leader, follower, lambda key: _mimic_leader(joints, key)):
        return False
    zeros = [lowered.coordinate_offsets.get(key, 0.0) for key in keys]
    offset, factor = line[0] - zeros[0], line[1]
    axis.mimic = Mimic(joint=leader[0], axis=leader[1], multiplier=factor, offset=offset, reference=-zeros[1])
    lowered.written_constraints.add(id(constraint))
    how = f'joint "{follower[0]}" follows "{leader[0]}" in the file'
    ctx.report_approximated(constraint, "the joint constraint", how)
    return True


def _mimic_leader(joints: dict[str, Joint], joint_axis: tuple[str, int]) -> tuple[str, int] | None:
    mimic = joints[joint_axis[0]].axes[joint_axis[1]].mimic
    return None if mimic is None else (mimic.joint, mimic.axis)


def _link_pose(poses: dict[str, Pose], link: str | None) -> Pose:
    return Pose() if link is None else poses[link]


# ----------------------------------------------------------------------------------------- lowering of joints and links


def lower_to_sdf(ctx: SdfContext, robot: Robot) -> LoweredSdfRobot:
    """Lower a robot to SDFormat; changes are added to the loss report."""
    return _SdfLowering(ctx, robot).run()


class _SdfLowering:
    """Lowering of one robot: chains of joints, loop closure, roots, mimics and initial coordinates."""

    def __init__(self, ctx: SdfContext, robot: Robot) -> None:
        self.ctx, self.source = ctx, robot
        self.tree: KinematicTree = robot.tree()
        self.link_names = {link.name for link in robot.links}
        self.joint_names = {j.name for j in robot.joints}
        self.file_joints: list[tuple[int, Joint]] = []
        self.order = {id(j): i for i, j in enumerate(robot.joints)}
        self.intermediate_links: dict[str | None, list[Link]] = {}
        self.posing_coordinates = posing_coordinates(robot, self.tree)
        self.poses = link_poses_at(robot, self.tree, self.posing_coordinates)
        result = copy.copy(robot)
        result.constraints = []
        self.result = LoweredSdfRobot(result)

    def run(self) -> LoweredSdfRobot:
        """Lower all joints, links and constraints and return the result."""
        robot = self.result.robot
        for edge in self.tree.edges:
            self._lower_joints(edge.joints, is_loop=False)
        for joint in self.tree.loops:
            self._lower_joints((joint,), is_loop=True)
        for joint in self.tree.dangling:
            self.ctx.report_dropped(joint, f"the {joint.kind.value} joint", "a link that it names does not exist")
        for joint in self.source.joints:
            if not joint.enabled and joint not in self.tree.dangling:
                self.ctx.report_dropped(
                    joint, f"the {joint.kind.value} joint", "it is disabled, and there is no word for it"
                )
        self._fix_roots()
        robot.joints = [joint for _, joint in sorted(self.file_joints, key=lambda m: m[0])]
        robot.links = []
        for link in self.source.links:
            placed = copy.copy(link)
            placed.pose = self.poses[link.name]
            if link.pose is not None and link.pose.is_close(placed.pose):
                placed.pose = link.pose  # the same to the last digits, but as it was written
            robot.links += [*self.intermediate_links.get(link.name, ()), placed]
        self._resolve_mimics()
        lower_constraints(self.ctx, self.source, self.result, self.poses, self.joint_names)
        self._record_initial_coordinates()
        return self.result

    # -- joints ---------------------------------------------------------------------------------------------------

    def _lower_joints(self, joints: tuple[Joint, ...], *, is_loop: bool) -> None:
        """Lower a joint, or the stacked joints of an edge, to a chain of joints."""
        first = joints[0]
        if first.kind is JointKind.DISTANCE:
            self.ctx.report_dropped(first, "the distance joint", "SDFormat has no such joint")
            return
        if any(j.kind is JointKind.FREE for j in joints):
            self._report_free_joints(joints)
            return
        chain = build_joint_chain(joints)
        parent, child = first.parent, first.child
        if child is None:
            # the world cannot be a child: the motions are the inverse ones then, at the same coordinates
            chain, parent, child = invert_joint_chain(chain), first.child, first.parent
            self._report_reversed(chain)
        assert child is not None  # a joint of the world with itself is dangling
        if not chain.joints:
            self._add_fixed_joint(joints, parent, child, is_loop=is_loop)
            return
        if is_loop:
            self._close_loop(chain, parent, child)
        self._add_chain(chain, parent, child)
        self._report_joint_changes(joints, chain.joints)

    def _report_reversed(self, chain: JointChain) -> None:
        """Report changed coordinates of joints whose parent and child were swapped."""
        for piece in chain.joints:
            if piece.kind is JointKind.SPHERICAL:
                how = "the world cannot be a child: parent and child are swapped, and so is the rotation"
                self.ctx.report_approximated(piece.joint, "its coordinates", how)
            elif piece.kind is JointKind.UNIVERSAL:
                how = "the world cannot be a child: parent and child are swapped"
                self.ctx.report_approximated(piece.joint, "the order of its axes", how)

    def _add_fixed_joint(self, joints: tuple[Joint, ...], parent: str | None, child: str, *, is_loop: bool) -> None:
        """Add a fixed joint for joints without moving axes; reports other stacked joints as dropped."""
        source = joints[0]
        in_child, in_parent = source.child_pose, source.parent_pose
        if source.child is None:
            in_child, in_parent = in_parent, in_child
        self._add_joint(source, source.name, JointKind.FIXED, (parent, child), in_child)
        if source.kind is not JointKind.FIXED:
            self.ctx.report_approximated(
                source, f"its kind, {source.kind.value}", "none of its axes moves: it is fixed"
            )
        for other in joints[1:]:
            self.ctx.report_dropped(other, "the joint", "it moves nothing, and its link is held by another joint")
        if is_loop:
            self._check_closed(
                source, self._link_pose(parent) @ in_parent, self._link_pose(child) @ in_child, check_rotation=True
            )

    def _add_chain(self, chain: JointChain, parent: str | None, child: str) -> None:
        """Add the joints of a chain with intermediate links between them."""
        here = self._link_pose(parent)
        for number, piece in enumerate(chain.joints):
            joint, is_last = piece.joint, number == len(chain.joints) - 1
            first, second = self._chain_joint_transforms(piece)
            frame = here @ piece.before @ first
            here = frame @ second
            name = joint.name if not piece.suffix else unique_name(joint.name + piece.suffix, self.joint_names)
            if is_last:
                target, in_child = child, chain.child_frame @ second.inverse()
            else:
                target, in_child = self._add_intermediate_link(child, f"{name}_frame", frame), Pose()
            made = self._add_joint(joint, name, piece.kind, (parent, target), in_child)
            made.closes_loop = joint.closes_loop and is_last
            made.pitch = joint.pitch if piece.kind is JointKind.SCREW else 0.0
            made.axes = [copy.copy(a) for a in piece.axes]
            self._shift_coordinates(piece, made)
            parent = target

    def _chain_joint_transforms(self, chain_joint: SdfChainJoint) -> tuple[Pose, Pose]:
        """Transforms of a chain joint's first and second axis at the posing coordinates."""
        q = self.posing_coordinates.get(chain_joint.joint.name)
        values = [
            (0.0 if q is None else float(q[number])) - axis.reference
            for number, axis in zip(chain_joint.coordinates, chain_joint.axes, strict=False)
        ]
        if not values:
            return Pose(), Pose()
        first = axis_transform(chain_joint.axes[0], values[0])
        if chain_joint.kind is JointKind.SCREW:
            first = first @ Pose.translation(
                chain_joint.joint.pitch * values[0] / (2 * np.pi) * chain_joint.axes[0].direction
            )
        return first, Pose() if len(values) == 1 else axis_transform(chain_joint.axes[1], values[1])

    def _shift_coordinates(self, chain_joint: SdfChainJoint, file_joint: Joint) -> None:
        """Record the coordinates of a file joint and shift limits, springs and mimics to the posing coordinates."""
        q = self.posing_coordinates.get(chain_joint.joint.name)
        for i, axis in enumerate(file_joint.axes):
            axis.reference = 0.0
            if i >= len(chain_joint.coordinates):
                continue
            number = chain_joint.coordinates[i]
            self.result.coordinates.setdefault(chain_joint.joint.name, {})[number] = (file_joint.name, i)
            offset = 0.0 if q is None else float(q[number])
            if offset:
                self.result.coordinate_offsets[chain_joint.joint.name, number] = offset
                axis.lower, axis.upper = axis.lower - offset, axis.upper - offset
                axis.spring_reference -= offset
                if axis.mimic is not None:
                    axis.mimic = copy.copy(axis.mimic)
                    axis.mimic.offset -= offset
                how = f"zero in the file is {offset:g}, where loops are closed; limits and springs are shifted"
                self.ctx.report_approximated(chain_joint.joint, "coordinate offset", how)

    def _add_joint(
        self, source: Joint, name: str, kind: JointKind, ends: tuple[str | None, str], in_child: Pose
    ) -> Joint:
        """Add a joint with a given frame in its child; the frame in the parent follows from the link poses."""
        made = copy.copy(source)
        made.name, made.kind, (made.parent, made.child) = name, kind, ends
        made.child_pose = in_child
        made.parent_pose = self._link_pose(ends[0]).inverse() @ self._link_pose(ends[1]) @ in_child
        made.stacked, made.axes, made.initial, made.state = False, [], None, None
        if self.result.joint_chains.get(source.name):
            made.extras, made.attributes = [], {}  # they go with the first one of a chain
        self.result.joint_chains.setdefault(source.name, []).append(name)
        self.result.source_joints[name] = source
        self.file_joints.append((self.order.get(id(source), -1), made))
        return made

    def _add_intermediate_link(self, child: str | None, name: str, pose: Pose) -> str:
        """Add a link of minimal mass between two joints of a chain and return its name."""
        link = Link(name=unique_name(name, self.link_names), pose=pose)
        link.inertial = minimal_inertial()
        self.intermediate_links.setdefault(child, []).append(link)
        self.poses[link.name] = pose
        how = f'it is added: it is between the joints that hold "{child}", and has {SMALL_MASS:g} kg'
        self.ctx.report_approximated(("link", link.name), "the link", how)
        return link.name

    def _link_pose(self, link: str | None) -> Pose:
        return Pose() if link is None else self.poses[link]

    # -- loops ----------------------------------------------------------------------------------------------------

    def _close_loop(self, chain: JointChain, parent: str | None, child: str) -> None:
        """Find the coordinate at which the two frames of a loop-closing joint coincide, and check the closure."""
        here, frame = self._link_pose(parent), self._link_pose(child) @ chain.child_frame
        piece = chain.joints[0]
        if len(chain.joints) == 1 and len(piece.coordinates) == 1:
            axis = piece.axes[0]
            value = nearest_coordinate(axis, (here @ piece.before).inverse() @ frame) + axis.reference
            if abs(value) > LOOP_TOLERANCE:
                self.posing_coordinates[piece.joint.name] = np.array([value])
        for piece in chain.joints:
            first, second = self._chain_joint_transforms(piece)
            here = here @ piece.before @ first @ second
        is_ball = chain.joints[-1].kind is JointKind.SPHERICAL
        self._check_closed(chain.joints[0].joint, here, frame, check_rotation=not is_ball)

    def _check_closed(self, joint: Joint, frame_on_parent: Pose, frame_on_child: Pose, *, check_rotation: bool) -> None:
        """Report a loop-closing joint whose frames do not coincide at the posed configuration."""
        metres, radians = frame_on_parent.distance(frame_on_child)
        if metres <= LOOP_TOLERANCE and (radians <= LOOP_TOLERANCE or not check_rotation):
            return
        how = f"its frames are {metres:.3g} m and {radians:.3g} rad apart where the links stand, and meet there"
        self.ctx.report_approximated(joint, "where it is on its parent", how)

    # -- where it starts ------------------------------------------------------------------------------------------

    def _record_initial_coordinates(self) -> None:
        """Store nonzero initial coordinates of the file's joints, relative to the posing coordinates."""
        made = {joint.name: joint for joint in self.result.robot.joints}
        starts = joint_coordinates(self.source.joints, {})
        loops = {id(j) for j in self.tree.loops}
        for joint in self.source.joints:
            if id(joint) in loops or joint.kind is JointKind.FREE or joint.name not in self.result.joint_chains:
                continue
            if joint.kind is JointKind.SPHERICAL:
                if np.abs(starts[joint.name][1:]).max() > START_TOLERANCE:
                    self.ctx.report_dropped(joint, "the coordinates it starts at", "a ball has no axis to put them on")
                continue
            for number, (name, axis) in self.result.coordinates.get(joint.name, {}).items():
                value = float(starts[joint.name][number]) - self.result.coordinate_offsets.get(
                    (joint.name, number), 0.0
                )
                self._set_initial_coordinate(joint, made[name], axis, value)
        for joint in made.values():
            leaders = [made[a.mimic.joint] for a in joint.axes if a.mimic is not None]
            is_led = any(leader.initial is not None for leader in leaders)
            if is_led and joint.initial is None and self.result.source_joints[joint.name].has_authored_start:
                joint.initial = np.zeros(len(joint.axes))  # without a word it would go with its leader

    def _set_initial_coordinate(self, source: Joint, file_joint: Joint, axis_index: int, value: float) -> None:
        """Set one initial coordinate of a file joint and report it as an extension."""
        if abs(value) <= START_TOLERANCE:
            return
        if file_joint.initial is None:
            file_joint.initial = np.zeros(len(file_joint.axes))
            how = "it is in kinema:initial_position; others start at zero, where the links are posed"
            self.ctx.report_loss(Action.EXTENSION, source, "the coordinates it starts at", how)
        file_joint.initial[axis_index] = value

    # -- what nothing holds ---------------------------------------------------------------------------------------

    def _report_free_joints(self, joints: tuple[Joint, ...]) -> None:
        """Report free joints, which SDFormat represents by the absence of a joint."""
        for joint in joints:
            what = f"the {joint.kind.value} joint"
            if joint.kind is JointKind.FREE:
                self.ctx.report_approximated(joint, what, f'nothing holds the link "{joint.child}" in the file')
            else:
                self.ctx.report_dropped(joint, what, "it is stacked on a free joint")

    def _fix_roots(self) -> None:
        """Add fixed joints to the world for fixed root links; unspecified bases stay free, with a report."""
        source, fixed = self.source, self.source.base is Base.FIXED
        free = [e.child for e in self.tree.edges if any(j.kind is JointKind.FREE for j in e.joints)]
        if source.static:
            return
        if source.base is Base.UNSPECIFIED and self.tree.roots:
            fixed = self.ctx.options.fixes_base
            if not fixed:
                self.ctx.report_approximated(
                    source, BASE_LOSS, unspecified_base_text("in SDFormat nothing holds it, so that it falls")
                )
                self.result.base_is_unspecified = True
        for root in self.tree.roots if fixed else ():
            name = unique_name(f"{root}_to_world", self.joint_names)
            pose = self._link_pose(root)
            joint = Joint(name=name, name_is_generated=True, kind=JointKind.FIXED, parent=None, child=root)
            joint.parent_pose, joint.implicit = pose, True
            self.file_joints.append((-1, joint))
        if fixed or free:
            self.result.robot.base = Base.FREE if free else Base.FIXED

    # -- the record -----------------------------------------------------------------------------------------------

    def _resolve_mimics(self) -> None:
        """Redirect mimics to the joints of the file; mimics of missing coordinates are reported as dropped."""
        for joint in self.result.robot.joints:
            for axis in joint.axes:
                mimic = axis.mimic
                if mimic is None:
                    continue
                leader = self.result.coordinates.get(mimic.joint, {}).get(mimic.axis)
                offset = self.result.coordinate_offsets.get((mimic.joint, mimic.axis), 0.0)
                axis.mimic = None
                if leader is None or joint.kind is JointKind.SPHERICAL:
                    source = self.result.source_joints[joint.name]
                    self.ctx.report_dropped(
                        source, f'that it follows "{mimic.joint}"', "the file has no such coordinate"
                    )
                    continue
                axis.mimic = Mimic(
                    joint=leader[0],
                    axis=leader[1],
                    multiplier=mimic.multiplier,
                    offset=mimic.offset,
                    reference=mimic.reference - offset,
                )

    def _report_joint_changes(self, joints: tuple[Joint, ...], chain_joints: list[SdfChainJoint]) -> None:
        """Report joints that became chains, were stacked, changed their type or move nothing."""
        moving = {id(p.joint) for p in chain_joints}
        weight = f", with links of {SMALL_MASS:g} kg between them" if len(chain_joints) > 1 else ""
        for joint in joints:
            parts = self.result.joint_chains.get(joint.name, [])
            if id(joint) not in moving:
                self.ctx.report_dropped(joint, "the joint", "it moves nothing, and its link is held by other joints")
            elif len(parts) > 1:
                chain = ", ".join(f'"{p}"' for p in parts)
                self.ctx.report_approximated(joint, f"its kind, {joint.kind.value}", f"it is the chain {chain}{weight}")
            elif len(joints) > 1:
                how = f"its link hangs on a chain of joints{weight}"
                self.ctx.report_approximated(joint, "that several joints hold one link", how)
            elif chain_joints[0].kind is not joint.kind:
                how = f"it is a {chain_joints[0].kind.value} joint: no other of its axes moves"
                self.ctx.report_approximated(joint, f"its kind, {joint.kind.value}", how)
