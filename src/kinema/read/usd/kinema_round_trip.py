"""Restores joints, constraints, robots and worlds of stages written by Kinema that UsdPhysics cannot represent."""

from __future__ import annotations

import dataclasses
import enum
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from kinema.core import Array, Origin, Pose, quaternion_to_matrix, reproducible_norm, reproducible_product
from kinema.description import (
    Axis,
    AxisMotion,
    Base,
    CollisionRules,
    Constraint,
    ConstraintKind,
    Joint,
    JointKind,
    Link,
    Robot,
    World,
    free_axes,
    joint_transform,
    rotation,
    translation,
)
from kinema.tokens import kinema_usd, usd, usd_physics

from . import pxr
from .kinema_attributes import (
    massless_inertial,
    preserved_assets,
    preserved_attributes,
    read_kinema_attributes,
    record_fields,
    stored_fields,
)
from .shapes import StageShape
from .stage_index import Body, StageIndex
from .transforms import rigid_part

EnumT = TypeVar("EnumT", bound=enum.Enum)

# -- joints ------------------------------------------------------------------------------------------------------------


def restore_joint(index: StageIndex, prim: pxr.Prim, joint: Joint, gap: Pose) -> Pose:
    """Restore kind, frames, axes, limits and references of a joint that the writer adapted to UsdPhysics.

    Args:
        index: the stage.
        prim: the joint's prim.
        joint: the joint as read; modified in place.
        gap: pose of the second joint frame in the first, in the stage's configuration.

    Returns:
        The relative pose of the restored frames.
    """
    read_kinema_attributes(index, prim, joint)
    implied = index.custom_value(prim, kinema_usd.IMPLIED) or ()
    if kinema_usd.IMPLIED_EXCLUSION in implied:
        joint.closes_loop = False
    if kinema_usd.IMPLIED_JOINT_ENABLED in implied:
        joint.enabled = True
    if joint.cone is not None and index.custom_value(prim, kinema_usd.CONE_IS_TOTAL):
        joint.cone = dataclasses.replace(joint.cone, total=True)
    _restore_kind(index, prim, joint)
    gap = _restore_frame_rotation(index, prim, joint, gap)
    _restore_axis_parameters(index, prim, joint)
    gap = _restore_reference_positions(index, prim, joint, gap)
    if joint.kind is JointKind.SCREW:  # the translation of a screw follows from its rotation
        direction = joint.axes[0].direction
        return Pose(gap.position - direction * float((direction * gap.position).sum()), gap.rotation)
    return gap


def _stored_enum(
    index: StageIndex, prim: pxr.Prim, attribute: kinema_usd.CustomAttribute, kind: type[EnumT]
) -> EnumT | None:
    """Member of an enumeration stored on a prim; None if absent or unknown."""
    token = index.custom_value(prim, attribute)
    return next((member for member in kind if member.value == token), None)


def _restore_kind(index: StageIndex, prim: pxr.Prim, joint: Joint) -> None:
    """Restore the joint kind and its axes, unless the joint was edited to have more free axes."""
    if joint.kind is JointKind.SIX_AXIS:
        _restore_limits(index, prim, joint)
    kind = _stored_enum(index, prim, kinema_usd.JOINT_KIND, JointKind)
    if kind is None:
        return
    default_tokens = usd_physics.DOF_TOKENS if kind is JointKind.SIX_AXIS else ()
    tokens = index.custom_value(prim, kinema_usd.AXES) or default_tokens
    revolute_kinds = (JointKind.REVOLUTE, JointKind.CONTINUOUS)
    if joint.kind in revolute_kinds and kind in revolute_kinds:
        joint.kind = kind
    elif not set(tokens) <= set(usd_physics.DOF_TOKENS):
        return
    elif joint.kind is JointKind.FIXED and len(tokens) == 1:
        joint.kind, joint.axes = kind, [_locked_axis(tokens[0])]
    elif joint.kind is JointKind.SIX_AXIS:
        axis_of: dict[str, Axis] = dict(zip(usd_physics.DOF_TOKENS, joint.axes, strict=True))
        used = set(tokens)
        if kind is JointKind.SCREW and len(tokens) == 1:  # both motions along the axis are free
            joint.pitch = index.custom_value(prim, kinema_usd.PITCH) or 0.0
            used.add(tokens[0].replace("rot", "trans"))
        if all(axis.locked for token, axis in axis_of.items() if token not in used):
            joint.kind, joint.axes = kind, [axis_of[t] for t in tokens]


def _locked_axis(token: str) -> Axis:
    direction = np.eye(3)[usd.AXIS_TOKENS.index(token[-1])]
    axis = rotation(direction) if token.startswith("rot") else translation(direction)
    axis.locked = True
    return axis


def _restore_limits(index: StageIndex, prim: pxr.Prim, joint: Joint) -> None:
    """Restore limits that UsdPhysics would interpret as a locked axis."""
    for token, axis in zip(usd_physics.DOF_TOKENS, joint.axes, strict=True):
        stored = index.custom_value(prim, kinema_usd.limit_attribute(token))
        if stored is not None and axis.locked:
            unit = math.pi / 180 if axis.motion is AxisMotion.ROTATION else index.units.length
            axis.locked, axis.lower, axis.upper = False, stored[0] * unit, stored[1] * unit


def _restore_frame_rotation(index: StageIndex, prim: pxr.Prim, joint: Joint, gap: Pose) -> Pose:
    """Undo the rotation of the joint frames to the coordinate axes; returns the new relative pose."""
    stored = index.custom_value(prim, kinema_usd.AXIS_FRAME)
    if stored is None:
        return gap
    rotation = quaternion_to_matrix(stored)
    inverse = Pose(rotation=rotation.T)
    if joint.kind is not JointKind.SPHERICAL:
        for axis in joint.axes:
            axis.direction = _clean_direction(reproducible_product(rotation, axis.direction))
    directions = index.custom_value(prim, kinema_usd.AXIS_DIRECTIONS)
    if directions is not None and len(directions) == len(joint.axes):
        for axis, direction in zip(joint.axes, directions, strict=True):
            axis.direction = direction.copy()
    joint.parent_pose, joint.child_pose = joint.parent_pose @ inverse, joint.child_pose @ inverse
    return Pose(rotation=rotation) @ gap @ inverse


def _clean_direction(direction: Array) -> Array:
    """Unit direction without the rounding error of its quaternion."""
    rounded = np.where(np.abs(direction) < 1e-15, 0.0, direction)
    return rounded / reproducible_norm(rounded)


def _restore_reference_positions(index: StageIndex, prim: pxr.Prim, joint: Joint, gap: Pose) -> Pose:
    """Restore reference positions, and remove them from the frame if they were folded into it."""
    stored = index.custom_value(prim, kinema_usd.REFERENCE)
    axes = joint.moving_axes
    if stored is None or len(stored) != len(axes):
        return gap
    for axis, value in zip(axes, stored, strict=True):
        axis.reference = float(value)
    if not index.custom_value(prim, kinema_usd.REFERENCE_IS_FOLDED):
        return gap
    folded = joint_transform(joint, np.zeros(joint.n_qs))
    joint.parent_pose = joint.parent_pose @ folded.inverse()
    return folded @ gap


def _restore_axis_parameters(index: StageIndex, prim: pxr.Prim, joint: Joint) -> None:
    for field, values in stored_fields(index, prim, Axis).items():
        if len(values) == len(joint.axes):
            for axis, value in zip(joint.axes, values, strict=True):
                setattr(axis, field, float(value))


# -- free joints and constraints ---------------------------------------------------------------------------------------


def restore_free_joint(index: StageIndex, body: Body) -> Joint | None:
    """Free joint stored on a body (UsdPhysics represents it by the absence of a joint); None if none."""
    name = index.custom_value(body.prim, kinema_usd.FREE_JOINT)
    if name is None:
        return None
    parents = [index.bodies.get(str(t)) for t in index.targets(body.prim, kinema_usd.FREE_JOINT_PARENT)]
    parent = parents[0] if parents else None
    joint = Joint(
        name=name,
        origin=Origin(index.file, None, body.path),
        kind=JointKind.FREE,
        parent=None if parent is None else parent.name,
        child=body.name,
        parent_pose=_free_joint_pose(index, body.prim, 0),
        child_pose=_free_joint_pose(index, body.prim, 1),
        axes=free_axes(),
    )
    joint.collision_enabled = index.custom_value(body.prim, kinema_usd.FREE_JOINT_COLLISION)
    parent_pose = Pose() if parent is None else parent.pose
    motion = (parent_pose @ joint.parent_pose).inverse() @ body.pose @ joint.child_pose
    joint.initial = np.concatenate([motion.position, motion.quaternion])
    return joint


def _free_joint_pose(index: StageIndex, prim: pxr.Prim, side: int) -> Pose:
    point = index.custom_value(prim, kinema_usd.FREE_JOINT_POSITIONS[side])
    turn = index.custom_value(prim, kinema_usd.FREE_JOINT_ROTATIONS[side])
    return Pose() if point is None or turn is None else Pose.from_quaternion(point, turn)


def joint_as_constraint(index: StageIndex, prim: pxr.Prim, joint: Joint) -> Constraint | None:
    """Constraint that a joint prim represents; None for an actual joint."""
    kind = _stored_enum(index, prim, kinema_usd.CONSTRAINT, ConstraintKind)
    if kind is None:
        return None
    constraint = Constraint(
        name=joint.name,
        name_is_generated=joint.name_is_generated,
        origin=joint.origin,
        kind=kind,
        a=joint.parent,
        b=joint.child,
        pose_a=joint.parent_pose,
        pose_b=joint.child_pose,
        distance=joint.distance[0],
        active=joint.enabled,
        attributes=joint.attributes,
        order=joint.order,
    )
    _restore_constraint_fields(index, prim, constraint)
    return constraint


def _restore_constraint_fields(index: StageIndex, prim: pxr.Prim, constraint: Constraint) -> None:
    """Restore the stored fields of a constraint."""
    for field, value in record_fields(index, prim, kinema_usd.RECORD_CONSTRAINT).items():
        setattr(constraint, field, value)


def mimic_as_constraints(index: StageIndex, prim: pxr.Prim, joint: Joint) -> list[Constraint]:
    """Joint constraint that was written as a mimic, as a list; the mimic is removed from the joint."""
    name = index.custom_value(prim, kinema_usd.MIMIC_IS_CONSTRAINT)
    mimic = joint.axes[0].mimic if joint.axes else None
    if name is None or mimic is None:
        return []
    joint.axes[0].mimic = None
    polynomial = (mimic.offset, mimic.multiplier, 0.0, 0.0, 0.0)
    kind, joint.order = ConstraintKind.JOINT, None
    constraint = Constraint(
        name=name, origin=joint.origin, kind=kind, a=joint.name, b=mimic.joint, polynomial=polynomial
    )
    constraint.order = index.custom_value(prim, kinema_usd.GLOBAL_ORDER)
    constraint.name_is_generated = bool(index.custom_value(prim, kinema_usd.MIMIC_NAME_IS_GENERATED))
    _restore_constraint_fields(index, prim, constraint)
    return [constraint]


# -- robots ------------------------------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class RobotRestorer:
    """Restores robots of stages written by Kinema: membership, names, bases and poses."""

    index: StageIndex
    fixed_base_joints: list[Joint]
    """Joints to the world that only represent a fixed base; they may carry the articulation root."""
    constraints: list[Constraint]
    _robot_prim_of: dict[str, str]

    @classmethod
    def from_joints(cls, index: StageIndex, joints: list[tuple[pxr.Prim, Joint]]) -> tuple[RobotRestorer, list[Joint]]:
        """Separate joints from constraints and fixed bases represented as joints, and add free joints."""
        result = cls(index, [], [], {})
        remaining: list[Joint] = []
        for prim, joint in joints:
            constraint = joint_as_constraint(index, prim, joint)
            if constraint is not None:
                result.constraints.append(constraint)
            elif index.custom_value(prim, kinema_usd.BASE) == Base.FIXED.value and joint.child is not None:
                result.fixed_base_joints.append(joint)
            else:
                remaining.append(joint)
                result.constraints += mimic_as_constraints(index, prim, joint)
        names = {joint.name for joint in remaining}
        free = [
            (index.custom_value(body.prim, kinema_usd.FREE_JOINT_ORDER), joint)
            for body in index.bodies.values()
            if (joint := restore_free_joint(index, body)) is not None
        ]
        for position, joint in sorted(free, key=lambda f: f[0] or 0):
            if joint.name not in names:
                remaining.insert(len(remaining) if position is None else position, joint)
        return result, remaining

    def merge_components(self, components: list[list[str]], paths: dict[str, str]) -> list[list[str]]:
        """Merge connected components that belong to the same robot prim; `paths` maps links to prim paths."""
        groups: dict[str, list[str]] = {}
        for index, names in enumerate(components):
            robot_path = self.robot_prim_path(paths[names[0]])
            groups.setdefault(robot_path or f"#{index}", []).extend(names)
        return list(groups.values())

    def robot_prim_path(self, path: str) -> str:
        """Path of the robot prim at or above a path; empty if there is none."""
        if path in ("", "/"):
            return ""
        if path not in self._robot_prim_of:
            prim = self.index.stage.GetPrimAtPath(path)
            found = bool(prim) and self.index.custom_value(prim, kinema_usd.ROBOT) is not None
            self._robot_prim_of[path] = path if found else self.robot_prim_path(path.rpartition("/")[0])
        return self._robot_prim_of[path]

    def restore_robot(self, robot: Robot, path: str) -> None:
        """Restore name, base, root and pose of a robot from its prim."""
        robot_path = self.robot_prim_path(path)
        prim = self.index.stage.GetPrimAtPath(robot_path) if robot_path else None
        fixed = {joint.child for joint in self.fixed_base_joints}
        if any(link.name in fixed for link in robot.links):
            robot.base = Base.FIXED
        if not prim:
            return
        robot.name = self.index.custom_value(prim, kinema_usd.ROBOT)
        robot.attributes |= preserved_attributes(self.index, prim)
        robot.extras += preserved_assets(self.index, prim)
        if self.index.custom_value(prim, kinema_usd.BASE) == Base.UNSPECIFIED.value:
            robot.base = Base.UNSPECIFIED
        roots = [self.index.bodies.get(str(t)) for t in self.index.targets(prim, kinema_usd.ROOT)]
        if roots and roots[0] is not None:
            robot.root = roots[0].name
        pose = rigid_part(self.index.world_transform(prim))
        if not pose.is_close(Pose(), 0.0):
            _set_base_pose(robot, pose)


def _set_base_pose(robot: Robot, pose: Pose) -> None:
    """Set the base pose of a robot and re-express its link and joint poses relative to it."""
    robot.pose = pose
    inverse = pose.inverse()
    for link in robot.links:
        if link.pose is not None:
            link.pose = inverse @ link.pose
    for joint in robot.joints:
        if joint.kind is JointKind.FREE and joint.parent is None and joint.initial is not None:
            motion = inverse @ Pose.from_quaternion(joint.initial[:3], joint.initial[3:])
            joint.initial = np.concatenate([motion.position, motion.quaternion])
        elif joint.parent is None:
            joint.parent_pose = inverse @ joint.parent_pose
        elif joint.child is None:
            joint.child_pose = inverse @ joint.child_pose


# -- worlds ------------------------------------------------------------------------------------------------------------


def restore_static_robots(
    index: StageIndex, restorer: RobotRestorer, shapes: Sequence[StageShape]
) -> tuple[list[Robot], set[int]]:
    """Robots without moving links, and the ids of their shapes, which are not scenery."""
    found: dict[str, dict[str, Link]] = {}
    taken: set[int] = set()
    links_by_path: dict[str, Link] = {}
    for prim in index.static_links:
        path = str(prim.GetPath())
        if index.custom_value(prim, kinema_usd.STATIC_LINK):
            links_by_path[path] = found.setdefault(restorer.robot_prim_path(path), {})[path] = _static_link(
                index, prim, path
            )
    for part in shapes:
        link = links_by_path.get(str(part.prim.GetParent().GetPath()))
        if part.body is not None or link is None:
            continue
        part.shape.pose = (link.pose or Pose()).inverse() @ part.shape.pose
        link.shapes.append(part.shape)
        taken.add(id(part.shape))
    result = [_static_robot(index, list(links.values())) for links in found.values()]
    for robot, links in zip(result, found.values(), strict=True):
        restorer.restore_robot(robot, next(iter(links)))
        robot.base = Base.FIXED
    return result, taken


def _static_link(index: StageIndex, prim: pxr.Prim, path: str) -> Link:
    return Link(
        name=index.custom_value(prim, kinema_usd.NAME) or prim.GetName(),
        origin=Origin(index.file, None, path),
        pose=rigid_part(index.world_transform(prim)),
        inertial=massless_inertial(index, prim),
    )


def _static_robot(index: StageIndex, links: list[Link]) -> Robot:
    return Robot(
        name=links[0].name, format=usd.FORMAT, source=index.file, origin=links[0].origin, links=links, static=True
    )


def restore_world(index: StageIndex, world: World, restorer: RobotRestorer) -> None:
    """Restore order and names of the robots, and move rules and elements of one robot to that robot."""
    if index.values.kinema_layer_data is None:
        return
    siblings = [str(p.GetPath()) for p in index.stage.GetDefaultPrim().GetChildren()] if index.stage else []
    position = {path: i for i, path in enumerate(siblings)}
    world.robots.sort(key=lambda r: position.get(restorer.robot_prim_path(r.links[0].origin.path), len(position)))
    _move_rules_to_robots(world)
    _restore_names(index, world)
    _move_elements_to_robots(world, restorer)


def _move_elements_to_robots(world: World, restorer: RobotRestorer) -> None:
    """Move world elements below a robot prim to that robot."""
    robot_at = {restorer.robot_prim_path(robot.links[0].origin.path): robot for robot in world.robots if robot.links}
    robot_at.pop("", None)
    for kind in ("constraints", "frames", "tendons", "actuators", "sensors", "keyframes", "cameras", "lights"):
        remaining = []
        for node in getattr(world, kind):
            owner = robot_at.get(restorer.robot_prim_path(node.origin.path))
            (remaining if owner is None else getattr(owner, kind)).append(node)
        setattr(world, kind, remaining)


def _move_rules_to_robots(world: World) -> None:
    """Move collision pairs and constraints within one robot to that robot."""
    robot_of = {link.name: robot for robot in world.robots for link in robot.links}
    pairs = []
    for pair in world.collision.pairs:
        owner = robot_of.get(pair.a)
        if pair.between == "links" and owner is not None and robot_of.get(pair.b) is owner:
            owner.collision.pairs.append(pair)
        else:
            pairs.append(pair)
    world.collision.pairs = pairs
    constraints = []
    for constraint in world.constraints:
        owners = {id(robot_of.get(end)): robot_of.get(end) for end in (constraint.a, constraint.b) if end is not None}
        owner = next(iter(owners.values())) if len(owners) == 1 else None
        (constraints if owner is None else owner.constraints).append(constraint)
    world.constraints = constraints


def _restore_names(index: StageIndex, world: World) -> None:
    """Restore link and joint names that are unique within a robot only."""
    referenced = {n for p in world.collision.pairs for n in (p.a, p.b)}
    referenced |= {n for g in world.collision.groups for n in g.members}
    referenced |= {str(x.link) for x in (*world.cameras, *world.lights, *world.frames)}
    referenced |= {str(end) for c in world.constraints for end in (c.a, c.b)}
    for robot in world.robots:
        links = _original_names(index, [(x.name, x.origin.path) for x in robot.links], referenced)
        with_prim = [(x.name, x.origin.path) for x in robot.joints if x.kind is not JointKind.FREE]
        joints = _original_names(index, with_prim, set())
        _rename_links(robot, links)
        for joint in robot.joints:
            _rename_joint(joint, joints, links)


def _original_names(index: StageIndex, named: list[tuple[str, str]], referenced: set[str]) -> dict[str, str]:
    """Name -> name stored on the prim, if unique within the robot and not referenced."""
    wanted: dict[str, str] = {}
    for name, path in named:
        prim = index.stage.GetPrimAtPath(path)
        stored = (index.custom_value(prim, kinema_usd.NAME) or prim.GetName()) if prim else name
        wanted[name] = name if name in referenced else stored
    counts = Counter(wanted.values())
    return {name: new if counts[new] == 1 else name for name, new in wanted.items()}


def _rename_links(robot: Robot, names: Mapping[str, str]) -> None:
    for link in robot.links:
        link.name = names[link.name]
        link.nested_in = names.get(link.nested_in or "", link.nested_in)
    robot.root = names.get(robot.root or "", robot.root)
    robot.collision.pairs = [
        dataclasses.replace(p, a=names.get(p.a, p.a), b=names.get(p.b, p.b)) if p.between == "links" else p
        for p in robot.collision.pairs
    ]
    for constraint in robot.constraints:
        constraint.a, constraint.b = (names.get(e or "", e) for e in (constraint.a, constraint.b))


def _rename_joint(joint: Joint, joints: Mapping[str, str], links: Mapping[str, str]) -> None:
    joint.name = joints.get(joint.name, joint.name)
    joint.parent, joint.child = (links.get(e or "", e) for e in (joint.parent, joint.child))
    for axis in joint.axes:
        if axis.mimic is not None:
            axis.mimic.joint = joints.get(axis.mimic.joint, axis.mimic.joint)


def restore_shape_names(index: StageIndex, shapes: Sequence[StageShape], rules: CollisionRules) -> None:
    """Restore shape names, which need not be unique, unless a collision rule refers to them."""
    referenced = {name for group in rules.groups for name in group.members}
    referenced |= {name for pair in rules.pairs if pair.between == "shapes" for name in (pair.a, pair.b)}
    for part in shapes:
        stored = index.custom_value(part.prim, kinema_usd.NAME)
        if stored is not None and part.shape.name not in referenced and stored not in referenced:
            part.shape.name = stored


def restore_self_collision(index: StageIndex, robots: Sequence[Robot], rules: CollisionRules) -> None:
    """Convert collision groups that filter themselves back to robots with disabled self-collision."""
    for group in list(rules.groups):
        prim = index.stage.GetPrimAtPath(group.origin.path)
        marked = prim and index.custom_value(prim, kinema_usd.IS_SELF_COLLISION)
        if not marked or group.filtered != [group.name]:
            continue
        for robot in robots:
            colliding = {s.name for link in robot.links for s in link.shapes if s.collision and s.enabled}
            if colliding and colliding == set(group.members):
                robot.collision.self_collide = False
                rules.groups.remove(group)
