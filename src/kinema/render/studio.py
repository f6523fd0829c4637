"""A place to take pictures in: a floor, a bright sky, a large soft light."""

from __future__ import annotations

import numpy as np

from kinema.foundation import Array, Pose

from .cameras import look_at
from .geometry import Geometry, Kind
from .stage import Instance, Lamp, Sky, Stage
from .surfaces import Surface

FLOOR = (0.80, 0.81, 0.83, 1.0)
WHITEST = 0.9
"""What files call white is shown as white paint, which reflects four fifths of the light; all of it would look flat."""


STUDIO_EXPOSURE = 0.75
"""What the light of the studio is multiplied by: white paint that faces the lamp comes out white."""


def furnish(stage: Stage, low: Array, high: Array, *, traced: bool, lights: bool = True) -> None:
    """Put what is on a stage into a studio.

    Args:
        stage: gets a floor at the height of its lowest point, unless it has one, and other lights.
        low: the lower corner of the box around all that is to be seen [m].
        high: its upper corner.
        traced: whether for the path tracer, whose sky lights the scene by itself; else surfaces get a share of it.
        lights: whether to replace the lights that are there.
    """
    if not any(i.geometry.is_endless for i in stage.instances):
        # below the lowest point by a little, so that nothing is in the floor
        place = Pose.translation([0.0, 0.0, float(low[2]) - 1e-3 * float(np.linalg.norm(high - low))])
        floor = Surface(name="floor", color=FLOOR, roughness=0.45, specular=0.35)
        number = len(stage.instances)
        stage.instances.append(
            Instance(geometry=Geometry(Kind.PLANE), surface=floor, pose=place, entity=-1, shape=number, name="floor")
        )
    if traced:
        _tone_down(stage)
    if not lights:
        return
    main, fill = look_at((1.5, -3.0, 4.0), (0, 0, 0)), look_at((1.0, 5.0, 3.0), (0, 0, 0))
    if traced:
        stage.sky = Sky(zenith=(0.30, 0.34, 0.40), horizon=(0.52, 0.54, 0.57), ground=(0.2, 0.2, 0.2))
        stage.lamps = [Lamp(pose=main, color=(1.45, 1.38, 1.28), radius=0.12)]
        return
    stage.sky = Sky(zenith=(0.86, 0.90, 0.96), horizon=(0.92, 0.94, 0.97), ground=(0.55, 0.54, 0.53), ambient=0.48)
    stage.lamps = [
        Lamp(pose=main, color=(0.55, 0.54, 0.51)),
        Lamp(pose=fill, color=(0.13, 0.14, 0.17), casts_shadow=False),
    ]


def _tone_down(stage: Stage) -> None:
    surfaces = [i.surface for i in stage.instances if i.surface is not None]
    surfaces += [s for i in stage.instances if i.geometry.triangles for s in i.geometry.triangles.surfaces]
    for surface in {id(s): s for s in surfaces}.values():
        if surface.metallic < 0.5 and not surface.glass:
            red, green, blue, opacity = surface.color
            surface.color = (WHITEST * red, WHITEST * green, WHITEST * blue, opacity)
