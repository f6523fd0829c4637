"""What rules look at: one robot, or a world's own parts, with what several rules need computed once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from kinema.description import (
    SCOPE,
    AxisMotion,
    Base,
    Joint,
    JointKind,
    KinematicTree,
    Link,
    Robot,
    Shape,
    TreeEdge,
    World,
    coordinates,
    spanning_tree,
)
from kinema.foundation import Array, Pose
from kinema.shapes import MassProperties, combine, transform

from .known_names import KnownNames
from .solids import Solid, Solids
from .walk import Leaf, walk


@dataclass(slots=True, eq=False)
class Body:
    """Links that cannot move against each other."""

    links: list[Link]
    carrier: TreeEdge | None
    """The joints that carry it and let it move; None for a root, and for what is fixed to the world."""
    parent: Body | None = None
    children: list[Body] = field(default_factory=list)
    moves: bool = False
    """Whether it certainly moves: a joint lets it, or the robot's base is free."""
    held: bool = False
    """Whether it certainly stands still or is moved by the user. Neither: the file does not say (a URDF root)."""

    @property
    def mass(self) -> float:
        """The mass of its links [kg]; NaN where one is."""
        return sum(link.inertial.mass for link in self.links if link.inertial is not None)

    def below(self) -> Iterator[Body]:
        """The bodies that it carries, directly or not."""
        waiting = list(self.children)
        while waiting:
            body = waiting.pop()
            yield body
            waiting.extend(body.children)


class Context:
    """A robot, or the parts of a world that belong to no robot."""

    def __init__(
        self,
        assembly: Robot | World,
        solids: Solids,
        names: KnownNames,
        world: World | None = None,
        robots: Sequence[Context] = (),
    ) -> None:
        self.assembly = assembly
        self.solids = solids
        self.names = names
        """What can be referred to from here."""
        self.world = world
        """The world around a robot; None for a robot by itself, and for the world."""
        self.robots = robots
        """The robots in a world."""
        self.robot = assembly if isinstance(assembly, Robot) else None
        self.links: list[Link] = assembly.links if isinstance(assembly, Robot) else []
        self.joints: list[Joint] = assembly.joints if isinstance(assembly, Robot) else []

    @property
    def is_top(self) -> bool:
        """Whether nothing is around it: a robot by itself, or the world."""
        return self.world is None

    @property
    def is_scenery(self) -> bool:
        """Whether nothing of it ever moves."""
        return self.robot is None or self.robot.static

    @property
    def format(self) -> str:
        """The format the description was read from."""
        return self.assembly.format or (self.world.format if self.world is not None else "")

    @cached_property
    def leaves(self) -> list[Leaf]:
        """Every number and array in it."""
        return list(walk(self.assembly))

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
    def rest(self) -> dict[str, Pose]:
        """World poses at rest, which is where the robot starts; without the links whose joints are too broken to tell.

        In a world the links are called by their own and by their scoped names.
        """
        if self.robot is None:
            return self._rest_of_robots()
        sound = [j for j in self.joint_by_name.values() if has_sound_axes(j) and j.start.shape == (j.n_qs,)]
        values = coordinates(sound, {})
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

    def _rest_of_robots(self) -> dict[str, Pose]:
        poses: dict[str, Pose] = {}
        for inner in self.robots:
            for name, pose in inner.rest.items():
                poses[f"{inner.assembly.name}{SCOPE}{name}"] = pose
                poses.setdefault(name, pose)
        return poses

    @cached_property
    def bodies(self) -> list[Body]:
        """The rigid bodies, parents before children."""
        robot = self.robot
        if robot is None:
            return []
        bodies: list[Body] = []
        body_of: dict[str, Body] = {}
        for root in self.tree.roots:
            body = Body([self.link_by_name[root]], None, moves=robot.base is Base.FREE and not robot.static)
            body.held = robot.static or robot.base is Base.FIXED
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
            body = Body([link], edge if free else None, parent, moves=free, held=not free)
            if parent is not None:
                parent.children.append(body)
            body_of[edge.child] = body
            bodies.append(body)
        for body in bodies:
            if any(link.kinematic or not link.enabled for link in body.links):
                body.moves, body.held = False, True
        return bodies

    @cached_property
    def body_of(self) -> dict[str, Body]:
        """The body of each link, by the link's name."""
        return {link.name: body for body in self.bodies for link in body.links}

    def fused(self, body: Body) -> MassProperties | None:
        """The body's mass properties in the frame of its first link; None where they are not finite or not known."""
        frame = self.rest.get(body.links[0].name)
        parts: list[MassProperties] = []
        for link in body.links:
            pose, own = self.rest.get(link.name), link.inertial
            if own is None:
                continue
            finite = np.isfinite(own.mass) and np.isfinite(own.center).all() and np.isfinite(own.inertia).all()
            if frame is None or pose is None or not finite:
                return None
            relative = frame.inverse() @ pose
            if not relative.is_finite:
                return None
            matter = MassProperties(own.mass, own.center, own.inertia)
            parts.append(transform(matter, relative.rotation, relative.position))
        whole = combine(parts)
        return whole if np.isfinite(whole.center).all() and np.isfinite(whole.inertia).all() else None

    # -- shapes -------------------------------------------------------------------------------------------------

    def solid(self, shape: Shape) -> Solid | None:
        """The convex hull of a shape, in the shape's frame."""
        return self.solids.solid(shape.geometry)

    def points_in_link(self, link: Link, of: Sequence[Link]) -> Array:
        """Corners of the shapes of some links of one body, in the frame of one of them, shape (n, 3)."""
        frame = self.rest.get(link.name)
        found = [np.zeros((0, 3))]
        for other in of:
            pose = self.rest.get(other.name)
            for shape in other.shapes:
                solid = self.solid(shape)
                if solid is None or not shape.pose.is_finite:
                    continue
                if other is link:
                    found.append(shape.pose.apply(solid.points))
                elif frame is not None and pose is not None:
                    found.append((frame.inverse() @ pose @ shape.pose).apply(solid.points))
        points = np.concatenate(found)
        return points if np.isfinite(points).all() else np.zeros((0, 3))

    def shapes_are_known(self, links: Sequence[Link]) -> bool:
        """Whether there are shapes, and the extent of every one is known."""
        shapes = [shape for link in links for shape in link.shapes]
        return bool(shapes) and all(self.solid(s) is not None and s.pose.is_finite for s in shapes)


_R, _T = AxisMotion.ROTATION, AxisMotion.TRANSLATION
AXES_OF_KIND: dict[JointKind, tuple[AxisMotion, ...]] = {
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

_NEVER_LOCKED = {JointKind.SPHERICAL, JointKind.FREE, JointKind.SCREW}


def has_sound_axes(joint: Joint) -> bool:
    """Whether the joint has the axes that its kind says, so that its motion can be computed."""
    expected = AXES_OF_KIND.get(joint.kind)
    if expected is None:
        return True
    if joint.kind is JointKind.FIXED:
        return joint.n_dofs == 0
    if joint.kind in _NEVER_LOCKED and any(a.locked for a in joint.axes):
        return False
    return Counter(a.motion for a in joint.axes) == Counter(expected)
