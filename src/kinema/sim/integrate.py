"""From velocities to coordinates, on the manifold: quaternions stay quaternions."""

from __future__ import annotations

from collections.abc import Sequence

from kinema.model import Motion
from kinema.trace import Value

from .maths import add, cross, normalised, quaternion_of, quaternion_product, scale
from .tree import Tree


def advance(tree: Tree, q: Sequence[Value], v: Sequence[Value], dt: Value) -> list[Value]:
    """The coordinates after moving at velocity v for a time."""
    result = list(q)
    for node in tree.outward():
        if node.motion is not Motion.BALL:
            i, dof = node.qs[0], node.dofs[0]
            result[i] = q[i] + dt * v[dof]
            continue
        turned = quaternion_of(scale(0.5 * dt, [v[d] for d in node.dofs]))
        moved = normalised(quaternion_product([q[i] for i in node.qs], turned))
        for i, x in zip(node.qs, moved, strict=True):
            result[i] = x
    return result


def shift_rate(tree: Tree, shift: Sequence[Value], v: Sequence[Value]) -> list[Value]:
    """How fast a shift from a fixed state grows at velocity v: v itself, but for rotations, which do not commute.

    For a rotation vector u it is v + u x v / 2 + u x (u x v) / 12 + ... (Munthe-Kaas); that much keeps the order.
    """
    result = list(v)
    for node in tree.outward():
        if node.motion is Motion.BALL:
            u, w = [shift[d] for d in node.dofs], [v[d] for d in node.dofs]
            once = cross(u, w)
            rate = add(w, scale(0.5, once), scale(1.0 / 12.0, cross(u, once)))
            for dof, x in zip(node.dofs, rate, strict=True):
                result[dof] = x
    return result
