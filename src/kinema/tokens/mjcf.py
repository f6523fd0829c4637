"""MJCF: element names, and the keys of MJCF settings that a description preserves.

Settings have MuJoCo's names, except those marked as Kinema's. On an element they are stored under
`attribute_key(name)`, in the `settings` of an actuator, sensor, camera or light under their plain name.
"""

from __future__ import annotations

from typing import Final

FORMAT: Final = "mjcf"
MIMIC_PREFIX: Final = "kinema:mimic:"
"""Prefix of the names of equality constraints that represent mimic joints; the reader restores the mimics."""
BASE_TEXT_PREFIX: Final = "kinema:base:"
"""Prefix of the names of custom texts that hold the base type of a body where MJCF cannot express it."""


def attribute_key(name: str) -> str:
    """Key of an MJCF setting among the attributes of an element."""
    return f"{FORMAT}:{name}"


# -- sections ---------------------------------------------------------------------------------------------------------

ACTUATOR: Final = "actuator"
ASSET: Final = "asset"
COMPILER: Final = "compiler"
CONTACT: Final = "contact"
CUSTOM: Final = "custom"
DEFAULT: Final = "default"
DEFORMABLE: Final = "deformable"
EQUALITY: Final = "equality"
EXTENSION: Final = "extension"
KEYFRAME: Final = "keyframe"
OPTION: Final = "option"
ROOT: Final = "mujoco"
SENSOR: Final = "sensor"
SIZE: Final = "size"
STATISTIC: Final = "statistic"
TENDON: Final = "tendon"
VISUAL: Final = "visual"
WORLDBODY: Final = "worldbody"

SECTIONS: Final = (
    *(COMPILER, OPTION, SIZE, VISUAL, STATISTIC, EXTENSION, DEFAULT, ASSET, WORLDBODY),
    *(DEFORMABLE, CONTACT, EQUALITY, TENDON, ACTUATOR, SENSOR, CUSTOM, KEYFRAME),
)
"""Top-level sections in their usual order."""
VERBATIM_SECTIONS: Final = (VISUAL, STATISTIC, SIZE, CUSTOM, EXTENSION, DEFORMABLE)
"""Sections that are preserved as text."""

# -- elements and object types ----------------------------------------------------------------------------------------

BODY: Final = "body"
CAMERA: Final = "camera"
EXCLUDE: Final = "exclude"
FLEX: Final = "flex"
FLEXCOMP: Final = "flexcomp"
FRAME: Final = "frame"
FREEJOINT: Final = "freejoint"
GENERAL: Final = "general"
GEOM: Final = "geom"
HFIELD: Final = "hfield"
JOINT: Final = "joint"
KEY: Final = "key"
LIGHT: Final = "light"
MATERIAL: Final = "material"
MESH: Final = "mesh"
MODEL: Final = "model"
PAIR: Final = "pair"
PLUGIN: Final = "plugin"
SITE: Final = "site"
SKIN: Final = "skin"
TEXTURE: Final = "texture"
XBODY: Final = "xbody"

ASSET_ORDER: Final = (TEXTURE, MATERIAL, MESH, HFIELD)
"""Kinds of assets in the order in which they are written."""
TEXTURE_FILES: Final = ("file", "fileright", "fileleft", "fileup", "filedown", "filefront", "fileback")
"""Attributes of a texture that name image files."""

# -- settings of several elements -------------------------------------------------------------------------------------

ASSETS: Final = "assets"
"""Names of the assets of a model in order, by kind (Kinema's name)."""
CLASS: Final = "class"
DELAY: Final = "delay"
FILES: Final = "files"
"""Files referred to by preserved texts, and their paths (Kinema's name)."""
GROUP: Final = "group"
HISTORY: Final = "history"
TYPE: Final = "type"
UNUSED_RANGE: Final = "unused_range"
"""Limits that are given but disabled (Kinema's name)."""
USER: Final = "user"

# -- of bodies, joints and tendons ------------------------------------------------------------------------------------

CHILDCLASS: Final = "childclass"
INERTIA_AXES: Final = "inertia_axes"
"""Principal axes of inertia of a body as a quaternion, where equal moments leave them undetermined and fluid forces
depend on them (Kinema's name)."""
SLEEP: Final = "sleep"
SIMPLE_SLIDER_BODY: Final = "slides_alone"
"""Whether MuJoCo treats a body as a simple slider: a leaf attached to the world by slides along its principal axes,
whose invweight is computed from its mass only (Kinema's name)."""

ACTUATORFRCRANGE: Final = "actuatorfrcrange"
ACTUATORGRAVCOMP: Final = "actuatorgravcomp"
DAMPINGPOLY: Final = "dampingpoly"
SPRINGYIELD: Final = "springyield"
STIFFNESSPOLY: Final = "stiffnesspoly"

# -- of geoms, materials and pairs ------------------------------------------------------------------------------------

ADHESION: Final = "adhesion"
ASSET_NAME: Final = "asset_name"
"""Name of the mesh or height field asset of a geom (Kinema's name)."""
CASTSHADOW: Final = "castshadow"
FITTED_MESH: Final = "fitted_mesh"
"""Mesh that a primitive was fitted to (Kinema's name)."""
FLUID: Final = "fluid"
MESH_INERTIA: Final = "mesh_inertia"
"""How the inertia of the mesh of a geom is computed (Kinema's name)."""
MESH_PLUGIN: Final = "mesh_plugin"
"""Plugin that computes the mesh of a geom, as text (Kinema's name)."""
SHELLINERTIA: Final = "shellinertia"
SURFACEVEL: Final = "surfacevel"
UNUSED_CONTACT_PARAMETERS: Final = "unused_surface"
"""Contact parameters of a geom that never collides (Kinema's name)."""
UNREADABLE_MESH: Final = "unreadable"
"""Whether a placeholder replaces the mesh of a geom (Kinema's name)."""

SHININESS: Final = "shininess"
TEXREPEAT: Final = "texrepeat"
TEXTURES: Final = "textures"
TEXUNIFORM: Final = "texuniform"

FRICTION: Final = "friction"
SOLREFFRICTION: Final = "solreffriction"

# -- of constraints and keyframes -------------------------------------------------------------------------------------

DATA: Final = "data"
"""Data of an equality constraint or of a sensor."""
SITES: Final = "sites"
CONTROLS: Final = "controls"
PLASTIC: Final = "plastic"

# -- of actuators -----------------------------------------------------------------------------------------------------

ACTEARLY: Final = "actearly"
ARMATURE: Final = "armature"
DAMPING: Final = "damping"
INPUT: Final = "input"

# the following names are Kinema's
CONTROL_RANGES: Final = "control_ranges"
"""Range of each of several controls."""
N_ACTIVATIONS: Final = "n_activations"
N_CONTROLS: Final = "n_controls"
SHORTCUT: Final = "shortcut"
"""Element (actuator shortcut) that the actuator was written as."""

# -- of sensors -------------------------------------------------------------------------------------------------------

DATATYPE: Final = "datatype"
DIM: Final = "dim"
INTERVAL: Final = "interval"
INTPRM: Final = "intprm"
NEEDSTAGE: Final = "needstage"
OBJTYPE: Final = "objtype"
REDUCE: Final = "reduce"
REFTYPE: Final = "reftype"

# -- of cameras and lights --------------------------------------------------------------------------------------------

MODE: Final = "mode"
TARGET: Final = "target"

HEIGHT: Final = "height"
INTRINSIC: Final = "intrinsic"
IPD: Final = "ipd"
ORTHOGRAPHIC: Final = "orthographic"
OUTPUT: Final = "output"
PROJECTION: Final = "projection"
SENSORSIZE: Final = "sensorsize"

ACTIVE: Final = "active"
AMBIENT: Final = "ambient"
ATTENUATION: Final = "attenuation"
BULBRADIUS: Final = "bulbradius"
CUTOFF: Final = "cutoff"
EXPONENT: Final = "exponent"
INTENSITY: Final = "intensity"
RANGE: Final = "range"
SOFTNESS: Final = "softness"
SPECULAR: Final = "specular"
LIGHT_SETTINGS: Final = (
    *(AMBIENT, SPECULAR, ATTENUATION, CUTOFF, EXPONENT),
    *(BULBRADIUS, INTENSITY, RANGE, SOFTNESS),
)
"""Numeric settings of a light that other formats do not have."""

# -- of the options ---------------------------------------------------------------------------------------------------

DISABLEACTUATOR: Final = "disableactuator"
FLAGS: Final = "flags"
"""Enabled and disabled flags (Kinema's name)."""
