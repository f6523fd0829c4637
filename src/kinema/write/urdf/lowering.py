"""Lowering of a robot to URDF: one tree of primitive joints whose frames are their child link frames, and mimic joints.

The result is a description again and can be compared with the original.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from kinema.core import Pose, WriteError, unique_name
from kinema.description import (
    Axis,
    AxisMotion,
    Base,
    Constraint,
    Joint,
    JointKind,
    KinematicTree,
    Link,
    Mimic,
    Robot,
    TreeEdge,
    joint_transform,
)
from kinema.tokens import urdf

from ..joint_chains import SMALL_MASS, follows, linear_coupling, minimal_inertial
from .context import UrdfContext
from .joint_chains import UrdfChainJoint, as_urdf_planar_joint, decompose_edge

# ----------------------------------------------------------------------------------------- lowering of joints and links


@dataclass(slots=True, eq=False)
class LoweredUrdfRobot:
    """Robot that URDF can represent, and the correspondence of its joints to the description."""

    robot: Robot
    """Joints are fixed, revolute, continuous, prismatic, planar or free; `child_pose` is the identity."""
    coordinates: dict[str, dict[int, str]] = field(default_factory=dict)
    """Joint of the description -> coordinate index -> joint of the file with this coordinate."""
    joint_chains: dict[str, list[str]] = field(default_factory=dict)
    """Joint of the description -> its joints in the file."""
    screw_travels: dict[str, float] = field(default_factory=dict)
    """Screw joint of the description -> travel [m] per radian."""
    world_link: str = ""
    """Name of the added link that represents the world; empty if there is none."""


def lower_to_urdf(ctx: UrdfContext) -> LoweredUrdfRobot:
    """Lower the robot of a context to URDF; changes are added to the loss report."""
    return _UrdfLowering(ctx).run()


class _UrdfLowering:
    """Lowering of one robot: world link, chains of joints, intermediate links and losses."""

    def __init__(self, ctx: UrdfContext) -> None:
        self.ctx = ctx
        self.source = ctx.robot
        self.tree: KinematicTree = self.source.tree()
        self.links_by_name = {link.name: link for link in self.source.links}
        self.link_names = set(self.links_by_name)
        self.joint_names = {j.name for j in self.source.joints}
        self.intermediate_links: dict[str, list[Link]] = {}
        """Links that were made up, by the link of the description that comes after them."""
        self.file_joints: list[tuple[int, Joint]] = []
        """Joints with their place in the order of the file."""
        self.order = {id(j): i for i, j in enumerate(self.source.joints)}
        self.world_link = ""
        """Name of the link that stands for the world; empty where there is none."""
        robot = copy.copy(self.source)
        robot.collision = type(robot.collision)()
        robot.base, robot.pose, robot.root, robot.static = Base.UNSPECIFIED, Pose(), None, False
        self.result = LoweredUrdfRobot(robot)

    def run(self) -> LoweredUrdfRobot:
        """Lower all edges of the kinematic tree and return the result."""
        if not self.source.links:
            raise WriteError(f'robot "{self.source.name}" has no links, and URDF needs one')
        if self._needs_world_link():
            self.world_link = self.result.world_link = unique_name("world", self.link_names)
            self._report_added_link(self.world_link, "it stands for the world, on which the robot hangs")
        for name in self.tree.roots:
            self._add_root(name)
        for edge in self.tree.edges:
            if edge.parent is None and not self.world_link:
                self._release_root(edge)
            else:
                self._lower_edge(edge)
        robot = self.result.robot
        robot.joints = [joint for _, joint in sorted(self.file_joints, key=lambda m: m[0])]
        robot.links = [Link(name=self.world_link)] if self.world_link else []
        for link in self.source.links:
            robot.links += [*self.intermediate_links.get(link.name, ()), link]
        if self.ctx.options.frames:
            self._add_frame_links()
        return self.result

    def _add_frame_links(self) -> None:
        """Add named frames as massless links with fixed joints."""
        robot = self.result.robot
        for frame in self.source.frames:
            parent = self.world_link if frame.link is None else frame.link
            if parent not in self.link_names:
                self.ctx.report_dropped(frame, "the frame", "the link that it is on is not in the file")
                continue
            link = Link(name=unique_name(frame.name or "frame", self.link_names), origin=frame.origin)
            name = unique_name(f"{link.name}_joint", self.joint_names)
            pose = self.source.pose @ frame.pose if frame.link is None else frame.pose
            robot.links.append(link)
            robot.joints.append(
                Joint(name=name, kind=JointKind.FIXED, parent=parent, child=link.name, parent_pose=pose)
            )

    # -- the base -------------------------------------------------------------------------------------------------

    def _needs_world_link(self) -> bool:
        """Whether a world link is needed because no link of the robot can be the root of the file at its pose."""
        held = [e for e in self.tree.edges if e.parent is None]
        if self.ctx.options.fixes_base or len(self.tree.roots) + len(held) != 1:
            return True
        if held:
            edge = held[0]
            if all(j.kind is JointKind.FREE for j in edge.joints):
                return False
            is_rigid = all(j.implicit and not j.n_dofs for j in edge.joints)
            return not (is_rigid and (self.source.pose @ _zero_pose(edge)).is_close(Pose()))
        return self.source.base is not Base.FREE and not self._root_pose(self.tree.roots[0]).is_close(Pose())

    def _root_pose(self, name: str) -> Pose:
        """World pose of a root link."""
        own = self.links_by_name[name].pose
        return self.source.pose if own is None else self.source.pose @ own

    def _add_root(self, name: str) -> None:
        """Join a root link to the world link by a fixed or floating joint, or report the loss of its base."""
        pose = self._root_pose(name)
        is_free = self.source.base is Base.FREE
        if self.world_link:
            self._add_joint(
                Joint(
                    name=unique_name(f"{name}_to_{self.world_link}", self.joint_names),
                    kind=JointKind.FREE if is_free else JointKind.FIXED,
                    parent=self.world_link,
                    child=name,
                    parent_pose=pose,
                )
            )
            return
        if is_free:
            how = f'whatever loads the file decides what holds its root link "{name}"; often it is fixed'
            self.ctx.report_approximated(self.source, "that its base is free", how)
            self._report_displaced_root(pose)
        elif self.source.base is Base.FIXED:
            self._report_fixed_base(name)

    def _release_root(self, edge: TreeEdge) -> None:
        """Report the joint between the world and the file's root link, which URDF cannot represent."""
        joint = edge.joints[0]
        if joint.kind is not JointKind.FREE:
            self._report_fixed_base(edge.child)
            return
        what = f'that the link "{edge.child}" is free'
        how = "the link is the root of the file, and whatever loads it decides what holds the root"
        self.ctx.report_dropped(joint, what, how)
        self._report_displaced_root(self.source.pose @ _zero_pose(edge))

    def _report_fixed_base(self, link: str) -> None:
        how = f'whatever loads the file decides what holds its root link "{link}"; most hold it fixed'
        self.ctx.report_approximated(self.source, "that it is fixed to the world", how)

    def _report_displaced_root(self, pose: Pose) -> None:
        if not pose.is_close(Pose()):
            x, y, z = pose.position.tolist()
            how = "a root link has no pose in URDF"
            self.ctx.report_dropped(self.source, f"where it stands, {x:g} {y:g} {z:g} with its rotation", how)

    # -- joints ---------------------------------------------------------------------------------------------------

    def _lower_edge(self, edge: TreeEdge) -> None:
        """Lower the stacked joints of an edge to a planar joint or a chain of joints with intermediate links."""
        planar = as_urdf_planar_joint(edge, self.source.format == urdf.FORMAT)
        if planar is not None:
            planar.parent, planar.parent_pose = (
                edge.parent or self.world_link,
                self._pose_from_world(edge, planar.parent_pose),
            )
            self._record_source(edge.joints[0], planar.name)
            self._add_joint(planar, edge.joints[0])
            return
        steps, tail = decompose_edge(edge)
        if not steps:
            self._add_fixed_joint(edge, tail)
            return
        absorbed = steps[-1].absorb_end_pose(tail)
        if absorbed is not None:
            steps[-1] = absorbed
        parent = self.world_link if edge.parent is None else edge.parent
        for number, step in enumerate(steps):
            is_last = number == len(steps) - 1
            name = self._joint_name(step)
            if is_last and absorbed is not None:
                child = edge.child
            else:
                child = self._add_frame_link(edge.child, step, name, is_last=is_last)
            pose = step.before if number else self._pose_from_world(edge, step.before)
            self._add_joint(_build_joint(step, name, parent, child, pose), step.joint)
            parent = child
        if absorbed is None:
            name = unique_name(f"{self.file_joints[-1][1].name}_offset", self.joint_names)
            self._add_joint(
                Joint(name=name, kind=JointKind.FIXED, parent=parent, child=edge.child, parent_pose=tail),
                steps[-1].joint,
            )
        self._report_joint_changes(edge, steps)

    def _pose_from_world(self, edge: TreeEdge, pose: Pose) -> Pose:
        """Pose of a joint in its parent; joints to the world are relative to the robot pose."""
        return self.source.pose @ pose if edge.parent is None else pose

    def _joint_name(self, chain_joint: UrdfChainJoint) -> str:
        """Name of a chain joint in the file; records its source joint, coordinate and screw travel."""
        name = chain_joint.joint.name
        if chain_joint.suffix:
            name = unique_name(name + chain_joint.suffix, self.joint_names)
        self._record_source(chain_joint.joint, name)
        if chain_joint.travel_per_radian is not None:
            self.result.screw_travels[chain_joint.joint.name] = chain_joint.travel_per_radian
        if chain_joint.coordinate is not None:
            self.result.coordinates.setdefault(chain_joint.joint.name, {})[chain_joint.coordinate] = name
        return name

    def _record_source(self, source: Joint, name: str) -> None:
        self.result.joint_chains.setdefault(source.name, []).append(name)
        self.ctx.source_joints[name] = source

    def _add_frame_link(self, child: str, chain_joint: UrdfChainJoint, joint_name: str, *, is_last: bool) -> str:
        """Add an intermediate link after a chain joint; the last one is massless and fixed to the child link."""
        link = Link(name=unique_name(f"{joint_name}_frame", self.link_names))
        self.intermediate_links.setdefault(child, []).append(link)
        if is_last:
            how = (
                f'the axis of "{chain_joint.joint.name}" does not pass through the origin of "{child}"; it has no mass'
            )
        else:
            link.inertial = minimal_inertial()
            how = f'it is between the joints that hold "{child}", and has {SMALL_MASS:g} kg'
        self._report_added_link(link.name, how)
        return link.name

    def _report_added_link(self, link: str, how: str) -> None:
        self.ctx.report_approximated(("link", link), "the link", f"it is added: {how}")

    def _add_fixed_joint(self, edge: TreeEdge, end_pose: Pose) -> None:
        """Add a fixed joint for an edge without moving axes; reports other stacked joints as dropped."""
        source = edge.joints[0]
        joint = Joint(name=source.name, kind=JointKind.FIXED, parent=edge.parent or self.world_link, child=edge.child)
        joint.parent_pose = self._pose_from_world(edge, end_pose)
        _copy_preserved(source, joint)
        self._record_source(source, source.name)
        self._add_joint(joint, source)
        if source.kind is not JointKind.FIXED:
            self.ctx.report_approximated(
                source, f"its kind, {source.kind.value}", "none of its axes moves: it is fixed"
            )
        for other in edge.joints[1:]:
            self.ctx.report_dropped(other, "the joint", "it moves nothing, and URDF has one joint between two links")

    def _add_joint(self, joint: Joint, source: Joint | None = None) -> None:
        """Store a joint with the order of its source joint; joints without source come first."""
        self.file_joints.append((-1 if source is None else self.order[id(source)], joint))

    # -- the record -----------------------------------------------------------------------------------------------

    def _report_joint_changes(self, edge: TreeEdge, chain_joints: list[UrdfChainJoint]) -> None:
        """Report joints that became chains, were stacked or move nothing."""
        moving = {id(s.joint) for s in chain_joints}
        for joint in edge.joints:
            parts = self.result.joint_chains.get(joint.name, [])
            if id(joint) not in moving:
                self.ctx.report_dropped(joint, "the joint", "it moves nothing, and its link is held by other joints")
            elif joint.kind is JointKind.FREE:
                self._report_floating_coordinates(edge, joint)
            elif len(parts) > 1:
                chain = ", ".join(f'"{p}"' for p in parts)
                singular = "; at a quarter turn of the second, two of them turn about one line"
                more = singular if joint.kind is JointKind.SPHERICAL else ""
                how = f"it is the chain of joints {chain}{self._link_mass_text(chain_joints)}{more}"
                self.ctx.report_approximated(joint, f"its kind, {joint.kind.value}", how)
            elif len(edge.joints) > 1:
                how = f"its link hangs on a chain of joints{self._link_mass_text(chain_joints)}"
                self.ctx.report_approximated(joint, "that several joints hold one link", how)

    @staticmethod
    def _link_mass_text(chain_joints: list[UrdfChainJoint]) -> str:
        return f", with links of {SMALL_MASS:g} kg between them" if len(chain_joints) > 1 else ""

    def _report_floating_coordinates(self, edge: TreeEdge, joint: Joint) -> None:
        """Report a free joint whose coordinates change their meaning."""
        is_offset = not (joint.child_pose.is_close(Pose()) and joint_transform(joint, joint.rest).is_close(Pose()))
        if edge.reversed or is_offset:
            how = "they are those of the child link now, and zero where the link stands at first"
            self.ctx.report_approximated(joint, "its coordinates", how)


def _zero_pose(edge: TreeEdge) -> Pose:
    """Pose of an edge's child in its parent at the zero configuration."""
    return edge.pose({j.name: j.rest for j in edge.joints})


def _build_joint(chain_joint: UrdfChainJoint, name: str, parent: str, child: str, pose: Pose) -> Joint:
    """Joint of the file for one chain joint."""
    joint = Joint(name=name, kind=_joint_kind(chain_joint.axis), parent=parent, child=child, parent_pose=pose)
    if chain_joint.axis is not None:
        axis = copy.copy(chain_joint.axis)
        axis.reference = 0.0
        joint.axes = [axis]
    if name == chain_joint.joint.name or chain_joint.coordinate == 0:
        _copy_preserved(chain_joint.joint, joint)
    return joint


def _joint_kind(axis: Axis | None) -> JointKind:
    if axis is None:
        return JointKind.FREE
    if axis.motion is AxisMotion.TRANSLATION:
        return JointKind.PRISMATIC
    # without any limit, "revolute" would have to state one
    return JointKind.CONTINUOUS if axis.lower == -np.inf and axis.upper == np.inf else JointKind.REVOLUTE


def _copy_preserved(source: Joint, joint: Joint) -> None:
    """Copy extras, attributes and origin of a joint to its first joint in the file."""
    joint.extras, joint.attributes, joint.origin = source.extras, source.attributes, source.origin


# --------------------------------------------------------------------------------------------------------- mimic joints


def resolve_mimics(ctx: UrdfContext, lowered: LoweredUrdfRobot) -> set[int]:
    """Set the mimics of the file's joints from mimics, screws and linear joint constraints.

    Returns:
        ids of the constraints that are written as mimics.
    """
    _resolve_joint_mimics(ctx, lowered)
    _resolve_screw_mimics(ctx, lowered)
    said = {id(c): follower for c in ctx.robot.constraints if (follower := _constraint_as_mimic(ctx, lowered, c))}
    by_name = {j.name: j for j in lowered.robot.joints}
    for follower in said.values():
        _flatten_mimic_chain(by_name, by_name[follower])
    return set(said)


def _resolve_joint_mimics(ctx: UrdfContext, lowered: LoweredUrdfRobot) -> None:
    """Redirect mimics to the joints of the file; mimics of missing coordinates are reported as dropped."""
    for joint in lowered.robot.joints:
        mimic = joint.axes[0].mimic if joint.axes else None
        if mimic is None:
            continue
        leader = lowered.coordinates.get(mimic.joint, {}).get(mimic.axis)
        joint.axes[0].mimic = None
        if leader is None:
            how = f'the file has no joint with the coordinate {mimic.axis} of "{mimic.joint}"'
            ctx.report_dropped(ctx.source_joints[joint.name], f'that it follows "{mimic.joint}"', how)
            continue
        offset = mimic.offset - mimic.multiplier * mimic.reference if mimic.reference else mimic.offset
        joint.axes[0].mimic = Mimic(joint=leader, multiplier=mimic.multiplier, offset=offset)


def _resolve_screw_mimics(ctx: UrdfContext, lowered: LoweredUrdfRobot) -> None:
    """Let the travel of a screw mimic its rotation, or the leader of the rotation (many readers lack mimic chains)."""
    made = {j.name: j for j in lowered.robot.joints}
    for source in ctx.robot.joints:
        names = lowered.joint_chains.get(source.name, [])
        per_radian = lowered.screw_travels.get(source.name)
        if per_radian is None:
            continue
        turn = made[lowered.coordinates[source.name][0]]
        (travel,) = (made[n] for n in names if n != turn.name)
        leader = turn.axes[0].mimic
        if leader is None:
            travel.axes[0].mimic = Mimic(joint=turn.name, multiplier=per_radian)
        else:
            multiplier, offset = per_radian * leader.multiplier, per_radian * leader.offset
            travel.axes[0].mimic = Mimic(joint=leader.joint, multiplier=multiplier, offset=offset)


def _flatten_mimic_chain(joints_by_name: Mapping[str, Joint], joint: Joint) -> None:
    """Replace a mimic of a mimic by a mimic of the last leader; cycles stay unchanged."""
    mimic, seen = joint.axes[0].mimic, {joint.name}
    while mimic is not None and (above := joints_by_name[mimic.joint].axes[0].mimic) is not None:
        if above.joint in seen:
            return  # the robot's own mimics go round in a circle
        seen.add(above.joint)
        offset = mimic.multiplier * above.offset + mimic.offset
        mimic = Mimic(joint=above.joint, multiplier=mimic.multiplier * above.multiplier, offset=offset)
    joint.axes[0].mimic = mimic


def _constraint_as_mimic(ctx: UrdfContext, lowered: LoweredUrdfRobot, constraint: Constraint) -> str:
    """Write a linear joint constraint as a mimic and return the following joint's name; empty if impossible."""
    line = linear_coupling(ctx.robot, constraint)
    if line is None:
        return ""
    follower = lowered.coordinates.get(constraint.a or "", {}).get(constraint.axis_a)
    leader = lowered.coordinates.get(constraint.b or "", {}).get(constraint.axis_b)
    if follower is None or leader is None or follower == leader:
        return ""
    joints = {j.name: j for j in lowered.robot.joints}
    axis = joints[follower].axes[0]
    if axis.mimic is not None or follows(leader, follower, lambda name: _mimic_leader(joints[name])):
        return ""
    axis.mimic = Mimic(joint=leader, multiplier=line[1], offset=line[0])
    how = f'it is written as joint "{follower}" following "{leader}", which is not soft and needs no solver'
    ctx.report_approximated(constraint, "a constraint between joints", how)
    return follower


def _mimic_leader(joint: Joint) -> str | None:
    mimic = joint.axes[0].mimic if joint.axes else None
    return None if mimic is None else mimic.joint
