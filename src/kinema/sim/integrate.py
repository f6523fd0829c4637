"""From velocities to coordinates, on the manifold: quaternions stay quaternions."""

from __future__ import annotations

from collections.abc import Sequence

from kinema.model import Motion
from kinema.trace import Value

from .maths import normalised, quaternion_of, quaternion_product, scale
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
