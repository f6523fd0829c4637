"""A robot: a graph of links and joints, and what moves and measures them."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from kinema.foundation import Array, Pose

from .assembly import Assembly
from .joint import Joint
from .kinematics import Configuration, coordinates, link_poses
from .link import Link
from .posed_meshes import PosedMesh, posed_meshes
from .tree import KinematicTree, spanning_tree


class Base(enum.StrEnum):
    """What holds a root link that has no joint to the world."""

    UNSPECIFIED = "unspecified"
    """The file does not say (URDF): fixed unless the user asks otherwise."""
    FIXED = "fixed"
    FREE = "free"


@dataclass(kw_only=True, slots=True, eq=False)
class Robot(Assembly):
    """Links, and joints between them. Names of links are unique in a robot, and so are names of joints."""

    links: list[Link] = field(default_factory=list)
    joints: list[Joint] = field(default_factory=list)
    pose: Pose = field(default_factory=Pose)
    """Where its base frame stands in the world; joints to the world hang on this frame."""
    root: str | None = None
    """The link that the file declares as root (USD articulation root, SDFormat canonical link)."""
    base: Base = Base.UNSPECIFIED
    static: bool = False
    """True for scenery: nothing of it ever moves."""

    def tree(self) -> KinematicTree:
        """The spanning tree and the loop-closing joints."""
        return spanning_tree(self.links, self.joints, self.root)

    def link(self, name: str) -> Link:
        """The link of that name."""
        return next(x for x in self.links if x.name == name)

    def joint(self, name: str) -> Joint:
        """The joint of that name."""
        return next(x for x in self.joints if x.name == name)

    @property
    def total_mass(self) -> float:
        """The mass of all links [kg]."""
        return sum(x.inertial.mass for x in self.links if x.inertial is not None)

    @property
    def n_dofs(self) -> int:
        """Degrees of freedom of the joints in the tree."""
        return sum(j.n_dofs for e in self.tree().edges for j in e.joints)

    @property
    def n_qs(self) -> int:
        """Coordinates of the joints in the tree."""
        return sum(j.n_qs for e in self.tree().edges for j in e.joints)

    def link_poses(self, configuration: Configuration | None = None) -> dict[str, Pose]:
        """World poses of all links by name; joints not named stay where the file shows them, or follow their leader."""
        values = coordinates(self.joints, configuration or {})
        return link_poses(self.links, self.tree(), self.pose, values)

    def relative_poses(self) -> dict[str, Pose]:
        """Poses as authored, of each link in its parent, by name; those of roots in the robot's frame.

        The parent is the link that a link is written inside of, else the one that carries it in the tree. Links that
        only joints place are where these start.
        """
        poses = {link.name: link.pose for link in self.links}
        if None in poses.values():
            back = self.pose.inverse()
            placed = self.link_poses()
            poses = {name: back @ placed[name] if pose is None else pose for name, pose in poses.items()}
        carriers = {edge.child: edge.parent for edge in self.tree().edges}
        result: dict[str, Pose] = {}
        for link in self.links:
            parent = link.nested_in if link.nested_in in poses else carriers.get(link.name)
            outer, own = None if parent is None else poses[parent], poses[link.name] or Pose()
            result[link.name] = own if outer is None else outer.inverse() @ own
        return result

    def forward_kinematics(self, configuration: Configuration | None = None) -> dict[str, Array]:
        """World poses of all links as 4x4 matrices by link name.

        Args:
            configuration: joint name -> a number for a one-dof joint, a sequence for more (quaternion w, x, y, z for
                spherical; x, y, z and quaternion for free). Joints not named stay where the file shows them (URDF: at
                zero, MJCF: at qpos0); a mimic joint not named follows its leader.
        """
        return {name: pose.matrix for name, pose in self.link_poses(configuration).items()}

    def posed_meshes(self, configuration: Configuration | None = None, *, kind: str = "collision") -> list[PosedMesh]:
        """The triangles of all shapes in the world: (link, shape name, vertices, faces); primitives tessellated."""
        poses = self.link_poses(configuration)
        return [m for link in self.links for m in posed_meshes(link.name, link.shapes, poses[link.name], kind)]
