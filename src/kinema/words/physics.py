"""UsdPhysics, OpenUSD's schema of rigid bodies: its prim types, API schemas, attributes and tokens."""

from __future__ import annotations

from typing import Final

SCHEMAS: Final = "Physics"
"""How the names of its prim types and API schemas begin."""
PROPERTIES: Final = ("physics:", "drive:", "limit:")
"""How the names of its attributes and relationships begin."""
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
"""Of a body, of a collider, or of a material."""
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
"""For each side of a joint what it is attached to; so with all that come in twos."""
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

# -- limits and drives, which are applied once for each axis ----------------------------------------------------------

SIX: Final = ("transX", "transY", "transZ", "rotX", "rotY", "rotZ")
"""What the axes of a joint are called."""
ANGULAR: Final = "angular"
"""The one axis of a revolute joint, to a drive."""
LINEAR: Final = "linear"
"""The one axis of a prismatic joint, to a drive."""
DISTANCE: Final = "distance"
"""What a limit calls the distance between the two sides of a joint."""

HIGH: Final = "high"
LOW: Final = "low"

DAMPING: Final = "damping"
MAX_FORCE: Final = "maxForce"
STIFFNESS: Final = "stiffness"
TARGET_POSITION: Final = "targetPosition"
TARGET_VELOCITY: Final = "targetVelocity"
TYPE: Final = "type"


STATE_NAMESPACE: Final = "state:"
"""Of `PhysicsJointStateAPI`, which is no part of the schema but written by many."""
STATE_POSITION: Final = "position"
STATE_VELOCITY: Final = "velocity"


def state(axis: str, name: str) -> str:
    """What is said of where an axis is, or of how it moves: `STATE_POSITION` or `STATE_VELOCITY`."""
    return f"{STATE_NAMESPACE}{axis}:physics:{name}"


def drive_api(axis: str) -> str:
    """The schema of the drive on an axis."""
    return f"{DRIVE_API}:{axis}"


def drive(axis: str, name: str) -> str:
    """An attribute of the drive on an axis, `STIFFNESS` and the like."""
    return f"drive:{axis}:physics:{name}"


def limit_api(axis: str) -> str:
    """The schema of the limit on an axis."""
    return f"{LIMIT_API}:{axis}"


def limit(axis: str, name: str) -> str:
    """An attribute of the limit on an axis: `LOW` or `HIGH`."""
    return f"limit:{axis}:physics:{name}"
