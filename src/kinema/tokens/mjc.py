"""MuJoCo's USD schemas (mjcPhysics): prim types, API schemas and attributes."""

from __future__ import annotations

from typing import Final

SCHEMA_PREFIX: Final = "Mjc"
"""Prefix of the names of prim types and API schemas."""
NAMESPACE: Final = "mjc:"

ACTUATOR: Final = "MjcActuator"
TENDON: Final = "MjcTendon"

COLLISION_API: Final = "MjcCollisionAPI"
IMAGEABLE_API: Final = "MjcImageableAPI"
JOINT_API: Final = "MjcJointAPI"
SCENE_API: Final = "MjcSceneAPI"
SITE_API: Final = "MjcSiteAPI"

# -- scenes -----------------------------------------------------------------------------------------------------------

COMPILER_ANGLE: Final = "mjc:compiler:angle"
FLAG_GRAVITY: Final = "mjc:flag:gravity"
TIMESTEP: Final = "mjc:option:timestep"

OPTIONS: Final = {
    **dict.fromkeys(("integrator", "cone", "jacobian", "solver"), "token"),
    **{"impratio": "double", "iterations": "int", "tolerance": "double"},
    **{"ls_iterations": "int", "ls_tolerance": "double", "noslip_iterations": "int", "noslip_tolerance": "double"},
}
"""Options of a scene with the same names as in MJCF, and their USD types."""


def option_attribute(name: str) -> str:
    """Name of the attribute of one of `OPTIONS`."""
    return f"mjc:option:{name}"


# -- soft constraints -------------------------------------------------------------------------------------------------

MARGIN: Final = "mjc:margin"

CONTACT_SOLVER: Final = ("mjc:solref", "mjc:solimp", MARGIN)
"""Attributes of solref, solimp and margin of contacts."""
LIMIT_SOLVER: Final = ("mjc:solreflimit", "mjc:solimplimit", MARGIN)
"""Attributes of solref, solimp and margin of limits."""
FRICTION_SOLVER: Final = ("mjc:solreffriction", "mjc:solimpfriction")
"""Attributes of solref and solimp of friction loss."""

# -- shapes -----------------------------------------------------------------------------------------------------------

CONDIM: Final = "mjc:condim"
GAP: Final = "mjc:gap"
GROUP: Final = "mjc:group"
MAX_HULL_VERTICES: Final = "mjc:maxhullvert"
PRIORITY: Final = "mjc:priority"
ROLLING_FRICTION: Final = "mjc:rollingfriction"
SOLMIX: Final = "mjc:solmix"
TORSIONAL_FRICTION: Final = "mjc:torsionalfriction"

# -- joints and tendons -----------------------------------------------------------------------------------------------

ARMATURE: Final = "mjc:armature"
DAMPING: Final = "mjc:damping"
FRICTION_LOSS: Final = "mjc:frictionloss"
REF: Final = "mjc:ref"
SPRING_REF: Final = "mjc:springref"
STIFFNESS: Final = "mjc:stiffness"

ACTUATOR_FORCE_LIMITED: Final = "mjc:actuatorfrclimited"
ACTUATOR_FORCE_RANGE: Final = "mjc:actuatorfrcrange"
LIMITED: Final = "mjc:limited"
RANGE: Final = "mjc:range"

PATH: Final = "mjc:path"
PATH_COEFFICIENTS: Final = "mjc:path:coef"
PATH_DIVISORS: Final = "mjc:path:divisors"
PATH_INDICES: Final = "mjc:path:indices"
PATH_SEGMENTS: Final = "mjc:path:segments"
SIDE_SITES: Final = "mjc:sideSites"
SIDE_SITE_INDICES: Final = "mjc:sideSites:indices"
SPRING_LENGTH: Final = "mjc:springlength"

COLOR: Final = "mjc:rgba"
TENDON_TYPE: Final = "mjc:type"
WIDTH: Final = "mjc:width"

# -- actuators --------------------------------------------------------------------------------------------------------

TARGET: Final = "mjc:target"
CRANK_LENGTH: Final = "mjc:crankLength"
GEAR: Final = "mjc:gear"
JOINT_IN_PARENT: Final = "mjc:jointInParent"
REFERENCE_SITE: Final = "mjc:refSite"
SLIDER_SITE: Final = "mjc:sliderSite"

BIAS_PARAMETERS: Final = "mjc:biasPrm"
BIAS_TYPE: Final = "mjc:biasType"
DYNAMICS_PARAMETERS: Final = "mjc:dynPrm"
DYNAMICS_TYPE: Final = "mjc:dynType"
GAIN_PARAMETERS: Final = "mjc:gainPrm"
GAIN_TYPE: Final = "mjc:gainType"

ACTIVATION_LIMITED: Final = "mjc:actLimited"
ACTIVATION_RANGE: Final = "mjc:actRange"
CONTROL_LIMITED: Final = "mjc:ctrlLimited"
CONTROL_RANGE: Final = "mjc:ctrlRange"
FORCE_LIMITED: Final = "mjc:forceLimited"
FORCE_RANGE: Final = "mjc:forceRange"
LENGTH_RANGE: Final = "mjc:lengthRange"

ACT_DIM: Final = "mjc:actDim"
ACT_EARLY: Final = "mjc:actEarly"
INHERIT_RANGE: Final = "mjc:inheritRange"


def range_attributes(name: str) -> tuple[str, str]:
    """Names of the two attributes of a range: minimum and maximum."""
    return f"{name}:min", f"{name}:max"
