"""Studio set-up for pictures of a robot: floor, sky, key light and fill light."""

from __future__ import annotations

import numpy as np

from kinema.core import Array, Pose

from .cameras import look_at
from .geometry import Geometry, GeometryKind
from .render_scene import Instance, LightSource, RenderScene, Sky
from .surfaces import Surface

FLOOR_COLOR = (0.80, 0.81, 0.83, 1.0)
MAX_ALBEDO_SCALE = 0.9
"""Factor on colours of non-metals in path-traced images: full white would reflect all light and look flat."""
STUDIO_EXPOSURE = 0.75
"""Exposure that shows a white surface facing the key light as white."""


def set_up_studio(
    render_scene: RenderScene, lower: Array, upper: Array, *, path_traced: bool, replace_lights: bool = True
) -> None:
    """Add a floor and studio lighting to a render scene, in place.

    A floor is added slightly below the lowest point unless the scene has an infinite plane. For the path tracer,
    colours are scaled down to realistic albedos.

    Args:
        render_scene: the scene, modified in place.
        lower: lower corner of the bounding box of the content [m].
        upper: upper corner of the bounding box of the content [m].
        path_traced: whether for the path tracer, which is lit by the sky; otherwise ambient light and a fill light are
            used.
        replace_lights: whether to replace existing lights and sky.
    """
    if not any(i.geometry.is_infinite for i in render_scene.instances):
        # slightly below the lowest point, so that nothing intersects the floor
        pose = Pose.translation([0.0, 0.0, float(lower[2]) - 1e-3 * float(np.linalg.norm(upper - lower))])
        floor = Surface(name="floor", color=FLOOR_COLOR, roughness=0.45, specular=0.35)
        index = len(render_scene.instances)
        render_scene.instances.append(
            Instance(
                geometry=Geometry(GeometryKind.PLANE), surface=floor, pose=pose, entity=-1, shape=index, name="floor"
            )
        )
    if path_traced:
        _limit_albedo(render_scene)
    if not replace_lights:
        return
    key, fill = look_at((1.5, -3.0, 4.0), (0, 0, 0)), look_at((1.0, 5.0, 3.0), (0, 0, 0))
    if path_traced:
        render_scene.sky = Sky(zenith=(0.30, 0.34, 0.40), horizon=(0.52, 0.54, 0.57), ground=(0.2, 0.2, 0.2))
        render_scene.lights = [LightSource(pose=key, color=(1.45, 1.38, 1.28), radius=0.12)]
        return
    render_scene.sky = Sky(
        zenith=(0.86, 0.90, 0.96), horizon=(0.92, 0.94, 0.97), ground=(0.55, 0.54, 0.53), ambient=0.48
    )
    render_scene.lights = [
        LightSource(pose=key, color=(0.55, 0.54, 0.51)),
        LightSource(pose=fill, color=(0.13, 0.14, 0.17), casts_shadow=False),
    ]


def _limit_albedo(render_scene: RenderScene) -> None:
    """Scale the base colours of all surfaces other than metal and glass by `MAX_ALBEDO_SCALE`, in place."""
    surfaces = [i.surface for i in render_scene.instances if i.surface is not None]
    surfaces += [s for i in render_scene.instances if i.geometry.triangles for s in i.geometry.triangles.surfaces]
    for surface in {id(s): s for s in surfaces}.values():
        if surface.metallic < 0.5 and not surface.ior:
            red, green, blue, opacity = surface.color
            surface.color = (MAX_ALBEDO_SCALE * red, MAX_ALBEDO_SCALE * green, MAX_ALBEDO_SCALE * blue, opacity)
