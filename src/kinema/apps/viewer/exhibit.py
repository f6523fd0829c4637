"""What is shown: a description, where it is put, and the names by which its parts are called."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kinema.description import Joint, Link, Mesh, Robot, Shape, World
from kinema.foundation import Array, Diagnostic, Pose
from kinema.scene import Entity

from .coordinates import Slide, flat, slides_of, unflat
from .mechanism import Mechanism
from .painted import is_endless, triangles

WORLD = "world"
"""What the link of static shapes is called."""


@dataclass(frozen=True, slots=True)
class Part:
    """A link, joint or shape of an exhibit."""

    exhibit: int
    kind: str
    """`link`, `joint` or `shape`."""
    name: str
    """Of the link or joint; of a shape, its link's."""
    index: int = -1
    """Of a shape: its place in its link."""


@dataclass(slots=True, eq=False)
class Exhibit:
    """One description, posed by its joints or by an entity of a scene."""

    number: int
    title: str
    description: Robot | World
    offset: Pose = field(default_factory=Pose)
    """Where its own world is put."""
    diagnostics: list[Diagnostic] = field(default_factory=list)
    entity: Entity | None = None
    """What simulates it, once there is one."""
    links: dict[str, Link] = field(default_factory=dict)
    joints: dict[str, Joint] = field(default_factory=dict)
    mechanisms: list[Mechanism] = field(default_factory=list)
    _names: dict[int, dict[str, str]] = field(default_factory=dict)
    """For each mechanism, unique names by the robot's own: of links and of joints."""

    def __post_init__(self) -> None:
        robots = self.robots
        self.mechanisms = [Mechanism(robot) for robot in robots]
        if isinstance(self.description, World):
            links = [(name, robot, link) for name, robot, link in self.description.named_links()]
            joints = [(name, robot, joint) for name, robot, joint in self.description.named_joints()]
        else:
            links = [(link.name, self.description, link) for link in self.description.links]
            joints = [(joint.name, self.description, joint) for joint in self.description.joints]
        self.links = {name: link for name, _, link in links}
        self.joints = {name: joint for name, _, joint in joints}
        place = {id(robot): i for i, robot in enumerate(robots)}
        for kind, rows in (("link", links), ("joint", joints)):
            for name, robot, node in rows:
                self._names.setdefault(place[id(robot)], {})[f"{kind}:{node.name}"] = name

    @property
    def robots(self) -> list[Robot]:
        """The robots in it."""
        return self.description.robots if isinstance(self.description, World) else [self.description]

    @property
    def statics(self) -> list[Shape]:
        """Shapes that never move."""
        return self.description.shapes if isinstance(self.description, World) else []

    def shapes(self, link: str) -> list[Shape]:
        """The shapes of a link, or of the world."""
        return self.statics if link == WORLD and link not in self.links else self.links[link].shapes

    def shapes_by_link(self) -> dict[str, list[Shape]]:
        """All shapes, by the names of their links."""
        found = {name: link.shapes for name, link in self.links.items()}
        return found if WORLD in found or not self.statics else {WORLD: self.statics, **found}

    def drawn(self) -> dict[str, list[tuple[int, Shape]]]:
        """The shapes that are drawn, with their places in their links.

        Those to be seen; all of a file that has none; and those that touch, of links whose meshes are all missing.
        """
        own = [shape for link in self.links.values() for shape in link.shapes]
        every = not any(shape.visual for shape in own)
        result = {}
        for link, shapes in self.shapes_by_link().items():
            seen = [(i, s) for i, s in enumerate(shapes) if s.visual and not is_endless(s)]
            if link in self.links and (every or (seen and all(_is_missing(s) for _, s in seen))):
                seen = [(i, s) for i, s in enumerate(shapes) if not is_endless(s)]
            result[link] = seen
        return result

    def unique_link(self, mechanism: int, name: str | None) -> str | None:
        """A link of one robot by the name that is unique here; None for a base frame."""
        return None if name is None else self._names.get(mechanism, {}).get(f"link:{name}")

    def unique_joint(self, mechanism: int, name: str) -> str:
        """A joint of one robot by the name that is unique here."""
        return self._names[mechanism][f"joint:{name}"]

    # --------------------------------------------------------------------------------------------------- posing

    def slides(self) -> list[Slide]:
        """The degrees of freedom of all joints in the trees."""
        return [
            slide
            for i, mechanism in enumerate(self.mechanisms)
            for edge in mechanism.tree.edges
            for joint in edge.joints
            for slide in slides_of(self.unique_joint(i, joint.name), joint)
        ]

    def values(self) -> dict[str, Array]:
        """The coordinates of all joints in slides' numbers."""
        return {
            self.unique_joint(i, name): flat(mechanism.by_name[name], q)
            for i, mechanism in enumerate(self.mechanisms)
            for name, q in mechanism.values.items()
        }

    def move(self, moved: Mapping[str, Array]) -> bool:
        """Put joints where slides are, followers and loops with them; False where loops cannot close."""
        fine = True
        for i, mechanism in enumerate(self.mechanisms):
            own = {
                name: unflat(joint, moved[unique])
                for name, joint in mechanism.by_name.items()
                if (unique := self.unique_joint(i, name)) in moved
            }
            fine &= mechanism.move(own) if own else True
        return fine

    def reset(self) -> None:
        """Back to where the file shows it."""
        for mechanism in self.mechanisms:
            mechanism.reset()

    def poses(self) -> dict[str, Pose]:
        """World poses of all links, as the joints have them."""
        result = {
            self._names[i][f"link:{name}"]: self.offset @ pose
            for i, mechanism in enumerate(self.mechanisms)
            for name, pose in mechanism.poses().items()
        }
        return result if WORLD in result else {WORLD: self.offset, **result}

    # ------------------------------------------------------------------------------------------------- simulated

    def simulated_poses(self, envs: Any) -> dict[str, tuple[Array, Array]]:
        """Positions (n, 3) and quaternions (n, 4) of all links in some environments."""
        assert self.entity is not None
        places, turns = self.entity.get_links_pos(envs_idx=envs), self.entity.get_links_quat(envs_idx=envs)
        result = {link.name: (places[:, i], turns[:, i]) for i, link in enumerate(self.entity.links)}
        still = np.tile(self.offset.position, (len(envs), 1)), np.tile(self.offset.quaternion, (len(envs), 1))
        return result if WORLD in result else {WORLD: still, **result}

    def take_from(self, env: int) -> None:
        """Let the joints be where the simulation has them."""
        assert self.entity is not None
        q = self.entity.get_qpos([env])[0]
        known = {j.name: q[list(j.qs_idx)].astype(np.float64) for j in self.entity.joints}
        for i, mechanism in enumerate(self.mechanisms):
            own = {
                name: known[unique]
                for name, joint in mechanism.by_name.items()
                if (unique := self.unique_joint(i, name)) in known and len(known[unique]) == joint.n_qs
            }
            mechanism.show(own)

    def give_to(self, env: int | None) -> None:
        """Let the simulation be where the joints are, in one environment or all."""
        assert self.entity is not None
        values = {
            self.unique_joint(i, name): q
            for i, mechanism in enumerate(self.mechanisms)
            for name, q in mechanism.values.items()
        }
        envs = None if env is None else [env]
        q = self.entity.get_qpos(envs)
        for joint in self.entity.joints:
            if joint.name in values and len(values[joint.name]) == len(joint.qs_idx):
                q[:, list(joint.qs_idx)] = values[joint.name]
        self.entity.set_qpos(q, envs)
        self.entity.set_qvel(np.zeros((len(q), self.entity.n_dofs)), envs)


def _is_missing(shape: Shape) -> bool:
    """Whether it is a mesh whose file was not found."""
    mesh = shape.geometry
    return isinstance(mesh, Mesh) and mesh.vertices is None and not mesh.path


def bounds(exhibit: Exhibit) -> tuple[Array, Array] | None:
    """The box around everything that has an edge, in the world [m]; None where there is nothing."""
    poses = exhibit.poses()
    corners: list[Array] = []
    for link, shapes in exhibit.drawn().items():
        for _, shape in shapes:
            mesh = triangles(shape)
            if mesh is None or not poses[link].is_finite:
                continue
            low, high = mesh.vertices.min(axis=0), mesh.vertices.max(axis=0)
            box = np.array(np.meshgrid(*np.stack([low, high], axis=1), indexing="ij")).reshape(3, -1).T
            corners.append((poses[link] @ shape.pose).apply(box))
    corners += [pose.position[None] for name, pose in poses.items() if name != WORLD and pose.is_finite]
    if not corners:
        return None
    every = np.concatenate(corners)
    return every.min(axis=0), every.max(axis=0)
