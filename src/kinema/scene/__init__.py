"""L5: what users hold: a scene, the entities in it, and views of their arrays."""

from .entity import Entity as Entity
from .parts import EntityJoint as EntityJoint, EntityLink as EntityLink
from .pictures import Portrait as Portrait, Style as Style
from .scene import Scene as Scene
from .seen import SceneCameras as SceneCameras, link_rows as link_rows
from .visual_lights import cameras_of as cameras_of, default_lamps as default_lamps
from .visuals import Shown as Shown, stage_of as stage_of
