"""Inertia of tendons (MJCF `armature`): what turns with a length adds to the mass matrix, and to what motions take."""

from __future__ import annotations

from functools import cached_property
from typing import Protocol

from kinema import trace
from kinema.trace import Place, Row, RowCode, Value

from ..rigid.crba import mass_matrix
from ..rigid.kinematics import Moving, Pose, Twist, twist_at
from ..rigid.links import acceleration_at
from ..rigid.rnea import bias_forces
from ..sweeps.cords import Cord, Lengths, Pull
from ..sweeps.maths import add, dot, rotate, sub
from ..sweeps.matrix import TreeMatrix
from ..sweeps.quantities import Quantity
from ..sweeps.tree import Node, frame_ref
from .paths import HasFrames, lengths_of

SMALLEST = 1e-15
NAME = "rotors of tendons"


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
    """How the speed of each path's length changes while no coordinate accelerates: of straight pieces alone."""
    s, info = step.s, step.s.model.paths
    motions = (step.frames, step.velocity, step.motion)
    drifts = {path: s.take(1) for path in paths}
    s.loop("no drift", [Row("path", {"to": x}) for x in drifts.values()], lambda code: code.write("to", [0.0]))
    table = []
    for i, path in enumerate(info.path_idx.tolist()):
        if path in drifts and info.moves[i].any():
            targets = {word: frame_ref(int(info.frame_idx[i, k])) for k, word in enumerate(("a ", "b "))}
            numbers = {f"pos {k}": info.pos[i, k].tolist() for k in range(2)}
            numbers["factor"] = [float(info.factor[i])]
            table.append(s.row("piece", targets, {"to": drifts[path]}, numbers))
    s.loop("drift of paths", table, lambda code: _drift(code, motions))
    return drifts


def _drift(code: RowCode, motions: tuple[Quantity[Pose], Quantity[Twist], Quantity[Moving]]) -> None:
    frames, velocities, accelerations = motions
    ends = []
    for k, word in enumerate(("a ", "b ")):
        at = frames[frame_ref(word)]
        point = add(at.position, rotate(at.rotation, code.numbers(f"pos {k}")))
        speed = twist_at(at, velocities[frame_ref(word)], point).linear
        ends.append((point, speed, acceleration_at(at, accelerations[frame_ref(word)], point).linear))
    gap, speed, change = (sub(b, a) for a, b in zip(*ends, strict=True))
    square = dot(gap, gap)
    inverse = 1.0 / trace.sqrt(trace.maximum(square, SMALLEST * SMALLEST))
    along = dot(gap, speed) * inverse
    drift = inverse * (dot(gap, change) + dot(speed, speed) - along * along)
    code.write("to", [code.read("to") + code.number("factor") * drift])
