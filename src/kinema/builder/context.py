"""Build context: records of links, joints, frames and transmission path segments, shared by builder passes.

Also lookup of named elements (joints, frames, shapes) of an entity. A *moving frame* is the frame behind one primitive
joint (hinge, slide, screw, ball); its index is -1 for the world.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from kinema.core import Array, Diagnostics, Pose
from kinema.description import (
    Axis,
    Collider,
    Geometry,
    Joint,
    KinematicTree,
    Link,
    Neighbours,
    Robot,
    Shape,
    World,
    colliders,
    file_order,
)

from .joints import JointChain, PlacedPrimitiveJoint, tree_without_breakable_joints


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class EntitySpec:
    """A robot or world added to a scene: its description, base pose, and fixed or floating base."""

    name: str
    description: Robot | World
    pose: Pose | None = None
    """Pose of the base frame in the world; None for the pose given by the file."""
    fixed: bool | None = None
    """Whether the base is fixed to the world; None for the file's choice."""
    nonconvex: str | None = None
    """Collision approximation of non-convex meshes (a key of `NONCONVEX_APPROXIMATIONS`); None for the file's
    choice."""
    self_collision: bool | None = None
    """Whether links of a robot collide with each other where its rules allow it; None to exclude links that overlap in
    the initial configuration, if the format has no collision filters."""


@dataclass(slots=True, eq=False)
class GeometryCache:
    """Results that depend on collision geometry alone, shared by the builds of all variants of a scene."""

    collision_shapes: dict[tuple[int, str | None], Any] = field(default_factory=dict)
    """Collision shapes by `id` of the described shape and approximation."""
    overlapping_links: dict[int, frozenset[frozenset[str]]] = field(default_factory=dict)
    """Pairs of links of each entity that do not collide because they overlap in the initial configuration."""
    overlapping_links_by_description: dict[tuple[int, str | None, bool | None], frozenset[frozenset[str]]] = field(
        default_factory=dict
    )
    """The same by `id` of the description, approximation of meshes and choice of self-collision."""


@dataclass(slots=True, eq=False)
class TreeCache:
    """Records that depend on robots alone, not on base poses, shared by the entities that have them."""

    trees: dict[int, KinematicTree] = field(default_factory=dict)
    """Spanning trees by `id` of the robot."""
    free_joints: dict[tuple[int, str], Joint] = field(default_factory=dict)
    """Generated joints of floating root links, by `id` of the robot and link."""
    joints_in_world: dict[int, Joint] = field(default_factory=dict)
    """Free joints whose coordinates are relative to the world origin, by `id` of the joint of the description."""
    chains_of_free_joints: dict[int, JointChain] = field(default_factory=dict)
    """Joint chains of free joints to the world, by `id` of the joint."""


LinkOfEntity = tuple[int, int]
"""Index of an entity and index of a link within it."""


@dataclass(frozen=True, slots=True)
class AttachmentSpec:
    """A pair of links that a scene can attach to each other at run time."""

    anchor: LinkOfEntity
    """Link whose origin is the default anchor."""
    other: LinkOfEntity | None
    """The other link; None for the world."""
    kind: str = "weld"
    """Key of `ATTACHMENT_COMPONENTS` (builder/attachments.py)."""
    cup: int = -1
    """Suction cup that activates the attachment; -1 for none."""


@dataclass(frozen=True, slots=True, eq=False)
class SuctionCupSpec:
    """A suction cup (vacuum gripper) on a link."""

    name: str
    link: LinkOfEntity
    pos: Array
    """Contact point (centre of the rim) in the link [m], (3,)."""
    axis: Array
    """Unit vector out of the cup in the link, (3,)."""
    reach: float
    """Range: largest distance of a surface at which the cup attaches a link [m]."""
    max_force: float
    """Largest holding force [N]."""


@dataclass(slots=True, eq=False)
class LinkRecord:
    """A link of the scene, with its position in the kinematic tree and its moving frame."""

    name: str
    description: Link
    robot: Robot
    entity: int
    parent: LinkRecord | None
    """Parent link; None for the world."""
    chain: JointChain
    """Constant poses and primitive joints from the parent link to this link."""
    joints: list[JointRecord]
    """Joints with degrees of freedom between the parent link and this link."""
    index: int = -1
    """Row in the table of links; -1 before `number_links_and_coordinates`."""
    primitive_joints: list[PlacedPrimitiveJoint] = field(default_factory=list)
    """Primitive joints of `chain`, one per moving frame; set by `fold_fixed_joints`."""
    frame_idx: int = -1
    """Moving frame that the link is rigidly attached to; -1 for the world."""
    pose_in_frame: Pose = field(default_factory=Pose)
    """Pose of the link in that frame."""
    is_on_kinematic_body: bool = False
    """Whether that frame is the frame of a kinematic body."""


@dataclass(slots=True, eq=False)
class JointRecord:
    """A joint of the kinematic tree with the start of its coordinates and degrees of freedom."""

    name: str
    description: Joint
    robot: Robot
    entity: int
    initial_q: Array
    """Initial coordinates, (n_qs,)."""
    file_frame: Pose | None = None
    """For a free joint whose coordinates are relative to the world origin here: the frame that the coordinates of the
    file are relative to. None for other joints."""
    link: LinkRecord | None = None
    """Child link."""
    q_start: int = -1
    """Index of the first coordinate in qpos."""
    dof_start: int = -1
    """Index of the first degree of freedom."""
    moving_axes: list[Axis] = field(init=False)
    """Axes that are not locked: one per degree of freedom."""
    n_qs: int = field(init=False)
    """Number of coordinates."""

    def __post_init__(self) -> None:
        self.moving_axes, self.n_qs = self.description.moving_axes, self.description.n_qs

    @property
    def n_dofs(self) -> int:
        """Number of degrees of freedom."""
        return len(self.moving_axes)


@dataclass(frozen=True, slots=True, eq=False)
class AttachmentFrame:
    """A frame rigidly attached to a moving frame, or to the world (`frame_idx` -1)."""

    frame_idx: int
    pose: Pose
    """Pose in the moving frame, or in the world."""


@dataclass(frozen=True, slots=True, eq=False)
class PathSegment:
    """One segment of a transmission path: the content of a row of `PathSegmentsInfo`."""

    path_idx: int
    kind: str
    """Segment type, such as `straight`, `sphere`, `crank`, `pose` (see `PathSegmentsInfo.kinds`)."""
    ends: list[AttachmentFrame]
    """Start and end; for a wrapping segment also the wrapping geom and the side site."""
    scale: float = 1.0
    """Factor on the segment length."""
    params: tuple[float, ...] = ()
    """Parameters of the segment type: radius, rod length or gear."""


@dataclass(slots=True, eq=False)
class BuildContext:
    """Intermediate data of one build: entities, links, joints, moving frames and transmission path segments."""

    entities: list[EntitySpec]
    diagnostics: Diagnostics
    links: list[LinkRecord] = field(default_factory=list)
    joints: list[JointRecord] = field(default_factory=list)
    frames: list[tuple[int, PlacedPrimitiveJoint, int]] = field(default_factory=list)
    """Per moving frame: index of the parent frame, primitive joint, index of the joint in `joints` (-1 for kinematic
    bodies)."""
    joint_idx: dict[tuple[int, int], int] = field(default_factory=dict)
    """Index in `joints` by entity and `id` of the joint description (a robot may be added twice)."""
    joints_of_entity: dict[int, list[JointRecord]] = field(default_factory=dict)
    """Joints by entity, in the order of `joints`."""
    has_kinematic_bodies: bool = False
    """Whether kinematic links get a frame that can be moved; else they are fixed to the world."""
    switchable_equalities: bool = False
    """Whether equality constraints may be switched on and off at run time."""
    attachments: Sequence[AttachmentSpec] = ()
    """Attachments reserved for run time."""
    suction_cups: Sequence[SuctionCupSpec] = ()
    geometry_cache: GeometryCache = field(default_factory=GeometryCache)
    """Collision shapes and overlapping links; may be shared by builds of variants of a scene."""
    n_qs: int = 0
    n_dofs: int = 0
    path_segments: list[PathSegment] = field(default_factory=list)
    """Segments of all transmission paths."""
    breakable_equality_idx: dict[tuple[int, str], int] = field(default_factory=dict)
    """Row of the equality constraint of a breakable joint, by entity and joint name."""
    path_idx: dict[tuple[int, int], int] = field(default_factory=dict)
    """Transmission path index by entity and `id` of a tendon or of a loop-joint axis."""
    tendon_idx: dict[tuple[int, int], int] = field(default_factory=dict)
    """Row in the table of tendons by entity and `id` of the tendon, for tendons in the table."""
    tree_cache: TreeCache = field(default_factory=TreeCache)
    """Spanning trees and free joints of the robots, shared by entities with the same description."""
    colliders_of_description: dict[int, tuple[list[Collider], Neighbours]] = field(default_factory=dict)
    """Collision shapes and neighbouring bodies by `id` of the description, as they are needed."""

    def spanning_tree(self, robot: Robot) -> KinematicTree:
        """Spanning tree of a robot in which breakable joints are loop joints; cached per robot."""
        trees = self.tree_cache.trees
        if id(robot) not in trees:
            trees[id(robot)] = tree_without_breakable_joints(robot)
        return trees[id(robot)]

    def colliders(self, entity: int) -> tuple[list[Collider], Neighbours]:
        """Collision shapes of an entity and its pairs of bodies connected by joints; cached per description."""
        description = self.entities[entity].description
        if id(description) not in self.colliders_of_description:
            self.colliders_of_description[id(description)] = colliders(description)
        return self.colliders_of_description[id(description)]


def range_starts(entities: Sequence[int], n_entities: int, sizes: Sequence[int] | None = None) -> list[int]:
    """First index of each entity, and the end of the last one, in a table whose rows are sorted by entity.

    Args:
        entities: entity of each row, or of each group of rows.
        n_entities: number of entities.
        sizes: number of rows of each group; None for one each.
    """
    counts = [0] * (n_entities + 1)
    for entity, size in zip(entities, [1] * len(entities) if sizes is None else sizes, strict=True):
        counts[entity + 1] += size
    return list(accumulate(counts))


# ------------------------------------------------------------------------------------------------------- lookup by name


def all_elements(description: Robot | World, collection: str) -> list:
    """Elements of a collection (`tendons`, ...) of a description and, for a world, of its robots; in file order."""
    elements = list(getattr(description, collection))
    if isinstance(description, World):
        elements += [element for robot in description.robots for element in getattr(robot, collection)]
    return sorted(elements, key=file_order)


def find_joint(ctx: BuildContext, entity: int, name: str) -> JointRecord | None:
    """Joint of the kinematic tree by entity and name; None if there is none."""
    return next((joint for joint in ctx.joints_of_entity.get(entity, ()) if joint.name == name), None)


def _assemblies(ctx: BuildContext, entity: int) -> list[Robot | World]:
    description = ctx.entities[entity].description
    return [description, *(description.robots if isinstance(description, World) else [])]


def find_attachment_frame(ctx: BuildContext, entity: int, name: str) -> AttachmentFrame | None:
    """Attachment of the named frame (site) of an entity to its moving frame; None if it is not found."""
    for owner in _assemblies(ctx, entity):
        for frame in owner.frames:
            if frame.name == name:
                return _attach_to_link(ctx, entity, owner, frame.link, frame.pose)
    return None


def find_shape(ctx: BuildContext, entity: int, name: str) -> tuple[AttachmentFrame, Geometry] | None:
    """Attachment (moving frame and pose in it) and geometry of the named shape of an entity; None if it is not found.

    The shape is on a link of a robot, or static in the world.
    """
    for owner in _assemblies(ctx, entity):
        static_shapes: list[Shape] = owner.shapes if isinstance(owner, World) else []
        candidates = [(shape, None) for shape in static_shapes]
        candidates += [
            (s, link.name) for link in (owner.links if isinstance(owner, Robot) else []) for s in link.shapes
        ]
        for shape, link in candidates:
            if shape.name == name:
                attachment = _attach_to_link(ctx, entity, owner, link, shape.pose)
                return None if attachment is None else (attachment, shape.geometry)
    return None


def _attach_to_link(
    ctx: BuildContext, entity: int, owner: Robot | World, link_name: str | None, pose: Pose
) -> AttachmentFrame | None:
    """Moving frame and constant pose in it for a `pose` relative to a named link, or to the base of `owner` for None.

    None if the entity has no link of that name.
    """
    if link_name is None:
        return AttachmentFrame(-1, _base_pose(ctx, entity, owner) @ pose)
    links = (link for link in ctx.links if link.entity == entity and (link.robot is owner or isinstance(owner, World)))
    record = next((link for link in links if link_name in (link.description.name, link.name)), None)
    return None if record is None else AttachmentFrame(record.frame_idx, record.pose_in_frame @ pose)


def _base_pose(ctx: BuildContext, entity: int, owner: Robot | World) -> Pose:
    """World pose of the base frame of a robot, or of the world itself, within an entity."""
    spec = ctx.entities[entity]
    file_pose = owner.pose if isinstance(owner, Robot) else Pose()
    if spec.pose is None:
        return file_pose
    return spec.pose if isinstance(spec.description, Robot) else spec.pose @ file_pose


# ----------------------------------------------------------------------------------------- labels of shapes in messages


def shape_label(ctx: BuildContext, shape: Shape, link: LinkRecord | None) -> str:
    """Label of a shape in messages: its name, or its number (from 1) on its link or in the world if it has no name.

    `link` is None for static shapes of a world.
    """
    if shape.name and not shape.name_is_generated:
        return f'shape "{shape.name}"'
    if link is not None:
        return f'shape {_shape_number(link.description.shapes, shape)} of link "{link.description.name}"'
    worlds = [spec.description for spec in ctx.entities if isinstance(spec.description, World)]
    number = next((n for world in worlds if (n := _shape_number(world.shapes, shape))), 0)
    return f"shape {number} of the world"


def _shape_number(shapes: Sequence[Shape], shape: Shape) -> int:
    """Position of a shape in a list, counted from 1; 0 if it is not in the list."""
    return next((i for i, other in enumerate(shapes, 1) if other is shape), 0)
