"""Composite rigid bodies (CRBA): the joint-space inertia."""

from __future__ import annotations

from kinema.trace import Value

from ..sweeps.loops import Quantity
from ..sweeps.matrix import TreeMatrix
from ..sweeps.sweeps import Sweeps
from ..sweeps.tree import Inertia, Node, placed
from .kinematics import Pose, twists
from .rnea import Wrench, momentum, on_parent, power


def composite_inertias(s: Sweeps, where: Quantity[Pose]) -> Quantity[Inertia]:
    """Each frame with all that it carries, as one body."""

    def body(node: Node, total: Inertia) -> Inertia:
        at = where[node.here]
        return placed(total, at.rotation, at.position)

    return s.inward("composite inertias", lambda node: node.inertia, body)


def mass_matrix(s: Sweeps, where: Quantity[Pose]) -> TreeMatrix:
    """The joint-space inertia, rotor inertias on its diagonal."""
    composite = composite_inertias(s, where)

    def own(node: Node) -> tuple[list[Wrench], list[list[Value]]]:
        motions = twists(node, where[node.here])
        wrenches = [momentum(composite[node.here], motion) for motion in motions]
        rotors = s.of("armature", node)
        rows: list[list[Value]] = []
        for k, wrench in enumerate(wrenches):
            row = [power(other, wrench) for other in motions[: k + 1]]
            rows.append([*row[:-1], row[-1] + rotors[k]])
        return wrenches, rows

    def up(below: Node, above: Node, wrenches: list[Wrench]) -> tuple[list[Wrench], list[list[Value]]]:
        moved = [on_parent(wrench, where[below.here]) for wrench in wrenches]
        motions = twists(above, where[above.here])
        return moved, [[power(other, wrench) for other in motions] for wrench in moved]

    return s.matrix("mass matrix", own, up)
