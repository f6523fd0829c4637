"""UsdPhysics: prim types, API schemas, attributes and tokens of OpenUSD's rigid-body schema."""

from __future__ import annotations

from typing import Final

SCHEMA_PREFIX: Final = "Physics"
"""Prefix of the names of prim types and API schemas."""
PROPERTY_PREFIXES: Final = ("physics:", "drive:", "limit:")
"""Prefixes of the names of attributes and relationships."""
NAMESPACE: Final = "physics:"

# -- prim types -------------------------------------------------------------------------------------------------------

COLLISION_GROUP: Final = "PhysicsCollisionGroup"
SCENE: Final = "PhysicsScene"

DISTANCE_JOINT: Final = "PhysicsDistanceJoint"
FIXED_JOINT: Final = "PhysicsFixedJoint"
PRISMATIC_JOINT: Final = "PhysicsPrismaticJoint"
REVOLUTE_JOINT: Final = "PhysicsRevoluteJoint"
SIX_AXIS_JOINT: Final = "PhysicsJoint"
SPHERICAL_JOINT: Final = "PhysicsSphericalJoint"

# -- API schemas ------------------------------------------------------------------------------------------------------

ARTICULATION_ROOT_API: Final = "PhysicsArticulationRootAPI"
COLLISION_API: Final = "PhysicsCollisionAPI"
DRIVE_API: Final = "PhysicsDriveAPI"
FILTERED_PAIRS_API: Final = "PhysicsFilteredPairsAPI"
LIMIT_API: Final = "PhysicsLimitAPI"
MASS_API: Final = "PhysicsMassAPI"
MATERIAL_API: Final = "PhysicsMaterialAPI"
MESH_COLLISION_API: Final = "PhysicsMeshCollisionAPI"
RIGID_BODY_API: Final = "PhysicsRigidBodyAPI"

# -- scenes, bodies, masses -------------------------------------------------------------------------------------------

GRAVITY_DIRECTION: Final = "physics:gravityDirection"
GRAVITY_MAGNITUDE: Final = "physics:gravityMagnitude"
SIMULATION_OWNER: Final = "physics:simulationOwner"

ANGULAR_VELOCITY: Final = "physics:angularVelocity"
KINEMATIC_ENABLED: Final = "physics:kinematicEnabled"
RIGID_BODY_ENABLED: Final = "physics:rigidBodyEnabled"
STARTS_ASLEEP: Final = "physics:startsAsleep"
VELOCITY: Final = "physics:velocity"

CENTER_OF_MASS: Final = "physics:centerOfMass"
DENSITY: Final = "physics:density"
"""Of a body, collider or material."""
DIAGONAL_INERTIA: Final = "physics:diagonalInertia"
MASS: Final = "physics:mass"
PRINCIPAL_AXES: Final = "physics:principalAxes"

# -- colliders, materials, filters ------------------------------------------------------------------------------------

APPROXIMATION: Final = "physics:approximation"
COLLISION_ENABLED: Final = "physics:collisionEnabled"
"""Of a collider, or of the two bodies that a joint connects."""

DYNAMIC_FRICTION: Final = "physics:dynamicFriction"
RESTITUTION: Final = "physics:restitution"
STATIC_FRICTION: Final = "physics:staticFriction"

FILTERED_GROUPS: Final = "physics:filteredGroups"
FILTERED_PAIRS: Final = "physics:filteredPairs"
INVERT_FILTERED_GROUPS: Final = "physics:invertFilteredGroups"
MERGE_GROUP: Final = "physics:mergeGroup"

# -- joints -----------------------------------------------------------------------------------------------------------

BODIES: Final = ("physics:body0", "physics:body1")
"""Relationships to the bodies at both sides of a joint; pairs of names below are ordered the same way."""
LOCAL_POSITIONS: Final = ("physics:localPos0", "physics:localPos1")
LOCAL_ROTATIONS: Final = ("physics:localRot0", "physics:localRot1")

AXIS: Final = "physics:axis"
BREAK_FORCE: Final = "physics:breakForce"
BREAK_TORQUE: Final = "physics:breakTorque"
CONE_ANGLES: Final = ("physics:coneAngle0Limit", "physics:coneAngle1Limit")
EXCLUDE_FROM_ARTICULATION: Final = "physics:excludeFromArticulation"
JOINT_ENABLED: Final = "physics:jointEnabled"
LOWER_LIMIT: Final = "physics:lowerLimit"
MAX_DISTANCE: Final = "physics:maxDistance"
MIN_DISTANCE: Final = "physics:minDistance"
UPPER_LIMIT: Final = "physics:upperLimit"

# -- limits and drives (multiple-apply schemas, one instance per axis) ------------------------------------------------

DOF_TOKENS: Final = ("transX", "transY", "transZ", "rotX", "rotY", "rotZ")
"""Axis tokens of a generic (six-axis) joint."""
ANGULAR: Final = "angular"
"""Drive axis token of a revolute joint."""
LINEAR: Final = "linear"
"""Drive axis token of a prismatic joint."""
DISTANCE: Final = "distance"
"""Limit token of the distance between the two sides of a joint."""

HIGH: Final = "high"
LOW: Final = "low"

DAMPING: Final = "damping"
MAX_FORCE: Final = "maxForce"
STIFFNESS: Final = "stiffness"
TARGET_POSITION: Final = "targetPosition"
TARGET_VELOCITY: Final = "targetVelocity"
TYPE: Final = "type"


STATE_NAMESPACE: Final = "state:"
"""Namespace of `PhysicsJointStateAPI`, which is not part of UsdPhysics but widely used."""
STATE_POSITION: Final = "position"
STATE_VELOCITY: Final = "velocity"


def state_attribute(axis: str, name: str) -> str:
    """Name of the attribute of the position or velocity of an axis: `STATE_POSITION` or `STATE_VELOCITY`."""
    return f"{STATE_NAMESPACE}{axis}:physics:{name}"


def drive_api(axis: str) -> str:
    """Name of the API schema instance of the drive of an axis."""
    return f"{DRIVE_API}:{axis}"


def drive_attribute(axis: str, name: str) -> str:
    """Name of an attribute of the drive of an axis, such as `STIFFNESS`."""
    return f"drive:{axis}:physics:{name}"


def limit_api(axis: str) -> str:
    """Name of the API schema instance of the limit of an axis."""
    return f"{LIMIT_API}:{axis}"


def limit_attribute(axis: str, name: str) -> str:
    """Name of an attribute of the limit of an axis: `LOW` or `HIGH`."""
    return f"limit:{axis}:physics:{name}"
