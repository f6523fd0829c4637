"""MJCF: its elements, and the settings that a description keeps because they mean nothing elsewhere.

Settings are called as MuJoCo calls them. On a node they are kept under `key(name)`, in the `settings` of an actuator,
sensor, camera or light under their plain name.
"""

from __future__ import annotations

from typing import Final

FORMAT: Final = "mjcf"
MIMIC: Final = "kinema:mimic:"
"""What the names of constraints begin with that stand for mimics: our reader makes mimics of them again."""
BASE_NOTE: Final = "kinema:base:"
"""What the names of custom texts begin with that say of a body what holds it where MuJoCo has no word for that."""


def key(name: str) -> str:
    """What a setting is called among the attributes of a node."""
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
"""In the order in which they are usually written."""
KEPT_SECTIONS: Final = (VISUAL, STATISTIC, SIZE, CUSTOM, EXTENSION, DEFORMABLE)
"""Those that are kept as text."""

# -- elements, and what MuJoCo calls the kinds of things that have names ----------------------------------------------

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
"""The kinds of assets, in the order in which they are written."""
TEXTURE_FILES: Final = ("file", "fileright", "fileleft", "fileup", "filedown", "filefront", "fileback")
"""The attributes of a texture that name files."""

# -- settings of several kinds of things ------------------------------------------------------------------------------

ASSETS: Final = "assets"
"""Of the whole model: the names of its assets in their order, by kind. The word is ours."""
CLASS: Final = "class"
DELAY: Final = "delay"
FILES: Final = "files"
"""Of the whole model: the files that the kept texts name, and where they were found. The word is ours."""
GROUP: Final = "group"
HISTORY: Final = "history"
TYPE: Final = "type"
UNUSED_RANGE: Final = "unused_range"
"""Limits that are written down and switched off. The word is ours."""
USER: Final = "user"

# -- of bodies, joints and tendons ------------------------------------------------------------------------------------

CHILDCLASS: Final = "childclass"
INERTIA_AXES: Final = "inertia_axes"
"""The axes of a body's inertia, a quaternion, where its moments leave them open and a medium feels them. The word is
ours."""
SLEEP: Final = "sleep"
SLIDES_ALONE: Final = "slides_alone"
"""Whether MuJoCo takes a body for one that hangs on the world by slides along its principal axes, with nothing on it:
of such it counts the mass alone when it finds how hard constraints are. The word is ours."""

ACTUATORFRCRANGE: Final = "actuatorfrcrange"
ACTUATORGRAVCOMP: Final = "actuatorgravcomp"
DAMPINGPOLY: Final = "dampingpoly"
SPRINGYIELD: Final = "springyield"
STIFFNESSPOLY: Final = "stiffnesspoly"

# -- of geoms, materials and pairs ------------------------------------------------------------------------------------

ADHESION: Final = "adhesion"
ASSET_NAME: Final = "asset_name"
"""What the geom's mesh or height field is called. The word is ours."""
CASTSHADOW: Final = "castshadow"
FITTED_MESH: Final = "fitted_mesh"
"""The mesh that a primitive was fitted to. The word is ours."""
FLUID: Final = "fluid"
MESH_INERTIA: Final = "mesh_inertia"
"""How the inertia of the geom's mesh is made. The word is ours."""
MESH_PLUGIN: Final = "mesh_plugin"
"""The plugin that computes the geom's mesh, as text. The word is ours."""
SHELLINERTIA: Final = "shellinertia"
SURFACEVEL: Final = "surfacevel"
UNUSED_SURFACE: Final = "unused_surface"
"""How a geom would touch others that never does. The word is ours."""
UNREADABLE: Final = "unreadable"
"""That a placeholder stands for the geom's mesh. The word is ours."""

SHININESS: Final = "shininess"
TEXREPEAT: Final = "texrepeat"
TEXTURES: Final = "textures"
TEXUNIFORM: Final = "texuniform"

FRICTION: Final = "friction"
SOLREFFRICTION: Final = "solreffriction"

# -- of constraints and keyframes -------------------------------------------------------------------------------------

DATA: Final = "data"
"""Of a constraint, or of a sensor."""
SITES: Final = "sites"
CONTROLS: Final = "controls"
PLASTIC: Final = "plastic"

# -- of actuators -----------------------------------------------------------------------------------------------------

ACTEARLY: Final = "actearly"
ARMATURE: Final = "armature"
DAMPING: Final = "damping"
INPUT: Final = "input"

# these words are ours
CONTROL_RANGES: Final = "control_ranges"
"""The range of each of several controls."""
N_ACTIVATIONS: Final = "n_activations"
N_CONTROLS: Final = "n_controls"
SHORTCUT: Final = "shortcut"
"""The element that the actuator was written as."""

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
"""Numbers that MuJoCo has for a light and others do not."""

# -- of the options ---------------------------------------------------------------------------------------------------

DISABLEACTUATOR: Final = "disableactuator"
FLAGS: Final = "flags"
"""What is switched on and off. The word is ours."""
