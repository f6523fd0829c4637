"""What Kinema itself writes into a USD stage: all that USD has no word for, so that nothing is lost on the way back.

Other tools do not know these words. The reader trusts them only as far as they agree with what the stage says besides.
"""

from __future__ import annotations

from typing import Final, NamedTuple

NAMESPACE: Final = "kinema:"

# -- the stamp --------------------------------------------------------------------------------------------------------

STAMP: Final = "kinema"
"""The entry of a layer's custom data which says that Kinema wrote it; it holds the next two, among others."""
STAMP_DECIMALS: Final = "decimals"
"""Whether numbers in single precision stand for the shortest decimal that rounds to them."""
STAMP_WORLD: Final = "world"
"""Whether the stage as a whole is a world, however few robots there are in it."""

# -- numbers ----------------------------------------------------------------------------------------------------------

EXACT: Final = "kinema:exact:"
"""Before the name of an attribute: its number in double precision."""
TWINS: Final = {"float": "double", "point3f": "point3d", "vector3f": "vector3d", "float3": "double3", "quatf": "quatd"}
"""Single-precision type -> the type of the exact value beside it."""


class Setting(NamedTuple):
    """An attribute of Kinema's own."""

    name: str
    type: str
    """As USD calls it."""
    may_be_infinite: bool = False


DECIMALS: Final = Setting("kinema:decimals", "bool")
"""Whether the points of a mesh stand for decimals."""

# -- names and order --------------------------------------------------------------------------------------------------

NAME: Final = Setting("kinema:name", "string")
NAME_IS_GENERATED: Final = Setting("kinema:nameIsGenerated", "bool")
ORDER: Final = Setting("kinema:order", "int")

PLACE: Final = Setting("kinema:place", "int")
"""The place of a sensor or the like among all of its kind, over all robots."""
ATTRIBUTES: Final = Setting("kinema:attributes", "string")
"""What only the format that a node was read from has a word for, as JSON."""
ASSETS: Final = Setting("kinema:assets", "string")
"""Assets of an MJCF file that no shape shows, as JSON: a list of tags and texts."""
SETTINGS: Final = Setting("kinema:settings", "string")
"""The same of the settings of an actuator, camera or light."""

# -- what USD has no prim for -----------------------------------------------------------------------------------------

RECORD: Final = Setting("kinema:record", "token")
"""What a prim stands for that USD has no type for: the next three."""
RECORD_CONSTRAINT: Final = "constraint"
RECORD_KEYFRAME: Final = "keyframe"
RECORD_SENSOR: Final = "sensor"


def field(record: str, name: str) -> str:
    """The attribute for a field of a record."""
    return f"{NAMESPACE}{record}:{name}"


# -- robots and links -------------------------------------------------------------------------------------------------

BASE: Final = Setting("kinema:base", "token")
ROBOT: Final = Setting("kinema:robot", "string")
ROOT: Final = "kinema:root"
"""A relationship: the link that a robot's tree begins at."""

GRAVITY_SCALE: Final = Setting("kinema:gravityScale", "double")
INERTIA_IS_COMPUTED: Final = Setting("kinema:inertiaIsComputed", "bool")
MASSLESS: Final = Setting("kinema:massless", "bool")
MASSLESS_CENTER: Final = Setting("kinema:massless:center", "double3")
MASSLESS_INERTIA: Final = Setting("kinema:massless:inertia", "double[]")
MASSLESS_MASS: Final = Setting("kinema:massless:mass", "double")
STATIC_LINK: Final = Setting("kinema:staticLink", "bool")

# -- joints -----------------------------------------------------------------------------------------------------------

AXES: Final = Setting("kinema:axes", "token[]")
CONE_IS_TOTAL: Final = Setting("kinema:coneIsTotal", "bool")
DIRECTIONS: Final = Setting("kinema:directions", "double3[]")
FRAME: Final = Setting("kinema:frame", "quatd")
IMPLICIT: Final = Setting("kinema:implicit", "bool")
KIND: Final = Setting("kinema:kind", "token")
PITCH: Final = Setting("kinema:pitch", "double")
REFERENCE: Final = Setting("kinema:reference", "double[]")
REFERENCE_IS_FOLDED: Final = Setting("kinema:referenceIsFolded", "bool")
STATE: Final = Setting("kinema:state", "double[]")
"""Where a joint starts that is more than half a turn away from where its frames coincide."""

IMPLIED: Final = Setting("kinema:implied", "token[]")
"""What the stage says only because USD needs to be told so; the next three."""
IMPLIED_ARTICULATION_ROOT: Final = "articulationRoot"
IMPLIED_EXCLUSION: Final = "excludeFromArticulation"
IMPLIED_SWITCH: Final = "jointEnabled"

FREE_JOINT: Final = Setting("kinema:freeJoint", "string")
"""The name of a body's free joint, which USD says by having none."""
FREE_JOINT_COLLISION: Final = Setting("kinema:freeJoint:collisionEnabled", "bool")
FREE_JOINT_ORDER: Final = Setting("kinema:freeJoint:order", "int")
FREE_JOINT_PARENT: Final = "kinema:freeJoint:parent"
"""A relationship."""
FREE_JOINT_POSITIONS: Final = tuple(Setting(f"kinema:freeJoint:localPos{side}", "double3") for side in (0, 1))
FREE_JOINT_ROTATIONS: Final = tuple(Setting(f"kinema:freeJoint:localRot{side}", "quatd") for side in (0, 1))

CONSTRAINT: Final = Setting("kinema:constraint", "token")
MIMIC_IS_CONSTRAINT: Final = Setting("kinema:mimicIsConstraint", "string")
MIMIC_NAME_IS_GENERATED: Final = Setting("kinema:mimicNameIsGenerated", "bool")


def axis(field: str) -> Setting:
    """A field of `Axis` for each axis of a joint."""
    return Setting(f"kinema:axis:{field}", "double[]", may_be_infinite=True)


def limit(token: str) -> Setting:
    """The limits of an axis where USD's own would say that it is locked."""
    return Setting(f"kinema:limit:{token}", "double2", may_be_infinite=True)


# -- shapes and materials ---------------------------------------------------------------------------------------------

IS_SELF_COLLISION: Final = Setting("kinema:isSelfCollision", "bool")
NO_MARKER: Final = Setting("kinema:noMarker", "bool")

UNSEEN: Final = Setting("kinema:unseen", "bool")
"""That a shape is neither seen nor touched, such as one that tendons wrap around."""

SOLID: Final = Setting("kinema:solid", "token")
"""What a mesh or a slab stands for; the next three."""
SOLID_ELLIPSOID: Final = "ellipsoid"
SOLID_HEIGHT_FIELD: Final = "heightfield"
SOLID_PLANE: Final = "plane"
SOLID_NUMBERS: Final = Setting("kinema:solid:numbers", "double[]")

DYNAMIC_FRICTION_2: Final = Setting("kinema:dynamicFriction2", "double")
TEXTURE: Final = Setting("kinema:texture", "asset")
COLOR: Final = Setting("kinema:color", "double[]")
"""The base colour that an image is multiplied by, empty for none, where the stage has the mean colour of both."""
COLOR_SHOWN: Final = Setting("kinema:color:shown", "double3")
"""That mean colour: where the stage has another one by now, that counts."""
IMAGE_COLOR: Final = Setting("kinema:imageColor", "double3")
"""The mean colour of an image that USD cannot lay on a shape."""
AROUND: Final = Setting("kinema:around", "double[]")
"""How six images lie around a mesh (`CubeProjection`): three rows of four numbers, and the pixels along a side."""
SPECULAR: Final = Setting("kinema:specular", "double")
REFLECTANCE: Final = Setting("kinema:reflectance", "double")
STRENGTH: Final = Setting("kinema:strength", "double")
"""How much of a normal map counts."""
SHININESS: Final = Setting("kinema:shininess", "double")
"""MuJoCo's, from which the roughness follows that a stage is told."""
UNSET: Final = Setting("kinema:unset", "token[]")
"""What a surface does not say although USD is told a number."""
UNSET_FIELDS: Final = {
    "staticFriction": "static_friction",
    "dynamicFriction": "dynamic_friction",
    "restitution": "restitution",
}
"""The words in `UNSET` -> fields of `PhysicsMaterial`."""

# -- cameras ----------------------------------------------------------------------------------------------------------

RESOLUTION: Final = Setting("kinema:resolution", "double2")
VERTICAL_FOV: Final = Setting("kinema:verticalFov", "double")
