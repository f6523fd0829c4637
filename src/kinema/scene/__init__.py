"""L5: what users hold: a scene, the entities in it, and views of their arrays."""

from .draws import Draw as Draw, loguniform as loguniform, normal as normal, uniform as uniform
from .entity import Entity as Entity
from .morphs import (
    Box as Box,
    Capsule as Capsule,
    Cylinder as Cylinder,
    Ellipsoid as Ellipsoid,
    Mesh as Mesh,
    Morph as Morph,
    Plane as Plane,
    Sphere as Sphere,
    Terrain as Terrain,
)
from .parts import EntityJoint as EntityJoint, EntityLink as EntityLink
from .pictures import Portrait as Portrait, Style as Style
from .randomizing import RANDOM_KINDS as RANDOM_KINDS
from .scene import Scene as Scene
from .seen import SceneCameras as SceneCameras, link_rows as link_rows
from .states import SceneState as SceneState
from .visual_lights import cameras_of as cameras_of, default_lamps as default_lamps
from .visuals import Shown as Shown, stage_of as stage_of
