"""Kinematic tree of moving frames and links: nodes, references to nodes, and spatial inertias.

Parameters of nodes are plain floats, or symbolic scalars where they may differ between environments.
"""

from __future__ import annotations

import enum
import gc
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from kinema.core import Array, determinant3, symmetric_eigen
from kinema.ir import Value
from kinema.model import Model

from ..topology import WORLD
from ..vector_math import ZERO, Matrix, Vector, add, dot, matmul, matrix_add, rotate, scale, transpose

Ints = npt.NDArray[np.int64]


class NodeType(enum.Enum):
    """Kind of node of the kinematic tree."""

    FRAMES = "frames"
    """Moving frames, one per primitive joint; the parent of a root frame is the world."""
    LINKS = "links"
    """Links of the robot descriptions; a link without a parent is a root link."""


@dataclass(frozen=True, slots=True)
class NodeRef:
    """Reference to a frame or link: by its index, or in traced code by the prefix of its arrays in the iteration."""

    node_type: NodeType
    index: int | str

    def __hash__(self) -> int:
        # hashing the index alone is faster, and references to frames and links seldom share a dictionary
        return hash(self.index)


class NodeRefs:
    """References to many nodes of one type, as an index array (n,)."""

    def __init__(self, node_type: NodeType, index: Ints) -> None:
        self.node_type = node_type
        self.index = index
        self.max_index = int(index.max(initial=WORLD))
        self.first = NodeRef(node_type, int(index[0]))
        """Reference to the first node."""

    @classmethod
    def from_refs(cls, refs: Sequence[NodeRef]) -> NodeRefs:
        """Index array of references that all have the same node type."""
        return cls(refs[0].node_type, np.array([ref.index for ref in refs], np.int64))

    def unique_refs(self) -> list[NodeRef]:
        """References without duplicates, in order of first occurrence."""
        return [NodeRef(self.node_type, x) for x in dict.fromkeys(self.index.tolist())]


def frame_ref(index: int | str) -> NodeRef:
    """Reference to a moving frame by index or array prefix."""
    return NodeRef(NodeType.FRAMES, index)


def link_ref(index: int | str) -> NodeRef:
    """Reference to a link by index or array prefix."""
    return NodeRef(NodeType.LINKS, index)


@dataclass(frozen=True, slots=True)
class SpatialInertia:
    """Spatial inertia of a rigid body about the frame origin, in frame axes."""

    mass: Value
    """Mass m [kg]."""
    first_moment: Vector
    """First mass moment m c [kg m], with c the centre of mass."""
    rotational: Matrix
    """Rotational inertia about the frame origin [kg m2], 3x3."""


ZERO_INERTIA = SpatialInertia(0.0, ZERO, (ZERO, ZERO, ZERO))


@dataclass(slots=True, eq=False)
class FrameNode:
    """A moving frame: the child frame of one primitive joint, with its joint and inertia parameters."""

    ref: NodeRef
    parent_ref: NodeRef
    """The parent frame, or the world."""
    joint_type: int
    position: Vector
    rotation: Matrix
    """Pose of the joint frame in the parent frame at the reference coordinate: `position` (3,) [m] and `rotation` (3,
    3)."""
    axis: Sequence[float]
    """Unit joint axis in frame axes."""
    pitch: Value
    """Travel of a screw joint per angle [m/rad]."""
    reference: Value
    """Joint coordinate at the reference pose."""
    inverted: bool
    """Whether the coordinates of a ball joint describe the rotation of the parent relative to this frame."""
    qs: range
    dofs: range
    inertia: SpatialInertia = ZERO_INERTIA
    has_spring: bool = False
    """Whether the joint has a spring."""
    has_acceleration_drive: bool = False
    """Whether the gains of the joint control are multiplied by the joint inertia (acceleration drive)."""
    has_actuator_gravcomp: bool = False
    """Whether gravity compensation of this joint counts as actuator force and is clamped with it."""
    limit_power: int = 2
    """Power of the impedance function (solimp) of the joint limits."""
    root_ref: NodeRef = field(default_factory=lambda: link_ref(WORLD))
    """The root link of the tree."""
    links: list[int] = field(default_factory=list)
    """Indices of the links fixed to this frame."""
    target_link_ref: NodeRef | None = None
    """A link that the loop body reads besides the frame."""
    is_on_kinematic_body: bool = False
    """Whether the parent frame is that of a kinematic body."""

    @property
    def index(self) -> int:
        """Frame index."""
        assert isinstance(self.ref.index, int)
        return self.ref.index

    @property
    def parent(self) -> int:
        """Index of the parent frame, or `WORLD`, also on a kinematic body."""
        assert isinstance(self.parent_ref.index, int)
        return WORLD if self.is_on_kinematic_body else self.parent_ref.index


@dataclass(slots=True, eq=False)
class LinkNode:
    """A link of a robot description: a rigid body fixed to a moving frame or to the world."""

    ref: NodeRef
    frame_ref: NodeRef
    parent_ref: NodeRef | None
    """The parent link; None for a root link."""
    parent_frame_ref: NodeRef
    """The frame of the parent link."""
    root_ref: NodeRef
    joint_frame_ref: NodeRef | None
    """The frame moved by the joint between this link and its parent; None if the link is fixed to its parent."""
    position: Vector
    rotation: Matrix
    """Pose of the link in its frame: `position` (3,) [m] and `rotation` (3, 3)."""
    mass: Value
    com: Vector
    """Centre of mass in link axes [m]."""
    inertia: Matrix
    """Rotational inertia about the centre of mass in link axes [kg m2]."""
    principal_axes: Matrix
    """Principal axes of inertia in link axes, as columns."""
    gravity_scale: Value
    """Factor of gravity on this link: 1 minus gravity compensation."""
    in_moving_frame: bool
    """Whether the link is fixed to a moving frame."""
    has_gravcomp: bool
    """Whether `gravity_scale` differs from 1."""


@dataclass(slots=True, eq=False)
class KinematicTree:
    """All moving frames of a model, parents before children."""

    nodes: list[FrameNode]
    model: Model

    def ancestor_dofs(self, dof: int) -> Iterator[int]:
        """Ancestor dofs of a degree of freedom, nearest first: earlier dofs of its joint, then of ancestor joints."""
        node = self.frame_of_dof(dof)
        yield from reversed(range(node.dofs.start, dof))
        while node.parent != WORLD:
            node = self.nodes[node.parent]
            yield from reversed(node.dofs)

    def frame_of_dof(self, dof: int) -> FrameNode:
        """The frame whose joint has the given degree of freedom."""
        return self.nodes[int(self.model.dofs.frame_idx[dof])]


_recent_nodes: deque[tuple[tuple[object, ...], list[FrameNode]]] = deque(maxlen=2)
"""Tables that trees follow from, and the nodes of the trees: one start asks for the same tree several times."""


MAX_KEPT_NODES = 4_000
"""Number of nodes up to which a tree is kept after the step is compiled."""


def forget_large_trees() -> None:
    """Release the memory of large trees, which are made again if they are needed, and of cyclic objects of tracing."""
    kept = [item for item in _recent_nodes if len(item[1]) <= MAX_KEPT_NODES]
    if len(kept) < len(_recent_nodes):
        _recent_nodes.clear()
        _recent_nodes.extend(kept)
        gc.collect()


def build_tree(model: Model) -> KinematicTree:
    """Kinematic tree of a model: one node per frame, with the inertias of its links summed in frame axes."""
    tables = (model.frames, model.dofs, model.links)
    for known, nodes in tuple(_recent_nodes):
        if all(a is b for a, b in zip(known, tables, strict=True)):
            return KinematicTree(list(nodes), model)
    nodes = _build_nodes(model)
    _recent_nodes.append((tables, nodes))
    return KinematicTree(list(nodes), model)


def _build_nodes(model: Model) -> list[FrameNode]:
    """Nodes of the kinematic tree of a model."""
    frames, dofs, kinematic = model.frames, model.dofs, set(model.kinematic_frames)
    parents, types = frames.parent_idx.tolist(), frames.joint_type.tolist()
    positions, rotations, axes = (_shared_rows(table) for table in (frames.pos, frames.rot, frames.axis))
    pitches, references, inverted = frames.pitch.tolist(), frames.reference.tolist(), frames.inverted.tolist()
    springs = _dofs_with_springs(model).tolist()
    drives, compensated = dofs.acceleration_drive.tolist(), dofs.actuator_gravcomp.tolist()
    limit_powers = dofs.limit_solimp[:, 4].tolist()
    nodes = []
    for i in range(model.n_frames):
        own = model.frame_dof_range(i)
        nodes.append(
            FrameNode(
                ref=frame_ref(i),
                parent_ref=frame_ref(parents[i]),
                joint_type=types[i],
                position=positions[i],
                rotation=rotations[i],
                axis=axes[i],
                pitch=pitches[i],
                reference=references[i],
                inverted=inverted[i],
                qs=model.frame_q_range(i),
                dofs=own,
                has_spring=any(springs[own.start : own.stop]),
                has_acceleration_drive=any(drives[own.start : own.stop]),
                has_actuator_gravcomp=any(compensated[own.start : own.stop]),
                limit_power=2 if i in kinematic else round(limit_powers[own.start]),
                is_on_kinematic_body=parents[i] in kinematic,
            )
        )
    links = model.links
    columns = (links.inertial_mass, links.inertial_pos, links.inertial_i, links.rot, links.pos)
    inertias: dict[bytes, SpatialInertia] = {}
    for link, frame in enumerate(links.frame_idx.tolist()):
        if frame == WORLD:
            continue
        key = b"".join([column[link].tobytes() for column in columns])
        if key not in inertias:
            inertia = link_inertia(model, link)
            inertias[key] = transform_inertia(inertia, links.rot[link].tolist(), links.pos[link].tolist())
        nodes[frame].links.append(link)
        nodes[frame].inertia = add_inertias(nodes[frame].inertia, inertias[key])
    for i, root in root_links_of_frames(model).items():
        nodes[i].root_ref = link_ref(root)
    return nodes


def _shared_rows(table: Array) -> list[Any]:
    """Rows of a table as nested lists; one object for equal rows, as those of many equal bodies."""
    distinct: dict[bytes, Any] = {}
    return [distinct.setdefault(row.tobytes(), row.tolist()) for row in table]


def _dofs_with_springs(model: Model) -> npt.NDArray[np.bool_]:
    """Whether each dof has a linear or polynomial spring."""
    return (model.dofs.stiffness != 0.0) | model.dofs.stiffness_poly.any(axis=1)


def root_links_of_frames(model: Model) -> dict[int, int]:
    """Map from frame index to the index of the root link of its tree."""
    result: dict[int, int] = {}
    for link in range(model.n_links):
        frame = int(model.links.frame_idx[link])
        while frame != WORLD and frame not in result:
            result[frame] = root_link(model, link)
            frame = int(model.frames.parent_idx[frame])
    return result


def root_link(model: Model, link: int) -> int:
    """Index of the root link of the tree that contains `link`."""
    while model.links.parent_idx[link] >= 0:
        link = int(model.links.parent_idx[link])
    return link


NEGLIGIBLE_PRODUCT_OF_INERTIA = 1e-12
"""Products of inertia below this fraction of the largest entry are rounding errors: the link axes are principal
axes."""


def principal_axes(inertia: Array) -> Array:
    """Rotation matrix whose columns are the principal axes of an inertia matrix (3, 3).

    Order and signs of the eigenvectors are chosen to be closest to the identity, with determinant +1.
    """
    largest_product = np.abs(inertia - np.diag(np.diag(inertia))).max(initial=0.0)
    if largest_product <= NEGLIGIBLE_PRODUCT_OF_INERTIA * np.abs(inertia).max(initial=0.0):
        return np.eye(3)
    axes = symmetric_eigen(inertia)[1]
    order: list[int] = []
    for row in axes:  # each coordinate axis takes the closest eigenvector that is left
        order.append(max((c for c in range(3) if c not in order), key=lambda c, row=row: abs(row[c])))
    axes = axes[:, order]
    axes = axes * np.where(np.diag(axes) < 0, -1.0, 1.0)
    if determinant3(axes) < 0:
        axes[:, 2] *= -1.0
    return axes


def link_inertia(model: Model, link: int) -> SpatialInertia:
    """Spatial inertia of a link about its link origin, in link axes."""
    links = model.links
    return inertia_about_origin(
        float(links.inertial_mass[link]), links.inertial_pos[link].tolist(), links.inertial_i[link].tolist()
    )


def inertia_about_origin(mass: Value, com: Vector, inertia_about_com: Matrix) -> SpatialInertia:
    """Spatial inertia about the origin from mass, centre of mass and rotational inertia about the centre of mass.

    The parallel axis theorem.
    """
    return SpatialInertia(mass, scale(mass, com), matrix_add(inertia_about_com, point_mass_inertia(mass, com)))


def point_mass_inertia(mass: Value, position: Vector) -> Matrix:
    """Rotational inertia of a point mass at `position` about the origin: m (|p|^2 1 - p p^T)."""
    square = dot(position, position)
    return [[mass * ((square if i == j else 0.0) - position[i] * position[j]) for j in range(3)] for i in range(3)]


def add_inertias(a: SpatialInertia, b: SpatialInertia) -> SpatialInertia:
    """Sum of two spatial inertias given in the same frame."""
    return SpatialInertia(a.mass + b.mass, add(a.first_moment, b.first_moment), matrix_add(a.rotational, b.rotational))


def transform_inertia(inertia: SpatialInertia, rotation: Matrix, position: Vector) -> SpatialInertia:
    """Transform a spatial inertia from a child frame to its parent frame, given the pose of the child in the parent."""
    moment = rotate(rotation, inertia.first_moment)
    rotated = matmul(matmul(rotation, inertia.rotational), transpose(rotation))
    twice_dot = 2.0 * dot(moment, position)
    square = dot(position, position)
    rows: list[list[Value]] = [[0.0] * 3 for _ in range(3)]
    for i in range(3):
        for j in range(i, 3):
            value = (
                rotated[i][j]
                - moment[i] * position[j]
                - position[i] * moment[j]
                - inertia.mass * (position[i] * position[j])
            )
            rows[i][j] = rows[j][i] = value + twice_dot + inertia.mass * square if i == j else value
    return SpatialInertia(inertia.mass, add(moment, scale(inertia.mass, position)), rows)
