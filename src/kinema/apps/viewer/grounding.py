"""What holds robots while they play: what their files say, bolts, or nothing but the floor."""

from __future__ import annotations

from collections.abc import Sequence

from kinema.description import Base, Robot
from kinema.foundation import Pose
from kinema.scene import Entity, Plane, Scene

from .exhibit import Exhibit

SAID, BOLTED, FREE = "as in the file", "bolted down", "free, on the floor"
BASES = (SAID, BOLTED, FREE)
FIXED = {SAID: None, BOLTED: True, FREE: False}
"""What a scene is told of each."""


def is_unsaid(exhibits: Sequence[Exhibit]) -> bool:
    """Whether there is a robot of which its file does not say what holds it."""
    return any(_is_unsaid(robot) for exhibit in exhibits for robot in exhibit.robots)


def _is_unsaid(robot: Robot) -> bool:
    return robot.base is Base.UNSPECIFIED and not robot.static and bool(robot.tree().roots)


def add_floor_below(scene: Scene, exhibits: Sequence[Exhibit], entities: Sequence[Entity], floor: Pose) -> None:
    """What is drawn as a floor is one for what would fall for ever: something is free, and no file has any ground.

    Args:
        scene: not yet built.
        exhibits: what is shown.
        entities: what of the scene they are.
        floor: where it is drawn.
    """
    falls = any(joint.kind == "free" for entity in entities for joint in entity.joints)
    grounded = any(
        any(shape.collision for shape in exhibit.statics) or any(robot.static for robot in exhibit.robots)
        for exhibit in exhibits
    )
    if falls and not grounded:
        scene.add(Plane(), pos=floor.position, quat=floor.quaternion, name="floor")
