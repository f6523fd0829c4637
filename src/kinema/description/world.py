"""`World`: robots, static shapes and gravity; a world that consists of terrain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from kinema import geometry
from kinema.core import Array, KinemaError, Pose

from .joint import Joint
from .kinematics import Configuration
from .link import Link
from .material import PhysicsMaterial
from .node import file_order
from .robot import Assembly, Robot
from .shape import HeightField, Shape
from .tessellation import PosedMesh, posed_meshes

SCOPE = "::"
"""Separator of a robot's name and the name of its link or joint, if the latter is not unique in the world."""


@dataclass(kw_only=True, slots=True, eq=False)
class World(Assembly):
    """Robots, static shapes, and elements that span several robots."""

    robots: list[Robot] = field(default_factory=list)
    shapes: list[Shape] = field(default_factory=list)
    """Static shapes, posed in the world."""

    @property
    def links(self) -> list[Link]:
        """Links of all robots in file order: robot by robot, unless the file interleaves their links."""
        return sorted((link for robot in self.robots for link in robot.links), key=file_order)

    @property
    def joints(self) -> list[Joint]:
        """Joints of all robots in file order: robot by robot, unless the file interleaves their joints."""
        return sorted((joint for robot in self.robots for joint in robot.joints), key=file_order)

    @property
    def total_mass(self) -> float:
        """Total mass of all links [kg]."""
        return sum(r.total_mass for r in self.robots)

    @property
    def n_dofs(self) -> int:
        """Number of degrees of freedom of all robots."""
        return sum(r.n_dofs for r in self.robots)

    @property
    def n_qs(self) -> int:
        """Number of coordinates of all robots."""
        return sum(r.n_qs for r in self.robots)

    def named_links(self) -> Iterator[tuple[str, Robot, Link]]:
        """All links in file order: unique name in the world (`robot::link` if robots share it), robot, link."""
        shared = _duplicate_names(link.name for link in self.links)
        pairs = [(robot, link) for robot in self.robots for link in robot.links]
        for robot, link in sorted(pairs, key=lambda pair: file_order(pair[1])):
            yield qualified_name(robot, link.name, shared), robot, link

    def named_joints(self) -> Iterator[tuple[str, Robot, Joint]]:
        """All joints in file order: unique name in the world (`robot::joint` if robots share it), robot, joint."""
        shared = _duplicate_names(joint.name for joint in self.joints)
        pairs = [(robot, joint) for robot in self.robots for joint in robot.joints]
        for robot, joint in sorted(pairs, key=lambda pair: file_order(pair[1])):
            yield qualified_name(robot, joint.name, shared), robot, joint

    def _split_configuration(self, configuration: Configuration) -> list[tuple[Robot, Configuration]]:
        """Split a configuration of the world into configurations of its robots, with their own joint names.

        Args:
            configuration: coordinates by unique joint name or by `robot::joint`; unknown names raise `KinemaError`.
        """
        known: dict[str, tuple[int, str]] = {}
        robot_index = {id(robot): i for i, robot in enumerate(self.robots)}
        for name, robot, joint in self.named_joints():
            known[f"{robot.name}{SCOPE}{joint.name}"] = known[name] = (robot_index[id(robot)], joint.name)
        parts: list[dict] = [{} for _ in self.robots]
        for name, value in configuration.items():
            if name not in known:
                names = ", ".join(n for n, _, _ in self.named_joints())
                raise KinemaError(f"there is no joint {name!r}; the joints are: {names or 'none'}")
            index, joint_name = known[name]
            parts[index][joint_name] = value
        return list(zip(self.robots, parts, strict=True))

    def link_poses(self, configuration: Configuration | None = None) -> dict[str, Pose]:
        """World poses of all links, by the names of `named_links` (forward kinematics).

        Args:
            configuration: coordinates by joint name; joints not listed have their authored coordinates, or follow their
                mimic leader.
        """
        shared = _duplicate_names(link.name for link in self.links)
        return {
            qualified_name(robot, name, shared): pose
            for robot, part in self._split_configuration(configuration or {})
            for name, pose in robot.link_poses(part).items()
        }

    def relative_poses(self) -> dict[str, Pose]:
        """Authored pose of each link relative to its parent link, by the names of `named_links`.

        See `Robot.relative_poses`. A link may be nested in a link of another robot; root links that are not nested have
        their pose in the world.
        """
        world_poses = {name: robot.pose @ (link.pose or Pose()) for name, robot, link in self.named_links()}
        relative = {id(robot): robot.relative_poses() for robot in self.robots}
        roots = {id(robot): set(robot.tree().roots) for robot in self.robots}
        result: dict[str, Pose] = {}
        for name, robot, link in self.named_links():
            robot_poses, container = relative[id(robot)], link.nested_in
            if container is not None and container not in robot_poses and container in world_poses:
                result[name] = world_poses[container].inverse() @ world_poses[name]
            elif link.name in roots[id(robot)] and container not in robot_poses:
                result[name] = robot.pose @ robot_poses[link.name]
            else:
                result[name] = robot_poses[link.name]
        return result

    def forward_kinematics(self, configuration: Configuration | None = None) -> dict[str, Array]:
        """World poses of all links as 4x4 matrices, by the names of `named_links`.

        Args:
            configuration: coordinates by joint name; see `Robot.forward_kinematics`.
        """
        return {name: pose.matrix for name, pose in self.link_poses(configuration).items()}

    def posed_meshes(self, configuration: Configuration | None = None, *, kind: str = "collision") -> list[PosedMesh]:
        """Triangle meshes of all shapes in the world; static shapes have the link name `world`.

        Args:
            configuration: coordinates by joint name; None for the authored configuration.
            kind: `collision` (default) or `visual`.
        """
        poses = self.link_poses(configuration)
        result = posed_meshes("world", self.shapes, Pose(), kind)
        for name, _, link in self.named_links():
            result += posed_meshes(name, link.shapes, poses[name], kind)
        return result


def _duplicate_names(names: Iterator[str] | object) -> set[str]:
    return {name for name, count in Counter(names).items() if count > 1}  # type: ignore[arg-type]  # ty: ignore[no-matching-overload]


def qualified_name(robot: Robot, name: str, duplicate_names: set[str]) -> str:
    """Name of a link, joint or frame, prefixed with its robot's name (`robot::name`) if it is a duplicate."""
    return f"{robot.name}{SCOPE}{name}" if name in duplicate_names else name


def terrain_world(terrain: geometry.Terrain, name: str = "terrain", surface: PhysicsMaterial | None = None) -> World:
    """World with a single static height field, centred at the origin.

    Args:
        terrain: heights and size.
        name: name of the world and of the shape.
        surface: contact material; None for the default.
    """
    field = HeightField(heights=terrain.heights, size=terrain.size, base=terrain.base)
    return World(name=name, shapes=[Shape(name=name, geometry=field, surface=surface)])
