"""L5: what users hold: a scene, the entities in it, and views of their arrays."""

from .entity import Entity as Entity
from .parts import EntityJoint as EntityJoint, EntityLink as EntityLink
from .scene import Scene as Scene
