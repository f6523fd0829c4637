"""A world: robots, scenery, gravity."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from kinema.foundation import Array, KinemaError, Pose

from .assembly import Assembly
from .joint import Joint
from .kinematics import Configuration
from .link import Link
from .posed_meshes import PosedMesh, posed_meshes
from .robot import Robot
from .shape import Shape

SCOPE = "::"
"""Between a robot's name and the name of its link or joint, where the latter alone is not unique in the world."""


@dataclass(kw_only=True, slots=True, eq=False)
class World(Assembly):
    """Any number of robots, static shapes, and what spans several robots."""

    robots: list[Robot] = field(default_factory=list)
    shapes: list[Shape] = field(default_factory=list)
    """Static shapes, posed in the world."""

    @property
    def links(self) -> list[Link]:
        """The links of all robots."""
        return [link for robot in self.robots for link in robot.links]

    @property
    def joints(self) -> list[Joint]:
        """The joints of all robots."""
        return [joint for robot in self.robots for joint in robot.joints]

    @property
    def total_mass(self) -> float:
        """The mass of all links [kg]."""
        return sum(r.total_mass for r in self.robots)

    @property
    def n_dofs(self) -> int:
        """Degrees of freedom of all robots' trees."""
        return sum(r.n_dofs for r in self.robots)

    @property
    def n_qs(self) -> int:
        """Coordinates of all robots' trees."""
        return sum(r.n_qs for r in self.robots)

    def named_links(self) -> Iterator[tuple[str, Robot, Link]]:
        """Every link with the name that is unique in this world."""
        shared = _shared(link.name for link in self.links)
        for robot in self.robots:
            for link in robot.links:
                yield qualified(robot, link.name, shared), robot, link

    def named_joints(self) -> Iterator[tuple[str, Robot, Joint]]:
        """Every joint with the name that is unique in this world."""
        shared = _shared(joint.name for joint in self.joints)
        for robot in self.robots:
            for joint in robot.joints:
                yield qualified(robot, joint.name, shared), robot, joint

    def _split(self, configuration: Configuration) -> list[tuple[Robot, Configuration]]:
        """The configuration, robot by robot; a joint may be called by its own or by its scoped name."""
        known: dict[str, tuple[int, str]] = {}
        place = {id(robot): i for i, robot in enumerate(self.robots)}
        for name, robot, joint in self.named_joints():
            known[f"{robot.name}{SCOPE}{joint.name}"] = known[name] = (place[id(robot)], joint.name)
        parts: list[dict] = [{} for _ in self.robots]
        for name, value in configuration.items():
            if name not in known:
                names = ", ".join(n for n, _, _ in self.named_joints())
                raise KinemaError(f"there is no joint {name!r}; the joints are: {names or 'none'}")
            index, joint_name = known[name]
            parts[index][joint_name] = value
        return list(zip(self.robots, parts, strict=True))

    def link_poses(self, configuration: Configuration | None = None) -> dict[str, Pose]:
        """World poses of all links, by the names of `named_links`."""
        shared = _shared(link.name for link in self.links)
        return {
            qualified(robot, name, shared): pose
            for robot, part in self._split(configuration or {})
            for name, pose in robot.link_poses(part).items()
        }

    def relative_poses(self) -> dict[str, Pose]:
        """Poses as authored, of each link in its parent, by the names of `named_links`; see `Robot.relative_poses`.

        A link may be written inside one of another robot; roots that are in none have their pose in the world.
        """
        places = {name: robot.pose @ (link.pose or Pose()) for name, robot, link in self.named_links()}
        relative = {id(robot): robot.relative_poses() for robot in self.robots}
        roots = {id(robot): set(robot.tree().roots) for robot in self.robots}
        result: dict[str, Pose] = {}
        for name, robot, link in self.named_links():
            own, outer = relative[id(robot)], link.nested_in
            if outer is not None and outer not in own and outer in places:
                result[name] = places[outer].inverse() @ places[name]
            elif link.name in roots[id(robot)] and outer not in own:
                result[name] = robot.pose @ own[link.name]
            else:
                result[name] = own[link.name]
        return result

    def forward_kinematics(self, configuration: Configuration | None = None) -> dict[str, Array]:
        """World poses of all links as 4x4 matrices; see `Robot.forward_kinematics`."""
        return {name: pose.matrix for name, pose in self.link_poses(configuration).items()}

    def posed_meshes(self, configuration: Configuration | None = None, *, kind: str = "collision") -> list[PosedMesh]:
        """The triangles of all shapes in the world; static shapes belong to the link `world`."""
        poses = self.link_poses(configuration)
        result = posed_meshes("world", self.shapes, Pose(), kind)
        for name, _, link in self.named_links():
            result += posed_meshes(name, link.shapes, poses[name], kind)
        return result


def _shared(names: Iterator[str] | object) -> set[str]:
    return {name for name, count in Counter(names).items() if count > 1}  # type: ignore[arg-type]  # ty: ignore[no-matching-overload]


def qualified(robot: Robot, name: str, shared: set[str]) -> str:
    """The name, with its robot's before it where several robots have one of that name."""
    return f"{robot.name}{SCOPE}{name}" if name in shared else name
