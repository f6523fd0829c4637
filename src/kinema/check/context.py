"""Context of the rules: one robot or a world, with derived data shared by several rules.

Derived data are field values, names, the spanning tree, rigid bodies and initial poses. Fields are traversed
generically, so that a new field of the description is checked without further code.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from kinema.core import Array, Origin, Pose
from kinema.description import (
    SCOPE,
    AxisMotion,
    Base,
    CollisionPair,
    Joint,
    JointKind,
    KinematicTree,
    Link,
    Node,
    Robot,
    Shape,
    TreeEdge,
    World,
    joint_coordinates,
    spanning_tree,
)
from kinema.geometry import MassProperties, combine_mass_properties, transform_mass_properties

from .hulls import ConvexHull, HullCache
from .messages import label

# ---------------------------------------------------------------------------------------------------- reference targets


@dataclass(frozen=True, slots=True, eq=False)
class KnownNames:
    """Names in a description by kind; in a world, elements of robots also by their scoped names."""

    links: set[str]
    joints: set[str]
    shapes: set[str]
    frames: set[str]
    tendons: set[str]
    actuators: set[str]
    cameras: set[str]
    sensors: set[str]
    groups: set[str]
    """Collision groups."""

    def names_of_kind(self, kind: str) -> set[str] | None:
        """Names of a kind in the terms of `Sensor.target_kind`; None for an unknown kind."""
        return getattr(self, f"{kind}s", None) if kind else None


def collect_known_names(description: Robot | World) -> KnownNames:
    """All names in a robot, or in a world and its robots."""
    names = _direct_names(description)
    for robot in description.robots if isinstance(description, World) else []:
        for kind, values in _direct_names(robot).items():
            names[kind] |= values
            names[kind] |= {f"{robot.name}{SCOPE}{value}" for value in values}
    return KnownNames(**names)


def _direct_names(assembly: Robot | World) -> dict[str, set[str]]:
    if isinstance(assembly, Robot):
        links, joints = assembly.links, assembly.joints
        shapes = [shape for link in links for shape in link.shapes]
    else:
        links, joints, shapes = [], [], assembly.shapes
    return {
        "links": {link.name for link in links} | {"world"},
        "joints": {j.name for j in joints},
        "shapes": {s.name for s in shapes},
        "frames": {f.name for f in assembly.frames},
        "tendons": {t.name for t in assembly.tendons},
        "actuators": {a.name for a in assembly.actuators},
        "cameras": {c.name for c in assembly.cameras},
        "sensors": {s.name for s in assembly.sensors},
        "groups": {g.name for g in assembly.collision.groups},
    }


# ------------------------------------------------------------------------------------------------------ field traversal

_EXCLUDED_FIELDS = {"diagnostics", "extras", "attributes", "options", "settings", "origin"}
"""Fields that hold other people's data, in which NaN may well mean something."""
_SEPARATELY_CHECKED_FIELDS = {"robots"}
"""A world's robots are checked one by one."""
_IGNORED_TYPES = (str, bool, int, type(None))


class FieldValue(NamedTuple):
    """A number, array or other leaf value of a description, with its location."""

    owner: Node | CollisionPair
    """The nearest node around it."""
    path: str
    """How to get to it from the owner: `parent_pose.position`."""
    container: Any
    """The dataclass it is a field of."""
    field: str
    """Its field there; an item of a list or dict has the field of that."""
    value: Any

    @property
    def origin(self) -> Origin:
        """Origin of the owner in its file."""
        return self.owner.origin

    @property
    def label(self) -> str:
        """Label of the owner in messages."""
        return label(self.owner) if isinstance(self.owner, Node) else f'pair "{self.owner.a}", "{self.owner.b}"'


def iterate_field_values(node: Node) -> Iterator[FieldValue]:
    """All leaf values of a node and its children."""
    yield from _iterate_fields(node, node, "")


def _iterate_fields(instance: Any, owner: Node | CollisionPair, path: str) -> Iterator[FieldValue]:
    for info in dataclasses.fields(instance):
        if info.name in _EXCLUDED_FIELDS or info.name in _SEPARATELY_CHECKED_FIELDS:
            continue
        here = f"{path}.{info.name}" if path else info.name
        yield from _iterate_value(getattr(instance, info.name), owner, here, instance, info.name)


def _iterate_value(
    value: Any, owner: Node | CollisionPair, path: str, container: Any, field: str
) -> Iterator[FieldValue]:
    if isinstance(value, float | np.ndarray | np.generic):
        yield FieldValue(owner, path, container, field, value)
    elif isinstance(value, _IGNORED_TYPES):
        return
    elif isinstance(value, Node | CollisionPair):
        yield from _iterate_fields(value, value, "")
    elif dataclasses.is_dataclass(value):
        yield from _iterate_fields(value, owner, path)
    elif isinstance(value, list | tuple):
        for i, item in enumerate(value):
            yield from _iterate_value(item, owner, f"{path}[{i}]", container, field)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _iterate_value(item, owner, f"{path}[{key!r}]", container, field)


# --------------------------------------------------------------------------------------------------------- rule context


@dataclass(slots=True, eq=False)
class RigidBody:
    """Maximal set of links that are rigidly connected."""

    links: list[Link]
    parent_edge: TreeEdge | None
    """The joints that carry it and let it move; None for a root, and for what is fixed to the world."""
    parent: RigidBody | None = None
    children: list[RigidBody] = field(default_factory=list)
    is_movable: bool = False
    """Whether it certainly moves: a joint lets it, or the robot's base is free."""
    is_fixed_or_kinematic: bool = False
    """Whether it certainly stands still or is moved by the user. Neither: the file does not say (a URDF root)."""

    @property
    def mass(self) -> float:
        """Total mass of the links [kg]; NaN if one is NaN."""
        return sum(link.inertial.mass for link in self.links if link.inertial is not None)

    def descendants(self) -> Iterator[RigidBody]:
        """Bodies below this body in the kinematic tree."""
        waiting = list(self.children)
        while waiting:
            body = waiting.pop()
            yield body
            waiting.extend(body.children)


class CheckContext:
    """A robot, or the elements of a world outside robots, with cached derived data."""

    def __init__(
        self,
        assembly: Robot | World,
        hulls: HullCache,
        names: KnownNames,
        world: World | None = None,
        robot_contexts: Sequence[CheckContext] = (),
    ) -> None:
        self.assembly = assembly
        self.hulls = hulls
        self.names = names
        """What can be referred to from here."""
        self.world = world
        """The world around a robot; None for a robot by itself, and for the world."""
        self.robot_contexts = robot_contexts
        """The robots in a world."""
        self.robot = assembly if isinstance(assembly, Robot) else None
        self.links: list[Link] = assembly.links if isinstance(assembly, Robot) else []
        self.joints: list[Joint] = assembly.joints if isinstance(assembly, Robot) else []

    @property
    def is_outermost(self) -> bool:
        """Whether the context is the world or a robot without a world."""
        return self.world is None

    @property
    def is_static(self) -> bool:
        """Whether no part ever moves."""
        return self.robot is None or self.robot.static

    @property
    def format(self) -> str:
        """File format of the description."""
        return self.assembly.format or (self.world.format if self.world is not None else "")

    @cached_property
    def field_values(self) -> list[FieldValue]:
        """All leaf values of the description."""
        return list(iterate_field_values(self.assembly))

    @cached_property
    def shapes(self) -> list[tuple[Shape, Link | None]]:
        """All shapes, each with its link."""
        if isinstance(self.assembly, World):
            return [(shape, None) for shape in self.assembly.shapes]
        return [(shape, link) for link in self.links for shape in link.shapes]

    @cached_property
    def link_by_name(self) -> dict[str, Link]:
        """The first link of each name."""
        return {link.name: link for link in reversed(self.links)}

    @cached_property
    def joint_by_name(self) -> dict[str, Joint]:
        """The first joint of each name."""
        return {joint.name: joint for joint in reversed(self.joints)}

    # -- the tree -----------------------------------------------------------------------------------------------

    @cached_property
    def tree(self) -> KinematicTree:
        """The spanning tree."""
        return spanning_tree(self.links, self.joints, self.robot.root if self.robot is not None else None)

    @cached_property
    def initial_poses(self) -> dict[str, Pose]:
        """World poses of links in the initial configuration, without links whose joints are invalid.

        In a world, links are listed by their own and by their scoped names.
        """
        if self.robot is None:
            return self._initial_poses_of_robots()
        sound = [j for j in self.joint_by_name.values() if has_valid_axes(j) and j.start.shape == (j.n_qs,)]
        values = joint_coordinates(sound, {})
        # of two joints with one name, only the first
        usable = {id(j) for j in sound if np.isfinite([*values[j.name], *(a.reference for a in j.axes)]).all()}
        base = self.robot.pose
        poses: dict[str, Pose] = {}
        for root in self.tree.roots:
            own = self.link_by_name[root].pose
            poses[root] = base if own is None else base @ own
        for edge in self.tree.edges:
            parent = base if edge.parent is None else poses.get(edge.parent)
            if parent is not None and all(id(j) in usable for j in edge.joints):
                poses[edge.child] = parent @ edge.pose(values)
        return {name: pose for name, pose in poses.items() if pose.is_finite}

    def _initial_poses_of_robots(self) -> dict[str, Pose]:
        poses: dict[str, Pose] = {}
        for inner in self.robot_contexts:
            for name, pose in inner.initial_poses.items():
                poses[f"{inner.assembly.name}{SCOPE}{name}"] = pose
                poses.setdefault(name, pose)
        return poses

    @cached_property
    def rigid_bodies(self) -> list[RigidBody]:
        """Rigid bodies, parents before children."""
        robot = self.robot
        if robot is None:
            return []
        bodies: list[RigidBody] = []
        body_of: dict[str, RigidBody] = {}
        for root in self.tree.roots:
            body = RigidBody([self.link_by_name[root]], None, is_movable=robot.base is Base.FREE and not robot.static)
            body.is_fixed_or_kinematic = robot.static or robot.base is Base.FIXED
            body_of[root] = body
            bodies.append(body)
        for edge in self.tree.edges:
            link = self.link_by_name[edge.child]
            parent = None if edge.parent is None else body_of[edge.parent]
            free = not robot.static and any(j.n_dofs for j in edge.joints)
            if parent is not None and not free:
                parent.links.append(link)
                body_of[edge.child] = parent
                continue
            body = RigidBody([link], edge if free else None, parent, is_movable=free, is_fixed_or_kinematic=not free)
            if parent is not None:
                parent.children.append(body)
            body_of[edge.child] = body
            bodies.append(body)
        for body in bodies:
            if any(link.kinematic or not link.enabled for link in body.links):
                body.is_movable, body.is_fixed_or_kinematic = False, True
        return bodies

    @cached_property
    def body_by_link(self) -> dict[str, RigidBody]:
        """Rigid body of each link, by link name."""
        return {link.name: body for body in self.rigid_bodies for link in body.links}

    def composite_mass_properties(self, body: RigidBody) -> MassProperties | None:
        """Mass properties of a body in the frame of its first link; None if unknown or not finite."""
        frame = self.initial_poses.get(body.links[0].name)
        parts: list[MassProperties] = []
        for link in body.links:
            pose, own = self.initial_poses.get(link.name), link.inertial
            if own is None:
                continue
            finite = np.isfinite(own.mass) and np.isfinite(own.center).all() and np.isfinite(own.inertia).all()
            if frame is None or pose is None or not finite:
                return None
            relative = frame.inverse() @ pose
            if not relative.is_finite:
                return None
            matter = MassProperties(own.mass, own.center, own.inertia)
            parts.append(transform_mass_properties(matter, relative.rotation, relative.position))
        whole = combine_mass_properties(parts)
        return whole if np.isfinite(whole.center).all() and np.isfinite(whole.inertia).all() else None

    # -- shapes -------------------------------------------------------------------------------------------------

    def convex_hull(self, shape: Shape) -> ConvexHull | None:
        """The convex hull of a shape, in the shape's frame."""
        return self.hulls.convex_hull(shape.geometry)

    def hull_points_in_link(self, link: Link, links: Sequence[Link]) -> Array:
        """Hull vertices of the shapes of links of one body, in the frame of `link`, shape (n, 3)."""
        frame = self.initial_poses.get(link.name)
        found = [np.zeros((0, 3))]
        for other in links:
            pose = self.initial_poses.get(other.name)
            for shape in other.shapes:
                solid = self.convex_hull(shape)
                if solid is None or not shape.pose.is_finite:
                    continue
                if other is link:
                    found.append(shape.pose.apply(solid.points))
                elif frame is not None and pose is not None:
                    found.append((frame.inverse() @ pose @ shape.pose).apply(solid.points))
        points = np.concatenate(found)
        return points if np.isfinite(points).all() else np.zeros((0, 3))

    def extents_are_known(self, links: Sequence[Link]) -> bool:
        """Whether the links have shapes, and the extent of every shape is known."""
        shapes = [shape for link in links for shape in link.shapes]
        return bool(shapes) and all(self.convex_hull(s) is not None and s.pose.is_finite for s in shapes)


_R, _T = AxisMotion.ROTATION, AxisMotion.TRANSLATION
REQUIRED_AXES: dict[JointKind, tuple[AxisMotion, ...]] = {
    JointKind.FIXED: (),
    JointKind.REVOLUTE: (_R,),
    JointKind.CONTINUOUS: (_R,),
    JointKind.PRISMATIC: (_T,),
    JointKind.SPHERICAL: (_R, _R, _R),
    JointKind.CYLINDRICAL: (_R, _T),
    JointKind.PLANAR: (_T, _T, _R),
    JointKind.UNIVERSAL: (_R, _R),
    JointKind.SCREW: (_R,),
    JointKind.FREE: (_T, _T, _T, _R, _R, _R),
}
"""The axes each kind must have; a six-axis joint may have any, a distance joint needs none."""

_KINDS_WITHOUT_LOCKED_AXES = {JointKind.SPHERICAL, JointKind.FREE, JointKind.SCREW}


def has_valid_axes(joint: Joint) -> bool:
    """Whether a joint has the axes that its kind requires, so that its transform can be computed."""
    expected = REQUIRED_AXES.get(joint.kind)
    if expected is None:
        return True
    if joint.kind is JointKind.FIXED:
        return joint.n_dofs == 0
    if joint.kind in _KINDS_WITHOUT_LOCKED_AXES and any(a.locked for a in joint.axes):
        return False
    return Counter(a.motion for a in joint.axes) == Counter(expected)
