"""Lights and cameras of descriptions, for images."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from kinema.description import Camera, Light, Robot, World
from kinema.foundation import Diagnostics, Pose
from kinema.render import Camera as RenderCamera, Lamp, Projection, look_at
from kinema.words import mjcf, usd

SUN = 0.03
"""The radius of the disc of a directional light whose file does not say [rad]: a little softer than the sun's."""
_TARGETED = ("targetbody", "targetbodycom")


def default_lamps() -> list[Lamp]:
    """What lights a scene whose files have no lights: one from the front left above, a weaker one from the right."""
    return [
        Lamp(pose=look_at((2.0, -3.0, 5.0), (0.0, 0.0, 0.0)), color=(0.72, 0.70, 0.66), radius=0.06),
        Lamp(pose=look_at((1.0, 5.0, 3.0), (0.0, 0.0, 0.0)), color=(0.16, 0.18, 0.22), radius=0.2, casts_shadow=False),
    ]


def lamps_of(whole: Robot | World, links: Mapping[str, int], base: Pose, diagnostics: Diagnostics) -> list[Lamp]:
    """The lights of a description that are switched on."""
    robots = whole.robots if isinstance(whole, World) else []
    lights = [*whole.lights, *(light for robot in robots for light in robot.lights)]
    lit = [x for x in lights if x.settings.get(mjcf.ACTIVE, True)]
    return [_lamp(light, links, base, diagnostics) for light in lit]


def _lamp(light: Light, links: Mapping[str, int], base: Pose, diagnostics: Diagnostics) -> Lamp:
    given = light.settings
    link = -1 if light.link is None else links.get(light.link, -1)
    if given.get(mjcf.MODE) in _TARGETED:
        diagnostics.note("render.light", f'light "{light.name}" does not follow its target', origin=light.origin)
    bulb = _number(given, mjcf.BULBRADIUS, usd.KEPT + "radius", otherwise=SUN)
    radius = math.radians(0.5 * float(given[usd.KEPT + "angle"])) if usd.KEPT + "angle" in given else SUN
    return Lamp(
        kind=light.kind,
        link=link,
        pose=light.pose if link >= 0 else base @ light.pose,
        color=light.color,
        radius=radius if light.kind == "directional" else bulb,
        falloff=_falloff(given),
        cone=(math.radians(_number(given, mjcf.CUTOFF, otherwise=45.0)), _number(given, mjcf.EXPONENT, otherwise=0.0)),
        casts_shadow=light.casts_shadow,
    )


def _falloff(given: Mapping[str, Any]) -> tuple[float, float, float]:
    """Light does not fall off unless the file says how."""
    said = given.get(mjcf.ATTENUATION)
    if said is None or np.size(said) != 3 or not np.any(said):
        return 1.0, 0.0, 0.0
    a, b, c = (float(x) for x in said)
    return a, b, c


def _number(given: Mapping[str, Any], *names: str, otherwise: float) -> float:
    return next((float(given[name]) for name in names if given.get(name) is not None), otherwise)


def cameras_of(whole: Robot | World, links: Mapping[str, int], base: Pose) -> list[RenderCamera]:
    """The cameras of a description, by the names that they have there."""
    robots = whole.robots if isinstance(whole, World) else []
    cameras = [*whole.cameras, *(camera for robot in robots for camera in robot.cameras)]
    return [_camera(camera, links, base) for camera in cameras]


def _camera(camera: Camera, links: Mapping[str, int], base: Pose) -> RenderCamera:
    link = -1 if camera.link is None else links.get(camera.link, -1)
    flat = camera.settings.get(mjcf.PROJECTION) == mjcf.ORTHOGRAPHIC
    return RenderCamera(
        name=camera.name,
        link=link,
        pose=camera.pose if link >= 0 else base @ camera.pose,
        projection=Projection.ORTHOGRAPHIC if flat else Projection.PINHOLE,
        fov=camera.vertical_fov,
        height=float(camera.settings.get(mjcf.HEIGHT, 1.0)),
        clip=camera.clip or (1e-3, 1e4),
    )
