"""The moving frames as the algorithms see them: a tree of nodes, with constants where the robot is known.

A number of the robot is a plain float, or a symbol where it may differ between environments.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from kinema.foundation import Array
from kinema.model import Model
from kinema.trace import Value

from ..frames import WORLD
from .maths import ZERO, Matrix, Vector, add, dot, matrix_sum, product, rotate, scale, transpose

Ints = npt.NDArray[np.int64]


class Forest(enum.Enum):
    """What a robot is made of."""

    FRAMES = "frames"
    """Everything that moves by itself; what a frame hangs on is its parent, and the world holds the first ones."""
    LINKS = "links"
    """The links of the files; a link without a parent is a root."""


@dataclass(frozen=True, slots=True)
class Ref:
    """One part of a robot, as functions name it: by its number, or, in code for many, by how it stands to theirs."""

    forest: Forest
    index: int | str

    def __hash__(self) -> int:
        """Quick: large models ask for it millions of times, and what differs in the forest alone seldom meets."""
        return hash(self.index)


class Parts:
    """Many parts of one forest, by their numbers."""

    def __init__(self, forest: Forest, index: Ints) -> None:
        self.forest = forest
        self.index = index
        self.last = int(index.max(initial=WORLD))
        self.first = Ref(forest, int(index[0]))
        """That of the first row."""

    @classmethod
    def of(cls, refs: Sequence[Ref]) -> Parts:
        """Some that are all of one forest."""
        return cls(refs[0].forest, np.array([ref.index for ref in refs], np.int64))

    def refs(self) -> list[Ref]:
        """One by one, each once."""
        return [Ref(self.forest, x) for x in dict.fromkeys(self.index.tolist())]


def frame_ref(index: int | str) -> Ref:
    """A moving frame."""
    return Ref(Forest.FRAMES, index)


def link_ref(index: int | str) -> Ref:
    """A link."""
    return Ref(Forest.LINKS, index)


@dataclass(frozen=True, slots=True)
class Inertia:
    """Mass, first moment and inertia about a frame's origin, in its axes."""

    mass: Value
    moment: Vector
    """Mass times centre."""
    matrix: Matrix


NOTHING = Inertia(0.0, ZERO, (ZERO, ZERO, ZERO))


@dataclass(slots=True, eq=False)
class Node:
    """One moving frame."""

    here: Ref
    above: Ref
    """The frame that holds it, or the world."""
    motion: int
    position: Vector
    rotation: Matrix
    """Where its motion starts from, in the parent."""
    axis: Sequence[float]
    pitch: Value
    reference: Value
    inverted: bool
    qs: range
    dofs: range
    inertia: Inertia = NOTHING
    sprung: bool = False
    """Whether there is a spring in its joint."""
    per_inertia: bool = False
    """Whether gains of its control are per unit of inertia."""
    bears_weight: bool = False
    """Whether its actuators bear the weight that links are spared, within their bounds."""
    limit_power: int = 2
    """Of the law by which its limits become hard."""
    root: Ref = field(default_factory=lambda: link_ref(WORLD))
    """The link that holds the whole tree it is in."""
    links: list[int] = field(default_factory=list)
    beside: Ref | None = None
    """A link that is looked at beside it."""

    @property
    def index(self) -> int:
        """Its number."""
        assert isinstance(self.here.index, int)
        return self.here.index

    @property
    def parent(self) -> int:
        """The number of the frame that holds it."""
        assert isinstance(self.above.index, int)
        return self.above.index


@dataclass(slots=True, eq=False)
class Link:
    """One link of a file: a rigid body in a moving frame, or in the world."""

    here: Ref
    frame: Ref
    above: Ref | None
    """The link that it hangs on."""
    above_frame: Ref
    """The frame which that one sits in."""
    root: Ref
    moved_by: Ref | None
    """The frame that its own joints end in; None where it sits rigidly on its parent."""
    position: Vector
    rotation: Matrix
    """Where it is in its frame."""
    mass: Value
    center: Vector
    """Its centre of mass, in the link."""
    inertia: Matrix
    """About that centre."""
    principal: Matrix
    """The principal axes of inertia in the link, as columns."""
    gravity_scale: Value
    moves: bool
    """Whether it is in a moving frame."""
    lifted: bool
    """Whether gravity pulls it less, or more, than others."""


@dataclass(slots=True, eq=False)
class Tree:
    """All moving frames, parents first."""

    nodes: list[Node]
    model: Model

    def ancestors(self, dof: int) -> Iterator[int]:
        """The degrees of freedom that move this one, the nearest first."""
        node = self.node_of(dof)
        yield from reversed(range(node.dofs.start, dof))
        while node.parent != WORLD:
            node = self.nodes[node.parent]
            yield from reversed(node.dofs)

    def node_of(self, dof: int) -> Node:
        """The frame that a degree of freedom moves."""
        return self.nodes[int(self.model.dofs.frame_idx[dof])]


def grow(model: Model) -> Tree:
    """The tree of a model."""
    frames = model.frames
    nodes = [
        Node(
            here=frame_ref(i),
            above=frame_ref(int(frames.parent_idx[i])),
            motion=int(frames.motion[i]),
            position=frames.pos[i].tolist(),
            rotation=frames.rot[i].tolist(),
            axis=frames.axis[i].tolist(),
            pitch=float(frames.pitch[i]),
            reference=float(frames.reference[i]),
            inverted=bool(frames.inverted[i]),
            qs=model.qs_of_frame(i),
            dofs=model.dofs_of_frame(i),
            sprung=is_sprung(model, i),
            per_inertia=bool(model.dofs.acceleration_drive[list(model.dofs_of_frame(i))].any()),
            bears_weight=bool(model.dofs.actuator_gravcomp[list(model.dofs_of_frame(i))].any()),
            limit_power=round(float(model.dofs.limit_solimp[model.dofs_of_frame(i).start, 4])),
        )
        for i in range(model.n_frames)
    ]
    for link in range(model.n_links):
        frame = int(model.links.frame_idx[link])
        if frame == WORLD:
            continue
        own = link_inertia(model, link)
        nodes[frame].links.append(link)
        nodes[frame].inertia = together(
            nodes[frame].inertia, placed(own, model.links.rot[link].tolist(), model.links.pos[link].tolist())
        )
    for i, root in roots_of_frames(model).items():
        nodes[i].root = link_ref(root)
    return Tree(nodes, model)


def is_sprung(model: Model, frame: int) -> bool:
    """Whether there is a spring in a frame's joint."""
    dofs = list(model.dofs_of_frame(frame))
    return bool(model.dofs.stiffness[dofs].any() or model.dofs.stiffness_poly[dofs].any())


def roots_of_frames(model: Model) -> dict[int, int]:
    """Of each frame the link that holds the whole tree it is in."""
    result: dict[int, int] = {}
    for link in range(model.n_links):
        frame = int(model.links.frame_idx[link])
        while frame != WORLD and frame not in result:
            result[frame] = root_of(model, link)
            frame = int(model.frames.parent_idx[frame])
    return result


def root_of(model: Model, link: int) -> int:
    """The link that holds a link's whole tree."""
    while model.links.parent_idx[link] >= 0:
        link = int(model.links.parent_idx[link])
    return link


NEGLIGIBLE = 1e-12
"""Products of inertia this small against the moments are rounding: the axes are the link's own."""


def principal_axes(inertia: Array) -> Array:
    """A rotation whose columns are the principal axes, in the order and with the signs nearest to no rotation."""
    off = np.abs(inertia - np.diag(np.diag(inertia))).max(initial=0.0)
    if off <= NEGLIGIBLE * np.abs(inertia).max(initial=0.0):
        return np.eye(3)
    axes = np.linalg.eigh(inertia)[1]
    order: list[int] = []
    for row in axes:  # each axis of the link takes the nearest that is left
        order.append(max((c for c in range(3) if c not in order), key=lambda c, row=row: abs(row[c])))
    axes = axes[:, order]
    axes = axes * np.where(np.diag(axes) < 0, -1.0, 1.0)
    if np.linalg.det(axes) < 0:
        axes[:, 2] *= -1.0
    return axes


def link_inertia(model: Model, link: int) -> Inertia:
    """A link's inertia about its origin."""
    links = model.links
    return inertia_about_origin(
        float(links.inertial_mass[link]), links.inertial_pos[link].tolist(), links.inertial_i[link].tolist()
    )


def inertia_about_origin(mass: Value, center: Vector, about_center: Matrix) -> Inertia:
    """A body's inertia about the origin, from that about its centre of mass."""
    return Inertia(mass, scale(mass, center), matrix_sum(about_center, point_inertia(mass, center)))


def point_inertia(mass: Value, p: Vector) -> Matrix:
    """The inertia of a point mass at p, about the origin."""
    square = dot(p, p)
    return [[mass * ((square if i == j else 0.0) - p[i] * p[j]) for j in range(3)] for i in range(3)]


def together(a: Inertia, b: Inertia) -> Inertia:
    """Two inertias in the same frame, as one."""
    return Inertia(a.mass + b.mass, add(a.moment, b.moment), matrix_sum(a.matrix, b.matrix))


def placed(own: Inertia, rotation: Matrix, position: Vector) -> Inertia:
    """An inertia given in a frame, seen from the frame that holds that one at a rotation and position."""
    moment = rotate(rotation, own.moment)
    turned = product(product(rotation, own.matrix), transpose(rotation))
    twice = 2.0 * dot(moment, position)
    square = dot(position, position)
    rows: list[list[Value]] = [[0.0] * 3 for _ in range(3)]
    for i in range(3):
        for j in range(i, 3):
            value = (
                turned[i][j]
                - moment[i] * position[j]
                - position[i] * moment[j]
                - own.mass * (position[i] * position[j])
            )
            rows[i][j] = rows[j][i] = value + twice + own.mass * square if i == j else value
    return Inertia(own.mass, add(moment, scale(own.mass, position)), rows)
