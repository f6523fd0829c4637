"""What inverse kinematics is asked for: each kind of goal says how far off it is, and what moves it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kinema import trace
from kinema.foundation import Array, KinemaError
from kinema.trace import Value

from ..rigid.kinematics import Twist, twist_at
from ..sweeps.maths import (
    Vector,
    add,
    cross,
    dot,
    matrix_quaternion,
    product,
    quaternion_matrix,
    rotate,
    scale,
    sub,
    transpose,
)
from ..sweeps.tree import WORLD
from .chain import Posture

SMALLEST = 1e-20
AXES = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))


@dataclass(frozen=True, slots=True)
class Off:
    """How far a goal is off: what is missing, and what each free degree of freedom does about it."""

    missing: Sequence[Value]
    """[m], or about [rad]."""
    columns: dict[int, Sequence[Value]]
    """How fast what is missing is made up for, by degree of freedom."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Goal:
    """Something to be reached; `size` numbers say what, for each target."""

    weight: float = 1.0
    """How much it counts against others while they cannot all be reached."""

    size = 3
    turns = False
    """Whether what is missing is an angle."""
    link_idx: int = -1
    """The link that it is about, if it is about one."""
    whole = False
    """Whether it depends on everything that moves."""

    def off(self, at: Posture, told: Sequence[Value]) -> Off:
        """How far off it is."""
        raise NotImplementedError(f"{type(self).__name__} has no `off`: a goal says how far off it is")


@dataclass(frozen=True, kw_only=True, slots=True)
class PositionGoal(Goal):
    """A point of a link is at a place of the world."""

    point: tuple[float, ...] = (0.0, 0.0, 0.0)
    """In the link [m]."""
    mask: tuple[bool, ...] = (True, True, True)
    """Along which axes of the world."""

    def off(self, at: Posture, told: Sequence[Value]) -> Off:
        """By the vector to the place."""
        here = at.point(self.link_idx, self.point)
        moved = at.columns(_frame_of(at, self.link_idx), here)
        return Off(self._rows(sub(told, here)), {dof: self._rows(column.linear) for dof, column in moved.items()})

    def _rows(self, vector: Vector) -> list[Value]:
        return [x for x, wanted in zip(vector, self.mask, strict=True) if wanted]


@dataclass(frozen=True, kw_only=True, slots=True)
class OrientationGoal(Goal):
    """A link is turned as a quaternion (w, x, y, z) says."""

    size = 4
    turns = True

    def off(self, at: Posture, told: Sequence[Value]) -> Off:
        """By the axis of the turn that is missing, times twice the sine of half its angle."""
        own = at.link(self.link_idx)
        w, *xyz = matrix_quaternion(product(quaternion_matrix(told), transpose(own.rotation)))
        twice = trace.select(w, 0.0, -2.0, 2.0)
        moved = at.columns(_frame_of(at, self.link_idx), own.position)
        return Off(scale(twice, xyz), {dof: column.angular for dof, column in moved.items()})


@dataclass(frozen=True, kw_only=True, slots=True)
class AxisGoal(Goal):
    """One axis of a link points where that of a quaternion (w, x, y, z) does; the turn about it does not matter."""

    axis: int = 2
    size = 4
    turns = True

    def off(self, at: Posture, told: Sequence[Value]) -> Off:
        """By the difference of the two directions."""
        own = at.link(self.link_idx)
        here, there = (rotate(r, AXES[self.axis]) for r in (own.rotation, quaternion_matrix(told)))
        moved = at.columns(_frame_of(at, self.link_idx), own.position)
        return Off(sub(there, here), {dof: cross(column.angular, here) for dof, column in moved.items()})


@dataclass(frozen=True, kw_only=True, slots=True)
class LookGoal(Goal):
    """An axis through a point of a link points at a place of the world."""

    axis: tuple[float, ...] = (0.0, 0.0, 1.0)
    """A unit vector in the link."""
    point: tuple[float, ...] = (0.0, 0.0, 0.0)
    turns = True

    def off(self, at: Posture, told: Sequence[Value]) -> Off:
        """By the difference of the direction to the place and the axis."""
        own, here = at.link(self.link_idx), at.point(self.link_idx, self.point)
        way = sub(told, here)
        per_length = 1.0 / trace.sqrt(trace.maximum(dot(way, way), SMALLEST))
        there, axis = scale(per_length, way), rotate(own.rotation, self.axis)

        def column(moved: Twist) -> Vector:
            across = sub(moved.linear, scale(dot(there, moved.linear), there))
            return add(cross(moved.angular, axis), scale(per_length, across))

        moved = at.columns(_frame_of(at, self.link_idx), here)
        return Off(sub(there, axis), {dof: column(x) for dof, x in moved.items()})


@dataclass(frozen=True, kw_only=True, slots=True)
class CenterGoal(Goal):
    """The centre of mass of everything is at a place of the world."""

    mask: tuple[bool, ...] = (True, True, True)
    whole = True

    def off(self, at: Posture, told: Sequence[Value]) -> Off:
        """By the vector to the place."""
        model, nodes = at.chain.model, at.chain.tree.nodes
        total = float(model.links.inertial_mass.sum())
        if total <= 0.0:
            raise KinemaError("inverse kinematics: nothing here has mass, so there is no centre of mass")
        masses, moments = _carried(at)
        center = scale(1.0 / total, add(_resting(at), *(moments[n.index] for n in nodes if n.parent == WORLD)))
        found: dict[int, Twist] = {}
        for node in nodes:
            if masses[node.index] == 0.0:
                continue
            pose, middle = at.where[node.index], scale(1.0 / masses[node.index], moments[node.index])
            share = masses[node.index] / total
            for dof, own in zip(node.dofs, at.moves[node.index], strict=True):
                moved = twist_at(pose, own, middle)
                at.add_column(found, dof, Twist(moved.angular, scale(share, moved.linear)))
        return Off(self._rows(sub(told, center)), {dof: self._rows(x.linear) for dof, x in found.items()})

    def _rows(self, vector: Vector) -> list[Value]:
        return [x for x, wanted in zip(vector, self.mask, strict=True) if wanted]


def _carried(at: Posture) -> tuple[list[float], list[Vector]]:
    """Of each frame the mass of all that it carries, and that mass times its centre in the world."""
    nodes = at.chain.tree.nodes
    masses = [float(node.inertia.mass) for node in nodes]  # type: ignore[arg-type]
    moments: list[Vector] = []
    for node in nodes:
        pose, inertia = at.where[node.index], node.inertia
        moments.append(add(scale(inertia.mass, pose.position), rotate(pose.rotation, inertia.moment)))
    for node in reversed(nodes):
        if node.parent != WORLD:
            masses[node.parent] += masses[node.index]
            moments[node.parent] = add(moments[node.parent], moments[node.index])
    return masses, moments


def _resting(at: Posture) -> list[float]:
    """What rests in the world of it."""
    links = at.chain.model.links
    moment: Array = np.zeros(3)
    for i in np.flatnonzero(links.frame_idx == WORLD):
        moment += links.inertial_mass[i] * (links.pos[i] + links.rot[i] @ links.inertial_pos[i])
    return moment.tolist()


def _frame_of(at: Posture, link: int) -> int:
    return int(at.chain.model.links.frame_idx[link])
