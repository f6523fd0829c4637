"""PhysX's schemas for USD, as far as they say something that the description knows."""

from __future__ import annotations

from typing import Final

SCHEMAS: Final = "Physx"
"""How the names of its API schemas begin."""
NAMESPACE: Final = "physx"
"""How the namespaces of its attributes begin: each schema has one of its own."""

RIGID_BODY_API: Final = "PhysxRigidBodyAPI"

ARMATURE: Final = "physxJoint:armature"
DISABLE_GRAVITY: Final = "physxRigidBody:disableGravity"
ENABLED_SELF_COLLISIONS: Final = "physxArticulation:enabledSelfCollisions"
JOINT_FRICTION: Final = "physxJoint:jointFriction"
MAX_JOINT_VELOCITY: Final = "physxJoint:maxJointVelocity"

LIMIT_NAMESPACE: Final = "physxLimit"
"""Followed by the axis, then by one of the next three; forces are per degree, as the schema's own."""
LIMIT_STIFFNESS: Final = "stiffness"
LIMIT_DAMPING: Final = "damping"
LIMIT_RESTITUTION: Final = "restitution"
CONE: Final = "cone"
"""What the limit of a spherical joint is called there."""


def limit(axis: str, name: str) -> str:
    """An attribute of the limit on an axis."""
    return f"{LIMIT_NAMESPACE}:{axis}:{name}"


MIMIC_NAMESPACE: Final = "physxMimicJoint"
"""Followed by the axis, then by one of the next three."""
MIMIC_GEARING: Final = "gearing"
MIMIC_OFFSET: Final = "offset"
MIMIC_REFERENCE: Final = "referenceJoint"
