"""The moving frames as the algorithms see them: a tree of nodes, with constants where the robot is known.

A number of the robot is a plain float, or a symbol where it may differ between environments.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from kinema.model import Model, Motion
from kinema.trace import Value

from .maths import ZERO, Matrix, Vector, add, dot, matrix_sum, product, rotate, scale, transpose

WORLD = -1
"""The frame that all others hang on."""


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

    index: int
    parent: int
    motion: Motion
    position: Vector
    rotation: Matrix
    """Where its motion starts from, in the parent."""
    axis: Sequence[float]
    pitch: float
    reference: float
    inverted: bool
    qs: range
    dofs: range
    inertia: Inertia = NOTHING
    links: list[int] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Tree:
    """All moving frames, parents first."""

    nodes: list[Node]
    model: Model
    limbs: Mapping[int, int | None] = field(default_factory=dict)
    """Frames to the limb they are in, where limbs are computed side by side; None, or not named, for the trunk."""

    def outward(self) -> Iterator[Node]:
        """From the world to the tips."""
        return iter(self.nodes)

    def inward(self) -> Iterator[Node]:
        """From the tips to the world."""
        return reversed(self.nodes)

    def ancestors(self, dof: int) -> Iterator[int]:
        """The degrees of freedom that move this one, the nearest first."""
        node = self.node_of(dof)
        yield from reversed(range(node.dofs.start, dof))
        while node.parent != WORLD:
            node = self.nodes[node.parent]
            yield from reversed(node.dofs)

    def limb_of(self, dof: int) -> int | None:
        """The limb that a degree of freedom belongs to."""
        return self.limbs.get(int(self.model.dofs.frame_idx[dof]))

    def node_of(self, dof: int) -> Node:
        """The frame that a degree of freedom moves."""
        return self.nodes[int(self.model.dofs.frame_idx[dof])]

    def dofs_outward(self) -> list[int]:
        """Degrees of freedom, movers first."""
        return [d for node in self.nodes for d in node.dofs]


def grow(model: Model, inertia_of: Mapping[int, Inertia] | None = None) -> Tree:
    """The tree of a model; `inertia_of` replaces the inertias of links, each about the link's origin in its axes."""
    frames = model.frames
    nodes = [
        Node(
            index=i,
            parent=int(frames.parent_idx[i]),
            motion=Motion(int(frames.motion[i])),
            position=frames.pos[i].tolist(),
            rotation=frames.rot[i].tolist(),
            axis=frames.axis[i].tolist(),
            pitch=float(frames.pitch[i]),
            reference=float(frames.reference[i]),
            inverted=bool(frames.inverted[i]),
            qs=range(int(frames.q_start[i]), int(frames.q_start[i]) + (4 if frames.motion[i] == Motion.BALL else 1)),
            dofs=range(
                int(frames.dof_start[i]), int(frames.dof_start[i]) + (3 if frames.motion[i] == Motion.BALL else 1)
            ),
        )
        for i in range(model.n_frames)
    ]
    for link in range(model.n_links):
        frame = int(model.links.frame_idx[link])
        if frame == WORLD:
            continue
        own = (inertia_of or {}).get(link) or link_inertia(model, link)
        nodes[frame].links.append(link)
        nodes[frame].inertia = together(
            nodes[frame].inertia, placed(own, model.links.rot[link].tolist(), model.links.pos[link].tolist())
        )
    return Tree(nodes, model)


def link_inertia(model: Model, link: int, mass: Value | None = None, shift: Vector = ZERO) -> Inertia:
    """A link's inertia about its origin; another mass keeps its shape, a shift moves its centre."""
    links = model.links
    own = float(links.inertial_mass[link])
    total: Value = own if mass is None else mass
    ratio = 1.0 if mass is None or own == 0.0 else mass * (1.0 / own)
    center = add(links.inertial_pos[link].tolist(), shift)
    return inertia_about_origin(total, center, [scale(ratio, row) for row in links.inertial_i[link].tolist()])


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
