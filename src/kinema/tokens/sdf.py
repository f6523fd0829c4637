"""SDFormat: the keys of SDFormat settings that a description preserves.

Settings have the names of the elements they come from. On an element they are stored under `attribute_key(name)`, in
the `settings` of a sensor, camera or light under their plain name.
"""

from __future__ import annotations

from typing import Final

FORMAT: Final = "sdf"
KEY_PREFIX: Final = "sdf:"


def attribute_key(name: str) -> str:
    """Key of an SDFormat setting among the attributes of an element."""
    return KEY_PREFIX + name


# -- worlds and models ------------------------------------------------------------------------------------------------

CANONICAL_LINK: Final = "canonical_link"
NAMESPACE: Final = "namespace"
VERSION: Final = "version"
MODEL_FLAGS: Final = ("allow_auto_disable", "enable_wind")

PHYSICS_PARAMETERS: Final = ("real_time_factor", "real_time_update_rate")
PHYSICS_TYPE: Final = "physics_type"

MODELS: Final = "models"
"""Model name -> settings, for a robot composed of several models. This and the following six names are Kinema's."""
TRACKS: Final = "tracks"
"""Link name -> orientation (roll, pitch, yaw) of a track on the link, which drives along its x axis."""
TRACK_PLUGIN: Final = "TrackController"
"""Part of the name of Gazebo's plugin that drives a link as a track."""
MERGED: Final = "merged"
MODEL: Final = "model"
SCOPE: Final = "scope"
"""Model scope of a frame that is attached to the world."""
STATIC: Final = "static"

# -- links and joints -------------------------------------------------------------------------------------------------

FLUID_ADDED_MASS: Final = "fluid_added_mass"
LINK_FLAGS: Final = ("enable_wind", "must_be_base_link")
VELOCITY_DECAY: Final = "velocity_decay"

AXES: Final = ("axis", "axis2")
INITIAL_POSITION: Final = "initial_position"
KINEMA_INITIAL_POSITION: Final = "kinema:initial_position"
"""Initial position of a joint, whose element was removed in SDFormat 1.9."""
KINEMA_BASE: Final = "kinema:base"
"""Of a model: that the file does not say whether the base is fixed."""
KINEMA_NAMESPACE: Final = {"xmlns:kinema": "urn:kinema"}
LIMIT_SETTINGS: Final = ("stiffness", "dissipation")
TYPE: Final = "type"


def limit_key(name: str) -> str:
    """Key of a setting from the `<limit>` of an axis, one of `LIMIT_SETTINGS`."""
    return f"limit_{name}"


def axis_key(axis: str, name: str) -> str:
    """Key of a setting of one of a joint's `AXES`."""
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
MATERIAL_PARAMETERS: Final = ("render_order", "shininess")
PBR: Final = "pbr"
PBR_MAPS: Final = {
    "normal": "normal_map",
    "metallic": "metalness_map",
    "roughness": "roughness_map",
    "occlusion": "ambient_occlusion_map",
    "emission": "emissive_map",
}
"""Texture role of a material -> element in `<metal>`."""
SCRIPT: Final = "script"
SPECULAR: Final = "specular"
"""Of a material or a light."""

# -- surfaces ---------------------------------------------------------------------------------------------------------

COLLIDE_WITHOUT_CONTACT: Final = "collide_without_contact"
COLLIDE_WITHOUT_CONTACT_BITMASK: Final = "collide_without_contact_bitmask"
CONTACT_PARAMETERS: Final = ("poissons_ratio", "elastic_modulus")
FDIR1: Final = "fdir1"
SLIPS: Final = ("slip1", "slip2")
SURFACE_RADIUS: Final = "surface_radius"
THRESHOLD: Final = "threshold"
TORSIONAL: Final = "torsional"
"""Coefficient and radius from which the torsional friction was computed."""
TORSIONAL_SLIP: Final = "torsional_slip"

BULLET: Final = "bullet"
ODE: Final = "ode"
BULLET_FRICTION: Final = ("friction", "friction2", "rolling_friction")
SPLIT_IMPULSE: Final = "split_impulse"
ENGINE_PARAMETERS: Final = (
    *("kp", "kd", "soft_cfm", "soft_erp", "max_vel", "min_depth"),
    *(SPLIT_IMPULSE, "split_impulse_penetration_threshold"),
)
"""Numeric parameters, except `SPLIT_IMPULSE`, which is a flag."""


def engine_key(engine: str, name: str) -> str:
    """Key of a setting for one physics engine, `BULLET` or `ODE`."""
    return f"{engine}_{name}"


# -- sensors, cameras, lights -----------------------------------------------------------------------------------------

SENSOR_FLAGS: Final = ("always_on", "visualize", "enable_metrics")
SENSOR_STRINGS: Final = ("topic", "frame_id")

HORIZONTAL_FOV: Final = "horizontal_fov"
SENSOR: Final = "sensor"
"""Sensor that a camera belongs to."""

DIRECTION: Final = "direction"
LIGHT_FLAGS: Final = ("light_on", "visualize")
LIGHT_PARAMETERS: Final = ("intensity",)
LIGHT_ELEMENTS: Final = ("attenuation", "spot")
"""Elements of a light with several values."""
