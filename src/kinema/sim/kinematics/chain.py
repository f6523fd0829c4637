"""What moves some links: the frames on the way to them, the degrees of freedom that may move, and what follows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from kinema import trace
from kinema.foundation import Array, KinemaError
from kinema.model import Model, Motion
from kinema.trace import Value

from ..rigid.kinematics import HERE, MOTIONS, Pose, Twist, twist_at, twists
from ..sweeps.maths import Vector, add, product, rotate
from ..sweeps.tree import WORLD, Node, Tree, grow

UNBOUNDED = 1e30
"""In place of infinity, with which single precision computes badly."""


@dataclass(frozen=True, slots=True)
class Following:
    """A degree of freedom that is a polynomial of another one: a mimic joint."""

    leader: int
    zero: float
    """What counts as zero of the follower, and of the leader."""
    leader_zero: float
    polynomial: tuple[float, ...]

    def position(self, leader: Value) -> tuple[Value, Value]:
        """Where it is, and how fast it moves with its leader."""
        x, value, rise = leader - self.leader_zero, 0.0, 0.0
        for term in reversed(self.polynomial):
            value, rise = value * x + term, rise * x + value
        return value + self.zero, rise


def followers(model: Model) -> dict[int, Following]:
    """Every degree of freedom that follows another one, by the model's couplings of two coordinates."""
    info, found = model.couplings, dict[int, Following]()
    for i in range(len(info.names)):
        ends = [np.flatnonzero(moment[i]) for moment in (info.moment_a, info.moment_b)]
        simple = info.path_a[i] < 0 and info.path_b[i] < 0 and all(len(end) == 1 for end in ends)
        if not simple or not info.active[i] or info.moment_a[i, ends[0][0]] != 1.0:
            continue
        follower, leader = (int(end[0]) for end in ends)
        ratio = float(info.moment_b[i, leader])
        terms = tuple(float(x) * ratio**k for k, x in enumerate(info.polynomial[i]))
        zeros = float(info.reference_a[i]), float(info.reference_b[i]) / ratio
        found[follower] = Following(leader, *zeros, terms)
    return {dof: x for dof, x in found.items() if x.leader not in found}


def follow(model: Model, q: Array) -> Array:
    """Coordinates, (n, n_qs), with those of followers where their leaders want them."""
    known = followers(model)
    if not known:
        return q
    result = np.array(q)
    for dof, rule in known.items():
        at, lead = int(model.dofs.q_idx[dof]), int(model.dofs.q_idx[rule.leader])
        result[:, at] = rule.position(result[:, lead])[0]  # type: ignore[arg-type]
    return result


@dataclass(slots=True, eq=False)
class Chain:
    """The frames that move some links, parents first, and the degrees of freedom that are free to do so."""

    model: Model
    tree: Tree
    frames: list[int]
    free: list[int]
    following: dict[int, Following]
    qs: list[int] = field(default_factory=list)
    """The coordinates of these frames, in their order."""

    def __post_init__(self) -> None:
        self.qs = [q for frame in self.frames for q in self.model.qs_of_frame(frame)]

    def nodes(self) -> Iterator[Node]:
        """The frames."""
        return (self.tree.nodes[i] for i in self.frames)

    def path(self, frame: int) -> list[int]:
        """The frames that move a frame, and itself."""
        found = []
        while frame != WORLD:
            found.append(frame)
            frame = int(self.model.frames.parent_idx[frame])
        return found[::-1]

    def bounds(self) -> tuple[Array, Array]:
        """Lower and upper limits of the free degrees of freedom, with those of what follows them."""
        dofs = self.model.dofs
        lower, upper = (np.array(x[self.free], np.float64) for x in (dofs.lower, dofs.upper))
        balls = dofs.q_idx[self.free] < 0
        lower[balls], upper[balls] = -np.inf, np.inf  # of a ball it is an angle, which nothing here looks at
        for dof, rule in self.following.items():
            slope = rule.polynomial[1]
            if rule.leader not in self.free or slope == 0.0 or any(rule.polynomial[2:]):
                continue
            at = self.free.index(rule.leader)
            ends = [
                (float(x[dof]) - rule.zero - rule.polynomial[0]) / slope + rule.leader_zero
                for x in (dofs.lower, dofs.upper)
            ]
            lower[at], upper[at] = max(lower[at], min(ends)), min(upper[at], max(ends))
        return np.clip(lower, -UNBOUNDED, None), np.clip(upper, None, UNBOUNDED)


def chain_to(model: Model, links: Sequence[int], dofs: Sequence[int] | None = None, *, whole: bool = False) -> Chain:
    """What moves some links, or with `whole` everything; of its degrees of freedom only those of `dofs` may move."""
    tree, following = grow(model), followers(model)
    wanted = set(range(model.n_frames)) if whole else set[int]()
    for link in links:
        frame = int(model.links.frame_idx[link])
        while frame != WORLD:
            wanted.add(frame)
            frame = int(model.frames.parent_idx[frame])
    for dof, rule in following.items():
        if int(model.dofs.frame_idx[dof]) in wanted:
            wanted.add(int(model.dofs.frame_idx[rule.leader]))
    frames = sorted(wanted)
    moved = [dof for frame in frames for dof in model.dofs_of_frame(frame)]
    free = [d for d in moved if d not in following and (dofs is None or d in dofs)]
    if not free:
        names = ", ".join(model.links.names[i] for i in links)
        raise KinemaError(f"inverse kinematics: nothing that may move moves {names or 'the robot'}")
    for frame in frames:
        own = set(model.dofs_of_frame(frame))
        if model.frames.motion[frame] == Motion.BALL and own & set(free) and not own <= set(free):
            raise KinemaError("inverse kinematics: all or none of the three degrees of freedom of a ball may move")
    return Chain(model, tree, frames, free, {d: r for d, r in following.items() if d in set(moved)})


class Posture:
    """Where the frames of a chain are, for some coordinates."""

    def __init__(self, chain: Chain, q: Sequence[Value]) -> None:
        self.chain = chain
        self.q = dict(zip(chain.qs, q, strict=True))
        self.rises: dict[int, Value] = {}
        for dof, rule in chain.following.items():
            leader = self.q[int(chain.model.dofs.q_idx[rule.leader])]
            self.q[int(chain.model.dofs.q_idx[dof])], self.rises[dof] = rule.position(leader)
        self.where: dict[int, Pose] = {WORLD: HERE}
        self.moves: dict[int, list[Twist]] = {}
        for node in chain.nodes():
            own = MOTIONS[node.motion].pose(node, [self.q[i] for i in node.qs])
            above = self.where.get(node.parent, HERE)
            position = add(above.position, rotate(above.rotation, own.position))
            self.where[node.index] = Pose(product(above.rotation, own.rotation), position)
            self.moves[node.index] = twists(node, own)

    def link(self, link: int) -> Pose:
        """Where a link is in the world."""
        links = self.chain.model.links
        at = self.where[int(links.frame_idx[link])]
        position = add(at.position, rotate(at.rotation, links.pos[link].tolist()))
        return Pose(product(at.rotation, links.rot[link].tolist()), position)

    def point(self, link: int, offset: Sequence[float]) -> Vector:
        """Where a point of a link is in the world."""
        at = self.link(link)
        return add(at.position, rotate(at.rotation, offset)) if any(offset) else at.position

    def columns(self, frame: int, point: Vector) -> dict[int, Twist]:
        """How a point of a frame moves with each free degree of freedom, along the world's axes."""
        found: dict[int, Twist] = {}
        for index in self.chain.path(frame):
            node = self.chain.tree.nodes[index]
            for dof, own in zip(node.dofs, self.moves[index], strict=True):
                self.add_column(found, dof, twist_at(self.where[index], own, point))
        return found

    def add_column(self, found: dict[int, Twist], dof: int, column: Twist) -> None:
        """Add what a degree of freedom does to the columns of those that are free: to its leader's, if it follows."""
        rule = self.chain.following.get(dof)
        if rule is not None:
            rise = self.rises[dof]
            column = Twist([rise * x for x in column.angular], [rise * x for x in column.linear])
            dof = rule.leader
        if dof not in self.chain.free:
            return
        if dof in found:
            other = found[dof]
            column = Twist(add(other.angular, column.angular), add(other.linear, column.linear))
        found[dof] = column

    def advanced(self, shift: dict[int, Value], lower: dict[int, Value], upper: dict[int, Value]) -> list[Value]:
        """The coordinates after a shift of the free degrees of freedom, within bounds."""
        result: dict[int, Value] = dict(self.q)
        for node in self.chain.nodes():
            if not any(d in shift for d in node.dofs):
                continue
            own = MOTIONS[node.motion].advance([self.q[i] for i in node.qs], [shift[d] for d in node.dofs])
            if node.motion != Motion.BALL:
                dof = node.dofs[0]
                own = [trace.clamp(own[0], lower[dof], upper[dof])]
            result.update(zip(node.qs, own, strict=True))
        return [result[i] for i in self.chain.qs]
