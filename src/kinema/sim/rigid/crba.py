"""Composite rigid bodies (CRBA): the joint-space inertia."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kinema.trace import Value

from ..sweeps.matrix import TreeMatrix
from ..sweeps.quantities import Quantity
from ..sweeps.sweeps import Sweeps
from ..sweeps.tree import Inertia, Node, placed
from .kinematics import Pose, Twist, twists
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
    return tree_matrix(
        s,
        "mass matrix",
        where,
        lambda node, motion: momentum(composite[node.here], motion),
        lambda node: s.of("armature", node),
    )


def tree_matrix(
    s: Sweeps,
    name: str,
    where: Quantity[Pose],
    response: Callable[[Node, Twist], Wrench],
    rotors: Callable[[Node], Sequence[Value]] | None = None,
) -> TreeMatrix:
    """A matrix over degrees of freedom, from the wrench that a motion of a frame with all it carries takes.

    `rotors` are added on its diagonal.
    """

    def own(node: Node) -> tuple[list[Wrench], list[list[Value]]]:
        motions = twists(node, where[node.here])
        wrenches = [response(node, motion) for motion in motions]
        more = [0.0] * len(motions) if rotors is None else rotors(node)
        rows: list[list[Value]] = []
        for k, wrench in enumerate(wrenches):
            row = [power(other, wrench) for other in motions[: k + 1]]
            rows.append([*row[:-1], row[-1] + more[k]])
        return wrenches, rows

    def up(below: Node, above: Node, wrenches: list[Wrench]) -> tuple[list[Wrench], list[list[Value]]]:
        moved = [on_parent(wrench, where[below.here]) for wrench in wrenches]
        motions = twists(above, where[above.here])
        return moved, [[power(other, wrench) for other in motions] for wrench in moved]

    return s.matrix(name, own, up)
