"""Kinema's own custom attributes and metadata in USD stages, for data that USD has no schema for.

Other tools ignore these names. The reader uses the values only as far as they agree with the rest of the stage.
"""

from __future__ import annotations

import functools
from typing import Final, NamedTuple

NAMESPACE: Final = "kinema:"

# -- custom layer data ------------------------------------------------------------------------------------------------

CUSTOM_DATA_KEY: Final = "kinema"
"""Entry of a layer's custom data that marks layers written by Kinema; holds the two following keys, among others."""
CUSTOM_DATA_DECIMALS: Final = "decimals"
"""Whether single-precision numbers represent the shortest decimals that round to them."""
CUSTOM_DATA_WORLD: Final = "world"
"""Whether the stage is a world, even with a single robot."""

# -- exact numbers ----------------------------------------------------------------------------------------------------

EXACT_PREFIX: Final = "kinema:exact:"
"""Prefix of the attribute with the double-precision value of another attribute."""
EXACT_TYPES: Final = {
    "float": "double",
    "point3f": "point3d",
    "vector3f": "vector3d",
    "float3": "double3",
    "quatf": "quatd",
}
"""Single-precision type -> type of the attribute with the exact value."""


class CustomAttribute(NamedTuple):
    """Name and type of a custom attribute of Kinema."""

    name: str
    type: str
    """USD type name."""
    field: str = ""
    """Class and field of the description, such as `Link.gravity_scale`, if the attribute is the value of one field."""
    may_be_infinite: bool = False
    """Whether values may be infinite."""


DECIMALS: Final = CustomAttribute("kinema:decimals", "bool")
"""Whether the points of a mesh represent shortest decimals."""

# -- names and order --------------------------------------------------------------------------------------------------

NAME: Final = CustomAttribute("kinema:name", "string")
ORDER: Final = CustomAttribute("kinema:order", "int")

GLOBAL_ORDER: Final = CustomAttribute("kinema:place", "int", "Node.order")
"""Position of an element (a sensor, ...) among all elements of its kind in all robots."""
ATTRIBUTES: Final = CustomAttribute("kinema:attributes", "string")
"""Format-specific attributes of an element, as JSON."""
ASSETS: Final = CustomAttribute("kinema:assets", "string")
"""Assets of an MJCF file that no shape uses, as JSON: a list of tags and XML texts."""
SETTINGS: Final = CustomAttribute("kinema:settings", "string")
"""Format-specific settings of an actuator, camera or light, as JSON."""

# -- records without a USD prim type ----------------------------------------------------------------------------------

RECORD: Final = CustomAttribute("kinema:record", "token")
"""Kind of element that a typeless prim represents: one of the following three."""
RECORD_CONSTRAINT: Final = "constraint"
RECORD_KEYFRAME: Final = "keyframe"
RECORD_SENSOR: Final = "sensor"


def record_attribute(record: str, name: str) -> str:
    """Name of the attribute that holds a field of a record."""
    return f"{NAMESPACE}{record}:{name}"


# -- robots and links -------------------------------------------------------------------------------------------------

BASE: Final = CustomAttribute("kinema:base", "token")
ROBOT: Final = CustomAttribute("kinema:robot", "string")
ROOT: Final = "kinema:root"
"""Relationship to the root link of a robot."""

INERTIA_IS_COMPUTED: Final = CustomAttribute("kinema:inertiaIsComputed", "bool")
MASSLESS: Final = CustomAttribute("kinema:massless", "bool")
MASSLESS_CENTER: Final = CustomAttribute("kinema:massless:center", "double3")
MASSLESS_INERTIA: Final = CustomAttribute("kinema:massless:inertia", "double[]")
MASSLESS_MASS: Final = CustomAttribute("kinema:massless:mass", "double")
STATIC_LINK: Final = CustomAttribute("kinema:staticLink", "bool")

# -- joints -----------------------------------------------------------------------------------------------------------

AXES: Final = CustomAttribute("kinema:axes", "token[]")
CONE_IS_TOTAL: Final = CustomAttribute("kinema:coneIsTotal", "bool")
AXIS_DIRECTIONS: Final = CustomAttribute("kinema:directions", "double3[]")
AXIS_FRAME: Final = CustomAttribute("kinema:frame", "quatd")
JOINT_KIND: Final = CustomAttribute("kinema:kind", "token")
PITCH: Final = CustomAttribute("kinema:pitch", "double")
REFERENCE: Final = CustomAttribute("kinema:reference", "double[]")
REFERENCE_IS_FOLDED: Final = CustomAttribute("kinema:referenceIsFolded", "bool")
INITIAL_STATE: Final = CustomAttribute("kinema:state", "double[]")
"""Initial coordinates of a joint that starts more than half a turn away from its reference configuration."""

IMPLIED: Final = CustomAttribute("kinema:implied", "token[]")
"""Schema properties that are only authored because USD requires them: any of the following three."""
IMPLIED_ARTICULATION_ROOT: Final = "articulationRoot"
IMPLIED_EXCLUSION: Final = "excludeFromArticulation"
IMPLIED_JOINT_ENABLED: Final = "jointEnabled"

FREE_JOINT: Final = CustomAttribute("kinema:freeJoint", "string")
"""Name of the free joint of a body, which USD represents by the absence of a joint."""
FREE_JOINT_COLLISION: Final = CustomAttribute("kinema:freeJoint:collisionEnabled", "bool")
FREE_JOINT_ORDER: Final = CustomAttribute("kinema:freeJoint:order", "int")
FREE_JOINT_PARENT: Final = "kinema:freeJoint:parent"
"""Relationship to the parent of the free joint."""
FREE_JOINT_POSITIONS: Final = tuple(CustomAttribute(f"kinema:freeJoint:localPos{side}", "double3") for side in (0, 1))
FREE_JOINT_ROTATIONS: Final = tuple(CustomAttribute(f"kinema:freeJoint:localRot{side}", "quatd") for side in (0, 1))

CONSTRAINT: Final = CustomAttribute("kinema:constraint", "token")
MIMIC_IS_CONSTRAINT: Final = CustomAttribute("kinema:mimicIsConstraint", "string")
MIMIC_NAME_IS_GENERATED: Final = CustomAttribute("kinema:mimicNameIsGenerated", "bool")


def limit_attribute(token: str) -> CustomAttribute:
    """Attribute of the limits of an axis for which USD's own limits would mean a locked axis."""
    return CustomAttribute(f"kinema:limit:{token}", "double2", may_be_infinite=True)


# -- shapes and materials ---------------------------------------------------------------------------------------------

IS_SELF_COLLISION: Final = CustomAttribute("kinema:isSelfCollision", "bool")
NO_SITE_MARKER: Final = CustomAttribute("kinema:noMarker", "bool")

NON_VISUAL_NON_COLLISION: Final = CustomAttribute("kinema:unseen", "bool")
"""Whether a shape is neither visual nor collision, such as the wrapping geom of a tendon."""

PRIMITIVE: Final = CustomAttribute("kinema:solid", "token")
"""Primitive that a mesh or cube represents: one of the following three."""
PRIMITIVE_ELLIPSOID: Final = "ellipsoid"
PRIMITIVE_HEIGHT_FIELD: Final = "heightfield"
PRIMITIVE_PLANE: Final = "plane"
PRIMITIVE_PARAMETERS: Final = CustomAttribute("kinema:solid:numbers", "double[]")

DYNAMIC_FRICTION_2: Final = CustomAttribute("kinema:dynamicFriction2", "double", "PhysicsMaterial.dynamic_friction2")
TEXTURE: Final = CustomAttribute("kinema:texture", "asset")
BASE_COLOR: Final = CustomAttribute("kinema:color", "double[]")
"""Base colour that a texture is multiplied by (empty for none), where the stage has the mean colour of the product."""
DISPLAYED_COLOR: Final = CustomAttribute("kinema:color:shown", "double3")
"""Mean colour written to the stage; a colour that was changed since takes precedence."""
MEAN_TEXTURE_COLOR: Final = CustomAttribute("kinema:imageColor", "double3")
"""Mean colour of a texture that cannot be represented in USD."""
CUBE_MAP_PROJECTION: Final = CustomAttribute("kinema:around", "double[]")
"""Projection of a cube map onto a mesh (`CubeProjection`): a 3x4 matrix and the pixels per edge."""
NORMAL_MAP_STRENGTH: Final = CustomAttribute("kinema:strength", "double")
"""Scale of a normal map."""
SHININESS: Final = CustomAttribute("kinema:shininess", "double")
"""MuJoCo's shininess, from which the authored roughness is computed."""
UNSET_PROPERTIES: Final = CustomAttribute("kinema:unset", "token[]")
"""Material properties that are undefined although USD requires a value."""
UNSET_FIELDS: Final = {
    "staticFriction": "static_friction",
    "dynamicFriction": "dynamic_friction",
    "restitution": "restitution",
}
"""Value of `UNSET_PROPERTIES` -> field of `PhysicsMaterial`."""

# -- cameras ----------------------------------------------------------------------------------------------------------

RESOLUTION: Final = CustomAttribute("kinema:resolution", "double2")
VERTICAL_FOV: Final = CustomAttribute("kinema:verticalFov", "double")

# -- fields of the description ----------------------------------------------------------------------------------------

_AXIS_FIELDS: Final = (
    *("armature", "damping", "friction", "velocity", "effort", "stiffness", "spring_reference"),
    *("acceleration", "deceleration", "jerk"),
)
FIELD_ATTRIBUTES: Final = (
    CustomAttribute("kinema:nameIsGenerated", "bool", "Node.name_is_generated"),
    GLOBAL_ORDER,
    CustomAttribute("kinema:gravityScale", "double", "Link.gravity_scale"),
    CustomAttribute("kinema:implicit", "bool", "Joint.implicit"),
    CustomAttribute("kinema:specular", "double", "PbrMaterial.specular"),
    CustomAttribute("kinema:reflectance", "double", "PbrMaterial.reflectance"),
    DYNAMIC_FRICTION_2,
    *(CustomAttribute(f"kinema:axis:{f}", "double[]", f"Axis.{f}", may_be_infinite=True) for f in _AXIS_FIELDS),
)
"""Attributes with the value of one field each; those of `Axis` have the values of all axes of a joint."""


@functools.cache
def field_attributes(class_name: str) -> dict[str, CustomAttribute]:
    """Field -> attribute, of a class of the description."""
    owned = [(a.field.partition("."), a) for a in FIELD_ATTRIBUTES]
    return {field: attribute for (owner, _, field), attribute in owned if owner == class_name}
