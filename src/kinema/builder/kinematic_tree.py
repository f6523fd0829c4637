"""Kinematic tree of the scene: links with parent links, numbering of links and coordinates, folding of fixed joints."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kinema.core import KinemaError, Pose, unique_name
from kinema.description import (
    Base,
    Joint,
    JointKind,
    KinematicTree,
    Link,
    Robot,
    TreeEdge,
    World,
    file_order,
    free_axes,
    joint_coordinates,
)

from .context import BuildContext, EntitySpec, JointRecord, LinkRecord
from .joints import (
    JointChain,
    PlacedPrimitiveJoint,
    PrimitiveJoint,
    breakable_tree_joints,
    is_breakable,
    joint_chain,
    kinematic_joint,
    place_primitive_joints,
    shares_links_with_stacked_joint,
)


def build_links(ctx: BuildContext) -> None:
    """Pass: create the link and joint records of all robots, each link attached to its parent or to the world."""
    for entity, spec in enumerate(ctx.entities):
        for robot, link_names in _robots_with_link_names(spec):
            _RobotTreeBuilder(ctx, entity, spec, robot, link_names).build()


def _robots_with_link_names(spec: EntitySpec) -> list[tuple[Robot, dict[str, str]]]:
    """Robots of an entity, each with a map from link name to the link name that is unique within the entity."""
    if isinstance(spec.description, Robot):
        return [(spec.description, {link.name: link.name for link in spec.description.links})]
    world: World = spec.description
    names: dict[int, dict[str, str]] = {id(robot): {} for robot in world.robots}
    for name, robot, link in world.named_links():
        names[id(robot)][link.name] = name
    return [(robot, names[id(robot)]) for robot in world.robots]


class _RobotTreeBuilder:
    """Adds the links and joints of one robot of an entity to the build context."""

    def __init__(
        self, ctx: BuildContext, entity: int, spec: EntitySpec, robot: Robot, link_names: dict[str, str]
    ) -> None:
        """Prepare the base pose and the initial coordinates of the robot."""
        self.ctx = ctx
        self.entity = entity
        self.spec = spec
        self.robot = robot
        self.link_names = link_names
        self.base_pose = self._compute_base_pose()
        self.initial_q = joint_coordinates(robot.joints, {})
        self.file_frames: dict[str, Pose] = {}
        """Frames that the coordinates of free joints are relative to in the file, by joint name."""
        self.links: dict[str, LinkRecord] = {}
        self.added_joints: list[JointRecord] = []

    def _compute_base_pose(self) -> Pose:
        """World pose of the robot's base frame: of the entity or the file; composed, for a robot of a world."""
        if self.spec.pose is None:
            return self.robot.pose
        return self.spec.pose if isinstance(self.spec.description, Robot) else self.spec.pose @ self.robot.pose

    def build(self) -> None:
        """Append the records of a robot's links and joints to the context, along its spanning tree.

        Root links come first, then tree edges in order; joints are sorted as in the description. Links that only a
        breakable joint attaches become floating roots at their initial pose.
        """
        tree = self.ctx.spanning_tree(self.robot)
        self._report_joints(tree)
        links = {link.name: link for link in self.robot.links}
        has_breakable = any(map(is_breakable, self.robot.joints))
        detached_roots = set(tree.roots) - set(self.robot.tree().roots) if has_breakable else set()
        initial_poses = self.robot.link_poses(self.initial_q) if detached_roots else {}
        for root in tree.roots:
            pose = self.robot.pose.inverse() @ initial_poses[root] if root in detached_roots else links[root].pose
            self._add_root(
                root, Pose() if pose is None else pose, floating=root in detached_roots or self._has_floating_base()
            )
        for edge in tree.edges:
            self._add_edge(edge)
        order = {joint.name: i for i, joint in enumerate(self.robot.joints)}
        self.added_joints.sort(key=lambda record: order.get(record.name, -1))  # generated joints come first
        self.ctx.joints += self.added_joints
        self.ctx.links += self.links.values()

    def _report_joints(self, tree: KinematicTree) -> None:
        """Report joints that name missing or equal links (error), and limitations of breakable joints (note)."""
        for joint in tree.dangling:
            self.ctx.diagnostics.error(
                "sim.dangling-joint",
                f'joint "{joint.name}" does not connect two different links of the robot',
                origin=joint.origin,
            )
        for joint in breakable_tree_joints(self.robot):
            if shares_links_with_stacked_joint(self.robot, joint):
                restriction = "never breaks: it shares its links with stacked joints"
            elif not self.robot.static and joint.n_dofs:
                restriction = (
                    "is breakable: it is simulated as an equality constraint and has no coordinates to set or control"
                )
            else:
                continue
            self.ctx.diagnostics.note("sim.breaking", f'joint "{joint.name}" {restriction}', origin=joint.origin)

    def _has_floating_base(self) -> bool:
        """Whether a root link without a joint to the world floats freely."""
        if self.robot.static:
            return False
        if self.spec.fixed is not None:
            return not self.spec.fixed
        return self.robot.base is Base.FREE

    def _add_root(self, name: str, pose: Pose, *, floating: bool) -> None:
        """Add a root link: with a generated free joint if floating (and not kinematic), else fixed to the world."""
        link = self.robot.link(name)
        if floating and not link.kinematic:
            joint = self._generated_joint(link)
            self.initial_q[joint.name] = np.concatenate([pose.position, pose.quaternion])
            self._add_edge(TreeEdge(None, name, (joint,), reversed=False))
        else:
            self._add_link(name, None, [self.base_pose @ pose], [])

    def _generated_joint(self, link: Link) -> Joint:
        """Free joint of a floating root link to the world; the same in all entities with this robot."""
        key, joints = (id(self.robot), link.name), self.ctx.tree_cache.free_joints
        if key not in joints:
            joints[key] = Joint(
                name=unique_name(f"{link.name}_free", {j.name for j in self.robot.joints}),
                kind=JointKind.FREE,
                parent=None,
                child=link.name,
                axes=free_axes(),
                origin=link.origin,
                order=link.order,
            )
        return joints[key]

    def _add_edge(self, edge: TreeEdge) -> None:
        """Add the child link of a tree edge with its joints.

        The joints are dropped (frozen in their initial configuration) for a static robot, a kinematic link, or a free
        joint of an entity with a fixed base. An entity with a floating base replaces a rigid connection to the world by
        a free joint. Coordinates of free joints to the world are made relative to the world origin.
        """
        joints = list(edge.joints)
        to_world = edge.parent is None
        has_dofs = any(joint.n_dofs for joint in joints)
        if to_world and self.spec.fixed is False and not has_dofs:
            self._add_root(edge.child, edge.pose(self.initial_q), floating=self._has_floating_base())
            return
        is_base_fixed = to_world and self.spec.fixed is True and joints[0].kind is JointKind.FREE
        child = self.robot.link(edge.child)
        if child.kinematic and not to_world and not self.robot.static:
            self.ctx.diagnostics.note(
                "sim.kinematic",
                f'link "{child.name}" is kinematic, but not attached to the world: it moves with "{edge.parent}"',
                origin=child.origin,
            )
        if is_base_fixed or self.robot.static or child.kinematic:
            chain: JointChain = [edge.pose(self.initial_q)]
            joints = []
        elif to_world and len(joints) == 1 and joints[0].kind is JointKind.FREE and not edge.reversed:
            joint = self._free_joint_in_world(joints[0])
            self._add_link(edge.child, None, self._chain_of_free_joint(joint, edge.child), [joint])
            return
        else:
            chain = list(joint_chain(edge))
        if to_world:
            chain.insert(0, self.base_pose)
        self._add_link(edge.child, edge.parent, chain, joints)

    def _free_joint_in_world(self, joint: Joint) -> Joint:
        """Free joint whose coordinates are relative to the world origin instead of the base frame of the robot.

        Updates the initial coordinates and records the original frame in `file_frames`.
        """
        base = self.base_pose @ joint.parent_pose
        if base.is_close(Pose()):
            return joint
        self.file_frames[joint.name] = base
        q = self.initial_q[joint.name]
        pose = base @ Pose.from_quaternion(q[:3], q[3:])
        self.initial_q[joint.name] = np.concatenate([pose.position, pose.quaternion])
        in_world = self.ctx.tree_cache.joints_in_world
        if id(joint) not in in_world:
            in_world[id(joint)] = replace(joint, parent_pose=Pose())
        return in_world[id(joint)]

    def _chain_of_free_joint(self, joint: Joint, child: str) -> JointChain:
        """Joint chain of a free joint to the world; the same in all entities with this joint."""
        chains = self.ctx.tree_cache.chains_of_free_joints
        if id(joint) not in chains:
            chains[id(joint)] = joint_chain(TreeEdge(None, child, (joint,), reversed=False))
        return chains[id(joint)]

    def _add_link(self, name: str, parent: str | None, chain: list[Pose | PrimitiveJoint], joints: list[Joint]) -> None:
        """Create the record of a link, with its chain of primitive joints, and records of its joints with dofs."""
        records = [
            JointRecord(
                joint.name, joint, self.robot, self.entity, self.initial_q[joint.name], self.file_frames.get(joint.name)
            )
            for joint in joints
            if joint.n_dofs
        ]
        link = LinkRecord(
            name=self.link_names[name],
            description=self.robot.link(name),
            robot=self.robot,
            entity=self.entity,
            parent=None if parent is None else self.links[parent],
            chain=chain,
            joints=records,
        )
        for record in records:
            record.link = link
        self.added_joints += records
        self.links[name] = link


def number_links_and_coordinates(ctx: BuildContext) -> None:
    """Build pass: number links in the order of the descriptions, and coordinates and dofs in the order of the joints.

    Sorts `ctx.links`; sets `index` of links, `q_start` and `dof_start` of joints, `n_qs`, `n_dofs`, `joint_idx` and
    `joints_of_entity`.
    """
    order = {
        (entity, id(link)): i
        for entity, spec in enumerate(ctx.entities)
        for i, link in enumerate(spec.description.links)
    }
    ctx.links.sort(key=lambda b: (b.entity, order[b.entity, id(b.description)]))
    for i, record in enumerate(ctx.links):
        record.index = i
    ctx.joints.sort(key=lambda joint: (joint.entity, file_order(joint.description)))
    for joint_number, joint in enumerate(ctx.joints):
        joint.q_start, joint.dof_start = ctx.n_qs, ctx.n_dofs
        ctx.n_qs += joint.n_qs
        ctx.n_dofs += joint.n_dofs
        ctx.joint_idx[joint.entity, id(joint.description)] = joint_number
        ctx.joints_of_entity.setdefault(joint.entity, []).append(joint)


def fold_fixed_joints(ctx: BuildContext) -> None:
    """Build pass: create one moving frame per primitive joint, and attach every link rigidly to its last moving frame.

    Links connected by fixed joints share a frame. Kinematic bodies get a frame of their own. Frames are numbered depth
    first, so that branches are contiguous.
    Appends to `ctx.frames`; sets `primitive_joints`, `frame_idx` and `pose_in_frame` of links.
    """
    children: dict[int, list[LinkRecord]] = {}
    for link in ctx.links:
        children.setdefault(-1 if link.parent is None else link.parent.index, []).append(link)
    stack = list(reversed(children.get(-1, [])))
    placements: dict[int, tuple[list[PlacedPrimitiveJoint], Pose]] = {}  # of the chains that several bodies share
    while stack:
        link = stack.pop()
        if link.parent is None:
            parent_frame, key = -1, id(link.chain)
            if key not in placements:
                placements[key] = place_primitive_joints(Pose(), link.chain)
            placed_joints, pose = placements[key]
        else:
            parent_frame = link.parent.frame_idx
            placed_joints, pose = place_primitive_joints(link.parent.pose_in_frame, link.chain)
        is_kinematic = ctx.has_kinematic_bodies and link.parent is None and link.description.kinematic
        if is_kinematic and not link.robot.static:
            ctx.frames.append((-1, PlacedPrimitiveJoint(pose, kinematic_joint(link.name)), -1))
            parent_frame, pose = len(ctx.frames) - 1, Pose()
        for placed in placed_joints:
            ctx.frames.append((parent_frame, placed, ctx.joint_idx[link.entity, id(placed.primitive.joint)]))
            parent_frame = len(ctx.frames) - 1
        link.primitive_joints, link.frame_idx, link.pose_in_frame = placed_joints, parent_frame, pose
        link.is_on_kinematic_body = parent_frame >= 0 and ctx.frames[parent_frame][2] < 0
        stack += reversed(children.get(link.index, []))


def check_not_empty(ctx: BuildContext) -> None:
    """Pass: raise KinemaError if the scene has neither a link nor a static shape."""
    has_static_shapes = any(spec.description.shapes for spec in ctx.entities if isinstance(spec.description, World))
    if not ctx.links and not has_static_shapes:
        raise KinemaError("there is nothing to simulate: add a robot with at least one link")
