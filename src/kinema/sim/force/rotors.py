"""Inertia of tendons and of loops' axes: what turns with a length adds to the mass matrix, and to what motions take."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from kinema import trace
from kinema.model import PathsInfo
from kinema.trace import Place, Row, RowCode, Value

from ..rigid.crba import mass_matrix
from ..rigid.kinematics import Moving, Pose, Twist, twist_at
from ..rigid.links import acceleration_at
from ..rigid.rnea import bias_forces
from ..sweeps.cords import Cord, Lengths, Pull
from ..sweeps.maths import Vector, add, cross, dot, rotate, sub
from ..sweeps.matrix import TreeMatrix
from ..sweeps.quantities import Quantity
from ..sweeps.tree import Node, frame_ref
from .loop_axes import LETTERS
from .paths import HasFrames, lengths_of

SMALLEST = 1e-15
NAME = "rotors of tendons"
AXES = ("hinge", "slide")
"""Coordinates of joints that close loops which may have rotors."""


@dataclass(frozen=True, slots=True)
class _End:
    """An end of a piece, in the world: where it is, how it moves, and how that changes while no coordinate does."""

    point: Vector
    speed: Twist
    change: Twist


class HasMotion(HasFrames, Protocol):
    """The step, with how frames move."""

    @cached_property
    def velocity(self) -> Quantity[Twist]:
        """How they move."""
        ...

    @cached_property
    def motion(self) -> Quantity[Moving]:
        """How they accelerate while no coordinate does."""
        ...


def tendon_rotors(step: HasFrames) -> list[int]:
    """The tendons of these frames that have inertia of their own."""
    tendons, own = step.s.model.tendons, [d for node in step.s.nodes for d in node.dofs]
    return [i for i in tendons.armature.nonzero()[0].tolist() if tendons.moment[i, own].any()]


def mass_with_rotors(step: HasFrames) -> TreeMatrix:
    """The joint-space inertia: of links, and of what tendons turn."""
    mass = mass_matrix(step.s, step.where)
    which = tendon_rotors(step)
    if not which:
        return mass

    def body(cord: Cord) -> Pull:
        return Pull(0.0, cord.of("armature")[0])

    turned = step.s.cords("tendons", which, body, lengths_of(step), name=NAME)
    whole = mass.plus("inertia with tendons", lambda node: [p.slope for p in turned.on(node)], [turned], lambda: 1.0)
    whole.may_go = False
    return whole


def bias_with_rotors(step: HasMotion) -> Quantity[list[Value]]:
    """The joint forces that keep coordinates from accelerating, though tendons along paths change their length."""
    s, bias = step.s, bias_forces(step.s, step.where, step.motion)
    along = [i for i in tendon_rotors(step) if s.model.tendons.path_idx[i] >= 0]
    if not along:
        return bias
    drifts = _drifts(step, {int(s.model.tendons.path_idx[i]) for i in along})

    def body(cord: Cord) -> Pull:
        return Pull(cord.of("armature")[0] * cord.length, 0.0)

    lengths = lengths_of(step)
    changing = s.cords("tendons", along, body, Lengths(drifts, lengths.moments), f"bias of {NAME}")
    total: Quantity[list[Value]] = s.quantity("bias with tendons")

    def more(node: Node) -> None:
        pairs = zip(bias[node.here], changing.on(node), strict=True)
        total.put(node.here, [a + p.force for a, p in pairs])

    s.each_frame("bias with tendons", more)
    return total


def rotor_energy(step: HasFrames) -> Value:
    """The kinetic energy of what tendons turn."""

    def body(cord: Cord) -> Pull:
        return Pull(0.5 * cord.of("armature")[0] * (cord.speed * cord.speed), 0.0)

    which = tendon_rotors(step)
    if not which:
        return 0.0
    return step.s.cords("tendons", which, body, lengths_of(step), name=f"energy of {NAME}").total_force()


def _drifts(step: HasMotion, paths: set[int]) -> dict[int, Place]:
    """How the speed of each path's length changes while no coordinate accelerates: of straight pieces, and of axes."""
    s, info = step.s, step.s.model.paths
    motions = (step.frames, step.velocity, step.motion)
    drifts = {path: s.take(1) for path in paths}
    s.loop("no drift", [Row("path", {"to": x}) for x in drifts.values()], lambda code: code.write("to", [0.0]))
    table = []
    for i, path in enumerate(info.path_idx.tolist()):
        if path in drifts and info.moves[i].any():
            targets = {word: frame_ref(int(info.frame_idx[i, k])) for k, word in enumerate(("a ", "b "))}
            numbers = {f"pos {k}": info.pos[i, k].tolist() for k in range(2)}
            numbers |= {"factor": [float(info.factor[i])], "axis": _axis_in_parent(info, i)}
            table.append(s.row(info.kinds[i].partition(" ")[0], targets, {"to": drifts[path]}, numbers))
    s.loop("drift of paths", table, lambda code: _drift(code, motions))
    return drifts


def _axis_in_parent(info: PathsInfo, piece: int) -> list[float]:
    """That a coordinate of a joint that closes a loop is along or about; zeros for other pieces."""
    word, _, letter = info.kinds[piece].partition(" ")
    if word not in AXES:
        return [0.0] * 3
    own = info.numbers[piece, :3] if word == "slide" else np.eye(3)[LETTERS.index(letter)]
    return (info.rot[piece, 1] @ own).tolist()


def _drift(code: RowCode, motions: tuple[Quantity[Pose], Quantity[Twist], Quantity[Moving]]) -> None:
    frames, velocities, accelerations = motions
    ends = []
    for k, word in enumerate(("a ", "b ")):
        at = frames[frame_ref(word)]
        point = add(at.position, rotate(at.rotation, code.numbers(f"pos {k}")))
        speed = twist_at(at, velocities[frame_ref(word)], point)
        ends.append(_End(point, speed, acceleration_at(at, accelerations[frame_ref(word)], point)))
    if code.kind in AXES:
        axis = rotate(frames[frame_ref("b ")].rotation, code.numbers("axis"))
        drift = _drift_about(axis, *ends) if code.kind == "hinge" else _drift_along(axis, *ends)
    else:
        drift = _drift_between(*ends)
    code.write("to", [code.read("to") + code.number("factor") * drift])


def _drift_between(a: _End, b: _End) -> Value:
    """Of the distance between two points."""
    gap, speed = sub(b.point, a.point), sub(b.speed.linear, a.speed.linear)
    change = sub(b.change.linear, a.change.linear)
    square = dot(gap, gap)
    inverse = 1.0 / trace.sqrt(trace.maximum(square, SMALLEST * SMALLEST))
    along = dot(gap, speed) * inverse
    return inverse * (dot(gap, change) + dot(speed, speed) - along * along)


def _drift_about(axis: Vector, child: _End, parent: _End) -> Value:
    """Of the turn of a child about an axis of its parent, which is one of its own as well."""
    turned = cross(parent.speed.angular, axis)
    change = sub(child.change.angular, parent.change.angular)
    return dot(axis, change) + dot(turned, sub(child.speed.angular, parent.speed.angular))


def _drift_along(axis: Vector, child: _End, parent: _End) -> Value:
    """Of how far a child is along an axis that its parent turns."""
    gap = sub(child.point, parent.point)
    speed, change = sub(child.speed.linear, parent.speed.linear), sub(child.change.linear, parent.change.linear)
    spin = parent.speed.angular
    turned = cross(spin, axis)
    bent = add(cross(parent.change.angular, axis), cross(spin, turned))
    return dot(axis, change) + 2.0 * dot(turned, speed) + dot(bent, gap)
