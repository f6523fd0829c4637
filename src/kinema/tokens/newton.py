"""Newton's USD schemas: API schemas and attributes."""

from __future__ import annotations

from typing import Final

SCHEMA_PREFIX: Final = "Newton"
"""Prefix of the names of prim types and API schemas."""
NAMESPACE: Final = "newton:"

ARTICULATION_ROOT_API: Final = "NewtonArticulationRootAPI"
COLLISION_API: Final = "NewtonCollisionAPI"
JOINT_API: Final = "NewtonJointAPI"
MASS_API: Final = "NewtonMassAPI"
MATERIAL_API: Final = "NewtonMaterialAPI"
MESH_COLLISION_API: Final = "NewtonMeshCollisionAPI"
MIMIC_API: Final = "NewtonMimicAPI"
SCENE_API: Final = "NewtonSceneAPI"
SDF_COLLISION_API: Final = "NewtonSDFCollisionAPI"
SITE_API: Final = "NewtonSiteAPI"

# -- scenes, articulations, bodies ------------------------------------------------------------------------------------

GRAVITY_ENABLED: Final = "newton:gravityEnabled"
MAX_SOLVER_ITERATIONS: Final = "newton:maxSolverIterations"
TIME_STEPS_PER_SECOND: Final = "newton:timeStepsPerSecond"

JOINTS_ADD_MOBILITY: Final = "newton:jointsAddMobility"
"""Whether the motions of several joints between two bodies add up; otherwise the joints constrain each other."""
SELF_COLLISION_ENABLED: Final = "newton:selfCollisionEnabled"

INERTIA: Final = "newton:inertia"
"""Inertia tensor: xx, yy, zz, xy, xz, yz."""

# -- colliders and materials ------------------------------------------------------------------------------------------

CONTACT_DAMPING: Final = "newton:contactDamping"
CONTACT_STIFFNESS: Final = "newton:contactStiffness"
MAX_HULL_VERTICES: Final = "newton:maxHullVertices"
ROLLING_FRICTION: Final = "newton:rollingFriction"
TORSIONAL_FRICTION: Final = "newton:torsionalFriction"

# -- joints -----------------------------------------------------------------------------------------------------------

ARMATURE: Final = "newton:armature"
DAMPING: Final = "newton:damping"
EFFORT_LIMIT: Final = "newton:effortLimit"
FRICTION: Final = "newton:friction"
LIMIT_DAMPING: Final = "newton:limitDamping"
LIMIT_STIFFNESS: Final = "newton:limitStiffness"
VELOCITY_LIMIT: Final = "newton:velocityLimit"

MIMIC_ENABLED: Final = "newton:mimicEnabled"
MIMIC_FACTOR: Final = "newton:mimicCoef1"
MIMIC_JOINT: Final = "newton:mimicJoint"
MIMIC_OFFSET: Final = "newton:mimicCoef0"
