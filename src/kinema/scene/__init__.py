"""L5: what users hold: a scene, the entities in it, and views of their arrays."""

from typing import TYPE_CHECKING

from kinema.foundation import export_lazily

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
from .randomizing import RANDOM_KINDS as RANDOM_KINDS
from .scene import Scene as Scene
from .states import SceneState as SceneState

if TYPE_CHECKING:
    from .exports import *  # noqa: F403
else:
    export_lazily(__name__, "exports")  # with the renderer
