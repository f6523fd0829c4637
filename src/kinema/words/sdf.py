"""SDFormat: the settings that a description keeps because they mean nothing elsewhere.

They are called as the format calls the elements that they come from. On a node they are kept under `key(name)`, in the
`settings` of a sensor, camera or light under their plain name.
"""

from __future__ import annotations

from typing import Final

FORMAT: Final = "sdf"
NAMESPACE_OF_KEYS: Final = "sdf:"


def key(name: str) -> str:
    """What a setting is called among the attributes of a node."""
    return NAMESPACE_OF_KEYS + name


# -- worlds and models ------------------------------------------------------------------------------------------------

CANONICAL_LINK: Final = "canonical_link"
NAMESPACE: Final = "namespace"
VERSION: Final = "version"
MODEL_FLAGS: Final = ("allow_auto_disable", "enable_wind")

PHYSICS_NUMBERS: Final = ("real_time_factor", "real_time_update_rate")
PHYSICS_TYPE: Final = "physics_type"

MODELS: Final = "models"
"""Name -> settings, where several models are one robot. This word and the next four are ours."""
MERGED: Final = "merged"
MODEL: Final = "model"
SCOPE: Final = "scope"
"""Where a frame stands that is in the world."""
STATIC: Final = "static"

# -- links and joints -------------------------------------------------------------------------------------------------

FLUID_ADDED_MASS: Final = "fluid_added_mass"
LINK_FLAGS: Final = ("enable_wind", "must_be_base_link")
VELOCITY_DECAY: Final = "velocity_decay"

AXES: Final = ("axis", "axis2")
INITIAL_POSITION: Final = "initial_position"
OWN_INITIAL_POSITION: Final = "kinema:initial_position"
"""Where a joint starts: SDFormat 1.9 took the element of that name away, and nobody ever put it to use."""
OWN_BASE: Final = "kinema:base"
"""Of a model: that nothing is said of what holds it."""
OWN_NAMESPACE: Final = {"xmlns:kinema": "urn:kinema"}
LIMIT_SETTINGS: Final = ("stiffness", "dissipation")
TYPE: Final = "type"


def limit(name: str) -> str:
    """A setting of an axis that comes from its `<limit>`, one of `LIMIT_SETTINGS`."""
    return f"limit_{name}"


def of_axis(axis: str, name: str) -> str:
    """A setting of one of a joint's `AXES`."""
    return f"{axis}_{name}"


# -- shapes and materials ---------------------------------------------------------------------------------------------

CAST_SHADOWS: Final = "cast_shadows"
LASER_RETRO: Final = "laser_retro"
MAX_CONTACTS: Final = "max_contacts"
MAX_CONVEX_HULLS: Final = "max_convex_hulls"
META: Final = "meta"
TRANSPARENCY: Final = "transparency"
VISIBILITY_FLAGS: Final = "visibility_flags"

AMBIENT: Final = "ambient"
DOUBLE_SIDED: Final = "double_sided"
MATERIAL_FLAGS: Final = ("lighting", DOUBLE_SIDED)
MATERIAL_NUMBERS: Final = ("render_order", "shininess")
PBR: Final = "pbr"
PBR_MAPS: Final = {
    "normal": "normal_map",
    "metallic": "metalness_map",
    "roughness": "roughness_map",
    "occlusion": "ambient_occlusion_map",
    "emission": "emissive_map",
}
"""What an image says of a surface -> its element in `<metal>`."""
SCRIPT: Final = "script"
SPECULAR: Final = "specular"
"""Of a material, or of a light."""

# -- surfaces ---------------------------------------------------------------------------------------------------------

COLLIDE_WITHOUT_CONTACT: Final = "collide_without_contact"
COLLIDE_WITHOUT_CONTACT_BITMASK: Final = "collide_without_contact_bitmask"
CONTACT_NUMBERS: Final = ("poissons_ratio", "elastic_modulus")
FDIR1: Final = "fdir1"
SLIPS: Final = ("slip1", "slip2")
SURFACE_RADIUS: Final = "surface_radius"
THRESHOLD: Final = "threshold"
TORSIONAL: Final = "torsional"
"""The coefficient and the radius that a torsional friction comes from."""
TORSIONAL_SLIP: Final = "torsional_slip"

BULLET: Final = "bullet"
ODE: Final = "ode"
BULLET_FRICTION: Final = ("friction", "friction2", "rolling_friction")
SPLIT_IMPULSE: Final = "split_impulse"
ENGINE_SETTINGS: Final = (
    *("kp", "kd", "soft_cfm", "soft_erp", "max_vel", "min_depth"),
    *(SPLIT_IMPULSE, "split_impulse_penetration_threshold"),
)
"""Numbers, but for `SPLIT_IMPULSE`, which is a flag."""


def of_engine(engine: str, name: str) -> str:
    """A setting for one physics engine, `BULLET` or `ODE`."""
    return f"{engine}_{name}"


# -- sensors, cameras, lights -----------------------------------------------------------------------------------------

SENSOR_FLAGS: Final = ("always_on", "visualize", "enable_metrics")
SENSOR_TEXTS: Final = ("topic", "frame_id")

HORIZONTAL_FOV: Final = "horizontal_fov"
SENSOR: Final = "sensor"
"""The sensor that a camera is part of."""

DIRECTION: Final = "direction"
LIGHT_FLAGS: Final = ("light_on", "visualize")
LIGHT_NUMBERS: Final = ("intensity",)
LIGHT_PARTS: Final = ("attenuation", "spot")
"""Elements of several numbers."""
