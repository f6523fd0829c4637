"""`Robot`: links and joints, and `Assembly`, the elements that robots and worlds share."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any

from kinema.core import Array, Diagnostics, Pose

from .actuation import Actuator, Tendon
from .collision_filter import CollisionRules
from .constraint import Constraint
from .joint import Joint
from .kinematics import Configuration, KinematicTree, joint_coordinates, link_poses, spanning_tree
from .link import Link
from .node import Node
from .sensing import Camera, Frame, Keyframe, Light, Sensor
from .tessellation import PosedMesh, posed_meshes


@dataclass(kw_only=True, slots=True, eq=False)
class Assembly(Node):
    """Base class of robots and worlds: constraints, actuators, tendons, sensors, frames and options."""

    format: str = ""
    """Source format: `urdf`, `sdf`, `mjcf`, `usd`, `cad`; empty if created in memory."""
    source: str = ""
    """Path of the source file."""
    diagnostics: Diagnostics = field(default_factory=Diagnostics)
    """Messages of the reader."""
    gravity: Array | None = None
    """Gravity in the world [m/s2], (3,); None if the file gives none (then (0, 0, -9.81))."""
    constraints: list[Constraint] = field(default_factory=list)
    actuators: list[Actuator] = field(default_factory=list)
    tendons: list[Tendon] = field(default_factory=list)
    sensors: list[Sensor] = field(default_factory=list)
    frames: list[Frame] = field(default_factory=list)
    cameras: list[Camera] = field(default_factory=list)
    lights: list[Light] = field(default_factory=list)
    keyframes: list[Keyframe] = field(default_factory=list)
    collision: CollisionRules = field(default_factory=CollisionRules)
    options: dict[str, Any] = field(default_factory=dict)
    """Simulation options of the file: `timestep` [s], `integrator`, ...; see `OPTION_DEFAULTS`."""


class Base(enum.StrEnum):
    """How a root link without a joint to the world is attached."""

    UNSPECIFIED = "unspecified"
    """The file does not specify it (URDF): fixed unless the user decides otherwise."""
    FIXED = "fixed"
    FREE = "free"


@dataclass(kw_only=True, slots=True, eq=False)
class Robot(Assembly):
    """A graph of links and joints; names of links, and names of joints, are unique in a robot."""

    links: list[Link] = field(default_factory=list)
    joints: list[Joint] = field(default_factory=list)
    pose: Pose = field(default_factory=Pose)
    """World pose of the base frame, the parent frame of joints to the world."""
    root: str | None = None
    """Root link declared by the file (USD articulation root, SDFormat canonical link)."""
    base: Base = Base.UNSPECIFIED
    static: bool = False
    """Whether no part of the robot ever moves."""

    def tree(self) -> KinematicTree:
        """Kinematic tree: spanning tree and loop-closing joints."""
        return spanning_tree(self.links, self.joints, self.root)

    def link(self, name: str) -> Link:
        """Link with this name."""
        return next(x for x in self.links if x.name == name)

    def joint(self, name: str) -> Joint:
        """Joint with this name."""
        return next(x for x in self.joints if x.name == name)

    @property
    def total_mass(self) -> float:
        """Total mass of all links [kg]."""
        return sum(x.inertial.mass for x in self.links if x.inertial is not None)

    @property
    def n_dofs(self) -> int:
        """Number of degrees of freedom of the joints in the tree."""
        return sum(j.n_dofs for e in self.tree().edges for j in e.joints)

    @property
    def n_qs(self) -> int:
        """Number of coordinates of the joints in the tree."""
        return sum(j.n_qs for e in self.tree().edges for j in e.joints)

    def link_poses(self, configuration: Configuration | None = None) -> dict[str, Pose]:
        """World poses of all links by name (forward kinematics).

        Args:
            configuration: coordinates by joint name; joints not listed have their authored coordinates, or follow their
                mimic leader.
        """
        values = joint_coordinates(self.joints, configuration or {})
        return link_poses(self.links, self.tree(), self.pose, values)

    def relative_poses(self) -> dict[str, Pose]:
        """Authored pose of each link relative to its parent link, by name; root links relative to the robot frame.

        The parent is the link that contains the link in the file, else its parent in the tree. Links without authored
        pose are at the initial coordinates of their joints.
        """
        poses = {link.name: link.pose for link in self.links}
        if None in poses.values():
            world_to_robot = self.pose.inverse()
            world_poses = self.link_poses()
            poses = {name: world_to_robot @ world_poses[name] if pose is None else pose for name, pose in poses.items()}
        tree_parent = {edge.child: edge.parent for edge in self.tree().edges}
        result: dict[str, Pose] = {}
        for link in self.links:
            parent = link.nested_in if link.nested_in in poses else tree_parent.get(link.name)
            parent_pose, link_pose = None if parent is None else poses[parent], poses[link.name] or Pose()
            result[link.name] = link_pose if parent_pose is None else parent_pose.inverse() @ link_pose
        return result

    def forward_kinematics(self, configuration: Configuration | None = None) -> dict[str, Array]:
        """World poses of all links by name, as 4x4 matrices.

        Args:
            configuration: joint name -> number for a joint with one dof, sequence for others (quaternion w, x, y, z for
                spherical; x, y, z and quaternion for free). Joints not listed have their authored coordinates (URDF:
                zero, MJCF: qpos0); mimic joints not listed follow their leader.
        """
        return {name: pose.matrix for name, pose in self.link_poses(configuration).items()}

    def posed_meshes(self, configuration: Configuration | None = None, *, kind: str = "collision") -> list[PosedMesh]:
        """Triangle meshes of all shapes in the world: (link, shape name, vertices, faces); primitives are tessellated.

        Args:
            configuration: coordinates by joint name; None for the authored configuration.
            kind: `collision` (default) or `visual`.
        """
        poses = self.link_poses(configuration)
        return [m for link in self.links for m in posed_meshes(link.name, link.shapes, poses[link.name], kind)]
