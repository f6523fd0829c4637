"""PhysX's USD schemas: the attributes that have a counterpart in the description."""

from __future__ import annotations

from typing import Final

SCHEMA_PREFIX: Final = "Physx"
"""Prefix of the names of API schemas."""
NAMESPACE_PREFIX: Final = "physx"
"""Common prefix of the attribute namespaces, one per schema."""

RIGID_BODY_API: Final = "PhysxRigidBodyAPI"

SURFACE_VELOCITY_API: Final = "PhysxSurfaceVelocityAPI"
SURFACE_VELOCITY: Final = "physxSurfaceVelocity:surfaceVelocity"
SURFACE_ANGULAR_VELOCITY: Final = "physxSurfaceVelocity:surfaceAngularVelocity"
SURFACE_VELOCITY_ENABLED: Final = "physxSurfaceVelocity:surfaceVelocityEnabled"
SURFACE_VELOCITY_LOCAL_SPACE: Final = "physxSurfaceVelocity:surfaceVelocityLocalSpace"

ARMATURE: Final = "physxJoint:armature"
CONTINUOUS_COLLISION: Final = ("physxRigidBody:enableCCD", "physxRigidBody:enableSpeculativeCCD")
DISABLE_GRAVITY: Final = "physxRigidBody:disableGravity"
ENABLED_SELF_COLLISIONS: Final = "physxArticulation:enabledSelfCollisions"
JOINT_FRICTION: Final = "physxJoint:jointFriction"
MAX_JOINT_VELOCITY: Final = "physxJoint:maxJointVelocity"

LIMIT_NAMESPACE: Final = "physxLimit"
"""Namespace of limit attributes, followed by the axis and one of the following three; angular values are per degree."""
LIMIT_STIFFNESS: Final = "stiffness"
LIMIT_DAMPING: Final = "damping"
LIMIT_RESTITUTION: Final = "restitution"
CONE_LIMIT: Final = "cone"
"""Axis token of the limit of a spherical joint."""


def limit_attribute(axis: str, name: str) -> str:
    """Name of an attribute of the limit of an axis."""
    return f"{LIMIT_NAMESPACE}:{axis}:{name}"


MIMIC_NAMESPACE: Final = "physxMimicJoint"
"""Namespace of mimic attributes, followed by the axis and one of the following three."""
MIMIC_GEARING: Final = "gearing"
MIMIC_OFFSET: Final = "offset"
MIMIC_REFERENCE: Final = "referenceJoint"
