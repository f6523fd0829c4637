"""Springs and dampers that are more than linear (MJCF): polynomials, and springs that give way for good."""

from __future__ import annotations

import numpy as np

from kinema.description import JointKind, Node
from kinema.foundation import Array
from kinema.words import mjcf

from .draft import Draft, DraftJoint


def polynomial(node: Node, name: str) -> Array:
    """The coefficients of a spring or damper beyond the linear one."""
    return np.array(node.attributes.get(mjcf.key(name)) or (0.0, 0.0), np.float64)


def yield_of(node: Node) -> float:
    """How far a spring is stretched before it gives way."""
    return float(node.attributes.get(mjcf.key(mjcf.SPRINGYIELD)) or np.inf)


def joint_curves(draft: Draft) -> tuple[Array, Array, Array]:
    """Of each degree of freedom: the polynomials of its damper and of its spring, and how far that is stretched."""
    axes = [j for j in draft.joints for _ in j.joint.moving_axes]
    dampers = [polynomial(j.joint, mjcf.DAMPINGPOLY) for j in axes]
    springs = {id(j): _spring(draft, j) for j in draft.joints}
    return (
        np.array(dampers, np.float64).reshape(-1, 2),
        np.array([springs[id(j)] for j in axes], np.float64).reshape(-1, 2),
        np.array([yield_of(j.joint) for j in axes], np.float64),
    )


def _spring(draft: Draft, joint: DraftJoint) -> Array:
    own = polynomial(joint.joint, mjcf.STIFFNESSPOLY)
    if joint.joint.kind is not JointKind.FREE or not own.any():
        return own
    message = f'the spring of the free joint "{joint.name}" is taken to be linear'
    draft.diagnostics.warning("sim.polynomial", message, origin=joint.joint.origin)
    return np.zeros(2)
