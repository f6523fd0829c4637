"""Public API of the simulation: Scene, Entity, primitive bodies (morphs), random distributions and SceneState."""

from typing import TYPE_CHECKING

from kinema.core import export_lazily

from .entity import Entity as Entity
from .entity_index import EntityJoint as EntityJoint, EntityLink as EntityLink
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
from .randomization import (
    RANDOMIZABLE_PARAMETERS as RANDOMIZABLE_PARAMETERS,
    Distribution as Distribution,
    loguniform as loguniform,
    normal as normal,
    uniform as uniform,
)
from .scene import Scene as Scene
from .state import SceneState as SceneState

if TYPE_CHECKING:
    from .exports import *  # noqa: F403
else:
    export_lazily(__name__, "exports")  # these names import the renderer
